"""What a second run does, what ends a run, and job arrays (`--shard I/N`) that share a folder, with
another N later."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import corpus_runs as runs
import pytest

from ctc_align.config import Settings
from ctc_align.corpus.state.resume import run_fingerprint

UTTERANCES = 40
OF_NOW = ("run", "line", "crc", "files", "row")
"""Fields of the journal that earlier versions did not have."""


@pytest.fixture
def corpus(corpus, tmp_path) -> Path:
    """A copy of the manifest, of the same audio."""
    return Path(shutil.copyfile(corpus, (tmp_path / "corpus.jsonl").resolve()))


def ids_after(out_dir: Path, before: int) -> list[str]:
    return sorted(line["id"] for line in runs.lines(out_dir)[before:])


def test_a_second_run_does_nothing_and_reports_the_same(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    first = run_into(corpus, out_dir)
    times = {
        path: path.stat().st_mtime_ns
        for path in out_dir.rglob("*.json")
        if path.name != "summary.json"
    }
    second = run_into(corpus, out_dir)
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert len(runs.lines(out_dir)) == UTTERANCES
    named = [line for line in first.stderr.splitlines() if line.startswith("ctc-align: part")]
    assert len(named) == 3
    assert named == [
        line for line in second.stderr.splitlines() if line.startswith("ctc-align: part")
    ]
    summary = runs.summary(out_dir)
    assert (summary["done"], summary["failed"], summary["skipped"]) == (37, 3, 37)
    assert summary["complete"]


def test_what_changed_is_done_again(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    clip = runs.write_clip(tmp_path / "own.wav")
    runs.edit(corpus, lambda rows: rows[0].update(audio_filepath=str(clip)))
    run_into(corpus, out_dir)
    os.utime(clip, ns=(0, 12345))
    runs.edit(
        corpus,
        lambda rows: (rows[1].update(text="another text"), rows[3].update(text="now it fits")),
    )
    run_into(corpus, out_dir)
    assert ids_after(out_dir, UTTERANCES) == ["part 0/u0", "part 0/u3", "part 1/u1"]
    assert json.loads((out_dir / "part 1" / "u1.json").read_text("utf-8"))["text"] == "another text"
    assert runs.summary(out_dir)["failed"] == 2


def test_other_settings_and_formats_do_everything_again(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir, "--format", "json")
    run_into(corpus, out_dir, "--format", "json", "--batch-seconds", 7, "--workers", 2)
    assert len(runs.lines(out_dir)) == UTTERANCES
    run_into(corpus, out_dir, "--format", "json,ctm")
    assert (
        len(runs.lines(out_dir)) == UTTERANCES + 39
    )  # the line without a transcript says the same as before


def test_failures_are_tried_again_when_asked(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir)
    run_into(corpus, out_dir, "--retry-failed")
    assert ids_after(out_dir, UTTERANCES) == ["part 0/u3", "part 2/u11"]


def test_force_does_everything_again(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir)
    expected = runs.outputs(out_dir)
    whole = (out_dir / "part 0" / "u0.json").read_text()
    (out_dir / "part 0" / "u0.json").write_text(whole.replace("number", "NUMBER"))
    run_into(corpus, out_dir)
    assert "NUMBER" in (out_dir / "part 0" / "u0.json").read_text(), (
        "its size is the same: --verify would tell"
    )
    run_into(corpus, out_dir, "--force")
    changed = {"part 0/u0.hand.json": whole.replace("number", "NUMBER").encode()}
    assert runs.outputs(out_dir) == expected | changed


@pytest.mark.parametrize("journal", ["torn", "shorter", "gone", "not JSON"])
def test_outputs_that_are_not_in_the_journal_are_replaced(run_into, journal, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir)
    expected = runs.outputs(out_dir)
    path = out_dir / "journal.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    if journal == "torn":
        path.write_bytes(whole[:-40])
    elif journal == "shorter":
        path.write_bytes(b"".join(lines[:9]))
    elif journal == "gone":
        path.unlink()
    else:
        path.write_bytes(b"".join([*lines[:9], b'{"id": 1\n', *lines[10:]]))
    (out_dir / "part 0" / "u0.ctm").unlink()
    run_into(corpus, out_dir)
    assert runs.outputs(out_dir) == expected
    assert runs.summary(out_dir)["done"] == 37


def test_outputs_that_are_gone_or_have_another_size_are_made_again(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    run_into(corpus, out_dir)
    expected = runs.outputs(out_dir)
    (out_dir / "part 2" / "u5.TextGrid").unlink()
    os.truncate(out_dir / "part 1" / "u4.ctm", 5)
    (out_dir / "part 0" / "u6.json").unlink()
    (out_dir / "part 0" / "u6.json").symlink_to(out_dir / "part 0" / "u0.json")
    run_into(corpus, out_dir)
    assert runs.outputs(out_dir) == expected
    assert ids_after(out_dir, UTTERANCES) == ["part 0/u6", "part 1/u4", "part 2/u5"]


def test_a_damaged_line_of_a_mended_utterance_does_not_let_its_failure_win(
    run_into, corpus, tmp_path
):
    out_dir, journal = tmp_path / "out", tmp_path / "out" / "journal.jsonl"
    runs.edit(corpus, lambda rows: rows[11].update(audio_filepath="mine.wav"))
    run_into(corpus, out_dir)
    runs.write_clip(tmp_path / "mine.wav")
    run_into(corpus, out_dir)
    assert {line["run"] for line in runs.lines(out_dir)} == {1, 2}
    assert [line["line"] for line in runs.lines(out_dir)] == list(range(1, UTTERANCES + 2))
    expected = runs.outputs(out_dir)
    rows = journal.read_bytes().splitlines(keepends=True)
    assert b'"id": "part 2/u11", "status": "done"' in rows[-1]
    rows[-1] = rows[-1].replace(b'"loss": ', b'"loss": 1')
    journal.write_bytes(b"".join(rows))
    result = run_into(corpus, out_dir)
    assert "journal.jsonl, line 41: its checksum does not match" in result.stderr
    assert "38 utterances checked: 38 whole" not in result.stderr
    assert "37 utterances checked: 37 whole, 0 not" in result.stderr
    assert runs.outputs(out_dir) == expected
    assert (runs.summary(out_dir)["done"], runs.summary(out_dir)["failed"]) == (38, 2)
    whole = journal.read_bytes()
    assert "checked" not in run_into(corpus, out_dir).stderr, "all is sure again"
    assert journal.read_bytes() == whole


@pytest.mark.parametrize("layout", ["files", "shards"])
def test_an_utterance_that_fails_now_has_no_outputs_whatever_the_clock_said(
    run_into, layout, corpus, tmp_path
):
    """The lines are of an earlier version, from a clock that was an hour fast; one has failed, and
    is mended."""
    out_dir = tmp_path / "out"
    options = ["--layout", layout, "--shard-size", 7]
    clip = runs.write_clip(tmp_path / "own.wav")
    runs.edit(
        corpus,
        lambda rows: (
            rows[0].update(audio_filepath=str(clip)),
            rows[11].update(audio_filepath="mine.wav"),
        ),
    )
    run_into(corpus, out_dir, *options)
    journal = out_dir / "journal.jsonl"
    rows = [
        {name: line[name] for name in line if name not in OF_NOW} for line in runs.lines(out_dir)
    ]
    runs.write_manifest(journal, [row | {"time": row["time"] + 3600} for row in rows])
    clip.write_bytes(b"spoiled")
    runs.write_clip(tmp_path / "mine.wav")
    (out_dir / "part 0" / "u0.theirs").parent.mkdir(exist_ok=True)
    (out_dir / "part 0" / "u0.theirs").write_text("precious")
    for expected in (["part 0/u0", "part 2/u11"], []):  # a third run does nothing more
        before = len(runs.lines(out_dir))
        result = run_into(corpus, out_dir, *options)
        assert "part 0/u0: " in result.stderr
        assert "part 2/u11: " not in result.stderr
        assert ids_after(out_dir, before) == expected
    assert {path.name for path in (out_dir / "part 0").glob("u0.*")} == {"u0.theirs"}
    whole = tmp_path / "whole"
    run_into(corpus, whole, *options)
    found = runs.outputs(out_dir)
    assert found.pop("part 0/u0.theirs") == b"precious"
    assert found == runs.outputs(whole)
    runs.write_clip(clip)
    runs.edit(
        corpus,
        lambda rows: (
            rows[2].update(text="word " * 60),
            rows[11].update(text=""),
            rows.append(rows[8]),
        ),
    )
    run_into(corpus, out_dir, *options)
    stale = [path.name for number in (2, 11) for path in (out_dir / "part 2").glob(f"u{number}.*")]
    assert not stale, "one has failed, one is no utterance any more"
    assert layout == "shards" or (out_dir / "part 2" / "u8.json").exists(), (
        "a line of the same id is refused"
    )
    assert runs.summary(out_dir)["failed"] == 5
    if layout == "shards":
        texts = b"".join(
            gzip.decompress(path.read_bytes()) for path in out_dir.glob("alignments*.gz")
        )
        assert (b'"part 2/u11"' in texts, b'"part 2/u8"' in texts) == (False, True)


def test_what_somebody_else_made_is_not_replaced(run_into, corpus, tmp_path):
    out_dir = tmp_path / "out"
    theirs = out_dir / "part 0" / "u0.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("precious")
    result = run_into(corpus, out_dir, code=2)
    assert "u0.json: already exists" in result.stderr
    assert "--force" in result.stderr
    assert theirs.read_text() == "precious"
    assert not (out_dir / "journal.jsonl").exists()
    run_into(corpus, out_dir, "--force")
    assert json.loads(theirs.read_text("utf-8"))["utterance"] == "part 0/u0"


def test_inputs_are_never_replaced_not_even_by_force(run_into, tmp_path):
    clip = runs.write_clip(tmp_path / "clip.wav")
    manifest = runs.write_manifest(
        tmp_path / "u0.json", [{"audio": str(clip), "text": "a b", "utterance": "u0"}]
    )
    before = manifest.read_bytes()
    assert "input" in run_into(manifest, tmp_path, "--force").stderr
    assert manifest.read_bytes() == before


class TestTwoRuns:
    def test_the_second_is_refused_and_told_who(self, run_into, corpus, tmp_path):
        out_dir = tmp_path / "out"
        with runs.HeldRun(
            corpus, "--out-dir", out_dir, "--workers", 1, at="append-after:1"
        ) as first:
            second = run_into(corpus, out_dir, code=2)
            assert f"process {first.process.pid} on " in second.stderr
            assert "another run works on it" in second.stderr
            third = run_into(corpus, out_dir, "--shard", "0/2", code=2)
            assert "must all use the same N" in third.stderr
        run_into(corpus, out_dir)


class TestInterrupts:
    @pytest.mark.parametrize(
        "number",
        [
            signal.SIGINT,
            *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGTERM, signal.SIGHUP)),
        ],
    )
    def test_the_batch_in_flight_ends_and_the_summary_is_written(
        self, run_into, number, corpus, tmp_path
    ):
        out_dir = tmp_path / "out"
        options = (corpus, "--out-dir", out_dir, "--workers", 1, "--batch-seconds", 0.5)
        with runs.HeldRun(*options, at="append-after:2") as held:
            held.process.send_signal(number)
            _, stderr = held.ended()
        assert held.process.returncode == 130, stderr
        assert re.search(
            rf"ctc-align: interrupted: \d+ of {UTTERANCES} utterances are done; run the same",
            stderr,
        )
        assert re.search(rf"utterances +\d+ of {UTTERANCES} so far", stderr)
        assert "Traceback" not in stderr
        summary = runs.summary(out_dir)
        assert not summary["complete"]
        assert 0 < summary["utterances"] < UTTERANCES
        assert summary["utterances"] == len(runs.lines(out_dir))
        assert list(out_dir.glob(".ctc-align*")) == []
        run_into(corpus, out_dir)
        whole = tmp_path / "whole"
        run_into(corpus, whole)
        assert runs.outputs(out_dir) == runs.outputs(whole)

    @pytest.mark.long
    def test_a_terminal_that_closes(self, corpus, tmp_path):
        """All processes of the run get SIGHUP, twice, and there is nowhere left to write: batches
        end all the same."""
        out_dir = tmp_path / "out"
        ours, theirs = os.openpty()
        options = (corpus, "--out-dir", out_dir, "--workers", 2, "--batch-seconds", 0.5)
        with runs.HeldRun(*options, at="append-after:2", terminal=theirs) as held:
            os.close(theirs)
            os.close(ours)
            os.killpg(held.process.pid, signal.SIGHUP)
            held.let_go()
            assert held.process.wait(timeout=runs.HANG_S) == 130
        assert not runs.summary(out_dir)["complete"]
        assert runs.summary(out_dir)["utterances"] == len(runs.lines(out_dir)) < UTTERANCES
        assert list(out_dir.glob(".ctc-align*")) == []

    @pytest.mark.long
    def test_a_second_interrupt_ends_it_at_once(self, run_into, corpus, tmp_path):
        out_dir = tmp_path / "out"
        options = (corpus, "--out-dir", out_dir, "--workers", 1, "--batch-seconds", 0.5)
        with runs.HeldRun(
            *options, at="compute:1"
        ) as held:  # it is the worker that is held, with a batch
            held.process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                held.process.wait(timeout=1.5)

            def is_over() -> bool:
                held.process.send_signal(signal.SIGINT)
                time.sleep(0.1)
                return held.process.poll() is not None

            runs.wait_for(is_over)
            _, stderr = runs.ended(held.process)
        assert held.process.returncode == 130, stderr
        assert "interrupted" in stderr
        run_into(corpus, out_dir)


def test_an_error_nobody_thought_of_fails_one_utterance(run_into, corpus, tmp_path):
    runs.edit(corpus, lambda rows: rows[5].update(text="raise"))
    result = run_into(corpus, tmp_path / "out")
    assert "part 2/u5: RuntimeError: no good" in result.stderr
    assert runs.summary(tmp_path / "out")["failed"] == 4


def shard_ids(out_dir: Path) -> list[str]:
    return [
        json.loads(line)["utterance"]
        for path in sorted(out_dir.glob("alignments-*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()
    ]


def test_rows_of_what_another_source_had_stay(run_into, corpus, tmp_path):
    """Each `done` of the journal has its row, whichever source is run into the folder, in whichever
    order."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()][20:]
    first = runs.write_manifest(tmp_path / "first.jsonl", rows[:8])
    second = runs.write_manifest(tmp_path / "second.jsonl", rows[5:15])
    out_dir, shards = tmp_path / "out", ["--layout", "shards", "--shard-size", 4]
    alone = tmp_path / "alone"
    run_into(second, alone, *shards, code=0)
    for source in (first, second, first, second):
        run_into(source, out_dir, *shards, code=0)
        done = {line["id"] for line in runs.lines(out_dir) if line["status"] == "done"}
        found = shard_ids(out_dir)
        assert done == set(found)
    before = runs.outputs(out_dir)
    run_into(second, out_dir, *shards, code=0)
    assert runs.outputs(out_dir) == before, "a rerun does nothing"
    ctm = (out_dir / "alignments-00000.ctm").read_bytes()
    assert ctm.startswith((alone / "alignments-00000.ctm").read_bytes()), (
        "the source's own come first"
    )
    refused = run_into(second, out_dir, *shards, "--format", "json", code=2)
    assert "hold 5 utterances that are not in this SOURCE, as json,ctm" in refused.stderr
    assert runs.outputs(out_dir) == before
    run_into(runs.write_manifest(tmp_path / "both.jsonl", rows[:15]), out_dir, *shards, code=0)
    assert len(shard_ids(out_dir)) == len(set(shard_ids(out_dir))) == 15
    run_into(runs.write_manifest(tmp_path / "less.jsonl", rows[4:15]), out_dir, *shards, code=0)
    assert len(shard_ids(out_dir)) == len(set(shard_ids(out_dir))) == 15, "none is in two shards"


