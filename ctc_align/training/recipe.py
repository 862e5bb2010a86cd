"""The recipe of the English model, from recordings and their texts to a model folder.

    python -m ctc_align.training --config configs/train-english.toml --manifest MANIFEST.jsonl --out DIR

Stages, each kept in DIR and not done again: `features` (log-mel frames), `labels.npz` (pronunciations and a state for
every frame, by the generative segmenter), `network` (checkpoints), `model` (the result). The same seed gives the same
batches; a run that was stopped goes on.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ctc_align.errors import InputError
from ctc_align.models import features
from ctc_align.models.convnet import Description, save_folder
from ctc_align.models.network import Network, NetworkShape
from ctc_align.text import split
from ctc_align.text.phones import PHONES
from ctc_align.tokens import PhoneTokenizer, tokenize
from ctc_align.training import acoustic
from ctc_align.training.segmenter import PARTS, Round, Segmenter, Spoken
from ctc_align.training.store import FeatureStore, build, read_manifest

BLANK = "<blank>"


@dataclass(frozen=True)
class NetworkSizes:
    """See `ctc_align.models.network.NetworkShape`."""

    stem: int = 128
    body: int = 256
    head: int = 128
    dilations: tuple[int, ...] = (1, 2, 1, 4, 1, 8, 2, 4)


@dataclass(frozen=True)
class SegmenterPlan:
    """Rounds of the segmenter as [Gaussians, realignments, utterances]; pronunciations are chosen after round
    `choose_after` (from 1). Utterances longer than `longest_s` do not teach it."""

    rounds: tuple[tuple[int, int, int], ...] = ((1, 12, 800), (2, 3, 1600), (4, 3, 2400), (4, 3, 2400))
    choose_after: int = 3
    longest_s: float = 12.0


@dataclass(frozen=True)
class Recipe:
    """What `configs/train-english.toml` says."""

    name: str = "english"
    seed: int = 1
    longest_s: float = 36.0
    prior_scale: float = 1.0
    silence_bonus: float = 0.0
    network: NetworkSizes = field(default_factory=NetworkSizes)
    segmenter: SegmenterPlan = field(default_factory=SegmenterPlan)
    training: acoustic.Training = field(default_factory=lambda: acoustic.Training(epochs=12))


@dataclass(frozen=True)
class Corpus:
    """Frames and pronunciations of the utterances that can be used, train and dev apart."""

    store: FeatureStore
    spoken: dict[int, Spoken]
    train: np.ndarray
    dev: np.ndarray


def run(recipe: Recipe, manifest: Path, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Go through all stages; returns the model's folder."""
    torch.manual_seed(recipe.seed)
    corpus = prepare(recipe, manifest, folder, say)
    targets, labels = segment(recipe, corpus, folder, say)
    states = len(PHONES) * PARTS + 1
    sizes = recipe.network
    shape = NetworkShape(
        features.MELS, len(PHONES) + 1, states, sizes.stem, sizes.body, sizes.head, tuple(sizes.dilations)
    )
    material = acoustic.Material(corpus.store, targets, labels, corpus.train)
    network = acoustic.train(shape, recipe.training, material, folder / "network", say=say)
    say("dev: " + acoustic.evaluate(network, recipe.training, material, corpus.dev))
    export(recipe, network, [labels[i] for i in corpus.train], folder / "model")
    return folder / "model"


