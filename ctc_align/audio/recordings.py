"""`Recording`, the common interface of all readers of recordings.

Also the readers for libsndfile and for FFmpeg.

libsndfile reads WAV, FLAC, Ogg (including chained Ogg files), AIFF and similar formats; FFmpeg
reads the others, and the sound of videos.
"""

from __future__ import annotations

import os
import re
import threading
from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain

import numpy as np
import soundfile

from ctc_align.audio.cut_files import (
    cut_reason,
    is_cut_frame,
    missing_share,
    mp3_promise,
    wav_seconds,
)
from ctc_align.audio.media_file import (
    ByteRange,
    Conversion,
    DecodedPiece,
    MediaFile,
    place_pieces,
    with_channels,
)
from ctc_align.errors import AudioError
from ctc_align.types import DEFAULT_SOUND, SoundChoice
from ctc_align.units import samples_to_seconds

BLOCK_SAMPLES = 65536
MISSING_S = 0.1
"""Headers are often off by an encoder's delay; a file that lacks more than this was cut."""


class Recording(AbstractContextManager["Recording"]):
    """An open recording: blocks of samples at its rate and with its channels.

    `samples` is its length, None while that is not known. `tracks` has the languages and titles of
    its audio tracks if it has several, and `track` the number of the one that is read, from 1; 0 if
    it has only one. `watch` is called with the seconds read so far before more is read, and may
    raise.
    """

    name: str
    rate: int
    channels: int
    samples: int | None = None
    tracks: Sequence[str] = ()
    track: int = 0
    watch: Callable[[float], None] | None = None

    def header_s(self) -> float | None:
        """Return the length in seconds that the header gives, without reading on.

        Return None if it gives none.
        """
        if self.samples is None:
            return None
        return samples_to_seconds(self.samples, self.rate)

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if one is open."""

    def mixed_channels(self) -> list[int]:
        """Return the channels, from 0, that are averaged if none is chosen."""
        return list(range(self.channels))

    @abstractmethod
    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield blocks (n, channels) float32 from sample `first` on.

        They have at most `most` samples in all.
        """

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        """Return sentences on what is wrong with the file.

        They are known after `received` samples of a part were read.
        """
        return []

    def find_cut(self, length_s: float) -> list[str]:
        """Return sentences on a file that ends early, as `faults`, decoding as little as needed.

        `length_s` is what `estimated_s` returned.
        """
        return []

    def length_s(self) -> float:
        """Return the exact length in seconds.

        A recording whose header does not say is decoded to its end.
        """
        if self.samples is None:
            samples = sum(map(len, self.read(0, None)))
        else:
            samples = self.samples
        return samples_to_seconds(samples, self.rate)

    def estimated_s(self) -> float:
        """Return the length in seconds, right to a few hundredths."""
        return self.length_s()


def no_such_channel(channel: int, channels: int) -> str:
    """Return the message for a channel, from 1, that a recording does not have."""
    if channels == 1:
        there = "1 channel"
    else:
        there = f"{channels} channels (1 is the left one, 2 the right one)"
    return (
        f"expected channel {channel}, got a recording of {there}; --channel mix averages all"
        " channels"
    )


def lies_behind(unread_s: float) -> str:
    """Return a sentence on a WAV file that has audio after its end."""
    return (
        f"{unread_s:.2f} s of audio after the end given in the header is ignored: the header is"
        " wrong, or another file was appended; repair or join it with an audio editor"
    )


def ends_early(missing_s: float, used_s: float) -> list[str]:
    """Return a sentence on a file that is `missing_s` shorter than its header says.

    It is [] if no more is missing than the delay of an encoder.
    """
    if missing_s <= MISSING_S:
        return []
    used = f"the first {used_s:.2f} s are used"
    return [
        f"the file ends {missing_s:.2f} s before its header says: it is truncated or damaged; {used}"
    ]


