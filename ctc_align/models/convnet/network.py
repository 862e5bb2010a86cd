"""The network of the project's own models: convolutions over log-mel features with two outputs.

    features (T, 64) at 10 ms ─ stem ─┬─ stride 2 ─ body: dilated residual convolutions at 20 ms ─
                                      two phases ─┐ └────────────── local branch at 10 ms
                                      ──────────────────────────────────┴─ head
    head ─► CTC log-probs (T, C): what was said, and roughly when
         └► segmentation states (T, K): which part of which sound each frame is

No convolution pads: an output frame sees `context_frames` on either side and nothing else. So
chunks of a recording give the same as one pass, and a padded batch the same as its utterances
alone. Outside the recording is silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from ctc_align.models.convnet.gaussian_mixtures import StateScoring
from ctc_align.models.convnet.inference import STRIDE, Layer, NetworkShape


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
            nn.Conv1d(shape.inputs, shape.stem, 5, bias=False),
            nn.BatchNorm1d(shape.stem),
            nn.ReLU(),
        )
        # Six taps around each pair of frames.
        self.down = nn.Sequential(
            nn.Conv1d(shape.stem, shape.body, 6, stride=STRIDE, bias=False),
            nn.BatchNorm1d(shape.body),
            nn.ReLU(),
        )
        self.body = nn.Sequential(
            *(_ResidualBlock(shape.body, dilation, dropout) for dilation in shape.dilations)
        )
        self.up = nn.Conv1d(shape.body, STRIDE * shape.head, 1)
        self.local = nn.Conv1d(shape.stem, shape.head, 5)
        self.mix = nn.Sequential(
            nn.BatchNorm1d(shape.head), nn.ReLU(), nn.Conv1d(shape.head, shape.head, 3), nn.ReLU()
        )
        self.tokens = nn.Conv1d(shape.head, shape.classes, 1)
        self.states = nn.Conv1d(shape.head, shape.states, 1) if shape.states else None

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return logits (B, T, C) and (B, T, K) of features.

        The features are (B, T + 2 * context_frames, inputs); T is even.
        """
        stem = self.stem(features.transpose(1, 2))
        body = self.body(self.down(stem))
        phases = self.up(body)
        batch, _, pairs = phases.shape
        fine = (
            phases.view(batch, STRIDE, -1, pairs)
            .permute(0, 2, 3, 1)
            .reshape(batch, -1, STRIDE * pairs)
        )
        local = self.local(stem)
        excess = (local.shape[2] - fine.shape[2]) // 2
        head = self.mix(fine + local[:, :, excess : excess + fine.shape[2]])
        context = self.shape.context_frames
        frames = features.shape[1] - 2 * context
        trim = (head.shape[2] - frames) // 2
        head = head[:, :, trim : trim + frames]
        tokens = self.tokens(head).transpose(1, 2)
        return tokens, None if self.states is None else self.states(head).transpose(1, 2)


class DeviceNetwork(nn.Module):
    """A trained network and the scores of its states on a device.

    It computes the numbers of `InferenceNetwork`, up to rounding. It computes a batch of pieces in
    half the time of `AcousticNetwork`: convolutions have their normalisations folded in, channels
    are last, one of a single tap is a linear map.

    Args:
        shape: its sizes.
        layers: of `ctc_align.models.convnet.inference.folded_layers`.
        scoring: of the segmentation states.
        precision: that of weights and intermediate values; input and output are float32.
    """

    def __init__(
        self,
        shape: NetworkShape,
        layers: Mapping[str, Layer],
        scoring: StateScoring,
        precision: torch.dtype,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.scoring = scoring
        self.precision = precision
        for name, (array, bias) in layers.items():
            weight = torch.from_numpy(array).permute(2, 1, 0)
            if weight.shape[2] > 1:
                weight = weight[:, :, None]
            else:
                weight = weight[:, :, 0]
            if weight.dim() == 4:
                layout = torch.channels_last
            else:
                layout = torch.contiguous_format
            self.register_buffer(f"{name}_weight", weight.to(precision).clone(memory_format=layout))
            self.register_buffer(f"{name}_bias", torch.from_numpy(bias).to(precision))
        if scoring.mixtures is not None:
            for name, array in zip(("weight", "bias"), scoring.mixtures.product):
                self.register_buffer(f"mixtures_{name}", torch.from_numpy(array))

    def forward(
        self, inputs: Sequence[np.ndarray], ranges_nats: Sequence[float]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return log-probs (B, T, C) and the scores (B, T, K) of the states, None without states.

        Args:
            inputs: of B pieces, all (T + 2 * context_frames, inputs); T is even.
            ranges_nats: the `level_range` of each piece's recording.
        """
        device = self.device
        tokens, segments = self.logits(torch.from_numpy(np.stack(inputs)).to(device))
        log_probs = tokens.log_softmax(-1)
        if segments is None:
            return log_probs, None
        scores = segments.log_softmax(-1)
        for row, frames, range_nats in zip(scores, inputs, ranges_nats):
            row += torch.from_numpy(self.scoring.offset_for(range_nats)).to(device)
            if weight := self.scoring.weight_for(range_nats):
                x = torch.from_numpy(self.scoring.values_of(frames)).to(device)
                joint = torch.addmm(
                    self._of("mixtures")[1], torch.cat((x * x, x), 1), self._of("mixtures")[0]
                )
                row += weight * joint.view(*x.shape[:1], -1, self.shape.states).logsumexp(
                    1
                ).log_softmax(-1)
        return log_probs, scores

    def logits(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return logits (B, T, C) and (B, T, K) of features.

        The features are (B, T + 2 * context_frames, inputs); T is even.
        """
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

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self._of("out")[0].device

    def _of(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return self.get_buffer(f"{name}_weight"), self.get_buffer(f"{name}_bias")


def _as_image(rows: torch.Tensor) -> torch.Tensor:
    """Return rows (B, T, C) as an image (B, C, 1, T), channels last; nothing is copied."""
    return rows[:, None].permute(0, 3, 1, 2)


def _as_rows(image: torch.Tensor) -> torch.Tensor:
    """Return an image (B, C, 1, T) as rows (B, T, C); nothing is copied."""
    return image[:, :, 0].transpose(1, 2)
