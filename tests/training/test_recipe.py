"""The whole recipe on a corpus of tones: it ends in a model that aligns, and does nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import Made, make_corpus

from ctc_align.aligner import Aligner
from ctc_align.config import load_config
from ctc_align.errors import InputError
from ctc_align.training import recipe as recipes
from ctc_align.training.__main__ import main
from ctc_align.training.acoustic import Training
from ctc_align.training.recipe import NetworkSizes, Recipe, SegmenterPlan, prepare, run

CONFIGS = Path(__file__).parents[2] / "configs"
TINY = Recipe(
    name="tones",
    network=NetworkSizes(16, 16, 16, (1, 2)),
    segmenter=SegmenterPlan(((1, 4, 40), (1, 1, 40)), 1),
    training=Training(epochs=40, learning_rate=1e-2, batch_s=8.0, warmup_steps=5, dropout=0.0, bfloat16=False),
)
QUICK = replace(TINY, training=replace(TINY.training, epochs=1))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("corpus")
    return folder / "manifest.jsonl", make_corpus(folder, utterances=44, dev=4)


def silent(_: str) -> None:
    pass


def test_from_recordings_to_a_model_that_aligns(corpus: tuple[Path, list[Made]], tmp_path: Path) -> None:
    manifest, made = corpus
    lines: list[str] = []
    folder = run(TINY, manifest, tmp_path, lines.append)
    assert folder == tmp_path / "model"
    assert any(line.startswith("dev: ctc ") for line in lines)
    aligner = Aligner(str(folder), device="cpu")
    assert aligner.model is not None
    assert (aligner.model.name, aligner.model.token_kind, len(aligner.model.vocab)) == ("tones", "phones", 40)
    errors = []
    for one in made[-4:]:
        alignment = aligner.align(one.path, one.text)
        tokens = [token for word in alignment.words for token in word.tokens]
        assert len(tokens) == len(one.phones)
        errors += [abs(token.start_s - start / 16000) for token, start in zip(tokens, one.starts)]
        errors += [abs(token.end_s - end / 16000) for token, end in zip(tokens, one.ends)]
        assert aligner.score(one.path, one.text) < aligner.score(one.path, "cat fish map go")
    assert float(np.median(errors)) <= 0.04
    with np.load(tmp_path / "labels.npz") as data:
        first = data["targets"][: data["targets_starts"][1]]
    assert first.tolist() == [phone + 1 for phone in made[0].phones]  # 0 is the blank


def test_a_second_run_takes_what_is_there(
    corpus: tuple[Path, list[Made]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run(QUICK, corpus[0], tmp_path, silent)
    before = (folder / "model.safetensors").read_bytes(), (folder / "model.toml").read_text()

    def never(*_: object) -> None:
        raise AssertionError("done twice")

    monkeypatch.setattr(recipes, "_segment", never)
    run(QUICK, corpus[0], tmp_path, silent)
    assert ((folder / "model.safetensors").read_bytes(), (folder / "model.toml").read_text()) == before


def test_the_same_seed_gives_the_same_model(corpus: tuple[Path, list[Made]], tmp_path: Path) -> None:
    one, two = (run(QUICK, corpus[0], tmp_path / name, silent) / "model.safetensors" for name in "ab")
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_mode & 0o044 == 0o044 & ~_umask()


def _umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_what_cannot_be_used_is_left_out(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=6, dev=1)
    manifest = tmp_path / "manifest.jsonl"
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    rows[0]["text"] = "жя"  # no English letters
    rows[1]["text"] = "a very long text " * 20  # more phones than the sound can hold
    rows[2]["text"] = "—"
    manifest.write_text("\n".join(map(json.dumps, rows)))
    lines: list[str] = []
    corpus = prepare(QUICK, manifest, tmp_path / "out", lines.append)
    assert (corpus.train.tolist(), corpus.dev.tolist()) == ([3, 4], [5])
    assert "3 can be used, 3 are too long" in lines[-1]


def test_without_dev_utterances(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=6, dev=0)
    lines: list[str] = []
    run(QUICK, tmp_path / "manifest.jsonl", tmp_path / "out", lines.append)
    assert "dev: no utterances" in lines


def test_a_manifest_without_training_data_is_an_error(tmp_path: Path) -> None:
    make_corpus(tmp_path, utterances=3, dev=3)
    manifest = tmp_path / "manifest.jsonl"
    with pytest.raises(InputError, match=r"manifest\.jsonl: expected utterances of the split 'train', met none"):
        run(QUICK, manifest, tmp_path / "out", silent)
    rows = [json.loads(line) | {"split": "train", "text": "жя"} for line in manifest.read_text().splitlines()]
    manifest.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match=r"manifest\.jsonl: none of the utterances of the split 'train' can be used"):
        run(QUICK, manifest, tmp_path / "out", silent)


def test_labels_of_another_corpus_are_refused(tmp_path: Path) -> None:
    make_corpus(tmp_path / "one", utterances=6, dev=1)
    make_corpus(tmp_path / "two", utterances=6, dev=1, seed=1)
    run(QUICK, tmp_path / "one" / "manifest.jsonl", tmp_path / "out", silent)
    with pytest.raises(InputError, match=r"labels\.npz: these labels belong to another manifest"):
        run(QUICK, tmp_path / "two" / "manifest.jsonl", tmp_path / "out", silent)


def test_the_recipe_in_the_repository_is_read() -> None:
    recipe = load_config(Recipe, CONFIGS / "train-english.toml", {})
    assert recipe.segmenter == SegmenterPlan()
    assert recipe.network == NetworkSizes()
    assert recipe.training == Training(ctc_weight=0.5, seed=1)


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "file").write_text("")
    out = str(tmp_path / "out")
    for manifest, folder, code, message in (
        ("absent.jsonl", out, 2, "absent.jsonl: the manifest cannot be read"),
        ("bad.jsonl", out, 1, "bad.jsonl:1: expected a JSON object"),
        ("bad.jsonl", str(tmp_path / "file" / "out"), 2, "--out "),
    ):
        assert main(["--manifest", str(tmp_path / manifest), "--out", folder]) == code
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("training: error: ")
        assert message in captured.err
        assert captured.err.count("\n") == 1
    assert main(["--config", "no-such", "--manifest", "m", "--out", out]) == 2


def test_the_command_prints_the_models_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], corpus: tuple[Path, list[Made]]
) -> None:
    config = tmp_path / "tiny.toml"
    config.write_text(
        "[network]\nstem = 4\nbody = 4\nhead = 4\ndilations = [1]\n[segmenter]\nrounds = [[1, 1, 8]]\n"
        "choose_after = 1\n[training]\nepochs = 1\nbfloat16 = true\n"
    )
    out = tmp_path / "out"
    assert main(["--config", str(config), "--manifest", str(corpus[0]), "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out / 'model'}\n"
    assert "44 utterances" in captured.err
    assert torch.load(out / "network" / "final.pt", weights_only=True)
