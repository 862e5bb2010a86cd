"""The lines of a text file, one at a time: UTF-8, plain or gzipped, whatever the file's size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, NamedTuple

from ctc_align.corpus.sources.source import printable
from ctc_align.errors import UsageError
from ctc_align.reading import open_input

MAX_LINE_BYTES = 16 * 2**20
_MOST_SKIPPED = 2**30
_MOST_BLANK = 2**22
"""A line, or blank lines one after the other, beyond these are no text: a small gzip file may hold any number."""
BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class TextLine(NamedTuple):
    """A line that is not blank: `number` from 1, `text` without its end, or a `fault` where it cannot be read."""

    number: int
    text: str
    fault: str = ""


def read_lines(path: str) -> Iterator[TextLine]:
    """Yield the file's lines in order, without blank ones; a byte order mark is removed.

    A line that is not UTF-8, or longer than MAX_LINE_BYTES, has a `fault` and the next one follows; a file that cannot
    be read further (damaged gzip, a failing disk) ends with a line that says so.

    Raises:
        UsageError: the file cannot be opened.
    """
    opened = ExitStack()
    try:
        file = opened.enter_context(_opened(path))
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror or error}") from None
    number = blank = 0
    with opened:
        while True:
            number += 1
            try:
                data = file.readline(MAX_LINE_BYTES)
                is_long = len(data) == MAX_LINE_BYTES and not data.endswith(b"\n")
                unending = is_long and not _skip_line(file)
            except (OSError, EOFError, zlib.error) as error:
                reason = getattr(error, "strerror", None) or error
                yield TextLine(number, "", f"the file cannot be read from here on, it is cut or damaged: {reason}")
                return
            if not data:
                return
            blank = blank + 1 if not data.strip() else 0
            if blank > _MOST_BLANK or unending:
                yield TextLine(number, "", "the file cannot be read from here on: expected text, got endless blanks")
                return
            if is_long:
                yield TextLine(number, "", f"expected a line of text, got one of more than {MAX_LINE_BYTES >> 20} MiB")
            elif data.strip() not in (b"", BOM):
                yield decoded(number, data)


def read_head(path: str, lines: int, most_bytes: int = 2 * MAX_LINE_BYTES) -> list[TextLine]:
    """Return the first lines that are not blank, to detect what a file is."""
    found: list[TextLine] = []
    size = 0
    for line in read_lines(path):
        found.append(line)
        size += len(line.text)
        if len(found) >= lines or size > most_bytes:
            break
    return found


def is_gzip(path: str) -> bool:
    """Return whether a file begins as gzip does."""
    with open_input(path) as file:
        return file.read(2) == _GZIP


def is_utf16(path: str) -> bool:
    """Return whether a file begins with the byte order mark of UTF-16."""
    with open_input(path) as file:
        return file.read(2) in _UTF16


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO | gzip.GzipFile]:
    with open_input(path) as file:
        is_packed = file.read(2) == _GZIP
        file.seek(0)
        if not is_packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield unpacked


def decoded(number: int, data: bytes) -> TextLine:
    """Return line `number` of a file, its end and the byte order mark of the first one removed."""
    if number == 1:
        data = data.removeprefix(BOM)
    try:
        return TextLine(number, data.rstrip(b"\r\n").decode("utf-8"))
    except UnicodeDecodeError as error:
        hint = "perhaps it is Latin-1 or Windows-1252: save the file as UTF-8"
        return TextLine(number, "", f"expected UTF-8, got byte 0x{data[error.start]:02x}; {hint}")


def _skip_line(file: BinaryIO | gzip.GzipFile) -> bool:
    """Read on to the end of a line; return False where it does not end for a gigabyte."""
    for _ in range(_MOST_SKIPPED // MAX_LINE_BYTES):
        data = file.readline(MAX_LINE_BYTES)
        if not data or data.endswith(b"\n"):
            return True
    return False