@pytest.mark.long
def test_rows_that_wait_for_their_shard_stay_while_another_source_runs(run_into, corpus, tmp_path):
    """A run is killed in the middle of a shard; the one over another source in between takes none
    of its rows."""
    rows = [json.loads(line) for line in corpus.read_text("utf-8").splitlines()][20:]
    first = runs.write_manifest(tmp_path / "first.jsonl", rows[:12])
    second = runs.write_manifest(tmp_path / "second.jsonl", rows[12:])
    out_dir, shards = tmp_path / "out", ["--layout", "shards", "--batch-seconds", 0.5]
    options = ["--workers", 1, *shards]
    killed = runs.start(first, "--out-dir", out_dir, *options, BATCH_S=0.1, FAULT="append-after:3")
    runs.ended(killed)
    done = len(runs.lines(out_dir))
    assert 0 < done < 12
    run_into(second, out_dir, *shards, code=0)
    assert len(shard_ids(out_dir)) == 8
    run_into(first, out_dir, *shards, code=0)
    assert runs.summary(out_dir)["skipped"] == done, "none is done again"
    assert len(set(shard_ids(out_dir))) == 20


LAYOUTS = {"files": [], "shards": ["--layout", "shards", "--shard-size", 7]}


def start(corpus: Path, out_dir: Path, shard: str, *options, **environment):
    return runs.start(
        corpus, "--out-dir", out_dir, "--workers", 1, "--shard", shard, *options, **environment
    )


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
    assert (
        sum(runs.summary(parts, f"summary.{i}-of-3.json")["utterances"] for i in range(3))
        == UTTERANCES
    )


