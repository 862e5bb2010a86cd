"""The translation in a bilingual transcript.

It is the lines that a model cannot read, beside lines that it can.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.text.languages import script_of
from ctc_align.text.markup import breaks_line
from ctc_align.tokens.tokenizer import Tokenizer
from ctc_align.types import TRANSLATION, SourceCue, Word, Words

_TOGETHER_S = 0.2
"""Cues of two languages that begin within this time are one cue in two languages."""


@dataclass
class _Line:
    """The spoken words of a line, by index.

    Also whether the model can read it, and the number of the cue, or of the line.
    """

    indices: list[int]
    group: int
    script: str = ""
    is_read: bool = True


def without_translations(words: Words, tokenizer: Tokenizer) -> Words:
    """Return the words, with those of translations marked as not spoken.

    A translation is in a script of which the model has no letters. Most of its lines are in a cue,
    or beside a line of a text, that the model can read.
    """
    if words.subtitles is not None:
        cues = words.subtitles.cues
    else:
        cues = ()
    lines = _lines(words, cues)
    for line in lines:
        line.script = script_of(" ".join(words.words[index].spoken for index in line.indices))
    if len({line.script for line in lines}) < 2:
        return words
    tokenizer.prepare(words.words[index].lookup_text for line in lines for index in line.indices)
    for line in lines:
        unread = sum(_is_unread(words.words[index], tokenizer) for index in line.indices)
        line.is_read = 2 * unread <= len(line.indices)
    unread_lines = [line for line in lines if not line.is_read]
    beside = _beside_read_lines(lines, by_cue=bool(cues))
    if not unread_lines or 2 * len(beside) < len(unread_lines):
        return words
    if not cues and 3 * len(unread_lines) < len(lines):
        return words  # a text in which somebody says a line in another language
    left_out = {index for line in unread_lines for index in line.indices}
    changed = (
        (
            replace(word, spoken="", roman=None, phones=None, reading=None, kind=TRANSLATION)
            if at in left_out
            else word
        )
        for at, word in enumerate(words.words)
    )
    return replace(words, words=tuple(changed))


def _lines(words: Words, cues: Sequence[SourceCue]) -> list[_Line]:
    """Return the lines that have spoken words; cues of the same time have the same number."""
    groups: list[int] = []
    for number, cue in enumerate(cues):
        is_same = number and abs(cue.start_s - cues[number - 1].start_s) <= _TOGETHER_S
        groups.append(groups[-1] if is_same else number)
    starts = [cue.char_start for cue in cues]
    lines: list[_Line] = []
    end = 0
    number = 0
    is_new = True
    for index, word in enumerate(words.words):
        breaks = words.text.count("\n", end, word.char_start)
        is_new = is_new or breaks > 0
        number += breaks
        end = word.char_end
        if word.spoken:
            if cues:
                group = groups[max(bisect_right(starts, word.char_start) - 1, 0)]
            else:
                group = number
            if is_new or lines[-1].group != group:
                lines.append(_Line([], group))
            lines[-1].indices.append(index)
            is_new = False
        elif breaks_line(word.text):
            number = number + 1
            is_new = True
    return lines


def _is_unread(word: Word, tokenizer: Tokenizer) -> bool:
    tokens = tokenizer.word(word.lookup_text, word.text, word.spoken)
    return bool(tokens.missing) and not tokens.pronunciations


def _beside_read_lines(lines: Sequence[_Line], by_cue: bool) -> list[_Line]:
    """Return the lines that the model cannot read beside one that it can.

    The two are in the same cue, or one follows the other.
    """
    read = {line.group for line in lines if line.is_read}
    near = (0,) if by_cue else (-1, 1)
    return [
        line
        for line in lines
        if not line.is_read and any(line.group + step in read for step in near)
    ]
