"""Numba kernels on the CPU: the glue between torch tensors and the compiled loops.

Each utterance is walked by one thread; utterances are dealt to a few threads that live as long as the call, so that
nothing survives a fork and callers may use threads of their own. Compiled code is cached on disk beside the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Thread

import numpy as np
import torch

from ctc_align.errors import KernelError
from ctc_align.kernels import cpu_best_path, cpu_detours, cpu_log, cpu_sum
from ctc_align.lattice import Topology

FULL_BACK_POINTERS_BYTES = 32 * 2**20
"""Back-pointers of one utterance are kept whole up to this size; above it, checkpoints and a second look."""

CHECKPOINT_BYTES = 64 * 2**20
BLOCK_FRAMES = 512
EXACT_BELOW = 4096.0
"""Best paths with larger log-probs than this are found again in float64: float32 cannot tell their neighbours apart."""

ROWS_BYTES = 2**19
"""Rows of the forward pass that occupancy keeps at once: rows made twice in the cache beat rows fetched from memory."""

LOGARITHMIC_BYTES = 16 * 2**30
"""More than this, for one utterance, is refused."""


def is_compiled() -> bool:
    """Whether the compiled kernels lie in Numba's cache already; else their first use takes about 20 seconds."""
    kernels = ((cpu_best_path.utterance, "cpu_best_path.utterance"), (cpu_sum.scaled, "cpu_sum.scaled"))
    return all(any(Path(kernel.stats.cache_path or "").glob(f"{name}-*.nbi")) for kernel, name in kernels)


