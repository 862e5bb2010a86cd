"""The differentiable CTC loss, on the project's own kernels.

The gradient by the log-probs is minus the occupancy (Graves et al. 2006, eq. 14, taken by the log-probability), which
is right for unnormalised scores too; behind `log_softmax` it gives softmax - occupancy by the logits.
"""

from __future__ import annotations

from typing import Any

import torch

from ctc_align import kernels, lattice


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
        return -scores.to(log_probs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        (posteriors,) = ctx.saved_tensors
        return -posteriors * upstream[:, None, None], None, None, None


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
        (B,) losses; inf where the target does not fit, with gradient zero.
    """
    rows = [row[:length].numpy() for row, length in zip(targets.cpu(), target_lengths.tolist())]
    return _CtcLoss.apply(log_probs, lattice.ctc(rows, blank), input_lengths, backend)
