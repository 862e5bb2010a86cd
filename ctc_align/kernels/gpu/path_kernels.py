"""Viterbi on the GPU: the forward pass with back-pointers, and the trace-back.

    row[0, s] = x[0, s] where a path may begin, else -inf
    row[t, s] = x[t, s] + max(row[t-1, s] if stay[s], row[t-1, s-1], row[t-1, s-2] if skip[s],
    detours)

The first of equal alternatives wins: stay, step, skip, then the detours in their order.

Rows are float64. Nothing has to be re-centred, ties and near ties are decided as in the reference,
and the score is the sum along the path. In float32, rounding would decide near ties.

Origins. Besides its score a state carries its origin: the state in which its best path was at the
start of the current block of frames. Without origins the trace-back would be one chain of dependent
loads over all frames. With them it goes from block to block by one load each (`block_ends`), and
then through all blocks at once (`trace_blocks`).

Back-pointers. The winning alternative of a state takes BITS bits (0 stay, 1 step, 2 skip, 3 + k
detour k). Four frames share a word, so that a thread stores one word per state every four frames.

Recomputing. Back-pointers that do not fit in memory are not saved. The first pass then saves the
first row of each block, its checkpoint. Once the end states of blocks are known, a program computes
each block again from its checkpoint and saves only that block's back-pointers, in the window of
states from which the block's end state can be reached: a path rises by at most one unit per frame.

`row_layout` says how threads share a row, and why there is no race.
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
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

NEVER = constant(float("-inf"))


@jit
def load_emissions(source, t, WILD: tl.constexpr, BANDED: tl.constexpr):
    """Load the emissions of both states of a unit at frame t, and the frame's band (end exclusive).

    Nothing is loaded beyond the block's last frame: emissions are requested ahead, and padding may
    be NaN.
    """
    bases, classes, exists, strides, last_frame = source
    even_mask, odd_mask = exists[0] & (t <= last_frame), exists[1] & (t <= last_frame)
    offset = t.to(tl.int64) * strides[0]
    even = tl.load(bases[0] + offset, mask=even_mask, other=0.0).to(tl.float64)
    odd = tl.load(bases[1] + offset, mask=odd_mask, other=0.0).to(tl.float64)
    if WILD:
        offset = t.to(tl.int64) * strides[1]
        even_wild, odd_wild = classes[0] < 0, classes[1] < 0
        even = tl.where(
            even_wild,
            tl.load(bases[2] + offset, mask=even_mask & even_wild, other=0.0).to(tl.float64),
            even,
        )
        odd = tl.where(
            odd_wild,
            tl.load(bases[2] + offset, mask=odd_mask & odd_wild, other=0.0).to(tl.float64),
            odd,
        )
    low, high = classes[0], classes[0]
    if BANDED:
        low = tl.load(bases[3] + 2 * t.to(tl.int64), mask=even_mask | odd_mask, other=0)
        high = tl.load(bases[3] + 2 * t.to(tl.int64) + 1, mask=even_mask | odd_mask, other=0)
    return even, odd, low, high


@jit
def best_of_two(best, origin, choice, value, value_origin, value_choice):
    """Return the better of two alternatives with its origin and its choice.

    The second wins only if greater, or NaN.

    "Greater", not "greater or equal": of ties the first alternative wins, by contract. NaN always
    wins, so that an invalid emission on any path reaches the score.
    """
    wins = (value > best) | (value != value)
    return (
        tl.where(wins, value, best),
        tl.where(wins, value_origin, origin),
        tl.where(wins, value_choice, choice),
    )


@jit
def best_of_detours(
    best, origin, choice, table, exists, max_detours, previous_row, previous_origins, row_units
):
    """Return the best of `best` and the scores that enter one state per lane by its detours.

    A detour's score is row[t-1, source]."""
    for rank in range(max_detours):
        source_state = tl.load(table + rank, mask=exists, other=-1)
        offset = (source_state & 1) * row_units + (source_state >> 1)
        value = tl.load(previous_row + offset, mask=source_state >= 0, other=NEVER)
        value_origin = tl.load(previous_origins + offset, mask=source_state >= 0, other=0)
        best, origin, choice = best_of_two(best, origin, choice, value, value_origin, 3 + rank)
    return best, origin, choice