def best_path(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `ctc_align.kernels.best_path`."""
    x, topology, extra = _beside(_array(log_probs), topology, wildcard)
    frames = lengths.numpy()
    states = np.full(x.shape[:2], -1, np.int32)
    scores = np.empty(len(frames), np.float64)
    general = _general(topology)
    no_band = np.empty((0, 2), np.int64)

    def one(b: int) -> None:
        length, size = int(frames[b]), int(topology.states[b])
        if length == 0 or length < topology.min_frames[b]:
            scores[b] = 0.0 if length == topology.min_frames[b] else -np.inf
            return
        band = no_band if bands is None else bands[b, :length]
        if not _is_plain(topology):
            ways = _ways(topology, b, size)
            reach, *room = cpu_detours.plan(b, length, size, ways[3])
            rest = (*ways, extra[b, :length], band, reach, *room, states[b, :length])
            score = cpu_detours.utterance(*_flat(x[b, :length]), *rest)
        else:
            score = _plain_path(x[b, :length], topology, b, general[b], band, states[b, :length])
        if not score < np.inf:
            score, states[b] = np.nan, -1
        scores[b] = score

    _deal(one, frames * topology.states)
    return torch.from_numpy(states), torch.from_numpy(scores)


def _plain_path(
    x: np.ndarray, topology: Topology, b: int, general: bool | None, band: np.ndarray, states: np.ndarray
) -> float:
    size = int(topology.states[b])
    rest = (
        topology.emit[b, :size],
        topology.skip[b, :size],
        int(topology.starts[b]),
        int(topology.finals[b]),
        band,
        general,
        _pointer_block(len(x), size, x.itemsize),
        states,
    )
    score, largest = cpu_best_path.utterance(*_flat(x), *rest)
    if x.dtype == np.float32 and not (score > -np.inf and largest < EXACT_BELOW):
        score, largest = cpu_best_path.utterance(*_flat(x.astype(np.float64)), *rest)
    return score


def forward(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> torch.Tensor:
    """See `ctc_align.kernels.forward`."""
    x, topology, extra = _beside(_array(log_probs), topology, wildcard)
    scores = np.empty(len(lengths), np.float64)
    _sum(x, topology, lengths.numpy(), extra, scores, None, None)
    return torch.from_numpy(scores)


def occupancy(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """See `ctc_align.kernels.occupancy`; the posteriors of the wildcard, if there is one, come last."""
    x, topology, extra = _beside(_array(log_probs), topology, wildcard)
    scores = np.empty(len(lengths), np.float64)
    posteriors = np.zeros(x.shape, x.dtype)
    own = np.zeros(extra.shape, x.dtype)
    _sum(x, topology, lengths.numpy(), extra, scores, posteriors, own)
    classes = log_probs.shape[2]
    if wildcard is not None and x.shape[2] > classes:
        own = posteriors[:, :, classes]
    return (
        torch.from_numpy(posteriors[:, :, :classes]),
        torch.from_numpy(scores),
        None if wildcard is None else torch.from_numpy(own),
    )


def _sum(
    x: np.ndarray,
    topology: Topology,
    frames: np.ndarray,
    extra: np.ndarray,
    scores: np.ndarray,
    posteriors: np.ndarray | None,
    own: np.ndarray | None,
) -> None:
    general = _general(topology)

    def one(b: int) -> None:
        length, size = int(frames[b]), int(topology.states[b])
        if length == 0 or length < topology.min_frames[b]:
            scores[b] = 0.0 if length == topology.min_frames[b] else -np.inf
            return
        given = (*_flat(x[b, :length]), length, topology.emit[b, :size], topology.skip[b, :size])
        block = _row_block(length, 8 * (size + 2))
        out = np.empty((0, 0), x.dtype) if posteriors is None else posteriors[b, :length]
        score, trusted = np.nan, False
        if x.dtype == np.float32 and _is_plain(topology):
            ends = int(topology.starts[b]), int(topology.finals[b])
            score, trusted = cpu_sum.scaled(*given, *ends, general[b], block, out)
        if not trusted:
            if posteriors is not None:
                _refuse_if_large(b, length, size, block)
            own_out = np.empty(0, x.dtype) if own is None else own[b, :length]
            rest = (*_ways(topology, b, size), extra[b, :length], block, out, own_out)
            score = cpu_log.logarithmic(*given[:3], *rest)
        if not score < np.inf:
            score = np.nan
            if posteriors is not None:
                posteriors[b, :length] = np.nan
            if own is not None:
                own[b, :length] = np.nan
        scores[b] = score

    _deal(one, frames * topology.states)


def _is_plain(topology: Topology) -> bool:
    """Whether the fast kernels walk it; the others are for every topology."""
    return topology.detours is None and topology.all_stay


def _ways(topology: Topology, b: int, size: int) -> tuple[np.ndarray, ...]:
    """emit, skip, stay, sources, begin and end of utterance b's states."""
    fields = topology.emit[b, :size], topology.skip[b, :size], topology.stay[b, :size]
    if (detours := topology.detours) is not None:
        return *fields, detours.sources[b, :size], detours.begin[b, :size], detours.end[b, :size]
    state = np.arange(size)
    return *fields, np.empty((size, 0), np.int32), state < topology.starts[b], state >= size - topology.finals[b]


def _beside(
    x: np.ndarray, topology: Topology, wildcard: torch.Tensor | None
) -> tuple[np.ndarray, Topology, np.ndarray]:
    """The wildcard's scores (B, T) or (B, 0); for the fast kernels, which know none, as one more column of x."""
    if wildcard is None:
        return x, topology, np.empty((len(x), 0), x.dtype)
    extra = wildcard.cpu().numpy()
    if _is_plain(topology):
        emit = np.where(topology.emit < 0, np.int32(x.shape[2]), topology.emit)
        x = np.concatenate((x, extra[:, :, None]), 2)
        return x, replace(topology, emit=emit), np.empty((len(x), 0), x.dtype)
    return x, topology, np.ascontiguousarray(extra)


def _pointer_block(length: int, size: int, itemsize: int) -> int:
    """Frames per block of back-pointers; all of them while they are few."""
    lanes = (size + 1) // 2
    if length * lanes <= FULL_BACK_POINTERS_BYTES:
        return length
    return min(length, max(BLOCK_FRAMES, -(-length * lanes * 2 * itemsize // CHECKPOINT_BYTES)))


def _row_block(length: int, row_bytes: int) -> int:
    """Frames per block of kept rows: as many as there is room for, at least where kept and saved rows balance."""
    return min(length, max(math.isqrt(length - 1) + 1, ROWS_BYTES // row_bytes))


def _refuse_if_large(b: int, length: int, size: int, block: int) -> None:
    needed = 8 * (size + 2) * (block + -(-length // block))
    if needed > LOGARITHMIC_BYTES:
        raise KernelError(
            f"occupancy of utterance {b}: {length} frames x {size} states need {needed} bytes, "
            f"at most {LOGARITHMIC_BYTES} are taken; cut the utterance"
        )


def _array(log_probs: torch.Tensor) -> np.ndarray:
    """A numpy view of float32 and float64 log-probs; half precision is widened."""
    wide = log_probs if log_probs.dtype in (torch.float32, torch.float64) else log_probs.float()
    array = wide.cpu().numpy()
    # The loops gather within a row: rows must be dense, frames and utterances may lie anywhere.
    return array if array.strides[-1] == array.itemsize or array.shape[-1] < 2 else np.ascontiguousarray(array)


def _flat(x: np.ndarray) -> tuple[np.ndarray, int]:
    """(T, C) of dense rows as one row (…,) and the step from frame to frame: one compiled form for every layout."""
    frames, classes = x.shape
    stride = x.strides[0] // x.itemsize
    return np.lib.stride_tricks.as_strided(x, ((frames - 1) * stride + classes,), (x.itemsize,)), stride


def _general(topology: Topology) -> list[bool | None]:
    """None where every even state emits one class and is never skipped into (CTC's blanks), else True."""
    return [
        None
        if (topology.emit[b, :size:2] == topology.emit[b, 0]).all() and not topology.skip[b, :size:2].any()
        else True
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
    todo, errors = iter(order), []

    def work() -> None:
        try:
            for b in todo:
                one(b)
        except BaseException as error:
            errors.append(error)

    # The caller is one of the workers: a pool that it only waits for costs a quarter of a small batch's time.
    others = [Thread(target=work) for _ in range(threads - 1)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    if errors:
        raise errors[0]
