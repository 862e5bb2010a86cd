"""ctc-align filter: what of a corpus run is good enough, as a manifest."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ctc_align.cli.arguments import check_files, check_new, check_source
from ctc_align.cli.options import (
    LIMITS,
    MessageOptions,
    force_option,
    source_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import Talk, console_for, counted, put
from ctc_align.config import setting
from ctc_align.errors import UsageError
from ctc_align.text.characters import json_escaped
from ctc_align.text.note_kinds import first_of_each_kind
from ctc_align.types import FITS, NONE

if TYPE_CHECKING:
    from ctc_align.corpus.selection import Selected


@with_examples(
    "ctc-align filter aligned --min-fit good --to good.jsonl",
    "ctc-align filter aligned --max-skipped 5 --to kept.jsonl --left-out rest.jsonl",
    "ctc-align filter aligned recordings --max-loss-per-token 2 > kept.jsonl",
)
@with_options
def filter_run(
    run: Annotated[
        str, typer.Argument(metavar="OUT_DIR", help="The --out-dir of ctc-align corpus.")
    ],
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="The corpus.", show_default="where OUT_DIR/summary.json says"
        ),
    ] = None,
    *,
    to: str | None = setting(
        None,
        "The manifest of what is kept, JSONL; - for standard output.",
        metavar="FILE",
        shown="standard output",
    ),
    left_out: str | None = setting(
        None,
        "A manifest of what is left out, each line with its `reasons`.",
        metavar="FILE",
        shown="not written",
    ),
    min_fit: str = setting(
        NONE,
        "The worst fit that is kept; none: any fit.",
        choices=FITS,
        shown="none",
        panel=LIMITS,
    ),
    max_loss_per_token: float | None = setting(
        None, "The highest loss per token.", metavar="NATS", shown="any", panel=LIMITS
    ),
    max_local_loss: float | None = setting(
        None,
        "The highest loss in the worst 0.3 s, which finds single wrong words.",
        metavar="NATS",
        shown="any",
        panel=LIMITS,
    ),
    max_skipped: float | None = setting(
        None,
        "The largest share of words that are not in the recording.",
        metavar="PERCENT",
        shown="any",
        panel=LIMITS,
    ),
    drop_duplicates: bool = setting(
        False, "Keep only the first of utterances with the same sound and text.", panel=LIMITS
    ),
    kind: str | None = source_option(),
    text: str | None = setting(
        None,
        "The text that the recordings share, if the run had --text.",
        metavar="FILE",
        shown="none",
    ),
    encoding: str | None = setting(
        None,
        "The encoding of transcripts, if the run had --encoding.",
        metavar="NAME",
        shown="UTF-8",
    ),
    force: bool = force_option(),
    messages: MessageOptions,
) -> None:
    """Write a manifest of the good utterances of a corpus run.

    Reads the journal of the run and its corpus, but no sound. Of the outputs, it reads only those
    that a person has corrected, and uses the figures of their latest corrections. The manifest has
    the lines of the corpus in their order, with absolute paths, and for JSONL with all their keys;
    ctc-align corpus, ctc-align train and NeMo can read it. Utterances that failed are left out. How
    many are left out, and why, is printed to stderr.
    """
    from ctc_align.corpus.selection import Limits, selected

    talk = messages.talk()
    if run == "" or source == "":
        which = "OUT_DIR" if run == "" else "SOURCE"
        raise UsageError(f"{which}: expected a path, got an empty one; . is the current folder")
    if source is not None:
        check_source(source)
    check_files({"--text": text})
    targets = _targets({"--to": to, "--left-out": left_out}, source, force)
    limits = Limits(min_fit, max_loss_per_token, max_local_loss, max_skipped, drop_duplicates)
    counts = _write(
        selected(Path(run), limits, source or "", kind, text or "", encoding or ""), targets
    )
    _report(counts, talk)


@dataclass
class _Counts:
    """Utterances and seconds, kept and in all, corrected ones, and the count of each reason."""

    kept: tuple[int, float] = (0, 0.0)
    every: tuple[int, float] = (0, 0.0)
    reasons: Counter[str] = field(default_factory=Counter)
    corrected: int = 0
    notes: list[str] = field(default_factory=list)


def _targets(given: dict[str, str | None], source: str | None, force: bool) -> dict[str, Path]:
    """Return the files to write by their options; raise UsageError if one cannot be written."""
    targets = {name: Path(path) for name, path in given.items() if path is not None and path != "-"}
    for name, path in targets.items():
        if path.suffix.casefold() in (".csv", ".tsv"):
            raise UsageError(
                f"{name} {path}: a manifest is JSONL, one object per line; give a name such as"
                " kept.jsonl"
            )
        if source is not None and path.exists() and path.samefile(source):
            raise UsageError(
                f"{name} {path}: is the corpus, which is never replaced; give another name"
            )
        check_new(path, force, "another name")
    if len(set(targets.values())) < len(targets):
        raise UsageError(f"--to and --left-out: expected two files, got {given['--to']} twice")
    return targets


def _write(entries: Iterable[Selected], targets: Mapping[str, Path]) -> _Counts:
    """Write the lines that are kept and those left out, whole or not at all; return the counts."""
    from ctc_align.files.whole_files import placing

    counts = _Counts()
    with ExitStack() as stack:
        if targets:
            parts = dict(stack.enter_context(placing(list(targets.values()))))
        else:
            parts = {}
        opened = partial(open, mode="w", encoding="utf-8", errors="backslashreplace")
        files: dict[str, IO[str]] = {
            name: stack.enter_context(opened(parts[path])) for name, path in targets.items()
        }
        for each in entries:
            counts.every = counts.every[0] + 1, counts.every[1] + each.duration_s
            counts.reasons.update(each.reasons)
            counts.corrected += each.is_corrected
            counts.notes += each.notes
            data = each.line | ({"reasons": list(each.reasons)} if each.reasons else {})
            line = json_escaped(json.dumps(data, ensure_ascii=False, allow_nan=False))
            if not each.reasons:
                counts.kept = counts.kept[0] + 1, counts.kept[1] + each.duration_s
            file = files.get("--left-out" if each.reasons else "--to")
            if file is not None:
                file.write(line + "\n")
            elif not each.reasons:
                put(line)
    return counts


def _report(counts: _Counts, talk: Talk) -> None:
    """Print how much is kept, and a table of the reasons for what is not."""
    kept, every = counts.kept, counts.every
    talk.notes(first_of_each_kind(counts.notes))
    if counts.corrected:
        talk.note(
            f"{counted(counts.corrected, 'utterance was', 'utterances were')} corrected by hand"
        )
    talk.say(
        f"ctc-align: kept {kept[0]:,.0f} of {counted(int(every[0]), 'utterance', 'utterances')}, "
        f"{kept[1] / 3600:.3f} of {every[1] / 3600:.3f} hours"
    )
    if counts.reasons and not talk.quiet:
        from ctc_align.cli.tables import figures_table

        table = figures_table("left out (an utterance may have several reasons)", "")
        for reason, count in counts.reasons.most_common():
            table.add_row(reason, f"{count:,}")
        console_for(sys.stderr, whole=True).print(table)