def within(blocks: Iterator[np.ndarray], first: int, most: int | None) -> Iterator[np.ndarray]:
    """Yield the samples from `first` on, at most `most`, out of blocks that begin at sample 0."""
    at = 0
    if most is None:
        end = None
    else:
        end = first + most
    for block in blocks:
        low = max(0, first - at)
        if end is None:
            high = len(block)
        else:
            high = min(len(block), end - at)
        if low < high:
            yield block[low:high]
        at += len(block)
        if end is not None and at >= end:
            return


# Recordings that libsndfile reads

_STREAMED_BYTES = 0x7FFF_0000
"""Least size in a header that means an unknown length: programs write such sizes when they
stream."""
_MOST_SAMPLES = 2**48
_WAV = ("WAV", "WAVEX")


class NotSoundFileError(Exception):
    """libsndfile does not know the format of a file; the message is libsndfile's reason."""


class SoundFileRecording(Recording):
    """A recording that libsndfile has open.

    `samples` is the length in the header, None if the header has none.

    Raises:
        NotSoundFileError: libsndfile cannot read it, or would by its MP3 decoder, which ends early
            on some files.
    """

    def __init__(self, name: str, path: str | None = None, *, is_cut: bool = False) -> None:
        self.name = name
        path = path or name
        self._path = path
        self._is_cut = is_cut
        # by descriptor, libsndfile goes by content; by name it takes .raw, .vox or .gsm for
        # headerless audio
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
        if self._sound.format in _WAV:
            self._unread_s = wav_seconds(path)[1]
        else:
            self._unread_s = 0.0
        if not self._sound.frames and self._unread_s:
            self.close()
            raise NotSoundFileError("the header of the file says that it has no sound")
        if 0 < self._sound.frames < _MOST_SAMPLES:
            self.samples = self._sound.frames
        else:
            self.samples = None

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
            return [f"the file ends in the middle of a page: it is truncated or damaged; {used}"]
        if self._unread_s > MISSING_S and not first and most is None:
            return [lies_behind(self._unread_s)]
        if self.samples is None:
            return []
        promised = self.samples - first
        missing_s = samples_to_seconds(
            (promised if most is None else min(most, promised)) - received, self.rate
        )
        is_whole = not first and most is None
        # libsndfile's remark on a header that it has corrected
        sizes = re.search(
            r"^data *: (\d+) \(should be (\d+)\)", self._sound.extra_info, re.MULTILINE
        )
        if is_whole and sizes and int(sizes[1]) < _STREAMED_BYTES:
            missing_s = max(
                missing_s, (int(sizes[1]) / max(int(sizes[2]), 1) - 1) * received / self.rate
            )
        if self._sound.format == "OGG" and is_whole and missing_s > MISSING_S:
            return [
                f"{missing_s:.2f} s of audio is damaged and skipped, so later times are too early by"
                " that"
            ]
        if is_whole and self._sound.format not in _WAV:
            missing_s = max(missing_s, missing_share(self._path) * received / self.rate)
        if is_whole or received:
            return ends_early(missing_s, received / self.rate)
        return []

    def find_cut(self, length_s: float) -> list[str]:
        if self.samples is None or (
            self._seek(self.samples - 1) and any(map(len, self._blocks(1)))
        ):
            return self.faults(0, None, self.samples or round(length_s * self.rate))
        # libsndfile took the length of a FLAC from its header, and cannot go on after it failed
        with SoundFileRecording(self.name, self._path) as again:
            return again.faults(0, None, sum(map(len, again.read(0, None))))

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
        start = self._sound.tell()
        while True:
            if most is None:
                wanted = BLOCK_SAMPLES
            else:
                wanted = min(BLOCK_SAMPLES, most - read)
            if not wanted:
                return
            room = np.zeros((wanted, self.channels), np.float32)
            try:
                block = self._sound.read(out=room)
                is_damaged = False
            except soundfile.SoundFileError as error:
                block = room[: self._samples_before_damage(read_before=start + read)]
                is_damaged = True
                if not read and not len(block):
                    raise AudioError(
                        f"{self.name}: the audio cannot be decoded: the file is truncated or damaged"
                    ) from error
            if len(block):
                read += len(block)
                yield block
            if is_damaged or not len(block):
                return

    def _samples_before_damage(self, *, read_before: int) -> int:
        """Return how many samples the decoder gave before a read failed."""
        try:
            return max(self._sound.tell() - read_before, 0)
        except soundfile.SoundFileError:
            return 0

    def _close_handle(self) -> None:
        if isinstance(self._handle, int):
            os.close(self._handle)


