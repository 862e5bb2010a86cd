"""Words → tokens of a vocabulary of characters or pieces of words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from ctc_align.types import Pronunciation, WordTokens

SEPARATORS = ("|", "▁", " ", "<space>", "[SPACE]", "<SPACE>")
MOST_KEPT = 100_000
"""Parts of words whose spelling is kept in memory."""

_PREFIX = "▁"
_SPECIAL = re.compile(r"<.+>|\[.+\]")
_APOSTROPHES = "'’ʼ"


class LetterTokenizer:
    """Spells words in the tokens of `vocab`; token `blank` and special tokens (<pad>, [UNK] …) are never letters.

    A character is taken as it is, else in lower case, else in upper case, else as its NFD sequence; else it is
    *missing*. Where the vocabulary has longer tokens, a word is cut into as few as possible. Pieces of words that
    begin with ▁ begin words. Punctuation that the vocabulary lacks is dropped.

    >>> spelling = LetterTokenizer(("-", "|", "C", "A", "B"), blank=0)
    >>> spelling.word("cab").pronunciations[0].ids, spelling.word("czb").missing, spelling.separator
    ((2, 3, 4), ('z',), 1)
    """

    token_kind = "tokens"

    def __init__(self, vocab: Sequence[str], blank: int = 0) -> None:
        self._vocab = tuple(vocab)
        self._ids: dict[str, int] = {}
        for index, token in enumerate(vocab):
            if index != blank and token and not _SPECIAL.fullmatch(token):
                self._ids.setdefault(unicodedata.normalize("NFC", token), index)
        self._starts_words = any(token.startswith(_PREFIX) and token != _PREFIX for token in self._ids)
        self._longest = max((len(token) for token in self._ids), default=1)
        self.separator = self._find_separator(blank)
        self._spelt: dict[str, tuple[list[int], list[str]]] = {}

    def _find_separator(self, blank: int) -> int | None:
        if self._starts_words:
            return None
        places = (self._vocab.index(token) for token in SEPARATORS if token in self._vocab)
        return next((place for place in places if place != blank), None)

    def prepare(self, spokens: Iterable[str]) -> None:
        """Nothing: spelling needs no preparation. What was spelt is kept, up to a limit."""
        if len(self._spelt) > MOST_KEPT:
            self._spelt.clear()

    def word(self, spoken: str, written: str = "") -> WordTokens:
        """Tokens of a spoken form; spaces inside it become the word separator, if the vocabulary has one."""
        ids: list[int] = []
        missing: list[str] = []
        for part in spoken.split():
            if part not in self._spelt:
                self._spelt[part] = self._spell(part)
            found, lacked = self._spelt[part]
            if ids and found and self.separator is not None:
                ids.append(self.separator)
            ids += found
            missing += lacked
        if not ids:
            return WordTokens((), tuple(missing))
        return WordTokens((Pronunciation(tuple(ids), tuple(self._vocab[i] for i in ids)),), tuple(missing))

    def _spell(self, part: str) -> tuple[list[int], list[str]]:
        """The spelling that lacks the fewest letters and then has the fewest tokens; ties go to longer first tokens."""
        text = unicodedata.normalize("NFC", part)
        if self._starts_words:
            text = _PREFIX + text
        # From the end: what the rest costs at best, in letters lacked and tokens, and the step that begins it.
        costs = [(0, 0)] * (len(text) + 1)
        steps: list[tuple[tuple[int, ...], int]] = [((), 1)] * len(text)
        for place in range(len(text) - 1, -1, -1):
            ways = [
                ((costs[place + used][0], costs[place + used][1] + len(ids)), (ids, used))
                for ids, used in self._matches(text, place)
            ]
            lacked = int(_is_letter(text[place]))
            skipping = ((costs[place + 1][0] + lacked, costs[place + 1][1]), ((), 1))
            # A character that a token stands for is never skipped, even where it could be dropped.
            costs[place], steps[place] = min(ways, key=lambda way: way[0]) if ways else skipping
        ids: list[int] = []
        missing: list[str] = []
        place = 0
        while place < len(text):
            found, used = steps[place]
            ids += found
            if not found and _is_letter(text[place]):
                missing.append(text[place])
            place += used
        return ids, missing

    def _matches(self, text: str, place: int) -> list[tuple[tuple[int, ...], int]]:
        """Ids of tokens that can stand at `place`, with the number of characters they stand for, longest first."""
        found: list[tuple[tuple[int, ...], int]] = []
        for end in range(min(len(text), place + self._longest), place, -1):
            piece = text[place:end]
            token = next((self._ids[form] for form in _forms(piece) if form in self._ids), None)
            if token is not None:
                found.append(((token,), end - place))
        if not found:
            sequence = self._sequence(text[place])
            found = [(sequence, 1)] if sequence else []
        return found

    def _sequence(self, character: str) -> tuple[int, ...]:
        """One character as several tokens: its letter and its accents (NFD); () where the vocabulary lacks one."""
        for form in _forms(character):
            parts = unicodedata.normalize("NFD", form)
            if len(parts) > 1 and all(part in self._ids for part in parts):
                return tuple(self._ids[part] for part in parts)
        return ()


def _forms(piece: str) -> tuple[str, ...]:
    """How a vocabulary might write `piece`, in the order in which it is looked up."""
    if piece in _APOSTROPHES:
        return tuple(_APOSTROPHES)
    return piece, piece.lower(), piece.upper()


def _is_letter(character: str) -> bool:
    """Letters, marks and digits are missed when the vocabulary lacks them; all else is punctuation."""
    return unicodedata.category(character)[0] in "LMN"
