"""Training of the network: it learns, it is seeded, and a stopped run goes on as if it had not been."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import frames, make_corpus

from ctc_align.errors import InputError
from ctc_align.models.features import MELS
from ctc_align.models.network import Network, NetworkShape
from ctc_align.training import acoustic
from ctc_align.training.acoustic import Material, Training, evaluate, train
from ctc_align.training.augment import Augmentation
from ctc_align.training.store import build, read_manifest

PHONES = 39
SHAPE = NetworkShape(MELS, PHONES + 1, PHONES * 3 + 1, stem=8, body=8, head=8, dilations=(1,))
QUICK = Training(epochs=2, batch_s=4.0, warmup_steps=2, dropout=0.3, bfloat16=False, seed=3)
CALM = Augmentation(noise=0.0, warp=0.0, band_limit=0.0, mask_channels=0)


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    folder = tmp_path_factory.mktemp("corpus")
    made = make_corpus(folder, utterances=12, dev=4)
    store = build(read_manifest(folder / "manifest.jsonl", ("train", "dev")), folder / "features")
    labels = []
    for length, one in zip(store.lengths, made):
        row = np.full(int(length), PHONES * 3, np.int16)
        for phone, start, end in zip(one.phones, frames(one.starts), frames(one.ends)):
            row[start:end] = phone * 3 + np.arange(end - start) * 3 // max(1, end - start)
        labels.append(row)
    return Material(store, [np.array(one.phones) + 1 for one in made], labels, np.arange(8))


def silent(_: str) -> None:
    pass


def weights(network: Network) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_same(one: Network, two: Network) -> None:
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name


def test_the_same_seed_gives_the_same_network(material: Material, tmp_path: Path) -> None:
    one = train(SHAPE, QUICK, material, tmp_path / "a", say=silent)
    assert_same(one, train(SHAPE, QUICK, material, tmp_path / "b", say=silent))
    other = train(SHAPE, replace(QUICK, seed=4), material, tmp_path / "c", say=silent)
    assert not torch.equal(one.tokens.weight, other.tokens.weight)


@pytest.mark.parametrize("stop_after", [1, 4])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """Dropout and augmentation are on: both must go on where they stood."""
    straight = train(SHAPE, QUICK, material, tmp_path / "straight", say=silent)
    real, saved = acoustic._save, []

    def stopping(path: Path, state: object) -> None:
        real(path, state)
        saved.append(path.name)
        if len(saved) == stop_after:
            raise StoppedError

    often = replace(QUICK, checkpoint_s=-1.0)
    monkeypatch.setattr(acoustic, "_save", stopping)
    with pytest.raises(StoppedError):
        train(SHAPE, often, material, tmp_path / "stopped", say=silent)
    torch.rand(7)
    resumed = train(SHAPE, often, material, tmp_path / "stopped", say=silent)
    assert_same(straight, resumed)
    assert len(saved) == len(list(range(saved.index("final.pt")))) + 1
    assert not list((tmp_path / "stopped").glob("*.part"))


def test_a_checkpoint_without_the_generators_state_is_read(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = replace(QUICK, checkpoint_s=-1.0)
    train(SHAPE, often, material, tmp_path, say=silent)
    (tmp_path / "final.pt").unlink()
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    del state["random"]
    torch.save(state, tmp_path / "checkpoint.pt")
    again = train(SHAPE, often, material, tmp_path, say=silent)
    assert torch.equal(again.tokens.weight, state["network"]["tokens.weight"])  # all steps were done


def test_a_finished_run_is_not_done_again(material: Material, tmp_path: Path) -> None:
    other = Network(SHAPE)
    torch.save(other.state_dict(), tmp_path / "final.pt")
    lines: list[str] = []
    found = train(SHAPE, QUICK, material, tmp_path, say=lines.append)
    assert_same(other, found)
    assert not found.training
    assert lines == []


@pytest.mark.parametrize("name", ["final.pt", "checkpoint.pt"])
def test_the_state_of_another_network_is_an_error(material: Material, tmp_path: Path, name: str) -> None:
    other = Network(replace(SHAPE, body=10)).state_dict()
    torch.save(other if name == "final.pt" else {"network": other, "optimizer": {}, "step": 1}, tmp_path / name)
    with pytest.raises(InputError, match=rf"{name}: expected the state of this recipe's network"):
        train(SHAPE, QUICK, material, tmp_path, say=silent)
    (tmp_path / name).write_bytes(b"cut")
    with pytest.raises(InputError, match="damaged"):
        train(SHAPE, QUICK, material, tmp_path, say=silent)


def test_it_learns_what_is_said_and_where(material: Material, tmp_path: Path) -> None:
    lines: list[str] = []
    calm = replace(QUICK, epochs=25, dropout=0.0, learning_rate=1e-2, augmentation=CALM)
    untrained = evaluate(Network(SHAPE), calm, material, np.arange(8))
    network = train(SHAPE, calm, material, tmp_path, say=lines.append)
    before, after = ([float(part.split("/")[0]) for part in line.split()[1::2]] for line in (
        untrained, evaluate(network, calm, material, np.arange(8))
    ))  # fmt: skip
    assert after[0] < 0.5 * before[0]
    assert after[1] < 0.6 * before[1]
    assert any("ctc" in line and "frame" in line for line in lines)


def test_starting_weights_are_taken_where_they_fit(material: Material, tmp_path: Path) -> None:
    start = weights(Network(replace(SHAPE, states=5)))
    still = replace(QUICK, learning_rate=0.0, weight_decay=0.0)
    network = train(SHAPE, still, material, tmp_path, start=start, say=silent)
    assert torch.equal(network.tokens.weight, start["tokens.weight"])
    assert network.states is not None
    assert network.states.weight.shape[0] == SHAPE.states


def test_utterances_without_labels_or_too_long_for_their_sound_do_no_harm(material: Material, tmp_path: Path) -> None:
    """No labels at all in a batch, and a target that does not fit: losses and weights stay numbers."""
    empty = [np.empty(0, np.int16)] * len(material.store)
    targets = [np.ones(5000, np.int64), *material.targets[1:]]
    alone = replace(QUICK, batch_s=0.1, epochs=1)
    lines: list[str] = []
    network = train(SHAPE, alone, replace(material, labels=empty, targets=targets), tmp_path, say=lines.append)
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
    assert "nan" not in lines[-1]


def test_nothing_to_train_on_is_an_error(material: Material, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected utterances to train on"):
        train(SHAPE, QUICK, replace(material, members=np.empty(0, int)), tmp_path, say=silent)
    assert evaluate(Network(SHAPE), QUICK, material, np.empty(0, int)) == "no utterances"


def test_the_rate_warms_up_and_ends_near_zero() -> None:
    training = Training(learning_rate=1.0, warmup_steps=10)
    rates = [acoustic._rate(training, step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert max(rates) == rates[9]
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(0.01, abs=0.002)
    assert math.isfinite(acoustic._rate(replace(training, warmup_steps=0), 0, 100))
