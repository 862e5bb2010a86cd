"""Edges that lie in the quiet of a pause, brought to where the sound is: of models that no hand labels have calibrated.

A segmentation that was learnt without labels counts to a word what always stands beside it: a breath, the quiet before
a vowel that begins with a glottal stop. Where a pause is much quieter than the speech beside it, the level alone says
where it ends, and by more than a network of edges sees.
"""

from __future__ import annotations

import numpy as np

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.edge_order import among_all_tokens, frames_in, in_order
from ctc_align.types import Audio, Emissions, Tokens

SHIFT_S, WINDOW_S = 0.005, 0.02
"""Levels are of windows of `WINDOW_S`, one for each `SHIFT_S`."""
PAUSE_S = 0.04
"""Shorter gaps between words say nothing of how quiet a pause is."""
SPEECH_S, QUIET_S = 2.0, 1.0
"""So much of the sound is looked at, on either side of an edge."""
LOUD, FLOOR = 0.9, 0.3
"""Quantiles of the levels around an edge, and of those within the pause: how loud the speech is, and the pause."""
CONTRAST_DB, MOST_CONTRAST_DB = 20.0, 60.0
"""In a pause that is not so much quieter than the speech, nothing moves; and it counts as no quieter than that."""
SOUNDING = 0.4
"""Sound is what is this share of the way, in dB, from the pause's level to the speech's …"""
HELD_S = 0.02
"""… and so much before it and after it: closures, and what fades."""
MOST_S, MOST_SHARE = 0.2, 0.8
"""Sound that begins farther inside, or after a greater share of the word, says nothing of its edge."""
_SMALLEST_POWER = 1e-10


def edges_out_of_pauses(emissions: Emissions, tokens: Tokens, drawn: Spans) -> Spans:
    """Return the edges of all tokens, those of words beside pauses no farther in the quiet than `HELD_S`.

    Args:
        emissions: with their sound.
        tokens: what is said, wildcards and separators included.
        drawn: where their edges are, between frames, in order.
    """
    assert emissions.sound is not None
    owners = np.asarray(tokens.words)
    spoken = np.flatnonzero(owners >= 0)
    own, words, shift_s = drawn.of(spoken), owners[spoken], emissions.frame_shift_s
    start, end = own.start.copy(), own.end.copy()
    frames = frames_in(emissions)
    first = np.flatnonzero(np.append(True, words[1:] != words[:-1]))
    last = np.append(first[1:], len(words)) - 1
    before = start[first] - np.append(0.0, end[last[:-1]])
    after = np.append(start[first[1:]], frames) - end[last]
    lengths = end[last] - start[first]

    for k, (head, tail) in enumerate(zip(first, last)):
        most_s = min(MOST_S, MOST_SHARE * lengths[k] * shift_s)
        for edges, place, sign, gap in ((start, head, 1, before[k]), (end, tail, -1, after[k])):
            if gap * shift_s >= PAUSE_S:
                edge_s = edges[place] * shift_s + emissions.first_frame_s
                edges[place] += sign * _quiet_s(emissions.sound, edge_s, sign * gap * shift_s, most_s) / shift_s
    pause_after = np.append(own.start[1:] > own.end[:-1], True)
    start, end = in_order(start, end, pause_after, frames)
    return among_all_tokens(drawn, spoken, Spans(start, end, own.start_sd, own.end_sd))


def _quiet_s(audio: Audio, edge_s: float, pause_s: float, most_s: float) -> float:
    """Return how much of a word is quiet, in seconds, from its edge on.

    Args:
        audio: the whole recording.
        edge_s: where the word begins, or ends.
        pause_s: how long the pause before it is, or with a minus how long the one after it.
        most_s: how far to look.
    """
    speech, quiet = SPEECH_S, min(abs(pause_s), QUIET_S)
    if pause_s > 0:
        levels = _levels(audio, edge_s - quiet, edge_s + speech)
    else:
        levels = _levels(audio, edge_s - speech, edge_s + quiet)[::-1]
    edge = round(quiet / SHIFT_S)
    if len(levels) <= edge:
        return 0.0
    loud, floor = float(np.quantile(levels, LOUD)), float(np.quantile(levels[:edge], FLOOR))
    contrast = min(loud - floor, MOST_CONTRAST_DB)
    if contrast < CONTRAST_DB:
        return 0.0
    inside = levels[edge : edge + round(most_s / SHIFT_S)]
    sounding = np.flatnonzero(inside >= loud - (1 - SOUNDING) * contrast)
    return max(0.0, float(sounding[0]) * SHIFT_S - HELD_S) if len(sounding) else 0.0


def _levels(audio: Audio, start_s: float, end_s: float) -> np.ndarray:
    """Return the levels (T,) in dB from one time to another; beyond the recording's ends there is none."""
    window, shift = round(WINDOW_S * audio.sample_rate), round(SHIFT_S * audio.sample_rate)
    count, low = len(audio.samples), round(start_s * audio.sample_rate) - window // 2
    high = round(end_s * audio.sample_rate) + window // 2
    samples = np.asarray(audio.samples[max(low, 0) : min(max(high, 0), count)], np.float64)
    padded = np.pad(samples, (max(0, -low), max(0, high - count)))
    sums = np.append(0.0, np.cumsum(padded * padded))
    first = np.arange(0, len(padded) - window + 1, shift)
    return np.asarray(10 * np.log10((sums[first + window] - sums[first]) / window + _SMALLEST_POWER))
