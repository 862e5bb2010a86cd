"""The summary of a corpus.

It is counted from the journals, so it is right after any number of resumed runs.
"""

from __future__ import annotations

import bisect
import json
import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align._version import __version__
from ctc_align.corpus.state.journal import (
    DONE,
    Line,
    journal_paths,
    shard_of,
)
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.shared_texts import SameTexts, TextCoverage
from ctc_align.errors import UsageError
from ctc_align.files.folder_lock import Shard
from ctc_align.files.whole_files import write_whole
from ctc_align.reading import JsonObject, parse_json
from ctc_align.sources.utterance import UtteranceResult
from ctc_align.text.characters import json_escaped
from ctc_align.text.note_kinds import Note, Notes
from ctc_align.types import FITS, NONE, POOR

FORMAT = "ctc-align-corpus/1"
MOST_FAILURES = 10_000
"""The maximum number of failures that a summary lists; the journal has them all."""
MOST_RANKED = 10
"""The number of utterances in each of its rankings."""
_RESULT_FIELDS = fields(UtteranceResult)
_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


@dataclass
class NamedFiles:
    """Files of a run: their number, and the first names, relative to the output folder."""

    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, *names: str) -> None:
        self.count += len(names)
        self.names += names[: max(0, MOST_FAILURES - len(self.names))]


@dataclass(frozen=True)
class RunStats:
    """The work of one run.

    `stages` are the busy seconds of all workers together (empty without `--profile`). `left` are
    outputs that others changed and that stay as they are; `kept` are the present names of changed
    outputs that were moved aside for new ones.
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
        done, failed: utterances by the latest line about each; `skipped` of those done were done
            before this run.
        complete: whether the source was read to its end.
        loss_per_token: minimum, maximum, mean and percentiles (`p50`) of nats per token; empty if
            nothing is done.
        local_loss: as loss_per_token, of the worst 0.3 s of each utterance;
        worst_local: those with the greatest.
        worst: utterances with the greatest loss per token, worst first; slowest: those with the
            most work per second of audio.
        in_doubt: utterances that miss `min_confidence`, with `doubtful_words` in total and
            `unexplained` stretches of speech; doubtful: those with the least confidence of a word,
            the least first.
        fit: how many utterances fit well, doubtfully, poorly and not at all; misfits: those that
            fit poorly or not at all, the worst first.
        skipped_words: words that are not in the recordings, of all `words` that can be spoken;
            most_skipped: the utterances that lack the greatest share of their words, the greatest
            first; too_many_skipped: how many lack more than `max_skipped` percent.
        journal_lines: number of lines of the run's journal at its end; if a later run finds fewer,
            lines are lost.
        unexplained_s: seconds of speech that no word explains, of all utterances.
        looks: how many texts appear to be in each language other than English, if no language was
            named.
        text_gaps: stretches of a shared text that no recording reads (`TextCoverage.stretches`).
        text_overlaps: stretches of a shared text that two recordings read.
        same_texts: transcripts that several utterances share: the first of these utterances, their
            `count`, the number of `words`, and the first utterances that it fits poorly or not at
            all (`misfits`, of `misfit_count`); transcripts with misfits first, MOST_SAME at most;
            same_text_counts: the numbers of all such `transcripts`, and of their `utterances`.
        notes: the notes on utterances, by their kind, each with its first utterances; the journal
            has them all.
        failures: (utterance, reason), at most MOST_FAILURES of them.
        others: sums and counts of fields of `UtteranceResult` that have no field here.
    """

    source: str = ""
    shard: str = ""
    complete: bool = True
    done: int = 0
    failed: int = 0
    skipped: int = 0
    audio_hours: float = 0.0
    loss_per_token: dict[str, float] = field(default_factory=dict)
    local_loss: dict[str, float] = field(default_factory=dict)
    worst: list[JsonObject] = field(default_factory=list)
    worst_local: list[JsonObject] = field(default_factory=list)
    slowest: list[JsonObject] = field(default_factory=list)
    in_doubt: int = 0
    doubtful_words: int = 0
    unexplained: int = 0
    doubtful: list[JsonObject] = field(default_factory=list)
    fit: dict[str, int] = field(default_factory=dict)
    misfits: list[JsonObject] = field(default_factory=list)
    words: int = 0
    skipped_words: int = 0
    too_many_skipped: int = 0
    most_skipped: list[JsonObject] = field(default_factory=list)
    unexplained_s: float = 0.0
    looks: dict[str, int] = field(default_factory=dict)
    text_gaps: list[JsonObject] = field(default_factory=list)
    text_overlaps: list[JsonObject] = field(default_factory=list)
    same_texts: list[JsonObject] = field(default_factory=list)
    same_text_counts: dict[str, int] = field(default_factory=dict)
    journal_lines: int = 0
    notes: list[Note] = field(default_factory=list)
    failures: list[JsonObject] = field(default_factory=list)
    run: RunStats = field(default_factory=RunStats)
    others: JsonObject = field(default_factory=dict)

    @property
    def utterances(self) -> int:
        return self.done + self.failed

    def to_dict(self) -> JsonObject:
        """Return the content of `summary.json`."""
        data = {
            "format": FORMAT,
            "version": __version__,
            "utterances": self.utterances,
            **asdict(self),
        }
        data |= data.pop("others")
        data["failures_left_out"] = self.failed - len(self.failures)
        effort = data["run"]
        if self.run.wall_s:
            effort["times_real_time"] = round(self.run.audio_s / self.run.wall_s, 2)
        else:
            effort["times_real_time"] = None
        return data

    def write(self, path: Path, parts: Path | None = None) -> None:
        """Write `summary.json`, whole or not at all.

        Raises:
            OutputError: it cannot be written.
        """
        text = (
            json_escaped(json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False))
            + "\n"
        )
        write_whole({path: text.encode("utf-8", "backslashreplace")}, parts, sync=True)