def prepare(recipe: Recipe, manifest: Path, folder: Path, say: Callable[[str], None]) -> Corpus:
    """Frames and pronunciations of the manifest's `train` and `dev` utterances."""
    utterances = read_manifest(manifest, ("train", "dev"))
    if not any(utterance.split == "train" for utterance in utterances):
        raise InputError(f"{manifest}: expected utterances of the split 'train', met none")
    say(f"{len(utterances)} utterances, {sum(u.duration_s for u in utterances) / 3600:.2f} h")
    store = build(utterances, folder / "features", lambda n: say(f"features: {n}") if n % 1000 == 0 else None)
    tokenizer = PhoneTokenizer((BLANK, *PHONES))
    spoken = {}
    for i, utterance in enumerate(utterances):
        words = tokenize(split(utterance.text), tokenizer)
        said = tuple(tuple(np.asarray(p.ids) - 1 for p in word.pronunciations) for word in words if word.pronunciations)
        if said and not any(word.missing for word in words):
            first = Spoken(said, (0,) * len(said))
            if len(first.phones) * PARTS < store.lengths[i] <= recipe.longest_s / features.FRAME_SHIFT_S:
                spoken[i] = first
    usable = np.array(sorted(spoken), int)
    is_dev = np.array([utterances[i].split == "dev" for i in usable], bool)
    say(f"{len(usable)} can be used, {len(utterances) - len(usable)} are too long, too short or not in English letters")
    if is_dev.all():
        raise InputError(f"{manifest}: none of the utterances of the split 'train' can be used")
    return Corpus(store, spoken, usable[~is_dev], usable[is_dev])


def segment(
    recipe: Recipe, corpus: Corpus, folder: Path, say: Callable[[str], None]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """CTC targets and state labels of every utterance (empty for those that cannot be used)."""
    path = folder / "labels.npz"
    if not path.exists():
        labels, targets = _segment(recipe, corpus, say)
        part = folder / "labels.part.npz"
        np.savez(part, **_packed("labels", labels), **_packed("targets", targets))
        os.replace(part, path)
    with np.load(path) as data:
        targets, labels = _unpacked(data, "targets"), _unpacked(data, "labels")
    frames = [len(row) for row in labels]
    if len(frames) != len(corpus.store) or any(n not in (0, m) for n, m in zip(frames, corpus.store.lengths)):
        raise InputError(f"{path}: these labels belong to another manifest; remove them, or take another folder")
    return targets, labels


def _segment(recipe: Recipe, corpus: Corpus, say: Callable[[str], None]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    plan = recipe.segmenter
    segmenter = Segmenter(corpus.store, corpus.spoken, len(PHONES), say)
    short = corpus.train[corpus.store.lengths[corpus.train] <= plan.longest_s / features.FRAME_SHIFT_S]
    order = np.random.default_rng(recipe.seed).permutation(short).tolist()
    rounds = [Round(*numbers) for numbers in plan.rounds]
    segmenter.train(order, rounds[: plan.choose_after])
    everything = np.concatenate((corpus.train, corpus.dev)).tolist()
    say(f"{segmenter.choose_pronunciations(everything)} words take another pronunciation")
    segmenter.train(order, rounds[plan.choose_after :])
    labels: list[np.ndarray] = [np.empty(0, np.int16)] * len(corpus.store)
    for i, states in segmenter.label(everything):
        labels[i] = states.astype(np.int16)
    targets = [np.empty(0, np.int16)] * len(corpus.store)
    for i, spoken in segmenter.spoken.items():
        targets[i] = (spoken.phones + 1).astype(np.int16)
    return labels, targets


def export(recipe: Recipe, network: Network, labels: Sequence[np.ndarray], folder: Path) -> None:
    """The model folder: weights in half precision, log-priors of the states, and what they are."""
    count = np.bincount(np.concatenate(labels), minlength=network.shape.states) + 1.0
    log_priors = torch.from_numpy(np.log(count / count.sum())).float()
    description = Description(
        recipe.name, (BLANK, *PHONES), network.shape, PARTS, recipe.prior_scale, recipe.silence_bonus, "phones"
    )
    save_folder(folder, description, network, log_priors, torch.float16)


def _packed(name: str, rows: Sequence[np.ndarray]) -> dict[str, Any]:
    return {name: np.concatenate(rows), f"{name}_starts": np.cumsum([0, *map(len, rows)])}


def _unpacked(data: Any, name: str) -> list[np.ndarray]:
    values, starts = data[name], data[f"{name}_starts"]
    return [values[a:b] for a, b in itertools.pairwise(starts)]
