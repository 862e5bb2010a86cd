"""The differentiable CTC loss, on the project's own kernels.

The gradient by the log-probs is minus the occupancy (Graves et al. 2006, eq. 14, taken by the log-probability), which
is right for unnormalised scores too; behind `log_softmax` it gives softmax - occupancy by the logits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError


class _CtcLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, log_probs: torch.Tensor, topology: lattice.Topology, lengths: torch.Tensor, backend: str
    ) -> torch.Tensor:
        if log_probs.requires_grad:
            result = kernels.occupancy(log_probs, topology, lengths, backend=backend)
            ctx.save_for_backward(result.posteriors.to(log_probs))
            scores = result.scores
        else:
            scores = kernels.forward(log_probs, topology, lengths, backend=backend).scores
        # Half precision ends at 65504: a loss may well be larger.
        dtype = torch.float64 if log_probs.dtype == torch.float64 else torch.float32
        return -scores.to(log_probs.device, dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (posteriors,) = ctx.saved_tensors
        return -posteriors * upstream[:, None, None].to(posteriors), None, None, None


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int = 0,
    backend: str = "auto",
) -> torch.Tensor:
    """-log p(target | log_probs) of each utterance, over all CTC paths.

    Args:
        log_probs: (B, T, C), natural log; differentiable once.
        targets: (B, L) token ids, padded with anything.
        input_lengths: (B,) frames that count.
        target_lengths: (B,) tokens that count.
        blank: the class of the blank.
        backend: see `ctc_align.kernels`.

    Returns:
        (B,) losses, float64 for float64 log-probs, else float32; inf where the target does not fit, with gradient zero.

    Raises:
        KernelError: arguments that do not fit together.
    """
    rows = _rows(log_probs, targets, target_lengths, blank)
    return _CtcLoss.apply(log_probs, lattice.ctc(rows, blank), input_lengths, backend)


def _rows(log_probs: torch.Tensor, targets: torch.Tensor, target_lengths: torch.Tensor, blank: int) -> list[np.ndarray]:
    """The tokens of each utterance that count."""
    if targets.dim() != 2 or targets.is_floating_point():
        raise KernelError(f"targets: expected token ids (B, L), met {targets.dtype} of shape {tuple(targets.shape)}")
    lengths = torch.as_tensor(target_lengths).cpu()
    if lengths.shape != targets.shape[:1] or lengths.is_floating_point():
        raise KernelError(
            f"target_lengths: expected whole numbers of shape ({len(targets)},), met {lengths.dtype} of shape "
            f"{tuple(lengths.shape)}"
        )
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) > targets.shape[1]):
        raise KernelError(f"target_lengths: expected 0 to {targets.shape[1]}, met {lengths.tolist()[:8]}")
    if log_probs.dim() == 3 and blank >= log_probs.shape[2]:
        raise KernelError(f"blank: expected a class below {log_probs.shape[2]}, met {blank}")
    return [row[:length].numpy() for row, length in zip(targets.cpu(), lengths.tolist())]
