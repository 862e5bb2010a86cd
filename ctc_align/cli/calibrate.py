"""ctc-align calibrate: corrections of a model's edges and confidences, learnt from labels."""

from __future__ import annotations

import os
import sys
import time
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
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, Talk, console_for, counted
from ctc_align.config import setting
from ctc_align.errors import InputError, UsageError
from ctc_align.extras import install_line
from ctc_align.text.note_kinds import first_of_each_kind

if TYPE_CHECKING:
    from rich.table import Table

    from ctc_align.training.calibration_fitting import Report
    from ctc_align.training.labelled_speech import LabelFiles, LabelledUtterance

_SAMPLED = 20
"""This many transcripts suffice to check whether labels are in the model's language."""
FAR_MS = 100.0
"""A model that was trained on the language is never so far off."""


@with_examples(
    "ctc-align calibrate english labels --out-dir mine",
    "ctc-align calibrate english labels --audio recordings --out-dir mine --force",
    "ctc-align calibrate universal labels --out-dir theirs",
)
@with_options
def calibrate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Name of the model, as for --model.")
    ],
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help=(
                "Folder of hand-labelled TextGrids, or of alignments, of which only those that a"
                " person has corrected are used. Best with a subfolder for each speaker."
            ),
        ),
    ],
    *,
    audio: str | None = setting(
        None, "Folder of the recordings, if they are not beside the labels.", metavar="DIR"
    ),
    out_dir: str | None = folder_option("Folder for the outputs.", shown="the model's folder"),
    force: bool = force_option(),
    lexicon: str | None = lexicon_option(),
    device: str = device_option(),
    backend: str = backend_option(),
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Learn corrections of a model's edges from hand labels.

    Writes calibration.toml and, with 8 labelled files or more, perhaps edges.safetensors, which
    needs PyTorch. To use them, give their folder as --calibration; if it is the model's folder,
    --model suffices. Each correction is tested on speakers or files that it was not learnt from. It
    is written only if it is proven to improve the model; otherwise the model keeps its own values.
    """
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.models import EMBEDDED, check_model
    from ctc_align.models.calibration import FILE
    from ctc_align.models.edge_network import FILE as EDGES
    from ctc_align.training.calibration_fitting import calibrate as measure

    started_s = time.monotonic()
    talk = messages.talk()
    settings = config.settings()
    check_model(model)
    folder = _folder(model, out_dir)
    check_files({"--lexicon": lexicon})
    talk.listen()
    failed: list[str] = []
    labelled, found = _labelled(reference, audio, failed, settings.encoding)
    aligner = Aligner(model, device=device, backend=backend, lexicon=lexicon, settings=settings)
    for file in (FILE, EDGES):
        check_new(folder / file, force, "--out-dir")
    talk.notes(
        language_notes(
            "\n".join(each.text for each in labelled[:_SAMPLED]), model, settings.language
        )
    )
    with talk.progress("learning edges") as bar:
        report = measure(
            aligner, labelled, os.path.basename(os.path.abspath(reference)), progress=bar
        )
    if model in EMBEDDED or ":" in model:
        report = replace(report, calibration=replace(report.calibration, model=model))
    failed += report.failed
    _say_files(found, report.utterances, talk)
    _say_doubts(report, failed, talk)
    written = _write(folder, report, is_own=_is_own(folder, model))
    _show(report, time.monotonic() - started_s)
    talk.say(
        f"wrote {' and '.join(map(str, written))}"
        if written
        else f"nothing was written to {folder}"
    )
    if failed:
        raise typer.Exit(SOME_FAILED)


def _labelled(
    reference: str, audio: str | None, failed: list[str], encoding: str
) -> tuple[list[LabelledUtterance], LabelFiles]:
    """Return the labelled utterances, and their files; raise InputError if there are none."""
    from ctc_align.training.labelled_speech import LabelFiles, read_labelled

    found = LabelFiles()
    labelled = list(read_labelled(reference, audio, failed, found, encoding))
    if not labelled:
        raise InputError(f"{reference}: no file can be used: {failed[0]}")
    return labelled, found


def _say_files(found: LabelFiles, used: int, talk: Talk) -> None:
    """Print how many files were learnt from, how many not, and which corrections were used."""
    talk.notes(first_of_each_kind(found.notes))
    line = (
        "learnt from"
        f" {counted(used, 'corrected or hand-labelled file', 'corrected or hand-labelled files')}"
    )
    if found.untouched:
        line += (
            f"; {counted(len(found.untouched), 'alignment', 'alignments')} without corrections"
            " left out"
        )
    talk.note(line)


def _is_own(folder: Path, model: str) -> bool:
    """Return whether a folder is the one of a model's weights."""
    from ctc_align.models.calibration import folder_of

    own = folder_of(model)
    return own is not None and os.path.realpath(own) == os.path.realpath(folder)


