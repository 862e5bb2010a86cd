"""Sixteen numbers at once, or eight: a vector type for Numba's compiled functions, and what kernels do with it.

Loops over these compile ten times faster than loops that the compiler must first turn into such, and never fall back
to one number at a time. A `Vec` is an LLVM vector: it becomes one, two or four registers, whatever the processor has.
`load`, `store`, `get` and `put` do not check bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model


def width_for(features: str) -> int:
    """Return the numbers of a vector for a processor, by LLVM's list of its features: as many as its registers take
    without moving them to the stack and back all the time, which with 16 only AVX-512's do (`docs/processors.md`)."""
    return 16 if "+avx512f" in features.split(",") else 8


# Of the processor that Numba compiles for.
_CHOSEN: str | None = vars(config)["CPU_FEATURES"]
WIDTH = width_for(get_host_cpu_features() if _CHOSEN is None else _CHOSEN)
"""The numbers of a vector."""
PAIR = np.dtype(f"uint{2 * WIDTH}")
"""The type of two masks' bits."""
_I16, _I32, _I64, _BITS = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.IntType(WIDTH)


def _compiled(function: Any) -> Any:
    """Decorate as `intrinsic`, untyped: a call takes one argument less than the function."""
    return intrinsic(function)


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
    infer_global(function)(type(f"Vec_{function.__name__}", (ConcreteTemplate,), {"key": function, "cases": cases}))
    for vec, instruction in instructions.items():

        def lower(context: Any, builder: Any, sig: Any, args: Any, instruction: str = instruction) -> Any:
            return getattr(builder, instruction)(*args)

        lower_builtin(function, vec, vec)(lower)


_operator(operator.add, {F32: "fadd", F64: "fadd", I32: "add"})
_operator(operator.sub, {F32: "fsub", F64: "fsub", I32: "sub"})
_operator(operator.mul, {F32: "fmul", F64: "fmul"})
_operator(operator.and_, {I32: "and_", MASK: "and_"})
_operator(operator.or_, {I32: "or_", MASK: "or_"})


def _data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    return context.make_array(array_type)(context, builder, array).data


def _place(builder: Any, data: Any, index: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _lanes(indices: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_I32, WIDTH), indices)


def _splat(builder: Any, value: Any) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined)
    return builder.shuffle_vector(
        builder.insert_element(empty, value, ir.Constant(_I32, 0)), empty, _lanes([0] * WIDTH)
    )


@_compiled
def get(typingctx, array, index):
    """Return array[index] of a flat array; negative indices do not count from the end."""

    def codegen(context, builder, sig, args):
        return builder.load(builder.gep(_data(context, builder, array, args[0]), [args[1]]))

    return array.dtype(array, types.int64), codegen


@_compiled
def put(typingctx, array, index, value):
    """Set array[index] = value of a flat array; negative indices do not count from the end."""

    def codegen(context, builder, sig, args):
        builder.store(args[2], builder.gep(_data(context, builder, array, args[0]), [args[1]]))
        return context.get_dummy_value()

    return types.void(array, types.int64, array.dtype), codegen


@_compiled
def load(typingctx, array, index):
    """Return array[index : index + WIDTH]."""

    def codegen(context, builder, sig, args):
        place = _place(
            builder, _data(context, builder, array, args[0]), args[1], context.get_value_type(sig.return_type)
        )
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return Vec(array.dtype)(array, types.int64), codegen


@_compiled
def store(typingctx, array, index, value):
    """Set array[index : index + WIDTH] = value."""

    def codegen(context, builder, sig, args):
        place = _place(builder, _data(context, builder, array, args[0]), args[1], args[2].type)
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), codegen


@_compiled
def splat(typingctx, value):
    """Return the same number in all lanes."""
    return Vec(value)(value), lambda context, builder, sig, args: _splat(builder, args[0])


@_compiled
def count(typingctx, first):
    """Return first, first + 1, … as int32."""

    def codegen(context, builder, sig, args):
        steps = ir.Constant(ir.VectorType(_I32, WIDTH), list(range(WIDTH)))
        return builder.add(_splat(builder, builder.trunc(args[0], _I32)), steps)

    return I32(types.int64), codegen


@_compiled
def moved_up(typingctx, a, below):
    """Return the numbers one lane up, the last of `below` in the first lane."""

    def codegen(context, builder, sig, args):
        return builder.shuffle_vector(args[1], args[0], _lanes([WIDTH - 1 + k for k in range(WIDTH)]))

    return a(a, below), codegen


@_compiled
def moved_down(typingctx, a, above):
    """Return the numbers one lane down, the first of `above` in the last lane."""

    def codegen(context, builder, sig, args):
        return builder.shuffle_vector(args[0], args[1], _lanes([k + 1 for k in range(WIDTH)]))

    return a(a, above), codegen


@_compiled
def greater(typingctx, a, b):
    """Return a > b; False where either is NaN."""
    real = isinstance(a.element, types.Float)

    def codegen(context, builder, sig, args):
        return builder.fcmp_ordered(">", *args) if real else builder.icmp_signed(">", *args)

    return MASK(a, b), codegen


@_compiled
def choose(typingctx, mask, a, b):
    """Return a where the mask is true, else b."""
    return a(mask, a, b), lambda context, builder, sig, args: builder.select(*args)


