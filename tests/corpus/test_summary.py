"""The summary: what the latest lines say, against the same counted naively."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import corpus_runs as runs
import numpy as np
import pytest
from corpus_runs import journal_line, write_clip, write_manifest
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_models import tiny_folder

from ctc_align.cli import run
from ctc_align.corpus.report.run_figures import alignment_in
from ctc_align.corpus.state import summary
from ctc_align.corpus.state.journal import (
    DONE,
    FAILED,
    Journal,
    Line,
    journal_path,
    journal_paths,
    read_lines,
)
from ctc_align.corpus.state.summary import MOST_RANKED, Summary, joined, summarize, summary_path
from ctc_align.errors import UsageError
from ctc_align.files.folder_lock import Shard
from ctc_align.types import AlignedWord, Alignment


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
                    id,
                    loss=10 * loss,
                    seconds=seconds,
                    loss_per_token=loss,
                    duration_s=duration_s,
                    time=float(i),
                )
            )
    return lines


def test_against_a_naive_count(tmp_path):
    lines = made_lines(600)
    paths = [
        write(tmp_path / f"journal.{2 - i}-of-3.jsonl", lines[200 * i :][:200], run=i + 1)
        for i in range(3)
    ]
    summary = summarize(paths, source="here")
    latest = {line.id: line for line in lines}
    done = [line for line in latest.values() if line.status == DONE]
    failed = [line for line in latest.values() if line.status == FAILED]
    assert (summary.done, summary.failed) == (len(done), len(failed))
    assert summary.audio_hours == pytest.approx(
        sum(line.result.duration_s or 0 for line in done) / 3600, abs=1e-6
    )
    losses = [line.result.loss_per_token for line in done]
    assert summary.loss_per_token["p50"] == pytest.approx(np.median(losses), abs=1e-6)
    assert summary.loss_per_token["max"] == max(losses)
    assert summary.loss_per_token["mean"] == pytest.approx(np.mean(losses), abs=1e-6)
    worst = sorted(done, key=lambda line: (-(line.result.loss_per_token or 0), line.id))[:10]
    assert [row["utterance"] for row in summary.worst] == [line.id for line in worst]
    slowest = sorted(done, key=lambda line: (-line.result.seconds, line.id))[:10]
    assert [row["utterance"] for row in summary.slowest] == [line.id for line in slowest]
    assert {row["utterance"]: row["reason"] for row in summary.failures} == {
        line.id: line.reason for line in failed
    }
    assert summary == summarize(paths[::-1], source="here")


def test_only_what_the_source_still_has_counts(tmp_path):
    lines = made_lines(200)
    path = write(tmp_path / "journal.jsonl", lines)
    wanted = {line.id for line in lines[:20]}
    keys = array("Q", [line.key for line in lines[:20]])
    assert summarize([path], keys).utterances == len(wanted)
    assert summarize([path], array("Q")).utterances == 0


def test_failures_are_bounded_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "MOST_FAILURES", 7)
    lines = [journal_line(f"u{i}", FAILED, "no", time=1.0) for i in range(12)]
    data = summarize([write(tmp_path / "journal.jsonl", lines)]).to_dict()
    assert (data["failed"], len(data["failures"]), data["failures_left_out"]) == (12, 7, 5)


def test_shards_that_have_not_ended_are_named(tmp_path):
    for i in (0, 2):
        write(journal_path(tmp_path, Shard(i, 3)), made_lines(30, i))
    Summary(complete=True, source="there").write(summary_path(tmp_path, Shard(0, 3)))
    summary, notes = joined(tmp_path)
    assert not summary.complete
    assert summary.source == "there"
    assert notes == [
        "journal.2-of-3.jsonl: its run has not finished",
        "of 3 shards there is no journal of 1",
    ]
    for i in range(3):
        write(journal_path(tmp_path, Shard(i, 3)), [])
        Summary(complete=True).write(summary_path(tmp_path, Shard(i, 3)))
    summary, notes = joined(tmp_path)
    assert summary.complete
    assert notes == []


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
    """The figures of the folder are those of the run; and what was done, and is refused now, is not
    counted twice."""
    out_dir, clip = tmp_path / "out", runs.write_clip(tmp_path / "clip.wav")
    rows = [{"utterance": f"u{i}", "audio": str(clip), "text": "number one"} for i in range(3)]
    empty = [row | {"text": ""} for row in rows]
    manifest = tmp_path / "m.jsonl"
    for lines, failed in (
        ([empty[0], rows[1], "{"], 2),
        (["{", *rows], 1),
        (rows, 0),
        ([*rows[:2], empty[2]], 1),
    ):
        manifest.write_text(
            "".join(f"{row if row == '{' else json.dumps(row)}\n" for row in lines), "utf-8"
        )
        run(manifest, "--out-dir", out_dir, "--format", "json", code=1 if failed else 0)
        of_folder = summarize(journal_paths(out_dir))
        assert (of_folder.failed, of_folder.utterances) == (failed, len(lines))
        assert runs.summary(out_dir)["failed"] == failed
    assert not (out_dir / "u2.json").exists()
    with pytest.raises(UsageError, match="u2: was not aligned: text: the transcript is empty"):
        alignment_in(out_dir, "u2")


WORD = AlignedWord("a", "a", 0, 1, "aligned", 0.0, 0.5, 0.5)
ALIGNMENT = Alignment(
    "u", "", 1.0, "m", "cpu", 0.01, 1.0, -1.0, "a b", (WORD, AlignedWord("b", "", 2, 3, "unspoken"))
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is sure of nothing, three utterances, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("doubts")
    tiny_folder(folder / "model", ("<blank>", *"abcd"))
    rows = [
        {"audio": str(write_clip(folder / f"{i}.wav", 0.4, i)), "text": text, "utterance": f"u{i}"}
        for i, text in enumerate(["ab cd", "a", "dab"])
    ]
    write_manifest(folder / "good.jsonl", rows)
    write_manifest(
        folder / "bad.jsonl", [*rows, {"audio": "none.wav", "text": "a", "utterance": "u3"}]
    )
    return folder


Corpus = Callable[..., int]


@pytest.fixture
def corpus(made: Path, tmp_path: Path, inline_alignment: None) -> Corpus:  # noqa: F811
    def call(manifest: str, *options: object, out: str = "out") -> int:
        given = [
            made / manifest,
            "--out-dir",
            tmp_path / out,
            "--model",
            made / "model",
            "--device",
            "cpu",
        ]
        return run(["corpus", *map(str, (*given, "--workers", 1, *options))])

    return call


def marks(data: dict[str, Any]) -> list[bool]:
    return [word.get("doubtful", False) for word in data["words"]]


@pytest.mark.parametrize(
    ("least", "unexplained", "doubtful"),
    [(0.0, True, False), (0.4, True, True), (0.4, False, False)],
)
def test_what_an_alignment_is_in_doubt_of(least: float, unexplained: bool, doubtful: bool) -> None:
    stretches = ((0.6, 0.9),) if unexplained else ()
    alignment = replace(ALIGNMENT, config={"min_confidence": least}, unexplained=stretches)
    assert (alignment.in_doubt, alignment.doubtful) == (doubtful, ())
    assert replace(ALIGNMENT, config={"min_confidence": 0.6}).doubtful == (WORD,)
    assert not ALIGNMENT.in_doubt


def test_words_are_marked_counted_and_told(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert corpus("good.jsonl", "--min-confidence", 0.999) == 3
    told = capsys.readouterr().err
    assert "utterances in doubt" in told
    assert "lowest confidence" in told
    files = {
        name: json.loads((tmp_path / "out" / f"{name}.json").read_text("utf-8"))
        for name in ("u0", "u1", "u2")
    }
    assert [marks(data) for data in files.values()] == [[True, True], [True], [True]]
    found = runs.summary(tmp_path / "out")
    assert (found["in_doubt"], found["doubtful_words"]) == (3, 4)
    assert found["unexplained"] == sum(len(data["unexplained"]) for data in files.values())
    least = {
        name: min(word["confidence"] for word in data["words"]) for name, data in files.items()
    }
    assert [row["utterance"] for row in found["doubtful"]] == sorted(
        least, key=lambda name: least[name]
    )
    assert {row["utterance"]: row["least_confidence"] for row in found["doubtful"]} == least
    assert (
        corpus("good.jsonl", "--min-confidence", 0.999, "--quiet") == 3
    )  # and again, where nothing is left to do
    assert len(runs.lines(tmp_path / "out")) == 3
    assert run(["corpus", "--summary", str(tmp_path / "out")]) == 3
    assert "words in doubt" in capsys.readouterr().out


def test_cues_that_break_limits_are_told(
    corpus: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus("good.jsonl", "--format", "srt", "--min-duration", 0.5)
    told = capsys.readouterr().err
    assert "note: 1 cue is shorter than 0.5 s (1): because of the speech" in told


def test_failures_come_first(corpus: Corpus, tmp_path: Path) -> None:
    assert corpus("bad.jsonl", "--min-confidence", 0.999) == 1
    found = runs.summary(tmp_path / "out")
    assert (found["failed"], found["in_doubt"]) == (1, 3)


def test_the_summary_counts_the_latest_lines(tmp_path: Path) -> None:
    def line(i: int, words: int, unexplained: int, least: float | None, **more: Any) -> Line:
        doubt = {"words": words, "unexplained": unexplained, "least_confidence": least}
        return journal_line(f"u{i:02}", DONE, **{"time": 1.0, "doubt": doubt, **more})

    made = [line(i, 2, 1, 0.5 - i / 100) for i in range(MOST_RANKED + 2)]
    made += [line(20, 0, 3, None), line(21, 1, 0, 0.01), journal_line("u22", DONE, time=1.0)]
    made += [journal_line("u00", DONE, time=2.0), journal_line("u01", FAILED, "no", time=2.0)]
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(made)
    numbered = [replace(line, run=1, number=number) for number, line in enumerate(made, start=1)]
    assert list(read_lines(tmp_path / "journal.jsonl")) == numbered
    found = summarize([tmp_path / "journal.jsonl"])
    assert (found.in_doubt, found.doubtful_words, found.unexplained) == (
        MOST_RANKED + 2,
        2 * MOST_RANKED + 1,
        MOST_RANKED + 3,
    )
    assert found.doubtful[0] == {
        "utterance": "u21",
        "words": 1,
        "unexplained": 0,
        "least_confidence": 0.01,
    }
    assert [row["utterance"] for row in found.doubtful[1:]] == [
        f"u{i:02}" for i in range(MOST_RANKED + 1, 2, -1)
    ]
    few = summarize(
        [tmp_path / "journal.jsonl"], array("Q", [line(20, 0, 0, 0).key, line(2, 0, 0, 0).key])
    )
    assert [row["utterance"] for row in few.doubtful] == ["u02", "u20"]
