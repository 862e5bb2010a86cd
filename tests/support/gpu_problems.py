"""Problems for the GPU's backend, many of them in one call, and how a wrong answer is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from kernel_problems import Batch, Problem, scores, target
from oracles import close

from ctc_align import kernels, lattice
from ctc_align.lattice import Detours, Topology

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NEVER = float("-inf")


def together(topologies: Sequence[Topology]) -> Topology:
    """Topologies of one utterance each as one of many."""
    width = max(topology.emit.shape[1] for topology in topologies)

    def pad(rows: list[np.ndarray], value: int) -> np.ndarray:
        out = np.full((len(rows), width, *np.max([row.shape[2:] for row in rows], axis=0)), value, rows[0].dtype)
        for b, row in enumerate(rows):
            out[(b, *(slice(size) for size in row.shape[1:]))] = row[0]
        return out

    fields = {"emit": 0, "skip": 0, "token": -1, "stay": 1}
    padded = {name: pad([getattr(one, name) for one in topologies], value) for name, value in fields.items()}
    columns = ("states", "starts", "finals", "min_frames")
    detours = None
    if any(one.detours is not None for one in topologies):
        ways = [one.detours or plain_ways(one) for one in topologies]
        rows = [[way.sources for way in ways], [way.begin for way in ways], [way.end for way in ways]]
        detours = Detours(pad(rows[0], -1), pad(rows[1], 0), pad(rows[2], 0))
    return Topology(
        **padded,
        **{name: np.concatenate([getattr(one, name) for one in topologies]) for name in columns},
        detours=detours,
    )


def optional_over_tiles() -> Batch:
    """Utterances of which some tokens are optional, over three tiles of four units and four blocks of four frames."""
    rng = np.random.default_rng(47)
    rows = [target(rng, tokens, 5, 0) for tokens in (8, 7)]
    topology = lattice.ctc(rows, 0, [[k % 3 == 1 for k in range(len(row))] for row in rows])
    x = torch.as_tensor(np.stack([scores(rng, 14, 5, "continuous") for _ in rows])).float()
    return Batch(x, torch.tensor([14, 11]), topology)


def plain_ways(topology: Topology) -> Detours:
    state, size = np.arange(topology.emit.shape[1])[None], topology.states[:, None]
    begin, end = state < topology.starts[:, None], (state >= size - topology.finals[:, None]) & (state < size)
    return Detours(np.full((*topology.emit.shape, 0), -1, np.int32), begin, end)


def faults(problems: Sequence[Problem], dtype: torch.dtype) -> list[str]:
    """Where the backend says otherwise than enumeration; as `kernel_problems.faults`, all problems in one batch."""
    return path_faults(problems, dtype) + sum_faults(problems, dtype)


def side_by_side(problems: Sequence[Problem], dtype: torch.dtype) -> Batch:
    """The problems as one batch, NaN beyond their frames and classes."""
    lengths = torch.tensor([len(problem.log_probs) for problem in problems])
    classes = max(problem.log_probs.shape[1] for problem in problems)
    x = torch.full((len(problems), int(lengths.max()), classes), torch.nan, dtype=dtype)
    wildcard = torch.full(x.shape[:2], torch.nan, dtype=dtype)
    for b, problem in enumerate(problems):
        x[b, : lengths[b], : problem.log_probs.shape[1]] = torch.as_tensor(problem.log_probs)
        wildcard[b, : lengths[b]] = torch.as_tensor(problem.wildcard)
    return Batch(x, lengths, together([problem.topology for problem in problems]), wildcard)


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
    found = score_faults("total", forward.scores, totals, given, names)
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
    assert kernels.forward(**arguments, backend="gpu").scores.tolist() == met.scores.tolist()
