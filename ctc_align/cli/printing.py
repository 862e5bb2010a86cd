"""All that commands print: messages to stderr, data to stdout, tables to either.

Names of files, transcripts, labels and messages of other libraries may contain characters that
control a terminal. They are escaped (`\\x1b`), for pipes as well, because piped output is often
displayed later. No other module prints; a test checks the code for this.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO

from ctc_align.errors import NOTE
from ctc_align.text.characters import printable, spreadsheet_cell
from ctc_align.text.note_kinds import MOST_NAMED, kind_of

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Self

PROGRAM = "ctc-align"
OK, SOME_FAILED, WRONG_CALL, THRESHOLD_NOT_MET, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""
_LOG_COLUMNS = 1000
"""Width of tables that are not written to a terminal."""
PATIENCE_S = 1.0
"""Seconds after which a progress bar appears."""


def say(line: str) -> None:
    """Print one line to stderr."""
    _write(sys.stderr, printable(line))


def say_lines(text: str) -> None:
    """Print a text of several lines, such as a traceback, to stderr."""
    _write(sys.stderr, printable(text.rstrip("\n"), keep="\n"))


def put(text: str = "") -> None:
    """Print a text of one or several lines to stdout."""
    _write(sys.stdout, printable(text, keep="\n"))


def put_row(cells: Sequence[object], file: IO[bytes] | None = None) -> None:
    """Print a row of TSV to stdout or to a binary file; escape line ends and formulas in cells."""
    line = "\t".join(tsv_cell(cell) for cell in cells)
    if file is None:
        _write(sys.stdout, line)
    else:
        file.write(f"{line}\n".encode())


def tsv_cell(cell: object) -> str:
    """Return a cell of a printed table: numbers unchanged, and text that no spreadsheet computes.

    >>> tsv_cell("=HYPERLINK(1)"), tsv_cell(-1.5)
    ("'=HYPERLINK(1)", '-1.5')
    """
    return printable(spreadsheet_cell(cell) if isinstance(cell, str) else str(cell))


def put_bytes(data: bytes) -> None:
    """Write a file's content to stdout: as it is to a pipe, with escapes to a terminal.

    Raises:
        OSError: it cannot be written.
    """
    sys.stdout.flush()
    if sys.stdout.isatty():
        data = printable(data.decode("utf-8", "surrogateescape"), keep="\n\t").encode("utf-8")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _write(file: TextIO, line: str) -> None:
    try:
        print(line, file=file)
    except UnicodeEncodeError:  # the terminal has few characters
        encoding = getattr(file, "encoding", None) or "ascii"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=file)


def console_for(file: TextIO, *, whole: bool = False) -> Console:
    """Return a console that prints text without markup and escapes control characters.

    `whole`: tables in a log are as wide as they need; Rich would cut them at 80 columns.
    """
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console that copes with characters that the terminal lacks, and with hostile ones."""

        def on_broken_pipe(self) -> None:
            """Leave a closed output to `ctc_align.cli.run`."""
            raise BrokenPipeError

        def render(  # type: ignore[override]
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> RenderResult:
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

    if hasattr(file, "reconfigure"):
        file.reconfigure(errors="backslashreplace")
    if whole and not file.isatty() and "COLUMNS" not in os.environ:
        width = _LOG_COLUMNS
    else:
        width = None
    return SafeConsole(
        file=file, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False
    )


def route_python_warnings() -> None:
    """Send warnings of libraries and uncaught exceptions through this module, too."""

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"{PROGRAM}: warning: {category.__name__}: {' '.join(str(message).split())}")

    def show_exception(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        say_lines("".join(traceback.format_exception(kind, error, trace)))

    warnings.showwarning = show_warning
    sys.excepthook = show_exception


class Interrupted(Exception):
    """A command was stopped by Ctrl-C; the message says what has been done."""


class Talk:
    """The messages of a command on stderr; none if `quiet`. Errors do not go through it."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self.on_terminal = sys.stderr.isatty()

    def say(self, line: str) -> None:
        if not self.quiet:
            say(line)

    def note(self, line: str) -> None:
        self.say(f"ctc-align: note: {line}")

    def notes(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(line)

    def listen(self) -> None:
        """Print what the library logs: warnings, and more if verbose or on a terminal."""
        end_listening()
        logger = logging.getLogger("ctc_align")
        logger.addHandler(_LogLines(self))
        logger.setLevel(logging.INFO if self.verbose or self.on_terminal else NOTE)
        logger.propagate = False

    def progress(self, what: str) -> ProgressBar:
        return ProgressBar(what, shown=self.on_terminal and not self.quiet)


def end_listening() -> None:
    """Stop printing what the library logs, and print how many lines of each kind were left out."""
    logger = logging.getLogger("ctc_align")
    for handler in [handler for handler in logger.handlers if isinstance(handler, _LogLines)]:
        logger.removeHandler(handler)
        handler.close()


class _LogLines(logging.Handler):
    """Prints the first lines of each kind, and counts the others."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self.talk = talk
        self._lines: dict[str, set[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        line = f"ctc-align: {record.levelname.lower()}: {record.getMessage()}"
        alike = self._lines.setdefault(f"{record.levelno} {kind_of(record.getMessage())}", set())
        # Two modules may log the same fault of the same input.
        if line not in alike and (self.talk.verbose or len(alike) < MOST_NAMED):
            self.talk.say(line)
        alike.add(line)

    def close(self) -> None:
        for kind, alike in self._lines.items():
            more = len(alike) - MOST_NAMED
            if more > 0 and not self.talk.verbose:
                self.talk.note(f"{more:,} more such lines (--verbose): {kind.partition(' ')[2]}")
        self._lines = {}
        super().close()


class ProgressBar:
    """A progress bar; call it with the share that is done, a `ProgressValue` that names the step.

    It appears a second after the block began, even without another call, moves during long steps,
    and vanishes when the block ends.
    """

    def __init__(self, what: str, *, shown: bool) -> None:
        self.what = what
        self.shown = shown
        self.bar: Any = None
        self._done = 0.0
        self._lock = threading.Lock()
        self.timer = threading.Timer(PATIENCE_S, self.show)
        self.timer.daemon = True

    def __call__(self, done: float) -> None:
        with self._lock:
            self._done = min(max(done, 0.0), 1.0)
            self.what = getattr(done, "step", "") or self.what
            self._update()

    def show(self) -> None:
        """Let the bar appear, unless the block has ended."""
        with self._lock:
            if not self.shown or self.bar is not None:
                return
            from rich.progress import (
                BarColumn,
                SpinnerColumn,
                TaskProgressColumn,
                TextColumn,
                TimeElapsedColumn,
            )

            text = TextColumn("{task.description}", markup=False)
            self.bar = bar_on_stderr(
                SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
            )
            self.bar.add_task(self.what, total=1.0)
            self._update()
            self.bar.start()

    def _update(self) -> None:
        if self.bar is not None:
            self.bar.update(self.bar.tasks[0].id, completed=self._done, description=self.what)

    def __enter__(self) -> ProgressBar:
        if self.shown:
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        with self._lock:
            self.shown = False
            if self.bar is not None:
                self.bar.stop()


class LineBar:
    """A bar with a line of text on a terminal's stderr, and nothing elsewhere.

    It vanishes when the block ends.
    """

    def __init__(self, what: str, *, shown: bool) -> None:
        self.what = what
        self.shown = shown
        self.bar: Any = None

    def __enter__(self) -> Self:
        if self.shown:
            from rich.progress import BarColumn, TextColumn

            texts = [
                TextColumn(f"{{task.{part}}}", markup=False)
                for part in ("description", "fields[line]")
            ]
            self.bar = bar_on_stderr(texts[0], BarColumn(bar_width=24), texts[1])
            self.bar.add_task(self.what, total=None, line="")
            self.bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, line: str, completed: float = 0.0, total: float | None = None) -> None:
        """Show how much of the work is done, and a line beside it."""
        if self.bar is not None:
            task = self.bar.tasks[0].id
            self.bar.update(
                task, description=self.what, completed=completed, total=total, line=line
            )


def bar_on_stderr(*columns: Any) -> Any:
    """Return a progress bar of Rich's on stderr, which ends without a trace."""
    from rich.progress import Progress

    return Progress(
        *columns, console=console_for(sys.stderr), transient=True, redirect_stdout=False
    )


def counted(number: int, one: str, many: str) -> str:
    """Return the number with its noun in the singular or plural.

    >>> counted(1, "letter", "letters"), counted(2, "letter", "letters")
    ('1 letter', '2 letters')
    """
    return f"{number} {one if number == 1 else many}"
