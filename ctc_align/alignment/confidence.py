"""What speaks for an edge being right: how narrow its place is, and how well the sound beside it fits.

The features of a logistic regression whose weights a calibration holds (`Calibration.word_confidence`): confidence is
then the share of words, among those alike, whose edges are both within 50 ms of where a person puts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.alignment.edges import Edges, Utterance
from ctc_align.alignment.segmentation import parts_of
from ctc_align.alignment.spike_confidence import token_confidence, word_confidences
from ctc_align.lattice.topology import WILDCARD
from ctc_align.models.calibration import Calibration, probability

FEATURES = ("constant", "log of the wider edge's spread", "mean fit", "worst fit", "log of the length")
"""Spread and length in frames; fit in nats a frame, 0 where nothing fits better than the sound itself."""

RIGHT_MS = 50
"""An edge is right within so much of the hand label."""


def fit_of_sounds(
    states: torch.Tensor, sounds: np.ndarray, first: np.ndarray, last: np.ndarray, parts: int
) -> np.ndarray:
    """(L,) how much worse each sound's best part fits than the best of all states, mean over its frames.

    Args:
        states: (T, K) scores.
        sounds: (L,) its states are sounds * parts … + parts - 1.
        first, last: (L,) frames of each, `last` exclusive, one or more.
    """
    scores = states.numpy()
    lengths = last - first
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    frame = np.repeat(first - begins, lengths) + np.arange(lengths.sum())
    own = np.repeat(sounds * parts, lengths)[:, None] + np.arange(parts)
    rows = scores[frame]
    short = np.take_along_axis(rows, own, 1).max(1).astype(np.float64) - rows.max(1)
    return np.add.reduceat(short, begins) / lengths


def features(
    start: np.ndarray, end: np.ndarray, start_sd: np.ndarray, end_sd: np.ndarray, fits: np.ndarray, edges: np.ndarray
) -> np.ndarray:
    """(W, F) of words that have the sounds from edges[w] to edges[w + 1].

    Args:
        start, end, start_sd, end_sd: (L,) of the sounds, in frames.
        fits: (L,) see `fit_of_sounds`.
        edges: (W + 1,) with edges[0] = 0 and edges[W] = L.
    """
    begin, final = edges[:-1], edges[1:] - 1
    widest = np.maximum(start_sd[begin], end_sd[final])
    return np.stack(
        (
            np.ones(len(begin)),
            np.log(widest),
            np.add.reduceat(fits, begin) / np.diff(edges),
            np.minimum.reduceat(fits, begin),
            np.log(np.maximum(end[final] - start[begin], 0.5)),
        ),
        axis=1,
    )


@dataclass(frozen=True)
class Confidences:
    """Of each token (L,), and of each word that has any, in order; in [0, 1]."""

    tokens: Sequence[float]
    words: Sequence[float]


def confidences(given: Utterance, edges: Edges, calibration: Calibration) -> Confidences:
    """By the calibration, where the edges' spreads are known and it has weights; else by the tokens' spikes alone."""
    said = given.said
    words = np.asarray(given.tokens.words)[said]
    begins = np.flatnonzero(np.diff(words, prepend=-1))
    of_words = np.append(begins, len(said))
    ids = np.asarray(given.tokens.ids)
    lacking = ids == WILDCARD
    spiked = token_confidence(given.emissions.log_probs, np.where(lacking, 0, ids).tolist(), given.spikes)
    # Nothing speaks for a wildcard, which takes any speech; of a word, what is known of it counts.
    spiked[lacking] = 0.0
    known = 1.0 - np.add.reduceat(lacking[said].astype(np.float64), begins) / np.diff(of_words)
    weighed = calibration.word_confidence and calibration.token_confidence
    if not weighed or edges.start_sd is None or edges.end_sd is None or given.emissions.states is None:
        of_word = np.array(word_confidences(np.where(lacking, 1.0, spiked)[said], of_words.tolist()))
        return Confidences(spiked.tolist(), (of_word * known).tolist())
    start, end = edges.start[said], edges.end[said]
    start_sd, end_sd = edges.start_sd[said] / calibration.spread, edges.end_sd[said] / calibration.spread
    first = np.minimum(np.floor(start + 0.5).astype(np.int64), len(given.emissions.states) - 1)
    last = np.clip(np.floor(end + 0.5).astype(np.int64), first + 1, len(given.emissions.states))
    sounds = np.where(lacking, 0, ids - (ids > given.emissions.blank))[said]
    fits = fit_of_sounds(given.emissions.states, sounds, first, last, parts_of(given.emissions))
    fits[lacking[said]] = 0.0
    column = (start, end, start_sd, end_sd, fits)
    spiked[said] = probability(features(*column, np.arange(len(said) + 1)), calibration.token_confidence)
    spiked[lacking] = 0.0
    of_word = probability(features(*column, of_words), calibration.word_confidence) * known
    if calibration.word_presence:
        # An edge of what is not there is nowhere.
        there = probability(features(*column, of_words), calibration.word_presence)
        of_word = of_word * there
        spiked[said] *= np.repeat(there, np.diff(of_words))
    # More digits than these would be noise of single precision.
    return Confidences(spiked.round(4).tolist(), of_word.round(4).tolist())
