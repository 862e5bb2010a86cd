"""Modules made again from their source: faults planted in it, compiled kernels interpreted."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from ctc_align.kernels.cpu import cpu_backend

COMPILATION = "ctc_align.kernels.cpu.compilation"
KERNELS = ("emission_tiles", "viterbi", "scaled_numbers", "sum_recursion", "sums", "long_viterbi")
"""The CPU's kernels on vectors, and what calls them, in the order in which they import each
other."""
STRIP = 2
"""Vectors in a strip where kernels are interpreted: short utterances have several strips then."""

Fault = Callable[[Any], Any]
"""Of an operation, which is called by its name in its module: what takes its place."""


def interpreted(
    original: types.ModuleType,
    old: str = "",
    new: str = "",
    instead: Mapping[str, types.ModuleType] | None = None,
    faults: Mapping[str, Fault] | None = None,
) -> types.ModuleType:
    """The module again from its source, uncompiled, with `old`, which must be there, replaced, and
    with faults in the operations of these names.

    What it imports from the modules that `instead` names comes from those.
    """
    path, instead = Path(original.__file__ or ""), {COMPILATION: uncompiled(), **(instead or {})}
    source = path.read_text(encoding="utf-8")
    assert old in source, f"{path.name} no longer says {old!r}: plant the fault where it went"
    source = source.replace(old, new) if old else source
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
    for name, fault in (faults or {}).items():
        setattr(module, name, fault(getattr(module, name)))
    return module


def uncompiled() -> types.ModuleType:
    """The module `compilation`, whose decorators do nothing."""
    module = types.ModuleType(COMPILATION)
    for name in ("compiled", "compiled_with_arrays", "in_kernels_too"):
        setattr(module, name, lambda function: function)
    return module


def interpret_cpu(
    patch: pytest.MonkeyPatch, operation: str = "", fault: Fault | None = None
) -> None:
    """Has the backend `cpu` run its kernels on numpy's vectors, with a fault in an operation,
    "module.name"."""
    of, _, name = operation.rpartition(".")
    assert not of or of in KERNELS, f"no module of the kernels on vectors: {of}"
    instead: dict[str, types.ModuleType] = {}
    for each in KERNELS:
        original = import_module(f"ctc_align.kernels.cpu.{each}")
        faults = {name: fault} if fault and each == of else None
        made = interpreted(original, instead=instead, faults=faults)
        instead[original.__name__] = made
        if hasattr(cpu_backend, each):
            patch.setattr(cpu_backend, each, made)
    patch.setattr(cpu_backend, "STRIP", STRIP)
    patch.setattr(cpu_backend, "LongPath", instead["ctc_align.kernels.cpu.long_viterbi"].LongPath)
