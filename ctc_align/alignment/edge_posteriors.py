"""Edges between frames, and how sure they are: from all segmentations of the sounds, not from the best one alone.

The best path has an edge at whole frames, and says nothing about how well another place would do. Summed over all
paths, P(the sounds before this edge are over at frame t) rises from 0 to 1: where it passes one half is the median of
the edge's posterior, which no other place beats in mean absolute error, and its spread says how sure the edge is.

Frames are not independent, and their scores are too sure of themselves taken together: they are multiplied by a scale
below 1 first, as in lattice rescoring (Wessel et al. 2001, doi 10.1109/89.906002). Long utterances are cut into windows
of neighbouring sounds that overlap; what lies far from the best path is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.alignment.ctc_path import Spans
from ctc_align.kernels.requests import Steps
from ctc_align.reading.rows_on_disk import TensorOnDisk

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
