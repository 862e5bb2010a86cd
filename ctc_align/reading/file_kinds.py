"""Recognise the kind of a file by its content, and say what to do if a different kind was expected.

Error messages about files of the wrong kind use this table. Transcripts are recognised in
`ctc_align.files.transcripts`, log-probs in `ctc_align.models.log_probs`, and corpora in
`ctc_align.sources`. The extension never decides: a PDF called talk.txt is a PDF, and a text
called talk.doc is a text.
"""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ctc_align.reading import parse_json
from ctc_align.types import FORMAT

HEAD_BYTES = 65536
"""The number of bytes from a file's start that are examined."""
RECORDING_ROLE, TEXT_ROLE = "recording", "text"
_DOCUMENTS = (
    ".txt",
    ".srt",
    ".vtt",
    ".lab",
    ".epub",
    ".md",
    ".rtf",
    ".pdf",
    ".doc",
    ".docx",
    ".odt",
    ".html",
    ".htm",
)
"""Extensions of texts, whatever they contain."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file.

    It has a `name`, with its article, and what to do where something else was expected.

    `as_transcript` and `as_recording` say that for a transcript and for a recording; both may be
    "".
    """

    name: str
    as_transcript: str = ""
    as_recording: str = ""

    @property
    def not_a_recording(self) -> str:
        """The name, with what to do if a recording was expected."""
        if self.as_recording:
            return f"{self.name}: {self.as_recording}"
        return self.name


