"""ctc-align score: how well transcripts fit, and which fits best."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli import options
from ctc_align.cli.messages import Talk, counted
from ctc_align.errors import CtcAlignError, TranscriptError, UsageError

if TYPE_CHECKING:
    from ctc_align.alignment.scoring import Scored
    from ctc_align.cli.score_rows import Row, Thresholds
    from ctc_align.corpus.corpus_scores import ScoredUtterance, ScoreOptions
    from ctc_align.models.log_probs import Reader

FORMATS = ("table", "tsv", "jsonl")
FAILED, MARKED = 1, 3
_NAME_CHARS = 40


def score(
    audio: Annotated[
        str,
        typer.Argument(
            metavar="AUDIO|SOURCE",
            help="Sound or log-probs, with transcripts; without any: a corpus, as `corpus` takes.",
        ),
    ],
    transcripts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TRANSCRIPT", help="UTF-8 text files, or - for standard input."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="A transcript itself; may be given often, counts after the files."),
    ] = None,
    model: options.Model = None,
    lexicon: options.Lexicon = None,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="table|tsv|jsonl",
            help="What is printed.",
            show_default="a table on a terminal, else tsv",
        ),
    ] = None,
    max_loss: Annotated[
        float | None, typer.Option("--max-loss", metavar="NATS", help="Mark transcripts with a larger `loss`.")
    ] = None,
    max_loss_per_token: Annotated[
        float | None,
        typer.Option(
            "--max-loss-per-token", metavar="NATS", help="Mark those with a larger `loss_per_token`: for any length."
        ),
    ] = None,
    worst: Annotated[
        str | None, typer.Option("--worst", metavar="PERCENT", help="Mark so many of all transcripts, the worst.")
    ] = None,
    worst_by: Annotated[
        str,
        typer.Option(
            "--worst-by",
            metavar="local_loss|loss_per_token|loss_per_frame|loss",
            help="What --worst goes by; local_loss finds single wrong words.",
        ),
    ] = "local_loss",
    source: Annotated[
        str | None, typer.Option("--source", metavar="KIND", help="Kind of the SOURCE.", show_default="found out")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Processes for a SOURCE.", show_default="one a core")
    ] = None,
    batch_seconds: Annotated[
        float, typer.Option("--batch-seconds", metavar="SECONDS", help="Audio of a SOURCE that is heard at a time.")
    ] = 120.0,
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
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Print the exact CTC loss of transcripts, best first.

    Columns: rank; loss, -log p in nats; loss_per_token; posterior, of the alternatives if equally likely before;
    transcript; loss_per_frame; local_loss, of the worst 0.3 s: how far the best path lies below the best labels;
    unknown, letters that the model lacks: such transcripts rank last and have no posterior; mark, "out" by a
    threshold, "error" where there is no loss. Of a SOURCE the utterance comes first, and the `texts` of a manifest
    are ranked. Exits with 1 if a transcript could not be scored, else with 3 if one was marked "out".
    """
    from ctc_align.cli.align import check_files, source_log_probs
    from ctc_align.config import load_settings

    talk = Talk(quiet=quiet, verbose=verbose)
    thresholds = _thresholds(max_loss, max_loss_per_token, worst, worst_by)
    shown = _format(format)
    check_files({"--lexicon": lexicon, "--vocab": vocab})
    settings = load_settings(
        config,
        assignments,
        language=language,
        romanize=romanize,
        words_by=words_by,
        unknown=unknown,
        revision=revision,
        cache_dir=cache_dir,
    )
    talk.listen()
    if transcripts or text:
        _only({"--source": source, "--workers": workers}, f"for a SOURCE alone, got {audio} with transcripts")
        log_probs = _checked_audio(audio, vocab, frame_shift, blank, model)
        choice = {"model": model, "device": device, "backend": backend, "lexicon": lexicon, "settings": settings}
        rows = _rows_of_audio(audio, _read(transcripts or [], text or []), log_probs, choice, talk)
        _print(rows, thresholds, shown, False, talk)
        return
    from ctc_align.corpus.corpus_scores import ScoreOptions

    reader = source_log_probs(audio, vocab, frame_shift, blank, model)
    if reader is not None:
        reader.check()
    heard_by = None if reader else model or "english"
    scoring = ScoreOptions(heard_by, lexicon, device, backend, settings, workers, batch_seconds, reader)
    _print(_rows_of_source(audio, source, scoring, talk), thresholds, shown, True, talk)


