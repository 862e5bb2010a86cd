"""ctc-align score: how well transcripts fit, and which fits best."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ctc_align.cli.language_notes import choice_notes, language_notes
from ctc_align.cli.messages import SOME_FAILED, THRESHOLD_NOT_MET, Interrupted, Talk, counted
from ctc_align.cli.options import (
    LIMITS,
    WORKERS,
    Group,
    LogProbsOptions,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    grouped,
    source_option,
)
from ctc_align.cli.printing import say
from ctc_align.config import EVERYDAY, setting
from ctc_align.errors import CtcAlignError, TranscriptError, UsageError, WrongFileError

if TYPE_CHECKING:
    from ctc_align.cli.score_rows import ScoreRow, Thresholds
    from ctc_align.config import Settings
    from ctc_align.corpus.corpus_scores import ScoredUtterance, ScoreOptions
    from ctc_align.models.log_probs import LogProbsReader

FORMATS = ("table", "tsv", "jsonl")
_NAME_CHARS = 40


@dataclass(frozen=True)
class ThresholdOptions(Group):
    """Which transcripts are marked "out"."""

    panel: ClassVar[str] = LIMITS

    max_loss: float | None = setting(None, "Mark transcripts with a larger `loss`.", metavar="NATS")
    max_loss_per_token: float | None = setting(
        None, "Mark transcripts with a larger `loss_per_token`, whatever their length.", metavar="NATS"
    )
    worst: str | None = setting(None, "Mark this share of all transcripts, the worst.", metavar="PERCENT")
    worst_by: str = setting(
        "local_loss",
        "The figure that --worst compares; local_loss finds single wrong words.",
        metavar="local_loss|loss_per_token|loss_per_frame|loss",
    )

    def checked(self) -> Thresholds:
        """Return the thresholds.

        Raises:
            UsageError: one that is no number, or out of its range.
        """
        from ctc_align.cli.score_rows import STATISTICS, Thresholds

        for option, value in {"--max-loss": self.max_loss, "--max-loss-per-token": self.max_loss_per_token}.items():
            if value is not None and math.isnan(value):
                raise UsageError(f"{option}: expected a number, got {value}")
        if self.worst_by not in STATISTICS:
            raise UsageError(f"--worst-by: expected {' or '.join(STATISTICS)}, got {self.worst_by!r}")
        return Thresholds(self.max_loss, self.max_loss_per_token, _percent(self.worst), self.worst_by)


@dataclass(frozen=True)
class TextsOptions(Group):
    """Transcripts that are no files, and how results are printed."""

    text: list[str] | None = setting(
        None, "A transcript itself, counted after the files; may be repeated.", metavar="TEXT"
    )
    format: str | None = setting(
        None, "How results are printed.", metavar="table|tsv|jsonl", shown="a table on a terminal, else tsv"
    )


@dataclass(frozen=True)
class CorpusOptions(Group):
    """How a corpus is read and scored."""

    panel: ClassVar[str] = WORKERS

    source: str | None = source_option(panel=EVERYDAY)
    workers: int | None = setting(None, "Processes for a corpus.", metavar="N", shown="one for each CPU core")
    batch_seconds: float = setting(120.0, "Audio of a corpus that goes through the model together.", metavar="SECONDS")

    def scoring(self, model: ModelOptions, settings: Settings, reader: LogProbsReader | None) -> ScoreOptions:
        """Return how the library scores a corpus; faults of its log-probs' description are raised at once."""
        from ctc_align.corpus.corpus_scores import ScoreOptions

        if reader is not None:
            reader.check()
        return ScoreOptions(
            model.name_for(reader),
            model.lexicon,
            model.device,
            model.backend,
            settings,
            self.workers,
            self.batch_seconds,
            reader,
        )

    def refuse(self, audio: str) -> None:
        """Raise UsageError where an option that is for a corpus alone is given."""
        values = {"--source": self.source, "--workers": self.workers}
        names = [option for option, value in values.items() if value is not None]
        if names:
            raise UsageError(f"{' and '.join(names)}: for a SOURCE alone, got {audio} with transcripts")


Transcripts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TRANSCRIPT", help="UTF-8 text files, subtitles or EPUB books, or - for standard input."),
]


@grouped
def score(
    audio: Annotated[
        str,
        typer.Argument(
            metavar="AUDIO|SOURCE",
            help="A recording, a video, - for standard input, or log-probs, with transcripts; without transcripts a "
            "corpus, as `corpus` takes it.",
        ),
    ],
    transcripts: Transcripts = None,
    *,
    given: TextsOptions,
    model: ModelOptions,
    marked: ThresholdOptions,
    corpus: CorpusOptions,
    config: SettingsOptions,
    log_probs: LogProbsOptions,
    messages: MessageOptions,
) -> None:
    """Print the exact CTC loss of transcripts, best first.

    Columns: rank; loss, -log p in nats; loss_per_token; posterior among the alternatives, if all are equally likely
    beforehand; transcript; loss_per_frame; local_loss, of the worst 0.3 s: how far the best path lies below the best
    labels; unknown, the letters that the model lacks: such transcripts rank last and have no posterior; mark, "out"
    beyond a threshold, "error" where there is no loss. For a SOURCE the utterance comes first, and the `texts` of a
    manifest are ranked. Exits with 1 if a transcript could not be scored, else with 3 if one was marked "out".
    """
    from ctc_align.cli.arguments import check_files, check_roles, is_book

    talk, text = messages.talk(), given.text
    thresholds = marked.checked()
    shown = _format(given.format)
    check_files({"--lexicon": model.lexicon, "--vocab": log_probs.vocab})
    settings = config.settings()
    talk.listen()
    if transcripts or text:
        files = [*(transcripts or []), *filter(is_book, text or [])]
        corpus.refuse(audio)
        check_roles("ctc-align score", audio, files)
        reader = log_probs.reader_of_file(audio, model.model)
        rows = _rows_of_audio(audio, _read(files, text or []), reader, model, settings, talk)
        _print(rows, thresholds, shown, False, talk)
        return
    scoring = corpus.scoring(model, settings, log_probs.reader_of_source(audio, model.model))
    _print(_rows_of_source(audio, corpus.source, scoring, talk), thresholds, shown, True, talk)


