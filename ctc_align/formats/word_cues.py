"""Cues whose words have times of their own, as karaoke and subtitles with the spoken word lit need them.

They are the cues of a subtitle file that is the transcript, else subtitles that are cut anew, or the lines of a song.
Times are whole units that are rounded once, from the start of the recording, so that no error adds up.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ctc_align.formats.cue_times import MS_PER_S
from ctc_align.formats.line_breaking import TextPiece
from ctc_align.formats.new_cues import Cue, new_cues, text_pieces
from ctc_align.formats.source_cues import shown_times
from ctc_align.formats.writer import Style
from ctc_align.types import AlignmentData


@dataclass(frozen=True)
class CueWord:
    """A word of a cue, spoken in [start, end) in whole units; `is_spaced`: white space stands before it.

    One that nobody says (a label, a direction) is not `is_spoken`, and its times mean nothing.
    """

    text: str
    is_spaced: bool
    start: int
    end: int
    is_spoken: bool = True


@dataclass(frozen=True)
class WordCue:
    """A cue shown in [start, end) whole units, and the words of its lines, ascending within these times."""

    start: int
    end: int
    lines: tuple[tuple[CueWord, ...], ...]
    speaker: str = ""

    @property
    def words(self) -> list[CueWord]:
        """The words of all lines; white space stands before the first one of a line but the first."""
        return [word for line in self.lines for word in line]

    @property
    def spoken(self) -> list[CueWord]:
        """The words that somebody says."""
        return [word for word in self.words if word.is_spoken]

    @property
    def spoken_start(self) -> int:
        """The start of the first word that somebody says, that of the cue where there is none."""
        return self.spoken[0].start if self.spoken else self.start

    @property
    def spoken_end(self) -> int:
        """The end of the last word that somebody says, that of the cue where there is none."""
        return self.spoken[-1].end if self.spoken else self.end


def word_cues(
    alignment: AlignmentData, style: Style, units_per_s: int = MS_PER_S, *, own_lines: bool = False
) -> list[WordCue]:
    """Return the cues in their order, each one unit long or longer, none over another.

    `own_lines`: as `new_cues`. Words without times lie between their neighbours. Tags of a subtitle file are left out.
    """
    if style.keeps_cues(alignment):
        cues = _source_cues(alignment, style)
    else:
        cues = new_cues(alignment, style, own_lines=own_lines)
    shift_s = style.shift_s(alignment)
    found = []
    free = 0
    for cue in cues:
        pieces = [piece for line in cue.pieces for piece in line]
        start = round(cue.start_ms * units_per_s / MS_PER_S)
        if round((pieces[0].start_s + shift_s) * MS_PER_S) == cue.start_ms:
            start = round((pieces[0].start_s + shift_s) * units_per_s)  # not rounded twice
        start = max(start, free)
        free = max(round(cue.end_ms * units_per_s / MS_PER_S), start + 1)
        times = iter(_times(pieces, (start, free), shift_s, units_per_s))
        lines = tuple(tuple(_word(piece, next(times)) for piece in line) for line in cue.pieces)
        found.append(WordCue(start, free, lines, cue.speaker))
    return found


def _word(piece: TextPiece, times: tuple[int, int]) -> CueWord:
    return CueWord(piece.text, piece.is_spaced, *times, piece.is_spoken)


def _times(
    pieces: Sequence[TextPiece], shown: tuple[int, int], shift_s: float, units_per_s: int
) -> list[tuple[int, int]]:
    """Return the times of words in units: ascending, none over another, within the time that their cue is shown."""
    free, last = shown
    times = []
    for piece in pieces:
        start = min(max(round((piece.start_s + shift_s) * units_per_s), free), last)
        free = min(max(round((piece.end_s + shift_s) * units_per_s), start), last)
        times.append((start, free))
    return times


def _source_cues(alignment: AlignmentData, style: Style) -> list[Cue]:
    """Return the cues of the transcript that have words, by time, with the lines that they have there."""
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    starts = [cue.char_start for cue in alignment.subtitles.cues]
    if not starts:
        return []
    times = shown_times(alignment, style.shift_s(alignment), style.frame_rate)
    pieces = sorted(text_pieces(alignment.words, alignment, style.max_line), key=lambda piece: piece.char_start)
    cues = []
    for place, group in groupby(pieces, key=lambda piece: max(bisect_right(starts, piece.char_start) - 1, 0)):
        lines: list[list[TextPiece]] = []
        for piece in group:
            if piece.starts_line or not lines:
                lines.append([])
            lines[-1].append(piece)
        cues.append(Cue(*times[place], tuple(map(tuple, lines))))
    return sorted(cues, key=lambda cue: cue.start_ms)
