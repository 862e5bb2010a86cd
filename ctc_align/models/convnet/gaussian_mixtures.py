"""Mixtures of diagonal Gaussians over cepstra, one for each segmentation state.

A network trained on the labels of a generative model blurs them, while the generative model still shows where the sound
changes. The two make different errors, and the sum of their scores has smaller errors than either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch.nn import functional as F

from ctc_align.models.convnet import features

CEPSTRA = 13
VALUES = 3 * CEPSTRA
MIXTURES = "mixtures."
"""Prefix of the mixtures' names among a model's weights."""
SMALLEST_VARIANCE = 1e-8
"""The least variance of values before scaling; the network's inputs vary by about 1."""
REACH = 4
"""The differences of a frame are computed from this many frames on either side."""
ROWS_OF_A_PRODUCT = 1024
ROWS_IN_CACHE = 64
"""Rows of values whose products with all Gaussians are computed at once, and summed at once."""
NOISY_NATS, QUIET_NATS = 4.5, 7.0
"""Levels of the loud frames above the quiet ones between which the mixtures' weight grows from 0 to all of it: the
mixtures were trained on clean speech, and noise 10 dB below it leaves 4 nats."""


def with_differences(static: torch.Tensor) -> torch.Tensor:
    """Return cepstra (T, 13) with their first and second differences (T, 39); the ends are repeated."""
    first = _slope(static)
    return torch.cat((static, first, _slope(first)), 1)


def cepstra_of(channels: torch.Tensor) -> torch.Tensor:
    """Return the cosine transform (T, 13) of log-mel channels (T, MELS)."""
    return channels @ _cosines().to(channels.device)


def values_of(inputs: torch.Tensor) -> torch.Tensor:
    """Return the values (T, 39) that mixtures score, from the network's inputs (T + 2 * REACH, MELS)."""
    return with_differences(cepstra_of(inputs))[REACH:-REACH]


@lru_cache(maxsize=1)
def _cosines() -> torch.Tensor:
    k = torch.arange(CEPSTRA)[None]
    n = torch.arange(features.MELS)[:, None]
    return torch.cos(math.pi / features.MELS * (n + 0.5) * k) * math.sqrt(2.0 / features.MELS)


def _slope(values: torch.Tensor) -> torch.Tensor:
    """Return the regression over five frames (Young et al., The HTK Book, eq. 5.16)."""
    padded = torch.cat((values[:1], values[:1], values, values[-1:], values[-1:]))
    return (padded[3:-1] - padded[1:-3]) * 0.1 + (padded[4:] - padded[:-4]) * 0.2


def share_of_weight(statistics: features.Statistics) -> float:
    """Return the share of the mixtures' weight in a recording, in [0, 1]: 0 if noise covers the quiet sounds."""
    above = float(statistics.loud - statistics.quiet)
    return min(1.0, max(0.0, (above - NOISY_NATS) / (QUIET_NATS - NOISY_NATS)))


@dataclass(frozen=True)
class Mixtures:
    """Mixtures of K states, M Gaussians each, over D values: log `weights` (K, M), `means`, `variances` (K, M, D)."""

    weights: torch.Tensor
    means: torch.Tensor
    variances: torch.Tensor

    def to(self, device: torch.device) -> Mixtures:
        """Return a copy on another device."""
        return Mixtures(self.weights.to(device), self.means.to(device), self.variances.to(device))

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Return log p(x | state) = log Σ_m w_m N(x; μ_m, σ²_m) (T, K) of values `x` (T, D)."""
        states, gaussians, size = self.means.shape
        result = x.new_empty(len(x), states)
        weight, bias = self._convolution
        for some, scores in zip(x.split(ROWS_OF_A_PRODUCT), result.split(ROWS_OF_A_PRODUCT)):
            pairs = torch.stack((some * some, some), 1).view(1, 1, 2 * len(some), size)
            products = F.conv2d(pairs.permute(0, 3, 1, 2), weight, bias, stride=(1, 2)).permute(0, 2, 3, 1)
            joint = products.reshape(len(some), gaussians, states)
            # log2 Σ 2^j, relative to the largest term, so that nothing overflows; in place, a cache's worth at a time
            for part, sums in zip(joint.split(ROWS_IN_CACHE), scores.split(ROWS_IN_CACHE)):
                top = part.amax(1, keepdim=True).clamp_min_(torch.finfo(part.dtype).min)
                shares = part.sub_(top).exp2_().sum(1)
                torch.add(shares.log2_(), top[:, 0], out=sums)
        return result.mul_(math.log(2))

    def log_posteriors(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return log p(state | frame) (T, K), with all states equally likely a priori.

        Args:
            inputs: the network's inputs (T + 2 * REACH, MELS).
        """
        return self.scores(values_of(inputs)).log_softmax(-1)

    @cached_property
    def _convolution(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The binary logarithms of all Gaussians as a convolution over x * x and x, one beside the other.

        log w N(x; μ, σ²) = log w − ½ Σ_d (log 2πσ_d² + μ_d² / σ_d²) + Σ_d (μ_d / σ_d² · x_d − ½ x_d² / σ_d²), divided
        by log 2. The weight is (M * K, D, 1, 2), the bias (M * K,); the Gaussians of a state are K apart. It is a
        product of matrices, which the convolutions of a CPU compute up to twice as fast; 2^x is as fast as e^x.
        """
        precision = 1.0 / self.variances
        size = self.means.shape[2]
        constant = self.weights - 0.5 * (
            size * math.log(2 * math.pi) + self.variances.log().sum(-1) + (self.means**2 * precision).sum(-1)
        )
        factors = torch.stack((-0.5 * precision, self.means * precision), -1).transpose(0, 1).flatten(0, 1)
        weight = (factors / math.log(2))[:, :, None].contiguous(memory_format=torch.channels_last)
        return weight, (constant / math.log(2)).T.flatten()

    def doubled(self) -> Mixtures:
        """Return twice as many Gaussians: each is split, a fifth of its deviation to either side."""
        apart = 0.2 * self.variances.sqrt()
        return Mixtures(
            torch.cat((self.weights, self.weights), 1) - math.log(2),
            torch.cat((self.means - apart, self.means + apart), 1),
            torch.cat((self.variances, self.variances), 1),
        )

    def scaled(self, mean: torch.Tensor, deviation: torch.Tensor) -> Mixtures:
        """Return the mixtures of values * `deviation` (D,) + `mean` (D,)."""
        return Mixtures(self.weights, self.means * deviation + mean, self.variances * deviation**2)


def from_weights(weights: Mapping[str, torch.Tensor], states: int) -> Mixtures:
    """Return the mixtures among a model's weights.

    Raises:
        ValueError: they are missing, or do not fit a model of `states` states.
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
