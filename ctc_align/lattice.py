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
        KernelError: a target holds the blank or a negative id.

    >>> ctc([[3, 3, 5]]).emit.tolist(), ctc([[3, 3, 5]]).min_frames.tolist()
    ([[0, 3, 0, 3, 0, 5, 0]], [4])
    """
    return stack([_ctc_row(np.asarray(target, np.int64).reshape(-1), blank, b) for b, target in enumerate(targets)])


def _ctc_row(target: np.ndarray, blank: int, b: int) -> Row:
    for bad, what in ((target == blank, "is the blank"), (target < 0, "is negative")):
        if bad.any():
            place = int(np.argmax(bad))
            raise KernelError(
                f"target {b}: token {place} ({int(target[place])}) {what}; targets hold token ids without blanks"
            )
    size = 2 * len(target) + 1
    emit = np.full(size, blank, np.int32)
    emit[1::2] = target
    token = np.full(size, -1, np.int32)
    token[1::2] = np.arange(len(target))
    skip = np.zeros(size, np.bool_)
    skip[3::2] = target[1:] != target[:-1]
    repeats = int(np.count_nonzero(target[1:] == target[:-1])) if len(target) else 0
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

    >>> segmentation([[0, 1]], [[0, 1]], 2, 9).emit.tolist()
    [[9, 0, 1, 9, 2, 3, 9]]
    """
    return stack(
        [_segmentation_row(np.asarray(t), np.asarray(w), states_per_token, silence) for t, w in zip(targets, words)]
    )


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
    emit.append(silence)
    token.append(-1)
    skip.append(False)
    return Row(
        np.array(emit, np.int32),
        np.array(skip, np.bool_),
        np.array(token, np.int32),
        2,
        2,
        len(target) * states_per_token,
    )
