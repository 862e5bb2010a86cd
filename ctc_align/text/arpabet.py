"""The 39 phones of CMUdict (ARPAbet without stress marks) and their broad classes."""

from __future__ import annotations

from collections.abc import Iterable

CLASSES: dict[str, tuple[str, ...]] = {
    "stop": ("B", "D", "G", "K", "P", "T"),
    "affricate": ("CH", "JH"),
    "fricative": ("DH", "F", "HH", "S", "SH", "TH", "V", "Z", "ZH"),
    "nasal": ("M", "N", "NG"),
    "liquid": ("L", "R"),
    "glide": ("W", "Y"),
    "vowel": ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"),
}

PHONES: tuple[str, ...] = tuple(sorted(phone for phones in CLASSES.values() for phone in phones))
"""All 39, in alphabetical order."""

VOWELS = frozenset(CLASSES["vowel"])

_CLASS_OF = {phone: name for name, phones in CLASSES.items() for phone in phones}
_STRESS = "012"


def strip_stress(label: str) -> str:
    """Return a phone without its stress digit; anything but an ARPAbet vowel with a digit is unchanged.

    >>> [strip_stress(label) for label in ("EY1", "a1", "t", "X2")]
    ['EY', 'a1', 't', 'X2']
    """
    if label[-1:] in _STRESS and label[:-1].upper() in VOWELS and label.isupper():
        return label[:-1]
    return label


def strip_all(labels: Iterable[str]) -> tuple[str, ...]:
    """Return a pronunciation without its stress digits.

    >>> strip_all("K AE1 T".split())
    ('K', 'AE', 'T')
    """
    return tuple(strip_stress(label) for label in labels)


def broad_class(phone: str) -> str | None:
    """Return the key of `CLASSES` that a phone belongs to; None for what is not one of the 39 phones.

    >>> broad_class("AH0"), broad_class("CH"), broad_class("spn")
    ('vowel', 'affricate', None)
    """
    return _CLASS_OF.get(strip_stress(phone))
