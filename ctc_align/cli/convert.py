"""ctc-align convert: other formats and tiers of existing alignments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.align import (
    DestinationOptions,
    check_places,
    checked_formats,
    code_of_file,
    distinct_outputs,
    note_renamed,
    write_stdout,
)
from ctc_align.cli.arguments import alignments_at, check_alignments, kind_of
from ctc_align.cli.notes import (
    effect_notes,
    fast_cue_notes,
    latest_alignments,
    read_with_corrections,
    recording_notes,
    tier_notes,
)
from ctc_align.cli.options import (
    MessageOptions,
    SettingsOptions,
    formats_option,
    recording_option,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk
from ctc_align.config import Settings, known_settings
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.files import OutputFiles
    from ctc_align.types import Alignment


Alignments = Annotated[
    list[str],
    typer.Argument(
        metavar="ALIGNMENT.json|FOLDER",
        help=(
            "JSON that ctc-align wrote, or folders with all of their alignments, each with its"
            " latest corrections."
        ),
    ),
]


@with_options
def convert(
    alignments: Alignments,
    *,
    audio: str = recording_option(
        "", "For html, png and svg: the recording, or a folder of recordings."
    ),
    format: str | None = formats_option(shown=""),
    destination: DestinationOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Write existing alignments in other formats or tiers.

    With --format srt, writes NAME.srt for NAME.json. The bytes are the same as if the recording
    were aligned again, because JSON contains everything that the formats need except the sound.
    Alignments from a folder keep their paths below --out-dir.
    """
    talk = messages.talk()
    if format is None:
        raise UsageError("--format: expected the formats to write, such as srt,vtt; got none")
    formats = checked_formats(format, destination.stdout, destination.out_dir)
    names = dict(_named(alignments, talk))
    if destination.stdout and len(names) > 1:
        raise UsageError(f"--stdout takes one alignment, got {len(names)}")
    if (
        audio
        and (kind := kind_of(audio, "--audio")) != "folder"
        and (kind == "nothing" or len(names) > 1)
    ):
        got = (
            "no such file"
            if kind == "nothing"
            else f"one recording for {len(names)} alignments: give their folder"
        )
        raise UsageError(
            f"--audio {audio}: expected a recording, or a folder of recordings, got {got}"
        )
    talk.listen()
    outputs = distinct_outputs(names, destination, formats, [*names, audio or None, config.file])

    def run(path: str, files: OutputFiles | None) -> int:
        from ctc_align.files import FORMATS
        from ctc_align.files.tiers import with_phones

        alignment = read_with_corrections(path, talk)
        check_places(formats, alignment.places, f"the transcript of {path} is not one")
        known = known_settings(alignment.config, f"{path}: config.")
        settings, before = config.settings(known), Settings(**known)
        keeps_cues = alignment.subtitles is not None and settings.cues != "again"
        talk.notes(effect_notes(config, formats, keeps_cues=keeps_cues))
        new = {name: getattr(settings, name) for name in config.overrides}
        changed = {name: value for name, value in new.items() if value != getattr(before, name)}
        alignment = replace(alignment, config={**alignment.config, **changed})
        if config.overrides["phones"]:
            alignment = with_phones(alignment, settings.phones)
        recording = (
            _recording(path, alignment, audio, talk)
            if any(FORMATS[name].needs_sound for name in formats)
            else None
        )
        talk.notes(fast_cue_notes(alignment, settings, formats))
        if files is None:
            write_stdout(alignment, formats[0], settings, recording)
            return 0
        written = files.write(alignment, settings, sound=recording)
        note_renamed(files, talk)
        talk.notes(tier_notes(alignment))
        talk.say("wrote " + ", ".join(map(str, written)))
        return 0

    codes = [
        code_of_file(run, path, files, alone=len(names) == 1) for path, files in zip(names, outputs)
    ]
    if any(codes):
        raise typer.Exit(SOME_FAILED)


def _named(given: Sequence[str], talk: Talk) -> Iterator[tuple[str, str]]:
    """Yield the files of alignments and the names of their outputs: those in folders by their paths
    there."""
    from ctc_align.files.corrections import original_of

    files = [path for path in given if kind_of(path, "ALIGNMENT.json") != "folder"]
    for path in check_alignments(files, "ALIGNMENT.json") if files else ():
        yield path, Path(path).stem
    for folder in given:
        if folder not in files:
            for path in latest_alignments(alignments_at(folder), talk):
                yield path, original_of(Path(path)).relative_to(folder).with_suffix("").as_posix()


def _recording(path: str, alignment: Alignment, audio: str, talk: Talk) -> str | None:
    """Return the recording of an alignment; None, and a note, if it is not there."""
    from ctc_align.sources.named_recordings import find_recording

    try:
        recording = find_recording(alignment, Path(path), audio)
    except UsageError as error:
        if audio:
            raise
        talk.note(str(error))
        return None
    talk.notes(recording_notes(alignment, recording))
    return str(recording)
