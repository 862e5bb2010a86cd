"""Whether a text is spoken: judged by what the sound can show of a right text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from made_models import LETTERS, spelt

import ctc_align
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.presence import TextStretch, is_contradicted
from ctc_align.audio.loading import load_audio
from ctc_align.kernels import batching
from ctc_align.types import Emissions

DEMO = Path(ctc_align.__file__).parent / "demo"
RIGHT = "the quick brown fox jumps over a lazy dog"
OTHER = "six wizards pack my box with jugs of milk"
LATER = "we saw them leave at dawn and nobody came back to the farm that winter"


def heard(text: str, nats: float, seed: int = 0) -> np.ndarray:
    """Return log-probs (T, C) of a text whose letters stand out of noise by so many nats."""
    path = spelt(text)
    scores = np.random.default_rng(seed).normal(size=(len(path), len(LETTERS)))
    scores[:, 0] += 1.0
    ids = [LETTERS.index(token) if token else 0 for token in path]
    scores[np.arange(len(path)), ids] += nats
    return torch.log_softmax(torch.from_numpy(scores).float(), 1).numpy()


def contradicts(log_probs: np.ndarray, text: str) -> bool:
    ids = np.array([LETTERS.index(letter) for letter in text.replace(" ", "|")])
    stretch = TextStretch(ids, 0, len(log_probs), 0, len(ids))
    return batching.run([is_contradicted(log_probs, 0, [stretch], "auto")])[0]


@pytest.mark.parametrize("nats", [8.0, 4.0, 2.0])
def test_a_right_text_stands_and_another_is_contradicted(nats: float) -> None:
    log_probs = heard(RIGHT, nats)
    assert (contradicts(log_probs, RIGHT), contradicts(log_probs, OTHER)) == (False, True)


def test_where_hardly_anything_can_be_heard_no_text_is_contradicted_and_in_nothing_any_is() -> None:
    """Noise without speech has some information, too, but less than speech has for each token."""
    stands = [contradicts(heard(RIGHT, 1.0, seed), RIGHT) for seed in range(5)]
    assert not any(stands)
    silence = torch.log_softmax(torch.eye(len(LETTERS))[:1].repeat(99, 1) * 12, 1).numpy()
    assert contradicts(silence, RIGHT)


@pytest.mark.parametrize("text", ["no " * 6, "nana " * 4])
def test_a_text_that_repeats_itself_is_not_absent_for_that(text: str) -> None:
    assert not contradicts(heard(text, 4.0), text)
    assert not contradicts(heard(OTHER, 4.0), text)


def through_radio(samples: np.ndarray, seed: int) -> np.ndarray:
    """Return samples (N,) at 16 kHz in a narrow band, with as much noise as speech."""
    hertz = np.fft.rfftfreq(len(samples), 1 / 16000)
    inside = (hertz > 400) & (hertz < 1900)
    noise = np.random.default_rng(seed).normal(size=len(samples))
    speech, noise = (np.fft.irfft(np.fft.rfft(x) * inside, len(x)) for x in (samples, noise))
    return (speech + noise * np.sqrt(np.mean(speech**2) / np.mean(noise**2))).astype(np.float32)


def test_words_through_a_radio_beside_clear_ones_are_kept() -> None:
    """The search finds hardly any of them."""
    samples = load_audio(DEMO / "demo.flac", 16000).samples
    text = (DEMO / "demo.txt").read_text("utf-8").strip()
    sound = np.concatenate((samples, through_radio(samples, seed=0)))
    english = Aligner("english", device="cpu")
    alignment = english.align((sound, 16000), f"{text}\n{text}")
    assert alignment.skipped == 0
    first, second = (word.start_s or 0.0 for word in alignment.words[:: len(alignment.words) // 2])
    assert second - first == pytest.approx(len(samples) / 16000, abs=0.3)


def test_other_words_beside_clear_ones_are_not_kept() -> None:
    clear = np.concatenate((heard(RIGHT, 8.0), heard(LATER, 8.0)))
    emissions = Emissions(torch.from_numpy(clear), LETTERS, 0.02)
    assert Aligner(None).align(emissions, f"{RIGHT} {OTHER}").skipped == len(OTHER.split())
