"""Praat's TextGrids, read (also as a transcript) and written.

In the long and the short text format.
"""

from __future__ import annotations

import codecs
import io
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from ctc_align.errors import InputError, TranscriptError
from ctc_align.files.tiers import (
    SpokenTier,
    is_document,
    is_silence,
    speaker_of,
    tiers_by_source,
    tiers_by_speaker,
    tiers_transcript,
    unused_names,
)
from ctc_align.files.writer import (
    RECORDING,
    UNITS_PER_S,
    TimedLabel,
    Writer,
    end_units,
    line_end_of,
)
from ctc_align.reading import as_seconds, as_whole, read_input
from ctc_align.text.characters import without_controls
from ctc_align.text.encodings import decode_text
from ctc_align.types import TEXTGRID, Alignment, Interval, Tier, Transcript

# Praat's own rule: a value is a quoted string, a flag or a number that stands free; all other text
# is decoration.
_VALUE = re.compile(
    r"""(?<!\S)(?: "(?P<string>(?:[^"]|"")*)"
                 | <(?P<flag>[a-z]+)>
                 | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
                 | (?P<comment>![^\n]*) )(?!\S)""",
    re.VERBOSE,
)
_HEAD = re.compile(r'\s*(?:File type\s*=\s*)?"ooTextFile')
_HEAD_BYTES = 400
_BINARY = b"ooBinaryFile"
_WIDE = 0xFFFF
"""In the binary format, in place of a text's length: the text is UTF-16, after the number of its
characters."""
_TEXT_BYTES = 8
"""Approximate bytes of memory for each byte of a TextGrid."""
SHORT = "short"
_LONG_TIER = (
    """    item [{number}]:
        class = "IntervalTier"
        name = "{name}"
        xmin = {xmin}
        xmax = {xmax}
        intervals: size = {count}
""",
    """        intervals [{number}]:
            xmin = {xmin}
            xmax = {xmax}
            text = "{label}"
""",
)
"""The head of an interval tier, and an interval, in Praat's long text format."""
_SHORT_TIER = ('"IntervalTier"\n"{name}"\n{xmin}\n{xmax}\n{count}\n', '{xmin}\n{xmax}\n"{label}"\n')
_MS_OVER = 1000
"""A word may end 10 ms (in units) after the end of a TextGrid without making it longer, because of
rounding."""


@dataclass(frozen=True)
class TextGrid:
    """The interval tiers of a file (point tiers are left out)."""

    start_s: float
    end_s: float
    tiers: tuple[Tier, ...]


