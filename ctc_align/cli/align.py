"""ctc-align align: one recording and its transcript."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli import options
from ctc_align.cli.messages import Talk
from ctc_align.errors import OutputError, UsageError
from ctc_align.types import SKIPPED, UNKNOWN, UNSPOKEN

if TYPE_CHECKING:
    from ctc_align.config import Settings
    from ctc_align.formats import Alignment
    from ctc_align.models.log_probs import Reader

_SEVERAL, _MANY = 5, 20
THRESHOLD_NOT_MET = 3
_POOR_FIT = 4.0
"""Loss a token of the embedded model: on 450 clips of nine sources right transcripts stay below 3, wrong above 4.5."""


def align(
    audio: Annotated[
        str,
        typer.Argument(metavar="AUDIO", help="A sound file, or log-probs (.npy .npz .pt .safetensors .ark:OFFSET)."),
    ],
    transcript: Annotated[
        str | None, typer.Argument(metavar="TRANSCRIPT", help="A UTF-8 text file, or - for standard input.")
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The transcript itself, in place of a file.")
    ] = None,
    model: options.Model = None,
    lexicon: options.Lexicon = None,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    format: options.Formats = None,
    out_dir: options.OutDir = None,
    stdout: options.Stdout = False,
    force: options.Force = False,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    language: options.Language = None,
    romanize: options.Romanize = None,
    words_by: options.WordsBy = None,
    unknown: options.Unknown = None,
    revision: options.Revision = None,
    cache_dir: options.CacheDir = None,
    vocab: options.Vocab = None,
    frame_shift: options.FrameShift = None,
    blank: options.Blank = None,
    times: options.Times = None,
    labels: options.Labels = None,
    edges: options.Edges = None,
    calibration: options.CalibrationFile = None,
    min_confidence: options.MinConfidence = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Find when each word of TRANSCRIPT is spoken in AUDIO.

    Writes NAME.json, NAME.ctm, NAME.tokens.ctm and NAME.TextGrid for the audio NAME.wav.
    """
    from ctc_align.config import load_settings
    from ctc_align.models.folder_settings import remembered
    from ctc_align.text import read_transcript, require_words, split

    talk = Talk(quiet=quiet, verbose=verbose)
    check_audio(audio)
    check_transcript(audio, transcript, text)
    log_probs = checked_log_probs(audio, vocab, frame_shift, blank, model)
    check_files({"--lexicon": lexicon, "--vocab": vocab, "--calibration": calibration})
    formats = checked_formats(format, stdout, out_dir)
    settings = load_settings(
        config,
        assignments,
        times=times,
        labels=labels,
        edges=edges,
        calibration=calibration,
        min_confidence=min_confidence,
        language=language,
        romanize=romanize,
        words_by=words_by,
        unknown=unknown,
        revision=revision,
        cache_dir=cache_dir,
    )
    given = (audio, transcript, lexicon, vocab, config, calibration)
    inputs = [path for path in given if path is not None and path != "-"]
    name, folder = Path(audio).stem, out_dir or "."
    if not stdout:
        refuse_outputs(folder, name, formats, force, inputs)
    source = "--text" if transcript is None else transcript
    written = read_transcript(source) if text is None else text
    spoken_in = settings.for_language(remembered(model).language).language
    require_words(split(written, language=spoken_in), "standard input" if source == "-" else source)
    talk.listen()
    aligner_options = {"model": model, "device": device, "backend": backend, "lexicon": lexicon, "settings": settings}
    alignment = run_aligner(audio, written, log_probs, aligner_options, talk)
    if stdout:
        write_stdout(alignment, formats[0], settings)
        paths = []
    else:
        from ctc_align.formats import write_outputs

        paths = write_outputs(alignment, folder, name, formats, settings=settings, force=force, protect=inputs)
    report(alignment, paths, talk)
    if alignment.in_doubt:
        raise typer.Exit(THRESHOLD_NOT_MET)


def check_audio(audio: str) -> None:
    from ctc_align.models.log_probs import file_of

    kind = kind_of(file_of(audio), "AUDIO")
    if kind == "folder":
        raise UsageError(f"{audio}: expected an audio file, got a folder; name a file in it")
    if kind == "nothing":
        hint = "" if Path(audio).suffix else "; if a command was meant, see ctc-align --help for the commands there are"
        raise UsageError(f"{audio}: no such audio file{hint}")


def kind_of(path: str, argument: str) -> str:
    """What is at `path`: "file" (or a device), "folder" or "nothing"; one that cannot be looked at is a wrong call."""
    if not path:
        raise UsageError(f"{argument}: expected the path of a file, got an empty one")
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return "folder" if stat.S_ISDIR(mode) else "file"


