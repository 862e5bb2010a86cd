"""Records of outputs: their sizes and checksums for the journal.

Existing files are compared with them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ctc_align.errors import OutputError
from ctc_align.files.corrections import is_corrected, is_whole_label_file, keep_aside
from ctc_align.files.formats import EXTENSIONS
from ctc_align.reading import content_hash
from ctc_align.sources.utterance import Checksum, Utterance

CUTS = "cuts"
"""The folder of cut audio in an output folder."""
WAVS = f"{CUTS}/wavs"
"""That of cut audio in LJSpeech's layout."""
_DIGEST_BYTES = 8


@dataclass
class Placed:
    """The outputs of an utterance as they were written.

    `files` by their names relative to the output folder; `pending` is the utterance's part of a
    shared file, and `row` its checksum. `recorded` are its files according to the journal, None if
    nothing is known: an existing file that differs was changed by a person, and is moved to
    NAME.hand.EXTENSION, one of `moved_aside`.
    """

    out_dir: Path
    recorded: Mapping[str, Checksum] | None = None
    files: dict[str, Checksum] = field(default_factory=dict)
    pending: bytes | None = None
    row: Checksum | None = None
    moved_aside: list[str] = field(default_factory=list)

    def add(self, path: Path, data: bytes) -> None:
        """Record a file that is about to be written with these bytes."""
        name = name_of(path, self.out_dir)
        if self.recorded is not None and is_changed(
            name, self.recorded.get(name), self.out_dir, data
        ):
            self.moved_aside.append(name_of(keep_aside(path), self.out_dir))
        self.files[name] = checksum(data)


@lru_cache(maxsize=64)
def _file_checksum(path: str, state: tuple[int, ...]) -> Checksum:
    return state[0], content_hash(path, _DIGEST_BYTES)


def file_checksum(path: str) -> Checksum | None:
    """Return the size and the checksum of a file, None if it cannot be read.

    Those of the last files are cached.
    """
    try:
        status = os.stat(path)
        return _file_checksum(
            path, (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        )
    except (OSError, ValueError):
        return None


def checksum(data: bytes) -> Checksum:
    """Return the size and the checksum of a file with these bytes.

    >>> checksum(b"")
    (0, 'e4a6a0577479b2b4')
    """
    return len(data), hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def name_of(path: Path, out_dir: Path) -> str:
    """Return the name of a file in records."""
    return path.relative_to(out_dir).as_posix()


def with_other_sizes(
    files: Mapping[str, Checksum], out_dir: Path, expected: Iterable[Path]
) -> list[str] | None:
    """Return the recorded files that a person has changed since.

    It is None if a recorded or an `expected` file is missing. Files that a person changes are JSON
    with hand-corrected words, and TextGrid and ELAN files that can be read to the end: any other
    file with a different size may be incomplete.
    """
    if not all(name_of(path, out_dir) in files for path in expected):
        return None
    others = [name for name, (size, _) in files.items() if _size(out_dir / name) != size]
    paths = [out_dir / name for name in others]
    if all(is_corrected(path) or is_whole_label_file(path) for path in paths):
        return others
    return None


def is_changed(name: str, recorded: Checksum | None, out_dir: Path, data: bytes = b"") -> bool:
    """Return whether a file exists that somebody has changed.

    It differs from its record, from `data`, and from any beginning of `data`.
    """
    size = _size(out_dir / name)
    if size is None or (recorded is not None and fault_of(name, recorded, out_dir) is None):
        return False
    try:
        with open(out_dir / name, "rb") as file:
            there = file.read(len(data) + 1).rstrip(b"\0")
    except OSError:
        return False
    return not data.startswith(there)


def fault_of(name: str, recorded: Checksum, out_dir: Path) -> str | None:
    """Return what is wrong with a file, None if it is as recorded.

    All of its bytes are read.
    """
    size = _size(out_dir / name)
    if size is None:
        return "is not there"
    if size != recorded[0]:
        return f"has {size} bytes, expected {recorded[0]}"
    try:
        digest = content_hash(out_dir / name, _DIGEST_BYTES)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if digest == recorded[1]:
        return None
    return "is not what was written"


def is_own_name(name: str, utterance: Utterance) -> bool:
    """Return whether a recorded file can belong to this utterance.

    Others may have changed the journal.
    """
    if any(name == f"{utterance.output}{extension}" for extension in EXTENSIONS):
        return True
    return (
        re.fullmatch(
            rf"{CUTS}/(wavs/)?{re.escape(utterance.output)}(-\d{{4,}})?\.(flac|wav|txt)", name
        )
        is not None
    )


def _size(path: Path) -> int | None:
    """Return the size of a regular file, None for anything else, because runs never make links."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_size
    return None


def refuse_inputs(targets: Sequence[Path], protect: Sequence[str | Path]) -> None:
    """Refuse to replace an input.

    Raises:
        OutputError: one of `targets` is one of `protect`, or cannot be examined.
    """
    for target in targets:
        try:
            is_input = target.exists() and any(
                os.path.exists(path) and target.samefile(path) for path in protect
            )
        except OSError as error:
            raise OutputError(f"{target}: cannot be written ({error.strerror or error})") from error
        if is_input:
            raise OutputError(
                f"{target}: is an input of this call and is never overwritten; choose another"
                " --out-dir"
            )
