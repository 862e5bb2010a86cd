"""Every operation on vectors, compiled, against the same on arrays of numpy: bit for bit."""

from __future__ import annotations

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
    return not differ.any() if met.dtype.kind != "f" else bool((np.isnan(met) & np.isnan(right))[differ].all())


def numbers(kind: str, count: int, seed: int = 0) -> Array:
    """Of any size, every other one special: zeros, infinities, NaN, the least and the most."""
    rng = np.random.default_rng(seed)
    if kind == "i32":
        ends = np.array([0, 1, -1, 2**31 - 1, -(2**31), 2**28, -(2**28)], np.int32)
        return np.where(rng.random(count) < 0.5, rng.choice(ends, count), rng.integers(-99, 99, count, np.int32))
    tiny, most = np.finfo(KINDS[kind]).smallest_subnormal, np.finfo(KINDS[kind]).max
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1.0, -1.0, tiny, -tiny, most, -most])
    usual = rng.normal(size=count) * 10.0 ** rng.integers(-30, 30, count)
    return np.where(rng.random(count) < 0.5, rng.choice(ends, count), usual).astype(KINDS[kind])


def on_vectors(function: Callable[..., Any], operands: int) -> Callable[..., None]:
    """`function` of one or two vectors, over arrays."""
    load, store = simd.load, simd.store

    def one(out, a):
        for i in range(0, a.shape[0], WIDTH):
            store(out, i, function(load(a, i)))

    def two(out, a, b):
        for i in range(0, a.shape[0], WIDTH):
            store(out, i, function(load(a, i), load(b, i)))

    return {1: one, 2: two}[operands]


def both(name: str, kind: Any, *given: Array) -> tuple[Array, Array]:
    """What an operation makes of arrays, compiled and by numpy; an operator is its own name."""
    results = []
    for build in (njit, lambda function: function):
        function = getattr(operator, name) if hasattr(operator, name) else getattr(simd, name)
        out = np.full(len(given[0]), 77, kind)
        with np.errstate(all="ignore"):
            build(on_vectors(function, len(given)))(out, *given)
        results.append(out)
    return results[0], results[1]


