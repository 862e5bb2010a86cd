"""Loading of audio to mono float32 at the model's rate.

The audio is any recording or video, or samples in memory.

libsndfile reads WAV, FLAC, Ogg and similar files, FFmpeg (PyAV) everything else; the content
decides, never the name.

Audio is processed in blocks (read, check, mix, resample, append), so a recording is never in memory
at the rate and channel count of its source. The result does not depend on the blocks, because the
resampler keeps its state between them.
"""

from __future__ import annotations

import logging
import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, cast

import numpy as np

from ctc_align.audio.audio_kinds import file_head, kind_of_content
from ctc_align.audio.cut_files import lacks_index
from ctc_align.audio.media_file import NotMediaError, no_such_track, numbered
from ctc_align.audio.recordings import (
    BLOCK_SAMPLES,
    MISSING_S,
    ChainedOggRecording,
    MediaRecording,
    NotSoundFileError,
    Recording,
    SoundFileRecording,
    no_such_channel,
    ogg_pages,
)
from ctc_align.errors import NOTE, AudioError, UsageError
from ctc_align.machine.own_folders import own_folder
from ctc_align.machine.rows_on_disk import RowsOnDisk
from ctc_align.reading import STANDARD_INPUT
from ctc_align.reading.file_kinds import is_sound_file
from ctc_align.text.languages import base_code, name_of_language
from ctc_align.types import DEFAULT_SOUND, Audio, SoundChoice
from ctc_align.units import samples_to_seconds, seconds_to_samples

if TYPE_CHECKING:
    import soxr
    import torch

Samples: TypeAlias = "np.ndarray | torch.Tensor | Sequence[float]"
AudioSource: TypeAlias = "str | os.PathLike[str] | Audio | tuple[Samples, float]"
"""Audio in a file or in memory: a path, `Audio`, or (samples, sample rate)."""

SAMPLE_RATE = 16000
"""Sample rate of the models of this package, in Hz."""
LONGER_S = 0.1
"""A recording may differ in length from its alignment by this much, if it is a different copy or a
length was rounded."""
_ENDLESS_S = 1e9
_MUCH_CANCELLED = 0.5
_INTEGER_SCALE = {"int16": 2.0**15, "int32": 2.0**31}

logger = logging.getLogger(__name__)


def load_audio(
    path: str | os.PathLike[str],
    sample_rate: int = SAMPLE_RATE,
    *,
    offset_s: float = 0.0,
    duration_s: float | None = None,
    choice: SoundChoice = DEFAULT_SOUND,
    on_disk: bool = False,
) -> Audio:
    """Read an audio file, or a part of it and only that part, as mono float32 at `sample_rate` Hz.

    Args:
        offset_s: start of the part.
        duration_s: length of the part; None: to the end. A part may end up to 0.1 s after the
            recording, since durations may be rounded or of another copy; it is then as much
            shorter.
        choice: the channel and the audio track; by default channels are averaged.
        on_disk: keep the samples of a long recording (35 minutes at 16 kHz) in a temporary file: an
            array (`ctc_align.machine.rows_on_disk.RowsOnDisk`) that gives slices only.

    Returns:
        `samples` (N,) with N = round(source samples * sample_rate / source rate), sample n at time
        n / sample_rate
        from the nearest sample of the source to `offset_s`; `duration_s` is the exact duration. A
        file that ends
        before its header says is used up to its end, and a warning is logged.

    Raises:
        MissingAudioError: there is no such file (both an AudioError and a UsageError).
        AudioError: a folder or a pipe, not audio, no samples, NaN or infinite samples, nothing but
            silence
            (a constant is silence too), shorter than one frame, or a part, a channel or a track
            that the recording
            does not have.
        UsageError: `sample_rate` is not a usable rate.
    """
    _check_target_rate(sample_rate)
    name = os.fspath(path)
    _check_part(name, offset_s, duration_s, choice.channel)
    with open_recording(name, choice=choice) as recording:
        return _loaded(recording, sample_rate, offset_s, duration_s, choice, on_disk)


