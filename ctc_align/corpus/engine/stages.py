"""What is done with a batch, in three stages that may overlap from batch to batch: read, align, write."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctc_align.config import Settings
from ctc_align.corpus.engine.profiling import STAGES, Clock, Warnings
from ctc_align.corpus.state.journal import DONE, FAILED
from ctc_align.corpus.state.lock import exclusive
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import CtcAlignError, OutputError

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.corpus.engine.batch_plan import Batch, Job
    from ctc_align.corpus.outputs.layout import Layout
    from ctc_align.formats import Alignment
    from ctc_align.models.log_probs import Reader
    from ctc_align.types import Audio, Emissions

_OWN_FAULT = ("ENAMETOOLONG", "ENOTDIR", "EISDIR", "EEXIST", "ENOENT", "EINVAL", "EILSEQ", "ENOTEMPTY", "ELOOP")
"""Reasons for which one utterance cannot be written; any other (a full disk, no permission) concerns them all."""


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker needs to know of the run; `log_probs` reads them in the place of a model."""

    model: str | None
    lexicon: str | None
    device: str
    backend: str
    settings: Settings
    layout: Layout
    threads: int = 1
    profile: bool = False
    log_probs: Reader | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one job.

    `spooled` is what the parent keeps for the file that is assembled, `doubt` goes into the journal as it is.
    """

    index: int
    status: str
    reason: str | None = None
    loss: float | None = None
    loss_per_token: float | None = None
    duration_s: float | None = None
    seconds: float = 0.0
    spooled: bytes | None = None
    doubt: dict[str, float | None] | None = None


@dataclass(frozen=True)
class Finished:
    """A batch is done, its outputs in place; `seconds` by stage, and what the library warned of."""

    number: int
    outcomes: tuple[Outcome, ...]
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broken:
    """The run cannot go on: the call is wrong, or outputs cannot be written."""

    error: CtcAlignError


@dataclass
class Load:
    """A batch on its way through the threads; place by place its jobs, their audio or why there is none."""

    batch: Batch
    audio: list[Audio | Emissions | str] = field(default_factory=list)
    results: list[Alignment | str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))


class Stages:
    """The model, loaded once, and what is done with it. `align` is for one thread at a time, the others for any."""

    def __init__(self, options: WorkerOptions, aligner: Aligner | None = None) -> None:
        """`aligner` is loaded where it is not given. Raises CtcAlignError: a model or device that cannot be used."""
        self.layout = options.layout
        self.warnings = Warnings()
        logger = logging.getLogger("ctc_align")
        logger.addHandler(self.warnings)
        logger.propagate = False
        self.aligner, self.device = (aligner, options.device) if aligner is not None else load_aligner(options)
        self.sample_rate = self.aligner.model.sample_rate if self.aligner.model else 16000
        self.log_probs = options.log_probs
        self.clock = Clock()
        if options.profile:
            self.clock.watch(self.aligner)

    def read(self, batch: Batch) -> Load:
        load = Load(batch)
        before = time.thread_time()
        for job in batch.jobs:
            started = time.perf_counter()
            load.audio.append(_loaded(job.utterance, self.sample_rate, self.log_probs))
            load.seconds.append(time.perf_counter() - started)
        load.stages["reading"] = time.thread_time() - before
        return load

    def align(self, load: Load) -> None:
        started = time.perf_counter()
        self.clock.start()
        good = [i for i, audio in enumerate(load.audio) if not isinstance(audio, str)]
        pairs: list[tuple[Any, Job]] = [(load.audio[i], load.batch.jobs[i]) for i in good]
        load.results = [audio if isinstance(audio, str) else "" for audio in load.audio]
        for i, result in zip(good, _results(self.aligner, pairs)):
            load.results[i] = result
        spent = time.perf_counter() - started
        load.audio = []
        padded = sum(job.length_s for _, job in pairs) or 1.0
        for i in good:
            load.seconds[i] += spent * (load.batch.jobs[i].length_s / padded)
        load.stages.update(self.clock.stages(spent))

    def write(self, load: Load) -> Finished | Broken:
        before = time.thread_time()
        outcomes = []
        for job, result, seconds in zip(load.batch.jobs, load.results, load.seconds):
            if not job.todo:
                continue
            try:
                outcomes.append(self._place(job, result, seconds))
            except OutputError as error:
                return Broken(error)
        load.stages["writing"] = time.thread_time() - before
        return Finished(load.batch.number, tuple(outcomes), load.stages, self.warnings.taken())

    def _place(self, job: Job, result: Alignment | str, seconds: float) -> Outcome:
        """Put an utterance's outputs in their places.

        Raises:
            OutputError: for a reason that other utterances share.
        """
        from ctc_align.corpus.outputs.layout import Piece

        if isinstance(result, str):
            return Outcome(job.index, FAILED, result, seconds=seconds)
        utterance = job.utterance
        alignment = replace(result, utterance=utterance.id, audio=utterance.audio, offset_s=utterance.offset_s)
        started = time.perf_counter()
        try:
            spooled = self.layout.place(Piece(job.index, utterance, alignment))
        except CtcAlignError as error:
            if isinstance(error, OutputError) and not _own_fault(error):
                raise
            return Outcome(job.index, FAILED, reason_of(error, utterance.id), seconds=seconds)
        seconds += time.perf_counter() - started
        per_token, loss = _finite(alignment.loss_per_token), _finite(alignment.loss)
        duration_s, doubt = alignment.duration_s, _doubt(alignment)
        return Outcome(job.index, DONE, None, loss, per_token, duration_s, seconds, spooled, doubt)


def limit_threads(threads: int) -> None:
    """For libraries that are loaded after this; torch is told by itself."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(threads)


