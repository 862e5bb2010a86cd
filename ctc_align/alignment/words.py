"""From frames to seconds and from tokens to words: the words of an `Alignment`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from ctc_align import units
from ctc_align.alignment.confidence import Confidences
from ctc_align.alignment.ctc_path import Spans
from ctc_align.types import ALIGNED, UNKNOWN, UNSPOKEN, AlignedToken, AlignedWord, Emissions, Tokens, Words

if TYPE_CHECKING:
    import numpy as np


def duration_of(emissions: Emissions) -> float:
    """Return the length of the audio in seconds; where it is not known, the end of the last frame."""
    if emissions.duration_s is not None:
        return emissions.duration_s
    return _edge_s(float(len(emissions.log_probs)), emissions.frame_shift_s, emissions.first_frame_s)


def aligned_words(
    words: Words, tokens: Tokens, edges: Spans, confidence: Confidences, emissions: Emissions
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript, in order, with the times and confidences of its tokens."""
    # Tokens stand in the order of their words; those between words belong to none.
    owned = (
        (w, token) for w, token in zip(tokens.words, _timed_tokens(tokens, edges, confidence, emissions)) if w >= 0
    )
    by_word = groupby(owned, key=itemgetter(0))
    of_word = iter(confidence.words)
    next_word, next_tokens = next(by_word, (-1, iter(())))
    aligned = []
    for w, word in enumerate(words.words):
        written = (word.text, word.spoken, word.char_start, word.char_end)
        if w != next_word:
            status = UNKNOWN if word.said else UNSPOKEN
            aligned.append(AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker))
            continue
        parts = tuple([token for _, token in next_tokens])
        next_word, next_tokens = next(by_word, (-1, iter(())))
        first, last = parts[0], parts[-1]
        aligned.append(
            AlignedWord(
                *written,
                status=ALIGNED,
                start_s=first.start_s,
                end_s=last.end_s,
                confidence=next(of_word),
                tokens=parts,
                start_sd_ms=first.start_sd_ms,
                end_sd_ms=last.end_sd_ms,
                speaker=word.speaker,
            )
        )
    return tuple(aligned)


def _timed_tokens(
    tokens: Tokens, edges: Spans, confidence: Confidences, emissions: Emissions
) -> Iterator[AlignedToken]:
    shift_s, begin_s, duration_s = emissions.frame_shift_s, emissions.first_frame_s, duration_of(emissions)
    spreads: Iterator[tuple[float, float]] | Iterator[tuple[None, None]] = repeat((None, None))
    if edges.start_sd is not None and edges.end_sd is not None:
        ms = units.seconds_to_ms(shift_s)
        spreads = zip((edges.start_sd * ms).round(2).tolist(), (edges.end_sd * ms).round(2).tolist())
    for label, start, end, sure, sd in zip(
        tokens.labels, _one_by_one(edges.start), _one_by_one(edges.end), confidence.tokens, spreads
    ):
        start_s, end_s = _edge_s(start, shift_s, begin_s), _edge_s(end, shift_s, begin_s)
        yield AlignedToken(label, max(start_s, 0.0), min(end_s, duration_s), sure, *sd)


def _one_by_one(numbers: np.ndarray) -> Iterator[float]:
    """Yield the numbers of an array, of which few at a time are objects of Python."""
    return chain.from_iterable(numbers[low : low + 2**16].tolist() for low in range(0, len(numbers), 2**16))


@lru_cache(maxsize=2**16)
def _edge_s(frames: float, frame_shift_s: float, first_frame_s: float) -> float:
    """Return when frame `frames` begins, to 10 µs; cached, for rounding is slow and short utterances share edges."""
    if frames.is_integer():
        begin_s = units.frames_to_seconds(int(frames), frame_shift_s)
        return begin_s if not first_frame_s else round(begin_s + first_frame_s, 6)
    return round(frames * frame_shift_s + first_frame_s, 5)
