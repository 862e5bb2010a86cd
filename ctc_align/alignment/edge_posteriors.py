"""Edges between frames, and how sure they are: from all segmentations of the sounds, not from the best one alone.

The best path has an edge at whole frames, and says nothing about how well another place would do. Summed over all
paths, P(the sounds before this edge are over at frame t) rises from 0 to 1: where it passes one half is the median of
the edge's posterior, which no other place beats in mean absolute error, and its spread says how sure the edge is.

Frames are not independent, and their scores are too sure of themselves taken together: they are multiplied by a scale
below 1 first, as in lattice rescoring (Wessel et al. 2001, doi 10.1109/89.906002). Long utterances are cut into windows
of neighbouring sounds that overlap; what lies far from the best path is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ctc_align import kernels, lattice

WINDOW_TOKENS = 48
"""Sounds whose edges come from one window, and how many on either side it sees beside them."""
CONTEXT_TOKENS = 8
CELLS_AT_ONCE = 2**22
"""Frames times states of the windows that go through the kernel in one call."""
BAND_FRAMES = 25
"""How far, in frames, a segmentation state may be from where the best path has it."""
MIN_SD_FRAMES = 0.3
"""What is certain of its frame is still not certain within it."""

_NEVER = float("-inf")


@dataclass(frozen=True)
class Places:
    """Of each sound, in frames: where it starts and ends (L,) float64, and the standard deviations of both.

    `end` of a sound and `start` of the next are one edge unless a pause parts them.
    """

    start: np.ndarray
    end: np.ndarray
    start_sd: np.ndarray
    end_sd: np.ndarray

    def of(self, sounds: np.ndarray) -> Places:
        """Those of some sounds only."""
        return Places(self.start[sounds], self.end[sounds], self.start_sd[sounds], self.end_sd[sounds])


@dataclass(frozen=True)
class Segmented:
    """What soft edges are made from, of one utterance.

    Attributes:
        states: (T, K) scores of the segmentation states; log-probs of the classes where there is a `blank`.
        sounds: (L,) index of each sound: its states are sounds * parts … + parts - 1; its class where there is a
            `blank`.
        words: (L,) the word of each.
        first, last: (L,) its frames on the best path, `last` exclusive; a gap between neighbours is a pause.
        parts: states of a sound; state K - 1 is silence.
        blank: the paths are CTC's, with this class between the sounds; None: those of the segmentation.
        wildcard: (T,) scores of `lattice.WILDCARD` among the sounds, if it is there.
    """

    states: torch.Tensor
    sounds: np.ndarray
    words: np.ndarray
    first: np.ndarray
    last: np.ndarray
    parts: int = 1
    blank: int | None = None
    wildcard: torch.Tensor | None = None

    def topology(self, low: int, high: int) -> lattice.Topology:
        """The paths through the sounds from `low` to `high`."""
        if self.blank is not None:
            return lattice.ctc([self.sounds[low:high]], self.blank)
        return lattice.segmentation(
            [self.sounds[low:high]], [self.words[low:high]], self.parts, self.states.shape[1] - 1
        )


@dataclass(frozen=True)
class _Window:
    """Sounds `low` to `high` of an utterance, of which those from `own_low` to `own_high` are asked for."""

    utterance: int
    low: int
    high: int
    own_low: int
    own_high: int
    begin: int
    """Its first frame in the utterance."""
    scores: np.ndarray
    """(T, S) float32, of each state of the window's topology."""
    topology: lattice.Topology


def soft_places(utterances: Sequence[Segmented], scale: float, *, backend: str = "auto") -> list[Places]:
    """The medians of all edges, and their standard deviations.

    Args:
        utterances: each with its best path; results do not depend on which come together.
        scale: what the scores are multiplied by, above 0.
    """
    places = [_hard(given) for given in utterances]
    batch: list[_Window] = []
    cells = 0
    for u, given in enumerate(utterances):
        for low in range(0, len(given.sounds), WINDOW_TOKENS):
            window = _window(u, given, low, scale)
            if batch and (len(batch) + 1) * max(cells, window.scores.size) > CELLS_AT_ONCE:
                _fill(batch, utterances, places, backend)
                batch, cells = [], 0
            batch.append(window)
            cells = max(cells, window.scores.size)
    if batch:
        _fill(batch, utterances, places, backend)
    return places


def _hard(given: Segmented) -> Places:
    """The best path's own edges."""
    sd = np.full((2, len(given.first)), MIN_SD_FRAMES)
    return Places(given.first.astype(np.float64), given.last.astype(np.float64), sd[0], sd[1])


def _window(utterance: int, given: Segmented, own_low: int, scale: float) -> _Window:
    own_high = min(own_low + WINDOW_TOKENS, len(given.sounds))
    low, high = max(0, own_low - CONTEXT_TOKENS), min(len(given.sounds), own_high + CONTEXT_TOKENS)
    # From where the sound before it ends to where the one after it begins: the pauses at its ends are its own.
    begin = int(given.last[low - 1]) if low else 0
    end = int(given.first[high]) if high < len(given.sounds) else len(given.states)
    topology = given.topology(low, high)
    scores = given.states[begin:end].float().numpy()[:, topology.emit[0]] * np.float32(scale)
    if given.wildcard is not None:
        unknown = topology.emit[0] == lattice.WILDCARD
        scores[:, unknown] = given.wildcard[begin:end, None].float().numpy() * np.float32(scale)
    if given.blank is None:
        near = _near(topology.token[0], given.first[low:high] - begin, given.last[low:high] - begin, end - begin)
        scores[~near] = _NEVER
    size = topology.emit.shape[1]
    own = replace(topology, emit=np.arange(size, dtype=np.int32)[None])
    return _Window(utterance, low, high, own_low, own_high, begin, scores, own)


