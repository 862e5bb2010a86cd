"""Rows on disk in place of memory: the same numbers, for other processes too, and errors that say
what to do."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from ctc_align.errors import OutputError
from ctc_align.machine.rows_on_disk import RowsOnDisk, TensorOnDisk

ROWS = np.arange(60, dtype=np.float32).reshape(20, 3)


def on_disk() -> RowsOnDisk:
    rows = RowsOnDisk((3,), "rows of a test")
    for piece in (ROWS[:7], ROWS[7:7], ROWS[7:]):
        rows.append(piece)
    return rows


@pytest.mark.parametrize(
    "cut", [slice(0, 20), slice(3, 9), slice(-4, None), slice(18, 90), slice(9, 3), slice(None)]
)
def test_slices_are_those_of_an_array(cut: slice) -> None:
    rows = on_disk()
    assert (len(rows), rows.shape, rows.ndim) == (20, (20, 3), 2)
    assert np.array_equal(rows[cut], ROWS[cut])
    assert np.array_equal(np.asarray(rows), ROWS)
    tensor = TensorOnDisk(rows)
    assert torch.equal(tensor[cut], torch.from_numpy(ROWS)[cut])
    assert torch.equal(tensor.part(2, 15).part(1, 9)[2:], torch.from_numpy(ROWS[5:11]))
    assert tensor.part(2, 15).shape == (13, 3)


def test_truncating_and_other_processes() -> None:
    rows = on_disk()
    rows.truncate(5)
    assert np.array_equal(rows[:], ROWS[:5])
    rows.truncate(7)
    assert np.array_equal(rows[:], np.concatenate((ROWS[:5], np.zeros((2, 3)))))
    assert np.array_equal(pickle.loads(pickle.dumps(on_disk())), ROWS)
    assert torch.equal(
        pickle.loads(pickle.dumps(TensorOnDisk(on_disk(), 2, 4))), torch.from_numpy(ROWS[2:4])
    )


@pytest.mark.skipif(os.name == "nt", reason="files that are open have names there")
def test_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = on_disk()
    assert list(tmp_path.iterdir()) == []
    assert len(rows) == 20


def test_a_full_disk_and_a_missing_folder_are_errors_that_say_what_to_do(
    monkeypatch, tmp_path
) -> None:
    class Full:
        def seek(self, place: int) -> int:
            return place

        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    rows = on_disk()
    monkeypatch.setattr(rows, "_file", Full())
    with pytest.raises(
        OutputError, match=r"rows of a test: cannot be kept .*No space left on device.*set TMPDIR"
    ):
        rows.append(ROWS)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(OutputError, match="set TMPDIR"):
        RowsOnDisk()


def test_rows_of_another_shape_and_single_rows_are_refused() -> None:
    rows = on_disk()
    with pytest.raises(ValueError, match="rows of shape"):
        rows.append(ROWS[:, :2])
    for wrong in (3, slice(0, 9, 2)):
        with pytest.raises(TypeError, match="expected a slice"):
            rows[wrong]  # type: ignore[index]
