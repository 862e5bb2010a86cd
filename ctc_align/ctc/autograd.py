"""The differentiable CTC loss over any topology, on the kernels of this package.

The gradient with respect to the log-probs is minus the occupancy (Graves et al. 2006, eq. 14, for
log-probabilities), which is also right for unnormalised scores; after `log_softmax`, the gradient
with respect to the logits is softmax - occupancy. If the log-probs require a gradient, the forward
pass computes it, too. The second derivatives are those of the occupancy. They are computed as
products of the Hessian with a direction, each at the cost of two or three gradients.

The derivatives are `torch.autograd.Function`s on the operators of `ctc_align.ctc.operators`:
backward, forward mode and vmap. `torch.ops.ctc_align.losses` and `occupancies` are operators with
the same results, which `torch.compile` and `torch.export` see as one node.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from ctc_align import lattice
from ctc_align.ctc import operators
from ctc_align.ctc.arguments import (
    Lengths,
    Problem,
    as_lengths,
    check_log_probs,
    frames_inside,
    packed,
)
from ctc_align.errors import KernelError

_PROBLEM = len(Problem._fields)
_NONE = (None,) * _PROBLEM


class _Derivative(torch.autograd.Function):
    """Base of the functions below, whose last arguments are those of a problem."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
        return operators.over_batches(
            cls.apply, info.batch_size, in_dims, arguments, len(arguments) - _PROBLEM
        )


def _save(ctx: Any, inputs: tuple, *further: torch.Tensor) -> None:
    """Save the inputs, the problem and the `further` tensors for `_saved`.

    `_saved` returns the inputs that stand before the problem, then the further tensors, and the
    problem.
    """
    *before, targets, input_lengths, target_lengths, blank, paths, backend = inputs
    tensors = (*before, *further, targets, input_lengths, target_lengths)
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)
    ctx.rest = blank, paths, backend
    ctx.set_materialize_grads(False)


def _saved(ctx: Any) -> tuple[list[torch.Tensor], tuple]:
    *tensors, targets, input_lengths, target_lengths = ctx.saved_tensors
    return tensors, (targets, input_lengths, target_lengths, *ctx.rest)


