"""Modules made again from their source: faults planted in it, compiled kernels interpreted."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest
import simd_by_numpy

from ctc_align.kernels.cpu import cpu_backend

SIMD = "ctc_align.kernels.cpu.simd"
KERNELS = ("emission_tiles", "viterbi", "scaled_numbers", "sums", "long_viterbi")
"""The CPU's kernels on vectors, and what calls them, in the order in which they import each other."""
STRIP = 2
"""Vectors in a strip where kernels are interpreted: short utterances have several strips then."""


def interpreted(
    original: types.ModuleType, old: str = "", new: str = "", instead: Mapping[str, types.ModuleType] | None = None
) -> types.ModuleType:
    """The module again from its source, without numba's decorators, and with `old`, which must be there, replaced.

    What it imports from the modules that `instead` names comes from those.
    """
    path, instead = Path(original.__file__ or ""), instead or {}
    source = path.read_text(encoding="utf-8")
    assert old in source, f"{path.name} no longer says {old!r}: plant the fault where it went"
    source = re.sub(r"^@(njit\(.*\)|compiled)$", "", source.replace(old, new) if old else source, flags=re.MULTILINE)
    source = source.replace("STRIP = 16", f"STRIP = {STRIP}")
    spec = importlib.util.spec_from_loader(f"planted_{path.stem}", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up where they stand
    with mock.patch.dict(sys.modules, instead):
        exec(compile(source, f"patched {path.name}", "exec"), module.__dict__)
    for name, value in list(module.__dict__.items()):
        if isinstance(value, types.ModuleType) and value.__name__ in instead:
            setattr(module, name, instead[value.__name__])
    return module


def interpret_cpu(patch: pytest.MonkeyPatch, name: str = "", old: str = "", new: str = "") -> None:
    """Has the backend `cpu` run its kernels on numpy's vectors, with a fault in the module of this name."""
    instead: dict[str, types.ModuleType] = {SIMD: simd_by_numpy}
    for each in KERNELS:
        original = import_module(f"ctc_align.kernels.cpu.{each}")
        made = interpreted(original, *((old, new) if each == name else ()), instead=instead)
        instead[original.__name__] = made
        if hasattr(cpu_backend, each):
            patch.setattr(cpu_backend, each, made)
    patch.setattr(cpu_backend, "STRIP", STRIP)
    patch.setattr(cpu_backend, "LongPath", instead["ctc_align.kernels.cpu.long_viterbi"].LongPath)
