"""Phones of words in alphabets, by their spelling: Latin, Cyrillic, Greek, Georgian and Armenian letters.

English words get their pronunciations from the package's letter-to-phone network. Letters of scripts without rules are
read by their Unicode names: "VAI SYLLABLE MI" and "BALINESE LETTER KA" are mi and ka. In scripts whose consonants have
an inherent a, a vowel sign replaces the a, and a mute sign removes it. In other alphabets, the name of a letter begins
with its sound ("COPTIC LETTER ALFA"), as in all scripts with small letters.

Initials (USA, ÖBB, the B of B-Säule, l'ONU) are spelled out or read as a word (NATO). The letters do not show which, so
both are pronunciations, and the audio decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from ctc_align.text.characters import word_set
from ctc_align.text.letter_to_phone import letter_to_phone
from ctc_align.text.phone_sets import IPA_OF_ARPABET, IPA_VOWELS
from ctc_align.text.sounds.pieces import Piece, pieces
from ctc_align.text.sounds.spelling_rules import spelling_rules
from ctc_align.text.tables import text_table

_NOT_LATIN = word_set(
    """en ru uk be bg mk el ka hy ar fa ur ps ckb ug he yi hi bn as pa gu or ta te kn ml si mr ne sa th lo my km bo dz
    zh yue ja ko am ti dv ab cv sah ky tg mn ba os"""
)
"""English, and languages written in other letters, in which a word in Latin letters is an English one."""
_MOST_PRONUNCIATIONS = 2
"""The most pronunciations of an English word that is in no dictionary."""


def is_read_as_english(language: str) -> bool:
    """Return whether a word in Latin letters is an English one in a text of this language."""
    return language in _NOT_LATIN


def latin_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Latin letters."""
    if is_read_as_english(language):
        return _english_pieces(text)
    return spelling_rules("latin", language).pieces(text)


def cyrillic_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Cyrillic letters."""
    return spelling_rules("cyrillic", language).pieces(text)


def greek_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Greek letters, ancient ones read as modern."""
    return spelling_rules("small-alphabets", "el").pieces(text)


def georgian_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Georgian letters."""
    return spelling_rules("small-alphabets", "ka").pieces(text)


def armenian_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Armenian letters, Eastern ones unless the language is Western Armenian."""
    return spelling_rules("small-alphabets", "hyw" if language == "hyw" else "hy").pieces(text)


def prepare_english(words: Sequence[str]) -> None:
    """Run letter-to-phone once on all English words of a text; without any it is not even loaded."""
    if words:
        letter_to_phone().pronounce(words, _MOST_PRONUNCIATIONS)


def _english_pieces(word: str) -> list[Piece]:
    """Return one piece for a word, with all its pronunciations; a piece for each letter where it has none."""
    found = letter_to_phone().pronounce([word], _MOST_PRONUNCIATIONS)[0]
    variants = tuple(
        dict.fromkeys(tuple(phone for one in variant for phone in IPA_OF_ARPABET[one]) for variant in found)
    )
    if not variants:
        return [Piece(index, index + 1, (letter,) if letter.isalnum() else ()) for index, letter in enumerate(word)]
    return [Piece(0, len(word), variants[0], variants[1:])]


_KINDS = "LETTER|SYLLABLE|SYLLABICS|VOWEL SIGN|VOWEL|SIGN|LIGATURE|IDEOGRAM|HIEROGLYPH"
_LETTER_NAME = re.compile(rf"\b(?:{_KINDS}) (?:(?:SMALL|CAPITAL|FINAL|INDEPENDENT|ARCHAIC|OLD) )*(?P<name>[A-Z]+)")
_MUTE = re.compile(r"VIRAMA|KILLER|HALANTA|PULLI|ASAT|COENG|PAMAAEH|PANGKON|PATEN")
_SYLLABLE = re.compile(r"[^aeiou]*[aeiou]+")
_ONSET = re.compile(r"[^aeiou]+|[aeiou]")
_CARRIED = "a"
_SIGNS = {
    **dict.fromkeys(("ulu", "wulu", "panghulu"), "i"), **dict.fromkeys(("suku", "panyuku"), "u"),
    **dict.fromkeys(("taling", "panaelaeng"), "e"), **dict.fromkeys(("tedung", "tarung", "panolong"), "o"),
    **dict.fromkeys(("pepet", "pamepet"), "ə"), "paneuleung": "ɨ",
}  # fmt: skip
"""Vowel signs of Indonesia, whose names do not say their sound."""


