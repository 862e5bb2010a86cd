"""Compile the kernels in the background, so that no command waits for them.

A command leaves the process that compiles behind.

A short recording is aligned by `row_kernels` while nothing is compiled, which takes a second or two
more, at every call if nothing else compiles. Only the program and its server start this process: a
library does not start processes in somebody else's program.

At a time there is one for each folder of kernels, by a lock of the system, which ends with its
holder. If it is killed, what it has compiled is kept, and a later command starts another: at most
MOST_STARTS a day, and none for a day after an error, which is written down.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ctc_align.errors import NOTE
from ctc_align.kernels.cpu import cpu_backend
from ctc_align.kernels.cpu.compilation import writable_folder

if TYPE_CHECKING:
    from filelock import BaseFileLock

OFF = "CTC_ALIGN_NO_BACKGROUND"
"""The environment variable that forbids the process."""
STARTS = "starts.txt"
"""Has a byte for each start that did not end well, or the last error, which is longer than
MOST_STARTS bytes."""
MOST_STARTS = 3
_DAY_S = 86400.0
_STARTING_S = 10.0
"""The time in which a process that was started holds its lock."""
_WINDOWS_FLAGS = "DETACHED_PROCESS", "CREATE_NEW_PROCESS_GROUP", "IDLE_PRIORITY_CLASS"

logger = logging.getLogger(__name__)


def compile_in_background() -> bool:
    """Start the process, and say so, where compiled kernels are missing.

    It starts if this process had to compute without compiled kernels and they are still missing.

    Return whether it was started.

    It is not started where OFF or CI is set, no folder can be written, or the system ends with this
    process, as a container does.
    """
    is_off = os.environ.get(OFF) or os.environ.get("CI") or os.getpid() == 1 or not sys.executable
    if is_off or not cpu_backend.used_rows() or cpu_backend.is_compiled():
        return False
    folder = writable_folder()
    # No process is no loss: another compiles (TimeoutError), the file system has no locks, the disk
    # is full.
    with suppress(OSError, NotImplementedError):
        if folder is None or not _claim(folder):
            return False
        path = [os.path.abspath(each) for each in sys.path]
        code = f"import sys; sys.path[:] = {path!r}; from {__name__} import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
            creationflags=sum(getattr(subprocess, name, 0) for name in _WINDOWS_FLAGS),
        )
        threading.Thread(
            target=process.wait, daemon=True
        ).start()  # else the server would keep it as a zombie
        logger.log(
            NOTE,
            "compiling kernels in the background, once for this machine (20 s of processor time, at"
            " low priority); later calls are faster. %s=1 prevents it",
            OFF,
        )
        return True
    return False


def _claim(folder: Path) -> bool:
    """Return whether a process may be started, and count the start."""
    starts = folder / STARTS
    count = 0
    with _lock(folder):
        with suppress(FileNotFoundError):
            found = starts.stat()
            age_s = abs(time.time() - found.st_mtime)
            if age_s < _STARTING_S:
                return False
            count = found.st_size if age_s < _DAY_S else 0
        if count < MOST_STARTS:
            starts.write_bytes(b"." * (count + 1))
    return count < MOST_STARTS


def _lock(folder: Path) -> BaseFileLock:
    """Return the lock of the process that compiles.

    Entering it raises TimeoutError if another process holds it.
    """
    from filelock import FileLock

    return FileLock(folder / "compiling.lock", timeout=0)


def yield_to_others() -> None:
    """Give way to everything else.

    With less than a tenth of the time, compilation on a busy machine would never end.
    """
    if hasattr(os, "nice"):
        os.nice(10)
        with suppress(OSError):  # Linux shares the processors among sessions first
            Path("/proc/self/autogroup").write_bytes(b"10")


def main() -> None:
    """Compile what is missing, in a process of its own."""
    yield_to_others()
    folder = writable_folder()
    if folder is None:
        return
    with suppress(TimeoutError), _lock(folder):
        try:
            cpu_backend.compile_default()
            if not cpu_backend.is_compiled():
                raise OSError(f"{folder}: what was compiled is not there")
            (folder / STARTS).unlink()
        except Exception:
            (folder / STARTS).write_bytes(traceback.format_exc().encode("utf-8", "replace"))
