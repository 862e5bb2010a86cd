"""Forward score and occupancy in float64 logarithms, for every topology: for float64 log-probs, for detours, and where
the scaled numbers of `sums` do not hold.

    alpha[t, s] = x[t, s] + log(sum of e**alpha[t-1, p] over the states p from which s may be entered)
    beta[t, p]  = log(sum of e**w[s] over the states s that may be entered from p),  where w = x[t+1] + beta[t+1]
    occupancy   = e**(alpha + beta), made to sum to 1 in each frame, added up per class

Rows of alpha are kept for one block of frames; those of earlier blocks are computed again from a saved row.

Tangents of logarithms, along a direction v, are means: the tangent of the log of a sum is the mean of the tangents of
its terms, weighted by their shares. So alpha's is the expected sum of v up to frame t, beta's that after it, and

    tangent of occupancy = occupancy * (alpha's + beta's - their mean in the frame, weighted by the occupancies)
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled


@compiled
def _log_add(a, b, c):
    if not (a < np.inf and b < np.inf and c < np.inf):
        return np.nan
    top = max(a, b, c)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))


@compiled
def _emit(x, place, emit, wildcard, t, scores):
    """Fill the scores of all states at frame t, whose class c is x[place + c]."""
    for s in range(emit.shape[0]):
        scores[s] = wildcard[t] if emit[s] < 0 else x[place + emit[s]]


@compiled
def _emit_met(x, place, emit, wildcard, t, scores):
    """Do as `_emit`, with NaN and +inf as -inf: in an utterance with a finite total no path meets them."""
    _emit(x, place, emit, wildcard, t, scores)
    for s in range(emit.shape[0]):
        if not scores[s] < np.inf:
            scores[s] = -np.inf


@compiled
def _first_row(scores, begin, row):
    """Fill alpha of the first frame, state s at index s + 2."""
    row[:] = -np.inf
    for s in range(scores.shape[0]):
        if begin[s]:
            row[s + 2] = scores[s]


@compiled
def _next_row(scores, skip, stay, sources, before, row):
    for s in range(scores.shape[0]):
        total = _log_add(before[s + 2] if stay[s] else -np.inf, before[s + 1], before[s] if skip[s] else -np.inf)
        for p in sources[s]:
            if p < 0:
                break
            total = _log_add(total, before[p + 2], -np.inf)
        row[s + 2] = total + scores[s] if total != -np.inf else total


@compiled
def _previous_row(scores, skip, stay, sources, beta, w):
    """Compute beta of one frame from that of the next, in place; `w` (S + 2,) is scratch that ends in -inf."""
    size = scores.shape[0]
    for s in range(size):
        w[s] = beta[s] + scores[s]
    for s in range(size):
        jump = w[s + 2] if s + 2 < size and skip[s + 2] else -np.inf
        beta[s] = _log_add(w[s] if stay[s] else -np.inf, w[s + 1], jump)
    for s in range(size):
        for p in sources[s]:
            if p < 0:
                break
            beta[p] = _log_add(beta[p], w[s], -np.inf)


@compiled
def _add_occupancy(alpha, beta, gamma, emit, out, out_wildcard, t):
    """Add one frame's occupancy, divided by its own sum: at 1e20 its difference to the total has no digits."""
    top, total = -np.inf, 0.0
    for s in range(emit.shape[0]):
        gamma[s] = alpha[s + 2] + beta[s] if beta[s] != -np.inf else beta[s]
        top = max(top, gamma[s])
    for s in range(emit.shape[0]):
        gamma[s] = np.exp(gamma[s] - top)
        total += gamma[s]
    for s in range(emit.shape[0]):
        if emit[s] < 0:
            out_wildcard[t] += gamma[s] / total
        else:
            out[t, emit[s]] += gamma[s] / total


@compiled
def _total(row, end):
    total = -np.inf
    for s in range(end.shape[0]):
        if end[s]:
            total = _log_add(total, row[s + 2], -np.inf)
    return total


