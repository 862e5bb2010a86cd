"""`train` and `adapt` as a whole, on corpora of tones whose edges are known to the sample."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import LETTER_WORDS, LETTERS, Lines, Made, make_corpus, make_letters
from made_edges import untrained
from made_models import tiny_folder
from small_training import SMALL, StoppedError, model_files, options, stop_at_saves

from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.ctc_path import Spans
from ctc_align.audio.loading import load_audio
from ctc_align.config import load_config
from ctc_align.errors import ConfigError, InputError, OutputError, UsageError
from ctc_align.models import embedded_folder, load_model, resolve_device
from ctc_align.models.calibration import KINDS
from ctc_align.models.convnet import features
from ctc_align.models.convnet.convnet_model import load_folder
from ctc_align.models.edge_network import FILE, edge_network_bytes
from ctc_align.text.phone_sets import ARPABET_PHONES, IPA_PHONES
from ctc_align.training import adaptation, frame_labels, starting
from ctc_align.training.acoustic_training import Training
from ctc_align.training.adaptation import Adaptation, adapt
from ctc_align.training.adaptation_check import (
    CheckLimits,
    OwnSegments,
    SegmentComparison,
    compared,
    loud_frames,
)
from ctc_align.training.corpus_data import Spoken
from ctc_align.training.frame_labels import Labels
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import Recipe, Refining
from ctc_align.training.run_folder import TrainOptions
from ctc_align.training.starting import learnt_edges
from ctc_align.training.training_batches import Augmentation

QUICK = replace(
    SMALL, training=replace(SMALL.training, epochs=2, dropout=0.2, augmentation=Augmentation())
)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("letters")
    return folder, make_letters(folder, 50)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, spoken: tuple[Path, list[Made]]) -> Path:
    folder = tmp_path_factory.mktemp("model")
    train(SMALL, options(spoken[0], folder / "tones", command="ctc-align train letters"))
    return folder / "tones"


def edges(model: Path, said: list[Made]) -> np.ndarray:
    """Errors of all letters' edges, in seconds."""
    aligner = Aligner(str(model), device="cpu")
    errors: list[float] = []
    for one in said:
        tokens = [
            token for word in aligner.align(one.path, one.text).words for token in word.tokens
        ]
        assert len(tokens) == len(one.starts)
        errors += [token.start_s - start / 16000 for token, start in zip(tokens, one.starts)]
        errors += [token.end_s - end / 16000 for token, end in zip(tokens, one.ends)]
    return np.array(errors)


@pytest.mark.long
def test_letters_are_learnt_from_nothing_and_lie_where_they_sound(
    model: Path, tmp_path: Path
) -> None:
    """Of new utterances most edges are within a frame, nearly all within three (the cepstra's
    slopes see four)."""
    began = time.process_time()
    errors = np.abs(edges(model, make_letters(tmp_path, 10, seed=7)))
    assert np.median(errors) <= 0.01
    assert np.mean(errors <= 0.02) > 0.85
    assert np.mean(errors <= 0.03) > 0.97
    assert np.mean(errors) <= 0.013
    assert time.process_time() - began < 60


@pytest.mark.long
def test_the_model_says_what_it_is(model: Path) -> None:
    loaded = load_model(str(model), device="cpu")
    assert (loaded.name, loaded.token_kind) == ("tones", "tokens")
    assert loaded.vocab == ("<blank>", *sorted(LETTERS))
    assert not (model / ".training").exists()
    card = (model / "README.md").read_text("utf-8")
    for part in (
        "# The model `tones`",
        "10 letters: a e i l m n o s t é",
        "ctc-align train letters",
        "held out | 5 ",
    ):
        assert part in card
    assert card.startswith("---\nlibrary_name: ")
    assert 'model-index: [{"name": "tones", "results": [{"task": ' in card
    edges = [FILE] if (embedded_folder("english") / FILE).is_file() else []
    assert sorted(path.name for path in model.iterdir()) == [
        "README.md",
        *edges,
        "model.safetensors",
        "model.toml",
    ]
    mask = os.umask(0)
    os.umask(mask)
    assert (model / "model.safetensors").stat().st_mode & 0o044 == 0o044 & ~mask


