"""The door: what it takes and refuses, the types of its results, the wildcard's scores, and which
backend it opens."""

from __future__ import annotations

import dataclasses
import sys
import types
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from cpu_checks import best_path, occupancy, on_threads, same_sums
from gpu_problems import GPU, device_of
from gpu_problems import backend as backend
from gpu_problems import loaded as loaded
from gpu_problems import modules as modules
from kernel_problems import Batch
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import BackendError, BackendWarning, KernelError, UsageError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import problem
from ctc_align.lattice import WILDCARD

LOG_PROBS = torch.zeros(2, 5, 3)
WILD = lattice.ctc([[1, WILDCARD], [1]])
BACKENDS = ["cpu", "reference"]


def given_batch(utterances: int = 6, frames: int = 30, tokens: int = 8) -> Batch:
    return random_batch(np.random.default_rng(7), utterances, frames, tokens, 7, "continuous")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_wildcard_that_nobody_asked_for_is_not_read(backend: str) -> None:
    nowhere = torch.full((2, 5), float("nan"))
    plain = lattice.ctc([[1, 2], [1]])
    assert (
        not kernels.best_path(LOG_PROBS, plain, wildcard=nowhere, backend=backend)
        .scores.isnan()
        .any()
    )
    assert kernels.occupancy(LOG_PROBS, plain, wildcard=nowhere, backend=backend).wildcard is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_wildcard_has_the_precision_of_the_log_probs(backend: str) -> None:
    fine = torch.full((1, 1), 1 / 3, dtype=torch.float64)
    topology = lattice.simple_ctc([[WILDCARD]])
    for dtype, kept in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.half, torch.float32),
    ):
        x = torch.zeros(1, 1, 2, dtype=dtype)
        assert float(
            kernels.best_path(x, topology, wildcard=fine, backend=backend).scores
        ) == float(fine.to(kept))
        own = kernels.occupancy(
            x, topology, wildcard=fine.clone().requires_grad_(), backend=backend
        ).wildcard
        assert own is not None
        assert (own.dtype, own.tolist(), own.requires_grad) == (kept, [[1.0]], False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.half])
def test_arrays_and_tensors_give_the_same(backend: str, dtype: torch.dtype) -> None:
    """Arrays of any strides, those that cannot be written to, and tensors beside an array."""
    given, rng = given_batch(), np.random.default_rng(3)
    x, topology, lengths = given.log_probs.to(dtype), given.topology, given.lengths
    wild = lattice.ctc([[1, WILDCARD]] * len(x))
    beside = torch.from_numpy(rng.normal(size=x.shape[:2]))
    turned = np.ascontiguousarray(x.numpy()[:, ::-1])[:, ::-1]
    frozen = x.numpy().copy()
    frozen.flags.writeable = False
    for array in (x.numpy(), turned, frozen, np.asfortranarray(x.numpy())):
        for function, arguments, more in (
            (kernels.best_path, (topology, lengths), {}),
            (kernels.occupancy, (wild, lengths), {"wildcard": beside}),
            (kernels.forward, (topology, lengths.numpy()), {}),
            (kernels.tangent, (topology, lengths, x), {}),
        ):
            expected, found = (
                leaves(function(one, *arguments, backend=backend, **more)) for one in (x, array)
            )
            assert len(expected) == len(found) > 0
            for one, other in zip(expected, found):
                assert isinstance(other, np.ndarray)
                assert (one.numpy().dtype, one.tolist()) == (other.dtype, other.tolist())


def leaves(result: object) -> list:
    """Return the tensors or arrays of a result."""
    if isinstance(result, (torch.Tensor, np.ndarray)):
        return [result]
    parts = result if isinstance(result, tuple) else vars(result).values()
    return [
        leaf for part in parts if not isinstance(part, (str, type(None))) for leaf in leaves(part)
    ]


def gpu(reason: str | None) -> types.ModuleType:
    module = types.ModuleType("ctc_align.kernels.gpu.gpu_backend")
    module.unavailable = lambda: reason  # type: ignore[attr-defined]
    return module


