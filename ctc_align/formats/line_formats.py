"""Formats of one word a line: NIST's CTM, TSV, and Audacity's label track."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.time_order import words_by_time
from ctc_align.formats.writer import (
    UNITS_PER_S,
    Style,
    TimedLabel,
    Writer,
    finite,
    token_rows,
    without_spaces,
    word_rows,
)
from ctc_align.text.control_characters import printable, spreadsheet_cell, without_controls
from ctc_align.types import AlignmentData

_CHANNEL = 1
_MS_PER_S = 1000
_COLUMNS = ("start_s", "end_s", "word", "confidence", "char_start", "char_end")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class CtmWriter(Writer):
    """`<utterance> <channel> <start> <duration> <word> <confidence>`; the loss in a `;;` comment line.

    White space and control characters in a word or in the utterance's name are "_".
    """

    extension = ".ctm"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        name = _utterance_field(alignment.utterance)
        file.write(
            f";; {name} loss {_shown(alignment.loss)} loss_per_token {_shown(alignment.loss_per_token)} "
            f"score {_shown(alignment.score)}\n"
        )
        for row in self.rows(alignment, self.style(alignment)):
            start, duration = _seconds(row.start), _seconds(row.end - row.start)
            label = without_spaces(row.label)
            file.write(f"{name} {_CHANNEL} {start} {duration} {label} {row.confidence:.4f}\n")

    def rows(self, alignment: AlignmentData, style: Style) -> list[TimedLabel]:
        return word_rows(alignment, style, _MS_PER_S)


class TokenCtmWriter(CtmWriter):
    """CTM with a line for each token."""

    extension = ".tokens.ctm"

    def rows(self, alignment: AlignmentData, style: Style) -> list[TimedLabel]:
        return token_rows(alignment, style, _MS_PER_S)


class TsvWriter(Writer):
    """A header and one aligned word a line: start_s, end_s (3 decimals), word, confidence, char_start, char_end.

    Words are shown as in CTM, without their outer punctuation unless labels are "written"; tab, line end and backslash
    in one stand as \\t, \\n, \\r and \\\\, other control characters as \\x1b. An apostrophe stands before a word that a
    spreadsheet would compute (`'=1+1`), and before one that begins with such apostrophes: take one away to have the
    word; numbers stay. `char_start:char_end` is the word's place in the transcript, in code points.
    """

    extension = ".tsv"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        file.write("\t".join(_COLUMNS) + "\n")
        rows = word_rows(alignment, self.style(alignment), _MS_PER_S)
        for row, word in zip(rows, words_by_time(alignment)):
            start, end = _seconds(row.start), _seconds(row.end)
            label = spreadsheet_cell(printable(row.label.translate(_ESCAPES)))
            file.write(f"{start}\t{end}\t{label}\t{row.confidence:.4f}\t{word.char_start}\t{word.char_end}\n")


class AudacityWriter(Writer):
    """`start<TAB>end<TAB>label` for each aligned word; File > Import > Labels reads it.

    The extension is not the bare `.txt` that Audacity itself uses: transcripts have that. White space in a label is one
    space, a control character U+FFFD.
    """

    extension = ".audacity.txt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        for row in word_rows(alignment, self.style(alignment)):
            label = without_controls(" ".join(row.label.split()))
            file.write(f"{_tens_of_us(row.start)}\t{_tens_of_us(row.end)}\t{label}\n")


def _seconds(milliseconds: int) -> str:
    """Return seconds with three decimals, exact, from whole milliseconds.

    >>> _seconds(1020)
    '1.020'
    """
    return f"{milliseconds // _MS_PER_S}.{milliseconds % _MS_PER_S:03d}"


def _shown(number: float | None) -> str:
    return "inf" if finite(number) is None else f"{number:.6f}"


def _utterance_field(utterance: str) -> str:
    """Return the utterance as the first field; a leading ";" would make the line a comment."""
    name = without_spaces(utterance)
    return "_" * (len(name) - len(name.lstrip(";"))) + name.lstrip(";")


def _tens_of_us(units: int) -> str:
    """Return seconds with six decimals, as Audacity writes them, from units of 10 µs.

    >>> _tens_of_us(102001)
    '1.020010'
    """
    return f"{units // UNITS_PER_S}.{units % UNITS_PER_S:05d}0"
