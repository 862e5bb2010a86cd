"""The GPU's backend against enumeration and the reference: on the card if there is one, else interpreted.

Interpreted, time goes by the frame and hardly by the utterance: so thousands of tiny problems go into one batch, and
strips, tiles and blocks are made so small that tiny problems need many of them.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Iterator

import gpu_interpreted
import numpy as np
import pytest
import torch
from gpu_problems import DEVICE, faults, on, optional_over_tiles, same_paths, same_sums
from kernel_problems import (
    Batch,
    Problem,
    random_bands,
    tiny_any,
    tiny_ctc,
    tiny_segments,
    tiny_simple,
)
from kernel_problems import batch as random_batch

from ctc_align import kernels

REASON = None if torch.cuda.is_available() else gpu_interpreted.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"the GPU's kernels cannot run here: {REASON}")
Modules = dict[str, types.ModuleType]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Modules:
    return gpu_interpreted.backend(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module", autouse=True)
def _orders(loaded: Modules) -> Iterator[None]:
    """Once for all tests: of launches that are the same in several of them, two are tried in every order."""
    with gpu_interpreted.in_every_order():
        yield


@pytest.fixture(autouse=True)
def modules(loaded: Modules, monkeypatch: pytest.MonkeyPatch) -> Modules:
    monkeypatch.setitem(sys.modules, "ctc_align.kernels.gpu.gpu_backend", loaded["gpu_backend"])
    return loaded


SHAPES = {
    "one strip": {},
    "strips": {"LANES": 8, "MOST_STRIPS": 8, "LEAST_HALO": 4},
    "tiles": {"LANES": 8, "MOST_STRIPS": 2, "LEAST_HALO": 4, "TILED_HALO": 4},
    "tiles of a strip": {"LANES": 8, "MOST_STRIPS": 1, "LEAST_HALO": 4, "TILED_HALO": 4},
}
"""How states are dealt to threads; on a card a strip is a warp."""
STEPS = {"STATES": 8, "CLASSES": 2, "EACH": 2, "STEP": 8}
"""Programs before and after the walks that have to go on and on."""


def small(modules: Modules, monkeypatch: pytest.MonkeyPatch, shape: str, **limits: int) -> None:
    """Strips, tiles, blocks and memory as given."""
    if DEVICE == "cuda" and shape != "one strip":
        pytest.skip("on a card a strip is a warp")
    for name, value in SHAPES[shape].items():
        monkeypatch.setattr(modules["launch_plan"], name, value)
    for name, value in {**(STEPS if shape.startswith("tiles") else {}), **limits}.items():
        monkeypatch.setattr(modules["launches"], name, value)


def tiny(seed: int) -> dict[str, list[Problem]]:
    rng = np.random.default_rng(seed)
    return {
        "ctc": list(tiny_ctc(rng, 150)),
        "simple": [*tiny_simple(rng, 80), *tiny_simple(rng, 40, wild=True)],
        "any": [*tiny_ctc(rng, 60, wild=True), *tiny_segments(rng, 80), *tiny_segments(rng, 40, wild=True)],
        "optional": [
            *tiny_ctc(rng, 40, optional=True, wild=True),
            *tiny_segments(rng, 40, optional=True),
            *tiny_any(rng, 60),
        ],
    }


@pytest.fixture(scope="module")
def tiny_problems() -> dict[str, list[Problem]]:
    return tiny(31)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["ctc", "simple", "any", "optional"])
def test_enumerated(name: str, dtype: torch.dtype, tiny_problems: dict[str, list[Problem]]) -> None:
    assert faults(tiny_problems[name], dtype) == []


def mixed(seed: int, topology: str, *, frames: int = 14, wild: bool = False, count: int = 40) -> Batch:
    """Utterances of every kind of score, side by side."""
    rng = np.random.default_rng(seed)
    tokens = 4 if topology.startswith("optional") else 8
    given = random_batch(rng, count, frames, tokens, 6, "continuous", topology=topology, wild=wild)
    others = {
        kind: random_batch(rng, count, frames, 0, 6, kind).log_probs for kind in ("tied", "holes", "unnormalised")
    }
    x = given.log_probs.clone()
    for number, other in enumerate(others.values()):
        x[number::4] = torch.where(x[number::4].isnan() | other[number::4].isnan(), x[number::4], other[number::4])
    return dataclasses.replace(given, log_probs=x)


@pytest.mark.parametrize(
    ("topology", "shape"),
    [
        ("ctc", "one strip"),
        ("segments", "strips"),
        ("simple", "strips"),
        ("simple", "tiles"),
        ("optional segments", "tiles"),
    ],
)
def test_every_topology(topology: str, shape: str, modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """In tiles two of them: the others are below, from checkpoints and with detours between tiles."""
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=8)
    given = mixed(41, topology, wild=True)
    assert same_paths(given) > 8
    same_sums(given)


@pytest.mark.parametrize("shape", ["one strip", "strips", "tiles"])
def test_float64_and_bands(shape: str, modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=4)
    given = mixed(42, "ctc")
    same_sums(given, torch.float64)
    for topology in ("ctc", "segments"):
        given = mixed(43, topology, wild=True)
        assert same_paths(given, torch.float64, random_bands(np.random.default_rng(1), given)) > 3


@pytest.mark.parametrize(
    ("topology", "shape", "room"),
    [
        ("ctc", "one strip", 1),
        ("ctc", "strips", 2**17),
        ("ctc", "tiles", 1),
        ("segments", "tiles", 2**17),
        ("optional", "strips", 1),
    ],
)
def test_from_checkpoints(
    topology: str, shape: str, room: int, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Little memory for rows and back-pointers: blocks are walked again, one or a few at a time."""
    limits = {"ROWS_BYTES": room, "POINTERS_BYTES": room // 16, "TILE_FRAMES": 8, "LEAST_BLOCK": 4}
    small(modules, monkeypatch, shape, **limits)
    given = mixed(44, topology, frames=17, count=8)
    assert same_paths(given) > 1
    bands = random_bands(np.random.default_rng(2), given)
    same_paths(given, bands=bands)
    same_sums(given)


@pytest.mark.parametrize("room", [1, 2**40])
def test_detours_between_tiles(room: int, modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optional tokens over several tiles: a tile reads rows of the others, of which some blocks fit or all."""
    small(modules, monkeypatch, "tiles of a strip", ROWS_BYTES=room, TILE_FRAMES=4)
    given = optional_over_tiles()
    assert modules["launch_plan"].shape(given.topology.emit.shape[1], 2).tiles == 3
    arguments = on(given, torch.float32)
    met, right = (kernels.occupancy(**arguments, backend=name) for name in ("gpu", "reference"))
    torch.testing.assert_close(met.posteriors.cpu(), right.posteriors, rtol=0, atol=1e-5)
    torch.testing.assert_close(met.scores.cpu(), right.scores)
    if room > 1:
        assert same_paths(given) == 2


@pytest.mark.skipif(DEVICE == "cuda", reason="loads and stores are watched in the interpreter")
@pytest.mark.parametrize(
    ("topology", "shape", "room"),
    [("ctc", "tiles", 1), ("optional", "tiles of a strip", 4096), ("segments", "strips", 1), ("ctc", "tiles", 2**40)],
)
def test_no_thread_meets_what_another_writes(
    topology: str, shape: str, room: int, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"ROWS_BYTES": room, "POINTERS_BYTES": room, "TILE_FRAMES": 8, "LEAST_BLOCK": 4, "PATH_FRAMES": 4}
    small(modules, monkeypatch, shape, **limits)
    given = optional_over_tiles() if topology == "optional" else mixed(48, topology, frames=19, count=3)
    with gpu_interpreted.watched():
        kernels.best_path(**on(given, torch.float32), backend="gpu")
        kernels.occupancy(**on(given, torch.float32), backend="gpu")


def test_a_batch_is_its_utterances(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits alone, in few threads, as in company, in many; and twice the same."""
    given = mixed(45, "ctc", count=12)
    together = kernels.occupancy(**on(given, torch.float32), backend="gpu")
    again = kernels.occupancy(**on(given, torch.float32), backend="gpu")
    assert torch.equal(together.posteriors, again.posteriors)
    assert together.scores.tolist() == again.scores.tolist()
    small(modules, monkeypatch, "strips" if DEVICE == "cpu" else "one strip")
    apart = kernels.occupancy(**on(given, torch.float32), backend="gpu")
    assert torch.equal(together.posteriors, apart.posteriors)
    assert together.scores.tolist() == apart.scores.tolist()
    for b in (0, 5, 7):
        length, size = int(given.lengths[b]), int(given.topology.states[b])
        rows = {name: getattr(given.topology, name)[b : b + 1, :size] for name in ("emit", "skip", "token", "stay")}
        columns = ("states", "starts", "finals", "min_frames")
        topology = type(given.topology)(**rows, **{name: getattr(given.topology, name)[b : b + 1] for name in columns})
        alone = kernels.occupancy(given.log_probs[b : b + 1, :length].to(DEVICE), topology, backend="gpu")
        assert torch.equal(together.posteriors[b, :length], alone.posteriors[0])
        assert together.scores[b].tolist() == alone.scores[0].tolist()


@pytest.mark.parametrize(("shape", "topology"), [("one strip", "optional"), ("strips", "ctc"), ("tiles", "ctc")])
def test_fresh_memory_is_never_believed(
    shape: str, topology: str, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies in memory before: NaN in the padding, and in all that the kernels write themselves."""
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=8)

    def poisoned(size: tuple[int, ...], dtype: torch.dtype, device: torch.device, what: str) -> torch.Tensor:
        value = torch.nan if dtype.is_floating_point else 0x7FF8123456789ABC % torch.iinfo(dtype).max
        return torch.full(size, value, dtype=dtype, device=device)

    def poisoned_like(other: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(other.shape, torch.nan, dtype=dtype, device=other.device)

    given = mixed(46, topology, count=12)
    monkeypatch.setattr(modules["launches"], "allocate", poisoned)
    monkeypatch.setattr(modules["launches"].torch, "empty_like", poisoned_like)
    same_paths(given)
    same_sums(given)
