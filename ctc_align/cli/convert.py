"""ctc-align convert: other formats and tiers of existing alignments."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.align import (
    DestinationOptions,
    check_places,
    checked_formats,
    code_of_file,
    distinct_outputs,
    renamed_notes,
    write_stdout,
)
from ctc_align.cli.arguments import alignments_at, check_alignments, kind_of
from ctc_align.cli.notes import (
    effect_notes,
    fast_cue_notes,
    recording_notes,
    tier_notes,
)
from ctc_align.cli.options import (
    MessageOptions,
    SettingsOptions,
    formats_option,
    recording_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED
from ctc_align.config import Settings, known_settings
from ctc_align.errors import UsageError
from ctc_align.text.note_kinds import Notes

if TYPE_CHECKING:
    from ctc_align.cli.printing import Talk
    from ctc_align.files import OutputFiles
    from ctc_align.types import Alignment


_WRITER_OF_PAGES = "ctc_align.files.pages"
Alignments = Annotated[
    list[str],
    typer.Argument(
        metavar="ALIGNMENT.json|FOLDER",
        help=(
            "JSON that ctc-align wrote, or folders, of which each alignment is used with its latest"
            " corrections."
        ),
    ),
]


@with_examples(
    "ctc-align convert talk.json --format srt,vtt",
    "ctc-align convert aligned --format csv --tiers syllables --out-dir tables",
    "ctc-align convert talk.json --format csv --phones ipa --stdout > talk.csv",
)
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
    were aligned again: JSON contains the settings and all else that the formats need, except the
    sound. The defaults below apply only to settings that it lacks. Alignments from a folder keep
    their paths below --out-dir.
    """
    talk = messages.talk()
    if format is None:
        raise UsageError("--format: expected the formats to write, such as srt,vtt; got none")
    formats = checked_formats(format, destination.stdout, destination.out_dir)
    notes = Notes()
    names = dict(_name_outputs(alignments, notes))
    if destination.stdout and len(names) > 1:
        raise UsageError(f"--stdout takes one alignment, got {len(names)}")
    _check_audio(audio, len(names))
    talk.listen()
    outputs = distinct_outputs(names, destination, formats, [*names, audio or None, config.file])
    conversion = _Conversion(formats, audio, config, talk, notes)
    is_alone = len(names) == 1
    try:
        codes = [
            code_of_file(conversion.convert_file, path, files, alone=is_alone)
            for path, files in zip(names, outputs)
        ]
    finally:
        logging.getLogger(_WRITER_OF_PAGES).disabled = False
        talk.notes(notes.lines("file", len(names)))
    if any(codes):
        raise typer.Exit(SOME_FAILED)


def _check_audio(audio: str, alignments: int) -> None:
    """Raise UsageError unless --audio is a folder, or the recording of the only alignment."""
    kind = kind_of(audio, "--audio") if audio else "folder"
    got = ""
    if kind == "nothing":
        got = "no such file"
    elif kind == "file" and alignments > 1:
        got = f"one recording for {alignments} alignments: give their folder"
    if got:
        raise UsageError(
            f"--audio {audio}: expected a recording, or a folder of recordings, got {got}"
        )


def _name_outputs(given: Sequence[str], notes: Notes) -> Iterator[tuple[str, str]]:
    """Yield the files of alignments and the names of their outputs, in folders by their paths."""
    from ctc_align.files.corrections import latest_works, original_of

    files = [path for path in given if kind_of(path, "ALIGNMENT.json") != "folder"]
    for path in check_alignments(files, "ALIGNMENT.json") if files else ():
        yield path, Path(path).stem
    for folder in given:
        if folder not in files:
            for work in latest_works(map(Path, alignments_at(folder))):
                path = str(work.path)
                notes.add(path, work.notes(), "alignments used in place of others")
                yield path, original_of(work.path).relative_to(folder).with_suffix("").as_posix()


@dataclass(frozen=True)
class _Conversion:
    """The options of a call that apply to each alignment, and the notes on them."""

    formats: tuple[str, ...]
    audio: str
    config: SettingsOptions
    talk: Talk
    notes: Notes

    def convert_file(self, path: str, files: OutputFiles | None) -> int:
        """Write the alignment in a file to other files, or to stdout; return the exit code."""
        from ctc_align.evaluate.corrected_labels import read_corrected
        from ctc_align.files import FORMATS, Style
        from ctc_align.files.cues import limit_notes

        corrected = read_corrected(path)
        self.notes.add(path, corrected.notes, "alignments with later corrections")
        alignment, settings = self._apply_options(corrected.alignment, path)
        recording = None
        if any(FORMATS[name].needs_sound for name in self.formats):
            recording = self._find_recording(path, alignment)
            # it would say once more that there is no recording
            logging.getLogger(_WRITER_OF_PAGES).disabled = recording is None
        fast = fast_cue_notes(alignment, settings, self.formats)
        self.notes.add(path, fast, "cues faster than --max-cps because the speech is that fast")
        broken = limit_notes(alignment, Style.of(settings), self.formats)
        self.notes.add(path, broken, "cues that break --style or its limits")
        if files is None:
            write_stdout(alignment, self.formats[0], settings, recording)
            return 0
        written = files.write(alignment, settings, sound=recording)
        kept = renamed_notes(files)
        self.notes.add(path, kept, "inputs that stay as they are, beside NAME.aligned.EXT")
        tiers = tier_notes(alignment)
        self.notes.add(path, tiers, "tiers of documents that are the text, or stay as they are")
        self.talk.say("wrote " + ", ".join(map(str, written)))
        return 0

    def _apply_options(self, alignment: Alignment, path: str) -> tuple[Alignment, Settings]:
        """Return the alignment with the options of the call, and its settings with them."""
        from ctc_align.files.tiers import with_phones

        check_places(self.formats, alignment.places, f"the transcript of {path} is not one")
        known = known_settings(alignment.config, f"{path}: config.")
        settings = self.config.settings(known)
        before = Settings(**known)
        unused = effect_notes(self.config, self.formats)
        self.notes.add(path, unused, "options without effect")
        new = {name: getattr(settings, name) for name in self.config.overrides}
        changed = {name: value for name, value in new.items() if value != getattr(before, name)}
        alignment = replace(alignment, config={**alignment.config, **changed})
        if self.config.overrides["phones"]:
            alignment = with_phones(alignment, settings.phones)
        return alignment, settings

    def _find_recording(self, path: str, alignment: Alignment) -> str | None:
        """Return the recording of an alignment; None, and a note, if it is not there."""
        from ctc_align.sources.named_recordings import find_recording

        try:
            recording = find_recording(alignment, Path(path), self.audio)
        except UsageError as error:
            if self.audio:
                raise
            self.notes.add(path, [str(error)], "recordings that are not there, or do not fit")
            return None
        longer = recording_notes(alignment, recording)
        self.notes.add(path, longer, "recordings much longer than their alignment")
        return str(recording)
