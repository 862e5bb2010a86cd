"""Romanisation of words of any script, by uroman (Hermjakob, May and Knight 2018).

Runs of words without spaces between them are romanised as a whole: one word, or in spaceless scripts many, whose
sounds depend on their neighbours (きゃ is kya, เกิด is koet). uroman says which characters each piece of its output
stands for; a piece of several words is divided among them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ctc_align.errors import UsageError
from ctc_align.extras import install_line
from ctc_align.text.characters import lower
from ctc_align.text.runs import divided, runs
from ctc_align.types import Word, Words

if TYPE_CHECKING:
    from uroman import Uroman
    from uroman.uroman import Edge

MOST_KEPT = 2**16
"""Size of the cache of romanised runs; in most scripts a run is a word."""

# The languages for which uroman has rules, by their code of two letters.
_THREE_LETTERS = {
    "ar": "ara", "as": "asm", "be": "bel", "bg": "bul", "bn": "ben", "de": "deu", "el": "ell", "en": "eng", "fa": "fas",
    "gu": "guj", "kk": "kaz", "ks": "kas", "ky": "kir", "lt": "lit", "lv": "lav", "mk": "mkd", "os": "oss", "pa": "pan",
    "ps": "pus", "ru": "rus", "sa": "san", "sr": "srp", "tr": "tur", "ug": "uig", "uk": "ukr", "yi": "yid",
}  # fmt: skip
_REPEATED = "²"
"""uroman's output for 々, which repeats the character before it."""
_APOSTROPHE = re.compile("[’ʼ‘ʻ]")
_DIGIT = re.compile(r"[0-9]")


def require_uroman() -> None:
    """Raise UsageError unless uroman is installed."""
    if find_spec("uroman") is None:
        raise UsageError(f"romanize: uroman is missing: {install_line('romanize')}")


def romanized(words: Words, language: str) -> Words:
    """Return `words` from `split`, each with its spoken form in Latin letters as `roman`: lower-case, space-separated.

    A silent letter (a Thai consonant under a thanthakhat) becomes "". ASCII, and what uroman does not know, stays.

    Args:
        words: numbers are spelled out already.
        language: BCP 47 or ISO 639 code; uroman has rules for some languages.

    Raises:
        UsageError: uroman is not installed.
    """
    require_uroman()
    code = _uroman_code(language)
    romanized_words: list[Word] = []
    for run in runs(words.words):
        forms = _romanized_run(tuple(word.sounding for word in run), code)
        romanized_words += [replace(word, roman=form) for word, form in zip(run, forms)]
    return replace(words, words=tuple(romanized_words))


def _uroman_code(language: str) -> str | None:
    base = language.replace("_", "-").partition("-")[0].lower()
    return _THREE_LETTERS.get(base, base if len(base) == 3 else None)


@lru_cache(maxsize=MOST_KEPT)
def _romanized_run(spokens: tuple[str, ...], code: str | None) -> tuple[str, ...]:
    if all(spoken.isascii() for spoken in spokens):
        return spokens
    text = "".join(spokens)
    owners = [word for word, spoken in enumerate(spokens) for _ in spoken]
    letters = [""] * len(spokens)
    for start, end, latin in _pieces(text, code):
        for place, part in enumerate(divided(latin, end - start)):
            letters[owners[start + place]] += part
    return tuple(" ".join(latin.split()) for latin in letters)


def _pieces(text: str, code: str | None) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end exclusive, Latin letters) of pieces that cover `text` without gaps, in order."""
    before = ""
    for edge in _edges(text, code):
        if edge.txt == _REPEATED:
            yield edge.start, edge.end, before
        elif _DIGIT.search(edge.txt) and not _DIGIT.search(text[edge.start : edge.end]):
            # uroman writes numerals as digits (三百 is 300); a spoken form needs their words.
            for place in range(edge.start, edge.end):
                yield place, place + 1, _plain(_numeral(text[place], code))
        else:
            before = _plain(edge.txt)
            yield edge.start, edge.end, before


def _edges(text: str, code: str | None, every: bool = False) -> list[Edge]:
    """Return uroman's best pieces of a text, or `every` piece that it knows."""
    from uroman import RomFormat

    edges: list[Edge] = _uroman().romanize_string(text, lcode=code, rom_format=RomFormat[("EDGES", "LATTICE")[every]])
    return edges


def _numeral(character: str, code: str | None) -> str:
    """Return a character for a number as a word: san for 三."""
    readings = [edge.txt for edge in _edges(character, code, every=True) if not _DIGIT.search(edge.txt)]
    return next((reading for reading in readings if reading), character)


@lru_cache(maxsize=MOST_KEPT)
def _plain(latin: str) -> str:
    """Return Latin text in lower case without accents and signs; apostrophes and spaces stay.

    >>> _plain("Č'est·2 ʼ")
    "c'est2 '"
    """
    latin = lower(_APOSTROPHE.sub("'", latin))
    bare = "".join(c for c in unicodedata.normalize("NFD", latin) if not unicodedata.combining(c))
    # Letters that are not Latin here are unknown to uroman; their marks may be letters.
    kept = bare if not any(c.isalpha() and not c.isascii() for c in bare) else latin
    return "".join(c for c in kept if c in "' " or unicodedata.category(c)[0] in "LMN")


@lru_cache(maxsize=1)
def _uroman() -> Uroman:
    """Load uroman's tables, which takes some seconds, once."""
    from uroman import Uroman

    return Uroman()
