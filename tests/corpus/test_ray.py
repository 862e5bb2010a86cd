"""The same run on a local Ray cluster of two workers: the same files, whatever is killed on the
way."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import corpus_runs as runs
import pytest

from ctc_align.corpus.engine.ray_pool import Cluster
from ctc_align.corpus.engine.worker_pools import PoolSettings
from ctc_align.errors import BackendError, UsageError

UTTERANCES = 60
FAILED = 3
RAY = ("--engine", "ray", "--workers", 2, "--batch-seconds", 2)

with_ray = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra [ray]"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc"),
]


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory) -> dict[str, bytes]:
    """What the local engine writes."""
    folder = tmp_path_factory.mktemp("local")
    assert (
        runs.run(corpus, "--out-dir", folder, "--workers", 2, "--batch-seconds", 2).returncode == 1
    )
    return runs.outputs(folder)


def start(corpus: Path, out_dir: Path, *options, **environment) -> subprocess.Popen[str]:
    return runs.start(corpus, "--out-dir", out_dir, "--quiet", *RAY, *options, **environment)


def held(corpus: Path, out_dir: Path) -> runs.HeldRun:
    """A run of which two batches are done."""
    return runs.HeldRun(corpus, "--out-dir", out_dir, "--quiet", *RAY, at="append-after:3")


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Exit code and the lines on stderr."""
    stdout, stderr = runs.ended(process)
    assert stdout == ""
    return process.returncode, stderr.splitlines()


def children(pid: int) -> dict[int, str]:
    """Living processes that descend from `pid`, with their names."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                names[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    more = {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in more} - found
        found |= more
    return {child: names[child] for child in found}


def actors(pid: int) -> list[int]:
    """Those that have the model; Ray's own helpers live on for a minute after all else."""
    return sorted(
        child
        for child, name in children(pid).items()
        if name.startswith(("ray::LightActor", "ray::RayWorker"))
    )


