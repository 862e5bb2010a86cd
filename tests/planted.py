"""Faults planted in the source of compiled kernels, which then run interpreted."""

from __future__ import annotations

import importlib.util
import re
import types
from pathlib import Path


def interpreted(path: Path, old: str = "", new: str = "") -> types.ModuleType:
    """The module at `path` without numba's decorators, with every `old` in its source replaced."""
    source = path.read_text(encoding="utf-8")
    assert old in source, f"{path.name} no longer says {old!r}: plant the fault where it went"
    source = re.sub(r"^@njit\(.*\)$", "", source.replace(old, new) if old else source, flags=re.MULTILINE)
    spec = importlib.util.spec_from_loader(path.stem, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(source, f"patched {path.name}", "exec"), module.__dict__)
    return module
