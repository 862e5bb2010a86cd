"""Edges beside pauses, brought out of the quiet by the level of the sound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import HELD_S, edges_out_of_pauses
from ctc_align.types import Audio, Emissions, Tokens

RATE, SHIFT_S = 16000, 0.01
SPOKEN_S = ((0.5, 1.0), (1.4, 2.0))
"""Where the sound of the two words is, of two tokens each."""
EARLY_S = LATE_S = 0.12


def drawn(pause_db: float, first_frame_s: float = 0.0) -> tuple[Emissions, Tokens, Spans]:
    """Return a recording whose pauses are so much quieter than its words, and edges that lie far out in them."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal(round(2.5 * RATE)) * 0.1 * 10 ** (-pause_db / 20)
    for start_s, end_s in SPOKEN_S:
        place = slice(round(start_s * RATE), round(end_s * RATE))
        samples[place] += 0.1 * rng.standard_normal(place.stop - place.start)
    audio = Audio(samples.astype(np.float32), RATE)
    emissions = Emissions(
        torch.zeros(250, 3), ("", "a", "b"), SHIFT_S, sound=audio, duration_s=2.5, first_frame_s=first_frame_s
    )
    edges_s = np.array([0.5 - EARLY_S, 0.75, 0.75, 1.0 + LATE_S, 1.4 - EARLY_S, 1.7, 1.7, 2.0 + LATE_S])
    frames = (edges_s - first_frame_s) / SHIFT_S
    spreads = np.ones(4)
    return (
        emissions,
        Tokens((1, 2, 1, 2), ("a", "b", "a", "b"), (0, 0, 1, 1)),
        Spans(frames[::2], frames[1::2], spreads, spreads),
    )


def seconds(edges: np.ndarray, emissions: Emissions) -> np.ndarray:
    return np.asarray(edges * SHIFT_S + emissions.first_frame_s)


@pytest.mark.parametrize("first_frame_s", [0.0, -0.02])
def test_words_end_where_the_sound_does(first_frame_s: float) -> None:
    emissions, tokens, before = drawn(40.0, first_frame_s)
    after = edges_out_of_pauses(emissions, tokens, before)
    start, end = seconds(after.start, emissions), seconds(after.end, emissions)
    for word, (start_s, end_s) in enumerate(SPOKEN_S):
        assert start[2 * word] == pytest.approx(start_s - HELD_S, abs=0.011)
        assert end[2 * word + 1] == pytest.approx(end_s + HELD_S, abs=0.011)
        assert end[2 * word] == start[2 * word + 1] == pytest.approx(seconds(before.end, emissions)[2 * word])


def test_in_a_loud_pause_nothing_moves() -> None:
    emissions, tokens, before = drawn(15.0)
    after = edges_out_of_pauses(emissions, tokens, before)
    np.testing.assert_allclose(after.start, before.start)
    np.testing.assert_allclose(after.end, before.end)


def test_a_word_that_is_not_to_be_heard_stays() -> None:
    """Where no sound is near, the level knows nothing of its edges."""
    emissions, tokens, _ = drawn(40.0)
    quiet = Spans(np.array([105.0, 110.0, 128.0, 170.0]), np.array([110.0, 120.0, 170.0, 212.0]))
    after = edges_out_of_pauses(emissions, tokens, quiet)
    assert (after.start[0], after.end[1]) == (105.0, 120.0)
