"""Praat's TextGrid, written in the long or the short text format; `ctc_align.text.textgrid_files` reads it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from ctc_align.formats.spoken_tiers import SpokenTier, is_document, tiers_by_source, tiers_by_speaker, unused_names
from ctc_align.formats.writer import RECORDING, UNITS_PER_S, TimedLabel, Writer, end_units
from ctc_align.text.control_characters import without_controls
from ctc_align.text.textgrid_files import textgrid_layout
from ctc_align.types import TEXTGRID, AlignmentData

SHORT = "short"
_MS_OVER = 1000
"""A word may end 10 ms after the end of a TextGrid, in its units, without making it longer: that is rounding."""


class TextGridWriter(Writer):
    """Interval tiers `words` and `tokens` (or `phones`) that cover the recording without gaps; silence is "".

    The style's `tiers` may name others: `sentences`, and `speakers` (who speaks when). Where the transcript names
    several speakers each has tiers of its own, named as MFA does: `SPEAKER - words` and `SPEAKER - tokens`; words
    before the first name are `unnamed`. A transcript that is a TextGrid comes back as it is, in its own text
    format, with `TIER - words` and `TIER - tokens` for each tier of its text behind its own tiers.

    In a label or a tier's name white space is a space and a control character U+FFFD; a quotation mark is doubled.

    With times "recording" the tiers begin at 0 all the same, so that they lie under the recording in Praat.
    """

    extension = ".TextGrid"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        if is_document(alignment.subtitles, TEXTGRID):
            tiers = _named(tiers_by_source(alignment, replace(style, times=RECORDING), UNITS_PER_S))
            _write_with_document(file, alignment.subtitles.document, tiers)
            return
        tiers = _named(tiers_by_speaker(alignment, style, UNITS_PER_S))
        end = max([end_units(alignment, style), 1, *(row.end for _, rows in tiers for row in rows[-1:])])
        write_tiers(file, tiers, end, is_short=style.textgrid == SHORT)


def _named(tiers: Sequence[SpokenTier]) -> list[tuple[str, list[TimedLabel]]]:
    return [(tier.name, tier.rows) for tier in tiers]


def write_tiers(
    file: TextIO, tiers: Sequence[tuple[str, Sequence[TimedLabel]]], end: int, *, is_short: bool = False
) -> None:
    """Write a TextGrid of interval tiers (name, rows in order), from 0 to `end` units of 10 µs; "" fills the gaps.

    `is_short`: in Praat's short text format, which has the same numbers and texts without their names.
    """
    file.write('File type = "ooTextFile"\nObject class = "TextGrid"\n\n')
    if is_short:
        file.write(f"0\n{_seconds(end)}\n<exists>\n{len(tiers)}\n")
        for name, rows in tiers:
            _write_short_tier(file, name, rows, _Bounds(0, end, "0", _seconds(end)))
        return
    file.write(f"xmin = 0\nxmax = {_seconds(end)}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n")
    bounds = _Bounds(0, end, "0", _seconds(end))
    for number, (name, rows) in enumerate(tiers, 1):
        _write_tier(file, number, name, rows, bounds)


def _write_with_document(file: TextIO, document: str, tiers: Sequence[tuple[str, list[TimedLabel]]]) -> None:
    """Write a TextGrid as it is, with tiers behind its own; its end, where words end after it."""
    layout = textgrid_layout(document)
    start, end = (round(float(time) * UNITS_PER_S) for time in layout.times)
    last = max([row.end for _, rows in tiers for row in rows[-1:]], default=end)
    bounds = _Bounds(start, end, *layout.times)
    if last > end + _MS_OVER:
        bounds = _Bounds(start, last, layout.times[0], _seconds(last))
    count = str(len(layout.names) + len(tiers))
    text = "".join(
        (
            document[: layout.end[0]],
            bounds.end_text,
            document[layout.end[1] : layout.count[0]],
            count,
            document[layout.count[1] :],
        )
    )
    added = io.StringIO()
    names = unused_names((" ".join(name.split()) for name, _ in tiers), layout.names)
    for number, (name, (_, rows)) in enumerate(zip(names, tiers), len(layout.names) + 1):
        if layout.is_long:
            _write_tier(added, number, name, rows, bounds)
        else:
            _write_short_tier(added, name, rows, bounds)
    line_end = "\r\n" if "\r\n" in document else "\n"
    file.write(text if text.endswith("\n") else text + line_end)
    file.write(added.getvalue().replace("\n", line_end))


@dataclass(frozen=True)
class _Bounds:
    """The start and end of tiers, in units and as they are written."""

    start: int
    end: int
    start_text: str
    end_text: str

    def covering(self, rows: Sequence[TimedLabel]) -> Iterator[tuple[str, str, str]]:
        """Yield the rows with silence before, between and after them, without gaps, as (start, end, label)."""
        at, at_text = self.start, self.start_text
        for row in rows:
            start, end = max(row.start, at), min(row.end, self.end)
            if start >= end:
                continue
            if start > at:
                yield at_text, _seconds(start), ""
                at_text = _seconds(start)
            end_text = self.end_text if end == self.end else _seconds(end)
            yield at_text, end_text, _escaped(row.label)
            at, at_text = end, end_text
        if at < self.end:
            yield at_text, self.end_text, ""


def _write_tier(file: TextIO, number: int, name: str, rows: Sequence[TimedLabel], bounds: _Bounds) -> None:
    count = sum(1 for _ in bounds.covering(rows))
    file.write(
        f"    item [{number}]:\n"
        '        class = "IntervalTier"\n'
        f'        name = "{_escaped(name)}"\n'
        f"        xmin = {bounds.start_text}\n        xmax = {bounds.end_text}\n        intervals: size = {count}\n"
    )
    for place, (start, end, label) in enumerate(bounds.covering(rows), 1):
        file.write(
            f"        intervals [{place}]:\n"
            f"            xmin = {start}\n"
            f"            xmax = {end}\n"
            f'            text = "{label}"\n'
        )


def _write_short_tier(file: TextIO, name: str, rows: Sequence[TimedLabel], bounds: _Bounds) -> None:
    count = sum(1 for _ in bounds.covering(rows))
    file.write(f'"IntervalTier"\n"{_escaped(name)}"\n{bounds.start_text}\n{bounds.end_text}\n{count}\n')
    for start, end, label in bounds.covering(rows):
        file.write(f'{start}\n{end}\n"{label}"\n')


def _escaped(label: str) -> str:
    return without_controls(" ".join(label.split())).replace('"', '""')


def _seconds(units: int) -> str:
    """Return seconds as exact decimals without trailing zeros, as Praat writes them.

    >>> _seconds(102000), _seconds(0)
    ('1.02', '0')
    """
    whole, part = divmod(units, UNITS_PER_S)
    return f"{whole}.{part:05d}".rstrip("0").rstrip(".")
