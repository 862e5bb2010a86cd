"""The cues of subtitles: the words of kept cues, new cues, the times of their words, and limits.

If the transcript has no cues, or they are not kept, `new_cues` cuts the text into readable cues.
`word_cues` has the words of cues with their times, for karaoke and subtitles with the spoken word
highlighted. These times are rounded once, counted from the start of the recording, so that rounding
errors do not accumulate.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from ctc_align.config import Settings
from ctc_align.files.sentences import (
    CLAUSE,
    SENTENCE,
    TextPiece,
    TextRow,
    break_cost,
    columns,
    parts_of_word,
    space_between,
    text_of,
    text_shown_once,
)
from ctc_align.files.source_cues import (
    MS_PER_S,
    Span,
    cues_without_times,
    missing_and_copies,
    on_frames,
    place_in_turn,
    shown_times,
    source_subtitles,
)
from ctc_align.files.tiers import PHONES
from ctc_align.files.writer import Style, is_timed, runs_in_time, words_that_are_shown
from ctc_align.text.cue_styles import STYLES
from ctc_align.text.markup import is_tag
from ctc_align.text.note_kinds import name_first
from ctc_align.text.phone_sets import is_vowel
from ctc_align.text.word_forms import without_markup
from ctc_align.types import REPEAT, SPEAKER, UNSPOKEN, AlignedWord, Alignment

# Words without times lie beside their neighbours, or in a pause. Words that nobody says take no
# time from others, and stretch no subtitle over a pause: they are shown with the words of their
# line, and a direction on separate lines (`[DOOR SLAMS]`) alone, in the pause in which it is
# written.

SHORTEST_S = 0.8
"""A shorter pause has no room for a subtitle."""
_LETTER_S = 0.05
"""Words without times are placed in a gap that has this much time for each of their letters."""
_LATER_S = 1.0
"""A stage direction on separate lines is shown at most this long after the words before it."""


def word_times(alignment: Alignment, words: Sequence[AlignedWord]) -> list[tuple[Span, bool]]:
    """Return times for words, ascending, and whether each word is shown separately.

    An unspoken word stands alone if its subtitle has only unspoken words.
    """
    spans: list[Span | None] = [
        (word.start_s or 0.0, word.end_s or 0.0) if is_timed(word) else None for word in words
    ]
    alone = [False] * len(words)
    start = 0
    while start < len(words):
        if spans[start] is not None:
            start += 1
            continue
        end = next((at for at in range(start, len(words)) if spans[at] is not None), len(words))
        is_all = end - start == len(words)
        if is_all or any(word.status != UNSPOKEN for word in words[start:end]):
            _fill(spans, words, (start, end), alignment.duration_s)
        else:
            spans[start:end], alone[start:end] = _unspoken_times(
                alignment, words, spans, (start, end)
            )
        start = end
    return [(span or (0.0, 0.0), is_alone) for span, is_alone in zip(spans, alone)]


def _fill(
    spans: list[Span | None],
    words: Sequence[AlignedWord],
    run: tuple[int, int],
    duration_s: float,
) -> None:
    """Share the gap around the words [start, end), which have no times, by their letters.

    If the gap is too short for words that may be spoken, they share a neighbour's time; unspoken
    words never do.
    """
    start, end = run
    low_s, high_s = _gap(spans, run, duration_s)
    letters = sum(map(_letters, words[start:end]))
    is_said = any(word.status != UNSPOKEN for word in words[start:end])
    if is_said and high_s - low_s < _LETTER_S * letters:
        # no room: they share the time of the word before, or of the word after them where there is
        # none
        before, after = (
            spans[start - 1] if start else None,
            spans[end] if end < len(words) else None,
        )
        if before is not None:
            start = start - 1
            low_s = before[0]
        elif after is not None:
            end = end + 1
            high_s = after[1]
    spans[start:end] = _shared_out(words[start:end], low_s, high_s)


def _shared_out(words: Sequence[AlignedWord], low_s: float, high_s: float) -> list[Span]:
    """Return times for words, one after the other, by their letters."""
    weights = [_letters(word) for word in words]
    step_s = max(high_s - low_s, 0.0) / sum(weights)
    return place_in_turn(low_s, (weight * step_s for weight in weights))


def _letters(word: AlignedWord) -> int:
    return max(1, columns(word.text))


def _gap(spans: Sequence[Span | None], run: tuple[int, int], duration_s: float) -> Span:
    """Return the time between the words around [start, end); empty if they overlap."""
    before = spans[run[0] - 1] if run[0] else (0.0, 0.0)
    after = spans[run[1]] if run[1] < len(spans) else (duration_s, duration_s)
    assert before is not None, "runs are filled from the first to the last"
    assert after is not None, "a run ends where a word has times"
    return before[1], max(after[0], before[1])


def _unspoken_times(
    alignment: Alignment,
    words: Sequence[AlignedWord],
    spans: Sequence[Span | None],
    run: tuple[int, int],
) -> tuple[list[Span], list[bool]]:
    """Return times for the unspoken words [start, end), and which of them stand alone."""
    start, end = run
    low_s, high_s = _gap(spans, run, alignment.duration_s)
    # the first word of the run that does not stand on the line before it, the last that does not on
    # that after it
    first = next((at for at in range(start, end) if _ends_line(alignment, words, at)), end)
    last = next((at for at in range(end, start, -1) if _ends_line(alignment, words, at)), start)
    if first > last:  # all on one line: with the words before it, unless these end a sentence
        text = alignment.text
        before = words[start - 1]
        after = space_between(text, before, words[start])
        is_end = break_cost(before.text, after, words[end].text) == SENTENCE
        first = last = start if is_end else end
    shown = _alone(alignment, words[first:last], (low_s, high_s), start > 0, end < len(words))
    if not shown:  # no room: with the words before, or else after them
        first = last = last if start else first
    times = [*[(low_s, low_s)] * (first - start), *shown, *[(high_s, high_s)] * (end - last)]
    return times, [first <= at < last for at in range(start, end)]


def _ends_line(alignment: Alignment, words: Sequence[AlignedWord], at: int) -> bool:
    """Return whether a line or turn ends before a word; True at both ends of the text."""
    if at in (0, len(words)):
        return True
    before = words[at - 1]
    word = words[at]
    return before.speaker != word.speaker or "\n" in space_between(alignment.text, before, word)


def _alone(
    alignment: Alignment,
    words: Sequence[AlignedWord],
    gap: Span,
    has_before: bool,
    has_after: bool,
) -> list[Span]:
    """Return times in a gap for words on lines of their own; [] if it is too short for them.

    It is the time of the transcript's subtitle, moved like its neighbours; otherwise a second after
    the words before, in the middle of a short gap, or before the first word of all.
    """
    low_s, high_s = gap
    if not words or high_s - low_s < SHORTEST_S:
        return []
    shown = _source_span(alignment, words)
    if shown is not None:
        at_s = max(shown[0], low_s)
        until_s = min(shown[1], high_s)
    else:
        length_s = min(
            high_s - low_s,
            max(SHORTEST_S, _LETTER_S * sum(columns(word.text) + 1 for word in words)),
        )
        room_s = high_s - low_s - length_s
        wait_s = room_s
        if has_before:
            wait_s = min(_LATER_S, room_s / 2 if has_after else room_s)
        at_s = low_s + wait_s
        until_s = at_s + length_s
    return _shared_out(words, at_s, until_s)


def _source_span(alignment: Alignment, words: Sequence[AlignedWord]) -> Span | None:
    """Return when the transcript shows its subtitles of unspoken words; None if it has none."""
    if alignment.subtitles is None:
        return None
    starts = [cue.char_start for cue in alignment.subtitles.cues]
    first, last = (bisect_right(starts, word.char_start) for word in (words[0], words[-1]))
    if {first, last} - {*cues_without_times(alignment)}:
        return None
    times = shown_times(alignment, 0.0, 0.0)
    return times[first - 1][0] / MS_PER_S, times[last - 1][1] / MS_PER_S


# Subtitles that are cut anew: readable pieces of text, each with the time it is shown
#
# At most two lines of 42 columns (`max_line`); broken at the ends of sentences and clauses and in
# pauses; shown from the first word on, long enough to be read (`max_cps`) where silence follows,
# and for 0.8 to 7 seconds (`min_duration_s`, `max_duration_s`) where the speech allows it. The next
# one follows after `min_gap_s`, for which a cue ends within its last word. Figures: the timed-text
# style guides of broadcasters (42 columns, two lines, 17 to 20 characters a second, 5/6 to 7
# seconds).

_LEAD_MS = 400
"""A subtitle that is still too short may appear this long before its first word."""
_PAUSE_S = 0.3
_LONG_PAUSE_S = 2.0
_CUE_COST = 3.0
_SHORT_TEXT_COST = 4.0
_INNER_SENTENCE_COST = 5.0
_PAUSE_COST_PER_S = 6.0
_TOO_SHORT_COST = 30.0
_FAST_COST_PER_COLUMN = 2.0
_MOST_FAST_COST = 40.0
_SHORT_COLUMNS = 14


@dataclass(frozen=True)
class Cue:
    """One subtitle, shown in [start_ms, end_ms): lines of pieces, none of them empty.

    `is_missing`: none of its words is in the recording, and its times may lie over those of others.
    """

    start_ms: int
    end_ms: int
    pieces: tuple[tuple[TextPiece, ...], ...]
    is_missing: bool = False

    @property
    def lines(self) -> list[str]:
        """The lines as text."""
        return [text_of(line) for line in self.pieces]

    @property
    def speaker(self) -> str:
        """The speaker; "" if no speaker or several speakers are named."""
        speakers = {piece.speaker for line in self.pieces for piece in line if piece.speaker}
        if len(speakers) == 1:
            return speakers.pop()
        return ""


def new_cues(alignment: Alignment, style: Style, *, source_lines: bool = False) -> list[Cue]:
    """Return all words as subtitles: in order, apart, not empty, with one speaker in each.

    Names of speakers are not among the words: they are each subtitle's `speaker`. Each line of
    rolling captions is shown once. A word without times stays with its neighbours, or alone in a
    pause; a transcript without any aligned word is spread over the recording. With `source_lines`,
    each line of the transcript is a subtitle, if none is wider than two lines of a subtitle.
    """
    pieces = text_pieces(
        [word for word in alignment.words if word.kind not in (SPEAKER, REPEAT)],
        alignment,
        style.max_line,
    )
    if not pieces:
        return []
    row = TextRow(pieces, style.max_line)
    breaks = _source_lines(row, 2 * style.max_line) if source_lines else []
    breaks = breaks or _breaks(row, alignment.duration_s, style)
    cues = _timed(row, breaks, alignment.duration_s, style, keeps_words=source_lines)
    shift_s = style.shift_s(alignment)
    times = [(cue.start_ms + _ms(shift_s), cue.end_ms + _ms(shift_s)) for cue in cues]
    gap_s = 0.0 if source_lines else style.min_gap_s
    times = on_frames(times, alignment.duration_s + shift_s, style.frame_rate, gap_s)
    return [Cue(*span, cue.pieces) for span, cue in zip(times, cues)]


def _source_lines(row: TextRow, most_columns: int) -> list[tuple[int, int]]:
    """Return the transcript's lines as (start, end) of pieces; [] if one is too wide."""
    indices = range(1, len(row.pieces))
    starts = [
        0,
        *(index for index in indices if row.pieces[index].starts_line or _turns(row, index)),
    ]
    spans = list(zip(starts, [*starts[1:], len(row.pieces)]))
    if all(row.columns(*span) <= most_columns for span in spans):
        return spans
    return []


