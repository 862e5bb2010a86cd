"""Scaled numbers for the sums on the CPU: mantissa * 2**exponent, vectors of float32 in [1, 2) and of int32.

A number that is zero has the exponent NEVER. Sums need no logarithm: the smaller term is shifted by building 2**-d from
its bits, and vanishes below 2**-126. Powers of e are a polynomial after the whole powers of 2 are taken out.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    choose,
    from_bits,
    get,
    greater,
    load,
    mask_of,
    raw_bits,
    real_of,
    shifted_left,
    shifted_right,
    splat,
    store,
    whole_of,
)

NEVER = -(2**28)
LEAST = -(2**27)
"""Exponent of an impossible emission: a path through it stays below -FAR however many paths there are."""
LN_2 = 0.6931471805599453
LN_2_HIGH, LN_2_LOW = 0.693359375, -2.12194440e-4
"""The first has 9 bits: its product with a whole number below 2**15 is exact (Cody and Waite 1980)."""


@compiled
def _exp(x):
    """Return e**x for x <= 0 as mantissa about 1 and integer exponent, not below LEAST."""
    least = splat(np.float32(LEAST * LN_2))
    x = choose(greater(x, least), x, least)
    whole = whole_of(x * splat(np.float32(1 / LN_2)) - splat(np.float32(0.5)))
    count = real_of(whole)
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
    """Compute e**(scores - the best of their frame) of a tile; the best go to `centres` (WIDTH,)."""
    best = splat(np.float32(-np.inf))
    for u in range(count):
        x = load(tile, row_of_used[u] * WIDTH)
        best = choose(greater(x, best), x, best)
    store(centres, 0, best)
    for u in range(count):
        at = row_of_used[u] * WIDTH
        m, e = _exp(load(tile, at) - best)
        store(mantissas, at, m)
        store(exponents, at, e)


@compiled
def _power_of_2(exponent, top):
    """Return 2**(exponent - top - 127), 0 below 2**-126."""
    down = exponent - top
    zero = splat(np.int32(0))
    return from_bits(shifted_left(choose(greater(down, zero), down, zero), 23))


@compiled
def added(am, ae, bm, be):
    """Return a + b, not normalised."""
    top = choose(greater(be, ae), be, ae)
    bias = top - splat(np.int32(127))
    return am * _power_of_2(ae, bias) + bm * _power_of_2(be, bias), top


@compiled
def normal(m, e):
    """Return m * 2**e with the mantissa in [1, 2); the exponent is not below NEVER."""
    bits, never = raw_bits(m), splat(np.int32(NEVER))
    e = e + shifted_right(bits, 23) - splat(np.int32(127))
    m = from_bits((bits & splat(np.int32(0x7FFFFF))) | splat(np.int32(0x3F800000)))
    return m, choose(greater(e, never), e, never)


@compiled
def posterior(am, ae, bm, be, total_e):
    """Return alpha * beta / 2**total_e, at most 2**126, beyond which only rounding errors lead."""
    bias, most = total_e - splat(np.int32(127)), splat(np.int32(253))
    up = ae + be - bias
    up = choose(greater(most, up), up, most)
    zero = splat(np.int32(0))
    return am * bm * from_bits(shifted_left(choose(greater(up, zero), up, zero), 23))


@compiled
def allowed(flags, at, exponent):
    """Return the exponent where the flag is set, else NEVER."""
    return choose(mask_of(get(flags, at)), exponent, splat(np.int32(NEVER)))
