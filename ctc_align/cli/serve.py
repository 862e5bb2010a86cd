"""ctc-align serve: the page as a local app, and an HTTP API with one model that stays loaded."""

from __future__ import annotations

import functools
import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.align import load_aligner
from ctc_align.cli.options import (
    LIMITS,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    with_examples,
    with_options,
)
from ctc_align.config import setting
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.serve.jobs import ServerLimits


_limit = functools.partial(setting, panel=LIMITS)


@with_examples(
    "ctc-align serve",
    "ctc-align serve aligned --audio recordings",
    "ctc-align serve --port 8000 --max-audio 600 --language de",
)
@with_options
def serve(
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="FOLDER", help="Alignments (JSON) to view, hear and correct, worst first."
        ),
    ] = None,
    *,
    audio: str | None = setting(
        None, "Folder of the recordings of FOLDER.", metavar="DIR", shown="beside the alignments"
    ),
    host: str = setting(
        "127.0.0.1", "Address to listen on; 0.0.0.0: all of this machine.", metavar="ADDRESS"
    ),
    port: int = setting(8571, "Port to listen on; 0: any free port.", metavar="N"),
    token: str = setting(
        "",
        "Token that every request must carry, instead of yours, which is kept in a file. The"
        " environment variable CTC_ALIGN_TOKEN is safer: other users of this machine can see"
        " command lines.",
        metavar="TEXT",
        shown="yours",
    ),
    no_token: bool = setting(
        False, "Require no token: every user of this machine can read and change FOLDER."
    ),
    model: ModelOptions,
    max_upload: float = _limit(
        200.0, "Largest request: recording and transcript together.", metavar="MB"
    ),
    max_audio: float = _limit(7200.0, "Longest recording.", metavar="SECONDS"),
    max_text: int = _limit(1_000_000, "Longest transcript, in characters.", metavar="N"),
    queue: int = _limit(
        100, "Largest number of waiting and running requests; others are refused.", metavar="N"
    ),
    timeout: float = _limit(
        1800.0, "Time limit for the work on a recording, and for its upload.", metavar="SECONDS"
    ),
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Serve an app for your browser and an HTTP API.

    Needs the extra [serve]. Open the printed address, which has your token. In the app, drop a
    recording and its transcript, then view, listen, correct and save; with FOLDER, the app also
    lists the alignments there, worst first. /docs describes the API for programs. Only this machine
    can reach the server unless --host says otherwise. Settings are the defaults of requests; limits
    such as --max-skipped do not end the server with an exit code.
    """
    from ctc_align.serve import require_serve

    talk = messages.talk()
    require_serve()
    from ctc_align.serve.alignment_folder import AlignmentFolder
    from ctc_align.serve.server import Address, AlignServer

    token, kept = _chosen_token(token, no_token)
    address = Address(host, port, token)
    address.check()
    limits = _limits(max_upload, max_audio, max_text, queue, timeout)
    if audio is not None and folder is None:
        raise UsageError("--audio: needs FOLDER, the alignments of these recordings")
    if folder is None:
        shown = None
    else:
        shown = AlignmentFolder(folder, audio)
    settings = config.settings()
    talk.listen()
    if not talk.verbose:
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
    server = AlignServer(load_aligner(model, None, settings), limits, shown)

    def tell(url: str) -> None:
        talk.say(f"ctc-align: serving at {url} (Ctrl-C stops it)")
        if kept:
            talk.say(f"ctc-align: {kept}")

    try:
        server.run(address, tell)
    except KeyboardInterrupt:
        talk.say("ctc-align: the server has stopped")


def _chosen_token(token: str, no_token: bool) -> tuple[str, str]:
    """Return the token that requests need ("" for none) and a line about the user's token file.

    Raises UsageError where both a token and none are asked for.
    """
    from ctc_align.serve.access import read_user_token

    given = token or os.environ.get("CTC_ALIGN_TOKEN", "")
    if given and no_token:
        raise UsageError(
            "--no-token: a token is given as well, by --token or CTC_ALIGN_TOKEN; omit one"
        )
    if given or no_token:
        return given, ""
    return read_user_token()


def _limits(
    max_upload: float, max_audio: float, max_text: int, queue: int, timeout: float
) -> ServerLimits:
    """Return the limits of requests; raise UsageError for a limit that admits no request."""
    from ctc_align.serve.jobs import ServerLimits

    values = {
        "--max-upload": max_upload,
        "--max-audio": max_audio,
        "--max-text": max_text,
        "--queue": queue,
        "--timeout": timeout,
    }
    for option, value in values.items():
        if not 0 < value < float("inf"):
            raise UsageError(f"{option}: expected a number above 0, got {value}")
    return ServerLimits(
        int(max_upload * 1e6), audio_s=max_audio, text_chars=max_text, places=queue, work_s=timeout
    )
