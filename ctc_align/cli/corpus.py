"""ctc-align corpus: many utterances, resumable."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ctc_align.cli.align import check_places
from ctc_align.cli.arguments import check_files, check_source, is_book
from ctc_align.cli.notes import (
    changed_outputs,
    choice_notes,
    effect_notes,
    grouped_notes,
    interruption,
    language_notes,
    leave,
    misfits,
    name_failures,
    old_book_notes,
    read_twice,
    verification,
)
from ctc_align.cli.options import (
    OUTPUTS,
    WORKERS,
    Group,
    LogProbsOptions,
    MessageOptions,
    ModelOptions,
    SettingsOptions,
    folder_option,
    formats_option,
    source_option,
    with_examples,
    with_options,
)
from ctc_align.cli.printing import Interrupted, Talk
from ctc_align.config import EVERYDAY, setting
from ctc_align.errors import CtcAlignError, UsageError

if TYPE_CHECKING:
    from ctc_align.corpus.outputs.layout import Layout
    from ctc_align.corpus.run import CorpusRun
    from ctc_align.files.folder_lock import Shard
    from ctc_align.sources.utterance import Utterance

_SAMPLED = 20
"""So many transcripts tell whether a corpus is in the model's language."""


_output = functools.partial(setting, panel=OUTPUTS)


@dataclass(frozen=True)
class RunOptions(Group):
    """The outputs and their formats; which part of the corpus is done, by which workers."""

    panel: ClassVar[str] = WORKERS

    format: str | None = formats_option(panel=EVERYDAY)
    layout: str = _output(
        "files",
        "Write files for each utterance, or shards of many utterances; or a data set of cut audio:"
        " Hugging Face's audiofolder, webdataset or ljspeech (--cut-audio).",
        metavar="files|shards|audiofolder|webdataset|ljspeech",
    )
    shard_size: int = _output(
        5000, "Utterances in a shard of --layout shards or webdataset.", metavar="N"
    )
    manifest: str | None = _output(
        None, "Also write manifests with word alignments.", metavar="nemo,lhotse"
    )
    cut_audio: bool = _output(
        False, "Also write each utterance's audio (FLAC), its text and a manifest, for data sets."
    )
    by: str | None = _output(
        None,
        "Cut audio into utterances, or into phrases (--cut-audio).",
        metavar="utterance|pause",
        shown="utterance",
    )
    pause_s: float | None = _output(
        None, "Cut phrases at pauses longer than this (--by pause).", metavar="SECONDS", shown="0.3"
    )
    shard: str | None = setting(
        None,
        "Align only part I (from 0) of N, so that several jobs can share a corpus.",
        metavar="I/N",
    )
    workers: int | None = setting(
        None,
        "Number of worker processes.",
        metavar="N",
        shown="one for each CPU core, or for each GPU",
    )
    engine: str = setting(
        "local", "Workers on this machine, or on Ray (extra [ray]).", metavar="local|ray"
    )
    address: str | None = setting(
        None,
        "Ray cluster for --engine ray, or auto.",
        metavar="HOST:PORT",
        shown="one on this machine",
    )
    gpus_per_worker: float | None = setting(
        None,
        "GPUs per Ray worker; with 0.5, two workers share one.",
        metavar="N",
        shown="1 if there are GPUs, else 0",
    )
    batch_seconds: float | None = setting(
        None,
        "Seconds of audio per model batch; smaller values need less memory.",
        metavar="SECONDS",
        shown="120, on a GPU 1200",
    )
    retry_failed: bool = setting(False, "Retry utterances that failed in an earlier run.")
    force: bool = setting(
        False,
        "Align everything again, and replace existing outputs, even files that no earlier run"
        " wrote. Inputs are never replaced.",
    )
    verify: bool = setting(
        False,
        "Read all outputs and recordings, check them against the journal, and redo what is damaged"
        " or was replaced.",
    )
    profile: bool = setting(False, "Show how much time each stage took.")
    summary: str | None = setting(
        None, "Only write a summary of the journals of all shards in DIR.", metavar="DIR"
    )

    def run(self, source: str, out_dir: str) -> CorpusRun:
        """Return the run over `source` with these options."""
        from ctc_align.corpus.engine.worker_pools import PoolSettings
        from ctc_align.corpus.run import CorpusRun

        return CorpusRun(
            source,
            out_dir,
            outputs=self._outputs(out_dir),
            shard=parse_shard(self.shard),
            pool=PoolSettings(self.engine, self.workers, self.address, self.gpus_per_worker),
            batch_seconds=self.batch_seconds,
            retry_failed=self.retry_failed,
            force=self.force,
            profile=self.profile,
            verify=self.verify,
        )

    def _outputs(self, out_dir: str) -> Layout:
        """Return the library's settings for outputs in `out_dir`."""
        from ctc_align.corpus.outputs.layout import DATA_SETS, FILES, PAUSE, UTTERANCE, Layout
        from ctc_align.files import parse_formats

        if self.by is not None and not self.cut_audio:
            raise UsageError(f"--by {self.by}: needs --cut-audio")
        if self.pause_s is not None and self.by != PAUSE:
            raise UsageError("--pause-s: needs --cut-audio --by pause")
        return Layout(
            out_dir,
            kind=FILES if self.layout in DATA_SETS else self.layout,
            data_set=self.layout if self.layout in DATA_SETS else "",
            formats=() if self.format is None else parse_formats(self.format),
            shard_size=self.shard_size,
            manifests=_listed(self.manifest),
            cut=(self.by or UTTERANCE) if self.cut_audio else "",
            pause_s=Layout.pause_s if self.pause_s is None else self.pause_s,
        )


