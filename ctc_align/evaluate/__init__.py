"""Boundary error of alignments against reference alignments.

`measure` puts the figures together out of `reading` (files), `sources` (folders), `labels` (phone sets), `detection`
(precision, recall, F1, R-value), `figures` and `bootstrap` (statistics) and `doubts` (what is suspicious); `compare`
sets two hypotheses against each other.
"""

from __future__ import annotations

from ctc_align.evaluate.boundary_errors import Evaluation, UtteranceErrors, WorstEdge, evaluate, evaluate_intervals
from ctc_align.evaluate.comparable_labels import read_labels
from ctc_align.evaluate.comparison import Comparison, Difference, compare
from ctc_align.evaluate.detection import Detection
from ctc_align.evaluate.error_statistics import EdgeErrors
from ctc_align.evaluate.measure_options import TIERS, WITHIN_MS, Options
from ctc_align.evaluate.tiers import read_intervals

__all__ = [
    "TIERS",
    "WITHIN_MS",
    "Comparison",
    "Detection",
    "Difference",
    "EdgeErrors",
    "Evaluation",
    "Options",
    "UtteranceErrors",
    "WorstEdge",
    "compare",
    "evaluate",
    "evaluate_intervals",
    "read_intervals",
    "read_labels",
]
