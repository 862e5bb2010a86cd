from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ctc_align.corpus.outputs.assembly import PendingParts
from ctc_align.errors import OutputError

resource = pytest.importorskip("resource")


@pytest.fixture
def opened():
    with contextlib.ExitStack() as to_close:

        def call(path: Path, signature: str = "") -> PendingParts:
            return to_close.enter_context(contextlib.closing(PendingParts(path, signature)))

        yield call


def test_rows_for_something_else_are_of_no_use(tmp_path, opened):
    first = opened(tmp_path / "s", "shards json")
    first.put([("a", b"1")])
    first.close()
    second = opened(tmp_path / "s", "files textgrid")
    assert second.get("a") is None
    second.put([("a", b"2")])
    assert second.get("a") == b"2"


def test_a_file_that_is_no_spool_is_begun_anew(tmp_path, opened):
    (tmp_path / "s").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    spool = opened(tmp_path / "s")
    spool.put([("a", b"1")])
    assert spool.get("a") == b"1"


def test_all_rows_of_a_call_or_none(tmp_path, opened):
    spool = opened(tmp_path / "s")
    spool.put([("a", b"1")])

    def rows():
        yield "a", b"2"
        yield "b", b"2"
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        spool.put(rows())
    assert [spool.get(id) for id in ("a", "b")] == [b"1", None]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OutputError, match="the spool cannot be"):
        PendingParts(tmp_path / "none" / "s").put([("a", b"1")])


_HUNDRED_MB = """
import os, resource, sys
from ctc_align.corpus.outputs.assembly import PendingParts
spool = PendingParts(sys.argv[1])
spool.put((str(row), bytes(10_000)) for row in range(500))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for batch in range(1, 21):
    spool.put((f"{batch} {row}", os.urandom(10_000)) for row in range(500))
ids = (f"{batch} {row}" for batch in range(1, 21) for row in range(500))
assert sum(len(data) for _, data in spool.rows(ids)) == 100_000_000
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_memory_stays_flat(tmp_path):
    root = Path(__file__).parents[2]
    call = [sys.executable, "-c", _HUNDRED_MB, str(tmp_path / "s")]
    grown = int(subprocess.run(call, capture_output=True, text=True, check=True, cwd=root).stdout)
    assert grown < 30_000, f"{grown} KiB more for 100 MB of rows"


def test_a_full_disk_is_said(tmp_path, opened):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    spool = opened(tmp_path / "s")
    spool.put([("a", b"1")])
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        with pytest.raises(OutputError, match="the spool cannot be written"):
            spool.put((f"b{row}", bytes(10_000)) for row in range(100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert spool.get("a") == b"1"
    assert not spool.holds("b0")
    spool.put([("c", b"3")])
    assert spool.get("c") == b"3"
