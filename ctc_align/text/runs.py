"""Runs of words without a space between them, whose sounds depend on each other, and what is shared out in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

from ctc_align.types import Word

MOST_IN_A_RUN = 64
"""Limit of the words that are read together."""

Letters = TypeVar("Letters", str, tuple[str, ...])


def runs(words: tuple[Word, ...]) -> Iterator[list[Word]]:
    """Yield groups of words that follow each other without a space or a sign between them.

    A word that a dictionary has read is alone, but for Japanese っ and ん, whose sound the next word decides.
    """
    run: list[Word] = []
    for word in words:
        together = run and run[-1].char_end == word.char_start and len(run) < MOST_IN_A_RUN
        if run and (word.reading is not None or run[-1].reading is not None):
            together = together and run[-1].sounding[-1:] in ("ッ", "ン")
        if run and not (together and is_letter(run[-1].text[-1]) and is_letter(word.text[0])):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or a mark on one."""
    return unicodedata.category(character)[0] in "LM"


def divided(letters: Letters, count: int) -> list[Letters]:
    """Return letters or phones cut into `count` parts, one for each character that they stand for.

    >>> divided("kya", 2), divided("t", 2), divided("", 1), divided(("k", "j", "a"), 2)
    (['k', 'ya'], ['', 't'], [''], [('k',), ('j', 'a')])
    """
    cuts = [len(letters) * place // count for place in range(count + 1)]
    return [letters[start:end] for start, end in pairwise(cuts)]
