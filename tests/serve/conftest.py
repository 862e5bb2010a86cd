"""The tests of a server need the extra [serve]; without it they are skipped, visibly."""

from __future__ import annotations

import pytest

from ctc_align.extras import EXTRAS


@pytest.fixture(autouse=True, scope="session")
def _needs_serve() -> None:
    for module in EXTRAS["serve"].modules:
        pytest.importorskip(module, reason="no extra [serve]")
