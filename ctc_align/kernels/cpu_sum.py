"""Forward score and occupancy for one utterance (forward-backward, Rabiner 1989; for CTC Graves et al. 2006).

Each number is mantissa * 2**exponent, float32 about 1 and int32, so that sums need no logarithm and nothing underflows:
the smaller terms are shifted by building 2**-d from its bits. A state that cannot be reached has the exponent NEVER.
Emissions are taken relative to the best of their frame, whose sum is kept in float64: no number grows, and where one
path is nearly certain its factors are exactly 1. Two lanes as in `cpu_best_path`: even and odd states.

    alpha[t, s] = x[t, s] * (alpha[t-1, s] + alpha[t-1, s-1] + alpha[t-1, s-2] if skip[s])
    beta[t, s]  = w[s] + w[s+1] + w[s+2] if skip[s+2],  where w = x[t+1] * beta[t+1]
    occupancy   = alpha * beta / total, added up per class

Rows of alpha are kept for one block of frames; those of earlier blocks are made again from a saved row.
No compiled code of other files is called: the cache on disk sees changes of this one only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

NEVER = -(2**28)
LEAST = -(2**27)
"""Exponent of what has probability zero: a path through it stays below -FAR however many paths there are."""
FAR = 2**26
MOST_FRAMES = 2**24
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
POLYNOMIAL = (
    6.9314720286e-01,
    2.4022647914e-01,
    5.5503324710e-02,
    9.6184373576e-03,
    1.3398874453e-03,
    1.5353361998e-04,
)
"""2**f = 1 + f * (… ) on [-1/2, 1/2]: minimax, relative error below 2e-9."""


def _bits_of(typingctx, number):
    """The bits of a float32 as int32."""
    return types.int32(types.float32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.IntType(32)
    )


def _number_of(typingctx, bits):
    """The float32 with these bits."""
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.FloatType()
    )


_bits: Any = intrinsic(_bits_of)
_number: Any = intrinsic(_number_of)


@njit(nogil=True, cache=True, inline="always")
def _shift(number, down):
    """number * 2**down for down <= 0; 0 below 2**-126."""
    exponent = np.int32(max(np.int32(down), np.int32(-127)) + np.int32(127))
    return number * _number(np.int32(exponent << np.int32(23)))


@njit(nogil=True, cache=True, inline="always")
def _ordered(bits):
    """Bits of floats, as integers that compare as the floats do; its own inverse."""
    return np.int32(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(nogil=True, cache=True, inline="always")
def _gather(x, row, classes, scores, lane, low, high, best, largest):
    """Scores of lanes low … high - 1; returns `best` raised to the best of them, as `_ordered` bits, and `largest`
    raised to the bits of the largest |score|: NaN has the largest."""
    # Unsigned indices here and below: signed ones may count from the end, which keeps loops from being vectorised.
    first, row = np.uint64(low), np.uint64(row)
    for j in range(np.uint64(max(high - low, 0))):
        scores[lane, first + j] = x[row + np.uint64(classes[lane, first + j])]
    for j in range(np.uint64(max(high - low, 0))):
        bits = _bits(scores[lane, first + j])
        best = max(best, _ordered(bits))
        largest = max(largest, np.int32(bits & np.int32(0x7FFFFFFF)))
    return best, largest


@njit(nogil=True, cache=True, inline="always")
def _power(x):
    """2**(log2(e) * x) for x <= 0 as mantissa about 1 and whole exponent, not below LEAST."""
    y = max(x * np.float32(LOG2_E), np.float32(LEAST))
    whole = np.floor(y + np.float32(0.5))
    f = y - whole
    p = np.float32(POLYNOMIAL[5])
    p = p * f + np.float32(POLYNOMIAL[4])
    p = p * f + np.float32(POLYNOMIAL[3])
    p = p * f + np.float32(POLYNOMIAL[2])
    p = p * f + np.float32(POLYNOMIAL[1])
    p = p * f + np.float32(POLYNOMIAL[0])
    p = p * f + np.float32(1.0)
    return p, np.int32(whole)


@njit(nogil=True, cache=True, inline="always")
def _powers(scores, centre, em, ee, lane, low, high):
    first = np.uint64(low)
    for j in range(np.uint64(max(high - low, 0))):
        em[lane, first + j], ee[lane, first + j] = _power(scores[lane, first + j] - centre)


@njit(nogil=True, cache=True, inline="always")
def _normal(value, exponent):
    """value * 2**exponent with the mantissa in [1, 2); nothing below NEVER."""
    bits = _bits(value)
    e = np.int32(exponent + np.int32(np.int32(bits >> np.int32(23)) - np.int32(127)))
    return _number(np.int32((bits & np.int32(0x7FFFFF)) | np.int32(0x3F800000))), max(e, np.int32(NEVER))


@njit(nogil=True, cache=True, inline="always")
def _sum(a_m, a_e, b_m, b_e, c_m, c_e):
    """a + b + c, not normal."""
    top = max(a_e, max(b_e, c_e))
    value = _shift(a_m, np.int32(a_e - top)) + _shift(b_m, np.int32(b_e - top)) + _shift(c_m, np.int32(c_e - top))
    return value, top


@njit(nogil=True, cache=True, inline="always")
def _forward_row(old_m, old_e, new_m, new_e, em, ee, jump, low, high):
    """alpha of one frame; rows (2, lanes + 1), lane i at i + 1, emissions `em`, `ee` (2, lanes), lane i at i."""
    first, one = np.uint64(low), np.uint64(1)
    for j in range(np.uint64(high - low)):
        i, k = first + j, first + j + one
        value, top = _sum(
            old_m[0, k], old_e[0, k], old_m[1, i], old_e[1, i], old_m[0, i], np.int32(old_e[0, i] + jump[0, i])
        )
        new_m[0, k], new_e[0, k] = _normal(value * em[0, i], np.int32(top + ee[0, i]))
    for j in range(np.uint64(high - low)):
        i, k = first + j, first + j + one
        value, top = _sum(
            old_m[1, k], old_e[1, k], old_m[0, k], old_e[0, k], old_m[1, i], np.int32(old_e[1, i] + jump[1, i])
        )
        new_m[1, k], new_e[1, k] = _normal(value * em[1, i], np.int32(top + ee[1, i]))
    # The next frame reads the lane above this one's: it must not hold the value of a later frame, walked before.
    if high + 1 < new_e.shape[1]:
        new_e[0, high + 1] = NEVER
        new_e[1, high + 1] = NEVER


@njit(nogil=True, cache=True, inline="always")
def _backward_row(w_m, w_e, beta_m, beta_e, jump, low, high):
    """beta of one frame from w = x * beta of the next; lane i at index i, (2, lanes + 1), the last stays NEVER."""
    first, one = np.uint64(low), np.uint64(1)
    for j in range(np.uint64(high - low)):
        i, k = first + j, first + j + one
        value, top = _sum(w_m[0, i], w_e[0, i], w_m[1, i], w_e[1, i], w_m[0, k], np.int32(w_e[0, k] + jump[0, k]))
        beta_m[0, i], beta_e[0, i] = _normal(value, top)
    for j in range(np.uint64(high - low)):
        i, k = first + j, first + j + one
        value, top = _sum(w_m[1, i], w_e[1, i], w_m[0, k], w_e[0, k], w_m[1, k], np.int32(w_e[1, k] + jump[1, k]))
        beta_m[1, i], beta_e[1, i] = _normal(value, top)


@njit(nogil=True, cache=True, inline="always")
def _weighted_row(beta_m, beta_e, em, ee, w_m, w_e, low, high):
    """w = x * beta in lanes low … high - 1; those below were never reached, those above are not read."""
    first = np.uint64(low)
    for lane in range(2):
        for j in range(np.uint64(high - low)):
            i = first + j
            value, top = beta_m[lane, i] * em[lane, i], np.int32(beta_e[lane, i] + ee[lane, i])
            w_m[lane, i], w_e[lane, i] = _normal(value, top)


@njit(nogil=True, cache=True, inline="always")
def _posteriors(alpha_m, alpha_e, beta_m, beta_e, total_m, total_e, gamma, low, high):
    """alpha * beta / total of one frame, (2, lanes)."""
    first, one, scale = np.uint64(low), np.uint64(1), np.float32(1.0) / total_m
    for lane in range(2):
        for j in range(np.uint64(high - low)):
            i = first + j
            # Above 2**126 only what a lost resolution could make; there is nothing to keep.
            down = np.int32(np.int32(alpha_e[lane, i + one] + beta_e[lane, i]) - np.int32(total_e))
            value = alpha_m[lane, i + one] * beta_m[lane, i] * scale
            gamma[lane, i] = _shift(value, min(down, np.int32(126)))


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _total_of(numbers):
    total = np.float32(0)
    for i in range(numbers.shape[0]):
        total += numbers[i]
    return total


@njit(nogil=True, cache=True)
def _add_up(classes, general, gamma, low, high, out):
    """Adds one frame's posteriors of states to its row `out` (C,) of posteriors of classes."""
    for lane in range(2):
        if lane == 0 and general is None:
            out[classes[0, 0]] += _total_of(gamma[0, low:high])
            continue
        for i in range(low, high):
            out[classes[lane, i]] += gamma[lane, i]


