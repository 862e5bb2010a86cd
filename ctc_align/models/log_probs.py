"""Log-probs as the output of a model: checked, with their vocabulary; `array_files` reads the arrays."""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ctc_align import units
from ctc_align.errors import EmissionsError, UsageError
from ctc_align.models.array_files import file_of, frames_of, is_log_probs_path, read_array
from ctc_align.models.vocabulary import default_blank, load_vocab, resolve_blank, without_disambiguation
from ctc_align.reading import require_memory
from ctc_align.types import Emissions

if TYPE_CHECKING:
    import torch

__all__ = ["Reader", "check_emissions", "check_frame_shift", "estimated_seconds", "file_of", "is_log_probs_path"]

_CELLS_AT_ONCE = 2**19
"""Rows are checked in blocks: a mapped file is never copied whole."""
_NORMALISED = 0.1
"""A row whose log-sum-exp is further from 0 than this is not a distribution; float16 stays well below."""
_LONGEST_SHIFT_S = 1.0
_SHORTEST_SHIFT_S = 1e-4
_LIKELY_SHIFT_S, _LIKELY_FRAME_BYTES = 0.02, 128
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reader:
    """A reader of log-probs with one vocabulary, frame shift (seconds) and blank (token or index).

    Without a blank it is index 0, unless another token is called so: then the reader asks for it.
    """

    vocab_path: str
    frame_shift_s: float
    blank: int | str | None = None

    @cached_property
    def _vocab(self) -> tuple[tuple[str, ...], int]:
        check_frame_shift(self.frame_shift_s)
        vocab = load_vocab(self.vocab_path)
        return vocab, default_blank(vocab) if self.blank is None else resolve_blank(self.blank, vocab)

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
        array = read_array(path, lambda shape: _check_classes(vocab, shape, os.fspath(path)))
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
        frames = frames_of(name)
        if frames is None:
            frames = os.path.getsize(name) // _LIKELY_FRAME_BYTES
    except Exception:  # of any kind that a damaged header causes
        return 0.0
    return units.frames_to_seconds(frames, _LIKELY_SHIFT_S)


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
    vocab = tuple(emissions.vocab)
    array = _floats(emissions.log_probs, name)
    if trim_vocab:
        vocab = without_disambiguation(vocab, array.shape[1])
    _check_classes(vocab, tuple(array.shape), name)
    matrix = _contiguous(array, name)
    _check_values(matrix, name)
    return replace(emissions, log_probs=matrix, vocab=vocab, blank=resolve_blank(emissions.blank, vocab))


def _check_classes(vocab: tuple[str, ...], shape: tuple[int, ...], name: str) -> None:
    """Raise EmissionsError where log-probs of a shape are not of this vocabulary; other shapes are refused later."""
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2 or not all(shape):
        return
    frames, classes = shape
    vocab = without_disambiguation(vocab, classes)
    if len(vocab) != classes:
        hint = ": the blank needs a line of its own in the vocabulary" if len(vocab) + 1 == classes else ""
        if len(vocab) == frames:
            hint = f": are the axes swapped? expected (frames, classes), got {shape}"
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
        raise UsageError(f"frame shift: expected a positive number of seconds (0.02 say), got {frame_shift_s!r}")
    if seconds < _SHORTEST_SHIFT_S:
        raise UsageError(f"frame shift: expected seconds, at least {_SHORTEST_SHIFT_S:g}, got {frame_shift_s}")
    if seconds > _LONGEST_SHIFT_S:
        raise UsageError(f"frame shift: expected seconds, got {frame_shift_s}: milliseconds? {seconds / 1000:g} then")


def _floats(array: Any, name: str) -> torch.Tensor:
    """Return an array as a tensor (T, C) of floats, wherever it lies: nothing of it is touched."""
    import numpy as np
    import torch

    if isinstance(array, np.ndarray):
        if array.dtype.kind != "f":
            raise EmissionsError(f"{name}: expected floating-point log-probs, got {array.dtype}")
        if not array.dtype.isnative or array.dtype.itemsize > 8:
            _require(array.size * 8, array.shape, name)
            array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32)
        if not array.flags.writeable:
            _require(array.size * array.itemsize, array.shape, name)
            array = array.copy()
        array = torch.from_numpy(array)
    if not isinstance(array, torch.Tensor):
        raise EmissionsError(f"{name}: expected an array of shape (T, C), got {type(array).__name__}")
    if array.layout != torch.strided or not array.dtype.is_floating_point or array.is_meta:
        where = ", without values" if array.is_meta else f", {array.layout}"
        raise EmissionsError(f"{name}: expected dense floating-point log-probs, got {array.dtype}{where}")
    shape = tuple(array.shape)
    if len(shape) == 3 and shape[0] == 1:
        array = array[0]
    if array.ndim != 2:
        hint = ": give one utterance" if array.ndim == 3 else ""
        raise EmissionsError(f"{name}: expected log-probs of shape (T, C), frames by classes, got {shape}{hint}")
    if not array.shape[0] or not array.shape[1]:
        raise EmissionsError(f"{name}: expected at least one frame and one class, got shape {shape}")
    return array.detach()


def _contiguous(array: torch.Tensor, name: str) -> torch.Tensor:
    """Return floats as float32 or float64, contiguous, after a look at the memory that a copy takes."""
    import torch

    dtype = array.dtype if array.dtype in (torch.float32, torch.float64) else torch.float32
    if (dtype != array.dtype or not array.is_contiguous()) and array.device.type == "cpu":
        _require(array.numel() * dtype.itemsize, tuple(array.shape), name)
    return array.to(dtype).contiguous()


def _require(needed: int, shape: tuple[int, ...], name: str) -> None:
    try:
        require_memory(needed)
    except OSError as error:
        raise EmissionsError(f"{name}: log-probs of shape {shape}: {error.strerror}") from None


def _check_values(matrix: torch.Tensor, name: str) -> None:
    """Raise EmissionsError for rows that no path can pass; warn of rows that are not distributions."""
    import torch

    lowest, highest, farthest, probabilities = math.inf, -math.inf, 0.0, True
    at_once = max(1, _CELLS_AT_ONCE // matrix.shape[1])
    for start in range(0, len(matrix), at_once):
        rows = matrix[start : start + at_once]
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
