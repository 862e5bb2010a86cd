"""ctc-align corpus: many utterances, resumable."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctc_align.cli import options
from ctc_align.cli.messages import Talk, counted
from ctc_align.errors import UsageError

if TYPE_CHECKING:
    from ctc_align.corpus.engine.dispatch import Tally
    from ctc_align.corpus.run import CorpusRun, Ended
    from ctc_align.corpus.state.journal import Shard
    from ctc_align.corpus.state.summary import Summary

THRESHOLD_NOT_MET = 3
_LINE_EVERY_S = 10.0
_NAMED = 1000
"""Failures that are named on stderr, one a line; the summary has more, the journal all."""


class Interrupted(Exception):
    """The run was stopped by Ctrl-C; the message says where it stands."""


def corpus(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE", help="A manifest (JSONL, CSV, TSV, Lhotse cuts) or a folder (Kaldi, MFA, LibriSpeech)."
        ),
    ] = None,
    out_dir: Annotated[
        str | None, typer.Option("--out-dir", metavar="DIR", help="Where the outputs and the journal go. Needed.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--source", metavar="KIND", help="What SOURCE is, where that is not to be found out.")
    ] = None,
    model: options.Model = None,
    lexicon: options.Lexicon = None,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    format: options.Formats = None,
    layout: Annotated[
        str,
        typer.Option(
            "--layout", metavar="files|shards", help="Files for each utterance, or shards of many utterances."
        ),
    ] = "files",
    shard_size: Annotated[
        int, typer.Option("--shard-size", metavar="N", help="Utterances in a shard of --layout shards.")
    ] = 5000,
    manifest: Annotated[
        str | None,
        typer.Option(
            "--manifest", metavar="nemo,lhotse", help="Write manifests with word alignments beside the outputs."
        ),
    ] = None,
    cut_audio: Annotated[
        bool, typer.Option("--cut-audio", help="Write each utterance's audio (FLAC) and text, for making data sets.")
    ] = False,
    by: Annotated[
        str, typer.Option("--by", metavar="utterance|pause", help="What --cut-audio cuts: utterances, or phrases.")
    ] = "utterance",
    pause_s: Annotated[
        float, typer.Option("--pause-s", metavar="SECONDS", help="A longer pause parts phrases (--by pause).")
    ] = 0.3,
    shard: Annotated[
        str | None,
        typer.Option("--shard", metavar="I/N", help="Do the I-th (from 0) of N parts: one job of several."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", help="Processes.", show_default="one for each CPU core, or for each GPU"
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option("--engine", metavar="local|ray", help="Workers on this machine, or a Ray Data job (extra [ray])."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster that does it, for --engine ray; or auto.",
            show_default="one on this machine",
        ),
    ] = None,
    gpus_per_worker: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-worker",
            metavar="N",
            help="GPUs of each of Ray's workers; 0.5: two share one.",
            show_default="1 where there are GPUs, else 0",
        ),
    ] = None,
    batch_seconds: Annotated[
        float | None,
        typer.Option(
            "--batch-seconds",
            metavar="SECONDS",
            help="Audio that goes through the model together: less takes less memory.",
            show_default="120, on a GPU 1200",
        ),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do again what failed before.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Do everything again, and replace files that were there first. Inputs are never replaced."
        ),
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time went.")] = False,
    summary: Annotated[
        str | None,
        typer.Option(
            "--summary", metavar="DIR", help="Do nothing but sum up the journals in DIR, those of all shards."
        ),
    ] = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    vocab: options.Vocab = None,
    frame_shift: options.FrameShift = None,
    blank: options.Blank = None,
    language: options.Language = None,
    romanize: options.Romanize = None,
    words_by: options.WordsBy = None,
    unknown: options.Unknown = None,
    revision: options.Revision = None,
    cache_dir: options.CacheDir = None,
    times: options.Times = None,
    labels: options.Labels = None,
    edges: options.Edges = None,
    calibration: options.CalibrationFile = None,
    min_confidence: options.MinConfidence = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Align every utterance of SOURCE with its transcript.

    Stop it as you like: the same command goes on where it stopped. DIR/journal.jsonl says what became of each
    utterance, DIR/summary.json of them all. Exits with 1 if an utterance failed, else with 3 if one is in doubt by
    --min-confidence.
    """
    from ctc_align.cli.align import check_files, source_log_probs
    from ctc_align.config import load_settings

    talk = Talk(quiet=quiet, verbose=verbose)
    if summary is not None:
        sum_up(summary, source, talk)
        return
    if source is None or source == "":
        raise UsageError("SOURCE: expected a manifest or a folder; see ctc-align corpus --help")
    if not out_dir:
        raise UsageError("--out-dir: a corpus needs a folder for its outputs and its journal")
    check_files({"--lexicon": lexicon, "--calibration": calibration, "--vocab": vocab})
    reader = source_log_probs(source, vocab, frame_shift, blank, model)
    settings = load_settings(
        config,
        assignments,
        times=times,
        labels=labels,
        edges=edges,
        calibration=calibration,
        min_confidence=min_confidence,
        language=language,
        romanize=romanize,
        words_by=words_by,
        unknown=unknown,
        revision=revision,
        cache_dir=cache_dir,
    )

    from ctc_align.corpus.engine.worker_pools import CrewSettings
    from ctc_align.corpus.outputs.layout import OutputSettings
    from ctc_align.corpus.run import CorpusRun
    from ctc_align.formats import parse_formats

    outputs = OutputSettings(
        out_dir,
        layout=layout,
        formats=() if format is None else parse_formats(format),
        shard_size=shard_size,
        manifests=_listed(manifest),
        cut=by if cut_audio else "",
        pause_s=pause_s,
    )
    run = CorpusRun(
        source=source,
        out_dir=out_dir,
        kind=kind,
        model=None if reader else model or "english",
        lexicon=lexicon,
        device=device,
        backend=backend,
        settings=settings,
        outputs=outputs,
        shard=parse_shard(shard),
        crew=CrewSettings(engine, workers, address, gpus_per_worker),
        batch_seconds=batch_seconds,
        retry_failed=retry_failed,
        force=force,
        inputs=tuple(path for path in (source, lexicon, config, calibration, vocab) if path is not None),
        profile=profile,
        log_probs=reader,
    )
    align_all(run, talk)


