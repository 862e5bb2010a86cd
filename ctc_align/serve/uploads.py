"""Uploads: multipart forms, within limits.

They are written to a private folder as they arrive, and removed afterwards. Recordings that are
encoded for browsers lie beside them. A running server holds a lock on its folder; the next server
removes folders without a lock, left by killed servers.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import zipfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ctc_align.machine.own_folders import own_folder
from ctc_align.reading import parsed_memory
from ctc_align.serve.access import RefusedError
from ctc_align.text.characters import printable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PREFIX = "ctc-align-serve-"
MOST_PARTS = 200
MOST_NAME = 200
FIELD_CHARS = 1000
"""Characters of a field that is not a text."""
FIELD_BYTES_EACH = 4
MOST_FIELDS = 2**20
"""Bytes of all fields of a form that are not texts."""
MOST_BYTES = 2**26
"""Bytes of a transcript other than a book, and of an alignment that is saved, or listed."""
RESERVE_BYTES = 2**28
"""Bytes above the limit of all uploads, for corrections and recoded recordings."""
MOST_PARSED = 2**29
"""Memory that a transcript other than a book, or a JSON text, may take once it is parsed."""
SLOW_S, LEAST_PER_S = 30.0, 4000.0
"""The seconds that a body may take besides those for its bytes, and its fewest bytes a second."""
TEXTS = ("text",)
IN_USE = (
    "have corrections, are checked, or were used in the last hour: keep them in FOLDER or download"
    " them, then remove what you no longer need (DELETE /jobs/ID)"
)
"""Why nothing is removed for a new recording, and what a person can do."""


class UploadFolder:
    """A folder for uploads that only this user can read, and the number of `bytes` in it.

    Args:
        most_bytes: of all files in it together.
        make_room: called when it is full; returns False if nothing could be removed.
    """

    def __init__(self, most_bytes: int, make_room: Callable[[], bool] = lambda: False) -> None:
        self.most_bytes = most_bytes
        self.make_room = make_room
        self.bytes = 0
        self._changed = threading.Lock()
        self._held = ExitStack()
        self.path = self._held.enter_context(own_folder(PREFIX))

    def new_file(self) -> Path:
        """Return an unused path."""
        return self.path / secrets.token_hex(16)

    def charge(self, count: int, reserve: int = 0) -> None:
        """Count bytes that are about to be written; `reserve` is what they may exceed the limit by.

        Raises:
            RefusedError: 503, there are too many, together with those of other requests, and none
                may be removed.
        """
        while True:
            with self._changed:
                if self.bytes + count <= self.most_bytes + reserve:
                    self.bytes += count
                    return
            if not self.make_room():
                raise RefusedError(
                    503,
                    f"the recordings on the server have {self.most_bytes / 1e9:.1f} GB together,"
                    f" the most that it may store, and all of them wait, {IN_USE}",
                    {"Retry-After": "30"},
                )

    def release(self, count: int) -> None:
        """Count bytes that were removed."""
        with self._changed:
            self.bytes -= count

    def close(self) -> None:
        """Remove the folder with its contents."""
        self._held.close()


@dataclass
class Upload:
    """A file that a client sent: its path, the client's name for it, and its number of bytes."""

    path: Path
    filename: str
    size: int = 0


def checked_content(upload: Upload) -> bytes:
    """Return the bytes of a file that will be parsed in memory.

    Raises:
        RefusedError: 413, it is too large for that, or has too many parts.
    """
    if upload.size > MOST_BYTES and not zipfile.is_zipfile(upload.path):
        raise RefusedError(413, f"{upload.filename}: expected at most {MOST_BYTES >> 20} MiB")
    data = upload.path.read_bytes()
    if not data.startswith(b"PK") and parsed_memory(data) > MOST_PARSED:
        raise RefusedError(
            413,
            f"{upload.filename}: expected at most {MOST_PARSED >> 20} MiB of memory for its parts",
        )
    return data


@dataclass
class Form:
    """The parts of a form: fields, each with all its values, and files."""

    folder: UploadFolder
    fields: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)
    is_removed: bool = False
    _removing: threading.Lock = field(default_factory=threading.Lock)

    async def receive(
        self, name: str, request: Request, most_bytes: int, refusal: RefusedError
    ) -> None:
        """Write the body of a request to a file.

        It raises `refusal` if the body has more than `most_bytes`.
        """
        upload = self.files[name] = Upload(self.folder.new_file(), name)
        with open(upload.path, "xb") as file:
            async for chunk in _body(request, most_bytes, refusal):
                self.folder.charge(len(chunk), RESERVE_BYTES)
                upload.size += len(chunk)
                file.write(chunk)

    def add(self, name: str, filename: str, data: bytes) -> None:
        """Add a file beside those of the client; it is removed with them.

        Raises:
            RefusedError: 503, there is no room for it; 404, they were removed.
        """
        self.folder.charge(len(data), RESERVE_BYTES)
        upload = self.files[name] = Upload(self.folder.new_file(), filename, len(data))
        upload.path.write_bytes(data)
        if self.is_removed:
            self.remove()
            raise RefusedError(404, "this recording was removed")

    def remove(self) -> None:
        """Remove the files; a second call does nothing."""
        self.is_removed = True
        for upload in list(self.files.values()):
            with suppress(OSError):
                upload.path.unlink(missing_ok=True)
            with self._removing:
                size = upload.size
                upload.size = 0
            self.folder.release(size)

    @property
    def names(self) -> dict[str, str]:
        """The paths of the files, and what the client calls them."""
        return {str(upload.path): upload.filename for upload in self.files.values()}


