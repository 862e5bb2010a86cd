"""An ONNX file by flag, in every command that takes a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from made_onnx import KINDS, METADATA, write, write_tokens
from made_sounds import babble

from ctc_align.corpus.state.resume import model_identity


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "model.onnx", KINDS["icefall"], METADATA["icefall"])
    write_tokens(tmp_path / "tokens.txt")
    for i, seconds in enumerate((2.0, 2.0, 3.1)):
        soundfile.write(f"clip{i}.wav", babble(seconds, i), 16000)
    lines = [{"audio": f"clip{i}.wav", "text": text} for i, text in enumerate(("one and", "two", "three four"))]
    Path("train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return "onnx:model.onnx"


def test_a_corpus_gets_what_each_file_gets_alone(model: str, cli: Callable[..., Any]) -> None:
    made = cli("corpus", "train.jsonl", "--out-dir", "out", "--model", model, "--format", "json", "--workers", 1)
    assert made.code == 0, made.stderr
    assert cli("align", "clip2.wav", "--text", "three four", "--model", model, "--format", "json").code == 0
    alone, among = (json.loads(path.read_text()) for path in (Path("clip2.json"), Path("out/clip2.json")))
    assert alone["words"] == among["words"]
    assert alone["loss"] == pytest.approx(among["loss"], abs=1e-3)
    assert alone["frame_shift_s"] == 0.04


def test_it_is_shown_and_scores(model: str, cli: Callable[..., Any]) -> None:
    shown = cli("models", "show", model)
    assert shown.code == 0, shown.stderr
    assert "0.04" in shown.stdout or "40" in shown.stdout
    scored = cli("score", "train.jsonl", "--model", model, "--format", "jsonl")
    assert [json.loads(line)["utterance"] for line in scored.stdout.splitlines()] == ["clip0", "clip1", "clip2"]


def test_what_describes_it_is_part_of_it(model: str) -> None:
    """A corpus run goes on only with the same network, described alike."""
    before = model_identity(model)
    Path("model.toml").write_text("first_frame_s = 0.0\n", encoding="utf-8")
    described = model_identity(model)
    write_tokens(Path("tokens.txt"), ("<blk>", "x"))
    assert len({before, described, model_identity(model)}) == 3


def test_a_wrong_file_is_one_line(model: str, cli: Callable[..., Any]) -> None:
    Path("tokens.txt").unlink()
    result = cli("align", "clip0.wav", "--text", "a", "--model", model)
    assert result.code == 2
    assert "its vocabulary tokens.txt is missing: put it there" in result.error
    assert "write onnx:model.onnx" in cli("align", "clip0.wav", "--text", "a", "--model", "model.onnx").error