class _Losses(_Derivative):
    """Losses (B,) of log-probs (B, T, C) and, as constants, their posteriors (B, T, C)."""

    @staticmethod
    def forward(log_probs: torch.Tensor, *problem: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return operators.sums(log_probs, *problem)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, torch.Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        _save(ctx, inputs, output[1])
        ctx.shared = ctx.spent = False

    @staticmethod
    def backward(
        ctx: Any, upstream: torch.Tensor | None, _: None = None
    ) -> tuple[torch.Tensor | None, ...]:
        if upstream is None:
            return None, *_NONE
        (log_probs, posteriors), problem = _saved(ctx)
        # The posteriors become the gradient; a retained graph computes them again.
        again = ctx.spent
        last = not torch.is_grad_enabled()
        if again:
            _, posteriors = operators.sums(log_probs.detach(), *problem)
        if not last:
            ctx.shared = ctx.shared or not again
            return _Gradient.apply(log_probs, upstream, posteriors, *problem), *_NONE
        if (again or not ctx.shared) and _can_become_gradient(posteriors, upstream, log_probs):
            operators.scale_(
                posteriors.data, upstream
            )  # without a new version, which a retained graph would refuse
            ctx.spent = True
            return posteriors, *_NONE
        return operators.gradient(log_probs, upstream, posteriors, *problem), *_NONE

    @staticmethod
    def jvp(ctx: Any, along: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, None]:
        if along is None:
            return None, None
        (log_probs, posteriors), problem = _saved(ctx)
        ones = posteriors.new_ones(posteriors.shape[0])
        gradient = _GradientAlong.apply(log_probs, ones, posteriors, *problem)
        # What is infinite where no path goes has no effect.
        return (
            torch.where(gradient == 0, 0.0, gradient * along).sum((1, 2)).to(posteriors.dtype),
            None,
        )


class _Gradient(_Derivative):
    """The gradient of the losses: minus posteriors times upstream.

    It is differentiable by log-probs and upstream.
    """

    @staticmethod
    def forward(
        log_probs: torch.Tensor, upstream: torch.Tensor, posteriors: torch.Tensor, *problem: Any
    ) -> torch.Tensor:
        return operators.gradient(log_probs, upstream, posteriors, *problem)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _save(ctx, inputs)

    @staticmethod
    def backward(ctx: Any, direction: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if direction is None:
            return None, None, None, *_NONE
        (log_probs, upstream, posteriors), problem = _saved(ctx)
        return *_Second.apply(log_probs, upstream, posteriors, direction, *problem), None, *_NONE

    @staticmethod
    def jvp(
        ctx: Any, along: torch.Tensor | None, upstream_along: torch.Tensor | None, *_: Any
    ) -> torch.Tensor | None:
        (log_probs, upstream, posteriors), problem = _saved(ctx)
        parts = []
        if along is not None:  # the Hessian is symmetric
            parts.append(_Second.apply(log_probs, upstream, posteriors, along, *problem)[0])
        if upstream_along is not None:
            parts.append(_Gradient.apply(log_probs, upstream_along, posteriors, *problem))
        return sum(parts[1:], parts[0]) if parts else None


class _GradientAlong(_Gradient):
    """The gradient within a derivative in forward mode.

    PyTorch would lose a further derivative in forward mode.
    """

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise KernelError(
            "the CTC loss is not differentiable twice in forward mode, as no"
            " torch.autograd.Function is: use torch.func.hessian, which is forward over reverse"
            " mode, or torch.func.jacrev for one of the two"
        )


class _Occupancies(_Derivative):
    """Posteriors (B, T, C) of log-probs (B, T, C)."""

    @staticmethod
    def forward(log_probs: torch.Tensor, *problem: Any) -> torch.Tensor:
        return operators.sums(log_probs, *problem)[1]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _save(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, direction: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if direction is None:
            return None, *_NONE
        (log_probs, posteriors), problem = _saved(ctx)
        return _Second.apply(log_probs, None, posteriors, direction, *problem)[0], *_NONE

    @staticmethod
    def jvp(ctx: Any, along: torch.Tensor | None, *_: Any) -> torch.Tensor | None:
        if along is None:
            return None
        (log_probs, posteriors), problem = _saved(ctx)
        return _Second.apply(log_probs, None, posteriors, along, *problem)[0].to(posteriors.dtype)


class _Second(_Derivative):
    """Derivatives of the gradient along a direction, tied to their inputs.

    A further derivative is an error, not zero.
    """

    @staticmethod
    def forward(log_probs: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return operators.second(log_probs, *arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, torch.Tensor]) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise _third()

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise _third()


def _third() -> KernelError:
    return KernelError(
        "the CTC loss is differentiable twice, its occupancies once, not once more: call backward"
        " for the last derivative without create_graph=True"
    )


class _EagerLosses(torch.autograd.Function):
    """`_Losses` for tensors that no transform of torch.func wraps.

    It has no setup_context, with which `apply` takes long.
    """

    backward, jvp = _Losses.backward, _Losses.jvp

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        output = _Losses.forward(*inputs)
        _Losses.setup_context(ctx, inputs, output)
        return output


class _EagerOccupancies(torch.autograd.Function):
    """`_Occupancies` in the same way."""

    backward, jvp = _Occupancies.backward, _Occupancies.jvp

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> torch.Tensor:
        output = _Occupancies.forward(*inputs)
        _Occupancies.setup_context(ctx, inputs, output)
        return output


def _can_become_gradient(
    posteriors: torch.Tensor, upstream: torch.Tensor, log_probs: torch.Tensor
) -> bool:
    """Return whether posteriors on the CPU can be multiplied in place.

    They cannot if they are tensors of a transform or of a compiler.
    """
    return (
        type(posteriors) is type(upstream) is torch.Tensor
        and posteriors.dtype == log_probs.dtype
        and posteriors.is_cpu
        and operators.same_order(posteriors, log_probs)
        and not _are_wrapped(posteriors, upstream)
    )


def _are_wrapped(*tensors: torch.Tensor | None) -> bool:
    """Return whether any is a tensor of torch.func or of batched gradients.

    Such a tensor has no memory of its own.
    """
    try:
        for tensor in tensors:
            if type(tensor) is torch.Tensor:
                tensor.data_ptr()
    except RuntimeError:
        return True
    return False


def _needs_function(log_probs: torch.Tensor) -> bool:
    if torch.is_grad_enabled() and log_probs.requires_grad:
        return True
    return forward_ad.unpack_dual(log_probs).tangent is not None


def _apply(function: type[torch.autograd.Function], log_probs: torch.Tensor, problem: tuple) -> Any:
    try:
        return function.apply(log_probs, *problem)
    except RuntimeError as error:
        if "functorch" not in str(error):
            raise
        raise KernelError(
            "torch.func cannot differentiate the CTC loss inside torch.compile, which does not look"
            " into its operators: use torch.autograd.grad there, or torch.func without"
            " torch.compile"
        ) from error


def _losses(log_probs: torch.Tensor, *problem: Any) -> torch.Tensor:
    if _needs_function(log_probs):
        return _apply(_EagerLosses, log_probs, problem)[0]
    return operators.total(log_probs, *problem)


def _occupancies(log_probs: torch.Tensor, *problem: Any) -> torch.Tensor:
    if _needs_function(log_probs):
        return _apply(_EagerOccupancies, log_probs, problem)
    return operators.sums(log_probs, *problem)[1]


_losses_operator = operators.define(
    "losses",
    f"(Tensor log_probs, {operators.PROBLEM}) -> Tensor",
    operators.total,
    operators.fake_total,
    1,
)
_occupancies_operator = operators.define(
    "occupancies",
    f"(Tensor log_probs, {operators.PROBLEM}) -> Tensor",
    lambda log_probs, *problem: operators.sums(log_probs, *problem)[1],
    operators.fake_posteriors,
    1,
)
operators.LIBRARY.impl("losses", _losses, "Autograd")
operators.LIBRARY.impl("occupancies", _occupancies, "Autograd")


def ctc_losses(log_probs: torch.Tensor, problem: Problem) -> torch.Tensor:
    """Return -log p (B,) of log-probs (B, T, C) over all paths of each utterance's problem.

    See `losses`.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _losses_operator(log_probs, *problem)
    # torch.func differentiates a Function, but no operator with derivatives in Python.
    if _are_wrapped(log_probs, *problem[:3]):
        return _Losses.apply(log_probs, *problem)[0]
    return _losses(log_probs, *problem)


def ctc_occupancies(log_probs: torch.Tensor, problem: Problem) -> torch.Tensor:
    """Return the posteriors (B, T, C) of log-probs (B, T, C) over all paths of a problem.

    See `occupancies`.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _occupancies_operator(log_probs, *problem)
    if _are_wrapped(log_probs, *problem[:3]):
        return _Occupancies.apply(log_probs, *problem)
    return _occupancies(log_probs, *problem)


def align(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    frames: torch.Tensor | None,
    tokens: torch.Tensor | None,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return best paths (B, T) and their differentiable scores (B, T).

    The scores are the log-probs along a path that is held fixed.
    """
    paths, scores = operators.forced_align(log_probs.detach(), targets, frames, tokens, blank)
    if not _has_derivative(log_probs):
        return paths, scores
    labels = paths.to(log_probs.device, torch.int64)
    scores = log_probs.gather(2, labels[:, :, None])
    if frames is not None:
        scores = torch.where(frames_inside(frames, log_probs), scores, 0.0)
    return paths, scores[:, :, 0]


def _has_derivative(log_probs: torch.Tensor) -> bool:
    """Return whether PyTorch may differentiate what is computed from the log-probs.

    A compiler hides whether it will.
    """
    return torch.compiler.is_compiling() or _needs_function(log_probs) or _are_wrapped(log_probs)


def losses(
    log_probs: torch.Tensor,
    topology: lattice.Topology,
    lengths: Lengths | None = None,
    backend: str = "auto",
) -> torch.Tensor:
    """Return -log p of each utterance over all paths of its topology.

    Args:
        log_probs: (B, T, C), natural log, normalised or not; differentiable twice.
        topology: of the same B, without wildcards.
        lengths: (B,) frames that count; None means T for all.
        backend: see `ctc_align.kernels`.

    Returns:
        (B,) losses on the device of log_probs, float64 for float64 log-probs, else float32 (half
        precision ends at 65504, which a loss may exceed); inf if no path fits, with gradient zero.

    Raises:
        KernelError: the arguments do not match; in backward, for a third derivative.
    """
    return ctc_losses(_checked(log_probs), _problem(topology, lengths, backend))


def occupancies(
    log_probs: torch.Tensor,
    topology: lattice.Topology,
    lengths: Lengths | None = None,
    backend: str = "auto",
) -> torch.Tensor:
    """Return the posterior of each class at each frame over all paths.

    This is the soft alignment; it is differentiable once.

    Args:
        log_probs, topology, lengths, backend: as `losses`.

    Returns:
        (B, T, C) on the device of log_probs, float64 for float64 log-probs, else float32; 0 beyond
        the lengths and where no path fits.

    Raises:
        KernelError: the arguments do not match; in backward, for a second derivative.
    """
    return ctc_occupancies(_checked(log_probs), _problem(topology, lengths, backend))


def _problem(topology: lattice.Topology, lengths: Lengths | None, backend: str) -> Problem:
    rows, paths = packed(topology)
    if lengths is None:
        counts = None
    else:
        counts = as_lengths(lengths, "lengths")
    return Problem(rows, counts, torch.from_numpy(topology.states), 0, paths, backend)


def _checked(log_probs: torch.Tensor) -> torch.Tensor:
    check_log_probs(log_probs, "(B, T, C)", (3,))
    return log_probs
