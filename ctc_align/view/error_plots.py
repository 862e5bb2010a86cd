"""Boundary errors as a picture: where they lie, and how many are within so many milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ctc_align.errors import UsageError
from ctc_align.evaluate import WITHIN_MS, Evaluation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOT_FORMATS = ("png", "svg", "pdf")
_REACH_MS, _BIN_MS = 100, 5
_ROW_INCHES, _WIDTH_INCHES = 3.6, 11.0


def check_plotting() -> None:
    """
    Raises:
        UsageError: matplotlib is not installed.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise UsageError("pictures need the package matplotlib: pip install 'ctc-align[plot]'")


def error_figure(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Per evaluation a row of two panels: a histogram of signed errors, and the share of edges within a limit.

    Bins are 5 ms wide and include their lower edge; what lies beyond ±100 ms is counted in the legend, not drawn.

    Args:
        evaluations: by title, such as the tier or the name of the hypothesis.

    Returns:
        A matplotlib figure, which belongs to no window: `figure.savefig("errors.png")`; in notebooks it shows itself.

    Raises:
        UsageError: matplotlib is not installed.
    """
    check_plotting()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _ROW_INCHES * len(evaluations)), layout="constrained")
    panels = figure.subplots(len(evaluations), 2, squeeze=False)
    edges = np.arange(-_REACH_MS, _REACH_MS + _BIN_MS, _BIN_MS)
    for (left, right), (title, evaluation) in zip(panels, evaluations.items()):
        signed = evaluation.measured.signed() if evaluation.measured is not None else {}
        for edge in ("onset", "offset"):
            ms = signed[edge].ms if edge in signed else np.empty(0)
            beyond = float(np.mean((ms < edges[0]) | (ms >= edges[-1]))) if len(ms) else 0.0
            # A last bin of numpy's would include its upper edge.
            counts, _ = np.histogram(ms[ms < edges[-1]], edges)
            percent = 100 * counts / max(1, len(ms))
            left.stairs(percent, edges, label=f"{edge} ({100 * beyond:.1f} % beyond)", linewidth=1.5)
            absolute = np.sort(np.abs(ms))
            reached = 100 * np.arange(1, len(absolute) + 1) / max(1, len(absolute))
            right.step(absolute, reached, where="post", label=edge, linewidth=1.5)
        mae = evaluation.both.mae_ms
        left.set_title(f"{title}: mean absolute error {'–' if mae is None else f'{mae:.1f}'} ms", loc="left")
        left.axvline(0.0, color="grey", linewidth=0.8)
        left.set(xlabel="hypothesis minus reference, ms", ylabel="% of edges", xlim=(-_REACH_MS, _REACH_MS))
        right.set(xlabel="absolute error, ms", ylabel="% of edges within", xlim=(0, _REACH_MS), ylim=(0, 100))
        right.set_xticks(WITHIN_MS)
        right.grid(alpha=0.4)
        left.legend(frameon=False)
        right.legend(frameon=False, loc="lower right")
    return figure