def test_the_gpu_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "ctc_align.kernels.gpu.gpu_backend", gpu("no card is in this machine")
    )
    for call in (
        lambda: kernels.check_backend("gpu"),
        lambda: kernels.forward(LOG_PROBS, WILD, wildcard=LOG_PROBS[:, :, 0], backend="gpu"),
    ):
        with pytest.raises(
            BackendError,
            match="backend 'gpu' cannot run here: no card is in this machine; use 'cpu'",
        ):
            call()
    monkeypatch.setitem(
        sys.modules, "ctc_align.kernels.gpu.gpu_backend", None
    )  # as if there were no such file
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
    for reason, fresh in (
        ("Triton is not installed", 1),
        ("Triton is not installed", 0),
        ("Triton 3.4 or newer", 1),
    ):
        monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", gpu(reason))
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            assert kernels.backend_of(on_card) == kernels._open("auto", on_card)[0] == "cpu"
            assert kernels._open("cpu", on_card)[0] == "cpu"
        assert [warning.category for warning in met] == [BackendWarning] * fresh
        assert all(
            f"on cuda:1, but CTC's kernels run on the CPU: {reason}; " in str(one.message)
            for one in met
        )
        assert all("\n" not in str(one.message) for one in met)
    assert (
        kernels.backend_of(LOG_PROBS)
        == kernels.best_path(LOG_PROBS, lattice.ctc([[1], [1]])).backend
        == "cpu"
    )
    kernels.say_that_cuda_is_idle.cache_clear()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2], ids=str
)
def test_less_precision_is_widened(dtype: torch.dtype, backend: str) -> None:
    given = given_batch()
    given = dataclasses.replace(given, log_probs=torch.nan_to_num(given.log_probs))
    wide = dataclasses.replace(given, log_probs=given.log_probs.to(dtype).float())
    assert best_path(given, None, backend, dtype) == best_path(wide, None, backend)
    assert same_sums(occupancy(given, backend, dtype), occupancy(wide, backend))


def test_one_class() -> None:
    given = Batch(torch.zeros(2, 5, 1), torch.tensor([5, 0]), lattice.ctc([[], []]))
    assert best_path(given) == ([[0] * 5, [-1] * 5], [(0.0).hex()] * 2)
    posteriors, scores = occupancy(given)
    assert scores.tolist() == [0.0, 0.0]
    assert posteriors[..., 0].tolist() == [[1.0] * 5, [0.0] * 5]


@pytest.mark.parametrize("backend", [*BACKENDS, GPU], indirect=True)
@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3), (0, 0, 3)], ids=str)
def test_nothing_to_do(shape: tuple[int, int, int], backend: str) -> None:
    x, topology = torch.zeros(shape, device=device_of(backend)), lattice.ctc([[1], []][: shape[0]])
    path = kernels.best_path(x, topology, backend=backend)
    occupancy = kernels.occupancy(x, topology, backend=backend)
    expected = [float("-inf"), 0.0][: shape[0]]
    assert path.states.shape == shape[:2]
    assert path.scores.tolist() == occupancy.scores.tolist() == expected
    assert kernels.forward(x, topology, backend=backend).tolist() == expected
    assert occupancy.posteriors.shape == shape
    if backend in BACKENDS:
        tangents, result = kernels.tangent(x, topology, None, x, backend=backend)
        assert (tangents.shape, result.scores.tolist()) == (shape, expected)


def test_types_of_results() -> None:
    given = given_batch()
    path = kernels.best_path(given.log_probs, given.topology, given.lengths.tolist())
    assert (path.states.dtype, path.scores.dtype, path.backend) == (
        torch.int32,
        torch.float64,
        "cpu",
    )
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.half, torch.float),
    ):
        for name in BACKENDS:
            result = kernels.occupancy(
                given.log_probs.to(dtype), given.topology, given.lengths, backend=name
            )
            assert (result.posteriors.dtype, result.scores.dtype, result.backend) == (
                expected,
                torch.float64,
                name,
            )


