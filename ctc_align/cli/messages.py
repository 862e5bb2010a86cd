"""Messages on stderr (notes, warnings of the library, a progress bar), and exit codes."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable
from typing import Any

from ctc_align.cli import printing

OK, SOME_FAILED, WRONG_CALL, THRESHOLD_NOT_MET, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes."""
PATIENCE_S = 1.0
"""Seconds after which a progress bar appears."""


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
    """A bar, called with the share done, in [0, 1], and the step that is going on, as a `Done` names it.

    It appears when a second has passed since the block began, whether it is called again or not, moves while a step
    takes long, and vanishes when the block ends.
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
            self.bar = _new_bar()
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


def _new_bar() -> Any:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = printing.console_for(sys.stderr)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def counted(number: int, one: str, many: str) -> str:
    """Return the number with its noun in the singular or plural.

    >>> counted(1, "letter", "letters"), counted(2, "letter", "letters")
    ('1 letter', '2 letters')
    """
    return f"{number} {one if number == 1 else many}"
