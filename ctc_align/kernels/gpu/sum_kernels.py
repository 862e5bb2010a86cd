"""Sums over paths on the GPU: the forward pass, and beside it the backward pass.

    row[0, s] = x[0, s] where a path may begin, else 0
    row[t, s] = x[t, s] * (row[t-1, s] if stay[s] + row[t-1, s-1] + row[t-1, s-2] if skip[s] +
    detours)

The backward pass is the same recursion over the mirrored topology, run by the same kernel in the
same launch: state s is S-1-s there, frame t is T-1-t, paths begin where they may end, and skip[s]
is skip[s+2], since a skip into s+2 is one out of s. So a backward row includes its frame's
emissions, like a forward row.

Numbers are those of `sum_numbers`. Emissions are relative to their frame's centre (see
`posterior_kernels`): else the sums of long utterances would leave the range in which exponents are
trusted. `row_layout` says how threads share a row, and why there is no race.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.row_layout import (
    BEGIN,
    END,
    SKIP,
    STAY,
    load_units,
    shift_up,
    store_units,
)
from ctc_align.kernels.gpu.sum_numbers import (
    FAR_EXPONENT,
    NEVER_EXPONENT,
    NEVER_LOG,
    NEVER_SCALED,
    add,
    emission,
    exponent_of,
    weighted_pair,
    weighted_sum,
)  # fmt: skip
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

MAX_SCALED_FRAMES = constant(2**24)
"""In more frames the exponents of possible paths could come near MIN_EXPONENT."""
INVALID_EXPONENT = constant(2**30)
"""Stored in place of an exponent where NaN or +inf is among the emissions, whether or not a path
meets it."""


@jit
def needs_logarithms(end_exponents, b, length, tiles):
    """Return whether an utterance needs logarithms.

    Its total is almost zero, or it emits NaN or +inf, or is too long. Scaled numbers cannot tell an
    impossible path from an extremely unlikely one, and do not represent NaN.
    """
    best = length * 0 + NEVER_EXPONENT
    for tile in range(tiles):
        best = tl.maximum(best, tl.load(end_exponents + b * tiles + tile, mask=length > 0, other=0))
    return (length > 0) & (
        (best <= FAR_EXPONENT) | (best == INVALID_EXPONENT) | (length > MAX_SCALED_FRAMES)
    )


@jit
def load_emissions(source, t, LOG: tl.constexpr, WILD: tl.constexpr):
    """Load the emissions of both states of a unit at frame t of the pass, and the frame's centre.

    Backward, frame t of the pass is frame length - 1 - t of the utterance.
    """
    bases, classes, exists, strides, last_frame, length, direction = source
    even_mask, odd_mask = exists[0] & (t <= last_frame), exists[1] & (t <= last_frame)
    frame = t + direction * (length - 1 - 2 * t)
    offset = frame.to(tl.int64) * strides[0]
    even = tl.load(bases[0] + offset, mask=even_mask, other=0.0)
    odd = tl.load(bases[1] + offset, mask=odd_mask, other=0.0)
    centre = tl.load(bases[2] + frame, mask=even_mask, other=0.0)
    if WILD:
        offset = frame.to(tl.int64) * strides[1]
        even = tl.where(
            classes[0] < 0,
            tl.load(bases[3] + offset, mask=even_mask & (classes[0] < 0), other=0.0),
            even,
        )
        odd = tl.where(
            classes[1] < 0,
            tl.load(bases[3] + offset, mask=odd_mask & (classes[1] < 0), other=0.0),
            odd,
        )
    if LOG:
        return even.to(tl.float64), odd.to(tl.float64), centre.to(tl.float64)
    else:
        return even.to(tl.float32), odd.to(tl.float32), centre


@jit
def is_invalid(emissions):
    """Return whether a state of the unit emits NaN or +inf (a comparison with NaN is false)."""
    return ~((emissions[0] < float("inf")) & (emissions[1] < float("inf")))


@jit
def add_detours(total, table, exists, max_detours, previous_row, row_units, LOG: tl.constexpr):
    """Return `total` plus what enters one state per lane by its detours: row[t-1, source]."""
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    for rank in range(max_detours):
        source_state = tl.load(table + rank, mask=exists, other=-1)
        offset = (source_state & 1) * row_units + (source_state >> 1)
        total = add(total, tl.load(previous_row + offset, mask=source_state >= 0, other=NEVER), LOG)
    return total


@jit
def compute_row(
    even, odd, emissions, transitions, in_block, previous_row, LANES: tl.constexpr, LOG: tl.constexpr,
    PLAIN: tl.constexpr, ALL_STAY: tl.constexpr, DETOURS: tl.constexpr,
):  # fmt: skip
    """Return a frame's row from the previous row.

        even[u] = x * (even[u] if stay + odd[u-1] + even[u-1] if skip + detours)
        odd[u]  = x * (odd[u] if stay + even[u] + odd[u-1] if skip + detours)

    `previous_row` is read by detours only; all else is in registers.
    """
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    lane, may_stay, may_skip, detour_tables, exists, max_detours, row_units = transitions
    even_score, odd_score, centre = emissions
    odd_below = tl.where(lane > 0, shift_up(odd, lane, LANES), NEVER)
    even_stay, odd_stay = even, odd
    if not ALL_STAY:
        even_stay, odd_stay = tl.where(may_stay[0], even, NEVER), tl.where(may_stay[1], odd, NEVER)
    odd_skip = tl.where(may_skip[1], odd_below, NEVER)
    # PLAIN: even states are neither skipped into nor entered by detours, as in CTC: a sum of two
    # terms.
    if PLAIN:
        new_even = weighted_pair(even_stay, odd_below, even_score, centre, LOG)
    else:
        even_below = tl.where(lane > 0, shift_up(even, lane, LANES), NEVER)
        even_skip = tl.where(may_skip[0], even_below, NEVER)
        if DETOURS:
            even_skip = add_detours(
                even_skip,
                detour_tables[0],
                exists[0] & in_block,
                max_detours,
                previous_row,
                row_units,
                LOG,
            )
            odd_skip = add_detours(
                odd_skip,
                detour_tables[1],
                exists[1] & in_block,
                max_detours,
                previous_row,
                row_units,
                LOG,
            )
        new_even = weighted_sum(even_stay, odd_below, even_skip, even_score, centre, LOG)
    return new_even, weighted_sum(odd_stay, even, odd_skip, odd_score, centre, LOG)


@jit
def advance_row(even, odd, emissions, t, transitions, buffers,
                LANES: tl.constexpr, LOG: tl.constexpr, PLAIN: tl.constexpr, ALL_STAY: tl.constexpr,
                DETOURS: tl.constexpr, SAVE_ROWS: tl.constexpr, SAVE_SOME: tl.constexpr):  # fmt: skip
    """Advance the row from frame t - 1 to t.

    It is stored with the saved rows or, for detours, in the ring.

    Beyond the block's last frame the row keeps its values, while other utterances of the program go
    on.
    """
    interior, last_frame, saved_rows, saved, ring, ring_frames, unit = buffers
    row_size = 2 * transitions[6]
    previous_row = ring
    if DETOURS:
        if SAVE_ROWS:
            previous_row = saved_rows - unit + (t - 1).to(tl.int64) * row_size
        else:
            previous_row = ring + ((t - 1) % ring_frames).to(tl.int64) * row_size
    new_even, new_odd = compute_row(
        even,
        odd,
        emissions,
        transitions,
        t <= last_frame,
        previous_row,
        LANES,
        LOG,
        PLAIN,
        ALL_STAY,
        DETOURS,
    )
    even, odd = tl.where(t <= last_frame, new_even, even), tl.where(t <= last_frame, new_odd, odd)
    stores = interior & (t <= last_frame)
    if SAVE_ROWS:
        saves = stores & (saved[0] <= t) & (t < saved[1]) if SAVE_SOME else stores
        store_units(saved_rows + t.to(tl.int64) * row_size, even, odd, transitions[6], saves)
    if DETOURS:
        if not SAVE_ROWS:
            store_units(
                ring + (t % ring_frames).to(tl.int64) * row_size + unit,
                even,
                odd,
                transitions[6],
                stores,
            )
        # Threads of other strips read this row at the next frame.
        tl.debug_barrier()
    return even, odd


@jit
def exchange_halo(even, odd, halo_buffer, half, program_strip, strip, lane, active, halo,
                  LANES: tl.constexpr, PROGRAM_STRIPS: tl.constexpr):  # fmt: skip
    """Replace the first `halo` units of every strip by the last `halo` units of the strip below.

    `half` alternates between 0 and 1 from one exchange to the next, so that one barrier per
    exchange is enough: see `row_layout`.
    """
    pointer = halo_buffer + (half * 2 * PROGRAM_STRIPS + program_strip) * halo + lane
    store_units(
        pointer - (LANES - halo), even, odd, PROGRAM_STRIPS * halo, active & (lane >= LANES - halo)
    )
    tl.debug_barrier()
    return load_units(
        pointer - halo, even, odd, PROGRAM_STRIPS * halo, active & (lane < halo) & (strip > 0)
    )


@jit
def exchange_tile_halo(even, odd, edge, edge_stride, tile, strip, lane, active, halo,
                       LANES: tl.constexpr, STRIPS: tl.constexpr, RECOMPUTE: tl.constexpr):  # fmt: skip
    """Exchange the halo between this tile and the one below, which an earlier launch computed.

    No barrier is needed: this tile only stores into its part of `edges`, and only loads what that
    launch stored. Where blocks are recomputed all edges are known, and none is stored, since the
    tile above may be loading it.
    """
    pointer = edge + lane
    if not RECOMPUTE:
        store_units(
            pointer - (LANES - halo),
            even,
            odd,
            halo,
            active & (strip == STRIPS - 1) & (lane >= LANES - halo),
        )
    return load_units(
        pointer - edge_stride,
        even,
        odd,
        halo,
        active & (lane < halo) & (strip == 0) & (lane * 0 + tile > 0),
    )


@jit
def sweep(
    x, wild, centres, emit, flags, numbers, detours, halo_buffer, edges, checkpoints, rows, last_rows, end_exponents,
    ring,
    x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, max_detours,
    tiles, first, diagonal, slots, span_frames, block_frames, edge_blocks, checkpoint_blocks, row_frames, ring_frames,
    halo,
    LANES: tl.constexpr, STRIPS: tl.constexpr, ROWS: tl.constexpr,
    LOG: tl.constexpr, PLAIN: tl.constexpr, ALL_STAY: tl.constexpr, WILD: tl.constexpr, DETOURS: tl.constexpr,
    TILED: tl.constexpr, SAVE_CHECKPOINTS: tl.constexpr, SAVE_ROWS: tl.constexpr, RECOMPUTE: tl.constexpr,
    FALLBACK: tl.constexpr, SIDES: tl.constexpr,
):  # fmt: skip
    """Compute the sums of one span of frames in one tile of states.

    `launches` explains the arguments. The row stays in registers from frame to frame. FALLBACK is
    the second pass, in logarithms, over the utterances for which scaled numbers do not suffice;
    others count as empty in it.

    With two SIDES a program computes both directions of its utterances, and saves the rows of
    block_frames frames, those of its share of the utterance.
    """
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    PROGRAM_STRIPS: tl.constexpr = ROWS * SIDES * STRIPS
    # Frames between two exchanges of halos. One strip has no halo; it only keeps the unrolling by
    # four.
    exchange_frames = tl.maximum(halo, 4)
    thread = tl.arange(0, PROGRAM_STRIPS * LANES)
    lane, program_strip = thread % LANES, thread // LANES
    strip = program_strip % STRIPS
    b = tl.program_id(0) * ROWS + program_strip // STRIPS // SIDES
    if SIDES == 2:
        directions, direction = 2, program_strip // STRIPS % 2
    else:
        directions, direction = tl.num_programs(2), lane * 0 + tl.program_id(2)
    is_forward = direction == 0
    pass_index = b.to(tl.int64) * directions + direction
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=1)
    if FALLBACK:
        length = tl.where(needs_logarithms(end_exponents, b, length, tiles), length, 0)

    # Which tile and which block. The frames computed are start_frame + 1 … last_frame, from the row
    # at start_frame.
    first_block = lane * 0
    if RECOMPUTE:
        launch_tiles = tl.num_programs(1) // slots
        tile, slot = diagonal + tl.program_id(1) % launch_tiles, tl.program_id(1) // launch_tiles
        # Blocks are counted in the pass's own frames. Backward, the frames of forward blocks first
        # … first + slots - 2 begin within a block, hence one block more than forward.
        first_block += tl.where(
            is_forward,
            first,
            tl.maximum(length - (first + slots - 1) * span_frames, 0) // span_frames,
        )
        length = tl.where((slot + lane * 0 < slots - 1) | ~is_forward, length, 0)
        block = first_block + slot
    else:
        tile = first + tl.program_id(1)
        block = first_block + (diagonal - tile)
    start_frame = block * span_frames
    # Recomputed, a block that begins at the last frame computes nothing, but must store that
    # frame's row.
    active = (length > 0) & ((block == 0) | (start_frame < length - (0 if RECOMPUTE else 1)))
    last_frame = tl.minimum(start_frame + span_frames, length - 1)
    frame_count = tl.max(tl.where(active, last_frame - start_frame, 0))

    # The states of each thread, what they emit, and how they are entered. Backward, unit u holds
    # the states mirrored from 2u and 2u + 1, paths begin where they may end, and a skip into state
    # s + 2 is one out of state s.
    unit = (tile * STRIPS + strip) * (LANES - halo) + lane - halo
    row_units = tiles * STRIPS * (LANES - halo)
    interior = active & (lane >= halo)
    exists = active & (unit >= 0) & (2 * unit < size), active & (unit >= 0) & (2 * unit + 1 < size)
    even_index, odd_index = (
        2 * unit + direction * (size - 1 - 4 * unit),
        2 * unit + 1 + direction * (size - 3 - 4 * unit),
    )
    state_offset = b.to(tl.int64) * width
    classes = (
        tl.load(emit + state_offset + even_index, mask=exists[0], other=0),
        tl.load(emit + state_offset + odd_index, mask=exists[1], other=0),
    )
    even_flags = tl.load(flags + state_offset + even_index, mask=exists[0], other=0).to(tl.int32)
    odd_flags = tl.load(flags + state_offset + odd_index, mask=exists[1], other=0).to(tl.int32)
    begin_flag = BEGIN + direction * (END - BEGIN)
    skip_flags = flags + state_offset + 2 * direction
    may_skip = (
        (tl.load(skip_flags + even_index, mask=exists[0] & (unit > 0), other=0).to(tl.int32) & SKIP)
        != 0,
        (tl.load(skip_flags + odd_index, mask=exists[1] & (unit > 0), other=0).to(tl.int32) & SKIP)
        != 0,
    )
    detours += ((direction * batch + b).to(tl.int64) * width + 2 * unit) * max_detours
    may_stay = (even_flags & STAY) != 0, (odd_flags & STAY) != 0
    transitions = (
        lane,
        may_stay,
        may_skip,
        (detours, detours + max_detours),
        exists,
        max_detours,
        row_units,
    )

    # Addresses.
    x += b.to(tl.int64) * x_b
    bases = (
        x + tl.maximum(classes[0], 0).to(tl.int64) * x_c,
        x + tl.maximum(classes[1], 0).to(tl.int64) * x_c,
        centres + b.to(tl.int64) * frames,
        wild + b.to(tl.int64) * wild_b,
    )
    source = bases, classes, exists, (x_t, wild_t), last_frame, length, direction
    checkpoint = checkpoints + pass_index * checkpoint_blocks * 2 * row_units + unit
    ring += pass_index * ring_frames * 2 * row_units
    saved_rows = rows + (pass_index * row_frames - first_block * span_frames) * 2 * row_units + unit
    # Recomputed blocks run side by side in one launch, and a block's last row is the next block's
    # first: only the next block stores it, else two programs would race for it.
    saved = start_frame, start_frame + span_frames
    if SIDES == 2:
        share = tl.program_id(2) * block_frames
        first_saved = tl.where(is_forward, share, length - share - block_frames)
        saved = first_saved, first_saved + block_frames
    buffers = interior, last_frame, saved_rows, saved, ring, ring_frames, unit
    program = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    program = program.to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    halo_buffer += program * 4 * PROGRAM_STRIPS * halo
    # Edges of two blocks alternate: in one launch a tile stores those of block n, and the tile
    # above loads n - 1.
    # Where blocks are to be recomputed, the edges of all blocks are kept.
    if TILED:
        edge_stride = edge_blocks * (span_frames // halo) * 2 * halo
        edges += (pass_index * tiles + tile) * edge_stride + (block % edge_blocks) * (
            span_frames // halo
        ) * 2 * halo

    # The row at start_frame: where a path may begin, or the checkpoint.
    emissions = load_emissions(source, start_frame, LOG, WILD)
    even = tl.where(
        (even_flags & begin_flag) != 0, emission(emissions[0], emissions[2], LOG), NEVER
    )
    odd = tl.where((odd_flags & begin_flag) != 0, emission(emissions[1], emissions[2], LOG), NEVER)
    if TILED or RECOMPUTE:
        resumes = active & (block > 0) & (unit >= 0)
        checkpoint_row = checkpoint + block.to(tl.int64) * 2 * row_units
        even = tl.where(block > 0, tl.load(checkpoint_row, mask=resumes, other=NEVER), even)
        odd = tl.where(
            block > 0, tl.load(checkpoint_row + row_units, mask=resumes, other=NEVER), odd
        )
    if SAVE_ROWS:
        store_units(
            saved_rows + start_frame.to(tl.int64) * 2 * row_units, even, odd, row_units,
            interior & (RECOMPUTE | (block == 0)) & (saved[0] <= start_frame) & (saved[1] > start_frame),
        )  # fmt: skip
    if DETOURS:
        if not SAVE_ROWS:
            store_units(
                ring + (start_frame % ring_frames).to(tl.int64) * 2 * row_units + unit,
                even,
                odd,
                row_units,
                interior,
            )
        tl.debug_barrier()

    # Emissions are loaded four frames ahead, one variable per frame of four: loaded when needed,
    # they would cost their whole latency at every frame, since a row depends on the one before.
    invalid = is_invalid(emissions)
    t = start_frame + 1
    emissions_1, emissions_2 = (
        load_emissions(source, t, LOG, WILD),
        load_emissions(source, t + 1, LOG, WILD),
    )
    emissions_3, emissions_4 = (
        load_emissions(source, t + 2, LOG, WILD),
        load_emissions(source, t + 3, LOG, WILD),
    )
    for m in range(tl.cdiv(frame_count, exchange_frames)):
        if STRIPS > 1:
            even, odd = exchange_halo(
                even,
                odd,
                halo_buffer,
                m % 2,
                program_strip,
                strip,
                lane,
                active,
                halo,
                LANES,
                PROGRAM_STRIPS,
            )
        if TILED:
            edge = edges + m * 2 * halo
            even, odd = exchange_tile_halo(
                even,
                odd,
                edge,
                edge_stride,
                tile,
                strip,
                lane,
                active,
                halo,
                LANES,
                STRIPS,
                RECOMPUTE,
            )
        for j in range(0, exchange_frames, 4):
            t = start_frame + m * exchange_frames + j + 1
            invalid |= is_invalid(emissions_1)
            even, odd = advance_row(
                even, odd, emissions_1, t, transitions, buffers, LANES, LOG, PLAIN, ALL_STAY, DETOURS, SAVE_ROWS,
                RECOMPUTE | (SIDES == 2),
            )  # fmt: skip
            emissions_1 = load_emissions(source, t + 4, LOG, WILD)
            invalid |= is_invalid(emissions_2)
            even, odd = advance_row(
                even, odd, emissions_2, t + 1, transitions, buffers, LANES, LOG, PLAIN, ALL_STAY, DETOURS, SAVE_ROWS,
                RECOMPUTE | (SIDES == 2),
            )  # fmt: skip
            emissions_2 = load_emissions(source, t + 5, LOG, WILD)
            invalid |= is_invalid(emissions_3)
            even, odd = advance_row(
                even, odd, emissions_3, t + 2, transitions, buffers, LANES, LOG, PLAIN, ALL_STAY, DETOURS, SAVE_ROWS,
                RECOMPUTE | (SIDES == 2),
            )  # fmt: skip
            emissions_3 = load_emissions(source, t + 6, LOG, WILD)
            invalid |= is_invalid(emissions_4)
            even, odd = advance_row(
                even, odd, emissions_4, t + 3, transitions, buffers, LANES, LOG, PLAIN, ALL_STAY, DETOURS, SAVE_ROWS,
                RECOMPUTE | (SIDES == 2),
            )  # fmt: skip
            emissions_4 = load_emissions(source, t + 7, LOG, WILD)
            # The checkpoint from which block t / block_frames starts (blocks are multiples of four
            # frames).
            if SAVE_CHECKPOINTS:
                stores = interior & (t + 3 <= last_frame) & ((t + 3) % block_frames == 0)
                store_units(
                    checkpoint + ((t + 3) // block_frames).to(tl.int64) * 2 * row_units,
                    even,
                    odd,
                    row_units,
                    stores,
                )

    if not RECOMPUTE:
        stores_last = interior & (last_frame == length - 1) & is_forward
        store_units(
            last_rows + b.to(tl.int64) * 2 * row_units + unit, even, odd, row_units, stores_last
        )
        # The largest exponent among final states, over all tiles and blocks: it decides on the pass
        # in logarithms.
        if not LOG:
            best = tl.maximum(
                tl.where(
                    stores_last & ((even_flags & END) != 0), exponent_of(even), NEVER_EXPONENT
                ),
                tl.where(stores_last & ((odd_flags & END) != 0), exponent_of(odd), NEVER_EXPONENT),
            )
            best = tl.where(invalid, INVALID_EXPONENT, best)
            best = tl.max(tl.reshape(best, (ROWS * SIDES, STRIPS * LANES)), 1)
            has_value = tl.reshape(
                (active & is_forward).to(tl.int32), (ROWS * SIDES, STRIPS * LANES)
            )
            has_value = tl.max(has_value, 1) > 0
            utterances = tl.program_id(0) * ROWS + tl.arange(0, ROWS * SIDES) // SIDES
            pointer = end_exponents + utterances * tiles + tile
            if TILED:
                later_block = has_value & (utterances * 0 + diagonal > tile)
                best = tl.maximum(best, tl.load(pointer, mask=later_block, other=NEVER_EXPONENT))
            tl.store(pointer, best, mask=has_value)
