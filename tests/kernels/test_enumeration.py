"""Every backend against the enumeration of all paths of tiny problems."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from kernel_problems import (
    BACKENDS,
    TOPOLOGIES,
    Problem,
    faults,
    random_bands,
    tiny_any,
    tiny_ctc,
    tiny_segments,
    tiny_simple,
    walks,
)
from kernel_problems import batch as random_batch
from oracles import viterbi

from ctc_align import kernels

MADE: dict[str, Callable[[], Iterator[Problem]]] = {
    "ctc": lambda: tiny_ctc(np.random.default_rng(1), 300),
    "ctc wild": lambda: tiny_ctc(np.random.default_rng(2), 200, wild=True),
    "simple": lambda: tiny_simple(np.random.default_rng(3), 250),
    "simple wild": lambda: tiny_simple(np.random.default_rng(4), 150, wild=True),
    "optional": lambda: tiny_ctc(np.random.default_rng(5), 400, optional=True),
    "optional wild": lambda: tiny_ctc(np.random.default_rng(6), 200, optional=True, wild=True),
    "segments": lambda: tiny_segments(np.random.default_rng(7), 150),
    "segments wild": lambda: tiny_segments(np.random.default_rng(8), 150, wild=True),
    "optional segments": lambda: tiny_segments(np.random.default_rng(9), 250, optional=True),
    "optional segments wild": lambda: tiny_segments(
        np.random.default_rng(10), 200, optional=True, wild=True
    ),
    "any": lambda: tiny_any(np.random.default_rng(11), 300),
}


@functools.cache
def made(name: str) -> list[Problem]:
    """Not while tests are collected, which every process does."""
    return list(MADE[name]())


def test_the_problems_are_of_every_sort() -> None:
    for name in MADE:
        problems = made(name)
        answers = [problem.answer for problem in problems]
        assert sum(answer.path is None for answer in answers) > 7, name
        assert sum(answer.path is not None for answer in answers) > 60, name
        assert sum(problem.topology.has_wildcard for problem in problems) >= 40 * (
            "wild" in name
        ), name
        assert sum(problem.topology.detours is not None for problem in problems) >= 60 * (
            "optional" in name
        ), name
        if name != "any":
            assert (
                sum(
                    problem.log_probs.shape[0] == problem.topology.min_frames[0]
                    for problem in problems
                )
                > 5
            ), name
            assert sum(len(problem.log_probs) == 0 for problem in problems) > 5, name
    assert sum(problem.topology.states[0] == 1 for problem in made("ctc")) > 30
    assert sum(problem.topology.emit[0, 0] != 0 for problem in made("ctc")) > 100


def test_optional_tokens_are_left_out_and_kept() -> None:
    kept, left = 0, 0
    for name in ("optional", "optional segments"):
        for problem in made(name):
            if problem.answer.path is not None:
                token = problem.topology.token[0]
                said = set(token[list(problem.answer.path)].tolist()) - {-1}
                kept, left = kept + len(said), left + len(set(token.tolist()) - {-1} - said)
    assert kept > 100
    assert left > 100


@pytest.mark.parametrize(
    ("backend", "dtype"), BACKENDS, ids=lambda value: str(value).removeprefix("torch.")
)
@pytest.mark.parametrize("name", MADE)
def test_against_enumeration(name: str, backend: str, dtype: torch.dtype) -> None:
    """The slow reference in batches, after some alone."""
    problems = made(name)
    alone = problems[:60] if backend == "reference" else problems
    assert faults(alone, backend, dtype) == []
    assert faults(problems, backend, dtype, together=40) == []


@pytest.mark.parametrize("wild", [False, True], ids=["", "wild"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_bands_against_plain_python(topology: str, wild: bool) -> None:
    rng = np.random.default_rng(3)
    found, without = 0, 0
    backends = {backend for backend, _ in BACKENDS}
    for number in range(30):
        kind = ("continuous", "tied", "holes")[number % 3]
        given = random_batch(
            rng, 3, int(rng.integers(1, 20)), 7, 5, kind, topology=topology, wild=wild
        )
        bands = random_bands(rng, given) if number % 4 else None
        results = [
            kernels.best_path(
                given.log_probs,
                given.topology,
                given.lengths,
                wildcard=given.wildcard,
                bands=bands,
                backend=backend,
            )
            for backend in backends
        ]
        for b, length in enumerate(given.lengths.tolist()):
            emit, *ways = walks(given.topology, b)
            x = given.log_probs[b, :length].double()
            if given.wildcard is not None:
                x = torch.cat((x, given.wildcard[b, :length, None].double()), 1)
            score, path = viterbi(x[:, emit].numpy(), *ways, None if bands is None else bands[b])
            if length == 0:
                score, path = (0.0 if given.topology.min_frames[b] == 0 else float("-inf")), ()
            expected = [-1] * given.log_probs.shape[1]
            expected[: len(path or ())] = path or ()
            found, without = found + (path is not None), without + (path is None)
            for result in results:
                assert result.states[b].tolist() == expected
                assert float(result.scores[b]) == pytest.approx(score, rel=1e-6, abs=1e-6)
    assert found > 20
    assert without > 8
