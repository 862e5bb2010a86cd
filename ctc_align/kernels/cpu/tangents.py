"""Tangents of occupancies on the CPU, in batches: by `tangent_sums`, and what that refuses by `log_sums`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import log_sums, tangent_sums
from ctc_align.kernels.cpu.general_kernels import ROWS_BYTES, GeneralKernels
from ctc_align.kernels.cpu.problem import FlatProblem, aligned, deal, flat, flat_problem, in_numpy, vectors_of
from ctc_align.kernels.cpu.simd import WIDTH
from ctc_align.kernels.cpu.viterbi import STRIP
from ctc_align.lattice.topology import Topology

NOTHING = np.empty(0)


class GeneralTangents(GeneralKernels):
    """A batch with its posteriors (B, T, C) and a direction (B, T, C), whose utterances are processed one at a time."""

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
        """Write the total score, and the tangents to `out` (B, T, C), zeros before."""
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
        """Return the direction (T, C), scaled and with a mean of 0 in each frame, the wildcard's, and the scale; None
        if a class with a posterior has a move that is infinite or NaN."""
        length = int(self.lengths[b])
        weights, moves = (in_numpy(each[b, :length]).astype(np.float64) for each in (self.posteriors, self.direction))
        moves = np.where(weights == 0, 0.0, moves)
        if not np.isfinite(moves).all():
            return None
        scale = float(np.abs(moves).max()) or 1.0
        moves /= scale
        means = (weights * moves).sum(1)
        return np.ascontiguousarray(moves - means[:, None]), -means, scale


def fill(slow: GeneralTangents, scores: np.ndarray, out: np.ndarray) -> None:
    """Write the total scores of all utterances, and their tangents to `out` (B, T, C), zeros before."""
    cells = slow.lengths * slow.topology.states

    def differentiate(todo: np.ndarray) -> None:
        for b in todo.tolist():
            slow.differentiate(b, scores, out)

    if out.dtype == np.float64 or slow.topology.detours is not None:
        deal(lambda: differentiate, cells)
        return
    inputs = flat_problem(slow.log_probs, slow.topology, slow.lengths, slow.wildcard)
    direction, known = _in_a_row(slow.direction), _in_a_row(slow.posteriors)
    row, *steps = _in_a_row(torch.from_numpy(out))[:4]

    def make() -> Callable[[np.ndarray], None]:
        scratch = _scratch(inputs, slow.topology.states, slow.lengths)

        def tangents(todo: np.ndarray) -> None:
            while len(todo):
                done = tangent_sums.tangents(*inputs, todo, scratch, direction, known, row, tuple(steps), scores)
                differentiate(todo[done : done + 1])
                todo = todo[done + 1 :]

        return tangents

    deal(make, cells)


def _in_a_row(inputs: torch.Tensor) -> tuple[Any, ...]:
    """Return what `tangent_sums.tangents` takes of float32 values (B, T, C) of any memory order."""
    inputs = inputs.cpu()
    strides = inputs.stride()
    return flat(inputs), *strides, strides[2] == 1, inputs.shape[2]


def _scratch(inputs: FlatProblem, states: np.ndarray, frames: np.ndarray) -> tuple[Any, ...]:
    """Return the arrays that `tangent_sums.tangents` needs for utterances of so many states and frames."""
    classes, general = inputs.source[1], bool(inputs.general.any())
    most, longest, widths = int(states.max()), int(frames.max()), vectors_of(states) * WIDTH
    used, vectors = min(most, classes + 1), vectors_of(most)
    width, row = vectors * WIDTH, (vectors + (vectors - 1) // STRIP + 1) * WIDTH
    block = min(max(math.isqrt(longest), ROWS_BYTES // (24 * width)), longest) // WIDTH * WIDTH + WIDTH
    # By utterance: the longest and the one with most states may be two.
    kept = int((np.minimum(block, frames + WIDTH) * widths).max())
    saved = int((-(-frames // block) * (widths + widths // STRIP + WIDTH)).max())
    tile, tiles = (classes + 1 if inputs.dense else used) * WIDTH, -(-longest // WIDTH)
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
