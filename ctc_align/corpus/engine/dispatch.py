"""The engine of a corpus run.

It reads the source ahead, gives batches to workers, and records the outcome of each utterance.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from array import array
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ctc_align.corpus.engine.batches import (
    Finished,
    Job,
    Outcome,
    Pool,
    Report,
    WorkerDied,
    batches_by_length,
    windows,
)
from ctc_align.corpus.engine.suspects import BatchQueue
from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.state.journal import DONE, FAILED, GONE, Journal, Line, line_key, now
from ctc_align.corpus.state.resume import Fingerprints, Outcomes, index_of
from ctc_align.errors import AudioError, CtcAlignError
from ctc_align.models.log_probs import estimated_seconds, is_log_probs_path
from ctc_align.sources.utterance import Checksum, Refused, Utterance, UtteranceResult
from ctc_align.text.note_kinds import kind_of

_WINDOWS_AHEAD = 1
_READERS = 8
"""Threads that read headers."""
_TICK_S = 0.2
_MOST_WAITING, _MOST_JOBS_WAITING = 64, 4096
"""If this many batches, or utterances in them, are waiting, no further window is read ahead."""
logger = logging.getLogger(__name__)


class Planner:
    """Reads the source ahead in a thread, window by window.

    Without `outcomes` the whole source is done again.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        outcomes: Outcomes | None,
        prints: Fingerprints,
        *,
        retry_failed: bool,
    ) -> None:
        self._jobs = jobs
        self._retry_failed = retry_failed
        self._outcomes = outcomes
        self._prints = prints
        self._queue: queue.Queue[list[Job] | BaseException | None] = queue.Queue(_WINDOWS_AHEAD)
        self._ended = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Planner:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._abandoned.set()
        self._thread.join(timeout=1.0)

    @property
    def is_over(self) -> bool:
        return self._ended

    def has_window(self) -> bool:
        return not self._ended and not self._queue.empty()

    def window(self) -> list[Job]:
        """Return the next window, [] at the end of the source; raise the error of reading it."""
        window = self._queue.get()
        if window is None:
            self._ended = True
            return []
        if isinstance(window, BaseException):
            raise window
        return window

    def _read(self) -> None:
        try:
            with ThreadPoolExecutor(_READERS) as readers:
                for window in windows(self._jobs):
                    self._put(self._planned(window, readers))
                self._put(None)
        except _Abandoned:
            pass
        except BaseException as error:
            with contextlib.suppress(_Abandoned):
                self._put(error)

    def _put(self, window: list[Job] | BaseException | None) -> None:
        while not self._abandoned.is_set():
            try:
                self._queue.put(window, timeout=_TICK_S)
                return
            except queue.Full:
                continue
        raise _Abandoned

    def _planned(self, window: list[Job], readers: ThreadPoolExecutor) -> list[Job]:
        """Return the jobs of a window with their statuses.

        They have all their lengths if anything is to be done.
        """
        planned = list(map(self._with_status, window))
        if not any(job.todo for job in planned if isinstance(job.entry, Utterance)):
            return planned
        return list(readers.map(_with_length, planned))

    def _with_status(self, job: Job) -> Job:
        if isinstance(job.entry, Refused):
            return job
        fingerprint = self._prints.of(job.entry, job.group)
        known = None
        if self._outcomes is not None:
            known = self._outcomes.find(line_key(job.entry.id))
        status = None
        if known is not None and known[1] == fingerprint:
            status = known[0]
        if status == FAILED and self._retry_failed:
            status = None
        return replace(job, fingerprint=fingerprint, status=status)


def _with_length(job: Job) -> Job:
    """Return the job with its length; 0 means that it is not known yet."""
    if isinstance(job.entry, Refused) or job.length_s:
        return job
    return replace(job, length_s=length_of(job.entry))


class _Abandoned(Exception):
    """The engine has ended before the source."""


def length_of(utterance: Utterance) -> float:
    """Return the length of an utterance in seconds.

    It is the source's, else an estimate by the file, else 0.
    """
    if utterance.duration_s is not None:
        return utterance.duration_s
    from ctc_align.audio.loading import estimated_duration_s

    try:
        if is_log_probs_path(utterance.audio):
            return max(0.0, estimated_seconds(utterance.audio) - utterance.offset_s)
        return max(0.0, estimated_duration_s(utterance.audio) - utterance.offset_s)
    except (AudioError, OSError, ValueError):  # the worker that reads it reports what is wrong
        return 0.0


