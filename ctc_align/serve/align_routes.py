"""Addresses for programs: /align, /score, /models, /health, and jobs that are asked for later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ctc_align._version import __version__
from ctc_align.errors import CtcAlignError
from ctc_align.files import Alignment, from_dict, output_paths, rendered
from ctc_align.files.json_files import no_number
from ctc_align.reading import parse_json
from ctc_align.serve.alignment_folder import MOST_BYTES, check_same_part
from ctc_align.serve.job_queue import DONE, JobQueue, ServerJob
from ctc_align.serve.model_worker import open_settings
from ctc_align.serve.refusals import RefusedError, refusal_of
from ctc_align.serve.request_fields import WITH_SOUND, checked_format, made_job, media_type, served_formats
from ctc_align.serve.uploads import Form, UploadFolder, read_form

if TYPE_CHECKING:
    from anyio import CapacityLimiter
    from starlette.requests import Request
    from starlette.responses import Response

    from ctc_align.alignment.aligner import Aligner

BODIES, AT_ONCE = 32, 4
"""JSON that arrives at a time; and what is parsed, or made into pages, at a time."""
GONE = 499
"""The status, which nobody gets, of a request whose client went away."""


class AlignRoutes:
    """The handlers, with the queue, the uploads and the model that they share."""

    def __init__(self, aligner: Aligner, queue: JobQueue, uploads: UploadFolder) -> None:
        model = aligner.model
        assert model is not None
        self.queue, self.uploads, self.settings = queue, uploads, open_settings(aligner)
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
        """Answer that the server works, and how busy it is."""
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "version": __version__, "queue": self.queue.counts()})

    async def models(self, request: Request) -> Response:
        """Answer which model is loaded, which formats there are, and the limits."""
        from starlette.responses import JSONResponse

        limits = self.queue.limits
        told = {
            "models": [self._model],
            "formats": served_formats(),
            "limits": {
                "upload_bytes": limits.upload_bytes,
                "audio_s": limits.audio_s,
                "text_chars": limits.text_chars,
                "places": limits.places,
                "work_s": limits.work_s,
            },
        }
        return JSONResponse(told)

    async def align(self, request: Request) -> Response:
        """Align one recording, and answer in the format that was asked for."""
        return await self._answered("align", request)

    async def score(self, request: Request) -> Response:
        """Answer the losses of transcripts of one recording, best first."""
        return await self._answered("score", request)

    async def _answered(self, kind: str, request: Request) -> Response:
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse
        from starlette.responses import Response as PlainResponse

        try:
            job, format = await self._submitted(kind, request, keep=False)
        except ClientDisconnect:
            return PlainResponse(status_code=GONE)
        try:
            if not await ended(job, request):
                return PlainResponse(status_code=GONE)
            if job.refusal is not None:
                raise job.refusal
            if kind == "score":
                return JSONResponse({"utterance": job.name, "model": self.model_name, "scores": job.result})
            return await self.in_format(job.result, format, job.name, job.audio.path, job.names)
        finally:
            self.queue.cancel(job)
            job.form.remove()

    async def new_job(self, request: Request) -> Response:
        """Take a recording to align, and answer at once with the job."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse
        from starlette.responses import Response as PlainResponse

        try:
            job, _ = await self._submitted("align", request, keep=True)
        except ClientDisconnect:
            return PlainResponse(status_code=GONE)
        return JSONResponse(job.to_dict(self.queue.place(job)), 202, {"Location": f"/jobs/{job.id}"})

    async def _submitted(self, kind: str, request: Request, *, keep: bool) -> tuple[ServerJob, str]:
        """Read a request's form into a job in the queue; its place is given back with the job, or here."""
        import anyio

        self.queue.forget_old()
        self.queue.enter()
        form: Form | None = None
        try:
            limits = self.queue.limits
            try:
                with anyio.fail_after(limits.work_s):
                    form = await read_form(request, self.uploads, limits.upload_bytes, limits.text_chars)
            except TimeoutError:
                raise RefusedError(408, f"the recording did not arrive within {limits.work_s:g} s") from None
            format = checked_format(form.fields.get("format", ["json"])[0])
            job = await anyio.to_thread.run_sync(made_job, kind, form, self.settings, self.model_name, limits)
            self.queue.submit(job, keep=keep)
        except BaseException:
            self.queue.leave()
            if form is not None:
                form.remove()
            raise
        return job, format

    async def jobs(self, request: Request) -> Response:
        """Answer all jobs that are kept."""
        from starlette.responses import JSONResponse

        self.queue.forget_old()
        return JSONResponse({"jobs": [job.to_dict(self.queue.place(job)) for job in self.queue.kept()]})

    async def job(self, request: Request) -> Response:
        """Answer how far a job is."""
        from starlette.responses import JSONResponse

        job = self.queue.find(request.path_params["id"])
        return JSONResponse(job.to_dict(self.queue.place(job)))

    async def delete_job(self, request: Request) -> Response:
        """Cancel a job, and remove its recording and its result."""
        from starlette.responses import JSONResponse

        job = self.queue.find(request.path_params["id"])
        self.queue.forget(job)
        return JSONResponse({"id": job.id, "state": job.state})

    async def job_alignment(self, request: Request) -> Response:
        """Answer the result of a job in a format."""
        job = self.finished_job(request)
        format = checked_format(request.query_params.get("format", "json"))
        return await self.in_format(job.result, format, job.name, job.audio.path, job.names)

    async def save_job(self, request: Request) -> Response:
        """Replace the result of a job by what a person made of it."""
        import anyio
        from starlette.responses import JSONResponse

        job = self.finished_job(request)
        data = await self.read_json(request)
        corrected = await anyio.to_thread.run_sync(from_dict, data, "the corrected alignment", limiter=self._parsing)
        check_same_part(corrected, job.result)
        job.result = corrected
        return JSONResponse({"saved": job.id})

    async def read_json(self, request: Request) -> dict[str, Any]:
        """Return the JSON object that is a request's body.

        Raises:
            RefusedError: 413 too large, 400 no JSON object, 408 it did not arrive in time.
        """
        import anyio

        data = bytearray()
        try:
            with anyio.fail_after(self.queue.limits.work_s):
                async with self._bodies:
                    async for chunk in request.stream():
                        data += chunk
                        if len(data) > MOST_BYTES:
                            raise RefusedError(413, f"expected at most {MOST_BYTES >> 20} MiB of JSON")
        except TimeoutError:
            raise RefusedError(408, f"the JSON did not arrive within {self.queue.limits.work_s:g} s") from None
        return await anyio.to_thread.run_sync(_parsed, data, limiter=self._parsing)

    async def in_format(
        self, alignment: Alignment, format: str, name: str, recording: Path | None, names: Mapping[str, str]
    ) -> Response:
        """Return an alignment as the file of a format.

        Args:
            recording: what was aligned, for formats that need the sound.
            names: what errors call the files of the server: path → name.
        """
        import anyio
        from starlette.responses import Response as PlainResponse

        limiter = self.pages if format in WITH_SOUND else None
        try:
            data = await anyio.to_thread.run_sync(_rendered, alignment, format, recording, limiter=limiter)
        except CtcAlignError as error:
            raise refusal_of(error, names) from error
        file = output_paths("", name.rpartition("/")[2], [format])[0].name
        disposition = f"attachment; filename*=UTF-8''{quote(file, safe='')}"
        return PlainResponse(data, media_type=media_type(format), headers={"content-disposition": disposition})

    @cached_property
    def _bodies(self) -> CapacityLimiter:
        return limiter_of(BODIES)

    @cached_property
    def _parsing(self) -> CapacityLimiter:
        return limiter_of(AT_ONCE)

    @cached_property
    def pages(self) -> CapacityLimiter:
        """Lets few pages, whose recordings are read, be made at a time; all else need not wait for them."""
        return limiter_of(AT_ONCE)

    def finished_job(self, request: Request) -> ServerJob:
        """Return the job that an address names.

        Raises:
            RefusedError: 404 there is none, 409 it is not done; the job's own where it failed.
        """
        job = self.queue.find(request.path_params["id"])
        if job.refusal is not None:
            raise job.refusal
        if job.state != DONE:
            raise RefusedError(409, f"the job is not done: it is {job.state}")
        return job


