"""Forward score, occupancy and its tangents in float64 logarithms, for every topology.

They serve float64 log-probs, detours, and utterances for which the scaled numbers of `sums` do not
hold.

    alpha[t, s] = x[t, s] + log(sum of e**alpha[t-1, p] over the states p from which s may be
    entered)
    beta[t, p]  = log(sum of e**w[s] over the states s that may be entered from p),  where w =
    x[t+1] + beta[t+1]
    occupancy   = e**(alpha + beta), made to sum to 1 in each frame, added up per class

Rows of alpha are kept for one block of frames; those of earlier blocks are computed again from a
saved row.

Tangents of logarithms, along a direction v, are means: the tangent of the log of a sum is the mean
of the tangents of its terms, weighted by their shares. So alpha's is the expected sum of v up to
frame t, beta's that after it, and

    tangent of occupancy = occupancy * (alpha's + beta's - their mean in the frame, weighted by the
    occupancies)

A number is a tuple: its logarithm, and its tangent where there is a direction; a row of them is an
array (1 or 2, …).
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled_with_arrays


@compiled_with_arrays
def _at(rows, s):
    """Return a number of a row."""
    if len(rows) == 1:
        return (rows[0][s],)
    return rows[0][s], rows[1][s]


@compiled_with_arrays
def _set(rows, s, a):
    rows[0][s] = a[0]
    if len(rows) == 2:
        rows[1][s] = a[1]


@compiled_with_arrays
def _parts(rows, t, numbers):
    """Return row t of `rows` (N, parts, S) as a tuple of arrays, as many as `numbers` has parts."""
    if len(numbers) == 1:
        return (rows[t, 0],)
    return rows[t, 0], rows[t, 1]


@compiled_with_arrays
def _if(condition, a):
    """Return a number, or zero."""
    if len(a) == 1:
        return (a[0] if condition else -np.inf,)
    return (a[0], a[1]) if condition else (-np.inf, 0.0)


@compiled_with_arrays
def _log_add(a, b, c):
    if not (a < np.inf and b < np.inf and c < np.inf):
        return np.nan
    top = max(a, b, c)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))


@compiled_with_arrays
def _add_two(a, da, b, db):
    """Return log(e**a + e**b) and its tangent; 0 where both are -inf."""
    if a < b:
        a, da, b, db = b, db, a, da
    if a == -np.inf:
        return a, 0.0
    ratio = np.exp(b - a)
    return a + np.log1p(ratio), da + (db - da) * (ratio / (1.0 + ratio))


@compiled_with_arrays
def _add(a, b):
    if len(a) == 1:
        return (_log_add(a[0], b[0], -np.inf),)
    return _add_two(a[0], a[1], b[0], b[1])


@compiled_with_arrays
def _add_three(a, b, c):
    """Return a + b + c, in this order where it decides how the sum is rounded."""
    if len(a) == 1:
        return (_log_add(a[0], b[0], c[0]),)
    return _add(_add(a, b), c)


@compiled_with_arrays
def _times(a, scores, s):
    """Return a number times what state s emits, a row of scores and one of moves."""
    if len(a) == 1:
        return (a[0] + scores[0][s] if a[0] != -np.inf else a[0],)
    return a[0] + scores[0][s], a[1] + scores[1][s]


@compiled_with_arrays
def _emit(emissions, emit, t, is_met, scores):
    """Fill the scores and moves of all states at frame t.

    With `is_met` NaN and +inf become -inf: in an utterance with a finite total no path meets them.
    """
    x, stride, wildcard, direction, own_direction = emissions
    for s in range(emit.shape[0]):
        score = wildcard[t] if emit[s] < 0 else x[t * stride + emit[s]]
        scores[0][s] = score if score < np.inf or not is_met else -np.inf
        if len(scores) == 2:
            scores[1][s] = own_direction[t] if emit[s] < 0 else direction[t, emit[s]]


@compiled_with_arrays
def _first_row(scores, begin, row):
    """Fill alpha of the first frame, state s at index s + 2."""
    row[0][:] = -np.inf
    for s in range(begin.shape[0]):
        if len(row) == 2:
            row[1][s + 2] = 0.0
        if begin[s]:
            _set(row, s + 2, _at(scores, s))


@compiled_with_arrays
def _last_row(end, beta):
    """Fill beta of the last frame: 1 where a path may end."""
    for s in range(end.shape[0]):
        beta[0][s] = 0.0 if end[s] else -np.inf


@compiled_with_arrays
def _begin_block(alpha, saved, k):
    """Take back the first row of block k."""
    alpha[0] = saved[k]


@compiled_with_arrays
def _next_row(scores, skip, stay, sources, before, row):
    """Fill alpha of a frame from that of the one before; state s at index s + 2."""
    for s in range(skip.shape[0]):
        total = _add_three(
            _if(stay[s], _at(before, s + 2)), _at(before, s + 1), _if(skip[s], _at(before, s))
        )
        for p in sources[s]:
            if p < 0:
                break
            total = _add(total, _at(before, p + 2))
        _set(row, s + 2, _times(total, scores, s))


@compiled_with_arrays
def _previous_row(scores, skip, stay, sources, beta, w):
    """Compute beta of one frame from that of the next, in place.

    `w` (S + 2) is scratch, whose last two numbers are zero.
    """
    size = skip.shape[0]
    for s in range(size):
        w[0][s] = beta[0][s] + scores[0][s]
        if len(w) == 2:
            w[1][s] = beta[1][s] + scores[1][s]
    for s in range(size):
        jump = _if(s + 2 < size and skip[s + 2], _at(w, s + 2))
        _set(beta, s, _add_three(_at(w, s + 1), _if(stay[s], _at(w, s)), jump))
    for s in range(size):
        for p in sources[s]:
            if p < 0:
                break
            _set(beta, p, _add(_at(beta, p), _at(w, s)))


@compiled_with_arrays
def _add_occupancy(alpha, beta, gamma, emit, out, out_wildcard, t):
    """Add one frame's occupancy, or its tangents, to `out`; `gamma` (S + 2,) is scratch.

    It is divided by its frame's sum: at 1e20 its difference to the total has no digits.
    """
    top, total, mean = -np.inf, 0.0, 0.0
    for s in range(emit.shape[0]):
        gamma[s] = alpha[0][s + 2] + beta[0][s] if beta[0][s] != -np.inf else -np.inf
        top = max(top, gamma[s])
    for s in range(emit.shape[0]):
        gamma[s] = np.exp(gamma[s] - top)
        total += gamma[s]
        if len(alpha) == 2:
            mean += gamma[s] * (alpha[1][s + 2] + beta[1][s])
    mean /= total
    for s in range(emit.shape[0]):
        share = gamma[s] / total
        if len(alpha) == 2:
            share = share * (alpha[1][s + 2] + beta[1][s] - mean)
        if emit[s] >= 0:
            out[t, emit[s]] += share
        elif out_wildcard.shape[0]:
            out_wildcard[t] += share


@compiled_with_arrays
def _total(row, end):
    total = -np.inf
    for s in range(end.shape[0]):
        if end[s]:
            total = _log_add(total, row[s + 2], -np.inf)
    return total


@compiled_with_arrays
def log_sums(emissions, frames, topology, block, number, out, out_wildcard):
    """Return the log-likelihood of one utterance.

    Add the occupancy or its tangents to `out` (T, C), unless that is (0, 0).

    Args:
        emissions: x and its stride, class c of frame t is x[t * stride + c]; scores of the wildcard
            (T,), read where a state emits it; and a direction (T, C) and the wildcard's (T,), both
            float64 and finite: best with a mean of 0, weighted by the posteriors, in each frame,
            for then all numbers are small.
        topology: emit, skip, stay (S,), sources (S, P), begin and end (S,).
        block: frames whose rows are kept, at least 2 (or all).
        number: a number as it is to be computed with, of one part, or of two, with tangents; the
            utterance must then have a path.
        out_wildcard: (T,) for the wildcard's occupancy, or empty.

    Returns:
        The score; NaN where paths meet NaN or +inf.
    """
    emit, skip, stay, sources, begin, end = topology
    size, want, is_met = emit.shape[0], out.shape[0] > 0, len(number) == 2
    kept = block if want else 2
    # Of alpha: NaN would be left in what is not written of tangents, too.
    alpha = np.zeros((kept, len(number), size + 2))
    alpha[:, 0] = -np.inf
    scores = _parts(np.empty((1, len(number), size)), 0, number)
    blocks = (frames + block - 1) // block
    saved = np.empty((blocks if want and blocks > 1 else 0, len(number), size + 2))
    for t in range(frames):
        row = _parts(alpha, t % kept, number)
        _emit(emissions, emit, t, is_met, scores)
        if t == 0:
            _first_row(scores, begin, row)
        else:
            _next_row(scores, skip, stay, sources, _parts(alpha, (t - 1) % kept, number), row)
        if saved.shape[0] and t % block == 0:
            saved[t // block] = alpha[t % kept]
    total = _total(alpha[(frames - 1) % kept, 0], end)
    if not want or not -np.inf < total < np.inf:
        return total
    beta = _parts(np.zeros((1, len(number), size)), 0, number)
    w = _parts(np.zeros((1, len(number), size + 2)), 0, number)
    w[0][:] = -np.inf
    _last_row(end, beta)
    for k in range(blocks - 1, -1, -1):
        first, last = k * block, min(frames, (k + 1) * block)
        if k < blocks - 1:
            _begin_block(alpha, saved, k)
            for t in range(first + 1, last):
                _emit(emissions, emit, t, True, scores)
                before = _parts(alpha, t - first - 1, number)
                _next_row(scores, skip, stay, sources, before, _parts(alpha, t - first, number))
        for t in range(last - 1, first - 1, -1):
            if t < frames - 1:
                _emit(emissions, emit, t + 1, True, scores)
                _previous_row(scores, skip, stay, sources, beta, w)
            _add_occupancy(_parts(alpha, t - first, number), beta, w[0], emit, out, out_wildcard, t)
    return total
