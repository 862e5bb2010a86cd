"""How well a transcript fits its recording, and where the two disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from alignment_checks import check

import ctc_align
from ctc_align.alignment import confidence
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.fit import NOT_HEARD, fit_of, regions_of
from ctc_align.audio.loading import load_audio
from ctc_align.config import Settings
from ctc_align.models.confidence_network import FitLimits
from ctc_align.types import AlignedToken, AlignedWord

DEMO = Path(ctc_align.__file__).parent / "demo"
LIMITS = FitLimits(good_loss=2.0, doubtful_loss=3.0, good_share=0.9, doubtful_share=0.6, none_share=0.1)


def words_of(confidences: Sequence[float], *, each_s: float = 0.4) -> list[AlignedWord]:
    """Words of four tokens in a row, `each_s` long."""
    token = AlignedToken("a", 0.0, 0.1, 0.5)
    return [
        AlignedWord("word", "word", 5 * i, 5 * i + 4, "aligned", i * each_s, (i + 1) * each_s, confidence, (token,) * 4)
        for i, confidence in enumerate(confidences)
    ]


@pytest.mark.parametrize(
    ("confidences", "loss", "fit"),
    [
        ([0.9] * 10, 1.0, "good"),
        ([0.9] * 10, 2.5, "doubtful"),
        ([0.9] * 8 + [0.1] * 2, 1.0, "doubtful"),
        ([0.9] * 10, 3.5, "poor"),
        ([0.9] * 5 + [0.1] * 5, 2.5, "poor"),
        ([0.1] * 10, 1.9, "poor"),
        ([0.1] * 10, 2.5, "none"),
        ([0.1] * 2, 3.5, "poor"),
    ],
)
def test_fit_by_loss_and_by_the_share_of_likely_words(confidences: list[float], loss: float, fit: str) -> None:
    assert fit_of(words_of(confidences), (), loss, LIMITS) == fit


def test_a_transcript_that_lacks_much_of_what_is_said_does_not_fit_well() -> None:
    assert fit_of(words_of([0.9] * 10), [(4.0, 4.2)], 1.0, LIMITS) == "good"
    assert fit_of(words_of([0.9] * 10), [(4.0, 4.2), (5.0, 6.0)], 1.0, LIMITS) == "doubtful"


@pytest.mark.parametrize(
    ("confidences", "runs"),
    [
        ([0.9, 0.1, 0.9], []),
        ([0.9, 0.1, 0.1, 0.9], [(2, 3)]),
        ([0.1, 0.1, 0.9, 0.1], [(1, 4)]),
        ([0.1, 0.1, 0.9, 0.9, 0.1, 0.1], [(1, 2), (5, 6)]),
    ],
)
def test_words_in_a_row_that_are_unlikely_are_a_region(confidences: list[float], runs: list[tuple[int, int]]) -> None:
    regions = regions_of(words_of(confidences), ())
    assert [region.kind for region in regions] == ["misfit"] * len(runs)
    for region, (first, last) in zip(regions, runs):
        assert f"words {first}–{last} " in region.reason
        assert (region.char_start, region.char_end) == (5 * (first - 1), 5 * (last - 1) + 4)
        assert (region.start_s, region.end_s) == pytest.approx(((first - 1) * 0.4, last * 0.4))


def test_words_without_time_to_be_spoken_and_speech_without_words() -> None:
    regions = regions_of(words_of([0.1] * 3, each_s=0.12), [(2.0, 3.0, "speech")])
    assert [(region.kind, region.start_s) for region in regions] == [("not_spoken", 0.0), ("unexplained", 2.0)]
    assert regions[1].char_start is None


@pytest.fixture(scope="module")
def demo() -> tuple[np.ndarray, str]:
    return load_audio(DEMO / "demo.flac", 16000).samples, (DEMO / "demo.txt").read_text("utf-8").strip()


def test_an_exact_transcript_fits_well(english: Aligner, demo: tuple[np.ndarray, str]) -> None:
    alignment = english.align((demo[0], 16000), demo[1])
    assert (alignment.fit, alignment.regions, alignment.skipped) == ("good", (), 0)
    assert min(word.confidence or 0.0 for word in alignment.words) > 0.5


def test_confidence_does_not_depend_on_the_pieces_of_a_long_recording(
    english: Aligner, demo: tuple[np.ndarray, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = english.align((demo[0], 16000), demo[1])
    monkeypatch.setattr(confidence, "SUMMED_FRAMES", 64)
    assert english.align((demo[0], 16000), demo[1]).words == whole.words


def test_a_sentence_that_is_not_spoken_is_a_region(english: Aligner, demo: tuple[np.ndarray, str]) -> None:
    extra = "Nobody in the village remembered why the old bridge had been painted yellow."
    alignment = english.align((demo[0], 16000), f"{demo[1]} {extra}")
    check(alignment)
    assert alignment.fit in ("doubtful", "poor")
    (region,) = [region for region in alignment.regions if region.kind != "unexplained"]
    wanted = (len(demo[1]) + 1, len(alignment.text))
    # "text, or in 1999." before it was moved to make room.
    assert wanted[0] - 25 < (region.char_start or 0) <= wanted[0]
    assert region.char_end == wanted[1]


@pytest.mark.parametrize("kind", ["noise", "chords"])
def test_without_speech_no_word_has_a_time(english: Aligner, demo: tuple[np.ndarray, str], kind: str) -> None:
    at_s = np.arange(7 * 16000) / 16000
    noise = np.random.default_rng(0).standard_normal(len(at_s)) * 0.05
    chords = sum(np.sin(2 * np.pi * hertz * at_s) * np.exp(-(at_s % 0.5) * 4) for hertz in (220, 277, 330, 440, 554))
    sound = (noise if kind == "noise" else 0.05 * np.asarray(chords)).astype(np.float32)
    alignment = english.align((sound, 16000), demo[1])
    check(alignment)
    assert alignment.fit == "none"
    assert {word.status for word in alignment.words} == {"skipped"}
    (region,) = alignment.regions
    assert (region.kind, region.char_start, region.char_end) == ("misfit", 0, len(demo[1]))


def test_an_exact_match_places_all_words_without_confidence(english: Aligner, demo: tuple[np.ndarray, str]) -> None:
    exact = Aligner(device="cpu", settings=replace(english.settings, match="exact"))
    noise = (np.random.default_rng(0).standard_normal(7 * 16000) * 0.05).astype(np.float32)
    alignment = exact.align((noise, 16000), demo[1])
    check(alignment)
    assert alignment.fit == "none"
    assert {word.status for word in alignment.words} == {"aligned"}
    assert max(word.confidence or 0.0 for word in alignment.words) < 0.1
    assert Settings().match == "auto"


def test_a_text_of_another_recording_is_told_where_there_are_log_probs_alone(english: Aligner) -> None:
    heard = replace(english.emissions(DEMO / "demo.flac"), states=None)
    aligner = Aligner(None)
    other = "Nobody knows why seven old ships never came back to this harbour, or who was on board."
    assert [region.reason for region in aligner.align(heard, other).regions[:1]] == [NOT_HEARD]
    assert not aligner.align(heard, (DEMO / "demo.txt").read_text("utf-8")).regions
