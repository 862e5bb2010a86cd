"""Pronunciation of words of any language in `IPA_PHONES`: by a lexicon, else by `Word.phones`.

`Word.phones` are phones parted by spaces, pronunciations by " | ", the best one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ctc_align.text.word_forms import outer_punctuation_stripped
from ctc_align.tokens.phones import MOST_KEPT, MOST_PRONUNCIATIONS, PhoneTokenizer, fewest_missing, phones_in
from ctc_align.types import Pronunciation, WordTokens

if TYPE_CHECKING:
    from ctc_align.text.lexicon import Lexicon

ALTERNATIVE = " | "


class IpaTokenizer(PhoneTokenizer):
    """The phones that words have, in a vocabulary that holds all phones of IPA that are known here.

    A word of the `lexicon` is said as that says: looked up as it is written, then as it is spoken, then part by part,
    if it has them all. What is no phone (digits that nobody spelled out, letters that no rule knows) is missing.

    >>> from ctc_align.text.phone_sets import IPA_PHONES
    >>> found = IpaTokenizer(("<blank>", *IPA_PHONES)).word("k a | k ɔ 7")
    >>> [said.labels for said in found.pronunciations], found.missing
    ([('k', 'a')], ())
    """

    def __init__(self, vocab: Sequence[str], lexicon: Lexicon | None = None) -> None:
        super().__init__(vocab, lexicon)
        self._said: dict[tuple[str, str, str], WordTokens] = {}

    def prepare(self, spokens: Iterable[str]) -> None:
        """Clear the cache where it is full."""
        if len(self._said) > MOST_KEPT:
            self._said.clear()

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the pronunciations of the phones that are `said`, or the lexicon's of the word."""
        names = ("", "") if self._lexicon is None else (outer_punctuation_stripped(written), spoken)
        key = (said, *names)
        if key not in self._said:
            entries = self._in_lexicon(*names)
            self._said[key] = WordTokens(entries) if entries else self._of_phones(said)
        return self._said[key]

    def _in_lexicon(self, written: str, spoken: str) -> tuple[Pronunciation, ...]:
        for whole in (written, spoken):
            if whole and self._has(whole):
                return self._look_up(whole)[:MOST_PRONUNCIATIONS]
        parts = spoken.split()
        if not all(map(self._has, parts)):
            return ()
        ways = [(0, Pronunciation((), ()))]
        for part in parts:
            ways = self._extended(ways, self._look_up(part))
        return tuple(way for _, way in ways if way.ids)

    def _of_phones(self, said: str) -> WordTokens:
        """Return the pronunciations that lack the fewest phones, and what they lack."""
        ways = [phones.split() for phones in said.split(ALTERNATIVE)]
        return fewest_missing(phones_in([(phone, self._ids.get(phone)) for phone in way]) for way in ways)
