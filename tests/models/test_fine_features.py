"""Fine log-mels: a frame is the same whatever is asked for beside it, and loudness makes no difference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from made_sounds import babble

from ctc_align.models.edge_network import FINE_MELS, FINE_SILENCE, fine_features, fine_frame_count
from ctc_align.types import Audio


@pytest.fixture(scope="module")
def audio() -> Audio:
    return Audio(babble(14.0), 16000)


@pytest.mark.parametrize(("first", "last"), [(0, 1), (399, 402), (1500, 2100), (2799, 2800)])
def test_a_frame_is_the_same_whatever_others_are_asked_for(audio: Audio, first: int, last: int) -> None:
    whole = fine_features(audio, 0, fine_frame_count(audio))
    assert torch.equal(fine_features(audio, first, last), whole[first:last])


def test_beyond_the_ends_it_is_silent(audio: Audio) -> None:
    count = fine_frame_count(audio)
    around = fine_features(audio, -3, count + 2)
    assert around.shape == (count + 5, FINE_MELS)
    assert (around[:3] == FINE_SILENCE).all()
    assert (around[-2:] == FINE_SILENCE).all()
    assert (fine_features(audio, count + 5, count + 9) == FINE_SILENCE).all()


def test_gain_does_not_matter(audio: Audio) -> None:
    softer = Audio((0.05 * audio.samples).astype(np.float32), audio.sample_rate)
    np.testing.assert_allclose(fine_features(softer, 0, 500), fine_features(audio, 0, 500), atol=2e-3)
