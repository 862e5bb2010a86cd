"""The door: what it says of the wildcard's scores, and which backend it opens."""

from __future__ import annotations

import sys
import types
import warnings

import pytest
import torch

from ctc_align import kernels, lattice
from ctc_align.errors import BackendError, BackendWarning, KernelError
from ctc_align.lattice import WILDCARD

LOG_PROBS = torch.zeros(2, 5, 3)
WILD = lattice.ctc([[1, WILDCARD], [1]])
FUNCTIONS = [kernels.best_path, kernels.forward, kernels.occupancy]


@pytest.mark.parametrize(
    ("wildcard", "said"),
    [
        (None, "a state emits the wildcard: expected its scores (B, T) as `wildcard`, got None"),
        ([[0.0] * 5] * 2, "wildcard: expected a floating-point tensor (B, T), got list"),
        (torch.zeros(2, 5, dtype=torch.int64), "got torch.int64"),
        (torch.zeros(2, 4), "wildcard: expected shape (2, 5) as log_probs, got (2, 4)"),
        (torch.zeros(2, 5, 1), "got (2, 5, 1)"),
    ],
)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_wildcards(function: types.FunctionType, wildcard: object, said: str) -> None:
    with pytest.raises(KernelError) as error:
        function(LOG_PROBS, WILD, wildcard=wildcard)
    assert said in str(error.value)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_wildcard_that_nobody_asked_for_is_not_read(backend: str) -> None:
    nowhere = torch.full((2, 5), float("nan"))
    plain = lattice.ctc([[1, 2], [1]])
    assert not kernels.best_path(LOG_PROBS, plain, wildcard=nowhere, backend=backend).scores.isnan().any()
    assert kernels.occupancy(LOG_PROBS, plain, wildcard=nowhere, backend=backend).wildcard is None


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_wildcard_has_the_precision_of_the_log_probs(backend: str) -> None:
    fine = torch.full((1, 1), 1 / 3, dtype=torch.float64)
    topology = lattice.simple_ctc([[WILDCARD]])
    for dtype, kept in ((torch.float64, torch.float64), (torch.float32, torch.float32), (torch.half, torch.float32)):
        x = torch.zeros(1, 1, 2, dtype=dtype)
        assert float(kernels.best_path(x, topology, wildcard=fine, backend=backend).scores) == float(fine.to(kept))
        own = kernels.occupancy(x, topology, wildcard=fine.clone().requires_grad_(), backend=backend).wildcard
        assert own is not None
        assert (own.dtype, own.tolist(), own.requires_grad) == (kept, [[1.0]], False)


def gpu(reason: str | None) -> types.ModuleType:
    module = types.ModuleType("ctc_align.kernels.gpu.gpu_backend")
    module.unavailable = lambda: reason  # type: ignore[attr-defined]
    return module


def test_the_gpu_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", gpu("no card is in this machine"))
    for call in (
        lambda: kernels.check_backend("gpu"),
        lambda: kernels.forward(LOG_PROBS, WILD, wildcard=LOG_PROBS[:, :, 0], backend="gpu"),
    ):
        with pytest.raises(BackendError, match="backend 'gpu' cannot run here: no card is in this machine; use 'cpu'"):
            call()
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", None)  # as if there were no such file
    with pytest.raises(BackendError, match="'gpu' cannot run here"):
        kernels.check_backend("gpu")


def test_auto_goes_where_the_log_probs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    on_card, on_cpu = types.SimpleNamespace(is_cuda=True), types.SimpleNamespace(is_cuda=False)
    module = gpu(None)
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", module)
    assert kernels._open("auto", on_card) == ("gpu", module)
    assert kernels._open("gpu", on_cpu) == ("gpu", module)
    assert kernels._open("auto", on_cpu)[0] == "cpu"
    assert kernels._open("cpu", on_card)[0] == "cpu"


def test_auto_says_once_that_a_gpu_is_left_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton that is missing or too old must not look like a slow GPU."""
    on_card = types.SimpleNamespace(is_cuda=True, device="cuda:1")
    kernels.say_that_cuda_is_idle.cache_clear()
    for reason, fresh in (("Triton is not installed", 1), ("Triton is not installed", 0), ("Triton 3.4 or newer", 1)):
        monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", gpu(reason))
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            assert kernels.backend_of(on_card) == kernels._open("auto", on_card)[0] == "cpu"
            assert kernels._open("cpu", on_card)[0] == "cpu"
        assert [warning.category for warning in met] == [BackendWarning] * fresh
        assert all(f"on cuda:1, but CTC's kernels run on the CPU: {reason}; " in str(one.message) for one in met)
        assert all("\n" not in str(one.message) for one in met)
    assert kernels.backend_of(LOG_PROBS) == kernels.best_path(LOG_PROBS, lattice.ctc([[1], [1]])).backend == "cpu"
    kernels.say_that_cuda_is_idle.cache_clear()
