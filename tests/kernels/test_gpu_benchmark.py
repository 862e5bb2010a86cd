"""The command for the hour when there is a card, without one: it runs to its end, and it says what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gpu_interpreted
import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "gpu.py"
pytestmark = pytest.mark.skipif(gpu_interpreted.missing() is not None, reason="Triton cannot interpret here")


def run(*arguments: str, code: str = "0") -> subprocess.CompletedProcess[str]:
    """Run the command interpreted, on small problems; `code` before it."""
    program = f"import runpy, sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); {code}; sys.argv = sys.argv[1:]; "
    program += "runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", program, str(SCRIPT), "--small", "--rounds", "1", *arguments]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


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


def test_what_is_wrong_is_said() -> None:
    """With a fault in what the kernels return, and with a group that there is not."""
    wrong = "from ctc_align.kernels.gpu import gpu_backend as g; f = g.forward; g.forward = lambda *a: f(*a) + 1"
    done = run("--only", "correctness", "--few", code=wrong)
    assert done.returncode == 1, done.stderr[-2000:]
    assert "FAILED: correctness: ctc; one strip; float32: forward: scores [" in done.stdout
    assert done.stdout.endswith("\n1 failed\n")
    assert run("--only", "corectness").returncode == 2
