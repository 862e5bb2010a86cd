"""Mixtures of diagonal Gaussians over cepstra, one for each segmentation state.

A network trained on the labels of a generative model blurs them, while the generative model still
shows where the sound changes. The two make different errors, and the sum of their scores has
smaller errors than either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ctc_align.kernels.log_space import log_softmax
from ctc_align.models.convnet import features

CEPSTRA = 13
VALUES = 3 * CEPSTRA
MIXTURES = "mixtures."
"""Prefix of the mixtures' names among a model's weights."""
SMALLEST_VARIANCE = 1e-8
"""The least variance of values before scaling; the network's inputs vary by about 1."""
REACH = 4
"""The differences of a frame are computed from this many frames on either side."""
ROWS_IN_CACHE = 64
"""Rows of values whose products with all Gaussians are computed and summed at once."""
MIXTURE_NATS = 4.5, 7.0
"""Level ranges (`level_range`) between which the mixtures' weight grows from 0 to all of it.

The mixtures were trained on clean speech, and noise 10 dB below it leaves 4 nats.
"""
MALUS_NATS = 6.5, 9.0
"""Level ranges between which the malus of silence falls from all of it to 0.

Noise that leaves the mixtures useful already covers the quiet ends of words, as on a telephone.
"""


def with_differences(static: np.ndarray) -> np.ndarray:
    """Return cepstra (T, 13) with their first and second differences (T, 39).

    The first and last frame are repeated.
    """
    first = _slope(static)
    return np.concatenate((static, first, _slope(first)), 1)


def cepstra_of(channels: np.ndarray) -> np.ndarray:
    """Return the cosine transform (T, 13) of log-mel channels (T, MELS)."""
    return np.asarray(channels @ _cosines())


def values_of(inputs: np.ndarray) -> np.ndarray:
    """Return the values (T, 39) that mixtures score.

    The network's inputs are (T + 2 * REACH, MELS).
    """
    return with_differences(cepstra_of(inputs))[REACH:-REACH]


@lru_cache(maxsize=1)
def _cosines() -> np.ndarray:
    """Return the cosine transform (MELS, 13).

    It is of type II and orthonormal, without the constant's own scale.
    """
    k = np.arange(CEPSTRA)[None]
    n = np.arange(features.MELS)[:, None]
    cosines = np.cos(math.pi / features.MELS * (n + 0.5) * k) * math.sqrt(2.0 / features.MELS)
    return cosines.astype(np.float32)


def _slope(values: np.ndarray) -> np.ndarray:
    """Return the regression over five frames (Young et al., The HTK Book, eq. 5.16)."""
    padded = np.pad(values, ((2, 2), (0, 0)), "edge")
    return np.asarray(
        (padded[3:-1] - padded[1:-3]) * np.float32(0.1)
        + (padded[4:] - padded[:-4]) * np.float32(0.2)
    )


def level_range(statistics: features.Statistics) -> float:
    """Return how far the loud frames of a recording are above its quiet ones, in nats.

    It is 0 if the recording has no high frequencies: cepstra are of the whole spectrum.
    """
    if statistics.band < features.MELS:
        return 0.0
    return float(statistics.loud - statistics.quiet)


def _ramp(value: float, limits: tuple[float, float]) -> float:
    """Return 0 up to the first limit, 1 from the second on, and the share of the way between."""
    low, high = limits
    return min(1.0, max(0.0, (value - low) / (high - low)))


