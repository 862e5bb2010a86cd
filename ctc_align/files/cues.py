"""Subtitles that are cut anew: readable pieces of text, each with the time it is shown; and their words with times.

At most two lines of 42 columns (`max_line`); broken at the ends of sentences and clauses and in pauses; shown from the
first word on, long enough to be read (`max_cps`) where silence follows, and for 0.8 to 7 seconds where the speech
allows it. Figures: the timed-text style guides of broadcasters (42 columns, two lines, 17 to 20 characters a second,
5/6 to 7 seconds).

`word_cues` has the words of cues with the time of each, for karaoke and subtitles with the spoken word highlighted:
whole units that are rounded once, from the start of the recording, so that no error adds up.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ctc_align.files.cue_times import MS_PER_S, SHORTEST_S, on_frames, shown_times, word_times
from ctc_align.files.sentences import (
    CLAUSE,
    SENTENCE,
    TextPiece,
    TextRow,
    break_cost,
    parts_of_word,
    space_between,
    text_of,
)
from ctc_align.files.writer import Style, runs_in_time, words_that_are_shown
from ctc_align.text.word_forms import without_markup
from ctc_align.types import MARKUP, SPEAKER, UNSPOKEN, AlignedWord, AlignmentData

LONGEST_S = 7.0
_GAP_MS = 80
"""Gap between two subtitles that follow each other closely, where there is silence."""
_LEAD_MS = 400
"""A subtitle that is still too short may appear this much before its first word."""
_PAUSE_S, _LONG_PAUSE_S = 0.3, 2.0
_CUE_COST, _SHORT_TEXT_COST, _INNER_SENTENCE_COST, _PAUSE_COST_PER_S = 3.0, 4.0, 5.0, 6.0
_TOO_SHORT_COST, _FAST_COST_PER_COLUMN, _MOST_FAST_COST = 30.0, 2.0, 40.0
_SHORT_COLUMNS = 14
_TAG_CHARS = 200
"""A tag is searched this far before a name."""


@dataclass(frozen=True)
class Cue:
    """One subtitle: lines of pieces, none of them empty, shown in [start_ms, end_ms)."""

    start_ms: int
    end_ms: int
    pieces: tuple[tuple[TextPiece, ...], ...]

    @property
    def lines(self) -> list[str]:
        """The lines as text."""
        return [text_of(line) for line in self.pieces]

    @property
    def speaker(self) -> str:
        """Who says it; "" if nobody is named, or several are."""
        speakers = {piece.speaker for line in self.pieces for piece in line if piece.speaker}
        return speakers.pop() if len(speakers) == 1 else ""


def new_cues(alignment: AlignmentData, style: Style, *, source_lines: bool = False) -> list[Cue]:
    """Return all words of the transcript as subtitles, in order, never overlapping, never empty, none of two speakers.

    Names of speakers are no words of them: they are each subtitle's `speaker`. A word without times stays with its
    neighbours, or alone in a pause; a transcript without any aligned word is spread over the recording.
    With `source_lines` each line of the transcript is one, where none of them is wider than two lines of a subtitle.
    """
    pieces = text_pieces([word for word in alignment.words if word.kind != SPEAKER], alignment, style.max_line)
    if not pieces:
        return []
    row = TextRow(pieces, style.max_line)
    breaks = _source_lines(row, 2 * style.max_line) if source_lines else []
    breaks = breaks or _breaks(row, alignment.duration_s, style.max_cps)
    cues = _timed(row, breaks, alignment.duration_s, style)
    shift_s = style.shift_s(alignment)
    times = [(cue.start_ms + _ms(shift_s), cue.end_ms + _ms(shift_s)) for cue in cues]
    times = on_frames(times, alignment.duration_s + shift_s, style.frame_rate)
    return [Cue(*span, cue.pieces) for span, cue in zip(times, cues)]


def _source_lines(row: TextRow, most_columns: int) -> list[tuple[int, int]]:
    """Return the transcript's lines as (start, end) of pieces; [] if one is wider than that."""
    indices = range(1, len(row.pieces))
    starts = [0, *(index for index in indices if row.pieces[index].starts_line or _turns(row, index))]
    spans = list(zip(starts, [*starts[1:], len(row.pieces)]))
    return spans if all(row.columns(*span) <= most_columns for span in spans) else []


