"""The network of the project's own models: convolutions over log-mel features with two outputs.

    features (T, 64) at 10 ms ─ stem ─┬─ stride 2 ─ body: dilated residual convolutions at 20 ms ─ two phases ─┐
                                      └────────────── local branch at 10 ms ──────────────────────────────────┴─ head
    head ─► CTC log-probs (T, C): what was said, and roughly when
         └► segmentation states (T, K): which part of which sound each frame is

No convolution pads: an output frame sees `context_frames` on either side and nothing else. So chunks of a recording
give the same as one pass, and a padded batch the same as its utterances alone. Outside the recording is silence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

STRIDE = 2


@dataclass(frozen=True)
class NetworkShape:
    """Sizes of a network; all convolutions of the body have three taps.

    `classes` includes the blank. Without `states` (0) there is no second output.
    """

    inputs: int
    classes: int
    states: int
    stem: int = 128
    body: int = 256
    head: int = 128
    dilations: tuple[int, ...] = (1, 2, 1, 4, 1, 8, 2, 4)

    @property
    def context_frames(self) -> int:
        """Frames of 10 ms that an output frame sees on either side (a multiple of the stride)."""
        body = STRIDE * sum(self.dilations)
        # Stem (2) and the strided convolution (2) below the body, two taps of the head (1) above it.
        reach = 2 + 2 + body + 1
        return reach + reach % STRIDE


class _ResidualBlock(nn.Module):
    """x + conv(x): three taps `dilation` apart, normalised, rectified."""

    def __init__(self, channels: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(channels, channels, 3, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.dropout(torch.relu(self.norm(self.conv(x))))
        return x[:, :, self.dilation : x.shape[2] - self.dilation] + y


class AcousticNetwork(nn.Module):
    """The network that the module describes."""

    def __init__(self, shape: NetworkShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.stem = nn.Sequential(
            nn.Conv1d(shape.inputs, shape.stem, 5, bias=False), nn.BatchNorm1d(shape.stem), nn.ReLU()
        )
        # Six taps around each pair of frames.
        self.down = nn.Sequential(
            nn.Conv1d(shape.stem, shape.body, 6, stride=STRIDE, bias=False), nn.BatchNorm1d(shape.body), nn.ReLU()
        )
        self.body = nn.Sequential(*(_ResidualBlock(shape.body, dilation, dropout) for dilation in shape.dilations))
        self.up = nn.Conv1d(shape.body, STRIDE * shape.head, 1)
        self.local = nn.Conv1d(shape.stem, shape.head, 5)
        self.mix = nn.Sequential(nn.BatchNorm1d(shape.head), nn.ReLU(), nn.Conv1d(shape.head, shape.head, 3), nn.ReLU())
        self.tokens = nn.Conv1d(shape.head, shape.classes, 1)
        self.states = nn.Conv1d(shape.head, shape.states, 1) if shape.states else None

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return logits (B, T, C) and (B, T, K) of features (B, T + 2 * context_frames, inputs); T is even."""
        stem = self.stem(features.transpose(1, 2))
        body = self.body(self.down(stem))
        phases = self.up(body)
        batch, _, pairs = phases.shape
        fine = phases.view(batch, STRIDE, -1, pairs).permute(0, 2, 3, 1).reshape(batch, -1, STRIDE * pairs)
        local = self.local(stem)
        excess = (local.shape[2] - fine.shape[2]) // 2
        head = self.mix(fine + local[:, :, excess : excess + fine.shape[2]])
        context = self.shape.context_frames
        frames = features.shape[1] - 2 * context
        trim = (head.shape[2] - frames) // 2
        head = head[:, :, trim : trim + frames]
        tokens = self.tokens(head).transpose(1, 2)
        return tokens, None if self.states is None else self.states(head).transpose(1, 2)
