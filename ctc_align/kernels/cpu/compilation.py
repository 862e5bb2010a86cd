"""Compile the kernels by Numba and keep them in a cache on disk.

Compiled kernels run without the interpreter's lock.

There is one file for each function, the state of its source and of all that it imports here, its
types of arguments, and the processor: a line that names the form, the checksum of the rest, and the
rest, which is the key in words and the code, pickled by Numba. What is cut, garbled or of another
form counts as absent: the kernel is compiled again, and the file replaced whole. Files that were
not read for a month are removed.

Folders, the first that can be used: `NUMBA_CACHE_DIR`, `__pycache__` beside the kernels, the user's
folder of caches; on Windows only the last. All of them are read, so that an installation that was
used once may be made read-only. Where none can be written kernels are compiled at each start, which
is said once; processes that belong together may share a folder for their time by
`CTC_ALIGN_SHARED_KERNELS`. Like every pickle, a file runs code when it is read: folders and files
that somebody else can have written are not used (`private_folders`).
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pickle
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_name, parse_assembly, parse_bitcode
from numba import config, njit
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.extending import register_jitable

from ctc_align.machine.private_folders import (
    HAS_OWNERS,
    PRIVATE,
    make_private_folder,
    private_folder_in,
    read_folder_variable,
    read_private_file,
    user_folder,
    why_not_trusted,
    write_private_file,
)

CHOSEN = "NUMBA_CACHE_DIR"
"""The environment variable that names the user's choice of a folder."""
SHARED = "CTC_ALIGN_SHARED_KERNELS"
"""The environment variable that names a folder of processes that belong together."""
_IMPORT = re.compile(r"from ctc_align\.kernels\.cpu(?:\.(\w+) import| import (\([^)]*\)|[^\n]*))")
_FORM = b"ctc-align kernel 1\n"
_DIGEST_BYTES = 32
_UNUSED_S = 30 * 86400.0
"""Kernels that were not used for this long are removed."""
_DAY_S = 86400.0
_FOLDER = "ctc-align-kernels"
_READABLE = 0o755
"""The mode of the folder beside the kernels: whoever may run the package may read what was compiled
for it."""

logger = logging.getLogger(__name__)


@functools.cache
def state_of(module: str) -> str:
    """Return a hash of everything that can be compiled into a kernel of this module.

    The module is one of this folder; the hash covers its file and, step by step, all files of this
    folder that it imports.

    An import within a function counts, too, and so does one that only types need: rather once too
    often than not.
    """
    folder = Path(__file__).parent
    found = set()
    ahead = [module]
    while ahead:
        path = folder / f"{ahead.pop()}.py"
        if path not in found and path.is_file():
            found.add(path)
            ahead += _imported(path.read_text("utf-8"))
    return hashlib.sha256(
        b"".join(path.name.encode() + path.read_bytes() for path in sorted(found))
    ).hexdigest()


def _imported(source: str) -> list[str]:
    """Return the modules of this folder that a source imports, and names that may be such."""
    names: list[str] = []
    for module, listed in _IMPORT.findall(source):
        names += [module] if module else re.findall(r"\w+", listed)
    return names


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes no arrays.

    It is compiled at its first call for each combination of types, or taken from the cache.

    Arrays are not counted, as Numba does unless told otherwise: each of a call's, and each part of
    a tuple, would cost an atomic operation, and all of them together as much as some frames.
    """
    return _cached(njit(nogil=True, error_model="numpy", _nrt=False)(function), makes_arrays=False)


def compiled_with_arrays(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes arrays."""
    return _cached(njit(nogil=True, error_model="numpy")(function), makes_arrays=True)


def _cached(dispatcher: Any, *, makes_arrays: bool) -> Any:
    # What `cache=True` does, with the cache below: Numba has no public way to another.
    dispatcher._cache = KernelCache(dispatcher.py_func, makes_arrays)
    return dispatcher


