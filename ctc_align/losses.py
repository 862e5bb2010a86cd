"""Losses based on CTC, each with its formula and paper, on the same kernels.

    CTCLoss                     the module form of `functional.ctc_loss`; `ctc_align.CTCLoss`
    soft_target_cross_entropy   cross-entropy to CTC's soft targets: CTC's gradient, as a sum over frames
    reweighted_ctc_loss         this sum, with weights for classes and frames (Li and Wang 2019)
    focal_ctc_loss              CTC that gives easy utterances less weight (Feng et al. 2019)
    label_smoothed_ctc_loss     CTC plus the divergence from the uniform distribution (Kim et al. 2017)
    label_prior_ctc_loss        CTC over posteriors divided by priors: less peaky (Huang et al. 2024)
    LabelPrior                  priors for `label_prior_ctc_loss`, estimated during training
    alignment_entropy           the entropy of the paths, in nats; differentiable

All take the arguments of `functional.ctc_loss`, in all their forms. Log-probs are natural and,
unless stated otherwise, may be unnormalised. A target that does not fit has loss inf and gradient
zero. As in their papers, `soft_target_cross_entropy` and `reweighted_ctc_loss` treat the soft
targets z (the occupancy) as constants, and the latter also its weights w; their second derivatives
are therefore not those of their values. `alignment_entropy` has one derivative, through z; a second
raises `KernelError`. All others are twice differentiable.
ASG (Collobert et al. 2016) is missing, because topologies have no learned transition scores.

A training step:

>>> from ctc_align.losses import label_smoothed_ctc_loss
>>> network = torch.nn.Linear(20, 5)
>>> features, targets = torch.randn(50, 2, 20), torch.tensor([[1, 2, 2], [3, 4, 0]])
>>> loss = label_smoothed_ctc_loss(network(features).log_softmax(2), targets, [50, 40], [3, 2], alpha=0.05)
>>> loss.backward()
"""

from __future__ import annotations

import ctc_align.ctc  # noqa: F401

# isort: split
import torch

from ctc_align import functional
from ctc_align.ctc import autograd, operators
from ctc_align.ctc.arguments import (
    Lengths,
    LossArguments,
    Targets,
    as_lengths,
    batch_first,
    check_log_probs,
    check_reduction,
    frames_inside,
    loss_arguments,
    to_device_of,
)
from ctc_align.errors import KernelError

__all__ = [
    "CTCLoss",
    "LabelPrior",
    "alignment_entropy",
    "focal_ctc_loss",
    "label_prior_ctc_loss",
    "label_smoothed_ctc_loss",
    "reweighted_ctc_loss",
    "soft_target_cross_entropy",
]


class CTCLoss(torch.nn.Module):
    """The CTC loss as a module, a drop-in replacement for `torch.nn.CTCLoss`.

    See `ctc_align.functional.ctc_loss`.

    Args:
        blank: the class of the blank.
        reduction: "none", "mean" or "sum".
        zero_infinity: count infinite losses as 0.

    Raises:
        KernelError: the reduction is unknown; when called, as in `ctc_loss`.

    >>> CTCLoss(reduction="sum")(torch.full((2, 1, 2), 0.5).log(), torch.tensor([[1]]), [2], [1])
    tensor(0.2877)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        self.blank = blank
        self.reduction = reduction
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: torch.Tensor,
        targets: Targets,
        input_lengths: Lengths,
        target_lengths: Lengths,
    ) -> torch.Tensor:
        """Return the loss of log-probs (T, N, C) or (T, C)."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )

    def __prepare_scriptable__(self) -> CTCLoss:
        raise KernelError(
            "torch.jit.script does not take CTCLoss, whose kernels are called from Python: use"
            " torch.jit.trace, torch.export or torch.compile"
        )

    def extra_repr(self) -> str:
        return (
            f"blank={self.blank}, reduction={self.reduction!r}, zero_infinity={self.zero_infinity}"
        )


