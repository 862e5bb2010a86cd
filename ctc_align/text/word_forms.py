"""The spoken form of a written word, and its label in a tier.

For English there are rules, for other languages num2words and a few signs. A label has no outer punctuation.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from ctc_align.text.characters import LETTER, lower, plain
from ctc_align.text.english_numbers import Context
from ctc_align.text.spoken_english import drops_g, is_elision, speak, telephone_words
from ctc_align.text.tables import text_table

_ENGLISH = ("en", "eng", "english")
_WORD = re.compile(rf"(?P<letters>{LETTER}+(?:['·]{LETTER}+)*)|(?P<number>[-−]?\d[\d.,']*)|(?P<sign>[%&€+])")
_POINT_IS_DECIMAL = frozenset(("en", "ja", "ko", "th", "he", "zh", "hi", "bn", "te", "kn", "ta", "ur", "my"))
_NUM2WORDS_CODES = text_table("words", "num2words-codes")
_NO_YEARS = ("bn", "ja", "ko")
"""Languages in which num2words adds the word for year, or an era."""
_LONGEST = 18
_NOT_SPOKEN = re.compile(rf"(?!{LETTER}|')[^\s]")


def spoken_forms(written: Sequence[str], language: str, *, in_context: bool = True) -> list[str]:
    """Return the spoken form of each written word, "" for one without anything to pronounce.

    With `in_context` a word's neighbours decide ("No." before a number, "$2" before "million").

    >>> spoken_forms(["No.", "5"], "en"), spoken_forms(["No.", "No"], "en")
    (['number', 'five'], ['no', 'no'])
    """
    if not _is_english(language):
        return [_other_language(word, language) for word in written]
    if not in_context:
        return [speak(word, Context(shouting=True)) for word in written]
    shouting = any(map(str.isupper, written)) and not any(any(map(str.islower, word)) for word in written)
    neighbours = zip(["", *written[:-1]], [*written[1:], ""])
    numbers = telephone_words(written)
    return [
        numbers[index] if index in numbers else speak(word, Context(*both, shouting))
        for index, (word, both) in enumerate(zip(written, neighbours))
    ]


def reads_digits(language: str) -> bool:
    """Return whether numbers are spelled out in a language; elsewhere they stay digits.

    >>> reads_digits("en-GB"), reads_digits("de"), reads_digits("klingon")
    (True, True, False)
    """
    return _is_english(language) or _converter(_code(language)) is not None


def _is_english(language: str) -> bool:
    return language.replace("_", "-").partition("-")[0].lower() in _ENGLISH


def _other_language(word: str, language: str) -> str:
    """Return the lower-case words (letters, marks, inner apostrophes) of one written word, without punctuation.

    num2words spells digits in `language` (a code such as "de", "pt-BR" or "deu"); in a language that it lacks they stay
    digits, which a model without digits reports as unknown.

    >>> spoken_forms(["„Straße“,", "21"], "de"), spoken_forms(["l’année"], "fr"), spoken_forms(["٢١"], "xx")
    (['straße', 'einundzwanzig'], ["l'année"], ['21'])
    """
    code = _code(language)
    spoken = []
    for match in _WORD.finditer(plain(word)):
        if match["letters"]:
            spoken.append(lower(match["letters"].replace("·", ""), dotless=_base(code) in ("tr", "az")))
        elif match["number"]:
            spoken.append(_number(match["number"], match.start() == 0, code))
        else:
            spoken.append(text_table("numbers", _base(code)).get(match["sign"], ""))
    return " ".join(filter(None, spoken))


def _code(language: str) -> str:
    """Return num2words' name of a language: "pt-BR" → "pt_BR", "deu" → "de"."""
    base, _, region = language.replace("_", "-").partition("-")
    base = _NUM2WORDS_CODES.get(base.lower(), base.lower())
    return f"{base}_{region.upper()}" if region else base


def _base(code: str) -> str:
    return code.partition("_")[0]


def _number(written: str, opens: bool, code: str) -> str:
    """Return a number in words, or its digits, space-separated, in a language that num2words lacks."""
    sign = "-" if opens and written[0] in "-−" else ""
    body = written.lstrip("-−").rstrip(".,'")
    group, point = (",", ".") if _base(code) in _POINT_IS_DECIMAL else (".", ",")
    body = re.sub(rf"(?<=\d)[{re.escape(group)}'](?=\d{{3}}(?!\d))", "", body)
    parts = re.split(r"[.,']", body) if body.count(point) != 1 else [body.replace(point, ".")]
    return " ".join(
        _in_words(sign + part, code, part in written) or " ".join(re.findall(r"\d+", part))
        for part in parts
        if part.strip(".")
    )


