"""The common part of all sources.

Location, items, checks of values and paths, and lines of text files.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

from ctc_align.errors import InputError, UsageError
from ctc_align.reading import MOST_S, as_seconds, is_url, open_input, shown
from ctc_align.sources.utterance import Refused, Utterance
from ctc_align.sources.utterance_ids import TakenError, UsedIds
from ctc_align.text.encodings import encoding_advice
from ctc_align.text.languages import known_languages

Item = Utterance | Refused
logger = logging.getLogger(__name__)
_MOST_ID = 10**30
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
MAX_LINE_BYTES = 16 * 2**20
_MOST_SKIPPED = 2**30
_MOST_BLANK = 2**22
"""A longer line, or more consecutive blank lines, are not text.

A small gzip file may hold any number of them.
"""
BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"


class FolderSource:
    """A source that is a folder, read with all its subfolders in order.

    Ids are paths relative to it.

    Args:
        exclude: folders (as paths) that do not belong to the corpus, such as the output folder.
        fold_case: as in `UsedIds`.
    """

    kind = ""
    encoding: str | None = None
    """As in `ctc_align.text.encodings.decode_text`."""

    def __init__(
        self, path: str, exclude: tuple[str, ...] = (), *, fold_case: bool = False
    ) -> None:
        self.name = path
        self.files: tuple[str, ...] = ()
        self.exclude = exclude
        self.fold_case = fold_case

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError


class FileSource:
    """A source that is one file.

    Relative paths in it start from its folder; `fold_case` as in `UsedIds`.
    """

    kind = ""
    encoding: str | None = None
    """As in `ctc_align.text.encodings.decode_text`."""

    @classmethod
    def is_kind_of(cls, path: str) -> bool:
        """Return whether the first lines of a file show that it is a corpus of this kind."""
        raise NotImplementedError

    def __init__(self, path: str, *, fold_case: bool = False) -> None:
        self.name = path
        self.files: tuple[str, ...] = (path,)
        self.folder = os.path.dirname(path)
        self.label = printable(os.path.basename(path))
        self.fold_case = fold_case

    def __iter__(self) -> Iterator[Item]:
        raise NotImplementedError

    def origin(self, line: int) -> str:
        return f"{self.label}, line {line}"


class ItemMaker:
    """Makes the items of a source: utterances with unique ids, and refused lines and files.

    `file`: the file of the lines, for the message about a duplicate; "" if there are none.
    """

    def __init__(self, *, fold_case: bool, file: str = "") -> None:
        self.ids = UsedIds(fold_case=fold_case)
        self.file = file

    def utterance(
        self, id: str | None, stem: str, line: int, origin: str, fields: dict[str, Any]
    ) -> Item:
        """Return the utterance under its `id`, or under one made of `stem`.

        `fields` are the rest of `Utterance`.
        """
        if id is None:
            id, output = self.ids.make(stem, line)
            return Utterance(id, output, origin=origin, **fields)
        try:
            return Utterance(id, self.ids.claim(id, line), origin=origin, **fields)
        except TakenError as error:
            first = f"{self.file}, line {error.line}" if self.file else "something earlier"
            has_it = "was named so after its audio" if error.made else "has it already"
            return self.refused(
                id,
                line,
                origin,
                f"duplicate id {id!r}: {first} {has_it}; each needs an id of its own",
            )

    def refused(
        self, id: str | None, line: int, origin: str, reason: str, stem: str = ""
    ) -> Refused:
        """Return a refusal under `id`, or under an id made from `stem` or from its origin.

        The latter is used if `id` is taken.
        """
        if id is not None:
            try:
                self.ids.claim(id, line)
                return Refused(id, origin, reason)
            except TakenError:
                stem = f"{id} ({origin})"
        return Refused(self.ids.make(stem or origin, line)[0], origin, reason)

    def refused_file(self, below: str, stem: str, name: str, reason: str) -> Refused:
        """Return a refusal of the file `name` in the folder `below` ("" or "a/b/").

        Its id ends in `stem`.
        """
        id = printable(below + stem).rstrip("/") or "."
        return self.refused(id, 0, printable(below + name), printable(reason))


def printable(text: str) -> str:
    """Return `text` with escapes for bytes of a file name that are not UTF-8.

    >>> printable("a\\udcff")
    'a\\\\xff'
    """
    return (
        text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if has_bytes(text)
        else text
    )


def has_bytes(text: str) -> bool:
    """Return whether `text` holds bytes that are not UTF-8, as surrogates.

    Such text cannot be written.
    """
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def checked_text(value: Any, what: str) -> str:
    """Return a transcript, a string that is not blank; otherwise raise InputError."""
    text = checked_string(value, what)
    if not text.strip():
        raise InputError(f"{what}: the transcript is empty; expected at least one word")
    return text


def checked_string(value: Any, what: str) -> str:
    """Return a string of Unicode text; otherwise raise InputError."""
    if not isinstance(value, str):
        raise InputError(f"{what}: expected a string, got {kind_of(value)}")
    if has_bytes(value):
        raise InputError(
            f"{what}: expected Unicode text, got half a surrogate pair in {shown(value)}"
        )
    return value


def known_code(value: Any) -> str:
    """Return the code of the language that a source names.

    Return "" if it names none, or an unknown one (with a warning).

    >>> known_code("Dutch"), known_code("fy-NL"), known_code(None)
    ('nl', 'fy-NL', '')
    """
    return _known_code(value.strip()) if isinstance(value, str) and value.strip() else ""


@lru_cache(maxsize=1024)
def _known_code(name: str) -> str:
    try:
        return known_languages(name, "language")
    except UsageError as error:
        logger.warning(
            "%s; its transcripts are read as if no language were given", printable(str(error))
        )
        return ""


def checked_seconds(value: Any, what: str, *, above_zero: bool = False) -> float:
    """Return a finite, non-negative number of seconds; otherwise raise InputError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        got = shown(value) if isinstance(value, str) else kind_of(value)
        raise InputError(f"{what}: expected a number of seconds, got {got}")
    try:
        seconds = as_seconds(value)
    except ValueError:
        seconds = -1.0
    least = "more than 0" if above_zero else "0 or more"
    most = f", at most {MOST_S:g}" if value > MOST_S else ""
    if seconds < 0 or (above_zero and seconds == 0):
        raise InputError(f"{what}: expected {least} seconds{most}, got {shown(value)}")
    return seconds


