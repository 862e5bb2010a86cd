"""Log-mel features, normalised by the recording's own level and spectrum: gain does not matter.

Frame t covers the samples [t * 160, (t + 1) * 160) at 16 kHz and is computed only from the 20 ms around its centre, so
a recording cut anywhere gives the same frames. The recording's statistics (its level and the mean of each mel channel
over its louder frames) come from a first pass over all frames. `mel_filters` serves other networks, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

SAMPLE_RATE = 16000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 320
FFT_SAMPLES = 512
MELS = 64
FRAME_SHIFT_S = HOP_SAMPLES / SAMPLE_RATE
LOW_HZ, HIGH_HZ = 50.0, 7800.0

LEAST_ROWS = 16
"""At least this many frames are multiplied by the filters at once."""

# All levels are in nats of power: 1 nat = 4.34 dB.
SMALLEST_POWER = 1e-20
LOUD_QUANTILE = 0.95
QUIET_QUANTILE = 0.05
# In read speech, even 40 minutes of it, the 100th loudest frame is at most 1.6 nats above the quantile.
LOUDEST_FRAMES = 100
LOUDEST_ABOVE_LOUD = 2.0
# For recordings with less than a second of speech: a level held for this many frames, unlike clicks; in the same read
# speech at most 1.3 nats above the quantile.
LOUDEST_HELD_FRAMES = 40
LOUDEST_HELD_ABOVE_LOUD = 2.4
CLICK_FILTER_FRAMES = 5
FLOOR_BELOW_LOUD = 16.0
SPEECH_BELOW_LOUD = 6.0
SPEECH_SOFTNESS = 1.0
# (nats below the loud frames; largest and usual ratio of the weight of the frames below that level to the weight of the
# loud frames). In speech, with or without hiss, the ratios are at most 1.54, 0.90 and 0.35.
QUIET_TIERS = ((3.0, 2.0, 0.5), (5.0, 1.1, 0.15), (7.0, 0.45, 0.03))
SCALE = 0.4


def frame_count(samples: int) -> int:
    """Return the number of frames of a recording: one for every begun 10 ms.

    >>> frame_count(1600), frame_count(1601)
    (10, 11)
    """
    return -(-samples // HOP_SAMPLES)


@lru_cache(maxsize=1)
def _filters() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the Hann window (320,) and the mel filters (257, MELS)."""
    filters = mel_filters(MELS, FFT_SAMPLES, SAMPLE_RATE, LOW_HZ, HIGH_HZ)
    return torch.hann_window(WINDOW_SAMPLES, periodic=False), torch.from_numpy(filters)


def log_mel(samples: np.ndarray, first: int, last: int) -> torch.Tensor:
    """Return frames [first, last) of a recording's samples (N,): (last - first, MELS) float32, natural log of power."""
    window, filters = _filters()
    reach = (WINDOW_SAMPLES - HOP_SAMPLES) // 2
    begin, end = first * HOP_SAMPLES - reach, last * HOP_SAMPLES + reach
    piece = torch.from_numpy(np.ascontiguousarray(samples[max(0, begin) : max(0, end)], np.float32))
    left, right = max(0, -begin), max(0, end - len(samples))
    piece = torch.nn.functional.pad(piece, (left, right))
    windows = piece.unfold(0, WINDOW_SAMPLES, HOP_SAMPLES) * window
    spectrum = torch.fft.rfft(windows, FFT_SAMPLES)
    power = spectrum.real.square().addcmul_(spectrum.imag, spectrum.imag)
    # Products of a few rows are summed in a different order: a frame must not depend on how many are computed with it.
    lacking = max(0, LEAST_ROWS - len(power))
    channels = torch.nn.functional.pad(power, (0, 0, 0, lacking)) @ filters if lacking else power @ filters
    return torch.log(channels[: len(power)].clamp_min_(SMALLEST_POWER))


def level(frames: torch.Tensor) -> torch.Tensor:
    """Return the total level (..., T) of each frame (..., T, MELS)."""
    return torch.logsumexp(frames, -1)


@dataclass(frozen=True)
class Statistics:
    """Statistics of a recording: `loud`, the level of the louder frames (scalar); `mean` (MELS,) over speech; `quiet`,
    the 5 % quantile of the levels of all frames that are not digital silence."""

    loud: torch.Tensor
    mean: torch.Tensor
    quiet: torch.Tensor


def speech_weight(levels: torch.Tensor, loud: torch.Tensor) -> torch.Tensor:
    """Return each frame's weight in the mean: near 1 within about 25 dB of the loud frames, near 0 below."""
    return torch.sigmoid((levels - loud + SPEECH_BELOW_LOUD) / SPEECH_SOFTNESS)


