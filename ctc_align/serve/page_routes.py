"""Addresses for people: the app, the page of an alignment, its recording, and the list of a folder."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctc_align.errors import CtcAlignError
from ctc_align.files import Alignment
from ctc_align.serve.access import page_policy
from ctc_align.serve.align_routes import AlignRoutes, limiter_of
from ctc_align.serve.alignment_folder import AlignmentFolder
from ctc_align.serve.openapi import api_description, docs_page
from ctc_align.serve.refusals import RefusedError, refusal_of
from ctc_align.serve.request_fields import checked_format
from ctc_align.serve.uploads import Form, Upload, UploadFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio import CapacityLimiter
    from starlette.requests import Request
    from starlette.responses import Response

APP = Path(__file__).with_name("app.html")
AS_IT_IS = (".wav", ".flac", ".ogg", ".oga", ".opus")
"""Recordings that browsers play by the clock by which they were aligned; all others are coded anew."""
MOST_CODED = 8
"""So many recordings are kept coded anew."""
SOUNDS = 8
"""Recordings that are looked at, or coded anew, at a time; all else need not wait for them."""
CODED = "coded"
PEAKS_RATE = 8000


class PageRoutes:
    """The handlers, with the folder and the jobs that they show.

    Args:
        routes: those of programs.
        folder: of alignments; None where the server has none.
    """

    def __init__(self, routes: AlignRoutes, folder: AlignmentFolder | None) -> None:
        self.routes, self._folder = routes, folder
        self._sounds = CodedRecordings(routes.uploads)

    @cached_property
    def _app(self) -> tuple[str, str]:
        html = APP.read_text(encoding="utf-8")
        return html, page_policy(html)

    async def app(self, request: Request) -> Response:
        """Answer with the app."""
        return _html(*self._app)

    async def docs(self, request: Request) -> Response:
        """Answer with a page about all addresses."""
        html = docs_page(api_description())
        return _html(html, page_policy(html))

    async def openapi(self, request: Request) -> Response:
        """Answer with the description of the API for programs."""
        from starlette.responses import JSONResponse

        return JSONResponse(api_description())

    async def alignments(self, request: Request) -> Response:
        """Answer with the figures of all alignments of the folder, the worst first."""
        from starlette.responses import JSONResponse

        if self._folder is None:
            return JSONResponse({"folder": False, "alignments": [], "truncated": False})
        rows, truncated = await self._work(self._folder.rows)
        return JSONResponse({"folder": True, "alignments": rows, "truncated": truncated})

    async def alignment(self, request: Request) -> Response:
        """Answer with an alignment of the folder, in a format."""
        format = checked_format(request.query_params.get("format", "json"))
        name = request.path_params["id"]
        _, alignment = await self._work(self.folder.read, name)
        audio = await self._work(self.folder.audio, name, alignment)
        return await self.routes.in_format(alignment, format, name, audio, self._names)

    async def save(self, request: Request) -> Response:
        """Replace an alignment of the folder by what a person made of it."""
        from starlette.responses import JSONResponse

        name, data = request.path_params["id"], await self.routes.read_json(request)
        await self._work(self.folder.save, name, data)
        return JSONResponse({"saved": name})

    async def view(self, request: Request) -> Response:
        """Answer with the page of an alignment of the folder."""
        name = request.path_params["id"]
        _, alignment = await self._work(self.folder.read, name)
        audio = await self._work(self.folder.audio, name, alignment)
        there = quote(name)
        sound = None if audio is None else (audio, audio.name)
        hrefs = f"/api/audio/{there}", f"/api/alignments/{there}", f"/api/realign/{there}"
        made = await self._work(_page, alignment, name, sound, hrefs, limiter=self.routes.pages)
        return _html(made, page_policy(made))

    async def audio(self, request: Request) -> Response:
        """Answer with the recording of an alignment of the folder, or a part of it (Range)."""
        name = request.path_params["id"]
        _, path = await self.alignment_and_recording(name)
        return await self._work(self._sounds.response, path, path.name, limiter=self._sound_threads)

    async def alignment_and_recording(self, name: str) -> tuple[Alignment, Path]:
        """Return an alignment of the folder, and its recording.

        Raises:
            RefusedError: 404, one of them is not there.
        """
        _, alignment = await self._work(self.folder.read, name)
        path = await self._work(self.folder.audio, name, alignment)
        if path is None:
            raise RefusedError(404, f"{name}: its recording is not in the folder; see the option --audio of serve")
        return alignment, path

    async def job_page(self, request: Request) -> Response:
        """Answer with the page of a finished job."""
        job = self.routes.finished_job(request)
        there = f"/jobs/{job.id}"
        sound = job.audio.path, job.audio.filename
        hrefs = f"{there}/audio", f"{there}/alignment", f"{there}/realign"
        made = await self._work(_page, job.result, job.name, sound, hrefs, names=job.names, limiter=self.routes.pages)
        return _html(made, page_policy(made))

    async def keep_job(self, request: Request) -> Response:
        """Put the result and the recording of a finished job into the folder."""
        from starlette.responses import JSONResponse

        job = self.routes.finished_job(request)
        name = await self._work(self.folder.keep, job.result, job.audio.path, job.audio.filename)
        return JSONResponse({"id": name}, 201, {"Location": f"/api/alignments/{quote(name)}"})

    async def job_audio(self, request: Request) -> Response:
        """Answer with the recording of a finished job, or a part of it."""
        job = self.routes.finished_job(request)
        given = job.audio.path, job.audio.filename, job.form
        return await self._work(self._sounds.response, *given, names=job.names, limiter=self._sound_threads)

    @property
    def folder(self) -> AlignmentFolder:
        """The folder of alignments.

        Raises:
            RefusedError: 404, the server was started without one.
        """
        if self._folder is None:
            raise RefusedError(404, "this server has no folder of alignments: start it with ctc-align serve FOLDER")
        return self._folder

    @property
    def _names(self) -> dict[str, str]:
        """The names by which errors call the files of the folder: their paths in it."""
        roots = [] if self._folder is None else self._folder.audio_roots
        return {f"{root}{os.sep}": "" for root in roots}

    @cached_property
    def _sound_threads(self) -> CapacityLimiter:
        return limiter_of(SOUNDS)

    async def _work(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        names: Mapping[str, str] | None = None,
        limiter: CapacityLimiter | None = None,
    ) -> Any:
        """Call in another thread; its errors name nothing outside the folder, and what has `names` by them."""
        import anyio

        try:
            return await anyio.to_thread.run_sync(call, *arguments, limiter=limiter)
        except CtcAlignError as error:
            raise refusal_of(error, {**(names or {}), **self._names}) from error


def _html(html: str, policy: str) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(html, headers={"content-security-policy": policy})


def _page(alignment: Alignment, name: str, audio: tuple[Path, str] | None, hrefs: tuple[str, str, str]) -> str:
    """Return the page of an alignment, with its sound, a file and its name.

    `hrefs` are where the browser gets the sound, saves, and has corrections aligned again; without sound it does not.
    """
    from ctc_align.audio.loading import load_segment
    from ctc_align.files.pages import channel_of, page_object
    from ctc_align.view.page import PageServer, PageSound, page, peaks_of

    sound = None
    if audio is not None:
        heard = load_segment(
            audio[0],
            PEAKS_RATE,
            offset_s=alignment.offset_s,
            duration_s=alignment.duration_s if alignment.offset_s else None,
            channel=channel_of(alignment),
            on_disk=True,
        )
        sound = PageSound.link(hrefs[0], mime=_mime(audio[1]), start_s=alignment.offset_s, peaks=peaks_of(heard))
    server = PageServer(hrefs[1], None if sound is None else hrefs[2], "/")
    return page(page_object(alignment), name=name, sound=sound, server=server)


def _mime(name: str) -> str:
    from ctc_align.view.page import OPUS, played_type

    return (played_type(name) or OPUS) if Path(name).suffix.casefold() in AS_IT_IS else OPUS


class CodedRecordings:
    """Recordings that browsers do not play, or by another clock, coded as Opus; they lie among the uploads.

    Args:
        uploads: whose folder they lie in, and whose limit they count in.
    """

    def __init__(self, uploads: UploadFolder) -> None:
        self.uploads = uploads
        self._coded: dict[tuple[str, int, int], Form] = {}
        self._coding = threading.Lock()

    def response(self, path: Path, name: str, form: Form | None = None) -> Response:
        """Return a recording, called `name`, as a response that knows ranges.

        Args:
            form: that the recording came with, and with which what is coded is removed; None: a file of the folder.

        Raises:
            AudioError: it is no recording.
            RefusedError: 503, there is no room for it.
        """
        from starlette.responses import FileResponse

        from ctc_align.audio.loading import estimated_duration_s

        estimated_duration_s(path)
        mime = _mime(name)
        if Path(name).suffix.casefold() not in AS_IT_IS:
            with self._coding:
                coded = self._coded_in(form or self._form_of(path), path)
            path, mime = coded.path, coded.filename
        return FileResponse(path, media_type=mime, content_disposition_type="inline")

    def _form_of(self, path: Path) -> Form:
        """Return where the coded file of a recording of the folder is, or will be; the oldest others are removed."""
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
