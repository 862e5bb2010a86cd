"""The letters or word pieces of a model's vocabulary.

Also its conventions for the beginnings of words.

Known kinds: characters (wav2vec 2.0, MMS, NeMo's character models), sentencepiece (pieces that
begin words begin with ▁), wordpiece (pieces that continue words begin with ##), byte-level BPE as
GPT-2's (every byte is a character, a space is Ġ), subword-nmt (pieces that do not end words end
with @@), and BPE with </w> (pieces that end words end with it). An `Alphabet` holds the pieces of
all kinds in plain characters, with ▁ where words begin or end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from string import ascii_lowercase
from typing import NamedTuple

from ctc_align.text.characters import lower, plain
from ctc_align.text.word_forms import outer_punctuation_stripped, without_markup
from ctc_align.types import Pronunciation, WordTokens

SEPARATORS = ("|", "▁", " ", "<space>", "[SPACE]", "<SPACE>", "<wb>", "<WB>", "[WB]")
"""The names of the class between words; if a vocabulary has several, the first in this order
wins."""
SILENCES = ("<sil>", "<SIL>", "[SIL]", "<silence>", "[SILENCE]", "<pau>", "<pause>", "[PAUSE]")
"""Names of a class of silence that mean nothing else in any vocabulary."""
PHONE_SILENCES = (*SILENCES, "sil", "SIL", "pau", "PAU", "sp", "SP", "h#")
"""Further names in a vocabulary of phones."""
BEGINS = "▁"
STAR = "*"
"""The class for any speech in MMS_FA and similar models; it is not a letter."""

_GOES_ON = "##"
_DOES_NOT_END = "@@"
_ENDS = "</w>"
_BYTE_SPACE = "Ġ"
_MOST_BYTES = 200
"""Least number of the 256 characters for bytes in a vocabulary of bytes."""
_SPECIAL = re.compile(r"<.+>|\[.+\]")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_APOSTROPHES = "'’ʼ"
_INSIDE_WORDS = f"{_APOSTROPHES}-"
"""Marks that do not count as punctuation: a vocabulary with no other marks has no punctuation."""
_SPOKEN_SIGNS = "%&@#"
_DIGITS = "0123456789"


@dataclass(frozen=True)
class Alphabet:
    """The pieces of a vocabulary and how words are written with them.

    Attributes:
        ids: the class of each piece, in NFC; in `by_bytes` pieces are strings of GPT-2's characters
            for bytes.
        separator: the class between words, if there is one.
        begins: whether pieces that begin a word are marked by ▁ as their first character.
        ends: whether pieces that end a word are marked by ▁ as their last character.
        by_bytes: whether words are written as bytes.
        fallback: the classes of single bytes (sentencepiece's <0xE2>), for characters that have no
            piece.
        longest: number of characters of the longest piece.
        characters: of all pieces, except ▁ and the separator.
        cased: whether the vocabulary has most letters in both cases.
        marks: whether there is punctuation other than apostrophes and hyphens.
    """

    ids: dict[str, int]
    separator: int | None
    begins: bool
    by_bytes: bool
    fallback: dict[int, int] = field(default_factory=dict)
    longest: int = 1
    ends: bool = False
    characters: frozenset[str] = frozenset()
    cased: bool = False
    marks: bool = False

    @property
    def spells(self) -> bool:
        """True if any word can be spelled.

        Pieces are marked, or the letters of long pieces are also single pieces.
        """
        letters = {_fold(c) for c in self.characters if is_letter(c)}
        alone = {_fold(piece) for piece in self.ids if len(piece) == 1 and is_letter(piece)}
        return (
            self.begins
            or self.ends
            or self.by_bytes
            or set() < letters == alone
            or alone.issuperset(ascii_lowercase)
        )

    def written(self, part: str) -> list[tuple[str, str]]:
        """Return (character in the vocabulary, character of the word in NFC) pairs; ▁ has ""."""
        begin, end = [(BEGINS, "")] * self.begins, [(BEGINS, "")] * self.ends
        text = unicodedata.normalize("NFC", part)
        if self.by_bytes:
            return begin + [
                ("".join(_byte_characters()[byte] for byte in c.encode()), c) for c in text
            ]
        return begin + [(c, c) for c in text] + end

    def find(self, piece: str) -> int | None:
        """Return the class of a piece.

        It is looked up unchanged, then in lower case, in upper case, and case-folded (ς is
        σ).
        """
        if self.by_bytes or piece in self.ids:
            return self.ids.get(piece)
        if "İ" in self.characters and "i" not in self.characters:  # capitals of Turkish
            piece = piece.replace("i", "İ").replace("ı", "I")
        return next((self.ids[form] for form in _forms(piece) if form in self.ids), None)

    def kept(self, word: str) -> str | None:
        """Return the characters of a written word that can be spelled, as they are written.

        Return None if a sign or digit that is spoken cannot be. Case and marks stay.
        Letters are kept, because their other case or their parts may exist.

        >>> alphabet_of(("-", *"abc1.,"), 0).kept("“Ab1,”"), alphabet_of(("-", *"abc"), 0).kept("a2")
        ('Ab1,', None)
        """
        if self.by_bytes:
            return word
        spelled = ""
        for character in word:
            category = unicodedata.category(character)[0]
            if character in self.characters:
                same = character
            else:
                same = plain(character)
            if category in "LM" or self.characters.issuperset(same) or character in _APOSTROPHES:
                spelled += character if category in "LM" else same
            elif category in "NS" or character in _SPOKEN_SIGNS:
                return None
        return spelled

    def recased(self, said: str, written: str) -> str:
        """Return the spoken form with the capitals of the written word.

        They are taken letter by letter if possible, otherwise only the first.

        >>> recased = alphabet_of(("-", *"abdorsABDORS"), 0).recased
        >>> recased("abba's", "“Abba’s”"), recased("doors", "Drs."), recased("b b a", "BBA")
        ("Abba's", 'Doors', 'B B A')
        """
        letters = [
            c for c in unicodedata.normalize("NFC", written) if unicodedata.category(c)[0] in "LM"
        ]
        places = [at for at, c in enumerate(said) if unicodedata.category(c)[0] in "LM"]
        if [_fold(said[at]) for at in places] != [_fold(letter) for letter in letters]:
            letters = [said[at].upper() for at in places[:1] if letters and letters[0].isupper()]
        changed = list(said)
        for at, letter in zip(places, letters):
            if self.by_bytes or letter in self.characters:
                changed[at] = letter
            else:
                changed[at] = said[at]
        return "".join(changed)

    def sequence(self, character: str) -> tuple[int, ...]:
        """Return the classes of the parts of a character; () if the vocabulary lacks one of them.

        Parts are a letter and its accents (NFD), the letters of a ligature, SS for ß in capitals,
        the jamo of a Hangul syllable, conjoining or as letters (ㅎㅏㄴ), or the bytes.
        """
        for form in _forms(character):
            decomposed = unicodedata.normalize("NFD", form)
            for parts in (decomposed, _jamo(decomposed), unicodedata.normalize("NFKD", form)):
                if len(parts) > 1 and all(part in self.ids for part in parts):
                    return tuple(self.ids[part] for part in parts)
        raw = character.encode()
        if all(byte in self.fallback for byte in raw):
            return tuple(self.fallback[byte] for byte in raw)
        return ()


def is_special(token: str) -> bool:
    """Return whether a token is not text, such as <pad> or [UNK]."""
    return _SPECIAL.fullmatch(token) is not None


def is_marked(piece: str) -> bool:
    """Return whether a written word is a piece of a tokenizer.

    Such a piece begins, continues or ends a word.

    >>> list(map(is_marked, ("▁the", "##s", "th@@", "e</w>", "the,")))
    [True, True, True, True, False]
    """
    return piece.startswith((BEGINS, _GOES_ON, _BYTE_SPACE)) or piece.endswith(
        (_DOES_NOT_END, _ENDS)
    )


def alphabet_of(vocab: Sequence[str], blank: int) -> Alphabet:
    """Return the alphabet of a vocabulary.

    `blank` and special tokens (<pad>, [UNK] …, the star) are not letters.

    >>> alphabet_of(("<pad>", "▁the", "s"), 0).ids, alphabet_of(("[PAD]", "the", "##s"), 0).ids
    ({'▁the': 1, 's': 2}, {'▁the': 1, 's': 2})
    """
    pieces = {
        i: t
        for i, t in enumerate(vocab)
        if i != blank and t and t != STAR and (t == _ENDS or not is_special(t))
    }
    pieces, begins, ends, by_bytes = _unify_marks(pieces)
    ids: dict[str, int] = {}
    for index, piece in pieces.items():
        ids.setdefault(piece if by_bytes else unicodedata.normalize("NFC", piece), index)
    separator = None
    if not begins and not ends:
        separator = separator_of(vocab, blank, by_bytes)
    characters = frozenset("".join(piece for piece, index in ids.items() if index != separator)) - {
        BEGINS
    }
    single = (
        (index, _BYTE.fullmatch(token)) for index, token in enumerate(vocab) if index != blank
    )
    return Alphabet(
        ids=ids,
        separator=separator,
        begins=begins,
        by_bytes=by_bytes,
        fallback={int(match[1], 16): index for index, match in single if match},
        longest=max(map(len, ids), default=1),
        ends=ends,
        characters=characters,
        cased=_is_cased(characters),
        marks=any(
            unicodedata.category(c)[0] in "PS" and c not in _INSIDE_WORDS for c in characters
        ),
    )


class _MarkedPieces(NamedTuple):
    """Pieces whose marks, at their begins or ends, are all `BEGINS`; and of what kind they are."""

    pieces: dict[int, str]
    begins: bool = False
    ends: bool = False
    by_bytes: bool = False


def _unify_marks(pieces: dict[int, str]) -> _MarkedPieces:
    """Return the pieces of a tokenizer with `BEGINS` in place of its own mark."""
    texts = pieces.values()
    if _has_prefix(texts, BEGINS):
        return _MarkedPieces(pieces, begins=True)
    if _has_prefix(texts, _GOES_ON):
        marked = {
            i: piece[len(_GOES_ON) :] if piece.startswith(_GOES_ON) else BEGINS + piece
            for i, piece in pieces.items()
        }
        return _MarkedPieces(marked, begins=True)
    if any(piece.endswith(_ENDS) for piece in texts):
        marked = {
            i: piece.removesuffix(_ENDS) + BEGINS if piece.endswith(_ENDS) else piece
            for i, piece in pieces.items()
        }
        return _MarkedPieces(marked, ends=True)
    if any(piece.endswith(_DOES_NOT_END) and piece != _DOES_NOT_END for piece in texts):
        marked = {
            i: piece.removesuffix(_DOES_NOT_END)
            if piece.endswith(_DOES_NOT_END)
            else piece + BEGINS
            for i, piece in pieces.items()
        }
        return _MarkedPieces(marked, ends=True)
    if not _is_bytes(texts):
        return _MarkedPieces(pieces)
    if not _has_prefix(texts, _BYTE_SPACE):
        return _MarkedPieces(pieces, by_bytes=True)
    marked = {
        i: BEGINS + piece.removeprefix(_BYTE_SPACE) if piece.startswith(_BYTE_SPACE) else piece
        for i, piece in pieces.items()
    }
    return _MarkedPieces(marked, begins=True, by_bytes=True)


def _has_prefix(pieces: Collection[str], mark: str) -> bool:
    """Return whether a piece begins with a mark and has more than it."""
    return any(piece.startswith(mark) and piece != mark for piece in pieces)


def _is_cased(characters: Collection[str]) -> bool:
    """Return whether most letters exist in both cases."""
    small = {c.lower() for c in characters if c.lower() != c.upper()}
    return sum(c in characters and c.upper() in characters for c in small) > len(small) / 2


def _fold(letter: str) -> str:
    """Return a letter for comparisons that ignore case: all kinds of i are equal."""
    return lower(letter).replace("ı", "i").casefold()


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, mark or digit.

    Others are punctuation, which a vocabulary may lack.
    """
    if character:
        return unicodedata.category(character)[0] in "LMN"
    return False


def separator_of(vocab: Sequence[str], blank: int, by_bytes: bool = False) -> int | None:
    """Return the class between words by its name, None if no token has such a name."""
    # In a vocabulary of bytes | is a sign; in others Ġ is a letter (Maltese).
    known = (_BYTE_SPACE,) if by_bytes else SEPARATORS
    places = (vocab.index(token) for token in known if token in vocab)
    return next((place for place in places if place != blank), None)


def _is_bytes(pieces: Collection[str]) -> bool:
    """Return whether pieces are of GPT-2's kind.

    They are made of characters for bytes, and some of them begin words.
    """
    known = set(_byte_characters().values())
    if sum(piece in known for piece in pieces) >= _MOST_BYTES:
        return True
    return _has_prefix(pieces, _BYTE_SPACE) and all(known.issuperset(piece) for piece in pieces)


@lru_cache(maxsize=1)
def _byte_characters() -> dict[int, str]:
    """Return GPT-2's character for each byte.

    Printable ones stand for themselves, the others begin at U+0100.
    """
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    others = (byte for byte in range(256) if byte not in set(printable))
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + place) for place, byte in enumerate(others)
    }


