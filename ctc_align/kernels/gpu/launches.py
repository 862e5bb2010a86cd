"""Launches of the GPU's kernels, in their order: best paths, and sums over paths.

A call takes a handful of launches, however long its utterances, and sums of small problems one
(`SumPlan.single`); their number grows with the blocks of frames only for more states than a tile
holds, or more rows than memory holds. The host never waits for the device in between.

Arguments that both `sweep` kernels share (`path_kernels`, `sum_kernels`):

    tiles, first, diagonal   tile p, from tile `first` on, computes block `diagonal` - p of the frames
    span_frames              frames that a program computes: a block, or without tiles the whole utterance
    block_frames             frames between checkpoints, and between origins of the trace-back
    slots                    blocks whose rows or back-pointers are in memory at once

With RECOMPUTE blocks are computed again from their checkpoints: those from `first` on, `slots` of
them. For sums,
tiles start at `diagonal`, and the backward pass computes the blocks that have the forward blocks'
frames.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import path_kernels, posterior_kernels, small_kernels, sum_kernels
from ctc_align.kernels.gpu.launch_plan import DeviceProblem, RowShape, allocate, shape
from ctc_align.kernels.gpu.launching import Launch, compile_together, launch, made
from ctc_align.kernels.gpu.triton_import import INTERPRETED

ROWS_BYTES = 4 * 2**30
"""Bytes of the rows of both passes that occupancy holds at once; beyond them blocks are
recomputed."""

POINTERS_BYTES = 2 * 2**30
"""Bytes of the back-pointers that a call holds at once; beyond them blocks are recomputed."""

TILE_FRAMES = 512
"""Frames that a tile computes before the tile above starts them; a multiple of every halo."""

PATH_FRAMES = 64
"""Frames of a block of the trace-back, which traces all blocks at once; a multiple of four."""

MIN_BLOCK = 48
"""Without tiles, frames between checkpoints are a multiple of this, which is itself a multiple of
every halo."""

LINES, STATES, CLASSES, CLASS_THREADS, STEP, PAIRS = (
    1024 if INTERPRETED else 4, 128, 16, 8, 128, 1024 if INTERPRETED else 32,
)  # fmt: skip
"""Sizes of the programs before and after the passes: the kernels' parameters of these names."""

PROGRAM_STATES, COMPARED_STATES = (16, 16) if INTERPRETED else (64, 64)
"""States that a program of `sort_by_class` sorts, and how many it compares them with at a time."""

POSTERIOR_LINES = 1024 if INTERPRETED else 1
"""Lines of a program of `posterior`: one, so that the program is one warp, which sums without a
barrier."""

SINGLE_WARPS, SINGLE_CLASSES = 16, 256
"""The most warps, of both directions, and classes of a problem that takes one launch. In 16 warps,
a thread may have 128 registers, which the passes need; both directions then hold 384 states, the
forward pass alone 768. Posteriors of more classes are better spread over the card. With detours, all
in one kernel takes half a minute to compile, and more registers than there are."""

SHARE_FRAMES, SHARED_WARPS = 32, 1024
"""In one launch, the fewest frames that a program's share has, and how many warps share the frames:
what a card with some 130 multiprocessors runs at once with 8 warps each."""

PLANS = 256
"""Plans that are kept, for problems of a shape that has been met."""

BUFFER_WORDS = 16
"""Buffers of one allocation begin at multiples of so many 64-bit words: 128 bytes, a line of the
cache."""