_AS_TEXT = "save its text as a plain text file in UTF-8"
_UNPACK = "unpack it and name the text file in it, or save a document as plain text in UTF-8"
_UNPACK_SOUND = "unpack it first"
_RECORDING = "a recording goes before its transcript: ctc-align AUDIO TRANSCRIPT"
_AS_SRT = "convert it to SRT or VTT, which are read with their times"
_TYPE = "type its text into a plain text file in UTF-8"
_ONE_OF_THEM = "it only names recordings; give one of them"
_LOG_PROBS = "log-probs need the extension .npy, --vocab and --frame-shift"
ZIP = b"PK\x03\x04"
_NEITHER: tuple[tuple[tuple[bytes, ...], FileKind], ...] = (
    ((b"%PDF-",), FileKind("a PDF document", f"{_AS_TEXT} (pdftotext FILE.pdf FILE.txt)")),
    ((b"{\\rtf",), FileKind("an RTF document", f"{_AS_TEXT}, in a word processor")),
    (
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",),
        FileKind("a Word document (.doc)", f"{_AS_TEXT}, in a word processor"),
    ),
    (
        (b"\x1f\x8b",),
        FileKind("a gzip archive", "unpack it (gunzip) and name the text file", _UNPACK_SOUND),
    ),
    (
        (b"BZh91AY",),
        FileKind("a bzip2 archive", "unpack it (bunzip2) and name the text file", _UNPACK_SOUND),
    ),
    (
        (b"\xfd7zXZ\x00",),
        FileKind("an xz archive", "unpack it (unxz) and name the text file", _UNPACK_SOUND),
    ),
    ((b"7z\xbc\xaf\x27\x1c",), FileKind("a 7z archive", _UNPACK, _UNPACK_SOUND)),
    ((b"\x93NUMPY",), FileKind("an array of NumPy, perhaps log-probs", _RECORDING, _LOG_PROBS)),
    ((b"\x89PNG",), FileKind("a picture (PNG)", _TYPE)),
    ((b"\xff\xd8\xff",), FileKind("a picture (JPEG)", _TYPE)),
    ((b"GIF8",), FileKind("a picture (GIF)", _TYPE)),
    ((b"II*\0", b"MM\0*"), FileKind("a picture (TIFF)", _TYPE)),
    ((b"8BPS",), FileKind("a picture (Photoshop)", _TYPE)),
    (
        (b"437STL", b"850STL", b"860STL", b"863STL", b"865STL"),
        FileKind(
            "subtitles in EBU STL",
            f"{_AS_SRT} (package ttconv: tt convert -i FILE.stl -o FILE.srt)",
        ),
    ),
)
"""Files that are neither a transcript nor a recording, by their first bytes."""
_NO_RECORDING: tuple[tuple[tuple[bytes, ...], FileKind], ...] = (
    ((b"#EXTM3U", b"[playlist]"), FileKind("a playlist", as_recording=_ONE_OF_THEM)),
    ((b"ffconcat",), FileKind("a list of files", as_recording=_ONE_OF_THEM)),
    ((b"v=0\r\n", b"v=0\n"), FileKind("a session description (SDP), not sound")),
    ((b"BM",), FileKind("a picture (BMP)")),
    ((b"Rar!",), FileKind("a RAR archive", as_recording=_UNPACK_SOUND)),
    ((b"MThd",), FileKind("MIDI: notes, not sound")),
    ((b"SQLite format",), FileKind("a database (SQLite)")),
    ((b"\x7fELF",), FileKind("a program")),
)
"""Files that are not recordings, but may be texts that begin in the same way."""
_SOUND_FILE_STARTS = (
    *(
        b"RIFF",
        b"RIFX",
        b"RF64",
        b"BW64",
        b"riff",
        b"FORM",
        b"fLaC",
        b"OggS",
        b".snd",
        b"dns.",
        b"caff",
        b"NIST_1A",
    ),
    *(
        b"Creative Voice File",
        b" paf",
        b"fap ",
        b"PVF1",
        b"2BIT",
        b"Extended Instrument",
        b"MATLAB",
        b"ALawSoundFile",
    ),
    *(
        b"\x64\xa3\x01\x00",
        b"\x00\x01\xa3\x64",
        b"\x64\xa3\x02\x00",
        b"\x00\x02\xa3\x64",
        b"\x64\xa3\x03\x00",
    ),
)
"""Recordings for which libsndfile is tried first; FFmpeg reads all others."""
_SOUND_STARTS = (
    b"\x1aE\xdf\xa3",
    b"#!AMR",
    b"0&\xb2u\x8ef\xcf\x11",
    b"NIST_1A",
    b"FLV\x01",
    b"riff\x2e\x91\xcf\x11",
)
"""Signatures of recordings with which no text begins."""
_SOUND_WORDS = (
    b"RIFF",
    b"RF64",
    b"fLaC",
    b"OggS",
    b"ID3",
    b"FORM",
    b"caff",
    b".snd",
    b"MAC ",
    b"wvpk",
)
"""Words that a text may begin with, too: a file of sound has a zero byte soon after them."""
_ZIPPED = (
    ("word/", FileKind("a Word document (.docx)", f"{_AS_TEXT}, in a word processor")),
    ("xl/", FileKind("an Excel workbook (.xlsx)", f"{_AS_TEXT}, or as CSV for ctc-align corpus")),
    ("ppt/", FileKind("a PowerPoint presentation (.pptx)", _AS_TEXT)),
)
_MIMETYPES = (
    (
        b"application/vnd.oasis.opendocument",
        FileKind("an OpenDocument text (.odt)", f"{_AS_TEXT}, in a word processor"),
    ),
)
_MPEG_FRAME = re.compile(
    rb"\xff[\xe2-\xfd\xff][\x10-\xef].", re.DOTALL
)  # FF FE begins a text in UTF-16


def is_sound(head: bytes) -> bool:
    """Return whether a file that starts with `head` is a sound or video file, by its signature.

    >>> is_sound(b"fLaC\\0"), is_sound(b"Hello")
    (True, False)
    """
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return False
    if head.startswith(_SOUND_STARTS) or head[4:8] == b"ftyp":
        return True
    if b"\0" in head[:64] and head.startswith(_SOUND_WORDS):
        return True
    is_transport_stream = head[:1] == head[188:189] == b"G" and b"\0" in head
    return is_transport_stream or _MPEG_FRAME.match(head) is not None


def is_sound_file(head: bytes) -> bool:
    """Return whether libsndfile is tried first for a file that starts with `head`."""
    if head[:4] == b"RIFF":
        return head[8:12] == b"WAVE"
    if head[:4] == b"FORM":
        return head[8:12] in (b"AIFF", b"AIFC", b"8SVX", b"16SV")
    return head.startswith(_SOUND_FILE_STARTS)


