"""Readings of words by other libraries, which are extras.

Latin letters come from uroman, words and kana from dictionaries.

uroman (Hermjakob, May and Knight 2018) romanises runs of words without spaces between them as a
whole: one word, or in spaceless scripts many, whose sounds depend on their neighbours (きゃ is kya,
เกิด is koet). It reports which characters each piece of its output represents; a piece for several
words is divided among them.

Dictionaries group the characters of Chinese, Japanese and Thai into words: SudachiPy and
SudachiDict for Japanese (including the readings of kanji), jieba's dictionary (rjieba) for Chinese,
PyThaiNLP's for Thai. There is no dictionary for Lao, Khmer and Burmese, so each of their characters
is a word.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS, install_line
from ctc_align.text.characters import Span, divided, is_letter, lazy_regex, lower, runs
from ctc_align.text.languages import base_code, split_languages
from ctc_align.text.tables import text_table
from ctc_align.text.word_forms import primary_subtag
from ctc_align.types import Word, Words

if TYPE_CHECKING:
    from uroman import Uroman
    from uroman.uroman import Edge

_MOST_CACHED = 2**16
"""Size of the cache of romanised runs; in most scripts a run is a word."""

_THREE_LETTERS = text_table("words", "uroman-codes")
"""The languages with rules in uroman that have a code of two letters."""
_REPEATED = "²"
"""uroman's output for 々, which repeats the character before it."""
_APOSTROPHE = lazy_regex("[’ʼ‘ʻ]")
_DIGIT = lazy_regex(r"[0-9]")


def require_uroman() -> None:
    """Raise UsageError unless uroman is installed."""
    if find_spec("uroman") is None:
        raise UsageError(f"romanize: uroman is missing: {install_line('romanize')}")


def romanized(words: Words, language: str) -> Words:
    """Return `words` from `split`, each with its spoken form in Latin letters as `roman`.

    It is in lower case, separated by spaces.

    A silent letter (a Thai consonant under a thanthakhat) becomes "". ASCII, and characters that
    uroman lacks, stay.

    Args:
        words: numbers are spelled out already.
        language: BCP 47 or ISO 639 code; uroman has rules for some languages.

    Raises:
        UsageError: uroman is not installed.
    """
    require_uroman()
    code = _uroman_code(language)
    romanized_words: list[Word] = []
    for run in runs(words.words):
        forms = _romanized_run(tuple(word.reading_text for word in run), code)
        romanized_words += [replace(word, roman=form) for word, form in zip(run, forms)]
    return replace(words, words=tuple(romanized_words))


def _uroman_code(language: str) -> str | None:
    base = primary_subtag(language)
    return _THREE_LETTERS.get(base, base if len(base) == 3 else None)


@lru_cache(maxsize=_MOST_CACHED)
def _romanized_run(spokens: tuple[str, ...], code: str | None) -> tuple[str, ...]:
    if all(spoken.isascii() for spoken in spokens):
        return spokens
    text = "".join(spokens)
    owners = [word for word, spoken in enumerate(spokens) for _ in spoken]
    letters = [""] * len(spokens)
    for start, end, latin in _pieces(text, code):
        for index, part in enumerate(divided(latin, end - start), start):
            letters[owners[index]] += part
    return tuple(" ".join(latin.split()) for latin in letters)


def _pieces(text: str, code: str | None) -> Iterator[tuple[int, int, str]]:
    """Yield the pieces of `text` in Latin letters, which cover it without gaps, in order.

    Each is (start, end exclusive, Latin letters).
    """
    before = ""
    for edge in _edges(text, code):
        if edge.txt == _REPEATED:
            yield edge.start, edge.end, before
        elif _DIGIT.search(edge.txt) and not _DIGIT.search(text[edge.start : edge.end]):
            # uroman writes numerals as digits (三百 is 300); a spoken form needs their words.
            for index in range(edge.start, edge.end):
                yield index, index + 1, _plain(_numeral(text[index], code))
        else:
            before = _plain(edge.txt)
            yield edge.start, edge.end, before


def _edges(text: str, code: str | None, every: bool = False) -> list[Edge]:
    """Return uroman's best pieces of a text, or `every` piece that it knows."""
    from uroman import RomFormat

    edges: list[Edge] = _uroman().romanize_string(
        text, lcode=code, rom_format=RomFormat[("EDGES", "LATTICE")[every]]
    )
    return edges


