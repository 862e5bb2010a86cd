"""Words → tokens of a vocabulary of characters, pieces of words, or bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from ctc_align.tokens.alphabet import Alphabet, alphabet_of, is_letter
from ctc_align.types import Pronunciation, WordTokens

MOST_KEPT = 100_000
"""Parts of words whose spelling is kept in memory."""

_Spelling = tuple[list[int], list[tuple[int, str]]]
"""Token ids, and the letters that the vocabulary lacks: before which of the ids, and which letter."""


class LetterTokenizer:
    """Spells words in the tokens of `vocab`; token `blank` and special tokens (<pad>, [UNK] …) are never letters.

    A character is taken as it is, else in lower case, else in upper case, else as its NFD sequence, the letters of a
    ligature, or bytes (see `ctc_align.tokens.alphabet`); else it is *missing*. Where the vocabulary has longer tokens,
    a word is cut into as few as possible. Pieces of words that begin with ▁ begin words. Punctuation that the
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

    def prepare(self, spokens: Iterable[str]) -> None:
        """Nothing: spelling needs no preparation. What was spelt is kept, up to a limit."""
        if len(self._spelt) > MOST_KEPT:
            self._spelt.clear()

    def word(self, spoken: str, written: str = "") -> WordTokens:
        """Tokens of a spoken form; spaces inside it become the word separator, if the vocabulary has one."""
        ids: list[int] = []
        gaps: list[tuple[int, str]] = []
        for part in spoken.split():
            if part not in self._spelt:
                self._spelt[part] = self._spell(part)
            found, lacked = self._spelt[part]
            if ids and found and self.separator is not None:
                ids.append(self.separator)
            gaps += [(len(ids) + place, letter) for place, letter in lacked]
            ids += found
        missing = tuple(letter for _, letter in gaps)
        if not ids:
            return WordTokens((), missing)
        labels = tuple(self._vocab[i] for i in ids)
        return WordTokens((Pronunciation(tuple(ids), labels, _joined(gaps)),), missing)

    def _spell(self, part: str) -> _Spelling:
        """The spelling that lacks the fewest letters; ties go to the word as it is, then to lower and upper case."""
        if not self._alphabet.by_bytes:
            return _cheapest(self._alphabet, part)
        # In bytes no piece can be looked up in another case: a word is written in one case as a whole.
        return min((_cheapest(self._alphabet, form) for form in (part, part.lower(), part.upper())), key=_lacked)


def _lacked(spelling: _Spelling) -> int:
    return len(spelling[1])


def _joined(gaps: Sequence[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """Letters that are lacked side by side, together."""
    joined: dict[int, str] = {}
    for place, letter in gaps:
        joined[place] = joined.get(place, "") + letter
    return tuple(joined.items())


def _cheapest(alphabet: Alphabet, part: str) -> _Spelling:
    """The spelling that lacks the fewest letters and then has the fewest tokens; ties go to longer first tokens."""
    characters = alphabet.written(part)
    text = "".join(symbols for symbols, _ in characters)
    whole: dict[int, tuple[str, int]] = {}  # by the place where a character begins: itself, and where the next begins
    place = 0
    for symbols, character in characters:
        whole[place] = (character, place + len(symbols))
        place += len(symbols)
    # From the end: what the rest costs at best, in letters lacked and tokens, and the step that begins it.
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
        # A character that a token stands for is never skipped, even where it could be dropped.
        if ways:
            costs[place], steps[place] = min(ways, key=lambda way: way[0])
    ids: list[int] = []
    gaps: list[tuple[int, str]] = []
    place = 0
    while place < len(text):
        found, end = steps[place]
        if not found and is_letter(whole[place][0]):
            gaps.append((len(ids), whole[place][0]))
        ids += found
        place = end
    return ids, gaps


def _matches(
    alphabet: Alphabet, text: str, place: int, whole: dict[int, tuple[str, int]]
) -> list[tuple[tuple[int, ...], int]]:
    """Ids of tokens that can stand at `place`, and where they end, longest first."""
    found: list[tuple[tuple[int, ...], int]] = []
    for end in range(min(len(text), place + alphabet.longest), place, -1):
        token = alphabet.find(text[place:end])
        if token is not None:
            found.append(((token,), end))
    if not found and place in whole and whole[place][0]:
        sequence = alphabet.sequence(whole[place][0])
        found = [(sequence, whole[place][1])] if sequence else []
    return found
