"""English spelling around the letter-to-phone network: folding to a-z, apostrophes, initials."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from ctc_align.text.arpabet import VOWELS

_FOLDED = {
    "ß": "ss", "ẞ": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "th", "þ": "th", "ħ": "h", "ı": "i",
    "ŋ": "ng", "ə": "e", "ŧ": "t", **dict.fromkeys("ʻʼ’‘", "'"),
}  # fmt: skip
_AFTER_SIBILANT = frozenset(("CH", "JH", "S", "SH", "Z", "ZH"))
_VOICELESS = frozenset(("F", "K", "P", "T", "TH"))
_SUFFIXES = ("'s", "'ll", "'d", "'ve", "'re")
_LONGEST_INITIALS = 4


def fold(spoken: str) -> tuple[str, tuple[str, ...]]:
    """Return a spoken word in letters a-z and apostrophes, and its letters (in NFC) that have no such spelling.

    Accents come off (é is e), ß is ss, æ is ae; what is neither letter, digit nor mark is dropped.

    >>> fold("Zoë's"), fold("straße"), fold("tschüß!")
    (("zoe's", ()), ('strasse', ()), ('tschuss', ()))
    >>> fold("wодa")
    ('wa', ('о', 'д'))
    """
    if spoken.isascii() and spoken.isalpha():
        return spoken.lower(), ()
    letters, missing = [], []
    for character in unicodedata.normalize("NFC", spoken.lower()):
        folded = _folded(character)
        if folded is None:
            missing.append(character)
        else:
            letters.append(folded)
    return "".join(letters), tuple(missing)


@lru_cache(maxsize=16384)
def _folded(character: str) -> str | None:
    """Return one character in a-z and '; "" if it is not pronounced, None if English has no letters for it."""
    if "a" <= character <= "z" or character == "'":
        return character
    if character in _FOLDED:
        return _FOLDED[character]
    base = [part for part in unicodedata.normalize("NFKD", character) if not unicodedata.combining(part)]
    folded = "".join(_FOLDED.get(part, part) for part in base).lower()
    if base and all("a" <= part <= "z" or part == "'" for part in folded):
        return folded
    category = unicodedata.category(character)
    # Marks with combining class 0 are vowel signs of Indic scripts and the like: letters, unlike accents.
    is_sign = category in ("Mc", "Mn") and unicodedata.combining(character) == 0 and not _is_selector(character)
    return None if category[0] in "LN" or is_sign else ""


def _is_selector(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef" or character == "\u034f"


def split_suffix(word: str) -> tuple[str, str] | None:
    """Return base and clitic of "john's", "they'll" …; None where there is none.

    >>> split_suffix("john's"), split_suffix("'s"), split_suffix("don't")
    (('john', "'s"), None, None)
    """
    for suffix in _SUFFIXES:
        base = word.removesuffix(suffix)
        if base != word and any(letter != "'" for letter in base):
            return base, suffix
    return None


def add_suffix(phones: tuple[str, ...], suffix: str) -> tuple[str, ...]:
    """Return a pronunciation with a clitic of `split_suffix` after it.

    >>> add_suffix(("CH", "ER", "CH"), "'s"), add_suffix(("K", "AE", "T"), "'s"), add_suffix(("B", "IY"), "'s")
    (('CH', 'ER', 'CH', 'IH', 'Z'), ('K', 'AE', 'T', 'S'), ('B', 'IY', 'Z'))
    """
    last = phones[-1] if phones else ""
    if suffix == "'s":
        return phones + (("IH", "Z") if last in _AFTER_SIBILANT else ("S",) if last in _VOICELESS else ("Z",))
    if suffix == "'d":
        return phones + (("IH", "D") if last in ("T", "D") else ("D",))
    if suffix == "'ve":
        return phones + (("V",) if last in VOWELS else ("AH", "V"))
    return phones + (("AH", "L") if suffix == "'ll" else ("ER",))


def is_initialism(word: str) -> bool:
    """Return whether a word looks like initials that are spelt out: two to four letters, none of them a vowel.

    >>> is_initialism("bbc"), is_initialism("rhythm"), is_initialism("b")
    (True, False, False)
    """
    return 2 <= len(word) <= _LONGEST_INITIALS and not set(word) & set("aeiouy'")
