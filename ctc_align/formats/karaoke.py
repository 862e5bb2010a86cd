r"""Words with their times for players of lyrics and karaoke: ASS (Advanced SubStation Alpha) and LRC.

Lines are the transcript's own where they are short enough for a screen, else they are cut as subtitles are. Both
formats count in hundredths of a second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TextIO

from ctc_align.errors import OutputError
from ctc_align.formats.word_cues import CueWord, WordCue, word_cues
from ctc_align.formats.writer import Writer
from ctc_align.text.control_characters import without_controls
from ctc_align.types import AlignmentData

_CS_PER_S = 100
_MOST_ASS_CS = 10 * 3600 * _CS_PER_S
_MOST_LRC_CS = 100 * 60 * _CS_PER_S
_DARK_CS = 2 * _CS_PER_S
"""After so much time without a word an LRC line without text ends the line before it."""
_WORD_JOINER = "\u2060"
_ASS_COMMAND = re.compile(r"\\(?=[Nnh])")
_ASS_SIGNS = str.maketrans("{}", "()")
_LRC_BRACKETS = str.maketrans("[]", "()")
_LRC_STAMP = re.compile(r"<(\s*[\d:.,\s]+)>")
_UNLIT, _LIT = r"{\1c&HFFFFFF&\k0}", r"{\1c}"
"""The colour of words that are still to come, for no time; and that of words that were said again."""
_ASS_HEAD = """[Script Info]
; made by ctc-align
Title: {title}
ScriptType: v4.00+
WrapStyle: 0
ScaledBorderAndShadow: yes
PlayResX: 1280
PlayResY: 720

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,48,&H0000D7FF,&H00FFFFFF,&H00000000,&H80000000,0,0,0,0,100,100,0,0,1,2.5,1,2,40,40,40,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""


class AssWriter(Writer):
    r"""Karaoke: each word with `\k` and the hundredths of a second for which it is lit; who speaks is the line's name.

    What nobody says (labels, directions) has no time, and is never lit. A line's times add up from its start, pauses
    included (`{\k25}` before no text), so that every word begins within 5 ms of where it is spoken, in the tenth hour
    as in the first minute. Braces are written as parentheses, and a backslash that would be a command is followed by an
    invisible word joiner.
    """

    extension = ".ass"
    most_s = _MOST_ASS_CS / _CS_PER_S

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        cues = word_cues(alignment, self.style(alignment), _CS_PER_S, own_lines=True)
        _refuse_beyond(cues, _MOST_ASS_CS, "ASS holds times up to 9:59:59.99")
        file.write(_ASS_HEAD.format(title=_one_line(alignment.utterance)))
        for cue in cues:
            name = _one_line(cue.speaker).replace(",", ";")
            file.write(
                f"Dialogue: 0,{_ass_time(cue.start)},{_ass_time(cue.end)},Default,{name},0,0,0,,{_karaoke(cue)}\n"
            )


def _karaoke(cue: WordCue) -> str:
    r"""Return the words of a line, each behind its `{\k}`.

    >>> words = (CueWord("So", False, 12, 40), CueWord("be", True, 40, 61), CueWord("it.", True, 70, 99))
    >>> _karaoke(WordCue(10, 120, (words,)))
    '{\\k2}{\\k28}So {\\k21}be {\\k9}{\\k29}it.'
    """
    pieces = []
    at = cue.start
    for number, line in enumerate(cue.lines):
        pieces.append(r"\N" * bool(number))
        for place, word in enumerate(line):
            pieces.append(" " * (word.is_spaced and place > 0))
            if not word.is_spoken:
                pieces.append(rf"{_UNLIT}{_ass_text(word.text)}{_LIT}")
                continue
            if word.start > at:
                pieces.append(rf"{{\k{word.start - at}}}")
            pieces.append(rf"{{\k{word.end - word.start}}}{_ass_text(word.text)}")
            at = word.end
    return "".join(pieces)


def _ass_text(text: str) -> str:
    return _one_line(_ASS_COMMAND.sub(rf"\\{_WORD_JOINER}", text).translate(_ASS_SIGNS))


def _ass_time(centiseconds: int) -> str:
    """
    >>> _ass_time(366_101)
    '1:01:01.01'
    """
    seconds, rest = divmod(centiseconds, _CS_PER_S)
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:02d}"


class LrcWriter(Writer):
    """Lyrics, `[mm:ss.xx]` before each line; with `highlight_words` enhanced LRC, `<mm:ss.xx>` before each word too.

    The end of an enhanced line is the time behind its last word. A line without text stands where nothing is sung for
    two seconds or more. Square brackets in the text are written as parentheses: LRC has no escape for them.
    """

    extension = ".lrc"
    most_s = _MOST_LRC_CS / _CS_PER_S

    def write(self, alignment: AlignmentData, file: TextIO) -> None:
        style = self.style(alignment)
        cues = word_cues(alignment, style, _CS_PER_S, own_lines=True)
        _refuse_beyond(cues, _MOST_LRC_CS, "LRC holds times up to 99:59.99")
        file.write("[re:ctc-align]\n")
        for place, cue in enumerate(cues):
            words = cue.words
            text = _enhanced(cue) if style.highlight_words else _plain(words)
            file.write(f"[{_lrc_time(cue.spoken_start)}]{text}\n")
            if place + 1 == len(cues) or cues[place + 1].spoken_start - cue.spoken_end >= _DARK_CS:
                file.write(f"[{_lrc_time(cue.spoken_end)}]\n")


def _plain(words: Sequence[CueWord]) -> str:
    return "".join(" " * (word.is_spaced and place > 0) + _lrc_text(word.text) for place, word in enumerate(words))


def _enhanced(cue: WordCue) -> str:
    """
    >>> words = (CueWord("A:", False, 12, 12, False), CueWord("So", True, 12, 40), CueWord("be", True, 40, 61))
    >>> _enhanced(WordCue(10, 120, (words,)))
    'A: <00:00.12>So <00:00.40>be<00:00.61>'
    """
    pieces = [
        " " * (word.is_spaced and place > 0)
        + (f"<{_lrc_time(word.start)}>" if word.is_spoken else "")
        + _lrc_text(word.text)
        for place, word in enumerate(cue.words)
    ]
    return "".join([*pieces, f"<{_lrc_time(cue.spoken_end)}>"])


def _lrc_text(text: str) -> str:
    return _one_line(_LRC_STAMP.sub(r"(\1)", text.translate(_LRC_BRACKETS)))


def _lrc_time(centiseconds: int) -> str:
    """
    >>> _lrc_time(366_101)
    '61:01.01'
    """
    seconds, rest = divmod(centiseconds, _CS_PER_S)
    return f"{seconds // 60:02d}:{seconds % 60:02d}.{rest:02d}"


def _one_line(text: str) -> str:
    return without_controls(" ".join(text.split()))


def _refuse_beyond(cues: Sequence[WordCue], most_cs: int, what: str) -> None:
    """Raise OutputError where a cue ends after the last time that a format can hold."""
    if cues and cues[-1].end >= most_cs:
        raise OutputError(
            f"{what}, and the last words end at {_ass_time(cues[-1].end)}; leave this format out of --format, or align "
            "the recording in parts"
        )
