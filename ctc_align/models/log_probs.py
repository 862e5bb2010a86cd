"""Log-probs of other programs, as if a model had returned them.

They are read from files of arrays, checked, and joined with a vocabulary.
"""

from __future__ import annotations

import math
import os
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
import numpy as np

from ctc_align import units
from ctc_align.errors import (
    CtcAlignError,
    EmissionsError,
    MissingExtraError,
    UsageError,
    WrongArrayError,
)
from ctc_align.extras import has_torch, install_line, version_of
from ctc_align.models.array_checks import blank_of_array, check_values
from ctc_align.models.vocabulary import (
    default_blank,
    load_vocab,
    resolve_blank,
    surplus,
    without_disambiguation,
)
from ctc_align.reading import open_input, require_memory, require_regular
from ctc_align.threads import imported_torch
from ctc_align.types import Emissions, get_log_probs

if TYPE_CHECKING:
    import torch

_FIRST = 3
"""If this many arrays do not fit, the vocabulary or the blank is wrong; one may be an exception."""
_LONGEST_SHIFT_S = 1.0
_SHORTEST_SHIFT_S = 1e-4
_LIKELY_SHIFT_S = 0.02
_LIKELY_FRAME_BYTES = 128


@dataclass(frozen=True)
class LogProbsReader:
    """A reader of log-probs with one vocabulary, frame shift (seconds) and blank (token or index).

    The default blank is index 0. If another token has the name of a blank, or behaves like one in
    the array, the reader raises an error that asks for the blank.
    """

    vocab_path: str
    frame_shift_s: float
    blank: int | str | None = None

    @cached_property
    def _vocab(self) -> tuple[tuple[str, ...], int]:
        check_frame_shift(self.frame_shift_s)
        vocab = load_vocab(self.vocab_path)
        return vocab, (
            default_blank(vocab) if self.blank is None else resolve_blank(self.blank, vocab)
        )

    def check(self) -> None:
        """Raise UsageError or EmissionsError if vocabulary, frame shift or blank are wrong."""
        self._vocab  # noqa: B018

    def read(
        self,
        path: str | os.PathLike[str],
        *,
        offset_s: float = 0.0,
        duration_s: float | None = None,
    ) -> Emissions:
        """Read log-probs (T, C), natural log, on the CPU.

        They are those of a whole file, or of `duration_s` seconds from `offset_s` on. float16 and
        bfloat16 become float32, a leading axis of length one is dropped, `.npy` is mapped, not
        read. `-inf` is an impossible class. Rows that do not sum to one are used unchanged, with a
        warning.

        Raises:
            UsageError: there is no such file, the frame shift is invalid, or the vocabulary lacks
                the blank.
            EmissionsError: the file cannot be read; it has a wrong shape or type, no frames, NaN or
                +inf; or the vocabulary has a different size.
            WrongArrayError: the file has probabilities instead of their logarithms, or the like; or
                no blank is given, and index 0 is not the blank.
        """
        vocab, blank = self._vocab
        array = read_array(path, lambda shape: _check_classes(vocab, shape, os.fspath(path)))
        if offset_s or duration_s is not None:
            array = self._part(
                _floats(array, os.fspath(path)), offset_s, duration_s, os.fspath(path)
            )
        emissions = Emissions(
            array, vocab, float(self.frame_shift_s), blank, offset_s=offset_s, name=os.fspath(path)
        )
        checked = check_emissions(emissions, trim_vocab=True)
        if self.blank is not None:
            return checked
        return checked.altered(blank=blank_of_array(checked.array, checked.vocab, checked.name))

    def check_first(self, parts: Iterable[tuple[str, float, float | None]]) -> None:
        """Raise WrongArrayError if the first arrays of a corpus do not fit this reader.

        In this case the call is wrong, not a file. `parts` are paths, offsets and durations, as for
        `read`. Other errors concern a single array, and are left to `read`.
        """
        errors: list[WrongArrayError] = []
        for path, offset_s, duration_s in islice(parts, _FIRST):
            try:
                self.read(path, offset_s=offset_s, duration_s=duration_s)
                return
            except WrongArrayError as error:
                errors.append(error)
            except CtcAlignError:
                continue
        if errors:
            raise errors[0]

    def _part(self, array: Any, offset_s: float, duration_s: float | None, name: str) -> Any:
        first = units.seconds_to_frames(offset_s, self.frame_shift_s)
        if duration_s is None:
            last = None
        else:
            last = units.seconds_to_frames(offset_s + duration_s, self.frame_shift_s)
        part = array[first:last]
        if 0 in part.shape:
            raise EmissionsError(
                f"{name}: expected frames from {offset_s} s on, got {array.shape[-2]} frames in all"
            )
        return part


