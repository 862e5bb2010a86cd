"""One run at a time in an output folder, or one a shard.

The lock is the operating system's on a file that says who holds it, so that a process that dies, however it dies, holds
it no longer. Where a file system has no such locks, the file itself is the lock, and its holder is looked for.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctc_align.corpus.state.journal import Shard
from ctc_align.errors import OutputError, UsageError

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

_NAME = re.compile(r"\.ctc-align(?:\.(\d+)-of-(\d+))?\.lock")
_PATIENCE_S = 0.5
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


class FolderLock:
    """Holds an output folder, or one shard of it, from `with` to its end.

    Raises:
        UsageError: somebody else holds it, or a run with another number of shards is at work in the folder.
        OutputError: the folder cannot be written.
    """

    def __init__(self, out_dir: Path, shard: Shard) -> None:
        self.out_dir = out_dir
        self.shard = shard
        self.path = lock_path(out_dir, shard)
        self._file: int | None = None

    def __enter__(self) -> FolderLock:
        try:
            self._file = _take(self.path)
            if self._file is None:
                what = f"shard {self.shard.index}/{self.shard.count} of it" if self.shard.count > 1 else "it"
                raise UsageError(
                    f"{self.out_dir}: another run works on {what}: {holder_of(self.path)}; wait for its end, or stop it"
                )
            _write_holder(self._file)
            self._refuse_other_counts()
        except OSError as error:
            self._release()
            raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._release()

    def _refuse_other_counts(self) -> None:
        """Shards of another number, or the whole, would do the same utterances."""
        for path in self.out_dir.glob(".ctc-align*.lock"):
            match = _NAME.fullmatch(path.name)
            if match is None or path == self.path or int(match[2] or 1) == self.shard.count:
                continue
            if is_held(path):
                met = f"shard {match[1]}/{match[2]}" if match[1] else "the whole corpus"
                raise UsageError(
                    f"{self.out_dir}: another run works on {met} of it: {holder_of(path)}; "
                    "at the same time only shards of one number"
                )

    def _release(self) -> None:
        if self._file is None:
            return
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._file)
        self._file = None


def lock_path(out_dir: Path, shard: Shard) -> Path:
    return out_dir / f".ctc-align{shard.suffix}.lock"


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock at `path`."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        taken = _lock(file)
        return not taken if taken is not None else _is_alive(_read_holder(path))
    finally:
        os.close(file)


def remove_dead(path: Path) -> None:
    """Remove a lock that nobody holds any more."""
    if not is_held(path):
        with contextlib.suppress(OSError):
            path.unlink()


def holder_of(path: Path) -> str:
    """Who holds a lock, for a message."""
    holder = _read_holder(path)
    if not holder:
        return "a process that has not said its name yet"
    return f"process {holder.get('pid')} on {holder.get('host')}, since {holder.get('since')}"


@contextlib.contextmanager
def turn(path: Path) -> Iterator[None]:
    """One process after the other, by a lock on the file at `path`; all at once where there are no such locks."""
    file = -1
    try:
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        if file >= 0:
            os.close(file)


def _take(path: Path) -> int | None:
    """An open file that holds the lock, or None where another process does (and not only to look at it)."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            taken = _lock(file)
            if taken is None:
                taken = not _is_alive(_read_holder(path))
            if not taken and time.monotonic() > end:
                os.close(file)
                return None
            # whoever held it may have removed the file between our opening and our locking it
            with contextlib.suppress(FileNotFoundError):
                if taken and os.path.samestat(os.fstat(file), os.stat(path)):
                    return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        time.sleep(_PATIENCE_S / 10)


def _lock(file: int) -> bool | None:
    """True: locked now; False: another process has it; None: no such locks here."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError as error:
        return False if error.errno in _TAKEN else None


def _write_holder(file: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "started": _started(os.getpid())}
    os.ftruncate(file, 0)
    os.pwrite(file, (json.dumps(holder) + "\n").encode(), 0)


def _read_holder(path: Path) -> dict[str, Any]:
    try:
        holder = json.loads(path.read_bytes())
        return holder if isinstance(holder, dict) else {}
    except (OSError, ValueError):
        return {}


def _is_alive(holder: dict[str, Any]) -> bool:
    """Whether the process that a lock names may still run; one on another host may."""
    if not holder:
        return False
    if holder.get("host") != socket.gethostname():
        return True
    try:
        pid = int(holder["pid"])
        if pid == os.getpid():
            return False
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, KeyError, ValueError, TypeError):
        return False
    # the number may have been given to another process since
    return holder.get("started") in (None, _started(pid))


def _started(pid: int) -> str | None:
    """When a process started, in the clock ticks of /proc; None where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
