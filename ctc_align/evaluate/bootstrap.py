"""Confidence intervals by resampling utterances: percentile bootstrap (Efron 1979), vectorised over resamples.

Utterances are drawn, not boundaries, because errors within an utterance depend on each other. A resample is a row of
weights: the number of times that each utterance was drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

LEVEL = 95.0
_CELLS = 4_000_000
"""Limit of weights in memory."""
_FIRST_WINDOW = 4096


def weights(utterances: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield resamples in portions (R, U) of weights, whose rows sum to U; the same for the same seed."""
    random = np.random.default_rng(seed)
    portion = max(1, _CELLS // max(1, utterances))
    for begin in range(0, resamples, portion):
        rows = min(portion, resamples - begin)
        drawn = random.integers(0, utterances, (rows, utterances))
        cells = (drawn + utterances * np.arange(rows)[:, None]).ravel()
        yield np.bincount(cells, minlength=rows * utterances).reshape(rows, utterances)


def interval(samples: np.ndarray) -> tuple[float, float] | None:
    """Return the middle 95 % of a statistic's resamples; those where it is undefined (NaN) do not count.

    >>> interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    samples = samples[~np.isnan(samples)]
    if not len(samples):
        return None
    low, high = np.percentile(samples, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def means(values: np.ndarray, utterance: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the mean (R,) of `values` (N,) in each resample of `drawn` (R, U); `utterance` (N,) is each value's."""
    total = np.bincount(utterance, values, drawn.shape[1])
    count = np.bincount(utterance, minlength=drawn.shape[1])
    with np.errstate(invalid="ignore"):
        return (drawn @ total) / (drawn @ count)


def medians(values: np.ndarray, utterance: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the median (R,) of `values` (N,) in each resample of `drawn` (R, U), exactly as of the values repeated.

    Only a window of the sorted values around their median is searched; it grows until it holds every resample's median.
    """
    number = drawn @ np.bincount(utterance, minlength=drawn.shape[1])
    result = np.full(len(drawn), np.nan)
    filled = np.flatnonzero(number)
    if not len(filled):
        return result
    order = np.argsort(values, kind="stable")
    drawn, number = drawn[filled], number[filled]
    window = _FIRST_WINDOW
    while True:
        first = max(0, len(values) // 2 - window)
        inside = order[first : len(values) // 2 + window]
        below = drawn @ np.bincount(utterance[order[:first]], minlength=drawn.shape[1])
        last = below + drawn @ np.bincount(utterance[inside], minlength=drawn.shape[1])
        if ((number - 1) // 2 >= below).all() and (number // 2 < last).all():
            break
        window *= 4
    result[filled] = _middles(values[inside], utterance[inside], drawn, number, below)
    return result


def _middles(
    values: np.ndarray, utterance: np.ndarray, drawn: np.ndarray, number: np.ndarray, below: np.ndarray
) -> np.ndarray:
    """Return the mean of the two middle values of each resample; `values` (ascending) hold them."""
    middles = np.empty(len(drawn))
    portion = max(1, _CELLS // len(values))
    for begin in range(0, len(drawn), portion):
        rows = slice(begin, begin + portion)
        upto = below[rows, None] + np.cumsum(drawn[rows][:, utterance], axis=1)
        lower = (upto <= ((number[rows] - 1) // 2)[:, None]).sum(axis=1)
        upper = (upto <= (number[rows] // 2)[:, None]).sum(axis=1)
        middles[rows] = (values[lower] + values[upper]) / 2
    return middles
