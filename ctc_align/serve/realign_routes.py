"""Addresses that align corrections again: what a person has fixed stays, the other words go where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctc_align.files import Alignment, from_dict
from ctc_align.files.json_files import json_bytes
from ctc_align.serve.align_routes import GONE, AlignRoutes, ended
from ctc_align.serve.alignment_folder import check_same_part
from ctc_align.serve.job_queue import ServerJob
from ctc_align.serve.page_routes import PageRoutes
from ctc_align.serve.refusals import RefusedError
from ctc_align.serve.request_fields import settings_again
from ctc_align.serve.uploads import Form, Upload

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


class RealignRoutes:
    """The handlers; their answer is the new alignment, which nobody has saved yet.

    Args:
        routes: of the queue and the model.
        pages: of the folder.
    """

    def __init__(self, routes: AlignRoutes, pages: PageRoutes) -> None:
        self._routes, self._pages = routes, pages

    async def in_folder(self, request: Request) -> Response:
        """Align corrections of an alignment of the folder again."""
        there, recording = await self._pages.alignment_and_recording(request.path_params["id"])
        return await self._answered(request, there, Upload(recording, recording.name))

    async def of_job(self, request: Request) -> Response:
        """Align corrections of a finished job again."""
        job = self._routes.finished_job(request)
        return await self._answered(request, job.result, job.audio)

    async def _answered(self, request: Request, there: Alignment, recording: Upload) -> Response:
        """Wait for the job of a request's JSON, and answer with its result, times counted from the utterance's start.

        Args:
            there: the alignment that was corrected.
            recording: of it; it stays where it is.
        """
        import anyio
        from starlette.responses import Response as PlainResponse

        data = await self._routes.read_json(request)
        job = await anyio.to_thread.run_sync(self._job, data, there, recording)
        queue = self._routes.queue
        queue.enter()
        try:
            queue.submit(job, keep=False)
        except BaseException:
            queue.leave()
            raise
        try:
            if not await ended(job, request):
                return PlainResponse(status_code=GONE)
            if job.refusal is not None:
                raise job.refusal
            made = await anyio.to_thread.run_sync(_as_page_has_it, job.result)
            return PlainResponse(made, media_type="application/json")
        finally:
            queue.cancel(job)

    def _job(self, data: dict[str, Any], there: Alignment, recording: Upload) -> ServerJob:
        """Return the job of corrections, checked.

        Raises:
            RefusedError: they are not of `there`, or longer than this server takes; 409, another model made them.
            InputError: they are no alignment, or what a person fixed cannot be so.
        """
        routes = self._routes
        corrected, limits = from_dict(data, "the corrected alignment"), routes.queue.limits
        check_same_part(corrected, there)
        if corrected.model != routes.model_name:
            raise RefusedError(
                409,
                f"this alignment was made with the model {corrected.model}, and this server has {routes.model_name}: "
                f"start it with --model {corrected.model}",
            )
        if corrected.duration_s > limits.audio_s or len(corrected.text) > limits.text_chars:
            raise RefusedError(413, f"expected at most {limits.audio_s:g} s and {limits.text_chars} characters")
        settings = settings_again(corrected.config, routes.settings, routes.model_name)
        name, duration_s = corrected.utterance, corrected.duration_s
        form = Form(routes.uploads)
        return ServerJob("realign", name, form, duration_s, (), settings, corrected=corrected, recording=recording)


def _as_page_has_it(alignment: Alignment) -> bytes:
    from ctc_align.files.pages import page_object

    return json_bytes(page_object(alignment))
