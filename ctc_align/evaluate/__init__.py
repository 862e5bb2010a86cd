"""Boundary errors of alignments against reference alignments.

`boundary_errors` measures: utterances are read by `tiers` and matched by `file_pairs`, labels normalised by
`comparable_labels`, intervals paired by `pairing`; `detection` has precision, recall, F1 and R-value,
`error_statistics` the statistics with bootstrap intervals, `comparison` the difference of two hypotheses.
`sanity_checks` warns of input that does not belong together; `figures` draws errors and soft alignments.
"""

from __future__ import annotations

from ctc_align.evaluate.boundary_errors import Evaluation, UtteranceErrors, WorstEdge, evaluate, evaluate_intervals
from ctc_align.evaluate.comparable_labels import read_labels
from ctc_align.evaluate.comparison import Comparison, Difference, compare
from ctc_align.evaluate.detection import Detection
from ctc_align.evaluate.error_statistics import EdgeErrors
from ctc_align.evaluate.figures import error_figure, occupancy_figure
from ctc_align.evaluate.measure_options import TIERS, WITHIN_MS, Options
from ctc_align.evaluate.utterance_files import read_intervals

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
    "error_figure",
    "evaluate",
    "evaluate_intervals",
    "occupancy_figure",
    "read_intervals",
    "read_labels",
]
