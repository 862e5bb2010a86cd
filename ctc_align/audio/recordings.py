"""Opening of recordings: by libsndfile what it knows, by FFmpeg everything else, and names for what neither reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np

from ctc_align.audio.audio_kinds import file_head, is_sound_file, kind_of_content
from ctc_align.audio.cut_files import lacks_index
from ctc_align.audio.media_file import NotMediaError
from ctc_align.audio.media_reader import MediaRecording
from ctc_align.audio.soundfile_reader import ChainedOggRecording, NotSoundFileError, SoundFileRecording, ogg_pages
from ctc_align.errors import AudioError


class Recording(AbstractContextManager["Recording"], Protocol):
    """A recording that is open. `samples` is its length, None while that is not known."""

    name: str
    rate: int
    channels: int
    samples: int | None

    def mixed_channels(self) -> list[int]:
        """Return the channels, from 0, that are averaged where none is chosen."""
        ...

    def read(self, first: int, most: int | None) -> Iterator[np.ndarray]:
        """Yield blocks (n, channels) float32 from sample `first` on, at most `most` samples in all."""
        ...

    def faults(self, first: int, most: int | None, received: int) -> list[str]:
        """Return what is wrong with the file as sentences, after `received` samples were read."""
        ...


def open_recording(name: str, path: str | None = None) -> Recording:
    """Return the recording of a file; the content decides what it is, never the name.

    `path` is the file where messages call it by another `name`.

    Raises:
        MissingAudioError, AudioError: no such file, none that can be opened, or no recording; the message says what it
            is.
    """
    path = path or name
    head = file_head(path)
    by_libsndfile = is_sound_file(head)
    try:
        if by_libsndfile:
            return _sound_file(name, path, head)
    except NotSoundFileError:
        pass
    try:
        return MediaRecording(name, path)
    except NotMediaError as error:
        reason = str(error)
        if (
            "nvalid" in reason or "End of file" in reason
        ):  # FFmpeg's word for formats that it does not know, or that are not on the list
            reason = "no kind of sound that is known, or a file that is damaged or cut near its start"
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
            f"{name}: the file is cut: its index (moov), which recorders write at the end, is missing, and without it "
            "nothing can be found in it: copy or record it again, or repair it with the program that made it"
        )
    raise AudioError(f"{name}: expected audio or a video (WAV, FLAC, MP3, M4A, MP4 …), got {kind or reason}")


def no_such_channel(channel: int, channels: int) -> str:
    """Return what to say of a channel, from 1, that a recording does not have."""
    there = "1 channel" if channels == 1 else f"{channels} channels (1 is the left one, 2 the right one)"
    return f"expected channel {channel}, got a recording of {there}; --channel mix takes all there is"


def _sound_file(name: str, path: str, head: bytes) -> Recording:
    """Return libsndfile's reader; of Ogg files with lost pages FFmpeg's, which knows by the times how much is lost."""
    if head[:4] != b"OggS":
        return SoundFileRecording(name, path)
    pages = ogg_pages(path)
    if pages.is_damaged:
        raise NotSoundFileError("Ogg pages are missing")
    if len(pages.links) > 1:
        return ChainedOggRecording(name, path, pages.links)
    return SoundFileRecording(name, path, is_cut=pages.is_cut)
