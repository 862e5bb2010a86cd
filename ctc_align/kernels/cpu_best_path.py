"""Viterbi for one utterance. Layout: two lanes, lane i holds state 2i (even) and state 2i + 1 (odd), shifted by one
so that index 0 is a permanent -inf. Two rows of each lane, swapped every frame; only lanes that can still be reached
from the start and can still reach the end are computed. One byte of back-pointers per lane: even | odd << 2.

    even[i] = x[emit] + max(even[i], odd[i-1], even[i-1] if skip)
    odd[i]  = x[emit] + max(odd[i], even[i], odd[i-1] if skip)          ties: stay, step, skip

With more than one block, the first pass keeps the row at each block's first frame; the trace-back then walks the blocks
from the last, recomputing only the lanes from which its state can be reached: the same operations, the same bits.
Rows are re-centred now and then (the best score becomes 0), so that float32 keeps its resolution; the score is summed
again along the path in float64. No compiled code of other files is called: the cache on disk sees changes of this one
only. What runs in every frame is inlined: a call costs as much as a hundred cells.
"""

from __future__ import annotations

import numpy as np
from numba import njit

RECENTRE_FRAMES = 128


@njit(nogil=True, cache=True, inline="always")
def _band(t, frames, size, starts, finals, bands):
    """Lanes [low, high) that matter at frame t."""
    high = min((size + 1) // 2, t + 1)
    low = max(0, (size - finals - 2 * (frames - 1 - t)) // 2)
    if bands.shape[0]:
        low = max(low, bands[t, 0] // 2)
        high = min(high, (bands[t, 1] + 1) // 2)
    return low, high


@njit(nogil=True, cache=True, inline="always")
def _gather(x, row, classes, scores, lane, low, high):
    # Unsigned indices here and below: signed ones may count from the end, which keeps loops from being vectorised.
    first, row = np.uint64(low), np.uint64(row)
    for j in range(np.uint64(high - low)):
        scores[lane, first + j] = x[row + np.uint64(classes[lane, first + j])]


@njit(nogil=True, cache=True, inline="always")
def _plain_lanes(old, new, skip, blank, scores, pointers, place, low, high):
    """Even states emit one class and are not skipped into."""
    first, one, place = np.uint64(low), np.uint64(1), np.uint64(place)
    for j in range(np.uint64(high - low)):
        i = first + j
        even, odd, before = old[0, i + one], old[1, i + one], old[1, i]
        new[0, i + one] = (before if before > even else even) + blank
        best = even if even > odd else odd
        jump = before + skip[1, i]
        new[1, i + one] = (jump if jump > best else best) + scores[1, i]
        choice = np.uint8(8) if jump > best else (np.uint8(4) if even > odd else np.uint8(0))
        pointers[place + j] = choice | (np.uint8(1) if before > even else np.uint8(0))


@njit(nogil=True, cache=True, inline="always")
def _lanes(old, new, skip, scores, pointers, place, low, high):
    first, one, place = np.uint64(low), np.uint64(1), np.uint64(place)
    for j in range(np.uint64(high - low)):
        i = first + j
        even, odd, before = old[0, i + one], old[1, i + one], old[1, i]
        best = before if before > even else even
        jump = old[0, i] + skip[0, i]
        new[0, i + one] = (jump if jump > best else best) + scores[0, i]
        choice = np.uint8(2) if jump > best else (np.uint8(1) if before > even else np.uint8(0))
        best = even if even > odd else odd
        jump = before + skip[1, i]
        new[1, i + one] = (jump if jump > best else best) + scores[1, i]
        pointers[place + j] = choice | (np.uint8(8) if jump > best else (np.uint8(4) if even > odd else np.uint8(0)))


@njit(nogil=True, cache=True, inline="always")
def _frame(x, row, emit, skip, size, general, old, new, scores, low, high, pointers, place):
    """One frame: rows `old` (2, lanes + 1) to `new`; its scores begin at x[row], its pointers at pointers[place].

    Offsets into flat arrays, not slices: each slice would be counted in and out again at every frame.
    """
    _gather(x, row, emit, scores, 1, low, high)
    if high > size // 2:
        scores[1, high - 1] = -np.inf  # an odd number of states: the last lane has no odd state
    if general is None:
        _plain_lanes(old, new, skip, x[row + emit[0, 0]], scores, pointers, place, low, high)
    else:
        _gather(x, row, emit, scores, 0, low, high)
        _lanes(old, new, skip, scores, pointers, place, low, high)


@njit(nogil=True, cache=True, inline="always")
def _close(t, bands, new, low, high):
    """Nothing outside the band is read: neither an older frame's lane under it nor the other state of its end lanes."""
    if bands.shape[0]:
        if 2 * low < bands[t, 0]:
            new[0, low + 1] = -np.inf
        if 2 * high > bands[t, 1]:
            new[1, high] = -np.inf
    if low > 0:
        new[0, low] = -np.inf
        new[1, low] = -np.inf


@njit(nogil=True, cache=True)
def _best(row, low, high):
    best = row[0, low + 1]
    for i in range(low + 1, high + 1):
        best = max(best, row[0, i], row[1, i])
    return best


@njit(nogil=True, cache=True)
def _lower(row, low, high, by):
    for i in range(low + 1, high + 1):
        row[0, i] -= by
        row[1, i] -= by


@njit(nogil=True, cache=True)
def _lay_out(emit, skip, jumps):
    """Classes of the lanes (2, lanes), 0 where there is no state; `jumps` becomes 0 where a skip may enter or -inf."""
    classes = np.zeros(jumps.shape, np.int32)
    for s in range(emit.shape[0]):
        classes[s % 2, s // 2] = emit[s]
        jumps[s % 2, s // 2] = 0 if skip[s] and s > 1 else -np.inf
    return classes


@njit(nogil=True, cache=True)
def utterance(x, stride, emit, skip, starts, finals, bands, general, block, states):
    """Best path of one utterance: fills `states` (T,); returns the score and the largest |log-prob| along the path.

    `x`, `stride`: class c of frame t is x[t * stride + c]; `emit`, `skip` (S,); `bands` (T, 2) or (0, 2): first and
    last (exclusive) state of each frame; `general`: None where even states emit one class and are not skipped into,
    else True (told by type, for a branch would cost more than the frame); `block`: frames per block of back-pointers,
    T for all of them at once.
    Score -inf or NaN: no path, `states` untouched.
    """
    frames, size = states.shape[0], emit.shape[0]
    lanes = (size + 1) // 2
    jumps = np.full((2, lanes), -np.inf, x.dtype)
    classes = _lay_out(emit, skip, jumps)
    old, new = np.full((2, lanes + 1), -np.inf, x.dtype), np.full((2, lanes + 1), -np.inf, x.dtype)
    scores = np.empty((2, lanes), x.dtype)
    shifts = np.empty(frames // RECENTRE_FRAMES + 1, x.dtype)
    blocks = (frames + block - 1) // block
    whole = blocks == 1
    pointers = np.empty((frames if whole else 1) * lanes, np.uint8)
    saved = np.empty((0 if whole else blocks, 2, lanes + 1), x.dtype)
    for t in range(frames):
        low, high = _band(t, frames, size, starts, finals, bands)
        if high <= low:
            return -np.inf, 0.0
        if t == 0:
            for s in range(starts):
                if s // 2 >= low and s // 2 < high:
                    new[s % 2, s // 2 + 1] = x[emit[s]]
        else:
            place = t * lanes + low if whole else 0
            _frame(x, t * stride, classes, jumps, size, general, old, new, scores, low, high, pointers, place)
        _close(t, bands, new, low, high)
        if t % RECENTRE_FRAMES == 0:
            best = _best(new, low, high)
            if best == -np.inf:
                return -np.inf, 0.0
            shifts[t // RECENTRE_FRAMES] = best
            _lower(new, low, high, best)
        if not whole and t % block == 0:
            saved[t // block] = new
        old, new = new, old
    state = size - 1
    if finals == 2 and old[(size - 2) % 2, (size - 2) // 2 + 1] > old[(size - 1) % 2, (size - 1) // 2 + 1]:
        state = size - 2
    last = old[state % 2, state // 2 + 1]
    if not last > -np.inf:
        return np.float64(last), 0.0  # -inf, or NaN, whose back-pointers lead anywhere
    if whole:
        _trace(pointers, lanes, 0, frames - 1, 0, state, states)
    else:
        _trace_blocks(
            x, stride, classes, jumps, size, starts, finals, bands, general, block, saved, shifts, state, states
        )
    return _along(x, stride, emit, states)


@njit(nogil=True, cache=True)
def _along(x, stride, emit, states):
    total, largest = 0.0, 0.0
    for t in range(states.shape[0]):
        score = np.float64(x[t * stride + emit[states[t]]])
        total += score
        largest = max(largest, abs(score))
    return total, largest


@njit(nogil=True, cache=True)
def _trace(pointers, width, first, last, base, state, states):
    """Walk back-pointers from `state` at frame `last` to frame `first`, whose state is returned.

    Those of lane i at frame t are at pointers[(t - first) * width + i - base].
    """
    states[last] = state
    for t in range(last, first, -1):
        byte = np.int64(pointers[(t - first) * width + state // 2 - base])
        state -= (byte >> 2) if state % 2 else (byte & 3)
        states[t - 1] = state
    return state


@njit(nogil=True, cache=True)
def _trace_blocks(x, stride, classes, jumps, size, starts, finals, bands, general, block, saved, shifts, state, states):
    """As `_trace` over all frames, with each block's back-pointers made again from its saved first row."""
    frames, lanes = states.shape[0], classes.shape[1]
    width = min(lanes, block + 2)
    pointers = np.empty((block + 1) * width, np.uint8)
    old, new = np.empty((2, lanes + 1), saved.dtype), np.empty((2, lanes + 1), saved.dtype)
    scores = np.empty((2, lanes), saved.dtype)
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
            place = (t - first) * width + low - base
            _frame(x, t * stride, classes, jumps, size, general, old, new, scores, low, high, pointers, place)
            _close(t, bands, new, low, high)
            if t % RECENTRE_FRAMES == 0:
                _lower(new, low, high, shifts[t // RECENTRE_FRAMES])
            old, new = new, old
        state = _trace(pointers, width, first, last, base, state, states)
        last = first
