"""Sentences of a transcript with their times, and words as they stand in running text.

A sentence ends at a full stop, a question or exclamation mark (not at that of an abbreviation), at a blank line, where
another speaker begins, and where the text goes on elsewhere in the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctc_align.formats.line_breaking import SENTENCE, break_cost
from ctc_align.formats.time_order import is_timed, runs_in_time, words_that_are_shown
from ctc_align.text.markup import breaks_line
from ctc_align.text.printed_labels import without_markup
from ctc_align.types import MARKUP, SPEAKER, AlignedWord, AlignmentData


class WrittenWord(NamedTuple):
    """A word with the white space that stands before it in its sentence, "" before the first, " " or "\\n"."""

    space: str
    word: AlignedWord

    @property
    def text(self) -> str:
        """The word without tags and entities."""
        return without_markup(self.word.text)


@dataclass(frozen=True)
class Sentence:
    """Words that follow each other, at least one of them with times.

    `words` are in the order of the text, without tags and names of speakers; `start_s` and `end_s` are those of the
    first and the last word that has times.
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


def sentences(alignment: AlignmentData) -> list[Sentence]:
    """Return the sentences of what is said, by time; words that are not in the recording are left out.

    >>> words = [AlignedWord(text, text, at, at + len(text), "aligned", at / 10, at / 10 + 0.2, 0.9)
    ...          for text, at in (("It", 0), ("is.", 3), ("Is", 7), ("it?", 10))]
    >>> data = AlignmentData("a", "a.wav", 2.0, "m", "cpu", 0.01, 1.0, -1.0, "It is. Is it?", tuple(words))
    >>> [(sentence.text, sentence.start_s, sentence.end_s) for sentence in sentences(data)]
    [('It is.', 0.0, 0.5), ('Is it?', 0.7, 1.2)]
    """
    said = [word for word in alignment.words if word.kind not in (MARKUP, SPEAKER)]
    found: list[Sentence] = []
    for run in runs_in_time(words_that_are_shown(said)):
        start = 0
        for at, word in enumerate(run):
            following = run[at + 1] if at + 1 < len(run) else None
            if following is not None and _goes_on(alignment.text, word, following):
                continue
            part = run[start : at + 1]
            start = at + 1
            if any(map(is_timed, part)):
                speaker = next((word.speaker for word in part if is_timed(word)), "")
                found.append(Sentence(tuple(written(alignment.text, part)), speaker))
    return found


def _goes_on(text: str, word: AlignedWord, following: AlignedWord) -> bool:
    """Return whether a sentence goes on after a word of it."""
    if word.speaker != following.speaker:
        return False
    return break_cost(word.text, space_between(text, word, following), following.text) != SENTENCE


def written(text: str, words: Sequence[AlignedWord]) -> list[WrittenWord]:
    """Return words with the white space before each: one space for any, a line end for that of lines, none for none."""
    found = []
    for place, word in enumerate(words):
        space = space_between(text, words[place - 1], word) if place else ""
        found.append(WrittenWord("\n" if "\n" in space else " " * bool(space), word))
    return found


def space_between(text: str, word: AlignedWord, following: AlignedWord | None) -> str:
    """Return the white space between two words; marks of a format may stand between them, and a break is a line end.

    That of a paragraph's end stands for it where the text goes on elsewhere, and none after the last word.
    """
    if following is None:
        return ""
    if following.char_start < word.char_end:
        return "\n\n"
    between = text[word.char_end : following.char_start]
    spaces = "".join(filter(str.isspace, between))
    return spaces if spaces == between or "\n" in spaces or not breaks_line(between) else spaces + "\n"
