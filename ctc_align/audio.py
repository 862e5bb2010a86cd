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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ctc_align.errors import AudioError, UsageError
from ctc_align.intake import MAX_RATE, MIN_RATE, Intake, SourceAudio
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds

if TYPE_CHECKING:
    import soundfile

SAMPLE_RATE = 16000
"""What the models of this package listen at."""
BLOCK_SAMPLES = 65536
_MISSING_S = 0.1
"""Headers are often off by an encoder's delay; more than this is a file that was cut."""
_STREAMED_BYTES = 0x7FFF_0000
"""Sizes from here on are what programs write into a header when they stream and do not know the length."""
_INTEGER_SCALE = {"int16": 2.0**15, "int32": 2.0**31}

logger = logging.getLogger(__name__)
_stderr_lock = threading.Lock()


class MissingAudioError(AudioError, UsageError):
    """There is no such audio file: the call is wrong, and in a corpus this one utterance is."""


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
        intake = Intake(name, sound.samplerate, sample_rate, expected=sound.frames)
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
    intake = Intake(name, rate, sample_rate, expected=len(samples))
    for start in range(0, len(samples), BLOCK_SAMPLES):
        intake.add(_as_float(samples[start : start + BLOCK_SAMPLES])[:, None])
    audio = replace(intake.finish(), name=sound.name if isinstance(sound, Audio) else "")
    if isinstance(sound, SourceAudio):
        audio = replace(audio, source_samples=sound.source_samples, source_rate=sound.source_rate)
    return audio


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
