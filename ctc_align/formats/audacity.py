"""Audacity's label track."""

from __future__ import annotations

from typing import TextIO

from ctc_align.formats.writer import UNITS_PER_S, Writer, word_rows
from ctc_align.types import AlignmentData


class AudacityWriter(Writer):
    """`start<TAB>end<TAB>label` for each aligned word; File > Import > Labels reads it.

    The extension is not the bare `.txt` that Audacity itself uses: that is where transcripts lie.
    """

    extension = ".audacity.txt"

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        for row in word_rows(alignment, self.style(alignment)):
            label = " ".join(row.label.split())
            file.write(f"{_seconds(row.start)}\t{_seconds(row.end)}\t{label}\n")


def _seconds(units: int) -> str:
    """Six decimals, as Audacity writes them.

    >>> _seconds(102001)
    '1.020010'
    """
    return f"{units // UNITS_PER_S}.{units % UNITS_PER_S:05d}0"