def estimated_seconds(path: str | os.PathLike[str]) -> float:
    """Return a rough duration from the file's header or size, for planning.

    It assumes frames of 20 ms and 32 classes. 0 if it is unknown; reading the file reports what is
    wrong.
    """
    name = os.fspath(path)
    try:
        frames = frames_of(name)
        if frames is None:
            frames = os.path.getsize(name) // _LIKELY_FRAME_BYTES
    except Exception:  # of any kind that a damaged header causes
        return 0.0
    return units.frames_to_seconds(frames, _LIKELY_SHIFT_S)


def check_emissions(emissions: Emissions, *, trim_vocab: bool = False) -> Emissions:
    """Check emissions; return them with contiguous log-probs (T, C), float32 or float64.

    `log_probs` may be a NumPy array or a tensor, which stays on its device. With `trim_vocab`,
    Kaldi's disambiguation symbols (`#0`, `#1` …) at the end of a vocabulary that is too long are
    dropped.

    Raises:
        EmissionsError: see `LogProbsReader.read`.
        UsageError: the frame shift is invalid, or the blank is outside the vocabulary.
    """
    name = emissions.name or "log-probs"
    check_frame_shift(emissions.frame_shift_s)
    if not math.isfinite(emissions.offset_s):
        raise UsageError(
            f"{name}: expected offset_s as a number of seconds, got {emissions.offset_s}"
        )
    if emissions.duration_s is not None and not 0 < emissions.duration_s < math.inf:
        raise UsageError(
            f"{name}: expected duration_s as a positive number of seconds, got"
            f" {emissions.duration_s}"
        )
    vocab = tuple(emissions.vocab)
    array = _floats(get_log_probs(emissions), name)
    if trim_vocab:
        vocab = without_disambiguation(vocab, array.shape[1])
    _check_classes(vocab, tuple(array.shape), name)
    log_probs = _contiguous(array, name)
    checked = emissions.altered(
        log_probs=log_probs, vocab=vocab, blank=resolve_blank(emissions.blank, vocab)
    )
    check_values(checked.array, name)
    return checked


def _check_classes(vocab: tuple[str, ...], shape: tuple[int, ...], name: str) -> None:
    """Raise EmissionsError if log-probs of this shape do not fit the vocabulary.

    Invalid shapes are refused later.
    """
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2 or not all(shape):
        return
    frames, classes = shape
    vocab = without_disambiguation(vocab, classes)
    if len(vocab) != classes:
        if len(vocab) + 1 == classes:
            hint = ": the blank needs its own line in the vocabulary"
        else:
            hint = ""
        if len(vocab) == frames:
            hint = f": are the axes swapped? expected (frames, classes), got {shape}"
        elif len(vocab) > classes:
            hint = (
                f": no class for the tokens {surplus(vocab, classes)}; remove them from the"
                " vocabulary if the network does not have them"
            )
        raise EmissionsError(
            f"{name}: expected as many classes as the vocabulary has tokens, got {classes} classes"
            f" and {len(vocab)} tokens{hint}"
        )


def check_frame_shift(frame_shift_s: float) -> None:
    """Raise `UsageError` unless `frame_shift_s` is a positive number of seconds."""
    try:
        seconds = float(frame_shift_s)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(
            f"frame shift: expected a positive number of seconds (0.02 say), got {frame_shift_s!r}"
        )
    if seconds < _SHORTEST_SHIFT_S:
        raise UsageError(
            f"frame shift: expected seconds, at least {_SHORTEST_SHIFT_S:g}, got {frame_shift_s}"
        )
    if seconds > _LONGEST_SHIFT_S:
        raise UsageError(
            f"frame shift: expected seconds, got {frame_shift_s}: if these are milliseconds, give"
            f" {seconds / 1000:g}"
        )


