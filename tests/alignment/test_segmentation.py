"""From spikes to spans: the segmentation states, the band around the spikes, and what to do without either."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctc_align import kernels, lattice
from ctc_align.alignment.ctc_path import Spans, token_spans
from ctc_align.alignment.segmentation import band, segment
from ctc_align.kernels import batching
from ctc_align.types import Emissions, Tokens

PARTS = 3


def spikes_at(*spans: tuple[int, int]) -> Spans:
    return Spans(*np.array(spans, np.int64).reshape(-1, 2).T)


def from_states(*arguments: object) -> Spans | None:
    return batching.run([segment(*arguments)])[0]  # type: ignore[arg-type]


def row(units: Sequence[int], words: Sequence[int], blank: int = 0) -> Tokens:
    """Token ids of units counted without the blank."""
    ids = tuple(unit + (unit >= blank) for unit in units)
    return Tokens(ids, tuple(map(str, units)), tuple(words))


def states_of(path: Sequence[int], units: int) -> torch.Tensor:
    """Scores (T, units * PARTS + 1) that say `path`: state numbers, -1 for silence."""
    size = units * PARTS + 1
    scores = torch.full((len(path), size), -6.0)
    scores[torch.arange(len(path)), torch.tensor([k if k >= 0 else size - 1 for k in path])] = 0.0
    return scores


def emissions(states: torch.Tensor, units: int, blank: int = 0) -> Emissions:
    vocab = tuple(f"t{i}" for i in range(units + 1))
    return Emissions(torch.zeros(len(states), units + 1), vocab, 0.01, blank, states=states)


def sound(unit: int, frames: int) -> list[int]:
    """A unit's states in a row, for `frames` in all."""
    return sorted(unit * PARTS + part % PARTS for part in range(frames))


SPOKEN = [-1] * 5 + sound(0, 9) + sound(1, 7) + [-1] * 10 + sound(2, 4) + sound(0, 6) + [-1] * 2
SPANS = ([5, 14, 31, 35], [14, 21, 35, 41])


@pytest.mark.parametrize("blank", [0, 1, 3])
@pytest.mark.parametrize("band_frames", [8, 20, 1000])
def test_planted_edges_are_found(blank: int, band_frames: int) -> None:
    """Spans one frame wide and late, as CTC's are; the edges are those of the sounds."""
    spikes = spikes_at((9, 10), (17, 18), (33, 34), (38, 39))
    tokens = row((0, 1, 2, 0), (0, 0, 1, 1), blank)
    spans = from_states(emissions(states_of(SPOKEN, 3), 3, blank), tokens, spikes, band_frames)
    assert spans is not None
    assert (spans.start.tolist(), spans.end.tolist()) == SPANS


def test_without_a_pause_words_touch() -> None:
    path = sound(0, 5) + sound(1, 6)
    spans = from_states(emissions(states_of(path, 2), 2), row((0, 1), (0, 1)), spikes_at((2, 3), (8, 9)), 100)
    assert spans is not None
    assert (spans.start.tolist(), spans.end.tolist()) == ([0, 5], [5, 11])


def test_silence_within_a_word_belongs_to_its_sounds() -> None:
    path = sound(0, 6) + [-1] * 4 + sound(1, 6)
    spans = from_states(emissions(states_of(path, 2), 2), row((0, 1), (7, 7)), spikes_at((2, 3), (12, 13)), 100)
    assert spans is not None
    assert spans.end[0] == spans.start[1]
    assert (spans.start[0], spans.end[1]) == (0, 16)


def test_separators_have_no_states_and_no_span() -> None:
    spikes = spikes_at((9, 10), (17, 18), (24, 26), (33, 34), (38, 39))
    tokens = row((0, 1, 3, 2, 0), (0, 0, -1, 1, 1))
    spans = from_states(emissions(states_of(SPOKEN, 4), 4), tokens, spikes, 20)
    assert spans is not None
    assert (spans.start[[0, 1, 3, 4]].tolist(), spans.end[[0, 1, 3, 4]].tolist()) == SPANS
    assert spans.start[2] == spans.end[2]


def test_too_few_frames_for_the_parts_leave_the_spikes() -> None:
    spikes = spikes_at((0, 1), (3, 5))
    tokens = row((0, 1), (0, 1))
    assert from_states(emissions(torch.zeros(5, 7), 2), tokens, spikes, 10) is None
    assert from_states(emissions(torch.zeros(6, 7), 2), tokens, spikes, 10) is not None


