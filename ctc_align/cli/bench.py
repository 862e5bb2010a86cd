"""ctc-align bench: the speed of the kernels beside PyTorch's and torchaudio's, or the edges of two
folders."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

from ctc_align._version import __version__
from ctc_align.cli.options import with_options
from ctc_align.cli.printing import SOME_FAILED, Talk, console_for, put, say
from ctc_align.config import setting
from ctc_align.errors import InputError, MissingTierError, UsageError
from ctc_align.text.characters import json_escaped

if TYPE_CHECKING:
    from ctc_align.evaluate import Evaluation
    from ctc_align.kernels.benchmark import Measurement

_ROUNDS, _QUICK_ROUNDS = 5, 3
_COLUMNS = (("task", 15), ("by", 16), ("ms", 10), ("ns/cell", 9), ("ratio", 8), ("error", 12))
"""Columns and their widths; the first two are words, the others numbers."""


@with_options
def bench(
    *,
    quick: bool = setting(False, "Small cases only: a few seconds."),
    device: str = setting(
        "auto",
        "Device; auto: every device that can run the kernels.",
        metavar="auto|cpu|cuda|cuda:N",
    ),
    format: str = setting(
        "table", "A table to read, or JSON for programs.", choices=("table", "json")
    ),
    edges: tuple[str, str] | None = setting(
        None,
        "Instead of speed, measure the errors of word edges, and of phone edges if both sides have"
        " them, with intervals over folders (speakers), or over utterances if there is only one"
        " folder.",
        metavar="HYPOTHESIS REFERENCE",
    ),
) -> None:
    """Measure the speed of the kernels, or the errors of edges.

    Compares the kernels on this machine with torch's ctc_loss and torchaudio's forced_align, if
    they are installed. Columns: milliseconds per call, nanoseconds per cell (frames times states),
    the ratio of torch's or torchaudio's time to ours, and the largest error, compared with float64
    in the same run. Exits with 1 if one of our results is wrong, or, with --edges, if a hypothesis
    is missing.
    """
    if edges is not None:
        if quick or device != "auto":
            raise UsageError("--edges measures no kernels: omit --quick and --device")
        _bench_edges(*edges, format)
        return
    from ctc_align.kernels import benchmark
    from ctc_align.models.acoustic_model import resolve_device

    devices = benchmark.devices(None if device == "auto" else str(resolve_device(device)))
    Talk().listen()
    machine = benchmark.machine(devices)
    if format == "table":
        gpu = f", {machine['gpu']}" if machine["gpu"] else ""
        put("{processor}, {cores} cores, {threads} threads{0}, {system}".format(gpu, **machine))
        put(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    rows: list[Measurement] = []
    cases = benchmark.QUICK if quick else benchmark.CASES
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    for measured in benchmark.run(cases, devices, rounds):
        rows += measured
        if format == "table":
            _print_table(measured)
    if format == "json":
        report = {
            "format": "ctc-align-bench/1",
            "machine": machine,
            "rows": [row.to_dict() for row in rows],
        }
        put(json.dumps(report, indent=1, allow_nan=False))
    sys.stdout.flush()
    wrong = [row for row in rows if row.right is False]
    for row in wrong:
        error = (
            f"the error is {row.error:.1e}, at most {benchmark.TOLERANCES[row.task]:.0e} is right"
        )
        say(f"ctc-align: {row.case}: {row.task} by {row.who}: {error}")
    if wrong:
        raise typer.Exit(SOME_FAILED)


def _bench_edges(hypothesis: str, reference: str, format: str) -> None:
    """Print the errors of edges: what `ctc-align evaluate` prints, of all tiers that both sides
    have."""
    from ctc_align.cli.tables import print_evaluation

    results = [
        evaluation
        for tier in ("words", "phones")
        if (evaluation := _edge_errors(hypothesis, reference, tier))
    ]
    if format == "json":
        report = {
            "format": "ctc-align-bench/1",
            "version": __version__,
            "hypothesis": hypothesis,
            "reference": reference,
            "tiers": [evaluation.to_dict() for evaluation in results],
        }
        put(json_escaped(json.dumps(report, indent=1, allow_nan=False)))
    else:
        for evaluation in results:
            print_evaluation(evaluation, worst=0, histogram=False)
            if len(evaluation.utterances) > 1:  # of one there is no interval
                put(
                    f"95 %: {evaluation.options.resamples} resamples by"
                    f" {evaluation.options.interval_by}"
                )
    sys.stdout.flush()
    for evaluation in results:
        for name in evaluation.missing_files:
            say(f"ctc-align: {evaluation.tier}: {name}: no hypothesis for this reference")
        for _, reason in evaluation.failures:
            say(f"ctc-align: {evaluation.tier}: {reason}")
        for doubt in evaluation.doubts:
            say(f"ctc-align: note: {evaluation.tier}: {doubt}")
    if not results[0].paired:
        raise InputError(
            f"{hypothesis}: nothing in it pairs with {reference}; are they the same recordings?"
        )
    if not all(evaluation.complete for evaluation in results):
        raise typer.Exit(SOME_FAILED)


def _edge_errors(hypothesis: str, reference: str, tier: str) -> Evaluation | None:
    """Return the errors of a tier, with intervals by folder if there are two or more; None if
    phones are missing."""
    from ctc_align.evaluate import Options, evaluate

    try:
        by_utterance = evaluate(hypothesis, reference, tier, Options(resamples=0))
        folders = {
            name.rpartition("/")[0] for name in (each.utterance for each in by_utterance.utterances)
        }
        return evaluate(
            hypothesis,
            reference,
            tier,
            Options(interval_by="folder" if len(folders) > 1 else "utterance"),
        )
    except MissingTierError:
        if tier == "words":
            raise
        return None


def _print_table(rows: list[Measurement]) -> None:
    """Print one case, in plain columns if stdout is not a terminal."""
    put(f"\n{rows[0].case}")
    if sys.stdout.isatty():
        _print_rich(rows)
        return
    for cells in ([name for name, _ in _COLUMNS], *map(_cells, rows)):
        texts = (
            f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}"
            for i, (cell, (_, w)) in enumerate(zip(cells, _COLUMNS))
        )
        put("  ".join(texts).rstrip())
    sys.stdout.flush()


def _print_rich(rows: list[Measurement]) -> None:
    from ctc_align.cli.tables import figures_table

    table = figures_table(*(name for name, _ in _COLUMNS))
    table.columns[1].justify = "left"
    for row in rows:
        table.add_row(*_cells(row), style={True: "", False: "bold red", None: "dim"}[row.right])
    console_for(sys.stdout).print(table)


def _cells(row: Measurement) -> list[str]:
    if row.device == "cpu" or row.who == "gpu":
        where = ""
    else:
        where = f" ({row.device})"
    return [
        row.task,
        row.who + where,
        _number(row.seconds * 1e3),
        _number(row.ns_per_cell),
        "" if row.speedup is None else _ratio(row.speedup),
        f"{row.error:.1e}" + (" WRONG" if row.right is False else ""),
    ]


def _ratio(value: float) -> str:
    """Return a ratio that fits its column.

    >>> _ratio(31.25), _ratio(0.0931), _ratio(0.00031)
    ('31.2 x', '0.093 x', '<0.01 x')
    """
    if value >= 0.95:
        return f"{value:.1f} x"
    if value >= 0.01:
        return f"{value:.2g} x"
    return "<0.01 x"


def _number(value: float) -> str:
    """Return a number that fits its column, however slow the machine is.

    >>> _number(0.0121), _number(100000.385)
    ('0.012', '100000')
    """
    return f"{value:.3f}" if value < 1e4 else f"{value:.0f}"
