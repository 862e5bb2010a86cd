"""Viterbi on the CPU. Layout: lane i holds state 2i (even) and 2i + 1 (odd); WIDTH lanes make a vector, STRIP vectors a
strip, before which one vector is kept free. One row of float64 for the even and one for the odd states, in place.

    even[i] = x + max(even[i], odd[i-1], even[i-1] if skip)
    odd[i]  = x + max(odd[i], even[i], odd[i-1] if skip)                 ties: stay, step, skip

WIDTH frames of a strip are computed while it is in the nearest cache; the values of its last lane, frame by frame, are
handed to the next strip, in the free vector. Vectors are computed downwards, since a lane reads the values of the frame
before. Only vectors that can be reached from the start and can still reach the goal are computed: a path through others
does not exist. Choices are words of 2 * WIDTH bits for each vector and frame: even step and skip, odd step and skip;
of CTC one word: even step, odd entered (by a skip if the even state is stepped into and it may be). Where these would
be too many, rows are saved every `block` frames; the trace-back computes the choices of a block again from its row, in
the lanes from which its goal can be reached. In float64: the sums of the definition.

Where sound and text agree most states cannot matter. A path has *lost*, up to a frame, what the best classes of the
frames add up to beyond its score; from there on it loses 0 at least. So whatever path has lost more, at any frame, than
the path that is found has lost at its end is not the best, and is not as good. While a whole utterance is computed, the
vectors at both ends of the range in which no state has lost less than a *budget* are dropped after each WIDTH frames.
The budget follows what the best state has lost so far. At the end it is proved: nothing that was dropped had lost less
than the path, but for rounding. Else all is computed again with the budget that is needed, which is then known; or
without any, where that would leave out too little.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import ALL, fetch, rows_of_classes
from ctc_align.kernels.cpu.simd import (
    WIDTH,
    bits_of,
    bits_of_both,
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
    splat,
    store,
    widened,
)

STRIP = 16
NEVER = -np.inf
PRUNING = 6, 2.0, 20.0, 200.0
"""Vectors from which on states are dropped; and the first budget: so many times the loss that is to be expected, where
so many nats were lost in so many frames before the first."""


@compiled
def place(v):
    """Return the index of vector v in a row."""
    return (v + v // STRIP + 1) * WIDTH


@compiled
def lay_out(emit, skip, stay, starts, flags):
    """Fill `flags` (4 * vectors,): for each vector, bits of the lanes that may be skipped into and stayed in.

    Four words a vector: even skip, even stay, odd skip, odd stay. Lane -1 holds the beginning: from it the first even
    state is stepped into, the first odd one skipped into.
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
        flags[4 * v], flags[4 * v + 1], flags[4 * v + 2], flags[4 * v + 3] = even_skip, even_stay, odd_skip, odd_stay


@compiled
def weigh(flags, costs):
    """Fill `costs` (4 * lanes,): for each vector and kind of flag 0 where it is set, else -inf."""
    for k in range(flags.shape[0]):
        store(costs, k * WIDTH, choose(mask_of(flags[k]), splat(0.0), splat(NEVER)))


@compiled
def trace(choices, base, by_frame, general, flags, first, last, state, states):
    """Follow the choices from `state` at frame `last` down to frame `first`, and return the state there."""
    words = 2 if general else 1
    states[last] = state
    for t in range(last, first, -1):
        v, bit, odd = state // 2 // WIDTH, state // 2 % WIDTH, state % 2
        p = base + t * by_frame + v * words
        if general:
            chosen = np.int64(get(choices, p + odd)) >> bit
            state -= 2 if chosen >> WIDTH & 1 else chosen & 1
        else:
            chosen = np.int64(get(choices, p)) >> bit
            if not odd:
                state -= chosen & 1
            elif chosen >> WIDTH & 1:
                state -= 1 + (chosen & (np.int64(get(flags, v * 4 + 2)) >> bit) & 1)
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
def _limited(vector, lane, low, high):
    """Return the vector with -inf in the lanes outside low … high - 1."""
    lanes = count(lane)
    inside = greater(lanes, splat(np.int32(low - 1))) & greater(splat(np.int32(high)), lanes)
    return choose(inside, vector, splat(NEVER))


