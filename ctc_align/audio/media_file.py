"""Media files through PyAV (FFmpeg).

They are opened with an allow-list of formats, and decoded packet by packet to the real end.

FFmpeg gets an open file and never a name, so no name can reach a network, another file or a device.
Formats that list other files (HLS, concat, DASH, SDP, image sequences) are not allowed, and a file
cannot open other files.
"""

from __future__ import annotations

import io
import logging
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ctc_align.errors import AudioError
from ctc_align.text.languages import base_code, name_of_language
from ctc_align.types import DEFAULT_SOUND, SoundChoice

if TYPE_CHECKING:
    import soxr
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer
    from av.packet import Packet

FORMATS = (
    *(
        "aac",
        "ac3",
        "aiff",
        "amr",
        "amrnb",
        "amrwb",
        "ape",
        "asf",
        "au",
        "avi",
        "caf",
        "dsf",
        "dts",
        "dtshd",
        "dv",
    ),
    *(
        "eac3",
        "flac",
        "flv",
        "gxf",
        "iff",
        "ilbc",
        "loas",
        "matroska",
        "mlp",
        "mov",
        "mp3",
        "mpc",
        "mpc8",
        "mpeg",
    ),
    *(
        "mpegts",
        "mxf",
        "nut",
        "ogg",
        "oma",
        "qcp",
        "rm",
        "shn",
        "sox",
        "tak",
        "truehd",
        "tta",
        "voc",
        "w64",
        "wav",
    ),
    *("wtv", "wv", "xwma"),
)
"""FFmpeg's names of the formats that are read: each is one file with its sound inside."""
_WITHOUT_CLOCK = frozenset(
    [
        "aac",
        "ac3",
        "amr",
        "amrnb",
        "amrwb",
        "dts",
        "dtshd",
        "eac3",
        "ilbc",
        "loas",
        "mlp",
        "mp3",
        "truehd",
    ]
)
"""Bare streams: FFmpeg counts their times from the lengths of their packets."""
_OPTIONS = {
    "format_whitelist": ",".join(FORMATS),
    "protocol_whitelist": "none",
}
_LONG_SEARCH = {"analyzeduration": "60000000", "probesize": "64000000"}
"""Microseconds and bytes searched for sound where FFmpeg's default of 5 s and 5 MB has none."""
_TAGS = (b"ID3", b"TAG", b"APETAGEX", b"LYRICS", b"3DI", b"\0\0\0")
_READ_BYTES = 1 << 16
_READ_FAILURES = 8
"""The number of consecutive errors after which reading ends."""
_LONGEST_TITLE = 40
_SHORTEST_NAME = 4
"""Codes of languages are shorter."""
_FULL_SCALE = {"u1": 128.0, "i2": 2.0**15, "i4": 2.0**31}

logger = logging.getLogger(__name__)


class NotMediaError(Exception):
    """FFmpeg does not recognise a file as one of `FORMATS`, or finds no sound in it.

    The message is the reason.
    """


class ByteRange(io.RawIOBase):
    """The bytes of a file from `first` to `end`, as a file without a name.

    `end` is exclusive, None for the end of the file.
    """

    def __init__(self, path: str, first: int = 0, end: int | None = None) -> None:
        super().__init__()
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115
        self._first = first
        self._end = end
        self._file.seek(first)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._end is None:
            return self._file.readinto(buffer) or 0
        left = max(0, self._end - self._file.tell())
        return self._file.readinto(memoryview(buffer)[:left]) or 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            if whence == io.SEEK_SET:
                return self._file.seek(self._first + offset) - self._first
            if whence == io.SEEK_END and self._end is not None:
                return self._file.seek(self._end + offset) - self._first
            return self._file.seek(offset, whence) - self._first
        except (OSError, ValueError, OverflowError):
            return -1  # a position that no file has, as damaged ones name: FFmpeg reports it; PyAV prints exceptions

    def tell(self) -> int:
        return self._file.tell() - self._first

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@dataclass(frozen=True, eq=False)
class DecodedPiece:
    """Decoded samples (n, channels) float32 at `rate` Hz.

    `start_s` is their beginning on the player's clock, None if the file does not say; `pts`
    FFmpeg's number of that; `position` the byte of the file where their packet lies, None if it is
    unknown. Once it is placed on the clock (`place_pieces`) it comes after `silence` samples of
    silence, and without its first `trimmed` samples.
    """

    samples: np.ndarray
    rate: int
    start_s: float | None = None
    pts: int | None = None
    position: int | None = None
    silence: int = 0
    trimmed: int = 0


