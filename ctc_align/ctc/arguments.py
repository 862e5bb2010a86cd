"""Arguments in the forms of PyTorch and torchaudio, checked and converted for the kernels: ids, lengths, topologies.

Errors are `KernelError`, which is a ValueError and a RuntimeError too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.ctc.autograd import refuse_transforms
from ctc_align.errors import KernelError

Lengths = torch.Tensor | Sequence[int] | np.ndarray
REDUCTIONS = ("none", "mean", "sum")

MakeTopology = Callable[[np.ndarray, np.ndarray, int], lattice.Topology]
"""A function of rows of ids (B, L), how many of each count (B,), and the blank."""


@dataclass(frozen=True)
class LossArguments:
    """The arguments of a loss.

    Attributes:
        log_probs: (B, T, C), a view of the caller's.
        topology: of the same B.
        frames: (B,) int64, how many count.
        tokens: (B,) int64, lengths of the targets.
        batched: whether the caller's log-probs are a batch, (T, N, C), not (T, C).
    """

    log_probs: torch.Tensor
    topology: lattice.Topology
    frames: torch.Tensor
    tokens: np.ndarray
    batched: bool

    @property
    def inside(self) -> torch.Tensor:
        """The frames that count, (B, T, 1) bool, on the device of the log-probs."""
        return frames_inside(self.frames, self.log_probs)

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
            return (losses / torch.from_numpy(np.maximum(self.tokens, 1)).to(losses)).mean()
        return losses if self.batched else losses[0]


def loss_arguments(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
    make: MakeTopology = lattice.ctc_padded,
) -> LossArguments:
    """Check and convert arguments in every form that `torch.nn.functional.ctc_loss` takes.

    Raises:
        KernelError: arguments that do not fit together, a blank among the targets.
    """
    rows = batch_first(log_probs)
    batch, _, classes = rows.shape
    tokens = whole_numbers(target_lengths, "target_lengths", batch)
    topology = ctc(_padded(targets, tokens), tokens, blank, classes, make)
    frames = torch.from_numpy(frame_counts(input_lengths, rows))
    return LossArguments(rows, topology, frames, tokens, log_probs.dim() == 3)


def check_reduction(reduction: str) -> None:
    """Raise KernelError for what is no reduction."""
    if reduction not in REDUCTIONS:
        raise KernelError(f"reduction: expected one of {', '.join(REDUCTIONS)}; got {reduction!r}")


def check_log_probs(log_probs: torch.Tensor, shapes: str, dims: tuple[int, ...], name: str = "log_probs") -> None:
    """Raise KernelError unless it is a floating-point tensor of one of these dimensions, with classes."""
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        got = log_probs.dtype if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"{name}: expected a floating-point tensor {shapes}, got {got}")
    refuse_transforms(log_probs)
    if log_probs.dim() not in dims or not log_probs.shape[-1]:
        raise KernelError(f"{name}: expected {shapes} with at least one class, got shape {tuple(log_probs.shape)}")


def batch_first(log_probs: torch.Tensor) -> torch.Tensor:
    """Return log-probs (T, N, C) or (T, C) as a view (N, T, C)."""
    check_log_probs(log_probs, "(T, N, C) or (T, C)", (2, 3))
    rows = log_probs.transpose(0, 1) if log_probs.dim() == 3 else log_probs.unsqueeze(0)
    if not len(rows):
        raise KernelError(f"log_probs: expected at least one utterance, got shape {tuple(log_probs.shape)}")
    return rows


def whole_numbers(values: Lengths, name: str, batch: int) -> np.ndarray:
    """Return (B,) int64 of a tensor, an array or a sequence with one number for each utterance, in any shape."""
    if isinstance(values, torch.Tensor):
        refuse_transforms(values)
    array = values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.size != batch or (batch and array.dtype.kind not in "iu"):
        raise KernelError(f"{name}: expected {batch} whole numbers, got {array.dtype} of shape {array.shape}")
    return array.reshape(batch).astype(np.int64)


def frame_counts(input_lengths: Lengths, log_probs: torch.Tensor) -> np.ndarray:
    """Return how many frames count of each utterance of log_probs (B, T, C)."""
    batch, most, _ = log_probs.shape
    frames = whole_numbers(input_lengths, "input_lengths", batch)
    if batch and (frames.min() < 0 or frames.max() > most):
        b = int(np.argmax((frames < 0) | (frames > most)))
        raise KernelError(f"input_lengths: utterance {b} has {frames[b]} frames, expected 0 to {most} as in log_probs")
    return frames


def frames_inside(frames: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the frames that count, (B, T, 1) bool, on the device of the log-probs (B, T, C)."""
    frame = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (frame < frames.to(frame.device)[:, None])[:, :, None]


def token_ids(targets: torch.Tensor) -> np.ndarray:
    """Return targets as an array of integers; floats that hold whole numbers are accepted, as by PyTorch."""
    if not isinstance(targets, torch.Tensor):
        raise KernelError(f"targets: expected a tensor of token ids, got {type(targets).__name__}")
    refuse_transforms(targets)
    if not targets.is_floating_point():
        return targets.cpu().numpy()
    ids = targets.detach().long()
    if not torch.equal(ids.to(targets.dtype), targets):
        raise KernelError(f"targets: expected whole numbers, got {targets.dtype} with fractions")
    return ids.cpu().numpy()


def _padded(targets: torch.Tensor, tokens: np.ndarray) -> np.ndarray:
    """Return targets (N, S), or concatenated ones, as rows of ids of which the first `tokens` (N,) count."""
    ids = token_ids(targets)
    if ids.ndim == 2 and len(ids) == len(tokens):
        return ids
    total = int(tokens.sum())
    if ids.shape != (total,) or tokens.min() < 0:
        raise KernelError(
            f"targets: expected ({len(tokens)}, S), or ({total},) as target_lengths add up to, got {ids.shape}"
        )
    inside = np.arange(tokens.max()) < tokens[:, None]
    rows = np.zeros(inside.shape, ids.dtype)
    rows[inside] = ids
    return rows


def ctc(
    rows: np.ndarray, tokens: np.ndarray, blank: int, classes: int, make: MakeTopology = lattice.ctc_padded
) -> lattice.Topology:
    """Make the topology of rows of ids (B, L), each one a class."""
    if not 0 <= blank < classes:
        raise KernelError(f"blank: expected a class from 0 to {classes - 1}, got {blank}")
    topology = make(rows, tokens, blank)
    # -1 would be a wildcard.
    if topology.max_class >= classes or topology.has_wildcard:
        b, state = np.argwhere(topology.emit.view(np.uint32) >= classes)[0].tolist()
        raise KernelError(
            f"target {b}: token {state // 2} is {topology.emit[b, state]}; log_probs has the classes 0 to {classes - 1}"
        )
    return topology


def simple_padded(rows: np.ndarray, tokens: np.ndarray, blank: int) -> lattice.Topology:
    """Make `lattice.simple_ctc` of rows of ids (B, L), of which the first `tokens` (B,) count."""
    if len(tokens) and (tokens.min() < 0 or tokens.max() > rows.shape[1]):
        raise KernelError(f"target lengths: expected 0 to {rows.shape[1]}, got {tokens.tolist()[:8]}")
    return lattice.simple_ctc([row[:count] for row, count in zip(rows, tokens.tolist())], blank)
