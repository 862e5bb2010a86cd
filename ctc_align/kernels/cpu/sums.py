"""Forward score, occupancy and its tangents on the CPU, in float32.

Forward-backward (Rabiner 1989; for CTC Graves et al. 2006) on the numbers of `scaled_numbers`, by
the recursions of `sum_recursion`.

Nothing underflows: each number has its exponent, that of a state which cannot be reached is NEVER.
Emissions are relative to the best of their frame, whose sum is kept in float64: no number grows,
and where one path is nearly certain its factors are exactly 1. Lanes, strips and the range of
vectors are as in `viterbi`.

    occupancy = alpha * beta, made to sum to 1 in each frame, added up per class
    tangent of occupancy = tangent of (alpha * beta) - occupancy * its sum over the frame

Rows of alpha are saved every `block` frames in a first pass; on the way back those of one block
after the other are computed again. Where a frame's occupancies do not add up to the total, or it is
too small, the result is refused.

Tangents, along a direction, run the same recursions on dual numbers. What moves all classes of a
frame alike moves no posterior. So each frame's mean, weighted by the known posteriors, is
subtracted from the direction first, and all moves are divided by the scale of the largest: then no
tangent grows with the frames, and float32 has digits for the rest. Directions are prepared as
emissions are, in tiles; those of the whole utterance are kept, for they are needed twice.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import ALL, fetch, rows_of_classes
from ctc_align.kernels.cpu.scaled_numbers import LN_2, NEVER, powers, zero
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    bits_of,
    choose,
    gather_transposed,
    get,
    greater,
    load,
    put,
    splat,
    store,
)
from ctc_align.kernels.cpu.sum_recursion import advance_alpha, advance_beta, spread_flags
from ctc_align.kernels.cpu.viterbi import emission_of, lay_out, place

FAR = 2**26
"""Sums below 2**-FAR are refused: exponents would come near LEAST, where zero is no longer told
from small."""
MOST_FRAMES = 2**24
"""In more frames the exponents of possible paths could come near LEAST."""
SLACK = 1e-3
"""Largest relative distance of the sum of a frame's occupancies from the total."""
LEAST_MOVE, MOST_MOVE = 1e-30, 1e30
"""Directions whose largest move is not between these are left to float64."""


