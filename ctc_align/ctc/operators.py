"""The operators of PyTorch behind the CTC functions, `torch.ops.ctc_align.*`.

    total           losses (B,)
    sums            losses (B,) and posteriors (B, T, C)
    gradient        minus the posteriors times the losses' upstream gradient, in the dtype of the log-probs
    scale_          `gradient` in place, for posteriors that have no other use
    second          the derivatives of `gradient` along a direction, by the log-probs and by the upstream gradient
    forced_align    best paths and their scores
    hessian         all second derivatives, for small problems
    frame_counts    lengths, checked against the number of frames
    finite          numbers, checked to be finite

`ctc_align.ctc.autograd` builds the differentiable operators `losses` and `occupancies` from these.
Each operator has a kernel (which reads all values), a fake kernel (shapes, dtypes and memory order
only: for `torch.compile`, `torch.export` and meta tensors) and a rule for `torch.vmap`. Therefore
the arguments are tensors, numbers and strings; `PROBLEM` has those of `problems.Problem`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.ctc import arguments
from ctc_align.ctc.arguments import Problem
from ctc_align.errors import KernelError

PROBLEM = (
    "Tensor targets, Tensor? input_lengths, Tensor target_lengths, int blank, str paths, str"
    " backend"
)
UNITS_CELLS = 2**20
"""The maximum size of the unit vectors whose products `hessian` computes at once."""

TAGS = tuple(
    getattr(torch.Tag, name)
    for name in ("pt2_compliant_tag", "cudagraph_unsafe")  # the second in newer ones
    if hasattr(torch.Tag, name)
)
"""Tags of all operators. They read targets and lengths on the host, so `torch.compile` must leave
them out of the CUDA graphs that it captures: replayed, a graph would go on with those of the first
batch."""

LIBRARY = torch.library.Library("ctc_align", "DEF")
defined: dict[str, Any] = {}
"""The operators by name."""


def define(
    name: str, schema: str, kernel: Callable, fake: Callable, targets_at: int | None = None
) -> Any:
    """Define an operator and return it.

    `targets_at` is the index of the targets among its arguments, for vmap.
    """
    LIBRARY.define(f"{name}{schema}", tags=TAGS)
    torch.library.register_fake(f"ctc_align::{name}", fake, lib=LIBRARY)
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    operator = defined[name] = getattr(torch.ops.ctc_align, name).default
    if hasattr(torch.library, "register_vmap"):  # from PyTorch 2.5 on

        def rule(info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Any:
            return over_batches(operator, info.batch_size, in_dims, arguments, targets_at)

        torch.library.register_vmap(f"ctc_align::{name}", rule, lib=LIBRARY)
    return operator


def over_batches(
    call: Callable,
    size: int,
    in_dims: tuple[int | None, ...],
    arguments: tuple,
    targets_at: int | None,
) -> Any:
    """Call for all batches at once, as `torch.vmap` asks.

    The utterances of all batches become the utterances of one.

    Raises:
        KernelError: targets of several utterances in a row, whose positions differ from batch to
            batch.
    """
    rows: list[Any] = []
    for value, dim in zip(arguments, in_dims):
        if isinstance(value, torch.Tensor):
            if dim is None:
                value = value.expand(size, *value.shape)
            else:
                value = value.movedim(dim, 0)
        rows.append(value)
    if targets_at is not None and rows[targets_at].dim() == 2:
        if rows[0].shape[1] != 1:
            raise KernelError(
                "targets: expected (N, S) under torch.vmap, got the targets of all utterances in"
                " a row"
            )
        rows[targets_at] = rows[targets_at].unsqueeze(1)
    results = call(
        *(value.flatten(0, 1) if isinstance(value, torch.Tensor) else value for value in rows)
    )
    if isinstance(results, torch.Tensor):
        return results.unflatten(0, (size, -1)), 0
    parts = tuple(result.unflatten(0, (size, -1)) for result in results)
    return parts, (0,) * len(parts)


def _float_type(log_probs: torch.Tensor) -> torch.dtype:
    """Return the type of losses and posteriors.

    Half precision ends at 65504, which a loss may exceed.
    """
    if log_probs.dtype == torch.float64:
        return torch.float64
    return torch.float32


def _total(log_probs: torch.Tensor, *arguments: Any) -> torch.Tensor:
    problem = Problem(*arguments)
    topology = problem.topology(log_probs)
    frames = problem.frames(log_probs)
    return _negative(
        kernels.forward(log_probs, topology, frames, backend=problem.backend), log_probs
    )


def fake_total(log_probs: torch.Tensor, *_: Any) -> torch.Tensor:
    """Return losses (B,) without values."""
    return log_probs.new_empty(log_probs.shape[:1], dtype=_float_type(log_probs))


def _sums(log_probs: torch.Tensor, *arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
    problem = Problem(*arguments)
    topology = problem.topology(log_probs)
    frames = problem.frames(log_probs)
    result = kernels.occupancy(log_probs, topology, frames, backend=problem.backend)
    return _negative(result.scores, log_probs), _in_order(
        result.posteriors.to(log_probs.device), log_probs
    )


def fake_posteriors(log_probs: torch.Tensor, *_: Any) -> torch.Tensor:
    """Return posteriors (B, T, C) without values."""
    return torch.empty_like(log_probs, dtype=_float_type(log_probs))


def _negative(scores: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return the losses of scores, in the precision and on the device of the log-probs."""
    if (
        scores.is_cpu and log_probs.is_cpu
    ):  # by NumPy: an operation of torch takes longer, the whole of a short call's
        return torch.from_numpy(
            (0.0 - scores.numpy()).astype(
                np.float64 if log_probs.dtype == torch.float64 else np.float32
            )
        )
    return torch.rsub(
        scores.to(log_probs.device, _float_type(log_probs)), 0.0
    )  # never -0.0, which reads oddly


