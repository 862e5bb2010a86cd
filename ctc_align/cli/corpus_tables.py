"""The progress line and the closing tables of a corpus run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO

from ctc_align.cli.alignment_notes import seconds_told
from ctc_align.cli.messages import counted
from ctc_align.cli.printing import console_for
from ctc_align.corpus.state.shared_texts import gap_place, gap_words
from ctc_align.text.control_characters import printable
from ctc_align.units import clock

if TYPE_CHECKING:
    from pathlib import Path

    from ctc_align.cli.messages import Talk
    from ctc_align.corpus.engine.dispatch import Tally
    from ctc_align.corpus.state.summary import Effort, Summary

_STAGES = {
    "reading": "reading audio",
    "model": "features and model",
    "kernels": "kernels",
    "words": "tokens, boundaries, words",
    "writing": "writing",
    "waiting": "waiting for audio",
    "starting": "starting, ending, idle",
}
_MOST_GAPS = 10
_LINE_EVERY_S = 10.0
_CONCURRENT = ("reading", "writing")
"""Stages in threads of their own."""


def progress_line(tally: Tally) -> str:
    """
    >>> from ctc_align.corpus.engine.dispatch import Tally
    >>> progress_line(Tally(done=3, failed=1, total=10)).split(", 0 ×")[0]
    '3 done, 1 failed of 10'
    """
    of = "" if tally.total is None else f" of {tally.total}"
    skipped = f", {tally.skipped} done before" if tally.skipped else ""
    left = "" if tally.left_s is None else f", {clock(tally.left_s)} left"
    return f"{tally.done} done, {tally.failed} failed{skipped}{of}, {tally.times_real_time:.0f} × real time{left}"


class Display:
    """A progress bar at the bottom of a terminal; other output goes above it."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("aligning"), BarColumn(), TextColumn("{task.fields[line]}", markup=False))
        self._progress = Progress(*columns, console=console_for(sys.stderr), transient=True, redirect_stdout=False)
        self._task = self._progress.add_task("aligning", total=None, line="starting workers")

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._progress.stop()

    def show(self, tally: Tally) -> None:
        self._progress.update(self._task, completed=tally.finished, total=tally.total, line=progress_line(tally))


class ProgressDisplay:
    """Shows the progress of a run on stderr: a bar on a terminal, else a line every ten seconds.

    `compiling` is a file that is there once a worker compiles the kernels: that is said.
    """

    def __init__(self, talk: Talk, compiling: Path | None = None) -> None:
        self.talk = talk
        self._compiling = compiling
        self._display: Any = None
        self._last_line = time.monotonic()
        self._warned: set[str] = set()

    def __enter__(self) -> ProgressDisplay:
        if self.talk.on_terminal and not self.talk.quiet:
            self._display = Display()
            self._display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._display is not None:
            self._display.__exit__(*error)

    def progress(self, tally: Tally) -> None:
        if self._compiling is not None and not tally.worked and self._compiling.exists():
            self._compiling = None
            self.talk.note("the kernels are compiled, once on this machine: about a minute")
        if self._display is not None:
            self._display.show(tally)
        elif time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.talk.say(f"ctc-align: {progress_line(tally)}")

    def warn(self, line: str) -> None:
        """Say a warning, once: workers give that of each utterance."""
        if line not in self._warned:
            self._warned.add(line)
            self.talk.say(f"ctc-align: warning: {line}")


