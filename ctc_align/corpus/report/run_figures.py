"""The figures of a corpus run.

They are those of the summary, and distributions over the outputs, which are read one by one. Memory
holds the summary, the counts of histograms, and the utterances that the report names, not all
utterances.
"""

from __future__ import annotations

import bisect
import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from ctc_align.corpus.outputs.records import fault_of
from ctc_align.corpus.outputs.shared_files import read_lines
from ctc_align.corpus.state.journal import DONE, Line, journal_paths, line_key
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.summary import Summary, joined, lines_left
from ctc_align.errors import CtcAlignError, InputError, UsageError
from ctc_align.evaluate.corrected_labels import Corrected, label_files_beside, read_corrected
from ctc_align.files import from_dict, to_dict
from ctc_align.files.corrections import LatestBeside, LatestWork, latest_beside
from ctc_align.files.json_files import check_format, read_object
from ctc_align.reading import JsonObject, parse_json
from ctc_align.sources.utterance import UtteranceResult
from ctc_align.types import Alignment

LACKING = "an alignment in it lacks a field, or a field has the wrong type"
"""The fault of an output that is JSON, but not a whole alignment."""
MOST_NAMED = 20
"""The most utterances that are named for each reason of failure, and of faults of outputs."""
MOST_REASONS = 200
MOST_WORST = 100
"""Utterances in the table of each criterion."""
MOST_SPEAKERS = 1000
OTHER_REASONS = "other reasons"
PAUSE_S = 0.05
"""The shortest gap between two words that counts as a pause."""
_SHOWN_CHARS, _SHOWN_REASONS = 160, 3
_SHARDS = "alignments-*.jsonl.gz"


@dataclass
class Histogram:
    """Counts of values in equal bins from 0 on; the last bin also has all greater values."""

    width: float
    bins: int
    counts: list[int] = field(init=False)
    number: int = 0
    total: float = 0.0
    greatest: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * self.bins

    def add(self, value: float) -> None:
        """Count a value; a negative one counts as 0."""
        self.counts[min(max(int(value / self.width), 0), self.bins - 1)] += 1
        self.number += 1
        self.total += value
        self.greatest = max(self.greatest, value)

    @property
    def mean(self) -> float:
        return self.total / max(self.number, 1)

    def quantile(self, share: float) -> float:
        """Return the quantile for this share of all values, to within a bin.

        >>> histogram = Histogram(1.0, 10)
        >>> for value in range(10): histogram.add(value)
        >>> histogram.quantile(0.5)
        5.0
        """
        wanted = share * self.number
        below = 0
        for index, count in enumerate(self.counts):
            if count and below + count >= wanted:
                return min((index + (wanted - below) / count) * self.width, max(self.greatest, 0.0))
            below += count
        return self.greatest


@dataclass
class Reason:
    """A reason for failures: one of the messages, how many there are, and the first utterances."""

    example: str
    count: int = 0
    ids: list[str] = field(default_factory=list)


@dataclass
class SpeakerFigures:
    """The aligned words of one speaker."""

    words: int = 0
    seconds: float = 0.0
    confidence: float = 0.0


@dataclass(frozen=True)
class NamedUtterance:
    """One utterance of the table.

    It has the result, the least confidence, and the path of the JSON below the output folder.
    `text` is the beginning of its transcript, `why` what disagrees in it, as `regions` of its JSON
    say; `alignment` and `passage` are for hearing that: the alignment without its words, and the
    seconds of it.
    """

    id: str
    result: UtteranceResult
    least_confidence: float | None
    json: str | None
    text: str = ""
    why: str = ""
    alignment: Alignment | None = None
    passage: tuple[float, float] = (0.0, 0.0)

    @property
    def skipped_share(self) -> float:
        """The share of the words that are not in the recording."""
        skipped = self.result.skipped or 0
        return skipped / max(self.result.words or 0, skipped, 1)


@dataclass(kw_only=True)
class ReadFaults:
    """Outputs that could not be read: `faults` has the first `MOST_NAMED`, `unread` their number."""

    faults: list[str] = field(default_factory=list)
    unread: int = 0

    def add_fault(self, fault: str) -> None:
        """Count an output that could not be read."""
        self.unread += 1
        if len(self.faults) < MOST_NAMED:
            self.faults.append(fault)


