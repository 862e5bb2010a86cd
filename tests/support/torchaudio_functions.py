"""torchaudio's functions, for comparisons; they need an environment of their own."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


def load_torchaudio() -> Any:
    """Return torchaudio.functional without its warnings, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torchaudio.functional
        except (ImportError, OSError) as error:
            pytest.skip(f"torchaudio cannot be imported: {str(error).splitlines()[0]}")
    return torchaudio.functional
