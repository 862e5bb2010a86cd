"""Regular files that fit into memory, and JSON, TOML and numbers that may be anything at all.

open_input, read_input      a file for reading; what is no regular file, or too large, is an OSError with a sentence
content_hash                a hash of all bytes of a file
parse_json, parse_toml      values of a text; whatever is wrong with it is a ValueError of one line
as_seconds, as_whole        a value that must be a number in a sensible range, else a ValueError that says what it got
shown                       any value for a message

Readers turn these errors into their own, which name the file. Nothing here blocks on a pipe, and no number that a file
holds raises anything else: not 1e999, not an integer of 5,000 digits, not a list in a list in a list.
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
from ctc_align.reading.free_memory import free_memory

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_S = 1e9
"""No recording is longer: 32 years."""
MOST_NUMBER = 2**53
"""Whole numbers up to this are exact in JSON's readers everywhere."""
JSON_BYTES = 8
"""Bytes of memory for each byte of JSON, roughly."""

_UNCHECKED_BYTES = 2**26
"""Smaller files are not compared with the free memory, which takes longer than reading them."""
_PIPES = re.compile(r"/dev/stdin|/dev/fd/[0-9]{1,9}|/proc/self/fd/[0-9]{1,9}")
_SHOWN = 60
_DEEPEST = 200
_BLOCK = 2**20


def open_input(path: str | os.PathLike[str], *, pipes: bool = False) -> BinaryIO:
    """Open a regular file for reading bytes, at once: a named pipe, a socket, a device or a folder is an error.

    Args:
        path: of the file.
        pipes: a pipe that is open already, as a shell's `<(…)` gives it (/dev/fd/63), is read, too.

    Raises:
        OSError: it is not there, cannot be opened, or is no regular file; `strerror` says which in words.
    """
    name = os.fspath(path)
    try:
        mode = os.stat(name).st_mode
        if pipes and stat.S_ISFIFO(mode) and _PIPES.fullmatch(name):
            return open(name, "rb")
        _require_regular(mode, name)
        # it may have become a pipe since
        file = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:
        raise OSError(errno.EINVAL, "its name holds a NUL character or half a surrogate pair", name) from None
    try:
        _require_regular(os.fstat(file).st_mode, name)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_input(path: str | os.PathLike[str], *, pipes: bool = False, factor: int = 1) -> bytes:
    """Return the bytes of a regular file (or of a pipe, see `open_input`).

    Args:
        factor: bytes of memory that each byte of the file takes in all.

    Raises:
        OSError: as `open_input`; or it does not fit into the memory that is free.
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
    """Raise OSError unless a regular file is at `path`; for readers that open it themselves."""
    open_input(path).close()


def _require_regular(mode: int, name: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a regular file, got a folder", name)
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise OSError(errno.EINVAL, f"expected a regular file, got {kind}; save its content to a file first", name)


def require_memory(needed: int, name: str = "") -> None:
    """Raise OSError where `needed` bytes are more than can be allocated.

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
    return f"{count / 1e9:.1f}" if count < 10**11 else str(count // 10**9)


def parse_json(text: str | bytes, **decoding: Any) -> Any:
    """Return the value of a JSON text; `decoding` goes to `json.loads`.

    Raises:
        ValueError: of one line, whatever is wrong (JSONDecodeError, where it is not JSON at all).

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: lists or objects nested more than 200 deep
    """
    try:
        value = json.loads(text, **decoding)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise _plain(error) from None
    check_depth(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ValueError: of one line, whatever is wrong (tomllib's TOMLDecodeError is one).
    """
    try:
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
        return ValueError(f"not UTF-8: byte 0x{error.object[error.start]:02x} at offset {error.start}")
    return ValueError(one_line(error))


def check_depth(value: Any) -> None:
    """Raise ValueError where a value is nested so deep that showing or copying it might fail."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_DEEPEST):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, (dict, list)) and inner]
        if not level:
            return
    raise ValueError(f"lists or objects nested more than {_DEEPEST} deep")


def as_seconds(value: object) -> float:
    """Return a number, or the text of one, as seconds: finite, and of at most `MOST_S` either way.

    Raises:
        ValueError: anything else; the message begins with what it got.

    >>> as_seconds("1.5"), as_seconds(-2)
    (1.5, -2.0)
    >>> as_seconds("1e999")
    Traceback (most recent call last):
    ...
    ValueError: '1e999' is no number of seconds from -1e+09 to 1e+09
    """
    seconds = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with contextlib.suppress(ValueError, OverflowError):
            seconds = float(value)
    if not abs(seconds) <= MOST_S:
        raise ValueError(f"{shown(value)} is no number of seconds from {-MOST_S:g} to {MOST_S:g}")
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
    raise ValueError(f"{shown(value)} is no finite number")


def as_whole(value: object, least: int = 0, most: int = MOST_NUMBER) -> int:
    """Return a whole number, or the text of one in decimal digits, from `least` to `most`.

    Raises:
        ValueError: anything else; the message begins with what it got.

    >>> as_whole("12"), as_whole(3.0)
    (12, 3)
    """
    number = None
    if isinstance(value, str):
        number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,18}", value) else None
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MOST_NUMBER:
        number = int(value) if value == int(value) else None
    if number is None or not least <= number <= most:
        raise ValueError(f"{shown(value)} is no whole number from {least} to {most}")
    return number


def shown(value: object, most: int = _SHOWN) -> str:
    """Return a value for a message, on one line, cut where it is long; any value, however large or deep.

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
