"""The confidence network of a model: padding, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align.errors import ConfigError
from ctc_align.models.confidence_network import (
    FILE,
    ConfidenceNetwork,
    FitLimits,
    load_confidence_network,
    save_confidence_network,
)

LIMITS = FitLimits(2.0, 3.0, 0.9, 0.6, 0.1)


def made() -> ConfidenceNetwork:
    torch.manual_seed(1)
    network = ConfidenceNetwork(("one", "two", "three"), 8, LIMITS)
    network.mean.copy_(torch.tensor([0.5, -1.0, 2.0]))
    return network.eval()


def test_padding_changes_no_word() -> None:
    network, features = made(), np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    padded = torch.zeros(2, 6, 40)
    padded[:, :, 7:] = 1e6
    padded[0, :, :7] = network.inputs(features)
    inside = torch.zeros(2, 1, 40)
    inside[0, :, :7] = 1.0
    with torch.no_grad():
        together = torch.sigmoid(network(padded, inside)[0, :7]).numpy()
    np.testing.assert_allclose(together, network.chances(features), atol=1e-6)


def test_a_network_comes_back_from_its_file(tmp_path: Path) -> None:
    network, features = made(), np.ones((4, 3), np.float32)
    save_confidence_network(network, tmp_path)
    loaded = load_confidence_network(tmp_path)
    assert loaded is not None
    assert (loaded.features, loaded.limits) == (network.features, LIMITS)
    np.testing.assert_allclose(loaded.chances(features), network.chances(features), atol=1e-3)


def test_no_file_and_another_file(tmp_path: Path) -> None:
    assert load_confidence_network(tmp_path) is None
    (tmp_path / FILE).write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="expected a confidence network"):
        load_confidence_network(tmp_path)
