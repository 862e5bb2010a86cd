"""Segmentation of the training data by a generative model, from a flat start: edges lie where the sound changes.

Every token (a phone or a letter) is a few states in a row, silence is one state, each a mixture of Gaussians. Viterbi
training (Juang and Rabiner 1990) begins with states of equal length between the first and the last loud frame, and
alternates: Gaussians from the labels, labels from the Gaussians; the number of Gaussians doubles from round to round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import Mixtures
from ctc_align.training import Watch
from ctc_align.training.feature_store import FeatureStore, spread
from ctc_align.training.mixture_fitting import cepstra, estimate
from ctc_align.types import WordTokens

PARTS = 3
"""Default number of states of a phone."""

QUIET_NATS = 7.0
BATCH = 16


@dataclass(frozen=True)
class Spoken:
    """The words of an utterance: for each its pronunciations (phone indices), and which one is chosen."""

    words: tuple[tuple[np.ndarray, ...], ...]
    choice: tuple[int, ...]

    @staticmethod
    def of(words: Sequence[WordTokens]) -> Spoken:
        """Return the words that have pronunciations; token 0, the blank, is not counted here."""
        said = [tuple(np.asarray(p.ids) - 1 for p in word.pronunciations) for word in words if word.pronunciations]
        return Spoken(tuple(said), (0,) * len(said))

    @property
    def phones(self) -> np.ndarray:
        """Phone indices (L,)."""
        return np.concatenate([word[k] for word, k in zip(self.words, self.choice)])

    @property
    def owners(self) -> np.ndarray:
        """Word of each phone (L,)."""
        return np.concatenate([np.full(len(word[k]), w) for w, (word, k) in enumerate(zip(self.words, self.choice))])


def chosen_of(targets: np.ndarray, owners: np.ndarray) -> Spoken:
    """Return words with one pronunciation each, from token ids (L,), the blank 0, and the word of each (L,)."""
    words = tuple((targets[owners == word].astype(np.int64) - 1,) for word in np.unique(owners))
    return Spoken(words, (0,) * len(words))


@dataclass(frozen=True)
class Round:
    """A round of training: `realignments` with `mixtures` Gaussians a state, on the first `utterances` in the order."""

    mixtures: int
    realignments: int
    utterances: int


class Segmenter:
    """Viterbi training over a corpus; `spoken[i]` belongs to `store[i]`."""

    def __init__(
        self, store: FeatureStore, spoken: dict[int, Spoken], phones: int, watch: Watch, parts: int = PARTS
    ) -> None:
        self.store, self.spoken, self.watch, self.parts = store, dict(spoken), watch, parts
        self.silence = phones * parts
        self.states = self.silence + 1
        self.mixtures: Mixtures | None = None

    def train(self, order: Sequence[int], rounds: Sequence[Round]) -> None:
        """Run the rounds, the first from a flat start, on the first utterances of `order`."""
        for number, plan in enumerate(rounds):
            indices, score = list(order[: plan.utterances]), float("nan")
            data = self._cepstra(indices)
            if self.mixtures is None:
                labels = {i: self._flat(i) for i in indices}
                self.mixtures = estimate(((data[i], labels[i]) for i in indices), self.states)
            else:
                labels = self._realigned(indices, data)[0]
            while self.mixtures.means.shape[1] < plan.mixtures:
                self.mixtures = self.mixtures.doubled()
                for _ in range(3):
                    self.mixtures = estimate(((data[i], labels[i]) for i in labels), self.states, self.mixtures)
            for turn in range(plan.realignments):
                line = f"round {number + 1} of {len(rounds)}, {plan.mixtures} Gaussians a state"
                self.watch.progress("segmenting", (number + turn / plan.realignments) / len(rounds), line)
                labels, score = self._realigned(indices, data)
                old = self.mixtures if plan.mixtures > 1 else None
                self.mixtures = estimate(((data[i], labels[i]) for i in labels), self.states, old)
            self.watch.say(
                f"segments: {plan.mixtures} Gaussians a state, {len(indices)} utterances: {score:.3f} per frame"
            )

    def label(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield utterances and the state of every frame (T,), of those that have a path."""
        for begin in range(0, len(indices), BATCH):
            part = list(indices[begin : begin + BATCH])
            for i, labels, _, _ in self._paths(part, self._cepstra(part)):
                yield i, labels

    def choose_pronunciations(self, indices: Sequence[int]) -> int:
        """Choose, word by word, the pronunciation that fits its frames best; return the number of changed words."""
        changed = 0
        for begin in range(0, len(indices), BATCH):
            part = [i for i in indices[begin : begin + BATCH] if any(len(word) > 1 for word in self.spoken[i].words)]
            data = self._cepstra(part)
            for i, _, _, tokens in list(self._paths(part, data)):
                choice = self._best_choice(i, data[i], tokens)
                changed += sum(a != b for a, b in zip(choice, self.spoken[i].choice))
                self.spoken[i] = Spoken(self.spoken[i].words, choice)
        return changed

    def _best_choice(self, i: int, x: torch.Tensor, tokens: np.ndarray) -> tuple[int, ...]:
        assert self.mixtures is not None
        spoken, owners = self.spoken[i], self.spoken[i].owners
        word_of_frame = np.where(tokens >= 0, owners[tokens], -1)
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
        topology = lattice.segmentation(phones, [np.zeros(len(p)) for p in phones], self.parts, self.silence)
        padded = torch.nn.utils.rnn.pad_sequence(windows, batch_first=True)
        scores = kernels.best_path(padded, topology, [len(window) for window in windows]).scores.tolist()
        best: dict[int, float] = {}
        for (w, k), score in zip(jobs, scores):
            if score > best.get(w, float("-inf")):
                best[w], choice[w] = score, k
        return tuple(choice)

    def _cepstra(self, indices: Sequence[int]) -> dict[int, torch.Tensor]:
        return dict(zip(indices, spread(lambda i: cepstra(self.store[i]), indices)))

    def _flat(self, i: int) -> torch.Tensor:
        frames = self.store[i]
        level = features.level(frames)
        loud = torch.nonzero(level > features.statistics_of(frames).loud - QUIET_NATS)[:, 0]
        first, last = int(loud[0]), int(loud[-1]) + 1
        states = (self.spoken[i].phones[:, None] * self.parts + np.arange(self.parts)).reshape(-1)
        labels = torch.full((len(frames),), self.silence)
        labels[first:last] = torch.from_numpy(states[(np.arange(last - first) * len(states)) // (last - first)])
        return labels

    def _realigned(self, indices: list[int], data: dict[int, torch.Tensor]) -> tuple[dict[int, torch.Tensor], float]:
        labels, total, frames = {}, 0.0, 0
        order = sorted(indices, key=lambda i: len(data[i]))
        for begin in range(0, len(order), BATCH):
            for i, states, score, _ in self._paths(order[begin : begin + BATCH], data):
                labels[i] = torch.from_numpy(states)
                total, frames = total + score, frames + len(states)
        return labels, total / max(1, frames)

    def _paths(
        self, part: list[int], data: dict[int, torch.Tensor]
    ) -> Iterator[tuple[int, np.ndarray, float, np.ndarray]]:
        """Yield utterance, state of every frame, score, and token of every frame (-1 in silence)."""
        if not part:
            return
        assert self.mixtures is not None
        scores = list(spread(self.mixtures.scores, [data[i] for i in part]))
        spoken = [self.spoken[i] for i in part]
        topology = lattice.segmentation(
            [s.phones for s in spoken], [s.owners for s in spoken], self.parts, self.silence
        )
        lengths = [len(row) for row in scores]
        path = kernels.best_path(torch.nn.utils.rnn.pad_sequence(scores, batch_first=True), topology, lengths)
        for b, i in enumerate(part):
            if path.scores[b] > float("-inf"):
                states = path.states[b, : lengths[b]].numpy()
                yield i, topology.emit[b][states].astype(np.int64), float(path.scores[b]), topology.token[b][states]
