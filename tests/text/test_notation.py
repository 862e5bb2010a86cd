"""How words with the signs of transcribers are read, and the readings that the sound chooses
among."""

from __future__ import annotations

from rows import over_rows

from ctc_align.text import split


@over_rows(
    ("text", "spoken"),
    [
        ("pre:sent cra::fts, the(2) the@c", ["present", "crafts", "the", "the"]),
        ("°all° >so fast< in=the #creaky#", ["all", "so", "fast", "in", "the", "creaky"]),
        ("w[ere]- [laughter-yes] <LAUGH-you_know>", ["were", "yes", "you know"]),
        ("°°all°° ##so (xxx) ..(0.7) &um &c.", ["all", "so", "*", "", "um", "et cetera"]),
        ("<Q so Q> <@ all @> 0is [/] 5km", ["", "so", "", "", "all", "", "", "", "five kilometers"]),
        ("so %HESITATION (%um) yes", ["so", "", "um", "yes"]),
        ("&-uh <the man> [//] !AK!zent %hm", ["uh", "the", "man", "", "akzent", "hm"]),
        ("<unk>, <UNK> [oov] xxx (( ))", ["*", "*", "*", "*", "*", ""]),
        ("20 °C x=5 #tag E=mc² (yes) f(x)", ["twenty", "degrees celsius", "x equals five", "hashtag tag",
                                             "e equals m c squared", "yes", "f x"]),
    ],
)  # fmt: skip
def test_signs_are_read_as_their_manuals_say(text: str, spoken: list[str]) -> None:
    assert [word.spoken for word in split(text).words] == spoken


def test_a_colon_lengthens_where_a_word_or_the_text_shows_it() -> None:
    assert [word.text for word in split("said:Then ja:wohl").words] == [
        "said:",
        "Then",
        "ja:",
        "wohl",
    ]
    assert [word.spoken for word in split("°ja:wohl° (.) so:", language="de").words] == [
        "jawohl",
        "",
        "so",
    ]


@over_rows(
    ("language", "written", "readings"),
    [
        ("en", "3985", {"three nine eight five", "thirty nine eighty five"}),
        ("en", "8025", {"eight zero two five", "eight oh two five", "eighty twenty five"}),
        ("en", "A398,", {"a three nine eight", "a three ninety eight"}),
        ("en", "1998", {"one nine nine eight", "one thousand nine hundred ninety eight"}),
        ("de", "42", {"vier zwei"}),
        ("en", "re(p)resented", {"reresented"}),
        ("en", "w[ere]-", {"w-"}),
        ("en", "42nd", set()),
        ("en", "4kg", set()),
    ],
)
def test_other_readings(language: str, written: str, readings: set[str]) -> None:
    (word,) = split(written, language=language).words
    others = {other.spoken for other in word.others}
    assert readings <= others
    assert word.spoken not in others
    assert readings or not others


def test_a_word_in_angle_brackets_that_is_no_known_tag_may_be_spoken() -> None:
    words = split("we <went> on <em>now</em> <COMMA>")
    assert [word.spoken for word in words.words] == ["we", "went", "on", "", "now", "", ""]
    assert [(passage.first, passage.last) for passage in words.optional] == [(1, 2)]
