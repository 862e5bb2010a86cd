"""Words and a vocabulary to token ids, and the letters that the vocabulary lacks.

tokenizer = tokenizer_for(vocab, blank, lexicon)
word_tokens = tokenize(words, tokenizer)                     per word: its pronunciations and missing letters
tokens = join(word_tokens, choice, tokenizer.separator)      one row, for a lattice
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, Protocol

from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.lexicon import Lexicon
from ctc_align.text.phone_sets import is_ipa
from ctc_align.tokens.alphabet import LetterTokenizer
from ctc_align.tokens.phones import IpaTokenizer, PhoneTokenizer, is_arpabet
from ctc_align.types import Tokens, Words, WordTokens

BETWEEN_WORDS = -1
_NAMED = 5
SEPARATOR_LABEL = "|"


class Tokenizer(Protocol):
    """The tokens of words in a vocabulary."""

    token_kind: str
    """"phones" or "tokens": the name of the token tier."""
    separator: int | None
    """Id of the token between words, if the vocabulary has one."""

    def prepare(self, spokens: Iterable[str]) -> None:
        """Prepare many calls of `word` with these spoken forms, in one batch."""

    def word(self, said: str, written: str = "", spoken: str = "") -> WordTokens:
        """Return the pronunciations of what is said (`Word.said`), best first.

        `written` is the word of the transcript, and `spoken` its spoken form where `said` is another one.
        """


@dataclass(frozen=True, eq=False)
class PrepareWords:
    """A request (`ctc_align.kernels.batching`) to prepare the words of many utterances at once; the answer is None."""

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
        requests[0].tokenizer.prepare(word.said for word in chain.from_iterable(utterances))
        return [None] * len(requests)


def tokenizer_for(vocab: Sequence[str], blank: int, lexicon: Lexicon | None = None) -> Tokenizer:
    """Return the tokenizer of a vocabulary: phones for ARPAbet, for IPA or with a lexicon, else letters.

    Raises:
        UsageError: `blank` is no index into `vocab`.
        LexiconError: the vocabulary has none of the lexicon's phones.

    >>> tokenizer_for(("<pad>", "|", *"abcdefgh"), 0).token_kind
    'tokens'
    """
    if not 0 <= blank < len(vocab):
        raise UsageError(f"expected a blank between 0 and {len(vocab) - 1}, got {blank}")
    if is_arpabet(vocab):
        return PhoneTokenizer(vocab, lexicon)
    if is_ipa(vocab):
        return IpaTokenizer(vocab, lexicon)
    letters = LetterTokenizer(vocab, blank)
    if lexicon is None:
        return letters
    return PhoneTokenizer(vocab, lexicon, letters if _spells(vocab, letters) else None)


def _spells(vocab: Sequence[str], letters: LetterTokenizer) -> bool:
    """Return whether a vocabulary is one of letters: it has a word separator or all of a-z, unlike phone sets."""
    have = {token.lower() for token in vocab}
    return letters.separator is not None or have.issuperset("abcdefghijklmnopqrstuvwxyz")


def with_phones(words: Words, tokenizer: Tokenizer, language: str) -> Words:
    """Return words with what `tokenizer` reads: for one of IPA the phones of each, as `language` spells them."""
    if not isinstance(tokenizer, IpaTokenizer):
        return words
    from ctc_align.text.sounds import pronounced

    return pronounced(words, language)


def tokenize(words: Words, tokenizer: Tokenizer) -> list[WordTokens]:
    """Return the tokens of each word, in order; a word that is not spoken has none, and none missing."""
    tokenizer.prepare(word.said for word in words.words)
    return [tokenizer.word(word.said, word.text, word.spoken) if word.said else WordTokens(()) for word in words.words]


def join(word_tokens: Sequence[WordTokens], choice: Sequence[int], separator: int | None) -> Tokens:
    """Return one row of tokens: the chosen pronunciation of each word, with separators only between words.

    Args:
        word_tokens: one per word; words without pronunciations are left out.
        choice: one index per word into its pronunciations; ignored for words without any.
        separator: id of the token between words, None for none.

    >>> from ctc_align.types import Pronunciation
    >>> hi, no = WordTokens((Pronunciation((2, 3), ("h", "i")),)), WordTokens(())
    >>> row = join([hi, no, hi], [0, 0, 0], separator=1)
    >>> row.ids, row.words
    ((2, 3, 1, 2, 3), (0, 0, -1, 2, 2))
    """
    if len(choice) != len(word_tokens):
        raise UsageError(f"expected one choice for each of {len(word_tokens)} words, got {len(choice)}")
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
    lacking = [(word.text, "".join(dict.fromkeys(t.missing))) for word, t in zip(words.words, word_tokens) if t.missing]
    if lacking:
        each = ", ".join(f"{letters!r} of {word!r}" for word, letters in lacking[:_NAMED])
        more = f" and letters of {len(lacking) - _NAMED} more words" if len(lacking) > _NAMED else ""
        raise TranscriptError(
            f"the model's vocabulary lacks {each}{more}; expected a transcript in its letters, for unknown is 'error': "
            "write them otherwise, romanize, or choose unknown = 'wildcard' or 'skip'"
        )


def missing_letters(word_tokens: Iterable[WordTokens]) -> dict[str, int]:
    """Return the letters that the vocabulary lacks with their counts, the most frequent first."""
    return dict(Counter(letter for word in word_tokens for letter in word.missing).most_common())