def floor_of(loud: torch.Tensor) -> torch.Tensor:
    """Return the lower limit of all channels; it hides digital silence and the quantisation noise of quiet files."""
    return loud - math.log(MELS) - FLOOR_BELOW_LOUD


def normalise(frames: torch.Tensor, statistics: Statistics) -> torch.Tensor:
    """Return the network's inputs (T, MELS): (max(x, floor) − mean) · SCALE, so that gain and a fixed filter cancel."""
    return (torch.maximum(frames, floor_of(statistics.loud)) - statistics.mean) * SCALE


def silence(statistics: Statistics) -> torch.Tensor:
    """Return the frame (MELS,) that is used outside the recording: its floor."""
    return (floor_of(statistics.loud) - statistics.mean) * SCALE


def statistics_of(frames: torch.Tensor) -> Statistics:
    """Return the statistics of a recording from all its frames (T, MELS)."""
    return gather_statistics(lambda: iter((frames,)))


def _loud(levels: torch.Tensor) -> torch.Tensor:
    """Return the level of the louder frames: a quantile of all, but not far below the loudest second.

    The quantile alone would be the level of a pause if speech fills less than 1 − LOUD_QUANTILE of the recording.
    """
    rank = max(0, math.ceil(LOUD_QUANTILE * len(levels)) - 1)
    loud = torch.kthvalue(levels, rank + 1).values
    if len(levels) > LOUDEST_FRAMES:
        loudest = torch.topk(levels, LOUDEST_FRAMES).values[-1]
        held = torch.topk(_without_clicks(levels), LOUDEST_HELD_FRAMES).values[-1]
        loud = torch.maximum(loud, loudest - LOUDEST_ABOVE_LOUD)
        loud = torch.maximum(loud, held - LOUDEST_HELD_ABOVE_LOUD)
    return loud


def _without_clicks(levels: torch.Tensor) -> torch.Tensor:
    """Return the running median (T - 4,) of levels (T,): a click affects only two frames of five."""
    return levels.unfold(0, CLICK_FILTER_FRAMES, 1).median(-1).values


def _quiet_shares(levels: torch.Tensor, loud: torch.Tensor) -> list[torch.Tensor]:
    """Return a factor for the weights of each tier's frames: 1, or less if there are too many of them to be speech.

    Otherwise long pauses with a hum or a hiss would outweigh rare speech.
    """
    weight = speech_weight(levels, loud).double()
    speech = weight[levels >= loud - QUIET_TIERS[0][0]].sum()
    shares: list[torch.Tensor] = []
    for below, most, usual in reversed(QUIET_TIERS):
        quiet = levels < loud - below
        ratio = weight[quiet].sum() / speech
        share = torch.where(ratio > most, (2 * most - ratio).clamp_min(usual) / ratio, torch.ones_like(ratio))
        weight = torch.where(quiet, weight * share, weight)
        shares.insert(0, share)
    return shares


def _mean_weight(levels: torch.Tensor, loud: torch.Tensor, shares: list[torch.Tensor]) -> torch.Tensor:
    """Return each frame's weight (T,) float64 in the mean of the recording."""
    weight = speech_weight(levels, loud).double()
    for (below, _, _), share in zip(QUIET_TIERS, shares):
        weight = torch.where(levels < loud - below, weight * share, weight)
    return weight


def gather_statistics(pieces: Callable[[], Iterator[torch.Tensor]]) -> Statistics:
    """Return the statistics of a recording in pieces (t, MELS); `pieces()` is called twice, sums are float64."""
    levels = torch.cat([level(piece) for piece in pieces()])
    loud = _loud(levels)
    total, weights = torch.zeros(MELS, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    floor, shares = floor_of(loud), _quiet_shares(levels, loud)
    weight_of_frame = _mean_weight(levels, loud, shares)
    first = 0
    for piece in pieces():
        weight = weight_of_frame[first : first + len(piece)]
        first += len(piece)
        total += (torch.maximum(piece, floor).double() * weight[:, None]).sum(0)
        weights += weight.sum()
    # digital silence, such as padding, is not the room's noise
    audible = levels[levels > loud - FLOOR_BELOW_LOUD]
    quiet = torch.kthvalue(audible, 1 + int(QUIET_QUANTILE * (len(audible) - 1))).values if len(audible) else loud
    return Statistics(loud, (total / weights).float(), quiet)


_SLANEY_STEP_HZ, _SLANEY_BREAK_HZ, _SLANEY_LOG_STEP = 200.0 / 3.0, 1000.0, math.log(6.4) / 27.0


def mel_filters(
    bins: int, fft: int, sample_rate: int, low_hz: float, high_hz: float, *, scale: str = "htk"
) -> np.ndarray:
    """Return the weights (fft // 2 + 1, bins) float32 of each frequency of an FFT in each channel.

    Triangles are linear in hertz, as in librosa and torchaudio; neighbours cross at half their height.

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
