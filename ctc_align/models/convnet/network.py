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
from torch.nn import functional as F

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


class InferenceNetwork(nn.Module):
    """A trained network in evaluation mode: the numbers of `AcousticNetwork` up to rounding, in half the time.

    Call it like `AcousticNetwork`; it has no parameters. The normalisations, which are constant after training,
    are folded into the convolutions before them. The channels of a frame are neighbours in memory: a convolution is a
    product of matrices, one of a single tap a linear map, and the two phases of a pair are rows of two frames without a
    copy.

    Args:
        trained: the network whose weights are copied; it may be trained further.
        precision: that of weights and intermediate values; input and output are float32.
    """

    def __init__(self, trained: AcousticNetwork, precision: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.shape, self.precision = trained.shape, precision
        with torch.no_grad():
            self._add("stem", *_folded(trained.stem[0], *_affine(trained.stem[1])))
            self._add("down", *_folded(trained.down[0], *_affine(trained.down[1])))
            for i, block in enumerate(trained.body):
                self._add(f"body{i}", *_folded(block.get_submodule("conv"), *_affine(block.get_submodule("norm"))))
            # The head normalises the sum of two branches: each takes its factor, one of them its constant.
            factor, constant = _affine(trained.mix[0])
            self._add("up", *_folded(trained.up, factor.repeat(STRIDE), torch.zeros(())))
            self._add("local", *_folded(trained.local, factor, constant))
            self._add("mix", *_folded(trained.mix[2], torch.ones(()), torch.zeros(())))
            outputs = [trained.tokens] if trained.states is None else [trained.tokens, trained.states]
            maps = [_folded(output, torch.ones(()), torch.zeros(())) for output in outputs]
            self._add("out", torch.cat([weight for weight, _ in maps]), torch.cat([bias for _, bias in maps]))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return logits (B, T, C) and (B, T, K) of features (B, T + 2 * context_frames, inputs); T is even."""
        batch, width, _ = features.shape
        stem = F.conv2d(_as_image(features.to(self.precision)), *self._of("stem")).relu_()
        x = F.conv2d(stem, *self._of("down"), stride=(1, STRIDE)).relu_()
        for i, dilation in enumerate(self.shape.dilations):
            y = F.conv2d(x, *self._of(f"body{i}"), dilation=(1, dilation)).relu_()
            x = y.add_(x[..., dilation : x.shape[3] - dilation])
        phases = F.linear(_as_rows(x), *self._of("up"))
        fine = phases.reshape(batch, STRIDE * phases.shape[1], self.shape.head)
        taps = self._of("local")[0].shape[3]
        excess = (stem.shape[3] - taps + 1 - fine.shape[1]) // 2
        near = stem[..., excess : excess + fine.shape[1] + taps - 1]
        local = _as_rows(F.conv2d(near, *self._of("local")))
        head = F.conv2d(_as_image(local.add_(fine).relu_()), *self._of("mix")).relu_()
        frames = width - 2 * self.shape.context_frames
        trim = (head.shape[3] - frames) // 2
        logits = F.linear(_as_rows(head)[:, trim : trim + frames], *self._of("out"))
        tokens, states = logits.float().split((self.shape.classes, self.shape.states), 2)
        return tokens, states if self.shape.states else None

    def _add(self, name: str, weight: torch.Tensor, bias: torch.Tensor) -> None:
        """Keep a convolution (out, in, taps); with a single tap it is a linear map."""
        weight = weight[:, :, None] if weight.shape[2] > 1 else weight[:, :, 0]
        layout = torch.channels_last if weight.dim() == 4 else torch.contiguous_format
        self.register_buffer(f"{name}_weight", weight.to(self.precision).clone(memory_format=layout))
        self.register_buffer(f"{name}_bias", bias.to(self.precision).clone())

    def _of(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")


def _affine(norm: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the factors (C,) and constants (C,) to which a normalisation reduces after training."""
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None, "it has been trained"
    assert norm.running_var is not None, "it has been trained"
    factor = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    return factor, norm.bias - norm.running_mean * factor


def _folded(conv: nn.Module, factor: torch.Tensor, constant: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight (out, in, taps) and bias (out,) of `conv(x) * factor + constant`, which are (out,) or scalars."""
    assert isinstance(conv, nn.Conv1d)
    bias = torch.zeros(conv.out_channels) if conv.bias is None else conv.bias
    return conv.weight * factor.view(-1, 1, 1), bias * factor + constant


def _as_image(rows: torch.Tensor) -> torch.Tensor:
    """Return rows (B, T, C) as an image (B, C, 1, T), channels last; nothing is copied."""
    return rows[:, None].permute(0, 3, 1, 2)


def _as_rows(image: torch.Tensor) -> torch.Tensor:
    """Return an image (B, C, 1, T) as rows (B, T, C); nothing is copied."""
    return image[:, :, 0].transpose(1, 2)
