"""The spectrogram of a picture: one short spectrum for each column of it."""

from __future__ import annotations

import numpy as np

WINDOW_S = 0.008
"""The length of a window: short enough that the pulses of a voice are seen as stripes."""
HIGHEST_HZ = 8000.0
_BINS = 256
_PRE_EMPHASIS = 0.95
_COLUMNS_AT_ONCE = 256


def spectrogram(samples: np.ndarray, sample_rate: int, columns: int, peak: float = 1.0) -> tuple[np.ndarray, float]:
    """Return the levels of a sound over time, and the frequency at which they end.

    Args:
        samples: (N,) float32.
        sample_rate: in Hz.
        columns: at how many times, evenly over the samples, spectra are taken; windows are centred on them.
        peak: the greatest magnitude that samples may have.

    Returns:
        Levels (bins, columns) in dB, float32, lowest frequency first: 0 where the loudest is, after a pre-emphasis of
        6 dB an octave; and the frequency in Hz of the upper edge of the last bin, 8 kHz or half the sample rate.

    >>> levels_db, highest_hz = spectrogram(np.sin(np.arange(16000) * 0.5).astype(np.float32), 16000, 10)
    >>> levels_db.shape, highest_hz, int(np.median(levels_db.argmax(0)))    # 1273 Hz of 8000 Hz
    ((257, 10), 8000.0, 41)
    """
    width = max(8, round(WINDOW_S * sample_rate))
    size = max(2 * _BINS, 2 ** (width - 1).bit_length())
    hann = np.hanning(width + 2)[1:-1].astype(np.float32)
    flat = np.append(samples[:1], samples[1:] - _PRE_EMPHASIS * samples[:-1]) / peak
    padded = np.pad(flat.astype(np.float32), (width // 2, width))
    centres = ((np.arange(columns) + 0.5) * len(samples) / columns).astype(int)
    kept = min(size // 2 + 1, round(HIGHEST_HZ / sample_rate * size) + 1)
    powers = np.empty((kept, columns), np.float32)
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        some = centres[first : first + _COLUMNS_AT_ONCE]
        windows = padded[some[:, None] + np.arange(width)] * hann
        powers[:, first : first + len(some)] = (np.abs(np.fft.rfft(windows, size)[:, :kept]) ** 2).T
    loudest = float(powers.max(initial=0.0)) or 1.0
    levels_db = 10 * np.log10(powers / loudest + 1e-9)
    return levels_db, (kept - 1) * sample_rate / size


def waveform_peaks(samples: np.ndarray, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sample (columns,) of each of so many equal parts; N >= columns.

    >>> waveform_peaks(np.array([0.0, 1.0, -1.0, 0.5]), 2)
    (array([ 0., -1.]), array([1. , 0.5]))
    """
    firsts = np.linspace(0, len(samples), columns, endpoint=False).astype(int)
    return np.minimum.reduceat(samples, firsts), np.maximum.reduceat(samples, firsts)
