"""English numbers in words, American: no "and" inside a number, no hyphens, no commas."""

from __future__ import annotations

import re
from functools import lru_cache

INTEGER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
NUMBER = rf"(?:{INTEGER}(?:\.\d+)?|(?<!\w)\.\d+)"
"""Regular expression of a number as written: 5, 1,250, 3.14, .5"""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST_PLAIN = 9
_LONGEST_GROUPED = 48
_DENOMINATORS = frozenset((*range(2, 11), 12, 16, 20, 32, 64, 100, 1000))


def digits(text: str) -> str:
    """Digit by digit.

    >>> digits("007")
    'zero zero seven'
    """
    return " ".join(_DIGITS[int(digit)] for digit in text if digit.isdigit())


@lru_cache(maxsize=4096)
def cardinal(text: str) -> str:
    """A whole number; digit by digit where it looks like a code (a leading zero) or a telephone number (long).

    >>> cardinal("1,250"), cardinal("05")
    ('one thousand two hundred fifty', 'zero five')
    """
    bare = text.replace(",", "")
    grouped = len(bare) < len(text) or bare.endswith("000")
    if (bare[0] == "0" and len(bare) > 1) or len(bare) > (_LONGEST_GROUPED if grouped else _LONGEST_PLAIN):
        return digits(bare)
    return _words(int(bare), "cardinal")


@lru_cache(maxsize=4096)
def ordinal(text: str) -> str:
    """The ordinal of a whole number.

    >>> ordinal("21")
    'twenty first'
    """
    bare = text.replace(",", "")
    return _words(int(bare), "ordinal") if len(bare) <= _LONGEST_GROUPED else digits(bare)


def decimal(text: str) -> str:
    """A number with or without a decimal point.

    >>> decimal("3.05"), decimal(".5")
    ('three point zero five', 'point five')
    """
    whole, _, fraction = text.partition(".")
    words = [cardinal(whole)] if whole else []
    return " ".join([*words, "point", digits(fraction)] if fraction else words)


def is_year(text: str) -> bool:
    """Whether the digits are read as a year: four of them, 1100 to 2099."""
    return len(text) == 4 and text.isdigit() and "1100" <= text <= "2099"


def year(text: str) -> str:
    """Four digits as a year.

    >>> year("1999"), year("1905"), year("1900"), year("2005"), year("2026")
    ('nineteen ninety nine', 'nineteen oh five', 'nineteen hundred', 'two thousand five', 'twenty twenty six')
    """
    if "2000" <= text <= "2009":
        return cardinal(text)
    century, rest = text[:2], text[2:]
    if rest == "00":
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {two_digits(rest)}"


def two_digits(text: str) -> str:
    """Two digits after an hour or a century.

    >>> two_digits("05"), two_digits("30"), two_digits("00")
    ('oh five', 'thirty', 'oh oh')
    """
    if text[0] != "0":
        return cardinal(text)
    return "oh oh" if text == "00" else f"oh {digits(text[1])}"


def number(text: str) -> str:
    """A bare number: a year where it looks like one, else its value.

    >>> number("1999"), number("1,999")
    ('nineteen ninety nine', 'one thousand nine hundred ninety nine')
    """
    return year(text) if is_year(text) else decimal(text)


def plural(words: str) -> str:
    """Several of a number.

    >>> plural("nineteen ninety"), plural("six")
    ('nineteen nineties', 'sixes')
    """
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def fraction(above: str, below: str) -> str | None:
    """A proper fraction with a common denominator; None for any other pair.

    >>> fraction("1", "2"), fraction("3", "4"), fraction("4", "4")
    ('one half', 'three quarters', None)
    """
    if len(above) > 3 or len(below) > 4:
        return None
    count, parts = int(above), int(below)
    if parts not in _DENOMINATORS or not 0 < count < parts:
        return None
    name = {2: "half", 4: "quarter"}.get(parts) or ordinal(below).removeprefix("one ")
    return f"{cardinal(above)} {name if count == 1 else name + 's'}"


def _words(value: int, form: str) -> str:
    from num2words import num2words

    words = str(num2words(value, to=form, lang="en"))
    return " ".join(re.sub(r"\band\b|[,-]", " ", words).split())
