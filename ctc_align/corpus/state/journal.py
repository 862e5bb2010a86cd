"""The journal: one JSON line for every finished utterance, appended when its outputs are in place.

`journal.jsonl`, or `journal.I-of-N.jsonl` for one shard of N. A run reads all journals of its folder, and the latest
line about an utterance counts. A line that a kill left incomplete is cut off, and its utterance done again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import stat
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctc_align.errors import LostFolderError, OutputError
from ctc_align.types import FITS

DONE, FAILED = "done", "failed"
_AT_TIMES = ("origin", "doubt", "fit", "skipped")
_PRINT = re.compile(r"[0-9a-f]{0,16}")
_NAME = re.compile(r"journal(?:\.(\d+)-of-(\d+))?\.jsonl")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shard:
    """One of `count` jobs that share a corpus; `index` counts from 0."""

    index: int = 0
    count: int = 1

    @property
    def suffix(self) -> str:
        """
        >>> Shard().suffix, Shard(1, 4).suffix
        ('', '.1-of-4')
        """
        return "" if self.count == 1 else f".{self.index}-of-{self.count}"


@dataclass(frozen=True)
class Line:
    """The outcome of one utterance.

    `seconds` is the work that it took (reading, its share of its batch, writing), `time` when it was finished (Unix
    time), `fingerprint` a hash of what the result depends on (16 hexadecimal digits), `origin` the place of an entry
    that is no utterance, which has no unique id. `doubt` is set where confidence is below the one that the run asked
    for: the number of words below it (`words`) and of stretches of speech without a word (`unexplained`), and the
    `least_confidence` of a word, None where no word has any. `fit` is that of the transcript, None where the model
    cannot tell, and `skipped` the number of words that are not in the recording.
    """

    id: str
    status: str
    reason: str | None = None
    loss: float | None = None
    seconds: float = 0.0
    loss_per_token: float | None = None
    duration_s: float | None = None
    fingerprint: str = ""
    time: float = 0.0
    origin: str | None = None
    doubt: dict[str, float | None] | None = None
    fit: str | None = None
    skipped: int | None = None

    @property
    def key(self) -> int:
        return line_key(self.id, self.origin)

    def encoded(self) -> bytes:
        """One line of JSON, UTF-8; without `origin`, `doubt`, `fit` and `skipped` where there are none."""
        data = {name: value for name, value in asdict(self).items() if name not in _AT_TIMES or value is not None}
        try:
            return (json.dumps(data, ensure_ascii=False, allow_nan=False) + "\n").encode()
        except UnicodeEncodeError:  # a file name that is not UTF-8
            return (json.dumps(data, allow_nan=False) + "\n").encode()


def line_key(id: str, origin: str | None = None) -> int:
    """Return 64 bits that identify an utterance, or a line of a source that is none."""
    text = id if origin is None else f"{id}\0{origin}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def journal_path(out_dir: Path, shard: Shard) -> Path:
    """Return the path of the journal of a shard."""
    return out_dir / f"journal{shard.suffix}.jsonl"


def journal_paths(out_dir: Path) -> list[Path]:
    """Return the journals in a folder, of any number of shards."""
    return sorted(path for path in out_dir.glob("journal*.jsonl") if _NAME.fullmatch(path.name) and path.is_file())


def shard_of(path: Path) -> Shard:
    """Return the shard that a journal is of."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return Shard(int(match[1]), int(match[2])) if match[1] else Shard()


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the whole lines of a journal; others are skipped with a warning, an incomplete last line without."""
    with open(path, "rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                return
            try:
                line = _line(json.loads(raw))
            except (ValueError, RecursionError):
                line = None
            if line is not None:
                yield line
            else:
                logger.warning("%s, line %d: not a line of a journal; its utterance is done again", path, number)


def _line(data: Any) -> Line | None:
    """Return the line that JSON data is, None for anything else."""
    if not isinstance(data, dict):
        return None
    values = {name: value for name, value in data.items() if name in _FIELDS}
    for name, value in values.items():
        if not (value is None and name in _MAY_BE_NONE) and not _FIELDS[name](value):
            return None
    if not {"id", "status"} <= values.keys():
        return None
    return Line(**values)


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_doubt(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"words", "unexplained", "least_confidence"}
        and all(type(value[name]) is int and value[name] >= 0 for name in ("words", "unexplained"))
        and (value["least_confidence"] is None or _is_number(value["least_confidence"]))
    )


_FIELDS: dict[str, Callable[[Any], bool]] = {
    "id": _is_text,
    "status": (DONE, FAILED).__contains__,
    "reason": _is_text,
    "loss": _is_number,
    "seconds": _is_number,
    "loss_per_token": _is_number,
    "duration_s": _is_number,
    "fingerprint": lambda value: _is_text(value) and _PRINT.fullmatch(value) is not None,
    "time": _is_number,
    "origin": _is_text,
    "doubt": _is_doubt,
    "fit": FITS.__contains__,
    "skipped": lambda value: type(value) is int and value >= 0,
}
"""Checks of the fields of a line."""
_MAY_BE_NONE = ("reason", "loss", "loss_per_token", "duration_s", "origin", "doubt", "fit", "skipped")


class Outcomes:
    """The outcomes in the journals of a folder: status and fingerprint by key, in 25 bytes for each utterance."""

    def __init__(self, paths: Sequence[Path]) -> None:
        keys, prints, times, good = array("Q"), array("Q"), array("d"), array("b")
        self.counts: list[int] = []
        """The number of lines of each journal; other runs may be appending to theirs."""
        for path in paths:
            before = len(keys)
            for line in read_lines(path):
                keys.append(line.key)
                prints.append(int(line.fingerprint or "0", 16))
                times.append(line.time)
                good.append(line.status == DONE)
            self.counts.append(len(keys) - before)
        every = np.frombuffer(keys, np.uint64) if keys else np.empty(0, np.uint64)
        self._rows = _latest(every, np.frombuffer(times, np.float64) if times else np.empty(0))
        self._keys = every[self._rows]
        self._prints = np.frombuffer(prints, np.uint64)[self._rows] if prints else np.empty(0, np.uint64)
        self._good = np.frombuffer(good, np.int8)[self._rows] if good else np.empty(0, np.int8)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: int) -> tuple[str, int] | None:
        """Return (status, fingerprint) of the latest line about an utterance, None where there is none."""
        place = int(np.searchsorted(self._keys, np.uint64(key)))
        if place == len(self._keys) or int(self._keys[place]) != key:
            return None
        return (DONE if self._good[place] else FAILED), int(self._prints[place])

    @property
    def rows(self) -> np.ndarray:
        """The numbers, ascending, of the lines that count, from 0 over all journals in their order."""
        return np.sort(self._rows)


def _latest(keys: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return for each key the row of its last time (the later row where times are equal), in the order of the keys."""
    order = np.lexsort((np.arange(len(keys)), times, keys))
    last = np.ones(len(keys), bool)
    last[:-1] = keys[order][1:] != keys[order][:-1]
    return order[last]


