"""The server: the application, the address that it listens on, start and stop, and the responses.

`AlignRoutes` is for programs: /align, /score, /models, /health and jobs. `PageRoutes` is for
people: the app, pages, a folder.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

import anyio
from anyio import CapacityLimiter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from ctc_align._version import __version__
from ctc_align.errors import CtcAlignError, OutputError, UsageError
from ctc_align.files import (
    FORMATS,
    output_paths,
    rendered,
    to_dict,
)
from ctc_align.files.json_files import json_bytes, no_number
from ctc_align.reading import parse_json
from ctc_align.serve.access import (
    AccessGuard,
    LimitedConnection,
    RefusedError,
    answer_error,
    check_token,
    is_loopback,
    page_policy,
    refusal_of,
)
from ctc_align.serve.alignment_folder import (
    AlignmentFolder,
    check_tag,
    mended,
    read_correction,
    shown_name,
    words_to_check,
)
from ctc_align.serve.jobs import DONE, JobQueue, ModelWorker, ServerJob, ServerLimits, open_settings
from ctc_align.serve.openapi import api_description, docs_page
from ctc_align.serve.request_fields import (
    ALIGN,
    OTHERS_ALIGN,
    SCORE,
    FormShape,
    checked_format,
    made_job,
    paired,
    settings_again,
)
from ctc_align.serve.uploads import (
    MOST_BYTES,
    CodedRecordings,
    Form,
    Upload,
    UploadFolder,
    checked_content,
    mime_of,
    read_form,
)
from ctc_align.types import Alignment

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from ctc_align.alignment.aligner import Aligner

Result = TypeVar("Result")
ANSWERED = {"/align": ALIGN, "/score": SCORE, "/v1/audio/alignments": OTHERS_ALIGN}
END_S = 10
"""Seconds that requests have for their last bytes when the server ends."""


@dataclass(frozen=True)
class Address:
    """The host and port of a server; port 0 is any that is free.

    On loopback alone `token` may be empty, so that none is asked for.
    """

    host: str = "127.0.0.1"
    port: int = 8571
    token: str = ""

    def check(self) -> None:
        """Raise UsageError for an address that others can reach without a good token."""
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port: expected 0 to 65535, got {self.port}")
        if not self.token and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host}: others can reach this address, so it needs a token: omit"
                " --no-token"
            )
        if self.token:
            check_token(self.token)

    def open(self) -> socket.socket:
        """Return a socket that listens only on this address.

        Raises:
            UsageError: the address does not belong to this machine, or is in use.
        """
        try:
            [(family, _, _, _, where), *_] = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM
            )
            return socket.create_server(where[:2], family=family, backlog=512)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = f"{error.strerror or error}{'; choose another --port' if taken else ''}"
            raise UsageError(
                f"--host {self.host} --port {self.port}: cannot listen there: {reason}"
            ) from error


class AlignServer:
    """A server of one model, from its start to its end.

    Args:
        aligner: loaded; from now on only the server may use it.
        limits: of requests.
        folder: of alignments to view and correct, or None.
    """

    def __init__(
        self, aligner: Aligner, limits: ServerLimits, folder: AlignmentFolder | None = None
    ) -> None:

        self.queue = JobQueue(limits)
        self.uploads = UploadFolder(limits.uploads_bytes, self.queue.forget_oldest)
        self.worker = ModelWorker(aligner, self.queue)
        self.routes = AlignRoutes(aligner, self.queue, self.uploads)
        self.pages = PageRoutes(self.routes, folder)
        self._running: uvicorn.Server | None = None
        self._closed = False

    def application(self, address: Address) -> AccessGuard:
        """Return the ASGI application; the worker runs for its lifetime."""
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import Route

        routes, pages = self.routes, self.pages
        table: list[tuple[str, str, Callable[..., Any]]] = [
            ("GET", "/", pages.app),
            ("GET", "/docs", pages.docs),
            ("GET", "/openapi.json", pages.openapi),
            ("GET", "/health", routes.health),
            ("GET", "/models", routes.models),
            *(("POST", path, partial(routes.answer, shape)) for path, shape in ANSWERED.items()),
            ("GET", "/jobs", routes.jobs),
            ("POST", "/jobs", routes.new_job),
            ("GET", "/jobs/{id}", routes.job),
            ("DELETE", "/jobs/{id}", routes.delete_job),
            ("GET", "/jobs/{id}/alignment", partial(pages.alignment, pages.of_job)),
            ("PUT", "/jobs/{id}/alignment", routes.save_job),
            ("PATCH", "/jobs/{id}/alignment", routes.mend_job),
            ("POST", "/jobs/{id}/keep", pages.keep_job),
            ("POST", "/jobs/{id}/realign", partial(pages.realign, pages.of_job)),
            ("GET", "/jobs/{id}/page", partial(pages.view, pages.of_job)),
            ("GET", "/jobs/{id}/audio", partial(pages.audio, pages.of_job)),
            ("GET", "/api/alignments", pages.alignments),
            ("GET", "/api/alignments/{id:path}", partial(pages.alignment, pages.of_folder)),
            ("PUT", "/api/alignments/{id:path}", pages.save),
            ("PATCH", "/api/alignments/{id:path}", pages.mend),
            ("GET", "/api/words", pages.words),
            ("POST", "/api/pairs", pages.pairs),
            ("POST", "/api/realign/{id:path}", partial(pages.realign, pages.of_folder)),
            ("GET", "/api/audio/{id:path}", partial(pages.audio, pages.of_folder)),
            ("GET", "/view/{id:path}", partial(pages.view, pages.of_folder)),
        ]
        answer_fault = partial(answer_error, names=pages.names)
        paths: dict[str, dict[str, Callable[..., Any]]] = {}
        for method, path, handler in table:
            paths.setdefault(path, {})[method] = handler
        application = Starlette(
            routes=[
                Route(path, _by_method(handlers), methods=[*handlers])
                for path, handlers in paths.items()
            ],
            exception_handlers={
                **dict.fromkeys(
                    (HTTPException, RefusedError, CtcAlignError, Exception), answer_fault
                ),
                ClientDisconnect: _answer_gone,
            },
            lifespan=self._life,
        )
        return AccessGuard(application, address.host, address.token)

    @asynccontextmanager
    async def _life(self, _: Starlette) -> AsyncIterator[None]:
        self.worker.start()
        try:
            yield
        finally:
            self.close()

    def close(self) -> None:
        """End the worker and remove the uploads; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.queue.stop()
        if self.worker.is_alive():
            self.worker.join(END_S)
        self.uploads.close()

    def end(self) -> None:
        """Have `run` return soon; for a server in another thread."""
        if self._running is not None:
            self._running.should_exit = True

    def run(self, address: Address, listening: Callable[[str], None]) -> None:
        """Serve until SIGINT or SIGTERM.

        Then end jobs, answer open requests, and remove the uploads.

        Args:
            listening: called with the server's address in a browser, its token included, as soon as
                it can be used.

        Raises:
            UsageError: as `Address.check` and `Address.open`.
        """
        import uvicorn

        address.check()
        queue = self.queue

        class Ending(uvicorn.Server):
            """Ends the jobs with the server: requests that wait for a job are answered at once."""

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                queue.stop()
                await super().shutdown(sockets)

        try:
            with address.open() as listener:
                host, port = listener.getsockname()[:2]
                config = uvicorn.Config(
                    self.application(address),
                    log_config=None,
                    log_level="warning",
                    access_log=False,
                    http=LimitedConnection,
                    ws="none",
                    lifespan="on",
                    server_header=False,
                    proxy_headers=False,
                    timeout_graceful_shutdown=END_S,
                )
                name = f"[{host}]" if ":" in host else host
                query = f"?{urlencode({'token': address.token})}" if address.token else ""
                listening(f"http://{name}:{port}/{query}")
                self._running = Ending(config)
                self._running.run(sockets=[listener])
        finally:
            self.close()


