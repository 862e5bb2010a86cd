"""Matrices in Kaldi's archives, `FILE.ark:OFFSET`, by kaldiio; nothing is run, no pickle is opened."""

from __future__ import annotations

import re
import struct
from typing import Any

from ctc_align.errors import EmissionsError, UsageError

_PLACE = re.compile(r"(.+\.ark):([0-9]{1,18})", re.DOTALL)
_MATRICES = (b"\0BFM ", b"\0BDM ", b"\0BCM ", b"\0BCM2 ", b"\0BCM3 ")
"""How binary matrices begin: float32, float64, compressed."""
_HEAD = 32


def split_place(path: str) -> tuple[str, int] | None:
    """File and offset of `FILE.ark:OFFSET`, None where a path is none.

    >>> split_place("logprobs/1.ark:1734"), split_place("1.ark")
    (('logprobs/1.ark', 1734), None)
    """
    match = _PLACE.fullmatch(path)
    return (match[1], int(match[2])) if match else None


def read_matrix(path: str) -> Any:
    """The matrix (T, C) at `FILE.ark:OFFSET`, float32 or float64.

    Raises:
        UsageError: kaldiio is not installed.
        EmissionsError: no matrix there.
    """
    try:
        from kaldiio.matio import read_kaldi
    except ImportError as error:
        raise UsageError(f"{path}: Kaldi's archives need an extra: pip install 'ctc-align[kaldi]'") from error
    file, offset = _parts(path)
    with open(file, "rb") as archive:
        archive.seek(offset)
        _check_head(archive.read(_HEAD), path)
        archive.seek(offset)
        return read_kaldi(archive)


def frames_of(path: str) -> int:
    """How many rows the matrix at `FILE.ark:OFFSET` has, by its header. Raises as `read_matrix`, and OSError."""
    file, offset = _parts(path)
    with open(file, "rb") as archive:
        archive.seek(offset)
        head = archive.read(_HEAD)
    kind = _check_head(head, path)
    # compressed: two floats, then rows and columns; else a size byte before each
    place = len(kind) + (8 if kind.startswith(b"\0BCM") else 1)
    return max(0, struct.unpack_from("<i", head, place)[0])


def _parts(path: str) -> tuple[str, int]:
    place = split_place(path)
    assert place is not None, "callers look first"
    return place


def _check_head(head: bytes, path: str) -> bytes:
    for kind in _MATRICES:
        if head.startswith(kind) and len(head) >= len(kind) + 10:
            return kind
    raise EmissionsError(f"{path}: expected a binary matrix of Kaldi's at this offset, got {head[:8]!r}")
