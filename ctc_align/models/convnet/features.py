"""Log-mel features, normalised by the recording's own level and spectrum: gain does not matter.

Frame t covers the samples [t * 160, (t + 1) * 160) at 16 kHz and is computed only from the 20 ms
around its centre, so a recording cut anywhere gives the same frames. The recording's statistics
(its level and the mean of each mel channel over its louder frames) come from a first pass over all
frames. `mel_filters` serves other networks, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ctc_align.kernels.log_space import log_sum_exp

SAMPLE_RATE = 16000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 320
FFT_SAMPLES = 512
MELS = 64
FRAME_SHIFT_S = HOP_SAMPLES / SAMPLE_RATE
LOW_HZ, HIGH_HZ = 50.0, 7800.0

ROWS_OF_A_PRODUCT = 48
"""Products begin and end at frames whose number is a multiple of this.

BLAS sums the rows of its kernels (12 on AVX2) in different orders, and a frame must not depend on
which others are computed with it.
"""

# All levels are in nats of power: 1 nat = 4.34 dB.
SMALLEST_POWER = 1e-20
LOUD_QUANTILE = 0.95
QUIET_QUANTILE = 0.05
# In read speech, even 40 minutes of it, the 100th loudest frame is at most 1.6 nats above the
# quantile.
LOUDEST_FRAMES = 100
LOUDEST_ABOVE_LOUD = 2.0
# For recordings with less than a second of speech: a level held for this many frames, unlike
# clicks; in the same read speech at most 1.3 nats above the quantile.
LOUDEST_HELD_FRAMES = 40
LOUDEST_HELD_ABOVE_LOUD = 2.4
CLICK_FILTER_FRAMES = 5
FLOOR_BELOW_LOUD = 16.0
SPEECH_BELOW_LOUD = 6.0
SPEECH_SOFTNESS = 1.0
# (nats below the loud frames; largest and usual ratio of the weight of the frames below that level
# to the weight of the loud frames). In speech, with or without hiss, the ratios are at most 1.54,
# 0.90 and 0.35.
QUIET_TIERS = ((3.0, 2.0, 0.5), (5.0, 1.1, 0.15), (7.0, 0.45, 0.03))
SCALE = 0.4
LOWEST_BAND, HIGHEST_BAND = 40, 58
BAND_EDGE_NATS = 2.8
BELOW_EDGE = 5
"""How the edge of a recording's band is found in the spectrum of its speech.

