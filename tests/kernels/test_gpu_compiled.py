"""That the GPU's kernels compile for cards, which need not be there, and into the code that they are written for."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpu_calls
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "support" / "gpu_compiled.py"
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def compiled(cache: Path, *arguments: str) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(cache)
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_triton
def test_frames_pass_without_a_barrier(tmp_path: Path) -> None:
    """Frames pass without a barrier and not by way of shared memory: by one shuffle for each half of a number.

    Four frames are unrolled: 8 shuffles where 64 bits come from the lane before, 12 where an origin comes with them.
    The walk of one strip has no barrier at all, that of several one for each exchange, and what comes after the walk.
    """
    rows = compiled(tmp_path)
    made = [row for row in rows if row["kernel"] != "starved"]
    assert [faults(row) for row in rows if row["kernel"] == "starved"] == [["stack"]]
    sweeps = {(row["kernel"], row["STRIPS"], bool(row.get("LOG"))): row for row in made if "sweep" in row["kernel"]}
    assert {row["kernel"] for row in made} >= {"path sweep", "path trace_blocks", "sum sweep", "posterior posterior"}
    assert [row["barriers"] for (_, strips, _), row in sweeps.items() if strips == 1] == [0, 0, 0]
    assert [row["barriers"] for (_, strips, _), row in sweeps.items() if strips == 16 and row["barriers"] > 9] == []
    assert {kernel: row["shuffles"] for (kernel, strips, log), row in sweeps.items() if strips == 1 and not log} == {
        "path sweep": 12,
        "sum sweep": 8,
    }
    assert [row for row in made if faults(row)] == []


@needs_triton
@pytest.mark.long
def test_launches_of_all_kinds_compile_for_all_cards(tmp_path: Path) -> None:
    made = compiled(tmp_path, "sample")
    assert {row["target"] for row in made} >= {
        "sm_75",
        "sm_80",
        "sm_86",
        "sm_89",
        "sm_90",
        "sm_100",
        "sm_120",
        "gfx942",
    }
    assert [row for row in made if faults(row)] == []


def faults(row: dict[str, Any]) -> list[str]:
    return [name for name, most in gpu_calls.LIMITS.items() if row[name] > most]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 writes the code of a syntax tree in another way")
def test_the_table_is_of_todays_kernels() -> None:
    """Wrong after a change of a kernel: run `python tests/benchmarks/gpu_matrix.py`, and again with `--table`."""
    lines = (ROOT / "docs" / "gpu-kernels.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# kernels {gpu_calls.source_hash()}"
    rows = [dict(zip(lines[3].split("\t"), line.split("\t"))) for line in lines[4:]]
    assert len({row["target"] for row in rows}) == 9
    assert {row["kernel"] for row in rows} >= {"path sweep", "path trace_blocks", "sum sweep", "posterior posterior"}
    assert [row for row in rows if int(row["stack_bytes"]) > gpu_calls.LIMITS["stack"]] == []
