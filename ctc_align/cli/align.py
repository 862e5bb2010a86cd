"""ctc-align align: one recording and its transcript; output files and messages of an alignment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.arguments import (
    STDIN,
    check_audio,
    check_files,
    check_recording,
    check_roles,
    check_transcript,
    is_book,
)
from ctc_align.cli.notes import (
    alignment_notes,
    choice_notes,
    effect_notes,
    fast_cue_notes,
    language_notes,
    limit_lines,
    old_book_notes,
    unknown_letters,
    written_line,
)
from ctc_align.cli.options import (
    Group,
    LogProbsOptions,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    folder_option,
    force_option,
    formats_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import (
    OK,
    PROGRAM,
    SOME_FAILED,
    THRESHOLD_NOT_MET,
    Talk,
    console_for,
    put_bytes,
    say,
)
from ctc_align.config import setting
from ctc_align.errors import CtcAlignError, OutputError, UsageError
from ctc_align.reading import STANDARD_INPUT
from ctc_align.types import SEGMENTS, Audio, AudioLike, BookPlace, Transcript, Words, utterance_name

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.config import Settings
    from ctc_align.files import OutputFiles
    from ctc_align.models.log_probs import LogProbsReader
    from ctc_align.types import Alignment


@dataclass(frozen=True)
class DestinationOptions(Group):
    """The files of an alignment, or standard output."""

    out_dir: str | None = folder_option("Folder for the outputs.", shown="the current directory")
    stdout: bool = setting(
        False, "Write one format (json unless --format says which) to standard output."
    )
    force: bool = force_option()

    def files(
        self, name: str, formats: Sequence[str], inputs: Sequence[str | None]
    ) -> OutputFiles | None:
        """Return the files to write, none of them one of `inputs`; None for standard output."""
        if self.stdout:
            return None
        protected = [path for path in inputs if path is not None and path != "-"]
        return output_files(self.out_dir or ".", name, formats, self.force, protected)


def distinct_outputs(
    names: Mapping[str, str],
    destination: DestinationOptions,
    formats: Sequence[str],
    inputs: Sequence[str | None],
) -> list[OutputFiles | None]:
    """Return the files of each alignment in `names`, {its file: the name of its outputs}.

    Raises:
        UsageError: two alignments would be written to one file, or an output cannot be written.
    """
    outputs = [destination.files(name, formats, inputs) for name in names.values()]
    sources: dict[Path, str] = {}
    for path, files in zip(names, outputs):
        for output in files.paths if files is not None else ():
            other = sources.setdefault(output, path)
            if other != path:
                raise UsageError(
                    f"{other} and {path} would both be written to {output}: do them one by one, each"
                    " with its own --out-dir"
                )
    return outputs


def code_of_file(
    run: Callable[[str, OutputFiles | None], int],
    path: str,
    files: OutputFiles | None,
    *,
    alone: bool,
) -> int:
    """Return the exit code of `run` for one file.

    If there are more files, report its error and let them continue.
    """
    try:
        return run(path, files)
    except CtcAlignError as error:
        if alone:
            raise
        say(f"{PROGRAM}: error: {error if path in str(error) else f'{path}: {error}'}")
        return SOME_FAILED


Recording = Annotated[
    str,
    typer.Argument(
        metavar="AUDIO",
        help=(
            "A recording or video, - for standard input, or log-probs (.npy .npz .pt .safetensors"
            " .ark:OFFSET)."
        ),
    ),
]
TranscriptFile = Annotated[
    str | None,
    typer.Argument(
        metavar="TRANSCRIPT",
        help=(
            "A UTF-8 text, subtitles (SRT, VTT, SBV), a TextGrid or ELAN file, CHAT, STM, Transcriber"
            " and others, JSON of Whisper and of speech services, or an EPUB book; - for standard input."
        ),
    ),
]


@with_examples(
    "ctc-align interview.wav interview.txt",
    "ctc-align film.mp4 film.srt --cues again --style netflix --out-dir subtitles",
    'ctc-align interview.wav --text "Good morning!" --format ctm --stdout',
)
@with_options
def align(
    audio: Recording,
    transcript: TranscriptFile = None,
    *,
    text: str | None = setting(
        None,
        "The text of the transcript, instead of a file; or the path of an EPUB book.",
        metavar="TEXT",
    ),
    format: str | None = formats_option(),
    destination: DestinationOptions,
    model: ModelOptions,
    log_probs: LogProbsOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Find when each word of TRANSCRIPT is spoken in AUDIO.

    Writes NAME.json, NAME.ctm, NAME.tokens.ctm and NAME.TextGrid for the audio NAME.wav.
    """
    from ctc_align.models import check_model

    # the call is checked before anything is loaded
    talk = messages.talk()
    check_audio(audio)
    if transcript is None and is_book(text):
        transcript = text
        text = None
    check_transcript(audio, transcript, text)
    reader = log_probs.reader_of_file(audio, model.model)
    calibration = config.overrides["calibration"]
    check_files(
        {"--lexicon": model.lexicon, "--vocab": log_probs.vocab, "--calibration": calibration}
    )
    formats = checked_formats(format, destination.stdout, destination.out_dir)
    settings = config.settings()
    check_roles("ctc-align", audio, [] if transcript is None else [transcript])
    talk.listen()
    source = "--text" if transcript is None else transcript
    written = _read_transcript(source, text, settings)
    check_recording(audio, reader, formats)
    if reader is None and model.model is not None:
        check_model(model.model)
    formats = with_source_format(formats, written, destination.stdout)
    files = (audio, transcript, model.lexicon, log_probs.vocab, config.file, calibration)
    outputs = destination.files(utterance_name(audio), formats, files)

    from ctc_align.alignment.aligner import find_choice, split_transcript

    aligner = load_aligner(model, reader, settings)
    words = split_transcript(aligner, written, STANDARD_INPUT if source == STDIN else source)
    choice = find_choice(aligner)
    looks = words.language if choice.by_text and not written.language else ""
    talk.notes(choice_notes({looks: 1}))
    spoken = " ".join(word.text for word in words.words if word.spoken)
    talk.notes(language_notes(spoken, choice.only, settings.language))
    talk.notes(effect_notes(config, formats))
    talk.notes(old_book_notes(source) if "smil" in formats else ())
    sound = sound_of(audio, reader, aligner, words.language)
    alignment = run_aligner(aligner, sound, words, utterance_name(audio), talk)

    in_memory = sound if isinstance(sound, Audio) else None
    if write_alignment(alignment, outputs, formats[0], settings, talk, in_memory):
        raise typer.Exit(THRESHOLD_NOT_MET)


