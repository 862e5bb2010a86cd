"""Loading of audio: any recording or video, or samples in memory, to mono float32 at the model's rate.

WAV, FLAC, Ogg and their like are read by libsndfile, everything else by FFmpeg (PyAV); the content decides, never the
name.

Audio is processed in blocks (read, check, mix, resample, append), so a recording is never in memory at its own rate and
channel count. The result does not depend on the blocks: the resampler keeps its state between them.
"""

from __future__ import annotations

import logging
import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, cast

import numpy as np

from ctc_align.audio.audio_kinds import MissingAudioError
from ctc_align.audio.media_reader import MediaRecording, decoded_samples
from ctc_align.audio.recordings import Recording, no_such_channel, open_recording
from ctc_align.audio.resampling import MAX_RATE, MIN_RATE, CheckedResampler, SourceAudio
from ctc_align.audio.soundfile_reader import BLOCK_SAMPLES, MISSING_S
from ctc_align.errors import AudioError, UsageError
from ctc_align.types import Audio
from ctc_align.units import samples_to_seconds, seconds_to_samples

if TYPE_CHECKING:
    import torch

__all__ = [
    "MissingAudioError",
    "as_audio",
    "estimated_duration_s",
    "header_duration_s",
    "load_audio",
    "load_segment",
    "load_stdin",
]

Samples: TypeAlias = "np.ndarray | torch.Tensor | Sequence[float]"
AudioSource: TypeAlias = "str | os.PathLike[str] | Audio | tuple[Samples, float]"
"""Audio in a file or in memory: a path, `Audio`, or (samples, sample rate)."""

SAMPLE_RATE = 16000
"""Sample rate of the models of this package, in Hz."""
LONGER_S = 0.1
"""A recording may differ in length from its alignment by this: another copy, or a rounded length."""
_ENDLESS_S = 1e9
_MUCH_CANCELLED = 0.5
STDIN = "standard input"
_INTEGER_SCALE = {"int16": 2.0**15, "int32": 2.0**31}

logger = logging.getLogger(__name__)


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
    on_disk: bool = False,
) -> Audio:
    """Read a part of a recording, and only that part, as `load_audio` reads the whole.

    Args:
        path, sample_rate: as for `load_audio`.
        offset_s: start of the part.
        duration_s: length of the part; None: to the end. A part may end up to 0.1 s after the recording, since
            durations may be rounded or of another copy; it is then as much shorter.
        channel: number of a channel, from 1; None: the average of all.
        on_disk: keep the samples of a long recording (35 minutes at 16 kHz) in a temporary file: an array
            (`ctc_align.reading.rows_on_disk.RowsOnDisk`) of which there are slices only.

    Returns:
        As `load_audio`, with `offset_s`; sample 0 is the nearest sample of the source.

    Raises:
        AudioError: as `load_audio`, or a part or a channel that the recording does not have.
        UsageError: `sample_rate` is not a usable rate.
    """
    _check_target_rate(sample_rate)
    name = os.fspath(path)
    _check_part(name, offset_s, duration_s, channel)
    with open_recording(name) as recording:
        return _loaded(recording, sample_rate, offset_s, duration_s, channel, on_disk)


def load_stdin(sample_rate: int = SAMPLE_RATE, *, channel: int | None = None, on_disk: bool = False) -> Audio:
    """Read a recording of any kind from standard input, as `load_segment` reads a file; its name is "-".

    It is kept in a temporary file meanwhile, since many kinds cannot be read from front to back.

    Raises:
        AudioError: as `load_segment`, or the temporary file cannot be written.
        UsageError: `sample_rate` is not a usable rate; standard input is a terminal.
    """
    _check_target_rate(sample_rate)
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("AUDIO is -, but no recording comes by standard input: pipe one in (… | ctc-align - TEXT)")
    with tempfile.NamedTemporaryFile(prefix="ctc-align-") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
            file.flush()
        except OSError as error:
            raise AudioError(f"{STDIN}: cannot be kept in {file.name}: {error.strerror or error}") from error
        if not file.tell():
            raise AudioError(f"{STDIN}: expected audio, got nothing (0 bytes)")
        with open_recording(STDIN, file.name) as recording:
            return replace(_loaded(recording, sample_rate, 0.0, None, channel, on_disk), name="-")


