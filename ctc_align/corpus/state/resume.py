"""How a killed run resumes: which utterances are done and need no repetition.

1. A worker writes the outputs of an utterance, each whole, and the engine stores its part of a
   shared file on disk (`outputs/assembly.py`). Only then is the line appended to the journal
   (`Engine._record`), so every line is true.
2. The next run reads all journals of the folder (`Outcomes`). Within a journal, the last line about
   an utterance counts; between journals, the line of the higher run. Clocks have no influence. If
   two journals disagree in runs with the same number (which started at the same time), the
   utterance is repeated. A line with the status `gone` cancels the outcome.
3. An utterance is not repeated if its line says `done`, its fingerprint (`Fingerprints`: a hash of
   everything that the result depends on) is unchanged, and its outputs have their recorded sizes
   (`Assembly.present`). All others are repeated, except that a failed utterance stays failed
   without `--retry-failed` (`Planner._with_status`).
4. A damaged or missing line may concern any utterance. So all lines before it are *unsure*, because
   a later line about the same utterance may be lost. An unsure line counts only if the outputs have
   the recorded checksums (`verify`). The summary has the number of lines, so the next run detects
   that the last lines of a journal are missing.
"""

from __future__ import annotations

import glob
import hashlib
import json
import logging
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.config import Settings
from ctc_align.corpus.engine.batches import Job
from ctc_align.corpus.outputs.records import file_checksum
from ctc_align.corpus.outputs.shared_files import GroupedUtterance
from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    GONE,
    Journal,
    Line,
    line_at,
    line_key,
    read_entries,
    torn_end,
)
from ctc_align.models import EMBEDDED, FOLDER_FILES, embedded_folder
from ctc_align.models.acoustic_model import family_of
from ctc_align.models.log_probs import LogProbsReader, file_of
from ctc_align.reading import content_hash
from ctc_align.sources.utterance import Checksum, Refused, Utterance

logger = logging.getLogger(__name__)
_MOST_NAMED = 20
"""The maximum number of faults that are listed."""
_MOST_LINES = 1000
"""Lines that are appended together."""


class Outcomes:
    """The outcomes in the journals of a folder, in about 30 bytes per utterance.

    Args:
        paths: the journals; lines that other runs append in the meantime do not count.
        lines: how many lines the last run left in each journal, if known.
        quiet: do not warn of damaged lines.
    """

    def __init__(
        self, paths: Sequence[Path], lines: Mapping[Path, int] | None = None, *, quiet: bool = False
    ) -> None:
        self._paths = list(paths)
        table = _Table()
        for path in paths:
            table.read(path, (lines or {}).get(path, 0), quiet)
        self.last_run = table.last_run
        """The highest number of a run, 0 if there is none."""
        self.last_lines = dict(zip(paths, table.last_lines))
        """The number of the last line of each journal."""
        keys, rows, is_tied, is_unsure = table.latest()
        self._keys = keys
        self._prints = _numbers(table.prints, np.uint64)[rows]
        self._is_good = _numbers(table.good, np.int8)[rows]
        self._offsets = _numbers(table.offsets, np.uint64)[rows]
        self._journals = _numbers(table.journals, np.uint32)[rows]
        self._is_unsure = is_unsure
        self._is_void = is_tied
        self.ties = int(is_tied.sum())
        """The number of utterances about which two journals of one run's number disagree."""
        for key in table.torn:
            self.forget(key)
        self._open: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def __enter__(self) -> Outcomes:
        return self

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            os.close(self._open[1])
            self._open = None

    @property
    def has_unsure(self) -> bool:
        """True if a damaged or missing line may have been a later one about some utterance."""
        return bool(self._is_unsure.any())

    def find(self, key: int) -> tuple[str, int] | None:
        """Return (status, fingerprint) of an utterance, None if it has no valid line."""
        index = self._index(key)
        if index is None or self._is_void[index]:
            return None
        return (DONE if self._is_good[index] else FAILED), int(self._prints[index])

    def is_unsure(self, key: int) -> bool:
        """Return whether a damaged or missing line may have been a later one of this utterance."""
        index = self._index(key)
        return index is not None and bool(self._is_unsure[index])

    def forget(self, key: int) -> None:
        """Forget the outcome of an utterance, so that it is repeated."""
        index = self._index(key)
        if index is not None:
            self._is_void[index] = True

    def line(self, key: int) -> Line | None:
        """Return the last line of an utterance, None if there is none.

        It is returned even if the utterance is to be repeated.
        """
        index = self._index(key)
        return None if index is None else self._read(index)

    def lines(self, keys: np.ndarray | None = None) -> Iterator[Line]:
        """Yield the valid lines, in the journals' order.

        Those of utterances to repeat are among them; `keys` limits them.
        """
        if keys is None:
            wanted = np.ones(len(self._keys), bool)
        else:
            wanted = np.isin(self._keys, keys)
        for index in np.lexsort((self._offsets, self._journals)):
            if wanted[index] and (line := self._read(index)) is not None:
                yield line

    def refused(self) -> Iterator[Line]:
        """Yield the valid lines of refused entries."""
        return (
            line for line in self.lines(self._keys[self._is_good == 0]) if line.origin is not None
        )

    def _read(self, index: int) -> Line | None:
        journal = int(self._journals[index])
        if self._open is None or self._open[0] != journal:
            self.__exit__()
            try:
                flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
                self._open = (journal, os.open(self._paths[journal], flags))
            except OSError:
                return None
        line = line_at(self._open[1], int(self._offsets[index]))
        if line is not None and line.key == int(self._keys[index]):
            return line
        return None

    def _index(self, key: int) -> int | None:
        return index_of(key, self._keys)


