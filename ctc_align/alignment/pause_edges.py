"""Edges by the level of the sound, for models without a calibration: beside pauses, in closures.

A segmentation learnt without labels gives to a pause what is weak at the end of a word (a vowel
that fades, a faint fricative), and to a word what often occurs beside it: a breath, or the quiet
before a vowel. There the level moves the edge, outwards or inwards. The level is relative to the
peak of the word and to the recording's own floor, that of
the pause: neither gain nor steady noise matters.

Voiced sounds end where the level of all frequencies together has fallen. The noise of fricatives
and of stops may be weaker than the recording's; but in one of five bands it is stronger.

A stop begins where the level begins to fall: what a vowel leaves behind in a room rings on in the
closure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ctc_align.alignment.ctc_path import Spans, spoken_indices
from ctc_align.alignment.edges import among_all_tokens, frames_in, in_order
from ctc_align.models.convnet.features import log_channels
from ctc_align.types import Audio, Emissions, Tokens

SHIFT_S, WINDOW_S = 0.005, 0.016
"""Levels are those of windows of the second length, one each `SHIFT_S`, means of three."""
BANDS_HZ = (60.0, 500.0, 1200.0, 2500.0, 5000.0, 8000.0)
FEWEST_FRAMES = 4
PAUSE_S = 0.04
"""Shorter gaps between words do not show how quiet a pause is."""
PEAK, FLOOR = 0.95, 0.3
"""Quantiles of the levels: the peak of the word, and the floor in the pause."""
WORD_S, FLOOR_S = 2.0, 1.0
"""The longest part of the word, and of the pause, that is measured."""
CONTRAST_DB, QUIET_DB, BAND_CONTRAST_DB = 12.0, 20.0, 8.0
"""An edge stays if the floor is less than the first below the peak; it moves only outwards if it is
less than the second, because noise covers what is weak in the word. A band counts from the third
on."""
DEEPEST_DB = 38.0
"""Sound is at most so far below the peak, and a floor that is deeper counts as so deep."""
SOUNDING, LEAST_DB = 0.35, 5.0
"""Sound is this share of the way, in dB, from the floor to the peak, or more, and this far above
the floor. For ends, hand labels of read English prefer 0.5; clean clips of 18 languages with added
noise prefer 0.3, if a sound ends
where it was 30 dB below its peak before."""
INTERRUPTED_FRAMES = 6
"""The longest silence that still counts as part of the sound before a pause; where a word begins,
none does."""
OUTWARDS_S, RELEASE_S = 0.4, 0.12
"""The largest distance that an edge moves into a pause, and the largest that the end of a stop
does: releases are short."""
INWARDS_S, INWARDS_SHARE = 0.2, 0.8
"""The largest distance that an edge moves into its word, in seconds and as a share of the sound
there."""
PLOSIVES = ("stop", "affricate")
WEAK = (*PLOSIVES, "fricative")
OPEN = ("vowel", "glide", "liquid")
"""The sounds whose level shows where a stop closes."""
FALLEN, LEAST_FALL_DB = 0.3, 10.0
"""A stop begins where the level has fallen by this share of the way, in dB, into the closure; by
less than the second in all it does not show. On 16 speakers of read English such edges come from
8.3 to 5.6 ms from those of `english`, which hand labels have calibrated; shares of 0.2 and 0.4 give
6.8 and 6.3."""
CLOSING_S, BESIDE_S = 0.04, 0.1
"""The largest distance that such an edge moves, and the longest part of the two sounds that is
measured."""
_SMALLEST_POWER = 1e-12
_DB = 10 / np.log(10)


def edges_beside_pauses(
    emissions: Emissions, tokens: Tokens, drawn: Spans, kinds: Sequence[str]
) -> Spans:
    """Return the edges of all tokens, by the level beside pauses and at the closures of stops.

    Args:
        emissions: with their sound.
        tokens: what is said, wildcards and separators included.
        drawn: where their edges are, between frames, in order.
        kinds: of the tokens (`ctc_align.models.calibration.KINDS`).
    """
    assert emissions.sound is not None
    spoken = spoken_indices(tokens)
    shift_s = emissions.frame_shift_s
    frames = frames_in(emissions)
    sounds = drawn.of(spoken)
    words = np.asarray(tokens.words)[spoken]
    start, end = sounds.start.copy(), sounds.end.copy()
    first = np.flatnonzero(np.append(True, words[1:] != words[:-1]))
    last = np.append(first[1:], len(words)) - 1
    before_s = (start[first] - np.append(0.0, end[last[:-1]])) * shift_s
    after_s = (np.append(start[first[1:]], frames) - end[last]) * shift_s
    word_s = (end[last] - start[first]) * shift_s
    for k, (head, tail) in enumerate(zip(first, last)):
        for edges, index, pause_s, ends in (
            (start, head, before_s[k], False),
            (end, tail, after_s[k], True),
        ):
            if pause_s >= PAUSE_S:
                at_s = edges[index] * shift_s + emissions.first_frame_s
                sound_s = (sounds.end[index] - sounds.start[index]) * shift_s
                edge = PauseEdge(at_s, sound_s, word_s[k], pause_s, kinds[spoken[index]], ends=ends)
                edges[index] += (1 if ends else -1) * edge.outwards_s(emissions.sound) / shift_s
    pause_after = np.append(sounds.start[1:] > sounds.end[:-1], True)
    for k in np.flatnonzero(~pause_after).tolist():
        if kinds[spoken[k]] in OPEN and kinds[spoken[k + 1]] == "stop":
            times = (
                np.array([sounds.start[k], sounds.end[k], sounds.end[k + 1]]) * shift_s
                + emissions.first_frame_s
            )
            end[k] = start[k + 1] = (
                end[k] + _measure_closing_s(emissions.sound, *times.tolist()) / shift_s
            )
    start, end = in_order(start, end, pause_after, frames)
    return among_all_tokens(drawn, spoken, Spans(start, end, sounds.start_sd, sounds.end_sd))


def _measure_closing_s(audio: Audio, begin_s: float, at_s: float, end_s: float) -> float:
    """Return the time from `at_s` to the closure of a stop that ends at `end_s`.

    The sound before it begins at `begin_s`.
    """
    count = -(-len(audio.samples) // round(SHIFT_S * audio.sample_rate))
    first = max(round(max(begin_s, at_s - BESIDE_S) / SHIFT_S), 0)
    last = min(round(min(end_s, at_s + BESIDE_S) / SHIFT_S), count)
    edge = round(at_s / SHIFT_S) - first
    if edge < FEWEST_FRAMES or last - first - edge < FEWEST_FRAMES:
        return 0.0
    levels = band_levels(audio, first, last)[:, 0]
    reach = round(CLOSING_S / SHIFT_S)
    top = np.median(levels[: edge - FEWEST_FRAMES + 1])
    bottom = levels[edge:].min()
    limit = top - FALLEN * (top - bottom)
    near = max(edge - reach, 0)
    above = levels[near : edge + reach]
    below = levels[near + 1 : edge + reach + 1]
    falls = near + np.flatnonzero((above[: len(below)] >= limit) & (below < limit))
    if top - bottom < LEAST_FALL_DB or not len(falls):
        return 0.0
    at = falls[np.argmin(np.abs(falls + 0.5 - edge))]
    return float(
        (first + at + (levels[at] - limit) / (levels[at] - levels[at + 1])) * SHIFT_S - at_s
    )


@dataclass(frozen=True)
class PauseEdge:
    """The edge of a word beside a pause.

    Attributes:
        at_s: its time.
        sound_s, word_s, pause_s: lengths of the sound that begins or ends there, of its word, and
            of the pause.
        kind: of the sound.
        ends: the word ends here; otherwise it begins.
    """

    at_s: float
    sound_s: float
    word_s: float
    pause_s: float
    kind: str
    ends: bool

    def outwards_s(self, audio: Audio) -> float:
        """Return how far the sound goes on into the pause; negative: it ends before the edge."""
        at = round(self.at_s / SHIFT_S)
        count = -(-len(audio.samples) // round(SHIFT_S * audio.sample_rate))
        if self.ends:
            behind = at
            ahead = count - at
        else:
            behind = count - at
            ahead = at
        inside = min(round(min(self.word_s, WORD_S) / SHIFT_S), behind)
        outside = min(round(min(self.pause_s, FLOOR_S) / SHIFT_S), ahead)
        if min(inside, outside) < FEWEST_FRAMES:
            return 0.0
        if self.ends:
            levels = band_levels(audio, at - inside, at + outside)
        else:
            levels = band_levels(audio, at - outside, at + inside)[::-1]
        floor = np.quantile(levels[inside:], FLOOR, axis=0)
        peak = np.quantile(levels[:inside], PEAK, axis=0)
        moved = self._find_end(self._find_sound(levels, floor, peak), inside) - inside
        least_db = CONTRAST_DB if moved > 0 else QUIET_DB
        if peak[0] - floor[0] >= least_db:
            return SHIFT_S * moved
        return 0.0

    def _find_sound(self, levels: np.ndarray, floor: np.ndarray, peak: np.ndarray) -> np.ndarray:
        """Return which frames are sound (T,), from levels (T, 1 + bands), with floors and peaks."""
        contrast = np.minimum(peak - floor, DEEPEST_DB)
        found = (levels >= peak - contrast + np.maximum(SOUNDING * contrast, LEAST_DB)) & (
            contrast >= BAND_CONTRAST_DB
        )
        loud_enough = levels[:, 0] >= peak[0] - DEEPEST_DB
        return np.asarray(loud_enough & (found[:, 1:].any(1) if self.kind in WEAK else found[:, 0]))

    def _find_end(self, sounding: np.ndarray, edge: int) -> int:
        """Return the frame after the sound that reaches the edge, or after the nearest one."""
        if not sounding[edge]:
            most_s = min(INWARDS_S, INWARDS_SHARE * self.sound_s)
            inner = np.flatnonzero(sounding[max(0, edge - round(most_s / SHIFT_S)) : edge][::-1])
            return edge - int(inner[0]) if len(inner) else edge
        if self.ends and self.kind in PLOSIVES:
            most_s = RELEASE_S
        else:
            most_s = OUTWARDS_S
        found = edge + np.flatnonzero(sounding[edge : edge + round(most_s / SHIFT_S)])
        breaks = np.flatnonzero(np.diff(found) > (INTERRUPTED_FRAMES if self.ends else 1))
        return int(found[breaks[0] if len(breaks) else -1]) + 1


@lru_cache(maxsize=4)
def _make_filters(sample_rate: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the window and the filters (fft // 2 + 1, 1 + bands): all bands together, and each."""
    length = round(WINDOW_S * sample_rate)
    fft = 2 ** (length - 1).bit_length()
    hz = np.fft.rfftfreq(fft, 1 / sample_rate)
    bands = np.searchsorted(BANDS_HZ, hz, "right")[:, None] == np.arange(1, len(BANDS_HZ))
    filters = np.concatenate((bands.any(1, keepdims=True), bands), 1)
    return np.hanning(length).astype(np.float32), filters.astype(np.float32)


