"""The model `universal` as it is in the package."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ctc_align
from ctc_align.alignment.aligner import Aligner
from ctc_align.config import Settings
from ctc_align.models import embedded_folder
from ctc_align.models.catalogue import model_languages
from ctc_align.text.phone_sets import IPA_PHONES

DEMO = Path(ctc_align.__file__).parent / "demo"
LANGUAGES = ["ar", "de", "el", "es", "fa", "fr", "hi", "it", "ja", "ka", "pt", "ru", "ta", "th", "tr", "vi", "zh-CN"]


def test_its_phones_its_size_and_its_languages() -> None:
    folder = embedded_folder("universal")
    assert set(Aligner("universal").model.vocab[1:]) == set(IPA_PHONES)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000
    known = {language.code for language in model_languages()[1]}
    assert {*LANGUAGES, "nl", "sw", "ro"} - known == {"sw"}, "Swahili is read by general rules"


def test_english_is_cut_as_by_the_english_model() -> None:
    audio, text = DEMO / "demo.flac", (DEMO / "demo.txt").read_text("utf-8")
    english = Aligner("english").align(audio, text).words
    universal = Aligner("universal", settings=Settings(language="en")).align(audio, text).words
    edges = [[(word.start_s, word.end_s) for word in words] for words in (english, universal)]
    assert np.abs(np.diff(np.array(edges), axis=0)).mean() < 0.025


@pytest.mark.data
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_own_text_of_a_clip_is_the_likeliest(language: str, speech_data: Path) -> None:
    """Of ten texts, by loss per token, for two clips of each language (Georgian was not in the training)."""
    folder = speech_data / "languages"
    rows = [json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()]
    clips = [row for row in rows if row["source"] == f"commonvoice_{language}" and len(row["text"]) > 10][:10]
    aligner, texts = Aligner("universal", settings=Settings(language=language)), [clip["text"] for clip in clips]
    for place in (0, 1):
        scores = aligner.score_emissions([aligner.emissions(str(folder / clips[place]["audio"]))], [texts])[0]
        assert min(scores, key=lambda score: score.loss_per_token).index == place
