"""Boundary detection: precision, recall, F1 and R-value of times, regardless of labels.

A *boundary* is a point in time at which a word (or phone) starts or ends. Where two neighbours touch, an end and the
next start at most 1 ms apart, they share one boundary, as in the segmentation literature; a pause between them makes
two. Silence has no boundaries of its own. Four sets are scored:

    both         all boundaries as above
    onset        the starts of all words
    offset       the ends of all words
    inner_onset  the starts of all words but the first of each utterance: what FA-Bench's column of times alone counts
                 (its other one, since 2026-09, asks for the same label, too)

Matching is strict and in order: within an utterance one boundary of the hypothesis may stand for one of the reference
at most `tolerance_ms` away (inclusive), no two share one, and as many as possible are matched. Hits, and the numbers of
boundaries on both sides, are added up over the utterances; with N_ref, N_hyp and hits

    precision = hits / N_hyp      recall = hits / N_ref      F1 = 2 hits / (N_hyp + N_ref)
    over-segmentation OS = N_hyp / N_ref - 1
    r1 = sqrt((1 - recall)² + OS²)      r2 = (recall - 1 - OS) / sqrt(2)      R = 1 - (|r1| + |r2|) / 2

The R-value is that of Räsänen, Laine and Altosaar (Interspeech 2009, "An improved speech segmentation quality measure:
the R-value"), which unlike F1 cannot be raised by guessing more boundaries. Labels do not matter here; words that one
side lacks count by their times, which errors in ms cannot show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ctc_align.evaluate.measure_options import ROUNDING_MS
from ctc_align.evaluate.pairing import SAME_EDGE_S
from ctc_align.types import Interval
from ctc_align.units import seconds_to_ms

KINDS = ("both", "onset", "offset", "inner_onset")
RATES = ("precision", "recall", "f1", "r_value")


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
    """Return the boundaries of one utterance's intervals (without silences, in order), ascending, in seconds.

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
    """Return the largest number of pairs, one to one and in order, of times at most `tolerance_ms` apart; rows ascend.

    >>> hits([0.10, 0.12, 0.50], [0.11, 0.53], 20.0)
    1
    """
    limit_ms = tolerance_ms + ROUNDING_MS
    matched = i = j = 0
    # The earliest two that fit may always pair: any best matching can be turned into one that has this pair.
    while i < len(hypothesis_s) and j < len(reference_s):
        gap_ms = seconds_to_ms(hypothesis_s[i] - reference_s[j])
        if abs(gap_ms) <= limit_ms:
            matched, i, j = matched + 1, i + 1, j + 1
        elif gap_ms < 0:
            i += 1
        else:
            j += 1
    return matched


def counts(hypothesis: Sequence[Interval], reference: Sequence[Interval], tolerance_ms: float) -> list[list[int]]:
    """Return [boundaries of the reference, of the hypothesis, hits] of one utterance for each of KINDS."""
    rows = []
    for kind in KINDS:
        ours, theirs = boundaries_s(hypothesis, kind), boundaries_s(reference, kind)
        rows.append([len(theirs), len(ours), hits(ours, theirs, tolerance_ms)])
    return rows


def detection(
    reference: int, hypothesis: int, matched: int, ci95: dict[str, tuple[float, float]] | None = None
) -> Detection:
    """Return the rates of counts.

    >>> detection(reference=10, hypothesis=10, matched=8).f1
    0.8
    """
    if not reference:
        precision = 0.0 if hypothesis else None
        return Detection(0, hypothesis, matched, precision, None, precision, None, None, ci95 or {})
    recall = matched / reference
    over = hypothesis / reference - 1
    r1, r2 = math.hypot(1 - recall, over), (recall - 1 - over) / math.sqrt(2)
    return Detection(
        reference,
        hypothesis,
        matched,
        precision=matched / hypothesis if hypothesis else None,
        recall=recall,
        f1=2 * matched / (hypothesis + reference),
        over_segmentation=over,
        r_value=1 - (abs(r1) + abs(r2)) / 2,
        ci95=ci95 or {},
    )


def rates(totals: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rates of many totals (R, 3) of [reference, hypothesis, hits]; NaN for a division by 0."""
    reference, hypothesis, matched = totals.T.astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        recall, over = matched / reference, hypothesis / reference - 1
        off = np.abs(recall - 1 - over) / math.sqrt(2)
        return {
            "precision": matched / hypothesis,
            "recall": recall,
            "f1": 2 * matched / (hypothesis + reference),
            "r_value": 1 - (np.hypot(1 - recall, over) + off) / 2,
        }
