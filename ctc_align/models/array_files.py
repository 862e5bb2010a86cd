"""Arrays in files: .npy (mapped into memory), .npz, .safetensors, .pt, and Kaldi's archives (FILE.ark:OFFSET).

What a header says is checked before memory is taken for it: against the size of the file, and against what is free.
Nothing is unpickled but by `torch.load(weights_only=True)`, of versions of torch in which that is safe.
"""

from __future__ import annotations

import math
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ctc_align.errors import EmissionsError, UsageError
from ctc_align.extras import install_line
from ctc_align.reading import open_input, require_memory, require_regular

EXTENSIONS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
KEY = "log_probs"

Check = Callable[[tuple[int, ...]], None]
"""Called with the shape of an array before it is read; raises EmissionsError where it is not wanted."""

_ARK_PLACE = re.compile(r"(.+\.ark):([0-9]{1,18})", re.DOTALL)
_ARK_MATRICES = {b"\0BFM ": 4, b"\0BDM ": 8, b"\0BCM ": 1, b"\0BCM2 ": 2, b"\0BCM3 ": 1}
"""Headers of binary matrices in Kaldi archives (float32, float64, compressed), and the bytes of each value."""
_ARK_HEAD = 32
_WIDEST_BYTES = 8
_NPY_HEAD = 64
_READ_BYTES = 2**24
_SAFE_TORCH = (2, 10)
"""Before it `torch.load(weights_only=True)` could be made to run code: CVE-2025-32434, and one that 2.10 mended."""


