"""What the kernels are measured against: PyTorch's ctc_loss and torchaudio's forced_align, called as their users do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Contender:
    """Someone who does a task.

    Attributes:
        who: a backend of ours, or "torch", "torchaudio".
        call: what is timed.
        read: makes its result comparable: labels (B, T) and scores (B,) of best paths as arrays; losses (B,) and, with
            the gradient, occupancies (B, T, C) as float64 tensors on the CPU.
        ours: whether it must be right.
    """

    who: str
    call: Callable[[], Any]
    read: Callable[[Any], tuple[Any, ...]]
    ours: bool = False


def torchs_loss(log_probs: torch.Tensor, targets: np.ndarray, *, gradient: bool) -> Contender:
    """`torch.nn.functional.ctc_loss` of log-probs (B, T, C), in its own layout, and targets (B, L); blank 0."""
    leaf = log_probs.transpose(0, 1).contiguous().requires_grad_(gradient)
    batch, tokens = targets.shape
    rows = torch.from_numpy(targets).to(log_probs.device)
    lengths = torch.full((batch,), len(leaf)), torch.full((batch,), tokens)

    def call() -> torch.Tensor:
        leaf.grad = None
        losses = torch.nn.functional.ctc_loss(leaf, rows, *lengths, reduction="none")
        if gradient:
            losses.sum().backward()
        return losses.detach()

    def read(losses: torch.Tensor) -> tuple[Any, ...]:
        if leaf.grad is None:
            return (losses.cpu().double(),)
        # PyTorch's gradient takes for granted that log_softmax stands before it: exp(log_probs) - occupancy.
        posteriors = leaf.detach().double().exp() - leaf.grad.double()
        return losses.cpu().double(), posteriors.transpose(0, 1).cpu()

    return Contender("torch", call, read)


def import_forced_align() -> tuple[Callable[..., tuple[torch.Tensor, torch.Tensor]] | None, str]:
    """torchaudio's function, or None and why it cannot be had."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchaudio.functional import forced_align
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            return None, f"cannot be imported: {str(error).splitlines()[0]}"
    return forced_align, ""


def torchaudios_path(log_probs: torch.Tensor, targets: np.ndarray) -> Contender:
    """`torchaudio.functional.forced_align`, which takes one utterance, in a loop over (B, T, C) and (B, L); blank 0."""
    align, reason = import_forced_align()
    if align is None:
        raise ImportError(f"torchaudio {reason}")
    rows = torch.from_numpy(targets).to(log_probs.device, torch.int32)

    def call() -> list[tuple[torch.Tensor, torch.Tensor]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [align(log_probs[b : b + 1], rows[b : b + 1]) for b in range(len(rows))]

    def read(results: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[Any, ...]:
        labels = torch.cat([paths for paths, _ in results]).cpu().long().numpy()
        return labels, torch.cat([scores for _, scores in results]).double().sum(1).cpu().numpy()

    return Contender("torchaudio", call, read)