def block_count(frames: int, block: int) -> int:
    """Return the number of blocks that the frames after the first make; at least one."""
    return max(1, -(-(frames - 1) // block))


def checkpoint_interval(frames: int) -> int:
    """Return the frames between checkpoints, about the square root.

    There are as many checkpoints as rows in a block then, which takes the least memory.
    """
    return -(-int(frames**0.5) // MIN_BLOCK) * MIN_BLOCK


def diagonals(tiles: int, blocks: int) -> list[tuple[int, int, int]]:
    """Return (diagonal, first tile, number of tiles) of each launch.

    Tile p of block n needs tile p - 1 of n and tile p of n - 1.
    """
    steps = []
    for diagonal in range(tiles + blocks - 1):
        low = max(0, diagonal - blocks + 1)
        high = min(tiles - 1, diagonal)
        steps.append((diagonal, low, high - low + 1))
    return steps


def ring_frames(layout: RowShape, span_frames: int, longest: int) -> int:
    """Return how many rows a ring holds.

    Two for one tile. With several, the first tile is ahead of the last by a block per tile between
    them, and detours
    of the last read rows of its own block: so a block of `span_frames` per tile, and the row
    before.
    """
    if layout.tiled:
        return min(longest, layout.tiles * span_frames + 1)
    return 2


def sizes() -> tuple[int, ...]:
    """Return the sizes of this module that a plan depends on, and that may be set."""
    return (
        ROWS_BYTES, TILE_FRAMES, MIN_BLOCK, STATES, CLASSES, CLASS_THREADS, STEP, PROGRAM_STATES,
        COMPARED_STATES, SINGLE_WARPS, SHARE_FRAMES,
    )  # fmt: skip


class SumShape(NamedTuple):
    """The shape of a problem and the kind of sums, on which alone their plan depends."""

    layout: RowShape
    batch: int
    frames: int
    width: int
    classes: int
    longest: int
    max_detours: int
    is_float64: bool
    both: bool
    sizes: tuple[int, ...]


class SumPlan:
    """How frames are cut, and what memory the passes take, by the shape of a problem.

    Attributes:
        single: whether the problem is small: one launch does all.
        shares: in one launch, the programs of an utterance.
        numbers: arguments of kernels that depend on the shape alone.
        words: of each buffer of 64-bit numbers, how many; a multiple of `BUFFER_WORDS`.
        halves: the same of 32-bit numbers, which share the last of those buffers.
    """

    def __init__(self, given: SumShape) -> None:
        layout, longest = given.layout, given.longest
        self.directions = 2 if given.both else 1
        passes = given.batch * self.directions
        row_size = 2 * layout.units
        self.recompute = given.both and passes * longest * row_size * 8 > ROWS_BYTES
        self.span_frames = TILE_FRAMES if layout.tiled else longest
        if layout.tiled:
            self.block_frames = TILE_FRAMES
        else:
            self.block_frames = checkpoint_interval(longest)
        self.blocks = block_count(longest, self.block_frames)
        self.slots = 1
        row_frames = longest
        if self.recompute:
            fitting = ROWS_BYTES // (passes * row_size * 8 * self.block_frames)
            self.slots = min(max(fitting, 2), self.blocks + 1)
            row_frames = self.slots * self.block_frames
        warps = self.directions * layout.warps
        self.single = (
            self.directions * layout.strips <= SINGLE_WARPS
            and given.classes <= SINGLE_CLASSES
            and not (layout.tiled or self.recompute or given.max_detours)
        )
        self.shares = 1
        if self.single and given.both:
            idle = SHARED_WARPS // (warps * layout.groups(given.batch))
            self.shares = max(1, min(idle, given.frames // SHARE_FRAMES))
        share_frames = -(-given.frames // self.shares)
        self.shares = -(-given.frames // share_frames)
        edge_blocks = self.blocks if self.recompute else 2
        self.save_checkpoints = layout.tiled or self.recompute
        checkpoint_blocks = (longest - 1) // self.block_frames + 1
        # Detours read the saved rows if all are saved; a pass that saves only checkpoints has a
        # ring instead.
        ring_rows = ring_frames(layout, self.span_frames, longest)
        has_ring = given.max_detours and (self.recompute or not given.both)
        programs = layout.groups(given.batch) * layout.tiles * self.directions * self.slots
        programs *= self.shares
        edges = 0
        if layout.tiled:
            edge_size = (self.span_frames // layout.halo) * 2 * layout.halo
            edges = passes * layout.tiles * edge_blocks * edge_size
        utterances = given.batch * self.shares
        centres = utterances * given.frames
        halves = {
            "end_exponents": utterances * layout.tiles,
            "statuses": utterances,
            "order": utterances * given.width if given.both else 0,
            "bounds": utterances * (given.classes + 2) if given.both else 0,
        }
        self.halves = {name: rounded(count, 2 * BUFFER_WORDS) for name, count in halves.items()}
        words = {
            "rows": passes * row_frames * row_size if given.both else 0,
            "checkpoints": passes * checkpoint_blocks * row_size if self.save_checkpoints else 0,
            "edges": edges,
            "ring": passes * ring_rows * row_size if has_ring else 0,
            "last_rows": utterances * row_size,
            "halo_buffer": programs * 4 * layout.rows * layout.strips * layout.halo,
            "totals": utterances,
            "centres": centres if given.is_float64 else (centres + 1) // 2,
            "halves": sum(self.halves.values()) // 2,
        }
        self.words = {name: rounded(count, BUFFER_WORDS) for name, count in words.items()}
        self.total_words = sum(self.words.values())
        self.numbers = {
            **layout.arguments(),
            "TILED": layout.tiled,
            "tiles": layout.tiles,
            "row_units": layout.units,
            "classes": given.classes,
            "span_frames": self.span_frames,
            "block_frames": self.block_frames,
            "edge_blocks": edge_blocks,
            "checkpoint_blocks": checkpoint_blocks,
            "row_frames": row_frames,
            "ring_frames": ring_rows,
            "slots": self.slots,
            "share_frames": share_frames,
            "program_lines": LINES,
            "SIDES": self.directions if self.single else 1,
            "LINES": min(warps, 4) if self.single and not INTERPRETED else LINES,
            "STATES": STATES,
            "CLASSES": CLASSES,
            "CLASS_THREADS": CLASS_THREADS,
            "STEP": STEP,
            "PROGRAM_STATES": PROGRAM_STATES,
            "COMPARED_STATES": COMPARED_STATES,
            "out_b": 0,
            "out_t": 0,
            "out_c": 0,
            "FLOAT64": given.is_float64,
            "BANDED": not given.max_detours,
        }
        if self.single:
            self.numbers.update(PROGRAM_STATES=min(PROGRAM_STATES, 32), COMPARED_STATES=16)


sum_plan = functools.lru_cache(maxsize=PLANS)(SumPlan)


def rounded(count: int, unit: int) -> int:
    """Return the least multiple of a unit that is not below the count."""
    return -(-count // unit) * unit


class SumLaunches:
    """Totals of a problem and, with `both`, its posteriors."""

    def __init__(self, problem: DeviceProblem, both: bool) -> None:
        self.problem, self.both = problem, both
        x = problem.x
        self.is_float64 = x.dtype == torch.float64
        self.layout = shape(problem.width, problem.batch)
        batch, frames, classes = x.shape
        given = SumShape(
            self.layout, batch, frames, problem.width, classes, max(problem.longest, 1),
            problem.max_detours, self.is_float64, both, sizes(),
        )  # fmt: skip
        self.plan = plan = sum_plan(given)
        memory = allocate(
            (plan.total_words,), torch.int64, x.device, "rows, checkpoints and edges of tiles"
        )
        buffers = dict(zip(plan.words, memory.split_with_sizes(list(plan.words.values()))))
        halves = buffers.pop("halves").view(torch.int32)
        real = torch.float64 if self.is_float64 else torch.float32
        buffers["centres"] = buffers["centres"].view(real)
        scores = allocate((problem.batch * plan.shares,), torch.float64, x.device, "scores")
        self.scores = scores[: problem.batch]
        self.values: dict[str, Any] = {
            **plan.numbers,
            **problem.arguments(),
            **problem.switches(),
            **buffers,
            **dict(zip(plan.halves, halves.split_with_sizes(list(plan.halves.values())))),
            "scores": scores,
            "out": scores,
            "out_wild": scores,
        }

    def run(self) -> None:
        """Launch all that computes the scores and, with `both`, the posteriors."""
        problem, plan = self.problem, self.plan
        if plan.single:
            grid = self.layout.groups(problem.batch), 1, plan.shares
            warps = plan.numbers["SIDES"] * self.layout.warps
            launches = [self._made(small_kernels.compute_sums, grid, warps)]
        else:
            launches = [*self._totals()]
            if self.both:
                launches += self._posteriors()
        kind = (
            self.both, problem.x.device, problem.x.dtype, self.layout, plan.recompute,
            plan.single, *problem.switches().values(),
        )  # fmt: skip
        compile_together(kind, launches)
        for one in launches:
            launch(one.kernel, one.grid, one.warps, *one.arguments)

    def _made(self, kernel: Any, grid: tuple[int, ...], warps: int, **more: Any) -> Launch:
        return made(kernel, grid, warps, {**self.values, **more} if more else self.values)

    def _number_kinds(self) -> list[tuple[bool, bool]]:
        """Return LOG and FALLBACK of the passes.

        Scaled numbers, then logarithms where needed; or only logarithms.
        """
        if self.is_float64:
            return [(True, False)]
        return [(False, False), (True, True)]

    def totals(self) -> torch.Tensor:
        """Return the scores (B,) float64."""
        self.run()
        return self.scores

    def _totals(self) -> Iterator[Launch]:
        """Yield what computes scores, and what posteriors need of the totals."""
        problem, layout = self.problem, self.layout
        lines = problem.batch * problem.frames
        yield self._made(posterior_kernels.centre, (-(-lines // LINES),), 4)
        for in_logs, fallback in self._number_kinds():
            for diagonal, first, tiles in diagonals(
                layout.tiles, self.plan.blocks if layout.tiled else 1
            ):
                yield self._sweep(tiles, first, diagonal, in_logs, fallback, recompute=False)
        yield self._made(
            posterior_kernels.total, (layout.groups(problem.batch),), 4, LOG=self.is_float64
        )

    def _sweep(
        self,
        programs: int,
        first: int,
        diagonal: int,
        in_logs: bool,
        fallback: bool,
        recompute: bool,
    ) -> Launch:
        layout, plan = self.layout, self.plan
        return self._made(
            sum_kernels.sweep,
            (layout.groups(self.problem.batch), programs, plan.directions),
            layout.warps,
            span_frames=plan.block_frames if recompute else plan.span_frames,
            first=first,
            diagonal=diagonal,
            LOG=in_logs,
            FALLBACK=fallback,
            SAVE_CHECKPOINTS=not recompute and plan.save_checkpoints,
            SAVE_ROWS=self.both and (recompute or not plan.recompute),
            RECOMPUTE=recompute,
        )

    def posteriors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return the scores (B,) float64, the posteriors (B, T, C), and the wildcard's (B, T).

        Posteriors are strided like the log-probs.
        """
        problem = self.problem
        dtype = torch.float64 if self.is_float64 else torch.float32
        out = torch.empty_like(problem.x, dtype=dtype)
        wild = None
        if problem.has_wildcard:
            wild = allocate(
                (problem.batch, problem.frames), dtype, problem.x.device, "posteriors of wildcards"
            )
        out_b, out_t, out_c = out.stride()
        self.values.update(
            out=out,
            out_wild=self.scores if wild is None else wild,
            out_b=out_b,
            out_t=out_t,
            out_c=out_c,
        )
        self.run()
        return self.scores, out, wild

    def _posteriors(self) -> Iterator[Launch]:
        """Yield what computes posteriors once the totals are known."""
        problem, plan = self.problem, self.plan
        most = max(problem.width, problem.x.shape[2] + 2)
        yield self._made(
            posterior_kernels.sort_by_class,
            (self.layout.groups(problem.batch), -(-most // PROGRAM_STATES)),
            4,
        )
        if not plan.recompute:
            yield from self._of_frames(problem.frames, 0)
            return
        for first in range(0, self.padded_block_count(), plan.slots - 1):
            for in_logs, fallback in self._number_kinds():
                for tile, tiles in self._recomputed_tiles():
                    yield self._sweep(
                        tiles * plan.slots, first, tile, in_logs, fallback, recompute=True
                    )
            left = problem.frames - first * plan.block_frames
            yield from self._of_frames(min((plan.slots - 1) * plan.block_frames, left), first)

    def _recomputed_tiles(self) -> list[tuple[int, int]]:
        """Return the first tile and the number of tiles of each launch that recomputes blocks.

        Edges of tiles are known by then, so that all tiles share a launch. With detours they
        cannot: detours read rows of lower tiles, which earlier launches must have computed.
        """
        tiles = self.layout.tiles
        if self.problem.max_detours:
            return [(tile, 1) for tile in range(tiles)]
        return [(0, tiles)]

    def padded_block_count(self) -> int:
        """Return the number of blocks of all frames, including padding."""
        return -(-self.problem.frames // self.plan.block_frames)

    def _of_frames(self, frames: int, first: int) -> Iterator[Launch]:
        """Yield what computes the posteriors of some frames, from block `first` on."""
        plan = self.plan
        for in_logs, fallback in self._number_kinds():
            yield self._made(
                posterior_kernels.posterior,
                (-(-self.problem.batch * frames // POSTERIOR_LINES),),
                1,
                span_frames=plan.block_frames if plan.recompute else frames,
                slots=plan.slots if plan.recompute else 2,
                first_block=first,
                program_lines=POSTERIOR_LINES,
                LINES=POSTERIOR_LINES,
                LOG=in_logs,
                FALLBACK=fallback,
                RECOMPUTE=plan.recompute,
            )


def pointer_bits(max_detours: int) -> tuple[int, torch.dtype]:
    """Return the bits of a back-pointer, and the type of the words that hold four."""
    for bits, dtype in ((2, torch.int8), (8, torch.int32), (16, torch.int64)):
        if max_detours + 3 <= 1 << bits and (max_detours == 0 or bits > 2):
            return bits, dtype
    raise KernelError(
        f"topology: a state has {max_detours} detours, at most {(1 << 16) - 3} are taken"
    )


@dataclass
class PathLaunches:
    """Best paths of a problem."""

    problem: DeviceProblem

    def __post_init__(self) -> None:
        problem = self.problem
        self.layout = layout = shape(problem.width, problem.batch)
        longest = max(problem.longest, 1)
        batch = problem.batch
        row_size = 2 * layout.units
        self.bits, self.word_dtype = pointer_bits(problem.max_detours)
        word_rows = -(-max(longest - 1, 1) // 4)
        self.recompute = batch * word_rows * row_size * self.word_dtype.itemsize > POINTERS_BYTES
        # With several tiles, detours may come from any tile, whose rows are not in the window: no
        # recomputing then.
        self.recompute &= not (layout.tiled and problem.max_detours)
        self.block_frames = PATH_FRAMES
        if self.recompute:
            # A window is one tile wide, and must hold all states from which the block's end state
            # can be reached: a path rises by at most a unit per frame.
            if layout.tiled:
                self.block_frames = (layout.tile_units - 1) // layout.halo * layout.halo
            else:
                self.block_frames = checkpoint_interval(longest)
        elif layout.tiled:
            self.block_frames = TILE_FRAMES
        if layout.tiled:
            self.span_frames = self.block_frames
        else:
            self.span_frames = longest
        self.blocks = block_count(longest, self.block_frames)
        self.slots = 1
        self.word_rows = word_rows
        word_total = batch * word_rows * row_size
        if self.recompute:
            self.word_rows = self.block_frames // 4
            word_total = batch * self.word_rows * 2 * layout.tile_units
            self.slots = min(
                max(POINTERS_BYTES // (word_total * self.word_dtype.itemsize), 1), self.blocks
            )
            word_total *= self.slots
        if layout.tiled:
            edges = batch * layout.tiles * 2 * (self.span_frames // layout.halo) * 2 * layout.halo
        else:
            edges = 1
        ring_rows = ring_frames(layout, self.span_frames, longest)
        if problem.max_detours:
            ring_size = batch * self.slots * ring_rows * row_size
        else:
            ring_size = 1
        halo_size = (
            layout.groups(batch)
            * max(layout.tiles, self.slots)
            * 4
            * layout.rows
            * layout.strips
            * layout.halo
        )
        checkpoints: tuple[int, ...] = (1,)
        if layout.tiled or self.recompute:
            checkpoints = (batch, self.blocks, row_size)
        self.end_states = self._allocate((batch, self.blocks), torch.int32)
        self.origins = self._allocate(
            (batch, self.blocks, row_size), torch.int32, "origins of best paths"
        )
        self.pointers = self._allocate((word_total,), self.word_dtype, "back-pointers")
        self.last_rows = self._allocate((batch, row_size))
        self.arguments = {
            **problem.arguments(),
            **problem.switches(),
            **layout.arguments(),
            "bands": problem.bands,
            "halo_buffer": self._allocate((halo_size,)),
            "halo_origins": self._allocate((halo_size,), torch.int32),
            "edges": self._allocate((edges,), what="edges of tiles"),
            "edge_origins": self._allocate((edges,), torch.int32, "edges of tiles"),
            "checkpoints": self._allocate(checkpoints, what="checkpoints"),
            "origins": self.origins,
            "pointers": self.pointers,
            "last_rows": self.last_rows,
            "ring": self._allocate((ring_size,), what="rows that detours read"),
            "ring_origins": self._allocate((ring_size,), torch.int32, "rows that detours read"),
            "end_states": self.end_states,
            "tiles": layout.tiles,
            "block_frames": self.block_frames,
            "blocks": self.blocks,
            "row_units": layout.units,
            "word_rows": self.word_rows,
            "ring_frames": ring_rows,
            "slots": self.slots,
            "BITS": self.bits,
            "BANDED": problem.banded,
        }

    def _allocate(
        self, size: tuple[int, ...], dtype: torch.dtype = torch.float64, what: str = "rows"
    ) -> torch.Tensor:
        return allocate(size, dtype, self.problem.x.device, what)

    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states (B, T) int32 and scores (B,) float64."""
        problem = self.problem
        scores = self._allocate((problem.batch,))
        states = torch.full(
            (problem.batch, problem.frames), -1, dtype=torch.int32, device=problem.x.device
        )
        self.arguments.update(
            scores=scores,
            states=states,
            window_units=self.layout.tile_units,
            STEP=STEP,
            PAIRS=PAIRS,
        )
        launches = [*self._launches()]
        kind = (
            problem.x.device, problem.x.dtype, self.layout, self.recompute, self.bits,
            problem.banded, *problem.switches().values(),
        )  # fmt: skip
        compile_together(kind, launches)
        for one in launches:
            launch(one.kernel, one.grid, one.warps, *one.arguments)
        return states, scores

    def _launches(self) -> Iterator[Launch]:
        layout = self.layout
        for diagonal, first, tiles in diagonals(layout.tiles, self.blocks if layout.tiled else 1):
            yield self._sweep(tiles, first, diagonal, recompute=False)
        groups = layout.groups(self.problem.batch)
        yield made(path_kernels.block_ends, (groups,), 4, self.arguments)
        if not self.recompute:
            yield self._trace_blocks(0, self.blocks)
            return
        for first in range(0, self.blocks, self.slots):
            yield self._sweep(self.slots, first, 0, recompute=True)
            yield self._trace_blocks(first, self.slots)

    def _sweep(self, programs: int, first: int, diagonal: int, recompute: bool) -> Launch:
        layout = self.layout
        values = {
            **self.arguments,
            "first": first,
            "diagonal": diagonal,
            "span_frames": self.block_frames if recompute else self.span_frames,
            "TILED": layout.tiled and not recompute,
            "RECOMPUTE": recompute,
            "SAVE_CHECKPOINTS": not recompute and (layout.tiled or self.recompute),
            "SAVE_POINTERS": recompute or not self.recompute,
        }
        grid = layout.groups(self.problem.batch), programs
        return made(path_kernels.sweep, grid, layout.warps, values)

    def _trace_blocks(self, first: int, slots: int) -> Launch:
        values = {
            **self.arguments,
            "first_block": first,
            "slots": slots,
            "RECOMPUTE": self.recompute,
        }
        grid = (-(-self.problem.batch * slots // PAIRS),)
        return made(path_kernels.trace_blocks, grid, max(1, PAIRS // 32), values)
