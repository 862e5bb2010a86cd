"""The summary of a corpus, counted from the journals, so that it is right after any number of resumed runs."""

from __future__ import annotations

import bisect
import json
import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align._version import __version__
from ctc_align.corpus.state.journal import DONE, Line, Shard, journal_paths, shard_of
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.shared_texts import SameTexts, TextCoverage
from ctc_align.errors import UsageError
from ctc_align.files.whole_files import placing
from ctc_align.reading import parse_json
from ctc_align.text.control_characters import json_escaped
from ctc_align.types import FITS, NONE, POOR

FORMAT = "ctc-align-corpus/1"
MOST_FAILURES = 10_000
"""Failures that a summary lists; the journal has them all."""
WORST = SLOWEST = DOUBTFUL = MISFITS = MOST_SKIPPED = 10
_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


@dataclass
class NamedFiles:
    """Files of a run: how many, and the names of the first below the output folder."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, *names: str) -> None:
        self.count += len(names)
        self.names += names[: max(0, MOST_FAILURES - len(self.names))]


@dataclass(frozen=True)
class Effort:
    """The work of one run; `stages` are busy seconds of all workers together (empty without `--profile`).

    `left` are outputs that others have changed since a run wrote them, and that stay as they are; `kept` such ones in
    whose places others were written, by the names that they have now.
    """

    wall_s: float = 0.0
    done: int = 0
    failed: int = 0
    audio_s: float = 0.0
    workers: int = 0
    stages: dict[str, float] = field(default_factory=dict)
    left: NamedFiles = field(default_factory=NamedFiles)
    kept: NamedFiles = field(default_factory=NamedFiles)


@dataclass(frozen=True)
class Summary:
    """Counts, hours, losses and failures of a corpus, or of one shard of it.

    Args:
        done, failed: utterances by the latest line about each; `skipped` of the done were so before this run.
        complete: whether the source was read to its end.
        loss_per_token: least, greatest, mean and percentiles (`p50`) of nats per token; empty when nothing is done.
        worst: those with the greatest loss per token, worst first; slowest: with the most seconds of work a second.
        in_doubt: utterances whose confidence is not what `min_confidence` asked for, with `doubtful_words` in all and
            `unexplained` stretches of speech; doubtful: those with the least confidence of a word, the least first.
        fit: how many utterances fit well, doubtfully, poorly and not at all; misfits: those that fit poorly or not at
            all, the worst first.
        skipped_words: that are not in the recordings, of all `words` that can be spoken; most_skipped: the utterances
            that lack the greatest share of theirs, the greatest first; too_many_skipped: how many lack more than
            `max_skipped` percent.
        journal_lines: of the run's own journal, at its end: fewer in a later run are lost lines.
        unexplained_s: seconds of speech that no word explains, of all utterances.
        looks: how many texts look like which other language than English, where nobody named one.
        text_gaps: stretches of a text of many recordings that are in none of them, as `TextGap` has them.
        text_overlaps: stretches of it that two recordings read, as `TextOverlap` has them.
        same_texts: transcripts that several utterances have: the first of these, their `count`, the `words` of one, and
            the first of those that it fits poorly or not at all (`misfits`, of `misfit_count`); those with such ones
            first, MOST_SAME at most; same_text_counts: all such `transcripts`, and their `utterances`.
        failures: (utterance, reason), at most MOST_FAILURES of them.
    """

    source: str = ""
    shard: str = ""
    complete: bool = True
    done: int = 0
    failed: int = 0
    skipped: int = 0
    audio_hours: float = 0.0
    loss_per_token: dict[str, float] = field(default_factory=dict)
    worst: list[dict[str, Any]] = field(default_factory=list)
    slowest: list[dict[str, Any]] = field(default_factory=list)
    in_doubt: int = 0
    doubtful_words: int = 0
    unexplained: int = 0
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    fit: dict[str, int] = field(default_factory=dict)
    misfits: list[dict[str, Any]] = field(default_factory=list)
    words: int = 0
    skipped_words: int = 0
    too_many_skipped: int = 0
    most_skipped: list[dict[str, Any]] = field(default_factory=list)
    unexplained_s: float = 0.0
    looks: dict[str, int] = field(default_factory=dict)
    text_gaps: list[dict[str, Any]] = field(default_factory=list)
    text_overlaps: list[dict[str, Any]] = field(default_factory=list)
    same_texts: list[dict[str, Any]] = field(default_factory=list)
    same_text_counts: dict[str, int] = field(default_factory=dict)
    journal_lines: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    run: Effort = field(default_factory=Effort)

    @property
    def utterances(self) -> int:
        return self.done + self.failed

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `summary.json`."""
        data = {"format": FORMAT, "version": __version__, "utterances": self.utterances, **asdict(self)}
        data["failures_left_out"] = self.failed - len(self.failures)
        effort = data["run"]
        effort["times_real_time"] = round(self.run.audio_s / self.run.wall_s, 2) if self.run.wall_s else None
        return data

    def write(self, path: Path, parts: Path | None = None) -> None:
        """Write `summary.json`, whole or not at all.

        Raises:
            OutputError: it cannot be written.
        """
        text = json_escaped(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)) + "\n"
        with placing([path], parts, sync=True) as files:
            for _, part in files:
                part.write_bytes(text.encode("utf-8", "backslashreplace"))


