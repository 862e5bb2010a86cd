"""The edges of an utterance's sounds, each once, and the windows around them that a network of edges looks at.

Sounds that follow each other inside a word share an edge. The end of a word and the start of the next one are two, even
where nothing is between them: whether a glottal stop parts two vowels is for the network to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ctc_align.lattice import WILDCARD
from ctc_align.models.edge_network import (
    INSIDE,
    MODEL_CHANNELS,
    REACH,
    WORD_END,
    WORD_START,
    EdgeNetwork,
    EdgeWindows,
)
from ctc_align.models.fine_features import LEVEL_REACH_FRAMES, MELS, SHIFT_S, fine_features
from ctc_align.reading.rows_on_disk import TensorOnDisk
from ctc_align.types import Emissions

LEAST_SCORE, SCORE_SCALE, SCORE_CENTRE = -12.0, 0.25, 4.0
"""Log-posteriors are limited, centred and scaled to be network inputs."""
NEAR_S, BESIDE_S = 0.05, 0.02
"""The distance from the edge, and from the edges beside it, in these units."""
FAR_S = 2.0
"""The most that the distance is, in its unit."""
FAR_FRAMES = 2 * LEVEL_REACH_FRAMES
"""Windows that are so many fine frames apart have no features in common, nor anything that these are levelled by."""
FAR_ROWS = 100
"""Frames of emissions that no window needs, so many in a row, are not read."""
SILENT = -1


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of L sounds, in the order of time.

    Attributes:
        left, right: (E,) the sound on either side, `SILENT` at the utterance's ends and at a pause.
        role: (E,) `INSIDE` a word, `WORD_END` or `WORD_START`; `INSIDE` too where silence is on one side.
        frames: (E,) where they are, in frames of the emissions.
        begins, ends: (L,) the edges with which each sound begins and ends; inside words the end of a sound is the
            beginning of the next.
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
    kept = np.stack((np.ones(count, np.bool_), ~shared), 1).ravel()
    place = np.cumsum(kept) - 1
    begins = place[::2]
    ends = np.where(shared, np.append(begins[1:], 0), place[1::2])
    frames = np.stack((start, end), 1)
    left, right, role, frames = (both.ravel()[kept] for both in (left, right, role, frames))
    return Edges(left, right, role, frames, begins, ends)


@dataclass(frozen=True, eq=False)
class EdgeScene:
    """An utterance with the edges that will be looked at.

    Attributes:
        emissions: with their sound.
        ids: (L,) of the sounds in the vocabulary, `lattice.WILDCARD` among them.
        edges: of the sounds.
        network: that will look.
    """

    emissions: Emissions
    ids: np.ndarray
    edges: Edges
    network: EdgeNetwork

    def centres(self) -> np.ndarray:
        """Return the fine frame (E,) int64 that is nearest to each edge."""
        emissions = self.emissions
        at_s = self.edges.frames * emissions.frame_shift_s + emissions.first_frame_s
        return np.floor(at_s / SHIFT_S + 0.5).astype(np.int64)

    def windows(self, first: int, last: int, margin: int = 0) -> EdgeWindows:
        """Return the windows of edges [first, last), `margin` fine frames wider on either side."""
        edges, device = self.edges, self.emissions.log_probs.device
        reach = REACH + margin
        centres = self.centres()[first:last]
        fine = centres[:, None] + np.arange(-reach, reach + 1)
        values = np.empty((last - first, MELS + MODEL_CHANNELS, 2 * reach + 1), np.float32)
        values[:, :MELS] = self._features(fine)
        values[:, MELS:] = self._scores_and_places(first, last, fine)
        sounds = [self._indices(side[first:last]) for side in (edges.left, edges.right)]
        role = torch.from_numpy(edges.role[first:last])
        left, right = (torch.from_numpy(side) for side in sounds)
        return EdgeWindows(torch.from_numpy(values).to(device), left.to(device), right.to(device), role.to(device))

    def _indices(self, sounds: np.ndarray) -> np.ndarray:
        """Return sounds (E,) as the network counts them."""
        silent = sounds == SILENT
        tokens, place = np.unique(self.ids[sounds[~silent]], return_inverse=True)
        labels = ("" if token == WILDCARD else self.emissions.vocab[token] for token in tokens)
        known = np.array([self.network.index_of(label) for label in labels], np.int64)
        indices = np.full(len(sounds), self.network.silence)
        indices[~silent] = known[place]
        return indices

    def _features(self, fine: np.ndarray) -> np.ndarray:
        """Return the fine features (E, MELS, W) of windows of fine frames (E, W), which ascend."""
        audio = self.emissions.sound
        assert audio is not None
        found = np.empty((len(fine), MELS, fine.shape[1]), np.float32)
        # Where hours without an edge are between two windows nothing of them is looked at.
        far = np.flatnonzero(fine[1:, 0] - fine[:-1, -1] > FAR_FRAMES) + 1
        for begin, end in zip((0, *far), (*far, len(fine))):
            low, width = int(fine[begin, 0]), fine.shape[1]
            features = fine_features(audio, low, int(fine[end - 1, -1]) + 1).numpy()
            windows = np.lib.stride_tricks.sliding_window_view(np.ascontiguousarray(features.T), width, 1)
            found[begin:end] = windows[:, fine[begin:end, 0] - low].transpose(1, 0, 2)
        return found

    def _scores_and_places(self, first: int, last: int, fine: np.ndarray) -> np.ndarray:
        """Return the model's scores, and the distances from edges (E, MODEL_CHANNELS, W), of fine frames (E, W)."""
        emissions, edges = self.emissions, self.edges
        time_s = fine * SHIFT_S
        frame = np.clip((time_s - emissions.first_frame_s) / emissions.frame_shift_s - 0.5, 0, None)
        scores = sound_scores(emissions, self.ids, edges.left[first:last], edges.right[first:last], frame)
        at_s = edges.frames * emissions.frame_shift_s + emissions.first_frame_s
        own_s = at_s[first:last, None]
        # The two edges between words lie in one place: what is beside them is farther away.
        before = np.searchsorted(at_s, own_s[:, 0], "left") - 1
        after = np.searchsorted(at_s, own_s[:, 0], "right")
        before_s = np.where(before >= 0, at_s[np.maximum(before, 0)], -np.inf)[:, None]
        after_s = np.where(after < len(at_s), at_s[np.minimum(after, len(at_s) - 1)], np.inf)[:, None]
        places = (
            np.clip((time_s - own_s) / NEAR_S, -FAR_S, FAR_S),
            np.tanh((time_s - before_s) / BESIDE_S),
            np.tanh((time_s - after_s) / BESIDE_S),
        )
        return np.concatenate((scores, np.stack(places, 1)), 1)