def checked_duration(start_s: float, end_s: float) -> float:
    """Return the seconds from start to end; otherwise raise InputError."""
    if end_s <= start_s:
        raise InputError(f"the end: expected a time after the start at {start_s} s, got {end_s} s")
    return round(end_s - start_s, 9)


def checked_id(value: Any, what: str) -> str | None:
    """Return an id, None if there is none.

    Whole numbers are ids, too, because programs write such tables.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) > _MOST_ID:
            raise InputError(f"{what}: expected an id, got {shown(value)}")
        return str(value)
    if not checked_string(value, what).strip():
        raise InputError(f"{what}: expected an id, got an empty one")
    return str(value)


def parsed_number(text: str) -> float | str:
    """Return the number that `text` spells, or `text` if it is not a number."""
    return float(text) if _NUMBER.fullmatch(text) else text


def checked_channel(value: Any, what: str) -> int:
    """Return a channel, from 1; otherwise raise InputError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1024:
        raise InputError(
            f"{what}: expected a channel, counted from 1 (1 is the left one, 2 the right one), got"
            f" {shown(value)}"
        )
    return value


def checked_audio(value: Any, what: str) -> str:
    """Return the path of a sound file as it is written; otherwise raise InputError."""
    path = checked_string(value, what)
    if not path.strip():
        raise InputError(f"{what}: expected the path of an audio file, got an empty one")
    if "\0" in path:
        raise InputError(
            f"{what}: expected the path of an audio file, got a NUL character in {shown(path)}"
        )
    if is_url(path):
        raise InputError(
            f"{what}: expected the path of an audio file, got the URL {shown(path)}: nothing is"
            " fetched"
        )
    return path


def resolved(folder: str, path: str) -> str:
    """Return `path` relative to `folder`.

    As Kaldi and Lhotse do, a path that exists only in the current folder is relative to that.
    """
    joined = os.path.join(folder, path)
    return (
        path if joined != path and os.path.exists(path) and not os.path.exists(joined) else joined
    )


