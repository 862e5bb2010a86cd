"""Confidence of tokens and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import ctc_align
from ctc_align.alignment.aligner import Aligner
from ctc_align.alignment.confidence import geometric_means, spike_confidence
from ctc_align.alignment.ctc_path import Spans

PROBS = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.1, 0.8, 0.1], [0.5, 0.1, 0.4]])


def spikes(*spans: tuple[int, int]) -> Spans:
    return Spans(*np.array(spans, np.int64).reshape(-1, 2).T)


@pytest.mark.parametrize("shift", [(0.0, 0.0, 0.0, 0.0), (3.0, -2.0, 100.0, 0.5)], ids=["normalised", "not normalised"])
def test_the_highest_posterior_over_the_spike(shift: tuple[float, ...]) -> None:
    scores = PROBS.log() + torch.tensor(shift)[:, None]
    found = spike_confidence(scores, (1, 2), spikes((1, 3), (3, 4)))
    np.testing.assert_allclose(found, [0.8, 0.4], rtol=1e-4 if any(shift) else 1e-6)
    assert spike_confidence(scores, (), spikes()).tolist() == []


def test_impossible_and_certain_are_zero_and_one() -> None:
    x = torch.tensor([[0.0, float("-inf")], [float("-inf"), 0.0]])
    assert spike_confidence(x, (1, 1), spikes((0, 1), (1, 2))).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(("tokens", "word"), [([0.25], 0.25), ([0.9, 0.4], 0.6), ([1.0, 0.0], 0.0), ([1.0, 1.0], 1.0)])
def test_a_word_is_the_geometric_mean_of_its_tokens(tokens: list[float], word: float) -> None:
    assert geometric_means(np.array(tokens), [0, len(tokens)]) == [pytest.approx(word)]


@pytest.mark.parametrize("edges", ["auto", "spikes"])
def test_words_are_no_misfits_where_no_network_has_judged_them(english: Aligner, edges: str) -> None:
    demo = Path(ctc_align.__file__).parent / "demo"
    emissions = english.emissions(demo / "demo.flac")
    judged = emissions if edges == "spikes" else replace(emissions, states=None)
    aligner = Aligner(device="cpu", settings=replace(english.settings, edges=edges))
    alignment = aligner.align(judged, (demo / "demo.txt").read_text("utf-8"))
    assert min(word.confidence or 0.0 for word in alignment.words) < 0.5
    assert alignment.fit is None
    assert {region.kind for region in alignment.regions} <= {"unexplained"}
