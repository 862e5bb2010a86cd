"""What a model's tokens are: the letters of its corpus, or the phones of a lexicon.

letters   every letter and mark that the transcripts' spoken forms hold often enough: lower case, NFC, so that é is
          one letter where Unicode has it as one, and a letter and its mark where it has not (Devanagari, Thai)
lexicon   the phones of the words that the transcripts hold
arpabet   the 39 phones of CMUdict, words pronounced as the model `english` pronounces them
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctc_align.errors import InputError, UsageError
from ctc_align.text import split
from ctc_align.text.arpabet import PHONES
from ctc_align.text.lexicon import Lexicon
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for
from ctc_align.types import Words

BLANK = "<blank>"
UNKNOWN_LANGUAGE = "und"
"""Of no language: letters stay letters, digits stay digits."""
UNITS = ("letters", "lexicon", "arpabet")


@dataclass(frozen=True)
class Inventory:
    """`vocab` with the blank first, what makes tokens of words, and how often letters were met that are too rare."""

    vocab: tuple[str, ...]
    tokenizer: Tokenizer
    rare: dict[str, int]

    @property
    def tokens(self) -> int:
        """How many there are, without the blank."""
        return len(self.vocab) - 1


def read_words(text: str, language: str) -> Words:
    """The words of a transcript; digits are spelled out where `language` is given and known."""
    return split(text, language=language or UNKNOWN_LANGUAGE)


def make_inventory(units: str, texts: Iterable[Words], lexicon: Lexicon | None, fewest: int) -> Inventory:
    """The tokens for a corpus.

    Args:
        units: one of `UNITS`.
        texts: its transcripts.
        lexicon: needed for `lexicon`; goes before the model's own pronunciations for `arpabet`.
        fewest: a letter that is met less often is no token.

    Raises:
        UsageError: `lexicon` without a lexicon.
        InputError: the transcripts hold nothing to learn, or no word of the lexicon.
    """
    if units == "letters":
        return _letters(texts, fewest)
    if units == "lexicon" and lexicon is None:
        raise UsageError("units = lexicon: expected a lexicon (--lexicon FILE), got none")
    if units == "arpabet" or is_arpabet(tuple(lexicon.phones() if lexicon else ())):
        vocab = (BLANK, *PHONES)
        return Inventory(vocab, tokenizer_for(vocab, 0, lexicon), {})
    assert lexicon is not None
    return _phones(texts, lexicon)


def _letters(texts: Iterable[Words], fewest: int) -> Inventory:
    count: Counter[str] = Counter()
    for words in texts:
        for word in words.words:
            count.update(c for c in unicodedata.normalize("NFC", word.spoken) if unicodedata.category(c)[0] in "LM")
    letters = sorted(letter for letter, number in count.items() if number >= fewest)
    if not letters:
        met = "none at all" if not count else f"{len(count)} letters, {count.most_common(1)[0][1]} times at most"
        raise InputError(f"expected transcripts with letters that are got {fewest} times or more; got {met}")
    vocab = (BLANK, *letters)
    rare = {letter: number for letter, number in count.most_common() if number < fewest}
    return Inventory(vocab, tokenizer_for(vocab, 0), rare)


def _phones(texts: Iterable[Words], lexicon: Lexicon) -> Inventory:
    every = (BLANK, *lexicon.phones())
    tokenizer = tokenizer_for(every, 0, lexicon)
    met: set[str] = set()
    for words in texts:
        for word in tokenize(words, tokenizer):
            met.update(every[token] for said in word.pronunciations for token in said.ids)
    if not met:
        raise InputError(f"{lexicon.source}: expected words of the transcripts, got none of them")
    vocab = (BLANK, *sorted(met))
    return Inventory(vocab, tokenizer_for(vocab, 0, lexicon), {})


def why_not(words: Words, missing: Sequence[str], units: str, language: str) -> tuple[str, str]:
    """Why a transcript that lacks something cannot be used: the kind of reason, and what it is here."""
    digits = [character for character in missing if unicodedata.category(character[0])[0] == "N"]
    if not missing:
        return "nothing that is spoken in the transcript", words.text
    if digits:
        hint = "give --language" if not language else f"{language!r} does not say how they are read"
        return f"digits ({hint})", "".join(digits)
    if units == "letters":
        return "letters that are too rare", "".join(dict.fromkeys(missing))
    return "words that are not in the lexicon", " ".join(word.spoken for word in words.words)
