"""Pauses that are none: a silence too short to be one belongs to the sounds around it.

How short that is depends on them. The closure of a plosive is as silent as a pause, and hand labels count it to the
plosive; the glottal closure before a vowel likewise belongs to the vowel, unless a vowel or the noise of a fricative
runs up to it. Where neither neighbour has a closure of its own, a little silence is a pause already. All this is known
of the 39 phones of English; between letters, and phones of other sets, every pause has the usual length.
"""

from __future__ import annotations

from ctc_align.models.calibration import SOUND

CLOSURES = ("stop", "affricate")
LONG, LONGER, SHORT = 1.5, 2.25, 0.5
"""The shortest pause beside plosives, before vowels with a glottal closure, and beside neither, in usual ones."""


def shortest_pause(before: str, after: str) -> float:
    """How long a silence between two kinds of sounds must be to be a pause, in usual shortest pauses.

    >>> shortest_pause("nasal", "stop"), shortest_pause("nasal", "vowel"), shortest_pause("vowel", "vowel")
    (1.5, 2.25, 0.5)
    """
    if SOUND in (before, after):
        return 1.0
    if _glottal(before, after):
        return LONGER
    return LONG if after in CLOSURES or before == "stop" else SHORT


def belongs_to_next(before: str, after: str) -> bool:
    """Whether a silence too short to be a pause is the closure that the sound after it begins with.

    >>> belongs_to_next("nasal", "stop"), belongs_to_next("stop", "vowel"), belongs_to_next("stop", "fricative")
    (True, True, False)
    """
    return after in CLOSURES or _glottal(before, after)


def _glottal(before: str, after: str) -> bool:
    return after == "vowel" and before in ("stop", "affricate", "nasal", "liquid", "glide")
