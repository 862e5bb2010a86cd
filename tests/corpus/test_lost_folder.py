"""A folder, a journal or a lock that goes while a run works in it: the run stops and says so, and a
rerun completes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import corpus_runs as runs
import pytest
from even_aligner import EvenAligner
from rows import first_row_of

UTTERANCES = 40
LAYOUTS = {"files": [], "shards": ["--layout", "shards", "--shard-size", 7, "--manifest", "nemo"]}


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, bytes]]:
    """What `expected` made for an earlier test."""
    return {}


@pytest.fixture
def expected(run, corpus, found, tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """The outputs of a run that nobody disturbs, by layout."""
    for layout in LAYOUTS.keys() - found.keys():
        out_dir = tmp_path_factory.mktemp("whole") / layout
        run(corpus, "--out-dir", out_dir, *LAYOUTS[layout], code=1)
        found[layout] = runs.outputs(out_dir)
    return found


def rename(out_dir: Path) -> Path:
    return out_dir.rename(out_dir.with_name("elsewhere"))


def replace_journal(out_dir: Path) -> None:
    shutil.copyfile(out_dir / "journal.jsonl", out_dir / "copy")
    os.replace(out_dir / "copy", out_dir / "journal.jsonl")


def add_to_journal(out_dir: Path) -> None:
    with open(out_dir / "journal.jsonl", "ab") as file:
        file.write(b"what others write\n")


FILES: dict[str, Callable[[Path], object]] = {
    "rename": rename,
    # In one step for the run: what is deleted file by file may get new files meanwhile.
    "rename and delete": lambda out_dir: shutil.rmtree(rename(out_dir)),
    "rename and make anew": lambda out_dir: (rename(out_dir), out_dir.mkdir()),
    "delete the lock": lambda out_dir: (out_dir / ".ctc-align.lock").unlink(),
    "delete the journal": lambda out_dir: (out_dir / "journal.jsonl").unlink(),
    "replace the journal": replace_journal,
    "empty the journal": lambda out_dir: os.truncate(out_dir / "journal.jsonl", 0),
    "add to the journal": add_to_journal,
}
SHARDS = {
    name: FILES[name] for name in FILES if name.startswith(("rename", "delete the j", "empty"))
}
SHARDS["delete the pending parts"] = lambda out_dir: (out_dir / ".ctc-align-spool.sqlite").unlink()


def require_it_stopped(out_dir: Path, disturbance: str, there: object, stderr: str) -> None:
    """It says what to do, and nothing was made in a folder that is another one."""
    assert "Traceback" not in stderr
    assert "run the same command" in stderr
    if "rename" in disturbance:
        assert "out" in stderr
        assert contents(out_dir) == there


def contents(out_dir: Path) -> dict[str, bytes] | None:
    return runs.outputs(out_dir) if out_dir.is_dir() else None


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be renamed there")
@pytest.mark.parametrize(
    ("layout", "disturbance"),
    [
        *first_row_of(("files", name) for name in FILES),
        *first_row_of(("shards", name) for name in SHARDS),
    ],
)
def test_a_run_that_loses_its_files_stops_and_a_rerun_completes(
    run, layout, disturbance, corpus, expected, tmp_path, monkeypatch
):
    out_dir = tmp_path / "out"
    options = (corpus, "--out-dir", out_dir, *LAYOUTS[layout])
    batches, there = [], []
    align_batch = EvenAligner.align_batch

    def disturbed(*arguments: Any, **options: Any) -> Any:
        batches.append(arguments)
        if len(batches) == 4:
            (FILES | SHARDS)[disturbance](out_dir)
            there.append(contents(out_dir))
        return align_batch(*arguments, **options)

    monkeypatch.setattr(EvenAligner, "align_batch", disturbed)
    stopped = run(*options, "--batch-seconds", 0.7, code=1)
    require_it_stopped(out_dir, disturbance, there[0], stopped.stderr)
    run(*options, code=1)
    assert runs.outputs(out_dir) == expected[layout]
    assert runs.summary(out_dir)["utterances"] == UTTERANCES
