"""`ctc-align filter`: what of a run is good enough, in the lines of its corpus, and why the rest is
not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from corpus_runs import journal_line, write_clip, write_manifest
from sample_alignments import aligned, make_alignment

from ctc_align.config import Settings
from ctc_align.corpus.outputs.assembly import _nemo
from ctc_align.corpus.outputs.layout import Layout, phrases, whole
from ctc_align.corpus.state.journal import FAILED, Journal
from ctc_align.corpus.state.shared_texts import text_hash
from ctc_align.corpus.state.summary import Summary
from ctc_align.files.transcripts import parse_transcript
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.text import words_of
from ctc_align.types import AlignedWord

TEXT = "one two three four five six seven eight"
RESULTS: dict[str, dict[str, Any]] = {
    "good": {"fit": "good", "loss_per_token": 0.5, "local_loss": 9.0, "skipped": 0},
    "lossy": {"fit": "good", "loss_per_token": 2.5, "local_loss": 9.0, "skipped": 0},
    "wrong word": {"fit": "doubtful", "loss_per_token": 0.6, "local_loss": 40.0, "skipped": 0},
    "skips": {"fit": "good", "loss_per_token": 0.5, "local_loss": 30.0, "skipped": 2},
    "old": {"fit": None, "loss_per_token": 0.5, "skipped": 0},
}
ROWS = [*RESULTS, "refused", "later"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run over a manifest in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_clip(tmp_path / "a.wav")
    rows = [
        {"utterance": id, "audio": "a.wav", "offset": 0.1, "duration_s": 0.1, "text": TEXT, "x": 1}
        for id in ROWS
    ]
    write_manifest(tmp_path / "m.jsonl", [*rows, {"utterance": "no audio", "text": "a"}])
    (tmp_path / "run").mkdir()
    with Journal(tmp_path / "run" / "journal.jsonl") as journal:
        for id, result in RESULTS.items():
            journal.append(
                [journal_line(id, words=8, text=text_hash(TEXT, 8), duration_s=0.1, **result)]
            )
        journal.append([journal_line("refused", FAILED, "too short")])
    Summary(source="m.jsonl").write(tmp_path / "run" / "summary.json")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("", ["good", "lossy", "wrong word", "skips", "old"]),
        ("--min-fit none", ["good", "lossy", "wrong word", "skips", "old"]),
        ("--min-fit good", ["good", "lossy", "skips"]),
        ("--min-fit doubtful --max-loss-per-token 2", ["good", "wrong word", "skips"]),
        ("--max-local-loss 20", ["good", "lossy"]),
        ("--max-skipped 24.9", ["good", "lossy", "wrong word", "old"]),
        ("--max-skipped 25", ["good", "lossy", "wrong word", "skips", "old"]),
    ],
)
def test_what_is_within_the_limits_is_kept(
    options: str, kept: list[str], run: Path, cli: Any
) -> None:
    result = cli("filter", "run", *options.split())
    assert [json.loads(line)["utterance"] for line in result.stdout.splitlines()] == kept
    assert f"kept {len(kept)} of 8 utterances" in result.stderr


def test_of_equal_sounds_with_equal_texts_the_first_is_kept(
    cli: Any,
    inline_corpus: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in {"a.wav": 1, "copy.wav": 1, "other.wav": 2}.items():
        write_clip(tmp_path / name, 0.5, seed)
    rows: dict[str, dict[str, Any]] = {
        "first": {"audio": "a.wav", "text": "one two"},
        "copy": {"audio": "copy.wav", "text": " one  two"},
        "other sound": {"audio": "other.wav", "text": "one two"},
        "other text": {"audio": "copy.wav", "text": "one"},
        "other stretch": {"audio": "copy.wav", "text": "one two", "offset": 0.1},
    }
    write_manifest(tmp_path / "m.jsonl", [{"utterance": id, **row} for id, row in rows.items()])
    cli("corpus", "m.jsonl", "--out-dir", "run", code=0)
    result = cli("filter", "run", "--drop-duplicates", code=0)
    kept = [json.loads(line)["utterance"] for line in result.stdout.splitlines()]
    assert kept == [id for id in rows if id != "copy"]
    assert "copy: has the sound and the text of first" in result.stderr
    result = cli("filter", "run", code=0)
    assert len(result.stdout.splitlines()) == len(rows)


def test_a_manifest_of_what_is_kept_and_one_of_the_rest_with_reasons(
    run: Path, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = (
        "filter",
        "run",
        "--min-fit",
        "good",
        "--max-loss-per-token",
        "2",
        "--max-local-loss",
        "20",
    )
    result = cli(*call, "--to", "far/kept.jsonl", "--left-out", "rest.jsonl")
    assert result.stdout == ""
    rest = [json.loads(line) for line in Path("rest.jsonl").read_text("utf-8").splitlines()]
    assert {row["utterance"]: row["reasons"] for row in rest} == {
        "lossy": ["loss per token above 2"],
        "wrong word": ["fit doubtful", "local loss above 20"],
        "skips": ["local loss above 20"],
        "old": ["fit not known", "local loss not known"],
        "refused": ["failed"],
        "later": ["not aligned yet"],
        "no audio": ["failed"],
    }
    assert "local loss above 20" in result.stderr
    monkeypatch.chdir("/")
    [row] = [
        json.loads(line) for line in (tmp_path / "far/kept.jsonl").read_text("utf-8").splitlines()
    ]
    audio = str(tmp_path / "a.wav")
    of_line = {
        "utterance": "good",
        "audio_filepath": audio,
        "offset": 0.1,
        "duration": 0.1,
        "text": TEXT,
        "x": 1,
    }
    assert row == of_line, "with the keys of its line, and paths that hold in any folder"
    [found] = open_source(tmp_path / "far/kept.jsonl")
    assert (found.id, found.audio, found.offset_s, found.text) == ("good", audio, 0.1, TEXT)  # type: ignore[union-attr]
    result = cli("filter", tmp_path / "run", code=2)
    assert "m.jsonl: no such file or folder; give the corpus: ctc-align filter" in result.error
    assert "kept 5 of 8" in cli("filter", tmp_path / "run", tmp_path / "m.jsonl").stderr


def test_inputs_stay_and_a_text_that_has_changed_is_told(run: Path, cli: Any) -> None:
    assert (
        "is the corpus"
        in cli("filter", "run", "m.jsonl", "--to", "m.jsonl", "--force", code=2).error
    )
    assert "a manifest is JSONL" in cli("filter", "run", "--to", "kept.csv", code=2).error
    assert "without a journal" in cli("filter", ".", code=2).error
    assert "got a file" in cli("filter", "m.jsonl", code=2).error
    Path("m.jsonl").write_text(
        Path("m.jsonl").read_text("utf-8").replace("seven", "several"), "utf-8"
    )
    assert "the text has changed since the run" in cli("filter", "run").stderr


def test_the_text_of_a_file_ends_without_its_line_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    (tmp_path / "c").mkdir()
    write_clip(tmp_path / "c" / "a.wav")
    (tmp_path / "c" / "a.txt").write_text("\n one\ntwo \n", "utf-8")
    (tmp_path / "run").mkdir()
    with Journal(tmp_path / "run" / "journal.jsonl") as journal:
        journal.append([journal_line("a", fit="good", duration_s=4.0)])
    monkeypatch.chdir(tmp_path)
    assert json.loads(cli("filter", "run", "c").stdout)["text"] == "one\ntwo"


def test_texts_for_other_programs_have_each_line_of_rolling_captions_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    (tmp_path / "c").mkdir()
    write_clip(tmp_path / "c" / "a.wav")
    cues = [
        "\nso<00:00:01.200><c> it</c>",
        "so it\n ",
        "so it\n<v Ann Lee>begins</v> <b>R&amp;D</b>",
    ]
    times = ["00:01.000 --> 00:02.000", "00:02.000 --> 00:02.010", "00:02.010 --> 00:04.000"]
    vtt = "WEBVTT\n\n" + "\n\n".join(f"{time}\n{cue}" for time, cue in zip(times, cues)) + "\n"
    (tmp_path / "c" / "a.vtt").write_text(vtt, "utf-8")
    text = parse_transcript(vtt.encode(), "a.vtt")
    (tmp_path / "run").mkdir()
    with Journal(tmp_path / "run" / "journal.jsonl") as journal:
        journal.append([journal_line("a", fit="good", duration_s=4.0)])
    monkeypatch.chdir(tmp_path)
    assert json.loads(cli("filter", "run", "c").stdout)["text"] == "so it begins R&D"
    assert "markup" not in cli("check", "c", code=None).stdout

    words = words_of(text.text, Settings(), text.subtitles).words
    spoken = [word for word in words if word.kind == "" and word.spoken]
    made = [
        (
            AlignedWord(
                word.text, word.spoken, word.char_start, word.char_end, "unspoken", kind=word.kind
            )
            if word not in spoken
            else aligned(word.text, spoken.index(word), spoken.index(word) + 0.9, word.char_start)
        )
        for word in words
    ]
    alignment = make_alignment(tuple(made), 4.0, text=text.text)
    utterance = Utterance("a", "a", "c/a.wav", text.text, "c/a.vtt")
    assert whole(alignment, utterance).label == "so it begins R&D"
    assert [each.label for each in phrases(alignment, utterance, 0.01)] == [
        "so",
        "it",
        "begins",
        "R&D",
    ]
    assert _nemo(Layout("out"), utterance, alignment)["text"] == "so it begins R&D"
