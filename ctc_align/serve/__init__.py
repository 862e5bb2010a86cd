"""`ctc-align serve`: a local app and an HTTP API.

It has a loaded model, a queue, and a folder of alignments.
"""

from __future__ import annotations

from ctc_align.errors import UsageError
from ctc_align.extras import EXTRAS, install_line


def require_serve() -> None:
    """Raise UsageError, naming the extra, unless the packages that a server needs are installed."""
    missing = EXTRAS["serve"].missing()
    if missing:
        raise UsageError(f"serve needs {', '.join(missing)}: {install_line('serve')}")
