"""Inputs made worse: valid samples changed in the ways that break readers, by their structure where
they have one.

A case is a dictionary of file names and their bytes. `mutated` changes one file of it, one to six
times: numbers become 1e999 or 5,000 digits, texts half of a surrogate pair, values of JSON anything
else; lines and bytes are doubled, lost, moved, or come from another sample; lengths in binary files
become -1 or 2**63. Archives are changed inside. `repeated` puts 100 kB of one unit into a sample:
what a pattern or a loop with quadratic work does not survive.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from typing import Any

Case = dict[str, bytes]
Change = Callable[[bytes, bytes, random.Random], bytes]

NUMBERS = (
    *(
        "1e999",
        "-1e999",
        "1e400",
        "1e300",
        "-1e300",
        "nan",
        "inf",
        "-inf",
        "NaN",
        "Infinity",
        "-Infinity",
        "-0",
    ),
    *("-1", "0", "0.0", "1e-400"),
    *("9" * 400, "9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000, "1_000", "١٢", "1e", ".", "--1"),
    *(
        "2147483647",
        "2147483648",
        "-2147483649",
        "4294967296",
        "9223372036854775807",
        "9223372036854775808",
        "1.5",
    ),
    *(
        "1e9",
        "1000000000.1",
        "0b1",
        "1,5",
        "true",
        "null",
        "1" + "0" * 308,
        "1e308",
        "1e15",
        "99999999999",
    ),
)
TEXTS = (
    *("", " ", "\0", "\ufeff", "\u2028", "\x1b[31m", "\r", "\r\n", "\n\n", "\t"),
    *('"', '""', "'", "\\", "\\ud800", "%00"),
    "a" * 70_000,
    *(
        "../../etc/passwd",
        "/dev/zero",
        "/dev/stdin",
        "file:///etc/passwd",
        "http://x/",
        "=1+1",
        "|",
        "|id",
        "-->",
    ),
    *("<b>", "&amp;", "]]>", "<!--"),
    *(
        "{" * 300,
        "[" * 300,
        "[" * 100_000,
        '{"a":' * 3_000,
        "(" * 3000,
        "{{",
        "}}",
        "\u0301" * 3000,
        "\u202e",
    ),
    *("𝕏", "ﬁ", "İ", "ß", "日本", "א", "🏳️‍🌈", "<v Mary>", "{\\an8}", "[MUSIC]", "00:00:01,000"),
    "00:00:01,000 --> 00:00:02,000",
    *("WEBVTT", "NOTE", "#", ";;", "!", "<eps>", "IntervalTier", "TextTier", "<exists>"),
    *("1" * 5000 + ":00:00,000 --> 1:00", "£" + "9" * 5000, "9" * 5000 + "th", "1/" + "0" * 400),
    "9" * 999 + "." + "9" * 999,
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 1e300, -1e300, 10**400, -(10**400), 2**63),
    *(
        "",
        "x",
        "\ud800",
        "\0",
        "9" * 5000,
        [],
        {},
        [[]],
        [{}],
        {"": None},
        [1e999],
        [None],
        {"x": [1, {"y": -1}]},
    ),
    *("a/../../b", "http://x", "/dev/zero", float("nan")),
)
"""Values of JSON; what JSON cannot say (NaN) Python's writer says all the same."""
BYTES = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\xfe\xff",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\xf4\x90\x80\x80",
    ),
    *(
        b"\0" * 100,
        b"\xff" * 8,
        b"\x7f\xff\xff\xff",
        b"\x80\0\0\0",
        b"\x1f\x8b",
        b"PK\x03\x04",
        b"\x93NUMPY",
        b"RIFF",
    ),
)
WIDTHS = ("<B", "<H", ">H", "<i", ">i", "<I", ">I", "<q", ">q", "<Q", ">Q", "<d", "<f", ">d")
INTEGERS = (
    *(0, 1, -1, 2, 127, 128, 255, 256, 32767, 65535),
    *(2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63)),
)
FLOATS = (float("nan"), float("inf"), -1.0, 1e300, 1e-310)

