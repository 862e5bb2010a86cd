"""Arrays of long recordings in a temporary file instead of memory: written once, read by slices.

The file is in the folder for temporary files (`TMPDIR`), has no name that other programs could see
(if the system allows that), and is deleted with its rows no matter how the process ends. It is not
memory-mapped: a slice is a copy, and only the copy is in memory.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.errors import OutputError

if TYPE_CHECKING:
    import torch


class RowsOnDisk:
    """Rows (N, …) float32 in a temporary file.

    Slices are arrays (n, …). Threads and forked processes may share it.

    Args:
        row_shape: shape of one row, () for numbers.
        name: what the rows are, in messages.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, row_shape: tuple[int, ...] = (), name: str = "rows") -> None:
        self.row_shape = row_shape
        self.name = name
        self._row_bytes = int(np.prod(row_shape, dtype=np.int64)) * self.dtype.itemsize
        self._rows = 0
        self._lock = threading.Lock()
        try:
            self._file = tempfile.TemporaryFile(prefix="ctc-align-")  # noqa: SIM115
        except OSError as error:
            raise self._cannot_store(error) from error
        weakref.finalize(self, self._file.close)

    def __len__(self) -> int:
        return self._rows

    @property
    def shape(self) -> tuple[int, ...]:
        return self._rows, *self.row_shape

    @property
    def ndim(self) -> int:
        return 1 + len(self.row_shape)

    def append(self, rows: np.ndarray) -> None:
        """Add rows (n, …) at the end.

        Raises:
            OutputError: the disk is full.
        """
        rows = np.ascontiguousarray(rows, self.dtype)
        if rows.shape[1:] != self.row_shape:
            raise ValueError(f"expected rows of shape {self.row_shape}, got {rows.shape[1:]}")
        try:
            self._file.seek(self._rows * self._row_bytes)
            self._file.write(rows.reshape(-1).view(np.uint8).data)
            self._file.flush()
        except OSError as error:
            raise self._cannot_store(error) from error
        self._rows += len(rows)

    def truncate(self, rows: int) -> None:
        """Keep the first `rows` rows; rows beyond the end become zeros."""
        try:
            self._file.truncate(rows * self._row_bytes)
        except OSError as error:
            raise self._cannot_store(error) from error
        self._rows = rows

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return the rows of a slice without a step as a new array."""
        if not isinstance(rows, slice):
            raise TypeError(
                f"{self.name} lie on disk: expected a slice of rows, got {type(rows).__name__}"
            )
        first, last, step = rows.indices(self._rows)
        if step != 1:
            raise TypeError(f"{self.name} lie on disk: expected a slice without a step, got {step}")
        array = np.empty((max(0, last - first), *self.row_shape), self.dtype)
        self._read_into(array.reshape(-1).view(np.uint8).data, first)
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all rows in memory, for functions that take arrays only."""
        if dtype is None:
            return self[:]
        return self[:].astype(dtype, copy=False)

    def __reduce__(self) -> tuple[Callable[..., np.ndarray], tuple[np.ndarray]]:
        """Pickle the rows themselves, for other processes."""
        return np.asarray, (self[:],)

    def _read_into(self, target: memoryview, first_row: int) -> None:
        at = first_row * self._row_bytes
        while target:
            if hasattr(os, "pread"):
                # not seek and read: the position in the file is shared with forked processes
                part = os.pread(self._file.fileno(), min(len(target), 2**24), at)
            else:
                with self._lock:
                    self._file.seek(at)
                    part = self._file.read(min(len(target), 2**24))
            if not part:
                raise OutputError(
                    f"{self.name}: the temporary file in {tempfile.gettempdir()} ended early"
                )
            target[: len(part)] = part
            target = target[len(part) :]
            at = at + len(part)

    def _cannot_store(self, error: OSError) -> OutputError:
        reason = error.strerror or str(error)
        return OutputError(
            f"{self.name}: cannot be kept in a temporary file in {tempfile.gettempdir()}"
            f" ({reason}); set TMPDIR to a folder with more room (an hour of audio needs about"
            " 400 MB)"
        )


class ArrayOnDisk:
    """Rows (N, …) float32 on disk whose slices are arrays; a slice is read when it is used.

    Args:
        rows: all rows of the file.
        first, last: the rows of this array, `last` exclusive; all of them if `last` is None.
    """

    dtype: Any = RowsOnDisk.dtype

    def __init__(self, rows: RowsOnDisk, first: int = 0, last: int | None = None) -> None:
        self.rows = rows
        self.first = first
        if last is None:
            self.last = len(rows)
        else:
            self.last = last

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self), *self.rows.row_shape

    def __getitem__(self, frames: slice) -> Any:
        """Return the rows of a slice without a step as a new array."""
        first, last, step = frames.indices(len(self))
        return self.rows[self.first + first : self.first + max(first, last) : step]

    def part(self, first: int, last: int) -> ArrayOnDisk:
        """Return the rows from `first` to `last`, exclusive, still on disk."""
        return type(self)(self.rows, self.first + first, self.first + last)

    def as_tensor(self) -> TensorOnDisk:
        """Return the same rows, whose slices are tensors."""
        return TensorOnDisk(self.rows, self.first, self.last)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[np.ndarray]]:
        """Pickle the rows themselves, for other processes."""
        return np.asarray, (self.rows[self.first : self.last],)


class TensorOnDisk(ArrayOnDisk):
    """Rows (N, …) float32 on disk whose slices are tensors on the CPU."""

    @property
    def device(self) -> torch.device:
        import torch

        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        import torch

        return torch.float32

    def __getitem__(self, frames: slice) -> torch.Tensor:
        """Return the rows of a slice without a step as a new tensor."""
        import torch

        return torch.from_numpy(super().__getitem__(frames))

    def __reduce__(self) -> tuple[Callable[..., torch.Tensor], tuple[np.ndarray]]:
        """Pickle the rows themselves, for other processes."""
        import torch

        return torch.from_numpy, (self.rows[self.first : self.last],)
