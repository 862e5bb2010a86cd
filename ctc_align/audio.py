"""Sound in: any file libsndfile reads, or samples in memory, to mono float32 at the model's rate.

Sound flows block by block (read, check, mix, resample, append), so a recording never lies in memory at its own rate
and channel count. The result does not depend on where blocks fall: the resampler keeps its state between them.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.errors import AudioError, UsageError
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds

if TYPE_CHECKING:
    import soundfile

SAMPLE_RATE = 16000
BLOCK_SAMPLES = 65536
MIN_DURATION_S = 0.025
"""One analysis window: what is shorter has no frame."""
MIN_RATE, MAX_RATE = 4000, 768_000

_FLAT = 1e-6
"""A signal that moves less than this, relative to its largest value, is constant: silence with a DC offset."""
_FLAT_FLOOR = 1e-9
_HUGE = 1e30
"""Near float32's end, where a resampler's overshoot turns into infinity; no gain makes sound that large."""
_MISSING_S = 0.1
"""Headers are often off by an encoder's delay; more than this is a file that was cut."""
_STREAMED_BYTES = 0x7FFF_0000
"""Sizes from here on are what programs write into a header when they stream and do not know the length."""
_INTEGER_SCALE = {"int16": 2.0**15, "int32": 2.0**31}

logger = logging.getLogger(__name__)
_stderr_lock = threading.Lock()


class MissingAudioError(AudioError, UsageError):
    """There is no such audio file: the call is wrong, and in a corpus this one utterance is."""


@dataclass(frozen=True)
class SourceAudio(Audio):
    """Resampled sound that knows the exact length of what it was made from."""

    source_samples: int = 0
    source_rate: int = SAMPLE_RATE

    @property
    def duration_s(self) -> float:
        """Seconds of the source, exact: not rounded to a sample of the new rate."""
        return samples_to_seconds(self.source_samples, self.source_rate)


def load_audio(path: str | os.PathLike[str], sample_rate: int = SAMPLE_RATE) -> Audio:
    """Read a sound file as mono float32 at `sample_rate` Hz; channels are averaged.

    Returns:
        `samples` (N,) with N = round(source samples * sample_rate / source rate), sample n at time n / sample_rate;
        `duration_s` is the source's own, exactly. A file that ends before its header says is used as far as it goes,
        and a warning is logged.

    Raises:
        MissingAudioError: no such file (both an AudioError and a UsageError).
        AudioError: a folder or a pipe, not audio, no samples, NaN or infinite samples, nothing but silence
            (a constant is silence too), or shorter than one frame.
        UsageError: `sample_rate` is not a usable rate.
    """
    _check_target_rate(sample_rate)
    name = os.fspath(path)
    head = _head(name)
    quiet = _quiet_stderr if _is_mpeg(head) else contextlib.nullcontext
    with _opened(name, quiet) as sound:
        intake = _Intake(name, sound.samplerate, sample_rate, expected=sound.frames)
        for block in _blocks(sound, name, quiet):
            intake.add(block)
        _note_missing(sound, name, intake.received)
    return intake.finish()


