"""The common part of networks that take whole utterances: chunks, batches, precision, frame times.

A family of models says how audio becomes the network's inputs (`_signal`) and calls the network (`_logits`).

A long recording goes through in chunks with `context` frames more on both sides, whose outputs are dropped; the rest is
laid side by side on the frame grid. The result is that of one pass where a network sees no further than its context;
attention over the whole utterance sees less than it would, an effect that fades with the context.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ctc_align import units
from ctc_align.config import Settings
from ctc_align.errors import AudioError, EmissionsError
from ctc_align.models.acoustic_model import AcousticModel
from ctc_align.models.framewise import padding_guard
from ctc_align.models.framewise.frame_times import FrameGrid
from ctc_align.types import Audio, Emissions

PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ACCELERATED = 8
"""A pass on a device other than the CPU may hold this many times a chunk and its context."""
BLOCK = 2**17
"""Statistics are gathered from this many samples at once."""


@dataclass(frozen=True)
class Signal:
    """A network's inputs of one utterance: `rows` (N,) or (N, D) float32, normalised when they are taken.

    `mean` and `deviation` are of the whole utterance, so a chunk is normalised as the utterance is.
    """

    rows: np.ndarray
    mean: np.ndarray | float | None = None
    deviation: np.ndarray | float = 1.0

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, first: int, last: int) -> torch.Tensor:
        """Return rows [first, last), cut at the end, normalised: float32."""
        rows = self.rows[first:last]
        if self.mean is not None:
            rows = (rows - self.mean) / self.deviation
        return torch.from_numpy(np.ascontiguousarray(rows, np.float32))


def standardised(samples: np.ndarray, epsilon: float) -> Signal:
    """Return samples with mean 0 and variance 1 over the whole utterance; sums are float64, block by block."""
    starts, count = range(0, len(samples), BLOCK), max(1, len(samples))
    mean = sum(float(samples[first : first + BLOCK].sum(dtype=np.float64)) for first in starts) / count
    squares = (np.square(samples[first : first + BLOCK].astype(np.float64) - mean).sum() for first in starts)
    variance = sum(map(float, squares)) / count
    return Signal(samples, mean, math.sqrt(variance + epsilon))


@dataclass(frozen=True)
class Chunk:
    """Frames [first, last) of a recording, computed from frames [begin, end)."""

    begin: int
    first: int
    last: int
    end: int


def plan_chunks(frames: int, chunk_frames: int, context_frames: int, together: int = 1) -> list[Chunk]:
    """Return chunks of about equal length that cover `frames` frames in order.

    Args:
        frames: of the recording.
        chunk_frames: longest chunk; rounded up to multiples of `together`.
        context_frames: frames that a chunk sees beyond itself on either side; rounded up as well.
        together: frames that the network takes as one: chunks begin at multiples of it.

    >>> plan_chunks(10, 5, 1)
    [Chunk(begin=0, first=0, last=5, end=6), Chunk(begin=4, first=5, last=10, end=10)]
    >>> plan_chunks(10, 20, 5)
    [Chunk(begin=0, first=0, last=10, end=10)]
    """

    def rounded_up(number: int) -> int:
        return -(-number // together) * together

    most, context = rounded_up(max(1, chunk_frames)), rounded_up(max(0, context_frames))
    count = max(1, -(-frames // most))
    each = min(most, rounded_up(max(1, -(-frames // count))))
    return [
        Chunk(max(0, first - context), first, min(frames, first + each), min(frames, first + each + context))
        for first in range(0, max(1, frames), each)
    ]


@dataclass(frozen=True)
class NetworkFacts:
    """Properties of a network that its family found out.

    `grid` leads from samples to frames; its first `front` layers make the inputs (features), the rest is the network.
    With `pads`, utterances of different lengths may share a pass; otherwise only those of as many frames.
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