Source = Annotated[
    str | None,
    typer.Argument(
        metavar="SOURCE",
        help=(
            "A manifest (JSONL, CSV, TSV, Lhotse cuts) or a folder (Kaldi, MFA, LibriSpeech,"
            " metadata.csv, recordings with one book.txt or book.epub)."
        ),
    ),
]


@with_examples(
    "ctc-align corpus recordings --out-dir aligned",
    "ctc-align corpus corpus.jsonl --out-dir sharded --layout shards --workers 4",
    "ctc-align corpus chapters --text book.epub --out-dir spoken --format json",
)
@with_options
def corpus(
    source: Source = None,
    *,
    out_dir: str | None = folder_option("Folder for the outputs and the journal. Required."),
    kind: str | None = source_option(),
    text: str | None = setting(
        None,
        "A text (UTF-8, EPUB); each recording in the folder and its subfolders reads a part of it.",
        metavar="FILE",
        shown="the only text beside the recordings",
    ),
    model: ModelOptions,
    work: RunOptions,
    log_probs: LogProbsOptions,
    config: SettingsOptions,
    messages: MessageOptions,
) -> None:
    """Align every utterance of SOURCE with its transcript.

    To resume an interrupted run, give the same command again. DIR/journal.jsonl has the result of
    each utterance; DIR/summary.json sums them up. Exits with 1 if any utterance failed; otherwise
    with 3 if any has words below --min-confidence or unexplained speech, more missing words than
    --max-skipped allows, or a fit below --min-fit.
    """
    talk = messages.talk()
    if work.summary is not None:
        sum_up(work.summary, source, config.settings().min_fit, talk)
        return
    if source is None or source == "":
        raise UsageError("SOURCE: expected a manifest or a folder; see ctc-align corpus --help")
    check_source(source)
    if not out_dir:
        raise UsageError("--out-dir: a corpus needs a folder for its outputs and its journal")
    calibration = config.overrides["calibration"]
    check_files(
        {
            "--lexicon": model.lexicon,
            "--calibration": calibration,
            "--vocab": log_probs.vocab,
            "--text": text,
        }
    )
    reader = log_probs.reader_of_source(source, model.model)
    files = (source, model.lexicon, config.file, calibration, log_probs.vocab, text)
    run = replace(
        work.run(source, out_dir),
        kind=kind,
        text=text or "",
        model=model.name_for(reader),
        lexicon=model.lexicon,
        device=model.device,
        backend=model.backend,
        settings=config.settings(),
        inputs=tuple(path for path in files if path is not None),
        log_probs=reader,
    )
    first = _first_utterances(run)
    if reader is not None:
        reader.check_first((item.audio, item.offset_s, item.duration_s) for item in first)
    talk.notes(effect_notes(config, run.outputs.formats_written))
    align_all(run, first, talk)


def _listed(names: str | None) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(name.strip().casefold() for name in (names or "").split(",") if name.strip())
    )


def parse_shard(text: str | None) -> Shard:
    """Return the shard that --shard I/N names.

    >>> parse_shard("1/4")
    Shard(index=1, count=4)
    """
    from ctc_align.files.folder_lock import Shard

    if text is None:
        return Shard()
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip(), re.ASCII)
    if match is None or not int(match[1]) < int(match[2]):
        raise UsageError(f"--shard: expected I/N with I from 0 to N - 1, got {text!r}")
    return Shard(int(match[1]), int(match[2]))


