"""Praat's TextGrids, read: the long and the short text format."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field
from pathlib import Path

from ctc_align.errors import InputError
from ctc_align.reading.input_files import as_seconds, as_whole, read_input

# Praat's own rule: a value is a quoted string, a flag or a number that stands free; all other text is decoration.
_VALUE = re.compile(
    r"""(?<!\S)(?: "(?P<string>(?:[^"]|"")*)"
                 | <(?P<flag>[a-z]+)>
                 | (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
                 | (?P<comment>![^\n]*) )(?!\S)""",
    re.VERBOSE,
)


_TEXT_BYTES = 8
"""Bytes of memory for each byte of a TextGrid, roughly."""


@dataclass(frozen=True)
class Interval:
    """A labelled stretch of time in seconds, `end_s` exclusive."""

    start_s: float
    end_s: float
    label: str


@dataclass(frozen=True)
class Tier:
    """A named row of intervals in order of time."""

    name: str
    intervals: tuple[Interval, ...]
    number: int = field(default=0, compare=False)
    """Number in the file as Praat counts, from 1, point tiers included; 0 outside a file."""


@dataclass(frozen=True)
class TextGrid:
    """The interval tiers of a file (point tiers are left out)."""

    start_s: float
    end_s: float
    tiers: tuple[Tier, ...]


def read_textgrid(path: str | Path) -> TextGrid:
    """Read a TextGrid in long or short text format, UTF-8 or UTF-16, with or without a byte order mark.

    Raises:
        InputError: no such file, another encoding, or not a TextGrid; with the line where reading stopped.
    """
    try:
        raw = read_input(path, factor=_TEXT_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    return parse_textgrid(raw, path)


def parse_textgrid(data: bytes, name: str | Path) -> TextGrid:
    """Return the tiers in the bytes of a TextGrid; `name` is what messages call it. Raises as `read_textgrid`."""
    return _Parser(decoded_textgrid(data, name), str(name)).textgrid()


def decoded_textgrid(raw: bytes, path: str | Path) -> str:
    """Return the text of a TextGrid, without its byte order mark. Raises as `read_textgrid`."""
    if raw.startswith(b"ooBinaryFile"):
        raise InputError(f"{path}: a binary TextGrid; save it in Praat with 'Save as text file'")
    encoding = "utf-8-sig"
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif raw[:40].count(b"\0") > 8:
        encoding = "utf-16-be" if raw[:1] == b"\0" else "utf-16-le"
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 or UTF-16, got {error.reason} at byte {error.start}") from error


class _Parser:
    """A parser that takes the values of a TextGrid one by one."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self.position = 0
        self.values = (match for match in _VALUE.finditer(text) if match.lastgroup != "comment")

    def textgrid(self) -> TextGrid:
        kind = self.take("string", 'File type = "ooTextFile"')
        if not kind.startswith("ooTextFile"):
            raise self.fault(f'expected the file type "ooTextFile", got "{_cut(kind)}"')
        name = self.take("string", 'Object class = "TextGrid"')
        if name.split(" ")[0] != "TextGrid":
            raise self.fault(f'expected the object class "TextGrid", got "{_cut(name)}"')
        start_s, end_s = self.time(), self.time()
        has_tiers = self.take("flag", "<exists> or <absent>") == "exists"
        count = self.count("number of tiers") if has_tiers else 0
        tiers = [self.tier(i + 1) for i in range(count)]
        return TextGrid(start_s, end_s, tuple(tier for tier in tiers if tier is not None))

    def tier(self, number: int) -> Tier | None:
        kind = self.take("string", 'a tier class, "IntervalTier" or "TextTier"')
        name = self.take("string", "the tier's name")
        self.time(), self.time()
        count = self.count(f'number of intervals of tier "{_cut(name)}"')
        if kind == "TextTier":
            for _ in range(count):
                self.time(), self.take("string", "a point's label")
            return None
        if kind != "IntervalTier":
            raise self.fault(f'expected "IntervalTier" or "TextTier", got "{_cut(kind)}"')
        return Tier(name, tuple(self.interval() for _ in range(count)), number)

    def interval(self) -> Interval:
        start_s, end_s = self.time(), self.time()
        if end_s < start_s:
            raise self.fault(f"an interval ends at {end_s} s, before its start at {start_s} s")
        return Interval(start_s, end_s, self.take("string", "an interval's label"))

    def time(self) -> float:
        value = self.take("number", "a time in seconds")
        try:
            return as_seconds(value)
        except ValueError as error:
            raise self.fault(f"expected a time in seconds, got {error}") from None

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
        value = match.group(kind)
        return value.replace('""', '"') if kind == "string" else value

    def fault(self, message: str) -> InputError:
        line = self.text.count("\n", 0, self.position) + 1
        return InputError(f"{self.path}:{line}: not a TextGrid that can be read: {message}")


def _cut(text: str) -> str:
    """Return a text of the file for a message: on one line, and not long."""
    return " ".join(text[:60].split())
