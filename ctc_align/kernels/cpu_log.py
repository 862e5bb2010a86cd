"""As `cpu_sum.scaled`, in float64 logarithms: for float64 log-probs, and where scaled numbers cannot be trusted.

    alpha[t, s] = x[t, s] + log(e**alpha[t-1, s] + e**alpha[t-1, s-1] + e**alpha[t-1, s-2] if skip[s])
    beta[t, s]  = log(e**w[s] + e**w[s+1] + e**w[s+2] if skip[s+2]),  where w = x[t+1] + beta[t+1]
    occupancy   = e**(alpha + beta), made to sum to 1 in each frame, added up per class

Rows of alpha are kept for one block of frames; those of earlier blocks are made again from a saved row.
No compiled code of other files is called: the cache on disk sees changes of this one only.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def _log_add(a, b, c):
    top = max(a, b, c)
    if top == -np.inf:
        return top
    return top + np.log(np.exp(a - top) + np.exp(b - top) + np.exp(c - top))


@njit(nogil=True, cache=True)
def _next_row(scores, emit, skip, before, row):
    """alpha of one frame, state s at index s + 2; False when NaN or +inf is met, which are no log-probs."""
    for s in range(emit.shape[0]):
        score = np.float64(scores[emit[s]])
        if not score < np.inf:
            return False
        jump = before[s] if skip[s] else -np.inf
        row[s + 2] = _log_add(before[s + 2], before[s + 1], jump) + score
    return True


@njit(nogil=True, cache=True)
def _first_row(scores, emit, starts, row):
    row[:] = -np.inf
    for s in range(starts):
        score = np.float64(scores[emit[s]])
        if not score < np.inf:
            return False
        row[s + 2] = score
    return True


@njit(nogil=True, cache=True)
def _previous_row(scores, emit, skip, beta, w):
    """beta of one frame from that of the next, in place; `w` (S + 2,) is room that ends in -inf."""
    size = emit.shape[0]
    for s in range(size):
        w[s] = beta[s] + scores[emit[s]]
    for s in range(size):
        jump = w[s + 2] if s + 2 < size and skip[s + 2] else -np.inf
        beta[s] = _log_add(w[s], w[s + 1], jump)


@njit(nogil=True, cache=True)
def _add_occupancy(alpha, beta, gamma, emit, out):
    """One frame's; by its own sum, not the total's: at 1e20 even float64 could make anything of their difference."""
    top, total = -np.inf, 0.0
    for s in range(emit.shape[0]):
        gamma[s] = alpha[s + 2] + beta[s]
        top = max(top, gamma[s])
    for s in range(emit.shape[0]):
        gamma[s] = np.exp(gamma[s] - top)
        total += gamma[s]
    for s in range(emit.shape[0]):
        out[emit[s]] += gamma[s] / total


@njit(nogil=True, cache=True)
def logarithmic(x, stride, frames, emit, skip, starts, finals, block, out):
    """Log-likelihood of one utterance; adds the occupancy to `out` (T, C) unless it is (0, 0).

    `x`, `stride`: class c of frame t is x[t * stride + c]; `emit`, `skip` (S,); `block`: frames whose rows
    are kept, at least 2 (or all). NaN where a state emits NaN or +inf.
    """
    size = emit.shape[0]
    want = out.shape[0] > 0
    kept = block if want else 2
    alpha = np.full((kept, size + 2), -np.inf)
    blocks = (frames + block - 1) // block
    saved = np.empty((blocks if want and blocks > 1 else 0, size + 2))
    for t in range(frames):
        row, before = alpha[t % kept], alpha[(t - 1) % kept]
        scores = x[t * stride :]
        fine = _next_row(scores, emit, skip, before, row) if t else _first_row(scores, emit, starts, row)
        if not fine:
            return np.nan
        if saved.shape[0] and t % block == 0:
            saved[t // block] = row
    row = alpha[(frames - 1) % kept]
    total = _log_add(row[size + 1], row[size] if finals == 2 else -np.inf, -np.inf)
    if not want or total == -np.inf:
        return total
    beta, w = np.full(size, -np.inf), np.full(size + 2, -np.inf)
    beta[size - finals :] = 0.0
    for k in range(blocks - 1, -1, -1):
        first, last = k * block, min(frames, (k + 1) * block)
        if k < blocks - 1:
            alpha[0] = saved[k]
            for t in range(first + 1, last):
                _next_row(x[t * stride :], emit, skip, alpha[t - first - 1], alpha[t - first])
        for t in range(last - 1, first - 1, -1):
            if t < frames - 1:
                _previous_row(x[(t + 1) * stride :], emit, skip, beta, w)
            _add_occupancy(alpha[t - first], beta, w, emit, out[t])
    return total
