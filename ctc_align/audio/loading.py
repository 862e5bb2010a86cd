"""Loading of audio: any file that libsndfile reads, or samples in memory, to mono float32 at the model's rate.

Audio is processed in blocks (read, check, mix, resample, append), so a recording is never in memory at its own rate and
channel count. The result does not depend on the blocks: the resampler keeps its state between them.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, cast

import numpy as np

from ctc_align.audio.resampling import MAX_RATE, MIN_RATE, CheckedResampler, SourceAudio
from ctc_align.errors import AudioError, UsageError
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds, seconds_to_samples

if TYPE_CHECKING:
    import soundfile
    import torch

Samples: TypeAlias = "np.ndarray | torch.Tensor | Sequence[float]"
AudioSource: TypeAlias = "str | os.PathLike[str] | Audio | tuple[Samples, float]"
"""Audio in a file or in memory: a path, `Audio`, or (samples, sample rate)."""

SAMPLE_RATE = 16000
"""Sample rate of the models of this package, in Hz."""
BLOCK_SAMPLES = 65536
_MISSING_S = 0.1
"""Headers are often off by an encoder's delay; a file that lacks more than this was cut."""
_STREAMED_BYTES = 0x7FFF_0000
"""Least size in a header that stands for an unknown length, as programs write it when they stream."""
_ENDLESS_S, _ENDLESS = 1e9, 2**62
_Quiet = Callable[[], AbstractContextManager[None]]
_INTEGER_SCALE = {"int16": 2.0**15, "int32": 2.0**31}

logger = logging.getLogger(__name__)
_stderr_lock = threading.Lock()


class MissingAudioError(AudioError, UsageError):
    """The audio file does not exist: an error of the call, or in a corpus of one utterance."""


def load_audio(path: str | os.PathLike[str], sample_rate: int = SAMPLE_RATE) -> Audio:
    """Read an audio file as mono float32 at `sample_rate` Hz; channels are averaged.

    Returns:
        `samples` (N,) with N = round(source samples * sample_rate / source rate), sample n at time n / sample_rate;
        `duration_s` is the exact duration of the source. A file that ends before its header says is used up to its
        end, and a warning is logged.

    Raises:
        MissingAudioError: no such file (both an AudioError and a UsageError).
        AudioError: a folder or a pipe, not audio, no samples, NaN or infinite samples, nothing but silence
            (a constant is silence too), or shorter than one frame.
        UsageError: `sample_rate` is not a usable rate.
    """
    return load_segment(path, sample_rate)


def load_segment(
    path: str | os.PathLike[str],
    sample_rate: int = SAMPLE_RATE,
    *,
    offset_s: float = 0.0,
    duration_s: float | None = None,
    channel: int | None = None,
) -> Audio:
    """Read a part of a recording, and only that part, as `load_audio` reads the whole.

    Args:
        path, sample_rate: as for `load_audio`.
        offset_s: start of the part.
        duration_s: length of the part; None: to the end. A part may end up to 0.1 s after the recording, since
            durations may be rounded or of another copy; it is then as much shorter.
        channel: number of a channel, from 1; None: the average of all.

    Returns:
        As `load_audio`, with `offset_s`; sample 0 is the nearest sample of the source.

    Raises:
        AudioError: as `load_audio`, or a part or a channel that the recording does not have.
        UsageError: `sample_rate` is not a usable rate.
    """
    _check_target_rate(sample_rate)
    name = os.fspath(path)
    _check_part(name, offset_s, duration_s, channel)
    is_whole = not offset_s and duration_s is None and channel is None
    quiet = _quiet_stderr if _is_mpeg(_head(name)) else contextlib.nullcontext
    with _opened(name, quiet) as sound:
        first, count = _part(sound, name, offset_s, duration_s)
        if channel is not None and channel > sound.channels:
            raise AudioError(f"{name}: expected channel {channel}, got a recording of {sound.channels}")
        part = f"{name} (from {offset_s:.2f} s on)" if first else name
        resampler = CheckedResampler(part, sound.samplerate, sample_rate, expected=min(count, sound.frames))
        _go_to(sound, name, first, quiet)
        for block in _blocks(sound, name, quiet, count):
            resampler.add(block if channel is None else block[:, channel - 1 : channel])
        missing_s = samples_to_seconds(min(count, sound.frames - first) - resampler.received, sound.samplerate)
        if is_whole:
            _note_missing(sound, name, resampler.received)
        elif _length_known(sound) and resampler.received and missing_s > _MISSING_S:
            _warn_of_cut(part, missing_s, samples_to_seconds(resampler.received, sound.samplerate))
    return replace(resampler.finish(), name=name, offset_s=offset_s)