def summary_path(out_dir: Path, shard: Shard) -> Path:
    """Return the path of the summary of a shard."""
    return out_dir / f"summary{shard.suffix}.json"


def summarize(paths: Sequence[Path], keys: array[int] | None = None, **about: Any) -> Summary:
    """Return the summary of journals.

    Args:
        keys: of the utterances that count, in a run, which has told of damaged lines; None for all.
        about: `source`, `shard`, `complete`, `skipped`, `journal_lines`, `run` of the Summary.
    """
    counter = _Counter()
    wanted = None if keys is None else np.frombuffer(keys, np.uint64) if keys else np.empty(0, np.uint64)
    with Outcomes(paths, lines_left(paths) if keys is None else None, quiet=keys is not None) as outcomes:
        for line in outcomes.lines(wanted):
            counter.add(line)
        same_texts = counter.same_texts.rows(outcomes.lines(wanted))
    gaps, overlaps = counter.coverage.stretches()
    return Summary(
        done=counter.done,
        failed=counter.failed,
        audio_hours=round(counter.audio_s / 3600.0, 6),
        loss_per_token=_distribution(counter.losses),
        worst=counter.worst(),
        slowest=counter.slowest(),
        in_doubt=counter.in_doubt,
        doubtful_words=counter.doubtful_words,
        unexplained=counter.unexplained,
        doubtful=counter.doubtful(),
        fit={fit: counter.fits[fit] for fit in FITS if counter.fits[fit]},
        misfits=counter.misfits(),
        words=counter.words,
        skipped_words=counter.skipped_words,
        too_many_skipped=counter.too_many_skipped,
        most_skipped=counter.most_skipped(),
        unexplained_s=round(counter.unexplained_s, 3),
        looks=dict(counter.looks.most_common()),
        text_gaps=[gap.to_dict() for gap in gaps],
        text_overlaps=[overlap.to_dict() for overlap in overlaps],
        same_texts=same_texts,
        same_text_counts=counter.same_texts.counts(),
        failures=sorted(counter.failures, key=lambda failure: failure["utterance"]),
        **about,
    )


class _Counter:
    """Counts lines; memory grows by eight bytes for each loss."""

    def __init__(self) -> None:
        self.done = self.failed = self.in_doubt = self.doubtful_words = self.unexplained = 0
        self.words = self.skipped_words = self.too_many_skipped = 0
        self.fits: Counter[str] = Counter()
        self.audio_s = 0.0
        self.losses = array("d")
        self.failures: list[dict[str, Any]] = []
        self._worst = _Greatest(WORST)
        self._slowest = _Greatest(SLOWEST)
        self._doubtful = _Greatest(DOUBTFUL)
        self._misfits = _Greatest(MISFITS)
        self._most_skipped = _Greatest(MOST_SKIPPED)
        self.unexplained_s = 0.0
        self.looks: Counter[str] = Counter()
        self.coverage = TextCoverage()
        self.same_texts = SameTexts()

    def add(self, line: Line) -> None:
        if line.status != DONE:
            self.failed += 1
            if len(self.failures) < MOST_FAILURES:
                self.failures.append({"utterance": line.id, "reason": line.reason})
            return
        self.done += 1
        self.audio_s += line.duration_s or 0.0
        self._add_skipped(line)
        self.unexplained_s += line.unexplained_s or 0.0
        self.coverage.add(line)
        self.same_texts.add(line)
        if line.looks is not None:
            self.looks[line.looks] += 1
        if line.fit is not None:
            self.fits[line.fit] += 1
        if line.fit in (POOR, NONE):
            self._misfits.add((line.fit == NONE) + _skipped_share(line), line)
        self._slowest.add(line.seconds, line)
        if line.loss_per_token is not None:
            self.losses.append(line.loss_per_token)
            self._worst.add(line.loss_per_token, line)
        if line.doubt is not None:
            self._add_doubt(line, line.doubt)

    def _add_skipped(self, line: Line) -> None:
        self.words += line.words or 0
        self.skipped_words += line.skipped or 0
        self.too_many_skipped += line.too_many_skipped is True
        if line.skipped:
            self._most_skipped.add(_skipped_share(line), line)

    def _add_doubt(self, line: Line, doubt: dict[str, float | None]) -> None:
        self.in_doubt += 1
        self.doubtful_words += int(doubt["words"] or 0)
        self.unexplained += int(doubt["unexplained"] or 0)
        least = doubt["least_confidence"]
        self._doubtful.add(-1.0 if least is None else -least, line)

    def worst(self) -> list[dict[str, Any]]:
        return [
            {"utterance": line.id, "loss_per_token": line.loss_per_token, "loss": line.loss}
            for line in self._worst.lines
        ]

    def doubtful(self) -> list[dict[str, Any]]:
        return [{"utterance": line.id, **(line.doubt or {})} for line in self._doubtful.lines]

    def misfits(self) -> list[dict[str, Any]]:
        return [
            {"utterance": line.id, "fit": line.fit, "skipped": line.skipped, "words": line.words}
            for line in self._misfits.lines
        ]

    def most_skipped(self) -> list[dict[str, Any]]:
        return [
            {
                "utterance": line.id,
                "skipped": line.skipped,
                "words": line.words,
                "skipped_percent": round(100 * _skipped_share(line), 3),
            }
            for line in self._most_skipped.lines
        ]

    def slowest(self) -> list[dict[str, Any]]:
        return [
            {"utterance": line.id, "seconds": line.seconds, "duration_s": line.duration_s}
            for line in self._slowest.lines
        ]


