"""The model inside the package on real speech: what is promised of it, on few recordings."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import numpy as np
import pytest
import soundfile
import torch
from alignment_checks import check

from ctc_align.alignment.aligner import Aligner
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.models import embedded_folder
from ctc_align.models.catalogue import model_languages
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.types import Alignment

DEMO = Path(__file__).resolve().parents[2] / "ctc_align" / "demo"
TEXT = (DEMO / "demo.txt").read_text("utf-8")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return load_audio(DEMO / "demo.flac", 16000).samples


@pytest.fixture(scope="module")
def demo(english: Aligner) -> Alignment:
    return english.align(DEMO / "demo.flac", TEXT)


def moved_ms(one: Alignment, two: Alignment) -> list[float]:
    """How far each word edge of one lies from the other's."""
    assert [word.text for word in one.words] == [word.text for word in two.words]
    return [
        1000 * abs(a - b)
        for left, right in zip(one.words, two.words)
        for a, b in ((left.start_s, right.start_s), (left.end_s, right.end_s))
        if a is not None and b is not None
    ]


def level(samples: np.ndarray, peak_db: float) -> np.ndarray:
    return (samples / np.abs(samples).max() * 10 ** (peak_db / 20)).astype(np.float32)


def test_the_demo(demo: Alignment) -> None:
    check(demo)
    assert all(word.status == "aligned" for word in demo.words)
    assert (demo.model, demo.token_kind, demo.unknown, demo.frame_shift_s) == (
        "english",
        "phones",
        0,
        0.01,
    )
    assert demo.loss_per_token < 2.0


def test_the_loss_is_torchs(english: Aligner, demo: Alignment) -> None:
    """The tokens that were aligned, in torch's own loss, on the same log-probs."""
    emissions = english.emissions(DEMO / "demo.flac")
    ids = [
        emissions.vocab.index(token.token.rstrip("012"))
        for word in demo.words
        for token in word.tokens
    ]
    expected = torch.nn.functional.ctc_loss(
        emissions.log_probs.double()[:, None],
        torch.tensor([ids]),
        [len(emissions.log_probs)],
        [len(ids)],
        reduction="sum",
    )
    assert demo.loss == pytest.approx(float(expected), rel=1e-5)
    assert english.score(DEMO / "demo.flac", TEXT) == demo.loss


STEP_MS = 0.01
"""Times are whole numbers of such steps. Samples of another level are rounded otherwise."""


@pytest.mark.parametrize("peak_db", [-60.0, -40.0, -3.0])
def test_quiet_and_loud_speech_align_alike(english, demo, samples, peak_db, tmp_path) -> None:
    soundfile.write(tmp_path / "a.wav", level(samples, peak_db), 16000, subtype="FLOAT")
    assert max(moved_ms(demo, english.align(tmp_path / "a.wav", TEXT))) < 2 * STEP_MS
    soundfile.write(tmp_path / "b.wav", level(samples, peak_db), 16000, subtype="PCM_24")
    assert median(moved_ms(demo, english.align(tmp_path / "b.wav", TEXT))) <= 10.0


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_other_rates_align_nearly_alike(
    english: Aligner, demo: Alignment, samples: np.ndarray, rate: int
) -> None:
    import soxr

    there = english.align((soxr.resample(samples, 16000, rate), rate), TEXT)
    check(there)
    assert median(moved_ms(demo, there)) <= (20.0 if rate < 16000 else 0.0)


def test_silence_around_the_speech_moves_nothing_much(
    english: Aligner, demo: Alignment, samples: np.ndarray
) -> None:
    second = np.zeros(16000, np.float32)
    there = english.align((np.concatenate((second, samples, second)), 16000), TEXT)
    check(there)
    starts = [word.start_s - 1.0 for word in there.words if word.start_s is not None]
    assert median(abs(a - (word.start_s or 0.0)) for a, word in zip(starts, demo.words)) <= 0.02


def test_the_length_of_a_chunk_changes_no_bit(english, samples, monkeypatch) -> None:
    long = np.tile(samples, 5)
    whole = english.emissions((long, 16000))
    monkeypatch.setattr(english.model, "pieces_at_once", 1)
    pieces = english.emissions((long, 16000))
    assert torch.equal(pieces.log_probs, whole.log_probs)


# The model `universal` as it is in the package.

LANGUAGES = [
    "ar",
    "de",
    "el",
    "es",
    "fa",
    "fr",
    "hi",
    "it",
    "ja",
    "ka",
    "pt",
    "ru",
    "ta",
    "th",
    "tr",
    "vi",
    "zh-CN",
]


def test_its_phones_its_size_and_its_languages() -> None:
    folder = embedded_folder("universal")
    assert set(Aligner("universal").model.vocab[1:]) == set(IPA_PHONES)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000
    known = {row[1] for row in model_languages()[1]}
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
    """Of ten texts, by loss per token, for two clips of each language (Georgian was not in the
    training)."""
    folder = speech_data / "languages"
    rows = [
        json.loads(line) for line in (folder / "manifest.jsonl").read_text("utf-8").splitlines()
    ]
    clips = [
        row for row in rows if row["source"] == f"commonvoice_{language}" and len(row["text"]) > 10
    ][:10]
    aligner, texts = (
        Aligner("universal", settings=Settings(language=language)),
        [clip["text"] for clip in clips],
    )
    for place in (0, 1):
        scores = aligner.score_emissions(
            [aligner.emissions(str(folder / clips[place]["audio"]))], [texts]
        )[0]
        assert min(scores, key=lambda score: score.loss_per_token).index == place
