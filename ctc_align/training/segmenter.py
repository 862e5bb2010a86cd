"""Segmentation of the training data by a generative model, from a flat start: edges lie where the sound changes.

Every token (a phone or a letter) is a few states in a row, silence is one state, each a mixture of diagonal Gaussians.
Viterbi training (Juang and Rabiner 1990) begins with states of equal length between the first and the last loud frame,
and alternates: Gaussians from the labels by EM within each state, labels from the Gaussians; the number of Gaussians
doubles from round to round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import VALUES, Mixtures, cepstra_of, with_differences
from ctc_align.training import Watch
from ctc_align.training.corpus_data import FeatureStore, Spoken, spread

SMALLEST_VARIANCE = 0.05
"""Least variance, of values with deviation 1, so that a Gaussian of few frames does not collapse onto them."""
FEWEST_FRAMES = 10
PARTS = 3
"""Default number of states of a phone."""
QUIET_NATS = 7.0
"""A flat start takes frames at most this far below the loud ones for speech: 30 dB."""
BATCH = 16
Labelled = tuple[torch.Tensor, torch.Tensor]
"""Values (T, D) of the frames of an utterance, and their states (T,) int64."""


def cepstra(frames: torch.Tensor) -> torch.Tensor:
    """Return 13 cepstra of log-mel frames (T, MELS) with first and second differences (T, 39): mean 0, deviation 1."""
    floor = features.floor_of(features.statistics_of(frames).loud)
    values = with_differences(cepstra_of(torch.maximum(frames, floor)))
    return (values - values.mean(0)) / values.std(0).clamp_min(1e-3)


def grow_mixtures(
    labelled: Sequence[Labelled], states: int, mixtures: int, steps: int, old: Mixtures | None = None
) -> Mixtures:
    """Return `mixtures` Gaussians a state, doubled from `old`, or from one each, with `steps` of EM each time."""
    fitted = old or estimate(labelled, states)
    while fitted.means.shape[1] < mixtures:
        fitted = fitted.doubled()
        for _ in range(steps):
            fitted = estimate(labelled, states, fitted)
    return fitted


def estimate(labelled: Sequence[Labelled], states: int, old: Mixtures | None = None) -> Mixtures:
    """Return the mixtures after one step of EM within each of K `states`; without `old`, a single Gaussian each.

    The responsibilities come from `old`, whose Gaussians of fewer than `FEWEST_FRAMES` frames stay as they are.
    """
    mixtures = old.means.shape[1] if old else 1
    gaussians = states * mixtures
    sums = torch.zeros(gaussians, 1 + 2 * VALUES, dtype=torch.float64)

    def sums_of(pair: Labelled) -> torch.Tensor:
        """Return sums over frames of responsibility × (1, x, x²)."""
        x, state = pair
        share = torch.zeros(len(x), gaussians)
        gaussian = state[:, None] * mixtures + torch.arange(mixtures)
        share.scatter_(1, gaussian, _responsibility(x, state, old) if old else torch.ones(len(x), 1))
        return share.T @ torch.cat((torch.ones(len(x), 1), x, x * x), 1)

    for part in spread(sums_of, labelled):
        sums += part
    count = sums[:, 0].view(states, mixtures)
    first, second = sums[:, 1 : VALUES + 1], sums[:, VALUES + 1 :]
    number = count.view(-1, 1).clamp_min(1e-3)
    means = (first / number).view(states, mixtures, VALUES)
    variances = (second / number).view(states, mixtures, VALUES) - means**2
    variances = variances.clamp_min(SMALLEST_VARIANCE)
    if old is not None:
        rare = (count < FEWEST_FRAMES)[:, :, None]
        means = torch.where(rare, old.means.double(), means)
        variances = torch.where(rare, old.variances.double(), variances)
    # one more frame for each Gaussian: none gets the weight 0
    weights = ((count + 1.0) / (count + 1.0).sum(1, keepdim=True)).log()
    return Mixtures(weights.float(), means.float(), variances.float())


def _responsibility(x: torch.Tensor, state: torch.Tensor, mixtures: Mixtures) -> torch.Tensor:
    """Return the posterior (T, M) of each Gaussian of the frame's state."""
    means, variances = mixtures.means[state], mixtures.variances[state]
    constant = mixtures.weights - 0.5 * mixtures.variances.log().sum(-1)
    joint = constant[state] - 0.5 * ((x[:, None] - means) ** 2 / variances).sum(-1)
    return joint.softmax(-1)


class Segmenter:
    """Viterbi training over a corpus; `spoken[i]` belongs to `store[i]`."""

    def __init__(
        self, store: FeatureStore, spoken: dict[int, Spoken], phones: int, watch: Watch, parts: int = PARTS
    ) -> None:
        self.store, self.spoken, self.watch, self.parts = store, dict(spoken), watch, parts
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
            indices, score = list(order[:utterances]), float("nan")
            data = self._cepstra(indices)
            labels = self._realigned(indices, data)[0] if self.mixtures else {i: self._flat(i) for i in indices}
            labelled = [(data[i], labels[i]) for i in labels]
            self.mixtures = grow_mixtures(labelled, self.states, gaussians, 3, self.mixtures)
            for turn in range(realignments):
                line = f"round {number + 1} of {len(rounds)}, {gaussians} Gaussians a state"
                self.watch.progress("segmenting", (number + turn / realignments) / len(rounds), line)
                labels, score = self._realigned(indices, data)
                labelled = [(data[i], labels[i]) for i in labels]
                self.mixtures = estimate(labelled, self.states, self.mixtures if gaussians > 1 else None)
            self.watch.say(f"segments: {gaussians} Gaussians a state, {len(indices)} utterances: {score:.3f} per frame")

    def label(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the utterances that have a path, and the state of every frame (T,)."""
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
        """Return the pronunciation of each word whose best path over the word's present frames scores highest."""
        assert self.mixtures is not None
        spoken, owners = self.spoken[i], self.spoken[i].owners
        word_of_frame = np.where(tokens >= 0, owners[tokens], -1)
        # each pronunciation of a word is scored by its best path through the frames that the word has now
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
        """Return states of equal length between the first and the last loud frame, silence around them."""
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
