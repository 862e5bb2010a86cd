"""Numba kernels on the CPU: the glue between torch tensors and the compiled loops.

Each utterance is walked by one thread; utterances are dealt to a few threads that live as long as the call, so that
nothing survives a fork and callers may use threads of their own. Compiled code is cached on disk beside the package.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from ctc_align.kernels import cpu_best_path, cpu_sum
from ctc_align.lattice import Topology

FULL_BACK_POINTERS_BYTES = 32 * 2**20
"""Back-pointers of one utterance are kept whole up to this size; above it, checkpoints and a second look."""

CHECKPOINT_BYTES = 64 * 2**20
BLOCK_FRAMES = 512


def best_path(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, bands: np.ndarray | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `ctc_align.kernels.best_path`."""
    x = _array(log_probs)
    frames = lengths.numpy()
    states = np.full(x.shape[:2], -1, np.int32)
    scores = np.empty(len(frames), np.float64)
    even_blank = _even_is_one_class(topology)
    no_band = np.empty((0, 2), np.int64)

    def one(b: int) -> None:
        length, size = int(frames[b]), int(topology.states[b])
        if length == 0 or size == 0:
            scores[b] = 0.0 if topology.min_frames[b] == 0 else -np.inf
            return
        lanes = (size + 1) // 2
        block = length
        if length * lanes > FULL_BACK_POINTERS_BYTES:
            block = max(BLOCK_FRAMES, -(-length * lanes * 2 * x.itemsize // CHECKPOINT_BYTES))
        scores[b] = cpu_best_path.utterance(
            x[b, :length],
            topology.emit[b, :size],
            topology.skip[b, :size],
            int(topology.starts[b]),
            int(topology.finals[b]),
            no_band if bands is None else bands[b, :length],
            even_blank[b],
            min(block, length),
            states[b, :length],
        )

    _deal(one, frames * topology.states)
    return torch.from_numpy(states), torch.from_numpy(scores)


def forward(log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor) -> torch.Tensor:
    """See `ctc_align.kernels.forward`."""
    x = _array(log_probs)
    scores = np.empty(len(lengths), np.float64)
    nothing = np.empty((0, 0), x.dtype)
    _sum(x, topology, lengths.numpy(), scores, lambda b: nothing)
    return torch.from_numpy(scores)


def occupancy(log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """See `ctc_align.kernels.occupancy`."""
    x = _array(log_probs)
    frames = lengths.numpy()
    scores = np.empty(len(frames), np.float64)
    posteriors = np.zeros(x.shape, x.dtype)
    _sum(x, topology, frames, scores, lambda b: posteriors[b, : frames[b]])
    return torch.from_numpy(posteriors), torch.from_numpy(scores)


def _sum(
    x: np.ndarray,
    topology: Topology,
    frames: np.ndarray,
    scores: np.ndarray,
    posteriors: Callable[[int], np.ndarray],
) -> None:
    def one(b: int) -> None:
        length, size = int(frames[b]), int(topology.states[b])
        if length == 0 or size == 0:
            scores[b] = 0.0 if topology.min_frames[b] == 0 else -np.inf
            return
        if length < topology.min_frames[b]:
            scores[b] = -np.inf
            return
        emit, skip = topology.emit[b, :size], topology.skip[b, :size]
        ends = int(topology.starts[b]), int(topology.finals[b])
        score, trusted = np.nan, False
        if x.dtype == np.float32:
            score, trusted = cpu_sum.scaled(x[b, :length], emit, skip, *ends, posteriors(b))
        if not trusted:
            score = cpu_sum.logarithmic(x[b, :length], emit, skip, *ends, posteriors(b))
        scores[b] = score

    _deal(one, frames * topology.states)


def _array(log_probs: torch.Tensor) -> np.ndarray:
    """A numpy view of float32 and float64 log-probs; half precision is widened."""
    wide = log_probs if log_probs.dtype in (torch.float32, torch.float64) else log_probs.float()
    array = wide.cpu().numpy()
    # The loops gather within a row: rows must be dense, frames and utterances may lie anywhere.
    return array if array.strides[-1] == array.itemsize or array.shape[-1] < 2 else np.ascontiguousarray(array)


def _even_is_one_class(topology: Topology) -> list[bool]:
    """Whether every even state emits one class and is never skipped into (CTC's blanks): one lane needs no gather."""
    return [
        bool((topology.emit[b, :size:2] == topology.emit[b, 0]).all() and not topology.skip[b, :size:2].any())
        for b, size in enumerate(topology.states)
    ]


def _deal(one: Callable[[int], None], cells: np.ndarray) -> None:
    """Run `one(b)` for every utterance, the largest first, on torch's number of threads."""
    order = np.argsort(-cells, kind="stable").tolist()
    threads = min(torch.get_num_threads(), len(order))
    if threads < 2 or int(cells.sum()) < 100_000:
        for b in order:
            one(b)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, order))
