"""Inputs made worse by Hypothesis: valid samples in which numbers, words, lines and any spans are
replaced by what breaks readers.

A case is a dictionary of file names and their bytes. `hostile_cases` changes one file of a sample,
one to four times: a span becomes a number out of range, a text with half of a surrogate pair, a
value of JSON, bytes, a part of another sample, nothing, itself many times, or 100 kB of one unit,
which no pattern or loop with quadratic work survives. Archives are changed inside.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Case = dict[str, bytes]
Draw = Callable[[st.SearchStrategy[Any]], Any]

REPEATED_BYTES = 100_000
_MOST_BYTES = 150_000
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORD = re.compile(rb'"[^"\n]{0,200}"|[^\s"=:,\[\]{}]{2,200}')
_LINE = re.compile(rb"[^\n]*\n")
_JSON_VALUE = re.compile(
    rb'(?:"([^"\n]{0,80})": ?|[\[,] ?)("[^"\n]{0,200}"(?! ?:)|-?[\d.]+|true|false|null)'
)
_KINDS = (_NUMBER, _NUMBER, _WORD, _WORD, _LINE, "span", "bytes", "tail")
_KINDS_OF_JSON = (*_KINDS, *[_JSON_VALUE] * 2 * len(_KINDS))
_MOST_SPANS = 3000
NUMBERS = ("1e999", "-1e999", "1e400", "1e300", "nan", "-inf", "9" * 5000, "0x" + "f" * 5000)
NUMBERS += ("-1", "1_000", "١٢", "1e", "1.5", "1000000000.1", "2147483648", "9223372036854775808")
TEXTS = ("\0", "\ufeff", "\u2028", "\x1b[31m", '"', "\\", "\\ud800", "a" * 70_000, "[" * 100_000)
TEXTS += ("../../etc/passwd", "/dev/zero", "http://x/", "|id", "-->", "]]>", "<!--", "[MUSIC]")
TEXTS += ('{"a":' * 3_000, "00:00:01,000 --> 00:00:02,000", "£" + "9" * 5000, "1/" + "0" * 400)
UNITS = (
    "<!--",
    "a.",
    "0",
    '"',
    "(",
    "[",
    "{",
    "a ",
    "1 ",
    "\n",
    "&",
    "<a ",
    "1:00 ",
    "文",
    "\u0301",
)
NESTED = ("[" * 100_000, '{"a":' * 3_000)
_NUMBERS = tuple(value.encode() for value in (*NUMBERS, *NESTED))
INTEGERS = (0, -1, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63))

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=4,
).map(json.dumps)
"""Values of JSON; what JSON cannot say (NaN) Python's writer says all the same."""
_texts = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    _values,
    st.floats().map(repr),
    st.text(max_size=20),
    st.text(st.characters(), min_size=1, max_size=3).map(lambda unit: fill_with(unit)),
    st.sampled_from(UNITS).map(lambda unit: fill_with(unit)),
)
_bytes = st.one_of(
    st.binary(max_size=64),
    st.builds(
        lambda number, width: struct.pack(width, number & (256 ** struct.calcsize(width) - 1)),
        st.sampled_from(INTEGERS),
        st.sampled_from(("<B", "<H", ">H", "<I", ">I", "<Q", ">Q")),
    ),
)
_new = st.one_of(
    st.just(b""), _texts.map(lambda text: text.encode("utf-8", "surrogatepass")), _bytes
)


def fill_with(unit: str) -> str:
    """Return 100 kB of a unit."""
    return unit * (REPEATED_BYTES // len(unit.encode("utf-8", "surrogatepass")))


class HostileCase(dict[str, bytes]):
    """A case that shows the sizes of its files: a message of 100 kB helps nobody."""

    def __repr__(self) -> str:
        return ", ".join(f"{name}: {len(content)} bytes" for name, content in self.items())


@st.composite
def hostile_cases(draw: Draw, samples: list[Case]) -> HostileCase:
    """Draw one of the samples with a file of it changed; parts of the others may come in."""
    case = draw(st.sampled_from(samples))
    name = draw(st.sampled_from(sorted(case)))
    data = case[name]
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 4)))):
        other = draw(st.sampled_from(samples)).get(name, data)
        data = _change_inside(draw, data, other)[:_MOST_BYTES]
    changed = HostileCase({**case, name: _recode(draw, data)})
    if len(case) > 1 and draw(st.integers(0, 19)) == 19:
        del changed[draw(st.sampled_from(sorted(changed)))]
    return changed


