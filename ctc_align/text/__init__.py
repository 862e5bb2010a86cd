"""From transcripts to words: read a text, split it, and find the spoken form of each word."""

from __future__ import annotations

from ctc_align.text.captions import with_cues
from ctc_align.text.transcript import require_words, split, words_of
from ctc_align.text.word_forms import outer_punctuation_stripped

__all__ = [
    "outer_punctuation_stripped",
    "require_words",
    "split",
    "with_cues",
    "words_of",
]
