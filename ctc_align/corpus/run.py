"""One run over a corpus.

Here are its options, the checks before it starts, the run itself, and its summary.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ctc_align.alignment.model_choice import with_calibrated
from ctc_align.config import Settings
from ctc_align.corpus.engine.batches import Job, Pool, jobs_of
from ctc_align.corpus.engine.dispatch import Engine, Observer
from ctc_align.corpus.engine.stages import AlignTask, WorkerOptions
from ctc_align.corpus.engine.worker_pools import PoolSettings, device_for_model, plan_pool
from ctc_align.corpus.outputs.assembly import Assembly, write_manifests
from ctc_align.corpus.outputs.data_sets import write_cut_lists
from ctc_align.corpus.outputs.layout import LJSPEECH, SHARDS, Layout
from ctc_align.corpus.state.journal import (
    DONE,
    Journal,
    journal_path,
    journal_paths,
    line_key,
    shard_of,
)
from ctc_align.corpus.state.output_folder import (
    check_existing,
    clear,
    compiling_path,
    folds_case,
    left_behind,
    make_folder,
    parts_folder,
    remove_folder,
)
from ctc_align.corpus.state.resume import (
    EarlierRows,
    Fingerprints,
    Outcomes,
    log_probs_identity,
    model_identity,
    run_fingerprint,
    verify,
)
from ctc_align.corpus.state.summary import RunStats, Summary, lines_left, summarize, summary_path
from ctc_align.errors import BackendError, LostFolderError, OutputError, UsageError
from ctc_align.files.folder_lock import FolderLock, Shard, lock_path
from ctc_align.machine import BACKENDS
from ctc_align.models import AUTO, ENGLISH, UNIVERSAL, check_model
from ctc_align.models.catalogue import folder_settings, speaks_any
from ctc_align.models.log_probs import LogProbsReader
from ctc_align.reading import is_url
from ctc_align.sources import open_source, with_channel
from ctc_align.sources.utterance import Source, Utterance

BATCH_SECONDS_CPU, BATCH_SECONDS_GPU = 120.0, 1200.0
_GPU_THREADS = 4


@dataclass(frozen=True)
class CorpusRun:
    """The options of a run, those of `ctc-align corpus`.

    Args:
        source, out_dir: the corpus, and the folder of its outputs (also set as `outputs.out_dir`).
        pool: the engine, its workers, and where they are.
        batch_seconds: padded seconds of audio that go through the model together; None: by the
            device.
        retry_failed: repeat failed utterances; force: repeat everything, and replace files that
            were in the folder before the first run. Inputs are never replaced.
        inputs: files of the call beside the source (lexicon, settings), which no output may
            replace.
        profile: write the time of each stage into the summary.
        verify: read all outputs, and repeat utterances whose outputs differ from the journal.
        log_probs: reads the log-probs, if the source has log-probs instead of audio; `model` is
            then None.
        text: path of the text that all recordings of a folder read parts of; "" for none.
    """

    source: str
    out_dir: str
    kind: str | None = None
    model: str | None = AUTO
    lexicon: str | None = None
    device: str = "auto"
    backend: str = "auto"
    settings: Settings = field(default_factory=Settings)
    outputs: Layout = field(default_factory=lambda: Layout(""))
    shard: Shard = field(default_factory=Shard)
    pool: PoolSettings = field(default_factory=PoolSettings)
    batch_seconds: float | None = None
    retry_failed: bool = False
    force: bool = False
    inputs: tuple[str, ...] = ()
    profile: bool = False
    verify: bool = False
    log_probs: LogProbsReader | None = None
    text: str = ""


@dataclass(frozen=True)
class RunResult:
    """The end of a run: its summary, whether it was interrupted, and the files beside the outputs.

    `verified` has the findings of `verify` in outputs of earlier runs, None if they were not read;
    `total` is the number of entries of the source (or its shard), None if the run ended before they
    were counted.
    """

    summary: Summary
    interrupted: bool
    journal: Path
    manifests: list[Path]
    verified: tuple[int, int, int] | None = None
    total: int | None = None


def run_corpus(run: CorpusRun, observer: Observer) -> RunResult:
    """Align a corpus; valid results of earlier runs are kept.

    Raises:
        UsageError: the call is wrong, or another run works in the folder; nothing was changed.
        BackendError: the device, backend or workers cannot run here.
        OutputError: outputs cannot be written any more; what is in the journal is done, and the
            same command continues.
        KeyboardInterrupt: interrupted a second time.
    """
    out_dir = Path(run.out_dir)
    run = _with_model_defaults(run)
    _check(run)
    if run.backend != "gpu" and not run.pool.gpus_per_worker:
        run = replace(run, device=device_for_model(run.model, run.device, observer.warn))
    layout = _layout(run)
    layout.check()
    open_source(
        run.source, run.kind, parts=True, text=run.text, encoding=run.settings.encoding
    )  # a wrong call leaves no folder behind
    if run.model not in (None, AUTO):
        check_model(run.model)
    is_new = not out_dir.exists()
    make_folder(out_dir)
    try:
        return _locked(run, observer, layout, out_dir)
    except (UsageError, BackendError):
        if is_new:
            remove_folder(out_dir, journal_path(out_dir, run.shard))
        raise


def _locked(run: CorpusRun, observer: Observer, layout: Layout, out_dir: Path) -> RunResult:
    with FolderLock(out_dir, run.shard):
        source = open_source(
            run.source,
            run.kind,
            exclude=[run.out_dir],
            fold_case=folds_case(out_dir, run.shard),
            parts=run.settings.match != "exact",
            text=run.text,
            encoding=run.settings.encoding,
        )
        source = with_channel(source, run.settings.channel_number)
        protect = (*layout.protect, *source.files)
        layout = replace(layout, protect=protect)
        check_existing(source, layout, out_dir, force=run.force)
        clear(out_dir, run.shard)
        try:
            result = _run(run, observer, source, layout, out_dir)
        except LostFolderError:
            raise  # what is there may be another run's
        except BaseException:
            clear(out_dir, run.shard)
            raise
        clear(out_dir, run.shard)
        return result


def _run(
    run: CorpusRun, observer: Observer, source: Source, layout: Layout, out_dir: Path
) -> RunResult:
    workers, device, start = plan_pool(
        run.pool, run.device, str(lock_path(out_dir, run.shard)), observer.warn
    )
    is_on_cpu = device == "cpu"
    batch_seconds = run.batch_seconds or (BATCH_SECONDS_CPU if is_on_cpu else BATCH_SECONDS_GPU)
    options = _worker_options(run, layout, out_dir, 1 if is_on_cpu else _GPU_THREADS)
    _make_folder(Path(layout.parts))
    journals = journal_paths(out_dir)
    _warn_of_other_counts(run.shard, journals, observer)
    outcomes = Outcomes(journals, lines_left(journals))
    earlier = EarlierRows(source, outcomes)
    _check_shards(layout, earlier, out_dir)
    path = journal_path(out_dir, run.shard)
    journal = Journal(
        path, lock_path(out_dir, run.shard), outcomes.last_run + 1, outcomes.last_lines.get(path, 0)
    )

    def jobs() -> Iterator[Job]:
        return jobs_of(source, layout.group, run.shard)

    with outcomes, journal, Assembly(layout, earlier) as assembly:
        engine = Engine(
            outcomes, Fingerprints(_fingerprint(run, layout)), assembly, observer,
            batch_seconds=batch_seconds, retry_failed=run.retry_failed, force=run.force,
        )  # fmt: skip
        try:
            verified = _verify(run, jobs, assembly, outcomes, journal)
            with (
                start(options) as pool,
                _stopping(engine, pool),
                _counting(jobs, engine),
            ):
                engine.run(jobs(), pool, journal)
            complete = not engine.stopping
            if complete:
                _finish(run, engine)
            manifests = _manifests(layout, source, run, out_dir) if complete else []
            _warn_of_files_left(engine, layout, out_dir)
            journal.check()
            summary = _summary(run, engine, journal, workers, complete)
            journal.check()
        except LostFolderError as error:
            raise _with_advice(error, engine.tally.finished) from error
        except OutputError as error:
            with contextlib.suppress(OutputError):
                journal.check()
                _summary(run, engine, journal, workers, complete=False)
            raise _with_advice(error, engine.tally.finished) from error
    return RunResult(summary, not complete, path, manifests, verified, engine.tally.total)


def _verify(
    run: CorpusRun,
    jobs: Callable[[], Iterator[Job]],
    assembly: Assembly,
    outcomes: Outcomes,
    journal: Journal,
) -> tuple[int, int, int] | None:
    """Return what `verify` counts, None if nothing needs to be verified."""
    if run.force or not (run.verify or outcomes.has_unsure):
        return None
    return verify(jobs(), assembly.faults, outcomes, journal, run.verify)


def _finish(run: CorpusRun, engine: Engine) -> None:
    """Finish the shared files of a run whose source is at its end."""
    engine.assembly.finish()
    if run.shard.count == 1:  # else the utterance of an id may be another shard's
        engine.settle_entries(os.path.basename(run.source) if os.path.isfile(run.source) else "")
        engine.assembly.remove_moved()


def _warn_of_files_left(engine: Engine, layout: Layout, out_dir: Path) -> None:
    """Warn of outputs that a run does not make, if it has made others."""
    left = left_behind(layout, out_dir) if engine.tally.worked else []
    if left:
        engine.observer.warn(
            f"{out_dir}: {', '.join(left)}: made by an earlier run with other options, and not"
            " brought up to date by this one; give those options again, or remove these files"
        )


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be made ({error.strerror or error})") from error


def _worker_options(run: CorpusRun, layout: Layout, out_dir: Path, threads: int) -> WorkerOptions:
    return WorkerOptions(
        AlignTask(layout, by_text=run.model == AUTO and not run.settings.language),
        run.model,
        run.lexicon,
        run.device,
        run.backend,
        run.settings,
        threads,
        run.log_probs,
        str(compiling_path(out_dir, run.shard.suffix)),
    )


def _warn_of_other_counts(shard: Shard, journals: Sequence[Path], observer: Observer) -> None:
    """Warn if a job of N parts continues a job with another number of parts.

    The folder has results of that job.
    """
    others = sorted({shard_of(path).count for path in journals} - {shard.count})
    if shard.count > 1 and others:
        earlier = " and ".join(
            "a run over all of it" if count == 1 else f"jobs of {count} parts" for count in others
        )
        observer.warn(
            f"--shard {shard.index}/{shard.count}: this folder already has results from {earlier}."
            f" They are kept; to finish, all {shard.count} parts must run"
        )


def _check_shards(layout: Layout, earlier: EarlierRows, out_dir: Path) -> None:
    """Raise UsageError if utterances that the source lacks would be lost.

    Shards in other formats hold them.
    """
    formats = layout.formats_written
    if layout.kind != SHARDS or not any(out_dir.glob("alignments-*.jsonl.gz")):
        return
    has_ctm = any(out_dir.glob("alignments-*.ctm"))
    if has_ctm == ("ctm" in formats) or not (lost := earlier.count()):
        return
    raise UsageError(
        f"--out-dir {out_dir}: its shards hold {lost} utterances that are not in this SOURCE, as"
        f" {'json,ctm' if has_ctm else 'json'}, and this run would write them as"
        f" {','.join(formats)}; give --format {'json,ctm' if has_ctm else 'json'}, or another"
        " --out-dir"
    )


def _with_advice(error: OutputError, finished: int) -> OutputError:
    """Return the error that stopped a run, with what to do."""
    if isinstance(error, LostFolderError):
        return LostFolderError(
            f"{error}\nthe run stopped after {finished} utterances; "
            "run the same command again: it redoes whatever is missing"
        )
    return OutputError(
        f"{error}\nthe run stopped after {finished} utterances, which are kept; fix the problem,"
        " then run the same command to continue"
    )


def _with_model_defaults(run: CorpusRun) -> CorpusRun:
    """Return the run with the model's language and lexicon where it has none.

    Results depend on them.
    """
    run = replace(run, model=with_calibrated(run.model, run.settings))
    if run.model == AUTO or speaks_any(run.model):
        return run  # each text has its own language
    defaults = folder_settings(run.model)
    return replace(
        run,
        lexicon=run.lexicon or defaults.lexicon,
        settings=run.settings.for_language(defaults.language),
    )


def _check(run: CorpusRun) -> None:
    for option, value in (("SOURCE", run.source), ("--out-dir", run.out_dir)):
        if is_url(value):
            raise UsageError(
                f"{option} {value}: expected a path, got a URL: outputs are renamed, and the"
                " journal is locked and appended to, which object stores cannot do; mount it, and"
                " give the path"
            )
    run.pool.check(run.device)
    if run.batch_seconds is not None and not 0 < run.batch_seconds < float("inf"):
        raise UsageError(f"--batch-seconds: expected seconds above 0, got {run.batch_seconds:g}")
    if not 0 <= run.shard.index < run.shard.count:
        raise UsageError(
            f"--shard: expected I/N with I from 0 to N - 1, got {run.shard.index}/{run.shard.count}"
        )
    if (
        os.path.isdir(run.source)
        and os.path.isdir(run.out_dir)
        and os.path.samefile(run.source, run.out_dir)
    ):
        raise UsageError(
            f"--out-dir {run.out_dir}: is the corpus itself; give another folder (or one inside it)"
        )
    if run.log_probs is not None:
        run.log_probs.check()
        if run.outputs.cut or "lhotse" in run.outputs.manifests:
            raise UsageError(
                "--cut-audio and --manifest lhotse need the sound, and this is a run over log-probs"
            )
    if run.text and run.settings.match == "exact":
        raise UsageError(
            f"--text {run.text}: each recording reads a part of it, and --match exact needs all of"
            " it to be read"
        )
    if run.backend not in BACKENDS:
        raise UsageError(f"--backend: expected one of {', '.join(BACKENDS)}, got {run.backend}")


def _layout(run: CorpusRun) -> Layout:
    return replace(
        run.outputs,
        out_dir=run.out_dir,
        times=run.settings.times,
        labels=run.settings.labels,
        job=run.shard.suffix.lstrip("."),
        parts=str(parts_folder(Path(run.out_dir), run.shard.suffix)),
        protect=tuple(dict.fromkeys((*run.outputs.protect, *run.inputs))),
    )


def _fingerprint(run: CorpusRun, layout: Layout) -> str:
    others = (
        layout.kind,
        str(layout.shard_size),
        *layout.manifests,
        layout.cut,
        str(layout.pause_s),
    )
    if layout.data_set == LJSPEECH:  # the other data sets are made of the same files
        others = (*others, layout.data_set)
    if run.log_probs is not None:
        others = (*others, *log_probs_identity(run.log_probs))
    model, settings = run.model, run.settings
    if model == AUTO:
        others = (*others, model_identity(UNIVERSAL), settings.language)
        model = ENGLISH
        settings = settings.for_language()
    return run_fingerprint(model, run.lexicon, settings.to_dict(), layout.formats_written, others)


def _manifests(layout: Layout, source: Source, run: CorpusRun, out_dir: Path) -> list[Path]:
    """Write what is made from the outputs of the whole run; return the paths."""
    if not layout.manifests and not layout.cut:
        return []
    outcomes = Outcomes(journal_paths(out_dir), quiet=True)

    def done() -> Iterator[tuple[int, Utterance]]:
        for item in jobs_of(source, layout.group, run.shard):
            if isinstance(item.entry, Utterance):
                outcome = outcomes.find(line_key(item.entry.id))
                if outcome is not None and outcome[0] == DONE:
                    yield item.index, item.entry

    written = write_manifests(layout, done())
    if layout.cut:
        written += write_cut_lists(layout, done())
    return written


def _summary(
    run: CorpusRun, engine: Engine, journal: Journal, workers: int, complete: bool
) -> Summary:
    out_dir = journal.path.parent
    tally = engine.tally
    if run.profile:
        stages = {stage: round(seconds, 3) for stage, seconds in tally.stages.items()}
    else:
        stages = {}
    stats = RunStats(
        round(tally.wall_s, 3),
        tally.done,
        tally.failed,
        round(tally.audio_s, 3),
        workers,
        stages,
        engine.assembly.left,
        engine.assembly.moved_aside,
    )
    about: dict[str, Any] = {
        "source": run.source,
        "complete": complete,
        "skipped": tally.skipped,
        "run": stats,
    }
    about["journal_lines"] = journal.lines
    if run.shard.count > 1:
        about["shard"] = f"{run.shard.index}/{run.shard.count}"
    summary = summarize(journal_paths(out_dir), engine.keys, **about)
    summary.write(summary_path(out_dir, run.shard), parts_folder(out_dir, run.shard.suffix))
    return summary


@contextlib.contextmanager
def _stopping(engine: Engine, pool: Pool) -> Iterator[None]:
    """At Ctrl-C, SIGTERM or SIGHUP, let the batches in flight finish.

    A second signal ends everything at once. A closing terminal sends SIGHUP, and its shell sends it
    again, so SIGHUP never ends anything at once. If it was ignored before, as by `nohup`, it stays
    ignored.
    """
    hangup = getattr(signal, "SIGHUP", None)

    def stop(number: int, _: Any) -> None:
        if number == hangup:
            _leave_closed_terminal()
        elif engine.stopping:
            pool.kill()
            raise KeyboardInterrupt
        engine.stopping = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:
        numbers.append(hangup)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_closed_terminal() -> None:
    """From now on, drop output to a closed terminal, which would be an error."""
    import select

    for stream in (1, 2):
        watch = select.poll()
        watch.register(stream, 0)
        if os.isatty(stream) or not watch.poll(0):
            continue
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream)
        os.close(nowhere)


@contextlib.contextmanager
def _counting(jobs: Callable[[], Iterator[Any]], engine: Engine) -> Iterator[None]:
    """Count the entries of the source in a thread while the run goes on.

    With the count, the time left can be estimated.
    """
    over = threading.Event()

    def count() -> None:
        total = 0
        with contextlib.suppress(Exception):  # the run itself reports what is wrong
            for _ in jobs():
                total += 1
                if over.is_set():
                    return
            engine.tally.total = total

    threading.Thread(target=count, daemon=True).start()
    try:
        yield
    finally:
        over.set()
