"""The confidence network that torch trains is the one that NumPy computes; padding changes
nothing."""

from __future__ import annotations

import numpy as np
import torch

from confidence_training import TrainableConfidenceNetwork
from ctc_align.models.confidence_network import inputs_of


@torch.no_grad()
def test_numpy_computes_as_torch_and_padding_changes_no_word() -> None:
    torch.manual_seed(1)
    network = TrainableConfidenceNetwork(3, 8)
    network.mean.copy_(torch.tensor([0.5, -1.0, 2.0]))
    features = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    padded, inside = torch.full((2, 6, 40), 1e6), torch.zeros(2, 1, 40)
    padded[0, :, :7] = torch.from_numpy(
        inputs_of(features, network.mean.numpy(), network.deviation.numpy())
    ).T
    inside[0, :, :7] = 1.0
    expected = network(padded, inside)[0, :7]
    assert expected.std() > 0.01
    trained = network.trained(("one", "two", "three"))
    np.testing.assert_allclose(trained.logits(features), expected, atol=1e-5)
    np.testing.assert_allclose(trained.chances(features), expected.double().sigmoid(), atol=1e-6)
