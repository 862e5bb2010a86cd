"""Log-probs in files: arrays (T, C) in .npy (mapped into memory), .npz, .safetensors, .pt, and in Kaldi's archives
(FILE.ark:OFFSET, by kaldiio).
"""

from __future__ import annotations

import logging
import math
import os
import re
import struct
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctc_align import units
from ctc_align.errors import EmissionsError, UsageError
from ctc_align.models.vocabulary import load_vocab, resolve_blank, without_disambiguation
from ctc_align.types import Emissions

if TYPE_CHECKING:
    import torch

EXTENSIONS = (".npy", ".npz", ".safetensors", ".pt", ".pth")
KEY = "log_probs"

_ROWS_AT_ONCE = 8192
"""Rows are checked in blocks: a mapped file is never copied whole."""
_NORMALISED = 0.1
"""A row whose log-sum-exp is further from 0 than this is not a distribution; float16 stays well below."""
_LONGEST_SHIFT_S = 1.0
_SHORTEST_SHIFT_S = 1e-4
_LIKELY_SHIFT_S, _LIKELY_FRAME_BYTES = 0.02, 128
_ARK_PLACE = re.compile(r"(.+\.ark):([0-9]{1,18})", re.DOTALL)
_ARK_MATRICES = (b"\0BFM ", b"\0BDM ", b"\0BCM ", b"\0BCM2 ", b"\0BCM3 ")
"""Headers of binary matrices in Kaldi archives: float32, float64, compressed."""
_ARK_HEAD = 32

logger = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class Reader:
    """A reader of log-probs with one vocabulary, frame shift (seconds) and blank (token or index; None: index 0)."""

    vocab_path: str
    frame_shift_s: float
    blank: int | str | None = None

    @cached_property
    def _vocab(self) -> tuple[tuple[str, ...], int]:
        check_frame_shift(self.frame_shift_s)
        vocab = load_vocab(self.vocab_path)
        return vocab, resolve_blank(0 if self.blank is None else self.blank, vocab)

    def check(self) -> None:
        """Raise UsageError or EmissionsError if vocabulary, frame shift or blank are wrong."""
        self._vocab  # noqa: B018

    def read(
        self, path: str | os.PathLike[str], *, offset_s: float = 0.0, duration_s: float | None = None
    ) -> Emissions:
        """Read log-probs (T, C), natural log, on the CPU: all of a file, or `duration_s` of them from `offset_s` on.

        float16 and bfloat16 become float32, a leading axis of length one is dropped, `.npy` is mapped, not read. `-inf`
        is an impossible class. Rows that do not sum to one are taken as they are, and a warning is logged.

        Raises:
            UsageError: no such file, a wrong frame shift, a blank that the vocabulary does not have.
            EmissionsError: a file that cannot be read, another shape or type, no frames, NaN, +inf, probabilities in
                place of their logarithms, or a vocabulary of another size.
        """
        vocab, blank = self._vocab
        array = _read(path)
        if offset_s or duration_s is not None:
            array = self._part(array, offset_s, duration_s, os.fspath(path))
        emissions = Emissions(array, vocab, float(self.frame_shift_s), blank, offset_s=offset_s, name=os.fspath(path))
        return check_emissions(emissions, trim_vocab=True)

    def _part(self, array: Any, offset_s: float, duration_s: float | None, name: str) -> Any:
        first = units.seconds_to_frames(offset_s, self.frame_shift_s)
        last = None if duration_s is None else units.seconds_to_frames(offset_s + duration_s, self.frame_shift_s)
        part = array[:, first:last] if getattr(array, "ndim", 2) == 3 else array[first:last]
        if 0 in part.shape:
            raise EmissionsError(f"{name}: expected frames from {offset_s} s on, got {array.shape[-2]} frames in all")
        return part


def estimated_seconds(path: str | os.PathLike[str]) -> float:
    """Return a rough duration from the file's header or size, for planning: frames of 20 ms, 32 classes.

    0 if it is unknown; reading the file reports what is wrong.
    """
    name = os.fspath(path)
    try:
        if _split_place(name):
            frames = _ark_frames(name)
        elif Path(name).suffix.lower() == ".npy":
            frames = _read_npy(name).shape[-2]
        else:
            frames = os.path.getsize(name) // _LIKELY_FRAME_BYTES
    except (EmissionsError, OSError, ValueError, IndexError):
        return 0.0
    return units.frames_to_seconds(frames, _LIKELY_SHIFT_S)


