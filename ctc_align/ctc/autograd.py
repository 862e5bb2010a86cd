"""The differentiable CTC loss over any topology, on the project's own kernels.

The gradient by the log-probs is minus the occupancy (Graves et al. 2006, eq. 14, taken by the log-probability), which
is right for unnormalised scores too; behind `log_softmax` it gives softmax - occupancy by the logits. The forward pass
computes it already if log-probs require a gradient. The second derivatives are those of the occupancy, one product of
the Hessian with a direction at a time, which costs about as much as two or three gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError

Lengths = torch.Tensor | Sequence[int] | None


@dataclass(frozen=True)
class _Arguments:
    """Arguments of a loss other than the log-probs."""

    topology: lattice.Topology
    lengths: Lengths
    backend: str

    def posteriors(self, log_probs: torch.Tensor) -> torch.Tensor:
        """Return the occupancy (B, T, C)."""
        return kernels.occupancy(log_probs, self.topology, self.lengths, backend=self.backend).posteriors

    def tangents(self, log_probs: torch.Tensor, posteriors: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """Return the product of the posteriors' Jacobian, the score's symmetric Hessian, with the direction."""
        return kernels.tangent(
            log_probs, self.topology, self.lengths, direction, posteriors=posteriors, backend=self.backend
        ).tangents


class _Losses(torch.autograd.Function):
    """Losses (B,) of log-probs."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, arguments: _Arguments) -> torch.Tensor:
        result = kernels.occupancy(log_probs, arguments.topology, arguments.lengths, backend=arguments.backend)
        ctx.save_for_backward(log_probs)
        ctx.arguments = arguments
        ctx.posteriors = result.posteriors
        return _negative(result.scores, log_probs)

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        refuse_transforms(upstream)
        # The posteriors are kept for the first call; those of a retained graph are computed again.
        known, ctx.posteriors = ctx.posteriors, None
        (log_probs,) = ctx.saved_tensors
        posteriors = ctx.arguments.posteriors(log_probs) if known is None else known
        if torch.is_grad_enabled():
            return _Gradients.apply(log_probs, upstream, ctx.arguments, posteriors), None
        return _weighted(posteriors, _weights(upstream, posteriors), log_probs), None


