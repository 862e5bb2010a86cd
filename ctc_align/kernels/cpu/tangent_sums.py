"""Tangents of occupancies on the CPU: `sums` on dual numbers, in float32.

    alpha, beta and what is added and multiplied to them: with their tangents along a direction
    tangent of occupancy = tangent of (alpha * beta) - occupancy * its sum over the frame

What moves all classes of a frame alike moves no posterior. So each frame's mean, weighted by the known posteriors, is
subtracted from the direction first: then no tangent grows with the frames, and float32 has digits for the rest.
Lanes, strips, blocks, and refused results as in `sums`.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.dual_numbers import (
    added,
    copied,
    ended,
    exponent_of,
    gathered,
    moves_and_weights,
    posterior,
    times,
    written,
)
from ctc_align.kernels.cpu.emission_tiles import fetch, rows_of_classes
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER, allowed, powers
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    add_transposed,
    choose,
    get,
    load,
    mask_of,
    moved_down,
    moved_up,
    put,
    splat,
    store,
)
from ctc_align.kernels.cpu.sums import FAR, MOST_FRAMES
from ctc_align.kernels.cpu.viterbi import STRIP, lay_out, place


@compiled
def _there(here, lattice, tiles, emitted, hands, state, kept):
    """Advance alpha over one tile's frames, in place, and copy it to `kept` from frame `kept_from` on.

    `here`: first frame, frames, first and last (exclusive) vector, width, the frame whose row is the first that is
    kept; `lattice`: whether it is general, rows of the tile that states emit, flags.
    """
    t0, now, first, end, width, kept_from = here
    general, rows, flags = lattice
    state_r, state_e = state
    tile_m, tile_d, tile_e = tiles
    xm, xd, xe, even_xm, even_xd, even_xe = emitted
    hand_r, hand_e = hands
    kept_r, kept_e = kept
    one, never, nothing = splat(np.float32(1.0)), splat(np.int32(NEVER)), splat(np.float32(0.0))
    blank_row = rows[0] * WIDTH
    # By frame: odd m, odd d, even m, even d and odd e, even e of the lane below, twice.
    for k in range(0, 8 * WIDTH, 2 * WIDTH):
        store(hand_r, k, one)
        store(hand_r, k + WIDTH, nothing)
    for k in range(0, 4 * WIDTH, WIDTH):
        store(hand_e, k, never)
    hand = 0
    if first > 0:
        at = place(first - 1)
        for part in range(4):
            put(hand_r, part * WIDTH, get(state_r, 4 * at + (part + 1) * WIDTH - 1))
        put(hand_e, 0, get(state_e, 2 * at + WIDTH - 1))
        put(hand_e, WIDTH, get(state_e, 2 * at + 2 * WIDTH - 1))
    elif t0 == 0:
        put(hand_e, 0, np.int32(0))
    v = first
    while v < end:
        stop = min((v // STRIP + 1) * STRIP, end)
        gathered(general, rows, v, stop, STRIP * WIDTH, tiles, emitted)
        below, top, next_hand = place(v) - WIDTH, place(stop - 1), 1 - hand
        for k in range(now):
            for part in range(4):
                put(hand_r, (4 * next_hand + part) * WIDTH + k, get(state_r, 4 * top + (part + 1) * WIDTH - 1))
                store(state_r, 4 * below + part * WIDTH, splat(get(hand_r, (4 * hand + part) * WIDTH + k)))
            for part in range(2):
                put(hand_e, (2 * next_hand + part) * WIDTH + k, get(state_e, 2 * top + (part + 1) * WIDTH - 1))
                store(state_e, 2 * below + part * WIDTH, splat(get(hand_e, (2 * hand + part) * WIDTH + k)))
            blank_m, blank_d = splat(get(tile_m, blank_row + k)), splat(get(tile_d, blank_row + k))
            blank_e = splat(get(tile_e, blank_row + k))
            for w in range(stop - 1, v - 1, -1):
                r, e, j = 4 * place(w), 2 * place(w), (k * STRIP + w - v) * WIDTH
                om, od, oe = load(state_r, r), load(state_r, r + WIDTH), load(state_e, e)
                em, ed, ee = load(state_r, r + 2 * WIDTH), load(state_r, r + 3 * WIDTH), load(state_e, e + WIDTH)
                bm, bd = moved_up(om, load(state_r, r - 4 * WIDTH)), moved_up(od, load(state_r, r - 3 * WIDTH))
                be = moved_up(oe, load(state_e, e - 2 * WIDTH))
                if not general:
                    sm, sd, se = added(em, ed, ee, bm, bd, be)
                    jump = mask_of(get(flags, w * 4 + 2))
                    tm, td, te = choose(jump, sm, em), choose(jump, sd, ed), choose(jump, se, ee)
                    tm, td, te = added(om, od, oe, tm, td, te)
                    sm, sd, se = times(sm, sd, se, blank_m, blank_d, blank_e)
                else:
                    cm, cd = moved_up(em, load(state_r, r - 2 * WIDTH)), moved_up(ed, load(state_r, r - WIDTH))
                    ce = moved_up(ee, load(state_e, e - WIDTH))
                    sm, sd, se = added(em, ed, allowed(flags, w * 4 + 1, ee), bm, bd, be)
                    sm, sd, se = added(sm, sd, se, cm, cd, allowed(flags, w * 4, ce))
                    sm, sd, se = times(sm, sd, se, load(even_xm, j), load(even_xd, j), load(even_xe, j))
                    tm, td, te = added(om, od, allowed(flags, w * 4 + 3, oe), em, ed, ee)
                    tm, td, te = added(tm, td, te, bm, bd, allowed(flags, w * 4 + 2, be))
                tm, td, te = times(tm, td, te, load(xm, j), load(xd, j), load(xe, j))
                store(state_r, r, tm)
                store(state_r, r + WIDTH, td)
                store(state_r, r + 2 * WIDTH, sm)
                store(state_r, r + 3 * WIDTH, sd)
                store(state_e, e, te)
                store(state_e, e + WIDTH, se)
                if t0 >= kept_from:
                    p = (t0 + k - kept_from) * width + w * WIDTH
                    store(kept_r, 4 * p, tm)
                    store(kept_r, 4 * p + WIDTH, td)
                    store(kept_r, 4 * p + 2 * WIDTH, sm)
                    store(kept_r, 4 * p + 3 * WIDTH, sd)
                    store(kept_e, 2 * p, te)
                    store(kept_e, 2 * p + WIDTH, se)
        hand = next_hand
        v = stop


@compiled
def _back(here, lattice, tiles, emitted, kept, back, gammas, total_e, classes, tile, mass):
    """Add up the tangents of one tile's frames per row of `tile`, without the total's, and the frames' occupancies in
    `mass` (WIDTH,); advance beta * x.

    `here`: first frame, frames, the last of all frames, the block's first, first and last (exclusive) vector, width;
    `lattice` as for `_there`; `classes`: how many are used, which, their rows, and whether they are dense.
    """
    t0, now, last_frame, f0, first, end, width = here
    general, rows, flags = lattice
    number, _, row_of_used, _ = classes
    tile_m, tile_d, tile_e = tiles
    xm, xd, xe, even_xm, even_xd, even_xe = emitted
    kept_r, kept_e = kept
    back_r, back_e = back
    gamma, even_gamma, blanks, masses, blank_rows, zero_rows = gammas
    blank_row, odd_rows = rows[0] * WIDTH, rows.shape[0] // 2
    nothing, total = splat(np.float32(0.0)), splat(np.int32(total_e))
    gathered(general, rows, first, end, width, tiles, emitted)
    for k in range(now - 1, -1, -1):
        blank_m, blank_d = splat(get(tile_m, blank_row + k)), splat(get(tile_d, blank_row + k))
        blank_e = splat(get(tile_e, blank_row + k))
        blank = weight = nothing
        # Of the vector above: w of even and odd states, and their sum.
        r, e = 4 * end * WIDTH, 2 * end * WIDTH
        vm, vd, ve = load(back_r, r), load(back_r, r + WIDTH), load(back_e, e)
        um, ud, ue = load(back_r, r + 2 * WIDTH), load(back_r, r + 3 * WIDTH), load(back_e, e + WIDTH)
        zm, zd, ze = added(um, ud, ue, vm, vd, ve)
        for w in range(end - 1, first - 1, -1):
            r, e, j = 4 * w * WIDTH, 2 * w * WIDTH, k * width + (w - first) * WIDTH
            om, od, oe = load(back_r, r), load(back_r, r + WIDTH), load(back_e, e)
            em, ed, ee = load(back_r, r + 2 * WIDTH), load(back_r, r + 3 * WIDTH), load(back_e, e + WIDTH)
            jump = mask_of(np.uint16((get(flags, w * 4 + 2) >> 1) | (get(flags, w * 4 + 6) << (WIDTH - 1))))
            if t0 + k == last_frame:
                bm, bd, be, cm, cd, ce = em, ed, ee, om, od, oe
            elif not general:
                bm, bd, be = added(em, ed, ee, om, od, oe)
                cm = choose(jump, moved_down(bm, zm), moved_down(em, um))
                cd = choose(jump, moved_down(bd, zd), moved_down(ed, ud))
                ce = choose(jump, moved_down(be, ze), moved_down(ee, ue))
                cm, cd, ce = added(om, od, oe, cm, cd, ce)
                zm, zd, ze = bm, bd, be
            else:
                never = splat(np.int32(NEVER))
                over = mask_of(np.uint16((get(flags, w * 4) >> 1) | (get(flags, w * 4 + 4) << (WIDTH - 1))))
                nm, nd, ne = moved_down(em, um), moved_down(ed, ud), moved_down(ee, ue)
                bm, bd, be = added(em, ed, allowed(flags, w * 4 + 1, ee), om, od, oe)
                bm, bd, be = added(bm, bd, be, nm, nd, choose(over, ne, never))
                cm, cd, ce = added(om, od, allowed(flags, w * 4 + 3, oe), nm, nd, ne)
                jm, jd, je = moved_down(om, vm), moved_down(od, vd), moved_down(oe, ve)
                cm, cd, ce = added(cm, cd, ce, jm, jd, choose(jump, je, never))
                vm, vd, ve = om, od, oe
            um, ud, ue = em, ed, ee
            p = (t0 + k - f0) * width + w * WIDTH
            odd, odd_d = posterior(
                load(kept_r, 4 * p), load(kept_r, 4 * p + WIDTH), load(kept_e, 2 * p), cm, cd, ce, total
            )
            even, even_d = posterior(
                load(kept_r, 4 * p + 2 * WIDTH),
                load(kept_r, 4 * p + 3 * WIDTH),
                load(kept_e, 2 * p + WIDTH),
                bm,
                bd,
                be,
                total,
            )
            weight = weight + odd + even
            store(gamma, j, odd_d)
            if not general:
                blank = blank + even_d
                bm, bd, be = times(bm, bd, be, blank_m, blank_d, blank_e)
            else:
                store(even_gamma, j, even_d)
                bm, bd, be = times(bm, bd, be, load(even_xm, j), load(even_xd, j), load(even_xe, j))
            cm, cd, ce = times(cm, cd, ce, load(xm, j), load(xd, j), load(xe, j))
            store(back_r, r, cm)
            store(back_r, r + WIDTH, cd)
            store(back_r, r + 2 * WIDTH, bm)
            store(back_r, r + 3 * WIDTH, bd)
            store(back_e, e, ce)
            store(back_e, e + WIDTH, be)
        store(blanks, k * WIDTH, blank)
        store(masses, k * WIDTH, weight)
    # Lanes of frames beyond the last hold anything, and are never written.
    for u in range(number):
        store(tile, row_of_used[u] * WIDTH, nothing)
    store(mass, 0, nothing)
    add_transposed(masses, 0, WIDTH, zero_rows, 0, mass)
    if not general:
        add_transposed(blanks, 0, WIDTH, blank_rows, 0, tile)
    for w in range(first, end):
        j = (w - first) * WIDTH
        add_transposed(gamma, j, width, rows, odd_rows + w * WIDTH, tile)
        if general:
            add_transposed(even_gamma, j, width, rows, w * WIDTH, tile)


@compiled
def tangents(
    source, strides, fields, lengths, generals, dense, like, todo, scratch, direction, known, out, steps, scores
):  # fmt: skip
    """Compute log-likelihoods of the utterances `todo`, and the tangents of their occupancies.

    Args:
        source, strides, fields, lengths, generals, dense: see `problem.FlatProblem`; `like` is not needed.
        scratch: see `tangents`.
        direction, known: the direction and the posteriors: float32 in one row, its strides by utterance, frame, class,
            whether classes lie side by side, and how many there are.
        out: where tangents go, (B, T, C) in one row, zeros before.
        steps: of `out` by utterance, frame, class.
        scores: (B,) float64.

    Returns:
        The number of utterances done: fewer than there are where the next is to be left to logarithms.
    """
    x, classes, wild = source
    by_utterance, by_frame, by_class, wild_by_utterance, wild_by_frame = strides
    emit, skip, stay, sizes, starts, finals, min_frames = fields
    row_of_class, used, row_of_used, rows, flags, state, back, tiles, emitted, hands, kept, gammas, saved, block = (
        scratch
    )
    state_r, state_e = state
    back_r, back_e = back
    tile, tile_m, tile_e, centres, moves, weights = tiles
    saved_r, saved_e = saved
    never, one, nothing = splat(np.int32(NEVER)), splat(np.float32(1.0)), splat(np.float32(0.0))
    for done in range(todo.shape[0]):
        b = todo[done]
        size, frames, general = sizes[b], lengths[b], generals[b]
        if frames == 0 or frames < min_frames[b]:
            scores[b] = 0.0 if frames == min_frames[b] else -np.inf
            continue
        vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
        width, row = vectors * WIDTH, place(vectors - 1) + WIDTH
        emission = (x, b * by_utterance, by_frame, by_class, classes, wild, b * wild_by_utterance, wild_by_frame)
        lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags[: 4 * (vectors + 1)])
        number = rows_of_classes(emit[b, :size], classes, dense, row_of_class, used, row_of_used, rows)
        lattice, chosen = (general, rows, flags), (number, used, row_of_used, dense)
        area = tile.shape[0]
        scale = moves_and_weights(direction, known, b, frames, chosen, area, moves, weights, centres)
        if scale < 0.0:
            return done
        for i in range(0, 4 * row, 2 * WIDTH):
            store(state_r, i, one)
            store(state_r, i + WIDTH, nothing)
        for i in range(0, 2 * row, WIDTH):
            store(state_e, i, never)
        blocks = (frames + block - 1) // block
        offset, total_m, total_e = 0.0, 1.0, 0
        # Once over all frames, which keeps the last block; then back, and the blocks before it there and back.
        for stage in range(-1, blocks):
            f0, f1, kept_from = 0, frames, (blocks - 1) * block
            if stage >= 0:
                f0 = kept_from = (blocks - 1 - stage) * block
                f1 = min(f0 + block, frames)
            if stage > 0:
                copied(row, saved_r, saved_e, (blocks - 1 - stage) * row, state_r, state_e, 0)
            for t0 in range(f0, f1 if stage != 0 else f0, WIDTH):
                now = min(WIDTH, f1 - t0)
                if stage < 0 and t0 % block == 0:
                    copied(row, state_r, state_e, 0, saved_r, saved_e, t0 // block * row)
                first = max(0, size - finals[b] - 2 * (frames - 1 - t0)) // 2 // WIDTH
                end = min(vectors, (t0 + now + WIDTH - 1) // WIDTH)
                if not fetch(emission, t0, now, number, used, row_of_used, dense, tile):
                    return done
                powers(tile, number, row_of_used, tile_m, tile_e, centres)
                at = t0 // WIDTH * area
                emits = tile_m, moves[at : at + area], tile_e
                if stage < 0:
                    for k in range(now):
                        offset += centres[k]
                here = (t0, now, first, end, width, kept_from)
                _there(here, lattice, emits, emitted, hands, state, kept)
            if stage < 0:
                total_m, total_e = ended(state_r, state_e, size, finals[b])
                scores[b] = offset + np.log(total_m) + total_e * LN_2
                if not offset > -np.inf:
                    scores[b] = -np.inf
                    break
                if total_e <= -FAR or frames > MOST_FRAMES:
                    return done
                if scale == 0.0:
                    break
                for i in range(WIDTH):
                    gammas[4][i] = rows[0]
                    gammas[5][i] = 0
                for i in range(0, 4 * (width + WIDTH), 2 * WIDTH):
                    store(back_r, i, one)
                    store(back_r, i + WIDTH, nothing)
                for i in range(0, 2 * (width + WIDTH), WIDTH):
                    store(back_e, i, never)
                for s in range(size - finals[b], size):
                    back_e[exponent_of(s // 2 // WIDTH * WIDTH, s)] = 0
                continue
            for t0 in range(f0 + (f1 - 1 - f0) // WIDTH * WIDTH, f0 - 1, -WIDTH):
                now = min(WIDTH, f1 - t0)
                first = max(0, size - finals[b] - 2 * (frames - 1 - t0)) // 2 // WIDTH
                end = min(vectors, (t0 + now + WIDTH - 1) // WIDTH)
                fetch(emission, t0, now, number, used, row_of_used, dense, tile)
                powers(tile, number, row_of_used, tile_m, tile_e, centres)
                at = t0 // WIDTH * area
                emits = tile_m, moves[at : at + area], tile_e
                span = (t0, now, frames - 1, f0, first, end, width)
                _back(span, lattice, emits, emitted, kept, back, gammas, total_e, chosen, tile, centres)
                own, at = weights[at : at + area], b * steps[0] + t0 * steps[1]
                if not written(tile, own, chosen, now, total_m, centres, scale, at, steps, out):
                    return done
    return todo.shape[0]
