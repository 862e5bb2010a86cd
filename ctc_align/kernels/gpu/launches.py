"""Launches of the GPU's kernels, in their order: best paths, and sums over paths.

A call takes a handful of launches, however long its utterances; their number grows with the blocks
of frames only for more states than a tile holds, or more rows than memory holds. The host never
waits for the device in between.

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

from dataclasses import dataclass
from typing import Any

import torch

from ctc_align.errors import KernelError
from ctc_align.kernels.gpu import path_kernels, posterior_kernels, sum_kernels
from ctc_align.kernels.gpu.launch_plan import DeviceProblem, RowShape, allocate, shape
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


def launch(kernel: Any, grid: tuple[int, ...], warps: int, **arguments: Any) -> None:
    """Launch a kernel on the current stream."""
    # One stage: kernels load ahead themselves. Fused products round once instead of twice, which
    # loses nothing.
    kernel[grid](**arguments, num_warps=warps, num_stages=1, enable_fp_fusion=True)


def block_count(frames: int, block: int) -> int:
    """Return the number of blocks that the frames after the first make; at least one."""
    return max(1, -(-(frames - 1) // block))


def checkpoint_interval(frames: int) -> int:
    """Return the frames between checkpoints, about the square root: as many checkpoints as rows in
    a block, which takes the least memory."""
    return -(-int(frames**0.5) // MIN_BLOCK) * MIN_BLOCK


def diagonals(tiles: int, blocks: int) -> list[tuple[int, int, int]]:
    """Return (diagonal, first tile, number of tiles) of each launch: tile p of block n needs tile p
    - 1 of n and tile p of n - 1."""
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


@dataclass
class SumLaunches:
    """Totals of a problem and, with `both`, its posteriors."""

    problem: DeviceProblem
    both: bool

    def __post_init__(self) -> None:
        problem = self.problem
        self.device = problem.x.device
        self.is_float64 = problem.x.dtype == torch.float64
        self.layout: RowShape = shape(problem.width, problem.batch)
        self.directions = 2 if self.both else 1
        layout = self.layout
        longest = max(problem.longest, 1)
        passes = problem.batch * self.directions
        row_size = 2 * layout.units
        self.recompute = self.both and passes * longest * row_size * 8 > ROWS_BYTES
        self.span_frames = TILE_FRAMES if layout.tiled else longest
        if layout.tiled:
            self.block_frames = TILE_FRAMES
        else:
            self.block_frames = checkpoint_interval(longest)
        self.blocks = block_count(longest, self.block_frames)
        checkpoint_blocks = (longest - 1) // self.block_frames + 1
        self.slots = 1
        self.row_frames = longest
        if self.recompute:
            fitting = ROWS_BYTES // (passes * row_size * 8 * self.block_frames)
            self.slots = min(max(fitting, 2), self.blocks + 1)
            self.row_frames = self.slots * self.block_frames
        checkpoints = layout.tiled or self.recompute
        edge_blocks = self.blocks if self.recompute else 2
        if layout.tiled:
            edges = (
                passes
                * layout.tiles
                * edge_blocks
                * (self.span_frames // layout.halo)
                * 2
                * layout.halo
            )
        else:
            edges = 1
        # Detours read the saved rows if all are saved; a pass that saves only checkpoints has a
        # ring instead.
        self.ring_frames = ring_frames(layout, self.span_frames, longest)
        if problem.max_detours and (self.recompute or not self.both):
            ring_size = passes * self.ring_frames * row_size
        else:
            ring_size = 1
        self.buffers = {
            "centres": self._allocate(
                (problem.batch, problem.frames), torch.float64 if self.is_float64 else torch.float32
            ),
            "edges": self._allocate((edges,), what="edges of tiles"),
            "checkpoints": self._allocate(
                (passes, checkpoint_blocks, row_size) if checkpoints else (1,), what="checkpoints"
            ),
            "rows": self._allocate(
                (passes, self.row_frames, row_size) if self.both else (1,), what="rows"
            ),
            "ring": self._allocate((ring_size,), what="rows that detours read"),
            "last_rows": self._allocate((problem.batch, row_size)),
            "end_exponents": self._allocate((problem.batch, layout.tiles), torch.int32),
            "halo_buffer": self._allocate(
                (self._program_count() * 4 * layout.rows * layout.strips * layout.halo,)
            ),
        }
        self.arguments = {
            **problem.arguments(),
            **self.buffers,
            "detours": problem.detours,
            "max_detours": problem.max_detours,
            "tiles": layout.tiles,
            "span_frames": self.span_frames,
            "block_frames": self.block_frames,
            "edge_blocks": edge_blocks,
            "checkpoint_blocks": checkpoint_blocks,
            "row_frames": self.row_frames,
            "ring_frames": self.ring_frames,
        }
        self.constants = {**layout.arguments(), **problem.switches(), "TILED": layout.tiled}

    def _allocate(
        self, size: tuple[int, ...], dtype: torch.dtype = torch.int64, what: str = "rows"
    ) -> torch.Tensor:
        return allocate(size, dtype, self.device, what)

    def _program_count(self) -> int:
        return (
            self.layout.groups(self.problem.batch)
            * self.layout.tiles
            * self.directions
            * self.slots
        )

    def _number_kinds(self) -> list[tuple[bool, bool]]:
        """Return LOG and FALLBACK of the passes: scaled numbers, then logarithms where needed; or
        only logarithms."""
        if self.is_float64:
            return [(True, False)]
        return [(False, False), (True, True)]

    def totals(self) -> torch.Tensor:
        """Run the passes and return the scores (B,) float64."""
        problem, layout = self.problem, self.layout
        lines = problem.batch * problem.frames
        launch(
            posterior_kernels.centre, (-(-lines // LINES),), 4,
            **{name: self.arguments[name] for name in posterior_kernels.centre.arg_names if name in self.arguments},
            LINES=LINES, STATES=STATES, FLOAT64=self.is_float64, WILD=problem.has_wildcard,
            BANDED=not problem.max_detours,
        )  # fmt: skip
        for in_logs, fallback in self._number_kinds():
            for diagonal, first, tiles in diagonals(
                layout.tiles, self.blocks if layout.tiled else 1
            ):
                self._sweep(tiles, first, diagonal, in_logs, fallback, recompute=False)
        self.scores = self._allocate((problem.batch,), torch.float64)
        self.statuses = self._allocate((problem.batch,), torch.int32)
        self.packed_totals = self._allocate((problem.batch,))
        launch(
            posterior_kernels.total, (layout.groups(problem.batch),), 4,
            **{name: self.arguments[name] for name in ("last_rows", "flags", "numbers", "end_exponents", "centres")},
            scores=self.scores, statuses=self.statuses, totals=self.packed_totals, batch=problem.batch,
            frames=problem.frames,
            width=problem.width, tiles=layout.tiles, row_units=layout.units, ROWS=layout.rows, STEP=STEP,
            LOG=self.is_float64,
        )  # fmt: skip
        return self.scores

    def _sweep(
        self,
        programs: int,
        first: int,
        diagonal: int,
        in_logs: bool,
        fallback: bool,
        recompute: bool,
    ) -> None:
        layout = self.layout
        saves_rows = self.both and (recompute or not self.recompute)
        launch(
            sum_kernels.sweep, (layout.groups(self.problem.batch), programs, self.directions), layout.warps,
            **{**self.arguments, "span_frames": self.block_frames if recompute else self.span_frames},
            **self.constants, first=first, diagonal=diagonal, slots=self.slots,
            LOG=in_logs, FALLBACK=fallback, SAVE_CHECKPOINTS=not recompute and (layout.tiled or self.recompute),
            SAVE_ROWS=saves_rows, RECOMPUTE=recompute,
        )  # fmt: skip

    def posteriors(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return posteriors (B, T, C), strided like the log-probs, and the wildcard's (B, T); run
        `totals` first."""
        problem = self.problem
        dtype = torch.float64 if self.is_float64 else torch.float32
        out = torch.empty_like(problem.x, dtype=dtype)
        wild = self._allocate(
            (problem.batch, problem.frames) if problem.has_wildcard else (0,), dtype
        )
        order, bounds = self._sort_by_class()
        if not self.recompute:
            self._posteriors(out, wild, order, bounds, 0)
        else:
            for first in range(0, self.padded_block_count(), self.slots - 1):
                for in_logs, fallback in self._number_kinds():
                    for tile, tiles in self._recomputed_tiles():
                        self._sweep(
                            tiles * self.slots, first, tile, in_logs, fallback, recompute=True
                        )
                self._posteriors(out, wild, order, bounds, first)
        return out, wild if problem.has_wildcard else None

    def _sort_by_class(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states (B, S) sorted by class, and where each class begins (B, C + 2)."""
        problem = self.problem
        layout = self.layout
        classes = self.problem.x.shape[2]
        order = self._allocate((problem.batch, problem.width), torch.int32)
        bounds = self._allocate((problem.batch, classes + 2), torch.int32)
        launch(
            posterior_kernels.sort_by_class,
            (layout.groups(problem.batch), -(-max(problem.width, classes + 2) // PROGRAM_STATES)), 4,
            emit=problem.emit, numbers=problem.numbers, order=order, bounds=bounds, batch=problem.batch,
            width=problem.width, classes=classes, ROWS=layout.rows, PROGRAM_STATES=PROGRAM_STATES,
            COMPARED_STATES=COMPARED_STATES,
        )  # fmt: skip
        return order, bounds

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
        return -(-self.problem.frames // self.block_frames)

    def _posteriors(
        self,
        out: torch.Tensor,
        wild: torch.Tensor,
        order: torch.Tensor,
        bounds: torch.Tensor,
        first: int,
    ) -> None:
        problem = self.problem
        frames = problem.frames
        if self.recompute:
            frames = min((self.slots - 1) * self.block_frames, frames - first * self.block_frames)
        names = (
            "x",
            "wild",
            "numbers",
            "centres",
            "rows",
            "x_b",
            "x_t",
            "x_c",
            "wild_b",
            "wild_t",
            "width",
        )
        shared = {
            **{name: self.arguments[name] for name in names},
            "statuses": self.statuses,
            "totals": self.packed_totals,
            "batch": problem.batch,
            "frames": problem.frames,
            "row_units": self.layout.units,
            "first_block": first,
            "slots": self.slots,
            "span_frames": self.block_frames,
            "row_frames": self.row_frames,
            "RECOMPUTE": self.recompute,
        }
        grid = (-(-problem.batch * frames // POSTERIOR_LINES),)
        for in_logs, fallback in self._number_kinds():
            launch(
                posterior_kernels.posterior, grid, 1, **shared, emit=problem.emit, order=order,
                bounds=bounds, out=out, out_wild=wild, out_b=out.stride(0), out_t=out.stride(1), out_c=out.stride(2),
                classes=problem.x.shape[2], LINES=POSTERIOR_LINES, CLASSES=CLASSES, CLASS_THREADS=CLASS_THREADS,
                LOG=in_logs, FALLBACK=fallback,
                WILD=problem.has_wildcard,
            )  # fmt: skip


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
            "detours": problem.detours,
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
            "max_detours": problem.max_detours,
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
        problem, layout = self.problem, self.layout
        for diagonal, first, tiles in diagonals(layout.tiles, self.blocks if layout.tiled else 1):
            self._sweep(tiles, first, diagonal, recompute=False)
        scores = self._allocate((problem.batch,))
        launch(
            path_kernels.block_ends, (layout.groups(problem.batch),), 4, flags=problem.flags, numbers=problem.numbers,
            last_rows=self.last_rows, origins=self.origins, end_states=self.end_states, scores=scores,
            batch=problem.batch,
            width=problem.width, row_units=layout.units, block_frames=self.block_frames, blocks=self.blocks,
            ROWS=layout.rows, STEP=STEP,
        )  # fmt: skip
        states = torch.full(
            (problem.batch, problem.frames), -1, dtype=torch.int32, device=problem.x.device
        )
        if not self.recompute:
            self._trace_blocks(states, 0, self.blocks)
        else:
            for first in range(0, self.blocks, self.slots):
                self._sweep(self.slots, first, 0, recompute=True)
                self._trace_blocks(states, first, self.slots)
        return states, scores

    def _sweep(self, programs: int, first: int, diagonal: int, recompute: bool) -> None:
        layout = self.layout
        launch(
            path_kernels.sweep, (layout.groups(self.problem.batch), programs), layout.warps, **self.arguments,
            first=first,
            diagonal=diagonal, span_frames=self.block_frames if recompute else self.span_frames,
            TILED=layout.tiled and not recompute, RECOMPUTE=recompute,
            SAVE_CHECKPOINTS=not recompute and (layout.tiled or self.recompute),
            SAVE_POINTERS=recompute or not self.recompute,
        )  # fmt: skip

    def _trace_blocks(self, states: torch.Tensor, first: int, slots: int) -> None:
        problem, layout = self.problem, self.layout
        launch(
            path_kernels.trace_blocks, (-(-problem.batch * slots // PAIRS),), max(1, PAIRS // 32),
            numbers=problem.numbers,
            end_states=self.end_states, pointers=self.pointers, detours=problem.detours, states=states,
            batch=problem.batch,
            frames=problem.frames, width=problem.width, max_detours=problem.max_detours, first_block=first, slots=slots,
            block_frames=self.block_frames,
            blocks=self.blocks, row_units=layout.units, window_units=layout.tile_units, word_rows=self.word_rows,
            PAIRS=PAIRS, BITS=self.bits, RECOMPUTE=self.recompute,
        )  # fmt: skip
