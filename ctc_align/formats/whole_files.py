"""Groups of files that are written whole, all of them, or not at all."""

from __future__ import annotations

import os
import secrets
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
        OutputError: the system refused; no part and none of the files that were not there before is left.
    """
    parts = Parts(targets, folder)
    placed: list[Path] = []
    try:
        if folder is not None:
            os.stat(folder)
        for parent in {target.parent for target in targets}:
            if folder is None:
                parent.mkdir(parents=True, exist_ok=True)
            else:
                _make_below(folder.parent, parent)
        yield parts
        for target, part in parts:
            is_new = not target.exists()
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
    """Make `folder` and what is missing between it and `root`, but never `root`."""
    if folder == root:
        return
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        if folder.parent == root:
            raise
        _make_below(root, folder.parent)
        folder.mkdir(exist_ok=True)