REPEATED_BYTES = 100_000
_SHORT = (
    'a␣ ␣a a. 1. 1, 1␣ 0: 1/ 1- a- -a -␣ .␣ a\n 1\n a-\n a\t \r\n \n\n a:␣ a@ a/ \'a␣ a" "␣ \\" \\n'
    ' \x1aE (a (a)␣ [1 [] [a]␣ {},␣ [], {" {"a": [{ ]( {\\ **a <a <a␣ <a> <b/> </ </a> <!-- <v␣a>'
    " <i> <c.a> &# &#1; &amp; a& 1␣000␣ 12:30␣ $5␣ 1/2␣ 1st␣ 1e A. AB␣ Mr.␣ No.␣ IX␣ 555- the␣"
    " half␣ >>␣ JOHN:␣ -␣A.␣ http://a a.com␣ ♪␣ a— 文字 กา␣ é́ 00:00␣ 0:01␣-->␣0:02\n ␣a␣AH\n"
    ' "a"␣0␣1␣ u1␣a\n ID3 RIFF'
)
UNITS = (
    *"aA0é文あアー가กకאعΑжъ़́ـ²½٠ßİ\u0e40\u1780\u1039\u00a0\u00ad\u200b\u200d\u2028\u202e\ufeff\0",
    *" \t\n\r.,-_'\"`<>/\\&;:!?()[]{}*#=+|~@$%^€—…’“«·",
    *_SHORT.split(" "),
)
"""A character of each class and script, what quotes, brackets, tags and entities begin with, and
short lines."""

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb'"[^"\n]{0,200}"|[^\s"=:,\[\]{}]{2,200}')
_MOST_BYTES = 150_000


def mutated(case: Case, others: list[Case], chance: random.Random) -> Case:
    """Return a case with one of its files changed; `others` are cases whose parts may be spliced
    in."""
    name = chance.choice(sorted(case))
    data = case[name]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        spliced = chance.choice(others) if others else case
        data = _inside(data, spliced.get(name, data), chance)[:_MOST_BYTES]
    changed = {**case, name: data}
    if len(case) > 1 and chance.random() < 0.05:
        del changed[chance.choice(sorted(changed))]
    return changed


def repeated(case: Case, unit: str, chance: random.Random, size: int = REPEATED_BYTES) -> Case:
    """Return a case with `size` bytes of a unit at the start or end of a file, in a field or in the
    place of one."""
    name = chance.choice(sorted(case))
    new = _many(unit, size)
    return {**case, name: _inside(case[name], b"", chance, partial(_repeat, new=new))}


def _many(unit: str, size: int) -> str:
    return unit.replace("␣", " ") * (size // len(unit.replace("␣", " ").encode()))


def _inside(
    data: bytes, other: bytes, chance: random.Random, change: Change | None = None
) -> bytes:
    """Change a file, or what is packed in it."""
    change = change or _plain
    if data[:2] == b"\x1f\x8b" and chance.random() < 0.8:
        try:
            inner = gzip.decompress(data)
        except Exception:  # an archive that was damaged before
            return change(data, other, chance)
        return gzip.compress(change(inner, inner, chance), 1, mtime=0)
    if data[:4] == b"PK\x03\x04" and chance.random() < 0.7:
        changed = _zip(data, chance, change)
        return data if changed is None else changed
    if len(data) > 10 and data[8:9] == b"{" and data[3:8] == b"\0" * 5 and chance.random() < 0.7:
        return _safetensors(data, chance, change)
    return change(data, other, chance)


def _zip(data: bytes, chance: random.Random, change: Change) -> bytes | None:
    file = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            entries = [(info.filename, old.read(info)) for info in old.infolist()]
        if not entries:
            return None
        place = chance.randrange(len(entries))
        kind = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
        with zipfile.ZipFile(file, "w", kind) as new:
            for number, (name, content) in enumerate(entries):
                if number == place:
                    content = change(content, content, chance)
                    name = chance.choice((name, name, name, name + "x"))
                new.writestr(name, content)
    except Exception:  # a zip file that was damaged before
        return None
    return file.getvalue()


def _safetensors(data: bytes, chance: random.Random, change: Change) -> bytes:
    """Change the header of a safetensors file, and keep its length right."""
    length = struct.unpack_from("<Q", data)[0]
    if length > len(data):
        return change(data, data, chance)
    header = change(data[8 : 8 + length], b"", chance)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def _plain(data: bytes, other: bytes, chance: random.Random) -> bytes:
    if data[:1] in (b"{", b"[") and chance.random() < 0.5:
        changed = _json(data, chance)
        if changed is not None:
            return changed
    return chance.choice(_CHANGES)(data, other, chance)


def _json(data: bytes, chance: random.Random, new: str | None = None) -> bytes | None:
    """Replace (by `new`), remove or add a value somewhere in a line of JSON; None if it is not JSON
    (any more)."""
    whole = b"\n" in data.strip() and data.lstrip().startswith(b"{\n")
    rows = [data] if whole else data.split(b"\n")
    place = chance.randrange(len(rows))
    try:
        value = json.loads(rows[place])
    except (ValueError, RecursionError):
        return None
    holders = list(_holders(value))
    if not holders:
        return None
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    action = chance.random() if new is None else 1.0
    if action < 0.15:
        del holder[key]
    elif action < 0.25 and isinstance(holder, dict):
        holder[chance.choice(TEXTS)[:999]] = holder[key]
    elif action < 0.3 and isinstance(holder, list):
        holder.extend([holder[key]] * chance.choice((1, 3, 1000)))
    else:
        holder[key] = chance.choice(VALUES + TEXTS) if new is None else new
    try:
        text = json.dumps(value, ensure_ascii=chance.random() < 0.9)
    except (ValueError, RecursionError):
        return None
    rows[place] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(rows)


def _holders(value: Any) -> Any:
    """Yield the lists and objects in a value that are not empty."""
    pending = [value]
    while pending and len(pending) < 5000:
        item = pending.pop()
        if isinstance(item, (dict, list)) and item:
            yield item
            pending += item.values() if isinstance(item, dict) else item


def _span(data: bytes, chance: random.Random, most: int = 200) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(most))


