"""Phones of Hangul, whose syllables are made of jamo by arithmetic, with the changes where syllables meet."""

from __future__ import annotations

import unicodedata

from ctc_align.text.sounds.neighbours import unknown, without_repeats
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import split_phones

_Syllable = tuple[str, "tuple[str, ...]", str]
_FIRST, _LAST, _MEDIALS, _FINALS = 0xAC00, 0xD7A3, 21, 28
_INITIAL_JAMO = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWEL_PHONES = "a e ja je ə e jə je o wa we we jo u wə we wi ju ɨ ɨi i"
_VOWELS = [split_phones(vowel) for vowel in _VOWEL_PHONES.split()]
_CLUSTERS = """
- ㄱ ㄲ ㄱㅅ ㄴ ㄴㅈ ㄴㅎ ㄷ ㄹ ㄹㄱ ㄹㅁ ㄹㅂ ㄹㅅ ㄹㅌ ㄹㅍ ㄹㅎ ㅁ ㅂ ㅂㅅ ㅅ ㅆ ㅇ ㅈ ㅊ ㅋ ㅌ ㅍ ㅎ
"""
_FINAL_JAMO = [jamo.strip("-") for jamo in _CLUSTERS.split()]
_INITIAL_PHONES = "k k n t t r m p p s s - tʃ tʃ tʃ k t p h"
_SOUNDS = {jamo: phone.strip("-") for jamo, phone in zip(_INITIAL_JAMO, _INITIAL_PHONES.split())}
_VOICED = {"ㄱ": "ɡ", "ㄷ": "d", "ㅂ": "b", "ㅈ": "dʒ"}
_CLOSED_PHONES = "- k k k n n n t l k m l l l p l m p p t t ŋ t t k t p t"
_CLOSED = {jamo: phone.strip("-") for jamo, phone in zip(_FINAL_JAMO, _CLOSED_PHONES.split())}
_NASAL_OF = {"k": "ŋ", "t": "n", "p": "m"}
_I = ("i",)
_COMPATIBLE_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"


def korean_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> "".join(phone for piece in korean_pieces("한국어", "ko") for phone in piece.phones)
    'hanɡuɡə'
    """
    cut = [_jamo(character) for character in text]
    found: list[Piece] = []
    carried = ""
    for place, (jamo, character) in enumerate(zip(cut, text)):
        if jamo is None:
            found.append(Piece(place, place + 1, _single(character)))
            carried = ""
            continue
        initial, vowel, final = jamo
        before = cut[place - 1] if place else None
        after = cut[place + 1] if place + 1 < len(cut) else None
        onset = _onset(carried or initial, vowel, before, bool(carried))
        coda, carried = _coda(final, after)
        found.append(Piece(place, place + 1, (*onset, *_vowel(initial, vowel, before is not None), *coda)))
    return without_repeats(found)


def _jamo(character: str) -> _Syllable | None:
    """Return (initial, vowel's phones, final) of a syllable; None for anything else."""
    index = ord(character) - _FIRST
    if not 0 <= index <= _LAST - _FIRST:
        return None
    initial, rest = divmod(index, _MEDIALS * _FINALS)
    return _INITIAL_JAMO[initial], _VOWELS[rest // _FINALS], _FINAL_JAMO[rest % _FINALS]


def _vowel(initial: str, vowel: tuple[str, ...], is_later: bool) -> tuple[str, ...]:
    if vowel == ("ɨ", "i") and (is_later or initial != "ㅇ"):
        return _I
    return vowel[1:] if vowel[0] == "j" and initial in "ㅈㅉㅊ" else vowel


def _onset(initial: str, vowel: tuple[str, ...], before: _Syllable | None, is_carried: bool) -> tuple[str, ...]:
    """Return the phones of an initial after the syllable before it."""
    final = before[2] if before else ""
    closed = _CLOSED[final]
    if is_carried and vowel == _I and initial in "ㄷㅌ":
        return ("dʒ",) if initial == "ㄷ" else ("tʃ",)
    if initial == "ㄹ" and before and not is_carried:
        return ("l",) if closed in ("l", "n") else ("n",) if closed else ("r",)
    if initial == "ㄴ" and closed == "l" and not is_carried:
        return ("l",)
    if initial == "ㅎ" and closed in ("k", "t", "p") and not is_carried:
        return ("tʃ",) if final in ("ㅈ", "ㄴㅈ") else (closed,)
    if initial in "ㅅㅆ" and vowel[0] in ("i", "j"):
        return ("ʃ",)
    is_aspirated = not is_carried and final.endswith("ㅎ")
    if initial in _VOICED and before and (is_carried or closed in ("", "n", "m", "ŋ", "l")) and not is_aspirated:
        return (_VOICED[initial],)
    sound = _SOUNDS[initial]
    return (sound,) if sound else ()


def _coda(final: str, after: _Syllable | None) -> tuple[tuple[str, ...], str]:
    """Return the phones at the end of a syllable, and the jamo that goes over to the next one."""
    closed = _CLOSED[final]
    if not final:
        return (), ""
    if after is None:
        return (closed,), ""
    initial = after[0]
    if initial == "ㅇ" and final != "ㅇ":
        stays, goes = (final[0], final[1:]) if len(final) > 1 else ("", final)
        if goes == "ㅎ":
            stays, goes = "", stays
        return ((_CLOSED[stays],) if stays else ()), goes
    if final.endswith("ㅎ") and initial in "ㄱㄷㅈㅅ":
        return ((_CLOSED[final[0]],) if len(final) > 1 else ()), ""
    if closed in _NASAL_OF and initial in "ㄴㅁㄹ":
        return (_NASAL_OF[closed],), ""
    if initial == "ㅎ" and closed in ("k", "t", "p"):
        return (), ""
    return (("l",) if closed == "n" and initial == "ㄹ" else (closed,)), ""


def _single(character: str) -> tuple[str, ...]:
    """Return the phones of a jamo that is part of no syllable."""
    jamo = unicodedata.normalize("NFKC", character)
    if character in _SOUNDS:
        return (_SOUNDS[character] or "ŋ",)
    if character in _COMPATIBLE_VOWELS:
        return _VOWELS[_COMPATIBLE_VOWELS.index(character)]
    if "\u1100" <= jamo <= "\u1112":
        return tuple(filter(None, (_SOUNDS[_INITIAL_JAMO[ord(jamo) - 0x1100]],)))
    if "\u1161" <= jamo <= "\u1175":
        return _VOWELS[ord(jamo) - 0x1161]
    if "\u11a8" <= jamo <= "\u11c2":
        return (_CLOSED[_FINAL_JAMO[ord(jamo) - 0x11A7]],)
    return unknown(character)
