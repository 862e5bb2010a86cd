"""Languages: their codes and names (ISO 639, BCP 47), and the likely language of a text.

The language of a text in Latin letters is recognised by its function words, and English also by
letter n-grams. `research/english_letters.py` makes the weights of the n-grams;
`research/english_or_not.py` measures the accuracy.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctc_align.errors import UsageError
from ctc_align.text.phone_sets import phone_set_of
from ctc_align.text.tables import text_table, word_list

if TYPE_CHECKING:
    import numpy as np

_TAG = re.compile(r"(?P<base>[A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*(?:-script_[a-z]+)?")
_NO_ISO = frozenset(("kz",))
"""Codes of num2words that are not in ISO 639."""
_LOCAL = re.compile("q[a-t][a-z]")
"""Codes that ISO 639-2 reserves for local use."""
_COMMON = word_list("common-codes")
"""Codes that need no table."""
_OTHER_NAMES = text_table("words", "other-names")
"""Other names of languages, and wrong codes, with the codes that they may mean: only for hints."""


@lru_cache(maxsize=64)
def known_language(language: str, option: str = "--language") -> str:
    """Return the code of a language that is given by its code or its English name.

    A code (ISO 639 or BCP 47) is returned unchanged.

    It knows the names of languages with a two-letter code.

    Raises:
        UsageError: there is no such language; the message suggests similar ones.

    >>> known_language("pt-BR"), known_language("eng"), known_language("German"), known_language("qaa")
    ('pt-BR', 'eng', 'de', 'qaa')
    """
    written = language.strip()
    tag = _TAG.fullmatch(written)
    base = ""
    if tag:
        base = tag["base"].lower()
    if base in _COMMON or base in _NO_ISO or _LOCAL.fullmatch(base):
        return written
    names = _names()
    if not names or (base and base in names.values()):
        return written
    by_name = names.get(written.casefold(), "")
    if len(by_name) == 2:
        return by_name
    raise UsageError(
        f"{option} {written[:40]}: expected the code of a language (ISO 639 or BCP 47: en, deu,"
        f" pt-BR), but no such code is known{_hint(written, base, names)}"
    )


def known_languages(languages: str, option: str = "--language") -> str:
    """Return the codes of one or several languages, separated by commas.

    Raises what `known_language` raises.

    >>> known_languages("en, German"), known_languages("de")
    ('en,de', 'de')
    """
    names = [name for name in languages.split(",") if name.strip()]
    return ",".join(dict.fromkeys(known_language(name, option) for name in names))


def known_code(name: str) -> str:
    """Return the code of the language that a file names; "" if nothing knows it."""
    try:
        return known_language(name.replace("_", "-")) if name.strip() else ""
    except UsageError:
        return ""


def split_languages(languages: str) -> tuple[str, ...]:
    """Return the languages of a list separated by commas; ("",) if there are none.

    >>> split_languages("en,de"), split_languages("")
    (('en', 'de'), ('',))
    """
    return tuple(language.strip() for language in languages.split(","))


def base_code(language: str) -> str:
    """Return the code of a language without region or script, the two-letter one if there is one.

    >>> base_code("pt-BR"), base_code("deu"), base_code("English"), base_code("yue")
    ('pt', 'de', 'en', 'yue')
    """
    base = re.split("[-_]", language.strip().casefold(), maxsplit=1)[0]
    if len(base) == 3:
        import iso639

        # another package of that name has no such class
        with suppress(AttributeError, getattr(iso639, "LanguageNotFoundError", LookupError)):
            return iso639.Language.match(base).part1 or base
    return next((code for code, name in NAMES.items() if name.casefold() == base), base)


def name_of_language(code: str) -> str:
    """Return the English name of a language; its code if it has no known name.

    >>> name_of_language("de"), name_of_language("nl-BE"), name_of_language("sw")
    ('German', 'Dutch', 'Swahili')
    """
    base = base_code(code)
    return NAMES.get(base) or _iso_names().get(base, code)


@lru_cache(maxsize=1)
def _iso_names() -> dict[str, str]:
    """Return the names of all languages by their shortest codes, without remarks in parentheses."""
    return {each.part1 or each.part3: each.name.partition(" (")[0] for each in _iso_languages()}


def _iso_languages() -> Sequence[Any]:
    import iso639

    return getattr(iso639, "ALL_LANGUAGES", ())  # another package of that name has none


def _hint(written: str, base: str, names: dict[str, str]) -> str:
    """Return "; did you mean …" with similar codes and names, "" if there are none."""
    folded = written.casefold()
    codes = [_OTHER_NAMES[key] for key in (folded, base) if key in _OTHER_NAMES]
    if base and base != folded and base in names.values():
        codes.append(base)
    large = [name for name, code in names.items() if len(code) == 2 < len(name)]
    near = [folded] if folded in names else []
    if not codes and not near and len(folded) > 3:
        near = difflib.get_close_matches(folded, large, n=2, cutoff=0.7)
    meant = {code: _name_of(code, names) for code in [*codes, *(names[name] for name in near)]}
    likely = [f"{code} ({name})" if name else code for code, name in meant.items()]
    return f"; did you mean {' or '.join(likely)}?" if likely else ""


def _name_of(code: str, names: dict[str, str]) -> str:
    return next((name.title() for name, each in names.items() if each == code and name != code), "")


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    """Return the codes of all languages by their names and codes, the shortest code of each."""
    names: dict[str, str] = {}
    for language in _iso_languages():
        names.setdefault(language.name.casefold(), language.part1 or language.part3)
    for language in _iso_languages():
        codes = (language.part1, language.part3, language.part2b, language.part2t)
        names.update((code, code) for code in codes if code)
    return names


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
LEAST_WORDS = 20
"""The fewest words of a text whose language is recognised by function words alone."""
_LEAST_SHARE = 0.2
_SURE_SHARE = 0.25
_MOST_ENGLISH = 0.12
_FEW_SHARE = 0.1
_HARDLY_ENGLISH = 0.04
_ACCENTED = 0.04
"""Limits for languages whose endings do the work of function words (Turkish, Finnish)."""
_MOSTLY_ENGLISH = 0.25
_ENGLISH_WORDS = word_list("function-words:en")
NAMES = text_table("words", "language-names")
"""English, and the languages that `likely_language` recognises, by their codes."""
_FUNCTION_WORDS = {code: word_list(f"function-words:{code}") for code in NAMES if code != "en"}


def likely_language(text: str, *, least: int = LEAST_WORDS) -> str:
    """Return the code of the language of a text in Latin letters.

    One of `NAMES`; "" if it is unclear.

    Function words, which are a third of any text, decide. Texts of fewer than `least` words, and
    mixtures of languages, are unclear.

    >>> likely_language("Der Hund und die Katze sind nicht im Haus, aber sie sind auch nicht auf dem Dach, "
    ...                 "und wenn es regnet, ist das schade.")
    'de'
    >>> likely_language("The dog and the cat are not in the house.")
    ''
    """
    words = [
        word.lower().replace("’", "'") for word in _WORD.findall(unicodedata.normalize("NFC", text))
    ]
    if len(words) < least:
        return ""
    counts = Counter(words)

    def share(known: frozenset[str]) -> float:
        return sum(counts[word] for word in known) / len(words)

    best = max(_FUNCTION_WORDS, key=lambda code: share(_FUNCTION_WORDS[code]))
    english = share(_ENGLISH_WORDS - _FUNCTION_WORDS[best])
    theirs = share(_FUNCTION_WORDS[best] - _ENGLISH_WORDS)
    if english >= _MOSTLY_ENGLISH and theirs < english / 2:
        return "en"
    letters = "".join(words)
    accented = sum(not letter.isascii() and letter.isalpha() for letter in letters) / len(letters)
    is_clear = (
        theirs >= (_SURE_SHARE if len(words) < LEAST_WORDS else _LEAST_SHARE)
        and english <= _MOST_ENGLISH
    )
    if len(words) < LEAST_WORDS:
        if is_clear:
            return best
        return ""
    is_likely = theirs >= _FEW_SHARE and english <= _HARDLY_ENGLISH
    is_accented = theirs >= _FEW_SHARE / 2 and accented >= _ACCENTED and english <= _HARDLY_ENGLISH
    different = sum(counts[word] > 0 for word in _FUNCTION_WORDS[best] - _ENGLISH_WORDS)
    if (is_clear or is_likely or is_accented) and different >= 3:
        return best
    return ""


def script_of(text: str) -> str:
    """Return the common name of the script of most letters of a text.

    "" for a text without letters.

    >>> script_of("Добрый день, Mr. Smith"), script_of("42")
    ('Cyrillic', '')
    """
    counts: Counter[str] = Counter()
    for character, number in Counter(filter(str.isalpha, text)).items():
        counts[_script(character)] += number
    most = ""
    if counts:
        most = counts.most_common(1)[0][0]
    if most == "Chinese" and counts["Japanese"]:
        return "Japanese"
    return most


_SCRIPT_NAMES = {
    "Cjk": "Chinese",
    "Hiragana": "Japanese",
    "Katakana": "Japanese",
    "Hangul": "Korean",
}


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    name = unicodedata.name(letter, "unknown").partition(" ")[0].title()
    if name in ("Fullwidth", "Modifier", "Feminine", "Masculine", "Micro", "Ligature"):
        return "Latin"
    return _SCRIPT_NAMES.get(name, name)


UNKNOWN = "und"
"""The code of ISO 639 for an unknown language."""
NGRAM_WEIGHTS = Path(__file__).with_name("english-letters.npy")
NGRAM_BUCKETS = 1 << 16
"""The number of buckets of letter n-grams, each with a weight."""
NGRAM_SCALE = 32.0
"""The weights are stored as whole numbers of 1/32."""
_LENGTHS = range(2, 6)
_VOWEL = re.compile("[aeiouyw]")
_DRAWN_OUT = re.compile(r"(.)\1\1")
_CRIES = word_list("cries")
"""Cries and syllables that are sung or said in every language."""
_RUNS = 50
_RUN_WORDS = 100
"""The number of runs, evenly spaced, that represent a longer text, and the words of each."""
_LEAST_DIFFERENT = 5
"""The fewest different words from which a text is recognised as a language other than English."""
_MOST_SCORE = 0.1
_LIMIT = 0.8
_SLOPE = 3.0
"""The mean score of n different words below which they are not English is 0.8 - 3 / sqrt(n), and
0.1 at most."""
_OF_SCRIPT = text_table("sounds/scripts", "languages")
"""The most likely language of a script; `_OF_LETTERS` or --language distinguish others in the same
script."""
_OF_LETTERS = [
    (code, *shown.split(","))
    for code, shown in text_table("sounds/scripts", "languages-by-letters").items()
]
"""(language, script, letters that it has), the rarest letters first."""


def likely_other_language(text: str, weights: Path = NGRAM_WEIGHTS) -> str:
    """Return the code of a text's language if it is not English.

    `UNKNOWN` if the language is unclear; "" for a text that is English, or may be.

    The script of most letters decides, then function words, then a logistic regression on the
    letter n-grams of each word. A text of fewer than five different words in Latin letters may
    always be English. Phones of ARPAbet are English, those of IPA any language's.

    Args:
        text: the transcript.
        weights: the file with the weights of the regression.

    >>> likely_other_language("Die Kinder haben gestern im Garten gespielt und sind nass geworden.")
    'de'
    >>> likely_other_language("Добрый день, как вы?"), likely_other_language("She sang la la in the Champs-Élysées.")
    ('ru', '')
    """
    return _likely_other(_thinned(text), weights)


@lru_cache(maxsize=64)
def _likely_other(text: str, weights: Path) -> str:
    if phones := phone_set_of(text):
        if "AA" in phones:
            return ""
        return UNKNOWN
    script = script_of(text)
    if script not in ("", "Latin"):
        return _language_in(script, text.lower())
    named = likely_language(text)
    scores = _word_scores(text, weights)
    if named == "en" or len(scores) < _LEAST_DIFFERENT:
        return ""
    if not named and _mean_score(scores) >= min(_MOST_SCORE, _LIMIT - _SLOPE / len(scores) ** 0.5):
        return ""
    return named or likely_language(text, least=_LEAST_DIFFERENT) or UNKNOWN


def shown_language(code: str) -> str:
    """Return the English name and the code of a language, for a message.

    >>> shown_language("de"), shown_language("und")
    ('German (de)', 'not English')
    """
    if code == UNKNOWN:
        return "not English"
    return f"{name_of_language(code)} ({code})"


def _word_scores(text: str, weights: Path) -> Sequence[tuple[float, int]]:
    """Return the score of each different word, and how often it occurs.

    A word with a score above 0 looks English.

    Single letters, words without a vowel and cries are ignored.
    """
    words = Counter(
        word.lower().replace("’", "'") for word in _WORD.findall(unicodedata.normalize("NFC", text))
    )
    return [(_score(word, weights), count) for word, count in words.items() if _counts(word)]


def _mean_score(scores: Sequence[tuple[float, int]]) -> float:
    """Return the mean of the scores, weighted by the square roots of the counts.

    So a refrain counts less.
    """
    import numpy as np

    weights = np.sqrt([count for _, count in scores])
    return float(np.average([score for score, _ in scores], weights=weights))


def ngrams(word: str) -> list[int]:
    """Return the buckets of a word's letter n-grams, with "^" and "$" at its ends."""
    marked = f"^{word}$"
    return [
        zlib.crc32(marked[start : start + length].encode("utf-8", "surrogatepass")) % NGRAM_BUCKETS
        for length in _LENGTHS
        for start in range(len(marked) - length + 1)
    ]


