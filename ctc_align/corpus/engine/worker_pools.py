"""The workers of a run, each with its device.

They are processes on this machine, or actors on a Ray cluster. A worker process is started by
`spawn`, never forked. Its three threads read the next batch, compute the current one and write the
previous one. It ends with the process that started it: on Linux by a signal, elsewhere because its
pipe ends.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.batches import OUTSTANDING, Finished, Pool, Report, WorkerDied
from ctc_align.corpus.engine.stages import (
    BatchState,
    Stages,
    WarningCollector,
    WorkerOptions,
    prepare_process,
)
from ctc_align.errors import BackendError, CtcAlignError, UsageError
from ctc_align.machine.own_folders import own_folder
from ctc_align.models import AUTO, EMBEDDED
from ctc_align.models.acoustic_model import gpu_count, resolve_device
from ctc_align.threads import cpu_count

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ctc_align.corpus.engine.batches import UtteranceBatch

LOCAL, RAY = "local", "ray"
STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
"""Signals that end a run and are often sent to all of its processes.

Workers ignore them, and end when the parent tells them to.
"""
_WAITING = 1
"""Batches that wait between two threads."""
_PATIENCE_S = 5.0
_FROM_OUTSIDE = (getattr(signal, "SIGKILL", None), *STOPPING)
"""Signals that no crash sends."""


@dataclass(frozen=True)
class PoolSettings:
    """`--engine`, `--workers`, `--address` and `--gpus-per-worker`.

    None: by what the machine or the cluster has.
    """

    engine: str = LOCAL
    workers: int | None = None
    address: str | None = None
    gpus_per_worker: float | None = None

    def check(self, device: str) -> None:
        """Raise UsageError for options that exclude each other, or if Ray is not installed."""
        if self.engine not in ENGINES:
            raise UsageError(f"--engine: expected one of {', '.join(ENGINES)}, got {self.engine}")
        if self.workers is not None and self.workers < 1:
            raise UsageError(f"--workers: expected a whole number above 0, got {self.workers}")
        if self.engine == LOCAL:
            for option, value in (
                ("--address", self.address),
                ("--gpus-per-worker", self.gpus_per_worker),
            ):
                if value is not None:
                    raise UsageError(f"{option} {value}: needs --engine ray")
            return
        from ctc_align.corpus.engine.ray_pool import require_ray

        require_ray()
        gpus = self.gpus_per_worker
        if gpus is not None and not 0 <= gpus < math.inf:
            raise UsageError(
                f"--gpus-per-worker: expected a number from 0 up (0.5: two share one), got {gpus:g}"
            )
        if device.startswith("cuda:"):
            raise UsageError(
                f"--device {device}: with --engine ray, Ray says which GPU a worker has: give cuda"
            )
        if gpus and device not in ("auto", "cuda"):
            raise UsageError(f"--gpus-per-worker {gpus:g} and --device {device}: give one of them")
        if gpus == 0 and device == "cuda":
            raise UsageError("--device cuda: needs --gpus-per-worker above 0")


def device_for_model(model: str | None, device: str, warn: Callable[[str], None]) -> str:
    """Return the device of a run: `auto` is the CPU for the models inside the package.

    They are too small for a GPU: a corpus of short recordings took 17 s with an H100 and 11 s with
    one worker on the CPU. Whoever names a GPU gets it.
    """
    if model not in (AUTO, *EMBEDDED) or not (device == "auto" or device.startswith("cuda")):
        return device
    if device == "auto":
        taken = "cpu"
        note = "the models inside run on the CPU, which is faster; --device cuda takes the GPU"
    else:
        taken = device
        note = f"--device {device}: the models inside are faster on the CPU (--device auto)"
    if gpu_count():
        warn(f"note: {note}")
    return taken


PoolPlan = tuple[int, str, Callable[["WorkerOptions"], AbstractContextManager[Pool]]]
"""The number of workers, their kind of device, and the function that starts them.

