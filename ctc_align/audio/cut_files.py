"""Signs of truncated media files: less data than the structure of the file promises."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO

_MPEG_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
"""Sample rates in Hz by the version's bits."""
_LAYER3_KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""Bit rates of layer III by index; of MPEG 1 (True), or 2 and 2.5."""
_LAYER2_KBITS = (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384)
"""Bit rates of layer II of MPEG 1; those of layer II of MPEG 2 are layer III's."""
_ID3_HEADER_BYTES = 10
_SEGMENT = 0x18538067
_HEAD_BYTES = 1024
"""Those of NIST SPHERE; all other heads are shorter."""
_UNKNOWN = 0x7F00_0000
_DECLARED_ENDS = (
    (b"RIFF", 4, "<I", 8, 0xFFFF_0000 - 8),
    (b"RF64", 20, "<Q", 8, 1 << 62),
    (b"BW64", 20, "<Q", 8, 1 << 62),
    (b"riff\x2e\x91", 16, "<Q", 0, 1 << 62),  # Wave64
    (b"FORM", 4, ">I", 8, _UNKNOWN),  # AIFF
    (b".snd", 8, ">I", 24, _UNKNOWN),  # Sun's AU
)
"""First bytes of a kind of file; where and how its length is written; how many bytes this does not
count; and from which value on it means an unknown length: programs write such values into pipes."""
_NIST_FIELD = re.compile(rb"^(\w+) -i (\d{1,15})$", re.MULTILINE)
_NIST_COUNTS = (b"sample_count", b"channel_count", b"sample_n_bytes")
_PADDING_BYTES = 8
"""Writers may count padding that they do not write."""
_MOST_PADDING_BYTES = 65536


def cut_reason(path: str) -> str | None:
    """Return how a file is truncated, such as "lacks its last 120 bytes".

    Return None if it is complete or if this is unknown.

    MP4 and related formats, Matroska, AVI, ASF, Flash video and transport streams declare the
    length of their parts.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        end = _declared_end(head)
        if head[:4] == b"\x1aE\xdf\xa3":
            end = _matroska_end(file, size)
        elif head[:4] == b"0&\xb2u":
            end = _asf_end(file)
        elif head[:4] == b"FLV\x01":
            if _flv_is_whole(file, size):
                return None
            return "ends in the middle of a packet"
        elif head[:1] == b"G" and _packet_bytes(file) and size % _packet_bytes(file):
            return "ends in the middle of a packet"
        elif end is None:
            end = max((start + length for _, start, length in boxes(file, size)), default=0)
    if end > size + _PADDING_BYTES:
        return f"lacks its last {end - size} bytes"
    return None


def missing_share(path: str) -> float:
    """Return how much is missing of a file whose head declares its end, as a share of what is there."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        end = _declared_end(file.read(_HEAD_BYTES)) or 0
    return max(0.0, end / size - 1)


def _declared_end(head: bytes) -> int | None:
    """Return the end in bytes that the head of a file declares.

    0 for a stream, None for other kinds of files.
    """
    for mark, at, form, more, most in _DECLARED_ENDS:
        if head.startswith(mark) and len(head) >= at + struct.calcsize(form):
            (length,) = struct.unpack_from(form, head, at)
            return length + more if length < most else 0
    if head.startswith(b"NIST_1A"):
        fields = dict(_NIST_FIELD.findall(head))
        counts = [int(fields.get(name, 0)) for name in _NIST_COUNTS]
        return _HEAD_BYTES + math.prod(counts) if b"shorten" not in head else 0
    return None


