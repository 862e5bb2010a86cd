"""Estimation of mixtures of diagonal Gaussians from labelled frames, by EM within each state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import VALUES, Mixtures, cepstra_of, with_differences
from ctc_align.training.feature_store import spread

SMALLEST_VARIANCE = 0.05
FEWEST_FRAMES = 10


def cepstra(frames: torch.Tensor) -> torch.Tensor:
    """Return 13 cepstra of log-mel frames (T, MELS) with first and second differences (T, 39): mean 0, deviation 1."""
    floor = features.floor_of(features.statistics_of(frames).loud)
    values = with_differences(cepstra_of(torch.maximum(frames, floor)))
    return (values - values.mean(0)) / values.std(0).clamp_min(1e-3)


def grown(
    labelled: Sequence[tuple[torch.Tensor, torch.Tensor]], states: int, mixtures: int, steps: int = 4
) -> Mixtures:
    """Return `mixtures` Gaussians a state, doubled from one with `steps` of EM after each time; see `estimate`."""
    fitted = estimate(labelled, states)
    while fitted.means.shape[1] < mixtures:
        fitted = fitted.doubled()
        for _ in range(steps):
            fitted = estimate(labelled, states, fitted)
    return fitted


def estimate(
    labelled: Iterable[tuple[torch.Tensor, torch.Tensor]], states: int, old: Mixtures | None = None
) -> Mixtures:
    """Return the mixtures after one step of EM within each labelled state; without `old`, a single Gaussian each.

    Args:
        labelled: pairs of values (T, D) and labels (T,) int64.
        states: K.
        old: mixtures that responsibilities come from; a Gaussian with too few frames stays as it was.
    """
    mixtures = old.means.shape[1] if old else 1
    places = states * mixtures
    sums = torch.zeros(places, 1 + 2 * VALUES, dtype=torch.float64)

    def sums_of(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x, state = pair
        share = torch.zeros(len(x), places)
        place = state[:, None] * mixtures + torch.arange(mixtures)
        share.scatter_(1, place, _responsibility(x, state, old) if old else torch.ones(len(x), 1))
        return share.T @ torch.cat((torch.ones(len(x), 1), x, x * x), 1)

    for part in spread(sums_of, list(labelled)):
        sums += part
    count = sums[:, 0].view(states, mixtures)
    first, second = sums[:, 1 : VALUES + 1], sums[:, VALUES + 1 :]
    number = count.view(-1, 1).clamp_min(1e-3)
    means = (first / number).view(states, mixtures, VALUES)
    variances = (second / number).view(states, mixtures, VALUES) - means**2
    variances = variances.clamp_min(SMALLEST_VARIANCE)
    if old is not None:
        rare = (count < FEWEST_FRAMES)[:, :, None]
        means = torch.where(rare, old.means.double(), means)
        variances = torch.where(rare, old.variances.double(), variances)
    weights = ((count + 1.0) / (count + 1.0).sum(1, keepdim=True)).log()
    return Mixtures(weights.float(), means.float(), variances.float())


def _responsibility(x: torch.Tensor, state: torch.Tensor, mixtures: Mixtures) -> torch.Tensor:
    """Return the posterior (T, M) of each Gaussian of the frame's state."""
    means, variances = mixtures.means[state], mixtures.variances[state]
    constant = mixtures.weights - 0.5 * mixtures.variances.log().sum(-1)
    joint = constant[state] - 0.5 * ((x[:, None] - means) ** 2 / variances).sum(-1)
    return joint.softmax(-1)