A recording has no sound above the first channel, of these, where the spectrum of its speech falls
so far at once, from each of that many channels: it does by telephone, and in hardly one recording
of a hundred with all frequencies. A steady tone fills up to three.
"""


def frame_count(samples: int) -> int:
    """Return the number of frames of a recording: one for every begun 10 ms.

    >>> frame_count(1600), frame_count(1601)
    (10, 11)
    """
    return -(-samples // HOP_SAMPLES)


@lru_cache(maxsize=1)
def _filters() -> tuple[np.ndarray, np.ndarray]:
    """Return the Hann window (320,) and the mel filters (257, MELS)."""
    filters = mel_filters(MELS, FFT_SAMPLES, SAMPLE_RATE, LOW_HZ, HIGH_HZ)
    return np.hanning(WINDOW_SAMPLES).astype(np.float32), filters


def log_mel(samples: np.ndarray, first: int, last: int) -> np.ndarray:
    """Return the natural log of the mel power of frames [first, last).

    The result is (last - first, MELS) float32, of a recording's samples (N,).
    """
    reach = (WINDOW_SAMPLES - HOP_SAMPLES) // 2
    begin = first * HOP_SAMPLES - reach
    end = last * HOP_SAMPLES + reach
    piece = np.asarray(samples[max(0, begin) : max(0, end)], np.float32)
    piece = np.pad(piece, (max(0, -begin), max(0, end - len(samples))))
    return log_channels(piece, *_filters(), HOP_SAMPLES, first, SMALLEST_POWER)


def log_channels(
    samples: np.ndarray,
    window: np.ndarray,
    filters: np.ndarray,
    shift: int,
    first: int,
    smallest: float,
) -> np.ndarray:
    """Return the log of the power (T, bins) float32 in each channel of each window of samples.

    Args:
        samples: (N,) float32; the windows begin `shift` samples apart, and none goes beyond the
            end.
        window: its weights (W,).
        filters: (fft // 2 + 1, bins) of the frequencies in each channel.
        shift: in samples.
        first: the number of the first window in the recording.
        smallest: the least power.
    """
    windows = np.lib.stride_tricks.sliding_window_view(samples, len(window))[::shift] * window
    spectrum = np.fft.rfft(
        windows, 2 * (len(filters) - 1)
    )  # numpy 1 computes it in double precision
    power = np.square(spectrum.real, dtype=np.float32, casting="same_kind")
    power += np.square(spectrum.imag, dtype=np.float32, casting="same_kind")
    begin = first % ROWS_OF_A_PRODUCT
    end = begin + len(power)
    channels = np.pad(power, ((begin, -end % ROWS_OF_A_PRODUCT), (0, 0))) @ filters
    return np.asarray(np.log(np.maximum(channels[begin:end], np.float32(smallest))))


def level(frames: np.ndarray) -> np.ndarray:
    """Return the total level (..., T) of each frame (..., T, MELS)."""
    return log_sum_exp(frames)


@dataclass(frozen=True)
class Statistics:
    """Levels and means of a recording, by which its frames are normalised.

    `loud` is the level of the louder frames; `mean` (MELS,) float32 is taken over speech; `quiet`
    is the 5 % quantile of the levels of all frames that are not digital silence. `band` is the
    number of channels within the recording's band: what is above it is noise of its coding, or
    nothing.
    """

    loud: float
    mean: np.ndarray
    quiet: float
    band: int = MELS


def speech_weight(levels: np.ndarray, loud: float) -> np.ndarray:
    """Return each frame's weight (T,) float64 as speech.

    It is near 1 within about 25 dB of the loud frames, near 0 below.
    """
    return 1.0 / (
        1.0 + np.exp((loud - SPEECH_BELOW_LOUD - levels.astype(np.float64)) / SPEECH_SOFTNESS)
    )


def floor_of(loud: float) -> np.float32:
    """Return the lower limit of all channels.

    It hides digital silence and the quantisation noise of quiet files.
    """
    return np.float32(loud - math.log(MELS) - FLOOR_BELOW_LOUD)


def normalise(frames: np.ndarray, statistics: Statistics) -> np.ndarray:
    """Return the network's inputs (T, MELS): (max(x, floor) − mean) · SCALE.

    Gain and a fixed filter cancel in them. Above the recording's band they are 0.
    """
    inputs = np.maximum(frames, floor_of(statistics.loud))
    inputs -= statistics.mean
    inputs *= np.float32(SCALE)
    inputs[:, statistics.band :] = 0.0
    return inputs


def silence(statistics: Statistics) -> np.ndarray:
    """Return the frame (MELS,) that is used outside the recording: its floor."""
    return normalise(np.full((1, MELS), floor_of(statistics.loud)), statistics)[0]


def statistics_of(frames: np.ndarray) -> Statistics:
    """Return the statistics of a recording from all its frames (T, MELS)."""
    return gather_statistics(lambda: iter((frames,)))


def _smallest(levels: np.ndarray, rank: int) -> float:
    """Return the level with a rank, counted from 0; ranks below 0 count from the largest."""
    rank %= len(levels)
    return float(np.partition(levels, rank)[rank])


def _loud(levels: np.ndarray) -> float:
    """Return the level of the louder frames.

    It is a quantile of all levels, but not far below the loudest second. The quantile alone would
    be the level of a pause if speech fills less than 1 − LOUD_QUANTILE of the recording.
    """
    loud = _smallest(levels, max(0, math.ceil(LOUD_QUANTILE * len(levels)) - 1))
    if len(levels) > LOUDEST_FRAMES:
        held = _smallest(_without_clicks(levels), -LOUDEST_HELD_FRAMES)
        loudest = _smallest(levels, -LOUDEST_FRAMES)
        loud = max(loud, loudest - LOUDEST_ABOVE_LOUD, held - LOUDEST_HELD_ABOVE_LOUD)
    return loud


def _without_clicks(levels: np.ndarray) -> np.ndarray:
    """Return the running median (T - 4,) of levels (T,).

    A click lasts for only two frames of the five, so it does not show.
    """
    near = np.lib.stride_tricks.sliding_window_view(levels, CLICK_FILTER_FRAMES)
    return np.asarray(np.sort(near, axis=1)[:, CLICK_FILTER_FRAMES // 2])


def _mean_weight(levels: np.ndarray, loud: float) -> np.ndarray:
    """Return each frame's weight (T,) float64 in the mean of the recording.

    The weights of each tier's frames have a factor: 1, or less if there are too many of them to be
    speech. Otherwise long pauses with a hum or a hiss would outweigh rare speech.
    """
    weight = speech_weight(levels, loud)
    speech = weight[levels >= loud - QUIET_TIERS[0][0]].sum()
    for below, most, usual in reversed(QUIET_TIERS):
        quiet = levels < loud - below
        ratio = weight[quiet].sum() / speech
        if ratio > most:
            weight[quiet] *= max(2 * most - ratio, usual) / ratio
    return weight


def gather_statistics(pieces: Callable[[], Iterator[np.ndarray]]) -> Statistics:
    """Return the statistics of a recording in pieces (t, MELS).

    `pieces()` is called twice; sums are float64.
    """
    levels = np.concatenate([level(piece) for piece in pieces()])
    loud = _loud(levels)
    floor = floor_of(loud)
    weights = _mean_weight(levels, loud)
    total = np.zeros(MELS)
    first = 0
    for piece in pieces():
        total += weights[first : first + len(piece)] @ np.maximum(piece, floor).astype(np.float64)
        first += len(piece)
    # digital silence, such as padding, is not the room's noise
    audible = levels[levels > loud - FLOOR_BELOW_LOUD]
    if len(audible):
        quiet = _smallest(audible, int(QUIET_QUANTILE * (len(audible) - 1)))
    else:
        quiet = loud
    mean = (total / weights.sum()).astype(np.float32)
    return Statistics(loud, mean, quiet, _band(mean))


def _band(mean: np.ndarray) -> int:
    """Return the number of channels within the band of a recording.

    They end at the first edge in the means (MELS,) of its speech; without an edge all MELS count.
    """
    edges = range(LOWEST_BAND, HIGHEST_BAND)
    return next(
        (
            k
            for k in edges
            if mean[k - BELOW_EDGE : k].min() - mean[k + 1 :].max() >= BAND_EDGE_NATS
        ),
        MELS,
    )


_SLANEY_STEP_HZ = 200.0 / 3.0
_SLANEY_BREAK_HZ = 1000.0
_SLANEY_LOG_STEP = math.log(6.4) / 27.0


def mel_filters(
    bins: int, fft: int, sample_rate: int, low_hz: float, high_hz: float, *, scale: str = "htk"
) -> np.ndarray:
    """Return the weights (fft // 2 + 1, bins) float32 of each frequency of an FFT in each channel.

    Triangles are linear in hertz, as in librosa and torchaudio; neighbours cross at half their
    height.

    Args:
        bins: number of channels.
        fft: length of the FFT in samples.
        low_hz, high_hz: where the first triangle begins and the last one ends.
        scale: "htk" is 2595 log10(1 + f / 700) with triangles of height 1 (O'Shaughnessy; Young et
            al., The HTK Book); "slaney" is linear below 1 kHz, logarithmic above, with triangles of
            equal area (Slaney, Auditory Toolbox).
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
    return (
        _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ + math.log(hertz / _SLANEY_BREAK_HZ) / _SLANEY_LOG_STEP
    )


def _slaney_to_hz(mel: np.ndarray) -> np.ndarray:
    above = mel - _SLANEY_BREAK_HZ / _SLANEY_STEP_HZ
    return np.where(
        above < 0, mel * _SLANEY_STEP_HZ, _SLANEY_BREAK_HZ * np.exp(_SLANEY_LOG_STEP * above)
    )


_SCALES: dict[str, tuple[Callable[[float], float], Callable[[np.ndarray], np.ndarray]]] = {
    "htk": (_hz_to_htk, _htk_to_hz),
    "slaney": (_hz_to_slaney, _slaney_to_hz),
}
