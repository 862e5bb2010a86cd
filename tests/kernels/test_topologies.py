"""Fast backends against the reference in batches of every topology: mixed lengths, ties, holes, poisoned padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from kernel_problems import KINDS, TOPOLOGIES, Batch, random_bands
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels.cpu import general_viterbi

BACKENDS = ["cpu"]
DTYPES = [torch.float32, torch.float64]
NEVER = float("-inf")


def batches(seed: int, count: int, topology: str, frames: int = 40, tokens: int = 12) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    for number, kind in zip(range(count), KINDS * count):
        utterances, most = int(rng.integers(1, 9)), int(rng.integers(1, frames))
        yield random_batch(rng, utterances, most, tokens, 7, kind, topology=topology, wild=number % 2 == 1)


def best_path(
    given: Batch, dtype: torch.dtype, backend: str, bands: np.ndarray | None = None
) -> tuple[list[list[int]], torch.Tensor]:
    wildcard = None if given.wildcard is None else given.wildcard.to(dtype)
    path = kernels.best_path(
        given.log_probs.to(dtype), given.topology, given.lengths, wildcard=wildcard, bands=bands, backend=backend
    )
    return path.states.tolist(), path.scores.cpu()


def occupancy(given: Batch, dtype: torch.dtype, backend: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Posteriors (B, T, C + 1) with those of the wildcard last, and the scores, also without posteriors the same."""
    wildcard = None if given.wildcard is None else given.wildcard.to(dtype)
    rest = (given.log_probs.to(dtype), given.topology, given.lengths)
    result = kernels.occupancy(*rest, wildcard=wildcard, backend=backend)
    assert torch.equal(kernels.forward(*rest, wildcard=wildcard, backend=backend).scores, result.scores)
    own = result.wildcard if result.wildcard is not None else torch.zeros_like(result.posteriors[..., 0])
    assert (result.wildcard is not None) == given.topology.has_wildcard
    return torch.cat((result.posteriors, own[..., None]), 2).cpu(), result.scores.cpu()


