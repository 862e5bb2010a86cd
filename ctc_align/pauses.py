"""Pauses that are none: a silence too short to be one belongs to the sounds around it.

The closure of a plosive is as silent as a pause, and hand labels count it to the plosive. A gap between two words that
is shorter than a pause is therefore given to the next word where that begins with a plosive or an affricate, and to
the word before it elsewhere.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ctc_align.boundaries import Spans
from ctc_align.text.phones import broad_class
from ctc_align.types import Tokens

CLOSURES = ("stop", "affricate")


def close_short_pauses(spans: Spans, tokens: Tokens, shortest_frames: int) -> Spans:
    """The spans without gaps between words of fewer than `shortest_frames` frames.

    >>> tokens = Tokens((1, 2), ("AH", "T"), (0, 1))
    >>> closed = close_short_pauses(Spans(np.array([0, 8]), np.array([5, 9])), tokens, 4)
    >>> closed.first.tolist(), closed.last.tolist()
    ([0, 5], [5, 9])
    """
    first, last = spans.first.copy(), spans.last.copy()
    said = np.flatnonzero(np.asarray(tokens.words) >= 0)
    for before, after in pairwise(said):
        if 0 < first[after] - last[before] < shortest_frames:
            if broad_class(tokens.labels[after]) in CLOSURES:
                first[after] = last[before]
            else:
                last[before] = first[after]
    return Spans(first, last)
