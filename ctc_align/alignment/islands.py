"""Islands: stretches of a recording and the words that are spoken there, one after the other.

Between two islands there is speech that is not in the transcript, or the transcript continues at a
different place. Inside an island, and at its ends, wildcards take short speech that is not in the
transcript.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import runs_of
from ctc_align.alignment.found_words import (
    FEWEST_TOKENS,
    FoundWords,
    Gaps,
    find_words,
    gaps_of,
    room_frames,
    text_tokens,
)
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.alignment.presence import Stretch, is_contradicted
from ctc_align.alignment.spoken_words import (
    MOST_ROUNDS,
    OTHER_SPEECH_NATS,
    HeardSpeech,
    spoken_words,
)
from ctc_align.alignment.token_search import JUMP_NATS, HeardTokens, greedy_decode
from ctc_align.alignment.wildcard import PENALTY, scores_of, soundless
from ctc_align.kernels.batching import StageSteps
from ctc_align.types import WordTokens

LONGEST_S = 600.0
"""Longer islands are cut at pauses: islands of a few minutes take little memory, however long the
recording is."""
SHORTEST_TOKEN_S = 0.045
"""Tokens that are shorter on average cannot be spoken (a phone of fast speech lasts 60 ms)."""
AROUND = 2
"""The words on either side with which a sure word is known not to be found by chance."""
MOST_CELLS = 5 * 10**7
"""Longer runs that were not found are not looked at again."""


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
    """Return the islands of a recording by time.

    None if exactly the transcript is spoken, or if no word is found.
    """
    emissions = inputs.emissions
    heard = greedy_decode(emissions.array, emissions.blank, soundless(emissions))
    found = find_words(
        text_tokens(inputs.words, word_tokens), word_tokens, heard, emissions.frame_shift_s
    )
    in_time = found.in_time()
    if not len(in_time):
        return None
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
    more = True
    for _ in range(MOST_ROUNDS):
        found, more = yield from spoken_words(
            speech, found, heard, gaps, fixed, inputs.settings.match == "loose"
        )
        in_time = found.in_time()
        gaps = gaps_of(found, heard, in_time, emissions.frame_shift_s)
        if not more:
            break
    passages = yield from _find_undecided(speech, found, gaps, fixed, len(heard))
    if passages:
        found = _with_undecided(found, passages)
        in_time = found.in_time()
        gaps = _join_passages(
            gaps_of(found, heard, in_time, emissions.frame_shift_s), found, passages
        )
    if not gaps.cuts.any() and not gaps.foreign.any() and _are_all_spoken(inputs, found, in_time):
        return None
    with_labels = _have_labels(found, in_time, gaps)
    if not with_labels.all():
        found = _without_words(found, in_time[~with_labels])
        in_time = found.in_time()
        gaps = _join_passages(
            gaps_of(found, heard, in_time, emissions.frame_shift_s), found, passages
        )
    islands = islands_of(found, heard, in_time, gaps, emissions.frame_shift_s)
    unknown = np.array(
        [bool(own.missing) and not own.pronunciations for own in word_tokens], np.bool_
    )
    if unknown.any():
        return [_extend_over_unknown(island, unknown) for island in islands]
    return islands


@dataclass(frozen=True)
class _Passage:
    """A passage between two words that are surely in their places, or the ends.

    Attributes:
        first, last: its words, the last exclusive (indices into K).
        first_frame, last_frame: where it is, the last exclusive.
        spoken: (N,) its words that were found, or that the sound does not contradict.
    """

    first: int
    last: int
    first_frame: int
    last_frame: int
    spoken: np.ndarray


def _find_undecided(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps, fixed: np.ndarray, labels: int
) -> StageSteps[list[_Passage]]:
    """Return passages with words that were not found, and that the sound does not contradict.

    Long runs of words that were not found are judged between the words around them: where these
    were found may be wrong, too.
    """
    passages = []
    for passage in _divide_at_anchors(speech, found, gaps, labels):
        kept = found.found[passage.first : passage.last].copy()
        for first, last in runs_of(~kept & ~fixed[passage.first : passage.last]):
            stretch = _stretch_of_run(speech, found, passage, first, last)
            if stretch is None:
                continue
            contradicted = yield from is_contradicted(
                speech.log_probs, speech.blank, [stretch], speech.backend
            )
            kept[first:last] = not contradicted
        spoken = passage.first + np.flatnonzero(kept)
        if not found.found[spoken].all():
            passages.append(replace(passage, spoken=spoken))
    return passages


def _divide_at_anchors(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps, labels: int
) -> Iterator[_Passage]:
    """Yield the passages between the anchors in which words were not found."""
    anchors = [-1, *_choose_anchors(found, labels), len(found.words)]
    for before, after in pairwise(anchors):
        if found.found[before + 1 : after].all():
            continue
        rank = int(found.order[before]) if before >= 0 else -1
        next_rank = int(found.order[after]) if after < len(found.words) else len(gaps.cuts) - 1
        begin = int(gaps.before[rank + 1]) + 1
        end = int(gaps.after[next_rank])
        yield _Passage(before + 1, after, begin, end, np.zeros(0, np.int64))


def _stretch_of_run(
    speech: HeardSpeech, found: FoundWords, passage: _Passage, first: int, last: int
) -> Stretch | None:
    """Return the stretch in which to judge words `first` to `last`, exclusive, of a passage.

    None if they are few, if there is no time for them, or if the passage is too long.
    """
    if found.lengths[passage.first + first : passage.first + last].sum() < FEWEST_TOKENS:
        return None
    ids = speech.spell(range(passage.first, passage.last))
    before = len(speech.spell(range(passage.first, passage.first + first)))
    until = len(speech.spell(range(passage.first, passage.first + last)))
    frames = passage.last_frame - passage.first_frame
    shortest = units.seconds_to_frames(SHORTEST_TOKEN_S * len(ids), speech.frame_shift_s)
    if frames < shortest or 2 * len(ids) * frames > MOST_CELLS:
        return None
    return Stretch(ids, passage.first_frame, passage.last_frame, before, until)


def _choose_anchors(found: FoundWords, labels: int) -> list[int]:
    """Return sure words that ascend both in the text and in time, as many as possible.

    The words around each pay for a jump to them, so that they are hardly found by chance.
    """
    in_time = found.in_time()
    run = np.cumsum(np.diff(in_time, prepend=-2) != 1)
    sums = np.append(0.0, np.cumsum(found.score[in_time]))
    ranks = np.arange(len(run))
    first = np.maximum(np.searchsorted(run, run), ranks - AROUND)
    last = np.minimum(np.searchsorted(run, run, "right"), ranks + AROUND + 1)
    paid = sums[last] - sums[first] > JUMP_NATS + np.log(max(found.lengths.sum() * labels, 1))
    ends: list[int] = []
    lasts: list[int] = []
    before: dict[int, int] = {}
    for word in in_time[found.sure[in_time] & paid].tolist():
        place = bisect_left(ends, word)
        if place:
            before[word] = lasts[place - 1]
        ends[place : place + 1] = [word]
        lasts[place : place + 1] = [word]
    chain = ends[-1:]
    while chain and chain[-1] in before:
        chain.append(before[chain[-1]])
    return chain[::-1]


def _with_undecided(found: FoundWords, passages: Sequence[_Passage]) -> FoundWords:
    """Return found words with the spoken ones of some passages, without labels, and nothing else
    there."""
    ranks = found.order.astype(np.float64)
    first, last = found.first.copy(), found.last.copy()
    for passage in passages:
        own = passage.spoken
        low = ranks[passage.first - 1] if passage.first else -1.0
        high = ranks[passage.last] if passage.last < len(ranks) else np.inf
        ranks[(ranks > low) & (ranks < high)] = -1.0
        ranks[own] = low + 0.5
        last[own] = last[passage.first - 1] if passage.first else -1
        first[own] = last[own] + 1
    order = np.full(len(ranks), -1, np.int64)
    chosen = np.flatnonzero(ranks > -1.0)
    order[chosen[np.argsort(ranks[chosen], kind="stable")]] = np.arange(len(chosen))
    return replace(found, order=order, first=first, last=last)


def _without_words(found: FoundWords, words: np.ndarray) -> FoundWords:
    """Return found words without some, indices into K."""
    order = found.order.copy()
    order[words] = -1
    chosen = np.flatnonzero(order >= 0)
    order[chosen[np.argsort(order[chosen])]] = np.arange(len(chosen))
    return replace(found, order=order)


def _join_passages(gaps: Gaps, found: FoundWords, passages: Sequence[_Passage]) -> Gaps:
    """Return gaps of which none inside a passage is a cut.

    Other speech is only where words of the passage are left out.
    """
    foreign, cuts = gaps.foreign.copy(), gaps.cuts.copy()
    beside = np.concatenate(([-1], found.in_time(), [len(found.words)]))
    follows = np.diff(beside) == 1
    for passage in passages:
        ranks = found.order[passage.spoken]
        ranks = ranks[ranks >= 0]
        if len(ranks):
            inside = np.arange(ranks.min(), ranks.max() + 2)
            foreign[inside] &= ~follows[inside]
            cuts[inside] = False
    return replace(gaps, foreign=foreign, cuts=cuts)


def _extend_over_unknown(island: Island, unknown: np.ndarray) -> Island:
    """Return an island extended by adjacent words that consist of unknown letters only."""
    words: list[int] = []
    wildcards: list[bool] = []
    for word, wildcard in zip(island.words.tolist(), island.wildcards.tolist()):
        first = word
        while first and unknown[first - 1] and (not words or first - 1 > words[-1]):
            first -= 1
        wildcards += [wildcard, *[False] * (word - first)]
        words += range(first, word + 1)
    end = words[-1] + 1
    while end < len(unknown) and unknown[end]:
        words.append(end)
        wildcards.append(False)
        end += 1
    return replace(
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