def header_duration_s(path: str | os.PathLike[str]) -> float:
    """Return the length of a recording in seconds by its header; without one the file is decoded to its end.

    Raises:
        MissingAudioError, AudioError: as `load_audio`, for faults that are found without decoding.
    """
    name = os.fspath(path)
    quiet = _quiet_stderr if _is_mpeg(_head(name)) else contextlib.nullcontext
    with _opened(name, quiet) as sound:
        samples = sound.frames if _length_known(sound) else sum(map(len, _blocks(sound, name, quiet)))
        return samples_to_seconds(samples, sound.samplerate)


def as_audio(source: AudioSource, sample_rate: int = SAMPLE_RATE) -> Audio:
    """Return `Audio` at `sample_rate` Hz from a path, `(samples, rate)`, or `Audio` at any rate.

    `samples` is (N,), a numpy array, torch tensor or list of floats in about [-1, 1]; int16 and int32 are scaled to
    that. A second axis of length one is dropped; several channels are an error, since their axis would be a guess.

    >>> as_audio((np.sin(np.arange(8000.0)), 8000)).samples.shape
    (16000,)

    Raises:
        AudioError: as `load_audio`, or samples of another type or shape.
        UsageError: none of the three.
    """
    if isinstance(source, (str, os.PathLike)):
        return load_audio(source, sample_rate)
    _check_target_rate(sample_rate)
    if isinstance(source, SourceAudio) and source.sample_rate == sample_rate:
        return source
    name = (source.name if isinstance(source, Audio) else "") or "samples in memory"
    if isinstance(source, Audio):
        rate, samples = _rate(source.sample_rate, name), _samples(source.samples, name)
    elif isinstance(source, (tuple, list)) and len(source) == 2:
        rate, samples = _rate(source[1], name), _samples(source[0], name)
    else:
        raise UsageError(f"audio: expected a path, (samples, sample_rate) or Audio, got {type(source).__name__}")
    resampler = CheckedResampler(name, rate, sample_rate, expected=len(samples))
    for start in range(0, len(samples), BLOCK_SAMPLES):
        resampler.add(_as_float(samples[start : start + BLOCK_SAMPLES])[:, None])
    audio = resampler.finish()
    if isinstance(source, SourceAudio):
        audio = replace(audio, source_samples=source.source_samples, source_rate=source.source_rate)
    if isinstance(source, Audio):
        return replace(audio, name=source.name, offset_s=source.offset_s)
    return replace(audio, name="")


def _head(name: str) -> bytes:
    """Return the first bytes of a file; an error for a path that is not a readable file."""
    if not os.path.exists(name):
        raise MissingAudioError(f"{name}: no such audio file")
    if os.path.isdir(name):
        raise AudioError(f"{name}: expected an audio file, got a folder (for many files: ctc-align corpus)")
    if not os.path.isfile(name):
        raise AudioError(f"{name}: expected a regular file, got a pipe or a device: save the audio to a file first")
    try:
        with open(name, "rb") as file:
            return file.read(4)
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror}") from error


def _is_mpeg(head: bytes) -> bool:
    return head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0)


@contextlib.contextmanager
def _opened(name: str, quiet: _Quiet) -> Iterator[soundfile.SoundFile]:
    import soundfile

    # by descriptor, libsndfile goes by content; by name it takes .raw, .vox or .gsm for headerless audio
    handle: int | str = os.open(name, os.O_RDONLY) if os.name == "posix" else name
    try:
        try:
            with quiet():
                sound = soundfile.SoundFile(handle, closefd=False)
        except (soundfile.SoundFileError, TypeError, ValueError) as error:
            reason = str(getattr(error, "error_string", error)).rstrip(". ")
            raise AudioError(
                f"{name}: expected audio (WAV, FLAC, OGG, Opus, MP3, …), got something else: {reason}"
            ) from error
        with sound:
            yield sound
    finally:
        if isinstance(handle, int):
            os.close(handle)


def _check_part(name: str, offset_s: float, duration_s: float | None, channel: int | None) -> None:
    if not 0 <= offset_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected an offset of 0 s or more, got {offset_s}")
    if duration_s is not None and not 0 < duration_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected a duration of more than 0 s, got {duration_s}")
    if channel is not None and channel < 1:
        raise AudioError(f"{name}: expected a channel from 1 on, got {channel}")


