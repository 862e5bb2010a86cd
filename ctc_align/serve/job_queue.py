"""Jobs that wait for the model: a queue with places, batches of what fits together, results that are kept a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ctc_align.config import Settings
from ctc_align.files import Alignment
from ctc_align.serve.refusals import RefusedError, error_body
from ctc_align.serve.uploads import Form, Upload
from ctc_align.types import Transcript

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
ALONE_S = 120.0
"""A longer recording goes through the model alone: its progress is told, and it can be stopped at any time."""
BATCH_S, BATCH_JOBS = 300.0, 32
"""Seconds of audio, and recordings, that go through the model together at most."""
RETRY_S = 5
LOOK_S = 30.0
"""So often an idle worker looks for jobs that need not be kept any longer."""


@dataclass(frozen=True)
class ServerLimits:
    """Limits of one server.

    Attributes:
        upload_bytes: of the body of one request.
        uploads_bytes: of all uploads that are on disk at a time.
        audio_s: seconds of one recording.
        text_chars: characters of one transcript.
        places: requests that wait or are worked on at a time.
        work_s: seconds of work on one recording, and for the body of a request to arrive.
        kept_jobs, keep_s: finished jobs that are kept, and for how many seconds.
    """

    upload_bytes: int = 200 * 2**20
    uploads_bytes: int = 4 * 2**30
    audio_s: float = 7200.0
    text_chars: int = 1_000_000
    places: int = 100
    work_s: float = 1800.0
    kept_jobs: int = 200
    keep_s: float = 3600.0


class StoppedError(Exception):
    """Work on a job was stopped: by its client, by the end of the server, or because it took too long."""


@dataclass(eq=False)
class ServerJob:
    """One recording with its transcript (or several, for `score`), from its upload to its result.

    Attributes:
        kind: "align", "score" or "realign".
        name: of the utterance.
        form: the uploads; removed with the job.
        duration_s: of the recording, by its header.
        texts: the transcripts.
        settings: of this request.
        corrected: the corrections that "realign" aligns again; None for all else.
        recording: that of the corrections, which is not removed with the job; None: it is among the uploads.
        result: an `Alignment`, or the list of scores; None until it is done.
        future: is done when the job has ended, in whatever way.
    """

    kind: str
    name: str
    form: Form
    duration_s: float
    texts: Sequence[Transcript]
    settings: Settings
    corrected: Alignment | None = None
    recording: Upload | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    state: str = QUEUED
    step: str = "waiting"
    share: float = 0.0
    result: Any = None
    refusal: RefusedError | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    future: Future[None] = field(default_factory=Future)
    started_s: float = 0.0
    ended_s: float = 0.0

    @property
    def key(self) -> tuple[str, Settings]:
        """Jobs of one key can go through the model together."""
        return self.kind, self.settings

    @property
    def audio(self) -> Upload:
        """The recording: where it lies, and its file name, as the client gave it."""
        return self.recording or self.form.files["audio"]

    @property
    def names(self) -> dict[str, str]:
        """The paths of the job's files, and what the client calls them."""
        return {**self.form.names, str(self.audio.path): self.audio.filename}

    def to_dict(self, place: int | None = None) -> dict[str, Any]:
        """Return what `GET /jobs/ID` answers; `place` is that in the queue, from 1."""
        told: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "audio": self.audio.filename,
            "duration_s": round(self.duration_s, 3),
            "state": self.state,
            "step": self.step,
            "progress": round(self.share, 3),
            "place": place,
        }
        return told if self.refusal is None else {**told, **error_body(self.refusal)}


