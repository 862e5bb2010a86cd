"""What is written as edges: shared, corrected by kind, in order whatever comes; and the constants
that correct them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_edges import made_utterance, roughly, untrained

from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.edges import SHORTEST_FRAMES, PauseRule, correct_edges, place_edges
from ctc_align.alignment.pause_edges import edges_beside_pauses, edges_by_convention
from ctc_align.alignment.refined_edges import (
    LEAST_SCORE,
    SCORE_CENTRE,
    SCORE_SCALE,
    SILENT,
    EdgeScene,
    edges_of,
    medians_of,
    refine_edges,
    sound_scores,
)
from ctc_align.config import Settings
from ctc_align.errors import ConfigError
from ctc_align.kernels import batching
from ctc_align.lattice import WILDCARD
from ctc_align.models import calibration
from ctc_align.models.calibration import (
    Calibration,
    as_toml,
    fit_convention,
    fit_logistic,
    fit_offsets,
    probability,
    proven_shift,
    read_calibration,
)
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
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.training.labelled_speech import SpokenUtterance
from ctc_align.types import Audio, Emissions, Tokens

PHONES = ("AH", "T", "S", "N", "L", "W", "CH", "x")


def tokens(labels: list[str], words: list[int] | None = None) -> Tokens:
    return Tokens(
        tuple(range(1, len(labels) + 1)), tuple(labels), tuple(words or range(len(labels)))
    )


def places(start: list[float], end: list[float]) -> Spans:
    sd = np.ones(len(start))
    return Spans(np.array(start), np.array(end), sd, sd)


def test_where_sounds_touch_or_a_pause_parts_them() -> None:
    spans = Spans(np.array([2, 10, 20]), np.array([8, 15, 30]))
    soft = places([2.2, 10.4, 20.6], [8.1, 15.3, 30.0])
    drawn = correct_edges(spans, soft, tokens(["a", "b", "c"]), Calibration(), 40, PauseRule(4.0))
    # The first gap is short: the next sound's start is the edge of both. The second is a pause.
    assert drawn.start.tolist() == [2.2, 10.4, 20.6]
    assert drawn.end.tolist() == [10.4, 15.3, 30.0]
    drawn = correct_edges(Spans(np.array([0, 5]), np.array([5, 9])), places([0, 9.0], [1.0, 9.5]), tokens(["AH", "AH"]),
                 Calibration(), 20, PauseRule(4.0))  # fmt: skip
    assert drawn.end[0] == drawn.start[1] == 9.0
    spans = Spans(np.array([0, 5, 9]), np.array([4, 6, 12]))
    drawn = correct_edges(
        spans, None, tokens(["a", "|", "b"], [0, -1, 1]), Calibration(), 12, PauseRule(0.0)
    )
    assert (drawn.start[1], drawn.end[1]) == (4, 4)
    assert drawn.start_sd is None


@pytest.mark.parametrize(
    ("labels", "gap", "edges"),
    [
        (["AH", "T"], 5.9, "first"),  # A plosive's closure is its own,
        (["AH", "T"], 6.1, "both"),  # up to a length.
        (["N", "AH"], 8.9, "first"),  # So is the glottal closure before a vowel …
        (["N", "AH"], 9.1, "both"),
        (["AH", "AH"], 1.9, "second"),  # … but between vowels a silence is nobody's,
        (["AH", "AH"], 2.1, "both"),
        (["S", "AH"], 2.1, "both"),  # nor is it after noise.
        (["T", "S"], 5.9, "second"),  # What follows a plosive's burst is the plosive's.
        (["T", "S"], 6.1, "both"),
    ],
)
def test_how_short_a_pause_may_be_depends_on_the_sounds(
    labels: list[str], gap: float, edges: str
) -> None:
    end, start = 8.0, 8.0 + gap
    spans, soft = Spans(np.array([2, 20]), np.array([8, 30])), places([2.0, start], [end, 30.0])
    drawn = correct_edges(spans, soft, tokens(labels), Calibration(), 40, PauseRule(4.0))
    wanted = {"first": (end, end), "second": (start, start), "both": (end, start)}[edges]
    assert (drawn.end[0], drawn.start[1]) == pytest.approx(wanted)


def test_phones_of_ipa_are_of_the_kinds_of_english_ones_and_letters_of_none() -> None:
    spans, soft = Spans(np.array([2, 12]), np.array([8, 30])), places([2.0, 12.0], [8.0, 30.0])
    offsets = {("vowel", "stop"): 10.0, ("sound", "sound"): 20.0}
    for vocab, edge in ((("-", *IPA_PHONES), 9.0), (("-", "a", "d"), 14.0)):
        known = Calibration(offsets_ms=offsets).at(0.01, vocab)
        drawn = correct_edges(spans, soft, tokens(["a", "d"]), known, 40, PauseRule(4.5))
        assert (drawn.end[0], drawn.start[1]) == pytest.approx((edge, edge))


def test_between_spikes_a_short_gap_is_shared_out() -> None:
    spikes = Spans(np.array([2, 12, 40]), np.array([4, 14, 42]))
    drawn = correct_edges(
        spikes, None, tokens(["AH", "T", "x"]), Calibration(), 60, PauseRule(20.0, spikes=True)
    )
    assert drawn.start.tolist() == [2, 8, 40]
    assert drawn.end.tolist() == [8, 14, 42]


@pytest.mark.parametrize(("blank_cost", "frames"), [(0.0, 1), (2.5, 3), (3.5, 5)])
def test_spikes_grow_where_blanks_cost(blank_cost: float, frames: int) -> None:
    """A token loses a nat a frame beside its spike, where the blank has none to lose but its
    cost."""
    log_probs = torch.full((21, 3), -30.0)
    log_probs[:, 0] = 0.0
    log_probs[10, 0] = -9.0
    log_probs[:, 1] = -1.0 - (torch.arange(21) - 10).abs()
    row = tokens(["AH"])
    emissions = Emissions(log_probs, ("<blank>", "AH", "T"), 0.01)
    spikes = batching.run([best_ctc_path(log_probs.numpy(), row.ids, 0)])[0][0]
    known = Calibration(blank_cost=blank_cost)
    for how in ("auto", "calibrated") if blank_cost else ("calibrated",):
        (drawn,) = batching.run(
            [place_edges(emissions, row, spikes, known, Settings(edges=how), "auto")]
        )
        assert drawn.end[0] - drawn.start[0] == frames
        assert drawn.start[0] + drawn.end[0] == 21
    (plain,) = batching.run(
        [place_edges(emissions, row, spikes, known, Settings(edges="spikes"), "auto")]
    )
    assert (plain.start[0], plain.end[0]) == (10, 11)


def test_offsets_by_kind_are_added_to_shared_edges_once() -> None:
    spans = Spans(np.array([0, 10, 30]), np.array([10, 20, 40]))
    soft = places([0, 10, 30], [10, 20, 40])
    known = Calibration(
        offsets_ms={("vowel", "stop"): 20.0, ("stop", "silence"): -10.0, ("silence", "sound"): 5.0}
    )
    drawn = correct_edges(spans, soft, tokens(["AH0", "T", "x"]), known, 60, PauseRule(4.0))
    assert drawn.end.tolist() == pytest.approx([12, 19, 40])
    assert drawn.start.tolist() == pytest.approx([0, 12, 30.5])
    half = correct_edges(spans, soft, tokens(["AH0", "T", "x"]), known.at(0.02), 60, PauseRule(4.0))
    assert half.start[1] == pytest.approx(11)


def test_symbols_of_ipa_have_kinds_in_any_vocabulary_of_them() -> None:
    labels = ["aʊ", "t͡ʃ", "ɫ", "kʰ", "<wb>", "ʁ"]
    known = Calibration(offsets_ms={("vowel", "affricate"): 4.0, ("sound", "sound"): 2.0})
    foreign, letters = (
        known.at(0.01, ("<blank>", *labels)),
        known.at(0.01, ("<blank>", *"abcdefgh")),
    )
    assert foreign.kinds(labels) == ["vowel", "affricate", "liquid", "stop", "sound", "fricative"]
    assert letters.kinds(["a", "b"]) == ["sound", "sound"]
    assert foreign.offset_frames("vowel", "affricate") == 0.4
    assert foreign.offset_frames("stop", "liquid") == 0.2, (
        "as files know it that have no kinds for them"
    )


numbers = st.floats(-30, 120, allow_nan=False)


@given(st.data())
@settings(max_examples=300)
def test_whatever_comes_edges_ascend_inside_the_audio(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    frames = data.draw(st.floats(count * 1.0, 90.0))
    cuts = np.sort(
        np.array(data.draw(st.lists(st.integers(0, 90), min_size=2 * count, max_size=2 * count)))
    )
    spans = Spans(cuts[::2], np.maximum(cuts[1::2], cuts[::2] + 1))
    soft = places(*(data.draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(2)))
    labels = data.draw(st.lists(st.sampled_from(PHONES), min_size=count, max_size=count))
    pairs = st.tuples(st.sampled_from(calibration.KINDS), st.sampled_from(calibration.KINDS))
    offsets = data.draw(st.dictionaries(pairs, st.floats(-500, 500), max_size=20))
    drawn = correct_edges(
        spans, soft, tokens(labels), Calibration(offsets_ms=offsets), frames, PauseRule(4.0)
    )
    assert drawn.start[0] >= 0
    assert drawn.end[-1] <= frames + 1e-9
    assert (drawn.end - drawn.start >= SHORTEST_FRAMES - 1e-9).all()
    assert (drawn.start[1:] >= drawn.end[:-1] - 1e-9).all()


def test_offsets_are_medians_drawn_towards_zero_and_weights_say_how_often_it_is_right() -> None:
    pair = ("stop", "vowel")
    assert fit_offsets([(pair, error) for error in (10.0, 12.0, 14.0, 500.0, 12.0)]) == {pair: -9.0}
    # Few are drawn towards what is usual in their place; a pause is another place.
    many = [(("vowel", "nasal"), 20.0)] * 95
    assert fit_offsets([*many, (pair, 20.0), (("silence", "stop"), 20.0)]) == {
        ("silence", "stop"): -6.11, pair: -19.17, ("vowel", "nasal"): -19.95,
    }  # fmt: skip
    assert fit_offsets([]) == {}
    rng = np.random.default_rng(0)
    rows = np.stack((np.ones(4000), rng.normal(size=4000)), 1)
    right = rng.random(4000) < 1 / (1 + np.exp(-(1.0 + 2.0 * rows[:, 1])))
    weights = fit_logistic(rows, right)
    assert weights == pytest.approx((1.0, 2.0), abs=0.2)
    sure = probability(rows, weights) > 0.9
    assert right[sure].mean() == pytest.approx(probability(rows[sure], weights).mean(), abs=0.02)
    # Nothing ever goes wrong: still finite.
    assert np.isfinite(fit_logistic(rows, np.ones(4000, np.bool_))).all()


def test_calibration_files_read_back_or_tell_all_their_faults(tmp_path: Path) -> None:
    weights = (1.0, -2.0, 0.0, 0.5, 0.1)
    whole = (
        "m",
        'a "few" files',
        0.3,
        1.25,
        0.5,
        0.1,
        weights,
        (1.0,) * 5,
        (2.0,) * 5,
        {("stop", "vowel"): -5.5},
    )
    for known in (Calibration(*whole), Calibration(blank_cost=3.0, spike_gap_s=0.2)):
        (tmp_path / "calibration.toml").write_text(as_toml(known), encoding="utf-8")
        assert read_calibration(tmp_path / "calibration.toml") == known
    path = tmp_path / "calibration.toml"
    path.write_text(
        'scale = -1\nspred = 2\n[offsets_ms]\n"stop wovel" = 3\n"stop vowel" = 900\n',
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as told:
        read_calibration(path)
    lines = str(told.value).splitlines()
    assert len(lines) == 5
    assert all(str(path) in line for line in lines)
    assert "stop wovel" in str(told.value)
    assert "spread" in str(told.value)


@pytest.mark.parametrize(
    "line", ["word_confidence = [1, 2]", 'word_presence = ["a", 1, 2, 3, 4]', "token_confidence = [nan, 1, 2, 3, 4]",
             "token_confidence = [true, 1, 1, 1, 1]", "spread = 1e308", "blank_cost = -1.0", "spike_gap_s = 99.0"]
)  # fmt: skip
def test_weights_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "calibration.toml"
    path.write_text(f'format = "{calibration.FORMAT}"\n{line}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=line.split()[0]):
        read_calibration(path)


# Edges, windows around them, and what a network's chances make of them.


def habitual(place: int) -> EdgeNetwork:
    """A network that puts every edge `place` fine frames from where it was."""
    weights = {name: np.zeros_like(weight) for name, weight in untrained().weights.items()}
    weights["habit.bias"][place + FARTHEST] = 50.0
    return EdgeNetwork(untrained().shape, weights)


def refined(utterance: SpokenUtterance, drawn: Spans, network: EdgeNetwork) -> Spans:
    return batching.run([refine_edges(utterance.emissions, utterance.tokens, drawn, network)])[0]


def test_edges_between_sounds_and_their_medians() -> None:
    start, end = np.array([1.0, 4.0, 9.0, 15.0]), np.array([4.0, 9.0, 12.0, 20.0])
    found = edges_of(start, end, np.array([0, 0, 1, 1]))
    assert found.frames.tolist() == [1, 4, 9, 9, 12, 15, 20]
    assert found.left.tolist() == [SILENT, 0, 1, 1, 2, SILENT, 3]
    assert found.right.tolist() == [0, 1, 2, 2, SILENT, 3, SILENT]
    assert found.role.tolist() == [INSIDE, INSIDE, WORD_END, WORD_START, INSIDE, INSIDE, INSIDE]
    np.testing.assert_array_equal(found.frames[found.begins], start)
    np.testing.assert_array_equal(found.frames[found.ends], end)
    places = np.arange(POSITIONS) - FARTHEST
    chances = np.exp(-0.5 * ((places - 3.3) / 2.0) ** 2)[None]
    median, sd = medians_of(chances / chances.sum())
    np.testing.assert_allclose(median, 3.3, atol=0.05)
    np.testing.assert_allclose(sd, 2.0, atol=0.1)


def test_edges_go_where_the_network_says_but_beside_a_wildcard() -> None:
    utterance, begin = made_utterance("a", "anna", 1)
    drawn = Spans(np.round(begin[:-1]), np.round(begin[1:]))
    found = refined(utterance, drawn, habitual(4))
    np.testing.assert_allclose(found.start - drawn.start, 2.0, atol=1e-6)
    assert (found.start_sd > 0).all()
    utterance, begin = made_utterance("a", "anna", 1)
    drawn = Spans(np.round(begin[:-1]), np.round(begin[1:]))
    ids = list(utterance.tokens.ids)
    ids[5] = WILDCARD
    wild = replace(utterance, tokens=replace(utterance.tokens, ids=tuple(ids)))
    found = refined(wild, drawn, habitual(4))
    moved = found.start - drawn.start
    np.testing.assert_allclose(moved[[5, 6]], 0.0, atol=1e-6)
    np.testing.assert_allclose(np.delete(moved, [5, 6]), 2.0, atol=1e-6)


def test_next_to_nothing_between_words_is_nothing_but_a_long_pause_stays() -> None:
    utterance, begin = made_utterance("a", "anna", 1)
    begin = np.round(begin)
    start, end = begin[:-1].copy(), begin[1:].copy()
    start[2] += 1  # 10 ms after the end of the first word
    start[4] += 9
    found = refined(utterance, Spans(start, end), habitual(0))
    assert found.start[2] == found.end[1] == (start[2] + end[1]) / 2
    np.testing.assert_allclose(found.start[4] - found.end[3], 9)


def test_an_utterance_is_the_same_alone_and_in_a_batch() -> None:
    network = untrained()
    made = [made_utterance(str(seed), "anna", seed) for seed in range(4)]
    drawn = [roughly(begin, 9) for _, begin in made]
    each = [u for u, _ in made]
    together = batching.run(
        [refine_edges(u.emissions, u.tokens, d, network) for u, d in zip(each, drawn)]
    )
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
    return Emissions(
        log_probs, VOCAB, frame_shift_s=0.01, states=states, sound=Audio(samples, 16000)
    )


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_windows_hold_what_the_whole_recording_holds(parts: int) -> None:
    """At both ends of the recording, and where 20 s are between two words."""
    made, ids = emissions(parts), np.array([1, 2, 3, 1])
    edges = edges_of(
        np.array([0.2, 9, 30, 2550.4]), np.array([9, 21.3, 44, 2599.9]), np.array([0, 0, 1, 2])
    )
    scene = EdgeScene(made, ids, edges, EdgeNetworkShape(("AH", "S")))
    windows = scene.windows(0, len(edges))
    fine = scene.centres()[:, None] + np.arange(-REACH, REACH + 1)
    low = int(fine.min())
    features = fine_features(made.sound, low, int(fine.max()) + 1)
    assert np.array_equal(windows.values[:, :, :FINE_MELS], features[fine - low])
    stop = scene.shape.index_of("T")
    assert windows.left.tolist() == [2, 1, 0, 2, stop, 2, 1]
    assert windows.right.tolist() == [1, 0, 2, stop, 2, 1, 2]
    frame = np.clip(fine * FINE_SHIFT_S / 0.01 - 0.5, 0, None)
    scores = sound_scores(made, ids, edges.left, edges.right, frame)
    rows = (made.log_probs if made.states is None else made.states).log_softmax(1).double().numpy()
    silence = rows[:, -1 if parts else 0]
    for edge in range(len(edges)):
        sides = []
        for sound in (edges.left[edge], edges.right[edge]):
            own = (
                rows[:, [ids[sound]]]
                if not parts
                else rows[:, (ids[sound] - 1) * parts : ids[sound] * parts]
            )
            sides.append(silence[:, None] if sound < 0 else own)
        left, right = sides
        wholes = [np.logaddexp.reduce(side, axis=1) for side in sides]
        for channel, track in enumerate((*wholes, silence, np.maximum(left[:, -1], right[:, 0]))):
            plain = np.interp(frame[edge], np.arange(FRAMES), np.clip(track, LEAST_SCORE, 0.0))
            assert np.abs(scores[edge, channel] - (plain + SCORE_CENTRE) * SCORE_SCALE).max() < 1e-5


# Edges beside pauses, by the level of the sound.

RATE, SHIFT_S = 16000, 0.01
SPOKEN_S = ((0.5, 1.0), (1.4, 2.0))
"""Where the sound of the two words is, of two tokens each."""
FAR_S = 0.12
VOWELS = ("vowel",) * 4


def drawn(
    pause_db: float, outwards_s: float = FAR_S, first_frame_s: float = 0.0
) -> tuple[Emissions, Tokens, Spans]:
    """Return a recording whose pauses are so much quieter than its words, and edges that far out in
    them, or inside."""
    rng = np.random.default_rng(0)
    samples = rng.standard_normal(round(2.5 * RATE)) * 0.1 * 10 ** (-pause_db / 20)
    for start_s, end_s in SPOKEN_S:
        place = slice(round(start_s * RATE), round(end_s * RATE))
        samples[place] += 0.1 * rng.standard_normal(place.stop - place.start)
    audio = Audio(samples.astype(np.float32), RATE)
    emissions = Emissions(
        torch.zeros(250, 3),
        ("", "a", "b"),
        SHIFT_S,
        sound=audio,
        duration_s=2.5,
        first_frame_s=first_frame_s,
    )
    out = outwards_s
    edges_s = np.array([0.5 - out, 0.75, 0.75, 1.0 + out, 1.4 - out, 1.7, 1.7, 2.0 + out])
    frames = (edges_s - first_frame_s) / SHIFT_S
    spreads = np.ones(4)
    return (
        emissions,
        Tokens((1, 2, 1, 2), ("a", "b", "a", "b"), (0, 0, 1, 1)),
        Spans(frames[::2], frames[1::2], spreads, spreads),
    )


def seconds(edges: np.ndarray, emissions: Emissions) -> np.ndarray:
    return np.asarray(edges * SHIFT_S + emissions.first_frame_s)


@pytest.mark.parametrize("kind", ["vowel", "stop"])
@pytest.mark.parametrize(
    ("pause_db", "outwards_s", "first_frame_s"),
    [(40.0, FAR_S, 0.0), (40.0, FAR_S, -0.02), (40.0, -FAR_S, 0.0), (15.0, -FAR_S, 0.0)],
)
def test_words_begin_and_end_with_their_sound(
    kind: str, pause_db: float, outwards_s: float, first_frame_s: float
) -> None:
    emissions, tokens, before = drawn(pause_db, outwards_s, first_frame_s)
    after = edges_beside_pauses(emissions, tokens, before, (kind,) * 4)
    start, end = seconds(after.start, emissions), seconds(after.end, emissions)
    for word, (start_s, end_s) in enumerate(SPOKEN_S):
        assert start[2 * word] == pytest.approx(start_s, abs=0.015)
        assert end[2 * word + 1] == pytest.approx(end_s, abs=0.015)
        assert (
            end[2 * word]
            == start[2 * word + 1]
            == pytest.approx(seconds(before.end, emissions)[2 * word])
        )


def test_a_stop_begins_where_the_level_begins_to_fall() -> None:
    emissions, tokens, before = drawn(40.0, 0.0)
    assert emissions.sound is not None
    samples = np.array(emissions.sound.samples)
    # What rings on falls by 20 dB from 0.72 to 0.8 s.
    ringing = slice(round(0.72 * RATE), round(0.85 * RATE))
    samples[ringing] *= 10 ** -np.minimum(
        np.arange(ringing.stop - ringing.start) / (0.08 * RATE), 1.0
    )
    emissions = replace(emissions, sound=Audio(samples.astype(np.float32), RATE))
    for kinds, edge_s in ((("vowel", "stop", "vowel", "stop"), 0.744), (("vowel",) * 4, 0.75)):
        after = edges_beside_pauses(emissions, tokens, before, kinds)
        assert after.end[0] == after.start[1]
        assert seconds(after.end, emissions)[0] == pytest.approx(edge_s, abs=0.004)
        assert seconds(after.end, emissions)[2] == pytest.approx(1.7, abs=0.001)


def test_where_the_level_says_nothing_edges_stay() -> None:
    for pause_db, outwards_s in ((15.0, FAR_S), (10.0, FAR_S), (10.0, -FAR_S)):
        emissions, tokens, before = drawn(pause_db, outwards_s)
        after = edges_beside_pauses(emissions, tokens, before, VOWELS)
        np.testing.assert_allclose(after.start, before.start)
        np.testing.assert_allclose(after.end, before.end)
    # If the recording has no sound near an edge, the level does not show where its word begins.
    emissions, tokens, _ = drawn(40.0)
    quiet = Spans(np.array([105.0, 110.0, 128.0, 170.0]), np.array([110.0, 120.0, 170.0, 212.0]))
    after = edges_beside_pauses(emissions, tokens, quiet, VOWELS)
    assert (after.start[0], after.end[1]) == (105.0, 120.0)


def test_a_faint_fricative_belongs_to_its_word_and_a_faint_hiss_after_a_vowel_does_not() -> None:
    """A hiss in one band, as weak as all of the recording's noise together."""
    emissions, tokens, before = drawn(35.0, 0.0)
    assert emissions.sound is not None
    samples = np.array(emissions.sound.samples)
    hiss = np.random.default_rng(1).standard_normal(round(0.15 * RATE))
    spectrum = np.fft.rfft(hiss)
    spectrum[np.fft.rfftfreq(len(hiss), 1 / RATE) < 5000] = 0
    hiss = np.fft.irfft(spectrum, len(hiss))
    samples[2 * RATE : 2 * RATE + len(hiss)] += (hiss / hiss.std() * 0.1 * 10 ** (-26 / 20)).astype(
        np.float32
    )
    emissions = replace(emissions, sound=Audio(samples, RATE))
    for kind, end_s in (("fricative", 2.15), ("vowel", 2.0)):
        after = edges_beside_pauses(emissions, tokens, before, (kind,) * 4)
        assert seconds(after.end, emissions)[3] == pytest.approx(end_s, abs=0.015)


