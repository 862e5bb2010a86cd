"""Phones of Burmese and Khmer, in syllables: a consonant with those under it, its vowel, and one that closes it.

Plain rules of the standard languages: what a syllable in the middle of a word loses, and voicing, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.spelling_rules import phone_table, split_phones

_BURMESE = """
က=k ခ=k ဂ=ɡ ဃ=ɡ င=ŋ စ=s ဆ=s ဇ=z ဈ=z ဉ=ɲ ည=ɲ ဋ=t ဌ=t ဍ=d ဎ=d ဏ=n တ=t ထ=t ဒ=d ဓ=d န=n ပ=p ဖ=p ဗ=b ဘ=b မ=m ယ=j ရ=j
လ=l ဝ=w သ=θ ဟ=h ဠ=l အ=ʔ ဿ=θ ဣ=i ဤ=i ဥ=u ဦ=u ဧ=e ဩ=ɔ ဪ=ɔ
"""
_RHYMES = """
ာ=a ါ=a ိ=i ီ=i ု=u ူ=u ေ=e ဲ=ɛ ော=ɔ ေါ=ɔ ို=o ံ=an ုံ=oʊn ိံ=eɪn က=ɛʔ င=in စ=iʔ ည=i ဉ=in တ=aʔ န=an ဏ=an ပ=aʔ မ=an ယ=ɛ သ=aʔ
ိုက=aɪʔ ိုင=aɪn ောက=aʊʔ ောင=aʊn ေါက=aʊʔ ေါင=aʊn ိတ=eɪʔ ိပ=eɪʔ ိန=eɪn ိမ=eɪn ုတ=oʊʔ ုပ=oʊʔ ုန=oʊn ုမ=oʊn ွတ=ʊʔ ွပ=ʊʔ ွန=ʊn ွမ=ʊn
"""
_BURMESE_SYLLABLE = re.compile(
    r"(?P<onset>[က-ဪဿ])(?P<under>[ျြွှ]*)(?P<vowel>[ါ-ဲံ့း]*)(?:(?P<coda>[က-အ])[့း]*(?:်(?![ါ-ဲ])|္|်္)|်)?[့း]*"
)
_TONES = re.compile("[့း]")
_PALATAL = {"k": "tʃ", "ɡ": "dʒ", "ŋ": "ɲ"}
_KHMER = """
ក=k ខ=k គ=k ឃ=k ង=ŋ ច=tʃ ឆ=tʃ ជ=tʃ ឈ=tʃ ញ=ɲ ដ=d ឋ=t ឌ=d ឍ=t ណ=n ត=t ថ=t ទ=t ធ=t ន=n ប=b ផ=p ព=p ភ=p ម=m យ=j រ=r ល=l
វ=v ឝ=s ឞ=s ស=s ហ=h ឡ=l អ=ʔ ឣ=a ឤ=a ឥ=e ឦ=əɪ ឧ=u ឩ=u ឪ=əʊ ឫ=rɨ ឬ=rɨ ឭ=lɨ ឮ=lɨ ឯ=ɛ ឰ=aɪ ឱ=aʊ ឲ=aʊ ឳ=aʊ
"""
_FIRST_SERIES = "កខចឆដឋណតថបផឝឞសហឡអ"
_KHMER_VOWELS = """
-=ɔ,ɔ ា=a,iə ិ=e,i ី=əɪ,i ឹ=ə,ɨ ឺ=ə,ɨ ុ=o,u ូ=o,u ួ=uə,uə ើ=aə,ə ឿ=ɨə,ɨə ៀ=iə,iə េ=e,e ែ=aɛ,ɛ ៃ=aɪ,eɪ ោ=ao,o ៅ=aʊ,əʊ
ំ=ɔm,um ុំ=om,um ាំ=am,oəm ះ=ah,eəh ុះ=oh,uh េះ=eh,ih ោះ=ɔh,uəh ិះ=eh,ih
"""
_KHMER_SYLLABLE = re.compile(
    "(?P<onset>[ក-ឳ])(?P<shift>[៉៊]?)(?P<under>(?:្[ក-អ])*)(?P<shifted>[៉៊]?)(?P<vowel>[ា-ះ]*)[៎៏៍័៌៑]*"
    "(?:(?P<coda>[ក-អ])(?P<short>[់]?)(?![ា-ះ្៉៊]))?"
)
_ENDS = {"s": ("h",), "r": (), "d": ("t",), "b": ("p",), "ɡ": ("k",), "ʔ": (), "v": ("ʊ",), "j": ("ɪ",)}


def burmese_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> [" ".join(piece.phones) for piece in burmese_pieces("ကျောင်း", "my")]
    ['tʃ a ʊ n']
    """
    return _syllables(text, _BURMESE_SYLLABLE, _burmese_syllable)


