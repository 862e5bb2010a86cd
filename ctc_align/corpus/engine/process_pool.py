"""Worker processes on this machine: started, given batches, replaced when they die, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.pool_messages import (
    OUTSTANDING,
    BatchDone,
    Finished,
    Ready,
    RunFailed,
    WorkerDied,
)
from ctc_align.corpus.engine.stages import WorkerOptions
from ctc_align.corpus.engine.worker import STOPPING, work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ctc_align.corpus.engine.batch_plan import UtteranceBatch

_PATIENCE_S = 5.0
_FROM_OUTSIDE = (getattr(signal, "SIGKILL", None), *STOPPING)
"""Signals that no crash sends."""


@dataclass
class _Slot:
    """One place for a worker, and the process that has it now; it is `closed` while that has a batch alone."""

    device: str
    process: Any = None
    pipe: Connection | None = None
    life: Connection | None = None
    ready: bool = False
    closed: bool = False
    batches: deque[UtteranceBatch] = field(default_factory=deque)


class ProcessPool:
    """Processes on this machine, at most one for each of `devices`.

    One starts when there is a batch that the others are too busy for.
    """

    def __init__(self, options: WorkerOptions, devices: Sequence[str]) -> None:
        self._options = options
        self._context = multiprocessing.get_context("spawn")
        self._slots = [_Slot(device) for device in devices]
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> ProcessPool:
        with contextlib.suppress(OSError):  # without it each worker compiles, if no other place can be written either
            folder = self._ends.enter_context(
                tempfile.TemporaryDirectory(prefix="ctc-align-", ignore_cleanup_errors=True)
            )
            self._options = replace(self._options, shared_kernels=folder)
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Let the workers end by themselves, or kill them after an error."""
        for slot in self._slots:
            if kind is None:
                _send(slot, None)
        for slot in self._slots:
            self._end(slot, gently=kind is None)
        self._ends.close()

    @property
    def busy(self) -> int:
        """The number of batches that workers have."""
        return sum(len(slot.batches) for slot in self._slots)

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        """Give a batch to the worker with the least to do; return False where none has room.

        With `alone` to an idle worker, which gets no other batch until this one is reported.
        """
        most = 1 if alone else OUTSTANDING
        slots = [slot for slot in self._slots if not slot.closed and len(slot.batches) < most]
        if not slots:
            return False
        # an idle worker before one that would have to start, and that before one that works
        slot = min(slots, key=lambda slot: (len(slot.batches), slot.process is None))
        if slot.process is None:
            self._start(slot)
        slot.batches.append(batch)
        slot.closed = alone
        if slot.ready:
            _send(slot, batch)
        return True

    def events(self, timeout_s: float) -> Iterator[BatchDone | RunFailed | WorkerDied]:
        """Yield what workers have reported, after waiting for it at most so long."""
        pipes = [slot.pipe for slot in self._slots if slot.pipe is not None]
        if not pipes:
            time.sleep(timeout_s)
        readable = connection.wait(pipes, timeout_s) if pipes else []
        for slot in [slot for slot in self._slots if slot.pipe in readable]:
            assert slot.pipe is not None
            try:
                message: Any = slot.pipe.recv()
            except (EOFError, OSError):
                yield self._remove_dead(slot)
                continue
            if isinstance(message, Ready):
                slot.ready = True
                for batch in slot.batches:
                    _send(slot, batch)
                continue
            if isinstance(message, Finished):
                batch = slot.batches.popleft()
                slot.closed = False
                assert batch.number == message.number
                yield BatchDone(batch, message)
            else:
                yield message

    def kill(self) -> None:
        """End all workers at once."""
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()

    def _start(self, slot: _Slot) -> None:
        slot.pipe, theirs = self._context.Pipe()
        slot.life, watched = self._context.Pipe()
        options = replace(self._options, device=slot.device)
        slot.process = self._context.Process(
            target=work, args=(theirs, watched, os.getpid(), options), name="ctc-align worker", daemon=True
        )
        with _signals_held():
            slot.process.start()
        theirs.close()
        watched.close()
        slot.ready = False

    def _remove_dead(self, slot: _Slot) -> WorkerDied:
        slot.process.join(_PATIENCE_S)
        code = slot.process.exitcode
        died = WorkerDied(tuple(slot.batches), _how(code), slot.ready, code is None or -code in _FROM_OUTSIDE)
        self._end(slot, gently=False)
        slot.batches.clear()
        slot.closed = False
        return died

    def _end(self, slot: _Slot, gently: bool) -> None:
        if slot.process is None:
            return
        if gently and slot.ready:
            slot.process.join(_PATIENCE_S)
        slot.process.kill()
        slot.process.join()
        slot.process.close()
        slot.process = None
        for end in (slot.pipe, slot.life):
            if end is not None:
                end.close()
        slot.pipe = slot.life = None


def _send(slot: _Slot, batch: UtteranceBatch | None) -> None:
    """Send to a worker; `events` reports one that has died, with its batches."""
    if slot.pipe is not None:
        with contextlib.suppress(OSError):
            slot.pipe.send(batch)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Start processes in this block: signals that end a run wait, in them until they ignore them.

    A terminal and a batch system send such a signal to all processes of a run, whose workers end with their batches.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # its start, in the first worker's, would let the signals pass
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(exitcode: int | None) -> str:
    """Return what ended a process, in words.

    >>> _how(-9), _how(1)
    ('killed by SIGKILL: out of memory?', 'exit code 1')
    """
    if exitcode is None or exitcode >= 0:
        return f"exit code {exitcode}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-exitcode).name
        return f"killed by {name}" + (": out of memory?" if name == "SIGKILL" else "")
    return f"killed by signal {-exitcode}"
