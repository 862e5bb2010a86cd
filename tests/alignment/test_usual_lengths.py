"""Usual lengths decide where the network does not know an edge, and leave those that it knows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctc_align.alignment.usual_lengths import UsualLengths, draw_by_lengths
from ctc_align.models import load_model
from ctc_align.models.calibration import SoundDurations, load_durations

FRAMES = 60


def passed(first: int, last: int) -> np.ndarray:
    """Return P(an edge has passed by each frame) of one that may as well be at each of (first,
    last]."""
    return np.clip((np.arange(FRAMES) - first + 1) / (last - first + 1), 0, 1)


def drawn(
    edges: list[tuple[int, int]], usual: tuple[float, float], sd: float = 0.1, pause: bool = False
) -> np.ndarray:
    """Return the start, the edge between, and the end of two sounds, from the frames in which each
    may be."""
    begun = np.stack((passed(*edges[0]), passed(*edges[1])), 1)
    ended = np.stack((passed(*edges[1]), passed(*edges[2])), 1)
    middle = [(low + high) / 2 for low, high in edges]
    lengths = UsualLengths(np.log(usual), np.full(2, sd), np.array([pause, True]))
    start, end = draw_by_lengths(
        (begun, ended), np.array(middle[:2]), np.array(middle[1:]), lengths
    )
    return np.array([start[0], start[1], end[0], end[1]])


SHARP, BROAD = (30, 30), (15, 45)


@pytest.mark.parametrize(("usual", "at"), [((10, 30), 20), ((30, 10), 40), ((20, 20), 30)])
def test_lengths_decide_where_the_network_does_not_know(
    usual: tuple[float, float], at: float
) -> None:
    _, second, first, _ = drawn([(10, 10), BROAD, (50, 50)], usual)
    assert first == second == pytest.approx(at, abs=0.7)


def test_a_certain_edge_stays() -> None:
    assert drawn([(10, 10), SHARP, (50, 50)], (2, 90)) == pytest.approx([10, 30, 30, 50], abs=0.5)


def test_beside_a_pause_only_the_own_sound_counts() -> None:
    _, second, first, _ = drawn([(10, 10), BROAD, (50, 50)], (10, 10), pause=True)
    assert first == pytest.approx(20, abs=0.7)
    assert second == pytest.approx(40, abs=0.7)


def test_unknown_lengths_change_nothing() -> None:
    found = drawn([(10, 10), BROAD, (50, 50)], (3, 3), sd=math.inf)
    assert found == pytest.approx([10, 30, 30, 50], abs=0.5)


def test_the_table_of_a_model(tmp_path) -> None:
    (tmp_path / "durations.tsv").write_text("token\tm\ts\tml\tsl\nAH\t-3.0\t0.5\t-2.0\t0.4\n")
    known = load_durations(tmp_path)
    assert known == SoundDurations({"AH": (-3.0, 0.5, -2.0, 0.4)})
    mean, sd = known.of(["AH", "AH", "?"], np.array([False, True, True]), 0.01)
    assert mean[:2] == pytest.approx([-3 - math.log(0.01), -2 - math.log(0.01)])
    assert sd.tolist() == [0.5, 0.4, math.inf]
    assert load_durations(tmp_path / "absent") is None


@pytest.mark.parametrize("name", ["english", "universal"])
def test_the_tables_of_our_models_have_all_their_sounds(name: str) -> None:
    model = load_model(name, device="cpu")
    assert set(model.durations.table) == set(model.vocab[1:])
