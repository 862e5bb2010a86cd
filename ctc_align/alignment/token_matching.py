"""The best match of a text with what was heard, token by token, with jumps over either side.

Inside a passage that is spoken, a token of the text meets a label (a log-odds), or is not heard, or a label belongs to
no token: each has a small cost. Between passages any number of words and labels are jumped over at a cost that does not
depend on how many. It is the local alignment of Smith and Waterman (1981), chained: as costs are log-odds, a passage
between two jumps pays where it is likelier than chance among so many places (Karlin and Altschul 1990).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNHEARD_NATS, UNWRITTEN_NATS = 1.6, 2.2
"""Cost of a token that is not heard, and of a label that is no token."""
JUMP_NATS = 9.0
"""Cost of a jump, beside the logarithm of the number of places that it could lead to."""
PAUSE_NATS = 1.5
"""A jump costs so much less at a pause or at the end of a sentence, at each of its ends."""
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
        return np.concatenate(([True], np.diff(self.words) != 0, [True])) if len(self.ids) else np.ones(1, np.bool_)

    def some(self, places: np.ndarray) -> TextTokens:
        """Return some of the tokens, by their places, ascending; where others are left out a sentence ends."""
        ends = self.ends[places] | (np.diff(places, prepend=-1) > 1)
        return TextTokens(self.ids[places], self.words[places], np.append(ends, True))


@dataclass(frozen=True)
class TokenMatch:
    """For each token of a text (L,) its label, -1 for none, and whether it lies in a passage that is spoken."""

    labels: np.ndarray
    spoken: np.ndarray


def match_block(
    text: TextTokens, odds: np.ndarray, pauses: np.ndarray, opened: bool = False, closed: bool = False
) -> tuple[TokenMatch, float]:
    """Return the best match of a text with all that was heard, and its score in nats; 0 is that of nothing.

    Args:
        text: L tokens, their ids rows of the odds.
        odds: (classes, H), of H labels, as `HeardTokens.odds` returns them.
        pauses: (H + 1,) bool, whether there is a pause before label h.
        opened, closed: the passage around the block is known to be spoken, before and after it.
    """
    block = _Block(text, odds, pauses, opened, closed)
    rows = max(1, MOST_CELLS // (odds.shape[1] + 1))
    starts = list(range(0, len(text.ids), rows)) or [0]
    kept = [block.first_row()]
    for first in starts[:-1]:
        *_, last = block.rows(kept[-1], first, first + rows)
        kept.append(last)
    labels = np.full(len(text.ids), -1, np.int64)
    spoken = np.zeros(len(text.ids), np.bool_)
    end = len(text.ids)
    place, score = None, 0.0
    for first, row in zip(reversed(starts), reversed(kept)):
        table = np.stack([row, *block.rows(row, first, end)])
        if place is None:
            place, score = block.end_of(table[-1])
        place = block.trace(table, first, place, labels, spoken)
        end = first
    return TokenMatch(labels, spoken), score


_SPOKEN, _JUMPED = 0, 1


class _Block:
    """The costs of a block, and the rows (2, H + 1) of its table: the best scores in a passage, and in a jump."""

    def __init__(self, text: TextTokens, odds: np.ndarray, pauses: np.ndarray, opened: bool, closed: bool) -> None:
        self.text, self.odds, self.opened, self.closed = text, odds, opened, closed
        jump = (JUMP_NATS + np.log(max(len(text.ids) * odds.shape[1], 1))) / 2
        self.costs = jump - PAUSE_NATS * pauses
        self.parts = text.parts
        self.easier = PAUSE_NATS * text.ends
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
        new = np.empty_like(row)
        spoken, jumped = new
        np.subtract(row[_SPOKEN], UNHEARD_NATS, out=spoken)
        before = row[_SPOKEN, :-1]
        if self.parts[place]:
            before = np.maximum(before, row[_JUMPED, :-1] - self.costs[:-1] + self.easier[place])
        np.maximum(spoken[1:], before + self.odds[self.text.ids[place]], out=spoken[1:])
        spoken += self.steps
        np.maximum.accumulate(spoken, out=spoken)
        spoken -= self.steps
        jumped[:] = row[_JUMPED]
        if self.parts[place + 1]:
            np.maximum(jumped, spoken - self.costs + self.easier[place + 1], out=jumped)
            np.maximum.accumulate(jumped, out=jumped)
        return new

    def end_of(self, row: np.ndarray) -> tuple[tuple[int, int], float]:
        """Return where the best path ends in the last row, (state, labels before it), and its score."""
        last = len(self.steps) - 1
        if self.closed:
            entered = row[_JUMPED, last] - self.costs[last] + self.easier[len(self.text.ids)]
            if entered > row[_SPOKEN, last]:
                return (_JUMPED, last), float(entered)
            return (_SPOKEN, last), float(row[_SPOKEN, last])
        state = int(row[_JUMPED, last] > row[_SPOKEN, last])
        return (state, last), float(row[state, last])

    def trace(
        self, table: np.ndarray, first: int, place: tuple[int, int], labels: np.ndarray, spoken: np.ndarray
    ) -> tuple[int, int]:
        """Follow the best path from the last of the rows `table` (R, 2, H + 1) to its first; return where it is."""
        state, h = place
        row = len(table) - 1
        while row > 0 or (first == 0 and h > 0):
            at = first + row
            if state == _JUMPED:
                entered = table[row, _SPOKEN, h] - self.costs[h] + self.easier[at] if self.parts[at] else -np.inf
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
                    entered = table[row - 1, _JUMPED, h - 1] - self.costs[h - 1] + self.easier[at - 1] + odds
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
