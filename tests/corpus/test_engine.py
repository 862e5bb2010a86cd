"""The plan of a run, and its workers: utterances that kill them are blamed, all of them and nobody
else.

The plan says which items are a shard's, where windows end, what goes into a batch, and what a
result depends on. The pool of processes is the real one; its processes are threads here, which
read, compute and write in their own time and die as processes do: their end of the pipe closes.
Where all workers die, the run ends.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import corpus_runs as runs
import numpy as np
import pytest
from made_sources import write

from ctc_align.config import Settings
from ctc_align.corpus.engine import stages, worker_pools
from ctc_align.corpus.engine.batches import (
    WINDOW,
    Finished,
    Job,
    Outcome,
    UtteranceBatch,
    batches_by_length,
    jobs_of,
    windows,
)
from ctc_align.corpus.engine.dispatch import Engine
from ctc_align.corpus.engine.stages import Stages, WorkerOptions
from ctc_align.corpus.engine.worker_pools import ProcessPool
from ctc_align.corpus.outputs.assembly import Assembly
from ctc_align.corpus.outputs.layout import Layout
from ctc_align.corpus.state.journal import DONE, FAILED, Journal
from ctc_align.corpus.state.resume import Fingerprints, Outcomes, model_identity, run_fingerprint
from ctc_align.errors import AudioError, BackendError
from ctc_align.files.folder_lock import Shard
from ctc_align.sources.utterance import Refused, Utterance


def utterances(count: int) -> list[Utterance]:
    return [Utterance(f"u{i}", f"u{i}", "a.wav", "text", f"line {i}") for i in range(count)]


def by(size: int):
    return lambda index, utterance: str(index // size)


@pytest.mark.parametrize("count", [1, 2, 5, 11])
@pytest.mark.parametrize(
    "group_of",
    [lambda i, u: None, by(3), lambda i, u: "all", lambda i, u: str(i // 4) if i % 8 < 4 else None],
)
def test_shards_part_the_source(count, group_of):
    source = [*utterances(20), Refused("r", "line 21", "bad"), *utterances(5)]
    parts = [list(jobs_of(source, group_of, Shard(i, count))) for i in range(count)]
    indices = sorted(item.index for part in parts for item in part)
    assert indices == list(range(26)), "each in one shard"
    for part in parts:
        assert [item.index for item in part] == sorted(item.index for item in part)
    for group in {item.group for part in parts for item in part} - {None}:
        assert sum(any(item.group == group for item in part) for part in parts) == 1, (
            "a file is one shard's work"
        )


@pytest.mark.parametrize(
    ("model", "device", "taken", "said"),
    [
        ("auto", "auto", "cpu", "--device cuda takes the GPU"),
        ("english", "auto", "cpu", "--device cuda takes the GPU"),
        ("english", "cuda:1", "cuda:1", "faster on the CPU"),
        ("english", "cpu", "cpu", ""),
        ("hf:facebook/mms-300m", "auto", "auto", ""),
        ("hf:facebook/mms-300m", "cuda", "cuda", ""),
        (None, "auto", "auto", ""),
    ],
)
def test_a_gpu_is_left_to_large_models(model, device, taken, said, monkeypatch):
    monkeypatch.setattr(worker_pools, "gpu_count", lambda: 2)
    notes: list[str] = []
    assert worker_pools.device_for_model(model, device, notes.append) == taken
    assert [said in note for note in notes] == [True] * bool(said)


@pytest.mark.parametrize("group", [1, 7, 300, 1000, 5000, 100_000])
def test_windows_are_bounded_and_end_where_groups_do(group):
    parts = list(windows(jobs_of(utterances(12_000), by(group), Shard())))
    assert [item.index for part in parts for item in part] == list(range(12_000))
    assert max(map(len, parts)) <= 4 * WINDOW
    assert min(map(len, parts[:-1])) >= min(WINDOW, group, 5000 - 4 * WINDOW)
    if group <= 4 * WINDOW:
        assert all(
            first[-1].group != second[0].group for first, second in itertools.pairwise(parts)
        )


@pytest.mark.parametrize("batch_seconds", [0.1, 5.0, 60.0, 1e9])
def test_batches_hold_everything_once_within_their_seconds(batch_seconds):
    lengths = np.random.default_rng(0).exponential(4.0, 500).tolist()
    batches = batches_by_length(lengths, batch_seconds)
    assert sorted(i for batch in batches for i in batch) == list(range(500))
    for batch in batches:
        longest = max(lengths[i] for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= batch_seconds
        assert lengths[batch[0]] == longest
    assert batches_by_length([], batch_seconds) == []
    if batch_seconds == 60.0:
        padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
        assert padded < 1.1 * sum(lengths), "alike goes with alike"


class TestFingerprints:
    def test_it_changes_with_everything_that_the_result_depends_on(self, tmp_path):
        audio = tmp_path / "a.wav"
        audio.write_bytes(b"1234")
        one = Utterance("a", "a", str(audio), "text", "line 1")
        base = Fingerprints("run").of(one)
        assert Fingerprints("run").of(replace(one, origin="line 7", id="b")) == base
        changes = {
            "text": "texts",
            "offset_s": 0.1,
            "duration_s": 1.0,
            "channel": 1,
            "output": "b",
            "speaker": "s",
        }
        prints = {
            Fingerprints("run").of(replace(one, **{name: value})) for name, value in changes.items()
        }
        prints |= {Fingerprints("other").of(one), Fingerprints("run").of(one, "group")}
        audio.write_bytes(b"12345")
        prints.add(Fingerprints("run").of(one))
        audio.unlink()
        prints.add(Fingerprints("run").of(one))
        assert len(prints | {base}) == len(changes) + 5

    def test_runs(self, tmp_path):
        model, lexicon = tmp_path / "model", tmp_path / "lexicon.dict"
        write(
            tmp_path,
            {"model/model.toml": "a", "model/model.safetensors": "b", "lexicon.dict": "a a"},
        )
        call = {
            "lexicon": str(lexicon),
            "settings": {"times": "utterance"},
            "formats": ["json", "ctm"],
        }

        def found(**changes):
            return run_fingerprint(str(model), *(call | changes).values())

        first = found()
        assert found(formats=["ctm", "json"]) == first
        changes = [{"settings": {"times": "recording"}}, {"lexicon": None}, {"formats": ["json"]}]
        others = [found(**change) for change in changes]
        lexicon.write_text("a b")
        others.append(found())
        for name, content in (("model.safetensors", "c"), ("edges.safetensors", "e")):
            (model / name).write_text(content)
            others.append(found())
        assert len({first, *others}) == 1 + len(others)

    def test_a_calibration_is_its_file_or_what_is_in_its_folder(self, tmp_path):
        file, folder = [], []
        constants, learnt = tmp_path / "calibration.toml", tmp_path / "edges.safetensors"
        for path, content in ((constants, "a"), (learnt, "b"), (learnt, "c"), (constants, "d")):
            path.write_text(content)
            for found, given in ((file, constants), (folder, tmp_path)):
                found.append(
                    run_fingerprint("english", None, {"calibration": str(given)}, ["json"])
                )
        assert len(set(folder)) == 4
        assert file[0] == file[1] == file[2] != file[3]

    def test_models(self):
        assert model_identity("english") != "english", "by the content of its weights"
        assert model_identity("torchaudio:BUNDLE") == "torchaudio:BUNDLE"


UTTERANCES, KILLERS = 150, 50
STAGES = ("read", "compute", "write")


@dataclass
class Machine:
    """What kills workers: utterances, by the stage in which they do; `exitcode` is what is left of
    such a worker."""

    killers: dict[str, str] = field(default_factory=dict)
    exitcode: int = -11
    chance: random.Random = field(default_factory=random.Random)
    dies: Callable[[str, str], bool] = lambda id, stage: False
    started: int = 0
    computed: list[tuple[str, ...]] = field(default_factory=list)
    """The batches that were done, for those who look at company."""

    def kills(self, job: Job, stage: str) -> bool:
        return self.killers.get(job.utterance.id) == stage or self.dies(job.utterance.id, stage)


class Worker:
    """A thread in a process's place."""

    def __init__(self, machine: Machine, pipe: Connection) -> None:
        self.machine, self.pipe = machine, Connection(os.dup(pipe.fileno()))
        self.exitcode: int | None = None
        self.killed = threading.Event()
        self.chance = random.Random(machine.chance.random())
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self) -> None:
        self.machine.started += 1
        self.thread.start()

    def join(self, timeout: float | None = None) -> None:
        self.thread.join(timeout)

    def kill(self) -> None:
        self.killed.set()

    def close(self) -> None:
        pass

    def run(self) -> None:
        """Take a step of any batch at a time; three are under way at most, and only the order of
        each stage is kept."""
        self.pipe.send(None)
        under_way: list[list[Any]] = []
        ended = False
        while (under_way or not ended) and not self.killed.is_set():
            while (
                not ended
                and len(under_way) < len(STAGES)
                and self.pipe.poll(0 if under_way else 0.05)
            ):
                try:
                    batch = self.pipe.recv()
                except EOFError:
                    batch = None
                if batch is None:
                    ended = True
                else:
                    under_way.append([batch, 0])
            for place in self.chance.sample(range(len(under_way)), len(under_way)):
                batch, stage = under_way[place]
                if place and under_way[place - 1][1] <= stage:
                    continue  # another batch is in that stage
                if any(self.machine.kills(job, STAGES[stage]) for job in batch.jobs):
                    self.exitcode = self.machine.exitcode
                    self.pipe.close()
                    return
                under_way[place][1] += 1
                break
            if under_way and under_way[0][1] == len(STAGES):
                batch = under_way.pop(0)[0]
                self.machine.computed.append(tuple(job.utterance.id for job in batch.jobs))
                outcomes = tuple(Outcome(job.index, DONE) for job in batch.jobs if job.todo)
                self.pipe.send(Finished(batch.number, outcomes, {}))
        self.exitcode = 0
        self.pipe.close()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()

    def process(target: Any, args: tuple[Any, ...], **_: Any) -> Worker:
        return Worker(machine, args[0])

    context = SimpleNamespace(Pipe=Pipe, Process=process)
    monkeypatch.setattr(worker_pools.multiprocessing, "get_context", lambda _: context)
    return machine