@dataclass
class RunFigures(ReadFaults):
    """All that a report shows.

    Attributes:
        summary: as `summary.json` has it, of all journals in the folder.
        notes: what a complete run would have and this one lacks.
        reasons: of failures, by their messages without names and numbers.
        speakers: by name, for words whose transcript names a speaker.
        read: outputs that were read.
    """

    summary: Summary
    notes: list[str]
    loss_per_token: Histogram = field(default_factory=lambda: Histogram(0.01, 1000))
    local_loss: Histogram = field(default_factory=lambda: Histogram(0.1, 1000))
    confidence: Histogram = field(default_factory=lambda: Histogram(0.0001, 10_000))
    words_per_s: Histogram = field(default_factory=lambda: Histogram(0.05, 200))
    pauses_s: Histogram = field(default_factory=lambda: Histogram(0.01, 300))
    durations_s: Histogram = field(default_factory=lambda: Histogram(0.1, 144_000))  # to four hours
    speech_s: float = 0.0
    reasons: dict[str, Reason] = field(default_factory=dict)
    speakers: dict[str, SpeakerFigures] = field(default_factory=dict)
    read: int = 0
    worst: list[NamedUtterance] = field(default_factory=list)

    def add_failure(self, line: Line) -> None:
        """Count a failure with its kind of reason."""
        key = reason_kind(line.reason or "", line.id)
        if key not in self.reasons and len(self.reasons) >= MOST_REASONS:
            key = OTHER_REASONS
        reason = self.reasons.setdefault(key, Reason(line.reason or "no reason given"))
        reason.count += 1
        if len(reason.ids) < MOST_NAMED:
            reason.ids.append(line.id)

    def add_alignment(self, data: Mapping[str, Any]) -> None:
        """Count the words of an alignment's JSON object, as its file has it."""
        words = [
            word
            for word in data["words"]
            if word["start_s"] is not None and word["end_s"] is not None
        ]
        for word in words:
            if word["confidence"] is not None:
                self.confidence.add(word["confidence"])
            self.speech_s += word["end_s"] - word["start_s"]
            self._add_speaker(word)
        self.read += 1
        if not words:
            return
        in_time = sorted(words, key=lambda word: word["start_s"])
        for before, after in pairwise(in_time):
            if after["start_s"] - before["end_s"] >= PAUSE_S:
                self.pauses_s.add(after["start_s"] - before["end_s"])
        length_s = in_time[-1]["end_s"] - in_time[0]["start_s"]
        if length_s > 0:
            self.words_per_s.add(len(words) / length_s)

    def _add_speaker(self, word: Mapping[str, Any]) -> None:
        name = word.get("speaker")
        if not name or (name not in self.speakers and len(self.speakers) >= MOST_SPEAKERS):
            return
        speaker = self.speakers.setdefault(name, SpeakerFigures())
        speaker.words += 1
        speaker.seconds += word["end_s"] - word["start_s"]
        speaker.confidence += word["confidence"] or 0.0


def reason_kind(reason: str, id: str) -> str:
    """Return the reason of a failure without its utterance, paths and numbers.

    Each kind of failure has one text.

    >>> reason_kind("talk-7: a/talk-7.wav: 3 frames are too few, 6 are needed", "talk-7")
    '… frames are too few, … are needed'
    """
    text = reason.removeprefix(f"{id}: ")
    text = re.sub(r"^(?=\S*[/.])\S*: ", "", text)  # the file that the message begins with
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "…", text)
    text = re.sub(r"(?<!\S)\S*/\S*", "…", text)
    return re.sub(r"\d[\d.,]*\d|\d", "…", text)


def run_figures(out_dir: Path, progress: Callable[[float], None] | None = None) -> RunFigures:
    """Return the figures of the run, or of the jobs, whose journals are in a folder.

    Args:
        progress: called with the share of the outputs that have been read.

    Raises:
        UsageError: there is no such folder, or it is not that of a corpus run.
    """
    summary, notes = joined(out_dir, "OUT_DIR")
    figures = RunFigures(summary, notes)
    paths = journal_paths(out_dir)
    worst = _Worst()
    lacking = 0
    beside = LatestBeside()
    with Outcomes(paths, lines_left(paths), quiet=True) as outcomes:
        for number, line in enumerate(outcomes.lines(), start=1):
            if progress is not None:
                progress(number / max(len(outcomes), 1))
            if line.status != DONE:
                figures.add_failure(line)
                continue
            if line.result.loss_per_token is not None:
                figures.loss_per_token.add(line.result.loss_per_token)
            if line.result.local_loss is not None:
                figures.local_loss.add(line.result.local_loss)
            figures.durations_s.add(line.result.duration_s or 0.0)
            json_name = json_of(line)
            least = None
            if json_name is not None:
                json_name = _corrected(figures, out_dir, json_name, beside)
                least = _read(figures, out_dir / json_name, partial(is_output_of, line, out_dir))
            lacking += json_name is None and line.result.row is None
            if least is None and line.result.doubt is not None:
                least = line.result.doubt["least_confidence"]
            worst.add(NamedUtterance(line.id, line.result, least, json_name))
        named = {
            one.id: one if one.json is None else _explained(one, out_dir)
            for one in worst.utterances()
        }
        for path, data in _shard_objects(out_dir, figures):
            id = str(data.get("utterance"))
            found = outcomes.find(line_key(id))
            if found is None or found[0] != DONE or not _add(figures, data, path):
                continue
            if id in named:
                named[id] = replace(
                    named[id], least_confidence=least_confidence(data), **_explanation(data, path)
                )
    figures.worst = list(named.values())
    if lacking:
        figures.notes.append(
            f"{lacking:,} of {summary.done:,} utterances have no JSON, as --format of the run was:"
            " their confidences, speech rates, pauses and speakers are not known; a run with"
            " --format json has them"
        )
    return figures


