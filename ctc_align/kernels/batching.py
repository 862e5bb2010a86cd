"""The scheduler: runs the stages of many utterances and batches the kernel work that they request.

Each utterance is a generator (`StageSteps`) that reads straight down, without a batch dimension:
it yields requests and gets their answers. The scheduler lets each run until it requests something,
puts the requests of one `key` into a padded batch, runs them by one call of a kernel, hands out the
answers, and goes on. Kernels never read padding, so an answer is the same, to the bit, alone and in
any batch.

A `CtcAlignError` belongs to the utterance that raised it: no other is concerned. Any other
exception ends the run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

import numpy as np

from ctc_align import kernels, lattice
from ctc_align.errors import CtcAlignError
from ctc_align.lattice import Topology
from ctc_align.machine.rows_on_disk import ArrayOnDisk

Result = TypeVar("Result")


class Request(Protocol):
    """Work that can be done for several utterances at once.

    Attributes:
        stage: the name under which its time is counted: "model", "kernels" or "words".
        key: requests with equal keys may be run together; it holds the device, the dtype, and what
            else must agree.
        shape: frames, and numbers a frame, of the request in a padded batch; (0, 0) where batches
            are not limited.
    """

    stage: ClassVar[str]

    @property
    def key(self) -> Hashable: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    @staticmethod
    def run(requests: Sequence[Any]) -> Sequence[Any]:
        """Answer requests of one key, in their order."""
        ...


StageSteps: TypeAlias = Generator["Request | Sequence[Request]", Any, Result]
"""A stage of one utterance: yields a request and gets its answer, or several and gets a list;
returns its result."""


@dataclass(frozen=True)
class CtcTargets:
    """The CTC paths through token ids (L,).

    `lattice.WILDCARD` is among them where a wildcard stands for letters.
    """

    ids: Sequence[int] | np.ndarray
    blank: int


@dataclass(frozen=True, eq=False)
class _OnEmissions:
    """The common part of requests on the emissions of one utterance.

    Attributes:
        scores: (T, C) floating point, log-probs or scores of segmentation states; what lies on disk
            is read when the request is run.
        paths: CTC targets, or a topology of one utterance.
        wildcard: (T,) its score at each frame, where `paths` have a wildcard.
        backend: see `ctc_align.kernels`.
    """

    scores: np.ndarray | ArrayOnDisk
    paths: CtcTargets | Topology
    wildcard: np.ndarray | None = None
    backend: str = "auto"

    stage: ClassVar[str] = "kernels"

    @property
    def key(self) -> Hashable:
        x, paths = self.scores, self.paths
        # Topologies with optional tokens go through other kernels, whose rounding others must not
        # get.
        if isinstance(paths, CtcTargets):
            kind = paths.blank
        else:
            kind = paths.detours is not None
        return (
            type(self),
            x.dtype,
            x.shape[1],
            type(paths),
            kind,
            self.wildcard is None,
            self.backend,
        )

    @property
    def shape(self) -> tuple[int, int]:
        frames, classes = self.scores.shape
        return frames, classes


@dataclass(frozen=True, eq=False)
class BestPath(_OnEmissions):
    """Ask for the most likely path.

    The answer is its states (T,) int32 on the CPU, -1 throughout where there is no path; its score;
    and the backend that ran. `bands` are None, or (T, 2) first and last (exclusive) state allowed
    at each frame.
    """

    bands: np.ndarray | None = None

    @property
    def key(self) -> Hashable:
        return super().key, self.bands is None

    @staticmethod
    def run(requests: Sequence[BestPath]) -> list[tuple[np.ndarray, float, str]]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        if requests[0].bands is None:
            bands = None
        else:
            bands = np.zeros((*log_probs.shape[:2], 2), np.int64)
        for b, request in enumerate(requests):
            if bands is not None and request.bands is not None:
                bands[b, : lengths[b]] = request.bands
        path = kernels.best_path(
            log_probs,
            topology,
            lengths,
            wildcard=wildcard,
            bands=bands,
            backend=requests[0].backend,
        )
        rows = zip(path.states, lengths, path.scores.tolist())
        return [(row[:length], score, path.backend) for row, length, score in rows]


class Forward(_OnEmissions):
    """Ask for the log-likelihood over all paths.

    The answer is a float, -inf where there is no path.
    """

    @staticmethod
    def run(requests: Sequence[Forward]) -> list[float]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        scores = kernels.forward(
            log_probs, topology, lengths, wildcard=wildcard, backend=requests[0].backend
        )
        return scores.tolist()


class Posteriors(_OnEmissions):
    """Ask for the posterior of each class at each frame.

    The answer is an array (T, C), None where there is no path.
    """

    @staticmethod
    def run(requests: Sequence[Posteriors]) -> list[np.ndarray | None]:
        log_probs, topology, lengths, wildcard = _side_by_side(requests)
        result = kernels.occupancy(
            log_probs, topology, lengths, wildcard=wildcard, backend=requests[0].backend
        )
        rows = zip(result.posteriors, lengths, result.scores.tolist())
        return [row[:length] if score > float("-inf") else None for row, length, score in rows]


def _side_by_side(
    requests: Sequence[_OnEmissions],
) -> tuple[np.ndarray, Topology, list[int], np.ndarray | None]:
    """Return scores (B, T, C), one topology, lengths (B,), and the wildcards' scores (B, T).

    The last are None if there are none.
    """
    given = [request.scores for request in requests]
    scores, lengths = pad([each[:] if isinstance(each, ArrayOnDisk) else each for each in given])
    targets = [request.paths for request in requests if isinstance(request.paths, CtcTargets)]
    if targets:
        topology = lattice.ctc(
            [np.asarray(target.ids, np.int64) for target in targets], targets[0].blank
        )
    else:
        topology = lattice.stack(
            [request.paths for request in requests if isinstance(request.paths, Topology)]
        )
    wildcards = [request.wildcard for request in requests if request.wildcard is not None]
    return scores, topology, lengths, pad(wildcards)[0] if wildcards else None


def pad(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Stack rows (T, …) of different lengths as one batch; return it with their lengths.

    The batch is (B, the longest T, …).

    One row is not copied, and neither are rows that are the same array.

    >>> batch, lengths = pad([np.ones((2, 3)), np.ones((1, 3))])
    >>> batch.shape, lengths
    ((2, 2, 3), [2, 1])
    """
    first = rows[0]
    lengths = [len(row) for row in rows]
    if all(row is first for row in rows):
        return (
            np.lib.stride_tricks.as_strided(first, (len(rows), *first.shape), (0, *first.strides)),
            lengths,
        )
    batch = np.zeros((len(rows), max(lengths), *first.shape[1:]), first.dtype)
    for padded, row in zip(batch, rows):
        padded[: len(row)] = row
    return batch, lengths


