"""A search for a text in what was heard: first long stretches that agree, then between them.

Runs of tokens that are heard as they are written are found by their hashes; those that follow each
other at the pace of speech are a fragment, as reads are chained in genome assembly (Li 2018, doi
10.1093/bioinformatics/bty191). The
best chain of fragments that ascends in both text and recording is used. What lies between its runs
is matched token by token (the second half of this module), in small pieces, so that the memory
grows with the text and not with its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align.alignment.ctc_path import PIECE_FRAMES
from ctc_align.kernels.log_space import log_softmax

# The labels of greedy decoding, and how well each token of a text would fit where they are.
#
# A search compares a text with what a model hears without it, tokens with tokens: there are a tenth
# as many as
# frames.

FAINT_NATS = 1.0
"""A label is heard where it is at most this many nats less likely than the blank."""
BEST_NATS = 5.0
"""Upper limit of the log-odds of a token, not beyond what greedy decoding deserves: it errs in one
label of five, and more in noise. They need no lower one: a token that is not heard beside a label
that is no token costs less than a bad match."""


@dataclass(frozen=True)
class HeardTokens:
    """The H labels that a model hears, in order of time.

    Attributes:
        ids: (H,) int64, classes of the vocabulary.
        frames: (H,) int64, where each is likeliest.
        log_probs: (T, C), natural log, of the recording.
        background: (C,) float32, log of the mean probability of each class over all labels.
    """

    ids: np.ndarray
    frames: np.ndarray
    log_probs: np.ndarray
    background: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)

    def odds(self, classes: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return (N, last - first) log-odds in nats of N classes at labels `first` to `last`.

        They are those of the class there, in the likeliest of three frames, against any label, up
        to `BEST_NATS`.
        """
        best = _max_of_three_frames(self.log_probs, self.frames[first:last])
        return np.minimum(best[:, classes].T - self.background[classes][:, None], BEST_NATS)

    def odds_at(self, classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return (N,) float32: log-odds of N classes, each at the label with the same index."""
        found = [np.zeros(0, np.float32)]
        for low in range(0, len(classes), PIECE_FRAMES):
            own, at = classes[low : low + PIECE_FRAMES], labels[low : low + PIECE_FRAMES]
            best = _max_of_three_frames(self.log_probs, self.frames[at])
            found.append(best[np.arange(len(own)), own] - self.background[own])
        return np.minimum(np.concatenate(found), BEST_NATS)

    def only(self, places: np.ndarray) -> HeardTokens:
        """Return the labels at some indices."""
        return HeardTokens(self.ids[places], self.frames[places], self.log_probs, self.background)


def greedy_decode(log_probs: np.ndarray, blank: int, without: Sequence[int] = ()) -> HeardTokens:
    """Return the labels that a model hears, runs of equal ones as one.

    Args:
        log_probs: (T, C), natural log.
        blank: the class of the blank.
        without: classes that are not sounds: a word separator, a star.
    """
    ids, frames, best = _labelled_frames(log_probs, blank, list(without))
    begins = np.flatnonzero((np.diff(ids, prepend=-1) != 0) | (np.diff(frames, prepend=-2) > 1))
    owner = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(ids))))
    if len(begins):
        peaks = np.maximum.reduceat(best, begins)
    else:
        peaks = best
    at_peak = np.flatnonzero(best == peaks[owner])
    _, firsts = np.unique(owner[at_peak], return_index=True)
    centres = frames[at_peak[firsts]]
    total = np.zeros(log_probs.shape[1])
    for low in range(0, len(centres), PIECE_FRAMES):
        total += np.exp(_max_of_three_frames(log_probs, centres[low : low + PIECE_FRAMES])).sum(
            0, dtype=np.float64
        )
    mean = np.maximum(total / max(len(centres), 1), np.finfo(np.float32).tiny)
    return HeardTokens(ids[begins], centres, log_probs, np.log(mean).astype(np.float32))


def _labelled_frames(
    log_probs: np.ndarray, blank: int, without: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the classes, frames and log-probs of the frames where a label is heard."""
    ids, frames, best = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for low in range(0, len(log_probs), PIECE_FRAMES):
        piece = log_probs[low : low + PIECE_FRAMES].astype(np.float32)
        silent = piece[:, [blank, *without]].max(1)
        piece[:, [blank, *without]] = -np.inf
        label = piece.argmax(1)
        top = piece[np.arange(len(piece)), label]
        heard = top >= silent - np.float32(FAINT_NATS)
        ids.append(label[heard])
        frames.append(low + np.flatnonzero(heard))
        best.append(top[heard])
    return np.concatenate(ids), np.concatenate(frames), np.concatenate(best)


def _max_of_three_frames(log_probs: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return (N, C) the highest log-probs of each class in the three frames around each of N."""
    last = len(log_probs) - 1
    near = np.clip(centres + np.array([[-1], [0], [1]]), 0, last)
    return log_softmax(log_probs[near].astype(np.float32, copy=False)).max(0)


# The best match of a text with what was heard, token by token, with jumps over either side.
#
# Inside a passage that is spoken, a token of the text is matched with a label (a log-odds), or not
# heard, or a label belongs to no token: each has a small cost. Between passages any number of words
# and labels are jumped over at a cost that does not depend on how many. It is the local alignment
# of Smith and Waterman (1981), chained: as costs are log-odds, a passage between two jumps pays
# where it is likelier than chance in a search of that size (Karlin and Altschul 1990).

UNHEARD_NATS, UNWRITTEN_NATS = 1.6, 2.2
"""Cost of a token that is not heard, and of a label that is not a token."""
JUMP_NATS = 9.0
"""Cost of a jump, besides the logarithm of the number of cells that it could lead to."""
PAUSE_NATS = 1.5
"""A jump costs this much less at each of its ends that is at a pause or at the end of a
sentence: without it, partly right texts in hard sound lose an eighth more words."""
MOST_CELLS = 2**22
"""Cells (tokens times labels) whose scores are kept at once, 8 bytes each."""


@dataclass(frozen=True)
class TextTokens:
    """The L tokens of a text, of words only.

    Attributes:
        ids: (L,) int64.
        words: (L,) int64, ascending: the word of each.
        ends: (L + 1,) bool: whether a sentence ends before token l; also at 0 and L.
    """

    ids: np.ndarray
    words: np.ndarray
    ends: np.ndarray

    @property
    def parts(self) -> np.ndarray:
        """(L + 1,) bool: whether words part before token l; also at 0 and L."""
        if len(self.ids):
            return np.concatenate(([True], np.diff(self.words) != 0, [True]))
        return np.ones(1, np.bool_)

    def some(self, places: np.ndarray) -> TextTokens:
        """Return the tokens at ascending indices; where others are left out, a sentence ends."""
        ends = self.ends[places] | (np.diff(places, prepend=-1) > 1)
        return TextTokens(self.ids[places], self.words[places], np.append(ends, True))


@dataclass(frozen=True)
class TokenMatch:
    """The label of each token (L,), -1 for none, and whether it is in a spoken passage."""

    labels: np.ndarray
    spoken: np.ndarray


def match_block(
    text: TextTokens,
    odds: np.ndarray,
    pauses: np.ndarray,
    opened: bool = False,
    closed: bool = False,
) -> tuple[TokenMatch, float]:
    """Return the best match of a text with all that was heard, and its score: 0 is no match.

    Args:
        text: L tokens, their ids rows of the odds.
        odds: (classes, H), of H labels, as `HeardTokens.odds` returns them.
        pauses: (H + 1,) bool, whether there is a pause before label h.
        opened, closed: the passage around the block is known to be spoken, before and after it.
    """
    block = _Block(text, odds, pauses, opened, closed)
    # Only one row in `rows` is stored; the others are computed again, block by block from the end,
    # for the way back.
    rows = max(1, MOST_CELLS // (odds.shape[1] + 1))
    starts = list(range(0, len(text.ids), rows)) or [0]
    stored = [block.first_row()]
    for first in starts[:-1]:
        *_, last = block.rows(stored[-1], first, first + rows)
        stored.append(last)
    labels = np.full(len(text.ids), -1, np.int64)
    spoken = np.zeros(len(text.ids), np.bool_)
    end = len(text.ids)
    place = None
    score = 0.0
    for first, row in zip(reversed(starts), reversed(stored)):
        table = np.stack([row, *block.rows(row, first, end)])
        if place is None:
            place, score = block.end_of(table[-1])
        place = block.trace(table, first, place, labels, spoken)
        end = first
    return TokenMatch(labels, spoken), score


_SPOKEN, _JUMPED = 0, 1


class _Block:
    """The costs of a block, and the rows (2, H + 1) of its table: in a passage, and in a jump."""

    def __init__(
        self, text: TextTokens, odds: np.ndarray, pauses: np.ndarray, opened: bool, closed: bool
    ) -> None:
        self.text = text
        self.odds = odds
        self.opened = opened
        self.closed = closed
        jump = (JUMP_NATS + np.log(max(len(text.ids) * odds.shape[1], 1))) / 2
        self.costs = jump - PAUSE_NATS * pauses
        self.easier = PAUSE_NATS * text.ends
        self.parts = text.parts
        self.steps = UNWRITTEN_NATS * np.arange(odds.shape[1] + 1)

    def first_row(self) -> np.ndarray:
        row = np.full((2, len(self.steps)), -np.inf)
        row[_SPOKEN] = -self.steps
        row[_JUMPED] = np.maximum.accumulate(row[_SPOKEN] - self.costs + self.easier[0])
        if not self.opened:
            row[_JUMPED] = 0.0
        return row

    def rows(self, row: np.ndarray, first: int, last: int) -> list[np.ndarray]:
        """Return the rows behind the tokens from `first` to `last`, exclusive."""
        found = []
        for place in range(first, last):
            row = self._next(row, place)
            found.append(row)
        return found

    def _next(self, row: np.ndarray, place: int) -> np.ndarray:
        """Return the row behind token `place` from the row before it.

        spoken[h] = max(old_spoken[h] - UNHEARD_NATS, spoken[h - 1] - UNWRITTEN_NATS,
        max(old_spoken[h - 1], old_jumped[h - 1] - cost of a jump) + odds[h - 1]);
        jumped[h] = max(old_jumped[h], spoken[h] - cost of a jump, jumped[h - 1]).
        Jumps begin and end between words only.
        """
        new = np.empty_like(row)
        spoken, jumped = new
        np.subtract(row[_SPOKEN], UNHEARD_NATS, out=spoken)
        before = row[_SPOKEN, :-1]
        if self.parts[place]:
            before = np.maximum(before, row[_JUMPED, :-1] - self.costs[:-1] + self.easier[place])
        np.maximum(spoken[1:], before + self.odds[self.text.ids[place]], out=spoken[1:])
        # Labels that are no token cost UNWRITTEN_NATS each: with these steps added, skipping is a
        # running maximum.
        spoken += self.steps
        np.maximum.accumulate(spoken, out=spoken)
        spoken -= self.steps
        jumped[:] = row[_JUMPED]
        if self.parts[place + 1]:
            np.maximum(jumped, spoken - self.costs + self.easier[place + 1], out=jumped)
            np.maximum.accumulate(jumped, out=jumped)
        return new

    def end_of(self, row: np.ndarray) -> tuple[tuple[int, int], float]:
        """Return where the best path ends in the last row (state, labels before), and its score."""
        last = len(self.steps) - 1
        if self.closed:
            entered = row[_JUMPED, last] - self.costs[last] + self.easier[len(self.text.ids)]
            if entered > row[_SPOKEN, last]:
                return (_JUMPED, last), float(entered)
            return (_SPOKEN, last), float(row[_SPOKEN, last])
        state = int(row[_JUMPED, last] > row[_SPOKEN, last])
        return (state, last), float(row[state, last])

    def trace(
        self,
        table: np.ndarray,
        first: int,
        place: tuple[int, int],
        labels: np.ndarray,
        spoken: np.ndarray,
    ) -> tuple[int, int]:
        """Trace the best path back through `table` (R, 2, H + 1); return its places."""
        state, h = place
        row = len(table) - 1
        while row > 0 or (first == 0 and h > 0):
            at = first + row
            if state == _JUMPED:
                entered = (
                    table[row, _SPOKEN, h] - self.costs[h] + self.easier[at]
                    if self.parts[at]
                    else -np.inf
                )
                above = table[row - 1, _JUMPED, h] if row else -np.inf
                beside = table[row, _JUMPED, h - 1] if h else -np.inf
                best = max(entered, above, beside)
                if row == 0 and not self.opened:
                    break
                if entered == best:
                    state = _SPOKEN
                elif above == best:
                    row -= 1
                else:
                    h -= 1
                continue
            unwritten = table[row, _SPOKEN, h - 1] - UNWRITTEN_NATS if h else -np.inf
            if row == 0:
                h -= 1
                continue
            unheard = table[row - 1, _SPOKEN, h] - UNHEARD_NATS
            met = entered = -np.inf
            if h:
                odds = self.odds[self.text.ids[at - 1], h - 1]
                met = table[row - 1, _SPOKEN, h - 1] + odds
                if self.parts[at - 1]:
                    entered = (
                        table[row - 1, _JUMPED, h - 1]
                        - self.costs[h - 1]
                        + self.easier[at - 1]
                        + odds
                    )
            best = max(unwritten, unheard, met, entered)
            if unwritten == best:
                h -= 1
                continue
            row -= 1
            spoken[at - 1] = True
            if unheard == best:
                continue
            h -= 1
            labels[at - 1] = h
            state = _SPOKEN if met == best else _JUMPED
        return state, h


WHOLE_CELLS = 200_000
"""A block of fewer cells (tokens times labels) is matched without anchors."""
CHANCE_RUNS = 100
"""Expected number of runs that agree by chance in a whole search, if tokens were independent: a
larger search looks for longer runs."""
MOST_PLACES = 12
"""Runs that occur more often in the text are ignored."""
SLACK_SHARE = 0.3
"""Runs of one fragment are spaced alike on both sides: the distances in text and labels differ at
most by this share of the shorter one. Greedy decoding drops or adds one label in five (see
`BEST_NATS`)."""
LOOK_BACK = 48
"""Runs before a run that may precede it in a fragment."""
PASSAGE_TOKENS = 20
"""The least tokens of a passage: of the runs of a fragment, of what is read twice, and of what was
moved away from its neighbours. Shorter ones may agree by chance."""
SUPPORT_TOKENS = PASSAGE_TOKENS // 2
SUPPORT_REACH = 2 * PASSAGE_TOKENS
"""At least the first number of tokens agree within the second of an anchor: a run at a fragment's
end may be chance."""
ANCHORS_APART = SUPPORT_REACH
"""Tokens between anchors: the blocks between them are matched exactly."""
REACH_TOKENS, REACH_A_LABEL = 400, 2
"""Tokens matched at each end of a block, and more for each label: few labels cannot be a long
text."""
MOST_FRAGMENTS = 3000
"""The maximum number of fragments among which a chain is looked for, heaviest first."""
LARGEST_CELLS = 2**26
"""The largest block without anchors; of a larger one only the text and the labels next to its
corners are matched."""


@dataclass(frozen=True)
class _Fragment:
    """Runs of one pace, ascending: their middles, and how many tokens agree in all and in each."""

    text: np.ndarray
    labels: np.ndarray
    weight: float
    length: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        return int(self.text[0]), int(self.text[-1]), int(self.labels[0]), int(self.labels[-1])


def search(text: TextTokens, heard: HeardTokens, pauses: np.ndarray) -> tuple[TokenMatch, float]:
    """Return the best match found of a text with what was heard, and its score in nats.

    Arguments as `match_block`.
    """
    cells = len(text.ids) * len(heard.ids)
    if cells <= WHOLE_CELLS:
        return _match_parts(text, heard, pauses, (0, len(heard), False, False))
    anchors = _choose_anchors(_find_best_chain(_find_fragments(text.ids, heard.ids)))
    labels = np.full(len(text.ids), -1, np.int64)
    spoken = np.zeros(len(text.ids), np.bool_)
    score = 0.0
    corners = [(0, 0), *anchors, (len(text.ids), len(heard.ids))]
    for number, ((i0, h0), (i1, h1)) in enumerate(pairwise(corners)):
        opened = number > 0
        closed = number < len(corners) - 2
        for a0, b0, a1, b1, begins, ends in _divide_block(i0, h0, i1, h1, opened, closed):
            places = _choose_within_reach(text, a0, a1, b1 - b0)
            part, own = _match_parts(text.some(places), heard, pauses, (b0, b1, begins, ends))
            labels[places], spoken[places] = part.labels, part.spoken
            score += own
    return TokenMatch(labels, spoken), score


def _match_parts(
    text: TextTokens, heard: HeardTokens, pauses: np.ndarray, block: tuple[int, int, bool, bool]
) -> tuple[TokenMatch, float]:
    """Return the best match of a text with a block of labels (from, to, opened, closed)."""
    h0, h1, opened, closed = block
    classes, rows = np.unique(text.ids, return_inverse=True)
    match, score = match_block(
        TextTokens(rows, text.words, text.ends),
        heard.odds(classes, h0, h1),
        pauses[h0 : h1 + 1],
        opened,
        closed,
    )
    return TokenMatch(np.where(match.labels >= 0, match.labels + h0, -1), match.spoken), score


def _choose_within_reach(text: TextTokens, first: int, last: int, labels: int) -> np.ndarray:
    """Return the indices of the tokens to match with `labels` labels: those at both ends.

    Tokens far from both ends would have been found by their runs, unless they are few.
    """
    reach = REACH_A_LABEL * labels + REACH_TOKENS
    if last - first <= 2 * reach:
        return np.arange(first, last)
    words = text.words
    begin = first + int(np.searchsorted(words[first:last], words[first + reach]))
    end = first + int(np.searchsorted(words[first:last], words[last - reach]))
    return np.concatenate((np.arange(first, begin), np.arange(end, last)))


def _divide_block(
    i0: int, h0: int, i1: int, h1: int, opened: bool, closed: bool
) -> list[tuple[int, int, int, int, bool, bool]]:
    """Return the parts of a block to match (text and labels from, to; opened, closed)."""
    if (i1 - i0) * (h1 - h0) <= LARGEST_CELLS:
        return [(i0, h0, i1, h1, opened, closed)]
    side = int(LARGEST_CELLS**0.5) // 2
    parts = []
    if opened:
        parts.append((i0, h0, min(i0 + side, i1), min(h0 + side, h1), True, False))
    if closed:
        first = (max(i1 - side, i0), max(h1 - side, h0))
        if not parts or (first[0] >= parts[0][2] and first[1] >= parts[0][3]):
            parts.append((*first, i1, h1, False, True))
    return parts


def _run_length(text: np.ndarray, heard: np.ndarray) -> int:
    """Return how many tokens a run has: `CHANCE_RUNS` of that length agree by chance.

    A token of the text and a label agree by chance with the probability that both are the same
    class, sum over classes c of p_text(c) p_heard(c): tokens that are not equally frequent agree
    more often.
    """
    classes = 1 + max(text.max(initial=0), heard.max(initial=0))
    pairs = len(text) * len(heard)
    same = np.dot(np.bincount(text, minlength=classes), np.bincount(heard, minlength=classes))
    if not 0 < same < pairs or pairs <= CHANCE_RUNS:
        return 1
    return int(np.ceil(np.log(pairs / CHANCE_RUNS) / np.log(pairs / same)))


def _hashes(ids: np.ndarray, length: int) -> np.ndarray:
    """Return the hashes (N - length + 1,) of all runs of a length."""
    hashes = np.zeros(max(len(ids) - length + 1, 0), np.uint64)
    for step in range(length if len(hashes) else 0):
        hashes = (
            hashes * np.uint64(0x9E3779B97F4A7C15)
            + ids[step : step + len(hashes)].astype(np.uint64)
            + np.uint64(1)
        )
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _find_runs(text: np.ndarray, heard: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return where runs of equal tokens begin in text and labels, by label, and their lengths."""
    length = _run_length(text, heard)
    written, said = _hashes(text, length), _hashes(heard, length)
    order = np.argsort(written, kind="stable")
    first = np.searchsorted(written[order], said, "left")
    counts = np.searchsorted(written[order], said, "right") - first
    counts[counts > MOST_PLACES] = 0
    labels = np.repeat(np.arange(len(said)), counts)
    nth = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + nth], labels, length


def _find_fragments(text: np.ndarray, heard: np.ndarray) -> list[_Fragment]:
    """Return fragments, the one with most agreeing tokens first; no run is in two."""
    starts, labels, length = _find_runs(text, heard)
    weights = np.full(len(starts), float(length))
    before = np.full(len(starts), -1, np.int64)
    for k in range(1, len(starts)):
        low = max(0, k - LOOK_BACK)
        # weight[k] = max(length, max over earlier j of weight[j] + new tokens): where runs overlap,
        # only the tokens that they do not share are new. Of equal ones the nearest goes before.
        ahead, beside = starts[k] - starts[low:k], labels[k] - labels[low:k]
        shorter = np.minimum(ahead, beside)
        fits = (shorter > 0) & (np.abs(ahead - beside) <= SLACK_SHARE * shorter)
        if not fits.any():
            continue
        gain = np.where(fits, weights[low:k] + np.minimum(shorter, length), -np.inf)
        best = len(gain) - 1 - int(np.argmax(gain[::-1]))
        if gain[best] > weights[k]:
            weights[k] = gain[best]
            before[k] = low + best
    used = np.zeros(len(starts), np.bool_)
    fragments = []
    for k in np.argsort(-weights, kind="stable").tolist():
        chain = []
        at = k
        while at >= 0 and not used[at]:
            used[at] = True
            chain.append(at)
            at = int(before[at])
        weight = weights[k] - (weights[at] if at >= 0 else 0.0)
        if weight >= PASSAGE_TOKENS:
            places = np.array(chain[::-1])
            middle = length // 2
            fragments.append(
                _Fragment(starts[places] + middle, labels[places] + middle, float(weight), length)
            )
    return sorted(fragments, key=lambda fragment: -fragment.weight)


def _find_best_chain(fragments: list[_Fragment]) -> list[_Fragment]:
    """Return the heaviest fragments that ascend in the text and in the labels."""
    chosen = sorted(fragments[:MOST_FRAGMENTS], key=lambda fragment: fragment.box[0])
    boxes = np.array([fragment.box for fragment in chosen]).reshape(-1, 4)
    totals = np.array([fragment.weight for fragment in chosen])
    before = np.full(len(chosen), -1, np.int64)
    for k in range(1, len(chosen)):
        fits = (boxes[:k, 1] < boxes[k, 0]) & (boxes[:k, 3] < boxes[k, 2])
        if fits.any():
            best = int(np.argmax(np.where(fits, totals[:k], -np.inf)))
            totals[k] += totals[best]
            before[k] = best
    chain = []
    at = int(np.argmax(totals)) if len(chosen) else -1
    while at >= 0:
        chain.append(chosen[at])
        at = int(before[at])
    return chain[::-1]


def _choose_anchors(chain: list[_Fragment]) -> list[tuple[int, int]]:
    """Return (token, label) of runs of a chain, some tokens apart: known to be spoken there.

    Between two fragments the match is free to choose where to jump.
    """
    anchors: list[tuple[int, int]] = []
    for number, fragment in enumerate(chain):
        supported = _count_support(fragment) >= SUPPORT_TOKENS
        if number:
            supported &= fragment.text >= fragment.text[0] + SUPPORT_REACH
        if number < len(chain) - 1:
            supported &= fragment.text <= fragment.text[-1] - SUPPORT_REACH
        for i, h in zip(fragment.text[supported].tolist(), fragment.labels[supported].tolist()):
            if not anchors or (i - anchors[-1][0] >= ANCHORS_APART and h > anchors[-1][1]):
                anchors.append((i, h))
    return anchors


def _count_support(fragment: _Fragment) -> np.ndarray:
    """Return how many tokens agree near each run of a fragment, each token counted once."""
    own = np.minimum(
        np.diff(fragment.text, prepend=fragment.text[0] - fragment.length), fragment.length
    )
    sums = np.append(0, np.cumsum(own))
    first = np.searchsorted(fragment.text, fragment.text - SUPPORT_REACH, "left")
    last = np.searchsorted(fragment.text, fragment.text + SUPPORT_REACH, "right")
    return sums[last] - sums[first]


# Passages that are read twice: a match that begins in one reading and ends in the other takes the
# better one, whole.
#
# In such a match there is, between two words that follow each other in the text, speech that begins
# as the text goes
# on and ends as the text before it does. At most `SLACK_SHARE` of it is in neither reading.


def with_whole_readings(match: TokenMatch, text: TextTokens, heard: HeardTokens) -> TokenMatch:
    """Return a match in which passages that are read twice are in one reading.

    Args:
        match: L tokens.
        text: L tokens.
        heard: H labels.
    """
    labels = match.labels.copy()
    at = 0
    while True:
        met = np.flatnonzero(labels >= 0)
        gaps = np.flatnonzero(
            (np.diff(labels[met]) > PASSAGE_TOKENS)
            & (np.diff(met) <= PASSAGE_TOKENS)
            & (met[:-1] >= at)
        )
        if not len(gaps):
            return TokenMatch(labels, match.spoken)
        before = int(met[gaps[0]])
        after = int(met[gaps[0] + 1])
        _take_better_reading(labels, text, heard, before, after)
        at = before + 1


def _take_better_reading(
    labels: np.ndarray, text: TextTokens, heard: HeardTokens, before: int, after: int
) -> None:
    """Change the labels on one side of the speech between two tokens, if it repeats these."""
    first = int(labels[before]) + 1
    last = int(labels[after])
    reach = last - first
    ahead = np.arange(before + 1, min(before + 1 + reach, len(labels)))
    behind = np.arange(max(after - reach, 0), after)
    head = _match_once(text.some(ahead), heard, (first, last), opened=True)
    tail = _match_once(text.some(behind), heard, (first, last), closed=True)
    head[np.cumsum(head == -2) > 0] = -2  # a reading is over where words are jumped over
    tail[np.cumsum(tail[::-1] == -2)[::-1] > 0] = -2
    again = ahead[head >= -1]
    back = behind[tail >= -1]
    head, tail = head[head >= -1], tail[tail >= -1]
    ends = max(head, default=-1)
    begins = min(tail[tail >= 0], default=-1)
    if (
        len(again) + len(back) < PASSAGE_TOKENS
        or not 0 <= ends < begins <= ends + 1 + SLACK_SHARE * reach
    ):
        return
    gains = [_nats(text, heard, again, head), _nats(text, heard, back, tail)]
    first_reading = gains[0] - _nats(text, heard, again, labels[again])
    second_reading = gains[1] - _nats(text, heard, back, labels[back])
    if first_reading >= second_reading:
        labels[again] = head
    else:
        labels[back] = tail


def _match_once(
    text: TextTokens,
    heard: HeardTokens,
    block: tuple[int, int],
    *,
    opened: bool = False,
    closed: bool = False,
) -> np.ndarray:
    """Return the label of each token, -1 for none, -2 for tokens that are jumped over."""
    classes, rows = np.unique(text.ids, return_inverse=True)
    first, last = block
    own = TextTokens(rows, text.words, text.ends)
    match, _ = match_block(
        own, heard.odds(classes, first, last), np.zeros(last - first + 1, np.bool_), opened, closed
    )
    labels = np.where(match.labels >= 0, match.labels + first, -1)
    return np.where(match.spoken, labels, -2)


def _nats(text: TextTokens, heard: HeardTokens, tokens: np.ndarray, labels: np.ndarray) -> float:
    """Return by how many nats labels, -1 for none, speak for tokens."""
    met = labels >= 0
    if met.any():
        unwritten = labels[met].max() - labels[met].min() + 1 - met.sum()
    else:
        unwritten = 0
    odds = heard.odds_at(text.ids[tokens[met]], labels[met]).sum()
    return float(odds - UNHEARD_NATS * np.count_nonzero(~met) - UNWRITTEN_NATS * unwritten)
