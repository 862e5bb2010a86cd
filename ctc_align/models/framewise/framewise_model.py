"""What networks that hear whole utterances share: chunks, batches, precision, frame times. A family adds its own ends.

A family says how audio becomes the network's inputs (`_signal`) and calls the network (`_logits`); everything between
is here, so that every family treats long audio, padding and time in the same way.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align import units
from ctc_align.errors import AudioError, EmissionsError
from ctc_align.models.framewise import chunks, padding
from ctc_align.models.framewise.frame_times import FrameGrid
from ctc_align.types import Audio, Emissions

CHUNK_S, CONTEXT_S = 60.0, 5.0
PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ACCELERATED = 8
"""How many times a chunk and its context a pass may hold where the device is not the CPU."""
BLOCK = 2**17
"""Samples of which statistics are gathered at once."""


@dataclass(frozen=True)
class Signal:
    """What a network hears of one utterance: `rows` (N,) or (N, D) float32, normalised when they are taken.

    `mean` and `deviation` are of the whole utterance, so a chunk is normalised as the utterance is.
    """

    rows: np.ndarray
    mean: np.ndarray | float | None = None
    deviation: np.ndarray | float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, first: int, last: int) -> torch.Tensor:
        """Rows `first` to `last` (exclusive, cut at the end), normalised: float32."""
        rows = self.rows[first:last]
        if self.mean is not None:
            rows = (rows - self.mean) / self.deviation
        return torch.from_numpy(np.ascontiguousarray(rows, np.float32))


def standardised(samples: np.ndarray, epsilon: float) -> Signal:
    """Samples whose mean is 0 and variance 1 over the whole utterance, by sums in float64, block by block."""
    starts, count = range(0, len(samples), BLOCK), max(1, len(samples))
    mean = sum(float(samples[first : first + BLOCK].sum(dtype=np.float64)) for first in starts) / count
    squares = (np.square(samples[first : first + BLOCK].astype(np.float64) - mean).sum() for first in starts)
    variance = sum(map(float, squares)) / count
    return Signal(samples, mean, math.sqrt(variance + epsilon))


@dataclass(frozen=True)
class Facts:
    """What a family found out about its network.

    `grid` leads from samples to frames; its first `front` layers make the inputs (features), the rest is the network.
    With `pads`, utterances of different lengths go through at once; else only those of as many frames.
    `stem` is the convolution before the `norms` over time, where there are any.
    """

    name: str
    vocab: tuple[str, ...]
    blank: int
    sample_rate: int
    grid: FrameGrid
    front: int = 0
    pads: bool = True
    norms: tuple[tuple[nn.Module, str], ...] = ()
    stem: nn.Module | None = None


class FrameModel(ABC):
    """An `AcousticModel` around a network whose frames lie on a `FrameGrid`.

    Args:
        facts: of the network.
        network: in evaluation mode; moved to `device` in the precision that `settings` ask for.
        settings: anything with `chunk_s`, `context_s` and `precision`.
    """

    token_kind = "tokens"

    def __init__(self, facts: Facts, network: nn.Module, device: torch.device, settings: Any = None) -> None:
        self.facts = facts
        self.name, self.vocab, self.blank = facts.name, facts.vocab, facts.blank
        self.sample_rate = facts.sample_rate
        self.grid = facts.grid
        self.frame_shift_s = facts.grid.frame_shift_s(facts.sample_rate)
        self.first_frame_s = facts.grid.first_frame_s(facts.sample_rate)
        self.device = device
        self.precision = _precision(getattr(settings, "precision", "auto"), device)
        self.chunk_frames = units.seconds_to_frames(getattr(settings, "chunk_s", CHUNK_S), self.frame_shift_s)
        context_s = getattr(settings, "context_s", CONTEXT_S)
        self.context_frames = max(facts.grid.together, units.seconds_to_frames(context_s, self.frame_shift_s))
        window = self.chunk_frames + 2 * self.context_frames
        self._pass_frames = window if device.type == "cpu" else window * ACCELERATED
        self.network = network.to(device, self.precision).eval()
        self._inner = facts.grid.after(facts.front)
        self._guard = padding.Guard(network, facts.norms)

    @property
    def receptive_field_s(self) -> float:
        """What the convolutions make a frame of, in seconds; attention may see the whole utterance."""
        return units.samples_to_seconds(self.grid.field, self.sample_rate)

    @abstractmethod
    def _signal(self, audio: Audio) -> Signal:
        """The network's inputs of an utterance."""

    @abstractmethod
    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """Scores (B, T, C) before the softmax of `inputs` (B, N) or (B, N, D).

        `lengths` (B,) int64 say where rows end, None where none is padded.
        """

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Log-probs (T, C) float32 on the CPU; see `AcousticModel`.

        Raises:
            AudioError: another rate, or too short for one frame.
            EmissionsError: the network's arithmetic overflowed.
        """
        signal = self._heard(audio)
        log_probs = self._long(signal, progress)
        if progress:
            progress(1.0)
        return self._emissions(audio, log_probs)

    @torch.no_grad()
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Of each what `emissions` gives, to 1e-4; what is longer than a chunk goes through alone.

        Raises as `emissions`.
        """
        signals = [self._heard(audio) for audio in audios]
        frames = [self._inner.frames(len(signal)) for signal in signals]
        found: dict[int, torch.Tensor] = {}
        short = [place for place, count in enumerate(frames) if count <= self.chunk_frames]
        counts = [frames[place] for place in short]
        for group in padding.by_length(counts, pads=self.facts.pads, most=self._pass_frames):
            places = [short[k] for k in group]
            found |= zip(places, self._at_once([signals[place] for place in places]))
        for place in set(range(len(signals))) - set(short):
            found[place] = self._long(signals[place], None)
        return [self._emissions(audio, found[place]) for place, audio in enumerate(audios)]

    def _heard(self, audio: Audio) -> Signal:
        if audio.sample_rate == self.sample_rate and self.grid.frames(len(audio.samples)) >= self.grid.together:
            return self._signal(audio)
        raise AudioError(
            f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, at least {self._shortest()} of them "
            f"for the model {self.name}; got {len(audio.samples)} samples at {audio.sample_rate} Hz"
        )

    def _shortest(self) -> int:
        least = self.grid.together
        return next(n for n in range(1, self.grid.field + least * self.grid.stride) if self.grid.frames(n) >= least)

    def _long(self, signal: Signal, progress: Callable[[float], None] | None) -> torch.Tensor:
        """Log-probs (T, C) of an utterance of any length."""
        frames = self._inner.frames(len(signal))
        pieces = chunks.plan(frames, self.chunk_frames, self.context_frames, self.grid.together)
        if len(pieces) == 1:
            return self._at_once([signal])[0]
        log_probs = torch.empty(frames, len(self.vocab))
        with self._guard.whole(self._statistics(signal)) if self._guard.norms else nullcontext():
            for piece in pieces:
                first, last = self._inner.inputs(piece.begin, piece.end)
                cut = signal.take(first, len(signal) if piece.end == frames else last)
                outputs = self._log_probs(cut[None], None)[0]
                log_probs[piece.first : piece.last] = outputs[piece.first - piece.begin : piece.last - piece.begin]
                if progress:
                    progress(piece.last / frames)
        return log_probs

    def _statistics(self, signal: Signal) -> padding.Statistics:
        """What the norm over time would see in one pass: of the first convolution's outputs, block by block."""
        stem = self.facts.stem
        assert isinstance(stem, nn.Conv1d)
        grid = FrameGrid.of([(stem.kernel_size[0], stem.stride[0])])
        return padding.gather((block.to(self.device, self.precision) for block in _blocks(signal, grid)), stem)

    def _at_once(self, signals: Sequence[Signal]) -> list[torch.Tensor]:
        """Log-probs of several utterances in one pass of the network."""
        lengths = [len(signal) for signal in signals]
        inputs = torch.zeros(len(signals), max(lengths), *signals[0].rows.shape[1:])
        for row, signal in zip(inputs, signals):
            row[: len(signal)] = signal.take(0, len(signal))
        levels = [self._inner.levels(length) for length in lengths]
        padded = self.facts.pads and min(lengths) < max(lengths)
        with self._guard.padded(levels):
            outputs = self._log_probs(inputs, torch.tensor(lengths) if padded else None)
        return [output[: level[-1]].clone() for output, level in zip(outputs, levels)]

    def _log_probs(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """(B, T, C) float32 on the CPU."""
        at = None if lengths is None else lengths.to(self.device)
        logits = self._logits(inputs.to(self.device, self.precision), at)
        log_probs = logits.float().log_softmax(-1).cpu()
        if self.precision is not torch.float32 and bool(log_probs.isnan().any()):
            kind = str(self.precision).removeprefix("torch.")
            raise EmissionsError(f"model {self.name}: its numbers overflow in {kind}: set precision to float32")
        return log_probs

    def _emissions(self, audio: Audio, log_probs: torch.Tensor) -> Emissions:
        return Emissions(
            log_probs,
            self.vocab,
            self.frame_shift_s,
            self.blank,
            offset_s=audio.offset_s,
            duration_s=audio.duration_s,
            name=audio.name,
            first_frame_s=self.first_frame_s,
        )


def _blocks(signal: Signal, grid: FrameGrid) -> Iterator[torch.Tensor]:
    """Cuts (1, n) of a signal, each with whole outputs of `grid` that no other has."""
    outputs, each = grid.frames(len(signal)), BLOCK // grid.stride
    for first in range(0, outputs, each):
        yield signal.take(*grid.inputs(first, min(outputs, first + each)))[None]


def _precision(wanted: str, device: torch.device) -> torch.dtype:
    return PRECISIONS.get(wanted, torch.float16 if device.type == "cuda" else torch.float32)
