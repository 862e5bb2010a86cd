"""Small recipes of training, runs that are stopped where they save their state, and the models that
they end with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctc_align.training import run_folder
from ctc_align.training.acoustic_training import Training
from ctc_align.training.recipe import NetworkSizes, Recipe, SegmenterPlan
from ctc_align.training.run_folder import TrainOptions
from ctc_align.training.training_batches import Augmentation

CALM = Augmentation(noise=0.0, warp=0.0, band_limit=0.0, mask_channels=0)
SMALL = Recipe(
    fewest=3,
    dev_share=0.1,
    network=NetworkSizes(24, 32, 32, (1, 2)),
    segmenter=SegmenterPlan(((1, 5, 50), (1, 1, 50)), 1),
    training=Training(
        epochs=30, learning_rate=2e-2, batch_s=4.0, warmup_steps=5, dropout=0.0, ctc_weight=2.0, bfloat16=False,
        augmentation=CALM,
    ),
)  # fmt: skip
"""Learns tones in seconds."""


def options(folder: Path, out: Path, **more: Any) -> TrainOptions:
    return TrainOptions(str(folder / "manifest.jsonl"), out, **more)


class StoppedError(Exception):
    """A run was stopped."""


def stop_at_saves(patch: pytest.MonkeyPatch, *numbers: int) -> list[str]:
    """Stop runs behind the checkpoints of these numbers, from 1; returns the list of all that are
    saved from now on."""
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
