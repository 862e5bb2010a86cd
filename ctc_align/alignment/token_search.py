"""A search for a text among what was heard: where long stretches agree, then the best match between these places.

Runs of tokens that are heard as they are written are found by their hashes; those that follow each other at the pace of
speech are a fragment, as reads are chained in genome assembly (Li 2018, doi 10.1093/bioinformatics/bty191). Of the
fragments the best chain that ascends on both sides is taken. What lies between its runs is matched token by token
(`ctc_align.alignment.token_matching`), small pieces at a time, so that the memory grows with the text and not with its
square.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align.alignment.heard_tokens import HeardTokens
from ctc_align.alignment.token_matching import TextTokens, TokenMatch, match_block

WHOLE_CELLS = 200_000
"""A block of fewer cells (tokens times labels) is matched without anchors."""
CHANCE_RUNS = 300
"""Runs that may agree by chance in a whole search: longer ones are looked for where there are more places."""
ALPHABET = 16.0
"""Tokens are as hard to meet by chance as those of an alphabet of so many that are all as frequent."""
SHORTEST_RUN, LONGEST_RUN = 4, 12
MOST_PLACES = 12
"""A run that occurs more often in the text says nothing."""
REACH = 100
"""Runs further apart than so many tokens are not of one fragment."""
LOOK_BACK = 48
"""Runs before a run that may precede it in a fragment."""
FRAGMENT_TOKENS = 24
"""Tokens that the runs of a fragment have at least: those of shorter ones may agree by chance."""
SUPPORT_TOKENS, SUPPORT_REACH = 12, 25
"""So many tokens agree at least, within so many tokens of an anchor: a run at the end of a fragment may be chance."""
ANCHORS_APART = 40
"""Tokens between anchors: the blocks between them are matched exactly."""
REACH_TOKENS, REACH_A_LABEL = 400, 2
"""Tokens, and more for each label, at both ends of a block that are matched: few labels are no long text."""
MOST_FRAGMENTS = 3000
"""The heaviest ones, among which a chain is looked for."""
LARGEST_CELLS = 2**26
"""The largest block without anchors; of a larger one only the text and the labels next to its corners are matched."""


@dataclass(frozen=True)
class _Fragment:
    """Runs of one pace: their middles in text and labels, ascending; how many tokens agree, and how many in a run."""

    text: np.ndarray
    labels: np.ndarray
    weight: float
    length: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        return int(self.text[0]), int(self.text[-1]), int(self.labels[0]), int(self.labels[-1])


def search(text: TextTokens, heard: HeardTokens, pauses: np.ndarray) -> tuple[TokenMatch, float]:
    """Return the best match found of a text with what was heard, and its score in nats. Arguments as `match_block`."""
    cells = len(text.ids) * len(heard.ids)
    if cells <= WHOLE_CELLS:
        return _matched(text, heard, pauses, (0, len(heard), False, False))
    anchors = _anchors(_best_chain(_fragments(text.ids, heard.ids)))
    labels = np.full(len(text.ids), -1, np.int64)
    spoken = np.zeros(len(text.ids), np.bool_)
    score = 0.0
    corners = [(0, 0), *anchors, (len(text.ids), len(heard.ids))]
    for number, ((i0, h0), (i1, h1)) in enumerate(pairwise(corners)):
        opened, closed = number > 0, number < len(corners) - 2
        for a0, b0, a1, b1, begins, ends in _matched_parts(i0, h0, i1, h1, opened, closed):
            places = _within_reach(text, a0, a1, b1 - b0)
            part, own = _matched(text.some(places), heard, pauses, (b0, b1, begins, ends))
            labels[places], spoken[places] = part.labels, part.spoken
            score += own
    return TokenMatch(labels, spoken), score


def _matched(
    text: TextTokens, heard: HeardTokens, pauses: np.ndarray, block: tuple[int, int, bool, bool]
) -> tuple[TokenMatch, float]:
    """Return the best match of a text with a block of labels (from, to, opened, closed)."""
    h0, h1, opened, closed = block
    classes, rows = np.unique(text.ids, return_inverse=True)
    match, score = match_block(
        TextTokens(rows, text.words, text.ends), heard.odds(classes, h0, h1), pauses[h0 : h1 + 1], opened, closed
    )
    return TokenMatch(np.where(match.labels >= 0, match.labels + h0, -1), match.spoken), score


def _within_reach(text: TextTokens, first: int, last: int, labels: int) -> np.ndarray:
    """Return the places of the tokens [first, last) that are matched with so many labels: those at both ends.

    What lies far from either would have been found by its runs, unless it is short.
    """
    reach = REACH_A_LABEL * labels + REACH_TOKENS
    if last - first <= 2 * reach:
        return np.arange(first, last)
    words = text.words
    begin = first + int(np.searchsorted(words[first:last], words[first + reach]))
    end = first + int(np.searchsorted(words[first:last], words[last - reach]))
    return np.concatenate((np.arange(first, begin), np.arange(end, last)))


def _matched_parts(
    i0: int, h0: int, i1: int, h1: int, opened: bool, closed: bool
) -> list[tuple[int, int, int, int, bool, bool]]:
    """Return the blocks (text and labels from, to, opened, closed) of a block that is matched: mostly all of it."""
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


def _run_length(cells: int) -> int:
    """Return how many tokens in a row must agree such that few do by chance."""
    return int(np.clip(np.ceil(np.log(max(cells, 1) / CHANCE_RUNS) / np.log(ALPHABET)), SHORTEST_RUN, LONGEST_RUN))


def _hashes(ids: np.ndarray, length: int) -> np.ndarray:
    """Return the hashes (N - length + 1,) of all runs of a length."""
    hashes = np.zeros(max(len(ids) - length + 1, 0), np.uint64)
    for step in range(length if len(hashes) else 0):
        hashes = (
            hashes * np.uint64(0x9E3779B97F4A7C15) + ids[step : step + len(hashes)].astype(np.uint64) + np.uint64(1)
        )
        hashes ^= hashes >> np.uint64(29)
    return hashes


def _runs(text: np.ndarray, heard: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Return where runs of equal tokens begin in the text and in the labels, by label, and their length."""
    length = _run_length(len(text) * len(heard))
    written, said = _hashes(text, length), _hashes(heard, length)
    order = np.argsort(written, kind="stable")
    first = np.searchsorted(written[order], said, "left")
    counts = np.searchsorted(written[order], said, "right") - first
    counts[counts > MOST_PLACES] = 0
    labels = np.repeat(np.arange(len(said)), counts)
    nth = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + nth], labels, length