class _Gradients(torch.autograd.Function):
    """The gradient of the losses, minus posteriors times upstream gradient, differentiable by both."""

    @staticmethod
    def forward(
        ctx: Any, log_probs: torch.Tensor, upstream: torch.Tensor, arguments: _Arguments, posteriors: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(log_probs, upstream, posteriors)
        ctx.arguments = arguments
        return _product(posteriors, _weights(upstream, posteriors)).to(log_probs)

    @staticmethod
    def backward(ctx: Any, direction: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        refuse_transforms(direction)
        log_probs, upstream, posteriors = ctx.saved_tensors
        by_upstream = None
        with torch.no_grad():
            tangents = ctx.arguments.tangents(log_probs, posteriors, direction)
            by_log_probs = _weighted(tangents, _weights(upstream, tangents), log_probs)
            if ctx.needs_input_grad[1]:
                by_upstream = -_product(posteriors, direction.to(posteriors)).sum((1, 2)).to(upstream)
        if torch.is_grad_enabled():
            depends = log_probs, upstream, direction
            by_log_probs = _Last.apply(by_log_probs, *depends)
            by_upstream = None if by_upstream is None else _Last.apply(by_upstream, *depends)
        return by_log_probs, by_upstream, None, None


def _weights(upstream: torch.Tensor, posteriors: torch.Tensor) -> torch.Tensor:
    return -upstream.to(posteriors)[:, None, None]


def _product(posteriors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    if not weights.isfinite().all():
        # A posterior of zero has gradient zero for any upstream gradient; 0 x inf would not.
        return torch.where(posteriors == 0, 0.0, posteriors * weights)
    if posteriors.device.type == "cpu":
        # Not by torch's threads, which would go on spinning on the cores that the next kernels need.
        return torch.from_numpy(np.multiply(posteriors.numpy(), weights.numpy()))
    return posteriors * weights


def _weighted(posteriors: torch.Tensor, weights: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the product in type and memory order of the log-probs, in one pass: autograd would copy another order."""
    if not weights.isfinite().all():
        return _product(posteriors, weights).to(log_probs)
    if posteriors.dtype == log_probs.dtype and posteriors.stride() == log_probs.stride():
        if posteriors.device.type == "cpu":  # as in `_product`
            _scale(posteriors.numpy(), weights.numpy().reshape(-1))
            return posteriors
        return posteriors.mul_(weights)
    if posteriors.device != log_probs.device:
        return posteriors.mul_(weights).to(log_probs)
    return torch.mul(posteriors, weights, out=torch.empty_like(log_probs))


def _scale(posteriors: np.ndarray, weights: np.ndarray) -> None:
    """Multiply each utterance of (B, T, C) by its weight, in place.

    In rows as long as memory without gaps allows: a row of classes alone is short.
    """
    order = sorted(range(3), key=lambda axis: -posteriors.strides[axis])
    dense = posteriors.transpose(order)
    if not dense.flags.c_contiguous:
        np.multiply(posteriors, weights[:, None, None], out=posteriors)
        return
    place = order.index(0)
    inner = math.prod(dense.shape[place + 1 :])
    rows = dense.reshape(math.prod(dense.shape[:place]), len(weights) * inner)
    if place:
        np.multiply(rows, np.repeat(weights, inner), out=rows)
    else:
        rows = rows.reshape(len(weights), inner)
        np.multiply(rows, weights[:, None], out=rows)


class _Occupancies(torch.autograd.Function):
    """Posteriors (B, T, C) of log-probs."""

    @staticmethod
    def forward(ctx: Any, log_probs: torch.Tensor, arguments: _Arguments) -> torch.Tensor:
        posteriors = arguments.posteriors(log_probs).to(log_probs.device)
        ctx.save_for_backward(log_probs, posteriors)
        ctx.arguments = arguments
        return posteriors

    @staticmethod
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor, None]:
        refuse_transforms(upstream)
        log_probs, posteriors = ctx.saved_tensors
        with torch.no_grad():
            tangents = ctx.arguments.tangents(log_probs, posteriors, upstream).to(log_probs)
        return _Last.apply(tangents, log_probs, upstream) if torch.is_grad_enabled() else tangents, None


class _Last(torch.autograd.Function):
    """Derivatives tied to their inputs, so that a further derivative is an error instead of zero."""

    @staticmethod
    def forward(ctx: Any, derivatives: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return derivatives.view_as(derivatives)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> None:
        raise KernelError(
            "the CTC loss is differentiable twice, its occupancies once, not once more: call backward for the last "
            "derivative without create_graph=True"
        )


def refuse_transforms(tensor: torch.Tensor) -> None:
    """Raise KernelError for tensors of torch.func and forward-mode derivatives, which kernels cannot see."""
    try:
        tensor.data_ptr()
        plain = forward_ad.unpack_dual(tensor).tangent is None
    except RuntimeError:
        plain = False
    if not plain:
        raise KernelError(
            "the CTC loss is differentiable by torch.autograd: torch.func (vmap, grad, jvp …), batched gradients and "
            "forward-mode derivatives cannot see its kernels; call it on tensors themselves, and use "
            "torch.autograd.grad or torch.autograd.functional"
        )


def losses(
    log_probs: torch.Tensor,
    topology: lattice.Topology,
    lengths: Lengths = None,
    backend: str = "auto",
) -> torch.Tensor:
    """Return -log p of each utterance over all paths of its topology.

    Args:
        log_probs: (B, T, C), natural log, normalised or not; differentiable twice.
        topology: of the same B, without wildcards.
        lengths: (B,) frames that count; None means T for all.
        backend: see `ctc_align.kernels`.

    Returns:
        (B,) losses on the device of log_probs, float64 for float64 log-probs, else float32 (half precision ends at
        65504, which a loss may exceed); inf where no path fits, with gradient zero.

    Raises:
        KernelError: arguments that do not fit together; in backward, a third derivative.
    """
    if _is_differentiable(log_probs):
        return _Losses.apply(log_probs, _Arguments(topology, lengths, backend))
    return _negative(kernels.forward(log_probs, topology, lengths, backend=backend).scores, log_probs)


def occupancies(
    log_probs: torch.Tensor, topology: lattice.Topology, lengths: Lengths = None, backend: str = "auto"
) -> torch.Tensor:
    """Return the posterior of each class at each frame over all paths: the soft alignment, differentiable once.

    Args:
        log_probs, topology, lengths, backend: as `losses`.

    Returns:
        (B, T, C) on the device of log_probs, float64 for float64 log-probs, else float32; 0 beyond the lengths and
        where no path fits.

    Raises:
        KernelError: arguments that do not fit together; in backward, a second derivative.
    """
    arguments = _Arguments(topology, lengths, backend)
    if _is_differentiable(log_probs):
        return _Occupancies.apply(log_probs, arguments)
    return arguments.posteriors(log_probs).to(log_probs.device)


def _is_differentiable(log_probs: torch.Tensor) -> bool:
    if not isinstance(log_probs, torch.Tensor):
        return False  # an error of the kernels
    refuse_transforms(log_probs)
    return torch.is_grad_enabled() and log_probs.requires_grad


def _negative(scores: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the losses of scores, in the precision and on the device of the log-probs."""
    dtype = torch.float64 if log_probs.dtype == torch.float64 else torch.float32
    return scores.to(log_probs.device, dtype).neg_().add_(0.0)  # never -0.0, which reads oddly
