"""Problems for the GPU's backend, many of them in one call, and how a wrong answer is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from kernel_problems import Batch, Problem
from oracles import close

from ctc_align import kernels
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


def plain_ways(topology: Topology) -> Detours:
    state, size = np.arange(topology.emit.shape[1])[None], topology.states[:, None]
    begin, end = state < topology.starts[:, None], (state >= size - topology.finals[:, None]) & (state < size)
    return Detours(np.full((*topology.emit.shape, 0), -1, np.int32), begin, end)


def faults(problems: Sequence[Problem], dtype: torch.dtype) -> list[str]:
    """Where the backend says otherwise than enumeration; as `kernel_problems.faults`, all problems in one batch."""
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 1e-5)
    lengths = torch.tensor([len(problem.log_probs) for problem in problems])
    classes = max(problem.log_probs.shape[1] for problem in problems)
    x = torch.full((len(problems), int(lengths.max()), classes), torch.nan, dtype=dtype)
    wildcard = torch.full(x.shape[:2], torch.nan, dtype=dtype)
    for b, problem in enumerate(problems):
        x[b, : lengths[b], : problem.log_probs.shape[1]] = torch.as_tensor(problem.log_probs)
        wildcard[b, : lengths[b]] = torch.as_tensor(problem.wildcard)
    topology = together([problem.topology for problem in problems])
    given = (x.to(DEVICE), topology, lengths)
    path, forward, occupancy = (
        kernel(*given, wildcard=wildcard.to(DEVICE), backend="gpu")
        for kernel in (kernels.best_path, kernels.forward, kernels.occupancy)
    )
    posteriors, states = occupancy.posteriors.cpu().double(), path.states.tolist()
    own = None if occupancy.wildcard is None else occupancy.wildcard.cpu().double()
    found = []
    for b, problem in enumerate(problems):
        length, answer = int(lengths[b]), problem.answer
        expected = list(answer.path) if answer.path is not None else [-1] * length
        if states[b] != expected + [-1] * (x.shape[1] - length):
            found.append(f"{problem.name}: path {states[b]}, expected {expected}")
        for what, met, right in (
            ("best", path.scores, answer.best),
            ("total", forward.scores, answer.total),
            ("total beside occupancy", occupancy.scores, answer.total),
        ):
            if not close(float(met[b]), right, relative, absolute):
                found.append(f"{problem.name}: {what} {float(met[b])!r}, expected {right!r}")
        right = torch.zeros(x.shape[1:], dtype=torch.float64)
        right[:length, : problem.log_probs.shape[1]] = torch.as_tensor(answer.occupancy)
        if not torch.allclose(posteriors[b], right, rtol=0, atol=absolute):
            found.append(f"{problem.name}: occupancy is off by {(posteriors[b] - right).abs().max()}")
        right = torch.zeros(x.shape[1], dtype=torch.float64)
        right[:length] = torch.as_tensor(answer.wildcard)
        if own is not None and not torch.allclose(own[b], right, rtol=0, atol=absolute):
            found.append(f"{problem.name}: the wildcard's occupancy is off by {(own[b] - right).abs().max()}")
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