@compiled
def total(odd, even, size, finals):
    """Return mantissa and exponent of the sum over the last states."""
    value, top = 0.0, NEVER
    for s in range(size - finals, size):
        at = place(s // 2 // WIDTH) + s // 2 % WIDTH
        top = max(top, get(odd[-1], at) if s % 2 else get(even[-1], at))
    for s in range(size - finals, size):
        at = place(s // 2 // WIDTH) + s // 2 % WIDTH
        m, e = (
            (get(odd[-2], at), get(odd[-1], at))
            if s % 2
            else (get(even[-2], at), get(even[-1], at))
        )
        value += m * np.exp((e - top) * LN_2)
    return value, top


@compiled
def fill(rows, first, size, number):
    """Set all numbers of rows, `size` of them from `first` on."""
    for i in range(first, first + size, WIDTH):
        store(rows, i, number)


@compiled
def save(row, odd, even, saved, number):
    """Keep odd and even vectors of a row in turns, as that of a number."""
    for i in range(0, row, WIDTH):
        store(saved, 2 * (number * row + i), load(odd, i))
        store(saved, 2 * (number * row + i) + WIDTH, load(even, i))


@compiled
def restore(row, odd, even, saved, number):
    """Take back what `save` kept."""
    for i in range(0, row, WIDTH):
        store(odd, i, load(saved, 2 * (number * row + i)))
        store(even, i, load(saved, 2 * (number * row + i) + WIDTH))


@compiled
def range_of_vectors(t0, now, frames, size, finals):
    """Return the first and last (exclusive) vector of a tile.

    Before them nothing can still reach the end, beyond them nothing can be reached from the start.
    """
    vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
    first = max(0, size - finals - 2 * (frames - 1 - t0)) // 2 // WIDTH
    return first, min(vectors, (t0 + now + WIDTH - 1) // WIDTH)


@compiled
def block_of_stage(stage, blocks, block, frames):
    """Return the first and last (exclusive) frame of a stage.

    Stage -1 is the first pass over all frames; then come the blocks, from the last.
    """
    if stage < 0:
        return 0, frames
    first = (blocks - 1 - stage) * block
    return first, min(first + block, frames)


@compiled
def shares_add_up(mass, now, total_m):
    """Return whether the posteriors of each frame add up to the total, but for rounding.

    False for NaN.
    """
    for k in range(now):  # noqa: SIM110
        if not abs(mass[k] - total_m) <= SLACK * total_m:
            return False
    return True


@compiled
def write_posteriors(tile, classes, now, total_m, mass, outs, of_wildcard, together, everyone):
    """Write a tile's occupancies, divided by their frame's sum, to `out`.

    Returns False if a sum is far from the total.

    `outs`: where to, its first index, its steps; `of_wildcard`: the same for the wildcard, whose
    frames are in a row; `together`: how many of the first classes, whose rows are 0, 1 …, are
    written side by side; `everyone`: those rows.
    """
    number, used, row_of_used, _ = classes
    out, first_out, steps = outs
    own, first_own = of_wildcard
    sum_of_frame = splat(np.float32(0.0))
    for u in range(number):
        sum_of_frame = sum_of_frame + load(tile, row_of_used[u] * WIDTH)
    store(mass, 0, sum_of_frame)
    if not shares_add_up(mass, now, total_m):
        return False
    for k in range(now):
        mass[k] = np.float32(1.0) / mass[k]
    if together:
        inverse = load(mass, 0)
        for c in range(together):
            store(tile, c * WIDTH, load(tile, c * WIDTH) * inverse)
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
def write_tangents(tile, weights, classes, now, total_m, mass, scale, first_out, steps, out):
    """Write a tile's tangents, times `scale`, less their frame's sum times the `weights`.

    Returns False if a frame's `mass` is far from the total.
    """
    number, used, row_of_used, _ = classes
    if not shares_add_up(mass, now, total_m):
        return False
    for k in range(now):
        mass[k] = scale / mass[k]
    sum_of_frame = splat(np.float32(0.0))
    for u in range(number):
        sum_of_frame = sum_of_frame + load(tile, row_of_used[u] * WIDTH)
    sum_of_frame = sum_of_frame * load(mass, 0)
    for u in range(number):
        at = row_of_used[u] * WIDTH
        store(tile, at, load(tile, at) * load(mass, 0) - load(weights, at) * sum_of_frame)
        if used[u] >= 0:
            place_out = first_out + used[u] * steps[2]
            for k in range(now):
                put(out, place_out + k * steps[1], get(tile, at + k))
    return True


@compiled
def fetch_moves(values, b, t0, frames, classes, still, tile):
    """Fill one tile with moves of utterance b.

    `values` and `classes` are as in `sums`. The wildcard gets `still` (1,), zero: its scores do not
    move.
    """
    row, by_utterance, by_frame, by_class, aside, count = values
    number, used, row_of_used, dense = classes
    source = (row, b * by_utterance, by_frame, by_class, count, still, 0, 0)
    return fetch(
        source, t0, min(WIDTH, frames - t0), number, used, row_of_used, dense and aside, tile
    )


@compiled
def without_mean(moves, weights, classes, most):
    """Subtract from a tile's moves, in place, their mean weighted by the posteriors.

    Such a mean moves no posterior.

    Return the largest of each lane, or of `most`, and whether all are finite.
    """
    number, _, row_of_used, _ = classes
    least, nothing = splat(np.float32(-np.inf)), splat(np.float32(0.0))
    mean = nothing
    for u in range(number):
        at = row_of_used[u] * WIDTH
        if bits_of(greater(load(moves, at), least)) != ALL:
            return most, False
        mean = mean + load(moves, at) * load(weights, at)
    for u in range(number):
        at = row_of_used[u] * WIDTH
        move = load(moves, at) - mean
        store(moves, at, move)
        most = choose(greater(move, most), move, most)
        move = nothing - move
        most = choose(greater(move, most), move, most)
    return most, True


@compiled
def moves_and_weights(direction, known, b, frames, classes, size, moves, weights, largest):
    """Fill the tiles of `moves` and `weights`, one after the other, each of `size`.

    `classes` is as in `sums`; `largest` (WIDTH,) is scratch.

    Return the scale by which moves were divided, a power of 2; 0 if none moves; -1 if one is
    infinite or NaN, or all are so small or large that float32 cannot hold their sums.
    """
    number, _, row_of_used, _ = classes
    still = largest[:1]  # the wildcard's move
    still[0] = 0.0
    most = splat(np.float32(0.0))
    for t0 in range(0, frames, WIDTH):
        at = t0 // WIDTH * size
        mine, own = moves[at : at + size], weights[at : at + size]
        if not fetch_moves(direction, b, t0, frames, classes, still, mine):
            return np.float32(-1.0)
        if not fetch_moves(known, b, t0, frames, classes, still, own):
            return np.float32(-1.0)
        most, is_finite = without_mean(mine, own, classes, most)
        if not is_finite:
            return np.float32(-1.0)
    store(largest, 0, most)
    scale = np.float32(0.0)
    for k in range(WIDTH):
        scale = max(scale, largest[k])
    if not (LEAST_MOVE < scale < MOST_MOVE):
        return scale if scale == 0.0 else np.float32(-1.0)
    scale = np.float32(2.0 ** np.floor(np.log2(scale)))
    for t0 in range(0, frames, WIDTH):
        for u in range(number):
            at = t0 // WIDTH * size + row_of_used[u] * WIDTH
            store(moves, at, load(moves, at) * splat(np.float32(1.0) / scale))
    return scale


@compiled
def with_moves(rows, mantissas, exponents, moves, at):
    """Return a tile of emissions as numbers with the parts of these rows.

    The tile's moves begin at `at`.
    """
    if len(rows) == 2:
        return mantissas, exponents
    return moves[at : at + mantissas.shape[0]], mantissas, exponents


@compiled
def begin_back(odd, even, width, size, finals, blank_row, blank_rows, zero_rows):
    """Set beta of the last frame, and the rows for `advance_beta`.

    Beta is 1 in the states in which a path may end.
    """
    for i in range(WIDTH):
        blank_rows[i], zero_rows[i] = blank_row, 0
    fill(odd, 0, width + WIDTH, zero(odd))
    fill(even, 0, width + WIDTH, zero(even))
    for s in range(size - finals, size):
        if s % 2:
            odd[-1][s // 2] = 0
        else:
            even[-1][s // 2] = 0


@compiled
def sums(inputs, todo, scratch, directions, out, steps, own, scores):
    """Compute the log-likelihoods of the utterances `todo`, and their occupancies or tangents.

    Occupancies are computed if there is an array for them; along a direction, it is their tangents.
    Each of the three is compiled separately.

    Args:
        inputs: see `problem.FlatProblem`.
        scratch: see `cpu_backend.sum_scratch`.
        directions: None, or the direction and the known posteriors: float32 in one row, its strides
            by utterance, frame, class, whether classes lie side by side, and how many there are.
        out: (B, T, C) flat, zeros before, to be filled with the posteriors of classes, or the
            tangents; None for the scores alone.
        steps: of `out` by utterance, frame, class.
        own: (B, T) flat, to be filled with the posteriors of the wildcard; or empty.
        scores: (B,) float64.

    Returns:
        The number of utterances done; fewer than all if the next has NaN or +inf, or its result is
        refused.
    """
    class_count, wild_by_utterance = inputs.source[1], inputs.strides[3]
    emit, skip, stay, sizes, starts, finals, min_frames = inputs.fields
    lists, odd, even, beta_odd, beta_even, tiles, emitted, hands, kept, shares, saved, block = (
        scratch
    )
    row_of_class, used, row_of_used, everyone, rows, flags, masks = lists
    tile, kept_m, kept_e, centres, moves, weights = tiles
    area = tile.shape[0]
    for done in range(todo.shape[0]):
        b = todo[done]
        size, frames, general = sizes[b], inputs.lengths[b], inputs.general[b]
        if frames == 0 or frames < min_frames[b]:
            scores[b] = 0.0 if frames == min_frames[b] else -np.inf
            continue
        vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
        width, row = vectors * WIDTH, place(vectors - 1) + WIDTH
        emission = emission_of(inputs, b)
        lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags[: 4 * (vectors + 1)])
        number = rows_of_classes(
            emit[b, :size], class_count, inputs.dense, row_of_class, used, row_of_used, rows
        )
        spread_flags(flags[: 4 * (vectors + 1)], masks)
        lattice, classes = (general, rows, masks), (number, used, row_of_used, inputs.dense)
        scale = np.float32(1.0)
        if directions is not None:
            scale = moves_and_weights(
                directions[0], directions[1], b, frames, classes, area, moves, weights, centres
            )
            if scale < 0.0:
                return done
        fill(odd, 0, row, zero(odd))
        fill(even, 0, row, zero(even))
        blocks = 0
        if out is not None:
            blocks = (frames + block - 1) // block
        offset, total_m, total_e = 0.0, 1.0, 0
        # Forwards over all frames, keeping the last block; then backwards, block by block, each
        # computed again first.
        for stage in range(-1, blocks):
            f0, f1 = block_of_stage(stage, blocks, block, frames)
            kept_from = (blocks - 1) * block if stage < 0 else f0
            if out is not None and stage > 0:
                restore(row, odd, even, saved, blocks - 1 - stage)
            # The last block is there already.
            for t0 in range(f0, f1 if stage != 0 else f0, WIDTH):
                now = min(WIDTH, f1 - t0)
                if out is not None and stage < 0 and t0 % block == 0:
                    save(row, odd, even, saved, t0 // block)
                first, end = range_of_vectors(t0, now, frames, size, finals[b])
                if not fetch(emission, t0, now, number, used, row_of_used, inputs.dense, tile):
                    return done
                # The way back needs them, too.
                at = (t0 - kept_from) // WIDTH * area if out is not None and t0 >= kept_from else 0
                tile_m, tile_e = kept_m[at : at + area], kept_e[at : at + area]
                powers(tile, number, row_of_used, tile_m, tile_e, centres)
                if stage < 0:
                    for k in range(now):
                        offset += centres[k]
                numbers = with_moves(odd, tile_m, tile_e, moves, t0 // WIDTH * area)
                span = (t0, now, first, end, 0, width, kept_from)
                advance_alpha(span, lattice, numbers, emitted, hands, odd, even, kept)
            if stage < 0:
                total_m, total_e = total(odd, even, size, finals[b])
                scores[b] = offset + np.log(total_m) + total_e * LN_2
                if not offset > -np.inf:
                    scores[b] = -np.inf
                    break
                if total_e <= -FAR or frames > MOST_FRAMES:
                    return done
                if scale == 0.0:
                    break
                if out is not None:
                    begin_back(
                        beta_odd, beta_even, width, size, finals[b], rows[0], shares[4], shares[5]
                    )
                continue
            if out is not None:
                for t0 in range(f0 + (f1 - 1 - f0) // WIDTH * WIDTH, f0 - 1, -WIDTH):
                    now = min(WIDTH, f1 - t0)
                    first, end = range_of_vectors(t0, now, frames, size, finals[b])
                    at = (t0 - f0) // WIDTH * area
                    tile_m, tile_e = kept_m[at : at + area], kept_e[at : at + area]
                    numbers = with_moves(odd, tile_m, tile_e, moves, t0 // WIDTH * area)
                    span = (t0, now, frames - 1, first, end, width, f0)
                    # Frames that fill the tile: all classes are written at once, the unused ones
                    # too.
                    together = 0
                    if directions is None and inputs.dense and now == WIDTH and steps[2] == 1:
                        together = class_count - class_count % WIDTH
                    beta = (beta_odd, beta_even)
                    advance_beta(
                        span,
                        lattice,
                        numbers,
                        emitted,
                        kept,
                        beta,
                        shares,
                        total_e,
                        classes,
                        together,
                        tile,
                        centres,
                    )
                    at, first_out = t0 // WIDTH * area, b * steps[0] + t0 * steps[1]
                    if directions is not None:
                        here = weights[at : at + area]
                        is_fine = write_tangents(
                            tile, here, classes, now, total_m, centres, scale, first_out, steps, out
                        )
                    else:
                        outs, of_wildcard = (
                            (out, first_out, steps),
                            (own, b * wild_by_utterance + t0),
                        )
                        is_fine = write_posteriors(
                            tile,
                            classes,
                            now,
                            total_m,
                            centres,
                            outs,
                            of_wildcard,
                            together,
                            everyone,
                        )
                    if not is_fine:
                        return done
    return todo.shape[0]
