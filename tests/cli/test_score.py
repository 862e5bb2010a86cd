"""ctc-align score: what is printed, what is marked, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_models import LETTERS, planted, spelt, tiny_folder

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.scoring import Scored
from ctc_align.cli.score import printer_for, row_of

PROMISED = ["rank", "loss", "loss_per_token", "posterior", "transcript"]
LOG_PROBS = ("talk.npy", "--vocab", "vocab.txt", "--frame-shift", "0.02")


@pytest.fixture
def talk(tmp_path, monkeypatch) -> Path:
    """The current directory: log-probs that say "cab abe", a transcript that is right and one that
    is wrong."""
    monkeypatch.chdir(tmp_path)
    np.save("talk.npy", planted(spelt("cab abe")).log_probs.numpy())
    Path("vocab.txt").write_text("\n".join(LETTERS) + "\n", "utf-8")
    Path("right.txt").write_text("Cab,\tabe!\n", "utf-8")
    Path("wrong.txt").write_text("hello\n", "utf-8")
    return tmp_path


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    """The current directory: a tiny model, five recordings of noise, and a manifest of them."""
    monkeypatch.chdir(tmp_path)
    tiny_folder(tmp_path / "model", LETTERS)
    random = np.random.default_rng(0)
    lines = []
    for i, text in enumerate(["no", "we call", "it bear", "hello", "cab"]):
        soundfile.write(f"u{i}.wav", 0.1 * random.standard_normal(8000 + 4000 * i), 16000)
        lines.append({"audio_filepath": f"u{i}.wav", "text": text})
    lines[2] |= {"texts": ["it bear", "it bear", "a\tbear", "жbear"]}
    Path("m.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return tmp_path


def tsv(printed: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed), delimiter="\t", quoting=csv.QUOTE_NONE))


def jsonl(printed: str) -> list[dict]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in printed.splitlines()]


def test_alternatives_as_tsv(cli, talk):
    result = cli("score", *LOG_PROBS, "wrong.txt", "right.txt")
    assert (result.code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0].split("\t")[:5] == PROMISED
    rows = tsv(result.stdout)
    assert [(row["rank"], row["transcript"]) for row in rows] == [
        ("1", "right.txt"),
        ("2", "wrong.txt"),
    ]
    expected = Aligner(None).score_texts(planted(spelt("cab abe")), ["cab abe", "hello"])
    for row, one in zip(rows, expected):
        assert float(row["loss"]) == pytest.approx(one.loss, abs=1e-5)
        assert float(row["loss_per_token"]) == pytest.approx(one.loss / one.tokens, abs=1e-5)
        assert float(row["loss_per_frame"]) == pytest.approx(one.loss / one.frames, abs=1e-5)
        assert float(row["posterior"]) == pytest.approx(one.posterior, rel=1e-6)
        assert (row["unknown"], row["mark"]) == ("0", "")


def test_alternatives_as_json_lines(cli, talk):
    result = cli(
        "score",
        *LOG_PROBS,
        "wrong.txt",
        "right.txt",
        "--text",
        "cж",
        "--text",
        "",
        "--format",
        "jsonl",
        code=1,
    )
    rows = jsonl(result.stdout)
    assert all(list(row)[:5] == PROMISED for row in rows)
    assert [row["transcript"] for row in rows] == ["right.txt", "wrong.txt", "cж", ""]
    assert rows[0]["text"] == "Cab,\tabe!\n"
    assert [row["posterior"] is None for row in rows] == [False, False, True, True]
    assert [row["unknown"] for row in rows] == [0, 0, 1, 0]
    assert (rows[3]["loss"], rows[3]["mark"]) == (None, "error")
    assert "empty" in rows[3]["error"]
    assert result.stderr.startswith("ctc-align: error: '': the transcript is empty")


def test_what_does_not_fit_is_a_row_and_named(cli, talk):
    Path("long.txt").write_text("cab " * 20, "utf-8")
    Path("latin.txt").write_bytes(b"caf\xe9")
    result = cli("score", *LOG_PROBS, "long.txt", "latin.txt", "right.txt", code=1)
    rows = tsv(result.stdout)
    assert [(row["transcript"], row["loss"], row["mark"]) for row in rows[1:]] == [
        ("long.txt", "inf", "error"),
        ("latin.txt", "", "error"),
    ]
    assert (rows[1]["posterior"], rows[2]["posterior"]) == ("0", "")
    said = result.stderr.splitlines()
    assert said[0].startswith(
        "ctc-align: error: long.txt: the transcript is longer than the audio can hold"
    )
    assert said[1].startswith("ctc-align: error: latin.txt: line 1: expected UTF-8")
    assert (
        jsonl(cli("score", *LOG_PROBS, "long.txt", "--format", "jsonl").stdout)[0]["loss"] is None
    )


@pytest.mark.parametrize("between", ["\t", "\r\n", " \n\n ", "\x0b", "\u2028", "\x85", "\x1c"])
def test_texts_stay_one_field(cli, talk, between):
    text = f"cab{between}abe"
    result = cli("score", *LOG_PROBS, "--text", text)
    assert len(result.stdout.splitlines()) == 2
    assert tsv(result.stdout)[0]["transcript"].strip() == "cab abe"
    assert (
        jsonl(cli("score", *LOG_PROBS, "--text", text, "--format", "jsonl").stdout)[0]["transcript"]
        == text
    )


@pytest.mark.parametrize("width", [64, 80, 160])
def test_table(cli, talk, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    result = cli(
        "score", *LOG_PROBS, "right.txt", "wrong.txt", "--text", "cж [bold]abe", "--format", "table"
    )
    lines = result.stdout.splitlines()
    assert lines[0].split()[:5] == PROMISED
    assert [line.split()[0] for line in lines[1:]] == ["1", "2", "3"]
    assert max(len(line) for line in lines) <= width
    if width > 64:
        assert "cж [bold]abe" in lines[3]
        assert "1 unknown" in lines[3]
    assert ("loss_per_frame" in lines[0]) == (width == 160)


def test_a_table_on_a_terminal(cli, talk, monkeypatch):
    monkeypatch.setattr(sys.modules["ctc_align.cli.score"], "_is_terminal", lambda: True)
    assert "\t" not in cli("score", *LOG_PROBS, "right.txt").stdout


@pytest.mark.parametrize(
    ("thresholds", "marked"),
    [
        (["--max-loss", "20"], "wrong.txt"),
        (["--max-loss-per-token", "2"], "wrong.txt"),
        (["--max-loss", "0"], "right.txt wrong.txt"),
        (["--max-loss", "1e9"], ""),
    ],
)
def test_thresholds_mark_and_are_told(cli, talk, thresholds, marked):
    result = cli("score", *LOG_PROBS, "right.txt", "wrong.txt", "--format", "jsonl", *thresholds)
    rows = jsonl(result.stdout)
    assert " ".join(row["transcript"] for row in rows if row["mark"] == "out") == marked
    assert len(rows) == 2
    assert result.code == (3 if marked else 0)
    assert result.stderr == (f"{len(marked.split())} of 2 marked out\n" if marked else "")


def test_a_source(cli, corpus):
    result = cli("score", "m.jsonl", "--model", "model")
    assert (result.code, result.stderr) == (0, "8 transcripts scored\n")
    assert result.stdout.splitlines()[0].split("\t")[:6] == ["utterance", *PROMISED]
    rows = tsv(result.stdout)
    assert [row["utterance"] for row in rows] == ["u0", "u1", "u2", "u2", "u2", "u2", "u3", "u4"]
    ranked = [row for row in rows if row["utterance"] == "u2"]
    assert [row["rank"] for row in ranked] == ["1", "2", "3", "4"]
    assert ranked[-1]["transcript"] == "жbear"
    assert ranked[-1]["posterior"] == ""
    assert "a bear" in [row["transcript"] for row in ranked]
    assert [row["posterior"] for row in rows if row["utterance"] != "u2"] == ["1"] * 4
    lines = jsonl(cli("score", "m.jsonl", "--model", "model", "--format", "jsonl").stdout)
    assert [float(row["loss"]) for row in rows] == pytest.approx(
        [line["loss"] for line in lines], abs=1e-5
    )
    assert list(lines[0])[:6] == ["utterance", *PROMISED]
    assert "a\tbear" in [line["transcript"] for line in lines]


def test_a_source_with_failures(cli, corpus):
    with open("m.jsonl", "a", encoding="utf-8") as file:
        file.write('{"audio_filepath": "gone.wav", "text": "gone"}\nno json\n')
    for format in ("tsv", "jsonl", "table"):
        result = cli(
            "score", "m.jsonl", "--model", "model", "--format", format, "--max-loss", "0", code=1
        )
        said = result.stderr.splitlines()
        assert said[0].startswith("ctc-align: error: gone: ")
        assert said[0].endswith("(m.jsonl, line 6)")
        assert "m.jsonl, line 7" in said[1]
        assert said[2:] == ["8 transcripts scored, 2 could not be scored", "8 of 8 marked out"]
    rows = jsonl(cli("score", "m.jsonl", "--model", "model", "--format", "jsonl").stdout)
    assert [(row["utterance"], row["mark"], row["loss"]) for row in rows[-2:]] == [
        ("gone", "error", None),
        ("m.jsonl, line 7", "error", None),
    ]


def test_rows_of_a_table_appear_utterance_by_utterance(capsys):
    printer = printer_for("table", with_utterance=True)
    for utterance in ("a", "a", "b", "c"):
        printer.add(row_of(Scored("x", 0, 1, 1.0, 1, 1), "x", utterance=utterance))
    first = capsys.readouterr().out
    assert [line.split()[0] for line in first.splitlines()] == ["utterance", "a", "a", "b"]
    printer.close()
    assert capsys.readouterr().out.split()[0] == "c"


def test_an_interruption_says_how_far_it_came(cli, corpus, monkeypatch):
    from ctc_align.corpus import corpus_scores

    right = corpus_scores.score_source

    def interrupted(*arguments):
        yield from list(right(*arguments))[:3]
        raise KeyboardInterrupt

    monkeypatch.setattr(corpus_scores, "score_source", interrupted)
    result = cli("score", "m.jsonl", "--model", "model")
    assert (result.code, result.stderr) == (
        130,
        "ctc-align: interrupted; 6 transcripts were printed\n",
    )
    assert len(tsv(result.stdout)) == 6
