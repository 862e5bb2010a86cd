"""A model's confidence network.

From the features of consecutive words it computes the chance that each is at its position. Dilated
one-dimensional convolutions over words include some thirty words on either side in the decision
about a word: in unspoken text, "the" may fit somewhere by chance, but its neighbours do not. The
network is in the folder of the model for which it was trained, on recordings and texts that
disagree (`research/confidence_training.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.models.network_files import check_weights, network_bytes, read_network
from ctc_align.reading import as_number, as_whole

FILE = "confidence.safetensors"
FORMAT = "ctc-align-confidence/1"
DILATIONS = (1, 2, 4, 8, 16)
LARGEST = 8.0
"""Limit of normalised features, in standard deviations."""


@dataclass(frozen=True)
class FitLimits:
    """The losses and shares of words from which on a transcript fits well.

    See `ctc_align.alignment.fit`.

    Attributes:
        good_loss, doubtful_loss: the highest loss per token of a transcript whose fit is good, or
            doubtful; None for the network of any model, because losses of different models have no
            common scale.
        good_share, doubtful_share: the least share of words that are probably at their positions,
            for either fit.
    """

    good_loss: float | None
    doubtful_loss: float | None
    good_share: float
    doubtful_share: float


class ConfidenceNetwork:
    """A confidence network and what is needed to use it.

    Beside the weights these are its features' names, means and deviations, and the limits of `fit`
    that were found with it.

    Args:
        features: the names of its F features.
        width: the number of channels.
        limits: of `fit`; None until they are known.
        weights: by their names in `weight_shapes`.
    """

    def __init__(
        self,
        features: tuple[str, ...],
        width: int,
        limits: FitLimits | None,
        weights: Mapping[str, np.ndarray],
    ) -> None:
        self.features = features
        self.width = width
        self.limits = limits
        self.weights = weights

    def chances(self, features: np.ndarray) -> np.ndarray:
        """Return the chance (W,) float64 that each word is at its position.

        The features are (W, F) float32, W > 0.
        """
        return np.asarray(1.0 / (1.0 + np.exp(-self.logits(features).astype(np.float64))))

    def logits(self, features: np.ndarray) -> np.ndarray:
        """Return the logits (W,) of features (W, F)."""
        hidden = self._convolved(
            "input", inputs_of(features, self.weights["mean"], self.weights["deviation"])
        )
        for number, step in enumerate(DILATIONS):
            hidden = hidden + _rectified(
                self._convolved(f"around.{number}", _rectified(hidden), step)
            )
        hidden = _rectified(self._convolved("hidden", _rectified(hidden)))
        return self._convolved("output", hidden)[:, 0]

    def _convolved(self, name: str, x: np.ndarray, step: int = 0) -> np.ndarray:
        """Return a convolution (W, out) of x (W, in), padded with zeros.

        Its taps are `step` words apart.
        """
        weight = self.weights[f"{name}.weight"]
        padded = np.pad(x, ((step, step), (0, 0)))
        taps = (
            padded[tap * step : tap * step + len(x)] @ weight[:, :, tap].T
            for tap in range(weight.shape[2])
        )
        return np.asarray(sum(taps) + self.weights[f"{name}.bias"])


def inputs_of(features: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return (W, 2 F): the normalised features (W, F) beside their means over all words.

    The means are repeated for each word.
    """
    normal = np.clip((features - mean) / deviation, -LARGEST, LARGEST)
    return np.concatenate((normal, np.broadcast_to(normal.mean(0, keepdims=True), normal.shape)), 1)


def weight_shapes(features: int, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight by its name; convolutions are (out, in, taps)."""
    layers = {
        "input": (width, 2 * features, 1),
        "hidden": (width, width, 1),
        "output": (1, width, 1),
    }
    layers |= {f"around.{number}": (width, width, 3) for number in range(len(DILATIONS))}
    return {
        "mean": (features,),
        "deviation": (features,),
        **{f"{name}.weight": shape for name, shape in layers.items()},
        **{f"{name}.bias": shape[:1] for name, shape in layers.items()},
    }


def _rectified(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.float32(0.0))


def load_confidence_network(folder: Path) -> ConfidenceNetwork | None:
    """Return the network in a model's folder, None if there is none.

    Raises:
        ConfigError: the file was not written by training.
    """
    return read_network(folder / FILE, "a confidence network", FORMAT, _built)


@lru_cache(maxsize=1)
def network_of_any_model() -> ConfidenceNetwork:
    """Return the network for emissions of models that have none of their own."""
    network = load_confidence_network(Path(__file__).parent)
    assert network is not None
    return network


def _built(about: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> ConfidenceNetwork:
    given: dict[str, Any] = {}
    for limit in fields(FitLimits):  # others are those of earlier versions
        value = about["limits"][limit.name]
        given[limit.name] = None if value is None else as_number(value)
    limits = FitLimits(**given)
    features = tuple(about["features"])
    width = as_whole(about["width"], 1)
    check_weights(weights, weight_shapes(len(features), width))
    return ConfidenceNetwork(features, width, limits, weights)


def save_confidence_network(network: ConfidenceNetwork, folder: Path) -> None:
    """Write the network, in half precision, and its limits into a model's folder."""
    assert network.limits is not None
    about = {"features": network.features, "width": network.width, "limits": vars(network.limits)}
    (folder / FILE).write_bytes(network_bytes(network.weights, FORMAT, about))