def _part(sound: soundfile.SoundFile, name: str, offset_s: float, duration_s: float | None) -> tuple[int, int]:
    """Return the first sample of a part and its number of samples, at the rate of the source."""
    rate = sound.samplerate
    first = seconds_to_samples(offset_s, rate)
    count = _ENDLESS if duration_s is None else seconds_to_samples(offset_s + duration_s, rate) - first
    if _length_known(sound):
        late = first + count - sound.frames if duration_s is not None else 0
        if first >= sound.frames or samples_to_seconds(late, rate) > _MISSING_S:
            to = "the end" if duration_s is None else f"{offset_s + duration_s:.3f} s"
            raise AudioError(
                f"{name}: expected a part of the recording, which is {samples_to_seconds(sound.frames, rate):.3f} s "
                f"long; got {offset_s:.3f} s to {to}"
            )
    return first, count


def _length_known(sound: soundfile.SoundFile) -> bool:
    return 0 < sound.frames < 2**48


def _go_to(sound: soundfile.SoundFile, name: str, first: int, quiet: _Quiet) -> None:
    """Make `first` the next sample that is read, by seeking or, where the file cannot seek, by reading."""
    import soundfile

    if not first:
        return
    try:
        with quiet():
            if sound.seekable() and sound.seek(first) == first:
                return
            sound.seek(0)
    except soundfile.SoundFileError:
        pass
    for _ in _blocks(sound, name, quiet, first):
        pass


def _blocks(sound: soundfile.SoundFile, name: str, quiet: _Quiet, most: int | None = None) -> Iterator[np.ndarray]:
    """Yield blocks (n, channels) float32 of BLOCK_SAMPLES, the last one shorter; at most `most` samples in all."""
    import soundfile

    read = 0
    while True:
        wanted = BLOCK_SAMPLES if most is None else min(BLOCK_SAMPLES, most - read)
        if not wanted:
            return
        try:
            with quiet():
                block = sound.read(wanted, dtype="float32", always_2d=True)
        except soundfile.SoundFileError as error:
            if not read:
                raise AudioError(f"{name}: the audio cannot be decoded: the file is cut or damaged") from error
            return
        if not len(block):
            return
        read += len(block)
        yield block


def _note_missing(sound: soundfile.SoundFile, name: str, received: int) -> None:
    """Warn of a file that is shorter than its header, or libsndfile's remark about it, says."""
    missing_s = samples_to_seconds(sound.frames - received, sound.samplerate) if _length_known(sound) else 0.0
    sizes = re.search(r"^data *: (\d+) \(should be (\d+)\)", sound.extra_info, re.MULTILINE)
    if sizes and int(sizes[1]) < _STREAMED_BYTES:
        missing_s = max(missing_s, (int(sizes[1]) / max(int(sizes[2]), 1) - 1) * received / sound.samplerate)
    if missing_s > _MISSING_S:
        _warn_of_cut(name, missing_s, samples_to_seconds(received, sound.samplerate))


def _warn_of_cut(name: str, missing_s: float, used_s: float) -> None:
    logger.warning(
        "%s: the file ends %.2f s before its header says: it is cut or damaged; the first %.2f s are used",
        name,
        missing_s,
        used_s,
    )


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep libmpg123's remarks, which it writes to descriptor 2, off the user's terminal."""
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
        raise UsageError(f"sample_rate: expected {MIN_RATE} to {MAX_RATE} Hz, got {sample_rate}")


def _rate(rate: float, name: str) -> int:
    """Return the sample rate of samples in memory as an int."""
    try:
        if isinstance(rate, float) and rate.is_integer():
            return int(rate)
        return operator.index(cast("SupportsIndex", rate))
    except TypeError:
        hint = " (is it (rate, samples)? give (samples, rate))" if np.ndim(rate) else ""
        raise AudioError(
            f"{name}: expected the sample rate as a whole number, got {type(rate).__name__}{hint}"
        ) from None


def _samples(samples: Samples, name: str) -> np.ndarray:
    """Return samples in memory as one axis of a float type, int16 or int32."""
    if hasattr(samples, "detach"):
        tensor = samples.detach().cpu()
        samples = (tensor.float() if tensor.dtype.is_floating_point else tensor).numpy()
    try:
        array = np.asarray(samples) if hasattr(samples, "dtype") else np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AudioError(f"{name}: expected numbers, got {type(samples).__name__}: {error}") from error
    if array.dtype.kind != "f" and array.dtype.name not in _INTEGER_SCALE:
        raise AudioError(f"{name}: expected floats in [-1, 1], int16 or int32 samples, got {array.dtype}")
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise AudioError(
            f"{name}: expected one channel of shape (N,), got shape {array.shape}: average or pick a channel"
        )
    return array


def _as_float(block: np.ndarray) -> np.ndarray:
    scale = _INTEGER_SCALE.get(block.dtype.name)
    with np.errstate(over="ignore"):  # a float64 too large for float32 becomes inf, which the resampler reports
        return block.astype(np.float32) if scale is None else (block / scale).astype(np.float32)
