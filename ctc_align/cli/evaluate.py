"""ctc-align evaluate: boundary error against a reference."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli.arguments import check_new
from ctc_align.cli.options import (
    LIMITS,
    Group,
    encoding_option,
    force_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, THRESHOLD_NOT_MET, counted, put, say
from ctc_align.config import setting
from ctc_align.errors import InputError, UsageError
from ctc_align.text.characters import json_escaped
from ctc_align.text.note_kinds import first_of_each_kind, name_first

if TYPE_CHECKING:
    from ctc_align.evaluate import Comparison, Evaluation, Options

_ALIGNMENTS = (".textgrid", ".json", ".ctm", ".jsonl", ".gz", ".wrd", ".phn")


@dataclass(frozen=True)
class EvaluationOptions(Group):
    """The tiers to compare, the figures and their format, and thresholds for both edges together.

    Raises:
        UsageError: a threshold out of its range.
    """

    tier: list[str] | None = setting(
        None,
        "Tier to compare; may be given twice. NAME: the tier's name in TextGrids, or its number.",
        metavar="words|phones[=NAME]",
        shown="words",
    )
    hypothesis_tier: str | None = setting(
        None, "The tier's name or number in HYPOTHESIS only.", metavar="NAME"
    )
    reference_tier: str | None = setting(
        None, "The tier's name or number in REFERENCE only.", metavar="NAME"
    )
    labels: str | None = setting(
        None,
        "Rename labels of both sides: one 'from to' per line; 'from' alone removes a label.",
        option="--map",
        metavar="FILE|timit",
    )
    encoding: str = encoding_option()
    against: str | None = setting(
        None, "A second hypothesis; show the paired difference of the two.", metavar="HYPOTHESIS2"
    )
    tolerance: float = setting(
        20.0, "Largest distance at which a boundary counts as found.", metavar="MS"
    )
    resamples: int = setting(
        1000,
        "Resamples for confidence intervals; 0: none.",
        option="--bootstrap",
        metavar="N",
        within=(0, math.inf),
    )
    seed: int = setting(0, "Seed of the resampling.", metavar="N", within=(0, math.inf))
    interval_by: str = setting(
        "utterance",
        "What to resample for confidence intervals: utterances, or folders of them (one for each"
        " speaker).",
        metavar="utterance|folder",
    )
    format: str = setting(
        "table", "A table to read, or JSON for programs.", choices=("table", "json")
    )
    worst: int = setting(
        5, "List this many of the worst edges and utterances.", metavar="N", within=(0, math.inf)
    )
    plot: str | None = setting(
        None, "Draw the errors (also .svg, .pdf; extra [plot]).", metavar="FILE.png"
    )
    force: bool = force_option()
    max_mae: float | None = setting(
        None, "Exit 3 if the mean absolute error is larger.", metavar="MS", panel=LIMITS
    )
    min_within: float | None = setting(
        None, "Exit 3 if a smaller share is within --tolerance.", metavar="PERCENT", panel=LIMITS
    )
    min_f1: float | None = setting(
        None, "Exit 3 if the boundary F1 is smaller (0 to 1).", metavar="F1", panel=LIMITS
    )

    def __post_init__(self) -> None:
        for option, value, most in (
            ("--max-mae", self.max_mae, math.inf),
            ("--min-within", self.min_within, 100.0),
            ("--min-f1", self.min_f1, 1.0),
        ):
            if value is not None and not 0.0 <= value <= most:
                if most == math.inf:
                    upto = "milliseconds, 0 or more"
                else:
                    upto = f"a number from 0 to {most:g}"
                raise UsageError(f"{option}: expected {upto}, got {value}")

    def unmet(self, evaluation: Evaluation) -> list[str]:
        """Return a line for each figure that falls short."""
        from ctc_align.evaluate.error_statistics import within

        tolerance_ms = evaluation.options.tolerance_ms
        signed = evaluation.signed()["both"].ms.tolist()
        mae_ms = evaluation.both.mae_ms
        share = within(signed, tolerance_ms)
        f1 = evaluation.boundaries["both"].f1
        lines = []
        if self.max_mae is not None and (mae_ms is None or mae_ms > self.max_mae):
            lines.append(
                f"mean absolute error {_said(mae_ms, 2)} ms, above --max-mae {self.max_mae:g}"
            )
        if self.min_within is not None and (share is None or share < self.min_within):
            lines.append(
                f"{_said(share, 2)} % within {tolerance_ms:g} ms, below --min-within"
                f" {self.min_within:g}"
            )
        if self.min_f1 is not None and (f1 is None or f1 < self.min_f1):
            lines.append(
                f"F1 {_said(f1, 4)} at {tolerance_ms:g} ms, below --min-f1 {self.min_f1:g}"
            )
        return [f"{evaluation.tier}: {line}" for line in lines]

    def options_by_kind(self) -> dict[str, Options]:
        """Return the options for each kind of tier, with the names of its tiers.

        Raises:
            UsageError: a kind does not exist or is given twice, or names do not match.
        """
        from ctc_align.evaluate import Options, read_labels
        from ctc_align.evaluate.pairing import parse_tier
        from ctc_align.text.encodings import known_encoding

        if self.encoding:
            known_encoding(self.encoding)
        labels = None if self.labels is None else read_labels(self.labels)
        options = Options(
            self.tolerance,
            self.resamples,
            self.seed,
            labels,
            interval_by=self.interval_by,
            encoding=self.encoding,
        )
        tiers = self.tier or ["words"]
        if len(tiers) > 1 and (self.hypothesis_tier or self.reference_tier):
            raise UsageError(
                "--hypothesis-tier and --reference-tier go with one --tier; with several: --tier"
                " words=NAME"
            )
        by_kind: dict[str, Options] = {}
        for tier in tiers:
            kind, _, name = tier.partition("=")
            kind = parse_tier(kind)
            if kind in by_kind:
                raise UsageError(f"--tier: {kind} is given twice")
            by_kind[kind] = replace(
                options,
                hypothesis_tier=self.hypothesis_tier or name or None,
                reference_tier=self.reference_tier or name or None,
            )
        return by_kind


@with_examples(
    "ctc-align evaluate talk.json talk.hand.TextGrid",
    "ctc-align evaluate aligned labels --against earlier",
    "ctc-align evaluate aligned labels --max-mae 40 --format json > errors.json",
)
@with_options
def evaluate(
    hypothesis: Annotated[
        str,
        typer.Argument(
            metavar="HYPOTHESIS", help="A TextGrid, ctc-align JSON or CTM, or a folder of them."
        ),
    ],
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE", help="The same, or TIMIT's .WRD and .PHN, for the true boundaries."
        ),
    ],
    *,
    wanted: EvaluationOptions,
) -> None:
    """Measure the edges of HYPOTHESIS against those of REFERENCE.

    Of ctc-align's JSON, HYPOTHESIS is read as the program made it, REFERENCE with a person's
    corrections, including those in the TextGrid written with it: ctc-align evaluate OUT OUT
    measures what was corrected in OUT.

    Words are paired by their order; words with a different label are counted, and measured like the
    others. Errors are hypothesis minus reference, in milliseconds: positive is late. 95 % intervals
    come from resampling. A boundary is a time at which a word starts or ends (neighbours that
    touch share one); precision, recall, F1 and R-value match boundaries one to one. Exits with 1 if
    the hypothesis lacks files of the reference, with 3 if a threshold is missed.
    """
    against = wanted.against
    by_kind = wanted.options_by_kind()
    _check_paths(hypothesis, reference, against, wanted.plot, wanted.force)
    results = [
        _measured(kind, hypothesis, reference, against, options)
        for kind, options in by_kind.items()
    ]
    if wanted.format == "json":
        objects = [result.to_dict(wanted.worst) for result in results]
        if len(objects) == 1:
            whole = objects[0]
        else:
            whole = {"tiers": objects}
        put(json_escaped(json.dumps(whole, indent=1, allow_nan=False)))
    else:
        _print_tables(results, wanted.worst, (hypothesis, against or ""))
    sys.stdout.flush()
    _write_plot(wanted.plot, results)
    _conclude(results, wanted, hypothesis, reference)


def _conclude(
    results: list[_TierResult], wanted: EvaluationOptions, hypothesis: str, reference: str
) -> None:
    """Report on stderr what is missing or falls short, and exit with the code for it."""
    for result in results:
        _say_notes(result.evaluation, "")
        if result.against is not None:
            _say_notes(result.against, f"{wanted.against}: ")
    for result in results:
        if not result.evaluation.paired:
            raise InputError(
                f"{hypothesis}: nothing in it pairs with {reference}; are they the same recordings?"
            )
    unmet = [line for result in results for line in wanted.unmet(result.evaluation)]
    for line in unmet:
        say(f"ctc-align: {line}")
    if any(not result.is_complete for result in results):
        raise typer.Exit(SOME_FAILED)
    if unmet:
        raise typer.Exit(THRESHOLD_NOT_MET)


@dataclass(frozen=True)
class _TierResult:
    """The figures of one tier."""

    evaluation: Evaluation
    against: Evaluation | None = None
    comparison: Comparison | None = None

    @property
    def is_complete(self) -> bool:
        return self.evaluation.complete and (self.against is None or self.against.complete)

    def to_dict(self, worst: int) -> dict[str, Any]:
        data = self.evaluation.to_dict(worst)
        if self.against is not None and self.comparison is not None:
            data |= {
                "against": self.against.to_dict(worst),
                "comparison": self.comparison.to_dict(),
            }
        return data


def _said(number: float | None, decimals: int) -> str:
    if number is None:
        return "none"
    return f"{number:.{decimals}f}"


def _measured(
    tier: str, hypothesis: str, reference: str, against: str | None, options: Options
) -> _TierResult:
    from ctc_align.evaluate import compare
    from ctc_align.evaluate import evaluate as measured

    evaluation = measured(hypothesis, reference, tier, options)
    if against is None:
        return _TierResult(evaluation)
    other = measured(against, reference, tier, options)
    # without anything paired there is nothing to compare, which is said in the end
    return _TierResult(evaluation, other, compare(evaluation, other) if evaluation.paired else None)


def _print_tables(results: list[_TierResult], worst: int, names: tuple[str, str]) -> None:
    from ctc_align.cli.tables import print_comparison, print_evaluation

    for result in results:
        print_evaluation(result.evaluation, worst)
        if result.comparison is not None:
            print_comparison(result.comparison, names)


def _say_notes(evaluation: Evaluation, whose: str) -> None:
    """Report missing, unreadable, extra and doubtful inputs, and unpaired words, on stderr."""
    for side in ("missing", "extra"):
        lone = [
            f"{one.label!r} at {one.start_s:.2f} s of {paired.utterance}"
            for paired in evaluation.pairings
            for one in getattr(paired, side)
        ]
        if lone:
            say(f"ctc-align: {whose}{side} {evaluation.tier}: {name_first(lone, len(lone))}")
    for note in first_of_each_kind(evaluation.notes):
        say(f"ctc-align: note: {whose}{note}")
    if evaluation.untouched:
        count = counted(
            evaluation.untouched,
            "alignment without corrections is",
            "alignments without corrections are",
        )
        say(f"ctc-align: note: {whose}{count} not measured: hypothesis and reference are the same")
    for name in evaluation.missing_files:
        say(f"ctc-align: {whose}{name}: no hypothesis for this reference")
    for _, reason in evaluation.failures:
        say(f"ctc-align: {reason}")
    extra = evaluation.extra_files
    if extra:
        names = name_first(list(extra), len(extra))
        count = counted(len(extra), "hypothesis", "hypotheses")
        verb = "is" if len(extra) == 1 else "are"
        say(f"ctc-align: note: {whose}{count} without a reference {verb} left out: {names}")
    for doubt in evaluation.doubts:
        say(f"ctc-align: note: {whose}{doubt}")


def _check_paths(
    hypothesis: str, reference: str, against: str | None, plot: str | None, force: bool
) -> None:
    """Raise UsageError if inputs are missing or do not pair, or the plot cannot be written."""
    from ctc_align.evaluate.utterance_files import check_paths

    check_paths(Path(hypothesis), Path(reference))
    for path in filter(None, (hypothesis, reference, against)):
        _check_kind(Path(path))
    if against is not None:
        check_paths(Path(against), Path(reference), "second hypothesis, --against")
    _check_plot(plot, force, (hypothesis, reference))


def _check_kind(path: Path) -> None:
    """Raise UsageError for a file that is clearly no alignment (TextGrids have any extension)."""
    if not path.is_file() or path.suffix.casefold() in _ALIGNMENTS:
        return
    with open(path, "rb") as file:
        head = file.read(400).replace(b"\0", b"")
    if b"ooTextFile" not in head:
        raise UsageError(
            f"{path}: expected an alignment (a TextGrid, ctc-align JSON or CTM), got another kind"
            " of file"
        )


def _check_plot(plot: str | None, force: bool, inputs: tuple[str, str]) -> None:
    """Raise UsageError, before any work, if the picture cannot or must not be written."""
    from ctc_align.view import PLOT_FORMATS, check_plotting

    if plot is None:
        return
    path = Path(plot)
    if path.suffix.casefold().lstrip(".") not in PLOT_FORMATS:
        raise UsageError(
            f"--plot: expected a file that ends in .{', .'.join(PLOT_FORMATS)}, got {plot}"
        )
    check_plotting()
    if path.is_dir() or any(
        path.exists() and Path(name).exists() and path.samefile(name) for name in inputs
    ):
        raise UsageError(f"{plot}: is a folder, or an input of this call; choose another name")
    check_new(path, force, "another name")


def _write_plot(plot: str | None, results: list[_TierResult]) -> None:
    from ctc_align.evaluate import error_figure
    from ctc_align.files.whole_files import placing

    if plot is None:
        return
    rows = {}
    for result in results:
        rows[result.evaluation.tier] = result.evaluation
        if result.against is not None:
            rows[f"{result.evaluation.tier}, --against"] = result.against
    figure = error_figure(rows)
    path = Path(plot)
    with placing([path]) as parts:
        for target, part in parts:
            figure.savefig(part, format=target.suffix.casefold().lstrip("."))
