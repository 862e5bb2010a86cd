"""Labels of CTM and TextGrid: a written word without its outer punctuation."""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

from ctc_align.text.spoken_english import drops_g, is_elision

_KEPT = "%‰#@&°№©"
_SELECTORS = {*map(chr, range(0xFE00, 0xFE10)), "\u20e3"}
_STRIPPED_SYMBOLS = "^`´~|<>"
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]$")
_SIGN_AND_POINT = re.compile(r"(?:^|[^\w.\-−])([-−]?\.?)$")
_TAGS = re.compile(r"<[^<>]*>")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def outer_punctuation_stripped(word: str) -> str:
    """Return `word` without the punctuation around it; inner punctuation stays, and a word never becomes empty.

    Signs that are spoken (currency, %, #, @, &, +, °, a minus or a point before a digit) stay, and so do the apostrophe
    of a known elision ('tis, '90s, goin'), the last dot of initials (U.S.) and a bracket that opens inside the word.

    >>> [outer_punctuation_stripped(word) for word in ("Hello,", "(“Yes!”)", "$3.50", "(U.S.)", "...")]
    ['Hello', 'Yes', '$3.50', 'U.S.', '...']
    """
    start, end = 0, len(word)
    while start < end and _is_outer(word[start]):
        start += 1
    if start == end:
        return word
    while _is_outer(word[end - 1]) and not _closes_inside(word, start, end):
        end -= 1
    core = word[start:end]
    return _prefix(word[:start], core) + core + _suffix(core, word[end:])


def without_markup(word: str) -> str:
    """Return `word` with its entities decoded and without the tags inside it, as it is read.

    >>> without_markup("R&amp;D"), without_markup("un<b>believ</b>able"), without_markup("AT&T")
    ('R&D', 'unbelievable', 'AT&T')
    """
    if "&" in word and ";" in word:
        word = html.unescape(word)
    return (_TAGS.sub("", word) or word) if "<" in word and ">" in word else word


def _prefix(before: str, core: str) -> str:
    """Return the part of the punctuation before `core` that belongs to it."""
    if core[0].isdigit() or unicodedata.category(core[0]) == "Sc":
        sign = _SIGN_AND_POINT.search(before)
        if sign:
            return sign.group(1) or _apostrophe(before, core[0].isdigit())
    return _apostrophe(before, is_elision(core, before[-1:]))


def _apostrophe(before: str, wanted: bool) -> str:
    return before[-1] if wanted and before.endswith(("'", "’", "‘")) else ""


def _suffix(core: str, after: str) -> str:
    if after.startswith(".") and _INITIALS.match(core):
        return "."
    if after.startswith(("'", "’")) and drops_g(core) and core.isalpha():
        return after[0]
    return ""


def _closes_inside(word: str, start: int, end: int) -> bool:
    closing = word[end - 1]
    opening = _BRACKETS.get(closing)
    return opening is not None and word.count(opening, start, end) >= word.count(closing, start, end)


@lru_cache(maxsize=4096)
def _is_outer(character: str) -> bool:
    if character in _SELECTORS or character in _STRIPPED_SYMBOLS:
        return True
    if character in _KEPT:
        return False
    category = unicodedata.category(character)
    return category[0] in "PCZ" or category in ("So", "Sk")
