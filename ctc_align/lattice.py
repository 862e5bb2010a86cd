"""Tokens to topologies: which paths there are. Integers only, no floats, no device.

A topology is a row of states per utterance. From frame to frame a path stays in its state, steps to the next, or,
where `skip` allows it, skips one. That is enough for CTC (blank between tokens, skipped unless two equal tokens meet)
and for segmentation without blanks (each phone a few states, optional silence between words).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctc_align.errors import KernelError

MAX_CLASS = 2**31 - 1


@dataclass(frozen=True)
class Topology:
    """States of B utterances, padded to S = the longest.

    Attributes:
        emit: (B, S) int32, the class (column of the log-probs) that each state emits; 0 in the padding.
        skip: (B, S) bool, whether the state may be entered from two states before.
        token: (B, S) int32, index of the token that the state belongs to, -1 for blank, silence and padding.
        states: (B,) int64, number of states of each utterance.
        starts: (B,) int64, 1 or 2: how many of the first states a path may begin in.
        finals: (B,) int64, 1 or 2: how many of the last states a path may end in.
        min_frames: (B,) int64, length of the shortest path.
    """

    emit: np.ndarray
    skip: np.ndarray
    token: np.ndarray
    states: np.ndarray
    starts: np.ndarray
    finals: np.ndarray
    min_frames: np.ndarray

    def __post_init__(self) -> None:
        batch, width = self.emit.shape
        if any(field.shape != (batch, width) for field in (self.skip, self.token)) or any(
            field.shape != (batch,) for field in (self.states, self.starts, self.finals, self.min_frames)
        ):
            raise KernelError(f"topology: expected emit, skip and token ({batch}, {width}), the others ({batch},)")
        if not batch:
            return
        ends = np.minimum(self.states, 2)
        for name, values, low, high in (
            ("states", self.states, 1, width),
            ("starts", self.starts, 1, ends),
            ("finals", self.finals, 1, ends),
            ("emit", self.emit.min(1), 0, MAX_CLASS),
        ):
            bad = (values < low) | (values > high)
            if bad.any():
                b = int(np.argmax(bad))
                raise KernelError(f"topology: {name} of utterance {b} is out of range: {int(values[b])}")

    @property
    def batch(self) -> int:
        return len(self.states)

    @property
    def max_class(self) -> int:
        """The highest class that any state emits (-1 for an empty batch)."""
        return int(self.emit.max()) if self.emit.size else -1


@dataclass(frozen=True)
class Row:
    """The states of one utterance before padding; fields as in `Topology`."""

    emit: np.ndarray
    skip: np.ndarray
    token: np.ndarray
    starts: int
    finals: int
    min_frames: int


def stack(rows: Sequence[Row]) -> Topology:
    """Pad the rows to one batch."""
    width = max((len(row.emit) for row in rows), default=0)
    emit = np.zeros((len(rows), width), np.int32)
    skip = np.zeros((len(rows), width), np.bool_)
    token = np.full((len(rows), width), -1, np.int32)
    for b, row in enumerate(rows):
        size = len(row.emit)
        emit[b, :size], skip[b, :size], token[b, :size] = row.emit, row.skip, row.token
    return Topology(
        emit,
        skip,
        token,
        states=np.array([len(row.emit) for row in rows], np.int64),
        starts=np.array([row.starts for row in rows], np.int64),
        finals=np.array([row.finals for row in rows], np.int64),
        min_frames=np.array([row.min_frames for row in rows], np.int64),
    )


def ctc(targets: Sequence[Sequence[int] | np.ndarray], blank: int = 0) -> Topology:
    """CTC (Graves et al. 2006): blank, token, blank, …, token, blank; S = 2L + 1 states.

    Args:
        targets: B sequences of token ids, none of them `blank`.
        blank: the class of the blank.

    Raises:
        KernelError: a target holds the blank, a negative id or what is no whole number; the blank is negative.

    >>> ctc([[3, 3, 5]]).emit.tolist(), ctc([[3, 3, 5]]).min_frames.tolist()
    ([[0, 3, 0, 3, 0, 5, 0]], [4])
    """
    if not 0 <= blank <= MAX_CLASS:
        raise KernelError(f"blank: expected the index of a class, met {blank}")
    return stack([_ctc_row(_ids(target, f"target {b}"), blank, b) for b, target in enumerate(targets)])


def _ids(values: Sequence[int] | np.ndarray, whose: str) -> np.ndarray:
    """A row of token ids as int64, each one the index of a class."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise KernelError(f"{whose}: expected a row of token ids (L,), met {array.dtype} of shape {array.shape}")
    bad = (array < 0) | (array > MAX_CLASS)
    if bad.any():
        place = int(np.argmax(bad))
        what = "is negative" if array[place] < 0 else "is no class"
        raise KernelError(f"{whose}: token {place} ({int(array[place])}) {what}; targets hold token ids")
    return array.astype(np.int64)


