"""From CTC's spikes to the frames of the sounds: the best path through a model's segmentation states.

CTC says what was said and roughly when; its spikes start late and end early. A model with a second output scores, for
every frame, which part of which sound it is (or silence). The best path through the tokens' parts, with optional
silence between words and nowhere far from the spikes, says where each sound begins and ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from ctc_align import kernels, lattice
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


# Edges between frames, and how sure they are: from all segmentations of the sounds, not from the best one alone.
#
# The best path has an edge at whole frames, and says nothing about how well another place would do. Summed over all
# paths, P(the sounds before this edge are over at frame t) rises from 0 to 1: where it passes one half is the median
# of the edge's posterior, which no other place beats in mean absolute error, and its spread says how sure the edge
# is.
#
# Frames are not independent, and their scores are too sure of themselves taken together: they are multiplied by a
# scale below 1 first, as in lattice rescoring (Wessel et al. 2001, doi 10.1109/89.906002). Long utterances are cut
# into windows of neighbouring sounds that overlap; what lies far from the best path is left out.

WINDOW_TOKENS = 48
"""Sounds whose edges come from one window."""
CONTEXT_TOKENS = 8
"""Sounds on either side that a window has beside them."""
BAND_FRAMES = 25
"""A segmentation state may be so many frames from its place on the best path."""
MIN_SD_FRAMES = 0.3
"""The least standard deviation of an edge: its place within a frame is not known."""


@dataclass(frozen=True, eq=False)
class Sounds:
    """The sounds of one utterance on their best path.

    Attributes:
        states: (T, K) scores of the segmentation states; log-probs of the classes where there is a `blank`.
        sounds: (L,) index of each sound: its states are sounds * parts … + parts - 1; its class where there is a
            `blank`.
        words: (L,) the word of each.
        spans: its frames on the best path; a gap between neighbours is a pause.
        parts: states of a sound; state K - 1 is silence.
        blank: the paths are CTC's, with this class between the sounds; None: those of the segmentation.
        wildcard: (T,) scores of `lattice.WILDCARD` among the sounds, if it is there.
    """

    states: torch.Tensor | TensorOnDisk
    sounds: np.ndarray
    words: np.ndarray
    spans: Spans
    parts: int = 1
    blank: int | None = None
    wildcard: torch.Tensor | None = None

    def topology(self, low: int, high: int) -> lattice.Topology:
        """Return the paths through the sounds from `low` to `high`, exclusive."""
        if self.blank is not None:
            return lattice.ctc([self.sounds[low:high]], self.blank)
        return lattice.segmentation(
            [self.sounds[low:high]], [self.words[low:high]], self.parts, self.states.shape[1] - 1
        )


def soft_edges(sounds: Sounds, scale: float, backend: str = "auto") -> Steps[Spans]:
    """Return the medians of all edges, and their standard deviations; the best path's where a window has no path.

    `end` of a sound and `start` of the next are one edge unless a pause parts them.

    Args:
        sounds: with their best path.
        scale: what the scores are multiplied by, above 0.
        backend: see `ctc_align.kernels`.
    """
    count = len(sounds.sounds)
    start, end = sounds.spans.start.astype(np.float64), sounds.spans.end.astype(np.float64)
    start_sd, end_sd = np.full((2, count), MIN_SD_FRAMES)
    windows = [EdgeWindow(sounds, low, scale, backend) for low in range(0, count, WINDOW_TOKENS)]
    answers = yield windows
    for window, found in zip(windows, answers):
        if found is not None:
            own = slice(window.own_low, window.own_high)
            start[own], end[own], start_sd[own], end_sd[own] = found.start, found.end, found.start_sd, found.end_sd
    return Spans(start, end, start_sd, end_sd)


@dataclass(frozen=True, eq=False)
class EdgeWindow:
    """Ask for the edges of the sounds from `own_low` on, at most `WINDOW_TOKENS`; the answer is their `Spans` or None.

    The scores of its states are made when the request is run: those of a long recording never lie in memory together.
    """

    sounds: Sounds
    own_low: int
    scale: float
    backend: str

    stage: ClassVar[str] = "kernels"

    @property
    def own_high(self) -> int:
        return min(self.own_low + WINDOW_TOKENS, len(self.sounds.sounds))

    @property
    def low(self) -> int:
        """The first sound of the window."""
        return max(0, self.own_low - CONTEXT_TOKENS)

    @property
    def high(self) -> int:
        """The sound after the last one of the window."""
        return min(len(self.sounds.sounds), self.own_high + CONTEXT_TOKENS)

    @property
    def frames(self) -> tuple[int, int]:
        """From where the sound before it ends to where the one after it begins: the pauses at its ends are its own."""
        spans = self.sounds.spans
        begin = int(spans.end[self.low - 1]) if self.low else 0
        end = int(spans.start[self.high]) if self.high < len(self.sounds.sounds) else len(self.sounds.states)
        return begin, end

    @property
    def key(self) -> Hashable:
        return EdgeWindow, self.sounds.states.device, self.backend

    @property
    def shape(self) -> tuple[int, int]:
        begin, end = self.frames
        # So many states at most: silence or blanks between all sounds.
        return end - begin, (self.high - self.low) * (self.sounds.parts + 1) + 1

    def scores(self) -> tuple[torch.Tensor, lattice.Topology]:
        """Return (T, S) float32 scores of each state of the window's topology, and the topology."""
        given = self.sounds
        begin, end = self.frames
        topology = given.topology(self.low, self.high)
        emit = topology.emit[0]
        device = given.states.device
        columns = torch.from_numpy(np.maximum(emit, 0).astype(np.int64)).to(device)
        scores = given.states[begin:end].float().index_select(1, columns).mul_(self.scale)
        if given.wildcard is not None:
            unknown = torch.from_numpy(emit == lattice.WILDCARD).to(device)
            scores[:, unknown] = given.wildcard[begin:end, None].float() * self.scale
        if given.blank is None:
            first, last = given.spans.start[self.low : self.high], given.spans.end[self.low : self.high]
            near = _near(topology.token[0], first - begin, last - begin, end - begin)
            scores.masked_fill_(torch.from_numpy(~near).to(device), float("-inf"))
        return scores, replace(topology, emit=np.arange(len(emit), dtype=np.int32)[None])

    @staticmethod
    def run(requests: Sequence[EdgeWindow]) -> list[Spans | None]:
        scores, topologies = zip(*(request.scores() for request in requests))
        sizes = [row.shape for row in scores]
        batch = scores[0].new_zeros((len(scores), *(max(size[axis] for size in sizes) for axis in (0, 1))))
        for padded, row in zip(batch, scores):
            padded[: row.shape[0], : row.shape[1]] = row
        lengths = [frames for frames, _ in sizes]
        result = kernels.occupancy(batch, lattice.stack(topologies), lengths, backend=requests[0].backend)
        posteriors, totals = result.posteriors.cpu().numpy(), result.scores.tolist()
        return [
            request._edges(row[:frames, :states].astype(np.float64), topology.token[0])
            if total > float("-inf")
            else None
            for request, row, total, topology, (frames, states) in zip(requests, posteriors, totals, topologies, sizes)
        ]

    def _edges(self, posteriors: np.ndarray, token: np.ndarray) -> Spans:
        """The edges of the window's own sounds, from posteriors (T, S) of states whose sounds are `token` (S,)."""
        # P(a path is in state s or beyond it at frame t), for each s.
        beyond = posteriors[:, ::-1].cumsum(1)[:, ::-1]
        firsts = np.searchsorted(np.maximum.accumulate(token), np.arange(self.high - self.low))
        lasts = firsts + np.bincount(token[token >= 0], minlength=self.high - self.low)
        edges = np.concatenate((beyond, np.zeros((len(beyond), 1))), 1)
        own = slice(self.own_low - self.low, self.own_high - self.low)
        start, start_sd = _medians(edges[:, firsts[own]])
        end, end_sd = _medians(edges[:, lasts[own]])
        begin, _ = self.frames
        return Spans(start + begin, end + begin, start_sd, end_sd)


def _near(token: np.ndarray, first: np.ndarray, last: np.ndarray, frames: int) -> np.ndarray:
    """Return (T, S) bool: whether a state is within `BAND_FRAMES` of its sound, silence of the gap that it is in."""
    count = len(first)
    begin, end = np.empty(len(token), np.int64), np.empty(len(token), np.int64)
    sounding = token >= 0
    begin[sounding], end[sounding] = first[token[sounding]], last[token[sounding]]
    # A silence lies between the sounds on either side of it.
    gaps = np.flatnonzero(~sounding)
    before = np.maximum.accumulate(token)[gaps]
    begin[gaps] = np.where(before >= 0, last[np.maximum(before, 0)], 0)
    end[gaps] = np.where(before + 1 < count, first[np.minimum(before + 1, count - 1)], frames)
    t = np.arange(frames)[:, None]
    return (t >= begin - BAND_FRAMES) & (t < end + BAND_FRAMES)


def _medians(beyond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return medians and standard deviations (E,), in frames, of edges passed at frame t with P `beyond` (T, E).

    A probability holds in the middle of its frame; between two of them it is a line.

    >>> _medians(np.array([[0.0], [0.25], [0.75], [1.0]]))[0]        # half way from the middle of frame 1 to that of 2
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
