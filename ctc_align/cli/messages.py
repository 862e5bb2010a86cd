"""Messages on stderr (notes, warnings of the library, a progress bar), and exit codes."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from ctc_align.cli import printing

OK, SOME_FAILED, WRONG_CALL, THRESHOLD_NOT_MET, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""
_PATIENCE_S = 1.0


class Interrupted(Exception):
    """A command was stopped by Ctrl-C; the message says what is done."""


class Talk:
    """The messages of a command on stderr; none where `quiet`. Errors go elsewhere."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet = quiet
        self.verbose = verbose and not quiet
        self.on_terminal = sys.stderr.isatty()

    def say(self, line: str) -> None:
        if not self.quiet:
            printing.say(line)

    def note(self, line: str) -> None:
        self.say(f"ctc-align: note: {line}")

    def notes(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(line)

    def listen(self) -> None:
        """Print what the library logs from now on: warnings, and more when verbose or at a terminal."""
        logger = logging.getLogger("ctc_align")
        for handler in [handler for handler in logger.handlers if isinstance(handler, _LogLines)]:
            logger.removeHandler(handler)
        logger.addHandler(_LogLines(self))
        logger.setLevel(logging.INFO if self.verbose or self.on_terminal else logging.WARNING)
        logger.propagate = False

    def progress(self, what: str) -> ProgressBar:
        return ProgressBar(what, shown=self.on_terminal and not self.quiet)


class _LogLines(logging.Handler):
    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self.talk = talk
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        line = f"ctc-align: {record.levelname.lower()}: {record.getMessage()}"
        # Two modules may log the same fault of the same input.
        if line not in self._said:
            self._said.add(line)
            self.talk.say(line)


class ProgressBar:
    """A bar, called with the share done, in [0, 1]; it appears after a second and vanishes when the block ends."""

    def __init__(self, what: str, *, shown: bool) -> None:
        self.what = what
        self.shown = shown
        self.started_s = time.monotonic()
        self.bar: Any = None

    def __call__(self, fraction: float) -> None:
        if not self.shown or (self.bar is None and time.monotonic() - self.started_s < _PATIENCE_S):
            return
        if self.bar is None:
            self.bar = self._new_bar()
            self.bar.start()
            self.bar.add_task(self.what, total=1.0)
        self.bar.update(self.bar.tasks[0].id, completed=min(max(fraction, 0.0), 1.0))

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _new_bar(self) -> Any:
        from rich.progress import Progress

        return Progress(console=printing.console_for(sys.stderr), transient=True)


def counted(number: int, one: str, many: str) -> str:
    """Return the number with its noun in the singular or plural.

    >>> counted(1, "letter", "letters"), counted(2, "letter", "letters")
    ('1 letter', '2 letters')
    """
    return f"{number} {one if number == 1 else many}"
