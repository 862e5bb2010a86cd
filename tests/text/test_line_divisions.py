"""Words divided at the ends of lines, and digits in groups, are one word; compounds are what they
are."""

from __future__ import annotations

import pytest
from sample_alignments import aligned

from ctc_align.config import Settings
from ctc_align.files import Style
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
def test_a_divided_word_is_one_word_with_both_its_parts(
    language: str, written: str, spoken: str
) -> None:
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
    words = split(
        "Zweib-\nlatt, the zweiblatt of a zwei-\nbein and the zwei-bein.", language="en"
    ).words
    assert [word.spoken for word in words if "\n" in word.text or word.text.endswith("-")] == [
        "zweiblatt",
        "zwei",
    ]


def test_cues_never_share_a_word() -> None:
    cues = (
        "00:01,000 --> 00:02,000\nnot impor-",
        "00:02,000 --> 00:03,000\ntant or compar-\natively",
    )
    transcript = parse_subtitles("\n\n".join(cues), "a.srt")
    words = words_of(transcript.text, Settings(), transcript.subtitles).words
    assert [word.text for word in words] == ["not", "impor-", "tant", "or", "compar-\natively"]


@pytest.mark.parametrize(
    ("language", "written", "spoken"),
    [
        ("en", "12\u202f345", "twelve thousand three hundred forty five"),
        (
            "en",
            "1\u00a0234\u00a0567.",
            "one million two hundred thirty four thousand five hundred sixty seven",
        ),
        ("en", "€10 000", "ten thousand euros"),
        ("de", "1\u2009984", "eintausendneunhundertvierundachtzig"),
        ("fr", "1 984", "mille neuf cent quatre vingt quatre"),
        ("fr", "12 000,5", "douze mille virgule cinq"),
        ("ru", "1 500 000", "один миллион пятьсот тысяч"),
        ("pl", "(2 500)", "dwa tysiące pięćset"),
        ("cs", "2 000", "dva tisíce"),
        ("sv", "2 500", "tvåtusen femhundra"),
    ],
)
def test_groups_of_digits_are_one_number(language: str, written: str, spoken: str) -> None:
    words = split(f"a {written} b", language=language).words
    assert [(word.text, word.spoken) for word in words[1:-1]] == [(written, spoken)]


@pytest.mark.parametrize(
    ("language", "written"),
    [
        ("en", "100 200"),
        ("en", "555 1234"),
        ("en", "12\u202f3456"),
        ("fr", "01 23 45 67 89"),
        ("fr", "2024 300"),
        ("pl", "tel. 123 456 789"),
        ("sv", "08-123 456 78"),
    ],
)
def test_other_digits_stay_apart(language: str, written: str) -> None:
    assert [word.text for word in split(written, language=language).words] == written.split()


def test_old_money_is_read_in_pounds_shillings_and_pence() -> None:
    words = split("It was £3 10s. 6d. (15s. 8d.), 2l. 1s. or 1s. 1d. in the 20s. and 5s.").words
    read = " ".join(word.spoken for word in words)
    assert (
        read == "it was three pounds ten shillings six pence fifteen shillings eight pence "
        "two pounds one shilling or one shilling one penny in the twenties and fives"
    )


def test_labels_have_no_spaces() -> None:
    words = [
        aligned(word.text, 0.0, 1.0) for word in split("12\u202f345 compar-\natively 10 000").words
    ]
    for labels in ("bare", "written"):
        assert [Style(labels=labels).label(word) for word in words] == [
            "12345",
            "comparatively",
            "10000",
        ]
