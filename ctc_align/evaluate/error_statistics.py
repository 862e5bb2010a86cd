"""Statistics of edge errors, for the utterances and for resamples of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from ctc_align.evaluate import bootstrap
from ctc_align.evaluate.detection import KINDS, Detection, detection, rates
from ctc_align.evaluate.measure_options import ROUNDING_MS, WITHIN_MS

EDGES = ("both", "onset", "offset")


@dataclass(frozen=True)
class EdgeErrors:
    """Statistics of signed errors, hypothesis minus reference, in ms; None without pairs."""

    count: int
    mae_ms: float | None
    median_abs_ms: float | None
    median_signed_ms: float | None
    mean_signed_ms: float | None
    within_ms: dict[int, float | None]
    """Percent of edges with an error of at most so many ms."""
    ci95: dict[str, tuple[float, float]] = field(default_factory=dict)
    """95 % confidence interval over utterances of each figure: `mae_ms` …, and `within_20_ms` … in percent."""


@dataclass(frozen=True)
class SignedErrors:
    """Signed errors of edges in ms (N,), and the index of the utterance of each (N,)."""

    ms: np.ndarray
    utterance: np.ndarray

    def joined(self, other: SignedErrors) -> SignedErrors:
        """Return both, one after the other."""
        return SignedErrors(np.concatenate([self.ms, other.ms]), np.concatenate([self.utterance, other.utterance]))


def within(signed_ms: Sequence[float], limit_ms: float) -> float | None:
    """Return the percentage of errors of at most `limit_ms`; None without errors.

    >>> within([-20.0, 0.0, 20.1, 35.0], 20)
    50.0
    """
    if not len(signed_ms):
        return None
    return 100.0 * int(np.count_nonzero(np.abs(signed_ms) <= limit_ms + ROUNDING_MS)) / len(signed_ms)


def edge_errors(signed_ms: Sequence[float], ci95: Mapping[str, tuple[float, float]] | None = None) -> EdgeErrors:
    """Return the statistics of signed errors in ms."""
    absolute = [abs(error) for error in signed_ms]

    def over(statistic: Callable[[Iterable[float]], float], values: Sequence[float]) -> float | None:
        return statistic(values) if values else None

    return EdgeErrors(
        len(absolute),
        over(fmean, absolute),
        over(median, absolute),
        over(median, signed_ms),
        over(fmean, signed_ms),
        {limit: within(signed_ms, limit) for limit in WITHIN_MS},
        dict(ci95 or {}),
    )


def resampled_errors(signed: SignedErrors, drawn: np.ndarray) -> dict[str, np.ndarray]:
    """Return each figure of `EdgeErrors` (R,) in each resample of `drawn` (R, U), NaN without pairs."""
    absolute = np.abs(signed.ms)
    figures = {
        "mae_ms": bootstrap.means(absolute, signed.utterance, drawn),
        "median_abs_ms": bootstrap.medians(absolute, signed.utterance, drawn),
        "median_signed_ms": bootstrap.medians(signed.ms, signed.utterance, drawn),
        "mean_signed_ms": bootstrap.means(signed.ms, signed.utterance, drawn),
    }
    for limit in WITHIN_MS:
        is_within = (absolute <= limit + ROUNDING_MS).astype(float)
        figures[f"within_{limit}_ms"] = 100 * bootstrap.means(is_within, signed.utterance, drawn)
    return figures


def resampled(
    signed: Mapping[str, SignedErrors], counts: np.ndarray, resamples: int, seed: int
) -> dict[str, dict[str, np.ndarray]]:
    """Return {edge: {figure: (resamples,)}} for each of EDGES, and for KINDS as "boundaries both" ….

    Args:
        signed: the errors of each of EDGES.
        counts: (U, len(KINDS), 3), `detection.counts` of each utterance.
    """
    portions: dict[str, list[dict[str, np.ndarray]]] = {}
    for drawn in bootstrap.weights(len(counts), resamples, seed):
        for edge, errors in signed.items():
            portions.setdefault(edge, []).append(resampled_errors(errors, drawn))
        for number, kind in enumerate(KINDS):
            portions.setdefault(f"boundaries {kind}", []).append(rates(drawn @ counts[:, number]))
    return {
        key: {figure: np.concatenate([portion[figure] for portion in parts]) for figure in parts[0]}
        for key, parts in portions.items()
    }


def confidence_intervals(samples: Mapping[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return the confidence interval of each figure that has one."""
    intervals = {figure: bootstrap.interval(values) for figure, values in samples.items()}
    return {figure: interval for figure, interval in intervals.items() if interval is not None}


def detections(
    counts: np.ndarray, samples: Mapping[str, Mapping[str, np.ndarray]] | None = None
) -> dict[str, Detection]:
    """Return the detection of each of KINDS over all utterances of `counts` (U, len(KINDS), 3)."""
    by_kind = {}
    for kind, totals in zip(KINDS, counts.sum(axis=0)):
        ci95 = confidence_intervals(samples[f"boundaries {kind}"]) if samples else None
        reference, hypothesis, hits = map(int, totals)
        by_kind[kind] = detection(reference, hypothesis, hits, ci95)
    return by_kind


def shares(signed_ms: np.ndarray, edges_ms: Sequence[float]) -> list[float]:
    """Return percentages per bin: below the first edge, between edges (lower one inclusive), from the last edge on.

    >>> shares(np.array([-30.0, -10.0, 0.0, 10.0]), [-10, 0, 10])
    [25.0, 25.0, 25.0, 25.0]
    """
    if not len(signed_ms):
        return [0.0] * (len(edges_ms) + 1)
    counts = np.bincount(np.searchsorted(edges_ms, signed_ms, side="right"), minlength=len(edges_ms) + 1)
    return [float(100 * count / len(signed_ms)) for count in counts]
