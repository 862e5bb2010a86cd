"""ctc-align calibrate: constants for a model's edges and confidence from a handful of labelled files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli import options
from ctc_align.cli.talk import Talk, counted
from ctc_align.errors import OutputError, UsageError

if TYPE_CHECKING:
    from ctc_align.training.calibrate import Report

SOME_FAILED = 1


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As for --model.")],
    reference: Annotated[
        str, typer.Argument(metavar="REFERENCE", help="A folder of TextGrids that people labelled, a folder a speaker.")
    ],
    audio: Annotated[
        str | None,
        typer.Option("--audio", metavar="DIR", help="The recordings, if they are not beside the TextGrids."),
    ] = None,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out-dir", metavar="DIR", help="Where calibration.toml goes.", show_default="the model's folder"
        ),
    ] = None,
    force: options.Force = False,
    lexicon: options.Lexicon = None,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure how a model draws edges, and write down what makes them better.

    Writes calibration.toml, which is used whenever its folder is the --model, or is named with --calibration. The
    figures on standard output are of speakers left out in turn.
    """
    from ctc_align.aligner import Aligner
    from ctc_align.calibration import FILE, as_toml
    from ctc_align.config import load_settings
    from ctc_align.training.calibrate import calibrate as measure
    from ctc_align.training.labelled import read_labelled
    from ctc_align.writers.whole import placing

    talk = Talk(quiet=quiet, verbose=verbose)
    settings = load_settings(config, assignments)
    folder = _folder(model, out_dir)
    path = folder / FILE
    if path.exists() and not force:
        raise OutputError(f"{path}: exists already; give --force to replace it, or --out-dir")
    talk.listen()
    labelled = list(read_labelled(reference, audio))
    aligner = Aligner(model, device=device, backend=backend, lexicon=lexicon, settings=settings)
    report = measure(
        aligner, labelled, f"{os.path.basename(os.path.abspath(reference))}, {len(labelled)} labelled files"
    )
    for reason in report.failed:
        talk.say(f"ctc-align: {reason}")
    with placing([path]) as parts:
        for _, part in parts:
            part.write_text(as_toml(report.calibration), encoding="utf-8")
    _show(report)
    talk.say(f"wrote {path}")
    if report.failed:
        sys.exit(SOME_FAILED)


def _folder(model: str, out_dir: str | None) -> Path:
    """Where the file goes: by default beside the model's weights."""
    from ctc_align.calibration import folder_of

    if out_dir is not None:
        return Path(out_dir)
    own = folder_of(model)
    if own is None:
        raise UsageError(f"model {model}: it has no folder of its own; say with --out-dir where calibration.toml goes")
    return own


def _show(report: Report) -> None:
    """The figures, on stdout."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ctc_align.cli.show import console_for

    console = console_for(sys.stdout)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("edges of words", "mean absolute error, ms", "median signed, ms", "within 20 ms, %"):
        table.add_column(column, justify="left" if column == "edges of words" else "right")
    for name, figures in (("as they were", report.before), ("calibrated", report.after)):
        table.add_row(name, f"{figures.mae_ms:.1f}", f"{figures.median_signed_ms:+.1f}", f"{figures.within_20_ms:.1f}")
    console.print(table)
    found = report.held_out.boundaries
    rates = [(name, found[kind].f1) for name, kind in (("of all edges", "both"), ("of inner starts", "inner_onset"))]
    line = ", ".join(f"{name} {rate:.3f}" for name, rate in rates if rate is not None)
    if line:
        console.print(f"F1 at 20 ms, calibrated: {line}", markup=False)
    if report.reliability:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in ("confidence", "words", "mean", "right"):
            table.add_column(column, justify="right")
        for lowest, words, mean, right in report.reliability:
            table.add_row(f"≥ {lowest:.2f}", str(words), f"{mean:.3f}", f"{right:.3f}")
        console.print(table)
    if report.replaced_auc is not None:
        console.print(f"a word replaced by another is told with AUC {report.replaced_auc:.3f}", markup=False)
    speakers = counted(report.speakers, "speaker", "speakers")
    console.print(
        f"{counted(report.utterances, 'utterance', 'utterances')} of {speakers}, each left out in turn; right: both "
        "edges within 50 ms",
        markup=False,
    )