def checked_filename(name: str, part: str) -> str:
    r"""Return the last part of a file name, without control characters.

    If it is empty, return the name of the form's part.

    >>> checked_filename("C:\\Users\\me\\talk.wav", "audio"), checked_filename("../../etc/passwd", "audio")
    ('talk.wav', 'passwd')
    """
    last = re.split(r"[/\\]", name)[-1].strip()
    shown = printable(last.replace("\0", ""))
    if len(shown) > MOST_NAME:
        stem, suffix = os.path.splitext(shown)
        shown = stem[: MOST_NAME - 20] + suffix[:20]
    return shown if shown.strip(". ") else part


async def read_form(
    request: Request,
    folder: UploadFolder,
    most_bytes: int,
    text_chars: int,
    files: Mapping[str, str],
) -> Form:
    """Read a form of several parts (multipart/form-data), its files to `folder`.

    Args:
        most_bytes: of the whole body.
        text_chars: of a field that is a text.
        files: names of the parts that are files → their keys in `Form.files`.

    Raises:
        RefusedError: 415 the body is of a different kind, 413 too large, 400 broken or with unknown
            parts.
    """
    from python_multipart.exceptions import FormParserError

    form = Form(folder)
    parts = _FormParts(form, text_chars, files)
    refusal = RefusedError(
        413, f"expected at most {most_bytes / 1e6:.0f} MB in one request; send a smaller recording"
    )
    try:
        parser = parts.parser(request.headers.get("content-type", ""))
        async for chunk in _body(request, most_bytes, refusal):
            parser.write(chunk)
        parser.finalize()
        parts.check_end()
    except FormParserError:
        form.remove()
        raise RefusedError(400, "the form is broken: expected multipart/form-data, whole") from None
    except BaseException:
        form.remove()
        raise
    finally:
        parts.close()
    return form


async def _body(request: Request, most_bytes: int, refusal: RefusedError) -> AsyncIterator[bytes]:
    """Yield the pieces of a request's body.

    It raises `refusal` as soon as the body is known to have more than `most_bytes`.
    """
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:18]) > most_bytes:
        raise refusal
    import anyio

    received = 0
    began_s = anyio.current_time()
    pieces = request.stream()
    while True:
        try:
            with anyio.fail_after(began_s + SLOW_S + received / LEAST_PER_S - anyio.current_time()):
                chunk = await anext(pieces)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise RefusedError(
                408,
                f"expected at least {LEAST_PER_S / 1000:g} kB of the body a second, got {received}"
                " bytes in all",
            ) from None
        received += len(chunk)
        if received > most_bytes:
            raise refusal
        yield chunk


