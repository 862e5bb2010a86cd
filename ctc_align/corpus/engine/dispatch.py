"""The engine on one machine: it reads the plan, feeds workers, and writes down what becomes of each utterance."""

from __future__ import annotations

import logging
import time
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from ctc_align.corpus.engine.batch_plan import Batch, Item, Job, cut
from ctc_align.corpus.engine.process_pool import Answer, Died, Pool
from ctc_align.corpus.engine.read_ahead import Planner, Policy, Seen, length_of
from ctc_align.corpus.engine.stages import Broken, Outcome
from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.state.fingerprint import Fingerprints
from ctc_align.corpus.state.journal import DONE, FAILED, Journal, Line, Outcomes, line_key, now
from ctc_align.corpus.utterance import Refused, Utterance
from ctc_align.errors import BackendError

_TICK_S = 0.2
_ROOM = 64
"""With fewer batches than this waiting, the next window is taken."""
_MOST_DEATHS = 10
"""Workers that die in a row without one batch done: then it is not the utterances."""

logger = logging.getLogger(__name__)


@dataclass
class Tally:
    """Where a run stands.

    `failed` counts also what failed before and is not tried again; `worked` is what workers did in this run, `audio_s`
    what they aligned; `total` is None as long as it is not known.
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
        """How long it takes yet, where that can be said."""
        if self.total is None or not self.worked:
            return None
        return (self.total - self.finished) * self.wall_s / self.worked


class Observer(Protocol):
    """Who is told what happens."""

    def progress(self, tally: Tally) -> None:
        """Something happened, or a moment passed."""

    def warn(self, line: str) -> None:
        """Something about one utterance or file that is no failure."""


class Engine:
    """One run over the items of a source. `keys` holds in the end what was met, as the journal's keys."""

    def __init__(
        self, policy: Policy, outcomes: Outcomes, prints: Fingerprints, assembly: Assembly, observer: Observer
    ) -> None:
        self.policy = policy
        self.outcomes = outcomes
        self.prints = prints
        self.assembly = assembly
        self.observer = observer
        self.tally = Tally()
        self.keys = array("Q")
        self.stopping = False
        self.worker_died = False
        self._waiting: deque[Batch] = deque()
        self._alone: deque[Batch] = deque()
        self._careful: set[int] = set()
        self._deaths = 0
        self._numbers = 0

    def run(self, items: Iterable[Item], pool: Pool, journal: Journal) -> None:
        """All of it, or up to the end of the batches in flight once `stopping` is set.

        Raises:
            OutputError: outputs, journal or spool cannot be written; what is in the journal is safe.
            UsageError, BackendError: workers cannot start.
        """
        self._journal = journal
        with Planner(items, self.policy, self.outcomes, self.prints) as planner:
            while True:
                while not self.stopping and len(self._waiting) < _ROOM and planner.has_window():
                    self._take(planner.window())
                self._feed(pool)
                idle = not (self._waiting or self._alone) and planner.is_over
                if not pool.busy and (idle or self.stopping):
                    return
                hungry = not self.stopping and not self._waiting and not planner.is_over
                for event in pool.events(0.02 if hungry else _TICK_S):
                    self._hear(event)
                self.observer.progress(self.tally)

    def _feed(self, pool: Pool) -> None:
        if self.stopping:
            return
        while self._alone:
            if not pool.offer(self._alone[0], alone=True):
                return
            self._alone.popleft()
        while self._waiting and pool.offer(self._waiting[0]):
            self._waiting.popleft()

    def _take(self, window: list[Seen]) -> None:
        """Announce a window, and cut what is left of it into batches."""
        refused = [seen for seen in window if isinstance(seen.item.what, Refused)]
        jobs = self._jobs([seen for seen in window if isinstance(seen.item.what, Utterance)])
        self._refuse(refused)
        for places in cut([job.length_s for job in jobs], self.policy.batch_seconds):
            if any(jobs[i].todo for i in places):
                self._numbers += 1
                self._waiting.append(Batch(self._numbers, tuple(jobs[i] for i in places if not jobs[i].is_absent)))

    def _jobs(self, window: list[Seen]) -> list[Job]:
        """Jobs with their lengths, which are looked for where anything is to be done."""
        jobs = [self._job(seen, seen.item.what) for seen in window if isinstance(seen.item.what, Utterance)]
        if not any(job.todo for job in jobs):
            return jobs
        lengths = [
            length_of(job.utterance) if seen.length_s is None else seen.length_s for job, seen in zip(jobs, window)
        ]
        return [replace(job, length_s=length_s) for job, length_s in zip(jobs, lengths)]

    def _job(self, seen: Seen, utterance: Utterance) -> Job:
        """The job of an utterance: to be done, for company, or absent where it failed and is not tried again."""
        item, stands = seen.item, seen.stands
        self.keys.append(line_key(utterance.id))
        if stands == DONE and not self.assembly.present(item.index, utterance):
            stands = None
        self.assembly.announce(item.index, utterance, None if stands is None else stands == DONE)
        if stands == DONE:
            self.tally.skipped += 1
        elif stands == FAILED:
            self.tally.failed += 1
        todo, is_absent = stands is None, stands == FAILED
        return Job(item.index, utterance, item.group, seen.fingerprint, 0.0, todo, is_absent)

    def _refuse(self, refused: list[Seen]) -> None:
        """Lines of the source that are no utterances: failed, in the journal once."""
        lines = []
        for seen in refused:
            what = seen.item.what
            assert isinstance(what, Refused)
            line = Line(what.id, FAILED, what.reason, time=now(), origin=what.origin)
            self.keys.append(line.key)
            if self.outcomes.find(line.key) is None:
                lines.append(line)
        if lines:
            self._journal.append(lines)
        self.tally.failed += len(refused)

    def _hear(self, event: Answer | Broken | Died) -> None:
        if isinstance(event, Broken):
            raise event.error
        if isinstance(event, Died):
            self._replace(event)
            return
        self._deaths = 0
        for line in event.finished.warnings:
            self.observer.warn(line)
        for stage, seconds in event.finished.seconds.items():
            self.tally.stages[stage] = self.tally.stages.get(stage, 0.0) + seconds
        self._record(event.batch.jobs, event.finished.outcomes)

    def _record(self, jobs: tuple[Job, ...], outcomes: tuple[Outcome, ...]) -> None:
        """Spool, then journal, then assembled files: in this order nothing is lost, whenever it ends."""
        by_index = {job.index: job for job in jobs}
        pairs = [(by_index[outcome.index], outcome) for outcome in outcomes]
        self.assembly.keep((job.utterance.id, o.spooled) for job, o in pairs if o.status == DONE)
        finished = now()
        self._journal.append([_line(job, outcome, finished) for job, outcome in pairs])
        self.tally.worked += len(pairs)
        for job, outcome in pairs:
            self.assembly.settle(job.index, outcome.status == DONE)
            if outcome.status == DONE:
                self.tally.done += 1
                self.tally.audio_s += outcome.duration_s or 0.0
            else:
                self.tally.failed += 1

    def _replace(self, died: Died) -> None:
        """A worker died: what it had is done again one by one; an utterance that kills a worker alone has failed."""
        self.worker_died = True
        self._deaths += 1
        if self._deaths > _MOST_DEATHS or (not died.was_ready and self._deaths > 2):
            raise BackendError(f"worker processes die ({died.how}); try fewer --workers or shorter --batch-seconds")
        if not died.was_ready:
            self._waiting.extendleft(reversed(died.batches))
            return
        for batch in died.batches:
            todo = [job for job in batch.jobs if job.todo]
            if batch.number in self._careful:
                reason = f"the worker process died of this utterance ({died.how})"
                self._record(batch.jobs, tuple(Outcome(job.index, FAILED, reason) for job in todo))
                continue
            for job in todo:
                self._numbers += 1
                self._careful.add(self._numbers)
                self._alone.append(Batch(self._numbers, (job,)))


def _line(job: Job, outcome: Outcome, finished: float) -> Line:
    return Line(
        id=job.utterance.id,
        status=outcome.status,
        reason=outcome.reason,
        loss=outcome.loss,
        seconds=round(outcome.seconds, 4),
        loss_per_token=outcome.loss_per_token,
        duration_s=outcome.duration_s,
        fingerprint=f"{job.fingerprint:016x}",
        time=finished,
        doubt=outcome.doubt,
    )