def _forms(piece: str) -> tuple[str, ...]:
    """Return the spellings of `piece` to look up in a vocabulary, in this order."""
    if piece in _APOSTROPHES:
        return tuple(_APOSTROPHES)
    folded = piece.casefold()
    return piece, piece.lower(), piece.upper(), folded if len(folded) == len(piece) else piece


@lru_cache(maxsize=2**12)
def _jamo(decomposed: str) -> str:
    """Return conjoining jamo as letters: ᄒ and ᆫ are ㅎ and ㄴ; "" if there are none."""
    names = [unicodedata.name(part, "") for part in decomposed]
    if not all(re.match(r"HANGUL (CHOSEONG|JUNGSEONG|JONGSEONG) ", name) for name in names):
        return ""
    try:
        return "".join(
            unicodedata.lookup(f"HANGUL LETTER {name.split(maxsplit=2)[2]}") for name in names
        )
    except KeyError:
        return ""


# How words are spelt in a vocabulary of characters, word pieces, or bytes.

MOST_KEPT = 100_000
"""Size of the caches of spellings and words; beyond it, the next transcript starts with empty
ones."""

_Spelling = tuple[list[int], list[tuple[int, str]]]
"""Token ids, and (index of the next id, letter) of each letter that the vocabulary lacks."""


