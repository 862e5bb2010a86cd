"""The tools around the GPU's kernels, without a card: compilation for cards that are not there, and
the command for a machine with a card, which runs and reports what is wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpu_calls
import gpu_interpreted
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "tests" / "benchmarks" / "gpu.py"
SCRIPT = ROOT / "tests" / "support" / "gpu_compiled.py"
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)


def compiled(cache: Path, *arguments: str) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(cache)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@needs_triton
def test_frames_pass_without_a_barrier(tmp_path: Path) -> None:
    """Frames pass without a barrier and not by way of shared memory: by one shuffle for each half
    of a number.

    Four frames are unrolled: 8 shuffles where 64 bits come from the lane before, 12 where an origin
    comes with them. The walk of one strip has no barrier at all, that of several one for each
    exchange, and what comes after the walk.
    """
    rows = compiled(tmp_path)
    made = [row for row in rows if row["kernel"] != "starved"]
    assert [faults(row) for row in rows if row["kernel"] == "starved"] == [["stack"]]
    sweeps = {
        (row["kernel"], row["STRIPS"], bool(row.get("LOG"))): row
        for row in made
        if "sweep" in row["kernel"]
    }
    assert {row["kernel"] for row in made} >= {
        "path sweep",
        "path trace_blocks",
        "sum sweep",
        "posterior posterior",
        "small compute_sums",
    }
    assert [row["barriers"] for (_, strips, _), row in sweeps.items() if strips == 1] == [0, 0, 0]
    assert [
        row["barriers"]
        for (_, strips, _), row in sweeps.items()
        if strips == 16 and row["barriers"] > 9
    ] == []
    assert {
        kernel: row["shuffles"]
        for (kernel, strips, log), row in sweeps.items()
        if strips == 1 and not log
    } == {
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


@pytest.mark.skipif(
    sys.version_info < (3, 11), reason="Python 3.10 writes the code of a syntax tree in another way"
)
def test_the_table_is_of_todays_kernels() -> None:
    """Wrong after a change of a kernel: run `python tests/benchmarks/gpu_matrix.py`, and again with
    `--table`."""
    lines = (ROOT / "docs" / "gpu-kernels.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# kernels {gpu_calls.source_hash()}"
    rows = [dict(zip(lines[3].split("\t"), line.split("\t"))) for line in lines[4:]]
    assert len({row["target"] for row in rows}) == 9
    assert {row["kernel"] for row in rows} >= {
        "path sweep",
        "path trace_blocks",
        "sum sweep",
        "posterior posterior",
        "small compute_sums",
    }
    assert [row for row in rows if int(row["stack_bytes"]) > gpu_calls.LIMITS["stack"]] == []


needs_interpreter = pytest.mark.skipif(
    gpu_interpreted.missing() is not None, reason="Triton cannot interpret here"
)


def run(*arguments: str, code: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command interpreted, on small problems; `code` before it."""
    program = (
        f"import runpy, sys; sys.path.insert(0, {str(BENCHMARK.parent)!r}); {code}; sys.argv ="
        " sys.argv[1:]; "
    )
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [
        sys.executable,
        "-c",
        program,
        str(BENCHMARK),
        "--small",
        "--rounds",
        "1",
        *arguments,
    ]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@needs_interpreter
@pytest.mark.long
def test_the_command_runs_without_a_card(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "report.md"))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert {line.split(": ")[1] for line in said if line.startswith("ok: ")} == {
        "correctness",
        "races",
        "pytorch",
        "models",
    }
    assert [line for line in said if line.startswith("| forward + backward | 2 x 20 frames")]
    assert (tmp_path / "report.md").read_text(encoding="utf-8").endswith("\nall well\n")


@needs_interpreter
def test_what_is_wrong_is_said() -> None:
    """With a fault in what the kernels return, and with a group that there is not."""
    wrong = (
        "from ctc_align.kernels.gpu import gpu_backend as g; f = g.forward; g.forward = lambda *a:"
        " f(*a) + 1"
    )
    done = run("--only", "correctness", "--few", code=wrong)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "FAILED: correctness: ctc; one strip; float32: forward: scores [" in done.stdout
    assert done.stdout.endswith("\n1 failed\n")
    assert run("--only", "corectness").returncode == 2
