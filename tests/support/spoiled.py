"""Recordings made worse, by amounts that are known: noise and rooms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SNR_DB = 10.0
RT60_S = 0.5


def clean(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    return samples


def with_noise(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """White noise, 10 dB below the speech's mean power."""
    noise = rng.normal(size=len(samples))
    power = (samples**2).mean() / 10 ** (SNR_DB / 10)
    return samples + noise * np.sqrt(power)


def in_a_room(samples: np.ndarray, rate: int, rng: np.random.Generator) -> np.ndarray:
    """Reverberation that falls by 60 dB in half a second, half as strong as the direct sound, at the same loudness."""
    t = np.arange(1, int(rate * RT60_S)) / rate
    tail = rng.normal(size=len(t)) * 10 ** (-3 * t / RT60_S)
    response = np.concatenate(([1.0], tail * np.sqrt(0.5 / (tail**2).sum())))
    size = len(samples) + len(response)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[: len(samples)]
    return heard * np.sqrt((samples**2).mean() / (heard**2).mean())


CONDITIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "clean": clean,
    "noise": with_noise,
    "room": in_a_room,
}
