"""Fixtures and problems for the GPU's backend, many problems in one call, and wrong answers as lines of text."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

import gpu_interpreted
import numpy as np
import pytest
import torch
from kernel_problems import Batch, Problem, scores, side_by_side, target
from oracles import close

from ctc_align import kernels, lattice

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEVER = float("-inf")
REASON = None if torch.cuda.is_available() else gpu_interpreted.missing()
needs_gpu = pytest.mark.skipif(REASON is not None, reason=f"the GPU's kernels cannot run here: {REASON}")
GPU = pytest.param("gpu", marks=needs_gpu)
Modules = dict[str, types.ModuleType]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return gpu_interpreted.backend(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def modules(loaded: Modules, monkeypatch: pytest.MonkeyPatch) -> Modules:
    """Install the GPU's backend, on the card if there is one, else interpreted, and return its modules."""
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", loaded["gpu_backend"])
    return loaded


@pytest.fixture(params=["cpu", GPU])
def backend(request: pytest.FixtureRequest) -> str:
    """Run a test on the backend `cpu`, and on `gpu` where it can run."""
    if request.param == "gpu":
        request.getfixturevalue("modules")
    return request.param


def device_of(backend: str) -> str:
    return DEVICE if backend == "gpu" else "cpu"


def optional_over_tiles() -> Batch:
    """Utterances of which some tokens are optional, over three tiles of four units and four blocks of four frames."""
    rng = np.random.default_rng(47)
    rows = [target(rng, tokens, 5, 0) for tokens in (8, 7)]
    topology = lattice.ctc(rows, 0, [[k % 3 == 1 for k in range(len(row))] for row in rows])
    x = torch.as_tensor(np.stack([scores(rng, 14, 5, "continuous") for _ in rows])).float()
    return Batch(x, torch.tensor([14, 11]), topology)


def faults(problems: Sequence[Problem], dtype: torch.dtype) -> list[str]:
    """Where the backend says otherwise than enumeration; as `kernel_problems.faults`, all problems in one batch."""
    return path_faults(problems, dtype) + sum_faults(problems, dtype)


def score_faults(what: str, met: torch.Tensor, right: Sequence[float], given: Batch, names: Sequence[str]) -> list[str]:
    relative, absolute = (1e-12, 1e-12) if given.log_probs.dtype == torch.float64 else (1e-6, 1e-5)
    return [
        f"{name}: {what} {one!r}, expected {other!r}"
        for name, one, other in zip(names, met.tolist(), right)
        if not close(one, other, relative, absolute)
    ]


def path_faults(problems: Sequence[Problem], dtype: torch.dtype) -> list[str]:
    given, names = side_by_side(problems, dtype), [problem.name for problem in problems]
    path = kernels.best_path(**on(given, dtype), backend="gpu")
    found = score_faults("best", path.scores, [problem.answer.best for problem in problems], given, names)
    for problem, length, states in zip(problems, given.lengths.tolist(), path.states.tolist()):
        expected = list(problem.answer.path) if problem.answer.path is not None else [-1] * length
        if states != expected + [-1] * (len(states) - length):
            found.append(f"{problem.name}: path {states}, expected {expected}")
    return found


def sum_faults(problems: Sequence[Problem], dtype: torch.dtype) -> list[str]:
    given, names = side_by_side(problems, dtype), [problem.name for problem in problems]
    totals = [problem.answer.total for problem in problems]
    occupancy = kernels.occupancy(**on(given, dtype), backend="gpu")
    forward = kernels.forward(**on(given, dtype), backend="gpu")
    found = score_faults("total", forward, totals, given, names)
    found += score_faults("total beside occupancy", occupancy.scores, totals, given, names)
    shape = given.log_probs.shape
    right, wild = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape[:2], dtype=torch.float64)
    for b, problem in enumerate(problems):
        frames, classes = problem.log_probs.shape
        right[b, :frames, :classes] = torch.as_tensor(problem.answer.occupancy)
        wild[b, :frames] = torch.as_tensor(problem.answer.wildcard)
    for what, met, expected in (("occupancy", occupancy.posteriors, right), ("wildcard", occupancy.wildcard, wild)):
        if met is not None:
            wrong = (met.cpu().double() - expected).abs().flatten(1).amax(1)
            absolute = 1e-12 if dtype == torch.float64 else 1e-5
            found += [
                f"{name}: {what} is off by {off}" for name, off in zip(names, wrong.tolist()) if not off <= absolute
            ]
    return found


def on(given: Batch, dtype: torch.dtype) -> dict[str, Any]:
    """A call's arguments on the device."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    wildcard = None if given.wildcard is None else given.wildcard.to(DEVICE, wide)
    return {
        "log_probs": given.log_probs.to(DEVICE, dtype),
        "topology": given.topology,
        "lengths": given.lengths,
        "wildcard": wildcard,
    }


def same_paths(given: Batch, dtype: torch.dtype = torch.float32, bands: np.ndarray | None = None) -> int:
    """Compares with the reference, bit by bit; returns how many utterances have a path."""
    arguments = {**on(given, dtype), "bands": bands}
    met = kernels.best_path(**arguments, backend="gpu")
    right = kernels.best_path(**arguments, backend="reference")
    assert met.scores.tolist() == right.scores.tolist()
    assert met.states.tolist() == right.states.tolist()
    return int((right.scores > NEVER).sum())


def same_sums(given: Batch, dtype: torch.dtype = torch.float32) -> None:
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 2e-6)
    arguments = on(given, dtype)
    met = kernels.occupancy(**arguments, backend="gpu")
    right = kernels.occupancy(**arguments, backend="reference")
    torch.testing.assert_close(met.scores.cpu(), right.scores.cpu(), rtol=relative, atol=absolute)
    for one, other in ((met.posteriors, right.posteriors), (met.wildcard, right.wildcard)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one.double().cpu(), other.double().cpu(), rtol=relative, atol=10 * absolute)
    assert kernels.forward(**arguments, backend="gpu").tolist() == met.scores.tolist()
