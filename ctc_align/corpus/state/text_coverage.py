"""Which parts of a text no recording reads, where one text belongs to many recordings.

The lines of a journal have the part of the text that each recording reads; what lies between them is read from the
text's own file, if that is still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ctc_align.corpus.state.journal_lines import Line
from ctc_align.errors import CtcAlignError

MOST_GAPS = 1000
"""Gaps that are listed for one text."""
_SHOWN_CHARS = 60


@dataclass(frozen=True)
class TextGap:
    """A stretch of a text with words that are in none of its recordings.

    Attributes:
        text: path of the text's file.
        char_start, char_end: in the text (code points, end exclusive); `char_end` None is the end of a text that could
            not be read any more.
        after, before: the recordings that read the text around it; None at the start and at the end.
        words: the number of its words that can be spoken, None where the text could not be read.
        begins: its first words.
    """

    text: str
    char_start: int
    char_end: int | None
    after: str | None
    before: str | None
    words: int | None = None
    begins: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as they stand in `summary.json`."""
        return asdict(self)


@dataclass
class TextCoverage:
    """The parts of texts that recordings read, collected from the lines of journals."""

    _parts: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Take the part of a recording, if it reads most of its words; else it names its text all the same."""
        if line.book is None:
            return
        parts = self._parts.setdefault(line.book, [])
        if line.part is not None and 2 * (line.skipped or 0) <= (line.words or 0):
            parts.append((*line.part, line.id))

    def gaps(self) -> list[TextGap]:
        """Return the gaps of all texts, in their order; those without a word that can be spoken are none."""
        return [gap for text in sorted(self._parts) for gap in _gaps_of(text, sorted(self._parts[text]))]


def _gaps_of(path: str, parts: list[tuple[int, int, str]]) -> list[TextGap]:
    from ctc_align.text import read_transcript, split

    try:
        text = read_transcript(path)
    except (CtcAlignError, OSError):
        text = None
    found = []
    for gap in _between(path, parts, None if text is None else len(text)):
        if text is None:
            found.append(gap)
            continue
        stretch = text[gap.char_start : gap.char_end]
        words = sum(bool(word.spoken) for word in split(stretch).words)
        if words:
            begins = " ".join(stretch[: 4 * _SHOWN_CHARS].split())[:_SHOWN_CHARS]
            found.append(TextGap(path, gap.char_start, gap.char_end, gap.after, gap.before, words, begins))
    return found[:MOST_GAPS]


def _between(path: str, parts: list[tuple[int, int, str]], length: int | None) -> Iterator[TextGap]:
    """Yield what lies before, between and after parts, which may overlap; `length` is that of the text, if known."""
    end, after = 0, None
    for start, stop, id in parts:
        if start > end:
            yield TextGap(path, end, start, after, id)
        if stop >= end:
            end, after = stop, id
    if length is None or end < length:
        yield TextGap(path, end, length, after, None)
