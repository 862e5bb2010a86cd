"""What keeps an utterance's log-probs its own in a padded batch, and a chunk's as in one pass.

Attention masks alone do not: convolutions over frames (positions, conformer blocks) reach into the padding of their
neighbours' length, and a group norm over time (wav2vec 2.0 base, HuBERT base, WavLM base) takes its statistics from the
padding too, or from a chunk in place of the recording. `Guard` is put into a network once and mends both.
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
    """Places of the utterances that go through a network at once, long ones first.

    Args:
        lengths: of the utterances.
        pads: whether utterances of different lengths may go together, or only those of one length.
        most: what a pass may hold, its padding included; a longer utterance goes alone. None for no bound.

    >>> by_length([5, 7, 5], pads=True), by_length([5, 7, 5], pads=False), by_length([5, 7, 5], pads=True, most=14)
    ([[1, 0, 2]], [[1], [0, 2]], [[1, 0], [2]])
    """
    groups: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        longest = lengths[groups[-1][0]] if groups else 0
        fits = groups and (most is None or longest * (len(groups[-1]) + 1) <= most)
        if fits and (pads or longest == lengths[place]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


class Guard:
    """Keeps padding out of a network's convolutions over frames, and gives its norms over time what they need.

    Args:
        network: its padded convolutions get zeros beyond an utterance's end, as they would at the end of the row.
        norms: of (module, attribute), the group norms over time that are replaced; one group per channel.
    """

    def __init__(self, network: nn.Module, norms: Iterable[tuple[nn.Module, str]] = ()) -> None:
        self._lengths: dict[int, list[int]] = {}
        self.norms: list[TimeNorm] = []
        for module in network.modules():
            if isinstance(module, nn.Conv1d) and module.padding not in ((0,), "valid"):
                module.register_forward_pre_hook(self._silence)
        for owner, attribute in norms:
            norm = TimeNorm(getattr(owner, attribute), self)
            setattr(owner, attribute, norm)
            self.norms.append(norm)

    @contextmanager
    def padded(self, levels: Sequence[Sequence[int]]) -> Iterator[None]:
        """Within, rows of a batch end where `levels` says: of each utterance its lengths from layer to layer.

        A tensor's level is told by its length, which is that of the longest utterance there.
        """
        self._lengths = {max(level): list(level) for level in zip(*levels) if min(level) < max(level)}
        try:
            yield
        finally:
            self._lengths = {}

    @contextmanager
    def whole(self, statistics: Statistics | None) -> Iterator[None]:
        """Within, norms over time use the statistics of the whole recording in place of those of the rows."""
        for norm in self.norms:
            norm.given = statistics
        try:
            yield
        finally:
            for norm in self.norms:
                norm.given = None

    def lengths_of(self, rows: torch.Tensor) -> list[int] | None:
        """Where each of `rows` (B, C, T) ends; None where nothing is padded."""
        lengths = self._lengths.get(rows.shape[-1])
        return lengths if lengths is not None and len(lengths) == len(rows) else None

    def _silence(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        rows = args[0]
        lengths = self.lengths_of(rows)
        if lengths is None:
            return None
        ends = torch.tensor(lengths, device=rows.device)
        beyond = torch.arange(rows.shape[-1], device=rows.device) >= ends[:, None]
        return (rows.masked_fill(beyond[:, None], 0), *args[1:])


class TimeNorm(nn.Module):
    """A group norm over time with one group per channel, whose statistics are those of the utterance alone."""

    def __init__(self, norm: nn.GroupNorm, guard: Guard) -> None:
        super().__init__()
        if norm.num_groups != norm.num_channels:
            raise ValueError(f"expected one group per channel, got {norm.num_groups} for {norm.num_channels} channels")
        self.norm = norm
        self.given: Statistics | None = None
        self._guard = guard

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Normalised `rows` (B, C, T); zeros beyond an utterance's end."""
        if self.given is not None:
            return self._by(rows, *self.given)
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
    """Mean and variance of each channel of what `layer` makes of `blocks`, rows (1, n) of samples in order.

    Each block must hold all that its outputs are made of, and no output may come from two blocks.
    """
    count, total, squares = 0, torch.zeros(()), torch.zeros(())
    for block in blocks:
        outputs = layer(block[:, None])[0]
        count += outputs.shape[-1]
        total = total.to(outputs.device) + outputs.sum(-1, dtype=torch.float64)
        squares = squares.to(outputs.device) + outputs.float().square().sum(-1, dtype=torch.float64)
    mean = total / count
    return mean.float(), (squares / count - mean.square()).clamp_min(0).float()
