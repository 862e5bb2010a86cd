"""Labels of two annotators made comparable: silences left out, closures merged, phone sets mapped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from ctc_align.errors import InputError, UsageError
from ctc_align.evaluate.measure_options import PHONES
from ctc_align.evaluate.pairing import (
    PHONE_SILENCES,
    SILENCES,
    broad_phones,
    merged_closures,
    normalised_label,
    plain_phones,
)
from ctc_align.formats.textgrid_reading import Interval

BUILT_IN = ("timit",)


def spoken(intervals: Sequence[Interval], tier: str, labels: Mapping[str, str] | None = None) -> list[Interval]:
    """The intervals that are compared: in order of time, mapped by `labels`, without silences.

    Phones lose case and stress marks. Stop closures merge with their bursts before anything is mapped; a closure
    without its burst is the stop. Without `labels`, phones of a row that labels closures apart are also brought into
    the classes of a dictionary (ix → ih, axr → er …, q dropped).

    >>> spoken([Interval(0, 1, "KCL"), Interval(1, 2, "k"), Interval(2, 3, "")], "phones")
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


def is_used(labels: Mapping[str, str], intervals: Iterable[Interval]) -> bool:
    """Whether the map has any of these labels, on either of its sides."""
    folded = {name.casefold() for pair in labels.items() for name in pair}
    return any(not folded.isdisjoint(_keys(interval.label)) for interval in intervals)


def _keys(label: str) -> tuple[str, ...]:
    """What a label may be called in a map, without case, best first."""
    plain = plain_phones([Interval(0.0, 0.0, label)])[0].label
    return (label.casefold(), normalised_label(label), plain)


def _mapped(intervals: Sequence[Interval], labels: Mapping[str, str]) -> list[Interval]:
    folded = {source.casefold(): target for source, target in labels.items()}

    def target(label: str) -> str:
        return next((folded[key] for key in _keys(label) if key in folded), label)

    moved = [Interval(interval.start_s, interval.end_s, target(interval.label)) for interval in intervals]
    return [interval for interval in moved if interval.label]


def read_labels(source: str | Path) -> dict[str, str]:
    """A map of labels: a built-in one by its name ("timit": 61 phones into Lee & Hon's 39), or a file.

    A line holds two columns, `from to`, apart by spaces; `from` alone removes such intervals. Lines that begin with
    "#", and what follows " #", are comments. Case does not matter; what is not in the map stays as it is. A map is
    applied once: `a b` and `b c` make b of a.

    Raises:
        UsageError: no such file.
        InputError: a line with more columns, or two targets for one label; with its number.
    """
    if str(source) in BUILT_IN:
        text = (resources.files("ctc_align.evaluate") / "maps" / f"{source}.map").read_text("utf-8")
        return _parsed(text, str(source))
    try:
        text = Path(source).read_bytes().decode("utf-8-sig")
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
            raise InputError(f"{name}:{number}: expected two columns, 'from to', got {len(columns)}: {line.strip()}")
        label, target = columns[0].casefold(), columns[1] if len(columns) == 2 else ""
        if labels.setdefault(label, target) != target:
            raise InputError(f"{name}:{number}: {columns[0]} becomes {target!r}, but {labels[label]!r} further up")
    if not labels:
        raise InputError(f"{name}: expected lines with two columns, 'from to', got none")
    return labels
