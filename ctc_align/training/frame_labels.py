"""Targets and a state for every frame of a corpus: by the generative segmenter, then by network and mixtures together.

A network that was trained on a generative segmenter's labels errs where these err by chance, the Gaussians where single
frames mislead: their sum is nearer to hand labels than either. So the second segmentation uses both, and both are
trained on from it. There, the state of a frame is the one with the highest posterior over all segmentations, not that
of the best segmentation (see `ctc_align.alignment.segmentation`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.errors import InputError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import KernelSteps, Posteriors
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import REACH, Mixtures, values_of
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus, FeatureStore, Spoken, spread
from ctc_align.training.recipe import Recipe, Refining, SegmenterPlan
from ctc_align.training.segmenter import Segmenter, grow_mixtures
from ctc_align.training.training_batches import Material, collate, evaluation_batches

EM_STEPS = 4
"""After each doubling of the mixtures for the second segmentation."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Labels:
    """Token ids for CTC, a state for each frame, and the word of each token, for every utterance of a store.

    All three are empty for an utterance without labels.
    """

    targets: list[np.ndarray]
    states: list[np.ndarray]
    words: list[np.ndarray]

    def log_priors(self, indices: Iterable[int], states: int) -> np.ndarray:
        """Return the log shares (K,) float32 of the states' frames in these utterances."""
        count = np.bincount(np.concatenate([self.states[i] for i in indices]), minlength=states) + 1.0
        return np.log(count / count.sum()).astype(np.float32)


def load_or_make(path: Path, corpus: Corpus, make: Callable[[], Labels]) -> Labels:
    """Return the labels in a file, or, without the file, those of `make`, and write them there.

    Raises:
        InputError: the file has labels of another corpus.
    """
    if not path.exists():
        made = make()
        part = path.with_suffix(".part.npz")
        rows = _packed("labels", made.states) | _packed("targets", made.targets) | _packed("words", made.words)
        np.savez(part, **rows)  # type: ignore[arg-type]
        os.replace(part, path)
    with np.load(path) as data:
        labels = Labels(_unpacked(data, "targets"), _unpacked(data, "labels"), _unpacked(data, "words"))
    frames = [len(row) for row in labels.states]
    if len(frames) != len(corpus.store) or any(n not in (0, m) for n, m in zip(frames, corpus.store.lengths)):
        raise InputError(f"{path}: these labels belong to another corpus; remove them, or take another folder")
    return labels


def from_nothing(corpus: Corpus, recipe: Recipe, tokens: int, watch: Watch) -> Labels:
    """Return the labels of the generative segmenter, trained from a flat start."""
    plan = recipe.segmenter
    segmenter = Segmenter(corpus.store, corpus.spoken, tokens, watch, recipe.states_per_token)
    order = teaching_order(corpus, plan, recipe.seed)
    segmenter.train(order, plan.rounds[: plan.choose_after])
    everything = np.concatenate((corpus.train, corpus.dev)).tolist()
    if any(len(word) > 1 for spoken in corpus.spoken.values() for word in spoken.words):
        watch.say(f"{segmenter.choose_pronunciations(everything)} words take another pronunciation")
    segmenter.train(order, plan.rounds[plan.choose_after :])
    return collected(len(corpus.store), segmenter.spoken, segmenter.label(everything))


def teaching_order(corpus: Corpus, plan: SegmenterPlan, seed: int) -> list[int]:
    """Return the utterances to train Gaussians on, in a random order: the short ones, if there are any."""
    short = corpus.train[corpus.store.lengths[corpus.train] <= plan.longest_s / features.FRAME_SHIFT_S]
    order: list[int] = np.random.default_rng(seed).permutation(short if len(short) else corpus.train).tolist()
    return order


def collected(count: int, spoken: dict[int, Spoken], states: Iterable[tuple[int, np.ndarray]]) -> Labels:
    """Return labels for a store of `count` utterances from pronunciations and (utterance, states)."""
    labels = Labels(*([np.empty(0, np.int16)] * count for _ in range(3)))
    for i, row in states:
        labels.states[i] = row.astype(np.int16)
    for i, words in spoken.items():
        labels.targets[i] = (words.phones + 1).astype(np.int16)
        labels.words[i] = words.owners.astype(np.int16)
    return labels


def _packed(name: str, rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.concatenate(rows), f"{name}_starts": np.cumsum([0, *map(len, rows)])}


