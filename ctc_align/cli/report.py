"""ctc-align report: one page about a corpus run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ctc_align.cli.messages import SOME_FAILED
from ctc_align.cli.options import Group, MessageOptions, folder_option, force_option, grouped
from ctc_align.cli.printing import say
from ctc_align.errors import InputError, UsageError

_NAME = "report.html"


@dataclass(frozen=True)
class ReportOptions(Group):
    """The file that is written."""

    out_dir: str | None = folder_option("Folder for report.html.", shown="OUT_DIR itself")
    force: bool = force_option()


@grouped
def report(
    run: Annotated[str, typer.Argument(metavar="OUT_DIR", help="The --out-dir of ctc-align corpus.")],
    *,
    destination: ReportOptions,
    messages: MessageOptions,
) -> None:
    """Make a page about a corpus run: what failed and why, how good the rest is, and where to look first.

    Reads the journals and the outputs, of all shards and as far as the run has come, and writes OUT_DIR/report.html.
    Exits with 1 if outputs could not be read; what failed in the run itself is in the page.
    """
    from ctc_align.corpus.report.report_page import report_page
    from ctc_align.corpus.report.run_figures import run_figures
    from ctc_align.files.whole_files import placing

    talk = messages.talk()
    if run == "" or destination.out_dir == "":
        which = "OUT_DIR" if run == "" else "--out-dir"
        raise UsageError(f"{which}: expected the path of a folder, got an empty one; . is the current folder")
    folder = Path(destination.out_dir or run)
    target = folder / _NAME
    _check_target(Path(run), target, destination.force)
    talk.listen()
    with talk.progress("reading outputs") as progress:
        figures = run_figures(Path(run), progress)
    with placing([target]) as files:
        for _, part in files:
            part.write_text(report_page(figures, Path(run), folder), encoding="utf-8", newline="\n")
    talk.notes(figures.notes)
    for fault in figures.faults:
        say(f"ctc-align: {fault}")
    if figures.unread > len(figures.faults):
        say(f"ctc-align: and {figures.unread - len(figures.faults)} more outputs that could not be read")
    talk.say(f"wrote {target}")
    if figures.unread:
        raise typer.Exit(SOME_FAILED)


def _check_target(run: Path, target: Path, force: bool) -> None:
    """Raise UsageError, before any work, where the page would replace what is no report, or without --force one."""
    from ctc_align.corpus.report.report_page import MARK

    if run.is_dir() and os.path.lexists(target):
        if not _is_report(target, MARK.encode()):
            raise UsageError(f"{target}: is there already, and is no report; give another folder with --out-dir")
        if not force:
            raise UsageError(f"{target}: exists already; give --force to replace it, or another --out-dir")
    if target.parent.exists() and not target.parent.is_dir():
        raise UsageError(f"{target.parent}: expected a folder for the report, got a file")


def _is_report(path: Path, mark: bytes) -> bool:
    from ctc_align.reading import open_input

    if path.is_symlink() or not path.is_file():
        return False
    try:
        with open_input(path) as file:
            return file.read(len(mark)) == mark
    except (OSError, InputError):
        return False
