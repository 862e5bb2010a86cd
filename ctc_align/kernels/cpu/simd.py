"""Sixteen numbers at once, or eight: a vector type for Numba's compiled functions.

With it come the operations that kernels need.

Loops over these compile ten times faster than loops that the compiler must first turn into such,
and never fall back
to one number at a time. A `Vec` is an LLVM vector: it becomes one, two or four registers, whatever
the processor has.

Each operation is written twice, side by side: as LLVM's instructions, and in numpy, which defines
what it does. Python runs the latter, on arrays of any length (`row_kernels`): a single number is a
vector of equal ones. There `load`, `store`, `get` and `put` check bounds, for tests that run
kernels uncompiled; compiled they check none.

Operations marked `by_parts` take numbers that have several parts, such as mantissa and exponent, as
tuples of vectors (or of arrays to load them from), and do the same with each part. So a recursion
is written once for all such numbers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.core.typing.templates import (
    ConcreteTemplate,
    infer,
    infer_global,
    make_intrinsic_template,
    signature,
)
from numba.extending import lower_builtin, models, register_model

from ctc_align.kernels.cpu.compilation import in_kernels_too


def width_for(features: str) -> int:
    """Return how many numbers a vector has on a processor with these features (LLVM's list).

    As many as its registers take without moving them to the stack and back all the time, which with
    16 only AVX-512's do (`docs/processors.md`).
    """
    return 16 if "+avx512f" in features.split(",") else 8


# Of the processor that Numba compiles for.
_CHOSEN: str | None = vars(config)["CPU_FEATURES"]
WIDTH = width_for(get_host_cpu_features() if _CHOSEN is None else _CHOSEN)
"""The numbers of a vector."""
PAIR = np.dtype(f"uint{2 * WIDTH}")
"""The type of two masks' bits."""
_LANE_OF_BIT = list(range(16)) if WIDTH == 16 else [0, 1, 4, 5, 2, 3, 6, 7]
"""The lanes in the order of their bits in a PAIR. Of eight, that in which AVX finds the signs of
two registers' halves: to put them in order takes twice as many instructions."""
_I16, _I32, _I64, _BITS = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.IntType(WIDTH)


class Vec(types.Type):
    """WIDTH numbers of one type, or truth values."""

    def __init__(self, element: Any) -> None:
        self.element = element
        super().__init__(f"{element}x{WIDTH}")


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Vec) -> None:
        truth = fe_type.element == types.boolean
        element = ir.IntType(1) if truth else manager.lookup(fe_type.element).get_value_type()
        super().__init__(manager, fe_type, ir.VectorType(element, WIDTH))


F32, F64, I32, MASK = Vec(types.float32), Vec(types.float64), Vec(types.int32), Vec(types.boolean)


def _operator(function: Any, instructions: dict[Vec, str]) -> None:
    """Define `a function b` on vectors: the LLVM instruction for each type."""
    cases = [signature(vec, vec, vec) for vec in instructions]
    infer_global(function)(
        type(f"Vec_{function.__name__}", (ConcreteTemplate,), {"key": function, "cases": cases})
    )
    for vec, instruction in instructions.items():

        def lower(
            context: Any, builder: Any, sig: Any, args: Any, instruction: str = instruction
        ) -> Any:
            return getattr(builder, instruction)(*args)

        lower_builtin(function, vec, vec)(lower)


_operator(operator.add, {F32: "fadd", F64: "fadd", I32: "add"})
_operator(operator.sub, {F32: "fsub", F64: "fsub", I32: "sub"})
_operator(operator.mul, {F32: "fmul", F64: "fmul"})
_operator(operator.and_, {I32: "and_", MASK: "and_"})
_operator(operator.or_, {I32: "or_", MASK: "or_"})


def _operation(typed: Callable[..., Any], by_parts: bool = False) -> Callable[[Any], Any]:
    """Return a decorator of a function in NumPy.

    `typed` gives the types and the code of its compiled calls.

    With `by_parts` tuples are taken apart: all arguments that are tuples have the same number of
    parts.
    """

    def decorate(function: Any) -> Any:
        operation = _each_part(function) if by_parts else function
        compiled = _each_part_typed(typed) if by_parts else typed
        # As `numba.extending.intrinsic`, whose result cannot be called from Python.
        template = make_intrinsic_template(operation, compiled, function.__name__)
        infer(template)
        infer_global(operation, types.Function(template))
        return operation

    return decorate