def names(count: int) -> list[str]:
    return [f"u{i:03}" for i in range(count)]


def run(
    folder: Path, ids: list[str], workers: int, seed: int, **options: Any
) -> dict[str, tuple[str, str | None]]:
    """Run the engine over utterances of lengths that differ, in batches of several; returns
    (status, reason) by id."""
    lengths_s = {id: random.Random(f"{seed} {id}").uniform(1.0, 8.0) for id in names(UTTERANCES)}
    utterances = [Utterance(id, id, "no.wav", "a b", "", duration_s=lengths_s[id]) for id in ids]
    layout = Layout(str(folder), formats=("json",))
    worker = WorkerOptions(None, None, None, "cpu", "auto", Settings())  # type: ignore[arg-type]
    observer = SimpleNamespace(progress=lambda tally: None, warn=lambda line: None)
    with Journal(folder / "journal.jsonl") as journal, Assembly(layout) as assembly:
        outcomes = Outcomes([folder / "journal.jsonl"])
        engine = Engine(
            outcomes, Fingerprints("run"), assembly, observer, batch_seconds=30.0, **options
        )
        with ProcessPool(worker, ["cpu"] * workers) as pool:
            engine.run([Job(i, utterance) for i, utterance in enumerate(utterances)], pool, journal)
    return {line["id"]: (line["status"], line["reason"]) for line in lines(folder)}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text("utf-8").splitlines()]


