"""The player's clock: decoded pieces become one stream without gaps, sample n at time n / rate of the recording.

Sound that begins late and gaps become silence, overlaps are trimmed, as `ffmpeg -af aresample=async=1:first_pts=0`
does, but within milliseconds: times of single pieces are rounded and jitter, so a step counts only where the next
pieces show it too. Pieces of another rate or channel count (files put together) are converted to those of the first.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ctc_align.audio.media_file import DecodedPiece

if TYPE_CHECKING:
    import soxr

_LOOK_AHEAD = 6
"""Pieces after one that must show the same step before it counts."""
_TOLERANCE_S, _FIRST_TOLERANCE_S = 0.005, 0.001
_RESTART_S = 1.0
"""A longer step backwards is a clock that was set anew (files put together), not an overlap."""
_LONGEST_GAP_S = 6 * 3600.0
_BROADCAST_GAP_S = 10.0
"""A longer step in a transport or program stream is a new clock too."""
_SILENCE_SAMPLES = 65536

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class PlacedPiece:
    """A piece with its place: after `silence` samples of silence, and without its first `trimmed` samples."""

    piece: DecodedPiece
    silence: int = 0
    trimmed: int = 0

    @property
    def samples(self) -> np.ndarray:
        return self.piece.samples[self.trimmed :]


def place_pieces(pieces: Iterable[DecodedPiece], name: str, *, is_broadcast: bool = False) -> Iterator[PlacedPiece]:
    """Yield the pieces with their places on the player's clock.

    `is_broadcast`: the clock of the format may be set anew in the middle (transport and program streams). Clocks that
    are set anew are logged as a warning; the sound goes on without a gap.
    """
    clock = _Clock(name, _BROADCAST_GAP_S if is_broadcast else _LONGEST_GAP_S)
    waiting: deque[DecodedPiece] = deque()
    for piece in pieces:
        if not len(piece.samples):
            continue
        waiting.append(piece)
        if len(waiting) > _LOOK_AHEAD:
            yield clock.placed(waiting)
            waiting.popleft()
    while waiting:
        yield clock.placed(waiting)
        waiting.popleft()


class _Clock:
    """The place that the stream has come to, in seconds, and by how much its clock was moved where it was set anew."""

    def __init__(self, name: str, longest_gap_s: float) -> None:
        self._name, self._longest_gap_s = name, longest_gap_s
        self._at_s = self._moved_s = 0.0
        self._is_first = True

    def placed(self, pieces: Iterable[DecodedPiece]) -> PlacedPiece:
        """Return the first of the pieces with its place; the others show whether a step is one."""
        pieces = list(pieces)
        first = pieces[0]
        step_s = self._step_s(pieces)
        longest_s = _LONGEST_GAP_S if self._is_first else self._longest_gap_s
        if step_s > longest_s or (step_s < -_RESTART_S and not self._is_first):
            if not self._is_first:
                logger.warning(
                    "%s: the file's clock jumps by %+.2f s at %.2f s (files put together?); the sound goes on there",
                    self._name,
                    step_s,
                    self._at_s,
                )
            self._moved_s += step_s
            step_s = 0.0
        silence = trimmed = 0
        if step_s > 0:
            silence = round(step_s * first.rate)
        elif step_s < 0:
            trimmed = min(len(first.samples), round(-step_s * first.rate))
        self._at_s += (silence + len(first.samples) - trimmed) / first.rate
        self._is_first = False
        return PlacedPiece(first, silence, trimmed)

    def _step_s(self, pieces: list[DecodedPiece]) -> float:
        """Return by how much the first piece lies off where the last one ended; 0 for what is jitter."""
        tolerance_s = _FIRST_TOLERANCE_S if self._is_first else _TOLERANCE_S
        if pieces[0].start_s is None:
            return 0.0
        off_s, expected_s = [], self._at_s
        for piece in pieces:
            if piece.start_s is not None:
                off_s.append(piece.start_s - self._moved_s - expected_s)
            expected_s += len(piece.samples) / piece.rate
        if self._is_first:
            return off_s[0] if abs(off_s[0]) > tolerance_s else 0.0
        if min(off_s) > tolerance_s:
            return min(off_s)
        if max(off_s) < -tolerance_s:
            return max(off_s)
        return 0.0


class Conversion:
    """Converts placed pieces to samples (n, channels) at the rate and with the channels of the first piece."""

    def __init__(self, rate: int, channels: int) -> None:
        self.rate, self.channels = rate, channels
        self._stream: soxr.ResampleStream | None = None
        self._stream_rate = rate

    def blocks(self, placed: PlacedPiece) -> Iterator[np.ndarray]:
        """Yield what a placed piece adds, its silence first."""
        rate = placed.piece.rate
        if rate != self._stream_rate:
            yield from self.rest()
            self._start(rate)
        silence = placed.silence
        while silence:
            block = np.zeros((min(silence, _SILENCE_SAMPLES), self.channels), np.float32)
            silence -= len(block)
            yield self._converted(block)
        if len(placed.samples):
            yield self._converted(with_channels(placed.samples, self.channels))

    def rest(self) -> Iterator[np.ndarray]:
        """Yield what a resampler still holds."""
        if self._stream is not None:
            yield self._stream.resample_chunk(np.empty((0, self.channels), np.float32), last=True)
            self._stream, self._stream_rate = None, self.rate

    def _start(self, rate: int) -> None:
        import soxr

        self._stream_rate = rate
        if rate != self.rate:
            self._stream = soxr.ResampleStream(rate, self.rate, self.channels, dtype="float32", quality="HQ")

    def _converted(self, block: np.ndarray) -> np.ndarray:
        if self._stream is None:
            return block
        return np.asarray(self._stream.resample_chunk(np.ascontiguousarray(block))).reshape(-1, self.channels)


def with_channels(samples: np.ndarray, channels: int) -> np.ndarray:
    """Return samples (n, any) with `channels` channels; those of another number are averaged, and each is that."""
    if samples.shape[1] == channels:
        return samples
    mono = samples.mean(axis=1, dtype=np.float64).astype(np.float32)
    return np.repeat(mono[:, None], channels, axis=1)
