"""`TorchModel`, the base of networks in PyTorch: devices, precisions, padding, norms over time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn

from ctc_align.config import Settings
from ctc_align.models.framewise import (
    BLOCK,
    FrameGrid,
    FrameModel,
    NetworkFacts,
    OverflowedError,
    Signal,
)
from ctc_align.threads import on_one_thread
from ctc_align.types import Audio, Emissions

# Batches and chunks. Log-probs must not depend on the batch's padding, and a chunk's must be those
# of one pass. Attention masks are not enough: convolutions over frames (positions, conformer
# blocks) reach into the padding, and a group norm over time (wav2vec 2.0 base, HuBERT base, WavLM
# base) takes its statistics from the padding too, or from a chunk instead of the recording. `Guard`
# is put into a network once and corrects both.

Statistics = tuple[torch.Tensor, torch.Tensor]
"""Mean and variance (C,) float32 of each channel over a whole recording."""


class Guard:
    """Hooks that keep padding out of a network's convolutions, and norms over time that ignore it.

    Args:
        network: its padded convolutions get zeros beyond an utterance's end, as at the end of the
            row.
        norms: (module, attribute) of the group norms over time that are replaced; one group per
            channel.
    """

    def __init__(self, network: nn.Module, norms: Iterable[tuple[nn.Module, str]] = ()) -> None:
        self._lengths: dict[int, list[int]] = {}
        self.norms: list[TimeNorm] = []
        for module in network.modules():
            if isinstance(module, nn.Conv1d) and module.padding not in ((0,), "valid"):
                module.register_forward_pre_hook(self._zero_padding)
        for owner, attribute in norms:
            norm = TimeNorm(getattr(owner, attribute), self)
            setattr(owner, attribute, norm)
            self.norms.append(norm)

    @contextmanager
    def padded(self, levels: Sequence[Sequence[int]]) -> Iterator[None]:
        """Within the block, rows of a batch end as `levels` says.

        `levels` is the length of each utterance at every layer. A tensor's layer is recognised by
        its length, which is that of the longest utterance there.
        """
        self._lengths = {
            max(level): list(level) for level in zip(*levels) if min(level) < max(level)
        }
        try:
            yield
        finally:
            self._lengths = {}

    @contextmanager
    def whole(self, statistics: Statistics | None) -> Iterator[None]:
        """Within the block, norms over time use the statistics of the whole recording.

        Without them they would use those of the rows.
        """
        for norm in self.norms:
            norm.fixed = statistics
        try:
            yield
        finally:
            for norm in self.norms:
                norm.fixed = None

    def lengths_of(self, rows: torch.Tensor) -> list[int] | None:
        """Return where each of `rows` (B, C, T) ends, or None if nothing is padded."""
        lengths = self._lengths.get(rows.shape[-1])
        if lengths is not None and len(lengths) == len(rows):
            return lengths
        return None

    def _zero_padding(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = args[0]
        lengths = self.lengths_of(rows)
        if lengths is None:
            return None
        ends = torch.tensor(lengths, device=rows.device)
        beyond = torch.arange(rows.shape[-1], device=rows.device) >= ends[:, None]
        return (rows.masked_fill(beyond[:, None], 0), *args[1:])


class TimeNorm(nn.Module):
    """A group norm over time with one group per channel.

    The statistics are those of each utterance alone.
    """

    def __init__(self, norm: nn.GroupNorm, guard: Guard) -> None:
        super().__init__()
        if norm.num_groups != norm.num_channels:
            raise ValueError(
                f"expected one group per channel, got {norm.num_groups} for {norm.num_channels}"
                " channels"
            )
        self.norm = norm
        self.fixed: Statistics | None = None
        self._guard = guard

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return normalised `rows` (B, C, T); zeros beyond an utterance's end."""
        if self.fixed is not None:
            return self._by(rows, *self.fixed)
        lengths = self._guard.lengths_of(rows)
        if lengths is None:
            return self.norm(rows)
        out = torch.zeros_like(rows)
        for b, length in enumerate(lengths):
            out[b, :, :length] = self.norm(rows[b : b + 1, :, :length])[0]
        return out

    def _by(self, rows: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(variance + self.norm.eps)
        if self.norm.weight is None:
            return ((rows.float() - mean[:, None]) * scale[:, None]).to(rows.dtype)
        scale = scale * self.norm.weight.float()
        return (
            (rows.float() - mean[:, None]) * scale[:, None] + self.norm.bias.float()[:, None]
        ).to(rows.dtype)


def gather(
    blocks: Iterable[torch.Tensor], layer: Callable[[torch.Tensor], torch.Tensor]
) -> Statistics:
    """Return mean and variance of each channel of a layer's outputs.

    Args:
        blocks: rows (1, n) of samples in order; each holds all inputs of its outputs, and no output
            is in two blocks.
        layer: the convolution.
    """
    count = 0
    total = torch.zeros(())
    squares = torch.zeros(())
    for block in blocks:
        outputs = layer(block[:, None])[0]
        count += outputs.shape[-1]
        total = total.to(outputs.device) + outputs.sum(-1, dtype=torch.float64)
        squares = squares.to(outputs.device) + outputs.float().square().sum(-1, dtype=torch.float64)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp_min(0).float()


PRECISIONS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
ACCELERATED = 8
"""A pass on a device other than the CPU may hold this many times a chunk and its context."""


class TorchModel(FrameModel):
    """A `FrameModel` around a network in PyTorch.

    Args:
        network: in evaluation mode; moved to `device` in the precision that `settings` ask for.
        settings: `precision` is used, too.
    """

    def __init__(
        self, facts: NetworkFacts, network: nn.Module, device: torch.device, settings: Settings
    ) -> None:
        super().__init__(facts, settings)
        self.device = device
        self.precision = precision_of(settings, device)
        if device.type != "cpu":
            self._pass_frames *= ACCELERATED
        self.network = network.to(device, self.precision).eval()
        self._guard = Guard(network, facts.norms)

    @abstractmethod
    def _logits(self, inputs: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
        """Return scores (B, T, C) before the softmax of `inputs` (B, N) or (B, N, D).

        `lengths` (B,) int64 say where rows end; None if none is padded.
        """

    @torch.no_grad()
    def emissions(self, audio: Audio, progress: Callable[[float], None] | None = None) -> Emissions:
        """Return log-probs (T, C) float32 on the model's device; see `FrameModel`."""
        return super().emissions(audio, progress)

    @torch.no_grad()
    def emissions_batch(self, audios: Sequence[Audio]) -> list[Emissions]:
        """Return the emissions of each audio; see `FrameModel`."""
        return super().emissions_batch(audios)

    def _scores(self, inputs: np.ndarray, lengths: np.ndarray | None) -> torch.Tensor:
        if lengths is None:
            ends = None
        else:
            ends = torch.from_numpy(lengths).to(self.device)
        logits = self._logits(torch.from_numpy(inputs).to(self.device, self.precision), ends)
        log_probs = logits.float().log_softmax(-1)
        if self.precision is not torch.float32 and bool(log_probs.isnan().any()):
            kind = str(self.precision).removeprefix("torch.")
            raise OverflowedError(
                f"model {self.name}: its numbers overflow in {kind}: set precision to float32"
            )
        return log_probs

    def _within(self, signal: Signal) -> AbstractContextManager[None]:
        if not self._guard.norms:
            return nullcontext()
        return self._guard.whole(on_one_thread(lambda: self._statistics(signal)))

    def _padded(self, levels: Sequence[Sequence[int]]) -> AbstractContextManager[None]:
        return self._guard.padded(levels)

    def _empty(self, frames: int) -> torch.Tensor:
        return torch.empty(frames, len(self.vocab), device=self.device)

    def _copied(self, log_probs: torch.Tensor) -> torch.Tensor:
        return log_probs.clone()

    def _lengthened(self, log_probs: torch.Tensor, frames: int) -> torch.Tensor:
        return torch.cat([log_probs, log_probs[:, -1:].expand(-1, frames, -1)], 1)

    def _statistics(self, signal: Signal) -> Statistics:
        """Return what the norm over time would see if the recording went through in one pass.

        It comes from the outputs of the first convolution.
        """
        stem = self.facts.stem
        assert isinstance(stem, nn.Conv1d)
        grid = FrameGrid.of([(stem.kernel_size[0], stem.stride[0])])
        return gather(
            (block.to(self.device, self.precision) for block in _blocks(signal, grid)), stem
        )


def time_norm(layer: Any) -> tuple[tuple[tuple[nn.Module, str], ...], nn.Module | None]:
    """Return `norms` and `stem` of `NetworkFacts`.

    The network's first layer is a convolution and a norm.
    """
    if not isinstance(getattr(layer, "layer_norm", None), nn.GroupNorm):
        return (), None
    return ((layer, "layer_norm"),), layer.conv


def precision_of(settings: Settings, device: torch.device) -> torch.dtype:
    """Return the precision of `settings`; "auto" is float16 on CUDA and float32 elsewhere."""
    return PRECISIONS.get(
        settings.precision, torch.float16 if device.type == "cuda" else torch.float32
    )


def _blocks(signal: Signal, grid: FrameGrid) -> Iterator[torch.Tensor]:
    """Yield cuts (1, n) of a signal.

    Each gives complete outputs of `grid` that no other cut gives.
    """
    outputs = grid.frames(len(signal))
    each = BLOCK // grid.stride
    for first in range(0, outputs, each):
        yield torch.from_numpy(signal.take(*grid.inputs(first, min(outputs, first + each))))[None]