def json_of(line: Line) -> str | None:
    """Return the path of an utterance's JSON, relative to the output folder.

    It is None if the utterance has no separate one. Others may have changed the journal: a name
    that leads out of the folder does not count.
    """
    if line.result.files is None:
        if line.result.row is not None:
            names = []
        else:
            names = [f"{line.id}.json"]
    else:
        names = sorted(
            (name for name in line.result.files if name.endswith(".json")), key=len
        )  # not NAME.whisper.json
    return next(
        (name for name in names if not os.path.isabs(name) and ".." not in Path(name).parts), None
    )


def _corrected(figures: RunFigures, out_dir: Path, name: str, beside: LatestBeside) -> str:
    """Return the name of the JSON with the latest corrections of the run's JSON, and note it."""
    work = beside.of(out_dir / name)
    notes = list(work.notes())
    if work.path == out_dir / name:
        figures.notes += notes
        return name
    figures.notes += [
        f"{notes[0]}; loss, fit and words that are not there are the run's",
        *notes[1:],
    ]
    return work.path.relative_to(out_dir).as_posix()


def is_output_of(line: Line, out_dir: Path, path: Path) -> bool:
    """Return whether a file is as the run wrote it for an utterance."""
    name = os.path.relpath(path, out_dir).replace(os.sep, "/")
    recorded = (line.result.files or {}).get(name)
    return recorded is not None and fault_of(name, recorded, out_dir) is None


def _read(figures: RunFigures, path: Path, is_output: Callable[[Path], bool]) -> float | None:
    """Add the figures of an alignment's file, with corrections in its labels.

    Return the least confidence of a word.
    """
    try:
        data = read_object(path)
        if not all(map(is_output, label_files_beside(path))):
            corrected = read_corrected(path, is_output)
            figures.notes += corrected.notes
            if corrected.files:
                data = to_dict(corrected.alignment)
    except CtcAlignError as error:
        figures.add_fault(str(error))
        return None
    if _add(figures, data, path):
        return least_confidence(data)
    return None


def _explained(one: NamedUtterance, out_dir: Path) -> NamedUtterance:
    """Return an utterance with what its JSON says of it.

    It is unchanged if that cannot be read: this is a fault already.
    """
    try:
        return replace(
            one, **_explanation(read_object(out_dir / str(one.json)), out_dir / str(one.json))
        )
    except (CtcAlignError, KeyError, TypeError, ValueError, AttributeError):
        return one


def _explanation(data: JsonObject, path: Path) -> JsonObject:
    """Return what the table tells about an utterance.

    It is the beginning of the transcript, the reasons for its least fitting places, each once, and
    the first place.
    """
    reasons = dict.fromkeys(str(region["reason"]) for region in data.get("regions") or [])
    text = " ".join(str(data["text"]).split())[:_SHOWN_CHARS]
    why = "; ".join([*reasons][:_SHOWN_REASONS])
    text += " …" * (len(text) == _SHOWN_CHARS)
    try:
        alignment = from_dict(data, path)
    except CtcAlignError:  # shown as far as it can be read
        return {"text": text, "why": why}
    heard = {"alignment": replace(alignment, words=(), regions=()), "passage": passage(alignment)}
    return {"text": text, "why": why, **heard}


