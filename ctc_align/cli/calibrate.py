"""ctc-align calibrate: corrections of a model's edges and confidences, learnt from labelled files."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.arguments import check_files, check_new
from ctc_align.cli.notes import language_notes
from ctc_align.cli.options import (
    MessageOptions,
    SettingsOptions,
    backend_option,
    device_option,
    folder_option,
    force_option,
    lexicon_option,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk, counted
from ctc_align.config import setting
from ctc_align.errors import InputError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from ctc_align.training.calibration_fitting import Report
    from ctc_align.training.edge_learning import LearntEdges

_SAMPLED = 20
"""This many transcripts suffice to check whether labels are in the model's language."""
FAR_MS = 100.0
"""A model that was trained on the language is never so far off."""


@with_options
def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model, as for --model.")],
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="Folder of hand-labelled or hand-corrected TextGrids, or of JSON with marked corrections, "
            "with one folder for each speaker.",
        ),
    ],
    *,
    audio: str | None = setting(None, "Folder of the recordings, if they are not beside the labels.", metavar="DIR"),
    out_dir: str | None = folder_option("Folder for the outputs.", shown="the model's folder"),
    force: bool = force_option(),
    lexicon: str | None = lexicon_option(),
    device: str = device_option(),
    backend: str = backend_option(),
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Learn corrections of a model's edges from hand labels.

    Writes calibration.toml, and from 8 labelled files on also edges.safetensors. To use them, give their folder as
    --calibration; if it is the model's folder, --model suffices. The figures on standard output are for speakers left
    out in turn.
    """
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.models import EMBEDDED, check_model
    from ctc_align.models.calibration import FILE
    from ctc_align.models.edge_network import FILE as EDGES
    from ctc_align.training.calibration_fitting import calibrate as measure
    from ctc_align.training.labelled_speech import read_labelled

    started_s = time.monotonic()
    talk = messages.talk()
    settings = config.settings()
    check_model(model)
    folder = _folder(model, out_dir)
    check_files({"--lexicon": lexicon})
    talk.listen()
    failed: list[str] = []
    labelled = list(read_labelled(reference, audio, failed))
    if not labelled:
        raise InputError(f"{reference}: no file can be used: {failed[0]}")
    aligner = Aligner(model, device=device, backend=backend, lexicon=lexicon, settings=settings)
    for file in (FILE, EDGES):
        check_new(folder / file, force, "--out-dir")
    talk.notes(language_notes("\n".join(each.text for each in labelled[:_SAMPLED]), model, settings.language))
    with talk.progress("learning edges") as bar:
        report = measure(aligner, labelled, os.path.basename(os.path.abspath(reference)), progress=bar)
    if model in EMBEDDED or ":" in model:
        report = replace(report, calibration=replace(report.calibration, model=model))
    failed += report.failed
    _say_doubts(report, failed, talk)
    written = _write(folder, report)
    _show(report, time.monotonic() - started_s)
    talk.say(f"wrote {' and '.join(map(str, written))}")
    if failed:
        raise typer.Exit(SOME_FAILED)


def _write(folder: Path, report: Report) -> list[Path]:
    """Write the constants, and the network if it improves on them; return the files."""
    from ctc_align.files.whole_files import placing, remove_file
    from ctc_align.models import edge_network
    from ctc_align.models.calibration import FILE, as_toml

    contents = {folder / FILE: as_toml(report.calibration).encode()}
    if report.edge_network is not None:
        contents[folder / edge_network.FILE] = edge_network.edge_network_bytes(report.edge_network)
    with placing(list(contents)) as parts:
        for target, part in parts:
            part.write_bytes(contents[target])
    if report.edge_network is None:
        remove_file(folder / edge_network.FILE, folder)
    return list(contents)


def _say_doubts(report: Report, failed: list[str], talk: Talk) -> None:
    for reason in failed:
        talk.say(f"ctc-align: {reason}")
    held_out_ms = min(each.mae_ms for each in (report.after, report.learnt_errors) if each is not None)
    if report.folds > 1 and held_out_ms >= report.before.mae_ms:
        talk.note(
            "on held-out speakers the calibration is no better than the uncalibrated model. Do not use it; more labels "
            "may help"
        )
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
        raise UsageError(f"model {model}: it has no folder; give one for calibration.toml with --out-dir")
    return folder


def _show(report: Report, took_s: float) -> None:
    """Print the figures to stdout."""
    from ctc_align.cli.printing import console_for
    from ctc_align.training.edge_learning import FEWEST_UTTERANCES

    console = console_for(sys.stdout)
    alone = report.folds == 1
    console.print(_errors_table(report))
    console.print("errors are model minus label (+ = late)", markup=False)
    if report.learnt is not None:
        for line in _learning_lines(report, report.learnt):
            console.print(line, markup=False)
    elif report.utterances < FEWEST_UTTERANCES:
        line = f"constants only: learning edges needs at least {FEWEST_UTTERANCES} labelled files"
        console.print(f"{line}; with so few files, single edges may get worse", markup=False)
    if report.reliability and not alone:
        console.print(_confidence_table(report))
    if report.replaced_auc is not None and not alone:
        console.print(f"replaced words are recognised with AUC {report.replaced_auc:.3f}", markup=False)
    utterances = counted(report.utterances, "utterance", "utterances")
    if alone:
        line = f"{utterances} of one speaker only: no held-out test was possible, so the benefit is unknown"
    else:
        if report.speakers == report.utterances:
            who, units = utterances, "each"
        else:
            who, units = f"{utterances} of {counted(report.speakers, 'speaker', 'speakers')}", "each speaker"
        turns = f"{units} left out in turn"
        if report.folds < report.speakers:
            turns = f"left out in turn, in {report.folds} groups" + (" of speakers" if units != "each" else "")
        line = f"{who}, {turns}; right: both edges within 50 ms"
    console.print(line, markup=False)
    console.print(f"took {took_s:.0f} s", markup=False)


def _errors_table(report: Report) -> Table:
    from ctc_align.cli.tables import figures_table

    table = figures_table("edges of words", "mean error, ms", "median, ms", "within 20 ms, %", "F1 at 20 ms")
    rows = [("uncalibrated", report.before, None), ("constants", report.after, report.held_out)]
    if report.learnt is not None and report.learnt_errors is not None:
        rows.append(("learnt edges", report.learnt_errors, report.learnt.evaluation))
    for name, figures, evaluation in rows[: 1 if report.folds == 1 else None]:
        rate = None if evaluation is None else evaluation.boundaries["both"].f1
        errors = f"{figures.mae_ms:.1f}", f"{figures.median_signed_ms:+.1f}", f"{figures.within_20_ms:.1f}"
        table.add_row(name, *errors, "" if rate is None else f"{rate:.3f}")
    return table


def _learning_lines(report: Report, learnt: LearntEdges) -> Iterator[str]:
    """Yield messages: how good the learnt edges are, and how much more labels would help."""
    from ctc_align.training.edge_learning import MORE_UTTERANCES, less_with_more

    if report.edge_network is None:
        yield "on held-out speakers learnt edges are no better than constants: only constants are written"
    first, *others = [(f"{count:.0f}", f"{error_ms:.1f}") for count, error_ms in learnt.curve]
    curve = ", ".join([f"from {first[0]} utterances {first[1]} ms", *(f"from {n} {error}" for n, error in others)])
    less_ms = less_with_more(learnt.curve, report.utterances)
    more = "" if less_ms is None else f"; with {MORE_UTTERANCES} more about {less_ms:.1f} ms less"
    yield f"mean error when learnt {curve}{more}"
    yield f"{100 * learnt.within_sd:.0f} % of learnt edges lie within one standard deviation (expected: 68 %)"


def _confidence_table(report: Report) -> Table:
    from ctc_align.cli.tables import figures_table

    table = figures_table("confidence", "words", "mean", "right")
    table.columns[0].justify = "right"
    for lowest, words, mean, right in report.reliability:
        table.add_row(f"≥ {lowest:.2f}", str(words), f"{mean:.3f}", f"{right:.3f}")
    return table