@njit(nogil=True, cache=True, inline="always")
def _band(t, frames, size, finals):
    """Lanes [low, high) that can be reached from the start and can still reach the end."""
    return max(0, (size - finals - 2 * (frames - 1 - t)) // 2), min((size + 1) // 2, t + 1)


@njit(nogil=True, cache=True, inline="always")
def _emit_frame(x, row, classes, general, size, scores, em, ee, low, high):
    """Emissions of lanes low … high - 1 relative to the best of them, which is returned: NaN, and no emissions, where
    NaN or +inf is among them; -inf, and none, where all are -inf. The frame's scores begin at x[row]."""
    odd_high = min(high, size // 2)
    best, largest = _ordered(np.int32(-0x800000)), np.int32(0)  # the bits of -inf
    even_high = low + 1 if general is None else high
    best, largest = _gather(x, row, classes, scores, 0, low, even_high, best, largest)
    best, largest = _gather(x, row, classes, scores, 1, low, odd_high, best, largest)
    centre = _number(_ordered(best))
    if largest > np.int32(0x7F800000) or centre == np.inf:
        return np.float32(np.nan)
    if centre == -np.inf:
        return centre
    if general is None:
        mantissa, exponent = _power(scores[0, low] - centre)
        for i in range(np.uint64(low), np.uint64(high)):
            em[0, i], ee[0, i] = mantissa, exponent
    else:
        _powers(scores, centre, em, ee, 0, low, high)
    _powers(scores, centre, em, ee, 1, low, odd_high)
    if high > odd_high:
        em[1, high - 1], ee[1, high - 1] = 1.0, NEVER  # an odd number of states: the last lane has no odd state
    return centre


@njit(nogil=True, cache=True)
def _lay_out(emit, skip):
    """Classes (2, lanes), 0 where there is no state; `jump` (2, lanes + 1), 0 where a skip may enter, else NEVER."""
    lanes = (emit.shape[0] + 1) // 2
    classes, jump = np.zeros((2, lanes), np.int32), np.full((2, lanes + 1), NEVER, np.int32)
    for s in range(emit.shape[0]):
        classes[s % 2, s // 2] = emit[s]
        if skip[s] and s > 1:
            jump[s % 2, s // 2] = 0
    return classes, jump


@njit(nogil=True, cache=True)
def _alphas(x, classes, jump, general, plan, first, last, em, ee, scores, alpha_m, alpha_e, saved_m, saved_e):
    """alpha of frames first … last - 1, frame t in row t % rows; returns the sum of centres, or what ends the matter.

    Frame 0 starts a path; another `first` finds its row in place. Rows at block starts are saved if there is room.
    """
    stride, frames, size, starts, finals, block = plan
    rows, offset = alpha_m.shape[0], 0.0
    for t in range(first + min(first, 1), last):
        here, before = t % rows, (t - 1) % rows
        low, high = _band(t, frames, size, finals)
        offset += _emit_frame(x, t * stride, classes, general, size, scores, em, ee, low, high)
        if not abs(offset) < np.inf:
            return offset
        if t == 0:
            alpha_e[0] = NEVER
            for s in range(starts):
                alpha_m[0, s % 2, 1], alpha_e[0, s % 2, 1] = _normal(em[s % 2, 0], ee[s % 2, 0])
        else:
            _forward_row(alpha_m[before], alpha_e[before], alpha_m[here], alpha_e[here], em, ee, jump, low, high)
        if saved_m.shape[0] and t % block == 0:
            saved_m[t // block], saved_e[t // block] = alpha_m[here], alpha_e[here]
    return offset


@njit(nogil=True, cache=True)
def scaled(x, stride, frames, emit, skip, starts, finals, general, block, out):
    """Log-likelihood of one utterance, and whether to trust it; adds the occupancy to `out` (T, C) unless it is (0, 0).

    `x`, `stride`: class c of frame t is x[t * stride + c], float32; `emit`, `skip` (S,); `general`: None where even
    states emit one class and are not skipped into, else True; `block`: frames whose rows are kept, at least 2 (or all).
    NaN where a state emits NaN or +inf.
    """
    size, want = emit.shape[0], out.shape[0] > 0
    classes, jump = _lay_out(emit, skip)
    lanes = classes.shape[1]
    plan = stride, frames, size, starts, finals, block
    rows, blocks = (block if want else 2), (frames + block - 1) // block
    alpha_m, alpha_e = np.ones((rows, 2, lanes + 1), np.float32), np.full((rows, 2, lanes + 1), NEVER, np.int32)
    saves = blocks if want and blocks > 1 else 0
    saved_m, saved_e = np.empty((saves, 2, lanes + 1), np.float32), np.empty((saves, 2, lanes + 1), np.int32)
    em, ee, scores = np.ones((2, lanes), np.float32), np.zeros((2, lanes), np.int32), np.empty((2, lanes), np.float32)
    offset = _alphas(x, classes, jump, general, plan, 0, frames, em, ee, scores, alpha_m, alpha_e, saved_m, saved_e)
    if not abs(offset) < np.inf:
        return offset, True
    log2_total, total_m, total_e = _total(alpha_m[(frames - 1) % rows], alpha_e[(frames - 1) % rows], size, finals)
    trusted = total_e > -FAR and frames <= MOST_FRAMES
    if trusted and want:
        nothing_m, nothing_e = saved_m[:0], saved_e[:0]
        beta_m, beta_e = np.ones((2, lanes + 1), np.float32), np.full((2, lanes + 1), NEVER, np.int32)
        w_m, w_e = np.ones((2, lanes + 1), np.float32), np.full((2, lanes + 1), NEVER, np.int32)
        for s in range(size - finals, size):
            beta_e[s % 2, s // 2] = 0
        for k in range(blocks - 1, -1, -1):
            first, last = k * block, min(frames, (k + 1) * block)
            if k < blocks - 1:
                alpha_m[0], alpha_e[0] = saved_m[k], saved_e[k]
                _alphas(
                    x, classes, jump, general, plan, first, last, em, ee, scores, alpha_m, alpha_e, nothing_m, nothing_e
                )
            for t in range(last - 1, first - 1, -1):
                low, high = _band(t, frames, size, finals)
                if t < frames - 1:
                    next_low, next_high = _band(t + 1, frames, size, finals)
                    _emit_frame(x, (t + 1) * stride, classes, general, size, scores, em, ee, next_low, next_high)
                    _weighted_row(beta_m, beta_e, em, ee, w_m, w_e, next_low, next_high)
                    _backward_row(w_m, w_e, beta_m, beta_e, jump, low, high)
                here = t - first
                _posteriors(alpha_m[here], alpha_e[here], beta_m, beta_e, total_m, total_e, scores, low, high)
                _add_up(classes, general, scores, low, high, out[t])
    return offset + log2_total * LN_2, trusted


@njit(nogil=True, cache=True)
def _total(row_m, row_e, size, finals):
    """Base-2 logarithm of the sum of the final states, and the sum as mantissa and exponent."""
    top = np.int32(NEVER)
    for s in range(size - finals, size):
        top = max(top, row_e[s % 2, s // 2 + 1])
    value = np.float32(0)
    for s in range(size - finals, size):
        value += _shift(row_m[s % 2, s // 2 + 1], row_e[s % 2, s // 2 + 1] - top)
    return np.float64(top) + np.log2(np.float64(value)), value, top
