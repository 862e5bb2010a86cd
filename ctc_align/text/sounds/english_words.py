"""Phones of English words, by the package's letter-to-phone."""

from __future__ import annotations

from collections.abc import Sequence

from ctc_align.text.g2p.pronouncing import letter_to_phone
from ctc_align.text.ipa import OF_ARPABET
from ctc_align.text.sounds.pieces import Piece

_MOST = 2
"""The most pronunciations of a word that is in no dictionary."""


def english_pieces(word: str) -> list[Piece]:
    """Return one piece for a word, with all its pronunciations; a piece for each letter where it has none."""
    found = letter_to_phone().pronounce([word], _MOST)[0]
    ways = tuple(dict.fromkeys(tuple(phone for one in way for phone in OF_ARPABET[one]) for way in found))
    if not ways:
        return [Piece(place, place + 1, (letter,) if letter.isalnum() else ()) for place, letter in enumerate(word)]
    return [Piece(0, len(word), ways[0], ways[1:])]


def prepare(words: Sequence[str]) -> None:
    """Run letter-to-phone once over words that will be asked for; without any it is not even loaded."""
    if words:
        letter_to_phone().pronounce(words, _MOST)
