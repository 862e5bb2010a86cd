"""Every operation on vectors, compiled, against the same on arrays of numpy: bit for bit."""

from __future__ import annotations

import itertools
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit

from ctc_align.kernels.cpu import simd

WIDTH = simd.WIDTH
KINDS = {"f32": np.float32, "f64": np.float64, "i32": np.int32}
FLOATS = ["f32", "f64"]
Array = np.ndarray


def same(met: Array, right: Array) -> bool:
    """The same bits, but that one NaN is as good as another."""
    if met.dtype != right.dtype or met.shape != right.shape:
        return False
    one, other = (array.view(f"u{array.itemsize}") for array in (met, right))
    differ = one != other
    return (
        not differ.any()
        if met.dtype.kind != "f"
        else bool((np.isnan(met) & np.isnan(right))[differ].all())
    )


def numbers(kind: str, count: int, seed: int = 0) -> Array:
    """Of any size, every other one special: zeros, infinities, NaN, the least and the most."""
    rng = np.random.default_rng(seed)
    if kind == "i32":
        ends = np.array([0, 1, -1, 2**31 - 1, -(2**31), 2**28, -(2**28)], np.int32)
        return np.where(
            rng.random(count) < 0.5, rng.choice(ends, count), rng.integers(-99, 99, count, np.int32)
        )
    tiny, most = np.finfo(KINDS[kind]).smallest_subnormal, np.finfo(KINDS[kind]).max
    ends = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, tiny, -tiny, most, -most]
    )
    usual = rng.normal(size=count) * 10.0 ** rng.integers(-30, 30, count)
    return np.where(rng.random(count) < 0.5, rng.choice(ends, count), usual).astype(KINDS[kind])


def run_both(run: Callable[..., None], outs: tuple[Array, ...], *given: Array) -> tuple[Array, ...]:
    """Run a function compiled and on numpy's arrays, which must write the same bits into `outs`;
    return these."""
    met, right = (tuple(out.copy() for out in outs) for _ in range(2))
    with np.errstate(all="ignore"):
        njit(run)(*met, *given)
        run(*right, *given)
    assert all(same(one, other) for one, other in zip(met, right))
    return met


def over_vectors(name: str, operands: int) -> Callable[..., None]:
    """An operation of one or two vectors, over arrays; an operator is its own name."""
    function = getattr(operator, name) if hasattr(operator, name) else getattr(simd, name)

    def one(out, a):
        for i in range(0, a.shape[0], WIDTH):
            simd.store(out, i, function(simd.load(a, i)))

    def two(out, a, b):
        for i in range(0, a.shape[0], WIDTH):
            simd.store(out, i, function(simd.load(a, i), simd.load(b, i)))

    return {1: one, 2: two}[operands]


def made_by(name: str, kind: Any, *given: Array) -> Array:
    (met,) = run_both(over_vectors(name, len(given)), (np.full(len(given[0]), 77, kind),), *given)
    return met


@pytest.mark.parametrize(
    ("name", "kind", "out", "operands"),
    [
        *[
            (name, kind, kind, 2)
            for name in ("add", "sub", "moved_up", "moved_down")
            for kind in KINDS
        ],
        *[("mul", kind, kind, 2) for kind in FLOATS],
        *[(name, "i32", "i32", 2) for name in ("and_", "or_")],
        ("widened", "f32", "f64", 1),
        ("real_of", "i32", "f32", 1),
        ("raw_bits", "f32", "i32", 1),
        ("from_bits", "i32", "f32", 1),
    ],
)
def test_operations(name: str, kind: str, out: str, operands: int) -> None:
    given = numbers(kind, 4096), numbers(kind, 4096, 1)
    assert not same(made_by(name, KINDS[out], *given[:operands]), given[0])


def test_what_is_wide_is_widened_to_itself() -> None:
    assert same(
        made_by("widened", np.float64, numbers("f64", 4 * WIDTH)), numbers("f64", 4 * WIDTH)
    )


def test_whole_of() -> None:
    """Towards zero; numbers beyond int32 are not tested."""
    x = np.concatenate([np.arange(-64, 64) / 4, [2.0**31 - 128, -(2.0**31), -(2.0**27), -0.0] * 4])
    assert made_by("whole_of", np.int32, x.astype(np.float32))[:4].tolist() == [-16, -15, -15, -15]


