"""NIST's CTM: one line per word, or per token."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.writer import Row, Style, Writer, finite, token_rows, without_spaces, word_rows
from ctc_align.types import AlignmentData

_CHANNEL = 1
_UNITS_PER_S = 1000


class CtmWriter(Writer):
    """`<utterance> <channel> <start> <duration> <word> <confidence>`; the loss in a `;;` comment line."""

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

    def rows(self, alignment: AlignmentData, style: Style) -> list[Row]:
        return word_rows(alignment, style, _UNITS_PER_S)


class TokenCtmWriter(CtmWriter):
    """The same for tokens."""

    extension = ".tokens.ctm"

    def rows(self, alignment: AlignmentData, style: Style) -> list[Row]:
        return token_rows(alignment, style, _UNITS_PER_S)


def _seconds(milliseconds: int) -> str:
    """Exact decimals out of whole milliseconds.

    >>> _seconds(1020)
    '1.020'
    """
    return f"{milliseconds // _UNITS_PER_S}.{milliseconds % _UNITS_PER_S:03d}"


def _shown(number: float | None) -> str:
    return "inf" if finite(number) is None else f"{number:.6f}"


def _utterance_field(utterance: str) -> str:
    """The utterance as the first field; a leading ";" would make the line a comment."""
    name = without_spaces(utterance)
    return "_" * (len(name) - len(name.lstrip(";"))) + name.lstrip(";")
