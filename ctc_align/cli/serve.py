"""ctc-align serve: the page as a local app, and an HTTP API with one model that stays loaded."""

from __future__ import annotations

import dataclasses
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ctc_align.cli.align import load_aligner
from ctc_align.cli.options import (
    LIMITS,
    Group,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    with_options,
)
from ctc_align.config import setting
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.serve.jobs import ServerLimits


@dataclass(frozen=True)
class LimitOptions(Group):
    """Limits of what clients may ask for."""

    panel: ClassVar[str] = LIMITS

    max_upload: float = setting(200.0, "Largest request: recording and transcript together.", metavar="MB")
    max_audio: float = setting(7200.0, "Longest recording.", metavar="SECONDS")
    max_text: int = setting(1_000_000, "Longest transcript, in characters.", metavar="N")
    queue: int = setting(100, "Most requests that wait or are worked on; more are refused.", metavar="N")
    timeout: float = setting(1800.0, "Longest work on a recording, and longest upload.", metavar="SECONDS")

    def checked(self) -> ServerLimits:
        """Return the limits.

        Raises:
            UsageError: one that lets nothing pass.
        """
        from ctc_align.serve.jobs import ServerLimits

        for name, value in dataclasses.asdict(self).items():
            if not 0 < value < float("inf"):
                raise UsageError(f"--{name.replace('_', '-')}: expected a number above 0, got {value}")
        return ServerLimits(
            upload_bytes=int(self.max_upload * 1e6),
            audio_s=self.max_audio,
            text_chars=self.max_text,
            places=self.queue,
            work_s=self.timeout,
        )


@with_options
def serve(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="Alignments (JSON) to view, hear and correct, worst first."),
    ] = None,
    *,
    audio: str | None = setting(
        None, "Folder of the recordings of FOLDER.", metavar="DIR", shown="beside the alignments"
    ),
    host: str = setting("127.0.0.1", "Address to listen on; any but loopback needs a token.", metavar="ADDRESS"),
    port: int = setting(8571, "Port to listen on; 0: any that is free.", metavar="N"),
    token: str = setting(
        "",
        "A password that every request must have; better in the variable CTC_ALIGN_TOKEN, as others on this machine "
        "see command lines.",
        metavar="TEXT",
        shown="none",
    ),
    model: ModelOptions,
    limits: LimitOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Serve the page as an app for your browser, and answer programs over HTTP (extra [serve]).

    Open the address that it prints. In the app, drop a recording and its transcript, then view, listen, correct and
    save; with FOLDER its alignments, the worst first. /docs lists what programs can request. Only this machine can
    reach it unless --host says otherwise. Settings are defaults of requests; none ends the server with an exit code.
    """
    from ctc_align.serve.access import require_serve

    talk = messages.talk()
    require_serve()
    from ctc_align.serve.alignment_folder import AlignmentFolder
    from ctc_align.serve.server import Address, AlignServer

    address = Address(host, port, token or os.environ.get("CTC_ALIGN_TOKEN", ""))
    address.check()
    checked = limits.checked()
    if audio is not None and folder is None:
        raise UsageError("--audio: names the recordings that FOLDER is of, and no FOLDER is given")
    shown = None if folder is None else AlignmentFolder(folder, audio)
    settings = config.settings()
    talk.listen()
    if not talk.verbose:
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
    server = AlignServer(load_aligner(model, None, settings), checked, shown)
    try:
        server.run(address, lambda url: talk.say(f"ctc-align: serving at {url} (Ctrl-C ends it)"))
    except KeyboardInterrupt:
        talk.say("ctc-align: the server has ended")
