"""From CTC's spikes to the edges that a person would draw.

CTC says what was said and roughly when; its spikes start late and end early. A model with a second output scores, for
every frame, which part of which sound it is (or silence). The best path through the tokens' parts, with optional
silence between words and nowhere far from the spikes, says where each sound begins and ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.ctc_path import Spikes, runs
from ctc_align.types import Emissions, Tokens


@dataclass(frozen=True)
class Spans:
    """Frames `first` (L,) to `last` (L,), exclusive, of each token: ascending, one frame or more, never overlapping.

    What stands between words (a separator) may be empty.
    """

    first: np.ndarray
    last: np.ndarray


def from_spikes(spikes: Spikes) -> Spans:
    """The frames of the CTC path itself: what is left for log-probs without a second output."""
    return Spans(spikes.first, spikes.last)


def from_states(
    emissions: Emissions, tokens: Tokens, spikes: Spikes, band_frames: int, *, backend: str = "auto"
) -> Spans | None:
    """Spans by the segmentation states `emissions.states` (T, K): parts of each token in a row, the last is silence.

    Args:
        emissions: with states; with P parts a token, those of the k-th token that is not the blank (from 0) are the
            states k * P to k * P + P - 1, and state K - 1 is silence.
        tokens: what is said; separators between words have no states, their spans are empty.
        spikes: where CTC put the tokens.
        band_frames: how far an edge may move away from the spikes; more where the tokens' parts do not fit otherwise.

    Returns:
        None where the audio is too short for the tokens' parts (CTC needs fewer frames); spikes are then what there is.
    """
    states = emissions.states
    assert states is not None
    owners = np.asarray(tokens.words)
    said = np.flatnonzero(owners >= 0)
    ids = np.asarray(tokens.ids)[said]
    silence = states.shape[1] - 1
    parts = silence // (len(emissions.vocab) - 1)
    topology = lattice.segmentation([ids - (ids > emissions.blank)], [owners[said]], parts, silence)
    if len(states) < int(topology.min_frames[0]):
        return None
    own = Spikes(spikes.first[said], spikes.last[said], spikes.score, spikes.backend)
    path = _path(states, topology, own, band_frames, backend)
    if path is None:
        return None
    first, last = spikes.first.copy(), spikes.first.copy()
    first[said], last[said] = runs(path, topology.token[0], len(said))
    return Spans(first, last)


def _path(
    states: torch.Tensor, topology: lattice.Topology, spikes: Spikes, band_frames: int, backend: str
) -> np.ndarray | None:
    """The best path (T,) near the spikes; the band widens until the tokens of a crowded stretch fit."""
    while True:
        whole = band_frames >= len(states)
        bands = None if whole else band(topology.token[0], spikes, len(states), band_frames)[None]
        path = kernels.best_path(states[None], topology, bands=bands, backend=backend)
        if path.scores[0] > float("-inf"):
            return path.states[0].numpy()
        if whole:
            return None
        band_frames *= 2


def band(token_of_state: np.ndarray, spikes: Spikes, frames: int, band_frames: int) -> np.ndarray:
    """First and last (exclusive) state allowed at each frame (T, 2): those of tokens that spike within `band_frames`.

    The silence next to an allowed token is allowed too, and across a pause longer than the band only the silence in it.
    """
    count = len(spikes.first)
    states = len(token_of_state)
    centre = (spikes.first + spikes.last - 1) / 2
    owned = np.flatnonzero(token_of_state >= 0)
    begin = np.full(count, states, np.int64)
    end = np.zeros(count, np.int64)
    np.minimum.at(begin, token_of_state[owned], owned)
    np.maximum.at(end, token_of_state[owned], owned + 1)
    before = np.where((begin > 0) & (token_of_state[begin - 1] < 0), begin - 1, begin)
    after = np.where(token_of_state[np.minimum(end, states - 1)] < 0, np.minimum(end + 1, states), end)
    t = np.arange(frames)
    earliest = np.searchsorted(centre, t - band_frames, "left")
    latest = np.searchsorted(centre, t + band_frames, "right") - 1
    low = np.where(earliest < count, before[np.minimum(earliest, count - 1)], states - 1)
    high = np.where(latest >= 0, after[np.maximum(latest, 0)], 1)
    # In a gap longer than the band no token is near: hold on to the last one, or its silence, until the next comes.
    low = np.minimum(low, high - 1)
    low[0] = 0
    high[-1] = states
    return np.stack((np.maximum.accumulate(low), np.maximum.accumulate(high)), 1)
