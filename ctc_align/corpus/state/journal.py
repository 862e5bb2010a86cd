"""The journal: one JSON line for each finished utterance, appended when its outputs are complete.

The file is `journal.jsonl`, or `journal.I-of-N.jsonl` for shard I of N. Each line has the number of
its run and its number in the journal, and ends with a checksum, so readers detect damaged, missing
and moved lines. Lines of earlier versions have none of these (they belong to run 0). An incomplete
last line, left by a kill, is cut off, and its utterance is repeated. `resume.py` explains how a run
resumes from the journal.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import json
import logging
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ctc_align.errors import LostFolderError, OutputError
from ctc_align.files.folder_lock import Shard
from ctc_align.files.whole_files import sync_folder
from ctc_align.sources.utterance import Count, Hash, Number, UtteranceResult
from ctc_align.text.characters import json_escaped

DONE: Final = "done"
FAILED: Final = "failed"
GONE: Final = "gone"
"""The status of an outcome whose entry was corrected, moved or refused: it does not count."""
_NAME = re.compile(r"journal(?:\.(\d+)-of-(\d+))?\.jsonl")
_ALWAYS = (
    "id",
    "status",
    "reason",
    "loss",
    "seconds",
    "run",
    "line",
    "loss_per_token",
    "duration_s",
    "fingerprint",
    "time",
)
"""The fields that each line has, in this order; others follow if they have a value.

Other programs read them.
"""
_CRC = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n\Z')
_CRC_LENGTH = 21
_RUN = re.compile(rb'"run": ([0-9]{1,9}),')
_CHECKED = {"run", "line", "files", "row", "crc"}
"""Fields of lines that have a checksum."""
_MOST_NAMED = 10
"""Damaged lines of a journal that are listed."""
logger = logging.getLogger(__name__)


def journal_path(out_dir: Path, shard: Shard) -> Path:
    """Return the path of the journal of a shard."""
    return out_dir / f"journal{shard.suffix}.jsonl"


def journal_paths(out_dir: Path) -> list[Path]:
    """Return the journals in a folder, of any number of shards."""
    return sorted(
        path
        for path in out_dir.glob("journal*.jsonl")
        if _NAME.fullmatch(path.name) and path.is_file()
    )


def shard_of(path: Path) -> Shard:
    """Return the shard that a journal belongs to."""
    match = _NAME.fullmatch(path.name)
    assert match is not None
    if match[1]:
        return Shard(int(match[1]), int(match[2]))
    return Shard()


@dataclass(frozen=True)
class Line:
    """The outcome of one utterance, or of a refused entry of a source.

    Attributes:
        fingerprint: hash of all that the result depends on.
        time: when it was finished (Unix time).
        origin: position of a refused entry, which has no unique id.
        run: number of the run, one higher than any in the folder's journals at its start.
        number: position of the line in its journal, from 1 (`line` in JSON). The `Journal` that
            appends the line sets `number` and `run`; both are 0 in lines of earlier versions.
    """

    id: str
    status: Literal["done", "failed", "gone"]
    reason: str | None = None
    result: UtteranceResult = field(default_factory=UtteranceResult)
    fingerprint: Hash = ""
    time: Number = 0.0
    origin: str | None = None
    run: Count = 0
    number: Count = 0

    @property
    def key(self) -> int:
        return line_key(self.id, self.origin)

    def encoded(self, run: int = 1, number: int = 1) -> bytes:
        """Return one line of JSON, UTF-8, with its checksum last."""
        data = asdict(replace(self, run=run))
        data |= data.pop("result") | {"line": number}
        del data["number"]
        data = {name: data.pop(name) for name in _ALWAYS} | {
            n: value for n, value in data.items() if value is not None
        }
        body = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False)).encode()
        return body[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(body[:-1])


def line_key(id: str, origin: str | None = None) -> int:
    """Return 64 bits that identify an utterance, or a refused entry of a source."""
    text = id if origin is None else f"{id}\0{origin}"
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


class Entry(NamedTuple):
    """A complete line of a journal and its offset.

    The line is None if it is damaged or misplaced. `is_after_gap`: lines before this one are
    missing; `number`: the number that the line has or should have; `run`: the run that a damaged
    line seems to belong to.
    """

    offset: int
    line: Line | None
    is_after_gap: bool
    number: int
    run: int = 0


def read_entries(path: Path, *, quiet: bool = False) -> Iterator[Entry]:
    """Yield every whole line of a journal; warn of damaged and misplaced ones, unless `quiet`."""
    last = damaged = offset = faults = 0
    with open(path, "rb") as file:
        for row, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                break
            line, fault = parsed_line(raw)
            expected = last + damaged + 1
            number = expected
            if line is not None:
                number = line.number or expected
            if number != expected:
                fault = (
                    f"expected line {expected} of this journal, got line {number}: lines are"
                    " missing or moved"
                )
            if number <= last:
                line = None
                number = expected
            if fault:
                faults += 1
                if faults <= _MOST_NAMED and not quiet:
                    logger.warning("%s, line %d: %s", path, row, fault)
            seen = _RUN.search(raw) if line is None else None
            yield Entry(offset, line, number != expected, number, int(seen[1]) if seen else 0)
            if line is not None:
                last = number
                damaged = 0
            else:
                last, damaged = last, damaged + 1
            offset += len(raw)
    if faults > _MOST_NAMED and not quiet:
        logger.warning("%s: %d such lines in all", path, faults)


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the whole lines of a journal that are not damaged; warn of the others."""
    return (entry.line for entry in read_entries(path) if entry.line is not None)


