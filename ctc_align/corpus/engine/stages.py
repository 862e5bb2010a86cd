"""The work on a batch, in three stages that may overlap from batch to batch: read, compute, write.

An error of an utterance stays with its job, and becomes the outcome of the utterance in
`Stages.write`.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ctc_align.config import Settings
from ctc_align.corpus.engine.batches import Finished, Outcome
from ctc_align.corpus.outputs.records import file_checksum
from ctc_align.corpus.state.journal import DONE, FAILED
from ctc_align.corpus.state.shared_texts import text_hash
from ctc_align.errors import NOTE, CtcAlignError, InputError, LostFolderError, OutputError
from ctc_align.files.cues import fast_cues, limit_notes
from ctc_align.files.folder_lock import exclusive
from ctc_align.files.whole_files import write_to_disk
from ctc_align.files.writer import Style
from ctc_align.models import AUTO, UNIVERSAL
from ctc_align.models.log_probs import LogProbsReader, file_of, is_log_probs_path
from ctc_align.sources.utterance import UtteranceResult
from ctc_align.text.encodings import decoding_note
from ctc_align.threads import begin_process, set_thread_count
from ctc_align.types import ALIGNED, SKIPPED, SoundChoice

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.corpus.engine.batches import Job, UtteranceBatch
    from ctc_align.corpus.outputs.layout import Layout
    from ctc_align.sources.utterance import Checksum, Doubt, Utterance
    from ctc_align.types import Alignment, Audio, Emissions

STAGES = ("reading", "waiting", "model", "kernels", "words", "writing")
"""Reading and writing each have a thread; the other stages follow each other in a third one."""
_OF_ONE_UTTERANCE = (
    "ENAMETOOLONG",
    "ENOTDIR",
    "EISDIR",
    "EEXIST",
    "ENOENT",
    "EINVAL",
    "EILSEQ",
    "ENOTEMPTY",
    "ELOOP",
)
"""Errors that concern one utterance; any other (a full disk, no permission) concerns them all."""

_FEWEST_LEFT_OUT, _MOST_LEFT_OUT = 4, 100
"""The least words, and the most stretches, that a recording's omissions name.

