"""The contract of the words of a text."""

from __future__ import annotations

from ctc_align.types import Words


def assert_sound(words: Words, text: str) -> None:
    """The contract of `split`: in order, no overlap, own characters, nothing but space between the
    words."""
    assert words.text == text
    end = 0
    for word in words.words:
        assert word.char_start >= end
        assert word.char_end > word.char_start
        assert text[end : word.char_start].strip() == ""
        assert word.text == text[word.char_start : word.char_end]
        assert not any(map(str.isspace, word.text))
        end = word.char_end
    assert text[end:].strip() == ""
