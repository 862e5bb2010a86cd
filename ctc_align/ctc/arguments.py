"""Convert the arguments of PyTorch and torchaudio to tensors, checking only types and shapes.

So `torch.compile`, `torch.export` and `torch.func` can trace the conversion. `whole_numbers`,
`frame_counts` and `token_ids` check the values when an operator runs. Errors are `KernelError`,
which is also a ValueError and a RuntimeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.errors import KernelError

# Arguments of an operator, read and checked: token ids, lengths, and the topology that they make.
#
# An operator of PyTorch takes tensors, numbers and strings. CTC's paths are so given by targets,
# their lengths and the blank; any other `lattice.Topology` as one tensor of whole numbers, a row
# for each utterance (`packed`). Errors are `KernelError`, which is a ValueError and a RuntimeError
# too.


class Problem(NamedTuple):
    """The arguments of an operator besides log-probs (B, T, C).

    Attributes:
        targets: (B, L) token ids, those of all in a row, or a packed topology.
        input_lengths: (B,) frames that count; None means T for all.
        target_lengths: (B,) tokens that count.
        blank: the class of the blank.
        paths: "ctc", "simple", or what `packed` returns.
        backend: see `ctc_align.kernels`.
    """

    targets: torch.Tensor
    input_lengths: torch.Tensor | None
    target_lengths: torch.Tensor
    blank: int = 0
    paths: str = "ctc"
    backend: str = "auto"

    def topology(self, log_probs: torch.Tensor) -> lattice.Topology:
        """Return the topology of the targets.

        Raises KernelError for targets that do not fit log-probs (B, T, C).
        """
        batch, most, classes = log_probs.shape
        if self.paths.startswith("packed"):
            return _unpacked(self.targets.numpy(force=True), self.paths)
        tokens = whole_numbers(self.target_lengths, "target_lengths", batch, most)
        return ctc(
            _padded(token_ids(self.targets), tokens), tokens, self.blank, classes, self.paths
        )

    def frames(self, log_probs: torch.Tensor) -> np.ndarray | None:
        """Return the lengths (B,) int64, or None where every frame counts.

        Raises KernelError for more frames than log-probs (B, T, C) have.
        """
        if self.input_lengths is None:
            return None
        return frame_counts(self.input_lengths, *log_probs.shape[:2])


def whole_numbers(values: torch.Tensor, name: str, batch: int, most: int) -> np.ndarray:
    """Return (B,) int64 of a tensor with one number for each utterance.

    Log-probs are (B, `most`, C).
    """
    array = values.numpy(force=True)
    if array.size != batch or (batch and array.dtype.kind not in "iu"):
        swapped = (
            f"; log_probs hold {batch} utterances of {most} frames: are their first axes swapped?"
            " ctc_loss and the other losses expect (T, N, C), forced_align (B, T, C)"
        )
        raise KernelError(
            f"{name}: expected {batch} whole numbers, got {array.dtype} of shape {array.shape}"
            f"{swapped if array.size == most != batch else ''}"
        )
    return array.reshape(batch).astype(np.int64, copy=False)


def frame_counts(input_lengths: torch.Tensor, batch: int, most: int) -> np.ndarray:
    """Return the number of valid frames of each utterance of log_probs (B, T, C)."""
    frames = whole_numbers(input_lengths, "input_lengths", batch, most)
    counts = frames.tolist() or [0]
    if min(counts) < 0 or max(counts) > most:
        b = int(np.argmax((frames < 0) | (frames > most)))
        raise KernelError(
            f"input_lengths: utterance {b} has {frames[b]} frames, expected 0 to {most} as in"
            " log_probs"
        )
    return frames


def token_ids(targets: torch.Tensor) -> np.ndarray:
    """Return targets as an array of integers.

    Floats that hold whole numbers are accepted, as by PyTorch.
    """
    if not targets.is_floating_point():
        return targets.numpy(force=True)
    ids = targets.detach().long()
    if not torch.equal(ids.to(targets.dtype), targets):
        raise KernelError(f"targets: expected whole numbers, got {targets.dtype} with fractions")
    return ids.cpu().numpy()


def _padded(ids: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Return targets, (N, S) or concatenated, as rows of ids.

    The first `tokens` (N,) of each row count.
    """
    if ids.ndim == 2 and len(ids) == len(tokens):
        return ids
    total = int(tokens.sum())
    if ids.shape != (total,) or tokens.min() < 0:
        raise KernelError(
            f"targets: expected ({len(tokens)}, S), or ({total},) as target_lengths add up to, got"
            f" {ids.shape}"
        )
    inside = np.arange(tokens.max()) < tokens[:, None]
    rows = np.zeros(inside.shape, ids.dtype)
    rows[inside] = ids
    return rows


