"""The scheduler: each utterance gets what it asked for, alone or in company, and an error concerns
nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from ctc_align.errors import InputError, UsageError
from ctc_align.kernels import batching
from ctc_align.kernels.batching import StageSteps

BATCHES: list[list[int]] = []


@dataclass(frozen=True)
class Double:
    """Twice a number; below 0 it is refused, and with it whatever it was batched with."""

    number: int
    key: str = "double"
    shape: tuple[int, int] = (1, 1)

    stage: ClassVar[str] = "kernels"

    @staticmethod
    def run(requests: Sequence[Double]) -> list[int]:
        BATCHES.append([request.number for request in requests])
        if any(request.number < 0 for request in requests):
            raise InputError(f"below 0: {min(request.number for request in requests)}")
        return [2 * request.number for request in requests]


@pytest.fixture(autouse=True)
def no_batches() -> None:
    BATCHES.clear()


def doubled(number: int, times: int = 1) -> StageSteps[int]:
    for _ in range(times):
        number = yield Double(number)
    return number


def test_what_is_asked_for_at_the_same_time_is_done_at_once() -> None:
    assert batching.run([doubled(1, 2), doubled(5), doubled(7, 3)]) == [4, 10, 56]
    assert BATCHES == [[1, 5, 7], [2, 14], [28]]


def test_several_requests_are_answered_in_their_order_and_none_by_none() -> None:
    def many() -> StageSteps[list[int]]:
        nothing = yield []
        answers = yield [Double(1, shape=(3, 1)), Double(2, "other"), Double(3)]
        return nothing + answers

    assert batching.run([many()]) == [[2, 4, 6]]
    assert sorted(map(sorted, BATCHES)) == [[1, 3], [2]]


def test_an_error_is_that_of_its_utterance() -> None:
    results = batching.run([doubled(1), doubled(-3), doubled(2), doubled(-4)], on_error="return")
    assert (results[0], results[2]) == (2, 4)
    assert [str(results[i]) for i in (1, 3)] == ["below 0: -3", "below 0: -4"]
    with pytest.raises(InputError, match="below 0: -3"):
        batching.run([doubled(1), doubled(-3), doubled(-4)])


def test_an_utterance_may_go_on_after_an_error() -> None:
    def careful() -> StageSteps[int]:
        try:
            return (yield Double(-1))
        except InputError:
            return (yield Double(4))

    def failing() -> StageSteps[int]:
        raise UsageError("before its first request")
        yield

    results = batching.run([careful(), doubled(1), failing()], on_error="return")
    assert results[:2] == [8, 2]
    assert isinstance(results[2], UsageError)


def test_other_exceptions_are_not_kept() -> None:
    def broken() -> StageSteps[int]:
        yield Double(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        batching.run([broken()], on_error="return")


def test_batches_are_of_like_size_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "VALUES_AT_ONCE", 100)
    shapes = [(30, 1), (500, 1), (31, 1), (2, 1), (32, 1), (33, 1)]
    assert list(batching.batches([Double(i, shape=shape) for i, shape in enumerate(shapes)])) == [
        [3, 0, 2],
        [4, 5],
        [1],
    ]
    # The padding of a long one and a wide one is counted.
    assert list(batching.batches([Double(0, shape=(30, 1)), Double(1, shape=(4, 8))])) == [[0], [1]]


def test_an_error_that_is_returned_holds_nothing_of_its_company() -> None:
    _, error = batching.run([doubled(1), doubled(-3)], on_error="return")
    assert isinstance(error, InputError)
    assert error.__traceback__ is None


def test_time_is_counted_by_stage() -> None:
    timings = {"model": 1.5}
    batching.run([doubled(1)], timings=timings)
    assert timings["kernels"] > 0
    assert timings["model"] == 1.5
