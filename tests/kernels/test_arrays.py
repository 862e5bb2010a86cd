"""The door and the arrays behind it: memory layouts, dtypes, threads, and arguments that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from kernel_problems import Batch
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import BackendError, KernelError, UsageError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import problem

BACKENDS = ["cpu", "reference"]
Result = tuple[list, list, torch.Tensor]


def given_batch(utterances: int = 6, frames: int = 30, tokens: int = 8) -> Batch:
    return random_batch(np.random.default_rng(7), utterances, frames, tokens, 7, "continuous")


def everything(x: torch.Tensor, given: Batch, backend: str = "cpu") -> Result:
    path = kernels.best_path(x, given.topology, given.lengths, backend=backend)
    occupancy = kernels.occupancy(x, given.topology, given.lengths, backend=backend)
    return path.states.tolist(), path.scores.tolist() + occupancy.scores.tolist(), occupancy.posteriors


def same(one: Result, other: Result) -> bool:
    return one[0] == other[0] and one[1] == other[1] and torch.equal(one[2], other[2])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_widened(dtype: torch.dtype, backend: str) -> None:
    given = given_batch()
    half = given.log_probs.to(dtype)
    assert same(everything(half, given, backend), everything(half.float(), given, backend))


def test_one_class() -> None:
    x = torch.zeros(2, 5, 1)
    given = Batch(x, torch.tensor([5, 0]), lattice.ctc([[], []]))
    states, scores, posteriors = everything(x, given)
    assert states == [[0] * 5, [-1] * 5]
    assert scores == [0.0] * 4
    assert posteriors.tolist() == [[[1.0]] * 5, [[0.0]] * 5]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 0, 3), (0, 0, 3)], ids=str)
def test_nothing_to_do(shape: tuple[int, int, int], backend: str) -> None:
    x = torch.zeros(shape)
    topology = lattice.ctc([[1], []][: shape[0]])
    path = kernels.best_path(x, topology, backend=backend)
    occupancy = kernels.occupancy(x, topology, backend=backend)
    expected = [float("-inf"), 0.0][: shape[0]]
    assert path.states.shape == shape[:2]
    assert path.scores.tolist() == occupancy.scores.tolist() == expected
    assert kernels.forward(x, topology, backend=backend).scores.tolist() == expected
    assert occupancy.posteriors.shape == shape


def test_types_of_results() -> None:
    given = given_batch()
    path = kernels.best_path(given.log_probs, given.topology, given.lengths.tolist())
    assert (path.states.dtype, path.scores.dtype, path.backend) == (torch.int32, torch.float64, "cpu")
    for dtype, expected in ((torch.float64, torch.float64), (torch.float32, torch.float32), (torch.half, torch.float)):
        for backend in BACKENDS:
            result = kernels.occupancy(given.log_probs.to(dtype), given.topology, given.lengths, backend=backend)
            assert (result.posteriors.dtype, result.scores.dtype, result.backend) == (expected, torch.float64, backend)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_errors_leave_the_threads(threads: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on any thread is the caller's; the others come to an end, and the next call is as if it had not been."""
    given = given_batch(8, 403, 61)
    for x in (given.log_probs, given.log_probs.double()):
        threads(2)
        needed = x.element_size() * x.numel()
        with monkeypatch.context() as patch:
            patch.setattr(problem, "SMALL_CELLS", 1)
            patch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
            patch.setattr(memory_limits, "available", lambda device=None, needed=needed: (needed, "a test"))
            with pytest.raises(KernelError, match=r": \d+ bytes .* are needed, \d+ .*take fewer utterances"):
                kernels.occupancy(x, given.topology, given.lengths)
        result = everything(x, given)
        threads(1)
        assert same(everything(x, given), result)


TOPOLOGY = lattice.ctc([[1, 2], [1]])
LOG_PROBS = torch.zeros(2, 5, 3)


@pytest.mark.parametrize(
    ("log_probs", "topology", "lengths", "said"),
    [
        ([[0.0]], TOPOLOGY, None, "expected a floating-point tensor (B, T, C), got list"),
        (LOG_PROBS.int(), TOPOLOGY, None, "got torch.int32"),
        (LOG_PROBS[0], TOPOLOGY, None, "expected shape (B, T, C), got (5, 3)"),
        (LOG_PROBS[:1], TOPOLOGY, None, "expected 1 utterances as in log_probs, got 2"),
        (LOG_PROBS[:, :, :2], TOPOLOGY, None, "emits class 2, log_probs has only 2 classes"),
        (LOG_PROBS[:, :, :0], lattice.ctc([[], []]), None, "emits class 0, log_probs has only 0 classes"),
        (LOG_PROBS, TOPOLOGY, [5], "lengths: expected shape (2,), got (1,)"),
        (LOG_PROBS, TOPOLOGY, [5, 6], "lengths: expected 0 to 5 (frames of log_probs), got [5, 6]"),
        (LOG_PROBS, TOPOLOGY, [5, -1], "lengths: expected 0 to 5"),
        (LOG_PROBS, TOPOLOGY, [5.0, 4.5], "lengths: expected whole numbers, got torch.float32"),
    ],
)
@pytest.mark.parametrize("function", [kernels.best_path, kernels.forward, kernels.occupancy])
def test_wrong_arguments(function: Callable, log_probs: object, topology: object, lengths: object, said: str) -> None:
    with pytest.raises(KernelError) as error:
        function(log_probs, topology, lengths)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("bands", "said"),
    [
        (np.zeros((2, 4, 2), int), "expected whole numbers (2, 5, 2), got int64 of shape (2, 4, 2)"),
        (np.zeros((2, 5, 2)), "got float64"),
        (np.array([[[0, 5]] * 5, [[0, 3], [1, 3], [0, 3], [0, 3], [0, 3]]]), "bands of utterance 1: from frame 1 to 2"),
    ],
)
def test_wrong_bands(bands: np.ndarray, said: str) -> None:
    with pytest.raises(KernelError) as error:
        kernels.best_path(LOG_PROBS, TOPOLOGY, bands=bands)
    assert said in str(error.value)


def test_bands_beyond_the_length_are_not_read() -> None:
    bands = np.array([[[0, 5]] * 5, [[0, 3], [1, 3], [0, 0], [9, 9], [-9, -9]]])
    path = kernels.best_path(LOG_PROBS, TOPOLOGY, [5, 2], bands=bands)
    assert path.states[1].tolist() == [1, 2, -1, -1, -1]


def test_backends() -> None:
    with pytest.raises(UsageError, match="expected one of auto, reference, cpu, gpu; got 'numpy'"):
        kernels.forward(LOG_PROBS, TOPOLOGY, backend="numpy")
    with pytest.raises(BackendError, match="'gpu'"):
        kernels.forward(LOG_PROBS, TOPOLOGY, backend="gpu")
    assert kernels.forward(LOG_PROBS, TOPOLOGY).backend == "cpu"
