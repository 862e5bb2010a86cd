"""Mixtures of diagonal Gaussians over cepstra: how each part of each sound sounds.

A network that was trained on a generative model's labels blurs them; the generative model itself still knows where
a sound stops being itself. The two err in different places, and the sum of their scores errs less than either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

from ctc_align.models.convnet import features

CEPSTRA = 13
VALUES = 3 * CEPSTRA
MIXTURES = "mixtures."
"""How the names of their weights begin among a model's."""
SMALLEST_VARIANCE = 1e-8
"""Of a value as it is; the network's inputs vary by about 1."""
REACH = 4
"""Frames on either side that the differences of a frame are made from."""
NOISY_NATS, QUIET_NATS = 4.5, 7.0
"""Between these levels of the louder frames above the quiet ones the mixtures' weight grows from nothing to all of it:
they learned from clean speech, and 10 dB of noise leave 4 nats."""


def with_differences(static: torch.Tensor) -> torch.Tensor:
    """(T, 13) -> (T, 39): cepstra with their first and second differences; the ends are repeated."""
    first = _slope(static)
    return torch.cat((static, first, _slope(first)), 1)


def cepstra_of(channels: torch.Tensor) -> torch.Tensor:
    """(T, MELS) -> (T, 13): cosine transform of log-mel channels, whatever they were centred on."""
    return channels @ _cosines().to(channels.device)


def values_of(inputs: torch.Tensor) -> torch.Tensor:
    """(T + 2 * REACH, MELS) -> (T, 39): what mixtures score, of frames as the network sees them."""
    return with_differences(cepstra_of(inputs))[REACH:-REACH]


@lru_cache(maxsize=1)
def _cosines() -> torch.Tensor:
    k = torch.arange(CEPSTRA)[None]
    n = torch.arange(features.MELS)[:, None]
    return torch.cos(math.pi / features.MELS * (n + 0.5) * k) * math.sqrt(2.0 / features.MELS)


def _slope(values: torch.Tensor) -> torch.Tensor:
    """Regression over five frames (Young et al., The HTK Book, eq. 5.16)."""
    padded = torch.cat((values[:1], values[:1], values, values[-1:], values[-1:]))
    return (padded[3:-1] - padded[1:-3]) * 0.1 + (padded[4:] - padded[:-4]) * 0.2


def share_of_weight(statistics: features.Statistics) -> float:
    """How much the mixtures count in a recording, in [0, 1]: nothing where noise covers the quiet sounds."""
    above = float(statistics.loud - statistics.quiet)
    return min(1.0, max(0.0, (above - NOISY_NATS) / (QUIET_NATS - NOISY_NATS)))


@dataclass(frozen=True)
class Mixtures:
    """K states of M Gaussians over D values: `weights` (K, M) log, `means` and `variances` (K, M, D)."""

    weights: torch.Tensor
    means: torch.Tensor
    variances: torch.Tensor

    def to(self, device: torch.device) -> Mixtures:
        """The same on another device."""
        return Mixtures(self.weights.to(device), self.means.to(device), self.variances.to(device))

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """log p(x | state): (T, D) -> (T, K)."""
        both = torch.cat((x * x, x), 1)
        total = x.new_empty(0)
        for m, (factors, constant) in enumerate(self._terms):
            joint = torch.addmm(constant, both, factors)
            total = joint if m == 0 else torch.logaddexp(total, joint)
        return total

    def log_posteriors(self, inputs: torch.Tensor) -> torch.Tensor:
        """log p(state | frame), all states being equally likely before: (T + 2 * REACH, MELS) -> (T, K).

        Args:
            inputs: frames as the network sees them, `REACH` more on either side.
        """
        return self.scores(values_of(inputs)).log_softmax(-1)

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

    def scaled(self, mean: torch.Tensor, deviation: torch.Tensor) -> Mixtures:
        """Of values as they were before `mean` (D,) was taken off and they were divided by `deviation` (D,)."""
        return Mixtures(self.weights, self.means * deviation + mean, self.variances * deviation**2)


def from_weights(weights: Mapping[str, torch.Tensor], states: int) -> Mixtures:
    """The mixtures among a model's weights.

    Raises:
        ValueError: there are none, or none that a model of so many states can have.
    """
    parts: list[torch.Tensor] = []
    for name in ("weights", "means", "variances"):
        if MIXTURES + name not in weights:
            raise ValueError(f"mixture_weight is set, and there is no {MIXTURES}{name}")
        part = weights[MIXTURES + name].float()
        shape = (*parts[0].shape, VALUES) if parts else (states, max(1, part.shape[-1] if part.dim() else 1))
        if part.shape != shape:
            raise ValueError(f"{MIXTURES}{name} has shape {tuple(part.shape)}, expected {shape}")
        if not bool(part.isfinite().all()):
            raise ValueError(f"{MIXTURES}{name} holds numbers that are not finite")
        parts.append(part)
    if not bool((parts[2] >= SMALLEST_VARIANCE).all()):
        raise ValueError(f"{MIXTURES}variances holds numbers below {SMALLEST_VARIANCE}")
    return Mixtures(*parts)
