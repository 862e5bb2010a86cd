"""`corpus` in this process: one worker that is no process, and an aligner that does not listen."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from even_aligner import EvenAligner

from ctc_align.corpus import run
from ctc_align.corpus.engine.pool_messages import BatchDone, RunFailed
from ctc_align.corpus.engine.stages import Stages, WarningCollector
from ctc_align.corpus.engine.worker_pools import PoolPlan


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