def in_kernels_too(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a function, which is compiled into each of them.

    Python still calls it as it is, on NumPy's arrays.
    """
    register_jitable(_nrt=False)(function)
    return function


class KernelCache:
    """The cache of one kernel, in the form that Numba's dispatcher asks for."""

    def __init__(self, function: Callable[..., Any], makes_arrays: bool) -> None:
        self._makes_arrays = makes_arrays
        module = function.__module__.rpartition(".")[2]
        self._name = f"{module}.{function.__qualname__}"
        # Now, when its imports have been executed: later the files may be those of another version.
        state = state_of(module), numba.__version__, sys.version, _processor()
        self._state = hashlib.sha256(repr(state).encode()).hexdigest()
        self._is_enabled = True

    @property
    def cache_path(self) -> str | None:
        """The folder that is written to, None where there is none."""
        folder = writable_folder()
        return None if folder is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for these types of arguments.

        None where no folder has it whole.
        """
        # What compiled code that makes arrays calls. All of Numba's types, which `refresh`
        # registers, only a compiler needs.
        if self._makes_arrays:
            rtsys.initialize(target_context)
        if not self._is_enabled:
            return None
        key = self._key(sig, target_context.codegen())
        for folder in trusted_folders():
            with suppress(Exception):  # whatever it is, the kernel can be compiled
                path = folder / self._file_name(key)
                stored, reduced = pickle.loads(_content(path))
                if stored == key:
                    _note_use(path)
                    return _rebuilt(target_context, *reduced)
        _tell_compiling()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function; where that is impossible say so once."""
        if not self._is_enabled or data.lifted or data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        content = dumps((key, data._reduce()))
        for folder in _writable_folders():
            with suppress(OSError):
                _replace(folder / self._file_name(key), content)
                _remove_unused_kernels(folder)
                if str(folder.parent) != os.environ.get(SHARED):
                    return
        _tell_uncached()

    def enable(self) -> None:
        """Use the cache."""
        self._is_enabled = True

    def disable(self) -> None:
        """Neither read nor write."""
        self._is_enabled = False

    def flush(self) -> None:
        """Remove the files of this kernel."""
        for folder in trusted_folders():
            for path in folder.glob(f"{self._name}-*.kernel"):
                with suppress(OSError):
                    path.unlink()

    def is_filled(self, forms: int = 1) -> bool:
        """Return whether there is enough compiled code of the current files.

        That is, for at least `forms` combinations of types.

        The compiled code may be damaged.
        """
        pattern = f"{self._name}-{self._state[:16]}-*.kernel"
        return (
            len({path.name for folder in trusted_folders() for path in folder.glob(pattern)})
            >= forms
        )

    def _key(self, sig: Any, codegen: Any) -> str:
        return repr((self._state, self._name, sig, codegen.magic_tuple()))

    def _file_name(self, key: str) -> str:
        digest = hashlib.sha256(key.encode()).hexdigest()
        return f"{self._name}-{self._state[:16]}-{digest[:32]}.kernel"


@functools.cache
def _processor() -> str:
    """Return the name of the processor that Numba compiles for; it takes a while to find out."""
    return str(config.CPU_NAME or get_host_cpu_name())


class _Bitcode:
    """A compiled function in the form from which LLVM compiles it into its callers.

    It is parsed when a caller first asks for it.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    def as_bitcode(self) -> bytes:
        return self._content

    def clone(self) -> Any:
        return parse_bitcode(self._content)


def _rebuilt(target_context: Any, library: Any, description: Any, *rest: Any) -> CompileResult:
    """Return the compiled function from what Numba keeps of it, its machine code alone.

    Numba would also parse the bitcode, in four fifths of the time, to know that the function's
    symbol is there.
    """
    name, kind, (code, bitcode) = library
    symbol = parse_assembly(
        f'define void @"{description.llvm_cpython_wrapper_name}"() {{ ret void }}'
    ).as_bitcode()
    result = CompileResult._rebuild(
        target_context, (name, kind, (code, symbol)), description, *rest
    )
    result.library._shared_module = _Bitcode(bitcode)
    return result


def _content(path: Path) -> bytes:
    """Return what a file holds behind its checksum.

    Raises:
        OSError: it cannot be read, or somebody else may have written it.
        ValueError: it is not whole, or of another form.
    """
    data = read_private_file(path)
    start = len(_FORM) + _DIGEST_BYTES
    content = data[start:]
    if data[:start] != _FORM + hashlib.sha256(content).digest():
        raise ValueError(f"{path}: not a compiled kernel, or not all of it")
    return content


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        write_private_file(
            part, _FORM + hashlib.sha256(content).digest() + content, _mode_in(path.parent.parent)
        )
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def cache_places() -> list[Path]:
    """Return the folders in which the folder of this version may lie."""
    home = user_folder("ctc-align", "cache")
    if not HAS_OWNERS:
        return [home] if home else []
    places = [
        read_folder_variable(CHOSEN),
        _place_beside_kernels(),
        home,
        read_folder_variable(SHARED),
    ]
    return [place for place in places if place]


def _place_beside_kernels() -> Path:
    return Path(__file__).with_name("__pycache__")


def _mode_in(place: Path) -> int:
    if place == _place_beside_kernels():
        return _READABLE
    return PRIVATE


def cache_folders() -> list[Path]:
    """Return the folders of compiled kernels; the first that can be written is written to."""
    return [private_folder_in(place, _FOLDER) for place in cache_places()]


def trusted_folders() -> list[Path]:
    """Return the folders that compiled kernels are read from."""
    return [folder for folder in cache_folders() if why_not_trusted(folder) is None]


def writable_folder() -> Path | None:
    """Return the folder that is written to, None where there is none."""
    return next(_writable_folders(), None)


def _writable_folders() -> Iterator[Path]:
    """Yield the folders that can be written, made where they do not exist."""
    for folder in cache_folders():
        try:
            is_new = not folder.exists()
            make_private_folder(folder, _mode_in(folder.parent))
            if not os.access(folder, os.W_OK):
                continue
        except OSError as error:
            if folder.parent == read_folder_variable(CHOSEN):
                _tell_unused(error.strerror)
            continue
        if is_new:
            _remove_former_folders(folder.parent)
        yield folder


def _note_use(path: Path) -> None:
    """Set the file's time to now, at most once a day.

    A file that may not be written is not removed either.
    """
    with suppress(OSError):
        if path.stat().st_mtime < time.time() - _DAY_S:
            os.utime(path)


@functools.cache
def _remove_unused_kernels(folder: Path) -> None:
    """Remove, once in a process, the kernels that were not used in a long time."""
    with suppress(OSError):
        for path in folder.glob("*.kernel"):
            with suppress(OSError):
                if path.stat().st_mtime < time.time() - _UNUSED_S:
                    path.unlink()


def _remove_former_folders(place: Path) -> None:
    """Remove the folders of former versions, which had one each.

    They go if nothing was compiled for them in a long time.
    """
    with suppress(OSError):
        for folder in place.glob("ctc-align-*"):
            is_ours = (
                re.fullmatch(r"ctc-align-[0-9a-f]{16}", folder.name) and not folder.is_symlink()
            )
            if is_ours and folder.stat().st_mtime < time.time() - _UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _tell_compiling() -> None:
    """Say once that a kernel is compiled, on which its first call waits."""
    logger.info("compiling kernels for this machine, once: it takes from some seconds to a minute")


@functools.cache
def _tell_unused(reason: str) -> None:
    """Say once that the folder which the user chose is not used."""
    logger.warning("%s=%s is not used for compiled kernels: %s", CHOSEN, os.environ[CHOSEN], reason)


@functools.cache
def _tell_uncached() -> None:
    """Say once that compiled kernels are not kept."""
    logger.warning(
        "cannot write to %s, so kernels are compiled again at each start, which takes up to a"
        " minute; set %s to a folder to which only you can write",
        ", ".join(str(place) for place in cache_places() if str(place) != os.environ.get(SHARED)),
        CHOSEN,
    )
