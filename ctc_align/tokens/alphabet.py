"""The letters or word pieces of a model's vocabulary, and its conventions for the beginnings of words.

Four kinds are known: characters (wav2vec 2.0, MMS, NeMo's character models), sentencepiece (pieces that begin words
begin with ▁), wordpiece (pieces that continue words begin with ##), and byte-level BPE as GPT-2's (every byte is a
character, a space is Ġ). An `Alphabet` holds the pieces of all kinds in plain characters, with ▁ where
words begin.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

SEPARATORS = ("|", "▁", " ", "<space>", "[SPACE]", "<SPACE>")
BEGINS = "▁"
STAR = "*"
"""The class of any speech in MMS_FA and similar models: no letter."""

_GOES_ON = "##"
_BYTE_SPACE = "Ġ"
_MOST_BYTES = 200
"""Least number of the 256 characters for bytes in a vocabulary of bytes."""
_SPECIAL = re.compile(r"<.+>|\[.+\]")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_APOSTROPHES = "'’ʼ"


@dataclass(frozen=True)
class Alphabet:
    """The pieces of a vocabulary and how words are written with them.

    Attributes:
        ids: the class of each piece, in NFC; in `by_bytes` pieces are strings of GPT-2's characters for bytes.
        separator: the class between words, if there is one.
        begins: whether pieces that begin a word are marked by ▁ as their first character.
        by_bytes: whether words are written as bytes.
        fallback: the classes of single bytes (sentencepiece's <0xE2>), for characters that have no piece.
        longest: number of characters of the longest piece.
    """

    ids: dict[str, int]
    separator: int | None
    begins: bool
    by_bytes: bool
    fallback: dict[int, int] = field(default_factory=dict)
    longest: int = 1

    def written(self, part: str) -> list[tuple[str, str]]:
        """Return (character in the vocabulary, character of the word in NFC) pairs; ▁ for the beginning has ""."""
        begin = [(BEGINS, "")] if self.begins else []
        text = unicodedata.normalize("NFC", part)
        if self.by_bytes:
            return begin + [("".join(_byte_characters()[byte] for byte in c.encode()), c) for c in text]
        return begin + [(c, c) for c in text]

    def find(self, piece: str) -> int | None:
        """Return the class of a piece: as it is, else in lower case, in upper case, or case-folded (ς is σ)."""
        if self.by_bytes:
            return self.ids.get(piece)
        return next((self.ids[form] for form in _forms(piece) if form in self.ids), None)

    def sequence(self, character: str) -> tuple[int, ...]:
        """Return the classes of the parts of a character; () where the vocabulary lacks one of them.

        Parts are a letter and its accents (NFD), the letters of a ligature, SS for ß in capitals, the jamo of a Hangul
        syllable, conjoining or as letters (ㅎㅏㄴ), or the bytes.
        """
        for form in _forms(character):
            decomposed = unicodedata.normalize("NFD", form)
            for parts in (decomposed, _jamo(decomposed), unicodedata.normalize("NFKD", form)):
                if len(parts) > 1 and all(part in self.ids for part in parts):
                    return tuple(self.ids[part] for part in parts)
        raw = character.encode()
        return tuple(self.fallback[byte] for byte in raw) if all(byte in self.fallback for byte in raw) else ()


def alphabet_of(vocab: Sequence[str], blank: int) -> Alphabet:
    """Return the alphabet of a vocabulary; `blank` and special tokens (<pad>, [UNK] …, the star) are no letters.

    >>> alphabet_of(("<pad>", "▁the", "s"), 0).ids, alphabet_of(("[PAD]", "the", "##s"), 0).ids
    ({'▁the': 1, 's': 2}, {'▁the': 1, 's': 2})
    """
    pieces = {i: t for i, t in enumerate(vocab) if i != blank and t and t != STAR and not _SPECIAL.fullmatch(t)}
    by_bytes, begins = False, any(piece.startswith(BEGINS) and piece != BEGINS for piece in pieces.values())
    if not begins and any(piece.startswith(_GOES_ON) and piece != _GOES_ON for piece in pieces.values()):
        begins = True
        pieces = {i: piece[2:] if piece.startswith(_GOES_ON) else BEGINS + piece for i, piece in pieces.items()}
    elif not begins and _is_bytes(pieces.values()):
        by_bytes = True
        begins = any(piece.startswith(_BYTE_SPACE) and piece != _BYTE_SPACE for piece in pieces.values())
        if begins:
            marked = len(_BYTE_SPACE)
            pieces = {i: BEGINS + p[marked:] if p.startswith(_BYTE_SPACE) else p for i, p in pieces.items()}
    ids: dict[str, int] = {}
    for index, piece in pieces.items():
        ids.setdefault(piece if by_bytes else unicodedata.normalize("NFC", piece), index)
    single = ((index, _BYTE.fullmatch(token)) for index, token in enumerate(vocab) if index != blank)
    return Alphabet(
        ids=ids,
        separator=None if begins else _separator(vocab, blank, by_bytes),
        begins=begins,
        by_bytes=by_bytes,
        fallback={int(match[1], 16): index for index, match in single if match},
        longest=max(map(len, ids), default=1),
    )


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, mark or digit; all else is punctuation, which a vocabulary may lack."""
    return unicodedata.category(character)[0] in "LMN" if character else False


def _separator(vocab: Sequence[str], blank: int, by_bytes: bool) -> int | None:
    # In a vocabulary of bytes | is a sign; in others Ġ is a letter (Maltese).
    known = (_BYTE_SPACE,) if by_bytes else SEPARATORS
    places = (vocab.index(token) for token in known if token in vocab)
    return next((place for place in places if place != blank), None)


def _is_bytes(pieces: Collection[str]) -> bool:
    """Return whether pieces are of GPT-2's kind: made of characters for bytes, and some of them begin words."""
    known = set(_byte_characters().values())
    if sum(piece in known for piece in pieces) >= _MOST_BYTES:
        return True
    marked = any(piece.startswith(_BYTE_SPACE) and piece != _BYTE_SPACE for piece in pieces)
    return marked and all(known.issuperset(piece) for piece in pieces)


@lru_cache(maxsize=1)
def _byte_characters() -> dict[int, str]:
    """Return GPT-2's character for each byte: printable ones stand for themselves, the others begin at U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = (byte for byte in range(256) if byte not in set(printable))
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(others)}


def _forms(piece: str) -> tuple[str, ...]:
    """Return the spellings of `piece` that are looked up in a vocabulary, in this order."""
    if piece in _APOSTROPHES:
        return tuple(_APOSTROPHES)
    folded = piece.casefold()
    return piece, piece.lower(), piece.upper(), folded if len(folded) == len(piece) else piece


@lru_cache(maxsize=2**12)
def _jamo(decomposed: str) -> str:
    """Return conjoining jamo as letters: ᄒ and ᆫ are ㅎ and ㄴ; "" where there are none."""
    names = [unicodedata.name(part, "") for part in decomposed]
    if not all(re.match(r"HANGUL (CHOSEONG|JUNGSEONG|JONGSEONG) ", name) for name in names):
        return ""
    try:
        return "".join(unicodedata.lookup(f"HANGUL LETTER {name.split(maxsplit=2)[2]}") for name in names)
    except KeyError:
        return ""
