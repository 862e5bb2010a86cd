"""Words of Chinese, Japanese and Thai by a dictionary, where it is asked for: which characters make a word together.

Japanese by SudachiPy and SudachiDict, which also say how kanji are read; Chinese by jieba's dictionary (rjieba), Thai
by PyThaiNLP's. They run offline, and are extras. Lao, Khmer and Burmese have none here: their characters stay words.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS, install_line
from ctc_align.text.languages import base_code
from ctc_align.text.runs import is_letter

Span = tuple[int, int]

_THAI, _KANA = re.compile("[\u0e00-\u0e7f]"), re.compile("[\u3041-\u3096\u30a1-\u30fa\uff66-\uff9f]")
_KANJI = "\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HAN = re.compile(f"[{_KANJI}\u2e80-\u2fdf\u3105-\u312f]")
_NOT_JAPANESE = ("zh", "yue", "ko", "wuu", "hak", "nan", "gan", "hsn", "cjy", "lzh")
"""Languages in whose texts kana do not say that kanji are Japanese: the Chinese ones, and Korean."""
_KATAKANA = re.compile("[\u30a1-\u30fa\u30fc]+")
_JAPANESE_LETTERS = re.compile(f"[{_KANJI}\u3041-\u3096\u309d\u309e\u30a1-\u30fe]+")
_PARTICLES = {"は": "ワ", "へ": "エ", "を": "オ"}
_MOST_AT_ONCE, _ENOUGH = 4000, 500
"""Characters of a run without spaces that are cut together; after `_ENOUGH` a run ends at the next punctuation."""


class Token(NamedTuple):
    """A word of a dictionary in a run, `end` exclusive, and its reading in katakana, "" where it has none."""

    start: int
    end: int
    reading: str = ""


def require_dictionary(language: str) -> None:
    """Raise UsageError where the dictionary of a language is not installed; languages without one need none."""
    _require({"ja": "ja", "th": "th", "zh": "zh", "yue": "zh"}.get(base_code(language), ""))


def words_by_dictionary(text: str, spans: Sequence[Span], language: str) -> tuple[list[Span], list[str | None]]:
    """Return words of a dictionary, from `spans` (end exclusive, ascending) that hold a character with its marks each.

    Spans are only joined, where letters of one word of the dictionary stand side by side: Latin words, digits and
    punctuation stay as they were. The second list is how the words are read: in katakana where they are Japanese (は as
    ワ where it is the particle), "" for words that are read as they are spoken, None for what is of no dictionary.

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
        own = list(_joined(text, run, {token.end for token in tokens}))
        words += own
        read += _readings(text, own, tokens)
    return words, read


def _runs(text: str, spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield groups of spans that touch each other, those of long runs cut at punctuation."""
    run: list[Span] = []
    for span in spans:
        length = span[1] - run[0][0] if run else 0
        is_full = length > _MOST_AT_ONCE or (length > _ENOUGH and not text[run[-1][1] - 1].isalnum())
        if run and (run[-1][1] != span[0] or is_full):
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _extra_for(run: str, language: str, has_kana: bool) -> str:
    """Return the extra whose dictionary cuts a run, "" for none."""
    if _THAI.search(run):
        return "th"
    is_japanese = language == "ja" or (has_kana and language not in _NOT_JAPANESE)
    if is_japanese and (_KANA.search(run) or _HAN.search(run)):
        return "ja"
    return "zh" if language != "ko" and _HAN.search(run) else ""


def _joined(text: str, spans: Sequence[Span], ends: set[int]) -> Iterator[Span]:
    """Yield spans that touch each other, joined where no word of a dictionary `ends` between two letters."""
    start = spans[0][0]
    for (_, end), _ in pairwise([*spans, spans[-1]]):
        is_last = end == spans[-1][1]
        if is_last or end in ends or not (_joins(text[end - 1]) and _joins(text[end])):
            yield start, end
            start = end


def _joins(character: str) -> bool:
    return character == "〇" or is_letter(character)


def _readings(text: str, words: Sequence[Span], tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the reading of each word, by the tokens that begin in it; "" where they have none."""
    place = 0
    for start, end in words:
        own: list[Token] = []
        while place < len(tokens) and tokens[place].start < end:
            own.append(tokens[place])
            place += 1
        letters = "".join(filter(str.isalnum, text[start:end]))
        parts = [token.reading or "".join(filter(str.isalnum, text[token.start : token.end])) for token in own]
        is_read = any(token.reading for token in own) and _JAPANESE_LETTERS.fullmatch(letters)
        yield "".join(parts) if is_read else ""


def _require(extra: str) -> None:
    missing = EXTRAS[extra].missing() if extra else []
    if missing:
        raise UsageError(
            f"words_by = dictionary: {EXTRAS[extra].purpose.partition(',')[0]} need {', '.join(missing)}: "
            f"{install_line(extra)}"
        )


@lru_cache(maxsize=3)
def _cutter(extra: str) -> Callable[[str], list[Token]]:
    """Return the function that cuts a run without spaces into the words of a dictionary, which is loaded once."""
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
    """Return the katakana of a word in kana and kanji, "" for other ones and for numbers, which have rules."""
    surface, kind = morpheme.surface(), morpheme.part_of_speech()
    if kind[0] == "助詞" and surface in _PARTICLES:
        return _PARTICLES[surface]
    reading = str(morpheme.reading_form())
    if kind[1] == "数詞" or not _JAPANESE_LETTERS.fullmatch(surface) or not _KATAKANA.fullmatch(reading):
        return ""
    is_phrase = kind[0] in ("感動詞", "接続詞") and len(surface) > 1 and surface.endswith("は")
    return f"{reading[:-1]}ワ" if is_phrase else reading


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
        places = [0]
        for word in segment(run, safe_mode=True):
            places.append(places[-1] + len(word))
        assert places[-1] == len(run), f"{run}: PyThaiNLP left characters out"
        return [Token(*span) for span in pairwise(places)]

    return cut
