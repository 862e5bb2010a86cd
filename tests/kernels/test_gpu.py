"""The GPU's backend against enumeration and the reference, on every layout and dtype, and what it
refuses.

It runs on the card if there is one, else interpreted. `test_extremes` has the ends of what floats
hold.

Interpreted, time goes by the frame and hardly by the utterance: so thousands of tiny problems go
into one batch, and strips, tiles and blocks are made so small that tiny problems need many of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import types
from collections.abc import Callable, Iterator

import gpu_interpreted
import numpy as np
import pytest
import torch
from gpu_problems import NEVER, Modules, needs_gpu, optional_over_tiles
from gpu_problems import loaded as loaded
from gpu_problems import modules as modules
from kernel_problems import (
    DEVICE,
    Batch,
    Problem,
    alone,
    faults,
    on,
    random_bands,
    same_paths,
    same_sums,
    tiny_any,
    tiny_ctc,
    tiny_segments,
    tiny_simple,
)
from kernel_problems import batch as random_batch

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError

pytestmark = [needs_gpu, pytest.mark.usefixtures("modules")]


@pytest.fixture(scope="module", autouse=True)
def _orders(loaded: Modules) -> Iterator[None]:
    """Once for all tests: of launches that are the same in several of them, two are tried in every
    order."""
    with gpu_interpreted.in_every_order():
        yield


SHAPES = {
    "one strip": {},
    "strips": {"LANES": 8, "MAX_STRIPS": 8, "MIN_HALO": 4},
    "tiles": {"LANES": 8, "MAX_STRIPS": 2, "MIN_HALO": 4, "TILED_HALO": 4},
    "tiles of a strip": {"LANES": 8, "MAX_STRIPS": 1, "MIN_HALO": 4, "TILED_HALO": 4},
}
"""How states are dealt to threads; on a card a strip is a warp."""
SEVERAL = {"SINGLE_WARPS": 0}
"""As if no problem were small: sums take several launches."""
STEPS = {"STATES": 8, "CLASSES": 2, "CLASS_THREADS": 2, "STEP": 8}
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
        "any": [
            *tiny_ctc(rng, 60, wild=True),
            *tiny_segments(rng, 80),
            *tiny_segments(rng, 40, wild=True),
        ],
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
    problems = tiny_problems[name]
    assert faults(problems, "gpu", dtype, together=len(problems)) == []


def mixed(
    seed: int, topology: str, *, frames: int = 14, wild: bool = False, count: int = 40
) -> Batch:
    """Utterances of every kind of score, side by side."""
    rng = np.random.default_rng(seed)
    tokens = 4 if topology.startswith("optional") else 8
    given = random_batch(rng, count, frames, tokens, 6, "continuous", topology=topology, wild=wild)
    others = {
        kind: random_batch(rng, count, frames, 0, 6, kind).log_probs
        for kind in ("tied", "holes", "unnormalised")
    }
    x = given.log_probs.clone()
    for number, other in enumerate(others.values()):
        x[number::4] = torch.where(
            x[number::4].isnan() | other[number::4].isnan(), x[number::4], other[number::4]
        )
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
def test_every_topology(
    topology: str, shape: str, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In tiles two of them: the others are below, from checkpoints and with detours between
    tiles."""
    several = SEVERAL if topology == "simple" else {}
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=8, **several)
    given = mixed(41, topology, wild=True)
    assert same_paths(given, "gpu") > 8
    same_sums(given, "gpu")


