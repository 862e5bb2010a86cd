"""The loss against PyTorch's: every calling form, values, gradients; and what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import target

from ctc_align import CTCLoss, kernels, lattice, losses
from ctc_align.errors import CtcAlignError, KernelError
from ctc_align.functional import ctc_loss, forced_align, occupancy, simple_ctc_loss

theirs = torch.nn.functional.ctc_loss
INF, NAN = float("inf"), float("nan")


def problem(seed: int, blank: int, *, fits: bool = True, classes: int = 6) -> dict[str, Any]:
    """Logits (T, N, C) float64, rows of ids, lengths; one target is empty, and two too long unless
    `fits`."""
    rng = np.random.default_rng(seed)
    rows = [target(rng, tokens, classes, blank) for tokens in (7, 0, 3, 5, 9, 1)]
    frames = [20, 12, 17, 9 if fits else 4, 18, 20 if fits else 0]
    logits = torch.as_tensor(rng.normal(size=(20, len(rows), classes)) * 3)
    return {
        "logits": logits,
        "rows": rows,
        "frames": frames,
        "tokens": [len(row) for row in rows],
        "blank": blank,
    }


def padded(rows: list[list[int]], padding: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [padding] * (width - len(row)) for row in rows], dtype=dtype)


PAIRS = [
    (blank, reduction, number % 2 == 1)
    for number, (blank, reduction) in enumerate(
        itertools.product((0, 2, 5), ("none", "mean", "sum"))
    )
]
"""Blanks and reductions, each with each, and with each whether what is infinite counts as zero."""
FORMS: dict[str, Callable[[dict[str, Any]], tuple[Any, Any, Any]]] = {
    "padded, lists": lambda p: (padded(p["rows"], p["rows"][0][0]), p["frames"], p["tokens"]),
    "wider than the longest": lambda p: (
        torch.nn.functional.pad(padded(p["rows"], 1), (0, 3), value=1),
        p["frames"],
        p["tokens"],
    ),
    "padded, int32, tuples": lambda p: (
        padded(p["rows"], p["rows"][0][0], torch.int32),
        tuple(p["frames"]),
        tuple(p["tokens"]),
    ),
    "in a row, tensors": lambda p: (
        torch.tensor(list(itertools.chain(*p["rows"]))),
        torch.tensor(p["frames"]),
        torch.tensor(p["tokens"]),
    ),
    "in a row, all int32": lambda p: (
        torch.tensor(list(itertools.chain(*p["rows"])), dtype=torch.int32),
        torch.tensor(p["frames"], dtype=torch.int32),
        torch.tensor(p["tokens"], dtype=torch.int32),
    ),
    "floats that are whole, lengths (1, N)": lambda p: (
        padded(p["rows"], 1).float(),
        torch.tensor([p["frames"]]),
        torch.tensor([p["tokens"]]),
    ),
}


@pytest.mark.parametrize(("blank", "reduction", "zero_infinity"), PAIRS)
@pytest.mark.parametrize("form", FORMS)
def test_every_calling_form_of_pytorchs(
    form: str, blank: int, reduction: str, zero_infinity: bool
) -> None:
    for seed, fits in ((1, True), (2, False)):
        made = problem(seed, blank, fits=fits)
        log_probs = made["logits"].log_softmax(2)
        rest, options = (
            FORMS[form](made),
            {"blank": blank, "reduction": reduction, "zero_infinity": zero_infinity},
        )
        right = theirs(log_probs, *rest, **options)
        torch.testing.assert_close(
            ctc_loss(log_probs, *rest, **options), right, rtol=1e-10, atol=1e-10
        )
        met = ctc_loss(log_probs.float(), *rest, **options)
        torch.testing.assert_close(met, right.float(), rtol=1e-5, atol=1e-6)
        assert bool(right.isinf().any()) == (not fits and not zero_infinity)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "targets", [torch.tensor([1, 1, 4]), torch.tensor([[1, 1, 4]])], ids=["1-D", "2-D"]
)
@pytest.mark.parametrize(
    "length", [torch.tensor, lambda n: torch.tensor([n]), lambda n: [n]], ids=["()", "(1,)", "list"]
)
def test_one_utterance(length: Callable[[int], Any], targets: torch.Tensor, reduction: str) -> None:
    logits = problem(1, 0)["logits"][:, 0].requires_grad_()
    rest = targets, length(17), length(3)
    right = theirs(logits.log_softmax(1), *rest, reduction=reduction)
    met = ctc_loss(logits.log_softmax(1), *rest, reduction=reduction)
    assert met.shape == ()
    torch.testing.assert_close(met, right, rtol=1e-10, atol=0)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, logits)[0] for loss in (met, right)), rtol=0, atol=1e-10
    )


def test_no_tokens_at_all() -> None:
    log_probs = problem(1, 0)["logits"].log_softmax(2)
    for targets in (torch.zeros(0, dtype=torch.long), torch.zeros(6, 0, dtype=torch.long)):
        rest = targets, [20] * 6, [0] * 6
        torch.testing.assert_close(ctc_loss(log_probs, *rest), theirs(log_probs, *rest))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 2, 5])
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float64, 1e-10), (torch.float32, 2e-6)], ids=["f64", "f32"]
)
def test_gradient_behind_log_softmax_equals_pytorchs(
    dtype: torch.dtype, atol: float, blank: int, reduction: str
) -> None:
    for seed, fits in ((1, True), (2, False)):
        made = problem(seed, blank, fits=fits)
        weights = torch.linspace(-1, 2, 6, dtype=torch.float64)
        rest = FORMS["in a row, tensors"](made)

        def gradient(loss: Callable[..., torch.Tensor], kind: torch.dtype) -> torch.Tensor:
            leaf = made["logits"].to(kind).requires_grad_()  # noqa: B023
            options = {
                "blank": blank,
                "reduction": reduction,
                "zero_infinity": not fits,  # noqa: B023
            }
            result = loss(leaf.log_softmax(2), *rest, **options)  # noqa: B023
            (result * weights.to(kind) if reduction == "none" else result).sum().backward()  # noqa: B023
            return leaf.grad

        torch.testing.assert_close(
            gradient(ctc_loss, dtype).double(), gradient(theirs, torch.float64), rtol=0, atol=atol
        )


def test_the_mean_with_a_target_that_does_not_fit_has_gradients_of_the_others() -> None:
    made = problem(2, 0, fits=False)
    leaf = made["logits"].log_softmax(2).requires_grad_()
    loss = ctc_loss(leaf, *FORMS["padded, lists"](made))
    assert loss == INF
    loss.backward()
    assert leaf.grad.isfinite().all()
    assert (leaf.grad[:, [3, 5]] == 0).all()
    torch.testing.assert_close(
        leaf.grad[:, 4].sum(), torch.tensor(-18 / 9 / 6, dtype=torch.float64)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_sums_beyond_its_range(dtype: torch.dtype) -> None:
    """The loss is above 65504, the most of float16."""
    x = (
        (torch.randn(4000, 1, 3, generator=torch.Generator().manual_seed(0)) - 30)
        .to(dtype)
        .requires_grad_()
    )
    loss = ctc_loss(x, torch.tensor([[1, 2]]), [4000], [2], reduction="sum")
    loss.backward()
    assert 65504 < loss.item() < 200_000
    assert (loss.dtype, x.grad.dtype) == (torch.float32, dtype)
    assert float(x.grad.float().sum()) == pytest.approx(-4000, rel=1e-2)


def test_the_gradient_is_made_with_the_loss_and_only_where_it_is_wanted(monkeypatch) -> None:
    made = problem(5, 0)
    rest = FORMS["padded, lists"](made)
    leaf = made["logits"].log_softmax(2).requires_grad_()
    loss = ctc_loss(leaf, *rest)
    called: list[str] = []
    for name in ("forward", "occupancy"):
        real = getattr(kernels, name)
        monkeypatch.setattr(
            kernels, name, lambda *a, _n=name, _r=real, **k: called.append(_n) or _r(*a, **k)
        )
    loss.backward(retain_graph=True)
    assert called == [], "backward runs no kernel"
    with torch.no_grad():
        assert torch.equal(ctc_loss(leaf, *rest), loss)
    assert torch.equal(ctc_loss(leaf.detach(), *rest), loss)
    assert called == ["forward", "forward"]
    ctc_loss(leaf, *rest).backward()
    assert called == ["forward", "forward", "occupancy"]


def test_targets_and_lengths_of_any_kind() -> None:
    """Lists, tuples, arrays and tensors, and rows of different lengths."""
    x = torch.randn(9, 3, 5, generator=torch.Generator().manual_seed(0))
    ids, frames, tokens = (
        torch.tensor([[1, 2, 2], [3, 4, 0], [1, 0, 0]]),
        torch.tensor([9, 8, 6]),
        [3, 2, 1],
    )
    ragged = [row[:count] for row, count in zip(ids.tolist(), tokens)]
    kinds = [
        ids.tolist(),
        tuple(map(tuple, ragged)),
        ids.numpy(),
        ragged,
        list(map(torch.tensor, ragged)),
    ]
    for n, targets in enumerate(
        [*kinds, list(map(np.array, ragged)), [token for row in ragged for token in row]]
    ):
        kind = (list, tuple, np.array)[n % 3]
        lengths = kind(frames.tolist()), kind(tokens)
        for call in (ctc_loss, occupancy, losses.focal_ctc_loss, losses.alignment_entropy):
            assert torch.equal(
                call(x, targets, *lengths), call(x, ids, frames, torch.tensor(tokens))
            )
    best = forced_align(x.transpose(0, 1), ids, frames, torch.tensor(tokens))
    for targets in kinds:
        given = (
            frames.tolist(),
            None if len(targets[1]) == 2 else tokens,
        )  # each row has its own length
        assert all(map(torch.equal, forced_align(x.transpose(0, 1), targets, *given), best))
    assert lattice.ctc_padded(ids.tolist(), tokens).states.tolist() == [7, 5, 3]


def test_memory_layout_does_not_matter() -> None:
    made = problem(6, 0)
    rest = FORMS["padded, lists"](made)
    log_probs = made["logits"].log_softmax(2)
    losses, gradients = [], []
    for view in (
        log_probs,
        log_probs.transpose(0, 1).contiguous().transpose(0, 1),
        log_probs.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        torch.stack((log_probs, log_probs), 3)[..., 0],
    ):
        leaf = view.detach().requires_grad_()
        loss = ctc_loss(leaf, *rest)
        loss.backward()
        losses.append(loss.detach())
        gradients.append(leaf.grad)
    assert all(
        torch.equal(losses[0], loss) and torch.equal(gradients[0], g)
        for loss, g in zip(losses, gradients)
    )


LOG_PROBS = torch.zeros(4, 2, 3)


def label_prior_ctc_loss(*given: Any, **options: Any) -> torch.Tensor:
    return losses.label_prior_ctc_loss(*given, log_prior=torch.zeros(3), **options)


OTHER_LOSSES = [
    getattr(losses, name)
    for name in losses.__all__
    if "_" in name and name != "label_prior_ctc_loss"
]
OTHER_LOSSES.append(label_prior_ctc_loss)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"log_probs": LOG_PROBS.long()},
            "log_probs: expected a floating-point tensor (T, N, C) or (T, C), got torch.i",
        ),
        ({"log_probs": [[0.0]]}, "got list"),
        ({"log_probs": LOG_PROBS[None]}, "got shape (1, 4, 2, 3)"),
        ({"log_probs": LOG_PROBS[..., :0]}, "with at least one class"),
        ({"log_probs": LOG_PROBS[:, :0]}, "expected at least one utterance"),
        (
            {"targets": torch.tensor([1, 2, 1])},
            "targets: expected (2, S), or (4,) as target_lengths add up to, got (3,)",
        ),
        ({"targets": torch.tensor([[1, 2]])}, "targets: expected (2, S), or (4,)"),
        (
            {"targets": torch.tensor([[1.5, 2], [1, 2]])},
            "targets: expected whole numbers, got torch.float32",
        ),
        ({"targets": "ab"}, "targets: expected token ids, a tensor, an array or a list, got str"),
        (
            {"targets": [[1], [[2]]]},
            "targets: expected token ids, one row for each utterance, got rows in rows",
        ),
        (
            {"input_lengths": None},
            "input_lengths: expected whole numbers, a tensor, an array or a list, got NoneType",
        ),
        (
            {"targets": torch.tensor([[1, 2], [1, 3]])},
            "target 1: token 1 is 3; log_probs has the classes 0 to 2",
        ),
        ({"targets": torch.tensor([[1, 2], [-1, 1]])}, "target 1: token 0 is -1; log_probs has"),
        ({"targets": torch.tensor([[1, 2], [-9, 1]])}, "target 1: token 0 (-9) is negative"),
        ({"targets": torch.tensor([[1, 2], [1, 0]])}, "target 1: token 1 (0) is the blank"),
        (
            {"input_lengths": [4]},
            "input_lengths: expected 2 whole numbers, got int64 of shape (1,)",
        ),
        ({"input_lengths": [4, 4.0]}, "input_lengths: expected 2 whole numbers, got float64"),
        ({"input_lengths": [4, 5]}, "input_lengths: utterance 1 has 5 frames, expected 0 to 4"),
        ({"input_lengths": [-1, 4]}, "input_lengths: utterance 0 has -1 frames"),
        ({"target_lengths": torch.tensor([2, 3])}, "expected 0 to 2, got [2, 3]"),
        ({"target_lengths": [2, -2]}, "expected 0 to 2, got [2, -2]"),
        ({"target_lengths": [True, True]}, "target_lengths: expected 2 whole numbers, got bool"),
        (
            {"log_probs": LOG_PROBS.transpose(0, 1)},
            "4 utterances of 2 frames: are their first axes swapped?",
        ),
        ({"blank": 3}, "blank: expected a class from 0 to 2, got 3"),
        ({"blank": -1}, "blank: expected a class from 0 to 2, got -1"),
    ],
)
@pytest.mark.parametrize(
    "function", [ctc_loss, simple_ctc_loss, occupancy, *OTHER_LOSSES], ids=lambda one: one.__name__
)
def test_wrong_arguments(
    function: Callable[..., torch.Tensor], change: dict[str, Any], said: str
) -> None:
    arguments = {
        "log_probs": LOG_PROBS,
        "targets": torch.tensor([[1, 2], [1, 2]]),
        "input_lengths": [4, 4],
        "target_lengths": [2, 2],
    }
    assert function(**arguments).isfinite().all()
    with pytest.raises(KernelError) as error:
        function(**(arguments | change))
    assert said in str(error.value)
    assert all(isinstance(error.value, kind) for kind in (ValueError, RuntimeError, CtcAlignError))


# Where PyTorch's loss is wrong, by issues that people reported: its gradient fails, and ours
# passes.


def random_log_probs(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> torch.Tensor:
    return torch.randn(
        shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)
    ).log_softmax(-1)


def gradient_is_right(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> bool:
    """By finite differences."""
    return torch.autograd.gradcheck(
        loss, x.detach().clone().requires_grad_(), raise_exception=False
    )


WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # https://github.com/pytorch/pytorch/issues/52241
    "by log-probs": lambda x: x,
    # https://github.com/pytorch/pytorch/issues/122243
    "behind priors": lambda x: (
        x.log_softmax(2) - 0.3 * torch.tensor([0.9, 0.05, 0.05], dtype=torch.float64).log()
    ),
    "behind a bonus for one class": lambda x: x.log_softmax(2) + torch.tensor([0.0, 0.0, 1.0]),
    "at another temperature": lambda x: 0.5 * x.log_softmax(2),
}


@pytest.mark.parametrize("before", WRONG)
def test_scores_that_are_not_normalised(before: str) -> None:
    x = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rest = torch.tensor([[1, 2], [1, 1]]), [5, 4], [2, 2]
    for reduction in ("mean", "sum"):
        assert gradient_is_right(
            lambda x: ctc_loss(WRONG[before](x), *rest, reduction=reduction),  # noqa: B023
            x,
        )
        assert not gradient_is_right(
            lambda x: theirs(WRONG[before](x), *rest, reduction=reduction),  # noqa: B023
            x,
        )
    assert gradient_is_right(lambda x: theirs(x.log_softmax(2), *rest), x), (
        "where PyTorch's is right"
    )


def test_one_token_in_three_normalised_frames() -> None:
    """https://github.com/pytorch/pytorch/issues/181534: normalised, and still not right by the
    log-probs themselves."""
    x = random_log_probs(3, 1, 3, seed=123).double()
    rest = torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1])
    assert gradient_is_right(lambda x: CTCLoss(blank=0)(x, *rest), x)
    assert not gradient_is_right(lambda x: torch.nn.CTCLoss(blank=0)(x, *rest), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_impossible_log_probs(dtype: torch.dtype) -> None:
    """A class that cannot be, in one frame, by a logit of -inf: PyTorch's gradient is NaN, ours
    that of the others."""
    logits = torch.randn(5, 1, 3, dtype=dtype, generator=torch.Generator().manual_seed(0))
    logits[0, 0, 2] = -INF
    rest = torch.tensor([[1, 2]]), [5], [2]

    def gradient(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        leaf = logits.clone().requires_grad_()
        function(leaf.log_softmax(2), *rest).backward()
        return leaf.grad

    assert gradient(theirs).isnan().any()
    met = gradient(ctc_loss)
    low = torch.where(logits == -INF, -100.0, logits).requires_grad_()
    theirs(low.log_softmax(2), *rest).backward()
    torch.testing.assert_close(met, low.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e10, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_logits_of_any_size(dtype: torch.dtype, scale: float) -> None:
    """At such scales one path is all: the loss is the distance from the best label to the path's,
    in every frame."""
    logits = (
        scale * torch.tensor([[[3.0, 1, 2]], [[1, 0, 4]], [[0, 2, 1]]], dtype=dtype)
    ).requires_grad_()
    loss = ctc_loss(logits.log_softmax(2), torch.tensor([[1, 2]]), [3], [2], reduction="sum")
    # Blank 1 2: 0 + 3 + 1; 1 2 blank: 2 + 0 + 2; 1 2 2: 2 + 0 + 1, the best; 1 1 2: 2 + 4 + 1; 1
    # blank 2: 2 + 3 + 1.
    assert loss.item() == pytest.approx(3 * scale, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    right = torch.nn.functional.one_hot(
        torch.tensor([[0], [2], [1]]), 3
    ) - torch.nn.functional.one_hot(torch.tensor([[1], [2], [2]]), 3)
    torch.testing.assert_close(gradient.detach(), right.to(dtype))
    (second,) = torch.autograd.grad((gradient * torch.randn_like(gradient)).sum(), logits)
    assert (second == 0).all()
