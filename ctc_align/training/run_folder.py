"""The options of a training run, and its folder `.training` in the model's folder.

The folder holds lock, settings and checkpoints. An interrupted run resumes from this folder; a
finished run removes it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from ctc_align.errors import EmissionsError, InputError, OutputError, UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.files.folder_lock import FolderLock, Shard
from ctc_align.files.whole_files import is_link, refuse_link
from ctc_align.models import FOLDER_FILES
from ctc_align.models.log_probs import load_torch_file, reads_torch_files

NAME = ".training"
Result = TypeVar("Result")


@dataclass(frozen=True)
class TrainOptions:
    """The options of `ctc-align train` and `adapt` besides the recipe.

    Attributes:
        corpus: path of a corpus, of any kind that `open_source` knows.
        out_dir: the model's folder.
        kind: of the corpus; None: recognised.
        dev: path of a corpus to hold out; None: a part of `corpus`.
        lexicon: path of a pronunciation dictionary.
        command: the command line, for the card.
        encoding: of texts that are not UTF-8, as in `ctc_align.text.encodings.decode_text`.
        force: replace a model, or the remains of a run with other settings.
        keep: keep frames, labels and checkpoints.
    """

    corpus: str
    out_dir: Path
    kind: str | None = None
    dev: str | None = None
    lexicon: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    command: str = ""
    encoding: str = ""
    force: bool = False
    keep: bool = False

    @property
    def model_name(self) -> str:
        """The name of a model if the recipe has none: that of its folder."""
        return self.out_dir.resolve().name or "model"


def check_run(options: TrainOptions) -> None:
    """Raise UsageError if a run cannot be made here.

    torch is too old to read its checkpoints, or the folder must not be written.
    """
    if not reads_torch_files():
        raise UsageError(
            f"training needs PyTorch 2.10 or newer, this is {torch.__version__}:"
            f" {install_line('train')}"
        )
    folder = options.out_dir
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out-dir {folder}: expected a folder, got a file")
    there = [name for name in FOLDER_FILES if (folder / name).exists()]
    if there and not options.force and not (folder / NAME).exists():
        raise UsageError(
            f"--out-dir {folder}: there is a model already ({there[0]}); give --force to replace it"
        )


@contextmanager
def run_folder(options: TrainOptions, settings: dict[str, object]) -> Iterator[Path]:
    """Lock the folder `.training` for this process, and yield it.

    After a block without errors it is removed. A run with other `settings` cannot be continued;
    `options.force` removes it.

    Raises:
        UsageError: another process works there, or a run with other settings was stopped there.
        OutputError: the folder cannot be written.
    """
    folder = options.out_dir
    work = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_link(work)
        work.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"--out-dir {folder}: the folder cannot be made ({error.strerror})"
        ) from error
    with FolderLock(folder, Shard()):
        for path in filter(
            is_link, work.rglob("*")
        ):  # a run makes no links, and writing would follow them
            path.unlink()
        _check_settings(work, settings, force=options.force)
        yield work
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


def _check_settings(work: Path, settings: dict[str, object], *, force: bool) -> None:
    """Write the settings of a new run, or check those of a stopped one.

    It raises UsageError if the stopped run had other settings.
    """
    path = work / "run.json"
    wanted = json.loads(json.dumps(settings))
    if path.exists():
        there = _read(path)
        if there == wanted:
            return
        differ = sorted(key for key in {*there, *wanted} if there.get(key) != wanted.get(key))
        if not force:
            raise UsageError(
                f"{work.parent}: a run with another {' and another '.join(differ)} was stopped"
                " here; repeat that call to continue it, give --force to start again, or choose"
                " another folder"
            )
        for old in work.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    part = path.with_suffix(".part")
    part.write_text(json.dumps(wanted, indent=1), "utf-8", newline="\n")
    os.replace(part, path)


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text("utf-8"))
        if isinstance(value, dict):
            return value
        return {"settings": value}
    except (OSError, ValueError):
        return {"settings": "that cannot be read"}


def save_checkpoint(path: Path, state: object) -> None:
    """Write a state, whole or not at all.

    Raises:
        OutputError: the system refused to write it.
    """
    part = path.with_suffix(".part")
    try:
        torch.save(state, part)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        part.unlink(missing_ok=True)
        raise OutputError(f"{path}: the checkpoint cannot be written ({error})") from error


def restore_checkpoint(path: Path, put_back: Callable[[Any], Result]) -> Result:
    """Load a saved state, and return the result of `put_back` for it.

    Raises:
        InputError: the file is damaged, or is not the state of this network.
    """
    try:
        return put_back(load_torch_file(path))
    except EmissionsError:
        raise
    except Exception as error:  # torch and pickle raise many kinds; all mean that this is not the state of this run
        raise InputError(
            f"{path}: expected the state of this recipe's network, got another or a damaged one"
            f" ({one_line(error)}); remove it, or choose another folder"
        ) from error