def _turns(row: TextRow, index: int) -> bool:
    """Return whether another speaker begins with a piece, or what stands alone begins or ends."""
    piece, before = row.pieces[index], row.pieces[index - 1]
    return (piece.speaker, piece.is_alone) != (before.speaker, before.is_alone)


def text_pieces(words: Sequence[AlignedWord], alignment: AlignmentData, line_columns: int) -> list[TextPiece]:
    """Return words of the transcript, without marks of a format, as pieces of text that all have times."""
    text = alignment.text
    shown = words_that_are_shown([word for word in words if not _is_tag(text, word)] or words)
    words = [word for run in runs_in_time(shown) for word in run]
    followed_by = _followed_by(words)
    pieces: list[TextPiece] = []
    for number, (word, ((start_s, end_s), is_alone)) in enumerate(zip(words, word_times(alignment, words))):
        following = words[number + 1] if number + 1 < len(words) else None
        after = space_between(text, word, following)
        cost = break_cost(word.text, after, followed_by[number])
        before = space_between(text, words[number - 1], word) if number else ""
        parts = parts_of_word(without_markup(word.text), line_columns)
        step_s = (end_s - start_s) / len(parts)
        for index, part in enumerate(parts):
            is_last = index + 1 == len(parts)
            times = (start_s + index * step_s, end_s if is_last else start_s + (index + 1) * step_s)
            cost_here = cost if is_last else 2 * cost + 1
            is_spaced, starts_line = not index and bool(before), not index and "\n" in before
            speaker = "" if is_alone else word.speaker
            timed_part = part, is_spaced, *times, cost_here, starts_line, word.char_start
            pieces.append(TextPiece(*timed_part, speaker, word.status != UNSPOKEN, is_alone))
    return pieces


def _followed_by(words: Sequence[AlignedWord]) -> list[str]:
    """Return for each word the next one that somebody says, else the next one; "" after the last."""
    found, said = [], ""
    for index in range(len(words) - 1, -1, -1):
        found.append(said or (words[index + 1].text if index + 1 < len(words) else ""))
        said = words[index].text if words[index].status != UNSPOKEN else said
    return found[::-1]


def _is_tag(text: str, word: AlignedWord) -> bool:
    """Return whether a word is a mark of a format, or names a speaker in one (`<v Mary Ann>`)."""
    if word.kind != SPEAKER:
        return word.kind == MARKUP
    around = (max(word.char_start - _TAG_CHARS, 0), word.char_start + 1)
    return text.rfind("<", *around) > text.rfind(">", *around)


def _breaks(row: TextRow, duration_s: float, max_cps: float) -> list[tuple[int, int]]:
    """Return the cheapest cut into subtitles, as (start, end) of pieces: a shortest path over the gaps between."""
    pieces = row.pieces
    best, origin = [0.0], [0]
    for end in range(1, len(pieces) + 1):
        next_s = pieces[end].start_s if end < len(pieces) else duration_s
        cheapest, index = math.inf, end - 1
        inner = 0.0
        for start in range(end - 1, -1, -1):
            if start + 1 < end:
                if (
                    _turns(row, start + 1)
                    or not row.fits(start, end)
                    or pieces[end - 1].end_s - pieces[start].start_s > LONGEST_S
                ):
                    break
                inner += _inner_cost(pieces[start], pieces[start + 1])
            cost = best[start] + inner + _cost(row, (start, end), next_s, max_cps)
            if cost < cheapest:
                cheapest, index = cost, start
        best.append(cheapest)
        origin.append(index)
    breaks, end = [], len(pieces)
    while end:
        breaks.append((origin[end], end))
        end = origin[end]
    return breaks[::-1]