def non_text_kind(data: bytes) -> FileKind | None:
    """Return the kind of a file that is not text; None if it may be text in some encoding.

    >>> non_text_kind(b"%PDF-1.7 ...").name
    'a PDF document'
    """
    kind = _kind_of_start(data, _NEITHER) or _picture_in_container(data)
    if kind is None and data.startswith(ZIP):
        return _zipped(data)
    if kind is None and is_sound(data[:HEAD_BYTES]):
        return FileKind("a sound or video file", _RECORDING)
    return kind


def non_audio_kind(head: bytes) -> FileKind | None:
    """Return the kind of a file that is not a recording.

    Return None if `head`, its first bytes, does not tell.

    >>> non_audio_kind(b"GIF89a").name, non_audio_kind(b"Once upon a time").name, non_audio_kind(bytes([0, 1]))
    ('a picture (GIF)', 'a text file', None)
    """
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    kind = _picture_in_container(head) or _kind_of_start(start, (*_NEITHER, *_NO_RECORDING))
    if kind is not None:
        return kind
    if start.startswith(ZIP):
        return _zipped(head)
    if start[:14].lower().startswith((b"<!doctype html", b"<html")):
        return _HTML
    return FileKind("a text file") if _is_text(head) else None


def _kind_of_start(
    data: bytes, table: tuple[tuple[tuple[bytes, ...], FileKind], ...]
) -> FileKind | None:
    return next((kind for starts, kind in table if data.startswith(starts)), None)


def _picture_in_container(data: bytes) -> FileKind | None:
    """Return the kind of a picture in a container of sound and video: RIFF, or that of MP4."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return FileKind("a picture (WebP)", _TYPE)
    if data[4:8] == b"ftyp" and data[8:12] in (b"heic", b"heix", b"avif", b"mif1"):
        return FileKind("a picture (HEIF)", _TYPE)
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


def likely_role(head: bytes, suffix: str) -> str:
    """Return `RECORDING_ROLE` or `TEXT_ROLE` for what a file is likely meant as.

    Return "" if its start does not say.

    >>> likely_role(b"NIST_1A", ".txt"), likely_role(b"So be it.", ".wav"), likely_role(b"RIFF", ".wav")
    ('recording', 'text', '')
    """
    if is_sound(head):
        return RECORDING_ROLE
    if not head.strip() or head.startswith(_SOUND_WORDS):
        return ""
    if suffix.casefold() in _DOCUMENTS:
        is_document = TEXT_ROLE
    else:
        is_document = ""
    if non_text_kind(head) is not None:
        return is_document
    if len(head) < HEAD_BYTES:
        whole_lines = head
    else:
        whole_lines = head[: head.rfind(b"\n") + 1]
    is_text = bool(marked_encoding(whole_lines) or wide_encoding(whole_lines)) or is_utf8(
        whole_lines
    )
    return TEXT_ROLE if is_text else is_document


def is_utf8(data: bytes) -> bool:
    """Return whether the bytes are text in UTF-8 without zero bytes."""
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _zipped(data: bytes) -> FileKind:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            with archive.open("mimetype") if "mimetype" in names else io.BytesIO() as file:
                mimetype = file.read(100)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        ValueError,
    ):
        names = []
        mimetype = b""
    for start, kind in _MIMETYPES:
        if mimetype.startswith(start):
            return kind
    for folder, kind in _ZIPPED:
        if any(name.startswith(folder) for name in names):
            return kind
    return FileKind("a ZIP archive", _UNPACK, "unpack it first, if it holds a recording")


_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The marks with which texts begin, the longer ones first, and the codecs that obey and remove
them."""


def marked_encoding(data: bytes) -> str:
    """Return Python's codec for a text that begins with a byte order mark, "" for any other.

    >>> marked_encoding("\ufeffHello".encode("utf-16-be")), marked_encoding(b"Hello")
    ('utf-16', '')
    """
    return next((codec for mark, codec in _BYTE_ORDER_MARKS if data.startswith(mark)), "")


_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")