def line_at(file: int, offset: int) -> Line | None:
    """Return the line that begins at `offset` of an open journal.

    It is None if there is no line there now.
    """
    raw = b""
    size = 1024
    while not raw.endswith(b"\n"):
        os.lseek(file, offset, os.SEEK_SET)
        found = os.read(file, size)
        end = found.find(b"\n") + 1
        raw = found[:end] if end else found
        if not end and len(found) < size:
            return None
        size *= 4
    return parsed_line(raw)[0]


def parsed_line(raw: bytes) -> tuple[Line | None, str]:
    """Return a line, or None and the fault."""
    match = _CRC.search(raw, max(0, len(raw) - _CRC_LENGTH))
    if match is not None and zlib.crc32(raw[: match.start()]) != int(match[1], 16):
        return None, "its checksum does not match what it says; its utterance is redone"
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or (match is None and data.keys() & _CHECKED):
        line = None
    else:
        line = _line(data)
    return line, "" if line is not None else "not a line of a journal; its utterance is redone"


def _line(data: dict[str, Any]) -> Line | None:
    """Return the line for a JSON object, None for anything else."""
    import msgspec

    try:
        return msgspec.convert({**data, "result": data, "number": data.get("line", 0)}, Line)
    except (msgspec.ValidationError, OverflowError):
        return None


def torn_end(path: Path) -> tuple[bytes, str | None]:
    """Return the bytes after the last line end of a journal.

    If a kill left them, the id of their utterance is returned, too. The id is None if there are no
    such bytes, or if they do not begin a line.
    """
    with open(path, "rb") as file:
        file.seek(_whole_length(file.fileno()))
        torn = file.read(1 << 20)
    match = re.match(rb'\{"id": ("(?:[^"\\]|\\.)*"), "status', torn)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(torn)
        if match is None or min(torn) < ord(" "):
            id = None
        else:
            id = str(json.loads(match[1]))
    except ValueError:
        id = None
    return torn, id


class Journal:
    """Appends lines; each `append` is on the disk when it returns.

    Args:
        path: the journal, made if it does not exist.
        lock: the file that keeps other runs out of the folder; watched, like the journal and the
            folder.
        run: the number of the run that appends; lines: the number of the journal's last line, None
            to count.

    Raises:
        OutputError: the file cannot be written, or is a link, a pipe or a folder; incompletely
            written lines are removed.
        LostFolderError: the path no longer leads to the file that was opened; nothing is written
            then.
    """

    def __init__(
        self, path: Path, lock: Path | None = None, run: int = 1, lines: int | None = None
    ) -> None:
        self.path = path
        self.run = run
        self._file = -1
        try:
            self._file = _opened(path)
            self._end = _whole_length(self._file)
            os.ftruncate(self._file, self._end)
            sync_folder(path.parent)  # its name lasts as its lines do
            if lines is None:
                self.lines = max(
                    (entry.number for entry in read_entries(path, quiet=True)), default=0
                )
            else:
                self.lines = lines
            is_known = _identity(os.fstat(self._file)) == _identity(
                os.stat(path)
            )  # false where numbers are made up
            watched = [path.parent, path, *([lock] if lock is not None else [])]
            self._watched = {
                file: _identity(os.stat(file)) if is_known else None for file in watched
            }
        except OSError as error:
            if self._file >= 0:
                os.close(self._file)
            raise OutputError(
                f"{path}: the journal cannot be written ({error.strerror or error})"
            ) from error

    def check(self) -> None:
        """Raise LostFolderError if folder, journal or lock were replaced.

        They are no longer those that this run opened. A journal that was removed from its folder is
        first restored there, because what it records is done.
        """
        for path, was in self._watched.items():
            try:
                found = _identity(os.stat(path))
            except OSError:
                rest = ""
                if path == self.path and self._restore():
                    rest = "; its lines were written again"
                raise LostFolderError(
                    f"{path}: was removed or renamed while this run worked here{rest}"
                ) from None
            if was is not None and found != was:
                raise LostFolderError(f"{path}: was replaced while this run worked here")
        if os.fstat(self._file).st_size != self._end:
            raise LostFolderError(
                f"{self.path}: was changed by another program while this run worked here"
            )

    def _restore(self) -> bool:
        """Write the lines of a removed journal to its path if the path is free.

        Return whether they are there.
        """
        try:
            if os.fstat(self._file).st_size != self._end:
                return False
            file = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
            )
            try:
                os.lseek(self._file, 0, os.SEEK_SET)
                while block := os.read(self._file, 1 << 20):
                    _write(file, block)
                os.fsync(file)
            finally:
                os.close(file)
            sync_folder(self.path.parent)
        except OSError:
            return False
        return True

    def append(self, lines: Sequence[Line]) -> None:
        data = b"".join(
            line.encoded(self.run, number)
            for number, line in enumerate(lines, start=self.lines + 1)
        )
        self.check()
        try:
            os.lseek(self._file, self._end, os.SEEK_SET)
            _write(self._file, data)
            os.fsync(self._file)
        except OSError as error:
            self._remove_partial()
            raise OutputError(
                f"{self.path}: the journal cannot be written ({error.strerror})"
            ) from error
        self._end += len(data)
        self.lines += len(lines)
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
    """Return a journal, opened for reading and writing.

    No link is followed, and no pipe waited for.
    """
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
