"""Errors of edges and of boundaries, as statistics with confidence intervals over utterances.

Edges: signed errors of the edges of pairs. Boundaries: precision, recall, F1 and R-value of times,
regardless of labels. Intervals: percentile bootstrap (Efron 1979), vectorised over resamples.
Utterances are resampled, not boundaries, because errors within an utterance depend on each other;
or folders of utterances (speakers). A resample is a row of weights: the number of times that each
utterance was drawn.

A *boundary* is a point in time at which a word (or phone) starts or ends. Where two neighbours
touch, an end and the next start at most 1 ms apart, they share one boundary, as in the segmentation
literature; a pause between them makes two. Silence has no boundaries. Four sets are scored:

    both         all boundaries as above
    onset        the starts of all words
    offset       the ends of all words
    inner_onset  the starts of all words except the first of each utterance, as in FA-Bench's
    time-only column
                 (since 2026-09 FA-Bench has another column, which also requires the same label)

Matching is strict and in order: within an utterance one boundary of the hypothesis matches one of
the reference at most `tolerance_ms` away (inclusive), no two share one, and as many as possible are
matched. Hits, and the numbers of boundaries on both sides, are added up over the utterances; with
N_ref, N_hyp and hits

    precision = hits / N_hyp      recall = hits / N_ref      F1 = 2 hits / (N_hyp + N_ref)
    over-segmentation OS = N_hyp / N_ref - 1
    r1 = sqrt((1 - recall)² + OS²)      r2 = (recall - 1 - OS) / sqrt(2)      R = 1 - (|r1| + |r2|) / 2

The R-value is that of Räsänen, Laine and Altosaar (Interspeech 2009, "An improved speech
segmentation quality measure: the R-value"), which unlike F1 cannot be raised by guessing more
boundaries. These figures ignore labels. Unlike the errors in ms, they include the boundaries of
words that one side lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

import numpy as np

from ctc_align.evaluate.pairing import FOLDER, ROUNDING_MS, SAME_EDGE_S, WITHIN_MS
from ctc_align.types import Interval
from ctc_align.units import seconds_to_ms

KINDS = ("both", "onset", "offset", "inner_onset")
RATES = ("precision", "recall", "f1", "r_value")
EDGES = ("both", "onset", "offset")
LEVEL = 95.0
_CELLS = 4_000_000
"""Limit of weights in memory."""
_FIRST_WINDOW = 4096


@dataclass(frozen=True)
class Detection:
    """Counts of boundaries and their rates; None for a division by 0."""

    reference: int
    hypothesis: int
    hits: int
    precision: float | None
    recall: float | None
    f1: float | None
    over_segmentation: float | None
    r_value: float | None
    ci95: dict[str, tuple[float, float]] = field(default_factory=dict)
    """95 % confidence interval of each rate, over utterances."""


def boundaries_s(intervals: Sequence[Interval], kind: str) -> list[float]:
    """Return the ascending boundaries of an utterance's intervals in seconds.

    The intervals are in order, without silences.

    >>> row = [Interval(0.1, 0.5, "a"), Interval(0.5, 0.8, "b"), Interval(0.9, 1.0, "c")]
    >>> boundaries_s(row, "both"), boundaries_s(row, "inner_onset")
    ([0.1, 0.5, 0.8, 0.9, 1.0], [0.5, 0.9])
    """
    starts = [interval.start_s for interval in intervals]
    ends = [interval.end_s for interval in intervals]
    if kind == "onset":
        return sorted(starts)
    if kind == "inner_onset":
        return sorted(starts[1:])
    if kind == "offset":
        return sorted(ends)
    shared = [i > 0 and abs(starts[i] - ends[i - 1]) <= SAME_EDGE_S for i in range(len(intervals))]
    return sorted([start for start, is_shared in zip(starts, shared) if not is_shared] + ends)


def hits(hypothesis_s: Sequence[float], reference_s: Sequence[float], tolerance_ms: float) -> int:
    """Return the largest number of pairs of times at most `tolerance_ms` apart.

    Pairs are one to one and in order; rows ascend.

    >>> hits([0.10, 0.12, 0.50], [0.11, 0.53], 20.0)
    1
    """
    limit_ms = tolerance_ms + ROUNDING_MS
    matched = i = j = 0
    # The earliest two that fit may always pair: any best matching can be turned into one that has
    # this pair.
    while i < len(hypothesis_s) and j < len(reference_s):
        gap_ms = seconds_to_ms(hypothesis_s[i] - reference_s[j])
        if abs(gap_ms) <= limit_ms:
            matched, i, j = matched + 1, i + 1, j + 1
        elif gap_ms < 0:
            i += 1
        else:
            j += 1
    return matched


def counts(
    hypothesis: Sequence[Interval], reference: Sequence[Interval], tolerance_ms: float
) -> list[list[int]]:
    """Return the boundaries of reference and hypothesis, and the hits, of an utterance by KINDS."""
    rows = []
    for kind in KINDS:
        ours, theirs = boundaries_s(hypothesis, kind), boundaries_s(reference, kind)
        rows.append([len(theirs), len(ours), hits(ours, theirs, tolerance_ms)])
    return rows


def detection(
    reference: int,
    hypothesis: int,
    matched: int,
    ci95: dict[str, tuple[float, float]] | None = None,
) -> Detection:
    """Return the rates of counts.

    >>> detection(reference=10, hypothesis=10, matched=8).f1
    0.8
    """
    found = {
        name: float(values[0])
        for name, values in rates(np.array([[reference, hypothesis, matched]])).items()
    }
    known = {name: value if math.isfinite(value) else None for name, value in found.items()}
    over = hypothesis / reference - 1 if reference else None
    return Detection(
        reference, hypothesis, matched, **known, over_segmentation=over, ci95=ci95 or {}
    )


def rates(totals: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rates of totals (R, 3) of [reference, hypothesis, hits]; NaN for x / 0."""
    reference, hypothesis, matched = totals.T.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall = matched / reference
        over = hypothesis / reference - 1
        off = np.abs(recall - 1 - over) / math.sqrt(2)
        return {
            "precision": matched / hypothesis,
            "recall": recall,
            "f1": 2 * matched / (hypothesis + reference),
            "r_value": 1 - (np.hypot(1 - recall, over) + off) / 2,
        }


