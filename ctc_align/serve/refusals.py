"""Refusals: how what is wrong with a request, or went wrong in it, becomes a status and one line for the client.

A message names what the client called its things, never a path of the server; a fault of the server's own is said in
its log, and the client gets "failed" without details.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ctc_align.errors import (
    CtcAlignError,
    InputError,
    OutputError,
    UsageError,
    WrongFileError,
)
from ctc_align.extras import EXTRAS, install_line

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request that gets an HTTP status of 400 or more, and a JSON object with the message.

    Args:
        status: of HTTP.
        message: one line: what was expected, what was got, what to do.
        headers: of the response, such as Retry-After.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


def require_serve() -> None:
    """Raise UsageError, naming the extra, unless the packages that a server needs are installed."""
    missing = EXTRAS["serve"].missing()
    if missing:
        raise UsageError(f"serve needs {', '.join(missing)}: {install_line('serve')}")


def refusal_of(error: Exception, names: Mapping[str, str] | None = None) -> RefusedError:
    """Return an error as a refusal.

    Args:
        error: of the library, or any other, which is logged and not shown.
        names: what the client calls the files of the server: path → name; the message has the names.
    """
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, MemoryError):
        return RefusedError(413, "out of memory: give a shorter recording, or limit what the server takes at once")
    if not isinstance(error, CtcAlignError):
        logger.error("a request failed: %s: %s", type(error).__name__, error, exc_info=error)
        return RefusedError(500, "the server failed in this request; its log says why")
    if isinstance(error, OutputError):
        logger.error("%s", error)
        return RefusedError(500, "the server could not write its files; its log says why")
    message = " ".join(str(error).split())
    for path, name in (names or {}).items():
        message = message.replace(path, name)
    if isinstance(error, WrongFileError):
        return RefusedError(415, message)
    if isinstance(error, UsageError):
        return RefusedError(400, message)
    return RefusedError(422 if isinstance(error, InputError) else 500, message)


async def answer_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that raised an error: `{"error": "…"}` with its status."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    if isinstance(error, HTTPException):
        said = {404: "there is nothing at this address; /docs lists what there is", 405: "not with this method"}
        refusal = RefusedError(error.status_code, said.get(error.status_code, error.detail), error.headers)
    else:
        refusal = refusal_of(error)
    return JSONResponse(error_body(refusal), refusal.status, refusal.headers)


def error_body(refusal: RefusedError) -> dict[str, Any]:
    """Return the JSON object of a refusal."""
    return {"error": str(refusal)}