def print_summary(summary: Summary, file: TextIO | None = None, of: int | None = None) -> None:
    """Print the closing table to `file`, by default stderr; `of` is how many entries the source has, if known."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    console = console_for(file or sys.stderr)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, value in _counts(summary, of):
        table.add_row(name, value)
    console.print(table)
    if summary.worst:
        console.print(_ranking("worst, loss per token", summary.worst, "loss_per_token"))
    if summary.text_gaps:
        console.print(_gaps_table(summary.text_gaps))
    if summary.most_skipped:
        console.print(_ranking("most words not in the recording, percent", summary.most_skipped, "skipped_percent", 1))
    if summary.doubtful:
        console.print(_ranking("least sure, confidence", summary.doubtful, "least_confidence"))
    if summary.slowest:
        console.print(_ranking("slowest, seconds", summary.slowest, "seconds"))


def _counts(summary: Summary, of: int | None) -> list[tuple[str, str]]:
    so_far = "" if summary.complete else " so far" if of is None else f" of {of} so far"
    rows = [
        ("utterances", f"{summary.utterances}{so_far}"),
        ("done", str(summary.done)),
        ("failed", str(summary.failed)),
    ]
    if summary.fit:
        rows.append(("fit of the transcripts", ", ".join(f"{fit} {count}" for fit, count in summary.fit.items())))
    if summary.same_texts:
        same, of = (summary.same_text_counts[name] for name in ("transcripts", "utterances"))
        rows.append(("transcripts that several utterances have", f"{same:,}, {of:,} utterances"))
    if summary.skipped_words:
        of_all = f" of {summary.words:,}" if summary.words else ""
        rows.append(("words that are not in the recordings", f"{summary.skipped_words:,}{of_all}"))
    if summary.unexplained_s:
        none = summary.fit.get("none", 0)  # a text of which nothing is there leaves open what is said
        without = f", without {counted(none, 'utterance', 'utterances')} of fit none" if none else ""
        rows.append(("speech that is not in the texts", f"{seconds_told(summary.unexplained_s)}{without}"))
    if summary.too_many_skipped:
        rows.append(("utterances beyond --max-skipped", str(summary.too_many_skipped)))
    if summary.in_doubt:
        rows.append(("utterances in doubt", str(summary.in_doubt)))
        rows.append(("words in doubt", str(summary.doubtful_words)))
        rows.append(("stretches that no word explains", str(summary.unexplained)))
    if summary.skipped:
        rows.append(("done before this run", str(summary.skipped)))
    rows.append(("hours of audio", f"{summary.audio_hours:.3f}"))
    if summary.loss_per_token:
        names = ("min", "p5", "p50", "p95", "max")
        rows.append((f"loss per token: {' '.join(names)}", " ".join(f"{summary.loss_per_token[n]:.3f}" for n in names)))
    if summary.run.wall_s:
        rows.append(
            ("this run", f"{clock(summary.run.wall_s)}, {summary.run.audio_s / summary.run.wall_s:.0f} × real time")
        )
    if not summary.complete:
        rows.append(("complete", "no: the same command goes on"))
    return rows


def _gaps_table(gaps: list[dict[str, Any]]) -> Any:
    """Return the stretches of texts that no recording reads, those of most words, in the order of the text."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("text that is in no recording", overflow="fold")
    table.add_column("where", overflow="fold")
    table.add_column("words", justify="right", no_wrap=True)
    longest = sorted(gaps, key=lambda gap: -(gap["words"] or 0))
    for gap in (gap for gap in gaps if gap in longest[:_MOST_GAPS]):
        words = "—" if gap["words"] is None else f"{gap['words']:,}"
        table.add_row(Text(printable(gap_words(gap) or gap["text"])), Text(printable(gap_place(gap))), words)
    if len(gaps) > _MOST_GAPS:
        rest = sum(gap["words"] or 0 for gap in longest[_MOST_GAPS:])
        table.add_row(f"and {len(gaps) - _MOST_GAPS} more: see text_gaps in summary.json", "", f"{rest:,}")
    return table


def _ranking(title: str, rows: list[dict[str, Any]], key: str, digits: int = 3) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, overflow="fold")
    table.add_column("", justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(printable(row["utterance"])), "—" if row[key] is None else f"{row[key]:.{digits}f}")
    return table


def print_profile(effort: Effort) -> None:
    """Print the seconds of each stage, of all workers together, and their share of the workers' time."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"seconds of {effort.workers} workers, {effort.wall_s:.1f} s each")
    table.add_column("", justify="right")
    table.add_column("share", justify="right")
    whole = max(effort.wall_s * effort.workers, 1e-9)
    named = sum(seconds for stage, seconds in effort.stages.items() if stage not in _CONCURRENT)
    stages = {**effort.stages, "starting": max(0.0, whole - named)}
    for stage, title in _STAGES.items():
        seconds = stages.get(stage, 0.0)
        title += " (beside the others)" if stage in _CONCURRENT else ""
        table.add_row(title, f"{seconds:.1f}", f"{seconds / whole:.0%}")
    console_for(sys.stderr).print(table)
