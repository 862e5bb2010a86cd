"""The network of edges: its chances in any company, and its file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_edges import untrained
from made_sounds import babble
from safetensors import safe_open
from safetensors.torch import save

from ctc_align.errors import ConfigError
from ctc_align.models.confidence_network import FILE as CONFIDENCE_FILE
from ctc_align.models.confidence_network import (
    ConfidenceNetwork,
    FitLimits,
    load_confidence_network,
    save_confidence_network,
)
from ctc_align.models.edge_network import (
    CHANNELS,
    FILE,
    FINE_MELS,
    FINE_SILENCE,
    POSITIONS,
    WINDOW,
    EdgeWindows,
    edge_network_bytes,
    fine_features,
    fine_frame_count,
    load_edge_network,
)
from ctc_align.types import Audio

LABELS = ("S", "AH")


def windows(count: int) -> EdgeWindows:
    chance = torch.Generator().manual_seed(count)
    return EdgeWindows(
        torch.randn(count, CHANNELS, WINDOW, generator=chance),
        torch.randint(0, 6, (count,), generator=chance),
        torch.randint(0, 6, (count,), generator=chance),
        torch.randint(0, 3, (count,), generator=chance),
    )


@pytest.mark.parametrize("count", [1, 31, 33, 100])
def test_chances_are_the_same_alone_and_among_others(count: int) -> None:
    network, some = untrained(LABELS), windows(100)
    together = network.chances(some)
    assert together.shape == (100, POSITIONS)
    assert torch.equal(network.chances(some.part(slice(0, count))), together[:count])
    assert torch.equal(network.chances(some.part(slice(99, 100))), together[99:])


def test_networks_of_edges_and_of_confidence_come_back_from_their_files(tmp_path: Path) -> None:
    network = untrained(LABELS)
    network.spread = 1.25
    (tmp_path / FILE).write_bytes(edge_network_bytes(network))
    loaded = load_edge_network(tmp_path)
    assert (loaded.shape, loaded.spread) == (network.shape, 1.25)
    torch.testing.assert_close(loaded.chances(windows(3)), network.chances(windows(3)), atol=1e-2, rtol=0)
    assert load_edge_network(tmp_path / "nowhere") is None
    network, features = made(), np.ones((4, 3), np.float32)
    assert load_confidence_network(tmp_path) is None
    save_confidence_network(network, tmp_path)
    loaded = load_confidence_network(tmp_path)
    assert (loaded.features, loaded.limits) == (network.features, LIMITS)
    np.testing.assert_allclose(loaded.chances(features), network.chances(features), atol=1e-3)
    (tmp_path / CONFIDENCE_FILE).write_bytes(b"no tensors")
    with pytest.raises(ConfigError, match="expected a confidence network"):
        load_confidence_network(tmp_path)


def changed(change: Callable[[dict[str, Any], dict[str, torch.Tensor]], object], path: Path) -> bytes:
    """The file of a network with its description and weights changed."""
    path.write_bytes(edge_network_bytes(untrained(LABELS)))
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["ctc-align"])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    change(about, weights)
    return save(weights, {"ctc-align": json.dumps(about)})


HOSTILE: dict[str, Callable[[dict[str, Any], dict[str, torch.Tensor]], object]] = {
    "another format": lambda about, _: about.update(format="ctc-align-edges/9"),
    "more labels than weights": lambda about, _: about.update(labels=["S", "AH", "M"]),
    "a label twice": lambda about, _: about.update(labels=["S", "S"]),
    "labels that are no texts": lambda about, _: about.update(labels=["S", 1]),
    "a huge width": lambda about, _: about.update(width=10**9),
    "no spread": lambda about, _: about.update(spread=0.0),
    "NaN": lambda _, weights: weights["habit.weight"].fill_(float("nan")),
    "a weight missing": lambda _, weights: weights.pop("output.bias"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_another_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(changed(HOSTILE[name], tmp_path / "whole"))
    with pytest.raises(ConfigError, match="expected a network of edges"):
        load_edge_network(tmp_path)


@pytest.mark.parametrize("size", [0, 7, 100, 5000])
def test_a_file_that_was_cut_off_is_refused(size: int, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(edge_network_bytes(untrained(LABELS))[:size])
    with pytest.raises(ConfigError, match="expected a network of edges"):
        load_edge_network(tmp_path)


# Fine log-mels: a frame is the same whatever is asked for beside it, and loudness makes no difference.


@pytest.fixture(scope="module")
def audio() -> Audio:
    return Audio(babble(14.0), 16000)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (399, 402), (1500, 2100), (2799, 2800)])
def test_a_frame_is_the_same_whatever_others_are_asked_for(audio: Audio, first: int, last: int) -> None:
    whole = fine_features(audio, 0, fine_frame_count(audio))
    assert torch.equal(fine_features(audio, first, last), whole[first:last])


def test_fine_features_beyond_the_ends_and_of_softer_sound(audio: Audio) -> None:
    count = fine_frame_count(audio)
    around = fine_features(audio, -3, count + 2)
    assert around.shape == (count + 5, FINE_MELS)
    assert (around[:3] == FINE_SILENCE).all()
    assert (around[-2:] == FINE_SILENCE).all()
    assert (fine_features(audio, count + 5, count + 9) == FINE_SILENCE).all()
    softer = Audio((0.05 * audio.samples).astype(np.float32), audio.sample_rate)
    np.testing.assert_allclose(fine_features(softer, 0, 500), fine_features(audio, 0, 500), atol=2e-3)


# The confidence network of a model: padding, files.

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