def _thresholds(max_loss: float | None, per_token: float | None, worst: str | None, worst_by: str) -> Thresholds:
    from ctc_align.cli.score_rows import STATISTICS, Thresholds

    for option, value in {"--max-loss": max_loss, "--max-loss-per-token": per_token}.items():
        if value is not None and math.isnan(value):
            raise UsageError(f"{option}: expected a number, got {value}")
    if worst_by not in STATISTICS:
        raise UsageError(f"--worst-by: expected {' or '.join(STATISTICS)}, got {worst_by!r}")
    return Thresholds(max_loss, per_token, _percent(worst), worst_by)


def _percent(worst: str | None) -> Fraction | None:
    """`--worst` exactly, as it is written: ten percent of a hundred are ten."""
    if worst is None:
        return None
    try:
        percent = Fraction(worst.strip().removesuffix("%"))
    except (ValueError, ZeroDivisionError):
        percent = Fraction(-1)
    if not 0 <= percent <= 100:
        raise UsageError(f"--worst: expected a percentage from 0 to 100, got {worst!r}")
    return percent


def _format(format: str | None) -> str:
    if format is None:
        return "table" if _is_terminal() else "tsv"
    if format not in FORMATS:
        raise UsageError(f"--format: expected {' or '.join(FORMATS)}, got {format!r}")
    return format


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _only(given: dict[str, Any], where: str) -> None:
    met = [option for option, value in given.items() if value is not None]
    if met:
        raise UsageError(f"{' and '.join(met)}: {where}")


def _checked_audio(
    audio: str, vocab: str | None, frame_shift: float | None, blank: str | None, model: str | None
) -> Reader | None:
    from ctc_align.cli.align import check_audio, checked_log_probs

    check_audio(audio)
    return checked_log_probs(audio, vocab, frame_shift, blank, model)


def _read(files: list[str], texts: list[str]) -> list[tuple[str, str | TranscriptError, bool]]:
    """Of each transcript its name, its text or why there is none, and whether it comes from a file.

    Raises:
        UsageError: a file that is not there.
    """
    from ctc_align.text import read_transcript

    if files.count("-") > 1:
        raise UsageError("TRANSCRIPT: standard input (-) can be read once only")
    found: list[tuple[str, str | TranscriptError, bool]] = []
    for file in files:
        if not file:
            raise UsageError("TRANSCRIPT: expected the path of a text file or - for standard input, got an empty one")
        try:
            found.append((file, read_transcript(file), True))
        except TranscriptError as error:
            found.append((file, error, True))
    return found + [(text, text, False) for text in texts]


def _rows_of_audio(
    audio: str,
    transcripts: list[tuple[str, str | TranscriptError, bool]],
    log_probs: Reader | None,
    choice: dict[str, Any],
    talk: Talk,
) -> Iterator[Row]:
    from ctc_align.cli.score_rows import row_of

    scored = _scored_audio(
        audio, ["" if isinstance(text, Exception) else text for _, text, _ in transcripts], log_probs, choice, talk
    )
    for one in scored:
        name, text, is_file = transcripts[one.index]
        row = row_of(one, name, text=text if is_file and isinstance(text, str) else None)
        if isinstance(text, TranscriptError):
            row.error = str(text).removeprefix(name).lstrip(",: ")
        if row.error is not None:
            _say_failed(name if is_file else _shortened(name), row.error)
        yield row


