"""Kernels before and after the passes of `sum_kernels`: centres of frames, totals of utterances, posteriors of classes.

Every program owns some lines: (utterance, frame) pairs, or utterances. Nothing is shared between programs, and nothing
is added atomically: a class's posterior at a frame is summed by one program, over the class's states in their order,
so that results are the same bits every time.

    centre[t]       = max over the states that paths may be in at frame t of what they emit
    total           = sum over the final states, in the last row of the forward walk
    posterior[t, c] = sum over the states s that emit c of forward[t, s] * backward[t, s] / (emission[t, c] * total)

where backward[t, s], of the mirrored walk, lies at frame T-1-t and state S-1-s; both walks have the frame's own
emission in them, hence the division, which exponents make harmless.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.row_layout import END
from ctc_align.kernels.gpu.sum_kernels import needs_logarithms
from ctc_align.kernels.gpu.sum_numbers import (
    LN_2,
    NEVER_EXPONENT,
    NEVER_LOG,
    NEVER_SCALED,
    ONE_SCALED,
    exponent_of,
    mantissa_of,
    power_of_2,
    scaled_emission,
)
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

NOTHING = constant(0)
SCALED = constant(1)
LOGARITHMIC = constant(2)
WRONG = constant(3)


@jit
def centre(
    x, wild, emit, numbers, centres, x_b, x_t, x_c, wild_b, wild_t, batch, frames, width,
    LINES: tl.constexpr, STATES: tl.constexpr, DOUBLE: tl.constexpr, WILD: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """Write the best emission of each frame that is a number; without detours, among the states in reach."""
    thread = tl.arange(0, LINES * STATES)
    line = tl.program_id(0).to(tl.int64) * LINES + thread // STATES
    b, t = (line // frames).to(tl.int32), (line % frames).to(tl.int32)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    low, high = t * 0, size
    if BANDED:
        low, high = size - 2 * (length - t), tl.minimum(2 * t + 2, size)
    x += b.to(tl.int64) * x_b + t.to(tl.int64) * x_t
    wild += b.to(tl.int64) * wild_b + t.to(tl.int64) * wild_t
    best = tl.full((LINES * STATES,), float("-inf"), tl.float64 if DOUBLE else tl.float32)
    for first in range(0, width, STATES):
        state = first + thread % STATES
        here = (t < length) & (low <= state) & (state < high)
        class_of = tl.load(emit + b.to(tl.int64) * width + state, mask=here, other=0)
        known = here & (class_of >= 0)
        score = tl.load(x + class_of.to(tl.int64) * x_c, mask=known, other=float("-inf")).to(best.dtype)
        if WILD:
            score = tl.where(known, score, tl.load(wild + state * 0, mask=here & (class_of < 0), other=float("-inf")))
        best = tl.maximum(best, tl.where(score < float("inf"), score, float("-inf")))
    best = tl.max(tl.reshape(best, (LINES, STATES)), 1)
    place = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)
    best = tl.where(best > float("-inf"), best, 0.0)
    tl.store(centres + place, best, mask=place < batch.to(tl.int64) * frames)


@jit
def total(
    last, flags, numbers, reach, centres, scores, states, totals, batch, frames, width, tiles, units,
    ROWS: tl.constexpr, STEP: tl.constexpr, LOG: tl.constexpr,
):  # fmt: skip
    """Write score, status and total of each utterance."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    step = tl.arange(0, STEP)[None, :]
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    empty = tl.load(numbers + 2 * batch + b, mask=b < batch, other=0)
    logs = length > 0
    if not LOG:
        logs = needs_logarithms(reach, b, length, tiles)

    # The sum over final states, lane by lane, in both kinds of numbers; then over the lanes.
    top = tl.full((ROWS, STEP), NEVER_EXPONENT, tl.int32)
    value = tl.zeros((ROWS, STEP), tl.float32)
    log_top = tl.full((ROWS, STEP), float("-inf"), tl.float64)
    log_value = tl.zeros((ROWS, STEP), tl.float64)
    for first in range(0, tl.max(size), STEP):
        state = first + step
        flag = tl.load(flags + b.to(tl.int64) * width + state, mask=state < size, other=0).to(tl.int32)
        final = (length > 0) & ((flag & END) != 0)
        place = b.to(tl.int64) * 2 * units + (state & 1) * units + (state >> 1)
        number = tl.load(last + place, mask=final & (state < size), other=0)
        if not LOG:
            exponent = tl.where(final & ~logs, exponent_of(number), NEVER_EXPONENT)
            higher = tl.maximum(top, exponent)
            mantissa = tl.where(final & ~logs, mantissa_of(number), 0.0)
            value = value * power_of_2(top - higher) + mantissa * power_of_2(exponent - higher)
            top = higher
        other = tl.where(final & logs, number.to(tl.float64, bitcast=True), float("-inf"))
        log_higher = tl.maximum(log_top, other)
        safe = tl.where(log_higher == float("-inf"), 0.0, log_higher)
        log_value = log_value * tl.exp(log_top - safe) + tl.exp(other - safe)
        log_top = log_higher
    highest = tl.max(top, 1)[:, None]
    mantissa = tl.sum(value * power_of_2(top - highest), 1)[:, None]
    log_highest = tl.max(log_top, 1)[:, None]
    safe = tl.where(log_highest == float("-inf"), 0.0, log_highest)
    logarithm = safe + tl.log(tl.sum(log_value * tl.exp(log_top - safe), 1)[:, None])

    # Centres were taken out at every frame.
    offset = tl.zeros((ROWS, STEP), tl.float64)
    for first in range(0, tl.max(length), STEP):
        t = first + step
        offset += tl.load(centres + b.to(tl.int64) * frames + t, mask=t < length, other=0.0).to(tl.float64)
    taken = tl.sum(offset, 1)[:, None]
    scaled = LN_2 * (highest.to(tl.float64) + tl.log2(tl.maximum(mantissa, 1.0e-30).to(tl.float64)))
    score = taken + tl.where(logs, logarithm, scaled)
    score = tl.where(score < float("inf"), score, float("nan"))
    score = tl.where(length > 0, score, tl.where(empty > 0, 0.0, float("-inf")))
    exact = tl.where(logs, LOGARITHMIC, SCALED)
    state = tl.where((length > 0) & (score > float("-inf")), exact, NOTHING)
    state = tl.where(score != score, WRONG, state)
    packed = (highest.to(tl.int64) << 32) | mantissa.to(tl.int32, bitcast=True).to(tl.int64)
    tl.store(scores + b, score, mask=b < batch)
    tl.store(states + b, state, mask=b < batch)
    tl.store(totals + b, packed, mask=b < batch)


