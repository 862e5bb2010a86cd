"""Viterbi on the device: the forward pass with back-pointers, and the trace-back.

    row[t, s] = x[t, s] + max(row[t-1, s] if stay[s], row[t-1, s-1], row[t-1, s-2] if skip[s], detours)   the first wins

Rows are float64: nothing has to be re-centred, ties and near ties are those of the reference, and the score is the one
along the path. Beside its score a state carries its origin: the state of its best path at the start of the block of
frames. The trace-back goes from block to block by origins, and within the blocks, all at once, by back-pointers: BITS
each, four frames to a word.

Back-pointers that would not fit are not kept: the first pass saves each block's first row (its entry) instead; with the
origins known, a program computes each block again, in a window of the states from which its last one can be reached.
How threads share a row, and why there is no race: see `row_layout`.

Trace-back: first, one line per utterance finds its last state, the highest of the best ones, and by the origins its
state at the end of each block (`block_ends`). Then one line per block follows the back-pointers (`inside`). Lines are
independent of each other.
"""

from __future__ import annotations

from ctc_align.kernels.gpu.row_layout import BEGIN, END, SKIP, STAY, put, shift, take
from ctc_align.kernels.gpu.triton_import import constant, jit, tl

NEVER = constant(float("-inf"))


@jit
def look(source, t, WILD: tl.constexpr, BANDED: tl.constexpr):
    """Load the emissions of both states of a unit at a frame, and the frame's band."""
    at, classes, here, strides, end = source
    even_here, odd_here = here[0] & (t <= end), here[1] & (t <= end)
    place = t.to(tl.int64) * strides[0]
    even = tl.load(at[0] + place, mask=even_here, other=0.0).to(tl.float64)
    odd = tl.load(at[1] + place, mask=odd_here, other=0.0).to(tl.float64)
    if WILD:
        place = t.to(tl.int64) * strides[1]
        even_wild, odd_wild = classes[0] < 0, classes[1] < 0
        even = tl.where(even_wild, tl.load(at[2] + place, mask=even_here & even_wild, other=0.0).to(tl.float64), even)
        odd = tl.where(odd_wild, tl.load(at[2] + place, mask=odd_here & odd_wild, other=0.0).to(tl.float64), odd)
    low, high = classes[0], classes[0]
    if BANDED:
        low = tl.load(at[3] + 2 * t.to(tl.int64), mask=even_here | odd_here, other=0)
        high = tl.load(at[3] + 2 * t.to(tl.int64) + 1, mask=even_here | odd_here, other=0)
    return even, odd, low, high


@jit
def better(best, origin, choice, value, value_origin, number):
    """Return the better of `best` and `value`, which must be greater to win, or NaN."""
    wins = (value > best) | (value != value)
    return tl.where(wins, value, best), tl.where(wins, value_origin, origin), tl.where(wins, number, choice)


@jit
def detour(best, origin, choice, table, here, most, row, origins, units):
    """Return the best of `best` and what enters one lane of states by its detours from the row before."""
    for number in range(most):
        source = tl.load(table + number, mask=here, other=-1)
        place = (source & 1) * units + (source >> 1)
        value = tl.load(row + place, mask=source >= 0, other=NEVER)
        value_origin = tl.load(origins + place, mask=source >= 0, other=0)
        best, origin, choice = better(best, origin, choice, value, value_origin, 3 + number)
    return best, origin, choice


