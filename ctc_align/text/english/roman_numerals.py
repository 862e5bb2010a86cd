"""Roman numerals, where they cannot be anything else."""

from __future__ import annotations

import re

from ctc_align.text.characters import word_set
from ctc_align.text.english.numbers import cardinal, ordinal

_SEVERAL = re.compile(r"(?=[IVX]{2}|[IVXL]{3})(X{0,3}|XL|LX{0,3})(IX|IV|V?I{0,3})")
_SINGLE = re.compile(r"[IVX]")
_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}
_NUMBERED = word_set("chapter act scene volume vol book part war phase type stage section title appendix")
_NUMBERED_BEFORE_I = word_set("chapter act scene volume vol war part phase type stage")
_REIGNING = word_set(
    """alexander alfonso benedict carlos catherine charles christian clement edward elizabeth ferdinand francis
    frederick george gregory gustav henry innocent ivan james john leo louis mary mehmed napoleon nicholas otto paul
    peter philip pius ptolemy ramses richard umberto urban wilhelm william"""
)


def roman(numeral: str, before: str, shouting: bool) -> str | None:
    """A Roman numeral after the word `before`; None where the letters may be something else.

    After a reigning name an ordinal (Henry VIII: "the eighth"), after another capitalised word a cardinal
    (World War II, Chapter IV). A single I, V or X only after a word such as Chapter. Where all is in capitals, only
    after those names and words.

    >>> roman("VIII", "Henry", False), roman("II", "War", False), roman("I", "Charles", False)
    ('the eighth', 'two', None)
    """
    name = re.sub(r"\W", "", before).lower()
    single = _SINGLE.fullmatch(numeral) is not None
    if not (single or _SEVERAL.fullmatch(numeral)):
        return None
    if single:
        return _single(numeral, name, before[:1].isupper() and not shouting)
    value = str(_value(numeral))
    if name in _REIGNING:
        return f"the {ordinal(value)}"
    likely = name in _NUMBERED or (before[:1].isupper() and not shouting and name not in ("the", "a", "an", "my"))
    return cardinal(value) if likely else None


def _single(numeral: str, name: str, titled: bool) -> str | None:
    """One letter; "I" only where the word before is a title's (Chapter I), since it is a pronoun elsewhere."""
    numbered = (titled and name in _NUMBERED_BEFORE_I) if numeral == "I" else name in _NUMBERED
    return cardinal(str(_VALUES[numeral])) if numbered else None


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    return sum(-v if v < after else v for v, after in zip(values, [*values[1:], 0]))