def _percent(worst: str | None) -> Fraction | None:
    """Return `--worst` as an exact fraction: ten percent of a hundred are ten."""
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
        raise UsageError(f"--format: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {format!r}")
    return format


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _read(files: list[str], texts: list[str]) -> list[tuple[str, str | TranscriptError, bool]]:
    """Return the name of each transcript, its text or the error of reading it, and True if it comes from a file.

    Raises:
        UsageError: a file that is not there, or no transcript at all.
    """
    from ctc_align.cli.arguments import check_text, is_book
    from ctc_align.files.transcripts import read_transcript

    texts = [text for text in texts if not is_book(text)]
    for text in texts:
        check_text(text)
    if files.count("-") > 1:
        raise UsageError("TRANSCRIPT: standard input (-) can be read once only")
    found: list[tuple[str, str | TranscriptError, bool]] = []
    for file in files:
        if not file:
            raise UsageError("TRANSCRIPT: expected the path of a text file or - for standard input, got an empty one")
        try:
            found.append((file, read_transcript(file), True))
        except WrongFileError:
            raise
        except TranscriptError as error:
            found.append((file, error, True))
    return found + [(text, text, False) for text in texts]


def _rows_of_audio(
    audio: str,
    transcripts: list[tuple[str, str | TranscriptError, bool]],
    reader: LogProbsReader | None,
    model: ModelOptions,
    settings: Settings,
    talk: Talk,
) -> Iterator[ScoreRow]:
    from ctc_align.cli.align import load_aligner, sound_of
    from ctc_align.cli.score_rows import row_of

    texts = ["" if isinstance(text, Exception) else text for _, text, _ in transcripts]
    aligner, language = load_aligner(model, reader, settings).for_texts(texts)
    talk.notes(choice_notes({language: 1} if language not in ("", "en") else {}))
    source = sound_of(audio, reader, aligner)
    for name, text, is_file in transcripts:
        for note in language_notes(text, aligner.choice.only, settings.language) if isinstance(text, str) else ():
            talk.note(f"{name if is_file else _shortened(name)}: {note}")
    with talk.progress("listening") as progress:
        emissions = aligner.emissions(source, progress=progress)
    scored = aligner.score_texts(emissions, texts)
    for one in scored:
        name, text, is_file = transcripts[one.index]
        row = row_of(one, name, text=text if is_file and isinstance(text, str) else None)
        if isinstance(text, TranscriptError):
            row.error = str(text).removeprefix(name).lstrip(",: ")
        if row.error is not None:
            _say_failed(name if is_file else _shortened(name), row.error)
        yield row


def _rows_of_source(path: str, kind: str | None, options: ScoreOptions, talk: Talk) -> Iterator[ScoreRow]:
    from ctc_align.cli.score_rows import Counter
    from ctc_align.corpus.corpus_scores import score_source
    from ctc_align.corpus.sources import open_source

    _refuse_audio(path)
    # A counter would flicker below rows on the same terminal.
    with Counter(shown=talk.on_terminal and not talk.quiet and not _is_terminal()) as count:
        for one in score_source(open_source(path, kind), options):
            count(one.duration_s)
            yield from _rows_of_utterance(one)


def _refuse_audio(path: str) -> None:
    """Raise UsageError, naming the missing transcript, where `path` is a sound file and no corpus."""
    from ctc_align.audio.loading import estimated_duration_s
    from ctc_align.cli.arguments import check_transcript, kind_of
    from ctc_align.models.log_probs import is_log_probs_path

    if kind_of(path, "AUDIO|SOURCE") != "file":
        return
    if not is_log_probs_path(path):
        try:
            estimated_duration_s(path)
        except CtcAlignError:
            return
    check_transcript(path, None, None, "ctc-align score")


def _rows_of_utterance(one: ScoredUtterance) -> Iterator[ScoreRow]:
    from ctc_align.cli.score_rows import ScoreRow, row_of

    if one.error is not None:
        _say_failed(one.id, f"{one.error.removeprefix(f'{one.id}: ')} ({one.origin})")
        yield ScoreRow(one.id, one.text, error=one.error)
    for scored in one.scored:
        row = row_of(scored, scored.text, utterance=one.id)
        if row.error is not None:
            which = f", transcript {scored.index + 1}" if len(one.scored) > 1 else ""
            _say_failed(f"{one.id}{which}", f"{row.error} ({one.origin})")
        yield row


def _say_failed(name: str, reason: str) -> None:
    say(f"ctc-align: error: {name}: {reason}")


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return repr(one_line if len(one_line) <= _NAME_CHARS else one_line[:_NAME_CHARS] + "…")


def _print(rows: Iterator[ScoreRow], thresholds: Thresholds, format: str, with_utterance: bool, talk: Talk) -> None:
    """Print rows to stdout and counts to stderr, and exit with the code for them."""
    from ctc_align.cli.score_rows import ERROR, OUT, printer_for

    counts = {"": 0, OUT: 0, ERROR: 0}
    printer = None
    try:
        for row in thresholds.marked(rows):
            # Not sooner: errors of opening or loading come without a header.
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
        raise typer.Exit(SOME_FAILED if counts[ERROR] else THRESHOLD_NOT_MET)
