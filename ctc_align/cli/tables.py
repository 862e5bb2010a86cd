"""Tables on a terminal, and the progress of a run.

The tables are of the words of an alignment, of a corpus run, and of boundary errors.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ctc_align.cli.notes import seconds_text
from ctc_align.cli.printing import LineBar, console_for, counted
from ctc_align.files.writer import finite
from ctc_align.text.characters import printable
from ctc_align.types import ALIGNED, DOUBTFUL, GOOD, NONE, POOR, SURE, AlignedWord, Alignment
from ctc_align.units import clock, seconds_to_ms

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table
    from typing_extensions import Self

    from ctc_align.cli.printing import Talk
    from ctc_align.corpus.engine.dispatch import Tally
    from ctc_align.corpus.state.summary import RunStats, Summary
    from ctc_align.evaluate import Comparison, Difference, EdgeErrors, Evaluation

MOST_ROWS = 60
_LABEL_CELLS = 24
_LINE_CELLS = (12, 60)
"""Shortest and longest time line."""
_GAP_CELLS = 3
_FIGURES = (("start s", 7), ("end s", 7), ("ms", 6), ("confidence", 10))
"""The columns of figures and their widths; in a narrow terminal the last ones are omitted first,
then the time line."""
_COLOURS = ((0.9, "green"), (SURE, "yellow"), (-1.0, "red"))
"""The colours of confidences, and the least confidence of each."""
_NOTHING_TO_CHECK = {
    GOOD: "nothing to check",
    DOUBTFUL: "no single word to check",
    POOR: "no single word to check",
    NONE: "",
}
"""The end of the line about each fit if no word is doubtful; a poor fit is itself a thing to check."""
_FULL, _LATE, _EARLY = "█", "▐", "▌"
_STAGES = {
    "reading": "reading audio",
    "model": "features and model",
    "kernels": "kernels",
    "words": "tokens, boundaries, words",
    "writing": "writing",
    "waiting": "waiting for audio",
    "starting": "starting, ending, idle",
}
_QUANTILES = ("min", "p5", "p50", "p95", "max")
_RANKINGS = {
    "worst": ("worst, loss per token", "loss_per_token", 3),
    "worst_local": ("worst, local loss", "local_loss", 3),
    "most_skipped": ("most words not in the recording, percent", "skipped_percent", 1),
    "doubtful": ("lowest confidence", "least_confidence", 3),
    "slowest": ("slowest, seconds", "seconds", 3),
}
"""The rankings of a summary that are printed: title, figure, and its decimals."""
_MOST_GAPS = 10
_LINE_EVERY_S = 10.0
_CONCURRENT = ("reading", "writing")
"""Stages that run in separate threads."""
_ERRORS = {
    "mean absolute error, ms": ("mae_ms", ""),
    "median absolute error, ms": ("median_abs_ms", ""),
    "median signed error, ms": ("median_signed_ms", "+"),
    "mean signed error, ms": ("mean_signed_ms", "+"),
}
_RATES = {"precision": "precision", "recall": "recall", "F1": "f1", "R-value": "r_value"}
_EDGES = ("both", "onset", "offset")
_BINS_MS = tuple(range(-50, 51, 10))
_BAR_CELLS = (8, 24)
"""The least and the greatest length of a histogram's bar."""
_BESIDE_BARS = 44
"""Cells of a histogram's row outside the bar."""


