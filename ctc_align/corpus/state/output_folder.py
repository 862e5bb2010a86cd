"""The output folder: create it, lock it, remove the remains of a killed run, and protect other
people's files in it.

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
import glob
import json
import os
import re
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout, UnixFileLock

from ctc_align.corpus.outputs.assembly import PendingParts
from ctc_align.corpus.outputs.layout import MANIFESTS, SHARDS, Layout
from ctc_align.corpus.outputs.records import CUTS
from ctc_align.corpus.state.journal import Shard, journal_paths
from ctc_align.corpus.state.summary import is_summary
from ctc_align.corpus.utterance import Source, Utterance
from ctc_align.errors import OutputError, UsageError
from ctc_align.files.whole_files import refuse_link, remove_tree, sync_folder

_NAME = re.compile(r"\.ctc-align(?:\.(\d+)-of-(\d+))?\.lock")
_PATIENCE_S = 0.5
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_PARTS = ".ctc-align-parts"
_PROBE = ".ctc-align.probe"
_LEFT = re.compile(
    r"(\.ctc-align(?:-parts|-spool|\.probe))(\.(\d+)-of-(\d+))?(?:\.sqlite|\.[0-9a-f]{16})?"
)


def make_folder(out_dir: Path) -> None:
    """Make the output folder if it does not exist.

    Raises:
        UsageError: it is a file, or cannot be created or written.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        sync_folder(out_dir.parent)
        with _probe(out_dir, Shard()):
            pass
    except FileExistsError:
        raise UsageError(f"--out-dir {out_dir}: expected a folder, got a file") from None
    except OSError as error:
        raise UsageError(
            f"--out-dir {out_dir}: cannot be written ({error.strerror}); choose another folder"
        ) from None


def remove_folder(out_dir: Path, journal: Path) -> None:
    """Remove a folder that this run created, unless it contains more than an empty journal."""
    with contextlib.suppress(OSError):
        if not journal.stat().st_size:
            journal.unlink()
    with contextlib.suppress(OSError):
        out_dir.rmdir()


def folds_case(out_dir: Path, shard: Shard | None = None) -> bool:
    """Return whether "A" and "a" are one file in the output folder, by making a file there.

    Raises:
        UsageError: the folder cannot be written any more.
    """
    try:
        with _probe(out_dir, shard or Shard()) as probe:
            return probe.with_name(probe.name.upper()).exists()
    except OSError as error:
        raise UsageError(
            f"--out-dir {out_dir}: cannot be written ({error.strerror}); choose another folder"
        ) from None


@contextlib.contextmanager
def _probe(out_dir: Path, shard: Shard) -> Iterator[Path]:
    """Make an empty file with an unguessable lower-case name, for the duration of the block."""
    probe = out_dir / f"{_PROBE}{shard.suffix}.{secrets.token_hex(8)}"
    os.close(
        os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    )  # O_EXCL: never through a link
    try:
        yield probe
    finally:
        probe.unlink(missing_ok=True)


def parts_folder(out_dir: Path, suffix: str) -> Path:
    """Return the folder in which files are written before they move to their paths; after a kill
    they remain there."""
    return out_dir / f"{_PARTS}{suffix}"


def compiling_path(out_dir: Path, suffix: str) -> Path:
    """Return the path of the lock file of the worker that compiles the kernels."""
    return parts_folder(out_dir, suffix) / "compiling"


def clear(out_dir: Path, shard: Shard) -> None:
    """Remove unfinished files of runs that have ended, this one included.

    Also remove pending parts of runs with a different number of shards: their shards had other
    utterances.
    """
    for path in out_dir.glob(".ctc-align*"):
        match = _LEFT.fullmatch(path.name)
        if match is None:
            continue
        suffix = match[2] or ""
        count = int(match[4] or 1)
        lock = out_dir / f".ctc-align{suffix}.lock"
        if suffix != shard.suffix and is_held(lock):
            continue
        if match[1] in (_PARTS, _PROBE):
            remove_tree(path)
        elif count != shard.count:
            PendingParts(path).close(remove=True)
            is_held(lock)
    for path in out_dir.glob(".ctc-align*.lock"):
        if path.name != f".ctc-align{shard.suffix}.lock":
            is_held(path)  # removes that of a dead run


def left_behind(layout: Layout, out_dir: Path) -> list[str]:
    """Return the shared and cut outputs that earlier runs with other options made, and this run
    does not make."""
    others = [name for name in MANIFESTS if name not in layout.manifests]
    left = [
        path.name for name in others for path in sorted(out_dir.glob(f"manifest.{name}.jsonl*"))
    ]
    if layout.kind != SHARDS:
        left += ["alignments-*"] if any(out_dir.glob("alignments-?????.jsonl.gz")) else []
    if not layout.cut:
        left += [CUTS] if (out_dir / CUTS).is_dir() else []
    return left


def check_existing(source: Source, layout: Layout, out_dir: Path, *, force: bool) -> None:
    """Refuse a first run into a folder that would replace files that no run made.

    If there is a journal or a summary, the outputs belong to runs: those not yet in the journal are
    replaced.

    Raises:
        UsageError: there is such a file and `force` is not given, or it is in the folder of the
            corpus.
    """
    if _has_trace(out_dir) or not _holds_files(out_dir):
        return
    inside = os.path.isdir(source.name) and (
        Path(source.name).resolve() in out_dir.resolve().parents
    )
    if force and not inside:
        return
    for index, entry in enumerate(source):
        if not isinstance(entry, Utterance):
            continue
        existing = next((path for path in layout.outputs(entry) if path.exists()), None)
        group = layout.group(index, entry)
        if existing is None and group is not None:
            existing = next(out_dir.glob(f"{glob.escape(group)}.*"), None)
        if existing is not None and not _has_trace(out_dir):
            raise UsageError(
                f"{existing}: exists already, and no run into this folder made it; "
                + (
                    "choose another --out-dir"
                    if inside
                    else "give --force to replace it, or another --out-dir"
                )
            )


def _has_trace(out_dir: Path) -> bool:
    pending = any(out_dir.glob(".ctc-align-*"))
    return (
        bool(journal_paths(out_dir))
        or pending
        or any(is_summary(path) for path in out_dir.glob("summary*.json"))
    )


def _holds_files(out_dir: Path) -> bool:
    with os.scandir(out_dir) as entries:
        return any(not entry.name.startswith(".ctc-align") for entry in entries)


class FolderLock:
    """Holds an output folder, or one shard of it, for the length of a `with` block.

    Raises:
        UsageError: another run holds it, or a run with a different number of shards is at work in
        the folder. OutputError: the folder cannot be written.
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
                if self.shard.count > 1:
                    what = f"shard {self.shard.index}/{self.shard.count} of it"
                else:
                    what = "it"
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
        """Raise UsageError if runs with a different number of shards are at work: they would repeat
        this run's work."""
        for path in self.out_dir.glob(".ctc-align*.lock"):
            match = _NAME.fullmatch(path.name)
            if match is None or path == self.path or int(match[2] or 1) == self.shard.count:
                continue
            if is_held(path):
                if match[1]:
                    part = f"shard {match[1]}/{match[2]}"
                else:
                    part = "the whole corpus"
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
    """Run the block in one process at a time, by a lock on the file at `path`; at once if it cannot
    be locked."""
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
    """Release a lock and remove its files; a process that waits for the removed file notices, and
    creates a new one."""
    for file in (_holder_path(path), *([path] if isinstance(lock, UnixFileLock) else [])):
        with contextlib.suppress(OSError):
            file.unlink()
    lock.release()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, which changes if the file is replaced; None if there is no
    file."""
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