def sound_scores(
    emissions: Emissions, ids: np.ndarray, left: np.ndarray, right: np.ndarray, frame: np.ndarray
) -> np.ndarray:
    """Return what the model says for the sounds on either side of edges, for silence, and for the edge (E, 4, W).

    Of a model with segmentation states the posteriors of a sound are those of all its states, and the edge is where its
    last or the next one's first state is likely; else they are CTC's, and silence is the blank.

    Args:
        emissions: of the utterance.
        ids: (L,) of the sounds in the vocabulary.
        left, right: (E,) sounds beside the edges.
        frame: (E, W) frames, between which scores are straight lines.
    """
    scores = emissions.log_probs if emissions.states is None else emissions.states
    low = np.floor(frame).astype(np.int64)
    first = low[:, :1]
    count = int((low - first).max()) + 2
    # (E, t): the frames of the emissions that a window needs, and where they are among those that any needs
    needed, near = np.unique(np.minimum(first + np.arange(count), len(scores) - 1), return_inverse=True)
    near = near.reshape(-1, count)
    posteriors = _rows(scores, needed).log_softmax(1).numpy()
    before, before_end, _ = _side_scores(posteriors, near, emissions, ids[left], left == SILENT)
    after, _, after_begin = _side_scores(posteriors, near, emissions, ids[right], right == SILENT)
    silence = posteriors[:, _silence(emissions)][near]
    # (E, 4, t): of the sound before, of the one after, of silence, and of either side of the edge
    tracks = np.stack((before, after, silence, np.maximum(before_end, after_begin)), 1)
    np.clip(tracks, LEAST_SCORE, 0.0, out=tracks)
    tracks = (tracks + np.float32(SCORE_CENTRE)) * np.float32(SCORE_SCALE)
    lower = (low - first)[:, None]
    share = (frame - low).astype(np.float32)[:, None]
    return np.take_along_axis(tracks, lower, 2) * (1 - share) + np.take_along_axis(tracks, lower + 1, 2) * share


def _rows(scores: torch.Tensor | TensorOnDisk, frames: np.ndarray) -> torch.Tensor:
    """Return rows of scores (T, K) of frames that ascend, which may be hours apart: float32, on the CPU."""
    stretches = np.split(frames, np.flatnonzero(np.diff(frames) > FAR_ROWS) + 1)
    return torch.cat([scores[int(one[0]) : int(one[-1]) + 1].float().cpu()[one - one[0]] for one in stretches])


def _silence(emissions: Emissions) -> int:
    """Return the column of silence: the last state, or the blank."""
    return emissions.blank if emissions.states is None else -1


def _side_scores(
    posteriors: np.ndarray, near: np.ndarray, emissions: Emissions, tokens: np.ndarray, silent: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-posteriors (E, t) of the sounds on one side, and of their last and first states.

    Args:
        posteriors: (T, K) of the frames that are needed.
        near: (E, t) those around each edge.
        emissions: that they are of.
        tokens: (E,) of the sounds.
        silent: (E,) where there is no sound; a wildcard is silent, too.
    """
    silent = silent | (tokens == WILDCARD)
    if emissions.states is None:
        scores = posteriors[near, np.where(silent, emissions.blank, tokens)[:, None]]
        return scores, scores, scores
    parts = (posteriors.shape[1] - 1) // (len(emissions.vocab) - 1)
    first = (tokens - (tokens > emissions.blank)) * parts
    silence = posteriors.shape[1] - 1
    each = [posteriors[near, np.where(silent, silence, first + part)[:, None]] for part in range(parts)]
    total = each[0]
    for one in each[1:]:
        total = np.logaddexp(total, one)
    total = np.where(silent[:, None], each[0], total)
    return total, each[-1], each[0]


def utterance_sounds(ids: Sequence[int], words: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens that belong to words: their places in the row (L,), their ids and their words."""
    spoken = np.flatnonzero(np.asarray(words) >= 0)
    return spoken, np.asarray(ids)[spoken], np.asarray(words)[spoken]
