"""Triangular mel filters, in the conventions that networks were trained with."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

_SLANEY_STEP_HZ, _SLANEY_BREAK_HZ, _SLANEY_LOG_STEP = 200.0 / 3.0, 1000.0, math.log(6.4) / 27.0


def mel_filters(
    bins: int, fft: int, sample_rate: int, low_hz: float, high_hz: float, *, scale: str = "htk"
) -> np.ndarray:
    """Return the weights (fft // 2 + 1, bins) float32 of each frequency of an FFT in each channel.

    Triangles are straight in hertz, as in librosa and torchaudio; neighbours cross at half their height.

    Args:
        bins: number of channels.
        fft: length of the FFT in samples.
        low_hz, high_hz: where the first triangle begins and the last one ends.
        scale: "htk" is 2595 log10(1 + f / 700) with triangles of height 1 (O'Shaughnessy; Young et al., The HTK Book);
            "slaney" is linear below 1 kHz, logarithmic above, with triangles of equal area (Slaney, Auditory Toolbox).
    """
    to_mel, to_hz = _SCALES[scale]
    edges = to_hz(np.linspace(to_mel(low_hz), to_mel(high_hz), bins + 2))
    hertz = np.arange(fft // 2 + 1) * sample_rate / fft
    rise = (hertz[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[None, 2:] - hertz[:, None]) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0.0, np.minimum(rise, fall))
    if scale == "slaney":
        triangles *= 2.0 / (edges[2:] - edges[:-2])
    return triangles.astype(np.float32)


def _hz_to_htk(hertz: float) -> float:
    return 2595.0 * math.log10(1.0 + hertz / 700.0)


def _htk_to_hz(mel: np.ndarray) -> np.ndarray:
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def _hz_to_slaney(hertz: float) -> float:
    if hertz < _SLANEY_BREAK_HZ:
        return hertz / _SLANEY_STEP_HZ
    return _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ + math.log(hertz / _SLANEY_BREAK_HZ) / _SLANEY_LOG_STEP


def _slaney_to_hz(mel: np.ndarray) -> np.ndarray:
    above = mel - _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ
    return np.where(above < 0, mel * _SLANEY_STEP_HZ, _SLANEY_BREAK_HZ * np.exp(_SLANEY_LOG_STEP * above))


_SCALES: dict[str, tuple[Callable[[float], float], Callable[[np.ndarray], np.ndarray]]] = {
    "htk": (_hz_to_htk, _htk_to_hz),
    "slaney": (_hz_to_slaney, _slaney_to_hz),
}
