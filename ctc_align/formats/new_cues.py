"""Subtitles that are cut anew: readable pieces of text, each with the time it is shown.

At most two lines of 42 columns (`max_line`); broken at the ends of sentences and clauses and in pauses; shown from the
first word on, long enough to be read (`max_cps`) where silence follows, and for 0.8 to 7 seconds where the speech
allows it. Figures: the timed-text style guides of broadcasters (42 columns, two lines, 17 to 20 characters a second,
5/6 to 7 seconds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.formats.cue_times import on_frames
from ctc_align.formats.line_breaking import (
    CLAUSE,
    SENTENCE,
    TextPiece,
    TextRow,
    break_cost,
    columns,
    parts_of_word,
    text_of,
)
from ctc_align.formats.sentences import space_between
from ctc_align.formats.time_order import runs_in_time, words_that_are_shown
from ctc_align.formats.writer import Style
from ctc_align.text.printed_labels import without_markup
from ctc_align.types import ALIGNED, MARKUP, SPEAKER, UNSPOKEN, AlignedWord, AlignmentData

SHORTEST_S, LONGEST_S = 0.8, 7.0
_GAP_MS = 80
"""Gap between two subtitles that follow each other closely, where there is silence."""
_LEAD_MS = 400
"""A subtitle that is still too short may appear this much before its first word."""
_LETTER_S = 0.05
"""Words without times are placed in a gap that has this much time for each of their letters."""

_PAUSE_S, _LONG_PAUSE_S = 0.3, 2.0
_CUE_COST, _SHORT_TEXT_COST, _INNER_SENTENCE_COST, _PAUSE_COST_PER_S = 3.0, 4.0, 5.0, 6.0
_TOO_SHORT_COST, _FAST_COST_PER_COLUMN, _MOST_FAST_COST = 30.0, 2.0, 40.0
_SHORT_COLUMNS = 14


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


def new_cues(alignment: AlignmentData, style: Style, *, own_lines: bool = False) -> list[Cue]:
    """Return all words of the transcript as subtitles, in order, never overlapping, never empty, none of two speakers.

    A word without times stays with its neighbours; a transcript without any aligned word is spread over the recording.
    With `own_lines` each line of the transcript is one, where none of them is wider than two lines of a subtitle.
    """
    pieces = text_pieces(alignment, style.max_line)
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
    """Return whether another speaker begins with a piece."""
    return row.pieces[place].speaker != row.pieces[place - 1].speaker


def text_pieces(alignment: AlignmentData, line_columns: int) -> list[TextPiece]:
    """Return the transcript's words, without marks of a format, as pieces of text that all have times."""
    text = alignment.text
    shown = words_that_are_shown([word for word in alignment.words if not _is_tag(word)] or alignment.words)
    words = [word for run in runs_in_time(shown) for word in run]
    pieces: list[TextPiece] = []
    for number, (word, (start_s, end_s)) in enumerate(zip(words, _spans(words, alignment.duration_s))):
        following = words[number + 1] if number + 1 < len(words) else None
        after = space_between(text, word, following)
        cost = break_cost(word.text, after, following.text if following else "")
        before = space_between(text, words[number - 1], word) if number else ""
        parts = parts_of_word(without_markup(word.text), line_columns)
        step_s = (end_s - start_s) / len(parts)
        for place, part in enumerate(parts):
            is_last = place + 1 == len(parts)
            times = (start_s + place * step_s, end_s if is_last else start_s + (place + 1) * step_s)
            cost_here = cost if is_last else 2 * cost + 1
            is_spaced, starts_line = not place and bool(before), not place and "\n" in before
            said = word.speaker, word.status != UNSPOKEN
            pieces.append(TextPiece(part, is_spaced, *times, cost_here, starts_line, word.char_start, *said))
    return pieces


def _is_tag(word: AlignedWord) -> bool:
    """Return whether a word is a mark of a format, or names a speaker in one (`<v Mary>`)."""
    return word.kind == MARKUP or (word.kind == SPEAKER and word.text.startswith("<"))


def _spans(words: Sequence[AlignedWord], duration_s: float) -> list[tuple[float, float]]:
    """Return times for all words, ascending: those without any lie between their neighbours, or share their time."""
    spans = [_span(word) for word in words]
    start = 0
    while start < len(words):
        if spans[start] is not None:
            start += 1
            continue
        end = next((at for at in range(start, len(words)) if spans[at] is not None), len(words))
        _fill(spans, words, (start, end), duration_s)
        start = end
    return [span or (0.0, duration_s) for span in spans]


def _span(word: AlignedWord) -> tuple[float, float] | None:
    if word.status != ALIGNED or word.start_s is None or word.end_s is None:
        return None
    return word.start_s, word.end_s


def _fill(
    spans: list[tuple[float, float] | None],
    words: Sequence[AlignedWord],
    run: tuple[int, int],
    duration_s: float,
) -> None:
    """Give the words [start, end), which have no times, the gap between their neighbours, by their letters.

    Where it is too short for words that may be spoken they share a neighbour's time; what nobody says never does.
    """
    start, end = run
    before = spans[start - 1] if start else (0.0, 0.0)
    after = spans[end] if end < len(words) else (duration_s, duration_s)
    assert before is not None, "runs are filled from the first to the last"
    assert after is not None, "a run ends where a word has times"
    weights = [max(1, columns(word.text)) for word in words[start:end]]
    low_s, high_s = before[1], after[0]
    is_said = any(word.status != UNSPOKEN for word in words[start:end])
    if is_said and high_s - low_s < _LETTER_S * sum(weights):
        # no room: they share the time of the word before, or of the word after them where there is none
        if start:
            start, low_s = start - 1, before[0]
        elif end < len(words):
            end, high_s = end + 1, after[1]
        weights = [max(1, columns(word.text)) for word in words[start:end]]
    at_s, step_s = low_s, (high_s - low_s) / sum(weights)
    for place, weight in zip(range(start, end), weights):
        spans[place] = (at_s, at_s + weight * step_s)
        at_s += weight * step_s


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