def passage(alignment: Alignment) -> tuple[float, float]:
    """Return start and end, in seconds, of the passage to listen to.

    It is what disagrees first, else the least sure word, else the utterance. Words that are not in
    the recording are between the words before and after them.
    """
    for region in alignment.regions:
        if region.start_s is not None and region.end_s is not None:
            return region.start_s, region.end_s
    words = [
        word for word in alignment.words if word.start_s is not None and word.end_s is not None
    ]
    for region in alignment.regions:
        before = [word for word in words if word.char_end <= (region.char_start or 0)]
        after = [word for word in words if word.char_start >= (region.char_end or math.inf)]
        if before or after:
            start_s = before[-1].end_s if before else 0.0
            end_s = after[0].start_s if after else alignment.duration_s
            return start_s or 0.0, end_s or 0.0
    if not words:
        return 0.0, alignment.duration_s
    least = min(words, key=lambda word: 1.0 if word.confidence is None else word.confidence)
    return least.start_s or 0.0, least.end_s or 0.0


def _add(figures: RunFigures, data: JsonObject, path: Path) -> bool:
    """Add the figures of an alignment's object; return whether it has the fields of one."""
    try:
        figures.add_alignment(data)
    except (KeyError, TypeError, ValueError, AttributeError):
        figures.add_fault(f"{path}: {LACKING}")
        return False
    return True


def least_confidence(data: Mapping[str, Any]) -> float | None:
    """Return the least confidence of a word, None if no word has a confidence."""
    return min(
        (word["confidence"] for word in data["words"] if word["confidence"] is not None),
        default=None,
    )


def _shard_objects(out_dir: Path, figures: RunFigures) -> Iterator[tuple[Path, JsonObject]]:
    """Yield the alignments in a folder's shards; count unreadable ones as faults."""
    for path in sorted(out_dir.glob(_SHARDS)):
        try:
            for line in read_lines(path):
                data = parse_json(line)
                check_format(data, str(path))
                yield path, data
        except (OSError, EOFError, zlib.error, ValueError, InputError, UnicodeError) as error:
            figures.add_fault(f"{path}: cannot be read to its end: {error}")


class _Worst:
    """The utterances with the greatest losses, the least confidence and the most words missing."""

    def __init__(self) -> None:
        self._kept: dict[str, list[tuple[float, str, NamedUtterance]]] = {
            criterion: [] for criterion in ("loss", "local_loss", "confidence", "skipped")
        }

    def add(self, one: NamedUtterance) -> None:
        values = {
            "loss": None if one.result.loss_per_token is None else -one.result.loss_per_token,
            "local_loss": None if one.result.local_loss is None else -one.result.local_loss,
            "confidence": one.least_confidence,
            "skipped": -one.skipped_share if one.result.skipped else None,
        }
        for criterion, value in values.items():
            kept = self._kept[criterion]
            if value is None or (len(kept) == MOST_WORST and value > kept[-1][0]):
                continue
            bisect.insort(kept, (value, one.id, one), key=lambda row: row[:2])
            del kept[MOST_WORST:]

    def utterances(self) -> list[NamedUtterance]:
        """Return the utterances of all criteria, each once, the greatest loss first."""
        found = {id: one for kept in self._kept.values() for _, id, one in kept}
        return sorted(found.values(), key=lambda one: (-(one.result.loss_per_token or 0.0), one.id))


def alignment_in(out_dir: Path, id: str) -> tuple[LatestWork, Corrected]:
    """Return the alignment of one utterance of a run, and the file that it is in.

    It is read from its JSON or from its shard. If corrections lie beside its JSON, use the latest,
    and those in its files of labels.

    Raises:
        UsageError: the folder is not that of a corpus run, or the utterance is not in it, failed,
            or has no JSON.
        InputError: its output cannot be read.
    """
    if not out_dir.is_dir() or not (paths := journal_paths(out_dir)):
        raise UsageError(
            f"{out_dir}: expected the --out-dir of a corpus run, got a folder without a journal"
        )
    with Outcomes(paths, quiet=True) as outcomes:
        line = outcomes.line(line_key(id)) or next(
            (line for line in outcomes.refused() if line.id == id), None
        )
    if line is None:
        raise UsageError(
            f"--utterance {id}: {out_dir} has no such utterance; its journal names them"
        )
    if line.status != DONE:
        raise UsageError(f"--utterance {id}: was not aligned: {line.reason}")
    name = json_of(line)
    if name is not None:
        work = latest_beside(out_dir / name)
        return work, read_corrected(work.path)
    figures = RunFigures(Summary(), [])
    for path, data in _shard_objects(out_dir, figures):
        if data.get("utterance") == id:
            return LatestWork(path), Corrected(path, from_dict(data, path))
    if figures.faults:
        why = figures.faults[0]
    else:
        why = f"{out_dir}: has no JSON of it"
    raise InputError(f"--utterance {id}: {why}; run its corpus command again, with --verify")
