"""Training in several languages: the phones that all of them share, and the weights of another
model to begin with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from inline_corpus import inline_alignment  # noqa: F401 (a fixture)
from made_corpus import LETTER_WORDS, Lines, make_letters
from made_models import tiny_folder
from safetensors.torch import load_file
from small_training import SMALL, StoppedError, model_files, options, stop_at_saves

from ctc_align.alignment.aligner import Aligner, split_transcript
from ctc_align.audio.loading import load_audio
from ctc_align.cli import run as cli
from ctc_align.config import Settings
from ctc_align.corpus.corpus_scores import ScoreTask, score_source
from ctc_align.corpus.engine.stages import AlignTask, JobState, WorkerOptions
from ctc_align.errors import UsageError
from ctc_align.models import load_model
from ctc_align.models.catalogue import FolderSettings, folder_settings
from ctc_align.models.convnet.inference import NetworkShape
from ctc_align.sources import open_source
from ctc_align.sources.utterance import Utterance
from ctc_align.text import words_of
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.training.acoustic_training import Training
from ctc_align.training.adaptation import Adaptation, adapt
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import NetworkSizes, Recipe, SegmenterPlan
from ctc_align.training.starting import read_start
from ctc_align.types import Alignment, Transcript

LETTERS = replace(
    SMALL,
    segmenter=SegmenterPlan(((1, 3, 50), (1, 1, 50)), 1),
    training=Training(epochs=1, batch_s=4.0, warmup_steps=5, bfloat16=False),
)
IPA = replace(LETTERS, units="ipa", language="it")


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of German, Spanish, and what names no language; one line has a digit, and one
    nobody's letters."""
    folder = tmp_path_factory.mktemp("languages")
    make_letters(folder, 24)
    rows = [
        json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()
    ]
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
    assert (aligner.model.vocab, aligner.model.token_kind) == (("<blank>", *IPA_PHONES), "phones")
    card = (model / "README.md").read_text("utf-8")
    assert "| tokens | 52 phones: a b d dz" in card
    for language in ("de", "es-AR", "it"):
        assert f"| {language} | 0.0" in card
    left_out = (model / "left-out.tsv").read_text("utf-8").splitlines()[1:]
    assert [line.split("\t")[0] for line in left_out] == ["u005"]
    assert "digits ('ia' does not say how they are read)" in left_out[0]


def test_a_run_in_several_languages_goes_on_to_the_same_model(
    model, spoken, tmp_path, monkeypatch
) -> None:
    often = replace(IPA, training=replace(IPA.training, checkpoint_s=-1.0))
    stop_at_saves(monkeypatch, 1)
    with pytest.raises(StoppedError):
        train(often, options(spoken, tmp_path / "m"))
    lines = Lines()
    train(often, options(spoken, tmp_path / "m"), lines)
    assert any(line.startswith("continues from step ") for line in lines.lines)
    assert model_files(tmp_path / "m") == model_files(model)


def test_words_are_said_in_the_language_of_the_call_or_of_the_transcript(
    model: Path, spoken: Path
) -> None:
    audio = spoken / "u000.wav"
    by_call = Aligner(str(model), settings=Settings(language="de", match="exact")).align(
        audio, "Salé 3"
    )
    unknown = Aligner(str(model), settings=Settings(match="exact"))
    own = unknown.align(audio, Transcript("Salé 3", language="de"))
    assert own.words[1].tokens[0].token == "d"
    assert own.to_dict() == by_call.to_dict()
    assert (own.token_kind, own.config["language"]) == ("phones", "de")
    nobody = unknown.align(audio, "Salé 3")
    assert (nobody.config["language"], nobody.words[1].tokens[0].token) == ("it", "t")
    with pytest.raises(UsageError, match="omit --romanize"):
        Aligner(str(model), settings=Settings(romanize=True))


