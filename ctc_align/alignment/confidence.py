"""Confidence of tokens and words: how narrow the place of an edge is, and how well the sound beside it fits.

These are the features of a logistic regression whose weights a calibration holds (`Calibration.word_confidence`):
confidence is then the share of words, among those alike, whose edges are both within 50 ms of where a person puts them.
Without a calibration, confidence is the model's own posterior at the spikes: a number that orders words, no frequency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.segmentation import parts_of, sounds_of
from ctc_align.lattice import WILDCARD
from ctc_align.models.calibration import Calibration, probability
from ctc_align.types import Emissions, Tokens

FEATURES = ("constant", "log of the wider edge's spread", "mean fit", "worst fit", "log of the length")
"""Spread and length in frames; fit in nats a frame, 0 where nothing fits better than the sound itself."""

RIGHT_MS = 50
"""An edge is right within so much of the hand label."""


@dataclass(frozen=True)
class Confidences:
    """Confidences in [0, 1] of each token (L,), and of each word that has tokens, in order."""

    tokens: Sequence[float]
    words: Sequence[float]


def confidences(
    emissions: Emissions, tokens: Tokens, spikes: Spans, edges: Spans, calibration: Calibration
) -> Confidences:
    """Return confidences by the calibration, where it has weights and the edges have spreads; else by the spikes alone.

    Args:
        emissions: of the utterance.
        tokens: what is said, wildcards and separators included.
        spikes: where CTC's best path has them.
        edges: where they are in the end.
        calibration: the model's.
    """
    spoken, begins = word_begins(tokens)
    lacking = np.asarray(tokens.ids) == WILDCARD
    ids = np.where(lacking, 0, np.asarray(tokens.ids)).tolist()
    of_token = spike_confidence(emissions.log_probs, ids, spikes)
    # Nothing speaks for a wildcard, which takes any speech; of a word, what is known of it counts.
    of_token[lacking] = 0.0
    lengths = np.diff(begins)
    known = 1.0 - np.add.reduceat(lacking[spoken].astype(np.float64), begins[:-1]) / lengths
    weighed = calibration.word_confidence and calibration.token_confidence
    sound_edges = sound_fits(emissions, tokens, edges, calibration.spread) if weighed else None
    if sound_edges is None:
        of_word = np.array(geometric_means(np.where(lacking, 1.0, of_token)[spoken], begins.tolist()))
        return Confidences(of_token.tolist(), (of_word * known).tolist())
    of_sounds, of_words = sound_edges.features(np.arange(len(spoken) + 1)), sound_edges.features(begins)
    of_token[spoken] = probability(of_sounds, calibration.token_confidence)
    of_token[lacking] = 0.0
    of_word = probability(of_words, calibration.word_confidence) * known
    if calibration.word_presence:
        # An edge of what is not there is nowhere.
        present = probability(of_words, calibration.word_presence)
        of_word = of_word * present
        of_token[spoken] *= np.repeat(present, lengths)
    # More digits than these would be noise of single precision.
    return Confidences(of_token.round(4).tolist(), of_word.round(4).tolist())


def word_begins(tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens of words (L,), and where each word begins among these (W + 1,), the end included."""
    words = np.asarray(tokens.words)
    spoken = np.flatnonzero(words >= 0)
    return spoken, np.append(np.flatnonzero(np.diff(words[spoken], prepend=-1)), len(spoken))


@dataclass(frozen=True)
class SoundFits:
    """The edges (L,) of the sounds of words, with spreads, and how well each sound fits, in nats."""

    edges: Spans
    fits: np.ndarray

    def features(self, begins: np.ndarray) -> np.ndarray:
        """Return `FEATURES` (U, F), float64, of units that have the sounds from begins[u] to begins[u + 1], u < U."""
        begin, final = begins[:-1], begins[1:] - 1
        assert self.edges.start_sd is not None
        assert self.edges.end_sd is not None
        return np.stack(
            (
                np.ones(len(begin)),
                np.log(np.maximum(self.edges.start_sd[begin], self.edges.end_sd[final])),
                np.add.reduceat(self.fits, begin) / np.diff(begins),
                np.minimum.reduceat(self.fits, begin),
                np.log(np.maximum(self.edges.end[final] - self.edges.start[begin], 0.5)),
            ),
            axis=1,
        )


