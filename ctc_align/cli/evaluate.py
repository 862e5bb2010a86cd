"""ctc-align evaluate: boundary error against a reference."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from ctc_align.cli.talk import counted
from ctc_align.errors import InputError, UsageError


def evaluate(
    hypothesis: Annotated[
        str, typer.Argument(metavar="HYPOTHESIS", help="A TextGrid or ctc-align JSON file, or a folder of them.")
    ],
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="The same for the true boundaries.")],
    tier: Annotated[str, typer.Option("--tier", metavar="words|phones", help="What is compared.")] = "words",
    format: Annotated[
        str, typer.Option("--format", metavar="table|json", help="For people, or for programs.")
    ] = "table",
    worst: Annotated[int, typer.Option("--worst", metavar="N", min=0, help="Utterances to list, worst first.")] = 5,
) -> None:
    """Measure the boundaries of HYPOTHESIS against those of REFERENCE, in milliseconds.

    Words pair by their order; a word with another label is counted, and measured like the others. Exits with 1 when
    the hypothesis lacks files of the reference.
    """
    from ctc_align.evaluate import evaluate as measured

    if format not in ("table", "json"):
        raise UsageError(f"--format: expected table or json, met {format!r}")
    evaluation = measured(hypothesis, reference, tier)
    if format == "json":
        print(json.dumps(evaluation.to_dict(), indent=1, ensure_ascii=True, allow_nan=False))
    else:
        from ctc_align.cli.show import print_evaluation

        print_evaluation(evaluation, worst)
    sys.stdout.flush()
    for name in evaluation.missing_files:
        print(f"ctc-align: {name}: no hypothesis for this reference", file=sys.stderr)
    for _, reason in evaluation.failures:
        print(f"ctc-align: {reason}", file=sys.stderr)
    if evaluation.extra_files:
        names = ", ".join(evaluation.extra_files[:3]) + (" …" if len(evaluation.extra_files) > 3 else "")
        count = counted(len(evaluation.extra_files), "hypothesis", "hypotheses")
        verb = "is" if len(evaluation.extra_files) == 1 else "are"
        print(f"ctc-align: note: {count} without a reference {verb} left out: {names}", file=sys.stderr)
    if evaluation.mismatched > evaluation.paired / 2:
        words = f"{evaluation.mismatched} of {counted(evaluation.paired, 'pair', 'pairs')}"
        print(f"ctc-align: note: the labels of {words} differ: are these the same transcripts?", file=sys.stderr)
    if not evaluation.paired:
        raise InputError(f"{hypothesis}: nothing in it pairs with {reference}; are they the same recordings?")
    if not evaluation.complete:
        raise typer.Exit(1)
