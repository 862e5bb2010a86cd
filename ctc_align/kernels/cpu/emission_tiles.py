"""Emissions prepared for the CPU kernels: tiles of WIDTH frames, only the classes that are used.

A *tile* holds WIDTH frames of the used classes: tile[row * WIDTH + k] is the class of that row at
frame t0 + k.
Each state has the row of its class; `gather_transposed` turns the rows of WIDTH neighbouring states
into WIDTH frames of a vector each. So each log-prob is fetched from memory once, however many
states emit it. Few classes that are adjacent in memory are all loaded (*dense*: the row is the
class), which needs no fetching one by one.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    bits_of,
    get,
    greater,
    load,
    number,
    put,
    splat,
    transpose_into,
)

ALL = 2**WIDTH - 1


@compiled
def rows_of_classes(emit, classes, dense, row_of_class, used, row_of_used, rows):
    """Assign each class of `emit` (S,) a row of the tile; return how many there are.

    Fill `rows`, in its first half the rows of even states, in its second of odd ones, `used`, the
    classes (WILDCARD is -1), and `row_of_used`. `row_of_class` (C + 1,) is scratch, -1 before and
    after; its last element is the wildcard's.
    """
    count, odd_rows = 0, rows.shape[0] // 2
    if dense:
        for s in range(emit.shape[0]):
            row_of_class[emit[s]] = 0
        for c in range(-1, classes):
            if row_of_class[c] == 0:
                used[count] = c
                count += 1
    else:
        for s in range(emit.shape[0]):
            if row_of_class[emit[s]] < 0:
                row_of_class[emit[s]] = 0
                used[count] = emit[s]
                count += 1
        _ascend(used, count)
    for u in range(count):
        row = u
        if dense:
            row = used[u] if used[u] >= 0 else classes
        row_of_used[u] = row_of_class[used[u]] = row
    # Lanes without a state emit a used class: the row of an unused one may hold anything.
    for i in range(rows.shape[0]):
        rows[i] = row_of_used[0]
    for s in range(emit.shape[0]):
        rows[s % 2 * odd_rows + s // 2] = row_of_class[emit[s]]
    for u in range(count):
        row_of_class[used[u]] = -1
    return count


@compiled
def _ascend(numbers, count):
    """Sort the first `count` numbers (Shell 1959), so that memory is read in ascending order."""
    gap = count // 2
    while gap > 0:
        for i in range(gap, count):
            number, j = numbers[i], i
            while j >= gap and numbers[j - gap] > number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number
        gap //= 2


@compiled
def fetch(source, t0, frames, count, used, row_of_used, dense, tile):
    """Fill the tile with frames t0 … t0 + frames - 1; return False if a used class has NaN or +inf.

    `source`: x, base, frame stride, class stride, classes, and scores of the wildcard, base, frame
    stride: class c of frame t is x[base + t * frame stride + c * class stride]. Frames beyond the
    last are zero.
    """
    x, base, stride, step, classes, wild, wild_base, wild_stride = source
    first = base + t0 * stride
    if dense and frames == WIDTH:
        for c in range(0, classes - WIDTH + 1, WIDTH):
            transpose_into(x, first + c, stride, tile, c * WIDTH)
        if classes >= WIDTH:
            if classes % WIDTH:  # some of them once more
                transpose_into(x, first + classes - WIDTH, stride, tile, (classes - WIDTH) * WIDTH)
        else:
            for k in range(frames):
                for c in range(classes):
                    put(tile, c * WIDTH + k, number(get(x, first + k * stride + c)))
    else:
        for k in range(frames):
            row = first + k * stride
            for u in range(count):
                if get(used, u) >= 0:
                    put(
                        tile,
                        get(row_of_used, u) * WIDTH + k,
                        number(get(x, row + get(used, u) * step)),
                    )
        if frames < WIDTH:
            for u in range(count):
                tile[row_of_used[u] * WIDTH + frames : (row_of_used[u] + 1) * WIDTH] = 0
    for u in range(count):
        if used[u] < 0:
            for k in range(frames):
                tile[row_of_used[u] * WIDTH + k] = wild[wild_base + (t0 + k) * wild_stride]
        if (
            bits_of(greater(splat(tile.dtype.type(np.inf)), load(tile, row_of_used[u] * WIDTH)))
            != ALL
        ):
            return False
    return True
