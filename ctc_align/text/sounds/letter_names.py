"""Phones of scripts without rules of their own, by the names that Unicode gives their letters.

"VAI SYLLABLE MI" and "BALINESE LETTER KA" are read as mi and ka. In scripts whose consonants carry an a, a vowel sign
takes its place and a sign that mutes it takes it away. The name of a letter of other alphabets ("COPTIC LETTER ALFA")
begins with its sound.
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
    latin = match["name"].lower()
    whole = _SYLLABLE.fullmatch(latin) or "SYLLAB" in unicodedata.name(character)
    sound = latin if whole else _ONSET.match(latin)[0]  # type: ignore[index]  # a name has a letter
    phones = tuple(phone for piece in latin_pieces(sound, "und") for phone in piece.phones)
    if " VOWEL " in unicodedata.name(character):
        phones = tuple(phone for phone in phones if phone in IPA_VOWELS)
    return phones or (character,)