VALUES_AT_ONCE = 2**22
"""Numbers in one padded batch (16 MB of float32); a request alone may have more."""


@overload
def run(
    utterances: Sequence[StageSteps[Result]],
    on_error: Literal["raise"] = "raise",
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result]: ...


@overload
def run(
    utterances: Sequence[StageSteps[Result]],
    on_error: Literal["return"],
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result | CtcAlignError]: ...


def run(
    utterances: Sequence[StageSteps[Result]],
    on_error: Literal["raise", "return"] = "raise",
    timings: dict[str, float] | None = None,
    after_batch: Callable[[], None] | None = None,
) -> list[Result] | list[Result | CtcAlignError]:
    """Run the stages of many utterances to their ends and return their results, in order.

    Args:
        utterances: generators that yield requests.
        on_error: "return": an utterance that failed has its error, without a traceback, in the
            place of its result; "raise": the first such error is raised when all others are done.
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
    """Utterances under way.

    What each asks for now, and the results and errors of those that have ended.
    """

    def __init__(
        self,
        utterances: Sequence[StageSteps[Result]],
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
        asked = self.requests
        self.requests = {}
        requests = [request for wanted in asked.values() for request in _listed(wanted)]
        answers: list[object] = [None] * len(requests)
        for places in batches(requests):
            for place, answer in zip(
                places, self._run([requests[place] for place in places]), strict=True
            ):
                answers[place] = answer
            if self.after_batch is not None:
                self.after_batch()
        in_order = iter(answers)
        for i, wanted in asked.items():
            own = list(islice(in_order, len(_listed(wanted))))
            error = next((answer for answer in own if isinstance(answer, CtcAlignError)), None)
            self._advance(i, own if isinstance(wanted, Sequence) else own[0], error)

    def _advance(self, i: int, answer: object, error: CtcAlignError | None = None) -> None:
        """Let an utterance go on with its answer.

        Or raise in it the first error among the answers.
        """
        try:
            steps = self.utterances[i]
            if error is None:
                self.requests[i] = steps.send(answer)
            else:
                self.requests[i] = steps.throw(error)
        except StopIteration as end:
            self.results[i] = end.value
        except CtcAlignError as raised:
            self.errors[i] = raised

    def _run(self, requests: Sequence[Request]) -> Sequence[object]:
        """Return the answers to requests of one kind.

        Where some fail, halves are tried, until each is found.
        """
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

    With its padding no batch has more than `VALUES_AT_ONCE` numbers; a request that has more is a
    batch of its own.
    """
    kinds: dict[Hashable, list[int]] = {}
    for place, request in enumerate(requests):
        kinds.setdefault(request.key, []).append(place)
    for places in kinds.values():
        batch: list[int] = []
        longest = widest = 0
        for place in sorted(places, key=lambda place: math.prod(requests[place].shape)):
            frames, width = requests[place].shape
            longest = max(longest, frames)
            widest = max(widest, width)
            if batch and (len(batch) + 1) * longest * widest > VALUES_AT_ONCE:
                yield batch
                batch = []
                longest = frames
                widest = width
            batch.append(place)
        yield batch


def _listed(wanted: Request | Sequence[Request]) -> Sequence[Request]:
    if isinstance(wanted, Sequence):
        return wanted
    return (wanted,)


def _drop_traceback(error: BaseException) -> None:
    """Forget where an error came from.

    Its frames hold the emissions of all utterances that ran beside it.
    """
    chain: BaseException | None = error
    while chain is not None:
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__