def load_watched(
    path: str | os.PathLike[str],
    sample_rate: int,
    watch: Callable[[float], None],
    *,
    choice: SoundChoice = DEFAULT_SOUND,
) -> Audio:
    """Read a recording whose length nobody has checked, as `load_audio` reads it with `on_disk`.

    `watch` is called with the seconds read so far before more is read; what it raises ends the
    reading.
    """
    _check_target_rate(sample_rate)
    name = os.fspath(path)
    _check_part(name, 0.0, None, choice.channel)
    with open_recording(name, choice=choice) as recording:
        recording.watch = watch
        return _loaded(recording, sample_rate, 0.0, None, choice, True)


def load_stdin(
    sample_rate: int = SAMPLE_RATE, *, choice: SoundChoice = DEFAULT_SOUND, on_disk: bool = False
) -> Audio:
    """Read a recording of any kind from standard input, as `load_audio` reads a file.

    Its name is "-".

    A temporary file holds it in the meantime, because many kinds cannot be read from front to back.

    Raises:
        AudioError: as `load_audio`, or the temporary file cannot be written.
        UsageError: `sample_rate` is not a usable rate; standard input is a terminal.
    """
    _check_target_rate(sample_rate)
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "AUDIO is -, but no recording comes by standard input: pipe one in (… | ctc-align -"
            " TEXT)"
        )
    with ExitStack() as ends:
        try:
            path = ends.enter_context(own_folder("ctc-align-stdin-")) / "audio"
            with open(path, "xb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        except OSError as error:
            where = tempfile.gettempdir()
            raise AudioError(
                f"{STANDARD_INPUT}: cannot be kept in {where}: {error.strerror or error}"
            ) from error
        if not path.stat().st_size:
            raise AudioError(f"{STANDARD_INPUT}: expected audio, got nothing (0 bytes)")
        with open_recording(STANDARD_INPUT, str(path), choice) as recording:
            return replace(_loaded(recording, sample_rate, 0.0, None, choice, on_disk), name="-")


def _loaded(
    recording: Recording,
    sample_rate: int,
    offset_s: float,
    duration_s: float | None,
    choice: SoundChoice,
    on_disk: bool,
) -> Audio:
    name = recording.name
    channel = choice.channel
    first, most = _part(recording, offset_s, duration_s)
    if channel is not None and channel > recording.channels:
        raise AudioError(f"{name}: {no_such_channel(channel, recording.channels)}")
    if recording.tracks and not choice.track.isdigit():
        languages = [track.partition(' "')[0] for track in recording.tracks]
        is_alone = languages.count(languages[recording.track - 1]) == 1
        if choice.language:
            preferred = name_of_language(base_code(choice.language))
        else:
            preferred = ""
        is_preferred = languages[recording.track - 1] == preferred
        if not choice.track or not is_alone:
            # the only track in the language of the transcript is the right one
            logger.log(
                NOTE if is_alone and is_preferred else logging.WARNING,
                "%s",
                several_tracks(recording),
            )
    if first:
        part = f"{name} (from {offset_s:.2f} s on)"
    else:
        part = name
    expected = [samples for samples in (most, recording.samples) if samples is not None]
    expects = min(expected, default=0)
    resampler = CheckedResampler(part, recording.rate, sample_rate, expects, on_disk=on_disk)
    if channel is None:
        used = recording.mixed_channels()
    else:
        used = [channel - 1]
    is_length_known = recording.samples is not None
    for block in recording.read(first, most):
        resampler.add(block if len(used) == recording.channels else block[:, used])
        if recording.watch is not None:
            recording.watch(samples_to_seconds(resampler.received, recording.rate))
    if not is_length_known:
        _check_end(recording, offset_s, duration_s, resampler.received)
    for fault in recording.faults(first, most, resampler.received):
        logger.warning("%s: %s", part, fault)
    audio = resampler.finish()
    if resampler.cancelled > _MUCH_CANCELLED:
        logger.warning(
            "%s: the channels cancel each other in %.0f %% of the sound when they are averaged:"
            " choose one of them (--channel left)",
            part,
            100 * resampler.cancelled,
        )
    return replace(audio, name=name, offset_s=offset_s, track=recording.track)


def several_tracks(recording: Recording) -> str:
    """Return a sentence on the audio tracks of a recording, and on the one that is read."""
    return (
        f"{recording.name}: it has {len(recording.tracks)} audio tracks"
        f" ({numbered(recording.tracks)}); track {recording.track} is used; --track N, LANGUAGE or"
        " TITLE chooses another"
    )


def header_duration_s(path: str | os.PathLike[str]) -> float:
    """Return the length of a recording in seconds.

    If libsndfile reads the file, the length is that in the header, which is exact. Files for
    FFmpeg, and files without a length in their header, are decoded to the end.

    Raises:
        MissingAudioError, AudioError: as `load_audio`, for faults that show without decoding.
    """
    name = os.fspath(path)
    with open_recording(name) as recording:
        return recording.length_s()


def estimated_duration_s(path: str | os.PathLike[str]) -> float:
    """Return the length of a recording in seconds, right to a few hundredths.

    What FFmpeg reads is not decoded.

    Raises:
        MissingAudioError, AudioError: as `header_duration_s`.
    """
    name = os.fspath(path)
    with open_recording(name) as recording:
        return recording.estimated_s()


def as_audio(
    source: AudioSource,
    sample_rate: int = SAMPLE_RATE,
    *,
    choice: SoundChoice = DEFAULT_SOUND,
    on_disk: bool = False,
) -> Audio:
    """Return `Audio` at `sample_rate` Hz from a path, `(samples, rate)`, or `Audio` at any rate.

    `choice` and `on_disk` are for a path, as in `load_audio`.

    `samples` is (N,), a numpy array, torch tensor or list of floats in about [-1, 1]; int16 and
    int32 are scaled to that. A second axis of length one is dropped; several channels are an error,
    since their axis would be a guess.

    >>> as_audio((np.sin(np.arange(8000.0)), 8000)).samples.shape
    (16000,)

    Raises:
        AudioError: as `load_audio`, or the samples have the wrong type or shape.
        UsageError: the audio is none of the three.
    """
    if isinstance(source, (str, os.PathLike)):
        return load_audio(source, sample_rate, choice=choice, on_disk=on_disk)
    _check_target_rate(sample_rate)
    if isinstance(source, SourceAudio) and source.sample_rate == sample_rate:
        return source
    name = (source.name if isinstance(source, Audio) else "") or "samples in memory"
    if isinstance(source, Audio):
        rate = _rate(source.sample_rate, name)
        samples = _samples(source.samples, name)
    elif isinstance(source, (tuple, list)) and len(source) == 2:
        rate = _rate(source[1], name)
        samples = _samples(source[0], name)
    else:
        raise UsageError(
            f"audio: expected a path, (samples, sample_rate) or Audio, got {type(source).__name__}"
        )
    resampler = CheckedResampler(name, rate, sample_rate, expected=len(samples))
    for start in range(0, len(samples), BLOCK_SAMPLES):
        resampler.add(_as_float(samples[start : start + BLOCK_SAMPLES])[:, None])
    audio = resampler.finish()
    if isinstance(source, SourceAudio):
        audio = replace(audio, source_samples=source.source_samples, source_rate=source.source_rate)
    if isinstance(source, Audio):
        return replace(audio, name=source.name, offset_s=source.offset_s, track=source.track)
    return replace(audio, name="")


def _check_part(name: str, offset_s: float, duration_s: float | None, channel: int | None) -> None:
    if not 0 <= offset_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected an offset of 0 s or more, got {offset_s}")
    if duration_s is not None and not 0 < duration_s < _ENDLESS_S:
        raise AudioError(f"{name}: expected a duration of more than 0 s, got {duration_s}")
    if channel is not None and channel < 1:
        raise AudioError(f"{name}: expected a channel from 1 on, got {channel}")


def _part(
    recording: Recording, offset_s: float, duration_s: float | None
) -> tuple[int, int | None]:
    """Return the first sample of a part and its number of samples, at the source's rate.

    The number is None if the part lasts to the end.
    """
    first = seconds_to_samples(offset_s, recording.rate)
    if duration_s is None:
        most = None
    else:
        most = seconds_to_samples(offset_s + duration_s, recording.rate) - first
    if recording.samples is not None:
        if most is None:
            late = 0
        else:
            late = first + most - recording.samples
        if first >= recording.samples or samples_to_seconds(late, recording.rate) > MISSING_S:
            raise _no_such_part(recording, recording.samples, offset_s, duration_s)
    return first, most


def _check_end(
    recording: Recording, offset_s: float, duration_s: float | None, received: int
) -> None:
    """Raise AudioError if the end of a recording cuts a part short.

    The length of the recording was not known before.
    """
    if recording.samples is None or (not offset_s and duration_s is None):
        return
    if duration_s is None:
        missing_s = 0.0
    else:
        missing_s = duration_s - samples_to_seconds(received, recording.rate)
    if not received or missing_s > MISSING_S:
        raise _no_such_part(recording, recording.samples, offset_s, duration_s)


def _no_such_part(
    recording: Recording, samples: int, offset_s: float, duration_s: float | None
) -> AudioError:
    if duration_s is None:
        to = "the end"
    else:
        to = f"{offset_s + duration_s:.3f} s"
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
        if np.ndim(rate):
            hint = " (is it (rate, samples)? give (samples, rate))"
        else:
            hint = ""
        raise AudioError(
            f"{name}: expected the sample rate as a whole number, got {type(rate).__name__}{hint}"
        ) from None


def _samples(samples: Samples, name: str) -> np.ndarray:
    """Return samples in memory as one axis of a float type, int16 or int32."""
    if hasattr(samples, "detach"):
        tensor = samples.detach().cpu()
        samples = (tensor.float() if tensor.dtype.is_floating_point else tensor).numpy()
    try:
        if hasattr(samples, "dtype"):
            array = np.asarray(samples)
        else:
            array = np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise AudioError(
            f"{name}: expected numbers, got {type(samples).__name__}: {error}"
        ) from error
    if array.dtype.kind != "f" and array.dtype.name not in _INTEGER_SCALE:
        raise AudioError(
            f"{name}: expected floats in [-1, 1], int16 or int32 samples, got {array.dtype}"
        )
    if array.ndim == 2 and 1 in array.shape:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise AudioError(
            f"{name}: expected one channel of shape (N,), got shape {array.shape}: average or pick"
            " a channel"
        )
    return array


def _as_float(block: np.ndarray) -> np.ndarray:
    scale = _INTEGER_SCALE.get(block.dtype.name)
    with np.errstate(
        over="ignore"
    ):  # a float64 too large for float32 becomes inf, which the resampler reports
        if scale is None:
            return block.astype(np.float32)
        return (block / scale).astype(np.float32)


def open_recording(
    name: str, path: str | None = None, choice: SoundChoice = DEFAULT_SOUND
) -> Recording:
    """Return the recording of a file; the content decides what it is, never the name.

    `path` is the file where messages call it by another `name`; `choice` says which of several
    audio tracks is read.

    Raises:
        MissingAudioError, AudioError: no such file, none that can be opened, or no recording; the
            message says what it is.
    """
    path = path or name
    head = file_head(path)
    by_libsndfile = is_sound_file(head)
    try:
        if by_libsndfile:
            recording = _sound_file(name, path, head)
            if choice.track.isdigit() and int(choice.track) > 1:
                recording.close()
                raise no_such_track(name, choice.track, ["without a language"])
            return recording
    except NotSoundFileError:
        pass
    try:
        return MediaRecording(name, path, choice)
    except NotMediaError as error:
        reason = str(error)
        if "nvalid" in reason or "End of file" in reason:
            # FFmpeg's words for formats that it does not know, or that are not on the list
            reason = "an unknown kind of file, or one that is damaged or truncated near its start"
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror or error}") from error
    kind = kind_of_content(path, head)
    if kind is None and not by_libsndfile and not head.startswith((b"ID3", b"\xff")):
        try:
            return SoundFileRecording(name, path)  # formats without a mark at their start
        except NotSoundFileError:
            pass
    if kind is None and lacks_index(path):
        raise AudioError(
            f"{name}: the file is truncated: its index (moov), which recorders write at the end,"
            " is missing, and without it nothing in it can be found: copy or record it again, or"
            " repair it with the program that made it"
        )
    raise AudioError(
        f"{name}: expected audio or a video (WAV, FLAC, MP3, M4A, MP4 …), got {kind or reason}"
    )


