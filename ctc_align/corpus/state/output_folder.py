"""The output folder.

It is created, the remains of a killed run are removed, and other people's files in it are
protected.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ctc_align.corpus.outputs.assembly import PendingParts
from ctc_align.corpus.outputs.layout import MANIFESTS, SHARDS, TABLES, WEBDATASET, Layout
from ctc_align.corpus.outputs.records import CUTS
from ctc_align.corpus.state.journal import journal_paths
from ctc_align.corpus.state.summary import is_summary
from ctc_align.errors import UsageError
from ctc_align.files.folder_lock import Shard, is_held
from ctc_align.files.whole_files import remove_tree, sync_folder
from ctc_align.sources.utterance import Source, Utterance

_PARTS = ".ctc-align-parts"
_PROBE = ".ctc-align.probe"
_LEFT = re.compile(
    r"(\.ctc-align(?:-parts|-spool|\.probe))(\.(\d+)-of-(\d+))?(?:\.sqlite|\.[0-9a-f]{16})?"
)


def make_folder(out_dir: Path) -> None:
    """Make the output folder if it does not exist.

    Raises:
        UsageError: it is a file, or cannot be created or written.
    """
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        sync_folder(out_dir.parent)
        with _probe(out_dir, Shard()):
            pass
    except FileExistsError:
        raise UsageError(f"--out-dir {out_dir}: expected a folder, got a file") from None
    except OSError as error:
        raise UsageError(
            f"--out-dir {out_dir}: cannot be written ({error.strerror}); choose another folder"
        ) from None


def remove_folder(out_dir: Path, journal: Path) -> None:
    """Remove a folder that this run created, unless it contains more than an empty journal."""
    with contextlib.suppress(OSError):
        if not journal.stat().st_size:
            journal.unlink()
    with contextlib.suppress(OSError):
        out_dir.rmdir()


def folds_case(out_dir: Path, shard: Shard | None = None) -> bool:
    """Return whether "A" and "a" are one file in the output folder, by making a file there.

    Raises:
        UsageError: the folder cannot be written any more.
    """
    try:
        with _probe(out_dir, shard or Shard()) as probe:
            return probe.with_name(probe.name.upper()).exists()
    except OSError as error:
        raise UsageError(
            f"--out-dir {out_dir}: cannot be written ({error.strerror}); choose another folder"
        ) from None


@contextlib.contextmanager
def _probe(out_dir: Path, shard: Shard) -> Iterator[Path]:
    """Make an empty file with an unguessable lower-case name, for the duration of the block."""
    probe = out_dir / f"{_PROBE}{shard.suffix}.{secrets.token_hex(8)}"
    os.close(
        os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    )  # O_EXCL: never through a link
    try:
        yield probe
    finally:
        probe.unlink(missing_ok=True)


def parts_folder(out_dir: Path, suffix: str) -> Path:
    """Return the folder in which files are written before they move to their paths.

    After a kill they remain there.
    """
    return out_dir / f"{_PARTS}{suffix}"


def compiling_path(out_dir: Path, suffix: str) -> Path:
    """Return the path of the lock file of the worker that compiles the kernels."""
    return parts_folder(out_dir, suffix) / "compiling"


def clear(out_dir: Path, shard: Shard) -> None:
    """Remove unfinished files of runs that have ended, this one included.

    Also remove pending parts of runs with a different number of shards: their shards had other
    utterances.
    """
    for path in out_dir.glob(".ctc-align*"):
        match = _LEFT.fullmatch(path.name)
        if match is None:
            continue
        suffix = match[2] or ""
        count = int(match[4] or 1)
        lock = out_dir / f".ctc-align{suffix}.lock"
        if suffix != shard.suffix and is_held(lock):
            continue
        if match[1] in (_PARTS, _PROBE):
            remove_tree(path)
        elif count != shard.count:
            PendingParts(path).close(remove=True)
            is_held(lock)
    for path in out_dir.glob(".ctc-align*.lock"):
        if path.name != f".ctc-align{shard.suffix}.lock":
            is_held(path)  # removes that of a dead run


def left_behind(layout: Layout, out_dir: Path) -> list[str]:
    """Return the shared and cut outputs that this run does not make.

    Earlier runs with other options made them.
    """
    others = [name for name in MANIFESTS if name not in layout.manifests]
    left = [
        path.name for name in others for path in sorted(out_dir.glob(f"manifest.{name}.jsonl*"))
    ]
    if layout.kind != SHARDS:
        left += ["alignments-*"] if any(out_dir.glob("alignments-?????.jsonl.gz")) else []
    if not layout.cut:
        left += [CUTS] if (out_dir / CUTS).is_dir() else []
        return left
    lists = {
        "metadata.csv": layout.data_set in TABLES,
        "shard*-*.tar": layout.data_set == WEBDATASET,
    }
    return left + [
        f"{CUTS}/{name}"
        for name, is_made in lists.items()
        if not is_made and any((out_dir / CUTS).glob(name))
    ]


def check_existing(source: Source, layout: Layout, out_dir: Path, *, force: bool) -> None:
    """Refuse a first run into a folder that would replace files that no run made.

    If there is a journal or a summary, the outputs belong to runs: those not yet in the journal are
    replaced.

    Raises:
        UsageError: there is such a file and `force` is not given, or it is in the folder of the
            corpus.
    """
    if _has_trace(out_dir) or not _holds_files(out_dir):
        return
    inside = os.path.isdir(source.name) and (
        Path(source.name).resolve() in out_dir.resolve().parents
    )
    if force and not inside:
        return
    for index, entry in enumerate(source):
        if not isinstance(entry, Utterance):
            continue
        existing = next((path for path in layout.outputs(entry) if path.exists()), None)
        group = layout.group(index, entry)
        if existing is None and group is not None:
            existing = next(out_dir.glob(f"{glob.escape(group)}.*"), None)
        if existing is not None and not _has_trace(out_dir):
            raise UsageError(
                f"{existing}: already exists, and no run into this folder made it; "
                + (
                    "choose another --out-dir"
                    if inside
                    else "give --force to replace it, or another --out-dir"
                )
            )


def _has_trace(out_dir: Path) -> bool:
    pending = any(out_dir.glob(".ctc-align-*"))
    return (
        bool(journal_paths(out_dir))
        or pending
        or any(is_summary(path) for path in out_dir.glob("summary*.json"))
    )


def _holds_files(out_dir: Path) -> bool:
    with os.scandir(out_dir) as entries:
        return any(not entry.name.startswith(".ctc-align") for entry in entries)
