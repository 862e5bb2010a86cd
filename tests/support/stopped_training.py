"""Training runs that are stopped where they save their state, and the models that they end with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctc_align.training import run_folder


class StoppedError(Exception):
    """A run was stopped."""


def stop_at_saves(patch: pytest.MonkeyPatch, *numbers: int) -> list[str]:
    """Stop runs behind the checkpoints of these numbers, from 1; returns the list of all that are saved from now on."""
    real, saved = run_folder.save_checkpoint, []

    def stopping(path: Path, state: object) -> None:
        real(path, state)
        saved.append(path.name)
        if len(saved) in numbers:
            raise StoppedError

    patch.setattr(run_folder, "save_checkpoint", stopping)
    return saved


def model_files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in ("model.safetensors", "model.toml")}