def band_levels(audio: Audio, first: int, last: int) -> np.ndarray:
    """Return the levels (last - first, 1 + bands) in dB: all bands together, and each."""
    window, filters = _make_filters(audio.sample_rate)
    shift = round(SHIFT_S * audio.sample_rate)
    reach = len(window) // 2
    begin = (first - 1) * shift - reach
    end = last * shift - reach + len(window)
    samples = np.asarray(audio.samples[max(0, begin) : max(0, end)], np.float32)
    padded = np.pad(samples, (max(0, -begin), max(0, end - len(audio.samples))))
    power = np.exp(log_channels(padded, window, filters, shift, first, _SMALLEST_POWER))
    return np.asarray(_DB * np.log((power[:-2] + power[1:-1] + power[2:]) / 3))


# Conventions with a name: what some labellers leave out of a word

GLOTTAL_OUT, RELEASE_OUT, BOTH_OUT = "glottal-out", "release-out", "both-out"
VOICED_DB, GLOTTAL_S = 12.0, 0.1
"""Voicing is regular after the last frame, up to so long after the word's start, that is so far
below the vowel."""
BURST_DB = 9.0
BURST_FRAMES = 2
BURST_S = (0.01, 0.1)
BURST_BAND = 5
"""A burst is the steepest rise of the highest band, by this much over twice as many frames, in the
stop or so long after it: in speech, before a pause. These five were chosen on four speakers of
gold-dev. On the other four, edges at the end of a glottal onset come from 45 to 19 ms, those before
a release from 29 to 7 ms."""


