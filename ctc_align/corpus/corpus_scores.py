"""The losses of a whole source, streamed: like utterances together, on all cores, results in the source's order."""

from __future__ import annotations

import logging
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ctc_align import units
from ctc_align.config import Settings
from ctc_align.corpus.engine.batch_plan import cut
from ctc_align.corpus.utterance import Refused, Source, Utterance
from ctc_align.errors import CtcAlignError, InputError, UsageError

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner
    from ctc_align.alignment.scoring import Scored
    from ctc_align.models.log_probs import Reader
    from ctc_align.types import Audio, Emissions

WINDOW = 256
"""Utterances that are sorted by length together; two windows are in memory at a time."""
FEW_S = 600.0
"""A source with less speech than this is scored in this process: others take as long to start."""
READERS = 4
"""Batches whose audio is read at a time in one process."""

Batch = Sequence[Utterance]


@dataclass(frozen=True)
class ScoreOptions:
    """What scores a source; `workers` None is one process a core on the CPU, else one in all.

    `log_probs` reads a source of log-probs; `model` is then None.
    """

    model: str | None = "english"
    lexicon: str | None = None
    device: str = "auto"
    backend: str = "auto"
    settings: Settings = field(default_factory=Settings)
    workers: int | None = None
    batch_seconds: float = 120.0
    log_probs: Reader | None = None


@dataclass(frozen=True)
class ScoredUtterance:
    """An utterance, or what stands in its place in the source, with its transcripts, best first; or why there are none.

    `duration_s` is that of its audio.
    """

    id: str
    origin: str
    text: str
    scored: tuple[Scored, ...] = ()
    error: str | None = None
    duration_s: float = 0.0


def score_source(source: Source, options: ScoreOptions | None = None) -> Iterator[ScoredUtterance]:
    """Every utterance of a source in its order, streaming; what cannot be scored is there with its error.

    Raises:
        UsageError, BackendError: the options are wrong; told before anything is read.
        CtcAlignError: a worker died.
    """
    options = options or ScoreOptions()
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"workers: expected at least 1, got {options.workers}")
    if not options.batch_seconds > 0:
        raise UsageError(f"batch_seconds: expected seconds above 0, got {options.batch_seconds}")
    return _scored(source, options, _aligner(options))


@dataclass
class _Window:
    """Consecutive items of a source; `batches` hold places in it, `futures` their results, `seconds` is their audio."""

    items: list[Utterance | Refused]
    batches: list[list[int]]
    seconds: float
    futures: list[Future[list[ScoredUtterance]]] = field(default_factory=list)


def _scored(source: Source, options: ScoreOptions, aligner: Aligner) -> Iterator[ScoredUtterance]:
    plan = _windows(source, options.batch_seconds)
    first = list(islice(plan, 2))
    is_small = len(first) < 2 and sum(window.seconds for window in first) < FEW_S
    submit, executor = _crew(options, aligner, is_small)
    waiting: deque[_Window] = deque()
    try:
        for window in chain(first, plan):
            for places in window.batches:
                window.futures.append(submit([window.items[i] for i in places]))  # type: ignore[misc]
            waiting.append(window)
            if len(waiting) > 1:
                yield from _collected(waiting.popleft())
        while waiting:
            yield from _collected(waiting.popleft())
    except BrokenProcessPool as error:
        raise CtcAlignError(
            "a worker process ended before its work was done: is memory short? try --workers 1"
        ) from error
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _windows(source: Iterable[Utterance | Refused], batch_seconds: float) -> Iterator[_Window]:
    items = iter(source)
    while window := list(islice(items, WINDOW)):
        places = [i for i, item in enumerate(window) if isinstance(item, Utterance)]
        lengths_s = [_length_s(item) for item in window if isinstance(item, Utterance)]
        batches = [[places[k] for k in batch] for batch in cut(lengths_s, batch_seconds)]
        yield _Window(window, batches, sum(lengths_s))


def _length_s(utterance: Utterance) -> float:
    """For the plan alone: 0 where the audio cannot be read, which is told when it is."""
    from ctc_align.corpus.engine.read_ahead import length_of

    return length_of(utterance)


def _collected(window: _Window) -> Iterator[ScoredUtterance]:
    """The results of a window in its order."""
    found: dict[int, ScoredUtterance] = {}
    for places, future in zip(window.batches, window.futures):
        found.update(zip(places, future.result()))
    for i, item in enumerate(window.items):
        yield (
            found.pop(i) if isinstance(item, Utterance) else ScoredUtterance(item.id, item.origin, "", (), item.reason)
        )