def check_transcript(audio: str, transcript: str | None, text: str | None) -> None:
    """Exactly one of the two."""
    if transcript is not None and text is not None:
        raise UsageError(f"a transcript is given twice, as {transcript} and with --text; give one of them")
    if transcript == "":
        raise UsageError("TRANSCRIPT: expected the path of a text file or - for standard input, got an empty one")
    if transcript is None and text is None:
        likely = [path for path in map(Path(audio).with_suffix, (".txt", ".lab")) if str(path) != audio]
        beside = next((path for path in likely if path.is_file()), None)
        found = f"; did you mean: ctc-align {audio} {beside}" if beside else ""
        raise UsageError(f'no transcript for {audio}: give a text file, - for standard input, or --text "…"{found}')


def checked_log_probs(
    audio: str, vocab: str | None, frame_shift_s: float | None, blank: str | None, model: str | None
) -> Reader | None:
    """What goes with log-probs, which sound must not have; None for sound."""
    from ctc_align.models.log_probs import is_log_probs_path

    asked = {"--vocab": vocab, "--frame-shift": frame_shift_s, "--blank": blank}
    if not is_log_probs_path(audio):
        given = [option for option, value in asked.items() if value is not None]
        if given:
            kinds = ".npy, .npz, .pt, .safetensors, FILE.ark:OFFSET"
            raise UsageError(f"{' and '.join(given)}: only for log-probs ({kinds}), got {audio}")
        return None
    return _reader(audio, vocab, frame_shift_s, blank, model)


def source_log_probs(
    source: str, vocab: str | None, frame_shift_s: float | None, blank: str | None, model: str | None
) -> Reader | None:
    """What reads the log-probs of a SOURCE; None where none of the options says that it has such."""
    if vocab is None and frame_shift_s is None and blank is None:
        return None
    return _reader(source, vocab, frame_shift_s, blank, model)


def _reader(audio: str, vocab: str | None, frame_shift_s: float | None, blank: str | None, model: str | None) -> Reader:
    from ctc_align.models.log_probs import Reader

    asked = {"--vocab": vocab, "--frame-shift": frame_shift_s}
    if vocab is None or frame_shift_s is None:
        missing = " and ".join(option for option in ("--vocab", "--frame-shift") if asked[option] is None)
        raise UsageError(f"{audio}: log-probs need {missing} too (--vocab FILE, --frame-shift SECONDS)")
    if model is not None:
        raise UsageError(f"{audio}: log-probs come out of a model already; leave --model {model} away")
    return Reader(vocab, frame_shift_s, blank)


def check_files(files: dict[str, str | None]) -> None:
    for option, path in files.items():
        kind = "file" if path is None else kind_of(path, option)
        if kind != "file":
            raise UsageError(
                f"{option} {path}: expected a file, {'got a folder' if kind == 'folder' else 'no such file'}"
            )


def checked_formats(format: str | None, stdout: bool, out_dir: str | None) -> tuple[str, ...]:
    from ctc_align.formats import DEFAULT_FORMATS, parse_formats

    formats = DEFAULT_FORMATS if format is None else parse_formats(format)
    if out_dir == "":
        raise UsageError("--out-dir: expected the path of a folder, got an empty one; . is the current folder")
    if not stdout:
        return formats
    if out_dir is not None:
        raise UsageError("--stdout writes no files: leave --out-dir away, or --stdout")
    if format is None:
        return formats[:1]
    if len(formats) != 1:
        raise UsageError(f"--stdout takes exactly one format, got {', '.join(formats)}")
    return formats


def refuse_outputs(folder: str, name: str, formats: tuple[str, ...], force: bool, inputs: list[str]) -> None:
    """What cannot be written is a wrong call, told before the work."""
    from ctc_align.formats import check_outputs

    try:
        check_outputs(folder, name, formats, force=force, protect=inputs)
    except OutputError as error:
        raise UsageError(str(error)) from error


def run_aligner(
    audio: str, text: str, log_probs: Reader | None, aligner_options: dict[str, Any], talk: Talk
) -> Alignment:
    from ctc_align.alignment.aligner import Aligner

    aligner_options = dict(aligner_options)
    source: Any = audio
    if log_probs is not None:
        source = log_probs.read(audio)
    elif aligner_options["model"] is None:
        aligner_options["model"] = "english"
    aligner = Aligner(**aligner_options)
    if talk.on_terminal and aligner_options["backend"] != "reference":
        say_if_compiling(talk)
    with talk.progress("aligning") as progress:
        alignment = aligner.align(source, text, utterance=Path(audio).stem, progress=progress)
    if alignment.unknown and not talk.quiet:
        for note in unknown_letters(alignment):
            talk.note(note)
    return alignment


