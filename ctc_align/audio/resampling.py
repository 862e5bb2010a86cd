"""Resampling of blocks at any rate and channel count to mono samples at one rate, with checks of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from ctc_align.errors import AudioError
from ctc_align.reading.rows_on_disk import RowsOnDisk
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds

if TYPE_CHECKING:
    import soxr

MIN_DURATION_S = 0.025
"""Length of an analysis window; shorter audio has no frame."""
MIN_RATE, MAX_RATE = 4000, 768_000

_FLAT = 1e-6
"""A signal that varies less than this, relative to its largest value, is silence with a DC offset."""
_FLAT_FLOOR = 1e-9
_WINDOW_SAMPLES = 4096
_SILENT_ENERGY = 1e-8
_NOTHING_LEFT = 1e-6
"""60 dB below the channels' energy: less than that, left of channels of opposite phase, is a coder's noise."""
_HUGE = 1e30
"""Near the limit of float32, where a resampler's overshoot becomes infinity."""
_GROWTH = 2**16
MOST_IN_MEMORY = 2**25
"""Samples that are not put on disk: 35 minutes at 16 kHz, 128 MiB."""


@dataclass(frozen=True)
class SourceAudio(Audio):
    """Resampled audio with the exact length of its source."""

    source_samples: int = 0
    source_rate: int = 1

    @property
    def duration_s(self) -> float:
        """Seconds of the source, not rounded to a sample of the new rate."""
        return samples_to_seconds(self.source_samples, self.source_rate)


