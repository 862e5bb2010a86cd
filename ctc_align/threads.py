"""Work in which torch has one thread: networks and the tensors around them, side by side where there are several.

The threads that torch starts for an operation wait for each other after it, spinning: on a busy machine they take ten
times as long as the work, and sums round differently for each number of threads. So work that is given to this module
runs in threads of its own, where torch has one thread each; as many work at once as torch has threads for the caller.

OpenMP counts threads separately for every thread that calls it. `torch.set_num_threads` sets the count of the calling
thread, and the count of threads that use torch for the first time later (ATen/ParallelOpenMP.cpp). So each thread of
this module sets its own count to one when it starts, and then gives later threads what it had itself. The counts of the
caller's threads never change.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import lru_cache
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Calls: TypeAlias = "SimpleQueue[Callable[[], object] | None]"

MOST_AT_ONCE = 16
"""Each thread holds a piece of a recording within the network, about 100 MB."""
WAIT_S = 0.1
"""Windows sees Ctrl-C only between two waits."""
_CALLS: ContextVar[Calls | None] = ContextVar("_CALLS", default=None)
"""Set in the threads of this module: what the caller, which waits, is asked to call."""


def on_one_thread(work: Callable[[], Result]) -> Result:
    """Return what `work` returns; torch has one thread for it, and the caller's number of threads does not change.

    >>> import torch
    >>> on_one_thread(torch.get_num_threads)
    1
    """
    [result] = side_by_side([work])
    return result


def side_by_side(tasks: Iterable[Callable[[], Result]]) -> Iterator[Result]:
    """Yield what each task returns, in their order; for each, torch has one thread, and several run at once.

    At most as many run at once as torch has threads in the calling thread. Tasks within a task run one after the other.
    Where CUDA is in use, all run in the calling thread, because streams belong to threads.

    Raises the error of the first task that fails; tasks that have not begun are then dropped.
    """
    import torch

    at_once = min(torch.get_num_threads(), MOST_AT_ONCE)
    if at_once == 1 or _CALLS.get() is not None or torch.cuda.is_initialized():
        for task in tasks:
            yield task()
        return
    pool = _pool(os.getpid())
    calls: Calls = SimpleQueue()
    waiting, running = iter(tasks), deque[Future[Result]]()
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
    import torch

    context, grad, inference = copy_context(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    context.run(_CALLS.set, calls)

    def carried() -> Result:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):
            return context.run(task)

    return carried


@lru_cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process; after a fork there are none, so that the child starts its own."""
    return ThreadPoolExecutor(MOST_AT_ONCE, "ctc-align", initializer=_start, initargs=(threading.Lock(),))


def _start(lock: threading.Lock) -> None:
    """Set torch's number of threads to one in this new thread, and leave that of later ones as it is."""
    import torch

    with lock:
        usual = torch.get_num_threads()
        torch.set_num_threads(1)
        restore = threading.Thread(target=torch.set_num_threads, args=(usual,))
        restore.start()
        restore.join()