class FrameModel(AcousticModel):
    """An `AcousticModel` around a network whose frames lie on a `FrameGrid`.

    Args:
        facts: of the network.
        network: in evaluation mode; moved to `device` in the precision that `settings` ask for.
        settings: `chunk_s`, `context_s` and `precision` are used.
    """

    def __init__(self, facts: NetworkFacts, network: nn.Module, device: torch.device, settings: Settings) -> None:
        self.facts = facts
        self.name, self.vocab, self.blank = facts.name, facts.vocab, facts.blank
        self.sample_rate = facts.sample_rate
        self.grid = facts.grid
        self.frame_shift_s = facts.grid.frame_shift_s(facts.sample_rate)
        self.first_frame_s = facts.grid.first_frame_s(facts.sample_rate)
        self.receptive_field_s = units.samples_to_seconds(facts.grid.field, facts.sample_rate)
        """Seconds of sound that the convolutions compute a frame from; attention may see the whole utterance."""
        self.device = device
        self.precision = precision_of(settings, device)
        self.chunk_frames = units.seconds_to_frames(settings.chunk_s, self.frame_shift_s)
        context_frames = units.seconds_to_frames(settings.context_s, self.frame_shift_s)
        self.context_frames = max(facts.grid.together, context_frames)
        window = self.chunk_frames + 2 * self.context_frames
        self._pass_frames = window if device.type == "cpu" else window * ACCELERATED
        self.network = network.to(device, self.precision).eval()
        self._inner = facts.grid.after(facts.front)
        self._guard = padding_guard.Guard(network, facts.norms)

    @abstractmethod
    def _signal(self, audio: Audio) -> Signal:
        """Return the network's inputs of an utterance."""

    @abstractmethod
    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """Return scores (B, T, C) before the softmax of `inputs` (B, N) or (B, N, D).

        `lengths` (B,) int64 say where rows end; None if none is padded.
        """

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return log-probs (T, C) float32 on the model's device; see `AcousticModel`.

        Raises:
            AudioError: another rate, or too short for one frame.
            EmissionsError: the network's arithmetic overflowed.
        """
        log_probs = self._in_chunks(self._checked_signal(audio), progress)
        if progress:
            progress(1.0)
        return self._emissions(audio, log_probs)

    @torch.no_grad()
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio, as `emissions` does to 1e-4; an audio longer than a chunk goes alone.

        Raises as `emissions`.
        """
        signals = [self._checked_signal(audio) for audio in audios]
        frames = [self._inner.frames(len(signal)) for signal in signals]
        log_probs: dict[int, torch.Tensor] = {}
        short = [index for index, count in enumerate(frames) if count <= self.chunk_frames]
        counts = [frames[index] for index in short]
        for group in padding_guard.by_length(counts, pads=self.facts.pads, most=self._pass_frames):
            indices = [short[k] for k in group]
            log_probs |= zip(indices, self._in_one_pass([signals[index] for index in indices]))
        for index in set(range(len(signals))) - set(short):
            log_probs[index] = self._in_chunks(signals[index], None)
        return [self._emissions(audio, log_probs[index]) for index, audio in enumerate(audios)]

    def _checked_signal(self, audio: Audio) -> Signal:
        least = self.grid.together
        if audio.sample_rate == self.sample_rate and self.grid.frames(len(audio.samples)) >= least:
            return self._signal(audio)
        lengths = range(1, self.grid.field + least * self.grid.stride)
        shortest = next(count for count in lengths if self.grid.frames(count) >= least)
        raise AudioError(
            f"{audio.name or 'audio'}: expected samples at {self.sample_rate} Hz, at least {shortest} of them "
            f"for the model {self.name}; got {len(audio.samples)} samples at {audio.sample_rate} Hz"
        )

    def _in_chunks(self, signal: Signal, progress: Callable[[float], None] | None) -> torch.Tensor:
        """Return log-probs (T, C) of an utterance of any length."""
        frames = self._inner.frames(len(signal))
        chunks = plan_chunks(frames, self.chunk_frames, self.context_frames, self.grid.together)
        if len(chunks) == 1:
            return self._in_one_pass([signal])[0]
        log_probs = torch.empty(frames, len(self.vocab), device=self.device)
        with self._guard.whole(self._statistics(signal)) if self._guard.norms else nullcontext():
            for chunk in chunks:
                first, last = self._inner.inputs(chunk.begin, chunk.end)
                cut = signal.take(first, len(signal) if chunk.end == frames else last)
                outputs = self._log_probs(cut[None], None)[0]
                log_probs[chunk.first : chunk.last] = outputs[chunk.first - chunk.begin : chunk.last - chunk.begin]
                if progress:
                    progress(chunk.last / frames)
        return log_probs

    def _statistics(self, signal: Signal) -> padding_guard.Statistics:
        """Return what the norm over time would see in one pass, from the first convolution's outputs."""
        stem = self.facts.stem
        assert isinstance(stem, nn.Conv1d)
        grid = FrameGrid.of([(stem.kernel_size[0], stem.stride[0])])
        return padding_guard.gather((block.to(self.device, self.precision) for block in _blocks(signal, grid)), stem)

    def _in_one_pass(self, signals: Sequence[Signal]) -> list[torch.Tensor]:
        """Return log-probs of several utterances from one pass of the network."""
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
        """Return log-probs (B, T, C) float32 on the model's device."""
        ends = None if lengths is None else lengths.to(self.device)
        log_probs = self._logits(inputs.to(self.device, self.precision), ends).float().log_softmax(-1)
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


def precision_of(settings: Settings, device: torch.device) -> torch.dtype:
    """Return the precision that `settings` ask for; "auto" is float16 on CUDA and float32 elsewhere."""
    return PRECISIONS.get(settings.precision, torch.float16 if device.type == "cuda" else torch.float32)


def _blocks(signal: Signal, grid: FrameGrid) -> Iterator[torch.Tensor]:
    """Yield cuts (1, n) of a signal, each with whole outputs of `grid` that no other has."""
    outputs, each = grid.frames(len(signal)), BLOCK // grid.stride
    for first in range(0, outputs, each):
        yield signal.take(*grid.inputs(first, min(outputs, first + each)))[None]
