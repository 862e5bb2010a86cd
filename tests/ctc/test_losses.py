"""Losses made of CTC: their formulas over enumerated paths, their gradients by finite differences,
what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from kernel_problems import target
from oracles import Answer, ctc_paths, enumerate_all, simple_ctc_paths

import ctc_align
from ctc_align import functional, losses
from ctc_align.errors import CtcAlignError, KernelError
from ctc_align.functional import ctc_loss, hessian, occupancy, simple_ctc_loss

INF, NAN = float("inf"), float("nan")
LOG_PRIOR = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()
Loss = Callable[..., torch.Tensor]


def reweighted(*given: Any, **options: Any) -> torch.Tensor:
    return losses.reweighted_ctc_loss(
        *given, class_weights=torch.tensor([0.5, 1.0, 2.0]), focus=0.5, **options
    )


def label_prior(*given: Any, **options: Any) -> torch.Tensor:
    return losses.label_prior_ctc_loss(*given, log_prior=LOG_PRIOR, **options)


def focal_below_one(*given: Any, **options: Any) -> torch.Tensor:
    return losses.focal_ctc_loss(*given, alpha=0.5, gamma=0.5, **options)


LOSSES: dict[str, Loss] = {
    "module": lambda *given, **options: ctc_align.CTCLoss(**options)(*given),
    "simple": simple_ctc_loss,
    "soft targets": losses.soft_target_cross_entropy,
    "reweighted": reweighted,
    "focal": losses.focal_ctc_loss,
    "focal below one": focal_below_one,
    "label-smoothed": losses.label_smoothed_ctc_loss,
    "label prior": label_prior,
    "entropy": losses.alignment_entropy,
}
FUNCTIONS = ("ctc_loss", "simple_ctc_loss", *(name for name in losses.__all__ if "_" in name))
CONSTANT_TARGETS = ("soft targets", "reweighted")
"""What is differentiated as if the soft targets did not depend on the network."""


def ragged(
    seed: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """Logits (6, 4, 3) and the rest: repeats, an empty target, one that does not fit, several
    lengths, odd padding."""
    logits = torch.as_tensor(np.random.default_rng(seed).normal(size=(6, 4, 3)) * 2, dtype=dtype)
    return logits, (
        torch.tensor([[1, 2, 2], [0, -7, 9], [2, 2, 2], [1, -1, 9]]),
        [6, 5, 2, 3],
        [3, 0, 3, 1],
    )


def each_alone(loss: Loss, log_probs: torch.Tensor, rest: tuple[Any, ...]) -> list[torch.Tensor]:
    rows, frames, tokens = rest
    return [
        loss(log_probs[:count, n], rows[n, :size], [count], [size], reduction="sum")
        for n, (count, size) in enumerate(zip(frames, tokens))
    ]


def tiny(count: int) -> list[tuple[torch.Tensor, list[int], int, Answer]]:
    """Normalised log-probs (T, 3), a target that fits, the blank, and what enumeration says."""
    rng, made = np.random.default_rng(5), []
    while len(made) < count:
        blank, frames = len(made) % 3, int(rng.integers(1, 6))
        row = target(rng, int(rng.integers(0, 4)), 3, blank)
        log_probs = torch.as_tensor(rng.normal(size=(frames, 3)) * 2).log_softmax(1)
        answer = enumerate_all(log_probs.numpy(), ctc_paths(frames, 3, row, blank))
        if answer.path is not None:
            made.append((log_probs, row, blank, answer))
    return made


def over_frames(
    answer: Answer, log_probs: torch.Tensor, weight: Callable[[int, int], float]
) -> float:
    """-sum of weight x soft target x log-prob."""
    return -math.fsum(
        weight(t, k) * answer.occupancy[t, k] * float(log_probs[t, k])
        for t in range(len(log_probs))
        for k in range(log_probs.shape[1])
    )


def entropy_of_paths(log_probs: torch.Tensor, row: list[int], blank: int, total: float) -> float:
    paths = ctc_paths(len(log_probs), 3, row, blank)
    scored = [sum(float(log_probs[t, k]) for t, k in enumerate(labels)) for _, labels in paths]
    return -math.fsum(math.exp(score - total) * (score - total) for score in scored)


def by_hand(
    name: str, log_probs: torch.Tensor, row: list[int], blank: int, answer: Answer
) -> float:
    """The formulas, over enumerated paths and in loops."""
    ctc, frames = -answer.total, range(len(log_probs))
    if name == "simple":
        return -enumerate_all(
            log_probs.numpy(), simple_ctc_paths(len(log_probs), 3, row, blank)
        ).total
    if name == "soft targets":
        return over_frames(answer, log_probs, lambda t, k: 1.0)
    if name == "reweighted":
        probs = log_probs.exp().numpy()
        far = [math.sqrt(max(answer.occupancy[t] - probs[t])) for t in frames]
        return over_frames(
            answer, log_probs, lambda t, k: (0.5, 1.0, 2.0)[k] * far[t] * len(far) / sum(far)
        )
    if name.startswith("focal"):
        alpha, gamma = (0.5, 0.5) if name.endswith("one") else (1.0, 2.0)
        return alpha * (1 - math.exp(-ctc)) ** gamma * ctc
    if name == "label-smoothed":
        uniform = torch.full_like(log_probs, 1 / 3)
        return 0.9 * ctc + 0.1 * float(
            torch.nn.functional.kl_div(log_probs, uniform, reduction="sum")
        )
    if name == "label prior":
        divided = log_probs.exp().numpy() / np.array([0.7, 0.2, 0.1]) ** 0.3
        return -enumerate_all(np.log(divided), ctc_paths(len(divided), 3, row, blank)).total
    return entropy_of_paths(log_probs, row, blank, answer.total) if name == "entropy" else ctc


@pytest.mark.parametrize("name", LOSSES)
def test_the_formula_over_enumerated_paths(name: str) -> None:
    for log_probs, row, blank, answer in tiny(60):
        given = torch.tensor(row, dtype=torch.int64), [len(log_probs)], [len(row)]
        right = by_hand(name, log_probs, row, blank, answer)
        for x, most in ((log_probs, 1e-11), (log_probs.float(), 2e-5)):
            met = LOSSES[name](x, *given, blank=blank, reduction="sum")
            assert met.item() == pytest.approx(right, abs=most)


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_by_finite_differences(name: str) -> None:
    """Of the formula as it stands: where soft targets are constants, they are held."""
    logits, rest = ragged()

    def call(x: torch.Tensor) -> torch.Tensor:
        return LOSSES[name](x.log_softmax(2), *rest, reduction="none")[[0, 1, 3]]

    if name not in CONSTANT_TARGETS:
        assert torch.autograd.gradcheck(call, logits.requires_grad_())
        return
    held = occupancy(logits.log_softmax(2), *rest)
    probs, frames = logits.softmax(2), torch.tensor(rest[1])
    weights = torch.ones_like(held)
    if name == "reweighted":
        far = (held - probs).amax(2, keepdim=True).clamp(min=0).sqrt()
        far *= (torch.arange(6)[:, None] < frames)[:, :, None]
        weights = (far * frames[:, None] / far.sum(0, keepdim=True)).nan_to_num() * torch.tensor(
            [0.5, 1, 2]
        )

    def as_if_constant(x: torch.Tensor) -> torch.Tensor:
        return -(weights * held * x.log_softmax(2)).sum((0, 2))[[0, 1, 3]]

    leaf, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    up = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    (call(leaf) * up).sum().backward()
    (as_if_constant(other) * up).sum().backward()
    torch.testing.assert_close(leaf.grad, other.grad, rtol=0, atol=1e-12)
    assert torch.autograd.gradcheck(as_if_constant, other), "and so finite differences have it"
    assert not torch.autograd.gradcheck(call, leaf, raise_exception=False), "which hold nothing"


def test_cross_entropy_to_soft_targets_has_the_gradient_of_ctc() -> None:
    """To the bit by the log-probs; its value has the entropy of the alignment more."""
    for dtype in (torch.float32, torch.float64):
        logits, rest = ragged(1, dtype)
        for reduction in ("none", "mean", "sum"):
            leaves = [logits.log_softmax(2).requires_grad_() for _ in range(2)]
            values = []
            for loss, leaf in zip((ctc_loss, losses.soft_target_cross_entropy), leaves):
                values.append(loss(leaf, *rest, reduction=reduction, zero_infinity=True))
                values[-1].sum().backward()
            assert torch.equal(leaves[0].grad, leaves[1].grad)
            assert leaves[0].grad.abs().sum() > 0
            entropy = losses.alignment_entropy(logits.log_softmax(2), *rest, reduction=reduction)
            torch.testing.assert_close(values[1] - values[0], entropy, rtol=1e-4, atol=1e-5)


def test_without_weights_reweighted_ctc_has_the_gradient_of_ctc() -> None:
    logits, rest = ragged(2)
    gradients = []
    for loss in (ctc_loss, losses.reweighted_ctc_loss):
        leaf = logits.log_softmax(2).requires_grad_()
        loss(leaf, *rest, reduction="sum").backward()
        gradients.append(leaf.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_every_calling_form(name: str, reduction: str) -> None:
    logits, (rows, frames, tokens) = ragged(3)
    log_probs = logits.log_softmax(2)
    alone = torch.stack(each_alone(LOSSES[name], log_probs, (rows, frames, tokens)))
    per_token = alone / torch.tensor(tokens).clamp(min=1)
    right = {"none": alone, "mean": per_token.mean(), "sum": alone.sum()}[reduction]
    chained = torch.cat([row[:count] for row, count in zip(rows, tokens)])
    for given in (
        (rows, frames, tokens),
        (chained.int(), torch.tensor(frames), torch.tensor(tokens)),
    ):
        torch.testing.assert_close(
            LOSSES[name](log_probs, *given, reduction=reduction), right, rtol=1e-13, atol=1e-13
        )
    one = LOSSES[name](
        log_probs[:, 0], rows[0], torch.tensor(6), torch.tensor(3), reduction=reduction
    )
    assert one.shape == ()


@pytest.mark.parametrize("name", LOSSES)
def test_what_does_not_fit(name: str) -> None:
    """Loss inf, or 0 where infinities count so, and its gradient is 0 whatever comes from above;
    entropy 0."""
    logits, rest = ragged(4)
    alone = LOSSES[name](logits.log_softmax(2), *rest, reduction="none")
    assert alone.isinf().tolist() == [False, False, name != "entropy", False]
    for above in (1.0, INF, NAN):
        leaf = logits.clone().requires_grad_()
        values = LOSSES[name](leaf.log_softmax(2), *rest, reduction="none")
        (values * torch.tensor([1.0, 1.0, above, 1.0])).sum().backward()
        assert (leaf.grad[:, 2] == 0).all()
        assert leaf.grad.isfinite().all()
    if name != "entropy":
        leaf = logits.clone().requires_grad_()
        zeroed = LOSSES[name](leaf.log_softmax(2), *rest, reduction="none", zero_infinity=True)
        torch.testing.assert_close(zeroed, torch.where(alone.isinf(), 0.0, alone))
        zeroed.sum().backward()
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[:, 2] == 0).all()


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
@pytest.mark.parametrize("name", LOSSES)
def test_padding_is_never_read_and_has_no_gradient(name: str, dtype: torch.dtype) -> None:
    logits, rest = ragged(5, dtype)
    log_probs = logits.log_softmax(2)
    clean = LOSSES[name](log_probs, *rest, reduction="none")
    for n, frames in enumerate(rest[1]):
        log_probs[frames:, n] = NAN
    leaf = log_probs.requires_grad_()
    met = LOSSES[name](leaf, *rest, reduction="none")
    assert met.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert torch.equal(met, clean)
    met[[0, 1, 3]].sum().backward()
    assert leaf.grad.dtype == dtype
    assert leaf.grad.isfinite().all()
    for n, frames in enumerate(rest[1]):
        assert (leaf.grad[frames:, n] == 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_log_probs_of_minus_infinity(name: str) -> None:
    """A class that cannot be at a frame, and need not be: no NaN; smoothing towards it costs
    infinitely much."""
    logits, rest = ragged(6)
    logits[1, :, 2] = -INF
    leaf = logits.log_softmax(2).requires_grad_()
    values = LOSSES[name](leaf, *rest, reduction="none")
    assert not values.isnan().any()
    assert values[[0, 1, 3]].isinf().all() == (name == "label-smoothed")
    values.sum().backward()
    assert not leaf.grad.isnan().any()


def test_entropy() -> None:
    """Nothing to choose, nothing certain, and what lies between."""
    uniform, rest = torch.full((4, 1, 3), -math.log(3)), (torch.tensor([[1, 2]]), [4], [2])
    paths = len(list(ctc_paths(4, 3, [1, 2], 0)))
    assert losses.alignment_entropy(uniform, *rest, reduction="sum").exp().item() == pytest.approx(
        paths, rel=1e-5
    )
    certain = torch.tensor([[[0.0, 9, 0]], [[0, 0, 9]], [[0, 0, 9]], [[9, 0, 0]]]) * 100
    assert losses.alignment_entropy(certain, *rest, reduction="sum") == 0
    assert (
        losses.alignment_entropy(certain[:2], torch.tensor([[1, 2]]), [2], [2], reduction="sum")
        == 0
    )
    shifted = losses.alignment_entropy(uniform.double() + 7, *rest)
    torch.testing.assert_close(shifted, losses.alignment_entropy(uniform.double(), *rest))


def test_focal_loss_of_what_is_certain() -> None:
    """p = 1, and scores of more than that: loss and gradient are 0, not NaN, whatever the power."""
    rest = torch.tensor([[1, 2]]), [2], [2]
    for gamma in (0.1, 0.5, 1.0, 2.0):
        for more in (0.0, 3.0):
            scores = torch.tensor([[[-INF, 0.0, -INF]], [[-INF, -INF, 0.0]]]) + more
            leaf = scores.requires_grad_()
            loss = losses.focal_ctc_loss(leaf, *rest, gamma=gamma)
            assert loss == 0
            loss.backward()
            assert leaf.grad.abs().max() < 1e-3
            assert more == 0 or (leaf.grad == 0).all()
    log_probs = ragged()[0].log_softmax(2)
    assert losses.focal_ctc_loss(
        log_probs, *ragged()[1], alpha=3, gamma=0, zero_infinity=True
    ) == pytest.approx(3 * ctc_loss(log_probs, *ragged()[1], zero_infinity=True))


def test_focus_turns_to_the_frames_that_are_not_as_they_should_be() -> None:
    logits, rest = torch.zeros(4, 1, 3), (torch.tensor([[1, 2]]), [4], [2])
    logits[0, 0, 1] = logits[3, 0, 2] = 9
    logits[1:3, 0, 0] = 2
    share = []
    for focus in (0.0, 1.0, 4.0):
        leaf = logits.log_softmax(2).requires_grad_()
        losses.reweighted_ctc_loss(leaf, *rest, reduction="sum", focus=focus).backward()
        by_frame = -leaf.grad.sum((1, 2))
        assert by_frame.sum().item() == pytest.approx(4)
        share.append(float(by_frame[1:3].sum() / 4))
    assert share[0] == pytest.approx(0.5)
    assert share[0] < share[1] < share[2]
    nothing_to_do = torch.tensor([[[-INF, 0.0, -INF]], [[-INF, -INF, 0.0]]])
    assert (
        losses.reweighted_ctc_loss(nothing_to_do, torch.tensor([[1, 2]]), [2], [2], focus=1.0) == 0
    )


def test_a_prior_follows_slowly_and_never_falls_below_its_floor() -> None:
    prior = losses.LabelPrior(3, decay=0.9, floor=0.06)
    certain = torch.tensor([0.0, -math.inf, -math.inf]).expand(4, 2, 3)
    before = torch.full((3,), 1 / 3)
    assert prior.training
    for _ in range(200):
        after = prior(certain, [4, 4]).exp()
        assert (after - before).abs().max() <= 0.1
        assert after.sum().item() == pytest.approx(1, abs=1e-6)
        assert after.min() >= 0.06 / 3 - 1e-7
        before = after
    assert after.tolist() == pytest.approx([0.96, 0.02, 0.02], abs=1e-6)


def test_a_prior_is_the_mean_over_the_frames_that_count() -> None:
    log_probs = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    frames = [5, 2, 0]
    right = torch.cat([log_probs[:count, n] for n, count in enumerate(frames)]).exp().mean(0)
    for n, count in enumerate(frames):
        log_probs[count:, n] = math.nan
    prior = losses.LabelPrior(4, decay=0.0, floor=1e-6)
    torch.testing.assert_close(
        prior(log_probs.requires_grad_(), frames).exp(), right, rtol=1e-5, atol=1e-6
    )
    assert not prior(log_probs, frames).requires_grad
    kept = prior.mean.clone()
    alone = losses.LabelPrior(4, decay=0.0, floor=1e-6)
    torch.testing.assert_close(
        alone(log_probs[:, 0], torch.tensor(5)).exp(),
        log_probs[:, 0].exp().mean(0),
        rtol=1e-5,
        atol=1e-6,
    )
    prior(log_probs, [5, 3, 0])
    assert torch.equal(prior.mean, kept), "a batch of NaN changes nothing"
    prior(log_probs, [0, 0, 0])
    assert torch.equal(prior.mean, kept), "nor does one without frames"
    prior.eval()(log_probs[:, :1], [5])
    assert torch.equal(prior.mean, kept), "nor does any in evaluation"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: losses.LabelPrior(0),
            "expected one class or more, 0 <= decay < 1 and 0 < floor <= 1; got classes 0",
        ),
        (lambda: losses.LabelPrior(2, decay=1.0), "decay 1.0"),
        (lambda: losses.LabelPrior(2, floor=0.0), "floor 0.0"),
        (
            lambda: losses.LabelPrior(2)(torch.zeros(4, 1, 3), [4]),
            "log_probs: expected 2 classes, got shape (4, 1, 3)",
        ),
        (
            lambda: losses.LabelPrior(2)(torch.zeros(4, 1, 2), [5]),
            "input_lengths: utterance 0 has 5 frames",
        ),
        (lambda: losses.LabelPrior(2)([[0.0]], [1]), "log_probs: expected a floating-point tensor"),
    ],
)
def test_priors_that_cannot_be(make: Callable[[], object], said: str) -> None:
    with pytest.raises(KernelError) as error:
        make()
    assert said in str(error.value)


def test_a_prior_is_a_constant() -> None:
    logits, rest = ragged()
    log_prior = LOG_PRIOR.clone().requires_grad_()
    loss = losses.label_prior_ctc_loss(
        logits.requires_grad_().log_softmax(2), *rest, log_prior=log_prior
    )
    loss.backward()
    assert logits.grad is not None
    assert log_prior.grad is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_the_same_on_cuda(name: str, dtype: torch.dtype) -> None:
    logits, rest = ragged(7, dtype)
    values, gradients = [], []
    for device in ("cpu", "cuda"):
        leaf = logits.to(device).requires_grad_()
        values.append(LOSSES[name](leaf.log_softmax(2), *rest, reduction="none"))
        assert values[-1].device.type == device
        values[-1].sum().backward()
        gradients.append(leaf.grad.cpu())
    torch.testing.assert_close(values[1].cpu(), values[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
    log_probs, prior = logits.cuda().log_softmax(2), losses.LabelPrior(3)
    torch.testing.assert_close(
        prior(log_probs, rest[1]), losses.LabelPrior(3)(log_probs.cpu(), rest[1])
    )
    assert prior.cuda()(log_probs, rest[1]).is_cuda
    assert occupancy(log_probs, *rest).is_cuda
    on_cuda = hessian(logits.cuda().transpose(0, 1), *rest)
    assert on_cuda.is_cuda
    torch.testing.assert_close(on_cuda.cpu(), hessian(logits.transpose(0, 1), *rest))


def test_the_module() -> None:
    logits, rest = ragged()
    module = ctc_align.CTCLoss(blank=0, reduction="sum", zero_infinity=True)
    assert repr(module) == "CTCLoss(blank=0, reduction='sum', zero_infinity=True)"
    assert torch.equal(
        module(logits.log_softmax(2), *rest),
        ctc_loss(logits.log_softmax(2), *rest, 0, "sum", zero_infinity=True),
    )
    assert list(module.parameters()) == []
    with pytest.raises(KernelError, match="reduction: expected one of none, mean, sum; got 'max'"):
        ctc_align.CTCLoss(reduction="max")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("focal_ctc_loss", {"gamma": -1}, "gamma: expected 0 or more, got -1"),
        ("focal_ctc_loss", {"gamma": NAN}, "gamma: expected 0 or more, got nan"),
        ("reweighted_ctc_loss", {"focus": -1}, "focus: expected 0 or more, got -1"),
        (
            "reweighted_ctc_loss",
            {"class_weights": torch.ones(4)},
            "class_weights: expected shape (3,), got (4,)",
        ),
        ("label_smoothed_ctc_loss", {"alpha": 1}, "alpha: expected 0 to below 1, got 1"),
        (
            "label_prior_ctc_loss",
            {"log_prior": torch.zeros(2)},
            "log_prior: expected finite numbers (3,), got shape",
        ),
        (
            "label_prior_ctc_loss",
            {"log_prior": torch.tensor([0, 0, -INF])},
            "log_prior: expected finite numbers (3,)",
        ),
        *[
            (name, {"reduction": "max"}, "reduction: expected one of none, mean, sum; got 'max'")
            for name in FUNCTIONS
        ],
    ],
)
def test_wrong_arguments(name: str, options: dict[str, Any], said: str) -> None:
    logits, rest = ragged()
    if name == "label_prior_ctc_loss":
        options = {"log_prior": LOG_PRIOR} | options
    with pytest.raises(KernelError) as error:
        (getattr(losses, name, None) or getattr(functional, name))(logits, *rest, **options)
    assert said in str(error.value)
    assert all(isinstance(error.value, kind) for kind in (ValueError, RuntimeError, CtcAlignError))