@jit
def compute_row(even, odd, even_origin, odd_origin, emissions, transitions, in_block, previous_row, previous_origins,
                LANES: tl.constexpr, PLAIN: tl.constexpr, ALL_STAY: tl.constexpr, DETOURS: tl.constexpr,
                BANDED: tl.constexpr):  # fmt: skip
    """Return a frame's row from the previous row, with origins and winning alternatives.

        even[u] = x + max(even[u] if stay, odd[u-1], even[u-1] if skip, detours)
        odd[u]  = x + max(odd[u] if stay, even[u], odd[u-1] if skip, detours)

    `previous_row` and `previous_origins` are read by detours only; all else is in registers.
    """
    lane, unit, may_stay, may_skip, detour_tables, exists, max_detours, row_units = transitions
    # The first lane has no lane below: it is the lowest unit, or a halo unit that is refreshed
    # before it matters.
    is_first_lane = lane == 0
    odd_below = tl.where(is_first_lane, NEVER, shift_up(odd, lane, LANES))
    odd_below_origin = shift_up(odd_origin, lane, LANES)
    new_even, new_odd = even, odd
    if not ALL_STAY:
        new_even, new_odd = tl.where(may_stay[0], even, NEVER), tl.where(may_stay[1], odd, NEVER)
    # Choice 0 is to stay, 1 to step, 2 to skip.
    even_choice, odd_choice = lane * 0, lane * 0
    new_even, new_even_origin, even_choice = best_of_two(
        new_even, even_origin, even_choice, odd_below, odd_below_origin, 1
    )
    new_odd, new_odd_origin, odd_choice = best_of_two(
        new_odd, odd_origin, odd_choice, even, even_origin, 1
    )
    skip = tl.where(may_skip[1], odd_below, NEVER)
    new_odd, new_odd_origin, odd_choice = best_of_two(
        new_odd, new_odd_origin, odd_choice, skip, odd_below_origin, 2
    )
    # PLAIN: no even state is skipped into, as in CTC, whose even states are blanks.
    if not PLAIN:
        skip = tl.where(is_first_lane | ~may_skip[0], NEVER, shift_up(even, lane, LANES))
        skip_origin = shift_up(even_origin, lane, LANES)
        new_even, new_even_origin, even_choice = best_of_two(
            new_even, new_even_origin, even_choice, skip, skip_origin, 2
        )
    if DETOURS:
        new_even, new_even_origin, even_choice = best_of_detours(
            new_even, new_even_origin, even_choice, detour_tables[0], exists[0] & in_block, max_detours, previous_row,
            previous_origins, row_units,
        )  # fmt: skip
        new_odd, new_odd_origin, odd_choice = best_of_detours(
            new_odd, new_odd_origin, odd_choice, detour_tables[1], exists[1] & in_block, max_detours, previous_row,
            previous_origins, row_units,
        )  # fmt: skip
    # A state that no path reaches stays at -inf, even if it emits NaN or +inf.
    new_even = tl.where(new_even == NEVER, NEVER, new_even + emissions[0])
    new_odd = tl.where(new_odd == NEVER, NEVER, new_odd + emissions[1])
    if BANDED:
        new_even = tl.where((emissions[2] <= 2 * unit) & (2 * unit < emissions[3]), new_even, NEVER)
        new_odd = tl.where(
            (emissions[2] <= 2 * unit + 1) & (2 * unit + 1 < emissions[3]), new_odd, NEVER
        )
    return new_even, new_odd, new_even_origin, new_odd_origin, even_choice, odd_choice