@pytest.mark.long
def test_a_model_gets_the_network_of_edges_that_fits_its_tokens(
    model, tmp_path, monkeypatch
) -> None:
    """A base's own goes on; else the English one: whole for the same phones, and for others without
    single sounds."""
    english, base, out = tmp_path / "english", tmp_path / "base", tmp_path / "adapted"
    for folder, labels in ((english, ARPABET_PHONES), (base, ("a", "e"))):
        folder.mkdir()
        (folder / FILE).write_bytes(edge_network_bytes(untrained(tuple(labels))))
    monkeypatch.setattr(starting, "embedded_folder", lambda name: english)
    whole = learnt_edges("english", ("<blank>", *reversed(ARPABET_PHONES)))
    hidden = learnt_edges("english", ("<blank>", *ARPABET_PHONES, "X"), tmp_path)
    own = learnt_edges("english", ("<blank>", *ARPABET_PHONES), base)
    ipa = learnt_edges("english", ("<blank>", *IPA_PHONES))
    for phone, nearest in (("ø", "ER"), ("ɲ", "N")):
        rows = (
            each.weights["sound.weight"][each.shape.index_of(one)]
            for each, one in ((ipa, phone), (whole, nearest))
        )
        assert np.array_equal(*rows)
    assert KINDS[ipa.shape.kinds[ipa.shape.index_of("x")]] == "fricative"
    assert edge_network_bytes(whole) == (english / FILE).read_bytes()
    assert hidden.shape.labels == ()
    assert np.array_equal(hidden.weights["sound.weight"], whole.weights["sound.weight"][-1:])
    assert edge_network_bytes(own) == (base / FILE).read_bytes()
    assert learnt_edges("none", ("<blank>", *ARPABET_PHONES), base) is None
    shutil.copytree(model, base, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FILE))
    make_letters(tmp_path / "letters", 8, seed=3)
    for edges, said in (
        ("english", "English edges drawn by eye"),
        ("none", "| edges | medians over all"),
    ):
        again = Adaptation(edges=edges, training=replace(Adaptation().training, epochs=1))
        adapt(again, str(base), options(tmp_path / "letters", out, force=True))
        assert (out / FILE).is_file() == (edges == "english")
        assert said in (out / "README.md").read_text("utf-8")


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_and_gives_the_same_model(
    spoken, tmp_path, monkeypatch
) -> None:
    """Dropout and augmentation on; stopped in the features' wake, while segmenting, and while
    learning."""
    straight = train(QUICK, options(spoken[0], tmp_path / "straight" / "m"))
    often = replace(QUICK, training=replace(QUICK.training, checkpoint_s=-1.0))
    out = tmp_path / "stopped" / "m"
    real_labels = frame_labels.from_nothing

    def broken(*_: object) -> None:
        raise StoppedError

    monkeypatch.setattr(frame_labels, "from_nothing", broken)
    with pytest.raises(StoppedError):
        train(often, options(spoken[0], out))
    monkeypatch.setattr(frame_labels, "from_nothing", real_labels)
    stop_at_saves(monkeypatch, 2, 5)
    for _ in range(2):
        with pytest.raises(StoppedError):
            train(often, options(spoken[0], out))
        torch.rand(3)
    monkeypatch.setattr(frame_labels, "from_nothing", broken)  # not done again
    lines = Lines()
    resumed = train(often, options(spoken[0], out), lines)
    assert any(line.startswith("continues from step ") for line in lines.lines)
    assert model_files(resumed.folder) == model_files(straight.folder)
    assert resumed.dev == straight.dev


@pytest.mark.long
def test_a_folder_is_another_runs(
    spoken: tuple[Path, list[Made]], model: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"there is a model already \(model\.toml\); give --force"):
        train(SMALL, options(spoken[0], model))
    out = tmp_path / "m"
    kept = train(QUICK, options(spoken[0], out, keep=True))
    before = model_files(kept.folder)
    assert (out / ".training" / "labels.npz").exists()
    with pytest.raises(UsageError, match="a run with another recipe was stopped here"):
        train(replace(QUICK, seed=2), options(spoken[0], out))
    assert model_files(out) == before
    for stale in ("calibration.toml", "confidence.safetensors", "edges.safetensors"):
        (out / stale).write_text("")
    train(replace(QUICK, seed=2, edges="none"), options(spoken[0], out, force=True))
    assert model_files(out) != before
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md",
        "model.safetensors",
        "model.toml",
    ]
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="expected a folder, got a file"):
        train(SMALL, options(spoken[0], tmp_path / "file"))
    with pytest.raises(OutputError, match="the folder cannot be made"):
        train(SMALL, options(spoken[0], tmp_path / "file" / "m"))


