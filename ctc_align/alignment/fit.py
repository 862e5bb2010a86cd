"""How well a transcript fits its recording, and where the two disagree.

    good       the words are where they were put
    doubtful   some are not, or more is said than is written, or the sound is unlike the speech that the model knows
    poor       many are not
    none       nothing of the transcript is in the recording

The limits are a model's (`ctc_align.models.confidence_network.FitLimits`), from the losses per token and the
confidences of held-out recordings with their own transcripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ctc_align.alignment.sound_kinds import MUSIC, SILENCE, SPEECH
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import (
    ALIGNED,
    DOUBTFUL,
    GOOD,
    MISFIT,
    NONE,
    NOT_SPOKEN,
    POOR,
    SKIPPED,
    UNEXPLAINED,
    AlignedWord,
    Region,
)

UNLIKELY = 0.5
"""A word of less confidence is likely not where it was put."""
HIGHEST_WITHOUT_FIT = 0.09
"""A word has no more confidence where nothing of the transcript is in the recording."""
MOST_UNEXPLAINED = 0.05
"""If more of the speech than this has no words, the fit is not good."""
FEWEST_TOKENS = 10
"""Nobody can tell of fewer sounds that they are nowhere in a recording."""
FEWEST_WORDS = 2
"""Fewer unlikely words in a row are no region."""
ISLAND_WORDS = 1
"""Likely words between unlikely ones that do not part a region, at most."""
REASONS = {
    SPEECH: "speech that no word explains",
    MUSIC: "music or noise, without words of the transcript",
    SILENCE: "silence",
}
"""The reasons of regions without words."""
HEARD, FEWEST_HEARD_TOKENS = 0.02, 20
"""The confidence of words that are heard at all, of a model without a confidence network, and tokens to tell by."""
SHORTEST_TOKEN_S = 0.045
"""Tokens that are shorter on average cannot be spoken (a phone of fast speech lasts 60 ms)."""


def fit_of(
    words: Sequence[AlignedWord], unexplained: Sequence[tuple[float, float]], loss_per_token: float, limits: FitLimits
) -> str:
    """Return one of `ctc_align.types.FITS`.

    Args:
        words: of the alignment; those by hand are where they are.
        unexplained: speech that no word explains, in seconds.
        loss_per_token: the CTC loss a token.
        limits: of the model.
    """
    chances = np.array([1.0 if word.by else word.confidence for word in words if word.confidence is not None])
    likely = int((chances > UNLIKELY).sum())
    skipped = sum(word.status == SKIPPED for word in words)
    tokens = sum(len(word.tokens) for word in words)
    if likely < limits.none_share * len(chances) and loss_per_token > limits.good_loss and tokens >= FEWEST_TOKENS:
        return NONE
    if not likely and skipped:
        return NONE
    share = likely / max(len(chances) + skipped, 1)
    if share >= limits.good_share and loss_per_token <= limits.good_loss and not _much_unexplained(words, unexplained):
        return GOOD
    return DOUBTFUL if share >= limits.doubtful_share and loss_per_token <= limits.doubtful_loss else POOR


def _much_unexplained(words: Sequence[AlignedWord], unexplained: Sequence[tuple[float, float]]) -> bool:
    left_s = sum(end_s - start_s for start_s, end_s in unexplained)
    spoken_s = sum((word.end_s or 0.0) - (word.start_s or 0.0) for word in words)
    return left_s > MOST_UNEXPLAINED * (spoken_s + left_s)


def without_times(words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return the words of a transcript of which nothing is in the recording: those that had times are skipped."""
    return tuple(
        replace(
            word, status=SKIPPED, start_s=None, end_s=None, confidence=None, tokens=(), start_sd_ms=None, end_sd_ms=None
        )
        if word.confidence is not None
        else word
        for word in words
    )


