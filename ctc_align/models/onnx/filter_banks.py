"""Features of networks that hear no samples: NeMo's log-mel spectrogram and Kaldi's filter bank, as they were trained.

Both are made of samples in [-1, 1], whole recording or part alike, without dither. `NemoMel` is what NeMo's
AudioToMelSpectrogramPreprocessor makes outside training; `KaldiFbank` what torchaudio.compliance.kaldi.fbank and
kaldi-native-fbank make (Povey et al., "The Kaldi speech recognition toolkit", 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from ctc_align.config import setting
from ctc_align.models.framewise.frame_times import Convolution
from ctc_align.units import seconds_to_samples

NONE, PER_FEATURE, ALL_FEATURES = "none", "per_feature", "all_features"
_NORMALISE = (NONE, PER_FEATURE, ALL_FEATURES)
_DEVIATION_GUARD = 1e-5
"""NeMo adds it to the standard deviation, so that a constant channel is no division by zero."""
_POVEY_POWER = 0.85
_HTK_MEL, _KALDI_MEL = 2595.0 / np.log(10.0), 1127.0
_SLANEY_STEP_HZ, _SLANEY_BREAK_HZ, _SLANEY_LOG_STEP = 200.0 / 3.0, 1000.0, np.log(6.4) / 27.0
_BLOCK_FRAMES = 6000
"""Made at once: a minute."""


@dataclass(frozen=True)
class NemoMel:
    """NeMo's features: frame t is centred on sample t · hop, zeros stand outside the recording."""

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    fft: int = setting(512, above=0)
    window: str = setting("hann", choices=("hann", "hann-periodic", "hamming", "povey"))
    preemphasis: float = setting(0.97)
    low_hz: float = setting(0.0)
    high_hz: float = setting(0.0)
    """0 or less: so much below half the sample rate."""
    scale: str = setting("slaney", choices=("slaney", "htk"))
    """Slaney's triangles have one area, HTK's one height, as librosa's and torchaudio's have."""
    guard: str = setting("add", choices=("add", "clamp"))
    guard_value: float = setting(2.0**-24, above=0.0)
    """Keeps the logarithm's argument above 0: added, or the least that it may be."""
    normalise: str = setting(PER_FEATURE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """How samples become frames: samples // hop of them."""
        hop, half = seconds_to_samples(self.hop_s, sample_rate), self.fft // 2
        return Convolution(2 * half, hop, half, half - hop)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Log-mel features (T, bins) float32 of `samples` (N,), before normalisation."""
        layer, filters = self.layer(sample_rate), torch.from_numpy(_mel_filters(self, sample_rate))
        length = seconds_to_samples(self.window_s, sample_rate)
        window = torch.zeros(self.fft)
        left = (self.fft - length) // 2
        window[left : left + length] = _window(self.window, length)

        def power(windows: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(windows * window, self.fft).abs().square_()

        def log(channels: torch.Tensor) -> torch.Tensor:
            return (channels + self.guard_value if self.guard == "add" else channels.clamp_min(self.guard_value)).log()

        def piece(first: int, last: int) -> torch.Tensor:
            cut = _padded(samples, first - 1, last)
            cut[1:] -= self.preemphasis * cut[:-1].copy()
            # beyond the end nothing is heard, not even what the last sample leaves behind
            cut[max(1, len(samples) - first + 1) :] = 0.0
            return torch.from_numpy(cut[1:]).unfold(0, layer.kernel, layer.stride)

        return _in_blocks(layer, len(samples), piece, lambda windows: log(power(windows) @ filters), self.bins)


@dataclass(frozen=True)
class KaldiFbank:
    """Kaldi's features: each frame loses its mean, is pre-emphasised and windowed by itself.

    Without `snip_edges` (icefall, Lhotse) frame t is centred on sample (t + 1/2) · hop, and what lies outside the
    recording is its mirror image; with them (Kaldi, WeNet) frames lie wholly inside.
    """

    bins: int = setting(80, above=0)
    window_s: float = setting(0.025, above=0.0)
    hop_s: float = setting(0.01, above=0.0)
    window: str = setting("povey", choices=("povey", "hann", "hamming"))
    preemphasis: float = setting(0.97)
    remove_dc: bool = setting(True)
    low_hz: float = setting(20.0)
    high_hz: float = setting(-400.0)
    """0 or less: so much below half the sample rate; Lhotse's and icefall's is -400, Kaldi's and WeNet's 0."""
    snip_edges: bool = setting(False)
    gain: float = setting(1.0, above=0.0)
    """Samples are multiplied with it: 32768 for networks that were trained on 16-bit numbers (WeNet)."""
    floor: float = setting(float(np.finfo(np.float32).eps), above=0.0)
    """The least energy of a channel, before the logarithm."""
    normalise: str = setting(NONE, choices=_NORMALISE)

    def layer(self, sample_rate: int) -> Convolution:
        """How samples become frames."""
        length, hop = (seconds_to_samples(seconds, sample_rate) for seconds in (self.window_s, self.hop_s))
        if self.snip_edges:
            return Convolution(length, hop)
        left = length // 2 - hop // 2
        return Convolution(length, hop, left, hop // 2 + length - hop - left)

    def rows(self, samples: np.ndarray, sample_rate: int) -> np.ndarray:
        """Log energies (T, bins) float32 of `samples` (N,), before normalisation."""
        layer, filters = self.layer(sample_rate), torch.from_numpy(_kaldi_filters(self, sample_rate))
        window, fft = _window(self.window, layer.kernel), 2 * len(filters)

        def piece(first: int, last: int) -> torch.Tensor:
            return torch.from_numpy(_mirrored(samples, first, last) * np.float32(self.gain)).unfold(
                0, layer.kernel, layer.stride
            )

        def features(windows: torch.Tensor) -> torch.Tensor:
            if self.remove_dc:
                windows = windows - windows.mean(1, keepdim=True)
            before = torch.cat((windows[:, :1], windows[:, :-1]), 1)
            power = torch.fft.rfft((windows - self.preemphasis * before) * window, fft).abs().square_()
            return (power[:, :-1] @ filters).clamp_min_(self.floor).log_()

        return _in_blocks(layer, len(samples), piece, features, self.bins)


def normalisation(rows: np.ndarray, kind: str) -> tuple[np.ndarray | float | None, np.ndarray | float]:
    """Mean and divisor of features (T, D), as NeMo's normalize_batch: of each channel (D,), of all, or (None, 1)."""
    if kind == NONE:
        return None, 1.0
    axis = 0 if kind == PER_FEATURE else None
    count = len(rows) if kind == PER_FEATURE else rows.size
    mean = rows.mean(axis, dtype=np.float64)
    squares = np.zeros_like(mean)
    for first in range(0, len(rows), _BLOCK_FRAMES):
        squares = squares + np.square(rows[first : first + _BLOCK_FRAMES] - mean).sum(axis)
    return mean, np.sqrt(squares / max(1, count - 1)) + _DEVIATION_GUARD


def _in_blocks(
    layer: Convolution,
    samples: int,
    piece: Callable[[int, int], torch.Tensor],
    features: Callable[[torch.Tensor], torch.Tensor],
    bins: int,
) -> np.ndarray:
    """Features of all frames; `piece(first, last)` gives the windows in these samples, which may lie outside."""
    count = layer.outputs(samples)
    rows = np.empty((count, bins), np.float32)
    for first in range(0, count, _BLOCK_FRAMES):
        last = min(count, first + _BLOCK_FRAMES)
        begin = first * layer.stride - layer.padding
        rows[first:last] = features(piece(begin, begin + (last - first - 1) * layer.stride + layer.kernel))
    return rows


def _padded(samples: np.ndarray, first: int, last: int) -> np.ndarray:
    """A copy of samples [first, last), float32, zeros outside the recording."""
    inside = samples[max(0, first) : max(0, last)]
    left = min(last - first, max(0, -first))
    return np.pad(inside, (left, last - first - left - len(inside))).astype(np.float32)


def _mirrored(samples: np.ndarray, first: int, last: int) -> np.ndarray:
    """A copy of samples [first, last), float32; outside the recording its mirror image, the edge sample twice."""
    places = np.arange(first, last)
    if first < 0 or last > len(samples):
        places = places % (2 * len(samples))
        places = np.minimum(places, 2 * len(samples) - 1 - places)
    return samples[places].astype(np.float32)


@lru_cache(maxsize=4)
def _window(kind: str, length: int) -> torch.Tensor:
    if kind == "hamming":
        return torch.hamming_window(length, periodic=False)
    hann = torch.hann_window(length, periodic=kind == "hann-periodic", dtype=torch.float64)
    return (hann**_POVEY_POWER if kind == "povey" else hann).float()


def _high(high_hz: float, sample_rate: int) -> float:
    return high_hz if high_hz > 0 else sample_rate / 2 + high_hz


def _triangles(places: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """(places, bins): rises from edge to edge, falls to the next."""
    rise = (places[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - places[:, None]) / (edges[2:] - edges[1:-1])
    return np.maximum(0.0, np.minimum(rise, fall))


@lru_cache(maxsize=4)
def _mel_filters(mel: NemoMel, sample_rate: int) -> np.ndarray:
    """(fft // 2 + 1, bins) float32: triangles that are straight in hertz, as librosa.filters.mel has them."""
    to_mel, to_hz = _SCALES[mel.scale]
    low, high = (to_mel(np.array(hertz)) for hertz in (mel.low_hz, _high(mel.high_hz, sample_rate)))
    edges = to_hz(np.linspace(low, high, mel.bins + 2))
    filters = _triangles(np.arange(mel.fft // 2 + 1) * (sample_rate / mel.fft), edges)
    if mel.scale == "slaney":
        filters *= 2.0 / (edges[2:] - edges[:-2])
    return filters.astype(np.float32)


@lru_cache(maxsize=4)
def _kaldi_filters(fbank: KaldiFbank, sample_rate: int) -> np.ndarray:
    """(fft // 2, bins) float32: triangles that are straight in mel; the bin at half the sample rate has no part."""
    length = seconds_to_samples(fbank.window_s, sample_rate)
    fft = 1 << (length - 1).bit_length()
    hertz = np.arange(fft // 2) * (sample_rate / fft)
    low, high = fbank.low_hz, _high(fbank.high_hz, sample_rate)
    edges = np.linspace(_kaldi_mel(np.array(low)), _kaldi_mel(np.array(high)), fbank.bins + 2)
    return _triangles(_kaldi_mel(hertz), edges).astype(np.float32)


def _kaldi_mel(hertz: np.ndarray) -> np.ndarray:
    return _KALDI_MEL * np.log1p(hertz / 700.0)


def _to_slaney(hertz: np.ndarray) -> np.ndarray:
    """Straight below 1 kHz, logarithmic above (Slaney's Auditory Toolbox)."""
    above = _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ + np.log(np.maximum(hertz, 1e-9) / _SLANEY_BREAK_HZ) / _SLANEY_LOG_STEP
    return np.where(hertz < _SLANEY_BREAK_HZ, hertz / _SLANEY_STEP_HZ, above)


def _from_slaney(mel: np.ndarray) -> np.ndarray:
    beyond = mel - _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ
    return np.where(beyond < 0, mel * _SLANEY_STEP_HZ, _SLANEY_BREAK_HZ * np.exp(_SLANEY_LOG_STEP * beyond))


_SCALES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "slaney": (_to_slaney, _from_slaney),
    "htk": (lambda hertz: _HTK_MEL * np.log1p(hertz / 700.0), lambda mel: 700.0 * np.expm1(mel / _HTK_MEL)),
}