@compiled
def trace_tiles(choices, places, general, flags, last, state, states):
    """Do as `trace`, down to frame 0, where the choices of each tile have a base and a size by frame of their own."""
    for tile in range(last // WIDTH, -1, -1):
        here = get(places, 2 * tile), get(places, 2 * tile + 1)
        first = max(tile * WIDTH - 1, 0)
        state = trace(
            choices, here[0], here[1], general, flags, first, min(tile * WIDTH + WIDTH - 1, last), state, states
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
    """Return the sum of the best scores of a tile's frames, and of their absolute values; `best` is scratch."""
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
def _drop(odd, even, first, end, least, room):
    """Set the vectors at both ends of first … end - 1 to -inf in which no state has a score of at least `least`.

    Return the first and last (exclusive) that are left, and the best score among those that are not.
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
def walk(
    source,
    strides,
    topology,
    lengths,
    bands,
    generals,
    dense,
    todo,
    part,
    scratch,
    columns,
    saved,
    states,
    scores,
    read,
    pruning,
):
    """Find the best paths of utterances, or compute one part of a long one.

    Args:
        source: x, its number of classes, and the scores of the wildcard; x and scores flat.
        strides: of x by utterance, frame, class; of the wildcard by utterance, frame.
        topology: emit, skip, stay (B, S), states, starts, finals, min_frames (B,).
        lengths: (B,).
        bands: (B, T, 2) int64: first and last (exclusive) state of each frame; or without any: (0, 0, 2).
        generals: (B,) False where even states emit one class, are not skipped into and every state may be stayed in.
        dense: see `rows_of_classes`.
        todo: the utterances; all get their `scores`, those with a path their rows of `states` (B, T), -1 before. The
            score is +inf of one that needs more choices than there is room for.
        part: (), or the part to compute: first and last (exclusive) frame and vector, the goal's frame and state, the
            last state that matters, the number of classes used, and two numbers that place the choices of frame t and
            vector v: base + t * by frame + 2 * v (v unless general). The scratch must be laid out; rows continue.
        scratch: row_of_class, used, row_of_used, rows, flags, costs, odd, even, tile, odd scores, even scores, hands,
            the best of a tile's frames, places of the tiles' choices, and choices: see `long_viterbi.scratch_arrays`.
        columns: of a part: the values of the vector below at each frame, and those of its top vector; or empty.
        saved: of a part: (blocks, row size) odd and even rows to be saved every `block` frames, and that number.
        read: two arrays (B * T,) for the classes of the states and their log-probs, of utterances with a path; or
            empty.
        pruning: see `PRUNING`.

    Returns:
        The number of utterances done; fewer than all if the next has NaN or +inf.
    """
    x, classes, wild = source
    by_utterance, by_frame, by_class, wild_by_utterance, wild_by_frame = strides
    emit, skip, stay, sizes, starts, finals, min_frames = topology
    row_of_class, used, row_of_used, rows, flags, costs, odd, even, tile, odd_scores, even_scores, hands = scratch[:12]
    best_of_frames, places, choices = scratch[12:]
    least_vectors, growth, known_loss, known_frames = pruning
    column_in, column_out = columns
    saved_odd, saved_even, block = saved
    odd_rows, banded = rows.shape[0] // 2, bands.shape[0] > 0
    for done in range(todo.shape[0]):
        b = todo[done]
        size, frames, general = sizes[b], lengths[b], generals[b]
        words = 2 if general else 1
        if len(part) == 0:
            if frames == 0 or frames < min_frames[b]:
                scores[b] = 0.0 if frames == min_frames[b] else NEVER
                continue
            vectors = ((size + 1) // 2 + WIDTH - 1) // WIDTH
            f0, f1, v0, v1, goal_frame, goal, last_of_all = (
                0,
                frames,
                0,
                vectors,
                frames - 1,
                size - finals[b],
                size - 1,
            )
            base = row_choices = 0
            lay_out(emit[b, :size], skip[b], stay[b], starts[b], flags[: 4 * vectors])
            if general:
                weigh(flags[: 4 * vectors], costs)
            count_used = rows_of_classes(emit[b, :size], classes, dense, row_of_class, used, row_of_used, rows)
        else:
            f0, f1, v0, v1, goal_frame, goal, last_of_all, count_used, base, row_choices = part
        blank_row = rows[0] * WIDTH
        emitted = (x, b * by_utterance, by_frame, by_class, classes, wild, b * wild_by_utterance, wild_by_frame)
        adapts = prunes = len(part) == 0 and v1 - v0 >= least_vectors
        budget = np.inf
        while True:
            low_v, high_v, room = v0, v1, 0
            best_of_all, size_of_all, dropped = 0.0, 0.0, NEVER
            if len(part) == 0:
                for v in range(v0, v1):
                    store(odd, place(v), splat(NEVER))
                    store(even, place(v), splat(NEVER))
            for t0 in range(f0, f1, WIDTH):
                now = min(WIDTH, f1 - t0)
                if saved_odd.shape[0] and t0 % block == 0:
                    for i in range(place(v0) - WIDTH, place(v1 - 1) + WIDTH):
                        saved_odd[t0 // block, i], saved_even[t0 // block, i] = odd[i], even[i]
                low = max(0, goal - 2 * (goal_frame - t0)) // 2
                high = min(last_of_all // 2 + 1, t0 + now)
                if banded:
                    low, high = max(low, bands[b, t0, 0] // 2), min(high, (bands[b, t0 + now - 1, 1] + 1) // 2)
                first, end = min(max(low_v, low // WIDTH), v1), min(high_v, (high + WIDTH - 1) // WIDTH)
                if len(part) == 0:
                    row_choices = max(end - first, 0) * words
                    base = room - t0 * row_choices - first * words
                    room += now * row_choices
                    put(places, t0 // WIDTH * 2, base)
                    put(places, t0 // WIDTH * 2 + 1, row_choices)
                    if room > choices.shape[0] or (first >= end and dropped > NEVER):
                        best_of_all, adapts, prunes = np.inf, False, False
                        break
                if first < end and not fetch(emitted, t0, now, count_used, used, row_of_used, dense, tile):
                    return done
                hand, next_hand = 0, 2 * WIDTH
                if v0 > 0 and first == v0:
                    at = 2 * (t0 % (column_in.shape[0] // 2))
                    store(hands, 0, load(column_in, at))
                    store(hands, WIDTH, load(column_in, at + WIDTH))
                else:
                    store(hands, 0, splat(NEVER))
                    store(hands, WIDTH, splat(NEVER))
                    # Of vectors that bands left behind earlier the values are those of another frame.
                    if first > 0 and (not banded or t0 == 0 or bands[b, t0 - WIDTH, 0] // 2 // WIDTH < first):
                        at = place(first - 1) + WIDTH - 1
                        put(hands, 0, get(odd, at))
                        put(hands, WIDTH, get(even, at))
                    elif t0 == 0:
                        put(hands, 0, 0.0)
                v = first
                while v < end:
                    stop = min((v // STRIP + 1) * STRIP, end)
                    for w in range(v, stop):
                        gather_transposed(tile, rows, odd_rows + w * WIDTH, odd_scores, (w - v) * WIDTH, STRIP * WIDTH)
                        if general:
                            gather_transposed(tile, rows, w * WIDTH, even_scores, (w - v) * WIDTH, STRIP * WIDTH)
                    below, top = place(v) - WIDTH, place(stop - 1) + WIDTH - 1
                    # The lowest vector gets values at each frame only from another group.
                    handed, hands_on = v > first or (v0 > 0 and first == v0), stop < end or column_out.shape[0] > 0
                    for k in range(now):
                        t = t0 + k
                        if hands_on:
                            put(hands, next_hand + k, get(odd, top))
                            put(hands, next_hand + WIDTH + k, get(even, top))
                        if handed or k < 2:
                            store(odd, below, splat(get(hands, hand + k)))
                            store(even, below, splat(get(hands, hand + WIDTH + k)))
                        blank = splat(np.float64(get(tile, blank_row + k)))
                        from_state, to_state = 0, size
                        if banded:
                            from_state, to_state = bands[b, t, 0], bands[b, t, 1]
                        for w in range(stop - 1, v - 1, -1):
                            i, j, p = place(w), (k * STRIP + w - v) * WIDTH, base + t * row_choices + w * words
                            stays, own = load(even, i), load(odd, i)
                            before = moved_up(own, load(odd, i - WIDTH))
                            if general:
                                best = stays + load(costs, (w * 4 + 1) * WIDTH)
                                step = greater(before, best)
                                best = choose(step, before, best)
                                jump = moved_up(stays, load(even, i - WIDTH)) + load(costs, w * 4 * WIDTH)
                                skips = greater(jump, best)
                                best = choose(skips, jump, best) + widened(load(even_scores, j))
                                put(choices, p, bits_of_both(step, skips))
                                other = own + load(costs, (w * 4 + 3) * WIDTH)
                                step = greater(stays, other)
                                other = choose(step, stays, other)
                                jump = before + load(costs, (w * 4 + 2) * WIDTH)
                                skips = greater(jump, other)
                                other = choose(skips, jump, other)
                                put(choices, p + 1, bits_of_both(step, skips))
                            else:
                                # What enters the even state enters the odd one too, where it may be skipped into.
                                step = greater(before, stays)
                                best = choose(step, before, stays)
                                into = best
                                if get(flags, w * 4 + 2) != ALL:
                                    into = choose(mask_of(get(flags, w * 4 + 2)), best, stays)
                                enters = greater(into, own)
                                other = choose(enters, into, own)
                                best = best + blank
                                put(choices, p, bits_of_both(step, enters))
                            other = other + widened(load(odd_scores, j))
                            if banded:
                                best = _limited(best, w * WIDTH, (from_state + 1) // 2, (to_state + 1) // 2)
                                other = _limited(other, w * WIDTH, from_state // 2, to_state // 2)
                            store(even, i, best)
                            store(odd, i, other)
                    hand, next_hand = next_hand, hand
                    v = stop
                if column_out.shape[0]:
                    if end < v1 or first == end:
                        # The top of this group is not computed: only its values before the tile may still be of use.
                        at = place(v1 - 1) + WIDTH - 1
                        store(hands, hand, splat(NEVER))
                        store(hands, hand + WIDTH, splat(NEVER))
                        put(hands, hand, get(odd, at))
                        put(hands, hand + WIDTH, get(even, at))
                    at = 2 * (t0 % (column_out.shape[0] // 2))
                    store(column_out, at, load(hands, hand))
                    store(column_out, at + WIDTH, load(hands, hand + WIDTH))
                if prunes and first < end:
                    here, size_here = _best_classes(tile, count_used, row_of_used, now, best_of_frames)
                    best_of_all += here
                    size_of_all += size_here
                    if t0 + now < f1:
                        if adapts:
                            lost = best_of_all - _best_score(odd, even, first, end, hands)
                            budget = growth * (lost + known_loss) * frames / (t0 + now + known_frames)
                            if dropped == NEVER:
                                if 4 * t0 > frames:
                                    prunes = False  # it does not pay
                                    high_v = v1
                                    continue
                            elif 2 * room > frames * vectors * words:
                                best_of_all, adapts, prunes = np.inf, False, False
                                break
                        if not adapts or t0 + now >= min(v1 * WIDTH // 6, 64 * WIDTH):
                            low_v, high_v, here = _drop(odd, even, first, end, best_of_all - budget, hands)
                            dropped = max(dropped, here - best_of_all)
                            if low_v < high_v < v1:
                                high_v += 1
            if len(part) > 0:
                break
            state, score = last_state(odd, even, size, finals[b])
            slack = 1e-15 * frames * (size_of_all + best_of_all - score)
            if room > choices.shape[0]:
                scores[b] = np.inf
            elif dropped == NEVER or dropped < score - best_of_all - slack:
                scores[b] = score
                if score > NEVER:
                    trace_tiles(choices, places, general, flags, frames - 1, state, states[b])
                    if read[0].shape[0]:
                        read_off(emitted, frames, emit[b], states[b], b * states.shape[1], read)
            elif best_of_all == np.inf:
                continue
            else:
                prunes = adapts and score > NEVER
                adapts = False
                budget = best_of_all - score + 2 * slack
                continue
            break
    return todo.shape[0]