def figures_table(title: str, *columns: str, fold: bool = False) -> Table:
    """Return a table without a frame.

    It has a column of names, which wrap if `fold`, then columns of figures.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, no_wrap=not fold, overflow="fold" if fold else "ellipsis")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def words_table(alignment: Alignment, width: int = 80, most_rows: int = MOST_ROWS) -> Table:
    """Return a table `width` characters wide with a row for each word.

    A row has times, confidence, and position in the recording.
    """
    from rich.cells import cell_len
    from rich.text import Text

    words = alignment.words[:most_rows]
    label_cells = min(max([cell_len(printable(word.text)) for word in words] + [4]), _LABEL_CELLS)
    figures, line_cells = _layout(width - label_cells - 2)
    table = figures_table("word", *(name for name, _ in _FIGURES[:figures]))
    table.columns[0].max_width = _LABEL_CELLS
    table.add_column(f"0 … {alignment.duration_s:.2f} s" if line_cells else "", no_wrap=True)
    doubt = float(alignment.config.get("min_confidence", 0.0))
    for word in words:
        cells = _word_cells(word, alignment.duration_s, figures, line_cells)
        if word.confidence is not None and word.confidence < doubt:
            cells[0] = f"? {cells[0]}"
        plain = len(_FIGURES)  # all columns before that of the confidence
        coloured = [
            Text(cell, _colour(word) if index in (plain, figures + 1) else "")
            for index, cell in enumerate(cells)
        ]
        table.add_row(*coloured, style=None if word.status == ALIGNED else "dim")
    more = len(alignment.words) - most_rows
    if more > 0:
        table.add_row(f"… and {more} more", *[""] * (figures + 1), style="dim")
    return table


def _colour(word: AlignedWord) -> str:
    """Return the colour of a word's confidence, "" for a word that has none.

    Consoles show no colour under NO_COLOR.
    """
    if word.confidence is None:
        return ""
    return next(colour for least, colour in _COLOURS if word.confidence >= least)


def _layout(cells: int) -> tuple[int, int]:
    """Return how many columns of figures, and how long a time line, fit into `cells` characters.

    >>> _layout(67), _layout(48), _layout(28)
    ((4, 22), (3, 16), (2, 0))
    """
    for figures in (4, 3, 2):
        line_cells = cells - sum(_GAP_CELLS + width for _, width in _FIGURES[:figures]) - _GAP_CELLS
        if line_cells >= _LINE_CELLS[0]:
            return figures, min(line_cells, _LINE_CELLS[1])
    return 2, 0


def _word_cells(word: AlignedWord, duration_s: float, figures: int, line_cells: int) -> list[str]:
    text = printable(word.text)
    if word.start_s is None or word.end_s is None:
        return [text, *[""] * figures, word.status]
    length_ms = seconds_to_ms(word.end_s - word.start_s)
    line = time_line(word.start_s, word.end_s, duration_s, line_cells)
    numbers = [f"{word.start_s:.2f}", f"{word.end_s:.2f}", f"{length_ms:.0f}"]
    numbers.append("" if word.confidence is None else f"{word.confidence:.2f}")
    return [text, *numbers[:figures], line]


def time_line(start_s: float, end_s: float, duration_s: float, cells: int) -> str:
    """Return a line of `cells` characters that shows [start_s, end_s), to half a character.

    >>> time_line(0.25, 0.75, 1.0, cells=4), time_line(0.125, 0.5, 1.0, cells=4)
    (' ██ ', '▐█  ')
    """
    halves = 2 * cells
    first = min(int(start_s / duration_s * halves + 0.5), halves - 1)
    last = min(max(int(end_s / duration_s * halves + 0.5), first + 1), halves)
    marks = {(True, True): _FULL, (False, True): _LATE, (True, False): _EARLY, (False, False): " "}
    filled = [first <= half < last for half in range(halves)]
    return "".join(marks[filled[i], filled[i + 1]] for i in range(0, halves, 2))


def fit_line(alignment: Alignment) -> str:
    """Return in one line how well the transcript fits, what to check, and the loss."""
    loss = finite(alignment.loss)
    if loss is None:
        return (
            f"No path fits this transcript: CTC loss infinite ({alignment.model},"
            f" {alignment.backend})"
        )
    if alignment.fit is None:
        fit = ""
    else:
        fit = f"{'no' if alignment.fit == NONE else alignment.fit} fit"
    if alignment.to_check:
        check = f"{counted(alignment.to_check, 'word', 'words')} to check"
    else:
        check = _NOTHING_TO_CHECK[alignment.fit or GOOD]
    words = ", ".join(filter(None, (fit, check)))
    if alignment.loss_per_token is None:
        per_token = ""
    else:
        per_token = f", {alignment.loss_per_token:.3f} per token"
    return (
        f"{words[0].upper()}{words[1:]} (CTC loss {loss:.3f}{per_token}; {alignment.model},"
        f" {alignment.backend})"
    )


def progress_line(tally: Tally) -> str:
    """Return how far a run over a corpus has come, in one line.

    >>> from ctc_align.corpus.engine.dispatch import Tally
    >>> progress_line(Tally(done=3, failed=1, total=10)).split(", 0 ×")[0]
    '3 done, 1 failed of 10'
    """
    of = "" if tally.total is None else f" of {tally.total}"
    if tally.skipped:
        skipped = f", {tally.skipped} done before"
    else:
        skipped = ""
    if tally.left_s is None:
        left = ""
    else:
        left = f", {clock(tally.left_s)} left"
    return (
        f"{tally.done} done, {tally.failed} failed{skipped}{of}, {tally.times_real_time:.0f} × real"
        f" time{left}"
    )


class ProgressDisplay(LineBar):
    """Shows the progress of a run on stderr.

    It is a bar on a terminal, else a line every ten seconds if there is news.

    `compiling` is a file that exists while a worker compiles the kernels, which is reported.
    """

    def __init__(self, talk: Talk, compiling: Path | None = None) -> None:
        super().__init__("aligning", shown=talk.on_terminal and not talk.quiet)
        self.talk = talk
        self._compiling = compiling
        self._last_line = time.monotonic()
        self._told = 0
        self.warned: set[str] = set()

    def __enter__(self) -> Self:
        super().__enter__()
        self.show("starting workers")
        return self

    def progress(self, tally: Tally) -> None:
        if self._compiling is not None and not tally.worked and self._compiling.exists():
            self._compiling = None
            self.talk.note("compiling the kernels, once on this machine: about a minute")
        if self.bar is not None:
            self.show(progress_line(tally), tally.finished, tally.total)
        elif tally.finished > self._told and time.monotonic() - self._last_line >= _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self._told = tally.finished
            self.talk.say(f"ctc-align: {progress_line(tally)}")

    def warn(self, line: str) -> None:
        """Show a warning once, even if workers repeat it for each utterance."""
        text = line.removeprefix("note: ")
        if text not in self.warned:
            self.warned.add(text)
            self.talk.say(f"ctc-align: {'note' if text != line else 'warning'}: {text}")


def print_summary(summary: Summary, file: TextIO | None = None, of: int | None = None) -> None:
    """Print the closing table to `file`, by default stderr.

    `of` is how many entries the source has, if known.
    """
    console = console_for(file or sys.stderr, whole=True)
    table = figures_table("", "")
    table.show_header = False
    for name, value in _counts(summary, of):
        table.add_row(name, value)
    console.print(table)
    if summary.text_gaps:
        console.print(_gaps_table(summary.text_gaps))
    for name, (title, key, digits) in _RANKINGS.items():
        rows = getattr(summary, name)
        if rows:
            console.print(_ranking(title, rows, key, digits))


def _counts(summary: Summary, of: int | None) -> Iterator[tuple[str, str]]:
    """Yield the rows of the closing table: those that say something."""
    rows = {
        "utterances": f"{summary.utterances}{_so_far(summary, of)}",
        "done": str(summary.done),
        "failed": str(summary.failed),
        "fit of the transcripts": ", ".join(f"{fit} {n}" for fit, n in summary.fit.items()),
        "texts shared by several utterances": _shared_texts(summary),
        "words not in the recordings": _skipped_words(summary),
        "speech not in the texts": _unexplained_speech(summary),
        "utterances beyond --max-skipped": str(summary.too_many_skipped or ""),
        **_doubts(summary),
        "done before this run": str(summary.skipped or ""),
        "hours of audio": f"{summary.audio_hours:.3f}",
        f"loss per token: {' '.join(_QUANTILES)}": _quantiles(summary.loss_per_token),
        f"local loss: {' '.join(_QUANTILES)}": _quantiles(summary.local_loss),
        "this run": _pace(summary.run),
        "complete": "" if summary.complete else "no; run the same command to continue",
    }
    return (row for row in rows.items() if row[1])


def _so_far(summary: Summary, of: int | None) -> str:
    if summary.complete:
        return ""
    return " so far" if of is None else f" of {of} so far"


def _shared_texts(summary: Summary) -> str:
    if not summary.same_texts:
        return ""
    same = counted(summary.same_text_counts["transcripts"], "transcript", "transcripts")
    return f"{same} in {summary.same_text_counts['utterances']:,} utterances"


def _skipped_words(summary: Summary) -> str:
    if not summary.skipped_words:
        return ""
    return f"{summary.skipped_words:,}" + (f" of {summary.words:,}" if summary.words else "")


def _unexplained_speech(summary: Summary) -> str:
    if not summary.unexplained_s:
        return ""
    line = seconds_text(summary.unexplained_s)
    none = summary.fit.get(NONE, 0)
    if none:  # if nothing of the text is there, the speech is unknown
        line += f", excluding {counted(none, 'utterance', 'utterances')} of fit none"
    return line


def _doubts(summary: Summary) -> dict[str, str]:
    if not summary.in_doubt:
        return {}
    return {
        "utterances in doubt": str(summary.in_doubt),
        "words in doubt": str(summary.doubtful_words),
        "stretches that no word explains": str(summary.unexplained),
    }


def _quantiles(losses: dict[str, float]) -> str:
    return " ".join(f"{losses[name]:.3f}" for name in _QUANTILES if losses)


def _pace(run: RunStats) -> str:
    if not run.wall_s:
        return ""
    return f"{clock(run.wall_s)}, {run.audio_s / run.wall_s:.0f} × real time"


def _gaps_table(gaps: list[dict[str, Any]]) -> Table:
    """Return a table of the stretches of texts that no recording reads.

    It has those with the most words, in the order of the text.
    """
    from rich.text import Text

    from ctc_align.corpus.state.shared_texts import gap_place, gap_words

    table = figures_table("passages that no recording reads", "where", "words", fold=True)
    table.columns[1].justify = "left"
    table.columns[1].no_wrap = False
    table.columns[1].overflow = "fold"
    longest = sorted(gaps, key=lambda gap: -(gap["words"] or 0))
    for gap in (gap for gap in gaps if gap in longest[:_MOST_GAPS]):
        if gap["words"] is None:
            words = "—"
        else:
            words = f"{gap['words']:,}"
        table.add_row(
            Text(printable(gap_words(gap) or gap["text"])), Text(printable(gap_place(gap))), words
        )
    if len(gaps) > _MOST_GAPS:
        rest = sum(gap["words"] or 0 for gap in longest[_MOST_GAPS:])
        table.add_row(
            f"and {len(gaps) - _MOST_GAPS} more: see text_gaps in summary.json", "", f"{rest:,}"
        )
    return table


def _ranking(title: str, rows: list[dict[str, Any]], key: str, digits: int) -> Table:
    from rich.text import Text

    table = figures_table(title, "", fold=True)
    for row in rows:
        table.add_row(
            Text(printable(row["utterance"])), "—" if row[key] is None else f"{row[key]:.{digits}f}"
        )
    return table


def print_profile(stats: RunStats) -> None:
    """Print the seconds of each stage, and their share of the workers' time.

    The seconds are those of all workers together.
    """
    table = figures_table(
        f"seconds of {stats.workers} workers, {stats.wall_s:.1f} s each", "", "share", fold=True
    )
    whole = max(stats.wall_s * stats.workers, 1e-9)
    named = sum(seconds for stage, seconds in stats.stages.items() if stage not in _CONCURRENT)
    stages = {**stats.stages, "starting": max(0.0, whole - named)}
    for stage, title in _STAGES.items():
        seconds = stages.get(stage, 0.0)
        title += " (beside the others)" if stage in _CONCURRENT else ""
        table.add_row(title, f"{seconds:.1f}", f"{seconds / whole:.0%}")
    console_for(sys.stderr).print(table)


def print_evaluation(evaluation: Evaluation, worst: int) -> None:
    """Print the figures of an evaluation to stdout."""
    console = console_for(sys.stdout)
    console.print(_figures_table(evaluation))
    utterances = counted(len(evaluation.utterances), "utterance", "utterances")
    counts = (
        f"{evaluation.paired} {evaluation.tier} paired, {evaluation.missing} missing,"
        f" {evaluation.extra} extra"
    )
    console.print(
        f"{utterances}, {counts}, {evaluation.mismatched} with a different label", markup=False
    )
    inner = _figure(evaluation.boundaries["inner_onset"].f1, "", 3)
    starts = (
        f"the starts of all {evaluation.tier} but the first of each utterance (FA-Bench's time-only"
        " count)"
    )
    console.print(f"F1 over {starts}: {inner}", markup=False)
    if evaluation.paired:
        console.print(_histogram_table(evaluation, console.width))
    if worst and evaluation.paired:
        console.print(_worst_edges_table(evaluation, worst))
        console.print(_worst_table(evaluation, worst))


def print_comparison(comparison: Comparison, names: tuple[str, str]) -> None:
    """Print both hypotheses, and the first minus the second, to stdout."""
    console = console_for(sys.stdout)
    table = figures_table(
        f"{comparison.tier}, both edges", "HYPOTHESIS", "--against", "difference", "95 %"
    )
    for label, (figure, sign) in _ERRORS.items():
        table.add_row(label, *_difference_cells(comparison.edges["both"][figure], sign, 1))
    for figure, difference in comparison.edges["both"].items():
        if figure.startswith("within_"):
            limit = figure.split("_")[1]
            table.add_row(f"within {limit} ms, %", *_difference_cells(difference, "", 1))
    for label, rate in _RATES.items():
        table.add_row(
            f"boundaries, {label}", *_difference_cells(comparison.boundaries["both"][rate], "", 3)
        )
    console.print(table)
    for name, path in zip(("HYPOTHESIS", "--against"), names):
        console.print(f"{name}: {printable(path)}", markup=False)
    if comparison.left_out:
        left_out = f"; {comparison.left_out} that only one of them paired are left out"
    else:
        left_out = ""
    utterances = counted(comparison.utterances, "utterance", "utterances")
    console.print(
        f"{comparison.paired} {comparison.tier} of {utterances} that both paired{left_out}",
        markup=False,
    )
    console.print(_verdict(comparison), markup=False)


def _verdict(comparison: Comparison) -> str:
    mae = comparison.edges["both"]["mae_ms"]
    if mae.difference is None or mae.ci95 is None:
        return "no interval of the difference: there is only one utterance"
    if not mae.is_clear:
        return (
            "the difference of the mean absolute errors may be due to chance (95 % interval over"
            " utterances)"
        )
    which = "smaller" if mae.difference < 0 else "larger"
    return (
        f"the mean absolute error of HYPOTHESIS is {which} than that of --against (95 % interval"
        " over utterances)"
    )


def _difference_cells(
    difference: Difference, sign: str, decimals: int
) -> tuple[str, str, str, str]:
    return (
        _figure(difference.hypothesis, sign, decimals),
        _figure(difference.against, sign, decimals),
        _figure(difference.difference, "+", decimals),
        _range(difference.ci95, "+", decimals) + (" *" if difference.is_clear else "  "),
    )


def _figures_table(evaluation: Evaluation) -> Table:
    from ctc_align.evaluate import WITHIN_MS

    edges: list[EdgeErrors] = [evaluation.both, evaluation.onset, evaluation.offset]
    table = figures_table(f"boundaries of {evaluation.tier}", "both", "95 %", "onset", "offset")
    for label, (name, sign) in _ERRORS.items():
        both, onset, offset = (_figure(getattr(edge, name), sign) for edge in edges)
        table.add_row(label, both, _range(evaluation.both.ci95.get(name), sign, 1), onset, offset)
    for limit in WITHIN_MS:
        both, onset, offset = (_figure(edge.within_ms[limit]) for edge in edges)
        spread = _range(evaluation.both.ci95.get(f"within_{limit}_ms"), "", 1)
        table.add_row(f"within {limit} ms, %", both, spread, onset, offset)
    for label, name in _RATES.items():
        found = [evaluation.boundaries[kind] for kind in _EDGES]
        both, onset, offset = (_figure(getattr(one, name), "", 3) for one in found)
        spread = _range(found[0].ci95.get(name), "", 3)
        table.add_row(
            f"{label} at {evaluation.options.tolerance_ms:g} ms", both, spread, onset, offset
        )
    return table


def _histogram_table(evaluation: Evaluation, width: int) -> Table:
    from ctc_align.evaluate.error_statistics import shares

    signed = evaluation.signed()
    percent = {edge: shares(signed[edge].ms, _BINS_MS) for edge in ("onset", "offset")}
    cells = min(max((width - _BESIDE_BARS) // 2, _BAR_CELLS[0]), _BAR_CELLS[1])
    most = max(max(values) for values in percent.values())
    table = figures_table("signed error, ms", *[name for edge in percent for name in (edge, "%")])
    for column in table.columns[1::2]:
        column.justify = "left"
    for i, label in enumerate(bin_labels(_BINS_MS)):
        row = [(bar(values[i] / most, cells), f"{values[i]:.1f}") for values in percent.values()]
        table.add_row(label, *(cell for pair in row for cell in pair))
    return table


def bin_labels(edges_ms: Sequence[int]) -> list[str]:
    """Return the labels of the bins between edges in ms, and of the two beyond them.

    >>> bin_labels([-10, 0, 10])
    ['below -10', '-10 to 0', '0 to 10', '10 and above']
    """
    between = [f"{low} to {high}" for low, high in itertools.pairwise(edges_ms)]
    return [f"below {edges_ms[0]}", *between, f"{edges_ms[-1]} and above"]


def bar(share: float, cells: int) -> str:
    """Return a padded bar that fills `share` of `cells` characters, to half a character.

    A small share is never empty.

    >>> bar(0.5, 4), bar(0.0, 4), bar(0.001, 4)
    ('██  ', '    ', '▌   ')
    """
    halves = max(round(share * 2 * cells), 1 if share > 0 else 0)
    return ("█" * (halves // 2) + "▌" * (halves % 2)).ljust(cells)


def _worst_edges_table(evaluation: Evaluation, count: int) -> Table:
    from rich.text import Text

    table = figures_table("worst edges", "label", "edge", "reference s", "error, ms")
    for column in table.columns[1:3]:
        column.justify = "left"
    table.columns[0].no_wrap = False
    for edge in evaluation.worst_edges(count):
        table.add_row(
            Text(printable(edge.utterance)),
            Text(printable(edge.label)),
            edge.edge,
            f"{edge.reference_s:.3f}",
            _figure(edge.error_ms, "+"),
        )
    return table


def _worst_table(evaluation: Evaluation, count: int) -> Table:
    from rich.text import Text

    table = figures_table("worst utterances", "MAE", "largest ±", "at")
    table.columns[0].no_wrap = False
    table.columns[3].justify = "left"
    for utterance in evaluation.worst(count):
        table.add_row(
            Text(printable(utterance.utterance)),
            _figure(utterance.mae_ms),
            _figure(utterance.worst_ms, "+"),
            Text(printable(utterance.worst_label)),
        )
    return table


def _figure(number: float | None, sign: str = "", decimals: int = 1) -> str:
    if number is None:
        return "–"
    return f"{number:{sign}.{decimals}f}"


def _range(both: tuple[float, float] | None, sign: str, decimals: int) -> str:
    if both is None:
        return "–"
    return f"{both[0]:{sign}.{decimals}f} … {both[1]:{sign}.{decimals}f}"
