"""`--shard I/N`: job arrays that share a folder, their summary, and another N later."""

from __future__ import annotations

from pathlib import Path

import corpus_runs as runs
import pytest

UTTERANCES = 60
LAYOUTS = {"files": [], "shards": ["--layout", "shards", "--shard-size", 7]}


def start(corpus: Path, out_dir: Path, shard: str, *options, **environment):
    return runs.start(corpus, "--out-dir", out_dir, "--workers", 1, "--shard", shard, *options, **environment)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shards_at_once_make_what_one_run_makes(run, layout, corpus, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(corpus, "--out-dir", whole, *LAYOUTS[layout])
    jobs = [start(corpus, parts, f"{i}/3", *LAYOUTS[layout]) for i in range(3)]
    for job in jobs:
        _, stderr = runs.ended(job)
        assert job.returncode in (0, 1), stderr
    assert runs.outputs(parts) == runs.outputs(whole)
    journals = [f"journal.{i}-of-3.jsonl" for i in range(3)]
    ids = [line["id"] for name in journals for line in runs.lines(parts, name)]
    assert len(ids) == len(set(ids)) == UTTERANCES
    assert sum(runs.summary(parts, f"summary.{i}-of-3.json")["utterances"] for i in range(3)) == UTTERANCES


@pytest.mark.parametrize("layout", [pytest.param("files", marks=pytest.mark.long), "shards"])
def test_another_number_of_shards_goes_on(run, layout, corpus, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(corpus, "--out-dir", whole, *LAYOUTS[layout])
    expected = runs.outputs(whole)
    run(corpus, "--out-dir", parts, "--shard", "1/3", *LAYOUTS[layout])
    # stopped in the middle: some of it is in the journal
    killed = start(corpus, parts, "0/3", *LAYOUTS[layout], "--batch-seconds", 0.5, BATCH_S=0.1, FAULT="append-after:4")
    runs.ended(killed)
    assert killed.returncode < 0
    for i in range(2):
        told = run(corpus, "--out-dir", parts, "--shard", f"{i}/2", *LAYOUTS[layout]).stderr
        assert f"warning: --shard {i}/2: this folder already has results from jobs of 3 parts. They are kept" in told
    assert runs.outputs(parts) == expected
    names = sorted(path.name for path in parts.glob("journal*"))
    ids = [line["id"] for name in names for line in runs.lines(parts, name)]
    assert set(ids) == {line["id"] for line in runs.lines(whole)}
    if layout == "files":
        assert len(ids) == UTTERANCES, "nothing twice"
    result = run(corpus, "--out-dir", parts, *LAYOUTS[layout])
    assert runs.summary(parts)["skipped"] == 57, result.stderr
    assert runs.outputs(parts) == expected
