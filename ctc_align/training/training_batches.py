"""Training data in batches of similar length, the same for the same seed and epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ctc_align.models.convnet import features
from ctc_align.training.augmentation import Augmentation, augment, mask
from ctc_align.training.feature_store import FeatureStore

EVALUATION_FRAMES = 6000
"""Padded frames of a batch that only runs forward."""


@dataclass(frozen=True)
class Material:
    """Frames, token ids (CTC) and optional state labels of every utterance; `train` and `dev` are indices of them.

    `more_silence` (nats) is added to the last state in the cross-entropy: what silence is likelier in these labels than
    in the frames that the network's output is meant for.
    """

    store: FeatureStore
    targets: Sequence[np.ndarray]
    labels: Sequence[np.ndarray] | None
    train: np.ndarray
    dev: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    more_silence: float = 0.0


@dataclass(frozen=True)
class TrainingBatch:
    """`inputs` (B, T + 2 * context, MELS), `lengths` (B,), `targets` (B, L), `labels` (B, T) or None, -1 ignored."""

    inputs: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    labels: torch.Tensor | None
    more_silence: float = 0.0

    def to(self, device: torch.device) -> TrainingBatch:
        """Return the batch with the network's tensors on `device`; those that kernels plan with stay on the CPU."""
        if device.type == "cpu":
            return self
        return replace(
            self, inputs=self.inputs.to(device), labels=None if self.labels is None else self.labels.to(device)
        )


def plan(lengths: np.ndarray, batch_frames: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the indices of each batch: sorted by length with some disorder, cut at `batch_frames`, shuffled.

    `batch_frames` counts padded frames.
    """
    random = np.random.default_rng((seed, epoch))
    order = np.argsort(lengths * random.uniform(0.9, 1.1, len(lengths)), kind="stable")
    batches: list[list[int]] = []
    longest = 0
    for i in order.tolist():
        longest = max(longest, int(lengths[i]))
        if not batches or longest * (len(batches[-1]) + 1) > batch_frames:
            batches.append([])
            longest = int(lengths[i])
        batches[-1].append(i)
    random.shuffle(batches)
    return batches


def evaluation_batches(lengths: np.ndarray, indices: np.ndarray) -> Iterator[list[int]]:
    """Yield the indices of utterances in batches that only run forward; `lengths` (N,) are of all utterances."""
    for batch in plan(lengths[indices], EVALUATION_FRAMES, 0, 0):
        yield indices[batch].tolist()


def collate(
    material: Material,
    indices: Sequence[int],
    context: int,
    augmentation: Augmentation | None = None,
    seed: Sequence[int] = (),
) -> TrainingBatch:
    """Return one batch; `seed` decides the augmentation."""
    rows, lengths = [], []
    for i in indices:
        frames = material.store[i]
        if augmentation:
            generator = torch.Generator().manual_seed(int(np.random.SeedSequence((*seed, i)).generate_state(1)[0]))
            frames = augment(frames, augmentation, generator)
        statistics = features.statistics_of(frames)
        inputs = features.normalise(frames, statistics)
        if augmentation:
            inputs = mask(inputs, augmentation, generator)
        rows.append((inputs, features.silence(statistics)))
        lengths.append(len(frames))
    longest = max(lengths) + max(lengths) % 2
    inputs = torch.empty(len(rows), longest + 2 * context, features.MELS)
    for b, (row, silent) in enumerate(rows):
        inputs[b] = silent
        inputs[b, context : context + len(row)] = row
    return TrainingBatch(
        inputs,
        torch.tensor(lengths),
        _pad([material.targets[i] for i in indices], 0),
        torch.tensor([len(material.targets[i]) for i in indices]),
        None if material.labels is None else _pad([material.labels[i] for i in indices], -1, longest),
        material.more_silence,
    )


def _pad(rows: Sequence[np.ndarray], value: int, width: int | None = None) -> torch.Tensor:
    width = max(map(len, rows)) if width is None else width
    padded = torch.full((len(rows), width), value, dtype=torch.int64)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = torch.from_numpy(np.asarray(row, np.int64))
    return padded


def prefetched(makers: Iterator[Callable[[], TrainingBatch]]) -> Iterator[TrainingBatch]:
    """Yield the batches that `makers` make, each made while the one before it is used."""
    with ThreadPoolExecutor(1) as pool:
        # The maker's small tensors need one thread of torch's: more would wait for one another and for the network's.
        # Torch sets the number for the calling thread and for later ones, so this thread sets its own again.
        count = torch.get_num_threads()
        pool.submit(torch.set_num_threads, 1).result()
        torch.set_num_threads(count)
        pending = None
        for maker in makers:
            following = pool.submit(maker)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()