class _FormParts:
    """The parts of a form, as the parser finds them."""

    def __init__(self, form: Form, text_chars: int, files: Mapping[str, str]) -> None:
        self.form = form
        self.text_chars = text_chars
        self.files = files
        self.header = bytearray()
        self.value = bytearray()
        self.disposition = b""
        self.name = ""
        self.data = bytearray()
        self.ended = False
        self.count = self.held = 0
        self.upload: Upload | None = None
        self.file: IO[bytes] | None = None

    def parser(self, content_type: str) -> Any:
        """Return the destination of the body."""
        from python_multipart.multipart import MultipartParser, parse_options_header

        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise RefusedError(415, "expected a form (multipart/form-data), as curl -F sends it")
        names = (
            "part_begin",
            "part_data",
            "part_end",
            "header_field",
            "header_value",
            "header_end",
        )
        callbacks: Any = {
            f"on_{name}": getattr(self, name) for name in (*names, "headers_finished", "end")
        }
        return MultipartParser(options[b"boundary"], callbacks)

    def part_begin(self) -> None:
        self.count += 1
        if self.count > MOST_PARTS:
            raise RefusedError(400, f"expected at most {MOST_PARTS} parts in a form")
        self.disposition = b""
        self.data = bytearray()
        self.upload = None

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self.header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.value += data[start:end]

    def header_end(self) -> None:
        if self.header.lower() == b"content-disposition":
            self.disposition = bytes(self.value)
        self.header, self.value = bytearray(), bytearray()

    def headers_finished(self) -> None:
        from python_multipart.multipart import parse_options_header

        options = parse_options_header(self.disposition)[1]
        self.name = options.get(b"name", b"").decode("utf-8", "replace")
        key = self.files.get(self.name)
        if key is None:
            if b"filename" in options and self.name not in TEXTS:
                name = printable(self.name)[:40]
                raise RefusedError(
                    400, f"{name!r}: no such file in this form; there are {', '.join(self.files)}"
                )
            return
        if b"filename" not in options:
            raise RefusedError(
                400, f"{self.name}: expected a file, got a field; with curl: -F {self.name}=@FILE"
            )
        if key in self.form.files:
            raise RefusedError(400, f"{self.name}: expected one file, got two")
        name = checked_filename(options[b"filename"].decode("utf-8", "replace"), self.name)
        self.upload = self.form.files[key] = Upload(self.form.folder.new_file(), name)
        self.file = open(self.upload.path, "xb")  # noqa: SIM115

    def part_data(self, data: bytes, start: int, end: int) -> None:
        if self.upload is not None and self.file is not None:
            self.form.folder.charge(end - start)
            self.upload.size += end - start
            self.file.write(data[start:end])
            return
        self.data += data[start:end]
        self.held += end - start
        if self.name in TEXTS:
            most = self.text_chars
        else:
            most = FIELD_CHARS
        if (
            len(self.data) > most * FIELD_BYTES_EACH
            or self.held > self.text_chars * FIELD_BYTES_EACH + MOST_FIELDS
        ):
            status = 413 if self.name in TEXTS else 400
            raise RefusedError(
                status, f"{printable(self.name)[:40]}: expected at most {most} characters"
            )

    def part_end(self) -> None:
        self.close()
        if self.upload is None:
            try:
                text = self.data.decode("utf-8")
            except UnicodeDecodeError:
                raise RefusedError(400, f"{printable(self.name)[:40]}: expected UTF-8") from None
            self.form.fields.setdefault(self.name, []).append(text)

    def end(self) -> None:
        self.ended = True

    def check_end(self) -> None:
        """Raise RefusedError if the form ended too early."""
        if not self.ended:
            raise RefusedError(400, "the form is broken: it ends before its last boundary")

    def close(self) -> None:
        """Close the file of the current part."""
        if self.file is not None:
            self.file.close()
            self.file = None


AS_IT_IS = (".wav", ".flac", ".ogg", ".oga", ".opus")
"""Recordings that browsers play with the same clock as their alignment; all others are recoded."""
MOST_CODED = 8
"""Recoded recordings that are kept."""
CODED = "coded"


def mime_of(name: str) -> str:
    """Return the type of a recording as it is played: by its name, or that of its encoded file."""
    from ctc_align.view.page import OPUS, played_type

    if Path(name).suffix.casefold() in AS_IT_IS:
        return played_type(name) or OPUS
    return OPUS


class CodedRecordings:
    """Recordings that are encoded as Opus among the uploads.

    Browsers do not play the originals, or play them with a different clock.

    Args:
        uploads: they lie in its folder, and count towards its limit.
    """

    def __init__(self, uploads: UploadFolder) -> None:
        self.uploads = uploads
        self._coded: dict[tuple[str, int, int], Form] = {}
        self._coding = threading.Lock()

    def response(self, path: Path, name: str, form: Form | None = None) -> Response:
        """Return a recording, called `name`, as a response that supports ranges.

        Args:
            form: the one that the recording came with; the encoded file is removed with it. None: a
                file of the folder.

        Raises:
            AudioError: it is not a recording.
            RefusedError: 503, there is no room for it.
        """
        from starlette.responses import FileResponse

        from ctc_align.audio.loading import open_recording

        open_recording(str(path)).close()
        mime = mime_of(name)
        if Path(name).suffix.casefold() not in AS_IT_IS:
            with self._coding:
                coded = self._coded_in(form or self._form_of(path), path)
            path, mime = coded.path, coded.filename
        return FileResponse(path, media_type=mime, content_disposition_type="inline")

    def _form_of(self, path: Path) -> Form:
        """Return the path of the encoded file for a recording of the folder.

        The oldest others are removed.
        """
        status = path.stat()
        key = (str(path), status.st_mtime_ns, status.st_size)
        if key not in self._coded:
            self._coded[key] = Form(self.uploads)
            if len(self._coded) > MOST_CODED:
                self._coded.pop(next(iter(self._coded))).remove()
        return self._coded[key]

    def _coded_in(self, form: Form, path: Path) -> Upload:
        from ctc_align.view.page import PageSound

        if CODED not in form.files:
            sound = PageSound.file(path)
            form.add(CODED, sound.mime, sound.encoded or b"")
        return form.files[CODED]