@jit
def step(even, odd, even_origin, odd_origin, seen, ways, now, row, origins,
         LANES: tl.constexpr, PLAIN: tl.constexpr, STAYS: tl.constexpr, DETOURS: tl.constexpr,
         BANDED: tl.constexpr):  # fmt: skip
    """Compute a frame's row from the one before, its origins, and the best transition into each state."""
    lane, unit, stays, skips, tables, here, most, units = ways
    first = lane == 0
    odd_before = tl.where(first, NEVER, shift(odd, lane, LANES))
    odd_before_origin = shift(odd_origin, lane, LANES)
    new_even, new_odd = even, odd
    if not STAYS:
        new_even, new_odd = tl.where(stays[0], even, NEVER), tl.where(stays[1], odd, NEVER)
    even_choice, odd_choice = lane * 0, lane * 0
    new_even, new_even_origin, even_choice = better(
        new_even, even_origin, even_choice, odd_before, odd_before_origin, 1
    )
    new_odd, new_odd_origin, odd_choice = better(new_odd, odd_origin, odd_choice, even, even_origin, 1)
    jump = tl.where(skips[1], odd_before, NEVER)
    new_odd, new_odd_origin, odd_choice = better(new_odd, new_odd_origin, odd_choice, jump, odd_before_origin, 2)
    if not PLAIN:
        jump = tl.where(first | ~skips[0], NEVER, shift(even, lane, LANES))
        jump_origin = shift(even_origin, lane, LANES)
        new_even, new_even_origin, even_choice = better(new_even, new_even_origin, even_choice, jump, jump_origin, 2)
    if DETOURS:
        new_even, new_even_origin, even_choice = detour(
            new_even, new_even_origin, even_choice, tables[0], here[0] & now, most, row, origins, units
        )
        new_odd, new_odd_origin, odd_choice = detour(
            new_odd, new_odd_origin, odd_choice, tables[1], here[1] & now, most, row, origins, units
        )
    # Where no path comes, what is emitted is not met, even if it is NaN.
    new_even = tl.where(new_even == NEVER, NEVER, new_even + seen[0])
    new_odd = tl.where(new_odd == NEVER, NEVER, new_odd + seen[1])
    if BANDED:
        new_even = tl.where((seen[2] <= 2 * unit) & (2 * unit < seen[3]), new_even, NEVER)
        new_odd = tl.where((seen[2] <= 2 * unit + 1) & (2 * unit + 1 < seen[3]), new_odd, NEVER)
    return new_even, new_odd, new_even_origin, new_odd_origin, even_choice, odd_choice


@jit
def follow(row, words, seen, t, turn, ways, places, LANES: tl.constexpr, PLAIN: tl.constexpr, STAYS: tl.constexpr,
           DETOURS: tl.constexpr, BANDED: tl.constexpr, BITS: tl.constexpr):  # fmt: skip
    """Compute the row of frame t from that of t - 1; its back-pointers are the `turn`-th of four in the words."""
    even, odd, even_origin, odd_origin = row
    own, end, ring, ring_origins, ring_frames = places
    wide = 2 * ways[7]
    before = ((t - 1) % ring_frames).to(tl.int64) * wide
    new_even, new_odd, new_even_origin, new_odd_origin, even_choice, odd_choice = step(
        even, odd, even_origin, odd_origin, seen, ways, t <= end, ring + before, ring_origins + before,
        LANES, PLAIN, STAYS, DETOURS, BANDED,
    )  # fmt: skip
    now = t <= end
    even, odd = tl.where(now, new_even, even), tl.where(now, new_odd, odd)
    even_origin = tl.where(now, new_even_origin, even_origin)
    odd_origin = tl.where(now, new_odd_origin, odd_origin)
    even_word = words[0] | (even_choice.to(words[0].dtype) << (BITS * turn))
    odd_word = words[1] | (odd_choice.to(words[1].dtype) << (BITS * turn))
    if DETOURS:
        place = (t % ring_frames).to(tl.int64) * wide + ways[1]
        put(ring + place, even, odd, ways[7], own & now)
        put(ring_origins + place, even_origin, odd_origin, ways[7], own & now)
        tl.debug_barrier()
    return (even, odd, even_origin, odd_origin), (even_word, odd_word)


@jit
def meet(row, meeting, meeting_origins, half, line, strip, lane, active, halo,
         LANES: tl.constexpr, LINES: tl.constexpr):  # fmt: skip
    """Fetch the first `halo` units of every strip from the last of the strip before."""
    even, odd, even_origin, odd_origin = row
    place = (half * 2 * LINES + line) * halo + lane
    give, get = active & (lane >= LANES - halo), active & (lane < halo) & (strip > 0)
    put(meeting + place - (LANES - halo), even, odd, LINES * halo, give)
    put(meeting_origins + place - (LANES - halo), even_origin, odd_origin, LINES * halo, give)
    tl.debug_barrier()
    even, odd = take(meeting + place - halo, even, odd, LINES * halo, get)
    even_origin, odd_origin = take(meeting_origins + place - halo, even_origin, odd_origin, LINES * halo, get)
    return even, odd, even_origin, odd_origin


@jit
def meet_tile(row, edges, edge_origins, tile_size, tile, strip, lane, active, halo,
              LANES: tl.constexpr, STRIPS: tl.constexpr):  # fmt: skip
    """Do as `meet`, between this tile and the one before, which an earlier launch computed."""
    even, odd, even_origin, odd_origin = row
    give = active & (strip == STRIPS - 1) & (lane >= LANES - halo)
    get = active & (lane < halo) & (strip == 0) & (lane * 0 + tile > 0)
    put(edges + lane - (LANES - halo), even, odd, halo, give)
    put(edge_origins + lane - (LANES - halo), even_origin, odd_origin, halo, give)
    even, odd = take(edges + lane - tile_size, even, odd, halo, get)
    even_origin, odd_origin = take(edge_origins + lane - tile_size, even_origin, odd_origin, halo, get)
    return even, odd, even_origin, odd_origin