def _turns(row: TextRow, index: int) -> bool:
    """Return whether a speaker, or a passage that stands alone, begins or ends at each piece."""
    piece = row.pieces[index]
    before = row.pieces[index - 1]
    return (piece.speaker, piece.is_alone) != (before.speaker, before.is_alone)


def text_pieces(
    words: Sequence[AlignedWord], alignment: Alignment, line_columns: int
) -> list[TextPiece]:
    """Return the words of the transcript, without markup, as pieces of text that all have times."""
    text = (
        alignment.text if any(word.kind == REPEAT for word in words) else text_shown_once(alignment)
    )
    shown = words_that_are_shown([word for word in words if not is_tag(text, word)] or words)
    words = [word for run in runs_in_time(shown) for word in run]
    followed_by = _followed_by(words)
    pieces: list[TextPiece] = []
    for number, (word, ((start_s, end_s), is_alone)) in enumerate(
        zip(words, word_times(alignment, words))
    ):
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
            is_spaced = not index and bool(before)
            starts_line = not index and "\n" in before
            speaker = "" if is_alone else word.speaker
            timed_part = part, is_spaced, *times, cost_here, starts_line, word.char_start
            pieces.append(TextPiece(*timed_part, speaker, word.status != UNSPOKEN, is_alone))
    return pieces


