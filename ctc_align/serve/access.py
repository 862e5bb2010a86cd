"""Access control.

It covers connections, the Host and Origin of requests, the token, and the security headers of
responses. Pages of other sites must not be able to use a server on this machine. Therefore the Host
must be one of the server's names (otherwise a different site could make its name point to this
machine: DNS rebinding), and requests that change something must come from the server's pages.

The message of a refusal uses the client's names, never a path on the server. A fault of the server
is written to its log, and the client gets "failed" without details.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from uvicorn.protocols.http.h11_impl import H11Protocol

from ctc_align.errors import CtcAlignError, InputError, OutputError, UsageError
from ctc_align.machine.private_folders import (
    make_private_folder,
    read_private_file,
    user_folder,
    write_private_file,
)

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)
COOKIE = "ctc-align"
OPEN = ("/health",)
"""Addresses that need no token."""
READING = ("GET", "HEAD")
FEWEST_TOKEN_CHARS = 16
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_STRICT = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_SCRIPT = re.compile(
    r"<script(?![^>]*\btype=\"(?:application/json|text/plain)\")[^>]*>(.*?)</script>", re.DOTALL
)


class RefusedError(Exception):
    """A request that gets an HTTP status of 400 or more, and a JSON object with the message.

    Args:
        status: the HTTP status.
        message: one line: what was expected, what was got, what to do.
        headers: of the response, such as Retry-After.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


_FULL = (
    507,
    (
        "the server's disk is full (its folder for temporary files, or FOLDER): make room there,"
        " or start it with another TMPDIR"
    ),
)
_CLOSED = (
    503,
    "the server may not use one of its own files: its folder is read-only or another user's",
)
_OF_FILES: dict[int, tuple[int, str]] = {
    errno.ENOSPC: _FULL,
    getattr(errno, "EDQUOT", errno.ENOSPC): _FULL,  # which Windows lacks
    errno.EROFS: _CLOSED,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.ENAMETOOLONG: (
        422,
        "the name of this file is too long for its other versions beside it: make it shorter",
    ),
}
"""Status and message for what the system says of the server's files."""


def _of_files(error: BaseException | None) -> RefusedError | None:
    """Return the refusal for an error of the system, None for any other.

    The error may be such a one, or have one as its cause.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _OF_FILES:
            logger.warning("%s", error)
            return RefusedError(*_OF_FILES[error.errno])
        error = error.__cause__
    return None


def refusal_of(error: Exception, names: Mapping[str, str] | None = None) -> RefusedError:
    """Return an error as a refusal.

    Args:
        error: an error of the library, or any other, which is logged and not shown.
        names: what the client calls the files of the server: path → name; the message has the
            names.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, MemoryError):
        return RefusedError(
            413, "out of memory: give a shorter recording, or limit what the server takes at once"
        )
    if (not isinstance(error, CtcAlignError) or isinstance(error, OutputError)) and (
        refusal := _of_files(error)
    ):
        return refusal
    if not isinstance(error, CtcAlignError):
        logger.error("a request failed: %s: %s", type(error).__name__, error, exc_info=error)
        return RefusedError(500, "the server failed in this request; its log says why")
    if isinstance(error, OutputError):
        logger.error("%s", error)
        return RefusedError(500, "the server could not write its files; its log says why")
    message = " ".join(str(error).split())
    for path, name in (names or {}).items():
        message = message.replace(path, name)
    if isinstance(error, InputError):
        return RefusedError(422, message)
    return RefusedError(400 if isinstance(error, UsageError) else 500, message)


async def answer_error(
    request: Request, error: Exception, names: Mapping[str, str] | None = None
) -> Response:
    """Return the response to a request that raised an error.

    It is `{"error": "…"}` with its status; see `refusal_of`.
    """
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    if isinstance(error, HTTPException):
        said = {
            404: "there is nothing at this address; /docs lists what there is",
            405: "this address does not take this method; /docs lists those that it takes",
        }
        refusal = RefusedError(
            error.status_code, said.get(error.status_code, error.detail), error.headers
        )
    else:
        refusal = refusal_of(error, names)
    return JSONResponse(error_body(refusal), refusal.status, refusal.headers)


