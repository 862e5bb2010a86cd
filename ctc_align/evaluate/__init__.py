"""Boundary errors of alignments against reference alignments.

`utterance_files` reads and matches utterances, and transfers corrected labels into an alignment;
`pairing` normalises labels and pairs intervals; `boundary_errors` measures errors, compares two
hypotheses, and draws errors and soft alignments; `error_statistics` computes the figures with
bootstrap intervals; `sanity_checks` warns of inputs that do not belong together.
"""

from __future__ import annotations

from ctc_align.evaluate.boundary_errors import (
    Comparison,
    Difference,
    Evaluation,
    UtteranceErrors,
    WorstEdge,
    compare,
    error_figure,
    evaluate,
    evaluate_intervals,
    occupancy_figure,
)
from ctc_align.evaluate.error_statistics import Detection, EdgeErrors
from ctc_align.evaluate.pairing import TIERS, WITHIN_MS, Options, read_labels
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
