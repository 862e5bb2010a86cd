"""Scores at the ends of what floats hold, where numbers could overflow, vanish or be trusted
wrongly; and NaN and +inf, which are no log-probs: results are NaN where paths meet them, and only
there."""

from __future__ import annotations

import itertools

import pytest
import torch
from gpu_problems import NEVER, device_of
from gpu_problems import backend as backend
from gpu_problems import loaded as loaded
from gpu_problems import modules as modules

from ctc_align import kernels, lattice

TARGET = [1, 2, 2, 3, 1]
TOPOLOGY = lattice.ctc([TARGET])
FRAMES = {"cpu": 300, "gpu": 40}
"""Frames of longer utterances: interpreted, time goes by the frame."""
Cells = tuple[int | slice, ...]
ALL = slice(None)


def noise(utterances: int, frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        utterances, frames, 4, generator=torch.Generator().manual_seed(seed)
    ).log_softmax(-1)


def agrees(
    x: torch.Tensor, topology: lattice.Topology, backend: str, atol: float = 1e-4
) -> torch.Tensor:
    """Compare float32 with the float64 reference on the same numbers; return the totals."""
    there = x.to(device_of(backend))
    met = kernels.occupancy(there, topology, backend=backend)
    right = kernels.occupancy(x.double(), topology, backend="reference")
    torch.testing.assert_close(met.scores.cpu(), right.scores, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(met.posteriors.cpu(), right.posteriors.float(), rtol=0, atol=atol)
    assert kernels.forward(there, topology, backend=backend).tolist() == met.scores.tolist()
    path = kernels.best_path(there, topology, backend=backend)
    best = kernels.best_path(x, topology, backend="reference")
    assert path.scores.tolist() == best.scores.tolist()
    assert path.states.tolist() == best.states.tolist()
    return right.scores


def test_scores_at_a_level(backend: str) -> None:
    """Every class, one, one frame, one cell, all but the blank, at every level: each a line of one
    batch."""
    frames, rows = FRAMES[backend], []
    cells: list[Cells] = [
        (),
        (ALL, 0),
        (ALL, 2),
        (frames // 2,),
        (frames // 2 + 5, 1),
        (ALL, slice(1, None)),
    ]
    for number, (level, where) in enumerate(
        itertools.product([-9e4, -1e6, -1e10, 200.0, 9e4, 1e5, 1e10], cells)
    ):
        row = noise(1, frames, number)[0]
        row[where] = row + level if where == () else level
        rows.append(row)
    agrees(torch.stack(rows), lattice.ctc([TARGET] * len(rows)), backend, 1e-2)


def test_infinitely_unlikely_and_very_likely_together(backend: str) -> None:
    frames = 2 * FRAMES[backend]
    x = torch.full((3, frames, 4), 9e4)
    x[:, 0] = NEVER
    x[1:, 0, 0] = 0.0
    x[2, frames // 2] = NEVER
    assert (agrees(x, lattice.ctc([TARGET] * 3), backend) == NEVER).tolist() == [True, False, True]


def test_far_below_the_best_of_each_frame(backend: str) -> None:
    """The target's classes all but impossible, another class of the lattice likely: totals beyond
    scaled numbers."""
    for level, frames, rows in (
        (-2e6, 60, [[1, 2, 3] + [1, 2] * 9, [1, 2]]),
        (-2e4, 700, [[1, 2] * 200, [1, 2] * 60]),
    ):
        if frames < 2 * FRAMES[backend]:
            x = torch.full((2, frames, 4), level)
            x[:, :, 3] = 0.0
            assert (agrees(x + noise(2, frames, 2), lattice.ctc(rows), backend, 1e-2) < -1e6).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_beyond_what_sums_can_tell(backend: str, dtype: torch.dtype) -> None:
    """Where even float64 has no digits left, scores have the right size and occupancy is still a
    distribution."""
    cells: list[Cells] = [(0,), (ALL, 0), (20,), (ALL, slice(1, None)), ()]
    x = noise(20, 30).to(dtype)
    for row, (where, level) in zip(x, itertools.product(cells, [-1e30, 1e30, -3.4e38, 3.4e38])):
        row[where] = level
    topology, there = lattice.ctc([TARGET] * len(x)), x.to(device_of(backend))
    met = kernels.occupancy(there, topology, backend=backend)
    right = kernels.best_path(x.double(), topology, backend="reference").scores.tolist()
    torch.testing.assert_close(met.posteriors.sum(2).cpu(), torch.ones(20, 30, dtype=dtype))
    assert met.scores.tolist() == pytest.approx(right, rel=1e-6)
    assert kernels.best_path(there, topology, backend=backend).scores.tolist() == pytest.approx(
        right, rel=1e-9
    )


def test_one_value_everywhere(backend: str) -> None:
    values = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 1e-40])
    agrees(values[:, None, None].expand(5, 9, 4), lattice.ctc([TARGET] * 5), backend)


def test_impossible_rows(backend: str) -> None:
    x = noise(7, 12)
    holes: list[Cells] = [
        (0,),
        (11,),
        (5,),
        (ALL,),
        (ALL, 0),
        (5, slice(1, None)),
        (slice(0, 6), 1),
    ]
    for row, cells in zip(x, holes):
        row[cells] = NEVER
    totals = agrees(x, lattice.ctc([TARGET] * len(holes)), backend, 1e-5)
    assert (totals == NEVER).tolist() == [True] * 5 + [False] * 2


@pytest.mark.parametrize("frames", [0, 1, 2, 3, 6])
def test_corners(backend: str, frames: int) -> None:
    topology, x = lattice.ctc([TARGET[:tokens] for tokens in (0, 1, 2, 5)]), noise(4, frames)
    assert (agrees(x, topology, backend, 1e-5) == NEVER).tolist() == (
        frames < topology.min_frames
    ).tolist()
    met = kernels.best_labels(x.to(device_of(backend)), topology, None, 0, backend=backend)
    right = kernels.best_labels(x, topology, None, 0, backend="reference")
    assert [one.cpu().tolist() for one in met] == [one.tolist() for one in right]


def test_digits_of_long_utterances(backend: str) -> None:
    """Better than 1e-5 where PyTorch's own loss in float32 has lost two digits more."""
    x = (3 * torch.randn(2, 200, 20, generator=torch.Generator().manual_seed(8))).log_softmax(-1)
    topology = lattice.ctc(
        torch.randint(1, 20, (2, 40), generator=torch.Generator().manual_seed(9)).tolist()
    )
    met = kernels.occupancy(x.to(device_of(backend)), topology, backend=backend)
    right = kernels.occupancy(x.double(), topology, backend="cpu")
    torch.testing.assert_close(met.scores.cpu(), right.scores, rtol=1e-6, atol=0)
    torch.testing.assert_close(met.posteriors.cpu(), right.posteriors.float(), rtol=0, atol=1e-5)


def test_a_nearly_certain_transcript_keeps_its_digits() -> None:
    x = torch.full((1, 3000, 4), -16.0)
    x[0, :, 0] = 0.0
    for place, token in enumerate(TARGET):
        x[0, 500 * place + 250] = torch.tensor([-16.0 if k != token else 0.0 for k in range(4)])
    x = x.log_softmax(-1)
    met, right = float(kernels.forward(x, TOPOLOGY)), float(kernels.forward(x.double(), TOPOLOGY))
    assert -0.02 < right < 0
    assert met == pytest.approx(right, abs=2e-7)


BAD = [float("nan"), -float("nan"), float("inf")]
in_both = pytest.mark.parametrize("backend", ["cpu", "reference"])


@in_both
@pytest.mark.parametrize(("frames", "tokens"), [(12, 5), (12, 8), (400, 200)])
def test_every_path_meets_them(frames: int, tokens: int, backend: str) -> None:
    """Each of them at the first, the second and the twelfth frame, in one batch."""
    cases = list(itertools.product(BAD, (0, 1, 11)))
    x = noise(1, frames).repeat(len(cases), 1, 1)
    for row, (bad, frame) in zip(x, cases):
        row[frame] = bad
    topology = lattice.ctc([[1, 2] * (tokens // 2)] * len(cases))
    path = kernels.best_path(x, topology, backend=backend)
    occupancy = kernels.occupancy(x, topology, backend=backend)
    assert path.scores.isnan().all()
    assert kernels.forward(x, topology, backend=backend).isnan().all()
    assert occupancy.scores.isnan().all()
    assert (path.states == -1).all()
    assert occupancy.posteriors.isnan().all()


CELLS = [(frame, label) for frame in (0, 1, 2, 5, 9, 10, 11) for label in range(4)]


def meets(topology: lattice.Topology, frames: int, cell: tuple[int, int]) -> bool:
    """Whether a path that there is emits the class at the frame: states that can be reached, and
    left for the end."""
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


@in_both
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_some_paths_meet_them_or_none(dtype: torch.dtype, bad: float, backend: str) -> None:
    """One cell: NaN if any path can meet it; else the result is that of any other number in its
    place."""
    wrong = noise(1, 12).to(dtype).repeat(len(CELLS), 1, 1)
    right = wrong.clone()
    for b, (frame, label) in enumerate(CELLS):
        wrong[b, frame, label], right[b, frame, label] = bad, -1.0
    topology = lattice.ctc([TARGET] * len(CELLS))
    paths = [kernels.best_path(x, topology, backend=backend) for x in (wrong, right)]
    occupancies = [kernels.occupancy(x, topology, backend=backend) for x in (wrong, right)]
    forward = kernels.forward(wrong, topology, backend=backend)
    assert forward.tolist() == pytest.approx(occupancies[0].scores.tolist(), nan_ok=True)
    met = 0
    for b, cell in enumerate(CELLS):
        states, scores = ([each.states[b] for each in paths], [each.scores[b] for each in paths])
        posteriors, totals = (
            [each.posteriors[b] for each in occupancies],
            [each.scores[b] for each in occupancies],
        )
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


@in_both
@pytest.mark.parametrize("bad", BAD)
def test_where_no_path_can_be_they_are_not_met(bad: float, backend: str) -> None:
    """Behind a wall of -inf, and in a class that no state emits."""
    x = torch.cat((noise(1, 12), torch.full((1, 12, 1), bad)), 2)
    right = kernels.best_path(noise(1, 12), TOPOLOGY, backend=backend)
    path = kernels.best_path(x, TOPOLOGY, backend=backend)
    assert path.scores.tolist() == right.scores.tolist()
    assert not kernels.occupancy(x, TOPOLOGY, backend=backend).posteriors.isnan().any()
    x[0, 5], x[0, 8] = NEVER, bad
    assert kernels.best_path(x, TOPOLOGY, backend=backend).scores.tolist() == [NEVER]
    assert kernels.forward(x, TOPOLOGY, backend=backend).tolist() == [NEVER]
    assert (kernels.occupancy(x, TOPOLOGY, backend=backend).posteriors == 0).all()
