"""The rows that `ctc-align score` prints, with their marks, as a table, TSV or JSON lines."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, Protocol

from ctc_align.cli.printing import console_for, put_row
from ctc_align.errors import OutputError
from ctc_align.text.control_characters import json_escaped, printable

if TYPE_CHECKING:
    from rich.console import Console

    from ctc_align.alignment.scoring import Scored

OUT, ERROR = "out", "error"
"""Marks: beyond a threshold; could not be scored, or does not fit."""
STATISTICS = ("local_loss", "loss_per_token", "loss_per_frame", "loss")
"""The figures that `--worst` can compare."""
COLUMNS = (
    *("rank", "loss", "loss_per_token", "posterior", "transcript"),
    *("loss_per_frame", "local_loss", "unknown", "mark"),
)
_TABLE = (("rank", 4), ("loss", 9), ("loss_per_token", 14), ("posterior", 9))
_TABLE_MORE = (("loss_per_frame", 14), ("local_loss", 10))
_ID_CELLS, _NOTE_CELLS, _TRANSCRIPT_CELLS, _WIDE = 16, 9, 12, 130
_LINES = re.compile(r"[ ]*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")


@dataclass
class ScoreRow:
    """A transcript and its figures; `loss` is inf where it does not fit; figures that do not exist are None."""

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


def row_of(scored: Scored, transcript: str, *, utterance: str | None = None, text: str | None = None) -> ScoreRow:
    """Return the row of a transcript; `text` where `transcript` is the name of its file."""
    has_loss = not math.isnan(scored.loss)
    return ScoreRow(
        utterance,
        transcript,
        text,
        scored.rank,
        scored.loss if has_loss else None,
        scored.loss_per_token if has_loss else None,
        scored.posterior,
        scored.loss_per_frame if has_loss else None,
        scored.local_loss,
        scored.unknown,
        scored.tokens,
        scored.frames,
        None if scored.error is None else " ".join(str(scored.error).split()),
    )


@dataclass(frozen=True)
class Thresholds:
    """Limits of losses, and the share of the worst rows (`worst` percent, compared by a statistic) to mark."""

    max_loss: float | None = None
    max_loss_per_token: float | None = None
    worst: Fraction | None = None
    worst_by: str = STATISTICS[0]

    def marked(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield the rows with their marks. Only `worst` needs all rows first: they wait in a temporary file.

        Raises:
            OutputError: the temporary file cannot be written.
        """
        judged = (self._judged(row) for row in rows)
        return judged if self.worst is None else self._worst_marked(judged)

    def _judged(self, row: ScoreRow) -> ScoreRow:
        if row.error is not None:
            row.mark = ERROR
        elif _above(row.loss, self.max_loss) or _above(row.loss_per_token, self.max_loss_per_token):
            row.mark = OUT
        return row

    def _worst_marked(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        values = array("d")
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass") as spool:
            try:
                for row in rows:
                    value = getattr(row, self.worst_by)
                    if row.error is None:
                        values.append(value)
                    spool.write(json.dumps(asdict(row)) + "\n")
                spool.seek(0)
            except OSError as error:
                where = tempfile.gettempdir()
                raise OutputError(
                    f"{where}: --worst keeps its rows there, and writing failed ({error.strerror})"
                ) from error
            limit, ties = _limit(values, self.worst or Fraction(0))
            for line in spool:
                row = ScoreRow(**json.loads(line))
                value = getattr(row, self.worst_by)
                if row.error is None and value >= limit and (value > limit or ties):
                    ties -= value == limit
                    row.mark = OUT
                yield row


def _above(value: float | None, limit: float | None) -> bool:
    return value is not None and limit is not None and value > limit


def _limit(values: array[float], percent: Fraction) -> tuple[float, int]:
    """Return a limit and a number: the worst `percent` of values are those above the limit and so many that equal it.

    >>> _limit(array("d", [5.0, 1.0, 4.0, 4.0, 2.0]), Fraction(40))
    (4.0, 1)
    """
    import numpy as np

    count = math.ceil(len(values) * percent / 100)
    if not count:
        return math.inf, 0
    everything = np.frombuffer(values, np.float64)
    limit = float(np.partition(everything, len(values) - count)[len(values) - count])
    return limit, count - int((everything > limit).sum())


class Printer(Protocol):
    """A printer of rows, one after another; `close` prints the rest."""

    def add(self, row: ScoreRow) -> None: ...

    def close(self) -> None: ...


def printer_for(format: str, *, with_utterance: bool) -> Printer:
    """Return the printer to stdout for "table", "tsv" or "jsonl"."""
    if format == "table":
        return TablePrinter(console_for(sys.stdout), with_utterance)
    sys.stdout.flush()
    kind = TsvPrinter if format == "tsv" else JsonlPrinter
    return kind(sys.stdout.buffer, with_utterance)


class TsvPrinter:
    """A header, then a line for each row; a missing number is an empty field."""

    def __init__(self, file: IO[bytes], with_utterance: bool) -> None:
        self.file = file
        self.columns = (("utterance",) if with_utterance else ()) + COLUMNS
        self._write(self.columns)

    def add(self, row: ScoreRow) -> None:
        self._write([_cell(name, getattr(row, name)) for name in self.columns])

    def close(self) -> None:
        self.file.flush()

    def _write(self, cells: Sequence[str]) -> None:
        put_row(cells, self.file)
        self.file.flush()


class JsonlPrinter:
    """A JSON object a line; null for a missing number."""

    def __init__(self, file: IO[bytes], with_utterance: bool) -> None:
        self.file = file
        self.with_utterance = with_utterance

    def add(self, row: ScoreRow) -> None:
        names = (*(("utterance",) if self.with_utterance else ()), *COLUMNS[:-1], "tokens", "frames", "mark", "error")
        fields = {name: _jsonable(getattr(row, name)) for name in names} | {"mark": row.mark or None}
        if row.text is not None:
            fields["text"] = row.text
        # In ASCII: characters that end a line for some readers, and bytes of names that are no UTF-8, pass unharmed.
        self.file.write((json_escaped(json.dumps(fields, allow_nan=False)) + "\n").encode("ascii"))
        self.file.flush()

    def close(self) -> None:
        self.file.flush()


class TablePrinter:
    """A table as wide as the terminal; rows appear utterance by utterance, for a source may be long."""

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
        fixed = sum(cells + 1 for _, cells in _TABLE + self.more) + _NOTE_CELLS + (id_cells + 1) * self.with_utterance
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
            shown = [_end(_one_line(row.utterance or ""), id_cells)] if self.with_utterance else []
            shown += [_figure(name, getattr(row, name)) for name, _ in _TABLE]
            transcript = _one_line(row.transcript)
            shown.append(transcript if row.text is None else _end(transcript, cells))
            shown += [*(_figure(name, getattr(row, name)) for name, _ in self.more), _note(row)]
            table.add_row(*(Text(cell) for cell in shown), style="red" if row.mark else None)
        self.console.print(table)
        self.rows, self.is_first = [], False


class Counter:
    """A counter of utterances and speed on a terminal's stderr; it vanishes when the block ends."""

    def __init__(self, *, shown: bool) -> None:
        self.shown = shown
        self.count, self.audio_s, self.started_s = 0, 0.0, time.monotonic()
        self.bar: Any = None

    def __enter__(self) -> Counter:
        if self.shown:
            from rich.status import Status

            self.bar = Status("listening", console=console_for(sys.stderr))
            self.bar.start()
        return self

    def __call__(self, audio_s: float) -> None:
        self.count, self.audio_s = self.count + 1, self.audio_s + audio_s
        if self.bar is not None:
            speed = self.audio_s / max(time.monotonic() - self.started_s, 1e-3)
            self.bar.update(f"{self.count} utterances, {self.audio_s / 3600:.2f} h, {speed:.0f} times real time")

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


def _note(row: ScoreRow) -> str:
    return row.mark or (f"{row.unknown} unknown" if row.unknown else "")


def _end(name: str, cells: int) -> str:
    """Return the end of a name that is too long: names of neighbours differ there."""
    return name if len(name) <= cells else "…" + name[len(name) - cells + 1 :]


def _figure(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "posterior":
        return f"{value:.3f}" if value >= 5e-4 or not value else f"{value:.0e}"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9g}" if name == "posterior" else f"{value:.6f}"
    return _one_line(value) if isinstance(value, str) else str(value)


def _jsonable(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _one_line(text: str) -> str:
    r"""Return text as one field of a line: other white space becomes a space, control characters escapes.

    >>> _one_line("two\tlines\r\n\x1b[31m")
    'two lines \\x1b[31m'
    """
    return printable(" ".join(part for part in _LINES.split(text) if part))
