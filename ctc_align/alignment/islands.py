"""Islands: stretches of a recording and the words that are spoken there, one after the other.

Between two islands something is said that is not in the transcript, or what follows stands elsewhere in it. Inside an
island, and at its ends, a little speech that is not in the transcript is left to wildcards.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ctc_align import units
from ctc_align.alignment.found_words import FoundWords
from ctc_align.alignment.heard_tokens import HeardTokens

FOREIGN_LABELS = 4
"""More labels than are to be expected, by so many, between two words are speech that is not in the transcript."""
LONG_S = 2.5
"""Such speech of at least so long parts islands."""
ROOM_S, TOKEN_S = 1.0, 0.15
"""Beyond its last label an island goes on for so long, and for so long for each of its tokens that was not heard."""


@dataclass(frozen=True)
class Island:
    """Words that follow each other in the transcript and in the recording.

    Attributes:
        words: (N,) places in the transcript, ascending.
        first_frame, last_frame: where to look for them, the last exclusive.
        wildcards: (N + 1,) bool, whether other speech may stand before each of the words, and after the last.
    """

    words: np.ndarray
    first_frame: int
    last_frame: int
    wildcards: np.ndarray


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
    foreign = first_label - last_label - 1 - behind - ahead >= FOREIGN_LABELS
    long = (ends - starts) * frame_shift_s >= LONG_S
    return Gaps(starts, ends, np.stack((behind, ahead), 1), ordered, foreign, ~ordered | (foreign & long))


def room_frames(unheard: int, frame_shift_s: float) -> int:
    """Return how far beyond its last label a passage may go on, of whose end so many tokens were not heard."""
    return units.seconds_to_frames(ROOM_S + TOKEN_S * float(unheard), frame_shift_s)


def islands_of(
    found: FoundWords, heard: HeardTokens, in_time: np.ndarray, gaps: Gaps, frame_shift_s: float
) -> list[Island]:
    """Return the islands of words by time; `in_time` (N,) are the indices of those that are spoken, `gaps` theirs."""
    count, frames = len(in_time), len(heard.log_probs)
    cuts = gaps.cuts.copy()
    cuts[[0, count]] = True
    begins, ends = np.zeros(count + 1, np.int64), np.full(count + 1, frames)
    places = np.flatnonzero(cuts).tolist()
    for place in places:
        ends[place], begins[place] = _edges(gaps, place, heard.frames, frames, frame_shift_s)
    return [
        Island(
            found.words[in_time[first:last]], int(begins[first]), int(ends[last]), gaps.foreign[first : last + 1].copy()
        )
        for first, last in pairwise(places)
    ]


def _edges(gaps: Gaps, place: int, label_frames: np.ndarray, frames: int, frame_shift_s: float) -> tuple[int, int]:
    """Return where the island before a gap ends, and where the one after it begins."""
    before, after, foreign = int(gaps.before[place]), int(gaps.after[place]), bool(gaps.foreign[place])
    if not foreign and before < 0:
        return 0, 0
    if not foreign and after >= frames:
        return frames, frames
    behind, ahead = (room_frames(tokens, frame_shift_s) for tokens in gaps.unheard[place])
    end, begin = min(before + 1 + behind, after), max(after - ahead, before + 1)
    if foreign and end <= begin:
        return end, begin
    inside = label_frames[(label_frames >= before) & (label_frames <= after)]
    marks = np.unique(np.concatenate(([before], inside, [after])))
    widest = int(np.argmax(np.diff(marks))) if len(marks) > 1 else 0
    cut = int(marks[widest] + marks[min(widest + 1, len(marks) - 1)] + 1) // 2
    return cut, cut
