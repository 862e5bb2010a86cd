"""NaN and +inf, which are no log-probs: told where paths meet them, and only there."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ctc_align import kernels, lattice

NEVER = float("-inf")
BAD = [float("nan"), -float("nan"), float("inf")]
TARGET = [1, 2, 2, 3, 1]
TOPOLOGY = lattice.ctc([TARGET])
everywhere = pytest.mark.parametrize("backend", ["cpu", "reference"])


def noise(frames: int) -> torch.Tensor:
    return torch.randn(1, frames, 4, generator=torch.Generator().manual_seed(0)).log_softmax(-1)


@everywhere
@pytest.mark.parametrize(("frames", "tokens"), [(12, 5), (12, 8), (400, 200)])
def test_every_path_meets_them(frames: int, tokens: int, backend: str) -> None:
    """Each of them at the first, the second and the twelfth frame, in one batch."""
    cases = list(itertools.product(BAD, (0, 1, 11)))
    x = noise(frames).repeat(len(cases), 1, 1)
    for row, (bad, frame) in zip(x, cases):
        row[frame] = bad
    topology = lattice.ctc([[1, 2] * (tokens // 2)] * len(cases))
    path = kernels.best_path(x, topology, backend=backend)
    occupancy = kernels.occupancy(x, topology, backend=backend)
    assert path.scores.isnan().all()
    assert kernels.forward(x, topology, backend=backend).scores.isnan().all()
    assert occupancy.scores.isnan().all()
    assert (path.states == -1).all()
    assert occupancy.posteriors.isnan().all()


CELLS = [(frame, label) for frame in (0, 1, 2, 5, 9, 10, 11) for label in range(4)]


def meets(topology: lattice.Topology, frames: int, cell: tuple[int, int]) -> bool:
    """Whether a path that there is emits the class at the frame: states that can be reached, and left for the end."""
    size, (frame, label) = int(topology.states[0]), cell

    def moves(reached: set[int]) -> set[int]:
        onward = {s for p in reached for s in (p, p + 1, p + 2) if s < size}
        return {s for s in onward if s in reached or s - 1 in reached or topology.skip[0, s]}

    def back(reached: set[int]) -> set[int]:
        return {p for p in range(size) if moves({p}) & reached}

    there, thence = {0, 1}, {size - 2, size - 1}
    for _ in range(frame):
        there = moves(there)
    for _ in range(frames - 1 - frame):
        thence = back(thence)
    return any(topology.emit[0, s] == label for s in there & thence)


@everywhere
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_some_paths_meet_them_or_none(dtype: torch.dtype, bad: float, backend: str) -> None:
    """One cell: NaN if any path can meet it; else the result is that of any other number in its place."""
    wrong = noise(12).to(dtype).repeat(len(CELLS), 1, 1)
    right = wrong.clone()
    for b, (frame, label) in enumerate(CELLS):
        wrong[b, frame, label], right[b, frame, label] = bad, -1.0
    topology = lattice.ctc([TARGET] * len(CELLS))
    paths = [kernels.best_path(x, topology, backend=backend) for x in (wrong, right)]
    occupancies = [kernels.occupancy(x, topology, backend=backend) for x in (wrong, right)]
    forward = kernels.forward(wrong, topology, backend=backend)
    assert forward.scores.tolist() == pytest.approx(occupancies[0].scores.tolist(), nan_ok=True)
    met = 0
    for b, cell in enumerate(CELLS):
        states, scores = ([each.states[b] for each in paths], [each.scores[b] for each in paths])
        posteriors, totals = ([each.posteriors[b] for each in occupancies], [each.scores[b] for each in occupancies])
        if meets(TOPOLOGY, 12, cell):
            met += 1
            assert scores[0].isnan(), cell
            assert totals[0].isnan(), cell
            assert (states[0] == -1).all()
            assert posteriors[0].isnan().all()
        else:
            assert scores[0] == scores[1], cell
            assert states[0].tolist() == states[1].tolist(), cell
            torch.testing.assert_close(totals[0], totals[1], rtol=1e-6, atol=1e-6)
            torch.testing.assert_close(posteriors[0], posteriors[1], rtol=0, atol=1e-5)
    assert 10 < met < len(CELLS) - 4


@everywhere
@pytest.mark.parametrize("bad", BAD)
def test_where_no_path_can_be_they_are_not_met(bad: float, backend: str) -> None:
    """Behind a wall of -inf, and in a class that no state emits."""
    x = torch.cat((noise(12), torch.full((1, 12, 1), bad)), 2)
    right = kernels.best_path(noise(12), TOPOLOGY, backend=backend)
    path = kernels.best_path(x, TOPOLOGY, backend=backend)
    assert path.scores.tolist() == right.scores.tolist()
    assert not kernels.occupancy(x, TOPOLOGY, backend=backend).posteriors.isnan().any()
    x[0, 5], x[0, 8] = NEVER, bad
    assert kernels.best_path(x, TOPOLOGY, backend=backend).scores.tolist() == [NEVER]
    assert kernels.forward(x, TOPOLOGY, backend=backend).scores.tolist() == [NEVER]
    assert (kernels.occupancy(x, TOPOLOGY, backend=backend).posteriors == 0).all()


def test_negative_nan_bits_are_seen() -> None:
    x = noise(12)
    x[0, 5, 2] = torch.as_tensor(np.array([0xFFC00000], np.uint32).view(np.float32))[0]
    assert kernels.forward(x, TOPOLOGY).scores.isnan().all()
