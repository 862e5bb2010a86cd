"""Runs that are killed or interrupted at many moments and resumed end with the files of a run that
was left alone."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus_runs as runs
import pytest

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
    pytest.mark.long,
    pytest.mark.parametrize("layout", ["files", "shards"]),
]

UTTERANCES = 400
POINTS = (
    *("place-before", "place-after", "part", "torn", "append-before", "append-after"),
    *("store_pending-after", "settle-after"),
)
LAYOUTS: dict[str, list[Any]] = {
    "files": ["--batch-seconds", 3],
    "shards": [
        "--layout",
        "shards",
        "--shard-size",
        50,
        "--batch-seconds",
        3,
        "--manifest",
        "nemo",
    ],
}
SIGNALS = [
    ("run", signal.SIGKILL, 1),
    ("group", signal.SIGKILL, 1),
    *(
        (who, number, 1)
        for who in ("run", "group")
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    ),
    ("run", signal.SIGINT, 2),
]


def planned_faults(layout: str) -> list[str | float]:
    """Points in the code, each passed a random number of times before, and moments: ten in all."""
    chance = random.Random(layout)
    points = [f"{point}:{chance.randint(2, 6)}" for point in POINTS]
    late = [chance.choice(("write-before:1", "write-after:1"))]
    if layout == "shards":
        late = ["_assemble-before:1", "_assemble-after:2", *late]
        points = [
            point for point in points if not point.startswith("part")
        ]  # here none but the assembled have files
    timed = [chance.uniform(0.2, 1.2) for _ in range(4)]
    torn = [point for point in points if point.startswith(("torn", "part"))]
    others = chance.sample(
        [point for point in points if point not in torn], 6 - len(late) - len(torn)
    )
    early: list[str | float] = [*torn, *others, *timed]
    chance.shuffle(early)
    return [*early, *late]


@pytest.fixture
def whole(layout: str, corpus: Path, tmp_path: Path) -> Path:
    """The folder of a run that was left alone."""
    folder = tmp_path / "whole"
    assert runs.run(corpus, *LAYOUTS[layout], "--workers", 2, "--out-dir", folder).returncode == 1
    return folder


def test_killed_ten_times_and_resumed(layout, corpus, whole, tmp_path):
    killed = tmp_path / "killed"
    options = [corpus, *LAYOUTS[layout], "--workers", 2, "--out-dir", killed]
    met = []
    faults = planned_faults(layout)
    for fault in faults:
        environment: dict[str, Any] = {"FAULT": fault} if isinstance(fault, str) else {}
        # some faults lie at the end of a run: those may get there
        environment["BATCH_S"] = 0.0 if str(fault).startswith(("write", "_assemble")) else 0.1

        def kill(process: subprocess.Popen[str], fault: str | float = fault) -> None:
            if isinstance(fault, float):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(fault)
                process.send_signal(signal.SIGKILL)

        met.append(disturbed(options, kill, **environment).returncode == -signal.SIGKILL)
        assert_nothing_half_written(killed, runs.outputs(whole))
    assert all(met), f"a fault that is never met tests nothing: {list(zip(faults, met))}"
    assert len(met) == 10
    assert runs.run(*options).returncode == 1
    assert_same(killed, whole)


def test_disturbed_by_signals_and_resumed(layout, corpus, whole, tmp_path):
    """The run, its group or at last a worker gets a signal when a random number of lines is
    written."""
    chance, out_dir = random.Random(f"signals {layout}"), tmp_path / "out"
    options = [corpus, *LAYOUTS[layout], "--workers", 2, "--out-dir", out_dir, "--batch-seconds", 1]
    for who, number, times in [
        *chance.sample(SIGNALS, len(SIGNALS)),
        ("worker", signal.SIGKILL, 1),
    ]:
        wanted = lines_of(out_dir) + chance.randint(1, 9)

        def send(
            process: subprocess.Popen[str], who=who, number=number, times=times, wanted=wanted
        ) -> None:
            runs.wait_for(lambda: lines_of(out_dir) >= wanted, process)
            for _ in range(times):
                if who == "group":
                    os.killpg(process.pid, number)
                else:
                    os.kill(
                        chance.choice(workers(process.pid)) if who == "worker" else process.pid,
                        number,
                    )

        code = disturbed(options, send, BATCH_S=0.1).returncode
        expected = 1 if who == "worker" else -number if number == signal.SIGKILL else 130
        assert code == expected, f"{number!r} to the {who}"
        assert_nothing_half_written(out_dir, runs.outputs(whole))
    assert_same(out_dir, whole)


def disturbed(
    options: list[Any], disturb: Callable[[subprocess.Popen[str]], None], **environment: Any
) -> subprocess.Popen[str]:
    """Return a run that was disturbed, after its end; its workers do not outlive it."""
    mark = uuid.uuid4().hex
    process = runs.start(*options, group=True, MARK=mark, **environment)
    disturb(process)
    _, stderr = runs.ended(process)
    # a worker whose parent goes while it starts says so, in Python's own words
    assert process.returncode == -signal.SIGKILL or "Traceback" not in stderr, stderr
    assert "ctc_align/" not in stderr, stderr
    runs.wait_for(lambda: not runs.processes_with(mark))
    return process


def workers(pid: int) -> list[int]:
    """Return the workers among the children of a process."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        int(child)
        for child in children
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]


def lines_of(out_dir: Path) -> int:
    with contextlib.suppress(OSError):
        return (out_dir / "journal.jsonl").read_bytes().count(b"\n")
    return 0


def assert_nothing_half_written(out_dir: Path, expected: dict[str, bytes]) -> None:
    """What has its place is whole; what is in the making lies where nobody looks."""
    for name, data in runs.outputs(out_dir).items() if out_dir.is_dir() else ():
        if (
            not name.startswith((".ctc-align", "manifest"))
            and name in expected
            and "alignments" not in name
        ):
            assert data == expected[name], name
        assert name in expected or name.startswith(".ctc-align"), name


def assert_same(out_dir: Path, whole: Path) -> None:
    """The files, the journal and the summary are those of a quiet run; nothing else is left, and
    nobody is blamed."""
    assert runs.outputs(out_dir) == runs.outputs(whole)
    assert [path.name for path in out_dir.glob(".ctc-align*")] == []
    statuses = [
        {line["id"]: line["status"] for line in runs.lines(folder)} for folder in (out_dir, whole)
    ]
    assert statuses[0] == statuses[1]
    assert len(statuses[0]) == UTTERANCES
    mine, other = runs.summary(out_dir), runs.summary(whole)
    for fact in (
        "utterances",
        "done",
        "failed",
        "audio_hours",
        "loss_per_token",
        "worst",
        "complete",
    ):
        assert mine[fact] == other[fact], fact
    assert sorted(map(str, mine["failures"])) == sorted(map(str, other["failures"]))
