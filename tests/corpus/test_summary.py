"""The summary: what the latest lines say, against the same counted naively."""

from __future__ import annotations

import json
from array import array

import corpus_runs as runs
import numpy as np
import pytest
from corpus_runs import journal_line

from ctc_align.corpus.report.run_figures import alignment_in
from ctc_align.corpus.state import summary
from ctc_align.corpus.state.journal import DONE, FAILED, Journal, Line, Shard, journal_path, journal_paths
from ctc_align.corpus.state.summary import MOST_FAILURES, Summary, joined, summarize, summary_path
from ctc_align.errors import UsageError


def write(path, lines, run=1):
    with Journal(path, run=run) as journal:
        journal.append(lines)
    return path


def made_lines(count: int, seed: int = 0) -> list[Line]:
    random = np.random.default_rng(seed)
    lines = []
    for i in range(count):
        id = f"u{random.integers(count // 2)}"
        if random.random() < 0.2:
            lines.append(journal_line(id, FAILED, f"reason {i}", time=float(i)))
        else:
            loss = float(random.integers(1, 40)) / 8
            seconds, duration_s = float(random.integers(99)), float(random.random() * 9)
            lines.append(
                journal_line(
                    id, loss=10 * loss, seconds=seconds, loss_per_token=loss, duration_s=duration_s, time=float(i)
                )
            )
    return lines


def test_against_a_naive_count(tmp_path):
    lines = made_lines(600)
    paths = [write(tmp_path / f"journal.{2 - i}-of-3.jsonl", lines[200 * i :][:200], run=i + 1) for i in range(3)]
    summary = summarize(paths, source="here")
    latest = {line.id: line for line in lines}
    done = [line for line in latest.values() if line.status == DONE]
    failed = [line for line in latest.values() if line.status == FAILED]
    assert (summary.done, summary.failed) == (len(done), len(failed))
    assert summary.audio_hours == pytest.approx(sum(line.result.duration_s or 0 for line in done) / 3600, abs=1e-6)
    losses = [line.result.loss_per_token for line in done]
    assert summary.loss_per_token["p50"] == pytest.approx(np.median(losses), abs=1e-6)
    assert summary.loss_per_token["max"] == max(losses)
    assert summary.loss_per_token["mean"] == pytest.approx(np.mean(losses), abs=1e-6)
    worst = sorted(done, key=lambda line: (-(line.result.loss_per_token or 0), line.id))[:10]
    assert [row["utterance"] for row in summary.worst] == [line.id for line in worst]
    slowest = sorted(done, key=lambda line: (-line.result.seconds, line.id))[:10]
    assert [row["utterance"] for row in summary.slowest] == [line.id for line in slowest]
    assert {row["utterance"]: row["reason"] for row in summary.failures} == {line.id: line.reason for line in failed}
    assert summary == summarize(paths[::-1], source="here")


def test_only_what_the_source_still_has_counts(tmp_path):
    lines = made_lines(200)
    path = write(tmp_path / "journal.jsonl", lines)
    wanted = {line.id for line in lines[:20]}
    keys = array("Q", [line.key for line in lines[:20]])
    assert summarize([path], keys).utterances == len(wanted)
    assert summarize([path], array("Q")).utterances == 0


def test_failures_are_bounded_and_counted(tmp_path):
    lines = [journal_line(f"u{i}", FAILED, "no", time=1.0) for i in range(MOST_FAILURES + 5)]
    data = summarize([write(tmp_path / "journal.jsonl", lines)]).to_dict()
    assert (data["failed"], len(data["failures"]), data["failures_left_out"]) == (MOST_FAILURES + 5, MOST_FAILURES, 5)


def test_nothing_done(tmp_path):
    summary = summarize([write(tmp_path / "journal.jsonl", [])])
    assert (summary.utterances, summary.loss_per_token, summary.worst) == (0, {}, [])
    summary.write(tmp_path / "summary.json")
    assert json.loads((tmp_path / "summary.json").read_text("utf-8"))["utterances"] == 0


def test_names_that_are_not_unicode_can_be_written(tmp_path):
    path = write(tmp_path / "journal.jsonl", [journal_line("\udce9", FAILED, "bad", time=1.0)])
    summarize([path]).write(tmp_path / "summary.json")
    assert "failures" in json.loads((tmp_path / "summary.json").read_text("utf-8"))


def test_shards_that_have_not_ended_are_named(tmp_path):
    for i in (0, 2):
        write(journal_path(tmp_path, Shard(i, 3)), made_lines(30, i))
    Summary(complete=True, source="there").write(summary_path(tmp_path, Shard(0, 3)))
    summary, notes = joined(tmp_path)
    assert not summary.complete
    assert summary.source == "there"
    assert notes == ["journal.2-of-3.jsonl: its run has not come to its end", "of 3 shards there is no journal of 1"]
    for i in range(3):
        write(journal_path(tmp_path, Shard(i, 3)), [])
        Summary(complete=True).write(summary_path(tmp_path, Shard(i, 3)))
    summary, notes = joined(tmp_path)
    assert summary.complete
    assert notes == []


def test_a_folder_without_a_journal(tmp_path):
    with pytest.raises(UsageError, match="there is no journal in it"):
        joined(tmp_path)


def test_what_others_append_meanwhile_does_not_count(tmp_path, monkeypatch):
    """Another shard's journal grows between the two passes, and it comes before ours."""
    lines = made_lines(40)
    theirs, ours = journal_path(tmp_path, Shard(0, 2)), journal_path(tmp_path, Shard(1, 2))
    write(theirs, lines[:10])
    write(ours, lines[20:])
    keys = array("Q", [line.key for line in lines[20:]])
    expected = summarize([theirs, ours], keys)

    class Growing(summary.Outcomes):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            with Journal(theirs) as journal:
                journal.append(lines[10:20])

    monkeypatch.setattr(summary, "Outcomes", Growing)
    assert summarize([theirs, ours], keys) == expected
    assert expected.utterances == len({line.id for line in lines[20:]})


def test_what_was_refused_and_is_mended_or_moved_is_not_told_again(run, tmp_path):
    """The figures of the folder are those of the run; and what was done, and is refused now, is not counted twice."""
    out_dir, clip = tmp_path / "out", runs.write_clip(tmp_path / "clip.wav")
    rows = [{"utterance": f"u{i}", "audio": str(clip), "text": "number one"} for i in range(3)]
    empty = [row | {"text": ""} for row in rows]
    manifest = tmp_path / "m.jsonl"
    for lines, failed in (([empty[0], rows[1], "{"], 2), (["{", *rows], 1), (rows, 0), ([*rows[:2], empty[2]], 1)):
        manifest.write_text("".join(f"{row if row == '{' else json.dumps(row)}\n" for row in lines), "utf-8")
        run(manifest, "--out-dir", out_dir, "--format", "json", code=1 if failed else 0)
        of_folder = summarize(journal_paths(out_dir))
        assert (of_folder.failed, of_folder.utterances) == (failed, len(lines))
        assert runs.summary(out_dir)["failed"] == failed
    assert not (out_dir / "u2.json").exists()
    with pytest.raises(UsageError, match="u2: was not aligned: text: the transcript is empty"):
        alignment_in(out_dir, "u2")