def _soft_targets(batch: LossArguments) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the soft targets, log-probs and plain losses of a batch.

    The soft targets (B, T, C) are constants. The log-probs (B, T, C) have the same dtype and are 0
    wherever the soft target is 0. The plain losses are (B,).
    """
    plain, posteriors = operators.sums(batch.log_probs.detach(), *batch.problem())
    # A posterior of 0 costs nothing, even where the log-prob is -inf or padding: 0 x inf would.
    return (
        posteriors,
        torch.where(posteriors == 0, 0.0, batch.log_probs.to(posteriors.dtype)),
        plain,
    )


def _cross_entropies(terms: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
    """Return minus the sum of the terms (B, T, C) for each utterance (B,).

    It is inf if the target does not fit.
    """
    return torch.where(plain == torch.inf, torch.inf, -terms.sum((1, 2)))


def soft_target_cross_entropy(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Return the cross-entropy to CTC's soft targets.

    It has the gradient of `ctc_loss`, written as a sum over frames and classes.

        loss = -sum_t sum_k z[t, k] log y[t, k],    z the occupancy, a constant

    Its value is the sum of the CTC loss and the entropy of the alignment. Li and Wang 2019
    (https://arxiv.org/abs/1904.10619) interpret CTC in this way: each step fits the network to z.

    Arguments and errors are those of `ctc_align.functional.ctc_loss`.
    """
    check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    posteriors, soft_log_probs, plain = _soft_targets(batch)
    return batch.reduce(
        _cross_entropies(posteriors * soft_log_probs, plain), reduction, zero_infinity
    )


def reweighted_ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    class_weights: torch.Tensor | None = None,
    focus: float = 0.0,
) -> torch.Tensor:
    """Return CTC with weights that balance the many blanks.

    Source: Li and Wang 2019, https://arxiv.org/abs/1904.10619.

        loss = -sum_t w[t] sum_k c[k] z[t, k] log y[t, k],    z the occupancy, a constant
        w[t] = (max_k (z[t, k] - y[t, k])) ** focus, divided by its mean over the utterance's frames

    Neither z nor w is differentiated, though both depend on y.

    Most frames on which the network already agrees with its soft targets are blank; `focus` shifts
    the loss to the other frames. Without weights the gradient is that of `ctc_loss`.

    Args:
        log_probs: must be normalised, because they are log y; all others as in
            `ctc_align.functional.ctc_loss`.
        class_weights: (C,) the weights c, not negative; None means 1 each.
        focus: 0 or more; 0 gives all frames the same weight.

    Raises:
        KernelError: as in `ctc_loss`; the weights have the wrong shape, or focus is negative.
    """
    check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    if not focus >= 0:
        raise KernelError(f"focus: expected 0 or more, got {focus}")
    posteriors, soft_log_probs, plain = _soft_targets(batch)
    weights = _frame_weights(batch, posteriors, focus)
    if class_weights is not None:
        if class_weights.shape != log_probs.shape[-1:]:
            raise KernelError(
                f"class_weights: expected shape ({log_probs.shape[-1]},), got"
                f" {tuple(class_weights.shape)}"
            )
        weights = weights * class_weights.to(weights)
    return batch.reduce(
        _cross_entropies(weights * posteriors * soft_log_probs, plain), reduction, zero_infinity
    )


def _frame_weights(batch: LossArguments, posteriors: torch.Tensor, focus: float) -> torch.Tensor:
    """Return weights (B, T, 1) of frames, with a mean of 1.

    A weight is the distance of a frame from its soft targets, to the power `focus`.
    """
    inside = batch.inside.to(posteriors.dtype)
    if not focus:
        return inside
    excess = posteriors - batch.log_probs.detach().to(posteriors.dtype).exp()
    distance = torch.where(inside > 0, excess.amax(2, keepdim=True).clamp(min=0), 0.0) ** focus
    total = distance.sum(1, keepdim=True)
    # If every frame agrees with its targets, all weights are equal.
    return torch.where(total > 0, distance * (inside.sum(1, keepdim=True) / total), inside)


