"""Edges, windows around them, and what a network's chances make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from made_edges import made_utterance, roughly, untrained

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import SILENT, edges_of, medians_of, refine_edges
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.models.edge_network import FARTHEST, INSIDE, POSITIONS, WORD_END, WORD_START, EdgeNetwork
from ctc_align.training.labelled_speech import SpokenUtterance


def habitual(place: int) -> EdgeNetwork:
    """A network that puts every edge `place` fine frames from where it was."""
    network = untrained()
    with torch.no_grad():
        for weight in network.parameters():
            weight.zero_()
        network.habit.bias[place + FARTHEST] = 50.0
    return network


def refined(utterance: SpokenUtterance, drawn: Spans, network: EdgeNetwork) -> Spans:
    return batching.run([refine_edges(utterance.emissions, utterance.tokens, drawn, network)])[0]


def test_an_edge_is_one_inside_a_word_and_two_between_words_and_beside_a_pause() -> None:
    start, end = np.array([1.0, 4.0, 9.0, 15.0]), np.array([4.0, 9.0, 12.0, 20.0])
    found = edges_of(start, end, np.array([0, 0, 1, 1]))
    assert found.frames.tolist() == [1, 4, 9, 9, 12, 15, 20]
    assert found.left.tolist() == [SILENT, 0, 1, 1, 2, SILENT, 3]
    assert found.right.tolist() == [0, 1, 2, 2, SILENT, 3, SILENT]
    assert found.role.tolist() == [INSIDE, INSIDE, WORD_END, WORD_START, INSIDE, INSIDE, INSIDE]
    np.testing.assert_array_equal(found.frames[found.begins], start)
    np.testing.assert_array_equal(found.frames[found.ends], end)


def test_medians_lie_between_places_and_deviations_say_how_wide_chances_are() -> None:
    places = np.arange(POSITIONS) - FARTHEST
    chances = np.exp(-0.5 * ((places - 3.3) / 2.0) ** 2)[None]
    median, sd = medians_of(chances / chances.sum())
    np.testing.assert_allclose(median, 3.3, atol=0.05)
    np.testing.assert_allclose(sd, 2.0, atol=0.1)


def test_edges_go_where_the_network_says() -> None:
    utterance, begin = made_utterance("a", "anna", 1)
    drawn = Spans(np.round(begin[:-1]), np.round(begin[1:]))
    found = refined(utterance, drawn, habitual(4))
    np.testing.assert_allclose(found.start - drawn.start, 2.0, atol=1e-6)
    assert found.start_sd is not None
    assert (found.start_sd > 0).all()


def test_next_to_nothing_between_words_is_nothing_but_a_long_pause_stays() -> None:
    utterance, begin = made_utterance("a", "anna", 1)
    begin = np.round(begin)
    start, end = begin[:-1].copy(), begin[1:].copy()
    start[2] += 1  # 10 ms after the end of the first word
    start[4] += 9
    found = refined(utterance, Spans(start, end), habitual(0))
    assert found.start[2] == found.end[1] == (start[2] + end[1]) / 2
    np.testing.assert_allclose(found.start[4] - found.end[3], 9)


def test_beside_a_wildcard_edges_stay() -> None:
    utterance, begin = made_utterance("a", "anna", 1)
    drawn = Spans(np.round(begin[:-1]), np.round(begin[1:]))
    ids = list(utterance.tokens.ids)
    ids[5] = WILDCARD
    wild = replace(utterance, tokens=replace(utterance.tokens, ids=tuple(ids)))
    found = refined(wild, drawn, habitual(4))
    moved = found.start - drawn.start
    np.testing.assert_allclose(moved[[5, 6]], 0.0, atol=1e-6)
    np.testing.assert_allclose(np.delete(moved, [5, 6]), 2.0, atol=1e-6)


def test_an_utterance_is_the_same_alone_and_in_a_batch() -> None:
    network = untrained()
    made = [made_utterance(str(seed), "anna", seed) for seed in range(4)]
    drawn = [roughly(begin, 9) for _, begin in made]
    each = [u for u, _ in made]
    together = batching.run([refine_edges(u.emissions, u.tokens, d, network) for u, d in zip(each, drawn)])
    for utterance, before, after in zip(each, drawn, together):
        alone = refined(utterance, before, network)
        np.testing.assert_array_equal(alone.start, after.start)
        np.testing.assert_array_equal(alone.end_sd, after.end_sd)
