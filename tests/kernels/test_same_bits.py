"""Best paths, sums and tangents by the compiled backend: the same bits in any company, blocks and
memory, on any number of threads. That the bits are right is tested in `test_cpu`, `test_cpu_sum`
and `test_tangent`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from cpu_checks import large_ones, memory_layouts, on_threads, poison, split
from cpu_checks import occupancy as sums
from kernel_problems import KINDS, TOPOLOGIES, Batch, alone, random_bands, random_batches
from kernel_problems import batch as random_batch
from rows import first_row_of
from tangent_checks import direction_for

from ctc_align import kernels
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import cpu_backend, general_kernels, problem

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
F32, F64 = torch.float32, torch.float64
Result = Sequence[torch.Tensor]
"""Tensors (B, T, …), and last the scores (B,)."""


def best_path(
    given: Batch, dtype: torch.dtype, moves: torch.Tensor, *, banded: bool = False
) -> Result:
    bands = random_bands(np.random.default_rng(35), given) + np.array([-9, 9]) if banded else None
    rest = given.topology, given.lengths
    path = kernels.best_path(
        given.log_probs.to(dtype), *rest, wildcard=given.wildcard, bands=bands, backend="cpu"
    )
    return path.states, path.scores


def occupancy(given: Batch, dtype: torch.dtype, moves: torch.Tensor) -> Result:
    return sums(given, "cpu", dtype)


def tangent(given: Batch, dtype: torch.dtype, moves: torch.Tensor) -> Result:
    rest = given.topology, given.lengths, moves.to(dtype)
    tangents, made = kernels.tangent(
        given.log_probs.to(dtype), *rest, wildcard=given.wildcard, backend="cpu"
    )
    assert tangents.dtype == (F64 if dtype == F64 else F32)
    return made.posteriors, tangents, made.scores


RUNS: dict[str, Callable[[Batch, torch.dtype, torch.Tensor], Result]] = {
    "best path": best_path,
    "best path in bands": functools.partial(best_path, banded=True),
    "occupancy": occupancy,
    "tangent": tangent,
}


def moves_of(given: Batch) -> torch.Tensor:
    """Return a direction that every dtype holds exactly."""
    return torch.round(16 * direction_for(torch.zeros(given.log_probs.shape))) / 16


def run(name: str, given: Batch, dtype: torch.dtype = F32) -> Result:
    return RUNS[name](given, dtype, moves_of(given))


def same(one: Result, other: Result) -> bool:
    return all(map(torch.equal, one, other))


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


@functools.cache
def large() -> tuple[Batch, ...]:
    """Several strips and hundreds of frames, all topologies of the fast kernels and kinds of
    scores."""
    shapes = ((30, 130, 6), (265, 9, 40), (20, 90, 129), (60, 2, 200), (300, 40, 30))
    return tuple(given for _, given in large_ones(41, shapes, KINDS))


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("name", ["best path", "occupancy", "tangent"])
def test_company_and_threads(name: str, topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "SMALL_CELLS", 1)
    for given in random_batches(15, 6, topology, 120, 40, most=13):
        moves = moves_of(given)
        with on_threads(1):
            together = RUNS[name](given, F32, moves)
        for threads in (2, 3, 5):
            with on_threads(threads):
                assert same(RUNS[name](given, F32, moves), together)
        for b, length in enumerate(given.lengths.tolist()):
            own = RUNS[name](alone(given, b), F32, moves[b : b + 1, :length])
            assert same(
                own,
                (*(each[b : b + 1, :length] for each in together[:-1]), together[-1][b : b + 1]),
            )
            assert all(
                (each[b, length:] == (-1 if name == "best path" else 0)).all()
                for each in together[:-1]
            )


@pytest.mark.parametrize("rows_bytes", [0, 2**13, 2**16, 2**30])
@pytest.mark.parametrize("name", ["occupancy", "tangent"])
def test_blocks(name: str, rows_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [*((given, F32) for given in large()), *((given, F64) for given in large()[::5])]
    usual = [run(name, *case) for case in cases]
    monkeypatch.setattr(cpu_backend, "ROWS_BYTES", rows_bytes)
    monkeypatch.setattr(general_kernels, "ROWS_BYTES", rows_bytes)
    assert all(same(run(name, *case), expected) for case, expected in zip(cases, usual))


@pytest.mark.parametrize("name", RUNS)
def test_memory_that_comes_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier calls left behind is no better than fresh memory."""
    usual = [run(name, given) for given in large()]
    poison(monkeypatch, lend=True)
    for threads in (1, 1, 2):
        with on_threads(threads):
            assert all(same(run(name, given), expected) for given, expected in zip(large(), usual))
    assert problem._free


@pytest.mark.parametrize("dtype", first_row_of(DTYPES), ids=str)
@pytest.mark.parametrize("name", RUNS)
def test_every_memory(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read as it lies, whole rows or one by one: the very bits of the same numbers as dense float32
    or float64."""
    rng = np.random.default_rng(35)
    for topology, wild in (("ctc", False), ("segments", True), ("optional", False)):
        given = random_batch(rng, 5, 60, 30, 37, "continuous", topology=topology, wild=wild)
        narrow = given.log_probs.to(dtype)
        wide = narrow if dtype == F64 else narrow.float()
        right = run(name, dataclasses.replace(given, log_probs=wide), wide.dtype)
        assert len(set(right[-1].tolist())) > 2
        for layout, x in memory_layouts(narrow):
            each = dataclasses.replace(given, log_probs=x)
            for classes in (0, 37):
                monkeypatch.setattr(problem, "DENSE_CLASSES", classes)
                assert same(run(name, each, dtype), right), layout
            with on_threads(2), monkeypatch.context() as patch:
                split(patch, block=16)
                assert same(run(name, each, dtype), right), f"{layout}, shared"


@pytest.mark.parametrize(
    ("name", "dtype", "short", "said"),
    [
        ("occupancy", F32, 1, r"posteriors.*: {needed} bytes .* are needed, {free} .*a test"),
        ("occupancy", F32, 0, r"forward pass.*: \d+ bytes"),
        ("occupancy", F64, 0, r"{twice} bytes"),
        ("tangent", F32, 0, r"forward passes: \d+ bytes .* are needed, {free} .*a test"),
    ],
)
def test_what_cannot_be_held_is_refused(
    name: str, dtype: torch.dtype, short: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = large()[0]
    needed = 4 * given.log_probs.numel()
    monkeypatch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
    monkeypatch.setattr(memory_limits, "available", lambda device=None: (needed - short, "a test"))
    kernels.forward(given.log_probs, given.topology, given.lengths)
    with pytest.raises(
        KernelError, match=said.format(needed=needed, free=needed - short, twice=2 * needed)
    ):
        run(name, given, dtype)
