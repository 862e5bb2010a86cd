"""From transcripts to words: read a text, split it, and find the spoken form of each word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctc_align.extras import late_names

if TYPE_CHECKING:
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
__getattr__ = late_names(
    __name__,
    {
        "outer_punctuation_stripped": "word_forms",
        "require_words": "transcript",
        "split": "transcript",
        "with_cues": "captions",
        "words_of": "transcript",
    },
)