@jit
def about(line, lattice, memory, sizes, AGAIN: tl.constexpr):
    """Return of a (utterance, frame) pair: both, its status, total and centre, the number of states, and the addresses
    of its rows of both passes."""
    numbers, centres, states, totals, rows = lattice
    first, slots, span, row_frames, units = memory
    batch, frames = sizes
    since, many = 0, frames
    if AGAIN:
        since = first * span
        many = tl.minimum((slots - 1) * span, frames - since)
    b, t = (line // many).to(tl.int32), since + (line % many).to(tl.int32)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    status = tl.load(states + b, mask=t < length, other=NOTHING)
    total_of = tl.load(totals + b, mask=t < length, other=ONE_SCALED)
    centre_of = tl.load(centres + b.to(tl.int64) * frames + t, mask=t < length, other=0.0)
    mirrored = length - 1 - t
    if AGAIN:
        mirrored -= tl.maximum(length - (first + slots - 1) * span, 0) // span * span
    forward = rows + (2 * b.to(tl.int64) * row_frames + (t - since)) * 2 * units
    backward = rows + ((2 * b.to(tl.int64) + 1) * row_frames + mirrored) * 2 * units
    return b, t, status, total_of, centre_of, size, forward, backward


@jit
def norm(
    x, wild, emit, numbers, centres, states, totals, rows, norms,
    x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, units, first, slots, span, row_frames,
    LINES: tl.constexpr, STATES: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Write, for frames of utterances in logarithms, the sum over all states of forward * backward / emission, in two
    parts: the logarithm of the greatest, and the sum in units of it.

    Posteriors are normalised by it, not by the total: at 1e20 the difference of both has no digits in float64.
    """
    thread = tl.arange(0, LINES * STATES)
    line = tl.program_id(0).to(tl.int64) * LINES + thread // STATES
    b, t, status, _total, centre_of, size, forward, backward = about(
        line, (numbers, centres, states, totals, rows), (first, slots, span, row_frames, units), (batch, frames), AGAIN
    )
    x += b.to(tl.int64) * x_b + t.to(tl.int64) * x_t
    wild += b.to(tl.int64) * wild_b + t.to(tl.int64) * wild_t
    emit += b.to(tl.int64) * width
    size = tl.where(status == LOGARITHMIC, size, 0)
    top = tl.full((LINES * STATES,), float("-inf"), tl.float64)
    value = tl.zeros((LINES * STATES,), tl.float64)
    for low in range(0, tl.max(size), STATES):
        state = low + thread % STATES
        here = state < size
        class_of = tl.load(emit + state, mask=here, other=0)
        score = tl.load(x + class_of.to(tl.int64) * x_c, mask=here & (class_of >= 0), other=0.0).to(tl.float64)
        score = tl.where(class_of < 0, tl.load(wild, mask=here & (class_of < 0), other=0.0), score)
        mirrored = size - 1 - state
        one = tl.load(forward + (state & 1) * units + (state >> 1), mask=here, other=NEVER_LOG)
        other = tl.load(backward + (mirrored & 1) * units + (mirrored >> 1), mask=here, other=NEVER_LOG)
        power, more = one.to(tl.float64, bitcast=True), other.to(tl.float64, bitcast=True)
        met = (power > float("-inf")) & (more > float("-inf"))
        power = tl.where(met, power + more - (score - centre_of), float("-inf"))
        higher = tl.maximum(top, power)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        value = value * tl.exp(top - safe) + tl.exp(power - safe)
        top = higher
    top, value = tl.reshape(top, (LINES, STATES)), tl.reshape(value, (LINES, STATES))
    highest = tl.max(top, 1)
    safe = tl.where(highest == float("-inf"), 0.0, highest)
    place = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)
    cells = batch.to(tl.int64) * frames
    tl.store(norms + place, safe, mask=place < cells)
    tl.store(norms + cells + place, tl.sum(value * tl.exp(top - safe[:, None]), 1), mask=place < cells)


@jit
def emitted(x, wild, one, b, t, strides, here, WILD: tl.constexpr):
    """Load the emission of class `one` at a frame; -1 is the wildcard."""
    x_b, x_t, x_c, wild_b, wild_t = strides
    score = tl.load(
        x + b.to(tl.int64) * x_b + t.to(tl.int64) * x_t + one.to(tl.int64) * x_c, mask=here & (one >= 0), other=0.0
    )
    if WILD:
        place = b.to(tl.int64) * wild_b + t.to(tl.int64) * wild_t
        score = tl.where(one < 0, tl.load(wild + place, mask=here & (one < 0), other=0.0), score)
    return score


@jit
def posterior(
    x, wild, numbers, centres, states, totals, rows, norms, order, bounds, out, out_wild,
    x_b, x_t, x_c, wild_b, wild_t, out_b, out_t, out_c, batch, frames, width, classes, units,
    first, slots, span, row_frames,
    LINES: tl.constexpr, CLASSES: tl.constexpr, EACH: tl.constexpr,
    LOG: tl.constexpr, WILD: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Write posteriors of (utterance, frame) pairs: all of them, or those of the blocks first … first + slots - 2.

    EACH threads add up a class's states at a frame, every EACH-th one; then their sums are added.
    """
    lattice, memory = (numbers, centres, states, totals, rows), (first, slots, span, row_frames, units)
    sizes, strides = (batch, frames), (x_b, x_t, x_c, wild_b, wild_t)
    base = tl.program_id(0).to(tl.int64) * LINES
    thread = tl.arange(0, LINES * CLASSES * EACH)
    line = base + thread // (CLASSES * EACH)
    b, t, status, total_of, centre_of, size, forward, backward = about(line, lattice, memory, sizes, AGAIN)
    cell = tl.arange(0, LINES * CLASSES)
    own_line = base + cell // CLASSES
    own_b, own_t, own_status, _total, _centre, _size, _forward, _backward = about(
        own_line, lattice, memory, sizes, AGAIN
    )
    order += b.to(tl.int64) * width
    here = (b < batch) & ((status == SCALED) | (status == LOGARITHMIC))
    for low in range(-CLASSES if WILD else 0, classes, CLASSES):
        one = low + thread // EACH % CLASSES
        known = here & (one >= (-1 if WILD else 0)) & (one < classes)
        at_class = bounds + b.to(tl.int64) * (classes + 2) + one + 1
        start = tl.load(at_class, mask=known, other=0)
        stop = tl.load(at_class + 1, mask=known, other=0)
        score = emitted(x, wild, one, b, t, strides, start < stop, WILD)
        place = start + thread % EACH

        result = tl.zeros((LINES * CLASSES * EACH,), tl.float64 if LOG else tl.float32)
        if not LOG:
            mantissa, exponent = scaled_emission(score.to(tl.float32), centre_of)
            exponent += exponent_of(total_of)
            mantissa *= mantissa_of(total_of)
            scaled_stop = tl.where(status == SCALED, stop, start)
            for further in range(0, tl.max(scaled_stop - start), EACH):
                inside = place + further < scaled_stop
                state = tl.load(order + place + further, mask=inside, other=0)
                mirrored = size - 1 - state
                ahead = tl.load(forward + (state & 1) * units + (state >> 1), mask=inside, other=NEVER_SCALED)
                after = tl.load(backward + (mirrored & 1) * units + (mirrored >> 1), mask=inside, other=NEVER_SCALED)
                # Not above 2**126: only what a lost resolution could make; there is nothing to keep.
                power = tl.minimum(exponent_of(ahead) + exponent_of(after) - exponent, 126)
                result += mantissa_of(ahead) * mantissa_of(after) * power_of_2(power)
            result = tl.where(status == SCALED, result / mantissa, 0.0)
        log_stop = tl.where(status == LOGARITHMIC, stop, start)
        many = tl.max(log_stop - start)
        level = score.to(tl.float64) - centre_of
        top = tl.load(norms + line, mask=start < log_stop, other=0.0)
        norm_of = tl.load(norms + batch.to(tl.int64) * frames + line, mask=start < log_stop, other=1.0)
        for further in range(0, many, EACH):
            inside = place + further < log_stop
            state = tl.load(order + place + further, mask=inside, other=0)
            mirrored = size - 1 - state
            ahead = tl.load(forward + (state & 1) * units + (state >> 1), mask=inside, other=NEVER_LOG)
            after = tl.load(backward + (mirrored & 1) * units + (mirrored >> 1), mask=inside, other=NEVER_LOG)
            power, more = ahead.to(tl.float64, bitcast=True), after.to(tl.float64, bitcast=True)
            met = (power > float("-inf")) & (more > float("-inf"))
            power = tl.where(met, power + more - level - top, float("-inf"))
            result += (tl.exp(power) / norm_of).to(result.dtype)

        own_one = low + cell % CLASSES
        sums = tl.sum(tl.reshape(result, (LINES * CLASSES, EACH)), 1)
        sums = tl.where(own_status == WRONG, float("nan"), sums)
        real = (own_b < batch) & (own_one < classes)
        place = out + own_b.to(tl.int64) * out_b + own_t.to(tl.int64) * out_t + own_one.to(tl.int64) * out_c
        tl.store(place, sums, mask=real & (own_one >= 0))
        if WILD:
            tl.store(out_wild + own_b.to(tl.int64) * frames + own_t, sums, mask=real & (own_one == -1))
