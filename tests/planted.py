"""Faults planted in the source of a module, whose compiled kernels then run interpreted."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path


def interpreted(original: types.ModuleType, old: str = "", new: str = "") -> types.ModuleType:
    """The module again from its source, without numba's decorators, and with `old`, which must be there, replaced."""
    path = Path(original.__file__ or "")
    source = path.read_text(encoding="utf-8")
    assert old in source, f"{path.name} no longer says {old!r}: plant the fault where it went"
    source = re.sub(r"^@njit\(.*\)$", "", source.replace(old, new) if old else source, flags=re.MULTILINE)
    spec = importlib.util.spec_from_loader(f"planted_{path.stem}", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up where they stand
    exec(compile(source, f"patched {path.name}", "exec"), module.__dict__)
    return module
