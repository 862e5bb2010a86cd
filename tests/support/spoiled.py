"""Recordings made worse, by amounts that are known: noise, rooms, a telephone, a far microphone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SNR_DB = 10.0
RT60_S = 0.5
VOICES = 6
BAND_HZ = 300.0, 3400.0


def clean(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    return samples


def with_noise(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """White noise, 10 dB below the speech's mean power."""
    return _with(samples, rng.normal(size=len(samples)), SNR_DB)


def with_speech_noise(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Steady noise of the recording's own spectrum, 10 dB below the speech."""
    return _with(samples, _shaped_noise(samples, rng), SNR_DB)


def with_babble(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Six voices, 10 dB below the speech: the recording itself backwards, each from somewhere else."""
    voices = [np.roll(samples[::-1], shift) for shift in rng.integers(len(samples), size=VOICES)]
    return _with(samples, np.sum(voices, 0), SNR_DB)


def by_telephone(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """The band from 300 to 3400 Hz, in the eight bits of the mu-law."""
    spectrum = np.fft.rfft(samples)
    hz = np.fft.rfftfreq(len(samples), 1 / rate)
    heard = np.fft.irfft(np.where((hz >= BAND_HZ[0]) & (hz <= BAND_HZ[1]), spectrum, 0), len(samples))
    peak = np.abs(heard).max() or 1.0
    coded = np.round(127 * np.sign(heard) * np.log1p(255 * np.abs(heard) / peak) / np.log(256)) / 127
    return np.asarray(np.sign(coded) * np.expm1(np.abs(coded) * np.log(256)) / 255 * peak)


def in_a_room(
    samples: np.ndarray, rate: int, rng: np.random.Generator, rt60_s: float = RT60_S, tail_power: float = 0.5
) -> np.ndarray:
    """Reverberation that falls by 60 dB in half a second, half as strong as the direct sound, at the same loudness."""
    t = np.arange(1, int(rate * rt60_s)) / rate
    tail = rng.normal(size=len(t)) * 10 ** (-3 * t / rt60_s)
    response = np.concatenate(([1.0], tail * np.sqrt(tail_power / (tail**2).sum())))
    size = len(samples) + len(response)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[: len(samples)]
    return heard * np.sqrt((samples**2).mean() / (heard**2).mean())


def far_away(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """A far microphone: reverberation as strong as the direct sound, and speech-shaped noise 15 dB below both."""
    heard = in_a_room(samples, rate, rng, tail_power=1.0)
    return _with(heard, _shaped_noise(samples, rng), SNR_DB + 5)


def _with(samples: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    return np.asarray(samples + noise * np.sqrt((samples**2).mean() / (noise**2).mean() / 10 ** (snr_db / 10)))


def _shaped_noise(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    spectrum = np.abs(np.fft.rfft(samples)) * np.exp(2j * np.pi * rng.random(len(samples) // 2 + 1))
    return np.fft.irfft(spectrum, len(samples))


CONDITIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "clean": clean,
    "noise": with_noise,
    "speech-noise": with_speech_noise,
    "babble": with_babble,
    "telephone": by_telephone,
    "room": in_a_room,
    "far": far_away,
}