def stem_of(path: str) -> str:
    """Return the file's name without its extension: the id of an utterance that has no other."""
    name = os.path.basename(path.rstrip("/")) or path
    return os.path.splitext(name)[0]


def kind_of(value: Any) -> str:
    """Return the kind of a JSON value in words.

    >>> kind_of([1]), kind_of(None)
    ('a list', 'null')
    """
    if value is None:
        return "null"
    words = {
        bool: "true or false",
        str: "a string",
        list: "a list",
        dict: "an object",
        int: "a number",
    }
    return words.get(type(value), "a number" if isinstance(value, float) else type(value).__name__)


def require_folder(path: str, what: str) -> None:
    """Raise UsageError unless `path` is a folder that can be read."""
    if not os.path.exists(path):
        raise UsageError(f"{printable(path)}: no such folder; expected {what}")
    if not os.path.isdir(path):
        raise UsageError(f"{printable(path)}: expected {what}, got a file")
    try:
        os.listdir(path)
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror or error}") from None


def require_file(path: str, what: str) -> None:
    """Raise UsageError unless `path` is a regular file that can be read.

    It is read more than once.
    """
    if os.path.isdir(path):
        raise UsageError(f"{printable(path)}: expected {what}, got a folder")
    if not os.path.exists(path):
        raise UsageError(f"{printable(path)}: no such file; expected {what}")
    if not os.path.isfile(path):
        raise UsageError(
            f"{printable(path)}: expected {what}, got a pipe or a device: save it to a file first"
        )
    try:
        open_input(path).close()
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot be read: {error.strerror or error}") from None


_UTF16 = (b"\xff\xfe", b"\xfe\xff")


class TextLine(NamedTuple):
    """A line that is not blank.

    `number` counts from 1; `text` is without its end; `fault` says why it cannot be read.
    """

    number: int
    text: str
    fault: str = ""


def read_lines(path: str, encoding: str | None = None) -> Iterator[TextLine]:
    """Yield the file's lines in order, without blank ones; a byte order mark is removed.

    A line that is not UTF-8, or longer than MAX_LINE_BYTES, has a `fault` and the next one follows;
    a file that cannot be read further (damaged gzip, a failing disk) ends with a line that says so.

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
                yield TextLine(
                    number,
                    "",
                    f"the file cannot be read from here on, it is truncated or damaged: {reason}",
                )
                return
            if not data:
                return
            blank = blank + 1 if not data.strip() else 0
            if blank > _MOST_BLANK or unending:
                yield TextLine(
                    number,
                    "",
                    "the file cannot be read from here on: expected text, got endless blanks",
                )
                return
            if is_long:
                yield TextLine(
                    number,
                    "",
                    f"expected a line of text, got one of more than {MAX_LINE_BYTES >> 20} MiB",
                )
            elif data.strip() not in (b"", BOM):
                yield decoded(number, data, encoding)


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
    """Return whether a file begins with the gzip magic number."""
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


def decoded(number: int, data: bytes, encoding: str | None = None) -> TextLine:
    """Return line `number` of a file, its end and the byte order mark of the first one removed.

    `encoding` as in `ctc_align.text.encodings.decode_text`, except UTF-16 and UTF-32.
    """
    if number == 1:
        data = data.removeprefix(BOM)
    line = data.rstrip(b"\r\n")
    try:
        return TextLine(number, line.decode("utf-8"))
    except UnicodeDecodeError as error:
        with suppress(UnicodeDecodeError):
            if encoding:
                return TextLine(number, line.decode(encoding))
        advice = encoding_advice(line, has_option=encoding is not None)
        return TextLine(number, "", f"expected UTF-8, got byte 0x{data[error.start]:02x}; {advice}")


def _skip_line(file: BinaryIO | gzip.GzipFile) -> bool:
    """Read on to the end of a line; return False if it does not end for a gigabyte."""
    for _ in range(_MOST_SKIPPED // MAX_LINE_BYTES):
        data = file.readline(MAX_LINE_BYTES)
        if not data or data.endswith(b"\n"):
            return True
    return False
