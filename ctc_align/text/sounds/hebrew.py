"""Phones of words in Hebrew letters: Modern Hebrew, with or without points, and Yiddish, which writes its vowels."""

from __future__ import annotations

from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece
from ctc_align.text.sounds.short_vowels import SHORT, Letter, with_short_vowels
from ctc_align.text.sounds.spelling_rules import SpellingRules, phone_table

_LETTERS = """
ב=v ג=ɡ ד=d ה=h ו=v ז=z ח=x ט=t י=j כ=x ך=x ל=l מ=m ם=m נ=n ן=n ס=s פ=f ף=f צ=ts ץ=ts ק=k ר=ʁ ש=ʃ ת=t
"""
_CONSONANTS = phone_table(_LETTERS)
_HARD = {"ב": ("b",), "כ": ("k",), "ך": ("k",), "פ": ("p",), "ף": ("p",)}
_BEFORE_GERESH = {"ג": ("dʒ",), "ז": ("ʒ",), "צ": ("tʃ",), "ץ": ("tʃ",), "ת": ("t",)}
_POINTS = {
    "\u05b0": (), "\u05b1": ("e",), "\u05b2": ("a",), "\u05b3": ("o",), "\u05b4": ("i",), "\u05b5": ("e",),
    "\u05b6": ("e",), "\u05b7": ("a",), "\u05b8": ("a",), "\u05b9": ("o",), "\u05ba": ("o",), "\u05bb": ("u",),
    "\u05c7": ("o",),
}  # fmt: skip
_DAGESH, _SIN_DOT, _GERESH = "\u05bc", "\u05c2", "׳'"
_SILENT = "אע"
_MARKS = "".join(_POINTS) + _DAGESH + _SIN_DOT + "\u05bd\u05c1\u05bf"
_YIDDISH = """
א= אַ=a אָ=ɔ ב=b בֿ=v ג=ɡ ד=d ה=h ו=u וּ=u װ=v וו=v ױ=ɔɪ וי=ɔɪ ז=z זש=ʒ ח=x ט=t טש=tʃ י=i יִ=i י/_V=j ײ=ɛɪ יי=ɛɪ ײַ=aɪ ײַ=aɪ
כ=x כּ=k ך=x ל=l מ=m ם=m נ=n ן=n ס=s ע=ɛ ע/C_#=ə ען/C_#=ən ער/C_#=ər על/C_#=əl פ=f פּ=p פֿ=f ף=f צ=ts ץ=ts ק=k ר=ʁ ש=ʃ
שׂ=s ת=s תּ=t דזש=dʒ
ׁ= '=
"""

_YIDDISH_RULES = SpellingRules((_YIDDISH,), vowels="אועי", front="עי")


def hebrew_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each letter with its points.

    >>> [" ".join(piece.phones) for piece in hebrew_pieces("שלום", "he")]
    ['ʃ ə', 'l', 'o', 'm']
    """
    if language == "yi":
        return _YIDDISH_RULES.pieces(text)
    letters: list[Letter] = []
    for place, character in enumerate(text):
        last = letters[-1] if letters else None
        if last is not None and (character not in _CONSONANTS and character not in _SILENT):
            _mark(last, character, text)
            continue
        letter = _letter(text, place, last)
        if not letter.onset and letter.vowel and last is not None and last.is_bare:
            last.vowel = ()
        letters.append(letter)
    return with_short_vowels(letters, final_clusters="none")


def _letter(text: str, place: int, last: Letter | None) -> Letter:
    """Return the letter at a place: a consonant, or a vowel where it can be one."""
    character, span = text[place], (place, place + 1)
    rest = text[place + 1 :].lstrip(_MARKS)
    marks = text[place + 1 : len(text) - len(rest)]
    is_pointed = any(mark in _POINTS for mark in marks)
    after_consonant = last is not None and (bool(last.onset) or last.vowel == ())
    if (
        character == "ו"
        and last is not None
        and not is_pointed
        and (_DAGESH in marks or (rest[:1] != "ו" and after_consonant))
    ):
        return Letter(*span, (), ("u",) if _DAGESH in marks else ("o",), is_long=True)
    if character == "ו" and "\u05b9" in marks and after_consonant:
        return Letter(*span, (), (), is_long=True)
    if character == "י" and after_consonant and not is_pointed and rest[:1] not in ("ו", "ה", "י"):
        vowel = last.vowel if last is not None and last.vowel and last.onset else ("i",)
        return Letter(*span, (), () if last is not None and last.vowel else vowel, is_long=True)
    if character == "ה" and not rest and last is not None and not marks:
        return Letter(*span, (), ("a",) if not last.vowel else (), is_long=True)
    if character in _SILENT:
        is_carried = bool(rest) and rest[0] in "וי" and not is_pointed
        return Letter(
            *span, (), () if is_carried or is_pointed or (last is not None and last.vowel) else ("a",), is_long=True
        )
    if character not in _CONSONANTS:
        return Letter(*span, unknown(character), ())
    is_hard = character in _HARD and last is None and not is_pointed
    return Letter(*span, _HARD[character] if is_hard else _CONSONANTS[character])


def _mark(letter: Letter, character: str, text: str) -> None:
    """Add a point to its letter."""
    letter.end += 1
    base = text[letter.start]
    if character in _POINTS:
        is_first = letter.start == 0 and character == "\u05b0"
        letter.vowel = (SHORT,) if is_first else _POINTS[character]
    elif character == _DAGESH and base in _HARD:
        letter.onset = _HARD[base]
    elif character == _SIN_DOT:
        letter.onset = ("s",)
    elif character in _GERESH and base in _BEFORE_GERESH:
        letter.onset = _BEFORE_GERESH[base]
