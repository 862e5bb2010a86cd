"""Viterbi on the CPU.

Layout: lane i holds state 2i (even) and 2i + 1 (odd); WIDTH lanes make a vector, STRIP vectors a
strip, before which one vector is kept free. One row of float64 for the even and one for the odd
states, in place.

    even[i] = x + max(even[i], odd[i-1], even[i-1] if skip)
    odd[i]  = x + max(odd[i], even[i], odd[i-1] if skip)                 ties: stay, step, skip

WIDTH frames of a strip are computed while it is in the nearest cache; the values of its last lane,
frame by frame, are handed to the next strip, in the free vector. Vectors are computed downwards,
since a lane reads the values of the frame before. Only vectors that can be reached from the start
and can still reach the goal are computed: a path through others does not exist. Choices are words
of 2 * WIDTH bits for each vector and frame: even step and skip, odd step and skip;
of CTC one word: even step, odd entered (by a skip if the even state is stepped into and it may be).
Where these would be too many, rows are saved every `block` frames; the trace-back computes the
choices of a block again from its row, in the lanes from which its goal can be reached. In float64:
the sums of the definition.

Where sound and text agree most states cannot matter. A path has *lost*, up to a frame, what the
best classes of the frames add up to beyond its score; from there on it loses 0 at least. So
whatever path has lost more, at any frame, than the path that is found has lost at its end is not
the best, and is not as good. While a whole utterance is computed, the vectors at both ends of the
range in which no state has lost less than a *budget* are dropped after each WIDTH frames. The
budget follows what the best state has lost so far. At the end it is proved: nothing that was
dropped had lost less than the path, but for rounding. Else all is computed again with the budget
that is needed, which is then known; or without any, where that would leave out too little.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled, in_kernels_too
from ctc_align.kernels.cpu.emission_tiles import ALL, fetch, rows_of_classes
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    bit_of,
    bits_of,
    choose,
    count,
    gather_transposed,
    get,
    greater,
    load,
    mask_of,
    moved_up,
    number,
    put,
    put_bits,
    splat,
    store,
    widened,
)

STRIP = 16
MANY = 7
"""A stored number has left the processor's store queue by the time this many more vectors are
stored."""
NEVER = -np.inf
PRUNING = 6, 2.0, 20.0, 200.0
"""(least vectors, factor, nats, frames): utterances of at least this many vectors drop states.
Their first budget is `factor` times the loss expected at a rate of `nats` per `frames`, the rate
assumed before the first frame."""


@compiled
def place(v):
    """Return the index of vector v in a row."""
    return (v + v // STRIP + 1) * WIDTH


@compiled
def lay_out(emit, skip, stay, starts, flags):
    """Fill `flags` (4 * vectors,).

    For each vector they have bits of the lanes that may be skipped into and stayed in.

    Four words a vector: even skip, even stay, odd skip, odd stay. Lane -1 holds the beginning: from
    it the first even state is stepped into, the first odd one skipped into.
    """
    size = emit.shape[0]
    for v in range(flags.shape[0] // 4):
        even_skip = even_stay = odd_skip = odd_stay = 0
        for s in range(min(size, 2 * WIDTH * (v + 1)) - 1, 2 * WIDTH * v - 1, -1):
            if s % 2:
                odd_skip, odd_stay = 2 * odd_skip + skip[s], 2 * odd_stay + stay[s]
            else:
                even_skip, even_stay = 2 * even_skip + skip[s], 2 * even_stay + stay[s]
        if v == 0:
            # The first two are entered from the beginning.
            even_skip, odd_skip = even_skip & -2, (odd_skip & -2) | (size > 1 and starts > 1)
        flags[4 * v], flags[4 * v + 1], flags[4 * v + 2], flags[4 * v + 3] = (
            even_skip,
            even_stay,
            odd_skip,
            odd_stay,
        )


@compiled
def mask_costs(flags, costs):
    """Fill `costs` (4 * lanes,): for each vector and kind of flag 0 where it is set, else -inf."""
    for k in range(flags.shape[0]):
        store(costs, k * WIDTH, choose(mask_of(flags[k]), splat(0.0), splat(NEVER)))


@compiled
def trace(choices, base, by_frame, general, flags, first, last, state, states):
    """Follow the choices from `state` at frame `last` down to frame `first`.

    Returns the state there.
    """
    words = 2 if general else 1
    states[last] = state
    for t in range(last, first, -1):
        v, lane, odd = state // 2 // WIDTH, state // 2 % WIDTH, state % 2
        bit = bit_of(lane)
        p = base + t * by_frame + v * words
        if general:
            chosen = np.int64(get(choices, p + odd)) >> bit
            state -= 2 if chosen >> WIDTH & 1 else chosen & 1
        else:
            chosen = np.int64(get(choices, p)) >> bit
            if not odd:
                state -= chosen & 1
            elif chosen >> WIDTH & 1:
                state -= 1 + (chosen & (np.int64(get(flags, v * 4 + 2)) >> lane) & 1)
        states[t - 1] = state
    return state


@compiled
def last_state(odd, even, size, finals):
    """Return the state in which the best path ends, and its score."""
    state, best = -1, NEVER
    for s in range(size - 1, size - finals - 1, -1):
        at = place(s // 2 // WIDTH) + s // 2 % WIDTH
        value = odd[at] if s % 2 else even[at]
        if s == size - 1 or value > best:
            state, best = s, value
    return state, best


@compiled
def limited(vector, lane, low, high):
    """Return the vector with -inf in the lanes outside low … high - 1."""
    lanes = count(lane)
    inside = greater(lanes, splat(np.int32(low - 1))) & greater(splat(np.int32(high)), lanes)
    return choose(inside, vector, splat(NEVER))


@compiled
def trace_tiles(choices, places, general, flags, last, state, states):
    """Do as `trace`, down to frame 0, over tiles.

    The choices of each tile have a base and a size by frame of their own.
    """
    for tile in range(last // WIDTH, -1, -1):
        here = get(places, 2 * tile), get(places, 2 * tile + 1)
        first = max(tile * WIDTH - 1, 0)
        state = trace(
            choices,
            here[0],
            here[1],
            general,
            flags,
            first,
            min(tile * WIDTH + WIDTH - 1, last),
            state,
            states,
        )


@compiled
def _highest(vector, room, at):
    """Return the largest number of a vector; `room` is scratch from `at` on."""
    store(room, at, vector)
    best = get(room, at)
    for k in range(1, WIDTH):
        best = max(best, get(room, at + k))
    return best


@compiled
def _best_score(odd, even, first, end, room):
    """Return the best score in the vectors first … end - 1."""
    best = splat(NEVER)
    for v in range(first, end):
        for row in (odd, even):
            numbers = load(row, place(v))
            best = choose(greater(numbers, best), numbers, best)
    return _highest(best, room, 0)


@compiled
def _best_classes(tile, count_used, row_of_used, now, best):
    """Return the sum of the best scores of a tile's frames, and of their absolute values.

    `best` is scratch.
    """
    most = load(tile, get(row_of_used, 0) * WIDTH)
    for u in range(1, count_used):
        numbers = load(tile, get(row_of_used, u) * WIDTH)
        most = choose(greater(numbers, most), numbers, most)
    store(best, 0, most)
    total = size = 0.0
    for k in range(now):
        total += get(best, k)
        size += abs(get(best, k))
    return total, size


@compiled
def drop(odd, even, first, end, least, room):
    """Set vectors at both ends of first … end - 1 to -inf.

    They are those in which no state has a score of at least `least`.

    Return the first and last (exclusive) that are left, and the best score among those that are
    not.
    """
    bound, gone = splat(least), splat(NEVER)
    low, high = first, end
    for upwards in (True, False):
        while low < high:
            at = place(low if upwards else high - 1)
            numbers, others = load(odd, at), load(even, at)
            # Not by `greater` the other way round: what is no number remains.
            if bits_of(greater(bound, numbers) & greater(bound, others)) != ALL:
                break
            gone = choose(greater(numbers, gone), numbers, gone)
            gone = choose(greater(others, gone), others, gone)
            store(odd, at, splat(NEVER))
            store(even, at, splat(NEVER))
            if upwards:
                low += 1
            else:
                high -= 1
    return low, high, _highest(gone, room, 0)


@compiled
def read_off(emitted, frames, emit, states, first, read):
    """Write the classes that the states emit and their log-probs to `read`, from `first` on."""
    x, base, by_frame, by_class = emitted[0], emitted[1], emitted[2], emitted[3]
    labels, values = read
    for t in range(frames):
        label = np.int64(get(emit, np.int64(get(states, t))))
        put(labels, first + t, label)
        put(values, first + t, number(get(x, base + t * by_frame + label * by_class)))


@compiled
def best_of_three(stay, step, skip):
    """Return the best of three scores, and where it is the step, and the skip.

    Stay wins ties, then the step.
    """
    stepped = greater(step, stay)
    best = choose(stepped, step, stay)
    skipped = greater(skip, best)
    return choose(skipped, skip, best), stepped, skipped


@compiled
def best_of_ctc(silence, token, token_below, word):
    """Return the best scores that enter a blank and the token beside it.

    Also return where they are not those that stay.

    What enters the blank enters the token too, where it may be skipped into (a `word` of flags):
    else the blank does.
    """
    stepped = greater(token_below, silence)
    best = choose(stepped, token_below, silence)
    into = best
    if word != ALL:
        into = choose(mask_of(word), best, silence)
    enters = greater(into, token)
    return best, choose(enters, into, token), stepped, enters


@compiled
def tile_range(t0, now, goal, bands, b, low, high, top):
    """Return the first and last (exclusive) vector of a tile's frames.

    They lie within low … high - 1 and not beyond `top`.

    Before them no state still reaches the goal in time, beyond them none can be reached from the
    start.

    `goal`: its frame and state, and the last state that matters.
    """
    goal_frame, goal_state, last_of_all = goal
    first_lane = max(0, goal_state - 2 * (goal_frame - t0)) // 2
    end_lane = min(last_of_all // 2 + 1, t0 + now)
    if bands.shape[0]:
        first_lane = max(first_lane, bands[b, t0, 0] // 2)
        end_lane = min(end_lane, (bands[b, t0 + now - 1, 1] + 1) // 2)
    return min(max(low, first_lane // WIDTH), top), min(high, (end_lane + WIDTH - 1) // WIDTH)


@compiled
def receive(hands, odd, even, first, t0, bands, b):
    """Fill the first of two hands with the lane below the vector `first`.

    It is the lane before the tile's first frame.
    """
    store(hands, 0, splat(NEVER))
    store(hands, WIDTH, splat(NEVER))
    # Of vectors that bands left behind earlier the values are those of another frame.
    if first > 0 and (
        bands.shape[0] == 0 or t0 == 0 or bands[b, t0 - WIDTH, 0] // 2 // WIDTH < first
    ):
        at = place(first - 1) + WIDTH - 1
        put(hands, 0, get(odd, at))
        put(hands, WIDTH, get(even, at))
    elif t0 == 0:
        put(hands, 0, 0.0)  # the beginning, from which the first state is stepped into


@compiled
def receive_column(hands, column, t0):
    """Fill the first hand with a tile of the ring.

    In it the group of lanes below left its top lane.
    """
    at = 2 * (t0 % (column.shape[0] // 2))
    store(hands, 0, load(column, at))
    store(hands, WIDTH, load(column, at + WIDTH))


@compiled
def give_column(hands, hand, column, t0, odd, even, top, is_computed):
    """Leave the top lane of a group for the next one."""
    if not is_computed:
        # The top of this group is not computed: only its values before the tile may still be of
        # use.
        at = place(top) + WIDTH - 1
        store(hands, hand, splat(NEVER))
        store(hands, hand + WIDTH, splat(NEVER))
        put(hands, hand, get(odd, at))
        put(hands, hand + WIDTH, get(even, at))
    at = 2 * (t0 % (column.shape[0] // 2))
    store(column, at, load(hands, hand))
    store(column, at + WIDTH, load(hands, hand + WIDTH))


@compiled
def hand_over(hands, hand, next_hand, k, is_handed, hands_on, odd, even, below, top):
    """Take the lane below a strip from one hand, and put its last lane into the other.

    Both are those before frame k.
    """
    if hands_on:
        put(hands, next_hand + k, get(odd, top))
        put(hands, next_hand + WIDTH + k, get(even, top))
    if is_handed or k < 2:
        store(odd, below, splat(get(hands, hand + k)))
        store(even, below, splat(get(hands, hand + WIDTH + k)))


@compiled
def lanes_below(row, at, vector, vectors):
    """Return the lanes one below the `vector` at `at`.

    This many `vectors` of the row are computed.

    They lie in two vectors. To load them at once is the least work, but while either is still in
    the queue of stores the processor waits for it.
    """
    return load(row, at - 1) if vectors >= MANY else moved_up(vector, load(row, at - WIDTH))


@compiled
def advance_tile(span, lattice, tile, emitted, hands, odd, even, bands, b, choices):
    """Advance the best scores over one tile's frames, in place, and write their choices.

    Returns where the last hand is.

    Args:
        span: first frame, frames, first and last (exclusive) vector, states, `base` and `by_frame`,
            which place the choices, whether the lowest vector's lane below changes from frame to
            frame, and whether the last strip's top lane is wanted.
        lattice: whether it is general, the rows of the tile that states emit, flags, and their
            costs.
        tile: emissions by class, see `emission_tiles`.
        emitted: odd and even states' emissions, scratch for a strip.
        hands: (4 * WIDTH): the first filled by `receive`.
    """
    t0, now, first, end, size, base, by_frame, is_handed, hands_on = span
    general, rows, flags, costs = lattice
    odd_scores, even_scores = emitted
    words, odd_rows, blank_row, banded = (
        2 if general else 1,
        rows.shape[0] // 2,
        rows[0] * WIDTH,
        bands.shape[0] > 0,
    )
    hand, next_hand = 0, 2 * WIDTH
    v = first
    while v < end:
        stop = min((v // STRIP + 1) * STRIP, end)
        for w in range(v, stop):
            gather_transposed(
                tile, rows, odd_rows + w * WIDTH, odd_scores, (w - v) * WIDTH, STRIP * WIDTH
            )
            if general:
                gather_transposed(
                    tile, rows, w * WIDTH, even_scores, (w - v) * WIDTH, STRIP * WIDTH
                )
        below, top = place(v) - WIDTH, place(stop - 1) + WIDTH - 1
        takes, gives = v > first or is_handed, stop < end or hands_on
        for k in range(now):
            hand_over(hands, hand, next_hand, k, takes, gives, odd, even, below, top)
            blank = splat(np.float64(get(tile, blank_row + k)))
            from_state, to_state = 0, size
            if banded:
                from_state, to_state = bands[b, t0 + k, 0], bands[b, t0 + k, 1]
            start, at, p = below + WIDTH, k * STRIP * WIDTH, base + (t0 + k) * by_frame + v * words
            for n in range((stop - v - 1) * WIDTH, -1, -WIDTH):
                i = start + n
                silence, token = load(even, i), load(odd, i)
                token_below = lanes_below(odd, i, token, stop - v)
                if general:
                    cost, q = (v * WIDTH + n) * 4, p + n // WIDTH * 2
                    best, step, skip = best_of_three(
                        silence + load(costs, cost + WIDTH),
                        token_below,
                        lanes_below(even, i, silence, stop - v) + load(costs, cost),
                    )
                    put_bits(choices, q, step, skip)
                    other, step, skip = best_of_three(
                        token + load(costs, cost + 3 * WIDTH),
                        silence,
                        token_below + load(costs, cost + 2 * WIDTH),
                    )
                    put_bits(choices, q + 1, step, skip)
                    best = best + widened(load(even_scores, at + n))
                else:
                    best, other, step, enters = best_of_ctc(
                        silence, token, token_below, get(flags, v * 4 + n // WIDTH * 4 + 2)
                    )
                    put_bits(choices, p + n // WIDTH, step, enters)
                    best = best + blank
                other = other + widened(load(odd_scores, at + n))
                if banded:
                    best = limited(best, v * WIDTH + n, (from_state + 1) // 2, (to_state + 1) // 2)
                    other = limited(other, v * WIDTH + n, from_state // 2, to_state // 2)
                store(even, i, best)
                store(odd, i, other)
        hand, next_hand = next_hand, hand
        v = stop
    return hand


@compiled
def save_row(odd, even, saved, number, first, last):
    """Keep the numbers first … last - 1 of both rows."""
    for i in range(first, last):
        saved[0][number, i], saved[1][number, i] = odd[i], even[i]


@compiled
def walk_part(inputs, b, bands, part, scratch, columns, saved):
    """Compute one part of a long utterance: some frames of some vectors.

    The scratch is laid out, and rows continue.

    Args:
        inputs: see `problem.FlatProblem`.
        b: the utterance.
        bands: as for `walk`.
        part: first and last (exclusive) frame and vector, the goal's frame and state, the last
            state that matters, the number of classes used, and two numbers that place the choices
            of frame t and vector v: base + t * by frame + 2 * v (v unless general).
        scratch: as for `walk`.
        columns: the values of the vector below at each frame, and those of its top vector; or
            empty.
        saved: (blocks, row size) odd and even rows to be saved every `block` frames, and that
            number.

    Returns:
        False if there is NaN or +inf.
    """
    f0, f1, v0, v1, goal_frame, goal_state, last_of_all, count_used, base, by_frame = part
    _, used, row_of_used, rows, flags, costs, odd, even, tile, odd_scores, even_scores, hands = (
        scratch[:12]
    )
    choices = scratch[14]
    column_in, column_out = columns
    saved_odd, _, block = saved
    lattice, goal = (inputs.general[b], rows, flags, costs), (goal_frame, goal_state, last_of_all)
    size, emission = inputs.fields[3][b], emission_of(inputs, b)
    for t0 in range(f0, f1, WIDTH):
        now = min(WIDTH, f1 - t0)
        if saved_odd.shape[0] and t0 % block == 0:
            save_row(odd, even, saved, t0 // block, place(v0) - WIDTH, place(v1 - 1) + WIDTH)
        first, end = tile_range(t0, now, goal, bands, b, v0, v1, v1)
        if first < end and not fetch(
            emission, t0, now, count_used, used, row_of_used, inputs.dense, tile
        ):
            return False
        is_handed = v0 > 0 and first == v0
        if is_handed:
            receive_column(hands, column_in, t0)
        else:
            receive(hands, odd, even, first, t0, bands, b)
        span = (t0, now, first, end, size, base, by_frame, is_handed, column_out.shape[0] > 0)
        hand = advance_tile(
            span, lattice, tile, (odd_scores, even_scores), hands, odd, even, bands, b, choices
        )
        if column_out.shape[0]:
            give_column(hands, hand, column_out, t0, odd, even, v1 - 1, first < end and end == v1)
    return True


@in_kernels_too
def emission_of(inputs, b):
    """Return utterance b as `emission_tiles.fetch` takes it."""
    x, classes, wild = inputs.source
    by_utterance, by_frame, by_class, wild_by_utterance, wild_by_frame = inputs.strides
    return (
        x,
        b * by_utterance,
        by_frame,
        by_class,
        classes,
        wild,
        b * wild_by_utterance,
        wild_by_frame,
    )


@compiled
def walk_once(inputs, b, bands, lattice, count_used, scratch, pruning, effort):
    """Compute all frames of an utterance, dropping vectors that cannot win.

    All states of such a vector have lost more than a budget.

    Args:
        inputs, b, bands, scratch, pruning: as for `walk`; `scratch` is laid out.
        lattice: as for `advance_tile`.
        count_used: how many classes are used.
        effort: the budget, whether it follows what is lost so far, and whether anything is dropped.

    Returns:
        False if there is NaN or +inf; whether dropping was given up, since it pays too little or
        all is dropped; how many choices there are; the sums of the frames' best scores, and of
        their absolute values; and what was dropped: the best score relative to the former sum.
    """
    _, used, row_of_used, _, _, _, odd, even, tile, odd_scores, even_scores, hands = scratch[:12]
    best_of_frames, places, choices = scratch[12:]
    _, growth, known_loss, known_frames = pruning
    budget, adapts, prunes = effort
    size, frames, finals = inputs.fields[3][b], inputs.lengths[b], inputs.fields[5][b]
    words, vectors = 2 if lattice[0] else 1, ((size + 1) // 2 + WIDTH - 1) // WIDTH
    emission, goal = emission_of(inputs, b), (frames - 1, size - finals, size - 1)
    low, high, room = 0, vectors, 0
    best_of_all, size_of_all, dropped = 0.0, 0.0, NEVER
    for v in range(vectors):
        store(odd, place(v), splat(NEVER))
        store(even, place(v), splat(NEVER))
    for t0 in range(0, frames, WIDTH):
        now = min(WIDTH, frames - t0)
        first, end = tile_range(t0, now, goal, bands, b, low, high, vectors)
        by_frame = max(end - first, 0) * words
        base = room - t0 * by_frame - first * words
        room += now * by_frame
        put(places, t0 // WIDTH * 2, base)
        put(places, t0 // WIDTH * 2 + 1, by_frame)
        if room > choices.shape[0] or (first >= end and dropped > NEVER):
            return True, True, room, best_of_all, size_of_all, dropped
        if first < end and not fetch(
            emission, t0, now, count_used, used, row_of_used, inputs.dense, tile
        ):
            return False, False, room, best_of_all, size_of_all, dropped
        receive(hands, odd, even, first, t0, bands, b)
        span = (t0, now, first, end, size, base, by_frame, False, False)
        advance_tile(
            span, lattice, tile, (odd_scores, even_scores), hands, odd, even, bands, b, choices
        )
        if not prunes or first >= end:
            continue
        best, best_size = _best_classes(tile, count_used, row_of_used, now, best_of_frames)
        best_of_all += best
        size_of_all += best_size
        if t0 + now >= frames:
            continue
        if adapts:
            # As much again as the best state has lost so far, in the frames to come; and more while
            # that says little.
            lost = best_of_all - _best_score(odd, even, first, end, hands)
            budget = growth * (lost + known_loss) * frames / (t0 + now + known_frames)
            if dropped == NEVER:
                if 4 * t0 > frames:
                    prunes = False  # it does not pay
                    high = vectors
                    continue
            elif 2 * room > frames * vectors * words:
                return True, True, room, best_of_all, size_of_all, dropped
        # At first all paths are near the start, and have lost about the same.
        if not adapts or t0 + now >= min(vectors * WIDTH // 6, 64 * WIDTH):
            low, high, best = drop(odd, even, first, end, best_of_all - budget, hands)
            dropped = max(dropped, best - best_of_all)
            if low < high < vectors:
                high += 1  # paths rise by less than a vector in a tile
    return True, False, room, best_of_all, size_of_all, dropped


@compiled
def walk(inputs, bands, todo, scratch, states, scores, read, pruning):
    """Find the best paths of utterances.

    Args:
        inputs: see `problem.FlatProblem`.
        bands: (B, T, 2) int64: first and last (exclusive) state of each frame; or without any: (0,
            0, 2).
        todo: the utterances; all get their `scores`, those with a path their rows of `states` (B,
            T), -1 before. The score is +inf of one that needs more choices than there is room for.
        scratch: row_of_class, used, row_of_used, rows, flags, costs, odd, even, tile, odd scores,
            even scores, hands, the best of a tile's frames, places of the tiles' choices, and
            choices: see `long_viterbi.scratch_arrays`.
        read: two arrays (B * T,) for the classes of the states and their log-probs, of utterances
            with a path; or empty.
        pruning: see `PRUNING`.

    Returns:
        The number of utterances done; fewer than all if the next has NaN or +inf.
    """
    emit, skip, stay, sizes, starts, finals, min_frames = inputs.fields
    row_of_class, used, row_of_used, rows, flags, costs, odd, even = scratch[:8]
    places, choices = scratch[13:]
    for done in range(todo.shape[0]):
        b = todo[done]
        size, frames, general = sizes[b], inputs.lengths[b], inputs.general[b]
        if frames == 0 or frames < min_frames[b]:
            scores[b] = 0.0 if frames == min_frames[b] else NEVER
            continue
        vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
        lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags[: 4 * vectors])
        if general:
            mask_costs(flags[: 4 * vectors], costs)
        classes, dense = inputs.source[1], inputs.dense
        count_used = rows_of_classes(
            emit[b, :size], classes, dense, row_of_class, used, row_of_used, rows
        )
        lattice = (general, rows, flags, costs)
        adapts = prunes = vectors >= pruning[0]
        budget = np.inf
        while True:
            effort = (budget, adapts, prunes)
            fine, gave_up, room, best_of_all, size_of_all, dropped = walk_once(
                inputs, b, bands, lattice, count_used, scratch, pruning, effort
            )
            if not fine:
                return done
            if room > choices.shape[0]:
                scores[b] = np.inf
                break
            if gave_up:
                adapts = prunes = False
                continue
            state, score = last_state(odd, even, size, finals[b])
            # Sums over the frames are rounded, at most by this.
            slack = 1e-15 * frames * (size_of_all + best_of_all - score)
            if is_proved(dropped, score - best_of_all - slack):
                scores[b] = score
                if score > NEVER:
                    trace_tiles(choices, places, general, flags, frames - 1, state, states[b])
                    if read[0].shape[0]:
                        read_off(
                            emission_of(inputs, b),
                            frames,
                            emit[b],
                            states[b],
                            b * states.shape[1],
                            read,
                        )
                break
            # Again with the budget that this path needs, or, if even that was too little, without
            # any.
            prunes = adapts and score > NEVER
            adapts = False
            budget = best_of_all - score + 2 * slack
    return todo.shape[0]


@compiled
def is_proved(dropped, score):
    """Return whether the path that was found, of this score, is proved to be the best.

    Nothing was dropped, or nothing as good.
    """
    return dropped == NEVER or dropped < score
