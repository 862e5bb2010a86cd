"""How a row of states is laid out in threads and in memory.

`path_kernels` and `sum_kernels` share it.

A unit is an even state 2u and the odd state 2u + 1 above it; one thread computes both. LANES units
make a strip, which is one warp. STRIPS strips make a tile, which is one program; a program may
compute ROWS utterances side by side. In memory a row is its even states, then its odd states.

Halo. A unit needs the unit below as it was a frame before. Within a strip it gets that by
`tl.gather`, without memory or barriers. Across strips it does not: the first `halo` units of a
strip are copies of the last `halo` units of the strip below, and each frame makes one more of these
copies wrong, from the left, because the leftmost lane has nothing below it. So all copies are
refreshed every `halo` frames, just before the first wrong value would reach an interior unit.
Copies are never written to results: only `interior` units are.

Why exchanging the halo is free of races. Strips of a program exchange through global memory: store,
barrier, load. The barrier orders each load after the store it reads. Two halves of the buffer
alternate from one exchange to the next: with a single half, a fast strip could store for the next
exchange while a slow one still loads for this one. With two, a strip can only store into a half
again after the barrier of the exchange between, which every strip reaches after its loads. So one
barrier per exchange is enough.

Detours may enter from any state of the row before, so rows that detours read are stored at every
frame, followed by a barrier: into the saved rows where all are saved, else into a ring of the
newest rows. Two rows suffice for one tile: the row of frame t overwrites that of t - 2, which all
threads finished reading before the barrier of frame t - 1. The ring of several tiles spans the
blocks from that of the last tile to that of the first, which is furthest ahead.

Programs communicate only from launch to launch. Tile p computes block n of the frames in launch p +
n: after tile p - 1 of block n, whose last units are in `edges`, and after its own block n - 1,
whose last row is the checkpoint to start from. Where blocks are computed again, all edges and
checkpoints are known, so that tiles and blocks are independent
and share a launch; only with detours do tiles need each other's rows, and then each tile has a
launch of its own.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.triton_import import constant, jit, tl

SKIP = constant(1)
STAY = constant(2)
BEGIN = constant(4)
END = constant(8)


@jit
def shift_up(values, lane, LANES: tl.constexpr):
    """Return the value of the lane below; the first lane of each strip keeps its value."""
    STRIPS: tl.constexpr = values.shape[0] // LANES
    source_lane = tl.reshape(tl.maximum(lane - 1, 0), (STRIPS, LANES))
    return tl.reshape(
        tl.gather(tl.reshape(values, (STRIPS, LANES)), source_lane, 1), (STRIPS * LANES,)
    )


@jit
def store_units(pointer, even, odd, odd_offset, mask):
    """Store even states at `pointer` and odd states `odd_offset` further on."""
    tl.store(pointer, even, mask=mask)
    tl.store(pointer + odd_offset, odd, mask=mask)


@jit
def load_units(pointer, even, odd, odd_offset, mask):
    """Load what `store_units` stored; keep `even` and `odd` where the mask is false."""
    even = tl.where(mask, tl.load(pointer, mask=mask, other=0), even)
    odd = tl.where(mask, tl.load(pointer + odd_offset, mask=mask, other=0), odd)
    return even, odd