They are the stretches that a recording of a part of a text leaves out.
"""


@dataclass
class JobState:
    """A job under way: what was read, and its result or the reason why it failed.

    `seconds` is the work so far. `audio` is the checksum of the file that was read; `notes` are the
    warnings about the utterance. The error itself is not kept, because its traceback holds what was
    read.
    """

    job: Job
    source: Audio | Emissions | None = None
    result: Any = None
    reason: str | None = None
    seconds: float = 0.0
    audio: Checksum | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class BatchState:
    """A batch under way, with busy seconds by stage."""

    batch: UtteranceBatch
    jobs: list[JobState] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))


class Task(Protocol):
    """The work on utterances: aligning them, or scoring their transcripts."""

    def compute(
        self, aligner: Aligner, jobs: Sequence[JobState], timings: dict[str, float]
    ) -> Sequence[Any]:
        """Return the result, or the error, of each of the jobs, which have been read."""

    def write(self, state: JobState) -> Outcome:
        """Return the outcome of a job that has a result, with its outputs in place.

        It raises CtcAlignError if that fails.
        """

    def sync_outputs(self, outcomes: Sequence[Outcome]) -> None:
        """Flush a batch's outputs to the disk, so that they survive a power failure.

        It raises OutputError if that fails.
        """


@dataclass(frozen=True)
class AlignTask:
    """Aligns utterances, and writes their outputs as the layout says.

    `by_text`: the run names no language, so the language of each text decides, unless the source
    names one.
    """

    layout: Layout
    by_text: bool = False

    def compute(
        self, aligner: Aligner, jobs: Sequence[JobState], timings: dict[str, float]
    ) -> Sequence[Alignment | CtcAlignError]:
        """Return the alignments.

        If a recording reads a part of a text, its alignment is that of this part.
        """
        if len(jobs) > 1 and any(state.job.utterance.book is not None for state in jobs):
            # one by one: the words of a whole book for each would lie in memory together
            return [one for state in jobs for one in self.compute(aligner, [state], timings)]
        pairs = [(source_of(state), state.job.utterance.spoken) for state in jobs]
        names = [state.job.utterance.id for state in jobs]
        found = aligner.align_batch(pairs, on_error="return", utterances=names, timings=timings)
        return [_of_its_part(one, state.job.utterance, aligner) for one, state in zip(found, jobs)]

    def write(self, state: JobState) -> Outcome:
        """Write the outputs of an alignment."""
        job = state.job
        utterance = state.job.utterance
        started = time.perf_counter()
        alignment = replace(
            state.result, utterance=utterance.id, audio=utterance.audio, offset_s=utterance.offset_s
        )
        style = Style.of(alignment.config)
        placed = self.layout.place(job.index, utterance, alignment, job.recorded)
        seconds = state.seconds + time.perf_counter() - started
        result = UtteranceResult(
            loss=_finite(alignment.loss),
            seconds=round(seconds, 4),
            loss_per_token=_finite(alignment.loss_per_token),
            duration_s=alignment.duration_s,
            doubt=_doubt(alignment),
            fit=alignment.fit,
            skipped=alignment.skipped,
            words=alignment.spoken,
            too_many_skipped=alignment.too_many_skipped or None,
            unexplained_s=round(alignment.unexplained_s, 3) or None,
            looks=self._looks(alignment, utterance),
            text=text_hash(utterance.text, alignment.spoken) if utterance.book is None else None,
            book=utterance.book_path,
            part=_part(alignment),
            left_out=_left_out(alignment),
            files=placed.files,
            row=placed.row,
            local_loss=_finite(alignment.local_loss),
            audio=state.audio,
            fast_cues=len(fast_cues(alignment, style, self.layout.formats_written)) or None,
            notes=_notes(state, limit_notes(alignment, style, self.layout.formats_written)),
        )
        return Outcome(
            job.index,
            DONE,
            result=result,
            pending=placed.pending,
            moved_aside=tuple(placed.moved_aside),
        )

    def _looks(self, alignment: Alignment, utterance: Utterance) -> str | None:
        """Return the detected language of the text if it led to the model `universal`.

        Otherwise return None.
        """
        chosen = self.by_text and alignment.model == UNIVERSAL and not utterance.language
        if chosen:
            return str(alignment.config.get("language"))
        return None

    def sync_outputs(self, outcomes: Sequence[Outcome]) -> None:
        """Write the files of a batch to the disk."""
        out_dir = Path(self.layout.out_dir)
        try:
            write_to_disk(
                out_dir, [name for outcome in outcomes for name in outcome.result.files or ()]
            )
        except OSError as error:
            raise OutputError(
                f"{out_dir}: writing to the disk failed ({error.strerror or error})"
            ) from error


@dataclass(frozen=True)
class WorkerOptions:
    """The options of a run that workers need: what they do, the model, and where it runs.

    `log_probs` reads log-probs, which replace the model; `compile_lock` is a lock file, so that one
    worker compiles while the others wait ("" for none); `shared_kernels` is a folder for compiled
    kernels if there is no other ("" for none).
    """

    task: Task
    model: str | None = AUTO
    lexicon: str | None = None
    device: str = "auto"
    backend: str = "auto"
    settings: Settings = field(default_factory=Settings)
    threads: int = 1
    log_probs: LogProbsReader | None = None
    compile_lock: str = ""
    shared_kernels: str = ""


_LANGUAGE_CHARS = 2000
"""The start of a text that decides its language, for the audio track."""


class WarningCollector(logging.Handler):
    """Collects the library's warnings in a worker, for the parent."""

    def __init__(self) -> None:
        super().__init__(NOTE)
        self._lines: list[str] = []
        self._about: ContextVar[list[str] | None] = ContextVar("about", default=None)
        logger = logging.getLogger("ctc_align")
        logger.addHandler(self)
        logger.setLevel(min(logger.getEffectiveLevel(), NOTE))
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        self._lines.append("note: " * (record.levelno == NOTE) + text)
        about = self._about.get()
        if about is not None:
            about.append(text)

    @contextlib.contextmanager
    def about(self, notes: list[str]) -> Iterator[None]:
        """Also append what this thread logs during the block to the notes of an utterance."""
        token = self._about.set(notes)
        try:
            yield
        finally:
            self._about.reset(token)

    def take(self) -> tuple[str, ...]:
        """Return the lines since the last call."""
        lines = self._lines
        self._lines = []
        return tuple(lines)