def focal_ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    alpha: float = 1.0,
    gamma: float = 2.0,
) -> torch.Tensor:
    """Return CTC with less weight for easy utterances (Feng, Yao and Zhang 2019).

    "Focal CTC Loss for Chinese Optical Character Recognition on Unbalanced Datasets",
    https://doi.org/10.1155/2019/9345861.

        loss = alpha (1 - p) ** gamma ctc,    p = exp(-ctc)

    Args:
        log_probs: must be normalised, because p is a probability (if p is 1 or more, the loss is
            0); all others as in `ctc_align.functional.ctc_loss`.
        alpha: the weight of the loss.
        gamma: 0 or more; 0 means `alpha` times the CTC loss.

    Raises:
        KernelError: as in `ctc_loss`; gamma is negative.
    """
    check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    if not gamma >= 0:
        raise KernelError(f"gamma: expected 0 or more, got {gamma}")
    plain = autograd.ctc_losses(batch.log_probs, batch.problem())
    if gamma:
        # A loss below 0 is not that of a probability, and exp would overflow. A power below 1 has
        # no derivative at 0.
        plain = plain.clamp(min=0)
        hard = (-torch.expm1(-plain)).clamp(min=torch.finfo(plain.dtype).tiny)
        plain = plain * hard**gamma
    return batch.reduce(alpha * plain, reduction, zero_infinity)


def label_smoothed_ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    alpha: float = 0.1,
) -> torch.Tensor:
    """Return CTC plus the divergence from the uniform distribution U over the C classes.

    Source: Kim et al. 2017, https://arxiv.org/abs/1711.02212.

        loss = (1 - alpha) ctc + alpha sum_t KL(U || y[t]),    KL(U || y[t]) = -log C - 1/C sum_k log y[t, k]

    Args:
        log_probs: must be normalised; a log-prob of -inf makes the loss infinite; all others as in
            `ctc_align.functional.ctc_loss`.
        alpha: 0 <= alpha < 1; 0 means the CTC loss.

    Raises:
        KernelError: as in `ctc_loss`; alpha is out of range.
    """
    check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    if not 0 <= alpha < 1:
        raise KernelError(f"alpha: expected 0 to below 1, got {alpha}")
    plain = autograd.ctc_losses(batch.log_probs, batch.problem())
    if not alpha:
        return batch.reduce(plain, reduction, zero_infinity)
    inside = torch.where(batch.inside, batch.log_probs.to(plain.dtype), 0.0)
    uniform = torch.full((), inside.shape[2], dtype=plain.dtype, device=plain.device).log()
    far = -inside.mean(2).sum(1) - to_device_of(batch.frames, plain, plain.dtype) * uniform
    both = torch.where(plain == torch.inf, plain, (1 - alpha) * plain + alpha * far)
    return batch.reduce(both, reduction, zero_infinity)


def label_prior_ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    log_prior: torch.Tensor,
    scale: float = 0.3,
) -> torch.Tensor:
    """Return CTC over posteriors divided by priors, which makes it less peaky.

    Source: Huang et al. 2024, https://arxiv.org/abs/2406.02560.

        loss = -log sum over paths of prod_t y[t, path[t]] / prior[path[t]] ** scale

    These scores are not normalised; the gradient is right nevertheless. Divided by priors below 1,
    the posteriors may exceed 1, so the loss may be negative. Subtract the same priors when you
    align.

    Args:
        log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity: as in
            `ctc_align.functional.ctc_loss`.
        log_prior: (C,) natural log of each class's share of the frames, a constant; `LabelPrior`
            estimates it.
        scale: 0 means `ctc_loss`.

    Raises:
        KernelError: as in `ctc_loss`; the priors have the wrong shape, or are infinite.
    """
    check_log_probs(log_probs, "(T, N, C) or (T, C)", (2, 3))
    if log_prior.shape != log_probs.shape[-1:]:
        raise KernelError(
            f"log_prior: expected finite numbers ({log_probs.shape[-1]},), got shape"
            f" {tuple(log_prior.shape)}"
        )
    divided = log_probs - scale * operators.finite(log_prior.detach(), "log_prior").to(log_probs)
    return functional.ctc_loss(
        divided, targets, input_lengths, target_lengths, blank, reduction, zero_infinity
    )


