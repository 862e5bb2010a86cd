"""Spelling rules: tables of letters and their phones; and alphabets.

The longest match comes first, with a little context.

The entries of the tables in this folder (see `ctc_align.text.tables`) are

    ch=tʃ                   letters and their phones; nothing after = if the letters are silent
    c/_E=s                  only before a front vowel
    s/V_V=z                 only between vowels
    d/_#=t                  only at the end of a word (of a stretch of letters, or before an apostrophe)
    e/VC,VCC_n#=ə           only after one of these

If several rules match the same letters, the one with the longest context has precedence. `V`, `C`
and `E` in a context are the vowel letters, the consonant letters and the letters of front vowels;
otherwise a context is a regular expression, which must have a fixed width on the left side. The
section of a language replaces single rules of the section that its heading names; by default this
is "*", the rules of most languages.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache

from ctc_align.text.characters import word_set
from ctc_align.text.letter_to_phone import letter_to_phone
from ctc_align.text.phone_sets import IPA_OF_ARPABET, IPA_PHONES, IPA_VOWELS, Phones
from ctc_align.text.sounds.pieces import Piece, pieces, unknown
from ctc_align.text.tables import EVERY, Section, sections, text_table

VOICELESS = text_table("sounds/scripts", "voiceless")
_VOICED = {voiceless: voiced for voiced, voiceless in VOICELESS.items()}
_SPREADS_NO_VOICE = "v"
"""This consonant becomes voiceless, but does not make others voiced (Russian "твой", Czech
"svůj")."""
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
    if section:
        return section.options
    return {}


@lru_cache(maxsize=256)
def spelling_rules(file: str, language: str) -> SpellingRules:
    """Return the rules of a language in the letters of a table file.

    A language without a section has those of "*".

    The options "vowels" and "front" apply to all sections based on the one that has them;
    "devoiced", "assimilated" and "hiatus" apply to one section only.
    """
    found = table(file)
    name = EVERY
    if language in found:
        name = language
    layers = [found[name]]
    while layers[0].below:
        layers.insert(0, found[layers[0].below])
    options = {**layers[0].options, **found[name].options}
    return SpellingRules(
        [layer.entries for layer in layers],
        vowels=options["vowels"],
        front=options["front"],
        options=found[name].options,
    )


@lru_cache(maxsize=256)
def phone_table(file: str, *names: str) -> dict[str, Phones]:
    """Return the phones of letters, syllables or words from sections without contexts.

    Later sections take precedence.

    >>> phone_table("abjads", "Hebrew-consonants")["צ"]
    ('ts',)
    """
    return {
        letters: split_phones(phones)
        for letters, phones in text_table(f"sounds/{file}", *names).items()
    }


@lru_cache(maxsize=4096)
def split_phones(written: str) -> Phones:
    """Return phones that are written without spaces; "." separates two that would be read as one.

    >>> split_phones("tʃaɪ"), split_phones("t.s")
    (('tʃ', 'a', 'ɪ'), ('t', 's'))
    """
    phones = tuple(_PHONE.findall(written))
    assert "".join(phones) == written.replace(".", ""), f"{written}: no phones"
    return phones


class SpellingRules:
    """The rules of one language as a matcher.

    A letter that no rule has is read as its base letter (ǻ as a); one without a base letter is its
    own phone. Equal phones side by side are one, because length is not distinguished (with
    "hiatus", vowels stay two).

    Args:
        tables: later ones take precedence; a rule without context removes all rules for the same
            letters in earlier ones.
        vowels, front: base letters of vowels, and of front vowels; the same letters with marks
            belong to them, too.
        options: "devoiced" if obstruents at the end of a word with a vowel are voiceless,
            "assimilated" if an obstruent takes the voicing of the next one, "hiatus" if equal
            vowels side by side are two.
    """

    def __init__(
        self,
        tables: Sequence[str],
        *,
        vowels: str,
        front: str,
        options: Collection[str] = (),
    ) -> None:
        self._options = options
        rules = _merged(tables)
        # a letter that occurs only in longer spellings is read alone as its base letter
        for letter in {letter for spelling, _ in rules for letter in spelling} - {
            spelling for spelling, _ in rules
        }:
            if (_base(letter), "") in rules:
                rules[letter, ""] = rules[_base(letter), ""]
        self._letters = {letter for spelling, _ in rules for letter in spelling}
        self._classes = _classes(self._letters, vowels, front)
        by_first: dict[str, list[tuple[str, str]]] = {}
        for spelling, context in rules:
            by_first.setdefault(spelling[0], []).append((spelling, context))
        self._phones: dict[str, list[Phones]] = {}
        self._patterns: dict[str, re.Pattern[str]] = {}
        for first, keys in by_first.items():
            keys.sort(key=lambda key: (-len(key[0]), -len(key[1])))
            self._phones[first] = [split_phones(rules[key]) for key in keys]
            # one pattern for each first letter, the rules as its groups: the first group that
            # matches wins
            self._patterns[first] = re.compile("|".join(f"({self._pattern(*key)})" for key in keys))

    def pieces(self, text: str) -> list[Piece]:
        """Return the pieces of one word in lower case; a letter without a rule is its own phone."""
        letters = [index for index, letter in enumerate(text) if not unicodedata.combining(letter)]
        if not letters:
            if text:
                return [Piece(0, len(text), ())]
            return []
        known = "".join(self._known(text[index]) for index in letters)
        spans: list[tuple[int, int]] = []
        sounds: list[Phones] = []
        index = 0
        while index < len(known):
            pattern = self._patterns.get(known[index])
            match = pattern.match(known, index) if pattern else None
            end = index + 1
            phones = unknown(known[index])
            if match is not None and match.lastindex is not None:
                end = match.end()
                phones = self._phones[known[index]][match.lastindex - 1]
            spans.append((index, end))
            sounds.append(phones)
            index = end
        starts = [
            0,
            *letters[1:],
            len(text),
        ]  # a mark that is not composed with a letter belongs to the one before it
        return [
            Piece(starts[start], starts[end], variant)
            for (start, end), variant in zip(spans, self._connected(sounds))
        ]

    def _known(self, letter: str) -> str:
        """Return a form of a letter that has rules.

        The letter itself, the letter with one of its marks, or without marks.
        """
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
        before = ""
        if left:
            before = "|".join(f"(?<={one})" for one in left.split(","))
        return f"(?:{before})" + re.escape(spelling) + (f"(?={right})" if right else "")

    def _connected(self, sounds: list[Phones]) -> list[Phones]:
        """Return the phones of adjacent pieces after assimilation of voicing.

        Equal neighbours are merged.
        """
        owners = [piece for piece, phones in enumerate(sounds) for _ in phones]
        phones = [phone for phones in sounds for phone in phones]
        if "devoiced" in self._options and not IPA_VOWELS.isdisjoint(phones):
            for index in range(len(phones) - 1, -1, -1):
                if phones[index] not in VOICELESS and phones[index] not in _VOICED:
                    break
                phones[index] = VOICELESS.get(phones[index], phones[index])
        if "assimilated" in self._options:
            for index in range(
                len(phones) - 2, -1, -1
            ):  # from the end: voice spreads back through a cluster
                phones[index] = _with_voice_of(phones[index], phones[index + 1])
        connected: list[list[str]] = [[] for _ in sounds]
        before = ""
        for piece, phone in zip(owners, phones):
            if phone != before or ("hiatus" in self._options and phone in IPA_VOWELS):
                connected[piece].append(phone)
            before = phone
        return [tuple(piece) for piece in connected]


def _merged(tables: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the phones of each (spelling, context); rules of later tables take precedence."""
    merged: dict[tuple[str, str], str] = {}
    for table in tables:
        rules: dict[tuple[str, str], str] = {}
        for rule in table.split():
            key, _, phones = rule.partition("=")
            spelling, _, context = key.partition("/")
            rules[spelling, context] = phones
        plain = {spelling for spelling, context in rules if not context}
        rules.update(
            (key, phones)
            for key, phones in merged.items()
            if key[0] not in plain and key not in rules
        )
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


