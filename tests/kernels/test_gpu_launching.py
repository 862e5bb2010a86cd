"""Launches of the GPU's kernels as values, without a card and without Triton."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ctc_align.kernels.gpu import launching


class Kernel:
    """A kernel that writes down what is compiled; `fault` is raised instead."""

    arg_names = ("width", "batch")

    def __init__(self, fault: Exception | None = None) -> None:
        self.compiled: list[Any] = []
        self.fault = fault

    def warmup(self, *arguments: Any, **options: Any) -> None:
        if self.fault is not None:
            raise self.fault
        self.compiled.append((arguments, options["grid"], options["num_warps"]))


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The modes of Triton's that were entered."""
    entered: list[object] = []

    @contextlib.contextmanager
    def mode(executor: object) -> Iterator[None]:
        entered.append(executor)
        yield

    monkeypatch.setattr(launching, "INTERPRETED", False)
    monkeypatch.setattr(launching, "_compiled", set())
    monkeypatch.setattr(launching, "triton", types.SimpleNamespace(AsyncCompileMode=mode))
    return entered


def test_a_kind_of_call_is_compiled_together_and_once(modes: list[object]) -> None:
    kernel = Kernel()
    values = {"batch": 3, "frames": 5, "width": 7}
    launches = [launching.made(kernel, (grid,), 4, values) for grid in (1, 2)]
    for kind in ("float32", "float32", "float64"):
        launching.compile_together(kind, launches)
    assert kernel.compiled == 2 * [((7, 3), (1,), 4), ((7, 3), (2,), 4)]
    assert len(modes) == 2


def test_what_does_not_compile_is_left_to_the_launch(
    modes: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = launching.made(Kernel(RuntimeError("no")), (1,), 4, {"batch": 3, "width": 7})
    launching.compile_together("broken", [broken, broken])
    assert len(modes) == 1
    monkeypatch.setattr(launching, "triton", types.SimpleNamespace())
    launching.compile_together("an old Triton", [broken, broken])
    assert len(modes) == 1
