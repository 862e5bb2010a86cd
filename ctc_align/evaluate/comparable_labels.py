"""Normalisation of labels before two annotations are compared: silences, stop closures, phone sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate.measure_options import PHONES
from ctc_align.evaluate.pairing import SAME_EDGE_S, normalised_label
from ctc_align.reading import read_input, shown
from ctc_align.types import Interval

BUILT_IN = ("timit",)
SILENCES = frozenset({"", "<eps>", "<sil>", "sil", "sp", "<p:>", "[sil]", "!sil", "<silence>"})
PHONE_SILENCES = SILENCES | {"h#", "pau", "epi", "spn"}

_CLOSURES = {"bcl": "b", "dcl": "d", "gcl": "g", "pcl": "p", "tcl": "t", "kcl": "k"}
_AFFRICATES = {"dcl": "jh", "tcl": "ch"}
# narrow phones of hand-labelled corpora in the broad classes of pronunciation dictionaries
_BROAD = {"ix": "ih", "ax": "ah", "ax-h": "ah", "axr": "er", "ux": "uw", "hv": "hh"}
_BROAD |= {"el": "l", "em": "m", "en": "n", "eng": "ng", "nx": "n"}
_STRESSED = re.compile(r"[a-z]{2}[012]")


def compared_intervals(
    intervals: Sequence[Interval], tier: str, labels: Mapping[str, str] | None = None
) -> list[Interval]:
    """Return the intervals that are compared: in order of time, mapped by `labels`, without silences.

    Phones lose case and stress marks. Stop closures merge with their bursts before labels are mapped. Without
    `labels`, phones are brought into the classes of a dictionary as by `broad_phones`.

    >>> compared_intervals([Interval(0, 1, "KCL"), Interval(1, 2, "k"), Interval(2, 3, "")], "phones")
    [Interval(start_s=0, end_s=2, label='k')]
    """
    intervals = sorted(intervals, key=lambda interval: interval.start_s)
    silences = SILENCES
    if tier == PHONES:
        silences = PHONE_SILENCES
        intervals = broad_phones(intervals) if labels is None else merged_closures(plain_phones(intervals))
    if labels is not None:
        intervals = _mapped(intervals, labels)
    return [interval for interval in intervals if interval.label.strip().casefold() not in silences]


def plain_phones(intervals: Sequence[Interval]) -> list[Interval]:
    """Return phones without case and without the stress mark of pronunciation dictionaries; other digits stay.

    >>> [interval.label for interval in plain_phones([Interval(0, 1, "AH0"), Interval(1, 2, "6")])]
    ['ah', '6']
    """
    labels = [interval.label.strip().casefold() for interval in intervals]
    labels = [label[:2] if _STRESSED.fullmatch(label) else label for label in labels]
    return [Interval(interval.start_s, interval.end_s, label) for interval, label in zip(intervals, labels)]


def merged_closures(intervals: Sequence[Interval]) -> list[Interval]:
    """Join each stop closure with the burst that follows at once; a closure without one becomes the stop.

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
    """Return phones without case and stress mark; if closures have labels, in the classes of a dictionary.

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


def _mapped(intervals: Sequence[Interval], labels: Mapping[str, str]) -> list[Interval]:
    folded = {source.casefold(): target for source, target in labels.items()}

    def target(label: str) -> str:
        return next((folded[key] for key in _keys(label) if key in folded), label)

    moved = [Interval(interval.start_s, interval.end_s, target(interval.label)) for interval in intervals]
    return [interval for interval in moved if interval.label]


def read_labels(source: str | Path) -> dict[str, str]:
    """Read a map of labels: a built-in one by its name ("timit": 61 phones to Lee & Hon's 39), or a file.

    A line holds two columns, `from to`, separated by spaces; `from` alone removes such intervals. Lines that begin with
    "#", and text after " #", are comments. Case does not matter; labels that are not in the map stay. A map is applied
    once: `a b` and `b c` make b of a.

    Raises:
        UsageError: no such file.
        InputError: a line with more columns, or two targets for one label; with its number.
    """
    if str(source) in BUILT_IN:
        text = (resources.files("ctc_align.evaluate") / "maps" / f"{source}.map").read_text("utf-8")
        return _parsed(text, str(source))
    try:
        text = read_input(source, pipes=True).decode("utf-8-sig")
    except OSError as error:
        known = ", ".join(BUILT_IN)
        raise UsageError(
            f"{source}: cannot be read ({error.strerror or error}); expected a file with the columns "
            f"'from to', or a built-in map: {known}"
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: expected UTF-8, got {error.reason} at byte {error.start}") from error
    return _parsed(text, str(source))


def _parsed(text: str, name: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("#"):
            continue
        columns = line.split(" #")[0].split("\t#")[0].split()
        if not columns:
            continue
        if len(columns) > 2:
            raise InputError(
                f"{name}:{number}: expected two columns, 'from to', got {len(columns)}: {line.strip()[:100]}"
            )
        label, target = columns[0].casefold(), columns[1] if len(columns) == 2 else ""
        if labels.setdefault(label, target) != target:
            raise InputError(
                f"{name}:{number}: {columns[0][:60]} becomes {shown(target)}, but {shown(labels[label])} further up"
            )
    if not labels:
        raise InputError(f"{name}: expected lines with two columns, 'from to', got none")
    return labels
