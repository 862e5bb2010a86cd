"""Sounds for tests, made on the spot: something whose level and spectrum move as in speech."""

from __future__ import annotations

import numpy as np

RATE = 16000


def babble(seconds: float, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Harmonics and hiss whose loudness changes every tenth of a second: (N,) float32 at 16 kHz."""
    random = np.random.default_rng(seed)
    n = round(seconds * RATE)
    t = np.arange(n) / RATE
    steps = n // (RATE // 10) + 2
    places = np.arange(n) / (RATE // 10)
    sound = np.zeros(n)
    for hertz in (120.0, 240.0, 700.0, 1200.0, 2500.0):
        sound += np.interp(places, np.arange(steps), random.uniform(0.0, 1.0, steps)) * np.sin(
            2 * np.pi * hertz * t
        )
    sound += np.interp(
        places, np.arange(steps), random.uniform(0.001, 0.5, steps)
    ) * random.standard_normal(n)
    return (level * sound / max(1e-9, float(np.abs(sound).max()))).astype(np.float32)
