"""Praat's TextGrid, long text format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ctc_align.formats.writer import UNITS_PER_S, Row, Writer, end_units, token_rows, word_rows
from ctc_align.types import AlignmentData


class TextGridWriter(Writer):
    """Interval tiers `words` and `tokens` (or `phones`) that cover the recording without gaps; silence is "".

    With times "recording" the tiers begin at 0 all the same, so that they lie under the recording in Praat.
    """

    extension = ".TextGrid"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        words = word_rows(alignment, style)
        tokens = token_rows(alignment, style)
        end = max([end_units(alignment, style), 1, *(row.end for row in (*words[-1:], *tokens[-1:]))])
        write_tiers(file, [("words", words), (alignment.token_kind, tokens)], end)


def write_tiers(file: TextIO, tiers: Sequence[tuple[str, Sequence[Row]]], end: int) -> None:
    """A TextGrid of interval tiers (name, rows in order), from 0 to `end` units of 10 µs; silence fills the gaps."""
    file.write('File type = "ooTextFile"\nObject class = "TextGrid"\n\n')
    file.write(f"xmin = 0\nxmax = {_seconds(end)}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n")
    for number, (name, rows) in enumerate(tiers, 1):
        file.write(f"    item [{number}]:\n" + _tier(name, _covering(rows, end), end))


def _covering(rows: Sequence[Row], end: int) -> list[Row]:
    """The rows with silence before, between and after them: [0, end) without gaps."""
    covering: list[Row] = []
    at = 0
    for row in rows:
        if row.start > at:
            covering.append(Row(at, row.start, ""))
        covering.append(row)
        at = row.end
    if at < end:
        covering.append(Row(at, end, ""))
    return covering


def _tier(name: str, rows: list[Row], end: int) -> str:
    lines = [
        '        class = "IntervalTier"',
        f'        name = "{_escaped(name)}"',
        "        xmin = 0",
        f"        xmax = {_seconds(end)}",
        f"        intervals: size = {len(rows)}",
    ]
    for number, row in enumerate(rows, 1):
        lines += [
            f"        intervals [{number}]:",
            f"            xmin = {_seconds(row.start)}",
            f"            xmax = {_seconds(row.end)}",
            f'            text = "{_escaped(row.label)}"',
        ]
    return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace('"', '""')


def _seconds(units: int) -> str:
    """Exact decimals, without trailing zeros as Praat writes them; one string for one time.

    >>> _seconds(102000), _seconds(0)
    ('1.02', '0')
    """
    whole, part = divmod(units, UNITS_PER_S)
    return f"{whole}.{part:05d}".rstrip("0").rstrip(".")
