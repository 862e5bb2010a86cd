"""Alignments of documents and subtitle files that are transcripts, with round times."""

from __future__ import annotations

from collections.abc import Mapping

from sample_alignments import make_alignment

from ctc_align.config import Settings
from ctc_align.files.transcripts import parse_transcript
from ctc_align.text import outer_punctuation_stripped, with_cues, words_of
from ctc_align.types import ALIGNED, UNSPOKEN, AlignedToken, AlignedWord, Alignment


def spoken(data: bytes, duration_s: float = 5.0, name: str = "talk.TextGrid") -> Alignment:
    """Return an alignment of a document whose words last 0.2 s each, with a phone for each half."""
    transcript = parse_transcript(data, name)
    words, at_s = [], 0.1
    for word in with_cues(
        words_of(transcript.text, Settings(), transcript.subtitles), transcript.subtitles
    ).words:
        place = (word.text, word.spoken, word.char_start, word.char_end)
        if not word.spoken:
            words.append(AlignedWord(*place, UNSPOKEN, kind=word.kind))
            continue
        edges = (at_s, at_s + 0.1, at_s + 0.2)
        tokens = (AlignedToken("X", *edges[:2], 0.9), AlignedToken("Y", *edges[1:], 0.9))
        words.append(
            AlignedWord(*place, ALIGNED, at_s, at_s + 0.2, 0.9, tokens, speaker=word.speaker)
        )
        at_s += 0.3
    return make_alignment(
        tuple(words),
        duration_s,
        text=transcript.text,
        subtitles=transcript.subtitles,
        token_kind="phones",
    )


def timed(
    content: str,
    times: Mapping[str, float | tuple[float, float]],
    duration_s: float = 20.0,
    **fields: object,
) -> Alignment:
    """Return an alignment of a text or file of cues whose words have the `times` of their letters.

    A time is a start, of a word of 0.3 s, or a start and an end; the other words have none.
    """
    transcript = parse_transcript(content.encode(), "film")
    words = []
    for word in with_cues(
        words_of(transcript.text, Settings(), transcript.subtitles), transcript.subtitles
    ).words:
        found = times.get(word.text, times.get(outer_punctuation_stripped(word.text)))
        span = (found, found + 0.3) if isinstance(found, (int, float)) else found
        state = (ALIGNED, *span, 0.9) if span else (UNSPOKEN,)
        place = (word.text, word.spoken, word.char_start, word.char_end)
        words.append(AlignedWord(*place, *state, kind=word.kind, speaker=word.speaker))
    return make_alignment(
        tuple(words), duration_s, text=transcript.text, subtitles=transcript.subtitles, **fields
    )