async def ended(job: ServerJob, request: Request) -> bool:
    """Wait for a job's end; return False where its client went away before."""
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
    return job.future.done()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def limiter_of(count: int) -> CapacityLimiter:
    """Return what lets so many at a time; to be called in the event loop."""
    import anyio

    return anyio.CapacityLimiter(count)


def _parsed(data: bytearray) -> dict[str, Any]:
    try:
        value = parse_json(bytes(data), parse_constant=no_number)
    except ValueError as error:
        raise RefusedError(400, f"expected a JSON object: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(400, "expected a JSON object")
    return value


def _rendered(alignment: Alignment, format: str, recording: Path | None) -> bytes:
    """Return the bytes of a format; never of a recording that the alignment names and nobody checked."""
    if format not in WITH_SOUND:
        return rendered(alignment, format)
    if recording is None:
        raise RefusedError(404, f"format: {format} needs the recording, which is not in the folder of this server")
    from ctc_align.files.pages import channel_of, page_object
    from ctc_align.view.page import MOST_EMBEDDED_BYTES, PageSound, page

    sound = PageSound.file(
        recording,
        offset_s=alignment.offset_s,
        duration_s=alignment.duration_s if alignment.offset_s else None,
        channel=channel_of(alignment),
    )
    if len(sound.encoded or b"") > MOST_EMBEDDED_BYTES:
        raise RefusedError(413, f"format: the recording is too long for {format}, which has it inside")
    return page(page_object(alignment), name=alignment.utterance, sound=sound).encode("utf-8")