class CheckedResampler:
    """A stream from blocks (n, channels) at one rate to mono samples at another that checks the samples.

    With `on_disk` more than `MOST_IN_MEMORY` samples are kept in a temporary file (`RowsOnDisk`).

    Raises:
        AudioError: a rate, samples or a length that cannot be aligned.
    """

    def __init__(self, name: str, rate_in: int, rate_out: int, expected: int, *, on_disk: bool = False) -> None:
        if not MIN_RATE <= rate_in <= MAX_RATE:
            raise AudioError(f"{name}: expected a sample rate from {MIN_RATE} to {MAX_RATE} Hz, got {rate_in} Hz")
        self.name, self.rate_in, self.rate_out = name, rate_in, rate_out
        self.received = 0
        self._low, self._high = np.inf, -np.inf
        self._channels_move = False
        self._loud_windows = self._cancelled_windows = 0
        self._energy_before = self._energy_after = 0.0
        self._first: np.ndarray | None = None
        self._stream: soxr.ResampleStream | None = None
        if rate_in != rate_out:
            import soxr

            self._stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality="HQ")
        # a header may promise any length: start with at most 1 GiB (not touched until filled) and grow
        most = MOST_IN_MEMORY if on_disk else 2**28
        self._output = np.empty(min(scaled(max(expected, 0), rate_in, rate_out) + _GROWTH, most), np.float32)
        self._on_disk = on_disk
        self._rows: RowsOnDisk | None = None
        self._filled = 0

    def add(self, block: np.ndarray) -> None:
        """Add a block (n, channels)."""
        if not len(block):
            return
        finite = np.isfinite(block)
        if not finite.all():
            row, channel = np.argwhere(~finite)[0]
            where = f" in channel {channel + 1}" if block.shape[1] > 1 else ""
            at_s = samples_to_seconds(self.received + int(row), self.rate_in)
            raise AudioError(
                f"{self.name}: sample is {block[row, channel]} at {at_s:.3f} s{where}: samples must be finite numbers"
            )
        mono = (
            np.ascontiguousarray(block[:, 0])
            if block.shape[1] == 1
            else block.mean(axis=1, dtype=np.float64).astype(np.float32)
        )
        if self._first is None:
            self._first = block[0].copy()
        self._channels_move = self._channels_move or bool((block != self._first).any())
        if block.shape[1] > 1:
            self._weigh(block, mono)
        self._low, self._high = min(self._low, float(mono.min())), max(self._high, float(mono.max()))
        self.received += len(block)
        self._append(mono if self._stream is None else self._stream.resample_chunk(mono))

    @property
    def cancelled(self) -> float:
        """The share of the sound, in [0, 1], whose channels cancel each other when they are averaged."""
        return self._cancelled_windows / max(1, self._loud_windows)

    def _weigh(self, block: np.ndarray, mono: np.ndarray) -> None:
        """Compare the energy of the mean with that of the loudest channel, window by window.

        A channel alone among N silent ones keeps 1 / N² of its energy in the mean; what keeps a tenth of that was
        cancelled by another.
        """
        for low in range(0, len(block), _WINDOW_SAMPLES):
            window = block[low : low + _WINDOW_SAMPLES].astype(np.float64)
            loudest = float(np.square(window).mean(axis=0).max())
            if loudest <= _SILENT_ENERGY or len(window) < _WINDOW_SAMPLES // 4:
                continue
            left = float(np.square(mono[low : low + _WINDOW_SAMPLES].astype(np.float64)).mean())
            self._loud_windows += 1
            self._cancelled_windows += left < 0.1 * loudest / block.shape[1] ** 2
            self._energy_before += loudest
            self._energy_after += left

    def finish(self) -> SourceAudio:
        """Return the resampled audio of all blocks."""
        self._check()
        if self._stream is not None:
            self._append(self._stream.resample_chunk(np.empty(0, np.float32), last=True))
        length = scaled(self.received, self.rate_in, self.rate_out)
        if self._rows is None:
            self._grow(length)
            self._output[self._filled : length] = 0.0
            self._output.resize(length, refcheck=False)
            samples = self._output
        else:
            self._rows.truncate(length)
            samples = cast("np.ndarray", self._rows)
        return SourceAudio(samples, self.rate_out, self.name, source_samples=self.received, source_rate=self.rate_in)

    def _check(self) -> None:
        seconds = samples_to_seconds(self.received, self.rate_in)
        if not self.received:
            raise AudioError(f"{self.name}: the audio has no samples")
        if seconds < MIN_DURATION_S:
            raise AudioError(
                f"{self.name}: expected at least {MIN_DURATION_S * 1000:.0f} ms of audio, got {seconds * 1000:.2f} ms"
            )
        if max(abs(self._low), abs(self._high)) > _HUGE:
            raise AudioError(f"{self.name}: expected samples in about [-1, 1], got {self._low:.3g} to {self._high:.3g}")
        if self._energy_after < _NOTHING_LEFT * self._energy_before and self._cancelled_windows == self._loud_windows:
            raise self._cancelling()
        if self._high - self._low > max(_FLAT_FLOOR, _FLAT * max(abs(self._low), abs(self._high))):
            return
        if self._channels_move:
            raise self._cancelling()
        value = "zero" if self._low == self._high == 0 else f"{self._low:.4g}"
        raise AudioError(
            f"{self.name}: the audio is silence only (every sample is {value}): there is no speech to align"
        )

    def _cancelling(self) -> AudioError:
        return AudioError(
            f"{self.name}: the channels cancel each other when averaged, and nothing is left: choose one of them "
            "(--channel left)"
        )

    def _append(self, samples: np.ndarray) -> None:
        end = self._filled + len(samples)
        if self._on_disk and end > MOST_IN_MEMORY:
            if self._rows is None:
                self._rows = RowsOnDisk(name=f"{self.name}: its samples")
                self._rows.append(self._output[: self._filled])
                self._output = np.empty(0, np.float32)
            self._rows.append(samples)
            self._filled = end
            return
        self._grow(end)
        self._output[self._filled : end] = samples
        self._filled = end

    def _grow(self, size: int) -> None:
        if size > len(self._output):
            self._output.resize(max(size, len(self._output) + len(self._output) // 4), refcheck=False)


def scaled(samples: int, rate_in: int, rate_out: int) -> int:
    """Return round(samples * rate_out / rate_in) in integers, halves up."""
    return (2 * samples * rate_out + rate_in) // (2 * rate_in)
