"""The words of a transcript that are heard in a recording, roughly where, and which of them are surely not there.

The text is searched among what was heard; then the rest of the text among the rest of the recording, as long as that
finds anything: this finds passages in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from ctc_align import lattice, units
from ctc_align.alignment.token_search import UNHEARD_NATS, HeardTokens, TextTokens, search, with_whole_readings
from ctc_align.kernels.batching import CtcTargets, Forward, KernelSteps
from ctc_align.types import Words, WordTokens

PAUSE_S = 0.25
"""A pause is at least this long without a label."""
FEWEST_TOKENS, FEWEST_WORDS = 20, 5
"""The least tokens and words of a passage that was moved away from its neighbours."""
SURE_NATS, SURE_SCORE = 1.2, 3.0
"""A word is surely there if its labels support it by this many nats per token, and in all."""
SAMPLED_TOKENS, FEWEST_SAMPLED = 1000, 10
"""Tokens from which the cost of one that is not heard is measured, at most and at least."""
LABELS_A_LETTER = 3
"""The most labels that a letter which the vocabulary lacks is heard as."""
SENTENCE_MARKS = frozenset(".?!…:;。？！")
_CLOSING = "\"'”’»)]}"


@dataclass(frozen=True)
class FoundWords:
    """The words of a transcript that have tokens, as they were heard.

    Attributes:
        words: (K,) their indices in the transcript, ascending.
        lengths: (K,) their tokens.
        order: (K,) their ranks in time, from 0; -1 for those that were not found.
        first, last: (K,) labels, the first and the last of each; of words without labels `first` is the label after the
            word, and `last` the one before it.
        score: (K,) nats by which the labels support each word.
        unheard: (K, 2) tokens before the first and after the last label of each.
        lacking: (K + 1,) labels that may be of letters which the vocabulary lacks, in the words before each word and in
            itself, and after the last.
    """

    words: np.ndarray
    lengths: np.ndarray
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    score: np.ndarray
    unheard: np.ndarray
    lacking: np.ndarray
    unheard_nats: float = 0.0
    """Nats that a token costs which is spoken and not heard, as measured inside words that are surely there."""

    @property
    def found(self) -> np.ndarray:
        """(K,) bool."""
        return self.order >= 0

    def in_time(self) -> np.ndarray:
        """Return the found words' indices (into K) in the order of time."""
        found = np.flatnonzero(self.found)
        return found[np.argsort(self.order[found])]


def text_tokens(words: Words, word_tokens: Sequence[WordTokens]) -> TextTokens:
    """Return the tokens of the words that have any, of their first pronunciations."""
    ids = [way.pronunciations[0].ids if way.pronunciations else () for way in word_tokens]
    owners = np.repeat(np.arange(len(ids)), [len(own) for own in ids])
    flat = np.fromiter((token for own in ids for token in own), np.int64, len(owners))
    ends = np.ones(len(flat) + 1, np.bool_)
    sentence = np.array([_ends_sentence(words, index) for index in range(len(words.words))], np.bool_)
    if len(flat):
        changes = owners[1:] != owners[:-1]
        between = np.append(0, np.cumsum(sentence))
        ends[1:-1] = changes & (between[owners[1:]] > between[owners[:-1]])
    return TextTokens(flat, owners, ends)


def _ends_sentence(words: Words, index: int) -> bool:
    word = words.words[index]
    if word.text.rstrip(_CLOSING)[-1:] in SENTENCE_MARKS:
        return True
    after = words.words[index + 1].char_start if index + 1 < len(words.words) else len(words.text)
    return "\n" in words.text[word.char_end : after]


