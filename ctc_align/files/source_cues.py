"""Times of the cues of a subtitle file that is the transcript (`shown_times`), in whole units.

A cue lasts from the start of its first aligned word to the end of its last.

A cue without a word to speak (`[MUSIC]`, or no text) keeps its old times, moved as its neighbours
were, where they fit between them; one that the file shows with its neighbour (a translation) is
shown with it; else it gets the room that is left, at least one frame of a
film (40 ms) of the last word of the cue before it. If passages were read in a different order,
times go back from one cue to the next, and no two of these cues are shown at a time. A cue whose
words are not in the recording (an advertisement, a scene that was cut) has no place in it: it
keeps its old times as they are, whatever is spoken there.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple, TypeVar

from ctc_align.files.writer import Span, apart, is_timed, words_by_time
from ctc_align.types import REPEAT, SKIPPED, AlignedWord, Alignment, SourceCue, Subtitles

Item = TypeVar("Item")
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


def clock(units: int, point: str = ".", units_per_s: int = MS_PER_S, hour_digits: int = 2) -> str:
    """Return a time as hours, minutes, seconds, with a decimal for each zero of `units_per_s`.

    >>> clock(3_661_001, ","), clock(366_101, units_per_s=100, hour_digits=1)
    ('01:01:01,001', '1:01:01.01')
    """
    seconds, rest = divmod(units, units_per_s)
    decimals = len(str(units_per_s)) - 1
    return f"{seconds // 3600:0{hour_digits}d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{point}{rest:0{decimals}d}"


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


class _CueWords(NamedTuple):
    """The words of the cues of a subtitle file.

    Attributes:
        spoken: the aligned words of each cue.
        repeats: the indices of cues that show lines again.
        silent: those of cues with text and no aligned word, but for repeats; True if it has words
            to speak, none of which is in the recording.
        missing: those whose value in `silent` is True, and those that only show their lines again.
    """

    spoken: list[list[AlignedWord]]
    repeats: set[int]
    silent: dict[int, bool]
    missing: set[int]


def _cue_words(alignment: Alignment) -> _CueWords:
    """Return the words of the cues of the transcript."""
    spoken = spoken_words_by_cue(alignment)
    repeats = _cues_of(alignment, (word for word in alignment.words if word.kind == REPEAT))
    skipped = _cues_of(alignment, (word for word in alignment.words if word.status == SKIPPED))
    silent = {
        index: index in skipped
        for index, (cue, words) in enumerate(zip(source_subtitles(alignment).cues, spoken))
        if not words and cue.char_end > cue.char_start and index not in repeats
    }
    missing = {index for index, is_missing in silent.items() if is_missing}
    for index in sorted(repeats):
        if index - 1 in missing and not spoken[index]:
            missing.add(index)
    return _CueWords(spoken, repeats, silent, missing)


def cues_without_times(alignment: Alignment) -> dict[int, bool]:
    """Return the numbers, from 1, of the transcript's cues that have text and no aligned word.

    The value of a missing cue is True: it has words to speak, none of which is in the recording.

    Cues that only show again what was said are none of them.
    """
    if alignment.subtitles is None:
        return {}
    silent = _cue_words(alignment).silent
    return {index + 1: is_missing for index, is_missing in silent.items()}


def missing_and_copies(alignment: Alignment) -> set[int]:
    """Return the indices of missing cues, and of those that only show their lines again."""
    return _cue_words(alignment).missing


def _old_times(cue: SourceCue, shift_ms: int, frame_rate: float) -> tuple[int, int]:
    """Return the times of a cue in its file, in ms, at least 1 ms long."""
    start_ms = round(cue.start_s * MS_PER_S) + shift_ms
    end_ms = max(round(cue.end_s * MS_PER_S) + shift_ms, start_ms + 1)
    return on_frames([(start_ms, end_ms)], end_ms / MS_PER_S + 1.0, frame_rate)[0]


def _cues_of(alignment: Alignment, words: Iterable[AlignedWord]) -> set[int]:
    """Return the indices of the cues that have some words."""
    starts = [cue.char_start for cue in source_subtitles(alignment).cues]
    return {bisect_right(starts, word.char_start) - 1 for word in words}


def source_subtitles(alignment: Alignment) -> Subtitles:
    assert alignment.subtitles is not None, "the transcript is a subtitle file"
    return alignment.subtitles


def shown_times(alignment: Alignment, shift_s: float, frame_rate: float) -> list[tuple[int, int]]:
    """Return the times of all cues in ms: at least 1 ms long, apart, inside the recording.

    They ascend, except for passages that were read in a different order from the file's. A cue that
    the file has twice at the same time has the same new times twice, and so has a cue without a
    word to speak that the file shows with the cue before or after it. Cues whose words are not in
    the recording keep their old times, which may lie over those of others.
    """
    cues = source_subtitles(alignment).cues
    spoken, repeats, silent, missing = _cue_words(alignment)
    copies = [index for index in sorted(repeats - missing) if index and not spoken[index]]
    twins = {
        index: index - 1
        for index in copies
        if 2 * (cues[index - 1].end_s - cues[index].start_s)
        > cues[index].end_s - cues[index].start_s
    }
    twins |= _shown_together(cues, spoken, silent)
    single = [index for index in range(len(cues)) if index not in twins and index not in missing]
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
        [sum(map(_length_s, spoken[index][-1:])) for index in single],
        [0.0 if index in repeats else _LEAST_S for index in single],
        alignment.duration_s,
    )
    shift_ms = round(shift_s * MS_PER_S)
    shifted = [
        (start + shift_ms, end + shift_ms)
        for start, end in apart(filled, alignment.duration_s, MS_PER_S)
    ]
    times = dict(zip(single, on_frames(shifted, alignment.duration_s + shift_s, frame_rate)))
    for index, other in twins.items():
        times[index] = times[other]
    for index in missing:
        times[index] = _old_times(cues[index], shift_ms, frame_rate)
    return [times[index] for index in range(len(cues))]


def _shown_together(
    cues: Sequence[SourceCue], spoken: Sequence[Sequence[AlignedWord]], silent: dict[int, bool]
) -> dict[int, int]:
    """Return which cue with words is shown with each cue that has no word to speak.

    The file shows them at the same time, one after the other, and no other cue with words.
    """
    found: dict[int, int] = {}
    for _, group in groupby(range(len(cues)), key=lambda at: (cues[at].start_s, cues[at].end_s)):
        together = list(group)
        with_words = [index for index in together if spoken[index]]
        if len(with_words) == 1:
            found.update((index, with_words[0]) for index in together if silent.get(index) is False)
    return found


def _length_s(word: AlignedWord) -> float:
    return (word.end_s or 0.0) - (word.start_s or 0.0)


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
    ranks = [by_time[id(word)] for word in aligned]
    edges = [
        (bisect_left(starts, cue.char_start), bisect_left(starts, cue.char_end))
        for cue in source_subtitles(alignment).cues
    ]
    return [longest_run(list(zip(ranks[first:last], aligned[first:last]))) for first, last in edges]


def longest_run(ranked: Sequence[tuple[int, Item]]) -> list[Item]:
    """Return the first longest stretch of items (rank, item) in which the ranks increase by one.

    >>> longest_run([(3, "a"), (7, "b"), (8, "c"), (2, "d")])
    ['b', 'c']
    """
    starts = [at for at in range(1, len(ranked)) if ranked[at][0] != ranked[at - 1][0] + 1]
    runs = [ranked[start:end] for start, end in pairwise([0, *starts, len(ranked)])]
    return [item for _, item in max(runs, key=len)]


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
        fitting = place_in_turn(low_s, [scale * length_s for length_s in lengths_s])
    return fitting


def place_in_turn(start_s: float, lengths_s: Iterable[float]) -> list[Span]:
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
