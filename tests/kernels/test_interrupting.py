"""Ctrl-C while a kernel is at work: the main thread only waits, and stops waiting."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ctc_align.errors import KernelError
from ctc_align.kernels.cpu import problem


@pytest.fixture(autouse=True)
def all_work_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem, "LONG_CELLS", 0)


@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
def test_an_interrupt_does_not_wait_for_the_work() -> None:
    # A process in the background ignores Ctrl-C, unless it is told otherwise.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    over = threading.Event()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        problem.interruptibly(lambda: over.wait(30), 1)
    assert time.monotonic() - began_s < 5
    over.set()
    signal.signal(signal.SIGINT, usual)


def test_results_and_errors_are_those_of_the_work() -> None:
    assert problem.interruptibly(lambda: threading.current_thread() is threading.main_thread(), 1) is False
    with pytest.raises(KernelError, match="too large"):
        problem.interruptibly(lambda: _refuse("too large"), 1)


def _refuse(reason: str) -> None:
    raise KernelError(reason)
