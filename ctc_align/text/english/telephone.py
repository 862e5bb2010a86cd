"""Telephone numbers, which are read digit by digit: those of one word or of several, extensions, and emergency numbers.

A number counts as one by its shape (a plus, an area code in brackets, 3-3-4 digits), or after a word such as "call".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ctc_align.text.english.abbreviations import spelled_out
from ctc_align.text.english.numbers import digits

_GAP = r"[-. \u2010\u2011–]"
_AREA = r"(?:\(\d{3}\) ?|\d{3}[-.\u2010\u2011–]|[2-9]\d\d )"
_START = r"(?<![^\s(\[\"'“‘:;,/])(?<![$£€#]\()"
_END = r"(?=[)\]\"'”’.,;:!?…]*(?: |$))"
_CUE = r"\b(?:tel|phone|telephone|fax|mobile|cell|calls?|called|calling|dials?|dialed|dialled|dialing|ring|text)"
_TO_WHOM = r"(?:\.|:|\.:)?(?: (?:me|us|him|her|them|now|today))?(?: (?:at|on|is|number|no\.))*:? "
_NUMBERS = (
    # (212) 555-0123, 1-800-555-0199, 212 555 0123
    rf"{_START}(?:\+?1{_GAP})?{_AREA}\d{{3}}{_GAP}\d{{4}}{_END}",
    # +44 20 7946 0958, +49 (0)30 901820
    rf"{_START}\+\d{{1,3}}(?:{_GAP}?\(?\d{{1,6}}\)?){{1,6}}{_END}",
    # 020 7946 0958, 07700 900123, 0800 123 456
    rf"{_START}\(?0\d{{2,4}}\)?[- ]\d{{3,6}}(?:[- ]\d{{3,4}})?{_END}",
)
_AFTER_CUE = rf"(?i:{_CUE}{_TO_WHOM})(?P<number>\(?\d{{1,5}}\)?(?:{_GAP}?\(?\d{{2,5}}\)?){{0,4}}){_END}"
_LETTERS = r"(?P<rest>(?=[A-Z0-9-]{6,12}(?![\w-]))[A-Z][A-Z0-9-]*)"
_VANITY = re.compile(rf"{_START}(?P<plain>1[- ])?(?P<area>[2-9]\d\d)-{_LETTERS}")
_EXTENSION = re.compile(r"(?i:\b(?:ext|extension|x)\.?:? ?)(?P<number>\d{3,6})\b")
_EMERGENCY = re.compile(
    rf"(?i:{_CUE} (?:the )?)(?P<before>[2-9]11|988|999|112|000)\b(?![-/.]?\d)"
    r"|\b(?P<after>911|999|112)(?i: (?:operator|dispatcher|call|calls|caller|emergency))\b"
)
_BY_SHAPE = re.compile("|".join(_NUMBERS))
_BY_CUE = re.compile(_AFTER_CUE)
_LEAST, _MOST = 7, 15
_TOLL_FREE = re.compile(r"[89]00")


def telephone_words(written: Sequence[str]) -> dict[int, str]:
    """Return the spoken forms of the words that are telephone numbers or parts of one, by their places.

    >>> telephone_words(["Call", "(212)", "555-0123", "x4567."])
    {1: 'two one two', 2: 'five five five zero one two three', 3: 'extension four five six seven'}
    >>> telephone_words(["pages", "200-300,", "in", "2001"])
    {}
    """
    if not any(any(map(str.isdigit, word)) for word in written):
        return {}
    text = " ".join(written)
    found: dict[int, str] = {}
    for start, end in _spans(text):
        first = text.count(" ", 0, start)
        for place in range(first, first + text.count(" ", start, end) + 1):
            word = written[place]
            found[place] = ("plus " if word.lstrip("([\"'“‘").startswith("+") else "") + digits(word)
    for match in _VANITY.finditer(text):
        found[text.count(" ", 0, match.start("area"))] = _vanity(match)
        if match["plain"] and match["plain"].endswith(" "):
            found[text.count(" ", 0, match.start())] = "one"
    for match in _EXTENSION.finditer(text):
        place = text.count(" ", 0, match.start("number"))
        word = written[place].lstrip("([").lower()
        found[place] = ("extension " if word.startswith(("x", "ext")) else "") + digits(match["number"])
    return found


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the numbers in a text, (start, end exclusive)."""
    spans = [match.span() for match in _BY_SHAPE.finditer(text) if _is_number(match[0])]
    spans += [match.span("number") for match in _BY_CUE.finditer(text) if _has_length(match["number"])]
    for match in _EMERGENCY.finditer(text):
        spans.append(match.span("before" if match["before"] else "after"))
    return spans


def _is_number(written: str) -> bool:
    """Return whether what has the shape of a number may be one: long enough, and no list of round figures."""
    return _has_length(written) and not re.fullmatch(r"\d00 \d00 \d000", written)


def _has_length(written: str) -> bool:
    return _LEAST <= sum(map(str.isdigit, written)) <= _MOST


def _vanity(match: re.Match[str]) -> str:
    """Read 1-800-FLOWERS: "one eight hundred flowers"."""
    area = f"{digits(match['area'][0])} hundred" if _TOLL_FREE.fullmatch(match["area"]) else digits(match["area"])
    parts = re.findall(r"[A-Z]+|\d+", match["rest"])
    rest = [digits(part) if part.isdigit() else spelled_out(part, False) or part.lower() for part in parts]
    return " ".join([*(["one"] if match["plain"] == "1-" else []), area, *rest])
