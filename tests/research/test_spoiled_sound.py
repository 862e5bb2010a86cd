from __future__ import annotations

import numpy as np
import pytest

from spoiled_sound import (
    CODECS,
    CONDITIONS,
    FAMILIES,
    RATE,
    STAGES,
    Codec,
    Scene,
    pass_codec,
    play_backwards,
    spoil,
    spoil_by,
)

ONSET = RATE // 2


@pytest.fixture
def samples() -> np.ndarray:
    """Return half a second of silence, then half a second of a buzz that rises, in the band of all
    telephones."""
    at_s = np.arange(RATE - ONSET) / RATE
    phase = 2 * np.pi * (120 * at_s + 80 * at_s**2)
    sound = np.zeros(RATE, np.float32)
    sound[ONSET:] = sum(np.sin(harmonic * phase) for harmonic in range(4, 14))
    return sound


def onset_s(heard: np.ndarray) -> float:
    """Return when the level of a sound first exceeds the middle between its silent and its loud
    half."""
    levels = np.sqrt((heard.reshape(-1, 80) ** 2).mean(1))
    middle = (np.median(levels[: len(levels) // 2]) + np.median(levels[len(levels) // 2 :])) / 2
    return float(np.argmax(levels > middle)) * 80 / RATE


@pytest.mark.parametrize(
    "condition", [name for name in CONDITIONS if name not in ("worse-radio", "codec")]
)
def test_speech_stays_where_it_was(samples: np.ndarray, condition: str) -> None:
    heard = spoil_by(
        condition, samples, np.random.default_rng(0), lambda count, rng: rng.standard_normal(count)
    )
    assert heard.dtype == np.float32
    assert heard.shape == samples.shape
    assert onset_s(heard) == pytest.approx(ONSET / RATE, abs=0.01)


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_the_delay_of_a_codec_is_taken_back(samples: np.ndarray, codec: Codec) -> None:
    for rate in codec.rates:
        heard = pass_codec(samples.astype(np.float64), codec, rate, max(codec.bit_rates))
        # After digital silence a codec of speech takes some of its frames of 5 ms to follow.
        assert onset_s(heard) == pytest.approx(ONSET / RATE, abs=0.02)


def test_a_family_that_is_left_out_is_never_drawn(
    samples: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    for stage in STAGES:
        for name in stage.families:
            monkeypatch.setitem(
                stage.families, name, lambda heard, scene, name=name: drawn.append(name) or heard
            )
    rng = np.random.default_rng(0)
    for _ in range(300):
        spoil(samples, rng, left_out=("radio", "music"))
    assert set(drawn) == set(FAMILIES) - {"radio", "music"}


def test_noise_has_the_level_that_was_asked_for(samples: np.ndarray) -> None:
    scene = Scene(np.random.default_rng(0), play_backwards(samples))
    noise = CONDITIONS["white"](samples.astype(np.float64), scene) - samples
    assert 10 * np.log10((samples**2).mean() / (noise**2).mean()) == pytest.approx(5.0, abs=0.1)