def _no_posteriors(log_probs: torch.Tensor) -> torch.Tensor:
    return log_probs.new_empty((log_probs.shape[0], 0), dtype=_float_type(log_probs))


def same_order(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors of one shape have the same memory layout.

    Strides of dimensions of size 1 do not matter.
    """
    if one.stride() == other.stride():
        return True
    return all(n == 1 or a == b for n, a, b in zip(one.shape, one.stride(), other.stride()))


def _in_order(values: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
    """Return values in the memory order that `torch.empty_like` gives.

    The fake operator promises this order.
    """
    if same_order(values, log_probs):
        return values
    expected = torch.empty_like(log_probs, dtype=values.dtype, device="meta")
    if same_order(values, expected):
        return values
    return torch.empty_like(log_probs, dtype=values.dtype).copy_(values)


def gradient_kernel(
    log_probs: torch.Tensor, upstream: torch.Tensor, posteriors: torch.Tensor, *problem: Any
) -> torch.Tensor:
    """Return minus the posteriors times the upstream gradient (B,).

    The result has the type and memory order of the log-probs.

    Do not read a number from a GPU here: that would wait for all of its pending work.
    """
    return _weighted(posteriors, upstream, log_probs)


def _weighted(
    values: torch.Tensor, upstream: torch.Tensor, log_probs: torch.Tensor
) -> torch.Tensor:
    """Return minus the values times upstream (B,), in type and memory order of the log-probs.

    Autograd would copy a result in a different order.
    """
    result = torch.empty_like(log_probs)
    if values.dtype == result.dtype and _scale(values, upstream, result):
        return result
    product = _product(values, _weights(upstream, values))
    if product.dtype == result.dtype and same_order(product, result):
        return product
    return result.copy_(product)


def _weights(upstream: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return -upstream.detach().to(values)[:, None, None]


def _product(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the product, in which zero times infinity is zero.

    Impossible paths have no gradient.
    """
    if values.is_cpu and np.isfinite(weights.numpy()).all():
        return torch.from_numpy(np.multiply(values.numpy(), weights.numpy()))
    return torch.where(values == 0, 0.0, values * weights)


def _scale(values: torch.Tensor, upstream: torch.Tensor, result: torch.Tensor) -> bool:
    """Write minus (B, T, C) times upstream (B,) to `result`.

    Returns False where NumPy cannot do it.

    Not by torch's threads, which would go on spinning on the cores that the next kernels need. Work
    in rows that are as long as gap-free memory allows, because a single row of classes is short.
    """
    if not (values.is_cpu and upstream.is_cpu):
        return False
    rows, out = values.numpy(), result.numpy()
    weights = -upstream.numpy(force=True).astype(rows.dtype, copy=False)
    if not np.isfinite(weights).all():
        return False
    order = sorted(range(3), key=lambda axis: -rows.strides[axis])
    rows = rows.transpose(order)
    out = out.transpose(order)
    place = order.index(0)
    if not rows.flags.c_contiguous or not out.flags.c_contiguous:
        np.multiply(rows, weights.reshape([-1 if axis == 0 else 1 for axis in order]), out=out)
        return True
    inner = math.prod(rows.shape[place + 1 :])
    if place:
        shape = (-1, len(weights) * inner)
        weights = np.repeat(weights, inner)
    else:
        shape = (len(weights), inner)
        weights = weights[:, None]
    np.multiply(rows.reshape(shape), weights, out=out.reshape(shape))
    return True


def scale_kernel(posteriors: torch.Tensor, upstream: torch.Tensor) -> None:
    """Multiply posteriors by minus the upstream gradient (B,) in place."""
    if not _scale(posteriors, upstream, posteriors):
        posteriors.copy_(_product(posteriors, _weights(upstream, posteriors)))


def _second(
    log_probs: torch.Tensor,
    upstream: torch.Tensor | None,
    posteriors: torch.Tensor,
    direction: torch.Tensor,
    *arguments: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    problem = Problem(*arguments)
    topology = problem.topology(log_probs)
    frames = problem.frames(log_probs)
    made, _ = kernels.tangent(
        log_probs, topology, frames, direction, posteriors=posteriors, backend=problem.backend
    )
    tangents = made.to(log_probs.device)
    if upstream is None:
        return torch.empty_like(log_probs).copy_(tangents), _no_posteriors(log_probs)
    by_log_probs = _weighted(tangents, upstream, log_probs)
    by_upstream = (
        -_product(posteriors, direction.detach().to(posteriors)).sum((1, 2)).to(upstream.dtype)
    )
    return by_log_probs, by_upstream


def _fake_second(
    log_probs: torch.Tensor, upstream: torch.Tensor | None, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    if upstream is None:
        nothing = _no_posteriors(log_probs)
    else:
        nothing = torch.empty_like(upstream)
    return torch.empty_like(log_probs), nothing


def _forced_align(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor | None,
    target_lengths: torch.Tensor | None,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, most, classes = log_probs.shape
    rows = arguments.token_ids(targets)
    if rows.ndim != 2 or len(rows) != batch:
        raise KernelError(f"targets: expected token ids ({batch}, L), got shape {rows.shape}")
    if input_lengths is None:
        frames = np.full(batch, most)
    else:
        frames = arguments.frame_counts(input_lengths, batch, most)
    if target_lengths is None:
        tokens = np.full(batch, rows.shape[1])
    else:
        tokens = arguments.whole_numbers(target_lengths, "target_lengths", batch, most)
    topology = arguments.ctc(rows, tokens, blank, classes)
    _refuse_too_long(topology, tokens, frames)
    labels, scores, totals = kernels.best_labels(log_probs, topology, frames, blank)
    _refuse_pathless(totals)
    return labels.to(targets.device, targets.dtype), scores


def _fake_forced_align(
    log_probs: torch.Tensor, targets: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    return targets.new_empty(log_probs.shape[:2]), log_probs.new_empty(log_probs.shape[:2])


def _refuse_too_long(topology: lattice.Topology, tokens: np.ndarray, frames: np.ndarray) -> None:
    if any((short := topology.min_frames > frames).tolist()):
        b = int(np.argmax(short))
        raise KernelError(
            f"targets length is too long for CTC, utterance {b}: log_probs length {frames[b]},"
            f" targets length {tokens[b]}, and number of repeats"
            f" {topology.min_frames[b] - tokens[b]} (each takes a blank)"
        )


def _refuse_pathless(scores: torch.Tensor) -> None:
    totals = scores.tolist()
    if all(total > -math.inf for total in totals):  # neither for NaN
        return
    values = np.array(totals)
    b = int(np.argmin(np.isfinite(values)))
    if np.isnan(values[b]):
        raise KernelError(
            f"log_probs of utterance {b}: expected log-probs, got NaN or +inf where its target is"
        )
    raise KernelError(
        f"log_probs of utterance {b}: every path of its target meets a log-prob of -inf"
    )


def _hessian(logits: torch.Tensor, *arguments: Any) -> torch.Tensor:
    problem = Problem(*arguments)
    result = _fake_hessian(logits).zero_()
    topology = problem.topology(logits)
    lengths = problem.frames(logits)
    assert lengths is not None
    for b, (frames, states) in enumerate(zip(lengths.tolist(), topology.states.tolist())):
        target = topology.emit[b, 1:states:2]
        curvature = _curvature(logits[b, :frames].detach().cpu().double(), target, problem.blank)
        result[b, :frames, :, :frames] = curvature.to(result)
    return result


def _fake_hessian(logits: torch.Tensor, *_: Any) -> torch.Tensor:
    return logits.new_empty((*logits.shape, *logits.shape[1:]), dtype=_float_type(logits))


def _curvature(logits: torch.Tensor, target: np.ndarray, blank: int) -> torch.Tensor:
    """Return the second derivatives (T, C, T, C) of one utterance's loss.

    They are taken by its logits (T, C) float64.
    """
    frames, classes = logits.shape
    if not frames:
        return logits.new_zeros((0, classes, 0, classes))
    log_probs = logits.log_softmax(1)
    size = frames * classes

    def rows(count: int) -> tuple[torch.Tensor, lattice.Topology, None]:
        ids = np.broadcast_to(target, (count, len(target)))
        return (
            log_probs.expand(count, frames, classes),
            lattice.ctc_padded(ids, np.full(count, len(target)), blank),
            None,
        )

    occupied = kernels.occupancy(*rows(1))
    if not occupied.scores[0] > -torch.inf and not occupied.scores[0].isnan():
        return logits.new_zeros((frames, classes, frames, classes))
    softmax = log_probs.exp()
    result = torch.diag_embed(softmax) - softmax[:, :, None] * softmax[:, None, :]
    result = torch.einsum(
        "tcd,tu->tcud", result, torch.eye(frames, dtype=logits.dtype, device=logits.device)
    ).reshape(size, size)
    # A posterior of 0 does not change.
    places = occupied.posteriors.reshape(-1).nonzero()[:, 0]
    for some in places.split(max(1, UNITS_CELLS // size)):
        units = torch.nn.functional.one_hot(some, size).double().view(len(some), frames, classes)
        tangents, _ = kernels.tangent(*rows(len(some)), units)
        result[some] -= tangents.reshape(len(some), size)
    return ((result + result.T) / 2).view(frames, classes, frames, classes)


def _frame_counts(input_lengths: torch.Tensor, batch: int, frames: int) -> torch.Tensor:
    return torch.from_numpy(arguments.frame_counts(input_lengths, batch, frames))


def _finite(values: torch.Tensor, name: str) -> torch.Tensor:
    if not values.isfinite().all():
        raise KernelError(
            f"{name}: expected finite numbers {tuple(values.shape)}, got"
            f" {int((~values.isfinite()).sum())} that are not"
        )
    return values.clone()


total = define("total", f"(Tensor log_probs, {PROBLEM}) -> Tensor", _total, fake_total, 1)
sums = define(
    "sums",
    f"(Tensor log_probs, {PROBLEM}) -> (Tensor, Tensor)",
    _sums,
    lambda log_probs, *_: (fake_total(log_probs), fake_posteriors(log_probs)),
    1,
)
gradient = define(
    "gradient",
    f"(Tensor log_probs, Tensor upstream, Tensor posteriors, {PROBLEM}) -> Tensor",
    gradient_kernel,
    lambda log_probs, *_: torch.empty_like(log_probs),
    3,
)
scale_ = define(
    "scale_", "(Tensor(a!) posteriors, Tensor upstream) -> ()", scale_kernel, lambda *_: None
)
second = define(
    "second",
    f"(Tensor log_probs, Tensor? upstream, Tensor posteriors, Tensor direction, {PROBLEM}) ->"
    " (Tensor, Tensor)",
    _second,
    _fake_second,
    4,
)
forced_align = define(
    "forced_align",
    "(Tensor log_probs, Tensor targets, Tensor? input_lengths, Tensor? target_lengths, int blank)"
    " -> (Tensor, Tensor)",
    _forced_align,
    _fake_forced_align,
    1,
)
hessian = define("hessian", f"(Tensor logits, {PROBLEM}) -> Tensor", _hessian, _fake_hessian, 1)
frame_counts = define(
    "frame_counts",
    "(Tensor input_lengths, int batch, int frames) -> Tensor",
    _frame_counts,
    lambda input_lengths, batch, frames: torch.empty((batch,), dtype=torch.int64, device="cpu"),
)
finite = define(
    "finite",
    "(Tensor values, str name) -> Tensor",
    _finite,
    lambda values, name: torch.empty_like(values),
)