def with_little_confidence(words: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Return the words with their times and the confidence of a transcript of which nothing is in the recording."""

    def least(confidence: float) -> float:
        return round(min(confidence, HIGHEST_WITHOUT_FIT), 4)

    return tuple(
        replace(
            word,
            confidence=least(word.confidence),
            tokens=tuple(replace(token, confidence=least(token.confidence)) for token in word.tokens),
        )
        if word.confidence is not None
        else word
        for word in words
    )


def regions_of(
    words: Sequence[AlignedWord], sounds: Sequence[tuple[float, float, str]], judged: bool = True
) -> tuple[Region, ...]:
    """Return where recording and transcript disagree, by time: words that are skipped, sounds (start_s, end_s, kind)
    that no word explains, and where they are `judged` words in a row that are likely elsewhere or nowhere."""
    aligned = [(number, word) for number, word in enumerate(words, 1) if word.confidence is not None]
    runs = _unlikely_runs([word for _, word in aligned]) if judged else []
    found = [_region(aligned[first:last]) for first, last in runs]
    found += _skipped_regions(words)
    found += [Region(UNEXPLAINED, start_s, end_s, reason=REASONS[kind]) for start_s, end_s, kind in sounds]
    return tuple(sorted(found, key=lambda region: region.start_s or 0.0))


def _skipped_regions(words: Sequence[AlignedWord]) -> list[Region]:
    """Return the regions of words in a row that are skipped; their times are those between the words around them."""
    regions: list[Region] = []
    before_s: float | None = 0.0
    run: list[int] = []
    for index, word in enumerate(words):
        if word.status == SKIPPED:
            run.append(index)
        elif word.status == ALIGNED:
            if run:
                regions.append(_skipped_region(words, run, before_s, word.start_s))
            before_s, run = word.end_s, []
    return [*regions, _skipped_region(words, run, before_s, None)] if run else regions


def _skipped_region(
    words: Sequence[AlignedWord], run: Sequence[int], start_s: float | None, end_s: float | None
) -> Region:
    if start_s is None or end_s is None or end_s <= start_s:
        start_s = end_s = None
    named = f"words {run[0] + 1}–{run[-1] + 1} are" if len(run) > 1 else f"word {run[0] + 1} is"
    begin, end = words[run[0]].char_start, words[run[-1]].char_end
    return Region(NOT_SPOKEN, start_s, end_s, begin, end, f"{named} not in the recording")


NOT_FOUND = "the transcript could not be found in the recording"
NOT_HEARD = "hardly any word is heard where it was put: is it the transcript of this recording?"


def region_of_all(text: str, duration_s: float, reason: str = NOT_FOUND) -> Region:
    """Return the region of a transcript of which nothing is in the recording."""
    return Region(MISFIT, 0.0, duration_s, 0, len(text), reason)


def hardly_heard(words: Sequence[AlignedWord]) -> bool:
    """Return whether half of the words have next to no posterior, of a model that cannot judge how well they fit.

    Of 183 clips with their own text none, of 174 with another's four in five (log-probs of the English model alone).
    """
    confidences = [word.confidence for word in words if word.confidence is not None]
    if sum(len(word.tokens) for word in words) < FEWEST_HEARD_TOKENS:
        return False
    return float(np.median(confidences)) < HEARD


def _unlikely_runs(words: Sequence[AlignedWord]) -> list[tuple[int, int]]:
    """Return runs [first, last) of unlikely words."""
    runs: list[tuple[int, int]] = []
    for place, word in enumerate(words):
        if word.by or word.confidence is None or word.confidence > UNLIKELY:
            continue
        if runs and place - runs[-1][1] <= ISLAND_WORDS:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return [(first, last) for first, last in runs if last - first >= FEWEST_WORDS]


def _region(run: Sequence[tuple[int, AlignedWord]]) -> Region:
    """Return the region of words in a row, each with its number in the transcript, from 1."""
    (first, begin), (last, end) = run[0], run[-1]
    spoken_s = sum((word.end_s or 0.0) - (word.start_s or 0.0) for _, word in run)
    named = f"words {first}–{last}"
    if spoken_s < SHORTEST_TOKEN_S * sum(len(word.tokens) for _, word in run):
        kind, reason = NOT_SPOKEN, f"{named} are not in the recording: there is no time for them here"
    else:
        kind, reason = MISFIT, f"{named} do not fit the recording"
    start_s, end_s = begin.start_s or 0.0, end.end_s or 0.0
    return Region(kind, min(start_s, end_s), max(start_s, end_s), begin.char_start, end.char_end, reason)
