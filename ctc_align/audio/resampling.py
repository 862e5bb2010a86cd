"""From blocks at any rate and channel count to mono samples at one rate; refuses what cannot be aligned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctc_align.errors import AudioError
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds

MIN_DURATION_S = 0.025
"""One analysis window: what is shorter has no frame."""
MIN_RATE, MAX_RATE = 4000, 768_000

_FLAT = 1e-6
"""A signal that moves less than this, relative to its largest value, is constant: silence with a DC offset."""
_FLAT_FLOOR = 1e-9
_HUGE = 1e30
"""Near float32's end, where a resampler's overshoot turns into infinity; no gain makes sound that large."""

_GROWTH = 2**16


@dataclass(frozen=True)
class SourceAudio(Audio):
    """Resampled sound that knows the exact length of what it was made from."""

    source_samples: int = 0
    source_rate: int = 1

    @property
    def duration_s(self) -> float:
        """Seconds of the source, exact: not rounded to a sample of the new rate."""
        return samples_to_seconds(self.source_samples, self.source_rate)


class Intake:
    """Takes blocks (n, channels) at one rate, gives mono samples at another, and refuses what cannot be aligned."""

    def __init__(self, name: str, rate_in: int, rate_out: int, expected: int) -> None:
        if not MIN_RATE <= rate_in <= MAX_RATE:
            raise AudioError(f"{name}: expected a sample rate from {MIN_RATE} to {MAX_RATE} Hz, got {rate_in} Hz")
        self.name, self.rate_in, self.rate_out = name, rate_in, rate_out
        self.received = 0
        self._low, self._high = np.inf, -np.inf
        self._channels_move = False
        self._first: np.ndarray | None = None
        self._stream: Any = None
        if rate_in != rate_out:
            import soxr

            self._stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality="HQ")
        # a header may promise anything: start with at most 1 GiB (not touched until filled) and grow
        self._kept = np.empty(min(scaled(max(expected, 0), rate_in, rate_out) + _GROWTH, 2**28), np.float32)
        self._filled = 0

    def add(self, block: np.ndarray) -> None:
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
        self._low, self._high = min(self._low, float(mono.min())), max(self._high, float(mono.max()))
        self.received += len(block)
        self._keep(mono if self._stream is None else self._stream.resample_chunk(mono))

    def finish(self) -> SourceAudio:
        self._check()
        if self._stream is not None:
            self._keep(self._stream.resample_chunk(np.empty(0, np.float32), last=True))
        wanted = scaled(self.received, self.rate_in, self.rate_out)
        self._grow(wanted)
        self._kept[self._filled : wanted] = 0.0
        self._kept.resize(wanted, refcheck=False)
        return SourceAudio(self._kept, self.rate_out, self.name, source_samples=self.received, source_rate=self.rate_in)

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
        if self._high - self._low > max(_FLAT_FLOOR, _FLAT * max(abs(self._low), abs(self._high))):
            return
        if self._channels_move:
            raise AudioError(f"{self.name}: the channels cancel each other when averaged: give one of them alone")
        what = "every sample is zero" if self._low == self._high == 0 else f"every sample is {self._low:.4g}"
        raise AudioError(f"{self.name}: the audio is silence only ({what}): there is no speech to align")

    def _keep(self, samples: np.ndarray) -> None:
        end = self._filled + len(samples)
        self._grow(end)
        self._kept[self._filled : end] = samples
        self._filled = end

    def _grow(self, size: int) -> None:
        if size > len(self._kept):
            self._kept.resize(max(size, len(self._kept) + len(self._kept) // 4), refcheck=False)


def scaled(samples: int, rate_in: int, rate_out: int) -> int:
    """round(samples * rate_out / rate_in) in whole numbers, halves up."""
    return (2 * samples * rate_out + rate_in) // (2 * rate_in)
