"""The player's clock: what steps of a file's times become silence, are trimmed, or are only jitter."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ctc_align.audio.media_file import Conversion, DecodedPiece, place_pieces, with_channels

RATE, SIZE = 1000, 20


def pieces(starts_ms: list[float | None]) -> list[DecodedPiece]:
    """Pieces of 20 ms that hold 1, 2, 3 …, at these times."""
    return [
        DecodedPiece(np.full((SIZE, 1), number, np.float32), RATE, None if start is None else start / 1000)
        for number, start in enumerate(starts_ms, start=1)
    ]


def placed(starts_ms: list[float | None], **how: bool) -> list[int]:
    """Return where each piece begins in the stream, in ms; -1 where nothing is left of it."""
    at, found = 0, []
    for one in place_pieces(pieces(starts_ms), "a.webm", **how):
        at += one.silence
        found.append(at - one.trimmed if len(one.samples) else -1)
        at += len(one.samples)
    return found


STEADY = [20.0 * i for i in range(40)]


@pytest.mark.parametrize(
    ("starts_ms", "expected"),
    [
        (STEADY, STEADY),
        ([None] * 40, STEADY),
        ([500 + t for t in STEADY], [500 + t for t in STEADY]),  # late sound
        ([t - 30 for t in STEADY], [-1, *(t - 30 for t in STEADY[1:])]),  # what lies before the start
        ([t + (t >= 400) * 50 for t in STEADY], [t + (t >= 400) * 50 for t in STEADY]),  # a gap
        ([t + (t >= 400) * 7000 for t in STEADY], [t + (t >= 400) * 7000 for t in STEADY]),
        ([t + np.sin(t) * 4 for t in STEADY], STEADY),  # jitter
        ([t + (i % 4 == 1) * 15 for i, t in enumerate(STEADY)], STEADY),  # pieces that are held up
        ([t + (t == 400) * 5000 for t in STEADY], STEADY),  # one wrong time
    ],
)
def test_steps_count_and_jitter_does_not(starts_ms: list[float], expected: list[float]) -> None:
    assert placed(starts_ms) == pytest.approx(expected, abs=1)


def test_overlaps_are_trimmed() -> None:
    found = placed([t - (t >= 400) * 30 for t in STEADY])
    assert found[:20] == pytest.approx(STEADY[:20])
    assert found[20] == -1
    assert found[21:] == pytest.approx([t - 30 for t in STEADY[21:]])


def test_slow_drift_is_followed() -> None:
    starts_ms = [20.2 * i for i in range(2000)]  # a clock that is a hundredth off
    assert np.abs(np.array(placed(starts_ms)) - starts_ms).max() <= 7


def test_a_clock_that_is_set_anew_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        twice = [20.0 * i for i in range(60)] * 2
        assert placed(twice) == pytest.approx([20.0 * i for i in range(120)])
        assert placed([t + (t >= 400) * 60_000 for t in STEADY], is_broadcast=True) == pytest.approx(STEADY)
    assert [line.partition(" (files")[0] for line in caplog.messages] == [
        "a.webm: the file's clock jumps by -1.20 s at 1.20 s",
        "a.webm: the file's clock jumps by +60.00 s at 0.40 s",
    ]


def test_pieces_of_another_rate_are_converted() -> None:
    time = np.arange(8000) / 8000
    conversion = Conversion(8000, 2)
    parts = [(8000, 1), (16000, 2), (8000, 2)]
    made = []
    for one in place_pieces(
        [
            DecodedPiece(
                np.repeat(np.sin(440 * 2 * np.pi * np.arange(rate) / rate)[:, None], n, 1).astype(np.float32), rate
            )
            for rate, n in parts
        ],
        "a.mp3",
    ):
        made += list(conversion.blocks(one))
    made += list(conversion.rest())
    sound = np.concatenate(made)
    assert sound.shape == (24000, 2)
    for second in range(3):
        inner = slice(8000 * second + 400, 8000 * second + 7600)
        np.testing.assert_allclose(sound[inner, 1], np.sin(440 * 2 * np.pi * time)[400:7600], atol=0.01)
    np.testing.assert_array_equal(with_channels(np.array([[1.0, 3.0]], np.float32), 1), [[2.0]])
