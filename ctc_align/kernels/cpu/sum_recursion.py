"""The forward and the backward recursion of sums over paths, for any numbers.

They advance over one tile of frames.

`scaled_numbers` say what the numbers are; rows of them are tuples of arrays, one for each part.
With x the emissions,
a frame later on the way back, and "skip" where the state may be skipped into:

    alpha[t, s] = x[t, s] * (alpha[t-1, s] + alpha[t-1, s-1] + alpha[t-1, s-2] if skip)
    beta[t, s]  = w[s] + w[s+1] + w[s+2] if skip,    where w[s] = x[t+1, s] * beta[t+1, s]

Lane i has state 2i, even, and 2i + 1, odd (see `viterbi`). In CTC, whose even states are the blank,
into which nothing skips, the sum that enters an even state is also what enters the odd one beside
it by a step and a skip:

    alpha:  even[i] = x * a,  a = even[i] + odd[i-1]    odd[i] = x * (odd[i] + (a if skip else even[i]))
    beta:   even[i] = b = we[i] + wo[i]                 odd[i] = wo[i] + (b[i+1] if skip else we[i+1])

which is half of the work; other topologies ("general") take all three terms for both.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.scaled_numbers import (
    added,
    entered,
    posterior,
    times,
    token_entered,
    zero,
)
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    add_transposed,
    choose,
    gather_transposed,
    get,
    greater,
    load,
    mask_of,
    moved_down,
    put,
    splat,
    store,
)
from ctc_align.kernels.cpu.viterbi import STRIP, lanes_below, place


@compiled
def gather(lattice, tile, emitted, first, end, at, stride):
    """Gather the emissions of the states of the vectors first … end - 1.

    They are written from `at` on, `stride` apart from frame to frame.
    """
    general, rows, _ = lattice
    odd_x, even_x = emitted
    odd_rows = rows.shape[0] // 2
    for w in range(first, end):
        gather_transposed(tile, rows, odd_rows + w * WIDTH, odd_x, at + (w - first) * WIDTH, stride)
        if general:
            gather_transposed(tile, rows, w * WIDTH, even_x, at + (w - first) * WIDTH, stride)


MASK = np.dtype(np.uint16 if WIDTH == 16 else np.int32)
MASK_SIZE = 1 if WIDTH == 16 else WIDTH
"""How a mask is kept: AVX-512 takes its bits as they are, on others numbers of -1 or 0 need fewer
instructions."""


@compiled
def spread_flags(flags, masks):
    """Fill `masks` (6 * MASK_SIZE a vector).

    Four with the words of `flags`, then whether the state two above the even one, and two above the
    odd one, of each lane may be skipped into.
    """
    for v in range(flags.shape[0] // 4 - 1):
        for kind in range(6):
            word = flags[4 * v + kind % 4]
            if kind >= 4:
                word = flags[4 * v + 2 * (kind - 4)] >> 1 | flags[4 * v + 4 + 2 * (kind - 4)] << (
                    WIDTH - 1
                )
            at = (6 * v + kind) * MASK_SIZE
            if MASK_SIZE == 1:
                put(masks, at, np.uint16(word))
            else:
                store(
                    masks,
                    at,
                    choose(mask_of(np.uint16(word)), splat(np.int32(-1)), splat(np.int32(0))),
                )


@compiled
def mask_at(masks, number):
    """Return one of the masks of `spread_flags`."""
    if MASK_SIZE == 1:
        return mask_of(get(masks, number))
    return greater(splat(np.int32(0)), load(masks, number * MASK_SIZE))


@compiled
def receive(hands, odd, even, first, lowest, t0):
    """Fill the first of two hands with the lane below the vector `first`.

    It is the lane before the tile's first frame; see `advance_alpha`.

    That lane is no longer updated, as no path from it reaches the end in time. Below the lowest
    state lies the virtual start, whose value is 1 before the first frame; the first state is
    entered from it.
    """
    nothing = zero(odd)
    for k in range(0, 4 * WIDTH, WIDTH):
        store(hands, k, nothing)
    if first > lowest:
        top = place(first - 1) + WIDTH - 1
        put(hands, 0, get(odd, top))
        put(hands, WIDTH, get(even, top))
    elif t0 == 0:
        put(hands[-1], 0, np.int32(0))


@compiled
def hand_over(hands, hand, next_hand, k, general, odd, even, below, top):
    """Take the lane below a strip from one hand, and put its last lane into the other.

    Both are those before frame k.
    """
    put(hands, next_hand + k, get(odd, top))
    store(odd, below, splat(get(hands, hand + k)))
    if general:
        put(hands, next_hand + WIDTH + k, get(even, top))
        store(even, below, splat(get(hands, hand + WIDTH + k)))


@compiled
def advance_alpha(span, lattice, tile, emitted, hands, odd, even, kept):
    """Advance alpha over one tile's frames, in place, and copy it to `kept` unless that is None.

    A strip of vectors goes through all frames while it is in the nearest cache; the next one needs
    its last lane,
    frame by frame: it hands that on in `hands` (4 * WIDTH: odd and even lanes of WIDTH frames,
    taken and given). Within a frame vectors are computed downwards: each needs the one below as it
    was a frame before.

    Args:
        span: first frame, frames, first and last (exclusive) vector, the lowest vector of all, how
            many lanes a row of `kept` has, and the frame of its first row: frames before that are
            not kept.
        lattice: whether it is general, the rows of the tile that states emit, and the masks of
            `spread_flags`.
        tile: emissions by class, see `emission_tiles`.
        emitted: odd and even states' emissions, scratch for a strip.
        odd, even: alpha, rows in vectors as in `viterbi`.
        kept: rows of odd and even vectors in turns.
    """
    t0, now, first, end, lowest, width, kept_from = span
    general, rows, masks = lattice
    odd_x, even_x = emitted
    blank_row = rows[0] * WIDTH
    receive(hands, odd, even, first, lowest, t0)
    hand, next_hand = 0, 2 * WIDTH
    v = first
    while v < end:
        stop = min((v // STRIP + 1) * STRIP, end)
        gather(lattice, tile, emitted, v, stop, 0, STRIP * WIDTH)
        below, top = place(v) - WIDTH, place(stop - 1) + WIDTH - 1
        for k in range(now):
            hand_over(hands, hand, next_hand, k, general, odd, even, below, top)
            blank = splat(get(tile, blank_row + k))
            start, at, lowest_mask = below + WIDTH, k * STRIP * WIDTH, 6 * v
            p = 2 * ((t0 + k - kept_from) * width + v * WIDTH)
            for n in range((stop - v - 1) * WIDTH, -1, -WIDTH):
                i, mask = start + n, lowest_mask + n // WIDTH * 6
                token, silence = load(odd, i), load(even, i)
                token_below = lanes_below(odd, i, token, stop - v)
                skip = mask_at(masks, mask + 2)
                if not general:
                    both = added(silence, token_below)
                    token = token_entered(token, silence, both, skip)
                    silence = times(both, blank)
                else:
                    over, stay = mask_at(masks, mask), mask_at(masks, mask + 1)
                    below_that = lanes_below(even, i, silence, stop - v)
                    into = entered(silence, token_below, below_that, stay, over)
                    token = entered(token, silence, token_below, mask_at(masks, mask + 3), skip)
                    silence = times(into, load(even_x, at + n))
                token = times(token, load(odd_x, at + n))
                store(even, i, silence)
                store(odd, i, token)
                if kept is not None and t0 >= kept_from:
                    store(kept, p + 2 * n, token)
                    store(kept, p + 2 * n + WIDTH, silence)
        hand, next_hand = next_hand, hand
        v = stop


@compiled
def advance_beta(
    span, lattice, tile, emitted, kept, beta, shares, total_e, classes, cleared, sums, mass
):
    """Advance beta * x over one tile's frames, backwards.

    Also add up the states' posteriors by class.

    Args:
        span: first frame, frames, the last of all frames, first and last (exclusive) vector, the
            lanes of a row, and the frame of the first row of `kept`.
        lattice, tile, emitted, kept: as for `advance_alpha`; scratch is for all vectors.
        beta: beta * x of the frame after, of odd and of even states, rows of vectors without gaps.
        shares: scratch: posteriors of odd and of even states, of blanks and of all by frame; rows
            for the latter two.
        total_e: exponent of the sum over all paths.
        classes: how many are used, which, their rows, and whether they are dense.
        cleared: this many of the first rows of `sums` are zero afterwards unless a state emits
            them.
        sums: a tile of posteriors by class, not yet divided by their frame's sum; of dual numbers
            their tangents, without the total's.
        mass: of dual numbers, the sums of the frames' posteriors (WIDTH,).
    """
    t0, now, last_frame, first, end, width, kept_from = span
    general, rows, masks = lattice
    number, _, row_of_used, _ = classes
    odd_x, even_x = emitted
    odd, even = beta
    odd_share, even_share, blanks, masses, blank_rows, zero_rows = shares
    blank_row, odd_rows = rows[0] * WIDTH, rows.shape[0] // 2
    nothing, exponent = splat(np.float32(0.0)), splat(np.int32(total_e))
    gather(lattice, tile, emitted, first, end, first * WIDTH, width)
    for k in range(now - 1, -1, -1):
        blank = splat(get(tile, blank_row + k))
        of_blank = weight = nothing
        # Of the vector above, as it was: tokens, blanks, and their sum.
        token_above, silence_above = load(odd, end * WIDTH), load(even, end * WIDTH)
        both_above = added(silence_above, token_above)
        for w in range(end - 1, first - 1, -1):
            i, j = w * WIDTH, k * width + w * WIDTH
            token, silence = load(odd, i), load(even, i)
            skip = mask_at(masks, w * 6 + 5)
            next_silence = moved_down(silence, silence_above)
            if t0 + k == last_frame:
                from_silence, from_token = silence, token
            elif not general:
                from_silence = added(silence, token)
                from_token = token_entered(
                    token, next_silence, moved_down(from_silence, both_above), skip
                )
                both_above = from_silence
            else:
                over, stay = mask_at(masks, w * 6 + 4), mask_at(masks, w * 6 + 1)
                from_silence = entered(silence, token, next_silence, stay, over)
                next_token = moved_down(token, token_above)
                from_token = entered(
                    token, next_silence, next_token, mask_at(masks, w * 6 + 3), skip
                )
                token_above = token
            silence_above = silence
            p = 2 * ((t0 + k - kept_from) * width + i)
            of_token = posterior(load(kept, p), from_token, exponent)
            of_silence = posterior(load(kept, p + WIDTH), from_silence, exponent)
            if len(kept) == 3:
                weight = weight + of_token[-1] + of_silence[-1]
            store(odd_share, j, of_token[0])
            if not general:
                of_blank = of_blank + of_silence[0]
                silence = times(from_silence, blank)
            else:
                store(even_share, j, of_silence[0])
                silence = times(from_silence, load(even_x, j))
            store(even, i, silence)
            store(odd, i, times(from_token, load(odd_x, j)))
        store(blanks, k * WIDTH, of_blank)
        store(masses, k * WIDTH, weight)
    # Lanes are frames here: those beyond the last hold anything, and are never written.
    for i in range(cleared):
        store(sums, i * WIDTH, nothing)
    for u in range(number):
        store(sums, row_of_used[u] * WIDTH, nothing)
    if len(kept) == 3:
        store(mass, 0, nothing)
        add_transposed(masses, 0, WIDTH, zero_rows, 0, mass)
    # States that emit one class are added in order, so that a sum rounds in one way only, whatever
    # is beside it.
    if not general:
        add_transposed(blanks, 0, WIDTH, blank_rows, 0, sums)
    for w in range(first, end):
        add_transposed(odd_share, w * WIDTH, width, rows, odd_rows + w * WIDTH, sums)
        if general:
            add_transposed(even_share, w * WIDTH, width, rows, w * WIDTH, sums)
