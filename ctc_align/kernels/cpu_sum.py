"""Forward score and occupancy for one utterance (forward-backward, Rabiner 1989; for CTC Graves et al. 2006).

`scaled` is the fast one: each number is mantissa * 2**exponent, float32 in [1, 2) and int32, so that sums need no
logarithm and nothing underflows: the smaller terms are shifted by building 2**-d from its bits. A state that cannot be
reached has the exponent NEVER. Emissions are turned into that form once per state and frame. Two lanes as in
`cpu_best_path`: even and odd states.

    alpha[t, s] = x[t, s] * (alpha[t-1, s] + alpha[t-1, s-1] + alpha[t-1, s-2] if skip[s])
    beta[t, s]  = w[s] + w[s+1] + w[s+2] if skip[s+2],  where w = x[t+1] * beta[t+1]
    occupancy   = alpha * beta / total, added up per class

Rows of alpha are kept for a block of frames; for the blocks before the last they are computed again from a saved row.
`trusted` is False when an exponent came near the ends of int32: `logarithmic` (float64, slow) then decides.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

NEVER = -(2**28)
FAR = 2**26
HUGE_BITS = 0x47C35000
"""The bits of 1e5: above it a score is left to `logarithmic`."""
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453
POLYNOMIAL = (
    1.0,
    6.9314704229e-01,
    2.4022932515e-01,
    5.5485220156e-02,
    9.6755326273e-03,
    1.2467376378e-03,
    2.1613808250e-04,
)
BLOCK_BYTES = 64 * 2**20


@intrinsic
def _bits(typingctx, number):
    """The bits of a float32 as int32."""
    return types.int32(types.float32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.IntType(32)
    )


@intrinsic
def _number(typingctx, bits):
    """The float32 with these bits."""
    return types.float32(types.int32), lambda context, builder, signature, args: builder.bitcast(
        args[0], ir.FloatType()
    )


@njit(nogil=True, cache=True, inline="always")
def _shift(number, down):
    """number * 2**down for down <= 0; 0 below 2**-126."""
    exponent = np.int32(max(down, np.int32(-127)) + np.int32(127))
    return number * _number(np.int32(exponent << np.int32(23)))


@njit(nogil=True, cache=True)
def _gather(row, classes, out):
    for i in range(out.shape[0]):
        out[i] = row[classes[i]]


@njit(nogil=True, cache=True, inline="always")
def _power(x):
    """2**(log2(e) * x) as mantissa in [1, 2) and whole exponent, clipped far outside what can be trusted."""
    y = max(min(x * np.float32(LOG2_E), np.float32(2.0**27)), np.float32(-(2.0**27)))
    whole = np.floor(y)
    f = y - whole
    # 2**f on [0, 1): polynomial of degree 6 by Remez, relative error below 1e-7.
    p = np.float32(POLYNOMIAL[6])
    p = p * f + np.float32(POLYNOMIAL[5])
    p = p * f + np.float32(POLYNOMIAL[4])
    p = p * f + np.float32(POLYNOMIAL[3])
    p = p * f + np.float32(POLYNOMIAL[2])
    p = p * f + np.float32(POLYNOMIAL[1])
    p = p * f + np.float32(1.0)
    return p, np.int32(whole)


@njit(nogil=True, cache=True)
def _emissions(scores, mantissa, exponent):
    """Returns the bits of the largest score: positive floats compare as their bits do, NaN above them all."""
    largest = np.int32(0)
    for i in range(scores.shape[0]):
        mantissa[i], exponent[i] = _power(scores[i])
        largest = max(largest, _bits(scores[i]))
    return largest


@njit(nogil=True, cache=True, inline="always")
def _normal_exponent(value, exponent):
    e = exponent + (_bits(value) >> np.int32(23)) - np.int32(127)
    return max(e, np.int32(NEVER))


@njit(nogil=True, cache=True, inline="always")
def _normal_mantissa(value):
    return _number(np.int32((_bits(value) & np.int32(0x7FFFFF)) | np.int32(0x3F800000)))


@njit(nogil=True, cache=True)
def _sum_lanes(a_m, a_e, b_m, b_e, c_m, c_e, jump, times_m, times_e, new_m, new_e):
    """new = (a + b + c where jump) * times, for one lane of one frame; seven arrays of numbers in two parts each."""
    for i in range(new_m.shape[0]):
        a, b, c = a_e[i], b_e[i], np.int32(c_e[i] + jump[i])
        top = max(a, max(b, c))
        value = _shift(a_m[i], a - top) + _shift(b_m[i], b - top) + _shift(c_m[i], c - top)
        value *= times_m[i]
        new_e[i] = _normal_exponent(value, top + times_e[i])
        new_m[i] = _normal_mantissa(value)


@njit(nogil=True, cache=True)
def _forward_row(old_m, old_e, new_m, new_e, em, ee, jump, low, high):
    """alpha of one frame; rows (2, lanes + 1), emissions `em`, `ee` and `jump` (int32, 0 or NEVER) (2, lanes)."""
    at, before = slice(low + 1, high + 1), slice(low, high)
    _sum_lanes(
        old_m[0][at], old_e[0][at], old_m[1][before], old_e[1][before], old_m[0][before], old_e[0][before],
        jump[0][before], em[0][before], ee[0][before], new_m[0][at], new_e[0][at],
    )  # fmt: skip
    _sum_lanes(
        old_m[1][at], old_e[1][at], old_m[0][at], old_e[0][at], old_m[1][before], old_e[1][before],
        jump[1][before], em[1][before], ee[1][before], new_m[1][at], new_e[1][at],
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _backward_row(wm, we, beta_m, beta_e, jump, one_m, one_e, low, high):
    """beta of one frame from w = x * beta of the next; lane i at index i, (2, lanes + 1), the last is NEVER."""
    at, after = slice(low, high), slice(low + 1, high + 1)
    _sum_lanes(
        wm[0][at], we[0][at], wm[1][at], we[1][at], wm[0][after], we[0][after],
        jump[0][after], one_m[at], one_e[at], beta_m[0][at], beta_e[0][at],
    )  # fmt: skip
    _sum_lanes(
        wm[1][at], we[1][at], wm[0][after], we[0][after], wm[1][after], we[1][after],
        jump[1][after], one_m[at], one_e[at], beta_m[1][at], beta_e[1][at],
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _product(a_m, a_e, b_m, b_e, out_m, out_e):
    for i in range(out_m.shape[0]):
        value = a_m[i] * b_m[i]
        out_e[i] = _normal_exponent(value, a_e[i] + b_e[i])
        out_m[i] = _normal_mantissa(value)


@njit(nogil=True, cache=True)
def _times_emission(beta_m, beta_e, em, ee, wm, we, low, high):
    for lane in range(2):
        _product(
            beta_m[lane][low:high], beta_e[lane][low:high], em[lane][low:high], ee[lane][low:high],
            wm[lane][low:high], we[lane][low:high],
        )  # fmt: skip


@njit(nogil=True, cache=True)
def _posterior(a_m, a_e, b_m, b_e, scale, total_e, out):
    for i in range(out.shape[0]):
        # Above 2**126 only what a lost resolution could make; there is nothing to keep.
        down = min(np.int32(a_e[i] + b_e[i] - total_e), np.int32(126))
        out[i] = _shift(a_m[i] * b_m[i] * scale, down)


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _total_of(numbers):
    total = np.float32(0)
    for i in range(numbers.shape[0]):
        total += numbers[i]
    return total


@njit(nogil=True, cache=True)
def _add_occupancy(alpha_m, alpha_e, beta_m, beta_e, total_m, total_e, emit, gamma, out, low, high):
    """Adds alpha * beta / total of one frame to its row `out` (C,)."""
    scale = np.float32(1.0) / total_m
    for lane in range(2):
        part = gamma[low:high]
        _posterior(
            alpha_m[lane][low + 1 : high + 1], alpha_e[lane][low + 1 : high + 1],
            beta_m[lane][low:high], beta_e[lane][low:high], scale, np.int32(total_e), part,
        )  # fmt: skip
        if lane == 0 and emit[2, 0]:
            out[emit[0, 0]] += _total_of(part)
            continue
        classes = emit[lane][low:high]
        for i in range(part.shape[0]):
            out[classes[i]] += part[i]


@njit(nogil=True, cache=True)
def _band(t, frames, size, starts, finals):
    high = min((size + 1) // 2, (starts - 1 + 2 * t) // 2 + 1)
    low = max(0, (size - finals - 2 * (frames - 1 - t)) // 2)
    return low, high


@njit(nogil=True, cache=True)
def _emit_frame(row, classes, odd_count, scores, em, ee, low, high):
    """Emissions of lanes low … high - 1 of both kinds; `scores` (lanes,) is room. Returns as `_emissions`."""
    part = scores[low:high]
    largest = np.int32(0)
    for lane in range(2):
        if lane == 0 and classes[2, 0]:
            largest = max(largest, _bits(np.float32(row[classes[0, 0]])))
            mantissa, exponent = _power(row[classes[0, 0]])
            em[0][low:high] = mantissa
            ee[0][low:high] = exponent
            continue
        _gather(row, classes[lane][low:high], part)
        largest = max(largest, _emissions(part, em[lane][low:high], ee[lane][low:high]))
    if high > odd_count:
        ee[1, high - 1] = NEVER
        em[1, high - 1] = np.float32(1.0)
    return largest


@njit(nogil=True, cache=True)
def _start_row(em, ee, new_m, new_e, starts):
    for s in range(starts):
        value = em[s % 2, s // 2]
        new_e[s % 2, s // 2 + 1] = _normal_exponent(value, ee[s % 2, s // 2])
        new_m[s % 2, s // 2 + 1] = _normal_mantissa(value)


@njit(nogil=True, cache=True)
def _hide_below(row_e, low):
    """The lane under the band may be read by the next frame: it must not hold an older frame's value."""
    if low > 0:
        row_e[0, low] = NEVER
        row_e[1, low] = NEVER