def index_of(key: int, keys: np.ndarray) -> int | None:
    """Return the index of a key among keys (uint64, ascending), None if it is not there.

    >>> index_of(7, np.array([3, 7], np.uint64)), index_of(8, np.array([3, 7], np.uint64))
    (1, None)
    """
    index = int(np.searchsorted(keys, np.uint64(key)))
    if index < len(keys) and int(keys[index]) == key:
        return index
    return None


@dataclass
class _Table:
    """All lines of some journals, one row each, from which the valid ones are chosen.

    `runs` never decrease within a journal, so the order of its lines decides there.
    """

    keys: array[int] = field(default_factory=lambda: array("Q"))
    prints: array[int] = field(default_factory=lambda: array("Q"))
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    journals: array[int] = field(default_factory=lambda: array("I"))
    runs: array[int] = field(default_factory=lambda: array("q"))
    good: array[int] = field(default_factory=lambda: array("b"))
    """1: done, 0: failed, -1: gone."""
    says: array[int] = field(default_factory=lambda: array("q"))
    """Hashes of the lines' contents."""
    breaks: list[tuple[int, int]] = field(default_factory=list)
    """For each journal: the row before which lines may be lost, and 1 + their last run."""
    last_lines: list[int] = field(default_factory=list)
    torn: list[int] = field(default_factory=list)
    last_run: int = 0

    def read(self, path: Path, lines: int, quiet: bool) -> None:
        """Add the lines of a journal; the last run left `lines` of them."""
        journal = len(self.breaks)
        run = 0
        last_break = (0, 0)
        last = 0
        for entry in read_entries(path, quiet=quiet):
            line, last = entry.line, entry.number
            if line is None:
                last_break = (len(self.keys), max(run, entry.run, last_break[1] - 1) + 1)
                self.last_run = max(self.last_run, entry.run)
                continue
            is_first_after = last_break[0] == len(self.keys) and last_break[1] > 0
            run = max(run, line.run)
            if entry.is_after_gap or is_first_after:
                last_break = (len(self.keys), run)
            self.keys.append(line.key)
            self.prints.append(int(line.fingerprint or "0", 16))
            self.offsets.append(entry.offset)
            self.journals.append(journal)
            self.runs.append(run)
            self.good.append(-1 if line.status == GONE else line.status == DONE)
            self.says.append(
                hash(
                    (
                        line.status,
                        line.fingerprint,
                        line.reason,
                        line.result.loss,
                        repr(line.result.files),
                        line.result.row,
                    )
                )
            )
        end, torn = torn_end(path)
        if torn is not None:
            self.torn.append(line_key(torn))
        if (end and torn is None) or last < lines:
            last_break = (len(self.keys), run + 1)
            if not quiet:
                if end and torn is None:
                    found = "is not the beginning of a line"
                else:
                    found = f"is line {last} of {lines}"
                logger.warning("%s: its end %s: lines are missing", path, found)
        self.breaks.append(last_break)
        self.last_lines.append(last)
        self.last_run = max(self.last_run, run)

    def latest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return for each key, ascending, what the journals say of it.

        This is the key, its valid row, whether it is tied, and whether it is unsure.
        """
        keys = _numbers(self.keys, np.uint64)
        runs = _numbers(self.runs, np.int64)
        journals = _numbers(self.journals, np.uint32)
        says = _numbers(self.says, np.int64)
        order = np.lexsort((np.arange(len(keys)), runs, keys))
        keys, runs, journals, says = keys[order], runs[order], journals[order], says[order]
        is_last = np.ones(len(keys), bool)
        is_last[:-1] = keys[1:] != keys[:-1]
        last = np.flatnonzero(is_last)
        group = np.cumsum(is_last) - is_last
        same = (
            (keys[1:] == keys[:-1]) & (runs[1:] == runs[:-1]) & (runs[1:] == runs[last][group[1:]])
        )
        differ = np.flatnonzero(same & (journals[1:] != journals[:-1]) & (says[1:] != says[:-1]))
        is_tied = np.zeros(len(last), bool)
        is_tied[group[differ]] = True
        is_unsure = np.zeros(len(last), bool)
        for journal, (row, run) in enumerate(self.breaks):
            here = journals[last] == journal
            is_unsure |= np.where(here, order[last] < row, runs[last] < run)
        there = _numbers(self.good, np.int8)[order[last]] >= 0
        return keys[last][there], order[last][there], is_tied[there], is_unsure[there]


def _numbers(values: array[int], kind: type) -> np.ndarray:
    if values:
        return np.frombuffer(values, kind)
    return np.empty(0, kind)


class EarlierRows:
    """The rows that stay in a folder although the source lacks their utterances.

    Runs over other sources made them. The source is read once, on first use, and its utterances
    take eight bytes each.
    """

    def __init__(self, source: Iterable[Utterance | Refused], outcomes: Outcomes) -> None:
        self._source = source
        self._outcomes = outcomes

    @cached_property
    def _keys(self) -> np.ndarray:
        return np.sort(np.fromiter((line_key(entry.id) for entry in self._source), np.uint64))

    def holds(self, id: str, row: Checksum) -> bool:
        """Return whether `row` belongs to a done utterance that the source lacks.

        The journal calls the utterance done.
        """
        line = self._outcomes.line(line_key(id))
        if (
            line is None
            or line.status != DONE
            or (line.result.row is not None and tuple(line.result.row) != row)
        ):
            return False
        return self._is_foreign(line.key)

    def count(self) -> int:
        """Return how many completed utterances in shared files the source lacks."""
        return sum(
            line.status == DONE and line.result.row is not None and self._is_foreign(line.key)
            for line in self._outcomes.lines()
        )

    def lacks(self, id: str) -> bool:
        """Return whether the source lacks an utterance."""
        return self._is_foreign(line_key(id))

    def _is_foreign(self, key: int) -> bool:
        return index_of(key, self._keys) is None


class Fingerprints:
    """Fingerprints of the utterances of one run; the status of the last audio file is cached."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._audio: tuple[str, str] = ("", "")

    def of(self, utterance: Utterance, group: str | None = None) -> int:
        """Return a hash that changes if the utterance must be aligned again.

        It covers the audio's size and modification time, the utterance's part of it, its transcript
        and the run's fingerprint. `group` is the assembled file that the utterance goes into, if
        there is one.
        """
        if self._audio[0] != utterance.audio:
            self._audio = (utterance.audio, _state(file_of(utterance.audio)))
        part = (
            utterance.offset_s,
            utterance.duration_s,
            utterance.channel,
            utterance.text,
            utterance.texts,
        )
        names = (
            os.path.basename(utterance.audio),
            utterance.output,
            utterance.speaker,
            utterance.recording,
            group,
        )
        text = repr((self._run, self._audio[1], part, names)) + (
            "" if utterance.book is None else " a part"
        )
        text += f" in {utterance.language}" if utterance.language else ""
        text += f" {utterance.file}" if utterance.file else ""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "little")


