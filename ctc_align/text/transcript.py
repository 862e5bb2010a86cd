"""Splitting a transcript into words, each with its place in the text and its spoken form."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ctc_align.config import Settings
from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.spoken_form import spoken_forms
from ctc_align.text.word_boundaries import boundaries, cut_at
from ctc_align.types import Word, Words

_RUN = re.compile(r"\S+")
_SPACELESS = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U000323af"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001aff0-\U0001b16f"  # kana
)
_ANY_SPACELESS = re.compile(f"[{_SPACELESS}]")
_STACKERS = "\u1039\u17d2"
_VOWELS_LIKE_MARKS = "\u0e33\u0eb3"
_PREFIXES = "#@+-−±~'’"

_LETTER, _EXTEND, _STACK, _OTHER, _OPEN, _PREFIX, _WIDE, _NARROW = "LXJAOSWP"
_ATOM = re.compile(r"(?P<core>L(?:J+L|[XJ])*|A(?:[AXJ]|[POS][POSX]*(?=A))*)|(?P<open>O|S(?=S*A))|(?P<close>.)")


def split(text: str, *, language: str = "en", by_character: bool | None = None) -> Words:
    """Split `text` into its written words; `char_start` and `char_end` count code points, `char_end` exclusive.

    A word is a run of non-space characters (Unicode spaces, as `str.isspace` knows them), attached punctuation and
    hyphens included; it ends also after a dash, an ellipsis, a slash or a sentence mark that stands between two words
    ("Americans—ask": see `ctc_align.text.word_boundaries`). Where a run holds a script that is written without spaces
    (Han, kana, Thai, Lao, Khmer, Myanmar), each character with its marks is a word: closing punctuation goes with the
    character before it, opening punctuation with the one after. Every non-space character belongs to exactly one word.

    Args:
        text: the transcript.
        language: BCP 47 or ISO 639 code; it decides how digits, signs and abbreviations are read.
        by_character: True makes every letter and digit a word, in any script; False never cuts a run, not even at a
            dash; None decides run by run, as above.

    Raises:
        UsageError: `text` or `language` is not a string.

    >>> [(word.text, word.spoken) for word in split("Twenty-two cost $3.50!").words]
    [('Twenty-two', 'twenty two'), ('cost', 'cost'), ('$3.50!', 'three dollars and fifty cents')]
    >>> [word.text for word in split("「今日」は", language="ja").words]
    ['「今', '日」', 'は']
    """
    if not isinstance(text, str) or not isinstance(language, str):
        got = type(language if isinstance(text, str) else text).__name__
        raise UsageError(f"expected the transcript and its language as strings, got {got}; decode bytes as UTF-8 first")
    spans = _spans(text, by_character)
    if by_character is None and (cuts := boundaries(text, language)):
        spans = list(cut_at(spans, cuts))
    written = [text[start:end] for start, end in spans]
    spoken = spoken_forms(written, language, in_context=not by_character)
    return Words(text, tuple(map(Word, written, spoken, *zip(*spans))) if spans else ())


def words_of(text: str, settings: Settings) -> Words:
    """Split a transcript by the settings `language` (English if empty), `words_by` and `romanize`.

    Raises:
        UsageError: as `split`, or uroman is needed and not installed.
    """
    language = settings.for_language().language
    by_character = {"auto": None, "spaces": False, "characters": True}[settings.words_by]
    words = split(text, language=language, by_character=by_character)
    if not settings.romanize:
        return words
    from ctc_align.text.romanisation import romanized

    return romanized(words, language)


def require_words(words: Words, source: str) -> None:
    """Raise TranscriptError, naming `source`, unless at least one word of `words` is spoken.

    >>> require_words(split("Yes."), "yes.txt")
    """
    if not words.words:
        raise TranscriptError(f"{source}: the transcript is empty; expected at least one word that is spoken")
    if not any(word.spoken for word in words.words):
        got = " ".join(word.text for word in words.words[:5])
        raise TranscriptError(f"{source}: nothing in the transcript is spoken (got: {got}); expected at least one word")


def _spans(text: str, by_character: bool | None) -> list[tuple[int, int]]:
    whole = by_character is False or (by_character is None and not has_spaceless(text))
    spans = []
    for run in _RUN.finditer(text):
        start, end = run.span()
        if whole or (by_character is None and not has_spaceless(run.group())):
            spans.append((start, end))
        else:
            spans.extend((start + a, start + b) for a, b in character_spans(run.group(), every=bool(by_character)))
    return spans


def has_spaceless(text: str) -> bool:
    """Return whether `text` holds a character of a script that is written without spaces."""
    return not text.isascii() and _ANY_SPACELESS.search(text) is not None


def character_spans(run: str, *, every: bool = False) -> list[tuple[int, int]]:
    """Cut a run without spaces into words; the spans (start, end exclusive) cover it without gaps, in order.

    A letter of a spaceless script with its marks is a word, and so is each stretch between such letters (Latin words,
    digits). With `every`, each letter and digit of any script is a word.

    >>> [("iPhoneを買う。")[a:b] for a, b in character_spans("iPhoneを買う。")]
    ['iPhone', 'を', '買', 'う。']
    """
    kinds = _kinds(run, every)
    spans: list[tuple[int, int]] = []
    pending = -1  # start of punctuation that waits for the next word
    for atom in _ATOM.finditer(kinds):
        start, end = atom.span()
        if atom.lastgroup == "core":
            spans.append((start if pending < 0 else pending, end))
            pending = -1
        elif atom.lastgroup == "close" and pending < 0 and spans:
            spans[-1] = (spans[-1][0], end)
        elif pending < 0:
            pending = start
    if pending >= 0:
        spans[-1:] = [(spans[-1][0] if spans else pending, len(run))]
    return spans


def _kinds(run: str, every: bool) -> str:
    """Return one letter per character of `run`, for `_ATOM` to match."""
    kinds = []
    quote_is_open = False
    for character in run:
        kind = _kind(character, every)
        if character == '"':
            kind = _NARROW if quote_is_open else _OPEN
            quote_is_open = not quote_is_open
        kinds.append(kind)
    if kinds[0] == _EXTEND and unicodedata.category(run[0]) == "Lm":
        kinds[0] = _LETTER  # an iteration or length mark with nothing before it stands for itself
    return "".join(kinds)


@lru_cache(maxsize=16384)
def _kind(character: str, every: bool) -> str:
    category = unicodedata.category(character)
    spaceless = _ANY_SPACELESS.match(character) is not None
    if character in _STACKERS:
        return _STACK
    if category[0] == "M" or category == "Cf" or character in _VOWELS_LIKE_MARKS or (spaceless and category == "Lm"):
        return _EXTEND
    if category[0] in "LN":
        return _LETTER if every or (spaceless and category != "Nd") else _OTHER
    if category in ("Ps", "Pi"):
        return _OPEN
    if category == "Sc" or character in _PREFIXES:
        return _PREFIX
    return _WIDE if unicodedata.east_asian_width(character) in "WF" else _NARROW
