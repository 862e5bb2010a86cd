"""Training of the acoustic network: CTC, and, where labels are given, frame classification of segmentation states."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from ctc_align.errors import InputError
from ctc_align.loss import ctc_loss
from ctc_align.models.network import Network, NetworkShape
from ctc_align.training.augment import Augmentation
from ctc_align.training.batches import Batch, collate, plan, prefetched
from ctc_align.training.store import FeatureStore

Result = TypeVar("Result")


@dataclass(frozen=True)
class Training:
    """One stage of training. `batch_s` is seconds of padded audio per step, `learning_rate` the peak of a cosine."""

    epochs: int = 12
    learning_rate: float = 2e-3
    batch_s: float = 150.0
    warmup_steps: int = 300
    weight_decay: float = 1e-2
    dropout: float = 0.1
    frame_weight: float = 1.0
    ctc_weight: float = 1.0
    seed: int = 0
    bfloat16: bool = True
    checkpoint_s: float = 120.0
    augmentation: Augmentation = field(default_factory=Augmentation)


@dataclass(frozen=True)
class Material:
    """What is trained on: frames, token ids (CTC) and optional state labels of every utterance."""

    store: FeatureStore
    targets: Sequence[np.ndarray]
    labels: Sequence[np.ndarray] | None
    members: np.ndarray


def train(
    shape: NetworkShape,
    training: Training,
    material: Material,
    folder: Path,
    start: dict[str, torch.Tensor] | None = None,
    say: Callable[[str], None] = print,
) -> Network:
    """Train a network, or go on where `folder/checkpoint.pt` stands. The same seed gives the same network.

    Args:
        shape: sizes of the network.
        training: settings of this stage.
        material: the corpus.
        folder: where checkpoints go; `folder/final.pt` is the finished state.
        start: weights to begin with; those of the same name and shape are taken.
        say: receives a line now and then.

    Raises:
        InputError: nothing to train on, or `folder` holds the state of another network.
    """
    if not len(material.members):
        raise InputError("expected utterances to train on, met none")
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(training.seed)
    network = Network(shape, training.dropout)
    if (folder / "final.pt").exists():
        _restore(folder / "final.pt", lambda state: network.load_state_dict(state))
        return network.eval()
    if start:
        own = network.state_dict()
        network.load_state_dict(own | {k: v for k, v in start.items() if k in own and v.shape == own[k].shape})
    lengths = material.store.lengths[material.members]
    epochs = [plan(lengths, int(training.batch_s * 100), training.seed, epoch) for epoch in range(training.epochs)]
    steps = sum(map(len, epochs))
    optimizer = torch.optim.AdamW(network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    done = _resume(folder, network, optimizer)
    network.train()
    began, saved, mean = time.monotonic(), time.monotonic(), np.zeros(3)
    for step, batch in enumerate(prefetched(_makers(training, material, shape, epochs, done)), done):
        for group in optimizer.param_groups:
            group["lr"] = _rate(training, step, steps)
        parts = _losses(network, batch, training)
        loss = training.ctc_weight * parts[0] + training.frame_weight * parts[1]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        mean = 0.98 * mean + 0.02 * np.array([float(parts[0].detach()), float(parts[1].detach()), 1.0])
        if (step + 1) % 50 == 0 or step + 1 == steps:
            ctc, frame = mean[:2] / mean[2]
            spent = time.monotonic() - began
            say(f"step {step + 1}/{steps}  ctc {ctc:.3f}/token  frame {frame:.3f}  {spent / 60:.1f} min")
        if time.monotonic() - saved > training.checkpoint_s:
            _save(folder / "checkpoint.pt", _state(network, optimizer, step + 1))
            saved = time.monotonic()
    _save(folder / "final.pt", network.state_dict())
    return network.eval()


@torch.inference_mode()
def evaluate(network: Network, training: Training, material: Material, members: np.ndarray) -> str:
    """CTC loss per token and cross-entropy per frame, means over batches, on utterances that were not trained on."""
    if not len(members):
        return "no utterances"
    network.eval()
    quiet = replace(training, bfloat16=False)
    sums = np.zeros(3)
    for batch in plan(material.store.lengths[members], int(training.batch_s * 100), 0, 0):
        part = collate(
            material.store,
            members[batch].tolist(),
            material.targets,
            material.labels,
            network.shape.context_frames,
            None,
        )
        ctc, frame = _losses(network, part, quiet)
        sums += np.array([float(ctc), float(frame), 1.0])
    return f"ctc {sums[0] / sums[2]:.3f}/token  frame {sums[1] / sums[2]:.3f}"


def _makers(
    training: Training, material: Material, shape: NetworkShape, epochs: list[list[list[int]]], done: int
) -> Iterator[Callable[[], Batch]]:
    step = 0
    for epoch, batches in enumerate(epochs):
        for batch in batches:
            step += 1
            if step > done:
                members = [int(material.members[i]) for i in batch]
                yield partial(
                    collate, material.store, members, material.targets, material.labels, shape.context_frames,
                    training.augmentation, (training.seed, epoch),
                )  # fmt: skip


def _losses(network: Network, batch: Batch, training: Training) -> tuple[torch.Tensor, torch.Tensor]:
    """CTC loss per token and cross-entropy per labelled frame."""
    with torch.autocast("cpu", torch.bfloat16, enabled=training.bfloat16):
        tokens, states = network(batch.inputs)
    ctc = tokens.new_zeros((), dtype=torch.float32)
    if training.ctc_weight:
        losses = ctc_loss(tokens.float().log_softmax(-1), batch.targets, batch.lengths, batch.target_lengths)
        fits = torch.isfinite(losses)
        ctc = losses[fits].sum() / batch.target_lengths[fits].sum().clamp(min=1)
    if states is None or batch.labels is None:
        return ctc, torch.zeros(())
    labels = batch.labels.flatten()
    entropy = torch.nn.functional.cross_entropy(states.float().flatten(0, 1), labels, ignore_index=-1, reduction="sum")
    # A batch whose utterances all lack labels teaches nothing; a mean over no frames would be NaN.
    return ctc, entropy / (labels >= 0).sum().clamp(min=1)


def _rate(training: Training, step: int, steps: int) -> float:
    warm = min(1.0, (step + 1) / max(1, training.warmup_steps))
    return training.learning_rate * warm * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * step / steps)))


def _state(network: Network, optimizer: torch.optim.Optimizer, step: int) -> dict[str, Any]:
    """All that a run which goes on needs; dropout draws from torch's own generator."""
    return {
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "random": torch.get_rng_state(),
    }


def _resume(folder: Path, network: Network, optimizer: torch.optim.Optimizer) -> int:
    """Put the last checkpoint back, if there is one; returns the number of steps that are done."""
    path = folder / "checkpoint.pt"
    if not path.exists():
        return 0

    def put_back(state: dict[str, Any]) -> int:
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        if "random" in state:
            torch.set_rng_state(state["random"])
        return int(state["step"])

    return _restore(path, put_back)


def _restore(path: Path, put_back: Callable[[Any], Result]) -> Result:
    """What `put_back` makes of a saved state."""
    try:
        return put_back(torch.load(path, weights_only=True))
    except Exception as error:  # torch and pickle have many kinds, and all mean that this is not our state
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: expected the state of this recipe's network, met another or a damaged one ({reason}); "
            "remove it, or take another folder"
        ) from error


def _save(path: Path, state: object) -> None:
    part = path.with_suffix(".part")
    torch.save(state, part)
    os.replace(part, path)
