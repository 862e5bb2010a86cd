"""What the CPU's kernels are asked to bear, and how a wrong answer is told: faults as lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import Batch

from ctc_align import kernels
from ctc_align.kernels import cpu, cpu_problem

Outcome = tuple[list[list[int]], list[str]]


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """torch's number of threads, which is the kernels' too."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def poison(patch: pytest.MonkeyPatch) -> None:
    """Fresh memory of the kernels is full of NaN and of indices that are none, in every call."""

    def poisoned(*parts: tuple[int, Any]) -> list[np.ndarray]:
        rows = aligned(*parts)
        for row in rows:
            row.view(np.uint8).fill(0xFF)
        return rows

    aligned: Callable[..., list[np.ndarray]] = cpu_problem.aligned
    for module in (cpu, cpu.cpu_long_path):
        patch.setattr(module, "aligned", poisoned)
    patch.setattr(cpu_problem, "KEPT_BYTES", -1)


def split(patch: pytest.MonkeyPatch, *, block: int = 0, part_cells: int = 1, ring: int = 2) -> None:
    """Shares every utterance between the threads, in parts of `part_cells` lanes x frames; with a `block` no choices
    are kept whole, but rows every `block` frames."""
    long_path = cpu.cpu_long_path
    patch.setattr(cpu, "LONG_CELLS", 1)
    patch.setattr(long_path, "PART_CELLS", part_cells)
    patch.setattr(long_path, "RING", ring)
    if block:
        usual = long_path.plan

        def plan(frames: int, states: int) -> Any:
            made = usual(frames, states)
            blocks, window = -(-frames // block), min(long_path.vectors_of(states), block // cpu.WIDTH + 2)
            return made._replace(block=block, blocks=blocks, window=window)

        patch.setattr(long_path, "WHOLE_CHOICES_BYTES", 0)
        patch.setattr(long_path, "plan", plan)


def best_path(
    given: Batch, bands: np.ndarray | None = None, backend: str = "cpu", dtype: torch.dtype = torch.float32
) -> Outcome:
    """States, and scores to the last bit; `dtype` is that of the log-probs."""
    wildcard = given.wildcard if given.wildcard is None or dtype != torch.float64 else given.wildcard.double()
    path = kernels.best_path(
        given.log_probs.to(dtype), given.topology, given.lengths, wildcard=wildcard, bands=bands, backend=backend
    )
    return path.states.tolist(), [score.hex() for score in path.scores.tolist()]


def path_faults(
    given: Batch, bands: np.ndarray | None = None, right: Outcome | None = None, dtype: torch.dtype = torch.float32
) -> list[str]:
    """Where the CPU's paths are not those of the reference: every state, every bit of the scores."""
    right = right or best_path(given, bands, "reference", dtype)
    met = best_path(given, bands, "cpu", dtype)
    found = []
    for b, states in enumerate(met[0]):
        differ = np.flatnonzero(np.array(states) != np.array(right[0][b]))
        if len(differ):
            t = int(differ[-1])
            found.append(f"utterance {b}: frame {t} in state {states[t]}, expected {right[0][b][t]}")
        if met[1][b] != right[1][b]:
            found.append(f"utterance {b}: score {float.fromhex(met[1][b])!r}, expected {float.fromhex(right[1][b])!r}")
    return found


Sums = tuple[torch.Tensor, torch.Tensor]


def occupancy(given: Batch, backend: str = "cpu", dtype: torch.dtype = torch.float32) -> Sums:
    """Posteriors (B, T, C + 1) with those of the wildcard last, and the scores, which `forward` must say too."""
    wildcard = None if given.wildcard is None else given.wildcard.to(dtype)
    rest = (given.log_probs.to(dtype), given.topology, given.lengths)
    result = kernels.occupancy(*rest, wildcard=wildcard, backend=backend)
    forward = kernels.forward(*rest, wildcard=wildcard, backend=backend)
    assert [score.hex() for score in forward.scores.tolist()] == [score.hex() for score in result.scores.tolist()]
    own = result.wildcard if result.wildcard is not None else torch.zeros_like(result.posteriors[..., 0])
    return torch.cat((result.posteriors, own[..., None]), 2), result.scores


def sum_faults(given: Batch, right: Sums | None = None) -> list[str]:
    """Where the CPU's sums in float32 are not those of the reference: 1e-6 of a score, 2e-6 of a posterior."""
    right = right or occupancy(given, "reference", torch.float64)
    met = occupancy(given)
    found = []
    for b, (score, expected) in enumerate(zip(met[1].tolist(), right[1].tolist())):
        if not np.isclose(score, expected, rtol=1e-6, atol=2e-6, equal_nan=True):
            found.append(f"utterance {b}: score {score!r}, expected {expected!r}")
        wrong = (met[0][b] - right[0][b]).abs()
        if not (wrong <= 2e-6).all():
            frame, column = divmod(int(wrong.argmax()), wrong.shape[1])
            found.append(f"utterance {b}: posterior of {column} at frame {frame} is off by {wrong.max()}")
    return found


def same_sums(one: Sums, other: Sums) -> bool:
    return torch.equal(one[0], other[0]) and one[1].tolist() == other[1].tolist()