def error_body(refusal: RefusedError) -> dict[str, Any]:
    """Return the JSON object of a refusal."""
    return {"error": str(refusal)}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address or name.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"


def page_policy(html: str) -> str:
    """Return the Content-Security-Policy of one of our pages.

    It allows its scripts by their hashes, and nothing from outside.
    """
    digests = (hashlib.sha256(script.encode()).digest() for script in _SCRIPT.findall(html))
    scripts = (
        " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"
    )
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src 'self' data:"
        " blob:; media-src 'self' data: blob:; connect-src 'self' data: blob:; worker-src blob:;"
        " frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
    )


class AccessGuard:
    """ASGI middleware: refuses forbidden requests, and adds the security headers to every response.

    Args:
        app: receives the requests that pass.
        bound: the address that the server listens on.
        token: of the server; "" if none is needed, which is possible only on loopback.
    """

    def __init__(self, app: ASGIApp, bound: str, token: str = "") -> None:
        self.app = app
        self.token = token
        self.loopback_only = is_loopback(bound)
        self.hosts = {*LOOPBACK, bound.lower()}
        self.cookie = hmac.new(token.encode(), b"ctc-align cookie", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = {**_HEADERS, "content-security-policy": _STRICT}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in more.items()
                        if name.encode() not in there
                    ),
                ]
            await send(message)

        response: ASGIApp = self.app
        try:
            self._check_host(scope)
            self._check_origin(scope)
            if self.token and scope["path"] not in OPEN:
                response = self._checked_token(scope)
        except RefusedError as refusal:
            from starlette.responses import JSONResponse

            response = JSONResponse(error_body(refusal), refusal.status, refusal.headers)
        await response(scope, receive, send_with_headers)

    def _check_host(self, scope: Scope) -> None:
        hosts = _values(scope, b"host")
        name = _host_name(hosts[0]) if len(hosts) == 1 else None
        if name is None:
            raise RefusedError(400, "expected one Host header with the name of this server")
        if self.loopback_only and name not in self.hosts and not is_loopback(name):
            raise RefusedError(
                421,
                "this server is called localhost or 127.0.0.1, not by the name in the Host header",
            )

    def _check_origin(self, scope: Scope) -> None:
        """Raise RefusedError for a change that a page of another site requests.

        Programs send no Origin.
        """
        if scope["method"] in READING:
            return
        ours = [f"{scheme}://{_values(scope, b'host')[0].lower()}" for scheme in ("http", "https")]
        foreign = [origin for origin in _values(scope, b"origin") if origin.lower() not in ours]
        sites = [
            site
            for site in _values(scope, b"sec-fetch-site")
            if site not in ("same-origin", "none")
        ]
        if foreign or sites:
            raise RefusedError(
                403, "only this server's pages may change anything here, not pages of other sites"
            )

    def _checked_token(self, scope: Scope) -> ASGIApp:
        """Return the ASGI app for a request.

        It is the app, or for `?token=…` a redirect that sets the cookie.
        """
        from starlette.requests import Request
        from starlette.responses import RedirectResponse

        for value in _values(scope, b"authorization"):
            kind, _, given = value.partition(" ")
            if kind.lower() == "bearer" and _same(given.strip(), self.token):
                return self.app
        request = Request(scope)
        if _same(request.cookies.get(COOKIE, ""), self.cookie):
            return self.app
        given = request.query_params.get("token", "")
        if given and _same(given, self.token) and scope["method"] == "GET":
            rest = [
                pair
                for pair in parse_qsl(scope["query_string"].decode("latin-1"))
                if pair[0] != "token"
            ]
            there = (
                "/" + quote(scope["path"].lstrip("/\\")) + ("?" + urlencode(rest) if rest else "")
            )
            response = RedirectResponse(there, 303)
            response.set_cookie(COOKIE, self.cookie, httponly=True, samesite="lax", path="/")
            return response
        raise RefusedError(
            401,
            "a token is needed: open the address that ctc-align serve printed when it started, or"
            " send the header Authorization: Bearer TOKEN",
            {"WWW-Authenticate": "Bearer"},
        )


def _values(scope: Scope, name: bytes) -> list[str]:
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    return [value.decode("latin-1").strip() for key, value in headers if key.lower() == name]


