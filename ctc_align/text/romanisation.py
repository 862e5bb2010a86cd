"""Words of any script in Latin letters, by uroman (Hermjakob, May and Knight 2018), each letter kept with its word.

What is romanised is a run of words without spaces between them: one word, or in spaceless scripts many, whose sounds
depend on their neighbours (きゃ is kya, เกิด is koet). uroman says which characters each piece of its output stands for;
a piece of several words is shared out among them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from ctc_align.errors import UsageError
from ctc_align.text.characters import lower
from ctc_align.types import Word, Words

MOST_IN_A_RUN = 64
"""Words without spaces between them that are romanised together."""
MOST_KEPT = 2**16
"""Runs whose romanisation is kept in memory: in most scripts a run is a word."""

# The languages of which uroman has rules of their own, by their code of two letters.
_THREE_LETTERS = {
    "ar": "ara", "as": "asm", "be": "bel", "bg": "bul", "bn": "ben", "de": "deu", "el": "ell", "en": "eng", "fa": "fas",
    "gu": "guj", "kk": "kaz", "ks": "kas", "ky": "kir", "lt": "lit", "lv": "lav", "mk": "mkd", "os": "oss", "pa": "pan",
    "ps": "pus", "ru": "rus", "sa": "san", "sr": "srp", "tr": "tur", "ug": "uig", "uk": "ukr", "yi": "yid",
}  # fmt: skip
_REPEATED = "²"
"""uroman's word for 々, which repeats the character before it."""
_APOSTROPHE = re.compile("[’ʼ‘ʻ]")
_DIGIT = re.compile(r"[0-9]")


def require_uroman() -> None:
    """Raises UsageError where uroman is not installed."""
    if find_spec("uroman") is None:
        raise UsageError("romanize: uroman is missing: pip install 'ctc-align[romanize]'")


def romanized(words: Words, language: str) -> Words:
    """The same words, each with its spoken form in Latin letters as `roman`: lower-case ASCII, parted by spaces.

    A letter that is not heard (a Thai consonant under a thanthakhat) becomes "". What uroman does not know stays as it
    is. ASCII is left alone.

    Args:
        words: as `split` makes them; numbers are spoken already.
        language: BCP 47 or ISO 639 code; uroman has rules for some languages.

    Raises:
        UsageError: uroman is not installed.
    """
    require_uroman()
    code = _uromans(language)
    told: list[Word] = []
    for run in _runs(words.words):
        forms = _romanized_run(tuple(word.spoken for word in run), code)
        told += [replace(word, roman=form) for word, form in zip(run, forms)]
    return replace(words, words=tuple(told))


def _uromans(language: str) -> str | None:
    base = language.replace("_", "-").partition("-")[0].lower()
    return _THREE_LETTERS.get(base, base if len(base) == 3 else None)


def _runs(words: tuple[Word, ...]) -> Iterator[list[Word]]:
    """Words that follow each other without a space or a sign between them."""
    run: list[Word] = []
    for word in words:
        together = run and run[-1].char_end == word.char_start and len(run) < MOST_IN_A_RUN
        if run and not (together and _ends_in_letter(run[-1].text) and _begins_with_letter(word.text)):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _ends_in_letter(text: str) -> bool:
    return unicodedata.category(text[-1])[0] in "LM"


def _begins_with_letter(text: str) -> bool:
    return unicodedata.category(text[0])[0] in "LM"


@lru_cache(maxsize=MOST_KEPT)
def _romanized_run(spokens: tuple[str, ...], code: str | None) -> tuple[str, ...]:
    if all(spoken.isascii() for spoken in spokens):
        return spokens
    text = "".join(spokens)
    owners = [word for word, spoken in enumerate(spokens) for _ in spoken]
    letters = [""] * len(spokens)
    for start, end, latin in _pieces(text, code):
        for place, part in enumerate(_shared(latin, end - start)):
            letters[owners[start + place]] += part
    return tuple(" ".join(found.split()) for found in letters)


def _shared(latin: str, count: int) -> list[str]:
    """A piece of Latin text cut into `count` parts, one for each character it stands for.

    >>> _shared("kya", 2), _shared("t", 2), _shared("", 1)
    (['k', 'ya'], ['', 't'], [''])
    """
    cuts = [len(latin) * place // count for place in range(count + 1)]
    return [latin[start:end] for start, end in pairwise(cuts)]


def _pieces(text: str, code: str | None) -> Iterator[tuple[int, int, str]]:
    """Start and end (exclusive) in `text`, and the Latin letters that stand for it: without gaps, in order."""
    before = ""
    for edge in _edges(text, code):
        if edge.txt == _REPEATED:
            yield edge.start, edge.end, before
        elif _DIGIT.search(edge.txt) and not _DIGIT.search(text[edge.start : edge.end]):
            # uroman makes numbers of the characters for them (三百 is 300): here they are words, and are said.
            for place in range(edge.start, edge.end):
                yield place, place + 1, _plain(_said(text[place], code))
        else:
            before = _plain(edge.txt)
            yield edge.start, edge.end, before


def _edges(text: str, code: str | None, every: bool = False) -> list[Any]:
    from uroman import RomFormat

    found: list[Any] = _uroman().romanize_string(text, lcode=code, rom_format=RomFormat[("EDGES", "LATTICE")[every]])
    return found


def _said(character: str, code: str | None) -> str:
    """A character for a number as a word: san for 三."""
    readings = [edge.txt for edge in _edges(character, code, every=True) if not _DIGIT.search(edge.txt)]
    return next((reading for reading in readings if reading), character)


@lru_cache(maxsize=MOST_KEPT)
def _plain(latin: str) -> str:
    """Lower case without accents; signs go, but apostrophes and spaces.

    >>> _plain("Č'est·2 ʼ")
    "c'est2 '"
    """
    latin = lower(_APOSTROPHE.sub("'", latin))
    bare = "".join(c for c in unicodedata.normalize("NFD", latin) if not unicodedata.combining(c))
    # What is not Latin by now is unknown to uroman, and its marks may be letters.
    kept = bare if not any(c.isalpha() and not c.isascii() for c in bare) else latin
    return "".join(c for c in kept if c in "' " or unicodedata.category(c)[0] in "LMN")


@lru_cache(maxsize=1)
def _uroman() -> Any:
    """Loads its tables: some seconds, once."""
    from uroman import Uroman

    return Uroman()
