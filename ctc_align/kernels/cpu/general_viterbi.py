"""Viterbi for one utterance of any topology: states without self-loops, optional tokens, bands.

Row by row in float64, in the order of the reference: the same sums, the same bits, the same ties. A
back-pointer is the number of the alternative taken: 0 stay, 1 step, 2 skip, 3 + p the p-th detour.
They are kept for one block of frames: the first pass saves the row at each block's first frame; the
trace-back goes through the blocks from the last and computes their rows again, only the states from
which the path's state can be reached.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ctc_align.errors import KernelError
from ctc_align.kernels.cpu.compilation import compiled_with_arrays

KEPT_WHOLE_BYTES = 64 * 2**20
"""Back-pointers of one utterance are kept whole up to this size."""
MOST_BYTES = 512 * 2**20
"""One utterance's block of back-pointers and its saved rows may take no more than this."""


@compiled_with_arrays
def _begin(x, emit, begin, wildcard, low, high, row):
    row[:] = -np.inf
    for s in range(low, high):
        if begin[s]:
            row[s] = wildcard[0] if emit[s] < 0 else x[emit[s]]


@compiled_with_arrays
def _advance(x, place, emit, skip, stay, sources, wildcard, t, low, high, old, new, pointers, base):
    """Compute states low … high - 1 of frame t from row `old` in `new`; -inf elsewhere.

    The score of class c at this frame is x[place + c].

    The back-pointer of state s becomes pointers[base + s].
    """
    new[:] = -np.inf
    for s in range(low, high):
        best, choice = old[s] if stay[s] else -np.inf, 0
        # NaN wins: what is not itself.
        if s > 0 and (old[s - 1] > best or old[s - 1] != old[s - 1]):
            best, choice = old[s - 1], 1
        if s > 1 and skip[s] and (old[s - 2] > best or old[s - 2] != old[s - 2]):
            best, choice = old[s - 2], 2
        for p in range(sources.shape[1]):
            if sources[s, p] < 0:
                break
            if old[sources[s, p]] > best or old[sources[s, p]] != old[sources[s, p]]:
                best, choice = old[sources[s, p]], 3 + p
        new[s] = best + (wildcard[t] if emit[s] < 0 else x[place + emit[s]])
        if best == -np.inf:
            new[s] = best
        pointers[base + s] = choice


@compiled_with_arrays
def _limits(bands, t, size):
    if bands.shape[0]:
        return max(0, bands[t, 0]), min(size, bands[t, 1])
    return 0, size


@compiled_with_arrays
def _last_state(row, end):
    """Return the best state that may be the last.

    The highest of equally good ones; -1 if there is none.
    """
    state = -1
    for s in range(end.shape[0] - 1, -1, -1):
        if end[s] and (state < 0 or row[s] > row[state] or row[s] != row[s]):
            state = s
    return state


@compiled_with_arrays
def _trace_block(
    x,
    stride,
    emit,
    skip,
    stay,
    sources,
    wildcard,
    bands,
    reach,
    first,
    last,
    row,
    spare,
    pointers,
    width,
    states,
):
    """Fill `states` from frame `last` back to frame `first`.

    The state at `last` is known; `row` is the row of frame `first`.
    """
    size, top = emit.shape[0], np.int64(states[last])
    lowest = max(0, top - reach * (last - first))
    for t in range(first + 1, last + 1):
        low, high = _limits(bands, t, size)
        low, high = max(low, top - reach * (last - t)), min(high, top + 1)
        base = (t - first - 1) * width - lowest
        _advance(
            x,
            t * stride,
            emit,
            skip,
            stay,
            sources,
            wildcard,
            t,
            low,
            high,
            row,
            spare,
            pointers,
            base,
        )
        row, spare = spare, row
    state = top
    for t in range(last, first, -1):
        choice = np.int64(pointers[(t - first - 1) * width - lowest + state])
        state = state - choice if choice < 3 else np.int64(sources[state, choice - 3])
        states[t - 1] = state


@compiled_with_arrays
def utterance(
    x,
    stride,
    emit,
    skip,
    stay,
    sources,
    begin,
    end,
    wildcard,
    bands,
    reach,
    saved,
    block,
    pointers,
    width,
    states,
):
    """Fill `states` (T,) with the best path of one utterance and return its score.

    The score is -inf or NaN where there is no path.

    `x`, `stride`: class c of frame t is x[t * stride + c]; `emit`, `skip`, `stay`, `begin`, `end`
    (S,); `sources`
    (S, P); `wildcard` (T,), read where emit is below 0; `bands` (T, 2) or (0, 2): first and last
    (exclusive) state of each frame; `reach`: how far back a state may be entered from; `block`:
    frames between the rows kept in `saved` (blocks, S); `pointers`: space for `block` rows of
    `width` states.
    """
    frames, size = states.shape[0], emit.shape[0]
    old, new = np.empty(size), np.empty(size)
    nowhere = np.empty(size, pointers.dtype)
    for t in range(frames):
        low, high = _limits(bands, t, size)
        if t == 0:
            _begin(x, emit, begin, wildcard, low, high, new)
        else:
            _advance(
                x,
                t * stride,
                emit,
                skip,
                stay,
                sources,
                wildcard,
                t,
                low,
                high,
                old,
                new,
                nowhere,
                0,
            )
        if t % block == 0:
            saved[t // block] = new
        old, new = new, old
    state = _last_state(old, end)
    if state < 0:
        return -np.inf
    score = old[state]
    if not score > -np.inf:
        return score
    states[frames - 1] = state
    last = frames - 1
    for k in range(saved.shape[0] - 1, -1, -1):
        first = k * block
        old[:] = saved[k]
        _trace_block(
            x,
            stride,
            emit,
            skip,
            stay,
            sources,
            wildcard,
            bands,
            reach,
            first,
            last,
            old,
            new,
            pointers,
            width,
            states,
        )
        last = first
    return score


def plan(
    b: int, frames: int, size: int, sources: np.ndarray
) -> tuple[int, np.ndarray, int, np.ndarray, int]:
    """Return how far back a state may be entered from, and the memory for utterance b.

    The memory is that of rows, block, pointers and width.

    Raises:
        KernelError: it is more than `MOST_BYTES`.
    """
    far = np.arange(size)[:, None] - sources
    reach = max(2, int(far[sources >= 0].max(initial=0)))
    kind = np.min_scalar_type(sources.shape[1] + 2)

    def needed(block: int) -> int:
        return 8 * size * -(-frames // block) + kind.itemsize * block * min(size, reach * block + 1)

    block = _block(frames, needed)
    if needed(block) > MOST_BYTES:
        raise KernelError(
            f"best path of utterance {b}: {frames} frames x {size} states with detours over {reach}"
            f" states need {needed(block)} bytes, over the limit of {MOST_BYTES}; split the utterance"
        )
    width = min(size, reach * block + 1)
    return reach, np.empty((-(-frames // block), size)), block, np.empty(block * width, kind), width


def _block(frames: int, needed: Callable[[int], int]) -> int:
    """Return the number of frames in a block, which takes `needed(block)` bytes.

    All frames while they fit, else the cheapest number.
    """
    if needed(frames) <= KEPT_WHOLE_BYTES:
        return frames
    return min((2**k for k in range(1, frames.bit_length() + 1)), key=needed)
