"""Sums over paths on the device: forwards, and at the same time backwards, as the same pass over the mirrored topology.

    row[t, s] = x[t, s] * (row[t-1, s] if stay[s] + row[t-1, s-1] + row[t-1, s-2] if skip[s] + detours)

Backward, state s counts as S-1-s, frame t as T-1-t and skip[s] as skip[s+2]. Numbers are those of `sum_numbers`, x is
relative to the centres of `posterior_kernels`; how threads share a row without a race: see `row_layout`.
A program walks the frames (start, start + span] of one tile of states, its row in registers all the while.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.row_layout import BEGIN, END, SKIP, STAY, put, shift, take
from ctc_align.kernels.gpu.sum_numbers import (
    FAR_EXPONENT,
    NEVER_EXPONENT,
    NEVER_LOG,
    NEVER_SCALED,
    emission,
    exponent_of,
    plus,
    weighted_pair,
    weighted_sum,
)
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

MOST_SCALED_FRAMES = constant(2**24)
MET_NO_NUMBER = constant(2**30)
"""In place of an exponent: NaN or +inf is among the emissions, perhaps not on any path."""


@jit
def needs_logarithms(reach, b, length, tiles):
    """Return whether scaled numbers do not suffice: the total is almost zero, or an emission is NaN or +inf."""
    best = length * 0 + NEVER_EXPONENT
    for tile in range(tiles):
        best = tl.maximum(best, tl.load(reach + b * tiles + tile, mask=length > 0, other=0))
    return (length > 0) & ((best <= FAR_EXPONENT) | (best == MET_NO_NUMBER) | (length > MOST_SCALED_FRAMES))


@jit
def look(source, t, LOG: tl.constexpr, WILD: tl.constexpr):
    """Load the emissions of both states of a unit at frame t of the pass, and the frame's centre."""
    at, classes, here, strides, end, length, way = source
    even_here, odd_here = here[0] & (t <= end), here[1] & (t <= end)
    frame = t + way * (length - 1 - 2 * t)
    place = frame.to(tl.int64) * strides[0]
    even = tl.load(at[0] + place, mask=even_here, other=0.0)
    odd = tl.load(at[1] + place, mask=odd_here, other=0.0)
    centre = tl.load(at[2] + frame, mask=even_here, other=0.0)
    if WILD:
        place = frame.to(tl.int64) * strides[1]
        even = tl.where(classes[0] < 0, tl.load(at[3] + place, mask=even_here & (classes[0] < 0), other=0.0), even)
        odd = tl.where(classes[1] < 0, tl.load(at[3] + place, mask=odd_here & (classes[1] < 0), other=0.0), odd)
    if LOG:
        return even.to(tl.float64), odd.to(tl.float64), centre.to(tl.float64)
    else:
        return even.to(tl.float32), odd.to(tl.float32), centre


@jit
def no_number(seen):
    """Return whether a unit's states emit NaN or +inf."""
    return ~((seen[0] < float("inf")) & (seen[1] < float("inf")))


@jit
def detour(total, table, here, most, row, units, LOG: tl.constexpr):
    """Return the sum of `total` and what enters one lane of states by its detours from the row before."""
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    for number in range(most):
        source = tl.load(table + number, mask=here, other=-1)
        place = (source & 1) * units + (source >> 1)
        total = plus(total, tl.load(row + place, mask=source >= 0, other=NEVER), LOG)
    return total


