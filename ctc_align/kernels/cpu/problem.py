"""Arguments of compiled kernels as flat arrays, scratch memory, and work shared out to threads.

Log-probs are float32, float64, or, as the door of the kernels gives them, the bits of half
precision: those of float16 as uint16, those of bfloat16 as int16.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ctc_align.kernels.cpu.simd import WIDTH
from ctc_align.lattice.topology import Topology
from ctc_align.threads import thread_count

DENSE_CLASSES = 128
"""Up to this many classes, if they are adjacent in memory, are all loaded; of more only those that
are used."""

KEPT_BYTES = 32 * 2**20
SMALL_BYTES = 2**20
MOST_KEPT = 16
"""Scratch memory that is kept for the next call: bytes of the large blocks, the limit of a small
one, and how many."""

Result = TypeVar("Result")

WAIT_S = 0.2
"""Signals are looked at so often."""

LONG_CELLS = 2**31
"""More work than this, about a second's, is waited for so that the wait can be interrupted."""

SMALL_CELLS = 200_000
"""Less work than this is done by one thread: starting another takes as long."""

LEAST_SHARE = 32
"""A portion of work is at least one LEAST_SHARE-th of a thread's share."""


class FlatProblem(NamedTuple):
    """Arguments of every kernel: log-probs, scores of the wildcard, topology, lengths.

    `source`: x, classes, scores of the wildcard; `strides`: of x by utterance, frame, class, of the
    scores by utterance, frame; `fields`: emit, skip, stay (B, S), states, starts, finals,
    min_frames (B,); `general` (B,): False where all even states emit one class and are not skipped
    into, and every state may be stayed in: half of the work; `dense`: see `emission_tiles`; `like`:
    an empty array of the type of the numbers (float32, or float64 for float64).
    """

    source: tuple[np.ndarray, int, np.ndarray]
    strides: tuple[int, ...]
    fields: tuple[np.ndarray, ...]
    lengths: np.ndarray
    general: np.ndarray
    dense: bool
    like: np.ndarray


def flat_problem(
    log_probs: np.ndarray, topology: Topology, lengths: np.ndarray, wildcard: np.ndarray | None
) -> FlatProblem:
    """Return the arguments as flat views: log-probs are not copied, whatever their strides."""
    x, steps = flat(log_probs)
    frames, classes = log_probs.shape[1:]
    like: np.ndarray = np.empty(0, number_type(log_probs))
    if wildcard is None:
        wild = like
    else:
        wild = np.ascontiguousarray(as_numbers(wildcard), like.dtype)
    rows = topology.emit, topology.skip, topology.stay
    columns = topology.states, topology.starts, topology.finals, topology.min_frames
    dense = steps[2] == 1 and x.dtype == like.dtype and classes <= DENSE_CLASSES
    return FlatProblem(
        (x, classes, wild.reshape(-1)),
        (*steps, frames, 1),
        (*rows, *columns),
        lengths,
        ~topology.interleaved,
        dense and classes <= 2 * topology.emit.shape[1] + WIDTH,
        like,
    )


def number_type(log_probs: np.ndarray) -> type:
    """Return the type in which a kernel computes: float64 for float64, otherwise float32."""
    if log_probs.dtype == np.float64:
        return np.float64
    return np.float32


