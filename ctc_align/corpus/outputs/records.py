"""Records of outputs: their sizes and checksums as the journal keeps them, and what is there compared with them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ctc_align.corpus.state.journal_lines import Checksum
from ctc_align.corpus.utterance import Utterance
from ctc_align.formats import WRITERS
from ctc_align.formats.hand_fixes import is_corrected
from ctc_align.reading.input_files import content_hash

CUTS = "cuts"
"""The folder of cut audio in an output folder."""
_DIGEST_BYTES = 8
_EXTENSIONS = tuple(writer.extension for writers in WRITERS.values() for writer in writers)


@dataclass
class Placed:
    """The outputs of an utterance as they were written.

    `files` by their names below the output folder; `pending` is the utterance's part of a file of many, and `row` its
    checksum.
    """

    out_dir: Path
    files: dict[str, Checksum] = field(default_factory=dict)
    pending: bytes | None = None
    row: Checksum | None = None

    def add(self, path: Path, data: bytes) -> None:
        """Record a file that was written with these bytes."""
        self.files[name_of(path, self.out_dir)] = checksum(data)


def checksum(data: bytes) -> Checksum:
    """
    >>> checksum(b"")
    (0, 'e4a6a0577479b2b4')
    """
    return len(data), hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def name_of(path: Path, out_dir: Path) -> str:
    """Return the name of a file in records."""
    return path.relative_to(out_dir).as_posix()


def have_their_sizes(files: Mapping[str, Checksum], out_dir: Path, expected: Iterable[Path]) -> bool:
    """Return whether all recorded files are there in their sizes, and all `expected` ones are among them.

    A file that a person has corrected since is there, whatever its size.
    """
    if not all(name_of(path, out_dir) in files for path in expected):
        return False
    return all(_size(out_dir / name) == size or is_corrected(out_dir / name) for name, (size, _) in files.items())


def fault_of(name: str, recorded: Checksum, out_dir: Path) -> str | None:
    """Return what is wrong with a file, by all of its bytes; None where it is as recorded."""
    size = _size(out_dir / name)
    if size is None:
        return "is not there"
    if size != recorded[0]:
        return f"has {size} bytes, expected {recorded[0]}"
    try:
        digest = content_hash(out_dir / name, _DIGEST_BYTES)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return None if digest == recorded[1] else "is not what was written"


def is_own_name(name: str, utterance: Utterance) -> bool:
    """Return whether a file in records can be one of this utterance: journals may have been changed by others."""
    if any(name == f"{utterance.output}{extension}" for extension in _EXTENSIONS):
        return True
    return re.fullmatch(rf"{CUTS}/{re.escape(utterance.output)}(-\d{{4,}})?\.(flac|txt)", name) is not None


def _size(path: Path) -> int | None:
    """Return the size of a file, None where there is none: a link, which no run makes, is none."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
