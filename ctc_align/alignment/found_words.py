"""The places in a recording where the words of a transcript are heard, if anywhere: without exact times.

The text is searched among what was heard; then what is left of the text among what is left of the recording, as often
as that finds anything: passages in another order are found so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctc_align.alignment.heard_tokens import HeardTokens
from ctc_align.alignment.repeated_readings import with_whole_readings
from ctc_align.alignment.token_matching import UNHEARD_NATS, TextTokens
from ctc_align.alignment.token_search import search
from ctc_align.types import Words, WordTokens

PAUSE_S = 0.25
"""In a pause no label is heard for so long."""
FEWEST_TOKENS, FEWEST_WORDS = 20, 5
"""A passage in another place than its neighbours has at least so many tokens and words."""
SURE_NATS, SURE_SCORE = 1.2, 3.0
"""A word whose labels speak for it by so many nats a token, and in all, is there."""
SAMPLED_TOKENS, FEWEST_SAMPLED = 1000, 10
"""Tokens from which the cost of one that is not heard is measured, at most and at least."""
LABELS_A_LETTER = 3
"""A letter that the vocabulary lacks may be heard as so many labels."""
SENTENCE_MARKS = frozenset(".?!…:;。？！")
_CLOSING = "\"'”’»)]}"


@dataclass(frozen=True)
class FoundWords:
    """The words of a transcript that have tokens, as they were heard.

    Attributes:
        words: (K,) their places in the transcript, ascending.
        lengths: (K,) their tokens.
        order: (K,) their places in time, 0 for the first; -1 for those that were not found.
        first, last: (K,) labels, the first and the last of each; of words without labels `first` is the label after the
            word, and `last` the one before it.
        score: (K,) nats by which the labels speak for each word.
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
    """Return which tokens are of words of which a token is chosen: no word is in two passages."""
    return np.isin(words, words[chosen])


def _in_one_piece(labels: np.ndarray, words: np.ndarray, spare: np.ndarray) -> np.ndarray:
    """Return the labels of tokens, -1 for those of a word that are not with most of its labels.

    Args:
        labels: (L,), -1 for none.
        words: (L,) of the tokens.
        spare: labels that were searched, ascending; between those that are no neighbours other words are said.
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
