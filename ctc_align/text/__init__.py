"""Transcript → Words: reading, splitting, and what is spoken.

read_transcript(path)             UTF-8 text of a file or of standard input
split(text, language="en")        Words: every written word once, in order, with its place and its spoken form
words_of(text, settings)          the same as the settings say, romanised where they ask for it
require_words(words, source)      an error unless something is spoken
outer_punctuation_stripped(word)  a word as CTM and TextGrid print it
"""

from __future__ import annotations

from ctc_align.text.printed_labels import outer_punctuation_stripped
from ctc_align.text.transcript import read_transcript, require_words, split, words_of

__all__ = ["outer_punctuation_stripped", "read_transcript", "require_words", "split", "words_of"]