def _state(path: str) -> str:
    try:
        status = os.stat(path)
        return f"{status.st_size} {status.st_mtime_ns}"
    except (OSError, ValueError):
        return "missing"


def run_fingerprint(
    model: str | None,
    lexicon: str | None,
    settings: Mapping[str, Any],
    formats: Sequence[str],
    others: Sequence[str] = (),
) -> str:
    """Return the fingerprint of a run.

    It covers the contents of model and lexicon, the settings, and the kinds of outputs. `others`
    are further choices that change outputs (layout, manifests …), as texts.
    """
    calibration = settings.get("calibration")
    parts = {
        "model": "" if model is None else model_identity(model),
        "lexicon": _content(Path(lexicon)) if lexicon else "",
        "calibration": _calibration_content(Path(calibration)) if calibration else "",
        "settings": {name: value for name, value in settings.items() if _counts(name, value)},
        "formats": sorted(formats),
        "others": list(others),
    }
    return hashlib.blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def log_probs_identity(reader: LogProbsReader) -> tuple[str, ...]:
    """Return how log-probs are read, with a hash of the vocabulary."""
    return _content(Path(reader.vocab_path)), repr(reader.frame_shift_s), repr(reader.blank)


def model_identity(model: str) -> str:
    """Return a hash of a model's files; its name if they are not on this machine.

    >>> model_identity("hf:org/name")
    'hf:org/name'
    """
    from ctc_align.models.calibration import FILE as CALIBRATION
    from ctc_align.models.edge_network import FILE as EDGES

    if model in EMBEDDED:
        folder = embedded_folder(model)
    else:
        folder = Path(model.partition(":")[2] or model)
    if folder.is_file():
        family = family_of(model)
        descriptions = []
        if family is not None and family.is_file:
            descriptions = [folder.with_suffix(".toml"), folder.parent / "tokens.txt"]
            # its weights, where they are not in it: model.onnx.data, model.onnx_data, model.weights
            descriptions += sorted(folder.parent.glob(f"{glob.escape(folder.name)}?*"))
            descriptions += [folder.with_suffix(".weights")]
        descriptions += [folder.parent / CALIBRATION, folder.parent / EDGES]
        return " ".join(_content(path) for path in [folder, *filter(Path.is_file, descriptions)])
    files = [
        folder / name for name in (*FOLDER_FILES, CALIBRATION, EDGES) if (folder / name).is_file()
    ]
    if not files and folder.is_dir():
        files = sorted(path for path in folder.iterdir() if path.is_file())
    return " ".join(_content(path) for path in files) or model


