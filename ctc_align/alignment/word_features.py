"""Features of aligned words that tell whether they are where they were put: fit, length, and the sound around them.

They are what a model's confidence network sees (`ctc_align.models.confidence_network`), which looks at the words around
each word too. They are those of one utterance alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.sound_fits import SoundFits, word_begins
from ctc_align.lattice import WILDCARD
from ctc_align.types import Emissions, Tokens

NAMES = (
    *("spread", "mean fit", "worst fit", "frames", "tokens", "mean spike", "worst spike", "shortfall"),
    *("labels before", "labels after", "gap before", "gap after", "speech before", "speech after"),
    *("silence inside", "frames a token", "labels a token", "entropy", "frames to the start", "frames to the end"),
    *("frames of the first sound", "of the last", "of the longest", "start to its spike", "spike to the end"),
    *("share of likely spikes", "share of likely fits"),
)
"""The columns of `word_features`."""

MOST_NATS = 12.0
"""A frame that is worse by so much is as wrong as can be."""
LIKELY_SPIKE_NATS, LIKELY_FIT_NATS = -1.2, -1.5
"""A sound that is likely there has a greater log-probability of its spike, and a greater fit."""
PIECE_FRAMES = 2**15
"""Frames that are looked at together: their copies are all that long recordings take beyond six numbers a frame."""
SPEECH_NATS, SILENCE_NATS = 2.0, -1.0
"""A sound fits speech better than silence by at least, and silence by at most, so many nats."""


def word_features(
    emissions: Emissions, tokens: Tokens, spikes: Spans, fits: SoundFits, at_spikes: np.ndarray
) -> np.ndarray:
    """Return the features `NAMES` (W, F), float32, of the W words that have tokens.

    Args:
        emissions: of the utterance, with segmentation states.
        tokens: what is said, wildcards and separators included.
        spikes: where CTC's best path has them.
        fits: of the sounds that belong to words.
        at_spikes: (sounds,), their `spike_confidence`.
    """
    spoken, begins = word_begins(tokens)
    begin, final, lengths = begins[:-1], begins[1:] - 1, np.diff(begins)
    ids = np.where(np.asarray(tokens.ids) == WILDCARD, 0, np.asarray(tokens.ids))
    spike = np.log(np.maximum(at_spikes, 1e-6))
    sound = _SoundSums.of(emissions, ids, spikes)
    frames = len(emissions.log_probs)
    start = np.clip(np.floor(fits.edges.start[begin] + 0.5).astype(np.int64), 0, frames - 1)
    end = np.clip(np.floor(fits.edges.end[final] + 0.5).astype(np.int64), start + 1, frames)
    before = np.minimum(np.append(0, end[:-1]), start)
    after = np.maximum(np.append(start[1:], frames), end)
    sound_frames = np.log(np.maximum(fits.edges.end - fits.edges.start, 0.5))
    inside = (end - start).astype(np.float64)
    columns = (
        *fits.features(begins).T[1:],
        np.log(lengths),
        np.add.reduceat(spike, begin) / lengths,
        np.minimum.reduceat(spike, begin),
        _between(sound.shortfall, start, end) / lengths,
        np.log1p(_between(sound.labels_for_blank, before, start)),
        np.log1p(_between(sound.labels_for_blank, end, after)),
        np.log1p(start - before),
        np.log1p(after - end),
        np.log1p(_between(sound.speech, before, start)),
        np.log1p(_between(sound.speech, end, after)),
        _between(sound.silence, start, end) / inside,
        np.log(inside / lengths),
        _between(sound.labels, start, end) / lengths,
        _between(sound.entropy, start, end) / inside,
        np.log1p(start),
        np.log1p(frames - end),
        sound_frames[begin],
        sound_frames[final],
        np.maximum.reduceat(sound_frames, begin),
        np.log1p(np.abs(spikes.start[spoken][begin] - fits.edges.start[begin])),
        np.log1p(np.abs(fits.edges.end[final] - spikes.end[spoken][final])),
        np.add.reduceat((spike > LIKELY_SPIKE_NATS).astype(np.float64), begin) / lengths,
        np.add.reduceat((fits.fits > LIKELY_FIT_NATS).astype(np.float64), begin) / lengths,
    )
    return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class _SoundSums:
    """Sums over the frames before each frame (T + 1,): that of any stretch is one difference.

    Attributes:
        shortfall: nats by which the path is worse than the best class.
        labels_for_blank: nats by which a blank is worse than the best class.
        labels: frames where a label is likelier than a blank.
        entropy: of the classes, in nats.
        speech, silence: frames that are surely either.
    """

    shortfall: np.ndarray
    labels_for_blank: np.ndarray
    labels: np.ndarray
    entropy: np.ndarray
    speech: np.ndarray
    silence: np.ndarray

    @classmethod
    def of(cls, emissions: Emissions, ids: np.ndarray, spikes: Spans) -> _SoundSums:
        assert emissions.states is not None
        classes = torch.full((len(emissions.log_probs),), emissions.blank, dtype=torch.int64)
        lengths = spikes.end - spikes.start
        first = np.repeat(spikes.start - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        classes[torch.from_numpy(first + np.arange(len(first)))] = torch.from_numpy(np.repeat(ids, lengths))
        log_probs, states, device = emissions.log_probs, emissions.states, emissions.log_probs.device
        sums = np.zeros((6, len(log_probs) + 1))
        for low in range(0, len(log_probs), PIECE_FRAMES):
            piece = slice(low, low + PIECE_FRAMES)
            columns = _columns(log_probs[piece], states[piece], classes[piece].to(device), emissions.blank)
            # One sum of all frames, to the bit: each piece goes on where the one before it ended.
            both = np.concatenate((sums[:, low : low + 1], columns.cpu().numpy()), axis=1)
            sums[:, low : low + both.shape[1]] = np.cumsum(both, axis=1)
        return cls(*sums)


def _columns(log_probs: torch.Tensor, states: torch.Tensor, classes: torch.Tensor, blank: int) -> torch.Tensor:
    """Return what `_SoundSums` adds up (6, T), float64, of the frames of a piece."""
    log_probs = log_probs.float().log_softmax(1)
    best = log_probs.amax(1)
    blanks = log_probs[:, blank]
    own = log_probs.gather(1, classes[:, None])[:, 0]
    spoken = states[:, :-1].amax(1) - states[:, -1]
    columns = (
        (best - own).clamp(max=MOST_NATS),
        (best - blanks).clamp(max=MOST_NATS),
        best > blanks,
        -(log_probs.exp() * log_probs.clamp(min=-1e4)).sum(1),
        spoken > SPEECH_NATS,
        spoken < SILENCE_NATS,
    )
    return torch.stack([column.double() for column in columns])


def _between(sums: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return sums over the frames from `first` to `last`, exclusive."""
    return sums[last] - sums[first]
