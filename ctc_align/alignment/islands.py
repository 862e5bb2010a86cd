"""Islands: stretches of a recording and the words that are spoken there, one after the other.

Between two islands there is speech that is not in the transcript, or the transcript continues at a
different place. Inside an island, and at its ends, wildcards take short speech that is not in the
transcript.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.found_words import (
    FoundWords,
    Gaps,
    find_words,
    gaps_of,
    room_frames,
    text_tokens,
)
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.spoken_words import (
    MOST_ROUNDS,
    OTHER_SPEECH_NATS,
    HeardSpeech,
    spoken_words,
)
from ctc_align.alignment.token_search import HeardTokens, greedy_decode
from ctc_align.alignment.undecided_words import (
    Passage,
    find_undecided,
    join_passages,
    with_undecided,
    without_words,
)
from ctc_align.alignment.wildcard import PENALTY, scores_of, soundless
from ctc_align.kernels.batching import StageSteps
from ctc_align.types import WordTokens

LONGEST_S = 600.0
"""Longer islands are cut at pauses: islands of a few minutes take little memory, however long the
recording is."""


@dataclass(frozen=True)
class Island:
    """Words that follow each other in the transcript and in the recording.

    Attributes:
        words: (N,) indices in the transcript, ascending.
        first_frame, last_frame: the frames in which to align them, the last exclusive.
        wildcards: (N + 1,) bool, whether other speech may stand before each of the words, and after
            the last.
    """

    words: np.ndarray
    first_frame: int
    last_frame: int
    wildcards: np.ndarray


def find_islands(
    inputs: UtteranceInputs, word_tokens: Sequence[WordTokens]
) -> StageSteps[list[Island] | None]:
    """Return the islands of a recording by time: none if no word is found.

    Return None if exactly the transcript is spoken, so that nothing need be cut.
    """
    emissions = inputs.emissions
    heard = greedy_decode(emissions.array, emissions.blank, soundless(emissions))
    found = find_words(
        text_tokens(inputs.words, word_tokens), word_tokens, heard, emissions.frame_shift_s
    )
    in_time = found.in_time()
    if not len(in_time):
        return []
    blank = emissions.array[:, emissions.blank]
    speech = HeardSpeech(
        emissions.array,
        np.maximum(blank, scores_of(emissions) - (OTHER_SPEECH_NATS - PENALTY)),
        emissions.blank,
        inputs.tokenizer.separator,
        [word_tokens[word] for word in found.words.tolist()],
        emissions.frame_shift_s,
        inputs.backend,
    )
    optional = [np.arange(passage.first, passage.last) for passage in inputs.words.optional]
    fixed = np.isin(found.words, np.concatenate([np.zeros(0, np.int64), *optional]))
    gaps = gaps_of(found, heard, in_time, emissions.frame_shift_s)
    for _ in range(MOST_ROUNDS):
        found, more = yield from spoken_words(
            speech, found, heard, gaps, fixed, inputs.settings.match == "loose"
        )
        in_time = found.in_time()
        gaps = gaps_of(found, heard, in_time, emissions.frame_shift_s)
        if not more:
            break
    passages = yield from find_undecided(speech, found, gaps, fixed, len(heard))
    if passages:
        found = with_undecided(found, passages)
        in_time = found.in_time()
        gaps = _gaps_with_passages(found, heard, passages, emissions.frame_shift_s)
    if not gaps.cuts.any() and not gaps.foreign.any() and _are_all_spoken(inputs, found, in_time):
        return None
    with_labels = _have_labels(found, in_time, gaps)
    if not with_labels.all():
        found = without_words(found, in_time[~with_labels])
        in_time = found.in_time()
        gaps = _gaps_with_passages(found, heard, passages, emissions.frame_shift_s)
    islands = islands_of(found, heard, in_time, gaps, emissions.frame_shift_s)
    unknown = np.array(
        [bool(own.missing) and not own.pronunciations for own in word_tokens], np.bool_
    )
    if unknown.any():
        return list(_extend_over_unknown(islands, unknown))
    return islands


def _gaps_with_passages(
    found: FoundWords, heard: HeardTokens, passages: Sequence[Passage], frame_shift_s: float
) -> Gaps:
    """Return the gaps between found words, with none inside a passage."""
    gaps = gaps_of(found, heard, found.in_time(), frame_shift_s)
    return join_passages(gaps, found, passages)


def _extend_over_unknown(islands: Sequence[Island], unknown: np.ndarray) -> Iterator[Island]:
    """Yield islands extended by adjacent words that consist of unknown letters only.

    A word between two islands belongs to the one that comes first.
    """
    free = unknown.copy()
    for island in islands:
        words: list[int] = []
        wildcards: list[bool] = []
        for word, wildcard in zip(island.words.tolist(), island.wildcards.tolist()):
            first = word
            while first and free[first - 1] and (not words or first - 1 > words[-1]):
                first -= 1
            wildcards += [wildcard, *[False] * (word - first)]
            words += range(first, word + 1)
        end = words[-1] + 1
        while end < len(free) and free[end]:
            words.append(end)
            wildcards.append(False)
            end += 1
        free[words] = False
        yield replace(
            island, words=np.array(words), wildcards=np.array([*wildcards, island.wildcards[-1]])
        )


def _are_all_spoken(inputs: UtteranceInputs, found: FoundWords, spoken: np.ndarray) -> bool:
    """Return whether all words but those of optional passages are spoken.

    `leave_out_unspoken` decides on these.
    """
    absent = np.setdiff1d(found.words, found.words[spoken])
    optional = [np.arange(passage.first, passage.last) for passage in inputs.words.optional]
    return not len(absent) or (
        bool(optional) and bool(np.isin(absent, np.concatenate(optional)).all())
    )


def _have_labels(found: FoundWords, in_time: np.ndarray, gaps: Gaps) -> np.ndarray:
    """Return which words (N,) are in islands with a label: the others cannot be placed."""
    island = np.cumsum(gaps.cuts[:-1])
    return np.isin(island, island[found.last[in_time] >= found.first[in_time]])


def islands_of(
    found: FoundWords, heard: HeardTokens, in_time: np.ndarray, gaps: Gaps, frame_shift_s: float
) -> list[Island]:
    """Return the islands of words by time.

    `in_time` (N,) are the indices of spoken words, `gaps` those between them.
    """
    count = len(in_time)
    frames = len(heard.log_probs)
    cuts = gaps.cuts.copy()
    cuts[[0, count]] = True
    cuts[_choose_cuts(gaps, cuts, frame_shift_s)] = True
    begins = np.zeros(count + 1, np.int64)
    ends = np.full(count + 1, frames)
    places = np.flatnonzero(cuts).tolist()
    for place in places:
        ends[place], begins[place] = _edges(gaps, place, heard.frames, frames, frame_shift_s)
    return [
        Island(
            found.words[in_time[first:last]],
            int(begins[first]),
            int(ends[last]),
            gaps.foreign[first : last + 1].copy(),
        )
        for first, last in pairwise(places)
    ]


def _choose_cuts(gaps: Gaps, cuts: np.ndarray, frame_shift_s: float) -> list[int]:
    """Return the gaps at which long islands are cut: the longest pauses within reach."""
    most = units.seconds_to_frames(LONGEST_S, frame_shift_s)
    pause = np.where((gaps.unheard.sum(1) == 0) & ~gaps.foreign, gaps.after - gaps.before, 0)
    found = []
    for first, last in pairwise(np.flatnonzero(cuts).tolist()):
        while gaps.before[last] - gaps.after[first] > most:
            near = (
                first
                + 1
                + np.flatnonzero(gaps.before[first + 1 : last] - gaps.after[first] <= most)
            )
            near = near[len(near) // 2 :]
            if not len(near) or not pause[near].any():
                break
            first = int(near[np.argmax(pause[near])])
            found.append(first)
    return found


def _edges(
    gaps: Gaps, place: int, label_frames: np.ndarray, frames: int, frame_shift_s: float
) -> tuple[int, int]:
    """Return where the island before a gap ends, and where the one after it begins."""
    before = int(gaps.before[place])
    after = int(gaps.after[place])
    foreign = bool(gaps.foreign[place])
    if not foreign and before < 0:
        return 0, 0
    if not foreign and after >= frames:
        return frames, frames
    behind, ahead = (room_frames(tokens, frame_shift_s) for tokens in gaps.unheard[place])
    end = min(before + 1 + behind, after)
    begin = max(after - ahead, before + 1)
    if foreign and end <= begin:
        return end, begin
    inside = label_frames[(label_frames >= before) & (label_frames <= after)]
    marks = np.unique(np.concatenate(([before], inside, [after])))
    if len(marks) > 1:
        widest = int(np.argmax(np.diff(marks)))
    else:
        widest = 0
    cut = int(marks[widest] + marks[min(widest + 1, len(marks) - 1)] + 1) // 2
    return cut, cut
