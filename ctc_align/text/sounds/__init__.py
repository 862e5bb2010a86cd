"""Phones of words of any language, from their spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from ctc_align.text.characters import divided, runs
from ctc_align.text.languages import base_code
from ctc_align.text.sounds.alphabets import initials_spelled_out, is_read_as_english, prepare_english
from ctc_align.text.sounds.pieces import LATIN, Piece, pieces, stretches
from ctc_align.types import Word, Words

MOST_KEPT = 2**16
"""Size of the cache of runs; in most scripts a run is a word."""
MOST_PRONUNCIATIONS = 4
"""The most pronunciations of a word."""
ALTERNATIVE = " | "
_SHOUTED = 4
"""In a text of so many words, all in capitals, these do not tell initials."""
_HAS_INITIALS = re.compile(r"(?<![^\W\d_])[^\W\d_a-z](?![a-z])")
"""Most words have no part in capitals, nor a letter that stands alone."""
_CANTONESE = re.compile(r"(?:zh|zho|chi)[-_](?:.+[-_])?(?:HK|MO|yue)\b", re.IGNORECASE)
"""Tags of Chinese that is read as Cantonese: of Hong Kong and Macau."""


def pronounced(words: Words, language: str) -> Words:
    """Return `words` from `split`, each with the phones of its spoken form as `phones`.

    What nothing knows how to say (digits that nobody spelled out) stands for itself among the phones, so that it is
    missing in every vocabulary of phones.

    Args:
        words: numbers are spelled out already.
        language: ISO 639 or BCP 47; "" or "und" where it is unknown.

    >>> from ctc_align.text.transcript import split
    >>> [word.phones for word in pronounced(split("Guten Tag!", language="de"), "de").words]
    ['ɡ u t ə n', 't a k']
    """
    code = "yue" if _CANTONESE.match(language) else base_code(language)
    if is_read_as_english(code):
        prepare_english(_latin_words(words, code))
    said: list[Word] = []
    tells_by_case = len(words.words) < _SHOUTED or any(letter.islower() for word in words.words for letter in word.text)
    for run in runs(words.words):
        forms: Sequence[str] = _pronounced_run(tuple(word.sounding for word in run), code)
        if tells_by_case and len(run) == 1 and _HAS_INITIALS.search(run[0].text):
            forms = [_or_spelled_out(run[0], code)]
        said += [replace(word, phones=form if word.reading is None else _once(form)) for word, form in zip(run, forms)]
    return replace(words, words=tuple(said))


def _or_spelled_out(word: Word, code: str) -> str:
    """Return the pronunciations of a word; its parts in capitals are spelled out, or said as words."""
    parts = word.sounding.split()
    ways: list[Sequence[tuple[str, ...]]] = []
    for part, spelled in zip(parts, initials_spelled_out(word.text, parts, code)):
        own = [tuple(way.split()) for way in _pronounced_run((part,), code)[0].split(ALTERNATIVE)]
        ways.append(own if spelled is None else [spelled, *own])
    return _ways_written(ways)


def _latin_words(words: Words, code: str) -> list[str]:
    parts = dict.fromkeys(part for word in words.words for part in word.spoken.split())
    cut = [(part, stretch) for part in parts for stretch in stretches(part, code)]
    return list(dict.fromkeys(part[start:end] for part, (start, end, script) in cut if script == LATIN))


@lru_cache(maxsize=MOST_KEPT)
def _pronounced_run(spokens: tuple[str, ...], code: str) -> tuple[str, ...]:
    """Return the phones of the words of a run."""
    if len(spokens) == 1:
        return (_written([piece for _, piece in _parts(spokens[0], code)]),)
    owners = [word for word, spoken in enumerate(spokens) for _ in spoken]
    owned: list[list[Piece]] = [[] for _ in spokens]
    for offset, piece in _parts("".join(spokens), code):
        own = owners[offset + piece.start : offset + piece.end]
        if own[0] == own[-1]:
            owned[own[0]].append(piece)
            continue
        for word, phones in zip(own, divided(piece.phones, len(own))):
            owned[word].append(Piece(0, 0, phones))
    return tuple(map(_written, owned))


def _once(form: str) -> str:
    """Return pronunciations with phones that follow themselves told once: length is not told apart."""
    ways = (way.split() for way in form.split(ALTERNATIVE))
    return _ways_written([[tuple(phone for phone, _ in groupby(way)) for way in ways]])


def _parts(text: str, code: str) -> list[tuple[int, Piece]]:
    """Return (place of its part in the text, piece) of all parts, which are parted by spaces."""
    return [(part.start(), piece) for part in re.finditer(r"\S+", text) for piece in pieces(part[0], code)]


def _written(own: Sequence[Piece]) -> str:
    """Return the pronunciations of a word as they are written in `Word.phones`."""
    return _ways_written((piece.phones, *piece.others) for piece in own)


def phones_together(words: Iterable[str | None]) -> str | None:
    """Return the pronunciations of words that are one word now; None where nobody looked for them.

    >>> phones_together(["t u", "b i | b ə"]), phones_together([None])
    ('t u b i | t u b ə', None)
    """
    known = [phones for phones in words if phones is not None]
    if not known:
        return None
    return _ways_written([tuple(way.split()) for way in phones.split(ALTERNATIVE)] for phones in known)


def _ways_written(parts: Iterable[Sequence[tuple[str, ...]]]) -> str:
    """Return the best pronunciations of a word as `Word.phones` has them, from those of its parts."""
    ways: list[tuple[str, ...]] = [()]
    for part in parts:
        ways = list(dict.fromkeys((*way, *more) for more in part for way in ways))[:MOST_PRONUNCIATIONS]
    return ALTERNATIVE.join(" ".join(way) for way in ways if way)
