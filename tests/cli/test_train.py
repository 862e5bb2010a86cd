"""ctc-align calibrate, on the demo's own edges 30 ms late, so that what it must find is known;
train and adapt."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from made_corpus import make_letters
from made_models import tiny_folder

from ctc_align.alignment.aligner import Aligner, find_edge_network
from ctc_align.config import Settings
from ctc_align.models.calibration import read_calibration
from ctc_align.training import calibration_fitting, edge_learning
from ctc_align.training.calibration_fitting import HeldOut
from ctc_align.types import Alignment

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
LATE_S = 0.03
NUMBER = re.compile(r"[+-]?\d+\.\d+")


@pytest.fixture(scope="module")
def aligned() -> Alignment:
    return Aligner("english", device="cpu").align(
        DEMO / "demo.flac", (DEMO / "demo.txt").read_text("utf-8")
    )


def label(
    folder: Path, aligned: Alignment, late_s: float = LATE_S, seed: int | None = None
) -> None:
    """A recording, its transcript and its TextGrid; edges `late_s` after the model's, with a seed
    moved by chance."""
    from made_alignments import textgrid

    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    samples, rate = soundfile.read(DEMO / "demo.flac")
    soundfile.write(folder / "demo.wav", samples, rate)
    (folder / "demo.txt").write_text((DEMO / "demo.txt").read_text("utf-8"), "utf-8")
    words = []
    for word in aligned.words:
        assert word.start_s is not None
        assert word.end_s is not None
        early_s, over_s = (
            (0.0, 0.0)
            if seed is None
            else rng.uniform(0, (word.end_s - word.start_s) / 2, 2).tolist()
        )
        words.append((word.text, word.start_s + late_s + early_s, word.end_s + late_s - over_s))
    textgrid(folder / "demo.TextGrid", ("words", words))


def test_a_convention_is_learnt_from_one_file_whose_parts_are_left_out(
    cli, tmp_path: Path, aligned: Alignment
) -> None:
    label(tmp_path / "labels" / "anna", aligned)
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=0)
    assert "1 utterance, 5 parts of each left out in turn" in result.stdout
    assert "as it is 30.0 ms, constants " in result.stderr
    assert "constants: proven to be better" in result.stderr
    known, own = (
        read_calibration(tmp_path / "out" / "calibration.toml"),
        Aligner("english").model.calibration,
    )
    assert known.source == "labels, 1 labelled file"
    assert known.convention_ms[("sound", "sound")] == pytest.approx(30.0, abs=0.1)
    assert known.offsets_ms == own.offsets_ms, "all else stays the model's own"
    moved = again(tmp_path / "out").words
    late_ms = [1000 * (new.start_s - old.start_s) for new, old in zip(moved, aligned.words)]
    assert np.mean(np.abs(np.array(late_ms) - 30.0)) < 3


def again(calibration: Path) -> Alignment:
    """The demo aligned with a calibration."""
    aligner = Aligner("english", device="cpu", settings=Settings(calibration=str(calibration)))
    return aligner.align(DEMO / "demo.flac", (DEMO / "demo.txt").read_text("utf-8"))


@pytest.mark.parametrize("by_chance", [False, True])
def test_what_is_not_proven_leaves_the_models_own_values(
    cli, tmp_path, aligned, by_chance: bool
) -> None:
    for number, speaker in enumerate(("anna", "bert", "carl")):
        label(
            tmp_path / "labels" / speaker, aligned, late_s=0.0, seed=number if by_chance else None
        )
    made = tmp_path / "labels" / "anna" / "demo.TextGrid"
    made.rename(
        made.with_name("demo.hand.TextGrid")
    )  # the person's own; a run has made another since
    made.write_text("made again", "utf-8")
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=0)
    row = next(line for line in result.stdout.splitlines() if "as it is  " in line)
    found = NUMBER.findall(row)
    assert by_chance or found[:3] == ["0.0", "+0.0", "100.0"]
    assert f"as it is {found[0]} ms, constants " in result.stderr
    assert "Nothing is proven to be better" in result.stderr
    assert again(tmp_path / "out").words == aligned.words


def test_speakers_are_left_out_in_turn_and_bad_files_named(
    cli, tmp_path: Path, aligned: Alignment
) -> None:
    for speaker in ("anna", "bert", "carl"):
        label(tmp_path / "labels" / speaker, aligned)
    (tmp_path / "labels" / "anna" / "other.TextGrid").write_text("no TextGrid", "utf-8")
    (tmp_path / "labels" / "anna" / "other.wav").write_bytes(
        (tmp_path / "labels" / "anna" / "demo.wav").read_bytes()
    )
    (tmp_path / "labels" / "bert" / "lonely.TextGrid").write_bytes(
        (tmp_path / "labels" / "bert" / "demo.TextGrid").read_bytes()
    )
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=1)
    assert "3 utterances, each left out in turn" in result.stdout
    rows = {
        line.split("  ")[0].strip(): NUMBER.findall(line)
        for line in result.stdout.splitlines()
        if line.strip()
    }
    assert float(rows["constants"][0]) < 8 < 20 < float(rows["as it is"][0])
    assert abs(float(rows["constants"][1])) < 5
    assert -35 < float(rows["as it is"][1]) < -25, "the labels are late, so the model is early"
    assert "proven to be better" in result.stderr
    assert float(rows["constants"][3]) > 0.85
    faults = [line for line in result.stderr.splitlines() if "TextGrid" in line]
    assert len(faults) == 2
    assert any("other.TextGrid" in line for line in faults)
    assert any("lonely" in line and "no recording" in line for line in faults)


def correct(folder: Path, aligned: Alignment, late_s: float = LATE_S) -> None:
    """A recording and its JSON, all words but every fourth by hand, `late_s` late; the others are
    far from right."""
    folder.mkdir(parents=True)
    shutil.copy(DEMO / "demo.flac", folder / "demo.flac")
    words = []
    for number, word in enumerate(aligned.words):
        assert word.start_s is not None
        assert word.end_s is not None
        start_s, end_s = word.start_s + late_s, word.end_s + late_s
        if number % 4:
            words.append(replace(word, start_s=start_s, end_s=end_s, tokens=(), by="hand"))
        else:
            words.append(replace(word, start_s=end_s - 0.02, end_s=end_s - 0.01, tokens=()))
    replace(aligned, words=tuple(words), audio="gone/demo.flac").save(folder / "demo.json")


def test_words_by_hand_in_json_are_labels_and_no_others(
    cli, tmp_path: Path, aligned: Alignment
) -> None:
    for speaker in ("anna", "bert"):
        correct(tmp_path / "labels" / speaker, aligned)
        (tmp_path / "labels" / speaker / "demo.TextGrid").write_text(
            "what was aligned before", "utf-8"
        )
    label(tmp_path / "labels" / "carl", aligned)
    grid = tmp_path / "labels" / "carl" / "demo.TextGrid"
    grid.rename(grid.with_name("demo.aligned.TextGrid"))
    aligned.save(tmp_path / "labels" / "carl" / "untouched.json")
    (tmp_path / "labels" / "summary.json").write_text("{}", "utf-8")
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=0)
    assert "3 utterances, each left out in turn" in result.stdout
    rows = {
        line.split("  ")[0].strip(): NUMBER.findall(line)
        for line in result.stdout.splitlines()
        if line.strip()
    }
    assert float(rows["constants"][0]) < 8 < 20 < float(rows["as it is"][0])
    assert float(rows["constants"][3]) > 0.85
    (tmp_path / "labels" / "bert" / "demo.flac").unlink()
    spoilt = tmp_path / "labels" / "anna" / "demo.json"
    spoilt.write_text(
        spoilt.read_text("utf-8").replace('"text": "finds"', '"text": "find"'), "utf-8"
    )
    result = cli(
        "calibrate",
        "english",
        tmp_path / "labels",
        "--out-dir",
        tmp_path / "out",
        "--force",
        code=1,
    )
    assert "demo.json: word 3 'find' (" in result.stderr
    assert "give the recordings' folder with --audio" in result.stderr
    spoilt.unlink()
    sounds = tmp_path / "sounds"
    sounds.mkdir()
    result = cli(
        "calibrate",
        "english",
        tmp_path / "labels",
        "--audio",
        sounds,
        "--out-dir",
        tmp_path / "new",
    )
    assert f"demo.TextGrid in {sounds}/anna, the folder that --audio means" in result.stderr


@pytest.mark.long
def test_from_eight_files_on_edges_are_learnt_and_a_folder_is_taken(
    cli, tmp_path, aligned, monkeypatch
):
    for name in ("FEWEST_STEPS", "MOST_STEPS"):
        monkeypatch.setattr(edge_learning, name, 20)
    out = tmp_path / "out"
    for k in range(7):
        label(tmp_path / "labels" / "ab"[k % 2] / str(k), aligned)
    (out / "edges.safetensors").parent.mkdir()
    (out / "edges.safetensors").write_bytes(b"of another time")
    call = ("calibrate", "english", tmp_path / "labels", "--out-dir", out)
    assert "edges.safetensors: already exists; give --force" in cli(*call, code=2).error
    assert (
        "constants only: learning edges needs at least 8 labelled files"
        in cli(*call, "--force", code=0).stdout
    )
    assert not (out / "edges.safetensors").exists()
    label(tmp_path / "labels" / "b" / "8", aligned)
    monkeypatch.setattr(
        calibration_fitting,
        "HeldOut",
        lambda name, *of, **_: HeldOut(name, *of[:2], name == "learnt edges"),
    )
    result = cli(*call, "--force", code=0)
    assert "learnt edges   " in result.stdout
    assert "of learnt edges lie within one standard deviation" in result.stdout
    assert (
        result.stderr.splitlines()[-1]
        == f"wrote {out / 'calibration.toml'} and {out / 'edges.safetensors'}"
    )
    text = (DEMO / "demo.txt").read_text("utf-8")
    constants = Aligner("english", settings=Settings(calibration=str(out / "calibration.toml")))
    learnt = Aligner("english", settings=Settings(calibration=str(out)))
    own, taught = (
        find_edge_network(aligner).weights["output.bias"] for aligner in (constants, learnt)
    )
    assert (own == find_edge_network(Aligner("english")).weights["output.bias"]).all(), (
        "the model's own stays"
    )
    assert (own != taught).any()
    found = learnt.align(DEMO / "demo.flac", text)
    assert found.words != constants.align(DEMO / "demo.flac", text).words
    assert learnt.align(learnt.emissions(DEMO / "demo.flac"), text).words == found.words
    assert learnt.align_batch([(DEMO / "demo.flac", text)] * 2)[1].words == found.words


def test_a_folder_without_constants_is_refused(cli, tmp_path: Path) -> None:
    result = cli(
        DEMO / "demo.flac",
        DEMO / "demo.txt",
        "--calibration",
        tmp_path,
        "--out-dir",
        tmp_path / "out",
        code=2,
    )
    assert (
        "expected a folder that ctc-align calibrate wrote, got one without calibration.toml"
        in result.error
    )


def test_nothing_is_learnt_from_labels_of_another_recording(
    cli, tmp_path: Path, aligned: Alignment
) -> None:
    for speaker, late_s in (("anna", 0.01), ("bert", 2.0)):
        label(tmp_path / "labels" / speaker, aligned, late_s=late_s)
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=1)
    assert (
        "bert/demo: these labels are ignored: all times are off by about the same, -"
        in result.stderr
    )
    assert (
        read_calibration(tmp_path / "out" / "calibration.toml").source == "labels, 1 labelled file"
    )
    result = cli(
        "calibrate", "english", tmp_path / "labels" / "bert", "--out-dir", tmp_path / "none", code=1
    )
    assert "no utterance could be used: " in result.error
    assert not (tmp_path / "none").exists()


def test_nothing_that_can_be_used_is_an_error(cli, tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "a.TextGrid").write_text("no TextGrid", "utf-8")
    result = cli("calibrate", "english", tmp_path / "labels", "--out-dir", tmp_path / "out", code=1)
    assert "no file can be used" in result.error
    assert not (tmp_path / "out" / "calibration.toml").exists()


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
    result = cli(
        "adapt",
        manifest,
        "--model",
        model,
        "--out-dir",
        mine,
        "--epochs",
        1,
        "--quiet",
        "--name",
        "me",
    )
    assert (result.code, result.stdout, result.stderr) == (0, f"{mine}\n", "")
    assert 'name = "me"' in (mine / "model.toml").read_text("utf-8")
    result = cli(
        "align",
        corpus / "u000.wav",
        "--text",
        "Salé!",
        "--model",
        mine,
        "--out-dir",
        tmp_path,
        "--quiet",
        code=0,
    )
    assert (
        "give --force to replace it"
        in cli("train", manifest, "--out-dir", model, *given, code=2).stderr
    )


def test_nothing_usable_is_one_line(cli, tmp_path):
    (tmp_path / "m.jsonl").write_text('{"audio": "no.wav", "text": "salé salé salé salé salé"}\n')
    result = cli("train", tmp_path / "m.jsonl", "--out-dir", tmp_path / "m", "--quiet", code=1)
    assert (
        "expected two utterances or more that can be used, got 0: 1 × unreadable audio"
        in result.error
    )


NOT_READ = (
    "ctc-align: note: language 'tlh': num2words does not know it, so digits in transcripts are not"
    " read"
)


@pytest.mark.parametrize(
    ("command", "language", "told"),
    [
        ("train", "tlh", 1),
        ("adapt", "tlh", 1),
        ("train", "pt-BR", 0),
        ("adapt", "english", 0),
        ("train", None, 0),
    ],
)
def test_a_language_without_numbers_is_told_once(cli, tmp_path, command, language, told):
    (tmp_path / "m.jsonl").write_text(
        '{"audio": "no.wav", "text": "salé"}\n{"audio": "no.wav", "text": "2"}\n'
    )
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
