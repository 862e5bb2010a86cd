"""Faults planted in the source of the GPU's kernels, each of which the tests' comparisons with
enumeration and with the reference must see."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable

import gpu_interpreted
import numpy as np
import pytest
import torch
from gpu_problems import optional_over_tiles
from kernel_problems import (
    Batch,
    Problem,
    enumerated_path_faults,
    enumerated_sum_faults,
    on,
    same_paths,
    same_sums,
    scores,
    target,
    tiny_any,
    tiny_ctc,
    tiny_segments,
)

from ctc_align import kernels, lattice

REASON = gpu_interpreted.missing()
pytestmark = [
    pytest.mark.planted,
    pytest.mark.skipif(
        REASON is not None, reason=f"the GPU's kernels cannot be interpreted here: {REASON}"
    ),
]

STRIPS = {"LANES": 8, "MAX_STRIPS": 8, "MIN_HALO": 4}
TILES = {"LANES": 8, "MAX_STRIPS": 2, "MIN_HALO": 4, "TILED_HALO": 4}
LONG_BLOCKS = {**TILES, "TILE_FRAMES": 32}
BLOCKS = {"PATH_FRAMES": 4, "TILE_FRAMES": 8, "MIN_BLOCK": 4}
AGAIN = {**BLOCKS, "ROWS_BYTES": 1, "POINTERS_BYTES": 1}
AGAIN_IN_TILES = {**TILES, **AGAIN}
SHARES = {**STRIPS, "SHARE_FRAMES": 4}


Plant = Callable[..., None]


@pytest.fixture
def planted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Return a function that installs the backend with a fault in a module, and with these
    sizes."""

    def plant(name: str = "", old: str = "", new: str = "", **sizes: int) -> None:
        modules = gpu_interpreted.copies(
            tmp_path_factory.mktemp("kernels"), {name: (old, new)} if old else None
        )
        monkeypatch.setitem(
            sys.modules, "ctc_align.kernels.gpu.gpu_backend", modules["gpu_backend"]
        )
        for size, value in sizes.items():
            monkeypatch.setattr(
                modules["launch_plan" if size in TILES else "launches"], size, value
            )

    return plant


@functools.cache
def tiny() -> list[Problem]:
    rng = np.random.default_rng(51)
    return [*tiny_ctc(rng, 150), *tiny_segments(rng, 80, wild=True)]


@functools.cache
def detours() -> list[Problem]:
    rng = np.random.default_rng(52)
    return [*tiny_any(rng, 60), *tiny_ctc(rng, 60, optional=True, wild=True)]


@functools.cache
def longer(kind: str) -> Batch:
    """Utterances with frames to spare, some with enough tokens to reach into the third strip."""
    rng = np.random.default_rng(53)
    topology = lattice.ctc([target(rng, tokens, 6, 0) for tokens in (11, 10, 9, 3)])
    lengths = torch.tensor([21, 20, 17, 13])
    assert (lengths.numpy() > topology.min_frames + 2).all()
    x = torch.full((4, 21, 6), torch.nan)
    for row, length in zip(x, lengths.tolist()):
        row[:length] = torch.as_tensor(scores(rng, length, 6, kind))
    return Batch(x, lengths, topology)


def paths() -> bool:
    return not enumerated_path_faults(tiny(), "gpu", torch.float32)


def sums() -> bool:
    return not enumerated_sum_faults(tiny(), "gpu", torch.float32)


def sums_of_longer() -> bool:
    return agrees(same_sums, "continuous")


def paths_of_longer() -> bool:
    return agrees(same_paths, "tied")


def sums_in_logarithms() -> bool:
    return not enumerated_sum_faults(tiny()[::2], "gpu", torch.float64)


def paths_with_detours() -> bool:
    return not enumerated_path_faults(detours(), "gpu", torch.float32)


def sums_with_detours() -> bool:
    return not enumerated_sum_faults(detours(), "gpu", torch.float32)