def test_a_source_says_the_language_of_what_is_scored_and_aligned(
    model: Path, spoken: Path
) -> None:
    source = open_source(str(spoken / "manifest.jsonl"))
    scored = {one.id: one for one in score_source(source, WorkerOptions(ScoreTask(), str(model)))}
    aligner = Aligner(str(model), settings=Settings(language="de"))
    assert scored["u003"].scored[0].loss == pytest.approx(
        aligner.score(spoken / "u003.wav", "Salé 3 mola")
    )
    assert scored["u005"].scored[0].unknown == 1
    rows = [one for one in source if isinstance(one, Utterance)][3:6]
    jobs = [JobState(SimpleNamespace(utterance=row), load_audio(row.audio, 16000)) for row in rows]  # type: ignore[arg-type]
    task = AlignTask(SimpleNamespace())  # type: ignore[arg-type]
    found = task.compute(Aligner(str(model), settings=Settings(match="exact")), jobs, {})
    assert [one.config["language"] for one in found if isinstance(one, Alignment)] == [
        "de",
        "es-AR",
        "ia",
    ]
    assert found[0].words[1].spoken == "drei"


def test_a_model_begins_with_the_weights_of_another_one(
    model: Path, spoken: Path, tmp_path: Path
) -> None:
    ipa = read_start(str(model), tmp_path)
    english = read_start("english", tmp_path)
    shape = NetworkShape(64, 4, 7, 24, 32, 32, (1, 2))
    weights = ipa.weights_for(shape, ("<blank>", "c", "é", "七"), "letters", 1)
    again = ipa.weights_for(shape, ("<blank>", "c", "é", "七"), "letters", 1)
    k, e = IPA_PHONES.index("k"), IPA_PHONES.index("e")
    old = ipa.weights
    assert torch.equal(weights["body.0.conv.weight"], old["body.0.conv.weight"])
    assert torch.equal(weights["tokens.weight"][:3], old["tokens.weight"][[0, k + 1, e + 1]])
    # two states of three: the first two thirds' beginnings; the last one is silence
    assert torch.equal(
        weights["states.bias"][:4], old["states.bias"][[3 * k, 3 * k + 1, 3 * e, 3 * e + 1]]
    )
    assert torch.equal(weights["states.bias"][-1], old["states.bias"][-1])
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    large = english.weights_for(
        Recipe().shape(1.0, 52, english.description.shape), ("-", *IPA_PHONES), "ipa", 1
    )
    er = english.description.vocab.index("ER")
    place = IPA_PHONES.index("ø")
    assert torch.equal(large["tokens.bias"][place + 1], english.weights["tokens.bias"][er])
    with pytest.raises(
        UsageError, match=r"network of the same sizes, got \(stem, body, head\) \(24, 32, 32\)"
    ):
        ipa.weights_for(Recipe().shape(1.0, 3), ("-", "a", "b", "c"), "letters", 1)
    begun = replace(LETTERS, start=str(model), network=NetworkSizes(dilations=(1, 2)))
    train(begun, options(spoken, tmp_path / "m"))
    assert f"begun with the weights of {model}" in (tmp_path / "m" / "README.md").read_text("utf-8")
    assert load_file(str(tmp_path / "m" / "model.safetensors"))["body.0.conv.weight"].shape == (
        32,
        32,
        3,
    )


# A trained model's folder remembers its language and its lexicon: nobody has to say them again.

TINY = Recipe(
    language="de",
    fewest=3,
    network=NetworkSizes(8, 8, 8, (1,)),
    segmenter=SegmenterPlan(((1, 2, 20),), 1),
    training=Training(epochs=1, bfloat16=False),
)
TEXT = "mola 2"


@pytest.fixture(scope="module")
def sounds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    make_letters(folder, 12)
    return folder


