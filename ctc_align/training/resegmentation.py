"""A second segmentation of the training data, by the network and by mixtures together, from which both are trained on.

A network that was trained on a generative segmenter's labels errs where those err by chance, the Gaussians where single
frames mislead: their sum is nearer to hand labels than either. The state of a frame is the one that most segmentations,
weighted by their scores, have there, not that of the best segmentation (see `ctc_align.alignment.segmentation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.kernels import batching
from ctc_align.kernels.requests import Posteriors, Steps
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import REACH, Mixtures, values_of
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.feature_store import FeatureStore, spread
from ctc_align.training.frame_labels import Labels
from ctc_align.training.mixture_fitting import grown
from ctc_align.training.recipe import Refining
from ctc_align.training.training_batches import Material, collate, evaluation_batches


def inputs_of(frames: torch.Tensor) -> torch.Tensor:
    """Return the network's inputs (T + 2 * REACH, MELS) for frames (T, MELS), silence on either side."""
    statistics = features.statistics_of(frames)
    silence = features.silence(statistics).expand(REACH, -1)
    return torch.cat((silence, features.normalise(frames, statistics), silence))


def learn_mixtures(store: FeatureStore, labels: Labels, indices: Sequence[int], states: int, mixtures: int) -> Mixtures:
    """Return mixtures for `Mixtures.log_posteriors`, fitted to those of the utterances that have labels."""
    labelled = [i for i in indices if len(labels.states[i])]
    rows = list(spread(lambda i: values_of(inputs_of(store[i])), labelled))
    every = torch.cat(rows)
    mean, deviation = every.mean(0), every.std(0).clamp_min(1e-3)
    pairs = [
        ((row - mean) / deviation, torch.from_numpy(labels.states[i].astype(np.int64)))
        for i, row in zip(labelled, rows)
    ]
    return grown(pairs, states, mixtures).scaled(mean, deviation)


@dataclass(frozen=True)
class StateScorer:
    """A network, in evaluation mode on the CPU, and mixtures that score segmentation states together.

    `offset` (K,) is added to the network's log-posteriors; `refining` has the weight of the mixtures and the scale of
    the sums.
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
            (row[: len(own)].log_softmax(-1) + self.offset + weight * own) * scale
            for row, own in zip(posteriors, by_mixtures)
        ]


@torch.inference_mode()
def resegmented(scorer: StateScorer, corpus: Corpus, labels: Labels, watch: Watch) -> Labels:
    """Return labels with new states for every utterance that has labels; the tokens are the same."""
    states = [np.empty(0, np.int16)] * len(corpus.store)
    every = np.concatenate((corpus.train, corpus.dev)).tolist()
    labelled = np.array([i for i in every if len(labels.states[i])])
    done = 0
    for part in evaluation_batches(corpus.store.lengths, labelled):
        for i, row in _segmented(scorer, corpus.store, labels, part):
            states[i] = row
        done += len(part)
        watch.progress("segmenting again", done / len(labelled), f"{done} of {len(labelled)}")
    return Labels(labels.targets, states, labels.words)


def _segmented(
    scorer: StateScorer, store: FeatureStore, labels: Labels, part: Sequence[int]
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield utterances and their states (T,), of those that have a path."""
    parts = (len(scorer.offset) - 1) // (scorer.network.shape.classes - 1)
    scores = scorer.scores(Material(store, labels.targets, None, np.asarray(part)), part)
    steps = [_likely_states(row, labels.targets[i] - 1, labels.words[i], parts) for i, row in zip(part, scores)]
    for i, states in zip(part, batching.run(steps)):
        if states is not None:
            yield i, states


def _likely_states(
    scores: torch.Tensor, phones: np.ndarray, owners: np.ndarray, parts: int
) -> Steps[np.ndarray | None]:
    """Ask for the posteriors of an utterance's states; return the likeliest of each frame, None without a path."""
    occupancy = yield Posteriors(scores, lattice.segmentation([phones], [owners], parts, scores.shape[1] - 1))
    return None if occupancy is None else occupancy.argmax(1).numpy().astype(np.int16)
