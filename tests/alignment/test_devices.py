"""Emissions stay on their device, and the kernels run there: on a pretended GPU, and in Triton's interpreter."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_interpreted
import pytest
import torch
from made_models import LETTERS, planted, spelt

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.kernels.cpu import cpu_backend
from ctc_align.types import Emissions

TEXT = "cab abe"
CALIBRATION = Path(__file__).resolve().parents[2] / "ctc_align" / "models" / "english" / "calibration.toml"
MOVED: list[tuple[int, ...]] = []


class OnDevice(torch.Tensor):
    """A tensor that says it is on a GPU, and notes the shapes of what leaves it."""

    @property
    def is_cuda(self) -> bool:
        return True

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        to_cpu = name == "to" and any(isinstance(argument, str) and argument == "cpu" for argument in args)
        if to_cpu or name in ("cpu", "numpy", "tolist"):
            MOVED.append(tuple(args[0].shape))
            return getattr(args[0].as_subclass(torch.Tensor), name)(*args[1:], **(kwargs or {}))
        return super().__torch_function__(function, kinds, args, kwargs or {})


def fake_gpu() -> types.ModuleType:
    """A backend that takes what is on the device only, and leaves its results there."""
    module = types.ModuleType("ctc_align.kernels.gpu.gpu_backend")
    module.unavailable = lambda: None  # type: ignore[attr-defined]

    def on_device(function: Any) -> Any:
        def call(log_probs: torch.Tensor, *arguments: Any) -> Any:
            assert isinstance(log_probs, OnDevice), "the kernel got something that is not on the device"
            plain = [x.as_subclass(torch.Tensor) if isinstance(x, torch.Tensor) else x for x in arguments]
            results = function(log_probs.as_subclass(torch.Tensor), *plain)
            if isinstance(results, tuple):
                return tuple(None if x is None else x.as_subclass(OnDevice) for x in results)
            return results.as_subclass(OnDevice)

        return call

    for name in ("best_path", "forward", "occupancy"):
        setattr(module, name, on_device(getattr(cpu_backend, name)))
    return module


def with_states(emissions: Emissions) -> Emissions:
    generator = torch.Generator().manual_seed(0)
    return replace(
        emissions, states=torch.randn(len(emissions.log_probs), 3 * (len(LETTERS) - 1) + 1, generator=generator)
    )


@pytest.mark.parametrize("unknown", ["skip", "wildcard"])
@pytest.mark.parametrize("segmented", [False, True])
def test_emissions_on_a_device_stay_there(segmented: bool, unknown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = planted(spelt(TEXT))
    here = with_states(here) if segmented else here
    text = TEXT if unknown == "skip" else "cжb abe"
    there = replace(
        here,
        log_probs=here.log_probs.as_subclass(OnDevice),
        states=None if here.states is None else here.states.as_subclass(OnDevice),
    )
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", fake_gpu())
    aligner = Aligner(model=None, settings=Settings(unknown=unknown, calibration=str(CALIBRATION)))
    MOVED.clear()
    result = aligner.align(there, text)
    assert result.backend == "gpu"
    assert replace(result, backend="cpu") == aligner.align(here, text)
    assert MOVED
    whole = [tuple(x.shape) for x in (here.log_probs, here.states) if x is not None]
    assert not [shape for shape in MOVED if shape in whole]
    (scored,) = aligner.score_texts(there, [TEXT])
    assert scored.loss == aligner.score(here, TEXT)


def test_the_gpu_kernels_align(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := gpu_interpreted.missing():
        pytest.skip(f"the GPU's kernels cannot run here: {reason}")
    modules = gpu_interpreted.backend(tmp_path)
    monkeypatch.setattr(modules["gpu_backend"], "unavailable", lambda: None)
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", modules["gpu_backend"])
    emissions = with_states(planted(spelt(TEXT)))
    result = Aligner(model=None, backend="gpu").align(emissions, TEXT)
    expected = Aligner(model=None, backend="cpu").align(emissions, TEXT)
    assert result.to_dict()["backend"] == "gpu"
    assert result.loss == pytest.approx(expected.loss, rel=1e-5)
    assert [word.start_s for word in result.words] == pytest.approx([word.start_s for word in expected.words], abs=1e-3)