@pytest.fixture(scope="module")
def letters(sounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(TINY, options(sounds, tmp_path_factory.mktemp("letters") / "m")).folder


@pytest.fixture(scope="module")
def phones(sounds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("phones")
    lines = [
        f"{word.lower()}\t{' '.join('P' + letter for letter in word.lower())}"
        for word in LETTER_WORDS
    ]
    (folder / "tones.dict").write_text(
        "\n".join([*lines, "zwei\tPt Pe", "two\tPo Po"]) + "\n", "utf-8"
    )
    call = options(sounds, folder / "m", lexicon=str(folder / "tones.dict"))
    return train(TINY, call).folder


def spoken_words(aligner: Aligner, sounds: Path, text: str = TEXT) -> list[str]:
    return [word.spoken for word in aligner.align(sounds / "u000.wav", text).words]


def tokens(aligner: Aligner, sounds: Path, text: str = TEXT) -> list[list[str]]:
    return [
        [token.token for token in word.tokens]
        for word in aligner.align(sounds / "u000.wav", text).words
    ]


def test_what_a_folder_and_its_card_remember(letters: Path, phones: Path, tmp_path: Path) -> None:
    assert folder_settings(str(letters)) == FolderSettings("de")
    assert folder_settings(str(phones)) == FolderSettings("de", str(phones / "lexicon.txt"))
    assert 'language = "de"\n' in (letters / "model.toml").read_text("utf-8")
    assert load_model(str(letters), device="cpu").description.language == "de"  # type: ignore[attr-defined]
    plain = tiny_folder(tmp_path / "plain", ("<blank>", "a"))
    assert "language" not in (plain / "model.toml").read_text("utf-8")
    for name in (
        None,
        "english",
        "hf:a/b",
        str(plain),
        str(tmp_path),
        str(tmp_path / "absent"),
        "a\0b",
    ):
        assert folder_settings(name) == FolderSettings()
    for folder in (letters, phones):
        card = (folder / "README.md").read_text("utf-8")
        assert "    ctc-align AUDIO TRANSCRIPT --model DIR\n" in card
        assert "transcripts are read in `de` (`--language`)" in card
        assert "--lexicon DIR" not in card
        assert "--config" not in card
    assert "words are looked up in `lexicon.txt`" in (phones / "README.md").read_text("utf-8")


def test_a_language_that_is_no_text_is_refused(letters: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "m"
    shutil.copytree(letters, wrong)
    text = (wrong / "model.toml").read_text("utf-8").replace('language = "de"', "language = 5")
    (wrong / "model.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError, match="language is not a text: 5"):
        Aligner(str(wrong))


def test_the_models_language_else_english_unless_the_user_says_another(
    letters, sounds, tmp_path
) -> None:
    aligner = Aligner(str(letters), device="cpu")
    alignment = aligner.align(sounds / "u000.wav", TEXT)
    assert [word.spoken for word in alignment.words] == ["mola", "zwei"]
    assert alignment.config["language"] == "de"
    assert [word.spoken for word in split_transcript(aligner, "21", "transcript").words] == [
        "einundzwanzig"
    ]
    assert aligner.score(sounds / "u000.wav", TEXT) == aligner.score(
        sounds / "u000.wav", "mola zwei"
    )
    for language, said in (("en", "two"), ("fr", "deux")):
        own = Aligner(str(letters), device="cpu", settings=Settings(language=language))
        assert spoken_words(own, sounds) == ["mola", said]
    assert [word.spoken for word in words_of("2", Settings()).words] == ["two"]
    assert [word.spoken for word in split_transcript(Aligner(None), "2", "two").words] == ["two"]
    folder = tiny_folder(tmp_path / "m", ("<blank>", *"amolwt"))
    alignment = Aligner(str(folder), device="cpu").align(sounds / "u000.wav", TEXT)
    assert (alignment.words[1].spoken, alignment.config["language"]) == ("two", "en")


def test_the_models_lexicon_unless_the_user_gives_another(
    phones: Path, sounds: Path, tmp_path: Path
) -> None:
    assert tokens(Aligner(str(phones), device="cpu"), sounds) == [
        ["Pm", "Po", "Pl", "Pa"],
        ["Pt", "Pe"],
    ]
    mine = tmp_path / "mine.dict"
    mine.write_text("mola\tPa Pa\n", "utf-8")
    alignment = Aligner(str(phones), device="cpu", lexicon=mine).align(
        sounds / "u000.wav", "mola soti"
    )
    assert [token.token for token in alignment.words[0].tokens] == ["Pa", "Pa"]
    assert alignment.unknown == len("soti")


def test_lexicons_beside_letters_and_emissions_of_another_vocabulary_are_not_the_models(
    letters: Path, sounds: Path, tmp_path: Path, phones: Path
) -> None:
    model = tmp_path / "m"
    shutil.copytree(letters, model)
    (model / "lexicon.txt").write_text("mola\tP1 P2\n", "utf-8")
    assert folder_settings(str(model)) == FolderSettings("de")
    with_it, without = (Aligner(str(folder), device="cpu") for folder in (model, letters))
    assert tokens(with_it, sounds) == tokens(without, sounds)
    assert with_it.score(sounds / "u000.wav", TEXT) == without.score(sounds / "u000.wav", TEXT)
    from made_models import planted, spelt

    alignment = Aligner(str(phones), device="cpu").align(planted(spelt("mola")), "mola")
    assert [token.token for token in alignment.words[0].tokens] == list("mola")


def test_adapting_inherits(letters: Path, phones: Path, sounds: Path, tmp_path: Path) -> None:
    training = replace(Adaptation().training, epochs=1)
    for base, kept in ((letters, "de"), (phones, "de")):
        call = options(sounds, tmp_path / base.parent.name)
        card = adapt(Adaptation(training=training), str(base), call)
        assert card.inventory.language == kept
        mine = folder_settings(str(call.out_dir))
        assert (mine.language, mine.lexicon is None) == (kept, base == letters)
    other = options(sounds, tmp_path / "other")
    adapt(Adaptation(language="nl", training=training), str(letters), other)
    assert folder_settings(str(other.out_dir)).language == "nl"


def test_align_refuses_what_is_not_spoken_in_the_models_language(
    letters: Path, sounds: Path, tmp_path: Path
) -> None:
    """A sign that English reads and German does not."""
    given = [
        "align",
        sounds / "u000.wav",
        "--text",
        "@",
        "--model",
        letters,
        "--out-dir",
        tmp_path,
        "--quiet",
    ]
    assert cli([str(argument) for argument in given]) == 1
    assert cli([str(argument) for argument in (*given, "--language", "en")]) == 0


@pytest.mark.long
def test_a_corpus_is_done_again_where_what_is_remembered_changed(
    phones: Path,
    sounds: Path,
    tmp_path: Path,
    inline_alignment: None,  # noqa: F811
) -> None:
    model = tmp_path / "model"
    shutil.copytree(phones, model)
    manifest = tmp_path / "m.jsonl"
    manifest.write_text(
        json.dumps({"audio": str(sounds / "u000.wav"), "text": TEXT, "utterance": "one"}) + "\n"
    )
    given = [
        manifest,
        "--out-dir",
        tmp_path / "out",
        "--model",
        model,
        "--workers",
        1,
        "--device",
        "cpu",
    ]

    def words(*options: object) -> list[tuple[str, int]]:
        assert cli(["corpus", *map(str, (*given, *options)), "--quiet"]) == 0
        data = json.loads((tmp_path / "out" / "one.json").read_text("utf-8"))
        return [(word["spoken"], len(word["tokens"])) for word in data["words"]]

    def runs() -> int:
        return len((tmp_path / "out" / "journal.jsonl").read_text().splitlines())

    assert words() == [("mola", 4), ("zwei", 2)]
    assert words("--language", "de", "--lexicon", model / "lexicon.txt") == [
        ("mola", 4),
        ("zwei", 2),
    ]
    assert runs() == 1
    assert words("--language", "en") == [("mola", 4), ("two", 2)]
    with open(model / "lexicon.txt", "a", encoding="utf-8") as file:
        file.write("two\tPo Po Pe\n")
    (model / "lexicon.txt").write_text(
        (model / "lexicon.txt").read_text("utf-8").replace("zwei\tPt Pe", "zwei\tPt")
    )
    assert words() == [("mola", 4), ("zwei", 1)]
    assert runs() == 3


def test_the_scores_of_a_source(phones: Path, sounds: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    line = {
        "audio": str(sounds / "u000.wav"),
        "texts": [TEXT, "mola zwei", "mola two"],
        "utterance": "one",
    }
    manifest.write_text(json.dumps(line | {"text": TEXT}) + "\n")
    (one,) = score_source(
        open_source(str(manifest)), WorkerOptions(ScoreTask(), str(phones), device="cpu"), workers=1
    )
    losses = {scored.text: scored.loss for scored in one.scored}
    assert losses[TEXT] == losses["mola zwei"] != losses["mola two"]
