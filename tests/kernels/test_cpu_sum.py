"""Forward and occupancy by the compiled backend: as exact as scaled numbers in float32 can be.
`test_same_bits` has blocks, company, threads and memory."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from cpu_checks import Sums, large_ones, occupancy, one, poison, same_sums, sum_faults
from kernel_problems import WALKED, Batch, alone
from rows import first_row_of

from ctc_align import lattice
from ctc_align.kernels.cpu import general_kernels

NEVER = float("-inf")


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


@functools.cache
def cases() -> tuple[tuple[str, Batch, Sums], ...]:
    """Several strips, hundreds of frames, all topologies and kinds, with what is right."""
    shapes = ((30, 130, 6), (265, 9, 40), (20, 90, 129), (60, 2, 200), (40, 40, 30))
    kinds = ("tied", "continuous", "rounded", "holes", "unnormalised", "continuous")
    right = (
        (*named, occupancy(named[1], "reference", torch.float64))
        for named in large_ones(41, shapes, kinds)
    )
    return tuple(right)


def test_as_the_reference() -> None:
    assert sum(bool(right[1] > NEVER) for *_, right in cases()) >= 12
    assert [
        f"{name}: {line}" for name, given, right in cases() for line in sum_faults(given, right)
    ] == []


@pytest.mark.parametrize("topology", first_row_of(WALKED))
def test_thousands_of_states(topology: str) -> None:
    """Against the logarithms in float64, which are tested against the reference."""
    rng = np.random.default_rng(42)
    for tokens, spare, kind in (
        (1400, 60, "rounded"),
        (1400, 1, "tied"),
        (500, 1500, "continuous"),
    ):
        given = one(rng, tokens, spare, 40, kind, topology)
        right = occupancy(given, "cpu", torch.float64)
        assert right[1] > NEVER
        assert sum_faults(given, right) == []


def test_a_hundred_thousand_frames() -> None:
    given = one(np.random.default_rng(43), 30, 100_000, 12, "continuous")
    assert sum_faults(given, occupancy(given, "cpu", torch.float64)) == []


def test_neighbours_change_no_bit() -> None:
    """Not even those whose blanks or silences are not all of a kind, or whose tokens may not
    stay."""
    rng = np.random.default_rng(44)
    rows, lengths = [rng.integers(0, 5, 30) for _ in range(4)], torch.tensor([90, 150, 80, 90])
    words = [np.arange(30), np.arange(30) // 2, np.arange(30), np.arange(30) // 5]
    x = torch.as_tensor(rng.normal(size=(4, 150, 6)), dtype=torch.float32)
    plain, simple = lattice.ctc(rows, 5), lattice.simple_ctc(rows, 5)
    names = ("emit", "skip", "token", "stay", "states", "starts", "finals", "min_frames")
    mixed = lattice.Topology(
        **{
            name: np.concatenate((getattr(plain, name)[:2], getattr(simple, name)[2:]))
            for name in names
        }
    )
    for topology in (lattice.segmentation(rows, words, 1, 5), mixed):
        given = Batch(x, lengths, topology)
        together = occupancy(given)
        assert together[1].isfinite().all()
        for b in range(4):
            assert same_sums(
                occupancy(alone(given, b, padded=True)),
                (together[0][b : b + 1], together[1][b : b + 1]),
            )


def test_what_is_usual_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled numbers suffice for all that models say; what is beyond them goes to the logarithms,
    and only that."""
    calls = []
    add_up = general_kernels.GeneralKernels.add_up
    monkeypatch.setattr(
        general_kernels.GeneralKernels,
        "add_up",
        lambda self, b, *rest: (calls.append(b), add_up(self, b, *rest))[1],
    )
    for _, given, right in cases():
        if right[1] > NEVER:
            occupancy(given)
    assert calls == []
    x = torch.zeros(3, 300, 4)
    x[1, ::2, :3] = x[1, 1::2, [0, 2, 3]] = -1e6
    x[2] = -9e4
    occupancy(Batch(x, torch.tensor([300] * 3), lattice.ctc([[1, 3] + [2] * 140 + [1, 3]] * 3)))
    assert set(calls) == {1}
