"""Tangents of occupancies: the right answers by enumeration, and comparisons that return lines of
faults."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from kernel_problems import Batch, Problem, tiny_any, tiny_ctc, tiny_segments, tiny_simple, walks
from oracles import WILDCARD, topology_paths

from ctc_align import kernels

Tangents = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Posteriors and tangents (B, T, C), scores (B,)."""
MOST_SEQUENCES = 4096
"""Of states, in problems that are enumerated."""


def direction_for(x: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Normal moves that float32 holds exactly, of the dtype of `x`."""
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)).to(x.dtype)


def tangent(
    given: Batch,
    direction: torch.Tensor,
    backend: str = "cpu",
    dtype: torch.dtype = torch.float32,
    **rest: torch.Tensor,
) -> Tangents:
    """By the backend, of numbers of this dtype; the padding of the direction is poison."""
    inside = (torch.arange(direction.shape[1]) < given.lengths[:, None])[..., None]
    poisoned = torch.where(inside, direction, math.nan).to(dtype)
    wildcard = None if given.wildcard is None else given.wildcard.to(dtype)
    tangents, result = kernels.tangent(
        given.log_probs.to(dtype),
        given.topology,
        given.lengths,
        poisoned,
        wildcard=wildcard,
        backend=backend,
        **rest,
    )
    assert result.backend == backend
    return result.posteriors, tangents, result.scores


def tangent_faults(given: Batch, right: Tangents, met: Tangents) -> list[str]:
    """Where float32 is not as the reference: 1e-6 of a score, 2e-6 of a posterior, 2e-6 of the
    largest tangent."""
    found = []
    for b, (score, expected) in enumerate(zip(met[2].tolist(), right[2].tolist())):
        if not np.isclose(score, expected, rtol=1e-6, atol=2e-6, equal_nan=True):
            found.append(f"utterance {b}: score {score!r}, expected {expected!r}")
        largest = max(1.0, float(right[1][b].abs().max())) if right[1][b].numel() else 1.0
        for what, one, other, most in (
            ("posterior", met[0][b], right[0][b], 2e-6),
            ("tangent", met[1][b], right[1][b], 2e-6 * largest),
        ):
            wrong = (one.double() - other.double()).abs()
            if not (wrong <= most).all():
                t, c = divmod(int(wrong.nan_to_num(math.inf).argmax()), wrong.shape[1])
                found.append(
                    f"utterance {b}: {what} of {c} at frame {t} is {one[t, c]}, expected"
                    f" {other[t, c]}"
                )
    return found


def same(one: Tangents, other: Tangents) -> bool:
    """To the last bit."""
    return (
        all(torch.equal(a, b) for a, b in zip(one[:2], other[:2]))
        and one[2].tolist() == other[2].tolist()
    )


def is_small(problem: Problem) -> bool:
    size = int(problem.topology.states[0])
    return len(problem.log_probs) > 0 and size ** len(problem.log_probs) <= MOST_SEQUENCES


def enumerated(problem: Problem, direction: np.ndarray) -> np.ndarray:
    """Tangents (T, C) as the covariance of what a path visits with the sum of the direction along
    it."""
    x, frames = problem.log_probs, len(problem.log_probs)
    paths = []
    for _, labels in topology_paths(frames, *walks(problem.topology, 0)):
        score = sum(problem.wildcard[t] if c == WILDCARD else x[t, c] for t, c in enumerate(labels))
        if score > -math.inf:
            paths.append(
                (score, labels, sum(direction[t, c] for t, c in enumerate(labels) if c != WILDCARD))
            )
    tangents = np.zeros((frames, x.shape[1] + 1))
    if not paths:
        return tangents[:, :-1]
    top = max(score for score, _, _ in paths)
    total = math.fsum(math.exp(score - top) for score, _, _ in paths)
    mean = math.fsum(math.exp(score - top) / total * along for score, _, along in paths)
    for score, labels, along in paths:
        for t, c in enumerate(labels):
            # The last column is the wildcard's: -1.
            tangents[t, c] += math.exp(score - top) / total * (along - mean)
    return tangents[:, :-1]


def tiny_tangents(seed: int) -> tuple[tuple[Problem, np.ndarray, np.ndarray], ...]:
    """Return tiny problems of every kind, directions that float32 holds exactly, and the right
    tangents."""
    rng = np.random.default_rng(seed)
    kinds = (
        tiny_ctc(rng, 30),
        tiny_ctc(rng, 30, optional=True, wild=True),
        tiny_simple(rng, 30, wild=True),
    )
    kinds += (
        tiny_segments(rng, 30, optional=True),
        tiny_segments(rng, 30, wild=True),
        tiny_any(rng, 30),
    )
    small = [problem for problem in itertools.chain.from_iterable(zip(*kinds)) if is_small(problem)]
    moves = [
        rng.normal(size=problem.log_probs.shape).astype(np.float32).astype(np.float64)
        for problem in small
    ]
    return tuple((problem, move, enumerated(problem, move)) for problem, move in zip(small, moves))


def enumeration_faults(
    problem: Problem, direction: np.ndarray, right: np.ndarray, backend: str, dtype: torch.dtype
) -> list[str]:
    """Where a backend says otherwise than enumeration."""
    given = Batch(
        torch.as_tensor(problem.log_probs)[None],
        torch.tensor([len(problem.log_probs)]),
        problem.topology,
        torch.as_tensor(problem.wildcard)[None],
    )
    posteriors, met, scores = tangent(given, torch.as_tensor(direction)[None], backend, dtype)
    most = 1e-11 if dtype == torch.float64 else 1e-5
    found = []
    for what, one, other in (
        ("tangents", met[0].numpy(), right),
        ("posteriors", posteriors[0].numpy(), problem.answer.occupancy),
        (
            "score",
            np.nan_to_num(scores.numpy(), neginf=-1e9),
            np.nan_to_num([problem.answer.total], neginf=-1e9),
        ),
    ):
        wrong = np.abs(one - other)
        if not (wrong <= most).all():
            found.append(f"{problem.name}: {what} are off by {wrong.max()}")
    return found
