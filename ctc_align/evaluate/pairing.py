"""Pairing of the intervals of a hypothesis with those of a reference: by order, with mismatches kept local."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ctc_align.types import Interval

SAME_EDGE_S = 0.001 + 1e-9
"""An end and a start at most this far apart are one edge, in seconds: times may be rounded to milliseconds."""

_EDIT = 1.0
_TIE_PER_S = 1e-6
_TIE_CAP_S = 10.0


@dataclass(frozen=True)
class Pair:
    """An interval of the hypothesis and the corresponding one of the reference."""

    hypothesis: Interval
    reference: Interval
    mismatch: bool


@dataclass(frozen=True)
class Pairing:
    """The pairs in order, and the intervals without a partner."""

    pairs: tuple[Pair, ...]
    missing: tuple[Interval, ...]
    extra: tuple[Interval, ...]


def normalised_label(label: str) -> str:
    """Return a label without case and outer punctuation, with straight apostrophes.

    >>> normalised_label("“Don’t!”")
    "don't"
    """
    label = label.strip().casefold().replace("’", "'")
    inner = [i for i, char in enumerate(label) if char.isalnum()]
    return label[inner[0] : inner[-1] + 1] if inner else label


def pair_intervals(
    hypothesis: Sequence[Interval],
    reference: Sequence[Interval],
    normalised: Callable[[str], str] = normalised_label,
) -> Pairing:
    """Pair two rows of intervals by the fewest edits of their labels; on ties the nearest in time pair.

    Labels are compared after `normalised`. A substitution is a pair with `mismatch`; "twenty-two" pairs with "twenty",
    "two" as one interval.

    >>> hypothesis = [Interval(0, 1, "twenty-two"), Interval(1, 2, "Lines,")]
    >>> reference = [Interval(0, 0.5, "twenty"), Interval(0.5, 1, "two"), Interval(1, 2, "lines")]
    >>> [(pair.reference.label, pair.mismatch) for pair in pair_intervals(hypothesis, reference).pairs]
    [('twenty two', False), ('lines', False)]
    """
    left = [normalised(interval.label) for interval in hypothesis]
    right = [normalised(interval.label) for interval in reference]
    if left == right:
        steps = [(i, i) for i in range(len(left))]
    else:
        steps = _fewest_edits(hypothesis, reference, left, right)
    pairs: list[Pair] = []
    missing: list[Interval] = []
    extra: list[Interval] = []
    region: list[tuple[int, int]] = []
    for i, j in [*steps, (len(left), len(right))]:
        at_end = i == len(left) and j == len(right)
        same = not at_end and i >= 0 and j >= 0 and left[i] == right[j]
        if not (same or at_end):
            region.append((i, j))
            continue
        _close_region(region, hypothesis, reference, (pairs, missing, extra), normalised)
        region = []
        if same:
            pairs.append(Pair(hypothesis[i], reference[j], mismatch=False))
    return Pairing(tuple(pairs), tuple(missing), tuple(extra))


def _close_region(
    region: list[tuple[int, int]],
    hypothesis: Sequence[Interval],
    reference: Sequence[Interval],
    into: tuple[list[Pair], list[Interval], list[Interval]],
    normalised: Callable[[str], str],
) -> None:
    """Sort the steps between two matches into pairs, missing and extra; a compound written as two words is one pair."""
    pairs, missing, extra = into
    left = [hypothesis[i] for i, _ in region if i >= 0]
    right = [reference[j] for _, j in region if j >= 0]
    spelled = _letters if normalised is normalised_label else _labels
    if left and right and spelled(left) == spelled(right) != "":
        pairs.append(Pair(_joined(left), _joined(right), mismatch=False))
        return
    for i, j in region:
        if i >= 0 and j >= 0:
            pairs.append(Pair(hypothesis[i], reference[j], mismatch=True))
        elif i >= 0:
            extra.append(hypothesis[i])
        else:
            missing.append(reference[j])


def _letters(intervals: Sequence[Interval]) -> str:
    return "".join(char for interval in intervals for char in interval.label.casefold() if char.isalnum())


def _labels(intervals: Sequence[Interval]) -> str:
    return "".join(interval.label for interval in intervals)


def _joined(intervals: Sequence[Interval]) -> Interval:
    return Interval(intervals[0].start_s, intervals[-1].end_s, " ".join(interval.label for interval in intervals))


def _fewest_edits(
    hypothesis: Sequence[Interval], reference: Sequence[Interval], left: list[str], right: list[str]
) -> list[tuple[int, int]]:
    """Return steps (i, j) of an optimal edit path, -1 for no partner, from a band that grows until it suffices."""
    cost_of_pair = _pair_costs(hypothesis, reference, left, right)
    slack = 8
    while True:
        width = abs(len(left) - len(right)) + slack
        edits, steps = _banded_edits(len(left), len(right), width, cost_of_pair)
        # a path with so few edits stays inside the band
        if edits <= slack or width >= max(len(left), len(right)):
            return steps
        slack *= 4


def _pair_costs(
    hypothesis: Sequence[Interval], reference: Sequence[Interval], left: list[str], right: list[str]
) -> Callable[[int, int], float]:
    left_mid = [(interval.start_s + interval.end_s) / 2 for interval in hypothesis]
    right_mid = [(interval.start_s + interval.end_s) / 2 for interval in reference]

    def cost_of_pair(i: int, j: int) -> float:
        tie = _TIE_PER_S * min(abs(left_mid[i] - right_mid[j]), _TIE_CAP_S)
        return tie if left[i] == right[j] else _EDIT + tie

    return cost_of_pair


def _banded_edits(
    rows: int, columns: int, width: int, cost_of_pair: Callable[[int, int], float]
) -> tuple[float, list[tuple[int, int]]]:
    """Return (cost, steps) of the edit distance within `width` of the diagonal."""
    moves: list[bytearray] = []
    previous = [math.inf] * (columns + 1)
    for i in range(rows + 1):
        low, high = max(0, i - width), min(columns, i + width)
        current = [math.inf] * (columns + 1)
        move = bytearray(high - low + 1)
        for j in range(low, high + 1):
            if i == 0 and j == 0:
                current[0] = 0.0
                continue
            options = (
                previous[j - 1] + cost_of_pair(i - 1, j - 1) if i and j else math.inf,
                previous[j] + _EDIT if i else math.inf,
                current[j - 1] + _EDIT if j else math.inf,
            )
            current[j] = min(options)
            move[j - low] = options.index(current[j])
        moves.append(move)
        previous = current
    return previous[columns], _walked_back(rows, columns, width, moves)


def _walked_back(rows: int, columns: int, width: int, moves: list[bytearray]) -> list[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    i, j = rows, columns
    while i or j:
        move = moves[i][j - max(0, i - width)]
        if move == 0:
            i, j = i - 1, j - 1
            steps.append((i, j))
        elif move == 1:
            i -= 1
            steps.append((i, -1))
        else:
            j -= 1
            steps.append((-1, j))
    return steps[::-1]
