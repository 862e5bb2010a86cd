"""The output folder: made, cleared of what a killed run left in the making, and others' files in it guarded."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
from pathlib import Path

from ctc_align.corpus.outputs.layout import Layout
from ctc_align.corpus.outputs.pending_parts import Spool
from ctc_align.corpus.state.journal import Shard, journal_paths
from ctc_align.corpus.state.lock import is_held
from ctc_align.corpus.state.summary import is_ours
from ctc_align.corpus.utterance import Source, Utterance
from ctc_align.errors import UsageError

_PARTS = ".ctc-align-parts"
_LEFT = re.compile(r"(\.ctc-align-(?:parts|spool))(\.(\d+)-of-(\d+))?(?:\.sqlite)?")


def make_folder(out_dir: Path) -> None:
    """The output folder, if need be made.

    Raises:
        UsageError: it is a file, or cannot be made or written.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        probe = out_dir / f".ctc-align.{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except FileExistsError:
        raise UsageError(f"--out-dir {out_dir}: expected a folder, got a file") from None
    except OSError as error:
        raise UsageError(f"--out-dir {out_dir}: cannot be written ({error.strerror}); choose another folder") from None


def forget_folder(out_dir: Path, journal: Path) -> None:
    """Remove a folder that this run made, unless something is in it that says more than an empty journal."""
    with contextlib.suppress(OSError):
        if not journal.stat().st_size:
            journal.unlink()
    with contextlib.suppress(OSError):
        out_dir.rmdir()


def folds_case(out_dir: Path) -> bool:
    """Whether the output folder takes "A" and "a" for one name; the lock is in it."""
    return (out_dir / ".CTC-ALIGN.LOCK").exists() and not (out_dir / ".ctc-align.lock").name.isupper()


def parts_folder(out_dir: Path, suffix: str) -> Path:
    """Where files are in the making before they take their places: what a kill leaves is all in here."""
    return out_dir / f"{_PARTS}{suffix}"


def clear(out_dir: Path, shard: Shard) -> None:
    """Remove what was in the making in runs that are no more, ours included.

    What runs with another number of shards have spooled goes too: their shards were other utterances.
    """
    for path in out_dir.glob(".ctc-align*"):
        match = _LEFT.fullmatch(path.name)
        if match is None:
            continue
        suffix, count = match[2] or "", int(match[4] or 1)
        lock = out_dir / f".ctc-align{suffix}.lock"
        if suffix != shard.suffix and is_held(lock):
            continue
        if match[1] == _PARTS:
            shutil.rmtree(path, ignore_errors=True)
        elif count != shard.count:
            Spool(path).close(remove=True)
            is_held(lock)
    for path in out_dir.glob(".ctc-align*.lock"):
        if path.name != f".ctc-align{shard.suffix}.lock":
            is_held(path)  # removes that of a dead run


def check_found(source: Source, layout: Layout, out_dir: Path, *, force: bool) -> None:
    """Refuse the first run into a folder that would replace files somebody else made.

    Where a journal or a summary is, the outputs are ours: those not yet in the journal are replaced.

    Raises:
        UsageError: such a file, unless `force` is given; one in the corpus's own folder in any case.
    """
    if _has_trace(out_dir) or not _holds_files(out_dir):
        return
    inside = os.path.isdir(source.name) and _is_below(out_dir, Path(source.name))
    if force and not inside:
        return
    for index, what in enumerate(source):
        if not isinstance(what, Utterance):
            continue
        found = next((path for path in layout.outputs(what) if path.exists()), None)
        group = layout.group(index, what)
        if found is None and group is not None:
            found = next(out_dir.glob(f"{glob.escape(group)}.*"), None)
        if found is not None and not _has_trace(out_dir):
            raise UsageError(
                f"{found}: exists already, and no run into this folder made it; "
                + ("choose another --out-dir" if inside else "give --force to replace it, or another --out-dir")
            )


def _has_trace(out_dir: Path) -> bool:
    spools = any(out_dir.glob(".ctc-align-*"))
    return bool(journal_paths(out_dir)) or spools or any(is_ours(path) for path in out_dir.glob("summary*.json"))


def _holds_files(out_dir: Path) -> bool:
    return any(not entry.name.startswith(".ctc-align") for entry in os.scandir(out_dir))


def _is_below(path: Path, folder: Path) -> bool:
    return folder.resolve() in path.resolve().parents
