"""Conditions under which the CPU's kernels must give the same results, and checks that return lines
of faults."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import WALKED, Batch, scores

from ctc_align import kernels, lattice
from ctc_align.kernels.cpu import cpu_backend, problem

# The compiled kernels are checked here; `test_row_kernels` checks the others.
cpu_backend.compile_at_once()

Outcome = tuple[list[list[int]], list[str]]


@contextmanager
def on_threads(count: int) -> Iterator[None]:
    """Set the number of threads of torch, which the kernels use too."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _spoil(room: Any) -> None:
    if isinstance(room, np.ndarray):
        room.view(np.uint8).fill(0xFF)
    elif isinstance(room, (tuple, list)):
        for each in room:
            _spoil(each)


def poison(patch: pytest.MonkeyPatch, *, lend: bool = False) -> None:
    """Fill the memory that kernels take with NaN and invalid indices.

    Each call takes fresh memory; with `lend`, memory that earlier calls gave back too.
    """

    def poisoned(*parts: tuple[int, Any]) -> list[np.ndarray]:
        rows = aligned(*parts)
        _spoil(rows)
        return rows

    def spoilt(entry: Any) -> None:
        _spoil(entry.arrays)
        give(entry)

    aligned: Callable[..., list[np.ndarray]] = problem.aligned
    give: Callable[[Any], None] = problem._give
    for name, module in list(sys.modules.items()):
        if name.startswith("ctc_align.kernels.") and getattr(module, "aligned", None) is aligned:
            patch.setattr(module, "aligned", poisoned)
    patch.setattr(problem, "_give", spoilt)
    patch.setattr(problem, "MOST_KEPT", 16 * lend)
    problem._free.clear()


