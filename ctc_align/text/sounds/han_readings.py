"""Readings of Chinese characters in Mandarin, Cantonese, Korean and Japanese: a table made from Unihan.

`tools/han_table.py` makes the file: lines of a notice, one with all characters, and for each language
one with their readings in the same order.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from pathlib import Path

MANDARIN, CANTONESE, KOREAN, ON, KUN = COLUMNS = ("cmn", "yue", "ko", "ja-on", "ja-kun")
"""Pinyin, Jyutping, Hangul, and Japanese in Unihan's romanisation."""
FILE = Path(__file__).with_name("han-readings.txt.xz")
PARTED = " "
NOTICE = """Readings of Chinese characters, without tones. Made from the Unihan database of Unicode 15.0.
Copyright © 1991-2022 Unicode, Inc. All rights reserved. Used under the Unicode licence: UNICODE-LICENSE."""


@lru_cache(maxsize=len(COLUMNS))
def readings(column: str) -> dict[str, tuple[str, ...]]:
    """Return the readings of each character that has one, the likeliest first.

    >>> readings(MANDARIN)["行"], readings(CANTONESE)["行"], readings(ON)["行"]
    (('xing', 'hang'), ('hang',), ('kou', 'gyou', 'an'))
    """
    characters, *columns = _lines()
    written = columns[COLUMNS.index(column)].split(PARTED)[1:]
    return {character: tuple(own.split(",")) for character, own in zip(characters, written) if own}


@lru_cache(maxsize=1)
def _lines() -> list[str]:
    lines = lzma.decompress(FILE.read_bytes()).decode().split("\n")
    return [line for line in lines if not line.startswith("#")]
