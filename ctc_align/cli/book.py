"""ctc-align book: a read-aloud EPUB, made from a book and the alignments of its recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.arguments import alignments_at, check_new, is_book, kind_of
from ctc_align.cli.notes import latest_alignments, recording_notes
from ctc_align.cli.options import (
    MessageOptions,
    folder_option,
    force_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import Talk, counted
from ctc_align.config import setting
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.files.read_aloud import Reading

_EXTENSION = ".read-aloud.epub"


@with_examples(
    "ctc-align book book.epub spoken",
    "ctc-align book book.epub spoken --audio chapters --out-dir read-aloud",
    "ctc-align book book.epub spoken/one.json --by words --out-dir karaoke",
)
@with_options
def book(
    epub: Annotated[
        str, typer.Argument(metavar="BOOK.epub", help="The book that was aligned, an EPUB 3.")
    ],
    alignments: Annotated[
        list[str],
        typer.Argument(
            metavar="ALIGNMENT.json|FOLDER",
            help=(
                "Alignments of its recordings: JSON that ctc-align wrote, or folders, of which each"
                " alignment is used with its latest corrections."
            ),
        ),
    ],
    *,
    by: str = setting(
        "sentences", "What to highlight while it is spoken.", choices=("sentences", "words")
    ),
    audio: str = setting(
        "",
        "The recording, or the folder of the recordings.",
        metavar="PATH",
        shown="as the alignments say",
    ),
    out_dir: str | None = folder_option("Folder for the book.", shown="the current directory"),
    force: bool = force_option(),
    messages: MessageOptions,
) -> None:
    """Make a read-aloud EPUB from a book and its alignments.

    Writes NAME.read-aloud.epub for NAME.epub. The new book contains the recordings, and reading
    apps highlight each sentence while it is spoken. Recordings in MP3, AAC (M4A) and Opus are
    stored unchanged, others are encoded as Opus.
    """
    from ctc_align.files.read_aloud import write_read_aloud

    talk = messages.talk()
    if not is_book(epub):
        raise UsageError(
            f"{epub}: expected the EPUB book that was aligned; ctc-align book BOOK.epub"
            " ALIGNMENT.json"
        )
    if audio and kind_of(audio, "--audio") == "nothing":
        raise UsageError(
            f"--audio {audio}: no such file or folder; expected a recording, or the folder of all"
        )
    alignments = latest_alignments(
        [path for each in alignments for path in alignments_at(each)], talk
    )
    if audio and len(alignments) > 1 and not Path(audio).is_dir():
        raise UsageError(
            f"--audio {audio}: is one recording for {len(alignments)} alignments; give their folder"
        )
    target = Path(out_dir or ".", Path(epub).stem + _EXTENSION)
    check_new(target, force)
    talk.listen()
    made = write_read_aloud(Path(epub), _readings(alignments, audio, talk), target, by)
    silent = made.all_pages - made.pages
    if silent:
        talk.note(
            f"{counted(silent, 'page', 'pages')} of {made.all_pages} without sound: no word of it"
            " has a time"
        )
    talk.say(
        f"wrote {target} ({counted(made.elements, by[:-1], by)} on"
        f" {counted(made.pages, 'page', 'pages')})"
    )


def _readings(alignments: list[str], audio: str, talk: Talk) -> list[Reading]:
    """Return the alignments with their recordings.

    These are in `audio`, or where the alignments say.
    """
    from ctc_align.files.alignment_files import read_alignment
    from ctc_align.files.read_aloud import Reading
    from ctc_align.sources.named_recordings import find_recording

    readings = []
    for path in alignments:
        alignment = read_alignment(path)
        recording = find_recording(alignment, Path(path), audio)
        talk.notes(recording_notes(alignment, recording))
        readings.append(Reading(alignment, recording, path))
    return readings