def test_fifty_killers_of_150_are_blamed_and_nobody_else(machine, tmp_path):
    for seed, exitcode in enumerate([-11, -9, 3]):
        chance = random.Random(seed)
        killers = chance.sample(names(UTTERANCES), KILLERS)
        machine.killers = {id: chance.choice(STAGES) for id in killers}
        machine.exitcode, machine.chance = exitcode, chance
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcomes = run(folder, names(UTTERANCES), 1 + seed % 4, seed)
        assert {id for id, (status, _) in outcomes.items() if status == FAILED} == set(killers)
        assert set(outcomes) == set(names(UTTERANCES))
        assert len(lines(folder)) == UTTERANCES
        reasons = {reason for status, reason in outcomes.values() if status == FAILED}
        assert len(reasons) == 1
        assert reasons.pop().startswith("the worker process died of this utterance (")


def test_the_innocent_keep_their_company(machine, tmp_path):
    """A batch that had a worker in common with a killer is done as the plan has it, not one by
    one."""
    run(tmp_path, names(UTTERANCES), 2, 0)
    (tmp_path / "journal.jsonl").unlink()
    planned, machine.computed = set(machine.computed), []
    machine.killers = {"u077": "write"}
    run(tmp_path, names(UTTERANCES), 2, 0)
    [broken] = [batch for batch in planned if "u077" in batch]
    alone = {(id,) for id in broken if id != "u077"}
    assert len(alone) > 1
    assert set(machine.computed) == (planned - {broken}) | alone


