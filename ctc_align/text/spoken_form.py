"""Written words → what is spoken for each, in the language of the transcript."""

from __future__ import annotations

from collections.abc import Sequence

from ctc_align.text import other_languages
from ctc_align.text.english import spoken_english
from ctc_align.text.scanner import Context

_ENGLISH = ("en", "eng", "english")


def spoken_forms(written: Sequence[str], language: str, *, in_context: bool = True) -> list[str]:
    """One spoken form per written word, "" where there is nothing to pronounce.

    `in_context` lets a word's neighbours decide ("No." before a number, "$2" before "million").

    >>> spoken_forms(["No.", "5"], "en"), spoken_forms(["No.", "No"], "en")
    (['number', 'five'], ['no', 'no'])
    """
    if not _is_english(language):
        return [other_languages.speak(word, language) for word in written]
    if not in_context:
        return [spoken_english.speak(word, Context(shouting=True)) for word in written]
    shouting = any(map(str.isupper, written)) and not any(any(map(str.islower, word)) for word in written)
    befores = ["", *written[:-1]]
    afters = [*written[1:], ""]
    return [
        spoken_english.speak(word, Context(before, after, shouting))
        for word, before, after in zip(written, befores, afters)
    ]


def reads_digits(language: str) -> bool:
    """Whether digits are spelled out in a language, or stay digits.

    >>> reads_digits("en-GB"), reads_digits("de"), reads_digits("klingon")
    (True, True, False)
    """
    return _is_english(language) or other_languages.reads_digits(language)


def _is_english(language: str) -> bool:
    return language.replace("_", "-").partition("-")[0].lower() in _ENGLISH
