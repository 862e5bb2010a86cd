"""Work in threads of our own: torch has one thread there, and the caller's numbers of threads stay
as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from ctc_align import Aligner, Alignment
from ctc_align.models.confidence_network import ConfidenceNetwork
from ctc_align.models.convnet.inference import InferenceNetwork
from ctc_align.models.edge_network import EdgeNetwork
from ctc_align.text.letter_network import LetterNetwork
from ctc_align.threads import cpu_count, in_caller, on_one_thread, side_by_side
from tests.support.made_sounds import babble

NETWORKS = (
    (InferenceNetwork, "__call__"),
    (EdgeNetwork, "logits"),
    (ConfidenceNetwork, "logits"),
    (LetterNetwork, "__call__"),
)
PAIRS = [
    ((babble(seconds, seed), 16000), "we call it grumblewick")
    for seed, seconds in enumerate((1.0, 25.0, 3.0))
]


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_new_thread(work: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def counts() -> tuple[object, object]:
    """Return torch's number of threads in this thread, and in one that uses torch for the first
    time."""
    return torch.get_num_threads(), in_new_thread(torch.get_num_threads)


def test_every_network_has_one_thread_and_results_are_those_of_one(
    monkeypatch, three_threads: None
) -> None:
    seen: dict[str, set[int]] = {}

    def noting(call: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object) -> object:
            seen.setdefault(type(args[0]).__name__, set()).add(torch.get_num_threads())
            return call(*args)

        return noted

    for network, name in NETWORKS:
        monkeypatch.setattr(network, name, noting(getattr(network, name)))
    aligner = Aligner("english", device="cpu")
    found = aligner.align_batch(PAIRS)
    assert counts() == (3, 3)
    assert seen == {network.__name__: {1} for network, _ in NETWORKS}
    torch.set_num_threads(1)
    assert found == [
        aligner.align(*pair, utterance=one.utterance) for pair, one in zip(PAIRS, found)
    ]
    assert counts() == (1, 1)


def test_threads_of_the_caller_keep_their_numbers_with_aligners_at_once_and_after_errors(
    three_threads: None,
) -> None:
    def of_caller(count: int) -> tuple[list[Alignment], int]:
        torch.get_num_threads()  # at the first use, torch sets the number that the latest thread has set
        torch.set_num_threads(count)
        aligner = Aligner("english", device="cpu")
        found = [aligner.align(*pair) for pair in PAIRS]
        with pytest.raises(ZeroDivisionError):
            on_one_thread(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            aligner.align(*PAIRS[0], progress=lambda share: 1 // 0)
        return found, torch.get_num_threads()

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(of_caller, (1, 2, 3)))
    assert [count for _, count in results] == [1, 2, 3]
    assert torch.get_num_threads() == 3
    assert results[0][0] == results[1][0] == results[2][0]


def test_tasks_come_in_order_at_most_three_at_once_and_none_begins_after_an_error(
    three_threads: None,
) -> None:
    begun: list[int] = []
    together = threading.Barrier(3, timeout=60)

    def task(i: int) -> tuple[int, int]:
        begun.append(i)
        together.wait()
        return i, torch.get_num_threads()

    assert list(side_by_side([lambda i=i: task(i) for i in range(6)])) == [(i, 1) for i in range(6)]
    assert sorted(begun[:3]) == [0, 1, 2]
    begun.clear()
    with pytest.raises(ZeroDivisionError):
        list(side_by_side([lambda: 1 // 0, *(lambda i=i: begun.append(i) for i in range(9))]))
    assert len(begun) <= 2
    assert on_one_thread(lambda: list(side_by_side([torch.get_num_threads] * 2))) == [1, 1]


def test_progress_is_called_in_the_callers_thread(three_threads: None) -> None:
    callers: set[int] = set()
    on_one_thread(lambda: in_caller(lambda: callers.add(threading.get_ident())))
    assert callers == {threading.get_ident()}


def test_modes_of_the_caller_hold_in_its_tasks(three_threads: None) -> None:
    with torch.inference_mode():
        assert on_one_thread(torch.is_inference_mode_enabled)
    with torch.no_grad():
        assert not on_one_thread(torch.is_grad_enabled)
    assert on_one_thread(torch.is_grad_enabled)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_has_threads_of_its_own(three_threads: None) -> None:
    on_one_thread(torch.get_num_threads)
    if not (child := os.fork()):
        os._exit(on_one_thread(torch.get_num_threads))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def blas_threads() -> int:
    return max(each["num_threads"] for each in threadpool_info() if "numpy" in each["filepath"])


def test_blas_has_one_thread_until_the_last_task_has_ended(
    monkeypatch: pytest.MonkeyPatch, three_threads: None
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    second = threading.Event()

    def first_task() -> int:
        second.wait(60)
        return blas_threads()

    def second_task() -> int:
        second.set()
        return blas_threads()

    with threadpool_limits(2, "blas"):
        assert list(side_by_side([first_task, second_task])) == [1, 1]
        with pytest.raises(ZeroDivisionError):
            on_one_thread(lambda: 1 // 0)
        assert blas_threads() == 2
        monkeypatch.setenv(
            "OPENBLAS_NUM_THREADS", "1"
        )  # as the command line does before NumPy is imported
        assert on_one_thread(blas_threads) == 2


def test_without_torch_there_are_as_many_threads_as_it_would_have() -> None:
    program = (
        "import os, sys; from ctc_align import threads; assert 'torch' not in sys.modules;"
        "print(threads.thread_count(), list(threads.side_by_side([threads.thread_count] * 2)));"
        "threads.set_thread_count(1); import torch; print(torch.get_num_threads())"
    )
    for given, expected in (("1", 1), ("999", cpu_count()), ("", cpu_count())):
        changed = {**os.environ, "OMP_NUM_THREADS": given}
        done = subprocess.run(
            [sys.executable, "-c", program], env=changed, text=True, capture_output=True
        )
        assert done.stdout.split("\n")[:2] == [
            f"{expected} [{expected}, {expected}]",
            "1",
        ], done.stderr
