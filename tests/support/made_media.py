"""Media files for tests, coded on the spot by PyAV."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}
LFE = 3
"""The channel for low-frequency effects of 5.1, from 0."""


@dataclass(frozen=True)
class Coding:
    """How sound is coded: `options` of the container, `coder` those of the codec; `video`: pictures
    beside it."""

    codec: str
    container: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    coder: dict[str, str] = field(default_factory=dict)
    bit_rate: int | None = None
    video: bool = False


def can_encode(coding: Coding) -> bool:
    """Return whether this PyAV's FFmpeg has the encoder: from 19 on it has none of AMR, which it
    still reads."""
    try:
        av.Codec(coding.codec, "w")
    except av.codec.codec.UnknownCodecError:
        return False
    return True


def write_media(
    path: Path,
    parts: list[tuple[float, np.ndarray]],
    rate: int,
    coding: Coding,
) -> Path:
    """Write sound (n, channels) float32, each part beginning at its time in seconds, and return the
    path."""
    with av.open(str(path), "w", format=coding.container, options=coding.options) as out:
        channels = parts[0][1].shape[1]
        sound = out.add_stream(
            coding.codec, rate=rate, layout=LAYOUTS[channels], options=coding.coder
        )
        if coding.bit_rate is not None:
            sound.bit_rate = coding.bit_rate
        pictures = out.add_stream("mpeg4", rate=25) if coding.video else None
        if pictures is not None:
            pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
            end_s = max(start_s + len(samples) / rate for start_s, samples in parts)
            for number in range(round(25 * end_s)):
                frame = av.VideoFrame.from_ndarray(
                    np.full((48, 64, 3), number % 250, np.uint8), format="rgb24"
                )
                frame.pts, frame.time_base = number, Fraction(1, 25)
                out.mux(pictures.encode(frame))
        sound.codec_context.open(strict=False)
        size = sound.codec_context.frame_size or 1024
        for start_s, samples in parts:
            first = round(start_s * rate)
            for low in range(0, len(samples), size):
                out.mux(
                    sound.encode(
                        _frame(samples[low : low + size], rate, first + low, sound.format.name)
                    )
                )
        out.mux(sound.encode(None))
        if pictures is not None:
            out.mux(pictures.encode(None))
    return path


def _frame(samples: np.ndarray, rate: int, pts: int, format: str) -> av.AudioFrame:
    channels = samples.shape[1]
    is_planar = format.endswith("p")
    if format.startswith("s16"):
        samples = np.clip(np.rint(samples * 32767), -32768, 32767).astype(np.int16)
    elif format.startswith("s32"):
        samples = (np.clip(samples, -1, 1) * (2**31 - 129)).astype(np.int32)
    array = np.ascontiguousarray(samples.T if is_planar else samples.reshape(1, -1))
    frame = av.AudioFrame.from_ndarray(array, format=format, layout=LAYOUTS[channels])
    frame.sample_rate, frame.pts, frame.time_base = rate, pts, Fraction(1, rate)
    return frame


def with_other_first_frame(mp3: bytes) -> bytes:
    """Return an MP3 of MPEG 1 behind an Info frame of another bit rate (32 kb/s, 44.1 kHz mono)
    than its sound's."""
    frames = len(mp3) // 200
    frame = bytearray(104)
    frame[:4] = b"\xff\xfb\x10\xc4"
    struct.pack_into(">4s3I", frame, 21, b"Info", 3, frames, len(frame) + len(mp3))
    return bytes(frame) + mp3


def endless_flac(seconds: float, rate: int = 16000) -> bytes:
    """Return a FLAC file of a square wave, far smaller than its sound, whose header does not say
    how long it is."""
    block = 65535
    info = (
        struct.pack(">HH", block, block)
        + bytes(6)
        + (rate << 44 | 15 << 36).to_bytes(8, "big")
        + bytes(16)
    )
    parts = [b"fLaC\x80" + len(info).to_bytes(3, "big") + info]
    for number in range(int(seconds * rate) // block):
        head = b"\xff\xf8\x75\x08" + _utf8(number) + struct.pack(">H", block - 1)
        frame = (
            head
            + bytes([_crc(head, 8, 0x07)])
            + b"\x00"
            + (b"\x20\x00" if number % 2 else b"\xe0\x00")
        )
        parts.append(frame + _crc(frame, 16, 0x8005).to_bytes(2, "big"))
    return b"".join(parts)


def _utf8(number: int) -> bytes:
    return chr(number).encode("utf-8", "surrogatepass")


def _crc(data: bytes, bits: int, polynomial: int) -> int:
    value = 0
    for byte in data:
        value ^= byte << bits - 8
        for _ in range(8):
            value = (value << 1 ^ (polynomial if value >> bits - 1 else 0)) & (1 << bits) - 1
    return value


def restarting_matroska(restarts: int, gap_s: int = 18000, rate: int = 8000) -> bytes:
    """Return a Matroska file whose clock jumps ahead by `gap_s` and starts again, many times."""
    sound = struct.pack("<80h", *([8000] * 40 + [-8000] * 40))
    audio = _ebml("B5", struct.pack(">f", rate)) + _ebml("9F", b"\x01") + _ebml("6264", b"\x10")
    track = (
        _ebml("D7", b"\x01")
        + _ebml("73C5", b"\x01")
        + _ebml("83", b"\x02")
        + _ebml("86", b"A_PCM/INT/LIT")
    )
    parts = [
        _ebml("1A45DFA3", _ebml("4282", b"matroska")),
        bytes.fromhex("18538067") + b"\x01" + b"\xff" * 7,  # a segment of unknown length
        _ebml("1549A966", _ebml("2AD7B1", (1_000_000).to_bytes(3, "big"))),
        _ebml("1654AE6B", _ebml("AE", track + _ebml("E1", audio))),
    ]
    for number in range(2 * restarts):
        start_ms = number % 2 * gap_s * 1000
        blocks = b"".join(
            _ebml("A3", b"\x81" + struct.pack(">hB", at * 10, 0x80) + sound) for at in range(9)
        )
        parts.append(_ebml("1F43B675", _ebml("E7", start_ms.to_bytes(4, "big")) + blocks))
    return b"".join(parts)


def _ebml(name: str, content: bytes) -> bytes:
    return bytes.fromhex(name) + (1 << 56 | len(content)).to_bytes(8, "big") + content
