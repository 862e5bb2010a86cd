"""The door through which all goes that a command prints: messages to stderr, data to stdout, tables to either.

Names of files, transcripts, labels and messages of other libraries may hold characters that a terminal obeys. Whatever
passes here is shown with those as escapes (`\\x1b`), to a pipe as to a terminal: what is piped is often shown later.
Nothing else in the package prints; a test reads the code for it.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO

from ctc_align.text.control_characters import printable, spreadsheet_cell

if TYPE_CHECKING:
    from rich.console import Console

PROGRAM = "ctc-align"


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
    """Print a row of TSV to stdout, or to a binary file in UTF-8: no cell ends it, or is a formula to a spreadsheet."""
    line = "\t".join(tsv_cell(cell) for cell in cells)
    if file is None:
        _write(sys.stdout, line)
    else:
        file.write(f"{line}\n".encode())


def tsv_cell(cell: object) -> str:
    """Return a cell of a printed table: numbers as they are, and no text that a spreadsheet would compute.

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
    except UnicodeEncodeError:  # the terminal's own characters are few
        encoding = getattr(file, "encoding", None) or "ascii"
        print(line.encode(encoding, "backslashreplace").decode(encoding), file=file)


def console_for(file: TextIO) -> Console:
    """Return a console for tables and bars, which takes no text for markup, and shows what a terminal would obey."""
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console that fails neither on characters that the terminal lacks nor on hostile ones."""

        def on_broken_pipe(self) -> None:
            """Leave a closed output to `ctc_align.cli.run`."""
            raise BrokenPipeError

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> RenderResult:  # type: ignore[override]
            for segment in super().render(renderable, options):
                if segment.control:
                    yield segment
                else:
                    yield Segment(printable(segment.text, keep="\n"), segment.style)

    if hasattr(file, "reconfigure"):
        file.reconfigure(errors="backslashreplace")
    return SafeConsole(file=file, highlight=False, soft_wrap=False, markup=False, emoji=False)


def say_what_python_says() -> None:
    """Let warnings of libraries and uncaught exceptions go through this door, too."""

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"{PROGRAM}: warning: {category.__name__}: {' '.join(str(message).split())}")

    def show_exception(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        say_lines("".join(traceback.format_exception(kind, error, trace)))

    warnings.showwarning = show_warning
    sys.excepthook = show_exception