def _followed_by(words: Sequence[AlignedWord]) -> list[str]:
    """Return for each word the next spoken one, otherwise the next one; "" after the last."""
    found = []
    said = ""
    for index in range(len(words) - 1, -1, -1):
        found.append(said or (words[index + 1].text if index + 1 < len(words) else ""))
        said = words[index].text if words[index].status != UNSPOKEN else said
    return found[::-1]


def _breaks(row: TextRow, duration_s: float, style: Style) -> list[tuple[int, int]]:
    """Return the cheapest cut into subtitles, a shortest path over the gaps between pieces."""
    pieces = row.pieces
    best = [0.0]
    origin = [0]
    for end in range(1, len(pieces) + 1):
        next_s = pieces[end].start_s if end < len(pieces) else duration_s
        cheapest = math.inf
        index = end - 1
        inner = 0.0
        for start in range(end - 1, -1, -1):
            if start + 1 < end:
                if (
                    _turns(row, start + 1)
                    or not row.fits(start, end)
                    or pieces[end - 1].end_s - pieces[start].start_s > style.max_duration_s
                ):
                    break
                inner += _inner_cost(pieces[start], pieces[start + 1])
            cost = best[start] + inner + _cost(row, (start, end), next_s, style)
            if cost < cheapest:
                cheapest = cost
                index = start
        best.append(cheapest)
        origin.append(index)
    breaks = []
    end = len(pieces)
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