def _split_place(path: str) -> tuple[str, int] | None:
    """Return file and offset of `FILE.ark:OFFSET`, None for any other path.

    >>> _split_place("logprobs/1.ark:1734"), _split_place("1.ark")
    (('logprobs/1.ark', 1734), None)
    """
    match = _ARK_PLACE.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def is_log_probs_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names log-probs rather than sound, by its extension or its place in an archive.

    >>> is_log_probs_path("talk.NPY"), is_log_probs_path("1.ark:1734"), is_log_probs_path("talk.wav")
    (True, True, False)
    """
    return Path(path).suffix.lower() in EXTENSIONS or _split_place(os.fspath(path)) is not None


def file_of(path: str | os.PathLike[str]) -> str:
    """Return the file of a path: the archive of `FILE.ark:OFFSET`, else the path itself."""
    place = _split_place(os.fspath(path))
    return os.fspath(path) if place is None else place[0]


def read_array(path: str | os.PathLike[str], check: Check) -> Any:
    """Return the array in a file, as its reader gives it.

    Raises:
        UsageError: no such file, or another extension.
        EmissionsError: no regular file; damaged, of another kind, not what its header says, or too large.
    """
    name = os.fspath(path)
    if not is_log_probs_path(path):
        raise UsageError(f"{name}: expected log-probs in {', '.join(EXTENSIONS)} or FILE.ark:OFFSET")
    kind = ".ark" if _split_place(name) else Path(path).suffix.lower()
    try:
        require_regular(file_of(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _READERS[kind](name, check)
    except (EmissionsError, UsageError):
        raise
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise EmissionsError(f"{name}: cannot be read: {error.strerror or error}") from error
    # each reader has its own errors, and some of them advise unsafe loading
    except Exception as error:
        raise EmissionsError(
            f"{name}: expected log-probs, got a file that cannot be read as {kind}: "
            "it is damaged, of another kind, or holds more than plain arrays"
        ) from error


def frames_of(name: str) -> int | None:
    """Return the number of frames by the header of `.npy` and Kaldi's archives, None for other kinds.

    Raises any error where the file is damaged.
    """
    if _split_place(name):
        return _ark_frames(name)
    if Path(name).suffix.lower() != ".npy":
        return None
    require_regular(name)
    return _read_npy(name, lambda shape: None).shape[-2]


def reads_torch_files() -> bool:
    """Return whether this version of torch reads files of tensors without running what is in them."""
    import torch

    version = tuple(int(number) for number in re.findall(r"[0-9]{1,6}", str(torch.__version__))[:2])
    return version >= _SAFE_TORCH


def load_torch_file(path: str | os.PathLike[str], *, mapped: bool = False) -> Any:
    """Return what `torch.load(weights_only=True)` reads from a file, on the CPU; `mapped`: its values stay in the file.

    Raises:
        EmissionsError: torch is too old to read such files safely.
        OSError: no regular file, or larger inside than what is free.
        Exception: of many kinds where it is damaged.
    """
    import torch

    name = os.fspath(path)
    if not reads_torch_files():
        raise EmissionsError(
            f"{name}: is not read by torch {torch.__version__}, where a prepared file could run code (CVE-2025-32434); "
            "install torch 2.10 or later, or save log-probs as .npy or .safetensors"
        )
    require_regular(name)
    is_zip = zipfile.is_zipfile(name)
    size = os.path.getsize(name)
    if is_zip:
        with zipfile.ZipFile(name) as archive:
            inside = archive.infolist()
        # torch stores and never packs: what is packed may unpack to anything
        if any(info.compress_type != zipfile.ZIP_STORED or info.file_size > size for info in inside):
            raise ValueError("not a file that torch wrote")
    if not mapped or not is_zip:
        require_memory(size, name)
    return torch.load(name, map_location="cpu", weights_only=True, mmap=mapped and is_zip)


def _entry(tensors: Any, name: str) -> Any:
    """Return the entry `log_probs` of a container, or its only one."""
    keys = list(tensors)
    if KEY in keys:
        return tensors[KEY]
    if len(keys) == 1:
        return tensors[keys[0]]
    raise EmissionsError(
        f"{name}: expected an entry {KEY!r} or a single one, got {', '.join(map(str, keys)) or 'none'}"
    )


def _read_npy(name: str, check: Check) -> Any:
    import numpy as np

    # copy-on-write: mapped like "r", but torch wraps it without a warning
    return np.lib.format.open_memmap(name, mode="c")


def _read_npz(name: str, check: Check) -> Any:
    import numpy as np

    with open_input(name) as file:
        if file.read(_NPY_HEAD).startswith(np.lib.format.MAGIC_PREFIX) and file.tell() == _NPY_HEAD:
            raise EmissionsError(f"{name}: expected an archive (.npz), got a single array: call it .npy")
        with zipfile.ZipFile(file) as archive:
            entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            # only this entry is read
            info = _entry(entries, name)
            with archive.open(info) as member:
                return _unpacked(member, info.file_size, name, check)


def _unpacked(member: Any, declared: int, name: str, check: Check) -> Any:
    """Return the array in an entry of an archive, which must hold as many bytes as its header says, and no more."""
    import numpy as np

    formats = np.lib.format
    version = formats.read_magic(member)
    reader = {(1, 0): formats.read_array_header_1_0, (2, 0): formats.read_array_header_2_0}[version]
    shape, in_columns, dtype = reader(member)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise EmissionsError(f"{name}: expected plain numbers, got {dtype} of shape {shape}")
    needed = math.prod(shape) * dtype.itemsize
    if needed > declared:
        raise EmissionsError(f"{name}: is damaged: {needed} bytes for the shape {shape}, got {declared}")
    check(shape)
    require_memory(needed, name)
    array = np.empty(shape, dtype, order="F" if in_columns else "C")
    flat = (array.T if in_columns else array).reshape(-1).view(np.uint8)
    place = 0
    while place < needed:
        part = member.read(min(needed - place, _READ_BYTES))
        if not part:
            raise EmissionsError(f"{name}: is damaged: {needed} bytes for the shape {shape}, got {place}")
        flat[place : place + len(part)] = np.frombuffer(part, np.uint8)
        place += len(part)
    return array


def _read_safetensors(name: str, check: Check) -> Any:
    from safetensors import safe_open

    with safe_open(name, framework="pt") as archive:
        key = _entry({key: key for key in archive.keys()}, name)  # noqa: SIM118
        part = archive.get_slice(key)
        shape = tuple(part.get_shape())
        check(shape)
        require_memory(math.prod(shape) * _WIDEST_BYTES, name)
        return archive.get_tensor(key)


def _read_pt(name: str, check: Check) -> Any:
    loaded = load_torch_file(name, mapped=True)
    array = _entry(loaded, name) if isinstance(loaded, dict) else loaded
    check(tuple(getattr(array, "shape", ())))
    return array


def _read_ark(path: str, check: Check) -> Any:
    """Return the matrix (T, C) at `FILE.ark:OFFSET`; nothing is run, no pickle is opened."""
    try:
        from kaldiio.matio import read_kaldi
    except ImportError as error:
        raise UsageError(f"{path}: Kaldi's archives need an extra: {install_line('kaldi')}") from error
    file, offset = _ark_place(path)
    with open_input(file) as archive:
        check(_ark_shape(archive, offset, path))
        archive.seek(offset)
        return read_kaldi(archive)


def _ark_frames(path: str) -> int:
    """Return the number of rows in the header of the matrix at `FILE.ark:OFFSET`."""
    file, offset = _ark_place(path)
    with open_input(file) as archive:
        return _ark_shape(archive, offset, path)[0]


def _ark_shape(archive: BinaryIO, offset: int, path: str) -> tuple[int, int]:
    """Return rows and columns by the header of a matrix, which the archive must hold whole."""
    archive.seek(offset)
    head = archive.read(_ARK_HEAD)
    kind = _check_ark(head, path)
    if kind.startswith(b"\0BCM"):  # two floats before rows and columns
        rows, columns = struct.unpack_from("<ii", head, len(kind) + 8)
    else:  # a size byte before each
        rows, columns = (struct.unpack_from("<i", head, len(kind) + place)[0] for place in (1, 6))
    left = os.fstat(archive.fileno()).st_size - offset
    if rows < 0 or columns < 0 or rows * columns * _ARK_MATRICES[kind] > left:
        raise EmissionsError(f"{path}: is damaged: a matrix of {rows} x {columns} in {left} bytes")
    require_memory(rows * columns * _WIDEST_BYTES, path)
    return rows, columns


def _ark_place(path: str) -> tuple[str, int]:
    place = _split_place(path)
    assert place is not None, "callers check first"
    return place


def _check_ark(head: bytes, path: str) -> bytes:
    for kind in _ARK_MATRICES:
        if head.startswith(kind) and len(head) >= len(kind) + 10:
            return kind
    raise EmissionsError(f"{path}: expected a binary matrix of Kaldi's at this offset, got {head[:8]!r}")


_READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".ark": _read_ark,
}
