"""Pictures of what was found. They need matplotlib, the extra `plot`, which is imported when the first one is drawn."""

from __future__ import annotations

from ctc_align.view.soft import occupancy_figure

__all__ = ["occupancy_figure"]
