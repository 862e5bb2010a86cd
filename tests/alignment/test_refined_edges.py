"""Edges, windows around them, and what a network's chances make of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_edges import made_utterance, roughly, untrained

from ctc_align.alignment.ctc_path import Spans
from ctc_align.alignment.refined_edges import (
    HELD_S,
    LEAST_SCORE,
    SCORE_CENTRE,
    SCORE_SCALE,
    SILENT,
    EdgeScene,
    edges_of,
    edges_out_of_pauses,
    medians_of,
    refine_edges,
    sound_scores,
)
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.models.edge_network import (
    FARTHEST,
    FINE_MELS,
    FINE_SHIFT_S,
    INSIDE,
    POSITIONS,
    REACH,
    WORD_END,
    WORD_START,
    EdgeNetwork,
    EdgeNetworkShape,
    fine_features,
)
from ctc_align.training.labelled_speech import SpokenUtterance
from ctc_align.types import Audio, Emissions, Tokens


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


# Windows around edges against the same numbers taken one by one from the whole recording.

VOCAB = ("<blank>", "S", "AH", "T")
FRAMES = 2600


def emissions(parts: int) -> Emissions:
    """Made emissions of 26 s, with `parts` states of a token."""
    chance = torch.Generator().manual_seed(5)
    log_probs = (4 * torch.randn(FRAMES, 4, generator=chance)).log_softmax(1)
    states = 4 * torch.randn(FRAMES, 3 * parts + 1, generator=chance) if parts else None
    samples = np.random.default_rng(5).normal(size=FRAMES * 160).astype(np.float32)
    return Emissions(log_probs, VOCAB, frame_shift_s=0.01, states=states, sound=Audio(samples, 16000))


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_windows_hold_what_the_whole_recording_holds(parts: int) -> None:
    """At both ends of the recording, and where 20 s are between two words."""
    made, ids = emissions(parts), np.array([1, 2, 3, 1])
    edges = edges_of(np.array([0.2, 9, 30, 2550.4]), np.array([9, 21.3, 44, 2599.9]), np.array([0, 0, 1, 2]))
    scene = EdgeScene(made, ids, edges, EdgeNetwork(EdgeNetworkShape(("AH", "S"))))
    windows = scene.windows(0, len(edges))
    fine = scene.centres()[:, None] + np.arange(-REACH, REACH + 1)
    low = int(fine.min())
    features = fine_features(made.sound, low, int(fine.max()) + 1).numpy()
    assert np.array_equal(windows.values[:, :FINE_MELS].numpy(), features[fine - low].transpose(0, 2, 1))
    stop = scene.network.index_of("T")
    assert windows.left.tolist() == [2, 1, 0, 2, stop, 2, 1]
    assert windows.right.tolist() == [1, 0, 2, stop, 2, 1, 2]
    frame = np.clip(fine * FINE_SHIFT_S / 0.01 - 0.5, 0, None)
    scores = sound_scores(made, ids, edges.left, edges.right, frame)
    rows = (made.log_probs if made.states is None else made.states).log_softmax(1).double().numpy()
    silence = rows[:, -1 if parts else 0]
    for edge in range(len(edges)):
        sides = []
        for sound in (edges.left[edge], edges.right[edge]):
            own = rows[:, [ids[sound]]] if not parts else rows[:, (ids[sound] - 1) * parts : ids[sound] * parts]
            sides.append(silence[:, None] if sound < 0 else own)
        left, right = sides
        wholes = [np.logaddexp.reduce(side, axis=1) for side in sides]
        for channel, track in enumerate((*wholes, silence, np.maximum(left[:, -1], right[:, 0]))):
            plain = np.interp(frame[edge], np.arange(FRAMES), np.clip(track, LEAST_SCORE, 0.0))
            assert np.abs(scores[edge, channel] - (plain + SCORE_CENTRE) * SCORE_SCALE).max() < 1e-5


# Edges beside pauses, brought out of the quiet by the level of the sound.

RATE, SHIFT_S = 16000, 0.01
SPOKEN_S = ((0.5, 1.0), (1.4, 2.0))
"""Where the sound of the two words is, of two tokens each."""
EARLY_S = LATE_S = 0.12


def drawn(pause_db: float, first_frame_s: float = 0.0) -> tuple[Emissions, Tokens, Spans]:
    """Return a recording whose pauses are so much quieter than its words, and edges that lie far out in them."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal(round(2.5 * RATE)) * 0.1 * 10 ** (-pause_db / 20)
    for start_s, end_s in SPOKEN_S:
        place = slice(round(start_s * RATE), round(end_s * RATE))
        samples[place] += 0.1 * rng.standard_normal(place.stop - place.start)
    audio = Audio(samples.astype(np.float32), RATE)
    emissions = Emissions(
        torch.zeros(250, 3), ("", "a", "b"), SHIFT_S, sound=audio, duration_s=2.5, first_frame_s=first_frame_s
    )
    edges_s = np.array([0.5 - EARLY_S, 0.75, 0.75, 1.0 + LATE_S, 1.4 - EARLY_S, 1.7, 1.7, 2.0 + LATE_S])
    frames = (edges_s - first_frame_s) / SHIFT_S
    spreads = np.ones(4)
    return (
        emissions,
        Tokens((1, 2, 1, 2), ("a", "b", "a", "b"), (0, 0, 1, 1)),
        Spans(frames[::2], frames[1::2], spreads, spreads),
    )


def seconds(edges: np.ndarray, emissions: Emissions) -> np.ndarray:
    return np.asarray(edges * SHIFT_S + emissions.first_frame_s)


@pytest.mark.parametrize("first_frame_s", [0.0, -0.02])
def test_words_end_where_the_sound_does(first_frame_s: float) -> None:
    emissions, tokens, before = drawn(40.0, first_frame_s)
    after = edges_out_of_pauses(emissions, tokens, before)
    start, end = seconds(after.start, emissions), seconds(after.end, emissions)
    for word, (start_s, end_s) in enumerate(SPOKEN_S):
        assert start[2 * word] == pytest.approx(start_s - HELD_S, abs=0.011)
        assert end[2 * word + 1] == pytest.approx(end_s + HELD_S, abs=0.011)
        assert end[2 * word] == start[2 * word + 1] == pytest.approx(seconds(before.end, emissions)[2 * word])


def test_in_a_loud_pause_nothing_moves() -> None:
    emissions, tokens, before = drawn(15.0)
    after = edges_out_of_pauses(emissions, tokens, before)
    np.testing.assert_allclose(after.start, before.start)
    np.testing.assert_allclose(after.end, before.end)


def test_a_word_that_is_not_to_be_heard_stays() -> None:
    """Where no sound is near, the level knows nothing of its edges."""
    emissions, tokens, _ = drawn(40.0)
    quiet = Spans(np.array([105.0, 110.0, 128.0, 170.0]), np.array([110.0, 120.0, 170.0, 212.0]))
    after = edges_out_of_pauses(emissions, tokens, quiet)
    assert (after.start[0], after.end[1]) == (105.0, 120.0)
