"""Words divided at the ends of lines.

A hyphen at the end of a line divides a word ("compar-⏎atively") or belongs to a compound
("well-⏎known"). The text itself is asked first, then in English the dictionary; other languages
divide words far more often than compounds.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from ctc_align.text.characters import Span, lazy_regex, word_set
from ctc_align.text.letter_to_phone import english_words
from ctc_align.text.tables import text_table, word_list
from ctc_align.text.word_forms import LINE_END_HYPHEN, is_english, language_base

_HYPHENS = ("-", "‐")
_COMPOUNDS = word_set("no-one co-op")
"""Compounds that CMUdict has as one word with another sound."""
_BOUND_PARTS = word_list("bound-parts")
_DIVISION_ONLY = "¬\u00ad"
_LONGEST_PART = 40
_WRITTEN_WORD = lazy_regex(r"[^\W\d_]+(?:[-‐][^\W\d_]+)*")
_ENDINGS = ("'s", "s", "es", "ed", "d", "ing", "ly", "er", "ers")


def line_divisions(text: str, language: str) -> list[Span]:
    r"""Return the spans of hyphens and line ends inside words divided at the ends of lines.

    They are in ascending order.

    >>> text = "It is compar-\natively well-\nknown."
    >>> [text[start - 6 : end + 7] for start, end in line_divisions(text, "en")]
    ['compar-\natively']
    """
    found = []
    written: frozenset[str] | None = None
    for match in LINE_END_HYPHEN.finditer(text):
        start, end = match.span()
        first, second = _letters_before(text, start), _letters_after(text, end)
        if not (
            first
            and second
            and first[-1].lower() != first[-1].upper()
            and second[0].lower() != second[0].upper()
        ):
            continue
        before, after = start - len(first) - 1, end + len(second)
        is_part = (
            text[max(before, 0) : before + 1] in _HYPHENS or text[after : after + 1] in _HYPHENS
        )
        if written is None:
            written = frozenset(
                word[0].casefold().replace("‐", "-") for word in _WRITTEN_WORD.finditer(text)
            )
        if match[0][0] in _DIVISION_ONLY or _is_divided(first, second, written, language, is_part):
            found.append((start, end))
    return found


def _is_divided(
    first: str, second: str, written: Collection[str], language: str, is_part: bool
) -> bool:
    """Return whether a hyphen and a line end divide one word, or a compound at `is_part`.

    The two parts stand on either side of them.

    `written` has the words and compounds of the whole text.
    """
    if second[0].isupper() and not first.isupper():
        return False
    first, second = first.casefold().replace("’", "'"), second.casefold().replace("’", "'")
    whole = first + second
    if f"{first}-{second}" in written or f"{first}-{second}" in _COMPOUNDS:
        return False
    if whole in written:
        return True
    if not is_english(language):
        kept = text_table("words", "kept-hyphens").get(language_base(language), "")
        return second not in kept.split(",")
    words = english_words()
    if is_part and first in words and second in words:
        return False
    if whole in words:
        return True
    if len(first) == 1 or second.startswith(first):
        return False  # "T-shirt"; somebody stammers
    if any(whole.removesuffix(end) in words for end in _ENDINGS if whole.endswith(end)):
        return True
    return (
        first not in words or second not in words or first in _BOUND_PARTS or second in _BOUND_PARTS
    )


def _letters_before(text: str, end: int) -> str:
    start = end
    while start > max(end - _LONGEST_PART, 0) and _is_in_word(text[start - 1]):
        start -= 1
    return text[start:end].lstrip("'’")


def _letters_after(text: str, start: int) -> str:
    end = start
    while end < min(start + _LONGEST_PART, len(text)) and _is_in_word(text[end]):
        end += 1
    return text[start:end].rstrip("'’")


def _is_in_word(character: str) -> bool:
    return character.isalpha() or character in "'’" or unicodedata.combining(character) > 0
