"""All of a small problem in one launch.

Centres, passes, totals and posteriors come one after the other, by the functions of the other
kernels, with barriers between.

A program takes an utterance in both directions side by side: half of its warps walk forward, half
backward, and then all of them sum posteriors. So nothing passes from program to program, and a pass
takes as many frames one after the other as in a launch of its own. Both directions one after the
other would double that; a program for each direction would need a second launch, or wait for the
other.

Where a batch leaves much of a card idle, several programs take the same utterance. Each walks all
frames, for walking cannot be shared, but saves the rows of its share of the frames only, and
computes their posteriors. So rows are written once, as in many launches, and every other buffer is
there once for each share.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.posterior_kernels import centre, posterior, sort_by_class, total
from ctc_align.kernels.gpu.sum_kernels import needs_logarithms, sweep
from ctc_align.kernels.gpu.triton_import import jit, tl


@jit
def compute_sums(
    x, wild, emit, flags, numbers, detours, halo_buffer, rows, ring, last_rows, end_exponents, centres, scores,
    statuses, totals, order, bounds, out, out_wild, x_b, x_t, x_c, wild_b, wild_t, out_b, out_t, out_c, batch, frames,
    width, classes, max_detours, row_units, row_frames, ring_frames, share_frames, halo,
    LANES: tl.constexpr, STRIPS: tl.constexpr, ROWS: tl.constexpr, SIDES: tl.constexpr, LINES: tl.constexpr,
    STATES: tl.constexpr, CLASSES: tl.constexpr, CLASS_THREADS: tl.constexpr, STEP: tl.constexpr,
    PROGRAM_STATES: tl.constexpr, COMPARED_STATES: tl.constexpr, FLOAT64: tl.constexpr, PLAIN: tl.constexpr,
    ALL_STAY: tl.constexpr, WILD: tl.constexpr, DETOURS: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """Compute the scores of the program's utterances.

    With two SIDES, also the posteriors of its share of their frames.
    """
    share = tl.program_id(2)
    before = share.to(tl.int64) * batch
    centres += before * frames
    last_rows += before * 2 * row_units
    end_exponents += before
    scores += before
    statuses += before
    totals += before
    centre(
        x, wild, emit, numbers, centres, x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, ROWS * frames,
        LINES, STATES, FLOAT64, WILD, BANDED,
    )  # fmt: skip
    if SIDES == 2:
        order += before * width
        bounds += before * (classes + 2)
        sort_by_class(
            emit, numbers, order, bounds, batch, width, classes, ROWS, PROGRAM_STATES,
            COMPARED_STATES,
        )  # fmt: skip
    tl.debug_barrier()
    sweep(
        x, wild, centres, emit, flags, numbers, detours, halo_buffer, rows, rows, rows, last_rows, end_exponents, ring,
        x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, max_detours, 1, 0, 0, 1, row_frames, share_frames, 1, 1,
        row_frames, ring_frames, halo, LANES, STRIPS, ROWS, FLOAT64, PLAIN, ALL_STAY, WILD, DETOURS, False, False,
        SIDES == 2, False, False, SIDES,
    )  # fmt: skip
    tl.debug_barrier()
    in_logs = 0
    if not FLOAT64:
        b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        length = tl.load(numbers + b, mask=b < batch, other=0)
        in_logs = tl.max(needs_logarithms(end_exponents, b, length, 1).to(tl.int32))
        if in_logs > 0:
            sweep(
                x, wild, centres, emit, flags, numbers, detours, halo_buffer, rows, rows, rows, last_rows,
                end_exponents, ring, x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, max_detours, 1, 0, 0, 1,
                row_frames, share_frames, 1, 1, row_frames, ring_frames, halo, LANES, STRIPS, ROWS, True, PLAIN,
                ALL_STAY, WILD, DETOURS, False, False, SIDES == 2, False, True, SIDES,
            )  # fmt: skip
        tl.debug_barrier()
    total(
        last_rows, flags, numbers, end_exponents, centres, scores, statuses, totals, batch, frames, width, 1, row_units,
        ROWS, STEP, FLOAT64,
    )  # fmt: skip
    if SIDES == 2:
        tl.debug_barrier()
        program_lines = ROWS * tl.minimum(share_frames, frames - share * share_frames)
        posterior(
            x, wild, emit, numbers, centres, statuses, totals, rows, order, bounds, out, out_wild, x_b, x_t, x_c,
            wild_b, wild_t, out_b, out_t, out_c, batch, frames, width, classes, row_units, share, 2, share_frames,
            row_frames, program_lines, LINES, CLASSES, CLASS_THREADS, FLOAT64, False, WILD, False,
        )  # fmt: skip
        if in_logs > 0:
            tl.debug_barrier()
            posterior(
                x, wild, emit, numbers, centres, statuses, totals, rows, order, bounds, out, out_wild, x_b, x_t, x_c,
                wild_b, wild_t, out_b, out_t, out_c, batch, frames, width, classes, row_units, share, 2, share_frames,
                row_frames, program_lines, LINES, CLASSES, CLASS_THREADS, True, True, WILD, False,
            )  # fmt: skip