@dataclass(frozen=True)
class EdgeErrors:
    """Statistics of signed errors, hypothesis minus reference, in ms; None without pairs."""

    count: int
    mae_ms: float | None
    median_abs_ms: float | None
    median_signed_ms: float | None
    mean_signed_ms: float | None
    within_ms: dict[int, float | None]
    """Percent of edges with an error of at most this many ms."""
    ci95: dict[str, tuple[float, float]] = field(default_factory=dict)
    """95 % confidence interval over utterances of each figure.

    Figures are `mae_ms` …, and `within_20_ms` … in percent.
    """


@dataclass(frozen=True)
class SignedErrors:
    """Signed errors of edges in ms (N,), and the index of the utterance of each (N,)."""

    ms: np.ndarray
    utterance: np.ndarray

    def joined(self, other: SignedErrors) -> SignedErrors:
        """Return both, one after the other."""
        return SignedErrors(
            np.concatenate([self.ms, other.ms]), np.concatenate([self.utterance, other.utterance])
        )


def within(signed_ms: Sequence[float], limit_ms: float) -> float | None:
    """Return the percentage of errors of at most `limit_ms`; None without errors.

    >>> within([-20.0, 0.0, 20.1, 35.0], 20)
    50.0
    """
    if not len(signed_ms):
        return None
    return (
        100.0 * int(np.count_nonzero(np.abs(signed_ms) <= limit_ms + ROUNDING_MS)) / len(signed_ms)
    )


def edge_errors(
    signed_ms: Sequence[float], ci95: Mapping[str, tuple[float, float]] | None = None
) -> EdgeErrors:
    """Return the statistics of signed errors in ms."""
    absolute = [abs(error) for error in signed_ms]

    def over(
        statistic: Callable[[Iterable[float]], float], values: Sequence[float]
    ) -> float | None:
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
    """Return each figure of `EdgeErrors` (R,) in resamples `drawn` (R, U), NaN without pairs."""
    absolute = np.abs(signed.ms)
    figures = {
        "mae_ms": bootstrap_means(absolute, signed.utterance, drawn),
        "median_abs_ms": bootstrap_medians(absolute, signed.utterance, drawn),
        "median_signed_ms": bootstrap_medians(signed.ms, signed.utterance, drawn),
        "mean_signed_ms": bootstrap_means(signed.ms, signed.utterance, drawn),
    }
    for limit in WITHIN_MS:
        is_within = (absolute <= limit + ROUNDING_MS).astype(float)
        figures[f"within_{limit}_ms"] = 100 * bootstrap_means(is_within, signed.utterance, drawn)
    return figures


def resample_units(names: Sequence[str], interval_by: str) -> np.ndarray:
    """Return the number (U,) of each utterance's resampling unit: itself, or its folder.

    >>> resample_units(["anna/1", "bert/1", "anna/2"], "folder")
    array([0, 1, 0])
    """
    if interval_by != FOLDER:
        return np.arange(len(names))
    folders = [name.rpartition("/")[0] for name in names]
    numbers = {folder: number for number, folder in enumerate(sorted(set(folders)))}
    return np.array([numbers[folder] for folder in folders], dtype=np.int64)


