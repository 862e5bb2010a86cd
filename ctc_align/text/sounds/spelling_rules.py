"""Rules of spelling: a table of letters and their phones, longest match first, with a little context.

A table is one text of rules, parted by white space:

    ch=tʃ               letters and their phones; nothing after = where they are silent
    c/_E=s              only before a front vowel
    s/V_V=z             only between vowels
    d/_#=t              only at the end of a word (of a stretch of letters, or before an apostrophe)
    e/VC,VCC_n#=ə       only after one of these

Of rules for the same letters the one with the longest context comes first. `V`, `C` and `E` in a context stand for
the vowel letters, the consonant letters and the letters of front vowels; besides them a context is a regular
expression, that on the left of fixed width.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from ctc_align.text.ipa import IPA_PHONES, IPA_VOWELS
from ctc_align.text.sounds.neighbours import unknown
from ctc_align.text.sounds.pieces import Piece

VOICELESS = {"b": "p", "d": "t", "ɡ": "k", "v": "f", "z": "s", "ʒ": "ʃ", "dz": "ts", "dʒ": "tʃ", "ɣ": "x", "ð": "θ"}
_VOICED = {voiceless: voiced for voiced, voiceless in VOICELESS.items()}
_SPREADS_NO_VOICE = "v"
"""It loses its voice, and gives none (Russian "твой", Czech "svůj")."""
_EDGE = {"left": "(?<![^'])", "right": "(?![^'])"}
_PHONE = re.compile("|".join(sorted(map(re.escape, IPA_PHONES), key=len, reverse=True)))


@lru_cache(maxsize=4096)
def split_phones(written: str) -> tuple[str, ...]:
    """Return phones that are written without spaces; "." parts two that would be one.

    >>> split_phones("tʃaɪ"), split_phones("t.s")
    (('tʃ', 'a', 'ɪ'), ('t', 's'))
    """
    phones = tuple(_PHONE.findall(written))
    assert "".join(phones) == written.replace(".", ""), f"{written}: no phones"
    return phones


def phone_table(rules: str) -> dict[str, tuple[str, ...]]:
    """Return the phones of letters, syllables or words, from rules without a context.

    >>> phone_table("sh=ʃ h=")
    {'sh': ('ʃ',), 'h': ()}
    """
    return {letters: split_phones(phones) for letters, _, phones in (rule.partition("=") for rule in rules.split())}


class SpellingRules:
    """The rules of one language.

    A letter that no rule has is read as its base letter (ǻ as a), and a letter without one has no piece of phones: it
    stays, as itself. Equal phones side by side are one, for length is not told apart (`hiatus`: vowels stay two).

    Args:
        tables: later ones come first; a rule without context ends all rules for the same letters in earlier ones.
        vowels, front: base letters of vowels, and of front vowels; letters with other marks belong to them too.
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
        for first, own in by_first.items():
            own.sort(key=lambda rule: (-len(rule[0]), -len(rule[1])))
            self._phones[first] = [split_phones(rules[rule]) for rule in own]
            self._patterns[first] = re.compile("|".join(f"({self._pattern(*rule)})" for rule in own))

    def pieces(self, text: str) -> list[Piece]:
        """Return the pieces of one word in lower case; what no rule knows stands for itself."""
        kept = [place for place, letter in enumerate(text) if not unicodedata.combining(letter)]
        known = "".join(self._known(text[place]) for place in kept)
        spans: list[tuple[int, int]] = []
        sounds: list[tuple[str, ...]] = []
        place = 0
        while place < len(known):
            pattern = self._patterns.get(known[place])
            match = pattern.match(known, place) if pattern else None
            end, phones = place + 1, unknown(known[place])
            if match is not None and match.lastindex is not None:
                end, phones = match.end(), self._phones[known[place]][match.lastindex - 1]
            spans.append((place, end))
            sounds.append(phones)
            place = end
        starts = [0, *kept[1:], len(text)]  # marks that no letter has composed with belong to the one before them
        cut = [(starts[start], starts[end]) for start, end in spans]
        if not kept and text:
            return [Piece(0, len(text), ())]
        return [Piece(*span, phones) for span, phones in zip(cut, self._connected(sounds))]

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
        """Return the phones of pieces as they are beside each other: one of equal neighbours, and voice."""
        places = [(piece, place) for piece, phones in enumerate(sounds) for place in range(len(phones))]
        phones = [sounds[piece][place] for piece, place in places]
        if self._final_devoicing and not IPA_VOWELS.isdisjoint(phones):
            for place in range(len(phones) - 1, -1, -1):
                if phones[place] not in VOICELESS and phones[place] not in _VOICED:
                    break
                phones[place] = VOICELESS.get(phones[place], phones[place])
        if self._assimilation:
            for place in range(len(phones) - 2, -1, -1):
                phones[place] = _with_voice_of(phones[place], phones[place + 1])
        kept: list[list[str]] = [[] for _ in sounds]
        before = ""
        for (piece, _), phone in zip(places, phones):
            if phone != before or (self._hiatus and phone in IPA_VOWELS):
                kept[piece].append(phone)
            before = phone
        return [tuple(piece) for piece in kept]


def _merged(tables: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the phones of each (spelling, context), the rules of later tables first."""
    merged: dict[tuple[str, str], str] = {}
    for table in tables:
        own: dict[tuple[str, str], str] = {}
        for rule in table.split():
            key, _, phones = rule.partition("=")
            spelling, _, context = key.partition("/")
            own[spelling, context] = phones
        plain = {spelling for spelling, context in own if not context}
        own.update((key, phones) for key, phones in merged.items() if key[0] not in plain and key not in own)
        merged = own
    return merged


def _classes(letters: set[str], vowels: str, front: str) -> dict[str, str]:
    """Return the classes of letters in contexts as regular expressions."""
    both = [letter for letter in letters if letter in vowels or _base(letter) in vowels]
    ahead = [letter for letter in letters if letter in front or _base(letter) in front]
    others = [letter for letter in letters if letter not in both and letter != "'"]
    return {name: f"[{''.join(sorted(own))}]" for name, own in zip("VCE", (both, others, ahead))}


def _with_voice_of(phone: str, following: str) -> str:
    if following in _VOICED:
        return VOICELESS.get(phone, phone)
    if following in VOICELESS and following != _SPREADS_NO_VOICE:
        return _VOICED.get(phone, phone)
    return phone


@lru_cache(maxsize=4096)
def _base(letter: str) -> str:
    """Return a letter without its marks, itself where it has none."""
    return unicodedata.normalize("NFD", letter)[0]
