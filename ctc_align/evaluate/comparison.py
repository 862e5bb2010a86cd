"""The paired difference of two hypotheses, with its confidence interval over utterances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctc_align.errors import InputError
from ctc_align.evaluate.boundary_errors import Evaluation, Measured, plain
from ctc_align.evaluate.detection import KINDS, RATES
from ctc_align.evaluate.error_statistics import (
    EDGES,
    EdgeErrors,
    SignedErrors,
    confidence_intervals,
    detections,
    edge_errors,
    resample_units,
    resampled,
)
from ctc_align.evaluate.measure_options import WITHIN_MS
from ctc_align.evaluate.pairing import Pair

FIGURES = (
    "mae_ms",
    "median_abs_ms",
    "median_signed_ms",
    "mean_signed_ms",
    *(f"within_{limit}_ms" for limit in WITHIN_MS),
)


@dataclass(frozen=True)
class Difference:
    """One figure of both and their difference, first minus second, with its interval (None with one utterance)."""

    hypothesis: float | None
    against: float | None
    difference: float | None
    ci95: tuple[float, float] | None = None

    @property
    def is_clear(self) -> bool:
        """True where the interval excludes zero."""
        return self.ci95 is not None and not self.ci95[0] <= 0.0 <= self.ci95[1]


@dataclass(frozen=True)
class Comparison:
    """The paired difference of two evaluations, on the words that both paired."""

    tier: str
    utterances: int
    paired: int
    """Number of words (or phones) of the reference that both paired; only these have errors in ms."""
    left_out: int
    """Number of words that only one of them paired."""
    only_one: tuple[str, ...]
    """Utterances that only one of them has; they are left out."""
    edges: dict[str, dict[str, Difference]]
    """Each figure for "both", "onset" and "offset"."""
    boundaries: dict[str, dict[str, Difference]]
    """The rates for each kind of boundary (see `detection`), over all boundaries of the common utterances."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and finite numbers or None."""
        return plain(vars(self))


def compare(hypothesis: Evaluation, against: Evaluation) -> Comparison:
    """Return `hypothesis` minus `against`, both evaluated against the same reference; less error is negative.

    Both have the same resamples of utterances, so that what makes an utterance hard for both cancels out.

    Raises:
        InputError: they have no utterance, or no word of the reference, in common; or other tiers or tolerances.
    """
    ours, theirs = hypothesis.measured, against.measured
    if ours is None or theirs is None or hypothesis.tier != against.tier:
        raise InputError(f"expected two evaluations of one tier, got {hypothesis.tier} and {against.tier}")
    if hypothesis.options.tolerance_ms != against.options.tolerance_ms:
        raise InputError("expected two evaluations with the same tolerance")
    left, right = _numbers(ours), _numbers(theirs)
    names = [name for name in left if name in right]
    rows = [_common(ours.pairs[left[name]], theirs.pairs[right[name]]) for name in names]
    paired = sum(len(kept) for kept, _, _ in rows)
    if not paired:
        raise InputError("the two hypotheses have no word of the reference in common: are they of the same recordings?")
    units = resample_units(names, hypothesis.options.interval_by)
    sides: list[_Side] = []
    for measured, numbers, chosen in (
        (ours, left, [kept for kept, _, _ in rows]),
        (theirs, right, [kept for _, kept, _ in rows]),
    ):
        signed = measured.signed(chosen)
        counts = measured.counts[[numbers[name] for name in names]]
        sides.append(
            (signed, counts, resampled(signed, counts, units, hypothesis.options.resamples, hypothesis.options.seed))
        )
    return Comparison(
        tier=hypothesis.tier,
        utterances=len(names),
        paired=paired,
        left_out=sum(left_out for _, _, left_out in rows),
        only_one=tuple(name for name in {**left, **right} if not (name in left and name in right)),
        edges={edge: _edge_differences(edge, sides) for edge in EDGES},
        boundaries={kind: _rate_differences(kind, sides) for kind in KINDS},
    )


_Side = tuple[dict[str, SignedErrors], np.ndarray, dict[str, dict[str, np.ndarray]]]


def _numbers(measured: Measured) -> dict[str, int]:
    return {name: number for number, name in enumerate(measured.names)}


def _spans(row: Sequence[Pair]) -> list[tuple[float, float]]:
    return [(pair.reference.start_s, pair.reference.end_s) for pair in row]


def _common(left: Sequence[Pair], right: Sequence[Pair]) -> tuple[list[Pair], list[Pair], int]:
    """Return the pairs of both with the same interval of the reference, and the number of intervals of only one."""
    both = set(_spans(left)) & set(_spans(right))
    either = set(_spans(left)) | set(_spans(right))
    kept = [[pair for pair, span in zip(row, _spans(row)) if span in both] for row in (left, right)]
    return kept[0], kept[1], len(either) - len(both)


def _edge_differences(edge: str, sides: Sequence[_Side]) -> dict[str, Difference]:
    points = [_flat(edge_errors(signed[edge].ms.tolist())) for signed, _, _ in sides]
    return {
        figure: _difference(figure, points, [samples.get(edge, {}) for _, _, samples in sides]) for figure in FIGURES
    }


def _rate_differences(kind: str, sides: Sequence[_Side]) -> dict[str, Difference]:
    points = [vars(detections(counts)[kind]) for _, counts, _ in sides]
    samples = [side[2].get(f"boundaries {kind}", {}) for side in sides]
    return {rate: _difference(rate, points, samples) for rate in RATES}


def _flat(errors: EdgeErrors) -> dict[str, float | None]:
    return {**vars(errors), **{f"within_{limit}_ms": percent for limit, percent in errors.within_ms.items()}}


def _difference(
    figure: str, points: Sequence[dict[str, float | None]], samples: Sequence[dict[str, np.ndarray]]
) -> Difference:
    ours, theirs = (point[figure] for point in points)
    if ours is None or theirs is None:
        return Difference(ours, theirs, None)
    if any(figure not in figures for figures in samples):
        return Difference(ours, theirs, ours - theirs)
    ci95 = confidence_intervals({figure: samples[0][figure] - samples[1][figure]}).get(figure)
    return Difference(ours, theirs, ours - theirs, ci95)