def _scored_audio(
    audio: str, texts: list[str], log_probs: Reader | None, choice: dict[str, Any], talk: Talk
) -> list[Scored]:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.cli.align import say_if_compiling

    sound: Any = audio
    if log_probs is not None:
        sound = log_probs.read(audio)
    elif choice["model"] is None:
        choice = choice | {"model": "english"}
    aligner = Aligner(**choice)
    if talk.on_terminal and choice["backend"] != "reference":
        say_if_compiling(talk)
    with talk.progress("listening") as progress:
        emissions = aligner.emissions(sound, progress=progress)
    return aligner.score_texts(emissions, texts)


def _rows_of_source(path: str, kind: str | None, options: ScoreOptions, talk: Talk) -> Iterator[Row]:
    from ctc_align.cli.score_rows import Counter
    from ctc_align.corpus.corpus_scores import score_source
    from ctc_align.corpus.sources import open_source

    _refuse_audio(path)
    # Where rows scroll by, a counter below them would only flicker.
    with Counter(shown=talk.on_terminal and not talk.quiet and not _is_terminal()) as count:
        for one in score_source(open_source(path, kind), options):
            count(one.duration_s)
            yield from _rows_of_utterance(one)


def _refuse_audio(path: str) -> None:
    """Sound without a transcript is no corpus, and the user should hear which of the two is missing."""
    from ctc_align.audio.loading import header_duration_s
    from ctc_align.cli.align import check_transcript, kind_of
    from ctc_align.models.log_probs import is_log_probs_path

    if kind_of(path, "AUDIO|SOURCE") != "file":
        return
    if not is_log_probs_path(path):
        try:
            header_duration_s(path)
        except CtcAlignError:
            return
    check_transcript(path, None, None)


def _rows_of_utterance(one: ScoredUtterance) -> Iterator[Row]:
    from ctc_align.cli.score_rows import Row, row_of

    if one.error is not None:
        _say_failed(one.id, f"{one.error.removeprefix(f'{one.id}: ')} ({one.origin})")
        yield Row(one.id, one.text, error=one.error)
    for scored in one.scored:
        row = row_of(scored, scored.text, utterance=one.id)
        if row.error is not None:
            which = f", transcript {scored.index + 1}" if len(one.scored) > 1 else ""
            _say_failed(f"{one.id}{which}", f"{row.error} ({one.origin})")
        yield row


def _say_failed(name: str, reason: str) -> None:
    from ctc_align.cli.tables import printable

    print(f"ctc-align: error: {printable(name)}: {printable(reason)}", file=sys.stderr)


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return repr(one_line if len(one_line) <= _NAME_CHARS else one_line[:_NAME_CHARS] + "…")


def _print(rows: Iterator[Row], thresholds: Thresholds, format: str, with_utterance: bool, talk: Talk) -> None:
    """Rows to stdout, counts to stderr; leaves with the exit code."""
    from ctc_align.cli.corpus import Interrupted
    from ctc_align.cli.score_rows import ERROR, OUT, printer_for

    counts = {"": 0, OUT: 0, ERROR: 0}
    printer = None
    try:
        for row in thresholds.marked(rows):
            # Not sooner: what cannot be opened or loaded is told without a header.
            printer = printer or printer_for(format, with_utterance=with_utterance)
            printer.add(row)
            counts[row.mark] += 1
    except KeyboardInterrupt:
        so_far = counted(sum(counts.values()), "transcript was", "transcripts were")
        raise Interrupted(f"interrupted; {so_far} printed") from None
    (printer or printer_for(format, with_utterance=with_utterance)).close()
    scored = counts[""] + counts[OUT]
    if with_utterance:
        failed = f", {counts[ERROR]} could not be scored" if counts[ERROR] else ""
        talk.say(f"{counted(scored, 'transcript', 'transcripts')} scored{failed}")
    if counts[OUT]:
        talk.say(f"{counts[OUT]} of {scored} marked out")
    if counts[ERROR] or counts[OUT]:
        raise typer.Exit(FAILED if counts[ERROR] else MARKED)
