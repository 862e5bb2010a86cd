"""How rows of states lie in threads and in memory, for `sum_kernels` and `path_kernels` alike.

A unit is an even state 2u and the odd one above it, and belongs to one thread. LANES units are a strip, which is one
warp; STRIPS strips are a tile, which is one program, and a program may compute ROWS utterances side by side. The first
`halo` units of a strip repeat the last of the strip before: each frame makes one more of them wrong, from the left, so
they are fetched anew every `halo` frames. Within a frame threads communicate only in their strip, by `tl.gather`.

Strips communicate through global memory: write, barrier, read. Two halves of that memory alternate, so that one
exchange does not overwrite what slower threads may still read of the one before: one barrier each is enough. Rows that
detours read are exchanged likewise at every frame: all rows are kept, or the newest (the ring, of two rows if there is
one tile). Programs communicate only from launch to launch: tile p of block n of the frames runs in launch p + n, after
tile p - 1 of that block, whose last units are in `edges`, and after block n - 1, whose last row is its entry; a ring of
several tiles holds the blocks from the last tile's to the first's. Where blocks are computed again, all at once, edges
and entries are known, and tiles depend on each other only by detours: then they run in a launch each. In memory a row
is its even states, then the odd.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.triton_import import constant, jit, tl

SKIP = constant(1)
STAY = constant(2)
BEGIN = constant(4)
END = constant(8)


@jit
def shift(values, lane, LANES: tl.constexpr):
    """Return the values of the lane before; of the first lane of each strip, its own."""
    LINES: tl.constexpr = values.shape[0] // LANES
    back = tl.reshape(tl.maximum(lane - 1, 0), (LINES, LANES))
    return tl.reshape(tl.gather(tl.reshape(values, (LINES, LANES)), back, 1), (LINES * LANES,))


@jit
def put(place, even, odd, gap, mask):
    """Store both lanes of a row, or of a part of it, at `place` and `gap` further on."""
    tl.store(place, even, mask=mask)
    tl.store(place + gap, odd, mask=mask)


@jit
def take(place, even, odd, gap, mask):
    """Load both lanes from where `put` stored them; keep them where the mask is false."""
    even = tl.where(mask, tl.load(place, mask=mask, other=0), even)
    odd = tl.where(mask, tl.load(place + gap, mask=mask, other=0), odd)
    return even, odd
