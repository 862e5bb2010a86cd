"""Viterbi for one utterance. Layout: two lanes, lane i holds state 2i (even) and state 2i + 1 (odd), shifted by one
so that index 0 is a permanent -inf. Two rows of each lane, swapped every frame; only lanes that can still be reached
from the start and can still reach the end are computed. One byte of back-pointers per lane: even | odd << 2.

    even[i] = x[emit] + max(even[i], odd[i-1], even[i-1] if skip)
    odd[i]  = x[emit] + max(odd[i], even[i], odd[i-1] if skip)          ties: stay, step, skip

With more than one block, the first pass keeps the row at each block's first frame; the trace-back then walks the blocks
from the last, recomputing only the lanes from which its state can be reached. Rows are re-centred at block starts
(the best score becomes 0), so float32 keeps its resolution; the score is summed again along the path in float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

RECENTRE_FRAMES = 512


@njit(nogil=True, cache=True, inline="always")
def _band(t, frames, size, starts, finals, bands):
    """Lanes [low, high) that matter at frame t."""
    high = min((size + 1) // 2, (starts - 1 + 2 * t) // 2 + 1)
    low = max(0, (size - finals - 2 * (frames - 1 - t)) // 2)
    if bands.shape[0]:
        low = max(low, bands[t, 0] // 2)
        high = min(high, (bands[t, 1] + 1) // 2)
    return low, high


@njit(nogil=True, cache=True)
def _gather(row, classes, out):
    for i in range(out.shape[0]):
        out[i] = row[classes[i]]


@njit(nogil=True, cache=True)
def _plain_lanes(stay_even, stay_odd, before_odd, skip_odd, blank, odd_scores, new_even, new_odd):
    """Even states emit one class and are not skipped into; all arrays begin at the same lane (before_odd one lower)."""
    for i in range(new_even.shape[0]):
        even, before = stay_even[i], before_odd[i]
        new_even[i] = (before if before > even else even) + blank
        odd = stay_odd[i]
        best = even if even > odd else odd
        jump = before + skip_odd[i]
        new_odd[i] = (jump if jump > best else best) + odd_scores[i]


@njit(nogil=True, cache=True)
def _plain_lanes_kept(stay_even, stay_odd, before_odd, skip_odd, blank, odd_scores, new_even, new_odd, pointers):
    for i in range(new_even.shape[0]):
        even, before = stay_even[i], before_odd[i]
        new_even[i] = (before if before > even else even) + blank
        odd = stay_odd[i]
        best = even if even > odd else odd
        jump = before + skip_odd[i]
        new_odd[i] = (jump if jump > best else best) + odd_scores[i]
        choice = np.uint8(8) if jump > best else (np.uint8(4) if even > odd else np.uint8(0))
        pointers[i] = choice | (np.uint8(1) if before > even else np.uint8(0))


@njit(nogil=True, cache=True)
def _lanes(
    stay_even, stay_odd, before_even, before_odd, skip_even, skip_odd, even_scores, odd_scores, new_even, new_odd
):
    for i in range(new_even.shape[0]):
        even, odd, before = stay_even[i], stay_odd[i], before_odd[i]
        best = before if before > even else even
        jump = before_even[i] + skip_even[i]
        new_even[i] = (jump if jump > best else best) + even_scores[i]
        best = even if even > odd else odd
        jump = before + skip_odd[i]
        new_odd[i] = (jump if jump > best else best) + odd_scores[i]


@njit(nogil=True, cache=True)
def _pointers(stay_even, stay_odd, before_even, before_odd, skip_even, skip_odd, pointers):
    for i in range(pointers.shape[0]):
        even, odd, before = stay_even[i], stay_odd[i], before_odd[i]
        best = before if before > even else even
        choice = np.uint8(2) if before_even[i] + skip_even[i] > best else np.uint8(1 if before > even else 0)
        best = even if even > odd else odd
        choice_odd = np.uint8(8) if before + skip_odd[i] > best else np.uint8(4 if even > odd else 0)
        pointers[i] = choice | choice_odd


@njit(nogil=True, cache=True)
def _frame(
    row, emit_even, emit_odd, odd_count, skip_even, skip_odd, plain, old, new, scores, low, high, pointers, base
):
    """One frame: rows `old` (2, lanes + 1) to `new`; back-pointers of lane i to pointers[i - base] if there is room."""
    stay_even, stay_odd = old[0][low + 1 : high + 1], old[1][low + 1 : high + 1]
    before_even, before_odd = old[0][low:high], old[1][low:high]
    new_even, new_odd = new[0][low + 1 : high + 1], new[1][low + 1 : high + 1]
    even_scores, odd_scores = scores[0][low:high], scores[1][low:high]
    jump_even, jump_odd = skip_even[low:high], skip_odd[low:high]
    _gather(row, emit_odd[low:high], odd_scores)
    if high > odd_count:
        scores[1, high - 1] = -np.inf  # an odd number of states: the last lane has no odd state
    into = pointers[low - base : high - base] if pointers.shape[0] else pointers
    if plain:
        blank = row[emit_even[0]]
        if pointers.shape[0]:
            _plain_lanes_kept(stay_even, stay_odd, before_odd, jump_odd, blank, odd_scores, new_even, new_odd, into)
        else:
            _plain_lanes(stay_even, stay_odd, before_odd, jump_odd, blank, odd_scores, new_even, new_odd)
        return
    _gather(row, emit_even[low:high], even_scores)
    if pointers.shape[0]:
        _pointers(stay_even, stay_odd, before_even, before_odd, jump_even, jump_odd, into)
    _lanes(
        stay_even, stay_odd, before_even, before_odd, jump_even, jump_odd, even_scores, odd_scores, new_even, new_odd
    )


@njit(nogil=True, cache=True)
def _forget_below(new, low):
    """The lane under the band may be read by the next frame: it must not hold an older frame's value."""
    if low > 0:
        new[0, low] = -np.inf
        new[1, low] = -np.inf


