"""`corpus` in this process: one worker that is no process, and an aligner that does not listen."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from ctc_align.corpus import run
from ctc_align.corpus.engine.pool_messages import BatchDone, RunFailed
from ctc_align.corpus.engine.stages import Stages, WarningCollector
from ctc_align.corpus.engine.worker_pools import PoolPlan
from ctc_align.errors import TooShortError
from ctc_align.formats import Alignment
from ctc_align.types import AlignedToken, AlignedWord


class EvenAligner:
    """Spreads the words of a transcript evenly over the sound."""

    model = types.SimpleNamespace(sample_rate=16000)

    def align_batch(self, pairs: Any, on_error: str, utterances: Any, timings: Any) -> list[Any]:
        return [self.align(audio, text, name) for (audio, text), name in zip(pairs, utterances)]

    def align(self, audio: Any, text: str, name: str) -> Any:
        if text == "fails":
            return TooShortError(f"{name}: the transcript needs more frames than the audio has")
        words, place = [], 0
        texts = text.split()
        step_s = audio.duration_s / max(len(texts), 1)
        for i, word in enumerate(texts):
            place = text.index(word, place)
            token = AlignedToken(word[:1], i * step_s, (i + 1) * step_s, 0.5)
            times = ("aligned", i * step_s, (i + 1) * step_s, 0.5, (token,))
            words.append(AlignedWord(word, word, place, place + len(word), *times))
            place += len(word)
        return Alignment(
            name, "", audio.duration_s, "even", "cpu", 0.01, 1.0, -1.0, text, tuple(words), loss_per_token=0.1
        )


class InlinePool:
    """Does a batch as soon as it is asked for events."""

    def __init__(self, options: Any) -> None:
        self._stages = Stages(options, EvenAligner(), WarningCollector())  # type: ignore[arg-type]
        self._batches: deque[Any] = deque()

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(self, *_: object) -> None:
        self._batches.clear()

    @property
    def busy(self) -> int:
        return len(self._batches)

    def offer(self, batch: Any, alone: bool = False) -> bool:
        if self._batches:
            return False
        self._batches.append(batch)
        return True

    def events(self, timeout_s: float) -> Iterator[BatchDone | RunFailed]:
        while self._batches:
            batch = self._batches.popleft()
            state = self._stages.read(batch)
            self._stages.compute(state)
            message = self._stages.write(state)
            yield message if isinstance(message, RunFailed) else BatchDone(batch, message)

    def kill(self) -> None:
        self._batches.clear()


@pytest.fixture
def inline_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs over corpora work in this process."""
    monkeypatch.setattr(run, "plan_pool", lambda *_: PoolPlan(1, "cpu", InlinePool))