def named_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each character of a script without rules; one whose name says nothing is its own phone."""
    found: list[Piece] = []
    for index, character in enumerate(text):
        phones = _named_phones(character)
        is_mute = bool(_MUTE.search(unicodedata.name(character, "")))
        is_vowel = " VOWEL SIGN " in unicodedata.name(character, "")
        if found and (is_mute or is_vowel) and found[-1].phones[-1:] == (_CARRIED,):
            found[-1] = Piece(index - 1, index, found[-1].phones[:-1])
        found.append(Piece(index, index + 1, () if is_mute else phones))
    return found


@lru_cache(maxsize=4096)
def _named_phones(character: str) -> tuple[str, ...]:
    category = unicodedata.category(character)
    match = _LETTER_NAME.search(unicodedata.name(character, ""))
    if category[0] == "N" or (match is None and category[0] == "L"):
        return (character,)
    if match is None or (category[0] == "M" and " VOWEL SIGN " not in unicodedata.name(character)):
        return ()
    sound = _sound(character, match["name"].lower())
    phones = tuple(phone for piece in latin_pieces(sound, "und") for phone in piece.phones)
    if " VOWEL " in unicodedata.name(character):
        phones = tuple(phone for phone in phones if phone in IPA_VOWELS)
    return phones or (character,)


def _sound(character: str, name: str) -> str:
    """Return the part of a letter's name in Unicode that is its sound, in Latin letters."""
    if name in _SIGNS:
        return _SIGNS[name]
    is_alphabet = " SMALL LETTER " in unicodedata.name(character)
    if "SYLLAB" in unicodedata.name(character) or (_SYLLABLE.fullmatch(name) and not is_alphabet):
        return name
    onset = _ONSET.match(name)
    return onset[0] if onset else name


_MOST_INITIALS = 5
"""Longer words in capitals are words."""
_WORD_PART = re.compile(r"(?P<before>[^\W\d_]+['’])?(?P<initials>[^\W\d_]+)")
_VOWELS = frozenset("aeiouyäöüåæøõаеёиоуыэюяіїє")
"""Single letters that are words, or whose names are their sounds."""
_AS_WRITTEN = word_set("en vi ga gd cy")
"""Languages without initials here: letter-to-phone reads English; of the others the names of letters are unknown."""


def initials_spelled_out(text: str, spoken: Sequence[str], code: str) -> list[tuple[str, ...] | None]:
    """Return for each part of a word the phones of its initials, spelled out; None for a part without initials.

    Args:
        text: the word as it is written; initials are in capitals.
        spoken: the parts of its spoken form, which spaces separate.
        code: the language's, as for `pieces`.

    >>> [" ".join(variant or ()) for variant in initials_spelled_out("EU-Recht", ["eu", "recht"], "de")]
    ['e u', '']
    """
    parts = [part.strip('.,;:!?…"“”„«»()[]') for part in re.split(r"[\s/‐‑–-]+", text)]
    parts = [part for part in parts if part]
    if code in _AS_WRITTEN or [part.lower().replace("’", "'") for part in parts] != list(spoken):
        return [None] * len(spoken)
    return [_spelled_out(part, code) for part in parts]


def _spelled_out(part: str, code: str) -> tuple[str, ...] | None:
    match = _WORD_PART.fullmatch(part)
    if match is None or not match["initials"].isupper() or not len(match["initials"]) <= _MOST_INITIALS:
        return None
    names = [_letter_names(code).get(letter) for letter in match["initials"].lower()]
    reads_english = is_read_as_english(code) and part.isascii()
    if None in names or part.lower() in _VOWELS or reads_english:
        return None
    before = (match["before"] or "").replace("’", "'").lower()
    return tuple(phone for name in (before, *names) if name for piece in pieces(name, code) for phone in piece.phones)


@lru_cache(maxsize=64)
def _letter_names(code: str) -> dict[str, str]:
    latin = text_table("sounds/letter-names", code) or text_table("sounds/letter-names", "Latin")
    others = text_table("sounds/letter-names", f"{code}:other") or text_table("sounds/letter-names", "Other")
    return {**latin, **others, **{letter: letter for letter in "äöüåæøõ"}}
