"""Tangents of occupancies on the CPU, in batches: what cannot be trusted to the fast kernel is left to logarithms."""

from __future__ import annotations

import math

import numpy as np
import torch

from ctc_align.kernels import cpu_log, memory
from ctc_align.kernels.cpu_problem import deal
from ctc_align.kernels.cpu_slow import ROWS_BYTES, Slow
from ctc_align.topology import Topology

NOTHING = np.empty(0)


class SlowTangents(Slow):
    """A batch and its posteriors (B, T, C), those of the wildcard (B, T) or None, and a direction (B, T, C), one
    utterance of which is done at a time."""

    def __init__(
        self,
        log_probs: torch.Tensor,
        topology: Topology,
        lengths: np.ndarray,
        wildcard: torch.Tensor | None,
        posteriors: torch.Tensor,
        direction: torch.Tensor,
    ) -> None:
        super().__init__(log_probs, topology, lengths, wildcard)
        self.posteriors, self.direction = posteriors, direction

    def differentiate(self, b: int, scores: np.ndarray, out: np.ndarray) -> None:
        """Its total; and its tangents to `out` (B, T, C), zeros before."""
        self.add_up(b, scores, NOTHING, NOTHING)
        length, size = int(self.lengths[b]), int(self.topology.states[b])
        if scores[b] == -np.inf or not length:
            return
        moves = self._moves(b)
        if np.isnan(scores[b]) or moves is None:
            out[b, :length] = np.nan
            return
        direction, own, scale = moves
        block = min(length, max(math.isqrt(length - 1) + 1, ROWS_BYTES // (16 * (size + 2))))
        memory.require(
            16 * (size + 2) * (block + -(-length // block)), f"tangents of {length} frames x {size} states", b
        )
        made, (x, stride) = np.zeros(direction.shape), self._row(b)
        cpu_log.tangents(x, stride, length, *self._ways(b, size), self._extra(b), block, direction, own, made)
        out[b, :length] = made * scale

    def _moves(self, b: int) -> tuple[np.ndarray, np.ndarray, float] | None:
        """The direction (T, C) in small numbers with a mean of 0 in each frame, the wildcard's, and their scale; None
        where there is an infinite move, or none that is a number, of what a path meets."""
        length = int(self.lengths[b])
        weights, moves = (
            each[b, :length].to("cpu", torch.float64).numpy() for each in (self.posteriors, self.direction)
        )
        moves = np.where(weights == 0, 0.0, moves)
        if not np.isfinite(moves).all():
            return None
        scale = float(np.abs(moves).max()) or 1.0
        moves /= scale
        means = (weights * moves).sum(1)
        return np.ascontiguousarray(moves - means[:, None]), -means, scale


def fill(slow: SlowTangents, scores: np.ndarray, out: np.ndarray) -> None:
    """Totals of all utterances, and their tangents to `out` (B, T, C), zeros before."""

    def differentiate(todo: np.ndarray) -> None:
        for b in todo.tolist():
            slow.differentiate(b, scores, out)

    deal(lambda: differentiate, slow.lengths * slow.topology.states)
