"""Where a run stands: a folder below the model's. A run that was stopped goes on from it, a finished one removes it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ctc_align.corpus.state.journal import Shard
from ctc_align.corpus.state.lock import FolderLock
from ctc_align.errors import OutputError, UsageError
from ctc_align.models import FOLDER_FILES

NAME = ".training"


def check_out_dir(folder: Path, *, force: bool) -> None:
    """UsageError where a finished model lies at `folder` already, unless it may be replaced."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out-dir {folder}: expected a folder, got a file")
    there = [name for name in FOLDER_FILES if (folder / name).exists()]
    if there and not force and not (folder / NAME).exists():
        raise UsageError(f"--out-dir {folder}: there is a model already ({there[0]}); give --force to replace it")


@contextmanager
def workplace(folder: Path, settings: dict[str, object], *, force: bool, keep: bool) -> Iterator[Path]:
    """The folder of a run's stages, `folder/.training`, held by this process alone; removed when the block ends well.

    Args:
        folder: the model's.
        settings: what the run is about; a run of other settings does not go on from here.
        force: what another run left there may be removed.
        keep: it stays.

    Raises:
        UsageError: another process works there, or a run of other settings was stopped there.
        OutputError: the folder cannot be written.
    """
    work = folder / NAME
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"--out-dir {folder}: the folder cannot be made ({error.strerror})") from error
    with FolderLock(folder, Shard()):
        _begin(work, settings, force)
        yield work
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


def _begin(work: Path, settings: dict[str, object], force: bool) -> None:
    path = work / "run.json"
    wanted = json.loads(json.dumps(settings))
    if path.exists():
        there = _read(path)
        if there == wanted:
            return
        differ = sorted(key for key in {*there, *wanted} if there.get(key) != wanted.get(key))
        if not force:
            raise UsageError(
                f"{work.parent}: a run with another {' and another '.join(differ)} was stopped here; call it as it was "
                "called then to go on, give --force to begin anew, or take another folder"
            )
        for old in work.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    part = path.with_suffix(".part")
    part.write_text(json.dumps(wanted, indent=1), "utf-8")
    os.replace(part, path)


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text("utf-8"))
        return value if isinstance(value, dict) else {"settings": value}
    except (OSError, ValueError):
        return {"settings": "that cannot be read"}
