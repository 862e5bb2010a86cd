"""Text in a picture: what is shown of it, how wide it is, and the fonts of this machine that have its characters."""

from __future__ import annotations

import contextlib
import functools
import logging
from unicodedata import combining, east_asian_width

from ctc_align.text.characters import without_controls

OWN = "DejaVu Sans"
_WEIGHTS = (400, "normal", "regular", "book")
_SYMBOLS = ("STIX", "cm", "Noto Color Emoji", "Last Resort")
"""Fonts of mathematics, in which letters are in other places, of coloured pictures, which matplotlib cannot draw, and
of a box for every character there is."""
_MOST_NAMED = 5

logger = logging.getLogger(__name__)


def as_label(text: object) -> str:
    """Return a text in one line, without control characters and halves of surrogate pairs."""
    return without_controls(" ".join(str(text).split())).encode("utf-8", "replace").decode()


def width_in_ems(text: str) -> float:
    """Return about how wide a text is, in units of its size: East Asian characters are twice as wide as others."""
    widths = {"W": 1.0, "F": 1.0}
    narrow = {**dict.fromkeys("ijl.,;:'!|I’‘", 0.33), **dict.fromkeys("mwMW—", 0.9)}
    return sum(
        0.0
        if combining(char)
        else widths.get(east_asian_width(char)) or narrow.get(char) or (0.7 if char.isupper() else 0.6)
        for char in text
    )


def font_families(text: str) -> list[str]:
    """Return the families in which a text can be written, matplotlib's own first; what none has is told in a warning.

    Of the fonts of this machine as few as have the characters, those with the most of them first. No font is brought
    along, and none is looked for elsewhere.
    """
    missing = {char for char in text if not char.isspace()} - _characters_of(OWN)
    families = [OWN]
    while missing:
        family, found = max(
            ((name, missing & _characters_of(name)) for name in _families()),
            key=lambda named: (len(named[1]), named[0]),
            default=("", set()),
        )
        if not found:
            some = " ".join(f"U+{ord(char):04X}" for char in sorted(missing)[:_MOST_NAMED])
            more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
            logger.warning("no font of this machine has %s%s: a picture shows boxes in their places", some, more)
            break
        families.append(family)
        missing -= found
    return families


@functools.cache
def _families() -> dict[str, str]:
    """Return the files of this machine's families of fonts, upright and of normal weight, by their names."""
    from matplotlib.font_manager import fontManager

    regular = (font for font in fontManager.ttflist if font.style == "normal" and font.weight in _WEIGHTS)
    return {font.name: font.fname for font in regular if not font.name.startswith(_SYMBOLS)}


@functools.cache
def _characters_of(family: str) -> frozenset[str]:
    """Return the characters that a family's regular font has; none where it cannot be read."""
    from matplotlib.font_manager import get_font

    with contextlib.suppress(Exception):  # a damaged font of this machine is no reason to draw nothing
        return frozenset(map(chr, get_font(_families()[family]).get_charmap()))
    return frozenset()
