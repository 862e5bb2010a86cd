"""The lock: one run at a time, whatever became of the last one; also where the file system has no locks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from ctc_align.corpus.state import lock
from ctc_align.corpus.state.journal import Shard
from ctc_align.corpus.state.lock import FolderLock, is_held, remove_dead
from ctc_align.errors import OutputError, UsageError

HOLDER = """
import sys, time
from pathlib import Path
from ctc_align.corpus import lock
from ctc_align.corpus.state.journal import Shard
if sys.argv[2] == "without": lock.fcntl = None
with lock.FolderLock(Path(sys.argv[1]), Shard()):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["with", "without"])
def locks(request, monkeypatch) -> str:
    if request.param == "without":
        monkeypatch.setattr(lock, "fcntl", None)
    elif lock.fcntl is None:
        pytest.skip("this system has no such locks")
    return request.param


@pytest.fixture
def holder(tmp_path, locks):
    root = lock.__file__.split("ctc_align")[0]
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), locks],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_who_holds_it_is_told(holder, tmp_path):
    with pytest.raises(UsageError, match=f"process {holder.pid} on {socket.gethostname()}, since 20"):
        FolderLock(tmp_path, Shard()).__enter__()
    assert is_held(tmp_path / ".ctc-align.lock")
    remove_dead(tmp_path / ".ctc-align.lock")
    assert is_held(tmp_path / ".ctc-align.lock")


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".ctc-align.lock").exists()
    assert not is_held(tmp_path / ".ctc-align.lock")
    with FolderLock(tmp_path, Shard()):
        data = json.loads((tmp_path / ".ctc-align.lock").read_text())
        assert (data["pid"], data["host"]) == (os.getpid(), socket.gethostname())
    assert list(tmp_path.iterdir()) == []


def test_other_shards_of_one_number_may_run_and_others_not(holder, tmp_path):
    with pytest.raises(UsageError, match=r"works on the whole corpus of it: .* only shards of one number"):
        FolderLock(tmp_path, Shard(0, 2)).__enter__()
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path, Shard(0, 2)), FolderLock(tmp_path, Shard(1, 2)):
        assert len(list(tmp_path.glob(".ctc-align.*-of-2.lock"))) == 2
    assert [path.name for path in tmp_path.iterdir()] == [".ctc-align.lock"], "left by the dead, for whoever cares"


def test_a_number_that_another_process_has_now(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "fcntl", None)
    holder = {"pid": os.getppid(), "host": socket.gethostname(), "since": "", "started": "1"}
    (tmp_path / ".ctc-align.lock").write_text(json.dumps(holder))
    if lock._started(os.getppid()) is None:
        pytest.skip("no /proc here")
    with FolderLock(tmp_path, Shard()):
        pass


def test_a_process_on_another_host_may_live(monkeypatch, tmp_path):
    monkeypatch.setattr(lock, "fcntl", None)
    (tmp_path / ".ctc-align.lock").write_text(json.dumps({"pid": 1, "host": "elsewhere", "since": "noon"}))
    with pytest.raises(UsageError, match="process 1 on elsewhere, since noon"):
        FolderLock(tmp_path, Shard()).__enter__()


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        FolderLock(tmp_path / "nowhere", Shard()).__enter__()