def _read_transcript(source: str, text: str | None, settings: Settings) -> Transcript:
    """Return the given text, or else the transcript in the file `source`; raise if it is empty."""
    from ctc_align.files.transcripts import read_transcript_file, require_text

    if text is None:
        written = read_transcript_file(source, settings.encoding, settings.language)
    else:
        written = Transcript(text)
    require_text(written.text, source)
    return written


def write_alignment(
    alignment: Alignment,
    files: OutputFiles | None,
    format: str,
    settings: Settings,
    talk: Talk,
    sound: Audio | None = None,
) -> int:
    """Write an alignment to `files`, or in `format` to stdout, and report it; return the exit code.

    `sound`: the aligned sound, if it is in memory.
    """
    from ctc_align.files import Style
    from ctc_align.files.cues import limit_notes

    if files is None:
        write_stdout(alignment, format, settings, sound)
        report(alignment, [], talk)
    else:
        paths = files.write(alignment, settings, sound=sound)
        talk.notes(renamed_notes(files))
        report(alignment, paths, talk)
    formats = (format,) if files is None else files.formats
    talk.notes(fast_cue_notes(alignment, settings, formats))
    talk.notes(limit_notes(alignment, Style.of(settings), formats))
    unmet = limit_lines(alignment)
    for line in unmet:  # even when quiet
        say(f"{PROGRAM}: {line}")
    return THRESHOLD_NOT_MET if unmet else OK


def renamed_notes(outputs: OutputFiles) -> list[str]:
    """Return notes on the outputs that would have replaced an input."""
    return [
        f"{path} is an input and stays as it is: what would replace it is in {renamed}"
        for path, renamed in outputs.renamed.items()
    ]