def _numeral(character: str, code: str | None) -> str:
    """Return the word for a character that is a number: san for 三."""
    readings = [
        edge.txt for edge in _edges(character, code, every=True) if not _DIGIT.search(edge.txt)
    ]
    return next((reading for reading in readings if reading), character)


@lru_cache(maxsize=_MOST_CACHED)
def _plain(latin: str) -> str:
    """Return Latin text in lower case without accents and signs; apostrophes and spaces stay.

    >>> _plain("Č'est·2 ʼ")
    "c'est2 '"
    """
    latin = lower(_APOSTROPHE.sub("'", latin))
    bare = "".join(c for c in unicodedata.normalize("NFD", latin) if not unicodedata.combining(c))
    # Letters that are not Latin here are unknown to uroman; their marks may be letters.
    letters = latin
    if not any(c.isalpha() and not c.isascii() for c in bare):
        letters = bare
    return "".join(c for c in letters if c in "' " or unicodedata.category(c)[0] in "LMN")


@lru_cache(maxsize=1)
def _uroman() -> Uroman:
    """Load uroman's tables, which takes some seconds, once."""
    from uroman import Uroman

    return Uroman()


_THAI = lazy_regex("[\u0e00-\u0e7f]")
_KANA = lazy_regex("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9f]")
_KANJI = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HAN = lazy_regex(f"[{_KANJI}\u2e80-\u2fdf\u3105-\u312f]")
_NOT_JAPANESE = ("zh", "yue", "ko", "wuu", "hak", "nan", "gan", "hsn", "cjy", "lzh")
"""Languages whose kanji are not Japanese even beside kana: the Chinese ones, and Korean."""
_KATAKANA = lazy_regex("[\u30a1-\u30fa\u30fc]+")
_JAPANESE_LETTERS = lazy_regex(f"[{_KANJI}\u3041-\u3096\u309d\u309e\u30a1-\u30fe]+")
_PARTICLES = {"は": "ワ", "へ": "エ", "を": "オ"}
_MOST_AT_ONCE = 4000
_ENOUGH = 500
"""Most characters of a run without spaces; after `_ENOUGH` a run ends at the next punctuation."""


class Token(NamedTuple):
    """A word that a dictionary finds in a run.

    `end` is exclusive; the reading is in katakana, "" if it has none.
    """

    start: int
    end: int
    reading: str = ""


def require_dictionary(language: str) -> None:
    """Raise UsageError if the dictionary of a language is not installed.

    Most languages need none.
    """
    extras = {"ja": "ja", "th": "th", "zh": "zh", "yue": "zh"}
    for each in split_languages(language):
        _require(extras.get(base_code(each), ""))


def words_by_dictionary(
    text: str, spans: Sequence[Span], language: str
) -> tuple[list[Span], list[str | None]]:
    """Return (words, readings) by a dictionary, from `spans` of one character with its marks each.

    Spans are only joined, where adjacent letters are one word of the dictionary: Latin words,
    digits and punctuation stay. A reading is in katakana for Japanese (は as ワ if it is the
    particle), "" for a word that is read as written, None without a dictionary.

    Args:
        text: the whole text.
        spans: (start, end exclusive), ascending.
        language: any code or name that `base_code` reads.

    Raises:
        UsageError: the dictionary that the text needs is not installed.
    """
    words: list[Span] = []
    read: list[str | None] = []
    has_kana = _KANA.search(text) is not None
    for run in _runs(text, spans):
        start, end = run[0][0], run[-1][1]
        extra = _extra_for(text[start:end], base_code(language), has_kana)
        if not extra:
            words += run
            read += [None] * len(run)
            continue
        found = _cutter(extra)(text[start:end])
        tokens = [Token(start + token.start, start + token.end, token.reading) for token in found]
        joined = list(_joined(text, run, {token.end for token in tokens}))
        words += joined
        read += _readings(text, joined, tokens)
    return words, read


