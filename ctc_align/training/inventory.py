"""The tokens of a model: the letters of its corpus, or the phones of a lexicon.

letters   every letter and mark that is frequent enough in the transcripts' spoken forms: lower case, NFC, so that é is
          one letter where Unicode has it as one, and a letter and its mark where it has not (Devanagari, Thai)
lexicon   the phones of the words in the transcripts
arpabet   the 39 phones of CMUdict, words pronounced as by the model `english`
ipa       `IPA_PHONES`, which all languages share; words are pronounced by the spelling of their language
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ctc_align.config import UNKNOWN_LANGUAGE
from ctc_align.errors import InputError, UsageError
from ctc_align.text import split
from ctc_align.text.lexicon import Lexicon
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.tokens.phones import is_arpabet
from ctc_align.tokens.tokenizer import Tokenizer, tokenize, tokenizer_for
from ctc_align.types import Words

BLANK = "<blank>"
UNITS = ("letters", "lexicon", "arpabet", "ipa")


@dataclass(frozen=True)
class Inventory:
    """The tokens of a model: `vocab` with the blank first, the tokenizer, and the counts of letters that are too rare.

    `units` is one of `UNITS`; `language` is that of the transcripts, "" if unknown.
    """

    vocab: tuple[str, ...]
    tokenizer: Tokenizer
    rare: dict[str, int]
    units: str = "letters"
    language: str = ""

    @property
    def tokens(self) -> int:
        """Number of tokens without the blank."""
        return len(self.vocab) - 1


def read_words(text: str, language: str) -> Words:
    """Return the words of a transcript; digits are spelled out if `language` is set and known."""
    return split(text, language=language or UNKNOWN_LANGUAGE)


def make_inventory(
    units: str, texts: Iterable[Words], lexicon: Lexicon | None, fewest: int, language: str = ""
) -> Inventory:
    """Return the tokens for a corpus.

    Args:
        units: one of `UNITS`.
        texts: its transcripts.
        lexicon: needed for `lexicon`; for `arpabet` and `ipa` it overrides the package's pronunciations.
        fewest: a letter that occurs less often is no token.
        language: of the transcripts.

    Raises:
        UsageError: `lexicon` without a lexicon.
        InputError: the transcripts have no letters that are frequent enough, or no word of the lexicon.
    """
    if units == "letters":
        return replace(_letters(texts, fewest), language=language)
    if units == "ipa":
        vocab = (BLANK, *IPA_PHONES)
        return Inventory(vocab, tokenizer_for(vocab, 0, lexicon), {}, units, language)
    if units == "lexicon" and lexicon is None:
        raise UsageError("units = lexicon: expected a lexicon (--lexicon FILE), got none")
    if units == "arpabet" or is_arpabet(tuple(lexicon.phones() if lexicon else ())):
        vocab = (BLANK, *ARPABET_PHONES)
        return Inventory(vocab, tokenizer_for(vocab, 0, lexicon), {}, units, language)
    assert lexicon is not None
    return replace(_phones(texts, lexicon), units=units, language=language)


def _letters(texts: Iterable[Words], fewest: int) -> Inventory:
    count: Counter[str] = Counter()
    for words in texts:
        for word in words.words:
            count.update(c for c in unicodedata.normalize("NFC", word.spoken) if unicodedata.category(c)[0] in "LM")
    letters = sorted(letter for letter, number in count.items() if number >= fewest)
    if not letters:
        got = "none at all" if not count else f"{len(count)} letters, {count.most_common(1)[0][1]} times at most"
        raise InputError(f"expected transcripts with letters that occur {fewest} times or more; got {got}")
    vocab = (BLANK, *letters)
    rare = {letter: number for letter, number in count.most_common() if number < fewest}
    return Inventory(vocab, tokenizer_for(vocab, 0), rare)


def _phones(texts: Iterable[Words], lexicon: Lexicon) -> Inventory:
    every = (BLANK, *lexicon.phones())
    tokenizer = tokenizer_for(every, 0, lexicon)
    used: set[str] = set()
    for words in texts:
        for word in tokenize(words, tokenizer):
            used.update(every[token] for said in word.pronunciations for token in said.ids)
    if not used:
        raise InputError(f"{lexicon.source}: expected words of the transcripts, got none of them")
    vocab = (BLANK, *sorted(used))
    return Inventory(vocab, tokenizer_for(vocab, 0, lexicon), {})


def why_not(words: Words, missing: Sequence[str], units: str, language: str) -> tuple[str, str]:
    """Return why a transcript cannot be used: the kind of reason, and the words or letters concerned."""
    digits = [character for character in missing if unicodedata.category(character[0])[0] == "N"]
    if not missing:
        return "nothing that is spoken in the transcript", words.text
    if digits:
        hint = "give --language" if not language else f"{language!r} does not say how they are read"
        return f"digits ({hint})", "".join(digits)
    if units == "letters":
        return "letters that are too rare", "".join(dict.fromkeys(missing))
    if units == "ipa":
        return "letters that nothing pronounces", "".join(dict.fromkeys(missing))
    return "words that are not in the lexicon", " ".join(word.spoken for word in words.words)