def as_audio(sound: Any, sample_rate: int = SAMPLE_RATE) -> Audio:
    """Make `Audio` at `sample_rate` Hz of a path, of `(samples, rate)`, or of `Audio` at any rate.

    `samples` is (N,), a numpy array, torch tensor or list of floats in about [-1, 1]; int16 and int32 are scaled to
    that. A second axis of length one is dropped; several channels are an error, since which axis they are is a guess.

    >>> as_audio((np.sin(np.arange(8000.0)), 8000)).samples.shape
    (16000,)

    Raises:
        AudioError: as `load_audio`, and for samples of another type or shape.
        UsageError: neither of the three.
    """
    if isinstance(sound, (str, os.PathLike)):
        return load_audio(sound, sample_rate)
    _check_target_rate(sample_rate)
    if isinstance(sound, SourceAudio) and sound.sample_rate == sample_rate:
        return sound
    if isinstance(sound, Audio):
        samples, rate, name = sound.samples, sound.sample_rate, sound.name or "samples in memory"
    elif isinstance(sound, (tuple, list)) and len(sound) == 2:
        (samples, rate), name = sound, "samples in memory"
    else:
        raise UsageError(f"audio: expected a path, (samples, sample_rate) or Audio, met {type(sound).__name__}")
    rate = _rate(rate, name)
    samples = _samples(samples, name)
    intake = _Intake(name, rate, sample_rate, expected=len(samples))
    for start in range(0, len(samples), BLOCK_SAMPLES):
        intake.add(_as_float(samples[start : start + BLOCK_SAMPLES])[:, None])
    audio = replace(intake.finish(), name=sound.name if isinstance(sound, Audio) else "")
    if isinstance(sound, SourceAudio):
        audio = replace(audio, source_samples=sound.source_samples, source_rate=sound.source_rate)
    return audio


class _Intake:
    """Takes blocks (n, channels) at one rate, gives mono samples at another, and refuses what cannot be aligned."""

    def __init__(self, name: str, rate_in: int, rate_out: int, expected: int) -> None:
        if not MIN_RATE <= rate_in <= MAX_RATE:
            raise AudioError(f"{name}: expected a sample rate from {MIN_RATE} to {MAX_RATE} Hz, met {rate_in} Hz")
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
        self._kept = np.empty(min(_scaled(max(expected, 0), rate_in, rate_out) + BLOCK_SAMPLES, 2**28), np.float32)
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
                f"{self.name}: sample is {block[row, channel]} at {at_s:.3f} s{where}: every sample must be a number"
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
        wanted = _scaled(self.received, self.rate_in, self.rate_out)
        self._grow(wanted)
        self._kept[self._filled : wanted] = 0.0
        self._kept.resize(wanted, refcheck=False)
        return SourceAudio(self._kept, self.rate_out, self.name, self.received, self.rate_in)

    def _check(self) -> None:
        seconds = samples_to_seconds(self.received, self.rate_in)
        if not self.received:
            raise AudioError(f"{self.name}: the audio has no samples")
        if seconds < MIN_DURATION_S:
            raise AudioError(
                f"{self.name}: expected at least {MIN_DURATION_S * 1000:.0f} ms of audio, met {seconds * 1000:.2f} ms"
            )
        if max(abs(self._low), abs(self._high)) > _HUGE:
            raise AudioError(f"{self.name}: expected samples in about [-1, 1], met {self._low:.3g} to {self._high:.3g}")
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


def _scaled(samples: int, rate_in: int, rate_out: int) -> int:
    """round(samples * rate_out / rate_in) in whole numbers, halves up."""
    return (2 * samples * rate_out + rate_in) // (2 * rate_in)


def _head(name: str) -> bytes:
    """The first bytes of a file, so that what is not a readable file is told apart from what is not audio."""
    if not os.path.exists(name):
        raise MissingAudioError(f"{name}: no such audio file")
    if os.path.isdir(name):
        raise AudioError(f"{name}: expected an audio file, met a folder (for many files: ctc-align corpus)")
    if not os.path.isfile(name):
        raise AudioError(f"{name}: expected a regular file, met a pipe or a device: save the audio to a file first")
    try:
        with open(name, "rb") as file:
            return file.read(4)
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror}") from error


def _is_mpeg(head: bytes) -> bool:
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)


