"""Tables of what is written and what is spoken for it: one case a line, "|" between words."""

from __future__ import annotations

from ctc_align.types import Words


def rows(table: str) -> list[tuple[str, list[str]]]:
    lines = [line for line in table.strip().splitlines() if line and not line.startswith("# ")]
    pairs = [line.split("|", 1) for line in lines]
    return [
        (written.strip().encode("utf-8").decode("unicode_escape") if "\\u" in written else written.strip(), said)
        for written, rest in pairs
        for said in [[word.strip() for word in rest.split("|")]]
    ]


def assert_sound(words: Words, text: str) -> None:
    """The contract of `split`: in order, no overlap, own characters, nothing but space between the words."""
    assert words.text == text
    place = 0
    for word in words.words:
        assert word.char_start >= place
        assert word.char_end > word.char_start
        assert text[place : word.char_start].strip() == ""
        assert word.text == text[word.char_start : word.char_end]
        assert not any(map(str.isspace, word.text))
        place = word.char_end
    assert text[place:].strip() == ""