@_compiled
def bits_of(typingctx, mask):
    """Return a mask as 16 bits, the first lane lowest."""

    def codegen(context, builder, sig, args):
        bits = builder.bitcast(args[0], _BITS)
        return bits if WIDTH == 16 else builder.zext(bits, _I16)

    return types.uint16(mask), codegen


@_compiled
def bits_of_both(typingctx, low, high):
    """Return two masks as one number of type PAIR, the first lane of `low` lowest."""
    lanes = ir.Constant(ir.VectorType(_I32, 2 * WIDTH), list(range(2 * WIDTH)))

    def codegen(context, builder, sig, args):
        return builder.bitcast(builder.shuffle_vector(*args, lanes), ir.IntType(2 * WIDTH))

    return from_dtype(PAIR)(low, high), codegen


@_compiled
def mask_of(typingctx, bits):
    """Return the mask of the lowest WIDTH of 16 bits."""
    vector = ir.VectorType(ir.IntType(1), WIDTH)

    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0] if WIDTH == 16 else builder.trunc(args[0], _BITS), vector)

    return MASK(types.uint16), codegen


@_compiled
def widened(typingctx, a):
    """Return float32 as float64."""
    vector = ir.VectorType(ir.DoubleType(), WIDTH)
    if a == F64:
        return F64(F64), lambda context, builder, sig, args: args[0]
    return F64(F32), lambda context, builder, sig, args: builder.fpext(args[0], vector)


@_compiled
def whole_of(typingctx, a):
    """Return float32 as int32, rounded towards zero."""
    vector = ir.VectorType(_I32, WIDTH)
    return I32(F32), lambda context, builder, sig, args: builder.fptosi(args[0], vector)


@_compiled
def real_of(typingctx, a):
    """Return int32 as float32."""
    vector = ir.VectorType(ir.FloatType(), WIDTH)
    return F32(I32), lambda context, builder, sig, args: builder.sitofp(args[0], vector)


@_compiled
def raw_bits(typingctx, a):
    """Return the bits of float32 as int32."""
    vector = ir.VectorType(_I32, WIDTH)
    return I32(F32), lambda context, builder, sig, args: builder.bitcast(args[0], vector)


@_compiled
def from_bits(typingctx, a):
    """Return the float32 with these bits."""
    vector = ir.VectorType(ir.FloatType(), WIDTH)
    return F32(I32), lambda context, builder, sig, args: builder.bitcast(args[0], vector)


def _shifted(instruction: str) -> Callable[..., Any]:
    def typed(typingctx, a, by):
        def codegen(context, builder, sig, args):
            return getattr(builder, instruction)(args[0], _splat(builder, builder.trunc(args[1], _I32)))

        return I32(I32, types.int64), codegen

    return typed


shifted_left = _compiled(_shifted("shl"))
shifted_right = _compiled(_shifted("ashr"))


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of WIDTH rows, by log2(WIDTH) rounds of exchanging blocks."""
    step = 1
    while step < WIDTH:
        low = _lanes([WIDTH + k - step if k & step else k for k in range(WIDTH)])
        high = _lanes([WIDTH + k if k & step else k + step for k in range(WIDTH)])
        for i in range(WIDTH):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i], rows[i + step] = builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high)
        step *= 2
    return rows


@_compiled
def gather_transposed(typingctx, tile, rows, first, out, at, stride):
    """Set out[k * stride + at + i] = tile[rows[first + i] * WIDTH + k] for i, k below WIDTH."""

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


@_compiled
def transpose_into(typingctx, x, first, stride, tile, at):
    """Set tile[at + i * WIDTH + k] = x[first + k * stride + i] for i, k below WIDTH."""

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


@_compiled
def add_transposed(typingctx, values, first, stride, rows, at, tile):
    """Add: tile[rows[at + i] * WIDTH + k] += values[first + k * stride + i], lane after lane, for i, k below WIDTH."""

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
            place = _place(builder, target, builder.mul(builder.sext(row, _I64), ir.Constant(_I64, WIDTH)), vector)
            builder.store(builder.fadd(builder.load(place, align=align), value), place, align=align)
        return context.get_dummy_value()

    return types.void(values, types.int64, types.int64, rows, types.int64, tile), codegen


@_compiled
def number(typingctx, value):
    """Return the number of an element: int16 holds bfloat16, uint16 float16, others are numbers."""
    if isinstance(value, types.Float):
        return value(value), lambda context, builder, sig, args: args[0]
    real = ir.FloatType()

    def brain(context, builder, sig, args):
        return builder.bitcast(builder.shl(builder.zext(args[0], _I32), ir.Constant(_I32, 16)), real)

    def half(context, builder, sig, args):
        bits = builder.zext(args[0], _I32)
        size = builder.shl(builder.and_(bits, ir.Constant(_I32, 0x7FFF)), ir.Constant(_I32, 13))
        # Exponents differ by 112; as a product it is right for subnormal numbers too.
        usual = builder.bitcast(builder.fmul(builder.bitcast(size, real), ir.Constant(real, 2.0**112)), _I32)
        endless = builder.or_(size, ir.Constant(_I32, 0x7F800000))
        full = builder.icmp_unsigned(">=", size, ir.Constant(_I32, 0x7C00 << 13))
        sign = builder.shl(builder.and_(bits, ir.Constant(_I32, 0x8000)), ir.Constant(_I32, 16))
        return builder.bitcast(builder.or_(builder.select(full, endless, usual), sign), real)

    return types.float32(value), brain if value == types.int16 else half
