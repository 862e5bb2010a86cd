"""Phones of scripts without rules of their own, by the names that Unicode gives their letters.

"VAI SYLLABLE MI" and "BALINESE LETTER KA" are read as mi and ka. In scripts whose consonants carry an a, a vowel sign
takes its place and a sign that mutes it takes it away. The name of a letter of other alphabets ("COPTIC LETTER ALFA")
begins with its sound, as all names do in scripts with small letters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ctc_align.text.ipa import IPA_VOWELS
from ctc_align.text.sounds.latin import latin_pieces
from ctc_align.text.sounds.pieces import Piece

_KINDS = "LETTER|SYLLABLE|SYLLABICS|VOWEL SIGN|VOWEL|SIGN|LIGATURE|IDEOGRAM|HIEROGLYPH"
_NAME = re.compile(rf"\b(?:{_KINDS}) (?:(?:SMALL|CAPITAL|FINAL|INDEPENDENT|ARCHAIC|OLD) )*(?P<name>[A-Z]+)")
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
    """Return a piece for each character, which is itself where its name says nothing."""
    found: list[Piece] = []
    for place, character in enumerate(text):
        phones = _phones(character)
        is_mute = bool(_MUTE.search(unicodedata.name(character, "")))
        is_vowel = " VOWEL SIGN " in unicodedata.name(character, "")
        if found and (is_mute or is_vowel) and found[-1].phones[-1:] == (_CARRIED,):
            found[-1] = Piece(place - 1, place, found[-1].phones[:-1])
        found.append(Piece(place, place + 1, () if is_mute else phones))
    return found


@lru_cache(maxsize=4096)
def _phones(character: str) -> tuple[str, ...]:
    category = unicodedata.category(character)
    match = _NAME.search(unicodedata.name(character, ""))
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
    """Return the part of a letter's own name that it sounds like, in Latin letters."""
    if name in _SIGNS:
        return _SIGNS[name]
    is_alphabet = " SMALL LETTER " in unicodedata.name(character)
    if "SYLLAB" in unicodedata.name(character) or (_SYLLABLE.fullmatch(name) and not is_alphabet):
        return name
    onset = _ONSET.match(name)
    return onset[0] if onset else name
