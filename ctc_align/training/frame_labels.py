"""Targets and a state for every frame of a corpus.

They come from the generative segmenter, then from network and mixtures together. The segmenter
begins from a flat start; its edges are where the sound changes. Every token (a phone or a letter)
is a sequence of a few states, and silence is one state; each state is a mixture of diagonal
Gaussians. Viterbi training (Juang and Rabiner 1990) begins with states of equal length between the
first and the last loud frame. It alternates between Gaussians from the labels, by EM within each
state, and labels from the Gaussians; the number of Gaussians doubles in each round.

A network trained on a generative segmenter's labels reproduces their random errors, and the
Gaussians are misled by single frames; the sum of their scores is closer to hand labels than either.
So the second segmentation uses both, and both are then trained further on it. There, the state of a
frame is the one with the highest posterior over all segmentations, not that of the best
segmentation (see `ctc_align.alignment.segmentation`).
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

from ctc_align import kernels, lattice
from ctc_align.errors import InputError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import Posteriors, StageSteps
from ctc_align.kernels.log_space import log_softmax
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import (
    REACH,
    VALUES,
    Mixtures,
    cepstra_of,
    values_of,
    with_differences,
)
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus, FeatureStore, Spoken, spread
from ctc_align.training.recipe import Recipe, Refining, SegmenterPlan
from ctc_align.training.training_batches import Material, collate, evaluation_batches

SMALLEST_VARIANCE = 0.05
"""Least variance, of values with deviation 1.

A Gaussian of few frames does not collapse onto them.
"""
FEWEST_FRAMES = 10
PARTS = 3
"""Default number of states of a phone."""
QUIET_NATS = 7.0
"""A flat start assumes that frames at most this far below the loud ones are speech: 30 dB."""
BATCH = 16
Labelled = tuple[np.ndarray, np.ndarray]
"""Values (T, D) of the frames of an utterance, and their states (T,) int64."""


def cepstra(frames: np.ndarray) -> np.ndarray:
    """Return 13 cepstra of log-mel frames (T, MELS) with differences: (T, 39).

    The differences are first and second ones; all have mean 0 and deviation 1.
    """
    floor = features.floor_of(features.statistics_of(frames).loud)
    values = with_differences(cepstra_of(np.maximum(frames, floor)))
    return np.asarray((values - values.mean(0)) / np.maximum(values.std(0), np.float32(1e-3)))


def grow_mixtures(
    labelled: Sequence[Labelled],
    states: int,
    mixtures: int,
    steps: int,
    old: Mixtures | None = None,
) -> Mixtures:
    """Return `mixtures` Gaussians a state, doubled from `old` or from one each.

    After each doubling there are `steps` of EM.
    """
    fitted = old or estimate(labelled, states)
    while fitted.means.shape[1] < mixtures:
        fitted = fitted.doubled()
        for _ in range(steps):
            fitted = estimate(labelled, states, fitted)
    return fitted


def estimate(labelled: Sequence[Labelled], states: int, old: Mixtures | None = None) -> Mixtures:
    """Return the mixtures after one step of EM within each of K `states`.

    Without `old` they are a single Gaussian each. The responsibilities come from `old`, whose
    Gaussians of fewer than `FEWEST_FRAMES` frames stay as they are.
    """
    mixtures = old.means.shape[1] if old else 1
    gaussians = states * mixtures
    sums = np.zeros((gaussians, 1 + 2 * VALUES))

    def sums_of(pair: Labelled) -> np.ndarray:
        """Return sums over frames of responsibility × (1, x, x²)."""
        x, state = pair
        share = np.zeros((len(x), gaussians), np.float32)
        gaussian = state[:, None] * mixtures + np.arange(mixtures)
        np.put_along_axis(
            share, gaussian, _responsibility(x, state, old) if old else np.float32(1.0), 1
        )
        return np.asarray(share.T @ np.concatenate((np.ones((len(x), 1), np.float32), x, x * x), 1))

    for part in spread(sums_of, labelled):
        sums += part
    count, first, second = np.split(sums.reshape(states, mixtures, -1), (1, VALUES + 1), axis=2)
    number = np.maximum(count, 1e-3)
    means = first / number
    variances = np.maximum(second / number - means**2, SMALLEST_VARIANCE)
    if old is not None:
        rare = count < FEWEST_FRAMES
        means, variances = (
            np.where(rare, old.means, means),
            np.where(rare, old.variances, variances),
        )
    # one more frame for each Gaussian: none gets the weight 0
    weights = np.log((count + 1.0) / (count + 1.0).sum(1, keepdims=True))[:, :, 0]
    return Mixtures(*(part.astype(np.float32) for part in (weights, means, variances)))


def _responsibility(x: np.ndarray, state: np.ndarray, mixtures: Mixtures) -> np.ndarray:
    """Return the posterior (T, M) of each Gaussian of the frame's state."""
    means, variances = mixtures.means[state], mixtures.variances[state]
    constant = mixtures.weights - np.float32(0.5) * np.log(mixtures.variances).sum(-1)
    joint = constant[state] - np.float32(0.5) * ((x[:, None] - means) ** 2 / variances).sum(-1)
    return np.exp(log_softmax(joint))