def _inner_cost(piece: TextPiece, following: TextPiece) -> float:
    """Return the cost of not breaking after `piece`."""
    gap_s = following.start_s - piece.end_s
    pause = _PAUSE_COST_PER_S * gap_s if gap_s > _PAUSE_S else 0.0
    if gap_s > _LONG_PAUSE_S:
        pause += _MOST_FAST_COST + _TOO_SHORT_COST
    return pause + (_INNER_SENTENCE_COST if piece.break_cost == SENTENCE else 0.0)


def _cost(row: TextRow, piece_span: tuple[int, int], next_s: float, max_cps: float) -> float:
    """Return the cost of a subtitle of a span of pieces, the next one beginning at `next_s`."""
    (start, end), pieces = piece_span, row.pieces
    last = pieces[end - 1]
    width = row.columns(start, end)
    shown_s = min(max(next_s, last.end_s) - pieces[start].start_s, LONGEST_S)
    cost = _CUE_COST + max(0.0, last.break_cost - min(CLAUSE, 2 * CLAUSE * max(0.0, next_s - last.end_s)))
    if shown_s < SHORTEST_S:
        cost += _TOO_SHORT_COST * (1 - shown_s / SHORTEST_S)
    if width > max_cps * shown_s:
        cost += min(_MOST_FAST_COST, _FAST_COST_PER_COLUMN * (width / max(shown_s, 1e-3) - max_cps))
    if width < _SHORT_COLUMNS:
        cost += _SHORT_TEXT_COST
    return cost


def _timed(row: TextRow, breaks: Sequence[tuple[int, int]], duration_s: float, style: Style) -> list[Cue]:
    """Return the subtitles with their times: whole milliseconds, ascending, each at least one long."""
    pieces = row.pieces
    edges = [(_ms(pieces[start].start_s), _ms(pieces[end - 1].end_s)) for start, end in breaks]
    free, cues = 0, []
    for number, (start, end) in enumerate(breaks):
        start_ms, spoken_ms = edges[number]
        start_ms = max(start_ms, free)
        wanted_ms = max(_ms(SHORTEST_S), math.ceil(1000 * row.columns(start, end) / style.max_cps))
        is_last = number + 1 == len(breaks)
        limit_ms = math.floor(duration_s * 1000 + 1e-6) if is_last else edges[number + 1][0] - _GAP_MS
        end_ms = max(spoken_ms, min(start_ms + wanted_ms, limit_ms))
        end_ms = max(min(end_ms, start_ms + _ms(LONGEST_S)), start_ms + 1)
        if not is_last:
            end_ms = max(min(end_ms, edges[number + 1][0]), start_ms + 1)
        earliest_ms = max(start_ms - _LEAD_MS, free + _GAP_MS if number else 0, end_ms - _ms(SHORTEST_S))
        start_ms = min(start_ms, earliest_ms)
        free = end_ms
        cues.append(Cue(start_ms, end_ms, tuple(row.lines(start, end))))
    return cues


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


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
        """The start of the first word that somebody says, else of the cue."""
        return self.spoken[0].start if self.spoken else self.start

    @property
    def spoken_end(self) -> int:
        """The end of the last word that somebody says, else of the cue."""
        return self.spoken[-1].end if self.spoken else self.end


def word_cues(
    alignment: AlignmentData, style: Style, units_per_s: int = MS_PER_S, *, source_lines: bool = False
) -> list[WordCue]:
    """Return the cues in their order, each one unit long or longer, none over another.

    `source_lines`: as `new_cues`. Words without times lie between their neighbours. Tags are left out.
    """
    if style.keeps_cues(alignment):
        cues = _source_cues(alignment, style)
    else:
        cues = new_cues(alignment, style, source_lines=source_lines)
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
    for index, group in groupby(pieces, key=lambda piece: max(bisect_right(starts, piece.char_start) - 1, 0)):
        lines: list[list[TextPiece]] = []
        for piece in group:
            if piece.starts_line or not lines:
                lines.append([])
            lines[-1].append(piece)
        cues.append(Cue(*times[index], tuple(map(tuple, lines))))
    return sorted(cues, key=lambda cue: cue.start_ms)
