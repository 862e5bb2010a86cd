"""Arrays in, arrays out: what callers of PyTorch and torchaudio call already, on the project's own kernels.

    ctc_loss       as torch.nn.functional.ctc_loss; its gradient is right for unnormalised scores too
    forced_align   as torchaudio.functional.forced_align, for any batch size, and optimal on ties as well
    merge_tokens   as torchaudio.functional.merge_tokens

Whatever is wrong with the arguments is a `KernelError`, which is a ValueError and a RuntimeError too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import kernels, lattice, loss
from ctc_align.errors import KernelError

Lengths = torch.Tensor | Sequence[int] | np.ndarray
REDUCTIONS = ("none", "mean", "sum")


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """The CTC loss, -log p(target | log_probs) over all paths: `torch.nn.functional.ctc_loss`, and its values.

    On purpose the gradient by `log_probs` is minus the occupancy times upstream, which is the derivative whether or not
    `log_softmax` stands before it (PyTorch's is exp(log_probs) - occupancy; behind `log_softmax` both agree), and a
    target that does not fit has gradient zero, never NaN. The padding has no gradient and is never read.

    Args:
        log_probs: (T, N, C), or (T, C) of one utterance, natural log, floating point; differentiable once.
        targets: (N, S) token ids, padded with anything, or all of them in a row (sum of target_lengths,).
        input_lengths: (N,) frames that count, tensor or sequence.
        target_lengths: (N,) tokens that count.
        blank: the class of the blank.
        reduction: "none"; "mean", of the losses per token (of targets of length 0: per utterance); or "sum".
        zero_infinity: infinite losses count as 0.

    Returns:
        The loss where `log_probs` lie: () or, with reduction "none" of a batch, (N,); float64 for float64 log-probs,
        else float32; inf where the target does not fit.

    Raises:
        KernelError: arguments that do not fit together, a blank among the targets.

    >>> log_probs = torch.full((2, 1, 2), 0.5).log()
    >>> ctc_loss(log_probs, torch.tensor([[1]]), [2], [1]).exp()    # three of the four paths read it
    tensor(1.3333)
    """
    if reduction not in REDUCTIONS:
        raise KernelError(f"reduction: expected one of {', '.join(REDUCTIONS)}; met {reduction!r}")
    utterances = _batch_first(log_probs)
    batch, _, classes = utterances.shape
    tokens = _whole_numbers(target_lengths, "target_lengths", batch)
    topology = _ctc(_padded(targets, tokens), tokens, blank, classes)
    frames = _frames(input_lengths, utterances)
    result = loss.losses(utterances, topology, torch.from_numpy(frames))
    if zero_infinity:
        result = torch.where(result == torch.inf, 0.0, result)
    if reduction == "sum":
        return result.sum()
    if reduction == "mean":
        return (result / torch.from_numpy(np.maximum(tokens, 1)).to(result)).mean()
    return result if log_probs.dim() == 3 else result[0]


def forced_align(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Lengths | None = None,
    target_lengths: Lengths | None = None,
    blank: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The most likely CTC path of each target: `torchaudio.functional.forced_align`, for any batch size.

    Args:
        log_probs: (B, T, C), natural log, normalised or not, floating point.
        targets: (B, L) token ids; what lies beyond their lengths is never read.
        input_lengths: (B,) frames that count, tensor or sequence; None means T for all.
        target_lengths: (B,) tokens that count; None means L for all.
        blank: the class of the blank.

    Returns:
        paths: (B, T) the label of each frame, of the dtype and device of targets; blank beyond the length.
        scores: (B, T) the label's log-prob, of the dtype and device of log_probs; 0 beyond the length. No gradient.

    Raises:
        KernelError: arguments that do not fit together, a blank among the targets, a target that is too long for its
            frames, log-probs that leave no path (-inf), or that are none (NaN, +inf).

    >>> log_probs = torch.tensor([[[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]]).log()
    >>> forced_align(log_probs, torch.tensor([[1, 1]]))[0]
    tensor([[1, 0, 1]])
    """
    _check_log_probs(log_probs, "(B, T, C)", (3,))
    batch, most, classes = log_probs.shape
    rows = _token_ids(targets)
    if rows.ndim != 2 or len(rows) != batch:
        raise KernelError(f"targets: expected token ids ({batch}, L), met shape {rows.shape}")
    frames = np.full(batch, most) if input_lengths is None else _frames(input_lengths, log_probs)
    if target_lengths is None:
        tokens = np.full(batch, rows.shape[1])
    else:
        tokens = _whole_numbers(target_lengths, "target_lengths", batch)
    topology = _ctc(rows, tokens, blank, classes)
    _refuse_too_long(topology, tokens, frames)
    path = kernels.best_path(log_probs, topology, None if input_lengths is None else torch.from_numpy(frames))
    _refuse_pathless(path.scores)
    labels = _labels(topology, path.states.cpu().numpy())
    beyond = None
    if input_lengths is not None:
        beyond = np.arange(most) >= frames[:, None]
        labels[beyond] = blank
    paths = torch.from_numpy(labels)
    scores = log_probs.detach().gather(2, paths.to(log_probs.device, torch.int64).unsqueeze(2)).squeeze(2)
    if beyond is not None:
        scores.masked_fill_(torch.from_numpy(beyond).to(scores.device), 0.0)
    return paths.to(targets.device, targets.dtype), scores


@dataclass(frozen=True)
class TokenSpan:
    """A token's frames, `start` to `end` (exclusive), and the mean of their scores."""

    token: int
    start: int
    end: int
    score: float

    def __len__(self) -> int:
        """Its length in frames."""
        return self.end - self.start


def merge_tokens(tokens: torch.Tensor, scores: torch.Tensor, blank: int = 0) -> list[TokenSpan]:
    """The tokens of one path: runs of equal labels, without those of the blank (`torchaudio.functional.merge_tokens`).

    Args:
        tokens: (T,) labels, one row of `forced_align`'s paths.
        scores: (T,) of the same frames.
        blank: the class of the blank.

    Raises:
        KernelError: shapes that do not fit together.

    >>> merge_tokens(torch.tensor([0, 3, 3, 5]), torch.tensor([0.0, -1.0, -2.0, -4.0]))
    [TokenSpan(token=3, start=1, end=3, score=-1.5), TokenSpan(token=5, start=3, end=4, score=-4.0)]
    """
    if tokens.dim() != 1 or tokens.shape != scores.shape:
        raise KernelError(
            f"tokens and scores: expected one path, (T,) and (T,), met {tuple(tokens.shape)} and {tuple(scores.shape)}"
        )
    labels, values = tokens.cpu().numpy(), scores.detach().cpu().double().numpy()
    if not len(labels):
        return []
    starts = np.concatenate(([0], np.flatnonzero(labels[1:] != labels[:-1]) + 1))
    ends = np.append(starts[1:], len(labels))
    means = np.add.reduceat(values, starts) / (ends - starts)
    rows = zip(labels[starts].tolist(), starts.tolist(), ends.tolist(), means.tolist())
    return [TokenSpan(*row) for row in rows if row[0] != blank]


def _check_log_probs(log_probs: torch.Tensor, shapes: str, dims: tuple[int, ...]) -> None:
    if not isinstance(log_probs, torch.Tensor) or not log_probs.is_floating_point():
        met = log_probs.dtype if isinstance(log_probs, torch.Tensor) else type(log_probs).__name__
        raise KernelError(f"log_probs: expected a floating-point tensor {shapes}, met {met}")
    if log_probs.dim() not in dims or not log_probs.shape[-1]:
        raise KernelError(f"log_probs: expected {shapes} with at least one class, met shape {tuple(log_probs.shape)}")


def _batch_first(log_probs: torch.Tensor) -> torch.Tensor:
    """(T, N, C) or (T, C) as a view (N, T, C)."""
    _check_log_probs(log_probs, "(T, N, C) or (T, C)", (2, 3))
    utterances = log_probs.transpose(0, 1) if log_probs.dim() == 3 else log_probs.unsqueeze(0)
    if not len(utterances):
        raise KernelError(f"log_probs: expected at least one utterance, met shape {tuple(log_probs.shape)}")
    return utterances


def _whole_numbers(values: Lengths, name: str, batch: int) -> np.ndarray:
    """(B,) int64, of a tensor, an array or a sequence with one number for each utterance, in any shape."""
    array = values.cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if array.size != batch or (batch and array.dtype.kind not in "iu"):
        raise KernelError(f"{name}: expected {batch} whole numbers, met {array.dtype} of shape {array.shape}")
    return array.reshape(batch).astype(np.int64)


def _frames(input_lengths: Lengths, log_probs: torch.Tensor) -> np.ndarray:
    """The frames that count of each utterance of log_probs (B, T, C)."""
    batch, most, _ = log_probs.shape
    frames = _whole_numbers(input_lengths, "input_lengths", batch)
    if batch and (frames.min() < 0 or frames.max() > most):
        b = int(np.argmax((frames < 0) | (frames > most)))
        raise KernelError(f"input_lengths: utterance {b} has {frames[b]} frames, expected 0 to {most} as in log_probs")
    return frames


def _token_ids(targets: torch.Tensor) -> np.ndarray:
    """Targets as an array of integers; floats that hold whole numbers are taken, as PyTorch takes them."""
    if not isinstance(targets, torch.Tensor):
        raise KernelError(f"targets: expected a tensor of token ids, met {type(targets).__name__}")
    if not targets.is_floating_point():
        return targets.cpu().numpy()
    ids = targets.detach().long()
    if not torch.equal(ids.to(targets.dtype), targets):
        raise KernelError(f"targets: expected whole numbers, met {targets.dtype} with fractions")
    return ids.cpu().numpy()


def _padded(targets: torch.Tensor, tokens: np.ndarray) -> np.ndarray:
    """Targets (N, S), or those in a row, as rows of ids of which the first `tokens` (N,) count."""
    ids = _token_ids(targets)
    if ids.ndim == 2 and len(ids) == len(tokens):
        return ids
    total = int(tokens.sum())
    if ids.shape != (total,) or tokens.min() < 0:
        raise KernelError(
            f"targets: expected ({len(tokens)}, S), or ({total},) as target_lengths add up to, met {ids.shape}"
        )
    inside = np.arange(tokens.max()) < tokens[:, None]
    rows = np.zeros(inside.shape, ids.dtype)
    rows[inside] = ids
    return rows


def _ctc(rows: np.ndarray, tokens: np.ndarray, blank: int, classes: int) -> lattice.Topology:
    """The lattice of rows of ids (B, L), each one a class."""
    if not 0 <= blank < classes:
        raise KernelError(f"blank: expected a class from 0 to {classes - 1}, met {blank}")
    topology = lattice.ctc_padded(rows, tokens, blank)
    # As unsigned, a negative id is a large one. -1 must not pass: the lattice takes it for a wildcard.
    if topology.emit.size and topology.emit.view(np.uint32).max() >= classes:
        b, state = np.argwhere(topology.emit.view(np.uint32) >= classes)[0].tolist()
        raise KernelError(
            f"target {b}: token {state // 2} is {topology.emit[b, state]}; log_probs has the classes 0 to {classes - 1}"
        )
    return topology


def _refuse_too_long(topology: lattice.Topology, tokens: np.ndarray, frames: np.ndarray) -> None:
    short = topology.min_frames > frames
    if short.any():
        b = int(np.argmax(short))
        raise KernelError(
            f"targets length is too long for CTC, utterance {b}: log_probs length {frames[b]}, targets length "
            f"{tokens[b]}, and number of repeats {topology.min_frames[b] - tokens[b]} (each takes a blank)"
        )


def _refuse_pathless(scores: torch.Tensor) -> None:
    values = scores.cpu().numpy()
    if not len(values) or values.min() > -np.inf:  # neither for NaN
        return
    b = int(np.argmin(np.isfinite(values)))
    if np.isnan(values[b]):
        raise KernelError(f"log_probs of utterance {b}: expected log-probs, met NaN or +inf where its target is")
    raise KernelError(f"log_probs of utterance {b}: every path of its target meets a log-prob of -inf")


def _labels(topology: lattice.Topology, states: np.ndarray) -> np.ndarray:
    """(B, T) int32: what the states emit, anything where there is none (-1)."""
    batch, size = topology.emit.shape
    return topology.emit.take(states if batch == 1 else states + (np.arange(batch) * size)[:, None])
