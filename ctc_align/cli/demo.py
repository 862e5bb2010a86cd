"""ctc-align demo: the bundled recording."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ctc_align.cli.options import MessageOptions, ModelOptions, grouped

FOLDER = Path(__file__).resolve().parent.parent / "demo"
NAME = "demo"


@grouped
def demo(
    out_dir: Annotated[
        str,
        typer.Option("--out-dir", metavar="DIR", help="Folder for the outputs; those of an earlier demo are replaced."),
    ] = "ctc-align-demo",
    *,
    messages: MessageOptions,
) -> None:
    """Align a recording that comes with the package, and show what comes out."""
    from ctc_align.cli.align import refuse_outputs, run_aligner
    from ctc_align.cli.tables import console_for, loss_line, words_table
    from ctc_align.config import Settings
    from ctc_align.formats import DEFAULT_FORMATS, write_outputs
    from ctc_align.text import read_transcript

    talk = messages.talk()
    talk.listen()
    audio, transcript = FOLDER / f"{NAME}.flac", FOLDER / f"{NAME}.txt"
    inputs = [str(audio), str(transcript)]
    refuse_outputs(out_dir, NAME, DEFAULT_FORMATS, force=True, inputs=inputs)
    settings = Settings()
    alignment = run_aligner(str(audio), read_transcript(transcript), None, ModelOptions(), settings, talk)
    paths = write_outputs(alignment, out_dir, NAME, settings=settings, force=True, protect=inputs)
    if talk.quiet:
        return
    console = console_for(sys.stdout)
    console.print(words_table(alignment, console.width))
    for line in (
        loss_line(alignment),
        "",
        f"The recording: {audio}",
        f"Its transcript: {alignment.text.strip()}",
        "",
        "Wrote",
    ):
        console.print(line, markup=False, soft_wrap=True)
    for path in paths:
        console.print(f"  {path}", markup=False, soft_wrap=True)