def wide_encoding(head: bytes) -> str:
    """Return the codec, UTF-16 or UTF-32, of a text without a byte order mark.

    Return "" if neither is likely.

    >>> wide_encoding("Hello, world".encode("utf-16-be")), wide_encoding("Grüße".encode())
    ('utf-16-be', '')
    """
    head = head[:HEAD_BYTES]
    if len(head) < 4:
        return ""
    if b"\0" not in head:
        try:
            head.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start < len(head) - 3:  # else the head ends within a character
                shares = {codec: _text_share(head, codec) for codec in ("utf-16-le", "utf-16-be")}
                best = max(shares, key=shares.__getitem__)
                if shares[best] > 0.95 and _is_asian(head, best):
                    return best
                return ""
        return ""
    shares = {codec: _text_share(head, codec) for codec in _WIDE}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] > 0.9 else ""


def _text_share(head: bytes, codec: str) -> float:
    """Return the share of the characters that a text would have; common ones count most."""
    width = 4 if "32" in codec else 2
    try:
        text = head[: len(head) // width * width].decode(codec)
    except UnicodeDecodeError as error:
        if error.start < len(head) - 8:
            return 0.0
        text = head[: error.start].decode(codec)
    good = sum(
        character in "\n\r\t" or unicodedata.category(character)[0] in "LMNPZS"
        for character in text
    )
    common = sum(character in " \n.,'" or character.isascii() for character in text)
    return good / max(1, len(text)) + 1e-3 * common / max(1, len(text)) - 1e-3


def _is_asian(head: bytes, codec: str) -> bool:
    """Return whether the head is Chinese or Japanese in this encoding.

    It is if their full stops or kana are in it.
    """
    text = head[: len(head) // 2 * 2].decode(codec, "ignore")
    letters = [character for character in text if character.isalpha()]
    known = sum(
        "\u3040" <= character <= "\u30ff" or "\u4e00" <= character <= "\u9fff"
        for character in letters
    )
    return known > 0.95 * len(letters) and any(
        "\u3000" <= character <= "\u30ff" for character in text
    )


_TO_TEXT = "write its words alone into a text file"
_CTM_LINE = re.compile(
    r"\S+[ \t]+\S+[ \t]+\d+(?:\.\d+)?[ \t]+\d+(?:\.\d+)?[ \t]+\S+(?:[ \t]+\S+){0,3}\s*"
)
_LABEL_LINE = re.compile(r"\d+(?:\.\d+)?\t\d+(?:\.\d+)?\t.*")
_SAMPLE_LINE = re.compile(r"(\d{1,15})[ \t]+(\d{1,15})[ \t]+\S+(?:[ \t]+-?\d+(?:\.\d+)?)?\s*")
"""A line of TIMIT's labels (.WRD, .PHN), or of others in whole units."""
_FEWEST_SAMPLE_LINES = 3
_HTML = FileKind("an HTML page", f"open it in a browser and {_AS_TEXT}")
_MARKED = (
    (re.compile(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html\b)", re.IGNORECASE | re.DOTALL),
     _HTML),
    (re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:\w+:)?tt\b"),
     FileKind("subtitles in TTML", f"{_AS_SRT} (package ttconv: tt convert -i FILE.ttml -o FILE.srt)")),
    (re.compile(r"\s*<\?xml"), FileKind("an XML file", _AS_TEXT)),
    (re.compile(r"\s*\[Script Info\]", re.IGNORECASE),
     FileKind("subtitles in ASS or SSA", f"{_AS_SRT} (ffmpeg -i FILE.ass FILE.srt)")),
    (re.compile(r"\s*<sami\b", re.IGNORECASE),
     FileKind("subtitles in SAMI", f"{_AS_SRT} (ffmpeg -i FILE.smi FILE.srt)")),
    (re.compile(r"\s*Scenarist_SCC"), FileKind("captions in SCC", f"{_AS_SRT} (ffmpeg -i FILE.scc FILE.srt)")),
    (re.compile(r"(?:\s*(?://|\$).*\n)*\s*\d\d:\d\d:\d\d:\d\d[ \t]*,[ \t]*\d\d:\d\d:\d\d:\d\d[ \t]*,"),
     FileKind("subtitles in Spruce STL", f"{_AS_SRT} (ffmpeg -i FILE.stl FILE.srt)")),
    (re.compile(r"\s*\{\d+\}\{\d+\}.*\n\s*\{\d+\}\{\d+\}"), FileKind("subtitles in MicroDVD", _AS_SRT)),
    (re.compile(r"(?=[^\n]*\b(?:start_s|audio(?:_\w+)?|wav(?:_\w+)?|(?:file_?)?path|file_?name|file)\b)"
                r'"?[A-Za-z]\w{0,40}"?([,;\t])"?[A-Za-z]\w{0,40}"?(?:\1"?[A-Za-z]\w{0,40}"?)*\r?\n[^\n]*\1',
                re.IGNORECASE),
     FileKind("a table (CSV or TSV)", f"{_TO_TEXT}; of many recordings: ctc-align corpus TABLE")),
    (re.compile(r"\s*(?:#[A-Z0-9]{1,40}:[^\n]{0,500}\n+){1,60}[:*FRG] -?\d{1,9} \d{1,9} -?\d{1,9} "),
     FileKind("a song of UltraStar", "write its lyrics alone into a text file, with whole words")),
)  # fmt: skip


def structured_text_kind(text: str) -> FileKind | None:
    """Return the kind of a decoded file that is markup or data.

    Return None for running text, with tags or not.

    >>> structured_text_kind("<!DOCTYPE html><p>Hello").name, structured_text_kind("She said <i>hello</i>.")
    ('an HTML page', None)
    """
    head = text[:HEAD_BYTES]
    for pattern, kind in _MARKED:
        if pattern.match(head):
            return kind
    if head.lstrip()[:1] in ("{", "["):
        return _json_kind(text)
    lines = [line for line in islice(head.splitlines(), 200) if line.strip()]
    rows = [line for line in lines if not line.startswith(";;")]
    if len(rows) > 1 or len(rows) < len(lines):
        if rows and all(map(_CTM_LINE.fullmatch, rows)):
            return FileKind("a CTM file", _TO_TEXT)
        if rows and (all(map(_LABEL_LINE.fullmatch, rows)) or _are_sample_labels(rows)):
            return FileKind("a file of labels with times", _TO_TEXT)
    return None


def _are_sample_labels(rows: Sequence[str]) -> bool:
    """Return whether rows are "start end label", in whole units that ascend.

    >>> _are_sample_labels(["0 226 h#", "226 414 sh", "414 518 iy"]), _are_sample_labels(["9 8 a", "7 6 b", "4 3 c"])
    (True, False)
    >>> _are_sample_labels(["0 " + "9" * 5000 + " a"] * 3)
    False
    """
    found = [match for match in map(_SAMPLE_LINE.fullmatch, rows) if match]
    times = [int(number) for match in found for number in match.groups()]
    return len(found) == len(rows) >= _FEWEST_SAMPLE_LINES and times == sorted(times)


def _json_kind(text: str) -> FileKind | None:
    try:
        data = parse_json(text)
    except ValueError:
        return _lines_kind(text)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return FileKind(
            "an alignment of ctc-align (JSON)",
            'its transcript is its "text": write that into a text file',
        )
    if isinstance(data, dict) and "audio_filepath" in data:
        return FileKind(
            "a manifest", "for many recordings: ctc-align corpus MANIFEST --out-dir DIR"
        )
    if isinstance(data, dict) and isinstance(data.get("text"), str):
        return FileKind(
            "a JSON file", 'its transcript seems to be its "text": write that into a text file'
        )
    if isinstance(data, (dict, list)) and data:
        return FileKind("a JSON file", _TO_TEXT)
    return None


def _lines_kind(text: str) -> FileKind | None:
    """Return the kind of a file of JSON objects, one per line."""
    lines = [line for line in islice(text.splitlines(), 3) if line.strip()]
    try:
        objects = [parse_json(line) for line in lines]
    except ValueError:
        return None
    if lines and all(isinstance(data, dict) for data in objects):
        return FileKind(
            "a manifest (JSONL)", "for many recordings: ctc-align corpus MANIFEST --out-dir DIR"
        )
    return None
