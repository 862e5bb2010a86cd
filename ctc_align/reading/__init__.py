"""Read regular files that fit into memory, and untrusted JSON, TOML and numbers.

open_input, read_input      a file for reading; OSError with an explanation if it is not a regular file, or too large
content_hash                a hash of all bytes of a file
parse_json, parse_toml      the value of a text; a fault is a ValueError of one line
as_seconds, as_whole        a number in a sensible range; otherwise a ValueError that names the value
shown                       any value, formatted for a message

Readers convert these errors into errors that name the file. Nothing here blocks on a pipe, and no
content of a file raises another error: not 1e999, not an integer of 5,000 digits, not deeply nested
lists.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
import sys
from typing import Any, BinaryIO

from ctc_align.errors import one_line
from ctc_align.machine.memory import free_memory

JsonObject = dict[str, Any]
"""A JSON object, as Python's parser returns it."""
STANDARD_INPUT = "standard input"
"""The name of standard input in messages."""
MOST_S = 1e9
"""No recording is longer: 32 years."""
MOST_NUMBER = 2**53
"""Whole numbers up to this are exact in JSON's readers everywhere."""

_UNCHECKED_BYTES = 2**26
"""Smaller files are not compared with the free memory, because this takes longer than reading
them."""
_PIPES = re.compile(r"/dev/stdin|/dev/fd/[0-9]{1,9}|/proc/self/fd/[0-9]{1,9}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SHOWN = 60
_DEEPEST = 200
_BLOCK = 2**20


def is_url(path: str) -> bool:
    """Return whether a path is a URL.

    >>> is_url("s3://bucket/talk.wav"), is_url("C:/talk.wav")
    (True, False)
    """
    return _URL.match(path) is not None


def open_input(path: str | os.PathLike[str], *, pipes: bool = False) -> BinaryIO:
    """Open a regular file for reading bytes, without blocking.

    A named pipe, socket, device or folder is an error.

    Args:
        path: of the file.
        pipes: whether an open pipe is read, too, as a shell's `<(…)` passes it (/dev/fd/63).

    Raises:
        OSError: it does not exist, cannot be opened, or is not a regular file; `strerror` says
            which in words.
    """
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
        if pipes and stat.S_ISFIFO(mode) and _PIPES.fullmatch(name):
            return open(name, "rb")
        _require_regular(mode, name)
        # it may have become a pipe since
        file = os.open(
            name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except ValueError:
        raise OSError(
            errno.EINVAL, "its name holds a NUL character or half a surrogate pair", name
        ) from None
    try:
        _require_regular(os.fstat(file).st_mode, name)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_input(path: str | os.PathLike[str], *, pipes: bool = False, factor: int = 1) -> bytes:
    """Return the bytes of a regular file (or of a pipe, see `open_input`).

    Args:
        factor: bytes of memory that each byte of the file takes.

    Raises:
        OSError: as `open_input`; or it does not fit into the free memory.
    """
    with open_input(path, pipes=pipes) as file:
        require_memory(os.fstat(file.fileno()).st_size * factor, os.fspath(path))
        return file.read()


def content_hash(path: str | os.PathLike[str], size: int) -> str:
    """Return the BLAKE2b hash of a regular file's bytes, of `size` bytes, in hexadecimal digits.

    Raises:
        OSError: as `open_input`.
    """
    hasher = hashlib.blake2b(digest_size=size)
    with open_input(path) as file:
        while block := file.read(_BLOCK):
            hasher.update(block)
    return hasher.hexdigest()


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless `path` is a regular file; for readers that open it themselves."""
    open_input(path).close()


def _require_regular(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a regular file, got a folder", name)
    if stat.S_ISFIFO(mode):
        kind = "a pipe"
    elif stat.S_ISSOCK(mode):
        kind = "a socket"
    else:
        kind = "a device"
    raise OSError(
        errno.EINVAL, f"expected a regular file, got {kind}; save its content to a file first", name
    )


def require_memory(needed: int, name: str = "") -> None:
    """Raise OSError if `needed` bytes are more than can be allocated.

    >>> require_memory(2**80)
    Traceback (most recent call last):
    ...
    OSError: [Errno 12] needs 1208925819614629 GB of memory, ... GB are free
    """
    if needed < _UNCHECKED_BYTES:
        return
    free, _ = free_memory()
    if free is not None and needed > free:
        reason = f"needs {_gigabytes(needed)} GB of memory, {_gigabytes(free)} GB are free"
        raise OSError(errno.ENOMEM, reason, name) if name else OSError(errno.ENOMEM, reason)


def _gigabytes(count: int) -> str:
    if count < 10**11:
        return f"{count / 1e9:.1f}"
    return str(count // 10**9)


def parse_json(text: str | bytes, **decoding: Any) -> Any:
    """Return the value of a JSON text; `decoding` is passed to `json.loads`.

    Raises:
        ValueError: anything is wrong, in one line (a JSONDecodeError if the text is not JSON at
            all).

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: lists or objects nested more than 200 deep
    """
    try:
        if len(text) > _UNCHECKED_BYTES // 128:
            require_memory(parsed_memory(text))
        value = json.loads(text, **decoding)
    except json.JSONDecodeError:
        raise
    except OSError as error:
        raise ValueError(f"JSON that {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _plain(error) from None
    check_depth(value)
    return value


def parsed_memory(data: str | bytes) -> int:
    """Return about how many bytes JSON, XML or lines take once they are parsed.

    The estimate may be too low by half.

    >>> parsed_memory(b"[" + b"{}, " * 1000 + b"{}]") > 64 * 1000
    True
    """
    # CPython: a list from 56 bytes, an object 64 or from 184, a text from 49, a number 24. Lines:
    # TextGrid, SRT, JSONL.
    sizes = {"{": 128, "[": 64, "\n": 128, "<": 128, ",": 32, ":": 16, '"': 16}
    if isinstance(data, str):
        return len(data) + sum(size * data.count(mark) for mark, size in sizes.items())
    return len(data) + sum(size * data.count(mark.encode()) for mark, size in sizes.items())


_LONG_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{_DEEPEST}}}"""
)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ValueError: anything is wrong, in one line (tomllib's TOMLDecodeError is one).
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        if _LONG_KEY.search(text):  # tomllib needs n² steps and bytes for a key of n parts
            raise RecursionError
        tables = tomllib.loads(text)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise _plain(error) from None
    check_depth(tables)
    return tables


def _plain(error: Exception) -> ValueError:
    if isinstance(error, RecursionError):
        return ValueError(f"lists or objects nested more than {_DEEPEST} deep")
    if "integer string conversion" in str(error):
        return ValueError("a whole number of several thousand digits")
    if isinstance(error, UnicodeDecodeError):
        return ValueError(
            f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}"
        )
    return ValueError(one_line(error))


def check_depth(value: Any) -> None:
    """Raise ValueError if a value is nested so deep that showing or copying it might fail."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_DEEPEST):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [
            inner for part in parts for inner in part if isinstance(inner, (dict, list)) and inner
        ]
        if not level:
            return
    raise ValueError(f"lists or objects nested more than {_DEEPEST} deep")


def as_seconds(value: object) -> float:
    """Return a number, or the text of one, as seconds: finite, from `-MOST_S` to `MOST_S`.

    Raises:
        ValueError: anything else; the message begins with what it got.

    >>> as_seconds("1.5"), as_seconds(-2)
    (1.5, -2.0)
    >>> as_seconds("1e999")
    Traceback (most recent call last):
    ...
    ValueError: '1e999' is not a number of seconds from -1e+09 to 1e+09
    """
    seconds = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            seconds = float(value)
    if not abs(seconds) <= MOST_S:
        raise ValueError(
            f"{shown(value)} is not a number of seconds from {-MOST_S:g} to {MOST_S:g}"
        )
    return seconds


def clock_seconds(time: str) -> float:
    """Return a time of hours, minutes and seconds, or of fewer of them, in seconds.

    >>> clock_seconds("01:02.5"), clock_seconds("1:00:00,25")
    (62.5, 3600.25)
    """
    seconds = 0.0
    for part in time.replace(",", ".").split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def as_number(value: object) -> float:
    """Return a number as a finite float; raise ValueError for anything else, texts included.

    >>> as_number(3)
    3.0
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"{shown(value)} is not a finite number")


