"""A worker process with the model in it. Three threads read the next batch, compute this one and write the last.

Started by `spawn`, never forked. It ends with the process that started it: by a signal where the system has one
(Linux), and because its pipe ends everywhere else.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ctc_align.corpus.engine.pool_messages import Ready, RunFailed
from ctc_align.corpus.engine.stages import BatchState, Stages, WarningCollector, WorkerOptions, prepare_process
from ctc_align.errors import CtcAlignError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

STOPPING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Signals by which a run is ended, often all of its processes: workers ignore them, and end when the parent says so."""
_WAITING = 1
"""Batches that wait between two threads."""


def work(pipe: Connection, life: Connection, parent: int, options: WorkerOptions) -> None:
    """Run a worker: batches come by `pipe`, `Finished` goes back; None ends it, and so does the end of `life`."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    _die_with(parent, life)
    prepare_process(options)
    try:
        _Worker(pipe, options).run()
    except CtcAlignError as error:
        pipe.send(RunFailed(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)


def _die_with(parent: int, life: Connection) -> None:
    """End when the parent does: at once, by the kernel, where it can, else when the other end of `life` goes."""
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if hasattr(os, "getppid") and os.getppid() != parent:
        os._exit(1)

    def watch() -> None:
        with contextlib.suppress(OSError, EOFError):
            life.recv()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Worker:
    def __init__(self, pipe: Connection, options: WorkerOptions) -> None:
        self.pipe = pipe
        self.stages = Stages(options, warnings=WarningCollector())
        self.pipe.send(Ready(self.stages.device))
        self.read: queue.Queue[BatchState | None] = queue.Queue(_WAITING)
        self.computed: queue.Queue[BatchState | None] = queue.Queue(_WAITING)

    def run(self) -> None:
        threading.Thread(target=_ending_the_process(self._read), daemon=True).start()
        writer = threading.Thread(target=_ending_the_process(self._write))
        writer.start()
        while True:
            started = time.perf_counter()
            state = self.read.get()
            if state is None:
                break
            state.stages["waiting"] = time.perf_counter() - started
            self.stages.compute(state)
            self.computed.put(state)
        self.computed.put(None)
        writer.join()

    def _read(self) -> None:
        while (batch := self.pipe.recv()) is not None:
            self.read.put(self.stages.read(batch))
        self.read.put(None)

    def _write(self) -> None:
        while (state := self.computed.get()) is not None:
            message = self.stages.write(state)
            self.pipe.send(message)
            if isinstance(message, RunFailed):
                return


def _ending_the_process(target: Callable[[], None]) -> Callable[[], None]:
    """Return `target` so that an error in it ends the process: the parent sees that, and has its batch done again."""

    def run() -> None:
        try:
            target()
        except (EOFError, OSError):  # the parent is gone
            os._exit(1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    return run
