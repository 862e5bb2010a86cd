"""The checkers, seen to fail, where every topology is walked: `cpu_log`, `cpu_detours` and the reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_problems import Problem, faults, tiny_ctc, tiny_segments
from planted import interpreted

from ctc_align.kernels import cpu

LOG = Path(cpu.__file__).with_name("cpu_log.py")
CTC = list(tiny_ctc(np.random.default_rng(21), 120))
SEGMENTS = list(tiny_segments(np.random.default_rng(22), 60))
MIXED: list[Problem] = [problem for three in zip(CTC[::2], CTC[1::2], SEGMENTS) for problem in three]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Interpreted arithmetic on scalars warns where compiled code does not."""
    with np.errstate(all="ignore"):
        yield


def first_fault(dtype: torch.dtype) -> list[str]:
    """The first faults against enumeration."""
    return next((found for problem in MIXED if (found := faults([problem], "cpu", dtype))), [])


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "cpu_log", interpreted(LOG))
    assert first_fault(torch.float64) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("before[s] if skip[s]", "before[s] if False"),
        ("w[s + 2] if s + 2 < size and skip[s + 2]", "w[s + 2] if s + 2 < size"),
        ("if end[s]:\n            total", "if end[s] and s % 2:\n            total"),
        ("beta[s] + scores[s]", "beta[s] + scores[0]"),
        ("gamma[s] / total", "gamma[s]"),
    ],
)
def test_planted_faults_in_logarithms_are_told(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "cpu_log", interpreted(LOG, old, new))
    assert first_fault(torch.float64) != []
