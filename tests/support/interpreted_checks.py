"""Small problems for kernels that run interpreted, a hundred times slower: the tests' own
comparisons."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from cpu_checks import (
    Outcome,
    Sums,
    best_path,
    occupancy,
    on_threads,
    path_faults,
    split,
    sum_faults,
)
from kernel_problems import (
    Batch,
    Problem,
    faults,
    random_bands,
    tiny_any,
    tiny_ctc,
    tiny_segments,
    tiny_simple,
)
from kernel_problems import batch as random_batch

from ctc_align import lattice
from ctc_align.kernels.cpu import cpu_backend

KINDS = ("tied", "continuous", "holes", "tied")


@functools.cache
def tiny() -> tuple[Problem, ...]:
    """To be enumerated."""
    rng = np.random.default_rng(51)
    kinds = [tiny_ctc(rng, 36), tiny_ctc(rng, 36, wild=True), tiny_simple(rng, 36, wild=True)]
    kinds += [
        tiny_segments(rng, 36, wild=True),
        (problem for problem in tiny_any(rng, 60) if is_walked(problem)),
    ]
    return tuple(problem for some in zip(*kinds) for problem in some)


def of_every_topology(seed: int) -> list[Problem]:
    """To be enumerated: with detours, wildcards and topologies at random."""
    rng = np.random.default_rng(seed)
    kinds = [tiny_ctc(rng, 60, optional=True, wild=True), tiny_ctc(rng, 60, optional=True)]
    kinds += [
        tiny_simple(rng, 60, wild=True),
        tiny_segments(rng, 60, optional=True, wild=True),
        tiny_any(rng, 60),
    ]
    return [problem for some in zip(*kinds) for problem in some]


@functools.cache
def mixed() -> tuple[Problem, ...]:
    return tuple(of_every_topology(21))


def first_fault(
    given: Sequence[Problem], backend: str, dtype: torch.dtype = torch.float64
) -> list[str]:
    """The faults of the first problem that is not right, against enumeration."""
    return next((found for problem in given if (found := faults([problem], backend, dtype))), [])


def is_walked(problem: Problem) -> bool:
    return problem.topology.detours is None


def against_enumeration() -> list[str]:
    """The faults of the first of the tiny problems that is not right."""
    return first_fault(tiny(), "cpu", torch.float32)


@functools.cache
def batches() -> tuple[tuple[Batch, np.ndarray | None, Outcome], ...]:
    """Up to four vectors of lanes, two strips, and 16 to 90 frames; half of them in bands, with
    what is right."""
    rng, made = np.random.default_rng(52), []
    for number in range(16):
        topology = ("ctc", "simple", "segments", "ctc")[number % 4]
        classes = (7, 5, 7, 200)[number % 4]
        frames, tokens = int(rng.integers(30, 90)), (18, 40, 60)[number % 3]
        kind = KINDS[number // 4]
        given = random_batch(
            rng, 3, frames, tokens, classes, kind, topology=topology, wild=number % 8 > 5
        )
        bands = random_bands(rng, given) + np.array([-2, 2]) if number % 2 else None
        made.append((given, bands, best_path(given, bands, "reference")))
    return tuple(made)


def paths() -> list[str]:
    """The faults of the first batch whose paths are not right."""
    return next(
        (found for given, bands, right in batches() if (found := path_faults(given, bands, right))),
        [],
    )


@functools.cache
def decoy() -> tuple[Batch, Outcome]:
    """A text that the sound says twice, the second time more clearly: whoever follows the first
    loses the best path."""
    tokens = 1 + np.arange(70) % 5
    x = np.full((1, 140, 6), -9.0)
    x[:, :70, 0], x[:, 70:, 0] = -1.0, -3.0
    x[0, np.arange(140), np.tile(tokens, 2)] = 0.0
    given = Batch(
        torch.as_tensor(x, dtype=torch.float32), torch.tensor([140]), lattice.ctc([tokens])
    )
    return given, best_path(given, None, "reference")


def pruned_paths() -> list[str]:
    """As `paths`, where at first more is left out than may be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_backend.viterbi, "PRUNING", (1, 0.5, 0.5, 1.0))
        found = paths()
        patch.setattr(cpu_backend.viterbi, "PRUNING", (1, 2.0, 0.5, 1.0))
        given, right = decoy()
        return found or path_faults(given, None, right)


def shared_paths(block: int) -> Callable[[], list[str]]:
    """As `paths`, each shared by two threads, and in blocks if there is a block."""

    def first() -> list[str]:
        with on_threads(2), pytest.MonkeyPatch.context() as patch:
            split(patch, block=block)
            return paths()

    return first


@functools.cache
def long_batches() -> tuple[tuple[Batch, np.ndarray | None, Outcome], ...]:
    """Up to six strips and 250 frames."""
    rng, found = np.random.default_rng(53), []
    for number, topology in enumerate(("ctc", "segments", "ctc")):
        given = random_batch(rng, 1, 250, 1, 9, "continuous", topology=topology)
        row = [rng.integers(0, 3, 170)]
        made = (
            lattice.ctc([row[0] + 1]) if topology == "ctc" else lattice.segmentation(row, row, 1, 8)
        )
        given = Batch(given.log_probs, given.lengths, made)
        bands = random_bands(rng, given) + np.array([-30, 30]) if number == 2 else None
        found.append((given, bands, best_path(given, bands, "reference")))
    return tuple(found)


def long_paths() -> list[str]:
    """As `paths`, each shared by three threads and in blocks."""
    with on_threads(3), pytest.MonkeyPatch.context() as patch:
        split(patch, block=32)
        return next(
            (
                found
                for given, bands, right in long_batches()
                if (found := path_faults(given, bands, right))
            ),
            [],
        )


@functools.cache
def sum_batches() -> tuple[tuple[Batch, Sums], ...]:
    rng, made = np.random.default_rng(54), []
    for number in range(8):
        topology = ("ctc", "simple", "segments", "ctc")[number % 4]
        kind = ("continuous", "tied", "continuous", "holes")[number // 2]
        frames, tokens = int(rng.integers(33, 60)), (18, 40)[number % 2]
        classes = (7, 150, 40, 53, 7, 40, 53, 150)[number]
        given = random_batch(
            rng, 2, frames, tokens, classes, kind, topology=topology, wild=number > 5
        )
        made.append((given, occupancy(given, "reference", torch.float64)))
    return tuple(made)


def sums() -> list[str]:
    """The faults of the first batch whose sums are not right."""
    return next(
        (found for given, right in sum_batches() if (found := sum_faults(given, right))), []
    )


def sums_in_blocks() -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_backend, "ROWS_BYTES", 0)
        return sums()


def first_of(*checks: Callable[[], list[str]]) -> list[str]:
    """What the first of the checks says that says anything; a fault may also end in an error."""
    for check in checks:
        try:
            if found := check():
                return found
        except (IndexError, AssertionError, ValueError, TypeError, OverflowError) as error:
            return [f"{type(error).__name__}: {error}"]
    return []


def quiet() -> Iterator[None]:
    """A fixture: interpreted arithmetic warns where compiled code does not."""
    with np.errstate(all="ignore"):
        yield