class Stages:
    """The three stages of a worker, with its model.

    One thread at a time may call `compute`, any number the others.

    Raises:
        CtcAlignError: a model or device that cannot be used.
    """

    def __init__(
        self,
        options: WorkerOptions,
        aligner: Aligner | None = None,
        warnings: WarningCollector | None = None,
    ) -> None:
        self.task = options.task
        self.warnings = warnings
        self._turn = threading.Lock()
        if aligner is None:
            self.aligner = load_aligner(options)
        else:
            self.aligner = aligner
        if self.aligner.model:
            self.sample_rate = self.aligner.model.sample_rate
        else:
            self.sample_rate = 16000
        self.log_probs = options.log_probs

    def work(self, batch: UtteranceBatch) -> Finished | CtcAlignError:
        """Process a batch; calls may overlap, but compute one after the other."""
        state = self.read(batch)
        with self._turn:
            self.compute(state)
        return self.write(state)

    def read(self, batch: UtteranceBatch) -> BatchState:
        """Read the audio or the log-probs of a batch."""
        batch_state = BatchState(batch)
        before = time.thread_time()
        for job in batch.jobs:
            state = JobState(job)
            started = time.perf_counter()
            try:
                with self._noting(state.notes):
                    state.source = read_utterance(
                        job.utterance, self.sample_rate, self.log_probs, self._choice(job.utterance)
                    )
                state.audio = file_checksum(file_of(job.utterance.audio))
            except Exception as error:  # whatever it is, it concerns this file
                state.reason = reason_of(error, job.utterance.id)
            state.seconds = time.perf_counter() - started
            batch_state.jobs.append(state)
        batch_state.stages["reading"] = time.thread_time() - before
        return batch_state

    def _choice(self, utterance: Utterance) -> SoundChoice:
        """Return the channel and the audio track of an utterance.

        Of several tracks it is the one in the transcript's language.
        """
        from ctc_align.alignment.aligner import find_choice

        choice = find_choice(self.aligner)
        language = utterance.language or choice.language_of(utterance.text[:_LANGUAGE_CHARS])
        return SoundChoice(
            utterance.channel, self.aligner.settings.track, choice.track_language(language)
        )

    def compute(self, batch_state: BatchState) -> None:
        """Compute the results of a batch that has been read."""
        started = time.perf_counter()
        timings: dict[str, float] = {}
        jobs = [state for state in batch_state.jobs if state.reason is None]
        if jobs:
            self._compute(jobs, timings)
        spent = time.perf_counter() - started
        for state in batch_state.jobs:
            state.source = None  # the audio is no longer needed
        padded = sum(state.job.length_s for state in jobs) or 1.0
        for state in jobs:
            state.seconds += spent * (state.job.length_s / padded)
        stages = {stage: timings.get(stage, 0.0) for stage in ("model", "kernels")}
        batch_state.stages.update(stages, words=max(0.0, spent - sum(stages.values())))

    def _compute(self, jobs: Sequence[JobState], timings: dict[str, float]) -> None:
        """Compute results together.

        After an error that no single utterance raised, compute them one by one.
        """
        notes: list[str] = []
        try:
            with self._noting(notes):
                results = self.task.compute(self.aligner, jobs, timings)
            for state, result in zip(jobs, results):
                state.notes += (note for note in notes if _is_about(note, state, len(jobs) == 1))
                if isinstance(result, CtcAlignError):
                    state.reason = reason_of(result, state.job.utterance.id)
                else:
                    state.result = result
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].reason = reason_of(error, jobs[0].job.utterance.id)
                return
            for state in jobs:
                self._compute([state], timings)

    def write(self, batch_state: BatchState) -> Finished | CtcAlignError:
        """Write the outputs of a batch, and return the outcomes of its jobs."""
        before = time.thread_time()
        outcomes = []
        for state in batch_state.jobs:
            if not state.job.todo:
                continue
            try:
                outcomes.append(self._outcome(state))
            except OutputError as error:
                return error
        try:
            self.task.sync_outputs(outcomes)
        except OutputError as error:
            return error
        batch_state.stages["writing"] = time.thread_time() - before
        if self.warnings is not None:
            warnings = self.warnings.take()
        else:
            warnings = ()
        return Finished(batch_state.batch.number, tuple(outcomes), batch_state.stages, warnings)

    def _outcome(self, state: JobState) -> Outcome:
        """Return the outcome of a job, written or failed.

        It raises OutputError for errors that concern other jobs, too.
        """
        utterance = state.job.utterance
        reason = state.reason
        if reason is None:
            try:
                with self._noting(state.notes):
                    return self.task.write(state)
            except OutputError as error:
                if isinstance(error, LostFolderError) or not _is_of_one_utterance(error):
                    raise
                reason = reason_of(error, utterance.id)
            except CtcAlignError as error:
                reason = reason_of(error, utterance.id)
        result = UtteranceResult(
            seconds=round(state.seconds, 4), book=utterance.book_path, notes=_notes(state)
        )
        return Outcome(state.job.index, FAILED, reason, result)

    def _noting(self, notes: list[str]) -> contextlib.AbstractContextManager[None]:
        """Also append what is logged during a block to the notes of an utterance."""
        return contextlib.nullcontext() if self.warnings is None else self.warnings.about(notes)