@jit
def step(
    even,
    odd,
    seen,
    ways,
    now,
    row,
    LANES: tl.constexpr,
    LOG: tl.constexpr,
    PLAIN: tl.constexpr,
    STAYS: tl.constexpr,
    DETOURS: tl.constexpr,
):
    """Compute a frame's row from the one before."""
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    lane, stays, skips, tables, here, most, units = ways
    even_score, odd_score, centre = seen
    odd_before = tl.where(lane > 0, shift(odd, lane, LANES), NEVER)
    even_stays, odd_stays = even, odd
    if not STAYS:
        even_stays, odd_stays = tl.where(stays[0], even, NEVER), tl.where(stays[1], odd, NEVER)
    odd_skips = tl.where(skips[1], odd_before, NEVER)
    if PLAIN:
        new_even = weighted_pair(even_stays, odd_before, even_score, centre, LOG)
    else:
        even_before = tl.where(lane > 0, shift(even, lane, LANES), NEVER)
        even_skips = tl.where(skips[0], even_before, NEVER)
        if DETOURS:
            even_skips = detour(even_skips, tables[0], here[0] & now, most, row, units, LOG)
            odd_skips = detour(odd_skips, tables[1], here[1] & now, most, row, units, LOG)
        new_even = weighted_sum(even_stays, odd_before, even_skips, even_score, centre, LOG)
    return new_even, weighted_sum(odd_stays, even, odd_skips, odd_score, centre, LOG)


@jit
def follow(even, odd, seen, t, ways, places, LANES: tl.constexpr, LOG: tl.constexpr, PLAIN: tl.constexpr,
           STAYS: tl.constexpr, DETOURS: tl.constexpr, KEPT: tl.constexpr, AGAIN: tl.constexpr):  # fmt: skip
    """Compute the row of frame t from that of t - 1, and write it to the kept rows, or to the ring."""
    own, start, end, kept, ring, ring_frames, span, unit = places
    wide = 2 * ways[6]
    before = ring
    if DETOURS:
        if KEPT:
            before = kept - unit + (t - 1).to(tl.int64) * wide
        else:
            before = ring + ((t - 1) % ring_frames).to(tl.int64) * wide
    new_even, new_odd = step(even, odd, seen, ways, t <= end, before, LANES, LOG, PLAIN, STAYS, DETOURS)
    even, odd = tl.where(t <= end, new_even, even), tl.where(t <= end, new_odd, odd)
    now = own & (t <= end)
    if KEPT:
        # Where blocks are walked again, a block's last row is the first of the next, which writes it.
        mine = now & (t < start + span) if AGAIN else now
        put(kept + t.to(tl.int64) * wide, even, odd, ways[6], mine)
    if DETOURS:
        if not KEPT:
            put(ring + (t % ring_frames).to(tl.int64) * wide + unit, even, odd, ways[6], now)
        tl.debug_barrier()
    return even, odd


@jit
def meet(even, odd, meeting, half, line, strip, lane, active, halo, LANES: tl.constexpr, LINES: tl.constexpr):
    """Fetch the first `halo` units of every strip from the last of the strip before."""
    place = meeting + (half * 2 * LINES + line) * halo + lane
    put(place - (LANES - halo), even, odd, LINES * halo, active & (lane >= LANES - halo))
    tl.debug_barrier()
    return take(place - halo, even, odd, LINES * halo, active & (lane < halo) & (strip > 0))


@jit
def meet_tile(even, odd, edge, tile_size, tile, strip, lane, active, halo,
              LANES: tl.constexpr, STRIPS: tl.constexpr, AGAIN: tl.constexpr):  # fmt: skip
    """Do as `meet`, between this tile and the one before, which an earlier launch computed."""
    place = edge + lane
    if not AGAIN:
        put(place - (LANES - halo), even, odd, halo, active & (strip == STRIPS - 1) & (lane >= LANES - halo))
    return take(place - tile_size, even, odd, halo, active & (lane < halo) & (strip == 0) & (lane * 0 + tile > 0))