@pytest.mark.parametrize("layout", [pytest.param("files", marks=pytest.mark.long), "shards"])
def test_another_number_of_shards_goes_on(run, layout, corpus, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    run(corpus, "--out-dir", whole, *LAYOUTS[layout])
    expected = runs.outputs(whole)
    run(corpus, "--out-dir", parts, "--shard", "1/3", *LAYOUTS[layout])
    # stopped in the middle: some of it is in the journal
    killed = start(
        corpus,
        parts,
        "0/3",
        *LAYOUTS[layout],
        "--batch-seconds",
        0.5,
        BATCH_S=0.1,
        FAULT="append-after:4",
    )
    runs.ended(killed)
    assert killed.returncode < 0
    for i in range(2):
        told = run(corpus, "--out-dir", parts, "--shard", f"{i}/2", *LAYOUTS[layout]).stderr
        assert (
            f"warning: --shard {i}/2: this folder already has results from jobs of 3 parts. They"
            " are kept" in told
        )
    assert runs.outputs(parts) == expected
    names = sorted(path.name for path in parts.glob("journal*"))
    ids = [line["id"] for name in names for line in runs.lines(parts, name)]
    assert set(ids) == {line["id"] for line in runs.lines(whole)}
    if layout == "files":
        assert len(ids) == UTTERANCES, "nothing twice"
    result = run(corpus, "--out-dir", parts, *LAYOUTS[layout])
    assert runs.summary(parts)["skipped"] == 37, result.stderr
    assert runs.outputs(parts) == expected


def test_verify_sees_a_recording_that_was_replaced(run_into, corpus, tmp_path):
    """With the same size and modification time; lines of 0.4.0 have no checksum, and the run says
    so."""
    out_dir, clip = tmp_path / "out", runs.write_clip(tmp_path / "own.wav", seed=1)
    runs.edit(corpus, lambda rows: rows[0].update(audio_filepath=str(clip)))
    run_into(corpus, out_dir)
    before = clip.stat()
    runs.write_clip(clip, seed=2)
    os.utime(clip, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert clip.stat().st_size == before.st_size
    run_into(corpus, out_dir)
    assert ids_after(out_dir, UTTERANCES) == [], "without --verify no recording is read"
    done = run_into(corpus, out_dir, "--verify")
    assert "part 0/u0: its recording is not the file that was read" in done.stderr
    assert "37 utterances checked: 36 whole, 1 not, redone" in done.stderr
    assert ids_after(out_dir, UTTERANCES) == ["part 0/u0"]
    journal = out_dir / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text("utf-8").splitlines()]
    old = [
        {name: value for name, value in line.items() if name not in (*OF_NOW, "audio")}
        for line in lines
    ]
    journal.write_text("".join(json.dumps(line) + "\n" for line in old), "utf-8")
    done = run_into(corpus, out_dir, "--verify")
    assert "37 not compared in full (written by a version without checksums)" in done.stderr


def test_settings_that_0_4_0_did_not_have_count_only_if_they_are_set():
    """The fingerprint of its settings is as it was, so that its runs resume."""
    settings = Settings().to_dict()
    old = {name: value for name, value in settings.items() if name not in ("separator", "silence")}
    assert run_fingerprint(None, None, settings, ["json"]) == run_fingerprint(
        None, None, old, ["json"]
    )
    changed = {**settings, "separator": "|"}
    assert run_fingerprint(None, None, changed, ["json"]) != run_fingerprint(
        None, None, settings, ["json"]
    )