@dataclass(frozen=True)
class Mixtures:
    """Mixtures of K states, M Gaussians each, over D values.

    `weights` (K, M) are logs; `means` and `variances` are (K, M, D).
    """

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return log p(x | state) (T, K) float32 of values `x` (T, D).

        It is log Σ_m w_m N(x; μ_m, σ²_m).
        """
        states, gaussians, _ = self.means.shape
        result = np.empty((len(x), states), np.float32)
        weight, bias = self.product
        pairs = np.concatenate((x * x, x), 1)
        for first in range(0, len(x), ROWS_IN_CACHE):
            joint = pairs[first : first + ROWS_IN_CACHE] @ weight
            joint += bias
            joint = joint.reshape(-1, gaussians, states)
            # relative to the largest term, so that nothing overflows
            top = joint.max(1)
            joint -= top[:, None]
            sums = np.exp(joint, out=joint).sum(1)
            np.add(np.log(sums, out=sums), top, out=result[first : first + len(sums)])
        return result

    def log_posteriors(self, values: np.ndarray) -> np.ndarray:
        """Return log p(state | frame) (T, K) of values (T, D).

        All states are equally likely a priori.
        """
        return log_softmax(self.scores(values))

    @cached_property
    def product(self) -> tuple[np.ndarray, np.ndarray]:
        """A matrix and constants that give the log-likelihoods of all Gaussians by one product.

        They are (2 * D, M * K), and (M * K,) for what is added.

        log w N(x; μ, σ²) = log w − ½ Σ_d (log 2πσ_d² + μ_d² / σ_d²) + Σ_d (μ_d / σ_d² · x_d − ½
        x_d² / σ_d²): the rows are for x * x, then for x; the Gaussians of a state are K columns
        apart.
        """
        means = self.means.astype(np.float64)
        precision = 1.0 / self.variances.astype(np.float64)
        size = means.shape[2]
        constant = self.weights - 0.5 * (
            size * math.log(2 * math.pi)
            - np.log(precision).sum(-1)
            + (means**2 * precision).sum(-1)
        )
        factors = np.concatenate((-0.5 * precision, means * precision), 2).transpose(2, 1, 0)
        return (
            np.ascontiguousarray(factors.reshape(2 * size, -1), np.float32),
            constant.T.reshape(-1).astype(np.float32),
        )

    def doubled(self) -> Mixtures:
        """Return twice as many Gaussians.

        Each is split in two, a fifth of its deviation to either side.
        """
        apart = np.float32(0.2) * np.sqrt(self.variances)
        return Mixtures(
            np.concatenate((self.weights, self.weights), 1) - np.float32(math.log(2)),
            np.concatenate((self.means - apart, self.means + apart), 1),
            np.concatenate((self.variances, self.variances), 1),
        )

    def scaled(self, mean: np.ndarray, deviation: np.ndarray) -> Mixtures:
        """Return the mixtures of values * `deviation` (D,) + `mean` (D,)."""
        means = self.means * deviation + mean
        variances = self.variances * deviation**2
        return Mixtures(self.weights, means.astype(np.float32), variances.astype(np.float32))


def from_weights(weights: Mapping[str, np.ndarray], states: int) -> Mixtures:
    """Return the mixtures among a model's weights.

    Raises:
        ValueError: they are missing, or do not fit a model of `states` states.
    """
    parts: list[np.ndarray] = []
    for name in ("weights", "means", "variances"):
        if MIXTURES + name not in weights:
            raise ValueError(f"mixture_weight is set, and there is no {MIXTURES}{name}")
        part = np.asarray(weights[MIXTURES + name], np.float32)
        if parts:
            shape = (*parts[0].shape, VALUES)
        else:
            shape = (states, max(1, part.shape[-1] if part.ndim else 1))
        if part.shape != shape:
            raise ValueError(f"{MIXTURES}{name} has shape {part.shape}, expected {shape}")
        if not np.isfinite(part).all():
            raise ValueError(f"{MIXTURES}{name} holds numbers that are not finite")
        parts.append(part)
    if not (parts[2] >= SMALLEST_VARIANCE).all():
        raise ValueError(f"{MIXTURES}variances holds numbers below {SMALLEST_VARIANCE}")
    return Mixtures(*parts)


@dataclass(frozen=True)
class StateScoring:
    """How the network's second output becomes the scores of the segmentation states.

    The score of state k at frame t of a recording is

        log p(k | t) − prior_scale · log p(k) + bonus(k) + s · mixture_weight · log p_mixtures(k |
        t)

    where the bonus is silence_bonus − (1 − q) · noise_malus for silence and 0 for all other states;
    s and q grow from 0 to 1 with the recording's level range, by `MIXTURE_NATS` and `MALUS_NATS`.

    Attributes:
        offset: (K,) is added to the log-posteriors: the scaled log-priors and silence's bonus.
        mixtures: score the states as well; None: only the network does.
        mixture_weight, noise_malus: as above.
        context_frames: of the network, on either side.
    """

    offset: np.ndarray
    mixtures: Mixtures | None
    mixture_weight: float
    noise_malus: float
    context_frames: int

    def offset_for(self, range_nats: float) -> np.ndarray:
        """Return what is added to the log-posteriors (K,) float32, for a level range."""
        offset = self.offset.copy()
        offset[-1:] -= self.noise_malus * (1.0 - _ramp(range_nats, MALUS_NATS))
        return offset

    def weight_for(self, range_nats: float) -> float:
        """Return the weight of the mixtures' log-posteriors for a level range, 0 for none."""
        if self.mixtures is None:
            return 0.0
        return self.mixture_weight * _ramp(range_nats, MIXTURE_NATS)

    def values_of(self, inputs: np.ndarray) -> np.ndarray:
        """Return what mixtures score (T, 39).

        The network's inputs are (T + 2 * context_frames, MELS).
        """
        return values_of(
            inputs[self.context_frames - REACH : len(inputs) - self.context_frames + REACH]
        )

    def scores(self, segments: np.ndarray, inputs: np.ndarray, range_nats: float) -> np.ndarray:
        """Return the scores (T, K) of the states.

        Args:
            segments: (T, K), the network's second output.
            inputs: (T + 2 * context_frames, MELS), its inputs.
            range_nats: the recording's `level_range`.
        """
        scores = log_softmax(segments)
        scores += self.offset_for(range_nats)
        if self.mixtures is not None and (weight := self.weight_for(range_nats)):
            log_posteriors = self.mixtures.log_posteriors(self.values_of(inputs))
            log_posteriors *= np.float32(weight)
            scores += log_posteriors
        return scores
