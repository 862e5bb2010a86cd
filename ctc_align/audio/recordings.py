"""`Recording`, the common interface of all readers of recordings, and the reader for libsndfile.

libsndfile reads WAV, FLAC, Ogg (including chained Ogg files), AIFF and similar formats.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager

import numpy as np
import soundfile

from ctc_align.audio.cut_files import wav_seconds
from ctc_align.audio.media_file import ByteRange, Conversion, DecodedPiece
from ctc_align.errors import AudioError
from ctc_align.units import samples_to_seconds

BLOCK_SAMPLES = 65536
MISSING_S = 0.1
"""Headers are often off by an encoder's delay; a file that lacks more than this was cut."""


class Recording(AbstractContextManager["Recording"]):
    """A recording that is open: blocks of samples at its rate and with its channels.

    `samples` is its length, None while that is not known.
    """

    name: str
    rate: int
    channels: int
    samples: int | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if one is open."""

    def mixed_channels(self) -> list[int]:
        """Return the channels, from 0, that are averaged if none is chosen."""
        return list(range(self.channels))

    @abstractmethod
    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield blocks (n, channels) float32 from sample `first` on, at most `most` samples in all."""

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        """Return what is wrong with the file as sentences, after `received` samples of a part were read."""
        return []

    def length_s(self) -> float:
        """Return the exact length in seconds; a recording whose header does not say is decoded to its end."""
        samples = sum(map(len, self.read(0, None))) if self.samples is None else self.samples
        return samples_to_seconds(samples, self.rate)

    def estimated_s(self) -> float:
        """Return the length in seconds, right to a few hundredths."""
        return self.length_s()


def no_such_channel(channel: int, channels: int) -> str:
    """Return what to say of a channel, from 1, that a recording does not have."""
    there = "1 channel" if channels == 1 else f"{channels} channels (1 is the left one, 2 the right one)"
    return f"expected channel {channel}, got a recording of {there}; --channel mix averages all channels"


def lies_behind(unread_s: float) -> str:
    """Return a sentence on a WAV file that has audio after its end."""
    return (
        f"{unread_s:.2f} s of audio after the end given in the header are ignored: the header is wrong, or another "
        "file was appended; repair or join it with an audio editor"
    )


def ends_early(missing_s: float, used_s: float) -> list[str]:
    """Return a sentence on a file that lacks `missing_s` of what its header says, [] if that is a delay."""
    if missing_s <= MISSING_S:
        return []
    used = f"the first {used_s:.2f} s are used"
    return [f"the file ends {missing_s:.2f} s before its header says: it is cut or damaged; {used}"]


def within(blocks: Iterator[np.ndarray], first: int, most: int | None) -> Iterator[np.ndarray]:
    """Yield what blocks that begin at sample 0 hold from sample `first` on, at most `most` samples."""
    at, end = 0, None if most is None else first + most
    for block in blocks:
        low = max(0, first - at)
        high = len(block) if end is None else min(len(block), end - at)
        if low < high:
            yield block[low:high]
        at += len(block)
        if end is not None and at >= end:
            return


# Recordings that libsndfile reads

_STREAMED_BYTES = 0x7FFF_0000
"""Least size in a header that means an unknown length: programs write such sizes when they stream."""
_MOST_SAMPLES = 2**48
_WAV = ("WAV", "WAVEX")


class NotSoundFileError(Exception):
    """libsndfile does not know the format of a file; the message is its reason."""