def _unpacked(data: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    values, starts = data[name], data[f"{name}_starts"]
    return [values[a:b] for a, b in itertools.pairwise(starts)]


def run_in_batches(
    store: FeatureStore,
    indices: np.ndarray,
    steps_of: Callable[[list[int]], Sequence[KernelSteps[Result | None]]],
    watch: Watch,
    stage: str,
) -> Iterator[tuple[int, Result]]:
    """Yield utterances of a store with the results of their steps, without those whose result is None.

    `steps_of` returns the steps of a batch of utterances of similar length; `stage` is the name for `watch`.
    """
    done = 0
    for part in evaluation_batches(store.lengths, indices):
        for i, result in zip(part, batching.run(steps_of(part))):
            if result is not None:
                yield i, result
        done += len(part)
        watch.progress(stage, done / len(indices), f"{done} of {len(indices)}")


def inputs_of(frames: torch.Tensor) -> torch.Tensor:
    """Return the network's inputs (T + 2 * REACH, MELS) for frames (T, MELS), with silence on either side."""
    statistics = features.statistics_of(frames)
    silence = features.silence(statistics).expand(REACH, -1)
    return torch.cat((silence, features.normalise(frames, statistics), silence))


def learn_mixtures(store: FeatureStore, labels: Labels, indices: Sequence[int], states: int, mixtures: int) -> Mixtures:
    """Return mixtures for `Mixtures.log_posteriors`, fitted to the utterances that have labels."""
    labelled = [i for i in indices if len(labels.states[i])]
    rows = list(spread(lambda i: values_of(inputs_of(store[i])), labelled))
    every = torch.cat(rows)
    mean, deviation = every.mean(0), every.std(0).clamp_min(1e-3)
    pairs = [
        ((row - mean) / deviation, torch.from_numpy(labels.states[i].astype(np.int64)))
        for i, row in zip(labelled, rows)
    ]
    return grow_mixtures(pairs, states, mixtures, EM_STEPS).scaled(mean, deviation)


@dataclass(frozen=True)
class StateScorer:
    """A network, in evaluation mode on the CPU, and mixtures that score segmentation states together.

    The score of a state is scale × (log P(state) by the network + `offset` (K,) + weight × log P(state) by the
    mixtures); `refining` has the scale and the weight.
    """

    network: AcousticNetwork
    offset: torch.Tensor
    mixtures: Mixtures
    refining: Refining

    def scores(self, material: Material, indices: Sequence[int]) -> list[torch.Tensor]:
        """Return the scores (T, K) of the states in each utterance."""
        batch = collate(material, indices, self.network.shape.context_frames)
        posteriors = self.network(batch.inputs)[1]
        assert posteriors is not None
        by_mixtures = list(spread(lambda i: self.mixtures.log_posteriors(inputs_of(material.store[i])), indices))
        weight, scale = self.refining.mixture_weight, self.refining.scale
        return [
            (row[: len(other)].log_softmax(-1) + self.offset + weight * other) * scale
            for row, other in zip(posteriors, by_mixtures)
        ]

    def steps(self, store: FeatureStore, labels: Labels, part: Sequence[int]) -> list[KernelSteps[np.ndarray | None]]:
        """Return the steps towards the likeliest states of utterances with the tokens of `labels`."""
        parts = lattice.states_per_sound(len(self.offset), self.network.shape.classes)
        scores = self.scores(Material(store, labels.targets, None, np.asarray(part)), part)
        return [_likely_states(row, labels.targets[i] - 1, labels.words[i], parts) for i, row in zip(part, scores)]


@torch.inference_mode()
def resegmented(scorer: StateScorer, corpus: Corpus, labels: Labels, watch: Watch) -> Labels:
    """Return the labels with the scorer's states for every utterance that has labels."""
    states = [np.empty(0, np.int16)] * len(corpus.store)
    every = np.concatenate((corpus.train, corpus.dev)).tolist()
    labelled = np.array([i for i in every if len(labels.states[i])])
    steps_of = partial(scorer.steps, corpus.store, labels)
    for i, row in run_in_batches(corpus.store, labelled, steps_of, watch, "segmenting again"):
        states[i] = row
    return Labels(labels.targets, states, labels.words)


def _likely_states(
    scores: torch.Tensor, phones: np.ndarray, owners: np.ndarray, parts: int
) -> KernelSteps[np.ndarray | None]:
    """Request the posteriors of an utterance's states and return the likeliest of each frame, None without a path."""
    occupancy = yield Posteriors(scores, lattice.segmentation([phones], [owners], parts, scores.shape[1] - 1))
    return None if occupancy is None else occupancy.argmax(1).numpy().astype(np.int16)
