"""The server: its application put together, the address that it listens on, its beginning and its end."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.serve.access import FEWEST_TOKEN_CHARS, AccessGuard, RefusedError, answer_error, is_loopback
from ctc_align.serve.alignment_folder import AlignmentFolder
from ctc_align.serve.jobs import JobQueue, ModelWorker, ServerLimits
from ctc_align.serve.uploads import UploadFolder

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from ctc_align.alignment.aligner import Aligner

END_S = 10
"""Seconds that requests have for their last bytes when the server ends."""
MOST_CONNECTIONS = 1000


@dataclass(frozen=True)
class Address:
    """The host and port of a server; port 0: any that is free. `token` is needed unless the host is loopback."""

    host: str = "127.0.0.1"
    port: int = 8571
    token: str = ""

    def check(self) -> None:
        """Raise UsageError for an address that others can reach without a token, or with one that is easily guessed."""
        if not 0 <= self.port <= 65535:
            raise UsageError(f"--port: expected 0 to 65535, got {self.port}")
        if not self.token and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host}: others can reach this address, so it needs a token: --token, or better the "
                "environment's CTC_ALIGN_TOKEN"
            )
        if self.token and (len(self.token) < FEWEST_TOKEN_CHARS or not self.token.isascii() or " " in self.token):
            raise UsageError(
                f"--token: expected at least {FEWEST_TOKEN_CHARS} characters of ASCII without spaces; for example: "
                'python -c "import secrets; print(secrets.token_urlsafe())"'
            )

    def open(self) -> socket.socket:
        """Return a socket that listens on the address, and on nothing else.

        Raises:
            UsageError: the address is not this machine's, or is taken.
        """
        try:
            [(family, _, _, _, where), *_] = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            return socket.create_server(where[:2], family=family, backlog=512)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = f"{error.strerror or error}{'; choose another --port' if taken else ''}"
            raise UsageError(f"--host {self.host} --port {self.port}: cannot listen there: {reason}") from error


class AlignServer:
    """A server of one model, from its start to its end.

    Args:
        aligner: loaded; the server's alone from now on.
        limits: of requests.
        folder: of alignments to view and correct; None: none.
    """

    def __init__(self, aligner: Aligner, limits: ServerLimits, folder: AlignmentFolder | None = None) -> None:
        from ctc_align.serve.routes import AlignRoutes, PageRoutes

        self.queue = JobQueue(limits)
        self.uploads = UploadFolder(limits.uploads_bytes, self.queue.forget_oldest)
        self.worker = ModelWorker(aligner, self.queue)
        self.routes = AlignRoutes(aligner, self.queue, self.uploads)
        self.pages = PageRoutes(self.routes, folder)
        self._running: uvicorn.Server | None = None
        self._closed = False

    def application(self, address: Address) -> AccessGuard:
        """Return the ASGI application; while it lives the worker runs."""
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
            ("POST", "/align", routes.align),
            ("POST", "/score", routes.score),
            ("GET", "/jobs", routes.jobs),
            ("POST", "/jobs", routes.new_job),
            ("GET", "/jobs/{id}", routes.job),
            ("DELETE", "/jobs/{id}", routes.delete_job),
            ("GET", "/jobs/{id}/alignment", routes.job_alignment),
            ("PUT", "/jobs/{id}/alignment", routes.save_job),
            ("POST", "/jobs/{id}/keep", pages.keep_job),
            ("POST", "/jobs/{id}/realign", pages.realign_job),
            ("GET", "/jobs/{id}/page", pages.job_page),
            ("GET", "/jobs/{id}/audio", pages.job_audio),
            ("GET", "/api/alignments", pages.alignments),
            ("GET", "/api/alignments/{id:path}", pages.alignment),
            ("PUT", "/api/alignments/{id:path}", pages.save),
            ("POST", "/api/realign/{id:path}", pages.realign),
            ("GET", "/api/audio/{id:path}", pages.audio),
            ("GET", "/view/{id:path}", pages.view),
        ]
        application = Starlette(
            routes=[Route(path, handler, methods=[method]) for method, path, handler in table],
            exception_handlers={
                HTTPException: answer_error,
                RefusedError: answer_error,
                CtcAlignError: answer_error,
                Exception: answer_error,
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
        """End the worker and remove the uploads; again does nothing."""
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
        """Serve until SIGINT or SIGTERM, then end jobs, answer what is asked, and remove the uploads.

        Args:
            listening: called with the server's address in a browser as soon as it can be used.

        Raises:
            UsageError: as `Address.check` and `Address.open`.
        """
        import uvicorn

        address.check()
        queue = self.queue

        class Ending(uvicorn.Server):
            """Ends the jobs with the server: requests that wait for one get their answer at once."""

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
                    ws="none",
                    lifespan="on",
                    server_header=False,
                    proxy_headers=False,
                    limit_concurrency=MOST_CONNECTIONS,
                    timeout_graceful_shutdown=END_S,
                )
                listening(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
                self._running = Ending(config)
                self._running.run(sockets=[listener])
        finally:
            self.close()
