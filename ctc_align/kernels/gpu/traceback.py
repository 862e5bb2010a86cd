"""The way back along the best paths, on the device, after `path_kernels` has walked forwards.

First, one line per utterance: its last state, the highest of the best ones, and from block to block of the frames, by
the origins that the walk left, the state that the path is in at each block's end. Then, one line per block, all blocks
at once: the states inside, by the back-pointers. Lines are independent of each other.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.row_layout import END
from ctc_align.kernels.gpu.triton_import import jit, tl


@jit
def block_ends(
    flags, numbers, last, origins, exits, scores, batch, width, units, keep, blocks,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Score of each utterance, and in `exits` (B, blocks) its state at the last frame of each block; -1 for no path."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    empty = tl.load(numbers + 2 * batch + b, mask=b < batch, other=0)
    last += b.to(tl.int64) * 2 * units

    # Lane by lane the last of the best; then the last of the best lanes. NaN wins.
    best = tl.full((ROWS, STEP), float("-inf"), tl.float64)
    best_state = tl.full((ROWS, STEP), -1, tl.int32)
    wrong = tl.zeros((ROWS, STEP), tl.int32)
    for first in range(0, tl.max(size), STEP):
        state = first + tl.zeros((ROWS, 1), tl.int32) + tl.arange(0, STEP)[None, :]
        here = (state < size[:, None]) & (length[:, None] > 0)
        flag = tl.load(flags + b.to(tl.int64)[:, None] * width + state, mask=here, other=0).to(tl.int32)
        final = here & ((flag & END) != 0)
        value = tl.load(last[:, None] + (state & 1) * units + (state >> 1), mask=final, other=float("-inf"))
        wins = final & (value >= best)
        best, best_state = tl.where(wins, value, best), tl.where(wins, state, best_state)
        wrong = tl.where(value != value, 1, wrong)
    score = tl.max(best, 1)
    state = tl.max(tl.where(best == score[:, None], best_state, -1), 1)
    score = tl.where((tl.max(wrong, 1) > 0) | (score == float("inf")), float("nan"), score)
    score = tl.where(length > 0, score, tl.where(empty > 0, 0.0, float("-inf")))
    tl.store(scores + b, score, mask=b < batch)

    found = (length > 0) & (score > float("-inf"))
    state = tl.where(found, state, -1)
    newest = tl.maximum(length - 2, 0) // keep
    exits += b.to(tl.int64) * blocks
    origins += b.to(tl.int64) * blocks * 2 * units
    for k in range(tl.max(newest) + 1):
        block = newest - k
        here = (length > 0) & (block >= 0)
        tl.store(exits + block, state, mask=here)
        place = block.to(tl.int64) * 2 * units + (state & 1) * units + (state >> 1)
        state = tl.where(state >= 0, tl.load(origins + place, mask=here & (block > 0) & (state >= 0), other=-1), -1)


@jit
def inside(
    numbers, exits, pointers, detours, states, batch, frames, width, most, first, slots, keep, blocks, row_units,
    window_units, word_frames,
    PAIRS: tl.constexpr, BITS: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """States (B, T) of the blocks first … first + slots - 1, each followed back from its exit."""
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    b, n = pair // slots, first + pair % slots
    length = tl.load(numbers + b, mask=b < batch, other=0)
    start = n * keep
    here = (length > 0) & ((n == 0) | (start < length - 1))
    state = tl.load(exits + b.to(tl.int64) * blocks + n, mask=here, other=-1)
    here = here & (state >= 0)
    end = tl.minimum(start + keep, length - 1)
    states += b.to(tl.int64) * frames
    detours += b.to(tl.int64) * width * most
    base = state * 0
    if AGAIN:
        if window_units < row_units:
            base = tl.maximum(state // 2 - keep, 0)
        pointers += pair.to(tl.int64) * word_frames * 2 * window_units
        units = window_units
        since = start
    else:
        pointers += b.to(tl.int64) * word_frames * 2 * row_units
        units = row_units
        since = state * 0
    for k in range(tl.max(tl.where(here, end - start, 0))):
        t = end - k
        now = here & (t > start)
        tl.store(states + t, state, mask=now)
        word = ((t - 1 - since) // 4).to(tl.int64) * 2 * units + (state & 1) * units + (state >> 1) - base
        choice = tl.load(pointers + word, mask=now, other=0)
        choice = ((choice >> (((t - 1) % 4) * BITS).to(choice.dtype)) & ((1 << BITS) - 1)).to(tl.int32)
        source = state - choice
        detoured = now & (choice > 2)
        other = tl.load(detours + state.to(tl.int64) * most + choice - 3, mask=detoured, other=0)
        state = tl.where(now, tl.where(detoured, other, source), state)
    tl.store(states + start, state, mask=here & (n == 0))