def _change_inside(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Change a file, or what is packed in it."""
    packed = (data[:2] == b"\x1f\x8b", data[:4] == b"PK\x03\x04", _has_safetensors_header(data))
    if not any(packed) or not draw(st.booleans()):
        return _change(draw, data, other)
    try:
        if packed[0]:
            inner = gzip.decompress(data)
            return gzip.compress(_change(draw, inner, inner), 1, mtime=0)
        if packed[1]:
            return _change_zip(draw, data)
    except (
        OSError,
        EOFError,
        ValueError,
        zlib.error,
        zipfile.BadZipFile,
    ):  # damaged by an earlier change
        return _change(draw, data, other)
    length = struct.unpack_from("<Q", data)[0]
    header = _change(draw, data[8 : 8 + length], b"")
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def _has_safetensors_header(data: bytes) -> bool:
    has_braces = len(data) > 10 and data[8:9] == b"{" and data[3:8] == b"\0" * 5
    return has_braces and struct.unpack_from("<Q", data)[0] <= len(data)


def _change_zip(draw: Draw, data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        entries = {info.filename: old.read(info) for info in old.infolist()}
    if not entries:
        return data
    place = draw(st.sampled_from(sorted(entries)))
    entries[place] = _change(draw, entries[place], entries[place])
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", draw(st.sampled_from((zipfile.ZIP_STORED, 8)))) as new:
        for name, content in entries.items():
            new.writestr(name, content)
    return file.getvalue()


def _change(draw: Draw, data: bytes, other: bytes) -> bytes:
    """Replace one span of a file."""
    kind = draw(st.sampled_from(_KINDS_OF_JSON if data[:1] in (b"{", b"[") else _KINDS))
    if kind is _JSON_VALUE:
        return _change_json(draw, data)
    spans: list[tuple[int, int]] = []
    if isinstance(kind, re.Pattern):
        spans = [match.span() for match, _ in zip(kind.finditer(data), range(_MOST_SPANS))]
    if spans:
        start, end = draw(st.sampled_from(spans))
    else:
        near_start = draw(st.booleans())  # where headers are
        start = draw(st.integers(0, min(len(data), 200) if near_start else len(data)))
        end = min(len(data), start + draw(st.integers(0, 200)))
    old = data[start:end]
    if kind == "tail":
        return data[:start] + draw(st.sampled_from((b"", other[len(other) // 2 :])))
    if kind == "bytes":
        new = draw(_bytes)
        return data[:start] + new + data[start + len(new) :]
    alike = st.sampled_from(_NUMBERS if kind is _NUMBER else (old * 2, other[start:end]))
    new = draw(st.one_of(alike, _new, st.just(old * 1000)))
    if old[:1] == b'"' and draw(st.integers(0, 3)):
        new = b'"' + new + b'"'
    return data[:start] + new + data[end:]


def _change_json(draw: Draw, data: bytes) -> bytes:
    """Replace a value of JSON: keys that are there once are drawn as often as others, and as lists."""
    spans: dict[bytes, list[tuple[int, int]]] = {}
    for match in _JSON_VALUE.finditer(data):
        spans.setdefault(match[1] or b"", []).append(match.span(2))
    if not spans:
        return data
    start, end = draw(st.sampled_from(spans[draw(st.sampled_from(sorted(spans)))]))
    new = draw(st.one_of(st.sampled_from((*NUMBERS, *NESTED)), _values))
    return data[:start] + new.encode("utf-8", "surrogatepass") + data[end:]


def _recode(draw: Draw, data: bytes) -> bytes:
    """Write a text now and then as another program would."""
    way = draw(
        st.sampled_from((*[""] * 24, "\r\n", "\r", "utf-16", "utf-16-be", "latin-1", "gzip"))
    )
    if way == "gzip":
        return gzip.compress(data, 1, mtime=0)
    if way in ("\r\n", "\r"):
        return data.replace(b"\n", way.encode())
    return data.decode("utf-8", "replace").encode(way, "replace") if way else data
