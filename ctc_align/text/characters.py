"""Unification of characters that mean the same: quotes, dashes, digits, presentation forms."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

GAP = "\u200b"
SIGNS = "£€¥¢₹₩₽₺₪₫₦₴₿฿°×÷±≈−–‘§№⁺µ·"
LETTER = rf"[^\x00-@\[-`{{-\x7f{SIGNS}{GAP}]"
"""Regular expression of one letter or mark in a text from `plain`."""

_MAPPED = {
    **dict.fromkeys("’‛ʼ＇`´ʻʹ′", "'"),
    **dict.fromkeys("“”„‟«»‹›″", '"'),
    **dict.fromkeys("\u2010\u2011﹣－", "-"),
    **dict.fromkeys("\u2012\u2013\u2014\u2015\u2e3a\u2e3b", "–"),
    **dict.fromkeys("⁄∕／", "/"),
    "…": "...",
    "〇": "〇",  # Unicode says it is a number; kept as the other Han numerals are
    "℃": "°C",
    "℉": "°F",
    "٪": "%",
    "٫": ",",  # the decimal sign of Arabic digits, and that of thousands
    "٬": ".",
    "＄": "$",
    "￥": "¥",
    "￡": "£",
}
_IGNORED = re.compile(
    "[\u00ad\u034f\u0640\u061c\u180b-\u180f\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_PRESENTATION = re.compile("[\ufb00-\ufb4f\ufb50-\ufdff\ufe70-\ufeff\uff01-\uffef\U0001d400-\U0001d7ff]")
_MU = re.compile(r"(?P<micro>(?<![^\W\d_])[µμ](?=[A-Za-z]))|[µμ]")
"""Before a Latin unit both characters are the sign micro, elsewhere the Greek letter."""
_OPENED_INSIDE = re.compile(rf"(?<={LETTER})‘(?={LETTER})")


def plain(word: str) -> str:
    """Return `word` in NFC with ASCII quotes and hyphens, – for every dash and decimal digits as 0-9.

    Invisible characters (soft hyphens, joiners, selectors, tatweel) go, vulgar fractions become " 1/2". Whatever is
    neither letter, mark, digit, ASCII nor one of `SIGNS` becomes `GAP`.

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
        return character if mapped is None else mapped
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category in ("No", "Nl"):
        return _number(character)
    if _PRESENTATION.match(character):
        return "".join(c if c.isascii() or unicodedata.category(c)[0] in "LM" else GAP for c in _compatible(character))
    return character if category[0] in "LM" else GAP


def _compatible(character: str) -> str:
    return unicodedata.normalize("NFKC", character)


def _number(character: str) -> str:
    """Return a numeral in ASCII: ½ → " 1/2", ⑤ → "5", Ⅷ → "VIII", a superscript after a sign: ⁴ → "⁺4"."""
    compatible = _compatible(character)
    if "⁄" in compatible:
        return " " + compatible.replace("⁄", "/")
    if unicodedata.decomposition(character).startswith("<super>"):
        return "⁺" + compatible
    if compatible.isascii():
        return compatible
    value = unicodedata.numeric(character)
    return str(int(value)) if value == int(value) else GAP


def word_set(words: str) -> frozenset[str]:
    """Return the words of a table that is written as one text."""
    return frozenset(words.split())
