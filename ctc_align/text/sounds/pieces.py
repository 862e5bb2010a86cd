"""Pieces of text and their phones.

A run of letters is split where the script changes, and each script has its rules.

The module with the rules of a script is imported when a text first needs it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import groupby
from typing import cast

from ctc_align.text.phone_sets import Phones
from ctc_align.text.tables import text_table

LATIN = "latin"
_CHINESE = "chinese"
_JAPANESE = "japanese"
_BY_NAME = "named"
SCRIPTS = {
    script: (module.replace("-", "_"), f"{name}_pieces")
    for script, reader in text_table("sounds/scripts", "readers").items()
    for module, name in [reader.split(".")]
}
"""(module, function) of the scripts with rules; others are read by the names of their letters in
Unicode."""
_SCRIPT_NAMES = text_table("sounds/scripts", "scripts")
"""The first words of names in Unicode that are not the name of the script."""
_ALPHABETS = frozenset((LATIN, "cyrillic", "greek"))
"""Scripts that borrow letters from each other, and have letters that look alike."""
_LATIN_LOOK_ALIKES = re.compile("[aăbceĕəhiïjkmoöpstxyÿç]+")
_LENT = text_table("sounds/scripts", "lent")
"""For each language: its alphabet, and letters of other alphabets that people write instead of its
letters."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The phones of the characters from `start` to `end`, exclusive; () if they are silent.

    A character without a pronunciation (a digit, a letter of an unknown script) is its own phone,
    which no vocabulary has. `others` are other pronunciations, the likelier first.
    """

    start: int
    end: int
    phones: Phones
    others: tuple[Phones, ...] = ()

    def moved(self, by: int) -> Piece:
        """Return the piece `by` characters further on."""
        return Piece(self.start + by, self.end + by, self.phones, self.others)


def pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a run of letters, in order and without gaps.

    Args:
        text: lower case, NFC, as `Word.spoken` is, without spaces.
        language: the code that `base_code` returns; "" or "und" if it is unknown.

    >>> [(piece.start, piece.end, piece.phones) for piece in pieces("schön", "de")]
    [(0, 3, ('ʃ',)), (3, 4, ('ø',)), (4, 5, ('n',))]
    """
    found: list[Piece] = []
    for start, end, script in stretches(text, language):
        found += [piece.moved(start) for piece in _function(script)(text[start:end], language)]
    return found


def stretches(text: str, language: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end exclusive, script) of the stretches of one script that a text is made of.

    Marks, apostrophes and other characters without a script belong to the stretch before them, or
    else to the next one. In Japanese kana and kanji are one stretch; elsewhere kanji are Chinese.
    Letters of another alphabet that replace some of the word's (Chuvash "ă" among Cyrillic letters,
    Kabyle "γ" among Latin ones) count as the word's.
    """
    scripts = [script_of_letter(character) for character in text]
    if language in _LENT:
        alphabet, lent = _LENT[language].split(",")
        scripts = [
            alphabet if character in lent else script for character, script in zip(text, scripts)
        ]
    if language == "ja" or (language in ("", "und") and _JAPANESE in scripts):
        scripts = [_JAPANESE if script == _CHINESE else script for script in scripts]
    if len(_ALPHABETS.intersection(scripts)) > 1:
        scripts = _without_look_alikes(text, scripts)
    start = 0
    current = ""
    for index, script in enumerate(scripts):
        if not script or script == current:
            continue
        if current:
            yield start, index, current
            start = index
        current = script
    if text:
        yield start, len(text), current or _BY_NAME


def _without_look_alikes(text: str, scripts: list[str]) -> list[str]:
    """Return the scripts of the letters of a word, look-alikes counted as its own letters.

    A letter of another alphabet may stand in place of one of the word's.

    These are Latin letters that look like Cyrillic ones, beside Cyrillic ones, and single letters.
    """
    found = list(scripts)
    if "cyrillic" in scripts:
        for stretch in _LATIN_LOOK_ALIKES.finditer(text):
            alone = stretch.start() == 0 or scripts[stretch.start() - 1] != LATIN
            if alone and scripts[stretch.end() : stretch.end() + 1] != [LATIN]:
                found[stretch.start() : stretch.end()] = ["cyrillic"] * len(stretch[0])
    most = max(_ALPHABETS, key=lambda alphabet: (found.count(alphabet), alphabet))
    for index, script in enumerate(found):
        is_lone = found[max(index - 1, 0) : index + 2].count(script) == 1
        if script in _ALPHABETS and script != most and is_lone:
            found[index] = most
    return found


@lru_cache(maxsize=4096)
def script_of_letter(character: str) -> str:
    """Return the script of a letter in lower case.

    A key of `SCRIPTS` if it has rules; "" for marks, signs and digits.

    >>> script_of_letter("ß"), script_of_letter("я"), script_of_letter("'")
    ('latin', 'cyrillic', '')
    """
    first = unicodedata.name(character, "").partition(" ")[0].lower()
    if unicodedata.category(character)[0] != "L" and (
        first not in SCRIPTS or unicodedata.combining(character)
    ):
        return ""
    return _SCRIPT_NAMES.get(first, first)


@lru_cache(maxsize=256)
def _function(script: str) -> Callable[[str, str], list[Piece]]:
    """Return the function of a script.

    The module with its tables is imported when a text first needs it.
    """
    module, name = SCRIPTS.get(script, SCRIPTS[_BY_NAME])
    return cast(
        Callable[[str, str], "list[Piece]"],
        getattr(import_module(f"ctc_align.text.sounds.{module}"), name),
    )


def without_repeats(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces without repeated phones, within a piece or between two.

    Length is not distinguished.

    >>> [piece.phones for piece in without_repeats([Piece(0, 1, ("a", "m")), Piece(1, 2, ("m", "a"))])]
    [('a', 'm'), ('a',)]
    """
    found: list[Piece] = []
    before = ""
    for piece in pieces:
        phones, *others = (
            _without_repeats(phones, before) for phones in (piece.phones, *piece.others)
        )
        found.append(
            Piece(
                piece.start,
                piece.end,
                phones,
                tuple(dict.fromkeys(variant for variant in others if variant != phones)),
            )
        )
        if piece.phones:
            before = piece.phones[-1]
    return found


def unknown(character: str) -> Phones:
    """Return the phones of a character that has no rule.

    A letter or digit is its own phone; anything else is silent.
    """
    if unicodedata.category(character)[0] in "LN":
        return (character,)
    return ()


def _without_repeats(phones: Phones, before: str) -> Phones:
    different = tuple(phone for phone, _ in groupby(phones))
    if different[:1] == (before,):
        return different[1:]
    return different
