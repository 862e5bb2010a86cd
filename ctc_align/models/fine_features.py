"""Fine log-mel features of a recording, for networks that look at edges: a frame every 5 ms, levelled nearby.

An acoustic model's features are too coarse for an edge: 20 ms around every 10 ms. These are 16 ms around every 5 ms,
and what is loud in the ten seconds around them is 0: neither gain nor a speaker farther away makes a difference.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from ctc_align.models.mel_filters import mel_filters
from ctc_align.types import Audio

SHIFT_S = 0.005
"""Frame f is centred on `f * SHIFT_S`, counted from the audio's first sample."""
WINDOW_S = 0.016
MELS = 30
LOW_HZ, HIGH_HZ = 60.0, 8000.0
LEVEL_FRAMES = 200
"""Every second has a level of its own …"""
LEVEL_REACH_FRAMES = 1000
"""… which is the `LOUD_QUANTILE` of the frames within five seconds of it."""
LOUD_QUANTILE = 0.9
LEVEL_STEP = 4
FLOOR, CENTRE, SCALE = -14.0, -5.0, 0.3
"""Nats below the level that a channel is limited to; what is subtracted then, and the scale of what is left."""
SILENCE = (FLOOR - CENTRE) * SCALE
"""The value of all channels beyond the recording's ends."""
_SMALLEST_POWER = 1e-12
_LEAST_ROWS = 64


def frames_of(audio: Audio) -> int:
    """Return the number of frames of a recording, one for every begun 5 ms."""
    return -(-len(audio.samples) // _shift_samples(audio.sample_rate))


def fine_features(audio: Audio, first: int, last: int) -> torch.Tensor:
    """Return the features of frames [first, last) of a recording: (last - first, MELS) float32, on the CPU.

    Frames before its beginning and after its end are silent. A frame is the same, whatever others are asked for.

    Args:
        audio: mono; its samples may lie on disk.
        first, last: frames, `last` exclusive; may lie outside the recording.
    """
    count = frames_of(audio)
    begin, end = min(max(first, 0), count), min(max(last, 0), count)
    features = torch.full((last - first, MELS), SILENCE)
    if begin >= end:
        return features
    first_second, last_second = begin // LEVEL_FRAMES, (end - 1) // LEVEL_FRAMES
    near = max(0, first_second * LEVEL_FRAMES - LEVEL_REACH_FRAMES)
    far = min(count, (last_second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES)
    log_mel = _log_mel(audio, near, far)
    loudness = log_mel.logsumexp(1)
    own = log_mel[begin - near : end - near]
    for second in range(first_second, last_second + 1):
        low = max(0, second * LEVEL_FRAMES - LEVEL_REACH_FRAMES) - near
        high = (second + 1) * LEVEL_FRAMES + LEVEL_REACH_FRAMES - near
        place = slice(max(begin, second * LEVEL_FRAMES) - begin, (second + 1) * LEVEL_FRAMES - begin)
        own[place] -= _loud(loudness[low:high])
    features[begin - first : end - first] = own.clamp_min(FLOOR).sub_(CENTRE).mul_(SCALE)
    return features


def _loud(loudness: torch.Tensor) -> float:
    """Return the quantile of loudness (t,), of every `LEVEL_STEP`-th frame."""
    some = loudness[::LEVEL_STEP].numpy()
    rank = round(LOUD_QUANTILE * (len(some) - 1))
    return float(np.partition(some, rank)[rank])


def _shift_samples(sample_rate: int) -> int:
    return round(SHIFT_S * sample_rate)


@lru_cache(maxsize=4)
def _filters(sample_rate: int) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the window, the mel filters (fft // 2 + 1, MELS), and the length of the FFT, all for one sample rate."""
    length = round(WINDOW_S * sample_rate)
    fft = 2 ** (length - 1).bit_length()
    filters = mel_filters(MELS, fft, sample_rate, LOW_HZ, min(HIGH_HZ, sample_rate / 2))
    return torch.hann_window(length, periodic=False), torch.from_numpy(filters), fft


def _log_mel(audio: Audio, first: int, last: int) -> torch.Tensor:
    """Return frames [first, last) within the recording: (last - first, MELS) float32, natural log of power."""
    window, filters, fft = _filters(audio.sample_rate)
    shift, reach = _shift_samples(audio.sample_rate), len(window) // 2
    begin, end = first * shift - reach, (last - 1) * shift + len(window) - reach
    samples = np.ascontiguousarray(audio.samples[max(0, begin) : max(0, end)], np.float32)
    # Products of a few rows are summed in another order: a frame must not depend on how many are computed with it.
    lacking = max(0, _LEAST_ROWS - (last - first)) * shift
    right = max(0, end - len(audio.samples)) + lacking
    padded = torch.nn.functional.pad(torch.from_numpy(samples), (max(0, -begin), right))
    spectrum = torch.fft.rfft(padded.unfold(0, len(window), shift) * window, fft)
    power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
    return torch.log((power @ filters).clamp_min_(_SMALLEST_POWER))[: last - first]
