"""Private folders for temporary files, which the next start removes if their program was killed.

A running program holds a lock beside its folder. A folder of this user without a lock was left by a
killed program.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def own_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that only this user can read, and remove it at the end.

    It is in the folder for temporary files.

    Folders with the same `prefix` that killed programs left are removed first.

    Raises:
        OSError: it cannot be made.
    """
    from filelock import FileLock, Timeout

    base = Path(tempfile.gettempdir())
    remove_dead_folders(base, prefix)
    path = base / f"{prefix}{secrets.token_hex(16)}"
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise OSError(f"{path}: is locked") from error
    try:
        path.mkdir(mode=0o700)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        lock.release()
        with suppress(OSError):
            os.unlink(lock.lock_file)


def remove_dead_folders(base: Path, prefix: str) -> None:
    """Remove the folders of this user's programs that no longer run.

    The folder of a running one is locked.
    """
    from filelock import FileLock, Timeout

    # a program that was killed while it made its folder left the lock alone
    for path in {
        each.with_name(each.name.removesuffix(".lock")) for each in base.glob(f"{prefix}*")
    }:
        is_named_so = re.fullmatch(re.escape(prefix) + "[0-9a-f]{32}", path.name) is not None
        if not is_named_so or path.is_symlink() or not _is_own(path):
            continue
        lock = FileLock(f"{path}.lock")
        try:
            lock.acquire(timeout=0)
        except (Timeout, OSError):
            continue
        shutil.rmtree(path, ignore_errors=True)
        lock.release()
        with suppress(OSError):
            os.unlink(lock.lock_file)


def _is_own(path: Path) -> bool:
    """Return whether this user has made a folder, or the lock of one that is not there."""
    lock = Path(f"{path}.lock")
    try:
        made = path if os.path.lexists(path) else lock
        owner = made.lstat().st_uid
    except OSError:
        return False
    is_kind = made.is_dir() if made == path else made.is_file() and not made.is_symlink()
    return is_kind and (not hasattr(os, "getuid") or owner == os.getuid())
