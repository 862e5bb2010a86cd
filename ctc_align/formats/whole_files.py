"""Groups of files that are written whole, all of them, or not at all, and never through a link.

Others may be able to write in an output folder. The folder itself may be a link, because the user named it; below it no
link is followed: a folder that is one is refused, a file that is one is replaced, and what it led to stays as it is.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ctc_align.errors import LostFolderError, OutputError

GONE = "this output folder, or what was in it, was removed, renamed or replaced while the run worked in it"


class Parts:
    """Pairs (target, part): the part is the unfinished file, at a path where nothing is yet."""

    def __init__(self, targets: Sequence[Path], folder: Path | None) -> None:
        self.target = targets[0]
        names = [f".ctc-align.{secrets.token_hex(8)}.part" for _ in targets]
        parts = [target.with_name(name) if folder is None else folder / name for target, name in zip(targets, names)]
        self.pairs = list(zip(targets, parts))

    def __iter__(self) -> Iterator[tuple[Path, Path]]:
        for target, part in self.pairs:
            self.target = target
            yield target, part


@contextmanager
def placing(targets: Sequence[Path], folder: Path | None = None) -> Iterator[Parts]:
    """Yield parts to write in the block; at its end each replaces its target.

    Args:
        targets: the files; their folders are made.
        folder: for the parts while they are written, on the same file system; None: beside the targets. It is in the
            output folder of a run, which made it: neither is made again, because another one is not the run's.

    Raises:
        LostFolderError: `folder` is no longer there.
        OutputError: the system refused, or there is a link between the output folder and a target; no part and none of
            the files that were not there before is left.
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
            os.replace(part, target)
            if is_new:
                placed.append(target)
    except BaseException as error:
        for path in (*(part for _, part in parts.pairs), *placed):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            if folder is not None and not folder.is_dir():
                raise LostFolderError(f"{folder.parent}: {GONE}") from error
            reason = error.strerror or str(error)
            raise OutputError(f"{parts.target}: writing failed ({reason}); nothing was written") from error
        raise


def _make_below(root: Path, folder: Path) -> None:
    """Make `folder` and what is missing between it and `root`, but never `root`, and nothing through a link."""
    for path in _between(root, folder):
        refuse_link(path)
        path.mkdir(exist_ok=True)


def refuse_links(root: Path, folder: Path) -> None:
    """Raise OSError (ELOOP) where `folder`, or a folder between it and `root` above it, is a link."""
    for path in _between(root, folder):
        refuse_link(path)


def refuse_link(path: Path) -> None:
    """Raise OSError (ELOOP) where there is a link at a path."""
    if is_link(path):
        reason = f"{path} is a link, and in an output folder none is followed: remove it, or choose another folder"
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
    """Remove a file below `root` where there is one; a link itself, and nothing behind a link.

    Raises:
        OutputError: it cannot be removed, or there is a link on the way.
    """
    try:
        refuse_links(root, path.parent)
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be removed ({error.strerror or error})") from error


def remove_tree(path: Path) -> None:
    """Remove a folder with all that is in it, or a file or link itself, as far as the system allows."""
    if is_link(path) or not path.is_dir():
        with suppress(OSError):
            path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