def test_bad_pairs_are_left_out_counted_and_listed(tmp_path: Path) -> None:
    make_letters(tmp_path, 22)
    manifest = tmp_path / "manifest.jsonl"
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    rows[0]["text"] = "sal " * 60  # more letters than the sound has room for
    rows[1]["text"] = "x salé"  # a letter that is met once
    rows[2]["text"] = "—"
    rows[3]["text"] = "salé 21"
    rows[4]["audio"] = "absent.wav"
    (tmp_path / "u005.wav").write_bytes(b"RIFF")
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows) + "{\n")
    lines = Lines()
    result = train(QUICK, options(tmp_path, tmp_path / "m"), lines)
    corpus = result.corpus
    assert len(corpus.train) + len(corpus.dev) == 16
    assert sorted((one.kind, one.id) for one in corpus.left_out) == [
        ("a transcript too long for its audio", "u000"),
        ("digits (give --language)", "u003"),
        ("letters that are too rare", "u001"),
        ("not readable in the corpus", "manifest.jsonl, line 23"),
        ("nothing that is spoken in the transcript", "u002"),
        ("unreadable audio", "absent"),
        ("unreadable audio", "u005"),
    ]
    (said,) = [line for line in lines.lines if line.startswith("left out: ")]
    assert "2 × unreadable audio" in said
    table = (result.folder / "left-out.tsv").read_text("utf-8").splitlines()
    assert table[0] == "utterance\torigin\treason\tmet"
    assert len(table) == 8
    assert "| left out: unreadable audio | 2 |" in (result.folder / "README.md").read_text("utf-8")


def test_an_old_torch_and_corpora_of_which_nothing_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_letters(tmp_path, 3)
    manifest = tmp_path / "manifest.jsonl"
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]

    def error_of(**changed: object) -> str:
        manifest.write_text("".join(json.dumps(row | changed) + "\n" for row in rows))
        with pytest.raises(InputError) as caught:
            train(SMALL, options(tmp_path, tmp_path / "m"))
        return str(caught.value)

    assert "none of the transcripts can be used: 3 × nothing that is spoken" in error_of(text="…")
    assert "expected transcripts with letters that occur 3 times or more" in error_of(text="21")
    unreadable = error_of(audio="no.wav", text="salé salé salé")
    assert "two utterances or more that can be used, got 0: 3 × unreadable audio" in unreadable
    with pytest.raises(UsageError, match="no such"):
        train(SMALL, TrainOptions(str(tmp_path / "absent"), tmp_path / "m"))
    # It could not read back, safely, what the run saves; that is found after hours where it is not
    # asked first.
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    with pytest.raises(
        UsageError, match=r"needs PyTorch 2\.10 or newer, this is 2\.9\.1\+cu128: pip install"
    ):
        train(Recipe(), TrainOptions(str(tmp_path), tmp_path / "model"))
    assert not (tmp_path / "model").exists()


@pytest.mark.long
def test_phones_of_a_lexicon(tmp_path: Path) -> None:
    """Words that it lacks are told; of two pronunciations the one that sounds is taken; it lies
    beside the model."""
    said = make_letters(tmp_path, 40)
    lexicon = tmp_path / "tones.dict"
    lines = [
        f"{word.lower()}\t{' '.join('P' + letter for letter in word.lower())}"
        for word in LETTER_WORDS[1:]
    ]
    lines.insert(0, "mola\t0.9\tPm Pé Pl Pé")
    lexicon.write_text("\n".join(lines) + "\n", "utf-8")
    result = train(SMALL, options(tmp_path, tmp_path / "m", lexicon=str(lexicon)))
    left = result.corpus.left_out
    assert {one.kind for one in left} == {"words that are not in the lexicon"}
    assert {one.details for one in left} <= {"salé", "salé salé", "salé salé salé"}
    model = load_model(str(result.folder), device="cpu")
    assert (model.token_kind, len(model.vocab)) == ("phones", 11)
    aligner = Aligner(str(result.folder), device="cpu", lexicon=result.folder / "lexicon.txt")
    (one,) = [one for one in said if "mola" in one.text and "Salé" not in one.text][:1]
    (mola,) = [word for word in aligner.align(one.path, one.text).words if word.spoken == "mola"][
        :1
    ]
    assert [token.token for token in mola.tokens] == ["Pm", "Po", "Pl", "Pa"]


