"""Tables for people: boundary errors, their distribution, the worst of them, and the difference of two hypotheses."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctc_align.cli.messages import counted
from ctc_align.cli.printing import console_for
from ctc_align.text.control_characters import printable

if TYPE_CHECKING:
    from rich.table import Table

    from ctc_align.evaluate import Comparison, Difference, EdgeErrors, Evaluation

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
"""Least and most length of a histogram's bar."""
_BESIDE_BARS = 44
"""Cells of a histogram's row that are no bar."""


def print_evaluation(evaluation: Evaluation, worst: int, histogram: bool = True) -> None:
    """The figures of an evaluation, on stdout."""
    console = console_for(sys.stdout)
    console.print(_figures_table(evaluation))
    utterances = counted(len(evaluation.utterances), "utterance", "utterances")
    counts = f"{evaluation.paired} {evaluation.tier} paired, {evaluation.missing} missing, {evaluation.extra} extra"
    console.print(f"{utterances}, {counts}, {evaluation.mismatched} with another label", markup=False)
    inner = _figure(evaluation.boundaries["inner_onset"].f1, "", 3)
    starts = f"the starts of all {evaluation.tier} but the first of each utterance (FA-Bench's time-only count)"
    console.print(f"F1 over {starts}: {inner}", markup=False)
    if histogram and evaluation.paired:
        console.print(_histogram_table(evaluation, console.width))
    if worst and evaluation.paired:
        console.print(_worst_edges_table(evaluation, worst))
        console.print(_worst_table(evaluation, worst))


def print_comparison(comparison: Comparison, names: tuple[str, str]) -> None:
    """Both hypotheses and the first minus the second, on stdout."""
    console = console_for(sys.stdout)
    table = _table(f"{comparison.tier}, both edges", "HYPOTHESIS", "--against", "difference", "95 %")
    for label, (figure, sign) in _ERRORS.items():
        table.add_row(label, *_difference_cells(comparison.edges["both"][figure], sign, 1))
    for figure, difference in comparison.edges["both"].items():
        if figure.startswith("within_"):
            limit = figure.split("_")[1]
            table.add_row(f"within {limit} ms, %", *_difference_cells(difference, "", 1))
    for label, rate in _RATES.items():
        table.add_row(f"boundaries, {label}", *_difference_cells(comparison.boundaries["both"][rate], "", 3))
    console.print(table)
    for name, path in zip(("HYPOTHESIS", "--against"), names):
        console.print(f"{name}: {printable(path)}", markup=False)
    left_out = f"; {comparison.left_out} that only one of them paired are left out" if comparison.left_out else ""
    utterances = counted(comparison.utterances, "utterance", "utterances")
    console.print(f"{comparison.paired} {comparison.tier} of {utterances} that both paired{left_out}", markup=False)
    console.print(_verdict(comparison), markup=False)


def _verdict(comparison: Comparison) -> str:
    mae = comparison.edges["both"]["mae_ms"]
    if mae.difference is None or mae.ci95 is None:
        return "one utterance says nothing about how sure the difference is"
    if not mae.is_clear:
        return "the mean absolute errors differ by no more than chance may do (95 % interval over utterances)"
    which = "smaller" if mae.difference < 0 else "larger"
    return f"the mean absolute error of HYPOTHESIS is {which} than that of --against (95 % interval over utterances)"


def _difference_cells(difference: Difference, sign: str, decimals: int) -> tuple[str, str, str, str]:
    return (
        _figure(difference.hypothesis, sign, decimals),
        _figure(difference.against, sign, decimals),
        _figure(difference.difference, "+", decimals),
        _range(difference.ci95, "+", decimals) + (" *" if difference.is_clear else "  "),
    )


def _table(title: str, *columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(title, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _figures_table(evaluation: Evaluation) -> Table:
    from ctc_align.evaluate import WITHIN_MS

    edges: list[EdgeErrors] = [evaluation.both, evaluation.onset, evaluation.offset]
    table = _table(f"boundaries of {evaluation.tier}", "both", "95 %", "onset", "offset")
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
        table.add_row(f"{label} at {evaluation.options.tolerance_ms:g} ms", both, spread, onset, offset)
    return table


def _histogram_table(evaluation: Evaluation, width: int) -> Table:
    from ctc_align.evaluate.error_statistics import shares

    signed = evaluation.measured.signed() if evaluation.measured is not None else {}
    percent = {edge: shares(signed[edge].ms, _BINS_MS) for edge in ("onset", "offset") if edge in signed}
    cells = min(max((width - _BESIDE_BARS) // 2, _BAR_CELLS[0]), _BAR_CELLS[1])
    most = max(max(values) for values in percent.values())
    table = _table("signed error, ms", *[name for edge in percent for name in (edge, "%")])
    for column in table.columns[1::2]:
        column.justify = "left"
    for i, label in enumerate(bin_labels(_BINS_MS)):
        row = [(bar(values[i] / most, cells), f"{values[i]:.1f}") for values in percent.values()]
        table.add_row(label, *(cell for pair in row for cell in pair))
    return table


def bin_labels(edges_ms: Sequence[int]) -> list[str]:
    """
    >>> bin_labels([-10, 0, 10])
    ['below -10', '-10 to 0', '0 to 10', '10 and above']
    """
    between = [f"{low} to {high}" for low, high in itertools.pairwise(edges_ms)]
    return [f"below {edges_ms[0]}", *between, f"{edges_ms[-1]} and above"]


def bar(share: float, cells: int) -> str:
    """A bar of `share` of `cells` characters, to half a character, padded; a little is never nothing.

    >>> bar(0.5, 4), bar(0.0, 4), bar(0.001, 4)
    ('██  ', '    ', '▌   ')
    """
    halves = max(round(share * 2 * cells), 1 if share > 0 else 0)
    return ("█" * (halves // 2) + "▌" * (halves % 2)).ljust(cells)


def _worst_edges_table(evaluation: Evaluation, count: int) -> Table:
    from rich.text import Text

    table = _table("worst edges", "label", "edge", "reference s", "error, ms")
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

    table = _table("worst utterances", "MAE", "largest ±", "at")
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
    return "–" if number is None else f"{number:{sign}.{decimals}f}"


def _range(both: tuple[float, float] | None, sign: str, decimals: int) -> str:
    return "–" if both is None else f"{both[0]:{sign}.{decimals}f} … {both[1]:{sign}.{decimals}f}"
