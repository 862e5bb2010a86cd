"""Kernels before and after the passes of `sum_kernels`.

They compute centres of frames, totals of utterances, and posteriors of classes:

    centre[t]       = max of x[t, emit[s]] over the states s that paths may be in at frame t
    total           = sum of forward[T-1, s] over the final states s
    posterior[t, c] = sum over the states s that emit c of forward[t, s] * backward[t, s] / (e**x[t,
    c] * total)

backward[t, s] is stored at frame T-1-t and state S-1-s of the mirrored pass. Both rows include the
frame's emission, hence the division by it; it cannot underflow or overflow, since it subtracts
exponents.

A line is a (utterance, frame) pair, or an utterance. A program computes some lines and shares
nothing with others. Nothing is added atomically: one program sums a class's posterior at a frame,
over the class's states in a fixed order, so that results are the same bits on every run.
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
    sum_pairs,
)  # fmt: skip
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

# The status of an utterance: which kind of numbers holds its sums, if any.
NO_PATH = constant(0)
SCALED = constant(1)
LOGARITHMIC = constant(2)
INVALID = constant(3)
MIXED = constant(-2)
"""Stored in place of the class that all even states emit, where they emit several."""


@jit
def centre(
    x, wild, emit, numbers, centres, x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, program_lines,
    LINES: tl.constexpr, STATES: tl.constexpr, FLOAT64: tl.constexpr, WILD: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """Write the centre of each frame: its best emission, NaN and +inf left out.

    It is 0 if nothing is possible.

    Without detours (BANDED) only states count that can be reached from the start and can still
    reach the end: a better emission elsewhere would only make all paths look unlikely.
    """
    thread = tl.arange(0, LINES * STATES)
    first_line = tl.program_id(0).to(tl.int64) * program_lines
    stop_line = tl.minimum(first_line + program_lines, batch.to(tl.int64) * frames)
    for group in range(0, program_lines, LINES):
        line = first_line + group + thread // STATES
        b, t = (line // frames).to(tl.int32), (line % frames).to(tl.int32)
        length = tl.load(numbers + b, mask=line < stop_line, other=0)
        size = tl.load(numbers + batch + b, mask=line < stop_line, other=0)
        low, high = t * 0, size
        if BANDED:
            low, high = size - 2 * (length - t), tl.minimum(2 * t + 2, size)
        frame = x + b.to(tl.int64) * x_b + t.to(tl.int64) * x_t
        wild_frame = wild + b.to(tl.int64) * wild_b + t.to(tl.int64) * wild_t
        best = tl.full((LINES * STATES,), float("-inf"), tl.float64 if FLOAT64 else tl.float32)
        for first_state in range(0, width, STATES):
            state = first_state + thread % STATES
            in_reach = (t < length) & (low <= state) & (state < high)
            state_class = tl.load(emit + b.to(tl.int64) * width + state, mask=in_reach, other=0)
            is_class = in_reach & (state_class >= 0)
            score = tl.load(
                frame + state_class.to(tl.int64) * x_c, mask=is_class, other=float("-inf")
            ).to(best.dtype)
            if WILD:
                is_wild = in_reach & (state_class < 0)
                wild_score = tl.load(wild_frame + state * 0, mask=is_wild, other=float("-inf"))
                score = tl.where(is_class, score, wild_score)
            best = tl.maximum(best, tl.where(score < float("inf"), score, float("-inf")))
        best = tl.max(tl.reshape(best, (LINES, STATES)), 1)
        output_line = first_line + group + tl.arange(0, LINES)
        best = tl.where(best > float("-inf"), best, 0.0)
        tl.store(centres + output_line, best, mask=output_line < stop_line)


@jit
def total(
    last_rows, flags, numbers, end_exponents, centres, scores, statuses, totals, batch, frames, width, tiles, row_units,
    ROWS: tl.constexpr, STEP: tl.constexpr, LOG: tl.constexpr,
):  # fmt: skip
    """Write score, status and scaled total of each utterance.

    score = log(sum of forward[T-1, s] over the final states s) + sum of the centres
    """
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    lane = tl.arange(0, STEP)[None, :]
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    empty = tl.load(numbers + 2 * batch + b, mask=b < batch, other=0)
    in_logs = length > 0
    if not LOG:
        in_logs = needs_logarithms(end_exponents, b, length, tiles)

    # The sum over the final states, in each lane and then over the lanes, in both kinds of numbers.
    # Each sum is kept relative to its largest term so far, and re-centred when a larger one comes:
    # else it would overflow.
    top = tl.full((ROWS, STEP), NEVER_EXPONENT, tl.int32)
    value = tl.zeros((ROWS, STEP), tl.float32)
    log_top = tl.full((ROWS, STEP), float("-inf"), tl.float64)
    log_value = tl.zeros((ROWS, STEP), tl.float64)
    for first_index in range(0, tl.max(size), STEP):
        state = first_index + lane
        flag = tl.load(flags + b.to(tl.int64) * width + state, mask=state < size, other=0).to(
            tl.int32
        )
        final = (length > 0) & ((flag & END) != 0)
        offset = b.to(tl.int64) * 2 * row_units + (state & 1) * row_units + (state >> 1)
        number = tl.load(last_rows + offset, mask=final & (state < size), other=0)
        if not LOG:
            exponent = tl.where(final & ~in_logs, exponent_of(number), NEVER_EXPONENT)
            higher = tl.maximum(top, exponent)
            mantissa = tl.where(final & ~in_logs, mantissa_of(number), 0.0)
            value = value * power_of_2(top - higher) + mantissa * power_of_2(exponent - higher)
            top = higher
        log_number = tl.where(final & in_logs, number.to(tl.float64, bitcast=True), float("-inf"))
        log_higher = tl.maximum(log_top, log_number)
        finite_top = tl.where(log_higher == float("-inf"), 0.0, log_higher)
        log_value = log_value * tl.exp(log_top - finite_top) + tl.exp(log_number - finite_top)
        log_top = log_higher
    highest = tl.max(top, 1)[:, None]
    mantissa = sum_pairs(value * power_of_2(top - highest), ROWS, STEP)[:, None]
    log_highest = tl.max(log_top, 1)[:, None]
    finite_top = tl.where(log_highest == float("-inf"), 0.0, log_highest)
    log_value = sum_pairs(log_value * tl.exp(log_top - finite_top), ROWS, STEP)
    logarithm = finite_top + tl.log(log_value)[:, None]

    # Every frame's emissions were divided by e**centre.
    centre_parts = tl.zeros((ROWS, STEP), tl.float64)
    for first_index in range(0, tl.max(length), STEP):
        t = first_index + lane
        centre_parts += tl.load(
            centres + b.to(tl.int64) * frames + t, mask=t < length, other=0.0
        ).to(tl.float64)
    centre_sum = sum_pairs(centre_parts, ROWS, STEP)[:, None]
    scaled = LN_2 * (highest.to(tl.float64) + tl.log2(tl.maximum(mantissa, 1.0e-30).to(tl.float64)))
    score = centre_sum + tl.where(in_logs, logarithm, scaled)
    score = tl.where(score < float("inf"), score, float("nan"))
    score = tl.where(length > 0, score, tl.where(empty > 0, 0.0, float("-inf")))
    number_kind = tl.where(in_logs, LOGARITHMIC, SCALED)
    status = tl.where((length > 0) & (score > float("-inf")), number_kind, NO_PATH)
    status = tl.where(score != score, INVALID, status)
    packed = (highest.to(tl.int64) << 32) | mantissa.to(tl.int32, bitcast=True).to(tl.int64)
    tl.store(scores + b, score, mask=b < batch)
    tl.store(statuses + b, status, mask=b < batch)
    tl.store(totals + b, packed, mask=b < batch)


@jit
def load_line(line, lattice, memory, sizes, RECOMPUTE: tl.constexpr):
    """Load what a line needs.

    It is utterance, frame, status, total, centre, number of states, and pointers to both rows.
    Lines are those of frames first_frame … first_frame + frame_count - 1 of each utterance. Where
    blocks are recomputed, only their rows are in memory.
    """
    numbers, centres, statuses, totals, rows = lattice
    first_frame, frame_count, stop_frame, stop_line, span_frames, row_frames, row_units = memory
    batch, frames = sizes
    b, t = (line // frame_count).to(tl.int32), first_frame + (line % frame_count).to(tl.int32)
    length = tl.load(numbers + b, mask=line < stop_line, other=0)
    size = tl.load(numbers + batch + b, mask=line < stop_line, other=0)
    status = tl.load(statuses + b, mask=t < length, other=NO_PATH)
    line_total = tl.load(totals + b, mask=t < length, other=ONE_SCALED)
    line_centre = tl.load(centres + b.to(tl.int64) * frames + t, mask=t < length, other=0.0)
    # Frame t is frame length - 1 - t of the backward pass, whose rows in memory begin with its
    # first recomputed block.
    mirrored, row = length - 1 - t, t
    if RECOMPUTE:
        mirrored -= tl.maximum(length - stop_frame, 0) // span_frames * span_frames
        row = t - first_frame
    forward = rows + (2 * b.to(tl.int64) * row_frames + row) * 2 * row_units
    backward = rows + ((2 * b.to(tl.int64) + 1) * row_frames + mirrored) * 2 * row_units
    return b, t, status, line_total, line_centre, size, forward, backward


@jit
def sort_by_class(
    emit, numbers, order, bounds, batch, width, classes,
    ROWS: tl.constexpr, PROGRAM_STATES: tl.constexpr, COMPARED_STATES: tl.constexpr,
):  # fmt: skip
    """Sort states stably by the class that they emit: write `order` (B, S) and `bounds`.

    `bounds` (B, C + 2) is the rank at which each class begins, the wildcard first. Even states are
    left out where all of them emit one class.

    Counting sort: a state's rank is the number of states that precede it, a class's bound the
    number of states of lower classes. Each program counts for PROGRAM_STATES states and bounds at a
    time, and so needs nothing from other programs.
    """
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    mixed = tl.load(numbers + 3 * batch + b, mask=b < batch, other=MIXED) == MIXED
    emit += b.to(tl.int64) * width
    for first_state in range(
        tl.program_id(1) * PROGRAM_STATES,
        tl.maximum(width, classes + 2),
        tl.num_programs(1) * PROGRAM_STATES,
    ):
        state = first_state + tl.arange(0, PROGRAM_STATES)[None, :]
        is_sorted = (state < size) & (mixed | (state % 2 == 1))
        state_class = tl.load(emit + state, mask=is_sorted, other=0)[:, :, None]
        rank = tl.zeros((ROWS, PROGRAM_STATES), tl.int32)
        bound = tl.zeros((ROWS, PROGRAM_STATES), tl.int32)
        for first_other in range(0, tl.max(size), COMPARED_STATES):
            other = first_other + tl.arange(0, COMPARED_STATES)[None, :]
            counted = ((other < size) & (mixed | (other % 2 == 1)))[:, None, :]
            other_class = tl.load(emit + other, mask=other < size, other=0)[:, None, :]
            precedes = (other_class < state_class) | (
                (other_class == state_class) & (other[:, None, :] < state[:, :, None])
            )
            rank += tl.sum((counted & precedes).to(tl.int32), 2)
            bound += tl.sum((counted & (other_class < (state - 1)[:, :, None])).to(tl.int32), 2)
        tl.store(order + b.to(tl.int64) * width + rank, state + b * 0, mask=is_sorted)
        class_bounds = bounds + b.to(tl.int64) * (classes + 2) + state
        tl.store(class_bounds, bound, mask=(b < batch) & (state < classes + 2))


@jit
def load_emission(x, wild, class_index, b, t, strides, exists, WILD: tl.constexpr):
    """Load the emission of a class at a frame; class -1 is the wildcard."""
    x_b, x_t, x_c, wild_b, wild_t = strides
    score = tl.load(
        x + b.to(tl.int64) * x_b + t.to(tl.int64) * x_t + class_index.to(tl.int64) * x_c,
        mask=exists & (class_index >= 0),
        other=0.0,
    )
    if WILD:
        offset = b.to(tl.int64) * wild_b + t.to(tl.int64) * wild_t
        score = tl.where(
            class_index < 0,
            tl.load(wild + offset, mask=exists & (class_index < 0), other=0.0),
            score,
        )
    return score


@jit
def scaled_term(state, size, rows, exponent, in_range):
    """Return forward * backward / 2**exponent of a state, as float32."""
    forward, backward, row_units = rows
    mirrored = size - 1 - state
    alpha = tl.load(
        forward + (state & 1) * row_units + (state >> 1), mask=in_range, other=NEVER_SCALED
    )
    beta = tl.load(
        backward + (mirrored & 1) * row_units + (mirrored >> 1), mask=in_range, other=NEVER_SCALED
    )
    # At most 2**126, the range of power_of_2: only rounding can exceed it, and then no digit is
    # right anyway.
    term_exponent = tl.minimum(exponent_of(alpha) + exponent_of(beta) - exponent, 126)
    return mantissa_of(alpha) * mantissa_of(beta) * power_of_2(term_exponent)


@jit
def log_term(state, size, rows, level, in_range):
    """Return log(forward * backward) - level of a state; -inf where either is zero."""
    forward, backward, row_units = rows
    mirrored = size - 1 - state
    alpha = tl.load(
        forward + (state & 1) * row_units + (state >> 1), mask=in_range, other=NEVER_LOG
    )
    beta = tl.load(
        backward + (mirrored & 1) * row_units + (mirrored >> 1), mask=in_range, other=NEVER_LOG
    )
    log_alpha, log_beta = alpha.to(tl.float64, bitcast=True), beta.to(tl.float64, bitcast=True)
    possible = (log_alpha > float("-inf")) & (log_beta > float("-inf"))
    return tl.where(possible, log_alpha + log_beta - level, float("-inf"))


@jit
def broadcast_lines(values, LINES: tl.constexpr, LINE_THREADS: tl.constexpr):
    """Return the value of each line for each of its threads."""
    return tl.reshape(
        tl.broadcast_to(values[:, None], (LINES, LINE_THREADS)), (LINES * LINE_THREADS,)
    )


@jit
def log_norm(emit, x, wild, b, t, strides, size, rows, line_centre, lane,
             LINES: tl.constexpr, LINE_THREADS: tl.constexpr, WILD: tl.constexpr):  # fmt: skip
    """Return the sum over all states of forward * backward / emission, for lines in logarithms.

    In two parts: the logarithm of the largest term, and the sum in units of that term. It equals
    the total, and posteriors are divided by it instead of by the total: where emissions are as
    large as 1e20, the rounding of float64 makes the two differ by more than any posterior.
    """
    top = tl.full((LINES * LINE_THREADS,), float("-inf"), tl.float64)
    value = tl.zeros((LINES * LINE_THREADS,), tl.float64)
    for first_state in range(0, tl.max(size), LINE_THREADS):
        state = first_state + lane
        exists = state < size
        state_class = tl.load(emit + state, mask=exists, other=0)
        level = (
            load_emission(x, wild, state_class, b, t, strides, exists, WILD).to(tl.float64)
            - line_centre
        )
        term = log_term(state, size, rows, level, exists)
        higher = tl.maximum(top, term)
        finite_top = tl.where(higher == float("-inf"), 0.0, higher)
        value = value * tl.exp(top - finite_top) + tl.exp(term - finite_top)
        top = higher
    highest = tl.max(tl.reshape(top, (LINES, LINE_THREADS)), 1)
    finite_top = broadcast_lines(
        tl.where(highest == float("-inf"), 0.0, highest), LINES, LINE_THREADS
    )
    value = sum_pairs(value * tl.exp(top - finite_top), LINES, LINE_THREADS)
    return finite_top, broadcast_lines(tl.where(value > 0.0, value, 1.0), LINES, LINE_THREADS)


@jit
def state_sum(index, count, stop, score, size, rows, line_total, line_centre, norms, order,
              STRIDE: tl.constexpr, ORDERED: tl.constexpr, LOG: tl.constexpr):  # fmt: skip
    """Return each thread's sum of posteriors over states that emit `score`.

    The thread's indices are `index`, `index` + STRIDE, … below `stop`: ranks in `order` if ORDERED,
    else even states divided by two. `count` is the largest distance to `stop` in the program.
    """
    top, norm_sum = norms
    result = tl.zeros(index.shape, tl.float64 if LOG else tl.float32)
    if LOG:
        level = score.to(tl.float64) - line_centre
        for offset in range(0, count, STRIDE):
            in_range = index + offset < stop
            state = (
                tl.load(order + index + offset, mask=in_range, other=0)
                if ORDERED
                else 2 * (index + offset)
            )
            result += tl.exp(log_term(state, size, rows, level, in_range) - top) / norm_sum
    else:
        mantissa, exponent = scaled_emission(score.to(tl.float32), line_centre)
        exponent += exponent_of(line_total)
        for offset in range(0, count, STRIDE):
            in_range = index + offset < stop
            state = (
                tl.load(order + index + offset, mask=in_range, other=0)
                if ORDERED
                else 2 * (index + offset)
            )
            result += scaled_term(state, size, rows, exponent, in_range)
        result = result / (mantissa * mantissa_of(line_total))
    return result


@jit
def posterior(
    x, wild, emit, numbers, centres, statuses, totals, rows, order, bounds, out, out_wild, x_b, x_t, x_c, wild_b,
    wild_t, out_b, out_t, out_c, batch, frames, width, classes, row_units, first_block, slots, span_frames, row_frames,
    program_lines,
    LINES: tl.constexpr, CLASSES: tl.constexpr, CLASS_THREADS: tl.constexpr, LOG: tl.constexpr, FALLBACK: tl.constexpr,
    WILD: tl.constexpr, RECOMPUTE: tl.constexpr,
):  # fmt: skip
    """Write the posteriors of the lines in the blocks first_block … first_block + slots - 2.

    Rows are in memory for all frames or, recomputed, for these blocks alone.

    With FALLBACK only lines of utterances in logarithms, for which the launch without LOG has
    written zeros.

    Where all even states emit one class, mostly the blank, all threads of a line sum over them, in
    their order in memory: one class would else have half of all states, and CLASS_THREADS threads
    would sum them while others wait.
    Of every other class CLASS_THREADS threads sum over every CLASS_THREADS-th state, and then their
    sums are added.
    """
    LINE_THREADS: tl.constexpr = CLASSES * CLASS_THREADS
    first_frame = first_block * span_frames
    stop_frame = first_frame + (slots - 1) * span_frames
    frame_count = tl.minimum(stop_frame, frames) - first_frame
    lattice = numbers, centres, statuses, totals, rows
    stop_line = (tl.program_id(0).to(tl.int64) + 1) * program_lines
    stop_line = tl.minimum(stop_line, batch.to(tl.int64) * frame_count)
    memory = first_frame, frame_count, stop_frame, stop_line, span_frames, row_frames, row_units
    sizes, strides = (batch, frames), (x_b, x_t, x_c, wild_b, wild_t)
    thread = tl.arange(0, LINES * LINE_THREADS)
    lane = thread % LINE_THREADS
    for group in range(0, program_lines, LINES):
        first_line = tl.program_id(0).to(tl.int64) * program_lines + group
        line = first_line + thread // LINE_THREADS
        b, t, status, line_total, line_centre, size, forward, backward = load_line(
            line, lattice, memory, sizes, RECOMPUTE
        )
        active = (line < stop_line) & (status == (LOGARITHMIC if LOG else SCALED))
        if not FALLBACK or tl.max(active.to(tl.int32)) > 0:
            row_pointers = forward, backward, row_units
            # A cell is a class at a frame, in the layout in which results are stored.
            cell = tl.arange(0, LINES * CLASSES)
            cell_line = first_line + cell // CLASSES
            cell_b, cell_t, cell_status, _total, _centre, _size, _forward, _backward = load_line(
                cell_line, lattice, memory, sizes, RECOMPUTE
            )
            cell_exists = cell_line < stop_line
            cell_even_class = tl.load(numbers + 3 * batch + cell_b, mask=cell_exists, other=MIXED)
            line_order = order + b.to(tl.int64) * width
            norms = 0, 0
            if LOG:
                norms = log_norm(
                    emit + b.to(tl.int64) * width, x, wild, b, t, strides, tl.where(active, size, 0), row_pointers,
                    line_centre,
                    lane, LINES, LINE_THREADS, WILD,
                )  # fmt: skip
            even_class = tl.load(numbers + 3 * batch + b, mask=active, other=MIXED)
            even_count = tl.where(even_class != MIXED, (size + 1) // 2, 0)
            score = load_emission(x, wild, even_class, b, t, strides, even_count > 0, WILD)
            result = state_sum(
                lane, tl.max(even_count), even_count, score, size, row_pointers, line_total, line_centre, norms,
                line_order, LINE_THREADS, False, LOG,
            )  # fmt: skip
            even_sums = broadcast_lines(sum_pairs(result, LINES, LINE_THREADS), LINES, CLASSES)
            for first_class in range(-CLASSES if WILD else 0, classes, CLASSES):
                class_index = first_class + thread // CLASS_THREADS % CLASSES
                exists = active & (class_index >= (-1 if WILD else 0)) & (class_index < classes)
                class_bounds = bounds + b.to(tl.int64) * (classes + 2) + class_index + 1
                start = tl.load(class_bounds, mask=exists, other=0)
                stop = tl.load(class_bounds + 1, mask=exists, other=0)
                score = load_emission(x, wild, class_index, b, t, strides, start < stop, WILD)
                result = state_sum(
                    start + thread % CLASS_THREADS, tl.max(stop - start), stop, score, size, row_pointers, line_total,
                    line_centre, norms,
                    line_order, CLASS_THREADS, True, LOG,
                )  # fmt: skip
                cell_class = first_class + cell % CLASSES
                sums = sum_pairs(result, LINES * CLASSES, CLASS_THREADS)
                sums += tl.where(cell_class == cell_even_class, even_sums, 0.0)
                sums = tl.where(cell_status == (LOGARITHMIC if LOG else SCALED), sums, 0.0)
                sums = tl.where(cell_status == INVALID, float("nan"), sums)
                stores = cell_exists & (cell_class < classes)
                if FALLBACK:
                    stores &= cell_status == LOGARITHMIC
                pointer = (
                    out
                    + cell_b.to(tl.int64) * out_b
                    + cell_t.to(tl.int64) * out_t
                    + cell_class.to(tl.int64) * out_c
                )
                tl.store(pointer, sums, mask=stores & (cell_class >= 0))
                if WILD:
                    tl.store(
                        out_wild + cell_b.to(tl.int64) * frames + cell_t,
                        sums,
                        mask=stores & (cell_class == -1),
                    )