def _by_method(handlers: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return the handler of an address, for all its methods: a refusal of others lists them."""

    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle


AT_ONCE = 4
"""How many pages are made at the same time."""
BODY = "the JSON"
MUCH_LARGER = 4
"""Corrections of so many times their alignment, and a MiB, are refused before they are read."""
APP = Path(__file__).with_name("app.html")
SOUNDS = 8
"""How many recordings are read or recoded at the same time; nothing else waits for them."""
MOST_WORDS = 500
"""Words to check that are listed at once."""
MOST_NAMES = 2**20
"""A quarter of the bytes that the names of dropped files may have."""


@dataclass(frozen=True)
class ShownAlignment:
    """An alignment of a job or of the folder.

    Attributes:
        recording: its path, and its file name; None if the folder does not have it.
        hrefs: the addresses of its recording, of itself, and for aligning it again.
        tag: its ETag.
        names: what errors call the files of the server: path → name.
        form: that the recording came with; None: it is a file of the folder.
    """

    name: str
    alignment: Alignment
    recording: Upload | None
    hrefs: tuple[str, str, str]
    tag: str
    names: Mapping[str, str]
    form: Form | None = None


Find = Callable[[Request], Awaitable[ShownAlignment]]
"""Finds the alignment that an address names."""


class AlignRoutes:
    """The handlers, with the queue, the uploads and the model that they share."""

    def __init__(self, aligner: Aligner, queue: JobQueue, uploads: UploadFolder) -> None:
        model = aligner.model
        assert model is not None
        self.queue = queue
        self.uploads = uploads
        self.settings = open_settings(aligner)
        self.model_name = model.name
        self._model = {
            "name": model.name,
            "sample_rate": model.sample_rate,
            "frame_shift_s": model.frame_shift_s,
            "language": aligner.settings.language,
            "tokens": model.token_kind,
            "vocabulary": list(model.vocab),
        }

    async def health(self, request: Request) -> Response:
        """Answer with the state of the server, and how busy it is."""
        return JSONResponse({"status": "ok", "version": __version__, "queue": self.queue.counts()})

    async def models(self, request: Request) -> Response:
        """Answer with the loaded model, the formats and the limits."""
        limits = self.queue.limits
        facts = {
            "models": [self._model],
            "formats": ALIGN.formats,
            "limits": {
                "upload_bytes": limits.upload_bytes,
                "audio_s": limits.audio_s,
                "text_chars": limits.text_chars,
                "places": limits.places,
                "work_s": limits.work_s,
            },
        }
        return JSONResponse(facts)

    async def answer(self, shape: FormShape, request: Request) -> Response:
        """Align one recording, and answer in the requested format.

        A form may ask for the losses of its transcripts instead.
        """
        job, format = await self._submitted(shape, request, keep=False)
        try:
            result = await result_of(job, request)
            if shape is SCORE:
                return JSONResponse(
                    {"utterance": job.name, "model": self.model_name, "scores": result}
                )
            if format in shape.objects:
                data = await anyio.to_thread.run_sync(
                    lambda: json_bytes(shape.objects[format](result))
                )
                return Response(data, media_type="application/json")
            return await self.in_format(_shown_job(job), format)
        finally:
            self.queue.cancel(job)
            job.form.remove()

    async def new_job(self, request: Request) -> Response:
        """Take a recording to align, and answer at once with the job."""
        job, _ = await self._submitted(ALIGN, request, keep=True)
        return JSONResponse(
            job.to_dict(self.queue.place(job)), 202, {"Location": f"/jobs/{job.id}"}
        )

    async def _submitted(
        self, shape: FormShape, request: Request, *, keep: bool
    ) -> tuple[ServerJob, str]:
        """Read a request's form into a job in the queue.

        The job's place is released with the job, or here.
        """
        if keep:
            self.queue.require_room()
        else:
            self.queue.forget_old()
        with self.queue.reserved_place():
            limits = self.queue.limits
            try:
                with anyio.fail_after(limits.work_s):
                    form = await read_form(
                        request, self.uploads, limits.upload_bytes, limits.text_chars, shape.files
                    )
            except TimeoutError:
                raise RefusedError(
                    408, f"the recording did not arrive within {limits.work_s:g} s"
                ) from None
            try:
                format = checked_format(
                    form.fields.get(shape.name("format"), shape.formats)[0], shape
                )
                limiter = self.parsing if "transcript" in form.files else None
                given = shape, form, self.settings, self.model_name, limits
                job = await anyio.to_thread.run_sync(made_job, *given, limiter=limiter)
                self.queue.submit(job, keep=keep)
            except BaseException:
                form.remove()
                raise
        return job, format

    async def jobs(self, request: Request) -> Response:
        """Answer with all kept jobs."""
        jobs = self.queue.show()
        room = {
            "jobs": len(jobs),
            "most_jobs": self.queue.limits.kept_jobs,
            "bytes": self.uploads.bytes,
            "most_bytes": self.uploads.most_bytes,
        }
        return JSONResponse(
            {"jobs": [job.to_dict(self.queue.place(job)) for job in jobs], "room": room}
        )

    async def job(self, request: Request) -> Response:
        """Answer with the progress of a job."""
        job = self.queue.find(request.path_params["id"])
        return JSONResponse(job.to_dict(self.queue.place(job)))

    async def delete_job(self, request: Request) -> Response:
        """Cancel a job, and remove its recording and its result."""
        job = self.queue.find(request.path_params["id"])
        self.queue.forget(job)
        return JSONResponse({"id": job.id, "state": job.state})

    async def save_job(self, request: Request) -> Response:
        """Replace the result of a job by a person's correction."""
        job = self.finished_job(request)
        size = await anyio.to_thread.run_sync(
            lambda: len(rendered(job.result, "json")), limiter=self.parsing
        )

        def save(data: dict[str, Any]) -> str:
            check_tag(request.headers.get("if-match"), job.tag)
            job.set_result(read_correction(data, job.result))
            job.is_corrected = True
            return job.tag  # that of this correction: the next one may have come before the answer

        return _tagged(JSONResponse({"saved": job.id}), await self.read_json(request, size, save))

    async def mend_job(self, request: Request) -> Response:
        """Change words of a job's result, or its sign-off."""
        job = self.finished_job(request)

        def mend(changes: dict[str, Any]) -> str:
            # parsing lets one thread in at a time: nothing else is changed meanwhile
            check_tag(request.headers.get("if-match"), job.tag)
            job.set_result(read_correction(mended(to_dict(job.result), changes), job.result))
            return job.tag

        tag = await self.read_json(request, 0, mend)
        return _tagged(JSONResponse(job.to_dict()), tag)

    async def read_json(
        self, request: Request, size: int, use: Callable[[dict[str, Any]], Result]
    ) -> Result:
        """Return the result of `use` for the JSON object that is a request's body.

        Bodies wait on disk; only one at a time is in memory, until `use` has ended.

        Args:
            size: of the JSON of the alignment that is corrected.

        Raises:
            RefusedError: 413 too large, 400 no JSON object, 408 it did not arrive in time.
        """
        most = min(MOST_BYTES, MUCH_LARGER * size + 2**20)
        form = Form(self.uploads)
        refusal = RefusedError(
            413, f"expected a correction of the alignment, of at most {most >> 20} MiB of JSON"
        )
        try:
            try:
                with anyio.fail_after(self.queue.limits.work_s):
                    await form.receive(BODY, request, most, refusal)
            except TimeoutError:
                raise RefusedError(
                    408, f"the JSON did not arrive within {self.queue.limits.work_s:g} s"
                ) from None
            return await anyio.to_thread.run_sync(
                lambda: use(_parsed(form.files[BODY])), limiter=self.parsing
            )
        finally:
            form.remove()

    async def in_format(self, shown: ShownAlignment, format: str) -> Response:
        """Return an alignment as the file of a format."""
        limiter = self.pages if FORMATS[format].needs_sound else None
        data = await _in_thread(_rendered, shown, format, names=shown.names, limiter=limiter)
        file = output_paths("", shown.name.rpartition("/")[2], [format])[0].name
        disposition = f"attachment; filename*=UTF-8''{quote(file, safe='')}"
        return Response(
            data,
            media_type=FORMATS[format].media_type,
            headers={"content-disposition": disposition},
        )

    @cached_property
    def parsing(self) -> CapacityLimiter:
        return CapacityLimiter(1)

    @cached_property
    def pages(self) -> CapacityLimiter:
        """The limit of how many pages are made at a time; nothing else waits for them."""
        return CapacityLimiter(AT_ONCE)

    def finished_job(self, request: Request) -> ServerJob:
        """Return the job that an address names.

        Raises:
            RefusedError: 404 no such job, 409 it is not done; if the job failed, its refusal.
        """
        job = self.queue.find(request.path_params["id"])
        if job.refusal is not None:
            raise job.refusal
        if job.state != DONE:
            raise RefusedError(409, f"the job is not done: it is {job.state}")
        return job


async def result_of(job: ServerJob, request: Request) -> Any:
    """Wait for a job's end, and return its result.

    Raises:
        RefusedError: the job's refusal.
        ClientDisconnect: the client has left before the end.
    """
    over = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell(_: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(over.set)

    job.future.add_done_callback(tell)
    waiting = [asyncio.ensure_future(over.wait()), asyncio.ensure_future(_gone(request))]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
    if not job.future.done():
        raise ClientDisconnect
    if job.refusal is not None:
        raise job.refusal
    return job.result


async def _answer_gone(request: Request, error: Exception) -> Response:
    """Return the response to a request whose client has gone; nobody receives it."""
    return Response(status_code=499)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _parsed(upload: Upload) -> dict[str, Any]:
    try:
        value = parse_json(checked_content(upload), parse_constant=no_number)
    except ValueError as error:
        raise RefusedError(400, f"expected a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(400, "expected a JSON object")
    return value


def _shown_job(job: ServerJob) -> ShownAlignment:
    there, tag = (
        f"/jobs/{job.id}",
        job.tag,
    )  # the tag before the result: another one may come meanwhile
    hrefs = f"{there}/audio", f"{there}/alignment", f"{there}/realign"
    return ShownAlignment(job.name, job.result, job.audio, hrefs, tag, job.names, job.form)


def _rendered(shown: ShownAlignment, format: str) -> bytes:
    """Return the bytes of a format; never read a recording that nobody has checked."""
    alignment = shown.alignment
    if not FORMATS[format].needs_sound:
        return rendered(alignment, format)
    if shown.recording is None:
        raise RefusedError(
            404, f"format: {format} needs the recording, which is not in the folder of this server"
        )
    from ctc_align.files.pages import embedded_stretch, page_object
    from ctc_align.view.page import MOST_EMBEDDED_BYTES, page

    sound = embedded_stretch(alignment, shown.recording.path)
    if len(sound.encoded or b"") > MOST_EMBEDDED_BYTES:
        raise RefusedError(
            413, f"format: the recording is too long for {format}, which contains it"
        )
    return page(page_object(alignment), name=alignment.utterance, sound=sound).encode("utf-8")


class PageRoutes:
    """The handlers, with the folder and the jobs that they show.

    Args:
        routes: those of programs.
        folder: of alignments; None if the server has none.
    """

    def __init__(self, routes: AlignRoutes, folder: AlignmentFolder | None) -> None:
        self.routes = routes
        self._folder = folder
        self._sounds = CodedRecordings(routes.uploads)

    @cached_property
    def _app(self) -> tuple[str, str]:
        html = APP.read_text(encoding="utf-8")
        return html, page_policy(html)

    async def app(self, request: Request) -> Response:
        """Answer with the app."""
        return _html(*self._app)

    async def docs(self, request: Request) -> Response:
        """Serve the page that documents every address."""
        html = docs_page(api_description())
        return _html(html, page_policy(html))

    async def openapi(self, request: Request) -> Response:
        """Answer with the description of the API for programs."""
        return JSONResponse(api_description())

    async def alignments(self, request: Request) -> Response:
        """Answer with the figures of all alignments of the folder, the worst first."""
        if self._folder is None:
            return JSONResponse(
                {"folder": False, "alignments": [], "truncated": False, "left_out": {}}
            )
        listing = await anyio.to_thread.run_sync(self._folder.listing)
        return JSONResponse(
            {"folder": True, "truncated": listing["left_out"]["beyond"] > 0, **listing}
        )

    async def of_job(self, request: Request) -> ShownAlignment:
        """Return the result of the job that an address names; raise as `finished_job` does."""
        return _shown_job(self.routes.finished_job(request))

    async def of_folder(self, request: Request) -> ShownAlignment:
        """Return the folder's alignment of this name; raise RefusedError (404) without one."""
        name = request.path_params["id"]
        folder = self.folder
        tag = await anyio.to_thread.run_sync(folder.tag, name)
        alignment = await anyio.to_thread.run_sync(folder.read, name)
        path = await anyio.to_thread.run_sync(folder.audio, name, alignment)
        there = quote(name)
        if path is None:
            recording = None
        else:
            recording = Upload(path, path.name)
        hrefs = f"/api/audio/{there}", f"/api/alignments/{there}", f"/api/realign/{there}"
        return ShownAlignment(shown_name(name), alignment, recording, hrefs, tag, self.names)

    async def alignment(self, find: Find, request: Request) -> Response:
        """Answer with an alignment in a format."""
        format = checked_format(request.query_params.get("format", "json"))
        shown = await find(request)
        return _tagged(await self.routes.in_format(shown, format), shown.tag)

    async def save(self, request: Request) -> Response:
        """Replace an alignment of the folder by a person's correction."""
        name = request.path_params["id"]
        size = await anyio.to_thread.run_sync(self.folder.size, name)
        save = partial(self.folder.save, name, request.headers.get("if-match"))
        tag = await self.routes.read_json(request, size, save)
        return _tagged(JSONResponse({"saved": name}), tag)

    async def mend(self, request: Request) -> Response:
        """Change words of an alignment of the folder, or its sign-off."""
        name = request.path_params["id"]
        mend = partial(self.folder.mend, name, request.headers.get("if-match"))
        tag = await self.routes.read_json(request, 0, mend)
        return _tagged(JSONResponse({"saved": name}), tag)

    async def words(self, request: Request) -> Response:
        """Answer with the first unchecked words, those of jobs before those of the folder."""
        queue = self.routes.queue
        jobs = [
            (job, job.tag)
            for job in queue.kept()
            if job.figures.get("to_check") and not job.figures["checked"]
        ]

        def found() -> bytes:
            of_jobs = (
                words_to_check(
                    to_dict(job.result), job.result, {"job": job.id, "name": job.name, "tag": tag}
                )
                for job, tag in jobs
            )
            of_folder = iter(()) if self._folder is None else self._folder.words()
            return json_bytes({"words": list(islice(chain(*of_jobs, of_folder), MOST_WORDS))})

        return Response(
            await anyio.to_thread.run_sync(found, limiter=self.routes.parsing),
            media_type="application/json",
        )

    async def pairs(self, request: Request) -> Response:
        """Answer with the pairs of recording and transcript among the names of files."""
        data = await self.routes.read_json(request, MOST_NAMES, paired)
        return Response(json_bytes(data), media_type="application/json")

    async def view(self, find: Find, request: Request) -> Response:
        """Answer with the page of an alignment."""
        shown = await find(request)
        html = await _in_thread(_page, shown, names=shown.names, limiter=self.routes.pages)
        return _html(html, page_policy(html))

    async def audio(self, find: Find, request: Request) -> Response:
        """Answer with the recording of an alignment, or a part of it (Range)."""
        shown = await find(request)
        recording = _recording_of(shown)
        given = recording.path, recording.filename, shown.form
        return await _in_thread(
            self._sounds.response, *given, names=shown.names, limiter=self._sound_threads
        )

    async def keep_job(self, request: Request) -> Response:
        """Put the result and the recording of a finished job into the folder."""
        job = self.routes.finished_job(request)
        try:
            name = await anyio.to_thread.run_sync(
                self.folder.keep, job.result, job.audio.path, job.audio.filename
            )
        except (OSError, OutputError) as error:
            if job.form.is_removed:
                raise RefusedError(404, "this job was removed") from error
            raise
        return JSONResponse({"id": name}, 201, {"Location": f"/api/alignments/{quote(name)}"})

    async def realign(self, find: Find, request: Request) -> Response:
        """Answer with a correction of an alignment, aligned again; nothing is saved.

        Times count from the start of the utterance.
        """
        from ctc_align.files.pages import page_object

        shown = await find(request)
        there = shown.alignment
        recording = _recording_of(shown)
        size = await anyio.to_thread.run_sync(lambda: len(rendered(there, "json")))
        job = await self.routes.read_json(
            request, size, lambda data: self._correction(data, there, recording)
        )
        queue = self.routes.queue
        with queue.reserved_place():
            queue.submit(job, keep=False)
        try:
            result = await result_of(job, request)
            made = await anyio.to_thread.run_sync(lambda: json_bytes(page_object(result)))
            return Response(made, media_type="application/json")
        finally:
            queue.cancel(job)

    def _correction(self, data: dict[str, Any], there: Alignment, recording: Upload) -> ServerJob:
        """Return the job of corrections, checked.

        Raises:
            RefusedError: they do not belong to `there`, or are longer than this server takes; 409,
                a different model made them.
            InputError: they are not an alignment, or its hand corrections are impossible.
        """
        routes = self.routes
        corrected = read_correction(data, there)
        limits = routes.queue.limits
        if corrected.model != routes.model_name:
            raise RefusedError(
                409,
                f"this alignment was made with the model {corrected.model}, and this server has"
                f" {routes.model_name}: start it with --model {corrected.model}",
            )
        if corrected.duration_s > limits.audio_s or len(corrected.text) > limits.text_chars:
            raise RefusedError(
                413, f"expected at most {limits.audio_s:g} s and {limits.text_chars} characters"
            )
        settings = settings_again(corrected.config, routes.settings, routes.model_name)
        name, duration_s = corrected.utterance, corrected.duration_s
        form = Form(routes.uploads)
        return ServerJob(
            "realign",
            name,
            form,
            duration_s,
            (),
            settings,
            corrected=corrected,
            recording=recording,
        )

    @property
    def folder(self) -> AlignmentFolder:
        """The folder of alignments.

        Raises:
            RefusedError: 404, the server was started without one.
        """
        if self._folder is None:
            raise RefusedError(
                404, "this server has no folder of alignments: start it with ctc-align serve FOLDER"
            )
        return self._folder

    @property
    def names(self) -> dict[str, str]:
        """The names by which errors call the files of the folder: their paths in it."""
        roots = [] if self._folder is None else self._folder.audio_roots
        return {f"{root}{os.sep}": "" for root in roots}

    @cached_property
    def _sound_threads(self) -> CapacityLimiter:
        return CapacityLimiter(SOUNDS)


async def _in_thread(
    call: Callable[..., Result],
    *arguments: Any,
    names: Mapping[str, str],
    limiter: CapacityLimiter | None,
) -> Result:
    """Call a function in another thread; `names` are what its errors call files."""
    try:
        return await anyio.to_thread.run_sync(call, *arguments, limiter=limiter)
    except CtcAlignError as error:
        raise refusal_of(error, names) from error


def _html(html: str, policy: str) -> Response:
    return HTMLResponse(html, headers={"content-security-policy": policy})


def _tagged(response: Response, tag: str) -> Response:
    response.headers["etag"] = tag
    return response


def _recording_of(shown: ShownAlignment) -> Upload:
    if shown.recording is None:
        raise RefusedError(
            404,
            f"{shown.name}: its recording is not in the folder; see the option --audio of serve",
        )
    return shown.recording


def _page(shown: ShownAlignment) -> str:
    """Return the page of an alignment, with its sound; only with that it can be aligned again."""
    from ctc_align.files.pages import aligned_stretch, page_object
    from ctc_align.view.page import PageSound, page, peaks_of

    sound = None
    sound_href, save_href, realign_href = shown.hrefs
    if shown.recording is not None:
        peaks = peaks_of(aligned_stretch(shown.alignment, shown.recording.path))
        mime = mime_of(shown.recording.filename)
        sound = PageSound.link(sound_href, mime=mime, start_s=shown.alignment.offset_s, peaks=peaks)
    return page(
        page_object(shown.alignment),
        name=shown.name,
        sound=sound,
        save_href=save_href,
        save_tag=shown.tag,
        realign_href=None if sound is None else realign_href,
        home_href="/",
    )
