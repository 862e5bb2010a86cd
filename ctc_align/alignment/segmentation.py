"""From CTC's spikes to the edges that a person would draw.

CTC says what was said and roughly when; its spikes start late and end early. A model with a second output scores, for
every frame, which part of which sound it is (or silence). The best path through the tokens' parts, with optional
silence between words and nowhere far from the spikes, says where each sound begins and ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from ctc_align import kernels, lattice
from ctc_align.alignment.ctc_path import Spikes, runs
from ctc_align.alignment.wildcard import speech_scores
from ctc_align.kernels.padding import buckets, pad
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


def parts_of(emissions: Emissions) -> int:
    """How many states each token has in the model's second output."""
    assert emissions.states is not None
    return (emissions.states.shape[1] - 1) // (len(emissions.vocab) - 1)


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
    return from_states_batch([emissions], [tokens], [spikes], band_frames, backend=backend)[0]


def from_states_batch(
    emissions: Sequence[Emissions],
    tokens: Sequence[Tokens],
    spikes: Sequence[Spikes],
    band_frames: int,
    *,
    backend: str = "auto",
) -> list[Spans | None]:
    """As `from_states` of each of many utterances of one vocabulary, blank and number of states."""
    rows = [_row(*one, band_frames) for one in zip(emissions, tokens, spikes)]
    found: list[Spans | None] = [None] * len(rows)
    for bucket in buckets([row.states for row in rows]):
        _fill_paths([row for row in (rows[i] for i in bucket) if row.fits], backend)
    for i, row in enumerate(rows):
        if row.path is not None:
            first, last = spikes[i].first.copy(), spikes[i].first.copy()
            first[row.said], last[row.said] = runs(row.path, row.token_of_state, len(row.said))
            found[i] = Spans(first, last)
    return found


@dataclass
class _Row:
    """An utterance on its way: its states (T, K), which of its tokens have any (`said`), their ids without the blank
    and the words they belong to; then its topology's states and the best path (T,) through them, if there is one."""

    states: torch.Tensor
    said: np.ndarray
    ids: np.ndarray
    words: np.ndarray
    parts: int
    spikes: Spikes
    band_frames: int
    token_of_state: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))
    path: np.ndarray | None = None

    @property
    def fits(self) -> bool:
        return len(self.states) >= self.parts * len(self.said)


def _row(emissions: Emissions, tokens: Tokens, spikes: Spikes, band_frames: int) -> _Row:
    states = emissions.states
    assert states is not None
    owners = np.asarray(tokens.words)
    said = np.flatnonzero(owners >= 0)
    ids = np.asarray(tokens.ids)[said]
    parts = parts_of(emissions)
    own = Spikes(spikes.first[said], spikes.last[said], spikes.score, spikes.backend)
    return _Row(states, said, ids - (ids > emissions.blank), owners[said], parts, own, band_frames)


def _fill_paths(rows: Sequence[_Row], backend: str) -> None:
    """The best paths near the spikes; a band widens until the tokens of a crowded stretch fit."""
    while rows:
        parts, silence = rows[0].parts, rows[0].states.shape[1] - 1
        topology = lattice.segmentation([row.ids for row in rows], [row.words for row in rows], parts, silence)
        batch, lengths = pad([row.states for row in rows])
        bands = np.zeros((*batch.shape[:2], 2), np.int64)
        for b, row in enumerate(rows):
            row.token_of_state = topology.token[b, : topology.states[b]]
            lasting = row.ids == lattice.WILDCARD
            bands[b, : len(row.states)] = band(
                row.token_of_state, row.spikes, len(row.states), row.band_frames, lasting
            )
        wildcard = speech_scores(batch) if topology.has_wildcard else None
        path = kernels.best_path(batch, topology, lengths, wildcard=wildcard, bands=bands, backend=backend)
        states, found = path.states.cpu().numpy(), (path.scores > float("-inf")).tolist()
        again = []
        for b, row in enumerate(rows):
            if found[b]:
                row.path = states[b, : len(row.states)]
            elif row.band_frames < len(row.states):
                row.band_frames *= 2
                again.append(row)
        rows = again


def band(
    token_of_state: np.ndarray, spikes: Spikes, frames: int, band_frames: int, lasting: np.ndarray | None = None
) -> np.ndarray:
    """First and last (exclusive) state allowed at each frame (T, 2): those of tokens that spike within `band_frames`.

    The silence next to an allowed token is allowed too, and across a pause longer than the band only the silence in it.
    A spike is its middle; of tokens that are `lasting` (L,) bool, wildcards, it is all their frames.
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
    begins, ends = centre, centre
    if lasting is not None and lasting.any():
        begins, ends = np.where(lasting, spikes.first, centre), np.where(lasting, spikes.last - 1, centre)
    earliest = np.searchsorted(ends, t - band_frames, "left")
    latest = np.searchsorted(begins, t + band_frames, "right") - 1
    low = np.where(earliest < count, before[np.minimum(earliest, count - 1)], states - 1)
    high = np.where(latest >= 0, after[np.maximum(latest, 0)], 1)
    # In a gap longer than the band no token is near: hold on to the last one, or its silence, until the next comes.
    low = np.minimum(low, high - 1)
    low[0] = 0
    high[-1] = states
    return np.stack((np.maximum.accumulate(low), np.maximum.accumulate(high)), 1)