def far_apart() -> bool:
    """What scaled numbers cannot hold."""
    x = torch.full((1, 12, 4), -5e7)
    x[:, ::2, 3], x[:, 1::2, 1] = 0.0, 0.0
    return agrees(same_sums, Batch(x, torch.tensor([12]), lattice.ctc([[1, 3, 2, 1]])))


def met_or_not() -> bool:
    """NaN, and +inf, in one cell each, where paths meet them and where they do not."""
    x = (
        torch.as_tensor(scores(np.random.default_rng(54), 6, 4, "continuous"))
        .float()
        .repeat(13, 1, 1)
    )
    cells = itertools.product(
        ((0, 1), (1, 3), (2, 2), (3, 0), (5, 1), (5, 3)), (torch.nan, torch.inf)
    )
    for row, (cell, bad) in zip(x, cells):
        row[cell] = bad
    topology = lattice.ctc([[1, 2, 3]] * len(x))
    totals, right = (kernels.forward(x, topology, backend=name) for name in ("gpu", "reference"))
    best, expected = (
        kernels.best_path(x, topology, backend=name).scores for name in ("gpu", "reference")
    )
    return all(
        torch.allclose(one, other, rtol=1e-5, equal_nan=True)
        for one, other in ((totals, right), (best, expected))
    )


def agrees(comparison: Callable[[Batch, str], object], given: str | Batch) -> bool:
    """Whether backend and reference say the same."""
    made = longer(given) if isinstance(given, str) else given
    try:
        comparison(made, "gpu")
    except AssertionError:
        return False
    return True


def test_no_fault_without_a_fault(planted: Plant) -> None:
    planted()
    checks = (
        paths,
        sums,
        sums_in_logarithms,
        paths_with_detours,
        sums_with_detours,
        far_apart,
        met_or_not,
    )
    assert [check.__name__ for check in checks if not check()] == []
    for sizes in ({**STRIPS, **BLOCKS}, {**TILES, **BLOCKS}, {**TILES, **AGAIN}):
        planted(**sizes)
        assert paths_of_longer()
        assert sums_of_longer()


PATH, SUM, AFTER = "path_kernels", "sum_kernels", "posterior_kernels"
SMALL = "small_kernels"
LOWEST = "state = tl.min(tl.where(best == score[:, None], best_state, 1000), 1)"