def _keeps_cues(run: CorpusRun, first: Sequence[Utterance]) -> bool:
    """Return whether the cues of transcripts are written again, with new times."""
    return run.settings.cues != "again" and any(
        item.file is not None and item.file.subtitles for item in first
    )


def align_all(run: CorpusRun, first: Sequence[Utterance], talk: Talk) -> None:
    """Run, print failures and summary, and exit with the code for them.

    `first` are the first utterances of the run.
    """
    from ctc_align.alignment.model_choice import only_model
    from ctc_align.cli.tables import ProgressDisplay, print_profile, print_summary
    from ctc_align.corpus.run import run_corpus
    from ctc_align.corpus.state.output_folder import compiling_path

    _check_books(run, first)
    talk.listen()
    model = only_model(run.model, run.settings, run.lexicon is not None)
    texts = "\n".join(item.text for item in first)
    talk.notes(language_notes(texts, model, run.settings.language))
    talk.notes(
        old_book_notes(next((item.transcript for item in first if item.book is not None), ""))
    )
    try:
        with ProgressDisplay(talk, compiling_path(Path(run.out_dir), run.shard.suffix)) as display:
            result = run_corpus(run, display)
    except KeyboardInterrupt:
        raise Interrupted(
            "interrupted: finished utterances are in the journal; run the same command to continue"
        ) from None
    talk.notes(choice_notes(result.summary.looks))
    if run.shard.count > 1 and not result.summary.utterances and not result.interrupted:
        talk.note(
            f"part {run.shard.index}/{run.shard.count} has nothing to do: utterances of one file (a"
            " shard of --shard-size, a TextGrid) are never divided among parts, and there are"
            " fewer such files than parts"
        )
    name_failures(result.summary, result.journal)
    talk.notes(changed_outputs(result.summary.run))
    if result.verified is not None:
        talk.say(f"ctc-align: {verification(result)}")
    if not talk.quiet:
        print_summary(result.summary, of=result.total)
        if run.profile:
            print_profile(result.summary.run)
    has_json = run.outputs.kind == "shards" or "json" in run.outputs.formats_written
    talk.notes(misfits(result.summary, has_json=has_json, keeps_cues=_keeps_cues(run, first)))
    talk.notes(read_twice(result.summary))
    talk.notes(grouped_notes(result.summary, result.journal, display.warned))
    if result.interrupted:
        raise Interrupted(interruption(result))
    leave(result.summary, run.settings.min_fit)


def _check_books(run: CorpusRun, first: Sequence[Utterance]) -> None:
    """Raise UsageError if a book format is requested and the texts are surely no books with ids."""
    if "smil" in run.outputs.formats and (
        Path(run.source).is_file() or (run.text and not is_book(run.text))
    ):
        raise UsageError(
            "--format smil needs an EPUB book as transcript; give a folder of recordings as SOURCE,"
            " and their book with --text"
        )
    for item in first:
        if item.book is not None:
            check_places(
                run.outputs.formats, item.book.places, "the text of these recordings is not one"
            )


def _first_utterances(run: CorpusRun) -> list[Utterance]:
    """Return the first utterances.

    There are none if the source cannot be read, which the run itself reports.
    """
    from ctc_align.sources import open_source
    from ctc_align.sources.utterance import Utterance

    try:
        encoding = run.settings.encoding
        source = open_source(
            run.source,
            run.kind,
            exclude=[run.out_dir],
            parts=True,
            text=run.text,
            encoding=encoding,
        )
        return [item for item in islice(source, _SAMPLED) if isinstance(item, Utterance)]
    except (CtcAlignError, OSError):
        return []


def sum_up(folder: str, source: str | None, min_fit: str, talk: Talk) -> None:
    """Write `summary.json` for `--summary DIR`, and print the table to stdout."""
    import sys

    from ctc_align.cli.tables import print_summary
    from ctc_align.corpus.state.summary import joined, summary_path
    from ctc_align.files.folder_lock import Shard

    if source is not None:
        raise UsageError(
            f"--summary {folder}: takes no SOURCE, got {source}: it reads the journals alone"
        )
    summary, notes = joined(Path(folder))
    for note in notes:
        talk.note(note)
    summary.write(summary_path(Path(folder), Shard()))
    name_failures(summary, Path(folder) / "journal*.jsonl")
    print_summary(summary, sys.stdout)
    talk.notes(misfits(summary))
    talk.notes(read_twice(summary))
    talk.notes(grouped_notes(summary, Path(folder) / "journal*.jsonl"))
    leave(summary, min_fit)
