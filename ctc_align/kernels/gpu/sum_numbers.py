"""Two kinds of numbers for sums over paths, both 64 bits wide, so that rows of states look the same in memory.

Scaled: mantissa * 2**exponent, the float32 mantissa in [1, 2) below, the int32 exponent above. Adding needs no
logarithm, nothing underflows, and an error is relative to the number itself, however far it lies below the others of
its row. Probability zero has the exponent NEVER, an impossible emission LEAST; a total not above FAR may be either:
such an utterance is computed again in logarithms (as in the CPU's `sums`).

Logarithmic: a float64. For float64 log-probs, and for what scaled numbers cannot hold, including NaN and +inf.

Emissions are relative to the best of their frame, the centre, so that they are at most 1.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.triton_import import constant, jit, tl

NEVER_EXPONENT = constant(-(2**28))
LEAST_EXPONENT = constant(-(2**27))
FAR_EXPONENT = constant(-(2**26))
NEVER_SCALED = constant((-(2**28) << 32) | 0x3F800000)
NEVER_LOG = constant(-0x10000000000000)
ONE_SCALED = constant(0x3F800000)
ONE_LOG = constant(0)
LOG2_E = constant(1.4426950408889634)
LN_2 = constant(0.6931471805599453)
LN_2_HIGH = constant(0.693359375)
LN_2_LOW = constant(-2.12194440e-4)


@jit
def pack(mantissa, exponent):
    return (exponent.to(tl.int64) << 32) | mantissa.to(tl.int32, bitcast=True).to(tl.int64)


@jit
def mantissa_of(number):
    return number.to(tl.int32).to(tl.float32, bitcast=True)


@jit
def exponent_of(number):
    return (number >> 32).to(tl.int32)


@jit
def power_of_2(exponent):
    """Return 2**exponent in float32 for exponents up to 127; zero below -126."""
    return ((tl.maximum(exponent, -127) + 127) << 23).to(tl.float32, bitcast=True)


@jit
def normal(value, exponent):
    """Return value * 2**exponent as a scaled number, for a positive value that is not subnormal."""
    bits = value.to(tl.int32, bitcast=True)
    exponent += (bits >> 23) - 127
    return pack(((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True), tl.maximum(exponent, NEVER_EXPONENT))


@jit
def scaled_emission(score, centre):
    """Return e**(score - centre) as mantissa about 1 and exponent; scores above the centre count as the centre."""
    # Not below what the exponent holds, so that -inf is never rounded.
    low = tl.minimum(tl.maximum(score - centre, -9.0e7), 0.0)
    whole = tl.floor(low * LOG2_E + 0.5)
    rest = (low - whole * LN_2_HIGH) - whole * LN_2_LOW
    exponent = tl.where(score - centre > -9.0e7, whole, LEAST_EXPONENT * 1.0).to(tl.int32)
    return tl.exp(rest), exponent


@jit
def emission(score, centre, LOG: tl.constexpr):
    """Return e**(score - centre) as a number."""
    if LOG:
        return (score.to(tl.float64) - centre).to(tl.int64, bitcast=True)
    else:
        mantissa, exponent = scaled_emission(score, centre)
        return normal(mantissa, exponent)


@jit
def log_sum(a, b, c):
    top = tl.maximum(a, tl.maximum(b, c))
    safe = tl.where(top == float("-inf"), 0.0, top)
    return safe + tl.log(tl.exp(a - safe) + tl.exp(b - safe) + tl.exp(c - safe))


@jit
def log_product(total, score, centre):
    """Return total + score - centre; -inf where the total is, even if the score is NaN."""
    product = total + (score.to(tl.float64) - centre)
    return tl.where(total == float("-inf"), total, product).to(tl.int64, bitcast=True)


@jit
def plus(a, b, LOG: tl.constexpr):
    """Return a + b."""
    if LOG:
        x, y = a.to(tl.float64, bitcast=True), b.to(tl.float64, bitcast=True)
        return log_sum(x, y, tl.full(x.shape, float("-inf"), tl.float64)).to(tl.int64, bitcast=True)
    else:
        e, f = exponent_of(a), exponent_of(b)
        top = tl.maximum(e, f)
        return normal(mantissa_of(a) * power_of_2(e - top) + mantissa_of(b) * power_of_2(f - top), top)


@jit
def weighted_pair(a, b, score, centre, LOG: tl.constexpr):
    """Return (a + b) * e**(score - centre)."""
    if LOG:
        x, y = a.to(tl.float64, bitcast=True), b.to(tl.float64, bitcast=True)
        total = log_sum(x, y, tl.full(x.shape, float("-inf"), tl.float64))
        return log_product(total, score, centre)
    else:
        e, f = exponent_of(a), exponent_of(b)
        top = tl.maximum(e, f)
        value = mantissa_of(a) * power_of_2(e - top) + mantissa_of(b) * power_of_2(f - top)
        mantissa, exponent = scaled_emission(score, centre)
        return normal(value * mantissa, top + exponent)


@jit
def weighted_sum(a, b, c, score, centre, LOG: tl.constexpr):
    """Return (a + b + c) * e**(score - centre)."""
    if LOG:
        total = log_sum(a.to(tl.float64, bitcast=True), b.to(tl.float64, bitcast=True), c.to(tl.float64, bitcast=True))
        return log_product(total, score, centre)
    else:
        e, f, g = exponent_of(a), exponent_of(b), exponent_of(c)
        top = tl.maximum(e, tl.maximum(f, g))
        value = (
            mantissa_of(a) * power_of_2(e - top)
            + mantissa_of(b) * power_of_2(f - top)
            + mantissa_of(c) * power_of_2(g - top)
        )
        mantissa, exponent = scaled_emission(score, centre)
        return normal(value * mantissa, top + exponent)
