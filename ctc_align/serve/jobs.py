"""Jobs: a bounded queue, and the worker, one thread with one model, that processes the queue.

Short recordings with the same settings go through the model together (`Aligner.align_batch`), and
each gets the result that it would get alone. A long recording goes alone: it reports its progress,
and can be stopped at any time. Results are kept for some time.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.files import to_dict
from ctc_align.files.writer import finite
from ctc_align.serve.access import RefusedError, error_body, refusal_of
from ctc_align.serve.uploads import IN_USE, Form, Upload
from ctc_align.types import Alignment, Audio, Transcript

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.alignment.scoring import Scored

QUEUED, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
ALONE_S = 120.0
"""A longer recording goes through the model alone."""
BATCH_S = 300.0
BATCH_JOBS = 32
"""Seconds of audio, and recordings, that go through the model together at most."""
RETRY_S = 5
FULL_RETRY_S = 60
LOOK_S = 30.0
"""Time after which an idle worker checks again for expired jobs."""
VARIANTS = 16
"""The maximum number of settings whose aligners are kept, all with the same model."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerLimits:
    """Limits of one server.

    Attributes:
        upload_bytes: of the body of one request.
        uploads_bytes: of all uploads that are on disk at a time.
        audio_s: seconds of one recording.
        text_chars: characters of one transcript.
        places: requests that may wait or be processed at a time.
        work_s: seconds of work on one recording, and for the body of a request to arrive.
        kept_jobs: finished jobs that are kept.
        keep_s: how long a finished job is kept after it was last asked for, in seconds; one with a
            person's work stays.
    """

    upload_bytes: int = 200 * 2**20
    uploads_bytes: int = 4 * 2**30
    audio_s: float = 7200.0
    text_chars: int = 1_000_000
    places: int = 100
    work_s: float = 1800.0
    kept_jobs: int = 1000
    keep_s: float = 3600.0


class StoppedError(Exception):
    """Work on a job was stopped.

    Its client stopped it, or the end of the server, or it took too long.
    """


@dataclass(eq=False)
class ServerJob:
    """One recording with its transcript (or several, for `score`), from its upload to its result.

    Attributes:
        kind: "align", "score" or "realign".
        name: of the utterance.
        form: the uploads; removed with the job.
        duration_s: of the recording: by its header, None if it gives none; once it was read, the
            true length.
        texts: the transcripts.
        settings: of this request.
        corrected: the corrections that "realign" aligns again; None for other kinds.
        recording: the recording of the corrections, which is not removed with the job; None: it is
            among the uploads.
        result: an `Alignment`, or the list of scores; None until it is done. `set_result` sets it,
            and the `figures`.
        used_s: when a client last asked for it.
        is_corrected: whether a person has saved a whole correction of the result.
        future: is done when the job has ended, in whatever way.
    """

    kind: str
    name: str
    form: Form
    duration_s: float | None
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
    used_s: float = -math.inf
    is_corrected: bool = False
    figures: dict[str, Any] = field(default_factory=dict)
    changes: int = 0

    def set_result(self, result: Any) -> None:
        """Set the result, and the figures of an alignment."""
        from ctc_align.serve.alignment_folder import alignment_row

        if isinstance(result, Alignment):
            figures = alignment_row(to_dict(result))
        else:
            figures = {}
        self.result = result
        self.figures = {key: figures[key] for key in figures.keys() - {"error", "duration_s"}}
        self.changes += 1

    @property
    def has_work(self) -> bool:
        """True if a person has corrected the result, or signed it off."""
        return self.is_corrected or bool(self.figures.get("by_hand") or self.figures.get("checked"))

    @property
    def tag(self) -> str:
        """The tag (ETag) of the result as it is now."""
        return f'"{self.changes}"'

    @property
    def key(self) -> tuple[str, Settings]:
        """Jobs with the same key can go through the model together."""
        return self.kind, self.settings

    @property
    def length_s(self) -> float:
        """Seconds of the recording as far as that is known; infinity where it is not."""
        if self.duration_s is None:
            return math.inf
        return self.duration_s

    @property
    def audio(self) -> Upload:
        """The recording: where it lies, and its file name, as the client gave it."""
        return self.recording or self.form.files["audio"]

    @property
    def names(self) -> dict[str, str]:
        """The paths of the job's files, and what the client calls them."""
        return {**self.form.names, str(self.audio.path): self.audio.filename}

    def to_dict(self, place: int | None = None) -> dict[str, Any]:
        """Return the answer to `GET /jobs/ID`; `place` is the job's rank in the queue, from 1."""
        facts: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "audio": self.audio.filename,
            "duration_s": None if self.duration_s is None else round(self.duration_s, 3),
            "state": self.state,
            "step": self.step,
            "progress": round(self.share, 3),
            "place": place,
            "has_work": self.has_work,
            "tag": self.tag,
        }
        facts |= self.figures
        if self.refusal is None:
            return facts
        return {**facts, **error_body(self.refusal)}


