"""Which words of a transcript are heard in a recording, roughly where, and which surely are not.

The search looks for the text among the labels that were heard, then for the rest of the text in the
rest of the recording, until it finds nothing more. So it finds passages in a different order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctc_align import units
from ctc_align.alignment.fit import MOST_OF_A_TEXT, PAUSE_S
from ctc_align.alignment.token_search import (
    PASSAGE_TOKENS,
    UNHEARD_NATS,
    HeardTokens,
    TextTokens,
    search,
    with_whole_readings,
)
from ctc_align.alignment.wildcard import LETTER_S
from ctc_align.types import ANY_SPEECH, Words, WordTokens

SHORT_PAUSE_S = PAUSE_S / 4
"""A pause has no label for at least this long."""
SURE_NATS, SURE_SCORE = 1.2, 3.0
"""A word is surely there if its labels support it by at least the first number of nats per token,
and the second in total."""
FAINT_NATS = 0.7
"""If the labels support the found words by less than this number of nats per token, and most of the
text is found (`MOST_OF_A_TEXT`), the model or the pronunciations suit the recording badly. Of words with
15 of 100 phones wrong, 0.6 % are lost, not 0.7; of single words put in between, 64 % are marked,
not 67."""
LABELS_A_LETTER, LABELS_OF_ANY = 3, 30
"""The maximum number of labels that may be heard for one letter that the vocabulary lacks, and for
a word that is any speech."""

SENTENCE_MARKS = frozenset(".?!…:;。？！")
_CLOSING = "\"'”’»)]}"


@dataclass(frozen=True)
class FoundWords:
    """The words of a transcript that have tokens, as they were heard.

    Attributes:
        words: (K,) their indices in the transcript, ascending.
        lengths: (K,) their tokens.
        order: (K,) their ranks in time, from 0; -1 for those that were not found.
        first, last: (K,) labels, the first and the last of each; of words without labels `first` is
            the label after the word, and `last` the one before it.
        score: (K,) nats by which the labels support each word.
        unheard: (K, 2) numbers of tokens before the first and after the last label of each.
        lacking: (K + 1,) numbers of labels that may come from letters that the vocabulary lacks: in
            each word and in the words before it, and after the last word.
    """

    words: np.ndarray
    lengths: np.ndarray
    order: np.ndarray
    first: np.ndarray
    last: np.ndarray
    score: np.ndarray
    unheard: np.ndarray
    lacking: np.ndarray

    @property
    def sure(self) -> np.ndarray:
        """(K,) bool, whether a word's labels leave no doubt."""
        return self.found & (self.score >= SURE_NATS * self.lengths) & (self.score >= SURE_SCORE)

    @property
    def found(self) -> np.ndarray:
        """(K,) bool."""
        return self.order >= 0

    @property
    def is_faint(self) -> bool:
        """True if most words are there, but fit badly."""
        found = self.found
        return bool(
            found.mean() > MOST_OF_A_TEXT
            and self.score[found].sum() < FAINT_NATS * self.lengths[found].sum()
        )

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
    sentence = np.array(
        [_ends_sentence(words, index) for index in range(len(words.words))], np.bool_
    )
    if len(flat):
        changes = owners[1:] != owners[:-1]
        between = np.append(0, np.cumsum(sentence))
        ends[1:-1] = changes & (between[owners[1:]] > between[owners[:-1]])
    return TextTokens(flat, owners, ends)


