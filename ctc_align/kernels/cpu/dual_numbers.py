"""Dual numbers for `tangent_sums`: (m + d * epsilon) * 2**e, as `scaled_numbers`, with float32 tangents d beside m.

The tangent of a sum is the sum of the tangents, by the same powers of 2. A factor e**v has the tangent v of its
logarithm: the product's is d times the factor, and v times the product. The ratio d / m is the tangent of the
logarithm. No division is needed, and no other exponent.

In rows of states each vector of lanes holds m and d of the odd and m and d of the even states side by side in one
array (`*_r`), e of the odd and e of the even ones in another (`*_e`).

Directions are prepared as emissions are: tiles of WIDTH frames, of the classes that are used. What moves all classes of
a frame alike moves no posterior: each frame's mean, weighted by the posteriors, is subtracted from its moves, and all
are divided by the scale of the largest. Tiles of the whole utterance are kept: they are needed three times.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import ALL, fetch
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER, _power_of_2
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    bits_of,
    choose,
    from_bits,
    gather_transposed,
    get,
    greater,
    load,
    put,
    raw_bits,
    shifted_left,
    shifted_right,
    splat,
    store,
)
from ctc_align.kernels.cpu.sums import SLACK
from ctc_align.kernels.cpu.viterbi import place

LEAST, MOST = 1e-30, 1e30
"""Directions whose largest move is not between these are left to float64."""


@compiled
def added(am, ad, ae, bm, bd, be):
    """Return a + b, not normalised."""
    top = choose(greater(be, ae), be, ae)
    bias = top - splat(np.int32(127))
    fa, fb = _power_of_2(ae, bias), _power_of_2(be, bias)
    return am * fa + bm * fb, ad * fa + bd * fb, top


@compiled
def times(m, d, e, xm, xd, xe):
    """Return (m, d) * 2**e * xm * 2**xe, where xd is the tangent of the logarithm of x, with the mantissa in [1, 2)."""
    m = m * xm
    d = d * xm + m * xd
    bits, never = raw_bits(m), splat(np.int32(NEVER))
    e = e + xe + shifted_right(bits, 23) - splat(np.int32(127))
    # The mantissa loses its power of 2, whose inverse has the complement's exponent: 254 - its own.
    down = splat(np.int32(254 << 23)) - (bits & splat(np.int32(0x7F800000)))
    m = from_bits((bits & splat(np.int32(0x7FFFFF))) | splat(np.int32(0x3F800000)))
    return m, d * from_bits(down), choose(greater(e, never), e, never)


@compiled
def posterior(am, ad, ae, bm, bd, be, total_e):
    """Return alpha * beta / 2**total_e and its tangent, from which the total's is yet to be subtracted."""
    bias, most = total_e - splat(np.int32(127)), splat(np.int32(253))
    up = ae + be - bias
    up = choose(greater(most, up), up, most)
    zero = splat(np.int32(0))
    power = from_bits(shifted_left(choose(greater(up, zero), up, zero), 23))
    return am * bm * power, (ad * bm + am * bd) * power


@compiled
def exponent_of(at, s):
    """Return the index of the exponent of state s, whose vector is at `at` in a row."""
    return 2 * at + WIDTH * (1 - s % 2) + s // 2 % WIDTH


@compiled
def ended(state_r, state_e, size, finals):
    """Return mantissa and exponent of the sum over the last states."""
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
    """Copy a row of states from one place to another."""
    for i in range(0, 4 * row, WIDTH):
        store(to_r, 4 * to_at + i, load(from_r, 4 * from_at + i))
    for i in range(0, 2 * row, WIDTH):
        store(to_e, 2 * to_at + i, load(from_e, 2 * from_at + i))


@compiled
def gathered(general, rows, first, end, stride, tiles, emitted):
    """Gather the emissions of the states of these vectors in the tile's frames."""
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
    """Write a tile's tangents, times `scale`, less their frame's sum times the `weights`; return False if a frame's
    `mass` is far from the total."""
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


@compiled
def _fetch(values, b, t0, frames, classes, nothing, tile):
    """Fill one tile of utterance b; `values` and `classes` as in `tangent_sums`. The wildcard gets `nothing` (1,): its
    scores do not move."""
    row, by_utterance, by_frame, by_class, aside, count = values
    number, used, row_of_used, dense = classes
    source = (row, b * by_utterance, by_frame, by_class, count, nothing, 0, 0)
    return fetch(source, t0, min(WIDTH, frames - t0), number, used, row_of_used, dense and aside, tile)


@compiled
def moves_and_weights(direction, known, b, frames, classes, size, moves, weights, largest):
    """Fill the tiles of `moves` and `weights`, one after the other, each of `size`; `classes` as in `tangent_sums`;
    `largest` (WIDTH,) is scratch.

    Return the scale by which moves were divided, a power of 2; 0 if none moves; -1 if one is infinite or NaN, or all
    are so small or large that float32 cannot hold their sums.
    """
    number, _, row_of_used, _ = classes
    still = np.zeros(1, np.float32)
    least, nothing = splat(np.float32(-np.inf)), splat(np.float32(0.0))
    most = nothing
    for t0 in range(0, frames, WIDTH):
        at = t0 // WIDTH * size
        mine, own = moves[at : at + size], weights[at : at + size]
        fine = _fetch(direction, b, t0, frames, classes, still, mine)
        if not fine or not _fetch(known, b, t0, frames, classes, still, own):
            return np.float32(-1.0)
        mean = nothing
        for u in range(number):
            place = row_of_used[u] * WIDTH
            if bits_of(greater(load(mine, place), least)) != ALL:
                return np.float32(-1.0)
            mean = mean + load(mine, place) * load(own, place)
        for u in range(number):
            place = row_of_used[u] * WIDTH
            move = load(mine, place) - mean
            store(mine, place, move)
            most = choose(greater(move, most), move, most)
            move = nothing - move
            most = choose(greater(move, most), move, most)
    store(largest, 0, most)
    scale = np.float32(0.0)
    for k in range(WIDTH):
        scale = max(scale, largest[k])
    if not (LEAST < scale < MOST):
        return scale if scale == 0.0 else np.float32(-1.0)
    scale = np.float32(2.0 ** np.floor(np.log2(scale)))
    for t0 in range(0, frames, WIDTH):
        for u in range(number):
            place = t0 // WIDTH * size + row_of_used[u] * WIDTH
            store(moves, place, load(moves, place) * splat(np.float32(1.0) / scale))
    return scale