class JobQueue:
    """Jobs in the order in which they came.

    The server's event loop and the worker's thread use it.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.finished = self.batches = self.largest_batch = 0
        self._changed = threading.Condition()
        self._waiting: list[ServerJob] = []
        self._running: list[ServerJob] = []
        self._kept: dict[str, ServerJob] = {}
        self._taken = 0
        self._stopping = False

    @contextmanager
    def reserved_place(self) -> Iterator[None]:
        """Reserve a place in the queue for the job that the block submits.

        If the block fails, the place is released.

        Raises:
            RefusedError: 503, the queue is full, or the server is stopping.
        """
        with self._changed:
            if self._stopping:
                raise self._ending()
            if self._taken >= self.limits.places:
                raise RefusedError(
                    503,
                    f"the queue is full ({self.limits.places} requests); try again in {RETRY_S} s",
                    {"Retry-After": str(RETRY_S)},
                )
            self._taken += 1
        try:
            yield
        except BaseException:
            with self._changed:
                self._taken -= 1
            raise

    def require_room(self) -> None:
        """Make room for one more kept job.

        Raises:
            RefusedError: 503, too many are kept, and none may be forgotten.
        """
        self.forget_old()
        while len(self._ended()) >= self.limits.kept_jobs:
            if not self.forget_oldest():
                raise RefusedError(
                    503,
                    f"the server keeps {self.limits.kept_jobs} finished recordings, the most that"
                    f" it may, and all of them {IN_USE}",
                    {"Retry-After": str(FULL_RETRY_S)},
                )

    def submit(self, job: ServerJob, *, keep: bool) -> None:
        """Append a job with a reserved place to the queue; kept jobs can be requested by id."""
        with self._changed:
            if self._stopping:
                raise self._ending()
            self._waiting.append(job)
            if keep:
                self._kept[job.id] = job
            self._changed.notify_all()

    def take(self) -> list[ServerJob]:
        """Wait for jobs, and return those that go through the model next, together.

        It returns [] when the server ends.
        """
        with self._changed:
            while not self._waiting and not self._stopping:
                if not self._changed.wait(LOOK_S):
                    self.forget_old()
            if self._stopping:
                return []
            batch = self._next_batch()
            for job in batch:
                self._waiting.remove(job)
                job.state = RUNNING
                job.step = "reading"
                job.started_s = time.monotonic()
            self._running = list(batch)
            return batch

    def count_batch(self, size: int) -> None:
        """Count a batch of `size` recordings that went through the model together."""
        with self._changed:
            self.batches += 1
            self.largest_batch = max(self.largest_batch, size)

    def _next_batch(self) -> list[ServerJob]:
        first, *others = self._waiting
        batch = [first]
        seconds = first.length_s
        if first.length_s > ALONE_S or first.corrected is not None:
            return batch
        for job in others:
            fits = job.length_s <= ALONE_S and seconds + job.length_s <= BATCH_S
            if job.key == first.key and fits and len(batch) < BATCH_JOBS:
                batch.append(job)
                seconds += job.length_s
        return batch

    def check(self, job: ServerJob) -> None:
        """Raise StoppedError if work on a job should not go on."""
        if job.stop.is_set() or time.monotonic() - job.started_s > self.limits.work_s:
            raise StoppedError

    def end(self, job: ServerJob, result: Any = None, refusal: RefusedError | None = None) -> None:
        """End a job with its result or a refusal; a cancelled job stays cancelled."""
        if refusal is None:
            job.set_result(result)
        with self._changed:
            if job.state not in (QUEUED, RUNNING):
                return
            if job in self._running:
                self._running.remove(job)
            if refusal is None:
                job.state = DONE
                job.refusal = None
            else:
                job.state = FAILED
                job.refusal = refusal
            if job.stop.is_set():
                job.state = CANCELLED
                job.set_result(None)
                if self._stopping:
                    job.refusal = self._ending()
                else:
                    job.refusal = RefusedError(409, "this job was cancelled")
            job.step = job.state
            if job.state == DONE:
                job.share = 1.0
            job.ended_s = time.monotonic()
            self.finished += 1
            self._taken -= 1
        if job.state != DONE:
            job.form.remove()
        job.future.set_result(None)

    def cancel(self, job: ServerJob) -> None:
        """Stop a job: at once if it is waiting; if it is running, as soon as its worker checks."""
        with self._changed:
            job.stop.set()
            waits = job in self._waiting
            if waits:
                self._waiting.remove(job)
        if waits:
            self.end(job)

    def place(self, job: ServerJob) -> int | None:
        """Return the position in the queue, from 1; None for a job that is not waiting."""
        with self._changed:
            if job in self._waiting:
                return self._waiting.index(job) + 1
            return None

    def find(self, job_id: str) -> ServerJob:
        """Return a kept job.

        Raises:
            RefusedError: 404, no job has this id, or it is no longer kept.
        """
        self.forget_old()
        with self._changed:
            if job_id not in self._kept:
                raise RefusedError(404, "no such job; finished ones are kept only for a while")
            self._kept[job_id].used_s = time.monotonic()
            return self._kept[job_id]

    def kept(self) -> list[ServerJob]:
        """Return all kept jobs, in the order in which they came."""
        with self._changed:
            return list(self._kept.values())

    def show(self) -> list[ServerJob]:
        """Return all kept jobs, as `kept`, for a client that asks for them."""
        self.forget_old()
        with self._changed:
            for job in self._kept.values():
                job.used_s = time.monotonic()
            return self.kept()

    def forget(self, job: ServerJob) -> None:
        """Cancel a job, and remove its result and its uploads."""
        self.cancel(job)
        with self._changed:
            self._kept.pop(job.id, None)
        job.form.remove()

    def forget_old(self) -> None:
        """Remove the jobs that may be forgotten and are too old or too many.

        A job is too old if it was last asked for too long ago.
        """
        late = time.monotonic() - self.limits.keep_s
        with self._changed:
            ended = self._ended()
            surplus = len(ended) - self.limits.kept_jobs
            for number, job in enumerate(filter(self._may_forget, ended)):
                if number < surplus or _asked_s(job) < late:
                    self.forget(job)

    def forget_oldest(self) -> bool:
        """Remove the finished job that nobody has asked for longest.

        Return False if none may be forgotten.
        """
        with self._changed:
            job = next(filter(self._may_forget, self._ended()), None)
            if job is not None:
                self.forget(job)
        return job is not None

    def _ended(self) -> list[ServerJob]:
        """Return the kept jobs that have ended, first those that nobody has asked for longest."""
        return sorted((job for job in self.kept() if job.future.done()), key=_asked_s)

    def _may_forget(self, job: ServerJob) -> bool:
        """Return whether a job has no work of a person, and nobody has asked for it lately."""
        return not job.has_work and job.used_s < time.monotonic() - self.limits.keep_s

    def stop(self) -> None:
        """End the queue: accept nothing new, and end every job now.

        Running jobs end when their work does.
        """
        with self._changed:
            self._stopping = True
            jobs = [*self._waiting, *self._running]
            self._changed.notify_all()
        for job in jobs:
            self.cancel(job)
            self.end(job)

    def counts(self) -> dict[str, int]:
        """Return the numbers of waiting, running and ended jobs, and the sizes of model batches."""
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
        return RefusedError(503, "the server is stopping", {"Retry-After": str(RETRY_S)})


def _asked_s(job: ServerJob) -> float:
    """Return when a finished job was last asked for; when it ended, if nobody has asked since."""
    return max(job.ended_s, job.used_s)


class ModelWorker(threading.Thread):
    """Takes jobs from a queue until it is stopped.

    Args:
        aligner: loaded; from now on only this worker may use it.
        queue: of the server.
    """

    def __init__(self, aligner: Aligner, queue: JobQueue) -> None:
        super().__init__(name="ctc-align-model", daemon=True)
        self._aligner = aligner
        self._queue = queue
        self._variants: dict[Settings, Aligner] = {open_settings(aligner): aligner}

    def run(self) -> None:
        """Process jobs until the queue is stopped; no error of a job ends the thread."""
        from ctc_align.kernels.cpu.background import compile_in_background

        while batch := self._queue.take():
            try:
                self._try(batch)
            finally:
                for job in batch:
                    if job.state == RUNNING:
                        self._fail(job, RuntimeError("a job was left without a result"))
            compile_in_background()

    def _try(self, batch: Sequence[ServerJob]) -> None:
        """Process jobs together; if an error stops them all, process each alone."""
        try:
            self._work(batch)
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0], error)
            for job in batch:
                if not job.future.done():
                    self._try([job])

    def _work(self, batch: Sequence[ServerJob]) -> None:
        aligner = self._aligner_for(batch[0].settings)
        if batch[0].corrected is not None:
            self._align_again(batch[0], batch[0].corrected, aligner)
            return
        read = [(job, audio) for job in batch if (audio := self._loaded(job, aligner)) is not None]
        loaded = [(job, audio) for job, audio in read if self._goes_on(job)]
        # A header may have promised less than there was: what is long goes alone, and can be
        # stopped.
        short = [(job, audio) for job, audio in loaded if job.length_s <= ALONE_S]
        for group in [short] * bool(short) + [[one] for one in loaded if one[0].length_s > ALONE_S]:
            self._queue.count_batch(len(group))
            for job, _ in group:
                job.step = "aligning" if job.kind == "align" else "scoring"
            results = (self._aligned if batch[0].kind == "align" else self._scored)(aligner, group)
            for (job, _), result in zip(group, results, strict=True):
                if isinstance(result, CtcAlignError):
                    self._fail(job, result)
                else:
                    self._queue.end(job, result)

    def _align_again(self, job: ServerJob, corrected: Alignment, aligner: Aligner) -> None:
        """End a job with its corrections aligned again; the recording keeps its name."""
        job.step = "aligning"
        result = aligner.realign(corrected, str(job.audio.path), progress=self._progress_of(job))
        self._queue.end(job, replace(result, audio=corrected.audio))

    def _goes_on(self, job: ServerJob) -> bool:
        """Return whether work on a job should go on; False if it was stopped, and ended here."""
        try:
            self._queue.check(job)
        except StoppedError as error:
            self._fail(job, error)
            return False
        return True

    def _loaded(self, job: ServerJob, aligner: Aligner) -> Audio | None:
        """Return the recording of a job at the model's rate; None if the job ended here."""
        from ctc_align.alignment.aligner import find_choice
        from ctc_align.audio.loading import load_watched

        model = aligner.model
        assert model is not None
        try:
            self._watch(job, 0.0)
            by_language = find_choice(aligner)
            language = job.texts[0].language or by_language.language_of(job.texts[0].text)
            choice = job.settings.sound_choice(by_language.track_language(language))
            audio = load_watched(
                job.audio.path, model.sample_rate, partial(self._watch, job), choice=choice
            )
            job.duration_s = audio.duration_s
        except Exception as error:
            self._fail(job, error)
            return None
        return replace(audio, name=job.audio.filename)

    def _watch(self, job: ServerJob, read_s: float) -> None:
        """Raise the error that ends the reading of a job's recording.

        `read_s` seconds of it were read.
        """
        self._queue.check(job)
        if read_s > self._queue.limits.audio_s:
            raise too_long(job.audio.filename, self._queue.limits.audio_s)

    def _aligned(
        self, aligner: Aligner, loaded: Sequence[tuple[ServerJob, Audio]]
    ) -> Sequence[Alignment | CtcAlignError]:
        if len(loaded) > 1:
            pairs = [(audio, job.texts[0]) for job, audio in loaded]
            return aligner.align_batch(pairs, "return", utterances=[job.name for job, _ in loaded])
        [(job, audio)] = loaded
        try:
            return [
                aligner.align(
                    audio, job.texts[0], utterance=job.name, progress=self._progress_of(job)
                )
            ]
        except CtcAlignError as error:
            return [error]

    def _scored(
        self, aligner: Aligner, loaded: Sequence[tuple[ServerJob, Audio]]
    ) -> Sequence[list[dict[str, Any]] | CtcAlignError]:
        from ctc_align.alignment.aligner import group_by_aligner

        texts = [job.texts for job, _ in loaded]
        results: list[Any] = [None] * len(loaded)
        for chosen, indices, languages in group_by_aligner(aligner, texts, [""] * len(loaded)):
            for index, scored in zip(
                indices, self._scored_by(chosen, [loaded[i] for i in indices], languages)
            ):
                results[index] = scored
        return results

    def _scored_by(
        self, aligner: Aligner, loaded: Sequence[tuple[ServerJob, Audio]], languages: Sequence[str]
    ) -> Sequence[list[dict[str, Any]] | CtcAlignError]:
        results: list[Any]
        if len(loaded) > 1:
            results = list(aligner.emissions_batch([audio for _, audio in loaded], "return"))
        else:
            [(job, audio)] = loaded
            try:
                results = [aligner.emissions(audio, progress=self._progress_of(job))]
            except CtcAlignError as error:
                return [error]
        heard = [
            index
            for index, result in enumerate(results)
            if not isinstance(result, CtcAlignError) and self._goes_on(loaded[index][0])
        ]
        texts = [loaded[index][0].texts for index in heard]
        emissions, codes = (
            [results[index] for index in heard],
            [languages[index] for index in heard],
        )
        for index, scored in zip(heard, aligner.score_emissions(emissions, texts, languages=codes)):
            results[index] = [_score_row(one) for one in scored]
        return results

    def _progress_of(self, job: ServerJob) -> Callable[[float], None]:
        def report(share: float) -> None:
            job.share = share
            self._queue.check(job)

        return report

    def _fail(self, job: ServerJob, error: Exception) -> None:
        if isinstance(error, StoppedError):
            seconds = self._queue.limits.work_s
            error = RefusedError(
                503,
                f"{job.audio.filename}: took more than {seconds:g} s of work; send a shorter part",
            )
        self._queue.end(job, refusal=refusal_of(error, job.names))

    def _aligner_for(self, settings: Settings) -> Aligner:
        """Return an aligner with these settings and the same models.

        Loading a model does not use these settings.
        """
        if settings not in self._variants:
            if len(self._variants) >= VARIANTS:
                del self._variants[
                    next(key for key in self._variants if key != open_settings(self._aligner))
                ]
            self._variants[settings] = self._aligner.with_settings(settings)
        return self._variants[settings]


def open_settings(aligner: Aligner) -> Settings:
    """Return the settings that requests begin with; without a language if each text decides it."""
    from ctc_align.alignment.aligner import find_choice

    choice = find_choice(aligner)
    return choice.given if choice.by_text else aligner.settings


def too_long(name: str, most_s: float, duration_s: float | None = None) -> RefusedError:
    """Return the refusal of a recording that is longer than the server takes."""
    if duration_s is None:
        got = "more"
    else:
        got = f"{duration_s:.1f} s"
    return RefusedError(
        413, f"{name}: expected at most {most_s:g} s of audio, got {got}; send a part of it"
    )


def _score_row(scored: Scored) -> dict[str, Any]:
    """Return one transcript's figures as JSON values: null if there is no number."""
    row = asdict(replace(scored, error=None))
    row |= {"loss_per_token": scored.loss_per_token, "loss_per_frame": scored.loss_per_frame}
    if scored.error is None:
        row["error"] = None
    else:
        row["error"] = " ".join(str(scored.error).split())
    return {
        name: finite(value) if isinstance(value, float) else value for name, value in row.items()
    }
