"""ctc-align doctor --speed: every result is checked; a wrong one is shown and exits with 1."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from oracles import collapse

from ctc_align import kernels
from ctc_align.cli import doctor, speed
from ctc_align.cli.speed import Case, noise_with_transcripts
from ctc_align.errors import BackendError

CASE = Case(2, 30, 4, 6)


@pytest.fixture(autouse=True)
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """One small case; the rest of the report is tested with the command itself."""
    compare = speed.compare_speed
    monkeypatch.setattr(speed, "compare_speed", lambda: compare((CASE,), 1))
    monkeypatch.setattr(doctor, "self_tests", list)
    monkeypatch.setattr(doctor, "installation", lambda: {"format": "ctc-align-doctor/1"})


def test_each_task_beside_the_functions_of_others(
    cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With something in torchaudio's place, which has an environment of its own."""
    from ctc_align.functional import forced_align

    monkeypatch.setattr(speed, "import_forced_align", lambda: (forced_align, ""))
    rows = json.loads(cli("doctor", "--speed", "--format", "json", code=0).stdout)["speed"]
    assert [(row["device"], row["task"], row["beside"]) for row in rows] == [
        ("cpu", "best path", "torchaudio"),
        ("cpu", "loss", "torch"),
        ("cpu", "loss + gradient", "torch"),
    ]
    for row in rows:
        assert row["case"] == "2 x 30 frames, 4 tokens, 6 classes"
        assert row["ns_per_cell"] == pytest.approx(row["ms"] * 1e6 / (2 * 30 * 9))
        assert min(row["ms"], row["their_ms"]) > 0
        assert (row["right"], row["error"] < 1e-6) == (True, True)


def test_alone_where_nothing_else_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "has_torch", lambda: False)
    lines = [doctor._speed_line(row) for row in doctor.kernel_speed()]
    assert len(lines) == 3
    assert all(line.endswith(" ms on cpu") for line in lines)


@pytest.mark.parametrize(
    ("kernel", "factor"), [("best_path", 1 + 1e-4), ("occupancy", math.nan), ("forward", 1 + 1e-4)]
)
def test_a_wrong_result_is_shown_and_exits_with_1(
    cli: Any, monkeypatch: pytest.MonkeyPatch, kernel: str, factor: float
) -> None:
    real = getattr(kernels, kernel)

    def spoil(*arguments: Any, backend: str) -> Any:
        result = real(*arguments, backend=backend)
        if backend != "cpu":
            return result
        if kernel == "forward":
            return result * factor
        return dataclasses.replace(result, scores=result.scores * factor)

    monkeypatch.setattr(kernels, kernel, spoil)
    rows = json.loads(cli("doctor", "--speed", "--format", "json", code=1).stdout)["speed"]
    tasks = {"best_path": "best path", "forward": "loss", "occupancy": "loss + gradient"}
    assert [row["task"] for row in rows if not row["right"]] == [tasks[kernel]]
    assert [doctor._speed_line(row)[:12] for row in rows if not row["right"]] == ["WRONG on cpu"]


def test_noise_has_its_transcripts() -> None:
    case = Case(3, 40, 15, 5)
    log_probs, targets = noise_with_transcripts(case)
    again, _ = noise_with_transcripts(case)
    assert np.array_equal(log_probs, again), "the same for everyone"
    np.testing.assert_allclose(np.exp(log_probs).sum(2), np.ones((3, 40)), rtol=1e-5)
    read = [len(collapse(row, 0)) for row in log_probs.argmax(2)]
    assert np.mean(read) == pytest.approx(15, abs=3)
    assert (targets.min() >= 1, targets.max() <= 4) == (True, True)


def test_devices_that_cannot_run_kernels_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(backend: str) -> None:
        raise BackendError("backend 'gpu' cannot run here")

    monkeypatch.setattr(kernels, "check_backend", refuse)
    assert speed.usable_devices() == ["cpu"]