class Journal:
    """Appends lines; each `append` is on the disk when it returns.

    Args:
        path: the journal, made where there is none.
        lock: the file that keeps other runs out of the folder, watched as the journal and the folder are.

    Raises:
        OutputError: the file cannot be written, or is none of ours (a link, a pipe, a folder); lines that could not be
            written whole are removed.
        LostFolderError: what is at the path is no longer the file that was opened; nothing is written then.
    """

    def __init__(self, path: Path, lock: Path | None = None) -> None:
        self.path = path
        self._file = -1
        try:
            self._file = _opened(path)
            self._end = _whole_length(self._file)
            os.ftruncate(self._file, self._end)
            is_known = _identity(os.fstat(self._file)) == _identity(os.stat(path))  # false where numbers are made up
            watched = [path.parent, path, *([lock] if lock is not None else [])]
            self._watched = {file: _identity(os.stat(file)) if is_known else None for file in watched}
        except OSError as error:
            if self._file >= 0:
                os.close(self._file)
            raise OutputError(f"{path}: the journal cannot be written ({error.strerror or error})") from error

    def check(self) -> None:
        """Raise LostFolderError where folder, journal or lock are no longer those that this run opened.

        A journal that was removed from its folder is written there again first: what it says is done.
        """
        for path, was in self._watched.items():
            try:
                found = _identity(os.stat(path))
            except OSError:
                rest = "; its lines were written again" if path == self.path and self._restore() else ""
                raise LostFolderError(f"{path}: was removed or renamed while this run worked here{rest}") from None
            if was is not None and found != was:
                raise LostFolderError(f"{path}: was replaced while this run worked here")
        if os.fstat(self._file).st_size != self._end:
            raise LostFolderError(f"{self.path}: was changed by another program while this run worked here")

    def _restore(self) -> bool:
        """Write the lines of a removed journal to its path, where nothing is; return whether they are there."""
        try:
            if os.fstat(self._file).st_size != self._end:
                return False
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            try:
                os.lseek(self._file, 0, os.SEEK_SET)
                while block := os.read(self._file, 1 << 20):
                    _write(file, block)
                os.fsync(file)
            finally:
                os.close(file)
        except OSError:
            return False
        return True

    def append(self, lines: Sequence[Line]) -> None:
        data = b"".join(line.encoded() for line in lines)
        self.check()
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            _write(self._file, data)
            os.fsync(self._file)
        except OSError as error:
            self._remove_partial()
            raise OutputError(f"{self.path}: the journal cannot be written ({error.strerror})") from error
        self._end += len(data)
        self.check()

    def _remove_partial(self) -> None:
        try:
            os.ftruncate(self._file, self._end)
        except OSError:  # the next run does it
            logger.warning("%s: its last line may be torn; the next run repairs it", self.path)

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _opened(path: Path) -> int:
    """Return a journal, opened to be read and written; no link is followed, and no pipe waited for."""
    flags = os.O_RDWR | os.O_CREAT
    for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    if os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a link, and none is followed: remove it")
    file = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "expected a file, got a pipe or a device: remove it")
    return file


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _write(file: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.write(file, data[written:])


def _whole_length(file: int) -> int:
    """Return the length of a file up to the end of its last whole line."""
    end = os.lseek(file, 0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        os.lseek(file, start, os.SEEK_SET)
        newline = os.read(file, end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def now() -> float:
    """Return the Unix time, rounded to milliseconds."""
    return round(time.time(), 3)
