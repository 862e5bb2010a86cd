"""Pair the words of two annotations by order; also options of a measurement, and normalised labels.

The pairing is the one with the fewest edits, in which a pair with different labels is one edit; so
mismatches stay local.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ctc_align.errors import InputError, UsageError
from ctc_align.reading import read_input, shown
from ctc_align.types import Interval

WORDS, PHONES = "words", "phones"
TIERS = (WORDS, PHONES)
UTTERANCE, FOLDER = "utterance", "folder"
WITHIN_MS = (10, 20, 25, 50, 100)
ROUNDING_MS = 1e-6
"""Slack of limits, because differences of decimal times are not exact in floating point."""
SAME_EDGE_S = 0.001 + 1e-9
"""An end and a start at most this far apart, in seconds, are one edge.

Times may be rounded to milliseconds.
"""
_EDIT = 1.0
_TIE_PER_S = 1e-6
_TIE_CAP_S = 10.0
BUILT_IN = ("timit",)
SILENCES = frozenset({"", "<eps>", "<sil>", "sil", "sp", "<p:>", "[sil]", "!sil", "<silence>"})
PHONE_SILENCES = SILENCES | {"h#", "pau", "epi", "spn"}
_CLOSURES = {"bcl": "b", "dcl": "d", "gcl": "g", "pcl": "p", "tcl": "t", "kcl": "k"}
_AFFRICATES = {"dcl": "jh", "tcl": "ch"}
# narrow phones of hand-labelled corpora in the broad classes of pronunciation dictionaries
_BROAD = {"ix": "ih", "ax": "ah", "ax-h": "ah", "axr": "er", "ux": "uw", "hv": "hh"}
_BROAD |= {"el": "l", "em": "m", "en": "n", "eng": "ng", "nx": "n"}
_STRESSED = re.compile(r"[a-z]{2}[012]")


@dataclass(frozen=True)
class Options:
    """Options of a measurement; the defaults are those of the literature.

    Raises:
        UsageError: a number is out of range.
    """

    tolerance_ms: float = 20.0
    """The largest distance at which a boundary of the hypothesis hits one of the reference."""
    resamples: int = 1000
    """Number of resamples of the utterances for the 95 % confidence intervals; 0: no intervals."""
    seed: int = 0
    labels: Mapping[str, str] | None = None
    """Map of labels on both sides; "" removes the interval (see `read_labels`)."""
    hypothesis_tier: str | None = None
    """Name or number (from 1) of the tier in the hypothesis's TextGrids.

    None: by the usual names.
    """
    reference_tier: str | None = None
    """The same for the reference."""
    interval_by: str = UTTERANCE
    """The units that are resampled: each "utterance", or each "folder" of them (a speaker's).

    The intervals are computed from these resamples.
    """
    encoding: str | None = None
    """The encoding of TextGrids that are not UTF-8, as in `ctc_align.text.encodings.decode_text`."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tolerance_ms) and self.tolerance_ms > 0):
            raise UsageError(f"tolerance: expected milliseconds above 0, got {self.tolerance_ms}")
        if self.resamples < 0 or self.seed < 0:
            raise UsageError(
                f"resamples and seed: expected 0 or more, got {self.resamples} and {self.seed}"
            )
        if self.interval_by not in (UTTERANCE, FOLDER):
            raise UsageError(
                f"intervals: expected by {UTTERANCE} or by {FOLDER}, got {self.interval_by!r}"
            )


def parse_tier(tier: str) -> str:
    """Return the kind of a tier, "words" or "phones"; "tokens" are phones.

    Raises:
        UsageError: this is not the name of a tier.

    >>> parse_tier("tokens")
    'phones'
    """
    kind = {"word": WORDS, "phone": PHONES, "tokens": PHONES, "token": PHONES}.get(tier, tier)
    if kind not in TIERS:
        raise UsageError(
            f"expected the tier {' or '.join(TIERS)} (words=NAME if a TextGrid uses another name),"
            f" got {tier!r}"
        )
    return kind


@dataclass(frozen=True)
class Pair:
    """An interval of the hypothesis and the corresponding one of the reference."""

    hypothesis: Interval
    reference: Interval
    mismatch: bool


@dataclass(frozen=True)
class Pairing:
    """The pairs of an utterance in order, intervals without a partner, and facts on both files."""

    pairs: tuple[Pair, ...]
    missing: tuple[Interval, ...] = ()
    extra: tuple[Interval, ...] = ()
    utterance: str = ""
    durations_s: tuple[float | None, float | None] = (None, None)
    """Lengths of the hypothesis's and the reference's recording."""
    ours: tuple[bool, bool] = (False, False)
    """True for each side, hypothesis and reference, that ctc-align made."""

    @property
    def mismatched(self) -> int:
        """Number of pairs with different labels."""
        return sum(pair.mismatch for pair in self.pairs)


def normalised_label(label: str) -> str:
    """Return a label in lower case without outer punctuation, with straight apostrophes.

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
    """Pair two sequences of intervals with the fewest edits of labels, on ties the nearest in time.

    Labels are compared after normalisation by `normalised`. A substitution is a pair with
    `mismatch`; "twenty-two" pairs with "twenty",
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
        steps = _find_fewest_edits(hypothesis, reference, left, right)
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
    """Sort the steps between two matches into pairs, missing and extra.

    A compound written as two words is one pair.
    """
    pairs, missing, extra = into
    left = [hypothesis[i] for i, _ in region if i >= 0]
    right = [reference[j] for _, j in region if j >= 0]
    if normalised is normalised_label:
        spelled = _letters
    else:
        spelled = _labels
    if left and right and spelled(left) == spelled(right) != "":
        pairs.append(Pair(_join_intervals(left), _join_intervals(right), mismatch=False))
        return
    for i, j in region:
        if i >= 0 and j >= 0:
            pairs.append(Pair(hypothesis[i], reference[j], mismatch=True))
        elif i >= 0:
            extra.append(hypothesis[i])
        else:
            missing.append(reference[j])


def _letters(intervals: Sequence[Interval]) -> str:
    return "".join(
        char for interval in intervals for char in interval.label.casefold() if char.isalnum()
    )


def _labels(intervals: Sequence[Interval]) -> str:
    return "".join(interval.label for interval in intervals)


def _join_intervals(intervals: Sequence[Interval]) -> Interval:
    return Interval(
        intervals[0].start_s,
        intervals[-1].end_s,
        " ".join(interval.label for interval in intervals),
    )


def _find_fewest_edits(
    hypothesis: Sequence[Interval], reference: Sequence[Interval], left: list[str], right: list[str]
) -> list[tuple[int, int]]:
    """Return steps (i, j) of an optimal edit path, -1 for no partner.

    The band in which it is searched grows until it suffices.
    """
    cost_of_pair = _pair_costs(hypothesis, reference, left, right)
    slack = 8
    while True:
        width = abs(len(left) - len(right)) + slack
        edits, steps = _find_banded_edits(len(left), len(right), width, cost_of_pair)
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


def _find_banded_edits(
    rows: int, columns: int, width: int, cost_of_pair: Callable[[int, int], float]
) -> tuple[float, list[tuple[int, int]]]:
    """Return (cost, steps) of the edit distance within `width` of the diagonal."""
    moves: list[bytearray] = []
    previous = [math.inf] * (columns + 1)
    for i in range(rows + 1):
        low = max(0, i - width)
        high = min(columns, i + width)
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
    return previous[columns], _walk_back(rows, columns, width, moves)


def _walk_back(
    rows: int, columns: int, width: int, moves: list[bytearray]
) -> list[tuple[int, int]]:
    steps: list[tuple[int, int]] = []
    i = rows
    j = columns
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


def compared_intervals(
    intervals: Sequence[Interval], tier: str, labels: Mapping[str, str] | None = None
) -> list[Interval]:
    """Return the intervals to compare: in order of time, mapped by `labels`, without silences.

    Phones lose case and stress marks. Stop closures merge with their bursts before labels are
    mapped. Without
    `labels`, phones are brought into the classes of a dictionary as by `broad_phones`.

    >>> compared_intervals([Interval(0, 1, "KCL"), Interval(1, 2, "k"), Interval(2, 3, "")], "phones")
    [Interval(start_s=0, end_s=2, label='k')]
    """
    intervals = sorted(intervals, key=lambda interval: interval.start_s)
    silences = SILENCES
    if tier == PHONES:
        silences = PHONE_SILENCES
        if labels is None:
            intervals = broad_phones(intervals)
        else:
            intervals = merged_closures(plain_phones(intervals))
    if labels is not None:
        intervals = _map_labels(intervals, labels)
    return [interval for interval in intervals if interval.label.strip().casefold() not in silences]


def plain_phones(intervals: Sequence[Interval]) -> list[Interval]:
    """Return phones without case and without a dictionary's stress mark; other digits stay.

    >>> [interval.label for interval in plain_phones([Interval(0, 1, "AH0"), Interval(1, 2, "6")])]
    ['ah', '6']
    """
    labels = [interval.label.strip().casefold() for interval in intervals]
    labels = [label[:2] if _STRESSED.fullmatch(label) else label for label in labels]
    return [
        Interval(interval.start_s, interval.end_s, label)
        for interval, label in zip(intervals, labels)
    ]


def merged_closures(intervals: Sequence[Interval]) -> list[Interval]:
    """Join each stop closure with its burst; a closure without one becomes the stop.

    Labels are those of `plain_phones`.

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
    """Return phones without case and stress mark.

    If closures have labels, phones are in the classes of a dictionary.

    Closures are merged as by `merged_closures`, ix becomes ih, axr er …, glottal stops are dropped.

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


def is_used(labels: Mapping[str, str], intervals: Iterable[Interval]) -> bool:
    """Return whether a map has any of these labels, on either of its sides."""
    folded = {name.casefold() for pair in labels.items() for name in pair}
    return any(not folded.isdisjoint(_keys(interval.label)) for interval in intervals)


def _keys(label: str) -> tuple[str, ...]:
    """Return the names of a label in a map, without case, best first."""
    plain = plain_phones([Interval(0.0, 0.0, label)])[0].label
    return (label.casefold(), normalised_label(label), plain)


def _map_labels(intervals: Sequence[Interval], labels: Mapping[str, str]) -> list[Interval]:
    folded = {source.casefold(): target for source, target in labels.items()}

    def target(label: str) -> str:
        return next((folded[key] for key in _keys(label) if key in folded), label)

    moved = [
        Interval(interval.start_s, interval.end_s, target(interval.label)) for interval in intervals
    ]
    return [interval for interval in moved if interval.label]


def read_labels(source: str | Path) -> dict[str, str]:
    """Read a map of labels: a file, or "timit", which maps 61 phones to Lee & Hon's 39.

    A line holds two columns, `from to`, separated by spaces; `from` alone removes such intervals.
    Lines that begin with "#", and text after " #", are comments. Case does not matter; labels that
    are not in the map stay. A map is applied once: `a b` and `b c` make b of a.

    Raises:
        UsageError: no such file.
        InputError: a line has more columns, or a label has two targets; the message has the line's
            number.
    """
    if str(source) in BUILT_IN:
        text = (resources.files("ctc_align.evaluate") / "maps" / f"{source}.map").read_text("utf-8")
        return _parse_map(text, str(source))
    try:
        text = read_input(source, pipes=True).decode("utf-8-sig")
    except OSError as error:
        known = ", ".join(BUILT_IN)
        raise UsageError(
            f"{source}: cannot be read ({error.strerror or error}); expected a file with the"
            f" columns 'from to', or a built-in map: {known}"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: expected UTF-8, got {error.reason} at byte {error.start}"
        ) from error
    return _parse_map(text, str(source))


def _parse_map(text: str, name: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        columns = line.split(" #")[0].split("\t#")[0].split()
        if not columns:
            continue
        if len(columns) > 2:
            raise InputError(
                f"{name}:{number}: expected two columns, 'from to', got {len(columns)}:"
                f" {line.strip()[:100]}"
            )
        label = columns[0].casefold()
        if len(columns) == 2:
            target = columns[1]
        else:
            target = ""
        if labels.setdefault(label, target) != target:
            raise InputError(
                f"{name}:{number}: {columns[0][:60]} becomes {shown(target)}, but"
                f" {shown(labels[label])} further up"
            )
    if not labels:
        raise InputError(f"{name}: expected lines with two columns, 'from to', got none")
    return labels