def _floats(array: Any, name: str) -> np.ndarray | torch.Tensor:
    """Return floats (T, C) without reading their values.

    They are given as an array, or as a tensor on any device.
    """
    if isinstance(array, np.ndarray):
        if array.dtype.kind != "f":
            raise EmissionsError(f"{name}: expected floating-point log-probs, got {array.dtype}")
    elif (torch := imported_torch()) is None or not isinstance(array, torch.Tensor):
        raise EmissionsError(
            f"{name}: expected an array of shape (T, C), got {type(array).__name__}"
        )
    elif array.layout != torch.strided or not array.dtype.is_floating_point or array.is_meta:
        if array.is_meta:
            where = ", without values"
        else:
            where = f", {array.layout}"
        raise EmissionsError(
            f"{name}: expected dense floating-point log-probs, got {array.dtype}{where}"
        )
    else:
        array = array.detach()
    shape = tuple(array.shape)
    if len(shape) == 3 and shape[0] == 1:
        array = array[0]
    if array.ndim != 2:
        hint = ": give one utterance" if array.ndim == 3 else ""
        raise EmissionsError(
            f"{name}: expected log-probs of shape (T, C), frames by classes, got {shape}{hint}"
        )
    if not array.shape[0] or not array.shape[1]:
        raise EmissionsError(
            f"{name}: expected at least one frame and one class, got shape {shape}"
        )
    return array


def _contiguous(array: np.ndarray | torch.Tensor, name: str) -> np.ndarray | torch.Tensor:
    """Return floats as float32 or float64, contiguous.

    Whether there is memory for a copy is checked before.
    """
    if not isinstance(array, np.ndarray):
        import torch

        if array.dtype in (torch.float32, torch.float64):
            dtype = array.dtype
        else:
            dtype = torch.float32
        if (dtype != array.dtype or not array.is_contiguous()) and array.device.type == "cpu":
            _require(array.numel() * dtype.itemsize, tuple(array.shape), name)
        return array.to(dtype).contiguous()
    kind = np.float64 if array.dtype.itemsize > 4 else np.float32
    if (
        array.dtype != kind
        or not array.dtype.isnative
        or not (array.flags.c_contiguous and array.flags.writeable)
    ):
        _require(array.size * np.dtype(kind).itemsize, array.shape, name)
        return np.array(array, kind, order="C")
    return array


def _require(needed: int, shape: tuple[int, ...], name: str) -> None:
    try:
        require_memory(needed)
    except OSError as error:
        raise EmissionsError(f"{name}: log-probs of shape {shape}: {error.strerror}") from None


# Arrays in files: .npy (mapped into memory), .npz, .safetensors, .pt, and Kaldi's archives
# (FILE.ark:OFFSET). What a header says is checked before memory is taken for it: against the size
# of the file, and against what is free. Nothing is unpickled but by
# `torch.load(weights_only=True)`, of versions of torch in which that is safe.

EXTENSIONS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
KEY = "log_probs"

Check = Callable[[tuple[int, ...]], None]
"""Called with the shape of an array before it is read.

It raises EmissionsError if the array is not wanted.
"""

_ARK_PATH = re.compile(r"(.+\.ark):([0-9]{1,18})", re.DOTALL)
_ARK_MATRICES = {b"\0BFM ": 4, b"\0BDM ": 8, b"\0BCM ": 1, b"\0BCM2 ": 2, b"\0BCM3 ": 1}
"""Headers of binary matrices in Kaldi archives, and the bytes of each value.

They are float32, float64, and compressed.
"""
_ARK_HEAD = 32
_WIDEST_BYTES = 8
_NPY_HEAD = 64
_READ_BYTES = 2**24
_SAFE_TORCH = (2, 10)
"""Earlier versions could be made to run code by `torch.load(weights_only=True)`.

See CVE-2025-32434, and one that 2.10 fixed.
"""


