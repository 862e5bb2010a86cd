"""The only place where samples, frames, seconds and milliseconds turn into each other.

A frame `t` of an emission stands for the interval [t, t + 1) * frame_shift_s, starts inclusive and ends exclusive.
"""

from __future__ import annotations

MS_PER_S = 1000.0


def samples_to_seconds(samples: int, sample_rate: int) -> float:
    """Duration in seconds of `samples` samples.

    >>> samples_to_seconds(24000, 16000)
    1.5
    """
    return samples / sample_rate


def seconds_to_samples(seconds: float, sample_rate: int) -> int:
    """Nearest whole number of samples to `seconds`.

    >>> seconds_to_samples(1.5, 16000)
    24000
    """
    return round(seconds * sample_rate)


def frames_to_seconds(frames: float, frame_shift_s: float) -> float:
    """Time in seconds of the frame edge `frames` (fractions are allowed).

    >>> frames_to_seconds(150, 0.01)
    1.5
    """
    return round(frames * frame_shift_s, 6)


def seconds_to_frames(seconds: float, frame_shift_s: float) -> int:
    """Index of the frame edge nearest to `seconds`.

    >>> seconds_to_frames(1.504, 0.01)
    150
    """
    return round(seconds / frame_shift_s)


def seconds_to_ms(seconds: float) -> float:
    """Milliseconds.

    >>> seconds_to_ms(0.0125)
    12.5
    """
    return seconds * MS_PER_S