def sound_fits(emissions: Emissions, tokens: Tokens, edges: Spans, spread: float = 1.0) -> SoundFits | None:
    """Return the edges and fits of the sounds that belong to words; None without a segmentation or spreads.

    Args:
        emissions: with segmentation states.
        tokens: what is said; a wildcard fits by 0.
        edges: of all tokens, with their standard deviations.
        spread: what the calibration has multiplied these by.
    """
    if emissions.states is None or edges.start_sd is None or edges.end_sd is None:
        return None
    spoken, sounds = sounds_of(emissions, tokens)
    own = edges.of(spoken)
    lacking = np.asarray(tokens.ids)[spoken] == WILDCARD
    frames = len(emissions.states)
    first = np.minimum(np.floor(own.start + 0.5).astype(np.int64), frames - 1)
    last = np.clip(np.floor(own.end + 0.5).astype(np.int64), first + 1, frames)
    fits = fit_of_sounds(emissions.states, np.where(lacking, 0, sounds), first, last, parts_of(emissions))
    fits[lacking] = 0.0
    return SoundFits(Spans(own.start, own.end, edges.start_sd[spoken] / spread, edges.end_sd[spoken] / spread), fits)


def fit_of_sounds(
    states: torch.Tensor, sounds: np.ndarray, first: np.ndarray, last: np.ndarray, parts: int
) -> np.ndarray:
    """Return (L,) how much worse each sound's best part fits than the best of all states, mean over its frames.

    Args:
        states: (T, K) scores.
        sounds: (L,) its states are sounds * parts … + parts - 1.
        first, last: (L,) frames of each, `last` exclusive, one or more.
        parts: states of a sound.
    """
    begins, frame = _frames_in(first, last)
    own = np.repeat(sounds * parts, last - first)[:, None] + np.arange(parts)
    rows = states[torch.from_numpy(frame).to(states.device)]
    best = rows.gather(1, torch.from_numpy(own).to(states.device)).amax(1)
    short = (best.double() - rows.amax(1)).cpu().numpy()
    return np.add.reduceat(short, begins) / (last - first)


def spike_confidence(log_probs: torch.Tensor, ids: Sequence[int], spikes: Spans) -> np.ndarray:
    """Return the highest posterior of each token over the frames of its spike: (L,) in [0, 1].

    Log-probs (T, C) that are not normalised are normalised first.
    """
    owner = np.repeat(np.arange(len(ids)), spikes.end - spikes.start)
    if not len(owner):
        return np.zeros(len(ids))
    _, frame = _frames_in(spikes.start, spikes.end)
    rows = log_probs[torch.from_numpy(frame).to(log_probs.device)].float()
    classes = torch.from_numpy(np.asarray(ids)[owner]).to(log_probs.device)
    score = rows.gather(1, classes[:, None])[:, 0] - rows.logsumexp(1)
    best = np.full(len(ids), -np.inf)
    np.maximum.at(best, owner, score.cpu().numpy().astype(np.float64))
    return np.exp(np.minimum(best, 0.0))


def _frames_in(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each span's frames begin among those of all spans (L,), and all these frames in a row."""
    lengths = last - first
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return begins, np.repeat(first - begins, lengths) + np.arange(lengths.sum())


def geometric_means(confidence: np.ndarray, begins: Sequence[int]) -> list[float]:
    """Return of each word the geometric mean of its tokens' confidences, from begins[w] to begins[w + 1].

    >>> geometric_means(np.array([1.0, 0.25, 0.25, 0.0]), [0, 1, 3, 4])
    [1.0, 0.25, 0.0]
    """
    logs = np.log(np.maximum(confidence, 1e-12))
    spans = list(pairwise(begins))
    # Word by word: the sums of ufunc.reduceat are rounded in another order than those of one word alone.
    means = [np.add.reduce(logs[start:end]) / (end - start) for start, end in spans]
    values = confidence.tolist()
    return [mean if min(values[start:end]) > 0 else 0.0 for mean, (start, end) in zip(np.exp(means).tolist(), spans)]