def test_sizes_and_minutes_of_a_recipe() -> None:
    recipe = Recipe()
    sizes = [recipe.shape(hours, 30).body for hours in (0.2, 3.0, 20.0)]
    assert sizes == [128, 192, 256]
    assert recipe.shape(1.0, 30).states == 61
    assert [recipe.resolved(hours).epochs for hours in (0.1, 1.0, 20.0)] == [60, 32, 12]
    assert replace(recipe, training=Training(epochs=3)).resolved(1.0).epochs == 3
    assert Recipe(units="lexicon").shape(1.0, 40).states == 121
    training = replace(Training(), epochs=6, minutes=8.0)
    first, second = replace(Recipe(), refining=Refining(epochs=2)).stages(training, 10.0)
    assert (first.epochs, first.minutes, second.epochs, second.minutes) == (6, 6.0, 2, 2.0)
    assert second.warmup_steps == 2  # a tenth of its steps
    first, second = Recipe().stages(training, 10.0)
    assert (first, second.epochs) == (training, 0)
    assert (
        replace(Recipe(), refining=Refining(epochs=2, warmup_steps=7))
        .stages(training, 10.0)[1]
        .warmup_steps
        == 7
    )


@pytest.mark.long
def test_adapting_lowers_the_loss_on_another_voice(model: Path, tmp_path: Path) -> None:
    make_letters(tmp_path, 40, seed=3, pitch=1.07, noise=0.004)
    lines = Lines()
    before = model_files(model)
    result = adapt(Adaptation(), str(model), options(tmp_path, tmp_path / "mine"), lines)
    trained = result.trained
    assert trained.dev.ctc < 0.9 * trained.before.ctc
    assert any(line.startswith("held out: ") and ", before ctc" in line for line in lines.lines)
    assert model_files(model) == before
    fresh = make_letters(tmp_path / "fresh", 6, seed=4, pitch=1.07, noise=0.004)
    aligner = [Aligner(str(folder), device="cpu") for folder in (model, result.folder)]
    old, new = (sum(one.score(said.path, said.text) for said in fresh) for one in aligner)
    assert new < old
    assert "adapted from tones" in (result.folder / "README.md").read_text("utf-8")


@pytest.mark.long
def test_adapting_never_ends_worse(model: Path, tmp_path: Path) -> None:
    make_letters(tmp_path, 12, seed=3)
    ruin = Adaptation(
        training=replace(Adaptation().training, learning_rate=5.0, epochs=1, warmup_steps=0)
    )
    lines = Lines()
    result = adapt(ruin, str(model), options(tmp_path, tmp_path / "mine"), lines)
    assert "no epoch was better on what is held out" in lines.lines[-1]
    assert (result.folder / "model.safetensors").read_bytes() == (
        model / "model.safetensors"
    ).read_bytes()


