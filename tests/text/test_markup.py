"""What texts hold beside words: one table of kinds of texts, what is spoken of each, and what
became of the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import over_rows
from word_checks import assert_sound

from ctc_align.files.subtitles import parse_subtitles
from ctc_align.text import split, with_cues
from ctc_align.types import SPEAKER, Words

KINDS = (Path(__file__).parent / "markup.txt").read_text("utf-8")


def kinds(table: str) -> list[tuple[str, str, str]]:
    """Return (name, text, its words in order) of the kinds of texts in a table, which escapes line
    ends in texts.

    `word@SPEAKER` is spoken, `kind<word>` is not, `-<word>` is a mark alone; the passages
    `?kind<words>` may be spoken.
    """
    found: list[tuple[str, str, str]] = []
    for line in table.strip().splitlines():
        sign, _, rest = line.partition(" ")
        name, text, words = found[-1] if found else ("", "", "")
        if sign == "#":
            found.append((rest, "", ""))
        elif sign == ">":
            characters = re.sub(
                r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), rest
            )
            found[-1] = (name, text + characters, words)
        else:
            found[-1] = (name, text, f"{words} {rest}".strip())
    return found


def shown(words: Words) -> str:
    """Return words in the notation of `kinds`."""
    parts = []
    for word in words.words:
        speaker = f"@{word.speaker.replace(' ', '_')}" if word.speaker else ""
        assert not (word.kind and word.spoken)
        parts.append(word.text + speaker if word.spoken else f"{word.kind or '-'}<{word.text}>")
    for passage in words.optional:
        inside = " ".join(word.text for word in words.words[passage.first : passage.last])
        parts.append(f"?{passage.kind}<{inside}>")
    return " ".join(parts)


@over_rows(("kind", "text", "expected"), kinds(KINDS))
def test_what_is_spoken(kind: str, text: str, expected: str) -> None:
    words = split(text)
    assert shown(words) == expected
    assert_sound(words, text)


def test_spoken_forms_are_read_without_markup() -> None:
    text = "<b>Elm</b> Dr. un<b>believ</b>able AT&amp;T don&#39;t Tom &amp; 5 [laughs] pm"
    spoken = [word.spoken for word in split(text).words if not word.kind]
    assert spoken == [
        "elm",
        "drive",
        "unbelievable",
        "a t and t",
        "don't",
        "tom",
        "and",
        "five",
        "p m",
    ]


PIECES = """JOHN: Mary: Q: A: Dr. [ ] ( ) ♪ <i> </i> &amp; &quot; &nbsp; {\\an8} * ** # - >> [x](y) | --- 0:12 [00:01]
laughs
word Two. th-, a—b ： 笑 <script> </script> <!-- --> < > 5 \ufeff"""


@settings(max_examples=200)
@given(
    st.lists(
        st.sampled_from([*PIECES.split(), "<v Ann>", *[" ", "\n", "\r\n", "\n\n"] * 3]), max_size=25
    ).map("".join),
    st.sampled_from([None, True, False]),
)
def test_every_character_is_in_exactly_one_word_of_a_kind(
    text: str, by_character: bool | None
) -> None:
    words = split(text, by_character=by_character)
    assert_sound(words, text)
    assert not any(word.kind and word.spoken for word in words.words)
    assert not any(word.speaker for word in words.words if word.kind == SPEAKER)
    free = 0
    for passage in words.optional:
        assert free <= passage.first < passage.last <= len(words.words)
        free = passage.last


# Who speaks in subtitles: a label names its cue, and only where every turn has one those that
# follow.


def speakers(*cues: str) -> list[str]:
    """The speaker of the first spoken word of each cue, "-" for nobody."""
    source = "\n\n".join(
        f"{n}\n00:00:{n:02d},000 --> 00:00:{n:02d},900\n{cue}" for n, cue in enumerate(cues, 1)
    )
    transcript = parse_subtitles(source, "a.srt")
    words = with_cues(split(transcript.text), transcript.subtitles)
    said = [word for word in words.words if word.spoken]
    firsts = [
        next(word for word in said if cue.char_start <= word.char_start < cue.char_end)
        for cue in words.subtitles.cues
    ]
    return [word.speaker or "-" for word in firsts]


@pytest.mark.parametrize(
    ("cues", "named"),
    [
        (("I heard that.", "ANNA: Hello.", "Who is there?", "It is cold."), "- ANNA - -"),
        (("Well.", "ANNA: I came", "home at last,", "you know.", "Did you?"), "- ANNA ANNA ANNA -"),
        (("Well.", "ANNA: I wait...", "...and wait.", "So."), "- ANNA ANNA -"),
        (("Well.", "ANNA: I came", "- Hello!", "So."), "- ANNA - -"),
        (
            ("ANNA: Why?", "I ask.", "BEN: Because.", "It is so.", "ANNA: Oh."),
            "ANNA ANNA BEN BEN ANNA",
        ),
        (("ANNA: Why?", "I ask.", "ANNA: And who?", "Me."), "ANNA - ANNA -"),
        (("So.", ">> ANNA: Why?", "I ask.", ">> Me.", "Yes."), "- ANNA ANNA - -"),
        (("ANNA: Why?", *["So."] * 41, "BEN: Oh."), "ANNA" + " -" * 41 + " BEN"),
        (("Well.", "ANNA: Is he here।", "He is", "not."), "- ANNA - -"),
        (("Well.", "ANNA: so", *["it goes on and on"] * 10), "- ANNA" + " ANNA" * 8 + " - -"),
    ],
)
def test_how_long_a_label_holds(cues: tuple[str, ...], named: str) -> None:
    assert speakers(*cues) == named.split()