# Conventions with a name, and those that labels prove


@pytest.mark.parametrize(
    ("convention", "begin_s", "end_s"),
    [("glottal-out", 0.16, 0.4), ("release-out", 0.1, 0.36), ("both-out", 0.16, 0.36)],
)
def test_words_begin_after_a_glottal_onset_or_end_before_a_release(
    convention, begin_s, end_s
) -> None:
    """A creak of 60 ms before a vowel, a silent closure, and a hiss of 40 ms; a vowel without a
    creak stays."""
    rng, time_s = np.random.default_rng(0), np.arange(16000) / 16000
    level = (
        np.select([time_s < 0.1, time_s < 0.16, time_s < 0.3, time_s < 0.6], [0, 0.02, 0.3, 0], 0.3)
        + 1e-5
    )
    sound = level * np.sign(np.sin(2 * np.pi * 120 * time_s)) * (time_s < 0.9)
    hissing = (time_s >= 0.36) & (time_s < 0.4)
    sound[hissing] += 0.1 * np.diff(rng.normal(size=hissing.sum() + 1))
    emissions = Emissions(torch.zeros(100, 4).log_softmax(1), ("-", "AH", "T", "x"), 0.01)
    heard = emissions.altered(sound=Audio(sound.astype(np.float32), 16000))
    said = tokens(["AH", "T", "AH"], [0, 0, 1])
    drawn = Spans(np.array([10.0, 30.0, 60.0]), np.array([30.0, 40.0, 90.0]))
    found = edges_by_convention(heard, said, drawn, ["vowel", "stop", "vowel"], convention)
    assert found.start.tolist() == pytest.approx([100 * begin_s, 30, 60], abs=1.0)
    assert found.end.tolist() == pytest.approx([30, 100 * end_s, 90], abs=1.0)


def test_a_convention_is_what_labels_prove() -> None:
    rng = np.random.default_rng(1)
    late = [(("stop", "silence"), 40.0 + error) for error in rng.normal(size=12) * 5]
    others = [(("vowel", "stop"), error) for error in rng.normal(size=40) * 20]
    found = fit_convention([*late, *others])
    assert set(found) == {("sound", "silence")}, "what is between sounds is not proven to differ"
    assert found[("sound", "silence")] == pytest.approx(-40, abs=5)
    assert fit_convention(others) == {}
    # of 100 tosses as few as 41 or fewer heads come up once in twenty times
    assert proven_shift(range(-41, 59)) == 0.0
    assert proven_shift(range(-40, 60)) == 1.0
