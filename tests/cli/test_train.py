"""ctc-align train and ctc-align adapt."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_corpus import make_letters
from made_models import tiny_folder

CONFIG = """
fewest = 3
network = { stem = 8, body = 8, head = 8, dilations = [1] }
segmenter = { rounds = [[1, 2, 20]], choose_after = 1 }
training = { epochs = 1, bfloat16 = false }
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    make_letters(folder, 12)
    (folder / "tiny.toml").write_text(CONFIG)
    return folder


def test_train_then_adapt_then_align(cli, corpus, tmp_path):
    manifest, model = corpus / "manifest.jsonl", tmp_path / "tones"
    given = ("--config", corpus / "tiny.toml", "--device", "cpu", "--seed", 3, "--epochs", 2)
    result = cli("train", manifest, "--out-dir", model, *given)
    assert (result.code, result.stdout) == (0, f"{model}\n")
    assert "11 utterances to train on" in result.stderr
    assert "10 tokens: a e i l m n o s t é" in result.stderr
    assert "held out: ctc " in result.stderr
    assert "of CPU time" in result.stderr
    card = (model / "README.md").read_text("utf-8")
    assert "2 epochs at most" in card
    assert "seed 3" in card
    mine = tmp_path / "mine"
    result = cli("adapt", manifest, "--model", model, "--out-dir", mine, "--epochs", 1, "--quiet", "--name", "me")
    assert (result.code, result.stdout, result.stderr) == (0, f"{mine}\n", "")
    assert 'name = "me"' in (mine / "model.toml").read_text("utf-8")
    result = cli(
        "align", corpus / "u000.wav", "--text", "Salé!", "--model", mine, "--out-dir", tmp_path, "--quiet", code=0
    )
    assert "give --force to replace it" in cli("train", manifest, "--out-dir", model, *given, code=2).stderr


def test_nothing_usable_is_one_line(cli, tmp_path):
    (tmp_path / "m.jsonl").write_text('{"audio": "no.wav", "text": "salé salé salé salé salé"}\n')
    result = cli("train", tmp_path / "m.jsonl", "--out-dir", tmp_path / "m", "--quiet", code=1)
    assert "expected two utterances or more that can be used, got 0: 1 × unreadable audio" in result.error


NOT_READ = "ctc-align: note: language 'tlh': num2words does not know it, so digits in transcripts are not read"


@pytest.mark.parametrize(("language", "told"), [("tlh", 1), ("pt-BR", 0), ("english", 0), (None, 0)])
@pytest.mark.parametrize("command", ["train", "adapt"])
def test_a_language_without_numbers_is_told_once(cli, tmp_path, command, language, told):
    (tmp_path / "m.jsonl").write_text('{"audio": "no.wav", "text": "salé"}\n{"audio": "no.wav", "text": "2"}\n')
    given = (
        command,
        tmp_path / "m.jsonl",
        "--out-dir",
        tmp_path / "m",
        *(("--language", language) if language else ()),
    )
    result = cli(*given, code=1)
    assert result.stderr.splitlines().count(NOT_READ) == result.stderr.count("num2words") == told
    assert "num2words" not in cli(*given, "--quiet").stderr


def test_a_model_whose_language_has_no_numbers_is_told_of(cli, tmp_path):
    model = tiny_folder(tmp_path / "model", ("<blank>", *"aels"))
    text = (model / "model.toml").read_text("utf-8")
    (model / "model.toml").write_text(text.replace("vocab =", 'language = "tlh"\nvocab ='), "utf-8")
    (tmp_path / "m.jsonl").write_text('{"audio": "no.wav", "text": "sale"}\n')
    given = ("adapt", tmp_path / "m.jsonl", "--out-dir", tmp_path / "m", "--model", model)
    assert cli(*given).stderr.splitlines().count(NOT_READ) == 1
    assert "num2words" not in cli(*given, "--language", "de").stderr
