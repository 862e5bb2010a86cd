"""The GPU's kernels where there is no GPU: copies of their files, interpreted, perhaps with a fault planted in them.

Triton decides when it is imported, and again where a kernel is defined, whether to interpret. So it is imported here
first, while the environment says so, and the package's own modules are left as they are. Copies are real files, for the
interpreter reads the source.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest
import torch

import ctc_align

INTERPRETING = {"TRITON_INTERPRET": "1"}
OLDEST_INTERPRETER = (3, 9)
KERNELS = Path(ctc_align.__file__).parent / "kernels" / "gpu"
NAMES = tuple(sorted(path.stem for path in KERNELS.glob("[a-z]*.py")))


def missing() -> str | None:
    """Why the kernels cannot be interpreted here, or None."""
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    with mock.patch.dict(os.environ, INTERPRETING):
        import triton
        import triton.language as tl

        with contextlib.suppress(ImportError):  # which Triton would import later
            importlib.import_module("triton.experimental.gluon")
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) < OLDEST_INTERPRETER:
        return f"Triton {triton.__version__} is too old to interpret"
    if type(tl.max).__name__ != "InterpretedFunction":
        return "Triton was imported before, and not to interpret"
    return None


def copies(folder: Path, faults: Mapping[str, tuple[str, str]] | None = None) -> dict[str, types.ModuleType]:
    """The modules of `ctc_align/kernels/gpu` again, by their names, as files of `folder`, interpreted.

    `faults`: by the name of a module, what to replace in its source, which must be there, and by what.
    """
    if reason := missing():
        pytest.skip(reason)
    package = f"gpu_copies_{len(sys.modules)}"
    (folder / package).mkdir()
    (folder / package / "__init__.py").touch()
    for path in (KERNELS / f"{name}.py" for name in NAMES):
        source = path.read_text(encoding="utf-8")
        if path.stem in (faults or {}):
            old, new = (faults or {})[path.stem]
            assert old in source, f"{path.name} no longer says {old!r}: plant the fault where it went"
            source = source.replace(old, new)
        source = source.replace("ctc_align.kernels.gpu", package)
        (folder / package / path.name).write_text(source, encoding="utf-8")
    with mock.patch.dict(os.environ, INTERPRETING), mock.patch.object(sys, "path", [str(folder), *sys.path]):
        importlib.invalidate_caches()
        return {name: importlib.import_module(f"{package}.{name}") for name in NAMES}


def backend(folder: Path) -> dict[str, types.ModuleType]:
    """The modules of the backend: on a card if there is one, else interpreted."""
    if torch.cuda.is_available():
        return {name: importlib.import_module(f"ctc_align.kernels.gpu.{name}") for name in NAMES}
    return copies(folder)
