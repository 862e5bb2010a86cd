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
from ctc_align.models.fine_features import MELS, SHIFT_S, fine_features
from ctc_align.types import Emissions

LEAST_SCORE, SCORE_SCALE, SCORE_CENTRE = -12.0, 0.25, 4.0
"""Log-posteriors are limited, centred and scaled to be network inputs."""
NEAR_S, BESIDE_S = 0.05, 0.02
"""The distance from the edge, and from the edges beside it, in these units."""
FAR_S = 2.0
"""The most that the distance is, in its unit."""
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
        sounds = [np.array([self._index(sound) for sound in side[first:last]]) for side in (edges.left, edges.right)]
        role = torch.from_numpy(edges.role[first:last])
        left, right = (torch.from_numpy(side) for side in sounds)
        return EdgeWindows(torch.from_numpy(values).to(device), left.to(device), right.to(device), role.to(device))

    def _index(self, sound: int) -> int:
        if sound == SILENT:
            return self.network.silence
        token = int(self.ids[sound])
        return self.network.index_of("" if token == WILDCARD else self.emissions.vocab[token])

    def _features(self, fine: np.ndarray) -> np.ndarray:
        """Return the fine features (E, MELS, W) of windows of fine frames (E, W), which ascend."""
        audio = self.emissions.sound
        assert audio is not None
        low, high = int(fine.min()), int(fine.max()) + 1
        features = fine_features(audio, low, high).numpy()
        return features[fine - low].transpose(0, 2, 1)

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
    states = emissions.states
    low = np.floor(frame).astype(np.int64)
    begin, end = int(low.min()), min(int(low.max()) + 2, len(emissions.log_probs))
    begin = min(begin, end - 1)
    rows = (emissions.log_probs if states is None else states)[begin:end].float().cpu()
    posteriors = rows.log_softmax(1).numpy()
    channels = [_side_scores(posteriors, emissions, ids, side) for side in (left, right)]
    silence = posteriors[:, emissions.blank] if states is None else posteriors[:, -1]
    both = np.broadcast_to(silence, channels[0][0].shape)
    # (4, E, t): of the sound before, of the one after, of silence, and of either side of the edge
    tracks = np.stack((channels[0][0], channels[1][0], both, np.maximum(channels[0][1], channels[1][2])))
    np.clip(tracks, LEAST_SCORE, 0.0, out=tracks)
    lower = np.clip(low - begin, 0, end - begin - 1)
    upper = np.minimum(lower + 1, end - begin - 1)
    share = np.clip(frame - low, 0.0, 1.0)
    edge = np.arange(len(left))[:, None]
    values = tracks[:, edge, lower] * (1.0 - share) + tracks[:, edge, upper] * share
    return ((values + SCORE_CENTRE) * SCORE_SCALE).transpose(1, 0, 2)


def _side_scores(
    posteriors: np.ndarray, emissions: Emissions, ids: np.ndarray, sounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return log-posteriors (E, t) of the sounds on one side, and of their last and first states."""
    tokens = ids[sounds]
    silent = (sounds == SILENT) | (tokens == WILDCARD)
    if emissions.states is None:
        scores = posteriors[:, np.where(silent, emissions.blank, tokens)].T
        return scores, scores, scores
    parts = (posteriors.shape[1] - 1) // (len(emissions.vocab) - 1)
    first = np.where(silent, 0, tokens - (tokens > emissions.blank)) * parts
    each = np.stack([posteriors[:, first + part].T for part in range(parts)])
    silence = posteriors[:, -1]
    largest = each.max(0)
    total = largest + np.log(np.exp(each - largest).sum(0))
    return tuple(np.where(silent[:, None], silence, track) for track in (total, each[-1], each[0]))  # type: ignore[return-value]


def utterance_sounds(ids: Sequence[int], words: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the tokens that belong to words: their places in the row (L,), their ids and their words."""
    spoken = np.flatnonzero(np.asarray(words) >= 0)
    return spoken, np.asarray(ids)[spoken], np.asarray(words)[spoken]