class ChainedOggRecording(Recording):
    """An Ogg file of several streams one after the other, each read by libsndfile.

    libsndfile itself stops at the end of the first stream. Rate and channels are those of the first
    stream. No header has the total length, and damage is an error.
    """

    def __init__(self, name: str, path: str, links: list[tuple[int, int | None]]) -> None:
        self.name = name
        self._path = path
        self._links = links
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
                    f"{self.name}: the part of the file from byte {link[0]} on cannot be decoded:"
                    " it is truncated or damaged"
                ) from error
        yield from conversion.rest()


def ogg_pages(path: str) -> tuple[list[tuple[int, int | None]], bool, bool]:
    """Read the headers of an Ogg file's pages.

    A file of several streams, one after the other, is chained.

    Return the byte range of each stream (first, end; the last end is None), whether the file is
    truncated, and whether it is damaged.
    """
    starts = [0]
    at = 0
    in_headers = True
    is_damaged = False
    numbers: dict[bytes, int] = {}
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        while at < size:
            file.seek(at)
            header = file.read(27)
            if len(header) < 27 or header[:4] != b"OggS":
                is_damaged = is_damaged or len(header) == 27
                break
            is_first = bool(header[5] & 2)
            number = int.from_bytes(header[18:22], "little")
            if is_first and not in_headers:
                starts.append(at)
            elif not is_first and numbers.get(header[14:18], -1) + 1 != number:
                is_damaged = True
            in_headers = is_first
            numbers[header[14:18]] = number
            at += 27 + header[26] + sum(file.read(header[26]))
    return list(zip(starts, [*starts[1:], None])), at > size or (0 < size - at < 27), is_damaged


# Recordings and videos that FFmpeg reads through PyAV: the whole file in one pass, and parts of it
# by seeking.
#
# A part has exactly the same samples as this part of the whole. While a file is read from its
# start, the position of every decoded frame is stored. If a part lies before the furthest sample
# read so far, decoding starts a second before the part, and the frames are recognised by their
# numbers; if that fails, the file is read from its start again.

_BEFORE_S = 1.0
"""Decoders that begin in the middle are exact only after a moment."""
_END_S = 0.25
"""Damage this close to the truncated end of a file counts as the truncation."""
_GAP_S = 1.0
"""Shorter stretches without sound are pauses that a recorder left out, or are reported as
damage."""
_OPEN_FILES = 64
_OPEN_S = 12 * 3600.0
"""The maximum number of files that stay open for further parts, and of seconds of sound whose
pieces are remembered."""
_UNKNOWN_PIECES = 64
"""The maximum number of unknown pieces after a seek before the first known one."""


