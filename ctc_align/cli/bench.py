"""ctc-align bench: the speed of the kernels beside PyTorch's and torchaudio's on this machine."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli.messages import SOME_FAILED, Talk
from ctc_align.cli.printing import put, say
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.kernels.benchmark import Measurement

FORMATS = ("table", "json")
_ROUNDS, _QUICK_ROUNDS = 5, 3
_COLUMNS = (("task", 15), ("by", 16), ("ms", 10), ("ns/cell", 9), ("ratio", 8), ("error", 12))
"""Columns and their widths; the first two are words, the others numbers."""


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Small cases only: a few seconds.")] = False,
    device: Annotated[
        str,
        typer.Option(
            "--device",
            metavar="auto|cpu|cuda|cuda:N",
            help="Device; auto: each that can run the kernels.",
        ),
    ] = "auto",
    format: Annotated[
        str, typer.Option("--format", metavar="table|json", help="A table to read, or JSON for programs.")
    ] = "table",
) -> None:
    """Measure the kernels on this machine beside torch's ctc_loss and, where there is one, torchaudio's forced_align.

    Columns: milliseconds of one call, nanoseconds per cell (frame times state), the ratio of torch's or torchaudio's
    time to ours, and the largest error; every result is compared with float64 in the same run. Exits with 1 when a
    result of ours is wrong.
    """
    if format not in FORMATS:
        raise UsageError(f"--format: expected {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, got {format!r}")
    from ctc_align.kernels import benchmark
    from ctc_align.models import resolve_device

    devices = benchmark.devices(None if device == "auto" else resolve_device(device))
    Talk().listen()
    machine = benchmark.machine(devices)
    if format == "table":
        put("\n".join(_heading(machine)))
    rows: list[Measurement] = []
    cases, rounds = (benchmark.QUICK, _QUICK_ROUNDS) if quick else (benchmark.CASES, _ROUNDS)
    for measured in benchmark.run(cases, devices, rounds):
        rows += measured
        if format == "table":
            _print_table(measured)
    if format == "json":
        report = {"format": "ctc-align-bench/1", "machine": machine, "rows": [row.to_dict() for row in rows]}
        put(json.dumps(report, indent=1, allow_nan=False))
    sys.stdout.flush()
    wrong = [row for row in rows if row.right is False]
    for row in wrong:
        error = f"the error is {row.error:.1e}, at most {benchmark.TOLERANCES[row.task]:.0e} is right"
        say(f"ctc-align: {row.case}: {row.task} by {row.who}: {error}")
    if wrong:
        raise typer.Exit(SOME_FAILED)


def _heading(machine: dict[str, Any]) -> list[str]:
    gpu = f", {machine['gpu']}" if machine["gpu"] else ""
    return [
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads{gpu}, {machine['system']}",
        ", ".join(f"{name} {version}" for name, version in machine["versions"].items()),
    ]


def _print_table(rows: list[Measurement]) -> None:
    """Print one case, in plain columns where stdout is no terminal."""
    put(f"\n{rows[0].case}")
    if sys.stdout.isatty():
        _print_rich(rows)
        return
    for cells in ([name for name, _ in _COLUMNS], *map(_cells, rows)):
        texts = (f"{cell:<{w}}" if i < 2 else f"{cell:>{w}}" for i, (cell, (_, w)) in enumerate(zip(cells, _COLUMNS)))
        put("  ".join(texts).rstrip())
    sys.stdout.flush()


def _print_rich(rows: list[Measurement]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ctc_align.cli.printing import console_for

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, (name, _) in enumerate(_COLUMNS):
        table.add_column(name, justify="left" if i < 2 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row), style={True: "", False: "bold red", None: "dim"}[row.right])
    console_for(sys.stdout).print(table)


def _cells(row: Measurement) -> list[str]:
    where = "" if row.device == "cpu" or row.who == "gpu" else f" ({row.device})"
    return [
        row.task,
        row.who + where,
        _number(row.seconds * 1e3),
        _number(row.ns_per_cell),
        "" if row.speedup is None else f"{row.speedup:.1f} x" if row.speedup >= 0.95 else f"{row.speedup:.2g} x",
        f"{row.error:.1e}" + (" WRONG" if row.right is False else ""),
    ]


def _number(value: float) -> str:
    """Return a number that fits its column, however slow the machine is.

    >>> _number(0.0121), _number(100000.385)
    ('0.012', '100000')
    """
    return f"{value:.3f}" if value < 1e4 else f"{value:.0f}"
