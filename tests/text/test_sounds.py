"""Phones of words by their spelling, in all scripts: words that people know, and properties of
every text."""

from __future__ import annotations

import importlib
import re
import unicodedata
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import first_row_of

from ctc_align.text.phone_sets import IPA_PHONES, syllable_starts
from ctc_align.text.sounds import pronounced
from ctc_align.text.sounds.pieces import SCRIPTS, pieces
from ctc_align.text.sounds.spelling_rules import spelling_rules, split_phones, table
from ctc_align.text.transcript import split
from ctc_align.types import Word, Words


def by_language(file: str) -> dict[str, str]:
    """Return the lines of a file beside this one by their first word, a language."""
    lines = (Path(__file__).parent / file).read_text("utf-8").splitlines()
    return {
        language: rest
        for language, _, rest in (line.partition(" ") for line in lines)
        if language != "#"
    }


SAID, LETTERS, TEXTS = (
    by_language("words_said.txt"),
    by_language("letters.txt"),
    by_language("romanised_texts.txt"),
)
SYLLABLES = by_language("syllables.txt")
ASCII = "abcdefghijklmnopqrstuvwxyz"


def phones_of(word: str, language: str) -> tuple[str, ...]:
    return tuple(phone for piece in pieces(word, language) for phone in piece.phones)


def said(text: str, language: str) -> list[str | None]:
    return [word.phones for word in pronounced(split(text, language=language), language).words]


@pytest.mark.parametrize("language", SYLLABLES)
def test_a_syllable_begins_with_what_begins_words(language: str) -> None:
    for word in SYLLABLES[language].split("|"):
        parts = [part.split() for part in word.split(" . ")]
        labels = [label for part in parts for label in part]
        starts = [sum(map(len, parts[:index])) for index in range(len(parts))]
        assert syllable_starts(labels, language) == starts, word


@pytest.mark.parametrize("language", SAID)
def test_words_are_said_as_people_say_them(language: str) -> None:
    rules = [rule.split("=") for rule in unicodedata.normalize("NFC", SAID[language]).split()]
    wrong = {
        word: got
        for word, right in rules
        if (got := phones_of(word, language)) not in map(split_phones, right.split("|"))
    }
    assert wrong == {}


@pytest.mark.parametrize("language", LETTERS)
def test_all_letters_of_a_language_have_rules(language: str) -> None:
    letters = (
        LETTERS[language]
        if "а" in LETTERS[language] or language == "el"
        else ASCII + LETTERS[language]
    )
    phones = {
        letter: [p for piece in pieces(letter, language) for p in piece.phones]
        for letter in letters
    }
    assert {letter: own for letter, own in phones.items() if not set(own) <= set(IPA_PHONES)} == {}


@example("か\U0001aff0", "ja")  # a tone of Taiwanese, by its name a letter of katakana
@example("'ー", "ja")  # a length mark after something silent
@example("fobлωa中", "ru")  # letters that look like others, beside their own and in three scripts
@example("aω", "el")
@given(
    st.text(
        st.characters(categories=["L", "M"]) | st.sampled_from("'aяωăě̃ใあ中한கक1"), max_size=12
    ),
    st.sampled_from(["", "und", "de", "fr", "ru", "cv", "ja", "vi", "el", "th"]),
)
def test_pieces_cover_any_text_without_gaps(text: str, language: str) -> None:
    found = pieces(text, language)
    ends = [0, *(piece.end for piece in found)]
    assert [piece.start for piece in found] == ends[:-1]
    assert ends[-1] == len(text)
    assert all(piece.start < piece.end for piece in found)


def test_runs_english_words_and_what_nobody_can_say() -> None:
    words = Words("schön", (Word("s", "s", 0, 1), Word("chön", "chön", 1, 5)))
    assert [word.phones for word in pronounced(words, "de").words] == ["", "ʃ ø n"]
    assert said("The cat's", "en") == ["ð ə | ð i", "k æ t s"]
    assert said("слово computer", "ru") == ["s l o v o", "k ə m p j u t ə ɹ"]
    # languages whose numbers nobody spells out
    assert [piece.phones for piece in pieces("b1", "kab")] == [("b",), ("1",)]
    assert said("b12 – 7!", "sah") == ["b i 1 2", "", "7"]
    for chinese in ("yue", "zh-HK", "zh-Hant-HK", "zh_MO"):
        assert said("學", chinese) == ["h ɔ k"], "Cantonese in Hong Kong"


