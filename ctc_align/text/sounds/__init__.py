"""Phones of words in any language, from their spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from ctc_align.text.characters import divided, runs
from ctc_align.text.languages import base_code
from ctc_align.text.phone_sets import Phones
from ctc_align.text.sounds.pieces import LATIN, Piece, pieces, stretches
from ctc_align.text.sounds.spelling_rules import (
    initials_spelled_out,
    is_read_as_english,
    prepare_english,
)
from ctc_align.types import Word, Words

_MOST_CACHED = 2**16
"""Size of the cache of runs; in most scripts a run is a word."""
MOST_PRONUNCIATIONS = 4
"""The most pronunciations of a word."""
ALTERNATIVE = " | "
_SHOUTED_WORDS = 4
"""The fewest words of a text in capitals whose capitals do not mark initials."""
_HAS_INITIALS = re.compile(r"(?<![^\W\d_])[^\W\d_a-z](?![a-z])")
"""A quick check: most words have no part in capitals and no single letter."""
_CANTONESE = re.compile(r"(?:zh|zho|chi)[-_](?:.+[-_])?(?:HK|MO|yue)\b", re.IGNORECASE)
"""Tags of Chinese that is read as Cantonese: of Hong Kong and Macau."""


def pronounced(words: Words, language: str) -> Words:
    """Return `words` from `split`, each with the phones of its spoken form as `phones`.

    A character without a pronunciation (a digit that is not spelled out) is its own phone, which no
    vocabulary has.

    Args:
        words: numbers are spelled out already.
        language: ISO 639 or BCP 47; "" or "und" if it is unknown.

    >>> from ctc_align.text.transcript import split
    >>> [word.phones for word in pronounced(split("Guten Tag!", language="de"), "de").words]
    ['ɡ u t ə n', 't a k']
    """
    if _CANTONESE.match(language):
        code = "yue"
    else:
        code = base_code(language)
    if is_read_as_english(code):
        prepare_english(_latin_words(words, code))
    said: list[Word] = []
    has_small_letters = any(letter.islower() for word in words.words for letter in word.text)
    capitals_mark_initials = has_small_letters or len(words.words) < _SHOUTED_WORDS
    for run in runs(words.words):
        forms: Sequence[str] = _pronounced_run(tuple(word.reading_text for word in run), code)
        if capitals_mark_initials and len(run) == 1 and _HAS_INITIALS.search(run[0].text):
            forms = [_with_initials(run[0], code)]
        for word, form in zip(run, forms):
            said.append(
                replace(word, phones=form if word.reading is None else _without_repeats(form))
            )
    return replace(words, words=tuple(said))


def _with_initials(word: Word, code: str) -> str:
    """Return the pronunciations of a word with parts in capitals.

    The parts are spelled out, or said as words.
    """
    parts = word.reading_text.split()
    variants: list[Sequence[Phones]] = []
    for part, spelled in zip(parts, initials_spelled_out(word.text, parts, code)):
        as_word = [
            tuple(variant.split())
            for variant in _pronounced_run((part,), code)[0].split(ALTERNATIVE)
        ]
        variants.append(as_word if spelled is None else [spelled, *as_word])
    return _joined_variants(variants)


def _latin_words(words: Words, code: str) -> list[str]:
    parts = dict.fromkeys(part for word in words.words for part in word.spoken.split())
    cut = [(part, stretch) for part in parts for stretch in stretches(part, code)]
    return list(
        dict.fromkeys(part[start:end] for part, (start, end, script) in cut if script == LATIN)
    )


@lru_cache(maxsize=_MOST_CACHED)
def _pronounced_run(spokens: tuple[str, ...], code: str) -> tuple[str, ...]:
    """Return the phones of the words of a run."""
    word_of = [
        word for word, spoken in enumerate(spokens) for _ in spoken
    ]  # by character of the run
    pieces_of: list[list[Piece]] = [[] for _ in spokens]
    for offset, piece in _parts("".join(spokens), code):
        words = word_of[offset + piece.start : offset + piece.end]
        if words[0] == words[-1]:
            pieces_of[words[0]].append(piece)
            continue
        # a piece of several words: each of its characters gets a part of the phones
        for word, phones in zip(words, divided(piece.phones, len(words))):
            pieces_of[word].append(Piece(0, 0, phones))
    return tuple(map(_written, pieces_of))


def _without_repeats(form: str) -> str:
    """Return pronunciations without repeated phones: length is not distinguished."""
    variants = (variant.split() for variant in form.split(ALTERNATIVE))
    return _joined_variants(
        [[tuple(phone for phone, _ in groupby(variant)) for variant in variants]]
    )


def _parts(text: str, code: str) -> list[tuple[int, Piece]]:
    """Return (start of its part in the text, piece) for all parts, which spaces separate."""
    return [
        (part.start(), piece)
        for part in re.finditer(r"\S+", text)
        for piece in pieces(part[0], code)
    ]


def _written(word: Sequence[Piece]) -> str:
    """Return the pronunciations of a word in the notation of `Word.phones`."""
    return _joined_variants((piece.phones, *piece.others) for piece in word)


def phones_together(words: Iterable[str | None]) -> str | None:
    """Return the pronunciations of words that are joined to one word; None if they have none.

    >>> phones_together(["t u", "b i | b ə"]), phones_together([None])
    ('t u b i | t u b ə', None)
    """
    known = [phones for phones in words if phones is not None]
    if not known:
        return None
    return _joined_variants(
        [tuple(variant.split()) for variant in phones.split(ALTERNATIVE)] for phones in known
    )


def _joined_variants(parts: Iterable[Sequence[Phones]]) -> str:
    """Return the best pronunciations of a word, joined from those of its parts.

    They are in the notation of `Word.phones`.
    """
    variants: list[list[str]] = [[]]
    for part in parts:
        first, *others = dict.fromkeys(part)
        if others and len(variants) < MOST_PRONUNCIATIONS:
            joined = dict.fromkeys(
                (*variant, *more) for more in (first, *others) for variant in variants
            )
            variants = list(map(list, joined))[:MOST_PRONUNCIATIONS]
            continue
        for variant in variants:  # in place, or a word of n pieces would take n² steps
            variant += first
    return ALTERNATIVE.join(" ".join(variant) for variant in variants if variant)
