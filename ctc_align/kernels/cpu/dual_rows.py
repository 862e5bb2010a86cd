"""Rows of dual numbers for `tangent_sums`: of each vector of lanes, m and d of the odd states and m and d of the even
ones side by side in one array, e of the odd and e of the even ones in another.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER
from ctc_align.kernels.cpu.simd import WIDTH, gather_transposed, get, load, put, splat, store
from ctc_align.kernels.cpu.sums import SLACK
from ctc_align.kernels.cpu.viterbi import place


@compiled
def exponent_of(at, s):
    """Where state s has its exponent, whose vector is at `at` in a row."""
    return 2 * at + WIDTH * (1 - s % 2) + s // 2 % WIDTH


@compiled
def ended(state_r, state_e, size, finals):
    """Mantissa and exponent of the sum over the last states."""
    value, top = 0.0, NEVER
    for s in range(size - finals, size):
        top = max(top, get(state_e, exponent_of(place(s // 2 // WIDTH), s)))
    for s in range(size - finals, size):
        at = place(s // 2 // WIDTH)
        m = get(state_r, 4 * at + 2 * WIDTH * (1 - s % 2) + s // 2 % WIDTH)
        value += m * np.exp((get(state_e, exponent_of(at, s)) - top) * LN_2)
    return value, top


@compiled
def copied(row, from_r, from_e, from_at, to_r, to_e, to_at):
    """A row of states from one place to another."""
    for i in range(0, 4 * row, WIDTH):
        store(to_r, 4 * to_at + i, load(from_r, 4 * from_at + i))
    for i in range(0, 2 * row, WIDTH):
        store(to_e, 2 * to_at + i, load(from_e, 2 * from_at + i))


@compiled
def gathered(general, rows, first, end, stride, tiles, emitted):
    """What the states of these vectors emit in the tile's frames."""
    tile_m, tile_d, tile_e = tiles
    xm, xd, xe, even_xm, even_xd, even_xe = emitted
    odd_rows = rows.shape[0] // 2
    for w in range(first, end):
        j, odd = (w - first) * WIDTH, odd_rows + w * WIDTH
        gather_transposed(tile_m, rows, odd, xm, j, stride)
        gather_transposed(tile_d, rows, odd, xd, j, stride)
        gather_transposed(tile_e, rows, odd, xe, j, stride)
        if general:
            gather_transposed(tile_m, rows, w * WIDTH, even_xm, j, stride)
            gather_transposed(tile_d, rows, w * WIDTH, even_xd, j, stride)
            gather_transposed(tile_e, rows, w * WIDTH, even_xe, j, stride)


@compiled
def written(tile, weights, classes, now, total_m, mass, scale, first_out, steps, out):
    """A tile's tangents, times `scale`, to where they belong, less their frame's total by the `weights`; False where a
    frame's `mass` is far from the total."""
    number, used, row_of_used, _ = classes
    total = splat(np.float32(0.0))
    for u in range(number):
        total = total + load(tile, row_of_used[u] * WIDTH)
    for k in range(now):
        if not abs(mass[k] - total_m) <= SLACK * total_m:
            return False
        mass[k] = scale / mass[k]
    total = total * load(mass, 0)
    for u in range(number):
        at = row_of_used[u] * WIDTH
        store(tile, at, load(tile, at) * load(mass, 0) - load(weights, at) * total)
        if used[u] >= 0:
            place_out = first_out + used[u] * steps[2]
            for k in range(now):
                put(out, place_out + k * steps[1], get(tile, at + k))
    return True
