"""Times for all words of subtitles that are cut anew: those without any lie beside their neighbours, or in a pause.

What nobody says takes no time from a word, and stretches no subtitle over a pause: it is shown with the words of its
line, and one that stands on lines of its own (`[DOOR SLAMS]`) alone, in the pause in which it is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.formats.cue_times import MS_PER_S, Span
from ctc_align.formats.line_breaking import SENTENCE, break_cost, columns
from ctc_align.formats.sentences import space_between
from ctc_align.formats.source_cues import cues_without_times, shown_times
from ctc_align.formats.time_order import is_timed
from ctc_align.types import UNSPOKEN, AlignedWord, AlignmentData

SHORTEST_S = 0.8
"""The least time for which a subtitle is shown where the speech allows it; a shorter pause holds none of its own."""
_LETTER_S = 0.05
"""Words without times are placed in a gap that has this much time for each of their letters."""
_LATER_S = 1.0
"""A direction on lines of its own is shown at most this much after the words before it."""


@dataclass(frozen=True)
class WordPlace:
    """The time of a word in seconds; `is_alone`: nobody says it, and it is a subtitle with such words only."""

    start_s: float
    end_s: float
    is_alone: bool = False


def word_places(alignment: AlignmentData, words: Sequence[AlignedWord]) -> list[WordPlace]:
    """Return places for words in the order of their times, ascending."""
    spans: list[Span | None] = [(word.start_s or 0.0, word.end_s or 0.0) if is_timed(word) else None for word in words]
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
            for at, place in enumerate(_unspoken_places(alignment, words, spans, (start, end)), start):
                spans[at], alone[at] = (place.start_s, place.end_s), place.is_alone
        start = end
    return [WordPlace(*(span or (0.0, 0.0)), is_alone) for span, is_alone in zip(spans, alone)]


def _fill(
    spans: list[Span | None],
    words: Sequence[AlignedWord],
    run: tuple[int, int],
    duration_s: float,
) -> None:
    """Give the words [start, end), which have no times, the gap between their neighbours, by their letters.

    Where it is too short for words that may be spoken they share a neighbour's time; what nobody says never does.
    """
    start, end = run
    low_s, high_s = _gap(spans, run, duration_s)
    weights = [max(1, columns(word.text)) for word in words[start:end]]
    is_said = any(word.status != UNSPOKEN for word in words[start:end])
    if is_said and high_s - low_s < _LETTER_S * sum(weights):
        # no room: they share the time of the word before, or of the word after them where there is none
        before, after = spans[start - 1] if start else None, spans[end] if end < len(words) else None
        if before is not None:
            start, low_s = start - 1, before[0]
        elif after is not None:
            end, high_s = end + 1, after[1]
        weights = [max(1, columns(word.text)) for word in words[start:end]]
    at_s, step_s = low_s, (high_s - low_s) / sum(weights)
    for place, weight in zip(range(start, end), weights):
        spans[place] = (at_s, at_s + weight * step_s)
        at_s += weight * step_s


def _gap(spans: Sequence[Span | None], run: tuple[int, int], duration_s: float) -> Span:
    """Return the time between the words on both sides of [start, end), which is empty where these overlap."""
    before = spans[run[0] - 1] if run[0] else (0.0, 0.0)
    after = spans[run[1]] if run[1] < len(spans) else (duration_s, duration_s)
    assert before is not None, "runs are filled from the first to the last"
    assert after is not None, "a run ends where a word has times"
    return before[1], max(after[0], before[1])


def _unspoken_places(
    alignment: AlignmentData, words: Sequence[AlignedWord], spans: Sequence[Span | None], run: tuple[int, int]
) -> list[WordPlace]:
    """Return places for the words [start, end), which nobody says and which have words with times beside them."""
    start, end = run
    low_s, high_s = _gap(spans, run, alignment.duration_s)
    # the first word of the run that does not stand on the line before it, the last that does not on that after it
    first = next((at for at in range(start, end) if _ends_line(alignment, words, at)), end)
    last = next((at for at in range(end, start, -1) if _ends_line(alignment, words, at)), start)
    if first > last:  # all on one line: with the words before it, unless these end a sentence
        text, before = alignment.text, words[start - 1]
        after = space_between(text, before, words[start])
        is_end = break_cost(before.text, after, words[end].text) == SENTENCE
        first = last = start if is_end else end
    shown = _alone(alignment, words[first:last], (low_s, high_s), start > 0, end < len(words))
    if not shown:  # no room: with the words before, or else after them
        first = last = last if start else first
    return [
        *[WordPlace(low_s, low_s)] * (first - start),
        *shown,
        *[WordPlace(high_s, high_s)] * (end - last),
    ]


def _ends_line(alignment: AlignmentData, words: Sequence[AlignedWord], at: int) -> bool:
    """Return whether a line, or what one speaker says, ends between a word and the one before it; so it does at both
    ends of the text."""
    if at in (0, len(words)):
        return True
    before, word = words[at - 1], words[at]
    return before.speaker != word.speaker or "\n" in space_between(alignment.text, before, word)


def _alone(
    alignment: AlignmentData, words: Sequence[AlignedWord], gap: Span, has_before: bool, has_after: bool
) -> list[WordPlace]:
    """Return places in a gap for words that stand on lines of their own; [] where it is too short for a subtitle.

    That of the transcript's own subtitle, moved as its neighbours are; else a second after the words before, in the
    middle of a short gap, or before the first word of all.
    """
    low_s, high_s = gap
    if not words or high_s - low_s < SHORTEST_S:
        return []
    own = _own_span(alignment, words)
    if own is not None:
        at_s, until_s = max(own[0], low_s), min(own[1], high_s)
    else:
        length_s = min(high_s - low_s, max(SHORTEST_S, _LETTER_S * sum(columns(word.text) + 1 for word in words)))
        room_s = high_s - low_s - length_s
        at_s = low_s + (min(_LATER_S, room_s / 2 if has_after else room_s) if has_before else room_s)
        until_s = at_s + length_s
    weights = [max(1, columns(word.text)) for word in words]
    step_s = max(until_s - at_s, 0.0) / sum(weights)
    places = []
    for weight in weights:
        places.append(WordPlace(at_s, at_s + weight * step_s, is_alone=True))
        at_s += weight * step_s
    return places


def _own_span(alignment: AlignmentData, words: Sequence[AlignedWord]) -> Span | None:
    """Return when the transcript's own subtitles of words that nobody says are shown; None where there are none."""
    if alignment.subtitles is None:
        return None
    starts = [cue.char_start for cue in alignment.subtitles.cues]
    first, last = (bisect_right(starts, word.char_start) for word in (words[0], words[-1]))
    if {first, last} - {*cues_without_times(alignment)}:
        return None
    times = shown_times(alignment, 0.0, 0.0)
    return times[first - 1][0] / MS_PER_S, times[last - 1][1] / MS_PER_S
