"""English readings of web and mail addresses: "example dot com", "me at example dot org"."""

from __future__ import annotations

import re

from ctc_align.text.characters import word_set
from ctc_align.text.english.numbers import number
from ctc_align.text.scanner import Rule, Scan, rule

_DOMAINS = "com|org|net|edu|gov|mil|info|biz|io|tv|fm|co\\.uk|ac\\.uk|org\\.uk|uk|de|fr|eu|ca|au|jp"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_TAIL = r"(?::\d+)?(?:[/?#](?:[^\s,;!\"()]*[A-Za-z0-9/])?)?"
_SPELLED = word_set("www edu io tv fm uk de fr eu ca au jp html php http https")
_SIGNS = {
    ".": "dot",
    "@": "at",
    "/": "slash",
    "?": "question mark",
    "=": "equals",
    "&": "and",
    "#": "hash",
    "_": "",
    "+": "plus",
}
_PIECE = re.compile(r"[A-Za-z]+|\d+|[.@/?=&#+]")


def _address(match: re.Match[str], scan: Scan) -> str | None:
    text = re.sub(r"^[a-z]+://", "", match[0], flags=re.IGNORECASE).rstrip("/")
    return " ".join(said for piece in _PIECE.findall(text) if (said := _said(piece)))


def _said(piece: str) -> str:
    if piece.isdigit():
        return number(piece)
    low = piece.lower()
    spelled = low in _SPELLED or (len(low) > 1 and low.isalpha() and not set(low) & set("aeiouy"))
    return _SIGNS.get(piece) or (" ".join(low) if spelled else low)


RULES: tuple[Rule, ...] = (
    rule(rf"(?<![\w.%+-])[\w.%+-]+@{_LABEL}(?:\.{_LABEL})+", _address),
    rule(rf"(?i:https?://){_LABEL}(?:\.{_LABEL})*{_TAIL}", _address),
    rule(rf"(?i:www)\.{_LABEL}(?:\.{_LABEL})+{_TAIL}", _address),
    rule(rf"(?<![\w.@-]){_LABEL}(?:\.{_LABEL})*\.(?:{_DOMAINS})(?![\w-]|\.\w){_TAIL}", _address),
)
"""Tried at a letter or digit of a word that has a dot inside; the scheme (https://) is not spoken."""
