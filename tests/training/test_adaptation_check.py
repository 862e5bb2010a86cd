"""The check of an adapted model: faults are planted in its segments."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from made_corpus import make_letters
from made_models import tiny_folder
from small_training import options

from ctc_align.alignment.ctc_path import Spans
from ctc_align.audio.loading import load_segment
from ctc_align.models import embedded_folder
from ctc_align.models.convnet import features
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.training.adaptation import Adaptation, adapt, more_silence
from ctc_align.training.adaptation_check import CheckLimits, OwnSegments, SegmentComparison, compared, loud_frames
from ctc_align.training.corpus_data import Spoken
from ctc_align.training.frame_labels import Labels

FRAMES, WORDS = 1000, 20
STARTS = np.arange(WORDS) * 50
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
    """Words as given beside those of a start at 10 to 40 of every 50 frames, all loud but two frames at each end."""
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


def test_silence_that_a_corpus_has_more_of_is_counted_in_log_odds() -> None:
    row = np.array([0, 1, 2, 2, 2, 2, 2, 2], np.int16)
    labels = Labels([row], [row], [row])
    log_priors = torch.log(torch.tensor([0.4, 0.4, 0.2]))
    assert more_silence(labels, np.array([0]), log_priors) == pytest.approx(math.log(3 * 4))


def test_loud_is_what_stands_out_of_the_noise(tmp_path: Path) -> None:
    for said in make_letters(tmp_path, 3, noise=0.03):
        samples = load_segment(said.path, features.SAMPLE_RATE).samples
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
    quick = Adaptation(language="it", check=loose, training=replace(Adaptation().training, epochs=1))
    result = adapt(quick, str(model), options(tmp_path, tmp_path / "mine"))
    comparison = result.comparison
    assert result.inventory.units == "ipa"
    assert (result.folder / network.name).read_bytes() == network.read_bytes()
    assert comparison.words == 3 * comparison.utterances
    assert 0 < comparison.adapted.covered <= 1
