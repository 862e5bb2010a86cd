"""Segments of a corpus by a model of our own, drawn as the aligner draws them: near CTC's path, by the same scores.

So what a model is adapted to, and what it is judged by afterwards, is what it would say: the log-priors, the bonus of
silence and what noise takes from it, and the mixtures have their part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import units
from ctc_align.alignment.ctc_path import Spans, token_spans
from ctc_align.alignment.pronunciations import choose_pronunciations
from ctc_align.alignment.segmentation import segmentation_path
from ctc_align.config import Settings
from ctc_align.errors import InputError
from ctc_align.kernels import batching
from ctc_align.kernels.requests import Steps
from ctc_align.models.convnet import features
from ctc_align.models.convnet.convnet_model import ModelDescription, StateScoring
from ctc_align.models.convnet.gaussian_mixtures import share_of_weight
from ctc_align.models.convnet.network import AcousticNetwork
from ctc_align.training import Watch
from ctc_align.training.corpus_data import Corpus
from ctc_align.training.segmenter import Spoken, chosen_of
from ctc_align.training.training_batches import Material, collate, evaluation_batches
from ctc_align.types import Emissions, Pronunciation, WordTokens

BAND_FRAMES = units.seconds_to_frames(Settings().band_s, features.FRAME_SHIFT_S)


@dataclass(frozen=True)
class OwnSegments:
    """One utterance as a model segments it.

    Attributes:
        spoken: the pronunciations that fit.
        states: (T,) the state of each frame; the last of the model's is silence.
        spans: the frames of its tokens.
    """

    spoken: Spoken
    states: np.ndarray
    spans: Spans

    @property
    def words(self) -> np.ndarray:
        """First frame and last, exclusive, of each word (W, 2)."""
        owners = self.spoken.owners
        first = np.flatnonzero(np.diff(owners, prepend=-1))
        last = np.append(first[1:], len(owners)) - 1
        return np.stack((self.spans.start[first], self.spans.end[last]), 1)


@dataclass(frozen=True)
class CorpusSegmenter:
    """A model that segments utterances of a corpus: its description, and how it scores states."""

    description: ModelDescription
    scoring: StateScoring

    @torch.inference_mode()
    def segments(
        self, network: AcousticNetwork, corpus: Corpus, indices: np.ndarray, watch: Watch | None = None
    ) -> Iterator[tuple[int, OwnSegments]]:
        """Yield the utterances that have a path, and their segments.

        Args:
            network: the model's, or one that was trained further; it is put into evaluation mode.
            corpus: its frames and pronunciations.
            indices: of utterances of the corpus.
            watch: is told how much is done.
        """
        network.eval()
        done = 0
        for part in evaluation_batches(corpus.store.lengths, indices):
            for i, segments in zip(part, batching.run(self._steps(network, corpus, part))):
                if segments is not None:
                    yield i, segments
            done += len(part)
            if watch is not None:
                watch.progress("segmenting", done / len(indices), f"{done} of {len(indices)}")

    def _steps(self, network: AcousticNetwork, corpus: Corpus, part: Sequence[int]) -> list[Steps[OwnSegments | None]]:
        none = [np.zeros(0, np.int16)] * len(corpus.store)
        batch = collate(Material(corpus.store, none, None, corpus.train), part, network.shape.context_frames)
        device = next(network.parameters()).device
        tokens, states = (output.float().cpu() for output in network(batch.inputs.to(device)))
        shares = [share_of_weight(features.statistics_of(corpus.store[i])) for i in part]
        frames = tokens.shape[1] + 2 * network.shape.context_frames
        scores = self.scoring.scores(states, batch.inputs[:, :frames], shares)
        log_probs, vocab = tokens.log_softmax(-1), self.description.vocab
        return [
            own_segments(
                Emissions(log_probs[b, :n], vocab, features.FRAME_SHIFT_S, states=scores[b, :n]),
                _word_tokens(corpus.spoken[i]),
            )
            for b, (i, n) in enumerate(zip(part, batch.lengths.tolist()))
        ]


def own_segments(emissions: Emissions, word_tokens: Sequence[WordTokens]) -> Steps[OwnSegments | None]:
    """Return the segments of an utterance, None if there is no path; the blank is token 0."""
    try:
        chosen, path = yield from choose_pronunciations(emissions.log_probs, word_tokens, None, 0, whole_words=True)
    except InputError:
        return None
    found = yield from segmentation_path(emissions, chosen, path.spans, BAND_FRAMES)
    if found is None:
        return None
    states, topology = found
    spans = token_spans(states, topology.token[0], len(chosen.ids))
    spoken = chosen_of(np.asarray(chosen.ids), np.asarray(chosen.words))
    return OwnSegments(spoken, topology.emit[0][states], spans)


def _word_tokens(spoken: Spoken) -> list[WordTokens]:
    return [
        WordTokens(tuple(Pronunciation(tuple((said + 1).tolist()), ("",) * len(said)) for said in word))
        for word in spoken.words
    ]
