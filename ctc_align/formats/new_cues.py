"""Subtitles that are cut anew: readable pieces of text, each with the time it is shown.

At most two lines of 42 columns (`max_line`); broken at the ends of sentences and clauses and in pauses; shown from the
first word on, long enough to be read (`max_cps`) where silence follows, and for 0.8 to 7 seconds where the speech
allows it. Figures: the timed-text style guides of broadcasters (42 columns, two lines, 17 to 20 characters a second,
5/6 to 7 seconds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ctc_align.formats.cue_times import on_frames
from ctc_align.formats.line_breaking import (
    CLAUSE,
    SENTENCE,
    TextPiece,
    TextRow,
    break_cost,
    parts_of_word,
    text_of,
)
from ctc_align.formats.sentences import space_between
from ctc_align.formats.time_order import runs_in_time, words_that_are_shown
from ctc_align.formats.untimed_words import SHORTEST_S, word_places
from ctc_align.formats.writer import Style
from ctc_align.text.printed_labels import without_markup
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
"""A tag is looked for so far before a name."""


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
        """Who says it; "" where nobody is named, or several are."""
        speakers = {piece.speaker for line in self.pieces for piece in line if piece.speaker}
        return speakers.pop() if len(speakers) == 1 else ""


def new_cues(alignment: AlignmentData, style: Style, *, own_lines: bool = False) -> list[Cue]:
    """Return all words of the transcript as subtitles, in order, never overlapping, never empty, none of two speakers.

    Names of speakers are no words of them: they are each subtitle's `speaker`. A word without times stays with its
    neighbours, or alone in a pause; a transcript without any aligned word is spread over the recording.
    With `own_lines` each line of the transcript is one, where none of them is wider than two lines of a subtitle.
    """
    pieces = text_pieces([word for word in alignment.words if word.kind != SPEAKER], alignment, style.max_line)
    if not pieces:
        return []
    row = TextRow(pieces, style.max_line)
    breaks = _own_lines(row, 2 * style.max_line) if own_lines else []
    breaks = breaks or _breaks(row, alignment.duration_s, style.max_cps)
    cues = _timed(row, breaks, alignment.duration_s, style)
    shift_s = style.shift_s(alignment)
    times = [(cue.start_ms + _ms(shift_s), cue.end_ms + _ms(shift_s)) for cue in cues]
    times = on_frames(times, alignment.duration_s + shift_s, style.frame_rate)
    return [Cue(*span, cue.pieces) for span, cue in zip(times, cues)]


def _own_lines(row: TextRow, most_columns: int) -> list[tuple[int, int]]:
    """Return the transcript's own lines as (start, end) of pieces; [] where one is wider than that."""
    places = range(1, len(row.pieces))
    starts = [0, *(place for place in places if row.pieces[place].starts_line or _turns(row, place))]
    spans = list(zip(starts, [*starts[1:], len(row.pieces)]))
    return spans if all(row.columns(*span) <= most_columns for span in spans) else []


def _turns(row: TextRow, place: int) -> bool:
    """Return whether another speaker begins with a piece, or what stands alone begins or ends."""
    piece, before = row.pieces[place], row.pieces[place - 1]
    return (piece.speaker, piece.is_alone) != (before.speaker, before.is_alone)


def text_pieces(words: Sequence[AlignedWord], alignment: AlignmentData, line_columns: int) -> list[TextPiece]:
    """Return words of the transcript, without marks of a format, as pieces of text that all have times."""
    text = alignment.text
    shown = words_that_are_shown([word for word in words if not _is_tag(text, word)] or words)
    words = [word for run in runs_in_time(shown) for word in run]
    followed_by = _followed_by(words)
    pieces: list[TextPiece] = []
    for number, (word, span) in enumerate(zip(words, word_places(alignment, words))):
        following = words[number + 1] if number + 1 < len(words) else None
        after = space_between(text, word, following)
        cost = break_cost(word.text, after, followed_by[number])
        before = space_between(text, words[number - 1], word) if number else ""
        parts = parts_of_word(without_markup(word.text), line_columns)
        step_s = (span.end_s - span.start_s) / len(parts)
        for place, part in enumerate(parts):
            is_last = place + 1 == len(parts)
            times = (span.start_s + place * step_s, span.end_s if is_last else span.start_s + (place + 1) * step_s)
            cost_here = cost if is_last else 2 * cost + 1
            is_spaced, starts_line = not place and bool(before), not place and "\n" in before
            said = "" if span.is_alone else word.speaker, word.status != UNSPOKEN
            text_piece = TextPiece(part, is_spaced, *times, cost_here, starts_line, word.char_start, *said)
            pieces.append(replace(text_piece, is_alone=span.is_alone) if span.is_alone else text_piece)
    return pieces


def _followed_by(words: Sequence[AlignedWord]) -> list[str]:
    """Return for each word the next one that somebody says, else the next one; "" after the last."""
    found, said = [], ""
    for place in range(len(words) - 1, -1, -1):
        found.append(said or (words[place + 1].text if place + 1 < len(words) else ""))
        said = words[place].text if words[place].status != UNSPOKEN else said
    return found[::-1]


def _is_tag(text: str, word: AlignedWord) -> bool:
    """Return whether a word is a mark of a format, or names a speaker in one (`<v Mary Ann>`)."""
    if word.kind != SPEAKER:
        return word.kind == MARKUP
    place = (max(word.char_start - _TAG_CHARS, 0), word.char_start + 1)
    return text.rfind("<", *place) > text.rfind(">", *place)


def _breaks(row: TextRow, duration_s: float, max_cps: float) -> list[tuple[int, int]]:
    """Return the cheapest cut into subtitles, as (start, end) of pieces: a shortest path over the places between."""
    pieces = row.pieces
    best, origin = [0.0], [0]
    for end in range(1, len(pieces) + 1):
        next_s = pieces[end].start_s if end < len(pieces) else duration_s
        cheapest, place = math.inf, end - 1
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
                cheapest, place = cost, start
        best.append(cheapest)
        origin.append(place)
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