def _ends_sentence(words: Words, index: int) -> bool:
    word = words.words[index]
    if word.text.rstrip(_CLOSING)[-1:] in SENTENCE_MARKS:
        return True
    if index + 1 < len(words.words):
        after = words.words[index + 1].char_start
    else:
        after = len(words.text)
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
    is_pause = np.diff(heard.frames) * frame_shift_s >= SHORT_PAUSE_S
    pauses = np.concatenate(([True], is_pause, [True]))
    match = with_whole_readings(search(text, heard, pauses)[0], text, heard)
    labels, spoken = match.labels.copy(), match.spoken.copy()
    passage = np.zeros(len(labels), np.int64)
    for number in range(1, len(labels) + 1):
        left = np.flatnonzero(_find_long_runs(~_select_whole_words(spoken, text.words)))
        free = np.ones(len(heard), np.bool_)
        free[_fill_in_labels(labels, text.words, passage)] = False
        spare = np.flatnonzero(free)
        if len(left) < PASSAGE_TOKENS or len(spare) < PASSAGE_TOKENS:
            break
        again, _ = search(
            text.some(left), heard.only(spare), np.append(pauses[spare] | _find_skips(spare), True)
        )
        found = again.spoken & _find_long_runs(again.spoken)
        if not found.any():
            break
        places = np.where(again.labels >= 0, spare[again.labels], -1)
        labels[left[found]] = _drop_scattered_labels(places, text.words[left], spare)[found]
        spoken[left[found]] = True
        passage[left[found]] = number
    lacking = np.array(
        [
            LABELS_OF_ANY if own.missing == (ANY_SPEECH,) else LABELS_A_LETTER * len(own.missing)
            for own in word_tokens
        ]
    )
    return _words_of(text, heard, labels, spoken, passage, lacking)


