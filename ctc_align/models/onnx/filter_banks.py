"""Features of networks that do not take samples: NeMo's log-mel spectrogram and Kaldi's filter bank.

Both take samples in [-1, 1], give the same frames for any blocks, and add no dither. `NemoMel` is what NeMo's
AudioToMelSpectrogramPreprocessor gives outside training. `KaldiFbank` (Povey et al., "The Kaldi speech recognition
toolkit", 2011) is computed by the package kaldi-native-fbank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ctc_align.config import setting
from ctc_align.errors import UsageError, one_line
from ctc_align.extras import install_line
from ctc_align.models.framewise.frame_times import Convolution
from ctc_align.models.mel_filters import mel_filters
from ctc_align.units import seconds_to_ms, seconds_to_samples

NONE, PER_FEATURE, ALL_FEATURES = "none", "per_feature", "all_features"
_NORMALISE = (NONE, PER_FEATURE, ALL_FEATURES)
_DEVIATION_GUARD = 1e-5
"""Added to standard deviations, as in NeMo: a constant channel is not divided by zero."""
_POVEY_POWER = 0.85
_BLOCK_FRAMES = 6000
"""Frames computed at once: a minute."""


@dataclass(frozen=True)
class NemoMel:
    """NeMo's features: frame t is centred on sample t · hop, with zeros outside the recording."""

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    fft: int = setting(512, above=0)
    window: str = setting("hann", choices=("hann", "hann-periodic", "hamming", "povey"))
    preemphasis: float = setting(0.97)
    low_hz: float = setting(0.0)
    high_hz: float = setting(0.0)
    """0 or less is relative to half the sample rate."""
    scale: str = setting("slaney", choices=("slaney", "htk"))
    """See `ctc_align.models.mel_filters`."""
    guard: str = setting("add", choices=("add", "clamp"))
    guard_value: float = setting(2.0**-24, above=0.0)
    """Keeps the logarithm's argument above 0: it is added, or is the smallest argument."""
    normalise: str = setting(PER_FEATURE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """Return how samples become frames: samples // hop of them."""
        hop, half = seconds_to_samples(self.hop_s, sample_rate), self.fft // 2
        return Convolution(2 * half, hop, half, half - hop)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return log-mel features (T, bins) float32 of `samples` (N,), before normalisation."""
        layer = self.layer(sample_rate)
        high_hz = self.high_hz if self.high_hz > 0 else sample_rate / 2 + self.high_hz
        filters = torch.from_numpy(
            mel_filters(self.bins, self.fft, sample_rate, self.low_hz, high_hz, scale=self.scale)
        )
        window = _centred_window(self.window, seconds_to_samples(self.window_s, sample_rate), self.fft)
        count = layer.outputs(len(samples))
        rows = np.empty((count, self.bins), np.float32)
        for first in range(0, count, _BLOCK_FRAMES):
            last = min(count, first + _BLOCK_FRAMES)
            begin = first * layer.stride - layer.padding
            block = self._emphasised(samples, begin, begin + (last - first - 1) * layer.stride + layer.kernel)
            windows = torch.from_numpy(block).unfold(0, layer.kernel, layer.stride)
            channels = torch.fft.rfft(windows * window, self.fft).abs().square_() @ filters
            guarded = channels + self.guard_value if self.guard == "add" else channels.clamp_min(self.guard_value)
            rows[first:last] = guarded.log().numpy()
        return rows

    def _emphasised(self, samples: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return samples [first, last) with pre-emphasis, zeros outside the recording."""
        inside = samples[max(0, first - 1) : max(0, last)]
        left = min(last - first + 1, max(0, 1 - first))
        block = np.pad(inside, (left, last - first + 1 - left - len(inside))).astype(np.float32)
        block[1:] -= self.preemphasis * block[:-1].copy()
        # zeros stand behind the recording: nothing is left of the last sample
        block[max(1, len(samples) - first + 1) :] = 0.0
        return block[1:]


@dataclass(frozen=True)
class KaldiFbank:
    """Kaldi's features: each frame alone is freed of its mean, pre-emphasised and windowed.

    Without `snip_edges` (icefall, Lhotse) frame t is centred on sample (t + 1/2) · hop, and the recording is mirrored
    at its ends; with it (Kaldi, WeNet) frames lie wholly inside.
    """

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    window: str = setting("povey", choices=("povey", "hann", "hamming"))
    preemphasis: float = setting(0.97)
    remove_dc: bool = setting(True)
    low_hz: float = setting(20.0)
    high_hz: float = setting(-400.0)
    """0 or less is relative to half the sample rate; -400 in Lhotse and icefall, 0 in Kaldi and WeNet."""
    snip_edges: bool = setting(False)
    gain: float = setting(1.0, above=0.0)
    """Factor of the samples: 32768 for networks that were trained on 16-bit numbers (WeNet)."""
    floor: float = setting(float(np.finfo(np.float32).eps), above=0.0)
    """Smallest energy of a channel, before the logarithm."""
    normalise: str = setting(NONE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """Return how samples become frames."""
        length, hop = (seconds_to_samples(seconds, sample_rate) for seconds in (self.window_s, self.hop_s))
        if self.snip_edges:
            return Convolution(length, hop)
        left = length // 2 - hop // 2
        return Convolution(length, hop, left, hop // 2 + length - hop - left)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Return log energies (T, bins) float32 of `samples` (N,), before normalisation.

        Raises:
            UsageError: kaldi-native-fbank is not installed.
        """
        layer = self.layer(sample_rate)
        rows = np.empty((layer.outputs(len(samples)), self.bins), np.float32)
        computer, done, step = self._computer(sample_rate), 0, _BLOCK_FRAMES * layer.stride
        for first in range(0, len(samples), step):
            computer.accept_waveform(sample_rate, samples[first : first + step] * np.float32(self.gain))
            if first + step >= len(samples):
                computer.input_finished()
            ready = computer.num_frames_ready
            for frame in range(done, ready):
                rows[frame] = computer.get_frame(frame)
            computer.pop(ready - done)
            done = ready
        return rows

    def _computer(self, sample_rate: int) -> Any:
        try:
            import kaldi_native_fbank as native
        except ImportError as error:
            raise UsageError(
                f"onnx: Kaldi's features need an extra: {install_line('onnx')} ({one_line(error)})"
            ) from error
        options = native.FbankOptions()
        options.eps = self.floor
        frames, channels = options.frame_opts, options.mel_opts
        frames.samp_freq, frames.dither, frames.snip_edges = sample_rate, 0.0, self.snip_edges
        # the library rounds down to whole samples: a quarter of a sample more gives exactly those of `layer`
        layer = self.layer(sample_rate)
        frames.frame_length_ms, frames.frame_shift_ms = (
            seconds_to_ms((count + 0.25) / sample_rate) for count in (layer.kernel, layer.stride)
        )
        frames.window_type = {"hann": "hanning"}.get(self.window, self.window)
        frames.preemph_coeff, frames.remove_dc_offset = self.preemphasis, self.remove_dc
        channels.num_bins, channels.low_freq, channels.high_freq = self.bins, self.low_hz, self.high_hz
        return native.OnlineFbank(options)


def normalisation(rows: np.ndarray, kind: str) -> tuple[np.ndarray | float | None, np.ndarray | float]:
    """Return mean and divisor of features (T, D), as NeMo's normalize_batch.

    Both are (D,) for "per_feature" and numbers for "all_features"; (None, 1) for "none".
    """
    if kind == NONE:
        return None, 1.0
    axis = 0 if kind == PER_FEATURE else None
    count = len(rows) if kind == PER_FEATURE else rows.size
    mean = rows.mean(axis, dtype=np.float64)
    squares = np.zeros_like(mean)
    for first in range(0, len(rows), _BLOCK_FRAMES):
        squares = squares + np.square(rows[first : first + _BLOCK_FRAMES] - mean).sum(axis)
    return mean, np.sqrt(squares / max(1, count - 1)) + _DEVIATION_GUARD


@lru_cache(maxsize=4)
def _centred_window(kind: str, length: int, fft: int) -> torch.Tensor:
    """Return a window of `length` samples in the middle of `fft` of them, zeros outside."""
    if kind == "hamming":
        window = torch.hamming_window(length, periodic=False)
    else:
        hann = torch.hann_window(length, periodic=kind == "hann-periodic", dtype=torch.float64)
        window = (hann**_POVEY_POWER if kind == "povey" else hann).float()
    left = (fft - length) // 2
    return torch.nn.functional.pad(window, (left, fft - length - left))
