"""Augmented training data in batches of similar length.

The same seed and epoch give the same batches. Frames (T, MELS) are natural logs of power. The
augmentation varies vocal tracts, rooms, noise and band limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ctc_align.models.convnet import features
from ctc_align.models.convnet.features import FRAME_SHIFT_S, MELS
from ctc_align.training.corpus_data import FeatureStore

EVALUATION_FRAMES = 6000
"""Padded frames of a batch that only runs forward."""
SHORTEST_ROOM_S, LONGEST_ROOM_S = 0.2, 0.8


@dataclass(frozen=True)
class Augmentation:
    """Probability and strength of each change.

    `noise`: share of utterances with stationary coloured noise, at `noise_snr_db` (low, high) below
    their louder frames. `warp`: largest change of the mel axis (vocal tract length). `band_limit`:
    share without the channels above a random one. `mask_channels`: widest band set to its mean.
    `room`: share with reverberation of a random length and strength.
    """

    noise: float = 0.5
    noise_snr_db: tuple[float, float] = (5.0, 45.0)
    warp: float = 0.12
    band_limit: float = 0.15
    mask_channels: int = 10
    tilt: float = 1.0
    room: float = 0.0


def augment(
    frames: torch.Tensor, settings: Augmentation, generator: torch.Generator
) -> torch.Tensor:
    """Return a changed copy of the frames (T, MELS)."""
    frames = _warp(frames, settings.warp, generator)
    if settings.room and _random(generator) < settings.room:
        frames = _room(frames, generator)
    if _random(generator) < settings.noise:
        frames = _noise(frames, settings, generator)
    if _random(generator) < settings.band_limit:
        cut = int(MELS * (0.6 + 0.35 * _random(generator)))
        frames = frames.clone()
        frames[:, cut:] = -40.0
    return frames


def mask(inputs: torch.Tensor, settings: Augmentation, generator: torch.Generator) -> torch.Tensor:
    """Return normalised inputs (T, MELS) with one band set to its mean, 0.

    These are frequency masks (Park et al. 2019).
    """
    width = int(_random(generator) * (settings.mask_channels + 1))
    first = int(_random(generator) * (MELS - width))
    inputs = inputs.clone()
    inputs[:, first : first + width] = 0.0
    return inputs


def _random(generator: torch.Generator) -> float:
    return float(torch.rand((), generator=generator))


def _warp(frames: torch.Tensor, strength: float, generator: torch.Generator) -> torch.Tensor:
    """Return frames with the mel axis stretched by up to `strength` (Jaitly and Hinton 2013)."""
    factor = 1.0 + strength * (2.0 * _random(generator) - 1.0)
    sources = (torch.arange(MELS) * factor).clamp_(0, MELS - 1)
    low = sources.floor().long()
    high = (low + 1).clamp_(max=MELS - 1)
    part = sources - low
    return frames[:, low] * (1.0 - part) + frames[:, high] * part


def _room(frames: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return frames with reverberation.

    Its power is 0 to 12 dB below, and decays by 60 dB in 0.2 to 0.8 s.
    """
    seconds = SHORTEST_ROOM_S + (LONGEST_ROOM_S - SHORTEST_ROOM_S) * _random(generator)
    below_nats = 12.0 * _random(generator) / 10.0 * math.log(10.0)
    falls = torch.arange(1, int(seconds / FRAME_SHIFT_S) + 1) * (
        6.0 * math.log(10.0) * FRAME_SHIFT_S / seconds
    )
    tail = torch.cat((torch.ones(1), math.exp(-below_nats) * torch.softmax(-falls, 0)))
    power = torch.nn.functional.pad(frames.exp().T[:, None], (len(tail) - 1, 0))
    return (
        torch.nn.functional.conv1d(power, tail.flip(0)[None, None])[:, 0].T.clamp_min(1e-30).log()
    )


