"""The lock of an output folder, or of one shard of it, for the length of a run.

One run at a time works in a folder, or one for each shard. The lock belongs to the operating system
(`flock` on POSIX, through the library `filelock`), which releases it when the process dies in any
way. NFS (since Linux 2.6.12), Lustre (mounted with `flock`), CephFS and SMB 3 share such locks
between machines. On a file system without locks, an existing file is the lock. This file outlives a
killed run: on the same machine, the next run sees that the process is gone and takes the lock over;
on another machine, the file has to be removed by hand.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout, UnixFileLock

from ctc_align.errors import OutputError, UsageError
from ctc_align.files.whole_files import refuse_link

_NAME = re.compile(r"\.ctc-align(?:\.(\d+)-of-(\d+))?\.lock")
_PATIENCE_S = 0.5
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Shard:
    """One of `count` jobs that share a corpus; `index` counts from 0."""

    index: int = 0
    count: int = 1

    @property
    def suffix(self) -> str:
        """The end of the names of the shard's files, "" without shards.

        >>> Shard().suffix, Shard(1, 4).suffix
        ('', '.1-of-4')
        """
        return "" if self.count == 1 else f".{self.index}-of-{self.count}"


class FolderLock:
    """Holds an output folder, or one shard of it, for the length of a `with` block.

    Raises:
        UsageError: another run holds it, or a run with a different number of shards is at work in
            the folder.
        OutputError: the folder cannot be written.
    """

    def __init__(self, out_dir: Path, shard: Shard) -> None:
        self.out_dir = out_dir
        self.shard = shard
        self.path = lock_path(out_dir, shard)
        self._lock: BaseFileLock | None = None
        self._identity: tuple[int, int] | None = None

    def __enter__(self) -> FolderLock:
        try:
            os.stat(self.out_dir)  # a folder that is missing is not made
            self._lock = _acquire(self.path, _PATIENCE_S)
            if self._lock is None:
                what = (
                    f"shard {self.shard.index}/{self.shard.count} of it"
                    if self.shard.count > 1
                    else "it"
                )
                raise UsageError(
                    f"{self.out_dir}: another run works on {what}: {holder_of(self.path)}; wait for"
                    " it, or stop it"
                )
            self._identity = _identity(self.path)
            _write_holder(self.path)
            self._refuse_other_counts()
        except OSError as error:
            self._release()
            raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def _refuse_other_counts(self) -> None:
        """Raise UsageError if runs with a different number of shards are at work.

        They would repeat this run's work.
        """
        for path in self.out_dir.glob(".ctc-align*.lock"):
            match = _NAME.fullmatch(path.name)
            if match is None or path == self.path or int(match[2] or 1) == self.shard.count:
                continue
            if is_held(path):
                part = f"shard {match[1]}/{match[2]}" if match[1] else "the whole corpus"
                raise UsageError(
                    f"{self.out_dir}: another run works on {part} of it: {holder_of(path)}; runs in"
                    " the same folder at the same time must all use the same N in --shard I/N"
                )

    def _release(self) -> None:
        if self._lock is not None:
            if self._identity is not None and _identity(self.path) == self._identity:
                _release(self._lock, self.path)
            else:  # in a folder that has gone: what is there now is another run's
                self._lock.release()
            self._lock = None


def lock_path(out_dir: Path, shard: Shard) -> Path:
    """Return the path of the lock file of a shard."""
    return out_dir / f".ctc-align{shard.suffix}.lock"


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock at `path`; remove the files of a dead one."""
    try:
        lock = _acquire(path, 0.0) if path.exists() else None
        if lock is None and _holder_path(path).exists() and not path.exists():
            lock = _acquire(
                path, 0.0
            )  # some versions remove the file of a dead process and do not lock it
    except OSError:
        return False
    if lock is None:
        return path.exists()
    _release(lock, path)
    return False


def holder_of(path: Path) -> str:
    """Return a description of who holds the lock at `path`, for a message."""
    file = _holder_path(path)
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise ValueError("not a file that a run wrote")
        holder = json.loads(file.read_bytes())
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not written its name yet"


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Run the block in one process at a time, by a lock on the file at `path`.

    Run it at once if the file cannot be locked.
    """
    lock = FileLock(path, thread_local=False)
    with contextlib.suppress(OSError):
        refuse_link(path.parent)
        path.parent.mkdir(exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _acquire(path: Path, timeout_s: float) -> BaseFileLock | None:
    """Return the lock on `path`, held; None if another process holds it.

    Raises:
        OSError: it cannot be created; ELOOP if it is a link.
    """
    refuse_link(path)  # `filelock` follows none either
    try:
        return _acquired(
            FileLock(path, timeout=timeout_s, poll_interval=_PATIENCE_S / 10, thread_local=False)
        )
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return _acquired(
        SoftFileLock(path, timeout=timeout_s, poll_interval=_PATIENCE_S / 10, thread_local=False)
    )


def _acquired(lock: BaseFileLock) -> BaseFileLock | None:
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _release(lock: BaseFileLock, path: Path) -> None:
    """Release a lock and remove its files.

    A process that waits for the removed file notices, and creates a new one.
    """
    for file in (_holder_path(path), *([path] if isinstance(lock, UnixFileLock) else [])):
        with contextlib.suppress(OSError):
            file.unlink()
    lock.release()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, which changes if the file is replaced.

    None if there is no file.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _holder_path(path: Path) -> Path:
    return path.with_suffix(".holder")


def _write_holder(path: Path) -> None:
    holder: dict[str, Any] = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    _holder_path(path).unlink(missing_ok=True)
    with open(
        _holder_path(path), "x", encoding="utf-8", newline="\n"
    ) as file:  # "x" follows no link
        file.write(json.dumps(holder) + "\n")