class MediaRecording(Recording):
    """A recording that FFmpeg reads.

    `samples` is None until the end has been reached, then the true length: headers are not trusted.

    Raises:
        NotMediaError: FFmpeg cannot read it.
        AudioError: no part of it can be decoded, or it has no such track as `choice` says.
    """

    def __init__(
        self, name: str, path: str | None = None, choice: SoundChoice = DEFAULT_SOUND
    ) -> None:
        self.name = name
        self._path = path or name
        self.samples: int | None = None
        self._is_read = False
        self._gaps: list[tuple[float, float]] = []
        """Starts and lengths in seconds of stretches without sound."""
        self._media = MediaFile(name, self._path, choice=choice)
        if len(self._media.tracks) > 1:
            self.tracks, self.track = self._media.tracks, self._media.track
        try:
            self._pieces = self._media.pieces()
            first = next((piece for piece in self._pieces if len(piece.samples)), None)
            if first is None:
                raise AudioError(
                    f"{name}: the audio cannot be decoded: the file is truncated, damaged or locked (DRM)"
                )
        except BaseException:
            self._media.close()
            raise
        self._first = first
        self.rate = first.rate
        self.channels = first.samples.shape[1]

    def close(self) -> None:
        self._media.close()

    def length_s(self) -> float:
        """Return the exact length in seconds, by decoding it.

        It is remembered while the file is unchanged.
        """
        key = _key(self._path, self._media.track)
        with _lengths_lock:
            found = _lengths.get(key)
        if found is None:
            found = samples_to_seconds(sum(map(len, self.read(0, None))), self.rate)
        with _lengths_lock:
            _lengths[key] = found
            while len(_lengths) > _KNOWN_LENGTHS:
                _lengths.popitem(last=False)
        return found

    def estimated_s(self) -> float:
        """Return the length in seconds from the remaining packets, without decoding them.

        It is right to about a packet.
        """
        return max(self._media.demuxed_s(), len(self._first.samples) / self.rate)

    def header_s(self) -> float | None:
        return self._media.header_s()

    def mixed_channels(self) -> list[int]:
        """Return the channels, from 0, that are averaged.

        They are all but those for low-frequency effects.
        """
        return self._media.mixed_channels(self.channels)

    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        if not first and most is None and not self._is_read:
            self._is_read = True
            yield from gathered(self._whole())
            return
        with _parts_of(self._path, self._media.track) as parts:
            yield from gathered(parts.read(first, most))
            self.samples = parts.samples

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        if first or most is not None:
            return []
        damage = self._media.damage
        found = []
        used_s = received / self.rate
        reason = self._cut_reason()
        sound_s, unread_s = wav_seconds(self._path)
        # Where the header says that there is no sound FFmpeg reads on to the file's end.
        if sound_s and unread_s > MISSING_S:
            found.append(lies_behind(unread_s))
        if damage.count and (reason is None or damage.first_s < used_s - _END_S):
            found.append(
                f"the sound is damaged, first at {damage.first_s:.2f} s; what cannot be decoded is"
                f" replaced by silence ({damage.total_s:.2f} s in all)"
            )
        if self._gaps:
            start_s, length_s = self._gaps[0]
            gaps_s = sum(length for _, length in self._gaps)
            others = len(self._gaps) - 1
            if others:
                more = f", and at {others} more places ({gaps_s:.2f} s in all)"
            else:
                more = ""
            found.append(
                f"the file has no sound from {start_s:.2f} s to {start_s + length_s:.2f} s{more}:"
                " it is damaged, or nothing was recorded; silence is used there"
            )
        if self._media.format == "mp3":
            promised_s = mp3_promise(self._path)
        else:
            promised_s = self._media.promised_s()
        if promised_s is not None and (reason is not None or self._media.format == "mp3"):
            early = ends_early(promised_s - used_s, used_s)
            if early:
                return found + early
        if reason is not None:
            found.append(
                f"the file {reason}: it is truncated or damaged; the first {used_s:.2f} s are used"
            )
        return found

    def find_cut(self, length_s: float) -> list[str]:
        return self.faults(0, None, round(length_s * self.rate))

    def _cut_reason(self) -> str | None:
        damage = self._media.damage
        if damage.read_failed:
            return "cannot be read to its end"
        if damage.last_is_cut or is_cut_frame(damage.last_packet, self._media.format):
            return "ends in the middle of a frame"
        return cut_reason(self._path)

    def _whole(self) -> Iterator[np.ndarray]:
        conversion = Conversion(self.rate, self.channels)
        received = 0
        pieces = chain((self._first,), self._pieces)
        for placed in place_pieces(pieces, self.name, is_broadcast=self._media.is_broadcast):
            if received and placed.silence >= _GAP_S * placed.rate:
                self._gaps.append((received / self.rate, placed.silence / placed.rate))
            for block in conversion.blocks(placed):
                received += len(block)
                yield block
        for block in conversion.rest():
            received += len(block)
            yield block
        self.samples = received


