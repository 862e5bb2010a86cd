"""Times of cues: in whole milliseconds or on the frames of a film, none over another, as subtitle files write them."""

from __future__ import annotations

import math
from collections.abc import Sequence

Span = tuple[float, float]
MS_PER_S = 1000
_NTSC = (24, 30, 48, 60, 120)
_NEAR_HZ = 0.005


def clock(milliseconds: int, point: str) -> str:
    """Return hours, minutes, seconds and milliseconds.

    >>> clock(3_661_001, ",")
    '01:01:01,001'
    """
    seconds, milliseconds = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{point}{milliseconds:03d}"


def apart(spans: Sequence[Span], end_s: float, units_per_s: float = MS_PER_S) -> list[tuple[int, int]]:
    """Return spans in whole units, each at least one long and none over another, up to `end_s` where there is room.

    They need not ascend; whichever is first in time is moved last.

    >>> apart([(1.0, 2.0), (0.0, 1.0002), (2.0, 2.0)], 2.0)
    [(1000, 1999), (0, 1000), (1999, 2000)]
    """
    order = sorted(range(len(spans)), key=lambda place: spans[place][0])
    times = [(0, 0)] * len(spans)
    free = 0
    for place in order:
        start = max(round(spans[place][0] * units_per_s), free)
        free = max(round(spans[place][1] * units_per_s), start + 1)
        times[place] = (start, free)
    last = math.floor(end_s * units_per_s + 1e-6)
    if len(spans) <= last:
        for place in reversed(order):
            end = min(times[place][1], last)
            last = min(times[place][0], end - 1)
            times[place] = (last, end)
    return times


def on_frames(times_ms: Sequence[tuple[int, int]], end_s: float, frame_rate: float) -> list[tuple[int, int]]:
    """Return times in milliseconds on the nearest frames, each at least one frame long; as they are for rate 0.

    Args:
        times_ms: (start, end) of each cue, counted from the film's start.
        end_s: the end of the film.
        frame_rate: frames a second; those of NTSC in their usual short form (23.976, 29.97 …) are 24000/1001 and so on.

    >>> on_frames([(1000, 2010), (2015, 2020)], 10.0, 25.0), on_frames([(3_600_000, 3_600_040)], 4000.0, 23.976)
    ([(1000, 2000), (2000, 2040)], [(3600013, 3600055)])
    """
    if not frame_rate:
        return list(times_ms)
    rate = _exact_rate(frame_rate)
    frames = apart([(start / MS_PER_S, end / MS_PER_S) for start, end in times_ms], end_s, rate)
    return [(round(MS_PER_S * start / rate), round(MS_PER_S * end / rate)) for start, end in frames]


def _exact_rate(frame_rate: float) -> float:
    ntsc = (whole * 1000 / 1001 for whole in _NTSC)
    return next((rate for rate in ntsc if abs(rate - frame_rate) < _NEAR_HZ), frame_rate)
