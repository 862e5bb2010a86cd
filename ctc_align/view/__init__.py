"""Pictures of what was found. They need matplotlib, the extra `plot`, which is imported when the first one is drawn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctc_align.view.error_plots import error_figure
    from ctc_align.view.occupancy_plots import occupancy_figure

__all__ = ["error_figure", "occupancy_figure"]

_WHERE = {"error_figure": "error_plots", "occupancy_figure": "occupancy_plots"}


def __getattr__(name: str) -> Any:
    """A picture's module when it is asked for: only one of them needs torch."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
