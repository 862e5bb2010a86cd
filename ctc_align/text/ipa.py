"""The broad phones of the International Phonetic Alphabet that all languages share here, and their classes.

Length, tone, stress, aspiration and palatalisation are not told apart: what the spelling of some language leaves out,
or a small acoustic model hardly hears, is no phone of its own. Diphthongs are two vowels.
"""

from __future__ import annotations

from collections.abc import Iterable

IPA_CLASSES: dict[str, tuple[str, ...]] = {
    "stop": ("b", "d", "k", "p", "q", "t", "ɖ", "ɡ", "ʈ", "ʔ"),
    "affricate": ("dz", "dʒ", "ts", "tʃ"),
    "fricative": ("f", "h", "s", "v", "x", "z", "ð", "ɣ", "ʁ", "ʃ", "ʒ", "θ"),
    "nasal": ("m", "n", "ŋ", "ɲ"),
    "liquid": ("l", "r", "ɹ"),
    "glide": ("j", "w"),
    "vowel": ("a", "e", "i", "o", "u", "y", "æ", "ø", "ɔ", "ə", "ɛ", "ɨ", "ɪ", "ʊ", "ã", "ɛ̃", "ɔ̃"),
}

IPA_PHONES: tuple[str, ...] = tuple(sorted(phone for phones in IPA_CLASSES.values() for phone in phones))
"""All 52, in the order of their code points."""

IPA_VOWELS = frozenset(IPA_CLASSES["vowel"])

OF_ARPABET: dict[str, tuple[str, ...]] = {
    "AA": ("a",), "AE": ("æ",), "AH": ("ə",), "AO": ("ɔ",), "AW": ("a", "ʊ"), "AY": ("a", "ɪ"), "B": ("b",),
    "CH": ("tʃ",), "D": ("d",), "DH": ("ð",), "EH": ("ɛ",), "ER": ("ə", "ɹ"), "EY": ("e", "ɪ"), "F": ("f",),
    "G": ("ɡ",), "HH": ("h",), "IH": ("ɪ",), "IY": ("i",), "JH": ("dʒ",), "K": ("k",), "L": ("l",), "M": ("m",),
    "N": ("n",), "NG": ("ŋ",), "OW": ("o", "ʊ"), "OY": ("ɔ", "ɪ"), "P": ("p",), "R": ("ɹ",), "S": ("s",),
    "SH": ("ʃ",), "T": ("t",), "TH": ("θ",), "UH": ("ʊ",), "UW": ("u",), "V": ("v",), "W": ("w",), "Y": ("j",),
    "Z": ("z",), "ZH": ("ʒ",),
}  # fmt: skip
"""The phones of English, each in these."""

NEAREST_ARPABET: dict[str, str] = {
    "a": "AA", "b": "B", "d": "D", "dz": "Z", "dʒ": "JH", "e": "EY", "f": "F", "h": "HH", "i": "IY", "j": "Y", "k": "K",
    "l": "L", "m": "M", "n": "N", "o": "OW", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T", "ts": "S", "tʃ": "CH",
    "u": "UW", "v": "V", "w": "W", "x": "HH", "y": "UW", "z": "Z", "ã": "AA", "æ": "AE", "ð": "DH", "ø": "ER",
    "ŋ": "NG", "ɔ": "AO", "ɔ̃": "AO", "ɖ": "D", "ə": "AH", "ɛ": "EH", "ɛ̃": "AE", "ɡ": "G", "ɣ": "G", "ɨ": "IH",
    "ɪ": "IH", "ɲ": "N", "ɹ": "R", "ʁ": "R", "ʃ": "SH", "ʈ": "T", "ʊ": "UH", "ʒ": "ZH", "ʔ": "T", "θ": "TH",
}  # fmt: skip
"""For each phone the English one that sounds most like it: where a network of another phone set may begin."""


def is_ipa(vocab: Iterable[str]) -> bool:
    """Return whether a vocabulary has all of `IPA_PHONES`.

    >>> is_ipa(("<blank>", *IPA_PHONES)), is_ipa("abdefhijklmnopqrstuvwxyz")
    (True, False)
    """
    return frozenset(vocab).issuperset(IPA_PHONES)


def ipa_class(phone: str) -> str | None:
    """Return the key of `IPA_CLASSES` that a phone belongs to; None for what is not one of `IPA_PHONES`.

    >>> ipa_class("ɲ"), ipa_class("AA")
    ('nasal', None)
    """
    return next((name for name, phones in IPA_CLASSES.items() if phone in phones), None)
