"""Edges refined by the edge network of a model.

The network gives the probability of each edge at each time around it. The edge is the median of
this distribution, which has the smallest mean absolute error of all times; its standard deviation
comes from the middle two thirds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctc_align.alignment.ctc_path import Spans, spoken_indices
from ctc_align.alignment.edges import among_all_tokens, frames_in, in_order
from ctc_align.kernels.batching import StageSteps
from ctc_align.kernels.log_space import log_softmax
from ctc_align.lattice import WILDCARD, states_per_sound
from ctc_align.machine.rows_on_disk import ArrayOnDisk
from ctc_align.models.edge_network import (
    CHANNELS,
    FARTHEST,
    FINE_MELS,
    FINE_SHIFT_S,
    INSIDE,
    LEVEL_REACH_FRAMES,
    REACH,
    WINDOW,
    WORD_END,
    WORD_START,
    EdgeNetwork,
    EdgeNetworkShape,
    EdgeWindows,
    fine_features,
)
from ctc_align.threads import side_by_side
from ctc_align.types import Emissions, Tokens

EDGES_AT_ONCE = 512
"""Edges of an utterance whose windows are in memory together."""
CLOSED_S = 0.015
"""Words with a shorter gap between them share an edge, except over a silence of `LONG_S`."""
LONG_S = 0.08
"""A silence of this length in the segmentation certainly is a gap."""
SIGMA = 0.6827
"""Share of a normal distribution within a standard deviation."""
LEAST_SCORE, SCORE_SCALE, SCORE_CENTRE = -12.0, 0.25, 4.0
"""Log-posteriors are limited, centred and scaled to be network inputs."""
NEAR_S, BESIDE_S = 0.05, 0.02
"""Units of the distance from the edge, and from the edges beside it."""
FAR_S = 2.0
"""The greatest distance from the edge, in its unit."""
FAR_FRAMES = 2 * LEVEL_REACH_FRAMES
"""Windows this many fine frames apart share neither features nor the frames by which features are
levelled."""
FAR_ROWS = 100
"""Longer stretches of emissions that no window needs are not read."""
SILENT = -1
"""The index of the sound beside an edge where there is silence."""


def refine_edges(
    emissions: Emissions, tokens: Tokens, drawn: Spans, network: EdgeNetwork
) -> StageSteps[Spans]:
    """Return the edges of all tokens, refined by the edge network, with their standard deviations.

    Args:
        emissions: with their sound.
        tokens: what is said, wildcards and separators included.
        drawn: where their edges are, between frames, in order.
        network: the model's, or a calibration's.
    """
    spoken, ids, words = utterance_sounds(tokens)
    if not len(spoken):
        return drawn
    coarse = drawn.of(spoken)
    edges = edges_of(coarse.start, coarse.end, words)
    scene = EdgeScene(emissions, ids, edges, network.shape)
    blocks = range(0, len(edges), EDGES_AT_ONCE)
    answers = yield [
        EdgeChances(network, scene, first, min(first + EDGES_AT_ONCE, len(edges)))
        for first in blocks
    ]
    chances = np.concatenate(answers)
    fine, fine_sd = medians_of(chances)
    per_frame = FINE_SHIFT_S / emissions.frame_shift_s
    frames = (
        scene.centres() * FINE_SHIFT_S - emissions.first_frame_s
    ) / emissions.frame_shift_s + fine * per_frame
    sd = fine_sd * per_frame * network.spread
    # Beside a wildcard the sound on one side is unknown: these edges stay.
    is_wild = np.append(ids == WILDCARD, False)  # the last one is found by SILENT, -1
    frames = np.where(is_wild[edges.left] | is_wild[edges.right], edges.frames, frames)
    start, end = frames[edges.begins], frames[edges.ends]
    start, end = _close_small_gaps(start, end, coarse, emissions.frame_shift_s)
    start, end = in_order(start, end, np.append(start[1:] > end[:-1], True), frames_in(emissions))
    return among_all_tokens(drawn, spoken, Spans(start, end, sd[edges.begins], sd[edges.ends]))


@dataclass(frozen=True, eq=False)
class EdgeChances:
    """A request for the network's probabilities (E, PLACES) of the edges [first, last)."""

    network: EdgeNetwork
    scene: EdgeScene
    first: int
    last: int

    stage: ClassVar[str] = "kernels"

    @property
    def shape(self) -> tuple[int, int]:
        return self.last - self.first, CHANNELS * WINDOW

    @property
    def key(self) -> Hashable:
        return EdgeChances, id(self.network)

    @staticmethod
    def run(requests: Sequence[EdgeChances]) -> list[np.ndarray]:
        return list(side_by_side(request.chances for request in requests))

    def chances(self) -> np.ndarray:
        """Return what is requested."""
        return self.network.chances(self.scene.windows(self.first, self.last))


