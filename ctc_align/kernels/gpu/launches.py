"""Launches of the device's kernels, in their order: best paths, and sums over paths.

A call takes a handful of launches, however long its utterances; only for more states than a tile holds, or more rows
than memory holds, their number grows with the blocks of frames. Nothing waits in between.

Arguments of the passes (`sweep` of `sum_kernels` and `path_kernels`) besides tensors: tile p computes block n =
`diagonal` - p, for the tiles from `first` on; a block has `span` frames, and every `keep` frames a row is saved (an
entry). When blocks are computed again from the entries: those from `first` on, `slots` of them (in the mirrored pass
those of the same frames), in the tiles from `diagonal` on.
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
"""Rows of both passes that occupancy keeps at once."""

POINTERS_BYTES = 2 * 2**30
"""Back-pointers that a call keeps at once."""

TILE_FRAMES = 512
"""Frames that a tile computes before the next one starts; a multiple of every halo."""

PATH_FRAMES = 64
"""Frames of a block; the trace-back follows all blocks at once."""

LEAST_BLOCK = 48
"""Blocks between checkpoints are multiples of this, which is one of every halo."""

LINES, STATES, CLASSES, EACH, STEP, PAIRS = 1024 if INTERPRETED else 4, 128, 16, 8, 128, 1024 if INTERPRETED else 32
"""Sizes of the programs before and after the passes."""

OWN, OTHERS = (16, 16) if INTERPRETED else (64, 64)
"""States that a program of `by_class` sorts, and with how many it compares them at a time."""

POSTERIOR_LINES = 1024 if INTERPRETED else 1
"""Frames of a program of `posterior`: of one warp, which then adds up without a barrier."""


def launch(kernel: Any, grid: tuple[int, ...], warps: int, **arguments: Any) -> None:
    # Loads are fetched ahead by hand; fused products lose nothing, and Triton asks for the choice.
    kernel[grid](**arguments, num_warps=warps, num_stages=1, enable_fp_fusion=True)


def blocks_of(frames: int, block: int) -> int:
    """Return the number of blocks of the frames after the first."""
    return max(1, -(-(frames - 1) // block))


def block_frames(frames: int) -> int:
    """Return the frames between checkpoints for which checkpoints and the rows of a block are about as many."""
    return -(-int(frames**0.5) // LEAST_BLOCK) * LEAST_BLOCK


def diagonals(tiles: int, blocks: int) -> list[tuple[int, int, int]]:
    """Return (diagonal, first tile, number of tiles) of each launch: tile p of block n needs tile p - 1 of n and tile p
    of n - 1."""
    steps = []
    for diagonal in range(tiles + blocks - 1):
        low, high = max(0, diagonal - blocks + 1), min(tiles - 1, diagonal)
        steps.append((diagonal, low, high - low + 1))
    return steps


def ring_frames(form: RowShape, span: int, longest: int) -> int:
    """Return how many rows a ring holds: while the last tile computes a block of `span` frames, the first is as many
    blocks ahead as there are other tiles."""
    return min(longest, form.tiles * span + 1) if form.tiled else 2


@dataclass
class SumLaunches:
    """Totals of a problem and, with `both`, its posteriors."""

    problem: DeviceProblem
    both: bool

    def __post_init__(self) -> None:
        problem = self.problem
        self.device = problem.x.device
        self.double = problem.x.dtype == torch.float64
        self.form: RowShape = shape(problem.width, problem.batch)
        self.ways = 2 if self.both else 1
        form, longest = self.form, max(problem.longest, 1)
        walks, row = problem.batch * self.ways, 2 * form.units
        self.again = self.both and walks * longest * row * 8 > ROWS_BYTES
        self.span = TILE_FRAMES if form.tiled else longest
        self.keep = TILE_FRAMES if form.tiled else block_frames(longest)
        self.blocks = blocks_of(longest, self.keep)
        entry_blocks = (longest - 1) // self.keep + 1
        self.slots, self.row_frames = 1, longest
        if self.again:
            fitting = ROWS_BYTES // (walks * row * 8 * self.keep)
            self.slots = min(max(fitting, 2), self.blocks + 1)
            self.row_frames = self.slots * self.keep
        entries = form.tiled or self.again
        edge_blocks = self.blocks if self.again else 2
        edges = walks * form.tiles * edge_blocks * (self.span // form.halo) * 2 * form.halo if form.tiled else 1
        # Detours read kept rows where there are any; the pass that only saves entries has a ring of the newest.
        self.ring_frames = ring_frames(form, self.span, longest)
        rings = walks * self.ring_frames * row if problem.most and (self.again or not self.both) else 1
        self.buffers = {
            "centres": self._allocate((problem.batch, problem.frames), torch.float64 if self.double else torch.float32),
            "edges": self._allocate((edges,), what="edges of tiles"),
            "entries": self._allocate((walks, entry_blocks, row) if entries else (1,), what="checkpoints"),
            "rows": self._allocate((walks, self.row_frames, row) if self.both else (1,), what="rows"),
            "ring": self._allocate((rings,), what="rows that detours read"),
            "last": self._allocate((problem.batch, row)),
            "reach": self._allocate((problem.batch, form.tiles), torch.int32),
            "meeting": self._allocate((self._programs() * 4 * form.rows * form.strips * form.halo,)),
        }
        self.arguments = {
            **problem.arguments(),
            **self.buffers,
            "detours": problem.detours,
            "most": problem.most,
            "tiles": form.tiles,
            "span": self.span,
            "keep": self.keep,
            "edge_blocks": edge_blocks,
            "entry_blocks": entry_blocks,
            "row_frames": self.row_frames,
            "ring_frames": self.ring_frames,
        }
        self.constants = {**form.arguments(), **problem.kinds(), "TILED": form.tiled}

    def _allocate(self, size: tuple[int, ...], dtype: torch.dtype = torch.int64, what: str = "rows") -> torch.Tensor:
        return allocate(size, dtype, self.device, what)

    def _programs(self) -> int:
        return self.form.groups(self.problem.batch) * self.form.tiles * self.ways * self.slots

    def _kinds(self) -> list[tuple[bool, bool]]:
        """Return LOG and SECOND of the passes: scaled numbers, then logarithms where needed; or only logarithms."""
        return [(True, False)] if self.double else [(False, False), (True, True)]

    def totals(self) -> torch.Tensor:
        """Run the passes; return the scores (B,) float64."""
        problem, form = self.problem, self.form
        lines = problem.batch * problem.frames
        launch(
            posterior_kernels.centre, (-(-lines // LINES),), 4,
            **{name: self.arguments[name] for name in posterior_kernels.centre.arg_names if name in self.arguments},
            LINES=LINES, STATES=STATES, DOUBLE=self.double, WILD=problem.has_wild, BANDED=not problem.most,
        )  # fmt: skip
        for log, second in self._kinds():
            for diagonal, first, tiles in diagonals(form.tiles, self.blocks if form.tiled else 1):
                self._sweep(tiles, first, diagonal, log, second, again=False)
        self.scores = self._allocate((problem.batch,), torch.float64)
        self.states = self._allocate((problem.batch,), torch.int32)
        self.total = self._allocate((problem.batch,))
        launch(
            posterior_kernels.total, (form.groups(problem.batch),), 4,
            **{name: self.arguments[name] for name in ("last", "flags", "numbers", "reach", "centres")},
            scores=self.scores, states=self.states, totals=self.total, batch=problem.batch, frames=problem.frames,
            width=problem.width, tiles=form.tiles, units=form.units, ROWS=form.rows, STEP=STEP, LOG=self.double,
        )  # fmt: skip
        return self.scores

    def _sweep(self, programs: int, first: int, diagonal: int, log: bool, second: bool, again: bool) -> None:
        form = self.form
        kept = self.both and (again or not self.again)
        launch(
            sum_kernels.sweep, (form.groups(self.problem.batch), programs, self.ways), form.warps,
            **{**self.arguments, "span": self.keep if again else self.span},
            **self.constants, first=first, diagonal=diagonal, slots=self.slots,
            LOG=log, SECOND=second, ENTRIES=not again and (form.tiled or self.again), KEPT=kept, AGAIN=again,
        )  # fmt: skip

    def posteriors(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return posteriors (B, T, C), in memory as the log-probs, and those of the wildcard (B, T); after `totals`."""
        problem = self.problem
        dtype = torch.float64 if self.double else torch.float32
        out = torch.empty_like(problem.x, dtype=dtype)
        wild = self._allocate((problem.batch, problem.frames) if problem.has_wild else (0,), dtype)
        order, bounds = self._by_class()
        if not self.again:
            self._posteriors(out, wild, order, bounds, 0)
        else:
            for first in range(0, self.blocks_of_frames(), self.slots - 1):
                for log, second in self._kinds():
                    for tile, tiles in self._tiles_again():
                        self._sweep(tiles * self.slots, first, tile, log, second, again=True)
                self._posteriors(out, wild, order, bounds, first)
        return out, wild if problem.has_wild else None

    def _by_class(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the states (B, S) sorted by class, and where each class begins (B, C + 2)."""
        problem, form, classes = self.problem, self.form, self.problem.x.shape[2]
        order = self._allocate((problem.batch, problem.width), torch.int32)
        bounds = self._allocate((problem.batch, classes + 2), torch.int32)
        launch(
            posterior_kernels.by_class, (form.groups(problem.batch), -(-max(problem.width, classes + 2) // OWN)), 4,
            emit=problem.emit, numbers=problem.numbers, order=order, bounds=bounds, batch=problem.batch,
            width=problem.width, classes=classes, ROWS=form.rows, OWN=OWN, OTHERS=OTHERS,
        )  # fmt: skip
        return order, bounds

    def _tiles_again(self) -> list[tuple[int, int]]:
        """Return the first tile and the number of tiles of each launch that computes blocks again: the edges of tiles
        are known then, but not the rows of other tiles, which detours read."""
        tiles = self.form.tiles
        return [(tile, 1) for tile in range(tiles)] if self.problem.most else [(0, tiles)]

    def blocks_of_frames(self) -> int:
        """Return the number of blocks of all frames, including padding."""
        return -(-self.problem.frames // self.keep)

    def _posteriors(
        self, out: torch.Tensor, wild: torch.Tensor, order: torch.Tensor, bounds: torch.Tensor, first: int
    ) -> None:
        problem = self.problem
        frames = problem.frames
        if self.again:
            frames = min((self.slots - 1) * self.keep, frames - first * self.keep)
        names = ("x", "wild", "numbers", "centres", "rows", "x_b", "x_t", "x_c", "wild_b", "wild_t", "width")
        shared = {
            **{name: self.arguments[name] for name in names},
            "states": self.states,
            "totals": self.total,
            "batch": problem.batch,
            "frames": problem.frames,
            "units": self.form.units,
            "first": first,
            "slots": self.slots,
            "span": self.keep,
            "row_frames": self.row_frames,
            "AGAIN": self.again,
        }
        grid = (-(-problem.batch * frames // POSTERIOR_LINES),)
        for log, second in self._kinds():
            launch(
                posterior_kernels.posterior, grid, 1, **shared, emit=problem.emit, order=order,
                bounds=bounds, out=out, out_wild=wild, out_b=out.stride(0), out_t=out.stride(1), out_c=out.stride(2),
                classes=problem.x.shape[2], LINES=POSTERIOR_LINES, CLASSES=CLASSES, EACH=EACH, LOG=log, SECOND=second,
                WILD=problem.has_wild,
            )  # fmt: skip


def pointer_bits(most_detours: int) -> tuple[int, torch.dtype]:
    """Return the bits of a back-pointer, and the type of the words that hold four."""
    for bits, dtype in ((2, torch.int8), (8, torch.int32), (16, torch.int64)):
        if most_detours + 3 <= 1 << bits and (most_detours == 0 or bits > 2):
            return bits, dtype
    raise KernelError(f"topology: a state has {most_detours} detours, at most {(1 << 16) - 3} are taken")


@dataclass
class PathLaunches:
    """Best paths of a problem."""

    problem: DeviceProblem

    def __post_init__(self) -> None:
        problem = self.problem
        self.form = form = shape(problem.width, problem.batch)
        longest, batch = max(problem.longest, 1), problem.batch
        row = 2 * form.units
        self.bits, self.word = pointer_bits(problem.most)
        quarter = -(-max(longest - 1, 1) // 4)
        self.again = batch * quarter * row * self.word.itemsize > POINTERS_BYTES
        # Detours may come from any tile, whose rows cannot be computed again: then the pointers must fit.
        self.again &= not (form.tiled and problem.most)
        self.keep = PATH_FRAMES
        if self.again:
            # Computed again, a block's window must hold all states from which its last one can be reached.
            self.keep = (form.tile_units - 1) // form.halo * form.halo if form.tiled else block_frames(longest)
        elif form.tiled:
            self.keep = TILE_FRAMES
        self.span = self.keep if form.tiled else longest
        self.blocks = blocks_of(longest, self.keep)
        self.slots, self.word_frames, words = 1, quarter, batch * quarter * row
        if self.again:
            self.word_frames = self.keep // 4
            words = batch * self.word_frames * 2 * form.tile_units
            self.slots = min(max(POINTERS_BYTES // (words * self.word.itemsize), 1), self.blocks)
            words *= self.slots
        edges = batch * form.tiles * 2 * (self.span // form.halo) * 2 * form.halo if form.tiled else 1
        frames_back = ring_frames(form, self.span, longest)
        rings = batch * self.slots * frames_back * row if problem.most else 1
        meetings = form.groups(batch) * max(form.tiles, self.slots) * 4 * form.rows * form.strips * form.halo
        entries = (batch, self.blocks, row) if form.tiled or self.again else (1,)
        self.exits = self._allocate((batch, self.blocks), torch.int32)
        self.origins = self._allocate((batch, self.blocks, row), torch.int32, "origins of best paths")
        self.pointers = self._allocate((words,), self.word, "back-pointers")
        self.last = self._allocate((batch, row))
        self.arguments = {
            **problem.arguments(),
            **problem.kinds(),
            **form.arguments(),
            "bands": problem.bands,
            "detours": problem.detours,
            "meeting": self._allocate((meetings,)),
            "meeting_origins": self._allocate((meetings,), torch.int32),
            "edges": self._allocate((edges,), what="edges of tiles"),
            "edge_origins": self._allocate((edges,), torch.int32, "edges of tiles"),
            "entries": self._allocate(entries, what="checkpoints"),
            "origins": self.origins,
            "pointers": self.pointers,
            "last": self.last,
            "ring": self._allocate((rings,), what="rows that detours read"),
            "ring_origins": self._allocate((rings,), torch.int32, "rows that detours read"),
            "exits": self.exits,
            "most": problem.most,
            "tiles": form.tiles,
            "keep": self.keep,
            "blocks": self.blocks,
            "row_units": form.units,
            "word_frames": self.word_frames,
            "ring_frames": frames_back,
            "slots": self.slots,
            "BITS": self.bits,
            "BANDED": problem.banded,
        }

    def _allocate(self, size: tuple[int, ...], dtype: torch.dtype = torch.float64, what: str = "rows") -> torch.Tensor:
        return allocate(size, dtype, self.problem.x.device, what)

    def run(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return states (B, T) int32 and scores (B,) float64."""
        problem, form = self.problem, self.form
        for diagonal, first, tiles in diagonals(form.tiles, self.blocks if form.tiled else 1):
            self._sweep(tiles, first, diagonal, again=False)
        scores = self._allocate((problem.batch,))
        launch(
            path_kernels.block_ends, (form.groups(problem.batch),), 4, flags=problem.flags, numbers=problem.numbers,
            last=self.last, origins=self.origins, exits=self.exits, scores=scores, batch=problem.batch,
            width=problem.width, units=form.units, keep=self.keep, blocks=self.blocks, ROWS=form.rows, STEP=STEP,
        )  # fmt: skip
        states = torch.full((problem.batch, problem.frames), -1, dtype=torch.int32, device=problem.x.device)
        if not self.again:
            self._inside(states, 0, self.blocks)
        else:
            for first in range(0, self.blocks, self.slots):
                self._sweep(self.slots, first, 0, again=True)
                self._inside(states, first, self.slots)
        return states, scores

    def _sweep(self, many: int, first: int, diagonal: int, again: bool) -> None:
        form = self.form
        launch(
            path_kernels.sweep, (form.groups(self.problem.batch), many), form.warps, **self.arguments, first=first,
            diagonal=diagonal, span=self.keep if again else self.span, TILED=form.tiled and not again, AGAIN=again,
            ENTRIES=not again and (form.tiled or self.again), POINTERS=again or not self.again,
        )  # fmt: skip

    def _inside(self, states: torch.Tensor, first: int, slots: int) -> None:
        problem, form = self.problem, self.form
        launch(
            path_kernels.inside, (-(-problem.batch * slots // PAIRS),), max(1, PAIRS // 32), numbers=problem.numbers,
            exits=self.exits, pointers=self.pointers, detours=problem.detours, states=states, batch=problem.batch,
            frames=problem.frames, width=problem.width, most=problem.most, first=first, slots=slots, keep=self.keep,
            blocks=self.blocks, row_units=form.units, window_units=form.tile_units, word_frames=self.word_frames,
            PAIRS=PAIRS, BITS=self.bits, AGAIN=self.again,
        )  # fmt: skip
