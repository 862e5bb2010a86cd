"""How well the sounds of words fit where they are: nats that they fall short of what fits best, spreads of edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.segmentation import parts_of, sounds_of
from ctc_align.lattice import WILDCARD
from ctc_align.reading.rows_on_disk import TensorOnDisk
from ctc_align.types import Emissions, Tokens

FEATURES = ("constant", "log of the wider edge's spread", "mean fit", "worst fit", "log of the length")
"""Spread and length in frames; fit in nats a frame, 0 where nothing fits better than the sound itself."""


PIECE_FRAMES = 2**16
"""Frames whose log-probs or states are copied together."""


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
    states: torch.Tensor | TensorOnDisk, sounds: np.ndarray, first: np.ndarray, last: np.ndarray, parts: int
) -> np.ndarray:
    """Return (L,) how much worse each sound's best part fits than the best of all states, mean over its frames.

    Args:
        states: (T, K) scores.
        sounds: (L,) its states are sounds * parts … + parts - 1.
        first, last: (L,) frames of each, `last` exclusive, one or more.
        parts: states of a sound.
    """
    if not len(sounds):
        return np.zeros(0)
    short = []
    piece = first // PIECE_FRAMES
    edges = [0, *(np.flatnonzero(np.diff(piece)) + 1).tolist(), len(sounds)]
    for low, high in pairwise(edges):
        begin, end = int(first[low:high].min()), int(last[low:high].max())
        _, frame = _frames_in(first[low:high] - begin, last[low:high] - begin)
        own = np.repeat(sounds[low:high] * parts, (last - first)[low:high])[:, None] + np.arange(parts)
        rows = states[begin:end][torch.from_numpy(frame).to(states.device)]
        best = rows.gather(1, torch.from_numpy(own).to(states.device)).amax(1)
        short.append((best.double() - rows.amax(1)).cpu().numpy())
    begins, _ = _frames_in(first, last)
    return np.add.reduceat(np.concatenate(short), begins) / (last - first)


def spike_confidence(log_probs: torch.Tensor, ids: Sequence[int], spikes: Spans) -> np.ndarray:
    """Return the highest posterior of each token over the frames of its spike: (L,) in [0, 1].

    Log-probs (T, C) that are not normalised are normalised first.
    """
    owner = np.repeat(np.arange(len(ids)), spikes.end - spikes.start)
    if not len(owner):
        return np.zeros(len(ids))
    _, frame = _frames_in(spikes.start, spikes.end)
    of_token = np.asarray(ids)
    best = np.full(len(ids), -np.inf)
    for low in range(0, len(frame), PIECE_FRAMES):
        piece = slice(low, low + PIECE_FRAMES)
        rows = log_probs[torch.from_numpy(frame[piece]).to(log_probs.device)].float()
        classes = torch.from_numpy(of_token[owner[piece]]).to(log_probs.device)
        score = rows.gather(1, classes[:, None])[:, 0] - rows.logsumexp(1)
        np.maximum.at(best, owner[piece], score.cpu().numpy().astype(np.float64))
    return np.exp(np.minimum(best, 0.0))


def _frames_in(first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each span's frames begin among those of all spans (L,), and all these frames in a row."""
    lengths = last - first
    begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    return begins, np.repeat(first - begins, lengths) + np.arange(lengths.sum())
