"""Phones of kana, and of Japanese in Unihan's romanisation: morae, with doubled consonants as one."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.spelling_rules import split_phones

_ONSETS = {
    "k": "k", "g": "ɡ", "s": "s", "sh": "ʃ", "z": "z", "j": "dʒ", "t": "t", "ch": "tʃ", "ts": "ts", "d": "d", "n": "n",
    "h": "h", "f": "f", "b": "b", "p": "p", "m": "m", "y": "j", "r": "r", "w": "w", "v": "v", "": "",
}  # fmt: skip
_NAMED = {
    "SI": "shi", "TI": "chi", "TU": "tsu", "HU": "fu", "ZI": "ji", "DI": "ji", "DU": "zu", "WI": "i", "WE": "e",
    "WO": "o", "VU": "vu", "VA": "va", "VI": "vi", "VE": "ve", "VO": "vo",
}  # fmt: skip
_BEFORE_SMALL_VOWEL = {
    "chi": "t", "te": "t", "de": "d", "tsu": "ts", "to": "t", "do": "d", "fu": "f", "u": "w", "vu": "v", "ku": "kw",
    "gu": "gw", "su": "s", "i": "y", "ki": "ky", "ji": "j", "shi": "sh",
}  # fmt: skip
_ONSET = "ky|gy|ny|hy|by|py|my|ry|sh|ch|ts|[kgsztdnhbpmyrwjfv]?"
_ROMAN = re.compile(f"(?:(?P<onset>{_ONSET})(?P<vowel>[aiueo]))|(?P<n>n)|(?P<other>.)")
_LONG = {"a": "aー", "i": "iー", "u": "uー", "e": "eiー", "o": "ouー"}
SOKUON, LONG_MARK, MORAIC_N = "っ", "ー", "ん"
_OTHER_WORD = {"い": "てでにへ", "お": "のもをと", "う": "のを", "え": "ねへ", "あ": "がはかなやわらたざだ"}
"""Kana before a vowel that mostly begins another word there (ています, があります)."""
_SMALL = "ぁぃぅぇぉゃゅょゎ"


@lru_cache(maxsize=512)
def roman_kana(character: str) -> str:
    """Return a kana in Latin letters: "shi" for し, "ya" for small ゃ; "" for what is none (tones of Taiwanese, too).

    >>> roman_kana("シ"), roman_kana("ゃ"), roman_kana("ん")
    ('shi', 'ya', 'n')
    """
    words = unicodedata.name(unicodedata.normalize("NFKC", character)[0], "").split()
    if words[:1] not in (["HIRAGANA"], ["KATAKANA"]) or "LETTER" not in words or "MINNAN" in words:
        return ""
    return _NAMED.get(words[-1], words[-1].lower())


def as_hiragana(text: str) -> str:
    """Return text with katakana as hiragana, one for one.

    >>> as_hiragana("カナー")
    'かなー'
    """
    return "".join(chr(ord(c) - 0x60) if "\u30a1" <= c <= "\u30f6" else c for c in text)


@lru_cache(maxsize=8192)
def roman_phones(roman: str) -> tuple[str, ...]:
    """Return the phones of Japanese in Latin letters.

    >>> roman_phones("toukyou"), roman_phones("gakkou"), roman_phones("shinbun")
    (('t', 'o', 'k', 'j', 'o'), ('ɡ', 'a', 'k', 'o'), ('ʃ', 'i', 'm', 'b', 'u', 'n'))
    """
    phones: list[str] = []
    for match in _ROMAN.finditer(roman):
        if match["n"]:
            phones.append(nasal(roman[match.end() : match.end() + 1]))
        elif match["vowel"] is not None:
            is_long = not match["onset"] and phones[-1:] and match["vowel"] in _LONG.get(phones[-1], "")
            phones += () if is_long else syllable(match["onset"], match["vowel"])
    return tuple(phone for at, phone in enumerate(phones) if not at or phone != phones[at - 1])


def nasal(following: str) -> str:
    """Return the phone of ん before a Latin letter.

    >>> nasal("b"), nasal("k"), nasal("")
    ('m', 'ŋ', 'n')
    """
    return "m" if following in tuple("pbm") else "ŋ" if following in tuple("kg") else "n"


def syllable(onset: str, vowel: str) -> tuple[str, ...]:
    """Return the phones of a consonant, palatal with a y after it, and a vowel."""
    if len(onset) == 2 and onset[1] in "yw":
        return (*split_phones(_ONSETS[onset[0]]), "j" if onset[1] == "y" else "w", vowel)
    return (*split_phones(_ONSETS[onset]), vowel)


def kana_morae(kana: str) -> list[tuple[int, int, tuple[str, ...]]]:
    """Return (start, end, phones) of the morae of kana; the kana that makes a vowel long has that vowel.

    >>> kana_morae("がっこう")
    [(0, 1, ('ɡ', 'a')), (1, 3, ('k', 'o')), (3, 4, ('o',))]
    """
    text = as_hiragana(kana)
    found: list[tuple[int, int, tuple[str, ...]]] = []
    place = 0
    while place < len(text):
        start = place
        while place < len(text) - 1 and text[place] == SOKUON:
            place += 1
        character = text[place]
        roman = roman_kana(character)
        place += 1
        if character == MORAIC_N:
            phones: tuple[str, ...] = (nasal(roman_kana(text[place])[:1] if place < len(text) else ""),)
        elif character == SOKUON:
            phones = ("ʔ",)
        elif not roman:
            phones = (found[-1][2][-1],) if character == LONG_MARK and found else unknown(character)
        else:
            phones, place = _mora(text, roman, place)
        found.append((start, place, phones))
        while phones and place < len(text) and _is_long(phones[-1], text[place - 1], text[place]):
            place += 1
            found.append((place - 1, place, phones[-1:]))
    return found


def _mora(text: str, roman: str, place: int) -> tuple[tuple[str, ...], int]:
    """Return the phones of a kana with the small one that may follow at `place`, and where the next one begins."""
    onset, vowel = roman[:-1], roman[-1]
    small = text[place] if place < len(text) and text[place] in _SMALL else ""
    if not small:
        return syllable(onset, vowel), place
    glide, other = (roman_kana(small)[:-1], roman_kana(small)[-1])
    if glide and vowel == "i":
        own = onset if onset in ("sh", "ch", "j") else f"{onset}y"
        return syllable(own, other), place + 1
    if not glide and roman in _BEFORE_SMALL_VOWEL and (roman != "chi" or other == "e"):
        own = "ch" if roman == "chi" else _BEFORE_SMALL_VOWEL[roman]
        return syllable(own, other), place + 1
    if glide and roman in ("te", "de", "fu", "vu"):
        return (*split_phones(_ONSETS[roman[0]]), "j", other), place + 1
    return syllable(onset, vowel), place


def _is_long(vowel: str, before: str, character: str) -> bool:
    if character == LONG_MARK:
        return True
    is_vowel = character in "あいうえおぁぃぅぇぉ" and before not in _OTHER_WORD.get(character, "")
    return is_vowel and roman_kana(character) in tuple(_LONG.get(vowel, ""))
