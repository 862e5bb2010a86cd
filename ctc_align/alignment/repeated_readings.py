"""Passages that are read twice: a match that begins in one reading and ends in the other takes the better one, whole.

In such a match there is, between two words that follow each other in the text, speech that begins as the text goes on
and ends as the text before it does.
"""

from __future__ import annotations

import numpy as np

from ctc_align.alignment.heard_tokens import HeardTokens
from ctc_align.alignment.token_matching import UNHEARD_NATS, UNWRITTEN_NATS, TextTokens, TokenMatch, match_block

FEWEST_LABELS = 20
"""Less speech between two words is no second reading."""
FEWEST_TOKENS = 16
"""A passage that is read twice has at least so many tokens …"""
LEAST_NATS = 1.0
"""… for each of which its labels speak by so much on average."""
MOST_UNWRITTEN = 8
"""Inside a reading at most so many labels lie between the labels of two tokens."""
MOST_BETWEEN = 0.2
"""At most so much of the speech is in neither reading."""
NEXT_TOKENS = 4
"""Matched tokens on either side of the speech are at most so far apart in the text."""


def with_whole_readings(match: TokenMatch, text: TextTokens, heard: HeardTokens) -> TokenMatch:
    """Return a match of a text with what was heard in which passages that are read twice are in one reading.

    Args:
        match: L tokens.
        text: L tokens.
        heard: H labels.
    """
    labels = match.labels.copy()
    at = 0
    while True:
        met = np.flatnonzero(labels >= 0)
        gaps = np.flatnonzero((np.diff(labels[met]) > FEWEST_LABELS) & (np.diff(met) <= NEXT_TOKENS) & (met[:-1] >= at))
        if not len(gaps):
            return TokenMatch(labels, match.spoken)
        before, after = int(met[gaps[0]]), int(met[gaps[0] + 1])
        _take_better_reading(labels, text, heard, before, after)
        at = before + 1


def _take_better_reading(labels: np.ndarray, text: TextTokens, heard: HeardTokens, before: int, after: int) -> None:
    """Change, in place, the labels of tokens on one side of the speech between two matched tokens, if it repeats."""
    first, last = int(labels[before]) + 1, int(labels[after])
    reach = last - first
    ahead = np.arange(before + 1, min(before + 1 + reach, len(labels)))
    behind = np.arange(max(after - reach, 0), after)
    head = _matched(text.some(ahead), heard, (first, last), opened=True)
    tail = _matched(text.some(behind), heard, (first, last), closed=True)
    head[np.cumsum(_breaks(head)) > 0] = -2
    tail[np.cumsum(_breaks(tail[::-1]))[::-1] > 0] = -2
    again, back = ahead[head >= -1], behind[tail >= -1]
    head, tail = head[head >= -1], tail[tail >= -1]
    ends, begins = max(head, default=-1), min(tail[tail >= 0], default=-1)
    if len(again) + len(back) < FEWEST_TOKENS or not 0 <= ends < begins <= ends + 1 + MOST_BETWEEN * reach:
        return
    gains = [_nats(text, heard, again, head), _nats(text, heard, back, tail)]
    if any(gain < LEAST_NATS * len(own) for gain, own in zip(gains, (again, back))):
        return
    first_reading = gains[0] - _nats(text, heard, again, labels[again])
    second_reading = gains[1] - _nats(text, heard, back, labels[back])
    if first_reading >= second_reading:
        labels[again] = head
    else:
        labels[back] = tail


def _breaks(labels: np.ndarray) -> np.ndarray:
    """Return at which tokens a passage is over: they, or labels before them, are jumped over."""
    met = np.flatnonzero(labels >= 0)
    breaks = labels == -2
    breaks[met[1:]] |= np.abs(np.diff(labels[met])) > MOST_UNWRITTEN
    return breaks


def _matched(
    text: TextTokens, heard: HeardTokens, block: tuple[int, int], *, opened: bool = False, closed: bool = False
) -> np.ndarray:
    """Return the label of each token, -1 for none, -2 for tokens that are jumped over."""
    classes, rows = np.unique(text.ids, return_inverse=True)
    first, last = block
    own = TextTokens(rows, text.words, text.ends)
    match, _ = match_block(own, heard.odds(classes, first, last), np.zeros(last - first + 1, np.bool_), opened, closed)
    labels = np.where(match.labels >= 0, match.labels + first, -1)
    return np.where(match.spoken, labels, -2)


def _nats(text: TextTokens, heard: HeardTokens, tokens: np.ndarray, labels: np.ndarray) -> float:
    """Return by how many nats labels, -1 for none, speak for tokens."""
    met = labels >= 0
    unwritten = labels[met].max() - labels[met].min() + 1 - met.sum() if met.any() else 0
    odds = heard.odds_at(text.ids[tokens[met]], labels[met]).sum()
    return float(odds - UNHEARD_NATS * np.count_nonzero(~met) - UNWRITTEN_NATS * unwritten)