def _noise(
    frames: torch.Tensor, settings: Augmentation, generator: torch.Generator
) -> torch.Tensor:
    """Return frames with stationary noise.

    Slope and ripple over channels are random, and so is jitter over frames.
    """
    low, high = settings.noise_snr_db
    snr_nats = (low + (high - low) * _random(generator)) / 10.0 * math.log(10.0)
    loud = torch.quantile(frames.amax(1), 0.9)
    slope = settings.tilt * 3.0 * (2.0 * _random(generator) - 1.0)
    ripple = torch.randn(MELS // 8, generator=generator).repeat_interleave(8) * 0.5
    spectrum = slope * torch.linspace(-0.5, 0.5, MELS) + ripple
    jitter = torch.randn(frames.shape, generator=generator) * 0.4
    return torch.logaddexp(frames, loud - snr_nats + spectrum + jitter)


@dataclass(frozen=True)
class Material:
    """Frames, token ids (CTC) and optional state labels of every utterance.

    `train` and `dev` are indices of utterances. `more_silence` (nats) is added to the score of the
    last state in the cross-entropy: how much likelier silence is in these labels than in the data
    of the model's log-priors.
    """

    store: FeatureStore
    targets: Sequence[np.ndarray]
    labels: Sequence[np.ndarray] | None
    train: np.ndarray
    dev: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    more_silence: float = 0.0


@dataclass(frozen=True)
class TrainingBatch:
    """A batch of utterances, padded.

    `inputs` (B, T + 2 * context, MELS), `lengths` (B,), `targets` (B, L), `labels` (B, T) or None,
    -1 ignored.
    """

    inputs: torch.Tensor
    lengths: torch.Tensor
    targets: torch.Tensor
    target_lengths: torch.Tensor
    labels: torch.Tensor | None
    more_silence: float = 0.0

    def to(self, device: torch.device) -> TrainingBatch:
        """Return the batch with the network's tensors on `device`.

        Kernels plan with lengths and targets on the CPU.
        """
        if device.type == "cpu":
            return self
        return replace(
            self,
            inputs=self.inputs.to(device),
            labels=None if self.labels is None else self.labels.to(device),
        )


def plan(lengths: np.ndarray, batch_frames: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the indices of each batch.

    They are sorted by length with some disorder, cut at `batch_frames`, and shuffled.
    `batch_frames` counts padded frames.
    """
    random = np.random.default_rng((seed, epoch))
    # utterances of about the same length share a batch, with little padding, but not the same ones
    # in each epoch
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
    """Yield batches of `indices` for running forward.

    `lengths` (N,) are those of all utterances.
    """
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
            generator = torch.Generator().manual_seed(
                int(np.random.SeedSequence((*seed, i)).generate_state(1)[0])
            )
            frames = augment(torch.from_numpy(frames), augmentation, generator).numpy()
        statistics = features.statistics_of(frames)
        inputs = torch.from_numpy(features.normalise(frames, statistics))
        if augmentation:
            inputs = mask(inputs, augmentation, generator)
        rows.append((inputs, torch.from_numpy(features.silence(statistics))))
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
        (
            None
            if material.labels is None
            else _pad([material.labels[i] for i in indices], -1, longest)
        ),
        material.more_silence,
    )


def _pad(rows: Sequence[np.ndarray], value: int, width: int | None = None) -> torch.Tensor:
    width = max(map(len, rows)) if width is None else width
    padded = torch.full((len(rows), width), value, dtype=torch.int64)
    for b, row in enumerate(rows):
        padded[b, : len(row)] = torch.from_numpy(np.asarray(row, np.int64))
    return padded


def prefetched(makers: Iterator[Callable[[], TrainingBatch]]) -> Iterator[TrainingBatch]:
    """Yield the batches of `makers`; make each one while the previous one is in use."""
    with ThreadPoolExecutor(1) as pool:
        # Making a batch needs one thread of torch: more would wait for one another and for the
        # network's.
        # torch sets the number for the calling thread and all later ones, so this thread sets its
        # number again.
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
