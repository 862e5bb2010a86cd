"""Which parts of a text no recording reads, and which two do, where one text belongs to many recordings.

The lines of a journal have the part of the text that each recording reads; what lies between them is read from the
text's own file, if that is still there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from ctc_align.corpus.state.journal_lines import Line
from ctc_align.errors import CtcAlignError

MOST_GAPS = 1000
"""Gaps, and overlaps, that are listed for one text."""
_FEWEST_TWICE = 4
"""Words in a row that two recordings read and are named: a word or two at an edge are found by chance."""
_SHOWN_CHARS = 60


@dataclass(frozen=True)
class TextGap:
    """A stretch of a text with words that are in none of its recordings, or are left out within one (`after` it too).

    Attributes:
        text: path of the text's file.
        char_start, char_end: in the text (code points, end exclusive); `char_end` None is the end of a text that could
            not be read any more.
        after, before: the recordings that read the text around it, one and the same where it lies within what that
            reads; None at the start and at the end.
        words: the number of its words that can be spoken, None where the text could not be read.
        begins: its first words, or all; ends: its last words, "" where `begins` has them.
    """

    text: str
    char_start: int
    char_end: int | None
    after: str | None
    before: str | None
    words: int | None = None
    begins: str = ""
    ends: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as they stand in `summary.json`."""
        return asdict(self)


@dataclass(frozen=True)
class TextOverlap:
    """A stretch of a text that two recordings read.

    Attributes:
        text: path of the text's file.
        char_start, char_end: in the text (code points, end exclusive).
        utterances: the two recordings; of a third one there is another overlap.
        words: the number of its words that can be spoken, None where the text could not be read.
        begins: its first words, or all; ends: its last words, "" where `begins` has them.
    """

    text: str
    char_start: int
    char_end: int
    utterances: tuple[str, str]
    words: int | None = None
    begins: str = ""
    ends: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as they stand in `summary.json`."""
        return asdict(self) | {"utterances": list(self.utterances)}


@dataclass
class TextCoverage:
    """The parts of texts that recordings read, collected from the lines of journals."""

    _parts: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _left_out: dict[str, list[TextGap]] = field(default_factory=dict)
    _texts: dict[str, str | None] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Take the part of a recording, if it reads most of its words; else it names its text all the same."""
        if line.book is None:
            return
        parts = self._parts.setdefault(line.book, [])
        if line.part is not None and 2 * (line.skipped or 0) <= (line.words or 0):
            parts.append((*line.part, line.id))
            left_out = [TextGap(line.book, start, end, line.id, line.id) for start, end in line.left_out or ()]
            self._left_out.setdefault(line.book, []).extend(left_out)

    def gaps(self) -> list[TextGap]:
        """Return the gaps of all texts, in their order; those without a word that can be spoken are none."""
        found = []
        for path in sorted(self._parts):
            text, parts = self._text(path), sorted(self._parts[path])
            left_out = [gap for gap in self._left_out.get(path, []) if not _is_read(gap, parts)]
            gaps = [*_between(path, parts, None if text is None else len(text)), *left_out]
            gaps.sort(key=lambda gap: gap.char_start)
            found += _named(gaps, text, fewest=1)[:MOST_GAPS]
        return found

    def overlaps(self) -> list[TextOverlap]:
        """Return what two recordings read, of all texts, in their order; what one of them leaves out is not read."""
        found = []
        for path in sorted(self._parts):
            left_out = self._left_out.get(path, [])
            overlaps = list(_twice(path, sorted(_read_parts(self._parts[path], left_out))))
            found += _named(overlaps, self._text(path) if overlaps else None, fewest=_FEWEST_TWICE)[:MOST_GAPS]
        return found

    def _text(self, path: str) -> str | None:
        """Return a text, None where it cannot be read (any more)."""
        from ctc_align.text import read_transcript

        if path not in self._texts:
            try:
                self._texts[path] = read_transcript(path)
            except (CtcAlignError, OSError):
                self._texts[path] = None
        return self._texts[path]


_Stretch = TypeVar("_Stretch", TextGap, TextOverlap)


def _named(stretches: Iterable[_Stretch], text: str | None, fewest: int) -> list[_Stretch]:
    """Return stretches of a text with their words, but for those of less than the `fewest`; as they are without it."""
    from ctc_align.text import split

    if text is None:
        return list(stretches)
    found = []
    for each in stretches:
        stretch = text[each.char_start : each.char_end]
        words = sum(bool(word.spoken) for word in split(stretch).words)
        if words >= fewest:
            begins, ends = _named_by(stretch)
            found.append(replace(each, words=words, begins=begins, ends=ends))
    return found


def _is_read(gap: TextGap, parts: list[tuple[int, int, str]]) -> bool:
    """Return whether what one recording leaves out lies within the part of another one."""
    end = gap.char_end or gap.char_start
    return any(start <= gap.char_start and end <= stop and id != gap.after for start, stop, id in parts)


def _read_parts(parts: list[tuple[int, int, str]], left_out: list[TextGap]) -> Iterator[tuple[int, int, str]]:
    """Yield what recordings read: their parts without what they leave out within them."""
    gaps: dict[str | None, list[TextGap]] = {}
    for gap in left_out:
        gaps.setdefault(gap.after, []).append(gap)
    for start, stop, id in parts:
        for gap in gaps.get(id, []):  # ascending, as a journal's line has them
            yield start, gap.char_start, id
            start = gap.char_end or stop
        yield start, stop, id


def _twice(path: str, read: list[tuple[int, int, str]]) -> Iterator[TextOverlap]:
    """Yield the stretches that a recording reads and one before it (`read` ascends) has read."""
    end, by = 0, ""
    for start, stop, id in read:
        if start < min(stop, end) and id != by:
            yield TextOverlap(path, start, min(stop, end), (by, id))
        if stop > end:
            end, by = stop, id


def _named_by(stretch: str) -> tuple[str, str]:
    """Return the first words of a stretch and the last ones, or all of a short one and "".

    >>> _named_by("a b"), _named_by("first " + "long " * 40 + "last")[1]
    (('a b', ''), 'long long long long long last')
    """
    head, tail = " ".join(stretch[: 4 * _SHOWN_CHARS].split()), " ".join(stretch[-4 * _SHOWN_CHARS :].split())
    if len(stretch) <= 4 * _SHOWN_CHARS and len(head) <= _SHOWN_CHARS:
        return head, ""
    first, last = head[:_SHOWN_CHARS], tail[-_SHOWN_CHARS // 2 :]
    return first.rpartition(" ")[0] or first, last.partition(" ")[2] or last


def gap_words(gap: Mapping[str, Any]) -> str:
    """Return the words that name a gap, as `summary.json` has it.

    >>> gap_words({"begins": "All of", "ends": "it is."}), gap_words({"begins": "All"})
    ('All of … it is.', 'All')
    """
    return f"{gap['begins']} … {gap['ends']}" if gap.get("ends") else str(gap["begins"])


def gap_place(gap: Mapping[str, Any]) -> str:
    """Return where a gap is, by the recordings around it.

    >>> gap_place({"after": None, "before": "01"}), gap_place({"after": "01", "before": "01"})
    ('between the start and 01', 'within 01')
    """
    if gap["after"] is not None and gap["after"] == gap["before"]:
        return f"within {gap['after']}"
    return f"between {gap['after'] or 'the start'} and {gap['before'] or 'the end'}"


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