def edges_by_convention(
    emissions: Emissions, tokens: Tokens, drawn: Spans, kinds: Sequence[str], convention: str
) -> Spans:
    """Return edges of words without glottal onsets, or without the releases of final stops.

    Args:
        emissions, tokens, drawn, kinds: as for `edges_beside_pauses`.
        convention: the setting.
    """
    assert emissions.sound is not None
    spoken = spoken_indices(tokens)
    shift_s = emissions.frame_shift_s
    frames = frames_in(emissions)
    sounds = drawn.of(spoken)
    words = np.asarray(tokens.words)[spoken]
    start, end = sounds.start.copy(), sounds.end.copy()
    ends_word = np.append(words[1:] != words[:-1], True)
    gap = np.append(start[1:], frames) > end
    for k, index in enumerate(spoken.tolist()):
        low, high = (
            round((edge * shift_s + emissions.first_frame_s) / SHIFT_S)
            for edge in (start[k], end[k])
        )
        begins = k == 0 or ends_word[k - 1]
        if begins and kinds[index] == "vowel" and convention in (GLOTTAL_OUT, BOTH_OUT):
            start[k] += _count_glottal_frames(emissions.sound, low, high) * SHIFT_S / shift_s
        if ends_word[k] and kinds[index] == "stop" and convention in (RELEASE_OUT, BOTH_OUT):
            latest = high + round(BURST_S[int(gap[k])] / SHIFT_S)
            if gap[k] and k + 1 < len(start):  # the onset of the next word is no burst of this one
                following = round((start[k + 1] * shift_s + emissions.first_frame_s) / SHIFT_S)
                latest = min(latest, max(following - 2 * BURST_FRAMES, high))
            end[k] += (_find_burst(emissions.sound, low, high, latest) - high) * SHIFT_S / shift_s
    start, end = in_order(start, end, np.append(start[1:] > end[:-1], True), frames)
    return among_all_tokens(drawn, spoken, Spans(start, end, sounds.start_sd, sounds.end_sd))