def _ctc_row(target: np.ndarray, blank: int, b: int) -> Row:
    if (target == blank).any():
        place = int(np.argmax(target == blank))
        raise KernelError(f"target {b}: token {place} ({blank}) is the blank; targets hold token ids without blanks")
    size = 2 * len(target) + 1
    emit = np.full(size, blank, np.int32)
    emit[1::2] = target
    token = np.full(size, -1, np.int32)
    token[1::2] = np.arange(len(target))
    skip = np.zeros(size, np.bool_)
    skip[3::2] = target[1:] != target[:-1]
    repeats = int(np.count_nonzero(target[1:] == target[:-1]))
    # An empty transcript is the blank state alone: one start, one end, and no frame is needed.
    ends = min(2, size)
    return Row(emit, skip, token, ends, ends, len(target) + repeats)


def segmentation(
    targets: Sequence[Sequence[int] | np.ndarray],
    words: Sequence[Sequence[int] | np.ndarray],
    states_per_token: int,
    silence: int,
) -> Topology:
    """No blank: every token is `states_per_token` states in a row, optional silence at the ends and between words.

    Token k emits the classes k * states_per_token … + states_per_token - 1, one or more frames each.

    Args:
        targets: B sequences of token indices.
        words: for each target, the word that each token belongs to; silence may stand where the word changes.
        states_per_token: states of one token.
        silence: the class of the silence.

    Raises:
        KernelError: rows that do not go together, ids or numbers that are none.

    >>> segmentation([[0, 1]], [[0, 1]], 2, 9).emit.tolist()
    [[9, 0, 1, 9, 2, 3, 9]]
    """
    if states_per_token < 1 or not 0 <= silence <= MAX_CLASS:
        raise KernelError(
            f"expected at least one state per token and the index of a class as silence, "
            f"met states_per_token {states_per_token}, silence {silence}"
        )
    if len(targets) != len(words):
        raise KernelError(f"words: expected {len(targets)} rows as in targets, met {len(words)}")
    rows = []
    for b, (target, word) in enumerate(zip(targets, words)):
        units = _ids(target, f"target {b}")
        if len(units) != len(word):
            raise KernelError(f"words of target {b}: expected {len(units)}, one for each token, met {len(word)}")
        if units.size and (int(units.max()) + 1) * states_per_token - 1 > MAX_CLASS:
            raise KernelError(f"target {b}: token {int(units.max())} has no classes")
        rows.append(_segmentation_row(units, np.asarray(word), states_per_token, silence))
    return stack(rows)


def _segmentation_row(target: np.ndarray, words: np.ndarray, states_per_token: int, silence: int) -> Row:
    emit, token, skip = [silence], [-1], [False]
    for place, unit in enumerate(target.tolist()):
        new_word = place > 0 and words[place] != words[place - 1]
        if new_word:
            emit.append(silence)
            token.append(-1)
            skip.append(False)
        for part in range(states_per_token):
            emit.append(unit * states_per_token + part)
            token.append(place)
            skip.append(new_word and part == 0)
    if len(target):
        emit.append(silence)
        token.append(-1)
        skip.append(False)
    # No token: one silence, not two in a row, or every path would be there many times.
    ends = min(2, len(emit))
    return Row(
        np.array(emit, np.int32),
        np.array(skip, np.bool_),
        np.array(token, np.int32),
        ends,
        ends,
        len(target) * states_per_token,
    )
