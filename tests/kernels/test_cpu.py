"""Best paths by the compiled backend: every state and every bit of the scores as the reference has
them, in parts, in blocks, on any number of threads. `test_same_bits` has company and memory,
`test_topologies` all topologies.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from cpu_checks import (
    best_path,
    large_ones,
    occupancy,
    on_threads,
    one,
    path_faults,
    poison,
    same_sums,
    split,
)
from kernel_problems import KINDS, WALKED, Batch, random_bands, scores
from kernel_problems import batch as random_batch
from rows import first_row_of

from ctc_align import kernels, lattice
from ctc_align.errors import KernelError
from ctc_align.kernels import memory_limits
from ctc_align.kernels.cpu import compilation, cpu_backend, long_viterbi, problem, viterbi
from ctc_align.kernels.cpu.simd import PAIR, WIDTH

NEVER = float("-inf")


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch)


Case = tuple[str, Batch, np.ndarray | None, tuple[list[list[int]], list[str]]]


@functools.cache
def cases() -> tuple[Case, ...]:
    """Several strips, hundreds of frames, all topologies and kinds, in bands and not, with what is
    right."""
    rng, made = np.random.default_rng(31), []
    shapes = (
        (40, 660, 6),
        (300, 30, 40),
        (500, 110, 200),
        (280, 160, 129),
        (260, 840, 12),
        (240, 4, 30),
    )
    for number, (name, given) in enumerate(
        large_ones(31, shapes, ("tied", "continuous", "rounded", "holes"))
    ):
        bands = random_bands(rng, given) + np.array([-40, 40]) if number % 3 == 1 else None
        made.append((name, given, bands, best_path(given, bands, "reference")))
    return tuple(made)


def first_faults() -> list[str]:
    """The faults of the first case that is not right."""
    for name, given, bands, right in cases():
        if found := path_faults(given, bands, right):
            return [f"{name}: {line}" for line in found]
    return []


def test_the_cases_are_what_they_should_be() -> None:
    assert sum(score != "-inf" for *_, (_, found) in cases() for score in found) >= 12
    assert max(given.topology.emit.shape[1] for _, given, _, _ in cases()) > 2 * 16 * 16 + 400


def test_at_one_go() -> None:
    with on_threads(1):
        assert first_faults() == []


@pytest.mark.parametrize(
    ("threads", "part_cells", "ring"), [(2, 1, 2), (3, 20_000, 4), (5, 2**20, 2), (5, 1, 3)]
)
def test_shared_by_threads(
    threads: int, part_cells: int, ring: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    split(monkeypatch, part_cells=part_cells, ring=ring)
    with on_threads(threads):
        assert first_faults() == []


@pytest.mark.parametrize("threads", first_row_of([1, 3]))
@pytest.mark.parametrize("block", [16, 32, 48, 80, 256, 1104])
def test_in_blocks(block: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    split(monkeypatch, block=block, part_cells=(1, 30_000)[block % 3 == 0])
    with on_threads(threads):
        assert first_faults() == []


@pytest.mark.parametrize("topology", first_row_of(WALKED))
def test_thousands_of_states(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths that just fit, and some that need not hurry."""
    rng = np.random.default_rng(32)
    for tokens, spare, kind in (
        (1500, 150, "rounded"),
        (1500, 3, "tied"),
        (700, 2300, "continuous"),
    ):
        given = one(rng, tokens, spare, 40, kind, topology)
        right = best_path(given, None, "reference")
        assert right[1] != ["-inf"]
        assert path_faults(given, None, right) == []
        for threads, block in ((2, 0), (5, 0), (3, 160)):
            with on_threads(threads), monkeypatch.context() as patch:
                split(patch, block=block, part_cells=50_000)
                assert path_faults(given, None, right) == []


def spoken_batch(
    rng: np.random.Generator, topology: str, kind: str, sure: float, *, wild: bool
) -> Batch:
    """Utterances whose scores fit a path of their topology, by `sure` nats in each frame, but for a
    stretch."""
    given = random_batch(rng, 4, 330, 120, 9, kind, topology=topology, wild=wild)
    path = kernels.best_path(
        torch.randn(given.log_probs.shape),
        given.topology,
        given.lengths,
        wildcard=given.wildcard,
        backend="reference",
    )
    x = given.log_probs.clone()
    for b, count in enumerate(given.lengths.tolist()):
        classes = torch.from_numpy(given.topology.emit[b]).long()[
            path.states[b, :count].clamp(min=0).long()
        ]
        from_frame, to_frame = sorted(rng.integers(0, count + 1, 2).tolist())
        better = torch.full((count,), sure)
        better[from_frame : min(to_frame, from_frame + 40)] = 0
        x[b, torch.arange(count), classes.clamp(min=0)] += better
    return Batch(x, given.lengths, given.topology, given.wildcard)


