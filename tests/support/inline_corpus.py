"""`corpus` in this process: a worker that is no process, and an aligner that does not listen, or
the run's own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from even_aligner import EvenAligner

from ctc_align.corpus import run
from ctc_align.corpus.engine.batches import Report
from ctc_align.corpus.engine.stages import Stages, WarningCollector, load_aligner
from ctc_align.corpus.engine.worker_pools import PoolPlan


class InlinePool:
    """Does a batch as soon as it is asked for events."""

    def __init__(self, options: Any, aligner: Any = None) -> None:
        self._stages = Stages(options, aligner or EvenAligner(), WarningCollector())
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

    def events(self, timeout_s: float) -> Iterator[Report]:
        while self._batches:
            yield self._stages.work(self._batches.popleft())

    def kill(self) -> None:
        self._batches.clear()


def inline_pool(*_: object) -> PoolPlan:
    """Plan one worker that is no process, in place of `plan_pool`, with the aligner that the run
    asks for."""
    return 1, "cpu", lambda options: InlinePool(options, load_aligner(options))


@pytest.fixture
def inline_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs over corpora work in this process."""
    monkeypatch.setattr(run, "plan_pool", lambda *_: (1, "cpu", InlinePool))


@pytest.fixture
def inline_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs over corpora work in this process, with the aligner that they ask for: no worker has
    to start."""

    monkeypatch.setattr(run, "plan_pool", inline_pool)
