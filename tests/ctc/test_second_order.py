"""Second derivatives of the loss, first ones of its occupancies: against finite differences,
autograd, closed forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import TOPOLOGIES, target
from rows import first_row_of
from torch.autograd import gradcheck, gradgradcheck

from ctc_align import kernels, lattice
from ctc_align.ctc.autograd import losses, occupancies
from ctc_align.errors import BackendError, KernelError
from ctc_align.kernels import reference

BACKENDS = ["cpu", "reference"]
CLASSES = 5
NEVER = float("-inf")


def topology_of(rng: np.random.Generator, kind: str, rows: list[list[int]]) -> lattice.Topology:
    """Of rows of ids from 1 to CLASSES - 1, with many repeats; class 0 is the blank or the
    silence."""
    free = [rng.random(len(row)) < 0.5 for row in rows] if "optional" in kind else None
    if "segments" in kind:
        words = [np.cumsum(rng.integers(0, 2, len(row))) for row in rows]
        return lattice.segmentation(
            [[k // 2 for k in row] for row in rows], words, 1, CLASSES - 1, free
        )
    return lattice.simple_ctc(rows) if kind == "simple" else lattice.ctc(rows, 0, free)


def problem(seed: int, kind: str) -> tuple[torch.Tensor, lattice.Topology, torch.Tensor]:
    """Unnormalised scores (B, T, C) float64, a topology and lengths: an empty target, an exact fit,
    padding."""
    rng = np.random.default_rng(seed)
    rows = [target(rng, int(n), CLASSES, 0) for n in (*rng.integers(1, 4, 2), 0, 3)]
    topology = topology_of(rng, kind, rows)
    lengths = np.maximum(topology.min_frames, 1) + rng.integers(0, 3, len(rows))
    lengths[-1] = max(topology.min_frames[-1], 1)
    x = torch.as_tensor(rng.normal(size=(len(rows), int(lengths.max()) + 1, CLASSES)) * 2 + 1)
    return x.requires_grad_(), topology, torch.as_tensor(lengths)


@pytest.mark.parametrize("seed", first_row_of(range(6)))
@pytest.mark.parametrize("kind", TOPOLOGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_finite_differences(backend: str, kind: str, seed: int) -> None:
    x, topology, lengths = problem(seed, kind)
    fast = {"fast_mode": True}  # along random directions; entry by entry in test_a_whole_hessian
    assert gradcheck(lambda x: losses(x, topology, lengths, backend), x, **fast)
    assert gradgradcheck(lambda x: losses(x, topology, lengths, backend), x, **fast)
    assert gradcheck(lambda x: occupancies(x, topology, lengths, backend), x, **fast)


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_whole_hessian(kind: str) -> None:
    """Against the reference's tangents; symmetric, positive, and 0 along what moves all classes of
    a frame alike."""
    x, topology, lengths = problem(4, kind)
    rest = topology, lengths
    met = torch.autograd.functional.hessian(lambda x: losses(x, *rest).sum(), x)
    size = x.numel()
    units = torch.eye(size, dtype=x.dtype).view(size, *x.shape)
    right = [kernels.tangent(x.detach(), *rest, unit, backend="reference")[0] for unit in units]
    torch.testing.assert_close(met, -torch.stack(right, -1).view_as(met), rtol=0, atol=1e-12)
    matrix = -met.reshape(size, size)
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-14)
    assert torch.linalg.eigvalsh(matrix).min() > -1e-12
    torch.testing.assert_close(met.sum(5), torch.zeros_like(met[..., 0]), rtol=0, atol=1e-13)


def product(
    x: torch.Tensor, direction: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    leaf = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf).sum(), leaf, create_graph=True)
    (result,) = torch.autograd.grad((gradient * direction).sum(), leaf)
    assert result.dtype == x.dtype
    return result


@pytest.mark.parametrize("kind", TOPOLOGIES)
@pytest.mark.parametrize(
    ("dtype", "atol"),
    [(torch.float32, 2e-6), (torch.float16, 1e-2), (torch.bfloat16, 1e-1)],
    ids=str,
)
def test_less_precision(dtype: torch.dtype, atol: float, kind: str) -> None:
    for seed in range(8):
        x, *rest = problem(seed, kind)
        direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        x, weights = x.detach().to(dtype), torch.linspace(-1, 2, len(x)).to(dtype)

        def weighted(
            y: torch.Tensor, rest: list = rest, weights: torch.Tensor = weights
        ) -> torch.Tensor:
            return losses(y, *rest) * weights.to(losses(y, *rest))

        met = product(x, direction, weighted)
        right = product(x.double(), direction.double(), weighted)
        torch.testing.assert_close(met.double(), right, rtol=atol, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_does_not_fit_and_what_is_infinite(backend: str, dtype: torch.dtype) -> None:
    """Too short, impossible, -inf beside the way, no frame at all: never NaN, and the neighbours
    are not concerned."""
    x = torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(0)).to(dtype).log_softmax(2)
    x[1, :, 2] = NEVER
    x[2, 1] = torch.tensor([NEVER, 0.0, NEVER], dtype=dtype)
    topology = lattice.ctc([[1, 1, 2], [1, 2], [1, 2], [], [1, 2]])
    rest = topology, torch.tensor([3, 4, 4, 0, 4]), backend
    leaf = x.clone().requires_grad_()
    loss = losses(leaf, *rest)
    assert loss.isinf().tolist() == [True, True, False, False, False]
    assert loss[3] == 0
    (gradient,) = torch.autograd.grad(loss.sum(), leaf, create_graph=True)
    assert (gradient[[0, 1, 3]] == 0).all()
    (second,) = torch.autograd.grad((gradient**2).sum(), leaf)
    assert torch.isfinite(second).all()
    assert (second[[0, 1, 3]] == 0).all()
    assert second[2, 1].abs().max() < 1e-14
    assert second[2].abs().max() > 0.01
    alone = lattice.ctc([[1, 2]])
    for b in (2, 4):
        mine = x[b : b + 1].clone().requires_grad_()
        (first,) = torch.autograd.grad(
            losses(mine, alone, None, backend).sum(), mine, create_graph=True
        )
        torch.testing.assert_close(
            torch.autograd.grad((first**2).sum(), mine)[0], second[b : b + 1], rtol=0, atol=1e-15
        )


@pytest.mark.parametrize("upstream", [float("inf"), -float("inf"), float("nan")])
def test_nothing_comes_of_what_is_above_an_impossible_loss(upstream: float) -> None:
    x = torch.zeros(1, 3, 3, requires_grad=True)
    weight = torch.tensor(upstream, requires_grad=True)
    loss = losses(x, lattice.ctc([[1, 1, 2]])) * weight
    first = torch.autograd.grad(loss.sum(), (x, weight), create_graph=True)
    assert (first[0] == 0).all()
    second = torch.autograd.grad(first[0].sum(), (x, weight))
    assert (second[0] == 0).all()
    assert second[1] == 0


def test_padding_is_never_read_and_has_no_second_derivative() -> None:
    x, topology, lengths = problem(5, "ctc")
    inside = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    direction = torch.ones_like(x).cumsum(2)
    clean = product(x.detach(), direction, lambda y: losses(y, topology, lengths))
    poisoned = torch.where(inside, x.detach(), float("nan"))
    met = product(poisoned, direction, lambda y: losses(y, topology, lengths))
    assert torch.equal(met, clean)
    assert (met.masked_select(~inside) == 0).all()


def test_posteriors_are_made_once_for_two_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    x, topology, lengths = problem(7, "ctc")
    made = []
    occupancy = kernels.occupancy
    monkeypatch.setattr(kernels, "occupancy", lambda *a, **k: made.append(1) or occupancy(*a, **k))
    (first,) = torch.autograd.grad(losses(x, topology, lengths).sum(), x, create_graph=True)
    torch.autograd.grad((first**2).sum(), x)
    assert len(made) == 1


def test_a_third_derivative_is_refused() -> None:
    x, topology, lengths = problem(8, "ctc")
    (first,) = torch.autograd.grad(losses(x, topology, lengths).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), x, create_graph=True)
    with pytest.raises(
        KernelError, match="differentiable twice, its occupancies once, not once more"
    ):
        second.sum().backward()
    (once,) = torch.autograd.grad(
        (occupancies(x, topology, lengths) ** 2).sum(), x, create_graph=True
    )
    with pytest.raises(KernelError, match="not once more"):
        once.sum().backward()


def test_occupancies_are_those_of_the_kernels() -> None:
    x, topology, lengths = problem(10, "segments")
    right = kernels.occupancy(x.detach(), topology, lengths).posteriors
    assert torch.equal(occupancies(x, topology, lengths).detach(), right)
    assert torch.equal(occupancies(x.detach(), topology, lengths), right)
    half = occupancies(x.detach().half().requires_grad_(), topology, lengths)
    assert (half.dtype, half.requires_grad) == (torch.float32, True)
    with pytest.raises(KernelError, match="expected a floating-point tensor"):
        occupancies([[1.0]], topology)  # type: ignore[arg-type]


def in_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reference's function as a backend's for tensors."""

    def called(*given: Any) -> Any:
        results = function(
            *(each.numpy() if isinstance(each, torch.Tensor) else each for each in given)
        )
        if isinstance(results, tuple):
            return tuple(None if each is None else torch.from_numpy(each) for each in results)
        return torch.from_numpy(results)

    return called


def test_a_backend_without_tangents_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` takes another one, whose name the result says; by name it is an error."""
    x, topology, lengths = problem(11, "ctc")
    monkeypatch.setattr(kernels, "_gpu_is_missing", lambda: None)
    bare = type(
        "gpu",
        (),
        {
            name: staticmethod(in_torch(getattr(reference, name)))
            for name in ("forward", "occupancy")
        },
    )
    opened = kernels._open
    monkeypatch.setattr(
        kernels,
        "_open",
        lambda name, x: ("gpu", bare) if name in ("gpu", "auto") else opened(name, x),
    )
    assert kernels.tangent(x, topology, lengths, x)[1].backend == "cpu"
    (first,) = torch.autograd.grad(losses(x, topology, lengths, "gpu").sum(), x, create_graph=True)
    with pytest.raises(
        BackendError, match="'gpu' has no tangents, which second derivatives need; use 'cpu', or 'a"
    ):
        first.sum().backward()
