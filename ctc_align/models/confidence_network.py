"""A model's confidence network: from the features of consecutive words to the chance that each is at its position.

Dilated one-dimensional convolutions over words include some thirty words on either side in the decision about a word:
in unspoken text, "the" may fit somewhere by chance, but its neighbours do not. The network is in the folder of the
model for which it was trained, on recordings and texts that disagree (`tools/confidence_training.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.models.network_files import network_bytes, read_network
from ctc_align.reading import as_number, as_whole

FILE = "confidence.safetensors"
FORMAT = "ctc-align-confidence/1"
DILATIONS = (1, 2, 4, 8, 16)
LARGEST = 8.0
"""Limit of normalised features, in standard deviations."""


@dataclass(frozen=True)
class FitLimits:
    """The losses and shares of words from which a transcript fits well: see `ctc_align.alignment.fit`.

    Attributes:
        good_loss, doubtful_loss: the highest loss per token of a transcript whose fit is good, or doubtful; None for
            the network of any model, because losses of different models have no common scale.
        good_share, doubtful_share: the least share of words that are probably at their positions, for either fit.
        none_share: with a smaller share, and a loss beyond `good_loss` if there is one, the transcript does not fit.
    """

    good_loss: float | None
    doubtful_loss: float | None
    good_share: float
    doubtful_share: float
    none_share: float


class ConfidenceNetwork(nn.Module):
    """The network, its features' names, means and deviations, and the limits of `fit` that were found with it."""

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, features: tuple[str, ...], width: int, limits: FitLimits | None = None) -> None:
        super().__init__()
        self.features, self.width, self.limits = features, width, limits
        self.register_buffer("mean", torch.zeros(len(features)))
        self.register_buffer("deviation", torch.ones(len(features)))
        self.input = nn.Conv1d(2 * len(features), width, 1)
        self.around = nn.ModuleList(nn.Conv1d(width, width, 3, padding=step, dilation=step) for step in DILATIONS)
        self.hidden = nn.Conv1d(width, width, 1)
        self.output = nn.Conv1d(width, 1, 1)

    def forward(self, inputs: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
        """Return logits (B, W) of inputs (B, 2 F, W); `inside` (B, 1, W) is 1 for words and 0 for padding."""
        hidden = self.input(inputs) * inside
        for convolution in self.around:
            hidden = hidden + torch.relu(convolution(torch.relu(hidden))) * inside
        return self.output(torch.relu(self.hidden(torch.relu(hidden))))[:, 0]

    def inputs(self, features: np.ndarray) -> torch.Tensor:
        """Return (2 F, W): the features (W, F), normalised, and their means over all words, repeated for each word."""
        normal = ((torch.from_numpy(features) - self.mean) / self.deviation).clamp(-LARGEST, LARGEST)
        return torch.cat((normal, normal.mean(0, keepdim=True).expand_as(normal)), 1).T

    @torch.no_grad()
    def chances(self, features: np.ndarray) -> np.ndarray:
        """Return the chance (W,) float64 that each word is at its position, from features (W, F) float32, W > 0."""
        logits = self(self.inputs(features)[None], torch.ones(1, 1, len(features)))
        return torch.sigmoid(logits.double())[0].numpy()


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


def _built(about: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> ConfidenceNetwork:
    given: dict[str, Any] = {
        name: value if value is None else as_number(value) for name, value in about["limits"].items()
    }
    limits = FitLimits(**given)
    features, width = tuple(about["features"]), as_whole(about["width"], 1)
    if weights["input.weight"].shape != (width, 2 * len(features), 1):
        raise ValueError("features and width do not match the weights")
    return ConfidenceNetwork(features, width, limits)


def save_confidence_network(network: ConfidenceNetwork, folder: Path) -> None:
    """Write the network, in half precision, and its limits into a model's folder."""
    assert network.limits is not None
    about = {"features": network.features, "width": network.width, "limits": vars(network.limits)}
    (folder / FILE).write_bytes(network_bytes(network, FORMAT, about))
