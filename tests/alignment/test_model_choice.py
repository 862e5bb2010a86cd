"""Which model a transcript gets: by its language, by its text where nobody named one, and never
another for English."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_models import tiny_universal

import ctc_align
from ctc_align.alignment.aligner import Aligner, find_aligner
from ctc_align.config import Settings
from ctc_align.models.calibration import Calibration, as_toml
from ctc_align.types import Transcript

GERMAN = "Die Kinder haben gestern im Garten gespielt und sind nass geworden."
DEMO = Path(ctc_align.__file__).parent / "demo"
ENGLISH = (DEMO / "demo.txt").read_text("utf-8")


@pytest.fixture(autouse=True)
def universal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return tiny_universal(monkeypatch, tmp_path / "models")


@pytest.fixture
def sound() -> tuple[np.ndarray, int]:
    return np.random.default_rng(0).normal(0.0, 0.1, 4 * 16000).astype(np.float32), 16000


def of(alignment: Any) -> tuple[str, str]:
    return alignment.model, alignment.config["language"]


@pytest.mark.parametrize(
    ("model", "language", "text", "expected"),
    [
        ("english", "", GERMAN, ("english", "en")),  # a model that was named stays
        ("universal", "", GERMAN, ("universal", "de")),
        ("universal", "", ENGLISH, ("universal", "en")),
        ("auto", "", GERMAN, ("universal", "de")),
        (
            "auto",
            "",
            "mi vidis grandan hundon kiu kuris rapide tra la ĝardeno de nia najbaro",
            ("universal", "und"),
        ),
        ("auto", "nl", GERMAN, ("universal", "nl")),
        ("auto", "nl", ENGLISH, ("universal", "nl")),
        ("auto", "en-GB", GERMAN, ("english", "en-GB")),
        ("auto", "", Transcript("Ja, nein!", language="de"), ("universal", "de")),
        ("auto", "de", Transcript("Yes, no!", language="en"), ("english", "en")),
        ("auto", "", "Ja, nein!", ("english", "en")),
    ],
)
def test_the_model_is_chosen(
    sound: Any, model: str, language: str, text: Any, expected: tuple[str, str]
) -> None:
    assert of(Aligner(model, settings=Settings(language=language)).align(sound, text)) == expected


def test_a_batch_is_in_several_languages_and_like_one_by_one(sound: Any) -> None:
    texts = [ENGLISH, GERMAN, "Добрый вечер, как вы поживаете?", ENGLISH]
    aligner = Aligner()
    batch = aligner.align_batch([(sound, text) for text in texts])
    models = [("english", "en"), ("universal", "de"), ("universal", "ru"), ("english", "en")]
    assert [of(one) for one in batch] == models
    assert [one.loss for one in batch] == [aligner.align(sound, text).loss for text in texts]
    assert aligner.score(sound, GERMAN) == batch[1].loss
    assert (
        aligner.score_texts(sound, [GERMAN, "Die Kinder haben gestern im Haus gespielt."])[0].error
        is None
    )


def test_english_has_its_own_model_and_settings_share_models(sound: Any) -> None:
    aligner = Aligner()
    other = aligner.with_settings(Settings(labels="written", match="exact"))
    first = other.align(sound, GERMAN)
    assert (*of(first), first.config["labels"]) == ("universal", "de", "written")
    dutch = aligner.with_settings(Settings(language="nl"))
    assert of(dutch.align(sound, GERMAN)) == ("universal", "nl")
    assert of(dutch.align(sound, Transcript("Yes", language="en"))) == ("english", "en")
    assert find_aligner(dutch, [GERMAN])[0].model is find_aligner(other, [GERMAN])[0].model
    audio = DEMO / "demo.flac"
    assert (
        Aligner().align(audio, ENGLISH).to_dict()
        == Aligner("english").align(audio, ENGLISH).to_dict()
    )


def test_the_command_says_what_it_took_the_text_for(cli: Any, tmp_path: Path) -> None:
    audio = DEMO / "demo.flac"
    result = cli("align", audio, "--text", GERMAN, "--stdout")
    # It is not what the recording says.
    assert (result.code, json.loads(result.stdout)["config"]["language"]) == (3, "de")
    note = (
        "the text looks German (de): aligned with the model universal; give --language en if it is"
        " English"
    )
    assert result.stderr.count("looks") == 1
    assert note in result.stderr
    for options in ([], ["--language", "de"]):
        assert "looks" not in cli("align", audio, "--text", ENGLISH, "--stdout", *options).stderr


def test_a_corpus_says_it_once(cli: Any, tmp_path: Path, inline_alignment: None) -> None:  # noqa: F811
    lines = [("a", GERMAN), ("b", ENGLISH), ("c", "Добрый вечер, как вы поживаете?"), ("d", GERMAN)]
    manifest = tmp_path / "corpus.jsonl"
    rows = [
        {"audio": str(DEMO / "demo.flac"), "text": text, "utterance": name} for name, text in lines
    ]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    result = cli("corpus", manifest, "--out-dir", tmp_path / "out")
    assert result.code == 0
    assert result.stderr.count("aligned with the model universal") == 1
    assert (
        "texts: 2 look German (de), 1 looks Russian (ru): aligned with the model universal"
        in result.stderr
    )
    assert json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["looks"] == {
        "de": 2,
        "ru": 1,
    }
    told = json.loads((tmp_path / "out" / "d.json").read_text("utf-8"))
    assert (told["model"], told["config"]["language"]) == ("universal", "de")
    assert (
        cli("corpus", manifest, "--model", "universal", "--out-dir", tmp_path / "named").code == 0
    )
    told = json.loads((tmp_path / "named" / "d.json").read_text("utf-8"))
    assert (told["model"], told["config"]["language"]) == ("universal", "de")


def test_a_calibration_chooses_the_model_that_it_is_of(
    cli: Any, tmp_path: Path, sound: Any
) -> None:
    for model in ("universal", "english", ""):
        file = tmp_path / model / "calibration.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(as_toml(Calibration(model=model)), "utf-8")
        expected = ("universal", "de") if model == "universal" else ("english", "en")
        assert (
            of(Aligner(settings=Settings(calibration=str(file))).align(sound, GERMAN)) == expected
        )
        result = cli(
            "align", DEMO / "demo.flac", "--text", GERMAN, "--stdout", "--calibration", file.parent
        )
        bound = "the transcript looks German and the model english is for English"
        assert (bound in result.stderr) == (model != "universal")
