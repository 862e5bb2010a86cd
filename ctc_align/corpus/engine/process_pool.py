"""Worker processes as the parent sees them: started, fed, listened to, replaced when they die, ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Protocol

from ctc_align.corpus.engine.stages import Broken, Finished, WorkerOptions
from ctc_align.corpus.engine.worker import Ready, work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ctc_align.corpus.engine.batch_plan import Batch

OUTSTANDING = 3
"""Batches that a worker has at most: one is read, one aligned, one written. With more, sending could block."""
_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Answer:
    """A batch that is done."""

    batch: Batch
    finished: Finished


@dataclass(frozen=True)
class Died:
    """A worker is gone; `batches` are what it had, in order, `how` says what ended it."""

    batches: tuple[Batch, ...]
    how: str
    was_ready: bool


@dataclass
class _Slot:
    """One place for a worker, and the process that has it now."""

    device: str
    process: Any = None
    pipe: Connection | None = None
    life: Connection | None = None
    ready: bool = False
    batches: deque[Batch] = field(default_factory=deque)


class Pool(Protocol):
    """Workers, wherever they are, as the engine sees them. At the end of its `with` block they end, or are killed."""

    @property
    def busy(self) -> int:
        """Batches that are with workers."""

    def offer(self, batch: Batch, alone: bool = False) -> bool:
        """Give a batch to a worker; False if none has room. `alone`: to one that has nothing else meanwhile."""

    def events(self, timeout_s: float) -> Iterator[Answer | Broken | Died]:
        """What workers have to say, waiting for it at most so long."""

    def kill(self) -> None:
        """End them at once."""


class Processes:
    """Processes on this machine, at most one for each of `devices`.

    One starts when there is a batch that the others are too busy for.
    """

    def __init__(self, options: WorkerOptions, devices: Sequence[str]) -> None:
        self._options = options
        self._context = multiprocessing.get_context("spawn")
        self._slots = [_Slot(device) for device in devices]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Let them end by themselves, or kill them after an error."""
        for slot in self._slots:
            if kind is None:
                _send(slot, None)
        for slot in self._slots:
            self._end(slot, gently=kind is None)

    @property
    def busy(self) -> int:
        """Batches that are with workers."""
        return sum(len(slot.batches) for slot in self._slots)

    def offer(self, batch: Batch, alone: bool = False) -> bool:
        """Give a batch to the worker with the least to do; False if none has room. `alone`: to an idle one only."""
        # an idle worker before one that would have to start, and that before one that works
        slot = min(self._slots, key=lambda slot: (len(slot.batches), slot.process is None))
        if len(slot.batches) >= (1 if alone else OUTSTANDING):
            return False
        if slot.process is None:
            self._start(slot)
        slot.batches.append(batch)
        if slot.ready:
            _send(slot, batch)
        return True

    def events(self, timeout_s: float) -> Iterator[Answer | Broken | Died]:
        """What workers have to say, waiting for it at most so long."""
        pipes = [slot.pipe for slot in self._slots if slot.pipe is not None]
        if not pipes:
            time.sleep(timeout_s)
        heard = connection.wait(pipes, timeout_s) if pipes else []
        for slot in [slot for slot in self._slots if slot.pipe in heard]:
            assert slot.pipe is not None
            try:
                message: Any = slot.pipe.recv()
            except (EOFError, OSError):
                yield self._bury(slot)
                continue
            if isinstance(message, Ready):
                slot.ready = True
                for batch in slot.batches:
                    _send(slot, batch)
                continue
            if isinstance(message, Finished):
                batch = slot.batches.popleft()
                assert batch.number == message.number
                yield Answer(batch, message)
            else:
                yield message

    def kill(self) -> None:
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
        with _interrupts_ignored():
            slot.process.start()
        theirs.close()
        watched.close()
        slot.ready = False

    def _bury(self, slot: _Slot) -> Died:
        slot.process.join(_PATIENCE_S)
        died = Died(tuple(slot.batches), _how(slot.process.exitcode), slot.ready)
        self._end(slot, gently=False)
        slot.batches.clear()
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


def _send(slot: _Slot, batch: Batch | None) -> None:
    """To a worker that reads; one that has died is told of by `events`, and its batches with it."""
    if slot.pipe is not None:
        with contextlib.suppress(OSError):
            slot.pipe.send(batch)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process that is started here ignores Ctrl-C from its first moment."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread: it has no say
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _how(exitcode: int | None) -> str:
    """
    >>> _how(-9), _how(1)
    ('killed by SIGKILL: out of memory?', 'exit code 1')
    """
    if exitcode is None or exitcode >= 0:
        return f"exit code {exitcode}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-exitcode).name
        return f"killed by {name}" + (": out of memory?" if name == "SIGKILL" else "")
    return f"killed by signal {-exitcode}"
