"""The workers of a run as actors of a Ray Data job, on this machine or on a cluster.

The engine, the plan and the journal are those of the local engine, in the driver. One row of the job's dataset is one
batch of the plan; a read task streams the rows from a `Feed`, to which the driver puts them as it plans them. Ray
starts actors that die again, and repeats what they had begun; outputs take their places whole, and the driver writes
one line for each utterance, whatever Ray repeats.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import pickle
import queue
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctc_align.corpus.engine.process_pool import OUTSTANDING, Answer, Died
from ctc_align.corpus.engine.ray_worker import Actor, Feed, Lost, Site
from ctc_align.corpus.engine.stages import Broken, Finished, WorkerOptions
from ctc_align.errors import BackendError, UsageError

if TYPE_CHECKING:
    from ctc_align.corpus.engine.batch_plan import Batch

_AHEAD = OUTSTANDING + 2
"""Batches for each actor that are on their way."""
_MOST_ROWS = 20_000
"""Batches of one job: Ray Data keeps statistics of each block, so a job is ended and another begun."""
_MOST_FAILURES = 3
"""Jobs that fail in a row without one batch done."""
_STORE_BYTES = 256 * 2**20
"""Shared memory of a local cluster: rows are text, results are small."""
_PATIENCE_S = 20.0
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    # what Ray's daemons say goes to stdout, which is for data: no line of it passes
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^",
    # a job that still runs after the end must not start a cluster of its own
    "RAY_ENABLE_AUTO_CONNECT": "0",
}


def require_ray() -> None:
    """
    Raises:
        UsageError: Ray Data is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in ("ray", "pyarrow")):
        raise UsageError("--engine ray: needs Ray Data, which is an extra: pip install 'ctc-align[ray]'")


@dataclass
class Cluster:
    """A cluster of Ray's: that at `address`, or one of our own on this machine, which starts when it is needed."""

    address: str | None = None
    cpus: int = 0
    gpus: int = 0
    is_ours: bool = field(default=False, init=False)

    def connect(self) -> dict[str, float]:
        """Start or join it, unless this process is in one; returns what it has.

        Raises:
            BackendError: no cluster answers, or it is none that this Ray can join.
        """
        _check_address(self.address)
        # much of it is read when ray is loaded
        for name, value in _QUIET.items():
            os.environ.setdefault(name, value)
        import ray.data

        for handler in logging.getLogger("ray.data").handlers:
            if isinstance(handler, logging.StreamHandler):  # its log files stay
                handler.setLevel(logging.CRITICAL)
        if not ray.is_initialized():
            with _handlers_kept(), _silence(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    ray.init(**self._options())
                except Exception as error:
                    what = (
                        f"--address {self.address}: no cluster of Ray's that can be joined" if self.address else "Ray"
                    )
                    raise BackendError(f"{what}: {_first_line(error)}") from error
            self.is_ours = True
        return ray.cluster_resources()

    def _options(self) -> dict[str, Any]:
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self.address:
            return {"address": self.address, **quiet}
        own = {"num_cpus": self.cpus, "num_gpus": self.gpus, "object_store_memory": _STORE_BYTES}
        return {"address": "local", **own, "include_dashboard": False, **quiet}

    def leave(self) -> None:
        """End what `connect` started."""
        if self.is_ours:
            import ray

            self.is_ours = False
            ray.shutdown()


@dataclass
class _Job:
    """One Ray Data job, and the batches that it has to do, by number with their places."""

    feed: Any
    places: dict[int, int] = field(default_factory=dict)
    put: int = 0
    is_closed: bool = False
    did_something: bool = False
    thread: threading.Thread | None = None


class RayPool:
    """`workers` actors with `gpus` GPUs each (0: with one CPU); they start with the first batch."""

    actor: type[Actor] = Actor

    def __init__(self, cluster: Cluster, options: WorkerOptions, site: Site, gpus: float = 0.0) -> None:
        self._cluster = cluster
        self._options = options
        self._site = site
        self._gpus = gpus
        self._batches: dict[int, tuple[Batch, bool]] = {}
        self._heard: queue.Queue[tuple[_Job, Any]] = queue.Queue()
        self._job: _Job | None = None
        self._failures = 0

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Let the job end by itself, or leave it after an error."""
        try:
            if self._job is not None:
                self._close(self._job)
            if self._job is not None and self._job.thread is not None:
                self._job.thread.join(_PATIENCE_S if kind is None else _PATIENCE_S / 10)
        finally:
            self._cluster.leave()

    @property
    def busy(self) -> int:
        return len(self._batches)

    def offer(self, batch: Batch, alone: bool = False) -> bool:
        if len(self._batches) >= _AHEAD * self._site.workers:
            return False
        self._batches[batch.number] = batch, alone
        if self._job is None:
            self._begin()
        elif not self._job.is_closed:
            self._put(self._job, batch.number)
        return True

    def events(self, timeout_s: float) -> Iterator[Answer | Broken | Died]:
        with contextlib.suppress(queue.Empty):
            job, message = self._heard.get(timeout=timeout_s)
            while True:
                if job is self._job:
                    yield from self._understood(job, message)
                job, message = self._heard.get_nowait()

    def kill(self) -> None:
        self._cluster.leave()

    def _understood(self, job: _Job, message: Any) -> Iterator[Answer | Broken | Died]:
        if isinstance(message, _Over):
            yield from self._go_on(job, message)
        elif isinstance(message, Broken):
            yield message
        elif isinstance(message, (Finished, Lost)) and message.number in self._batches:
            batch, _ = self._batches.pop(message.number)
            job.feed.forget.remote(job.places.pop(message.number))
            job.did_something = True
            if isinstance(message, Finished):
                yield Answer(batch, message)
            else:
                yield Died((batch,), message.how, was_ready=True)

    def _go_on(self, job: _Job, over: _Over) -> Iterator[Broken]:
        """A job has ended; what it has not done is another's."""
        self._job = None
        self._failures = 0 if job.did_something else self._failures + 1
        if over.error is not None and self._failures >= _MOST_FAILURES:
            yield Broken(BackendError(f"the job on Ray fails: {_first_line(over.error)}"))
        elif self._batches:
            time.sleep(min(self._failures, 1))
            self._begin()

    def _begin(self) -> None:
        """A job that does all that is to be done now, and what is put later."""
        self._cluster.connect()
        import ray

        job = _Job(ray.remote(Feed).options(num_cpus=0, max_concurrency=16).remote())
        self._job = job
        for number in self._batches:
            self._put(job, number)
        dataset = _dataset(job.feed, self.actor, self._options, self._site, self._gpus)
        job.thread = threading.Thread(target=_listen, args=(dataset, lambda heard: self._heard.put((job, heard))))
        job.thread.daemon = True
        job.thread.start()

    def _put(self, job: _Job, number: int) -> None:
        job.places[number] = job.put
        job.feed.put.remote(job.put, pickle.dumps(self._batches[number]))
        job.put += 1
        if job.put >= _MOST_ROWS:
            self._close(job)

    def _close(self, job: _Job) -> None:
        job.is_closed = True
        job.feed.close.remote(job.put)


@dataclass(frozen=True)
class _Over:
    """A job has ended: by itself, or of an error."""

    error: BaseException | None = None


def _listen(dataset: Any, hear: Callable[[Any], None]) -> None:
    """Run a job to its end, and pass on what its actors say."""
    try:
        for table in dataset.iter_batches(batch_size=None, prefetch_batches=0, batch_format="pyarrow"):
            for message in table.column("message").to_pylist():
                hear(pickle.loads(message))
        hear(_Over())
    except BaseException as error:
        hear(_Over(error))


def _dataset(feed: Any, actor: type[Actor], options: WorkerOptions, site: Site, gpus: float) -> Any:
    """The job: rows from the feed, through actors that have the model, as messages.

    Ray Data starts an actor that died again, and gives it what it had, without end; `Actor` counts.
    """
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.target_max_block_size = 1  # each row a block, which goes its way at once
    # the read task takes no CPU: it waits most of the time, and with the actors on all CPUs it would never start
    rows = ray.data.read_datasource(_source(feed), override_num_blocks=1, num_cpus=0)
    return rows.map_batches(
        actor,
        fn_constructor_args=(feed, options, site),
        batch_size=1,
        batch_format="pyarrow",
        compute=ray.data.ActorPoolStrategy(
            size=site.workers,
            max_tasks_in_flight_per_actor=OUTSTANDING + 1,
            max_concurrent_calls_per_actor=OUTSTANDING,
            enable_true_multi_threading=True,
        ),
        num_cpus=1,
        num_gpus=gpus or None,
    )


def _source(feed: Any) -> Any:
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    def read() -> Iterator[Any]:
        import pyarrow
        import ray

        place = 0
        while (row := ray.get(feed.get.remote(place))) is not None:
            yield pyarrow.table({"place": [place], "row": pyarrow.array([row], pyarrow.large_binary())})
            place += 1

    class Rows(Datasource):
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, *_: Any, **__: Any) -> list[Any]:
            unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
            return [ReadTask(read, unknown)]

    return Rows()


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray puts a handler of its own in the place of SIGTERM's."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Ray's library, in C++, says on stderr how much it will say."""
    with open(os.devnull, "wb") as nowhere:
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _check_address(address: str | None) -> None:
    """Ray itself asks for minutes whether anybody is there."""
    match = re.fullmatch(r"(?:ray://)?\[?([^\[\]/]+?)\]?:(\d{1,5})", address or "")
    if match is None:
        return
    try:
        socket.create_connection((match[1], int(match[2])), _PATIENCE_S / 2).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise BackendError(
            f"--address {address}: nobody answers there ({error}); expected HOST:PORT of a Ray cluster's head"
        ) from error


def _first_line(error: BaseException) -> str:
    """What an error says, in one line; of one from another machine, what was raised there."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return f"{type(cause).__name__}: {lines[-1] if lines else 'no reason given'}"
