"""What PyTorch tests of its own ctc_loss and CTCLoss, asked of ours: what `test_functional` does not ask.

The cases are those of its test/test_nn.py, test/test_autograd.py, common_nn.py, common_modules.py and
common_methods_invocations.py, written anew. And where PyTorch's gradients are wrong: its failing and ours passing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ctc_align import CTCLoss
from ctc_align.functional import ctc_loss

theirs = torch.nn.functional.ctc_loss
INF = float("inf")


def random_log_probs(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


def random_targets(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64, seed: int = 1) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def by_definition(log_probs: torch.Tensor, target: list[int], blank: int) -> float:
    """The loss of one utterance (T, C) in plain probabilities, as in Graves et al. 2006, eq. 6 to 8, in whole rows."""
    probs, extended = log_probs.double().exp().numpy(), [blank]
    for token in target:
        extended += [token, blank]
    row = [probs[0, k] if s < 2 else 0.0 for s, k in enumerate(extended)]
    for frame in probs[1:]:
        row = [
            frame[k]
            * (sum(row[max(s - 1, 0) : s + 1]) + (row[s - 2] if s > 1 and k not in (blank, extended[s - 2]) else 0))
            for s, k in enumerate(extended)
        ]
    return -math.log(sum(row[-2:]))


REDUCED: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "none": lambda losses, tokens: losses,
    "mean": lambda losses, tokens: (losses / tokens).mean(),
    "sum": lambda losses, tokens: losses.sum(),
}


@pytest.mark.parametrize("in_a_row", [False, True], ids=["padded", "in a row"])
@pytest.mark.parametrize(
    ("reduction", "blank", "ids", "lengths"),
    [
        ("none", 0, torch.int32, tuple),
        ("mean", 0, torch.int64, torch.tensor),
        ("sum", 0, torch.int64, tuple),
        ("mean", 14, torch.int32, torch.tensor),
    ],
    ids=["none", "mean", "sum", "mean-blank-14"],
)
def test_the_module_inputs(reduction: str, blank: int, ids: torch.dtype, in_a_row: bool, lengths: Any) -> None:
    log_probs, tokens = random_log_probs(50, 3, 15), (30, 25, 20)
    shape = (sum(tokens),) if in_a_row else (3, 30)
    targets = random_targets(*((0, 14) if blank == 14 else (1, 15)), *shape, dtype=ids)
    rows = targets.split(tokens) if in_a_row else [row[:count] for row, count in zip(targets, tokens)]
    losses = np.array([by_definition(log_probs[:, n], row.tolist(), blank) for n, row in enumerate(rows)])
    given = log_probs, targets, lengths((50, 50, 50)), lengths(tokens)
    met = CTCLoss(blank=blank, reduction=reduction)(*given)
    np.testing.assert_allclose(met, REDUCED[reduction](losses, np.array(tokens)), rtol=1e-5)
    torch.testing.assert_close(met, torch.nn.CTCLoss(blank=blank, reduction=reduction)(*given), rtol=1e-5, atol=1e-5)
    assert torch.equal(met, ctc_loss(*given, blank=blank, reduction=reduction))


def test_long_targets() -> None:
    """1200 tokens of one class, 4000 frames of 3 classes: the loss is in the thousands."""
    leaf = random_log_probs(4000, 1, 3, dtype=torch.float64).requires_grad_()
    rest = random_targets(1, 2, 1, 1200), [4000], [1200]
    ours, right = (function(leaf, *rest, reduction="sum", zero_infinity=True) for function in (ctc_loss, theirs))
    torch.testing.assert_close(ours, right, rtol=1e-11, atol=0)
    # Theirs is the gradient behind log_softmax; so is ours, less what log_softmax takes of a gradient that sums to 1.
    mine, other = torch.autograd.grad(ours, leaf)[0], torch.autograd.grad(right, leaf)[0]
    torch.testing.assert_close(mine + leaf.detach().exp(), other, rtol=0, atol=1e-9)


# Known values: TensorFlow's, which gtn, wav2letter, Keras and torchaudio's tests share. Blank is the last of 6 classes.
FIXTURES = [
    (
        *([0, 1, 2, 1, 0], 3.34211, [0, 1, 2, 1, 0]),
        [
            [0.633766, 0.221185, 0.0917319, 0.0129757, 0.0142857, 0.0260553],
            [0.111121, 0.588392, 0.278779, 0.0055756, 0.00569609, 0.010436],
            [0.0357786, 0.633813, 0.321418, 0.00249248, 0.00272882, 0.0037688],
            [0.0663296, 0.643849, 0.280111, 0.00283995, 0.0035545, 0.00331533],
            [0.458235, 0.396634, 0.123377, 0.00648837, 0.00903441, 0.00623107],
        ],
    ),
    (
        *([0, 1, 1, 0], 5.42262, [0, 1, 5, 1, 0]),
        [
            [0.30176, 0.28562, 0.0831517, 0.0862751, 0.0816851, 0.161508],
            [0.24082, 0.397533, 0.0557226, 0.0546814, 0.0557528, 0.19549],
            [0.230246, 0.450868, 0.0389607, 0.038309, 0.0391602, 0.202456],
            [0.280884, 0.429522, 0.0326593, 0.0339046, 0.0326856, 0.190345],
            [0.423286, 0.315517, 0.0338439, 0.0393744, 0.0339315, 0.154046],
        ],
    ),
]
"""Targets, losses, the labels of the only path that fits, and probabilities."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("target", "loss", "labels", "probs"), FIXTURES, ids=["3.34211", "5.42262"])
def test_known_values(target: list[int], loss: float, labels: list[int], probs: Any, dtype: torch.dtype) -> None:
    logits = torch.tensor(probs, dtype=dtype).log().requires_grad_()
    met = ctc_loss(logits.log_softmax(1), torch.tensor(target), [5], [len(target)], blank=5, reduction="sum")
    assert met.item() == pytest.approx(loss, abs=6e-6)
    met.backward()
    right = torch.tensor(probs, dtype=dtype) - torch.nn.functional.one_hot(torch.tensor(labels), 6)
    torch.testing.assert_close(logits.grad, right, rtol=0, atol=2e-6)


