"""Praat's TextGrid, written in the long text format; `ctc_align.text.textgrid_files` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from ctc_align.formats.time_order import words_by_time
from ctc_align.formats.writer import UNITS_PER_S, TimedLabel, Writer, end_units, token_rows, word_rows
from ctc_align.text.control_characters import without_controls
from ctc_align.types import AlignmentData

UNNAMED = "unnamed"
"""Who speaks, in the names of tiers, before a transcript with several speakers names one."""


class TextGridWriter(Writer):
    """Interval tiers `words` and `tokens` (or `phones`) that cover the recording without gaps; silence is "".

    Where the transcript names several speakers each has tiers of its own, named as MFA does: `SPEAKER - words` and
    `SPEAKER - tokens`; words before the first name are `unnamed`.

    In a label or a tier's name white space is a space and a control character U+FFFD; a quotation mark is doubled.

    With times "recording" the tiers begin at 0 all the same, so that they lie under the recording in Praat.
    """

    extension = ".TextGrid"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        words = word_rows(alignment, style)
        tokens = token_rows(alignment, style)
        end = max([end_units(alignment, style), 1, *(row.end for row in (*words[-1:], *tokens[-1:]))])
        kind = alignment.token_kind
        tiers = [("words", words), (kind, tokens)]
        speakers = [word.speaker for word in words_by_time(alignment)]
        if len({*speakers} - {""}) > 1:
            of_token = [word.speaker for word in words_by_time(alignment) for _ in word.tokens]
            tiers = []
            for speaker in dict.fromkeys(speakers):
                name = speaker or UNNAMED
                tiers.append((f"{name} - words", [row for row, who in zip(words, speakers) if who == speaker]))
                tiers.append((f"{name} - {kind}", [row for row, who in zip(tokens, of_token) if who == speaker]))
        write_tiers(file, tiers, end)


def write_tiers(file: TextIO, tiers: Sequence[tuple[str, Sequence[TimedLabel]]], end: int) -> None:
    """Write a TextGrid of interval tiers (name, rows in order), from 0 to `end` units of 10 µs; "" fills the gaps."""
    file.write('File type = "ooTextFile"\nObject class = "TextGrid"\n\n')
    file.write(f"xmin = 0\nxmax = {_seconds(end)}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n")
    for number, (name, rows) in enumerate(tiers, 1):
        file.write(f"    item [{number}]:\n")
        _write_tier(file, name, rows, end)


def _covering(rows: Sequence[TimedLabel], end: int) -> Iterator[TimedLabel]:
    """Yield the rows with silence before, between and after them: [0, end) without gaps."""
    at = 0
    for row in rows:
        if row.start > at:
            yield TimedLabel(at, row.start, "")
        yield row
        at = row.end
    if at < end:
        yield TimedLabel(at, end, "")


def _write_tier(file: TextIO, name: str, rows: Sequence[TimedLabel], end: int) -> None:
    count = sum(1 for _ in _covering(rows, end))
    file.write(
        '        class = "IntervalTier"\n'
        f'        name = "{_escaped(name)}"\n'
        f"        xmin = 0\n        xmax = {_seconds(end)}\n        intervals: size = {count}\n"
    )
    for number, row in enumerate(_covering(rows, end), 1):
        file.write(
            f"        intervals [{number}]:\n"
            f"            xmin = {_seconds(row.start)}\n"
            f"            xmax = {_seconds(row.end)}\n"
            f'            text = "{_escaped(row.label)}"\n'
        )


def _escaped(label: str) -> str:
    return without_controls(" ".join(label.split())).replace('"', '""')


def _seconds(units: int) -> str:
    """Return seconds as exact decimals without trailing zeros, as Praat writes them.

    >>> _seconds(102000), _seconds(0)
    ('1.02', '0')
    """
    whole, part = divmod(units, UNITS_PER_S)
    return f"{whole}.{part:05d}".rstrip("0").rstrip(".")