class JobQueue:
    """Jobs in the order in which they came; used by the server's event loop and by the worker's thread."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.finished = self.batches = self.largest_batch = 0
        self._changed = threading.Condition()
        self._waiting: list[ServerJob] = []
        self._running: list[ServerJob] = []
        self._kept: dict[str, ServerJob] = {}
        self._taken = 0
        self._stopping = False

    def enter(self) -> None:
        """Take a place, before anything of a request is read; `leave` gives it back.

        Raises:
            RefusedError: 503, all places are taken, or the server is ending.
        """
        with self._changed:
            if self._stopping:
                raise self._ending()
            if self._taken >= self.limits.places:
                raise RefusedError(
                    503,
                    f"all {self.limits.places} places of the queue are taken; try again in {RETRY_S} s",
                    {"Retry-After": str(RETRY_S)},
                )
            self._taken += 1

    def leave(self) -> None:
        """Give a place back."""
        with self._changed:
            self._taken -= 1

    def submit(self, job: ServerJob, *, keep: bool) -> None:
        """Put a job, whose place is taken, at the end of the queue; kept ones can be asked for by their id."""
        with self._changed:
            if self._stopping:
                raise self._ending()
            self._waiting.append(job)
            if keep:
                self._kept[job.id] = job
            self._changed.notify_all()

    def take(self) -> list[ServerJob]:
        """Wait for jobs, and return those that go through the model next, together; [] at the end of the server."""
        with self._changed:
            while not self._waiting and not self._stopping:
                if not self._changed.wait(LOOK_S):
                    self.forget_old()
            if self._stopping:
                return []
            batch = self._next_batch()
            for job in batch:
                self._waiting.remove(job)
                job.state, job.step, job.started_s = RUNNING, "reading", time.monotonic()
            self._running = list(batch)
            return batch

    def count_batch(self, size: int) -> None:
        """Note that so many recordings went through the model together."""
        with self._changed:
            self.batches += 1
            self.largest_batch = max(self.largest_batch, size)

    def _next_batch(self) -> list[ServerJob]:
        first, *others = self._waiting
        batch, seconds = [first], first.duration_s
        if first.duration_s > ALONE_S or first.corrected is not None:
            return batch
        for job in others:
            fits = job.duration_s <= ALONE_S and seconds + job.duration_s <= BATCH_S
            if job.key == first.key and fits and len(batch) < BATCH_JOBS:
                batch.append(job)
                seconds += job.duration_s
        return batch

    def check(self, job: ServerJob) -> None:
        """Raise StoppedError where work on a job should not go on."""
        if job.stop.is_set() or time.monotonic() - job.started_s > self.limits.work_s:
            raise StoppedError

    def end(self, job: ServerJob, result: Any = None, refusal: RefusedError | None = None) -> None:
        """End a job with its result or a refusal; one that was cancelled before stays cancelled."""
        with self._changed:
            if job.state not in (QUEUED, RUNNING):
                return
            if job in self._running:
                self._running.remove(job)
            job.state, job.result, job.refusal = (DONE, result, None) if refusal is None else (FAILED, None, refusal)
            if job.stop.is_set():
                job.state, job.result = CANCELLED, None
                job.refusal = self._ending() if self._stopping else RefusedError(409, "this job was cancelled")
            job.step, job.share, job.ended_s = job.state, 1.0 if job.state == DONE else job.share, time.monotonic()
            self.finished += 1
            self._taken -= 1
        if job.state != DONE:
            job.form.remove()
        job.future.set_result(None)

    def cancel(self, job: ServerJob) -> None:
        """Stop a job: at once where it waits, and as soon as its worker looks where it runs."""
        with self._changed:
            job.stop.set()
            waits = job in self._waiting
            if waits:
                self._waiting.remove(job)
        if waits:
            self.end(job)

    def place(self, job: ServerJob) -> int | None:
        """Return the place in the queue, from 1; None for a job that does not wait."""
        with self._changed:
            return self._waiting.index(job) + 1 if job in self._waiting else None

    def find(self, job_id: str) -> ServerJob:
        """Return a kept job.

        Raises:
            RefusedError: 404, there is none of this id, or it is no longer kept.
        """
        self.forget_old()
        with self._changed:
            if job_id not in self._kept:
                raise RefusedError(404, "no such job; finished ones are kept for a while only")
            return self._kept[job_id]

    def kept(self) -> list[ServerJob]:
        """Return all kept jobs, in the order in which they came."""
        with self._changed:
            return list(self._kept.values())

    def forget(self, job: ServerJob) -> None:
        """Cancel a job, and remove its result and its uploads."""
        self.cancel(job)
        with self._changed:
            self._kept.pop(job.id, None)
        job.form.remove()

    def forget_old(self) -> None:
        """Remove the jobs that ended too long ago, and the oldest where there are too many."""
        ended = [job for job in self.kept() if job.future.done()]
        late = time.monotonic() - self.limits.keep_s
        for number, job in enumerate(sorted(ended, key=lambda job: -job.ended_s)):
            if number >= self.limits.kept_jobs or job.ended_s < late:
                self.forget(job)

    def forget_oldest(self) -> bool:
        """Remove the finished job that ended first; return False where there is none."""
        ended = [job for job in self.kept() if job.future.done()]
        if ended:
            self.forget(min(ended, key=lambda job: job.ended_s))
        return bool(ended)

    def stop(self) -> None:
        """End the queue: nothing new is taken, and every job ends now, the running ones whenever their work ends."""
        with self._changed:
            self._stopping = True
            jobs = [*self._waiting, *self._running]
            self._changed.notify_all()
        for job in jobs:
            self.cancel(job)
            self.end(job)

    def counts(self) -> dict[str, int]:
        """Return how many jobs wait, run and have ended, and what went through the model together."""
        with self._changed:
            return {
                "waiting": len(self._waiting),
                "running": len(self._running),
                "places": self.limits.places,
                "free": self.limits.places - self._taken,
                "finished": self.finished,
                "batches": self.batches,
                "largest_batch": self.largest_batch,
            }

    @staticmethod
    def _ending() -> RefusedError:
        return RefusedError(503, "the server is ending", {"Retry-After": str(RETRY_S)})
