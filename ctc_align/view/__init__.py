"""The page and the pictures of an alignment; pictures need matplotlib, the extra `plot`."""

from __future__ import annotations

from ctc_align.errors import UsageError

PLOT_FORMATS = ("png", "svg", "pdf")


def check_plotting() -> None:
    """Raise UsageError unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UsageError("pictures need the package matplotlib: pip install 'ctc-align[plot]'") from error