def load_aligner(options: WorkerOptions) -> tuple[Aligner, str]:
    """The aligner of a worker, and the device that it is on."""
    import torch

    from ctc_align.alignment.aligner import Aligner
    from ctc_align.models import resolve_device

    torch.set_num_threads(options.threads)
    device = str(resolve_device(options.device))
    aligner = Aligner(
        options.model,
        device=options.device,
        backend=options.backend,
        lexicon=options.lexicon,
        settings=options.settings,
    )
    _compile_once(aligner, Path(options.layout.settings.parts or ".", "compiling"))
    return aligner, device


def _compile_once(aligner: Aligner, lock: Path) -> None:
    """On a machine that has not aligned before one worker compiles the kernels, and the others wait for it."""
    from ctc_align.kernels.cpu.cpu_backend import is_compiled

    if is_compiled() or aligner.model is None:
        return
    import numpy as np

    with exclusive(lock):
        if not is_compiled():
            rate = aligner.model.sample_rate
            noise = np.random.default_rng(0).normal(0.0, 0.1, rate).astype(np.float32)
            aligner.align_batch([((noise, rate), "a")], on_error="return")


def _loaded(utterance: Utterance, sample_rate: int, log_probs: Reader | None) -> Audio | Emissions | str:
    """The sound of an utterance, or its log-probs, or why there is neither."""
    from ctc_align.corpus.engine.utterance_audio import read_utterance

    try:
        return read_utterance(utterance, sample_rate, log_probs)
    except Exception as error:  # whatever it is, it is this file's
        return reason_of(error, utterance.id)


def _results(aligner: Aligner, pairs: list[tuple[Any, Job]]) -> list[Alignment | str]:
    """Alignments, or why there is none; what breaks a whole batch is looked for utterance by utterance."""
    if not pairs:
        return []
    names = [job.utterance.id for _, job in pairs]
    try:
        texts = [(audio, job.utterance.text) for audio, job in pairs]
        results = aligner.align_batch(texts, on_error="return", utterances=names)
        return [reason_of(r, name) if isinstance(r, CtcAlignError) else r for r, name in zip(results, names)]
    except Exception as error:
        if len(pairs) == 1:
            return [reason_of(error, names[0])]
        return [_results(aligner, [pair])[0] for pair in pairs]


def reason_of(error: BaseException, name: str) -> str:
    """What an error says, in one line, without the utterance's name before it."""
    text = " ".join(str(error).split()).removeprefix(f"{name}: ")
    return text if isinstance(error, CtcAlignError) and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _own_fault(error: OutputError) -> bool:
    """Whether only this utterance cannot be written."""
    import errno

    cause = error.__cause__
    if not isinstance(cause, OSError):
        return True
    return errno.errorcode.get(cause.errno or 0, "") in _OWN_FAULT


def _doubt(alignment: Alignment) -> dict[str, float | None] | None:
    """What the journal says of an utterance in doubt."""
    if not alignment.in_doubt:
        return None
    least = min((word.confidence for word in alignment.words if word.confidence is not None), default=None)
    return {
        "words": len(alignment.doubtful),
        "unexplained": len(alignment.unexplained),
        "least_confidence": None if least is None else round(least, 6),
    }


def _finite(number: float | None) -> float | None:
    return number if number is not None and abs(number) < float("inf") else None
