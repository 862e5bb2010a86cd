"""Training in several languages: the phones that all of them share, and the weights of another model to begin with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from made_corpus import Lines
from made_letters import make_letters
from safetensors.torch import load_file
from small_training import SMALL, StoppedError, model_files, options, stop_at_saves

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_segment
from ctc_align.config import Settings
from ctc_align.corpus.corpus_scores import ScoreOptions, score_source
from ctc_align.corpus.engine.stages import AlignTask, JobState
from ctc_align.corpus.sources import open_source
from ctc_align.corpus.utterance import Utterance
from ctc_align.errors import UsageError
from ctc_align.files import Alignment
from ctc_align.models.convnet.network import NetworkShape
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.training.acoustic_training import Training
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import NetworkSizes, Recipe, SegmenterPlan
from ctc_align.training.starting import read_start
from ctc_align.types import Transcript

LETTERS = replace(
    SMALL,
    segmenter=SegmenterPlan(((1, 3, 50), (1, 1, 50)), 1),
    training=Training(epochs=1, batch_s=4.0, warmup_steps=5, bfloat16=False),
)
IPA = replace(LETTERS, units="ipa", language="it")


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of German, Spanish, and what names no language; one line has a digit, and one nobody's letters."""
    folder = tmp_path_factory.mktemp("languages")
    make_letters(folder, 24)
    rows = [json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row |= ({"language": "German"}, {"locale": "es-AR"}, {"lang": None})[number % 3]
    rows[3]["text"] = "Salé 3 mola"
    rows[5] |= {"text": "Salé 3 mola", "lang": "ia"}
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, spoken: Path) -> Path:
    out = tmp_path_factory.mktemp("ipa") / "m"
    train(IPA, options(spoken, out))
    return out


def test_each_utterance_is_read_in_its_language(model: Path) -> None:
    aligner = Aligner(str(model))
    assert aligner.model is not None
    assert (aligner.model.vocab, aligner.model.token_kind) == (("<blank>", *IPA_PHONES), "phones")
    card = (model / "README.md").read_text("utf-8")
    assert "| tokens | 52 phones: a b d dz" in card
    for language in ("de", "es-AR", "it"):
        assert f"| {language} | 0.0" in card
    left_out = (model / "left-out.tsv").read_text("utf-8").splitlines()[1:]
    assert [line.split("\t")[0] for line in left_out] == ["u005"]
    assert "digits ('ia' does not say how they are read)" in left_out[0]


def test_a_run_in_several_languages_goes_on_to_the_same_model(
    model: Path, spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = replace(IPA, training=replace(IPA.training, checkpoint_s=-1.0))
    stop_at_saves(monkeypatch, 1)
    with pytest.raises(StoppedError):
        train(often, options(spoken, tmp_path / "m"))
    lines = Lines()
    train(often, options(spoken, tmp_path / "m"), lines)
    assert any(line.startswith("continues from step ") for line in lines.lines)
    assert model_files(tmp_path / "m") == model_files(model)


def test_words_are_said_in_the_language_of_the_call_or_of_the_transcript(model: Path, spoken: Path) -> None:
    audio = spoken / "u000.wav"
    by_call = Aligner(str(model), settings=Settings(language="de", match="exact")).align(audio, "Salé 3")
    unknown = Aligner(str(model), settings=Settings(match="exact"))
    own = unknown.align(audio, Transcript("Salé 3", language="de"))
    assert own.words[1].tokens[0].token == "d"
    assert own.to_dict() == by_call.to_dict()
    assert (own.token_kind, own.config["language"]) == ("phones", "de")
    nobody = unknown.align(audio, "Salé 3")
    assert (nobody.config["language"], nobody.words[1].tokens[0].token) == ("it", "t")
    with pytest.raises(UsageError, match="omit --romanize"):
        Aligner(str(model), settings=Settings(romanize=True))


def test_a_source_says_the_language_of_what_is_scored(model: Path, spoken: Path) -> None:
    scored = {
        one.id: one for one in score_source(open_source(str(spoken / "manifest.jsonl")), ScoreOptions(str(model)))
    }
    aligner = Aligner(str(model), settings=Settings(language="de"))
    assert scored["u003"].scored[0].loss == pytest.approx(aligner.score(spoken / "u003.wav", "Salé 3 mola"))
    assert scored["u005"].scored[0].unknown == 1


def test_a_corpus_is_aligned_in_the_language_of_each_line(model: Path, spoken: Path) -> None:
    rows = [one for one in open_source(str(spoken / "manifest.jsonl")) if isinstance(one, Utterance)][3:6]
    jobs = [JobState(SimpleNamespace(utterance=row), load_segment(row.audio, 16000)) for row in rows]  # type: ignore[arg-type]
    task = AlignTask(SimpleNamespace())  # type: ignore[arg-type]
    found = task.compute(Aligner(str(model), settings=Settings(match="exact")), jobs, {})
    assert [one.config["language"] for one in found if isinstance(one, Alignment)] == ["de", "es-AR", "ia"]
    assert isinstance(found[0], Alignment)
    assert found[0].words[1].spoken == "drei"


def test_a_model_begins_with_the_weights_of_another_one(model: Path, spoken: Path, tmp_path: Path) -> None:
    ipa = read_start(str(model), tmp_path)
    english = read_start("english", tmp_path)
    assert ipa is not None
    assert english is not None
    shape = NetworkShape(64, 4, 7, 24, 32, 32, (1, 2))
    weights = ipa.weights_for(shape, ("<blank>", "c", "é", "七"), "letters", 1)
    again = ipa.weights_for(shape, ("<blank>", "c", "é", "七"), "letters", 1)
    k, e = IPA_PHONES.index("k"), IPA_PHONES.index("e")
    old = ipa.weights
    assert torch.equal(weights["body.0.conv.weight"], old["body.0.conv.weight"])
    assert torch.equal(weights["tokens.weight"][:3], old["tokens.weight"][[0, k + 1, e + 1]])
    # two states of three: the first two thirds' beginnings; the last one is silence
    assert torch.equal(weights["states.bias"][:4], old["states.bias"][[3 * k, 3 * k + 1, 3 * e, 3 * e + 1]])
    assert torch.equal(weights["states.bias"][-1], old["states.bias"][-1])
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    large = english.weights_for(Recipe().shape(1.0, 52, english.description.shape), ("-", *IPA_PHONES), "ipa", 1)
    er = english.description.vocab.index("ER")
    place = IPA_PHONES.index("ø")
    assert torch.equal(large["tokens.bias"][place + 1], english.weights["tokens.bias"][er])
    with pytest.raises(UsageError, match=r"network of the same sizes, got \(stem, body, head\) \(24, 32, 32\)"):
        ipa.weights_for(Recipe().shape(1.0, 3), ("-", "a", "b", "c"), "letters", 1)
    begun = replace(LETTERS, start=str(model), network=NetworkSizes(dilations=(1, 2)))
    train(begun, options(spoken, tmp_path / "m"))
    assert f"begun with the weights of {model}" in (tmp_path / "m" / "README.md").read_text("utf-8")
    assert load_file(str(tmp_path / "m" / "model.safetensors"))["body.0.conv.weight"].shape == (32, 32, 3)
