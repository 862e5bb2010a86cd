"""Recordings made worse at random, their edges where they were: noise, rooms, bands of frequencies."""

from __future__ import annotations

import numpy as np

from ctc_align.training.made_sounds import RATE, mixed, noise

KINDS = ("clean", "noise", "room", "mixed")


def made_worse(samples: np.ndarray, kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return samples (N,) float32 at `RATE`, recorded worse.

    Args:
        samples: (N,) of speech.
        kind: one of `KINDS`: as it is, with noise 5 to 25 dB below the loud frames, in a room, or some of all.
        rng: the source of chance.
    """
    if kind == "noise":
        # White noise is what hides weak sounds most.
        colour = int(rng.choice((0, 0, 1, 2, 4)))
        return mixed(samples, noise(len(samples), colour, rng), rng.uniform(5.0, 25.0))
    if kind == "room":
        return _in_room(samples, rng)
    if kind == "mixed":
        sound = _in_room(samples, rng) if rng.random() < 0.5 else samples
        sound = _band_limited(sound, rng) if rng.random() < 0.5 else sound
        return mixed(sound, noise(len(sound), int(rng.integers(5)), rng), rng.uniform(12.0, 35.0))
    return samples


def _in_room(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return speech with reverberation that falls by 60 dB in 0.15 to 0.8 s, as loud as before."""
    seconds, strength = rng.uniform(0.15, 0.8), rng.uniform(0.1, 0.8)
    at_s = np.arange(1, int(RATE * seconds)) / RATE
    tail = rng.standard_normal(len(at_s)) * 10 ** (-3.0 * at_s / seconds)
    response = np.concatenate(([1.0], tail * np.sqrt(strength / (tail**2).sum())))
    size = len(samples) + len(response)
    heard = np.fft.irfft(np.fft.rfft(samples, size) * np.fft.rfft(response, size), size)[: len(samples)]
    power = max(float((heard**2).mean()), 1e-12)
    return (heard * np.sqrt(float((samples**2).mean()) / power)).astype(np.float32)


def _band_limited(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return speech as by a telephone, or a bad microphone."""
    spectrum = np.fft.rfft(samples)
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    spectrum[(hertz > rng.uniform(3200.0, 7500.0)) | (hertz < rng.uniform(0.0, 300.0))] *= 0.001
    return np.fft.irfft(spectrum, len(samples)).astype(np.float32)
