"""Characters: variants with the same meaning, letters, and characters that an output must escape.

Quotes, dashes, digits and presentation forms are unified before words are read. Names of files,
transcripts and labels may contain any character, and some are dangerous: ESC and other control
characters control a terminal; characters that change the direction of text disguise a line; many
file formats cannot hold control characters; and a spreadsheet computes a cell that begins with "=".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar, cast

from ctc_align.text.tables import character_table
from ctc_align.types import Word

Span = tuple[int, int]
"""The characters from one index to another, exclusive."""
GAP = "\u200b"
SIGNS = "£€¥¢₹₩₽₺₪₫₦₴₿฿°×÷±≈−–‘§№⁺µ·"
LETTER = rf"[^\x00-@\[-`{{-\x7f{SIGNS}{GAP}]"
"""Regular expression of one letter or mark in a text from `plain`."""

_MAPPED = character_table("words", "variants")
_IGNORED = re.compile(
    "[\u00ad\u034f\u0640\u061c\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_PRESENTATION = re.compile(
    "[\ufb00-\ufb4f\ufb50-\ufdff\ufe70-\ufeff\uff01-\uffef\U0001d400-\U0001d7ff]"
)
_MU = re.compile(r"(?P<micro>(?<![^\W\d_])[µμ](?=[A-Za-z]))|[µμ]")
"""Before a Latin unit, both characters mean the micro sign, elsewhere the Greek letter."""
_OPENED_INSIDE = re.compile(rf"(?<={LETTER})‘(?={LETTER})")


class _LazyRegex:
    """A regular expression that is compiled at its first use.

    Its attributes then become those of the compiled expression.
    """

    def __init__(self, expression: str, flags: int) -> None:
        self._arguments = expression, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._arguments)
        self.__dict__.update(
            {each: getattr(compiled, each) for each in dir(compiled) if not each.startswith("_")}
        )
        return getattr(compiled, name)


def lazy_regex(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` does, but compile at the first use.

    Of the many expressions for texts, most texts need a third.

    >>> lazy_regex("[ab]+").findall("abba cab")
    ['abba', 'ab']
    """
    return cast("re.Pattern[str]", _LazyRegex(expression, flags))


def plain(word: str) -> str:
    """Return `word` in NFC, with ASCII quotes and hyphens and the digits 0-9.

    Every dash becomes –, and every decimal digit an ASCII one.

    Invisible characters (soft hyphens, joiners, selectors, tatweel) are dropped, vulgar fractions
    become " 1/2". Anything but letters, marks, digits, ASCII and `SIGNS` becomes `GAP`.

    >>> plain("“Five”—5½…")
    '"Five"–5 1/2...'
    """
    if word.isascii():
        return word
    word = unicodedata.normalize("NFC", _IGNORED.sub("", word))
    word = _MU.sub(lambda match: "µ" if match["micro"] else "μ", word)
    return _OPENED_INSIDE.sub("'", "".join(map(_plain, word)))


def lower(letters: str, *, dotless: bool = False) -> str:
    """Return `letters` in lower case, one for one: İ is i; with `dotless` (Turkish, Azeri) I is ı.

    >>> lower("İI"), lower("İI", dotless=True)
    ('ii', 'iı')
    """
    if dotless:
        letters = letters.replace("I", "ı")
    return letters.replace("İ", "i").lower()


@lru_cache(maxsize=16384)
def _plain(character: str) -> str:
    mapped = _MAPPED.get(character)
    if mapped is not None or character.isascii() or character in SIGNS:
        if mapped is None:
            return character
        return mapped
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("No", "Nl"):
        return _number(character)
    if _PRESENTATION.match(character):
        return "".join(
            c if c.isascii() or unicodedata.category(c)[0] in "LM" else GAP
            for c in _compatible(character)
        )
    if category[0] in "LM":
        return character
    return GAP


def _compatible(character: str) -> str:
    return unicodedata.normalize("NFKC", character)


