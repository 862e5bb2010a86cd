"""Spelling of words in a vocabulary of characters, word pieces, or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from ctc_align.tokens.alphabet import Alphabet, alphabet_of, is_letter
from ctc_align.types import Pronunciation, WordTokens

MOST_KEPT = 100_000
"""Size of the caches of spellings and words, beyond which the next transcript begins anew."""

_Spelling = tuple[list[int], list[tuple[int, str]]]
"""Token ids, and (index of the next id, letter) of each letter that the vocabulary lacks."""


class LetterTokenizer:
    """Spelling in the tokens of `vocab`; token `blank` and special tokens (<pad>, [UNK] …) are never letters.

    A character is looked up as it is, in lower case, in upper case, then as its parts (`Alphabet.sequence`); else it is
    *missing*. Where the vocabulary has longer tokens, a word is cut into as few as possible. Punctuation that the
    vocabulary lacks is dropped.

    >>> spelling = LetterTokenizer(("-", "|", "C", "A", "B"), blank=0)
    >>> spelling.word("cab").pronunciations[0].ids, spelling.word("czb").missing, spelling.separator
    ((2, 3, 4), ('z',), 1)
    """

    token_kind = "tokens"

    def __init__(self, vocab: Sequence[str], blank: int = 0) -> None:
        self._vocab = tuple(vocab)
        self._alphabet = alphabet_of(vocab, blank)
        self.separator = self._alphabet.separator
        self._spelt: dict[str, _Spelling] = {}
        self._words: dict[str, WordTokens] = {}

    def prepare(self, spokens: Iterable[str]) -> None:
        """Clear the caches where they are full."""
        for kept in (self._spelt, self._words):
            if len(kept) > MOST_KEPT:
                kept.clear()

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the tokens of a spoken form; spaces inside it become the word separator, if the vocabulary has one."""
        tokens = self._words.get(said)
        if tokens is None:
            tokens = self._words[said] = self._tokens(said)
        return tokens

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
        """Return the spelling with the fewest missing letters; on ties the word as it is, in lower, in upper case."""
        if not self._alphabet.by_bytes:
            return _cheapest(self._alphabet, part)
        # Pieces of bytes cannot change case one by one: a word is looked up in one case as a whole.
        return min(
            (_cheapest(self._alphabet, form) for form in (part, part.lower(), part.upper())),
            key=lambda spelling: len(spelling[1]),
        )


def _joined(gaps: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Return the gaps with missing letters in one place joined."""
    joined: dict[int, str] = {}
    for place, letter in gaps:
        joined[place] = joined.get(place, "") + letter
    return tuple(joined.items())


def _cheapest(alphabet: Alphabet, part: str) -> _Spelling:
    """Return the spelling with the fewest missing letters, then the fewest tokens; ties go to longer first tokens."""
    characters = alphabet.written(part)
    text = "".join(symbols for symbols, _ in characters)
    whole: dict[int, tuple[str, int]] = {}  # by start: a character and its end
    place = 0
    for symbols, character in characters:
        whole[place] = (character, place + len(symbols))
        place += len(symbols)
    # From the end: the least cost of the rest (missing letters, tokens), and its first step (ids, end).
    costs: list[tuple[float, int]] = [(inf, 0)] * len(text) + [(0, 0)]
    steps: list[tuple[tuple[int, ...], int]] = [((), 1)] * len(text)
    for place in range(len(text) - 1, -1, -1):
        ways = [
            ((costs[end][0], costs[end][1] + len(ids)), (ids, end))
            for ids, end in _matches(alphabet, text, place, whole)
        ]
        ways = [way for way in ways if way[0][0] < inf]
        if not ways and place in whole:
            character, end = whole[place]
            ways = [((costs[end][0] + is_letter(character), costs[end][1]), ((), end))]
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