def split(patch: pytest.MonkeyPatch, *, block: int = 0, part_cells: int = 1, ring: int = 2) -> None:
    """Share every utterance between the threads, in parts of `part_cells` lanes x frames.

    With a `block`, save a row every `block` frames in place of all choices.
    """
    long_path = cpu_backend.long_viterbi
    patch.setattr(cpu_backend, "LONG_CELLS", 1)
    patch.setattr(cpu_backend, "MOST_NARROW_CHOICES", 0)
    patch.setattr(long_path, "PART_CELLS", part_cells)
    patch.setattr(long_path, "RING", ring)
    if block:
        usual = long_path.plan

        def plan(frames: int, states: int) -> Any:
            made = usual(frames, states)
            blocks, window = (
                -(-frames // block),
                min(long_path.vectors_of(states), block // cpu_backend.WIDTH + 2),
            )
            return made._replace(block=block, blocks=blocks, window=window)

        patch.setattr(long_path, "WHOLE_CHOICES_BYTES", 0)
        patch.setattr(long_path, "plan", plan)


def best_path(
    given: Batch,
    bands: np.ndarray | None = None,
    backend: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Outcome:
    """Return states, and scores as hexadecimal numbers; the log-probs are cast to `dtype`."""
    path = kernels.best_path(
        given.log_probs.to(dtype),
        given.topology,
        given.lengths,
        wildcard=given.wildcard,
        bands=bands,
        backend=backend,
    )
    return path.states.tolist(), [score.hex() for score in path.scores.tolist()]


def path_faults(
    given: Batch,
    bands: np.ndarray | None = None,
    right: Outcome | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """Return the differences of the CPU's paths from the reference's: in any state, in any bit of
    the scores."""
    right = right or best_path(given, bands, "reference", dtype)
    met = best_path(given, bands, "cpu", dtype)
    found = []
    for b, states in enumerate(met[0]):
        differ = np.flatnonzero(np.array(states) != np.array(right[0][b]))
        if len(differ):
            t = int(differ[-1])
            found.append(
                f"utterance {b}: frame {t} in state {states[t]}, expected {right[0][b][t]}"
            )
        if met[1][b] != right[1][b]:
            found.append(
                f"utterance {b}: score {float.fromhex(met[1][b])!r}, expected"
                f" {float.fromhex(right[1][b])!r}"
            )
    return found


Sums = tuple[torch.Tensor, torch.Tensor]


def occupancy(given: Batch, backend: str = "cpu", dtype: torch.dtype = torch.float32) -> Sums:
    """Return posteriors (B, T, C + 1), the wildcard's last, and the scores, which `forward` must
    return too."""
    rest = (given.log_probs.to(dtype), given.topology, given.lengths)
    result = kernels.occupancy(*rest, wildcard=given.wildcard, backend=backend)
    forward = kernels.forward(*rest, wildcard=given.wildcard, backend=backend)
    assert [score.hex() for score in forward.tolist()] == [
        score.hex() for score in result.scores.tolist()
    ]
    own = (
        result.wildcard
        if result.wildcard is not None
        else torch.zeros_like(result.posteriors[..., 0])
    )
    return torch.cat((result.posteriors, own[..., None]), 2), result.scores


def sum_faults(given: Batch, right: Sums | None = None) -> list[str]:
    """Return the differences of float32 sums from the reference's: above 1e-6 of a score, above
    2e-6 in a posterior."""
    right = right or occupancy(given, "reference", torch.float64)
    met = occupancy(given)
    found = []
    for b, (score, expected) in enumerate(zip(met[1].tolist(), right[1].tolist())):
        if not np.isclose(score, expected, rtol=1e-6, atol=2e-6, equal_nan=True):
            found.append(f"utterance {b}: score {score!r}, expected {expected!r}")
        wrong = (met[0][b] - right[0][b]).abs()
        if not (wrong <= 2e-6).all():
            frame, column = divmod(int(wrong.argmax()), wrong.shape[1])
            found.append(
                f"utterance {b}: posterior of {column} at frame {frame} is off by {wrong.max()}"
            )
    return found


def same_sums(one: Sums, other: Sums) -> bool:
    return torch.equal(one[0], other[0]) and one[1].tolist() == other[1].tolist()


def one(
    rng: np.random.Generator,
    tokens: int,
    spare: int,
    classes: int,
    kind: str,
    topology: str = "ctc",
    wild: bool = False,
) -> Batch:
    """Return an utterance of `tokens` tokens, with `spare` frames more than its shortest path
    needs."""
    row = rng.integers(1, classes - 1, tokens)
    if topology == "segments":
        row = row[::3] % (classes // 3)
    row[rng.random(len(row)) < 0.1 * wild] = lattice.WILDCARD
    made = {
        "ctc": lambda: lattice.ctc([row]),
        "simple": lambda: lattice.simple_ctc([row]),
        "segments": lambda: lattice.segmentation([row], [np.arange(len(row)) // 2], 3, classes - 1),
    }[topology]()
    frames = int(made.min_frames[0]) + spare
    x, wildcard = scores(rng, frames, classes, kind), scores(rng, frames, 2, kind)[:, 0]
    if kind == "rounded":
        x, wildcard = np.round(rng.normal(size=x.shape), 1), np.round(rng.normal(size=frames), 1)
    return Batch(
        torch.as_tensor(x, dtype=torch.float32)[None],
        torch.tensor([frames]),
        made,
        torch.as_tensor(wildcard, dtype=torch.float32)[None] if made.has_wildcard else None,
    )


def large_ones(
    seed: int, shapes: Sequence[tuple[int, int, int]], kinds: Sequence[str]
) -> Iterator[tuple[str, Batch]]:
    """Yield utterances of each topology of the fast kernels and each shape (tokens, spare frames,
    classes), by name."""
    rng = np.random.default_rng(seed)
    for number, (topology, shape) in enumerate(itertools.product(WALKED, shapes)):
        kind = kinds[number % len(kinds)]
        given = one(rng, *shape, kind, topology, number % 2 == 1)
        yield f"{topology} {kind} {tuple(given.log_probs.shape)}", given


def memory_layouts(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the same numbers in every order of axes, with gaps, at an offset, in a graph, and
    read-only."""
    for order in itertools.permutations(range(3)):
        back = [order.index(k) for k in range(3)]
        yield f"order {order}", x.permute(order).contiguous().permute(back)
    for step in ((2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 3, 2)):
        wide = torch.full([n * s for n, s in zip(x.shape, step)], float("nan"), dtype=x.dtype)
        wide[:: step[0], :: step[1], :: step[2]] = x
        yield f"steps {step}", wide[:: step[0], :: step[1], :: step[2]]
    yield "offset", torch.cat((x[..., :1], x), 2)[..., 1:]
    yield "with gradient", x.clone().requires_grad_()
    frozen = x.contiguous().view(torch.uint8).numpy().copy()
    frozen.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of arrays that cannot be written
        yield "read-only", torch.from_numpy(frozen).view(x.dtype)
