"""--set and --config reach every command that has settings, and all faults are told in one go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from made_sounds import babble

NOT_READ = "language 'tlh': num2words does not know it, so digits are not read"
FAULTY = ["--set", "chunk_z=3", "--set", "context_s=-2"]
CALLS: dict[str, tuple[str, ...]] = {
    "align": ("align", "a.wav", "--text", "a"),
    "corpus": ("corpus", "train.jsonl", "--out-dir", "out"),
    "score": ("score", "a.wav", "--text", "a"),
    "score of a source": ("score", "train.jsonl"),
    "calibrate": ("calibrate", "english", "labels"),
    "train": ("train", "train.jsonl", "--out-dir", "out"),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    soundfile.write("a.wav", babble(1.0), 16000)
    Path("train.jsonl").write_text('{"audio": "a.wav", "text": "a"}\n', encoding="utf-8")
    Path("labels").mkdir()
    return tmp_path


@pytest.mark.parametrize("call", CALLS)
def test_faults_are_told_together_and_nothing_is_done(call: str, cli: Callable[..., Any], here: Path) -> None:
    Path("mine.toml").write_text("speed = 2\n", encoding="utf-8")
    before = sorted(here.rglob("*"))
    result = cli(*CALLS[call], *FAULTY, "--config", "mine.toml")
    assert result.code == 2
    assert "mine.toml: unknown setting 'speed'" in result.stderr
    assert "--set unknown setting 'chunk_z'" in result.stderr
    # a recipe has no context_s: to it the setting is unknown
    assert "context_s" in result.stderr
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("language", "vocab", "text", "notes"),
    [
        ("tlh", "ab", "ab 21 2", [f"{NOT_READ}: '2' × 2, '1' × 1; they match any speech"]),
        ("tlh", "ab", "ab ç 2", ["the model's vocabulary lacks 'ç' × 1; they", f"{NOT_READ}: '2' × 1; they"]),
        ("tlh", "ab", "ab", []),
        ("tlh", "ab2", "ab 2", []),
        ("de", "ab", "ab " + "9" * 19, ["the model's vocabulary lacks '9' × 19; they match any speech"]),
    ],
)  # fmt: skip
def test_digits_that_a_language_leaves(
    language: str, vocab: str, text: str, notes: list[str], cli: Callable[..., Any]
) -> None:
    classes = ["<blk>", *vocab]
    np.save("a.npy", np.full((80, len(classes)), -np.log(len(classes)), np.float32))
    Path("vocab.txt").write_text("\n".join(classes) + "\n", encoding="utf-8")
    reading = ("--vocab", "vocab.txt", "--frame-shift", "0.02", "--stdout", "--language", language)
    said = cli("align", "a.npy", "--text", text, *reading)
    assert said.code == 0, said.stderr
    met = [line for line in said.stderr.splitlines() if "vocabulary" in line or "num2words" in line]
    assert len(met) == len(notes)
    assert all(line.startswith(f"ctc-align: note: {note}") for line, note in zip(met, notes))


def test_what_is_set_is_in_the_result(cli: Callable[..., Any]) -> None:
    np.save("a.npy", np.log(np.full((50, 3), 1 / 3, np.float32)))
    Path("vocab.txt").write_text("<blk>\na\nb\n", encoding="utf-8")
    reading = ("--vocab", "vocab.txt", "--frame-shift", "0.02", "--stdout")
    made = cli("align", "a.npy", "--text", "a b", *reading, "--config", "long-audio", "--set", "band_s=2.5")
    assert made.code == 0, made.stderr
    config = json.loads(made.stdout)["config"]
    assert (config["band_s"], config["times"], config["chunk_s"]) == (2.5, "recording", 30.0)
