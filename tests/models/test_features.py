"""Log-mel features: gain, silence, cuts and short sounds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.models.convnet import features
from ctc_align.models.convnet.features import HOP_SAMPLES, MELS


def normalised(samples: np.ndarray) -> torch.Tensor:
    frames = features.log_mel(samples, 0, features.frame_count(len(samples)))
    return features.normalise(frames, features.statistics_of(frames))


@pytest.mark.parametrize("gain", [0.01, 0.3, 3.0, 30.0])
def test_gain_does_not_matter(gain: float) -> None:
    sound = babble(3.0)
    torch.testing.assert_close(normalised(sound * np.float32(gain)), normalised(sound), atol=1e-3, rtol=0)


def test_gain_does_not_matter_after_sixteen_bits() -> None:
    quiet = np.round(babble(3.0, level=0.02) * 32768).astype(np.float32) / 32768
    far = (normalised(quiet) - normalised(babble(3.0, level=0.9))).abs()
    assert far.mean() < 0.05


def test_a_spectrum_that_is_not_flat_is_made_so() -> None:
    """A wire that weakens each channel by its own constant leaves next to nothing behind."""
    frames = features.log_mel(babble(3.0), 0, 300)
    coloured = frames + torch.linspace(0.5, -0.5, MELS)
    one = features.normalise(frames, features.statistics_of(frames))
    two = features.normalise(coloured, features.statistics_of(coloured))
    assert (one - two).abs().mean() < 0.02


def test_silence_at_the_ends_leaves_the_speech_as_it_is() -> None:
    sound = babble(4.0)
    pad = np.zeros(160 * 25, np.float32)
    alone, padded = normalised(sound), normalised(np.concatenate((pad, sound, pad)))
    inside = padded[25 : 25 + len(alone)]
    # The frames at the seam reach 5 ms into their neighbours, and the recording's statistics move a little.
    assert (inside[1:-1] - alone[1:-1]).abs().mean() < 0.05
    torch.testing.assert_close(padded[:24], padded[:1].expand(24, -1))
    assert padded[:24].mean() < padded[25:-25].mean() - 3.0


def test_digital_silence_is_the_floor() -> None:
    sound = np.concatenate((np.zeros(16000, np.float32), babble(2.0)))
    frames = features.log_mel(sound, 0, 300)
    statistics = features.statistics_of(frames)
    silent = features.normalise(frames, statistics)[:99]
    torch.testing.assert_close(silent, features.silence(statistics).expand(99, MELS))


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 7), (3, 50), (117, 118), (199, 201), (150, 201), (0, 201)])
def test_a_cut_gives_the_same_frames(first: int, last: int) -> None:
    sound = babble(2.003)
    whole = features.log_mel(sound, 0, 201)
    torch.testing.assert_close(features.log_mel(sound, first, last), whole[first:last], atol=1e-5, rtol=1e-6)


@pytest.mark.parametrize(("sample", "frames"), [(10 * HOP_SAMPLES + 70, [9, 10]), (10 * HOP_SAMPLES + 90, [10, 11])])
def test_a_frame_sees_half_a_hop_to_either_side(sample: int, frames: list[int]) -> None:
    sound = babble(0.2)
    changed = sound.copy()
    changed[sample] += 0.1
    differs = (features.log_mel(sound, 0, 20) - features.log_mel(changed, 0, 20)).abs().amax(1) > 0
    assert differs.nonzero().flatten().tolist() == frames


@pytest.mark.parametrize("samples", [1, 2, 159, 160, 161, 320, 399, 400])
def test_very_short_sounds_have_finite_frames(samples: int) -> None:
    sound = babble(0.1)[:samples] + np.float32(0.01)
    frames = normalised(sound)
    assert frames.shape == (-(-samples // HOP_SAMPLES), MELS)
    assert torch.isfinite(frames).all()
    assert torch.isfinite(normalised(np.zeros(samples, np.float32))).all(), "nothing but zeros"


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_statistics_in_pieces_are_those_of_the_whole(size: int) -> None:
    frames = features.log_mel(babble(5.0), 0, 500)
    whole = features.statistics_of(frames)
    pieces = features.gather_statistics(lambda: iter(frames.split(size)))
    torch.testing.assert_close(pieces.loud, whole.loud, atol=1e-6, rtol=0)
    torch.testing.assert_close(pieces.mean, whole.mean, atol=1e-6, rtol=0)


def test_the_loud_level_is_the_ninety_fifth_percentile() -> None:
    frames = torch.log(torch.rand(200, MELS, generator=torch.Generator().manual_seed(1)) + 0.1)
    ranked = features.level(frames).sort().values
    assert features.statistics_of(frames).loud == ranked[189]


def test_each_mel_channel_answers_to_its_own_frequency() -> None:
    t = np.arange(16000) / 16000
    channels = [
        int(features.log_mel(np.sin(2 * np.pi * hertz * t).astype(np.float32), 20, 80).mean(0).argmax())
        for hertz in (150.0, 500.0, 1000.0, 2000.0, 4000.0, 7000.0)
    ]
    assert channels == sorted(set(channels))
    assert channels[0] < 8
    assert channels[-1] > MELS - 6


def hiss(seconds: float, level: float) -> np.ndarray:
    return (np.random.default_rng(3).standard_normal(round(16000 * seconds)) * level).astype(np.float32)


@pytest.mark.parametrize("level", [0.0, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_rare_speech_looks_as_it_does_alone(seconds: float, level: float) -> None:
    """A second of speech in two minutes of silence, hum or hiss (down to 40 dB below it) is what counts."""
    sound = babble(seconds, level=0.3)
    rare = np.concatenate((hiss(60.0, level), sound, hiss(60.0, level)))
    inside = normalised(rare)[6000 : 6000 + round(seconds * 100)]
    apart = (inside - normalised(sound))[1:-1].mean()
    assert apart.abs() < 0.9, apart


def test_clicks_are_no_speech() -> None:
    sound = np.concatenate((np.zeros(16000 * 60, np.float32), babble(2.0, level=0.03)))
    clicked = sound.copy()
    clicked[8000 : 16000 * 60 : 32000] = 1.0
    one, two = (features.statistics_of(features.log_mel(s, 0, 6200)).loud for s in (sound, clicked))
    assert (two - one).abs() < 0.4


def test_a_frame_does_not_depend_on_how_many_are_made_with_it() -> None:
    sound = babble(3.0)
    frames = features.log_mel(sound, 0, 300)
    for count in (*range(1, 40), 100, 299):
        assert torch.equal(features.log_mel(sound, 1, 1 + count), frames[1 : 1 + count])
