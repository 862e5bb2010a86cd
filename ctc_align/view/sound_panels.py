"""The panels of a picture that show the sound: its waveform, and its spectrogram, a short spectrum for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#20242a"
"""The colour of all that is drawn on white."""
WINDOW_S = 0.008
"""The length of a window: short enough that the pulses of a voice are seen as stripes."""
HIGHEST_HZ = 8000.0
_BINS = 256
_PRE_EMPHASIS = 0.95
_COLUMNS_AT_ONCE = 256


def draw_waveform(axes: Axes, samples: np.ndarray, sample_rate: int, first_s: float, peak: float, columns: int) -> None:
    """Draw the least and the greatest sample of each column of the picture, or the samples where they are fewer.

    Args:
        axes: where to.
        samples: (N,) float32, the first of them at `first_s`.
        sample_rate: in Hz.
        first_s: in seconds of the axes.
        peak: the greatest magnitude that samples may have.
        columns: of pixels from the first sample to the last.
    """
    axes.set(ylim=(-1.08 * peak, 1.08 * peak), yticks=[])
    if len(samples) <= 2 * columns:
        axes.plot(first_s + np.arange(len(samples)) / sample_rate, samples, color=INK, linewidth=0.5)
        return
    times_s = first_s + np.arange(columns) * len(samples) / sample_rate / columns
    axes.fill_between(times_s, *waveform_peaks(samples, columns), color=INK, linewidth=0.2)


def draw_spectrogram(
    axes: Axes, samples: np.ndarray, sample_rate: int, first_s: float, peak: float, columns: int
) -> None:
    """Draw the spectrogram up to 8 kHz, 60 dB deep, dark where it is loud. Arguments as for `draw_waveform`."""
    levels_db, highest_hz = spectrogram(samples, sample_rate, columns, peak)
    extent = (first_s, first_s + len(samples) / sample_rate, 0.0, highest_hz / 1000.0)
    axes.imshow(levels_db, extent=extent, origin="lower", aspect="auto", cmap="Greys", vmin=-60, vmax=0)
    axes.set_yticks([tick for tick in (0, 2, 4, 6, 8) if tick < highest_hz / 1000.0])
    axes.set_ylabel("kHz", size=7, color=INK, labelpad=2)


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
