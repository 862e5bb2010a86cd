"""Transcripts to words: reading a text, splitting it, and the spoken form of each word."""

from __future__ import annotations

from ctc_align.text.cue_speakers import with_cues
from ctc_align.text.printed_labels import outer_punctuation_stripped
from ctc_align.text.transcript import require_words, split, words_of

__all__ = [
    "outer_punctuation_stripped",
    "require_words",
    "split",
    "with_cues",
    "words_of",
]
