"""Keep an utterance's log-probs independent of the batch's padding, and a chunk's the same as in one pass.

Attention masks are not enough: convolutions over frames (positions, conformer blocks) reach into the padding, and a
group norm over time (wav2vec 2.0 base, HuBERT base, WavLM base) takes its statistics from the padding too, or from a
chunk instead of the recording. `Guard` is put into a network once and corrects both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

Statistics = tuple[torch.Tensor, torch.Tensor]
"""Mean and variance (C,) float32 of each channel over a whole recording."""


def by_length(lengths: Sequence[int], *, pads: bool, most: int | None = None) -> list[list[int]]:
    """Group utterances that go through a network in one pass; return their indices, the longest first.

    Args:
        lengths: of the utterances.
        pads: utterances of different lengths may share a pass; otherwise only those of one length.
        most: the most that a pass may hold, padding included; a longer utterance goes alone. None for no limit.

    >>> by_length([5, 7, 5], pads=True), by_length([5, 7, 5], pads=False), by_length([5, 7, 5], pads=True, most=14)
    ([[1, 0, 2]], [[1], [0, 2]], [[1, 0], [2]])
    """
    groups: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        longest = lengths[groups[-1][0]] if groups else 0
        fits = groups and (most is None or longest * (len(groups[-1]) + 1) <= most)
        if fits and (pads or longest == lengths[index]):
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


class Guard:
    """Hooks that keep padding out of a network's convolutions, and norms over time that ignore it.

    Args:
        network: its padded convolutions get zeros beyond an utterance's end, as at the end of the row.
        norms: (module, attribute) of the group norms over time that are replaced; one group per channel.
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
        """Within the block, rows of a batch end where `levels` says: for each utterance its length at every layer.

        A tensor's layer is recognised by its length, which is that of the longest utterance there.
        """
        self._lengths = {max(level): list(level) for level in zip(*levels) if min(level) < max(level)}
        try:
            yield
        finally:
            self._lengths = {}

    @contextmanager
    def whole(self, statistics: Statistics | None) -> Iterator[None]:
        """Within the block, norms over time use the statistics of the whole recording, not those of the rows."""
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
        return lengths if lengths is not None and len(lengths) == len(rows) else None

    def _zero_padding(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = args[0]
        lengths = self.lengths_of(rows)
        if lengths is None:
            return None
        ends = torch.tensor(lengths, device=rows.device)
        beyond = torch.arange(rows.shape[-1], device=rows.device) >= ends[:, None]
        return (rows.masked_fill(beyond[:, None], 0), *args[1:])


class TimeNorm(nn.Module):
    """A group norm over time with one group per channel and the statistics of each utterance alone."""

    def __init__(self, norm: nn.GroupNorm, guard: Guard) -> None:
        super().__init__()
        if norm.num_groups != norm.num_channels:
            raise ValueError(f"expected one group per channel, got {norm.num_groups} for {norm.num_channels} channels")
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
        return ((rows.float() - mean[:, None]) * scale[:, None] + self.norm.bias.float()[:, None]).to(rows.dtype)


def gather(blocks: Iterable[torch.Tensor], layer: Callable[[torch.Tensor], torch.Tensor]) -> Statistics:
    """Return mean and variance of each channel of a layer's outputs.

    Args:
        blocks: rows (1, n) of samples in order; each holds all inputs of its outputs, and no output is in two blocks.
        layer: the convolution.
    """
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for block in blocks:
        outputs = layer(block[:, None])[0]
        count += outputs.shape[-1]
        total = total.to(outputs.device) + outputs.sum(-1, dtype=torch.float64)
        squares = squares.to(outputs.device) + outputs.float().square().sum(-1, dtype=torch.float64)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp_min(0).float()
