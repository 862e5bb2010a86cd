"""The recipe of the embedded model: read as it stands, and the same path as any other's, on a corpus of tones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_corpus import Lines, Made, make_corpus
from small_training import SMALL, options

from ctc_align.alignment.aligner import Aligner
from ctc_align.config import load_config
from ctc_align.errors import ConfigError
from ctc_align.models import embedded_folder, resolve_device
from ctc_align.models.convnet.convnet_model import load_folder
from ctc_align.training.acoustic_training import Training
from ctc_align.training.pipeline import train
from ctc_align.training.recipe import Recipe, Refining

TONES = replace(SMALL, name="tones", units="arpabet", language="en", fewest=5, dev_share=0.05)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("corpus")
    return folder, make_corpus(folder, utterances=50, dev=4)


@pytest.mark.long
def test_english_phones_from_recordings_to_a_model_that_aligns(corpus: tuple[Path, list[Made]], tmp_path: Path) -> None:
    folder, made = corpus
    lines = Lines()
    result = train(TONES, options(folder, tmp_path / "m", dev=str(folder / "dev.jsonl")), lines)
    assert result.corpus.dev.tolist() == [46, 47, 48, 49]
    aligner = Aligner(str(result.folder), device="cpu")
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
    assert float(np.median(errors)) <= 0.02
    assert {"reading audio", "segmenting", "training"} <= set(lines.stages)


def test_the_recipe_of_the_embedded_model() -> None:
    recipe = load_config(Recipe, "english", {})
    assert (recipe.name, recipe.units, recipe.language) == ("english", "arpabet", "en")
    embedded = load_folder(embedded_folder("english"), resolve_device("cpu")).description
    assert recipe.shape(16.5, len(embedded.vocab) - 1) == embedded.shape
    assert (recipe.prior_scale, recipe.silence_bonus) == (embedded.prior_scale, embedded.silence_bonus)
    training = recipe.resolved(16.5)
    assert (training.epochs, training.batch_s, training.warmup_steps, training.ctc_weight) == (12, 150.0, 300, 0.5)


def test_minutes_are_shared_out_between_the_stages() -> None:
    training = replace(Training(), epochs=6, minutes=8.0)
    first, second = replace(Recipe(), refining=Refining(epochs=2)).stages(training, 10.0)
    assert (first.epochs, first.minutes, second.epochs, second.minutes) == (6, 6.0, 2, 2.0)
    assert second.warmup_steps == 2  # a tenth of its steps
    first, second = Recipe().stages(training, 10.0)
    assert (first, second.epochs) == (training, 0)
    assert replace(Recipe(), refining=Refining(epochs=2, warmup_steps=7)).stages(training, 10.0)[1].warmup_steps == 7


@pytest.mark.parametrize("line", ["epochs = -1", "mixtures = 3", "mixtures = 0", "warmup_steps = -5", "scale = 0.0"])
def test_a_second_segmentation_that_cannot_be(tmp_path: Path, line: str) -> None:
    (tmp_path / "r.toml").write_text(f"[refining]\n{line}\n")
    with pytest.raises(ConfigError, match=f"refining.{line.split()[0]}"):
        load_config(Recipe, str(tmp_path / "r.toml"), {})