def summary_path(out_dir: Path, shard: Shard) -> Path:
    """Return the path of the summary of a shard."""
    return out_dir / f"summary{shard.suffix}.json"


def summarize(paths: Sequence[Path], keys: array[int] | None = None, **about: Any) -> Summary:
    """Return the summary of journals.

    Args:
        keys: of the utterances that count in this run, which has already warned of damaged lines;
            None for all.
        about: `source`, `shard`, `complete`, `skipped`, `journal_lines`, `run` of the Summary.
    """
    counter = _Counter()
    if keys is None:
        wanted = None
    elif keys:
        wanted = np.frombuffer(keys, np.uint64)
    else:
        wanted = np.empty(0, np.uint64)
    with Outcomes(
        paths, lines_left(paths) if keys is None else None, quiet=keys is not None
    ) as outcomes:
        for line in outcomes.lines(wanted):
            counter.add(line)
        same_texts = counter.same_texts.rows(outcomes.lines(wanted))
    gaps, overlaps = counter.coverage.stretches()
    totals = counter.totals()
    distributions: JsonObject = {
        name: _distribution(values) for name, values in counter.distributed.items()
    }
    others = {name: totals.pop(name) for name in totals.keys() - {f.name for f in fields(Summary)}}
    return Summary(
        done=counter.done,
        failed=counter.failed,
        audio_hours=round(counter.audio_s / 3600.0, 6),
        **distributions,
        in_doubt=counter.in_doubt,
        doubtful_words=counter.doubtful_words,
        unexplained=counter.unexplained,
        text_gaps=gaps,
        text_overlaps=overlaps,
        same_texts=same_texts,
        same_text_counts=counter.same_texts.counts(),
        notes=counter.notes.sorted(),
        failures=sorted(counter.failures, key=lambda failure: failure["utterance"]),
        others=others,
        **counter.rankings(),
        **totals,
        **about,
    )


class _Counter:
    """Counts lines; memory grows by eight bytes for each loss of an utterance."""

    def __init__(self) -> None:
        self.done = self.failed = self.in_doubt = self.doubtful_words = self.unexplained = 0
        self.audio_s = 0.0
        self.sums = {
            field.metadata["sum"]: field.metadata["zero"]
            for field in _RESULT_FIELDS
            if "sum" in field.metadata
        }
        self.counts = {
            f.metadata["count"]: Counter[str]() for f in _RESULT_FIELDS if "count" in f.metadata
        }
        self.distributed = {name: array("d") for name in ("loss_per_token", "local_loss")}
        self.failures: list[JsonObject] = []
        self.greatest: dict[str, list[tuple[float, str, Line]]] = {name: [] for name in _RANKINGS}
        self.coverage = TextCoverage()
        self.same_texts = SameTexts()
        self.notes = Notes()

    def add(self, line: Line) -> None:
        result = line.result
        self.notes.add(line.id, result.notes or ())
        if line.status != DONE:
            self.failed += 1
            if len(self.failures) < MOST_FAILURES:
                self.failures.append({"utterance": line.id, "reason": line.reason})
            return
        self.done += 1
        self.audio_s += result.duration_s or 0.0
        for each in _RESULT_FIELDS:
            value = getattr(result, each.name)
            if "sum" in each.metadata:
                self.sums[each.metadata["sum"]] += value or 0
            elif "count" in each.metadata and value is not None:
                self.counts[each.metadata["count"]][value] += 1
        self.coverage.add(line)
        self.same_texts.add(line)
        for name, values in self.distributed.items():
            if getattr(result, name) is not None:
                values.append(getattr(result, name))
        if result.doubt is not None:
            self.in_doubt += 1
            self.doubtful_words += result.doubt["words"]
            self.unexplained += result.doubt["unexplained"]
        for name, (rank, _) in _RANKINGS.items():
            value = rank(result)
            if value is not None:
                bisect.insort(
                    self.greatest[name], (-value, line.id, line), key=lambda kept: kept[:2]
                )
                del self.greatest[name][MOST_RANKED:]

    def totals(self) -> JsonObject:
        """Return the sums and the counts of results, by their names in the summary."""
        counts = {name: dict(counter.most_common()) for name, counter in self.counts.items()}
        counts["fit"] = {fit: counts["fit"][fit] for fit in FITS if fit in counts["fit"]}
        return {name: round(total, 3) for name, total in self.sums.items()} | counts

    def rankings(self) -> JsonObject:
        """Return the rows of each ranking."""
        return {
            name: [{"utterance": line.id, **row(line.result)} for _, _, line in self.greatest[name]]
            for name, (_, row) in _RANKINGS.items()
        }


