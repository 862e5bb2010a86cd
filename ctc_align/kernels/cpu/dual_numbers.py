"""Scaled numbers with their tangents: (m + d * epsilon) * 2**e, as `scaled_numbers` with float32 tangents d beside m.

Of a sum the tangents are summed with the same powers of 2; of a product with e**v, whose tangent is v of e**v, it is
the product of d and v of the product. The ratio d / m is the tangent of the logarithm. No division, no other exponent.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.scaled_numbers import NEVER, _power_of_2
from ctc_align.kernels.cpu.simd import choose, from_bits, greater, raw_bits, shifted_left, shifted_right, splat


@compiled
def added(am, ad, ae, bm, bd, be):
    """a + b, not normal."""
    top = choose(greater(be, ae), be, ae)
    bias = top - splat(np.int32(127))
    fa, fb = _power_of_2(ae, bias), _power_of_2(be, bias)
    return am * fa + bm * fb, ad * fa + bd * fb, top


@compiled
def times(m, d, e, xm, xd, xe):
    """(m, d) * 2**e * xm * 2**xe, where xd is the tangent of the logarithm of x, with the mantissa in [1, 2)."""
    m = m * xm
    d = d * xm + m * xd
    bits, never = raw_bits(m), splat(np.int32(NEVER))
    e = e + xe + shifted_right(bits, 23) - splat(np.int32(127))
    # The mantissa loses its power of 2, whose inverse has the complement's exponent: 254 - its own.
    down = splat(np.int32(254 << 23)) - (bits & splat(np.int32(0x7F800000)))
    m = from_bits((bits & splat(np.int32(0x7FFFFF))) | splat(np.int32(0x3F800000)))
    return m, d * from_bits(down), choose(greater(e, never), e, never)


@compiled
def posterior(am, ad, ae, bm, bd, be, total_e):
    """alpha * beta / 2**total_e and its tangent, of which the total's is not taken off yet."""
    bias, most = total_e - splat(np.int32(127)), splat(np.int32(253))
    up = ae + be - bias
    up = choose(greater(most, up), up, most)
    zero = splat(np.int32(0))
    power = from_bits(shifted_left(choose(greater(up, zero), up, zero), 23))
    return am * bm * power, (ad * bm + am * bd) * power