def read_utterance(
    utterance: Utterance, sample_rate: int, log_probs: LogProbsReader | None, choice: SoundChoice
) -> Audio | Emissions:
    """Return the sound of an utterance at `sample_rate`, or its log-probs.

    `choice` selects channel and track of the sound; `log_probs` reads log-probs.

    Raises:
        InputError: the file cannot be read, or this run expects log-probs and got sound, or vice
            versa.
        UsageError: a reader of this kind of file is not installed.
    """
    from ctc_align.audio.loading import load_audio

    if is_log_probs_path(utterance.audio):
        if log_probs is None:
            raise InputError(
                f"{utterance.audio}: log-probs need --vocab FILE and --frame-shift SECONDS"
            )
        return log_probs.read(
            utterance.audio, offset_s=utterance.offset_s, duration_s=utterance.duration_s
        )
    if log_probs is not None:
        raise InputError(
            f"{utterance.audio}: expected log-probs, got sound: omit --vocab and --frame-shift for"
            " sound"
        )
    return load_audio(
        utterance.audio,
        sample_rate,
        offset_s=utterance.offset_s,
        duration_s=utterance.duration_s,
        choice=choice,
        on_disk=True,
    )


def prepare_process(options: WorkerOptions) -> None:
    """Set the environment variables that libraries read when they are loaded.

    The threads of torch are set by `load_aligner`.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(options.threads)
    begin_process()
    if options.shared_kernels:
        os.environ["CTC_ALIGN_SHARED_KERNELS"] = options.shared_kernels


def new_aligner(options: WorkerOptions) -> Aligner:
    """Return an aligner with these options."""
    from ctc_align.alignment.aligner import Aligner

    return Aligner(
        options.model,
        device=options.device,
        backend=options.backend,
        lexicon=options.lexicon,
        settings=options.settings,
    )


def load_aligner(options: WorkerOptions) -> Aligner:
    """Return the aligner of a worker process."""
    set_thread_count(options.threads)
    aligner = new_aligner(options)
    if options.compile_lock:
        _compile_once(aligner, Path(options.compile_lock))
    return aligner


def _compile_once(aligner: Aligner, lock: Path) -> None:
    """Compile the kernels on a machine that has not aligned before.

    One worker compiles while the others wait.
    """
    from ctc_align.kernels.cpu.cpu_backend import compile_at_once, is_compiled

    if is_compiled() or aligner.model is None:
        return
    compile_at_once()
    import numpy as np

    with (
        exclusive(lock) if lock.parent.is_dir() else contextlib.nullcontext()
    ):  # a folder that is gone stays so
        if not is_compiled():
            rate = aligner.model.sample_rate
            noise = np.random.default_rng(0).normal(0.0, 0.1, rate).astype(np.float32)
            aligner.align_batch([((noise, rate), "a")], on_error="return")


def reason_of(error: Exception, name: str) -> str:
    """Return the message of an error as one line, without the utterance's name at the beginning."""
    text = " ".join(str(error).split()).removeprefix(f"{name}: ")
    if isinstance(error, CtcAlignError) and text:
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


