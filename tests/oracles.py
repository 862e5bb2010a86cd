"""What the kernels must say, found by other means: enumeration of all paths of tiny problems, and plain Python.

Nothing here shares code or recursion with the package: CTC paths are found by collapsing every string of labels, paths
of the segmentation topology by dealing the frames to its parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Path = tuple[int, ...]
"""States, one per frame."""


@dataclass(frozen=True)
class Answer:
    """What an oracle says of one utterance: `path` is None where there is none."""

    total: float
    best: float
    path: Path | None
    occupancy: np.ndarray


def collapse(labels: Sequence[int], blank: int) -> list[int]:
    """Runs become one label, blanks vanish.

    >>> collapse([0, 3, 3, 0, 3, 5, 5], blank=0)
    [3, 3, 5]
    """
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def ctc_paths(frames: int, classes: int, target: Sequence[int], blank: int) -> Iterator[tuple[Path, Path]]:
    """Every string of labels that collapses to the target, as states (blank k is 2k, token k is 2k + 1) and labels.

    >>> sorted(ctc_paths(2, 2, [1], blank=0))
    [((0, 1), (0, 1)), ((1, 1), (1, 1)), ((1, 2), (1, 0))]
    """
    for labels in itertools.product(range(classes), repeat=frames):
        if collapse(labels, blank) != list(target):
            continue
        states, said, previous = [], 0, blank
        for label in labels:
            said += label not in (blank, previous)
            states.append(2 * said if label == blank else 2 * said - 1)
            previous = label
        yield tuple(states), labels


def segment_paths(
    frames: int, target: Sequence[int], words: Sequence[int], parts: int, silence: int
) -> Iterator[tuple[Path, Path]]:
    """Every way to deal the frames to the parts of the tokens, one or more each, and to the silences, none or more.

    >>> sorted(states for states, _ in segment_paths(2, [0], [0], 1, 9))
    [(0, 1), (1, 1), (1, 2)]
    """
    row = [(silence, 0)]
    for place, unit in enumerate(target):
        if place and words[place] != words[place - 1]:
            row.append((silence, 0))
        row += [(unit * parts + part, 1) for part in range(parts)]
    if target:
        row.append((silence, 0))

    def deal(left: int, state: int) -> Iterator[list[int]]:
        if state == len(row):
            if left == 0:
                yield []
            return
        for count in range(row[state][1], left + 1):
            for rest in deal(left - count, state + 1):
                yield [state] * count + rest

    for states in deal(frames, 0):
        yield tuple(states), tuple(row[state][0] for state in states)


def enumerate_all(x: np.ndarray, paths: Iterator[tuple[Path, Path]]) -> Answer:
    """Total, best path under the tie contract, and occupancy over the given paths; `x` (T, C) float64.

    Of equal paths the contract prefers, from the end backwards, the higher state: stay before step before skip.
    """
    scored = [(float(sum(x[t, label] for t, label in enumerate(labels))), states, labels) for states, labels in paths]
    scored = [entry for entry in scored if entry[0] > -math.inf]
    occupancy = np.zeros(x.shape)
    if not scored:
        return Answer(-math.inf, -math.inf, None, occupancy)
    best, path, _ = max(scored, key=lambda entry: (entry[0], entry[1][::-1]))
    total = best + math.log(math.fsum(math.exp(score - best) for score, _, _ in scored))
    for score, _, labels in scored:
        for t, label in enumerate(labels):
            occupancy[t, label] += math.exp(score - total)
    return Answer(total, best, path, occupancy)


def viterbi(
    x: np.ndarray,
    emit: Sequence[int],
    skip: Sequence[bool],
    ends: tuple[int, int],
    band: np.ndarray | None = None,
) -> tuple[float, Path | None]:
    """Best path in plain Python, for problems too large to enumerate: each state carries its whole path, last frame
    first, and the greater of (score, path) wins, so that ties are decided by comparing paths from their ends."""
    starts, finals = ends
    size = len(emit)
    live: dict[int, tuple[float, Path]] = {}
    for t in range(len(x)):
        after: dict[int, tuple[float, Path]] = {}
        for s in range(size):
            if band is not None and not band[t][0] <= s < band[t][1]:
                continue
            if t == 0:
                came = [(0.0, ())] if s < starts else []
            else:
                came = [live[p] for p in (s, s - 1, s - 2) if p in live and (p > s - 2 or skip[s])]
            score = float(x[t, emit[s]])
            if came and score > -math.inf:
                before, path = max(came)
                after[s] = (before + score, (s, *path))
        live = after
    last = [live[s] for s in range(size - finals, size) if s in live]
    if not last:
        return -math.inf, None
    score, path = max(last)
    return score, path[::-1]


def close(met: float, expected: float, relative: float, absolute: float) -> bool:
    """Equal infinities, or finite and near."""
    if math.isinf(expected) or math.isinf(met):
        return met == expected
    return abs(met - expected) <= max(absolute, relative * abs(expected))