@lru_cache(maxsize=16384)
def _score(word: str, weights: Path) -> float:
    table = _table(weights)
    buckets = ngrams(word)
    return (
        float(table[buckets].sum()) / (NGRAM_SCALE * len(buckets) ** 0.5)
        + float(table[-1]) / NGRAM_SCALE
    )


@lru_cache(maxsize=1)
def _table(weights: Path) -> np.ndarray:
    """Return the weights of the buckets, followed by the constant of the regression."""
    import numpy as np

    return np.load(weights).astype(np.int64)


def _counts(word: str) -> bool:
    if len(word) < 2 or word in _CRIES or _DRAWN_OUT.search(word):
        return False
    return _VOWEL.search(unicodedata.normalize("NFD", word)) is not None


def _language_in(script: str, text: str) -> str:
    """Return the code of the likely language of a text in a script other than Latin.

    The text is in lower case.
    """
    letters = sum(map(str.isalpha, text))
    for code, name, shown in _OF_LETTERS:
        if name == script and sum(map(text.count, shown)) > letters / 300:
            return code
    return _OF_SCRIPT.get(script, UNKNOWN)


def _thinned(text: str) -> str:
    """Return a text, reduced to evenly spaced runs of words if it is long."""
    if len(text) > _RUNS * _RUN_WORDS * 2:
        words = text.split()
    else:
        words = []
    if len(words) <= _RUNS * _RUN_WORDS:
        return text
    starts = range(0, len(words), len(words) // _RUNS)
    return " ".join(word for start in starts for word in words[start : start + _RUN_WORDS])