def _is_about(note: str, state: JobState, is_alone: bool) -> bool:
    """Return whether a note from a batch is about this job; `is_alone` if the batch has no other."""
    utterance = state.job.utterance
    return is_alone or note.startswith((f"{utterance.id}:", utterance.audio))


def _notes(state: JobState, others: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Return the notes on an utterance for the journal, None if there are none."""
    utterance = state.job.utterance
    notes = [*state.notes, *others]
    if utterance.book is None and (wrong := decoding_note(utterance.text)):
        notes.append(wrong)
    return tuple(dict.fromkeys(notes)) or None


def source_of(state: JobState) -> Audio | Emissions:
    """Return the sound or the log-probs of a job without an error."""
    assert state.source is not None, "a job without an error has been read"
    return state.source


def _part(alignment: Alignment) -> tuple[int, int] | None:
    """Return the characters of a text of many recordings that an alignment covers.

    It is None for any other text.
    """
    start = alignment.text_offset
    if start is None:
        return None
    return (start, start + len(alignment.text))


def _left_out(alignment: Alignment) -> tuple[tuple[int, int], ...] | None:
    """Return the characters of the longest runs of skipped words of a part.

    They count in the text of many recordings.
    """
    shift = alignment.text_offset
    if shift is None:
        return None
    said = [word for word in alignment.words if word.status in (ALIGNED, SKIPPED)]
    runs = [
        list(run)
        for status, run in groupby(said, key=lambda word: word.status)
        if status == SKIPPED
    ]
    runs = sorted((run for run in runs if len(run) >= _FEWEST_LEFT_OUT), key=len, reverse=True)[
        :_MOST_LEFT_OUT
    ]
    spans = sorted((run[0].char_start + shift, run[-1].char_end + shift) for run in runs)
    return tuple(spans) or None


def _of_its_part(
    found: Alignment | CtcAlignError, utterance: Utterance, aligner: Aligner
) -> Alignment | CtcAlignError:
    """Return the alignment of the part that the recording reads.

    The alignment stays as it is unless many recordings share its text.
    """
    from ctc_align.alignment.aligner import find_aligner, find_fit_limits
    from ctc_align.alignment.fit import part_of_text

    if utterance.book is None or isinstance(found, CtcAlignError):
        return found
    language_aligner, _ = find_aligner(aligner, (utterance.book.text,), utterance.book.language)
    return part_of_text(found, find_fit_limits(language_aligner))


def _is_of_one_utterance(error: OutputError) -> bool:
    """Return whether other utterances can be written."""
    cause = error.__cause__
    if not isinstance(cause, OSError):
        return True
    return errno.errorcode.get(cause.errno or 0, "") in _OF_ONE_UTTERANCE


def _doubt(alignment: Alignment) -> Doubt | None:
    """Return what the journal records about a doubtful utterance, None for others."""
    if not alignment.in_doubt:
        return None
    least = min(
        (word.confidence for word in alignment.words if word.confidence is not None), default=None
    )
    return {
        "words": len(alignment.doubtful),
        "unexplained": len(alignment.unexplained),
        "least_confidence": None if least is None else round(least, 6),
    }


def _finite(number: float | None) -> float | None:
    if number is not None and abs(number) < float("inf"):
        return number
    return None
