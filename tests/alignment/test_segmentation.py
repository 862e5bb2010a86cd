"""From spikes to spans: the segmentation states, the band around the spikes, and what to do without
either."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ctc_align import kernels, lattice
from ctc_align.alignment import segmentation
from ctc_align.alignment.ctc_path import Spans, token_spans
from ctc_align.alignment.segmentation import MIN_SD_FRAMES, SpokenTokens, band, segment, soft_edges
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
    assert (spans.start.tolist(), spans.end.tolist()) == SPANS


@pytest.mark.parametrize(
    ("pause", "words"), [(0, (0, 1)), (4, (7, 7))], ids=["two words", "one word"]
)
def test_sounds_touch_without_a_pause_between_words(pause: int, words: tuple[int, int]) -> None:
    """Silence within a word belongs to its sounds."""
    path = sound(0, 6) + [-1] * pause + sound(1, 6)
    spikes = spikes_at((2, 3), (8 + pause, 9 + pause))
    spans = from_states(emissions(states_of(path, 2), 2), row((0, 1), words), spikes, 100)
    assert spans.end[0] == spans.start[1]
    assert 6 <= spans.end[0] <= 6 + pause
    assert (spans.start[0], spans.end[1]) == (0, 12 + pause)


def test_separators_have_no_span_and_the_band_holds_an_edge_near_its_spike() -> None:
    spikes = spikes_at((9, 10), (17, 18), (24, 26), (33, 34), (38, 39))
    tokens = row((0, 1, 3, 2, 0), (0, 0, -1, 1, 1))
    spans = from_states(emissions(states_of(SPOKEN, 4), 4), tokens, spikes, 20)
    assert (spans.start[[0, 1, 3, 4]].tolist(), spans.end[[0, 1, 3, 4]].tolist()) == SPANS
    assert spans.start[2] == spans.end[2]
    # The states would put the token at the far end, CTC heard it at the start: it stays there.
    path = [-1] * 80 + sound(0, 20)
    near = from_states(emissions(states_of(path, 1), 1), row((0,), (0,)), spikes_at((10, 11)), 15)
    far = from_states(emissions(states_of(path, 1), 1), row((0,), (0,)), spikes_at((10, 11)), 100)
    assert far.start.tolist() == [80]
    assert near.start[0] <= 26


def test_too_few_frames_or_no_path_leave_the_spikes() -> None:
    spikes = spikes_at((0, 1), (3, 5))
    tokens = row((0, 1), (0, 1))
    assert from_states(emissions(torch.zeros(5, 7), 2), tokens, spikes, 10) is None
    assert from_states(emissions(torch.zeros(6, 7), 2), tokens, spikes, 10) is not None
    states = torch.zeros(20, 7)
    states[:, 4] = float("-inf")
    assert (
        from_states(emissions(states, 2), row((0, 1), (0, 1)), spikes_at((3, 4), (12, 13)), 4)
        is None
    )


@st.composite
def utterances(draw: st.DrawFn) -> tuple[list[int], list[int], Spans, int]:
    """Units, their words, spikes in order, and the number of frames: room enough for three frames a
    token."""
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
@settings(max_examples=150)
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


# A crowd of spikes: their parts need thirty frames, and the band of one frame gives way.
CROWD = ([0, 1] * 5, [0] * 10, spikes_at(*((t, t + 1) for t in range(45, 55))), 100)


@given(utterances(), st.integers(1, 30), st.integers(0, 99))
@example(CROWD, 1, 0)
@settings(max_examples=100)
def test_spans_ascend_and_hold_all_their_parts(made, width, seed) -> None:
    units, owners, spikes, frames = made
    states = torch.randn(frames, 4 * PARTS + 1, generator=torch.Generator().manual_seed(seed))
    spans = from_states(emissions(states, 4), row(units, owners), spikes, width)
    assert (spans.end - spans.start >= PARTS).all()
    assert (spans.start[1:] >= spans.end[:-1]).all()
    assert spans.start[0] >= 0
    assert spans.end[-1] <= frames
    inside = np.array(owners)[1:] == np.array(owners)[:-1]
    assert (spans.start[1:] == spans.end[:-1])[inside].all()


@given(utterances(), st.integers(0, 99))
@settings(max_examples=50)
def test_a_wide_band_is_no_band(made: tuple[list[int], list[int], Spans, int], seed: int) -> None:
    units, owners, spikes, frames = made
    states = torch.randn(frames, 4 * PARTS + 1, generator=torch.Generator().manual_seed(seed))
    spans = from_states(emissions(states, 4), row(units, owners), spikes, frames - 1 or 1)
    topology = lattice.segmentation([units], [owners], PARTS, 4 * PARTS)
    free = kernels.best_path(states[None], topology)
    best = token_spans(free.states[0].numpy(), topology.token[0], len(units))
    assert (spans.start.tolist(), spans.end.tolist()) == (best.start.tolist(), best.end.tolist())


# Soft edges against the enumeration of all segmentations, and against themselves in other windows.

EDGE_PARTS, SOUNDS = 2, 3


def utterance(rng: np.random.Generator, words: list[int], frames: int) -> SpokenTokens:
    """Random scores, and a best path that fits them no better than any other."""
    count = len(words)
    states = rng.normal(0, 2, (frames, SOUNDS * EDGE_PARTS + 1)).astype(np.float32)
    cuts = (
        np.sort(rng.choice(np.arange(1, frames // EDGE_PARTS), count - 1, replace=False))
        * EDGE_PARTS
    )
    edges = np.concatenate(([0], cuts, [frames]))
    return SpokenTokens(
        states,
        rng.integers(0, SOUNDS, count),
        np.array(words),
        Spans(edges[:-1], edges[1:]),
        EDGE_PARTS,
    )


def soft_places(utterances: list[SpokenTokens], scale: float) -> list[Spans]:
    return batching.run([soft_edges(sounds, scale) for sounds in utterances])


def by_enumeration(given: SpokenTokens, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """P(frame t is at or beyond the start of sound k), and beyond its end: (T, L) each, over every
    path there is."""
    topology = lattice.segmentation([given.sounds], [given.words], given.parts, SOUNDS * EDGE_PARTS)
    emit, token, skip = topology.emit[0], topology.token[0], topology.skip[0]
    frames, size, count = len(given.states), len(emit), len(given.sounds)
    starts, ends, total = np.zeros((frames, count)), np.zeros((frames, count)), 0.0
    for moves in itertools.product((0, 1, 2), repeat=frames - 1):
        for first in range(int(topology.starts[0])):
            path = first + np.concatenate(([0], np.cumsum(moves)))
            if path[-1] >= size or path[-1] < size - topology.finals[0]:
                continue
            if any(move == 2 and not skip[s] for move, s in zip(moves, path[1:])):
                continue
            weight = float(
                np.exp(scale * given.states[:][np.arange(frames), emit[path]].sum(dtype=np.float64))
            )
            total += weight
            for k in range(count):
                own = np.flatnonzero(token == k)
                starts[:, k] += weight * (path >= own[0])
                ends[:, k] += weight * (path > own[-1])
    return starts / total, ends / total


def median_and_sd(beyond: np.ndarray) -> tuple[float, float]:
    """Written once more, by another way: the line through the middles of frames, and moments of its
    steps."""
    risen = [*beyond.tolist(), 1.0]
    t = next(t for t, value in enumerate(risen) if value >= 0.5)
    median = 0.0 if t == 0 else float(np.interp(0.5, [risen[t - 1], risen[t]], [t - 0.5, t + 0.5]))
    steps = [value - before for before, value in zip([0.0, *risen], risen)]
    mean = sum(t * step for t, step in enumerate(steps))
    variance = sum((t - mean) ** 2 * step for t, step in enumerate(steps))
    return min(median, float(len(beyond))), max(variance, 0.0) ** 0.5 + MIN_SD_FRAMES


@pytest.mark.parametrize("seed", range(12))
def test_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [[0], [0, 0], [0, 1], [0, 1]][seed % 4]
    given = utterance(rng, words, int(rng.integers(2 * EDGE_PARTS * len(words), 9)))
    (places,) = soft_places([given], 0.5)
    starts, ends = by_enumeration(given, 0.5)
    for k in range(len(words)):
        assert (places.start[k], places.start_sd[k]) == pytest.approx(
            median_and_sd(starts[:, k]), abs=1e-3
        )
        assert (places.end[k], places.end_sd[k]) == pytest.approx(
            median_and_sd(ends[:, k]), abs=1e-3
        )


def long_utterance(seed: int, sounds: int) -> SpokenTokens:
    """Scores that know the edges well enough for windows to be cut."""
    rng = np.random.default_rng(seed)
    words = np.cumsum(rng.random(sounds) < 0.4)
    lengths = rng.integers(2 * EDGE_PARTS, 12, sounds)
    pauses = np.where(
        np.diff(words, prepend=words[0]) > 0,
        rng.integers(0, 2, sounds) * rng.integers(3, 60, sounds),
        0,
    )
    first = np.cumsum(lengths + pauses) - lengths
    last = first + lengths
    ids = rng.integers(0, SOUNDS, sounds)
    states = rng.normal(0, 1, (int(last[-1]) + 5, SOUNDS * EDGE_PARTS + 1)).astype(np.float32)
    states[:, -1] += 3
    for k in range(sounds):
        states[first[k] : last[k], -1] -= 3
        middle = (first[k] + last[k]) // 2
        states[first[k] : middle, ids[k] * EDGE_PARTS] += 3
        states[middle : last[k], ids[k] * EDGE_PARTS + 1] += 3
    return SpokenTokens(states, ids, words, Spans(first, last), EDGE_PARTS)


def test_windows_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    given = long_utterance(1, 90)
    monkeypatch.setattr(segmentation, "WINDOW_TOKENS", 1000)
    (whole,) = soft_places([given], 0.5)
    monkeypatch.setattr(segmentation, "WINDOW_TOKENS", 12)
    (cut,) = soft_places([given], 0.5)
    np.testing.assert_allclose(cut.start, whole.start, atol=0.02)
    np.testing.assert_allclose(cut.end_sd, whole.end_sd, atol=0.02)
    # Without a context they would.
    monkeypatch.setattr(segmentation, "CONTEXT_TOKENS", 0)
    (bare,) = soft_places([given], 0.5)
    assert np.abs(bare.start - whole.start).max() > 0.02
