"""Arguments in the forms of PyTorch and torchaudio: tensors of them for the operators, which check what they hold.

What stands here looks at types and shapes alone, so that it can be traced by `torch.compile`, `torch.export` and
`torch.func`; numbers are read in `ctc_align.ctc.problems`. Errors are `KernelError`, which is a ValueError and a
RuntimeError too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.ctc.problems import Problem
from ctc_align.errors import KernelError

Lengths = torch.Tensor | Sequence[int] | np.ndarray
Targets = torch.Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
REDUCTIONS = ("none", "mean", "sum")


@dataclass(frozen=True)
class LossArguments:
    """The arguments of a loss.

    Attributes:
        log_probs: (B, T, C), a view of the caller's.
        targets: (B, L) token ids, or those of all utterances in a row.
        frames: (B,), how many count.
        tokens: (B,), lengths of the targets.
        blank: the class of the blank.
        batched: whether the caller's log-probs are a batch, (T, N, C), not (T, C).
    """

    log_probs: torch.Tensor
    targets: torch.Tensor
    frames: torch.Tensor
    tokens: torch.Tensor
    blank: int
    batched: bool

    @property
    def inside(self) -> torch.Tensor:
        """The frames that count, (B, T, 1) bool, on the device of the log-probs."""
        return frames_inside(self.frames, self.log_probs)

    def problem(self, paths: str = "ctc") -> Problem:
        """Return the arguments of an operator besides the log-probs."""
        return Problem(self.targets, self.frames, self.tokens, self.blank, paths)

    def restore_order(self, values: torch.Tensor) -> torch.Tensor:
        """Return values (B, T, …) in the caller's order: (T, N, …), or (T, …)."""
        return values.transpose(0, 1) if self.batched else values[0]

    def reduce(self, losses: torch.Tensor, reduction: str, zero_infinity: bool = False) -> torch.Tensor:
        """Return losses (B,) reduced as by PyTorch's CTC loss: its "mean" is over losses per token."""
        check_reduction(reduction)
        if zero_infinity:
            losses = torch.where(losses == torch.inf, 0.0, losses)
        if reduction == "sum":
            return losses.sum()
        if reduction == "mean":
            return (losses / to_device_of(self.tokens, losses, losses.dtype).clamp(min=1)).mean()
        return losses if self.batched else losses[0]


def loss_arguments(
    log_probs: torch.Tensor, targets: Targets, input_lengths: Lengths, target_lengths: Lengths, blank: int
) -> LossArguments:
    """Convert arguments in every form that `torch.nn.functional.ctc_loss` takes, and lists and arrays.

    Raises:
        KernelError: what are no log-probs, targets or lengths.
    """
    rows = batch_first(log_probs)
    return LossArguments(
        rows,
        as_targets(targets),
        as_lengths(input_lengths, "input_lengths"),
        as_lengths(target_lengths, "target_lengths"),
        blank,
        log_probs.dim() == 3,
    )


def check_reduction(reduction: str) -> None:
    """Raise KernelError for what is no reduction."""
    if reduction not in REDUCTIONS:
        raise KernelError(f"reduction: expected one of {', '.join(REDUCTIONS)}; got {reduction!r}")


def check_log_probs(log_probs: torch.Tensor, shapes: str, dims: tuple[int, ...], name: str = "log_probs") -> None:
    """Raise KernelError unless it is a floating-point tensor of one of these dimensions, with classes."""
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        got = log_probs.dtype if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"{name}: expected a floating-point tensor {shapes}, got {got}")
    if log_probs.dim() not in dims or not log_probs.shape[-1]:
        raise KernelError(f"{name}: expected {shapes} with at least one class, got shape {tuple(log_probs.shape)}")


def batch_first(log_probs: torch.Tensor) -> torch.Tensor:
    """Return log-probs (T, N, C) or (T, C) as a view (N, T, C)."""
    check_log_probs(log_probs, "(T, N, C) or (T, C)", (2, 3))
    rows = log_probs.transpose(0, 1) if log_probs.dim() == 3 else log_probs.unsqueeze(0)
    if not rows.shape[0]:
        raise KernelError(f"log_probs: expected at least one utterance, got shape {tuple(log_probs.shape)}")
    return rows


def as_targets(targets: Targets) -> torch.Tensor:
    """Return token ids as a tensor; rows of different lengths are padded with 0.

    >>> as_targets([[1, 2], [3]])
    tensor([[1, 2],
            [3, 0]])
    """
    if isinstance(targets, torch.Tensor):
        return targets
    rows = _rows(targets)
    if rows is None:
        return _tensor(targets, "targets", "token ids")
    ids = [as_targets(row) for row in rows]
    if any(row.dim() != 1 for row in ids):
        raise KernelError("targets: expected token ids, one row for each utterance, got rows in rows")
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)


def row_lengths(targets: Targets) -> torch.Tensor | None:
    """Return the lengths (B,) of targets that are a list of rows; None for others, whose rows are equally long."""
    rows = None if isinstance(targets, torch.Tensor) else _rows(targets)
    return None if rows is None else torch.tensor([len(row) for row in rows], device="cpu")


def _rows(values: object) -> Sequence | None:
    """Return a list or tuple of rows, which are lists, tuples, or arrays or tensors of one dimension; else None."""
    if not isinstance(values, (list, tuple)) or not values:
        return None
    for value in values:
        if not (
            isinstance(value, (list, tuple)) or (isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 1)
        ):
            return None
    return values


def as_lengths(lengths: Lengths, name: str) -> torch.Tensor:
    """Return numbers in any shape, one for each utterance, as a tensor (B,)."""
    values = lengths if isinstance(lengths, torch.Tensor) else _tensor(lengths, name, "whole numbers")
    return values if values.dim() == 1 else values.reshape(-1)


def _tensor(values: object, name: str, what: str) -> torch.Tensor:
    """Return a tensor of numbers in an array or a sequence; one of nothing holds whole numbers."""
    if torch.compiler.is_compiling():
        return torch.as_tensor(values, device="cpu")  # its compiler does not look into arrays
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise KernelError(f"{name}: expected {what}, a tensor, an array or a list, got {type(values).__name__}")
    if not array.size:
        array = array.astype(np.int64)
    return torch.as_tensor(array, device="cpu")


def frames_inside(frames: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the frames that count, (B, T, 1) bool, on the device of the log-probs (B, T, C)."""
    frame = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (frame < to_device_of(frames, frame, torch.int64)[:, None])[:, :, None]


def to_device_of(numbers: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers on the device of another tensor; a GPU is not waited for, as otherwise by copies to it."""
    return numbers.to(there.device, dtype, non_blocking=there.is_cuda)