def _read(path: str | os.PathLike[str]) -> Any:
    """Return the array in a file, as its reader gives it."""
    name = os.fspath(path)
    if not is_log_probs_path(path):
        raise UsageError(f"{name}: expected log-probs in {', '.join(EXTENSIONS)} or FILE.ark:OFFSET")
    if not os.path.exists(file_of(name)):
        raise UsageError(f"{name}: no such file")
    kind = ".ark" if _split_place(name) else Path(path).suffix.lower()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _READERS[kind](name)
    except (EmissionsError, UsageError):
        raise
    except OSError as error:
        raise EmissionsError(f"{name}: cannot be read: {error.strerror or error}") from error
    # each reader has its own errors, and some of them advise unsafe loading
    except Exception as error:
        raise EmissionsError(
            f"{name}: expected log-probs, got a file that cannot be read as {kind}: "
            "it is damaged, of another kind, or holds more than plain arrays"
        ) from error


def check_emissions(emissions: Emissions, *, trim_vocab: bool = False) -> Emissions:
    """Return the same emissions with a contiguous float tensor (T, C), checked.

    `log_probs` may be a tensor, which stays on its device, or a numpy array. With `trim_vocab`, Kaldi's disambiguation
    symbols (`#0`, `#1` …) at the end of a vocabulary that is too long are dropped.

    Raises:
        EmissionsError: see `Reader.read`.
        UsageError: a wrong frame shift, or a blank outside the vocabulary.
    """
    name = emissions.name or "log-probs"
    check_frame_shift(emissions.frame_shift_s)
    if not math.isfinite(emissions.offset_s):
        raise UsageError(f"{name}: expected offset_s as a number of seconds, got {emissions.offset_s}")
    if emissions.duration_s is not None and not 0 < emissions.duration_s < math.inf:
        raise UsageError(f"{name}: expected duration_s as a positive number of seconds, got {emissions.duration_s}")
    matrix = _matrix(emissions.log_probs, name)
    vocab = tuple(emissions.vocab)
    if trim_vocab:
        vocab = without_disambiguation(vocab, matrix.shape[1])
    if len(vocab) != matrix.shape[1]:
        turned = " (are the axes swapped? expected frames first)" if len(vocab) == matrix.shape[0] else ""
        raise EmissionsError(
            f"{name}: expected as many classes as the vocabulary has tokens, got {matrix.shape[1]} classes"
            f" and {len(vocab)} tokens{turned}: the blank needs a line of its own in the vocabulary"
        )
    _check_values(matrix, name)
    return replace(emissions, log_probs=matrix, vocab=vocab, blank=resolve_blank(emissions.blank, vocab))


def check_frame_shift(frame_shift_s: float) -> None:
    """Raise `UsageError` unless `frame_shift_s` is a positive number of seconds."""
    try:
        seconds = float(frame_shift_s)
    except (TypeError, ValueError):
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise UsageError(f"frame shift: expected a positive number of seconds (0.02 say), got {frame_shift_s!r}")
    if seconds < _SHORTEST_SHIFT_S:
        raise UsageError(f"frame shift: expected seconds, at least {_SHORTEST_SHIFT_S:g}, got {frame_shift_s}")
    if seconds > _LONGEST_SHIFT_S:
        raise UsageError(f"frame shift: expected seconds, got {frame_shift_s}: milliseconds? {seconds / 1000:g} then")


def _matrix(array: Any, name: str) -> torch.Tensor:
    """Return an array as a tensor (T, C), float32 or float64, contiguous."""
    import numpy as np
    import torch

    if isinstance(array, np.ndarray):
        if array.dtype.kind != "f":
            raise EmissionsError(f"{name}: expected floating-point log-probs, got {array.dtype}")
        if not array.dtype.isnative or array.dtype.itemsize > 8:
            array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
        if not array.flags.writeable:
            array = array.copy()
        array = torch.from_numpy(array)
    if not isinstance(array, torch.Tensor):
        raise EmissionsError(f"{name}: expected an array of shape (T, C), got {type(array).__name__}")
    if array.layout != torch.strided or not array.dtype.is_floating_point:
        raise EmissionsError(f"{name}: expected dense floating-point log-probs, got {array.dtype}, {array.layout}")
    shape = tuple(array.shape)
    if len(shape) == 3 and shape[0] == 1:
        array = array[0]
    if array.ndim != 2:
        hint = ": give one utterance" if array.ndim == 3 else ""
        raise EmissionsError(f"{name}: expected log-probs of shape (T, C), frames by classes, got {shape}{hint}")
    if not array.shape[0] or not array.shape[1]:
        raise EmissionsError(f"{name}: expected at least one frame and one class, got shape {shape}")
    array = array.detach()
    if array.dtype not in (torch.float32, torch.float64):
        array = array.to(torch.float32)
    return array.contiguous()