@pytest.mark.parametrize("name", ["shifted_left", "shifted_right"])
def test_shifts(name: str) -> None:
    shifted = getattr(simd, name)

    def run(out, a):
        for by in range(32):
            for i in range(0, a.shape[0], WIDTH):
                simd.store(out, by * a.shape[0] + i, shifted(simd.load(a, i), by))

    given = numbers("i32", 256)
    (met,) = run_both(run, (np.zeros(32 * 256, np.int32),), given)
    assert same(
        met,
        np.concatenate(
            [(given << by if name == "shifted_left" else given >> by) for by in range(32)]
        ),
    )


def compare(chosen, bits, either, again, pairs, a, b):
    for i in range(0, a.shape[0], WIDTH):
        x, y = simd.load(a, i), simd.load(b, i)
        more, less = simd.greater(x, y), simd.greater(y, x)
        simd.store(chosen, i, simd.choose(more, x, y))
        simd.put_bits(pairs, i // WIDTH, more, less)
        bits[i // WIDTH] = simd.bits_of(more)
        either[i // WIDTH] = simd.bits_of(more | less)
        again[i // WIDTH] = simd.bits_of(
            simd.mask_of(bits[i // WIDTH]) & simd.mask_of(np.uint16(0xF0F3 % 2**WIDTH))
        )


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind: str) -> None:
    """NaN is not greater, and is chosen as the second operand; lanes are bits, the first lowest."""
    a, b = numbers(kind, 4096), numbers(kind, 4096, 1)
    outs = np.zeros_like(a), *(np.zeros(len(a) // WIDTH, np.uint16) for _ in range(3))
    outs += (np.zeros(len(a) // WIDTH, simd.PAIR),)
    chosen, bits, either, again, pairs = run_both(compare, outs, a, b)
    assert same(chosen, np.where(a > b, a, b))
    more, less = ((one > other).reshape(-1, WIDTH) for one, other in ((a, b), (b, a)))
    assert bits.tolist() == (more << np.arange(WIDTH)).sum(1).tolist()
    places = [simd.bit_of(lane) for lane in range(WIDTH)]
    both = (more << np.array(places)).sum(1) | (less << np.array(places) + WIDTH).sum(1)
    assert sorted(places) == list(range(WIDTH))
    assert pairs.tolist() == both.tolist()
    assert either.tolist() == ((more | less) << np.arange(WIDTH)).sum(1).tolist()
    assert again.tolist() == (bits & 0xF0F3 % 2**WIDTH).tolist()


def every_mask(bits, lanes):
    for k in range(bits.shape[0]):
        mask = simd.mask_of(np.uint16(k))
        bits[k] = simd.bits_of(mask)
        simd.store(
            lanes, k * WIDTH, simd.choose(mask, simd.splat(np.int32(1)), simd.splat(np.int32(0)))
        )


def test_masks_are_their_bits() -> None:
    """Compiled: all of them; by numpy the first 256."""
    masks = np.arange(2**WIDTH)
    bits, lanes = np.zeros(2**WIDTH, np.uint16), np.zeros(2**WIDTH * WIDTH, np.int32)
    run_both(every_mask, (bits[:256], lanes[: 256 * WIDTH]))
    njit(every_mask)(bits, lanes)
    assert same(bits, masks.astype(np.uint16))
    assert same(lanes, (masks[:, None] >> np.arange(WIDTH) & 1).astype(np.int32).reshape(-1))


def move_around(out, counted, a):
    simd.store(out, 5, simd.load(a, 3))
    simd.put(out, 30, simd.get(a, 0))
    simd.store(out, 37, simd.splat(a[1]))
    simd.store(counted, 1, simd.count(a.shape[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_loads_and_stores_at_any_index(kind: str) -> None:
    """Anywhere in memory, and nothing beside it."""
    a = numbers(kind, 100)
    out, counted = run_both(
        move_around, (np.full(64, 77, KINDS[kind]), np.full(WIDTH + 2, 77, np.int32)), a
    )
    right = np.full(64, 77, KINDS[kind])
    right[5 : 5 + WIDTH], right[30], right[37 : 37 + WIDTH] = a[3 : 3 + WIDTH], a[0], a[1]
    assert same(out, right)
    assert counted.tolist() == [77, *range(100, 100 + WIDTH), 77]


def gather(out, tile, rows):
    simd.gather_transposed(tile, rows, 3, out, 5, 40)


def turn(out, x):
    simd.transpose_into(x, 7, 21, out, 33)


@pytest.mark.parametrize("kind", KINDS)
def test_transposes(kind: str) -> None:
    tile, rows = (
        numbers(kind, 20 * WIDTH),
        np.random.default_rng(2).integers(0, 20, 24).astype(np.int32),
    )
    right = np.full(5 + WIDTH * 40, 77, KINDS[kind])
    (met,) = run_both(gather, (right,), tile, rows)
    right[5:].reshape(WIDTH, 40)[:, :WIDTH] = tile.reshape(20, WIDTH)[rows[3 : 3 + WIDTH]].T
    assert same(met, right)
    x, right = numbers(kind, 7 + 21 * WIDTH), np.full(33 + WIDTH**2 + 5, 77, KINDS[kind])
    (met,) = run_both(turn, (right,), x)
    right[33 : 33 + WIDTH**2] = x[7:].reshape(WIDTH, 21)[:, :WIDTH].T.reshape(-1)
    assert same(met, right)


def add_up(tile, values, rows):
    simd.add_transposed(values, 4, 24, rows, 2, tile)


@pytest.mark.parametrize("kind", FLOATS)
def test_sums_of_transposes(kind: str) -> None:
    """Lanes of one row are added one after the other, so that sums round in one way only."""
    rng = np.random.default_rng(3)
    values, rows = (
        rng.normal(size=4 + 24 * WIDTH).astype(KINDS[kind]),
        rng.integers(0, 5, 20).astype(np.int32),
    )
    right = rng.normal(size=5 * WIDTH).astype(KINDS[kind])
    (met,) = run_both(add_up, (right,), values, rows)
    for i, k in itertools.product(range(WIDTH), range(WIDTH)):
        right[WIDTH * rows[2 + i] + k] += values[4 + 24 * k + i]
    assert same(met, right)


def read_numbers(out, words):
    for i in range(words.shape[0]):
        out[i] = simd.number(words[i])


def test_numbers_of_elements_as_they_lie() -> None:
    """All float16 and all bfloat16."""
    words = np.arange(2**16).astype(np.uint16)
    halves, brains = (
        words.view(np.float16).astype(np.float32),
        (words.astype(np.uint32) << 16).view(np.float32),
    )
    floats = numbers("f32", 512), numbers("f64", 512)
    for given, right in (
        (words, halves),
        (words.view(np.int16), brains),
        *((x, x) for x in floats),
    ):
        met = np.zeros_like(right)
        njit(read_numbers)(met, given)
        assert same(met, right)
        assert same(run_both(read_numbers, (np.zeros_like(right[::7]),), given[::7])[0], right[::7])


def test_parts_of_numbers_are_done_alike() -> None:
    """Tuples of vectors of several types, compiled and by numpy: each part as alone."""

    def run(out, a, b):
        one, other = simd.load(a, 3), simd.load(b, 3)
        simd.store(
            out, 1, simd.choose(simd.greater(one[1], other[1]), simd.moved_up(one, other), other)
        )
        simd.put(out, 0, simd.get(a, 2))

    given = [(numbers("f32", 64, seed), numbers("i32", 64, seed)) for seed in (0, 1)]
    results = []
    for build in (njit, lambda function: function):
        results.append((np.zeros(64, np.float32), np.zeros(64, np.int32)))
        build(run)(results[-1], *given)
    assert all(same(met, right) for met, right in zip(*results))
    where = given[0][1][3 : 3 + WIDTH] > given[1][1][3 : 3 + WIDTH]
    for part, met in enumerate(results[0]):
        one, other = given[0][part][3 : 3 + WIDTH], given[1][part][3 : 3 + WIDTH]
        assert same(
            met[1 : 1 + WIDTH],
            np.where(where, np.append(other[-1], one[:-1]).astype(met.dtype), other),
        )
        assert same(met[:1], given[0][part][2:3])


def test_vectors_are_as_wide_as_registers_take() -> None:
    assert simd.width_for("+sse4.2,+avx,+avx2,+avx512f,+avx512vl") == 16
    for features in (
        "",
        "+neon,+fp-armv8",
        "+sse4.2,+avx,+avx2,+fma,-avx512f",
        "+avx2,-avx512f,+avx512fp16",
    ):
        assert simd.width_for(features) == 8, features


@pytest.mark.long
def test_processors_without_avx512(tmp_path: Path) -> None:
    """Operations and kernels in vectors of 8, compiled for a processor without anything special, in
    a process of its own; where the processor here has AVX-512 no other test runs them."""
    here = Path(__file__).parent
    chosen = (
        "test_simd.py",
        "test_cpu.py::test_at_one_go",
        "test_cpu_sum.py::test_as_the_reference",
    )
    program = (
        "import sys, pytest; from ctc_align.kernels.cpu import simd; assert simd.WIDTH == 8;"
        " sys.exit(pytest.main(['-q', '-n', '0', '-p', 'no:cacheprovider', '-k', 'not"
        " without_avx512', *sys.argv[1:]]))"
    )
    settings = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *(str(here / name) for name in chosen)],
        env={**os.environ, **settings},
        cwd=here.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