class SoundFileRecording(Recording):
    """A recording that libsndfile has open.

    `samples` is the length by the header, None if it says none.

    Raises:
        NotSoundFileError: libsndfile cannot read it, or would by its MP3 decoder, which ends early on some files.
    """

    def __init__(self, name: str, path: str | None = None, *, is_cut: bool = False) -> None:
        self.name, path = name, path or name
        self._is_cut = is_cut
        # by descriptor, libsndfile goes by content; by name it takes .raw, .vox or .gsm for headerless audio
        self._handle: int | str = os.open(path, os.O_RDONLY) if os.name == "posix" else path
        try:
            try:
                self._sound = soundfile.SoundFile(self._handle, closefd=False)
            except (soundfile.SoundFileError, TypeError, ValueError) as error:
                reason = str(getattr(error, "error_string", error)).rstrip(". ")
                raise NotSoundFileError(reason) from error
            if "MPEG" in self._sound.subtype:
                self._sound.close()
                raise NotSoundFileError("MPEG audio")
        except BaseException:
            self._close_handle()
            raise
        self.rate: int = self._sound.samplerate
        self.channels: int = self._sound.channels
        self._unread_s = wav_seconds(path)[1] if self._sound.format in _WAV else 0.0
        if not self._sound.frames and self._unread_s:
            self.close()
            raise NotSoundFileError("the header of the file says that it has no sound")
        self.samples = self._sound.frames if 0 < self._sound.frames < _MOST_SAMPLES else None

    def close(self) -> None:
        self._sound.close()
        self._close_handle()

    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        if first and not self._seek(first):
            for _ in self._blocks(first):
                pass
        yield from self._blocks(most)

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        if self._is_cut and not first and most is None:
            used = f"the first {received / self.rate:.2f} s are used"
            return [f"the file ends in the middle of a page: it is cut or damaged; {used}"]
        if self._unread_s > MISSING_S and not first and most is None:
            return [lies_behind(self._unread_s)]
        if self.samples is None:
            return []
        promised = self.samples - first
        missing_s = samples_to_seconds((promised if most is None else min(most, promised)) - received, self.rate)
        is_whole = not first and most is None
        # libsndfile's remark on a header that it has corrected
        sizes = re.search(r"^data *: (\d+) \(should be (\d+)\)", self._sound.extra_info, re.MULTILINE)
        if is_whole and sizes and int(sizes[1]) < _STREAMED_BYTES:
            missing_s = max(missing_s, (int(sizes[1]) / max(int(sizes[2]), 1) - 1) * received / self.rate)
        if self._sound.format == "OGG" and is_whole and missing_s > MISSING_S:
            return [f"{missing_s:.2f} s of audio are damaged and skipped, so later times are too early by that"]
        return ends_early(missing_s, received / self.rate) if is_whole or received else []

    def _seek(self, first: int) -> bool:
        try:
            if self._sound.seekable() and self._sound.seek(first) == first:
                return True
            self._sound.seek(0)
        except soundfile.SoundFileError:
            pass
        return False

    def _blocks(self, most: int | None) -> Iterator[np.ndarray]:
        read = 0
        while True:
            wanted = BLOCK_SAMPLES if most is None else min(BLOCK_SAMPLES, most - read)
            if not wanted:
                return
            try:
                block = self._sound.read(wanted, dtype="float32", always_2d=True)
            except soundfile.SoundFileError as error:
                if not read:
                    raise AudioError(f"{self.name}: the audio cannot be decoded: the file is cut or damaged") from error
                return
            if not len(block):
                return
            read += len(block)
            yield block

    def _close_handle(self) -> None:
        if isinstance(self._handle, int):
            os.close(self._handle)


class ChainedOggRecording(Recording):
    """An Ogg file of several streams one after the other, each read by libsndfile.

    libsndfile itself ends at the first seam. Rate and channels are those of the first stream. No header says how long
    all of it is, and damage is an error.
    """

    def __init__(self, name: str, path: str, links: list[tuple[int, int | None]]) -> None:
        self.name, self._path, self._links = name, path, links
        with ByteRange(path, *links[0]) as first:
            try:
                with soundfile.SoundFile(first) as sound:
                    self.rate, self.channels = sound.samplerate, sound.channels
            except soundfile.SoundFileError as error:
                raise NotSoundFileError(str(error)) from error

    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        return within(self._blocks(), first, most)

    def _blocks(self) -> Iterator[np.ndarray]:
        conversion = Conversion(self.rate, self.channels)
        for link in self._links:
            try:
                with ByteRange(self._path, *link) as part, soundfile.SoundFile(part) as sound:
                    while len(block := sound.read(BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                        yield from conversion.blocks(DecodedPiece(block, sound.samplerate))
            except soundfile.SoundFileError as error:
                raise AudioError(
                    f"{self.name}: the part of the file from byte {link[0]} on cannot be decoded: it is cut or damaged"
                ) from error
        yield from conversion.rest()


def ogg_pages(path: str) -> tuple[list[tuple[int, int | None]], bool, bool]:
    """Read the headers of an Ogg file's pages: a file of several streams (not side by side) is chained.

    Return the streams by their bytes (first, end; the last end is None), and whether the file is cut, and damaged.
    """
    starts, at, in_headers, is_damaged = [0], 0, True, False
    numbers: dict[bytes, int] = {}
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        while at < size:
            file.seek(at)
            header = file.read(27)
            if len(header) < 27 or header[:4] != b"OggS":
                is_damaged = is_damaged or len(header) == 27
                break
            is_first, number = bool(header[5] & 2), int.from_bytes(header[18:22], "little")
            if is_first and not in_headers:
                starts.append(at)
            elif not is_first and numbers.get(header[14:18], -1) + 1 != number:
                is_damaged = True
            in_headers, numbers[header[14:18]] = is_first, number
            at += 27 + header[26] + sum(file.read(header[26]))
    return list(zip(starts, [*starts[1:], None])), at > size or (0 < size - at < 27), is_damaged
