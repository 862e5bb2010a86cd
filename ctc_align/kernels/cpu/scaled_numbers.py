"""Scaled numbers for the sums on the CPU, m * 2**e, and dual ones, (m + d * epsilon) * 2**e.

A number is a tuple of vectors: mantissas m, float32 in [1, 2), and exponents e, int32; of a dual
number the tangents d of the mantissas, float32, come before them. Zero has the exponent NEVER. The
functions here take both kinds, compiled and on numpy's arrays (`row_kernels`).

Sums need no logarithm: the smaller term is shifted by building 2**-k from its bits, and vanishes
below 2**-126. Powers of e are a polynomial after the whole powers of 2 are taken out. The tangent
of a sum is the sum of the tangents, by the same powers of 2. A factor e**v has the tangent v of its
logarithm: the product's is d times the factor, and v times the product. The ratio d / m is the
tangent of the logarithm. No division is needed, and no other exponent.

(With the tangent last a dual number would begin as a scaled one does, and Numba would call with it
what it has compiled for the shorter tuple.)
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled, in_kernels_too
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    choose,
    from_bits,
    greater,
    load,
    raw_bits,
    real_of,
    shifted_left,
    shifted_right,
    splat,
    store,
    whole_of,
)

NEVER = -(2**28)
"""Far below every exponent that is met, and twice as far from the least int32: two of them may be
added."""
LEAST = -(2**27)
"""Exponent of an impossible emission: a path through it stays below -FAR however many paths there
are."""
LN_2 = 0.6931471805599453
LN_2_HIGH, LN_2_LOW = 0.693359375, -2.12194440e-4
"""The first has 9 bits: its product with a whole number below 2**15 is exact (Cody and Waite
1980)."""


@in_kernels_too
def exp(x):
    """Return e**x for x <= 0 as mantissa about 1 and integer exponent, not below LEAST.

    x = whole * ln 2 + f, and e**f is its Taylor polynomial of degree 7, |f| <= ln 2.
    """
    least = splat(np.float32(LEAST * LN_2))
    x = choose(greater(x, least), x, least)
    whole = whole_of(x * splat(np.float32(1 / LN_2)) - splat(np.float32(0.5)))
    count = real_of(whole)
    # In two steps: count * ln 2 rounded once would leave f without its last digits.
    f = (x - count * splat(np.float32(LN_2_HIGH))) - count * splat(np.float32(LN_2_LOW))
    p = splat(np.float32(1 / 5040)) * f + splat(np.float32(1 / 720))
    p = p * f + splat(np.float32(1 / 120))
    p = p * f + splat(np.float32(1 / 24))
    p = p * f + splat(np.float32(1 / 6))
    p = p * f + splat(np.float32(0.5))
    p = p * f + splat(np.float32(1.0))
    return p * f + splat(np.float32(1.0)), whole


@compiled
def powers(tile, count, row_of_used, mantissas, exponents, centres):
    """Compute e**(scores - the best of their frame) of a tile.

    The best scores go to `centres` (WIDTH,).
    """
    best = splat(np.float32(-np.inf))
    for u in range(count):
        x = load(tile, row_of_used[u] * WIDTH)
        best = choose(greater(x, best), x, best)
    store(centres, 0, best)
    for u in range(count):
        at = row_of_used[u] * WIDTH
        m, e = exp(load(tile, at) - best)
        store(mantissas, at, m)
        store(exponents, at, e)


@in_kernels_too
def zero(rows):
    """Return a vector of zeros with the parts of these rows."""
    if len(rows) == 2:
        return splat(np.float32(1.0)), splat(np.int32(NEVER))
    return splat(np.float32(0.0)), splat(np.float32(1.0)), splat(np.int32(NEVER))


@in_kernels_too
def where(mask, a):
    """Return the numbers where the mask is true, zero elsewhere.

    Of zero only the exponent matters.
    """
    exponent = choose(mask, a[-1], splat(np.int32(NEVER)))
    if len(a) == 2:
        return a[0], exponent
    return a[0], a[1], exponent


@in_kernels_too
def power_of_2(exponent):
    """Return 2**(exponent - 127), and 0 below 2**-126.

    It is made from the bits of float32, whose exponent begins at bit 23.
    """
    least = splat(np.int32(0))
    return from_bits(shifted_left(choose(greater(exponent, least), exponent, least), 23))


@in_kernels_too
def added(a, b):
    """Return a + b, not normalised: the larger exponent, and mantissas of up to 4."""
    top = choose(greater(b[-1], a[-1]), b[-1], a[-1])
    bias = top - splat(np.int32(127))
    for_a, for_b = power_of_2(a[-1] - bias), power_of_2(b[-1] - bias)
    if len(a) == 2:
        return a[0] * for_a + b[0] * for_b, top
    return a[0] * for_a + b[0] * for_b, a[1] * for_a + b[1] * for_b, top


@in_kernels_too
def times(a, x):
    """Return a * x with the mantissa in [1, 2); the exponent is not below NEVER.

    Of dual numbers a[0] is the tangent of the mantissa, but x[0] that of the logarithm of x.
    """
    m = a[-2] * x[-2]
    bits, never = raw_bits(m), splat(np.int32(NEVER))
    e = a[-1] + x[-1] + shifted_right(bits, 23) - splat(np.int32(127))
    # Without the next line zeros would sink, frame by frame, until int32 overflows and they are
    # large.
    e = choose(greater(e, never), e, never)
    normal = from_bits((bits & splat(np.int32(0x7FFFFF))) | splat(np.int32(0x3F800000)))
    if len(a) == 2:
        return normal, e
    d = a[0] * x[-2] + m * x[0]
    # The mantissa loses its power of 2, whose inverse has the complement's exponent: 254 - its own.
    down = splat(np.int32(254 << 23)) - (bits & splat(np.int32(0x7F800000)))
    return d * from_bits(down), normal, e


@in_kernels_too
def posterior(alpha, beta, total_e):
    """Return alpha * beta / 2**total_e, at most 2**126, beyond which only rounding errors lead.

    Of dual numbers its tangent comes first, from which the total's is yet to be subtracted.
    """
    bias, most = total_e - splat(np.int32(127)), splat(np.int32(253))
    up = alpha[-1] + beta[-1] - bias
    power = power_of_2(choose(greater(most, up), up, most))
    if len(alpha) == 2:
        return (alpha[0] * beta[0] * power,)
    return (alpha[0] * beta[1] + alpha[1] * beta[0]) * power, alpha[1] * beta[1] * power


@in_kernels_too
def entered(own, step, skip, may_stay, may_skip):
    """Return what enters a state from the frame before, or, of beta, what leaves it into the next.

    It is own (if the state may be stayed in) + step + skip (if it may be skipped into).
    """
    return added(added(where(may_stay, own), step), where(may_skip, skip))


@in_kernels_too
def token_entered(own, blank, both, may_skip):
    """Return the same as `entered` for a token of CTC.

    It is own + (both if the token beyond differs, else blank), where `both` is the sum of the
    blank beside it and the token beyond.
    """
    return added(own, choose(may_skip, both, blank))