def ctc(
    rows: np.ndarray, tokens: np.ndarray, blank: int, classes: int, paths: str = "ctc"
) -> lattice.Topology:
    """Make the topology, "ctc" or "simple", of rows of ids (B, L), each one a class."""
    if not 0 <= blank < classes:
        raise KernelError(f"blank: expected a class from 0 to {classes - 1}, got {blank}")
    topology = lattice.ctc_padded(rows, tokens, blank, repeats=paths != "simple")
    # -1 would be a wildcard.
    if topology.max_class >= classes or topology.has_wildcard:
        b, state = np.argwhere(topology.emit.view(np.uint32) >= classes)[0].tolist()
        raise KernelError(
            f"target {b}: token {state // 2} is {topology.emit[b, state]}; log_probs has the"
            f" classes 0 to {classes - 1}"
        )
    return topology


_COLUMNS = ("states", "starts", "finals", "min_frames")
_FLAGS = ("skip", "stay")


def packed(topology: lattice.Topology) -> tuple[torch.Tensor, str]:
    """Return a topology as one tensor (B, W) int32, and the string that tells how to read it."""
    batch, states = topology.emit.shape
    parts = [getattr(topology, name)[:, None] for name in _COLUMNS]
    parts += [topology.emit, topology.token, *(getattr(topology, name) for name in _FLAGS)]
    sources = 0
    if (detours := topology.detours) is not None:
        sources = detours.sources.shape[2]
        parts += [detours.begin, detours.end, detours.sources.reshape(batch, states * sources)]
    rows = np.concatenate([part.astype(np.int32) for part in parts], axis=1)
    return torch.from_numpy(rows), f"packed {states} {'-' if detours is None else sources}"


def _unpacked(rows: np.ndarray, paths: str) -> lattice.Topology:
    """Return the topology from the result of `packed`."""
    _, width, most = paths.split()
    batch = len(rows)
    states = int(width)
    columns = dict(zip(_COLUMNS, np.ascontiguousarray(rows[:, : len(_COLUMNS)].T, np.int64)))
    places = iter(range(len(_COLUMNS), rows.shape[1], states or 1))

    def next_part() -> np.ndarray:
        first = next(places)
        return rows[:, first : first + states]

    emit, token = (np.ascontiguousarray(next_part()) for _ in range(2))
    skip, stay = (next_part() != 0 for _ in range(2))
    detours = None
    if most != "-":
        begin, end = (next_part() != 0 for _ in range(2))
        sources = rows[:, rows.shape[1] - states * int(most) :].reshape(batch, states, int(most))
        detours = lattice.Detours(np.ascontiguousarray(sources), begin, end)
    return lattice.Topology.trusted(
        emit=emit, token=token, skip=skip, stay=stay, **columns, detours=detours
    )


Lengths = torch.Tensor | Sequence[int] | np.ndarray
Targets = torch.Tensor | np.ndarray | Sequence[int] | Sequence[Sequence[int]]
REDUCTIONS = ("none", "mean", "sum")


class LossArguments(NamedTuple):
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
        if self.batched:
            return values.transpose(0, 1)
        return values[0]

    def reduce(
        self, losses: torch.Tensor, reduction: str, zero_infinity: bool = False
    ) -> torch.Tensor:
        """Return losses (B,) reduced as by PyTorch's CTC loss.

        Its "mean" is over losses per token.
        """
        check_reduction(reduction)
        if zero_infinity:
            losses = torch.where(losses == torch.inf, 0.0, losses)
        if reduction == "sum":
            return losses.sum()
        if reduction == "mean":
            return (losses / to_device_of(self.tokens, losses, losses.dtype).clamp(min=1)).mean()
        return losses if self.batched else losses[0]


