"""Two kinds of numbers for sums over paths.

Both are 64 bits wide, so that rows of states have one layout in memory.

Scaled: mantissa * 2**exponent; the float32 mantissa in [1, 2) is the lower half, the int32 exponent
the upper. A sum needs no logarithm, nothing underflows, and errors are relative to the number
itself, however far it is below others of its row. Zero has the exponent NEVER_EXPONENT, an
impossible emission MIN_EXPONENT. A total at or below 2**FAR_EXPONENT may be an impossible path or
an extremely unlikely one: such an utterance is computed again in logarithms (as in the CPU's
`sums`).

Logarithmic: a float64, for float64 log-probs, and for what scaled numbers cannot hold, including
NaN and +inf.

Emissions are divided by e**centre, the best emission of their frame, so that they are at most 1 and
no number grows.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.triton_import import constant, jit, tl

# NEVER_EXPONENT is far below all other exponents, and the sum of two of them still fits in int32. A
# path through an emission of MIN_EXPONENT stays below FAR_EXPONENT, however many paths there are.
NEVER_EXPONENT = constant(-(2**28))
MIN_EXPONENT = constant(-(2**27))
FAR_EXPONENT = constant(-(2**26))
# The same numbers as 64 bits: 0x3F800000 is the float32 1.0, -0x10000000000000 the float64 -inf.
NEVER_SCALED = constant((-(2**28) << 32) | 0x3F800000)
NEVER_LOG = constant(-0x10000000000000)
ONE_SCALED = constant(0x3F800000)
ONE_LOG = constant(0)
LOG2_E = constant(1.4426950408889634)
LN_2 = constant(0.6931471805599453)
LN_2_HIGH = constant(0.693359375)
LN_2_LOW = constant(-2.12194440e-4)
"""LN_2_HIGH has 9 bits: its product with a whole number below 2**15 is exact (Cody and Waite
1980)."""


@jit
def pack(mantissa, exponent):
    """Return a scaled number from its mantissa and exponent."""
    return (exponent.to(tl.int64) << 32) | mantissa.to(tl.int32, bitcast=True).to(tl.int64)


@jit
def mantissa_of(number):
    """Return the float32 mantissa of a scaled number."""
    return number.to(tl.int32).to(tl.float32, bitcast=True)


@jit
def exponent_of(number):
    """Return the int32 exponent of a scaled number."""
    return (number >> 32).to(tl.int32)


@jit
def power_of_2(exponent):
    """Return 2**exponent in float32, built from its bits, for exponents up to 127.

    It is zero below -126.
    """
    return ((tl.maximum(exponent, -127) + 127) << 23).to(tl.float32, bitcast=True)


@jit
def normalise(value, exponent):
    """Return value * 2**exponent as a scaled number, for a positive value that is not subnormal.

    Moves the float's exponent into the number's. Without the lower limit it would wrap around after
    enough frames.
    """
    bits = value.to(tl.int32, bitcast=True)
    exponent += (bits >> 23) - 127
    return pack(
        ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True),
        tl.maximum(exponent, NEVER_EXPONENT),
    )


@jit
def scaled_emission(score, centre):
    """Return e**(score - centre) as mantissa about 1 and exponent.

    Scores above the centre count as the centre.

    e**v = e**(v - n * ln 2) * 2**n,  n = v / ln 2 rounded
    """
    # Clamped before rounding: -inf cannot be rounded to an integer. MIN_EXPONENT takes its place
    # below.
    log_ratio = tl.minimum(tl.maximum(score - centre, -9.0e7), 0.0)
    whole_power = tl.floor(log_ratio * LOG2_E + 0.5)
    # In two steps: n * ln 2 rounded once would leave the remainder without its last digits.
    remainder = (log_ratio - whole_power * LN_2_HIGH) - whole_power * LN_2_LOW
    exponent = tl.where(score - centre > -9.0e7, whole_power, MIN_EXPONENT * 1.0).to(tl.int32)
    return tl.exp(remainder), exponent


@jit
def emission(score, centre, LOG: tl.constexpr):
    """Return e**(score - centre) as a number."""
    if LOG:
        return (score.to(tl.float64) - centre).to(tl.int64, bitcast=True)
    else:
        mantissa, exponent = scaled_emission(score, centre)
        return normalise(mantissa, exponent)


@jit
def sum_pairs(values, ROWS: tl.constexpr, COUNT: tl.constexpr):
    """Return the sums (ROWS,) of COUNT values each, halves added to halves.

    Of two values there is one sum, so the bits do not depend on which threads hold them.
    """
    for step in tl.static_range(0, 12):
        if (COUNT >> step) > 1:
            values = tl.sum(tl.reshape(values, (ROWS, 2, COUNT >> (step + 1))), 1)
    return tl.reshape(values, (ROWS,))


@jit
def log_sum(a, b, c):
    """Return log(e**a + e**b + e**c); -inf where all three are (-inf - -inf would be NaN)."""
    top = tl.maximum(a, tl.maximum(b, c))
    safe = tl.where(top == float("-inf"), 0.0, top)
    return safe + tl.log(tl.exp(a - safe) + tl.exp(b - safe) + tl.exp(c - safe))


@jit
def log_product(total, score, centre):
    """Return total + score - centre as a number.

    It is -inf where no path arrives, even if the score is NaN or +inf.
    """
    product = total + (score.to(tl.float64) - centre)
    return tl.where(total == float("-inf"), total, product).to(tl.int64, bitcast=True)


@jit
def add(a, b, LOG: tl.constexpr):
    """Return a + b.

    The smaller term is shifted to the exponent of the larger, and vanishes below 2**-126 of it.
    """
    if LOG:
        x, y = a.to(tl.float64, bitcast=True), b.to(tl.float64, bitcast=True)
        return log_sum(x, y, tl.full(x.shape, float("-inf"), tl.float64)).to(tl.int64, bitcast=True)
    else:
        e, f = exponent_of(a), exponent_of(b)
        top = tl.maximum(e, f)
        return normalise(
            mantissa_of(a) * power_of_2(e - top) + mantissa_of(b) * power_of_2(f - top), top
        )


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
        return normalise(value * mantissa, top + exponent)


@jit
def weighted_sum(a, b, c, score, centre, LOG: tl.constexpr):
    """Return (a + b + c) * e**(score - centre)."""
    if LOG:
        total = log_sum(
            a.to(tl.float64, bitcast=True),
            b.to(tl.float64, bitcast=True),
            c.to(tl.float64, bitcast=True),
        )
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
        return normalise(value * mantissa, top + exponent)