def _check_values(matrix: torch.Tensor, name: str) -> None:
    """Raise EmissionsError for rows that no path can pass; warn of rows that are not distributions."""
    import torch

    lowest, highest, farthest, probabilities = math.inf, -math.inf, 0.0, True
    for start in range(0, len(matrix), _ROWS_AT_ONCE):
        rows = matrix[start : start + _ROWS_AT_ONCE]
        bad = torch.isnan(rows) | (rows == math.inf)
        if bad.any():
            frame, klass = (int(i) for i in bad.nonzero()[0])
            raise EmissionsError(
                f"{name}: value is {rows[frame, klass].item()} at frame {start + frame}, class {klass}:"
                " expected log-probabilities (-inf is allowed, NaN and +inf are not)"
            )
        sums = torch.logsumexp(rows, dim=1)
        empty = sums == -math.inf
        if empty.any():
            frame = start + int(empty.nonzero()[0])
            raise EmissionsError(f"{name}: every class is -inf at frame {frame}: no path can pass it")
        lowest, highest = min(lowest, rows.min().item()), max(highest, rows.max().item())
        farthest = max(farthest, sums.abs().max().item())
        probabilities = probabilities and lowest >= 0 and bool(((rows.sum(dim=1) - 1).abs() < 0.02).all())
    if probabilities:
        raise EmissionsError(f"{name}: these look like probabilities (rows sum to one): take the natural log")
    if farthest > _NORMALISED:
        logger.warning(
            "%s: rows are no distributions (log-sum-exp up to %.3g from 0, values %.3g to %.3g): "
            "taken as unnormalised scores; take log_softmax first if they are logits",
            name,
            farthest,
            lowest,
            highest,
        )


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


def _read_npy(name: str) -> Any:
    import numpy as np

    # copy-on-write: mapped like "r", but torch wraps it without a warning
    return np.lib.format.open_memmap(name, mode="c")


def _read_npz(name: str) -> Any:
    import numpy as np

    with open(name, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise EmissionsError(f"{name}: expected an archive (.npz), got a single array: call it .npy")
        # only this entry is read
        return archive[_entry({key: key for key in archive.files}, name)]


def _read_safetensors(name: str) -> Any:
    from safetensors import safe_open

    with safe_open(name, framework="pt") as archive:
        return archive.get_tensor(_entry({key: key for key in archive.keys()}, name))  # noqa: SIM118


def _read_pt(name: str) -> Any:
    import torch

    loaded = torch.load(name, map_location="cpu", weights_only=True)
    return _entry(loaded, name) if isinstance(loaded, dict) else loaded


def _read_ark(path: str) -> Any:
    """Return the matrix (T, C) at `FILE.ark:OFFSET`; nothing is run, no pickle is opened."""
    try:
        from kaldiio.matio import read_kaldi
    except ImportError as error:
        raise UsageError(f"{path}: Kaldi's archives need an extra: pip install 'ctc-align[kaldi]'") from error
    file, offset = _ark_place(path)
    with open(file, "rb") as archive:
        archive.seek(offset)
        _check_ark(archive.read(_ARK_HEAD), path)
        archive.seek(offset)
        return read_kaldi(archive)


def _ark_frames(path: str) -> int:
    """Return the number of rows in the header of the matrix at `FILE.ark:OFFSET`."""
    file, offset = _ark_place(path)
    with open(file, "rb") as archive:
        archive.seek(offset)
        head = archive.read(_ARK_HEAD)
    kind = _check_ark(head, path)
    # compressed: two floats before rows and columns; otherwise a size byte before each
    position = len(kind) + (8 if kind.startswith(b"\0BCM") else 1)
    return max(0, struct.unpack_from("<i", head, position)[0])


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