def test_states_without_any_path_leave_the_spikes() -> None:
    states = torch.zeros(20, 7)
    states[:, 4] = float("-inf")
    assert from_states(emissions(states, 2), row((0, 1), (0, 1)), spikes_at((3, 4), (12, 13)), 4) is None


def test_a_crowd_of_spikes_widens_the_band() -> None:
    """Ten tokens spike in ten frames; their parts need thirty, and the band of one frame gives way."""
    spikes = spikes_at(*((t, t + 1) for t in range(45, 55)))
    units = [k % 2 for k in range(10)]
    spans = from_states(emissions(torch.zeros(100, 7), 2), row(units, [0] * 10), spikes, 1)
    assert spans is not None
    assert (spans.end - spans.start >= PARTS).all()
    assert (spans.start[1:] == spans.end[:-1]).all()


def test_the_band_holds_an_edge_near_its_spike() -> None:
    """The states would put the token at the far end, CTC heard it at the start: it stays there."""
    path = [-1] * 80 + sound(0, 20)
    near = from_states(emissions(states_of(path, 1), 1), row((0,), (0,)), spikes_at((10, 11)), 15)
    far = from_states(emissions(states_of(path, 1), 1), row((0,), (0,)), spikes_at((10, 11)), 100)
    assert near is not None
    assert far is not None
    assert far.start.tolist() == [80]
    assert near.start[0] <= 26


@st.composite
def utterances(draw: st.DrawFn) -> tuple[list[int], list[int], Spans, int]:
    """Units, their words, spikes in order, and the number of frames: room enough for three frames a token."""
    words = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    owners = [w for w, size in enumerate(words) for _ in range(size)]
    gaps = draw(st.lists(st.integers(0, 60), min_size=len(owners) + 1, max_size=len(owners) + 1))
    widths = draw(st.lists(st.integers(1, 4), min_size=len(owners), max_size=len(owners)))
    spans, t = [], 0
    for gap, width in zip(gaps, widths):
        spans.append((t + gap, t + gap + width))
        t += gap + width
    return (
        draw(st.lists(st.integers(0, 3), min_size=len(owners), max_size=len(owners))),
        owners,
        spikes_at(*spans),
        max(t + gaps[-1], PARTS * len(owners)),
    )


@given(utterances(), st.integers(1, 30))
@settings(max_examples=150, deadline=None)
def test_bands_are_sound(made: tuple[list[int], list[int], Spans, int], width: int) -> None:
    units, owners, spikes, frames = made
    topology = lattice.segmentation([units], [owners], PARTS, 4 * PARTS)
    token = topology.token[0]
    limits = band(token, spikes, frames, width)
    assert limits.shape == (frames, 2)
    assert (limits[:, 0] < limits[:, 1]).all()
    assert (np.diff(limits, axis=0) >= 0).all()
    assert (limits[0, 0], limits[-1, 1]) == (0, len(token))
    for k in range(len(units)):
        own = np.flatnonzero(token == k)
        centre = int((spikes.start[k] + spikes.end[k] - 1) // 2)
        t = min(centre, frames - 1)
        assert limits[t, 0] <= own[0], "every token may sound at its spike"
        assert own[-1] < limits[t, 1]


@given(utterances(), st.integers(1, 30), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_spans_ascend_and_hold_all_their_parts(
    made: tuple[list[int], list[int], Spans, int], width: int, seed: int
) -> None:
    units, owners, spikes, frames = made
    states = torch.randn(frames, 4 * PARTS + 1, generator=torch.Generator().manual_seed(seed))
    spans = from_states(emissions(states, 4), row(units, owners), spikes, width)
    assert spans is not None
    assert (spans.end - spans.start >= PARTS).all()
    assert (spans.start[1:] >= spans.end[:-1]).all()
    assert spans.start[0] >= 0
    assert spans.end[-1] <= frames
    inside = np.array(owners)[1:] == np.array(owners)[:-1]
    assert (spans.start[1:] == spans.end[:-1])[inside].all()


@given(utterances(), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_a_wide_band_is_no_band(made: tuple[list[int], list[int], Spans, int], seed: int) -> None:
    units, owners, spikes, frames = made
    states = torch.randn(frames, 4 * PARTS + 1, generator=torch.Generator().manual_seed(seed))
    spans = from_states(emissions(states, 4), row(units, owners), spikes, frames - 1 or 1)
    topology = lattice.segmentation([units], [owners], PARTS, 4 * PARTS)
    free = kernels.best_path(states[None], topology)
    best = token_spans(free.states[0].numpy(), topology.token[0], len(units))
    first, last = best.start, best.end
    assert spans is not None
    assert (spans.start.tolist(), spans.end.tolist()) == (first.tolist(), last.tolist())