def test_known_values_by_counting() -> None:
    """gtn's other two: one path that is certain, and five of eight equal ones."""
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]).log()
    assert ctc_loss(certain, torch.tensor([0, 0]), [3], [2], blank=1, reduction="sum") == 0
    uniform = torch.full((3, 4), 0.25).log()
    met = ctc_loss(uniform, torch.tensor([1, 2]), [3], [2], blank=3, reduction="sum")
    assert met.item() == pytest.approx(-math.log(5 / 4**3), rel=1e-6)


# Where PyTorch is wrong.


def gradient_is_right(loss: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> bool:
    """By finite differences."""
    return torch.autograd.gradcheck(loss, x.detach().clone().requires_grad_(), raise_exception=False)


WRONG: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # https://github.com/pytorch/pytorch/issues/52241
    "by log-probs": lambda x: x,
    # https://github.com/pytorch/pytorch/issues/122243
    "behind priors": lambda x: x.log_softmax(2) - 0.3 * torch.tensor([0.9, 0.05, 0.05], dtype=torch.float64).log(),
    "behind a bonus for one class": lambda x: x.log_softmax(2) + torch.tensor([0.0, 0.0, 1.0]),
    "at another temperature": lambda x: 0.5 * x.log_softmax(2),
}


@pytest.mark.parametrize("before", WRONG)
def test_scores_that_are_not_normalised(before: str) -> None:
    x = torch.randn(5, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rest = torch.tensor([[1, 2], [1, 1]]), [5, 4], [2, 2]
    for reduction in ("mean", "sum"):
        assert gradient_is_right(lambda x: ctc_loss(WRONG[before](x), *rest, reduction=reduction), x)  # noqa: B023
        assert not gradient_is_right(lambda x: theirs(WRONG[before](x), *rest, reduction=reduction), x)  # noqa: B023
    assert gradient_is_right(lambda x: theirs(x.log_softmax(2), *rest), x), "where PyTorch's is right"


def test_one_token_in_three_normalised_frames() -> None:
    """https://github.com/pytorch/pytorch/issues/181534: normalised, and still not right by the log-probs themselves."""
    x = random_log_probs(3, 1, 3, seed=123).double()
    rest = torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1])
    assert gradient_is_right(lambda x: CTCLoss(blank=0)(x, *rest), x)
    assert not gradient_is_right(lambda x: torch.nn.CTCLoss(blank=0)(x, *rest), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_impossible_log_probs(dtype: torch.dtype) -> None:
    """A class that cannot be, in one frame, by a logit of -inf: PyTorch's gradient is NaN, ours that of the others."""
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
    """At such scales one path is all: the loss is the distance from the best label to the path's, in every frame."""
    logits = (scale * torch.tensor([[[3.0, 1, 2]], [[1, 0, 4]], [[0, 2, 1]]], dtype=dtype)).requires_grad_()
    loss = ctc_loss(logits.log_softmax(2), torch.tensor([[1, 2]]), [3], [2], reduction="sum")
    # Blank 1 2: 0 + 3 + 1; 1 2 blank: 2 + 0 + 2; 1 2 2: 2 + 0 + 1, the best; 1 1 2: 2 + 4 + 1; 1 blank 2: 2 + 3 + 1.
    assert loss.item() == pytest.approx(3 * scale, rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    right = torch.nn.functional.one_hot(torch.tensor([[0], [2], [1]]), 3) - torch.nn.functional.one_hot(
        torch.tensor([[1], [2], [2]]), 3
    )
    torch.testing.assert_close(gradient.detach(), right.to(dtype))
    (second,) = torch.autograd.grad((gradient * torch.randn_like(gradient)).sum(), logits)
    assert (second == 0).all()
