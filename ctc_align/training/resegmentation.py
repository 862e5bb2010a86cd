"""A second segmentation of the training data, by the network and by mixtures together, from which both go on.

A network that learned from a generative segmenter's labels errs where those err by chance, the Gaussians where single
frames mislead: their sum is nearer to what people draw than either. The state of a frame is the one that most
segmentations, weighted by their scores, have there, not that of the best of them (see
`ctc_align.alignment.edge_posteriors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.kernels.requests import pad
from ctc_align.models.convnet import features
from ctc_align.models.convnet.gaussian_mixtures import REACH, Mixtures, values_of
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.feature_store import FeatureStore
from ctc_align.training.frame_labels import Labels
from ctc_align.training.held_out_losses import EVALUATION_FRAMES
from ctc_align.training.mixture_fitting import grown
from ctc_align.training.progress import Watch
from ctc_align.training.recipe import Refining
from ctc_align.training.thread_map import spread
from ctc_align.training.training_batches import collate, plan


def inputs_of(frames: torch.Tensor) -> torch.Tensor:
    """Frames (T, MELS) as the network sees them, with silence beside them: (T + 2 * REACH, MELS)."""
    statistics = features.statistics_of(frames)
    silence = features.silence(statistics).expand(REACH, -1)
    return torch.cat((silence, features.normalise(frames, statistics), silence))


def learn_mixtures(store: FeatureStore, found: Labels, members: Sequence[int], states: int, mixtures: int) -> Mixtures:
    """Mixtures of what `Mixtures.log_posteriors` takes, from the members that have labels."""
    chosen = [i for i in members if len(found.states[i])]
    rows = list(spread(lambda i: values_of(inputs_of(store[i])), chosen))
    every = torch.cat(rows)
    mean, deviation = every.mean(0), every.std(0).clamp_min(1e-3)
    pairs = [
        ((row - mean) / deviation, torch.from_numpy(found.states[i].astype(np.int64))) for i, row in zip(chosen, rows)
    ]
    return grown(pairs, states, mixtures).scaled(mean, deviation)


@torch.inference_mode()
def resegmented(
    network: AcousticNetwork,
    offset: torch.Tensor,
    mixtures: Mixtures,
    corpus: Corpus,
    found: Labels,
    refining: Refining,
    watch: Watch,
) -> Labels:
    """A state for every frame of what has labels; the tokens stay as they are.

    Args:
        network: in evaluation mode, on the CPU.
        offset: (K,) what is added to its log-posteriors of the states.
    """
    states = [np.empty(0, np.int16)] * len(corpus.store)
    members = np.array([i for i in np.concatenate((corpus.train, corpus.dev)).tolist() if len(found.states[i])])
    done = 0
    for places in plan(corpus.store.lengths[members], EVALUATION_FRAMES, 0, 0):
        part = members[places].tolist()
        for i, row in _segmented(network, offset, mixtures, corpus.store, found, part, refining):
            states[i] = row
        done += len(part)
        watch.progress("segmenting again", done / len(members), f"{done} of {len(members)}")
    return Labels(found.targets, states, found.words)


def _segmented(
    network: AcousticNetwork,
    offset: torch.Tensor,
    mixtures: Mixtures,
    store: FeatureStore,
    found: Labels,
    part: Sequence[int],
    refining: Refining,
) -> Iterator[tuple[int, np.ndarray]]:
    batch = collate(store, part, found.targets, None, network.shape.context_frames, None)
    posteriors = network(batch.inputs)[1]
    assert posteriors is not None
    near = list(spread(lambda i: mixtures.log_posteriors(inputs_of(store[i])), part))
    rows = [
        (row[: len(own)].log_softmax(-1) + offset + refining.mixture_weight * own) * refining.scale
        for row, own in zip(posteriors, near)
    ]
    parts = (len(offset) - 1) // (network.shape.classes - 1)
    topology = lattice.segmentation(
        [found.targets[i] - 1 for i in part], [found.words[i] for i in part], parts, len(offset) - 1
    )
    scores, lengths = pad(rows)
    met = kernels.occupancy(scores, topology, lengths)
    for b, i in enumerate(part):
        if met.scores[b] > float("-inf"):
            yield i, met.posteriors[b, : len(rows[b])].argmax(1).numpy().astype(np.int16)
