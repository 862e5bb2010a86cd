"""Speech that no word of the transcript explains.

A word whose sound is not there has a low confidence (`ctc_align.alignment.confidence`). Speech that is not in the
transcript lies between words, where the segmentation has silence and the frames say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctc_align.alignment.sound_kinds import MUSIC, SILENCE, SPEECH, SoundKinds, sound_kinds
from ctc_align.alignment.words import duration_of
from ctc_align.types import AlignedWord, Emissions

CLEARLY = 2.0
"""A frame is speech where a sound fits it better than silence by so many nats."""
WINDOW_S = 0.2
SHARE = 0.6
"""Speech is where so much of a window's frames are."""
SURE = 0.5
"""Words of less confidence do not say how speech sounds."""
SHORT_GAP_S = 4.0
"""In a shorter gap between words music is not looked for, and the segmentation states say what is speech."""
LEAST_SPEECH_S, LEAST_MUSIC_S, LEAST_SILENCE_S = 0.4, 5.0, 5.0
"""Shorter stretches are not worth a word."""


def unexplained_sounds(emissions: Emissions, words: Sequence[AlignedWord]) -> tuple[tuple[float, float, str], ...]:
    """Return stretches (start_s, end_s, kind) where no word is, of any model: speech, music and silence; ascending.

    Music is at least `LEAST_MUSIC_S` long and silence `LEAST_SILENCE_S`. Words of `SURE` or more confidence say how
    speech of this recording sounds. Where the model is not sure enough of these to tell speech from music, the
    segmentation states alone say what is speech, and music may be among it.
    """
    shift_s, origin_s, frames = emissions.frame_shift_s, emissions.first_frame_s, len(emissions.log_probs)

    def frame(seconds: float) -> int:
        return min(max(round((seconds - origin_s) / shift_s), 0), frames)

    sure = [
        (frame(word.start_s), frame(word.end_s))
        for word in words
        if word.start_s is not None and word.end_s is not None and (word.by or (word.confidence or 0.0) >= SURE)
    ]
    least = {SPEECH: LEAST_SPEECH_S, MUSIC: LEAST_MUSIC_S, SILENCE: LEAST_SILENCE_S}
    found: list[tuple[int, int, str]] = []
    kinds: SoundKinds | None = None
    by_time = sorted((word for word in words if word.start_s is not None), key=lambda word: word.start_s or 0.0)
    for first, last in _gaps(by_time, origin_s, shift_s, frames):
        if emissions.states is not None and (last - first) * shift_s < SHORT_GAP_S:
            found += [(a, b, SPEECH) for a, b in _speech_by_states(emissions, first, last)]
            continue
        kinds = kinds or sound_kinds(emissions, sure)
        own = [] if kinds.tells else _speech_by_states(emissions, first, last)
        found += [(a, b, SPEECH) for a, b in own] or [
            (a, b, kind) for a, b, kind in kinds.stretches(first, last) if (b - a) * shift_s >= least[kind]
        ]
    return tuple((*_seconds(emissions, a, b), kind) for a, b, kind in found)


def _speech_by_states(emissions: Emissions, first: int, last: int) -> list[tuple[int, int]]:
    """Return the speech within frames [first, last) by the segmentation states, ascending."""
    window = max(1, round(WINDOW_S / emissions.frame_shift_s))
    if emissions.states is None or last - first < window:
        return []
    scores = emissions.states[first:last]
    speech = (scores[:, :-1].amax(1) - scores[:, -1] > CLEARLY).cpu().numpy()
    return [(first + a, first + b) for a, b in _stretches(speech, window)]


def _seconds(emissions: Emissions, first: int, last: int) -> tuple[float, float]:
    """Return the times of frames [first, last), within the recording."""
    shift_s, origin_s = emissions.frame_shift_s, emissions.first_frame_s
    return round(first * shift_s + origin_s, 5), min(round(last * shift_s + origin_s, 5), duration_of(emissions))


def _gaps(words: Sequence[AlignedWord], origin_s: float, shift_s: float, frames: int) -> list[tuple[int, int]]:
    """Return the frames [first, last) that lie wholly in no word."""
    gaps, first = [], 0
    aligned = [word for word in words if word.start_s is not None]
    for word in sorted(aligned, key=lambda word: word.start_s or 0.0):
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
