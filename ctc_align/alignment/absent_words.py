"""Words that a search has found and that are not in the recording: single ones, and those where a passage ends.

A word is absent where its tokens, between the words around it, are so much less likely than nothing in their place or
other speech that no pronunciation and no noise explains it: log-likelihoods over all CTC paths decide, over the frames
from the word before it to the word after it. In a transcript that is exact, words that are hardly heard must stay;
where others are surely absent, less is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from ctc_align import lattice, units
from ctc_align.alignment.found_words import SURE_NATS, SURE_SCORE, FoundWords
from ctc_align.alignment.word_gaps import Gaps, room_frames
from ctc_align.kernels.requests import CtcTargets, Forward, Steps
from ctc_align.types import WordTokens

ABSENT_NATS, ABSENT_SCORE, ABSENT_LABEL = 4.5, 8.5, 2.0
"""A word is surely absent where it is less likely than nothing in its place by so many nats: for each of its tokens, in
all, and for each label that is heard there. The English model, development speakers: none of 19,400 words that are
spoken."""
DOUBTFUL_NATS = 4.5
"""The same for each token where the transcript is known not to be exact: 5 of 1,000 words that are spoken, 95 of 100
single words that are not, 70 of 100 that stand for another word."""
ABSENT_UNHEARD, DOUBTFUL_UNHEARD = 1.15, 1.1
"""Both are at least so many times what a token costs that is spoken and not heard: some models are surer of all."""
INEXACT_SHARE = 0.005
"""A transcript is not exact where more than this share of its words is surely absent."""
MOST_LABELS = 4
"""More labels in the place of a word count no more."""
CONTEXT_S = 0.03
"""So much before the first label of the words, and after the last, goes with them."""
SHORT_FRAME_S = 0.0125
"""With frames so short other speech may take one between any two words; with longer ones, or separators between words,
there may be none left, and it is optional."""
LONGEST_RUN, RUNS_AT_ONCE = 12, 256
"""Words of a run, and runs, that are looked at together."""


@dataclass(frozen=True)
class HeardSpeech:
    """The speech in which absent words are looked for.

    Attributes:
        log_probs: (T, C).
        wildcard: (T,) the score of other speech.
        blank, separator: classes; the separator None for none.
        word_tokens: of every word of the transcript.
        frame_shift_s: of the frames.
        backend: of the kernels.
    """

    log_probs: torch.Tensor
    wildcard: torch.Tensor
    blank: int
    separator: int | None
    word_tokens: Sequence[WordTokens]
    frame_shift_s: float
    backend: str

    def likelihood(self, words: Sequence[tuple[int, int]], run: _Run) -> Forward:
        """Return the request for the likelihood of words (place, pronunciation), other speech where it may be."""
        ids: list[int] = [lattice.WILDCARD]
        for number, (word, way) in enumerate(words):
            if number and self.separator is not None:
                ids.append(self.separator)
            ids += self.word_tokens[word].pronunciations[way].ids
            ids.append(lattice.WILDCARD)
        frames = slice(run.first_frame, run.last_frame)
        paths: CtcTargets | lattice.Topology = CtcTargets(ids, self.blank)
        if self.separator is not None or self.frame_shift_s > SHORT_FRAME_S:
            row = np.array(ids, np.int64)
            paths = lattice.ctc([row], self.blank, [row == lattice.WILDCARD])
        return Forward(self.log_probs[frames], paths, self.wildcard[frames], self.backend)


@dataclass
class _Run:
    """Words in a row that may be absent, by their places in the order of time.

    Attributes:
        places: of the words, those around them included.
        doubtful: which of them may be absent.
        first_frame, last_frame: where they are.
    """

    places: list[int]
    doubtful: list[int]
    first_frame: int
    last_frame: int


def present_words(speech: HeardSpeech, found: FoundWords, gaps: Gaps, *, loose: bool = False) -> Steps[np.ndarray]:
    """Return which of the words in the order of time (N,) are in the recording.

    Args:
        speech: of the recording.
        found: the words.
        gaps: between them.
        loose: the transcript is known not to be exact.
    """
    in_time = found.in_time()
    present, surely = np.ones(len(in_time), np.bool_), np.zeros(len(in_time), np.bool_)
    labels = np.minimum(_labels_in_place(found, in_time), MOST_LABELS)
    surely_nats = max(ABSENT_NATS, ABSENT_UNHEARD * found.unheard_nats) * found.lengths[in_time]
    surely_nats += ABSENT_SCORE + ABSENT_LABEL * labels
    for runs in _chunks(_runs(found, in_time, gaps, speech)):
        absent = yield from _absent_in(speech, found, in_time, runs)
        for place, gain in absent.items():
            present[place], surely[place] = False, gain > surely_nats[place]
    return present if loose or surely.sum() > INEXACT_SHARE * len(in_time) else ~surely


def _chunks(runs: Iterator[_Run]) -> Iterator[list[_Run]]:
    """Yield lists of runs: so many are looked at together, for the paths of each take memory."""
    while chunk := list(islice(runs, RUNS_AT_ONCE)):
        yield chunk


def _absent_in(
    speech: HeardSpeech, found: FoundWords, in_time: np.ndarray, runs: list[_Run]
) -> Steps[dict[int, float]]:
    """Return the words of runs that are hardly there, and by how many nats nothing in their place is likelier.

    Of each run the least likely word is taken out, then of the rest, as long as there is one.
    """
    words = found.words[in_time]
    nats = max(DOUBTFUL_NATS, DOUBTFUL_UNHEARD * found.unheard_nats)
    absent: dict[int, float] = {}
    ways = yield from _best_ways(speech, words, runs)
    while runs:
        scores = yield [
            speech.likelihood([(int(words[p]), ways.get(p, 0)) for p in run.places if p != left_out], run)
            for run in runs
            for left_out in (-1, *run.doubtful)
        ]
        shrunk, of_run = [], iter(scores)
        for run in runs:
            whole = next(of_run)
            gain = np.array([next(of_run) - whole for _ in run.doubtful])
            count = found.lengths[in_time[run.doubtful]]
            worst = int(np.argmax(gain / count))
            # Without a path for all of them there is too little time to tell.
            if whole == float("-inf") or not gain[worst] > nats * count[worst]:
                continue
            place = run.doubtful.pop(worst)
            run.places.remove(place)
            absent[place] = float(gain[worst])
            if run.doubtful:
                shrunk.append(run)
        runs = shrunk
    return absent


def _labels_in_place(found: FoundWords, in_time: np.ndarray) -> np.ndarray:
    """Return how many labels are heard between the words on either side that have labels, at each word (N,)."""
    has_labels = found.last[in_time] >= found.first[in_time]
    places = np.arange(len(in_time))
    before = np.maximum.accumulate(np.append(-1, np.where(has_labels, places, -1)))[:-1]
    after = np.minimum.accumulate(np.append(np.where(has_labels, places, len(places)), len(places))[::-1])[::-1][1:]
    begins = np.where(before >= 0, found.last[in_time][np.maximum(before, 0)], found.first[in_time] - 1)
    ends = np.where(
        after < len(places), found.first[in_time][np.minimum(after, len(places) - 1)], found.last[in_time] + 1
    )
    return np.maximum(ends - begins - 1, 0)


def _best_ways(speech: HeardSpeech, words: np.ndarray, runs: Sequence[_Run]) -> Steps[dict[int, int]]:
    """Return the pronunciation of each doubtful word that is likeliest beside the first ones of the others."""
    tried: list[tuple[int, int]] = []
    requests = []
    for run in runs:
        for place in run.doubtful:
            count = len(speech.word_tokens[words[place]].pronunciations)
            for way in range(count) if count > 1 else ():
                tried.append((place, way))
                requests.append(speech.likelihood([(int(words[p]), way if p == place else 0) for p in run.places], run))
    scores = (yield requests) if requests else []
    best: dict[int, tuple[float, int]] = {}
    for (place, way), score in zip(tried, scores):
        if place not in best or score > best[place][0]:
            best[place] = (score, way)
    return {place: way for place, (_, way) in best.items()}


def _runs(found: FoundWords, in_time: np.ndarray, gaps: Gaps, speech: HeardSpeech) -> Iterator[_Run]:
    """Yield runs of words that are not sure to be there, with the words around them."""
    sure = ((found.score >= SURE_NATS * found.lengths) & (found.score >= SURE_SCORE))[in_time]
    count, frames = len(in_time), len(speech.log_probs)
    context = max(1, units.seconds_to_frames(CONTEXT_S, speech.frame_shift_s))
    place = 0
    while place < count:
        if sure[place]:
            place += 1
            continue
        end = place + 1
        while end < count and not sure[end] and not gaps.cuts[end] and end - place < LONGEST_RUN:
            end += 1
        places = list(range(place, end))
        if place and not gaps.cuts[place]:
            places.insert(0, place - 1)
            first = gaps.after[place - 1] - context
        else:
            first = max(
                gaps.before[place] + 1, gaps.after[place] - room_frames(gaps.unheard[place, 1], speech.frame_shift_s)
            )
        if end < count and not gaps.cuts[end]:
            places.append(end)
            last = gaps.before[end + 1] + context + 1
        else:
            last = min(gaps.after[end], gaps.before[end] + 1 + room_frames(gaps.unheard[end, 0], speech.frame_shift_s))
        yield _Run(places, list(range(place, end)), int(max(first, 0)), int(min(last, frames)))
        place = end
