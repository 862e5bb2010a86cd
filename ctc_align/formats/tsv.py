"""A table of the aligned words."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.writer import Writer, word_rows
from ctc_align.types import AlignmentData, aligned_words

_UNITS_PER_S = 1000
_COLUMNS = ("start_s", "end_s", "word", "confidence", "char_start", "char_end")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class TsvWriter(Writer):
    """A header and one aligned word a line: start_s, end_s (3 decimals), word, confidence, char_start, char_end.

    Words are shown as in CTM, without their outer punctuation unless labels are "written"; tab, line end and backslash
    in one stand as \\t, \\n, \\r and \\\\. `char_start:char_end` is the word's place in the transcript, in code points.
    """

    extension = ".tsv"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        file.write("\t".join(_COLUMNS) + "\n")
        rows = word_rows(alignment, self.style(alignment), _UNITS_PER_S)
        for row, word in zip(rows, aligned_words(alignment)):
            start, end = _seconds(row.start), _seconds(row.end)
            label = row.label.translate(_ESCAPES)
            file.write(f"{start}\t{end}\t{label}\t{row.confidence:.4f}\t{word.char_start}\t{word.char_end}\n")


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // _UNITS_PER_S}.{milliseconds % _UNITS_PER_S:03d}"
