"""Pronunciation of words in phones.

It comes from a lexicon, otherwise from English letter-to-phone, otherwise from the spelling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ctc_align.errors import LexiconError, UsageError
from ctc_align.text.phone_sets import (
    ARPABET_PHONES,
    IPA_PHONES,
    NEAREST_IPA,
    broad_phones,
    is_ipa,
    phone_label,
    strip_stress,
)
from ctc_align.text.word_forms import trimmed_forms, without_markup
from ctc_align.tokens.alphabet import LetterTokenizer
from ctc_align.types import Pronunciation, WordTokens

if TYPE_CHECKING:
    from ctc_align.text.lexicon import Lexicon

MOST_PRONUNCIATIONS = 4
"""Limit of the combinations of a word of several parts; the best are kept."""
MOST_KEPT = 100_000
"""Size of the caches of pronunciations, some 100 MB when full; then they are cleared."""

_FEWEST_ARPABET = 30
_NAMED = 12
_LENGTHS = ", without marks of length"


def is_arpabet(vocab: Sequence[str]) -> bool:
    """Return whether a vocabulary is one of CMU phones, in any case, with or without stress marks.

    >>> is_arpabet(("<blank>", *ARPABET_PHONES)), is_arpabet(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    (True, False)
    """
    have = {strip_stress(token.upper()) for token in vocab}
    return sum(phone in have for phone in ARPABET_PHONES) >= _FEWEST_ARPABET


class PhoneTokenizer:
    """Pronunciation in the phones of `vocab`.

    A word is looked up in `lexicon` as it is written, with all of its punctuation and then less,
    then as it is spoken, then part by part ("twenty two"); a part
    that it lacks is pronounced by English letter-to-phone if the vocabulary is ARPAbet, else spelt
    by `spelling`; without that all its letters are missing. Labels are those of the lexicon, with
    stress marks. Of letter-to-phone's pronunciations, those that lack the fewest phones are kept;
    phones that the vocabulary lacks are missing.

    Raises:
        LexiconError: the vocabulary has none of the lexicon's phones; from `word`: it lacks phones
            of every pronunciation of an entry.

    >>> speech = PhoneTokenizer(("<blank>", *ARPABET_PHONES))
    >>> [entry.labels for entry in speech.word("twenty the").pronunciations[:1]]
    [('T', 'W', 'EH', 'N', 'T', 'IY', 'DH', 'AH')]
    """

    def __init__(
        self,
        vocab: Sequence[str],
        lexicon: Lexicon | None = None,
        spelling: LetterTokenizer | None = None,
        separator: int | None = None,
    ) -> None:
        self._ids = {token: index for index, token in reversed(list(enumerate(vocab)))}
        self._arpabet = is_arpabet(vocab)
        self._lexicon = lexicon
        self._spelling = None if self._arpabet else spelling
        self.token_kind = "tokens" if self._spelling else "phones"
        if self._spelling:
            self.separator = self._spelling.separator
        else:
            self.separator = separator
        self.told: set[str] = set()
        """Entries of the lexicon of which a warning has said that they are not used."""
        self._parts: dict[str, WordTokens] = {}
        self._words: dict[tuple[str, str], WordTokens] = {}
        if lexicon is not None:
            self._check(lexicon)

    def _check(self, lexicon: Lexicon) -> None:
        phones = lexicon.phones()
        if any(self._id(phone) is not None for phone in phones):
            return
        known = [token for token in self._ids if len(token) < 4]
        raise LexiconError(
            f"{lexicon.source}:{min(phones.values())}: expected phones of the model's vocabulary "
            f"({_named(known)}), got none of them but {_named(phones)}; "
            f"give a lexicon in the model's phone set{' (ARPAbet)' if self._arpabet else ''}"
        )

    def prepare(self, spokens: Iterable[str]) -> None:
        """Run letter-to-phone once for all the words of these spoken forms that need it."""
        for cache in (self._parts, self._words):
            if len(cache) > MOST_KEPT:
                cache.clear()
        if self._arpabet:
            parts = dict.fromkeys(part for spoken in spokens for part in spoken.split())
            new = [part for part in parts if part not in self._parts and not self._has(part)]
            if new:
                from ctc_align.text.letter_to_phone import letter_to_phone

                pronounced = letter_to_phone().pronounce(new)
                self._parts.update(
                    (part, self._pronounced(part, phones)) for part, phones in zip(new, pronounced)
                )

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the pronunciations of a spoken form of one or several words, best first."""
        whole = self.entry_of(written)
        tokens = self._words.get((said, whole))
        if tokens is None:
            tokens = self._words[said, whole] = self._word(said, whole)
        return tokens

    def _word(self, spoken: str, written: str) -> WordTokens:
        for whole in (written, spoken):
            if whole and spoken and self._has(whole):
                return WordTokens(self._look_up(whole)[:MOST_PRONUNCIATIONS])
        if self._spelling is not None and not any(map(self._has, spoken.split())):
            return self._spelling.word(spoken, written)
        ways: list[tuple[int, Pronunciation]] = [(0, Pronunciation((), ()))]
        missing: tuple[str, ...] = ()
        for part in spoken.split():
            tokens = self._part(part)
            missing += tokens.missing
            if tokens.pronunciations:
                ways = self._extended(ways, tokens.pronunciations)
            elif tokens.missing:
                ways = [(rank, _with_gap(before, "".join(tokens.missing))) for rank, before in ways]
        return WordTokens(
            tuple(pronunciation for _, pronunciation in ways if pronunciation.ids), missing
        )

    def _extended(
        self, ways: list[tuple[int, Pronunciation]], pronunciations: Sequence[Pronunciation]
    ) -> list[tuple[int, Pronunciation]]:
        """Return each (rank, pronunciation) with each of `pronunciations` appended.

        Only the best by their sum of ranks stay.
        """
        gap = () if self.separator is None else (self.separator,)
        label = tuple(token for token, index in self._ids.items() if index in gap)
        longer = []
        for rank, before in ways:
            for more, after in enumerate(pronunciations):
                ids = before.ids + (gap if before.ids else ()) + after.ids
                labels = before.labels + (label if before.ids else ()) + after.labels
                moved = tuple(
                    (len(ids) - len(after.ids) + place, letters) for place, letters in after.gaps
                )
                longer.append((rank + more, Pronunciation(ids, labels, before.gaps + moved)))
        return sorted(longer, key=lambda way: way[0])[:MOST_PRONUNCIATIONS]

    def _part(self, part: str) -> WordTokens:
        tokens = self._parts.get(part)
        if tokens is None:
            tokens = self._parts[part] = self._new_part(part)
        return tokens

    def _new_part(self, part: str) -> WordTokens:
        if self._has(part):
            return WordTokens(self._look_up(part))
        if self._arpabet:
            from ctc_align.text.letter_to_phone import letter_to_phone

            return self._pronounced(part, letter_to_phone().pronounce([part])[0])
        if self._spelling is not None:
            return self._spelling.word(part)
        return WordTokens((), tuple(character for character in part if character.isalnum()))

    def _pronounced(self, part: str, candidates: Sequence[Sequence[str]]) -> WordTokens:
        """Return the tokens of letter-to-phone's pronunciations."""
        from ctc_align.text.letter_to_phone import fold

        found = fewest_missing(self._in_vocabulary(phones) for phones in candidates)
        return WordTokens(found.pronunciations, fold(part)[1] + found.missing)

    @property
    def lexicon_name(self) -> str:
        """The name of the lexicon, "" without one."""
        if self._lexicon is None:
            return ""
        return self._lexicon.source

    def entry_of(self, written: str) -> str:
        """Return the lexicon's form of a written word, "" if it has none.

        It has as much of the word's punctuation as an entry has.
        """
        if self._lexicon is None or not written:
            return ""
        return next(filter(self._has, trimmed_forms(without_markup(written))), "")

    def has_all(self, text: str) -> bool:
        """Return whether the lexicon has all the words of a text, as they are written."""
        return self._lexicon is not None and all(map(self._has, set(text.split())))

    def _has(self, word: str) -> bool:
        return self._lexicon is not None and self._lexicon.get(word) is not None

    def _look_up(self, word: str) -> tuple[Pronunciation, ...]:
        assert self._lexicon is not None
        entries = self._lexicon.get(word) or ()
        found = fewest_missing(map(self._in_vocabulary, entries))
        if found.missing:
            missing = dict.fromkeys(
                label for labels in entries for label in labels if self._id(label) is None
            )
            raise LexiconError(
                f"{self._lexicon.source}:{self._lexicon.line(word)}: the model does not have the"
                f" phones {_named(missing)} of the word {word!r}; use the model's phones (ctc-align"
                " models show MODEL lists"
                f" them{_LENGTHS if any('ː' in label for label in missing) else ''}) or remove the"
                " entry"
            )
        return found.pronunciations

    def _in_vocabulary(self, labels: Sequence[str]) -> WordTokens:
        """Return the only pronunciation of these phones, and those that the vocabulary lacks."""
        return phones_in([(label, self._id(label)) for label in labels])

    def _id(self, label: str) -> int | None:
        """Return the id of a label.

        It is looked up unchanged, without stress, or for ARPAbet in any case with any
        stress.
        """
        bare = strip_stress(label)
        forms = [label, bare]
        if self._arpabet:
            upper = strip_stress(label.upper())
            forms += [upper, upper.lower(), upper + "1", upper + "0"]
        return next((self._ids[form] for form in forms if form in self._ids), None)


def shown_labels(
    labels: Sequence[str], vocab: tuple[str, ...], phones: str, *, stress: bool
) -> tuple[str, ...]:
    """Return the labels of tokens as the settings `phones` and `stress` show them.

    Tokens of `vocab` keep their stress.

    Raises:
        UsageError: ARPAbet for a vocabulary of IPA.
    """
    if not is_arpabet(vocab):
        if phones == "arpabet" and is_ipa(vocab):
            raise UsageError(
                "--phones arpabet: this model has IPA phones; --model english has those of ARPAbet"
            )
        return tuple(labels)
    known = {*vocab} if phones != "ipa" else set()
    return tuple(
        label if label in known else phone_label(label, ipa=phones == "ipa", stress=stress)
        for label in labels
    )


def phones_in(ids: Sequence[tuple[str, int | None]]) -> WordTokens:
    """Return the pronunciation of (phone, its id or None) pairs.

    It has gaps where the vocabulary lacks phones.

    >>> said = phones_in([("K", 7), ("AE", 2), ("T", None)])
    >>> said.pronunciations[0].labels, said.pronunciations[0].gaps, said.missing
    (('K', 'AE'), ((2, 'T'),), ('T',))
    """
    known: list[int] = []
    gaps: dict[int, str] = {}
    for phone, index in ids:
        if index is None:
            gaps[len(known)] = gaps.get(len(known), "") + phone
        else:
            known.append(index)
    labels = tuple(phone for phone, index in ids if index is not None)
    missing = tuple(phone for phone, index in ids if index is None)
    return WordTokens((Pronunciation(tuple(known), labels, tuple(gaps.items())),), missing)


def fewest_missing(ways: Iterable[WordTokens]) -> WordTokens:
    """Return the pronunciations that lack the fewest phones, each once.

    Also return the phones that the first one lacks.

    A pronunciation without any known phone cannot be aligned; if there is no other, the word has
    none.
    """
    ways = list(ways)
    fewest = min((len(way.missing) for way in ways), default=0)
    best = [way for way in ways if len(way.missing) == fewest]
    kept = {way.pronunciations[0].ids: way.pronunciations[0] for way in reversed(best)}
    kept.pop((), None)
    return WordTokens(tuple(reversed(kept.values())), best[0].missing if best else ())


def _with_gap(before: Pronunciation, letters: str) -> Pronunciation:
    """Return a pronunciation with missing letters after it."""
    return Pronunciation(before.ids, before.labels, (*before.gaps, (len(before.ids), letters)))


def _named(names: Iterable[str]) -> str:
    """Return the names for a message; if there are many, only the first."""
    names = list(names)
    return " ".join(names[:_NAMED]) + (f" … ({len(names)} in all)" if len(names) > _NAMED else "")


# Pronunciation of words of any language in `IPA_PHONES`: by a lexicon, else by `Word.phones`.
#
# `Word.phones` are phones parted by spaces, pronunciations by " | ", the best one first.

ALTERNATIVE = " | "


class IpaTokenizer(PhoneTokenizer):
    """The phones that words have, in a vocabulary of IPA.

    A phone that the vocabulary lacks is replaced by the symbol that is broadly the same (ɑ for a),
    by one symbol for it and its neighbours (aɪ), or by the nearest phone (`NEAREST_IPA`); otherwise
    it is missing. Where the vocabulary has several symbols for a phone (i, iː), the second ones are
    another pronunciation.

    The `lexicon` has precedence: a word is looked up as it is written, then as it is spoken, then
    part by part, if it has all parts. Anything that is not a phone (digits that are not spelled
    out, letters without a rule) is missing.

    >>> from ctc_align.text.phone_sets import IPA_PHONES
    >>> found = IpaTokenizer(("<blank>", *IPA_PHONES)).word("k a | k ɔ 7")
    >>> [said.labels for said in found.pronunciations], found.missing
    ([('k', 'a')], ())
    """

    def __init__(
        self, vocab: Sequence[str], lexicon: Lexicon | None = None, separator: int | None = None
    ) -> None:
        super().__init__(vocab, lexicon, separator=separator)
        self._said: dict[tuple[str, str, str], WordTokens] = {}
        self._vocab = tuple(vocab)
        self._symbols: dict[tuple[str, ...], list[tuple[int, ...]]] = {
            (phone,): [(self._ids[phone],)] for phone in IPA_PHONES if phone in self._ids
        }
        """Maps phones to the ids of their symbols."""
        if is_ipa(vocab):
            return
        for index, token in enumerate(vocab):
            if phones := broad_phones(token):
                same = self._symbols.setdefault(phones, [])
                same += [(index,)] * ((index,) not in same)
        there = dict(self._symbols)
        for phone in IPA_PHONES:
            near = (other.split("+") for other in NEAREST_IPA[phone].split())
            nearest = (parts for parts in near if all((part,) in there for part in parts))
            ids = [tuple(index for part in parts for index in there[part,][0]) for parts in nearest]
            self._symbols.setdefault((phone,), ids[:1])

    def prepare(self, spokens: Iterable[str]) -> None:
        """Clear the cache if it is full."""
        if len(self._said) > MOST_KEPT:
            self._said.clear()

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the pronunciations of the phones that are `said`, or the lexicon's of the word."""
        if self._lexicon is None:
            names = ("", "")
        else:
            names = (self.entry_of(written), spoken)
        key = (said, *names)
        if key not in self._said:
            entries = self._in_lexicon(*names)
            if entries:
                self._said[key] = WordTokens(entries)
            else:
                self._said[key] = self._of_phones(said)
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
        """Return the pronunciations that lack the fewest phones, and the phones that they lack."""
        ways = [phones.split() for phones in said.split(ALTERNATIVE)]
        found = fewest_missing(
            phones_in(self._in_symbols(way, nth)) for nth in (0, 1) for way in ways
        )
        return WordTokens(found.pronunciations[:MOST_PRONUNCIATIONS], found.missing)

    def _in_symbols(self, phones: Sequence[str], nth: int) -> list[tuple[str, int | None]]:
        """Return the symbols of phones and their ids, as few as possible.

        If a phone has several symbols, take the `nth`.
        """
        pairs: list[tuple[str, int | None]] = []
        at = 0
        while at < len(phones):
            longest = (tuple(phones[at : at + length]) for length in (3, 2, 1))
            symbol = next((part for part in longest if self._symbols.get(part)), None)
            if symbol is None:
                pairs.append((phones[at], None))
                at += 1
                continue
            pairs += [(self._vocab[index], index) for index in self._symbols[symbol][: nth + 1][-1]]
            at += len(symbol)
        return pairs
