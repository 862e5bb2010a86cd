"""The CPU against the reference in batches of every topology: mixed lengths, ties, holes, poisoned
padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cpu_checks import best_path, occupancy
from kernel_problems import TOPOLOGIES, Batch, random_bands, random_batches, same_paths, same_sums
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels.cpu import general_viterbi

DTYPES = [torch.float32, torch.float64]
NEVER = float("-inf")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_best_paths(topology: str, dtype: torch.dtype) -> None:
    assert sum(same_paths(given, "cpu", dtype) for given in random_batches(11, 24, topology)) > 30
    rng = np.random.default_rng(12)
    within = random_batches(13, 24, topology, tokens=8)
    assert sum(same_paths(given, "cpu", dtype, random_bands(rng, given)) for given in within) > 12


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_sums(topology: str, dtype: torch.dtype) -> None:
    for given in random_batches(14, 18, topology):
        same_sums(given, "cpu", dtype)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("topology", ["simple", "optional", "optional segments"])
def test_detours_in_blocks(topology: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(block)
    monkeypatch.setattr(general_viterbi, "_block", lambda frames, needed: min(frames, block))
    found = 0
    for number, given in enumerate(random_batches(16, 6, topology, 150, 40)):
        found += same_paths(given, "cpu", bands=random_bands(rng, given) if number % 2 else None)
    assert found > 6


def test_blocks_are_chosen_by_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = lattice.ctc([[1, 2, 3] * 40], 0, [[True, False, False] * 40]).detours
    assert sources is not None
    reach, saved, block, pointers, width = general_viterbi.plan(0, 100, 241, sources.sources[0])
    assert (reach, saved.shape, block, width) == (4, (1, 241), 100, 241)
    assert pointers.shape == (24_100,)
    monkeypatch.setattr(general_viterbi, "KEPT_WHOLE_BYTES", 0)
    reach, saved, block, pointers, width = general_viterbi.plan(0, 100, 241, sources.sources[0])
    assert saved.nbytes + pointers.nbytes < 30_000
    assert (len(saved), width) == (-(-100 // block), min(241, 4 * block + 1))
    monkeypatch.setattr(general_viterbi, "MOST_BYTES", 500)
    x = torch.zeros(2, 100, 4)
    with pytest.raises(
        KernelError,
        match=r"utterance 1: 100 frames x 11 states with detours over 4 states need \d+ by",
    ):
        kernels.best_path(
            x, lattice.ctc([[1], [1, 2, 3, 1, 2]], 0, [[False], [True, False, True, False, True]])
        )


def test_more_detours_than_a_byte_can_tell() -> None:
    rng = np.random.default_rng(17)
    row, free = rng.integers(1, 6, 300), np.ones(300, bool)
    free[[0, -1]] = False
    x = torch.as_tensor(-rng.integers(0, 3, (1, 9, 6)) / 2, dtype=torch.float32)
    given = Batch(x, torch.tensor([9]), lattice.ctc([row], 0, [free]))
    assert given.topology.detours is not None
    assert given.topology.detours.sources.shape[2] > 256
    assert same_paths(given, "cpu") == 1
    assert np.diff(best_path(given)[0][0]).max() > 512


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(
    ("bad", "dtype"),
    [(np.nan, torch.float32), (np.inf, torch.float32), (-np.nan, torch.float64)],
    ids=str,
)
def test_no_log_probs(bad: float, dtype: torch.dtype, topology: str, backend: str) -> None:
    """Every path of the first utterance meets what is no number; the second is not concerned."""
    rng = np.random.default_rng(18)
    given = random_batch(rng, 2, 30, 4, 7, "continuous", topology=topology, wild=True)
    x, wildcard = torch.zeros(2, 30, 7), torch.zeros(2, 30)
    x[0, 5] = wildcard[0, 5] = bad
    whole = Batch(x, torch.tensor([30, 30]), given.topology, wildcard)
    states, scores = best_path(whole, None, backend, dtype)
    posteriors, totals = occupancy(whole, backend, dtype)
    assert [score == "nan" for score in scores] == totals.isnan().tolist() == [True, False]
    assert set(states[0]) == {-1}
    assert min(states[1]) >= 0
    assert posteriors[0].isnan().all()
    assert not posteriors[1].isnan().any()