def _cost(row: TextRow, piece_span: tuple[int, int], next_s: float, style: Style) -> float:
    """Return the cost of a subtitle of a span of pieces, the next one beginning at `next_s`."""
    (start, end), pieces = piece_span, row.pieces
    last = pieces[end - 1]
    width = row.columns(start, end)
    shown_s = min(max(next_s, last.end_s) - pieces[start].start_s, style.max_duration_s)
    cost = _CUE_COST + max(
        0.0, last.break_cost - min(CLAUSE, 2 * CLAUSE * max(0.0, next_s - last.end_s))
    )
    if shown_s < style.min_duration_s:
        cost += _TOO_SHORT_COST * (1 - shown_s / style.min_duration_s)
    fast_cps = width / max(shown_s, 1e-3) - style.max_cps
    if fast_cps > 0:
        cost += min(_MOST_FAST_COST, _FAST_COST_PER_COLUMN * fast_cps)
    if width < _SHORT_COLUMNS:
        cost += _SHORT_TEXT_COST
    return cost


def _timed(
    row: TextRow,
    breaks: Sequence[tuple[int, int]],
    duration_s: float,
    style: Style,
    *,
    keeps_words: bool,
) -> list[Cue]:
    """Return the subtitles with times in whole milliseconds, ascending, each at least one.

    With `keeps_words`, no cue ends before its last word does, for `min_gap_s` or `max_duration_s`.
    """
    pieces = row.pieces
    edges = [(_ms(pieces[start].start_s), _ms(pieces[end - 1].end_s)) for start, end in breaks]
    edges.append((math.floor(duration_s * 1000 + 1e-6), 0))
    shortest_ms, longest_ms = _ms(style.min_duration_s), _ms(style.max_duration_s)
    free = 0
    gap_before_ms = 0
    cues = []
    for number, (start, end) in enumerate(breaks):
        start_ms, spoken_ms = edges[number]
        start_ms = max(start_ms, free)
        next_ms = edges[number + 1][0]
        gap_ms = min(math.ceil(MS_PER_S * style.min_gap_s), max(next_ms - start_ms, 0) // 2)
        if number + 1 == len(breaks):
            gap_ms = 0
        wanted_ms = max(shortest_ms, math.ceil(1000 * row.columns(start, end) / style.max_cps))
        end_ms = max(spoken_ms, min(start_ms + wanted_ms, next_ms - gap_ms))
        if number + 1 < len(breaks):
            if next_ms - end_ms < _ms(style.close_gaps_s):
                end_ms = next_ms
            end_ms = min(end_ms, next_ms if keeps_words else next_ms - gap_ms)
        last_ms = start_ms + longest_ms
        if keeps_words:
            last_ms = max(last_ms, spoken_ms)
        end_ms = max(min(end_ms, last_ms), start_ms + 1)
        earliest_ms = max(start_ms - _LEAD_MS, free + gap_before_ms, end_ms - shortest_ms)
        start_ms = min(start_ms, earliest_ms)
        free = end_ms
        gap_before_ms = gap_ms
        cues.append(Cue(start_ms, end_ms, tuple(row.lines(start, end))))
    return cues


def _ms(seconds: float) -> int:
    return round(seconds * MS_PER_S)


@dataclass(frozen=True)
class CueWord:
    """A word of a cue, spoken in [start, end) units; `is_spaced`: white space precedes it.

    For an unspoken word (a label, a direction) `is_spoken` is False, and its times mean nothing.
    """

    text: str
    is_spaced: bool
    start: int
    end: int
    is_spoken: bool = True


def spaced(line: Sequence[CueWord]) -> Iterator[tuple[str, CueWord]]:
    """Yield the words of a line, each after the space before it, "" for the first."""
    for index, word in enumerate(line):
        yield " " * (word.is_spaced and index > 0), word


@dataclass(frozen=True)
class WordCue:
    """A cue shown in [start, end) units, and its words by line, ascending within these times."""

    start: int
    end: int
    lines: tuple[tuple[CueWord, ...], ...]
    speaker: str = ""

    @property
    def words(self) -> list[CueWord]:
        """The words of all lines; white space precedes the first word of a line but the first."""
        return [word for line in self.lines for word in line]

    @property
    def spoken(self) -> list[CueWord]:
        """The spoken words."""
        return [word for word in self.words if word.is_spoken]

    @property
    def spoken_start(self) -> int:
        """The start of the first spoken word, otherwise of the cue."""
        if self.spoken:
            return self.spoken[0].start
        return self.start

    @property
    def spoken_end(self) -> int:
        """The end of the last spoken word, otherwise of the cue."""
        if self.spoken:
            return self.spoken[-1].end
        return self.end


def word_cues(
    alignment: Alignment,
    style: Style,
    units_per_s: int = MS_PER_S,
    *,
    source_lines: bool = False,
) -> list[WordCue]:
    """Return the cues in order, each at least one unit long, not overlapping.

    Cues whose words are not in the recording are at their old times, which may lie over others.
    `source_lines`: as `new_cues`. Words without times lie between their neighbours. Tags are left
    out. Words begin at their first vowels if the style says so, or with `source_lines`.
    """
    at = style.highlight_at
    if at == "vowel" or (at == "auto" and source_lines):
        alignment = starting_at_vowels(alignment)
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
        if not cue.is_missing:
            start = max(start, free)
        end = max(round(cue.end_ms * units_per_s / MS_PER_S), start + 1)
        if not cue.is_missing:
            free = end
        times = iter(_times(pieces, (start, end), shift_s, units_per_s))
        lines = tuple(tuple(_word(piece, next(times)) for piece in line) for line in cue.pieces)
        found.append(WordCue(start, end, lines, cue.speaker))
    return found


def starting_at_vowels(alignment: Alignment) -> Alignment:
    """Return an alignment whose words begin at their first vowels, as people time songs.

    Words without vowels, or fixed by hand, stay; so do all words if the tokens are not phones.
    """
    if alignment.token_kind != PHONES:
        return alignment
    words = []
    for word in alignment.words:
        starts_s = (token.start_s for token in word.tokens if is_vowel(token.token))
        start_s = next(starts_s, word.start_s)
        words.append(word if word.by else replace(word, start_s=start_s))
    return replace(alignment, words=tuple(words))


def _word(piece: TextPiece, times: tuple[int, int]) -> CueWord:
    return CueWord(piece.text, piece.is_spaced, *times, piece.is_spoken)


def _times(
    pieces: Sequence[TextPiece], shown: tuple[int, int], shift_s: float, units_per_s: int
) -> list[tuple[int, int]]:
    """Return the times of words in units, ascending and apart, while their cue is shown."""
    free, last = shown
    times = []
    for piece in pieces:
        start = min(max(round((piece.start_s + shift_s) * units_per_s), free), last)
        free = min(max(round((piece.end_s + shift_s) * units_per_s), start), last)
        times.append((start, free))
    return times


def _source_cues(alignment: Alignment, style: Style) -> list[Cue]:
    """Return the cues that have words, by time, with their lines in the transcript.

    Words of cues that are not in the recording count as unspoken: they are shown, and never
    highlighted.
    """
    starts = [cue.char_start for cue in source_subtitles(alignment).cues]
    if not starts:
        return []
    times = shown_times(alignment, style.shift_s(alignment), style.frame_rate)
    missing = missing_and_copies(alignment)
    placed = [(bisect_right(starts, word.char_start) - 1, word) for word in alignment.words]
    others = [word for index, word in placed if index not in missing]
    unsaid = [replace(word, status=UNSPOKEN) for index, word in placed if index in missing]
    pieces = [
        piece
        for words in (others, unsaid)
        for piece in text_pieces(words, alignment, style.max_line)
    ]
    pieces.sort(key=lambda piece: piece.char_start)
    cues = []
    for index, group in groupby(
        pieces, key=lambda piece: max(bisect_right(starts, piece.char_start) - 1, 0)
    ):
        lines: list[list[TextPiece]] = []
        for piece in group:
            if piece.starts_line or not lines:
                lines.append([])
            lines[-1].append(piece)
        cues.append(Cue(*times[index], tuple(map(tuple, lines)), index in missing))
    return sorted(cues, key=lambda cue: cue.start_ms)


# Cues beyond the limits of a style guide or of options: too fast, wide, short, long or close

CUED = frozenset(("srt", "vtt", "ass", "lrc"))
"""Formats with cues."""


class FastCue(NamedTuple):
    """A cue that must be read too fast: its number, from 1, its times, its columns a second."""

    cue: int
    start_s: float
    end_s: float
    columns_per_s: float


def fast_cues(alignment: Alignment, style: Style, formats: Iterable[str] = ()) -> list[FastCue]:
    """Return the cues of subtitles that are faster than `max_cps`, because the speech is.

    If `max_cps` is its default, none is unless new cues are written in one of `formats`.
    """
    is_kept = style.keeps_cues(alignment)
    if style.max_cps == Settings.max_cps and (is_kept or CUED.isdisjoint(formats)):
        return []
    found = []
    for number, (lines, (start_ms, end_ms)) in enumerate(_shown_cues(alignment, style), 1):
        speed = round(MS_PER_S * columns(" ".join(lines)) / (end_ms - start_ms), 1)
        if speed > style.max_cps:
            found.append(FastCue(number, start_ms / MS_PER_S, end_ms / MS_PER_S, speed))
    return found


def broken_limits(alignment: Alignment, style: Style) -> dict[str, list[int]]:
    """Return the numbers, from 1, of the cues beyond limits of the style or of options.

    They are grouped by what they are: "shorter than 0.8 s".

    A limit counts if the style has it, or if it is not the default. `fast_cues` is about `max_cps`.
    """
    counted = {
        name
        for name in ("max_line", "min_gap_s", "min_duration_s", "max_duration_s")
        if name in STYLES.get(style.style, {}) or getattr(style, name) != getattr(Settings, name)
    }
    shown = _shown_cues(alignment, style)
    lengths_ms = [end - start for _, (start, end) in shown]
    starts = sorted(start for _, (start, _) in shown)
    gaps_ms = [
        starts[bisect_right(starts, start)] - end if start < starts[-1] else math.inf
        for _, (start, end) in shown
    ]
    widths = [max(map(columns, lines), default=0) for lines, _ in shown]
    least_gap_ms = MS_PER_S * style.min_gap_s - 1
    shortest_ms = MS_PER_S * style.min_duration_s - 1
    longest_ms = MS_PER_S * style.max_duration_s + 1
    tests = (
        ("max_line", f"wider than {style.max_line} columns", [n > style.max_line for n in widths]),
        ("min_duration_s", f"shorter than {style.min_duration_s:.3g} s", [n < shortest_ms for n in lengths_ms]),
        ("max_duration_s", f"longer than {style.max_duration_s:.3g} s", [n > longest_ms for n in lengths_ms]),
        ("min_gap_s", f"less than {style.min_gap_s:.3g} s before the next", [n < least_gap_ms for n in gaps_ms]),
    )  # fmt: skip
    return {
        what: [number for number, is_broken in enumerate(broken, 1) if is_broken]
        for name, what, broken in tests
        if name in counted and any(broken)
    }


def limit_notes(alignment: Alignment, style: Style, formats: Iterable[str]) -> list[str]:
    """Return a note on the cues that break limits, if one of `formats` has cues."""
    if CUED.isdisjoint(formats):
        return []
    broken = [
        f"{len(cues)} {'cue is' if len(cues) == 1 else 'cues are'} {what}"
        f" ({name_first(list(map(str, cues)), len(cues))})"
        for what, cues in broken_limits(alignment, style).items()
    ]
    if style.keeps_cues(alignment):
        why = "kept as in the transcript; --cues again makes new ones"
    else:
        why = "because of the speech"
    return [f"{'; '.join(broken)}: {why}"] * bool(broken)


def _shown_cues(alignment: Alignment, style: Style) -> list[tuple[list[str], tuple[int, int]]]:
    """Return the lines, without markup, and the times in ms of the cues that are written."""
    if not style.keeps_cues(alignment):
        return [(cue.lines, (cue.start_ms, cue.end_ms)) for cue in new_cues(alignment, style)]
    texts = (
        alignment.text[cue.char_start : cue.char_end] for cue in source_subtitles(alignment).cues
    )
    shown = (map(str.split, without_markup(text).split("\n")) for text in texts)
    lines = [[" ".join(words) for words in each if words] for each in shown]
    return list(zip(lines, shown_times(alignment, style.shift_s(alignment), style.frame_rate)))