def flat(values: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the memory of an array as a flat array, and the steps of each axis in it.

    The flat array goes from the first to the last element.
    """
    if not values.flags.behaved or min(values.strides) < 0:
        values = values.copy()  # kernels are compiled for aligned arrays that can be written to
    size = values.itemsize
    steps = tuple([step // size for step in values.strides])
    if values.flags.c_contiguous:
        rows = values
    else:
        rows = values.transpose(memory_order(values))
    if rows.flags.c_contiguous:
        return rows.reshape(-1), steps
    if values.size:
        extent = 1 + sum((n - 1) * step for n, step in zip(values.shape, steps))
    else:
        extent = 0
    return np.lib.stride_tricks.as_strided(values, (extent,), (size,)), steps


def memory_order(values: np.ndarray) -> list[int]:
    """Return the axes from the one with the longest steps in memory to that with the shortest."""
    steps = values.strides
    return sorted(range(len(steps)), key=lambda axis: -steps[axis])


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return values of any strides as float32 or float64.

    Half precision is converted from its bits.
    """
    if values.dtype == np.int16:
        return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if values.dtype == np.uint16:
        return values.view(np.float16).astype(np.float32)
    return values


def vectors_of(states: Any) -> Any:
    """Return the number of vectors that hold the lanes of `states` states.

    `states` is a number or an array.
    """
    return ((states + 1) // 2 + WIDTH - 1) // WIDTH


@dataclass(eq=False)
class _FreeScratch:
    key: Any
    arrays: Any
    size: int


class Scratch:
    """Memory for one thread's work: `arrays`, reused from an earlier call or new.

    It is returned for reuse when this object is deleted.

    Fresh memory costs a tenth of a short utterance's time, and a third of a long one's.
    """

    def __init__(self, key: Any, build: Callable[[], tuple[Any, int]]) -> None:
        """Take arrays of an equal `key`, else those of `build`.

        `build` returns arrays and their bytes.
        """
        self.entry = _take(key) or _FreeScratch(key, *build())
        self.arrays = self.entry.arrays

    def __del__(self) -> None:
        if hasattr(self, "entry"):
            _give(self.entry)


# No lock: a process forked while another thread held it would wait for ever, and so would a thread
# that the garbage collector interrupts while it holds it, to return scratch memory. Each step is
# one operation of the list.
_free: list[_FreeScratch] = []


def _take(key: Any) -> _FreeScratch | None:
    """Take the one that was returned last."""
    for entry in list(_free)[::-1]:
        if entry.key == key:
            with contextlib.suppress(ValueError):  # another thread was faster
                _free.remove(entry)
                return entry
    return None


def _give(entry: _FreeScratch) -> None:
    _free.append(entry)
    # The oldest are dropped first; what exceeds the whole budget is dropped at once.
    while kept := list(_free):
        too_much = entry.size > SMALL_BYTES and sum(other.size for other in kept) > KEPT_BYTES
        if len(kept) <= MOST_KEPT and not too_much:
            return
        with contextlib.suppress(ValueError):
            _free.remove(kept[0])


def aligned(*parts: tuple[int, Any]) -> list[np.ndarray]:
    """Return uninitialised arrays of (size, dtype), each beginning at a cache line."""
    sizes = [-(-size * np.dtype(kind).itemsize // 64) * 64 for size, kind in parts]
    memory = np.empty(sum(sizes) + 64, np.uint8)
    at = -memory.ctypes.data % 64
    rows = []
    for (size, kind), taken in zip(parts, sizes):
        rows.append(memory[at : at + taken].view(kind)[:size])
        at += taken
    return rows


def deal(
    make: Callable[[], Callable[[np.ndarray], object]],
    cells: np.ndarray,
    these: np.ndarray | None = None,
) -> None:
    """Process all utterances, or all of `these`, the largest first.

    They are shared out to as many threads as `thread_count` says.

    Each thread calls `make()` once, and the function that it returns for one portion of utterances
    after the other.
    """
    if these is None:
        these = np.arange(len(cells))
    if len(these) > 1:
        threads = min(thread_count(), len(these))
    else:
        threads = len(these)
    if threads < 2 or cells[these].sum() < SMALL_CELLS:
        if threads:
            make()(these)
        return
    order = these[np.argsort(-cells[these], kind="stable")]
    portions = iter(_portions(order, cells[order], threads))

    def worker() -> None:
        work = make()
        for portion in portions:
            work(portion)

    run([worker] * threads)


def _portions(order: np.ndarray, cells: np.ndarray, threads: int) -> list[np.ndarray]:
    """Return portions of the work, each half of a thread's share of what remains.

    So it goes down to the last utterance: a thread that starts late or is held up leaves the rest
    to the others (guided self-scheduling, Polychronopoulos and Kuck 1987).
    """
    before = np.concatenate(([0], np.cumsum(cells)))
    total = int(before[-1])
    firsts = [0]
    # Handing one over takes as long as a few thousand cells.
    least = total // (LEAST_SHARE * threads)
    while firsts[-1] < len(order):
        taken = int(before[firsts[-1]])
        share = max((total - taken) // (2 * threads), least)
        # At least one, and no more than fit.
        firsts.append(max(int(before.searchsorted(taken + share, "right")) - 1, firsts[-1] + 1))
    return [order[first:last] for first, last in pairwise(firsts)]


def _start(guarded: Callable[[Callable[[], None]], None], task: Callable[[], None]) -> Any:
    """Start a thread that does the task; return a lock that is free when it has ended.

    Not `threading.Thread`: its start waits until the thread runs, which takes longer than a short
    utterance.
    """
    end = _thread.allocate_lock()
    end.acquire()

    def work() -> None:
        try:
            guarded(task)
        finally:
            end.release()

    _thread.start_new_thread(work, ())
    return end


def interruptibly(work: Callable[[], Result], cells: int) -> Result:
    """Return what `work` returns, so that Ctrl-C can end it at once.

    In the main thread Ctrl-C ends long work at once, instead of when a kernel has ended.

    Python hands a signal to the main thread between two of its own steps: that thread only waits,
    then. What another one computes meanwhile is dropped, with the process or when it is done.
    """
    if cells < LONG_CELLS or threading.current_thread() is not threading.main_thread():
        return work()
    results: list[Result] = []
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    end = _start(guarded, lambda: results.append(work()))
    while not end.acquire(timeout=WAIT_S):
        pass
    if errors:
        raise errors[0]
    return results[0]


def run(tasks: Sequence[Callable[[], None]], stop: Callable[[], None] = lambda: None) -> None:
    """Run the tasks at once, each on its own thread, and raise the first error of any.

    After an error `stop()` is called: tasks that wait for each other must then end.
    Threads live as long as the call: nothing survives a fork, and callers may use threads of their
    own.
    """
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)
            stop()

    ends = []

    def lead() -> None:
        for task in tasks[1:]:
            ends.append(_start(guarded, task))
        # The caller is one of the workers: a pool that it only waits for costs a quarter of a small
        # batch's time.
        tasks[0]()

    guarded(lead)
    for end in ends:
        end.acquire()
    if errors:
        raise errors[0]
