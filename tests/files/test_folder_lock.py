"""The lock: one run at a time, whatever became of the last one; also where the file system has no
locks."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys

import filelock
import pytest

from ctc_align.errors import OutputError, UsageError
from ctc_align.files import folder_lock
from ctc_align.files.folder_lock import FolderLock, Shard, is_held

HOLDER = """
import sys, time
from pathlib import Path
from ctc_align.files import folder_lock as lock
from ctc_align.files.folder_lock import Shard
if sys.argv[2] == "without": lock.FileLock = lock.SoftFileLock
with lock.FolderLock(Path(sys.argv[1]), Shard()):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["with", pytest.param("without", marks=pytest.mark.long)])
def locks(request, monkeypatch) -> str:
    if request.param == "without":
        monkeypatch.setattr(folder_lock, "FileLock", filelock.SoftFileLock)
    return request.param


@pytest.fixture
def holder(tmp_path, locks):
    root = folder_lock.__file__.split("ctc_align")[0]
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


def test_a_killed_process_holds_nothing(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert (tmp_path / ".ctc-align.lock").exists()
    with FolderLock(tmp_path, Shard()):
        data = json.loads((tmp_path / ".ctc-align.holder").read_text())
        assert (data["pid"], data["host"]) == (os.getpid(), socket.gethostname())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_other_shards_of_one_number_may_run_and_others_not(holder, tmp_path):
    with pytest.raises(
        UsageError, match=r"works on the whole corpus of it: .* must all use the same N"
    ):
        FolderLock(tmp_path, Shard(0, 2)).__enter__()
    holder.kill()
    holder.wait()
    with FolderLock(tmp_path, Shard(0, 2)), FolderLock(tmp_path, Shard(1, 2)):
        assert len(list(tmp_path.glob(".ctc-align.*-of-2.lock"))) == 2
        with pytest.raises(
            UsageError, match=f"another run works on shard 0/2 of it: process {os.getpid()} on "
        ):
            FolderLock(tmp_path, Shard(0, 2)).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", [socket.gethostname(), "elsewhere"])
def test_a_file_in_the_place_of_a_lock_outlives_its_process(host, monkeypatch, tmp_path):
    """On another machine it may live; here it is gone, or its number is another process's."""
    monkeypatch.setattr(folder_lock, "FileLock", filelock.SoftFileLock)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / ".ctc-align.lock").write_text(f"{dead.pid}\n{host}\n")
    (tmp_path / ".ctc-align.holder").write_text(
        json.dumps({"pid": dead.pid, "host": host, "since": "noon"})
    )
    if host == "elsewhere":
        with pytest.raises(UsageError, match=f"process {dead.pid} on elsewhere, since noon"):
            FolderLock(tmp_path, Shard()).__enter__()
        return
    with FolderLock(tmp_path, Shard()):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_has_a_file_in_their_place(monkeypatch, tmp_path):
    class NoLocks(filelock.FileLock):
        def acquire(self, *_: object, **__: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder_lock, "FileLock", NoLocks)
    with FolderLock(tmp_path, Shard()):
        assert is_held(tmp_path / ".ctc-align.lock")
        with pytest.raises(UsageError, match=f"process {os.getpid()} on"):
            FolderLock(tmp_path, Shard()).__enter__()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        FolderLock(tmp_path / "nowhere", Shard()).__enter__()


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be renamed there")
def test_a_run_in_a_renamed_folder_leaves_the_lock_of_the_next_one_alone(tmp_path):
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    with FolderLock(out_dir, Shard()):
        out_dir.rename(tmp_path / "elsewhere")
        out_dir.mkdir()
        later = FolderLock(out_dir, Shard())
        later.__enter__()
    assert folder_lock.lock_path(out_dir, Shard()).exists()
    with pytest.raises(UsageError, match="another run works on it: process"):
        FolderLock(out_dir, Shard()).__enter__()
    later.__exit__()
    assert list(out_dir.iterdir()) == []
