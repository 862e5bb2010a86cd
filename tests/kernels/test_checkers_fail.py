"""The checkers, seen to fail: faults planted in the kernels' source must be told, each by the tests' own comparisons.

The patched source runs interpreted, without compilation; unpatched it must pass, so the source is tested twice.
"""

from __future__ import annotations

import importlib.util
import re
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_problems import Problem, faults, random_bands, tiny_ctc, tiny_segments
from kernel_problems import batch as random_batch

from ctc_align import kernels
from ctc_align.kernels import cpu

FILES = {name: Path(cpu.__file__).with_name(f"{name}.py") for name in ("cpu_best_path", "cpu_sum", "cpu_log")}
CTC = list(tiny_ctc(np.random.default_rng(21), 120))
SEGMENTS = list(tiny_segments(np.random.default_rng(22), 60))
MIXED: list[Problem] = [problem for three in zip(CTC[::2], CTC[1::2], SEGMENTS) for problem in three]


def interpreted(name: str, old: str = "", new: str = "") -> types.ModuleType:
    """A kernel's module without numba's decorators, with every `old` in its source replaced."""
    source = FILES[name].read_text(encoding="utf-8")
    assert old in source, f"{name} no longer says {old!r}: plant the fault where it went"
    source = re.sub(r"^@njit\(.*\)$", "", source.replace(old, new) if old else source, flags=re.MULTILINE)
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, f"patched {name}", "exec"), module.__dict__)
    module.__dict__["_bits"] = lambda number: np.float32(number).view(np.int32)
    module.__dict__["_number"] = lambda bits: np.int32(bits).view(np.float32)
    module.__dict__["RECENTRE_FRAMES"] = 4
    return module


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Interpreted arithmetic on scalars warns where compiled code does not."""
    with np.errstate(all="ignore"):
        yield


def first_enumerated(dtype: torch.dtype = torch.float32) -> list[str]:
    """The first faults against enumeration."""
    return next((found for problem in MIXED if (found := faults([problem], "cpu", dtype))), [])


def first_in_blocks() -> list[str]:
    """The first faults of small blocks and narrow bands against the reference."""
    rng = np.random.default_rng(23)
    for number in range(40):
        given = random_batch(rng, 3, 24, 9, 5, ("tied", "continuous")[number % 2], segments=number % 3 == 2)
        bands = random_bands(rng, given) if number % 3 else None
        paths = [
            kernels.best_path(given.log_probs, given.topology, given.lengths, bands=bands, backend=backend)
            for backend in ("cpu", "reference")
        ]
        if paths[0].states.tolist() != paths[1].states.tolist():
            return [f"paths of batch {number} differ"]
        sums = [
            kernels.occupancy(given.log_probs, given.topology, given.lengths, backend=backend).posteriors
            for backend in ("cpu", "reference")
        ]
        if not torch.allclose(sums[0], sums[1], rtol=0, atol=1e-5):
            return [f"occupancies of batch {number} differ"]
    return []


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_pointer_block", lambda length, size, itemsize: min(length, 5))
    monkeypatch.setattr(cpu, "_row_block", lambda length, row_bytes: min(length, 5))


def test_no_fault_without_a_fault(monkeypatch: pytest.MonkeyPatch, small_blocks: None) -> None:
    for name in FILES:
        monkeypatch.setattr(cpu, name, interpreted(name))
    assert first_enumerated() == []
    assert first_enumerated(torch.float64) == []
    assert first_in_blocks() == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        # Ties: step before stay, skip before step, the last token before the last blank.
        ("cpu_best_path", "(np.uint8(1) if before > even", "(np.uint8(1) if before >= even"),
        ("cpu_best_path", "(np.uint8(4) if even > odd", "(np.uint8(4) if even >= odd"),
        ("cpu_best_path", "choice = np.uint8(8) if jump > best", "choice = np.uint8(8) if jump >= best"),
        ("cpu_best_path", "> old[(size - 1) % 2", ">= old[(size - 1) % 2"),
        # Skips: none, everywhere, from the wrong place.
        ("cpu_best_path", "jump = before + skip[1, i]", "jump = before - np.inf"),
        ("cpu_best_path", "0 if skip[s] and s > 1", "0 if s > 1"),
        ("cpu_best_path", "0 if skip[s] and s > 1", "0 if skip[s - 1] and s > 1"),
        # One off: the lanes that can reach the end, those that can be reached, the frame of the last step.
        ("cpu_best_path", "2 * (frames - 1 - t)", "2 * (frames - 2 - t)"),
        ("cpu_best_path", "min((size + 1) // 2, t + 1)", "min((size + 1) // 2, t)"),
        ("cpu_best_path", "for t in range(last, first, -1)", "for t in range(last, first + 1, -1)"),
        ("cpu_best_path", "total += score", "total += min(score, 0.0)"),
        ("cpu_sum", "np.int32(old_e[1, i] + jump[1, i])", "np.int32(NEVER)"),
        ("cpu_sum", "np.int32(w_e[1, k] + jump[1, k])", "np.int32(NEVER)"),
        ("cpu_sum", "if skip[s] and s > 1", "if s > 1"),
        ("cpu_sum", "2 * (frames - 1 - t)", "2 * (frames - 2 - t)"),
        ("cpu_sum", "beta_e[s % 2, s // 2] = 0", "beta_e[0, size // 2] = 0"),
        ("cpu_sum", "value += _shift(", "value = _shift("),
        ("cpu_sum", "offset + log2_total", "log2_total"),
        ("cpu_sum", "6.9314720286e-01", "6.93e-01"),
        ("cpu_sum", "_emit_frame(x, (t + 1) * stride", "_emit_frame(x, t * stride"),
    ],
)
def test_planted_faults_are_told(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, name, interpreted(name, old, new))
    # Paths prefer to be early: in tiny problems a skip hardly ever ties with a step on the way of the best one.
    assert (first_enumerated() or first_in_blocks()) != []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("cpu_best_path", "max(low, top - (last - t))", "max(low, top - (last - t) + 1)"),
        ("cpu_best_path", "= saved[k, ", "= saved[k - 1, "),
        ("cpu_best_path", "2 * low < bands[t, 0]", "2 * low <= bands[t, 0]"),
        ("cpu_best_path", "2 * high > bands[t, 1]", "2 * high > bands[t, 1] + 1"),
        ("cpu_best_path", "new[1, low] = -np.inf", "pass"),
        ("cpu_sum", "new_e[0, high + 1] = NEVER", "pass"),
        ("cpu_sum", "new_e[1, high + 1] = NEVER", "pass"),
        ("cpu_sum", "= saved_m[k], saved_e[k]", "= saved_m[k - 1], saved_e[k - 1]"),
        ("cpu_sum", "here, before = t % rows", "here, before = (t + 1) % rows"),
    ],
)
def test_planted_faults_of_blocks_and_bands_are_told(
    name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch, small_blocks: None
) -> None:
    monkeypatch.setattr(cpu, name, interpreted(name, old, new))
    assert first_in_blocks() != []


def test_a_fault_in_the_reference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from ctc_align.kernels.semiring import LogPlus, MaxPlus

    def greedy(self: MaxPlus, stay: torch.Tensor, step: torch.Tensor, skip: torch.Tensor) -> tuple:
        best = torch.maximum(stay, torch.maximum(step, skip))
        return best, torch.where(skip >= best, 2, torch.where(step >= best, 1, 0)).to(torch.int8)

    def two(self: LogPlus, stay: torch.Tensor, step: torch.Tensor, skip: torch.Tensor) -> tuple:
        return torch.logaddexp(stay, step), torch.zeros_like(stay, dtype=torch.int8)

    for semiring, wrong in ((MaxPlus, greedy), (LogPlus, two)):
        with monkeypatch.context() as patch:
            patch.setattr(semiring, "combine", wrong)
            assert faults(CTC, "reference") != []
