"""A worker: one process with the model in it. Three threads read the next batch, align this one and write the last.

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.stages import Broken, Load, Stages, WorkerOptions, limit_threads
from ctc_align.errors import CtcAlignError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

AHEAD = 1
"""Batches that wait between two threads."""


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""

    device: str


def work(pipe: Connection, life: Connection, parent: int, options: WorkerOptions) -> None:
    """The whole life of a worker: batches come by `pipe`, `Finished` goes back; None ends it, and so does `life`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _die_with(parent, life)
    limit_threads(options.threads)
    try:
        _Worker(pipe, options).run()
    except CtcAlignError as error:
        pipe.send(Broken(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)


def _die_with(parent: int, life: Connection) -> None:
    """End when the parent does: at once, by the kernel's hand, where it can, else when the other end of `life` goes."""
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
        self.stages = Stages(options)
        self.pipe.send(Ready(self.stages.device))
        self.loaded: queue.Queue[Load | None] = queue.Queue(AHEAD)
        self.aligned: queue.Queue[Load | None] = queue.Queue(AHEAD)

    def run(self) -> None:
        threading.Thread(target=_or_end(self._read), daemon=True).start()
        writer = threading.Thread(target=_or_end(self._write))
        writer.start()
        while True:
            started = time.perf_counter()
            load = self.loaded.get()
            if load is None:
                break
            load.stages["waiting"] = time.perf_counter() - started
            self.stages.align(load)
            self.aligned.put(load)
        self.aligned.put(None)
        writer.join()

    def _read(self) -> None:
        while (batch := self.pipe.recv()) is not None:
            self.loaded.put(self.stages.read(batch))
        self.loaded.put(None)

    def _write(self) -> None:
        while (load := self.aligned.get()) is not None:
            message = self.stages.write(load)
            self.pipe.send(message)
            if isinstance(message, Broken):
                return


def _or_end(target: Any) -> Any:
    """A thread whose failure ends the process: the parent then knows, and does its batch again."""

    def run() -> None:
        try:
            target()
        except (EOFError, OSError):  # the parent is gone
            os._exit(1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    return run
