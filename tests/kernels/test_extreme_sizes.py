"""Sizes at which counters overflow and memory ends: millions of frames, more states than 16 bits
count, more cells than 32 bits count, a hundred thousand classes; and what does not fit is
refused."""

from __future__ import annotations

import gc
import math
import tracemalloc

import numpy as np
import pytest
import torch
from cpu_checks import on_threads

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import cpu_backend, log_sums

NEVER = float("-inf")


def planted(
    rng: np.random.Generator, tokens: int, frames: int, classes: int
) -> tuple[list[int], np.ndarray]:
    """A transcript and the states of one of its paths, which any frame sequence of these classes
    determines."""
    row = rng.integers(1, classes, tokens)
    stays = rng.multinomial(frames - 2 * tokens - 1, np.full(2 * tokens + 1, 1 / (2 * tokens + 1)))
    visited = np.ones(2 * tokens + 1, bool)
    # Half of the blanks that may be left out are, and the next token lasts a frame longer.
    free = np.flatnonzero(row[1:] != row[:-1]) * 2 + 2
    gone = free[rng.random(len(free)) < 0.5]
    visited[gone] = False
    stays[gone + 1] += stays[gone] + 1
    return row.tolist(), np.repeat(np.arange(2 * tokens + 1), np.where(visited, stays + 1, 0))


def emissions(row: list[int], states: np.ndarray, classes: int, otherwise: float) -> torch.Tensor:
    """0 for what the states emit, a number below for everything else."""
    x = torch.full((1, len(states), classes), otherwise)
    emitted = np.zeros(2 * len(row) + 1, np.int64)
    emitted[1::2] = row
    x[0, torch.arange(len(states)), torch.as_tensor(emitted[states])] = 0.0
    return x


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("banded", [False, True])
def test_more_states_than_16_bits_and_more_cells_than_32_bits_count(
    banded: bool, threads: int
) -> None:
    rng = np.random.default_rng(61)
    row, states = planted(rng, 35_000, 72_000, 20)
    topology = lattice.ctc([row])
    assert topology.emit.shape[1] > 2**16
    assert len(states) * topology.emit.shape[1] > 2**32
    bands = np.stack((states - 70, states + 90), 1)[None] if banded else None
    with on_threads(threads):
        path = kernels.best_path(emissions(row, states, 20, -1.0), topology, bands=bands)
    assert path.scores.tolist() == [0.0]
    assert np.array_equal(path.states[0].numpy(), states)


@pytest.mark.long
def test_posteriors_of_more_cells_than_32_bits_count() -> None:
    rng = np.random.default_rng(62)
    row, states = planted(rng, 33_000, 67_000, 20)
    x = emissions(row, states, 20, -30.0)
    result = kernels.occupancy(x, lattice.ctc([row]))
    assert float(result.scores) == pytest.approx(0.0, abs=1e-3)
    assert torch.equal(result.posteriors.argmax(2), x.argmax(2))
    torch.testing.assert_close(result.posteriors.sum(2), torch.ones(1, 67_000))


def test_millions_of_frames() -> None:
    rng = np.random.default_rng(63)
    row, states = planted(rng, 6, 2_000_000, 4)
    topology = lattice.ctc([row])
    path = kernels.best_path(emissions(row, states, 4, -1e-3), topology)
    assert path.scores.tolist() == [0.0]
    assert np.array_equal(path.states[0].numpy(), states)


def test_how_many_paths_millions_of_frames_have() -> None:
    """Where all scores are 0 the total counts paths: of L tokens, no two neighbours equal, T + L
    over 2 L."""
    frames, tokens = 2_000_000, 5
    x = torch.zeros(1, frames, tokens + 1)
    result = kernels.occupancy(x, lattice.ctc([[1, 2, 3, 4, 5]]))
    paths = (
        math.lgamma(frames + tokens + 1)
        - math.lgamma(2 * tokens + 1)
        - math.lgamma(frames - tokens + 1)
    )
    assert float(result.scores) == pytest.approx(paths, rel=1e-6)
    tokens_only = result.posteriors[0, :, 1:]
    torch.testing.assert_close(tokens_only, tokens_only.flip(0, 1), rtol=0, atol=1e-4)
    torch.testing.assert_close(result.posteriors.sum(2), torch.ones(1, frames))