@jit
def sweep(
    x, wild, centres, emit, flags, numbers, detours, meeting, edges, entries, rows, last, reach, ring,
    x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, most,
    tiles, first, diagonal, slots, span, keep, edge_blocks, entry_blocks, row_frames, ring_frames, halo,
    LANES: tl.constexpr, STRIPS: tl.constexpr, ROWS: tl.constexpr,
    LOG: tl.constexpr, PLAIN: tl.constexpr, STAYS: tl.constexpr, WILD: tl.constexpr, DETOURS: tl.constexpr,
    TILED: tl.constexpr, ENTRIES: tl.constexpr, KEPT: tl.constexpr, AGAIN: tl.constexpr, SECOND: tl.constexpr,
):  # fmt: skip
    """Compute one block of frames in one tile of states; the arguments are explained in `launches`."""
    NEVER: tl.constexpr = NEVER_LOG if LOG else NEVER_SCALED
    LINES: tl.constexpr = ROWS * STRIPS
    each = tl.maximum(halo, 4)
    thread = tl.arange(0, LINES * LANES)
    lane, line = thread % LANES, thread // LANES
    strip = line % STRIPS
    b = tl.program_id(0) * ROWS + line // STRIPS
    way = tl.program_id(2)
    forwards = lane * 0 + way == 0
    walk = b.to(tl.int64) * tl.num_programs(2) + way
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=1)
    if SECOND:
        length = tl.where(needs_logarithms(reach, b, length, tiles), length, 0)

    # Which tile and which block: the frames (start, end].
    base = lane * 0
    if AGAIN:
        together = tl.num_programs(1) // slots
        tile, slot = diagonal + tl.program_id(1) % together, tl.program_id(1) // together
        base += tl.where(forwards, first, tl.maximum(length - (first + slots - 1) * span, 0) // span)
        length = tl.where((slot + lane * 0 < slots - 1) | ~forwards, length, 0)
        n = base + slot
    else:
        tile = first + tl.program_id(1)
        n = base + (diagonal - tile)
    start = n * span
    # Walked again, a block that begins with the last frame has that one's row to give.
    active = (length > 0) & ((n == 0) | (start < length - (0 if AGAIN else 1)))
    end = tl.minimum(start + span, length - 1)
    count = tl.max(tl.where(active, end - start, 0))

    # What the states are.
    unit = (tile * STRIPS + strip) * (LANES - halo) + lane - halo
    units = tiles * STRIPS * (LANES - halo)
    own = active & (lane >= halo)
    here = active & (unit >= 0) & (2 * unit < size), active & (unit >= 0) & (2 * unit + 1 < size)
    even_index, odd_index = 2 * unit + way * (size - 1 - 4 * unit), 2 * unit + 1 + way * (size - 3 - 4 * unit)
    states = b.to(tl.int64) * width
    classes = (
        tl.load(emit + states + even_index, mask=here[0], other=0),
        tl.load(emit + states + odd_index, mask=here[1], other=0),
    )
    even_flags = tl.load(flags + states + even_index, mask=here[0], other=0).to(tl.int32)
    odd_flags = tl.load(flags + states + odd_index, mask=here[1], other=0).to(tl.int32)
    begin = BEGIN + way * (END - BEGIN)
    above = flags + states + 2 * way
    skips = (
        (tl.load(above + even_index, mask=here[0] & (unit > 0), other=0).to(tl.int32) & SKIP) != 0,
        (tl.load(above + odd_index, mask=here[1] & (unit > 0), other=0).to(tl.int32) & SKIP) != 0,
    )
    detours += ((way * batch + b).to(tl.int64) * width + 2 * unit) * most
    stays = (even_flags & STAY) != 0, (odd_flags & STAY) != 0
    ways = lane, stays, skips, (detours, detours + most), here, most, units

    # Where things lie.
    x += b.to(tl.int64) * x_b
    at = (
        x + tl.maximum(classes[0], 0).to(tl.int64) * x_c,
        x + tl.maximum(classes[1], 0).to(tl.int64) * x_c,
        centres + b.to(tl.int64) * frames,
        wild + b.to(tl.int64) * wild_b,
    )
    source = at, classes, here, (x_t, wild_t), end, length, way
    entry = entries + walk * entry_blocks * 2 * units + unit
    ring += walk * ring_frames * 2 * units
    kept = rows + (walk * row_frames - base * span) * 2 * units + unit
    places = own, start, end, kept, ring, ring_frames, span, unit
    program = (way * tl.num_programs(1) + tl.program_id(1)).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    meeting += program * 4 * LINES * halo
    if TILED:
        tile_size = edge_blocks * (span // halo) * 2 * halo
        edges += (walk * tiles + tile) * tile_size + (n % edge_blocks) * (span // halo) * 2 * halo

    # The row at `start`.
    seen = look(source, start, LOG, WILD)
    even = tl.where((even_flags & begin) != 0, emission(seen[0], seen[2], LOG), NEVER)
    odd = tl.where((odd_flags & begin) != 0, emission(seen[1], seen[2], LOG), NEVER)
    if TILED or AGAIN:
        later = active & (n > 0) & (unit >= 0)
        before = entry + n.to(tl.int64) * 2 * units
        even = tl.where(n > 0, tl.load(before, mask=later, other=NEVER), even)
        odd = tl.where(n > 0, tl.load(before + units, mask=later, other=NEVER), odd)
    if KEPT:
        put(kept + start.to(tl.int64) * 2 * units, even, odd, units, own & (AGAIN | (n == 0)))
    if DETOURS:
        if not KEPT:
            put(ring + (start % ring_frames).to(tl.int64) * 2 * units + unit, even, odd, units, own)
        tl.debug_barrier()

    # Scores are fetched four frames ahead.
    wrong = no_number(seen)
    t = start + 1
    seen_1, seen_2 = look(source, t, LOG, WILD), look(source, t + 1, LOG, WILD)
    seen_3, seen_4 = look(source, t + 2, LOG, WILD), look(source, t + 3, LOG, WILD)
    for m in range(tl.cdiv(count, each)):
        if STRIPS > 1:
            even, odd = meet(even, odd, meeting, m % 2, line, strip, lane, active, halo, LANES, LINES)
        if TILED:
            edge = edges + m * 2 * halo
            even, odd = meet_tile(even, odd, edge, tile_size, tile, strip, lane, active, halo, LANES, STRIPS, AGAIN)
        for j in range(0, each, 4):
            t = start + m * each + j + 1
            wrong |= no_number(seen_1)
            even, odd = follow(even, odd, seen_1, t, ways, places, LANES, LOG, PLAIN, STAYS, DETOURS, KEPT, AGAIN)
            seen_1 = look(source, t + 4, LOG, WILD)
            wrong |= no_number(seen_2)
            even, odd = follow(even, odd, seen_2, t + 1, ways, places, LANES, LOG, PLAIN, STAYS, DETOURS, KEPT, AGAIN)
            seen_2 = look(source, t + 5, LOG, WILD)
            wrong |= no_number(seen_3)
            even, odd = follow(even, odd, seen_3, t + 2, ways, places, LANES, LOG, PLAIN, STAYS, DETOURS, KEPT, AGAIN)
            seen_3 = look(source, t + 6, LOG, WILD)
            wrong |= no_number(seen_4)
            even, odd = follow(even, odd, seen_4, t + 3, ways, places, LANES, LOG, PLAIN, STAYS, DETOURS, KEPT, AGAIN)
            seen_4 = look(source, t + 7, LOG, WILD)
            if ENTRIES:
                now = own & (t + 3 <= end) & ((t + 3) % keep == 0)
                put(entry + ((t + 3) // keep).to(tl.int64) * 2 * units, even, odd, units, now)

    if not AGAIN:
        done = own & (end == length - 1) & forwards
        put(last + b.to(tl.int64) * 2 * units + unit, even, odd, units, done)
        if not LOG:
            best = tl.maximum(
                tl.where(done & ((even_flags & END) != 0), exponent_of(even), NEVER_EXPONENT),
                tl.where(done & ((odd_flags & END) != 0), exponent_of(odd), NEVER_EXPONENT),
            )
            best = tl.where(wrong, MET_NO_NUMBER, best)
            best = tl.max(tl.reshape(best, (ROWS, STRIPS * LANES)), 1)
            given = tl.max(tl.reshape((active & forwards).to(tl.int32), (ROWS, STRIPS * LANES)), 1) > 0
            rows_here = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
            place = reach + rows_here * tiles + tile
            if TILED:
                later_block = given & (rows_here * 0 + diagonal > tile)
                best = tl.maximum(best, tl.load(place, mask=later_block, other=NEVER_EXPONENT))
            tl.store(place, best, mask=given)
