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
MIXED = constant(-2)
"""In place of the class that all even states emit: they emit several."""


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
def by_class(
    emit, numbers, order, bounds, batch, width, classes,
    ROWS: tl.constexpr, OWN: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    """Write `order` (B, S), states sorted by the class that they emit, stably, without even states that all emit one;
    and `bounds` (B, C + 2), at which of them each class begins, the wildcard first.

    A state's place is the number of states that come before it, a class's bound that of states of lower classes: each
    program counts for OWN of both.
    """
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    state = tl.program_id(1) * OWN + tl.arange(0, OWN)[None, :]
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    mixed = tl.load(numbers + 3 * batch + b, mask=b < batch, other=MIXED) == MIXED
    emit += b.to(tl.int64) * width
    sorted_here = (state < size) & (mixed | (state % 2 == 1))
    own = tl.load(emit + state, mask=sorted_here, other=0)[:, :, None]
    place = tl.zeros((ROWS, OWN), tl.int32)
    bound = tl.zeros((ROWS, OWN), tl.int32)
    for low in range(0, tl.max(size), OTHERS):
        other = low + tl.arange(0, OTHERS)[None, :]
        counts = ((other < size) & (mixed | (other % 2 == 1)))[:, None, :]
        theirs = tl.load(emit + other, mask=other < size, other=0)[:, None, :]
        before = (theirs < own) | ((theirs == own) & (other[:, None, :] < state[:, :, None]))
        place += tl.sum((counts & before).to(tl.int32), 2)
        bound += tl.sum((counts & (theirs < (state - 1)[:, :, None])).to(tl.int32), 2)
    tl.store(order + b.to(tl.int64) * width + place, state + b * 0, mask=sorted_here)
    tl.store(bounds + b.to(tl.int64) * (classes + 2) + state, bound, mask=(b < batch) & (state < classes + 2))


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
def scaled_term(state, size, rows, exponent, inside):
    """Return forward * backward of a state, by the exponent that is divided out."""
    forward, backward, units = rows
    mirrored = size - 1 - state
    ahead = tl.load(forward + (state & 1) * units + (state >> 1), mask=inside, other=NEVER_SCALED)
    after = tl.load(backward + (mirrored & 1) * units + (mirrored >> 1), mask=inside, other=NEVER_SCALED)
    # Not above 2**126: only what a lost resolution could make; there is nothing to keep.
    power = tl.minimum(exponent_of(ahead) + exponent_of(after) - exponent, 126)
    return mantissa_of(ahead) * mantissa_of(after) * power_of_2(power)


@jit
def log_term(state, size, rows, level, inside):
    """Return the logarithm of forward * backward of a state, less `level`."""
    forward, backward, units = rows
    mirrored = size - 1 - state
    ahead = tl.load(forward + (state & 1) * units + (state >> 1), mask=inside, other=NEVER_LOG)
    after = tl.load(backward + (mirrored & 1) * units + (mirrored >> 1), mask=inside, other=NEVER_LOG)
    power, more = ahead.to(tl.float64, bitcast=True), after.to(tl.float64, bitcast=True)
    met = (power > float("-inf")) & (more > float("-inf"))
    return tl.where(met, power + more - level, float("-inf"))


@jit
def over_line(values, LINES: tl.constexpr, WIDE: tl.constexpr):
    """Return one value a line for each of its threads."""
    return tl.reshape(tl.broadcast_to(values[:, None], (LINES, WIDE)), (LINES * WIDE,))


@jit
def norm(emit, x, wild, b, t, strides, size, rows, centre_of, lane,
         LINES: tl.constexpr, WIDE: tl.constexpr, WILD: tl.constexpr):  # fmt: skip
    """Return for lines in logarithms the sum over all states of forward * backward / emission, in two parts: the
    logarithm of the greatest, and the sum in units of it.

    Posteriors are normalised by it, not by the total: at 1e20 the difference of both has no digits in float64.
    """
    top = tl.full((LINES * WIDE,), float("-inf"), tl.float64)
    value = tl.zeros((LINES * WIDE,), tl.float64)
    for low in range(0, tl.max(size), WIDE):
        state = low + lane
        here = state < size
        class_of = tl.load(emit + state, mask=here, other=0)
        level = emitted(x, wild, class_of, b, t, strides, here, WILD).to(tl.float64) - centre_of
        power = log_term(state, size, rows, level, here)
        higher = tl.maximum(top, power)
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        value = value * tl.exp(top - safe) + tl.exp(power - safe)
        top = higher
    highest = tl.max(tl.reshape(top, (LINES, WIDE)), 1)
    safe = over_line(tl.where(highest == float("-inf"), 0.0, highest), LINES, WIDE)
    value = tl.sum(tl.reshape(value * tl.exp(top - safe), (LINES, WIDE)), 1)
    return safe, over_line(tl.where(value > 0.0, value, 1.0), LINES, WIDE)


@jit
def state_sum(state, further, stop, score, size, rows, total_of, centre_of, norms, order,
              STRIDE: tl.constexpr, ORDERED: tl.constexpr, LOG: tl.constexpr):  # fmt: skip
    """Return each thread's sum over its states that emit one score: posteriors of `state`, `state` + STRIDE, … below
    `stop`, which are places in `order` if ORDERED, else numbers of even states."""
    top, norm_of = norms
    result = tl.zeros(state.shape, tl.float64 if LOG else tl.float32)
    if LOG:
        level = score.to(tl.float64) - centre_of
        for ahead in range(0, further, STRIDE):
            inside = state + ahead < stop
            one = tl.load(order + state + ahead, mask=inside, other=0) if ORDERED else 2 * (state + ahead)
            result += tl.exp(log_term(one, size, rows, level, inside) - top) / norm_of
    else:
        mantissa, exponent = scaled_emission(score.to(tl.float32), centre_of)
        exponent += exponent_of(total_of)
        for ahead in range(0, further, STRIDE):
            inside = state + ahead < stop
            one = tl.load(order + state + ahead, mask=inside, other=0) if ORDERED else 2 * (state + ahead)
            result += scaled_term(one, size, rows, exponent, inside)
        result = result / (mantissa * mantissa_of(total_of))
    return result


@jit
def posterior(
    x, wild, emit, numbers, centres, states, totals, rows, order, bounds, out, out_wild,
    x_b, x_t, x_c, wild_b, wild_t, out_b, out_t, out_c, batch, frames, width, classes, units,
    first, slots, span, row_frames,
    LINES: tl.constexpr, CLASSES: tl.constexpr, EACH: tl.constexpr,
    LOG: tl.constexpr, SECOND: tl.constexpr, WILD: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Write posteriors of (utterance, frame) pairs: all of them, or those of the blocks first … first + slots - 2. With
    SECOND those of utterances in logarithms alone, of which a launch without LOG has written zeros.

    Where all even states emit one class, mostly the blank, all threads of a line sum them, in their order in memory.
    Of the other states, EACH threads add up a class's at a frame, every EACH-th one; then their sums are added.
    """
    WIDE: tl.constexpr = CLASSES * EACH
    lattice, memory = (numbers, centres, states, totals, rows), (first, slots, span, row_frames, units)
    sizes, strides = (batch, frames), (x_b, x_t, x_c, wild_b, wild_t)
    base = tl.program_id(0).to(tl.int64) * LINES
    thread = tl.arange(0, LINES * WIDE)
    line, lane = base + thread // WIDE, thread % WIDE
    b, t, status, total_of, centre_of, size, forward, backward = about(line, lattice, memory, sizes, AGAIN)
    here = (b < batch) & (status == (LOGARITHMIC if LOG else SCALED))
    if not SECOND or tl.max(here.to(tl.int32)) > 0:
        rows_of = forward, backward, units
        cell = tl.arange(0, LINES * CLASSES)
        own_line = base + cell // CLASSES
        own_b, own_t, own_status, _total, _centre, _size, _forward, _backward = about(
            own_line, lattice, memory, sizes, AGAIN
        )
        own_even = tl.load(numbers + 3 * batch + own_b, mask=own_b < batch, other=MIXED)
        own_order = order + b.to(tl.int64) * width
        norms = 0, 0
        if LOG:
            norms = norm(
                emit + b.to(tl.int64) * width, x, wild, b, t, strides, tl.where(here, size, 0), rows_of, centre_of,
                lane, LINES, WIDE, WILD,
            )  # fmt: skip
        even = tl.load(numbers + 3 * batch + b, mask=here, other=MIXED)
        evens = tl.where(even != MIXED, (size + 1) // 2, 0)
        score = emitted(x, wild, even, b, t, strides, evens > 0, WILD)
        result = state_sum(
            lane, tl.max(evens), evens, score, size, rows_of, total_of, centre_of, norms, own_order, WIDE, False, LOG
        )
        even_sums = over_line(tl.sum(tl.reshape(result, (LINES, WIDE)), 1), LINES, CLASSES)
        for low in range(-CLASSES if WILD else 0, classes, CLASSES):
            one = low + thread // EACH % CLASSES
            known = here & (one >= (-1 if WILD else 0)) & (one < classes)
            at_class = bounds + b.to(tl.int64) * (classes + 2) + one + 1
            start = tl.load(at_class, mask=known, other=0)
            stop = tl.load(at_class + 1, mask=known, other=0)
            score = emitted(x, wild, one, b, t, strides, start < stop, WILD)
            result = state_sum(
                start + thread % EACH, tl.max(stop - start), stop, score, size, rows_of, total_of, centre_of, norms,
                own_order, EACH, True, LOG,
            )  # fmt: skip
            own_one = low + cell % CLASSES
            sums = tl.sum(tl.reshape(result, (LINES * CLASSES, EACH)), 1)
            sums += tl.where(own_one == own_even, even_sums, 0.0)
            sums = tl.where(own_status == (LOGARITHMIC if LOG else SCALED), sums, 0.0)
            sums = tl.where(own_status == WRONG, float("nan"), sums)
            real = (own_b < batch) & (own_one < classes)
            if SECOND:
                real &= own_status == LOGARITHMIC
            place = out + own_b.to(tl.int64) * out_b + own_t.to(tl.int64) * out_t + own_one.to(tl.int64) * out_c
            tl.store(place, sums, mask=real & (own_one >= 0))
            if WILD:
                tl.store(out_wild + own_b.to(tl.int64) * frames + own_t, sums, mask=real & (own_one == -1))
