"""Write a group of files completely or not at all, and never through a link.

Other users may be able to write in an output folder. The folder itself may be a link, because the
user named it. Below it no link is followed: a linked folder is refused, and a linked file is
replaced while the target of the link stays unchanged.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ctc_align.errors import LostFolderError, OutputError

GONE = (
    "this output folder, or what was in it, was removed, renamed or replaced while the run worked"
    " in it"
)
_PART = re.compile(r"\.ctc-align\.[0-9a-f]{16}\.part")
_ABANDONED_S = 600.0
"""After so long without a change an unfinished file is that of a killed program: writing one takes
seconds."""


class Parts:
    """Pairs (target, part): the part is the unfinished file, at an unused path."""

    def __init__(self, targets: Sequence[Path], folder: Path | None) -> None:
        self.target = targets[0]
        names = [f".ctc-align.{secrets.token_hex(8)}.part" for _ in targets]
        parts = [
            target.with_name(name) if folder is None else folder / name
            for target, name in zip(targets, names)
        ]
        self.pairs = list(zip(targets, parts))

    def add(self, target: Path) -> Path:
        """Return the part of another target, in the folder of the first.

        It takes its place with the others.
        """
        part = self.pairs[0][1].with_name(f".ctc-align.{secrets.token_hex(8)}.part")
        self.pairs.append((target, part))
        return part

    def __iter__(self) -> Iterator[tuple[Path, Path]]:
        for target, part in self.pairs:
            self.target = target
            yield target, part


@contextmanager
def placing(
    targets: Sequence[Path], folder: Path | None = None, *, sync: bool = False
) -> Iterator[Parts]:
    """Yield the parts for the block to write.

    At the end of the block each part replaces its target.

    After a power failure, a target that existed before is either the old or the new file, complete
    in both cases. A new one may be missing or empty until the disk is flushed (`write_to_disk`);
    `sync` does this here.

    Args:
        targets: the files; their folders are made.
        folder: for the parts while they are written, on the same file system; None: beside the
            targets. It is in the output folder of a run, which created it; neither is created
            again, because a new one would not be the run's.

    Raises:
        LostFolderError: `folder` no longer exists.
        OutputError: the system refused, or there is a link between the output folder and a target;
            all parts and new files are removed.
    """
    parts = Parts(targets, folder)
    placed: list[Path] = []
    try:
        if folder is not None:
            os.stat(folder)
            refuse_link(folder)
        for parent in {target.parent for target in targets}:
            if folder is None:
                parent.mkdir(parents=True, exist_ok=True)
            else:
                _make_below(folder.parent, parent)
        yield parts
        for target, part in parts:
            if folder is not None:
                refuse_links(folder.parent, target.parent)
            is_new = not os.path.lexists(target)
            if sync or not is_new:
                sync_file(part)
            os.replace(part, target)
            if is_new:
                placed.append(target)
        for parent in {target.parent for target in targets} if sync else ():
            sync_folder(parent)
    except BaseException as error:
        for path in (*(part for _, part in parts.pairs), *placed):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            if folder is not None and not folder.is_dir():
                raise LostFolderError(f"{folder.parent}: {GONE}") from error
            reason = error.strerror or str(error)
            raise OutputError(
                f"{parts.target}: writing failed ({reason}); nothing was written"
            ) from error
        raise


def write_whole(
    contents: Mapping[Path, bytes], folder: Path | None = None, *, sync: bool = False
) -> None:
    """Write files of these contents, all of them or none. Arguments and errors as for `placing`."""
    with placing(list(contents), folder, sync=sync) as parts:
        for target, part in parts:
            part.write_bytes(contents[target])


def _make_below(root: Path, folder: Path) -> None:
    """Create `folder` and missing folders between it and `root`.

    Never `root` itself, and nothing through a link.
    """
    for path in _between(root, folder):
        refuse_link(path)
        path.mkdir(exist_ok=True)


def refuse_links(root: Path, folder: Path) -> None:
    """Raise OSError (ELOOP) if `folder`, or a folder between it and `root` above it, is a link."""
    for path in _between(root, folder):
        refuse_link(path)


def refuse_link(path: Path) -> None:
    """Raise OSError (ELOOP) if there is a link at a path."""
    if is_link(path):
        reason = (
            f"{path} is a link, and in an output folder none is followed: remove it, or choose"
            " another folder"
        )
        raise OSError(errno.ELOOP, reason)


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link, or a junction of Windows."""
    return path.is_symlink() or getattr(os.path, "isjunction", lambda _: False)(path)


def _between(root: Path, folder: Path) -> list[Path]:
    """Return `folder` and the folders between it and `root`, the highest first."""
    names = folder.relative_to(root).parts
    if ".." in names:
        raise OSError(errno.EINVAL, f"{folder} leads out of {root}")
    return [root.joinpath(*names[:end]) for end in range(1, len(names) + 1)]


def remove_file(path: Path, root: Path) -> None:
    """Remove a file below `root` if it exists; if it is a link, remove the link, not its target.

    Raises:
        OutputError: it cannot be removed, or there is a link on the way.
    """
    try:
        refuse_links(root, path.parent)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be removed ({error.strerror or error})") from error


def remove_abandoned_part(path: Path) -> None:
    """Remove a file if it is an unfinished one that a killed program has left."""
    if _PART.fullmatch(path.name):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink()


def remove_tree(path: Path) -> None:
    """Remove a folder with its contents, or a file or link itself, as far as the system allows."""
    if is_link(path) or not path.is_dir():
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)


def write_to_disk(root: Path, names: Sequence[str]) -> None:
    """Flush files below `root`, and their folders, to disk, so that they survive a power failure.

    If the system can, flush the whole file system in one call: a call for each of many small files
    would take longer than creating them.

    Raises:
        OSError: the disk cannot be written.
    """
    if not names or sync_file_system(root):
        return
    folders = {root}
    for name in names:
        with suppress(FileNotFoundError):  # removed since: the next run makes it again
            sync_file(root / name)
        folders.update(_between(root, (root / name).parent))
    for folder in folders:
        sync_folder(folder)


def sync_file_system(path: Path) -> bool:
    """Flush the whole file system of a path to disk (`syncfs` on Linux).

    Return False if there is no such call.

    Raises:
        OSError: the disk cannot be written.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return False
    file = os.open(path, os.O_RDONLY)
    try:
        code = 0
        if call(file):
            code = ctypes.get_errno()
    finally:
        os.close(file)
    if code not in (0, errno.ENOSYS):
        raise OSError(code, os.strerror(code), str(path))
    return code == 0


def sync_file(path: Path) -> None:
    """Flush a file to disk; its name is flushed with its folder."""
    file = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk, if the system supports it."""
    with suppress(OSError):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