def _select_whole_words(chosen: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return which tokens belong to words with a chosen token: no word may be in two passages."""
    return np.isin(words, words[chosen])


def _drop_scattered_labels(labels: np.ndarray, words: np.ndarray, spare: np.ndarray) -> np.ndarray:
    """Return the labels of tokens; -1 for those that lie apart from most labels of their word.

    Args:
        labels: (L,), -1 for none.
        words: (L,) of the tokens.
        spare: labels that were searched, ascending; between two that are not adjacent, other words
            were said.
    """
    pieces = np.cumsum(_find_skips(spare))
    met = np.flatnonzero(labels >= 0)
    own = np.stack((words[met], pieces[np.searchsorted(spare, labels[met])]), 1)
    halves, at, counts = np.unique(own, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((-counts, halves[:, 0]))
    _, firsts = np.unique(halves[order, 0], return_index=True)
    kept = labels.copy()
    kept[met[~np.isin(at.reshape(-1), order[firsts])]] = -1
    return kept


def _find_skips(places: np.ndarray) -> np.ndarray:
    """Return which labels have omitted labels directly before them."""
    return np.diff(places, prepend=-1) > 1


def _find_long_runs(chosen: np.ndarray) -> np.ndarray:
    """Return which tokens are in chosen runs of `PASSAGE_TOKENS` or more."""
    kept = np.zeros(len(chosen), np.bool_)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False]))))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist()):
        if last - first >= PASSAGE_TOKENS:
            kept[first:last] = True
    return kept


def _fill_in_labels(labels: np.ndarray, words: np.ndarray, passage: np.ndarray) -> np.ndarray:
    """Return the labels of the tokens, and the nearby labels between neighbours."""
    met = np.flatnonzero(labels >= 0)
    near = (np.diff(labels[met]) <= PASSAGE_TOKENS) | (np.diff(words[met]) == 0)
    near &= (np.diff(labels[met]) > 0) & (np.diff(passage[met]) == 0)
    spans = [
        np.arange(labels[a], labels[b])
        for a, b in zip(met[:-1][near].tolist(), met[1:][near].tolist())
    ]
    if len(met):
        return np.concatenate([labels[met], *spans])
    return met


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
    if count:
        found = 2 * np.add.reduceat(spoken.astype(np.int64), begins) > lengths
    else:
        found = np.zeros(0, np.bool_)
    first, last = np.full((2, count), -1, np.int64)
    unheard = np.zeros((count, 2), np.int64)
    for k, (begin, length) in enumerate(zip(begins.tolist(), lengths.tolist())):
        own = np.flatnonzero(labels[begin : begin + length] >= 0)
        if len(own):
            unheard[k] = (own[0], length - 1 - own[-1])
            first[k] = labels[begin + own[0]]
            last[k] = labels[begin + own[-1]]
        else:
            unheard[k] = (length, 0)
    order = np.full(count, -1, np.int64)
    own_passage = np.maximum.reduceat(passage, begins) if count else passage
    places = np.zeros(count)
    for number in np.unique(own_passage[found]).tolist() if count else []:
        own = np.flatnonzero(found & (own_passage == number))
        if number:
            place = float(first[own[last[own] >= 0]].min(initial=len(heard))) - 0.5
        else:
            place = -1.0
        for k in own.tolist():
            place = float(last[k]) if last[k] >= 0 else place
            places[k] = place
            if first[k] < 0:
                first[k] = int(np.floor(place)) + 1
                last[k] = int(np.floor(place))
    chosen = np.flatnonzero(found)
    ranked = chosen[np.lexsort((chosen, own_passage[chosen], places[chosen]))]
    order[ranked] = np.arange(len(ranked))
    sums = np.append(0, np.cumsum(lacking))
    after = np.append(words + 1, len(lacking))
    before = np.append(0, words + 1)
    return FoundWords(
        words, lengths, order, first, last, score, unheard, sums[after] - sums[before]
    )


# Gaps between words that were found: where they are, and whether other words are said there.

FOREIGN_LABELS = 4
"""If there are this many labels more than expected between two words, they are speech that is not
in the transcript."""
LONG_S = 2.5
"""Such speech separates islands if it is at least this long."""


@dataclass(frozen=True)
class Gaps:
    """The N + 1 gaps between N words in order of time, with those at both ends.

    Attributes:
        before, after: the frames of the labels on either side, -1 and T at the ends.
        unheard: (N + 1, 2) tokens not heard before and behind.
        ordered: whether the word after the gap is later in the transcript than the word before it.
        foreign: whether the gap has speech that is not in the transcript.
        cuts: whether one island ends and the next begins in the gap.
    """

    before: np.ndarray
    after: np.ndarray
    unheard: np.ndarray
    ordered: np.ndarray
    foreign: np.ndarray
    cuts: np.ndarray


def gaps_of(
    found: FoundWords, heard: HeardTokens, in_time: np.ndarray, frame_shift_s: float
) -> Gaps:
    """Return the gaps between words `in_time`, indices into those of `found`."""
    frames = len(heard.log_probs)
    count = len(in_time)
    if not count:
        nothing = np.zeros(1, np.bool_)
        return Gaps(
            np.array([-1]),
            np.array([frames]),
            np.zeros((1, 2), np.int64),
            ~nothing,
            nothing,
            nothing,
        )
    has_labels = found.last[in_time] >= found.first[in_time]
    lengths = np.where(has_labels, 0, found.lengths[in_time])
    # Of words without labels, all tokens are unheard on both sides, together with those of their
    # neighbours.
    lead = np.where(has_labels, found.unheard[in_time, 0], 0)
    trail = np.where(has_labels, found.unheard[in_time, 1], 0)
    silent = np.append(0, np.cumsum(lengths))
    places = np.arange(count)
    if count:
        before = np.maximum.accumulate(np.where(has_labels, places, -1))
        after = np.minimum.accumulate(np.where(has_labels, places, count)[::-1])[::-1]
    else:
        before = places
        after = places
    left = np.append(-1, before)
    right = np.append(after, count)
    first_label = np.where(
        right < count, found.first[in_time][np.minimum(right, count - 1)], len(heard)
    )
    last_label = np.where(left >= 0, found.last[in_time][np.maximum(left, 0)], -1)
    behind = np.where(left >= 0, trail[np.maximum(left, 0)], 0) + silent - silent[left + 1]
    ahead = np.where(right < count, lead[np.minimum(right, count - 1)], 0) + silent[right] - silent
    marks = np.append(heard.frames, frames)
    ordered = np.append(np.append(True, np.diff(found.words[in_time]) > 0), True)
    starts = np.where(last_label >= 0, marks[last_label], -1)
    ends = marks[first_label]
    sums = np.append(0, np.cumsum(found.lacking))
    low = np.append(0, in_time)
    high = np.append(in_time, len(found.words))
    own = np.where(high >= low, sums[np.maximum(high, low) + 1] - sums[low], 0)
    foreign = first_label - last_label - 1 - behind - ahead - own >= FOREIGN_LABELS
    long = (ends - starts) * frame_shift_s >= LONG_S
    return Gaps(
        starts, ends, np.stack((behind, ahead), 1), ordered, foreign, ~ordered | (foreign & long)
    )


def room_frames(unheard: int, frame_shift_s: float) -> int:
    """Return the frames that a passage may go on, with `unheard` tokens after its last label.

    It may go on for a pause, and for `LETTER_S` for each of these tokens.
    """
    return units.seconds_to_frames(PAUSE_S + LETTER_S * float(unheard), frame_shift_s)
