"""Upper bounds of what the frames that are left can add to a path of CTC, whatever the text is.

A path has to enter n more tokens in the frames from t on. Over all texts, of any number of tokens,
let R(t, tilt) be the most that the frames can add where each token that is entered adds `tilt`.
Then, for every tilt,

    the rest of the path <= R(t, tilt) - tilt * n

The tilt 0 says what any text could get; positive ones say what it costs to catch up on tokens,
negative ones to lose them. R is a recursion over the classes alone, of the last token's class a
(its blanks have no class of their own):

    label[a] = x[a] + label[a] (+) x[blank] + blanks (+) max over b != a of tilt + x[b] + label[b]
    blanks   =                     x[blank] + blanks (+) max over b      of tilt + x[b] + label[b]

where (+) is the maximum for the best path, and the logarithm of the sum for all paths: the best
text, all its paths.
"""

from __future__ import annotations

import numpy as np

from ctc_align.kernels.cpu.compilation import compiled, compiled_with_arrays
from ctc_align.kernels.cpu.simd import number

LEAST = 1e-200
"""Shares below this are raised to it, in the sums: an upper bound may be."""


@compiled_with_arrays
def _best_two(values):
    """Return the place of the largest of some numbers, it, and the second largest."""
    place, first, second = -1, -np.inf, -np.inf
    for a in range(values.shape[0]):
        if values[a] > first:
            place, first, second = a, values[a], first
        elif values[a] > second:
            second = values[a]
    return place, first, second


@compiled_with_arrays
def of_best_path(emitted, frames, labels, blank, tilts, block, rest):
    """Fill `rest` (frames / block + 2, tilts) with R of the best path from each block on.

    R counts from the block's first frame; it is 0 after the last.

    `emitted`: x, the place of its first frame, its steps by frame and by class; `labels`: the
    classes of the tokens.
    """
    x, base, by_frame, by_class = emitted
    count = labels.shape[0]
    label, blanks, entered = (
        np.zeros((tilts.shape[0], count)),
        np.zeros(tilts.shape[0]),
        np.empty(count),
    )
    scores = np.empty(count)
    rest[:] = 0.0
    for t in range(frames - 1, -1, -1):
        at = base + t * by_frame
        for a in range(count):
            scores[a] = number(x[at + labels[a] * by_class])
        silence = number(x[at + blank * by_class])
        for j in range(tilts.shape[0]):
            for a in range(count):
                entered[a] = scores[a] + label[j, a]
            place, first, second = _best_two(entered)
            still = silence + blanks[j]
            for a in range(count):
                label[j, a] = max(entered[a], still, tilts[j] + (second if a == place else first))
            blanks[j] = max(still, tilts[j] + first)
            if t % block == 0:
                rest[t // block, j] = max(blanks[j], label[j].max())


@compiled_with_arrays
def of_all_paths(emitted, frames, labels, blank, tilts, block, follows, rest):
    """Do as `of_best_path` for the sum over all paths of the best text.

    The paths of one text all go on to the same token: `label` and `blanks` have that one, too.
    `follows` (classes of `labels` twice): 1 where the second may come after the first, else 0; of
    no use, and not looked at, where it is
    (0, 0): the next token may then be another one at each frame, which bounds less tightly and is
    faster.
    """
    x, base, by_frame, by_class = emitted
    count, steps = labels.shape[0], max(1, follows.shape[0])
    # Of each tilt, by the token that comes next: the sums from its last token, and from a blank.
    label, blanks = np.ones((tilts.shape[0], steps, count)), np.ones((tilts.shape[0], steps))
    best, entered, scores = np.ones((tilts.shape[0], count)), np.empty(count), np.empty(count)
    scales, factors = np.zeros(tilts.shape[0]), np.exp(tilts)
    rest[:] = 0.0
    for t in range(frames - 1, -1, -1):
        at = base + t * by_frame
        silence = np.float64(number(x[at + blank * by_class]))
        top = silence
        for a in range(count):
            scores[a] = number(x[at + labels[a] * by_class])
            top = max(top, scores[a])
        if top == -np.inf:
            rest[: t // block + 1] = -np.inf
            return
        for a in range(count):
            scores[a] = np.exp(scores[a] - top)
        silence = np.exp(silence - top)
        for j in range(tilts.shape[0]):
            for a in range(count):
                entered[a] = factors[j] * scores[a] * best[j, a]
            most = _advance_next(label[j], blanks[j], best[j], scores, silence, entered, follows)
            if not 1e-50 < most < 1e50:
                scales[j] += np.log(most)
                blanks[j] = np.maximum(blanks[j] / most, LEAST)
                label[j] = np.maximum(label[j] / most, LEAST)
                best[j] = np.maximum(best[j] / most, LEAST)
                most = 1.0
            scales[j] += top
            if t % block == 0:
                rest[t // block, j] = scales[j] + np.log(most)


@compiled_with_arrays
def _advance_next(label, blanks, best, scores, silence, entered, follows):
    """Compute the sums of a frame from those of the next, in place, and return the largest."""
    count = scores.shape[0]
    if follows.shape[0] == 0:
        place, first, second = _best_two(entered)
        still = silence * blanks[0]
        blanks[0] = still + first
        for a in range(count):
            label[0, a] = (
                scores[a] * label[0, a] + still + (max(second, 0.0) if a == place else first)
            )
            best[a] = label[0, a]
        return max(blanks[0], best.max())
    best[:] = 0.0
    for b in range(count):
        sums, may = label[b], follows[b]
        still = silence * blanks[b]
        own, enters = scores[b] * sums[b] + still, still + entered[b]
        blanks[b] = enters
        for a in range(count):
            total = scores[a] * sums[a] + enters
            sums[a] = total
        # An equal token comes only after a blank.
        sums[b] = own
        for a in range(count):
            total = sums[a] * may[a]
            best[a] = total if total > best[a] else best[a]
    return max(blanks.max(), best.max())


@compiled
def least_rest(rest, tilts, tokens):
    """Return the bound of a path that has `tokens` more tokens to enter.

    It is the least of the bounds of all tilts.
    """
    least = np.inf
    for j in range(tilts.shape[0]):
        least = min(least, rest[j] - tilts[j] * tokens)
    return least
