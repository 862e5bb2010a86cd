"""English or another language, and which, from the letters of a text alone: script, function words, n-grams.

The weights of the n-grams are made by `python tools/english_letters.py`, and measured by
`tests/benchmarks/english_or_not.py`.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ctc_align.text.characters import word_set
from ctc_align.text.languages import likely_language, name_of_language, script_of

UNKNOWN = "und"
"""The code of ISO 639 for a language that nobody named."""
WEIGHTS = Path(__file__).with_name("english-letters.npy")
BUCKETS = 1 << 16
"""Letter n-grams fall into so many buckets, each with a weight."""
SCALE = 32.0
"""The weights are stored as whole numbers of 1/32."""
_LENGTHS = range(2, 6)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_VOWEL = re.compile("[aeiouyw]")
_DRAWN_OUT = re.compile(r"(.)\1\1")
_CRIES = word_set(
    """ah aah oh ooh uh um er eh hm hmm mm mhm huh ha hah haha he hee heh ho hey hi la na da dum doo dee sha fa ya yo
    yay yah yeah yeh nah ow ouch wow whoa boo shh pst bla blah ta tra"""
)
"""Cries and syllables that are sung or said in every language."""
_RUNS, _RUN_WORDS = 50, 100
"""Runs of words, evenly spaced, that stand for a longer text."""
_LEAST_WORDS = 5
_MOST_SCORE, _LIMIT, _SLOPE = 0.1, 0.8, 3.0
"""The mean score of n different words below which they are not English is 0.8 - 3 / sqrt(n), and 0.1 at most."""
_OF_SCRIPT = {
    "Greek": "el", "Korean": "ko", "Japanese": "ja", "Chinese": "zh", "Thai": "th", "Georgian": "ka", "Armenian": "hy",
    "Hebrew": "he", "Tamil": "ta", "Telugu": "te", "Kannada": "kn", "Malayalam": "ml", "Gujarati": "gu",
    "Gurmukhi": "pa", "Oriya": "or", "Bengali": "bn", "Devanagari": "hi", "Thaana": "dv", "Khmer": "km", "Lao": "lo",
    "Myanmar": "my", "Sinhala": "si", "Ethiopic": "am", "Arabic": "ar",
}  # fmt: skip
"""The language that a script stands for; others in the same script are told by `_OF_LETTERS`, or by --language."""
_OF_LETTERS = (
    ("Cyrillic", "їєґ", "uk"),
    ("Cyrillic", "ў", "be"),
    ("Cyrillic", "јљњђћџ", "sr"),
    ("Cyrillic", "әөүұңқғһҡҙҫӑӗҥҕҳҷӣӯҵҟҭҿҩҧҳ", UNKNOWN),
    ("Cyrillic", "ыэё", "ru"),
    ("Cyrillic", "ъ", "bg"),
    ("Arabic", "ٹڈڑےں", "ur"),
    ("Arabic", "پچژگکی", "fa"),
    ("Bengali", "ৰৱ", "as"),
)
"""Letters that show a language, those of a few words in a thousand first."""


def likely_other(text: str, weights: Path = WEIGHTS) -> str:
    """Return "" for a text that is English, or may be; else the code of its language, `UNKNOWN` where that is unclear.

    By the script of most letters, by function words, and by a logistic regression on the letter n-grams of each word,
    with the `weights` of a file. Fewer than five different words in Latin letters are never taken for another language.

    >>> likely_other("Die Kinder haben gestern im Garten gespielt und sind nass geworden.")
    'de'
    >>> likely_other("Добрый день, как вы поживаете?"), likely_other("She sang la la la in the Champs-Élysées.")
    ('ru', '')
    """
    return _likely_other(_thinned(text), weights)


@lru_cache(maxsize=64)
def _likely_other(text: str, weights: Path) -> str:
    script = script_of(text)
    if script not in ("", "Latin"):
        return _language_in(script, text.lower())
    named, scores = likely_language(text), _word_scores(text, weights)
    if named == "en" or len(scores) < _LEAST_WORDS:
        return ""
    if not named and _mean_score(scores) >= min(_MOST_SCORE, _LIMIT - _SLOPE / len(scores) ** 0.5):
        return ""
    return named or likely_language(text, least=_LEAST_WORDS) or UNKNOWN


def name_of(code: str) -> str:
    """Return how a message calls a language: by its English name and code.

    >>> name_of("de"), name_of("und")
    ('German (de)', 'not English')
    """
    return "not English" if code == UNKNOWN else f"{name_of_language(code)} ({code})"


def _word_scores(text: str, weights: Path) -> Sequence[tuple[float, int]]:
    """Return the score of each different word that counts (above 0: rather English), and how often it is said.

    Single letters, words without a vowel and cries count nowhere.
    """
    words = Counter(word.lower().replace("’", "'") for word in _WORD.findall(unicodedata.normalize("NFC", text)))
    return [(_score(word, weights), count) for word, count in words.items() if _counts(word)]


def _mean_score(scores: Sequence[tuple[float, int]]) -> float:
    """Return the mean of the scores, each weighted by the square root of its count: a refrain is one piece of news."""
    weights = np.sqrt([count for _, count in scores])
    return float(np.average([score for score, _ in scores], weights=weights))


def ngrams(word: str) -> list[int]:
    """Return the buckets of a word's letter n-grams, "^" and "$" at its ends."""
    marked = f"^{word}$"
    return [
        zlib.crc32(marked[start : start + length].encode("utf-8", "surrogatepass")) % BUCKETS
        for length in _LENGTHS
        for start in range(len(marked) - length + 1)
    ]


@lru_cache(maxsize=16384)
def _score(word: str, weights: Path) -> float:
    table, places = _table(weights), ngrams(word)
    return float(table[places].sum()) / (SCALE * len(places) ** 0.5) + float(table[-1]) / SCALE


@lru_cache(maxsize=1)
def _table(weights: Path) -> np.ndarray:
    """Return the weights of the buckets, and at the end the constant."""
    return np.load(weights).astype(np.int64)


def _counts(word: str) -> bool:
    if len(word) < 2 or word in _CRIES or _DRAWN_OUT.search(word):
        return False
    return _VOWEL.search(unicodedata.normalize("NFD", word)) is not None


def _language_in(script: str, text: str) -> str:
    """Return the code of the language that a text (lower case) in a script other than Latin is likely in."""
    letters = sum(map(str.isalpha, text))
    for name, shown, code in _OF_LETTERS:
        if name == script and sum(map(text.count, shown)) > letters / 300:
            return code
    return _OF_SCRIPT.get(script, UNKNOWN)


def _thinned(text: str) -> str:
    """Return runs of words of a long text, a short one as it is."""
    words = text.split() if len(text) > _RUNS * _RUN_WORDS * 2 else []
    if len(words) <= _RUNS * _RUN_WORDS:
        return text
    starts = range(0, len(words), len(words) // _RUNS)
    return " ".join(word for start in starts for word in words[start : start + _RUN_WORDS])