def _listed(names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip().casefold() for name in (names or "").split(",") if name.strip()))


def parse_shard(text: str | None) -> Shard:
    """
    >>> parse_shard("1/4")
    Shard(index=1, count=4)
    """
    from ctc_align.corpus.state.journal import Shard

    if text is None:
        return Shard()
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip(), re.ASCII)
    if match is None or not int(match[1]) < int(match[2]):
        raise UsageError(f"--shard: expected I/N with I from 0 to N - 1, got {text!r}")
    return Shard(int(match[1]), int(match[2]))


def align_all(run: CorpusRun, talk: Talk) -> None:
    """Run, say what happened, and leave with the exit code that says it too."""
    from ctc_align.corpus.run import run_corpus

    talk.listen()
    try:
        with Watching(talk) as watching:
            ended = run_corpus(run, watching)
    except KeyboardInterrupt:
        raise Interrupted("interrupted: what the journal says is done; the same command goes on from there") from None
    name_failures(ended.summary, ended.journal, talk)
    if not talk.quiet:
        from ctc_align.cli.corpus_tables import print_profile, print_summary

        print_summary(ended.summary)
        if run.profile:
            print_profile(ended.summary.run)
    if ended.interrupted:
        raise Interrupted(where_it_stands(ended))
    leave(ended.summary)


def leave(summary: Summary) -> None:
    """Exit with 1 where something failed, else with 3 where something is in doubt."""
    if summary.failed:
        raise typer.Exit(1)
    if summary.in_doubt:
        raise typer.Exit(THRESHOLD_NOT_MET)


def where_it_stands(ended: Ended) -> str:
    done = counted(ended.summary.done, "utterance is", "utterances are")
    return f"interrupted: {done} done; the same command goes on from there"


def name_failures(summary: Summary, journal: Path, talk: Talk) -> None:
    """Each failure with its reason, one a line; these are errors and said even when quiet."""
    import sys

    from ctc_align.cli.tables import printable

    for failure in summary.failures[:_NAMED]:
        line = " ".join(f"{failure['utterance']}: {failure['reason']}".split())
        print(f"ctc-align: {printable(line)}".encode("utf-8", "replace").decode(), file=sys.stderr)
    more = summary.failed - len(summary.failures[:_NAMED])
    if more > 0:
        print(f"ctc-align: and {more} more that failed: see {journal}", file=sys.stderr)


def sum_up(folder: str, source: str | None, talk: Talk) -> None:
    """`--summary DIR`: the table on stdout, `summary.json` beside the journals."""
    import sys

    from ctc_align.cli.corpus_tables import print_summary
    from ctc_align.corpus.state.journal import Shard
    from ctc_align.corpus.state.summary import joined, summary_path

    if source is not None:
        raise UsageError(f"--summary {folder}: takes no SOURCE, got {source}: it reads the journals alone")
    summary, notes = joined(Path(folder))
    for note in notes:
        talk.note(note)
    summary.write(summary_path(Path(folder), Shard()))
    name_failures(summary, Path(folder) / "journal*.jsonl", talk)
    print_summary(summary, sys.stdout)
    leave(summary)


class Watching:
    """The progress of a run on stderr: a display on a terminal, a line now and then elsewhere."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self._display: Any = None
        self._said = time.monotonic()

    def __enter__(self) -> Watching:
        if self.talk.on_terminal and not self.talk.quiet:
            from ctc_align.cli.corpus_tables import Display

            self._display = Display()
            self._display.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._display is not None:
            self._display.__exit__(*error)

    def progress(self, tally: Tally) -> None:
        if self._display is not None:
            self._display.show(tally)
        elif time.monotonic() - self._said >= _LINE_EVERY_S:
            from ctc_align.cli.corpus_tables import progress_line

            self._said = time.monotonic()
            self.talk.say(f"ctc-align: {progress_line(tally)}")

    def warn(self, line: str) -> None:
        from ctc_align.cli.tables import printable

        self.talk.say(f"ctc-align: warning: {printable(line)}")
