"""ctc-align score: the CTC losses of transcripts, and which of them fits best."""

from __future__ import annotations

import functools
import json
import math
import re
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ctc_align.cli.notes import choice_notes, language_notes
from ctc_align.cli.options import (
    LIMITS,
    WORKERS,
    Group,
    LogProbsOptions,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    source_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import (
    SOME_FAILED,
    THRESHOLD_NOT_MET,
    Interrupted,
    LineBar,
    Talk,
    console_for,
    counted,
    put_row,
    say,
)
from ctc_align.config import setting
from ctc_align.errors import CtcAlignError, TranscriptError, UsageError, WrongFileError
from ctc_align.text.characters import json_escaped, printable
from ctc_align.types import Transcript

if TYPE_CHECKING:
    from rich.console import Console

    from ctc_align.alignment.scoring import Scored
    from ctc_align.config import Settings
    from ctc_align.corpus.corpus_scores import ScoredUtterance
    from ctc_align.corpus.engine.stages import WorkerOptions
    from ctc_align.models.log_probs import LogProbsReader

OUT, ERROR = "out", "error"
"""Marks: beyond a threshold; could not be scored, or does not fit."""
COLUMNS = (
    *("rank", "loss", "loss_per_token", "posterior", "transcript"),
    *("loss_per_frame", "local_loss", "unknown", "mark"),
)
_TABLE = (("rank", 4), ("loss", 9), ("loss_per_token", 14), ("posterior", 9))
_TABLE_MORE = (("loss_per_frame", 14), ("local_loss", 10))
_ID_CELLS, _NOTE_CELLS, _TRANSCRIPT_CELLS, _WIDE = 16, 9, 12, 130
_LINES = re.compile(r"[ ]*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")
_NAME_CHARS = 40


@dataclass(frozen=True)
class Thresholds(Group):
    """The limits beyond which a transcript is marked "out".

    Raises:
        UsageError: a limit is not a number, or is out of range.
    """

    panel: ClassVar[str] = LIMITS

    max_loss: float | None = setting(None, "Mark transcripts with a larger `loss`.", metavar="NATS")
    max_loss_per_token: float | None = setting(
        None,
        "Mark transcripts with a larger `loss_per_token` (independent of length).",
        metavar="NATS",
    )

    def __post_init__(self) -> None:
        for option, value in {
            "--max-loss": self.max_loss,
            "--max-loss-per-token": self.max_loss_per_token,
        }.items():
            if value is not None and math.isnan(value):
                raise UsageError(f"{option}: expected a number, got {value}")

    def marked(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield the rows with their marks."""
        return map(self._mark, rows)

    def _mark(self, row: ScoreRow) -> ScoreRow:
        if row.error is not None:
            row.mark = ERROR
        elif _above(row.loss, self.max_loss) or _above(row.loss_per_token, self.max_loss_per_token):
            row.mark = OUT
        return row


_worker_option = functools.partial(setting, panel=WORKERS)
AudioOrSource = Annotated[
    str,
    typer.Argument(
        metavar="AUDIO|SOURCE",
        help=(
            "With transcripts: a recording, a video, - for standard input, or log-probs. Without"
            " transcripts: a corpus, as for `corpus`."
        ),
    ),
]
Transcripts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRANSCRIPT",
        help="UTF-8 text files, subtitles or EPUB books, or - for standard input.",
    ),
]


@with_examples(
    "ctc-align score talk.wav first.txt second.txt",
    'ctc-align score talk.wav --text "Good morning!" --text "Good evening!"',
    "ctc-align score corpus.jsonl --max-loss-per-token 4 > scores.tsv",
)
@with_options
def score(
    audio: AudioOrSource,
    transcripts: Transcripts = None,
    *,
    text: list[str] | None = setting(
        None, "A transcript as text, in addition to the files; may be repeated.", metavar="TEXT"
    ),
    format: str | None = setting(
        None,
        "How results are printed.",
        choices=("table", "tsv", "jsonl"),
        shown="a table on a terminal, else tsv",
    ),
    model: ModelOptions,
    thresholds: Thresholds,
    source: str | None = source_option(),
    workers: int | None = _worker_option(
        None, "Processes for a corpus.", metavar="N", shown="one for each CPU core; one on a GPU"
    ),
    batch_seconds: float = _worker_option(
        120.0,
        "Seconds of audio per model batch; smaller values need less memory.",
        metavar="SECONDS",
    ),
    log_probs: LogProbsOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Print the exact CTC loss of transcripts, best first.

    Columns:

    \b
    rank: 1 is best
    loss: -log p, in nats
    loss_per_token, loss_per_frame: the same, per token and per frame
    posterior: probability of this transcript among those given,
      assuming equal priors
    transcript: the name of the file, or the text
    local_loss: in the worst 0.3 s, how far the best path of the
      transcript scores below the best labels
    unknown: letters the model lacks (such transcripts rank last,
      without a posterior)
    mark: "out" beyond a limit, "error" if there is no loss

    For a corpus, the first column is the utterance, and the `texts` of a manifest are ranked. Exits
    with 1 if a transcript could not be scored, otherwise with 3 if one was marked "out".
    """
    from ctc_align.cli.arguments import check_audio, check_files, check_roles, is_book

    talk = messages.talk()
    shown = format or ("table" if _is_terminal() else "tsv")
    check_files({"--lexicon": model.lexicon, "--vocab": log_probs.vocab})
    settings = config.settings()
    talk.listen()
    if transcripts or text:
        files = [*(transcripts or []), *filter(is_book, text or [])]
        if unfit := [
            name
            for name, value in (("--source", source), ("--workers", workers))
            if value is not None
        ]:
            raise UsageError(
                f"{' and '.join(unfit)}: only for a SOURCE, got {audio} with transcripts"
            )
        check_audio(audio)
        check_roles("ctc-align score", audio, files)
        reader = log_probs.reader_of_file(audio, model.model)
        rows = _rows_of_audio(
            audio, _read(files, text or [], settings), reader, model, settings, talk
        )
        _print(rows, thresholds, shown, False, talk)
        return
    reader = log_probs.reader_of_source(audio, model.model)
    scored = _scored_source(
        audio, source, _scoring(model, settings, reader), workers, batch_seconds, settings.encoding
    )
    _print(_rows_of_source(scored, talk), thresholds, shown, True, talk)


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _read(
    files: list[str], texts: list[str], settings: Settings
) -> list[tuple[str, Transcript | TranscriptError, bool]]:
    """Return the name of each transcript, its text or error, and whether it comes from a file.

    Raises:
        UsageError: a file is missing, or there is no transcript.
    """
    from ctc_align.cli.arguments import check_text, is_book
    from ctc_align.files.transcripts import read_transcript_file

    texts = [text for text in texts if not is_book(text)]
    for text in texts:
        check_text(text)
    if files.count("-") > 1:
        raise UsageError("TRANSCRIPT: standard input (-) can be read only once")
    found: list[tuple[str, Transcript | TranscriptError, bool]] = []
    for file in files:
        if not file:
            raise UsageError(
                "TRANSCRIPT: expected the path of a text file or - for standard input, got an"
                " empty one"
            )
        try:
            read = read_transcript_file(file, settings.encoding, settings.language)
            found.append((file, read, True))
        except WrongFileError:
            raise
        except TranscriptError as error:
            found.append((file, error, True))
    return found + [(text, Transcript(text), False) for text in texts]


def _rows_of_audio(
    audio: str,
    transcripts: list[tuple[str, Transcript | TranscriptError, bool]],
    reader: LogProbsReader | None,
    model: ModelOptions,
    settings: Settings,
    talk: Talk,
) -> Iterator[ScoreRow]:
    from ctc_align.alignment.aligner import find_aligner, find_choice
    from ctc_align.cli.align import load_aligner, sound_of

    texts = [Transcript("") if isinstance(text, Exception) else text for _, text, _ in transcripts]
    aligner, language = find_aligner(load_aligner(model, reader, settings), texts)
    talk.notes(choice_notes({language: 1}))
    source = sound_of(audio, reader, aligner, language)
    for (name, _, is_file), given in zip(transcripts, texts):
        for note in (
            language_notes(given.text, find_choice(aligner).only, settings.language)
            if given.text
            else ()
        ):
            talk.note(f"{name if is_file else _shortened(name)}: {note}")
    with talk.progress("listening") as progress:
        scored = aligner.score_texts(source, texts, progress=progress)
    for one in scored:
        name, text, is_file = transcripts[one.index]
        row = row_of(
            one, name, text=one.text if is_file and not isinstance(text, Exception) else None
        )
        if isinstance(text, TranscriptError):
            row.error = str(text).removeprefix(name).lstrip(",: ")
        if row.error is not None:
            _say_failed(name if is_file else _shortened(name), row.error)
        yield row


def _scoring(
    model: ModelOptions, settings: Settings, reader: LogProbsReader | None
) -> WorkerOptions:
    """Return the function that scores a corpus; raise faults of the log-probs' options at once."""
    from ctc_align.corpus.corpus_scores import ScoreTask
    from ctc_align.corpus.engine.stages import WorkerOptions

    if reader is not None:
        reader.check()
    return WorkerOptions(
        ScoreTask(),
        model.name_for(reader),
        model.lexicon,
        model.device,
        model.backend,
        settings,
        log_probs=reader,
    )


def _scored_source(
    path: str,
    kind: str | None,
    options: WorkerOptions,
    workers: int | None,
    batch_seconds: float,
    encoding: str,
) -> Iterator[ScoredUtterance]:
    """Yield the utterances of a source with their scores."""
    from ctc_align.corpus.corpus_scores import score_source
    from ctc_align.sources import open_source
    from ctc_align.sources.utterance import Utterance

    _refuse_audio(path)
    if options.log_probs is not None:
        first = (
            item
            for item in open_source(path, kind, encoding=encoding)
            if isinstance(item, Utterance)
        )
        options.log_probs.check_first(
            (item.audio, item.offset_s, item.duration_s) for item in first
        )
    yield from score_source(
        open_source(path, kind, encoding=encoding), options, workers, batch_seconds
    )


def _rows_of_source(scored: Iterator[ScoredUtterance], talk: Talk) -> Iterator[ScoreRow]:
    # A bar would flicker below rows on the same terminal.
    shown = talk.on_terminal and not talk.quiet and not _is_terminal()
    with LineBar("listening", shown=shown) as bar:
        began_s = time.monotonic()
        audio_s = 0.0
        for number, one in enumerate(scored, start=1):
            audio_s += one.duration_s
            speed = audio_s / max(time.monotonic() - began_s, 1e-3)
            bar.show(f"{number} utterances, {audio_s / 3600:.2f} h, {speed:.0f} × real time")
            yield from _rows_of_utterance(one)


def _refuse_audio(path: str) -> None:
    """Raise UsageError if `path` is a recording and no corpus: its transcript is missing."""
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

    if one.error is not None:
        _say_failed(one.id, f"{one.error.removeprefix(f'{one.id}: ')} ({one.origin})")
        yield ScoreRow(one.id, one.text, error=one.error)
    for scored in one.scored:
        row = row_of(scored, scored.text, utterance=one.id)
        if row.error is not None:
            if len(one.scored) > 1:
                which = f", transcript {scored.index + 1}"
            else:
                which = ""
            _say_failed(f"{one.id}{which}", f"{row.error} ({one.origin})")
        yield row


def _say_failed(name: str, reason: str) -> None:
    say(f"ctc-align: error: {name}: {reason}")


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return repr(one_line if len(one_line) <= _NAME_CHARS else one_line[:_NAME_CHARS] + "…")


def _print(
    rows: Iterator[ScoreRow], thresholds: Thresholds, format: str, with_utterance: bool, talk: Talk
) -> None:
    """Print rows to stdout and counts to stderr, and exit with the code for them."""

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
        if counts[ERROR]:
            failed = f", {counts[ERROR]} could not be scored"
        else:
            failed = ""
        talk.say(f"{counted(scored, 'transcript', 'transcripts')} scored{failed}")
    if counts[OUT]:
        talk.say(f"{counts[OUT]} of {scored} marked out")
    if counts[ERROR] or counts[OUT]:
        raise typer.Exit(SOME_FAILED if counts[ERROR] else THRESHOLD_NOT_MET)


@dataclass
class ScoreRow:
    """A transcript and its figures; `loss` is inf if it does not fit, missing figures are None."""

    utterance: str | None
    transcript: str
    text: str | None = None
    rank: int | None = None
    loss: float | None = None
    loss_per_token: float | None = None
    posterior: float | None = None
    loss_per_frame: float | None = None
    local_loss: float | None = None
    unknown: int = 0
    tokens: int = 0
    frames: int = 0
    error: str | None = None
    mark: str = ""


def row_of(
    scored: Scored, transcript: str, *, utterance: str | None = None, text: str | None = None
) -> ScoreRow:
    """Return the row of a transcript; give `text` if `transcript` is the name of its file."""
    names = ["rank", "posterior", "local_loss", "unknown", "tokens", "frames"]
    names += [] if math.isnan(scored.loss) else ["loss", "loss_per_token", "loss_per_frame"]
    if scored.error is None:
        error = None
    else:
        error = " ".join(str(scored.error).split())
    return ScoreRow(
        utterance, transcript, text, **{name: getattr(scored, name) for name in names}, error=error
    )


def _above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def printer_for(format: str, *, with_utterance: bool) -> TablePrinter | LinePrinter:
    """Return the printer of rows for "table", "tsv" or "jsonl"; `close` prints what is left."""
    if format == "table":
        return TablePrinter(console_for(sys.stdout), with_utterance)
    sys.stdout.flush()
    kind = TsvPrinter if format == "tsv" else JsonlPrinter
    return kind(sys.stdout.buffer, with_utterance)


class LinePrinter:
    """Lines of an object for each row: each is written at once."""

    def __init__(self, file: IO[bytes], with_utterance: bool) -> None:
        self.file = file
        self.columns = (("utterance",) if with_utterance else ()) + COLUMNS

    def add(self, row: ScoreRow) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.file.flush()


class TsvPrinter(LinePrinter):
    """A header, then a line for each row; a missing number is an empty field."""

    def __init__(self, file: IO[bytes], with_utterance: bool) -> None:
        super().__init__(file, with_utterance)
        put_row(self.columns, file)

    def add(self, row: ScoreRow) -> None:
        put_row([_cell(name, getattr(row, name)) for name in self.columns], self.file)
        self.file.flush()


class JsonlPrinter(LinePrinter):
    """One JSON object per line; null for a missing number."""

    def add(self, row: ScoreRow) -> None:
        names = (*self.columns[:-1], "tokens", "frames", "mark", "error")
        fields = {name: getattr(row, name) for name in names} | {"mark": row.mark or None}
        fields = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v
            for k, v in fields.items()
        }
        if row.text is not None:
            fields["text"] = row.text
        # In ASCII: characters that end a line for some readers, and bytes of names that are no
        # UTF-8, pass unharmed.
        self.file.write((json_escaped(json.dumps(fields, allow_nan=False)) + "\n").encode("ascii"))
        self.file.flush()


class TablePrinter:
    """A table as wide as the terminal, whose rows appear as utterances are done."""

    def __init__(self, console: Console, with_utterance: bool) -> None:
        self.console = console
        self.with_utterance = with_utterance
        self.more = _TABLE_MORE if console.width >= _WIDE else ()
        self.rows: list[ScoreRow] = []
        self.is_first = True

    def add(self, row: ScoreRow) -> None:
        if self.rows and self.rows[-1].utterance != row.utterance:
            self.close()
        self.rows.append(row)

    def close(self) -> None:
        from rich.table import Table
        from rich.text import Text

        if not self.rows:
            return
        id_cells = _ID_CELLS * (1 + (self.console.width >= _WIDE))
        fixed = (
            sum(cells + 1 for _, cells in _TABLE + self.more)
            + _NOTE_CELLS
            + (id_cells + 1) * self.with_utterance
        )
        cells = max(_TRANSCRIPT_CELLS, self.console.width - fixed - 1)
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=self.is_first)
        if self.with_utterance:
            table.add_column("utterance", width=id_cells, no_wrap=True)
        for name, width in _TABLE:
            table.add_column(name, width=width, justify="right", no_wrap=True)
        table.add_column("transcript", width=cells, no_wrap=True)
        for name, width in self.more:
            table.add_column(name, width=width, justify="right", no_wrap=True)
        table.add_column("", width=_NOTE_CELLS, no_wrap=True)
        for row in self.rows:
            if self.with_utterance:
                shown = [_end(_one_line(row.utterance or ""), id_cells)]
            else:
                shown = []
            shown += [_figure(name, getattr(row, name)) for name, _ in _TABLE]
            transcript = _one_line(row.transcript)
            shown.append(transcript if row.text is None else _end(transcript, cells))
            shown += [
                *(_figure(name, getattr(row, name)) for name, _ in self.more),
                row.mark or (f"{row.unknown} unknown" if row.unknown else ""),
            ]
            table.add_row(*(Text(cell) for cell in shown), style="red" if row.mark else None)
        self.console.print(table)
        self.rows = []
        self.is_first = False


def _end(name: str, cells: int) -> str:
    """Return the end of a name that is too long, because neighbouring names differ there."""
    if len(name) <= cells:
        return name
    return "…" + name[len(name) - cells + 1 :]


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "posterior":
        if value >= 5e-4 or not value:
            return f"{value:.3f}"
        return f"{value:.0e}"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        if name == "posterior":
            return f"{value:.9g}"
        return f"{value:.6f}"
    if isinstance(value, str):
        return _one_line(value)
    return str(value)


def _one_line(text: str) -> str:
    r"""Return text as one field: white space becomes a space, control characters are escaped.

    >>> _one_line("two\tlines\r\n\x1b[31m")
    'two lines \\x1b[31m'
    """
    return printable(" ".join(part for part in _LINES.split(text) if part))
