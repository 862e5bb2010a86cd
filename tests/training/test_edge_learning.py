"""Labels as places of edges, and a network that learns from them where edges are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_edges import FRAME_S, made_utterance, roughly, untrained

from ctc_align.alignment.refined_edges import edges_of, utterance_sounds
from ctc_align.models.calibration import Calibration
from ctc_align.models.edge_network import edge_network_bytes
from ctc_align.training import edge_learning
from ctc_align.training.edge_learning import (
    UNLABELLED_WEIGHT,
    LearntEdges,
    edge_examples,
    labelled_edges_s,
    learn_edges,
)
from ctc_align.training.labelled_speech import SpokenUtterance

LATE_S = 0.02
MOVED = Calibration(offsets_ms={("silence", "silence"): 0.0})
"""Hand labels have set these constants, so pauses do not."""


def places(utterance: SpokenUtterance, begin: np.ndarray) -> np.ndarray:
    """Where labels put the edges: starts of words, inner edges, ends of words, in the order of
    time."""
    drawn = roughly(begin, 1)
    words = utterance_sounds(utterance.tokens)[2]
    return labelled_edges_s(utterance, drawn, edges_of(drawn.start, drawn.end, words))


def test_what_labels_say_of_edges() -> None:
    utterance, begin = made_utterance("a", "anna", 1, late_s=LATE_S)
    found = places(utterance, begin)
    truth_s = begin * FRAME_S
    # of each word its start, the edge inside it, and its end
    np.testing.assert_allclose(found[0::3], truth_s[0:-1:2])
    np.testing.assert_allclose(found[1::3], truth_s[1::2] + LATE_S)
    np.testing.assert_allclose(found[2::3], truth_s[2::2])
    whole, begin = made_utterance("a", "anna", 1)
    phones = list(whole.labelled.phones)
    phones[1] = replace(phones[1], start_s=phones[1].start_s + 0.02)
    phones[3] = replace(phones[3], label="M")
    found = places(replace(whole, labelled=replace(whole.labelled, phones=phones)), begin)
    assert np.isnan(found[1::3]).tolist() == [True, True, False, False, False, False]


def test_what_has_no_label_says_as_it_is_drawn() -> None:
    bare, begin = made_utterance("a", "anna", 1, phones=False)
    found = places(bare, begin)
    assert np.isnan(found[1::3]).all()
    assert not np.isnan(found[0::3]).any()
    examples = edge_examples([bare], [roughly(begin, 1)], untrained().shape)
    light = examples.weight < 1
    assert examples.weight[light].tolist() == pytest.approx([UNLABELLED_WEIGHT] * 6)
    assert np.abs(examples.offset[light]).max() <= 0.5


def learnt(count: int) -> tuple[LearntEdges, float]:
    """What is learnt of so many utterances of two speakers, and the mean error before, in ms."""
    made = [made_utterance(f"{k}", "ab"[k % 2], k, late_s=LATE_S) for k in range(count)]
    drawn = [roughly(begin, 50 + k) for k, (_, begin) in enumerate(made)]
    folds = np.arange(count) % 2
    before = np.concatenate(
        [np.abs(one.start - begin[:-1]) for one, (_, begin) in zip(drawn, made)]
    )
    found = learn_edges([each for each, _ in made], folds, lambda kept: (MOVED, drawn))
    return found, float(before.mean()) * FRAME_S * 1000


@pytest.mark.long
def test_a_network_learns_from_labels_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_learning, "FEWEST_STEPS", 60)
    found, before_ms = learnt(12)
    words, inner = np.array(found.words.errors_ms), np.array(found.phones.errors_ms)[1::4]
    assert before_ms > 10
    assert np.abs(words).mean() < 6
    # hums are labelled 20 ms after they begin
    assert np.abs(inner).mean() < 6
    assert 0.5 < found.within_sd < 0.85


@pytest.mark.long
def test_the_result_does_not_depend_on_how_many_are_trained_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge_learning, "MOST_STEPS", 10)
    monkeypatch.setattr(edge_learning, "FEWEST_STEPS", 10)
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(learnt(16)[0])
    finally:
        torch.set_num_threads(threads)
    assert edge_network_bytes(found[0].network) == edge_network_bytes(found[1].network)
