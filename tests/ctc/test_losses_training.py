"""A tiny network learns a toy task with each loss, from a fixed seed; priors are estimated steadily on the way."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from cpu_checks import on_threads
from oracles import collapse
from rows import first_row_of

import ctc_align
from ctc_align import losses
from ctc_align.errors import KernelError
from ctc_align.functional import ctc_loss, simple_ctc_loss

FRAMES, BATCH, TOKENS, CLASSES, STEPS = 40, 16, 5, 6, 300
Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
Loss = Callable[..., torch.Tensor]


def task(generator: torch.Generator) -> Batch:
    """Noisy features (T, N, C) of tokens that last 2 to 5 frames with pauses of 1 or 2, and what was said.

    In the last utterances not all frames count, nor all tokens.
    """
    targets = torch.randint(1, CLASSES, (BATCH, TOKENS), generator=generator)
    features = 0.7 * torch.randn(FRAMES, BATCH, CLASSES, generator=generator)
    frames, tokens = torch.full((BATCH,), FRAMES), torch.full((BATCH,), TOKENS)
    tokens[BATCH // 2 :], frames[BATCH // 2 :] = TOKENS - 2, FRAMES - 12
    for n in range(BATCH):
        at = 0
        for token in targets[n, : tokens[n]]:
            pause, length = torch.randint(0, 3, (2,), generator=generator).tolist()
            features[at + pause + 1 : at + pause + length + 4, n, token] += 2
            at += 7
    return features, targets, frames, tokens


class Network(torch.nn.Module):
    """Three frames at once, one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.near = torch.nn.Conv1d(CLASSES, 24, 3, padding=1)
        self.out = torch.nn.Linear(24, CLASSES)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.near(features.permute(1, 2, 0)).relu()
        return self.out(hidden.permute(2, 0, 1)).log_softmax(2)


@on_threads(1)
def train(loss: Loss) -> tuple[float, float, Network, Batch]:
    """The loss of unseen utterances per token before and after; the network, and those utterances.

    So small a network is faster on one thread, and the same on any machine.
    """
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network, unseen = Network(), task(generator)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)

    def measure() -> float:
        with torch.no_grad():
            return float(loss(network(unseen[0]), *unseen[1:]))

    before = measure()
    for _ in range(STEPS):
        features, *rest = task(generator)
        optimizer.zero_grad()
        loss(network(features), *rest).backward()
        optimizer.step()
    return before, measure(), network, unseen


def read_right(network: Network, unseen: Batch) -> float:
    """The part of the utterances whose best labels collapse to the target."""
    features, targets, frames, tokens = unseen
    labels = network(features).argmax(2)
    right = [
        collapse(labels[: frames[n], n].tolist(), 0) == targets[n, : tokens[n]].tolist() for n in range(len(targets))
    ]
    return sum(right) / len(right)


def with_prior() -> Loss:
    prior = losses.LabelPrior(CLASSES, decay=0.95)

    def loss(log_probs: torch.Tensor, targets: torch.Tensor, frames: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        prior.train(torch.is_grad_enabled())
        log_prior = prior(log_probs, frames)
        return losses.label_prior_ctc_loss(log_probs, targets, frames, *rest, log_prior=log_prior)

    return loss


def max_entropy(*given: torch.Tensor) -> torch.Tensor:
    return ctc_loss(*given) - 0.1 * losses.alignment_entropy(*given)


WEIGHTS = torch.tensor([0.5, 1, 1, 1, 1, 1])
LEARNT: dict[str, tuple[Callable[[], Loss], float]] = {
    "ctc": (lambda: ctc_align.CTCLoss(), 0.4),
    "simple ctc": (lambda: simple_ctc_loss, 1.5),
    "soft targets": (lambda: losses.soft_target_cross_entropy, 1.5),
    "reweighted": (lambda: lambda *given: losses.reweighted_ctc_loss(*given, class_weights=WEIGHTS, focus=0.5), 2.5),
    "focal": (lambda: losses.focal_ctc_loss, 0.25),
    "label-smoothed": (lambda: lambda *given: losses.label_smoothed_ctc_loss(*given, alpha=0.02), 1.3),
    "label prior": (with_prior, -2.5),
    "maximum entropy": (lambda: max_entropy, 0.3),
}
"""Losses, and below what they fall, in nats per token; all begin above 1, most above 10."""


@pytest.mark.parametrize("name", first_row_of(LEARNT))
def test_a_tiny_network_learns(name: str) -> None:
    made, figure = LEARNT[name]
    before, after, network, unseen = train(made())
    assert after < figure < before - 5 * (name != "maximum entropy")
    # In simple CTC nobody can know which of a token's frames is its one.
    assert read_right(network, unseen) >= 0.6 or name == "simple ctc"


@pytest.mark.long
def test_label_priors_spread_the_peaks() -> None:
    """What they are for: fewer frames are left to the blank."""
    blanks = []
    for name in ("ctc", "label prior"):
        _, _, network, (features, _, frames, _) = train(LEARNT[name][0]())
        inside = torch.arange(FRAMES)[:, None] < frames
        blanks.append(float((network(features).argmax(2) == 0)[inside].float().mean()))
    assert blanks[1] < blanks[0] - 0.1


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
    torch.testing.assert_close(prior(log_probs.requires_grad_(), frames).exp(), right, rtol=1e-5, atol=1e-6)
    assert not prior(log_probs, frames).requires_grad
    kept = prior.mean.clone()
    alone = losses.LabelPrior(4, decay=0.0, floor=1e-6)
    torch.testing.assert_close(
        alone(log_probs[:, 0], torch.tensor(5)).exp(), log_probs[:, 0].exp().mean(0), rtol=1e-5, atol=1e-6
    )
    prior(log_probs, [5, 3, 0])
    assert torch.equal(prior.mean, kept), "a batch of NaN is none"
    prior(log_probs, [0, 0, 0])
    assert torch.equal(prior.mean, kept), "nor is one without frames"
    prior.eval()(log_probs[:, :1], [5])
    assert torch.equal(prior.mean, kept), "nor is there any in evaluation"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: losses.LabelPrior(0), "expected one class or more, 0 <= decay < 1 and 0 < floor <= 1; got classes 0"),
        (lambda: losses.LabelPrior(2, decay=1.0), "decay 1.0"),
        (lambda: losses.LabelPrior(2, floor=0.0), "floor 0.0"),
        (lambda: losses.LabelPrior(2)(torch.zeros(4, 1, 3), [4]), "log_probs: expected 2 classes, got shape (4, 1, 3)"),
        (lambda: losses.LabelPrior(2)(torch.zeros(4, 1, 2), [5]), "input_lengths: utterance 0 has 5 frames"),
        (lambda: losses.LabelPrior(2)([[0.0]], [1]), "log_probs: expected a floating-point tensor"),
    ],
)
def test_priors_that_cannot_be(make: Callable[[], object], said: str) -> None:
    with pytest.raises(KernelError) as error:
        make()
    assert said in str(error.value)
