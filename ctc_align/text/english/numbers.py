"""English numbers in words, the American way: no "and" inside a number, no hyphens, no commas. Roman numerals too."""

from __future__ import annotations

import re
from functools import lru_cache

from ctc_align.text.characters import word_set

INTEGER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"
NUMBER = rf"(?:{INTEGER}(?:\.\d+)?|(?<!\w)\.\d+)"
"""Regular expression of a number as written: 5, 1,250, 3.14, .5"""

_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_LONGEST_PLAIN = 9
_LONGEST_GROUPED = 48
_DENOMINATORS = frozenset((*range(2, 11), 12, 16, 20, 32, 64, 100, 1000))
_ROMAN = re.compile(r"(?=[IVX]{2}|[IVXL]{3})(X{0,3}|XL|LX{0,3})(IX|IV|V?I{0,3})")
_ROMAN_LETTER = re.compile(r"[IVX]")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}
_NUMBERED = word_set("chapter act scene volume vol book part war phase type stage section title appendix")
_NUMBERED_BEFORE_I = word_set("chapter act scene volume vol war part phase type stage")
_REIGNING = word_set(
    """alexander alfonso benedict carlos catherine charles christian clement edward elizabeth ferdinand francis
    frederick george gregory gustav henry innocent ivan james john leo louis mary mehmed napoleon nicholas otto paul
    peter philip pius ptolemy ramses richard umberto urban wilhelm william"""
)


def digits(text: str) -> str:
    """Read a number digit by digit.

    >>> digits("007")
    'zero zero seven'
    """
    return " ".join(_DIGITS[int(digit)] for digit in text if digit.isdigit())


@lru_cache(maxsize=4096)
def cardinal(text: str) -> str:
    """Read a whole number; digit by digit if it looks like a code (a leading zero) or a telephone number (long).

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
    """Read a whole number as an ordinal.

    >>> ordinal("21")
    'twenty first'
    """
    bare = text.replace(",", "")
    return _words(int(bare), "ordinal") if len(bare) <= _LONGEST_GROUPED else digits(bare)


def decimal(text: str) -> str:
    """Read a number with or without a decimal point.

    >>> decimal("3.05"), decimal(".5")
    ('three point zero five', 'point five')
    """
    whole, _, fraction = text.partition(".")
    words = [cardinal(whole)] if whole else []
    return " ".join([*words, "point", digits(fraction)] if fraction else words)


def is_year(text: str) -> bool:
    """Return whether digits are read as a year: four of them, 1100 to 2099."""
    return len(text) == 4 and text.isdigit() and "1100" <= text <= "2099"


def year(text: str) -> str:
    """Read four digits as a year.

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
    """Read two digits after an hour or a century.

    >>> two_digits("05"), two_digits("30"), two_digits("00")
    ('oh five', 'thirty', 'oh oh')
    """
    if text[0] != "0":
        return cardinal(text)
    return "oh oh" if text == "00" else f"oh {digits(text[1])}"


def number(text: str) -> str:
    """Read a bare number: as a year where it looks like one, else its value.

    >>> number("1999"), number("1,999")
    ('nineteen ninety nine', 'one thousand nine hundred ninety nine')
    """
    return year(text) if is_year(text) else decimal(text)


def plural(words: str) -> str:
    """Return the plural of a number in words.

    >>> plural("nineteen ninety"), plural("six")
    ('nineteen nineties', 'sixes')
    """
    if words.endswith("y"):
        return words[:-1] + "ies"
    return words + ("es" if words.endswith("x") else "s")


def fraction(above: str, below: str) -> str | None:
    """Read a proper fraction with a common denominator; None for any other pair.

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


def roman(numeral: str, before: str, shouting: bool) -> str | None:
    """Read a Roman numeral after the word `before`; None where the letters may be something else.

    After a reigning name an ordinal (Henry VIII: "the eighth"), after another capitalised word a cardinal
    (World War II, Chapter IV). A single I, V or X only after a word such as Chapter. Where all is in capitals, only
    after those names and words.

    >>> roman("VIII", "Henry", False), roman("II", "War", False), roman("I", "Charles", False)
    ('the eighth', 'two', None)
    """
    name = re.sub(r"\W", "", before).lower()
    single = _ROMAN_LETTER.fullmatch(numeral) is not None
    if not (single or _ROMAN.fullmatch(numeral)):
        return None
    if single:
        return _roman_letter(numeral, name, before[:1].isupper() and not shouting)
    value = str(_roman_value(numeral))
    if name in _REIGNING:
        return f"the {ordinal(value)}"
    likely = name in _NUMBERED or (before[:1].isupper() and not shouting and name not in ("the", "a", "an", "my"))
    return cardinal(value) if likely else None


def _roman_letter(numeral: str, name: str, titled: bool) -> str | None:
    """Read one letter; "I" only after a capitalised word such as Chapter, since it is a pronoun elsewhere."""
    numbered = (titled and name in _NUMBERED_BEFORE_I) if numeral == "I" else name in _NUMBERED
    return cardinal(str(_ROMAN_VALUES[numeral])) if numbered else None


def _roman_value(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0]))


def _words(value: int, form: str) -> str:
    from num2words import num2words

    words = str(num2words(value, to=form, lang="en"))
    return " ".join(re.sub(r"\band\b|[,-]", " ", words).split())