def _number(character: str) -> str:
    """Return a numeral in ASCII.

    ½ → " 1/2", ⑤ → "5", Ⅷ → "VIII"; a superscript after a sign: ⁴ → "⁺4".
    """
    compatible = _compatible(character)
    if "⁄" in compatible:
        return " " + compatible.replace("⁄", "/")
    if unicodedata.decomposition(character).startswith("<super>"):
        return "⁺" + compatible
    if compatible.isascii():
        return compatible
    value = unicodedata.numeric(character)
    if value == int(value):
        return str(int(value))
    return GAP


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text, as a set."""
    return frozenset(words.split())


MOST_IN_A_RUN = 64
"""The most words of a run."""

Letters = TypeVar("Letters", str, tuple[str, ...])


def runs(words: tuple[Word, ...]) -> Iterator[list[Word]]:
    """Yield groups of words without a space or a sign between them.

    The sounds of the words of a group depend on each other.

    A word with a reading from a dictionary is alone, except after Japanese ッ and ン, which the next
    word changes.
    """
    run: list[Word] = []
    for word in words:
        together = run and run[-1].char_end == word.char_start and len(run) < MOST_IN_A_RUN
        if run and (word.reading is not None or run[-1].reading is not None):
            together = together and run[-1].reading_text[-1:] in ("ッ", "ン")
        if run and not (together and is_letter(run[-1].text[-1]) and is_letter(word.text[0])):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def is_letter(character: str) -> bool:
    """Return whether a character is a letter, or a mark on one."""
    return unicodedata.category(character)[0] in "LM"


def divided(letters: Letters, count: int) -> list[Letters]:
    """Return the letters or phones of `count` characters, divided among the characters.

    >>> divided("kya", 2), divided("t", 2), divided("", 1), divided(("k", "j", "a"), 2)
    (['k', 'ya'], ['', 't'], [''], [('k',), ('j', 'a')])
    """
    cuts = [len(letters) * part // count for part in range(count + 1)]
    return [letters[start:end] for start, end in pairwise(cuts)]


DIRECTION_MARKS = "\u061c\u200e\u200f"
"""Marks in names and texts of right-to-left scripts; in a page, an element with `dir` keeps their
effect to itself."""
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: ESC, BEL, BS, CR, CSI, OSC …
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings, overrides and isolates of direction
    "\u206a-\u206f\ufff9-\ufffb\U000e0000-\U000e007f"  # deprecated format characters, annotations, tags
    "\ud800-\udfff]"  # halves of surrogate pairs: bytes of file names that are not UTF-8, and broken JSON
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,:/]\d+)*(?:e[+-]?\d+)?%?|inf)|-")
"""Cells that are not formulas: numbers as people and we write them, and the name of standard
input."""
REPLACEMENT = "\ufffd"


def printable(text: str, keep: str = "") -> str:
    r"""Return a text that is safe to show in a terminal: control characters become Python escapes.

    Args:
        keep: characters to keep: "\n" for a text of several lines, "\t" for columns.

    >>> printable("talk\x1b[2J\u202e.wav"), printable("caf\udce9.wav")
    ('talk\\x1b[2J\\u202e.wav', 'caf\\xe9.wav')
    """
    return _OBEYED.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python represents a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\U{code:08x}"


def json_escaped(text: str) -> str:
    r"""Return a JSON text with the same content, without bare control characters.

    Control characters and direction marks are escaped.

    >>> json_escaped('"\x9b2J\u202e"')
    '"\\u009b2J\\u202e"'
    """
    return _OBEYED.sub(
        lambda match: match[0] if match[0] in "\n\t" else json.dumps(match[0])[1:-1], text
    )


def without_controls(text: str) -> str:
    r"""Return a text with U+FFFD for each control character except tab and line feed.

    U+2028 and U+2029 become spaces.

    >>> without_controls("a\x1b[1m\x00b")
    'a�[1m�b'
    """
    return _CONTROLS.sub(REPLACEMENT, text).replace("\u2028", " ").replace("\u2029", " ")


def spreadsheet_cell(text: str) -> str:
    """Return a cell that a spreadsheet takes as text.

    A formula gets an apostrophe before it; numbers stay.

    A formula that has an apostrophe gets another one, so that removing one always restores the
    text.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("@cmd"), spreadsheet_cell("-5"), spreadsheet_cell("'=1+1")
    ("'=1+1", "'@cmd", '-5', "''=1+1")
    """
    if _FORMULA.match(text) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
