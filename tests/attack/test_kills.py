"""Runs over a corpus that are killed at random moments, and resumed to their end: nothing lost, nobody blamed.

    KILLS=1000 SEED=1 python -m pytest --long tests/attack/test_kills.py

Workers are spawned; the aligner is a light one but for every 25th round, which has the real model. A round is one
output folder: some runs into it that are disturbed (see KINDS), and one that is left alone, whose files, journal and
summary must be those of a run that nobody disturbed. Linux only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import corpus_runs as runs
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

KILLS, SEED, REAL_EVERY = int(os.environ.get("KILLS", "8")), int(os.environ.get("SEED", "0")), 25
UTTERANCES = 60
LAYOUTS: dict[str, list[Any]] = {
    "files": ["--batch-seconds", 1.5],
    "shards": ["--layout", "shards", "--shard-size", 13, "--batch-seconds", 1.5, "--manifest", "nemo"],
}
KINDS = {
    "driver, KILL": "driver",
    "worker, KILL": "worker",
    "group, KILL": "group",
    "driver, TERM": "driver",
    "driver, HUP": "driver",
    "driver, INT": "driver",
    "driver, INT twice": "driver",
    "group, TERM": "group",
    "group, HUP": "group",
    "group, INT": "group",
}
"""Who is disturbed, and how."""
FACTS = ("utterances", "done", "failed", "audio_hours", "loss_per_token", "worst", "complete")


@dataclass
class Count:
    """The kills of a round by kind, layout and phase of the run, and what was wrong then."""

    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, name: str, what: str) -> None:
        self.faults.append(f"{name}: {what}")


@dataclass
class Attack:
    """Rounds over one corpus in `folder`, with the light aligner or the real model."""

    folder: Path
    is_real: bool = False

    def __post_init__(self) -> None:
        count = UTTERANCES // 3 if self.is_real else UTTERANCES
        self.environment: dict[str, Any] = {"REAL": 1} if self.is_real else {"BATCH_S": 0.06}
        self.corpus = runs.make_corpus(self.folder / "corpus", count)
        self.ids = {json.loads(line)["utterance"] for line in self.corpus.read_text("utf-8").splitlines()}
        self.expected: dict[str, dict[str, bytes]] = {}
        self.summaries: dict[str, dict[str, Any]] = {}
        self.status: dict[str, str] = {}
        for layout in LAYOUTS:
            out_dir = self.folder / f"quiet-{layout}"
            result = runs.run(*self.arguments(layout, out_dir), **self.environment)
            assert result.returncode == 1, result.stderr
            self.expected[layout] = runs.outputs(out_dir)
            self.summaries[layout] = runs.summary(out_dir)
            self.status = {line["id"]: line["status"] for line in runs.lines(out_dir)}

    def arguments(self, layout: str, out_dir: Path) -> list[Any]:
        return [self.corpus, *LAYOUTS[layout], "--workers", 2, "--out-dir", out_dir]

    def round(self, seed: int, most: int) -> Count:
        """Disturb runs into a new folder, at most `most` times, then let one go to its end, and compare."""
        chance, count = random.Random(seed), Count()
        layout = chance.choice(list(LAYOUTS))
        out_dir = self.folder / f"round-{seed}"
        for _ in range(12):
            if count.kills.total() >= most or count.faults or lines_of(out_dir) == len(self.ids):
                break
            self.disturb(chance, layout, out_dir, count)
            self.compare_part(layout, out_dir, count)
        process = runs.start(*self.arguments(layout, out_dir), **self.environment)
        if self.ended(process, count) is not None:
            if process.returncode != 1:
                count.fault("wrong exits", f"the last run ended with {process.returncode}")
            self.compare_all(layout, out_dir, count)
        if not count.faults:
            shutil.rmtree(out_dir)
        return count

    def disturb(self, chance: random.Random, layout: str, out_dir: Path, count: Count) -> None:
        """Start a run, and disturb it once (workers up to three times), wherever it is then."""
        kind = chance.choice(list(KINDS))
        number = getattr(signal, "SIG" + kind.split()[1])
        mark = uuid.uuid4().hex
        process = runs.start(*self.arguments(layout, out_dir), group=True, MARK=mark, **self.environment)
        hits: list[str] = []
        for _ in range(chance.randint(1, 3) if kind == "worker, KILL" else 1):
            self.wait_for_moment(chance, process, out_dir)
            phase = self.phase(process, out_dir)
            if phase is not None and self.hit(kind, number, process, chance):
                hits.append(f"{kind}|{layout}|{phase}")
        if kind.endswith("twice") and hits:
            time.sleep(chance.uniform(0.0, 0.3))
            process.send_signal(number)
            while process.poll() is None:  # an impatient hand, until the very end of the process
                time.sleep(0.02)
                process.send_signal(number)
        count.kills.update(hits)
        code = self.ended(process, count, is_starting=any(hit.endswith("starting") for hit in hits))
        allowed = {1} if not hits or kind == "worker, KILL" else {1, 130}
        if hits and (number != signal.SIGINT or hits[0].endswith("starting")):
            allowed.add(-number)  # before the run begins to listen, or when it has ended and sums up
        if code is not None and code not in allowed:
            count.fault("wrong exits", f"{hits or kind}: {code}")
        try:
            runs.wait_for(lambda: not runs.processes_with(mark))
        except AssertionError:
            count.fault("left over", f"{hits}: processes {runs.processes_with(mark)}")

    def hit(self, kind: str, number: int, process: subprocess.Popen[str], chance: random.Random) -> bool:
        with contextlib.suppress(ProcessLookupError):
            if KINDS[kind] == "worker":
                found = workers(process.pid)
                if not found:
                    return False
                os.kill(chance.choice(found), number)
            elif KINDS[kind] == "group":
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
            return True
        return False

    def wait_for_moment(self, chance: random.Random, process: subprocess.Popen[str], out_dir: Path) -> None:
        """Wait for a random time from the start, or for a random number of lines in the journal and a moment more."""
        if chance.random() < 0.25:
            time.sleep(chance.uniform(0.0, 6.0 if self.is_real else 1.5))
            return
        there = lines_of(out_dir)
        wanted = chance.randint(there, min(there + 25, len(self.ids)))
        runs.wait_for(lambda: process.poll() is not None or (holds(process, out_dir) and lines_of(out_dir) >= wanted))
        time.sleep(chance.uniform(0.0, 0.1))

    def phase(self, process: subprocess.Popen[str], out_dir: Path) -> str | None:
        """Return where a run is, None where it is over."""
        if process.poll() is not None:
            return None
        if not holds(process, out_dir):
            return "starting"
        return "ending" if lines_of(out_dir) == len(self.ids) else "working"

    def ended(self, process: subprocess.Popen[str], count: Count, is_starting: bool = False) -> int | None:
        """Wait for the end of a run, and return its exit code; None where it hangs."""
        try:
            _, stderr = process.communicate(timeout=runs.HANG_S)
        except subprocess.TimeoutExpired:
            count.fault("hangs", f"process {process.pid}")
            process.kill()
            process.communicate()
            return None
        interrupted = is_starting and "KeyboardInterrupt" in stderr  # Python itself says so while it imports
        if "Traceback" in stderr and process.returncode != -signal.SIGKILL and not interrupted:
            count.fault("wrong exits", f"a traceback: {stderr[-2000:]}")
        return process.returncode

    def compare_part(self, layout: str, out_dir: Path, count: Count) -> None:
        """Whatever has its place is whole, and what the journal calls done is there."""
        if not out_dir.is_dir():
            return
        expected = self.expected[layout]
        for name, data in runs.outputs(out_dir).items():
            if not name.startswith(".ctc-align") and data != expected.get(name):
                count.fault("differing", f"{name} after a disturbance")
        done = [line["id"] for line in whole_lines(out_dir) if line["status"] == "done"]
        if layout == "files":
            for id in done:
                if not (out_dir / f"{id}.json").is_file():
                    count.fault("lost", f"{id} after a disturbance")

    def compare_all(self, layout: str, out_dir: Path, count: Count) -> None:
        """The files, the journal and the summary are those of a quiet run; nothing else is left."""
        expected, found = self.expected[layout], runs.outputs(out_dir)
        for name in expected.keys() - found.keys():
            count.fault("lost", name)
        for name in found.keys() - expected.keys():
            count.fault("left over", name)
        for name in expected.keys() & found.keys():
            if expected[name] != found[name]:
                count.fault("differing", name)
        lines = Counter(line["id"] for line in runs.lines(out_dir))
        if lines != Counter(self.ids):
            count.fault("lost", f"lines of the journal: {(lines - Counter(self.ids)) + (Counter(self.ids) - lines)}")
        status = {line["id"]: line for line in runs.lines(out_dir)}
        for id, line in status.items():
            if line["status"] != self.status.get(id):
                count.fault("blamed", f"{id}: {line['status']} {line['reason']}")
        mine, other = runs.summary(out_dir), self.summaries[layout]
        for fact in FACTS:
            if mine[fact] != other[fact]:
                count.fault("differing", f"summary.json, {fact}: {mine[fact]} for {other[fact]}")


def workers(pid: int) -> list[int]:
    """Return the workers among the children of a process."""
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                found.append(int(child))
    return found


def holds(process: subprocess.Popen[str], out_dir: Path) -> bool:
    """Return whether a run has come so far that it holds its folder."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads((out_dir / ".ctc-align.holder").read_bytes())["pid"] == process.pid
    return False


def lines_of(out_dir: Path) -> int:
    with contextlib.suppress(OSError):
        return (out_dir / "journal.jsonl").read_bytes().count(b"\n")
    return 0


def whole_lines(out_dir: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(OSError):
        for line in (out_dir / "journal.jsonl").read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


@pytest.mark.long
def test_kills_at_random(tmp_path: Path) -> None:
    attacks: dict[bool, Attack] = {}
    kills, seed = 0, SEED
    while kills < KILLS:
        is_real = seed % REAL_EVERY == REAL_EVERY - 1
        if is_real not in attacks:
            attacks[is_real] = Attack(tmp_path / ("real" if is_real else "light"), is_real)
        found = attacks[is_real].round(seed, 4)
        assert found.faults == [], f"round {seed}: {dict(found.kills)}"
        kills += found.kills.total()
        seed += 1
