"""The short vowels that Arabic and Hebrew letters leave out: where they are, not which.

Consonants without a vowel between them are cut into syllables, each of which begins with one consonant and ends with
one at most; at the end of a word with two where the second is the less sonorous (dost, qalb). One vowel stands for all
that may have been left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ctc_align.text.ipa import IPA_CLASSES
from ctc_align.text.sounds.neighbours import without_repeats
from ctc_align.text.sounds.pieces import Piece

SHORT = "ə"
_SONORITY = {phone: rank for rank, phones in enumerate(IPA_CLASSES.values()) for phone in phones}


@dataclass(slots=True)
class Letter:
    """A letter with its marks: phones of a consonant, and of a vowel; `vowel` is None where none is written.

    A vowel letter has no onset, and the consonant before it the vowel ().
    """

    start: int
    end: int
    onset: tuple[str, ...]
    vowel: tuple[str, ...] | None = None
    is_long: bool = False

    @property
    def is_bare(self) -> bool:
        return bool(self.onset) and self.vowel is None


def with_short_vowels(letters: Sequence[Letter], *, final_clusters: str) -> list[Piece]:
    """Return the pieces of a word, with a vowel where one was left out.

    Args:
        letters: of the whole word.
        final_clusters: which words may end in two consonants: "all", "short" (of three consonants) or "none".

    >>> word = [Letter(place, place + 1, (phone,)) for place, phone in enumerate("mktb")]
    >>> [" ".join(piece.phones) for piece in with_short_vowels(word, final_clusters="short")]
    ['m ə', 'k', 't ə', 'b']
    """
    start, doubtful = 0, -1
    while start < len(letters):
        end = start
        while end < len(letters) and letters[end].is_bare:
            end += 1
        if end == len(letters) and end > start:
            doubtful = _fill_last(letters, start, final_clusters)
        elif end > start:
            _fill(letters, start, end)
        start = max(end, start + 1)
    pieces = []
    for place, letter in enumerate(letters):
        phones = (*letter.onset, *(letter.vowel or ()))
        other = letter.onset if letter.vowel else (*letter.onset, SHORT)
        pieces.append(Piece(letter.start, letter.end, phones, (other,) if place == doubtful else ()))
    return without_repeats(pieces)


def _fill(letters: Sequence[Letter], start: int, end: int) -> None:
    """Put short vowels into letters[start:end], which a consonant with its vowel follows."""
    last = letters[start - 1] if start else None
    is_coda = last is not None and bool(last.vowel) and not last.is_long
    for place in range(start + is_coda, end, 2):
        letters[place].vowel = (SHORT,)


def _fill_last(letters: Sequence[Letter], start: int, final_clusters: str) -> int:
    """Put short vowels into letters[start:], the end of the word; return the place of a doubtful one, or -1."""
    end = len(letters)
    last = letters[start - 1] if start else None
    after_vowel = last is not None and bool(last.vowel)
    sonority = [_SONORITY.get(letter.onset[-1], 0) for letter in letters[-2:] if letter.onset]
    may_end_in_two = final_clusters == "all" and end - start + after_vowel >= 3
    may_end_in_two = may_end_in_two or (final_clusters == "short" and end - start == 3 and not after_vowel)
    coda = end - 1
    if may_end_in_two and sonority[0] > sonority[1]:
        coda = end - 2
    for place in range(coda - 1, start - 1, -2):
        letters[place].vowel = (SHORT,)
    is_open = letters[start].vowel is None and (not after_vowel or (last is not None and last.is_long and coda > start))
    if is_open:
        letters[start].vowel = (SHORT,)
    return end - 2 if may_end_in_two else -1
