"""Tangents of occupancies: against enumeration, the reference and themselves, in any blocks,
company and memory."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
import torch
from cpu_checks import large_ones, memory_layouts, one, poison
from kernel_problems import TOPOLOGIES, WALKED, Batch, Problem, random_batches
from kernel_problems import batch as random_batch
from tangent_checks import (
    Tangents,
    direction_for,
    enumeration_faults,
    same,
    tangent,
    tangent_faults,
    tiny_tangents,
)

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits

NEVER = float("-inf")
F32, F64 = torch.float32, torch.float64


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


@functools.cache
def tiny() -> tuple[tuple[Problem, np.ndarray, np.ndarray], ...]:
    return tiny_tangents(61)


@pytest.mark.parametrize(
    ("backend", "dtype"), [("reference", F64), ("cpu", F64), ("cpu", F32)], ids=str
)
def test_as_enumerated(backend: str, dtype: torch.dtype) -> None:
    assert sum(np.abs(right).max() > 0.1 for *_, right in tiny()) > 30
    assert [
        line for problem in tiny() for line in enumeration_faults(*problem, backend, dtype)
    ] == []


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_batches_as_the_reference(topology: str) -> None:
    """Mixed lengths, ties, holes, unnormalised scores, wildcards, padding of NaN."""
    for number, given in enumerate(random_batches(62, 12, topology)):
        direction = direction_for(given.log_probs, number)
        right = tangent(given, direction, "reference", F64)
        met = tangent(given, direction, "cpu", F64)
        for a, b in zip(met, right):
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
        assert tangent_faults(given, right, tangent(given, direction)) == []
        torch.testing.assert_close(tangent(given, direction, "reference")[1], right[1].float())


@functools.cache
def cases() -> tuple[tuple[str, Batch, torch.Tensor, Tangents], ...]:
    """Several strips, hundreds of frames, all topologies and kinds, with what is right."""
    shapes = ((30, 130, 6), (265, 9, 40), (20, 90, 129), (60, 2, 200), (540, 40, 30), (6, 700, 6))
    made = []
    for name, given in large_ones(
        63, shapes, ("tied", "continuous", "rounded", "unnormalised", "continuous")
    ):
        direction = direction_for(given.log_probs, len(made))
        # The logarithms in float64, which are compared with the reference above: it would keep
        # every frame's graph.
        made.append((name, given, direction, tangent(given, direction, "cpu", F64)))
    return tuple(made)


def test_long_ones() -> None:
    assert sum(float(right[1].abs().max()) > 0.1 for *_, right in cases()) >= 14
    found = [
        f"{name}: {line}"
        for name, given, direction, right in cases()
        for line in tangent_faults(given, right, tangent(given, direction))
    ]
    assert found == []


def test_no_error_grows_with_the_frames() -> None:
    """Uncertain posteriors, thousands of frames and states; and a thousand times as much of what
    moves nothing."""
    rng = np.random.default_rng(64)
    for tokens, spare in ((30, 20_000), (700, 2_000)):
        given = one(rng, tokens, spare, 12, "continuous")
        direction = torch.round(64 * direction_for(given.log_probs)) / 64
        shift = torch.round(1000 * torch.randn(1, given.log_probs.shape[1], 1))
        _, right, _ = tangent(given, direction, "cpu", F64)
        for moves in (direction, direction + shift):
            assert (tangent(given, moves)[1] - right).abs().max() < 5e-6 * right.abs().max()


def test_every_memory_of_directions_and_known_posteriors() -> None:
    """Directions and posteriors as they lie, with log-probs of two layouts: the very same bits."""
    rng = np.random.default_rng(66)
    for topology, wild in (("ctc", False), ("segments", True)):
        given = random_batch(rng, 5, 60, 30, 37, "continuous", topology=topology, wild=wild)
        direction = direction_for(given.log_probs)
        right = tangent(given, direction)
        assert float(right[1].abs().max()) > 0.1
        for (name, moves), (_, known) in zip(memory_layouts(direction), memory_layouts(right[0])):
            for x in (
                given.log_probs,
                given.log_probs.transpose(0, 1).contiguous().transpose(0, 1),
            ):
                rest = {"wildcard": given.wildcard, "posteriors": known}
                tangents, met = kernels.tangent(x, given.topology, given.lengths, moves, **rest)
                assert same((met.posteriors, tangents, met.scores), right), name


@pytest.mark.parametrize("topology", ["ctc", "simple", "optional"])
def test_linear_in_the_direction(topology: str) -> None:
    """Exactly, for powers of 2 as far as float32 goes, and where it has no room for sums in
    float64."""
    given = next(random_batches(68, 1, topology))
    direction = direction_for(given.log_probs)
    _, expected, _ = tangent(given, direction)
    assert expected.abs().max() > 0.01
    exactly = {"rtol": 0, "atol": 0} if topology in WALKED else {"rtol": 1e-6, "atol": 0}
    for power in (-90, -30, 1, 60, 97):
        _, met, _ = tangent(given, direction * 2.0**power)
        torch.testing.assert_close(met, expected * 2.0**power, **exactly)
    for power in (-115, 120):
        _, met, _ = tangent(given, direction * 2.0**power)
        torch.testing.assert_close(met * 2.0**-power, expected, rtol=1e-4, atol=1e-4)
    for power in (-1000, 1000):
        _, met, _ = tangent(given, direction.double() * 2.0**power, "cpu", F64)
        torch.testing.assert_close(met * 2.0**-power, expected.double(), rtol=1e-6, atol=1e-6)
    assert (tangent(given, 0 * direction)[1] == 0).all()
    for backend in ("cpu", "reference"):
        assert tangent(given, torch.full_like(direction, 3.0), backend, F64)[1].abs().max() < 1e-12


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("topology", ["ctc", "segments", "optional"])
@pytest.mark.parametrize(
    ("backend", "dtype"), [("reference", F64), ("cpu", F64), ("cpu", F32)], ids=str
)
def test_endless_directions(backend: str, dtype: torch.dtype, topology: str, bad: float) -> None:
    """Where a path passes they make NaN of their utterance; where none does they do not matter."""
    given = next(random_batches(69, 1, topology))
    x = given.log_probs.clone()
    x[:, 1, 2] = NEVER
    given = Batch(x, given.lengths, given.topology, given.wildcard)
    direction = direction_for(x)
    posteriors, expected, scores = tangent(given, direction, backend, dtype)
    b = int(scores.nan_to_num(neginf=-1e9).argmax())
    beside = direction.clone()
    beside[posteriors == 0] = bad
    met = tangent(given, beside, backend, dtype)
    torch.testing.assert_close(met[1], expected, rtol=0, atol=1e-6)
    t, c = divmod(int(posteriors[b].argmax()), x.shape[2])
    direction[b, t, c] = bad
    met = tangent(given, direction, backend, dtype)
    assert met[1][b, : given.lengths[b]].isnan().all()
    assert (met[1][b, given.lengths[b] :] == 0).all()
    others = torch.arange(len(scores)) != b
    assert torch.equal(met[1][others], expected[others])


LEVELS = [-9e4, -1e10, -3.4e38, 9e4, 1e10, 1e30]
PLACES = ["all", "a class", "another class", "a frame", "a cell"]


@pytest.mark.parametrize("topology", ["ctc", "simple", "segments", "optional"])
def test_extreme_scores(topology: str) -> None:
    """Never NaN, each frame's tangents add up to 0, and as the reference where float64 has digits.

    Of every level at every place there are three utterances, all of them in one batch.
    """
    given = random_batch(np.random.default_rng(70), 3, 60, 6, 7, "continuous", topology=topology)
    cells = {
        "all": (slice(None),),
        "a class": (..., 1),
        "another class": (..., 4),
        "a frame": (slice(None), 9),
        "a cell": (0, 5, 2),
    }
    assert list(cells) == PLACES
    cases = list(itertools.product([*LEVELS, NEVER], PLACES))
    rows = []
    for level, place in cases:
        x = given.log_probs.clone()
        x[cells[place]] = level + (x[cells[place]] if abs(level) < 1e6 else 0.0)
        rows.append(x)

    def together(chosen: list[int]) -> Batch:
        count = len(chosen)
        made = lattice.stack([given.topology] * count)
        return Batch(torch.cat([rows[k] for k in chosen]), given.lengths.repeat(count), made)

    every = together(list(range(len(cases))))
    direction = direction_for(given.log_probs)
    posteriors, tangents, scores = tangent(every, direction.repeat(len(cases), 1, 1))
    assert not tangents.isnan().any()
    assert not posteriors.isnan().any()
    assert (tangents[scores == NEVER] == 0).all()
    torch.testing.assert_close(tangents.sum(2), torch.zeros(tangents.shape[:2]), rtol=0, atol=1e-4)
    exact = [k for k, (level, _) in enumerate(cases) if abs(level) < 1e12 or level == NEVER]
    right = tangent(together(exact), direction.repeat(len(exact), 1, 1), "reference", F64)[
        1
    ].float()
    for k, expected in zip(exact, right.split(3)):
        atol = 1e-2 if abs(cases[k][0]) < math.inf else 1e-5
        torch.testing.assert_close(
            tangents[3 * k : 3 * k + 3],
            expected,
            rtol=0,
            atol=atol,
            msg=lambda m, k=k: f"{cases[k]}: {m}",
        )


@pytest.mark.parametrize(
    ("backend", "dtype"), [("reference", F64), ("cpu", F64), ("cpu", F32)], ids=str
)
def test_no_log_probs(backend: str, dtype: torch.dtype) -> None:
    """NaN and +inf where every path of the first utterance meets them, and where none of the second
    does."""
    x = torch.randn(2, 12, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    direction = direction_for(x)
    topology = lattice.ctc([[1, 2, 2], [1, 2]])
    for bad in (math.nan, math.inf):
        spoilt = x.clone()
        spoilt[0, 5], spoilt[1, :, 3] = bad, bad
        tangents, met = kernels.tangent(spoilt, topology, None, direction, backend=backend)
        assert met.scores.isnan().tolist() == [True, False]
        assert tangents[0].isnan().all()
        clean, _ = kernels.tangent(
            x[1:], lattice.ctc([[1, 2]]), None, direction[1:], backend=backend
        )
        torch.testing.assert_close(tangents[1:, :, :3], clean[..., :3])
        assert (tangents[1, :, 3] == 0).all()
        again, _ = kernels.tangent(
            spoilt, topology, None, direction, posteriors=met.posteriors, backend=backend
        )
        assert torch.equal(again.nan_to_num(9.0), tangents.nan_to_num(9.0))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("tokens", [0, 1, 2, 5])
@pytest.mark.parametrize("frames", [0, 1, 2, 3, 6])
def test_corners(frames: int, tokens: int, dtype: torch.dtype) -> None:
    given = Batch(
        torch.randn(1, frames, 4, generator=torch.Generator().manual_seed(frames)).to(dtype),
        torch.tensor([frames]),
        lattice.ctc([[1, 2, 2, 3, 1][:tokens]]),
    )
    direction = direction_for(given.log_probs)
    met, right = (tangent(given, direction, backend, dtype) for backend in ("cpu", "reference"))
    for a, b in zip(met, right):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)
    assert met[1].shape == (1, frames, 4)


@pytest.mark.parametrize("topology", ["ctc", "optional"])
def test_what_cannot_be_held_is_refused(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = random_batch(np.random.default_rng(71), 2, 200, 30, 7, "continuous", topology=topology)
    posteriors = tangent(given, direction_for(given.log_probs))[0]
    monkeypatch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
    monkeypatch.setattr(memory_limits, "available", lambda device=None: (4 * 2 * 200 * 7, "a test"))
    with pytest.raises(KernelError, match=r"tangents.* \d+ bytes .* are needed, 11200 .*a test"):
        tangent(given, direction_for(given.log_probs), posteriors=posteriors)