@dataclass
class Damage:
    """Sound that could not be decoded: its packets, start and total seconds.

    Also whether the end is cut.
    """

    count: int = 0
    first_s: float = 0.0
    total_s: float = 0.0
    last_is_cut: bool = False
    last_packet: bytes = b""
    read_failed: bool = False


_BadPacket = tuple[float, float, bool]
"""Start and length in seconds of a packet that is damaged, and whether nothing was decoded of
it."""


@dataclass
class MediaFile:
    """One audio track of a media file; a context manager, for one reading from the start.

    Args:
        name: what messages call it.
        path: the file.
        first_byte: where reading begins: bare streams may be entered at any packet.
        choice: which track is read.

    Raises:
        AudioError: it has no such track.
        NotMediaError: the file is not one of `FORMATS`, or has no sound that can be decoded.
    """

    name: str
    path: str
    first_byte: int = 0
    choice: SoundChoice = DEFAULT_SOUND
    damage: Damage = field(default_factory=Damage)

    def __post_init__(self) -> None:
        self._file = ByteRange(self.path, self.first_byte)
        try:
            self.container = _opened(self._file, _OPTIONS)
            if not _has_sound(self.container):
                self.container.close()
                self._file.seek(0)
                self.container = _opened(self._file, _OPTIONS | _LONG_SEARCH)
            try:
                self.tracks = [_shown_track(stream) for stream in self.container.streams.audio]
                self.stream = _chosen_stream(self.container, self.choice, self.name)
                self.track = list(self.container.streams.audio).index(self.stream) + 1
            except BaseException:
                self.container.close()
                raise
        except BaseException:
            self._file.close()
            raise
        for stream in self.container.streams:
            discard = getattr(stream, "discard", None)
            if (
                stream is not self.stream and discard is not None
            ):  # later versions of PyAV: skip over the pictures
                stream.discard = type(discard)["all"]
        self.format = self.container.format.name
        self.has_clock = self.format not in _WITHOUT_CLOCK
        self.is_broadcast = self.format in ("mpegts", "mpeg")
        self._is_mov = self.format.startswith("mov")
        self._good_bytes = 0
        self._good_s = 0.0
        self._has_sync = self.format in ("mp3", "aac")
        start_s = (self.container.start_time or 0) / 1e6
        # Matroska's clock begins at 0; a codec's delay lies before it
        if self.format.startswith("matroska"):
            self._origin_s = max(0.0, start_s)
        else:
            self._origin_s = start_s

    def __enter__(self) -> MediaFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.container.close()
        self._file.close()

    def promised_s(self) -> float | None:
        """Return the end of the sound on the player's clock, from the container's index.

        Return None if there is no index.
        """
        if self._is_mov and self.stream.duration is not None and self.stream.time_base is not None:
            start = self.stream.start_time or 0
            return float((start + self.stream.duration) * self.stream.time_base) - self._origin_s
        return None

    def header_s(self) -> float | None:
        """Return the length by the container.

        Return None where FFmpeg would guess it from a bit rate, or from clocks.
        """
        if self.is_broadcast or not self.has_clock or not self.container.duration:
            return None
        return self.container.duration / 1e6

    def demuxed_s(self) -> float:
        """Return the end of the sound by the times of its packets, without decoding it.

        It is right to about a packet.
        """
        end_s = counted_s = 0.0
        for packet in self._packets():
            if not packet.size or packet.time_base is None:
                continue
            self._note_end(packet)
            length_s = float((packet.duration or 0) * packet.time_base)
            counted_s += length_s
            if packet.pts is not None:
                end_s = max(end_s, float(packet.pts * packet.time_base) - self._origin_s + length_s)
        return end_s if self.has_clock and end_s else counted_s

    def pieces(self) -> Iterator[DecodedPiece]:
        """Yield the decoded sound in the file's order; count undecodable packets in `damage`.

        Raises:
            AudioError: the file can no longer be read.
        """
        from av.error import FFmpegError

        bad: list[_BadPacket] = []
        for packet in self._packets():
            if packet.size:
                self._note_end(packet)
            try:
                frames = packet.decode()
            except FFmpegError:
                bad += self._undecodable(packet)
                continue
            if frames and bad:  # damage at the file's end is a tag, or a frame that was cut
                yield from self._damaged(bad)
                bad = []
            if packet.is_corrupt:
                bad += self._undecodable(packet, is_lost=False)
            for frame in frames:
                self._good_bytes += packet.size
                self._good_s += frame.samples / frame.sample_rate
                yield self._piece(frame, packet)

    def seek(self, pts: int) -> bool:
        """Seek to the packet of `pts` or to one before it.

        Return False if the file cannot be sought.
        """
        from av.error import FFmpegError

        try:
            self.container.seek(pts, stream=self.stream)
        except (FFmpegError, OSError):
            return False
        return True

    def _packets(self) -> Iterator[Packet[AudioStream]]:
        from av.error import FFmpegError

        failures = 0
        while failures < _READ_FAILURES:
            try:
                for packet in self.container.demux(self.stream):
                    failures = 0
                    yield packet
                return
            except (
                FFmpegError,
                IndexError,
            ):  # the latter of a packet of a stream that was not there before
                failures += 1
                self.damage.read_failed = True
            except OSError as error:
                raise AudioError(
                    f"{self.name}: cannot be read: {error.strerror or error}"
                ) from error

    def _piece(self, frame: AudioFrame, packet: Packet[AudioStream]) -> DecodedPiece:
        samples = _samples(frame)
        rate = frame.sample_rate
        start_s = None
        if self.has_clock and frame.pts is not None and frame.time_base is not None:
            start_s = float(frame.pts * frame.time_base) - self._origin_s
        if (
            self._is_mov
            and packet.duration
            and frame.pts == packet.pts
            and packet.time_base is not None
        ):
            # the last packet of an edit ends where its duration says
            samples = samples[: max(1, round(float(packet.duration * packet.time_base) * rate))]
        if packet.pos is None or packet.pos < 0:
            position = None
        else:
            position = packet.pos + self.first_byte
        return DecodedPiece(samples, rate, start_s, frame.pts, position)

    def _note_end(self, packet: Packet[AudioStream]) -> None:
        """Remember the packet as the last one.

        Tags after the sound of bare streams do not count.
        """
        if self.has_clock:
            self.damage.last_is_cut = packet.is_corrupt
        elif (data := bytes(packet))[:1] == b"\xff" or not self._has_sync:
            self.damage.last_is_cut = packet.is_corrupt
            self.damage.last_packet = data

    def _undecodable(self, packet: Packet[AudioStream], is_lost: bool = True) -> list[_BadPacket]:
        """Return a packet that is damaged or cannot be decoded, as silence.

        Return [] if it is not sound.
        """
        data = bytes(packet)
        base = packet.time_base
        is_frame = data[:1] == b"\xff" or not self._has_sync
        if (
            not data
            or base is None
            or data.startswith(_TAGS)
            or (not is_frame and not self._good_bytes)
        ):
            return []
        length_s = float((packet.duration or 0) * base)
        if (
            not is_frame and length_s
        ):  # bytes without a header: as long as the same number of bytes elsewhere in the file
            frames = packet.size * self._good_s / self._good_bytes / length_s
            length_s *= max(1, round(frames))
        start_s = float((packet.pts or 0) * base) - self._origin_s
        return [(max(0.0, start_s), length_s, is_lost)]

    def _damaged(self, bad: list[_BadPacket]) -> Iterator[DecodedPiece]:
        """Count what could not be decoded, and yield silence for it in formats without a clock."""
        if not self.damage.count:
            self.damage.first_s, _, _ = bad[0]
        self.damage.count += len(bad)
        self.damage.total_s += sum(length_s for _, length_s, _ in bad)
        context = self.stream.codec_context
        for _, length_s, is_lost in bad:
            samples = round(length_s * context.sample_rate)
            if samples and is_lost and not self.has_clock:
                yield DecodedPiece(
                    np.zeros((samples, max(1, context.channels)), np.float32), context.sample_rate
                )

    def mixed_channels(self, channels: int) -> list[int]:
        """Return the channels, from 0, that are mixed.

        They are all except the one for low-frequency effects.
        """
        layout = self.stream.codec_context.layout
        if layout is not None:
            names = [channel.name for channel in layout.channels]
        else:
            names = []
        if len(names) != channels or channels < 4:
            return list(range(channels))
        return [number for number, name in enumerate(names) if name not in ("LFE", "LFE2")] or list(
            range(channels)
        )


