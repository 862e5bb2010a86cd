"""The differentiable CTC loss over any topology, on the project's own kernels.

The gradient by the log-probs is minus the occupancy (Graves et al. 2006, eq. 14, taken by the log-probability), which
is right for unnormalised scores too; behind `log_softmax` it gives softmax - occupancy by the logits. The forward pass
computes it already where somebody will ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError


class _Losses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, log_probs: torch.Tensor, topology: lattice.Topology, lengths: torch.Tensor, backend: str
    ) -> torch.Tensor:
        result = kernels.occupancy(log_probs, topology, lengths, backend=backend)
        ctx.save_for_backward(log_probs)
        ctx.arguments = topology, lengths, backend
        ctx.posteriors = result.posteriors
        return _negative(result.scores, log_probs)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        # Each graph has its posteriors once. Who differentiates a retained one again has them made again.
        posteriors, ctx.posteriors = ctx.posteriors, None
        (log_probs,) = ctx.saved_tensors
        if posteriors is None:
            topology, lengths, backend = ctx.arguments
            posteriors = kernels.occupancy(log_probs, topology, lengths, backend=backend).posteriors
        with torch.no_grad():
            gradient = _weighted(posteriors, -upstream.to(posteriors)[:, None, None], log_probs)
        if torch.is_grad_enabled():
            gradient = _Once.apply(gradient, log_probs, upstream)
        return gradient, None, None, None


def _weighted(posteriors: torch.Tensor, weights: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """The product, as the log-probs are and lie; in one pass, for the next step would copy what lies otherwise."""
    if not weights.isfinite().all():
        # What no path visits has gradient zero, whatever comes from above: 0 x inf would not be.
        return torch.where(posteriors == 0, 0.0, posteriors * weights).to(log_probs)
    if posteriors.dtype == log_probs.dtype and posteriors.stride() == log_probs.stride():
        return posteriors.mul_(weights)
    if posteriors.device != log_probs.device:
        return posteriors.mul_(weights).to(log_probs)
    return torch.mul(posteriors, weights, out=torch.empty_like(log_probs))


class _Once(torch.autograd.Function):
    """Ties a gradient to what it depends on, so that a second derivative is refused instead of wrongly zero."""

    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> None:
        raise KernelError("the CTC loss is differentiable once, not twice: call backward without create_graph=True")


def losses(
    log_probs: torch.Tensor,
    topology: lattice.Topology,
    lengths: torch.Tensor | Sequence[int] | None = None,
    backend: str = "auto",
) -> torch.Tensor:
    """-log p of each utterance over all paths of its topology.

    Args:
        log_probs: (B, T, C), natural log, normalised or not; differentiable once.
        topology: of the same B, without wildcards.
        lengths: (B,) frames that count; None means T for all.
        backend: see `ctc_align.kernels`.

    Returns:
        (B,) losses where log_probs lie, float64 for float64 log-probs, else float32 (half precision ends at 65504, and
        a loss may well be larger); inf where no path fits, with gradient zero.

    Raises:
        KernelError: arguments that do not fit together.
    """
    if torch.is_grad_enabled() and getattr(log_probs, "requires_grad", False):
        return _Losses.apply(log_probs, topology, lengths, backend)
    return _negative(kernels.forward(log_probs, topology, lengths, backend=backend).scores, log_probs)


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor | Sequence[int],
    target_lengths: torch.Tensor | Sequence[int],
    blank: int = 0,
    backend: str = "auto",
) -> torch.Tensor:
    """`losses` of CTC, of padded targets, batch first; `ctc_align.functional.ctc_loss` has PyTorch's calling forms.

    Args:
        log_probs: (B, T, C), natural log.
        targets: (B, L) token ids, padded with anything.
        input_lengths: (B,) frames that count.
        target_lengths: (B,) tokens that count.
        blank: the class of the blank.
        backend: see `ctc_align.kernels`.

    Raises:
        KernelError: arguments that do not fit together.
    """
    if isinstance(log_probs, torch.Tensor) and log_probs.dim() == 3 and blank >= log_probs.shape[2]:
        raise KernelError(f"blank: expected a class below {log_probs.shape[2]}, met {blank}")
    lengths = torch.as_tensor(target_lengths).cpu().numpy()
    return losses(log_probs, lattice.ctc_padded(targets.cpu().numpy(), lengths, blank), input_lengths, backend)


def _negative(scores: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Losses of scores, in the precision and the place of the log-probs."""
    dtype = torch.float64 if log_probs.dtype == torch.float64 else torch.float32
    return scores.to(log_probs.device, dtype).neg_()
