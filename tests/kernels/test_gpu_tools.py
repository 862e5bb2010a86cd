"""The tools around the GPU's kernels, without a card: compilation for cards that are not there, estimates from their
machine code, and the command for a machine with a card, which runs and reports what is wrong."""

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
from machine_code import Program

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = ROOT / "tests" / "benchmarks" / "gpu.py"
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


LATENCIES = {"LDG": 100, "read": 20, "BAR": 30, "other": 10}


def line(code: str, stall: int = 1, result: int = 7, read: int = 7, waits: int = 0) -> str:
    bits = (stall | result << 5 | read << 8 | waits << 11) << 41
    return f"        /*0000*/  {code} ;  /* 0x{0:016x} */\n        /* 0x{bits:016x} */"


def program(*lines: str) -> Program:
    return Program("\n".join(lines), "sweep")


LOOP = (line("MOV R1, R2", 5), ".L_x_0:", line("FADD R1, R1, R2", 4), line("@P0 BRA `(.L_x_0)", 5), line("EXIT", 1))
LOAD = (line("LDG.E R1, [R2]", 2, result=3), line("MOV R4, R5", 6), line("FADD R1, R1, R1", 4, waits=8), line("EXIT"))
STORE = (line("STG.E [R2], R1", 2, read=1), line("MOV R1, R5", 4, waits=2), line("EXIT"))
SLOW = (line("@P0 BRA `(.L_x_1)", 5), line("BAR.SYNC 0x0", 5), ".L_x_1:", line("EXIT"))
CALL = (line("CALL.REL.NOINC `($div)", 5), line("EXIT", 1), "$div:", line("IMAD R1, R1, R1", 4), line("RET.REL R2", 5))
LEFT = (".L_x_2:", line("@P0 EXIT", 5), line("BRA `(.L_x_2)", 5), "$div:", line("RET.REL R2", 5))


@pytest.mark.parametrize(
    ("lines", "runs", "cycles", "counts"),
    [
        (LOOP, 1, 5 + 9 + 1, {"float": 1, "control": 2}),
        (LOOP, 3, 5 + 3 * 9 + 1, {"float": 3, "control": 4}),
        (LOOP, 1000, 5 + 1000 * 9 + 1, {"float": 1000, "control": 1001}),
        (LOAD, 0, 100 + 4 + 1, {"memory": 1, "float": 1, "control": 1}),
        (STORE, 0, 20 + 4 + 1, {"memory": 1, "control": 1}),
        (SLOW, 0, 5 + 1, {"control": 2}),
        (CALL, 0, 5 + 4 + 5 + 1, {"control": 3, "product": 1}),
        (LEFT, 2, 2 * 10, {"control": 4}),
    ],
    ids=["once", "thrice", "often", "load", "store", "slow path", "call", "left by exit"],
)
def test_a_warp_is_followed(lines: tuple[str, ...], runs: int, cycles: float, counts: dict[str, int]) -> None:
    cost = program(*lines).cost({"?": runs}, LATENCIES)
    assert cost.cycles == cycles
    assert {name: count for name, count in cost.counts.items() if name != "integer"} == counts


def test_a_loop_that_is_not_counted_is_named() -> None:
    with pytest.raises(AssertionError, match=r"how often do these loops run: \['\?'\]"):
        program(*LOOP).cost({}, LATENCIES)


needs_interpreter = pytest.mark.skipif(gpu_interpreted.missing() is not None, reason="Triton cannot interpret here")


def run(*arguments: str, code: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command interpreted, on small problems; `code` before it."""
    program = f"import runpy, sys; sys.path.insert(0, {str(BENCHMARK.parent)!r}); {code}; sys.argv = sys.argv[1:]; "
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", program, str(BENCHMARK), "--small", "--rounds", "1", *arguments]
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
    wrong = "from ctc_align.kernels.gpu import gpu_backend as g; f = g.forward; g.forward = lambda *a: f(*a) + 1"
    done = run("--only", "correctness", "--few", code=wrong)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "FAILED: correctness: ctc; one strip; float32: forward: scores [" in done.stdout
    assert done.stdout.endswith("\n1 failed\n")
    assert run("--only", "corectness").returncode == 2
