"""Sentences of a transcript with their times, and running text.

Of running text, its width in columns and its possible line breaks.

A sentence ends at a full stop (except that of an abbreviation), a question or exclamation mark, a
blank line, a change of speaker, and where the recording continues with a different part of the
text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from ctc_align.files.writer import is_timed, runs_in_time, words_that_are_shown
from ctc_align.text.characters import word_set
from ctc_align.text.markup import breaks_line
from ctc_align.text.word_forms import without_markup
from ctc_align.types import MARKUP, REPEAT, SPEAKER, AlignedWord, Alignment

LINE_COLUMNS = 42
SENTENCE = 0.0
CLAUSE = 4.0
WORD = 8.0
CLINGING = 12.0
"""Costs of a break: after a sentence, a clause, any word, a word that belongs to the next one."""
_STOPS = frozenset(".!?…。！？．؟۔।॥")
_COMMAS = frozenset(",;:،؛、，；：—–")
_CLOSING = "\"'”’»)]}›」』）】》〉"
_TITLES = word_set(
    "mr. mrs. ms. dr. prof. st. jr. sr. vs. etc. no. gen. col. capt. lt. sgt. rev. hon. e.g. i.e."
)
_LEANING = word_set(
    """a an the and or but nor of to in on at by for from with as if that than so because into onto upon
    my your his her its our their this these those very is are was were be been not no"""
)
_SPACES = re.compile(r"\s*")


@dataclass(frozen=True)
class TextPiece:
    """A word, or a part of one that is longer than a line; times are seconds.

    `is_spaced`: white space precedes it; `starts_line`: this contains a line end. `break_cost` says
    how bad it is to end a line or a subtitle after it. `char_start` is the word's index in the
    transcript, `speaker` who says it, `is_spoken` is False for text that nobody says (labels,
    directions), and `is_alone` is True if a subtitle has nothing else.
    """

    text: str
    is_spaced: bool
    start_s: float
    end_s: float
    break_cost: float = WORD
    starts_line: bool = False
    char_start: int = 0
    speaker: str = ""
    is_spoken: bool = True
    is_alone: bool = False


def columns(text: str) -> int:
    """Return the width of a text in columns.

    Two for wide characters (CJK, emoji), none for combining marks.

    >>> columns("né"), columns("日本"), columns("e\\u0301")
    (2, 4, 1)
    """
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1


def break_cost(word: str, after: str, following: str) -> float:
    """Return the cost of a break after `word`.

    `after` is the white space behind it, `following` the next word.

    >>> break_cost("Stop!", " ", "He"), break_cost("Dr.", " ", "No"), break_cost("well,", " ", "he")
    (0.0, 8.0, 4.0)
    """
    if not following or after.count("\n") > 1:
        return SENTENCE
    bare = word.rstrip(_CLOSING)
    if bare and bare[-1] in _STOPS and not _is_shortened(bare, following):
        return SENTENCE
    if (bare and bare[-1] in _COMMAS) or "\n" in after:
        return CLAUSE
    if word.casefold() in _LEANING:
        return CLINGING
    return WORD


def _is_shortened(word: str, following: str) -> bool:
    """Return whether a full stop marks an abbreviation.

    In titles, in initials, and before a lower-case letter.
    """
    if not word.endswith(".") or word.endswith(".."):
        return False
    first = next((char for char in following if char.isalnum()), "")
    is_initial = len(word) == 2 and word[0].isalpha() and word[0] != "I"
    return is_initial or word.casefold() in _TITLES or first.islower()


class TextRow:
    """Consecutive pieces of text, with the width of any stretch of them.

    A line has `line_columns`.
    """

    def __init__(self, pieces: Sequence[TextPiece], line_columns: int = LINE_COLUMNS) -> None:
        self.pieces = pieces
        self._line_columns = line_columns
        self._spaces = [int(piece.is_spaced) for piece in pieces]
        widths = (columns(piece.text) + space for piece, space in zip(pieces, self._spaces))
        self._ends = list(accumulate(widths, initial=0))

    def columns(self, start: int, end: int) -> int:
        """Return the width of pieces [start, end) in one line, which begins without a space."""
        return self._ends[end] - self._ends[start] - self._spaces[start]

    def fits(self, start: int, end: int) -> bool:
        """Return True if pieces [start, end) fit into one subtitle."""
        if self.columns(start, end) <= self._line_columns:
            return True
        second = self._full_line(start)
        return second < end and self.columns(second, end) <= self._line_columns

    def _full_line(self, start: int) -> int:
        """Return the last index at which the line that begins with `start` may end."""
        return (
            bisect_right(self._ends, self._ends[start] + self._spaces[start] + self._line_columns)
            - 1
        )

    def lines(self, start: int, end: int) -> list[tuple[TextPiece, ...]]:
        """Return pieces [start, end) as one line, or as two of similar width.

        They are broken at a cheap gap.
        """
        gaps = [at for at in range(start + 1, end) if self._both_fit(start, at, end)]
        if self.columns(start, end) <= self._line_columns or not gaps:
            return [tuple(self.pieces[start:end])]
        at = min(gaps, key=lambda at: self._line_break_cost(start, at, end))
        return [tuple(self.pieces[start:at]), tuple(self.pieces[at:end])]

    def _both_fit(self, start: int, at: int, end: int) -> bool:
        return max(self.columns(start, at), self.columns(at, end)) <= self._line_columns

    def _line_break_cost(self, start: int, at: int, end: int) -> float:
        upper = self.columns(start, at)
        lower = self.columns(at, end)
        return (
            self.pieces[at - 1].break_cost
            + 0.3 * abs(upper - lower)
            + (1.0 if upper > lower else 0.0)
        )


def text_of(pieces: Sequence[TextPiece]) -> str:
    """Return pieces as one line, which begins without a space."""
    return pieces[0].text + "".join(" " * piece.is_spaced + piece.text for piece in pieces[1:])


def parts_of_word(word: str, line_columns: int = LINE_COLUMNS) -> list[str]:
    """Return the word, in parts if it is longer than a line.

    >>> [len(part) for part in parts_of_word("x" * 100)]
    [42, 42, 16]
    """
    if columns(word) <= line_columns:
        return [word]
    edges = [0]
    width = 0
    for index, char in enumerate(word):
        width += _columns_of(char)
        if width > line_columns:
            edges.append(index)
            width = _columns_of(char)
    return [word[start:end] for start, end in pairwise([*edges, len(word)])]


class WrittenWord(NamedTuple):
    """A word with the white space that stands before it in its sentence.

    "" before the first, " " or "\n".
    """

    space: str
    word: AlignedWord

    @property
    def text(self) -> str:
        """The word without tags and entities."""
        return without_markup(self.word.text)


@dataclass(frozen=True)
class Sentence:
    """Words that follow each other, at least one of them with times.

    `words` are in the order of the text, without tags and names of speakers; `start_s` and `end_s`
    are those of the first and the last word that has times.
    """

    words: tuple[WrittenWord, ...]
    speaker: str

    @property
    def text(self) -> str:
        """Return the sentence in one line."""
        return "".join(" " * bool(each.space) + each.text for each in self.words)

    @property
    def timed(self) -> list[AlignedWord]:
        return [each.word for each in self.words if is_timed(each.word)]

    @property
    def start_s(self) -> float:
        return self.timed[0].start_s or 0.0

    @property
    def end_s(self) -> float:
        return self.timed[-1].end_s or 0.0


def sentences(alignment: Alignment) -> list[Sentence]:
    """Return the spoken sentences, by time, without words that are not in the recording.

    >>> words = [AlignedWord(text, text, at, at + len(text), "aligned", at / 10, at / 10 + 0.2, 0.9)
    ...          for text, at in (("It", 0), ("is.", 3), ("Is", 7), ("it?", 10))]
    >>> data = Alignment("a", "a.wav", 2.0, "m", "cpu", 0.01, 1.0, -1.0, "It is. Is it?", tuple(words))
    >>> [(sentence.text, sentence.start_s, sentence.end_s) for sentence in sentences(data)]
    [('It is.', 0.0, 0.5), ('Is it?', 0.7, 1.2)]
    """
    text = text_shown_once(alignment)
    said = [word for word in alignment.words if word.kind not in (MARKUP, SPEAKER, REPEAT)]
    found: list[Sentence] = []
    for run in runs_in_time(words_that_are_shown(said)):
        start = 0
        for at, word in enumerate(run):
            following = run[at + 1] if at + 1 < len(run) else None
            if following is not None and _goes_on(text, word, following):
                continue
            part = run[start : at + 1]
            start = at + 1
            if any(map(is_timed, part)):
                speaker = next((word.speaker for word in part if is_timed(word)), "")
                found.append(Sentence(tuple(written(text, part)), speaker))
    return found


def _goes_on(text: str, word: AlignedWord, following: AlignedWord) -> bool:
    """Return whether a sentence continues after one of its words."""
    if word.speaker != following.speaker:
        return False
    return break_cost(word.text, space_between(text, word, following), following.text) != SENTENCE


def text_shown_once(alignment: Alignment) -> str:
    """Return the text with spaces for lines of captions that are shown again.

    And for the line ends after them.
    """
    text = alignment.text
    pieces = []
    at = 0
    for word in alignment.words:
        if word.kind == REPEAT:
            spaces = _SPACES.match(text, word.char_end)
            if spaces:
                end = spaces.end()
            else:
                end = word.char_end
            pieces += [text[at : word.char_start], " " * (end - word.char_start)]
            at = end
    return "".join([*pieces, text[at:]])


def written(text: str, words: Sequence[AlignedWord]) -> list[WrittenWord]:
    """Return words with the white space before each.

    One space, a line end between lines, or "" if there is none.
    """
    found = []
    for index, word in enumerate(words):
        space = ""
        if index:
            space = space_between(text, words[index - 1], word)
        found.append(WrittenWord("\n" if "\n" in space else " " * bool(space), word))
    return found


def space_between(text: str, word: AlignedWord, following: AlignedWord | None) -> str:
    """Return the white space between two words.

    Markup may stand between them, and a line break counts as a line end.

    It is a paragraph's end where the recording continues elsewhere in the text, and "" after the
    last word.
    """
    if following is None:
        return ""
    if following.char_start < word.char_end:
        return "\n\n"
    between = text[word.char_end : following.char_start]
    spaces = "".join(filter(str.isspace, between))
    if spaces == between or "\n" in spaces or not breaks_line(between):
        return spaces
    return spaces + "\n"
