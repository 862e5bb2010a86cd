"""A batch, all losses of it, and a step of training, for the tests of PyTorch's own ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ctc_align import CTCLoss, losses
from ctc_align.functional import ctc_loss, simple_ctc_loss

FRAMES, UTTERANCES, CLASSES = 9, 3, 5
SCORES = torch.randn(FRAMES, UTTERANCES, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGETS = torch.tensor([[1, 2, 2], [3, 4, 0], [1, 0, 0]])
LENGTHS, TOKENS = torch.tensor([9, 8, 6]), torch.tensor([3, 2, 1])
REST = TARGETS, LENGTHS, TOKENS
PROBLEM = (*REST, 0, "ctc", "auto")
LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "ctc_loss": ctc_loss,
    "simple_ctc_loss": simple_ctc_loss,
    "label_prior_ctc_loss": lambda *a: losses.label_prior_ctc_loss(*a, log_prior=torch.linspace(-3, -1, CLASSES)),
    "reweighted_ctc_loss": lambda *a: losses.reweighted_ctc_loss(*a, focus=1.0),
    **{
        name: getattr(losses, name)
        for name in ("soft_target_cross_entropy", "focal_ctc_loss", "label_smoothed_ctc_loss", "alignment_entropy")
    },
}


def loss(x: torch.Tensor, kind: str = "ctc_loss") -> torch.Tensor:
    return LOSSES[kind](x.log_softmax(2), *REST) + x.pow(2).sum()


def gradient(x: torch.Tensor, call: Callable[[torch.Tensor], torch.Tensor] = loss) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(call(leaf), leaf)[0]


def close(met: Any, right: Any) -> None:
    torch.testing.assert_close(met, right, rtol=1e-10, atol=1e-12)


class Step(torch.nn.Module):
    """A network and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(CLASSES, CLASSES).double()
        self.loss = CTCLoss()

    def forward(self, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        return self.loss(self.network(x).log_softmax(2), *rest)