def _crew(
    options: ScoreOptions, aligner: Aligner, is_small: bool
) -> tuple[Callable[[Batch], Future[list[ScoredUtterance]]], Executor]:
    """Who scores the batches: processes with one thread each, or this process with threads that read."""
    workers = options.workers or _default_workers(options.device)
    if workers == 1 or (is_small and options.workers is None):
        threads = ThreadPoolExecutor(READERS, "score")
        scorer = _Scorer(aligner, options.log_probs)
        return lambda batch: threads.submit(scorer, batch), threads
    spawn = multiprocessing.get_context("spawn")
    processes = ProcessPoolExecutor(workers, spawn, _start, (options, logging.getLogger("ctc_align").level))
    return lambda batch: processes.submit(_work, batch), processes


def _default_workers(device: str) -> int:
    from ctc_align.models import resolve_device

    if resolve_device(device).type != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _aligner(options: ScoreOptions) -> Aligner:
    from ctc_align.alignment.aligner import Aligner

    return Aligner(
        options.model,
        device=options.device,
        backend=options.backend,
        lexicon=options.lexicon,
        settings=options.settings,
    )


class _Scorer:
    """Reads and scores a batch; several threads may read, one listens."""

    def __init__(self, aligner: Aligner, log_probs: Reader | None) -> None:
        self.aligner = aligner
        self.sample_rate = aligner.model.sample_rate if aligner.model else 0
        self.log_probs = log_probs
        self.lock = threading.Lock()

    def __call__(self, batch: Batch) -> list[ScoredUtterance]:
        sounds = [self._loaded(utterance) for utterance in batch]
        with self.lock:
            try:
                return self._scores(batch, sounds)
            except Exception:  # what breaks a batch is looked for utterance by utterance
                return [self._alone(utterance, sound) for utterance, sound in zip(batch, sounds)]

    def _loaded(self, utterance: Utterance) -> Audio | Emissions | CtcAlignError:
        from ctc_align.corpus.engine.utterance_audio import read_utterance

        try:
            return read_utterance(utterance, self.sample_rate, self.log_probs)
        except CtcAlignError as error:
            return error
        except Exception as error:  # whatever it is, it is this file's
            return InputError(f"{type(error).__name__}: {error}")

    def _alone(self, utterance: Utterance, sound: Audio | Emissions | CtcAlignError) -> ScoredUtterance:
        try:
            return self._scores([utterance], [sound])[0]
        except Exception as error:
            return _failed(utterance, error)

    def _scores(self, batch: Batch, sounds: Sequence[Audio | Emissions | CtcAlignError]) -> list[ScoredUtterance]:
        good = [i for i, sound in enumerate(sounds) if not isinstance(sound, CtcAlignError)]
        heard: dict[int, Any] = dict(
            zip(good, self.aligner.emissions_batch([sound for sound in sounds if not isinstance(sound, CtcAlignError)]))
        )
        heard |= {i: sound for i, sound in enumerate(sounds) if isinstance(sound, CtcAlignError)}
        good = [i for i in good if not isinstance(heard[i], CtcAlignError)]
        texts = [batch[i].texts or (batch[i].text,) for i in good]
        scored = dict(zip(good, self.aligner.score_emissions([heard[i] for i in good], texts)))
        return [
            ScoredUtterance(one.id, one.origin, one.text, tuple(scored[i]), None, _duration_s(sounds[i]))
            if i in scored
            else _failed(one, heard[i])
            for i, one in enumerate(batch)
        ]


def _duration_s(sound: Audio | Emissions | CtcAlignError) -> float:
    if isinstance(sound, CtcAlignError):
        return 0.0
    if sound.duration_s is not None:
        return sound.duration_s
    return units.frames_to_seconds(len(sound.log_probs), sound.frame_shift_s)


def _failed(utterance: Utterance, error: Exception) -> ScoredUtterance:
    told = " ".join(str(error).split())
    reason = told if isinstance(error, CtcAlignError) else f"{type(error).__name__}: {told}"
    return ScoredUtterance(utterance.id, utterance.origin, utterance.text, (), reason)


_scorer: _Scorer
"""Of a worker process."""


def _start(options: ScoreOptions, log_level: int) -> None:
    """What a worker process does first."""
    import torch

    # The parent hears an interruption too, and sees to the end of this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("ctc-align: warning: %(message)s"))
    logger = logging.getLogger("ctc_align")
    logger.addHandler(handler)
    logger.setLevel(max(log_level, logging.WARNING))
    torch.set_num_threads(1)
    global _scorer
    _scorer = _Scorer(_aligner(options), options.log_probs)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(batch: Batch) -> list[ScoredUtterance]:
    return _scorer(batch)