@pytest.mark.long
def test_a_model_that_learnt_wrong_edges_is_not_written(model, tmp_path, monkeypatch) -> None:
    """Labels that are late everywhere, where held out, too: the loss falls from epoch to epoch, and
    only the check sees it. What was in the folder stays."""
    make_letters(tmp_path, 40, seed=3)
    real = adaptation.own_labels

    def late(*arguments: object) -> Labels:
        labels = real(*arguments)  # type: ignore[arg-type]
        return replace(labels, states=[np.roll(row, 5) for row in labels.states])

    lines, mine, limits = Lines(), options(tmp_path, tmp_path / "mine"), CheckLimits(shift_ms=5.0)
    harmful = Adaptation(
        check=limits,
        training=replace(Adaptation().training, learning_rate=2e-2, batch_s=1.0, epochs=1),
    )
    monkeypatch.setattr(adaptation, "own_labels", late)
    with pytest.raises(
        InputError, match=r"mine: no model is written.* words came \d+ ms later.*Align with --model"
    ):
        adapt(harmful, str(model), mine, lines)
    assert any(line.startswith("these weights are not kept: ") for line in lines.lines)
    assert not mine.out_dir.exists()
    monkeypatch.setattr(adaptation, "own_labels", real)
    adapt(Adaptation(check=limits), str(model), mine)
    assert "| loud sound that words cover | " in (mine.out_dir / "README.md").read_text("utf-8")
    before = model_files(mine.out_dir)
    monkeypatch.setattr(adaptation, "own_labels", late)
    with pytest.raises(InputError, match="no model is written"):
        adapt(harmful, str(model), replace(mine, force=True))
    assert model_files(mine.out_dir) == before


@pytest.mark.long
def test_what_cannot_be_adapted(model: Path, tmp_path: Path) -> None:
    make_letters(tmp_path, 6)
    with pytest.raises(UsageError, match="no other can be adapted"):
        adapt(Adaptation(), "hf:some/model", options(tmp_path, tmp_path / "m"))
    with pytest.raises(UsageError, match="is the folder of the model to adapt"):
        adapt(Adaptation(), str(model), options(tmp_path, model, force=True))
    with pytest.raises(UsageError, match="there is a model already"):
        adapt(Adaptation(), str(model), options(tmp_path, model))


# The recipe of the embedded model: read as it stands, and the same path as any other's, on a corpus
# of tones.

TONES = replace(SMALL, name="tones", units="arpabet", language="en", fewest=5, dev_share=0.05)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("corpus")
    return folder, make_corpus(folder, utterances=50, dev=4)


@pytest.mark.long
def test_english_phones_from_recordings_to_a_model_that_aligns(
    corpus: tuple[Path, list[Made]], tmp_path: Path
) -> None:
    folder, made = corpus
    lines = Lines()
    result = train(TONES, options(folder, tmp_path / "m", dev=str(folder / "dev.jsonl")), lines)
    assert result.corpus.dev.tolist() == [46, 47, 48, 49]
    aligner = Aligner(str(result.folder), device="cpu")
    assert (aligner.model.name, aligner.model.token_kind, len(aligner.model.vocab)) == (
        "tones",
        "phones",
        40,
    )
    errors = []
    for one in made[-4:]:
        alignment = aligner.align(one.path, one.text)
        tokens = [token for word in alignment.words for token in word.tokens]
        assert len(tokens) == len(one.phones)
        errors += [abs(token.start_s - start / 16000) for token, start in zip(tokens, one.starts)]
        errors += [abs(token.end_s - end / 16000) for token, end in zip(tokens, one.ends)]
        assert aligner.score(one.path, one.text) < aligner.score(one.path, "cat fish map go")
    assert float(np.median(errors)) <= 0.02
    assert {"reading audio", "segmenting", "training"} <= set(lines.stages)


def test_the_recipe_of_the_embedded_model() -> None:
    recipe = load_config(Recipe, "english", {})
    assert (recipe.name, recipe.units, recipe.language) == ("english", "arpabet", "en")
    embedded = load_folder(embedded_folder("english"), resolve_device("cpu")).description
    assert recipe.shape(16.5, len(embedded.vocab) - 1) == embedded.shape
    assert (recipe.prior_scale, recipe.silence_bonus) == (
        embedded.prior_scale,
        embedded.silence_bonus,
    )
    training = recipe.resolved(16.5)
    assert (training.epochs, training.batch_s, training.warmup_steps, training.ctc_weight) == (
        12,
        150.0,
        300,
        0.5,
    )