class LetterTokenizer:
    """Spelling in the tokens of `vocab`.

    The token `blank` and special tokens (<pad>, [UNK] …) are never letters.

    A character is looked up as it is, in lower case, in upper case, then as its parts
    (`Alphabet.sequence`); else it is *missing*. Where the vocabulary has longer tokens, a word is
    cut into as few as possible. Punctuation that the vocabulary lacks is dropped.

    A vocabulary with both cases, digits or marks has several spellings of a word: first as it is
    written, then without its outer marks, then as it is spoken, last in small letters.

    >>> spelling = LetterTokenizer(("-", "|", "C", "A", "B"), blank=0)
    >>> spelling.word("cab").pronunciations[0].ids, spelling.word("czb").missing, spelling.separator
    ((2, 3, 4), ('z',), 1)
    >>> ["".join(said.labels) for said in LetterTokenizer(("-", *"ent01."), blank=0).word("ten", "10.").pronunciations]
    ['10.', '10', 'ten']
    """

    token_kind = "tokens"

    def __init__(self, vocab: Sequence[str], blank: int = 0) -> None:
        self._vocab = tuple(vocab)
        self._alphabet = alphabet_of(vocab, blank)
        self.separator = self._alphabet.separator
        self.writes = self._alphabet.cased or not self._alphabet.characters.isdisjoint(
            f"{_DIGITS}-"
        )
        self.writes = self.writes or self._alphabet.marks
        self._spelt: dict[str, _Spelling] = {}
        self._words: dict[tuple[str, str], WordTokens] = {}

    def prepare(self, spokens: Iterable[str]) -> None:
        """Clear the caches if they are full."""
        for kept in (self._spelt, self._words):
            if len(kept) > MOST_KEPT:
                kept.clear()

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the tokens of a spoken form.

        Spaces inside it become the word separator, if the vocabulary has one.
        """
        key = (said, written if self.writes else "")
        tokens = self._words.get(key)
        if tokens is None:
            tokens = self._words[key] = self._spellings(*key) if key[1] else self._tokens(said)
        return tokens

    def _spellings(self, said: str, written: str) -> WordTokens:
        alphabet = self._alphabet
        written = without_markup(written)
        bare = outer_punctuation_stripped(written)
        forms = [alphabet.kept(written if alphabet.marks else bare), alphabet.kept(bare)]
        if not alphabet.cased and all(
            c in _APOSTROPHES or unicodedata.category(c)[0] in "LM" for c in forms[0] or ""
        ):
            forms = []  # without digits, marks or case a word is read as in any vocabulary
        if alphabet.cased:
            forms.append(alphabet.recased(said, written))
        ways = [self._tokens(form) for form in dict.fromkeys((*forms, said)) if form]
        fewest = min(len(way.missing) for way in ways)
        ways = [way for way in ways if len(way.missing) == fewest]
        different = {said.ids: said for way in reversed(ways) for said in way.pronunciations}
        return WordTokens(tuple(reversed(different.values())), ways[0].missing)

    def _tokens(self, spoken: str) -> WordTokens:
        ids: list[int] = []
        gaps: list[tuple[int, str]] = []
        for part in spoken.split():
            if part not in self._spelt:
                self._spelt[part] = self._spell(part)
            part_ids, missing_letters = self._spelt[part]
            if ids and part_ids and self.separator is not None:
                ids.append(self.separator)
            gaps += [(len(ids) + place, letter) for place, letter in missing_letters]
            ids += part_ids
        missing = tuple(letter for _, letter in gaps)
        if not ids:
            return WordTokens((), missing)
        labels = tuple(self._vocab[i] for i in ids)
        return WordTokens((Pronunciation(tuple(ids), labels, _joined(gaps)),), missing)

    def _spell(self, part: str) -> _Spelling:
        """Return the spelling with the fewest missing letters.

        On ties the unchanged word comes first, then lower, then upper case.
        """
        if not self._alphabet.by_bytes:
            return _cheapest(self._alphabet, part)
        # Pieces of bytes cannot change case one by one: a word is looked up in one case as a whole.
        return min(
            (_cheapest(self._alphabet, form) for form in (part, part.lower(), part.upper())),
            key=lambda spelling: len(spelling[1]),
        )


def _joined(gaps: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Return the gaps; join missing letters at the same index."""
    joined: dict[int, str] = {}
    for place, letter in gaps:
        joined[place] = joined.get(place, "") + letter
    return tuple(joined.items())


