"""Directions for tangents on the CPU, made ready as emissions are: tiles of WIDTH frames, of the classes that are used.

What moves all classes of a frame alike moves no posterior: moves are taken from their frame's mean, weighted by the
posteriors, and by the scale of the largest. Tiles of the whole utterance are kept: they are needed three times.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled
from ctc_align.kernels.cpu.emission_tiles import ALL, fetch
from ctc_align.kernels.cpu.simd import WIDTH, bits_of, choose, greater, load, splat, store

LEAST, MOST = 1e-30, 1e30
"""Directions whose largest move is beyond these are left to float64."""


@compiled
def _fetch(given, b, t0, frames, classes, nothing, tile):
    """One tile of utterance b; `given` and `classes` as in `tangent_sums`. Of the wildcard it is `nothing` (1,): its
    scores stand still, and what its posterior weighs is not asked for."""
    row, by_utterance, by_frame, by_class, aside, count = given
    number, used, row_of_used, dense = classes
    source = (row, b * by_utterance, by_frame, by_class, count, nothing, 0, 0)
    return fetch(source, t0, min(WIDTH, frames - t0), number, used, row_of_used, dense and aside, tile)


@compiled
def moves_and_weights(direction, known, b, frames, classes, size, moves, weights, largest):
    """Fills the tiles of `moves` and `weights`, one after the other, each of `size`; `classes` as in `tangent_sums`;
    `largest` (WIDTH,) is room.

    Returns the scale by which moves were divided, a power of 2; 0 where none moves; -1 where one is infinite, or no
    number, or all are so small or large that float32 has no room for their sums.
    """
    number, _, row_of_used, _ = classes
    still = np.zeros(1, np.float32)
    least, nothing = splat(np.float32(-np.inf)), splat(np.float32(0.0))
    most = nothing
    for t0 in range(0, frames, WIDTH):
        at = t0 // WIDTH * size
        mine, own = moves[at : at + size], weights[at : at + size]
        fine = _fetch(direction, b, t0, frames, classes, still, mine)
        if not fine or not _fetch(known, b, t0, frames, classes, still, own):
            return np.float32(-1.0)
        mean = nothing
        for u in range(number):
            place = row_of_used[u] * WIDTH
            if bits_of(greater(load(mine, place), least)) != ALL:
                return np.float32(-1.0)
            mean = mean + load(mine, place) * load(own, place)
        for u in range(number):
            place = row_of_used[u] * WIDTH
            move = load(mine, place) - mean
            store(mine, place, move)
            most = choose(greater(move, most), move, most)
            move = nothing - move
            most = choose(greater(move, most), move, most)
    store(largest, 0, most)
    scale = np.float32(0.0)
    for k in range(WIDTH):
        scale = max(scale, largest[k])
    if not (LEAST < scale < MOST):
        return scale if scale == 0.0 else np.float32(-1.0)
    scale = np.float32(2.0 ** np.floor(np.log2(scale)))
    for t0 in range(0, frames, WIDTH):
        for u in range(number):
            place = t0 // WIDTH * size + row_of_used[u] * WIDTH
            store(moves, place, load(moves, place) * splat(np.float32(1.0) / scale))
    return scale
