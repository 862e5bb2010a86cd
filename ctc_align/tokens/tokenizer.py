"""Words and a vocabulary to token ids, and the letters that the vocabulary lacks.

tokenizer = tokenizer_for(vocab, blank, lexicon)
word_tokens = tokenize(words, tokenizer)                     per word: its pronunciations and missing letters
tokens = join(word_tokens, choice, tokenizer.separator)      one row, for a lattice
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Protocol

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.languages import split_languages
from ctc_align.text.phone_sets import (
    FEWEST_PHONES,
    NEARLY_ALL,
    arpabet_class,
    broad_phones,
    ipa_class,
    is_ipa,
    reads_ipa,
    strip_stress,
)
from ctc_align.tokens.alphabet import (
    PHONE_SILENCES,
    LetterTokenizer,
    alphabet_of,
    is_letter,
    is_marked,
    is_special,
    separator_of,
)
from ctc_align.tokens.phones import IpaTokenizer, PhoneTokenizer, is_arpabet
from ctc_align.types import ANY_SPEECH, CUT_OFF, Pronunciation, Tokens, Word, Words, WordTokens

if TYPE_CHECKING:
    from ctc_align.text.lexicon import Lexicon

BETWEEN_WORDS = -1
_NAMED = 5
SEPARATOR_LABEL = "|"


class Tokenizer(Protocol):
    """The tokens of words in a vocabulary."""

    @property
    def token_kind(self) -> str:
        """Return "phones" or "tokens": the name of the token tier."""

    @property
    def separator(self) -> int | None:
        """Return the id of the token between words, if the vocabulary has one."""

    def prepare(self, spokens: Iterable[str]) -> None:
        """Prepare many calls of `word` with these spoken forms, in one batch."""

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the pronunciations of what is said (`Word.lookup_text`), best first.

        `written` is the word of the transcript, and `spoken` its spoken form where `said` is
        another one.
        """


@dataclass(frozen=True, eq=False)
class PrepareWords:
    """A request to prepare the words of many utterances at once.

    It is answered with None (see `ctc_align.kernels.batching`).
    """

    tokenizer: Tokenizer
    words: Words

    stage: ClassVar[str] = "words"
    shape: ClassVar[tuple[int, int]] = (0, 0)

    @property
    def key(self) -> Hashable:
        return PrepareWords, id(self.tokenizer)

    @staticmethod
    def run(requests: Sequence[PrepareWords]) -> list[None]:
        utterances = (request.words.words for request in requests)
        spoken = chain.from_iterable(utterances)
        requests[0].tokenizer.prepare(
            form.lookup_text for word in spoken for form in (word, *word.others)
        )
        return [None] * len(requests)


def tokenizer_for(vocab: Sequence[str], blank: int, lexicon: Lexicon | None = None) -> Tokenizer:
    """Return the tokenizer of a vocabulary for words.

    It makes phones for ARPAbet, IPA or with a lexicon, otherwise letters.

    Raises:
        UsageError: `blank` is not an index into `vocab`.
        LexiconError: the vocabulary has none of the lexicon's phones.

    >>> tokenizer_for(("<pad>", "|", *"abcdefgh"), 0).token_kind
    'tokens'
    """
    if not 0 <= blank < len(vocab):
        raise UsageError(f"expected a blank between 0 and {len(vocab) - 1}, got {blank}")
    if is_arpabet(vocab):
        return PhoneTokenizer(vocab, lexicon, separator=separator_of(vocab, blank))
    if is_ipa(vocab) or (lexicon is None and reads_ipa(vocab)):
        return IpaTokenizer(vocab, lexicon, separator=separator_of(vocab, blank))
    letters = LetterTokenizer(vocab, blank)
    if lexicon is None:
        return letters
    return PhoneTokenizer(vocab, lexicon, letters if _spells(vocab, letters) else None)


def _spells(vocab: Sequence[str], letters: LetterTokenizer) -> bool:
    """Return whether a vocabulary is one of letters.

    Unlike phone sets, it has a word separator or all of a-z.
    """
    have = {token.lower() for token in vocab}
    return letters.separator is not None or have.issuperset("abcdefghijklmnopqrstuvwxyz")


# Transcripts that are tokens already: phones, syllables, units of any kind, or pieces of a
# tokenizer

_MANY_LETTERS = 8
"""English letters may be spelled out (R S V P), so this few items of one letter each are not
phones."""
_FIRST_ITEMS = 100
_MOST_LACKING = 0.25
"""If more letters are missing, words were spelled in phones; romanised Japanese lacks none."""


