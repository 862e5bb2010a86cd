"""ctc-align calibrate: constants for a model's edges and confidence from a handful of labelled files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli import options
from ctc_align.cli.arguments import check_files
from ctc_align.cli.messages import SOME_FAILED, Talk, counted
from ctc_align.cli.options import ConfigOptions, MessageOptions, grouped
from ctc_align.errors import InputError, UsageError

if TYPE_CHECKING:
    from ctc_align.training.calibrating.calibration_fitting import Report

FAR_MS = 100.0
"""A model that was trained on the language is never so far off."""


@grouped
def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model, as --model takes it.")],
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="Folder of TextGrids labelled by hand, with one folder for each speaker."
        ),
    ],
    audio: Annotated[
        str | None,
        typer.Option("--audio", metavar="DIR", help="Folder of the recordings, if they are not beside the TextGrids."),
    ] = None,
    out_dir: Annotated[
        str | None,
        typer.Option(
            "--out-dir", metavar="DIR", help="Folder for calibration.toml.", show_default="the model's folder"
        ),
    ] = None,
    force: options.Force = False,
    lexicon: options.Lexicon = None,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    *,
    config: ConfigOptions,
    messages: MessageOptions,
) -> None:
    """Measure the errors of a model's edges on speech labelled by hand, and write constants that reduce them.

    Writes calibration.toml. It is used by every command whose --model is its folder, or that names it with
    --calibration. The figures on standard output are for speakers left out in turn.
    """
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.models import check_model
    from ctc_align.models.calibration import FILE
    from ctc_align.training.calibrating.calibration_fitting import calibrate as measure
    from ctc_align.training.calibrating.labelled_speech import read_labelled

    talk = messages.talk()
    settings = config.settings()
    check_model(model)
    folder = _folder(model, out_dir)
    path = folder / FILE
    check_files({"--lexicon": lexicon})
    talk.listen()
    failed: list[str] = []
    labelled = list(read_labelled(reference, audio, failed))
    if not labelled:
        raise InputError(f"{reference}: no file can be used: {failed[0]}")
    aligner = Aligner(model, device=device, backend=backend, lexicon=lexicon, settings=settings)
    if path.exists() and not force:
        raise UsageError(f"{path}: exists already; give --force to replace it, or --out-dir")
    report = measure(aligner, labelled, os.path.basename(os.path.abspath(reference)))
    failed += report.failed
    _say_doubts(report, failed, talk)
    _write(path, report)
    _show(report)
    talk.say(f"wrote {path}")
    if failed:
        raise typer.Exit(SOME_FAILED)


def _write(path: Path, report: Report) -> None:
    from ctc_align.formats.whole_files import placing
    from ctc_align.models.calibration import as_toml

    with placing([path]) as parts:
        for _, part in parts:
            part.write_text(as_toml(report.calibration), encoding="utf-8")


def _say_doubts(report: Report, failed: list[str], talk: Talk) -> None:
    for reason in failed:
        talk.say(f"ctc-align: {reason}")
    if report.before.mae_ms > FAR_MS:
        talk.say(
            f"ctc-align: words lie {report.before.mae_ms:.0f} ms from the labels on average: do recordings, "
            "transcripts and labels belong together?"
        )


def _folder(model: str, out_dir: str | None) -> Path:
    """Return the folder for the file, by default the one of the model's weights."""
    from ctc_align.models.calibration import folder_of

    if out_dir is not None:
        return Path(out_dir)
    folder = folder_of(model)
    if folder is None:
        raise UsageError(f"model {model}: it has no folder of its own; say with --out-dir where calibration.toml goes")
    return folder


def _show(report: Report) -> None:
    """Print the figures to stdout."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ctc_align.cli.printing import console_for

    console = console_for(sys.stdout)
    alone = report.speakers == 1
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("edges of words", "mean absolute error, ms", "median signed, ms", "within 20 ms, %"):
        table.add_column(column, justify="left" if column == "edges of words" else "right")
    rows = [("as they were", report.before), ("calibrated", report.after)]
    for name, figures in rows[: 1 if alone else 2]:
        table.add_row(name, f"{figures.mae_ms:.1f}", f"{figures.median_signed_ms:+.1f}", f"{figures.within_20_ms:.1f}")
    console.print(table)
    found = report.held_out.boundaries
    rates = [(name, found[kind].f1) for name, kind in (("of all edges", "both"), ("of inner starts", "inner_onset"))]
    line = ", ".join(f"{name} {rate:.3f}" for name, rate in rates if rate is not None)
    if line and not alone:
        console.print(f"F1 at 20 ms, calibrated: {line}", markup=False)
    if report.reliability and not alone:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in ("confidence", "words", "mean", "right"):
            table.add_column(column, justify="right")
        for lowest, words, mean, right in report.reliability:
            table.add_row(f"≥ {lowest:.2f}", str(words), f"{mean:.3f}", f"{right:.3f}")
        console.print(table)
    if report.replaced_auc is not None and not alone:
        console.print(f"a word replaced by another is told with AUC {report.replaced_auc:.3f}", markup=False)
    utterances = counted(report.utterances, "utterance", "utterances")
    if alone:
        line = f"{utterances} of one speaker: nobody could be left out, so what the constants are worth is not known"
    elif report.speakers == report.utterances:
        line = f"{utterances}, each left out in turn; right: both edges within 50 ms"
    else:
        speakers = counted(report.speakers, "speaker", "speakers")
        line = f"{utterances} of {speakers}, each speaker left out in turn; right: both edges within 50 ms"
    console.print(line, markup=False)