def _near(token: np.ndarray, first: np.ndarray, last: np.ndarray, frames: int) -> np.ndarray:
    """(T, S) bool: where a state is within `BAND_FRAMES` of its sound, silence of the gap that it stands in."""
    count = len(first)
    begin, end = np.empty(len(token), np.int64), np.empty(len(token), np.int64)
    said = token >= 0
    begin[said], end[said] = first[token[said]], last[token[said]]
    # A silence stands between the sounds on either side of it.
    gaps = np.flatnonzero(~said)
    before = np.maximum.accumulate(token)[gaps]
    begin[gaps] = np.where(before >= 0, last[np.maximum(before, 0)], 0)
    end[gaps] = np.where(before + 1 < count, first[np.minimum(before + 1, count - 1)], frames)
    t = np.arange(frames)[:, None]
    return (t >= begin - BAND_FRAMES) & (t < end + BAND_FRAMES)


def _fill(batch: Sequence[_Window], utterances: Sequence[Segmented], places: Sequence[Places], backend: str) -> None:
    """The places of the windows' own sounds."""
    frames = max(len(window.scores) for window in batch)
    states = max(window.scores.shape[1] for window in batch)
    scores = np.zeros((len(batch), frames, states), np.float32)
    for b, window in enumerate(batch):
        scores[b, : len(window.scores), : window.scores.shape[1]] = window.scores
    lengths = torch.tensor([len(window.scores) for window in batch])
    topology = _together([window.topology for window in batch], states)
    met = kernels.occupancy(torch.from_numpy(scores), topology, lengths, backend=backend)
    posteriors = met.posteriors.cpu().numpy()
    for b, window in enumerate(batch):
        if met.scores[b] > _NEVER:
            own = posteriors[b, : len(window.scores), : window.scores.shape[1]].astype(np.float64)
            _place(window, own, utterances[window.utterance], places[window.utterance])


def _together(topologies: Sequence[lattice.Topology], size: int) -> lattice.Topology:
    """The topologies of one utterance each as one, padded to `size` states."""

    def rows(name: str, padding: int) -> np.ndarray:
        made = [getattr(topology, name)[0] for topology in topologies]
        return np.stack([np.pad(row, (0, size - len(row)), constant_values=padding) for row in made])

    def column(name: str) -> np.ndarray:
        return np.concatenate([getattr(topology, name) for topology in topologies])

    return lattice.Topology(
        emit=rows("emit", 0),
        skip=rows("skip", 0),
        token=rows("token", -1),
        stay=rows("stay", 1),
        states=column("states"),
        starts=column("starts"),
        finals=column("finals"),
        min_frames=column("min_frames"),
    )


def _place(window: _Window, posteriors: np.ndarray, given: Segmented, places: Places) -> None:
    # P(a path is in state s or beyond it at frame t), for each s.
    beyond = posteriors[:, ::-1].cumsum(1)[:, ::-1]
    token = window.topology.token[0]
    firsts = np.searchsorted(np.maximum.accumulate(token), np.arange(window.high - window.low))
    lasts = firsts + np.bincount(token[token >= 0], minlength=window.high - window.low)
    edges = np.concatenate((beyond, np.zeros((len(beyond), 1))), 1)
    own = slice(window.own_low, window.own_high)
    mine = slice(window.own_low - window.low, window.own_high - window.low)
    start, start_sd = _passed(edges[:, firsts[mine]])
    end, end_sd = _passed(edges[:, lasts[mine]])
    places.start[own], places.start_sd[own] = start + window.begin, start_sd
    places.end[own], places.end_sd[own] = end + window.begin, end_sd


def _passed(beyond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians and standard deviations (E,), in frames, of edges past at frame t with probability `beyond` (T, E).

    A probability holds in the middle of its frame; between two of them it is a line.

    >>> _passed(np.array([[0.0], [0.25], [0.75], [1.0]]))[0]        # half way from the middle of frame 1 to that of 2
    array([2.])
    """
    frames, edges = beyond.shape
    risen = np.maximum.accumulate(np.clip(beyond, 0.0, 1.0), 0)
    risen = np.concatenate((risen, np.ones((1, edges))))
    t = (risen >= 0.5).argmax(0)
    column = np.arange(edges)
    high, low = risen[t, column], risen[np.maximum(t - 1, 0), column]
    median = np.where(t > 0, t - 0.5 + (0.5 - low) / np.maximum(high - low, 1e-12), 0.0)
    mass = np.diff(risen, axis=0, prepend=0.0)
    at = np.arange(frames + 1, dtype=np.float64)[:, None]
    mean = (mass * at).sum(0)
    variance = (mass * (at - mean) ** 2).sum(0)
    return np.minimum(median, frames), np.sqrt(np.maximum(variance, 0.0)) + MIN_SD_FRAMES