def loss_arguments(
    log_probs: torch.Tensor,
    targets: Targets,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int,
) -> LossArguments:
    """Convert arguments in every form that `torch.nn.functional.ctc_loss` takes.

    Lists and arrays are accepted, too.

    Raises:
        KernelError: the log-probs, targets or lengths are invalid.
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
    """Raise KernelError for an unknown reduction."""
    if reduction not in REDUCTIONS:
        raise KernelError(f"reduction: expected one of {', '.join(REDUCTIONS)}; got {reduction!r}")


def check_log_probs(
    log_probs: torch.Tensor, shapes: str, dims: tuple[int, ...], name: str = "log_probs"
) -> None:
    """Raise KernelError unless it is a float tensor with classes and one of these dimensions."""
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        if isinstance(log_probs, torch.Tensor):
            got = log_probs.dtype
        else:
            got = type(log_probs).__name__
        raise KernelError(f"{name}: expected a floating-point tensor {shapes}, got {got}")
    if log_probs.dim() not in dims or not log_probs.shape[-1]:
        raise KernelError(
            f"{name}: expected {shapes} with at least one class, got shape {tuple(log_probs.shape)}"
        )


def batch_first(log_probs: torch.Tensor) -> torch.Tensor:
    """Return log-probs (T, N, C) or (T, C) as a view (N, T, C)."""
    check_log_probs(log_probs, "(T, N, C) or (T, C)", (2, 3))
    if log_probs.dim() == 3:
        rows = log_probs.transpose(0, 1)
    else:
        rows = log_probs.unsqueeze(0)
    if not rows.shape[0]:
        raise KernelError(
            f"log_probs: expected at least one utterance, got shape {tuple(log_probs.shape)}"
        )
    return rows


def as_targets(targets: Targets) -> torch.Tensor:
    """Return token ids as a tensor.

    Rows of different lengths, also of a nested tensor, are padded with 0.

    >>> as_targets([[1, 2], [3]])
    tensor([[1, 2],
            [3, 0]])
    """
    rows = _rows(targets)
    if rows is None:
        if isinstance(targets, torch.Tensor):
            return targets
        return _tensor(targets, "targets", "token ids")
    ids = [as_targets(row) for row in rows]
    if any(row.dim() != 1 for row in ids):
        raise KernelError(
            "targets: expected token ids, one row for each utterance, got rows in rows"
        )
    return torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)


def check_token_ids(ids: torch.Tensor) -> None:
    """Raise KernelError unless the dtype is one of whole numbers."""
    kind = ids.dtype
    if kind.is_floating_point or kind.is_complex or kind == torch.bool:
        raise KernelError(
            f"targets: expected token ids of an integer dtype, got {kind}; use targets.long()"
        )


def row_lengths(targets: Targets) -> torch.Tensor | None:
    """Return the lengths (B,) of targets that are a nested tensor or a list of rows.

    None for others, whose rows are equally long.
    """
    rows = _rows(targets)
    if rows is None:
        return None
    return torch.tensor([len(row) for row in rows], device="cpu")


def _rows(values: object) -> Sequence | None:
    """Return the rows of a nested tensor, or of a list or tuple of rows; else None.

    A row is a list, a tuple, or an array or tensor of one dimension.
    """
    if isinstance(values, torch.Tensor) and values.is_nested:
        return values.unbind()
    if not isinstance(values, (list, tuple)) or not values:
        return None
    for value in values:
        if not (
            isinstance(value, (list, tuple))
            or (isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 1)
        ):
            return None
    return values


def as_lengths(lengths: Lengths, name: str) -> torch.Tensor:
    """Return numbers in any shape, one for each utterance, as a tensor (B,)."""
    if isinstance(lengths, torch.Tensor):
        values = lengths
    else:
        values = _tensor(lengths, name, "whole numbers")
    return values if values.dim() == 1 else values.reshape(-1)


def _tensor(values: object, name: str, what: str) -> torch.Tensor:
    """Return the numbers of an array or a sequence as a tensor.

    An empty one has an integer type.
    """
    if torch.compiler.is_compiling():
        return torch.as_tensor(values, device="cpu")  # its compiler does not look into arrays
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise KernelError(
            f"{name}: expected {what}, a tensor, an array or a list, got {type(values).__name__}"
        )
    if not array.size:
        array = array.astype(np.int64)
    return torch.as_tensor(array, device="cpu")


def frames_inside(frames: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the frames that count, (B, T, 1) bool, on the device of the log-probs (B, T, C)."""
    frame = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (frame < to_device_of(frames, frame, torch.int64)[:, None])[:, :, None]


def to_device_of(numbers: torch.Tensor, there: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return numbers on the device of another tensor.

    Unlike an ordinary copy, this does not wait for a GPU: it copies from pinned memory, and in a
    CUDA graph it takes the numbers of an earlier call.
    """
    if not there.is_cuda or torch.compiler.is_compiling():
        return numbers.to(there.device, dtype, non_blocking=there.is_cuda)
    from ctc_align.kernels.gpu import device_tables

    return device_tables.copied(numbers, there.device, dtype)