def _has_sound(container: InputContainer) -> bool:
    """Return whether there is an audio stream for which FFmpeg has found a sample rate."""
    contexts = [stream.codec_context for stream in container.streams.audio]
    return any(context is not None and context.sample_rate for context in contexts)


def _opened(file: ByteRange, options: dict[str, str]) -> InputContainer:
    import av

    # From 19 on PyAV has no such option.
    tags: dict[str, Any] = (
        {"metadata_errors": "replace"} if int(av.__version__.partition(".")[0]) < 19 else {}
    )
    try:
        return av.open(
            file,
            "r",
            container_options=options,  # as `options`, versions before 17 write beyond their memory on some formats
            buffer_size=_READ_BYTES,
            io_open=_refuse_to_open,
            **tags,
        )
    except (av.error.FFmpegError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NotMediaError(reason.rstrip(". ")) from error


def _refuse_to_open(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    """Refuse to open files that a file refers to.

    Examples are the external references of QuickTime.
    """
    raise ValueError("the file refers to another file, which is not read")


def _language_of(stream: AudioStream) -> str:
    """Return the code of the language that a file gives for a track, "" for none."""
    language = base_code(stream.metadata.get("language", ""))
    if language in ("und", "mul", "zxx", "mis"):
        return ""
    return language


def _shown_track(stream: AudioStream) -> str:
    """Return the language and the title of a track for messages."""
    title = "".join(filter(str.isprintable, stream.metadata.get("title", "")))[:_LONGEST_TITLE]
    language = _language_of(stream)
    if language.isalpha():
        name = name_of_language(language)
    else:
        name = "no language given"
    return f'{name} "{title}"' if title else name


def numbered(tracks: Iterable[str]) -> str:
    """Return tracks in one line, numbered from 1.

    >>> numbered(["English", "German"])
    '1 English, 2 German'
    """
    return ", ".join(f"{number} {track}" for number, track in enumerate(tracks, 1))


def no_such_track(name: str, track: str, tracks: list[str]) -> AudioError:
    """Return the error for a track that a recording does not have."""
    wanted = f'an audio track with the title "{track}"'
    if track.isdigit():
        wanted = f"audio track {track}"
    elif base_code(track) != track.casefold() or len(track) < _SHORTEST_NAME:
        wanted = f"an audio track in {name_of_language(track)}"
    if len(tracks) == 1:
        there = f"1 audio track ({tracks[0]})"
    else:
        there = f"{len(tracks)} audio tracks ({numbered(tracks)})"
    return AudioError(
        f"{name}: expected {wanted}, got a recording with {there}: choose with --track N, or omit"
        " --track"
    )


def _chosen_stream(container: InputContainer, choice: SoundChoice, name: str) -> AudioStream:
    """Return the chosen track.

    Without a choice, return that in the preferred language, then FFmpeg's, then any other.

    Of several in one language, and of those that FFmpeg cannot decode, the same order decides.
    """
    streams = every = list(container.streams.audio)
    best: Any = container.streams.best("audio")
    if choice.track.isdigit():
        streams = every[int(choice.track) - 1 :][:1]
    elif choice.track:
        wanted = base_code(choice.track)
        titled = [
            stream
            for stream in every
            if stream.metadata.get("title", "").casefold() == choice.track.casefold()
        ]
        streams = [stream for stream in every if _language_of(stream) == wanted] or titled
        if not streams and len(every) == 1 and not _language_of(every[0]):
            streams = every  # the only one, and nothing says that its language is another
    if every and not streams:
        raise no_such_track(name, choice.track, list(map(_shown_track, every)))
    if choice.language and len(streams) > 1:
        preferred = base_code(choice.language)
    else:
        preferred = ""

    def rank(stream: AudioStream) -> tuple[bool, bool]:
        is_other = bool(preferred) and _language_of(stream) != preferred
        return is_other, best is not None and stream.index != best.index

    for stream in sorted(streams, key=rank):
        if stream.codec_context is not None:
            return stream
    if streams:
        raise NotMediaError("a codec that the FFmpeg libraries here cannot decode")
    if container.streams.video:
        raise NotMediaError("a video or a picture without a sound track")
    raise NotMediaError("a file without a sound track")


def _samples(frame: AudioFrame) -> np.ndarray:
    """Return the samples of a frame (n, channels) float32, full scale 1."""
    try:
        array = frame.to_ndarray()
    except ValueError as error:  # samples of 64-bit integers
        raise NotMediaError(
            f"samples of an unsupported kind ({frame.format.name}); convert them: "
            "ffmpeg -i FILE -c:a pcm_s32le NEW.wav"
        ) from error
    channels = len(frame.layout.channels)
    if frame.format.is_planar:
        array = array.T
    else:
        array = array.reshape(-1, channels)
    scale = _FULL_SCALE.get(array.dtype.str[1:])
    if scale is None:
        return array.astype(np.float32)
    offset = 128.0 if array.dtype == np.uint8 else 0.0
    return ((array - offset) / scale).astype(np.float32)


# The player's clock: decoded pieces become one stream without gaps, sample n at time n / rate of
# the recording. Sound that begins late and gaps become silence, overlaps are trimmed, as `ffmpeg
# -af aresample=async=1:first_pts=0` does, but within milliseconds: times of single pieces are
# rounded and jitter, so a step counts only where the next pieces show it too. Pieces with a
# different rate or channel count (concatenated files) are converted to those of the first.

_LOOK_AHEAD = 6
"""Pieces after one that must show the same step before it counts."""
_TOLERANCE_S, _FIRST_TOLERANCE_S = 0.005, 0.001
_RESTART_S = 1.0
"""A longer step backwards is a clock that was reset (concatenated files), not an overlap."""
_LONGEST_GAP_S = 6 * 3600.0
_BROADCAST_GAP_S = 10.0
"""A longer step in a transport or program stream is a new clock, too."""
_SILENCE_SAMPLES = 65536


def place_pieces(
    pieces: Iterable[DecodedPiece], name: str, *, is_broadcast: bool = False
) -> Iterator[DecodedPiece]:
    """Yield the pieces with their positions on the player's clock.

    `is_broadcast`: the clock of the format may be reset in the middle (transport and program
    streams). The first
    reset is logged as a warning; the sound continues without a gap.
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
    """The position of the stream in seconds, and the sum of the jumps at resets of its clock."""

    def __init__(self, name: str, longest_gap_s: float) -> None:
        self._name = name
        self._longest_gap_s = longest_gap_s
        self._at_s = self._moved_s = 0.0
        self._is_first, self._has_warned = True, False

    def placed(self, pieces: Iterable[DecodedPiece]) -> DecodedPiece:
        """Return the first of the pieces with its position.

        The others show whether a step of the clock is real.
        """
        pieces = list(pieces)
        first = pieces[0]
        step_s = self._step_s(pieces)
        if self._is_first:
            longest_s = _LONGEST_GAP_S
        else:
            longest_s = self._longest_gap_s
        if step_s > longest_s or (step_s < -_RESTART_S and not self._is_first):
            if not self._is_first and not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "%s: the file's clock jumps by %+.2f s at %.2f s (files joined?); the sound"
                    " continues there, and after any later jump",
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
        return replace(first, samples=first.samples[trimmed:], silence=silence, trimmed=trimmed)

    def _step_s(self, pieces: list[DecodedPiece]) -> float:
        """Return the seconds between the end of the last piece and the first of these.

        Return 0 for jitter.
        """
        if self._is_first:
            tolerance_s = _FIRST_TOLERANCE_S
        else:
            tolerance_s = _TOLERANCE_S
        if pieces[0].start_s is None:
            return 0.0
        off_s = []
        expected_s = self._at_s
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
    """Converts placed pieces to samples (n, channels).

    Rate and channels are those of the first piece.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self.rate = rate
        self.channels = channels
        self._stream: soxr.ResampleStream | None = None
        self._stream_rate = rate

    def blocks(self, placed: DecodedPiece) -> Iterator[np.ndarray]:
        """Yield the samples that a placed piece adds, its silence first."""
        rate = placed.rate
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
        """Yield the samples that a resampler still holds."""
        if self._stream is not None:
            yield self._stream.resample_chunk(np.empty((0, self.channels), np.float32), last=True)
            self._stream = None
            self._stream_rate = self.rate

    def _start(self, rate: int) -> None:
        import soxr

        self._stream_rate = rate
        if rate != self.rate:
            self._stream = soxr.ResampleStream(
                rate, self.rate, self.channels, dtype="float32", quality="HQ"
            )

    def _converted(self, block: np.ndarray) -> np.ndarray:
        if self._stream is None:
            return block
        return np.asarray(self._stream.resample_chunk(np.ascontiguousarray(block))).reshape(
            -1, self.channels
        )


def with_channels(samples: np.ndarray, channels: int) -> np.ndarray:
    """Return samples (n, any) with `channels` channels.

    If their number differs, each channel is the average of all.
    """
    if samples.shape[1] == channels:
        return samples
    mono = samples.mean(axis=1, dtype=np.float64).astype(np.float32)
    return np.repeat(mono[:, None], channels, axis=1)