def wav_seconds(path: str) -> tuple[float, float]:
    """Return the seconds of sound in a WAV file by its header.

    Also return the seconds after them that belong to no chunk.

    Recorders that were stopped leave a length of 0, or an older one; and `cat` appends another file
    to the first.
    """
    size = os.path.getsize(path)
    at = 12
    bytes_per_s = 0
    sound_bytes = -1
    with open(path, "rb") as file:
        head = file.read(at)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return 0.0, 0.0
        while at + 8 <= size:
            file.seek(at)
            kind, length = struct.unpack("<4sI", file.read(8))
            is_chunk = (
                kind != b"RIFF"
                and all(32 <= byte < 127 for byte in kind)
                and at + 8 + length <= size
            )
            if sound_bytes >= 0 and not is_chunk:
                break
            if kind == b"fmt ":
                bytes_per_s = int.from_bytes(file.read(12)[8:], "little")
            sound_bytes = length if kind == b"data" else sound_bytes
            at += 8 + length + length % 2
        file.seek(min(at, size))
        is_padding = not file.read(_MOST_PADDING_BYTES).strip(b"\0")
    if sound_bytes < 0 or not bytes_per_s:
        return 0.0, 0.0
    return sound_bytes / bytes_per_s, 0.0 if is_padding else max(0, size - at) / bytes_per_s


def boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, first byte and length of the outer boxes of an MP4 or QuickTime file.

    Other files have none.
    """
    at = 0
    while at + 8 <= size:
        file.seek(at)
        header = file.read(16)
        length, kind = struct.unpack(">I4s", header[:8])
        if not all(32 <= byte < 127 or byte == 0xA9 for byte in kind) or (
            not at and kind not in _FIRST_BOXES
        ):
            return
        if length == 1 and len(header) == 16:
            length = struct.unpack(">Q", header[8:])[0]
        if length == 0:  # to the end of the file
            length = size - at
        if length < 8:
            return
        yield kind, at, length
        at += length


_FIRST_BOXES = (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp")


def lacks_index(path: str) -> bool:
    """Return whether an MP4 or QuickTime file lacks its index (`moov`).

    Without it the file cannot be read.
    """
    with open(path, "rb") as file:
        kinds = [kind for kind, _, _ in boxes(file, os.path.getsize(path))]
    return bool(kinds) and b"moov" not in kinds and b"moof" not in kinds


def _matroska_end(file: BinaryIO, size: int) -> int:
    """Return the end of the last element that declares its length.

    Return 0 if there is none (live streams).
    """
    at, end = 0, 0
    while at < size:
        file.seek(at)
        header = file.read(16)
        found = _element(header)
        if found is None:
            break
        kind, header_bytes, length = found
        at += header_bytes + (length or 0)  # the content of an element of unknown length follows
        if length is not None:
            end = max(end, at)
        if length is not None and kind == _SEGMENT:
            break
    return end


def _element(header: bytes) -> tuple[int, int, int | None] | None:
    """Return id, header length and content length of an EBML element.

    The length of the content is None if it is unknown.
    """
    if len(header) < 2 or not header[0]:
        return None
    id_bytes = 9 - header[0].bit_length()
    if id_bytes > 4 or len(header) <= id_bytes or not header[id_bytes]:
        return None
    size_bytes = 9 - header[id_bytes].bit_length()
    field = header[id_bytes : id_bytes + size_bytes]
    if len(field) < size_bytes:
        return None
    length = int.from_bytes(field, "big") & ((1 << 7 * size_bytes) - 1)
    unknown = length == (1 << 7 * size_bytes) - 1
    return (
        int.from_bytes(header[:id_bytes], "big"),
        id_bytes + size_bytes,
        None if unknown else length,
    )


def _flv_is_whole(file: BinaryIO, size: int) -> bool:
    """Return whether the last bytes are the length of the last packet.

    They are in whole files.
    """
    file.seek(max(0, size - 4))
    length = int.from_bytes(file.read(4), "big")
    if length < 11 or length + 4 > size:
        return False
    file.seek(size - 4 - length)
    header = file.read(4)
    return header[0] & 0x1F in (8, 9, 18) and int.from_bytes(header[1:], "big") == length - 11


def _packet_bytes(file: BinaryIO) -> int:
    """Return the length of the packets of a transport stream, 0 for other files."""
    file.seek(0)
    head = file.read(5 * 204)
    for length in (188, 204):
        if len(head) > 4 * length and all(head[i * length] == 0x47 for i in range(5)):
            return length
    return 0


def _asf_end(file: BinaryIO) -> int:
    """Return where the packets end by the size of their object.

    Return 0 for a live stream or without a size.
    """
    file.seek(0)
    head = file.read(1 << 16)
    at = head.find(bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365"))  # the file's properties
    if at < 0 or at + 92 > len(head) or struct.unpack_from("<I", head, at + 88)[0] & 1:
        return 0
    (header_bytes,) = struct.unpack_from("<Q", head, 16)
    file.seek(header_bytes)
    start = file.read(24)
    is_data = start[:16] == bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
    if is_data and len(start) == 24:
        return header_bytes + int(struct.unpack_from("<Q", start, 16)[0])
    return 0


def is_cut_frame(packet: bytes, format: str) -> bool:
    """Return whether the last packet of a bare MP3 or AAC stream is cut.

    It is if it is shorter than its own header says.
    """
    if format == "mp3":
        length = mp3_frame_bytes(packet)
    elif format == "aac" and len(packet) >= 6 and packet[0] == 0xFF and packet[1] & 0xF6 == 0xF0:
        length = (packet[3] & 3) << 11 | packet[4] << 3 | packet[5] >> 5
    else:
        return False
    return length is not None and len(packet) < length


def mp3_frame_bytes(frame: bytes) -> int | None:
    """Return the length of a frame of MPEG layer II or III by its header.

    Return None if it is not such a frame.
    """
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE0 != 0xE0 or frame[1] & 6 not in (2, 4):
        return None
    version = frame[1] >> 3 & 3
    kbits_index = frame[2] >> 4
    rate_index = frame[2] >> 2 & 3
    if version == 1 or rate_index == 3 or kbits_index in (0, 15):
        return None
    is_layer2 = frame[1] & 6 == 4
    kbits = (_LAYER2_KBITS if is_layer2 and version == 3 else _LAYER3_KBITS[version == 3])[
        kbits_index
    ]
    return (144 if version == 3 or is_layer2 else 72) * kbits * 1000 // _MPEG_RATES[version][
        rate_index
    ] + (frame[2] >> 1 & 1)


def mp3_promise(path: str) -> float | None:
    """Return the seconds that an MP3's Xing or Info header promises.

    Return None unless the file lacks some of them.

    A header that says how many bytes there are, and has them, promises nothing more, whatever else
    is in it; so a header that does not fit its file (of another bit rate) is no sign of a cut. None
    too if there is no header.
    """
    with open(path, "rb") as file:
        start = _after_id3(file)
        file.seek(start)
        frame = file.read(4096)
        size = os.fstat(file.fileno()).st_size
    if mp3_frame_bytes(frame) is None:
        return None
    version = frame[1] >> 3 & 3
    is_mono = frame[3] >> 6 == 3
    if version == 3:
        side_bytes = 17 if is_mono else 32
    else:
        side_bytes = 9 if is_mono else 17
    at = 4 + side_bytes + (0 if frame[1] & 1 else 2)
    for mark in (at, at - 2):
        if frame[mark : mark + 4] in (b"Xing", b"Info"):
            break
    else:
        return None
    (flags,) = struct.unpack_from(">I", frame, mark + 4)
    fields = struct.unpack_from(">2I", frame, mark + 8)
    if not flags & 1 or not fields[0] or (flags & 2 and start + fields[1] <= size):
        return None
    samples = fields[0] * (1152 if version == 3 else 576)
    # the fields that the flags announce (frames, bytes, seek table, quality), then LAME's tag with
    # the coder's delays
    fields_bytes = sum(length for bit, length in ((1, 4), (2, 4), (4, 100), (8, 4)) if flags & bit)
    delays = frame[mark + 8 + fields_bytes + 21 :][:3]
    if len(delays) == 3:
        samples -= (delays[0] << 4 | delays[1] >> 4) + ((delays[1] & 15) << 8 | delays[2])
    return samples / _MPEG_RATES[version][frame[2] >> 2 & 3]


def _after_id3(file: BinaryIO) -> int:
    """Return the byte after the ID3v2 tags at a file's start."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_ID3_HEADER_BYTES)
        if len(head) < _ID3_HEADER_BYTES or head[:3] != b"ID3":
            return at
        at += _ID3_HEADER_BYTES + sum(
            (byte & 127) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0))
        )