class UnitTokenizer:
    """Tokens of transcripts whose written words are tokens of `vocab` already.

    A token may be written with other stress, length or case than the vocabulary has; where that has
    several (IH0, IH1 for IH), each is a pronunciation. Words that are not tokens are missing; the
    blank, special tokens and marks between tokens are not spoken. No separator is added.

    >>> units = UnitTokenizer(("<b>", "t_he2", "c_at1"), 0)
    >>> units.reads("c_at1 t_he2"), units.reads("the cat"), units.word("t_he2").pronunciations[0].ids
    (True, False, (1,))
    """

    separator: int | None = None

    def __init__(self, vocab: Sequence[str], blank: int = 0) -> None:
        self._vocab = tuple(vocab)
        alphabet = alphabet_of(vocab, blank)
        self._ids = {
            t: i for i, t in reversed(list(enumerate(vocab))) if i in alphabet.ids.values()
        }
        self._ids |= {t: i for i, t in enumerate(vocab) if i == alphabet.separator}
        self._unspoken = {*PHONE_SILENCES, *vocab} - self._ids.keys()
        self._arpabet = is_arpabet(vocab)
        self._phones = self._arpabet or reads_ipa(vocab)
        self._spells = alphabet.spells and not self._phones
        self.token_kind = "phones" if self._phones else "tokens"
        self._variants: dict[str, list[int]] = {}
        for token, index in self._ids.items():
            self._variants.setdefault(self._bare(token), []).append(index)

    @property
    def unreadable(self) -> bool:
        """True if there is no way to turn words into these tokens."""
        return not (self._spells or self._phones)

    def reads(self, text: str) -> bool:
        """Return whether nearly all written words of a transcript are tokens.

        They may then be intended as tokens.

        Letters and pieces can be words, too, so only pieces with their marks count as tokens.
        Phones are at least three different ones with a consonant, and not few single letters, which
        may be initials.
        """
        items = text.split(maxsplit=_FIRST_ITEMS)
        if len(items) > _FIRST_ITEMS and not self._are_tokens(items[:-1]):
            return False
        return self._are_tokens(text.split())

    def _are_tokens(self, items: Sequence[str]) -> bool:
        counts = Counter(items)
        tokens = [item for item in counts if self._of(item)]
        words = [item for item in counts if self._is_spoken(item)]
        if not tokens or sum(counts[item] for item in tokens) < NEARLY_ALL * sum(
            counts[item] for item in words
        ):
            return False
        if self._phones:
            return (
                len(tokens) >= FEWEST_PHONES
                and not all(map(_is_vowel, tokens))
                and (
                    any(len(item) > 1 or not item.isascii() for item in tokens)
                    or len(items) >= _MANY_LETTERS
                )
            )
        return not self._spells or any(map(is_marked, tokens))

    def split(self, words: Words) -> Words:
        """Return a transcript split at spaces only, each word as it is written."""
        runs = re.finditer(r"\S+", words.text)
        split = [Word(run[0], run[0] * self._is_spoken(run[0]), *run.span()) for run in runs]
        return replace(words, words=tuple(split), optional=())

    def prepare(self, spokens: Iterable[str]) -> None:
        """Do nothing: tokens are looked up one by one."""

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the token that is written."""
        ids = self._of(said)
        if not ids:
            return WordTokens((), tuple(filter(is_letter, said)) or (said,))
        labels = [said if self._arpabet and said.isupper() else self._vocab[index] for index in ids]
        return WordTokens(
            tuple(Pronunciation((index,), (label,)) for index, label in zip(ids, labels))
        )

    def _is_spoken(self, item: str) -> bool:
        return bool(self._of(item)) or (item not in self._unspoken and any(map(is_letter, item)))

    def _of(self, item: str) -> list[int]:
        """Return the ids of a written token.

        They are its own, otherwise those of tokens with other stress, length or case.
        """
        for form in (item, unicodedata.normalize("NFC", item), unicodedata.normalize("NFD", item)):
            if form in self._ids:
                return [self._ids[form]]
        if item in self._unspoken:
            return []
        return self._variants.get(self._bare(item), [])

    def _bare(self, token: str) -> str:
        if self._arpabet:
            return strip_stress(token.upper())
        return (
            " ".join(broad_phones(token) if self._phones else ())
            or unicodedata.normalize("NFC", token).casefold()
        )


def _is_vowel(phone: str) -> bool:
    return "vowel" in (arpabet_class(phone.upper()), ipa_class(phone))


@lru_cache(maxsize=8)
def unit_tokenizer(vocab: tuple[str, ...], blank: int) -> UnitTokenizer:
    """Return the `UnitTokenizer` of a vocabulary."""
    return UnitTokenizer(vocab, blank)


@dataclass(frozen=True, eq=False)
class SpellingOrder:
    """A tokenizer of letters that orders the spellings of a word by what was heard.

    `heard` are the classes that are the best of any frame of a recording: spellings with fewer
    others come first. With None only the first spelling of each word remains, as it is written.
    """

    tokenizer: LetterTokenizer
    heard: frozenset[int] | None = None

    @property
    def token_kind(self) -> str:
        return self.tokenizer.token_kind

    @property
    def separator(self) -> int | None:
        return self.tokenizer.separator

    def prepare(self, spokens: Iterable[str]) -> None:
        self.tokenizer.prepare(spokens)

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        tokens = self.tokenizer.word(said, written, spoken)
        heard = self.heard
        if heard is None:
            return replace(tokens, pronunciations=tokens.pronunciations[:1])
        ordered = sorted(tokens.pronunciations, key=lambda way: len(set(way.ids) - heard))
        return replace(tokens, pronunciations=tuple(ordered))


def runs_as_written(words: Words) -> Words:
    """Return words with the parts of each run of characters joined.

    So no separator divides it. Marks are spoken.

    >>> from ctc_align.text import split
    >>> [(word.text, word.spoken) for word in runs_as_written(split("Yes—and/or no !")).words]
    [('Yes—and/or', 'yes and or'), ('no', 'no'), ('!', '!')]
    """
    runs: list[Word] = []
    for word in words.words:
        if word.lookup_text or word.kind:
            said = word
        else:
            said = replace(word, spoken=word.text)
        before = runs[-1] if runs else None
        if before and before.char_end == word.char_start and not (before.kind or word.kind):
            spoken = f"{before.spoken} {said.spoken}"
            if said.roman:
                roman = f"{before.lookup_text} {said.lookup_text}"
            else:
                roman = None
            text = before.text + word.text
            runs[-1] = replace(
                before, text=text, spoken=spoken, roman=roman, char_end=word.char_end
            )
        else:
            runs.append(said)
    return replace(words, words=tuple(runs), optional=())


def with_phones(words: Words, tokenizer: Tokenizer, language: str) -> Words:
    """Return words prepared for `tokenizer`.

    For IPA, they have the phones of each word in `language`.
    """
    if not isinstance(tokenizer, IpaTokenizer):
        return words
    from ctc_align.text.sounds import pronounced

    first = split_languages(language)[0]
    forms = (form for word in words.words for form in (word, *word.others))
    in_language = {
        code: pronounced(words, code).words for code in {form.language or first for form in forms}
    }

    def pronounce_other(index: int, other: Word) -> Word:
        # as a word of the text, whose neighbours and capitals can matter
        same = in_language[other.language or first][index]
        if other.language and same.reading_text == other.reading_text:
            return replace(other, phones=same.phones)
        return pronounced(Words("", (other,)), other.language or first).words[0]

    said = []
    for index, word in enumerate(words.words):
        others = tuple(pronounce_other(index, other) for other in word.others)
        said.append(replace(in_language[word.language or first][index], others=others))
    return replace(words, words=tuple(said))


def tokenize(words: Words, tokenizer: Tokenizer) -> list[WordTokens]:
    """Return the tokens of each word, in order.

    A word that is not spoken has none, and none missing.
    """
    tokenizer.prepare(word.lookup_text for word in words.words)
    made = [_word_tokens(word, tokenizer) for word in words.words]
    for passage in words.optional:
        if passage.kind == CUT_OFF and passage.last == passage.first + 1:
            index = passage.first
            whole = next(
                (at for at in range(passage.last, len(made)) if words.words[at].lookup_text), None
            )
            if whole is not None:
                made[index] = _begun(
                    made[index],
                    words.words[index].lookup_text,
                    made[whole],
                    words.words[whole].lookup_text,
                )
    return made


def _word_tokens(word: Word, tokenizer: Tokenizer) -> WordTokens:
    """Return the pronunciations of a word, those of its usual spoken form first."""
    if word.spoken == ANY_SPEECH:
        return WordTokens((), (ANY_SPEECH,))
    if word.lookup_text:
        own = tokenizer.word(word.lookup_text, word.text, word.spoken)
    else:
        own = WordTokens(())
    ways = {way.ids: _in_language(way, word.language) for way in own.pronunciations}
    for other in word.others if ways else ():
        if other.spoken.endswith("-"):
            part = _begun(WordTokens(()), other.spoken, own, word.spoken)
        else:
            part = tokenizer.word(other.lookup_text, "", other.spoken)
        for way in part.pronunciations:
            known = ways.setdefault(way.ids, replace(way, spoken=other.spoken.rstrip("-")))
            ways[way.ids] = _in_language(known, other.language)
    return replace(own, pronunciations=tuple(ways.values()))


def _in_language(way: Pronunciation, language: str) -> Pronunciation:
    """Return a pronunciation that is one of a language, too; "" changes nothing."""
    if not language or language in way.languages:
        return way
    return replace(way, languages=(*way.languages, language))


def _begun(own: WordTokens, letters: str, whole: WordTokens, all_letters: str) -> WordTokens:
    """Return the tokens of a word that breaks off.

    If the next word begins with its letters, they have the sounds of that.

    The letters may end within a sound, or several: the likeliest number of sounds comes first, then
    one fewer and more.
    """
    letters = letters.rstrip("-‐")
    if (
        not whole.pronunciations
        or not letters
        or not all_letters.casefold().startswith(letters.casefold())
    ):
        return own
    said = whole.pronunciations[0]
    count = max(1, round(len(said.ids) * len(letters) / len(all_letters)))
    begun = [
        Pronunciation(said.ids[:size], said.labels[:size])
        for size in (count, count - 1, count + 1)
        if 0 < size < len(said.ids) and not said.gaps
    ]
    if begun:
        return WordTokens((*begun, *own.pronunciations), own.missing)
    return own


def join(word_tokens: Sequence[WordTokens], choice: Sequence[int], separator: int | None) -> Tokens:
    """Return one row of tokens: the chosen pronunciation of each word.

    Separators stand only between words.

    Args:
        word_tokens: one per word; words without pronunciations are left out.
        choice: one index per word into its pronunciations; ignored for words without any.
        separator: id of the token between words, None if there is none.

    >>> from ctc_align.types import Pronunciation
    >>> hi, no = WordTokens((Pronunciation((2, 3), ("h", "i")),)), WordTokens(())
    >>> row = join([hi, no, hi], [0, 0, 0], separator=1)
    >>> row.ids, row.words
    ((2, 3, 1, 2, 3), (0, 0, -1, 2, 2))
    """
    if len(choice) != len(word_tokens):
        raise UsageError(
            f"expected one choice for each of {len(word_tokens)} words, got {len(choice)}"
        )
    ids: list[int] = []
    labels: list[str] = []
    owners: list[int] = []
    for index, (word, chosen) in enumerate(zip(word_tokens, choice)):
        if not word.pronunciations:
            continue
        if ids and separator is not None:
            ids.append(separator)
            labels.append(SEPARATOR_LABEL)
            owners.append(BETWEEN_WORDS)
        pronunciation = word.pronunciations[chosen]
        ids += pronunciation.ids
        labels += pronunciation.labels
        owners += [index] * len(pronunciation.ids)
    return Tokens(tuple(ids), tuple(labels), tuple(owners))


def count_missing(word_tokens: Iterable[WordTokens]) -> int:
    """Return the number of letters that the vocabulary lacks, repetitions included."""
    return sum(len(word.missing) for word in word_tokens)


def refuse_missing(words: Words, word_tokens: Sequence[WordTokens]) -> None:
    """Raise TranscriptError, naming words and letters, if the vocabulary lacks any."""
    lacking = [
        (word.text, "".join(dict.fromkeys(own.missing)))
        for word, own in zip(words.words, word_tokens)
        if own.missing and word.spoken != ANY_SPEECH
    ]
    if lacking:
        each = ", ".join(f"{letters!r} of {word!r}" for word, letters in lacking[:_NAMED])
        if len(lacking) > _NAMED:
            more = f" and letters of {len(lacking) - _NAMED} more words"
        else:
            more = ""
        raise TranscriptError(
            f"the model's vocabulary lacks {each}{more}; expected a transcript in its letters, for"
            " unknown is 'error': write them otherwise, romanize, or choose unknown = 'wildcard'"
            " or 'skip'"
        )


def refuse_unreadable(words: Words, tokenizer: LetterTokenizer, vocab: Sequence[str]) -> None:
    """Raise TranscriptError if a vocabulary of unknown units lacks many letters of the words."""
    letters = "".join(word.lookup_text for word in words.words if word.lookup_text)
    lacking = sum(
        len(tokenizer.word(word.lookup_text).missing) for word in words.words if word.lookup_text
    )
    if lacking > _MOST_LACKING * sum(map(is_letter, letters)):
        tokens = " ".join(
            token for token in vocab if any(map(is_letter, token)) and not is_special(token)
        )
        raise TranscriptError(
            f"expected words of the vocabulary's tokens, got {words.words[0].text!r} …: its tokens"
            f" ({textwrap.shorten(tokens, 60, placeholder=' …')}) are neither letters nor known"
            " phones; give a dictionary of the words in these tokens (--lexicon FILE), or"
            " a transcript of tokens with spaces between them"
        )


def missing_letters(word_tokens: Iterable[WordTokens]) -> dict[str, int]:
    """Return the letters that the vocabulary lacks with their counts, the most frequent first."""
    letters = Counter(
        letter for word in word_tokens if word.missing != (ANY_SPEECH,) for letter in word.missing
    )
    return dict(letters.most_common())
