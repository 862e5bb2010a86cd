"""Spelling rules: tables of letters and their phones, longest match first, with a little context.

The entries of the tables in this folder (see `ctc_align.text.tables`) are

    ch=tʃ                   letters and their phones; nothing after = if the letters are silent
    c/_E=s                  only before a front vowel
    s/V_V=z                 only between vowels
    d/_#=t                  only at the end of a word (of a stretch of letters, or before an apostrophe)
    e/VC,VCC_n#=ə           only after one of these

If several rules match the same letters, the one with the longest context has precedence. `V`, `C` and `E` in a context
are the vowel letters, the consonant letters and the letters of front vowels; otherwise a context is a regular
expression, which must have a fixed width on the left side. The section of a language replaces single rules of the
section that its heading names; by default this is "*", the rules of most languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ctc_align.text.phone_sets import IPA_PHONES, IPA_VOWELS
from ctc_align.text.sounds.pieces import Piece, unknown
from ctc_align.text.tables import EVERY, Section, sections, text_table

VOICELESS = {"b": "p", "d": "t", "ɡ": "k", "v": "f", "z": "s", "ʒ": "ʃ", "dz": "ts", "dʒ": "tʃ", "ɣ": "x", "ð": "θ"}
_VOICED = {voiceless: voiced for voiced, voiceless in VOICELESS.items()}
_SPREADS_NO_VOICE = "v"
"""It loses its voice, and gives none (Russian "твой", Czech "svůj")."""
_EDGE = {"left": "(?<![^'])", "right": "(?![^'])"}
_PHONE = re.compile("|".join(sorted(map(re.escape, IPA_PHONES), key=len, reverse=True)))


def table(file: str) -> dict[str, Section]:
    """Return the sections of a table of this folder."""
    return sections(f"sounds/{file}")


def options_of(file: str, name: str) -> Mapping[str, str]:
    """Return the options of a section; {} for a section that the table does not have.

    >>> options_of("abjads", "ps"), options_of("abjads", "ar")
    ({'waw': 'o', 'final-he': 'a', 'silent-inside': 'ع'}, {})
    """
    section = table(file).get(name)
    return section.options if section else {}


@lru_cache(maxsize=256)
def spelling_rules(file: str, language: str) -> SpellingRules:
    """Return the rules of a language in the letters of a table file; a language without a section has those of "*".

    The options "vowels" and "front" apply to all sections over the one that has them; "devoiced", "assimilated" and
    "hiatus" apply to one section only.
    """
    found = table(file)
    name = language if language in found else EVERY
    layers = [found[name]]
    while layers[0].below:
        layers.insert(0, found[layers[0].below])
    options = {**layers[0].options, **found[name].options}
    return SpellingRules(
        [layer.entries for layer in layers],
        vowels=options["vowels"],
        front=options["front"],
        final_devoicing="devoiced" in found[name].options,
        assimilation="assimilated" in found[name].options,
        hiatus="hiatus" in found[name].options,
    )


@lru_cache(maxsize=256)
def phone_table(file: str, *names: str) -> dict[str, tuple[str, ...]]:
    """Return the phones of letters, syllables or words of sections without contexts, later ones first.

    >>> phone_table("abjads", "Hebrew-consonants")["צ"]
    ('ts',)
    """
    return {letters: split_phones(phones) for letters, phones in text_table(f"sounds/{file}", *names).items()}


@lru_cache(maxsize=4096)
def split_phones(written: str) -> tuple[str, ...]:
    """Return phones that are written without spaces; "." separates two that would be read as one.

    >>> split_phones("tʃaɪ"), split_phones("t.s")
    (('tʃ', 'a', 'ɪ'), ('t', 's'))
    """
    phones = tuple(_PHONE.findall(written))
    assert "".join(phones) == written.replace(".", ""), f"{written}: no phones"
    return phones


class SpellingRules:
    """The rules of one language as a matcher.

    A letter that no rule has is read as its base letter (ǻ as a); one without a base letter is its own phone. Equal
    phones side by side are one, because length is not distinguished (with `hiatus`, vowels stay two).

    Args:
        tables: later ones come first; a rule without context removes all rules for the same letters in earlier ones.
        vowels, front: base letters of vowels, and of front vowels; the same letters with marks belong to them, too.
        final_devoicing: whether obstruents at the end of a word with a vowel are voiceless.
        assimilation: whether an obstruent has the voice of the next one.
        hiatus: whether equal vowels side by side are two.
    """

    def __init__(
        self,
        tables: Sequence[str],
        *,
        vowels: str,
        front: str,
        final_devoicing: bool = False,
        assimilation: bool = False,
        hiatus: bool = False,
    ) -> None:
        self._final_devoicing, self._assimilation, self._hiatus = final_devoicing, assimilation, hiatus
        rules = _merged(tables)
        # a letter that occurs only in longer spellings is read alone as its base letter
        for letter in {letter for spelling, _ in rules for letter in spelling} - {spelling for spelling, _ in rules}:
            if (_base(letter), "") in rules:
                rules[letter, ""] = rules[_base(letter), ""]
        self._letters = {letter for spelling, _ in rules for letter in spelling}
        self._classes = _classes(self._letters, vowels, front)
        by_first: dict[str, list[tuple[str, str]]] = {}
        for spelling, context in rules:
            by_first.setdefault(spelling[0], []).append((spelling, context))
        self._phones: dict[str, list[tuple[str, ...]]] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        for first, keys in by_first.items():
            keys.sort(key=lambda key: (-len(key[0]), -len(key[1])))
            self._phones[first] = [split_phones(rules[key]) for key in keys]
            # one pattern for each first letter, the rules as its groups: the first group that matches wins
            self._patterns[first] = re.compile("|".join(f"({self._pattern(*key)})" for key in keys))

    def pieces(self, text: str) -> list[Piece]:
        """Return the pieces of one word in lower case; a letter without a rule is its own phone."""
        letters = [index for index, letter in enumerate(text) if not unicodedata.combining(letter)]
        if not letters:
            return [Piece(0, len(text), ())] if text else []
        known = "".join(self._known(text[index]) for index in letters)
        spans: list[tuple[int, int]] = []
        sounds: list[tuple[str, ...]] = []
        index = 0
        while index < len(known):
            pattern = self._patterns.get(known[index])
            match = pattern.match(known, index) if pattern else None
            end, phones = index + 1, unknown(known[index])
            if match is not None and match.lastindex is not None:
                end, phones = match.end(), self._phones[known[index]][match.lastindex - 1]
            spans.append((index, end))
            sounds.append(phones)
            index = end
        starts = [0, *letters[1:], len(text)]  # a mark that is not composed with a letter belongs to the one before it
        return [
            Piece(starts[start], starts[end], variant) for (start, end), variant in zip(spans, self._connected(sounds))
        ]

    def _known(self, letter: str) -> str:
        """Return a letter that rules have: itself, or it with one of its marks, or without marks."""
        if letter in self._letters:
            return letter
        base, *marks = list(unicodedata.normalize("NFD", letter))
        forms = (unicodedata.normalize("NFC", base + mark) for mark in marks)
        return next((form for form in forms if form in self._letters), base)

    def _pattern(self, spelling: str, context: str) -> str:
        if not context:
            return re.escape(spelling)
        left, right = (
            "".join(_EDGE[side] if sign == "#" else self._classes.get(sign, sign) for sign in part)
            for side, part in zip(_EDGE, context.split("_"))
        )
        before = "|".join(f"(?<={one})" for one in left.split(",")) if left else ""
        return f"(?:{before})" + re.escape(spelling) + (f"(?={right})" if right else "")

    def _connected(self, sounds: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        """Return the phones of adjacent pieces after assimilation of voice, one of several equal neighbours."""
        owners = [piece for piece, phones in enumerate(sounds) for _ in phones]
        phones = [phone for phones in sounds for phone in phones]
        if self._final_devoicing and not IPA_VOWELS.isdisjoint(phones):
            for index in range(len(phones) - 1, -1, -1):
                if phones[index] not in VOICELESS and phones[index] not in _VOICED:
                    break
                phones[index] = VOICELESS.get(phones[index], phones[index])
        if self._assimilation:
            for index in range(len(phones) - 2, -1, -1):  # from the end: voice spreads back through a cluster
                phones[index] = _with_voice_of(phones[index], phones[index + 1])
        connected: list[list[str]] = [[] for _ in sounds]
        before = ""
        for piece, phone in zip(owners, phones):
            if phone != before or (self._hiatus and phone in IPA_VOWELS):
                connected[piece].append(phone)
            before = phone
        return [tuple(piece) for piece in connected]


def _merged(tables: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the phones of each (spelling, context), the rules of later tables first."""
    merged: dict[tuple[str, str], str] = {}
    for table in tables:
        rules: dict[tuple[str, str], str] = {}
        for rule in table.split():
            key, _, phones = rule.partition("=")
            spelling, _, context = key.partition("/")
            rules[spelling, context] = phones
        plain = {spelling for spelling, context in rules if not context}
        rules.update((key, phones) for key, phones in merged.items() if key[0] not in plain and key not in rules)
        merged = rules
    return merged


def _classes(letters: set[str], vowels: str, front: str) -> dict[str, str]:
    """Return the classes of letters in contexts as regular expressions."""

    def are_in(chosen: str) -> list[str]:
        return [letter for letter in letters if letter in chosen or _base(letter) in chosen]

    consonants = letters - {"'", *are_in(vowels)}
    members = {"V": are_in(vowels), "C": consonants, "E": are_in(front)}
    return {name: f"[{''.join(sorted(each))}]" for name, each in members.items()}


def _with_voice_of(phone: str, following: str) -> str:
    if following in _VOICED:
        return VOICELESS.get(phone, phone)
    if following in VOICELESS and following != _SPREADS_NO_VOICE:
        return _VOICED.get(phone, phone)
    return phone


@lru_cache(maxsize=4096)
def _base(letter: str) -> str:
    """Return a letter without its marks, itself if it has none."""
    return unicodedata.normalize("NFD", letter)[0]