def _skipped_share(line: Line) -> float:
    """Return the share of the words that are not in the recording; 1 where an earlier version counted no words."""
    return (line.skipped or 0) / (line.words or line.skipped or 1)


class _Greatest:
    """The `most` lines with the greatest values, greatest first; equal ones by name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, str, Line]] = []

    def add(self, value: float, line: Line) -> None:
        if len(self._kept) == self._most and -value > self._kept[-1][0]:
            return
        bisect.insort(self._kept, (-value, line.id, line), key=lambda kept: kept[:2])
        del self._kept[self._most :]

    @property
    def lines(self) -> list[Line]:
        return [line for _, _, line in self._kept]


def _distribution(losses: array[float]) -> dict[str, float]:
    if not losses:
        return {}
    values = np.frombuffer(losses, np.float64)
    summary = {"min": values.min(), "mean": math.fsum(values) / len(values), "max": values.max()}
    summary |= {f"p{p}": value for p, value in zip(_PERCENTILES, np.percentile(values, _PERCENTILES))}
    return {name: round(float(value), 6) for name, value in summary.items()}


def joined(out_dir: Path, argument: str = "--summary") -> tuple[Summary, list[str]]:
    """Return the summary of all journals in a folder, and notes on what is missing.

    `argument` is what error messages call the folder.

    Raises:
        UsageError: no folder, or no journal in it.
    """
    if not out_dir.is_dir():
        raise UsageError(f"{argument} {out_dir}: expected the output folder of a corpus run, got no folder")
    paths = journal_paths(out_dir)
    if not paths:
        raise UsageError(f"{argument} {out_dir}: there is no journal in it; is it the --out-dir of a corpus run?")
    ended = {path: _read(summary_path(out_dir, shard_of(path))) for path in paths}
    notes = [f"{path.name}: its run has not come to its end" for path, data in ended.items() if not _complete(data)]
    notes += _missing(paths)
    sources = sorted({str(data["source"]) for data in ended.values() if data.get("source")})
    return summarize(paths, source=", ".join(sources), complete=_whole(ended)), notes


def lines_left(paths: Sequence[Path]) -> dict[Path, int]:
    """Return how many lines the last runs left in journals, as far as their summaries say."""
    counts = {path: _read(summary_path(path.parent, shard_of(path))).get("journal_lines") for path in paths}
    return {path: count for path, count in counts.items() if type(count) is int}


def _whole(ended: dict[Path, dict[str, Any]]) -> bool:
    """Return whether all shards of some number are complete."""
    shards = {shard_of(path) for path, data in ended.items() if _complete(data)}
    return any(all(Shard(i, s.count) in shards for i in range(s.count)) for s in shards)


def _missing(paths: Sequence[Path]) -> list[str]:
    shards = [shard_of(path) for path in paths]
    notes = []
    for count in sorted({shard.count for shard in shards if shard.count > 1}):
        lacking = [str(i) for i in range(count) if Shard(i, count) not in shards]
        if lacking:
            notes.append(f"of {count} shards there is no journal of {', '.join(lacking)}")
    return notes


def _complete(data: dict[str, Any]) -> bool:
    return data.get("complete") is True


def _read(path: Path) -> dict[str, Any]:
    try:
        data = parse_json(path.read_bytes())
        return data if isinstance(data, dict) and data.get("format") == FORMAT else {}
    except (OSError, ValueError):
        return {}


def is_summary(path: Path) -> bool:
    """Return whether a file is the summary of a corpus run."""
    return bool(_read(path))