@jit
def advance_row(row, words, emissions, t, word_slot, transitions, buffers,
                LANES: tl.constexpr, PLAIN: tl.constexpr, ALL_STAY: tl.constexpr, DETOURS: tl.constexpr,
                BANDED: tl.constexpr, BITS: tl.constexpr):  # fmt: skip
    """Advance the row from frame t - 1 to t, and put its back-pointers into the words.

    `word_slot` (0 to 3) is the frame's position among the four of a word. Beyond the block's last
    frame the row keeps its values, while other utterances of the program go on.
    """
    even, odd, even_origin, odd_origin = row
    interior, last_frame, ring, ring_origins, ring_frames = buffers
    row_size = 2 * transitions[7]
    previous_offset = ((t - 1) % ring_frames).to(tl.int64) * row_size
    new_even, new_odd, new_even_origin, new_odd_origin, even_choice, odd_choice = compute_row(
        even, odd, even_origin, odd_origin, emissions, transitions, t <= last_frame,
        ring + previous_offset, ring_origins + previous_offset,
        LANES, PLAIN, ALL_STAY, DETOURS, BANDED,
    )  # fmt: skip
    in_block = t <= last_frame
    even, odd = tl.where(in_block, new_even, even), tl.where(in_block, new_odd, odd)
    even_origin = tl.where(in_block, new_even_origin, even_origin)
    odd_origin = tl.where(in_block, new_odd_origin, odd_origin)
    even_word = words[0] | (even_choice.to(words[0].dtype) << (BITS * word_slot))
    odd_word = words[1] | (odd_choice.to(words[1].dtype) << (BITS * word_slot))
    if DETOURS:
        offset = (t % ring_frames).to(tl.int64) * row_size + transitions[1]
        store_units(ring + offset, even, odd, transitions[7], interior & in_block)
        store_units(
            ring_origins + offset, even_origin, odd_origin, transitions[7], interior & in_block
        )
        # Threads of other strips read this row at the next frame, by detours.
        tl.debug_barrier()
    return (even, odd, even_origin, odd_origin), (even_word, odd_word)


@jit
def exchange_halo(row, halo_buffer, halo_origins, half, program_strip, strip, lane, active, halo,
                  LANES: tl.constexpr, PROGRAM_STRIPS: tl.constexpr):  # fmt: skip
    """Replace the first `halo` units of every strip by the last `halo` units of the strip below.

    `half` alternates between 0 and 1 from one exchange to the next, so that one barrier per
    exchange is enough: see `row_layout`.
    """
    even, odd, even_origin, odd_origin = row
    offset = (half * 2 * PROGRAM_STRIPS + program_strip) * halo + lane
    sends, receives = active & (lane >= LANES - halo), active & (lane < halo) & (strip > 0)
    store_units(halo_buffer + offset - (LANES - halo), even, odd, PROGRAM_STRIPS * halo, sends)
    store_units(
        halo_origins + offset - (LANES - halo),
        even_origin,
        odd_origin,
        PROGRAM_STRIPS * halo,
        sends,
    )
    tl.debug_barrier()
    even, odd = load_units(halo_buffer + offset - halo, even, odd, PROGRAM_STRIPS * halo, receives)
    even_origin, odd_origin = load_units(
        halo_origins + offset - halo, even_origin, odd_origin, PROGRAM_STRIPS * halo, receives
    )
    return even, odd, even_origin, odd_origin


@jit
def exchange_tile_halo(row, edges, edge_origins, edge_stride, tile, strip, lane, active, halo,
                       LANES: tl.constexpr, STRIPS: tl.constexpr):  # fmt: skip
    """Exchange the halo between this tile and the one below, which an earlier launch computed.

    No barrier is needed: this tile only stores into its part of `edges`, and only loads what that
    launch stored.
    """
    even, odd, even_origin, odd_origin = row
    sends = active & (strip == STRIPS - 1) & (lane >= LANES - halo)
    receives = active & (lane < halo) & (strip == 0) & (lane * 0 + tile > 0)
    store_units(edges + lane - (LANES - halo), even, odd, halo, sends)
    store_units(edge_origins + lane - (LANES - halo), even_origin, odd_origin, halo, sends)
    even, odd = load_units(edges + lane - edge_stride, even, odd, halo, receives)
    even_origin, odd_origin = load_units(
        edge_origins + lane - edge_stride, even_origin, odd_origin, halo, receives
    )
    return even, odd, even_origin, odd_origin


