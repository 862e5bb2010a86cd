"""The scheduler: runs the stages of many utterances and batches the work that they ask for.

Each utterance is a generator (`requests.Steps`) that reads straight down, without a batch dimension. The scheduler lets
each run until it asks for something, runs all requests of a kind together, hands out the answers, and goes on. A
`CtcAlignError` belongs to the utterance that raised it: no other is concerned. Any other exception ends the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import Generic, Literal, TypeVar, overload

from ctc_align.errors import CtcAlignError
from ctc_align.kernels.requests import Request, Steps

Result = TypeVar("Result")

VALUES_AT_ONCE = 2**22
"""Numbers in one padded batch (16 MB of float32); a request alone may have more."""


@overload
def run(
    utterances: Sequence[Steps[Result]],
    on_error: Literal["raise"] = "raise",
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result]: ...


@overload
def run(
    utterances: Sequence[Steps[Result]],
    on_error: Literal["return"],
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result | CtcAlignError]: ...


def run(
    utterances: Sequence[Steps[Result]],
    on_error: Literal["raise", "return"] = "raise",
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result] | list[Result | CtcAlignError]:
    """Run the stages of many utterances to their ends and return their results, in order.

    Args:
        utterances: generators that yield requests.
        on_error: "return": an utterance that failed has its error, without a traceback, in the place of its result;
            "raise": the first such error is raised when all others are done.
        timings: gets the seconds that the requests took, added up by their `stage`.
        after_batch: called when a batch of requests has been answered.

    Raises:
        CtcAlignError: with on_error="raise", that of the first utterance that failed.
    """
    scheduler = _Scheduler(utterances, timings, after_batch)
    while scheduler.requests:
        scheduler.answer()
    if on_error == "raise":
        for i in sorted(scheduler.errors):
            raise scheduler.errors[i]
    for error in scheduler.errors.values():
        _drop_traceback(error)
    return [scheduler.errors.get(i) or scheduler.results[i] for i in range(len(utterances))]


class _Scheduler(Generic[Result]):
    """Utterances under way: what each asks for now, and the results and errors of those that have ended."""

    def __init__(
        self,
        utterances: Sequence[Steps[Result]],
        timings: dict[str, float] | None,
        after_batch: Callable[[], None] | None,
    ) -> None:
        self.utterances = utterances
        self.timings = timings
        self.after_batch = after_batch
        self.requests: dict[int, Request | Sequence[Request]] = {}
        self.results: dict[int, Result] = {}
        self.errors: dict[int, CtcAlignError] = {}
        for i in range(len(utterances)):
            self._advance(i, None)

    def answer(self) -> None:
        """Run all requests that are asked for now, and let each utterance go on to its next."""
        asked, self.requests = self.requests, {}
        requests = [request for wanted in asked.values() for request in _listed(wanted)]
        answers: list[object] = [None] * len(requests)
        for places in batches(requests):
            for place, answer in zip(places, self._run([requests[place] for place in places]), strict=True):
                answers[place] = answer
            if self.after_batch is not None:
                self.after_batch()
        in_order = iter(answers)
        for i, wanted in asked.items():
            own = list(islice(in_order, len(_listed(wanted))))
            error = next((answer for answer in own if isinstance(answer, CtcAlignError)), None)
            self._advance(i, own if isinstance(wanted, Sequence) else own[0], error)

    def _advance(self, i: int, answer: object, error: CtcAlignError | None = None) -> None:
        """Let an utterance go on with its answer, or raise in it the first error among the answers."""
        try:
            steps = self.utterances[i]
            self.requests[i] = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as end:
            self.results[i] = end.value
        except CtcAlignError as raised:
            self.errors[i] = raised

    def _run(self, requests: Sequence[Request]) -> Sequence[object]:
        """Return the answers to requests of one kind; where some fail, halves are tried, until each is found."""
        started = time.perf_counter()
        try:
            return type(requests[0]).run(requests)
        except CtcAlignError as error:
            if len(requests) == 1:
                return [error]
        finally:
            if self.timings is not None:
                stage = requests[0].stage
                self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - started
        half = len(requests) // 2
        return [*self._run(requests[:half]), *self._run(requests[half:])]


def batches(requests: Sequence[Request]) -> Iterator[list[int]]:
    """Yield the places of requests that go together: of one key and of similar size.

    With its padding no batch has more than `VALUES_AT_ONCE` numbers; a request that has more is a batch of its own.
    """
    kinds: dict[Hashable, list[int]] = {}
    for place, request in enumerate(requests):
        kinds.setdefault(request.key, []).append(place)
    for places in kinds.values():
        batch: list[int] = []
        longest = widest = 0
        for place in sorted(places, key=lambda place: math.prod(requests[place].shape)):
            frames, width = requests[place].shape
            longest, widest = max(longest, frames), max(widest, width)
            if batch and (len(batch) + 1) * longest * widest > VALUES_AT_ONCE:
                yield batch
                batch, longest, widest = [], frames, width
            batch.append(place)
        yield batch


def _listed(wanted: Request | Sequence[Request]) -> Sequence[Request]:
    return wanted if isinstance(wanted, Sequence) else (wanted,)


def _drop_traceback(error: BaseException) -> None:
    """Forget where an error came from: its frames hold the emissions of all utterances that ran beside it."""
    chain: BaseException | None = error
    while chain is not None:
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__
