"""Alignments of documents of tiers that are transcripts, with round times."""

from __future__ import annotations

from sample_alignments import make_alignment

from ctc_align.files import Alignment
from ctc_align.files.transcripts import parse_transcript
from ctc_align.text import split, with_cues
from ctc_align.types import ALIGNED, UNSPOKEN, AlignedToken, AlignedWord


def spoken(data: bytes, duration_s: float = 5.0, name: str = "talk.TextGrid") -> Alignment:
    """Return an alignment of a document whose words last 0.2 s each, with a phone for each half."""
    transcript = parse_transcript(data, name)
    words, at_s = [], 0.1
    for word in with_cues(split(transcript.text), transcript.subtitles).words:
        place = (word.text, word.spoken, word.char_start, word.char_end)
        if not word.spoken:
            words.append(AlignedWord(*place, UNSPOKEN, kind=word.kind))
            continue
        edges = (at_s, at_s + 0.1, at_s + 0.2)
        tokens = (AlignedToken("X", *edges[:2], 0.9), AlignedToken("Y", *edges[1:], 0.9))
        words.append(AlignedWord(*place, ALIGNED, at_s, at_s + 0.2, 0.9, tokens, speaker=word.speaker))
        at_s += 0.3
    return make_alignment(
        tuple(words), duration_s, text=transcript.text, subtitles=transcript.subtitles, token_kind="phones"
    )
