"""Kernels in forked and spawned processes, on callers' own threads, and interrupted: the same bits,
nothing hangs."""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from cpu_checks import on_threads

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels.cpu import cpu_backend, problem

PATIENCE_S = 60
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
MULTITHREADED = "This process .* is multi-threaded, use of fork"
"""The warning of Python from 3.12 on, whenever a process with threads forks."""


Plan = tuple[torch.Tensor, torch.Tensor, lattice.Topology]


@functools.cache
def plans(seed: int) -> tuple[Plan, ...]:
    """Batches dealt to threads, of types and topologies of all kinds, and a long utterance:
    log-probs and wildcards.

    Made before a fork: of torch itself not much works in a forked process, once its own threads
    were at work.
    """
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 9, 40) for _ in range(8)]
    wild = [np.where(np.arange(40) == 7, lattice.WILDCARD, row) for row in rows]
    x = torch.as_tensor(rng.normal(size=(8, 4200, 9)), dtype=torch.float32)
    time_first = torch.as_tensor(rng.normal(size=(300, 2, 120)), dtype=torch.bfloat16).transpose(
        0, 1
    )
    given = (
        (x[:, :500], lattice.ctc(rows)),
        (x, lattice.ctc(wild)),
        (time_first, lattice.ctc(rows[:2], 0, [rng.random(40) < 0.2 for _ in rows[:2]])),
        (x[:1, :2000], lattice.ctc([rng.integers(1, 9, 700)])),
    )
    return tuple(
        (log_probs, log_probs[:, :, 0].float() - 1, topology) for log_probs, topology in given
    )


def results(seed: int = 0) -> list[Any]:
    """Return the answers of the kernels."""
    found: list[Any] = []
    for log_probs, wildcard, topology in plans(seed):
        path = kernels.best_path(log_probs, topology, wildcard=wildcard)
        occupancy = kernels.occupancy(log_probs, topology, wildcard=wildcard)
        found += [path.states.numpy().tobytes(), path.scores.tolist()]
        found += [occupancy.posteriors.numpy().tobytes(), occupancy.scores.tolist()]
    return found


def ends_in_time() -> None:
    """A process that hangs is killed."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PATIENCE_S)


@pytest.fixture
def shared_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """All work goes to two threads, whatever its size."""
    monkeypatch.setattr(problem, "SMALL_CELLS", 1)
    monkeypatch.setattr(cpu_backend, "LONG_CELLS", 10_000)
    monkeypatch.setattr(cpu_backend, "MOST_NARROW_CHOICES", 0)


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    with on_threads(2):
        yield


def test_this_is_the_work_of_several_threads(
    shared_work: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, calls = problem._start, []
    monkeypatch.setattr(problem, "_start", lambda *work: (calls.append(work), start(*work))[1])
    results()
    assert len(calls) >= 7


def forked(work: Callable[[], list[Any]]) -> list[Any]:
    """Return what `work` returns in a forked process; raise AssertionError if it does not come to
    an end."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MULTITHREADED, DeprecationWarning)
        process = os.fork()
    if process == 0:
        try:
            ends_in_time()
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(process, 0)
    assert answer, "the forked process did not come to an end"
    return pickle.loads(answer)


@forks
def test_a_forked_process(shared_work: None) -> None:
    """After kernels ran on threads here, before and after; and a process forked by that one."""
    expected = results()
    assert forked(results) == expected
    assert forked(lambda: forked(results)) == expected
    assert results() == expected


@forks
def test_forked_while_other_threads_are_inside_kernels(shared_work: None) -> None:
    expected, stop, done = results(), threading.Event(), []

    def work() -> None:
        while not stop.is_set():
            done.append(results() == expected)

    callers = [threading.Thread(target=work) for _ in range(2)]
    for caller in callers:
        caller.start()
    try:
        for pause in range(5):
            time.sleep(0.003 * pause)
            assert forked(results) == expected
    finally:
        stop.set()
        for caller in callers:
            caller.join(PATIENCE_S)
    assert len(done) > 2
    assert all(done)
    assert not any(caller.is_alive() for caller in callers)


@forks
def test_forked_while_another_thread_holds_whatever_can_be_held(shared_work: None) -> None:
    """Nobody lets go of a lock in a forked process that another thread of its parent held."""
    locks = (type(threading.Lock()), type(threading.RLock()))
    modules = [
        module for name, module in list(sys.modules.items()) if name.startswith("ctc_align.")
    ]
    held = [
        value for module in modules for value in vars(module).values() if isinstance(value, locks)
    ]
    expected, holding, stop = results(), threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in held:
                stack.enter_context(lock)
            holding.set()
            stop.wait(PATIENCE_S)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert holding.wait(5)
        assert forked(results) == expected
    finally:
        stop.set()
        holder.join()


