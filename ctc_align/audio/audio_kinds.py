"""Recognise audio files by their first bytes, and report files that are not audio."""

from __future__ import annotations

import os
import stat
from unicodedata import normalize

from ctc_align.errors import AudioError, UsageError
from ctc_align.reading.file_kinds import non_audio_kind

HEAD_BYTES = 4096
_ZEROS_BYTES = 1 << 24


class MissingAudioError(AudioError, UsageError):
    """The audio file does not exist: an error of the call, or in a corpus of one utterance."""


def file_head(name: str) -> bytes:
    """Return the first bytes of a file.

    Raises:
        MissingAudioError: there is no such file (both an AudioError and a UsageError).
        AudioError: a folder, a pipe or a device; not readable; empty.
    """
    try:
        mode = os.stat(name).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise MissingAudioError(f"{name}: no such audio file{_meant(name)}") from None
    except OSError as error:
        raise AudioError(f"{name}: cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise AudioError(
            f"{name}: expected an audio file, got a folder (for many files: ctc-align corpus)"
        )
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


def _meant(name: str) -> str:
    """Return "; did you mean …?" with a file that another system takes for the same, or ""."""
    path = name.replace("\\", "/")
    stem, end = os.path.splitext(path)
    spellings = (path, stem + end.lower(), stem + end.upper())
    forms = (normalize(form, spelling) for spelling in spellings for form in ("NFC", "NFD"))
    found = next(filter(os.path.isfile, forms), "")
    return f"; did you mean {found}?" if found else ""


def not_regular(mode: int) -> str:
    """Return the message for a pipe, a socket or a device given as a recording, by its mode."""
    if stat.S_ISFIFO(mode):
        kind = "a pipe"
    elif stat.S_ISSOCK(mode):
        kind = "a socket"
    else:
        kind = "a device"
    return (
        f"expected a regular file, got {kind}: save the audio to a file first, or pipe it in and"
        " give - as AUDIO"
    )


def kind_of_content(name: str, head: bytes) -> str | None:
    """Return the kind of a file that is not a recording, with what to do about it.

    Return None if the kind is unknown.
    """
    kind = non_audio_kind(head)
    if kind is None and not head.strip(b"\0") and _is_zeros(name):
        return "nothing but zeros (a download or a copy that failed?)"
    return None if kind is None else kind.not_a_recording


def _is_zeros(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return not file.read(_ZEROS_BYTES).strip(b"\0")
    except OSError:
        return False
