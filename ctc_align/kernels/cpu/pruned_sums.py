"""Parts of the forward pass of CTC in scaled numbers, as in `sums`: some vectors, some frames."""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import fetch
from ctc_align.kernels.cpu.rest_bounds import least_rest
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER, added, normal, powers
from ctc_align.kernels.cpu.simd import WIDTH, choose, gather_transposed, get, load, mask_of, moved_up, put, splat, store
from ctc_align.kernels.cpu.viterbi import STRIP, place


@compiled
def walk_sums(emitted, dense, part, lattice, state_rows, tiles):
    """Advance the vectors v0 … v1 - 1, below which no state is left, by the frames f0 … f1 - 1 of a CTC topology.

    Args:
        emitted: see `emission_tiles.fetch`.
        dense: see `problem.FlatProblem`.
        part: f0, f1, v0, v1, and of the whole: frames, states, and in how many of them a path may end.
        lattice: flags, rows, used, row_of_used, and how many classes are used.
        state_rows: odd mantissas and exponents, even ones.
        tiles: tile, mantissas, exponents, centres, two hands of four rows, odd emissions and their exponents.

    Returns:
        What the scores were relative to: the sum of the best of each frame; +inf where there is NaN or +inf.
    """
    f0, f1, v0, v1, frames, size, finals = part
    flags, rows, used, row_of_used, number = lattice
    odd_m, odd_e, even_m, even_e = state_rows
    tile, tile_m, tile_e, centres, hand_m, hand_e, xm, xe = tiles
    never, one = splat(np.int32(NEVER)), splat(np.float32(1.0))
    odd_rows, blank_row, offset = rows.shape[0] // 2, rows[0] * WIDTH, 0.0
    for t0 in range(f0, f1, WIDTH):
        now = min(WIDTH, f1 - t0)
        first = max(v0, max(0, size - finals - 2 * (frames - 1 - t0)) // 2 // WIDTH)
        end = min(v1, (t0 + now + WIDTH - 1) // WIDTH)
        if not fetch(emitted, t0, now, number, used, row_of_used, dense, tile):
            return np.inf
        powers(tile, number, row_of_used, tile_m, tile_e, centres)
        for k in range(now):
            offset += centres[k]
        for k in range(0, 4 * WIDTH, WIDTH):
            store(hand_m, k, one)
            store(hand_e, k, never)
        hand, next_hand = 0, 2 * WIDTH
        if first > v0:
            at = place(first - 1) + WIDTH - 1
            put(hand_m, 0, get(odd_m, at))
            put(hand_e, 0, get(odd_e, at))
        elif t0 == 0:
            put(hand_e, 0, np.int32(0))
        v = first
        while v < end:
            stop = min((v // STRIP + 1) * STRIP, end)
            for w in range(v, stop):
                gather_transposed(tile_m, rows, odd_rows + w * WIDTH, xm, (w - v) * WIDTH, STRIP * WIDTH)
                gather_transposed(tile_e, rows, odd_rows + w * WIDTH, xe, (w - v) * WIDTH, STRIP * WIDTH)
            below, top = place(v) - WIDTH, place(stop - 1) + WIDTH - 1
            for k in range(now):
                put(hand_m, next_hand + k, get(odd_m, top))
                put(hand_e, next_hand + k, get(odd_e, top))
                store(odd_m, below, splat(get(hand_m, hand + k)))
                store(odd_e, below, splat(get(hand_e, hand + k)))
                blank_m, blank_e = splat(get(tile_m, blank_row + k)), splat(get(tile_e, blank_row + k))
                for w in range(stop - 1, v - 1, -1):
                    i, j = place(w), (k * STRIP + w - v) * WIDTH
                    om, oe, em, ee = load(odd_m, i), load(odd_e, i), load(even_m, i), load(even_e, i)
                    bm, be = moved_up(om, load(odd_m, i - WIDTH)), moved_up(oe, load(odd_e, i - WIDTH))
                    sm, se = added(em, ee, bm, be)
                    jump = mask_of(get(flags, w * 4 + 2))
                    tm, te = added(om, oe, choose(jump, sm, em), choose(jump, se, ee))
                    sm, se = normal(sm * blank_m, se + blank_e)
                    tm, te = normal(tm * load(xm, j), te + load(xe, j))
                    store(even_m, i, sm)
                    store(even_e, i, se)
                    store(odd_m, i, tm)
                    store(odd_e, i, te)
            hand, next_hand = next_hand, hand
            v = stop
    return offset


@compiled
def sums_kept(state_rows, offset, v0, v1, tokens, rest, tilts, least, beam):
    """Do as `pruned_search.paths_kept` for the sums of `walk_sums`, relative to `offset`."""
    _, odd_e, _, even_e = state_rows
    best = -np.inf
    for vector in range(v0, v1 if beam < np.inf else v0):
        for lane in range(vector * WIDTH, min((vector + 1) * WIDTH, tokens + 1)):
            at = place(vector) + lane % WIDTH
            best = max(best, _bound(odd_e[at], even_e[at], tokens - lane, rest, tilts) + offset)
    least = max(least, best - beam)
    first, last = v1, v0
    for vector in range(v0, v1):
        if first == v1 and _reaches(odd_e, even_e, vector, tokens, rest, tilts, least - offset):
            first = vector
    for vector in range(v1 - 1, first - 1, -1):
        if last == v0 and _reaches(odd_e, even_e, vector, tokens, rest, tilts, least - offset):
            last = vector + 1
    return first, max(first, last), best


@compiled
def _bound(odd, even, tokens, rest, tilts):
    """Return the bound of a lane with these exponents that has `tokens` to enter from its even state."""
    bound = -np.inf
    if even > NEVER // 2:
        bound = (even + 1) * LN_2 + least_rest(rest, tilts, tokens)
    if odd > NEVER // 2 and tokens > 0:
        bound = max(bound, (odd + 1) * LN_2 + least_rest(rest, tilts, tokens - 1))
    return bound


@compiled
def _reaches(odd_e, even_e, vector, tokens, rest, tilts, least):
    for lane in range(vector * WIDTH, min((vector + 1) * WIDTH, tokens + 1)):
        at = place(vector) + lane % WIDTH
        if _bound(odd_e[at], even_e[at], tokens - lane, rest, tilts) >= least:
            return True
    return False
