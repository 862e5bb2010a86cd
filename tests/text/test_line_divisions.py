"""Words that are divided at the ends of lines are one word; compounds are what they are."""

from __future__ import annotations

import pytest

from ctc_align.config import Settings
from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text import split
from ctc_align.text.transcript import words_of


@pytest.mark.parametrize(
    ("language", "written", "spoken"),
    [
        ("en", "compar-\natively", "comparatively"),
        ("en", "(impor-  \r\n   tant),", "important"),
        ("en", "COMPAR-\nATIVELY", "comparatively"),
        ("en", "Guten-\nberg's", "gutenberg's"),
        ("en", "typo-\ngraphically", "typographically"),
        ("en", "soft\u00ad\nware", "software"),
        ("en", "impor-\n\ntant", "important"),
        ("en", "qwer-\ntyish", "qwertyish"),
        ("de", "Wahr-\nscheinlichkeit", "wahrscheinlichkeit"),
        ("fr", "impor-\ntant", "important"),
    ],
)
def test_a_divided_word_is_one_word_with_both_its_parts(language: str, written: str, spoken: str) -> None:
    words = split(f"So it {written} is.", language=language).words
    assert [(word.text, word.spoken) for word in words][2] == (written, spoken)
    assert len(words) == 4


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("en", "well-\nknown"),
        ("en", "twenty-\ntwo"),
        ("en", "mother-in-\nlaw"),
        ("en", "no-\none"),
        ("en", "T-\nshirt"),
        ("en", "North-\nWest"),
        ("en", "th-\nthe"),
        ("en", "go-\ngoing"),
        ("en", "1990-\n1995"),
        ("en", "over-\nall over-all"),
        ("de", "Haupt-\nund"),
        ("de", "Nord-\nSüd"),
        ("fr", "dit-\nil"),
    ],
)
def test_a_compound_or_a_stammer_stays_two_words(language: str, written: str) -> None:
    assert [word.text for word in split(written, language=language).words] == written.split()


def test_the_text_itself_is_asked_first() -> None:
    words = split("Zweib-\nlatt, the zweiblatt of a zwei-\nbein and the zwei-bein.", language="en").words
    assert [word.spoken for word in words if "\n" in word.text or word.text.endswith("-")] == ["zweiblatt", "zwei"]


def test_cues_never_share_a_word() -> None:
    cues = "00:01,000 --> 00:02,000\nnot impor-", "00:02,000 --> 00:03,000\ntant or compar-\natively"
    transcript = parse_subtitles("\n\n".join(cues), "a.srt")
    words = words_of(transcript.text, Settings(), transcript.subtitles).words
    assert [word.text for word in words] == ["not", "impor-", "tant", "or", "compar-\natively"]