def say_if_compiling(talk: Talk) -> None:
    """The first run on a machine is slow, once: nobody should wonder why."""
    from ctc_align.kernels.cpu.cpu_backend import is_compiled

    if not is_compiled():
        talk.note("the kernels are compiled for this machine now: this once it takes about 6 seconds longer")


def unknown_letters(alignment: Alignment) -> list[str]:
    """Which letters (or phones of a lexicon) the vocabulary lacks, how often each is met, and what came of them; apart
    from them the digits that only the language leaves as they are."""
    from ctc_align.config import ENGLISH
    from ctc_align.text.spoken_form import reads_digits

    counts, language = alignment.unknown_letters, str(alignment.config.get("language") or ENGLISH)
    left = frozenset(filter(str.isdecimal, counts))
    if left and reads_digits(language):
        left = frozenset()
    digits = {letter: count for letter, count in counts.items() if letter in left}
    letters = {letter: count for letter, count in counts.items() if letter not in left}
    aligned = "the rest is aligned"
    if alignment.config.get("unknown") == "wildcard":
        aligned += ", and where they are is a guess: any speech stands for them"
    found = [f"the model's vocabulary lacks {_counted(letters)}; {aligned}"] if letters else []
    if digits:
        why = f"language {language!r}: num2words does not know it, so digits are not read"
        found.append(f"{why}: {_counted(digits)}; {aligned}")
    return found


def _counted(letters: dict[str, int]) -> str:
    each = [f"{letter!r} × {count}" for letter, count in list(letters.items())[:_MANY]]
    return ", ".join(each) + (f" and {len(letters) - _MANY} more" if len(letters) > _MANY else "")


def write_stdout(alignment: Alignment, format: str, settings: Settings) -> None:
    from ctc_align.formats import rendered

    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(rendered(alignment, format, settings))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # what is left in the buffer would fail once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputError(f"standard output: writing failed ({error.strerror or error})") from error


def report(alignment: Alignment, paths: list[Path], talk: Talk) -> None:
    """The table on a terminal, then in a few lines what was found and written."""
    from ctc_align.cli.tables import console_for, loss_line, words_table

    if talk.quiet:
        return
    if talk.on_terminal:
        console = console_for(sys.stderr)
        console.print(words_table(alignment, console.width))
    for note in notes(alignment):
        talk.note(note)
    talk.say(loss_line(alignment))
    if paths:
        talk.say("wrote " + ", ".join(str(path) for path in paths))


def notes(alignment: Alignment) -> list[str]:
    """What a careful reader of the result should know."""
    from ctc_align.cli.tables import printable
    from ctc_align.models import EMBEDDED

    found = []
    reasons = {
        UNKNOWN: "the model can stand for none of it",
        UNSPOKEN: "nothing to pronounce",
        SKIPPED: "not in the audio",
    }
    for status, reason in reasons.items():
        words = [printable(word.text) for word in alignment.words if word.status == status]
        if words:
            more = f" and {len(words) - _SEVERAL} more" if len(words) > _SEVERAL else ""
            found.append(f"without times ({reason}): {' '.join(words[:_SEVERAL])}{more}")
    doubtful = doubtful_words(alignment)
    if doubtful:
        more = f" and {len(doubtful) - _SEVERAL} more" if len(doubtful) > _SEVERAL else ""
        found.append(f"doubtful: {', '.join(doubtful[:_SEVERAL])}{more}")
    if alignment.unexplained:
        stretches = [f"{start_s:.2f}–{end_s:.2f} s" for start_s, end_s in alignment.unexplained]
        more = f" and {len(stretches) - _SEVERAL} more" if len(stretches) > _SEVERAL else ""
        found.append(f"speech that no word explains: {', '.join(stretches[:_SEVERAL])}{more}")
    per_token = alignment.loss_per_token
    if alignment.model in EMBEDDED and per_token is not None and per_token > _POOR_FIT:
        found.append(
            f"the transcript fits the recording badly ({per_token:.1f} a token): is it what is said, and all of it?"
        )
    return found


def doubtful_words(alignment: Alignment) -> list[str]:
    """The words below the confidence that was asked for, with their times."""
    from ctc_align.cli.tables import printable

    return [f"{printable(word.text)} ({word.start_s:.2f} s, {word.confidence:.2f})" for word in alignment.doubtful]