@compiled
def logarithmic(x, stride, frames, emit, skip, stay, sources, begin, end, wildcard, block, out, out_wildcard):
    """Return the log-likelihood of one utterance; add the occupancy to `out` (T, C) unless it is (0, 0).

    `x`, `stride`: class c of frame t is x[t * stride + c]; `emit`, `skip`, `stay`, `begin`, `end` (S,); `sources`
    (S, P); `wildcard` (T,), read where emit is below 0, whose occupancy is added to `out_wildcard` (T,); `block`:
    frames whose rows are kept, at least 2 (or all). NaN where paths meet NaN or +inf.
    """
    size = emit.shape[0]
    want = out.shape[0] > 0
    kept = block if want else 2
    alpha = np.full((kept, size + 2), -np.inf)
    scores = np.empty(size)
    blocks = (frames + block - 1) // block
    saved = np.empty((blocks if want and blocks > 1 else 0, size + 2))
    for t in range(frames):
        row, before = alpha[t % kept], alpha[(t - 1) % kept]
        _emit(x, t * stride, emit, wildcard, t, scores)
        if t == 0:
            _first_row(scores, begin, row)
        else:
            _next_row(scores, skip, stay, sources, before, row)
        if saved.shape[0] and t % block == 0:
            saved[t // block] = row
    total = _total(alpha[(frames - 1) % kept], end)
    if not want or not -np.inf < total < np.inf:
        return total
    beta, w = np.full(size, -np.inf), np.full(size + 2, -np.inf)
    for s in range(size):
        if end[s]:
            beta[s] = 0.0
    for k in range(blocks - 1, -1, -1):
        first, last = k * block, min(frames, (k + 1) * block)
        if k < blocks - 1:
            alpha[0] = saved[k]
            for t in range(first + 1, last):
                _emit_met(x, t * stride, emit, wildcard, t, scores)
                _next_row(scores, skip, stay, sources, alpha[t - first - 1], alpha[t - first])
        for t in range(last - 1, first - 1, -1):
            if t < frames - 1:
                _emit_met(x, (t + 1) * stride, emit, wildcard, t + 1, scores)
                _previous_row(scores, skip, stay, sources, beta, w)
            _add_occupancy(alpha[t - first], beta, w, emit, out, out_wildcard, t)
    return total


@compiled
def _add(a, da, b, db):
    """Return log(e**a + e**b) and its tangent; 0 where both are -inf."""
    if a < b:
        a, da, b, db = b, db, a, da
    if a == -np.inf:
        return a, 0.0
    ratio = np.exp(b - a)
    return a + np.log1p(ratio), da + (db - da) * (ratio / (1.0 + ratio))


@compiled
def _next_tangents(scores, moves, skip, stay, sources, before, row):
    """Compute a row of alpha and its tangents, (2, S + 2), from the one before; state s at index s + 2."""
    for s in range(scores.shape[0]):
        a, da = -np.inf, 0.0
        if stay[s]:
            a, da = before[0, s + 2], before[1, s + 2]
        a, da = _add(a, da, before[0, s + 1], before[1, s + 1])
        if skip[s]:
            a, da = _add(a, da, before[0, s], before[1, s])
        for p in sources[s]:
            if p < 0:
                break
            a, da = _add(a, da, before[0, p + 2], before[1, p + 2])
        row[0, s + 2], row[1, s + 2] = a + scores[s], da + moves[s]


@compiled
def _previous_tangents(scores, moves, skip, stay, sources, beta, w):
    """Compute beta and its tangents (2, S) of a frame from those of the next, in place; `w` (2, S + 2) ends in -inf."""
    size = scores.shape[0]
    for s in range(size):
        w[0, s], w[1, s] = beta[0, s] + scores[s], beta[1, s] + moves[s]
    for s in range(size):
        a, da = w[0, s + 1], w[1, s + 1]
        if stay[s]:
            a, da = _add(a, da, w[0, s], w[1, s])
        if s + 2 < size and skip[s + 2]:
            a, da = _add(a, da, w[0, s + 2], w[1, s + 2])
        beta[0, s], beta[1, s] = a, da
    for s in range(size):
        for p in sources[s]:
            if p < 0:
                break
            beta[0, p], beta[1, p] = _add(beta[0, p], beta[1, p], w[0, s], w[1, s])


@compiled
def _add_tangents(alpha, beta, gamma, emit, out):
    """Add one frame's tangents to `out` (C,); `gamma` (S + 2,) is scratch."""
    size = emit.shape[0]
    top, total, mean = -np.inf, 0.0, 0.0
    for s in range(size):
        gamma[s] = alpha[0, s + 2] + beta[0, s]
        top = max(top, gamma[s])
    for s in range(size):
        gamma[s] = np.exp(gamma[s] - top)
        total += gamma[s]
        mean += gamma[s] * (alpha[1, s + 2] + beta[1, s])
    mean /= total
    for s in range(size):
        if emit[s] >= 0:
            out[emit[s]] += gamma[s] / total * (alpha[1, s + 2] + beta[1, s] - mean)


@compiled
def _move(direction, own_direction, emit, t, moves):
    for s in range(emit.shape[0]):
        moves[s] = own_direction[t] if emit[s] < 0 else direction[t, emit[s]]


@compiled
def tangents(
    x, stride, frames, emit, skip, stay, sources, begin, end, wildcard, block, direction, own_direction, out
):  # fmt: skip
    """Add the tangents of one utterance's occupancy to `out` (T, C) float64; the utterance must have a path.

    `direction` (T, C) and the wildcard's `own_direction` (T,), both float64 and finite: best with a mean of 0, weighted
    by the posteriors, in each frame, for then all numbers are small. The rest as in `logarithmic`.
    """
    size = emit.shape[0]
    scores, moves = np.empty(size), np.empty(size)
    alpha = np.full((block, 2, size + 2), -np.inf)
    alpha[:, 1] = 0.0
    blocks = (frames + block - 1) // block
    saved = np.empty((blocks, 2, size + 2))
    beta, w = np.zeros((2, size)), np.zeros((2, size + 2))
    w[0] = -np.inf
    for s in range(size):
        beta[0, s] = 0.0 if end[s] else -np.inf
    # Forwards over all frames, keeping the last block; then backwards, block by block, each computed again first.
    for stage in range(-1, blocks):
        first = 0 if stage < 0 else (blocks - 1 - stage) * block
        last = frames if stage < 0 else min(first + block, frames)
        if stage > 0:
            alpha[0] = saved[blocks - 1 - stage]
        for t in range(first if stage < 0 else first + 1, last if stage else first):
            _emit_met(x, t * stride, emit, wildcard, t, scores)
            _move(direction, own_direction, emit, t, moves)
            row = alpha[t % block]
            if t == 0:
                _first_row(scores, begin, row[0])
                for s in range(size):
                    row[1, s + 2] = moves[s] if begin[s] else 0.0
            else:
                _next_tangents(scores, moves, skip, stay, sources, alpha[(t - 1) % block], row)
            if t % block == 0:
                saved[t // block] = row
        if stage < 0:
            continue
        for t in range(last - 1, first - 1, -1):
            if t < frames - 1:
                _emit_met(x, (t + 1) * stride, emit, wildcard, t + 1, scores)
                _move(direction, own_direction, emit, t + 1, moves)
                _previous_tangents(scores, moves, skip, stay, sources, beta, w)
            _add_tangents(alpha[t % block], beta, w[0], emit, out[t])