def _skipped_share(result: UtteranceResult) -> float:
    """Return the share of the words that are not in the recording.

    It is 1 if an earlier version counted no words.
    """
    return (result.skipped or 0) / (result.words or result.skipped or 1)


def _doubt_rank(result: UtteranceResult) -> float | None:
    if result.doubt is None:
        return None
    least = result.doubt["least_confidence"]
    return -1.0 if least is None else -least


_Rank = Callable[[UtteranceResult], float | None]
_Row = Callable[[UtteranceResult], Mapping[str, Any]]
_RANKINGS: dict[str, tuple[_Rank, _Row]] = {
    "worst": (
        lambda r: r.loss_per_token,
        lambda r: {"loss_per_token": r.loss_per_token, "loss": r.loss},
    ),
    "worst_local": (lambda r: r.local_loss, lambda r: {"local_loss": r.local_loss}),
    "slowest": (lambda r: r.seconds, lambda r: {"seconds": r.seconds, "duration_s": r.duration_s}),
    "doubtful": (_doubt_rank, lambda r: r.doubt or {}),
    "misfits": (
        lambda r: (r.fit == NONE) + _skipped_share(r) if r.fit in (POOR, NONE) else None,
        lambda r: {"fit": r.fit, "skipped": r.skipped, "words": r.words},
    ),
    "most_skipped": (
        lambda r: _skipped_share(r) if r.skipped else None,
        lambda r: {
            "skipped": r.skipped,
            "words": r.words,
            "skipped_percent": round(100 * _skipped_share(r), 3),
        },
    ),
}
"""Rankings of a summary: the value to sort by, and the fields of a row.

The greatest value comes first; None is not ranked.
"""


def _distribution(losses: array[float]) -> dict[str, float]:
    if not losses:
        return {}
    values = np.frombuffer(losses, np.float64)
    summary = {"min": values.min(), "mean": math.fsum(values) / len(values), "max": values.max()}
    summary |= {
        f"p{p}": value for p, value in zip(_PERCENTILES, np.percentile(values, _PERCENTILES))
    }
    return {name: round(float(value), 6) for name, value in summary.items()}


def joined(out_dir: Path, argument: str = "--summary") -> tuple[Summary, list[str]]:
    """Return the summary of all journals in a folder, and notes on what is missing.

    `argument` is what error messages call the folder.

    Raises:
        UsageError: there is no folder, or no journal in it.
    """
    if not out_dir.is_dir():
        got = "a file" if out_dir.exists() else "no such folder"
        raise UsageError(
            f"{argument} {out_dir}: expected the output folder of a corpus run, got {got}"
        )
    paths = journal_paths(out_dir)
    if not paths:
        raise UsageError(
            f"{argument} {out_dir}: there is no journal in it; is it the --out-dir of a corpus run?"
        )
    ended = {path: _read(summary_path(out_dir, shard_of(path))) for path in paths}
    notes = [
        f"{path.name}: its run has not finished"
        for path, data in ended.items()
        if not _complete(data)
    ]
    notes += _missing(paths)
    sources = sorted({str(data["source"]) for data in ended.values() if data.get("source")})
    return summarize(paths, source=", ".join(sources), complete=_whole(ended)), notes


def lines_left(paths: Sequence[Path]) -> dict[Path, int]:
    """Return how many lines the last runs left in journals, according to their summaries."""
    counts = {
        path: _read(summary_path(path.parent, shard_of(path))).get("journal_lines")
        for path in paths
    }
    return {path: count for path, count in counts.items() if type(count) is int}


def source_of_run(out_dir: Path) -> str:
    """Return the path of the corpus of a run, as it was given; "" if no run has come to its end."""
    sources = (_read(path).get("source") for path in sorted(out_dir.glob("summary*.json")))
    return next((source for source in sources if isinstance(source, str) and source), "")


def _whole(ended: dict[Path, JsonObject]) -> bool:
    """Return whether all shards of some division are complete."""
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


def _complete(data: JsonObject) -> bool:
    return data.get("complete") is True


def _read(path: Path) -> JsonObject:
    try:
        data = parse_json(path.read_bytes())
        if isinstance(data, dict) and data.get("format") == FORMAT:
            return data
        return {}
    except (OSError, ValueError):
        return {}


def is_summary(path: Path) -> bool:
    """Return whether a file is the summary of a corpus run."""
    return bool(_read(path))
