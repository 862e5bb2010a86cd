"""Runs killed by SIGKILL at twenty moments end, resumed, with the very files of a run that was left alone."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import corpus_runs as runs
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

UTTERANCES = 400
POINTS = (
    "place-before:{}",
    "place-after:{}",
    "part:{}",
    "torn:{}",
    "append-before:{}",
    "append-after:{}",
    "keep-after:{}",
    "settle-after:{}",
)
POINTS_LATE = ("write-before:1", "write-after:1")
LAYOUTS = {
    "files": ["--batch-seconds", 3],
    "shards": ["--layout", "shards", "--shard-size", 50, "--batch-seconds", 3, "--manifest", "nemo"],
}


def planned_faults(layout: str) -> list[str | float]:
    """Points in the code, each passed a random number of times before, and moments: ten in all."""
    chance = random.Random(layout)
    points = [point.format(chance.randint(2, 6)) for point in POINTS]
    late = [chance.choice(POINTS_LATE)]
    if layout == "shards":
        late = ["_assemble-before:1", "_assemble-after:2", *late]
        points = [point for point in points if not point.startswith("part")]  # here none but the assembled have files
    timed = [chance.uniform(0.2, 1.2) for _ in range(4)]
    torn = [point for point in points if point.startswith(("torn", "part"))]
    others = chance.sample([point for point in points if point not in torn], 6 - len(late) - len(torn))
    early: list[str | float] = [*torn, *others, *timed]
    chance.shuffle(early)
    return [*early, *late]


@pytest.mark.long
@pytest.mark.parametrize("layout", ["files", "shards"])
def test_killed_ten_times_and_resumed(layout, corpus, tmp_path):
    options = [corpus, *LAYOUTS[layout], "--workers", 2]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert runs.run(*options, "--out-dir", whole).returncode == 1
    expected = runs.outputs(whole)
    met = []
    faults = planned_faults(layout)
    for fault in faults:
        # some faults lie at the end of a run: those may get there
        is_late = str(fault).startswith(("write", "_assemble"))
        met.append(kill_at(fault, options, killed, batch_s=0.0 if is_late else 0.1))
        assert_nothing_half_written(killed, expected)
    assert all(met), f"a fault that is never got tests nothing: {list(zip(faults, met))}"
    assert len(met) == 10
    assert runs.run(*options, "--out-dir", killed).returncode == 1
    assert runs.outputs(killed) == expected
    assert [path.name for path in killed.glob(".ctc-align*")] == []
    ids = [line["id"] for line in runs.lines(killed)]
    assert len(set(ids)) == UTTERANCES
    facts = ("utterances", "done", "failed", "audio_hours", "loss_per_token", "worst", "complete")
    mine, other = runs.summary(killed), runs.summary(whole)
    assert {fact: mine[fact] for fact in facts} == {fact: other[fact] for fact in facts}
    assert sorted(map(str, mine["failures"])) == sorted(map(str, other["failures"]))


def kill_at(fault: str | float, options: list, out_dir: Path, batch_s: float) -> bool:
    """One run that is killed, with all its workers; whether it was."""
    mark = uuid.uuid4().hex
    environment = {"MARK": mark, "BATCH_S": batch_s}
    if isinstance(fault, str):
        environment["FAULT"] = fault
    process = runs.start(*options, "--out-dir", out_dir, **environment)
    if isinstance(fault, float):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(fault)
        process.send_signal(signal.SIGKILL)
    _, stderr = runs.ended(process)
    # a worker whose parent goes while it starts says so, in Python's own words
    assert "ctc_align" not in stderr, stderr
    runs.wait_for(lambda: not runs.processes_with(mark))  # workers do not outlive their parent
    return process.returncode == -signal.SIGKILL


def assert_nothing_half_written(out_dir: Path, expected: dict[str, bytes]) -> None:
    """What has its place is whole; what is in the making lies where nobody looks."""
    for name, data in runs.outputs(out_dir).items() if out_dir.is_dir() else ():
        if not name.startswith((".ctc-align", "manifest")) and name in expected and "alignments" not in name:
            assert data == expected[name], name
        assert name in expected or name.startswith(".ctc-align"), name