class Segmenter:
    """Viterbi training over a corpus; `spoken[i]` belongs to `store[i]`."""

    def __init__(
        self,
        store: FeatureStore,
        spoken: dict[int, Spoken],
        phones: int,
        watch: Watch,
        parts: int = PARTS,
    ) -> None:
        self.store = store
        self.spoken = dict(spoken)
        self.watch = watch
        self.parts = parts
        self.silence = phones * parts
        self.states = self.silence + 1
        self.mixtures: Mixtures | None = None

    def train(self, order: Sequence[int], rounds: Sequence[tuple[int, int, int]]) -> None:
        """Run the rounds, the first one from a flat start.

        Args:
            order: indices of utterances.
            rounds: (Gaussians a state, realignments, number of utterances, the first of `order`).
        """
        for number, (gaussians, realignments, utterances) in enumerate(rounds):
            indices = list(order[:utterances])
            score = float("nan")
            data = self._cepstra(indices)
            if self.mixtures:
                labels = self._realigned(indices, data)[0]
            else:
                labels = {i: self._flat(i) for i in indices}
            labelled = [(data[i], labels[i]) for i in labels]
            self.mixtures = grow_mixtures(labelled, self.states, gaussians, 3, self.mixtures)
            for turn in range(realignments):
                line = f"round {number + 1} of {len(rounds)}, {gaussians} Gaussians a state"
                self.watch.progress(
                    "segmenting", (number + turn / realignments) / len(rounds), line
                )
                labels, score = self._realigned(indices, data)
                labelled = [(data[i], labels[i]) for i in labels]
                self.mixtures = estimate(
                    labelled, self.states, self.mixtures if gaussians > 1 else None
                )
            self.watch.say(
                f"segments: {gaussians} Gaussians a state, {len(indices)} utterances: {score:.3f}"
                " per frame"
            )

    def label(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the utterances that have a path, and the state of every frame (T,)."""
        for begin in range(0, len(indices), BATCH):
            part = list(indices[begin : begin + BATCH])
            for i, labels, _, _ in self._paths(part, self._cepstra(part)):
                yield i, labels

    def choose_pronunciations(self, indices: Sequence[int]) -> int:
        """Choose, word by word, the pronunciation that fits its frames best.

        Return the number of changed words.
        """
        changed = 0
        for begin in range(0, len(indices), BATCH):
            part = [
                i
                for i in indices[begin : begin + BATCH]
                if any(len(word) > 1 for word in self.spoken[i].words)
            ]
            data = self._cepstra(part)
            for i, _, _, tokens in list(self._paths(part, data)):
                choice = self._best_choice(i, data[i], tokens)
                changed += sum(a != b for a, b in zip(choice, self.spoken[i].choice))
                self.spoken[i] = Spoken(self.spoken[i].words, choice)
        return changed

    def _best_choice(self, i: int, x: np.ndarray, tokens: np.ndarray) -> tuple[int, ...]:
        """Return the pronunciation of each word whose best path scores highest.

        Paths are over the word's present frames.
        """
        assert self.mixtures is not None
        spoken = self.spoken[i]
        owners = self.spoken[i].owners
        word_of_frame = np.where(tokens >= 0, owners[tokens], -1)
        # each pronunciation of a word is scored by its best path through the frames that the word
        # has now
        jobs, windows = [], []
        for w, word in enumerate(spoken.words):
            frames = np.flatnonzero(word_of_frame == w)
            if len(word) > 1 and len(frames):
                window = self.mixtures.scores(x[frames[0] : frames[-1] + 1])
                jobs += [(w, k) for k in range(len(word))]
                windows += [window] * len(word)
        choice = list(spoken.choice)
        if not jobs:
            return tuple(choice)
        phones = [spoken.words[w][k] for w, k in jobs]
        topology = lattice.segmentation(
            phones, [np.zeros(len(p)) for p in phones], self.parts, self.silence
        )
        scores = kernels.best_path(
            _padded(windows), topology, [len(window) for window in windows]
        ).scores.tolist()
        best: dict[int, float] = {}
        for (w, k), score in zip(jobs, scores):
            if score > best.get(w, float("-inf")):
                best[w] = score
                choice[w] = k
        return tuple(choice)

    def _cepstra(self, indices: Sequence[int]) -> dict[int, np.ndarray]:
        return dict(zip(indices, spread(lambda i: cepstra(self.store[i]), indices)))

    def _flat(self, i: int) -> np.ndarray:
        """Return states of equal length between the first and the last loud frame.

        Around them is silence.
        """
        frames = self.store[i]
        level = features.level(frames)
        loud = np.flatnonzero(level > features.statistics_of(frames).loud - QUIET_NATS)
        first = int(loud[0])
        last = int(loud[-1]) + 1
        states = (self.spoken[i].phones[:, None] * self.parts + np.arange(self.parts)).reshape(-1)
        labels = np.full(len(frames), self.silence)
        labels[first:last] = states[(np.arange(last - first) * len(states)) // (last - first)]
        return labels

    def _realigned(
        self, indices: list[int], data: dict[int, np.ndarray]
    ) -> tuple[dict[int, np.ndarray], float]:
        labels = {}
        total = 0.0
        frames = 0
        order = sorted(indices, key=lambda i: len(data[i]))
        for begin in range(0, len(order), BATCH):
            for i, states, score, _ in self._paths(order[begin : begin + BATCH], data):
                labels[i] = states
                total = total + score
                frames = frames + len(states)
        return labels, total / max(1, frames)

    def _paths(
        self, part: list[int], data: dict[int, np.ndarray]
    ) -> Iterator[tuple[int, np.ndarray, float, np.ndarray]]:
        """Yield utterance, state of every frame, score, and token of every frame.

        The token is -1 in silence.
        """
        if not part:
            return
        assert self.mixtures is not None
        scores = list(spread(self.mixtures.scores, [data[i] for i in part]))
        spoken = [self.spoken[i] for i in part]
        topology = lattice.segmentation(
            [s.phones for s in spoken], [s.owners for s in spoken], self.parts, self.silence
        )
        lengths = [len(row) for row in scores]
        path = kernels.best_path(_padded(scores), topology, lengths)
        for b, i in enumerate(part):
            if path.scores[b] > float("-inf"):
                states = path.states[b, : lengths[b]].numpy()
                yield (
                    i,
                    topology.emit[b][states].astype(np.int64),
                    float(path.scores[b]),
                    topology.token[b][states],
                )


def _padded(rows: Sequence[np.ndarray]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.from_numpy(row) for row in rows], batch_first=True
    )


EM_STEPS = 4
"""After each doubling of the mixtures for the second segmentation."""
Result = TypeVar("Result")


@dataclass(frozen=True)
class Labels:
    """Labels for every utterance of a store.

    They are token ids for CTC, a state for each frame, and the word of each token. All three are
    empty for an utterance without labels.
    """

    targets: list[np.ndarray]
    states: list[np.ndarray]
    words: list[np.ndarray]

    def log_priors(self, indices: Iterable[int], states: int) -> np.ndarray:
        """Return the log shares (K,) float32 of the states' frames in these utterances."""
        count = (
            np.bincount(np.concatenate([self.states[i] for i in indices]), minlength=states) + 1.0
        )
        return np.log(count / count.sum()).astype(np.float32)


def load_or_make(path: Path, corpus: Corpus, make: Callable[[], Labels]) -> Labels:
    """Return the labels in a file, or, without the file, those of `make`, and write them there.

    Raises:
        InputError: the file has labels of a different corpus.
    """
    if not path.exists():
        made = make()
        part = path.with_suffix(".part.npz")
        rows = (
            _packed("labels", made.states)
            | _packed("targets", made.targets)
            | _packed("words", made.words)
        )
        np.savez(part, **rows)  # type: ignore[arg-type]
        os.replace(part, path)
    with np.load(path) as data:
        labels = Labels(
            _unpacked(data, "targets"), _unpacked(data, "labels"), _unpacked(data, "words")
        )
    frames = [len(row) for row in labels.states]
    if len(frames) != len(corpus.store) or any(
        n not in (0, m) for n, m in zip(frames, corpus.store.lengths)
    ):
        raise InputError(
            f"{path}: these labels belong to a different corpus; remove them, or choose another"
            " folder"
        )
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
    """Return the utterances to train Gaussians on, in a random order.

    They are the short ones, if there are any.
    """
    short = corpus.train[
        corpus.store.lengths[corpus.train] <= plan.longest_s / features.FRAME_SHIFT_S
    ]
    order: list[int] = (
        np.random.default_rng(seed).permutation(short if len(short) else corpus.train).tolist()
    )
    return order


def collected(
    count: int, spoken: dict[int, Spoken], states: Iterable[tuple[int, np.ndarray]]
) -> Labels:
    """Return labels for a store of `count` utterances.

    They come from pronunciations and (utterance, states).
    """
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
    values = data[name]
    starts = data[f"{name}_starts"]
    return [values[a:b] for a, b in itertools.pairwise(starts)]


def run_in_batches(
    store: FeatureStore,
    indices: np.ndarray,
    steps_of: Callable[[list[int]], Sequence[StageSteps[Result | None]]],
    watch: Watch,
    stage: str,
) -> Iterator[tuple[int, Result]]:
    """Yield utterances of a store with the results of their steps.

    Those whose result is None are left out. `steps_of` returns the steps of a batch of utterances
    of similar length; `stage` is the name for `watch`.
    """
    done = 0
    for part in evaluation_batches(store.lengths, indices):
        for i, result in zip(part, batching.run(steps_of(part))):
            if result is not None:
                yield i, result
        done += len(part)
        watch.progress(stage, done / len(indices), f"{done} of {len(indices)}")


def mixture_values(frames: np.ndarray) -> np.ndarray:
    """Return the values (T, VALUES) that mixtures score, for frames (T, MELS) between silence."""
    statistics = features.statistics_of(frames)
    silence = features.silence(statistics)[None].repeat(REACH, 0)
    return values_of(np.concatenate((silence, features.normalise(frames, statistics), silence)))


def learn_mixtures(
    store: FeatureStore, labels: Labels, indices: Sequence[int], states: int, mixtures: int
) -> Mixtures:
    """Return mixtures for `Mixtures.log_posteriors`, fitted to the utterances that have labels."""
    labelled = [i for i in indices if len(labels.states[i])]
    rows = list(spread(lambda i: mixture_values(store[i]), labelled))
    every = np.concatenate(rows)
    mean = every.mean(0, np.float64)
    deviation = np.maximum(every.std(0, np.float64), 1e-3)
    pairs = [
        (((row - mean) / deviation).astype(np.float32), labels.states[i].astype(np.int64))
        for i, row in zip(labelled, rows)
    ]
    return grow_mixtures(pairs, states, mixtures, EM_STEPS).scaled(mean, deviation)


@dataclass(frozen=True)
class StateScorer:
    """A network and mixtures that score segmentation states together.

    The network is in evaluation mode on the CPU. The score of a state is scale × (log P(state) by
    the network + `offset` (K,) + weight × log P(state) by the mixtures); `refining` has the scale
    and the weight.
    """

    network: AcousticNetwork
    offset: np.ndarray
    mixtures: Mixtures
    refining: Refining

    def scores(self, material: Material, indices: Sequence[int]) -> list[torch.Tensor]:
        """Return the scores (T, K) of the states in each utterance."""
        batch = collate(material, indices, self.network.shape.context_frames)
        posteriors = self.network(batch.inputs)[1]
        assert posteriors is not None
        by_mixtures = spread(
            lambda i: self.mixtures.log_posteriors(mixture_values(material.store[i])), indices
        )
        weight, scale = self.refining.mixture_weight, self.refining.scale
        return [
            (row[: len(other)].log_softmax(-1) + torch.from_numpy(self.offset + weight * other))
            * scale
            for row, other in zip(posteriors, by_mixtures)
        ]

    def steps(
        self, store: FeatureStore, labels: Labels, part: Sequence[int]
    ) -> list[StageSteps[np.ndarray | None]]:
        """Return the steps towards the likeliest states of utterances.

        Their tokens are those of `labels`.
        """
        parts = lattice.states_per_sound(len(self.offset), self.network.shape.classes)
        scores = self.scores(Material(store, labels.targets, None, np.asarray(part)), part)
        return [
            _likely_states(row, labels.targets[i] - 1, labels.words[i], parts)
            for i, row in zip(part, scores)
        ]


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
) -> StageSteps[np.ndarray | None]:
    """Return the likeliest state of each frame, None without a path.

    On the way it requests the posteriors of the utterance's states.
    """
    topology = lattice.segmentation([phones], [owners], parts, scores.shape[1] - 1)
    occupancy = yield Posteriors(scores.numpy(), topology)
    if occupancy is None:
        return None
    return occupancy.argmax(1).astype(np.int16)