def _split_ark(path: str) -> tuple[str, int] | None:
    """Return the file and the offset of `FILE.ark:OFFSET`, None for any other path.

    >>> _split_ark("logprobs/1.ark:1734"), _split_ark("1.ark")
    (('logprobs/1.ark', 1734), None)
    """
    match = _ARK_PATH.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def is_log_probs_path(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names log-probs rather than sound.

    Its extension shows it, or its offset in an archive.

    >>> is_log_probs_path("talk.NPY"), is_log_probs_path("1.ark:1734"), is_log_probs_path("talk.wav")
    (True, True, False)
    """
    return Path(path).suffix.lower() in EXTENSIONS or _split_ark(os.fspath(path)) is not None


def file_of(path: str | os.PathLike[str]) -> str:
    """Return the file of a path: the archive of `FILE.ark:OFFSET`, else the path itself."""
    ark = _split_ark(os.fspath(path))
    return os.fspath(path) if ark is None else ark[0]


def read_array(path: str | os.PathLike[str], check: Check) -> Any:
    """Return the array in a file, unchecked.

    Raises:
        UsageError: there is no such file, or its extension is unknown.
        EmissionsError: it is not a regular file, or it is damaged, of a different kind, not as its
            header says, or too large.
    """
    name = os.fspath(path)
    if not is_log_probs_path(path):
        raise UsageError(
            f"{name}: expected log-probs in {', '.join(EXTENSIONS)} or FILE.ark:OFFSET"
        )
    if _split_ark(name):
        kind = ".ark"
    else:
        kind = Path(path).suffix.lower()
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
    # the readers raise various errors, and some of them advise unsafe loading
    except Exception as error:
        raise EmissionsError(
            f"{name}: expected log-probs, got a file that cannot be read as {kind}: "
            "it is damaged, of a different kind, or holds more than plain arrays"
        ) from error


def frames_of(name: str) -> int | None:
    """Return the number of frames by the header of `.npy` and Kaldi's archives.

    It is None for other kinds. Raises any kind of error if the file is damaged.
    """
    ark = _split_ark(name)
    if ark is not None:
        with open_input(ark[0]) as archive:
            return _ark_shape(archive, ark[1], name)[0]
    if Path(name).suffix.lower() != ".npy":
        return None
    require_regular(name)
    return _read_npy(name, lambda shape: None).shape[-2]


def reads_torch_files() -> bool:
    """Return whether this torch reads files of tensors without running code from them."""
    import torch

    return version_of(torch) >= _SAFE_TORCH


def load_torch_file(path: str | os.PathLike[str], *, mapped: bool = False) -> Any:
    """Return what `torch.load(weights_only=True)` reads from a file, on the CPU.

    `mapped`: its values stay in the file.

    Raises:
        UsageError: PyTorch is not installed.
        EmissionsError: torch is too old to read such files safely.
        OSError: it is not a regular file, or its contents exceed the free memory.
        Exception: any kind, if the file is damaged.
    """
    name = os.fspath(path)
    if not has_torch():
        raise MissingExtraError(
            f"{name}: files of PyTorch need it, and it is not installed: save the log-probs where"
            f" PyTorch is, by numpy.save('{Path(name).stem}.npy', log_probs.float().numpy()), or"
            f" {install_line('torch')}",
            name="torch",
        )
    import torch

    if not reads_torch_files():
        raise EmissionsError(
            f"{name}: is not read by torch {torch.__version__}, where a prepared file could run"
            " code (CVE-2025-32434); install torch 2.10 or later, or save log-probs as .npy or"
            " .safetensors"
        )
    require_regular(name)
    is_zip = zipfile.is_zipfile(name)
    size = os.path.getsize(name)
    if is_zip:
        with zipfile.ZipFile(name) as archive:
            inside = archive.infolist()
        # torch stores and never packs: what is packed may unpack to anything
        if any(
            info.compress_type != zipfile.ZIP_STORED or info.file_size > size for info in inside
        ):
            raise ValueError("not a file that torch wrote")
    if not mapped or not is_zip:
        require_memory(size, name)
    return torch.load(name, map_location="cpu", weights_only=True, mmap=mapped and is_zip)


def _entry(tensors: Any, name: str) -> Any:
    """Return the entry `log_probs` of a container, or its only entry."""
    keys = list(tensors)
    if KEY in keys:
        return tensors[KEY]
    if len(keys) == 1:
        return tensors[keys[0]]
    raise EmissionsError(
        f"{name}: expected an entry {KEY!r} or a single one, got"
        f" {', '.join(map(str, keys)) or 'none'}"
    )


def _read_npy(name: str, check: Check) -> Any:
    # copy-on-write: mapped like "r", but torch wraps it without a warning
    return np.lib.format.open_memmap(name, mode="c")


def _read_npz(name: str, check: Check) -> Any:
    with open_input(name) as file:
        if file.read(_NPY_HEAD).startswith(np.lib.format.MAGIC_PREFIX) and file.tell() == _NPY_HEAD:
            raise EmissionsError(
                f"{name}: expected an archive (.npz), got a single array: call it .npy"
            )
        with zipfile.ZipFile(file) as archive:
            entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            # only this entry is read
            info = _entry(entries, name)
            with archive.open(info) as member:
                return _unpacked(member, info.file_size, name, check)


def _unpacked(member: Any, declared: int, name: str, check: Check) -> Any:
    """Return the array in an entry of an archive.

    The entry must hold exactly as many bytes as its header says.
    """
    formats = np.lib.format
    version = formats.read_magic(member)
    reader = {(1, 0): formats.read_array_header_1_0, (2, 0): formats.read_array_header_2_0}[version]
    shape, in_columns, dtype = reader(member)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise EmissionsError(f"{name}: expected plain numbers, got {dtype} of shape {shape}")
    needed = math.prod(shape) * dtype.itemsize
    if needed > declared:
        raise EmissionsError(
            f"{name}: is damaged: {needed} bytes for the shape {shape}, got {declared}"
        )
    check(shape)
    require_memory(needed, name)
    array = np.empty(shape, dtype, order="F" if in_columns else "C")
    flat = (array.T if in_columns else array).reshape(-1).view(np.uint8)
    done = 0
    while done < needed:
        part = member.read(min(needed - done, _READ_BYTES))
        if not part:
            raise EmissionsError(
                f"{name}: is damaged: {needed} bytes for the shape {shape}, got {done}"
            )
        flat[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    return array


def _read_safetensors(name: str, check: Check) -> Any:
    from safetensors import safe_open

    with safe_open(name, framework="np") as archive:
        key = _entry({key: key for key in archive.keys()}, name)  # noqa: SIM118
        part = archive.get_slice(key)
        shape = tuple(part.get_shape())
        check(shape)
        require_memory(math.prod(shape) * _WIDEST_BYTES, name)
        if part.get_dtype() != "BF16":
            return archive.get_tensor(key)
    # NumPy lacks bfloat16, which is the upper half of float32
    header, values = _safetensors_entry(name, key)
    first, last = header["data_offsets"]
    halves = np.frombuffer(values[first:last], "<u2").astype(np.uint32)
    return (halves << 16).view(np.float32).reshape(shape)


def _safetensors_entry(name: str, key: str) -> tuple[dict[str, Any], memoryview]:
    """Return the header of an entry, and the bytes of all entries.

    Whoever opened the file has checked its format.
    """
    content = memoryview(np.memmap(name, np.uint8, "r").data)
    begin = 8 + struct.unpack_from("<Q", content)[0]
    return msgspec.json.decode(content[8:begin])[key], content[begin:]


def _read_pt(name: str, check: Check) -> Any:
    loaded = load_torch_file(name, mapped=True)
    if isinstance(loaded, dict):
        array = _entry(loaded, name)
    else:
        array = loaded
    check(tuple(getattr(array, "shape", ())))
    _check_storage(array, name)
    return array


def _check_storage(array: Any, name: str) -> None:
    """Raise EmissionsError for a tensor of more elements than its file has.

    Strides of 0 would repeat them without end.
    """
    if not hasattr(array, "untyped_storage"):
        return
    stored = array.untyped_storage().nbytes()
    needed = array.numel() * array.element_size()
    if array.layout.__str__() != "torch.strided" or needed > stored:
        raise EmissionsError(
            f"{name}: expected a value for each frame and class, got {stored:,} bytes for a tensor"
            f" that needs {needed:,} (it repeats values by its strides); save tensor.contiguous()"
        )


def _read_ark(path: str, check: Check) -> Any:
    """Return the matrix (T, C) at `FILE.ark:OFFSET`; nothing is run, no pickle is opened."""
    try:
        from kaldiio.matio import read_kaldi
    except ImportError as error:
        raise UsageError(
            f"{path}: Kaldi's archives need an extra: {install_line('kaldi')}"
        ) from error
    ark = _split_ark(path)
    assert ark is not None, "callers check first"
    file, offset = ark
    with open_input(file) as archive:
        check(_ark_shape(archive, offset, path))
        archive.seek(offset)
        return read_kaldi(archive)


def _ark_shape(archive: BinaryIO, offset: int, path: str) -> tuple[int, int]:
    """Return the rows and columns in the header of a matrix.

    The archive must contain the matrix completely.
    """
    archive.seek(offset)
    head = archive.read(_ARK_HEAD)
    kind = next(
        (each for each in _ARK_MATRICES if head.startswith(each) and len(head) >= len(each) + 10),
        None,
    )
    if kind is None:
        raise EmissionsError(
            f"{path}: expected a binary matrix of Kaldi's at this offset, got {head[:8]!r}"
        )
    if kind.startswith(b"\0BCM"):  # two floats before rows and columns
        rows, columns = struct.unpack_from("<ii", head, len(kind) + 8)
    else:  # a size byte before each
        rows, columns = (struct.unpack_from("<i", head, len(kind) + at)[0] for at in (1, 6))
    left = os.fstat(archive.fileno()).st_size - offset
    if rows < 0 or columns < 0 or rows * columns * _ARK_MATRICES[kind] > left:
        raise EmissionsError(f"{path}: is damaged: a matrix of {rows} x {columns} in {left} bytes")
    require_memory(rows * columns * _WIDEST_BYTES, path)
    return rows, columns


_READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".ark": _read_ark,
}
