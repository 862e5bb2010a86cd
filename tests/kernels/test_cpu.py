"""The compiled backend against the reference, in batches: mixed lengths, ties, holes, poisoned padding, blocks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_problems import KINDS, Batch, random_bands, scores
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels import cpu

DTYPES = [torch.float32, torch.float64]
NEVER = float("-inf")


def batches(seed: int, count: int, frames: int = 40, tokens: int = 12) -> list[Batch]:
    rng = np.random.default_rng(seed)
    return [
        random_batch(
            rng, int(rng.integers(1, 9)), int(rng.integers(1, frames)), tokens, 7, kind, segments=number % 3 == 2
        )
        for number, kind in zip(range(count), KINDS * count)
    ]


def same_paths(given: Batch, dtype: torch.dtype, bands: np.ndarray | None = None) -> int:
    """Compares both backends; returns how many utterances have a path."""
    x = given.log_probs.to(dtype)
    met = kernels.best_path(x, given.topology, given.lengths, bands=bands, backend="cpu")
    right = kernels.best_path(x, given.topology, given.lengths, bands=bands, backend="reference")
    torch.testing.assert_close(met.scores, right.scores, rtol=1e-12, atol=1e-12)
    assert met.states.tolist() == right.states.tolist()
    return int((right.scores > NEVER).sum())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_best_paths(dtype: torch.dtype) -> None:
    assert sum(same_paths(given, dtype) for given in batches(11, 240)) > 300


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_best_paths_in_bands(dtype: torch.dtype) -> None:
    rng = np.random.default_rng(12)
    assert sum(same_paths(given, dtype, random_bands(rng, given)) for given in batches(13, 120)) > 50


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums(dtype: torch.dtype) -> None:
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 2e-6)
    for given in batches(14, 100):
        x = given.log_probs.to(dtype)
        met = kernels.occupancy(x, given.topology, given.lengths, backend="cpu")
        right = kernels.occupancy(x, given.topology, given.lengths, backend="reference")
        torch.testing.assert_close(met.scores, right.scores, rtol=relative, atol=absolute)
        torch.testing.assert_close(met.posteriors, right.posteriors.to(dtype), rtol=relative, atol=10 * absolute)
        forward = kernels.forward(x, given.topology, given.lengths, backend="cpu")
        assert forward.scores.tolist() == met.scores.tolist()
        total = met.posteriors.sum(2)
        inside = torch.arange(x.shape[1]) < given.lengths[:, None]
        expected = (inside & (met.scores > NEVER)[:, None]).to(dtype)
        torch.testing.assert_close(total, expected, rtol=0, atol=1e-5)


def test_a_batch_is_its_utterances() -> None:
    for given in batches(15, 60):
        path = kernels.best_path(given.log_probs, given.topology, given.lengths)
        occupancy = kernels.occupancy(given.log_probs, given.topology, given.lengths)
        for b, length in enumerate(given.lengths.tolist()):
            alone = given.log_probs[b : b + 1, :length]
            size = int(given.topology.states[b])
            topology = lattice.Topology(
                *(getattr(given.topology, name)[b : b + 1, :size] for name in ("emit", "skip", "token")),
                *(getattr(given.topology, name)[b : b + 1] for name in ("states", "starts", "finals", "min_frames")),
            )
            own = kernels.best_path(alone, topology)
            assert path.states[b, :length].tolist() == own.states[0].tolist()
            assert (path.states[b, length:] == -1).all()
            assert path.scores[b].tolist() == own.scores[0].tolist()
            own_occupancy = kernels.occupancy(alone, topology)
            assert torch.equal(occupancy.posteriors[b, :length], own_occupancy.posteriors[0])
            assert (occupancy.posteriors[b, length:] == 0).all()
            assert occupancy.scores[b].tolist() == own_occupancy.scores[0].tolist()


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64, 128, 129])
@pytest.mark.parametrize("kind", ["continuous", "tied", "holes"])
def test_best_paths_in_blocks(block: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(block)
    plans = []
    for number in range(6):
        given = random_batch(rng, 2, 300, 60, 6, kind, segments=number % 3 == 2)
        plans.append((given, random_bands(rng, given) if number % 2 else None))
    run = [kernels.best_path(g.log_probs, g.topology, g.lengths, bands=bands) for g, bands in plans]
    monkeypatch.setattr(cpu, "_pointer_block", lambda length, size, itemsize: min(length, block))
    again = [kernels.best_path(g.log_probs, g.topology, g.lengths, bands=bands) for g, bands in plans]
    for one, other in zip(run, again):
        assert one.states.tolist() == other.states.tolist()
        assert one.scores.tolist() == other.scores.tolist()
    assert sum(int((one.scores > NEVER).sum()) for one in run) > 4


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("block", [2, 3, 7, 64])
def test_occupancy_in_blocks(block: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(block)
    plans = [random_batch(rng, 2, 100, 30, 6, kind, segments=number % 3 == 2) for number, kind in enumerate(KINDS * 2)]
    run = [kernels.occupancy(g.log_probs.to(dtype), g.topology, g.lengths) for g in plans]
    monkeypatch.setattr(cpu, "_row_block", lambda length, row_bytes: min(length, block))
    again = [kernels.occupancy(g.log_probs.to(dtype), g.topology, g.lengths) for g in plans]
    for one, other in zip(run, again):
        assert torch.equal(one.posteriors, other.posteriors)
        assert one.scores.tolist() == other.scores.tolist()


def test_blocks_are_chosen_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpu._pointer_block(1500, 501, 4) == 1500
    long_block = cpu._pointer_block(540_000, 274_001, 4)
    rows = -(-540_000 // long_block)
    assert rows * 274_001 * 4 <= 1.05 * cpu.CHECKPOINT_BYTES
    assert long_block * (long_block + 2) < 2 * cpu.CHECKPOINT_BYTES
    assert cpu._row_block(100, 8 * 503) == 100
    assert cpu._row_block(1500, 8 * 503) == 130
    assert cpu._row_block(100_000, 8 * 50_003) == 317
    monkeypatch.setattr(cpu, "ROWS_BYTES", 0)
    assert cpu._row_block(1500, 8 * 503) == 39
    assert cpu._row_block(1, 8) == 1


def test_small_limits_take_the_block_path(monkeypatch: pytest.MonkeyPatch) -> None:
    given = random_batch(np.random.default_rng(5), 2, 300, 60, 6, "continuous", segments=False)
    run = kernels.best_path(given.log_probs, given.topology, given.lengths)
    monkeypatch.setattr(cpu, "FULL_BACK_POINTERS_BYTES", 0)
    monkeypatch.setattr(cpu, "BLOCK_FRAMES", 16)
    assert cpu._pointer_block(300, 121, 4) == 16
    assert kernels.best_path(given.log_probs, given.topology, given.lengths).states.tolist() == run.states.tolist()


def test_occupancy_that_cannot_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "LOGARITHMIC_BYTES", 1000)
    x = torch.zeros(1, 30, 4, dtype=torch.float64)
    with pytest.raises(KernelError, match=r"30 frames x 7 states need 2232 bytes, at most 1000"):
        kernels.occupancy(x, lattice.ctc([[1, 2, 3]]))
    kernels.forward(x, lattice.ctc([[1, 2, 3]]))
    kernels.occupancy(x.float(), lattice.ctc([[1, 2, 3]]))


def test_many_classes() -> None:
    rng = np.random.default_rng(6)
    x = torch.as_tensor(scores(rng, 20, 100_000, "continuous"), dtype=torch.float32)[None]
    topology = lattice.ctc([[99_999, 50_000, 50_000, 7]], blank=12_345)
    met, right = (kernels.best_path(x, topology, backend=backend) for backend in ("cpu", "reference"))
    assert met.states.tolist() == right.states.tolist()
    met, right = (kernels.occupancy(x, topology, backend=backend) for backend in ("cpu", "reference"))
    torch.testing.assert_close(met.posteriors, right.posteriors, rtol=0, atol=1e-5)


def test_whether_the_kernels_are_compiled_is_known(tmp_path: Path) -> None:
    code = "from ctc_align.kernels import cpu; print(cpu.is_compiled())"
    fresh = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert fresh.stdout == "False\n", fresh.stderr
    x = torch.zeros(1, 3, 2)
    kernels.best_path(x, lattice.ctc([[1]]))
    kernels.forward(x, lattice.ctc([[1]]))
    assert cpu.is_compiled()