# Phones of words in alphabets, by their spelling: Latin, Cyrillic, Greek, Georgian, Armenian and
# Thaana letters.
#
# English words get their pronunciations from the package's letter-to-phone network. Letters of
# scripts without rules are read by their Unicode names: "VAI SYLLABLE MI" and "BALINESE LETTER KA"
# are mi and ka. In scripts whose consonants have an inherent a, a vowel sign replaces the a, and a
# mute sign removes it. In other alphabets, the name of a letter begins with its sound ("COPTIC
# LETTER ALFA"), as in all scripts with small letters.
#
# Initials (USA, ÖBB, the B of B-Säule, l'ONU) are spelled out or read as a word (NATO). The letters
# do not show which, so both are pronunciations, and the audio decides.

_NOT_LATIN = word_set(
    """en ru uk be bg mk el ka hy ar fa ur ps ckb ug he yi hi bn as pa gu or ta te kn ml si mr ne sa th lo my km bo dz
    zh yue ja ko am ti dv ab cv sah ky tg mn ba os"""
)
"""English, and languages in other scripts, in which a word in Latin letters is taken to be
English."""
_MOST_PRONUNCIATIONS = 2
"""The most pronunciations of an English word that is in no dictionary."""


def is_read_as_english(language: str) -> bool:
    """Return whether a word in Latin letters is taken to be English in a text of this language."""
    return language in _NOT_LATIN