def _write(folder: Path, report: Report, *, is_own: bool) -> list[Path]:
    """Write the constants, and the network if one was learnt; return the files.

    What is not learnt stays as it is in the model's own folder; the model's own values replace no
    calibration.
    """
    from ctc_align.files.whole_files import remove_file, write_whole
    from ctc_align.models import edge_network
    from ctc_align.models.calibration import FILE, as_toml
    from ctc_align.training.calibration_fitting import AS_IT_IS

    if report.chosen == AS_IT_IS and (is_own or (folder / FILE).exists()):
        return []
    contents = {folder / FILE: as_toml(report.calibration).encode()}
    if report.edge_network is not None:
        contents[folder / edge_network.FILE] = edge_network.edge_network_bytes(report.edge_network)
    write_whole(contents)
    if report.edge_network is None and not is_own:
        remove_file(folder / edge_network.FILE, folder)
    return list(contents)


def _say_doubts(report: Report, failed: list[str], talk: Talk) -> None:
    from ctc_align.training.calibration_fitting import AS_IT_IS

    for reason in failed:
        talk.say(f"ctc-align: {reason}")
    tried = [f"{AS_IT_IS} {report.before.mae_ms:.1f} ms"]
    tried += [f"{trial.name} {trial.errors.mae_ms:.1f} ms" for trial in report.trials.values()]
    if report.chosen == AS_IT_IS:
        talk.note(
            f"mean error on what was left out: {', '.join(tried)}. Nothing is proven to be better"
            " than the model as it is, so its own values stay; more labels may help"
        )
    else:
        talk.say(
            f"mean error on what was left out: {', '.join(tried)}; {report.chosen}: proven to be"
            " better"
        )
    if report.before.mae_ms > FAR_MS:
        talk.say(
            f"ctc-align: words lie {report.before.mae_ms:.0f} ms from the labels on average: do"
            " recordings, transcripts and labels belong together?"
        )


def _folder(model: str, out_dir: str | None) -> Path:
    """Return the folder for the file, by default the one of the model's weights."""
    from ctc_align.models.calibration import folder_of

    if out_dir is not None:
        return Path(out_dir)
    folder = folder_of(model)
    if folder is None:
        raise UsageError(
            f"model {model}: it has no folder; give one for calibration.toml with --out-dir"
        )
    return folder


def _show(report: Report, took_s: float) -> None:
    """Print the figures to stdout."""
    from ctc_align.training.labelled_speech import FEWEST_UTTERANCES

    console = console_for(sys.stdout)
    console.print(_errors_table(report))
    console.print("errors are model minus label (+ = late)", markup=False)
    if report.learnt is not None:
        within = (
            f"{100 * report.learnt.within_sd:.0f} % of learnt edges lie within one standard"
            " deviation"
        )
        console.print(f"{within} (expected: 68 %)", markup=False)
    elif report.utterances < FEWEST_UTTERANCES:
        line = f"constants only: learning edges needs at least {FEWEST_UTTERANCES} labelled files"
        console.print(line, markup=False)
    else:
        line = (
            "constants only: learning edges needs PyTorch, which is not installed:"
            f" {install_line('torch')}"
        )
        console.print(line, markup=False, soft_wrap=True)
    if report.reliability:
        console.print(_confidence_table(report))
    if report.replaced_auc is not None:
        console.print(
            f"replaced words are recognised with AUC {report.replaced_auc:.3f}", markup=False
        )
    utterances = counted(report.utterances, "utterance", "utterances")
    who = utterances
    units = "each"
    number = report.utterances
    if report.parts > 1:
        units = f"{report.parts} parts of each"
        number = report.parts * report.utterances
    if 1 < report.speakers < report.utterances:
        who = f"{utterances} of {report.speakers} speakers"
        units = "each speaker"
        number = report.speakers
    turns = f"{units} left out in turn"
    if report.folds < number:
        turns += f", in {report.folds} groups"
    console.print(f"{who}, {turns}; right: both edges within 50 ms", markup=False)
    console.print(f"took {took_s:.0f} s", markup=False)


def _errors_table(report: Report) -> Table:
    from ctc_align.cli.tables import figures_table
    from ctc_align.training.calibration_fitting import AS_IT_IS

    table = figures_table(
        "edges of words", "mean error, ms", "median, ms", "within 20 ms, %", "F1 at 20 ms"
    )
    rows = [(trial.name, trial.errors, trial.evaluation) for trial in report.trials.values()]
    for name, figures, evaluation in [(AS_IT_IS, report.before, None), *rows]:
        if evaluation is None:
            rate = None
        else:
            rate = evaluation.boundaries["both"].f1
        errors = (
            f"{figures.mae_ms:.1f}",
            f"{round(figures.median_signed_ms, 1) + 0.0:+.1f}",
            f"{figures.within_20_ms:.1f}",
        )
        table.add_row(name, *errors, "" if rate is None else f"{rate:.3f}")
    return table


def _confidence_table(report: Report) -> Table:
    from ctc_align.cli.tables import figures_table

    table = figures_table("confidence", "words", "mean", "right")
    table.columns[0].justify = "right"
    for lowest, words, mean, right in report.reliability:
        table.add_row(f"≥ {lowest:.2f}", str(words), f"{mean:.3f}", f"{right:.3f}")
    return table