def _host_name(host: str) -> str | None:
    """Return the name in a Host header without its port; None for any other value."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?", host)
    if match:
        return (match[1] or match[2]).lower().rstrip(".")
    return None


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        given.encode("utf-8", "replace"), expected.encode("utf-8", "replace")
    )


# The user's own token, for a server that is given none.


def check_token(token: str) -> None:
    """Raise UsageError for a token that is easily guessed, or that a header cannot hold."""
    if len(token) < FEWEST_TOKEN_CHARS or not token.isascii() or " " in token:
        raise UsageError(
            f"--token or CTC_ALIGN_TOKEN: expected at least {FEWEST_TOKEN_CHARS} characters of"
            " ASCII without spaces; for example:"
            ' python -c "import secrets; print(secrets.token_urlsafe())"'
        )


def read_user_token() -> tuple[str, str]:
    """Return this user's token, which the first call makes, and a line that says where it is kept.

    Where it cannot be kept, or others can read it, the token is a new one and the line says why.
    """
    folder = user_folder("ctc-align", "state")
    try:
        if folder is None:
            raise OSError("this user has no home folder")
        path = folder / "token"
        return _kept_token(path), f"the token is kept in {path}"
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.args[-1]
        return secrets.token_urlsafe(), f"the token is for this run only: {reason}"


def _kept_token(path: Path) -> str:
    """Return the token in a file that only this user can read; make the file if it is missing.

    Raises:
        OSError: the file cannot be made, has no token, or others may read or change it.
    """
    from filelock import FileLock

    make_private_folder(path.parent)
    if not path.exists():
        part = path.with_name(f".{secrets.token_hex(8)}.part")
        with FileLock(path.with_name("token.lock"), timeout=10):  # two starts make one token
            if not path.exists():
                write_private_file(part, secrets.token_urlsafe().encode())
                os.replace(part, path)
    token = read_private_file(path, is_secret=True).decode("ascii", "ignore").strip()
    if len(token) < FEWEST_TOKEN_CHARS:
        raise OSError(f"{path} has no token: remove the file, and the next start makes a new one")
    return token


# Connections: their number, and the time that the headers of a request may take.

HEADERS_S = 10.0
"""Seconds until the headers of a request must have arrived.

They count from its first byte, or from the start of its connection.
"""
MOST_CONNECTIONS = 1000


def most_connections() -> int:
    """Return how many connections there may be.

    They are half of the files that this process can open, at most 1000.
    """
    with suppress(ImportError):
        import resource

        return min(MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    return MOST_CONNECTIONS // 2


class LimitedConnection(H11Protocol):
    """A connection whose requests must begin soon.

    It ends if it waits for headers while others have no room.
    """

    headers_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of a connection.

        Where there are too many connections, the oldest without a request ends.
        """
        super().connection_made(transport)
        self._limit_headers()
        if len(self.connections) > most_connections():
            idle = [
                one
                for one in self.connections
                if isinstance(one, LimitedConnection) and one.headers_late
            ]
            oldest = min(idle, key=lambda one: one.headers_late.when() if one.headers_late else 0.0)
            message = "too many connections; try again in a second"
            oldest.refuse(RefusedError(503, message, {"Retry-After": "1"}))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        self._stop_limit()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of a request that is not complete so far must go on soon."""
        super().data_received(data)
        self._limit_headers()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self.refuse(RefusedError(400, f"expected a request of HTTP/1.1: {msg}"))

    def refuse(self, refusal: RefusedError) -> None:
        """Answer with a refusal, before any request is there, and close."""
        self._stop_limit()
        body = json.dumps(error_body(refusal)).encode()
        headers = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
        lines = [f"{name}: {value}" for name, value in (headers | refusal.headers).items()]
        first = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"
        self.transport.write("\r\n".join([first, *lines, "", ""]).encode() + body)
        self.transport.close()
        self.connections.discard(self)

    def _limit_headers(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_limit()
        elif self.headers_late is None and not self.transport.is_closing():
            refusal = RefusedError(
                408, f"the headers of the request did not arrive within {HEADERS_S:g} s"
            )
            self.headers_late = self.loop.call_later(HEADERS_S, self.refuse, refusal)

    def _stop_limit(self) -> None:
        if self.headers_late is not None:
            self.headers_late.cancel()
            self.headers_late = None