def same_paths(given: Batch, dtype: torch.dtype, backend: str, bands: np.ndarray | None = None) -> int:
    """Compares with the reference; returns how many utterances have a path."""
    met, right = (best_path(given, dtype, name, bands) for name in (backend, "reference"))
    torch.testing.assert_close(met[1], right[1], rtol=1e-12, atol=1e-12)
    assert met[0] == right[0]
    return int((right[1] > NEVER).sum())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_best_paths(backend: str, topology: str, dtype: torch.dtype) -> None:
    assert sum(same_paths(given, dtype, backend) for given in batches(11, 24, topology)) > 30


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_best_paths_in_bands(backend: str, topology: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(12)
    found = sum(
        same_paths(given, dtype, backend, random_bands(rng, given)) for given in batches(13, 24, topology, tokens=8)
    )
    assert found > 12


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_sums(backend: str, topology: str, dtype: torch.dtype) -> None:
    relative, absolute = (1e-12, 1e-12) if dtype == torch.float64 else (1e-6, 2e-6)
    for given in batches(14, 18, topology):
        met, right = (occupancy(given, dtype, name) for name in (backend, "reference"))
        torch.testing.assert_close(met[1], right[1], rtol=relative, atol=absolute)
        torch.testing.assert_close(met[0], right[0].to(dtype), rtol=relative, atol=10 * absolute)
        inside = torch.arange(met[0].shape[1]) < given.lengths[:, None]
        expected = (inside & (met[1] > NEVER)[:, None]).to(dtype)
        torch.testing.assert_close(met[0].sum(2), expected, rtol=0, atol=1e-5)


def alone(given: Batch, b: int) -> Batch:
    """Utterance b without padding of frames or states."""
    length, size, topology = int(given.lengths[b]), int(given.topology.states[b]), given.topology
    own = {name: getattr(topology, name)[b : b + 1, :size] for name in ("emit", "skip", "token", "stay")}
    own |= {name: getattr(topology, name)[b : b + 1] for name in ("states", "starts", "finals", "min_frames")}
    if topology.detours is not None:
        ways = (getattr(topology.detours, name)[b : b + 1, :size] for name in ("sources", "begin", "end"))
        own["detours"] = lattice.Detours(*ways)
    wildcard = None if given.wildcard is None else given.wildcard[b : b + 1, :length]
    return Batch(given.log_probs[b : b + 1, :length], given.lengths[b : b + 1], lattice.Topology(**own), wildcard)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_batch_is_its_utterances(backend: str, topology: str) -> None:
    for given in batches(15, 6, topology):
        states, scores = best_path(given, torch.float32, backend)
        posteriors, totals = occupancy(given, torch.float32, backend)
        for b, length in enumerate(given.lengths.tolist()):
            own = alone(given, b)
            assert best_path(own, torch.float32, backend) == ([states[b][:length]], scores[b : b + 1])
            assert set(states[b][length:]) <= {-1}
            own_posteriors, own_total = occupancy(own, torch.float32, backend)
            assert torch.equal(own_posteriors[0], posteriors[b, :length])
            assert own_total.tolist() == totals[b : b + 1].tolist()
            assert (posteriors[b, length:] == 0).all()


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("topology", ["simple", "optional", "optional segments"])
def test_detours_in_blocks(topology: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(block)
    monkeypatch.setattr(general_viterbi, "_block", lambda frames, needed: min(frames, block))
    found = 0
    for number, given in enumerate(batches(16, 6, topology, 150, 40)):
        bands = random_bands(rng, given) if number % 2 else None
        found += same_paths(given, torch.float32, "cpu", bands)
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
        KernelError, match=r"utterance 1: 100 frames x 11 states with detours over 4 states need \d+ by"
    ):
        kernels.best_path(x, lattice.ctc([[1], [1, 2, 3, 1, 2]], 0, [[False], [True, False, True, False, True]]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_detours_than_a_byte_can_tell(backend: str) -> None:
    rng = np.random.default_rng(17)
    row, free = rng.integers(1, 6, 300), np.ones(300, bool)
    free[[0, -1]] = False
    x = torch.as_tensor(-rng.integers(0, 3, (1, 9, 6)) / 2, dtype=torch.float32)
    given = Batch(x, torch.tensor([9]), lattice.ctc([row], 0, [free]))
    assert given.topology.detours is not None
    assert given.topology.detours.sources.shape[2] > 256
    assert same_paths(given, torch.float32, backend) == 1
    states = np.array(best_path(given, torch.float32, backend)[0][0])
    assert np.diff(states).max() > 512


@pytest.mark.parametrize("backend", ["reference", *BACKENDS])
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_log_probs(bad: float, topology: str, backend: str) -> None:
    """Every path of the first utterance meets what is no number; the second is not concerned."""
    rng = np.random.default_rng(18)
    given = random_batch(rng, 2, 30, 4, 7, "continuous", topology=topology, wild=True)
    x, wildcard = torch.zeros(2, 30, 7), torch.zeros(2, 30)
    x[0, 5] = wildcard[0, 5] = bad
    whole = Batch(x, torch.tensor([30, 30]), given.topology, wildcard)
    states, scores = best_path(whole, torch.float32, backend)
    posteriors, totals = occupancy_with_nan(whole, backend)
    assert scores.isnan().tolist() == totals.isnan().tolist() == [True, False]
    assert set(states[0]) == {-1}
    assert min(states[1]) >= 0
    assert posteriors[0].isnan().all()
    assert not posteriors[1].isnan().any()


def occupancy_with_nan(given: Batch, backend: str) -> tuple[torch.Tensor, torch.Tensor]:
    result = kernels.occupancy(given.log_probs, given.topology, wildcard=given.wildcard, backend=backend)
    assert result.wildcard is not None
    return torch.cat((result.posteriors, result.wildcard[..., None]), 2), result.scores


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_layouts_and_half_precision(topology: str, backend: str) -> None:
    given = next(batches(19, 1, topology))
    given = dataclasses.replace(given, log_probs=given.log_probs.half())
    time_first = given.log_probs.transpose(0, 1).contiguous().transpose(0, 1)
    other = dataclasses.replace(given, log_probs=time_first)
    plain, turned = (best_path(each, torch.float32, backend) for each in (given, other))
    half = kernels.best_path(other.log_probs, other.topology, other.lengths, backend=backend)
    assert plain[0] == turned[0] == half.states.tolist()
    assert plain[1].tolist() == turned[1].tolist() == half.scores.tolist()
