"""Conversions between samples, frames, seconds and milliseconds.

Frame `t` of an emission covers the interval [t, t + 1) * frame_shift_s, start inclusive and end
exclusive.
"""

from __future__ import annotations

MS_PER_S = 1000.0


def samples_to_seconds(samples: int, sample_rate: int) -> float:
    """Return the duration of `samples` samples in seconds.

    >>> samples_to_seconds(24000, 16000)
    1.5
    """
    return samples / sample_rate


def seconds_to_samples(seconds: float, sample_rate: int) -> int:
    """Return the number of samples nearest to `seconds`.

    >>> seconds_to_samples(1.5, 16000)
    24000
    """
    return round(seconds * sample_rate)


def frames_to_seconds(frames: float, frame_shift_s: float) -> float:
    """Return the time of the frame edge `frames` (may be a fraction) in seconds.

    >>> frames_to_seconds(150, 0.01)
    1.5
    """
    return round(frames * frame_shift_s, 6)


def seconds_to_frames(seconds: float, frame_shift_s: float) -> int:
    """Return the index of the frame edge nearest to `seconds`.

    >>> seconds_to_frames(1.504, 0.01)
    150
    """
    return round(seconds / frame_shift_s)


def clock(seconds: float) -> str:
    """Return `seconds` as minutes and seconds, with hours if there are any.

    >>> clock(75.2), clock(7325)
    ('1:15', '2:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def seconds_to_ms(seconds: float) -> float:
    """Return `seconds` in milliseconds.

    >>> seconds_to_ms(0.0125)
    12.5
    """
    return seconds * MS_PER_S
