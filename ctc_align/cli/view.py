"""Pages for a browser: ctc-align view for alignments, ctc-align report for a corpus run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.arguments import check_alignments, check_new, kind_of
from ctc_align.cli.notes import later_notes, read_with_corrections, recording_notes
from ctc_align.cli.options import (
    Group,
    MessageOptions,
    folder_option,
    force_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk, put_bytes, say
from ctc_align.config import setting
from ctc_align.errors import CtcAlignError, InputError, OutputError, UsageError
from ctc_align.reading import open_input
from ctc_align.text.note_kinds import first_of_each_kind

if TYPE_CHECKING:
    from ctc_align.corpus.report.run_changes import RunChanges
    from ctc_align.corpus.report.run_figures import RunFigures
    from ctc_align.types import Alignment
    from ctc_align.view.page import PageSound

REPORT = "report.html"


@dataclass(frozen=True)
class PageOptions(Group):
    """The sound of the pages, and where they are written."""

    audio: str = setting(
        "embed",
        "embed: the recording inside the page; link: a link to its file; none: no sound; or the"
        " path of the recording, or of the folder of the recordings.",
        metavar="PATH|embed|link|none",
    )
    out_dir: str | None = folder_option("Folder for the pages.", shown="the current directory")
    stdout: bool = setting(False, "Write the page of one alignment to standard output.")
    utterance: list[str] | None = setting(
        None,
        "Show this utterance of the corpus run whose folder is given; may be repeated.",
        metavar="ID",
    )
    force: bool = force_option()
    theme: str = setting(
        "auto", "Colours; auto: those of the reader's system.", choices=("auto", "light", "dark")
    )


@with_examples(
    "ctc-align view talk.json",
    "ctc-align view talk.json --audio none --out-dir pages",
    "ctc-align view aligned --utterance anna/one --out-dir pages",
)
@with_options
def view(
    alignments: Annotated[
        list[str],
        typer.Argument(
            metavar="ALIGNMENT.json",
            help=(
                "JSON that ctc-align wrote; with --utterance the folder that ctc-align corpus"
                " wrote."
            ),
        ),
    ],
    *,
    page: PageOptions,
    messages: MessageOptions,
) -> None:
    """Make a page to see, hear and correct an alignment.

    Any browser opens the page, even offline. Writes NAME.html for NAME.json, with the
    recording inside; sound of more than 20 MB goes into a file beside it, NAME.page.ogg. For an
    utterance of a corpus run, ctc-align view OUT_DIR --utterance ID shows its latest corrections.
    """
    from ctc_align.files.pages import SOUND_MODES

    talk = messages.talk()
    given = "" if page.audio in SOUND_MODES else page.audio
    if kind_of(page.audio, "--audio") == "nothing" and given:
        raise UsageError(
            f"--audio {given}: no such file or folder; expected a recording, a folder, embed, link"
            " or none"
        )
    if not page.utterance:
        alignments = check_alignments(alignments, "ALIGNMENT.json")
    count = len(page.utterance or alignments)
    if given and count > 1 and not Path(given).is_dir():
        raise UsageError(
            f"--audio {given}: is one recording for {count} alignments; give their folder"
        )
    shown = _shown(alignments, page, talk)
    targets = _targets(shown, page)
    talk.listen()
    failed = 0
    for (path, _, alignment), target in zip(shown, targets):
        try:
            _write_page(
                path, alignment or read_with_corrections(str(path), talk), target, page, talk
            )
        except UsageError:
            raise
        except CtcAlignError as error:
            if count == 1:
                raise
            say(f"ctc-align: error: {error}")
            failed += 1
    if failed:
        raise typer.Exit(SOME_FAILED)


_Shown = tuple[Path, str, "Alignment | None"]
"""The file of an alignment, the name of its page, and the alignment if it was read already."""


def _shown(alignments: list[str], page: PageOptions, talk: Talk) -> list[_Shown]:
    """Return the alignments to show; raise UsageError, before any work, for other JSON."""
    if page.out_dir == "":
        raise UsageError(
            "--out-dir: expected the path of a folder, got an empty one; . is the current folder"
        )
    if page.stdout and (page.out_dir is not None or len(page.utterance or alignments) != 1):
        raise UsageError(
            "--stdout writes one page, and no files: give one alignment, and no --out-dir"
        )
    if not page.utterance:
        talk.notes(later_notes(alignments))
        return [(Path(path), Path(path).stem, None) for path in alignments]
    if len(alignments) != 1:
        raise UsageError(
            "--utterance: expected one folder, the --out-dir of a corpus run, got"
            f" {len(alignments)} paths"
        )
    from ctc_align.corpus.report.run_figures import alignment_in
    from ctc_align.sources.utterance_ids import output_of

    folder = Path(alignments[0])
    found = [(id, *alignment_in(folder, id)) for id in dict.fromkeys(page.utterance)]
    for _, work, corrected in found:
        talk.notes([*work.notes(), *corrected.notes])
    return [
        (work.path, output_of(id).rpartition("/")[2], corrected.alignment)
        for id, work, corrected in found
    ]


def _targets(shown: list[_Shown], page: PageOptions) -> list[Path]:
    """Return the page of each alignment; raise UsageError if one cannot be written."""
    from ctc_align.files.alignment_files import check_folder

    if not page.stdout:
        try:
            check_folder(Path(page.out_dir or "."))
        except OutputError as error:
            raise UsageError(str(error)) from None
    targets = [Path(page.out_dir or ".", f"{name}.html") for _, name, _ in shown]
    for (path, _, _), target in zip(shown, targets):
        if targets.count(target) > 1:
            raise UsageError(
                f"{path}: two pages would be {target}; make them one by one, each with its own"
                " --out-dir"
            )
        if not page.stdout:
            check_new(target, page.force)
    return targets


def _write_page(
    path: Path, alignment: Alignment, target: Path, page: PageOptions, talk: Talk
) -> None:
    """Write the page of an alignment, whole or not at all; large sound goes beside it."""
    from ctc_align.files.pages import page_object
    from ctc_align.files.whole_files import write_whole
    from ctc_align.view.page import MOST_EMBEDDED_BYTES
    from ctc_align.view.page import page as html_of

    sound, recording = _sound(path, alignment, target.parent, page.audio, talk)
    files: dict[Path, bytes] = {}
    if sound is not None and sound.encoded is not None and len(sound.encoded) > MOST_EMBEDDED_BYTES:
        beside = _file_beside(path, target, recording, len(sound.encoded), page)
        talk.note(
            f"the sound ({len(sound.encoded) / 1e6:.0f} MB) is too large to embed in {target}: it is in"
            f" {beside}"
        )
        files[beside] = sound.encoded
        sound = sound.beside(beside.name)
    html = html_of(page_object(alignment), name=target.stem, sound=sound, theme=page.theme).encode(
        "utf-8"
    )
    if page.stdout:
        put_bytes(html)
        return
    files = {target: html, **files}
    write_whole(files)
    talk.say("wrote " + ", ".join(map(str, files)))


def _sound(
    path: Path, alignment: Alignment, folder: Path, audio: str, talk: Talk
) -> tuple[PageSound | None, Path | None]:
    """Return the sound of a page in `folder`, as --audio says, and its recording."""
    from ctc_align.files.pages import (
        LINK,
        NO_SOUND,
        SOUND_MODES,
        embedded_stretch,
        linked_recording,
    )
    from ctc_align.sources.named_recordings import find_recording

    if audio == NO_SOUND:
        return None, None
    try:
        recording = find_recording(alignment, path, "" if audio in SOUND_MODES else audio)
    except UsageError as error:
        raise UsageError(f"{error}, or --audio none for a page without sound") from None
    talk.notes(recording_notes(alignment, recording))
    if audio == LINK:
        return linked_recording(alignment, recording, folder), recording
    return embedded_stretch(alignment, recording), recording


def _file_beside(
    path: Path, target: Path, recording: Path | None, size: int, page: PageOptions
) -> Path:
    """Return the new file beside the page `target` for sound of `size` bytes."""
    from ctc_align.files.pages import sound_place

    if page.stdout:
        raise UsageError(
            f"{path}: its sound ({size / 1e6:.0f} MB) is too large to embed in the page: give"
            " --out-dir DIR, not --stdout, or --audio link"
        )
    beside = sound_place(target, recording or "")
    if os.path.lexists(beside) and not page.force:
        raise OutputError(
            f"{beside}: already exists; give --force to replace it, or another --out-dir"
        )
    return beside


@with_examples(
    "ctc-align report aligned",
    "ctc-align report aligned --out-dir pages",
    "ctc-align report aligned --against earlier --force",
)
@with_options
def report(
    run: Annotated[
        str, typer.Argument(metavar="OUT_DIR", help="The --out-dir of ctc-align corpus.")
    ],
    *,
    against: str | None = setting(
        None,
        "An earlier run of the corpus: the page shows what has changed since.",
        metavar="DIR",
    ),
    audio: str = setting(
        "embed",
        "embed: clips of the listed utterances inside the page; none: no sound; or the path of the"
        " folder that the recordings have moved to.",
        metavar="PATH|embed|none",
    ),
    out_dir: str | None = folder_option("Folder for report.html.", shown="OUT_DIR itself"),
    force: bool = force_option(),
    messages: MessageOptions,
) -> None:
    """Make a page about a corpus run: failures, quality, worst cases.

    Reads the journals and the outputs of all shards, even if the run has not ended, and writes
    OUT_DIR/report.html. Exits with 1 if outputs of this run, or of the one that it is compared
    with, could not be read; failures in the run itself are listed in the page.
    """
    from ctc_align.corpus.report.report_page import report_page
    from ctc_align.corpus.report.run_changes import run_changes
    from ctc_align.corpus.report.run_figures import run_figures
    from ctc_align.files.pages import EMBED, NO_SOUND
    from ctc_align.files.whole_files import write_whole

    talk = messages.talk()
    if audio not in (EMBED, NO_SOUND) and not os.path.exists(audio):
        raise UsageError(
            f"--audio: expected embed, none, or the folder of the recordings, got {audio}"
        )
    if run == "" or out_dir == "":
        which = "OUT_DIR" if run == "" else "--out-dir"
        raise UsageError(
            f"{which}: expected the path of a folder, got an empty one; . is the current folder"
        )
    folder = Path(out_dir or run)
    target = folder / REPORT
    _check_target(Path(run), target, force)
    talk.listen()
    with talk.progress("reading outputs") as progress:
        figures = run_figures(Path(run), progress)
    changes = None
    if against is not None:
        with talk.progress("comparing") as progress:
            changes = run_changes(Path(run), Path(against), progress)
    write_whole({target: report_page(figures, Path(run), folder, changes, audio).encode()})
    talk.notes(first_of_each_kind(figures.notes))
    unread = _name_unread(figures, changes)
    talk.say(f"wrote {target}")
    if unread:
        raise typer.Exit(SOME_FAILED)


def _name_unread(figures: RunFigures, changes: RunChanges | None) -> bool:
    """Name on stderr each output that could not be read; return whether there are any."""
    reports: list[RunFigures | RunChanges] = [figures] if changes is None else [figures, changes]
    for fault in dict.fromkeys(fault for report in reports for fault in report.faults):
        say(f"ctc-align: {fault}")
    more = sum(report.unread - len(report.faults) for report in reports)
    if more:
        say(f"ctc-align: and {more} more outputs that could not be read")
    return any(report.unread for report in reports)


def _check_target(run: Path, target: Path, force: bool) -> None:
    """Raise UsageError if the page would replace another file, or a report without --force."""
    from ctc_align.corpus.report.report_page import MARK

    if run.is_dir() and os.path.lexists(target):
        if not _is_report(target, MARK.encode()):
            raise UsageError(
                f"{target}: already exists, and is not a report; give another folder with --out-dir"
            )
        check_new(target, force)
    if target.parent.exists() and not target.parent.is_dir():
        raise UsageError(f"{target.parent}: expected a folder for the report, got a file")


def _is_report(path: Path, mark: bytes) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with open_input(path) as file:
            return file.read(len(mark)) == mark
    except (OSError, InputError):
        return False
