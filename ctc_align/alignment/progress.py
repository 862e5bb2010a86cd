"""The progress of one alignment: the share that is done, and the step that is going on."""

from __future__ import annotations

from collections.abc import Callable

from ctc_align.units import clock

Progress = Callable[[float], None]

READ, LISTENED = 0.05, 0.7
"""The shares of an alignment that are done when the recording has been read, and when the model has listened."""
EACH_BATCH = 0.03
"""The share of what is left then that a batch of kernel work is: how many batches there will be is not known."""


class Done(float):
    """The share of an alignment that is done, in [0, 1], a number like any other; `step` says what goes on.

    >>> Done(0.5, "edges") + 0.25, Done(0.5, "edges").step
    (0.75, 'edges')
    """

    step: str

    def __new__(cls, share: float, step: str = "") -> Done:
        done = super().__new__(cls, share)
        done.step = step
        return done


def reading(progress: Progress | None) -> StepProgress | None:
    """Return who tells a caller of the steps, the reading of the recording first; None where nobody watches."""
    if progress is None:
        return None
    told = StepProgress(progress)
    told.begin("reading")
    return told


class StepProgress:
    """Tells a caller, by `progress(Done(share, step))`, how far an alignment is; the share never falls."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._share = 0.0
        self._step = ""

    def begin(self, step: str, share: float = 0.0) -> None:
        """Tell that a step has begun; `share` is what is done at least."""
        self._step = step
        self._go_on_to(share)

    def listener(self, duration_s: float) -> Progress:
        """Return what a model calls with the share of a recording of so many seconds that it has listened to."""

        def listened(share: float) -> None:
            far = "" if not duration_s else f", {clock(share * duration_s)} of {clock(duration_s)}"
            self.begin(f"emissions{far}", READ + (LISTENED - READ) * share)

        self.begin("emissions", READ)
        return listened

    def went_on(self) -> None:
        """Tell that a batch of requests has been answered."""
        self._go_on_to(self._share + (1.0 - self._share) * EACH_BATCH)

    def end(self) -> None:
        """Tell that all is done."""
        self.begin("done", 1.0)

    def _go_on_to(self, share: float) -> None:
        self._share = max(self._share, share)
        self._progress(Done(self._share, self._step))