FAULTS = [
    # Ties: step before stay, skip before step, the first of the best final states.
    (paths, PATH, "wins = (value > best)", "wins = (value >= best)"),
    (paths, PATH, "state = tl.max(tl.where(best == score[:, None], best_state, -1), 1)", LOWEST),
    # Ways: over the wrong state, skips everywhere, the mirror forgotten.
    (
        paths,
        PATH,
        "skip = tl.where(may_skip[1], odd_below, NEVER)",
        "skip = tl.where(may_skip[1], even, NEVER)",
    ),
    (paths, PATH, "(odd_flags & SKIP) != 0)", "(odd_flags & SKIP) != 2)"),
    (
        sums,
        SUM,
        "odd_skip = tl.where(may_skip[1], odd_below",
        "odd_skip = tl.where(may_skip[0], odd_below",
    ),
    (
        sums,
        SUM,
        "skip_flags = flags + state_offset + 2 * direction",
        "skip_flags = flags + state_offset",
    ),
    (sums, SUM, "begin_flag = BEGIN + direction * (END - BEGIN)", "begin_flag = BEGIN"),
    (sums, SUM, "frame = t + direction * (length - 1 - 2 * t)", "frame = t"),
    (sums, SUM, "2 * unit + direction * (size - 1 - 4 * unit)", "2 * unit"),
    (sums, AFTER, "mirrored, row = length - 1 - t, t", "mirrored, row = t, t"),
    # One off: frames, bands of states in reach, four frames in a word.
    (
        paths,
        PATH,
        "t = start_frame + m * exchange_frames + j + 1",
        "t = start_frame + m * exchange_frames + j",
    ),
    (sums, AFTER, "size - 2 * (length - t)", "size - 2 * (length - t) + 3"),
    (paths, PATH, "((t - 1) % 4) * BITS", "(t % 4) * BITS"),
    (sums, AFTER, "tl.load(numbers + 2 * batch + b", "0 * tl.load(numbers + 2 * batch + b"),
    # Numbers: a sum without its second term, a constant, what the division takes out, what centres
    # took out.
    (sums, "sum_numbers", "+ mantissa_of(b) * power_of_2(f - top)\n            +", "+"),
    (sums, "sum_numbers", "constant(0.693359375)", "constant(0.6933)"),
    (sums, AFTER, "exponent += exponent_of(line_total)", "exponent = exponent_of(line_total)"),
    (sums, AFTER, "centre_sum + tl.where(in_logs", "tl.where(in_logs"),
    (sums, AFTER, "in_range = index + offset < stop", "in_range = index + offset < stop - 1"),
    (sums, AFTER, "cell_class == cell_even_class", "cell_class == cell_even_class + 1"),
    (sums, AFTER, "(other_class < (state - 1)", "(other_class < (state + 0)"),
    # In logarithms; and the trust that leads there.
    (far_apart, SUM, "(best <= FAR_EXPONENT)", "(best < NEVER_EXPONENT)"),
    (
        sums_in_logarithms,
        AFTER,
        "exists, WILD).to(tl.float64) - line_centre",
        "exists, WILD).to(tl.float64)",
    ),
    (sums_in_logarithms, AFTER, "level, in_range) - top)", "level, in_range))"),
    (sums_in_logarithms, AFTER, "- top) / norm_sum", "- top)"),
    # NaN and +inf: lost, or reported where no path meets them.
    (met_or_not, PATH, "(value > best) | (value != value)", "value > best"),
    (
        met_or_not,
        PATH,
        "tl.where(new_odd == NEVER, NEVER, new_odd + emissions[1])",
        "new_odd + emissions[1]",
    ),
    (met_or_not, PATH, "has_nan = tl.where(value != value, 1, has_nan)", "has_nan = has_nan"),
    (met_or_not, SUM, "(best == INVALID_EXPONENT)", "(best == NEVER_EXPONENT)"),
    (met_or_not, SUM, "invalid |= is_invalid(emissions_1)", "invalid |= invalid"),
    (met_or_not, "sum_numbers", 'tl.where(total == float("-inf"), total, product)', "product"),
    # Detours, forwards and mirrored; states in which no path stays.
    (paths_with_detours, PATH, "value_origin, 3 + rank)", "value_origin, 4 + rank)"),
    (
        paths_with_detours,
        PATH,
        "store_units(ring + offset, even, odd",
        "store_units(ring + offset, odd, even",
    ),
    (sums_with_detours, SUM, "tl.load(previous_row + offset", "tl.load(previous_row + row_units"),
    (
        sums_with_detours,
        SUM,
        "(source_state & 1) * row_units + (source_state >> 1)",
        "(source_state >> 1)",
    ),
    (
        sums_with_detours,
        SUM,
        "tl.where(may_stay[0], even, NEVER), tl.where(may_stay[1]",
        "even, tl.where(may_stay[1]",
    ),
    (sums_with_detours, "launch_plan", "entered = states[b] - 1 - sources[b, s, p]", "entered = s"),
    (
        sums_with_detours,
        "launch_plan",
        "detours.end.view(np.uint8) << 3",
        "detours.begin.view(np.uint8) << 3",
    ),
]
SMALL_FAULTS = [
    # Strips that do not hear of each other, or too late.
    (paths_of_longer, STRIPS, PATH, "(lane < halo) & (strip > 0)", "(lane < halo) & (strip > 2)"),
    (paths_of_longer, LONG_BLOCKS, PATH, "(strip == 0) & (lane * 0 + tile > 0)", "(strip == 0) & (lane > 99)"),
    (sums_of_longer, STRIPS, SUM, "(lane < halo) & (strip > 0)", "(lane < halo) & (strip > 2)"),
    (sums_of_longer, LONG_BLOCKS, SUM, "(strip == 0) & (lane * 0 + tile > 0)", "(strip == 0) & (lane > 99)"),
    (sums_of_longer, STRIPS, SUM, "even, odd, halo_buffer, m % 2", "even, even, halo_buffer, m % 2"),
    # Blocks of frames: what comes from the one before, what is left for the next.
    (paths_of_longer, BLOCKS, PATH, "tl.where(ends_block, 2 * unit, row[2])", "row[2]"),
    (paths_of_longer, BLOCKS, PATH, "row[2], row[3], row_units, partial", "row[3], row[2], row_units, partial"),
    (paths_of_longer, AGAIN_IN_TILES, PATH, "(end_state // 2 - block_frames", "(end_state // 2 - 1"),
    (paths_of_longer, AGAIN, PATH, "checkpoint + block.to(tl.int64)", "checkpoint + (block - 1).to(tl.int64)"),
    (sums_of_longer, AGAIN, SUM, "checkpoint + block.to(tl.int64)", "checkpoint + (block - 1).to(tl.int64)"),
    (sums_of_longer, AGAIN, SUM, "start_frame, start_frame + span_frames", "start_frame, start_frame + 1"),
    (sums_of_longer, AGAIN, SUM, "length - (0 if RECOMPUTE else 1)", "length - 1"),
    # One launch: shares of the frames, and what each program has for itself.
    (sums_of_longer, SHARES, SUM, "length - share - block_frames", "share"),
    (sums_of_longer, SHARES, SMALL, "share, 2, share_frames", "0 * share, 2, share_frames"),
    (sums_of_longer, SHARES, SMALL, "SIDES == 2, False, False, SIDES", "SIDES == 1, False, False, SIDES"),
    (sums_of_longer, AGAIN, SUM, "is_forward, first, tl.maximum", "is_forward, first, 0 * tl.maximum"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "sizes", "name", "old", "new"),
    [
        *((check, {}, *rest) for check, *rest in FAULTS),
        *(
            (check, {"PATH_FRAMES": 8, "TILE_FRAMES": 8, **sizes}, *rest)
            for check, sizes, *rest in SMALL_FAULTS
        ),
    ],
)
def test_planted_faults_are_seen(
    check: Callable[[], bool], sizes: dict[str, int], name: str, old: str, new: str, planted: Plant
) -> None:
    """No fault may lead out of the arrays, which no check would see."""
    planted(name, old, new, **sizes)
    assert not check()


