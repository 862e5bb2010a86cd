"""Kinds of files by their first bytes: who reads each, and what to call those that nobody reads as a recording."""

from __future__ import annotations

import os
import stat

from ctc_align.errors import AudioError, UsageError

HEAD_BYTES = 4096
_ZEROS_BYTES = 1 << 24

_SOUND_FILE_HEADS = (
    *(b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff", b"FORM", b"fLaC", b"OggS", b".snd", b"dns.", b"caff", b"NIST_1A"),
    *(b"Creative Voice File", b" paf", b"fap ", b"PVF1", b"2BIT", b"Extended Instrument", b"MATLAB", b"ALawSoundFile"),
    *(b"\x64\xa3\x01\x00", b"\x00\x01\xa3\x64", b"\x64\xa3\x02\x00", b"\x00\x02\xa3\x64", b"\x64\xa3\x03\x00"),
)
"""How files begin that libsndfile is asked for first."""
_OTHER_KINDS: tuple[tuple[bytes, str], ...] = (
    (b"#EXTM3U", "a playlist, which only names recordings: give one of them"),
    (b"[playlist]", "a playlist, which only names recordings: give one of them"),
    (b"ffconcat", "a list of files, not sound: give one of them"),
    (b"v=0\r\n", "a session description (SDP), not sound"),
    (b"v=0\n", "a session description (SDP), not sound"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"GIF8", "a picture (GIF)"),
    (b"BM", "a picture (BMP)"),
    (b"II*\0", "a picture (TIFF)"),
    (b"MM\0*", "a picture (TIFF)"),
    (b"PK\x03\x04", "a zip archive (a Word or Excel file, or sound that must be unpacked first)"),
    (b"\x1f\x8b", "a file packed by gzip: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"Rar!", "a RAR archive: unpack it first"),
    (b"{\\rtf", "a text document (RTF)"),
    (b"\xd0\xcf\x11\xe0", "an Office document"),
    (b"MThd", "MIDI: notes, not sound"),
    (b"\x93NUMPY", "an array of NumPy (log-probs need the extension .npy, --vocab and --frame-shift)"),
    (b"SQLite format", "a database (SQLite)"),
    (b"\x7fELF", "a program"),
)


class MissingAudioError(AudioError, UsageError):
    """The audio file does not exist: an error of the call, or in a corpus of one utterance."""


def file_head(name: str) -> bytes:
    """Return the first bytes of a file.

    Raises:
        MissingAudioError: no such file (both an AudioError and a UsageError).
        AudioError: a folder, a pipe or a device; not readable; empty.
    """
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise MissingAudioError(f"{name}: no such audio file") from None
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise AudioError(f"{name}: expected an audio file, got a folder (for many files: ctc-align corpus)")
    if not stat.S_ISREG(mode):
        raise AudioError(f"{name}: {not_regular(mode)}")
    try:
        with open(name, "rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror}") from error
    if not head:
        raise AudioError(f"{name}: expected audio, got an empty file (0 bytes)")
    return head


def not_regular(mode: int) -> str:
    """Return what to say of a pipe, a socket or a device in place of a recording, by its mode."""
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return f"expected a regular file, got {kind}: save the audio to a file first, or pipe it in and give - as AUDIO"


def is_sound_file(head: bytes) -> bool:
    """Return whether libsndfile is asked first; FFmpeg is for everything else."""
    if head[:4] == b"RIFF":
        return head[8:12] == b"WAVE"
    if head[:4] == b"FORM":
        return head[8:12] in (b"AIFF", b"AIFC", b"8SVX", b"16SV")
    return head.startswith(_SOUND_FILE_HEADS)


def kind_of_content(name: str, head: bytes) -> str | None:
    """Return what a file is that is no recording ("a picture (PNG)"), None where that is not known.

    >>> kind_of_content("x", b"GIF89a"), kind_of_content("x", b"Once upon a time"), kind_of_content("x", bytes([0, 1]))
    ('a picture (GIF)', 'a text file', None)
    """
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a picture (WebP)"
    if head[4:8] == b"ftyp" and head[8:12] in (b"heic", b"heix", b"avif", b"mif1"):
        return "a picture (HEIF)"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, kind in _OTHER_KINDS:
        if start.startswith(magic):
            return kind
    if start[:14].lower().startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    if _is_text(head):
        return "a text file"
    if not head.strip(b"\0") and _is_zeros(name):
        return "nothing but zeros (a download or a copy that failed?)"
    return None


def _is_text(head: bytes) -> bool:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") and len(head) > 2:
        try:
            return head[: len(head) // 2 * 2].decode("utf-16").isprintable() or b"\n" in head
        except UnicodeDecodeError:
            return False
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return not any(ord(character) < 32 and character not in "\t\n\r\f\x1b" for character in text)


def _is_zeros(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return not file.read(_ZEROS_BYTES).strip(b"\0")
    except OSError:
        return False
