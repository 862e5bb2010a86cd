"""Make the readings of Chinese characters that the package holds, from the Unihan database of
Unicode.

    python research/han_table.py FOLDER

`FOLDER` has Unihan's files (`Unihan_Readings.txt`, `Unihan_OtherMappings.txt`,
`Unihan_Variants.txt`), plain or as .bz2, as Debian's package unicode-data has them in
/usr/share/unicode. Tones are left out. The file is written beside
`ctc_align/text/sounds/east_asia.py`, which reads it.
"""

from __future__ import annotations

import bz2
import lzma
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path

from ctc_align.text.sounds.east_asia import (
    CANTONESE,
    COLUMNS,
    FILE,
    KOREAN,
    KUN,
    MANDARIN,
    NOTICE,
    ON,
    PARTED,
)

Field = dict[str, str]
_MOST = {MANDARIN: 3, CANTONESE: 2, KOREAN: 2, ON: 3, KUN: 6}
_LEAST_SHARE = 0.04
"""Rarer readings of a character are left out, where it is known how frequent each is."""
_STANDARDS = ("kGB0", "kTGH", "kBigFive", "kHKSCS", "kJis0", "kJoyoKanji", "kKSC0")
"""A character is kept that one of these has: the common ones of China, Taiwan, Hong Kong, Japan and
Korea."""
_TONES = re.compile("[\u0300\u0301\u0304\u030c]")


def main(folder: Path) -> None:
    """Write the file of readings."""
    fields: dict[str, Field] = {}
    for name in ("Readings", "OtherMappings", "Variants"):
        for line in _lines(folder, f"Unihan_{name}.txt"):
            code, key, value = line.split("\t", 2)
            fields.setdefault(chr(int(code[2:], 16)), {})[key] = value
    rows = {
        character: _row(character, fields)
        for character in sorted(fields)
        if _is_kept(fields[character])
    }
    rows = {character: row for character, row in rows.items() if any(row)}
    lines = [*(f"# {line}".rstrip() for line in NOTICE.splitlines()), "".join(rows)]
    for place, column in enumerate(COLUMNS):
        lines.append(f"{column} " + PARTED.join(",".join(row[place]) for row in rows.values()))
    packed = lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    FILE.write_bytes(packed)


def _lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    raw = (
        path.read_bytes()
        if path.exists()
        else bz2.decompress((folder / f"{name}.bz2").read_bytes())
    )
    return [line for line in raw.decode().splitlines() if line and not line.startswith("#")]


def _is_kept(field: Field) -> bool:
    return any(key in field for key in _STANDARDS)


def _row(character: str, fields: dict[str, Field]) -> list[list[str]]:
    """Return the readings of a character, the likelier first, in the order of `COLUMNS`."""
    own = fields[character]
    is_japanese = "kJis0" in own or "kJoyoKanji" in own
    found = {
        MANDARIN: _mandarin(own, fields),
        CANTONESE: [reading.rstrip("0123456789") for reading in own.get("kCantonese", "").split()],
        KOREAN: _korean(own),
        ON: own.get("kJapaneseOn", "").lower().split() if is_japanese else [],
        KUN: own.get("kJapaneseKun", "").lower().split() if is_japanese else [],
    }
    return [list(dict.fromkeys(found[column]))[: _MOST[column]] for column in COLUMNS]


def _mandarin(own: Field, fields: dict[str, Field]) -> list[str]:
    """Return readings in pinyin: by frequency where that is known, of a traditional form by that of
    the simplified."""
    first = [_plain(reading) for reading in own.get("kMandarin", "").split()]
    simplified = [chr(int(code[2:], 16)) for code in own.get("kSimplifiedVariant", "").split()]
    known = {
        _plain(reading) for reading in re.findall(r"[^\d.:,\s*]+", own.get("kHanyuPinyin", ""))
    }
    for other in (own, *(fields.get(character, {}) for character in simplified)):
        if frequencies := re.findall(r"(\S+?)\((\d+)\)", other.get("kHanyuPinlu", "")):
            counts: Counter[str] = Counter()
            for reading, count in frequencies:
                counts[_plain(reading)] += int(count)
            often = [r for r, n in counts.most_common() if n >= _LEAST_SHARE * counts.total()]
            return (
                often
                if other is own
                else [*first, *(reading for reading in often if reading in known)]
            )
    return first


def _korean(own: Field) -> list[str]:
    readings = [reading.split(":") for reading in own.get("kHangul", "").split()]
    return [
        hangul for hangul, sources in sorted(readings, key=lambda reading: "E" not in reading[1])
    ]


def _plain(reading: str) -> str:
    """Return pinyin without tones, v for ü."""
    bare = _TONES.sub("", unicodedata.normalize("NFD", reading))
    return unicodedata.normalize("NFC", bare).replace("ü", "v")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
