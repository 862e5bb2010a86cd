"""Where PyTorch's CTC loss is wrong, by issues that people reported: its gradient fails, and ours passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from ctc_align import CTCLoss
from ctc_align.functional import ctc_loss

theirs = torch.nn.functional.ctc_loss
INF = float("inf")


def random_log_probs(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


def gradient_is_right(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> bool:
    """By finite differences."""
    return torch.autograd.gradcheck(loss, x.detach().clone().requires_grad_(), raise_exception=False)


WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # https://github.com/pytorch/pytorch/issues/52241
    "by log-probs": lambda x: x,
    # https://github.com/pytorch/pytorch/issues/122243
    "behind priors": lambda x: x.log_softmax(2) - 0.3 * torch.tensor([0.9, 0.05, 0.05], dtype=torch.float64).log(),
    "behind a bonus for one class": lambda x: x.log_softmax(2) + torch.tensor([0.0, 0.0, 1.0]),
    "at another temperature": lambda x: 0.5 * x.log_softmax(2),
}


@pytest.mark.parametrize("before", WRONG)
def test_scores_that_are_not_normalised(before: str) -> None:
    x = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rest = torch.tensor([[1, 2], [1, 1]]), [5, 4], [2, 2]
    for reduction in ("mean", "sum"):
        assert gradient_is_right(lambda x: ctc_loss(WRONG[before](x), *rest, reduction=reduction), x)  # noqa: B023
        assert not gradient_is_right(lambda x: theirs(WRONG[before](x), *rest, reduction=reduction), x)  # noqa: B023
    assert gradient_is_right(lambda x: theirs(x.log_softmax(2), *rest), x), "where PyTorch's is right"


def test_one_token_in_three_normalised_frames() -> None:
    """https://github.com/pytorch/pytorch/issues/181534: normalised, and still not right by the log-probs themselves."""
    x = random_log_probs(3, 1, 3, seed=123).double()
    rest = torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1])
    assert gradient_is_right(lambda x: CTCLoss(blank=0)(x, *rest), x)
    assert not gradient_is_right(lambda x: torch.nn.CTCLoss(blank=0)(x, *rest), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_impossible_log_probs(dtype: torch.dtype) -> None:
    """A class that cannot be, in one frame, by a logit of -inf: PyTorch's gradient is NaN, ours that of the others."""
    logits = torch.randn(5, 1, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    logits[0, 0, 2] = -INF
    rest = torch.tensor([[1, 2]]), [5], [2]

    def gradient(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        leaf = logits.clone().requires_grad_()
        function(leaf.log_softmax(2), *rest).backward()
        return leaf.grad

    assert gradient(theirs).isnan().any()
    met = gradient(ctc_loss)
    low = torch.where(logits == -INF, -100.0, logits).requires_grad_()
    theirs(low.log_softmax(2), *rest).backward()
    torch.testing.assert_close(met, low.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e10, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_logits_of_any_size(dtype: torch.dtype, scale: float) -> None:
    """At such scales one path is all: the loss is the distance from the best label to the path's, in every frame."""
    logits = (scale * torch.tensor([[[3.0, 1, 2]], [[1, 0, 4]], [[0, 2, 1]]], dtype=dtype)).requires_grad_()
    loss = ctc_loss(logits.log_softmax(2), torch.tensor([[1, 2]]), [3], [2], reduction="sum")
    # Blank 1 2: 0 + 3 + 1; 1 2 blank: 2 + 0 + 2; 1 2 2: 2 + 0 + 1, the best; 1 1 2: 2 + 4 + 1; 1 blank 2: 2 + 3 + 1.
    assert loss.item() == pytest.approx(3 * scale, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    right = torch.nn.functional.one_hot(torch.tensor([[0], [2], [1]]), 3) - torch.nn.functional.one_hot(
        torch.tensor([[1], [2], [2]]), 3
    )
    torch.testing.assert_close(gradient.detach(), right.to(dtype))
    (second,) = torch.autograd.grad((gradient * torch.randn_like(gradient)).sum(), logits)
    assert (second == 0).all()
