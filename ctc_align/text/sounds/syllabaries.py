"""Phones of Thaana, whose vowel signs follow each consonant, and of Ethiopic, whose letters are consonant and vowel."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ctc_align.text.ipa import IPA_VOWELS
from ctc_align.text.sounds.neighbours import unknown, without_repeats
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import phone_table, split_phones

_THAANA = """
ހ=h ށ=ʃ ނ=n ރ=r ބ=b ޅ=l ކ=k އ= ވ=v މ=m ފ=f ދ=d ތ=t ލ=l ގ=ɡ ޏ=ɲ ސ=s ޑ=ɖ ޒ=z ޓ=ʈ ޔ=j ޕ=p ޖ=dʒ ޗ=tʃ ޘ=θ ޙ=h ޚ=x ޛ=ð ޜ=ʒ ޝ=ʃ
ޞ=s ޟ=d ޠ=t ޡ=z ޢ= ޣ=ɣ ޤ=q ޥ=w ޱ=n ަ=a ާ=a ި=i ީ=i ު=u ޫ=u ެ=e ޭ=e ޮ=o ޯ=o ް=
"""
_SUKUN = "\u07b0"
_FINAL = {"އ": ("ʔ",), "ށ": ("ʔ",), "ތ": ("ɪ",), "ނ": ("ŋ",)}
"""Letters that are said otherwise where a word ends in them; elsewhere without a vowel they double the next one."""
_SYLLABLE = re.compile("ETHIOPIC SYLLABLE (?:(?P<mark>GLOTTAL|PHARYNGEAL) )?(?P<onset>[^AEIOU]*)(?P<vowel>[AEIOU]+)")
_ETHIOPIC = {
    "H": "h", "HH": "h", "X": "h", "L": "l", "M": "m", "SZ": "s", "R": "r", "S": "s", "SH": "ʃ", "Q": "k", "QH": "q",
    "B": "b", "V": "v", "T": "t", "C": "tʃ", "N": "n", "NY": "ɲ", "K": "k", "KX": "h", "W": "w", "Z": "z", "ZH": "ʒ",
    "Y": "j", "D": "d", "DD": "d", "J": "dʒ", "G": "ɡ", "GG": "ŋ", "TH": "t", "CH": "tʃ", "PH": "p", "TS": "ts",
    "TZ": "ts", "F": "f", "P": "p", "": "",
}  # fmt: skip
_ORDERS = {"A": "ə", "U": "u", "I": "i", "AA": "a", "EE": "e", "E": "ɨ", "O": "o", "OA": "wa", "WA": "wa"}
_A_IN_FIRST_ORDER = ("H", "HH", "X", "")
_SIXTH = "ɨ"


def thaana_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each consonant with its vowel sign.

    >>> [" ".join(piece.phones) for piece in thaana_pieces("ދިވެހި", "dv")]
    ['d i', 'v e', 'h i']
    """
    table = _thaana()
    found: list[Piece] = []
    for place, character in enumerate(text):
        phones = table.get(character, unknown(character))
        if found and unicodedata.category(character)[0] == "M":
            found[-1] = Piece(found[-1].start, place + 1, (*found[-1].phones, *phones))
        else:
            found.append(Piece(place, place + 1, phones))
    for at, piece in enumerate(found):
        if text[piece.start : piece.end].endswith(_SUKUN):
            phones = _FINAL.get(text[piece.start], piece.phones) if at + 1 == len(found) else piece.phones
            found[at] = Piece(
                piece.start, piece.end, () if phones == piece.phones and text[piece.start] == "ށ" else phones
            )
    return without_repeats(found)


def ethiopic_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter; the vowel of the sixth order is said where consonants would meet.

    >>> [" ".join(piece.phones) for piece in ethiopic_pieces("ሰላም", "am")]
    ['s ə', 'l a', 'm']
    """
    sounds = [_ethiopic(character) for character in text]
    found: list[Piece] = []
    for place, phones in enumerate(sounds):
        is_sixth = len(phones) > 1 and phones[-1] == _SIXTH
        is_last = place + 1 == len(sounds)
        before, after = found[-1].phones[-1:] if found else (), () if is_last else sounds[place + 1]
        meets_another = len(after) > 1 and after[-1] == _SIXTH and place + 2 < len(sounds)
        if is_sixth and place and (is_last or (before != () and before[0] in IPA_VOWELS and not meets_another)):
            phones = phones[:-1]
        found.append(Piece(place, place + 1, phones))
    return without_repeats(found)


@lru_cache(maxsize=1024)
def _ethiopic(character: str) -> tuple[str, ...]:
    match = _SYLLABLE.match(unicodedata.name(character, ""))
    if match is None:
        return unknown(character)
    onset, vowel = match["onset"], match["vowel"]
    has_glide = len(onset) > 1 and onset.endswith("W")
    onset = onset[:-1] if has_glide else onset
    if vowel == "A" and onset in _A_IN_FIRST_ORDER:
        vowel = "AA"
    phones = (*split_phones(_ETHIOPIC.get(onset, "")), *split_phones(_ORDERS.get(vowel, "a")))
    return (*phones[:-1], "w", phones[-1]) if has_glide else phones


@lru_cache(maxsize=1)
def _thaana() -> dict[str, tuple[str, ...]]:
    return phone_table(_THAANA)
