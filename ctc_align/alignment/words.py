"""From frames to seconds and from tokens to words: the words of an `Alignment`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ctc_align import units
from ctc_align.alignment.confidence import Confidences
from ctc_align.alignment.ctc_path import Spans
from ctc_align.types import ALIGNED, UNKNOWN, UNSPOKEN, AlignedToken, AlignedWord, Emissions, Tokens, Words


def duration_of(emissions: Emissions) -> float:
    """Return the length of the audio in seconds; where it is not known, the end of the last frame."""
    if emissions.duration_s is not None:
        return emissions.duration_s
    return _edge_s(float(len(emissions.log_probs)), emissions.frame_shift_s, emissions.first_frame_s)


def aligned_words(
    words: Words, tokens: Tokens, edges: Spans, confidence: Confidences, emissions: Emissions
) -> tuple[AlignedWord, ...]:
    """Return every word of the transcript, in order, with the times and confidences of its tokens."""
    places: dict[int, list[int]] = {}
    for k, w in enumerate(tokens.words):
        if w >= 0:
            places.setdefault(w, []).append(k)
    timed = _timed_tokens(tokens, edges, confidence.tokens, emissions)
    of_word = dict(zip(places, confidence.words))
    aligned = []
    for w, word in enumerate(words.words):
        written = (word.text, word.spoken, word.char_start, word.char_end)
        if w not in places:
            status = UNKNOWN if word.said else UNSPOKEN
            aligned.append(AlignedWord(*written, status=status, kind=word.kind, speaker=word.speaker))
            continue
        parts = tuple(timed[k] for k in places[w])
        first, last = parts[0], parts[-1]
        aligned.append(
            AlignedWord(
                *written,
                status=ALIGNED,
                start_s=first.start_s,
                end_s=last.end_s,
                confidence=of_word[w],
                tokens=parts,
                start_sd_ms=first.start_sd_ms,
                end_sd_ms=last.end_sd_ms,
                speaker=word.speaker,
            )
        )
    return tuple(aligned)


def _timed_tokens(
    tokens: Tokens, edges: Spans, confidence: Sequence[float], emissions: Emissions
) -> list[AlignedToken]:
    shift_s, begin_s, duration_s = emissions.frame_shift_s, emissions.first_frame_s, duration_of(emissions)
    spreads: list[tuple[float, float]] | list[tuple[None, None]] = [(None, None)] * len(tokens.labels)
    if edges.start_sd is not None and edges.end_sd is not None:
        ms = units.seconds_to_ms(shift_s)
        spreads = list(zip((edges.start_sd * ms).round(2).tolist(), (edges.end_sd * ms).round(2).tolist()))
    return [
        AlignedToken(
            label,
            max(_edge_s(start, shift_s, begin_s), 0.0),
            min(_edge_s(end, shift_s, begin_s), duration_s),
            sure,
            *sd,
        )
        for label, start, end, sure, sd in zip(
            tokens.labels, edges.start.tolist(), edges.end.tolist(), confidence, spreads
        )
    ]


@lru_cache(maxsize=2**16)
def _edge_s(frames: float, frame_shift_s: float, first_frame_s: float) -> float:
    """Return when frame `frames` begins, to 10 µs; cached, for rounding is slow and short utterances share edges."""
    if frames.is_integer():
        begin_s = units.frames_to_seconds(int(frames), frame_shift_s)
        return begin_s if not first_frame_s else round(begin_s + first_frame_s, 6)
    return round(frames * frame_shift_s + first_frame_s, 5)
