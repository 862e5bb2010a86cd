"""A folder, a journal or a lock that goes while a run works in it: the run stops and says so, and a rerun completes."""

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
def corpus(tmp_path_factory) -> Path:
    return runs.make_corpus(tmp_path_factory.mktemp("corpus"), UTTERANCES)


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


def rename(out_dir: Path) -> None:
    out_dir.rename(out_dir.with_name("elsewhere"))


def rename_and_make_anew(out_dir: Path) -> None:
    rename(out_dir)
    out_dir.mkdir()


def delete(out_dir: Path) -> None:
    """In one step for the run: what is deleted file by file may get new files meanwhile."""
    rename(out_dir)
    shutil.rmtree(out_dir.with_name("elsewhere"))


def delete_journal(out_dir: Path) -> None:
    (out_dir / "journal.jsonl").unlink()


def replace_journal(out_dir: Path) -> None:
    copy = out_dir / "copy"
    shutil.copyfile(out_dir / "journal.jsonl", copy)
    os.replace(copy, out_dir / "journal.jsonl")


def empty_journal(out_dir: Path) -> None:
    os.truncate(out_dir / "journal.jsonl", 0)


def add_to_journal(out_dir: Path) -> None:
    with open(out_dir / "journal.jsonl", "ab") as file:
        file.write(b"what others write\n")


def delete_lock(out_dir: Path) -> None:
    (out_dir / ".ctc-align.lock").unlink()


def delete_pending_parts(out_dir: Path) -> None:
    (out_dir / ".ctc-align-spool.sqlite").unlink()


CASES = [
    *(("files", what) for what in (rename, delete, rename_and_make_anew, delete_lock)),
    *(("files", what) for what in (delete_journal, replace_journal, empty_journal, add_to_journal)),
    *(("shards", what) for what in (rename, delete, rename_and_make_anew)),
    *(("shards", what) for what in (delete_journal, empty_journal, delete_pending_parts)),
]


def require_it_stopped(out_dir: Path, disturb: Callable[[Path], None], there: object, stderr: str) -> None:
    """It says what to do, and nothing was made in a folder that is another one."""
    assert "Traceback" not in stderr
    assert "give the same command again" in stderr
    if "rename" in disturb.__name__ or disturb is delete:
        assert "out" in stderr
        assert contents(out_dir) == there


def contents(out_dir: Path) -> dict[str, bytes] | None:
    return runs.outputs(out_dir) if out_dir.is_dir() else None


@pytest.mark.skipif(os.name == "nt", reason="open files cannot be renamed there")
@pytest.mark.parametrize(("layout", "disturb"), [*first_row_of(CASES[:8]), *first_row_of(CASES[8:])])
def test_a_run_that_loses_its_files_stops_and_a_rerun_completes(
    run, layout, disturb, corpus, expected, tmp_path, monkeypatch
):
    out_dir = tmp_path / "out"
    options = (corpus, "--out-dir", out_dir, *LAYOUTS[layout])
    batches, there = [], []
    align_batch = EvenAligner.align_batch

    def disturbed(*arguments: Any, **options: Any) -> Any:
        batches.append(arguments)
        if len(batches) == 4:
            disturb(out_dir)
            there.append(contents(out_dir))
        return align_batch(*arguments, **options)

    monkeypatch.setattr(EvenAligner, "align_batch", disturbed)
    stopped = run(*options, "--batch-seconds", 0.7, code=1)
    require_it_stopped(out_dir, disturb, there[0], stopped.stderr)
    run(*options, code=1)
    assert runs.outputs(out_dir) == expected[layout]
    assert runs.summary(out_dir)["utterances"] == UTTERANCES


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="open files cannot be renamed there")
@pytest.mark.parametrize(("layout", "disturb"), [("files", delete_journal), ("shards", rename_and_make_anew)])
def test_so_does_a_run_of_processes(run, layout, disturb, corpus, expected, tmp_path):
    out_dir = tmp_path / "out"
    options = (corpus, "--out-dir", out_dir, *LAYOUTS[layout])
    with runs.HeldRun(*options, "--workers", 2, "--batch-seconds", 0.7, at="append-after:3") as held:
        disturb(out_dir)
        there = contents(out_dir)
        _, stderr = held.ended()
    assert held.process.returncode == 1, stderr
    require_it_stopped(out_dir, disturb, there, stderr)
    run(*options, code=1)
    assert runs.outputs(out_dir) == expected[layout]
