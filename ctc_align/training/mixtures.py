"""Mixtures of diagonal Gaussians over cepstra: how each part of each sound sounds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

from ctc_align.models import features
from ctc_align.training.threads import spread

CEPSTRA = 13
VALUES = 3 * CEPSTRA
SMALLEST_VARIANCE = 0.05
FEWEST_FRAMES = 10


def cepstra(frames: torch.Tensor) -> torch.Tensor:
    """39 values a frame: 13 cepstra of log-mel frames (T, MELS), first and second differences; mean 0, deviation 1."""
    floor = features.floor_of(features.statistics_of(frames).loud)
    static = torch.maximum(frames, floor) @ _cosines()
    first = _slope(static)
    values = torch.cat((static, first, _slope(first)), 1)
    return (values - values.mean(0)) / values.std(0).clamp_min(1e-3)


@lru_cache(maxsize=1)
def _cosines() -> torch.Tensor:
    k = torch.arange(CEPSTRA)[None]
    n = torch.arange(features.MELS)[:, None]
    return torch.cos(math.pi / features.MELS * (n + 0.5) * k) * math.sqrt(2.0 / features.MELS)


def _slope(values: torch.Tensor) -> torch.Tensor:
    """Regression over five frames (Young et al., The HTK Book, eq. 5.16)."""
    padded = torch.cat((values[:1], values[:1], values, values[-1:], values[-1:]))
    return (padded[3:-1] - padded[1:-3]) * 0.1 + (padded[4:] - padded[:-4]) * 0.2


@dataclass(frozen=True)
class Mixtures:
    """K states of M Gaussians over D values: `weights` (K, M) log, `means` and `variances` (K, M, D)."""

    weights: torch.Tensor
    means: torch.Tensor
    variances: torch.Tensor

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """log p(x | state): (T, D) -> (T, K)."""
        both = torch.cat((x * x, x), 1)
        total = torch.empty(0)
        for m, (factors, constant) in enumerate(self._terms):
            joint = torch.addmm(constant, both, factors)
            total = joint if m == 0 else torch.logaddexp(total, joint)
        return total

    @cached_property
    def _terms(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Of the m-th Gaussian of every state: factors (2 * D, K) of x * x and x, and what is added (K,)."""
        precision = 1.0 / self.variances
        size = self.means.shape[2]
        constant = self.weights - 0.5 * (
            size * math.log(2 * math.pi) + self.variances.log().sum(-1) + (self.means**2 * precision).sum(-1)
        )
        factors = torch.cat((-0.5 * precision, self.means * precision), 2)
        return [(factors[:, m].T.contiguous(), constant[:, m].contiguous()) for m in range(factors.shape[1])]

    def doubled(self) -> Mixtures:
        """Every Gaussian becomes two, a fifth of its deviation to either side."""
        apart = 0.2 * self.variances.sqrt()
        return Mixtures(
            torch.cat((self.weights, self.weights), 1) - math.log(2),
            torch.cat((self.means - apart, self.means + apart), 1),
            torch.cat((self.variances, self.variances), 1),
        )


def estimate(
    labelled: Iterable[tuple[torch.Tensor, torch.Tensor]], states: int, old: Mixtures | None = None
) -> Mixtures:
    """One step of EM within each state, the labels being given; without `old`, a single Gaussian each.

    Args:
        labelled: pairs of values (T, D) and labels (T,) int64.
        states: K.
        old: responsibilities come from these; a Gaussian with too few frames stays as it was.
    """
    mixtures = old.means.shape[1] if old else 1
    places = states * mixtures
    sums = torch.zeros(places, 1 + 2 * VALUES, dtype=torch.float64)

    def own(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x, state = pair
        share = torch.zeros(len(x), places)
        place = state[:, None] * mixtures + torch.arange(mixtures)
        share.scatter_(1, place, _responsibility(x, state, old) if old else torch.ones(len(x), 1))
        return share.T @ torch.cat((torch.ones(len(x), 1), x, x * x), 1)

    for part in spread(own, list(labelled)):
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
    """Posterior of each Gaussian of the frame's own state: (T, M)."""
    means, variances = mixtures.means[state], mixtures.variances[state]
    constant = mixtures.weights - 0.5 * mixtures.variances.log().sum(-1)
    joint = constant[state] - 0.5 * ((x[:, None] - means) ** 2 / variances).sum(-1)
    return joint.softmax(-1)