@njit(nogil=True, cache=True)
def _trim(new, t, low, high, bands):
    """A band may begin or end within a lane: the lane's other state is outside it."""
    if bands.shape[0]:
        if 2 * low < bands[t, 0]:
            new[0, low + 1] = -np.inf
        if 2 * high > bands[t, 1]:
            new[1, high] = -np.inf


@njit(nogil=True, cache=True)
def _recentre(row, low, high):
    best = row[0, low + 1]
    for i in range(low, high):
        best = max(best, row[0, i + 1], row[1, i + 1])
    if best == -np.inf:
        return
    for i in range(low, high):
        row[0, i + 1] -= best
        row[1, i + 1] -= best


@njit(nogil=True, cache=True)
def utterance(x, emit, skip, starts, finals, bands, plain, block, states):
    """Best path of one utterance: fills `states` (T,) and returns the score.

    `x` (T, C); `emit`, `skip` (S,); `bands` (T, 2) or (0, 2); `plain`: even states emit one class and are not
    skipped into; `block`: frames per block, T for back-pointers in full.
    """
    frames, size = x.shape[0], emit.shape[0]
    lanes = (size + 1) // 2
    emit_even, emit_odd = emit[0::2].copy(), np.zeros(lanes, np.int32)
    emit_odd[: size // 2] = emit[1::2]
    skip_even, skip_odd = np.full(lanes, -np.inf, x.dtype), np.full(lanes, -np.inf, x.dtype)
    for s in range(2, size):
        if skip[s]:
            if s % 2:
                skip_odd[s // 2] = 0
            else:
                skip_even[s // 2] = 0
    odd_count = size // 2
    old, new = np.full((2, lanes + 1), -np.inf, x.dtype), np.full((2, lanes + 1), -np.inf, x.dtype)
    scores = np.empty((2, lanes), x.dtype)
    blocks = (frames + block - 1) // block
    whole = blocks == 1
    pointers = np.empty((frames if whole else 0, lanes), np.uint8)
    no_pointers = np.empty(0, np.uint8)
    saved = np.empty((0 if whole else blocks, 2, lanes + 1), x.dtype)
    for t in range(frames):
        low, high = _band(t, frames, size, starts, finals, bands)
        if high <= low:
            return -np.inf
        if t == 0:
            for s in range(starts):
                if s // 2 >= low and s // 2 < high:
                    new[s % 2, s // 2 + 1] = x[0, emit[s]]
        else:
            into = pointers[t] if whole else no_pointers
            _frame(
                x[t], emit_even, emit_odd, odd_count, skip_even, skip_odd, plain, old, new, scores, low, high, into, 0
            )
        _trim(new, t, low, high, bands)
        _forget_below(new, low)
        if t % block == 0 if not whole else t % RECENTRE_FRAMES == 0:
            _recentre(new, low, high)
        if not whole and t % block == 0:
            saved[t // block] = new
        old, new = new, old
    state = size - 1
    if finals == 2 and old[(size - 2) % 2, (size - 2) // 2 + 1] > old[(size - 1) % 2, (size - 1) // 2 + 1]:
        state = size - 2
    if old[state % 2, state // 2 + 1] == -np.inf:
        return -np.inf
    if whole:
        _trace(pointers, 0, frames - 1, 0, state, states)
    else:
        _trace_blocks(
            x,
            emit_even,
            emit_odd,
            odd_count,
            skip_even,
            skip_odd,
            plain,
            bands,
            size,
            starts,
            finals,
            block,
            saved,
            state,
            states,
        )
    total = 0.0
    for t in range(frames):
        total += x[t, emit[states[t]]]
    return total


@njit(nogil=True, cache=True)
def _trace(pointers, first, last, base, state, states):
    """Walk back-pointers from `state` at frame `last` to frame `first`; returns the state at `first`."""
    states[last] = state
    for t in range(last, first, -1):
        byte = np.int64(pointers[t - first, state // 2 - base])
        state -= (byte >> 2) if state % 2 else (byte & 3)
        states[t - 1] = state
    return state


@njit(nogil=True, cache=True)
def _trace_blocks(
    x,
    emit_even,
    emit_odd,
    odd_count,
    skip_even,
    skip_odd,
    plain,
    bands,
    size,
    starts,
    finals,
    block,
    saved,
    state,
    states,
):
    frames = x.shape[0]
    lanes = emit_even.shape[0]
    width = min(lanes, block + 2)
    pointers = np.empty((block + 1, width), np.uint8)
    old, new = np.empty((2, lanes + 1), x.dtype), np.empty((2, lanes + 1), x.dtype)
    scores = np.empty((2, lanes), x.dtype)
    last = frames - 1
    for k in range(saved.shape[0] - 1, -1, -1):
        # Frames first … last, where `last` is the next block's first frame (its state is known) or the end.
        first = k * block
        top = state // 2
        base = max(0, top - (last - first))
        from_lane = max(0, base - 1)
        old[:, from_lane : top + 2] = saved[k, :, from_lane : top + 2]
        new[:, from_lane : top + 2] = -np.inf
        for t in range(first + 1, last + 1):
            low, high = _band(t, frames, size, starts, finals, bands)
            low, high = max(low, top - (last - t)), min(high, top + 1)
            into = pointers[t - first]
            _frame(
                x[t],
                emit_even,
                emit_odd,
                odd_count,
                skip_even,
                skip_odd,
                plain,
                old,
                new,
                scores,
                low,
                high,
                into,
                base,
            )
            _trim(new, t, low, high, bands)
            _forget_below(new, low)
            old, new = new, old
        state = _trace(pointers, first, last, base, state, states)
        last = first
    return state
