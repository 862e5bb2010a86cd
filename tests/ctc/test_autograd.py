"""The loss against PyTorch's, its gradient against PyTorch's behind log_softmax and against finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from kernel_problems import target

from ctc_align import lattice
from ctc_align.ctc.autograd import losses

BACKENDS = ["cpu", "reference"]
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def batch(seed: int, blank: int, frames: int = 60, tokens: int = 12, classes: int = 8) -> Batch:
    """Logits (B, T, C) float64 and the rest; among the targets are an empty one and one that fits exactly."""
    rng = np.random.default_rng(seed)
    rows = [target(rng, int(n), classes, blank) for n in (*rng.integers(1, tokens + 1, 4), 0, tokens)]
    targets = np.full((len(rows), tokens), -7)
    for b, row in enumerate(rows):
        targets[b, : len(row)] = row
    lengths = rng.integers(30, frames + 1, len(rows))
    lengths[0] = frames
    lengths[-1] = tokens + sum(one == other for one, other in zip(rows[-1], rows[-1][1:]))
    logits = torch.as_tensor(rng.normal(size=(len(rows), frames, classes)) * 3)
    return logits, torch.as_tensor(targets), torch.as_tensor(lengths), torch.as_tensor([len(row) for row in rows])


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int = 0,
    backend: str = "auto",
) -> torch.Tensor:
    """Losses of padded targets, batch first, by any backend."""
    topology = lattice.ctc_padded(targets.numpy(), target_lengths.numpy(), blank)
    return losses(log_probs, topology, input_lengths, backend)


def torchs(log_probs: torch.Tensor, targets: torch.Tensor, *lengths: torch.Tensor, blank: int) -> torch.Tensor:
    # PyTorch looks at padding too: what stands there must be a token.
    clean = torch.where(targets < 0, (blank + 1) % log_probs.shape[2], targets)
    return torch.nn.functional.ctc_loss(log_probs.transpose(0, 1), clean, *lengths, blank=blank, reduction="none")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("blank", [0, 3, 7])
@pytest.mark.parametrize(("dtype", "relative"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["f64", "f32"])
def test_equals_pytorchs(dtype: torch.dtype, relative: float, blank: int, backend: str) -> None:
    for seed in range(5):
        logits, *rest = batch(seed, blank)
        log_probs = logits.to(dtype).log_softmax(2)
        met = ctc_loss(log_probs, *rest, blank=blank, backend=backend)
        torch.testing.assert_close(met, torchs(log_probs, *rest, blank=blank), rtol=relative, atol=1e-6 * relative)
        assert met.dtype == dtype


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 2e-6)], ids=["f64", "f32"])
def test_gradient_behind_log_softmax_equals_pytorchs(dtype: torch.dtype, atol: float, backend: str) -> None:
    for seed, blank in enumerate((0, 3, 7)):
        logits, *rest = batch(seed, blank)
        weights = torch.linspace(-1, 2, len(logits), dtype=torch.float64)

        def gradient(loss: Callable[..., torch.Tensor], x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            leaf = x.clone().requires_grad_()
            (loss(leaf.log_softmax(2)) * w).sum().backward()
            assert leaf.grad is not None
            return leaf.grad

        met = gradient(
            lambda x, rest=rest, blank=blank: ctc_loss(x, *rest, blank=blank, backend=backend),
            logits.to(dtype),
            weights.to(dtype),
        )
        right = gradient(lambda x, rest=rest, blank=blank: torchs(x, *rest, blank=blank), logits, weights)
        torch.testing.assert_close(met.double(), right, rtol=0, atol=atol)


def differences(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, step: float = 1e-5) -> torch.Tensor:
    """Central differences of a sum, one entry at a time."""
    gradient = torch.zeros_like(x)
    for place in np.ndindex(*x.shape):
        up, down = x.clone(), x.clone()
        up[place] += step
        down[place] -= step
        gradient[place] = (function(up) - function(down)) / (2 * step)
    return gradient


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_unnormalised_scores(backend: str) -> None:
    """Right here; PyTorch's, which takes for granted that log_softmax stands before it, is not."""
    x = torch.as_tensor(np.random.default_rng(1).normal(size=(2, 5, 4)) * 2 + 1)
    rest = torch.tensor([[1, 1, 2], [3, 0, 0]]), torch.tensor([5, 4]), torch.tensor([3, 1])
    measured = differences(lambda x: ctc_loss(x, *rest, backend=backend).sum(), x)
    leaf, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    ctc_loss(leaf, *rest, backend=backend).sum().backward()
    torchs(theirs, *rest, blank=0).sum().backward()
    torch.testing.assert_close(leaf.grad, measured, rtol=0, atol=1e-8)
    assert theirs.grad is not None
    assert (theirs.grad - measured).abs().max() > 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_does_not_fit(backend: str) -> None:
    """Too short, and impossible by -inf: loss inf, gradient zero, and the neighbours are not concerned."""
    x = torch.randn(4, 4, 3, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    x[1, :, 2] = float("-inf")
    x.requires_grad_()
    rest = torch.tensor([[1, 1, 2], [1, 2, 0], [1, 2, 0], [0, 0, 0]]), torch.tensor([3, 4, 4, 0]), [3, 2, 2, 0]
    loss = ctc_loss(x, rest[0], rest[1], torch.tensor(rest[2]), backend=backend)
    assert torch.isinf(loss).tolist() == [True, True, False, False]
    assert loss[3] == 0
    loss.mean().backward()
    assert x.grad is not None
    assert (x.grad[[0, 1, 3]] == 0).all()
    torch.testing.assert_close(x.grad[2].sum(1), torch.full((4,), -0.25))


def test_padding_has_no_gradient() -> None:
    x = torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))
    x[0, 3:] = float("nan")
    x.requires_grad_()
    ctc_loss(x, torch.tensor([[1, 2], [2, 1]]), torch.tensor([3, 6]), torch.tensor([2, 2])).sum().backward()
    assert x.grad is not None
    assert (x.grad[0, 3:] == 0).all()
    torch.testing.assert_close(x.grad[0, :3].sum(1), -torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    x = (torch.randn(1, 4000, 3, generator=torch.Generator().manual_seed(0)) - 30).to(dtype).requires_grad_()
    loss = ctc_loss(x, torch.tensor([[1, 2]]), torch.tensor([4000]), torch.tensor([2]))
    loss.sum().backward()
    assert 65504 < loss.item() < 200_000
    assert loss.dtype == torch.float32
    assert x.grad is not None
    assert x.grad.dtype == dtype
    assert float(x.grad.float().sum()) == pytest.approx(-4000, rel=1e-2)


def test_without_gradient_the_same_loss() -> None:
    logits, *rest = batch(0, 0)
    x = logits.log_softmax(2)
    with_gradient = ctc_loss(x.clone().requires_grad_(), *rest)
    assert with_gradient.requires_grad
    assert torch.equal(with_gradient.detach(), ctc_loss(x, *rest))
