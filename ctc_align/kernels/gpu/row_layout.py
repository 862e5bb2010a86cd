"""How rows of states lie in threads and in memory, for `sum_kernels` and `path_kernels` alike.

A unit is an even state 2u and the odd one above it: one thread's. LANES units are a strip, which is one warp; STRIPS
strips are a tile, which is one program's, and a program may walk ROWS utterances side by side. The first HALO units of
a strip are the last of the strip before: without news from there they go wrong by one a frame, from the left, so they
are fetched anew every HALO frames. Within a frame threads speak only inside their strip, by a shuffle (`tl.gather`).

Across strips they speak through global memory: written, barrier, read. Two halves of that memory take turns, so that
what one meeting writes is not what slower threads may still read of the meeting before: one barrier each is enough.
Rows that detours read (the ring) go the same way at every frame, again in two halves. Programs speak only from launch
to launch: tile p of block n of the frames runs in launch p + n, after tile p - 1 of that block, whose last units it
finds in `edges`, and after block n - 1, whose last row is its entry. In memory a row is its even states, then the odd.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.triton_import import constant, jit, tl

SKIP = constant(1)
STAY = constant(2)
BEGIN = constant(4)
END = constant(8)


@jit
def shift(values, lane, LANES: tl.constexpr):
    """What the lane before has; of the first lane of each strip, its own."""
    LINES: tl.constexpr = values.shape[0] // LANES
    back = tl.reshape(tl.maximum(lane - 1, 0), (LINES, LANES))
    return tl.reshape(tl.gather(tl.reshape(values, (LINES, LANES)), back, 1), (LINES * LANES,))


@jit
def put(place, even, odd, gap, mask):
    """Both lanes of a row, or of a part of it, to `place` and `gap` further on."""
    tl.store(place, even, mask=mask)
    tl.store(place + gap, odd, mask=mask)


@jit
def take(place, even, odd, gap, mask):
    """Both lanes from where `put` left them; elsewhere as they are."""
    even = tl.where(mask, tl.load(place, mask=mask, other=0), even)
    odd = tl.where(mask, tl.load(place + gap, mask=mask, other=0), odd)
    return even, odd