def latin_pieces(text: str, language: str) -> list[Piece]:
    """Return the pieces of a stretch of Latin letters."""
    if is_read_as_english(language):
        return _english_pieces(text)
    return spelling_rules("latin", language).pieces(text)


def _reader_of(file: str, *languages: str) -> Callable[[str, str], list[Piece]]:
    """Return the function for a stretch of letters of an alphabet, by the rules in a table.

    A text in another language than these is read as one in the first of them.
    """

    def read(text: str, language: str) -> list[Piece]:
        if languages and language not in languages:
            language = languages[0]
        return spelling_rules(file, language).pieces(text)

    return read


cyrillic_pieces = _reader_of("cyrillic")
greek_pieces = _reader_of("small-alphabets", "el")
georgian_pieces = _reader_of("small-alphabets", "ka")
armenian_pieces = _reader_of("small-alphabets", "hy", "hyw")
thaana_pieces = _reader_of("small-alphabets", "dv")


def prepare_english(words: Sequence[str]) -> None:
    """Run letter-to-phone once on all English words of a text.

    Without any, the network is not even loaded.
    """
    if words:
        letter_to_phone().pronounce(words, _MOST_PRONUNCIATIONS)


def _english_pieces(word: str) -> list[Piece]:
    """Return one piece for a word, with all its pronunciations.

    A word without one has a piece for each letter.
    """
    found = letter_to_phone().pronounce([word], _MOST_PRONUNCIATIONS)[0]
    variants = tuple(
        dict.fromkeys(
            tuple(phone for one in variant for phone in IPA_OF_ARPABET[one]) for variant in found
        )
    )
    if not variants:
        return [
            Piece(index, index + 1, (letter,) if letter.isalnum() else ())
            for index, letter in enumerate(word)
        ]
    return [Piece(0, len(word), variants[0], variants[1:])]


_KINDS = "LETTER|SYLLABLE|SYLLABICS|VOWEL SIGN|VOWEL|SIGN|LIGATURE|IDEOGRAM|HIEROGLYPH"
_LETTER_NAME = re.compile(
    rf"\b(?:{_KINDS}) (?:(?:SMALL|CAPITAL|FINAL|INDEPENDENT|ARCHAIC|OLD) )*(?P<name>[A-Z]+)"
)
_MUTE = re.compile(r"VIRAMA|KILLER|HALANTA|PULLI|ASAT|COENG|PAMAAEH|PANGKON|PATEN")
_SYLLABLE = re.compile(r"[^aeiou]*[aeiou]+")
_ONSET = re.compile(r"[^aeiou]+|[aeiou]")
_CARRIED = "a"
_SIGNS = text_table("sounds/scripts", "named-signs")


