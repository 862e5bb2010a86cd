"""Which interval of a hypothesis stands for which interval of a reference: by order, with mismatches kept local."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ctc_align.formats.textgrid_reading import Interval

SILENCES = frozenset({"", "<eps>", "<sil>", "sil", "sp", "<p:>", "[sil]", "!sil", "<silence>"})
PHONE_SILENCES = SILENCES | {"h#", "pau", "epi", "spn"}

_CLOSURES = {"bcl": "b", "dcl": "d", "gcl": "g", "pcl": "p", "tcl": "t", "kcl": "k"}
_AFFRICATES = {"dcl": "jh", "tcl": "ch"}
# the narrow phones of hand-labelled corpora, in the broad classes of pronunciation dictionaries
_BROAD = {"ix": "ih", "ax": "ah", "ax-h": "ah", "axr": "er", "ux": "uw", "hv": "hh"}
_BROAD |= {"el": "l", "em": "m", "en": "n", "eng": "ng", "nx": "n"}

SAME_EDGE_S = 0.001 + 1e-9
"""An end and the next start this close are one edge: what rounding to milliseconds can tear apart."""
_STRESSED = re.compile(r"[a-z]{2}[012]")

_EDIT = 1.0
_TIE_PER_S = 1e-6
_TIE_CAP_S = 10.0


@dataclass(frozen=True)
class Pair:
    """A stretch of the hypothesis and the stretch of the reference that it stands for."""

    hypothesis: Interval
    reference: Interval
    mismatch: bool


@dataclass(frozen=True)
class Pairing:
    """All pairs in order, and what has no partner."""

    pairs: tuple[Pair, ...]
    missing: tuple[Interval, ...]
    extra: tuple[Interval, ...]


def normalised_label(label: str) -> str:
    """A label without case, outer punctuation and kinds of apostrophe.

    >>> normalised_label("“Don’t!”")
    "don't"
    """
    label = label.strip().casefold().replace("’", "'")
    inner = [i for i, char in enumerate(label) if char.isalnum()]
    return label[inner[0] : inner[-1] + 1] if inner else label


def plain_phones(intervals: Sequence[Interval]) -> list[Interval]:
    """Phones without case and without the stress mark of pronunciation dictionaries; other digits are the label's own.

    >>> [interval.label for interval in plain_phones([Interval(0, 1, "AH0"), Interval(1, 2, "6")])]
    ['ah', '6']
    """
    labels = [interval.label.strip().casefold() for interval in intervals]
    labels = [label[:2] if _STRESSED.fullmatch(label) else label for label in labels]
    return [Interval(interval.start_s, interval.end_s, label) for interval, label in zip(intervals, labels)]


def merged_closures(intervals: Sequence[Interval]) -> list[Interval]:
    """Stops in one piece: a closure joins the burst that follows at once, or stands for the stop when it has none.

    Labels are plain (see `plain_phones`); without closures among them nothing changes.

    >>> merged_closures([Interval(0.0, 0.1, "tcl"), Interval(0.1, 0.2, "ch"), Interval(0.2, 0.3, "kcl")])
    [Interval(start_s=0.0, end_s=0.2, label='ch'), Interval(start_s=0.2, end_s=0.3, label='k')]
    """
    phones: list[Interval] = []
    closure: Interval | None = None
    for interval in intervals:
        if closure is not None and _is_burst(interval, closure):
            phones[-1] = Interval(closure.start_s, interval.end_s, interval.label)
            closure = None
            continue
        closure = interval if interval.label in _CLOSURES else None
        label = _CLOSURES.get(interval.label, interval.label)
        phones.append(Interval(interval.start_s, interval.end_s, label))
    return phones


def _is_burst(interval: Interval, closure: Interval) -> bool:
    bursts = (_CLOSURES[closure.label], _AFFRICATES.get(closure.label))
    return interval.label in bursts and abs(interval.start_s - closure.end_s) <= SAME_EDGE_S


def broad_phones(intervals: Sequence[Interval]) -> list[Interval]:
    """Phones without case and stress mark; where closures are labelled apart, in the classes of a dictionary.

    A closure joins its burst, or stands for the stop when that has none; glottal stops are dropped.

    >>> broad_phones([Interval(0.0, 0.1, "tcl"), Interval(0.1, 0.2, "ch"), Interval(0.2, 0.3, "IX")])
    [Interval(start_s=0.0, end_s=0.2, label='ch'), Interval(start_s=0.2, end_s=0.3, label='ih')]
    """
    plain = plain_phones(intervals)
    if not any(interval.label in _CLOSURES for interval in plain):
        return plain
    return [
        Interval(interval.start_s, interval.end_s, _BROAD.get(interval.label, interval.label))
        for interval in merged_closures(plain)
        if interval.label != "q"
    ]


def pair_intervals(
    hypothesis: Sequence[Interval],
    reference: Sequence[Interval],
    normalised: Callable[[str], str] = normalised_label,
) -> Pairing:
    """Pair two rows of intervals with the fewest edits of their labels; among equals the nearest in time.

    Labels are the same when `normalised` makes them so. A substituted label is a pair with `mismatch`; "twenty-two"
    pairs with "twenty", "two" as one stretch.

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
    """Sort the steps between two matches into pairs, missing and extra; a compound written apart is one pair."""
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
    """Steps (i, j) of an optimal edit path, -1 for no partner; the band about the diagonal grows until it suffices."""
    cost_of_pair = _pair_costs(hypothesis, reference, left, right)
    slack = 8
    while True:
        width = abs(len(left) - len(right)) + slack
        edits, steps = _banded_edits(len(left), len(right), width, cost_of_pair)
        # a path with this few edits never strays further than the band from the diagonal
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
    """Edit distance within `width` of the diagonal: (cost, steps)."""
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
