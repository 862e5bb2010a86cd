"""What a worker watches in itself: where its time goes, and what the library warns of."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctc_align.alignment.aligner import Aligner

STAGES = ("reading", "waiting", "model", "kernels", "words", "writing")
"""Of these, reading and writing have threads of their own; the others follow each other in one."""


class Warnings(logging.Handler):
    """What the library warns of goes to the parent with the next batch."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())

    def taken(self) -> tuple[str, ...]:
        lines, self._lines = self._lines, []
        return tuple(lines)


class Clock:
    """Tells the model's time and the kernels' from the rest of a batch's."""

    def __init__(self) -> None:
        self.spent = {"model": 0.0, "kernels": 0.0}
        self._inside = False

    def watch(self, aligner: Aligner) -> None:
        from ctc_align.kernels import reference
        from ctc_align.kernels.cpu import cpu_backend
        from ctc_align.kernels.gpu import gpu_backend

        if aligner.model is not None:
            for name in ("emissions", "emissions_batch"):
                self._watch(aligner.model, name, "model")
        for backend in (cpu_backend, gpu_backend, reference):
            for name in ("best_path", "forward", "occupancy"):
                self._watch(backend, name, "kernels")

    def _watch(self, owner: Any, name: str, stage: str) -> None:
        function = getattr(owner, name, None)
        if function is None:
            return

        def timed(*arguments: Any, **options: Any) -> Any:
            with self.running(stage):
                return function(*arguments, **options)

        setattr(owner, name, timed)

    @contextlib.contextmanager
    def running(self, stage: str) -> Iterator[None]:
        if self._inside:  # one call of these within another is counted once
            yield
            return
        self._inside = True
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[stage] += time.perf_counter() - started
            self._inside = False

    def start(self) -> None:
        self.spent = dict.fromkeys(self.spent, 0.0)

    def stages(self, whole_s: float) -> dict[str, float]:
        return {**self.spent, "words": max(0.0, whole_s - sum(self.spent.values()))}
