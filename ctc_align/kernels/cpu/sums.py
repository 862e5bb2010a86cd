"""Forward score and occupancy on the CPU (forward-backward, Rabiner 1989; for CTC Graves et al. 2006), in float32.

Each number is mantissa * 2**exponent, float32 in [1, 2) and int32: sums need no logarithm and nothing underflows, the
smaller term is shifted by building 2**-d from its bits. A state that cannot be reached has the exponent NEVER.
Emissions are relative to the best of their frame, whose sum is kept in float64: no number grows, and where one path is
nearly certain its factors are exactly 1. Lanes, strips and the range of vectors are as in `viterbi`. For CTC, where
a = even[i] + odd[i-1] is the sum that enters an even state, it is also what enters the odd one beside its own:

    alpha:  even[i] = x * a                odd[i] = x * (odd[i] + (a if skip else even[i]))
    beta:   even[i] = b = we[i] + wo[i]    odd[i] = wo[i] + (b[i+1] if skip else we[i+1]),  w = x * beta, a frame later
    occupancy = alpha * beta, made to sum to 1 in each frame, added up per class

Rows of alpha are saved every `block` frames in a first pass; on the way back those of one block after the other are
computed again. Where a frame's occupancies do not add up to the total, or it is too small, the result is refused.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import fetch, rows_of_classes
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER, added, allowed, normal, posterior, powers
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    add_transposed,
    choose,
    gather_transposed,
    get,
    load,
    mask_of,
    moved_down,
    moved_up,
    put,
    splat,
    store,
)
from ctc_align.kernels.cpu.viterbi import STRIP, lay_out, place

FAR = 2**26
MOST_FRAMES = 2**24
SLACK = 1e-3
"""Largest relative distance of the sum of a frame's occupancies from the total."""