@jit
def sweep(
    x, wild, bands, emit, flags, numbers, detours, halo_buffer, halo_origins, edges, edge_origins, checkpoints, origins,
    pointers, last_rows, ring, ring_origins, end_states,
    x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, max_detours,
    tiles, first, diagonal, slots, span_frames, block_frames, blocks, row_units, word_rows, ring_frames, halo,
    LANES: tl.constexpr, STRIPS: tl.constexpr, ROWS: tl.constexpr, BITS: tl.constexpr,
    PLAIN: tl.constexpr, ALL_STAY: tl.constexpr, WILD: tl.constexpr, DETOURS: tl.constexpr, BANDED: tl.constexpr,
    TILED: tl.constexpr, SAVE_CHECKPOINTS: tl.constexpr, SAVE_POINTERS: tl.constexpr, RECOMPUTE: tl.constexpr,
):  # fmt: skip
    """Compute the best scores of one span of frames in one tile of states.

    `launches` explains the arguments."""
    PROGRAM_STRIPS: tl.constexpr = ROWS * STRIPS
    # Frames between two exchanges of halos. One strip has no halo; it only keeps the unrolling by
    # four.
    exchange_frames = tl.maximum(halo, 4)
    thread = tl.arange(0, PROGRAM_STRIPS * LANES)
    lane, program_strip = thread % LANES, thread // LANES
    strip = program_strip % STRIPS
    b = tl.program_id(0) * ROWS + program_strip // STRIPS
    utterance = b.to(tl.int64)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=1)

    # Which tile and which block. The frames computed are start_frame + 1 … last_frame, from the row
    # at start_frame. `row_units` counts the units of a whole row.
    first_unit = lane * 0
    slot = 0
    if RECOMPUTE:
        slot = tl.program_id(1)
        block = first_unit + (first + slot)
        end_state = tl.load(
            end_states + utterance * blocks + block,
            mask=(length > 0) & ((block == 0) | (block * block_frames < length - 1)),
            other=-1,
        )
        length = tl.where(end_state >= 0, length, 0)
        tile = 0
        # A row longer than a tile: only a window below the end state, as wide as a path can rise
        # within the block.
        if row_units > STRIPS * (LANES - halo):
            first_unit = tl.maximum(end_state // 2 - block_frames, 0)
    else:
        tile = first + tl.program_id(1)
        block = first_unit + (diagonal - tile)
    start_frame = block * span_frames
    active = (length > 0) & ((block == 0) | (start_frame < length - 1))
    last_frame = tl.minimum(start_frame + span_frames, length - 1)
    frame_count = tl.max(tl.where(active, last_frame - start_frame, 0))

    # The states of each thread, what they emit, and how they are entered.
    tile_unit = (tile * STRIPS + strip) * (LANES - halo) + lane - halo
    unit = first_unit + tile_unit
    interior = active & (lane >= halo)
    exists = active & (unit >= 0) & (2 * unit < size), active & (unit >= 0) & (2 * unit + 1 < size)
    state_offset = utterance * width + 2 * unit
    classes = (
        tl.load(emit + state_offset, mask=exists[0], other=0),
        tl.load(emit + state_offset + 1, mask=exists[1], other=0),
    )
    even_flags = tl.load(flags + state_offset, mask=exists[0], other=0).to(tl.int32)
    odd_flags = tl.load(flags + state_offset + 1, mask=exists[1], other=0).to(tl.int32)
    may_stay = (even_flags & STAY) != 0, (odd_flags & STAY) != 0
    may_skip = (unit > 0) & ((even_flags & SKIP) != 0), (unit > 0) & ((odd_flags & SKIP) != 0)
    detours += state_offset * max_detours
    transitions = (
        lane,
        unit,
        may_stay,
        may_skip,
        (detours, detours + max_detours),
        exists,
        max_detours,
        row_units,
    )

    # Addresses.
    x += utterance * x_b
    bases = (
        x + tl.maximum(classes[0], 0).to(tl.int64) * x_c,
        x + tl.maximum(classes[1], 0).to(tl.int64) * x_c,
        wild + utterance * wild_b,
        bands + utterance * frames * 2,
    )
    source = bases, classes, exists, (x_t, wild_t), last_frame
    ring += (utterance * slots + slot) * ring_frames * 2 * row_units
    ring_origins += (utterance * slots + slot) * ring_frames * 2 * row_units
    buffers = interior, last_frame, ring, ring_origins, ring_frames
    checkpoint = checkpoints + utterance * blocks * 2 * row_units + unit
    origins += utterance * blocks * 2 * row_units + unit
    program = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    halo_buffer += program * 4 * PROGRAM_STRIPS * halo
    halo_origins += program * 4 * PROGRAM_STRIPS * halo
    # Edges of two blocks alternate: in one launch a tile stores those of block n, and the tile
    # above loads n - 1.
    if TILED:
        edge_stride = 2 * (span_frames // halo) * 2 * halo
        edge = (utterance * tiles + tile) * edge_stride + (block % 2) * (
            span_frames // halo
        ) * 2 * halo
        edges += edge
        edge_origins += edge
    if RECOMPUTE:
        word_units = STRIPS * (LANES - halo)
        pointers += (utterance * slots + slot) * word_rows * 2 * word_units + tile_unit
    else:
        word_units = row_units
        pointers += utterance * word_rows * 2 * word_units + tile_unit

    # The row at start_frame: where a path may begin, or the checkpoint. Origins start as the states
    # themselves.
    emissions = load_emissions(source, start_frame, WILD, BANDED)
    even = tl.where((even_flags & BEGIN) != 0, emissions[0], NEVER)
    odd = tl.where((odd_flags & BEGIN) != 0, emissions[1], NEVER)
    if BANDED:
        even = tl.where((emissions[2] <= 2 * unit) & (2 * unit < emissions[3]), even, NEVER)
        odd = tl.where((emissions[2] <= 2 * unit + 1) & (2 * unit + 1 < emissions[3]), odd, NEVER)
    if TILED or RECOMPUTE:
        resumes = active & (block > 0) & (unit >= 0) & (unit < row_units)
        checkpoint_row = checkpoint + block.to(tl.int64) * 2 * row_units
        even = tl.where(block > 0, tl.load(checkpoint_row, mask=resumes, other=NEVER), even)
        odd = tl.where(
            block > 0, tl.load(checkpoint_row + row_units, mask=resumes, other=NEVER), odd
        )
    row = even, odd, 2 * unit, 2 * unit + 1
    if DETOURS:
        ring_offset = (start_frame % ring_frames).to(tl.int64) * 2 * row_units + unit
        store_units(ring + ring_offset, even, odd, row_units, interior)
        store_units(ring_origins + ring_offset, 2 * unit, 2 * unit + 1, row_units, interior)
        tl.debug_barrier()

    # Emissions are loaded four frames ahead, one variable per frame of a word: loaded when needed,
    # they would cost their whole latency at every frame, since a row depends on the one before.
    emissions_1, emissions_2 = (
        load_emissions(source, start_frame + 1, WILD, BANDED),
        load_emissions(source, start_frame + 2, WILD, BANDED),
    )
    emissions_3, emissions_4 = (
        load_emissions(source, start_frame + 3, WILD, BANDED),
        load_emissions(source, start_frame + 4, WILD, BANDED),
    )
    for m in range(tl.cdiv(frame_count, exchange_frames)):
        if STRIPS > 1:
            row = exchange_halo(
                row,
                halo_buffer,
                halo_origins,
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
            edge_offset = m * 2 * halo
            row = exchange_tile_halo(
                row, edges + edge_offset, edge_origins + edge_offset, edge_stride, tile, strip, lane, active, halo,
                LANES, STRIPS,
            )  # fmt: skip
        for j in range(0, exchange_frames, 4):
            t = start_frame + m * exchange_frames + j + 1
            words = (
                (lane * 0).to(pointers.dtype.element_ty),
                (lane * 0).to(pointers.dtype.element_ty),
            )
            row, words = advance_row(
                row,
                words,
                emissions_1,
                t,
                0,
                transitions,
                buffers,
                LANES,
                PLAIN,
                ALL_STAY,
                DETOURS,
                BANDED,
                BITS,
            )
            emissions_1 = load_emissions(source, t + 4, WILD, BANDED)
            row, words = advance_row(
                row,
                words,
                emissions_2,
                t + 1,
                1,
                transitions,
                buffers,
                LANES,
                PLAIN,
                ALL_STAY,
                DETOURS,
                BANDED,
                BITS,
            )
            emissions_2 = load_emissions(source, t + 5, WILD, BANDED)
            row, words = advance_row(
                row,
                words,
                emissions_3,
                t + 2,
                2,
                transitions,
                buffers,
                LANES,
                PLAIN,
                ALL_STAY,
                DETOURS,
                BANDED,
                BITS,
            )
            emissions_3 = load_emissions(source, t + 6, WILD, BANDED)
            row, words = advance_row(
                row,
                words,
                emissions_4,
                t + 3,
                3,
                transitions,
                buffers,
                LANES,
                PLAIN,
                ALL_STAY,
                DETOURS,
                BANDED,
                BITS,
            )
            emissions_4 = load_emissions(source, t + 7, WILD, BANDED)
            if SAVE_POINTERS:
                word = (m * exchange_frames + j) // 4 + (0 if RECOMPUTE else start_frame // 4)
                store_units(
                    pointers + word.to(tl.int64) * 2 * word_units, words[0], words[1], word_units,
                    interior & (t <= last_frame),
                )  # fmt: skip
            if not RECOMPUTE:
                # Where a block of the trace-back ends (always at a multiple of four frames), store
                # the origins, then start again with each state as its origin.
                ends_block = (t + 3 <= last_frame) & ((t + 3) % block_frames == 0)
                stores = interior & ends_block
                next_block = (t + 3) // block_frames
                store_units(
                    origins + (next_block - 1).to(tl.int64) * 2 * row_units,
                    row[2],
                    row[3],
                    row_units,
                    stores,
                )
                if SAVE_CHECKPOINTS:
                    store_units(
                        checkpoint + next_block.to(tl.int64) * 2 * row_units, row[0], row[1], row_units,
                        stores & (t + 3 < length - 1),
                    )  # fmt: skip
                row = (
                    row[0],
                    row[1],
                    tl.where(ends_block, 2 * unit, row[2]),
                    tl.where(ends_block, 2 * unit + 1, row[3]),
                )
                if DETOURS:
                    ring_offset = ((t + 3) % ring_frames).to(tl.int64) * 2 * row_units + unit
                    # The ring holds the row's former origins: detours of the next frame must read
                    # the new ones.
                    store_units(ring_origins + ring_offset, row[2], row[3], row_units, stores)
                    tl.debug_barrier()
    if not RECOMPUTE:
        stores_last = interior & (last_frame == length - 1)
        store_units(
            last_rows + utterance * 2 * row_units + unit, row[0], row[1], row_units, stores_last
        )
        # The last block ends with the utterance, unless it ended above.
        partial = stores_last & (last_frame > 0) & (last_frame % block_frames != 0)
        store_units(
            origins + (last_frame // block_frames).to(tl.int64) * 2 * row_units,
            row[2],
            row[3],
            row_units,
            partial,
        )


@jit
def block_ends(
    flags, numbers, last_rows, origins, end_states, scores, batch, width, row_units, block_frames, blocks,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Write the scores (B,) and the best path's state at the end of each block.

    The states go to `end_states` (B, blocks).

    The last state is the highest of the best final states; then origins lead from block to block.
    -1 where no path is.
    """
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    empty = tl.load(numbers + 2 * batch + b, mask=b < batch, other=0)
    last_rows += b.to(tl.int64) * 2 * row_units

    # In each lane the last of the best states, then the last over the lanes. NaN makes the score
    # NaN: a comparison
    # with NaN is false, so it is remembered apart.
    best = tl.full((ROWS, STEP), float("-inf"), tl.float64)
    best_state = tl.full((ROWS, STEP), -1, tl.int32)
    has_nan = tl.zeros((ROWS, STEP), tl.int32)
    for first_state in range(0, tl.max(size), STEP):
        state = first_state + tl.zeros((ROWS, 1), tl.int32) + tl.arange(0, STEP)[None, :]
        exists = (state < size[:, None]) & (length[:, None] > 0)
        flag = tl.load(flags + b.to(tl.int64)[:, None] * width + state, mask=exists, other=0).to(
            tl.int32
        )
        final = exists & ((flag & END) != 0)
        value = tl.load(
            last_rows[:, None] + (state & 1) * row_units + (state >> 1),
            mask=final,
            other=float("-inf"),
        )
        wins = final & (value >= best)
        best, best_state = tl.where(wins, value, best), tl.where(wins, state, best_state)
        has_nan = tl.where(value != value, 1, has_nan)
    score = tl.max(best, 1)
    state = tl.max(tl.where(best == score[:, None], best_state, -1), 1)
    score = tl.where((tl.max(has_nan, 1) > 0) | (score == float("inf")), float("nan"), score)
    score = tl.where(length > 0, score, tl.where(empty > 0, 0.0, float("-inf")))
    tl.store(scores + b, score, mask=b < batch)

    has_path = (length > 0) & (score > float("-inf"))
    state = tl.where(has_path, state, -1)
    # end_states[n - 1] = origins[n, end_states[n]]
    last_block = tl.maximum(length - 2, 0) // block_frames
    end_states += b.to(tl.int64) * blocks
    origins += b.to(tl.int64) * blocks * 2 * row_units
    for k in range(tl.max(last_block) + 1):
        block = last_block - k
        exists = (length > 0) & (block >= 0)
        tl.store(end_states + block, state, mask=exists)
        offset = block.to(tl.int64) * 2 * row_units + (state & 1) * row_units + (state >> 1)
        state = tl.where(
            state >= 0,
            tl.load(origins + offset, mask=exists & (block > 0) & (state >= 0), other=-1),
            -1,
        )


@jit
def trace_blocks(
    numbers, end_states, pointers, detours, states, batch, frames, width, max_detours, first_block, slots, block_frames,
    blocks, row_units, window_units, word_rows,
    PAIRS: tl.constexpr, BITS: tl.constexpr, RECOMPUTE: tl.constexpr,
):  # fmt: skip
    """Write the best path's states (B, T) in the blocks first_block … first_block + slots - 1.

    A thread traces one block of one utterance back from its end state: s[t-1] = s[t] - choice, or
    the detour's source.
    """
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    b, block = pair // slots, first_block + pair % slots
    length = tl.load(numbers + b, mask=b < batch, other=0)
    start_frame = block * block_frames
    active = (length > 0) & ((block == 0) | (start_frame < length - 1))
    state = tl.load(end_states + b.to(tl.int64) * blocks + block, mask=active, other=-1)
    active = active & (state >= 0)
    last_frame = tl.minimum(start_frame + block_frames, length - 1)
    states += b.to(tl.int64) * frames
    detours += b.to(tl.int64) * width * max_detours
    first_unit = state * 0
    if RECOMPUTE:
        if window_units < row_units:
            first_unit = tl.maximum(state // 2 - block_frames, 0)
        pointers += pair.to(tl.int64) * word_rows * 2 * window_units
        units = window_units
        first_saved = start_frame
    else:
        pointers += b.to(tl.int64) * word_rows * 2 * row_units
        units = row_units
        first_saved = state * 0
    for k in range(tl.max(tl.where(active, last_frame - start_frame, 0))):
        t = last_frame - k
        in_block = active & (t > start_frame)
        tl.store(states + t, state, mask=in_block)
        word = (
            ((t - 1 - first_saved) // 4).to(tl.int64) * 2 * units
            + (state & 1) * units
            + (state >> 1)
            - first_unit
        )
        choice = tl.load(pointers + word, mask=in_block, other=0)
        # The choice of frame t is number (t - 1) % 4 of its word: a block's first computed frame
        # begins a word.
        choice = ((choice >> (((t - 1) % 4) * BITS).to(choice.dtype)) & ((1 << BITS) - 1)).to(
            tl.int32
        )
        lower_state = state - choice
        by_detour = in_block & (choice > 2)
        detour_source = tl.load(
            detours + state.to(tl.int64) * max_detours + choice - 3, mask=by_detour, other=0
        )
        state = tl.where(in_block, tl.where(by_detour, detour_source, lower_state), state)
    tl.store(states + start_frame, state, mask=active & (block == 0))