@pytest.mark.parametrize("topology", first_row_of(WALKED))
def test_what_cannot_matter_is_left_out(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a bit is another, however much is left out at first: all that is needed, too much, or
    nothing."""
    rng = np.random.default_rng(40)
    for number, (kind, sure) in enumerate(
        itertools.product(("tied", "continuous", "holes", "unnormalised"), (2.0, 9.0))
    ):
        given = spoken_batch(rng, topology, kind, sure, wild=number % 2 == 1)
        bands = random_bands(rng, given) + np.array([-60, 60]) if number % 4 > 1 else None
        right = best_path(given, bands, "reference")
        for pruning in (
            (1, 2.0, 20.0, 200.0),
            (1, 1.0, 0.01, 1.0),
            (1, 0.0, 0.0, 1.0),
            (1, 50.0, 20.0, 200.0),
        ):
            monkeypatch.setattr(viterbi, "PRUNING", pruning)
            assert path_faults(given, bands, right) == [], (kind, sure, pruning)
            with monkeypatch.context() as patch:
                patch.setattr(cpu_backend, "LONG_CELLS", 1)
                patch.setattr(long_viterbi, "WHOLE_CHOICES_BYTES", 0)
                for narrow in (1, 4, 64):
                    patch.setattr(cpu_backend, "NARROW", narrow)
                    assert path_faults(given, bands, right) == [], (kind, sure, pruning, narrow)


def test_bands_that_stay_where_a_strip_begins() -> None:
    """The vector below has values of an earlier frame, which nobody may take over."""
    rng = np.random.default_rng(41)
    given = one(rng, 330, 80, 30, "continuous")
    bands = np.tile(np.array([0, 661]), (1, given.log_probs.shape[1], 1))
    for frame in (256, 272, 288):
        bands[0, frame:, 0] = 512
        assert path_faults(given, bands) == []


@pytest.mark.parametrize("topology", WALKED)
def test_sums_that_tie_without_being_exact(topology: str) -> None:
    """Tenths: whether two sums of them are equal depends on the order in which they were added."""
    rng = np.random.default_rng(33)
    for number in range(12):
        given = random_batch(
            rng, 6, 60, 25, 7, "continuous", topology=topology, wild=number % 2 == 1
        )
        x = torch.round(given.log_probs, decimals=1)
        wildcard = None if given.wildcard is None else torch.round(given.wildcard, decimals=1)
        tenths = Batch(x, given.lengths, given.topology, wildcard)
        for dtype in (torch.float32, torch.float64):
            assert path_faults(tenths, dtype=dtype) == []
        assert path_faults(tenths, random_bands(rng, tenths)) == []


@pytest.mark.parametrize("topology", WALKED)
def test_batches_shared_by_threads(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long and short ones at once: some are shared by the threads, some are dealt to them."""
    rng = np.random.default_rng(34)
    monkeypatch.setattr(problem, "SMALL_CELLS", 1)
    for number, kind in zip(range(8), KINDS * 2):
        given = random_batch(rng, 9, 250, 60, 7, kind, topology=topology, wild=number % 2 == 1)
        bands = random_bands(rng, given) + np.array([-9, 9]) if number % 4 > 1 else None
        right = best_path(given, bands, "reference")
        for threads, least in ((1, 1), (2, 10_000), (4, 6_000), (4, 2**22)):
            with on_threads(threads), monkeypatch.context() as patch:
                split(patch, block=32 * (number % 2))
                patch.setattr(cpu_backend, "LONG_CELLS", least)
                assert path_faults(given, bands, right) == []


def test_expanded_and_read_only_arrays() -> None:
    rng = np.random.default_rng(36)
    row = torch.as_tensor(scores(rng, 40, 7, "tied"), dtype=torch.float32)[None]
    topology = lattice.ctc([[1, 2, 2, 5], [3], [4] * 9], blank=0)
    given = Batch(row.expand(3, -1, -1), torch.tensor([40, 0, 7, 0, 21, 0])[::2], topology)
    flat = Batch(torch.zeros(1, 1, 1).expand(3, 40, 7), given.lengths, topology)
    bands = np.broadcast_to(np.array([0, 30]), (3, 40, 2))
    plans = [(given, None), (given, bands), (flat, None), (flat, bands)]
    right = [best_path(each, limits, "reference") for each, limits in plans]
    frozen = np.array(bands)
    for array in (frozen, topology.emit, topology.skip, topology.states):
        array.setflags(write=False)
    for (each, limits), expected in zip(plans, right):
        assert path_faults(each, limits if limits is None else frozen, expected) == []
        dense = dataclasses.replace(each, log_probs=each.log_probs.contiguous())
        assert same_sums(occupancy(each), occupancy(dense))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices whole while they are few; else rows and choices of a block near their least sum."""
    plan = long_viterbi.plan(1500, 501)
    assert (plan.block, plan.blocks) == (0, 0)
    assert plan.bytes < 2**20
    for frames, states, most in (
        (540_000, 274_001, 256),
        (70_000, 70_001, 80),
        (2_000_000, 9_001, 120),
        (10**7, 21, 60),
    ):
        plan = long_viterbi.plan(frames, states)
        saved, choices = (
            16 * plan.row * plan.blocks,
            2 * PAIR.itemsize * (plan.block + 1) * plan.window,
        )
        assert saved + choices <= plan.bytes < most * 2**20, (frames, states)
        assert plan.block % WIDTH == 0
        assert (plan.blocks - 1) * plan.block < frames <= plan.blocks * plan.block
        assert plan.window * WIDTH >= min(plan.block + WIDTH, (states + 1) // 2)

    def room(block: int) -> float:
        return 16 * 274_001 / 2 * 540_000 / block + block**2 / 2

    best = min(range(16, 540_000, 16), key=room)
    assert room(long_viterbi.plan(540_000, 274_001).block) < 1.01 * room(best)
    monkeypatch.setattr(long_viterbi, "WHOLE_CHOICES_BYTES", 0)
    assert long_viterbi.plan(1, 1)[:2] == (WIDTH, 1)
    assert long_viterbi.plan(17, 3)[:2] == (16, 2)


def test_what_cannot_be_held_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = next(given for name, given, _, _ in cases() if name.startswith("ctc"))
    needed = long_viterbi.plan(int(given.lengths[0]), int(given.topology.states[0])).bytes
    monkeypatch.setattr(memory_limits, "UNCHECKED_BYTES", 1)
    monkeypatch.setattr(memory_limits, "available", lambda device=None: (needed - 1, "a test"))
    split(monkeypatch)
    with on_threads(2):
        with pytest.raises(
            KernelError,
            match=rf"of utterance 0: {needed} bytes .* are needed, {needed - 1} .*a test",
        ):
            best_path(given)
        monkeypatch.setattr(memory_limits, "available", lambda device=None: (needed, "a test"))
        best_path(given)


def within(seconds: float, work: object) -> list[BaseException]:
    """What `work` raised; it must come to an end."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "threads wait for each other"
    return raised


@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize("part", [0, 1, 9])
def test_an_error_in_one_thread_does_not_hang_the_others(
    group: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = one(np.random.default_rng(39), 600, 60, 40, "continuous")
    right = best_path(given, None, "reference")
    strips = -(-601 // (viterbi.STRIP * WIDTH))
    calls: dict[int, int] = {}
    walk = viterbi.walk_part

    def failing(*arguments: object) -> bool:
        first = arguments[3][2]  # type: ignore[index]  # the first vector of the part
        calls[first] = calls.get(first, 0) + 1
        if calls[first] == part + 1 and first == strips * group // 3 * viterbi.STRIP:
            raise MemoryError("planted")
        return bool(walk(*arguments))

    split(monkeypatch)
    others = threading.active_count()
    with on_threads(3):
        with monkeypatch.context() as patch:
            patch.setattr(viterbi, "walk_part", failing)
            raised = within(30, lambda: best_path(given))
        assert [str(error) for error in raised] == ["planted"]
        assert threading.active_count() < others + 3
        assert best_path(given) == right


def refused(wrapped: Callable[..., object], allowed: int) -> Callable[..., object]:
    """The function, but it can be called so often only."""
    calls = itertools.count(1)

    def call(*arguments: object) -> object:
        if next(calls) > allowed:
            raise RuntimeError("planted")
        return wrapped(*arguments)

    return call


@pytest.mark.parametrize("what", ["start", "room"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_cannot_be_had(
    threads: int, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one, or its memory, is not to be had: an error, and nobody waits for it."""
    given = one(np.random.default_rng(39), 600, 60, 40, "continuous")
    right = best_path(given, None, "reference")
    split(monkeypatch)
    with on_threads(threads):
        with monkeypatch.context() as patch:
            if what == "start":
                patch.setattr(problem, "_start", refused(problem._start, threads - 2))
            else:
                own_arrays = long_viterbi.LongPath._own_arrays
                patch.setattr(
                    long_viterbi.LongPath, "_own_arrays", refused(own_arrays, threads - 1)
                )
            raised = within(20, functools.partial(best_path, given))
        assert [str(error) for error in raised] == ["planted"]
        assert best_path(given) == right


def test_what_is_no_number_stops_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any group may be the one that meets it, in any part; the others neither wait nor go on for
    long."""
    rng = np.random.default_rng(38)
    given = one(rng, 290, 100, 40, "continuous")
    split(monkeypatch)
    for frame, bad in ((0, float("nan")), (130, float("inf")), (-1, float("nan"))):
        x = given.log_probs.clone()
        x[0, frame] = bad
        spoilt = Batch(x, given.lengths, given.topology)
        for threads in (1, 3):
            with on_threads(threads):
                assert within(30, functools.partial(best_path, spoilt)) == []
                states, found = best_path(spoilt)
                assert found == ["nan"]
                assert set(states[0]) == {-1}


def test_whether_the_kernels_are_compiled_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(compilation, "cache_places", lambda: [tmp_path])
        assert not cpu_backend.is_compiled()
    x = torch.zeros(1, 3, 2)
    kernels.best_path(x, lattice.ctc([[1]]))
    kernels.forward(x, lattice.ctc([[1]]))
    assert cpu_backend.is_compiled()