The function takes a run's options.
"""


def plan_pool(
    settings: PoolSettings, device: str, lock: str, warn: Callable[[str], None]
) -> PoolPlan:
    """Return the plan of the run's workers.

    Args:
        lock: the file that the run holds in the output folder, which all workers must see.

    Raises:
        BackendError: there is no cluster at the address, or it lacks the resources that a worker
            needs.
    """
    if settings.engine == RAY:
        return _on_ray(settings, device, lock, warn)
    devices = devices_for(device, settings.workers)
    return len(devices), devices[0], lambda options: ProcessPool(options, devices)


def _on_ray(
    settings: PoolSettings, device: str, lock: str, warn: Callable[[str], None]
) -> PoolPlan:
    from ctc_align.corpus.engine.ray_pool import Cluster, RayPool

    cluster = Cluster(settings.address)
    if settings.address is None:
        cpus = cpu_count()
        gpus = 0
        if device in ("auto", "cuda"):
            gpus = gpu_count()
    else:
        resources = cluster.connect()
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    each = settings.gpus_per_worker
    if each is None:
        each = 0.0
        if device == "cuda" or (device == "auto" and gpus):
            each = 1.0
    capacity = int(gpus / each) if each else cpus
    workers = settings.workers or capacity
    if not workers or (each and each > gpus and settings.address is None):
        raise BackendError(
            f"--engine ray: a worker needs {_need(each)}, got {gpus} GPUs and {cpus} CPUs"
        )
    if settings.address is None:
        cluster.cpus = workers
        cluster.gpus = gpus
    elif workers > capacity:
        warn(
            f"the cluster has room for {capacity} of {workers} workers ({_need(each)} each); the"
            " others wait for more"
        )
    if each:
        kind = "cuda"
    elif device in ("auto", "cuda"):
        kind = "cpu"
    else:
        kind = device
    lock = os.path.abspath(lock)
    return (
        workers,
        kind,
        lambda options: RayPool(cluster, replace(options, device=kind), lock, workers, each),
    )


def _need(gpus: float) -> str:
    return f"{gpus:g} GPUs and a CPU" if gpus else "a CPU"


def devices_for(device: str, workers: int | None) -> list[str]:
    """Return the device of each worker.

    There is a worker for each core of the CPU, or for each GPU, unless `workers` is set.
    """
    gpus = gpu_count() if device in ("auto", "cuda") else 0
    if gpus:
        return [f"cuda:{i % gpus}" for i in range(workers or gpus)]
    if device in ("auto", "cpu"):
        return ["cpu"] * (workers or cpu_count())
    return [str(resolve_device(device))] * (workers or 1)


@dataclass
class _Slot:
    """A slot for a worker, and its present process.

    It is `closed` while the process must have only one batch.
    """

    device: str
    process: Any = None
    pipe: Connection | None = None
    life: Connection | None = None
    ready: bool = False
    closed: bool = False
    batches: deque[UtteranceBatch] = field(default_factory=deque)


class ProcessPool:
    """Processes on this machine, at most one for each of `devices`.

    A process starts when there is a batch for which the others are too busy.
    """

    def __init__(self, options: WorkerOptions, devices: Sequence[str]) -> None:
        self._options = options
        self._context = multiprocessing.get_context("spawn")
        self._slots = [_Slot(device) for device in devices]
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> ProcessPool:
        with contextlib.suppress(
            OSError
        ):  # without it each worker compiles, if no other folder can be written
            folder = self._ends.enter_context(own_folder("ctc-align-corpus-"))
            self._options = replace(self._options, shared_kernels=os.fspath(folder))
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
        """The number of batches that are assigned to workers."""
        return sum(len(slot.batches) for slot in self._slots)

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        """Give a batch to the worker with the least to do; return False if none has room.

        With `alone`, give it to an idle worker, which gets no other batch until this one is
        reported.
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

    def events(self, timeout_s: float) -> Iterator[Report]:
        """Yield what workers have reported, after waiting at most `timeout_s` for it."""
        pipes = [slot.pipe for slot in self._slots if slot.pipe is not None]
        if not pipes:
            time.sleep(timeout_s)
        if pipes:
            readable = connection.wait(pipes, timeout_s)
        else:
            readable = []
        for slot in [slot for slot in self._slots if slot.pipe in readable]:
            assert slot.pipe is not None
            try:
                message: Any = slot.pipe.recv()
            except (EOFError, OSError):
                yield self._remove_dead(slot)
                continue
            if message is None:  # the worker has loaded its model
                slot.ready = True
                for batch in slot.batches:
                    _send(slot, batch)
                continue
            if isinstance(message, Finished):
                batch = slot.batches.popleft()
                slot.closed = False
                assert batch.number == message.number
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
            target=work,
            args=(theirs, watched, os.getpid(), options),
            name="ctc-align worker",
            daemon=True,
        )
        with _signals_held():
            slot.process.start()
        theirs.close()
        watched.close()
        slot.ready = False

    def _remove_dead(self, slot: _Slot) -> WorkerDied:
        slot.process.join(_PATIENCE_S)
        code = slot.process.exitcode
        died = WorkerDied(
            tuple(slot.batches), _how(code), slot.ready, code is None or -code in _FROM_OUTSIDE
        )
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
    """Block the signals that end a run while processes start.

    They arrive only once the processes ignore them. Terminals and batch systems send such a signal
    to all processes of a run; its workers finish their batches first.
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
    """Return the cause of a process's end, in words.

    >>> _how(-9), _how(1)
    ('killed by SIGKILL: out of memory?', 'exit code 1')
    """
    if exitcode is None or exitcode >= 0:
        return f"exit code {exitcode}"
    with contextlib.suppress(ValueError):
        name = signal.Signals(-exitcode).name
        return f"killed by {name}" + (": out of memory?" if name == "SIGKILL" else "")
    return f"killed by signal {-exitcode}"


def work(pipe: Connection, life: Connection, parent: int, options: WorkerOptions) -> None:
    """Run a worker: receive batches by `pipe`, send `Finished` back.

    None, or the end of `life`, ends the worker.
    """
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    _die_with(parent, life)
    prepare_process(options)
    try:
        _Worker(pipe, options).run()
    except CtcAlignError as error:
        pipe.send(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)


def _die_with(parent: int, life: Connection) -> None:
    """End this process when its parent ends.

    The kernel ends it at once where it can, otherwise it ends when the other end of `life` closes.
    """
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
        self.pipe.send(None)  # the model is loaded
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
            if isinstance(message, CtcAlignError):
                return


def _ending_the_process(target: Callable[[], None]) -> Callable[[], None]:
    """Wrap `target` so that an error in it ends the process.

    The parent notices and repeats the batch.
    """

    def run() -> None:
        try:
            target()
        except (EOFError, OSError):  # the parent is gone
            os._exit(1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)

    return run


ENGINES = (LOCAL, RAY)