def resampled(
    signed: Mapping[str, SignedErrors],
    counts: np.ndarray,
    units: np.ndarray,
    resamples: int,
    seed: int,
) -> dict[str, dict[str, np.ndarray]]:
    """Return {edge: {figure: (resamples,)}} for EDGES and KINDS.

    A kind is written as "boundaries both". The result is {} if there is only one unit.

    Args:
        signed: the errors of each of EDGES.
        counts: (U, len(KINDS), 3), `detection.counts` of each utterance.
        units: (U,) numbers from 0, see `resample_units`; utterances of one unit are drawn together.
    """
    portions: dict[str, list[dict[str, np.ndarray]]] = {}
    number = len(set(units.tolist()))
    for weights in bootstrap_weights(number, resamples if number > 1 else 0, seed, len(units)):
        drawn = weights[:, units]
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
    intervals = {figure: bootstrap_interval(values) for figure, values in samples.items()}
    return {figure: interval for figure, interval in intervals.items() if interval is not None}


def detections(
    counts: np.ndarray, samples: Mapping[str, Mapping[str, np.ndarray]] | None = None
) -> dict[str, Detection]:
    """Return the detection of each of KINDS over all utterances of `counts` (U, len(KINDS), 3)."""
    by_kind = {}
    for kind, totals in zip(KINDS, counts.sum(axis=0)):
        if samples:
            ci95 = confidence_intervals(samples[f"boundaries {kind}"])
        else:
            ci95 = None
        reference, hypothesis, hits = map(int, totals)
        by_kind[kind] = detection(reference, hypothesis, hits, ci95)
    return by_kind


def shares(signed_ms: np.ndarray, edges_ms: Sequence[float]) -> list[float]:
    """Return percentages per bin: below the first edge, between edges, and from the last edge on.

    Bins include their lower edge.

    >>> shares(np.array([-30.0, -10.0, 0.0, 10.0]), [-10, 0, 10])
    [25.0, 25.0, 25.0, 25.0]
    """
    if not len(signed_ms):
        return [0.0] * (len(edges_ms) + 1)
    counts = np.bincount(
        np.searchsorted(edges_ms, signed_ms, side="right"), minlength=len(edges_ms) + 1
    )
    return [float(100 * count / len(signed_ms)) for count in counts]


def bootstrap_weights(
    utterances: int, resamples: int, seed: int, cells: int = 0
) -> Iterator[np.ndarray]:
    """Yield resamples in portions (R, U) of weights, whose rows sum to U, by a seed.

    `cells` is how many numbers a row takes, if more than U.
    """
    random = np.random.default_rng(seed)
    portion = max(1, _CELLS // max(1, utterances, cells))
    for begin in range(0, resamples, portion):
        rows = min(portion, resamples - begin)
        drawn = random.integers(0, utterances, (rows, utterances))
        places = (drawn + utterances * np.arange(rows)[:, None]).ravel()
        yield np.bincount(places, minlength=rows * utterances).reshape(rows, utterances)


def bootstrap_interval(samples: np.ndarray) -> tuple[float, float] | None:
    """Return the middle 95 % of a statistic's resamples that are not NaN.

    >>> bootstrap_interval(np.arange(1001.0))
    (25.0, 975.0)
    """
    samples = samples[~np.isnan(samples)]
    if not len(samples):
        return None
    low, high = np.percentile(samples, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return float(low), float(high)


def bootstrap_means(values: np.ndarray, utterance: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the mean (R,) of `values` (N,) in each resample of `drawn` (R, U).

    `utterance` (N,) is that of each value.
    """
    total = np.bincount(utterance, values, drawn.shape[1])
    count = np.bincount(utterance, minlength=drawn.shape[1])
    with np.errstate(invalid="ignore"):
        return (drawn @ total) / (drawn @ count)


def bootstrap_medians(values: np.ndarray, utterance: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Return the median (R,) of `values` (N,) in each resample of `drawn` (R, U).

    It is exactly that of the repeated values.

    Only a window of the sorted values around their median is searched; it grows until it holds
    every resample's median.
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
    result[filled] = _mean_of_middles(values[inside], utterance[inside], drawn, number, below)
    return result


def _mean_of_middles(
    values: np.ndarray,
    utterance: np.ndarray,
    drawn: np.ndarray,
    number: np.ndarray,
    below: np.ndarray,
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