def _loaded(
    recording: Recording,
    sample_rate: int,
    offset_s: float,
    duration_s: float | None,
    channel: int | None,
    on_disk: bool,
) -> Audio:
    name = recording.name
    first, most = _part(recording, offset_s, duration_s)
    if channel is not None and channel > recording.channels:
        raise AudioError(f"{name}: {no_such_channel(channel, recording.channels)}")
    part = f"{name} (from {offset_s:.2f} s on)" if first else name
    expected = [samples for samples in (most, recording.samples) if samples is not None]
    expects = min(expected, default=0)
    resampler = CheckedResampler(part, recording.rate, sample_rate, expects, on_disk=on_disk)
    used = recording.mixed_channels() if channel is None else [channel - 1]
    for block in recording.read(first, most):
        resampler.add(block if len(used) == recording.channels else block[:, used])
    _check_end(recording, offset_s, duration_s, resampler.received)
    for fault in recording.faults(first, most, resampler.received):
        logger.warning("%s: %s", part, fault)
    audio = resampler.finish()
    if resampler.cancelled > _MUCH_CANCELLED:
        logger.warning(
            "%s: the channels cancel each other in %.0f %% of the sound when they are averaged: choose one of them "
            "(--channel left)",
            part,
            100 * resampler.cancelled,
        )
    return replace(audio, name=name, offset_s=offset_s)


def header_duration_s(path: str | os.PathLike[str]) -> float:
    """Return the length of a recording in seconds: by the header of what libsndfile reads, which is exact; what FFmpeg
    reads, and files without a length in their header, are decoded to their end.

    Raises:
        MissingAudioError, AudioError: as `load_audio`, for faults that are found without decoding.
    """
    name = os.fspath(path)
    with open_recording(name) as recording:
        if isinstance(recording, MediaRecording):
            return samples_to_seconds(*decoded_samples(name))
        samples = recording.samples
        if samples is None:
            samples = sum(map(len, recording.read(0, None)))
        return samples_to_seconds(samples, recording.rate)


def estimated_duration_s(path: str | os.PathLike[str]) -> float:
    """Return the length of a recording in seconds, right to a few hundredths, without decoding what FFmpeg reads.

    Raises:
        MissingAudioError, AudioError: as `header_duration_s`.
    """
    name = os.fspath(path)
    with open_recording(name) as recording:
        if isinstance(recording, MediaRecording):
            return recording.demuxed_s()
    return header_duration_s(name)


def as_audio(
    source: AudioSource, sample_rate: int = SAMPLE_RATE, *, channel: int | None = None, on_disk: bool = False
) -> Audio:
    """Return `Audio` at `sample_rate` Hz from a path, `(samples, rate)`, or `Audio` at any rate.

    `channel` is that of a file, from 1; None averages them. `on_disk` is for a path, as in `load_segment`.

    `samples` is (N,), a numpy array, torch tensor or list of floats in about [-1, 1]; int16 and int32 are scaled to
    that. A second axis of length one is dropped; several channels are an error, since their axis would be a guess.

    >>> as_audio((np.sin(np.arange(8000.0)), 8000)).samples.shape
    (16000,)

    Raises:
        AudioError: as `load_audio`, or samples of another type or shape.
        UsageError: none of the three.
    """
    if isinstance(source, (str, os.PathLike)):
        return load_segment(source, sample_rate, channel=channel, on_disk=on_disk)
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


def _check_part(name: str, offset_s: float, duration_s: float | None, channel: int | None) -> None:
    if not 0 <= offset_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected an offset of 0 s or more, got {offset_s}")
    if duration_s is not None and not 0 < duration_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected a duration of more than 0 s, got {duration_s}")
    if channel is not None and channel < 1:
        raise AudioError(f"{name}: expected a channel from 1 on, got {channel}")


def _part(recording: Recording, offset_s: float, duration_s: float | None) -> tuple[int, int | None]:
    """Return the first sample of a part and its number of samples (None: to the end), at the rate of the source."""
    first = seconds_to_samples(offset_s, recording.rate)
    most = None if duration_s is None else seconds_to_samples(offset_s + duration_s, recording.rate) - first
    if recording.samples is not None:
        late = 0 if most is None else first + most - recording.samples
        if first >= recording.samples or samples_to_seconds(late, recording.rate) > MISSING_S:
            raise _no_such_part(recording, recording.samples, offset_s, duration_s)
    return first, most


def _check_end(recording: Recording, offset_s: float, duration_s: float | None, received: int) -> None:
    """Raise AudioError where the end of a recording, whose length was not known before, cuts a part short."""
    if not isinstance(recording, MediaRecording) or recording.samples is None or (not offset_s and duration_s is None):
        return
    missing_s = 0.0 if duration_s is None else duration_s - samples_to_seconds(received, recording.rate)
    if not received or missing_s > MISSING_S:
        raise _no_such_part(recording, recording.samples, offset_s, duration_s)


def _no_such_part(recording: Recording, samples: int, offset_s: float, duration_s: float | None) -> AudioError:
    to = "the end" if duration_s is None else f"{offset_s + duration_s:.3f} s"
    return AudioError(
        f"{recording.name}: expected a part of the recording, which is "
        f"{samples_to_seconds(samples, recording.rate):.3f} s long; got {offset_s:.3f} s to {to}"
    )


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
