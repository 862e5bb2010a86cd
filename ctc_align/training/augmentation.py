"""Augmentation of log-mel frames (T, MELS), natural log of power: vocal tracts, rooms, noise, band limits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ctc_align.models.convnet.features import FRAME_SHIFT_S, MELS

SHORTEST_ROOM_S, LONGEST_ROOM_S = 0.2, 0.8


@dataclass(frozen=True)
class Augmentation:
    """Probability and strength of each change.

    `noise`: share of utterances with stationary coloured noise, at `noise_snr_db` (low, high) below their louder
    frames. `warp`: largest change of the mel axis (vocal tract length). `band_limit`: share without the channels above
    a random one. `mask_channels`: widest band set to its mean. `room`: share with reverberation of a random length and
    strength.
    """

    noise: float = 0.5
    noise_snr_db: tuple[float, float] = (5.0, 45.0)
    warp: float = 0.12
    band_limit: float = 0.15
    mask_channels: int = 10
    tilt: float = 1.0
    room: float = 0.0


def augment(frames: torch.Tensor, settings: Augmentation, generator: torch.Generator) -> torch.Tensor:
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
    """Return normalised inputs (T, MELS) with one band set to its mean, 0 (frequency masks, Park et al. 2019)."""
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
    places = (torch.arange(MELS) * factor).clamp_(0, MELS - 1)
    low = places.floor().long()
    high = (low + 1).clamp_(max=MELS - 1)
    part = places - low
    return frames[:, low] * (1.0 - part) + frames[:, high] * part


def _room(frames: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return frames with reverberation: power 0 to 12 dB below, decaying by 60 dB in 0.2 to 0.8 s."""
    seconds = SHORTEST_ROOM_S + (LONGEST_ROOM_S - SHORTEST_ROOM_S) * _random(generator)
    below_nats = 12.0 * _random(generator) / 10.0 * math.log(10.0)
    falls = torch.arange(1, int(seconds / FRAME_SHIFT_S) + 1) * (6.0 * math.log(10.0) * FRAME_SHIFT_S / seconds)
    tail = torch.cat((torch.ones(1), math.exp(-below_nats) * torch.softmax(-falls, 0)))
    power = torch.nn.functional.pad(frames.exp().T[:, None], (len(tail) - 1, 0))
    return torch.nn.functional.conv1d(power, tail.flip(0)[None, None])[:, 0].T.clamp_min(1e-30).log()


def _noise(frames: torch.Tensor, settings: Augmentation, generator: torch.Generator) -> torch.Tensor:
    """Return frames with stationary noise: random slope and ripple over channels, random jitter over frames."""
    low, high = settings.noise_snr_db
    snr_nats = (low + (high - low) * _random(generator)) / 10.0 * math.log(10.0)
    loud = torch.quantile(frames.amax(1), 0.9)
    slope = settings.tilt * 3.0 * (2.0 * _random(generator) - 1.0)
    ripple = torch.randn(MELS // 8, generator=generator).repeat_interleave(8) * 0.5
    spectrum = slope * torch.linspace(-0.5, 0.5, MELS) + ripple
    jitter = torch.randn(frames.shape, generator=generator) * 0.4
    return torch.logaddexp(frames, loud - snr_nats + spectrum + jitter)
