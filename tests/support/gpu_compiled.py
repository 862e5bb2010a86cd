"""Compiles the GPU's kernels for a card that need not be there: python tests/gpu_compiled.py

Prints one JSON object a line: the kernel's case, and how many barriers and shuffles are in its machine code. Needs
Triton for CUDA, on Linux; TRITON_INTERPRET must not be set. `tests/kernels/test_gpu_compiled.py` runs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

CAPABILITY = 90
WALK = {"LANES": 32, "STRIPS": 1, "ROWS": 1, "HALO": 0, "PLAIN": True, "STAYS": True, "WILD": False, "DETOURS": False}
MANY = {**WALK, "STRIPS": 16, "HALO": 16}
GENERAL = {"PLAIN": False, "STAYS": False, "WILD": True, "DETOURS": True}
SUM = {"LOG": False, "TILED": False, "ENTRIES": False, "KEPT": True, "AGAIN": False, "SECOND": False}
TILED = {"TILED": True, "ENTRIES": True}
PATH = {"BITS": 2, "BANDED": False, "TILED": False, "ENTRIES": False, "POINTERS": True, "AGAIN": False}
LINES = {"LINES": 4, "STATES": 128}
POSTERIOR = {"LINES": 4, "CLASSES": 16, "EACH": 8, "LOG": False, "WILD": False, "AGAIN": False}

POINTERS = {
    "x": "*fp32", "wild": "*fp32", "centres": "*fp32", "emit": "*i32", "flags": "*u8", "numbers": "*i32",
    "detours": "*i32", "bands": "*i32", "reach": "*i32", "exits": "*i32", "scores": "*fp64", "totals": "*i64",
    "norms": "*fp64", "order": "*i32", "bounds": "*i32", "out": "*fp32", "out_wild": "*fp32", "rows": "*i64",
    "origins": "*i32", "meeting_origins": "*i32", "edge_origins": "*i32", "ring_origins": "*i32",
}  # fmt: skip


def cases() -> Iterator[tuple[str, Any, dict[str, Any], dict[str, str], int]]:
    """Name, kernel, constants, types of the pointers that differ, warps."""
    from ctc_align.kernels.gpu import path_kernels, posterior_kernels, sum_kernels

    sums = dict.fromkeys(("meeting", "edges", "entries", "last", "ring"), "*i64")
    paths = dict.fromkeys(("meeting", "edges", "entries", "last", "ring"), "*fp64")
    narrow, wide = {**paths, "pointers": "*i8"}, {**paths, "pointers": "*i32"}
    half, double = {"x": "*bf16"}, {"x": "*fp64", "wild": "*fp64", "centres": "*fp64"}
    yield "sum, one strip", sum_kernels.sweep, {**WALK, **SUM}, sums, 1
    yield "sum, strips", sum_kernels.sweep, {**MANY, **SUM, **TILED}, {**sums, **half}, 16
    yield "sum, logarithms", sum_kernels.sweep, {**MANY, **SUM, **TILED, "LOG": True, "SECOND": True}, sums, 16
    yield "sum, all ways", sum_kernels.sweep, {**MANY, **GENERAL, **SUM, "AGAIN": True}, sums, 16
    yield "path, one strip", path_kernels.sweep, {**WALK, **PATH}, narrow, 1
    yield "path, strips", path_kernels.sweep, {**MANY, **PATH, **TILED, "POINTERS": False}, narrow, 16
    yield "path, again", path_kernels.sweep, {**MANY, **PATH, "BANDED": True, "AGAIN": True}, {**narrow, **half}, 16
    yield "path, all ways", path_kernels.sweep, {**MANY, **GENERAL, **PATH, "BITS": 8}, wide, 16
    yield "block ends", path_kernels.block_ends, {"ROWS": 1, "STEP": 128}, paths, 4
    yield (
        "inside",
        path_kernels.inside,
        {"PAIRS": 32, "BITS": 8, "AGAIN": True},
        {"states": "*i32", "pointers": "*i32"},
        1,
    )
    yield "centre", posterior_kernels.centre, {**LINES, "DOUBLE": False, "WILD": True, "BANDED": True}, half, 4
    yield "total", posterior_kernels.total, {"ROWS": 1, "STEP": 128, "LOG": False}, {**sums, "states": "*i32"}, 4
    yield "norm", posterior_kernels.norm, {**LINES, "AGAIN": True}, {**double, "states": "*i32"}, 4
    yield "posterior", posterior_kernels.posterior, POSTERIOR, {"states": "*i32"}, 4


def main() -> None:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for name, kernel, constants, types, warps in cases():
        types = {**POINTERS, **types}
        signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
        source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
        options = {"num_warps": warps, "num_stages": 1, "enable_fp_fusion": True}
        made = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options=options)
        code = made.asm["ptx"]
        counts = {"barriers": code.count("bar.sync"), "shuffles": code.count("shfl.sync")}
        print(json.dumps({"case": name, **counts, "bytes": len(made.asm["cubin"])}), flush=True)


if __name__ == "__main__":
    main()