def _number(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Replace a number."""
    return _replaced(data, _NUMBER, chance.choice(NUMBERS), chance)


def _word(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Replace a word, or a text between quotes."""
    return _replaced(data, _WORD, chance.choice(TEXTS + NUMBERS), chance)


def _replaced(data: bytes, pattern: re.Pattern[bytes], by: str, chance: random.Random) -> bytes:
    found = [match.span() for match, _ in zip(pattern.finditer(data), range(3000))]
    if not found:
        return _insert(data, b"", chance)
    start, end = chance.choice(found)
    new = by.encode("utf-8", "surrogatepass")
    return (
        data[:start]
        + (b'"' + new + b'"' if data[start : start + 1] == b'"' and chance.random() < 0.7 else new)
        + data[end:]
    )


def _insert(data: bytes, other: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    new = chance.choice((*BYTES, *(text.encode("utf-8", "surrogatepass") for text in TEXTS)))
    return data[:place] + new + data[place:]


def _repeat(data: bytes, other: bytes, chance: random.Random, new: str | None = None) -> bytes:
    new = _many(chance.choice(UNITS), REPEATED_BYTES) if new is None else new
    if data.lstrip()[:1] in (b"{", b"[") and chance.random() < 0.4:
        return _json(data, chance, new) or new.encode()
    place = chance.choice((0, 0, len(data), len(data), -1, -1, -2, chance.randrange(len(data) + 1)))
    if place < 0:
        return _replaced(data, _NUMBER if place == -1 else _WORD, new, chance)
    return data[:place] + new.encode() + data[place:]


def delete(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _double(data: bytes, other: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 1, 2, 500)) + data[end:]


def _truncate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def flip(data: bytes, other: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 4, 32)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _integer(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Write an extreme number over some bytes, mostly near the start, where headers are."""
    changed = bytearray(data)
    width = chance.choice(WIDTHS)
    size = struct.calcsize(width)
    if len(data) <= size:
        return data
    reach = len(data) - size if chance.random() < 0.4 else min(len(data) - size, 200)
    value: float = chance.choice(FLOATS) if width[1] in "df" else chance.choice(INTEGERS)
    if width[1] == "f":
        value = chance.choice(FLOATS[:3])
    elif width[1] != "d":
        value = int(value) & (256**size - 1)
        width = width.upper()
    struct.pack_into(width, changed, chance.randrange(reach + 1), value)
    return bytes(changed)


def _splice(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Join the beginning of one sample and the end of another."""
    start, end = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    return data[:start] + other[end:]


def lines(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Double, remove, swap or join lines, or repeat one a thousand times."""
    rows = data.split(b"\n")
    a, b = chance.randrange(len(rows)), chance.randrange(len(rows))
    action = chance.randrange(6)
    if action == 0:
        rows[a:a] = [rows[b]] * chance.choice((1, 1, 1000))
    elif action == 1:
        del rows[a]
    elif action == 2:
        rows[a], rows[b] = rows[b], rows[a]
    elif action == 3:
        rows[a] = rows[a].replace(b" ", b"\t")
    elif action == 4:
        rows[a] = rows[a].strip() + rows[b]
    else:
        rows[a] = b""
    return b"\n".join(rows)


def _recode(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Write a text as another program would: other line ends, UTF-16, Latin-1, a byte order mark,
    gzip."""
    action = chance.randrange(7)
    if action == 0:
        return data.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\x0b", "\u2028".encode())))
    if action == 1:
        return b"\xef\xbb\xbf" + data
    if action == 2:
        return gzip.compress(data, 1, mtime=0)
    if action == 3:
        return data.replace(b" ", "\u00a0".encode())
    text = data.decode("utf-8", "replace")
    return text.encode(("utf-16", "utf-16-be", "latin-1", "utf-16-le")[action - 4], "replace")


_CHANGES: tuple[Change, ...] = (
    *([_number] * 5 + [_word] * 4 + [_insert] * 2),
    *(
        delete,
        _double,
        _truncate,
        flip,
        flip,
        _integer,
        _integer,
        _splice,
        lines,
        lines,
        _recode,
        _repeat,
    ),
)
