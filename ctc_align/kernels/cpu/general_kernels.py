"""Kernels for one utterance at a time, of any topology and any numbers, and their tangents.

They compute row by row in float64.

For topologies with detours, and for utterances that the fast kernels refuse: those with NaN or
+inf, and those whose sums scaled numbers cannot hold.
"""

from __future__ import annotations

import math

import numpy as np

from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import general_viterbi, log_sums
from ctc_align.kernels.cpu.problem import as_numbers
from ctc_align.lattice.topology import Topology

ROWS_BYTES = 2**19
"""Rows of the forward pass that occupancy keeps: computing rows twice in the cache beats fetching
them from memory."""
NOTHING = np.empty(0)
_UNMOVED = np.empty((0, 0))


class GeneralKernels:
    """A batch whose utterances are processed one at a time."""

    def __init__(
        self,
        log_probs: np.ndarray,
        topology: Topology,
        lengths: np.ndarray,
        wildcard: np.ndarray | None,
    ) -> None:
        self.log_probs = log_probs
        self.topology = topology
        self.lengths = lengths
        self.wildcard = wildcard

    def best_path(
        self, b: int, bands: np.ndarray | None, states: np.ndarray, scores: np.ndarray
    ) -> None:
        """Fill the utterance's row of `states` (B, T) and its score."""
        if self.is_decided(b, scores):
            return
        length = int(self.lengths[b])
        size = int(self.topology.states[b])
        if bands is None:
            band = np.empty((0, 2), np.int64)
        else:
            band = bands[b, :length]
        transitions = self._transitions(b, size)
        reach, *scratch = general_viterbi.plan(b, length, size, transitions[3])
        score = general_viterbi.utterance(
            *self._row(b), *transitions, self._extra(b), band, reach, *scratch, states[b, :length]
        )
        if not score < np.inf:
            score = np.nan
            states[b] = -1
        scores[b] = score

    def add_up(self, b: int, scores: np.ndarray, out: np.ndarray, own: np.ndarray) -> None:
        """Write the total score and the posteriors of an utterance.

        Posteriors go to `out` (B, T, C) and those of the wildcard to `own` (B, T), unless these are
        empty.
        """
        if self.is_decided(b, scores):
            return
        length = int(self.lengths[b])
        size = int(self.topology.states[b])
        x, stride = self._row(b)
        block = min(length, max(math.isqrt(length - 1) + 1, ROWS_BYTES // (8 * (size + 2))))
        posteriors = np.empty((0, 0), x.dtype)
        wild = np.empty(0, x.dtype)
        if out.ndim == 3:
            rows = block + -(-length // block)
            memory_limits.require(
                8 * (size + 2) * rows, f"occupancy of {length} frames x {size} states", b
            )
            # Dense, whatever the order of `out`: each other order would need its own compilation.
            posteriors = np.zeros((length, out.shape[2]), x.dtype)
            wild = np.zeros(length, x.dtype)
        emissions = x, stride, self._extra(b), _UNMOVED, NOTHING
        score = log_sums.log_sums(
            emissions, length, self._transitions(b, size), block, (0.0,), posteriors, wild
        )
        if not score < np.inf:
            score = np.nan
            posteriors[:], wild[:] = np.nan, np.nan
        scores[b] = score
        if out.ndim == 3:
            out[b, :length] = posteriors
        if own.ndim == 2:
            own[b, :length] = wild

    def is_decided(self, b: int, scores: np.ndarray) -> bool:
        """Return whether there are no frames, or fewer than any path needs.

        If so, write the score.
        """
        length = self.lengths[b]
        least = self.topology.min_frames[b]
        if length == 0 or length < least:
            scores[b] = 0.0 if length == least else -np.inf
            return True
        return False

    def _row(self, b: int) -> tuple[np.ndarray, int]:
        """Return the utterance's log-probs as a flat array and the step from frame to frame.

        The array is float32 or float64.
        """
        x = as_numbers(self.log_probs[b, : self.lengths[b]])
        return np.ascontiguousarray(x).reshape(-1), x.shape[1]

    def _extra(self, b: int) -> np.ndarray:
        if self.wildcard is None:
            return np.empty(0)
        return np.ascontiguousarray(as_numbers(self.wildcard[b, : self.lengths[b]]), np.float64)

    def _transitions(self, b: int, size: int) -> tuple[np.ndarray, ...]:
        """Return emit, skip, stay, sources, begin and end of the states."""
        topology = self.topology
        fields = topology.emit[b, :size], topology.skip[b, :size], topology.stay[b, :size]
        if (detours := topology.detours) is not None:
            return (
                *fields,
                detours.sources[b, :size],
                detours.begin[b, :size],
                detours.end[b, :size],
            )
        state = np.arange(size)
        return (
            *fields,
            np.empty((size, 0), np.int32),
            state < topology.starts[b],
            state >= size - topology.finals[b],
        )


class GeneralTangents(GeneralKernels):
    """A batch with posteriors and a direction, processed one utterance at a time.

    Posteriors and direction are (B, T, C).
    """

    def __init__(
        self,
        log_probs: np.ndarray,
        topology: Topology,
        lengths: np.ndarray,
        wildcard: np.ndarray | None,
        posteriors: np.ndarray,
        direction: np.ndarray,
    ) -> None:
        super().__init__(log_probs, topology, lengths, wildcard)
        self.posteriors = posteriors
        self.direction = direction

    def differentiate(self, b: int, scores: np.ndarray, out: np.ndarray) -> None:
        """Write the total score, and the tangents to `out` (B, T, C), zeros before."""
        self.add_up(b, scores, NOTHING, NOTHING)
        length = int(self.lengths[b])
        size = int(self.topology.states[b])
        if scores[b] == -np.inf or not length:
            return
        moves = self._moves(b)
        if np.isnan(scores[b]) or moves is None:
            out[b, :length] = np.nan
            return
        direction, own, scale = moves
        block = min(length, max(math.isqrt(length - 1) + 1, ROWS_BYTES // (16 * (size + 2))))
        memory_limits.require(
            16 * (size + 2) * (block + -(-length // block)),
            f"tangents of {length} frames x {size} states",
            b,
        )
        made = np.zeros(direction.shape)
        x, stride = self._row(b)
        emissions = x, stride, self._extra(b), direction, own
        log_sums.log_sums(
            emissions, length, self._transitions(b, size), block, (0.0, 0.0), made, NOTHING
        )
        out[b, :length] = made * scale

    def _moves(self, b: int) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Return the direction (T, C), the wildcard's direction, and their scale.

        The direction is scaled and has a mean of 0 in each frame. None if a class with a posterior
        has a move that is infinite or NaN.
        """
        length = int(self.lengths[b])
        weights, moves = (
            as_numbers(each[b, :length]).astype(np.float64)
            for each in (self.posteriors, self.direction)
        )
        moves = np.where(weights == 0, 0.0, moves)
        if not np.isfinite(moves).all():
            return None
        scale = float(np.abs(moves).max()) or 1.0
        moves /= scale
        means = (weights * moves).sum(1)
        return np.ascontiguousarray(moves - means[:, None]), -means, scale