def read_textgrid(path: str | Path, encoding: str | None = None) -> TextGrid:
    """Read a TextGrid: binary, or in the long or short text format.

    As text it is UTF-8 or UTF-16, with or without a byte order mark.

    Any other is in `encoding`, as in `decode_text`.

    Raises:
        InputError: there is no such file, its encoding is wrong, or it is not a TextGrid; with the
            line where reading stopped.
    """
    try:
        raw = read_input(path, factor=_TEXT_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    return parse_textgrid(raw, path, encoding)


def parse_textgrid(data: bytes, name: str | Path, encoding: str | None = None) -> TextGrid:
    """Return the tiers in the bytes of a TextGrid; `name` is what messages call it.

    Raises what `read_textgrid` raises.
    """
    if data.startswith(_BINARY):
        return _BinaryParser(data, name).grid()
    return _Parser(decoded_textgrid(data, name, encoding), str(name)).textgrid()


def textgrid_tiers(data: bytes, name: str) -> tuple[Tier, ...]:
    """Return the interval tiers in the bytes of a TextGrid. Raises as `read_textgrid`."""
    return parse_textgrid(data, name).tiers


def decoded_textgrid(raw: bytes, path: str | Path, encoding: str | None = None) -> str:
    """Return the text of a TextGrid, without its byte order mark. Raises as `read_textgrid`."""
    if raw.startswith(_BINARY):
        raise InputError(f"{path}: a binary TextGrid; save it in Praat with 'Save as text file'")
    codec = _encoding(raw)
    return decode_text(raw, str(path), codec if codec.startswith("utf-16") else encoding)


def _encoding(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if raw[:40].count(b"\0") > 8:
        if raw[:1] == b"\0":
            return "utf-16-be"
        return "utf-16-le"
    return "utf-8-sig"


def is_textgrid(data: bytes) -> bool:
    """Return whether a file that begins with `data` is a TextGrid, or another object of Praat's.

    As text or binary.

    >>> is_textgrid(b'File type = "ooTextFile"'), is_textgrid(b'"ooTextFile"'), is_textgrid(b"Hello")
    (True, True, False)
    """
    head = data[:_HEAD_BYTES]
    if head.startswith(_BINARY):
        return True
    return _HEAD.match(head.decode(_encoding(head), "replace")) is not None


def textgrid_transcript(data: bytes, source: str, encoding: str | None = None) -> Transcript:
    """Return the text of the sentence tiers in a TextGrid, with the whole document.

    Each interval is a cue.

    Raises:
        TranscriptError: it cannot be read, with the line, or no interval has letters.
    """
    try:
        document = decoded_textgrid(data, source, encoding)
        grid = _Parser(document, source).textgrid()
    except InputError as error:
        raise TranscriptError(str(error)) from error
    tiers = [
        replace(
            tier,
            intervals=tuple(row for row in tier.intervals if not is_silence(row.label)),
            speaker=speaker_of(tier.name),
        )
        for tier in grid.tiers
    ]
    return tiers_transcript(tiers, source, TEXTGRID, document)


def textgrid_layout(
    document: str, name: str = "TextGrid"
) -> tuple[list[re.Match[str]], tuple[str, ...], bool]:
    """Return the parts of a TextGrid that change when it gets more tiers.

    Raises InputError if it cannot be read.

    They are the grid's start, its end and the number of tiers, as matches in the text; the names of
    all tiers; and whether it is in the long format.
    """
    parser = _Parser(document, name)
    parser.textgrid()
    if len(parser.numbers) < 3:
        raise InputError(f"{name}: expected a TextGrid with tiers, got none")
    at = parser.numbers[2].end()
    is_long = "item" in document[at : document.find('"', at)]
    return parser.numbers, tuple(parser.names), is_long


class _Parser:
    """A parser that takes the values of a TextGrid, in a text format, one by one."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.position = 0
        self.numbers: list[re.Match[str]] = []  # the first ones: start, end, number of tiers
        self.names: list[str] = []
        self.values = (match for match in _VALUE.finditer(text) if match.lastgroup != "comment")

    def textgrid(self) -> TextGrid:
        kind = self.string('File type = "ooTextFile"')
        if not kind.startswith("ooTextFile"):
            raise self.fault(f'expected the file type "ooTextFile", got "{_cut(kind)}"')
        return self.grid()

    def grid(self) -> TextGrid:
        kind = self.class_name('Object class = "TextGrid"')
        if kind.split(" ")[0] != "TextGrid":
            raise self.fault(f'expected the object class "TextGrid", got "{_cut(kind)}"')
        start_s, end_s = self.time(), self.time()
        count = 0
        if self.has_tiers():
            count = self.count("number of tiers")
        tiers = [self.tier(number) for number in range(1, count + 1)]
        return TextGrid(start_s, end_s, tuple(tier for tier in tiers if tier is not None))

    def tier(self, number: int) -> Tier | None:
        kind = self.class_name('a tier class, "IntervalTier" or "TextTier"')
        name = self.string("the tier's name")
        self.names.append(name)
        self.time(), self.time()
        count = self.count(f'number of intervals of tier "{_cut(name)}"')
        if kind.split(" ")[0] == "TextTier":
            for _ in range(count):
                self.time(), self.string("a point's label")
            return None
        if kind.split(" ")[0] != "IntervalTier":
            raise self.fault(f'expected "IntervalTier" or "TextTier", got "{_cut(kind)}"')
        return Tier(name, tuple(self.interval() for _ in range(count)), number)

    def interval(self) -> Interval:
        start_s, end_s = self.time(), self.time()
        if end_s < start_s:
            raise self.fault(f"an interval ends at {end_s} s, before its start at {start_s} s")
        return Interval(start_s, end_s, self.string("an interval's label"))

    def time(self) -> float:
        try:
            return as_seconds(self.number())
        except ValueError as error:
            raise self.fault(f"expected a time in seconds, got {error}") from None

    def class_name(self, what: str) -> str:
        return self.string(what)

    def string(self, what: str) -> str:
        return self.take("string", what).replace('""', '"')

    def has_tiers(self) -> bool:
        return self.take("flag", "<exists> or <absent>") == "exists"

    def number(self) -> Any:
        return self.take("number", "a time in seconds")

    def count(self, what: str) -> int:
        value = self.take("number", f"the {what}")
        try:
            return as_whole(float(value))
        except (ValueError, OverflowError):
            raise self.fault(f"expected the {what}, got {_cut(value)}") from None

    def take(self, kind: str, what: str) -> str:
        match = next(self.values, None)
        if match is None:
            raise self.fault(f"expected {what}, got the end of the file")
        self.position = match.start()
        if match.lastgroup != kind:
            raise self.fault(f"expected {what}, got {_cut(match.group())}")
        if kind == "number" and len(self.numbers) < 3:
            self.numbers.append(match)
        return match.group(kind)

    def fault(self, message: str) -> InputError:
        line = self.text.count("\n", 0, self.position) + 1
        return InputError(f"{self.path}:{line}: not a TextGrid that can be read: {message}")


class _BinaryParser(_Parser):
    """The parser of Praat's binary format: big-endian numbers, and texts after their lengths."""

    def __init__(self, data: bytes, name: str | Path) -> None:
        super().__init__("", str(name))
        self.data = data
        self.at = len(_BINARY)

    def class_name(self, what: str) -> str:
        return self.bytes(self.unpacked(">B")).decode("ascii", "replace")

    def string(self, what: str) -> str:
        size = self.unpacked(">H")
        if size != _WIDE:
            return self.bytes(size).decode("latin-1")
        start = self.at + 2
        count = self.unpacked(">H")
        for _ in range(count):
            if (
                0xD800 <= self.unpacked(">H") < 0xDC00
            ):  # the first half of a surrogate pair, which counts as one
                self.unpacked(">H")
        return self.data[start : self.at].decode("utf-16-be", "replace")

    def has_tiers(self) -> bool:
        return self.unpacked(">B") != 0

    def number(self) -> Any:
        return self.unpacked(">d")

    def count(self, what: str) -> int:
        return self.unpacked(">i")

    def unpacked(self, format: str) -> Any:
        return struct.unpack(format, self.bytes(struct.calcsize(format)))[0]

    def bytes(self, size: int) -> bytes:
        self.at += size
        if size < 0 or self.at > len(self.data):
            raise self.fault("it ends too early")
        return self.data[self.at - size : self.at]

    def fault(self, message: str) -> InputError:
        return InputError(
            f"{self.path}: not a binary TextGrid that can be read, at byte {self.at}: {message}"
        )


def _cut(text: str) -> str:
    """Return a text of the file for a message: on one line, and not long."""
    return " ".join(text[:60].split())


class TextGridWriter(Writer):
    """Interval tiers that cover the recording without gaps; silence is "".

    They are `words` and `tokens` (or `phones`).

    The style's `tiers` may name others: `sentences`, and `speakers` (who speaks when). If the
    transcript names several speakers, each has tiers, named as in MFA: `SPEAKER - words` and
    `SPEAKER - tokens`; words before the first name are `unnamed`. A transcript that is a TextGrid
    is written unchanged, in the same text format, followed by `TIER - words` and `TIER - tokens`
    for each tier of its text.

    In a label or a tier's name, white space becomes a space, and a control character U+FFFD; a
    quotation mark is doubled.

    Even with times "recording" the tiers begin at 0, so that they match the recording in Praat.
    """

    def write(self, alignment: Alignment, file: TextIO) -> None:
        style = self.style(alignment)
        if is_document(alignment.subtitles, TEXTGRID):
            tiers = _named(tiers_by_source(alignment, replace(style, times=RECORDING), UNITS_PER_S))
            _write_with_document(file, alignment.subtitles.document, tiers)
            return
        tiers = _named(tiers_by_speaker(alignment, style, UNITS_PER_S))
        end = max(
            [end_units(alignment, style), 1, *(row.end for _, rows in tiers for row in rows[-1:])]
        )
        write_tiers(file, tiers, end, is_short=style.textgrid == SHORT)


def _named(tiers: Sequence[SpokenTier]) -> list[tuple[str, list[TimedLabel]]]:
    return [(tier.name, tier.rows) for tier in tiers]


def write_tiers(
    file: TextIO,
    tiers: Sequence[tuple[str, Sequence[TimedLabel]]],
    end: int,
    *,
    is_short: bool = False,
) -> None:
    """Write a TextGrid of interval tiers (name, rows in order).

    It goes from 0 to `end` units of 10 µs; "" fills the gaps.

    `is_short`: in Praat's short text format, which has the same numbers and texts without their
    names.
    """
    bounds = _Bounds(0, end, "0", _seconds(end))
    file.write('File type = "ooTextFile"\nObject class = "TextGrid"\n\n')
    if is_short:
        file.write(f"0\n{_seconds(end)}\n<exists>\n{len(tiers)}\n")
    else:
        file.write(
            f"xmin = 0\nxmax = {_seconds(end)}\ntiers? <exists>\nsize = {len(tiers)}\nitem []:\n"
        )
    for number, (name, rows) in enumerate(tiers, 1):
        _write_tier(file, _SHORT_TIER if is_short else _LONG_TIER, number, name, rows, bounds)


def _write_with_document(
    file: TextIO, document: str, tiers: Sequence[tuple[str, list[TimedLabel]]]
) -> None:
    """Write a TextGrid unchanged, with further tiers at the end; it ends later if words do."""
    (start_match, end_match, count_match), old_names, is_long = textgrid_layout(document)
    start, end = (round(float(match.group()) * UNITS_PER_S) for match in (start_match, end_match))
    last = max([row.end for _, rows in tiers for row in rows[-1:]], default=end)
    bounds = _Bounds(start, end, start_match.group(), end_match.group())
    if last > end + _MS_OVER:
        bounds = _Bounds(start, last, start_match.group(), _seconds(last))
    text = "".join(
        (
            document[: end_match.start()],
            bounds.end_text,
            document[end_match.end() : count_match.start()],
            str(len(old_names) + len(tiers)),
            document[count_match.end() :],
        )
    )
    added = io.StringIO()
    names = unused_names((" ".join(name.split()) for name, _ in tiers), old_names)
    for number, (name, (_, rows)) in enumerate(zip(names, tiers), len(old_names) + 1):
        _write_tier(added, _LONG_TIER if is_long else _SHORT_TIER, number, name, rows, bounds)
    line_end = line_end_of(document)
    file.write(text if text.endswith("\n") else text + line_end)
    file.write(added.getvalue().replace("\n", line_end))


@dataclass(frozen=True)
class _Bounds:
    """The start and end of tiers, in units and as they are written."""

    start: int
    end: int
    start_text: str
    end_text: str

    def covering(self, rows: Sequence[TimedLabel]) -> Iterator[tuple[str, str, str]]:
        """Yield the rows with silence before, between and after them, without gaps.

        Each is (start, end, label).
        """
        at = self.start
        at_text = self.start_text
        for row in rows:
            start, end = max(row.start, at), min(row.end, self.end)
            if start >= end:
                continue
            if start > at:
                yield at_text, _seconds(start), ""
                at_text = _seconds(start)
            end_text = self.end_text
            if end != self.end:
                end_text = _seconds(end)
            yield at_text, end_text, _escaped(row.label)
            at = end
            at_text = end_text
        if at < self.end:
            yield at_text, self.end_text, ""


def _write_tier(
    file: TextIO,
    form: tuple[str, str],
    number: int,
    name: str,
    rows: Sequence[TimedLabel],
    bounds: _Bounds,
) -> None:
    """Write the head of a tier and its intervals in a text format.

    `_LONG_TIER` or `_SHORT_TIER`.
    """
    head, interval = form
    edges = {"xmin": bounds.start_text, "xmax": bounds.end_text}
    count = sum(1 for _ in bounds.covering(rows))
    file.write(head.format(number=number, name=_escaped(name), count=count, **edges))
    for index, (start, end, label) in enumerate(bounds.covering(rows), 1):
        file.write(interval.format(number=index, xmin=start, xmax=end, label=label))


def _escaped(label: str) -> str:
    return without_controls(" ".join(label.split())).replace('"', '""')


def _seconds(units: int) -> str:
    """Return seconds as exact decimals without trailing zeros, as Praat writes them.

    >>> _seconds(102000), _seconds(0)
    ('1.02', '0')
    """
    return f"{units / UNITS_PER_S:.5f}".rstrip("0").rstrip(".")