def _burmese_syllable(match: re.Match[str]) -> Piece:
    onsets, rhymes = _table(_BURMESE), _table(_RHYMES)
    vowel, coda = _TONES.sub("", match["vowel"]), match["coda"] or ""
    rounded = "ွ" if "ွ" in match["under"] and not vowel else ""
    rhyme = rhymes.get(f"{rounded}{vowel}{coda}") or rhymes.get(f"{vowel}{coda}") or rhymes.get(coda or vowel)
    phones = _burmese_onset(onsets.get(match["onset"], ()), match["under"].replace(rounded or "-", "", bool(coda)))
    is_vowel = match["onset"] in "ဣဤဥဦဧဩဪ" and not rhyme
    return Piece(match.start(), match.end(), phones if is_vowel else (*phones, *(rhyme or ("a",))))


def _burmese_onset(onset: tuple[str, ...], under: str) -> tuple[str, ...]:
    has_y, has_w = "ျ" in under or "ြ" in under, "ွ" in under
    if "ှ" in under and (onset == ("j",) or (has_y and onset == ("l",))):
        onset, has_y = ("ʃ",), False
    elif has_y and onset and onset[0] in _PALATAL:
        onset, has_y = (_PALATAL[onset[0]],), False
    return (*onset, *("j",) * has_y, *("w",) * has_w)


def khmer_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each syllable.

    >>> [" ".join(piece.phones) for piece in khmer_pieces("ភាសា", "km")]
    ['p i ə', 's a']
    """
    return _syllables(text, _KHMER_SYLLABLE, _khmer_syllable)


def _khmer_syllable(match: re.Match[str]) -> Piece:
    onsets, vowels, start = _table(_KHMER), _khmer_vowels(), match.start()
    if match["onset"] > "អ":
        return Piece(start, start + 1, onsets.get(match["onset"], unknown(match["onset"])))
    under = match["under"].replace("្", "")
    letters = match["onset"] + under
    is_first = any(letter in _FIRST_SERIES for letter in letters)
    if shift := match["shift"] or match["shifted"]:
        is_first = shift == "៉"
    signs = match["vowel"] or "-"
    vowel = vowels.get(signs) or vowels.get(signs[0], vowels["-"])
    phones = tuple(phone for letter in letters for phone in onsets[letter])
    coda = onsets.get(match["coda"] or "", ())
    coda = _ENDS.get(coda[0], coda) if coda else ()
    return Piece(start, match.end(), (*phones, *vowel[not is_first], *coda))


def _syllables(text: str, pattern: re.Pattern[str], piece: Callable[[re.Match[str]], Piece]) -> list[Piece]:
    """Return the pieces of the syllables that a pattern finds; letters that begin none are unknown."""
    found: list[Piece] = []
    place = 0
    while place < len(text):
        match = pattern.match(text, place)
        found.append(piece(match) if match else Piece(place, place + 1, unknown(text[place])))
        place = found[-1].end
    return found


_table = lru_cache(maxsize=4)(phone_table)


@lru_cache(maxsize=1)
def _khmer_vowels() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the phones of vowel signs after consonants of the first and of the second series."""
    found = {}
    for sign, _, phones in (rule.partition("=") for rule in _KHMER_VOWELS.split()):
        first, _, second = phones.partition(",")
        found[sign] = (split_phones(first), split_phones(second))
    return found
