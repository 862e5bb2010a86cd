"""The worker: one thread with one model, kept warm, that takes what waits and aligns or scores it, many at once.

Short recordings of one kind and the same settings go through the model together (`Aligner.align_batch`), and each gets
what it would get alone. A long one goes alone: its progress is told, and it can be stopped at any time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ctc_align.config import Settings
from ctc_align.errors import CtcAlignError
from ctc_align.files import Alignment
from ctc_align.files.writer import finite
from ctc_align.serve.job_queue import RUNNING, JobQueue, ServerJob, StoppedError
from ctc_align.serve.refusals import RefusedError, refusal_of
from ctc_align.types import Audio

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.alignment.scoring import Scored

VARIANTS = 16
"""So many settings have their aligner kept, all with the same model."""

logger = logging.getLogger(__name__)


class ModelWorker(threading.Thread):
    """Takes jobs from a queue until it is stopped.

    Args:
        aligner: loaded; it is this worker's alone from now on.
        queue: of the server.
    """

    def __init__(self, aligner: Aligner, queue: JobQueue) -> None:
        super().__init__(name="ctc-align-model", daemon=True)
        self._aligner, self._queue = aligner, queue
        self._variants: dict[Settings, Aligner] = {open_settings(aligner): aligner}

    def run(self) -> None:
        """Work until the queue is stopped; no fault of a job ends the thread."""
        while batch := self._queue.take():
            try:
                self._work(batch)
            except Exception as error:
                if len(batch) > 1:
                    self._one_by_one(batch)
                else:
                    self._fail(batch[0], error)
            finally:
                for job in batch:
                    if job.state == RUNNING:
                        self._fail(job, RuntimeError("a job was left without a result"))

    def _one_by_one(self, batch: Sequence[ServerJob]) -> None:
        """Work on each alone: what ended the work on all of them is one job's fault."""
        for job in batch:
            if not job.future.done():
                try:
                    self._work([job])
                except Exception as error:
                    self._fail(job, error)

    def _work(self, batch: Sequence[ServerJob]) -> None:
        aligner = self._aligner_for(batch[0].settings)
        if batch[0].corrected is not None:
            self._align_again(batch[0], batch[0].corrected, aligner)
            return
        read = [(job, audio) for job in batch if (audio := self._loaded(job, aligner)) is not None]
        loaded = [(job, audio) for job, audio in read if self._goes_on(job)]
        if not loaded:
            return
        self._queue.count_batch(len(loaded))
        for job, _ in loaded:
            job.step = "aligning" if job.kind == "align" else "scoring"
        results = (self._aligned if batch[0].kind == "align" else self._scored)(aligner, loaded)
        for (job, _), result in zip(loaded, results, strict=True):
            if isinstance(result, CtcAlignError):
                self._fail(job, result)
            else:
                self._queue.end(job, result)

    def _align_again(self, job: ServerJob, corrected: Alignment, aligner: Aligner) -> None:
        """End a job with its corrections aligned again; the recording is called as it was."""
        job.step = "aligning"
        result = aligner.realign(corrected, str(job.audio.path), progress=self._progress_of(job))
        self._queue.end(job, replace(result, audio=corrected.audio))

    def _goes_on(self, job: ServerJob) -> bool:
        """Return whether work on a job should go on; False where it was stopped, and ended here."""
        try:
            self._queue.check(job)
        except StoppedError as error:
            self._fail(job, error)
            return False
        return True

    def _loaded(self, job: ServerJob, aligner: Aligner) -> Audio | None:
        """Return the recording of a job at the model's rate; None where the job ended here."""
        from ctc_align.audio.loading import load_segment

        model = aligner.model
        assert model is not None
        try:
            self._queue.check(job)
            audio = load_segment(
                job.audio.path,
                model.sample_rate,
                channel=job.settings.channel_number,
                on_disk=True,
            )
            if audio.duration_s > self._queue.limits.audio_s:
                raise too_long(job.audio.filename, audio.duration_s, self._queue.limits.audio_s)
        except Exception as error:
            self._fail(job, error)
            return None
        return replace(audio, name=job.audio.filename)

    def _aligned(
        self, aligner: Aligner, loaded: Sequence[tuple[ServerJob, Audio]]
    ) -> Sequence[Alignment | CtcAlignError]:
        if len(loaded) > 1:
            pairs = [(audio, job.texts[0]) for job, audio in loaded]
            return aligner.align_batch(pairs, "return", utterances=[job.name for job, _ in loaded])
        [(job, audio)] = loaded
        try:
            return [aligner.align(audio, job.texts[0], utterance=job.name, progress=self._progress_of(job))]
        except CtcAlignError as error:
            return [error]

    def _scored(
        self, aligner: Aligner, loaded: Sequence[tuple[ServerJob, Audio]]
    ) -> Sequence[list[dict[str, Any]] | CtcAlignError]:
        from ctc_align.alignment.model_choice import by_aligner

        texts = [[text.text for text in job.texts] for job, _ in loaded]
        results: list[Any] = [None] * len(loaded)
        for own, places, languages in by_aligner(aligner, texts, [""] * len(loaded)):
            for place, scored in zip(places, self._scored_by(own, [loaded[place] for place in places], languages)):
                results[place] = scored
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
            place
            for place, result in enumerate(results)
            if not isinstance(result, CtcAlignError) and self._goes_on(loaded[place][0])
        ]
        texts = [[text.text for text in loaded[place][0].texts] for place in heard]
        emissions, codes = [results[place] for place in heard], [languages[place] for place in heard]
        for place, scored in zip(heard, aligner.score_emissions(emissions, texts, languages=codes)):
            results[place] = [_score_row(one) for one in scored]
        return results

    def _progress_of(self, job: ServerJob) -> Callable[[float], None]:
        def told(share: float) -> None:
            job.share = share
            self._queue.check(job)

        return told

    def _fail(self, job: ServerJob, error: Exception) -> None:
        if isinstance(error, StoppedError):
            seconds = self._queue.limits.work_s
            error = RefusedError(
                503, f"{job.audio.filename}: took more than {seconds:g} s of work; send a shorter part"
            )
        self._queue.end(job, refusal=refusal_of(error, job.names))

    def _aligner_for(self, settings: Settings) -> Aligner:
        """Return an aligner with these settings and the same models: they are settings that no model looks at."""
        if settings not in self._variants:
            if len(self._variants) >= VARIANTS:
                del self._variants[next(key for key in self._variants if key != open_settings(self._aligner))]
            self._variants[settings] = self._aligner.with_settings(settings)
        return self._variants[settings]


def open_settings(aligner: Aligner) -> Settings:
    """Return the settings that requests begin with: a language that is told by each text is open in them."""
    return aligner.choice.given if aligner.choice.by_text else aligner.settings


def too_long(name: str, duration_s: float, most_s: float) -> RefusedError:
    """Return the refusal of a recording that is longer than the server takes."""
    return RefusedError(
        413, f"{name}: expected at most {most_s:g} s of audio, got {duration_s:.1f} s; send a part of it"
    )


def _score_row(scored: Scored) -> dict[str, Any]:
    """Return one transcript's figures as JSON has them: null where there is no number."""
    row = asdict(replace(scored, error=None))
    row |= {"loss_per_token": scored.loss_per_token, "loss_per_frame": scored.loss_per_frame}
    row["error"] = None if scored.error is None else " ".join(str(scored.error).split())
    return {name: finite(value) if isinstance(value, float) else value for name, value in row.items()}