@jit
def sweep(
    x, wild, bands, emit, flags, numbers, detours, meeting, meeting_origins, edges, edge_origins, entries, origins,
    pointers, last, ring, ring_origins, exits,
    x_b, x_t, x_c, wild_b, wild_t, batch, frames, width, most,
    tiles, first, diagonal, slots, span, keep, blocks, row_units, word_frames, ring_frames, halo,
    LANES: tl.constexpr, STRIPS: tl.constexpr, ROWS: tl.constexpr, BITS: tl.constexpr,
    PLAIN: tl.constexpr, STAYS: tl.constexpr, WILD: tl.constexpr, DETOURS: tl.constexpr, BANDED: tl.constexpr,
    TILED: tl.constexpr, ENTRIES: tl.constexpr, POINTERS: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Compute one block of frames in one tile of states; the arguments are explained in `launches`."""
    LINES: tl.constexpr = ROWS * STRIPS
    each = tl.maximum(halo, 4)
    thread = tl.arange(0, LINES * LANES)
    lane, line = thread % LANES, thread // LANES
    strip = line % STRIPS
    b = tl.program_id(0) * ROWS + line // STRIPS
    walk = b.to(tl.int64)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=1)

    # Which tile and which block: the frames (start, end]. `row_units`: units of a whole row, `units`: of a tile or all.
    base = lane * 0
    slot = 0
    if AGAIN:
        slot = tl.program_id(1)
        n = base + (first + slot)
        leaving = tl.load(exits + walk * blocks + n, mask=(length > 0) & ((n == 0) | (n * keep < length - 1)), other=-1)
        length = tl.where(leaving >= 0, length, 0)
        tile = 0
        if row_units > STRIPS * (LANES - halo):
            base = tl.maximum(leaving // 2 - keep, 0)
    else:
        tile = first + tl.program_id(1)
        n = base + (diagonal - tile)
    start = n * span
    active = (length > 0) & ((n == 0) | (start < length - 1))
    end = tl.minimum(start + span, length - 1)
    count = tl.max(tl.where(active, end - start, 0))

    # What the states are.
    place = (tile * STRIPS + strip) * (LANES - halo) + lane - halo
    unit = base + place
    own = active & (lane >= halo)
    here = active & (unit >= 0) & (2 * unit < size), active & (unit >= 0) & (2 * unit + 1 < size)
    states = walk * width + 2 * unit
    classes = tl.load(emit + states, mask=here[0], other=0), tl.load(emit + states + 1, mask=here[1], other=0)
    even_flags = tl.load(flags + states, mask=here[0], other=0).to(tl.int32)
    odd_flags = tl.load(flags + states + 1, mask=here[1], other=0).to(tl.int32)
    stays = (even_flags & STAY) != 0, (odd_flags & STAY) != 0
    skips = (unit > 0) & ((even_flags & SKIP) != 0), (unit > 0) & ((odd_flags & SKIP) != 0)
    detours += states * most
    ways = lane, unit, stays, skips, (detours, detours + most), here, most, row_units

    # Where things lie.
    x += walk * x_b
    at = (
        x + tl.maximum(classes[0], 0).to(tl.int64) * x_c,
        x + tl.maximum(classes[1], 0).to(tl.int64) * x_c,
        wild + walk * wild_b,
        bands + walk * frames * 2,
    )
    source = at, classes, here, (x_t, wild_t), end
    ring += (walk * slots + slot) * ring_frames * 2 * row_units
    ring_origins += (walk * slots + slot) * ring_frames * 2 * row_units
    places = own, end, ring, ring_origins, ring_frames
    entry = entries + walk * blocks * 2 * row_units + unit
    origins += walk * blocks * 2 * row_units + unit
    program = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
    meeting += program * 4 * LINES * halo
    meeting_origins += program * 4 * LINES * halo
    if TILED:
        tile_size = 2 * (span // halo) * 2 * halo
        edge = (walk * tiles + tile) * tile_size + (n % 2) * (span // halo) * 2 * halo
        edges += edge
        edge_origins += edge
    if AGAIN:
        word_units = STRIPS * (LANES - halo)
        pointers += (walk * slots + slot) * word_frames * 2 * word_units + place
    else:
        word_units = row_units
        pointers += walk * word_frames * 2 * word_units + place

    # The row at `start`.
    seen = look(source, start, WILD, BANDED)
    even = tl.where((even_flags & BEGIN) != 0, seen[0], NEVER)
    odd = tl.where((odd_flags & BEGIN) != 0, seen[1], NEVER)
    if BANDED:
        even = tl.where((seen[2] <= 2 * unit) & (2 * unit < seen[3]), even, NEVER)
        odd = tl.where((seen[2] <= 2 * unit + 1) & (2 * unit + 1 < seen[3]), odd, NEVER)
    if TILED or AGAIN:
        later = active & (n > 0) & (unit >= 0) & (unit < row_units)
        before = entry + n.to(tl.int64) * 2 * row_units
        even = tl.where(n > 0, tl.load(before, mask=later, other=NEVER), even)
        odd = tl.where(n > 0, tl.load(before + row_units, mask=later, other=NEVER), odd)
    row = even, odd, 2 * unit, 2 * unit + 1
    if DETOURS:
        here_now = (start % ring_frames).to(tl.int64) * 2 * row_units + unit
        put(ring + here_now, even, odd, row_units, own)
        put(ring_origins + here_now, 2 * unit, 2 * unit + 1, row_units, own)
        tl.debug_barrier()

    # Scores are fetched four frames ahead.
    seen_1, seen_2 = look(source, start + 1, WILD, BANDED), look(source, start + 2, WILD, BANDED)
    seen_3, seen_4 = look(source, start + 3, WILD, BANDED), look(source, start + 4, WILD, BANDED)
    for m in range(tl.cdiv(count, each)):
        if STRIPS > 1:
            row = meet(row, meeting, meeting_origins, m % 2, line, strip, lane, active, halo, LANES, LINES)
        if TILED:
            met = m * 2 * halo
            row = meet_tile(
                row, edges + met, edge_origins + met, tile_size, tile, strip, lane, active, halo, LANES, STRIPS
            )
        for j in range(0, each, 4):
            t = start + m * each + j + 1
            words = (lane * 0).to(pointers.dtype.element_ty), (lane * 0).to(pointers.dtype.element_ty)
            row, words = follow(row, words, seen_1, t, 0, ways, places, LANES, PLAIN, STAYS, DETOURS, BANDED, BITS)
            seen_1 = look(source, t + 4, WILD, BANDED)
            row, words = follow(row, words, seen_2, t + 1, 1, ways, places, LANES, PLAIN, STAYS, DETOURS, BANDED, BITS)
            seen_2 = look(source, t + 5, WILD, BANDED)
            row, words = follow(row, words, seen_3, t + 2, 2, ways, places, LANES, PLAIN, STAYS, DETOURS, BANDED, BITS)
            seen_3 = look(source, t + 6, WILD, BANDED)
            row, words = follow(row, words, seen_4, t + 3, 3, ways, places, LANES, PLAIN, STAYS, DETOURS, BANDED, BITS)
            seen_4 = look(source, t + 7, WILD, BANDED)
            if POINTERS:
                word = (m * each + j) // 4 + (0 if AGAIN else start // 4)
                put(pointers + word.to(tl.int64) * 2 * word_units, words[0], words[1], word_units, own & (t <= end))
            if not AGAIN:
                # A block ends here.
                turns = (t + 3 <= end) & ((t + 3) % keep == 0)
                now = own & turns
                block = (t + 3) // keep
                put(origins + (block - 1).to(tl.int64) * 2 * row_units, row[2], row[3], row_units, now)
                if ENTRIES:
                    put(
                        entry + block.to(tl.int64) * 2 * row_units,
                        row[0],
                        row[1],
                        row_units,
                        now & (t + 3 < length - 1),
                    )
                row = row[0], row[1], tl.where(turns, 2 * unit, row[2]), tl.where(turns, 2 * unit + 1, row[3])
                if DETOURS:
                    here_now = ((t + 3) % ring_frames).to(tl.int64) * 2 * row_units + unit
                    put(ring_origins + here_now, row[2], row[3], row_units, now)
                    tl.debug_barrier()
    if not AGAIN:
        done = own & (end == length - 1)
        put(last + walk * 2 * row_units + unit, row[0], row[1], row_units, done)
        rest = done & (end > 0) & (end % keep != 0)
        put(origins + (end // keep).to(tl.int64) * 2 * row_units, row[2], row[3], row_units, rest)


@jit
def block_ends(
    flags, numbers, last, origins, exits, scores, batch, width, units, keep, blocks,
    ROWS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Write the scores of utterances, and to `exits` (B, blocks) the states at the ends of blocks, -1 if no path."""
    b = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    length = tl.load(numbers + b, mask=b < batch, other=0)
    size = tl.load(numbers + batch + b, mask=b < batch, other=0)
    empty = tl.load(numbers + 2 * batch + b, mask=b < batch, other=0)
    last += b.to(tl.int64) * 2 * units

    # Lane by lane the last of the best; then the last of the best lanes. NaN wins.
    best = tl.full((ROWS, STEP), float("-inf"), tl.float64)
    best_state = tl.full((ROWS, STEP), -1, tl.int32)
    wrong = tl.zeros((ROWS, STEP), tl.int32)
    for first in range(0, tl.max(size), STEP):
        state = first + tl.zeros((ROWS, 1), tl.int32) + tl.arange(0, STEP)[None, :]
        here = (state < size[:, None]) & (length[:, None] > 0)
        flag = tl.load(flags + b.to(tl.int64)[:, None] * width + state, mask=here, other=0).to(tl.int32)
        final = here & ((flag & END) != 0)
        value = tl.load(last[:, None] + (state & 1) * units + (state >> 1), mask=final, other=float("-inf"))
        wins = final & (value >= best)
        best, best_state = tl.where(wins, value, best), tl.where(wins, state, best_state)
        wrong = tl.where(value != value, 1, wrong)
    score = tl.max(best, 1)
    state = tl.max(tl.where(best == score[:, None], best_state, -1), 1)
    score = tl.where((tl.max(wrong, 1) > 0) | (score == float("inf")), float("nan"), score)
    score = tl.where(length > 0, score, tl.where(empty > 0, 0.0, float("-inf")))
    tl.store(scores + b, score, mask=b < batch)

    found = (length > 0) & (score > float("-inf"))
    state = tl.where(found, state, -1)
    newest = tl.maximum(length - 2, 0) // keep
    exits += b.to(tl.int64) * blocks
    origins += b.to(tl.int64) * blocks * 2 * units
    for k in range(tl.max(newest) + 1):
        block = newest - k
        here = (length > 0) & (block >= 0)
        tl.store(exits + block, state, mask=here)
        place = block.to(tl.int64) * 2 * units + (state & 1) * units + (state >> 1)
        state = tl.where(state >= 0, tl.load(origins + place, mask=here & (block > 0) & (state >= 0), other=-1), -1)


@jit
def inside(
    numbers, exits, pointers, detours, states, batch, frames, width, most, first, slots, keep, blocks, row_units,
    window_units, word_frames,
    PAIRS: tl.constexpr, BITS: tl.constexpr, AGAIN: tl.constexpr,
):  # fmt: skip
    """Write states (B, T) of the blocks first … first + slots - 1, each followed back from its exit."""
    pair = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    b, n = pair // slots, first + pair % slots
    length = tl.load(numbers + b, mask=b < batch, other=0)
    start = n * keep
    here = (length > 0) & ((n == 0) | (start < length - 1))
    state = tl.load(exits + b.to(tl.int64) * blocks + n, mask=here, other=-1)
    here = here & (state >= 0)
    end = tl.minimum(start + keep, length - 1)
    states += b.to(tl.int64) * frames
    detours += b.to(tl.int64) * width * most
    base = state * 0
    if AGAIN:
        if window_units < row_units:
            base = tl.maximum(state // 2 - keep, 0)
        pointers += pair.to(tl.int64) * word_frames * 2 * window_units
        units = window_units
        since = start
    else:
        pointers += b.to(tl.int64) * word_frames * 2 * row_units
        units = row_units
        since = state * 0
    for k in range(tl.max(tl.where(here, end - start, 0))):
        t = end - k
        now = here & (t > start)
        tl.store(states + t, state, mask=now)
        word = ((t - 1 - since) // 4).to(tl.int64) * 2 * units + (state & 1) * units + (state >> 1) - base
        choice = tl.load(pointers + word, mask=now, other=0)
        choice = ((choice >> (((t - 1) % 4) * BITS).to(choice.dtype)) & ((1 << BITS) - 1)).to(tl.int32)
        source = state - choice
        detoured = now & (choice > 2)
        other = tl.load(detours + state.to(tl.int64) * most + choice - 3, mask=detoured, other=0)
        state = tl.where(now, tl.where(detoured, other, source), state)
    tl.store(states + start, state, mask=here & (n == 0))
