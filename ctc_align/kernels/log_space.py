"""Sums of numbers that are given as natural logs, in NumPy."""

from __future__ import annotations

import numpy as np


def log_sum_exp(values: np.ndarray, axis: int = -1, *, keepdims: bool = False) -> np.ndarray:
    """Return log(sum(exp(values))) over an axis, in the dtype of the values.

    -inf where all are -inf.

    >>> float(log_sum_exp(np.log([0.25, 0.5])).round(6)) == float(np.log(0.75).round(6))
    True
    """
    top = values.max(axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0).astype(values.dtype, copy=False)
    with np.errstate(
        divide="ignore", over="ignore"
    ):  # differences of the largest floats are infinite
        total = np.log(np.exp(values - top).sum(axis, keepdims=True)) + top
    return total if keepdims else total.squeeze(axis)


def log_softmax(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return the values minus their `log_sum_exp` over an axis."""
    with np.errstate(over="ignore"):
        return values - log_sum_exp(values, axis, keepdims=True)
