"""The CPU backend: Numba kernels for whole batches, shared out to threads.

Compiled code is cached on disk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import long_viterbi, pruned_search, row_kernels, sums, viterbi
from ctc_align.kernels.cpu.general_kernels import ROWS_BYTES, GeneralKernels, GeneralTangents
from ctc_align.kernels.cpu.long_viterbi import LongPath
from ctc_align.kernels.cpu.problem import (
    FlatProblem,
    Scratch,
    aligned,
    deal,
    flat,
    flat_problem,
    interruptibly,
    memory_order,
    number_type,
    vectors_of,
)
from ctc_align.kernels.cpu.simd import PAIR, WIDTH
from ctc_align.kernels.cpu.sum_recursion import MASK, MASK_SIZE
from ctc_align.kernels.cpu.viterbi import STRIP
from ctc_align.lattice import Topology, ctc
from ctc_align.threads import thread_count

LONG_CELLS = 2**22
"""An utterance with more work than this is shared by the threads if it is most of the batch's
work."""

MOST_NARROW_CHOICES = 2**24
NARROW = 8
"""Such an utterance is done by one thread, before, if no more choices are needed, and one NARROW-th
of all."""

FORMS = {viterbi.walk: 1, sums.sums: 2}
"""The kernels of an alignment, and for how many combinations of types each is compiled: `sums` with
and without posteriors."""

_patience = row_kernels.Patience()


def compile_at_once() -> None:
    """Have kernels compiled at their first call in this process, however little there is to do."""
    _patience.end()


def _is_done_by_rows(kernel: Any, topology: Topology, frames: np.ndarray) -> bool:
    """Return whether a kernel is not compiled, and there is too little to do to compile it."""
    if _patience.is_over or kernel.overloads:
        return False
    return _patience.lasts(frames, topology.states) and not kernel._cache.is_filled(FORMS[kernel])


def used_rows() -> bool:
    """Return whether anything was computed without compiled kernels in this process."""
    return 0 < _patience.spent_s < math.inf


def is_compiled() -> bool:
    """Return whether the kernels are in Numba's cache on disk.

    If not, their first use takes some seconds.
    """
    return all(kernel._cache.is_filled(forms) for kernel, forms in FORMS.items())


def compile_default() -> None:
    """Compile, or load, what an alignment by a model of the package calls, and nothing else."""
    compile_at_once()
    log_probs = np.zeros((1, 2, 2), np.float32)
    topology = ctc([[1]])
    lengths = np.array([2])
    best_path(log_probs, topology, lengths)
    forward(log_probs, topology, lengths)
    occupancy(log_probs, topology, lengths)


def best_path(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
    bands: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run `ctc_align.kernels.best_path`."""
    cells = log_probs.shape[1] * topology.emit.size
    return interruptibly(
        lambda: _best_path(log_probs, topology, lengths, wildcard, bands, None), cells
    )


