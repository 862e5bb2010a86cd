"""A transcript as given → its written words, each with its place in the text and its spoken form."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ctc_align.config import Settings
from ctc_align.errors import TranscriptError, UsageError
from ctc_align.text.scripts import character_spans, has_spaceless
from ctc_align.text.spoken_form import spoken_forms
from ctc_align.types import Word, Words

_RUN = re.compile(r"\S+")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def read_transcript(path: str | Path) -> str:
    """Text of a UTF-8 file, or of standard input for "-"; a byte order mark is removed, line ends are kept.

    Raises:
        UsageError: no such file, a folder, or a file that cannot be read.
        TranscriptError: the bytes are not UTF-8; the message says where the first wrong one is.
    """
    if str(path) == "-":
        return _decoded(_standard_input(), "standard input")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such transcript file; give a UTF-8 text file, - for stdin, or --text") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: expected a transcript file, got a folder; name a text file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{path}: the transcript cannot be read: {reason}") from None
    return _decoded(data, str(path))


def split(text: str, *, language: str = "en", by_character: bool | None = None) -> Words:
    """Written words of `text` in order; `char_start` and `char_end` count code points, `char_end` exclusive.

    A word is a maximal run of non-space characters (Unicode spaces, as `str.isspace` knows them), attached
    punctuation and hyphens included. Where a run holds a script that is written without spaces (Han, kana, Thai, Lao,
    Khmer, Myanmar), each character with its marks is a word: closing punctuation goes with the character before it,
    opening punctuation with the one after. Every non-space character belongs to exactly one word.

    Args:
        text: the transcript, as given.
        language: BCP 47 or ISO 639 code; it decides how digits, signs and abbreviations are read.
        by_character: True makes every letter and digit a word, in any script; False never cuts a run;
            None decides run by run, as above.

    Raises:
        UsageError: `text` or `language` is not a string.

    >>> [(word.text, word.spoken) for word in split("Twenty-two cost $3.50!").words]
    [('Twenty-two', 'twenty two'), ('cost', 'cost'), ('$3.50!', 'three dollars and fifty cents')]
    >>> [word.text for word in split("「今日」は", language="ja").words]
    ['「今', '日」', 'は']
    """
    if not isinstance(text, str) or not isinstance(language, str):
        met = type(language if isinstance(text, str) else text).__name__
        raise UsageError(f"expected the transcript and its language as strings, got {met}; decode bytes as UTF-8 first")
    spans = _spans(text, by_character)
    written = [text[start:end] for start, end in spans]
    spoken = spoken_forms(written, language, in_context=not by_character)
    return Words(text, tuple(map(Word, written, spoken, *zip(*spans))) if spans else ())


def words_of(text: str, settings: Settings) -> Words:
    """The words of a transcript as the settings say: `language` (English if empty), `words_by` and `romanize`.

    Raises:
        UsageError: as `split`; uroman is asked for and not installed.
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
        met = " ".join(word.text for word in words.words[:5])
        raise TranscriptError(f"{source}: nothing in the transcript is spoken (got: {met}); expected at least one word")


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


def _standard_input() -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)
    return buffer.read() if buffer is not None else sys.stdin.read().encode("utf-8", "surrogateescape")


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        hint = "it looks like UTF-16" if data.startswith(_UTF16) else "perhaps it is Latin-1 or Windows-1252"
        raise TranscriptError(
            f"{source}, line {line}: expected UTF-8, got byte 0x{data[error.start]:02x} at offset {error.start}; "
            f"{hint}: save the transcript as UTF-8"
        ) from None
