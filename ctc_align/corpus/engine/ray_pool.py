"""Workers as actors on a Ray cluster, or on a private one on this machine.

The driver runs the same engine, plan and journal as a local run. If an actor dies, with its machine
or alone, it is replaced and its batches are repeated. Outputs are written whole or not at all, and
the driver writes one line for each utterance, no matter how often the utterance was started. Actors
end with the driver.

Ray has no passwords: anybody who reaches its ports can run code. A private cluster listens only on
the loopback address; a cluster at a given address is trusted completely. The driver and the workers
exchange dataclasses of strings and numbers (options, batches, outcomes), which Ray pickles between
its processes; no input is ever unpickled.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.batches import OUTSTANDING, Finished, Report, WorkerDied
from ctc_align.corpus.engine.stages import Stages, WarningCollector, WorkerOptions, prepare_process
from ctc_align.errors import BackendError, CtcAlignError, UsageError
from ctc_align.extras import install_line

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.corpus.engine.batches import UtteranceBatch

_FAILED_STARTS = 5
"""The actors, beyond twice the workers, that may end before they are ready by chance."""
_STORE_BYTES = 256 * 2**20
"""Shared memory of a private cluster: batches are text, results are small."""
_ADDRESS_TIMEOUT_S = 10.0
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    # Ray's daemons write to stdout, which is for data: no line of it passes
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    # a call after the end must not start another cluster
    "RAY_ENABLE_AUTO_CONNECT": "0",
}
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""With 0 Ray's processes listen on the loopback address, on any system; read when ray is loaded."""


def require_ray() -> None:
    """Raise UsageError unless Ray is installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--engine ray: needs Ray, which is an extra: {install_line('ray')}")


@dataclass
class Cluster:
    """The Ray cluster at `address`, or a private one on this machine.

    A private one starts when it is needed.
    """

    address: str | None = None
    cpus: int = 0
    gpus: int = 0
    is_ours: bool = field(default=False, init=False)

    def connect(self) -> dict[str, float]:
        """Start or join the cluster, unless this process has, and return its resources.

        Raises:
            BackendError: no cluster answers, or this version of Ray cannot join it.
        """
        _check_address(self.address)
        # much of it is read when ray is loaded
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        if not self.address:
            os.environ[_LOOPBACK] = "0"
        import ray

        if not ray.is_initialized():
            with _handlers_kept(), _silence(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    ray.init(**self._options())
                except Exception as error:
                    what = "Ray"
                    if self.address:
                        what = f"--address {self.address}: no Ray cluster that can be joined"
                    raise BackendError(f"{what}: {_last_line(error)}") from error
            self.is_ours = True
        return ray.cluster_resources()

    def _options(self) -> dict[str, Any]:
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address:
            return {"address": self.address, **quiet}
        resources = {
            "num_cpus": self.cpus,
            "num_gpus": self.gpus,
            "object_store_memory": _STORE_BYTES,
        }
        return {"address": "local", **resources, "include_dashboard": False, **quiet}

    def leave(self) -> None:
        """End what `connect` started."""
        if self.is_ours:
            import ray

            self.is_ours = False
            ray.shutdown()


def enter_folder(folder: str, lock: str) -> None:
    """Change to the driver's folder, so that relative paths are the same here.

    Raises:
        BackendError: this machine does not see the output folder, which holds the file `lock`.
    """
    with contextlib.suppress(OSError):
        os.chdir(folder)
    if not os.path.exists(lock):
        raise BackendError(
            f"{socket.gethostname()}: does not see {os.path.dirname(lock)}, or another folder of"
            " that name: with --engine ray all machines need --out-dir and the audio under the"
            " same paths"
        )


class RayWorker:
    """An actor with the model; calls of `work` overlap: one reads, one computes, one writes."""

    def load(self, options: WorkerOptions, folder: str, lock: str) -> CtcAlignError | None:
        """Load the model, in the driver's `folder`, which must have the run's `lock`."""
        prepare_process(options)
        try:
            enter_folder(folder, lock)
            self._stages = Stages(options, self.aligner(), WarningCollector())
        except CtcAlignError as error:
            return error
        return None

    def aligner(self) -> Aligner | None:
        """Return an aligner to use instead of the one that the options name."""
        return None

    def work(self, batch: UtteranceBatch) -> Finished | CtcAlignError:
        """Process a batch."""
        return self._stages.work(batch)


@dataclass
class _Actor:
    """An actor, and its batches; it is `closed` while it must have only one."""

    handle: Any
    is_ready: bool = False
    closed: bool = False
    batches: list[UtteranceBatch] = field(default_factory=list)


class RayPool:
    """`workers` actors with one CPU and `gpus` GPUs each; they start with the first batch.

    Every machine must see the folder of the run, and in it the file `lock`, at the same path.
    """

    worker: type[RayWorker] = RayWorker

    def __init__(
        self, cluster: Cluster, options: WorkerOptions, lock: str, workers: int, gpus: float = 0.0
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._lock = lock
        self._workers = workers
        self._gpus = gpus
        self._actors: list[_Actor] = []
        self._calls: dict[Any, tuple[_Actor, UtteranceBatch | None]] = {}
        """Keyed by Ray's reference to the answer; the batch is None while the actor loads."""
        self._failed_starts = 0

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        """End the actors, and the cluster if this process started it."""
        for actor in list(self._actors):
            self._remove(actor)
        self._cluster.leave()

    @property
    def busy(self) -> int:
        """The number of batches that are assigned to actors."""
        return sum(len(actor.batches) for actor in self._actors)

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        """Give a batch to the actor with the least to do; return False if none has room.

        With `alone`, give it to an idle actor, which gets no other batch until this one is
        reported.
        """
        self._start_missing()
        most = 1 if alone else OUTSTANDING
        ready = [
            actor
            for actor in self._actors
            if actor.is_ready and not actor.closed and len(actor.batches) < most
        ]
        if not ready:
            return False
        actor = min(ready, key=lambda actor: len(actor.batches))
        actor.batches.append(batch)
        actor.closed = alone
        self._calls[actor.handle.work.remote(batch)] = actor, batch
        return True

    def events(self, timeout_s: float) -> Iterator[Report]:
        """Yield what actors have reported, after waiting at most `timeout_s` for it."""
        if not self._calls:
            time.sleep(timeout_s)
            return
        import ray

        done, _ = ray.wait(list(self._calls), timeout=timeout_s)
        if done:
            done, _ = ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        # what an actor did before its end counts as done
        results = sorted(
            ((call, _result(call)) for call in done),
            key=lambda pair: isinstance(pair[1], Exception),
        )
        for call, result in results:
            if call in self._calls:
                yield from self._answer(call, result)

    def kill(self) -> None:
        """End all actors at once."""
        self._cluster.leave()

    def _start_missing(self) -> None:
        """Start actors up to the number of workers; those that the cluster has no room for wait."""
        if len(self._actors) == self._workers:
            return
        self._cluster.connect()
        import ray

        kind = ray.remote(self.worker).options(
            num_cpus=1, num_gpus=self._gpus or None, max_concurrency=OUTSTANDING
        )
        while len(self._actors) < self._workers:
            actor = _Actor(kind.remote())
            self._actors.append(actor)
            self._calls[actor.handle.load.remote(self._options, os.getcwd(), self._lock)] = (
                actor,
                None,
            )

    def _answer(self, call: Any, result: Any) -> Iterator[Report]:
        actor, batch = self._calls[call]
        # an error that a call has returned; Ray's own errors may be of this type, too, by what they
        # wrap
        is_of_run = isinstance(result, CtcAlignError) and not _is_of_task(result)
        if isinstance(result, Exception) and not is_of_run and not _is_of_task(result):
            yield from self._died(actor)
            return
        del self._calls[call]
        if is_of_run:
            yield result
        elif batch is None:
            actor.is_ready = True
            if isinstance(result, Exception):
                yield BackendError(f"a worker on Ray fails: {_last_line(result)}")
        else:
            actor.batches.remove(batch)
            actor.closed = False
            if isinstance(result, Exception):
                yield WorkerDied((batch,), _last_line(result), was_ready=True)
            else:
                yield result

    def _died(self, actor: _Actor) -> Iterator[Report]:
        """Replace an actor that has ended."""
        self._remove(actor)
        if not actor.is_ready:
            self._failed_starts += 1
            if self._failed_starts > 2 * self._workers + _FAILED_STARTS:
                yield BackendError(
                    "Ray's workers die while they load the model; try fewer --workers"
                )
        if actor.batches:
            yield WorkerDied(
                tuple(actor.batches), "Ray's worker ended: out of memory?", True, from_outside=True
            )
        self._start_missing()

    def _remove(self, actor: _Actor) -> None:
        import ray

        self._actors.remove(actor)
        self._calls = {
            call: (other, batch)
            for call, (other, batch) in self._calls.items()
            if other is not actor
        }
        with contextlib.suppress(Exception):  # it may have ended, or the cluster
            ray.kill(actor.handle)


def _result(call: Any) -> Any:
    """Return the answer to a call, or its error."""
    import ray

    try:
        return ray.get(call)
    except ray.exceptions.RayError as error:
        return error


def _is_of_task(error: Exception) -> bool:
    """Return whether a call has raised an error in an actor that is still alive."""
    import ray

    return isinstance(error, ray.exceptions.RayTaskError)


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Keep the handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what is written to stderr.

    Ray's library in C++ writes there before it reads its settings.
    """
    with open(os.devnull, "wb") as nowhere:
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _check_address(address: str | None) -> None:
    """Raise BackendError if nothing listens at an address; Ray itself would wait for minutes."""
    match = re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+?)\]?:(\d{1,5})", address or "")
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), _ADDRESS_TIMEOUT_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise BackendError(
            f"--address {address}: nobody answers there ({error}); expected HOST:PORT of a Ray"
            " cluster's head"
        ) from error


def _last_line(error: BaseException) -> str:
    """Return an error as one line.

    Of an error on another machine, it is the one that was raised there.
    """
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1] if lines else 'no reason given'}"