@pytest.mark.parametrize("shape", ["one strip", "strips", "tiles"])
def test_float64_and_bands(shape: str, modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=4)
    given = mixed(42, "ctc")
    same_sums(given, "gpu", torch.float64)
    for topology in ("ctc", "segments"):
        given = mixed(43, topology, wild=True)
        assert (
            same_paths(given, "gpu", torch.float64, random_bands(np.random.default_rng(1), given))
            > 3
        )


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
    limits = {"ROWS_BYTES": room, "POINTERS_BYTES": room // 16, "TILE_FRAMES": 8, "MIN_BLOCK": 4}
    small(modules, monkeypatch, shape, **limits)
    given = mixed(44, topology, frames=17, count=8)
    assert same_paths(given, "gpu") > 1
    bands = random_bands(np.random.default_rng(2), given)
    same_paths(given, "gpu", bands=bands)
    same_sums(given, "gpu")


@pytest.mark.parametrize("room", [1, 2**40])
def test_detours_between_tiles(
    room: int, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optional tokens over several tiles: a tile reads rows of the others, of which some blocks fit
    or all."""
    small(modules, monkeypatch, "tiles of a strip", ROWS_BYTES=room, TILE_FRAMES=4)
    given = optional_over_tiles()
    assert modules["launch_plan"].shape(given.topology.emit.shape[1], 2).tiles == 3
    met, right = (
        kernels.occupancy(**on(given, name, torch.float32)) for name in ("gpu", "reference")
    )
    torch.testing.assert_close(met.posteriors.cpu(), right.posteriors, rtol=0, atol=1e-5)
    torch.testing.assert_close(met.scores.cpu(), right.scores)
    if room > 1:
        assert same_paths(given, "gpu") == 2


@pytest.mark.skipif(DEVICE == "cuda", reason="loads and stores are watched in the interpreter")
@pytest.mark.parametrize(
    ("topology", "shape", "room"),
    [
        ("ctc", "tiles", 1),
        ("optional", "tiles of a strip", 4096),
        ("segments", "strips", 1),
        ("ctc", "tiles", 2**40),
    ],
)
def test_no_thread_meets_what_another_writes(
    topology: str, shape: str, room: int, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {
        "ROWS_BYTES": room,
        "POINTERS_BYTES": room,
        "TILE_FRAMES": 8,
        "MIN_BLOCK": 4,
        "PATH_FRAMES": 4,
    }
    small(modules, monkeypatch, shape, **limits)
    given = (
        optional_over_tiles() if topology == "optional" else mixed(48, topology, frames=19, count=3)
    )
    with gpu_interpreted.watched():
        kernels.best_path(**on(given, "gpu", torch.float32))
        kernels.occupancy(**on(given, "gpu", torch.float32))


def test_a_batch_is_its_utterances(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits alone, in few threads, as in company, in many; and twice the same."""
    given = mixed(45, "ctc", count=12)
    together = kernels.occupancy(**on(given, "gpu", torch.float32))
    again = kernels.occupancy(**on(given, "gpu", torch.float32))
    assert torch.equal(together.posteriors, again.posteriors)
    assert together.scores.tolist() == again.scores.tolist()
    small(modules, monkeypatch, "strips" if DEVICE == "cpu" else "one strip")
    apart = kernels.occupancy(**on(given, "gpu", torch.float32))
    assert torch.equal(together.posteriors, apart.posteriors)
    assert together.scores.tolist() == apart.scores.tolist()
    for b in (0, 5, 7):
        own = kernels.occupancy(**on(alone(given, b), "gpu", torch.float32))
        assert torch.equal(together.posteriors[b, : given.lengths[b]], own.posteriors[0])
        assert together.scores[b].tolist() == own.scores[0].tolist()


@pytest.mark.parametrize(
    ("topology", "shape", "dtype"),
    [
        ("ctc", "one strip", torch.float32),
        ("segments", "strips", torch.float32),
        ("simple", "one strip", torch.float64),
        ("ctc", "strips", torch.bfloat16),
    ],
)
def test_one_launch_is_several(
    topology: str,
    shape: str,
    dtype: torch.dtype,
    modules: Modules,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bits, however many programs share an utterance's frames, and no races."""
    given = mixed(49, topology, frames=13, wild=True, count=6)
    small(modules, monkeypatch, shape, SHARE_FRAMES=4)
    watched = gpu_interpreted.watched if DEVICE == "cpu" else contextlib.nullcontext
    with watched():
        one = kernels.occupancy(**on(given, "gpu", dtype))
    small(modules, monkeypatch, shape, **SEVERAL)
    several = kernels.occupancy(**on(given, "gpu", dtype))
    assert one.wildcard is not None
    assert several.wildcard is not None
    for met, right in (
        (one.posteriors, several.posteriors),
        (one.wildcard, several.wildcard),
        (one.scores, several.scores),
    ):
        torch.testing.assert_close(met, right, rtol=0, atol=0, equal_nan=True)
    assert int(one.scores.isfinite().sum()) > 2


def test_what_fits_one_launch(modules: Modules) -> None:
    """Both directions of up to 384 states, few classes, no detours, and rows that are saved
    whole."""
    launches = modules["launches"]

    def is_single(
        states: int, classes: int = 32, frames: int = 100, both: bool = True, detours: int = 0
    ) -> bool:
        layout = modules["launch_plan"].shape(states, 1)
        shape = launches.SumShape(
            layout, 1, frames, states, classes, frames, detours, False, both, launches.sizes()
        )
        return bool(launches.sum_plan(shape).single)

    assert is_single(61)
    assert is_single(383)
    assert not is_single(501)
    assert is_single(501, both=False)
    assert not is_single(2001, both=False)
    assert is_single(61, classes=256)
    assert not is_single(61, classes=257)
    assert not is_single(61, detours=1)
    assert not is_single(61, frames=2**24)


@pytest.mark.parametrize(
    ("shape", "topology"), [("one strip", "optional"), ("strips", "ctc"), ("tiles", "ctc")]
)
def test_fresh_memory_is_never_believed(
    shape: str, topology: str, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lies in memory before: NaN in the padding, and in all that the kernels write
    themselves."""
    small(modules, monkeypatch, shape, TILE_FRAMES=8, PATH_FRAMES=8)

    def poisoned(
        size: tuple[int, ...], dtype: torch.dtype, device: torch.device, what: str
    ) -> torch.Tensor:
        value = (
            torch.nan if dtype.is_floating_point else 0x7FF812347FF81234 % torch.iinfo(dtype).max
        )
        return torch.full(size, value, dtype=dtype, device=device)

    def poisoned_like(other: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return torch.full(other.shape, torch.nan, dtype=dtype, device=other.device)

    given = mixed(46, topology, count=12)
    monkeypatch.setattr(modules["launches"], "allocate", poisoned)
    monkeypatch.setattr(modules["launches"].torch, "empty_like", poisoned_like)
    same_paths(given, "gpu")
    same_sums(given, "gpu")


TARGET = [1, 2, 2, 3, 1]


def noise(utterances: int, frames: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        utterances, frames, 4, generator=torch.Generator().manual_seed(seed)
    ).log_softmax(-1)


@pytest.mark.parametrize("shape", ["one strip", "tiles of a strip"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_log_probs(
    dtype: torch.dtype, shape: str, modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN and +inf, in one cell each, in a frame, behind a wall of -inf: NaN where paths meet them,
    and only there."""
    small(modules, monkeypatch, shape, TILE_FRAMES=4)
    cells: list[tuple] = list(itertools.product((0, 1, 2, 5, 9, 10, 11), range(4)))
    x = noise(1, 12).to(dtype).repeat(2 * len(cells) + 4, 1, 1)
    for row, (cell, bad) in zip(x, itertools.product(cells, [torch.nan, torch.inf])):
        row[cell] = bad
    x[-4, 5], x[-3, 5], x[-2, 5], x[-2, 8] = -torch.nan, torch.inf, NEVER, torch.nan
    topology = lattice.ctc([[1, 2, 2, 3, 1, 2, 3, 1]] * len(x))
    path, best = (
        kernels.best_path(one, topology, backend=name)
        for one, name in ((x.to(DEVICE), "gpu"), (x, "reference"))
    )
    assert path.states.tolist() == best.states.tolist()
    torch.testing.assert_close(path.scores.cpu(), best.scores, rtol=0, atol=0, equal_nan=True)
    met = kernels.occupancy(x.to(DEVICE), topology, backend="gpu")
    right = kernels.occupancy(x.double(), topology, backend="reference")
    torch.testing.assert_close(met.scores.cpu(), right.scores, rtol=1e-6, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(
        met.posteriors.double().cpu(), right.posteriors, rtol=0, atol=1e-5, equal_nan=True
    )
    forward = kernels.forward(x.to(DEVICE), topology, backend="gpu")
    torch.testing.assert_close(forward, met.scores, rtol=0, atol=0, equal_nan=True)
    assert 20 < int(right.scores.isnan().sum()) < len(x) - 8


def given_batch() -> Batch:
    return random_batch(np.random.default_rng(7), 6, 12, 5, 7, "continuous", wild=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    """Read as it lies, summed in float32."""
    assert same_paths(given_batch(), "gpu", dtype) > 2
    same_sums(given_batch(), "gpu", dtype)
    assert (
        kernels.occupancy(
            noise(1, 5).to(DEVICE, dtype), lattice.ctc([[1]]), backend="gpu"
        ).posteriors.dtype
        == torch.float32
    )


def strided(x: torch.Tensor) -> torch.Tensor:
    wide = torch.full(
        (2 * x.shape[0], 3 * x.shape[1], 2 * x.shape[2]), torch.nan, dtype=x.dtype, device=x.device
    )
    wide[::2, ::3, ::2] = x
    return wide[::2, ::3, ::2]


@pytest.mark.parametrize("layout", ["time first", "classes first", "strided", "expanded"])
def test_layouts(layout: str) -> None:
    given = given_batch()
    x = given.log_probs.to(DEVICE)
    assert given.wildcard is not None
    views = {
        "time first": lambda: x.transpose(0, 1).contiguous().transpose(0, 1),
        "classes first": lambda: x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "strided": lambda: strided(x),
        "expanded": lambda: x[:1].expand(6, -1, -1),
    }
    if layout == "expanded":
        x = x[:1].repeat(6, 1, 1)
    view = views[layout]()
    wildcard = (
        given.wildcard[:1].repeat(6, 1).to(DEVICE)
        if layout == "expanded"
        else given.wildcard.to(DEVICE)
    )
    lengths = given.lengths[:1].repeat(6) if layout == "expanded" else given.lengths
    more = {"wildcard": wildcard.T.contiguous().T, "backend": "gpu"}
    one, other = (kernels.occupancy(each, given.topology, lengths, **more) for each in (x, view))
    assert torch.equal(one.posteriors, other.posteriors)
    assert one.wildcard is not None
    assert torch.equal(one.wildcard, other.wildcard)
    if layout in ("time first", "classes first"):
        assert other.posteriors.stride() == view.stride()
    one, other = (kernels.best_path(each, given.topology, lengths, **more) for each in (x, view))
    assert torch.equal(one.states, other.states)
    assert one.states.device == x.device


def test_launches_do_not_grow_with_time(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    launch = modules["launches"].launch
    monkeypatch.setattr(
        modules["launches"],
        "launch",
        lambda kernel, *rest, **more: (calls.append(kernel), launch(kernel, *rest, **more)),
    )

    def count(kernel: Callable[..., object]) -> list[int]:
        numbers = []
        for frames in (9, 70):
            calls.clear()
            kernel(noise(3, frames).to(DEVICE), lattice.ctc([TARGET, [1], []]), backend="gpu")
            numbers.append(len(calls))
        return numbers

    assert count(kernels.best_path) == [3, 3]
    assert count(kernels.forward) == [1, 1]
    assert count(kernels.occupancy) == [1, 1]
    small(modules, monkeypatch, "one strip", **SEVERAL)
    assert count(kernels.forward) == [4, 4]
    assert count(kernels.occupancy) == [7, 7]


def test_all_states_find_a_thread(modules: Modules) -> None:
    plan = modules["launch_plan"]
    for states in [*range(1, 2000), 12_345, 274_001]:
        shape = plan.shape(states, 1)
        assert shape.units >= (states + 1) // 2
        assert shape.units - shape.tile_units < (states + 1) // 2
        assert shape.lanes == 32
        assert shape.warps <= 16
        if shape.halo:
            assert plan.MIN_HALO <= shape.halo <= shape.lanes - shape.halo
            assert modules["launches"].MIN_BLOCK % shape.halo == 0
            assert shape.tiles == 1 or modules["launches"].TILE_FRAMES % shape.halo == 0
        else:
            assert shape.strips * shape.tiles == 1
    assert plan.shape(61, 1).strips == 1
    assert plan.shape(501, 1).tiles == 1
    assert plan.shape(5001, 1).tiles > 1


def test_every_tile_comes_after_what_it_needs(modules: Modules) -> None:
    for tiles, blocks in itertools.product(range(1, 6), range(1, 6)):
        done: set[tuple[int, int]] = set()
        for diagonal, first, many in modules["launches"].diagonals(tiles, blocks):
            together = [(tile, diagonal - tile) for tile in range(first, first + many)]
            for tile, block in together:
                assert tile == 0 or (tile - 1, block) in done
                assert block == 0 or (tile, block - 1) in done
            done.update(together)
        assert done == set(itertools.product(range(tiles), range(blocks)))


def test_back_pointers_are_as_wide_as_detours_are_many(modules: Modules) -> None:
    bits = modules["launches"].pointer_bits
    assert bits(0) == (2, torch.int8)
    assert bits(1) == bits(253) == (8, torch.int32)
    assert bits(254) == (16, torch.int64)
    with pytest.raises(KernelError, match="a state has 70000 detours, at most 65533"):
        bits(70_000)


def test_many_detours() -> None:
    """More than a byte can tell: of 260 optional tokens one is said."""
    topology = lattice.ctc([[1] + [2] * 260 + [3]], optional=[[False] + [True] * 260 + [False]])
    x = noise(1, 4)
    path, best = (
        kernels.best_path(one, topology, backend=name)
        for one, name in ((x.to(DEVICE), "gpu"), (x, "reference"))
    )
    assert path.states.tolist() == best.states.tolist()


def test_memory_that_is_not_there(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.cuda.OutOfMemoryError("no more")

    monkeypatch.setattr(modules["launch_plan"].torch, "empty", full)
    with pytest.raises(
        KernelError,
        match=r"rows \(2, 3\): 48 bytes \(0.0 GiB\) are not available on cpu; take fewer",
    ):
        modules["launch_plan"].allocate((2, 3), torch.float64, torch.device("cpu"), "rows")


def test_why_it_cannot_run(modules: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    module = modules["triton_import"]
    monkeypatch.setattr(module, "INTERPRETED", False)
    monkeypatch.setattr(module.torch.cuda, "is_available", lambda: False)
    assert module.unavailable() == "PyTorch sees no CUDA device"
    monkeypatch.setattr(module, "triton", types.SimpleNamespace(__version__="3.0.0"))
    assert module.unavailable() == "Triton 3.4 or newer is needed, 3.0.0 is installed"
    monkeypatch.setattr(module, "triton", None)
    assert module.unavailable() == "Triton is not installed (it comes with PyTorch for CUDA)"