def _converter(code: str) -> str | None:
    """Return the code of a language in num2words, with or without the region; None if it lacks the language."""
    from num2words import CONVERTER_CLASSES

    return next((name for name in (code, _base(code)) if name in CONVERTER_CLASSES), None)


@lru_cache(maxsize=4096)
def _in_words(number: str, code: str, bare: bool) -> str | None:
    """Return `number` (ASCII digits, perhaps "-" and a point) in words; four `bare` digits may be a year."""
    from num2words import num2words

    name = _converter(code)
    if name is None or len(number) > _LONGEST or re.match(r"0\d", number):
        return None
    whole, point, fraction = number.partition(".")
    spoken_point = text_table("numbers", _base(code)).get(".")
    if point and spoken_point:
        if whole == "-0":
            return None  # num2words has no zero below zero
        read = [_in_words(part, code, False) or part for part in (whole, *fraction)]
        return " ".join([read[0], spoken_point, *read[1:]])
    is_year = bare and _base(code) not in _NO_YEARS and re.fullmatch(r"1[1-9]\d\d", number)
    for attempt in ("year" if is_year else "cardinal", "cardinal"):
        try:
            words = str(num2words(number if point else int(number), to=attempt, lang=name))
        except Exception:  # num2words' languages raise errors of many kinds
            continue
        return lower(" ".join(_NOT_SPOKEN.sub(" ", words).split()))
    return None


_NOT_OUTER = "%‰#@&°№©"
_SELECTORS = {*map(chr, range(0xFE00, 0xFE10)), "\u20e3"}
_STRIPPED_SYMBOLS = "^`´~|<>"
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]$")
_SIGN_AND_POINT = re.compile(r"(?:^|[^\w.\-−])([-−]?\.?)$")
_TAGS = re.compile(r"<[^<>]*>")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def outer_punctuation_stripped(word: str) -> str:
    """Return `word` without the punctuation around it; inner punctuation stays, and a word never becomes empty.

    Signs that are spoken (currency, %, #, @, &, +, °, a minus or a point before a digit) stay, and so do the apostrophe
    of a known elision ('tis, '90s, goin'), the last dot of initials (U.S.) and a bracket that opens inside the word.

    >>> [outer_punctuation_stripped(word) for word in ("Hello,", "(“Yes!”)", "$3.50", "(U.S.)", "...")]
    ['Hello', 'Yes', '$3.50', 'U.S.', '...']
    """
    start, end = 0, len(word)
    while start < end and _is_outer(word[start]):
        start += 1
    if start == end:
        return word
    while _is_outer(word[end - 1]) and not _closes_inside(word, start, end):
        end -= 1
    core = word[start:end]
    return _prefix(word[:start], core) + core + _suffix(core, word[end:])


def without_markup(word: str) -> str:
    """Return `word` with its entities decoded and without the tags inside it.

    >>> without_markup("R&amp;D"), without_markup("un<b>believ</b>able"), without_markup("AT&T")
    ('R&D', 'unbelievable', 'AT&T')
    """
    if "&" in word and ";" in word:
        word = html.unescape(word)
    return (_TAGS.sub("", word) or word) if "<" in word and ">" in word else word


def _prefix(before: str, core: str) -> str:
    """Return the part of the punctuation before `core` that belongs to it."""
    if core[0].isdigit() or unicodedata.category(core[0]) == "Sc":
        sign = _SIGN_AND_POINT.search(before)
        if sign:
            return sign.group(1) or _apostrophe(before, core[0].isdigit())
    return _apostrophe(before, is_elision(core, before[-1:]))


def _apostrophe(before: str, wanted: bool) -> str:
    return before[-1] if wanted and before.endswith(("'", "’", "‘")) else ""


def _suffix(core: str, after: str) -> str:
    if after.startswith(".") and _INITIALS.match(core):
        return "."
    if after.startswith(("'", "’")) and drops_g(core) and core.isalpha():
        return after[0]
    return ""


def _closes_inside(word: str, start: int, end: int) -> bool:
    closing = word[end - 1]
    opening = _BRACKETS.get(closing)
    return opening is not None and word.count(opening, start, end) >= word.count(closing, start, end)


@lru_cache(maxsize=4096)
def _is_outer(character: str) -> bool:
    if character in _SELECTORS or character in _STRIPPED_SYMBOLS:
        return True
    if character in _NOT_OUTER:
        return False
    category = unicodedata.category(character)
    return category[0] in "PCZ" or category in ("So", "Sk")
