"""`ctc-align corpus` with a real model in its workers, and what it says."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import corpus_runs as runs
import pytest
from corpus_runs import journal_line
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_models import LETTERS, tiny_folder

from ctc_align.cli.notes import misfits
from ctc_align.cli.printing import Talk
from ctc_align.cli.tables import ProgressDisplay, print_summary, progress_line
from ctc_align.corpus.engine.dispatch import Tally
from ctc_align.corpus.state.journal import DONE, Journal
from ctc_align.corpus.state.summary import RunStats, Summary, summarize

TEXTS = ["one and two", "three", "four, five – six", "seven eight"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "tiny", LETTERS)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    rows = []
    for i, text in enumerate(TEXTS):
        runs.write_clip(folder / "audio" / f"clip{i}.wav", 1.0 + 0.1 * i, i)
        rows.append(
            {
                "audio_filepath": f"audio/clip{i}.wav",
                "text": text,
                "utterance": f"u{i}",
                "offset": 0.1 * i,
            }
        )
    rows.append({"audio_filepath": "audio/clip0.wav", "text": "a" * 200, "utterance": "too long"})
    return runs.write_manifest(folder / "corpus.jsonl", rows)


def test_end_to_end(cli, model, manifest, tmp_path):
    from ctc_align import Aligner
    from ctc_align.audio.loading import load_audio

    result = cli(
        "corpus",
        manifest,
        "--out-dir",
        tmp_path / "out",
        "--model",
        model,
        "--workers",
        1,
        "--profile",
    )
    assert (result.code, result.stdout) == (1, ""), result.stderr
    assert "too long: " in result.stderr
    for words in (
        "features and model",
        "kernels",
        "reading audio",
        "writing",
        "waiting",
        "loss per token",
    ):
        assert words in result.stderr
    aligner = Aligner(str(model), device="cpu")
    lines = {line["id"]: line for line in runs.lines(tmp_path / "out")}
    for i, text in enumerate(TEXTS):
        path = manifest.parent / "audio" / f"clip{i}.wav"
        expected = aligner.align(
            load_audio(path, offset_s=0.1 * i), text, utterance=f"u{i}"
        ).to_dict()
        met = json.loads((tmp_path / "out" / f"u{i}.json").read_text("utf-8"))
        assert met["loss"] == pytest.approx(expected["loss"], rel=1e-4)
        assert lines[f"u{i}"]["loss"] == pytest.approx(met["loss"], abs=1e-6)
        assert (met["utterance"], met["audio"], met["text"]) == (f"u{i}", str(path), text)
        assert met["offset_s"] == pytest.approx(0.1 * i)
        assert [word["text"] for word in met["words"]] == text.split()
        assert [w["start_s"] for w in met["words"]] == pytest.approx(
            [w["start_s"] for w in expected["words"]], abs=0.011
        )
    assert lines["too long"]["status"] == "failed"
    stages = runs.summary(tmp_path / "out")["run"]["stages"]
    assert min(stages[stage] for stage in ("reading", "model", "kernels", "writing")) > 0


def test_quiet_names_failures_only(cli, inline_alignment, model, manifest, tmp_path):  # noqa: F811
    options = ("--out-dir", tmp_path / "out", "--model", model, "--workers", 1, "--format", "json")
    result = cli("corpus", manifest, *options, "--quiet", code=1)
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["too long"]


def test_notes_on_many_utterances_are_one_line_a_kind(
    cli,
    inline_alignment,  # noqa: F811
    model,
    tmp_path,
):
    for number in range(5):
        clip = tmp_path / "audio" / f"clip{number}.wav"
        runs.write_clip(clip, 1.0 + 0.1 * number, number)
        clip.write_bytes(clip.read_bytes()[: -4000 - 1000 * number])
        clip.with_suffix(".txt").write_text("one GrÃ¼ÃŸe two")
    out = tmp_path / "out"
    call = ("corpus", tmp_path / "audio", "--out-dir", out, "--model", model, "--format", "json")
    said = cli(*call).stderr
    named = "5 utterances: clip0, clip1, clip2 and 2 more\n"
    assert re.search(f"note: the file ends … s .* the first … s are used: {named}", said)
    assert said.count("decoded wrongly") == 1, "equal notes on all utterances name none"
    assert f"the notes on each utterance are in {out / 'journal.jsonl'}\n" in said
    for line in runs.lines(out):
        cut, wrong = line["notes"]
        assert f"{line['id']}.wav: the file ends 0." in cut
        assert wrong.startswith("the transcript was decoded wrongly")
    again = cli("corpus", "--summary", out).stderr
    assert named in again, "a summary of journals groups them, too"


def test_progress_in_a_line():
    tally = Tally(done=30, failed=3, skipped=9, worked=31, audio_s=3600.0, total=100)
    tally.started -= 36.0
    line = progress_line(tally)
    assert re.fullmatch(
        r"30 done, 3 failed, 9 done before of 100, (100|99) × real time, 1:0[67] left", line
    ), line
    assert "left" not in progress_line(Tally(done=1, worked=1)), "of how many?"
    assert "left" not in progress_line(Tally(failed=1, total=9)), "no worker has done anything yet"


def test_a_first_run_says_why_nothing_is_done(capsys, tmp_path):
    with ProgressDisplay(Talk(), tmp_path / "compiling") as display:
        display.progress(Tally())
        (tmp_path / "compiling").touch()
        display.progress(Tally(worked=1))
        assert capsys.readouterr().err == ""
        display.progress(Tally())
        display.progress(Tally())
    assert capsys.readouterr().err.splitlines() == [
        "ctc-align: note: compiling the kernels, once on this machine: about a minute"
    ]


def test_transcripts_that_fit_badly_are_named_with_the_worst_first(tmp_path):
    lines = [
        journal_line(f"u{i}", DONE, fit=fit, skipped=i or None, words=9)
        for i, fit in enumerate(("good", "poor", "none"))
    ]
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(lines)
    summary = summarize([tmp_path / "journal.jsonl"])
    assert [row["utterance"] for row in summary.misfits] == ["u2", "u1"]
    first, where = misfits(summary)
    assert first.startswith(
        "2 transcripts fit their recordings poorly or not at all: u2 (fit none, 2 of 9 words not"
    )
    assert '"status": "skipped"' in where
    *_, where, cues = misfits(summary, has_json=False, keeps_cues=True)
    assert where.endswith("a run with --format json writes it")
    assert cues.startswith("subtitles: a cue without a word in its recording keeps its")


def test_a_display_on_a_terminal(capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with ProgressDisplay(Talk()) as display:
        display.progress(Tally(done=7, total=10))
    assert "7 done, 0 failed of 10" in screen.getvalue()
    assert capsys.readouterr().out == ""


def test_the_closing_table():
    loss = dict.fromkeys(("min", "p5", "p50", "p95", "max"), 1.5)
    worst = [{"utterance": "bad\x1b[31m", "loss_per_token": 9.25, "loss": 92.5}]
    slow = [{"utterance": "slow", "seconds": 3.5, "duration_s": 10.0}]
    effort = RunStats(wall_s=60.0, done=2, audio_s=6000.0, workers=2, stages={"model": 30.0})
    summary = Summary(
        done=2,
        failed=1,
        audio_hours=1.25,
        loss_per_token=loss,
        worst=worst,
        slowest=slow,
        run=effort,
    )
    file = io.StringIO()
    print_summary(summary, file)
    shown = file.getvalue()
    for words in ("utterances", "1.250", "9.250", "3.500", "100 × real time", "1.500"):
        assert words in shown
    assert "\x1b" not in shown
    file = io.StringIO()
    print_summary(
        replace(summary, complete=False, fit={"good": 1, "none": 1}, unexplained_s=1.2), file, of=60
    )
    assert re.search("utterances +3 of 60 so far", file.getvalue())
    assert re.search(
        "speech not in the texts +1.2 s, excluding 1 utterance of fit none", file.getvalue()
    )


def test_a_log_has_a_line_of_progress_only_if_there_is_news(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctc_align.cli.tables._LINE_EVERY_S", 0.0)
    display = ProgressDisplay(Talk())
    for done in (0, 0, 1, 1, 2):
        display.progress(Tally(done=done, worked=done))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["1", "2"]


def test_realign_mirrors_folders_that_share_names(tmp_path: Path) -> None:
    from ctc_align.cli.realign import _check_hand, _names
    from ctc_align.errors import UsageError

    assert _names(["out/a/1.json", "out/b/2.json"]) == {"out/a/1.json": "1", "out/b/2.json": "2"}
    assert _names(["out/a/1.json", "out/b/1.json"]) == {
        "out/a/1.json": "a/1",
        "out/b/1.json": "b/1",
    }
    (tmp_path / "1.TextGrid").touch()
    with pytest.raises(
        UsageError, match=r"labels of one alignment, got out/a/1\.json and out/b/1\.json"
    ):
        _check_hand(["out/a/1.json", "out/b/1.json"], str(tmp_path))