def _count_glottal_frames(audio: Audio, low: int, high: int) -> int:
    """Return after how many frames from `low` the voicing of a vowel becomes regular.

    The vowel ends at `high`.
    """
    count = -(-len(audio.samples) // round(SHIFT_S * audio.sample_rate))
    if low < count:
        levels = band_levels(audio, low, min(max(high, low + FEWEST_FRAMES), count))[:, 0]
    else:
        levels = np.zeros(0)
    if len(levels) < FEWEST_FRAMES:
        return 0
    onset = levels[: min(round(GLOTTAL_S / SHIFT_S), len(levels) - 1)]
    quiet = np.flatnonzero(onset < np.quantile(levels, 0.9) - VOICED_DB)
    return int(quiet[-1]) + 1 if len(quiet) else 0


def _find_burst(audio: Audio, low: int, high: int, latest: int) -> int:
    """Return the frame of a stop's burst from `low` to `high` or `latest`; `high` without one."""
    count = -(-len(audio.samples) // round(SHIFT_S * audio.sample_rate))
    first = max(low - BURST_FRAMES, 0)
    last = min(latest + BURST_FRAMES, count)
    if last - first <= 2 * BURST_FRAMES:
        return high
    levels = band_levels(audio, first, last)[:, BURST_BAND]
    rise = levels[2 * BURST_FRAMES :] - levels[: -2 * BURST_FRAMES]
    steepest = int(np.argmax(rise))
    if rise[steepest] >= BURST_DB:
        return first + BURST_FRAMES + steepest
    return high
