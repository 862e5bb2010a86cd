"""Frames to seconds, tokens to words: what stands in an `Alignment`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ctc_align import units
from ctc_align.boundaries import Spans
from ctc_align.confidence import word_confidences
from ctc_align.types import ALIGNED, UNKNOWN, UNSPOKEN, AlignedToken, AlignedWord, Emissions, Tokens, Words


def duration_of(emissions: Emissions) -> float:
    """Length of the audio in seconds; where nobody knows it, the end of the last frame."""
    if emissions.duration_s is not None:
        return emissions.duration_s
    return _edge_s(len(emissions.log_probs), emissions.frame_shift_s, emissions.first_frame_s)


def aligned_words(
    words: Words,
    tokens: Tokens,
    spans: Spans,
    confidence: np.ndarray,
    emissions: Emissions,
) -> tuple[AlignedWord, ...]:
    """Every word of the transcript, in order, with the times and confidences (L,) of its tokens."""
    mine: dict[int, list[int]] = {}
    for k, w in enumerate(tokens.words):
        if w >= 0:
            mine.setdefault(w, []).append(k)
    own = [0, *np.cumsum([len(places) for places in mine.values()]).tolist()]
    sounding = [k for places in mine.values() for k in places]
    sure = dict(zip(mine, word_confidences(confidence[sounding], own)))
    said = _tokens(tokens, spans, confidence, emissions)
    told = []
    for w, word in enumerate(words.words):
        place = (word.text, word.spoken, word.char_start, word.char_end)
        if w in mine:
            parts = tuple(said[k] for k in mine[w])
            told.append(AlignedWord(*place, ALIGNED, parts[0].start_s, parts[-1].end_s, sure[w], parts))
        else:
            told.append(AlignedWord(*place, status=UNKNOWN if word.spoken else UNSPOKEN))
    return tuple(told)


def _tokens(tokens: Tokens, spans: Spans, confidence: np.ndarray, emissions: Emissions) -> list[AlignedToken]:
    shift_s, begin_s, duration_s = emissions.frame_shift_s, emissions.first_frame_s, duration_of(emissions)
    return [
        AlignedToken(
            label, max(_edge_s(first, shift_s, begin_s), 0.0), min(_edge_s(last, shift_s, begin_s), duration_s), sure
        )
        for label, first, last, sure in zip(
            tokens.labels, spans.first.tolist(), spans.last.tolist(), confidence.tolist()
        )
    ]


@lru_cache(maxsize=2**16)
def _edge_s(frames: int, frame_shift_s: float, first_frame_s: float) -> float:
    """Where frame `frames` begins; rounding is slow, and short utterances share their edges."""
    begin_s = units.frames_to_seconds(frames, frame_shift_s)
    return begin_s if not first_frame_s else round(begin_s + first_frame_s, 6)
