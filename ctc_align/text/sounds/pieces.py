"""Pieces of text and their phones: a run of letters is cut where its script changes, and each script has its rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import cast

LATIN = "latin"
_CHINESE, _JAPANESE = "chinese", "japanese"
_BY_NAME = "letter_names"
_BRAHMIC = (
    "devanagari", "bengali", "gurmukhi", "gujarati", "oriya", "tamil", "telugu", "kannada", "malayalam", "sinhala",
)  # fmt: skip
SCRIPTS: dict[str, tuple[str, str]] = {
    # script → (module of this package, its function)
    LATIN: ("latin", "latin_pieces"),
    **dict.fromkeys(_BRAHMIC, ("brahmic", "brahmic_pieces")),
    "arabic": ("arabic", "arabic_pieces"),
    "hebrew": ("hebrew", "hebrew_pieces"),
    "cyrillic": ("cyrillic", "cyrillic_pieces"),
    "greek": ("small_alphabets", "greek_pieces"),
    "georgian": ("small_alphabets", "georgian_pieces"),
    "armenian": ("small_alphabets", "armenian_pieces"),
    "thai": ("thai", "thai_pieces"),
    "lao": ("thai", "thai_pieces"),
    "myanmar": ("mainland", "burmese_pieces"),
    "khmer": ("mainland", "khmer_pieces"),
    "thaana": ("syllabaries", "thaana_pieces"),
    "ethiopic": ("syllabaries", "ethiopic_pieces"),
    "hangul": ("korean", "korean_pieces"),
    _CHINESE: ("chinese", "chinese_pieces"),
    _JAPANESE: ("japanese", "japanese_pieces"),
    _BY_NAME: ("letter_names", "named_pieces"),
}
"""Scripts that have rules; all others are read by the names that Unicode gives their letters."""
_SCRIPT_NAMES = {
    "cjk": _CHINESE, "ideographic": _CHINESE, "bopomofo": _CHINESE, "kangxi": _CHINESE,
    "hiragana": _JAPANESE, "katakana": _JAPANESE, "katakana-hiragana": _JAPANESE, "halfwidth": _JAPANESE,
    "fullwidth": LATIN, "feminine": LATIN, "masculine": LATIN, "micro": "greek",
}  # fmt: skip
"""The first words of Unicode's names that are not the script's own name."""
_ALPHABETS = frozenset((LATIN, "cyrillic", "greek"))
"""Scripts that lend each other letters, and have some that look alike."""
_LATIN_LOOK_ALIKES = re.compile("[aăbceĕəhiïjkmoöpstxyÿç]+")
_LENT = {"cv": ("cyrillic", "ăĕçÿ"), "os": ("cyrillic", "æ"), "ab": ("cyrillic", "ə"), "kab": (LATIN, "γεԑσ")}
"""Letters that people write in a language for those of its own alphabet, and that alphabet."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The phones of the characters from `start` to `end`, exclusive; () where they are silent.

    What nothing knows how to say (a digit, a letter of no script that is known) stands for itself, as a phone that no
    vocabulary has. `others` are other pronunciations, the likelier first.
    """

    start: int
    end: int
    phones: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()

    def moved(self, by: int) -> Piece:
        """Return the piece `by` characters further on."""
        return Piece(self.start + by, self.end + by, self.phones, self.others)


def pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a run of letters, in order and without gaps.

    Args:
        text: lower case, NFC, as `Word.spoken` is, without spaces.
        language: the code that `base_code` returns; "" or "und" where it is unknown.

    >>> [(piece.start, piece.end, piece.phones) for piece in pieces("schön", "de")]
    [(0, 3, ('ʃ',)), (3, 4, ('ø',)), (4, 5, ('n',))]
    """
    found: list[Piece] = []
    for start, end, script in stretches(text, language):
        found += [piece.moved(start) for piece in _function(script)(text[start:end], language)]
    return found


def stretches(text: str, language: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end exclusive, script) of the stretches of one script that a text is made of.

    Marks, apostrophes and what else has no script belong to the stretch before them, or else to the next one. In
    Japanese kana and kanji are one stretch; elsewhere kanji are Chinese. Letters of another alphabet that stand for
    some of the word's (Chuvash "ă" among Cyrillic letters, Kabyle "γ" among Latin ones) belong to the word's.
    """
    scripts = [script_of_letter(character) for character in text]
    if language in _LENT:
        own, lent = _LENT[language]
        scripts = [own if character in lent else script for character, script in zip(text, scripts)]
    if language == "ja" or (language in ("", "und") and _JAPANESE in scripts):
        scripts = [_JAPANESE if script == _CHINESE else script for script in scripts]
    if len(_ALPHABETS.intersection(scripts)) > 1:
        scripts = _without_look_alikes(text, scripts)
    start, current = 0, ""
    for place, script in enumerate(scripts):
        if not script or script == current:
            continue
        if current:
            yield start, place, current
            start = place
        current = script
    if text:
        yield start, len(text), current or _BY_NAME


def _without_look_alikes(text: str, scripts: list[str]) -> list[str]:
    """Return the scripts of the letters of a word, those that only stand for letters of the word's alphabet replaced.

    These are Latin letters that look like Cyrillic ones, beside Cyrillic ones, and single letters.
    """
    found = list(scripts)
    if "cyrillic" in scripts:
        for stretch in _LATIN_LOOK_ALIKES.finditer(text):
            alone = stretch.start() == 0 or scripts[stretch.start() - 1] != LATIN
            if alone and scripts[stretch.end() : stretch.end() + 1] != [LATIN]:
                found[stretch.start() : stretch.end()] = ["cyrillic"] * len(stretch[0])
    most = max(_ALPHABETS, key=lambda alphabet: (found.count(alphabet), alphabet))
    for place, script in enumerate(found):
        is_lone = found[max(place - 1, 0) : place + 2].count(script) == 1
        if script in _ALPHABETS and script != most and is_lone:
            found[place] = most
    return found


@lru_cache(maxsize=4096)
def script_of_letter(character: str) -> str:
    """Return the script of a letter in lower case, a key of `SCRIPTS` if it has rules; "" for marks, signs, digits.

    >>> script_of_letter("ß"), script_of_letter("я"), script_of_letter("'")
    ('latin', 'cyrillic', '')
    """
    first = unicodedata.name(character, "").partition(" ")[0].lower()
    if unicodedata.category(character)[0] != "L":
        first = first if first in SCRIPTS and unicodedata.combining(character) == 0 else ""
    return "" if first == "modifier" else _SCRIPT_NAMES.get(first, first)


@lru_cache(maxsize=256)
def _function(script: str) -> Callable[[str, str], list[Piece]]:
    """Return the function of a script; the module with its tables is read when a text first needs it."""
    module, name = SCRIPTS.get(script, SCRIPTS[_BY_NAME])
    return cast(Callable[[str, str], "list[Piece]"], getattr(import_module(f"ctc_align.text.sounds.{module}"), name))