@compiled
def _total(rows, size, finals):
    """Return mantissa and exponent of the sum over the last states; `rows`: odd m, odd e, even m, even e."""
    odd_m, odd_e, even_m, even_e = rows
    # The last state, and the one before it or nothing.
    at, before = place((size - 1) // 2 // WIDTH) + (size - 1) // 2 % WIDTH, 0
    m, e, other_m, other_e = get(even_m, at), get(even_e, at), get(odd_m, at), get(odd_e, at)
    if size % 2:
        if finals > 1:
            before = place((size - 2) // 2 // WIDTH) + (size - 2) // 2 % WIDTH
            other_m, other_e = get(odd_m, before), get(odd_e, before)
        else:
            other_e = np.int32(NEVER)
    elif finals < 2:
        m, e = other_m, other_e
        other_e = np.int32(NEVER)
    top = max(e, other_e)
    return m * np.exp((e - top) * LN_2) + other_m * np.exp((other_e - top) * LN_2), top


@compiled
def _back(here, general, number, row_of_used, rows, flags, tiles, emitted_rows, kept_rows, back_rows, total_e):
    """Replace the tile by the occupancies of its frames, added up per row, and advance beta * x (`back_rows`).

    `here`: first frame, frames, the last of all frames, the block's first, first and last (exclusive) vector, width,
    and how many of the tile's first rows are zero afterwards unless a state emits them.
    """
    t0, now, last_frame, f0, first, end, width, cleared = here
    tile, tile_m, tile_e, blanks, blank_rows = tiles
    xm, xe, even_xm, even_xe = emitted_rows
    kept_m, kept_e, gamma, even_gamma = kept_rows
    wom, woe, wem, wee = back_rows
    blank_row = rows[0] * WIDTH
    odd_rows, nothing, total = rows.shape[0] // 2, splat(np.float32(0.0)), splat(np.int32(total_e))
    for w in range(first, end):
        gather_transposed(tile_m, rows, odd_rows + w * WIDTH, xm, w * WIDTH, width)
        gather_transposed(tile_e, rows, odd_rows + w * WIDTH, xe, w * WIDTH, width)
        if general:
            gather_transposed(tile_m, rows, w * WIDTH, even_xm, w * WIDTH, width)
            gather_transposed(tile_e, rows, w * WIDTH, even_xe, w * WIDTH, width)
    for k in range(now - 1, -1, -1):
        blank_m, blank_e = splat(get(tile_m, blank_row + k)), splat(get(tile_e, blank_row + k))
        blank = nothing
        # Of the vector above: w of even and odd states, and their sum.
        i = end * WIDTH
        um, ue, vm, ve = load(wem, i), load(wee, i), load(wom, i), load(woe, i)
        zm, ze = added(um, ue, vm, ve)
        for w in range(end - 1, first - 1, -1):
            i, j = w * WIDTH, k * width + w * WIDTH
            em, ee, om, oe = load(wem, i), load(wee, i), load(wom, i), load(woe, i)
            jump = mask_of(np.uint16((get(flags, w * 4 + 2) >> 1) | (get(flags, w * 4 + 6) << (WIDTH - 1))))
            if t0 + k == last_frame:
                bm, be, cm, ce = em, ee, om, oe
            elif not general:
                bm, be = added(em, ee, om, oe)
                cm, ce = added(
                    om,
                    oe,
                    choose(jump, moved_down(bm, zm), moved_down(em, um)),
                    choose(jump, moved_down(be, ze), moved_down(ee, ue)),
                )
                zm, ze = bm, be
            else:
                never = splat(np.int32(NEVER))
                over = mask_of(np.uint16((get(flags, w * 4) >> 1) | (get(flags, w * 4 + 4) << (WIDTH - 1))))
                nm, ne = moved_down(em, um), moved_down(ee, ue)
                bm, be = added(em, allowed(flags, w * 4 + 1, ee), om, oe)
                bm, be = added(bm, be, nm, choose(over, ne, never))
                cm, ce = added(om, allowed(flags, w * 4 + 3, oe), nm, ne)
                cm, ce = added(cm, ce, moved_down(om, vm), choose(jump, moved_down(oe, ve), never))
                vm, ve = om, oe
            um, ue = em, ee
            p = 2 * ((t0 + k - f0) * width + i)
            store(gamma, j, posterior(load(kept_m, p), load(kept_e, p), cm, ce, total))
            own = posterior(load(kept_m, p + WIDTH), load(kept_e, p + WIDTH), bm, be, total)
            if not general:
                blank = blank + own
                bm, be = normal(bm * blank_m, be + blank_e)
            else:
                store(even_gamma, j, own)
                bm, be = normal(bm * load(even_xm, j), be + load(even_xe, j))
            store(wem, i, bm)
            store(wee, i, be)
            cm, ce = normal(cm * load(xm, j), ce + load(xe, j))
            store(wom, i, cm)
            store(woe, i, ce)
        store(blanks, k * WIDTH, blank)
    for k in range(now, WIDTH):
        store(blanks, k * WIDTH, nothing)
        for w in range(first, end):
            store(gamma, k * width + w * WIDTH, nothing)
            if general:
                store(even_gamma, k * width + w * WIDTH, nothing)
    for i in range(cleared):
        store(tile, i * WIDTH, nothing)
    for u in range(number):
        store(tile, row_of_used[u] * WIDTH, nothing)
    if not general:
        add_transposed(blanks, 0, WIDTH, blank_rows, 0, tile)
    for w in range(first, end):
        add_transposed(gamma, w * WIDTH, width, rows, odd_rows + w * WIDTH, tile)
        if general:
            add_transposed(even_gamma, w * WIDTH, width, rows, w * WIDTH, tile)


@compiled
def _write(tile, number, used, row_of_used, now, total_m, mass, first_out, steps, out, first_own, own, whole):
    """Write a tile's occupancies, divided by their frame's sum, to `out`; return False if it is far from the total.

    `whole`: how many of the first classes, whose rows are 0, 1 …, are written side by side, and a list of those rows.
    """
    together, everyone = whole
    total = splat(np.float32(0.0))
    for u in range(number):
        total = total + load(tile, row_of_used[u] * WIDTH)
    store(mass, 0, total)
    for k in range(now):
        if not abs(mass[k] - total_m) <= SLACK * total_m:
            return False
        mass[k] = np.float32(1.0) / mass[k]
    if together:
        total = load(mass, 0)
        for c in range(together):
            store(tile, c * WIDTH, load(tile, c * WIDTH) * total)
        for c in range(0, together, WIDTH):
            gather_transposed(tile, everyone, c, out, first_out + c, steps[1])
    for u in range(number):
        c, at = used[u], row_of_used[u] * WIDTH
        if c >= together:
            for k in range(now):
                put(out, first_out + k * steps[1] + c * steps[2], get(tile, at + k) * get(mass, k))
        elif c < 0:
            for k in range(now):
                put(own, first_own + k, get(tile, at + k) * get(mass, k))
    return True


@compiled
def sums(source, strides, fields, lengths, generals, dense, like, todo, scratch, out, steps, own, scores):
    """Compute log-likelihoods of the utterances `todo`, and their occupancies if there is an array for them.

    Args:
        source, strides, fields, lengths, generals, dense: see `problem.FlatProblem`; `like` is not needed.
        scratch: see `cpu_backend._new_sum_scratch`.
        out: (B, T, C) flat, zeros before, to be filled with the posteriors of classes; None for the scores alone (each
            is compiled separately).
        steps: of `out` by utterance, frame, class.
        own: (B, T) flat, to be filled with the posteriors of the wildcard; or empty.
        scores: (B,) float64.

    Returns:
        The number of utterances done; fewer than all if the next has NaN or +inf, or its result is refused.
    """
    x, classes, wild = source
    by_utterance, by_frame, by_class, wild_by_utterance, wild_by_frame = strides
    emit, skip, stay, sizes, starts, finals, min_frames = fields
    (
        row_of_class,
        used,
        row_of_used,
        everyone,
        rows,
        flags,
        state_rows,
        back_rows,
        tiles,
        emitted_rows,
        kept_rows,
        saved,
        block,
    ) = scratch
    odd_m, odd_e, even_m, even_e = state_rows
    tile, kept_tile_m, kept_tile_e, blanks, blank_rows, centres, hand_m, hand_e = tiles
    xm, xe, even_xm, even_xe = emitted_rows
    kept_m, kept_e, _, _ = kept_rows
    saved_m, saved_e = saved
    never, one = splat(np.int32(NEVER)), splat(np.float32(1.0))
    odd_rows = rows.shape[0] // 2
    for done in range(todo.shape[0]):
        b = todo[done]
        size, frames, general = sizes[b], lengths[b], generals[b]
        if frames == 0 or frames < min_frames[b]:
            scores[b] = 0.0 if frames == min_frames[b] else -np.inf
            continue
        vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
        width, row = vectors * WIDTH, place(vectors - 1) + WIDTH
        emitted = (x, b * by_utterance, by_frame, by_class, classes, wild, b * wild_by_utterance, wild_by_frame)
        lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags[: 4 * (vectors + 1)])
        number = rows_of_classes(emit[b, :size], classes, dense, row_of_class, used, row_of_used, rows)
        blank_row = rows[0] * WIDTH
        for i in range(0, row, WIDTH):
            store(odd_m, i, one)
            store(even_m, i, one)
            store(odd_e, i, never)
            store(even_e, i, never)
        blocks = 0
        if out is not None:
            blocks = (frames + block - 1) // block
        offset, total_m, total_e = 0.0, 1.0, 0
        # Forwards over all frames, keeping the last block; then backwards, block by block, each computed again first.
        for stage in range(-1, blocks):
            f0, f1, kept_from = 0, frames, (blocks - 1) * block
            if stage >= 0:
                f0 = kept_from = (blocks - 1 - stage) * block
                f1 = min(f0 + block, frames)
            there = f1 if stage != 0 else f0
            if out is not None and stage > 0:
                at = (blocks - 1 - stage) * row
                for i in range(0, row, WIDTH):
                    store(odd_m, i, load(saved_m, 2 * (at + i)))
                    store(odd_e, i, load(saved_e, 2 * (at + i)))
                    store(even_m, i, load(saved_m, 2 * (at + i) + WIDTH))
                    store(even_e, i, load(saved_e, 2 * (at + i) + WIDTH))
            for t0 in range(f0, there, WIDTH):
                now = min(WIDTH, f1 - t0)
                if out is not None and stage < 0 and t0 % block == 0:
                    at = t0 // block * row
                    for i in range(0, row, WIDTH):
                        store(saved_m, 2 * (at + i), load(odd_m, i))
                        store(saved_e, 2 * (at + i), load(odd_e, i))
                        store(saved_m, 2 * (at + i) + WIDTH, load(even_m, i))
                        store(saved_e, 2 * (at + i) + WIDTH, load(even_e, i))
                first = max(0, size - finals[b] - 2 * (frames - 1 - t0)) // 2 // WIDTH
                end = min(vectors, (t0 + now + WIDTH - 1) // WIDTH)
                if not fetch(emitted, t0, now, number, used, row_of_used, dense, tile):
                    return done
                # The way back needs them, too.
                at = (t0 - kept_from) // WIDTH * tile.shape[0] if out is not None and t0 >= kept_from else 0
                tile_m, tile_e = kept_tile_m[at : at + tile.shape[0]], kept_tile_e[at : at + tile.shape[0]]
                powers(tile, number, row_of_used, tile_m, tile_e, centres)
                if stage < 0:
                    for k in range(now):
                        offset += centres[k]
                for k in range(0, 4 * WIDTH, WIDTH):
                    store(hand_m, k, one)
                    store(hand_e, k, never)
                hand, next_hand = 0, 2 * WIDTH
                if first > 0:
                    at = place(first - 1) + WIDTH - 1
                    put(hand_m, 0, get(odd_m, at))
                    put(hand_e, 0, get(odd_e, at))
                    put(hand_m, WIDTH, get(even_m, at))
                    put(hand_e, WIDTH, get(even_e, at))
                elif t0 == 0:
                    put(hand_e, 0, np.int32(0))
                v = first
                while v < end:
                    stop = min((v // STRIP + 1) * STRIP, end)
                    for w in range(v, stop):
                        j = (w - v) * WIDTH
                        gather_transposed(tile_m, rows, odd_rows + w * WIDTH, xm, j, STRIP * WIDTH)
                        gather_transposed(tile_e, rows, odd_rows + w * WIDTH, xe, j, STRIP * WIDTH)
                        if general:
                            gather_transposed(tile_m, rows, w * WIDTH, even_xm, j, STRIP * WIDTH)
                            gather_transposed(tile_e, rows, w * WIDTH, even_xe, j, STRIP * WIDTH)
                    below, top = place(v) - WIDTH, place(stop - 1) + WIDTH - 1
                    for k in range(now):
                        put(hand_m, next_hand + k, get(odd_m, top))
                        put(hand_e, next_hand + k, get(odd_e, top))
                        store(odd_m, below, splat(get(hand_m, hand + k)))
                        store(odd_e, below, splat(get(hand_e, hand + k)))
                        if general:
                            put(hand_m, next_hand + WIDTH + k, get(even_m, top))
                            put(hand_e, next_hand + WIDTH + k, get(even_e, top))
                            store(even_m, below, splat(get(hand_m, hand + WIDTH + k)))
                            store(even_e, below, splat(get(hand_e, hand + WIDTH + k)))
                        blank_m = splat(get(tile_m, blank_row + k))
                        blank_e = splat(get(tile_e, blank_row + k))
                        for w in range(stop - 1, v - 1, -1):
                            i, j = place(w), (k * STRIP + w - v) * WIDTH
                            om, oe, em, ee = load(odd_m, i), load(odd_e, i), load(even_m, i), load(even_e, i)
                            bm, be = moved_up(om, load(odd_m, i - WIDTH)), moved_up(oe, load(odd_e, i - WIDTH))
                            if not general:
                                sm, se = added(em, ee, bm, be)
                                jump = mask_of(get(flags, w * 4 + 2))
                                tm, te = added(om, oe, choose(jump, sm, em), choose(jump, se, ee))
                                sm, se = normal(sm * blank_m, se + blank_e)
                            else:
                                cm, ce = moved_up(em, load(even_m, i - WIDTH)), moved_up(ee, load(even_e, i - WIDTH))
                                sm, se = added(em, allowed(flags, w * 4 + 1, ee), bm, be)
                                sm, se = added(sm, se, cm, allowed(flags, w * 4, ce))
                                sm, se = normal(sm * load(even_xm, j), se + load(even_xe, j))
                                tm, te = added(om, allowed(flags, w * 4 + 3, oe), em, ee)
                                tm, te = added(tm, te, bm, allowed(flags, w * 4 + 2, be))
                            tm, te = normal(tm * load(xm, j), te + load(xe, j))
                            store(even_m, i, sm)
                            store(even_e, i, se)
                            store(odd_m, i, tm)
                            store(odd_e, i, te)
                            if out is not None and t0 >= kept_from:
                                p = 2 * ((t0 + k - kept_from) * width + w * WIDTH)
                                store(kept_m, p, tm)
                                store(kept_e, p, te)
                                store(kept_m, p + WIDTH, sm)
                                store(kept_e, p + WIDTH, se)
                    hand, next_hand = next_hand, hand
                    v = stop
            if stage < 0:
                total_m, total_e = _total(state_rows, size, finals[b])
                scores[b] = offset + np.log(total_m) + total_e * LN_2
                if not offset > -np.inf:
                    scores[b] = -np.inf
                    break
                if total_e <= -FAR or frames > MOST_FRAMES:
                    return done
                if out is not None:
                    for i in range(WIDTH):
                        blank_rows[i] = rows[0]
                    for i in range(0, width + WIDTH, WIDTH):
                        store(back_rows[0], i, one)
                        store(back_rows[1], i, never)
                        store(back_rows[2], i, one)
                        store(back_rows[3], i, never)
                    for s in range(size - finals[b], size):
                        if s % 2:
                            back_rows[1][s // 2] = 0
                        else:
                            back_rows[3][s // 2] = 0
            elif out is not None:
                for t0 in range(f0 + (f1 - 1 - f0) // WIDTH * WIDTH, f0 - 1, -WIDTH):
                    now = min(WIDTH, f1 - t0)
                    first = max(0, size - finals[b] - 2 * (frames - 1 - t0)) // 2 // WIDTH
                    end = min(vectors, (t0 + now + WIDTH - 1) // WIDTH)
                    at = (t0 - f0) // WIDTH * tile.shape[0]
                    tile_m, tile_e = kept_tile_m[at : at + tile.shape[0]], kept_tile_e[at : at + tile.shape[0]]
                    # Frames that fill the tile: all classes are written at once, the unused ones too.
                    together = 0
                    if dense and now == WIDTH and steps[2] == 1:
                        together = classes - classes % WIDTH
                    here = (t0, now, frames - 1, f0, first, end, width, together)
                    _back(
                        here,
                        general,
                        number,
                        row_of_used,
                        rows,
                        flags,
                        (tile, tile_m, tile_e, blanks, blank_rows),
                        emitted_rows,
                        kept_rows,
                        back_rows,
                        total_e,
                    )
                    at, own_at = b * steps[0] + t0 * steps[1], b * wild_by_utterance + t0
                    whole = (together, everyone)
                    if not _write(
                        tile, number, used, row_of_used, now, total_m, centres, at, steps, out, own_at, own, whole
                    ):
                        return done
    return todo.shape[0]