class LabelPrior(torch.nn.Module):
    """The share of the frames that a network assigns to each class, estimated in training.

    It serves `label_prior_ctc_loss`.

    Training oscillates and collapses with priors that jump (counted once per epoch) or are wrong
    (in the first steps). These priors start uniform, which has no effect, follow the batches
    slowly, and never fall below a floor:

        mean = decay * mean + (1 - decay) * the batch's mean of y over the valid frames
        prior = (1 - floor) * mean + floor / C

    Args:
        classes: the number of classes, C.
        decay: the weight of the past: the weight of a batch falls to a third after 1 / (1 - decay)
            batches.
        floor: the part of the prior that is uniform.

    Raises:
        KernelError: a number is out of range; when called, log-probs or lengths do not fit.

    >>> prior, log_probs = LabelPrior(2, decay=0.5), torch.tensor([[[0.9, 0.1]], [[0.7, 0.3]]]).log()
    >>> prior(log_probs, [2]).exp()                     # halfway from 0.5 to 0.8
    tensor([0.6485, 0.3515])
    >>> prior.eval()(log_probs, [2]).exp()              # evaluation changes nothing
    tensor([0.6485, 0.3515])
    """

    mean: torch.Tensor

    def __init__(self, classes: int, decay: float = 0.99, floor: float = 0.01) -> None:
        super().__init__()
        if classes < 1 or not 0 <= decay < 1 or not 0 < floor <= 1:
            raise KernelError(
                "expected one class or more, 0 <= decay < 1 and 0 < floor <= 1; got classes"
                f" {classes}, decay {decay}, floor {floor}"
            )
        self.decay = decay
        self.floor = floor
        self.register_buffer("mean", torch.full((classes,), 1 / classes))

    @torch.no_grad()
    def forward(self, log_probs: torch.Tensor, input_lengths: Lengths) -> torch.Tensor:
        """Return the log of the prior (C,).

        In training, first update it by this batch of log-probs (T, N, C).

        The log-probs must be normalised.
        """
        rows = batch_first(log_probs)
        if rows.shape[2] != len(self.mean):
            raise KernelError(
                f"log_probs: expected {len(self.mean)} classes, got shape {tuple(log_probs.shape)}"
            )
        frames = operators.frame_counts(as_lengths(input_lengths, "input_lengths"), *rows.shape[:2])
        if self.training:
            rows = rows.to(self.mean)
            probs = torch.where(frames_inside(frames, rows), rows.exp(), 0.0)
            mean = probs.sum((0, 1)) / frames.sum().to(probs)
            # A batch without frames, or with NaN as in mixed precision, is ignored.
            followed = self.mean.lerp(mean, 1 - self.decay)
            self.mean.copy_(torch.where(mean.isfinite().all(), followed, self.mean))
        return ((1 - self.floor) * self.mean + self.floor / len(self.mean)).log()


def alignment_entropy(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
) -> torch.Tensor:
    """Return the entropy of the paths given the transcript, in nats: 0 if one path is certain.

        H = log Z - sum_t sum_k z[t, k] x[t, k],    z the occupancy, x the log-probs, Z their sum over paths

    `ctc_loss - beta * alignment_entropy` is CTC with maximum entropy regularisation (Liu, Jin and
    Zhang 2018, "Connectionist Temporal Classification with Maximum Entropy Regularization",
    NeurIPS). It is differentiable once, including through z: the gradient is minus the occupancy's
    covariance times x. A second derivative raises `KernelError`.

    Args:
        log_probs, targets, input_lengths, target_lengths, blank, reduction: as in
            `ctc_align.functional.ctc_loss`. In float32 the entropy, a small difference of losses,
            has the absolute error of the losses.

    Returns:
        As in `ctc_loss`; the entropy of a target that does not fit is 0.

    Raises:
        KernelError: as in `ctc_loss`.

    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> alignment_entropy(log_probs, torch.tensor([[1]]), [2], [1], reduction="sum").exp()      # three paths
    tensor(3.)
    """
    check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    negative = autograd.ctc_losses(batch.log_probs, batch.problem())
    posteriors = autograd.ctc_occupancies(batch.log_probs, batch.problem())
    finite = torch.where(posteriors == 0, 0.0, batch.log_probs.to(posteriors.dtype))
    entropy = -negative - (posteriors * finite).sum((1, 2))
    return batch.reduce(torch.where(negative == torch.inf, 0.0, entropy), reduction)