def named_pieces(text: str, language: str) -> list[Piece]:
    """Return a piece for each character of a script without rules.

    A character whose name says nothing is its own phone.
    """
    found: list[Piece] = []
    for index, character in enumerate(text):
        phones = _named_phones(character)
        is_mute = bool(_MUTE.search(unicodedata.name(character, "")))
        is_vowel = " VOWEL SIGN " in unicodedata.name(character, "")
        if found and (is_mute or is_vowel) and found[-1].phones[-1:] == (_CARRIED,):
            found[-1] = Piece(index - 1, index, found[-1].phones[:-1])
        found.append(Piece(index, index + 1, () if is_mute else phones))
    return found


@lru_cache(maxsize=4096)
def _named_phones(character: str) -> Phones:
    category = unicodedata.category(character)
    match = _LETTER_NAME.search(unicodedata.name(character, ""))
    if category[0] == "N" or (match is None and category[0] == "L"):
        return (character,)
    if match is None or (category[0] == "M" and " VOWEL SIGN " not in unicodedata.name(character)):
        return ()
    sound = _sound(character, match["name"].lower())
    phones = tuple(phone for piece in latin_pieces(sound, "und") for phone in piece.phones)
    if " VOWEL " in unicodedata.name(character):
        phones = tuple(phone for phone in phones if phone in IPA_VOWELS)
    return phones or (character,)


def _sound(character: str, name: str) -> str:
    """Return the part of a letter's name in Unicode that is its sound, in Latin letters."""
    if name in _SIGNS:
        return _SIGNS[name]
    is_alphabet = " SMALL LETTER " in unicodedata.name(character)
    if "SYLLAB" in unicodedata.name(character) or (_SYLLABLE.fullmatch(name) and not is_alphabet):
        return name
    onset = _ONSET.match(name)
    if onset:
        return onset[0]
    return name


_MOST_INITIALS = 5
"""Longer words in capitals are not initials."""
_WORD_PART = re.compile(r"(?P<before>[^\W\d_]+['’])?(?P<initials>[^\W\d_]+)")
_VOWELS = frozenset("aeiouyäöüåæøõаеёиоуыэюяіїє")
"""Single letters that are words, or whose names are their sounds."""
_AS_WRITTEN = word_set("en vi ga gd cy")
"""Languages without initials here: letter-to-phone reads English; of the others the names of
letters are unknown."""


def initials_spelled_out(text: str, spoken: Sequence[str], code: str) -> list[Phones | None]:
    """Return for each part of a word the phones of its initials, spelled out.

    None for a part without initials.

    Args:
        text: the word as it is written; initials are in capitals.
        spoken: the parts of its spoken form, which spaces separate.
        code: the language's, as for `pieces`.

    >>> [" ".join(variant or ()) for variant in initials_spelled_out("EU-Recht", ["eu", "recht"], "de")]
    ['e u', '']
    """
    parts = [part.strip('.,;:!?…"“”„«»()[]') for part in re.split(r"[\s/‐‑–-]+", text)]
    parts = [part for part in parts if part]
    if code in _AS_WRITTEN or [part.lower().replace("’", "'") for part in parts] != list(spoken):
        return [None] * len(spoken)
    return [_spelled_out(part, code) for part in parts]


def _spelled_out(part: str, code: str) -> Phones | None:
    match = _WORD_PART.fullmatch(part)
    if (
        match is None
        or not match["initials"].isupper()
        or not len(match["initials"]) <= _MOST_INITIALS
    ):
        return None
    names = [_letter_names(code).get(letter) for letter in match["initials"].lower()]
    reads_english = is_read_as_english(code) and part.isascii()
    if None in names or part.lower() in _VOWELS or reads_english:
        return None
    before = (match["before"] or "").replace("’", "'").lower()
    return tuple(
        phone
        for name in (before, *names)
        if name
        for piece in pieces(name, code)
        for phone in piece.phones
    )


@lru_cache(maxsize=64)
def _letter_names(code: str) -> dict[str, str]:
    latin = text_table("sounds/letter-names", code) or text_table("sounds/letter-names", "Latin")
    others = text_table("sounds/letter-names", f"{code}:other") or text_table(
        "sounds/letter-names", "Other"
    )
    return {**latin, **others, **{letter: letter for letter in "äöüåæøõ"}}
