"""From CTC's spikes to the frames of the sounds: the best path through a model's segmentation states.

CTC says what was said and roughly when; its spikes start late and end early. A model with a second output scores, for
every frame, which part of which sound it is (or silence). The best path through the tokens' parts, with optional
silence between words and nowhere far from the spikes, says where each sound begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import lattice
from ctc_align.alignment.ctc_path import Spans, token_spans
from ctc_align.alignment.wildcard import speech_scores
from ctc_align.kernels.requests import BestPath, Steps
from ctc_align.reading.rows_on_disk import TensorOnDisk
from ctc_align.types import Emissions, Tokens

WHOLE_FRAMES = 120_000
"""Longer recordings are segmented in windows, so that no more of them is in memory at once."""
WINDOW_FRAMES, OVERLAP_FRAMES = 30_000, 2000
"""The length of a window, and of what it has in common with the next: five minutes of our own models, and 20 s."""


def parts_of(emissions: Emissions) -> int:
    """Return how many states each token has in the model's second output."""
    assert emissions.states is not None
    return (emissions.states.shape[1] - 1) // (len(emissions.vocab) - 1)


def sounds_of(emissions: Emissions, tokens: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """Return the tokens that belong to words: their places in the row (L,), and their ids counted without the blank.

    A wildcard keeps its id.
    """
    spoken = np.flatnonzero(np.asarray(tokens.words) >= 0)
    ids = np.asarray(tokens.ids)[spoken]
    return spoken, ids - (ids > emissions.blank)


def segment(
    emissions: Emissions, tokens: Tokens, spikes: Spans, band_frames: int, backend: str = "auto"
) -> Steps[Spans | None]:
    """Segment by the states `emissions.states` (T, K): parts of each token in a row, the last state is silence.

    Args:
        emissions: with states; with P parts a token, those of the k-th token that is not the blank (from 0) are the
            states k * P to k * P + P - 1, and state K - 1 is silence.
        tokens: what is said; separators between words have no states, their spans are empty.
        spikes: where CTC put the tokens.
        band_frames: how far an edge may move away from the spikes; more where the tokens' parts do not fit otherwise.
        backend: see `ctc_align.kernels`.

    Returns:
        The spans of all tokens, one frame or more each; None where the audio is too short for the tokens' parts (CTC
        needs fewer frames): spikes are then what there is.
    """
    found = yield from segmentation_path(emissions, tokens, spikes, band_frames, backend)
    if found is None:
        return None
    path, topology = found
    spoken, sounds = sounds_of(emissions, tokens)
    own = token_spans(path, topology.token[0], len(sounds))
    start, end = spikes.start.copy(), spikes.start.copy()
    start[spoken], end[spoken] = own.start, own.end
    return Spans(start, end)


def segmentation_path(
    emissions: Emissions, tokens: Tokens, spikes: Spans, band_frames: int, backend: str = "auto"
) -> Steps[tuple[np.ndarray, lattice.Topology] | None]:
    """Return the states (T,) of the best path near the spikes, and their topology; arguments and None as `segment`."""
    states = emissions.states
    assert states is not None
    spoken, sounds = sounds_of(emissions, tokens)
    parts, frames = parts_of(emissions), len(states)
    if frames < parts * len(sounds):
        return None
    words = np.asarray(tokens.words)[spoken]
    topology = lattice.segmentation([sounds], [words], parts, states.shape[1] - 1)
    wildcard = speech_scores(states) if topology.has_wildcard else None
    paths = _Paths(states, sounds, words, parts, topology, wildcard, backend)
    while True:
        bands = band(topology.token[0], spikes.of(spoken), frames, band_frames, sounds == lattice.WILDCARD)
        path = None
        if frames > WHOLE_FRAMES:
            path = yield from paths.best_in_windows(bands, spikes.of(spoken))
        if path is None:
            path = yield from paths.best(bands)
        if path is not None:
            return path, topology
        if band_frames >= frames:
            return None
        band_frames *= 2


@dataclass(frozen=True, eq=False)
class _Paths:
    """The paths through the states of a recording: the sounds and words of all tokens, and the topology of all."""

    states: torch.Tensor | TensorOnDisk
    sounds: np.ndarray
    words: np.ndarray
    parts: int
    topology: lattice.Topology
    wildcard: torch.Tensor | None
    backend: str

    def best(self, bands: np.ndarray) -> Steps[np.ndarray | None]:
        """Return the states (T,) of the best path within bands, None if there is none."""
        found = yield BestPath(self.states, self.topology, self.wildcard, self.backend, bands)
        return found.states if found.score > float("-inf") else None

    def best_in_windows(self, bands: np.ndarray, spikes: Spans) -> Steps[np.ndarray | None]:
        """Return as `best`, of a recording of any length in the same memory: one window after the other.

        A window ends where a word is likely to, `OVERLAP_FRAMES` beyond the word with which the next one begins: so far
        away it makes no difference to a path where it ends.

        Args:
            bands: of all frames.
            spikes: of the sounds.
        """
        token = self.topology.token[0]
        first_state = np.searchsorted(np.maximum.accumulate(token), np.arange(len(self.sounds)))
        begins = np.flatnonzero(np.diff(self.words, prepend=-1))
        result = np.empty(len(bands), np.int64)
        first, sound = 0, 0
        while True:
            later = begins[begins > sound]
            following = later[spikes.start[later] >= first + WINDOW_FRAMES]
            beyond = later[spikes.start[later] >= first + WINDOW_FRAMES + OVERLAP_FRAMES]
            last, end = len(bands), len(self.sounds)
            if len(beyond):
                end = int(beyond[0])
                last = int(spikes.end[end - 1] + spikes.start[end] + 1) // 2
            base, states = int(first_state[sound]) - 1, self.topology.emit.shape[1]
            own = np.clip(bands[first:last] - base, (0, 1), (states - base - 1, states - base))
            if first:
                # The window before says in which state it begins, the first of its first sound.
                own = np.maximum(own, (1, 2))
                own[0] = 1, 2
            found = yield self._window(first, last, sound, end, own)
            if found.score == float("-inf"):
                return None
            path = found.states + base
            result[first:last] = path
            if not len(beyond):
                return result
            sound = int(following[0])
            first += int(np.searchsorted(path, first_state[sound]))

    def _window(self, first: int, last: int, sound: int, end: int, bands: np.ndarray) -> BestPath:
        """Ask for the best path of frames [first, last) through the sounds [sound, end)."""
        topology = lattice.segmentation(
            [self.sounds[sound:end]], [self.words[sound:end]], self.parts, self.states.shape[1] - 1
        )
        count = topology.emit.shape[1]
        bands = np.clip(bands, (0, 1), (count - 1, count))
        states = self.states
        states = states[first:last] if isinstance(states, torch.Tensor) else states.part(first, last)
        wildcard = self.wildcard[first:last] if self.wildcard is not None and topology.has_wildcard else None
        return BestPath(states, topology, wildcard, self.backend, bands)


def band(
    token_of_state: np.ndarray, spikes: Spans, frames: int, band_frames: int, lasting: np.ndarray | None = None
) -> np.ndarray:
    """Return the first and last (exclusive) state allowed at each frame (T, 2): of tokens that spike within the band.

    The silence next to an allowed token is allowed too, and across a pause longer than the band only the silence in it.
    A spike is its middle; of tokens that are `lasting` (L,) bool, wildcards, it is all their frames.
    """
    count = len(spikes.start)
    states = len(token_of_state)
    centre = (spikes.start + spikes.end - 1) / 2
    owned = np.flatnonzero(token_of_state >= 0)
    begin = np.full(count, states, np.int64)
    end = np.zeros(count, np.int64)
    np.minimum.at(begin, token_of_state[owned], owned)
    np.maximum.at(end, token_of_state[owned], owned + 1)
    before = np.where((begin > 0) & (token_of_state[begin - 1] < 0), begin - 1, begin)
    after = np.where(token_of_state[np.minimum(end, states - 1)] < 0, np.minimum(end + 1, states), end)
    t = np.arange(frames)
    begins, ends = centre, centre
    if lasting is not None and lasting.any():
        begins, ends = np.where(lasting, spikes.start, centre), np.where(lasting, spikes.end - 1, centre)
    earliest = np.searchsorted(ends, t - band_frames, "left")
    latest = np.searchsorted(begins, t + band_frames, "right") - 1
    low = np.where(earliest < count, before[np.minimum(earliest, count - 1)], states - 1)
    high = np.where(latest >= 0, after[np.maximum(latest, 0)], 1)
    # In a gap longer than the band no token is near: hold on to the last one, or its silence, until the next comes.
    low = np.minimum(low, high - 1)
    low[0] = 0
    high[-1] = states
    return np.stack((np.maximum.accumulate(low), np.maximum.accumulate(high)), 1)
