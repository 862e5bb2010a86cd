"""Arrays in, arrays out: CTC functions with the interfaces of PyTorch and torchaudio.

They run on the kernels of this package.

    ctc_loss          like torch.nn.functional.ctc_loss; both derivatives are right for unnormalised scores, too;
                      `ctc_align.CTCLoss` is the module form
    simple_ctc_loss   the loss if each token is exactly one frame
    occupancy         soft alignment targets
    hessian           all second derivatives, for small problems
    forced_align      like torchaudio.functional.forced_align, for any batch size, and optimal even on ties
    merge_tokens      like torchaudio.functional.merge_tokens, for any batch size

Wrong arguments raise `KernelError`, which is also a ValueError and a RuntimeError.
`ctc_align.losses` has losses that build on these functions: re-weighted, focal, smoothed, with
label priors, entropy.

The examples below use the log-probs of two utterances and their concatenated transcripts:

>>> import torch
>>> from ctc_align import functional
>>> logits = torch.randn(50, 2, 5, requires_grad=True)
>>> targets, frames, tokens = torch.tensor([1, 2, 2, 4, 3]), [50, 40], [3, 2]
>>> log_probs = logits.log_softmax(2)

Soft targets, and the loss as cross-entropy to them, which has CTC's gradient:

>>> soft = functional.occupancy(log_probs, targets, frames, tokens)
>>> soft.shape, round(float(soft[0, 1].sum()), 4)
(torch.Size([50, 2, 5]), 1.0)
>>> loss = -(soft * log_probs).sum()

A training step, as with PyTorch's loss:

>>> network = torch.nn.Linear(80, 5)
>>> optimizer = torch.optim.Adam(network.parameters())
>>> loss = functional.ctc_loss(network(torch.randn(50, 2, 80)).log_softmax(2), targets, frames, tokens)
>>> loss.backward()
>>> optimizer.step()

The product of the Hessian with a vector, in the time of a few gradients, and the whole Hessian:

>>> loss = functional.ctc_loss(log_probs, targets, frames, tokens, reduction="sum")
>>> gradient, = torch.autograd.grad(loss, logits, create_graph=True)
>>> product, = torch.autograd.grad(gradient, logits, torch.randn_like(gradient))
>>> functional.hessian(logits[:6, :1].transpose(0, 1), torch.tensor([1, 2]), [6], [2]).shape
torch.Size([1, 6, 5, 6, 5])

The best path and its tokens (`ctc_align.evaluate.occupancy_figure` draws it over the soft
alignment):

>>> padded = torch.tensor([[1, 2, 2], [4, 3, 0]])
>>> paths, scores = functional.forced_align(log_probs.transpose(0, 1), padded, frames, tokens)
>>> [span.token for span in functional.merge_tokens(paths[0], scores[0])]
[1, 2, 2]
"""

from __future__ import annotations

import ctc_align.ctc  # noqa: F401

# isort: split
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctc_align.ctc import arguments, autograd, operators
from ctc_align.ctc.arguments import Lengths, Targets, loss_arguments
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits

__all__ = [
    "TokenSpan",
    "ctc_loss",
    "forced_align",
    "hessian",
    "merge_tokens",
    "occupancy",
    "simple_ctc_loss",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Return the CTC loss, -log p(target | log_probs) over all paths.

    Like `torch.nn.functional.ctc_loss`.

    The gradient with respect to `log_probs` is minus the occupancy times the upstream gradient.
    This is the true derivative, with or without a preceding `log_softmax`; PyTorch returns
    exp(log_probs) - occupancy, which agrees only after `log_softmax`. A target that does not fit
    has gradient zero, never NaN. Padding is never read and has no gradient.

    Args:
        log_probs: (T, N, C), or (T, C) for one utterance, natural log, floating point;
            differentiable twice.
        targets: (N, S) token ids with any padding, or concatenated: (sum of target_lengths,); a
            tensor, an array, or a list, whose rows may differ in length.
        input_lengths: (N,) numbers of valid frames; a tensor, an array or a list.
        target_lengths: (N,) numbers of valid tokens.
        blank: the class of the blank.
        reduction: "none", "sum", or "mean": the mean of the losses per token (targets of length 0:
            per utterance).
        zero_infinity: count infinite losses as 0.

    Returns:
        The loss on the device of `log_probs`: (), or (N,) for a batch with reduction "none";
        float64 for float64 log-probs, otherwise float32; inf if the target does not fit.

    Raises:
        KernelError: the arguments do not fit together, or a target contains the blank.

    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> ctc_loss(log_probs, torch.tensor([[1]]), [2], [1]).exp()    # three of the four paths read it
    tensor(1.3333)
    """
    arguments.check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    return batch.reduce(
        autograd.ctc_losses(batch.log_probs, batch.problem()), reduction, zero_infinity
    )


def simple_ctc_loss(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """Return the loss of simple CTC: each token is exactly one frame, and repeats do not collapse.

    Equal neighbours need no blank. A target fits if it has no more tokens than frames. Everything
    else is as in `ctc_loss`.

    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> simple_ctc_loss(log_probs, torch.tensor([[1]]), [2], [1]).exp()    # two of the four paths read it
    tensor(2.)
    """
    arguments.check_reduction(reduction)
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    return batch.reduce(
        autograd.ctc_losses(batch.log_probs, batch.problem("simple")), reduction, zero_infinity
    )


def occupancy(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
) -> torch.Tensor:
    """Return the posterior of each class at each frame given the transcript.

    These are CTC's soft alignment targets.

    The result has no gradient. (`ctc_align.ctc.autograd.occupancies` is differentiable.)

    Args:
        log_probs, targets, input_lengths, target_lengths, blank: as in `ctc_loss`.

    Returns:
        (T, N, C), or (T, C) for one utterance, on the device of `log_probs`; float64 for float64
        log-probs, otherwise float32. Every row sums to 1, except rows beyond the input length and
        of targets that do not fit, which are 0.

    Raises:
        KernelError: as in `ctc_loss`.

    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> occupancy(log_probs, torch.tensor([[1]]), [2], [1])[:, 0]
    tensor([[0.3333, 0.6667],
            [0.3333, 0.6667]])
    """
    batch = loss_arguments(log_probs, targets, input_lengths, target_lengths, blank)
    return batch.restore_order(autograd.ctc_occupancies(batch.log_probs.detach(), batch.problem()))


def hessian(
    logits: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
) -> torch.Tensor:
    """Return all second derivatives of each utterance's CTC loss by its logits.

    This is for small problems.

        loss = sum_t logsumexp(logits[t]) - log Z(logits)
        d2 loss = (diag(y_t) - y_t y_t') in each frame, y = softmax, minus the covariance of the
        occupancy

    The covariance is exact: it is computed as a product with each unit vector. To get the product
    with one vector in the time of two or three losses, differentiate `ctc_loss` after `log_softmax`
    twice.

    Args:
        logits: (N, T, C), batch first, before `log_softmax`.
        targets, input_lengths, target_lengths, blank: as in `ctc_loss`.

    Returns:
        (N, T, C, T, C) on the device of `logits`, symmetric, without a gradient; computed in
        float64, returned as float64 for float64 logits, otherwise as float32. 0 beyond the input
        length, and if the target does not fit.

    Raises:
        KernelError: as in `ctc_loss`; the result does not fit into memory.

    >>> curvature = hessian(torch.zeros(1, 2, 2), torch.tensor([[1]]), [2], [1])
    >>> curvature.shape, curvature[0, 0, 0]
    (torch.Size([1, 2, 2, 2, 2]), tensor([[ 0.0278, -0.0278],
            [ 0.1111, -0.1111]]))
    """
    arguments.check_log_probs(logits, "(N, T, C)", (3,), "logits")
    if logits.dtype == torch.float64:
        dtype = torch.float64
    else:
        dtype = torch.float32
    utterances, frames, classes = logits.shape
    memory_limits.require(
        dtype.itemsize * utterances * (frames * classes) ** 2,
        f"second derivatives of {tuple(logits.shape)}",
    )
    batch = loss_arguments(
        logits.detach().transpose(0, 1), targets, input_lengths, target_lengths, blank
    )
    return operators.hessian(batch.log_probs, *batch.problem())


def forced_align(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths | None = None,
    target_lengths: Lengths | None = None,
    blank: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the most likely CTC path of each target, for any batch size.

    Like `torchaudio.functional.forced_align`.

    Args:
        log_probs: (B, T, C), natural log, normalised or not, floating point; or a nested tensor
            (layout `torch.jagged`) whose utterances differ in T.
        targets: (B, L) token ids of an integer dtype, which are never read beyond their lengths; a
            tensor, a nested tensor, an array, or a list of rows.
        input_lengths: (B,) numbers of valid frames; a tensor, an array or a list; None means T for
            all, and the lengths of a nested tensor.
        target_lengths: (B,) numbers of valid tokens; None means L for all, or the lengths of the
            rows of a list or a nested tensor.
        blank: the class of the blank.

    Returns:
        paths: (B, T) the label of each frame, with the dtype and device of targets (for a list:
            int64, on the device of log_probs); the blank beyond the length.
        scores: (B, T) the log-prob of each label, with the dtype and device of log_probs; 0 beyond
            the length. Their gradient is that of the log-probs of this path, as in torchaudio.
        For nested log_probs both are nested tensors of the same lengths.

    Raises:
        KernelError: the arguments do not fit together, a target contains the blank or is too long
            for its frames, the log-probs leave no path (-inf), or a path contains NaN or +inf.

    >>> log_probs = torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]]).log()
    >>> forced_align(log_probs, torch.tensor([[1, 1]]))[0]
    tensor([[1, 0, 1]])
    """
    if isinstance(log_probs, torch.Tensor) and log_probs.is_nested:
        return _align_nested(log_probs, targets, input_lengths, target_lengths, blank)
    arguments.check_log_probs(log_probs, "(B, T, C)", (3,))
    ids = arguments.as_targets(targets)
    arguments.check_token_ids(ids)
    counts = arguments.row_lengths(targets) if target_lengths is None else target_lengths
    if counts is None:
        tokens = None
    else:
        tokens = arguments.as_lengths(counts, "target_lengths")
    if input_lengths is None:
        frames = None
    else:
        frames = arguments.as_lengths(input_lengths, "input_lengths")
    paths, scores = autograd.align(log_probs, ids, frames, tokens, blank)
    return paths if isinstance(targets, torch.Tensor) else paths.to(log_probs.device), scores


def _align_nested(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths | None,
    target_lengths: Lengths | None,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return paths and scores of nested log-probs (B, T of each, C), as nested tensors."""
    if log_probs.layout != torch.jagged or log_probs.dim() != 3:
        raise KernelError(
            "log_probs: expected a nested tensor (B, T, C) of layout torch.jagged, got one of"
            f" {log_probs.dim()} dimensions and layout {log_probs.layout}"
        )
    if input_lengths is not None:
        raise KernelError("input_lengths: expected None, because a nested tensor has its lengths")
    rows = list(log_probs.unbind())
    frames = [len(row) for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    found = forced_align(padded, targets, frames, target_lengths, blank)
    paths, scores = (_nest(values, frames, log_probs) for values in found)
    return paths, scores


def _nest(values: torch.Tensor, frames: list[int], like: Any) -> torch.Tensor:
    """Return the first `frames` of each row of values (B, T) as a nested tensor.

    PyTorch knows that its lengths are those of the nested tensor `like`.
    """
    rows = [row[:count] for row, count in zip(values.unbind(), frames)]
    if like.lengths() is None:  # not a view of a part of each row
        offsets = like.offsets().to(values.device)
        return torch.nested.nested_tensor_from_jagged(torch.cat(rows), offsets)
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@dataclass
class TokenSpan:
    """A token, its frames from `start` to `end` (exclusive), and the mean of their scores."""

    token: int
    start: int
    end: int
    score: float

    def __len__(self) -> int:
        """Return the length in frames."""
        return self.end - self.start


def merge_tokens(tokens: torch.Tensor, scores: torch.Tensor, blank: int = 0) -> list[Any]:
    """Return the tokens of a path, or those of each path of a batch.

    Tokens are runs of equal labels, without blanks, as in `torchaudio.functional.merge_tokens`.

    Args:
        tokens: (T,) labels, one row of the paths of `forced_align`; or (B, T) all of them, also as
            a nested tensor.
        scores: the scores of the same frames.
        blank: the class of the blank, which `forced_align` puts beyond an utterance's length.

    Returns:
        The spans of one path, a list of `TokenSpan`; of a batch, a list of such lists.

    Raises:
        KernelError: the shapes do not fit together.

    >>> merge_tokens(torch.tensor([0, 3, 3, 5]), torch.tensor([0.0, -1.0, -2.0, -4.0]))
    [TokenSpan(token=3, start=1, end=3, score=-1.5), TokenSpan(token=5, start=3, end=4, score=-4.0)]
    """
    if tokens.dim() == 2 and scores.dim() == 2 and len(tokens) == len(scores):
        return [merge_tokens(*row, blank) for row in zip(tokens.unbind(), scores.unbind())]
    if tokens.dim() != 1 or tokens.shape != scores.shape:
        raise KernelError(
            "tokens and scores: expected one path, (T,) and (T,), or a batch, (B, T) and (B, T),"
            f" got {tuple(tokens.shape)} and {tuple(scores.shape)}"
        )
    labels = tokens.cpu().numpy()
    values = scores.detach().cpu().double().numpy()
    if not len(labels):
        return []
    starts = np.concatenate(([0], np.flatnonzero(labels[1:] != labels[:-1]) + 1))
    ends = np.append(starts[1:], len(labels))
    means = np.add.reduceat(values, starts) / (ends - starts)
    rows = zip(labels[starts].tolist(), starts.tolist(), ends.tolist(), means.tolist())
    return [TokenSpan(*row) for row in rows if row[0] != blank]
