"""ctc-align serve: the page as a local app, and an HTTP API with one model that stays loaded."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.align import load_aligner
from ctc_align.cli.options import (
    ConfigOptions,
    MessageOptions,
    ModelOptions,
    SubtitleOptions,
    TimesOptions,
    TranscriptOptions,
    grouped,
)
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.serve.job_queue import ServerLimits


@dataclass(frozen=True)
class LimitOptions:
    """Limits of what clients may ask for."""

    max_upload: Annotated[
        float, typer.Option("--max-upload", metavar="MB", help="Largest request: recording and transcript together.")
    ] = 200.0
    max_audio: Annotated[float, typer.Option("--max-audio", metavar="SECONDS", help="Longest recording.")] = 7200.0
    max_text: Annotated[int, typer.Option("--max-text", metavar="N", help="Longest transcript, in characters.")] = (
        1_000_000
    )
    queue: Annotated[
        int, typer.Option("--queue", metavar="N", help="Most requests that wait or are worked on; more are refused.")
    ] = 100
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="Longest work on a recording, and longest upload."),
    ] = 1800.0

    def checked(self) -> ServerLimits:
        """Return the limits.

        Raises:
            UsageError: one that lets nothing pass.
        """
        from ctc_align.serve.job_queue import ServerLimits

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


@dataclass(frozen=True)
class AddressOptions:
    """The address of a server, and the token that it asks for."""

    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; any but loopback needs a token.")
    ] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", metavar="N", help="Port to listen on; 0: any that is free.")] = 8571
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="TEXT",
            envvar="CTC_ALIGN_TOKEN",
            help="A password that every request must have; better in the variable, as others on this machine see "
            "command lines.",
            show_default="none",
        ),
    ] = ""


@grouped
def serve(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="Alignments (JSON) to look at, listen to and mend, worst first."),
    ] = None,
    *,
    listening: AddressOptions,
    audio: Annotated[
        str | None,
        typer.Option(
            "--audio",
            metavar="DIR",
            help="Folder of the recordings of FOLDER.",
            show_default="beside the alignments",
        ),
    ] = None,
    model: ModelOptions,
    limits: LimitOptions,
    config: ConfigOptions,
    transcripts: TranscriptOptions,
    times: TimesOptions,
    subtitles: SubtitleOptions,
    messages: MessageOptions,
) -> None:
    """Serve the page as an app for your browser, and answer programs over HTTP (extra [serve]).

    Open the address that it prints. In the app: drop a recording and its transcript, look, listen, mend and save; with
    FOLDER its alignments, the worst first. /docs lists what programs can ask for. Nobody but this machine can reach it
    unless --host says so. Settings are for requests that name no others; none ends the server with an exit code.
    """
    from ctc_align.serve.refusals import require_serve

    talk = messages.talk()
    require_serve()
    from ctc_align.serve.alignment_folder import AlignmentFolder
    from ctc_align.serve.server import Address, AlignServer

    address = Address(listening.host, listening.port, listening.token)
    address.check()
    checked = limits.checked()
    if audio is not None and folder is None:
        raise UsageError("--audio: names the recordings that FOLDER is of, and no FOLDER is given")
    shown = None if folder is None else AlignmentFolder(folder, audio)
    settings = config.settings(transcripts, times, subtitles)
    talk.listen()
    if not talk.verbose:
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
    server = AlignServer(load_aligner(model, None, settings), checked, shown)
    try:
        server.run(address, lambda url: talk.say(f"ctc-align: serving at {url} (Ctrl-C ends it)"))
    except KeyboardInterrupt:
        talk.say("ctc-align: the server has ended")
