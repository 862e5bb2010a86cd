"""Figures of evaluations and alignments; they need matplotlib, the extra `plot`."""

from __future__ import annotations

from ctc_align.view.plots import error_figure, occupancy_figure

__all__ = ["error_figure", "occupancy_figure"]