def _sound_file(name: str, path: str, head: bytes) -> Recording:
    """Return libsndfile's reader.

    For Ogg files with lost pages, return FFmpeg's, which knows by the times what is lost.
    """
    if head[:4] != b"OggS":
        return SoundFileRecording(name, path)
    links, is_cut, is_damaged = ogg_pages(path)
    if is_damaged:
        raise NotSoundFileError("Ogg pages are missing")
    if len(links) > 1:
        return ChainedOggRecording(name, path, links)
    return SoundFileRecording(name, path, is_cut=is_cut)


# Resampling of blocks at any rate and channel count to mono samples at one rate, with checks of the
# samples.

MIN_DURATION_S = 0.025
"""Length of an analysis window; shorter audio has no frame."""
MIN_RATE, MAX_RATE = 4000, 768_000

_FLAT = 1e-6
"""A signal that varies less than this, relative to its largest value, is silence with a DC
offset."""
_FLAT_FLOOR = 1e-9
_WINDOW_SAMPLES = 4096
_SILENT_ENERGY = 1e-8
_NOTHING_LEFT = 1e-6
"""60 dB below the channels' energy: if channels of opposite phase leave less than that, it is a
codec's noise."""
_HUGE = 1e10
"""The largest sample: of 32-bit integers that were stored as floats. Squares of 1e19 are infinite
in a network."""
_GROWTH = 2**16
MOST_IN_MEMORY = 2**25
"""The maximum number of samples that stay in memory: 35 minutes at 16 kHz, 128 MiB."""


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
    """A stream from blocks (n, channels) at one rate to mono samples at another.

    It checks the samples.

    With `on_disk` a temporary file holds more than `MOST_IN_MEMORY` samples (`RowsOnDisk`).

    Raises:
        AudioError: the rate, the samples or the length cannot be aligned.
    """

    def __init__(
        self, name: str, rate_in: int, rate_out: int, expected: int, *, on_disk: bool = False
    ) -> None:
        if not MIN_RATE <= rate_in <= MAX_RATE:
            raise AudioError(
                f"{name}: expected a sample rate from {MIN_RATE} to {MAX_RATE} Hz, got {rate_in} Hz"
            )
        self.name = name
        self.rate_in = rate_in
        self.rate_out = rate_out
        self.received = 0
        self._low = np.inf
        self._high = -np.inf
        self._channels_move = False
        self._loud_windows = self._cancelled_windows = 0
        self._energy_before = self._energy_after = 0.0
        self._first: np.ndarray | None = None
        self._stream: soxr.ResampleStream | None = None
        if rate_in != rate_out:
            import soxr

            self._stream = soxr.ResampleStream(rate_in, rate_out, 1, dtype="float32", quality="HQ")
        # a header may promise any length: start with at most 1 GiB (not touched until filled) and
        # grow
        most = MOST_IN_MEMORY if on_disk else 2**28
        self._output = np.empty(
            min(scaled(max(expected, 0), rate_in, rate_out) + _GROWTH, most), np.float32
        )
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
            if block.shape[1] > 1:
                where = f" in channel {channel + 1}"
            else:
                where = ""
            at_s = samples_to_seconds(self.received + int(row), self.rate_in)
            raise AudioError(
                f"{self.name}: sample is {block[row, channel]} at {at_s:.3f} s{where}: samples must"
                " be finite numbers"
            )
        if block.shape[1] == 1:
            mono = np.ascontiguousarray(block[:, 0])
        else:
            mono = block.mean(axis=1, dtype=np.float64).astype(np.float32)
        if self._first is None:
            self._first = block[0].copy()
        self._channels_move = self._channels_move or bool((block != self._first).any())
        if block.shape[1] > 1:
            self._compare_energy(block, mono)
        self._low, self._high = (
            min(self._low, float(mono.min())),
            max(self._high, float(mono.max())),
        )
        self.received += len(block)
        self._append(mono if self._stream is None else self._stream.resample_chunk(mono))

    @property
    def cancelled(self) -> float:
        """The share of the sound, in [0, 1], that cancels out when channels are averaged."""
        return self._cancelled_windows / max(1, self._loud_windows)

    def _compare_energy(self, block: np.ndarray, mono: np.ndarray) -> None:
        """Compare the energy of the mean with that of the loudest channel, window by window.

        A single channel among N silent ones keeps 1 / N² of its energy in the mean; one that keeps
        a tenth of that was cancelled by another.
        """
        for low in range(0, len(block), _WINDOW_SAMPLES):
            window = block[low : low + _WINDOW_SAMPLES].astype(np.float64)
            loudest = float(np.square(window).mean(axis=0).max())
            if loudest <= _SILENT_ENERGY or len(window) < _WINDOW_SAMPLES // 4:
                continue
            mixed = float(np.square(mono[low : low + _WINDOW_SAMPLES].astype(np.float64)).mean())
            self._loud_windows += 1
            self._cancelled_windows += mixed < 0.1 * loudest / block.shape[1] ** 2
            self._energy_before += loudest
            self._energy_after += mixed

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
        return SourceAudio(
            samples,
            self.rate_out,
            self.name,
            source_samples=self.received,
            source_rate=self.rate_in,
        )

    def _check(self) -> None:
        seconds = samples_to_seconds(self.received, self.rate_in)
        if not self.received:
            raise AudioError(f"{self.name}: the audio has no samples")
        if seconds < MIN_DURATION_S:
            raise AudioError(
                f"{self.name}: expected at least {MIN_DURATION_S * 1000:.0f} ms of audio, got"
                f" {seconds * 1000:.2f} ms"
            )
        if max(abs(self._low), abs(self._high)) > _HUGE:
            raise AudioError(
                f"{self.name}: expected samples in about [-1, 1], got {self._low:.3g} to"
                f" {self._high:.3g}"
            )
        if (
            self._energy_after < _NOTHING_LEFT * self._energy_before
            and self._cancelled_windows == self._loud_windows
        ):
            raise self._cancelling()
        if self._high - self._low > max(_FLAT_FLOOR, _FLAT * max(abs(self._low), abs(self._high))):
            return
        if self._channels_move:
            raise self._cancelling()
        if self._low == self._high == 0:
            value = "zero"
        else:
            value = f"{self._low:.4g}"
        raise AudioError(
            f"{self.name}: the audio is silence only (every sample is {value}): there is no speech"
            " to align"
        )

    def _cancelling(self) -> AudioError:
        return AudioError(
            f"{self.name}: the channels cancel each other when averaged, and nothing is left:"
            " choose one of them (--channel left)"
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
            self._output.resize(
                max(size, len(self._output) + len(self._output) // 4), refcheck=False
            )


def scaled(samples: int, rate_in: int, rate_out: int) -> int:
    """Return round(samples * rate_out / rate_in) in integers, halves up."""
    return (2 * samples * rate_out + rate_in) // (2 * rate_in)
