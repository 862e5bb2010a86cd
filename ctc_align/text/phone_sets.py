"""The two sets of phones.

ARPAbet for English, and broad phones of the International Phonetic Alphabet.

ARPAbet has the 39 phones of CMUdict without stress marks. The 52 phones of IPA are for all
languages. They do not distinguish length, tone, stress, aspiration and palatalisation, because the
spelling of some languages does not show them, or because a small acoustic model hardly hears them.
Diphthongs are two vowels.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from ctc_align.text.tables import EVERY, sections, text_table

Phones = tuple[str, ...]
"""The phones of a word, or of a part of one, in order."""


def _phone_lists(section: str, between: str | None = None) -> dict[str, Phones]:
    return {
        key: tuple(phones.split(between)) for key, phones in text_table("phones", section).items()
    }


ARPABET_CLASSES = _phone_lists("arpabet-classes", ",")

ARPABET_PHONES: Phones = tuple(
    sorted(phone for phones in ARPABET_CLASSES.values() for phone in phones)
)
"""All 39, in alphabetical order."""

ARPABET_VOWELS = frozenset(ARPABET_CLASSES["vowel"])

_CLASS_OF = {phone: name for name, phones in ARPABET_CLASSES.items() for phone in phones}
_STRESS = "012"


def strip_stress(label: str) -> str:
    """Return a phone without its stress digit.

    Anything but an ARPAbet vowel with a digit is unchanged.

    >>> [strip_stress(label) for label in ("EY1", "a1", "t", "X2")]
    ['EY', 'a1', 't', 'X2']
    """
    if label[-1:] in _STRESS and label[:-1].upper() in ARPABET_VOWELS and label.isupper():
        return label[:-1]
    return label


def strip_all(labels: Iterable[str]) -> Phones:
    """Return a pronunciation without its stress digits.

    >>> strip_all("K AE1 T".split())
    ('K', 'AE', 'T')
    """
    return tuple(strip_stress(label) for label in labels)


def arpabet_class(phone: str) -> str | None:
    """Return the key of `ARPABET_CLASSES` to which a phone belongs.

    None if it is not one of the 39 phones.

    >>> arpabet_class("AH0"), arpabet_class("CH"), arpabet_class("spn")
    ('vowel', 'affricate', None)
    """
    return _CLASS_OF.get(strip_stress(phone))


IPA_CLASSES = _phone_lists("ipa-classes", ",")

IPA_PHONES: Phones = tuple(sorted(phone for phones in IPA_CLASSES.values() for phone in phones))
"""All 52, in the order of their code points."""

_ALL_IPA = frozenset(IPA_PHONES)
IPA_VOWELS = frozenset(IPA_CLASSES["vowel"])

IPA_OF_ARPABET = _phone_lists("ipa-of-arpabet")
"""The IPA phones of each English phone."""

_IPA_LABELS = text_table("phones", "ipa-labels")
"""The IPA label of each English phone, of AH and ER by their stress."""
_IPA_STRESS = {"1": "ˈ", "2": "ˌ"}


def phone_label(label: str, *, ipa: bool, stress: bool) -> str:
    """Return the label of an ARPAbet phone as it is shown; anything else is unchanged.

    >>> [phone_label("OY1", ipa=ipa, stress=stress) for ipa in (False, True) for stress in (False, True)]
    ['OY', 'OY1', 'ɔɪ', 'ˈɔɪ']
    """
    bare = strip_stress(label)
    if not ipa or bare.upper() not in _IPA_LABELS:
        if stress:
            return label
        return bare
    mark = ""
    if stress:
        mark = _IPA_STRESS.get(label[len(bare) :], "")
    return mark + _IPA_LABELS.get(label.upper(), _IPA_LABELS[bare.upper()])


_ARPABET_LABELS = {ipa: strip_stress(arpabet) for arpabet, ipa in _IPA_LABELS.items()}


def arpabet_label(label: str, *, stress: bool) -> str:
    """Return the ARPAbet label of an English phone that is shown in IPA.

    Anything else is unchanged.

    >>> [arpabet_label(label, stress=True) for label in ("ˈɔɪ", "ʌ", "ɚ", "t", "OY1")]
    ['OY1', 'AH0', 'ER0', 'T', 'OY1']
    """
    phone = _ARPABET_LABELS.get(label.lstrip("ˈˌ"))
    if phone is None:
        return label
    mark = next((digit for digit, sign in _IPA_STRESS.items() if label.startswith(sign)), "0")
    if stress and phone in ARPABET_VOWELS:
        return phone + mark
    return phone


def label_in(alphabet: str, label: str, *, stress: bool) -> str:
    """Return the label of an English phone in "arpabet" or "ipa".

    Anything else is unchanged, and so are all labels for any other name.

    >>> [label_in(*each, stress=False) for each in (("ipa", "OY1"), ("arpabet", "ɔɪ"), ("auto", "ɔɪ"))]
    ['ɔɪ', 'OY', 'ɔɪ']
    """
    if alphabet == "ipa" and label.isascii() and label.isupper():
        return phone_label(label, ipa=True, stress=stress)
    if alphabet == "arpabet":
        return arpabet_label(label, stress=stress)
    return label


NEAREST_ARPABET = text_table("phones", "nearest-arpabet")
"""The English phone that sounds most like each IPA phone; used to initialise a network for the
other phone set."""


BROAD_IPA = text_table("phones", "broad-ipa")
"""The phones of `IPA_PHONES` that replace other IPA symbols."""

NEAREST_IPA = text_table("phones", "nearest-ipa")
"""For each phone of `IPA_PHONES`, the ones that sound most like it, nearest first (two with +): for
vocabularies that lack it."""

_CERTAIN = frozenset("ʃɪʊɹɾʌɑɒɜɐɡʁɯʂʐɕʑɻʎʝʕɚɝːˈˤ")
"""Symbols of IPA that hardly any orthography has: of ə ɛ ɔ ŋ ɣ ɖ ð θ æ ø there are Azerbaijani,
Ewe, Akan, Greek …"""
_FEWEST_CERTAIN = 2
FEWEST_PHONES = 3
NEARLY_ALL = 0.9
"""The least share of written words that are tokens in a transcript of tokens."""
_UNWRITTEN = "ːˑˈˌ͜͡"
"""Length, stress and ties, which are not distinguished."""


def broad_phones(token: str) -> Phones:
    """Return an IPA symbol, or several in one token, as phones of `IPA_PHONES`.

    () for anything else.

    >>> [broad_phones(token) for token in ("ɑː", "t͡ʃʰ", "oʊ", "ɝ", "ũ", "SIL")]
    [('a',), ('tʃ',), ('o', 'ʊ'), ('ə', 'ɹ'), ('u',), ()]
    """
    symbols = "".join(c for c in unicodedata.normalize("NFC", token) if c not in _UNWRITTEN)
    phones: list[str] = []
    while symbols:
        # Longest first, then without modifiers (ʰ ʲ ʷ, tones) and diacritics, also those that a
        # letter includes (ọ, ĩ).
        for length in (3, 2, 1):
            known = unicodedata.normalize("NFD", symbols[:length])
            forms = [symbols[:length], known]
            if length == 1:
                forms.append(known[:1])
            found = next((f for f in forms if f in BROAD_IPA or f in _ALL_IPA), None)
            if found is not None:
                phones += BROAD_IPA.get(found, found).split()
                break
        else:
            length = 1
            if not phones or unicodedata.category(symbols[0]) not in ("Lm", "Sk", "Mn"):
                return ()
        symbols = symbols[length:]
    return tuple(phones)


def reads_ipa(vocab: Iterable[str]) -> bool:
    """Return whether most tokens are IPA symbols, some of which no orthography has.

    Phones may be missing.

    >>> reads_ipa(IPA_PHONES[::2]), reads_ipa("abcçdeəfgğhxıijkqlm"), reads_ipa("abdɖeɛfgɣhiklmnŋoɔprstuvʋwyz")
    (True, False, False)
    """
    tokens = list(vocab)
    symbols = _CERTAIN.intersection("".join(tokens))
    return len(symbols) >= _FEWEST_CERTAIN and 2 * sum(map(bool, map(broad_phones, tokens))) > len(
        tokens
    )


def is_ipa(vocab: Iterable[str]) -> bool:
    """Return whether a vocabulary has all of `IPA_PHONES`.

    Those of the models of this project do; see `reads_ipa` for others.

    >>> is_ipa(("<blank>", *IPA_PHONES)), is_ipa("abdefhijklmnopqrstuvwxyz")
    (True, False)
    """
    return frozenset(vocab).issuperset(IPA_PHONES)


_CLOSE = frozenset("iuyɨɪʊ")
_ANY_R = str.maketrans("ɹʁ", "rr")
_SYLLABIC = "\u0329"


def is_vowel(label: str) -> bool:
    """Return whether a phone of ARPAbet or IPA is a vowel or a diphthong.

    >>> [is_vowel(label) for label in ("AH0", "T", "ˈɔɪ", "aː", "w")]
    [True, False, True, True, False]
    """
    if strip_stress(label) in ARPABET_VOWELS:
        return True
    return not IPA_VOWELS.isdisjoint(broad_phones(label))


def syllable_starts(labels: Sequence[str], code: str, *, has_diphthongs: bool = False) -> list[int]:
    """Return the index of the first phone of each syllable of a word, by maximal onsets.

    Each vowel, diphthong and syllabic consonant (n̩, EN) is a syllable. It begins with as many of
    the consonants before it as can begin a syllable in the language (sounds/onsets.txt). A word
    without any of them is one syllable. Labels that are not phones (closures of stops) stay with
    the next phone.

    Args:
        labels: ARPAbet, with or without stress, or IPA.
        code: of the language, as `base_code` returns it; ARPAbet is English.
        has_diphthongs: whether the phones include diphthongs; otherwise two vowels can be one.

    >>> syllable_starts("EH1 K S T R AH0".split(), "en"), syllable_starts("f a ɪ ə ɹ".split(), "en")
    ([0, 2], [0, 3])
    """
    table = sections("sounds/onsets")
    more = text_table("sounds/onsets", "arpabet")
    bare = [strip_stress(label.upper()) for label in labels]
    sounds = [broad_phones(label) for label in labels]
    if is_arpabet := not ARPABET_VOWELS.isdisjoint(bare):
        sounds = [IPA_OF_ARPABET.get(label, tuple(more.get(label, ""))) for label in bare]
    section = table.get("en" if is_arpabet else code, table[EVERY])
    onsets = set(section.entries.split())
    glides = section.options.get("glides", "")
    diphthongs = section.options.get("diphthongs", "").split(",")

    def can_begin(first: int, vowel: int) -> bool:
        onset = [phone for sound in sounds[first:vowel] for phone in sound]
        onset = onset[: -1 if len(onset) > 1 and onset[-1] in glides else None]
        is_consonant = len(onset) < 2 and IPA_VOWELS.isdisjoint(onset) and onset != ["ŋ"]
        return is_consonant or "".join(onset).translate(_ANY_R) in onsets

    starts: list[int] = []
    vowel = -1
    before = ""
    is_joined = False
    for index, (label, sound) in enumerate(zip(labels, sounds)):
        first = "".join(sound[:1])
        closes = first in ("ɪ", "ʊ") and before not in _CLOSE
        closes |= not is_joined and before + first in diphthongs
        is_joined = closes and before in IPA_VOWELS and not (is_arpabet or has_diphthongs)
        if not is_joined and (first in IPA_VOWELS or _SYLLABIC in label):
            starts.append(
                next(at for at in range(vowel + 1, index + 1) if can_begin(at, index))
                if starts
                else 0
            )
            vowel = index
        before = first
    return starts or [0]


def ipa_class(phone: str) -> str | None:
    """Return the key of `IPA_CLASSES` to which a phone belongs.

    None if it is not one of `IPA_PHONES`.

    >>> ipa_class("ɲ"), ipa_class("AA")
    ('nasal', None)
    """
    return next((name for name, phones in IPA_CLASSES.items() if phone in phones), None)


def phone_set_of(text: str) -> frozenset[str]:
    """Return the set of phones, ARPAbet or IPA, in which a text is written.

    Nearly all written words must be phones of it; otherwise the set is empty.

    >>> len(phone_set_of("K AE1 T sil DH AH0 D AO1 G S AH0 N")), len(phone_set_of("ʃ i s æ t")), len(phone_set_of("ø"))
    (39, 52, 0)
    """
    words = text.split()
    for known in (frozenset(ARPABET_PHONES), _ALL_IPA):
        phones = [word for word in words if strip_stress(word) in known]
        enough = len(phones) >= max(FEWEST_PHONES, NEARLY_ALL * len(words))
        if enough and any(len(word) > 1 or not word.isascii() for word in phones):
            return known
    return frozenset()
