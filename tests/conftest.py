"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "torchaudio: compares with torchaudio, which has an environment of its own (skipped without it)"
    )
