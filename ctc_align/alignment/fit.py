"""How well a transcript fits its recording, where they disagree, and which part is read.

    good       the words are at their aligned positions
    doubtful   some words are not, or more is said than written, or the sound is unlike the speech that the model knows
    poor       many words are not at their positions
    none       nothing of the transcript is in the recording

The limits belong to a model (`ctc_align.models.confidence_network.FitLimits`). They come from the
losses per token and the confidences of held-out recordings with their true transcripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from ctc_align.alignment.ctc_path import PIECE_FRAMES, runs_of
from ctc_align.alignment.edges import duration_of
from ctc_align.alignment.inputs import UtteranceInputs
from ctc_align.kernels.log_space import log_softmax
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import (
    ALIGNED,
    ANY_SPEECH,
    DOUBTFUL,
    GOOD,
    MISFIT,
    NONE,
    NOT_SPOKEN,
    POOR,
    SKIPPED,
    UNEXPLAINED,
    UNSPOKEN,
    AlignedWord,
    Alignment,
    BookPlace,
    Emissions,
    Region,
    SourceCue,
)

SPEECH, MUSIC, SILENCE = "speech", "music", "silence"
"""The kinds of sound."""

UNLIKELY = 0.5
"""A word with less confidence is probably not at its aligned position."""
MOST_OF_A_TEXT = 0.75
"""A text is there if a greater share of its words is found, or likely."""
ABSENT_CONFIDENCE = 0.05
"""The greatest confidence of a word if nothing of the transcript is in the recording, or if it has
more sounds than can be spoken in the time of the recording."""
MOST_UNEXPLAINED = 0.05
"""If a greater share of the speech has no words, the fit is not good."""
FEWEST_WORDS = 2
"""Fewer unlikely words in a row than this are not a region."""
ISLAND_WORDS = FEWEST_WORDS - 1
"""The maximum number of likely words between unlikely ones of one region."""
SHORTEST_TOKEN_S = 0.045
"""Tokens that are shorter on average cannot be spoken (a phone of fast speech lasts 60 ms)."""
REASONS = {
    SPEECH: "speech that no word explains",
    MUSIC: "music or noise, without words of the transcript",
}
"""The reasons of regions without words; silence is nothing to explain."""
NOT_FOUND = "the transcript could not be found in the recording"
NOT_HEARD = "hardly any word is heard where it was put: is it the transcript of this recording?"


@dataclass(frozen=True)
class Assessment:
    """How well a transcript fits its recording.

    Attributes:
        fit: one of the fits; None if no network has assessed the words.
        words: of the transcript; changed where all of it is contradicted.
        unexplained: speech that no word explains, (start_s, end_s) ascending.
        regions: where recording and transcript disagree, by time.
    """

    fit: str | None
    words: tuple[AlignedWord, ...]
    unexplained: tuple[tuple[float, float], ...]
    regions: tuple[Region, ...]


def assess_fit(
    inputs: UtteranceInputs,
    words: tuple[AlignedWord, ...],
    loss_per_token: float,
    limits: FitLimits | None,
    contradicted: bool = False,
) -> Assessment:
    """Return how well a transcript fits.

    Without `limits`, those of the network that has assessed the words, there is no fit, and no word
    is called a misfit: the confidences of a calibration are also low for correct words whose edges
    are rough.
    """
    sounds = unexplained_sounds(inputs.emissions, words)
    unexplained = tuple((start_s, end_s) for start_s, end_s, kind in sounds if kind == SPEECH)
    if limits is None:
        regions = regions_of(words, sounds, assessed=False)
        if contradicted:
            duration_s = duration_of(inputs.emissions)
            regions = (region_of_all(inputs.words.text, duration_s, NOT_HEARD), *regions)
        return Assessment(None, words, unexplained, regions)
    if contradicted and not any(word.by for word in words):  # what a person has placed is there
        return _refuse_words(inputs, words, unexplained)
    fit = fit_of(words, unexplained, loss_per_token, limits)
    return Assessment(fit, words, unexplained, regions_of(words, sounds))


def _refuse_words(
    inputs: UtteranceInputs,
    words: Sequence[AlignedWord],
    unexplained: tuple[tuple[float, float], ...],
) -> Assessment:
    """Return the assessment of words that are not in the recording.

    They have no times, or with the setting `match` "exact" hardly any confidence.
    """
    regions = (region_of_all(inputs.words.text, duration_of(inputs.emissions)),)
    if inputs.settings.match == "exact":
        return Assessment(NONE, with_little_confidence(words), unexplained, regions)
    return Assessment(NONE, without_times(words), (), regions)


def fit_of(
    words: Sequence[AlignedWord],
    unexplained: Sequence[tuple[float, float]],
    loss_per_token: float,
    limits: FitLimits,
) -> str:
    """Return the fit of words that are in the recording: `GOOD`, `DOUBTFUL` or `POOR`.

    Args:
        words: of the alignment; hand-corrected words are certain.
        unexplained: speech that no word explains, in seconds.
        loss_per_token: the CTC loss per token.
        limits: of the model.
    """
    chances = _chances(words)
    skipped = sum(word.status == SKIPPED for word in words)
    unexplained_s = sum(end_s - start_s for start_s, end_s in unexplained)
    spoken_s = sum((word.end_s or 0.0) - (word.start_s or 0.0) for word in words)
    much_unexplained = unexplained_s > MOST_UNEXPLAINED * (spoken_s + unexplained_s)
    share = int((chances > UNLIKELY).sum()) / max(len(chances) + skipped, 1)

    def suffices(least_share: float, most_loss: float | None) -> bool:
        return share >= least_share and (most_loss is None or loss_per_token <= most_loss)

    if suffices(limits.good_share, limits.good_loss) and not much_unexplained:
        return GOOD
    return DOUBTFUL if suffices(limits.doubtful_share, limits.doubtful_loss) else POOR


def has_chance(word: AlignedWord) -> bool:
    """Return whether a word's confidence says if it is there: not for a word for any speech."""
    return word.confidence is not None and word.spoken != ANY_SPEECH