@pytest.mark.parametrize(
    ("name", "kind", "out", "operands"),
    [
        *[(name, kind, kind, 2) for name in ("add", "sub", "moved_up", "moved_down") for kind in KINDS],
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
    met, right = both(name, KINDS[out], *given[:operands])
    assert same(met, right)
    assert not same(met, given[0])


def test_what_is_wide_is_widened_to_itself() -> None:
    assert same(both("widened", np.float64, numbers("f64", 4 * WIDTH))[0], numbers("f64", 4 * WIDTH))


def test_whole_of() -> None:
    """Towards zero; of what no int32 is nothing is asked."""
    x = np.concatenate([np.arange(-64, 64) / 4, [2.0**31 - 128, -(2.0**31), -(2.0**27), -0.0] * 4])
    met, right = both("whole_of", np.int32, x.astype(np.float32))
    assert same(met, right)
    assert met[:4].tolist() == [-16, -15, -15, -15]


@pytest.mark.parametrize("name", ["shifted_left", "shifted_right"])
def test_shifts(name: str) -> None:
    def shifts() -> Callable[..., None]:
        shifted, load, store = getattr(simd, name), simd.load, simd.store

        def run(out, a):
            for by in range(32):
                for i in range(0, a.shape[0], WIDTH):
                    store(out, by * a.shape[0] + i, shifted(load(a, i), by))

        return run

    given = numbers("i32", 256)
    met, right = np.zeros((2, 32 * 256), np.int32)
    njit(shifts())(met, given)
    shifts()(right, given)
    assert same(met, right)
    assert same(right, np.concatenate([(given << by if name == "shifted_left" else given >> by) for by in range(32)]))


def masks() -> Callable[..., None]:
    load, store, greater, choose = simd.load, simd.store, simd.greater, simd.choose
    bits_of, mask_of = simd.bits_of, simd.mask_of

    def run(a, b, chosen, bits, either, again):
        for i in range(0, a.shape[0], WIDTH):
            x, y = load(a, i), load(b, i)
            more, less = greater(x, y), greater(y, x)
            store(chosen, i, choose(more, x, y))
            bits[i // WIDTH] = bits_of(more)
            either[i // WIDTH] = bits_of(more | less)
            again[i // WIDTH] = bits_of(mask_of(bits[i // WIDTH]) & mask_of(np.uint16(0xF0F3 % 2**WIDTH)))

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_comparisons(kind: str) -> None:
    """What is not a number is not greater and is chosen where it stands second; lanes are bits, the first lowest."""
    a, b = numbers(kind, 4096), numbers(kind, 4096, 1)
    runs = []
    for run in (njit(masks()), masks()):
        out = np.zeros_like(a), *(np.zeros(len(a) // WIDTH, np.uint16) for _ in range(3))
        run(a, b, *out)
        runs.append(out)
    assert all(same(met, right) for met, right in zip(*runs))
    chosen, bits, either, again = runs[0]
    assert same(chosen, np.where(a > b, a, b))
    more, less = ((one > other).reshape(-1, WIDTH) for one, other in ((a, b), (b, a)))
    assert bits.tolist() == (more << np.arange(WIDTH)).sum(1).tolist()
    assert either.tolist() == ((more | less) << np.arange(WIDTH)).sum(1).tolist()
    assert again.tolist() == (bits & 0xF0F3 % 2**WIDTH).tolist()


def test_masks_are_their_bits() -> None:
    def every() -> Callable[..., None]:
        bits_of, mask_of, choose, splat, store = simd.bits_of, simd.mask_of, simd.choose, simd.splat, simd.store

        def run(bits, lanes):
            for k in range(bits.shape[0]):
                mask = mask_of(np.uint16(k))
                bits[k] = bits_of(mask)
                store(lanes, k * WIDTH, choose(mask, splat(np.int32(1)), splat(np.int32(0))))

        return run

    every_mask = np.arange(2**WIDTH)
    bits, lanes = np.zeros(2**WIDTH, np.uint16), np.zeros(2**WIDTH * WIDTH, np.int32)
    njit(every())(bits, lanes)
    assert same(bits, every_mask.astype(np.uint16))
    assert same(lanes, (every_mask[:, None] >> np.arange(WIDTH) & 1).astype(np.int32).reshape(-1))
    by_numpy = np.zeros_like(bits), np.zeros_like(lanes)
    every()(by_numpy[0][:512], by_numpy[1])
    assert same(by_numpy[0][:512], bits[:512])
    assert same(by_numpy[1][: 512 * WIDTH], lanes[: 512 * WIDTH])


def places() -> Callable[..., None]:
    get, put, load, store, splat, count = simd.get, simd.put, simd.load, simd.store, simd.splat, simd.count

    def run(a, out, counted):
        store(out, 5, load(a, 3))
        put(out, 30, get(a, 0))
        store(out, 37, splat(a[1]))
        store(counted, 1, count(a.shape[0]))

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_places(kind: str) -> None:
    """Anywhere in memory, and nothing beside it."""
    a, runs = numbers(kind, 100), []
    for run in (njit(places()), places()):
        out, counted = np.full(64, 77, KINDS[kind]), np.full(WIDTH + 2, 77, np.int32)
        run(a, out, counted)
        runs.append((out, counted))
    assert all(same(met, right) for met, right in zip(*runs))
    right = np.full(64, 77, KINDS[kind])
    right[5 : 5 + WIDTH], right[30], right[37 : 37 + WIDTH] = a[3 : 3 + WIDTH], a[0], a[1]
    assert same(runs[0][0], right)
    assert runs[0][1].tolist() == [77, *range(100, 100 + WIDTH), 77]


@pytest.mark.parametrize("kind", KINDS)
def test_transposes(kind: str) -> None:
    def run_both(name: str, build: Callable[..., Callable[..., None]], out: Array, *given: Any) -> Array:
        met, right = out.copy(), out.copy()
        njit(build(getattr(simd, name)))(met, *given)
        build(getattr(simd, name))(right, *given)
        assert same(met, right)
        return met

    def gather(operation: Any) -> Callable[..., None]:
        def run(out, tile, rows):
            operation(tile, rows, 3, out, 5, 40)

        return run

    def turn(operation: Any) -> Callable[..., None]:
        def run(out, x):
            operation(x, 7, 21, out, 33)

        return run

    rng = np.random.default_rng(2)
    tile, rows = numbers(kind, 20 * WIDTH), rng.integers(0, 20, 24).astype(np.int32)
    out = np.full(5 + WIDTH * 40, 77, KINDS[kind])
    met = run_both("gather_transposed", gather, out, tile, rows)
    right = out.copy()
    right[5:].reshape(WIDTH, 40)[:, :WIDTH] = tile.reshape(20, WIDTH)[rows[3 : 3 + WIDTH]].T
    assert same(met, right)
    x, out = numbers(kind, 7 + 21 * WIDTH), np.full(33 + WIDTH**2 + 5, 77, KINDS[kind])
    met = run_both("transpose_into", turn, out, x)
    right = out.copy()
    right[33 : 33 + WIDTH**2] = x[7:].reshape(WIDTH, 21)[:, :WIDTH].T.reshape(-1)
    assert same(met, right)


@pytest.mark.parametrize("kind", FLOATS)
def test_sums_of_transposes(kind: str) -> None:
    """Lanes of one row are added one after the other, so that sums round in one way only."""

    def add(operation: Any) -> Callable[..., None]:
        def run(tile, values, rows):
            operation(values, 4, 24, rows, 2, tile)

        return run

    rng = np.random.default_rng(3)
    values, rows = rng.normal(size=4 + 24 * WIDTH).astype(KINDS[kind]), rng.integers(0, 5, 20).astype(np.int32)
    met = rng.normal(size=5 * WIDTH).astype(KINDS[kind])
    right, plain = met.copy(), met.copy().reshape(5, WIDTH)
    njit(add(simd.add_transposed))(met, values, rows)
    add(simd.add_transposed)(right, values, rows)
    for i in range(WIDTH):
        for k in range(WIDTH):
            plain[rows[2 + i], k] += values[4 + 24 * k + i]
    assert same(met, right)
    assert same(met, plain.reshape(-1))


def test_numbers_of_elements_as_they_lie() -> None:
    """All float16 and all bfloat16."""

    def every() -> Callable[..., None]:
        number = simd.number

        def run(words, out):
            for i in range(words.shape[0]):
                out[i] = number(words[i])

        return run

    words = np.arange(2**16).astype(np.uint16)
    halves, brains = words.view(np.float16).astype(np.float32), (words.astype(np.uint32) << 16).view(np.float32)
    floats = numbers("f32", 512), numbers("f64", 512)
    for given, right in ((words, halves), (words.view(np.int16), brains), *((x, x) for x in floats)):
        met, by_numpy = np.zeros_like(right), np.zeros_like(right)
        njit(every())(given, met)
        assert same(met, right)
        every()(given[::7], by_numpy[: len(given[::7])])
        assert same(by_numpy[: len(given[::7])], right[::7])


def test_parts_of_numbers_are_done_alike() -> None:
    """Tuples of vectors of several types, compiled and by numpy: each part as alone."""

    def run(out, a, b):
        one, other = simd.load(a, 3), simd.load(b, 3)
        simd.store(out, 1, simd.choose(simd.greater(one[1], other[1]), simd.moved_up(one, other), other))
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
        assert same(met[1 : 1 + WIDTH], np.where(where, np.append(other[-1], one[:-1]).astype(met.dtype), other))
        assert same(met[:1], given[0][part][2:3])


def test_vectors_are_as_wide_as_registers_take() -> None:
    assert simd.width_for("+sse4.2,+avx,+avx2,+avx512f,+avx512vl") == 16
    for features in ("", "+neon,+fp-armv8", "+sse4.2,+avx,+avx2,+fma,-avx512f", "+avx2,-avx512f,+avx512fp16"):
        assert simd.width_for(features) == 8, features


@pytest.mark.long
def test_processors_without_avx512(tmp_path: Path) -> None:
    """Operations and kernels in vectors of 8, compiled for a processor without anything special, in a process of its
    own; where the processor here has AVX-512 no other test runs them."""
    here = Path(__file__).parent
    chosen = ("test_simd.py", "test_cpu.py::test_at_one_go", "test_cpu_sum.py::test_as_the_reference")
    program = (
        "import sys, pytest; from ctc_align.kernels.cpu import simd; assert simd.WIDTH == 8; "
        "sys.exit(pytest.main(['-q', '-n', '0', '-p', 'no:cacheprovider', '-k', 'not without_avx512', *sys.argv[1:]]))"
    )
    settings = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program, *(str(here / name) for name in chosen)],
        env={**os.environ, **settings},
        cwd=here.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
