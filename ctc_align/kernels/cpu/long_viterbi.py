"""The best path of one long utterance: threads side by side, memory bounded.

Each thread computes a group of lanes, some hundred frames at a time, behind the thread of the lanes
below, which hands it a ring of columns. Choices are kept whole up to a budget. Beyond it rows are
saved every `block` frames, and on the way back the choices of one block after the other are
computed again: about block / lanes of a second pass. Memory for rows, 16 bytes * lanes * frames /
block, and for choices, block**2 / 2 bytes, is then least near
block = (16 * lanes * frames) ** (1/3).
"""

from __future__ import annotations

from threading import Semaphore
from typing import Any, NamedTuple

import numpy as np

from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import viterbi
from ctc_align.kernels.cpu.emission_tiles import rows_of_classes
from ctc_align.kernels.cpu.problem import FlatProblem, Scratch, aligned, run, vectors_of
from ctc_align.kernels.cpu.simd import PAIR, WIDTH
from ctc_align.kernels.cpu.viterbi import NEVER, STRIP, place
from ctc_align.threads import thread_count

WHOLE_CHOICES_BYTES = 64 * 2**20
"""Choices of one utterance are kept whole up to this size."""
PART_CELLS = 2**20
"""Lanes times frames that a thread computes before it hands on its column."""
RING = 4
"""How many parts a thread may be ahead of the next."""

NOTHING = np.empty(0)
NO_BANDS = np.empty((0, 0, 2), np.int64)
UNSAVED = (np.empty((0, 0)), np.empty((0, 0)), 1)
"""Rows of `viterbi.walk_part` where none are saved."""


def choices_bytes(frames: int, states: int) -> int:
    """Return the size of one utterance's choices, kept whole."""
    return frames * vectors_of(states) * 2 * PAIR.itemsize


class PathPlan(NamedTuple):
    """The memory of one utterance.

    Frames between saved rows (a multiple of WIDTH; 0: all choices are kept), how many rows are
    saved, numbers in a row, vectors of a block that a path can be in, and the bytes of all that.
    """

    block: int
    blocks: int
    row: int
    window: int
    bytes: int