@njit(nogil=True, cache=True)
def scaled(x, emit, skip, starts, finals, out):
    """Log-likelihood of one utterance, and whether to trust it; adds the occupancy to `out` (T, C) unless it is (0, 0).

    `x` (T, C) float32; `emit`, `skip` (S,).
    """
    frames, size = x.shape[0], emit.shape[0]
    lanes, odd_count = (size + 1) // 2, size // 2
    classes = np.zeros((3, lanes), np.int32)
    classes[0] = emit[0::2]
    classes[1, :odd_count] = emit[1::2]
    classes[2, 0] = np.all(emit[0::2] == emit[0])  # CTC's blanks: one emission serves the lane
    jump = np.full((2, lanes + 1), NEVER, np.int32)
    for s in range(2, size):
        if skip[s]:
            jump[s % 2, s // 2] = 0
    want = out.shape[0] > 0
    block = frames
    if want:
        block = min(frames, max(64, BLOCK_BYTES // (16 * (lanes + 1))))
    blocks = (frames + block - 1) // block
    kept = block if want else 2
    alpha_m = np.ones((kept, 2, lanes + 1), np.float32)
    alpha_e = np.full((kept, 2, lanes + 1), NEVER, np.int32)
    saved = blocks if want and blocks > 1 else 0
    saved_m, saved_e = np.ones((saved, 2, lanes + 1), np.float32), np.full((saved, 2, lanes + 1), NEVER, np.int32)
    em, ee = np.ones((2, lanes), np.float32), np.zeros((2, lanes), np.int32)
    scores = np.empty(lanes, np.float32)
    largest = np.int32(0)
    one_m, one_e = np.ones(lanes, np.float32), np.zeros(lanes, np.int32)
    for t in range(frames):
        low, high = _band(t, frames, size, starts, finals)
        largest = max(largest, _emit_frame(x[t], classes, odd_count, scores, em, ee, low, high))
        here, before = t % kept, (t - 1) % kept
        if t == 0:
            _start_row(em, ee, alpha_m[here], alpha_e[here], starts)
        else:
            if t >= kept:
                _clear_above(alpha_e[here], high, lanes)
            _forward_row(alpha_m[before], alpha_e[before], alpha_m[here], alpha_e[here], em, ee, jump, low, high)
        _hide_below(alpha_e[here], low)
        if saved and t % block == 0:
            saved_m[t // block] = alpha_m[here]
            saved_e[t // block] = alpha_e[here]
    score, total_m, total_e = _total(alpha_m[(frames - 1) % kept], alpha_e[(frames - 1) % kept], size, finals)
    trusted = -FAR < total_e < FAR and largest < HUGE_BITS
    if not want or not trusted:
        return score, trusted
    beta_m, beta_e = np.ones((2, lanes + 1), np.float32), np.full((2, lanes + 1), NEVER, np.int32)
    w_m, w_e = np.ones((2, lanes + 1), np.float32), np.full((2, lanes + 1), NEVER, np.int32)
    gamma = np.empty(lanes, np.float32)
    for s in range(size - finals, size):
        beta_e[s % 2, s // 2] = 0
    for k in range(blocks - 1, -1, -1):
        first, last = k * block, min(frames, (k + 1) * block)
        if k < blocks - 1:
            _refill(
                x,
                classes,
                odd_count,
                jump,
                scores,
                em,
                ee,
                alpha_m,
                alpha_e,
                saved_m[k],
                saved_e[k],
                first,
                last,
                starts,
                finals,
            )
        for t in range(last - 1, first - 1, -1):
            low, high = _band(t, frames, size, starts, finals)
            if t < frames - 1:
                next_low, next_high = _band(t + 1, frames, size, starts, finals)
                _emit_frame(x[t + 1], classes, odd_count, scores, em, ee, next_low, next_high)
                _times_emission(beta_m, beta_e, em, ee, w_m, w_e, next_low, next_high)
                if next_low > 0:
                    w_e[0, next_low - 1] = NEVER
                    w_e[1, next_low - 1] = NEVER
                w_e[0, next_high] = NEVER
                w_e[1, next_high] = NEVER
                _backward_row(w_m, w_e, beta_m, beta_e, jump, one_m, one_e, low, high)
            _add_occupancy(
                alpha_m[t - first],
                alpha_e[t - first],
                beta_m,
                beta_e,
                total_m,
                total_e,
                classes,
                gamma,
                out[t],
                low,
                high,
            )
    return score, True


@njit(nogil=True, cache=True)
def _clear_above(row_e, high, lanes):
    for i in range(high + 1, min(high + 3, lanes + 1)):
        row_e[0, i] = NEVER
        row_e[1, i] = NEVER


@njit(nogil=True, cache=True)
def _refill(
    x, classes, odd_count, jump, scores, em, ee, alpha_m, alpha_e, first_m, first_e, first, last, starts, finals
):
    """alpha of frames first … last - 1 again, from the saved row at `first`; the same operations, the same bits."""
    frames, size = x.shape[0], classes.shape[1] + odd_count
    alpha_e[:] = NEVER
    alpha_m[0], alpha_e[0] = first_m, first_e
    for t in range(first + 1, last):
        low, high = _band(t, frames, size, starts, finals)
        _emit_frame(x[t], classes, odd_count, scores, em, ee, low, high)
        here, before = t - first, t - first - 1
        _forward_row(alpha_m[before], alpha_e[before], alpha_m[here], alpha_e[here], em, ee, jump, low, high)
        _hide_below(alpha_e[here], low)


@njit(nogil=True, cache=True)
def _total(row_m, row_e, size, finals):
    """Natural logarithm of the sum of the final states, and it as mantissa and exponent."""
    top = np.int32(NEVER)
    for s in range(size - finals, size):
        top = max(top, row_e[s % 2, s // 2 + 1])
    value = np.float32(0)
    for s in range(size - finals, size):
        value += _shift(row_m[s % 2, s // 2 + 1], row_e[s % 2, s // 2 + 1] - top)
    score = (np.float64(top) + np.log2(np.float64(value))) * LN_2
    return score, value, top


@njit(nogil=True, cache=True)
def _log_add(a, b, c):
    top = max(a, b, c)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))


@njit(nogil=True, cache=True)
def logarithmic(x, emit, skip, starts, finals, out):
    """As `scaled`, in float64 logarithms: for float64 log-probs and where scaled numbers are not trusted."""
    frames, size = x.shape[0], emit.shape[0]
    want = out.shape[0] > 0
    alpha = np.full((frames if want else 2, size + 2), -np.inf)
    kept = alpha.shape[0]
    for t in range(frames):
        row, before = alpha[t % kept], alpha[(t - 1) % kept]
        if t == 0:
            for s in range(starts):
                row[s + 2] = x[0, emit[s]]
            continue
        for s in range(size):
            jump = before[s] if skip[s] else -np.inf
            row[s + 2] = _log_add(before[s + 2], before[s + 1], jump) + x[t, emit[s]]
    row = alpha[(frames - 1) % kept]
    total = _log_add(row[size + 1], row[size] if finals == 2 else -np.inf, -np.inf)
    if not want or total == -np.inf:
        return total
    beta, w = np.full(size + 2, -np.inf), np.full(size + 2, -np.inf)
    beta[size - finals : size] = 0.0
    for t in range(frames - 1, -1, -1):
        if t < frames - 1:
            for s in range(size):
                w[s] = beta[s] + x[t + 1, emit[s]]
            for s in range(size):
                jump = w[s + 2] if s + 2 < size and skip[s + 2] else -np.inf
                beta[s] = _log_add(w[s], w[s + 1], jump)
        for s in range(size):
            out[t, emit[s]] += np.exp(alpha[t, s + 2] + beta[s] - total)
    return total
