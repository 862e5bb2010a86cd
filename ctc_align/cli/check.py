"""ctc-align check: what is wrong with a corpus, before a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli.arguments import check_files, check_source
from ctc_align.cli.options import (
    MessageOptions,
    SettingsOptions,
    lexicon_option,
    source_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import SOME_FAILED, counted, put
from ctc_align.config import setting
from ctc_align.errors import UsageError
from ctc_align.text.characters import json_escaped

if TYPE_CHECKING:
    from ctc_align.corpus.corpus_check import CorpusFigures, Finding

_MOST_UNLISTED = 20


@with_examples(
    "ctc-align check recordings",
    "ctc-align check corpus.jsonl --model universal --examples 20",
    "ctc-align check corpus.jsonl --format jsonl > problems.jsonl",
)
@with_options
def check(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The corpus, as for ctc-align corpus.")
    ],
    *,
    kind: str | None = source_option(),
    text: str | None = setting(
        None,
        "The text that the recordings share.",
        metavar="FILE",
        shown="the only text beside the recordings",
    ),
    model: str | None = setting(
        None,
        "The model of the run, which decides what can be pronounced.",
        metavar="NAME|PATH",
        shown="by language",
    ),
    lexicon: str | None = lexicon_option(),
    examples: int = setting(
        5, "Number of examples to list of each problem.", metavar="N", within=(0, 10**9)
    ),
    format: str = setting(
        "text",
        "A report, or JSON: one line per problem of an utterance.",
        choices=("text", "jsonl"),
    ),
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Check a corpus before a run: audio, texts, lengths and rates.

    Reads all texts and the headers of the recordings, decodes no sound and writes nothing. Lists
    missing and unreadable recordings, duplicate ids, empty and strange texts, texts that are too
    long or too short for their recordings, words that the model cannot pronounce and words that
    the dictionary lacks. Exits with 1 if utterances would fail.
    """
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.corpus.corpus_check import PROBLEMS, CorpusFigures, check_corpus
    from ctc_align.sources import open_source

    talk = messages.talk()
    if source == "":
        raise UsageError("SOURCE: expected the path of a corpus, got an empty one")
    check_source(source)
    check_files({"--lexicon": lexicon, "--text": text})
    settings = config.settings()
    talk.listen()
    corpus = open_source(source, kind, parts=True, text=text or "", encoding=settings.encoding)
    aligner = Aligner(model or "auto", lexicon=lexicon, settings=settings)
    figures = CorpusFigures()
    with talk.progress("checking") as progress:
        found = check_corpus(corpus, aligner, figures, progress=progress)
        if format == "jsonl":
            for each in found:
                fails = {"fails": PROBLEMS[each.problem][0] == "fails"}
                put(json_escaped(json.dumps({**each._asdict(), **fails}, ensure_ascii=False)))
        else:
            _report(list(found), figures, examples)
    if figures.fails:
        raise typer.Exit(SOME_FAILED)


def _report(found: list[Finding], figures: CorpusFigures, examples: int) -> None:
    """Print the figures of a corpus, and its problems with their first examples."""
    from ctc_align.corpus.corpus_check import FAILS, PROBLEMS

    for name, value in _figures(figures):
        put(f"{name:24} {value}")
    for severity, title in ((FAILS, "Utterances that would fail"), ("doubt", "Worth a look")):
        kinds = [
            kind
            for kind, (each, _) in PROBLEMS.items()
            if each == severity and figures.problems[kind]
        ]
        if kinds:
            put(f"\n{title}")
        for kind in kinds:
            put(f"  {figures.problems[kind]:6,}  {PROBLEMS[kind][1]}")
            of_kind = [each for each in found if each.problem == kind]
            for each in of_kind[:examples]:
                named = each.detail.startswith(f"{each.utterance}: ")
                put(f"          {'' if named else f'{each.utterance}: '}{each.detail}")
    if figures.unlisted:
        most = ", ".join(
            f"{word} {count}" for word, count in figures.unlisted.most_common(_MOST_UNLISTED)
        )
        kinds_of_words = counted(len(figures.unlisted), "word is", "words are")
        put(
            f"\n{kinds_of_words} not in the dictionary, and read by rules; the most frequent:"
            f" {most}"
        )
    if not figures.problems:
        put("\nNo problem was found.")


def _figures(figures: CorpusFigures) -> Iterator[tuple[str, Any]]:
    yield "utterances", f"{figures.utterances:,}"
    yield "recordings", f"{figures.recordings:,}"
    yield "hours", f"{sum(figures.lengths_s) / 3600:.3f}"
    yield "words", f"{figures.words:,}"
    if figures.speakers:
        yield "speakers", f"{len(figures.speakers):,}"
    for name, counts in (("sample rates", figures.rates), ("channels", figures.channels)):
        if counts:
            yield name, ", ".join(f"{value:,} ({count:,})" for value, count in counts.most_common())
    for name, values in (
        ("seconds: min, median, max", figures.lengths_s),
        ("sounds a second", figures.per_s),
    ):
        quantiles = figures.quantiles(values)
        if quantiles:
            yield name, "  ".join(f"{value:.2f}" for value in quantiles)
