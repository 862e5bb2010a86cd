"""Neighbouring pieces of any script: equal phones side by side are one."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from ctc_align.text.sounds.pieces import Piece


def without_repeats(pieces: Iterable[Piece]) -> list[Piece]:
    """Return pieces whose phones are told once where they are the same side by side: length is not told apart.

    >>> [piece.phones for piece in without_repeats([Piece(0, 1, ("a", "m")), Piece(1, 2, ("m", "a"))])]
    [('a', 'm'), ('a',)]
    """
    found: list[Piece] = []
    before = ""
    for piece in pieces:
        phones, *others = (_once(phones, before) for phones in (piece.phones, *piece.others))
        found.append(
            Piece(piece.start, piece.end, phones, tuple(dict.fromkeys(way for way in others if way != phones)))
        )
        if piece.phones:
            before = piece.phones[-1]
    return found


def unknown(character: str) -> tuple[str, ...]:
    """Return the phones of what a script's rules do not know: a letter is itself, a mark or an apostrophe is silent."""
    return (character,) if unicodedata.category(character)[0] in "LN" else ()


def _once(phones: tuple[str, ...], before: str) -> tuple[str, ...]:
    kept = tuple(phone for phone, _ in groupby(phones))
    return kept[1:] if kept and kept[0] == before else kept