_KNOWN_LENGTHS = 4096
_lengths: OrderedDict[tuple[object, ...], float] = OrderedDict()
_lengths_lock = threading.Lock()


def gathered(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the blocks, joined so that each has at least BLOCK_SAMPLES."""
    waiting: list[np.ndarray] = []
    samples = 0
    for block in blocks:
        waiting.append(block)
        samples += len(block)
        if samples >= BLOCK_SAMPLES:
            yield np.concatenate(waiting)
            waiting = []
            samples = 0
    if waiting:
        yield np.concatenate(waiting)


class _Parts:
    """A reader of parts of one file, for one thread at a time (`lock`).

    `_walk` reads on from the end of the furthest part. `_starts[i]`, `_counts[i]` and `_trims[i]`
    are the first sample of the recording that piece i made, the number of its samples, and the
    number that was left out before them. `_numbers[i]` is the number by which piece i is found
    after a seek: FFmpeg's, or its packet's byte in a format without a clock; that of the piece
    before where it has none. The numbers ascend, or the file cannot be sought in.
    """

    def __init__(self, name: str, track: int) -> None:
        self.name = name
        self._open = partial(MediaFile, name, name, choice=SoundChoice(track=str(track)))
        self.lock = threading.RLock()
        self.samples: int | None = None
        self._can_seek = True
        self._seeker: MediaFile | None = None
        self._starts, self._numbers = array("q"), array("q")
        self._counts, self._trims = array("i"), array("i")
        self._walked = 0
        self._conversion: Conversion | None = None
        self._media = self._open()
        self._walk = place_pieces(self._media.pieces(), name, is_broadcast=self._media.is_broadcast)

    def __enter__(self) -> _Parts:
        self.lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    @property
    def known_s(self) -> float:
        """Seconds of the file that were read and whose pieces are known."""
        if self._conversion is None:
            return 0.0
        return self._walked / self._conversion.rate

    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield the blocks of a part."""
        if first < self._walked:
            if most is None:
                end = self._walked
            else:
                end = min(first + most, self._walked)
            for block in self._sought(first, end):
                yield block
                first += len(block)
                if most is not None:
                    most -= len(block)
            if most == 0 or first < self._walked:
                return
        yield from within(self._walked_on(most, first), first - self._walked, most)

    def _walked_on(self, most: int | None, first: int) -> Iterator[np.ndarray]:
        """Yield all blocks from the furthest sample read, at least to the end of the part."""
        end = None if most is None else first + most
        for placed in self._walk:
            blocks = list(self._remembered(placed))
            self._walked += sum(map(len, blocks))
            yield from blocks
            if end is not None and self._walked >= end:
                return
        if self._conversion is not None:
            rest = list(self._conversion.rest())
        else:
            rest = []
        self._walked += sum(map(len, rest))
        self.samples = self._walked
        yield from rest

    def _remembered(self, piece: DecodedPiece) -> Iterator[np.ndarray]:
        if self._conversion is None:
            self._conversion = Conversion(piece.rate, piece.samples.shape[1])
        if self._media.has_clock:
            number = piece.pts
        else:
            number = piece.position
        last = self._numbers[-1] if self._numbers else -1
        if piece.rate != self._conversion.rate or (
            number is not None and number <= last and self._numbers
        ):
            self._can_seek = False
        self._numbers.append(last if number is None else number)
        self._starts.append(self._walked + piece.silence)
        self._counts.append(len(piece.samples))
        self._trims.append(piece.trimmed)
        yield from self._conversion.blocks(piece)

    def _sought(self, first: int, end: int) -> Iterator[np.ndarray]:
        """Yield samples `first` to `end`, which were read before, by seeking.

        If that fails, yield them from the start.
        """
        for block in self._from_seek(first, end):
            yield block
            first += len(block)
        if first < end:
            yield from within(self._from_start(), first, end - first)

    def _from_start(self) -> Iterator[np.ndarray]:
        assert self._conversion is not None, "something was read before"
        conversion = Conversion(self._conversion.rate, self._conversion.channels)
        with self._open() as media:
            for placed in place_pieces(media.pieces(), self.name, is_broadcast=media.is_broadcast):
                yield from conversion.blocks(placed)
        yield from conversion.rest()

    def _from_seek(self, first: int, end: int) -> Iterator[np.ndarray]:
        """Yield samples `first` to `end`, as long as the pieces are the same as before.

        The pieces are those after the seek.
        """
        assert self._conversion is not None, "something was read before"
        wanted = max(0, bisect_right(self._starts, first) - 1)
        target = bisect_right(self._starts, first - round(_BEFORE_S * self._conversion.rate)) - 1
        while target > 0 and self._numbers[target] == self._numbers[target - 1]:
            target -= 1
        if not self._can_seek or target <= 0:
            return
        index = -1
        emitted = False
        unknown = 0
        at = first
        for piece, number in self._pieces_from(self._numbers[target]):
            known = self._index_of(number, index)
            if known < 0 or (emitted and known != index + 1):
                unknown += 1
                if emitted or unknown > _UNKNOWN_PIECES:
                    return
                continue
            if index < 0 and known > max(target, wanted - 1):  # the seek went too far
                return
            index = known
            if index < wanted:
                continue
            samples = piece.samples[self._trims[index] :]
            if len(samples) != self._counts[index] or (not emitted and index != wanted):
                return
            emitted = True
            start = self._starts[index]
            if start > at:
                yield np.zeros((min(start, end) - at, self._conversion.channels), np.float32)
                at = min(start, end)
            block = with_channels(samples[at - start : end - start], self._conversion.channels)
            if at < end and len(block):
                yield block
                at += len(block)
            if at >= end:
                return

    def _index_of(self, number: int | None, last: int) -> int:
        """Return the index of the piece with this number.

        It may be one without a number after `last`. Return -1 if there is none.
        """
        if number is None:
            if 0 <= last < len(self._numbers) - 1:
                return last + 1
            return -1
        index = bisect_left(self._numbers, number)
        if index < len(self._numbers) and self._numbers[index] == number:
            return index
        return -1

    def _pieces_from(self, number: int) -> Iterator[tuple[DecodedPiece, int | None]]:
        """Yield the pieces, with their numbers, from the one with this number or one before it."""
        if self._media.has_clock:
            self._seeker = self._seeker or self._open()
            if self._seeker.seek(number):
                for piece in self._seeker.pieces():
                    yield piece, piece.pts
            return
        with self._open(first_byte=number) as media:
            for piece in media.pieces():
                yield piece, piece.position


_open_parts: OrderedDict[tuple[object, ...], _Parts] = OrderedDict()
_open_lock = threading.Lock()


def _parts_of(name: str, track: int) -> _Parts:
    """Return the reader of the parts of a track, from 1, of a file: an open one if there is one."""
    key = _key(name, track)
    with _open_lock:
        parts = _open_parts.pop(key, None) or _Parts(name, track)
        _open_parts[key] = parts
        known_s = sum(one.known_s for one in _open_parts.values())
        while len(_open_parts) > 1 and (len(_open_parts) > _OPEN_FILES or known_s > _OPEN_S):
            _, oldest = _open_parts.popitem(last=False)  # closed when its last part has been read
            known_s -= oldest.known_s
        return parts


def _key(name: str, track: int) -> tuple[object, ...]:
    """Return a key for a track of a file and its state in this process.

    Processes do not share open files.
    """
    status = os.stat(name)
    return (
        os.getpid(),
        os.path.abspath(name),
        track,
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )
