"""Work in which torch and BLAS have one thread.

Networks, and what is computed around them, run several at once.

The threads that torch starts for an operation wait for each other after it, spinning: on a busy
machine they take ten times as long as the work, and sums round differently for each number of
threads. So work that is given to this module runs in threads of its own, where torch has one thread
each; as many work at once as torch has threads for the caller. Where torch has not been imported it
is not imported here.

OpenMP counts threads separately for every thread that calls it. `torch.set_num_threads` sets the
count of the calling thread, and the count of threads that use torch for the first time later
(ATen/ParallelOpenMP.cpp). So each thread of this module sets its own count to one when it first has
work beside torch, and then gives later threads what it had itself. The counts of the caller's
threads never change. NumPy's BLAS has one count for the process: it is one while such work is done,
and then again what it was.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
Calls: TypeAlias = "SimpleQueue[Callable[[], object] | None]"

MOST_AT_ONCE = 16
"""Each thread holds a piece of a recording within the network, about 100 MB."""
WAIT_S = 0.1
"""Windows sees Ctrl-C only between two waits."""
_CALLS: ContextVar[Calls | None] = ContextVar("_CALLS", default=None)
"""Set in the threads of this module: what the caller, which waits, is asked to call."""
_COUNT = "OMP_NUM_THREADS"
"""torch reads its number of threads from it when it is imported."""
_BLAS = "OPENBLAS_NUM_THREADS"
"""NumPy's BLAS reads its number of threads from it when it is imported."""


def imported_torch() -> Any:
    """Return torch if this process has imported it, otherwise None."""
    torch = sys.modules.get("torch")
    return (
        torch if hasattr(torch, "get_num_threads") else None
    )  # another thread may still be importing it


def thread_count() -> int:
    """Return torch's number of threads for the calling thread.

    If torch is not imported, return what it would be.
    """
    if (torch := imported_torch()) is not None:
        return int(torch.get_num_threads())
    given = os.environ.get(_COUNT, "")
    most = cpu_count()
    if given.isascii() and given.isdigit():
        return min(max(1, int(given)), most)
    return most


def set_thread_count(count: int) -> None:
    """Set torch's number of threads for the calling thread and later ones.

    This works whether torch has been imported or not.
    """
    os.environ[_COUNT] = str(count)
    if (torch := imported_torch()) is not None:
        torch.set_num_threads(count)


def begin_process() -> None:
    """Prepare a process of our own, before libraries are loaded.

    BLAS starts no threads. Those of torch, which training uses, wait without spinning: on a busy
    machine, that would take several times as long as the work itself. Garbage is not collected in
    the first second, nor at the end: the collector would look again and again through what is
    imported, which stays.
    """
    os.environ[_BLAS] = "1"
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    gc.disable()
    later = threading.Timer(1.0, gc.enable)
    later.daemon = True
    later.start()
    atexit.register(gc.freeze)


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_one_thread(work: Callable[[], Result]) -> Result:
    """Return what `work` returns.

    Torch has one thread for it, and the caller's number of threads does not change.

    >>> import torch
    >>> on_one_thread(thread_count)
    1
    """
    [result] = side_by_side([work])
    return result


def side_by_side(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Yield what each task returns, in their order.

    For each, torch has one thread, and several run at once.

    At most as many run at once as torch has threads in the calling thread. Tasks within a task run
    one after the other. Where CUDA is in use, all run in the calling thread, because streams belong
    to threads.

    Raises the error of the first task that fails; tasks that have not begun are then dropped.
    """
    torch = imported_torch()
    at_once = min(thread_count(), MOST_AT_ONCE)
    if (
        at_once == 1
        or _CALLS.get() is not None
        or (torch is not None and torch.cuda.is_initialized())
    ):
        for task in tasks:
            with _one_blas_thread():
                result = task()
            yield result
        return
    pool = _pool(os.getpid())
    calls: Calls = SimpleQueue()
    waiting = iter(tasks)
    running = deque[Future[Result]]()
    try:
        while True:
            for task in islice(waiting, at_once - len(running)):
                running.append(pool.submit(_carried(task, calls)))
                running[-1].add_done_callback(lambda _: calls.put(None))
            if not running:
                return
            yield _result_of(running.popleft(), calls)
    finally:
        for future in running:
            future.cancel()


def in_caller(call: Callable[[], object]) -> None:
    """Call this in the thread that waits for the present task, soon; outside of tasks, at once.

    What it raises is raised there, and ends the waiting.
    """
    calls = _CALLS.get()
    if calls is None:
        call()
    else:
        calls.put(call)


def _result_of(future: Future[Result], calls: Calls) -> Result:
    """Return the result of a task, and do meanwhile what tasks ask of their caller."""
    while not (future.done() and calls.empty()):
        with suppress(Empty):
            if (call := calls.get(timeout=WAIT_S)) is not None:
                call()
    return future.result()


def _carried(task: Callable[[], Result], calls: Calls) -> Callable[[], Result]:
    """Return the task with what torch and Python keep for each thread, as they are in this one."""
    context = copy_context()
    torch = imported_torch()
    context.run(_CALLS.set, calls)
    if torch is None:

        def alone() -> Result:
            with _one_blas_thread():
                return context.run(task)

        return alone
    grad = torch.is_grad_enabled()
    inference = torch.is_inference_mode_enabled()

    def carried() -> Result:
        _pool(os.getpid()).settle(torch)
        with torch.inference_mode(inference), torch.set_grad_enabled(grad), _one_blas_thread():
            return context.run(task)

    return carried


class _Pool(ThreadPoolExecutor):
    """The threads of this module in one process, and what BLAS is set to."""

    def __init__(self) -> None:
        super().__init__(MOST_AT_ONCE, "ctc-align")
        self.lock = threading.Lock()
        self.settled = threading.local()
        self.users = 0
        self.before: list[int] = []

    def settle(self, torch: Any) -> None:
        """Set torch's number of threads to one in this thread.

        That of later threads stays as it is.
        """
        if hasattr(self.settled, "done"):
            return
        with self.lock:
            usual = torch.get_num_threads()
            torch.set_num_threads(1)
            restore = threading.Thread(target=torch.set_num_threads, args=(usual,))
            restore.start()
            restore.join()
        self.settled.done = True

    @contextmanager
    def one_blas_thread(self) -> Iterator[None]:
        """Set BLAS to one thread until the block ends.

        If several ask for it at the same time, until the last of them has ended.
        """
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.before = [library.num_threads for library in _blas()]
            _set_blas([1] * len(_blas()))
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    _set_blas(self.before)


@lru_cache
def _pool(process: int) -> _Pool:
    """Return the threads of this process.

    After a fork there are none, so that the child starts its own.
    """
    return _Pool()


def _one_blas_thread() -> AbstractContextManager[None]:
    if os.environ.get(_BLAS) == "1":
        return nullcontext()
    return _pool(os.getpid()).one_blas_thread()


@lru_cache
def _blas() -> Any:
    """Return threadpoolctl's controllers of the libraries with BLAS."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas").lib_controllers


def _set_blas(counts: list[int]) -> None:
    """Set the number of threads of each library.

    Threadpoolctl would ignore all threads but the first that did so.
    """
    for library, count in zip(_blas(), counts):
        release = getattr(
            library, "clear_controlling_thread", lambda force: None
        )  # from version 3.8 on
        release(force=True)
        library.set_num_threads(count)
        release(force=True)