@contextlib.contextmanager
def _opened(name: str, quiet: Any) -> Iterator[soundfile.SoundFile]:
    import soundfile

    # by descriptor, libsndfile goes by content; by name it takes .raw, .vox or .gsm for headerless sound
    handle: Any = os.open(name, os.O_RDONLY) if os.name == "posix" else name
    try:
        try:
            with quiet():
                sound = soundfile.SoundFile(handle, closefd=False)
        except (soundfile.SoundFileError, TypeError, ValueError) as error:
            reason = str(getattr(error, "error_string", error)).rstrip(". ")
            raise AudioError(
                f"{name}: expected audio (WAV, FLAC, OGG, Opus, MP3, …), met something else: {reason}"
            ) from error
        with sound:
            yield sound
    finally:
        if isinstance(handle, int):
            os.close(handle)


def _blocks(sound: soundfile.SoundFile, name: str, quiet: Any) -> Iterator[np.ndarray]:
    """Blocks (n, channels) float32, each BLOCK_SAMPLES long but the last."""
    import soundfile

    read = 0
    while True:
        try:
            with quiet():
                block = sound.read(BLOCK_SAMPLES, dtype="float32", always_2d=True)
        except soundfile.SoundFileError as error:
            if not read:
                raise AudioError(f"{name}: the audio cannot be decoded: the file is cut or damaged") from error
            return
        if not len(block):
            return
        read += len(block)
        yield block


def _note_missing(sound: soundfile.SoundFile, name: str, received: int) -> None:
    missing_s = samples_to_seconds(sound.frames - received, sound.samplerate) if sound.frames < 2**48 else 0.0
    sizes = re.search(r"^data *: (\d+) \(should be (\d+)\)", sound.extra_info, re.MULTILINE)
    if sizes and int(sizes[1]) < _STREAMED_BYTES:
        missing_s = max(missing_s, (int(sizes[1]) / max(int(sizes[2]), 1) - 1) * received / sound.samplerate)
    if missing_s > _MISSING_S:
        logger.warning(
            "%s: the file ends %.2f s before its header says: it is cut or damaged; the first %.2f s are used",
            name,
            missing_s,
            samples_to_seconds(received, sound.samplerate),
        )


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep libmpg123's remarks, written straight to descriptor 2, off the user's terminal."""
    with _stderr_lock, open(os.devnull, "wb") as nowhere:
        try:
            saved = os.dup(2)
        except OSError:  # no stderr at all: nothing to keep clean
            yield
            return
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def _check_target_rate(sample_rate: int) -> None:
    if not MIN_RATE <= sample_rate <= MAX_RATE:
        raise UsageError(f"sample_rate: expected {MIN_RATE} to {MAX_RATE} Hz, met {sample_rate}")


def _rate(rate: Any, name: str) -> int:
    """The sample rate that stands beside samples, as an int."""
    try:
        if isinstance(rate, float) and rate.is_integer():
            return int(rate)
        return operator.index(rate)
    except TypeError:
        hint = " (is it (rate, samples)? give (samples, rate))" if np.ndim(rate) else ""
        raise AudioError(
            f"{name}: expected the sample rate as a whole number, met {type(rate).__name__}{hint}"
        ) from None


def _samples(samples: Any, name: str) -> np.ndarray:
    """Samples in memory as one axis of float or scaled-integer type."""
    if hasattr(samples, "detach"):
        samples = samples.detach().cpu()
        samples = (samples.float() if samples.dtype.is_floating_point else samples).numpy()
    try:
        array = np.asarray(samples) if hasattr(samples, "dtype") else np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AudioError(f"{name}: expected numbers, met {type(samples).__name__}: {error}") from error
    if array.dtype.kind != "f" and array.dtype.name not in _INTEGER_SCALE:
        raise AudioError(f"{name}: expected floats in [-1, 1], int16 or int32 samples, met {array.dtype}")
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise AudioError(
            f"{name}: expected one channel of shape (N,), met shape {array.shape}: average or pick a channel"
        )
    return array


def _as_float(block: np.ndarray) -> np.ndarray:
    scale = _INTEGER_SCALE.get(block.dtype.name)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes inf, which the intake reports
        return block.astype(np.float32) if scale is None else (block / scale).astype(np.float32)
