"""That the GPU's kernels compile for a card, which need not be there, and into the code that they are written for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[1] / "support" / "gpu_compiled.py"
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def test_kernels_compile_for_a_card(tmp_path: Path) -> None:
    """Frames pass without a barrier and not by way of shared memory: by one shuffle for each half of a number.

    Four frames are unrolled: 8 shuffles where 64 bits come from the lane before, 12 where an origin comes with them.
    The walk of one strip has no barrier at all; in detours there is one a frame.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    made = {row["case"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert len(made) == 14
    if not torch.version.hip:
        assert made["sum, one strip"]["barriers"] == made["path, one strip"]["barriers"] == 0
        assert made["sum, one strip"]["shuffles"] == 8
        assert made["path, one strip"]["shuffles"] == 12
        assert made["path, strips"]["barriers"] <= 3
        assert made["sum, strips"]["barriers"] <= 9
        assert made["path, all ways"]["barriers"] >= 5
        assert made["sum, all ways"]["barriers"] >= 5
