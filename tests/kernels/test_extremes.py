"""Scores at the ends of what floats hold: where numbers could overflow, vanish or be trusted wrongly."""

from __future__ import annotations

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


@pytest.mark.parametrize("level", [-9e4, 1e5, -1e10, 1e10])
@pytest.mark.parametrize("frames", [7, 400])
def test_every_frame_at_a_level(level: float, frames: int) -> None:
    agrees(torch.full((1, frames, 4), level) + noise(frames), atol=1e-2)


@pytest.mark.parametrize(
    "level", [-9e4, 1e10, *(pytest.param(x, marks=pytest.mark.long) for x in (-1e6, -1e10, 200.0, 9e4))]
)
@pytest.mark.parametrize("where", ["blank", "a token", "a frame", "one cell", "all tokens"])
def test_some_scores_at_a_level(level: float, where: str) -> None:
    x = noise(300, 1)
    cells = {
        "blank": (0, slice(None), 0),
        "a token": (0, slice(None), 2),
        "a frame": (0, 150),
        "one cell": (0, 140, 1),
        "all tokens": (0, slice(None), slice(1, None)),
    }
    x[cells[where]] = level
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
    calls, logarithmic = [], log_sums.logarithmic
    monkeypatch.setattr(log_sums, "logarithmic", lambda *arguments: (calls.append(1), logarithmic(*arguments))[1])
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
