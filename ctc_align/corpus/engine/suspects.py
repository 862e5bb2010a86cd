"""The batches of a run, and the search for utterances that kill their workers.

The batches of a dead worker are repeated; only what kills a worker alone is blamed. A worker reads
one batch, computes another and writes a third, so its death does not show which batch is at fault.
Each of these batches is repeated unchanged in a worker that gets nothing else meanwhile. An
innocent batch is then done as if nothing had happened, with the same bits, because it has the same
utterances. If a batch kills its worker again, its utterances are repeated one by one, each alone in
a worker. An utterance is blamed only if it kills this worker: at once if the worker crashed, the
second time if a signal ended the worker, because other programs send signals, too. It counts as
failed only after workers have done other work, so that no utterance is blamed on a machine where
every worker dies.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ctc_align.corpus.engine.batches import Job, Pool, UtteranceBatch, WorkerDied
from ctc_align.corpus.state.journal import DONE
from ctc_align.errors import BackendError

_TRIES = 2
"""Solo deaths needed to blame an utterance, where a signal from outside ended the worker.

It is the same where nobody knows what ended it.
"""
_MOST_DEATHS = 10
"""Consecutive deaths of workers after which an utterance that was done before is tried."""
_FAILED_STARTS = 5
"""Consecutive deaths of workers before they are ready after which the run ends."""


class BatchQueue:
    """The batches of a run: those that wait, those that workers have, and those to be done alone.

    Many utterances may kill their workers, one after another, and the run goes on; it ends where
    workers die of everything. So after some deaths in a row an utterance that is known to be good
    is done again, alone (a *probe*: a batch without work). If no good one is known, twice as many
    deaths end the run; suspects are drawn at random, so that similar ones (the longest) do not
    follow each other. A blamed utterance waits for the next batch that is done, at the end for a
    probe, and is then one of `confirmed`.
    """

    def __init__(self) -> None:
        self.waiting: deque[UtteranceBatch] = deque()
        self._numbers = itertools.count(1)
        self._queue: list[UtteranceBatch] = []
        """The batches to be done alone."""
        self._given: dict[int, UtteranceBatch] = {}
        """The batches that workers have, by their numbers."""
        self._alone: set[int] = set()
        """The numbers of batches that workers have alone."""
        self._killed: Counter[int] = Counter()
        """Counts of workers that an utterance killed alone, by its index."""
        self._deaths = self._probe_deaths = self._failed_starts = 0
        self._good: Job | None = None
        self._probe: UtteranceBatch | None = None
        self._probe_waits = False
        """The probe waits for a worker."""
        self._blamed: list[tuple[UtteranceBatch, str]] = []
        self._confirmed: list[tuple[UtteranceBatch, str]] = []
        self._chance = random.Random(0)

    def __bool__(self) -> bool:
        """Return whether any work is left to be given to workers, or any utterance is suspected."""
        return bool(self.waiting or self._queue or self._probe or self._blamed or self._confirmed)

    def add(self, jobs: Iterable[Job]) -> None:
        """Add a batch of jobs to those that wait."""
        self.waiting.append(self._batch(jobs))

    def _batch(self, jobs: Iterable[Job]) -> UtteranceBatch:
        return UtteranceBatch(next(self._numbers), tuple(jobs))

    def give(self, pool: Pool) -> None:
        """Give the pool as much as it has room for.

        Suspects come first, each alone, then waiting batches.
        """
        while (suspect := self._first()) is not None:
            if not pool.offer(suspect, alone=True):
                return
            self._given[suspect.number] = suspect
            self._remove_first()
        while self.waiting and self._probe is None and pool.offer(self.waiting[0]):
            batch = self.waiting.popleft()
            self._given[batch.number] = batch

    def _first(self) -> UtteranceBatch | None:
        """Return the batch that a worker gets next, alone.

        It is None if there is none, or if it has to wait.
        """
        if self._probe is not None:
            return self._probe if self._probe_waits else None
        return self._queue[0] if self._queue else None

    def _remove_first(self) -> None:
        """Remove the batch that was given to a worker."""
        given = self._probe or self._queue.pop(0)
        self._probe_waits = False
        self._alone.add(given.number)

    def know_good(self, job: Job, *, earlier: bool = False) -> None:
        """Remember an utterance that was completed, in this run or in an `earlier` one."""
        if not earlier or self._good is None:
            self._good = job

    def done(self, number: int) -> UtteranceBatch:
        """Return the batch with this number, and reset the counts of deaths.

        A worker has completed it.
        """
        self._alone.discard(number)
        self._deaths = self._probe_deaths = self._failed_starts = 0
        self._confirm()
        self._probe = None
        return self._given.pop(number)

    def take_back(self, died: WorkerDied) -> None:
        """Queue the batches of a dead worker again: alone, or as blamed.

        If the worker was never ready, they are queued as before.

        Raises:
            BackendError: workers do not start, or die whatever they do.
        """
        for batch in died.batches:
            del self._given[batch.number]
        if died.was_ready:
            self._died(died)
        else:
            self.waiting.extendleft(reversed(self._unstarted(died)))

    def _unstarted(self, died: WorkerDied) -> list[UtteranceBatch]:
        """Return the batches of a worker that was never ready.

        A batch that it had alone is queued alone again.
        """
        self._failed_starts += 1
        if self._failed_starts > _FAILED_STARTS:
            raise _sick(died.how)
        for batch in died.batches:
            if self._probe is not None and batch.number == self._probe.number:
                self._probe_waits = True
            elif batch.number in self._alone:
                self._queue.insert(0, batch)
        return [batch for batch in died.batches if batch.number not in self._alone]

    def _died(self, died: WorkerDied) -> None:
        if not died.batches:
            return
        self._deaths += 1
        if len(died.batches) == 1 and died.batches[0].number in self._alone:
            self._died_alone(died.batches[0], died)
        else:
            self._add(died.batches)
        if self._deaths > 2 * _MOST_DEATHS and self._good is None:
            raise _sick(died.how)
        if self._deaths > _MOST_DEATHS:
            self._add_probe()

    def confirmed(self) -> Iterator[tuple[Job, str]]:
        """Yield the utterances that killed their workers since the last call.

        Each comes with the reason why it failed.
        """
        found = self._confirmed
        self._confirmed = []
        for batch, how in found:
            for job in batch.jobs:
                yield job, f"the worker process died of this utterance ({how})"

    def conclude(self) -> None:
        """Decide which suspected utterances killed their worker, once the queue is empty."""
        if self._blamed and not self._queue:
            if self._good is None:
                self._confirm()
            else:
                self._add_probe()

    def _died_alone(self, batch: UtteranceBatch, died: WorkerDied) -> None:
        self._alone.discard(batch.number)
        if self._probe is not None and batch.number == self._probe.number:
            self._probe_waits = True
            self._probe_deaths += 1
            if self._probe_deaths >= _TRIES:
                raise _sick(died.how)
        elif not any(job.todo for job in batch.jobs):
            pass  # a probe of earlier doubts
        elif len(batch.jobs) > 1:
            # what was done before needs no second result, and may be to blame
            self._add([self._batch([job]) for job in batch.jobs if job.todo])
        else:
            index = batch.jobs[0].index
            self._killed[index] += 1
            if died.from_outside and self._killed[index] < _TRIES:
                self._add([batch])
            else:
                self._blamed.append((batch, died.how))

    def _confirm(self) -> None:
        self._confirmed += self._blamed
        self._blamed.clear()

    def _add(self, batches: Iterable[UtteranceBatch]) -> None:
        for batch in batches:
            self._queue.insert(self._chance.randint(0, len(self._queue)), batch)

    def _add_probe(self) -> None:
        """Make a probe unless there is one, or no good utterance is known.

        A probe goes first.
        """
        if self._good is not None and self._probe is None:
            self._probe = self._batch([replace(self._good, status=DONE)])
            self._probe_waits = True


def _sick(how: str) -> BackendError:
    return BackendError(
        f"worker processes die ({how}); try fewer --workers or shorter --batch-seconds"
    )
