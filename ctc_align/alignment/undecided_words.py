"""Words that a search has not found, and that the sound does not contradict: they are kept.

In sound that is hard to hear, a search finds few words of a right text. What it has not found, it
has not refuted: long runs of such words are judged between words that are surely in their places
(`ctc_align.alignment.presence`), and kept unless the sound contradicts them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.ctc_path import runs_of
from ctc_align.alignment.fit import SHORTEST_TOKEN_S
from ctc_align.alignment.found_words import FoundWords, Gaps
from ctc_align.alignment.presence import TextStretch, is_contradicted
from ctc_align.alignment.spoken_words import HeardSpeech
from ctc_align.alignment.token_search import JUMP_NATS, PASSAGE_TOKENS
from ctc_align.kernels.batching import StageSteps

AROUND = 2
"""The words on either side with which a sure word is known not to be found by chance."""
MOST_CELLS = 5 * 10**7
"""In passages with more frames times states, words that were not found stay so."""


@dataclass(frozen=True)
class _Span:
    """The words between two that are surely in their places, or the ends.

    Attributes:
        first, last: the words, the last exclusive (indices into K).
        first_frame, last_frame: where they are, the last exclusive.
    """

    first: int
    last: int
    first_frame: int
    last_frame: int


@dataclass(frozen=True)
class Passage:
    """Words `first` to `last`, exclusive, with some that were not found and are kept.

    Attributes:
        first, last: indices into K.
        spoken: (N,) those that were found there, or that the sound does not contradict.
    """

    first: int
    last: int
    spoken: np.ndarray


def find_undecided(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps, fixed: np.ndarray, labels: int
) -> StageSteps[list[Passage]]:
    """Return passages with words that were not found, and that the sound does not contradict.

    Long runs of words that were not found are judged between the words around them: where these
    were found may be wrong, too.
    """
    passages = []
    for span in _divide_at_anchors(speech, found, gaps, labels):
        kept = _is_inside(found, span)
        ids = speech.spell(range(span.first, span.last))
        for first, last in _find_runs(found, fixed, span):
            stretch = _stretch_of_run(speech, found, span, ids, first, last)
            if stretch is None:
                continue
            contradicted = yield from is_contradicted(
                speech.log_probs, speech.blank, [stretch], speech.backend, is_searched=True
            )
            if not contradicted:
                kept[first:last] |= ~fixed[span.first + first : span.first + last]
        spoken = span.first + np.flatnonzero(kept)
        if not found.found[spoken].all():
            passages.append(Passage(span.first, span.last, spoken))
    return passages


def _find_runs(found: FoundWords, fixed: np.ndarray, span: _Span) -> Iterator[tuple[int, int]]:
    """Yield runs [first, last) of words of a span, between sure ones.

    Each goes from the first to the last word that was not found, if these are many.
    """
    own = slice(span.first, span.last)
    missing = ~found.found[own] & ~fixed[own]
    for first, last in runs_of(~found.sure[own]):
        places = first + np.flatnonzero(missing[first:last])
        if found.lengths[span.first + places].sum() >= PASSAGE_TOKENS:
            yield int(places[0]), int(places[-1]) + 1


def _is_inside(found: FoundWords, span: _Span) -> np.ndarray:
    """Return which words of a span were found between its ends, and not elsewhere."""
    ranks = found.order[span.first : span.last]
    low = found.order[span.first - 1] if span.first else -1
    high = found.order[span.last] if span.last < len(found.order) else len(found.order)
    return (ranks > low) & (ranks < high)


def _divide_at_anchors(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps, labels: int
) -> Iterator[_Span]:
    """Yield the spans between the anchors in which words were not found."""
    anchors = [-1, *_choose_anchors(found, labels), len(found.words)]
    for before, after in pairwise(anchors):
        if found.found[before + 1 : after].all():
            continue
        rank = int(found.order[before]) if before >= 0 else -1
        next_rank = int(found.order[after]) if after < len(found.words) else len(gaps.cuts) - 1
        begin = int(gaps.before[rank + 1]) + 1
        end = int(gaps.after[next_rank])
        yield _Span(before + 1, after, begin, end)


def _stretch_of_run(
    speech: HeardSpeech, found: FoundWords, span: _Span, ids: np.ndarray, first: int, last: int
) -> TextStretch | None:
    """Return the stretch in which to judge words `first` to `last`, exclusive, of a span.

    `ids` are the tokens of the span. None if there is no time for them, or if the span is too long.
    """
    between = 0 if speech.separator is None else 1
    bounds = np.cumsum(found.lengths[span.first : span.last] + between)
    begin = int(bounds[first - 1]) if first else 0
    end = int(bounds[last - 1]) - between
    frames = span.last_frame - span.first_frame
    shortest = units.seconds_to_frames(SHORTEST_TOKEN_S * len(ids), speech.frame_shift_s)
    if frames < shortest or 2 * len(ids) * frames > MOST_CELLS:
        return None
    return TextStretch(ids, span.first_frame, span.last_frame, begin, end)


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
    return _longest_ascending(in_time[found.sure[in_time] & paid].tolist())


def _longest_ascending(words: Sequence[int]) -> list[int]:
    """Return the longest ascending subsequence of different numbers, by patience sorting.

    >>> _longest_ascending([3, 0, 4, 1, 2])
    [0, 1, 2]
    """
    ends: list[int] = []
    before: dict[int, int] = {}
    for word in words:
        place = bisect_left(ends, word)
        if place:
            before[word] = ends[place - 1]
        ends[place : place + 1] = [word]
    chain = ends[-1:]
    while chain and chain[-1] in before:
        chain.append(before[chain[-1]])
    return chain[::-1]


def with_undecided(found: FoundWords, passages: Sequence[Passage]) -> FoundWords:
    """Return found words with the spoken ones of some passages.

    These are without labels, and nothing else is there.
    """
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
    return replace(found, order=_rank(ranks), first=first, last=last)


def without_words(found: FoundWords, words: np.ndarray) -> FoundWords:
    """Return found words without some, indices into K."""
    order = found.order.copy()
    order[words] = -1
    return replace(found, order=_rank(order))


def _rank(places: np.ndarray) -> np.ndarray:
    """Return (K,) the ranks of places, from 0; -1 where a place is. Of equal ones the first leads.

    >>> _rank(np.array([5.0, -1.0, 2.5, 2.5])).tolist()
    [2, -1, 0, 1]
    """
    ranks = np.full(len(places), -1, np.int64)
    chosen = np.flatnonzero(places > -1)
    ranks[chosen[np.argsort(places[chosen], kind="stable")]] = np.arange(len(chosen))
    return ranks


def join_passages(gaps: Gaps, found: FoundWords, passages: Sequence[Passage]) -> Gaps:
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
