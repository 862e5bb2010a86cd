"""Changes between two runs of the same corpus, utterance by utterance.

They are those of fit and loss, and the words that moved. Reads the JSON of one utterance of each
run at a time; memory holds counts and the utterances that are named.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctc_align.corpus.report.run_figures import LACKING, MOST_WORST, ReadFaults, json_of
from ctc_align.corpus.state.journal import DONE, Line, journal_paths, line_key
from ctc_align.corpus.state.resume import Outcomes
from ctc_align.corpus.state.summary import lines_left
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.files.json_files import read_object

MOVED_S = 0.01
"""A word has moved if its start or end is further away than this."""


@dataclass(frozen=True)
class UtteranceChange:
    """One utterance of both runs: `before` in the other run, `after` in this one.

    Attributes:
        counts: `words` with times in both runs; those of them that `moved` more than `MOVED_S`;
            words that have times only in this run (`found`), and only in the other one (`lost`).
        greatest_ms: how far the edge that moved most has moved.
        word, index, start_s: the first word that was found or lost, else the one that moved most;
            its index, and its start in the other run, or in this one if it has none there.
        files: the JSON of the other run, and of this one.
    """

    id: str
    fit: tuple[str, str]
    loss_per_token: tuple[float | None, float | None]
    counts: Mapping[str, int]
    greatest_ms: float = 0.0
    word: str = ""
    index: int = -1
    start_s: float = 0.0
    files: tuple[Path, Path] = (Path(), Path())


@dataclass
class RunChanges(ReadFaults):
    """All utterances of two runs, and the JSON files of either that could not be read.

    Attributes:
        counts: of words, the sums of the utterances'.
        fits: counts of (fit before, fit after), of utterances whose fit differs.
        missing: utterances of this run without a comparison: not done, without JSON, damaged, or of
            other words in one of them.
        largest: `MOST_WORST` utterances: those that found or lost words, then those whose edges
            moved most.
    """

    against: str
    utterances: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    missing: int = 0
    fits: Counter[tuple[str, str]] = field(default_factory=Counter)
    largest: list[UtteranceChange] = field(default_factory=list)

    def add(self, change: UtteranceChange) -> None:
        """Count an utterance of both runs."""
        self.utterances += 1
        self.counts.update(change.counts)
        if change.fit[0] != change.fit[1]:
            self.fits[change.fit] += 1


def changed(id: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> UtteranceChange | None:
    """Return what changed between two JSON objects of one utterance.

    It is None if their words are not the same.

    >>> word = {"text": "One", "start_s": 0.5, "end_s": 1.0}
    >>> change = changed("a", {"words": [word]}, {"words": [word | {"end_s": 1.25}]})
    >>> change.counts["moved"], change.greatest_ms, change.word
    (1, 250.0, 'One')
    """
    if [word["text"] for word in before["words"]] != [word["text"] for word in after["words"]]:
        return None
    words = moved = found = lost = 0
    greatest = 0.0
    index = -1
    gone = -1
    for at, (old, new) in enumerate(zip(before["words"], after["words"])):
        if old["start_s"] is None or new["start_s"] is None:
            found += new["start_s"] is not None
            lost += old["start_s"] is not None
            gone = at if gone < 0 and found + lost else gone
            continue
        distance_s = max(abs(new[edge] - old[edge]) for edge in ("start_s", "end_s"))
        words += 1
        moved += distance_s > MOVED_S + 1e-9
        if distance_s > greatest:
            greatest = distance_s
            index = at
    index = index if gone < 0 else gone
    if index >= 0:
        named = [run["words"][index] for run in (before, after)]
    else:
        named = []
    text, start_s = next(
        ((word["text"], word["start_s"]) for word in named if word["start_s"] is not None),
        ("", 0.0),
    )
    fit = (str(before.get("fit") or "–"), str(after.get("fit") or "–"))
    losses = _loss_per_token(before), _loss_per_token(after)
    counts = {"words": words, "moved": moved, "found": found, "lost": lost}
    return UtteranceChange(id, fit, losses, counts, round(1000 * greatest, 3), text, index, start_s)


def _loss_per_token(data: Mapping[str, Any]) -> float | None:
    loss = data.get("loss_per_token")
    return None if loss is None else float(loss)


def run_changes(
    out_dir: Path, against: Path, progress: Callable[[float], None] | None = None
) -> RunChanges:
    """Return what changed from the run `against` to the run `out_dir`.

    Utterances are matched by name.

    Raises:
        UsageError: `against` is not the folder of a corpus run, or the runs have no utterance with
            JSON in common, damaged or not.
    """
    if not against.is_dir() or not (others := journal_paths(against)):
        raise UsageError(
            f"--against {against}: expected the --out-dir of a corpus run, got none: it has no"
            " journal"
        )
    changes = RunChanges(str(against))
    with (
        Outcomes(journal_paths(out_dir), quiet=True) as now,
        Outcomes(others, lines_left(others)) as earlier,
    ):
        found = _compare_runs(changes, (earlier, against), (now, out_dir), progress)
        changes.largest = heapq.nlargest(MOST_WORST, found, key=_rank)
    if not changes.utterances and not changes.unread:
        raise UsageError(
            f"--against {against}: expected utterances of {out_dir} in it, with the same words, got"
            " none; both runs need JSON files (--format json, not --layout shards)"
        )
    return changes


_Run = tuple[Outcomes, Path]


def _compare_runs(
    changes: RunChanges, before: _Run, after: _Run, progress: Callable[[float], None] | None
) -> Iterator[UtteranceChange]:
    """Count the utterances of two runs in `changes`, and yield those in which a word has changed."""
    outcomes, folder = after
    earlier, earlier_folder = before
    for number, line in enumerate(outcomes.lines(), start=1):
        if progress is not None:
            progress(number / max(len(outcomes), 1))
        names = _json_of_both(earlier.line(line_key(line.id)), line)
        change = None
        if names is not None:
            change = _read_change(changes, line.id, earlier_folder / names[0], folder / names[1])
        if change is None:
            changes.missing += 1
            continue
        changes.add(change)
        if any(change.counts[name] for name in ("moved", "found", "lost")):
            yield change


def _json_of_both(before: Line | None, after: Line) -> tuple[str, str] | None:
    """Return the JSON of an utterance in two runs, None unless both have one."""
    if before is None or before.status != DONE or after.status != DONE:
        return None
    names = (json_of(before), json_of(after))
    return None if names[0] is None or names[1] is None else (names[0], names[1])


def _rank(change: UtteranceChange) -> tuple[int, float, str]:
    return change.counts["found"] + change.counts["lost"], change.greatest_ms, change.id


def _read_change(changes: RunChanges, id: str, before: Path, after: Path) -> UtteranceChange | None:
    """Return what changed between two files.

    It is None if one cannot be read, which is counted, or if the words differ.
    """
    objects = [_read(changes, path) for path in (before, after)]
    if objects[0] is None or objects[1] is None:
        return None
    change = changed(id, objects[0], objects[1])
    return change and replace(change, files=(before, after))


def _read(changes: RunChanges, path: Path) -> dict[str, Any] | None:
    """Return the JSON object of an alignment.

    It is None if it cannot be compared with any other, which is counted.
    """
    try:
        data = read_object(path)
        changed("", data, data)
    except CtcAlignError as error:
        changes.add_fault(str(error))
        return None
    except (KeyError, TypeError, ValueError):
        changes.add_fault(f"{path}: {LACKING}")
        return None
    return data
