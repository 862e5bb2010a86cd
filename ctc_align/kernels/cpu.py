"""The CPU backend: Numba kernels for whole batches, dealt to threads. Compiled code is cached on disk."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from ctc_align.kernels import cpu_best_path, cpu_long_path, cpu_sum, memory
from ctc_align.kernels.cpu_long_path import LongPath
from ctc_align.kernels.cpu_problem import deal, problem, vectors_of
from ctc_align.kernels.cpu_slow import Slow
from ctc_align.topology import Topology

LONG_CELLS = 2**22
"""An utterance with more work than this is shared by the threads, if it is most of what there is to do."""

ROWS_BYTES = 2**19
"""Rows of the forward pass that occupancy keeps at once: rows made twice in the cache beat rows fetched from memory."""


def is_compiled() -> bool:
    """Whether the compiled kernels lie in Numba's cache already; else their first use takes some seconds."""
    kernels = ((cpu_best_path.walk, "cpu_best_path.walk"), (cpu_sum.scaled, "cpu_sum.scaled"))
    return all(any(Path(kernel.stats.cache_path or "").glob(f"{name}-*.nbi")) for kernel, name in kernels)


def best_path(
    log_probs: torch.Tensor,
    topology: Topology,
    lengths: torch.Tensor,
    wildcard: torch.Tensor | None = None,
    bands: np.ndarray | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `ctc_align.kernels.best_path`."""
    shape = log_probs.shape[0], log_probs.shape[1]
    memory.require(4 * shape[0] * shape[1], f"states {shape}")
    states, scores = np.full(shape, -1, np.int32), np.empty(shape[0], np.float64)
    frames = lengths.numpy()
    slow, cells = Slow(log_probs, topology, frames, wildcard), frames * topology.states
    if topology.detours is not None:
        deal(lambda todo: [slow.best_path(b, bands, states, scores) for b in todo.tolist()], cells)
        return torch.from_numpy(states), torch.from_numpy(scores)
    given = problem(log_probs, topology, lengths, wildcard)

    def walk(todo: np.ndarray) -> None:
        states_of, vectors = topology.states[todo], vectors_of(int(topology.states[todo].max()))
        choices = int((frames[todo] * vectors_of(states_of)).max())
        used = min(int(states_of.max()), log_probs.shape[2] + 1)
        rooms = tuple(cpu_long_path.room(vectors, -(-choices // vectors), used, given))
        while len(todo):
            done = cpu_best_path.walk(
                given.source,
                given.strides,
                given.fields,
                given.lengths,
                bands,
                given.general,
                given.dense,
                todo,
                (),
                rooms,
                *cpu_long_path.WHOLE,
                states,
                scores,
            )
            for b in todo[done : done + 1].tolist():
                slow.best_path(b, bands, states, scores)
            todo = todo[done + 1 :]

    short = np.ones(len(cells), np.bool_)
    for b in _long(frames, topology.states, cells).tolist():
        short[b] = False
        if not LongPath(given, b, bands, states, scores).find():
            slow.best_path(b, bands, states, scores)
    if short.any():
        deal(walk, cells, np.flatnonzero(short))
    return torch.from_numpy(states), torch.from_numpy(scores)


def _long(frames: np.ndarray, states: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The utterances that are not dealt to threads, but shared by them or too long to keep all choices."""
    if not len(cells) or int(cells.max()) < LONG_CELLS:
        return np.empty(0, np.int64)
    threads = torch.get_num_threads()
    most = (cells >= LONG_CELLS) & (cells * 2 * threads > cells.sum()) & (threads > 1)
    large = frames * vectors_of(states) * 8 > cpu_long_path.WHOLE_CHOICES_BYTES
    fits = frames > 0
    return np.flatnonzero((most | large) & fits)


def forward(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> torch.Tensor:
    """See `ctc_align.kernels.forward`."""
    scores, _, _ = _sum(log_probs, topology, lengths, wildcard, want=False)
    return scores


def occupancy(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """See `ctc_align.kernels.occupancy`; the posteriors of the wildcard, if there is one, come last."""
    scores, posteriors, own = _sum(log_probs, topology, lengths, wildcard, want=True)
    assert posteriors is not None
    return posteriors, scores, own


def _sum(
    log_probs: torch.Tensor, topology: Topology, lengths: torch.Tensor, wildcard: torch.Tensor | None, *, want: bool
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    kind = np.float64 if log_probs.dtype == torch.float64 else np.float32
    shape = tuple(log_probs.shape)
    if want:
        memory.require(np.dtype(kind).itemsize * math.prod(shape), f"posteriors {shape}")
    out = np.zeros(shape, kind) if want else None
    own = np.zeros(shape[:2], kind) if want and wildcard is not None else None
    scores, frames = np.empty(shape[0], np.float64), lengths.numpy()
    slow = Slow(log_probs, topology, frames, wildcard)
    plain = topology.detours is None and topology.all_stay and wildcard is None and kind == np.float32

    def one(b: int) -> None:
        trusted = False
        length, size = int(frames[b]), int(topology.states[b])
        if plain and length and length >= topology.min_frames[b]:
            block = min(length, max(math.isqrt(length - 1) + 1, ROWS_BYTES // (8 * (size + 2))))
            ends = int(topology.starts[b]), int(topology.finals[b])
            target = np.empty((0, 0), np.float32) if out is None else out[b, :length]
            x, stride = slow._row(b)
            scores[b], trusted = cpu_sum.scaled(
                x, stride, length, topology.emit[b, :size], topology.skip[b, :size], *ends, True, block, target
            )
            if trusted and not scores[b] < np.inf:
                scores[b], target[:] = np.nan, np.nan
        if not trusted:
            slow.add_up(b, scores, out, own)

    deal(lambda todo: [one(b) for b in todo.tolist()], frames * topology.states)
    return (
        torch.from_numpy(scores),
        None if out is None else torch.from_numpy(out),
        None if own is None else torch.from_numpy(own),
    )
