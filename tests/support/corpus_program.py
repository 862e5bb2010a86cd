"""ctc-align with an aligner that needs no torch (a start costs half a second), and with faults.

    FAULT=POINT:N python tests/corpus_program.py corpus …

kills the whole run, by SIGKILL, when it passes POINT for the N-th time; HELD=POINT:N stops it there
until the test lets it go (`corpus_runs.HeldRun`). Workers are spawned from this file, so that they
have the replacements, too.
"""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from even_aligner import EvenAligner

from ctc_align.corpus import run
from ctc_align.corpus.engine import ray_pool, stages
from ctc_align.corpus.outputs import assembly, layout
from ctc_align.corpus.state import journal, summary
from ctc_align.files import alignment_files

BATCH_S = float(os.environ.get("BATCH_S", "0"))
KILLS_ITS_WORKER = os.environ.get("KILLS_ITS_WORKER", "")
"""Utterances, divided by commas, that kill their worker when they are computed."""
KILLERS = json.loads(Path(os.environ["KILLERS"]).read_text()) if "KILLERS" in os.environ else {}
"""Utterances that kill their worker: (stage, how) by id."""
PARENT = os.getppid() if __name__ == "__mp_main__" else os.getpid()


class Moment:
    """A point of the program, and how often it is passed before something happens, as `POINT:N` of
    a variable."""

    def __init__(self, variable: str) -> None:
        self.point, _, count = os.environ.get(variable, "").partition(":")
        self.left = int(count or 0)

    def is_now(self, point: str) -> bool:
        self.left -= point == self.point
        return point == self.point and self.left == 0


FAULT, HELD = Moment("FAULT"), Moment("HELD")


def hold(point: str) -> None:
    """Where the test asked for it, say that the run is here, and wait until it is let go on."""
    if HELD.is_now(point):
        folder = Path(os.environ["HELD_IN"])
        with open(folder / "go", "rb", buffering=0) as go:
            (folder / "here").write_bytes(b".")
            go.read(1)


def die() -> None:
    """As by `kill -9` of the run; whoever starts workers takes them along."""
    os.kill(PARENT, signal.SIGKILL)
    time.sleep(60)


def die_alone(stage: str, name: str) -> None:
    """End this worker where `name` kills it in this stage; the run lives on."""
    at, how = KILLERS.get(name, ("", ""))
    if at == stage:
        {
            "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
            "abort": os.abort,
            "exit": lambda: os._exit(3),
        }[how]()


def read_or_die(utterance: Any, *rest: Any, read=stages.read_utterance) -> Any:
    die_alone("read", utterance.id)
    return read(utterance, *rest)


stages.read_utterance = read_or_die


def place_or_die(
    self: Any, index: int, utterance: Any, *rest: Any, place=layout.Layout.place
) -> Any:
    placed = place(self, index, utterance, *rest)
    die_alone("write", utterance.id)
    return placed


layout.Layout.place = place_or_die  # type: ignore[method-assign]


def faulty(owner: Any, name: str) -> None:
    """Faults before and after a function, called "NAME-before" and "NAME-after"."""
    function = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if FAULT.is_now(f"{name}-before"):
            die()
        result = function(*arguments, **options)
        if FAULT.is_now(f"{name}-after"):
            die()
        hold(f"{name}-after")
        return result

    setattr(owner, name, wrapped)


for owner, name in (
    (layout.Layout, "place"),
    (assembly.Assembly, "store_pending"),
    (assembly.Assembly, "settle"),
    (assembly.Assembly, "_assemble"),
    (journal.Journal, "append"),
    (summary.Summary, "write"),
    (run, "summarize"),
):
    faulty(owner, name)


class HalfWrites(io.FileIO):
    """A file as the writers of alignments open it."""

    def write(self, data: Any) -> int:
        is_killed, is_full = FAULT.is_now("part"), FAULT.is_now("nospace")
        if is_killed or is_full:
            super().write(data[: len(data) // 2])
        if is_killed:
            die()
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.name))
        return super().write(data)


alignment_files.open = HalfWrites  # type: ignore[attr-defined]


class TornWrites:
    """`os` as the journal sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, file: int, data: bytes) -> int:
        if FAULT.is_now("torn"):
            os.write(file, data[: len(data) * 2 // 3])
            die()
        if FAULT.is_now("journal-nospace"):
            os.write(file, data[: len(data) * 2 // 3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(file, data)


journal.os = TornWrites()  # type: ignore[assignment]


class LightAligner(EvenAligner):
    """Takes its time, and dies where the environment says so."""

    def align_batch(self, pairs: Any, on_error: str, utterances: Any, timings: Any) -> list[Any]:
        time.sleep(BATCH_S)
        hold("compute")
        if not set(KILLS_ITS_WORKER.split(",")).isdisjoint(utterances):
            os.kill(os.getpid(), signal.SIGKILL)
        for name in utterances:
            die_alone("compute", name)
        return super().align_batch(pairs, on_error, utterances, timings)


class LightActor(ray_pool.RayWorker):
    """Goes to Ray's processes by value: nothing of this file is put in its place there."""

    def aligner(self) -> Any:
        return LightAligner()


if "REAL" not in os.environ:
    ray_pool.RayPool.worker = LightActor
    stages.load_aligner = lambda options: LightAligner()  # type: ignore[assignment,return-value]


if __name__ == "__main__":
    from ctc_align.cli import main

    main()
