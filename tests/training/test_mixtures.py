"""Gaussians against the formulas written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import VALUES, Mixtures
from ctc_align.training.segmenter import SMALLEST_VARIANCE, cepstra, estimate


def data(frames: int = 400, states: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, states, frames)
    x = random.normal(labels[:, None] * np.linspace(-1, 1, VALUES), 0.5 + labels[:, None], (frames, VALUES))
    return torch.tensor(x, dtype=torch.float32), torch.from_numpy(labels)


def some_mixtures(states: int = 3, mixtures: int = 2, seed: int = 1) -> Mixtures:
    generator = torch.Generator().manual_seed(seed)
    return Mixtures(
        torch.randn(states, mixtures, generator=generator).log_softmax(1),
        torch.randn(states, mixtures, VALUES, generator=generator),
        torch.rand(states, mixtures, VALUES, generator=generator) + 0.5,
    )


def log_gauss(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return (-0.5 * ((x - mean) ** 2 / variance + np.log(2 * math.pi * variance))).sum(-1)


def test_scores_are_log_densities() -> None:
    x, _ = data(50)
    mixtures = some_mixtures()
    each = np.stack(
        [
            np.logaddexp.reduce(
                [
                    float(mixtures.weights[k, m])
                    + log_gauss(x.double().numpy(), mixtures.means[k, m].numpy(), mixtures.variances[k, m].numpy())
                    for m in range(2)
                ]
            )
            for k in range(3)
        ],
        1,
    )
    np.testing.assert_allclose(mixtures.scores(x).numpy(), each, rtol=1e-4, atol=1e-3)


def test_one_gaussian_is_mean_and_variance_of_its_frames() -> None:
    x, labels = data()
    found = estimate([(x[:100], labels[:100]), (x[100:], labels[100:])], 3)
    for k in range(3):
        own = x[labels == k].double().numpy()
        np.testing.assert_allclose(found.means[k, 0].numpy(), own.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.variances[k, 0].numpy(), own.var(0), rtol=1e-4)
        assert found.weights[k].tolist() == [0.0]


def test_a_step_of_em_within_each_state() -> None:
    x, labels = data()
    old = some_mixtures()
    found = estimate([(x, labels)], 3, old)
    for k in range(3):
        own = x[labels == k].double().numpy()
        joint = np.stack(
            [
                float(old.weights[k, m]) + log_gauss(own, old.means[k, m].numpy(), old.variances[k, m].numpy())
                for m in (0, 1)
            ]
        )
        share = np.exp(joint - np.logaddexp.reduce(joint))
        for m in (0, 1):
            if share[m].sum() < 10:
                continue
            mean = (share[m][:, None] * own).sum(0) / share[m].sum()
            variance = (share[m][:, None] * own**2).sum(0) / share[m].sum() - mean**2
            np.testing.assert_allclose(found.means[k, m].numpy(), mean, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(
                found.variances[k, m].numpy(), np.maximum(variance, SMALLEST_VARIANCE), rtol=1e-3
            )
        weight = (share.sum(1) + 1) / (share.sum() + 2)
        np.testing.assert_allclose(found.weights[k].exp().numpy(), weight, rtol=1e-4)


def test_em_does_not_lower_the_likelihood() -> None:
    x, labels = data(600)
    mixtures = estimate([(x, labels)], 3).doubled()
    before = -math.inf
    for _ in range(6):
        score = float(mixtures.scores(x).gather(1, labels[:, None]).mean())
        assert score >= before - 0.02
        before = score
        mixtures = estimate([(x, labels)], 3, mixtures)
    assert mixtures.means.shape == (3, 2, VALUES)


def test_a_gaussian_with_few_frames_stays_and_one_with_none_is_finite() -> None:
    x, labels = data(30, states=2)
    old = some_mixtures(3)
    found = estimate([(x, labels)], 3, old)
    torch.testing.assert_close(found.means[2], old.means[2])
    torch.testing.assert_close(found.variances[2], old.variances[2])
    alone = estimate([(x, labels)], 3)
    assert torch.isfinite(alone.scores(x)).all()


def test_doubling_keeps_the_density_nearly() -> None:
    x, labels = data()
    one = estimate([(x, labels)], 3)
    two = one.doubled()
    assert two.weights.exp().sum(1).tolist() == pytest.approx([1.0, 1.0, 1.0])
    torch.testing.assert_close(two.means.mean(1), one.means[:, 0])
    assert (two.means[:, 0] < two.means[:, 1]).all()


def test_cepstra_are_normalised_and_free_of_gain() -> None:
    frames = features.log_mel(babble(2.0), 0, 200)
    values = cepstra(frames)
    assert values.shape == (200, VALUES)
    torch.testing.assert_close(values.mean(0), torch.zeros(VALUES), atol=1e-4, rtol=0)
    torch.testing.assert_close(values.std(0), torch.ones(VALUES), atol=1e-3, rtol=0)
    torch.testing.assert_close(cepstra(frames + 3.0), values, atol=2e-3, rtol=0)


def test_slopes_are_those_of_a_line() -> None:
    """The second thirteen values of a signal that rises steadily are constant inside: here all equal, so zero."""
    frames = torch.zeros(50, features.MELS) + torch.linspace(0.0, 5.0, 50)[:, None]
    values = cepstra(frames)
    assert values[4:-4, 13].std() < 0.01
    assert values[25, 0].abs() < 0.1