@pytest.mark.parametrize(
    ("language", "text", "phones"),
    [
        ("de", "B-Säule", "b e z ɔ ɪ l ə | b z ɔ ɪ l ə"),
        ("de", "Die USA und die NATO", "d i;u ɛ s a | u z a;ʊ n t;d i;ɛ n a t e o | n a t o"),
        ("de", "DAS WAR IN WIEN", "d a s;v a ʁ;ɪ n;v i n"),
        ("fr", "l'ONU", "l o ɛ n y | l o n y"),
        ("es", "O", "o"),
        ("ru", "в США", "v;e s ʃ a a | s ʃ a"),
    ],
)
def test_initials_are_spelled_out_or_said_as_words(language: str, text: str, phones: str) -> None:
    words = pronounced(split(text, language=language), language).words
    assert ";".join(str(word.phones) for word in words) == phones


def test_every_section_has_valid_rules_and_scripts_name_functions_that_are_there() -> None:
    for file in ("latin", "cyrillic", "small-alphabets"):
        for name in table(file):
            spelling_rules(file, name)  # asserts that it knows all phones
    for module, function in SCRIPTS.values():
        assert callable(
            getattr(importlib.import_module(f"ctc_align.text.sounds.{module}"), function)
        )


BLOCKS = {
    "hi": "\u0900-\u097f", "as": "\u0980-\u09ff", "pa": "\u0a00-\u0a7f", "gu": "\u0a80-\u0aff", "or": "\u0b00-\u0b7f",
    "ta": "\u0b80-\u0bff", "te": "\u0c00-\u0c7f", "kn": "\u0c80-\u0cff", "ml": "\u0d00-\u0d7f", "si": "\u0d80-\u0dff",
    "th": "\u0e01-\u0e4e", "lo": "\u0e81-\u0ecd", "my": "\u1000-\u104f", "km": "\u1780-\u17d3",
    "dv": "\u0780-\u07b1", "am": "\u1200-\u135a",
    "zh": "\u4e00-\u9fff", "yue": "\u4e00-\u9fff", "ja": "\u3041-\u9fff", "ko": "\u1100-\ud7a3",
    "ar": "\u0600-\u06ff", "fa": "\u0600-\u06ff", "ug": "\u0600-\u06ff", "ckb": "\u0620-\u06d3", "he": "\u05b0-\u05f4",
}  # fmt: skip


@pytest.mark.parametrize("language", BLOCKS)
def test_pieces_cover_any_text_of_a_script(language: str) -> None:
    low, high = map(ord, BLOCKS[language].split("-"))
    letters = [
        chr(code) for code in range(low, high + 1) if unicodedata.category(chr(code))[0] in "LM"
    ]

    @settings(max_examples=150, database=None, derandomize=True)
    @given(st.text(letters, min_size=1, max_size=9))
    def check(text: str) -> None:
        found = pieces(text, language)
        assert [piece.start for piece in found] == [0, *(piece.end for piece in found[:-1])]
        assert found[-1].end == len(text)
        ways = [way for piece in found for way in (piece.phones, *piece.others)]
        assert {phone for way in ways for phone in way} <= {
            *IPA_PHONES,
            *text,
            *unicodedata.normalize("NFD", text),
        }

    check()


_FLOORS = {
    "ru": 0.95, "uk": 0.95, "bg": 0.9, "mn": 0.88, "el": 0.9, "ka": 0.9, "hy": 0.94, "am": 0.8, "ar": 0.8, "fa": 0.8,
    "he": 0.75, "th": 0.75, "lo": 0.7, "ko": 0.75, "dv": 0.8,
}  # fmt: skip
_CLASSES = {
    "s": "tʃ dʒ ts dz s z ʃ ʒ θ", "t": "t d ʈ ɖ ð",
    "k": "k ɡ q x ɣ", "p": "p b", "r": "r ɹ ʁ", "n": "n ɲ ŋ", "v": "v w",
}  # fmt: skip
_OWN = {phone: letter for letter, phones in _CLASSES.items() for phone in phones.split()} | dict(
    zip("lmf", "lmf")
)
_ROMAN = str.maketrans("cjxzdbgqw", "sssstpkkv", "yh")


@pytest.fixture(scope="module")
def uroman() -> Any:
    from uroman import Uroman

    return Uroman()


@pytest.mark.skipif(
    find_spec("uroman") is None, reason="uroman, the extra [romanize], is not installed"
)
@pytest.mark.parametrize("language", first_row_of(TEXTS))
def test_consonants_are_those_of_a_romanisation(language: str, uroman: Any) -> None:
    text = TEXTS[language]
    roman = re.sub("sh|ch|zh|kh", "s", uroman.romanize_string(text).lower())
    theirs = re.sub("[^a-z]|[aeiou]", "", roman).translate(_ROMAN)
    phones = [
        phone for word in text.split() for piece in pieces(word, language) for phone in piece.phones
    ]
    own = "".join(_OWN.get(phone, "") for phone in phones)
    own, theirs = (re.sub(r"(.)\1+", r"\1", consonants) for consonants in (own, theirs))
    assert SequenceMatcher(None, own, theirs, autojunk=False).ratio() >= _FLOORS.get(
        language, 0.85
    ), (own, theirs)