def find_words(
    text: TextTokens, word_tokens: Sequence[WordTokens], heard: HeardTokens, frame_shift_s: float
) -> FoundWords:
    """Return where the words of a text are heard.

    Args:
        text: L tokens, of these words.
        word_tokens: of every word of the transcript.
        heard: H labels.
        frame_shift_s: of their frames.
    """
    pauses = np.concatenate(([True], np.diff(heard.frames) * frame_shift_s >= PAUSE_S, [True]))
    match = with_whole_readings(search(text, heard, pauses)[0], text, heard)
    labels, spoken = match.labels.copy(), match.spoken.copy()
    passage = np.zeros(len(labels), np.int64)
    for number in range(1, len(labels) + 1):
        left = np.flatnonzero(_long_runs(~_of_words(spoken, text.words), text.words))
        free = np.ones(len(heard), np.bool_)
        free[_covered(labels, text.words, passage)] = False
        spare = np.flatnonzero(free)
        if len(left) < FEWEST_TOKENS or len(spare) < FEWEST_TOKENS:
            break
        again, _ = search(text.some(left), heard.only(spare), np.append(pauses[spare] | _skips(spare), True))
        found = again.spoken & _long_runs(again.spoken, text.words[left])
        if not found.any():
            break
        places = np.where(again.labels >= 0, spare[again.labels], -1)
        labels[left[found]] = _in_one_piece(places, text.words[left], spare)[found]
        spoken[left[found]], passage[left[found]] = True, number
    lacking = np.array([LABELS_A_LETTER * len(own.missing) for own in word_tokens])
    return _words_of(text, heard, labels, spoken, passage, lacking)


def _of_words(chosen: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return which tokens belong to words with a chosen token: no word is in two passages."""
    return np.isin(words, words[chosen])


def _in_one_piece(labels: np.ndarray, words: np.ndarray, spare: np.ndarray) -> np.ndarray:
    """Return the labels of tokens, -1 for those of a word that are not with most of its labels.

    Args:
        labels: (L,), -1 for none.
        words: (L,) of the tokens.
        spare: labels that were searched, ascending; between two that are not adjacent, other words were said.
    """
    pieces = np.cumsum(_skips(spare))
    met = np.flatnonzero(labels >= 0)
    own = np.stack((words[met], pieces[np.searchsorted(spare, labels[met])]), 1)
    halves, at, counts = np.unique(own, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((-counts, halves[:, 0]))
    _, firsts = np.unique(halves[order, 0], return_index=True)
    kept = labels.copy()
    kept[met[~np.isin(at.reshape(-1), order[firsts])]] = -1
    return kept


def _skips(places: np.ndarray) -> np.ndarray:
    """Return before which of some labels others are left out."""
    return np.diff(places, prepend=-1) > 1


def _long_runs(chosen: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return which tokens are in runs of `FEWEST_TOKENS` and `FEWEST_WORDS` or more that are chosen."""
    kept = np.zeros(len(chosen), np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False]))))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist()):
        if last - first >= FEWEST_TOKENS and len(np.unique(words[first:last])) >= FEWEST_WORDS:
            kept[first:last] = True
    return kept


def _covered(labels: np.ndarray, words: np.ndarray, passage: np.ndarray) -> np.ndarray:
    """Return the labels of the tokens, and those between neighbours in one passage, or word, that are near."""
    met = np.flatnonzero(labels >= 0)
    near = (np.diff(labels[met]) <= FEWEST_TOKENS) | (np.diff(words[met]) == 0)
    near &= (np.diff(labels[met]) > 0) & (np.diff(passage[met]) == 0)
    spans = [np.arange(labels[a], labels[b]) for a, b in zip(met[:-1][near].tolist(), met[1:][near].tolist())]
    return np.concatenate([labels[met], *spans]) if len(met) else met


def _words_of(
    text: TextTokens,
    heard: HeardTokens,
    labels: np.ndarray,
    spoken: np.ndarray,
    passage: np.ndarray,
    lacking: np.ndarray,
) -> FoundWords:
    words, begins, lengths = np.unique(text.words, return_index=True, return_counts=True)
    count = len(words)
    score = np.full(len(labels), -UNHEARD_NATS)
    met = np.flatnonzero(labels >= 0)
    score[met] = heard.odds_at(text.ids[met], labels[met])
    score = np.add.reduceat(score, begins) if count else score
    found = 2 * np.add.reduceat(spoken.astype(np.int64), begins) > lengths if count else np.zeros(0, np.bool_)
    first, last = np.full((2, count), -1, np.int64)
    unheard = np.zeros((count, 2), np.int64)
    for k, (begin, length) in enumerate(zip(begins.tolist(), lengths.tolist())):
        own = np.flatnonzero(labels[begin : begin + length] >= 0)
        unheard[k] = (own[0], length - 1 - own[-1]) if len(own) else (length, 0)
        if len(own):
            first[k], last[k] = labels[begin + own[0]], labels[begin + own[-1]]
    order = np.full(count, -1, np.int64)
    own_passage = np.maximum.reduceat(passage, begins) if count else passage
    places = np.zeros(count)
    for number in np.unique(own_passage[found]).tolist() if count else []:
        own = np.flatnonzero(found & (own_passage == number))
        place = float(first[own[last[own] >= 0]].min(initial=len(heard))) - 0.5 if number else -1.0
        for k in own.tolist():
            place = float(last[k]) if last[k] >= 0 else place
            places[k] = place
            if first[k] < 0:
                first[k], last[k] = int(np.floor(place)) + 1, int(np.floor(place))
    chosen = np.flatnonzero(found)
    ranked = chosen[np.lexsort((chosen, own_passage[chosen], places[chosen]))]
    order[ranked] = np.arange(len(ranked))
    sums = np.append(0, np.cumsum(lacking))
    after = np.append(words + 1, len(lacking))
    before = np.append(0, words + 1)
    sure = found & (score >= SURE_NATS * lengths) & (score >= SURE_SCORE)
    nats = _unheard_nats(text, heard, labels, np.repeat(sure, lengths))
    return FoundWords(words, lengths, order, first, last, score, unheard, sums[after] - sums[before], nats)


