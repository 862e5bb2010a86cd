"""Everything that was pinned before still comes out, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("support") / "pinned_outputs.py"


@pytest.mark.data
def test_nothing_changed() -> None:
    folder = os.environ.get("CTC_ALIGN_PINNED", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no folder of pinned outputs in CTC_ALIGN_PINNED: `tests/support/pinned_outputs.py write DIR`")
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "compare", folder], capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