def _calibration_content(path: Path) -> str:
    """Return the content of a calibration: of its file, or of the files in its folder."""
    from ctc_align.models.calibration import file_in
    from ctc_align.models.edge_network import FILE as EDGES

    edges = path / EDGES
    return " ".join(
        _content(file) for file in (file_in(path), *([edges] if edges.is_file() else []))
    )


def _content(path: Path) -> str:
    try:
        return content_hash(path, 16)
    except OSError:  # reported when it is opened
        return str(path)


def _counts(name: str, value: Any) -> bool:
    """Return whether a setting counts.

    One that 0.4.0 had counts; a later one counts if it differs from its default. A new setting with
    its default changes no result, so runs of 0.4.0 resume.
    """
    return name in _OF_0_4 or (
        name not in _NOT_COUNTED and value != getattr(Settings(), name, None)
    )


_OF_0_4 = frozenset(
    (
        *(
            "channel",
            "times",
            "labels",
            "cues",
            "max_line",
            "max_cps",
            "frame_rate",
            "highlight_words",
            "tiers",
        ),
        *(
            "textgrid",
            "chunk_s",
            "context_s",
            "band_s",
            "shortest_pause_s",
            "edges",
            "min_confidence",
            "max_skipped",
        ),
        *("language", "romanize", "words_by", "unknown", "match", "precision", "revision"),
    )
)
_PATHS = ("calibration", "cache_dir")
"""Settings that are paths; the content of the files counts."""
_NOT_COUNTED = (*_PATHS, "min_fit")
"""The least fit is applied to the summary, and changes no result."""


FaultsOf = Callable[[str | None, Sequence[tuple[GroupedUtterance, Line | None]]], dict[str, str]]
"""As `Assembly.faults`: what is wrong with the outputs of a group's utterances, by their ids."""


