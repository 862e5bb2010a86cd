"""Pauses that are none: a silence too short to be one belongs to the sounds around it.

How short that is depends on them. The closure of a plosive is as silent as a pause, and hand labels count it to the
plosive; the glottal closure before a vowel likewise belongs to the vowel, unless a vowel or the noise of a fricative
runs up to it. Where neither neighbour has a closure of its own, a little silence is a pause already. All this is known
of the 39 phones of English and of those of `ctc_align.text.ipa`; between letters, and phones of other sets, every pause
has the usual length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align.models.calibration import SOUND

CLOSURES = ("stop", "affricate")
LONG, LONGER, SHORT = 1.5, 2.25, 0.5
"""The shortest pause beside plosives, before vowels with a glottal closure, and beside neither, in usual ones."""


def shortest_pause(before: str, after: str) -> float:
    """Return how long a silence between two kinds of sounds must be to be a pause, in usual shortest pauses.

    >>> shortest_pause("nasal", "stop"), shortest_pause("nasal", "vowel"), shortest_pause("vowel", "vowel")
    (1.5, 2.25, 0.5)
    """
    if SOUND in (before, after):
        return 1.0
    if _glottal(before, after):
        return LONGER
    return LONG if after in CLOSURES or before == "stop" else SHORT


def belongs_to_next(before: str, after: str) -> bool:
    """Return whether a silence too short to be a pause is the closure that the sound after it begins with.

    >>> belongs_to_next("nasal", "stop"), belongs_to_next("stop", "vowel"), belongs_to_next("stop", "fricative")
    (True, True, False)
    """
    return after in CLOSURES or _glottal(before, after)


def _glottal(before: str, after: str) -> bool:
    return after == "vowel" and before in ("stop", "affricate", "nasal", "liquid", "glide")


@dataclass(frozen=True)
class PauseRule:
    """Which gaps between sounds are pauses: `shortest_frames` is the usual shortest one.

    Between CTC's `spikes` there is a gap almost always, and a spike says little about where its sound ends: what is no
    pause is closed in its middle, and inside a word there is none; with `shortest_frames` of 0 every gap stays.
    """

    shortest_frames: float
    spikes: bool = False

    def close(
        self, start: np.ndarray, end: np.ndarray, gap: np.ndarray, kinds: Sequence[str], words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Close the gaps that are no pauses: their neighbours share an edge.

        Args:
            start, end: (L,) edges of the sounds, in frames.
            gap: (L - 1,) bool, after which sounds the best path has a silence.
            kinds, words: (L,) of the sounds.

        Returns:
            Starts and ends (L,), and after which sounds (L,) there is a pause; after the last one there is.
        """
        if not self.spikes:
            return _closed(start, end, gap, kinds, self.shortest_frames)
        return _met_half_way(start, end, gap, words[1:] != words[:-1], self.shortest_frames)


def _closed(
    start: np.ndarray, end: np.ndarray, gap: np.ndarray, kinds: Sequence[str], shortest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    start, end = start.copy(), end.copy()
    least = shortest * np.array([shortest_pause(*pair) for pair in pairwise(kinds)])
    closure = np.array([belongs_to_next(*pair) for pair in pairwise(kinds)], np.bool_)
    pause = gap & (start[1:] - end[:-1] >= least)
    shared = np.where(gap & closure, end[:-1], start[1:])
    start[1:] = np.where(pause, start[1:], shared)
    end[:-1] = np.where(pause, end[:-1], shared)
    return start, end, np.append(pause, True)


def _met_half_way(
    start: np.ndarray, end: np.ndarray, gap: np.ndarray, between_words: np.ndarray, shortest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pause = gap & (start[1:] - end[:-1] >= shortest)
    if shortest > 0:
        pause &= between_words
    middle = (start[1:] + end[:-1]) / 2
    starts = np.append(start[:1], np.where(pause, start[1:], middle))
    ends = np.append(np.where(pause, end[:-1], middle), end[-1:])
    return starts, ends, np.append(pause, True)
