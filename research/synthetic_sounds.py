"""Sounds that are no speech, made by rules: noise of several colours, the quiet of a room,
music."""

from __future__ import annotations

import numpy as np

RATE = 16000
"""Samples per second of all sound here."""


def mixed(speech: np.ndarray, sound: np.ndarray, below_db: float) -> np.ndarray:
    """Return speech with a sound whose power is `below_db` below that of the speech's louder
    frames."""
    frames = speech[: len(speech) // 400 * 400].reshape(-1, 400)
    loud = float(np.quantile((frames**2).mean(1), 0.8))
    level = np.sqrt(loud / max(float((sound**2).mean()), 1e-12)) * 10 ** (-below_db / 20)
    return (speech + sound * level).astype(np.float32)


def room_tone(samples: np.ndarray, seconds: float, rng: np.random.Generator) -> np.ndarray:
    blocks = samples[: len(samples) // 1600 * 1600].reshape(-1, 1600)
    level = float(np.sqrt((blocks**2).mean(1)).min()) if len(blocks) else 1e-4
    return (rng.standard_normal(round(seconds * RATE)) * level).astype(np.float32)


def noise(length: int, kind: int, rng: np.random.Generator) -> np.ndarray:
    """Return (length,) noise of power 1: white, pink, brown, a hum of mains, a band of random
    width."""
    white = rng.standard_normal(length)
    if kind == 0:
        return white
    spectrum = np.fft.rfft(white)
    frequencies = np.maximum(np.fft.rfftfreq(length, 1 / RATE), 20.0)
    if kind in (1, 2):
        spectrum = spectrum / frequencies ** (kind / 2)
    elif kind == 3:
        at = np.arange(length) / RATE
        hum = sum(np.sin(2 * np.pi * 50.0 * k * at + rng.uniform(0, 6)) / k for k in range(1, 30))
        return np.asarray(hum) + 0.05 * white
    else:
        low = rng.uniform(50, 3000)
        spectrum = spectrum * ((frequencies > low) & (frequencies < low * rng.uniform(1.5, 5.0)))
    sound = np.fft.irfft(spectrum, length)
    return sound / max(float(np.sqrt((sound**2).mean())), 1e-12)


def synthetic_music(length: int, rng: np.random.Generator) -> np.ndarray:
    """Return (length,) float32: chords, a melody with vibrato and drums, at a random tempo and in a
    random key."""
    beat = int(RATE * 60 / rng.uniform(70, 160))
    key = 110.0 * 2 ** (rng.integers(12) / 12)
    scale = (
        np.array((0, 2, 4, 5, 7, 9, 11, 12))
        if rng.random() < 0.5
        else np.array((0, 2, 3, 5, 7, 8, 10, 12))
    )
    harmonics = int(rng.integers(3, 16))
    roughness = rng.uniform(0.5, 2.0)
    sound = np.zeros(length + 8 * beat)
    for start in range(0, length, beat):
        degree = int(rng.integers(7))
        if start // beat % 4 == 0:
            for step in (0, 2, 4):
                note = key * 2 ** (scale[(degree + step) % 7] / 12)
                sound[start : start + 4 * beat] += 0.4 * _tone(
                    note, 4 * beat, harmonics, roughness, rng
                )
        if rng.random() < 0.8:
            note = 2 * key * 2 ** (scale[int(rng.integers(8))] / 12)
            sound[start : start + beat] += _tone(note, beat, harmonics, roughness, rng)
        hit = rng.standard_normal(beat) * np.exp(-np.arange(beat) / rng.uniform(200, 1200))
        sound[start : start + beat] += rng.uniform(0.0, 1.0) * hit
    sound = sound[:length]
    return (0.1 * sound / max(float(np.sqrt((sound**2).mean())), 1e-9)).astype(np.float32)


def _tone(
    hertz: float, length: int, harmonics: int, roughness: float, rng: np.random.Generator
) -> np.ndarray:
    at = np.arange(length) / RATE
    phase = 2 * np.pi * hertz * at + rng.uniform(0, 0.5) * np.sin(2 * np.pi * 5.5 * at)
    tone = sum(
        np.sin(k * phase + rng.uniform(0, 6)) / k**roughness
        for k in range(1, harmonics + 1)
        if k * hertz < RATE / 2
    )
    return np.asarray(tone) * np.minimum(at / 0.02, 1.0) * np.exp(-at * rng.uniform(0.5, 6.0))