def verify(
    jobs: Iterable[Job], faults_of: FaultsOf, outcomes: Outcomes, journal: Journal, everything: bool
) -> tuple[int, int, int]:
    """Read the outputs of utterances, and forget the outcomes of those that differ.

    `outcomes` are the ones forgotten; an output differs if it is not as its line records it.
    Without `everything`, read only the unsure ones (a damaged or missing line may have been a later
    one about them), and those that share a file with them. The line of an utterance whose outputs
    are complete is appended again, after the damage, so that it is sure from then on. Failed
    utterances have no outputs to check, and are repeated.

    Returns:
        The number of utterances that the journal calls done; of those whose outputs differ from the
        record; and of those from an earlier version, whose lines have no checksums of the outputs
        or of the recording.

    Raises:
        OutputError: the journal cannot be written.
    """
    findings = _Findings(outcomes, journal)
    for (group, _), run in groupby(
        _utterances(jobs, outcomes), lambda job: (job.group, job.group or job.index)
    ):
        of_group = [(job, GroupedUtterance.of(job.index, job.utterance)) for job in run]
        if not (everything or any(outcomes.is_unsure(line_key(one.id)) for _, one in of_group)):
            continue
        found = [(member, _line_to_check(outcomes, member.id)) for _, member in of_group]
        lines = [line for _, line in found if line is not None]
        faults = faults_of(group, found) if lines else {}
        if everything:
            audio = {member.id: file_of(job.utterance.audio) for job, member in of_group}
            others = (line.id for line in lines if _has_other_audio(line, audio[line.id]))
            faults |= dict.fromkeys(others, _OTHER_AUDIO)
        for line in lines:
            findings.add(line, faults.get(line.id))
        findings.write(_MOST_LINES)
    findings.write()
    if findings.damaged > _MOST_NAMED:
        logger.warning(
            "%d utterances in all are not as the journal recorded them", findings.damaged
        )
    return findings.checked, findings.damaged, findings.unknown


class _Findings:
    """The counts of `verify`, and the lines that it appends again."""

    def __init__(self, outcomes: Outcomes, journal: Journal) -> None:
        self._outcomes = outcomes
        self._journal = journal
        self._again: list[Line] = []
        self.checked = 0
        self.damaged = 0
        self.unknown = 0

    def add(self, line: Line, fault: str | None) -> None:
        """Count an utterance whose outputs were read; `fault` is what is wrong with them."""
        self.checked += 1
        self.unknown += line.result.files is None or line.result.audio is None
        if fault is not None:
            self.damaged += 1
            self._outcomes.forget(line.key)
            if self.damaged <= _MOST_NAMED:
                logger.warning("%s: %s; it is redone", line.id, fault)
        elif self._outcomes.is_unsure(line.key):
            self._again.append(line)

    def write(self, fewest: int = 1) -> None:
        """Append the lines to the journal if there are at least `fewest`."""
        if len(self._again) >= fewest:
            self._journal.append(self._again)
            self._again = []


_OTHER_AUDIO = "its recording is not the file that was read, although it has the same size and time"


def _has_other_audio(line: Line, path: str) -> bool:
    """Return whether the file of a recording has changed since it was read.

    It is False if the file is missing.
    """
    now = None
    if line.result.audio is not None:
        now = file_checksum(path)
    return now is not None and tuple(now) != tuple(line.result.audio or ())


def _utterances(jobs: Iterable[Job], outcomes: Outcomes) -> Iterator[Job]:
    """Yield the jobs of utterances.

    Unsure outcomes of refused entries are forgotten, so that they are recorded again.
    """
    for job in jobs:
        if isinstance(job.entry, Utterance):
            yield job
        elif outcomes.is_unsure(key := line_key(job.entry.id, job.entry.origin)):
            outcomes.forget(key)


def _line_to_check(outcomes: Outcomes, id: str) -> Line | None:
    """Return the line of an utterance whose outputs are to be read."""
    key = line_key(id)
    found = outcomes.find(key)
    line = None
    if found is not None and found[0] == DONE:
        line = outcomes.line(key)
    if outcomes.is_unsure(key) and (line is None or line.result.files is None):
        outcomes.forget(key)
        return None
    return line
