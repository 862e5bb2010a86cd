"""The page and the pictures of an alignment; pictures need matplotlib, the extra `plot`."""

from __future__ import annotations

from ctc_align.errors import UsageError
from ctc_align.extras import install_line

PLOT_FORMATS = ("png", "svg", "pdf")


def check_plotting() -> None:
    """Raise UsageError unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UsageError(f"pictures need the package matplotlib: {install_line('plot')}") from error
