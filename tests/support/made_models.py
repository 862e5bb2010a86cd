"""Models for tests: tiny networks with random weights, and emissions in which a path is planted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align.models import embedded_folder
from ctc_align.models.convnet.convnet_model import ModelDescription, save_folder
from ctc_align.models.convnet.features import MELS
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.types import Emissions

TINY = NetworkShape(MELS, 6, 16, stem=8, body=8, head=8, dilations=(1, 2))
LETTERS = ("<blank>", "|", *"abcdefghijklmnopqrstuvwxyz", "'")


def tiny_network(shape: NetworkShape = TINY, seed: int = 0) -> AcousticNetwork:
    """Random weights, and statistics of normalisation that are not the identity."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AcousticNetwork(shape)
    randomise_norms(network, generator)
    return network.eval()


def randomise_norms(network: torch.nn.Module, generator: torch.Generator) -> None:
    """Set the running means and variances of normalisation to random values."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.copy_(torch.randn(module.num_features, generator=generator) * 0.3)
            module.running_var.copy_(torch.rand(module.num_features, generator=generator) + 0.5)


def arrays_of(network: AcousticNetwork) -> dict[str, np.ndarray]:
    """The weights of a network, as a file of the model has them."""
    return {
        name: weight.numpy()
        for name, weight in network.state_dict().items()
        if "num_batches" not in name
    }


def tiny_folder(folder: Path, vocab: Sequence[str], seed: int = 0, parts: int = 3) -> Path:
    """A model's folder with a tiny random network over `vocab`, the blank first; `parts` 0: one
    output only."""
    states = parts * (len(vocab) - 1) + 1 if parts else 0
    shape = NetworkShape(MELS, len(vocab), states, stem=8, body=8, head=8, dilations=(1, 2))
    log_priors = torch.full((states,), -float(np.log(states))) if states else None
    description = ModelDescription("tiny", tuple(vocab), shape, parts=parts, token_kind="tokens")
    save_folder(folder, description, tiny_network(shape, seed), log_priors, torch.float32)
    return folder


def planted(
    path: Sequence[str],
    vocab: Sequence[str] = LETTERS,
    frame_shift_s: float = 0.02,
    **fields: object,
) -> Emissions:
    """Emissions that say `path`, one token of `vocab` a frame ("" is the blank), with probability
    0.9 each."""
    blank = int(fields.get("blank", 0))  # type: ignore[call-overload]
    ids = [vocab.index(token) if token else blank for token in path]
    probs = np.full((len(ids), len(vocab)), 0.1 / (len(vocab) - 1), np.float32)
    probs[np.arange(len(ids)), ids] = 0.9
    return Emissions(torch.from_numpy(np.log(probs)), tuple(vocab), frame_shift_s, **fields)  # type: ignore[arg-type]


def random_emissions(
    frames: int, seed: int = 0, vocab: Sequence[str] = LETTERS, parts: int = 0, **fields: object
) -> Emissions:
    """Random emissions with frames of 10 ms; with `parts`, that number of segmentation states for
    each token."""
    generator = torch.Generator().manual_seed(seed)
    log_probs = (2.0 * torch.randn(frames, len(vocab), generator=generator)).log_softmax(1)
    states = (
        torch.randn(frames, (len(vocab) - 1) * parts + 1, generator=generator) if parts else None
    )
    return Emissions(log_probs, tuple(vocab), 0.01, states=states, **fields)  # type: ignore[arg-type]


def spelt(text: str, first: int = 2, each: int = 2, apart: int = 1) -> list[str]:
    """A path of letters: `first` blanks, then each letter for `each` frames, `apart` blanks after
    it; " " is |."""
    path = [""] * first
    for letter in text:
        path += ["|" if letter == " " else letter] * each + [""] * apart
    return path


def tiny_universal(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Put a tiny random model of the phones of all languages beside the English one, as the model
    `universal`."""
    folder.mkdir()
    (folder / "english").symlink_to(embedded_folder("english"), target_is_directory=True)
    monkeypatch.setattr("ctc_align.models.FOLDER", folder)
    made = tiny_folder(folder / "universal", ("<blank>", *IPA_PHONES))
    about = (made / "model.toml").read_text("utf-8")
    (made / "model.toml").write_text(about.replace('name = "tiny"', 'name = "universal"'), "utf-8")
    table = [
        ("language", "script", "hours", "clips"),
        ("nl", "Latin", "1.25", "12"),
        ("cnh", "Latin", "0.1", ""),
        ("ka", "Georgian", "0", "96"),
    ]
    (made / "languages.tsv").write_text(
        "".join("\t".join(row) + "\n" for row in table), encoding="utf-8"
    )
    return made


def among_noise(text: str, rng: np.random.Generator) -> Emissions:
    """Return log-probs in which each letter of a text, and each separator, has a peak of .999 among
    noise letters."""
    x = rng.normal(size=(6 * len(text) + 10, len(LETTERS)))
    x[:, 0] += 4
    x[
        6 * np.arange(len(text)) + 4, [LETTERS.index(letter) for letter in text.replace(" ", "|")]
    ] += 12
    return Emissions(torch.log_softmax(torch.from_numpy(x), 1).float(), LETTERS, 0.02)