def listening(pids: list[int]) -> list[str]:
    """Addresses, in hexadecimal, at which processes wait for connections (Linux)."""
    links = [
        os.readlink(path)
        for pid in pids
        for path in Path(f"/proc/{pid}/fd").iterdir()
        if path.is_symlink()
    ]
    rows = [
        row.split()
        for name in ("tcp", "tcp6")
        for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return [
        row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links
    ]


def assert_whole(out_dir: Path, expected: dict[str, bytes]) -> None:
    """Nothing is lost, nothing there twice."""
    assert runs.outputs(out_dir) == expected
    assert [path.name for path in out_dir.glob(".ctc-align*")] == []
    ids = [line["id"] for line in runs.lines(out_dir)]
    assert len(ids) == len(set(ids)) == UTTERANCES
    summary = runs.summary(out_dir)
    assert (summary["done"], summary["failed"], summary["complete"]) == (
        UTTERANCES - FAILED,
        FAILED,
        True,
    )


class TestOnACluster:
    pytestmark = with_ray

    @pytest.mark.long
    def test_the_files_are_those_of_the_local_engine(self, tmp_path, english):
        """With the real model, in shards: what is spooled and assembled comes over the cluster."""
        corpus = runs.make_corpus(tmp_path / "corpus", 24)
        options = ["--layout", "shards", "--shard-size", 10, "--manifest", "nemo,lhotse"]
        local = runs.run(
            corpus,
            "--out-dir",
            tmp_path / "local",
            "--workers",
            1,
            "--batch-seconds",
            2,
            *options,
            REAL=1,
        )
        code, lines = ended(start(os.path.relpath(corpus), tmp_path / "ray", *options, REAL=1))
        assert code == local.returncode == 1
        assert [line.partition(":")[0] for line in lines] == ["ctc-align"] * FAILED, (
            "Ray is to be quiet"
        )
        found = runs.outputs(tmp_path / "ray")
        assert len(found) > 6
        assert found == runs.outputs(tmp_path / "local")

    @pytest.mark.long
    def test_nobody_else_can_reach_it_and_the_driver_killed_and_resumed(
        self, corpus, expected, tmp_path
    ):
        with held(corpus, tmp_path / "out") as run:
            workers = actors(run.process.pid)
            assert len(workers) == 2
            found = listening([run.process.pid, *children(run.process.pid)])
            assert len(found) >= 4
            assert set(found) <= {
                "0100007F",
                "0000000000000000FFFF00000100007F",
                "00000000000000000000000001000000",
            }
        runs.wait_for(
            lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers)
        )  # they end with the driver
        assert 2 <= len(runs.lines(tmp_path / "out")) < UTTERANCES
        code, lines = ended(start(corpus, tmp_path / "out"))
        assert code == 1, lines
        assert_whole(tmp_path / "out", expected)

    @pytest.mark.long
    def test_utterances_that_kill_their_workers_have_failed_and_the_others_have_not(
        self, corpus, expected, tmp_path
    ):
        killers = ("part 2/u20", "part 0/u21", "part 2/u26")
        code, lines = ended(start(corpus, tmp_path / "out", KILLS_ITS_WORKER=",".join(killers)))
        assert code == 1, lines
        died = [line for line in lines if ": the worker process died of this utterance" in line]
        assert sorted(line.split(": ")[1] for line in died) == sorted(killers), lines
        lost = {name for name in expected if name.startswith(tuple(f"{id}." for id in killers))}
        kept = {name: data for name, data in expected.items() if name not in lost}
        assert len(lost) == 4 * len(killers)
        assert runs.outputs(tmp_path / "out") == kept
        assert len(runs.lines(tmp_path / "out")) == UTTERANCES

    @pytest.mark.long
    def test_a_model_that_is_none_is_said_once(self, corpus, tmp_path):
        code, lines = ended(
            start(corpus, tmp_path / "out", "--model", tmp_path / "nothing", REAL=1)
        )
        assert code == 2
        assert len(lines) == 1
        assert "nothing" in lines[0]


class TestCalls:
    def test_without_the_extra(self, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(UsageError, match=r"pip install 'ctc-align\[ray\]'"):
            PoolSettings("ray").check("auto")

    @pytest.mark.parametrize(
        ("settings", "device", "told"),
        [
            (PoolSettings("dask"), "auto", "--engine: expected one of local, ray"),
            (PoolSettings(address="auto"), "auto", "--address auto: needs --engine ray"),
            (
                PoolSettings(gpus_per_worker=0.5),
                "auto",
                "--gpus-per-worker 0.5: needs --engine ray",
            ),
            (PoolSettings("ray", gpus_per_worker=-1), "auto", "from 0 up"),
            (PoolSettings("ray", gpus_per_worker=1), "cpu", "give one of them"),
            (PoolSettings("ray", gpus_per_worker=0), "cuda", "above 0"),
            (PoolSettings("ray"), "cuda:1", "give cuda"),
        ],
    )
    def test_what_does_not_go_together(self, settings, device, told, monkeypatch):
        monkeypatch.setattr("ctc_align.corpus.engine.ray_pool.require_ray", lambda: None)
        with pytest.raises(UsageError, match=told):
            settings.check(device)

    def test_an_address_where_nobody_is(self):
        with pytest.raises(BackendError, match=r"--address 127.0.0.1:1: nobody answers there"):
            Cluster("127.0.0.1:1").connect()

    @pytest.mark.parametrize("option", ["SOURCE", "--out-dir"])
    def test_urls(self, option, run, tmp_path):
        url = "s3://bucket/folder"
        result = run(
            *([url, "--out-dir", tmp_path] if option == "SOURCE" else [tmp_path, "--out-dir", url])
        )
        assert result.code == 2
        assert f"{option} {url}: expected a path, got a URL" in result.stderr
        assert not Path("s3:").exists()
