"""The losses of a whole source, streamed.

Batches of similar length run on all cores; results come in the source's order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ctc_align import units
from ctc_align.corpus.engine.batches import (
    Finished,
    Job,
    Outcome,
    Pool,
    Report,
    UtteranceBatch,
    WorkerDied,
    batches_by_length,
)
from ctc_align.corpus.engine.dispatch import length_of
from ctc_align.corpus.engine.stages import JobState, Stages, WorkerOptions, new_aligner, source_of
from ctc_align.corpus.engine.suspects import BatchQueue
from ctc_align.corpus.engine.worker_pools import ProcessPool
from ctc_align.corpus.state.journal import DONE, FAILED
from ctc_align.errors import CtcAlignError, UsageError
from ctc_align.models import resolve_device
from ctc_align.sources import with_channel
from ctc_align.sources.utterance import Refused, Source, Utterance, UtteranceResult
from ctc_align.threads import cpu_count

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.alignment.scoring import Scored
    from ctc_align.types import Audio, Emissions

WINDOW = 256
"""The number of utterances that are sorted by length together.

Two windows are in memory at a time.
"""
SMALL_S = 600.0
"""A source with less speech is scored in this process: starting others would take as long."""
READERS = 4
"""The number of batches whose audio is read at the same time in this process."""
_TICK_S = 0.2

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredUtterance:
    """An entry of a source with its transcripts, best first, or the error that prevented scoring.

    `duration_s` is the length of its audio.
    """

    id: str
    origin: str
    text: str
    scored: tuple[Scored, ...] = ()
    error: str | None = None
    duration_s: float = 0.0


class ScoreTask:
    """Scores the transcripts of utterances; writes nothing."""

    def compute(
        self, aligner: Aligner, jobs: Sequence[JobState], timings: dict[str, float]
    ) -> Sequence[Outcome | CtcAlignError]:
        """Return the outcomes, with the ranked transcripts of each utterance."""
        from ctc_align.alignment.aligner import group_by_aligner

        results: list[Any] = [None] * len(jobs)
        given = [state.job.utterance for state in jobs]
        texts = [one.texts or (one.file or one.text,) for one in given]
        sources, named = list(map(source_of, jobs)), [one.language for one in given]
        for language_aligner, indices, languages in group_by_aligner(aligner, texts, named):
            heard = language_aligner.emissions_batch([sources[i] for i in indices])
            for i, one in zip(indices, heard):
                results[i] = one
            usable = [
                (i, code)
                for i, code in zip(indices, languages)
                if not isinstance(results[i], CtcAlignError)
            ]
            emissions = [results[i] for i, _ in usable]
            codes = [code for _, code in usable]
            scores = language_aligner.score_emissions(
                emissions, [texts[i] for i, _ in usable], timings, codes
            )
            for (i, _), scored in zip(usable, scores):
                outcome = Outcome(
                    jobs[i].job.index,
                    DONE,
                    result=UtteranceResult(duration_s=_duration_s(sources[i])),
                    scored=tuple(scored),
                )
                results[i] = outcome
        return results

    def write(self, state: JobState) -> Outcome:
        """Write nothing; return the outcome."""
        outcome: Outcome = state.result
        return outcome

    def sync_outputs(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: nothing was written."""


def score_source(
    source: Source, options: WorkerOptions, workers: int | None = None, batch_seconds: float = 120.0
) -> Iterator[ScoredUtterance]:
    """Yield the score of every entry of a source, in order.

    An entry that cannot be scored, or that kills its worker, has an error instead.

    Args:
        options: the model, and where it runs; their task is a `ScoreTask`.
        workers: number of processes; None: one for each CPU core, or a single one for a GPU.

    Raises:
        UsageError, BackendError: the options are wrong; raised before anything is read.
        CtcAlignError: raised during iteration, if the run cannot continue, for example because
            workers always die.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers: expected at least 1, got {workers}")
    if not batch_seconds > 0:
        raise UsageError(f"batch_seconds: expected seconds above 0, got {batch_seconds}")
    source = with_channel(source, options.settings.channel_number)
    return _scored(source, options, workers, batch_seconds, new_aligner(options))


_Window = list[Refused | Job]
"""Consecutive entries of a source.