def _runs(text: str, spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield groups of adjacent spans; cut long runs at punctuation."""
    run: list[Span] = []
    for span in spans:
        length = 0
        if run:
            length = span[1] - run[0][0]
        is_full = length > _MOST_AT_ONCE or (
            length > _ENOUGH and not text[run[-1][1] - 1].isalnum()
        )
        if run and (run[-1][1] != span[0] or is_full):
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _extra_for(run: str, language: str, has_kana: bool) -> str:
    """Return the extra with the dictionary for a run, "" if there is none."""
    if _THAI.search(run):
        return "th"
    is_japanese = language == "ja" or (has_kana and language not in _NOT_JAPANESE)
    if is_japanese and (_KANA.search(run) or _HAN.search(run)):
        return "ja"
    if language != "ko" and _HAN.search(run):
        return "zh"
    return ""


def _joined(text: str, spans: Sequence[Span], ends: set[int]) -> Iterator[Span]:
    """Yield adjacent spans, joined where no word of a dictionary `ends` between two letters."""
    start = spans[0][0]
    for (_, end), _ in pairwise([*spans, spans[-1]]):
        is_last = end == spans[-1][1]
        if is_last or end in ends or not (_joins(text[end - 1]) and _joins(text[end])):
            yield start, end
            start = end


def _joins(character: str) -> bool:
    return character == "〇" or is_letter(character)


def _readings(text: str, words: Sequence[Span], tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the reading of each word, by the tokens that begin in it; "" if they have none."""
    index = 0
    for start, end in words:
        first = index
        while index < len(tokens) and tokens[index].start < end:
            index += 1
        within = tokens[first:index]
        letters = "".join(filter(str.isalnum, text[start:end]))
        parts = [
            token.reading or "".join(filter(str.isalnum, text[token.start : token.end]))
            for token in within
        ]
        is_read = any(token.reading for token in within) and _JAPANESE_LETTERS.fullmatch(letters)
        yield "".join(parts) if is_read else ""


def _require(extra: str) -> None:
    if extra:
        missing = EXTRAS[extra].missing()
    else:
        missing = []
    if missing:
        raise UsageError(
            f"words_by = dictionary: {EXTRAS[extra].purpose.partition(',')[0]} need"
            f" {', '.join(missing)}: {install_line(extra)}"
        )


@lru_cache(maxsize=3)
def _cutter(extra: str) -> Callable[[str], list[Token]]:
    """Return the function that cuts a run without spaces into words.

    It uses a dictionary, which is loaded once.
    """
    _require(extra)
    return {"ja": _japanese, "zh": _chinese, "th": _thai}[extra]()


def _japanese() -> Callable[[str], list[Token]]:
    from sudachipy import Dictionary, SplitMode

    tokenizer = Dictionary(dict="core").tokenizer()

    def cut(run: str) -> list[Token]:
        found = tokenizer.tokenize(run, SplitMode.B)
        return [Token(one.begin(), one.end(), _reading(one)) for one in found]

    return cut


def _reading(morpheme: Any) -> str:
    """Return the katakana of a word in kana and kanji.

    "" for other words and for numbers, which have rules of their own.
    """
    surface = morpheme.surface()
    kind = morpheme.part_of_speech()
    if kind[0] == "助詞" and surface in _PARTICLES:
        return _PARTICLES[surface]
    reading = str(morpheme.reading_form())
    if (
        kind[1] == "数詞"
        or not _JAPANESE_LETTERS.fullmatch(surface)
        or not _KATAKANA.fullmatch(reading)
    ):
        return ""
    is_phrase = kind[0] in ("感動詞", "接続詞") and len(surface) > 1 and surface.endswith("は")
    if is_phrase:
        return f"{reading[:-1]}ワ"
    return reading


def _chinese() -> Callable[[str], list[Token]]:
    from rjieba import tokenize

    return lambda run: [Token(start, end) for _, start, end in tokenize(run)]


def _thai() -> Callable[[str], list[Token]]:
    # Without this the import makes a folder in the user's home.
    name = "PYTHAINLP_READ_ONLY"
    is_ours = name not in os.environ and "PYTHAINLP_READ_MODE" not in os.environ
    if is_ours:
        os.environ[name] = "1"
    try:
        from pythainlp.tokenize.newmm import segment
    finally:
        if is_ours:
            del os.environ[name]

    def cut(run: str) -> list[Token]:
        cuts = [0, *accumulate(map(len, segment(run, safe_mode=True)))]
        assert cuts[-1] == len(run), f"{run}: PyThaiNLP left characters out"
        return [Token(*span) for span in pairwise(cuts)]

    return cut