@pytest.mark.parametrize(
    "line", ["epochs = -1", "mixtures = 3", "mixtures = 0", "warmup_steps = -5", "scale = 0.0"]
)
def test_a_second_segmentation_that_cannot_be(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.toml").write_text(f"[refining]\n{line}\n")
    with pytest.raises(ConfigError, match=f"refining.{line.split()[0]}"):
        load_config(Recipe, str(tmp_path / "r.toml"), {})


# The check of an adapted model: faults are planted in its segments.

FRAMES, WORD_COUNT = 1000, 20
STARTS = np.arange(WORD_COUNT) * 50
LOUD = np.zeros(FRAMES, np.bool_)
for first in STARTS:
    LOUD[first + 12 : first + 38] = True


def segments(starts: np.ndarray, ends: np.ndarray) -> OwnSegments:
    """Words of two tokens, cut in the middle."""
    middle = (starts + ends) // 2
    spans = Spans(np.stack((starts, middle), 1).ravel(), np.stack((middle, ends), 1).ravel())
    spoken = Spoken(tuple((np.array([0, 1]),) for _ in starts), (0,) * len(starts))
    return OwnSegments(spoken, np.zeros(FRAMES, np.int16), spans)


def beside(starts: np.ndarray, ends: np.ndarray) -> SegmentComparison:
    """Words as given beside those of a start at 10 to 40 of every 50 frames, all loud but two
    frames at each end."""
    start = {0: segments(STARTS + 10, STARTS + 40)}
    return compared(start, {0: segments(starts, ends)}, {0: LOUD})


@pytest.mark.parametrize(
    ("first", "last", "says"),
    [
        (10, 40, ()),
        (11, 39, ("words shrank by 7%",)),
        (14, 36, ("words shrank by 27%", "loud sound is called pause")),
        (7, 43, ("words grew by 20% over quiet sound",)),
        (13, 43, ("loud sound is called pause", "words came 30 ms later")),
        (7, 37, ("loud sound is called pause", "words came 30 ms earlier")),
    ],
)
def test_what_got_worse_is_told(first: int, last: int, says: tuple[str, ...]) -> None:
    faults = beside(STARTS + first, STARTS + last).faults(CheckLimits())
    assert len(faults) == len(says)
    assert all(fault.startswith(part) for fault, part in zip(faults, says)), faults


def test_words_may_grow_over_loud_sound_and_single_words_may_be_elsewhere() -> None:
    loud = np.ones(FRAMES, np.bool_)
    start, grown = segments(STARTS + 10, STARTS + 40), segments(STARTS + 6, STARTS + 44)
    comparison = compared({0: start}, {0: grown}, {0: loud})
    assert comparison.adapted.covered > comparison.start.covered
    assert comparison.faults(CheckLimits()) == ()
    ends = STARTS + 40
    ends[7] = STARTS[7] + 32
    one = beside(STARTS + 10, ends)
    assert one.longer == 0.0
    assert one.faults(CheckLimits()) == ()
    lost = compared({0: start, 1: start}, {0: start}, {0: loud})
    assert lost.faults(CheckLimits()) == ("1 of 2 utterances have no path any more",)


def test_loud_is_what_stands_out_of_the_noise(tmp_path: Path) -> None:
    for said in make_letters(tmp_path, 3, noise=0.03):
        samples = load_audio(said.path, features.SAMPLE_RATE).samples
        loud = loud_frames(features.log_mel(samples, 0, features.frame_count(len(samples))))
        words = np.zeros(len(loud), np.bool_)
        for start, end in zip(said.starts, said.ends):
            words[start // features.HOP_SAMPLES : -(-end // features.HOP_SAMPLES)] = True
        assert loud[words].mean() > 0.9
        assert loud[~words].mean() < 0.02


def test_a_model_of_the_phones_of_all_languages_is_checked(tmp_path: Path) -> None:
    model = tiny_folder(tmp_path / "universal", ("<blank>", *IPA_PHONES))
    network = embedded_folder("universal") / "confidence.safetensors"
    shutil.copy(network, model)
    make_letters(tmp_path, 12)
    loose = CheckLimits(1e6, 1e6, 1e6, 1e6)
    quick = Adaptation(
        language="it", check=loose, training=replace(Adaptation().training, epochs=1)
    )
    result = adapt(quick, str(model), options(tmp_path, tmp_path / "mine"))
    comparison = result.comparison
    assert result.inventory.units == "ipa"
    assert (result.folder / network.name).read_bytes() == network.read_bytes()
    assert comparison.words == 3 * comparison.utterances
    assert 0 < comparison.adapted.covered <= 1