@pytest.mark.parametrize("good", [0, 1, 15])
def test_where_every_worker_dies_the_run_ends_and_nobody_is_blamed(good, machine, tmp_path):
    """From the beginning on, or when some batches are done."""
    machine.dies = lambda id, stage: len(machine.computed) >= good and stage == "compute"
    with pytest.raises(BackendError, match="worker processes die"):
        run(tmp_path, names(UTTERANCES), 2, 0)
    assert machine.started < 40
    assert [line for line in lines(tmp_path) if line["status"] == FAILED] == []


def test_all_killers_that_stand_together_are_blamed(machine, tmp_path):
    """Those that kill are the longest; and there is one batch of them at the end of the source."""
    every = names(UTTERANCES)
    machine.killers = dict.fromkeys(every[100:], "compute")
    outcomes = run(tmp_path, every, 2, 0)
    assert sorted(id for id, (status, _) in outcomes.items() if status == FAILED) == every[100:]


def test_a_source_of_one_killer(machine, tmp_path):
    machine.killers = {"u000": "read"}
    assert run(tmp_path, ["u000"], 2, 0)["u000"][0] == FAILED


def test_what_somebody_else_kills_is_not_blamed(machine, tmp_path):
    """Signals from outside come at any moment, alone or not: one alone proves nothing."""
    kills = iter(random.Random(1).choices([True, False], [1, 15], k=100_000))
    killed: set[str] = set()

    def dies(id: str, stage: str) -> bool:
        # nobody is hit twice, as is likely where there are many utterances
        hit = id not in killed and next(kills)
        killed.update([id] if hit else [])
        return hit

    machine.dies, machine.exitcode = dies, -9
    outcomes = run(tmp_path, names(UTTERANCES), 3, 0)
    assert len(killed) > 20
    assert {status for status, _ in outcomes.values()} == {DONE}


@pytest.mark.long
def test_with_real_processes(tmp_path):
    """Read, computed and written side by side in spawned workers; the others' outputs are those of
    a quiet run."""
    corpus = runs.make_corpus(tmp_path / "corpus", 60)
    options = [corpus, "--workers", 3, "--batch-seconds", 3]
    assert runs.run(*options, "--out-dir", tmp_path / "quiet").returncode == 1
    expected, first = (
        runs.outputs(tmp_path / "quiet"),
        {line["id"]: line for line in runs.lines(tmp_path / "quiet")},
    )
    chance = random.Random(3)
    good = sorted(id for id, line in first.items() if line["status"] == DONE)
    killers = {
        id: (chance.choice(STAGES), chance.choice(["kill", "abort", "exit"]))
        for id in chance.sample(good, 12)
    }
    (tmp_path / "killers.json").write_text(json.dumps(killers))
    result = runs.run(*options, "--out-dir", tmp_path / "out", KILLERS=tmp_path / "killers.json")
    assert result.returncode == 1
    found = {line["id"]: line for line in runs.lines(tmp_path / "out")}
    assert len(runs.lines(tmp_path / "out")) == len(found) == 60
    died = {id for id, line in found.items() if "the worker process died" in (line["reason"] or "")}
    assert died == set(killers)
    assert any(
        "of this utterance (killed by SIGKILL: out of memory?)" in (found[id]["reason"] or "")
        for id in died
    )
    lost = {f"{id}.{end}" for id in killers for end in ("json", "ctm", "tokens.ctm", "TextGrid")}
    assert runs.outputs(tmp_path / "out") == {
        name: data for name, data in expected.items() if name not in lost
    }


def test_what_failed_is_not_kept_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sound:
        pass

    kept: weakref.WeakSet[Sound] = weakref.WeakSet()

    def read(*_: object) -> None:
        sound = Sound()
        kept.add(sound)
        raise AudioError("silence")

    monkeypatch.setattr(stages, "read_utterance", read)
    aligner = SimpleNamespace(model=None, settings=SimpleNamespace(track=""))
    worker = Stages(WorkerOptions(task=SimpleNamespace()), aligner)
    monkeypatch.setattr(worker, "_choice", lambda _: None)
    gc.disable()
    try:
        state = worker.read(UtteranceBatch(0, (Job(0, utterances(1)[0]),)))
        assert [job.reason for job in state.jobs] == ["silence"]
        assert not kept
    finally:
        gc.enable()
