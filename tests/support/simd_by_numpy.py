"""`ctc_align.kernels.cpu.simd` on arrays of numpy: what each operation must do, and how kernels run without a compiler.

A vector is an array (WIDTH,), a mask one of bool; operators are numpy's own. Unlike compiled code it checks all bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ctc_align.kernels.cpu.simd import PAIR, WIDTH

Array = np.ndarray


def _inside(array: Array, index: int, size: int = 1) -> slice:
    assert array.ndim == 1, "a flat array was expected"
    assert 0 <= index <= len(array) - size, f"{index} … {index + size - 1} of an array of {len(array)}"
    return slice(index, index + size)


def get(array: Array, index: int) -> Any:
    return array[_inside(array, index)][0]


def put(array: Array, index: int, value: Any) -> None:
    array[_inside(array, index)] = value


def load(array: Array, index: int) -> Array:
    return array[_inside(array, index, WIDTH)].copy()


def store(array: Array, index: int, value: Array) -> None:
    assert array.dtype == value.dtype, f"{value.dtype} into {array.dtype}"
    array[_inside(array, index, WIDTH)] = value


def splat(value: Any) -> Array:
    return np.full(WIDTH, value)


def count(first: int) -> Array:
    return np.int32(first) + np.arange(WIDTH, dtype=np.int32)


def moved_up(a: Array, below: Array) -> Array:
    return np.concatenate((below[-1:], a[:-1]))


def moved_down(a: Array, above: Array) -> Array:
    return np.concatenate((a[1:], above[:1]))


def greater(a: Array, b: Array) -> Array:
    return a > b


def choose(mask: Array, a: Array, b: Array) -> Array:
    assert a.dtype == b.dtype, f"{a.dtype} or {b.dtype}"
    return np.where(mask, a, b)


def _number(mask: Array, kind: Any) -> Any:
    bits = np.zeros(8 * kind().itemsize, np.bool_)
    bits[: len(mask)] = mask
    return np.packbits(bits, bitorder="little").view(kind)[0]


def bits_of(mask: Array) -> np.uint16:
    return _number(mask, np.uint16)


def bits_of_both(low: Array, high: Array) -> Any:
    return _number(np.concatenate((low, high)), PAIR.type)


def mask_of(bits: np.uint16) -> Array:
    return np.unpackbits(np.array([bits], np.uint16).view(np.uint8), bitorder="little")[:WIDTH].astype(np.bool_)


def widened(a: Array) -> Array:
    return a.astype(np.float64)


def whole_of(a: Array) -> Array:
    return a.astype(np.int32)


def real_of(a: Array) -> Array:
    return a.astype(np.float32)


def raw_bits(a: Array) -> Array:
    return a.view(np.int32)


def from_bits(a: Array) -> Array:
    return a.view(np.float32)


def shifted_left(a: Array, by: int) -> Array:
    return a << np.int32(by)


def shifted_right(a: Array, by: int) -> Array:
    return a >> np.int32(by)


def gather_transposed(tile: Array, rows: Array, first: int, out: Array, at: int, stride: int) -> None:
    for i, row in enumerate(load(rows, first)):
        for k, value in enumerate(load(tile, row * WIDTH)):
            put(out, k * stride + at + i, value)


def transpose_into(x: Array, first: int, stride: int, tile: Array, at: int) -> None:
    for k in range(WIDTH):
        for i, value in enumerate(load(x, first + k * stride)):
            put(tile, at + i * WIDTH + k, value)


def add_transposed(values: Array, first: int, stride: int, rows: Array, at: int, tile: Array) -> None:
    columns = np.stack([load(values, first + k * stride) for k in range(WIDTH)])
    for i, row in enumerate(load(rows, at)):
        store(tile, row * WIDTH, load(tile, row * WIDTH) + columns[:, i])


def number(value: Any) -> Any:
    if isinstance(value, np.floating):
        return value
    if isinstance(value, np.int16):
        return (np.array([value]).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)[0]
    assert isinstance(value, np.uint16)
    return np.array([value]).view(np.float16)[0].astype(np.float32)
