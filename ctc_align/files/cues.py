"""The cues of subtitles: times of kept cues, new cues, and the times of their words.

A cue of the transcript lasts from the start of its first aligned word to the end of its last
(`shown_times`). If the transcript has no cues, or they are not kept, `new_cues` cuts the text into
readable cues. `word_cues` has the words of cues with their times, for karaoke and subtitles with
the spoken word highlighted. These times are rounded once, counted from the start of the recording,
so that rounding errors do not accumulate.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

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
from ctc_align.files.writer import (
    Style,
    is_timed,
    runs_in_time,
    words_by_time,
    words_that_are_shown,
)
from ctc_align.text.markup import is_tag
from ctc_align.text.word_forms import without_markup
from ctc_align.types import (
    REPEAT,
    SPEAKER,
    UNSPOKEN,
    AlignedWord,
    Alignment,
    SourceCue,
    Subtitles,
)

# Times of cues
#
# A cue without an aligned word (`[MUSIC]`, or no text) keeps its old times, moved as its neighbours
# were, where they fit between them; else it gets the room that is left, at least one frame of a
# film (40 ms) of the last word of the cue before it. If passages were read in a different order,
# times go back from one cue to the next, and no two cues are shown at a time.
#
# Words without times lie beside their neighbours, or in a pause. Words that nobody says take no
# time from others, and stretch no subtitle over a pause: they are shown with the words of their
# line, and a direction on separate lines (`[DOOR SLAMS]`) alone, in the pause in which it is
# written.

Span = tuple[float, float]
MS_PER_S = 1000
_NTSC = (24, 30, 48, 60, 120)
_NEAR_HZ = 0.005
_LEAST_S = 0.2
"""A cue without an aligned word is shown at least this long if there is room."""
_TAKEN_S = 0.04
"""If there is no room, it is shown for this time, a frame of a film, which is taken from the word
before it."""
_SLACK_FRAMES = 0.01
_SLACK_S = 1e-6
"""Words that touch may overlap by the rounding of their times."""
SHORTEST_S = 0.8
"""A shorter pause has no room for a subtitle."""
_LETTER_S = 0.05
"""Words without times are placed in a gap that has this much time for each of their letters."""
_LATER_S = 1.0
"""A stage direction on separate lines is shown at most this long after the words before it."""


def clock(units: int, point: str = ".", units_per_s: int = MS_PER_S, hour_digits: int = 2) -> str:
    """Return a time as hours, minutes, seconds, with a decimal for each zero of `units_per_s`.

    >>> clock(3_661_001, ","), clock(366_101, units_per_s=100, hour_digits=1)
    ('01:01:01,001', '1:01:01.01')
    """
    seconds, rest = divmod(units, units_per_s)
    decimals = len(str(units_per_s)) - 1
    return f"{seconds // 3600:0{hour_digits}d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:0{decimals}d}"


def apart(
    spans: Sequence[Span], end_s: float, units_per_s: float = MS_PER_S
) -> list[tuple[int, int]]:
    """Return spans in whole units, each at least one long and, if there is room, not overlapping.

    The spans need not ascend; the first in time is moved last.

    >>> apart([(1.0, 2.0), (0.0, 1.0002), (2.0, 2.0)], 2.0)
    [(1000, 1999), (0, 1000), (1999, 2000)]
    """
    order = sorted(range(len(spans)), key=lambda index: spans[index][0])
    times = [(0, 0)] * len(spans)
    free = 0
    for index in order:
        start = max(round(spans[index][0] * units_per_s), free)
        free = max(round(spans[index][1] * units_per_s), start + 1)
        times[index] = (start, free)
    last = math.floor(end_s * units_per_s + 1e-6)
    if len(spans) <= last:
        for index in reversed(order):
            end = min(times[index][1], last)
            last = min(times[index][0], end - 1)
            times[index] = (last, end)
    return times


def on_frames(
    times_ms: Sequence[tuple[int, int]], end_s: float, frame_rate: float, gap_s: float = 0.0
) -> list[tuple[int, int]]:
    """Return times in milliseconds, rounded to frames of at least one; rate 0 changes nothing.

    Args:
        times_ms: (start, end) of each cue, counted from the film's start.
        end_s: the end of the film.
        frame_rate: frames per second; those of NTSC in their usual short form (23.976, 29.97 …) are
            24000/1001 etc.
        gap_s: the shortest gap between cues that follow each other, if they can be a frame long.

    >>> on_frames([(1000, 2010), (2015, 2020)], 10.0, 25.0), on_frames([(3_600_000, 3_600_040)], 4000.0, 23.976)
    ([(1000, 2000), (2000, 2040)], [(3600013, 3600055)])
    """
    if not frame_rate:
        return list(times_ms)
    rate = _exact_rate(frame_rate)
    frames = apart([(start / MS_PER_S, end / MS_PER_S) for start, end in times_ms], end_s, rate)
    gap = math.ceil(gap_s * rate - _SLACK_FRAMES)
    if gap > 0:
        latest = [start - gap for start, _ in frames[1:]]
        frames[:-1] = [
            (start, max(min(end, last), start + 1)) for (start, end), last in zip(frames, latest)
        ]
    return [(round(MS_PER_S * start / rate), round(MS_PER_S * end / rate)) for start, end in frames]


def _exact_rate(frame_rate: float) -> float:
    ntsc = (whole * 1000 / 1001 for whole in _NTSC)
    return next((rate for rate in ntsc if abs(rate - frame_rate) < _NEAR_HZ), frame_rate)


def cues_without_times(alignment: Alignment) -> list[int]:
    """Return the numbers, from 1, of the transcript's cues that have text and no aligned word.

    Cues that only show again what was said are none of them.
    """
    if alignment.subtitles is None:
        return []
    repeats = _repeats(alignment)
    return [
        number
        for number, (cue, words) in enumerate(
            zip(alignment.subtitles.cues, spoken_words_by_cue(alignment)), 1
        )
        if not words and cue.char_end > cue.char_start and number - 1 not in repeats
    ]


def _repeats(alignment: Alignment) -> set[int]:
    """Return the indices of the cues that show lines again."""
    starts = [cue.char_start for cue in source_subtitles(alignment).cues]
    return {
        bisect_right(starts, word.char_start) - 1 for word in alignment.words if word.kind == REPEAT
    }


def source_subtitles(alignment: Alignment) -> Subtitles:
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    return alignment.subtitles


def shown_times(alignment: Alignment, shift_s: float, frame_rate: float) -> list[tuple[int, int]]:
    """Return the times of all cues in ms: at least 1 ms long, apart, inside the recording.

    They ascend, except for passages that were read in a different order from the file's. A cue that
    the file has twice at the same time has the same new times twice.
    """
    cues = source_subtitles(alignment).cues
    spoken = spoken_words_by_cue(alignment)
    repeats = _repeats(alignment)
    copies = [index for index in sorted(repeats) if index and not spoken[index]]
    twins = {
        index: index - 1
        for index in copies
        if 2 * (cues[index - 1].end_s - cues[index].start_s)
        > cues[index].end_s - cues[index].start_s
    }
    single = [index for index in range(len(cues)) if index not in twins]
    spans: list[Span | None] = [
        (words[0].start_s or 0.0, words[-1].end_s or 0.0) if words else None for words in spoken
    ]
    for index in copies:
        span = spans[index - 1]
        before = cues[index - 1]
        cue = cues[index]
        if span is not None and index not in twins:
            # a copy follows while the words are still spoken: the cue keeps its length
            length_s = before.end_s - before.start_s
            both_s = cue.end_s - before.start_s
            if 0 < length_s < span[1] - span[0] < 2 * both_s:
                spans[index - 1] = (span[0], span[0] + length_s)
    filled = _without_gaps(
        [cues[index] for index in single],
        [spans[index] for index in single],
        [
            (
                (spoken[index][-1].end_s or 0.0) - (spoken[index][-1].start_s or 0.0)
                if spoken[index]
                else 0.0
            )
            for index in single
        ],
        [0.0 if index in repeats else _LEAST_S for index in single],
        alignment.duration_s,
    )
    shift_ms = round(shift_s * MS_PER_S)
    shifted = [
        (start + shift_ms, end + shift_ms) for start, end in apart(filled, alignment.duration_s)
    ]
    times = dict(zip(single, on_frames(shifted, alignment.duration_s + shift_s, frame_rate)))
    for index, other in twins.items():
        times[index] = times[other]
    return [times[index] for index in range(len(cues))]


def _without_gaps(
    cues: Sequence[SourceCue],
    spans: list[Span | None],
    last_words_s: Sequence[float],
    least_s: Sequence[float],
    duration_s: float,
) -> list[Span]:
    """Return the spans of cues; those without times get the least time if there is room.

    `last_words_s` are the lengths of their last words.
    """
    lengths_s = [max(cue.end_s - cue.start_s, least) for cue, least in zip(cues, least_s)]
    gaps = _Gaps([span for span in spans if span is not None], duration_s)
    start = 0
    while start < len(cues):
        end = next((at for at in range(start, len(cues)) if spans[at] is not None), len(cues))
        if end > start:
            before, after = (
                spans[start - 1] if start else None,
                spans[end] if end < len(cues) else None,
            )
            gap = gaps.between(before, after)
            if before is not None:
                # the cue before ends earlier where these have no room: within its last word, by
                # half of it
                wanted_s = sum(min(length_s, _TAKEN_S) for length_s in lengths_s[start:end])
                missing_s = max(wanted_s - (gap[1] - gap[0]), 0.0)
                gap = (gap[0] - min(missing_s, _TAKEN_S, last_words_s[start - 1] / 2), gap[1])
                spans[start - 1] = before = (before[0], gap[0])
            neighbours = [
                (cues[index].start_s, span[0] - cues[index].start_s)
                for index, span, is_near in (
                    (start - 1, before, True),
                    (end, after, after and after[0] == gap[1]),
                )
                if span is not None and is_near
            ]
            spans[start:end] = _filled(cues[start:end], lengths_s[start:end], gap, neighbours)
        start = end + 1
    return [span or (0.0, 0.0) for span in spans]


class _Gaps:
    """The stretches of time between the cues that have words."""

    def __init__(self, spans: Sequence[Span], duration_s: float) -> None:
        self._starts = sorted(span[0] for span in spans)
        self._ends = sorted(span[1] for span in spans)
        self._duration_s = duration_s

    def between(self, before: Span | None, after: Span | None) -> Span:
        """Return the stretch after one cue, otherwise before another, otherwise all of it."""
        if before is not None:
            index = bisect_left(self._starts, before[1] - _SLACK_S)
            next_s = self._starts[index] if index < len(self._starts) else self._duration_s
            return before[1], max(next_s, before[1])
        if after is not None:
            index = bisect_right(self._ends, after[0] + _SLACK_S)
            return min(self._ends[index - 1], after[0]) if index else 0.0, after[0]
        return 0.0, self._duration_s


def spoken_words_by_cue(alignment: Alignment) -> list[list[AlignedWord]]:
    """Return the aligned words of each cue; of a cue in two parts, those of the longer one."""
    aligned = [word for word in alignment.words if is_timed(word)]
    starts = [word.char_start for word in aligned]
    by_time = {id(word): index for index, word in enumerate(words_by_time(alignment))}
    positions = [by_time[id(word)] for word in aligned]
    edges = [
        (bisect_left(starts, cue.char_start), bisect_left(starts, cue.char_end))
        for cue in source_subtitles(alignment).cues
    ]
    return [aligned[slice(*_longest_run(positions, first, last))] for first, last in edges]


def _longest_run(ranks: Sequence[int], first: int, last: int) -> tuple[int, int]:
    """Return the first longest stretch of [first, last) in which the ranks increase by one."""
    longest = (first, first)
    start = first
    for at in range(first + 1, last + 1):
        if at == last or ranks[at] != ranks[at - 1] + 1:
            if at - start > longest[1] - longest[0]:
                longest = (start, at)
            start = at
    return longest


def _filled(
    cues: Sequence[SourceCue], lengths_s: Sequence[float], gap: Span, neighbours: Sequence[Span]
) -> list[Span]:
    """Return times in a gap for cues without an aligned word, of a length where there is room.

    `neighbours`: (old start, by how much it was moved).
    """
    low_s, high_s = gap
    fitting = []
    free_s = low_s
    for cue in cues:
        shift_s = _interpolated(neighbours, cue.start_s)
        start_s, end_s = max(cue.start_s + shift_s, free_s), min(cue.end_s + shift_s, high_s)
        fitting.append((start_s, end_s))
        free_s = end_s
    if any(
        end_s - start_s < length_s / 2 for (start_s, end_s), length_s in zip(fitting, lengths_s)
    ):
        scale = min(1.0, max(high_s - low_s, 0.0) / max(sum(lengths_s), _SLACK_S))
        fitting = _in_turn(low_s, [scale * length_s for length_s in lengths_s])
    return fitting


def _in_turn(start_s: float, lengths_s: Iterable[float]) -> list[Span]:
    """Return spans of these lengths, one after the other."""
    edges_s = list(accumulate(lengths_s, initial=start_s))
    return list(pairwise(edges_s))


def _interpolated(anchors: Sequence[tuple[float, float]], at_s: float) -> float:
    """Return by how much a time was moved, by its neighbours; 0 if there are none."""
    if len(anchors) < 2 or anchors[1][0] <= anchors[0][0]:
        if anchors:
            return anchors[0][1]
        return 0.0
    (first_s, first), (last_s, last) = anchors
    share = min(max((at_s - first_s) / (last_s - first_s), 0.0), 1.0)
    return first + share * (last - first)


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
    weights = [max(1, columns(word.text)) for word in words[start:end]]
    is_said = any(word.status != UNSPOKEN for word in words[start:end])
    if is_said and high_s - low_s < _LETTER_S * sum(weights):
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
        weights = [max(1, columns(word.text)) for word in words[start:end]]
    step_s = (high_s - low_s) / sum(weights)
    spans[start:end] = _in_turn(low_s, (weight * step_s for weight in weights))


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
    weights = [max(1, columns(word.text)) for word in words]
    step_s = max(until_s - at_s, 0.0) / sum(weights)
    return _in_turn(at_s, (weight * step_s for weight in weights))


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
    """One subtitle, shown in [start_ms, end_ms): lines of pieces, none of them empty."""

    start_ms: int
    end_ms: int
    pieces: tuple[tuple[TextPiece, ...], ...]

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

    With `keeps_words`, no cue ends within its last word for the sake of `min_gap_s`.
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
        end_ms = max(min(end_ms, start_ms + longest_ms), start_ms + 1)
        earliest_ms = max(start_ms - _LEAD_MS, free + gap_before_ms, end_ms - shortest_ms)
        start_ms = min(start_ms, earliest_ms)
        free = end_ms
        gap_before_ms = gap_ms
        cues.append(Cue(start_ms, end_ms, tuple(row.lines(start, end))))
    return cues


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


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

    `source_lines`: as `new_cues`. Words without times lie between their neighbours. Tags are left
    out.
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
    """Return the times of words in units, ascending and apart, while their cue is shown."""
    free, last = shown
    times = []
    for piece in pieces:
        start = min(max(round((piece.start_s + shift_s) * units_per_s), free), last)
        free = min(max(round((piece.end_s + shift_s) * units_per_s), start), last)
        times.append((start, free))
    return times


def _source_cues(alignment: Alignment, style: Style) -> list[Cue]:
    """Return the cues that have words, by time, with their lines in the transcript."""
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    starts = [cue.char_start for cue in alignment.subtitles.cues]
    if not starts:
        return []
    times = shown_times(alignment, style.shift_s(alignment), style.frame_rate)
    pieces = sorted(
        text_pieces(alignment.words, alignment, style.max_line), key=lambda piece: piece.char_start
    )
    cues = []
    for index, group in groupby(
        pieces, key=lambda piece: max(bisect_right(starts, piece.char_start) - 1, 0)
    ):
        lines: list[list[TextPiece]] = []
        for piece in group:
            if piece.starts_line or not lines:
                lines.append([])
            lines[-1].append(piece)
        cues.append(Cue(*times[index], tuple(map(tuple, lines))))
    return sorted(cues, key=lambda cue: cue.start_ms)