def test_memory_may_come_back_at_any_time() -> None:
    """The garbage collector may find what an error left behind while memory is taken or given."""

    class Key:
        """A key whose looking up collects garbage."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            gc.collect(0)
            return hash(self.name)

        def __eq__(self, other: object) -> bool:
            gc.collect(0)
            return isinstance(other, Key) and self.name == other.name

    def leave_garbage(name: str) -> None:
        lent: Any = problem.Scratch(Key(name), lambda: (name, 8))
        lent.itself = lent

    def work() -> None:
        for name in "abcabcaabbcc":
            lent = problem.Scratch(Key(name), lambda name=name: (name, 8))
            assert lent.arrays == name
            leave_garbage("b")
            leave_garbage(name)
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert done == [True]


@pytest.fixture
def threads_before() -> int:
    """How many threads the runner and the tests before have left running."""
    return _thread._count()


def has_threads_more_than(before: int) -> bool:
    """Return whether there are more threads than `before`, once those that are about to end have
    ended."""
    deadline = time.monotonic() + 5
    while (more := _thread._count() > before) and time.monotonic() < deadline:
        time.sleep(0.01)
    return more


def test_kernels_leave_no_thread_behind(threads_before: int, shared_work: None) -> None:
    results()
    assert not has_threads_more_than(threads_before)


def in_a_pool(method: str) -> list[list[Any]]:
    context = multiprocessing.get_context(method)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MULTITHREADED, DeprecationWarning)
        with context.Pool(2, initializer=started) as pool:
            answers = [pool.apply_async(results, (seed,)) for seed in (0, 1, 0)]
            return [answer.get(PATIENCE_S) for answer in answers]


def started() -> None:
    """Set the threads of a worker, and an end to what hangs."""
    ends_in_time()
    torch.set_num_threads(2)
    problem.SMALL_CELLS, cpu_backend.LONG_CELLS, cpu_backend.MOST_NARROW_CHOICES = 1, 10_000, 0


@pytest.mark.parametrize("method", [pytest.param("fork", marks=forks), "spawn"])
@pytest.mark.long
def test_pools_of_processes(method: str, shared_work: None) -> None:
    expected = results(), results(1), results()
    assert in_a_pool(method) == list(expected)


def test_callers_with_threads_of_their_own(shared_work: None) -> None:
    expected = [results(seed) for seed in range(3)]
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(results, k % 3) for k in range(24)]
        for k, answer in enumerate(answers):
            assert answer.result(PATIENCE_S) == expected[k % 3]


@pytest.mark.long
def test_threads_of_callers_that_compile_at_once() -> None:
    """The first calls of a process, on eight threads: compiled once or eight times, but right."""
    code = """if True:
        import threading
        import torch
        from ctc_align import kernels, lattice
        x, topology, found = torch.zeros(2, 9, 4), lattice.ctc([[1, 2], [3]]), []
        def work():
            barrier.wait()
            path, occupancy = kernels.best_path(x, topology), kernels.occupancy(x, topology)
            found.append((path.states.tolist(), occupancy.scores.tolist()))
        barrier = threading.Barrier(8)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(found) == 8 and all(each == found[0] for each in found), found
        print("fine")"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=150)
    assert done.stdout == "fine\n", done.stderr


# Python prints and drops an exception that a signal raises while something is finalised.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_interruption_leaves_kernels_as_they_were(
    threads_before: int, shared_work: None
) -> None:
    """Ctrl-C at any time: the next call says what it always said."""
    armed: list[bool] = []
    expected, interrupted = results(), 0

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for pause in np.linspace(0.0005, 0.02, 25).tolist():
            try:
                armed.append(True)
                signal.setitimer(signal.ITIMER_REAL, pause)
                results()
                armed.clear()
            except KeyboardInterrupt:
                armed.clear()
                interrupted += 1
            assert results() == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 3
    assert not has_threads_more_than(threads_before)


@pytest.fixture
def all_work_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "LONG_CELLS", 0)


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_an_interrupt_does_not_wait_for_the_work(all_work_is_long: None) -> None:
    # A process in the background ignores Ctrl-C by default.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    over = threading.Event()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        problem.interruptibly(lambda: over.wait(30), 1)
    assert time.monotonic() - began_s < 5
    over.set()
    signal.signal(signal.SIGINT, usual)


def test_results_and_errors_are_those_of_the_work(all_work_is_long: None) -> None:
    assert (
        problem.interruptibly(lambda: threading.current_thread() is threading.main_thread(), 1)
        is False
    )
    with pytest.raises(KernelError, match="too large"):
        problem.interruptibly(lambda: _refuse("too large"), 1)


def _refuse(reason: str) -> None:
    raise KernelError(reason)