def _unheard_nats(text: TextTokens, heard: HeardTokens, labels: np.ndarray, sure: np.ndarray) -> float:
    """Return the mean cost, in nats, of tokens that are not heard between two that are, in words that are `sure`.

    Args:
        text: L tokens.
        heard: what was heard.
        labels: (L,) of each token, -1 for none.
        sure: (L,) bool, tokens of words that are surely there.
    """
    inner = sure[1:-1] & (labels[1:-1] < 0) & (labels[:-2] >= 0) & (labels[2:] > labels[:-2])
    places = 1 + np.flatnonzero(inner)
    places = places[:: len(places) // SAMPLED_TOKENS + 1]
    costs = []
    for place in places.tolist():
        first, last = heard.frames[labels[place - 1]] + 1, heard.frames[labels[place + 1]]
        rows = heard.log_probs[first : max(last, first + 1)].float()
        best = (rows[:, text.ids[place]] - rows.logsumexp(1)).amax()
        costs.append(float(-best))
    return float(np.mean(costs)) if len(costs) >= FEWEST_SAMPLED else 0.0


# Gaps between words that were found: where they are, and whether other words are said there.

FOREIGN_LABELS = 4
"""This many labels more than expected between two words are speech that is not in the transcript."""
LONG_S = 2.5
"""Such speech parts islands if it is at least this long."""
ROOM_S, TOKEN_S = 1.0, 0.15
"""A passage may continue this long beyond its last label, and longer for each of its tokens that was not heard."""


@dataclass(frozen=True)
class Gaps:
    """The N + 1 gaps between N words in the order of time, before the first and after the last included.

    Attributes:
        before, after: the frames of the labels on either side, -1 and T at the ends.
        unheard: (N + 1, 2) tokens not heard before and behind.
        ordered: whether the word after it is later in the transcript than the one before.
        foreign: whether something is said there that is not in the transcript.
        cuts: whether islands part there.
    """

    before: np.ndarray
    after: np.ndarray
    unheard: np.ndarray
    ordered: np.ndarray
    foreign: np.ndarray
    cuts: np.ndarray


def gaps_of(found: FoundWords, heard: HeardTokens, in_time: np.ndarray, frame_shift_s: float) -> Gaps:
    """Return the gaps between words `in_time`, indices into those of `found`."""
    frames, count = len(heard.log_probs), len(in_time)
    if not count:
        nothing = np.zeros(1, np.bool_)
        return Gaps(np.array([-1]), np.array([frames]), np.zeros((1, 2), np.int64), ~nothing, nothing, nothing)
    has_labels = found.last[in_time] >= found.first[in_time]
    lengths = np.where(has_labels, 0, found.lengths[in_time])
    # Of words without labels, all tokens are unheard on both sides, together with those of their neighbours.
    lead = np.where(has_labels, found.unheard[in_time, 0], 0)
    trail = np.where(has_labels, found.unheard[in_time, 1], 0)
    silent = np.append(0, np.cumsum(lengths))
    places = np.arange(count)
    before = np.maximum.accumulate(np.where(has_labels, places, -1)) if count else places
    after = np.minimum.accumulate(np.where(has_labels, places, count)[::-1])[::-1] if count else places
    left, right = np.append(-1, before), np.append(after, count)
    first_label = np.where(right < count, found.first[in_time][np.minimum(right, count - 1)], len(heard))
    last_label = np.where(left >= 0, found.last[in_time][np.maximum(left, 0)], -1)
    behind = np.where(left >= 0, trail[np.maximum(left, 0)], 0) + silent - silent[left + 1]
    ahead = np.where(right < count, lead[np.minimum(right, count - 1)], 0) + silent[right] - silent
    marks = np.append(heard.frames, frames)
    ordered = np.append(np.append(True, np.diff(found.words[in_time]) > 0), True)
    starts, ends = np.where(last_label >= 0, marks[last_label], -1), marks[first_label]
    sums = np.append(0, np.cumsum(found.lacking))
    low, high = np.append(0, in_time), np.append(in_time, len(found.words))
    own = np.where(high >= low, sums[np.maximum(high, low) + 1] - sums[low], 0)
    foreign = first_label - last_label - 1 - behind - ahead - own >= FOREIGN_LABELS
    long = (ends - starts) * frame_shift_s >= LONG_S
    return Gaps(starts, ends, np.stack((behind, ahead), 1), ordered, foreign, ~ordered | (foreign & long))


def room_frames(unheard: int, frame_shift_s: float) -> int:
    """Return the frames that a passage may continue beyond its last label, with `unheard` tokens not heard there."""
    return units.seconds_to_frames(ROOM_S + TOKEN_S * float(unheard), frame_shift_s)


# Words that a search has found and that are not in the recording: single ones, and those where a passage ends.
#
# A word is absent where its tokens, between the words around it, are so much less likely than nothing instead of them
# or other speech that no pronunciation and no noise explains it: log-likelihoods over all CTC paths decide, over the
# frames from the word before it to the word after it. In a transcript that is exact, words that are hardly heard must
# stay; where others are surely absent, less is enough.

ABSENT_NATS, ABSENT_SCORE, ABSENT_LABEL = 4.5, 8.5, 2.0
"""A word is surely absent if leaving it out is likelier by this many nats: for each of its tokens, in all, and for each
label that is heard there. Tuned with the English model on development speakers: none of 19,400 spoken words is."""
DOUBTFUL_NATS = 4.5
"""The same for each token if the transcript is known not to be exact. On the same speech it takes out 5 of 1,000 spoken
words, 95 of 100 single words that were not said, and 70 of 100 that replace another word."""
ABSENT_UNHEARD, DOUBTFUL_UNHEARD = 1.15, 1.1
"""Minimum ratio of both to the cost of an unheard token: some models are surer of everything."""
INEXACT_SHARE = 0.005
"""A transcript is not exact where more than this share of its words is surely absent."""
MOST_LABELS = 4
"""More labels where a word would be count as this many."""
CONTEXT_S = 0.03
"""Words are scored from this long before their first label until this long after their last."""
SHORT_FRAME_S = 0.0125
"""With shorter frames there is always a frame for other speech between two words; with longer ones, or with separators
between words, there may be none, and other speech is optional."""
LONGEST_RUN, RUNS_AT_ONCE = 12, 256
"""The most words of a run, and the most runs scored together: the paths of each take memory."""


@dataclass(frozen=True)
class HeardSpeech:
    """The speech in which words may be absent.

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
        """Return the request for the likelihood of words (index, pronunciation), other speech where it may be."""
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
    """Words in a row that may be absent, by their ranks in the order of time.

    Attributes:
        places: of the words, those around them included.
        doubtful: which of them may be absent.
        first_frame, last_frame: where they are.
    """

    places: list[int]
    doubtful: list[int]
    first_frame: int
    last_frame: int


def present_words(
    speech: HeardSpeech, found: FoundWords, gaps: Gaps, *, loose: bool = False
) -> KernelSteps[np.ndarray]:
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
    """Yield lists of `RUNS_AT_ONCE` runs."""
    while chunk := list(islice(runs, RUNS_AT_ONCE)):
        yield chunk


def _absent_in(
    speech: HeardSpeech, found: FoundWords, in_time: np.ndarray, runs: list[_Run]
) -> KernelSteps[dict[int, float]]:
    """Return the words of runs that are hardly there, and by how many nats leaving them out is likelier.

    The least likely word of each run is taken out, then that of the rest, as long as there is one.
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


def _best_ways(speech: HeardSpeech, words: np.ndarray, runs: Sequence[_Run]) -> KernelSteps[dict[int, int]]:
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
