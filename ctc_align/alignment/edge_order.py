"""The order of edges: they ascend, no sound is nothing, and separators between words are."""

from __future__ import annotations

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.types import Emissions

SHORTEST_FRAMES = 0.5
"""The shortest that a sound may be."""


def in_order(
    start: np.ndarray, end: np.ndarray, pause_after: np.ndarray, frames: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return edges that ascend within [0, frames], every sound SHORTEST_FRAMES or longer, shared edges still shared.

    Args:
        start, end: (L,) in frames.
        pause_after: (L,) bool, after which sounds there is a pause; the others share their edge with the next.
        frames: length of the audio.
    """
    count = len(start)
    edges = np.empty(2 * count)
    edges[::2], edges[1::2] = start, end
    shared = np.zeros(2 * count, np.bool_)
    shared[2::2] = ~pause_after[:-1]
    # A shared edge is one: its two places are their mean, which is either where they are the same.
    middle = (edges[1:-1:2] + edges[2::2]) / 2
    edges[1:-1:2] = np.where(shared[2::2], middle, edges[1:-1:2])
    edges[2::2] = np.where(shared[2::2], middle, edges[2::2])
    least = min(SHORTEST_FRAMES, frames / max(count, 1))
    room = np.repeat(np.arange(count), 2) * least
    room[1::2] += least
    edges = np.maximum.accumulate(np.maximum(edges, 0.0) - room) + room
    latest = frames - (count * least - room)
    edges = np.minimum(edges, latest)
    edges = np.minimum.accumulate((edges - room)[::-1])[::-1] + room
    return edges[::2], edges[1::2]


def among_all_tokens(spans: Spans, spoken: np.ndarray, own: Spans) -> Spans:
    """Return the edges of all tokens: those of the `spoken` ones (L,), and separators at the end of the sound before.

    Args:
        spans: of all tokens; what stands before the first sound is at 0.
        spoken: the places of the sounds among all tokens.
        own: of the sounds, with standard deviations or without.
    """
    start, end = spans.start.astype(np.float64), spans.start.astype(np.float64)
    start[spoken], end[spoken] = own.start, own.end
    others = np.setdiff1d(np.arange(len(start)), spoken)
    before = np.searchsorted(spoken, others) - 1
    place = np.where(before >= 0, end[spoken[np.maximum(before, 0)]], 0.0) if len(spoken) else np.zeros(len(others))
    start[others] = end[others] = place
    if own.start_sd is None or own.end_sd is None:
        return Spans(start, end)
    start_sd, end_sd = np.zeros((2, len(start)))
    start_sd[spoken], end_sd[spoken] = own.start_sd, own.end_sd
    return Spans(start, end, start_sd, end_sd)


def frames_in(emissions: Emissions) -> float:
    """Return the length of the audio in frames, from where frame 0 begins."""
    if emissions.duration_s is None:
        return float(len(emissions.log_probs))
    return (emissions.duration_s - emissions.first_frame_s) / emissions.frame_shift_s