def test_errors_leave_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on any thread is the caller's; the others come to an end, and the next call is as if
    it had not been."""
    given = given_batch(8, 403, 61)
    for dtype in (torch.float32, torch.float64):
        x = given.log_probs.to(dtype)
        needed = x.element_size() * x.numel()
        with on_threads(2), monkeypatch.context() as patch:
            patch.setattr(problem, "SMALL_CELLS", 1)
            patch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
            patch.setattr(
                memory_limits, "available", lambda device=None, needed=needed: (needed, "a test")
            )
            with pytest.raises(
                KernelError, match=r": \d+ bytes .* are needed, \d+ .*pass fewer utterances"
            ):
                kernels.occupancy(x, given.topology, given.lengths)
        assert occupancy(given, dtype=dtype)[1].isfinite().any()


TOPOLOGY = lattice.ctc([[1, 2], [1]])
BACK = np.array([[[0, 5]] * 5, [[0, 3], [1, 3], [0, 3], [0, 3], [0, 3]]])
"""Bands that go back."""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"log_probs": [[0.0]]},
            "expected floating-point numbers (B, T, C), an array or a tensor, got list",
        ),
        ({"log_probs": LOG_PROBS.int()}, "got torch.int32"),
        ({"log_probs": LOG_PROBS[0]}, "expected shape (B, T, C), got (5, 3)"),
        ({"log_probs": LOG_PROBS[:1]}, "expected 1 utterances as in log_probs, got 2"),
        ({"log_probs": LOG_PROBS[:, :, :2]}, "emits class 2, log_probs has only 2 classes"),
        (
            {"log_probs": LOG_PROBS[:, :, :0], "topology": lattice.ctc([[], []])},
            "emits class 0, log_probs has only 0 classes",
        ),
        ({"lengths": [5]}, "lengths: expected shape (2,), got (1,)"),
        ({"lengths": [5, 6]}, "lengths: expected 0 to 5 (frames of log_probs), got [5, 6]"),
        ({"lengths": [5, -1]}, "lengths: expected 0 to 5"),
        ({"lengths": [5.0, 4.5]}, "lengths: expected whole numbers, got float64"),
        (
            {"topology": WILD},
            "a state emits the wildcard: expected its scores (B, T) as `wildcard`, got None",
        ),
        (
            {"topology": WILD, "wildcard": [[0.0] * 5] * 2},
            "wildcard: expected floating-point numbers (B, T), an array or a tensor, got list",
        ),
        ({"topology": WILD, "wildcard": torch.zeros(2, 5, dtype=torch.int64)}, "got torch.int64"),
        (
            {"topology": WILD, "wildcard": torch.zeros(2, 4)},
            "expected shape (2, 5) as log_probs, got (2, 4)",
        ),
        ({"topology": WILD, "wildcard": torch.zeros(2, 5, 1)}, "got (2, 5, 1)"),
    ],
)
@pytest.mark.parametrize(
    "function", [kernels.best_path, kernels.forward, kernels.occupancy, kernels.tangent]
)
def test_wrong_arguments(function: Callable, change: dict[str, object], said: str) -> None:
    more = {"lengths": None, "direction": LOG_PROBS} if function is kernels.tangent else {}
    with pytest.raises(KernelError) as error:
        function(**({"log_probs": LOG_PROBS, "topology": TOPOLOGY} | more | change))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("function", "name", "value", "said"),
    [
        (
            "best_path",
            "bands",
            np.zeros((2, 4, 2), int),
            "whole numbers (2, 5, 2), got int64 of shape (2, 4, 2)",
        ),
        ("best_path", "bands", np.zeros((2, 5, 2)), "got float64"),
        ("best_path", "bands", BACK, "bands of utterance 1: from frame 1 to 2"),
        (
            "tangent",
            "direction",
            None,
            "an array or a tensor, got NoneType",
        ),
        ("tangent", "direction", LOG_PROBS.int(), "direction: expected floating-point numbers"),
        (
            "tangent",
            "direction",
            torch.zeros(2, 5, 4),
            "direction: expected shape (2, 5, 3) as log_probs, got (2, 5, 4)",
        ),
        (
            "tangent",
            "posteriors",
            torch.zeros(2, 5),
            "posteriors: expected shape (2, 5, 3) as log_probs, got (2, 5)",
        ),
        ("tangent", "posteriors", [[0.0]], "posteriors: expected floating-point numbers (B, T, C)"),
    ],
)
def test_wrong_arguments_of_one_function(
    function: str, name: str, value: object, said: str
) -> None:
    more = {"lengths": None, "direction": LOG_PROBS} if function == "tangent" else {}
    with pytest.raises(KernelError) as error:
        getattr(kernels, function)(LOG_PROBS, TOPOLOGY, **(more | {name: value}))
    assert said in str(error.value)


def test_bands_beyond_the_length_are_not_read() -> None:
    bands = np.array([[[0, 5]] * 5, [[0, 3], [1, 3], [0, 0], [9, 9], [-9, -9]]])
    path = kernels.best_path(LOG_PROBS, TOPOLOGY, [5, 2], bands=bands)
    assert path.states[1].tolist() == [1, 2, -1, -1, -1]


def test_backends() -> None:
    with pytest.raises(UsageError, match="expected one of auto, reference, cpu, gpu; got 'numpy'"):
        kernels.forward(LOG_PROBS, TOPOLOGY, backend="numpy")
    if not torch.cuda.is_available():
        with pytest.raises(BackendError, match="'gpu'"):
            kernels.forward(LOG_PROBS, TOPOLOGY, backend="gpu")
    assert kernels.occupancy(LOG_PROBS, TOPOLOGY).backend == "cpu"
