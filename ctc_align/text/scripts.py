"""Scripts that are written without spaces between words: where one character ends and the next begins."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U000323af"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
_ANY_SPACELESS = re.compile(f"[{_SPACELESS}]")
_STACKERS = "\u1039\u17d2"
_VOWELS_LIKE_MARKS = "\u0e33\u0eb3"
_PREFIXES = "#@+-−±~'’"

_LETTER, _EXTEND, _STACK, _OTHER, _OPEN, _PREFIX, _WIDE, _NARROW = "LXJAOSWP"
_ATOM = re.compile(r"(?P<core>L(?:J+L|[XJ])*|A(?:[AXJ]|[POS][POSX]*(?=A))*)|(?P<open>O|S(?=S*A))|(?P<close>.)")


def has_spaceless(text: str) -> bool:
    """Whether `text` holds a character of a script that is written without spaces."""
    return not text.isascii() and _ANY_SPACELESS.search(text) is not None


def character_spans(run: str, *, every: bool = False) -> list[tuple[int, int]]:
    """Cut a run without spaces into words; the spans (start, end exclusive) cover it without gaps, in order.

    A letter of a spaceless script is a word, with its marks; what lies between such letters (Latin words, digits)
    is one word. With `every`, each letter and digit of any script is a word.

    >>> [("iPhoneを買う。")[a:b] for a, b in character_spans("iPhoneを買う。")]
    ['iPhone', 'を', '買', 'う。']
    """
    kinds = _kinds(run, every)
    spans: list[tuple[int, int]] = []
    pending = -1  # start of punctuation that waits for the next word
    for atom in _ATOM.finditer(kinds):
        start, end = atom.span()
        if atom.lastgroup == "core":
            spans.append((start if pending < 0 else pending, end))
            pending = -1
        elif atom.lastgroup == "close" and pending < 0 and spans:
            spans[-1] = (spans[-1][0], end)
        elif pending < 0:
            pending = start
    if pending >= 0:
        spans[-1:] = [(spans[-1][0] if spans else pending, len(run))]
    return spans


def _kinds(run: str, every: bool) -> str:
    """One letter per character of `run`: what `_ATOM` matches."""
    kinds = []
    quote_is_open = False
    for character in run:
        kind = _kind(character, every)
        if character == '"':
            kind = _NARROW if quote_is_open else _OPEN
            quote_is_open = not quote_is_open
        kinds.append(kind)
    if kinds[0] == _EXTEND and unicodedata.category(run[0]) == "Lm":
        kinds[0] = _LETTER  # an iteration or length mark with nothing before it stands for itself
    return "".join(kinds)


@lru_cache(maxsize=16384)
def _kind(character: str, every: bool) -> str:
    category = unicodedata.category(character)
    spaceless = _ANY_SPACELESS.match(character) is not None
    if character in _STACKERS:
        return _STACK
    if category[0] == "M" or category == "Cf" or character in _VOWELS_LIKE_MARKS or (spaceless and category == "Lm"):
        return _EXTEND
    if category[0] in "LN":
        return _LETTER if every or (spaceless and category != "Nd") else _OTHER
    if category in ("Ps", "Pi"):
        return _OPEN
    if category == "Sc" or character in _PREFIXES:
        return _PREFIX
    return _WIDE if unicodedata.east_asian_width(character) in "WF" else _NARROW