def _fragments(text: np.ndarray, heard: np.ndarray) -> list[_Fragment]:
    """Return fragments, the one with most agreeing tokens first; no run is in two."""
    starts, labels, length = _runs(text, heard)
    weights = np.full(len(starts), float(length))
    before = np.full(len(starts), -1, np.int64)
    for k in range(1, len(starts)):
        low = max(0, k - LOOK_BACK)
        ahead, beside = starts[k] - starts[low:k], labels[k] - labels[low:k]
        fits = (ahead > 0) & (beside > 0) & (ahead <= REACH) & (beside <= REACH)
        fits &= np.abs(ahead - beside) <= 4 + 0.3 * np.minimum(ahead, beside)
        if not fits.any():
            continue
        gain = np.where(fits, weights[low:k] + np.minimum(np.minimum(ahead, beside), length), -np.inf)
        gain -= 0.1 * np.abs(ahead - beside)
        best = int(np.argmax(gain))
        if gain[best] > weights[k]:
            weights[k], before[k] = gain[best], low + best
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
        if weight >= FRAGMENT_TOKENS:
            places = np.array(chain[::-1])
            middle = length // 2
            fragments.append(_Fragment(starts[places] + middle, labels[places] + middle, float(weight), length))
    return sorted(fragments, key=lambda fragment: -fragment.weight)


def _best_chain(fragments: list[_Fragment]) -> list[_Fragment]:
    """Return the heaviest fragments that ascend in the text and in the labels."""
    kept = sorted(fragments[:MOST_FRAGMENTS], key=lambda fragment: fragment.box[0])
    boxes = np.array([fragment.box for fragment in kept]).reshape(-1, 4)
    totals = np.array([fragment.weight for fragment in kept])
    before = np.full(len(kept), -1, np.int64)
    for k in range(1, len(kept)):
        fits = (boxes[:k, 1] < boxes[k, 0]) & (boxes[:k, 3] < boxes[k, 2])
        if fits.any():
            best = int(np.argmax(np.where(fits, totals[:k], -np.inf)))
            totals[k] += totals[best]
            before[k] = best
    chain = []
    at = int(np.argmax(totals)) if len(kept) else -1
    while at >= 0:
        chain.append(kept[at])
        at = int(before[at])
    return chain[::-1]


def _anchors(chain: list[_Fragment]) -> list[tuple[int, int]]:
    """Return (token, label) of runs of a chain, some tokens apart: known to be spoken there.

    Where two fragments meet the match is free to choose the place of the jump.
    """
    anchors: list[tuple[int, int]] = []
    for number, fragment in enumerate(chain):
        supported = _support(fragment) >= SUPPORT_TOKENS
        if number:
            supported &= fragment.text >= fragment.text[0] + SUPPORT_REACH
        if number < len(chain) - 1:
            supported &= fragment.text <= fragment.text[-1] - SUPPORT_REACH
        for i, h in zip(fragment.text[supported].tolist(), fragment.labels[supported].tolist()):
            if not anchors or (i - anchors[-1][0] >= ANCHORS_APART and h > anchors[-1][1]):
                anchors.append((i, h))
    return anchors


def _support(fragment: _Fragment) -> np.ndarray:
    """Return how many tokens agree in the runs near each run of a fragment, those of overlapping runs once."""
    own = np.minimum(np.diff(fragment.text, prepend=fragment.text[0] - fragment.length), fragment.length)
    sums = np.append(0, np.cumsum(own))
    first = np.searchsorted(fragment.text, fragment.text - SUPPORT_REACH, "left")
    last = np.searchsorted(fragment.text, fragment.text + SUPPORT_REACH, "right")
    return sums[last] - sums[first]
