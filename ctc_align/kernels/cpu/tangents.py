"""Tangents of occupancies on the CPU, in batches: what cannot be trusted to the fast kernel is left to logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import log_sums, tangent_sums
from ctc_align.kernels.cpu.general_kernels import ROWS_BYTES, Slow
from ctc_align.kernels.cpu.problem import Problem, aligned, deal, flat, in_numpy, problem, vectors_of
from ctc_align.kernels.cpu.simd import WIDTH
from ctc_align.kernels.cpu.viterbi import STRIP
from ctc_align.lattice.topology import Topology

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
        memory_limits.require(
            16 * (size + 2) * (block + -(-length // block)), f"tangents of {length} frames x {size} states", b
        )
        made, (x, stride) = np.zeros(direction.shape), self._row(b)
        log_sums.tangents(x, stride, length, *self._ways(b, size), self._extra(b), block, direction, own, made)
        out[b, :length] = made * scale

    def _moves(self, b: int) -> tuple[np.ndarray, np.ndarray, float] | None:
        """The direction (T, C) in small numbers with a mean of 0 in each frame, the wildcard's, and their scale; None
        where there is an infinite move, or none that is a number, of what a path meets."""
        length = int(self.lengths[b])
        weights, moves = (in_numpy(each[b, :length]).astype(np.float64) for each in (self.posteriors, self.direction))
        moves = np.where(weights == 0, 0.0, moves)
        if not np.isfinite(moves).all():
            return None
        scale = float(np.abs(moves).max()) or 1.0
        moves /= scale
        means = (weights * moves).sum(1)
        return np.ascontiguousarray(moves - means[:, None]), -means, scale


def fill(slow: SlowTangents, scores: np.ndarray, out: np.ndarray) -> None:
    """Totals of all utterances, and their tangents to `out` (B, T, C), zeros before."""
    cells = slow.lengths * slow.topology.states

    def differentiate(todo: np.ndarray) -> None:
        for b in todo.tolist():
            slow.differentiate(b, scores, out)

    if out.dtype == np.float64 or slow.topology.detours is not None:
        deal(lambda: differentiate, cells)
        return
    given = problem(slow.log_probs, slow.topology, torch.from_numpy(slow.lengths), slow.wildcard)
    direction, known = _in_a_row(slow.direction), _in_a_row(slow.posteriors)
    row, *steps = _in_a_row(torch.from_numpy(out))[:4]

    def make() -> Callable[[np.ndarray], None]:
        room = _room(given, slow.topology.states, slow.lengths)

        def tangents(todo: np.ndarray) -> None:
            while len(todo):
                done = tangent_sums.tangents(*given, todo, room, direction, known, row, tuple(steps), scores)
                differentiate(todo[done : done + 1])
                todo = todo[done + 1 :]

        return tangents

    deal(make, cells)


def _in_a_row(given: torch.Tensor) -> tuple[Any, ...]:
    """What `tangent_sums.tangents` takes of float32 (B, T, C), in whichever order they lie."""
    given = given.cpu()
    strides = given.stride()
    return flat(given), *strides, strides[2] == 1, given.shape[2]


def _room(given: Problem, states: np.ndarray, frames: np.ndarray) -> tuple[Any, ...]:
    """What `tangent_sums.tangents` needs for utterances of so many states and frames."""
    classes, general = given.source[1], bool(given.general.any())
    most, longest, widths = int(states.max()), int(frames.max()), vectors_of(states) * WIDTH
    used, vectors = min(most, classes + 1), vectors_of(most)
    width, row = vectors * WIDTH, (vectors + (vectors - 1) // STRIP + 1) * WIDTH
    block = min(max(math.isqrt(longest), ROWS_BYTES // (24 * width)), longest) // WIDTH * WIDTH + WIDTH
    # Each utterance's own: the longest and the one with most states may be two.
    kept = int((np.minimum(block, frames + WIDTH) * widths).max())
    saved = int((-(-frames // block) * (widths + widths // STRIP + WIDTH)).max())
    tile, tiles = (classes + 1 if given.dense else used) * WIDTH, -(-longest // WIDTH)
    memory_limits.require(24 * (kept + saved) + 8 * tiles * tile, "forward passes with tangents")
    emitted = WIDTH * max(STRIP * WIDTH, width)
    even = emitted if general else 0
    real, whole = np.float32, np.int32
    row_of_class, used_classes, row_of_used, rows, flags, *rest = aligned(
        (classes + 1, whole),
        (used, np.int64),
        (used, np.int64),
        (2 * width, whole),
        (4 * (vectors + 1), np.uint16),
        *[(4 * row, real), (2 * row, whole)],
        *[(4 * (width + WIDTH), real), (2 * (width + WIDTH), whole)],
        *[(tile, real), (tile, real), (tile, whole), (WIDTH, real), (tiles * tile, real), (tiles * tile, real)],
        *[(emitted, real)] * 2,
        *[(emitted, whole), (even, real), (even, real), (even, whole)],
        *[(8 * WIDTH, real), (4 * WIDTH, whole)],
        *[(4 * kept, real), (2 * kept, whole)],
        *[(WIDTH * width, real), (WIDTH * width * general, real)],
        *[(WIDTH * WIDTH, real), (WIDTH * WIDTH, real), (WIDTH, whole), (WIDTH, whole)],
        *[(4 * saved, real), (2 * saved, whole)],
    )
    row_of_class.fill(-1)
    parts = iter(rest)
    groups = [tuple(next(parts) for _ in range(count)) for count in (2, 2, 6, 6, 2, 2, 6, 2)]
    return (row_of_class, used_classes, row_of_used, rows, flags, *groups, block)