def as_whole(value: object, least: int = 0, most: int = MOST_NUMBER) -> int:
    """Return a whole number, or the text of one in decimal digits, from `least` to `most`.

    Raises:
        ValueError: anything else; the message begins with what it got.

    >>> as_whole("12"), as_whole(3.0)
    (12, 3)
    """
    number = None
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?[0-9]{1,18}", value):
            number = int(value)
        else:
            number = None
    elif (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and abs(value) <= MOST_NUMBER
    ):
        number = int(value) if value == int(value) else None
    if number is None or not least <= number <= most:
        raise ValueError(f"{shown(value)} is not a whole number from {least} to {most}")
    return number


def shown(value: object, most: int = _SHOWN) -> str:
    """Return a value for a message, on one line of at most `most` characters.

    It may be any value, however large or deep.

    >>> shown("a" * 100, 10), shown(10**5000)
    ("'aaaaaaaaa…", 'a whole number of some 5001 digits')
    """
    try:
        if isinstance(value, int) and abs(value) > 10**30:
            return f"a whole number of some {int(value.bit_length() * math.log10(2)) + 1} digits"
        text = repr(value[: most + 1] if isinstance(value, (str, bytes)) else value)
    except (ValueError, RecursionError):
        return f"{type(value).__name__} that cannot be shown"
    return text if len(text) <= most else f"{text[:most]}…"
