"""Scores at the ends of what floats hold, where numbers could overflow, vanish or be trusted wrongly; and NaN and +inf,
which are no log-probs: told where paths meet them, and only there."""

from __future__ import annotations

import itertools

import pytest
import torch

from ctc_align import kernels, lattice
from ctc_align.kernels.cpu import log_sums

NEVER = float("-inf")
TARGET = [1, 2, 2, 3, 1]
TOPOLOGY = lattice.ctc([TARGET])


def noise(frames: int, seed: int = 0, classes: int = 4) -> torch.Tensor:
    return torch.randn(1, frames, classes, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


def agrees(x: torch.Tensor, topology: lattice.Topology = TOPOLOGY, atol: float = 1e-4) -> float:
    """float32 against the float64 reference on the same numbers; returns the total."""
    met = kernels.occupancy(x, topology, backend="cpu")
    right = kernels.occupancy(x.double(), topology, backend="reference")
    torch.testing.assert_close(met.scores, right.scores, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(met.posteriors, right.posteriors.to(met.posteriors), rtol=0, atol=atol)
    assert kernels.forward(x, topology, backend="cpu").scores.tolist() == met.scores.tolist()
    path, best = (kernels.best_path(x, topology, backend=backend) for backend in ("cpu", "reference"))
    torch.testing.assert_close(path.scores, best.scores, rtol=1e-9, atol=1e-9)
    if best.scores[0] > NEVER:
        on_path = topology.emit[0][path.states[0].numpy()]
        along = x[0, torch.arange(x.shape[1]), torch.as_tensor(on_path).long()].double().sum()
        torch.testing.assert_close(along, best.scores[0], rtol=1e-9, atol=1e-9)
    return float(right.scores[0])


@pytest.mark.parametrize(
    "level", [-9e4, 1e5, -1e10, 1e10, *(pytest.param(x, marks=pytest.mark.long) for x in (-1e6, 200.0, 9e4))]
)
def test_scores_at_a_level(level: float) -> None:
    for frames in (7, 400):
        agrees(torch.full((1, frames, 4), level) + noise(frames), atol=1e-2)
    for cells in (
        (0, slice(None), 0),  # the blank
        (0, slice(None), 2),  # a token
        (0, slice(None), slice(1, None)),  # all tokens
        (0, 150),  # a frame
        (0, 140, 1),  # one cell
    ):
        x = noise(300, 1)
        x[cells] = level
        agrees(x, atol=1e-2)


def test_infinitely_unlikely_and_very_likely_together() -> None:
    x = torch.full((1, 700, 4), 9e4)
    x[:, 0] = NEVER
    assert agrees(x) == NEVER
    x[:, 0, 0] = 0.0
    agrees(x)
    x[:, 350, :] = NEVER
    assert agrees(x) == NEVER


def test_far_below_the_best_of_each_frame() -> None:
    """The target's classes all but impossible, another class of the lattice likely: totals beyond scaled numbers."""
    x = torch.full((1, 700, 4), -2e4)
    x[:, :, 3] = 0.0
    x = x + noise(700, 2)
    topology = lattice.ctc([[1, 2] * 200])
    assert agrees(x, lattice.ctc([[1, 2, 3] + [1, 2] * 30]), atol=1e-2) < -1e6
    agrees(x, topology, atol=1e-2)


def test_numbers_beyond_trust_are_left_to_logarithms(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, in_logarithms = [], log_sums.log_sums
    monkeypatch.setattr(log_sums, "log_sums", lambda *arguments: (calls.append(1), in_logarithms(*arguments))[1])
    agrees(noise(300, 3))
    agrees(torch.full((1, 300, 4), -9e4))
    assert not calls
    x = torch.full((1, 300, 4), -1e6)
    x[:, ::2, 3] = 0.0
    x[:, 1::2, 1] = 0.0
    agrees(x, lattice.ctc([[1, 3] + [2] * 140 + [1, 3]]), atol=1e-2)
    assert calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("level", [-1e30, 1e30, -3.4e38, 3.4e38])
@pytest.mark.parametrize("cells", [(0,), (0, slice(None), 0), (0, 20), (0, slice(None), slice(1, None))], ids=str)
def test_beyond_what_sums_can_tell(cells: tuple, level: float, dtype: torch.dtype) -> None:
    """Where even float64 has no digits left, scores have the right size and occupancy is still a distribution."""
    x = noise(40).to(dtype)
    x[cells] = level
    met = kernels.occupancy(x, TOPOLOGY)
    best = kernels.best_path(x, TOPOLOGY)
    right = kernels.best_path(x.double(), TOPOLOGY, backend="reference")
    torch.testing.assert_close(met.posteriors.sum(2), torch.ones(1, 40, dtype=dtype))
    assert met.scores.tolist() == pytest.approx(right.scores.tolist(), rel=1e-6)
    assert best.scores.tolist() == pytest.approx(right.scores.tolist(), rel=1e-9)


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -1e-45, 1e-40])
def test_one_value_everywhere(value: float) -> None:
    agrees(torch.full((1, 9, 4), value))


def test_impossible_rows() -> None:
    x = noise(12)
    for cells in [(0, 0), (0, 11), (0, 5), (0, slice(None)), (0, slice(None), 0)]:
        holes = x.clone()
        holes[cells] = NEVER
        agrees(holes)


@pytest.mark.parametrize("tokens", [0, 1, 2, 5])
@pytest.mark.parametrize("frames", [0, 1, 2, 3, 6])
def test_corners(frames: int, tokens: int) -> None:
    row = TARGET[:tokens]
    topology = lattice.ctc([row])
    total = agrees(noise(frames), topology)
    assert (total == NEVER) == (frames < int(topology.min_frames[0]))


def test_a_nearly_certain_transcript_keeps_its_digits() -> None:
    x = torch.full((1, 3000, 4), -16.0)
    x[0, :, 0] = 0.0
    for place, token in enumerate(TARGET):
        x[0, 500 * place + 250] = torch.tensor([-16.0 if k != token else 0.0 for k in range(4)])
    x = x.log_softmax(-1)
    met, right = float(kernels.forward(x, TOPOLOGY).scores), float(kernels.forward(x.double(), TOPOLOGY).scores)
    assert -0.02 < right < 0
    assert met == pytest.approx(right, abs=2e-7)


BAD = [float("nan"), -float("nan"), float("inf")]
everywhere = pytest.mark.parametrize("backend", ["cpu", "reference"])


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