RACES = {**TILES, "MAX_STRIPS": 1, "TILE_FRAMES": 4, "ROWS_BYTES": 1}
TOGETHER = "return [(0, tiles)]"
APART = "return [(tile, 1) for tile in range(tiles)]"


@pytest.mark.parametrize(
    ("checker", "name", "old", "new"),
    [
        (gpu_interpreted.in_every_order, "launches", APART, TOGETHER),
        (gpu_interpreted.watched, "launches", APART, TOGETHER),
        (
            gpu_interpreted.watched,
            "launches",
            "layout.tiles * span_frames + 1)",
            "2 * span_frames)",
        ),
        (
            gpu_interpreted.watched,
            SUM,
            "        tl.debug_barrier()\n    return even, odd",
            "    return even, odd",
        ),
        (
            gpu_interpreted.watched,
            SUM,
            "m % 2, program_strip, strip, lane",
            "m * 0, program_strip, strip, lane",
        ),
        (gpu_interpreted.watched, SMALL, "tl.debug_barrier() sweep", "sweep"),
        (gpu_interpreted.watched, SMALL, "tl.debug_barrier() program_lines", "program_lines"),
        (gpu_interpreted.watched, SMALL, "end_exponents += before", "end_exponents += 0"),
    ],
)
def test_planted_races_are_seen(
    checker: Callable[[], contextlib.AbstractContextManager[None]],
    name: str,
    old: str,
    new: str,
    planted: Plant,
) -> None:
    """Programs that read what others of their launch write, threads that do not wait for each
    other."""
    over_tiles = "strip" not in old and name != SMALL
    planted(name, old, new, **(RACES if over_tiles else {**SHARES, **BLOCKS}))
    given = optional_over_tiles() if over_tiles else longer("continuous")
    with checker(), pytest.raises(AssertionError, match=r"order changes|a race of"):
        kernels.occupancy(**on(given, "gpu", torch.float32))