def best_labels(
    log_probs: np.ndarray, topology: Topology, lengths: np.ndarray, blank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run `ctc_align.kernels.best_labels`, for float32 and float64."""
    batch, frames, _ = log_probs.shape
    kind = number_type(log_probs)
    labels = np.zeros(batch * frames, np.int64)
    values = np.zeros(batch * frames, kind)
    if blank:
        labels.fill(blank)
    _, scores = _best_path(log_probs, topology, lengths, None, None, (labels, values))
    shape = batch, frames
    return labels.reshape(shape), values.reshape(shape), scores


def _best_path(
    log_probs: np.ndarray,
    topology: Topology,
    frames: np.ndarray,
    wildcard: np.ndarray | None,
    bands: np.ndarray | None,
    read: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the states (B, T) of the best paths and their scores (B,).

    Args:
        read: the labels and their log-probs, to be filled; or None.
    """
    shape = log_probs.shape[0], log_probs.shape[1]
    memory_limits.require(4 * shape[0] * shape[1], "states of the best paths")
    states = np.empty(shape, np.int32)
    scores = np.empty(shape[0], np.float64)
    states.fill(-1)
    slow = GeneralKernels(log_probs, topology, frames, wildcard)
    search = _PathSearch(slow, bands, states, scores, read)
    if topology.detours is not None:
        deal(lambda: search.find_generally, frames * topology.states)
    elif not search.find_by_rows():
        search.find_compiled(flat_problem(log_probs, topology, frames, wildcard))
    return states, scores


class _PathSearch(NamedTuple):
    """The search for the best paths of a batch, and the arrays that it fills."""

    slow: GeneralKernels
    bands: np.ndarray | None
    states: np.ndarray
    scores: np.ndarray
    read: tuple[np.ndarray, np.ndarray] | None

    def find_generally(self, todo: np.ndarray) -> None:
        """Find the paths of some utterances one by one, by the kernels that take any topology."""
        for b in todo.tolist():
            self.slow.best_path(b, self.bands, self.states, self.scores)

    def find_by_rows(self) -> bool:
        """Find all paths without compiled kernels; return False if these are needed."""
        if not _is_done_by_rows(viterbi.walk, self.slow.topology, self.slow.lengths):
            return False
        with _patience.used():
            if _paths_by_rows(self.slow, self.bands, self.states, self.scores, self.read):
                return True
        self.states.fill(-1)
        return False

    def find_compiled(self, inputs: FlatProblem) -> None:
        """Find all paths by compiled kernels: first those of long utterances, one by one."""
        state_counts = self.slow.topology.states
        cells = self.slow.lengths * state_counts
        every = np.arange(len(cells))
        long = _long(self.slow.lengths, state_counts, cells)
        others = every
        if len(long):
            others = np.setdiff1d(every, long)
        if len(long) and MOST_NARROW_CHOICES:
            most_choices = min(MOST_NARROW_CHOICES, int(cells[long].max()) // WIDTH // NARROW)
            self.walk(inputs, cells, long, most_choices)
            long = long[self.scores[long] == np.inf]
        for b in long.tolist():
            if not _long_path(inputs, b, self.limits, self.states, self.scores):
                self.slow.best_path(b, self.bands, self.states, self.scores)
            self.write_labels(inputs, b)
        self.walk(inputs, cells, others, 2**62)

    def walk(
        self, inputs: FlatProblem, cells: np.ndarray, these: np.ndarray, most_choices: int
    ) -> None:
        """Find the paths of some utterances, with at most so many bytes for choices."""
        sizes = _sizes(self.slow.topology.states[these], self.slow.lengths[these])

        def make() -> Callable[[np.ndarray], None]:
            scratch = _path_scratch(inputs, sizes, most_choices)
            return lambda todo: self.walk_portion(inputs, scratch, todo)

        deal(make, cells, these)

    def walk_portion(self, inputs: FlatProblem, scratch: Scratch, todo: np.ndarray) -> None:
        """Find the paths of a portion; the general kernels take what the fast one refuses."""
        targets = self.read
        if targets is None:
            targets = (np.empty(0, np.int64), inputs.like)
        rest = scratch.arrays, self.states, self.scores, targets, viterbi.PRUNING
        while (done := viterbi.walk(inputs, self.limits, todo, *rest)) < len(todo):
            b = int(todo[done])
            self.slow.best_path(b, self.bands, self.states, self.scores)
            self.write_labels(inputs, b)
            todo = todo[done + 1 :]

    @property
    def limits(self) -> np.ndarray:
        """The bands, as compiled kernels take them."""
        return long_viterbi.NO_BANDS if self.bands is None else self.bands

    def write_labels(self, inputs: FlatProblem, b: int) -> None:
        """Write the labels of an utterance and their log-probs, which the fast kernel does by itself."""
        if self.read is not None and self.states[b, 0] >= 0:
            emission = viterbi.emission_of(inputs, b)
            length = int(self.slow.lengths[b])
            first = b * self.states.shape[1]
            viterbi.read_off(
                emission, length, inputs.fields[0][b], self.states[b], first, self.read
            )


def _long_path(
    inputs: FlatProblem, b: int, bands: np.ndarray, states: np.ndarray, scores: np.ndarray
) -> bool:
    """Fill a long utterance's row of `states` and its score; return False if it has NaN or +inf."""
    if not len(bands) and pruned_search.applies(inputs, b, pruned_search.LEAST_CELLS):
        return pruned_search.PrunedPath(inputs, b, states, scores).find()
    if not len(bands) and pruned_search.applies(inputs, b, pruned_search.LEAST_PATH_CELLS):
        with suppress(pruned_search.TooManyError, KernelError):
            return pruned_search.PrunedPath(inputs, b, states, scores).find()
    return LongPath(inputs, b, bands, states, scores).find()


def _paths_by_rows(
    given: GeneralKernels,
    bands: np.ndarray | None,
    states: np.ndarray,
    scores: np.ndarray,
    read: tuple[np.ndarray, np.ndarray] | None,
) -> bool:
    """Fill all results without compiled code; return False where that refuses."""
    for b, count in enumerate(given.lengths.tolist()):
        if given.is_decided(b, scores):
            continue
        row = row_kernels.row_of(given.log_probs, given.topology, given.lengths, given.wildcard, b)
        if row is None:
            return False
        states[b, :count], scores[b] = row_kernels.best_path(
            row, None if bands is None else bands[b, :count]
        )
        if read is not None and scores[b] > -math.inf:
            labels, values = (each.reshape(states.shape)[b, :count] for each in read)
            labels[:] = given.topology.emit[b][states[b, :count]]
            values[:] = row.x[np.arange(count), labels]
    return True


def _sums_by_rows(
    given: GeneralKernels, scores: np.ndarray, out: np.ndarray, own: np.ndarray
) -> bool:
    """Do as `_paths_by_rows` for scores, posteriors and those of the wildcard.

    Both posteriors may be empty.
    """
    for b, count in enumerate(given.lengths.tolist()):
        if given.is_decided(b, scores):
            continue
        row = row_kernels.row_of(given.log_probs, given.topology, given.lengths, given.wildcard, b)
        if own.ndim == 2:
            wild = own[b, :count]
        else:
            wild = np.empty(0, out.dtype)
        if row is None:
            score = None
        else:
            score = row_kernels.add_up(row, out[b, :count] if out.ndim == 3 else out, wild)
        if score is None:
            return False
        scores[b] = score
    return True


def _path_scratch(inputs: FlatProblem, sizes: Sizes, most_choices: int = 2**62) -> Scratch:
    """Return the arrays that `viterbi.walk` needs for utterances of these sizes.

    The bytes for choices are at most `most_choices`.
    """
    general = any(inputs.general.tolist())
    most = max(states for states, _ in sizes)
    longest = max(frames for _, frames in sizes)
    choices = (2 if general else 1) * max(frames * vectors_of(states) for states, frames in sizes)
    choices = min(choices, most_choices)
    needed = vectors_of(most), choices, min(most, inputs.source[1] + 1)
    key = (
        "path",
        *needed,
        longest,
        inputs.source[1],
        inputs.dense,
        inputs.like.dtype.char,
        general,
    )
    return Scratch(
        key,
        lambda: (
            tuple(long_viterbi.scratch_arrays(*needed, inputs, longest)),
            PAIR.itemsize * choices,
        ),
    )


def _long(frames: np.ndarray, states: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return the utterances that are long.

    All threads work on such an utterance together, or it is too long to keep all choices.
    """
    if max(cells.tolist(), default=0) < LONG_CELLS:
        return np.empty(0, np.int64)
    threads = thread_count()
    most = (cells >= LONG_CELLS) & (cells * 2 * threads > cells.sum()) & (threads > 1)
    large = frames * vectors_of(states) * 8 > long_viterbi.WHOLE_CHOICES_BYTES
    fits = frames > 0
    return np.flatnonzero((most | large) & fits)


def forward(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
) -> np.ndarray:
    """Run `ctc_align.kernels.forward`."""
    cells = log_probs.shape[1] * topology.emit.size
    scores, _, _ = interruptibly(
        lambda: _sum(log_probs, topology, lengths, wildcard, want=False), cells
    )
    return scores


def occupancy(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Run `ctc_align.kernels.occupancy`.

    Returns posteriors, scores, and the wildcard's posteriors or None.
    """
    scores, posteriors, own = _sum(log_probs, topology, lengths, wildcard, want=True)
    assert posteriors is not None
    return posteriors, scores, own


def tangent(
    log_probs: np.ndarray,
    topology: Topology,
    lengths: np.ndarray,
    wildcard: np.ndarray | None,
    direction: np.ndarray,
    posteriors: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Run `ctc_align.kernels.tangent`."""
    if posteriors is None:
        posteriors, _, _ = occupancy(log_probs, topology, lengths, wildcard)
    kind = number_type(log_probs)
    memory_limits.require(np.dtype(kind).itemsize * log_probs.size, "tangents")
    scores = np.empty(topology.batch)
    out_row, out = _zeros(log_probs, kind)
    slow = GeneralTangents(log_probs, topology, lengths, wildcard, posteriors, direction)
    cells = lengths * topology.states

    def differentiate(todo: np.ndarray) -> None:
        for b in todo.tolist():
            slow.differentiate(b, scores, out)

    if kind == np.float64 or topology.detours is not None:
        deal(lambda: differentiate, cells)
    else:
        inputs = flat_problem(log_probs, topology, lengths, wildcard)
        directions = _flatten_with_steps(direction), _flatten_with_steps(posteriors)
        steps = tuple([stride // out.itemsize for stride in out.strides])
        sizes = _sizes(topology.states, lengths)

        def differentiate_portion(arrays: Any, todo: np.ndarray) -> None:
            while len(todo):
                done = sums.sums(
                    inputs, todo, arrays, directions, out_row, steps, out_row[:0], scores
                )
                differentiate(todo[done : done + 1])
                todo = todo[done + 1 :]

        def make() -> Callable[[np.ndarray], None]:
            scratch = sum_scratch(inputs, sizes, want=True, dual=True)
            return lambda todo: differentiate_portion(scratch.arrays, todo)

        deal(make, cells)
    return posteriors, out, scores


def _flatten_with_steps(values: np.ndarray) -> tuple[Any, ...]:
    """Return what `sums.sums` takes of float32 values (B, T, C) of any memory order."""
    row, steps = flat(values)
    return row, *steps, steps[2] == 1, values.shape[2]


def _sum(
    log_probs: np.ndarray,
    topology: Topology,
    frames: np.ndarray,
    wildcard: np.ndarray | None,
    *,
    want: bool,
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    kind = number_type(log_probs)
    shape = tuple(log_probs.shape)
    out_row = None
    out: np.ndarray = np.empty(0, kind)
    if want:
        memory_limits.require(np.dtype(kind).itemsize * math.prod(shape), "posteriors")
        out_row, out = _zeros(log_probs, kind)
    own = np.zeros(shape[:2] if want and wildcard is not None else (0,), kind)
    scores = np.empty(shape[0], np.float64)
    slow = GeneralKernels(log_probs, topology, frames, wildcard)
    cells = frames * topology.states

    def add_up(todo: np.ndarray) -> None:
        for b in todo.tolist():
            slow.add_up(b, scores, out, own)

    done = False
    if (
        kind == np.float32
        and topology.detours is None
        and _is_done_by_rows(sums.sums, topology, frames)
    ):
        with _patience.used():
            done = _sums_by_rows(slow, scores, out, own)
        if not done:
            out.fill(0)
            own.fill(0)
    if done:
        pass
    elif kind == np.float64 or topology.detours is not None:
        deal(lambda: add_up, cells)
    else:
        inputs = flat_problem(log_probs, topology, frames, wildcard)
        if want:
            steps = tuple([stride // out.itemsize for stride in out.strides])
        else:
            steps = (0, 0, 0)
        sizes = _sizes(topology.states, frames)

        def add_up_portion(arrays: Any, todo: np.ndarray) -> None:
            while len(todo):
                done = sums.sums(
                    inputs, todo, arrays, None, out_row, steps, own.reshape(-1), scores
                )
                add_up(todo[done : done + 1])
                todo = todo[done + 1 :]

        def make() -> Callable[[np.ndarray], None]:
            scratch = sum_scratch(inputs, sizes, want)
            return lambda todo: add_up_portion(scratch.arrays, todo)

        deal(make, cells, None if want else _not_pruned(inputs, scores, cells))
    return scores, out if want else None, own if own.ndim == 2 else None


def _not_pruned(inputs: FlatProblem, scores: np.ndarray, cells: np.ndarray) -> np.ndarray | None:
    """Fill the scores of the utterances that are too large for sums over all states.

    Returns the other utterances; None for all.
    """
    if max(cells.tolist(), default=0) < pruned_search.LEAST_CELLS:
        return None
    others = np.ones(len(scores), np.bool_)
    for b in np.flatnonzero(cells >= pruned_search.LEAST_CELLS).tolist():
        if (
            pruned_search.applies(inputs, b, pruned_search.LEAST_CELLS)
            and inputs.lengths[b] <= sums.MOST_FRAMES
        ):
            score = pruned_search.PrunedSum(inputs, b).search()
            if score is not None:
                scores[b] = score
                others[b] = False
    return np.flatnonzero(others)


def _zeros(log_probs: np.ndarray, kind: type) -> tuple[np.ndarray, np.ndarray]:
    """Return zeros in the shape and memory order of the log-probs: as a flat array, and shaped."""
    order = memory_order(log_probs)
    zeros: np.ndarray = np.zeros([log_probs.shape[axis] for axis in order], kind)
    return zeros.reshape(-1), zeros.transpose([order.index(axis) for axis in range(3)])


Sizes: TypeAlias = "set[tuple[int, int]]"
"""Numbers of states and of frames, those of each utterance."""


def _sizes(states: np.ndarray, frames: np.ndarray) -> Sizes:
    return set(zip(states.tolist(), frames.tolist()))


def sum_scratch(inputs: FlatProblem, sizes: Sizes, want: bool, dual: bool = False) -> Scratch:
    """Return the arrays that `sums.sums` needs for utterances of these sizes.

    They serve occupancies, too, if `want`, and their tangents if `dual`.
    """
    classes = inputs.source[1]
    most = max(states for states, _ in sizes)
    bytes_of_number = 12 if dual else 8
    general = any(inputs.general.tolist())
    block = WIDTH
    rows_kept = 0
    rows_saved = 0
    tiles = 0
    if want:
        longest = max(frames for _, frames in sizes)
        block = max(
            math.isqrt(longest), ROWS_BYTES // (2 * bytes_of_number * vectors_of(most) * WIDTH)
        )
        block = min(block, longest) // WIDTH * WIDTH + WIDTH
        # By utterance: the longest and the one with most states may be two.
        for states, frames in sizes:
            width = vectors_of(states) * WIDTH
            rows_kept = max(rows_kept, min(block, frames + WIDTH) * width * 2)
            rows_saved = max(rows_saved, -(-frames // block) * (width + width // STRIP + WIDTH) * 2)
        tiles = -(-longest // WIDTH) * dual
    plan = _SumPlan(most, classes, inputs.dense, general, dual, block, rows_kept, rows_saved, tiles)
    return Scratch(plan, lambda: _allocate_sums(plan))


class _SumPlan(NamedTuple):
    """The memory of sums.

    States and classes; how many numbers the rows kept in a block and the saved rows take (0 without
    occupancies); and the tiles of a whole direction.
    """

    states: int
    classes: int
    dense: bool
    general: bool
    dual: bool
    block: int
    rows_kept: int
    rows_saved: int
    tiles: int


def _allocate_sums(plan: _SumPlan) -> tuple[tuple[Any, ...], int]:
    """Return the arrays of `sums.sums`, in its order, and their bytes."""
    used = min(plan.states, plan.classes + 1)
    vectors = vectors_of(plan.states)
    width = vectors * WIDTH
    row = (vectors + (vectors - 1) // STRIP + 1) * WIDTH
    tile = (plan.classes + 1 if plan.dense else used) * WIDTH
    # Emissions of a block are kept where rows are.
    block_tiles = tile
    emitted = WIDTH * STRIP * WIDTH
    shares = 0
    has_rows = plan.rows_kept > 0
    if has_rows:
        block_tiles = tile * (plan.block // WIDTH)
        emitted = WIDTH * max(STRIP * WIDTH, width)
        shares = WIDTH * width
    bytes_of_number = 8
    purpose = "forward passes"
    if plan.dual:
        bytes_of_number = 12
        purpose = "forward passes with tangents"
    size = bytes_of_number * (plan.rows_kept + plan.rows_saved)
    size += 8 * (block_tiles + plan.tiles * tile)
    memory_limits.require(size, purpose)

    def numbers(count: int) -> list[tuple[int, Any]]:
        """Return mantissas, of tangents too, and exponents."""
        mantissas = [(count, np.float32)] * (2 if plan.dual else 1)
        return [*mantissas, (count, np.int32)]

    groups: dict[str, list[tuple[int, Any]]] = {
        "lists": [
            (plan.classes + 1, np.int32),
            (used, np.int64),
            (used, np.int64),
            (plan.classes * plan.dense, np.int32),
            (2 * width, np.int32),
            (4 * (vectors + 1), np.uint16),
            (6 * vectors * MASK_SIZE, MASK),
        ],
        "odd rows": numbers(row),
        "even rows": numbers(row),
        "odd rows backwards": numbers(width + WIDTH),
        "even rows backwards": numbers(width + WIDTH),
        "tiles": [
            (tile, np.float32),
            (block_tiles, np.float32),
            (block_tiles, np.int32),
            (WIDTH, np.float32),
            (plan.tiles * tile, np.float32),
            (plan.tiles * tile, np.float32),
        ],
        "emissions of odd states": numbers(emitted),
        "emissions of even states": numbers(emitted * plan.general),
        "hands": numbers(4 * WIDTH),
        "rows kept": numbers(plan.rows_kept),
        "shares": [
            (shares, np.float32),
            (shares * plan.general, np.float32),
            (WIDTH * WIDTH, np.float32),
            (WIDTH * WIDTH, np.float32),
            (WIDTH, np.int32),
            (WIDTH, np.int32),
        ],
        "rows saved": numbers(plan.rows_saved),
    }
    parts = iter(aligned(*itertools.chain.from_iterable(groups.values())))
    arrays: dict[str, Any] = {
        name: tuple(itertools.islice(parts, len(group))) for name, group in groups.items()
    }
    classes = arrays["lists"]
    classes[0].fill(-1)
    classes[3][:] = np.arange(len(classes[3]))
    emissions = arrays["emissions of odd states"], arrays["emissions of even states"]
    in_order = [
        classes,
        arrays["odd rows"],
        arrays["even rows"],
        arrays["odd rows backwards"],
        arrays["even rows backwards"],
        arrays["tiles"],
        emissions,
        arrays["hands"],
        arrays["rows kept"] if has_rows else None,
        arrays["shares"],
        arrays["rows saved"],
        plan.block,
    ]
    return tuple(in_order), size