def _each_part(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def operation(*args: Any) -> Any:
        parts = next((len(arg) for arg in args if isinstance(arg, tuple)), 0)
        if not parts:
            return function(*args)
        return tuple(
            function(*(arg[part] if isinstance(arg, tuple) else arg for arg in args))
            for part in range(parts)
        )

    return operation


def _each_part_typed(typed: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(typed)
    def typed_parts(typingctx: Any, *args: Any) -> Any:
        parts = next((arg.count for arg in args if isinstance(arg, types.BaseTuple)), 0)
        if not parts:
            return typed(typingctx, *args)
        is_tuple = [isinstance(arg, types.BaseTuple) for arg in args]
        made = [
            typed(typingctx, *(arg[part] if apart else arg for arg, apart in zip(args, is_tuple)))
            for part in range(parts)
        ]
        results = [single.return_type for single, _ in made]
        returns_nothing = results[0] == types.void
        # An index is cast to the type that the operation takes; parts have theirs already.
        taken = [
            types.Tuple([single.args[k] for single, _ in made]) if apart else made[0][0].args[k]
            for k, apart in enumerate(is_tuple)
        ]

        returned = types.void if returns_nothing else types.Tuple(results)
        return returned(*taken), lambda *call: _generate_parts(made, is_tuple, *call)

    return typed_parts


def _generate_parts(
    made: list[Any], is_tuple: list[bool], context: Any, builder: Any, sig: Any, values: Any
) -> Any:
    """Generate the code of an operation for each part of its tuples."""
    done = []
    for part, (single, generate) in enumerate(made):
        parts = [
            builder.extract_value(value, part) if apart else value
            for value, apart in zip(values, is_tuple)
        ]
        done.append(generate(context, builder, single, parts))
    if sig.return_type == types.void:
        return context.get_dummy_value()
    return context.make_tuple(builder, sig.return_type, done)


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _place(builder: Any, data: Any, index: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _lanes(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, WIDTH), indices)


def _broadcast(builder: Any, value: Any) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(empty, value, ir.Constant(_I32, 0)), empty, _lanes([0] * WIDTH)
    )


Array = np.ndarray


def _inside(array: Array, index: int, size: int = 1) -> slice:
    assert array.ndim == 1, "a flat array was expected"
    assert 0 <= index <= len(array) - size, (
        f"{index} … {index + size - 1} of an array of {len(array)}"
    )
    return slice(index, index + size)


def _packed(mask: Array, kind: Any) -> Any:
    bits = np.zeros(8 * kind().itemsize, np.bool_)
    bits[: len(mask)] = mask
    return np.packbits(bits, bitorder="little").view(kind)[0]


def _get(typingctx, array, index):
    def codegen(context, builder, sig, args):
        return builder.load(builder.gep(_data(context, builder, array, args[0]), [args[1]]))

    return array.dtype(array, types.int64), codegen


@_operation(_get, by_parts=True)
def get(array: Array, index: int) -> Any:
    """Return array[index] of a flat array; negative indices do not count from the end."""
    return array[_inside(array, index)][0]


def _put(typingctx, array, index, value):
    def codegen(context, builder, sig, args):
        builder.store(args[2], builder.gep(_data(context, builder, array, args[0]), [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


@_operation(_put, by_parts=True)
def put(array: Array, index: int, value: Any) -> None:
    """Set array[index] = value of a flat array; negative indices do not count from the end."""
    array[_inside(array, index)] = value


def _load(typingctx, array, index):
    def codegen(context, builder, sig, args):
        place = _place(
            builder,
            _data(context, builder, array, args[0]),
            args[1],
            context.get_value_type(sig.return_type),
        )
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return Vec(array.dtype)(array, types.int64), codegen


@_operation(_load, by_parts=True)
def load(array: Array, index: int) -> Array:
    """Return array[index : index + WIDTH]."""
    return array[_inside(array, index, WIDTH)].copy()


def _store(typingctx, array, index, value):
    def codegen(context, builder, sig, args):
        place = _place(builder, _data(context, builder, array, args[0]), args[1], args[2].type)
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@_operation(_store, by_parts=True)
def store(array: Array, index: int, value: Array) -> None:
    """Set array[index : index + WIDTH] = value."""
    assert array.dtype == value.dtype, f"{value.dtype} into {array.dtype}"
    array[_inside(array, index, WIDTH)] = value


def _splat(typingctx, value):
    return Vec(value)(value), lambda context, builder, sig, args: _broadcast(builder, args[0])


@_operation(_splat, by_parts=True)
def splat(value: Any) -> Any:
    """Return the same number in all lanes."""
    return np.array(value)[()]


def _count(typingctx, first):
    def codegen(context, builder, sig, args):
        steps = ir.Constant(ir.VectorType(_I32, WIDTH), list(range(WIDTH)))
        return builder.add(_broadcast(builder, builder.trunc(args[0], _I32)), steps)

    return I32(types.int64), codegen


@_operation(_count)
def count(first: int) -> Array:
    """Return first, first + 1, … as int32."""
    return np.int32(first) + np.arange(WIDTH, dtype=np.int32)


def _moved_up(typingctx, a, below):
    def codegen(context, builder, sig, args):
        return builder.shuffle_vector(
            args[1], args[0], _lanes([WIDTH - 1 + k for k in range(WIDTH)])
        )

    return a(a, below), codegen


@_operation(_moved_up, by_parts=True)
def moved_up(a: Array, below: Array) -> Array:
    """Return the numbers one lane up, the last of `below` in the first lane."""
    return np.concatenate((below[-1:], a[:-1]))


def _moved_down(typingctx, a, above):
    def codegen(context, builder, sig, args):
        return builder.shuffle_vector(args[0], args[1], _lanes([k + 1 for k in range(WIDTH)]))

    return a(a, above), codegen


@_operation(_moved_down, by_parts=True)
def moved_down(a: Array, above: Array) -> Array:
    """Return the numbers one lane down, the first of `above` in the last lane."""
    return np.concatenate((a[1:], above[:1]))


def _greater(typingctx, a, b):
    real = isinstance(a.element, types.Float)

    def codegen(context, builder, sig, args):
        return builder.fcmp_ordered(">", *args) if real else builder.icmp_signed(">", *args)

    return MASK(a, b), codegen


@_operation(_greater)
def greater(a: Array, b: Array) -> Array:
    """Return a > b; False where either is NaN."""
    return a > b


def _choose(typingctx, mask, a, b):
    return a(mask, a, b), lambda context, builder, sig, args: builder.select(*args)


@_operation(_choose, by_parts=True)
def choose(mask: Array, a: Array, b: Array) -> Array:
    """Return a where the mask is true, else b."""
    assert a.dtype == b.dtype, f"{a.dtype} or {b.dtype}"
    return np.where(mask, a, b)


def _bits_of(typingctx, mask):
    def codegen(context, builder, sig, args):
        bits = builder.bitcast(args[0], _BITS)
        return bits if WIDTH == 16 else builder.zext(bits, _I16)

    return types.uint16(mask), codegen


@_operation(_bits_of)
def bits_of(mask: Array) -> np.uint16:
    """Return a mask as 16 bits, the first lane lowest."""
    bits: np.uint16 = _packed(mask, np.uint16)
    return bits


def _put_bits(typingctx, array, index, low, high):
    lanes = ir.Constant(ir.VectorType(_I32, WIDTH), _LANE_OF_BIT)
    halves = ir.Constant(ir.VectorType(_I32, WIDTH), [2 * lane for lane in _LANE_OF_BIT])

    def codegen(context, builder, sig, args):
        place = builder.bitcast(
            builder.gep(_data(context, builder, array, args[0]), [args[1]]), _BITS.as_pointer()
        )
        for part, mask in enumerate(args[2:]):
            if WIDTH == 16:
                mask = builder.shuffle_vector(mask, mask, lanes)
            else:
                # Compared float64 are masks of 64 bits: half of each, then all signs at once.
                wide = builder.bitcast(
                    builder.sext(mask, ir.VectorType(_I64, WIDTH)), ir.VectorType(_I32, 2 * WIDTH)
                )
                half = builder.shuffle_vector(wide, wide, halves)
                mask = builder.icmp_signed("<", half, ir.Constant(half.type, None))
            builder.store(
                builder.bitcast(mask, _BITS), builder.gep(place, [ir.Constant(_I32, part)])
            )
        return context.get_dummy_value()

    return types.void(array, types.int64, low, high), codegen


@_operation(_put_bits)
def put_bits(array: Array, index: int, low: Array, high: Array) -> None:
    """Set array[index], of type PAIR, to two masks.

    It has bit `bit_of(lane)` for each lane of `low`, then those of `high`.
    """
    put(array, index, _packed(np.concatenate((low[_LANE_OF_BIT], high[_LANE_OF_BIT])), PAIR.type))


@in_kernels_too
def bit_of(lane):
    """Return the bit of a lane in `put_bits`."""
    return lane if WIDTH == 16 else lane & 1 | lane << 1 & 4 | lane >> 1 & 2


def _mask_of(typingctx, bits):
    vector = ir.VectorType(ir.IntType(1), WIDTH)

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0] if WIDTH == 16 else builder.trunc(args[0], _BITS), vector)

    return MASK(types.uint16), codegen


@_operation(_mask_of)
def mask_of(bits: np.uint16) -> Array:
    """Return the mask of the lowest WIDTH of 16 bits."""
    return np.unpackbits(np.array([bits], np.uint16).view(np.uint8), bitorder="little")[
        :WIDTH
    ].astype(np.bool_)


def _widened(typingctx, a):
    vector = ir.VectorType(ir.DoubleType(), WIDTH)
    if a == F64:
        return F64(F64), lambda context, builder, sig, args: args[0]
    return F64(F32), lambda context, builder, sig, args: builder.fpext(args[0], vector)


@_operation(_widened)
def widened(a: Array) -> Array:
    """Return float32 as float64."""
    return a.astype(np.float64)


def _whole_of(typingctx, a):
    vector = ir.VectorType(_I32, WIDTH)
    return I32(F32), lambda context, builder, sig, args: builder.fptosi(args[0], vector)


@_operation(_whole_of)
def whole_of(a: Array) -> Array:
    """Return float32 as int32, rounded towards zero."""
    return a.astype(np.int32)


def _real_of(typingctx, a):
    vector = ir.VectorType(ir.FloatType(), WIDTH)
    return F32(I32), lambda context, builder, sig, args: builder.sitofp(args[0], vector)


@_operation(_real_of)
def real_of(a: Array) -> Array:
    """Return int32 as float32."""
    return a.astype(np.float32)


def _raw_bits(typingctx, a):
    vector = ir.VectorType(_I32, WIDTH)
    return I32(F32), lambda context, builder, sig, args: builder.bitcast(args[0], vector)


@_operation(_raw_bits)
def raw_bits(a: Array) -> Array:
    """Return the bits of float32 as int32."""
    return a.view(np.int32)


def _from_bits(typingctx, a):
    vector = ir.VectorType(ir.FloatType(), WIDTH)
    return F32(I32), lambda context, builder, sig, args: builder.bitcast(args[0], vector)


@_operation(_from_bits)
def from_bits(a: Array) -> Array:
    """Return the float32 with these bits."""
    return a.view(np.float32)


def _shifted(instruction: str) -> Callable[..., Any]:
    def typed(typingctx, a, by):
        return I32(I32, types.int64), lambda context, builder, sig, args: _shift(
            builder, instruction, *args
        )

    return typed


def _shift(builder: Any, instruction: str, a: Any, by: Any) -> Any:
    return getattr(builder, instruction)(a, _broadcast(builder, builder.trunc(by, _I32)))


@_operation(_shifted("shl"))
def shifted_left(a: Array, by: int) -> Array:
    """Return int32 shifted up by a number of bits, zeros from below."""
    return a << np.int32(by)


@_operation(_shifted("ashr"))
def shifted_right(a: Array, by: int) -> Array:
    """Return int32 shifted down by a number of bits, the sign from above."""
    return a >> np.int32(by)


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of WIDTH rows, by log2(WIDTH) rounds of exchanging blocks."""
    step = 1
    while step < WIDTH:
        low = _lanes([WIDTH + k - step if k & step else k for k in range(WIDTH)])
        high = _lanes([WIDTH + k if k & step else k + step for k in range(WIDTH)])
        for i in range(WIDTH):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i], rows[i + step] = (
                    builder.shuffle_vector(a, b, low),
                    builder.shuffle_vector(a, b, high),
                )
        step *= 2
    return rows


def _gather_transposed(typingctx, tile, rows, first, out, at, stride):
    def codegen(context, builder, sig, args):
        source = _data(context, builder, tile, args[0])
        index = _data(context, builder, rows, args[1])
        target = _data(context, builder, out, args[3])
        vector = ir.VectorType(source.type.pointee, WIDTH)
        align = tile.dtype.bitwidth // 8
        values = []
        for i in range(WIDTH):
            row = builder.load(builder.gep(index, [builder.add(args[2], ir.Constant(_I64, i))]))
            place = builder.mul(builder.sext(row, _I64), ir.Constant(_I64, WIDTH))
            values.append(builder.load(_place(builder, source, place, vector), align=align))
        for k, value in enumerate(_transposed(builder, values)):
            place = builder.add(builder.mul(args[5], ir.Constant(_I64, k)), args[4])
            builder.store(value, _place(builder, target, place, vector), align=align)
        return context.get_dummy_value()

    return types.void(tile, rows, types.int64, out, types.int64, types.int64), codegen


@_operation(_gather_transposed, by_parts=True)
def gather_transposed(
    tile: Array, rows: Array, first: int, out: Array, at: int, stride: int
) -> None:
    """Set out[k * stride + at + i] = tile[rows[first + i] * WIDTH + k] for i, k below WIDTH."""
    for i, row in enumerate(load(rows, first)):
        for k, value in enumerate(load(tile, row * WIDTH)):
            put(out, k * stride + at + i, value)


def _transpose_into(typingctx, x, first, stride, tile, at):
    def codegen(context, builder, sig, args):
        source = _data(context, builder, x, args[0])
        target = _data(context, builder, tile, args[3])
        vector = ir.VectorType(source.type.pointee, WIDTH)
        align = x.dtype.bitwidth // 8
        values = []
        for k in range(WIDTH):
            place = builder.add(args[1], builder.mul(args[2], ir.Constant(_I64, k)))
            values.append(builder.load(_place(builder, source, place, vector), align=align))
        for i, value in enumerate(_transposed(builder, values)):
            place = builder.add(args[4], ir.Constant(_I64, i * WIDTH))
            builder.store(value, _place(builder, target, place, vector), align=align)
        return context.get_dummy_value()

    return types.void(x, types.int64, types.int64, tile, types.int64), codegen


@_operation(_transpose_into)
def transpose_into(x: Array, first: int, stride: int, tile: Array, at: int) -> None:
    """Set tile[at + i * WIDTH + k] = x[first + k * stride + i] for i, k below WIDTH."""
    for k in range(WIDTH):
        for i, value in enumerate(load(x, first + k * stride)):
            put(tile, at + i * WIDTH + k, value)


def _add_transposed(typingctx, values, first, stride, rows, at, tile):
    def codegen(context, builder, sig, args):
        source = _data(context, builder, values, args[0])
        index = _data(context, builder, rows, args[3])
        target = _data(context, builder, tile, args[5])
        vector = ir.VectorType(source.type.pointee, WIDTH)
        align = values.dtype.bitwidth // 8
        lanes = []
        for k in range(WIDTH):
            place = builder.add(args[1], builder.mul(args[2], ir.Constant(_I64, k)))
            lanes.append(builder.load(_place(builder, source, place, vector), align=align))
        for i, value in enumerate(_transposed(builder, lanes)):
            row = builder.load(builder.gep(index, [builder.add(args[4], ir.Constant(_I64, i))]))
            place = _place(
                builder,
                target,
                builder.mul(builder.sext(row, _I64), ir.Constant(_I64, WIDTH)),
                vector,
            )
            builder.store(builder.fadd(builder.load(place, align=align), value), place, align=align)
        return context.get_dummy_value()

    return types.void(values, types.int64, types.int64, rows, types.int64, tile), codegen


@_operation(_add_transposed)
def add_transposed(
    values: Array, first: int, stride: int, rows: Array, at: int, tile: Array
) -> None:
    """Add: tile[rows[at + i] * WIDTH + k] += values[first + k * stride + i].

    It adds lane after lane, for i, k below WIDTH.
    """
    columns = np.stack([load(values, first + k * stride) for k in range(WIDTH)])
    for i, row in enumerate(load(rows, at)):
        store(tile, row * WIDTH, load(tile, row * WIDTH) + columns[:, i])


def _number(typingctx, value):
    if isinstance(value, types.Float):
        return value(value), lambda context, builder, sig, args: args[0]
    real = ir.FloatType()

    def brain(context, builder, sig, args):
        return builder.bitcast(
            builder.shl(builder.zext(args[0], _I32), ir.Constant(_I32, 16)), real
        )

    def half(context, builder, sig, args):
        bits = builder.zext(args[0], _I32)
        size = builder.shl(builder.and_(bits, ir.Constant(_I32, 0x7FFF)), ir.Constant(_I32, 13))
        # Exponents differ by 112; as a product it is right for subnormal numbers too.
        usual = builder.bitcast(
            builder.fmul(builder.bitcast(size, real), ir.Constant(real, 2.0**112)), _I32
        )
        endless = builder.or_(size, ir.Constant(_I32, 0x7F800000))
        full = builder.icmp_unsigned(">=", size, ir.Constant(_I32, 0x7C00 << 13))
        sign = builder.shl(builder.and_(bits, ir.Constant(_I32, 0x8000)), ir.Constant(_I32, 16))
        return builder.bitcast(builder.or_(builder.select(full, endless, usual), sign), real)

    return types.float32(value), brain if value == types.int16 else half


@_operation(_number)
def number(value: Any) -> Any:
    """Return the number of an element: int16 holds bfloat16, uint16 float16, others are numbers."""
    if isinstance(value, np.floating):
        return value
    if isinstance(value, np.int16):
        return (np.array([value]).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(
            np.float32
        )[0]
    assert isinstance(value, np.uint16)
    return np.array([value]).view(np.float16)[0].astype(np.float32)
