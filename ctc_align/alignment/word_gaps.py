"""Gaps between words that were found: where they are, and whether other words are said there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctc_align import units
from ctc_align.alignment.found_words import FoundWords
from ctc_align.alignment.heard_tokens import HeardTokens

FOREIGN_LABELS = 4
"""More labels than are to be expected, by so many, between two words are speech that is not in the transcript."""
LONG_S = 2.5
"""Such speech of at least so long parts islands."""
ROOM_S, TOKEN_S = 1.0, 0.15
"""Beyond its last label a passage goes on for so long, and for so long for each of its tokens that was not heard."""


@dataclass(frozen=True)
class Gaps:
    """The N + 1 gaps between N words in the order of time, before the first and after the last included.

    Attributes:
        before, after: the frames of the labels on either side, -1 and T at the ends.
        unheard: (N + 1, 2) tokens not heard before and behind.
        ordered: whether the word after it is later in the transcript than the one before.
        foreign: whether something is said there that is not in the transcript.
        cuts: whether islands part there.
    """

    before: np.ndarray
    after: np.ndarray
    unheard: np.ndarray
    ordered: np.ndarray
    foreign: np.ndarray
    cuts: np.ndarray


def gaps_of(found: FoundWords, heard: HeardTokens, in_time: np.ndarray, frame_shift_s: float) -> Gaps:
    """Return the gaps between words `in_time`, indices into those of `found`."""
    frames, count = len(heard.log_probs), len(in_time)
    if not count:
        nothing = np.zeros(1, np.bool_)
        return Gaps(np.array([-1]), np.array([frames]), np.zeros((1, 2), np.int64), ~nothing, nothing, nothing)
    has_labels = found.last[in_time] >= found.first[in_time]
    lengths = np.where(has_labels, 0, found.lengths[in_time])
    # Of words without labels, all tokens are unheard on both sides, together with those of their neighbours.
    lead = np.where(has_labels, found.unheard[in_time, 0], 0)
    trail = np.where(has_labels, found.unheard[in_time, 1], 0)
    silent = np.append(0, np.cumsum(lengths))
    places = np.arange(count)
    before = np.maximum.accumulate(np.where(has_labels, places, -1)) if count else places
    after = np.minimum.accumulate(np.where(has_labels, places, count)[::-1])[::-1] if count else places
    left, right = np.append(-1, before), np.append(after, count)
    first_label = np.where(right < count, found.first[in_time][np.minimum(right, count - 1)], len(heard))
    last_label = np.where(left >= 0, found.last[in_time][np.maximum(left, 0)], -1)
    behind = np.where(left >= 0, trail[np.maximum(left, 0)], 0) + silent - silent[left + 1]
    ahead = np.where(right < count, lead[np.minimum(right, count - 1)], 0) + silent[right] - silent
    marks = np.append(heard.frames, frames)
    ordered = np.append(np.append(True, np.diff(found.words[in_time]) > 0), True)
    starts, ends = np.where(last_label >= 0, marks[last_label], -1), marks[first_label]
    sums = np.append(0, np.cumsum(found.lacking))
    low, high = np.append(0, in_time), np.append(in_time, len(found.words))
    own = np.where(high >= low, sums[np.maximum(high, low) + 1] - sums[low], 0)
    foreign = first_label - last_label - 1 - behind - ahead - own >= FOREIGN_LABELS
    long = (ends - starts) * frame_shift_s >= LONG_S
    return Gaps(starts, ends, np.stack((behind, ahead), 1), ordered, foreign, ~ordered | (foreign & long))


def room_frames(unheard: int, frame_shift_s: float) -> int:
    """Return how far beyond its last label a passage may go on, of whose end so many tokens were not heard."""
    return units.seconds_to_frames(ROOM_S + TOKEN_S * float(unheard), frame_shift_s)