def _cheapest(alphabet: Alphabet, part: str) -> _Spelling:
    """Return the spelling with the fewest missing letters, then the fewest tokens.

    Ties go to longer first tokens.

    If the vocabulary has both cases, tokens in the word's case matter more than few tokens.
    """
    characters = alphabet.written(part)
    text = "".join(symbols for symbols, _ in characters)
    whole: dict[int, tuple[str, int]] = {}  # by start: a character and its end
    place = 0
    for symbols, character in characters:
        whole[place] = (character, place + len(symbols))
        place += len(symbols)
    # From the end: the least cost of the rest (missing letters, tokens in another case, tokens),
    # and its first step.
    costs: list[tuple[float, int, int]] = [(inf, 0, 0)] * len(text) + [(0, 0, 0)]
    steps: list[tuple[tuple[int, ...], int]] = [((), 1)] * len(text)
    for place in range(len(text) - 1, -1, -1):
        ways = [
            (
                (
                    costs[end][0],
                    costs[end][1] + _recases(alphabet, text[place:end]),
                    costs[end][2] + len(ids),
                ),
                (ids, end),
            )
            for ids, end in _matches(alphabet, text, place, whole)
        ]
        ways = [way for way in ways if way[0][0] < inf]
        if not ways and place in whole:
            character, end = whole[place]
            ways = [((costs[end][0] + is_letter(character), *costs[end][1:]), ((), end))]
        # A character that a token stands for is never skipped, even punctuation.
        if ways:
            costs[place], steps[place] = min(ways, key=lambda way: way[0])
    ids: list[int] = []
    gaps: list[tuple[int, str]] = []
    place = 0
    while place < len(text):
        step_ids, end = steps[place]
        if not step_ids and is_letter(whole[place][0]):
            gaps.append((len(ids), whole[place][0]))
        ids += step_ids
        place = end
    return ids, gaps


def _recases(alphabet: Alphabet, piece: str) -> bool:
    return alphabet.cased and piece not in alphabet.ids


def _matches(
    alphabet: Alphabet, text: str, place: int, whole: dict[int, tuple[str, int]]
) -> list[tuple[tuple[int, ...], int]]:
    """Return (ids, end) of the tokens that can stand at `place`, longest first."""
    matches: list[tuple[tuple[int, ...], int]] = []
    for end in range(min(len(text), place + alphabet.longest), place, -1):
        token = alphabet.find(text[place:end])
        if token is not None:
            matches.append(((token,), end))
    if not matches and place in whole and whole[place][0]:
        sequence = alphabet.sequence(whole[place][0])
        matches = [(sequence, whole[place][1])] if sequence else []
    return matches