def medians_of(chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each edge's median, from its window's centre, and half its middle `SIGMA` (E,).

    Both are in fine frames.

    Args:
        chances: (E, PLACES) of the fine frames around the windows' centres; each is spread over its
            frame.

    >>> medians_of(np.eye(25)[[12, 14]])[0]
    array([0., 2.])
    """
    passed = np.concatenate((np.zeros((len(chances), 1)), chances.cumsum(1)), 1)
    passed /= passed[:, -1:]
    low, median, high = (
        _quantile(passed, share) for share in ((1 - SIGMA) / 2, 0.5, (1 + SIGMA) / 2)
    )
    return median - FARTHEST - 0.5, (high - low) / 2


def _quantile(passed: np.ndarray, share: float) -> np.ndarray:
    """Return where cumulative probabilities (E, P + 1) pass a share, by linear interpolation."""
    after = np.maximum((passed >= share).argmax(1), 1)
    row = np.arange(len(passed))
    before = passed[row, after - 1]
    return after - 1 + (share - before) / np.maximum(passed[row, after] - before, 1e-12)


def _close_small_gaps(
    start: np.ndarray, end: np.ndarray, before: Spans, frame_shift_s: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends (L,) without overlaps and without gaps below `CLOSED_S`."""
    was_long = (before.start[1:] - before.end[:-1]) * frame_shift_s > LONG_S
    gap_s = (start[1:] - end[:-1]) * frame_shift_s
    shared = np.where(was_long, gap_s < 0, gap_s < CLOSED_S)
    middle = (start[1:] + end[:-1]) / 2
    return (
        np.append(start[:1], np.where(shared, middle, start[1:])),
        np.append(np.where(shared, middle, end[:-1]), end[-1:]),
    )


# The edges of an utterance's sounds, each once, and the windows around them that the network sees
#
# Sounds that follow each other inside a word share an edge. The end of a word and the start of the
# next one are two edges, even without a gap between them: the network decides whether a glottal
# stop parts two vowels.


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of L sounds, in the order of time.

    Attributes:
        left, right: (E,) the sound on either side, `SILENT` at the utterance's ends and at a pause.
        role: (E,) `INSIDE` a word, `WORD_END` or `WORD_START`; `INSIDE` too where silence is on one
            side.
        frames: (E,) their times, in frames of the emissions.
        begins, ends: (L,) the edges with which each sound begins and ends; inside words the end of
            a sound is the beginning of the next.
    """

    left: np.ndarray
    right: np.ndarray
    role: np.ndarray
    frames: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)


def edges_of(start: np.ndarray, end: np.ndarray, words: np.ndarray) -> Edges:
    """Return the edges of sounds (L,) with their starts, ends (frames) and words.

    >>> found = edges_of(np.array([1.0, 4.0, 9.0]), np.array([4.0, 9.0, 12.0]), np.array([0, 0, 1]))
    >>> found.frames.tolist(), found.left.tolist(), found.right.tolist(), found.ends.tolist()
    ([1.0, 4.0, 9.0, 9.0, 12.0], [-1, 0, 1, 1, 2], [0, 1, 2, 2, -1], [1, 2, 4])
    """
    count = len(start)
    sounds = np.arange(count)
    pause = np.append(start[1:] > end[:-1], True)
    shared = np.append(words[1:] == words[:-1], False) & ~pause
    before = np.append(True, pause[:-1])
    # Every sound has a start and an end; an end that is shared with the next start is left out.
    left = np.stack((np.where(before, SILENT, sounds - 1), sounds), 1)
    right = np.stack((sounds, np.where(pause, SILENT, sounds + 1)), 1)
    inner = np.append(False, shared[:-1])
    start_role = np.where(inner | before, INSIDE, WORD_START)
    role = np.stack((start_role, np.where(pause, INSIDE, WORD_END)), 1)
    present = np.stack((np.ones(count, np.bool_), ~shared), 1).ravel()
    index = np.cumsum(present) - 1
    begins = index[::2]
    ends = np.where(shared, np.append(begins[1:], 0), index[1::2])
    frames = np.stack((start, end), 1)
    left, right, role, frames = (both.ravel()[present] for both in (left, right, role, frames))
    return Edges(left, right, role, frames, begins, ends)


def utterance_sounds(tokens: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices (L,) of the tokens that belong to words, their ids and their words."""
    spoken = spoken_indices(tokens)
    return spoken, np.asarray(tokens.ids)[spoken], np.asarray(tokens.words)[spoken]


@dataclass(frozen=True, eq=False)
class EdgeScene:
    """An utterance, and the edges that a network will refine.

    Attributes:
        emissions: with their sound.
        ids: (L,) of the sounds in the vocabulary, `lattice.WILDCARD` among them.
        edges: of the sounds.
        shape: of the network that draws them.
    """

    emissions: Emissions
    ids: np.ndarray
    edges: Edges
    shape: EdgeNetworkShape

    def centres(self) -> np.ndarray:
        """Return the fine frame (E,) int64 that is nearest to each edge."""
        emissions = self.emissions
        at_s = self.edges.frames * emissions.frame_shift_s + emissions.first_frame_s
        return np.floor(at_s / FINE_SHIFT_S + 0.5).astype(np.int64)

    def windows(self, first: int, last: int, margin: int = 0) -> EdgeWindows:
        """Return the windows of edges [first, last), `margin` fine frames wider on either side."""
        edges = self.edges
        reach = REACH + margin
        centres = self.centres()[first:last]
        fine = centres[:, None] + np.arange(-reach, reach + 1)
        values = np.empty((last - first, 2 * reach + 1, CHANNELS), np.float32)
        values[:, :, :FINE_MELS] = self._features(fine)
        values[:, :, FINE_MELS:] = self._scores_and_distances(first, last, fine).transpose(0, 2, 1)
        left, right = (self._indices(side[first:last]) for side in (edges.left, edges.right))
        return EdgeWindows(values, left, right, edges.role[first:last])

    def _indices(self, sounds: np.ndarray) -> np.ndarray:
        """Return the network's indices of sounds (E,)."""
        silent = sounds == SILENT
        tokens, number = np.unique(self.ids[sounds[~silent]], return_inverse=True)
        labels = ("" if token == WILDCARD else self.emissions.vocab[token] for token in tokens)
        known = np.array([self.shape.index_of(label) for label in labels], np.int64)
        indices = np.full(len(sounds), self.shape.silence)
        indices[~silent] = known[number]
        return indices

    def _features(self, fine: np.ndarray) -> np.ndarray:
        """Return the fine features (E, W, FINE_MELS) of ascending windows of fine frames (E, W)."""
        audio = self.emissions.sound
        assert audio is not None
        found = np.empty((*fine.shape, FINE_MELS), np.float32)
        # Hours without an edge between two windows are not read.
        far = np.flatnonzero(fine[1:, 0] - fine[:-1, -1] > FAR_FRAMES) + 1
        for begin, end in zip((0, *far), (*far, len(fine))):
            low = int(fine[begin, 0])
            found[begin:end] = fine_features(audio, low, int(fine[end - 1, -1]) + 1)[
                fine[begin:end] - low
            ]
        return found

    def _scores_and_distances(self, first: int, last: int, fine: np.ndarray) -> np.ndarray:
        """Return scores and distances from edges (E, MODEL_CHANNELS, W) of fine frames (E, W)."""
        emissions, edges = self.emissions, self.edges
        time_s = fine * FINE_SHIFT_S
        frame = np.clip((time_s - emissions.first_frame_s) / emissions.frame_shift_s - 0.5, 0, None)
        scores = sound_scores(
            emissions, self.ids, edges.left[first:last], edges.right[first:last], frame
        )
        at_s = edges.frames * emissions.frame_shift_s + emissions.first_frame_s
        here_s = at_s[first:last, None]
        # The end of a word and the start of the next may be at one time: the edges beside both are
        # farther away.
        before = np.searchsorted(at_s, here_s[:, 0], "left") - 1
        after = np.searchsorted(at_s, here_s[:, 0], "right")
        before_s = np.where(before >= 0, at_s[np.maximum(before, 0)], -np.inf)[:, None]
        after_s = np.where(after < len(at_s), at_s[np.minimum(after, len(at_s) - 1)], np.inf)[
            :, None
        ]
        distances = (
            np.clip((time_s - here_s) / NEAR_S, -FAR_S, FAR_S),
            np.tanh((time_s - before_s) / BESIDE_S),
            np.tanh((time_s - after_s) / BESIDE_S),
        )
        return np.concatenate((scores, np.stack(distances, 1)), 1)


def sound_scores(
    emissions: Emissions, ids: np.ndarray, left: np.ndarray, right: np.ndarray, frame: np.ndarray
) -> np.ndarray:
    """Return scores of the sounds beside edges, of silence, and of the edges (E, 4, W).

    With segmentation states the posterior of a sound is that of all its states together, and the
    edge's that of the last state before or the first after it. Without states they are CTC's, and
    silence is the blank.

    Args:
        emissions: of the utterance.
        ids: (L,) of the sounds in the vocabulary.
        left, right: (E,) sounds beside the edges.
        frame: (E, W) frames, fractional: scores are interpolated.
    """
    scores = emissions.array if emissions.state_array is None else emissions.state_array
    low = np.floor(frame).astype(np.int64)
    first = low[:, :1]
    count = int((low - first).max()) + 2
    # (E, t): the frames of the emissions that each window needs, as indices into those that any
    # needs
    needed, near = np.unique(
        np.minimum(first + np.arange(count), len(scores) - 1), return_inverse=True
    )
    near = near.reshape(-1, count)
    posteriors = log_softmax(_read_rows(scores, needed))
    before, before_end, _ = _side_scores(posteriors, near, emissions, ids[left], left == SILENT)
    after, _, after_begin = _side_scores(posteriors, near, emissions, ids[right], right == SILENT)
    silence = posteriors[:, emissions.blank if emissions.state_array is None else -1][near]
    # (E, 4, t): of the sound before, of the one after, of silence, and of either side of the edge
    tracks = np.stack((before, after, silence, np.maximum(before_end, after_begin)), 1)
    np.clip(tracks, LEAST_SCORE, 0.0, out=tracks)
    tracks = (tracks + np.float32(SCORE_CENTRE)) * np.float32(SCORE_SCALE)
    lower = (low - first)[:, None]
    share = (frame - low).astype(np.float32)[:, None]
    return (
        np.take_along_axis(tracks, lower, 2) * (1 - share)
        + np.take_along_axis(tracks, lower + 1, 2) * share
    )


def _read_rows(scores: np.ndarray | ArrayOnDisk, frames: np.ndarray) -> np.ndarray:
    """Return the rows of scores (T, K) at ascending frames, which may be hours apart: float32."""
    stretches = np.split(frames, np.flatnonzero(np.diff(frames) > FAR_ROWS) + 1)
    return np.concatenate(
        [scores[int(part[0]) : int(part[-1]) + 1][part - part[0]] for part in stretches],
        dtype=np.float32,
    )


def _side_scores(
    posteriors: np.ndarray,
    near: np.ndarray,
    emissions: Emissions,
    tokens: np.ndarray,
    silent: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-posteriors (E, t) of the sounds on one side, and of their last and first states.

    Args:
        posteriors: (T, K) of the frames that are needed.
        near: (E, t) those around each edge.
        emissions: of the utterance.
        tokens: (E,) of the sounds.
        silent: (E,) where there is silence; a wildcard counts as silence, too.
    """
    silent = silent | (tokens == WILDCARD)
    if emissions.state_array is None:
        scores = posteriors[near, np.where(silent, emissions.blank, tokens)[:, None]]
        return scores, scores, scores
    parts = states_per_sound(posteriors.shape[1], len(emissions.vocab))
    first = (tokens - (tokens > emissions.blank)) * parts
    silence = posteriors.shape[1] - 1
    each = [
        posteriors[near, np.where(silent, silence, first + part)[:, None]] for part in range(parts)
    ]
    total = each[0]
    for one in each[1:]:
        total = np.logaddexp(total, one)
    total = np.where(silent[:, None], each[0], total)
    return total, each[-1], each[0]