@dataclass
class Tally:
    """Counts of a run so far.

    `failed` includes failures of earlier runs that are not tried again; `worked` counts the
    utterances that workers processed in this run, `audio_s` the audio that they aligned; `total` is
    None until it is known.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    worked: int = 0
    audio_s: float = 0.0
    total: int | None = None
    started: float = field(default_factory=time.monotonic)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def finished(self) -> int:
        return self.done + self.failed + self.skipped

    @property
    def times_real_time(self) -> float:
        """Hours of audio per hour."""
        return self.audio_s / max(self.wall_s, 1e-9)

    @property
    def left_s(self) -> float | None:
        """The remaining seconds, None if they cannot be estimated."""
        if self.total is None or not self.worked:
            return None
        return (self.total - self.finished) * self.wall_s / self.worked


class Observer(Protocol):
    """Shows the progress and the warnings of a run."""

    def progress(self, tally: Tally) -> None:
        """Show how far the run is; called often."""

    def warn(self, line: str) -> None:
        """Show a warning, which does not count as a failure."""


class Engine:
    """One run over the entries of a source.

    `keys` are their journal keys so far; `force` redoes everything.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        prints: Fingerprints,
        assembly: Assembly,
        observer: Observer,
        *,
        batch_seconds: float,
        retry_failed: bool = False,
        force: bool = False,
    ) -> None:
        self.batch_seconds = batch_seconds
        self.retry_failed = retry_failed
        self.force = force
        self.outcomes = outcomes
        self.prints = prints
        self.assembly = assembly
        self.observer = observer
        self.tally = Tally()
        self.keys = array("Q")
        self.stopping = False
        self._refused = array("Q")
        """The keys of refused lines of the source."""
        self._batches = BatchQueue()
        self._warned: set[str] = set()

    def run(self, jobs: Iterable[Job], pool: Pool, journal: Journal) -> None:
        """Process the whole source, or only finish the workers' batches once `stopping` is set.

        Raises:
            OutputError: outputs, journal or the pending parts cannot be written; what is in the
                journal is safe.
            UsageError, BackendError: workers cannot start.
        """
        self._journal = journal
        known = None if self.force else self.outcomes
        with Planner(jobs, known, self.prints, retry_failed=self.retry_failed) as planner:
            while True:
                while not self.stopping and self._may_read_ahead() and planner.has_window():
                    self._take(planner.window())
                if planner.is_over and not self._batches.waiting and not pool.busy:
                    self._batches.conclude()
                self._record_confirmed()
                if not self.stopping:
                    self._batches.give(pool)
                done = not self._batches and planner.is_over
                if not pool.busy and (done or self.stopping):
                    return
                starved = not (self.stopping or self._batches.waiting or planner.is_over)
                self._handle(list(pool.events(0.02 if starved else _TICK_S)))
                self.observer.progress(self.tally)

    def _may_read_ahead(self) -> bool:
        """Return whether the next window may be taken, because waiting windows are in memory."""
        waiting = self._batches.waiting
        jobs = sum(len(batch.jobs) for batch in waiting)
        return len(waiting) < _MOST_WAITING and jobs < _MOST_JOBS_WAITING

    def _take(self, window: list[Job]) -> None:
        """Announce the utterances of a window, and divide the work into batches."""
        jobs = [self._with_outcome(job) for job in window if isinstance(job.entry, Utterance)]
        if any(job.todo for job in jobs):
            jobs = list(map(_with_length, jobs))
        self._refuse([job.entry for job in window if isinstance(job.entry, Refused)])
        for indices in batches_by_length([job.length_s for job in jobs], self.batch_seconds):
            if any(jobs[i].todo for i in indices):
                # those that failed are in the plan, but not read again
                self._batches.add(jobs[i] for i in indices if jobs[i].status != FAILED)

    def _with_outcome(self, job: Job) -> Job:
        """Return the job of an utterance with its valid earlier outcome, and announce both."""
        utterance, status = job.utterance, job.status
        self.keys.append(line_key(utterance.id))
        line = None
        if status != FAILED:
            line = self.outcomes.line(line_key(utterance.id))
        if status == DONE:
            status = None
            if self.assembly.present(job.index, utterance, line):
                status = DONE
        self.assembly.announce(
            job.index, utterance, None if status is None else status == DONE, line
        )
        if status == DONE:
            self.tally.skipped += 1
        elif status == FAILED:
            self.tally.failed += 1
        job = replace(job, status=status, recorded=self._recorded(line) if status is None else None)
        if status == DONE:
            self._batches.know_good(job, earlier=True)
        return job

    def _recorded(self, line: Line | None) -> Mapping[str, Checksum] | None:
        """Return the files of an utterance as its line has them.

        `force` replaces those that no run wrote.
        """
        if line is None or line.status == FAILED:
            return None if self.force else {}
        return line.result.files

    def _refuse(self, refused: Sequence[Refused]) -> None:
        """Record refused entries of the source as failed, each once in the journal."""
        lines = []
        for entry in refused:
            says = line_key(entry.reason)
            line = Line(
                entry.id,
                FAILED,
                entry.reason,
                fingerprint=f"{says:016x}",
                time=now(),
                origin=entry.origin,
            )
            self.keys.append(line.key)
            self._refused.append(line_key(entry.id))
            if self.outcomes.find(line.key) != (FAILED, says):
                lines.append(line)
        if lines:
            self._journal.append(lines)
        self.tally.failed += len(refused)

    def settle_entries(self, file: str) -> None:
        """Mark earlier lines about a source's entries that are no longer true as gone.

        This happens at the end of the whole source. Such lines are outcomes of utterances that are
        refused now, and refusals of entries that were corrected or moved. The files of the former
        are removed. If the refused entry only repeats an utterance's id, the files stay.

        Args:
            file: the name of the source if it is one file: refusals of its lines belong to it,
                whatever their ids.
        """
        here = np.sort(np.array(self.keys, np.uint64))
        ids = np.sort(np.array(self.keys + self._refused, np.uint64))
        gone = []
        for line in self.outcomes.refused():
            is_own = index_of(line_key(line.id), ids) is not None
            is_own |= file != "" and (line.origin or "").startswith(f"{file}, line ")
            if is_own and index_of(line.key, here) is None:
                gone.append(line)
        for key in self._refused:
            earlier = None
            if index_of(key, here) is None:
                earlier = self.outcomes.line(key)
            if earlier is not None:
                self.assembly.remove_recorded(earlier)
                gone.append(earlier)
        if gone:
            self._journal.append(
                [
                    Line(one.id, GONE, fingerprint=one.fingerprint, time=now(), origin=one.origin)
                    for one in gone
                ]
            )

    def _handle(self, events: Sequence[Report]) -> None:
        """Record all finished batches together, with one wait for the disk."""
        done = [event for event in events if isinstance(event, Finished)]
        jobs: list[Job] = []
        for each in done:
            jobs += self._batches.done(each.number).jobs
            for line in each.warnings:  # at once only the first of a kind; the journal has all
                kind = kind_of(line.removeprefix("note: "))
                if kind not in self._warned:
                    self._warned.add(kind)
                    self.observer.warn(line)
            for stage, seconds in each.seconds.items():
                self.tally.stages[stage] = self.tally.stages.get(stage, 0.0) + seconds
        self._record(jobs, [outcome for each in done for outcome in each.outcomes])
        for event in events:
            if isinstance(event, CtcAlignError):
                raise event
            if isinstance(event, WorkerDied):
                self._batches.take_back(event)

    def _record(self, jobs: Iterable[Job], outcomes: Sequence[Outcome]) -> None:
        """Write pending parts, then the journal, then assemble.

        In this order a kill at any moment loses nothing.
        """
        if not outcomes:
            return
        by_index = {job.index: job for job in jobs}
        pairs = [(by_index[outcome.index], outcome) for outcome in outcomes]
        self._journal.check()
        for job, outcome in pairs:
            if outcome.status == FAILED:
                self.assembly.remove_stale(
                    job.utterance, self.outcomes.line(line_key(job.utterance.id))
                )
        self.assembly.store_pending(
            (job.utterance.id, o.pending) for job, o in pairs if o.status == DONE
        )
        finished = now()
        self._journal.append(
            [
                Line(
                    job.utterance.id,
                    outcome.status,
                    outcome.reason,
                    outcome.result,
                    f"{job.fingerprint:016x}",
                    finished,
                )
                for job, outcome in pairs
            ]
        )
        self.tally.worked += len(pairs)
        self.assembly.moved_aside.add(
            *(name for _, outcome in pairs for name in outcome.moved_aside)
        )
        for job, outcome in pairs:
            self.assembly.settle(job.index, outcome.status == DONE)
            if outcome.status == DONE:
                self._batches.know_good(job)
                self.tally.done += 1
                self.tally.audio_s += outcome.result.duration_s or 0.0
            else:
                self.tally.failed += 1

    def _record_confirmed(self) -> None:
        """Record the utterances that killed their workers."""
        for job, reason in self._batches.confirmed():
            self.assembly.forget(job.utterance)
            self._record(
                [job],
                [Outcome(job.index, FAILED, reason, UtteranceResult(book=job.utterance.book_path))],
            )
