"""What the kernels must say, found by other means: enumeration of all paths of tiny problems, and
plain Python.

Nothing here shares code or recursion with the package: CTC paths are found by collapsing every
string of labels, paths of the segmentation topology by dealing the frames to its parts, those with
optional tokens from every subset of them, and those of any topology by asking of every sequence of
states whether it is one. The label WILDCARD is a class beside the others, whose scores are a column
of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

WILDCARD = -1
Path = tuple[int, ...]
"""States, one per frame."""


@dataclass(frozen=True)
class Answer:
    """What an oracle says of one utterance: `path` is None without a path; `wildcard` (T,) is its
    occupancy."""

    total: float
    best: float
    path: Path | None
    occupancy: np.ndarray
    wildcard: np.ndarray


def collapse(labels: Sequence[int], blank: int) -> list[int]:
    """Runs become one label, blanks vanish.

    >>> collapse([0, 3, 3, 0, 3, 5, 5], blank=0)
    [3, 3, 5]
    """
    return [label for label, _ in itertools.groupby(labels) if label != blank]


def subsets(tokens: int, optional: Sequence[bool] | None) -> Iterator[Path]:
    """Every way to keep tokens: all that are not optional, and any of the others.

    >>> list(subsets(2, [True, False]))
    [(0, 1), (1,)]
    """
    choices = [
        (True, False) if optional is not None and optional[k] else (True,) for k in range(tokens)
    ]
    for kept in itertools.product(*choices):
        yield tuple(k for k in range(tokens) if kept[k])


def ctc_paths(
    frames: int,
    classes: int,
    target: Sequence[int],
    blank: int,
    optional: Sequence[bool] | None = None,
) -> Iterator[tuple[Path, Path]]:
    """Every string of labels that collapses to what is kept of the target, as states and labels,
    for every subset.

    The blank before token k is state 2k, token k is 2k + 1, the blank after the last that is kept
    is 2L.

    >>> sorted(ctc_paths(2, 2, [1], blank=0))
    [((0, 1), (0, 1)), ((1, 1), (1, 1)), ((1, 2), (1, 0))]
    """
    kept_as: dict[Path, list[Path]] = {}
    for kept in subsets(len(target), optional):
        kept_as.setdefault(tuple(target[k] for k in kept), []).append(kept)
    alphabet = [*range(classes), *({WILDCARD} & set(target))]
    for labels in itertools.product(alphabet, repeat=frames):
        for kept in kept_as.get(tuple(collapse(labels, blank)), ()):
            place = [*kept, len(target)]
            states, said, previous = [], 0, blank
            for label in labels:
                said += label not in (blank, previous)
                states.append(2 * place[said] if label == blank else 2 * place[said - 1] + 1)
                previous = label
            yield tuple(states), labels


def simple_ctc_paths(
    frames: int, classes: int, target: Sequence[int], blank: int
) -> Iterator[tuple[Path, Path]]:
    """Every string of labels that is the target when its blanks are taken out; runs stay runs.

    >>> sorted(simple_ctc_paths(2, 2, [1], blank=0))
    [((0, 1), (0, 1)), ((1, 2), (1, 0))]
    """
    for labels in itertools.product([*range(classes), *({WILDCARD} & set(target))], repeat=frames):
        if [label for label in labels if label != blank] == list(target):
            before = itertools.accumulate((label != blank for label in labels), initial=0)
            yield (
                tuple(2 * count + (label != blank) for count, label in zip(before, labels)),
                labels,
            )


def segment_paths(
    frames: int,
    target: Sequence[int],
    words: Sequence[int],
    parts: int,
    silence: int,
    optional: Sequence[bool] | None = None,
) -> Iterator[tuple[Path, Path]]:
    """Every way to deal the frames to the parts of the tokens, one or more each, and to the
    silences, none or more, for every subset of the tokens. A silence is where its word's stands
    when all are kept, or the one at the end.

    >>> sorted(states for states, _ in segment_paths(2, [0], [0], 1, 9))
    [(0, 1), (1, 1), (1, 2)]
    """
    state_of, silence_of, state = [], [], 0
    for place, unit in enumerate(target):
        if place == 0 or words[place] != words[place - 1]:
            state += 1
        own = state - 1 if place == 0 or words[place] != words[place - 1] else silence_of[-1]
        silence_of.append(own)
        labels = [unit] if unit == WILDCARD else [unit * parts + part for part in range(parts)]
        state_of.append([(state + part, label) for part, label in enumerate(labels)])
        state += len(labels)
    # Words are runs: two of the same number with another between them are two words, also if that
    # one is left out.
    run = list(itertools.accumulate((a != b for a, b in itertools.pairwise(words)), initial=0))

    def deal(left: int, row: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int]]]:
        if not row:
            if left == 0:
                yield []
            return
        state, label, least = row[0]
        for count in range(least, left + 1):
            for rest in deal(left - count, row[1:]):
                yield [(state, label)] * count + rest

    for kept in subsets(len(target), optional):
        row = []
        for before, k in zip((None, *kept), kept):
            if before is None or run[before] != run[k]:
                row.append((silence_of[k], silence, 0))
            row += [(state, label, 1) for state, label in state_of[k]]
        row.append((state, silence, 0))
        for path in deal(frames, row):
            yield tuple(state for state, _ in path), tuple(label for _, label in path)


def topology_paths(
    frames: int,
    emit: Sequence[int],
    entered: Sequence[Collection[int]],
    begin: Collection[int],
    end: Collection[int],
) -> Iterator[tuple[Path, Path]]:
    """Every sequence of states that begins and ends where it may, and enters each state from where
    it may."""
    for states in itertools.product(range(len(emit)), repeat=frames):
        if states and not (states[0] in begin and states[-1] in end):
            continue
        if all(before in entered[after] for before, after in itertools.pairwise(states)):
            yield states, tuple(emit[s] for s in states)


def enumerate_all(
    x: np.ndarray, paths: Iterable[tuple[Path, Path]], wildcard: np.ndarray | None = None
) -> Answer:
    """Total, best path under the tie contract, and occupancy over the given paths; `x` (T, C)
    float64, `wildcard` (T,).

    Of equal paths the contract prefers, from the end backwards, the higher state: stay before step
    before skip.
    """

    def score(t: int, label: int) -> float:
        return float(wildcard[t] if label == WILDCARD else x[t, label])

    scored = [
        (sum(score(t, label) for t, label in enumerate(labels)), states, labels)
        for states, labels in paths
    ]
    scored = [entry for entry in scored if entry[0] > -math.inf]
    occupancy = np.zeros((len(x), x.shape[1] + 1))
    if not scored:
        return Answer(-math.inf, -math.inf, None, occupancy[:, :-1], occupancy[:, -1])
    best, path, _ = max(scored, key=lambda entry: (entry[0], entry[1][::-1]))
    total = best + math.log(math.fsum(math.exp(score - best) for score, _, _ in scored))
    for along, _, labels in scored:
        for t, label in enumerate(labels):
            # The last column is the wildcard's: -1.
            occupancy[t, label] += math.exp(along - total)
    return Answer(total, best, path, occupancy[:, :-1], occupancy[:, -1])


def viterbi(
    x: np.ndarray,
    entered: Sequence[Collection[int]],
    begin: Collection[int],
    end: Collection[int],
    band: np.ndarray | None = None,
) -> tuple[float, Path | None]:
    """Best path in plain Python, for problems too large to enumerate: each state carries its whole
    path, last frame first, and the greater of (score, path) wins, so that ties are decided by
    comparing paths from their ends.

    `x` (T, S): what each state scores at each frame; `entered`: the states from which each may be
    entered.
    """
    live: dict[int, tuple[float, Path]] = {}
    for t in range(len(x)):
        after: dict[int, tuple[float, Path]] = {}
        for s in range(len(entered)):
            if band is not None and not band[t][0] <= s < band[t][1]:
                continue
            came = (
                [live[p] for p in entered[s] if p in live]
                if t
                else [(0.0, ())]
                if s in begin
                else []
            )
            score = float(x[t, s])
            if came and score > -math.inf:
                before, path = max(came)
                after[s] = (before + score, (s, *path))
        live = after
    last = [live[s] for s in end if s in live]
    if not last:
        return -math.inf, None
    score, path = max(last)
    return score, path[::-1]


def close(met: float, expected: float, relative: float, absolute: float) -> bool:
    """Equal infinities, or finite and near."""
    if math.isinf(expected) or math.isinf(met):
        return met == expected
    return abs(met - expected) <= max(absolute, relative * abs(expected))