def test_float32_tells_neighbours_apart_after_a_hundred_thousand_frames() -> None:
    rng = np.random.default_rng(64)
    x = torch.as_tensor(rng.normal(size=(1, 100_000, 4)) - 5, dtype=torch.float32)
    topology = lattice.ctc([rng.integers(1, 4, 40)])
    met, right = kernels.best_path(x, topology), kernels.best_path(x.double(), topology)
    assert met.scores.tolist() == right.scores.tolist()
    assert met.states.tolist() == right.states.tolist()


@pytest.mark.parametrize("classes", [100_000, 128, 129])
def test_many_classes(classes: int) -> None:
    rng = np.random.default_rng(65)
    x = torch.as_tensor(rng.normal(size=(2, 20, classes)), dtype=torch.float32)
    last = classes - 1
    topology = lattice.ctc([[last, 50, 50, 7], [0, last]], blank=classes // 2)
    met, right = (
        kernels.best_path(x, topology, backend=backend) for backend in ("cpu", "reference")
    )
    assert met.states.tolist() == right.states.tolist()
    assert met.scores.tolist() == right.scores.tolist()
    met, right = (
        kernels.occupancy(x, topology, backend=backend) for backend in ("cpu", "reference")
    )
    torch.testing.assert_close(met.posteriors, right.posteriors.float(), rtol=0, atol=1e-6)
    assert (met.posteriors.count_nonzero(2) <= 4).all()


def test_what_is_refused_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked for in vain, in bytes; afterwards as much memory is taken as before, and
    all is as it was."""
    rng = np.random.default_rng(67)
    row, states = planted(rng, 4000, 9000, 6)
    x, topology = emissions(row, states, 6, -1.0), lattice.ctc([row])
    works = {
        "path": lambda: kernels.best_path(x, topology),
        "forward": lambda: kernels.forward(x, topology),
        "occupancy": lambda: kernels.occupancy(x, topology),
        "occupancy in float64": lambda: kernels.occupancy(x[:, :8600].double(), topology),
    }
    small = lattice.ctc([[1, 2]])
    kernels.best_path(x, small), kernels.occupancy(x, small), kernels.occupancy(x.double(), small)
    monkeypatch.setattr(memory_limits, "UNCHECKED_BYTES", 2**20)
    monkeypatch.setattr(memory_limits, "available", lambda device=None: (2**20, "a test"))
    # A text that matches needs little memory.
    monkeypatch.setattr(cpu_backend, "MOST_NARROW_CHOICES", 0)
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            for name, work in works.items():
                if name == "forward":
                    work()
                    continue
                # Two threads share the path, whose rows and choices are checked then.
                with (
                    on_threads(2),
                    pytest.raises(
                        KernelError,
                        match=r": \d+ bytes \(\d+\.\d GiB\) are needed, 1048576 .*a test",
                    ),
                ):
                    work()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # What `forward` needs is kept for the next call: less than this.
    assert after - before < 2**20
    assert kernels.best_path(x[:, :100], small).scores.isfinite().all()


def test_logarithms_refuse_what_they_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
    monkeypatch.setattr(memory_limits, "available", lambda device=None: (1000, "a test"))
    monkeypatch.setattr(log_sums, "log_sums", lambda *_: pytest.fail("nothing may be allocated"))
    with pytest.raises(
        KernelError, match=r"occupancy of 30 frames x 7 states of utterance 0: 2\d\d\d bytes"
    ):
        kernels.occupancy(torch.zeros(1, 30, 4, dtype=torch.float64), lattice.ctc([[1, 2, 3]]))