Utterances are jobs, whose indices count them and the refused entries.
"""


def _jobs(window: _Window) -> list[Job]:
    return [entry for entry in window if isinstance(entry, Job)]


class _Dispatch:
    """Gives utterances to a pool, and keeps their outcomes until they are requested."""

    def __init__(self, pool: Pool, batch_seconds: float) -> None:
        self._pool = pool
        self._batch_seconds = batch_seconds
        self._batches = BatchQueue()
        self._outcomes: dict[int, Outcome] = {}
        """By the index of the utterance."""

    def add(self, window: _Window) -> None:
        """Queue the utterances of a window, those of similar length together."""
        jobs = _jobs(window)
        for indices in batches_by_length([job.length_s for job in jobs], self._batch_seconds):
            self._batches.add(jobs[i] for i in indices)

    def results(self, window: _Window) -> Iterator[ScoredUtterance]:
        """Yield the results of a window in its order when all of them are there.

        Raises:
            CtcAlignError: the run cannot continue.
        """
        while not all(job.index in self._outcomes for job in _jobs(window)):
            self._step()
        for entry in window:
            if isinstance(entry, Refused):
                yield ScoredUtterance(entry.id, entry.origin, "", (), entry.reason)
                continue
            one = entry.utterance
            outcome = self._outcomes.pop(entry.index)
            duration_s = outcome.result.duration_s or 0.0
            yield ScoredUtterance(
                one.id, one.origin, one.text, outcome.scored, outcome.reason, duration_s
            )

    def _step(self) -> None:
        if not self._batches.waiting and not self._pool.busy:
            self._batches.conclude()
        for job, reason in self._batches.confirmed():
            self._outcomes[job.index] = Outcome(job.index, FAILED, reason)
        self._batches.give(self._pool)
        for event in self._pool.events(_TICK_S):
            if isinstance(event, CtcAlignError):
                raise event
            if isinstance(event, WorkerDied):
                self._batches.take_back(event)
            else:
                self._keep(event)

    def _keep(self, done: Finished) -> None:
        jobs = {job.index: job for job in self._batches.done(done.number).jobs}
        for line in done.warnings:
            logger.warning("%s", line)
        for outcome in done.outcomes:
            self._outcomes[outcome.index] = outcome
            if outcome.status == DONE:
                self._batches.know_good(jobs[outcome.index])


def _scored(
    source: Source,
    options: WorkerOptions,
    workers: int | None,
    batch_seconds: float,
    aligner: Aligner,
) -> Iterator[ScoredUtterance]:
    plan = _windows(source)
    begin = list(islice(plan, 2))
    is_small = (
        len(begin) < 2 and sum(job.length_s for window in begin for job in _jobs(window)) < SMALL_S
    )
    windows: deque[_Window] = deque()
    with _pool(options, workers, aligner, is_small) as pool:
        dispatch = _Dispatch(pool, batch_seconds)
        for window in chain(begin, plan):
            dispatch.add(window)
            windows.append(window)
            if len(windows) > 1:
                yield from dispatch.results(windows.popleft())
        while windows:
            yield from dispatch.results(windows.popleft())


def _windows(source: Iterable[Utterance | Refused]) -> Iterator[_Window]:
    entries = (
        entry if isinstance(entry, Refused) else Job(index, entry, length_s=length_of(entry))
        for index, entry in enumerate(source)
    )
    while window := list(islice(entries, WINDOW)):
        yield window


def _pool(
    options: WorkerOptions, workers: int | None, aligner: Aligner, is_small: bool
) -> AbstractContextManager[Pool]:
    """Return processes with one thread each, or this process with threads that read."""
    count = workers or (1 if resolve_device(options.device).type != "cpu" else cpu_count())
    if count == 1 or (is_small and workers is None):
        return _ThreadPool(Stages(options, aligner))
    return ProcessPool(options, [options.device] * count)


class _ThreadPool:
    """A pool in this process: threads that read, and one batch at a time that is computed."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._threads = ThreadPoolExecutor(READERS, "score")
        self._batches: set[Future[Finished | CtcAlignError]] = set()

    def __enter__(self) -> _ThreadPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def busy(self) -> int:
        return len(self._batches)

    def offer(self, batch: UtteranceBatch, alone: bool = False) -> bool:
        if len(self._batches) >= (1 if alone else READERS):
            return False
        self._batches.add(self._threads.submit(self._stages.work, batch))
        return True

    def events(self, timeout_s: float) -> Iterator[Report]:
        for future in wait(self._batches, timeout_s, FIRST_COMPLETED).done:
            self._batches.remove(future)
            yield future.result()

    def kill(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _duration_s(source: Audio | Emissions) -> float:
    if source.duration_s is not None:
        return source.duration_s
    return units.frames_to_seconds(len(source), source.frame_shift_s)
