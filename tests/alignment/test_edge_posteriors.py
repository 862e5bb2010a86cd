"""Soft edges against the enumeration of all segmentations, and against themselves in other windows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ctc_align import lattice
from ctc_align.alignment import segmentation
from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.segmentation import MIN_SD_FRAMES, Sounds, soft_edges
from ctc_align.kernels import batching

PARTS, SOUNDS = 2, 3


def utterance(rng: np.random.Generator, words: list[int], frames: int) -> Sounds:
    """Random scores, and a best path that fits them no better than any other."""
    count = len(words)
    states = torch.from_numpy(rng.normal(0, 2, (frames, SOUNDS * PARTS + 1)).astype(np.float32))
    cuts = np.sort(rng.choice(np.arange(1, frames // PARTS), count - 1, replace=False)) * PARTS
    edges = np.concatenate(([0], cuts, [frames]))
    return Sounds(states, rng.integers(0, SOUNDS, count), np.array(words), Spans(edges[:-1], edges[1:]), PARTS)


def soft_places(utterances: list[Sounds], scale: float) -> list[Spans]:
    return batching.run([soft_edges(sounds, scale) for sounds in utterances])


def by_enumeration(given: Sounds, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """P(frame t is at or beyond the start of sound k), and beyond its end: (T, L) each, over every path there is."""
    topology = lattice.segmentation([given.sounds], [given.words], given.parts, SOUNDS * PARTS)
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
            weight = float(np.exp(scale * given.states.numpy()[np.arange(frames), emit[path]].sum(dtype=np.float64)))
            total += weight
            for k in range(count):
                own = np.flatnonzero(token == k)
                starts[:, k] += weight * (path >= own[0])
                ends[:, k] += weight * (path > own[-1])
    return starts / total, ends / total


def median_and_sd(beyond: np.ndarray) -> tuple[float, float]:
    """Written once more, by another way: the line through the middles of frames, and moments of its steps."""
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
    given = utterance(rng, words, int(rng.integers(2 * PARTS * len(words), 9)))
    (places,) = soft_places([given], 0.5)
    starts, ends = by_enumeration(given, 0.5)
    for k in range(len(words)):
        assert (places.start[k], places.start_sd[k]) == pytest.approx(median_and_sd(starts[:, k]), abs=1e-3)
        assert (places.end[k], places.end_sd[k]) == pytest.approx(median_and_sd(ends[:, k]), abs=1e-3)


def long_utterance(seed: int, sounds: int) -> Sounds:
    """Scores that know the edges well enough for windows to be cut."""
    rng = np.random.default_rng(seed)
    words = np.cumsum(rng.random(sounds) < 0.4)
    lengths = rng.integers(2 * PARTS, 12, sounds)
    pauses = np.where(np.diff(words, prepend=words[0]) > 0, rng.integers(0, 2, sounds) * rng.integers(3, 60, sounds), 0)
    first = np.cumsum(lengths + pauses) - lengths
    last = first + lengths
    ids = rng.integers(0, SOUNDS, sounds)
    states = rng.normal(0, 1, (int(last[-1]) + 5, SOUNDS * PARTS + 1)).astype(np.float32)
    states[:, -1] += 3
    for k in range(sounds):
        states[first[k] : last[k], -1] -= 3
        middle = (first[k] + last[k]) // 2
        states[first[k] : middle, ids[k] * PARTS] += 3
        states[middle : last[k], ids[k] * PARTS + 1] += 3
    return Sounds(torch.from_numpy(states), ids, words, Spans(first, last), PARTS)


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


def test_the_company_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [long_utterance(seed, 5 + 9 * seed) for seed in range(6)]
    together = soft_places(many, 0.4)
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 1)
    for given, met in zip(many, together):
        (alone,) = soft_places([given], 0.4)
        for name in ("start", "end", "start_sd", "end_sd"):
            assert getattr(alone, name).tolist() == getattr(met, name).tolist()


def test_edges_are_near_the_best_path_and_in_order() -> None:
    given = long_utterance(3, 60)
    (places,) = soft_places([given], 0.5)
    assert np.abs(places.start - given.spans.start).mean() < 2
    assert (np.diff(places.start) > 0).all()
    assert (places.end >= places.start).all()
    assert (places.end[:-1] <= places.start[1:] + 1e-6).all()