def _chances(words: Sequence[AlignedWord]) -> np.ndarray:
    """Return the confidences of the words that have any."""
    return np.array([1.0 if word.by else word.confidence for word in filter(has_chance, words)])


def likely_share(words: Sequence[AlignedWord]) -> float:
    """Return the share of the words with a confidence that are likely at their positions."""
    chances = [word.confidence or 0.0 for word in filter(has_chance, words)]
    return sum(chance > UNLIKELY for chance in chances) / max(len(chances), 1)


def without_times(words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return the words of a transcript that is not in the recording, all skipped."""
    return tuple(
        (
            replace(
                word,
                status=SKIPPED,
                start_s=None,
                end_s=None,
                confidence=None,
                tokens=(),
                start_sd_ms=None,
                end_sd_ms=None,
            )
            if word.confidence is not None
            else word
        )
        for word in words
    )


def with_little_confidence(words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return the words with times, and with the low confidence of a text that is not there."""

    def least(confidence: float) -> float:
        return round(min(confidence, ABSENT_CONFIDENCE), 4)

    return tuple(
        (
            replace(
                word,
                confidence=least(word.confidence),
                tokens=tuple(
                    replace(token, confidence=least(token.confidence)) for token in word.tokens
                ),
            )
            if word.confidence is not None
            else word
        )
        for word in words
    )


def region_of_all(text: str, duration_s: float, reason: str = NOT_FOUND) -> Region:
    """Return the region of a transcript that is not in the recording."""
    return Region(MISFIT, 0.0, duration_s, 0, len(text), reason)


def regions_of(
    words: Sequence[AlignedWord], sounds: Sequence[tuple[float, float, str]], assessed: bool = True
) -> tuple[Region, ...]:
    """Return where recording and transcript disagree, by time.

    These are words that are skipped, sounds (start_s, end_s, kind) that no word explains, and where
    a confidence network has `assessed` the words, words in a row that are probably elsewhere or
    nowhere.
    """
    aligned = [(number, word) for number, word in enumerate(words, 1) if has_chance(word)]
    runs = _find_unlikely_runs([word for _, word in aligned]) if assessed else []
    found = [_region(aligned[first:last]) for first, last in runs]
    found += _find_skipped_regions(words)
    found += [
        Region(UNEXPLAINED, start_s, end_s, reason=REASONS[kind]) for start_s, end_s, kind in sounds
    ]
    return tuple(sorted(found, key=lambda region: region.start_s or 0.0))


def _find_unlikely_runs(words: Sequence[AlignedWord]) -> list[tuple[int, int]]:
    """Return runs [first, last) of unlikely words."""
    runs: list[tuple[int, int]] = []
    for index, word in enumerate(words):
        if word.by or word.confidence is None or word.confidence > UNLIKELY:
            continue
        if runs and index - runs[-1][1] <= ISLAND_WORDS:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return [(first, last) for first, last in runs if last - first >= FEWEST_WORDS]


def _region(run: Sequence[tuple[int, AlignedWord]]) -> Region:
    """Return the region of consecutive words, each with its number in the transcript, from 1."""
    first, begin = run[0]
    last, end = run[-1]
    spoken_s = sum((word.end_s or 0.0) - (word.start_s or 0.0) for _, word in run)
    named = f"words {first}–{last}"
    if spoken_s < SHORTEST_TOKEN_S * sum(len(word.tokens) for _, word in run):
        kind = NOT_SPOKEN
        reason = f"{named} are not in the recording: there is no time for them here"
    else:
        kind = MISFIT
        reason = f"{named} do not fit the recording"
    start_s = begin.start_s or 0.0
    end_s = end.end_s or 0.0
    return Region(
        kind, min(start_s, end_s), max(start_s, end_s), begin.char_start, end.char_end, reason
    )


def _find_skipped_regions(words: Sequence[AlignedWord]) -> list[Region]:
    """Return the regions of consecutive skipped words, with the times between their neighbours."""
    regions: list[Region] = []
    run: list[int] = []
    before_s: float | None = 0.0

    def end_run(after_s: float | None) -> None:
        if not run:
            return
        named = f"words {run[0] + 1}–{run[-1] + 1} are" if len(run) > 1 else f"word {run[0] + 1} is"
        has_room = before_s is not None and after_s is not None and after_s > before_s
        times = (before_s, after_s) if has_room else (None, None)
        chars = words[run[0]].char_start, words[run[-1]].char_end
        regions.append(Region(NOT_SPOKEN, *times, *chars, f"{named} not in the recording"))

    for index, word in enumerate(words):
        if word.status == SKIPPED:
            run.append(index)
        elif word.status == ALIGNED:
            end_run(word.start_s)
            before_s = word.end_s
            run = []
    end_run(None)
    return regions


# Sounds that no word of the transcript explains
#
# A word whose sound is not there has a low confidence. Speech that is not in the transcript lies
# between words, where the segmentation has silence and the frames say otherwise.

SPEECH_NATS = 2.0
"""A frame is surely speech where the best sound fits it better than silence by this many nats."""
STATES_WINDOW_S = 0.2
"""Speech is where most of the frames of such a window are."""
WINDOW_S = 2.0
"""The kind of a sound is judged by windows of this length."""
SHORT_GAP_S = 2 * WINDOW_S
"""In a shorter gap between words, or between them and speech that no word explains, only the
segmentation states find speech, and there is no search for music."""
LEAST_S = {SPEECH: 2 * STATES_WINDOW_S, MUSIC: SHORT_GAP_S}
"""Shorter stretches of each kind are not reported."""


def unexplained_sounds(
    emissions: Emissions, words: Sequence[AlignedWord]
) -> tuple[tuple[float, float, str], ...]:
    """Return ascending stretches (start_s, end_s, kind) of speech or music without words.

    Words that are not unlikely are the samples of this recording's speech. If the model is
    not sure enough of these to distinguish speech from music, only the segmentation states find
    speech, which may then include music.
    """
    shift_s = emissions.frame_shift_s
    origin_s = emissions.first_frame_s
    frames = len(emissions)

    def frame(seconds: float) -> int:
        return min(max(round((seconds - origin_s) / shift_s), 0), frames)

    def seconds(frame: int) -> float:
        return round(frame * shift_s + origin_s, 5)

    sure = [
        (frame(word.start_s), frame(word.end_s))
        for word in words
        if word.start_s is not None
        and word.end_s is not None
        and (word.by or (word.confidence or 0.0) >= UNLIKELY)
    ]
    found: list[tuple[int, int, str]] = []
    kinds: SoundKinds | None = None
    for first, last in _find_gaps(words, origin_s, shift_s, frames):
        if _is_judged_by_states(emissions, first, last):
            found += [(a, b, SPEECH) for a, b in _find_speech_by_states(emissions, first, last)]
            continue
        kinds = kinds or sound_kinds(emissions, sure)
        by_states = [] if kinds.tells else _find_speech_by_states(emissions, first, last)
        if by_states:
            found += [(a, b, SPEECH) for a, b in by_states]
            continue
        speech = _extend_speech(emissions, kinds.speech(first, last), first, last)
        found += [
            (a, b, kind)
            for a, b, kind in kinds.stretches(first, last, speech)
            if kind != SILENCE and (b - a) * shift_s >= LEAST_S[kind]
        ]
    end_s = duration_of(emissions)
    return tuple((seconds(a), min(seconds(b), end_s), kind) for a, b, kind in found)


def _find_gaps(
    words: Sequence[AlignedWord], origin_s: float, shift_s: float, frames: int
) -> list[tuple[int, int]]:
    """Return the stretches of frames that lie wholly outside words, ascending."""
    gaps = []
    first = 0
    times = sorted(
        (word.start_s, word.end_s)
        for word in words
        if word.start_s is not None and word.end_s is not None
    )
    for start_s, end_s in times:
        gaps.append((first, int((start_s - origin_s) / shift_s + 1e-6)))
        first = max(first, int(np.ceil((end_s - origin_s) / shift_s - 1e-6)))
    return [*gaps, (first, frames)]


def _is_judged_by_states(emissions: Emissions, first: int, last: int) -> bool:
    gap_s = (last - first) * emissions.frame_shift_s
    return emissions.state_array is not None and gap_s < SHORT_GAP_S


def _extend_speech(
    emissions: Emissions, speech: Sequence[Stretch], first: int, last: int
) -> list[Stretch]:
    """Return the speech of a gap [first, last) with what the states find in its short remains.

    A model is not sure of every sound of a speaker whom it hardly understands.
    """
    ends = [first, *(end for _, end in speech)]
    begins = [*(begin for begin, _ in speech), last]
    heard = [
        part
        for end, begin in zip(ends, begins)
        if _is_judged_by_states(emissions, end, begin)
        for part in _find_speech_by_states(emissions, end, begin)
    ]
    longest_pause = STATES_WINDOW_S / emissions.frame_shift_s
    merged: list[Stretch] = []
    for begin, end in sorted([*speech, *heard]):
        if merged and begin - merged[-1][1] < longest_pause:
            begin = merged.pop()[0]
        merged.append((begin, end))
    return merged


def _find_speech_by_states(emissions: Emissions, first: int, last: int) -> list[tuple[int, int]]:
    """Return the speech within frames [first, last) by the segmentation states, ascending."""
    window = max(1, round(STATES_WINDOW_S / emissions.frame_shift_s))
    if emissions.state_array is None or last - first < window:
        return []
    scores = emissions.state_array[first:last]
    speech = scores[:, :-1].max(1) - scores[:, -1] > SPEECH_NATS
    return [(first + a, first + b) for a, b in _merge_windows(speech, window)]


def _merge_windows(speech: np.ndarray, window: int) -> list[Stretch]:
    """Return unions of the windows that are speech, without the frames at their ends that are not.

    >>> _merge_windows(np.array([0, 1, 1, 1, 0, 0, 0, 0, 1, 0]) > 0, 3)
    [(1, 4)]
    """
    inside = np.zeros(len(speech), np.bool_)
    sums = np.convolve(speech, np.ones(window), "valid")
    for start in np.flatnonzero(sums > window / 2).tolist():
        inside[start : start + window] = True
    stretches = []
    for start, end in runs_of(inside):
        said = np.flatnonzero(speech[start:end])
        stretches.append((start + int(said[0]), start + int(said[-1]) + 1))
    return stretches


# Speech, music or silence, where no word of the transcript lies
#
# Speech makes a model sure: token after token has nearly all of the probability at its peak, and
# between them the blank has it all. In music and noise, singing included, the model is rarely sure
# of either; in silence the blank has it all. What counts is how clear a token begins at each frame,
# and how sure the blank is, compared with the words of the same recording: neither the vocabulary
# (phones, letters, subwords) nor the rate of frames sets the numbers.
#
# The constants were tuned on eight development speakers and 41 minutes of 17 recordings of music.
# With seven other speakers and 29 minutes by other performers (songs with drums, an orchestra), cut
# into stretches of 20 to 45 s each assessed alone, 98 % of the time of speech is found and no music
# is called speech; assessed as one recording, 98 % is found, and of a stretch of music at most 3.3
# s are called speech, beside speech.

Stretch = tuple[int, int]
"""Frames [first, last)."""

CLEAR_FROM, CLEAR_AT = UNLIKELY, 0.9
"""A token whose peak has at most the first probability is not clear; from the second on it is fully
clear."""
ANY_TOKEN, SURE_BLANK = 0.3, 1.5
"""Weights relative to a clear token: of any token, and of the sure blank."""
LEAST = 0.3
SURELY = 1.0 - LEAST
"""A stretch is speech if its mean over each window (1 in words) reaches the first share, and over one
window the second, or `LONG_LEAST` over a long window."""
LONG_WINDOW_S = 4 * WINDOW_S
LONG_LEAST = (LEAST + SURELY) / 2
"""A long window without silence, and the share that is enough there."""
FEWEST_CLEAR = 2.5
LEAST_CLEAR_PER_S = FEWEST_CLEAR / WINDOW_S
"""Fewer clear tokens than this are not speech. A model that hears fewer in a second of words than
that is in a window cannot distinguish speech from music."""
PAUSE_S = WINDOW_S / 2
"""A shorter pause does not divide speech."""
BESIDE_S = 2 * SHORTEST_TOKEN_S
"""A sound extends this far on either side of the frame where its token is heard."""
QUIET, QUIET_SHARE = 0.99, 0.95
"""The blank is sure from this probability on; half a window is silent if the blank is sure in this
share of its frames."""
LEAST_WORDS_S = LEAST_S[MUSIC]
"""Fewer seconds of words are not enough to know how speech sounds here."""
USUAL = CLEAR_AT
"""In that case, the windows above this quantile of clear tokens count as words."""


@dataclass(frozen=True)
class SoundKinds:
    """The tokens and the silence heard in a recording, which tell the kind of sound of a stretch.

    Attributes:
        frame_shift_s: seconds from frame to frame.
        at: (H,) int64, the frames where tokens are heard, ascending.
        clear: (H,) float64 in [0, 1], how clear each token is.
        silent: (T,) bool, frames in silence.
        likeness: (T,) float32, how like speech each frame is, 1 on average in words.
        tells: whether the model is sure enough of words to distinguish speech from music.
    """

    frame_shift_s: float
    at: np.ndarray
    clear: np.ndarray
    silent: np.ndarray
    likeness: np.ndarray
    tells: bool = True

    def kind(self, first: int, last: int) -> str:
        """Return what most of the frames [first, last) are: `SPEECH`, `MUSIC` (noise) or `SILENCE`.

        >>> silent = np.repeat((False, True), 500)
        >>> kinds = SoundKinds(0.01, np.arange(5, 500, 10), np.ones(50), silent, 1.0 - silent)
        >>> kinds.kind(0, 500), kinds.kind(500, 1000)
        ('speech', 'silence')
        """
        lengths = dict.fromkeys((SPEECH, SILENCE, MUSIC), 0)
        for begin, end, kind in self.stretches(first, last, self.speech(first, last)):
            lengths[kind] += end - begin
        return max(lengths, key=lambda kind: lengths[kind])

    def stretches(
        self, first: int, last: int, speech: Sequence[Stretch]
    ) -> list[tuple[int, int, str]]:
        """Return [first, last) cut at its `speech` into stretches (first, last, kind), ascending."""
        found: list[tuple[int, int, str]] = []
        at = first
        for begin, end in [*speech, (last, last)]:
            found += self._divide_quiet_stretch(at, begin)
            if end > begin:
                found.append((begin, end, SPEECH))
            at = end
        return found

    def speech(self, first: int, last: int) -> list[Stretch]:
        """Return the frames of speech within [first, last), from its first token to its last.

        >>> silent = np.repeat((True, False, True), (400, 200, 400))
        >>> kinds = SoundKinds(0.01, np.arange(405, 600, 10), np.ones(20), silent, 1.0 - silent)
        >>> kinds.speech(0, 1000)
        [(396, 604)]
        """
        if last <= first:
            return []
        begin, end = np.searchsorted(self.at, (first, last))
        at, clear = self.at[begin:end], self.clear[begin:end]
        like = self.likeness[first:last]
        heard_share = 1.0 - self.silent[first:last]
        long_window = self._frames(LONG_WINDOW_S)
        near = _average_in_windows(like, self._frames(WINDOW_S))
        lasting = np.maximum(
            _average_in_windows(heard_share, long_window), WINDOW_S / LONG_WINDOW_S
        )
        surely = (near >= SURELY) | (
            _average_in_windows(like * heard_share, long_window) >= LONG_LEAST * lasting
        )
        beside, found = self._frames(BESIDE_S), []  # type: int, list[Stretch]
        for low, high in runs_of(near >= LEAST):
            heard = np.flatnonzero((at >= first + low) & (at < first + high) & (clear > 0))
            if not surely[low:high].any() or clear[heard].sum() < FEWEST_CLEAR:
                continue
            part = max(first, int(at[heard[0]]) - beside), min(last, int(at[heard[-1]]) + beside)
            if found and part[0] - found[-1][1] < self._frames(PAUSE_S):
                part = found.pop()[0], part[1]
            found.append(part)
        return found

    def _divide_quiet_stretch(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """Return a stretch without speech, cut into music and silence."""
        if last <= first:
            return []
        silent = self.silent[first:last]
        edges = [0, *(np.flatnonzero(np.diff(silent)) + 1).tolist(), last - first]
        return [(first + a, first + b, SILENCE if silent[a] else MUSIC) for a, b in pairwise(edges)]

    def _frames(self, seconds: float) -> int:
        return max(1, round(seconds / self.frame_shift_s))


def sound_kinds(emissions: Emissions, spoken: Sequence[Stretch] = ()) -> SoundKinds:
    """Return the tokens and the silence that are heard in a recording.

    Args:
        emissions: of any model; segmentation states are not used.
        spoken: frames of words whose positions are sure. With less than `LEAST_WORDS_S` of them,
            the parts of the recording that are most like speech count as words; in a recording with
            nothing but music, these are music.
    """
    at, peaks, quiet = _find_heard_tokens(emissions)
    clear = np.clip((peaks - CLEAR_FROM) / (CLEAR_AT - CLEAR_FROM), 0.0, 1.0)
    shift_s = emissions.frame_shift_s
    frames = len(quiet)
    tokens, clearness = np.zeros(frames, np.float32), np.zeros(frames, np.float32)
    tokens[at] = 1.0
    clearness[at] = clear
    words = np.zeros(frames, np.bool_)
    for first, last in spoken:
        words[max(first, 0) : max(last, 0)] = True
    if words.sum() * shift_s < LEAST_WORDS_S and frames:
        usual = _average_in_windows(clearness, max(1, round(LONG_WINDOW_S / shift_s)))
        words = usual >= np.quantile(usual, USUAL)
    if not frames:
        return SoundKinds(shift_s, at, clear, quiet, clearness)
    silent = _average_in_windows(quiet, max(1, round(WINDOW_S / 2 / shift_s))) >= QUIET_SHARE
    heard_rate = float(clearness[words].mean())
    least_rate = LEAST_CLEAR_PER_S * shift_s
    clear_rate = max(heard_rate, least_rate)
    token_rate = max(float(tokens[words].mean()), clear_rate)
    shares = clearness / clear_rate + ANY_TOKEN * tokens / token_rate
    sureness = SURE_BLANK * (quiet - quiet[words].mean(dtype=np.float32)) * ~silent
    return SoundKinds(
        shift_s,
        at,
        clear,
        silent,
        (shares + sureness) / (1.0 + ANY_TOKEN),
        heard_rate >= least_rate,
    )


def _find_heard_tokens(emissions: Emissions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return frames (H,) and peaks (H,) of greedy tokens, and whether each frame (T,) is quiet."""
    silent = np.array(
        [
            index == emissions.blank or not is_sound(token)
            for index, token in enumerate(emissions.vocab)
        ]
    )
    best, peak, quiet = [], [], []
    for first in range(0, len(emissions), PIECE_FRAMES):
        piece = emissions.array[first : first + PIECE_FRAMES].astype(np.float32, copy=False)
        posteriors = np.exp(log_softmax(piece))
        best.append(piece.argmax(1))
        peak.append(posteriors.max(1))
        quiet.append(posteriors[:, silent].sum(1) > QUIET)
    if not best:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
    heard, peaks = np.concatenate(best), np.concatenate(peak)
    begins = np.flatnonzero(np.diff(heard, prepend=-1))
    ends = np.append(begins[1:], len(heard))
    sounds = ~silent[heard[begins]]
    return (
        ((begins + ends - 1) // 2)[sounds],
        np.maximum.reduceat(peaks, begins)[sounds],
        np.concatenate(quiet),
    )


def is_sound(token: str) -> bool:
    """Return whether a token of a vocabulary is a sound, not a space, a mark or the unknown.

    >>> [is_sound(token) for token in ("AH", "ʃ", "▁the", "|", "▁", "<unk>", "[PAD]")]
    [True, True, True, False, False, False, False]
    """
    return any(map(str.isalpha, token)) and not (token[0] in "<[" and token[-1] in ">]")


def _average_in_windows(values: np.ndarray, window: int) -> np.ndarray:
    """Return (T,) means of values (T,) in windows around each frame, whole ones at the ends.

    If the recording is shorter than a window, each mean is over all of it.

    >>> _average_in_windows(np.array([1.0, 1.0, 0.0, 0.0]), 2).tolist()
    [1.0, 1.0, 0.5, 0.0]
    """
    frames = len(values)
    window = min(window, frames)
    sums = np.concatenate(([0.0], np.cumsum(values, dtype=np.float64)))
    begins = np.clip(np.arange(frames) - window // 2, 0, frames - window)
    return np.asarray((sums[begins + window] - sums[begins]) / max(window, 1))


# The part of a text that a recording reads, cut out of the alignment with the whole text.
#
# Several recordings may share one text, as the chapters of a book do. Each recording is aligned
# with the whole text; then one stretch of the alignment is kept, in which found words outweigh the
# missing words between them. A few words far from it (such as the title, read first) are reported
# as speech that is not in the part.

_NAMED = 5
WEIGHT = 10
"""A word that is likely at its position outweighs this many skipped words between it and the rest
of the part."""
_NUMBERED = re.compile(r"(words? )(\d+)(?:–(\d+))?")


def part_of_text(alignment: Alignment, limits: FitLimits | None = None) -> Alignment:
    """Return the alignment of the part of its text that is read.

    The part goes from one likely word (any that has times, if none is likely) to another, and
    maximises the number of such words, times `WEIGHT`, minus the number of skipped words. Words
    with times before and after it are left out and reported as regions; they stay in the loss.
    Unspoken words at either end (the name of a speaker) belong to the part if they are on the same
    line. Words before and after it do not count as `skipped` words of the part.

    `text` is the part, from whose start all characters count, and `text_offset` says how many code
    points of the whole text come before it. `fit` is that of the part, by the `limits` of the
    model; where it is "none", or no word has times, all of the text remains, every word skipped.
    `local_loss` is None, because the aligner's is of the whole text.

    >>> timed = AlignedWord("b", "b", 2, 3, "aligned", 0.0, 0.5, 0.9)
    >>> words = (AlignedWord("a", "a", 0, 1, "skipped"), timed, AlignedWord("c", "c", 4, 5, "skipped"))
    >>> part = part_of_text(Alignment("u", "", 1.0, "m", "cpu", 0.01, 1.0, -1.0, "a b c", words))
    >>> part.text, part.text_offset, part.words[0].char_start, part.skipped
    ('b', 2, 0, 0)
    """
    words = alignment.words
    alignment = replace(alignment, local_loss=None)
    if not any(word.status == ALIGNED for word in words):
        return alignment
    first, last = _choose_weightiest(words)
    away = _find_far_stretches(words, first, last)
    first = _extend_over_unspoken(alignment, first, -1)
    last = _extend_over_unspoken(alignment, last, 1)
    cut = _Cut(words[first].char_start, words[last].char_end, first)
    subtitles = alignment.subtitles
    if subtitles is not None:
        subtitles = replace(
            subtitles, cues=tuple(cut.cue(cue) for cue in subtitles.cues if cut.has(cue))
        )
    part = replace(
        alignment,
        text=alignment.text[cut.start : cut.end],
        text_offset=cut.start,
        words=tuple(cut.word(word) for word in words[first : last + 1]),
        regions=_merge_far_regions(
            [cut.region(region) for region in alignment.regions if cut.has(region)], away
        ),
        unexplained=tuple(
            sorted((*alignment.unexplained, *((r.start_s or 0.0, r.end_s or 0.0) for r in away)))
        ),
        places=tuple(cut.place(place) for place in alignment.places if cut.has(place)),
        subtitles=subtitles,
    )
    if limits is None or alignment.fit is None:
        return part
    if alignment.fit == NONE:
        region = region_of_all(alignment.text, alignment.duration_s)
        return replace(alignment, words=without_times(words), unexplained=(), regions=(region,))
    fit = fit_of(part.words, part.unexplained, alignment.loss_per_token or 0.0, limits)
    return replace(part, fit=fit)


def _choose_weightiest(words: Sequence[AlignedWord]) -> tuple[int, int]:
    """Return the first and the last word of the part."""
    least = -1.0
    if any(word.confidence is not None and word.confidence > UNLIKELY for word in words):
        least = UNLIKELY
    best = 0
    sum_so_far = 0
    start = 0
    part = (0, 0)
    # The stretch of the greatest sum ends at each word in turn (Kadane): a sum that is not above 0
    # is worth nothing.
    for index, word in enumerate(words):
        if sum_so_far <= 0:
            sum_so_far = 0
            start = index
        is_likely = word.confidence is not None and word.confidence > least
        if is_likely:
            sum_so_far += WEIGHT
        elif word.status == SKIPPED:
            sum_so_far -= 1
        if is_likely and sum_so_far > best:
            best = sum_so_far
            part = (start, index)
    return part


def _find_far_stretches(words: Sequence[AlignedWord], first: int, last: int) -> list[Region]:
    """Return the stretches of the recording whose words stand before or after the part.

    Each is a run of words.
    """
    found = []
    for outside in (words[:first], words[last + 1 :]):
        for status, run in groupby(outside, key=lambda word: word.status):
            if status == ALIGNED:
                said = list(run)
                start_s = min(word.start_s or 0.0 for word in said)
                end_s = max(word.end_s or 0.0 for word in said)
                begins = " ".join(word.text for word in said[:_NAMED])
                more = " …" if len(said) > _NAMED else ""
                reason = (
                    "speech whose words are far from the part of the text that is read:"
                    f" {begins}{more}"
                )
                found.append(Region(UNEXPLAINED, start_s, end_s, reason=reason))
    return found


def _merge_far_regions(regions: Sequence[Region], away: Sequence[Region]) -> tuple[Region, ...]:
    """Return the regions by time; unchanged if nothing is added."""
    if not away:
        return tuple(regions)
    return tuple(sorted((*regions, *away), key=lambda region: region.start_s or 0.0))


def _extend_over_unspoken(alignment: Alignment, index: int, step: int) -> int:
    """Return the last word of the part, from `index` on in the direction of `step`."""
    words, text = alignment.words, alignment.text
    while 0 <= index + step < len(words) and words[index + step].status == UNSPOKEN:
        early, late = sorted((words[index], words[index + step]), key=lambda word: word.char_start)
        if "\n" in text[early.char_end : late.char_start]:
            break
        index += step
    return index


class _Cut:
    """A stretch of a text, characters `start` to `end` (exclusive), after `first` words."""

    def __init__(self, start: int, end: int, first: int) -> None:
        self.start = start
        self.end = end
        self.first = first

    def has(self, item: Region | BookPlace | SourceCue) -> bool:
        """Return whether an item has characters of the stretch, or no characters at all."""
        if item.char_start is None or item.char_end is None:
            return True
        return item.char_start < self.end and item.char_end > self.start

    def _at(self, char: int) -> int:
        return min(max(char, self.start), self.end) - self.start

    def word(self, word: AlignedWord) -> AlignedWord:
        return replace(
            word, char_start=word.char_start - self.start, char_end=word.char_end - self.start
        )

    def place(self, place: BookPlace) -> BookPlace:
        return replace(
            place, char_start=self._at(place.char_start), char_end=self._at(place.char_end)
        )

    def cue(self, cue: SourceCue) -> SourceCue:
        """Return a cue limited to the stretch; a cue that is cut loses its text as in the file."""
        is_cut = cue.char_start < self.start or cue.char_end > self.end
        start, end = self._at(cue.char_start), self._at(cue.char_end)
        return replace(cue, char_start=start, char_end=end, payload=None if is_cut else cue.payload)

    def region(self, region: Region) -> Region:
        """Return a region limited to the stretch, and renumber the words that its reason names."""
        if region.char_start is None or region.char_end is None:
            return region
        start, end = self._at(region.char_start), self._at(region.char_end)
        return replace(
            region,
            char_start=start,
            char_end=end,
            reason=_NUMBERED.sub(self._counted, region.reason),
        )

    def _counted(self, match: re.Match[str]) -> str:
        numbers = [max(int(number) - self.first, 1) for number in match.groups()[1:] if number]
        return match[1] + "–".join(map(str, numbers))
