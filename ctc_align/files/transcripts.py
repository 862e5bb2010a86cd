"""Read a transcript file: a text, a file with cues, or a book.

For any other file, report what it is.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from ctc_align.errors import TranscriptError, UsageError, WrongFileError
from ctc_align.files.foreign_transcripts import foreign_transcript, xml_transcript
from ctc_align.files.json_transcripts import parse_json_transcript
from ctc_align.files.subtitles import (
    has_cues,
    has_damaged_times,
    has_lyrics,
    parse_lyrics,
    parse_subtitles,
)
from ctc_align.files.textgrid import is_textgrid, textgrid_transcript
from ctc_align.reading import STANDARD_INPUT, read_input
from ctc_align.reading.file_kinds import ZIP, FileKind, non_text_kind, structured_text_kind
from ctc_align.text.encodings import decode_text
from ctc_align.types import Transcript

_ELAN_HEAD = re.compile(r"\s*<(?:\?xml|ANNOTATION_DOCUMENT)")
_ELAN_ROOT = re.compile(r"<ANNOTATION_DOCUMENT(?![^\s>])")
_ELAN_LETTERS = 4096
_SUBTITLES = (".srt", ".vtt")
_TEXT_BYTES = 8
"""Approximate bytes of memory for each byte of a transcript."""


def read_transcript(path: str | Path, encoding: str | None = None) -> str:
    """Read the text of a file.

    A plain text unchanged, or its cues (SRT, VTT, JSON with segments) one after the other.

    "-" is standard input; a byte order mark is removed. Line ends are kept; those of subtitles
    become "\\n". `read_transcript_file` also keeps the cues. Raises the same errors.
    """
    return read_transcript_file(path, encoding).text


def read_transcript_file(
    path: str | Path, encoding: str | None = None, language: str = ""
) -> Transcript:
    """Read the transcript of a file, or of standard input for "-".

    A text, a file with cues, or a book.

    A text is UTF-8, or in the encoding that its byte order mark says, or else in `encoding`. If the
    call has a `language`, that of the file does not count.

    Each kind is recognised by its content: subtitles (SRT, VTT) by a line of two times with an
    arrow between them, lyrics (LRC) by their tags and times, a TextGrid or an ELAN file by its
    first lines, an EPUB book by the type in its archive, and transcripts of other programs by the
    tables `KINDS` (`foreign_transcripts`) and `json_dialects.toml`. For an alignment of
    this package (JSON), the transcript is its text.

    Raises:
        UsageError: the file does not exist, is a folder, or cannot be read.
        WrongFileError: the file is not text (a PDF, a recording), or not a transcript (other JSON,
            a CTM).
        TranscriptError: the bytes are in another encoding, or the subtitles are broken; the message
            names the line.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "film.srt")
    ...     _ = path.write_text("1\\n00:00:01,000 --> 00:00:02,500\\nCall me <i>Ishmael</i>.\\n")
    ...     read_transcript_file(path).text
    'Call me <i>Ishmael</i>.'
    """
    if str(path) == "-":
        found = parse_transcript(_standard_input(), STANDARD_INPUT, encoding)
    else:
        found = parse_transcript(_file_bytes(path), str(path), encoding)
    if language:
        return replace(found, language="")
    return found


def _file_bytes(path: str | Path) -> bytes:
    """Return the bytes of a transcript's file; raise UsageError if it cannot be read."""
    try:
        return read_input(path, pipes=True, factor=_TEXT_BYTES)
    except FileNotFoundError:
        raise UsageError(
            f"{path}: no such transcript file; give a UTF-8 text file, - for stdin, or --text"
        ) from None
    except IsADirectoryError:
        raise UsageError(
            f"{path}: expected a transcript file, got a folder; name a text file in it"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{path}: the transcript cannot be read: {error.strerror or error}"
        ) from None


def require_text(text: str, source: str) -> None:
    """Raise TranscriptError, which names `source`, if a transcript is empty or white space.

    >>> require_text("Yes.", "yes.txt")
    """
    if not text.strip():
        name = source
        if source == "-":
            name = STANDARD_INPUT
        raise TranscriptError(
            f"{name}: the transcript is empty; expected at least one word that is spoken"
        )


def parse_transcript(data: bytes, source: str, encoding: str | None = None) -> Transcript:
    """Return the transcript in the bytes of a file; `source` is its name in messages.

    Raises what `read_transcript_file` raises.

    >>> parse_transcript(b"\\xef\\xbb\\xbfSo be it.", "text.txt").text
    'So be it.'
    """
    if data.startswith(ZIP):
        from ctc_align.files.epub import (
            is_epub,
            read_epub,
        )  # a text needs none of what unpacks and parses books

        if is_epub(data):
            return read_epub(data, source)
    if is_textgrid(data):
        return textgrid_transcript(data, source, encoding)
    if (found := xml_transcript(data, source)) is not None:
        return found
    _refuse(non_text_kind(data), source)
    text = decode_text(data, source, encoding)
    if is_elan(text):
        from ctc_align.files.elan import elan_transcript  # a text needs no parser of XML

        return elan_transcript(text, source)
    extension = Path(source).suffix.casefold()
    if has_cues(text) or (extension in _SUBTITLES and ("-->" in text or has_damaged_times(text))):
        return parse_subtitles(text, source, "vtt" if extension == ".vtt" else "srt")
    if extension == ".lrc" or (text.lstrip()[:1] == "[" and has_lyrics(text)):
        return parse_lyrics(text, source)
    if (
        text.lstrip()[:1] in ("{", "[")
        and (found := parse_json_transcript(text, source)) is not None
    ):
        return found
    if (found := foreign_transcript(text, source)) is not None:
        return found
    _refuse(structured_text_kind(text), source)
    if extension in _SUBTITLES and text.strip():
        raise TranscriptError(
            f"{source}: expected subtitles, as its name says, got no line of times such as "
            "00:00:01,000 --> 00:00:02,500; call it .txt if it is a plain text"
        )
    return Transcript(text)


def is_elan(text: str) -> bool:
    """Return whether a text is an ELAN file.

    >>> is_elan('<?xml version="1.0"?>\\n<ANNOTATION_DOCUMENT AUTHOR="">'), is_elan("<ANNOTATION_DOCUMENTS")
    (True, False)
    """
    return (
        _ELAN_HEAD.match(text) is not None and _ELAN_ROOT.search(text, 0, _ELAN_LETTERS) is not None
    )


def name_unless_object(head: bytes) -> str:
    """Return the kind of a file that starts with `head`, with an article.

    "" if it may be a JSON object.

    >>> name_unless_object(b'{"format": "ctc-align/1"'), name_unless_object(b"WEBVTT"), name_unless_object(b" ")
    ('', 'subtitles', 'an empty file')
    """
    text = head.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] == "{":
        return ""
    if is_textgrid(head):
        return "a TextGrid"
    if is_elan(text):
        return "an ELAN file"
    if "<svg" in text[:1000]:
        return "a picture (SVG)"
    if has_cues(text):
        return "subtitles"
    found = non_text_kind(head) or structured_text_kind(text)
    if found is not None:
        return found.name
    if text.strip():
        return "another kind of file"
    return "an empty file"


def _refuse(kind: FileKind | None, source: str) -> None:
    if kind is not None:
        raise WrongFileError(
            f"{source}: expected a transcript (a UTF-8 text file), got {kind.name};"
            f" {kind.as_transcript}"
        )


def _standard_input() -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)
    if buffer is not None:
        return buffer.read()
    return sys.stdin.read().encode("utf-8", "surrogateescape")