def plan(frames: int, states: int) -> PathPlan:
    """Return the plan for an utterance with `frames` frames and `states` states."""
    vectors = vectors_of(states)
    row = (vectors + (vectors - 1) // STRIP + 2) * WIDTH
    whole = choices_bytes(frames, states)
    if whole <= WHOLE_CHOICES_BYTES:
        return PathPlan(0, 0, row, vectors, 16 * row + whole)
    best = (16 * vectors * WIDTH * frames) ** (1 / 3)
    block = min(-(-frames // WIDTH), max(1, round(best / WIDTH))) * WIDTH
    blocks = -(-frames // block)
    window = min(vectors, block // WIDTH + 2)
    return PathPlan(
        block,
        blocks,
        row,
        window,
        16 * row * (blocks + 1) + 2 * PAIR.itemsize * (block + 1) * window,
    )


def scratch_arrays(
    vectors: int, choices: int, used: int, inputs: FlatProblem, frames: int = 0
) -> list[np.ndarray]:
    """Return the scratch arrays of `viterbi.walk`.

    They hold these numbers of vectors, choices, used classes and frames.
    """
    classes = inputs.source[1]
    kind = inputs.like.dtype
    scores = STRIP * WIDTH * WIDTH
    row_of_class, *rest = aligned(
        (classes + 1, np.int32),
        (used, np.int64),
        (used, np.int64),
        (2 * vectors * WIDTH, np.int32),
        (4 * vectors, np.uint16),
        (4 * vectors * WIDTH, np.float64),
        ((vectors + (vectors - 1) // STRIP + 2) * WIDTH, np.float64),
        ((vectors + (vectors - 1) // STRIP + 2) * WIDTH, np.float64),
        ((classes + 1 if inputs.dense else used) * WIDTH, kind),
        (scores, kind),
        (scores if inputs.general.any() else 1, kind),
        (4 * WIDTH, np.float64),
        (WIDTH, kind),
        (2 * -(-frames // WIDTH), np.int64),
        (choices, PAIR),
    )
    row_of_class.fill(-1)
    return [row_of_class, *rest]


class LongPath:
    """Forward pass and trace-back of one long utterance."""

    def __init__(
        self, inputs: FlatProblem, b: int, bands: np.ndarray, states: np.ndarray, scores: np.ndarray
    ) -> None:
        self.inputs = inputs
        self.b = b
        self.bands = bands
        self.states = states
        self.scores = scores
        self.frames = int(inputs.lengths[b])
        self.size = int(inputs.fields[3][b])
        self.finals = int(inputs.fields[5][b])
        self.words = 2 if inputs.general[b] else 1
        self.vectors = vectors_of(self.size)
        self.plan = plan(self.frames, self.size)
        self.whole = not self.plan.block
        self.fine = True
        self._lay_out()

    def _lay_out(self) -> None:
        inputs, b, size = self.inputs, self.b, self.size
        used = min(size, inputs.source[1] + 1)
        memory_limits.require(
            self.plan.bytes, f"best path of {self.frames} frames x {size} states", b
        )
        if self.whole:
            choices = self.words * self.vectors * self.frames
        else:
            choices = 0
        key = (
            "long",
            self.vectors,
            choices,
            used,
            inputs.source[1],
            inputs.dense,
            inputs.like.dtype.char,
            self.words,
        )
        self.scratch = Scratch(
            key,
            lambda: (scratch_arrays(self.vectors, choices, used, inputs), PAIR.itemsize * choices),
        )
        self.arrays = self.scratch.arrays
        self.saved = (
            np.empty((self.plan.blocks, self.plan.row)),
            np.empty((self.plan.blocks, self.plan.row)),
        )
        row_of_class, used_classes, row_of_used, rows, flags, costs, odd, even = self.arrays[:8]
        emit, skip, stay, _, starts = inputs.fields[:5]
        viterbi.lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags)
        viterbi.mask_costs(flags, costs)
        self.used = rows_of_classes(
            emit[b, :size],
            inputs.source[1],
            inputs.dense,
            row_of_class,
            used_classes,
            row_of_used,
            rows,
        )
        odd.fill(NEVER)
        even.fill(NEVER)
        for rows_of_one in self.saved:
            rows_of_one.fill(NEVER)

    def find(self) -> bool:
        """Fill the utterance's row of `states` and its score.

        Returns False if the utterance has NaN or +inf.
        """
        self._there()
        if not self.fine:
            return False
        odd, even = self.arrays[6:8]
        state, score = viterbi.last_state(odd, even, self.size, self.finals)
        self.scores[self.b] = score
        if score > NEVER:
            self._back(state)
        return True

    def _there(self) -> None:
        """Compute all frames, one group of lanes for each thread."""
        strips = -(-self.vectors // STRIP)
        groups = max(1, min(thread_count(), strips))
        edges = [min(strips * g // groups * STRIP, self.vectors) for g in range(groups + 1)]
        frames = max(WIDTH, PART_CELLS // (self.vectors * WIDTH) // WIDTH * WIDTH)
        columns = [np.full(2 * RING * frames, NEVER) for _ in range(groups - 1)]
        ready = [Semaphore(0) for _ in range(groups)]
        space = [Semaphore(RING - 1) for _ in range(groups)]

        def group(g: int) -> None:
            mine = self._own_arrays()
            handed = columns[g - 1] if g else NOTHING, columns[g] if g + 1 < groups else NOTHING
            for f0 in range(0, self.frames, frames):
                if g:
                    ready[g].acquire()
                if g + 1 < groups:
                    space[g].acquire()
                if self.fine:
                    by_frame = self.vectors * self.words if self.whole else 0
                    part = (f0, min(f0 + frames, self.frames), edges[g], edges[g + 1])
                    goal = (self.frames - 1, self.size - self.finals, self.size - 1)
                    saved = (*self.saved, max(1, self.plan.block))
                    if not self._walk(mine, (*part, *goal, self.used, 0, by_frame), handed, saved):
                        self.fine = False
                if g + 1 < groups:
                    ready[g + 1].release()
                if g:
                    space[g - 1].release()

        def stop() -> None:
            """Release the other threads, which would wait for ever."""
            self.fine = False
            for semaphore in (*ready, *space):
                semaphore.release(self.frames)

        run([lambda g=g: group(g) for g in range(groups)], stop)  # type: ignore[misc]

    def _own_arrays(self) -> list[np.ndarray]:
        """Return the arrays of one thread.

        Rows, lattice and choices are shared; choices that are not kept are the thread's own.
        """
        shared = self.arrays
        mine = scratch_arrays(1, 0, len(shared[1]), self.inputs)
        if self.whole:
            choices = shared[-1]
        else:
            choices = np.empty(self.vectors * 2, PAIR)
        return [*shared[:8], *mine[8:14], choices]

    def _walk(
        self, arrays: list[np.ndarray], part: tuple[int, ...], columns: Any, saved: Any
    ) -> bool:
        places = tuple(int(number) for number in part)
        return bool(
            viterbi.walk_part(
                self.inputs, self.b, self.bands, places, tuple(arrays), columns, saved
            )
        )

    def _restore(self, k: int, begin: int, end: int) -> None:
        """Take back the numbers begin … end - 1 of the rows before block k."""
        for row, saved in zip(self.arrays[6:8], self.saved):
            row[begin:end] = saved[k, begin:end]

    def _back(self, state: int) -> None:
        """Follow the choices from the last frame to the first."""
        general = bool(self.inputs.general[self.b])
        flags = self.arrays[4]
        states = self.states[self.b]
        if self.whole:
            by_frame = self.vectors * self.words
            viterbi.trace(
                self.arrays[-1], 0, by_frame, general, flags, 0, self.frames - 1, state, states
            )
            return
        block = self.plan.block
        choices = np.empty(self.plan.window * 2 * (block + 1), PAIR)
        arrays = [*self.arrays[:14], choices]
        last = self.frames - 1
        for k in range(len(self.saved[0]) - 1, -1, -1):
            f0 = k * block
            low = max(0, state - 2 * (last - f0)) // 2 // WIDTH
            high = state // 2 // WIDTH + 1
            begin = place(max(low - 1, 0)) - WIDTH
            end = place(high - 1) + WIDTH
            self._restore(k, begin, end)
            by_frame = (high - low) * self.words
            base = -f0 * by_frame - low * self.words
            self._walk(
                arrays,
                (f0, last + 1, 0, high, last, state, state, self.used, base, by_frame),
                (NOTHING, NOTHING),
                UNSAVED,
            )
            state = viterbi.trace(choices, base, by_frame, general, flags, f0, last, state, states)
            last = f0