def checked_formats(format: str | None, stdout: bool, out_dir: str | None) -> tuple[str, ...]:
    from ctc_align.files import DEFAULT_FORMATS, FORMATS, parse_formats

    formats = DEFAULT_FORMATS if format is None else parse_formats(format)
    if out_dir == "":
        raise UsageError(
            "--out-dir: expected the path of a folder, got an empty one; . is the current folder"
        )
    if not stdout:
        return formats
    if out_dir is not None:
        raise UsageError("--stdout writes no files: omit --out-dir or --stdout")
    if format is None:
        return formats[:1]
    if len(formats) != 1:
        raise UsageError(f"--stdout takes exactly one format, got {', '.join(formats)}")
    if FORMATS[formats[0]].writers[0].is_binary and sys.stdout.isatty():
        raise UsageError(
            f"--stdout: {formats[0]} is not text for a terminal: write it to a file (… --stdout >"
            " FILE)"
        )
    return formats


def with_source_format(
    formats: tuple[str, ...], written: Transcript, stdout: bool
) -> tuple[str, ...]:
    """Return the formats, and that of a transcript with cues or tiers, which gets new times.

    Raises:
        UsageError: a format needs a book, and the transcript is not a book.
    """
    check_places(formats, written.places, "give the book as TRANSCRIPT")
    if written.subtitles is None or written.subtitles.format == SEGMENTS or stdout:
        return formats
    return tuple(dict.fromkeys((*formats, written.subtitles.format)))


def check_places(formats: Sequence[str], places: Sequence[BookPlace], advice: str) -> None:
    """Raise UsageError if a format of books is requested but the transcript is no book with ids."""
    if "smil" not in formats or any(place.id for place in places):
        return
    if places:
        what = (
            "no element of this one has an id. Omit smil, and give the JSON to ctc-align book, which"
            " needs no ids"
        )
    else:
        what = advice
    raise UsageError(f"--format smil needs an EPUB book as transcript; {what}")


def output_files(
    folder: str, name: str, formats: Sequence[str], force: bool, inputs: Sequence[str]
) -> OutputFiles:
    """Return the files to write; raise UsageError, before any work, if they cannot be written."""
    from ctc_align.files import OutputFiles

    try:
        return OutputFiles(folder, name, formats, force, inputs, beside=True)
    except OutputError as error:
        raise UsageError(str(error)) from error


def run_aligner(
    aligner: Aligner, audio: AudioLike, text: str | Words, utterance: str, talk: Talk
) -> Alignment:
    """Align, with a progress bar if it takes long, and note the letters that the model lacks."""
    with talk.progress("aligning") as progress:
        alignment = aligner.align(audio, text, utterance=utterance, progress=progress)
    if alignment.unknown and not talk.quiet:
        for note in unknown_letters(alignment):
            talk.note(note)
    return alignment


def sound_of(
    audio: str, reader: LogProbsReader | None, aligner: Aligner, language: str = ""
) -> AudioLike:
    """Return AUDIO as an aligner takes it: log-probs from `reader`, a path, or what stdin holds.

    `language` is that of the transcript, "" if it names none.
    """
    from ctc_align.alignment.aligner import find_choice
    from ctc_align.audio.loading import load_stdin

    if reader is not None:
        return reader.read(audio)
    if audio != STDIN or aligner.model is None:
        return audio
    choice = aligner.settings.sound_choice(find_choice(aligner).track_language(language))
    return load_stdin(aligner.model.sample_rate, choice=choice, on_disk=True)


def load_aligner(model: ModelOptions, reader: LogProbsReader | None, settings: Settings) -> Aligner:
    """Return the aligner of the options; without a model if `reader` reads log-probs."""
    from ctc_align.alignment.aligner import Aligner

    return Aligner(
        model=model.name_for(reader),
        device=model.device,
        backend=model.backend,
        lexicon=model.lexicon,
        settings=settings,
    )


def write_stdout(
    alignment: Alignment, format: str, settings: Settings, sound: Audio | str | None = None
) -> None:
    from ctc_align.files import rendered

    try:
        put_bytes(rendered(alignment, format, settings, sound))
    except BrokenPipeError:
        raise
    except OSError as error:
        # the rest of the buffer would fail again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"standard output: writing failed ({error.strerror or error})") from error


def report(alignment: Alignment, paths: list[Path], talk: Talk) -> None:
    """Print the words (a table, on a terminal), notes, the fit, and the files that were written."""
    from ctc_align.cli.tables import fit_line, words_table

    if talk.quiet:
        return
    if talk.on_terminal:
        console = console_for(sys.stderr)
        console.print(words_table(alignment, console.width))
    talk.notes(alignment_notes(alignment))
    talk.say(fit_line(alignment))
    if paths:
        talk.say(written_line(alignment, paths))
