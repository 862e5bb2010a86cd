"""Compilation of the kernels: by Numba, without the interpreter's lock, cached on disk beside the package.

Numba's cache notices changes of a function's own file; kernels call functions of other files. So the state of all
files of this folder is part of each entry's key: after any change they are compiled again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache


def _state() -> str:
    """Return a hash of everything that can be compiled in."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


STATE = _state()


class KernelCache(FunctionCache):
    """Numba's own cache, with the state of the files in the key."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), STATE)

    def is_filled(self) -> bool:
        """Return whether there is compiled code of the current files, for any types."""
        return any(key[-1] == STATE for key in self._cache_file._load_index())


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel: at its first call for each combination of argument types, or from the cache."""
    dispatcher: Any = njit(nogil=True, error_model="numpy")(function)
    # What `cache=True` does, with the cache above.
    dispatcher._cache = KernelCache(function)
    return dispatcher
