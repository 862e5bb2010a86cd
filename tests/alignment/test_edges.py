"""What is written as edges: shared, corrected by kind, in order whatever comes; and the constants that correct them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctc_align.alignment.ctc_path import Spans, best_ctc_path
from ctc_align.alignment.edges import SHORTEST_FRAMES, EdgeSettings, PauseRule, correct_edges, place_edges
from ctc_align.errors import ConfigError
from ctc_align.kernels import batching
from ctc_align.models import calibration
from ctc_align.models.calibration import Calibration, as_toml, fit_logistic, fit_offsets, probability, read_calibration
from ctc_align.text.phone_sets import IPA_PHONES
from ctc_align.types import Emissions, Tokens

PHONES = ("AH", "T", "S", "N", "L", "W", "CH", "x")


def tokens(labels: list[str], words: list[int] | None = None) -> Tokens:
    return Tokens(tuple(range(1, len(labels) + 1)), tuple(labels), tuple(words or range(len(labels))))


def places(start: list[float], end: list[float]) -> Spans:
    sd = np.ones(len(start))
    return Spans(np.array(start), np.array(end), sd, sd)


def test_a_pause_parts_and_what_is_shorter_does_not() -> None:
    spans = Spans(np.array([2, 10, 20]), np.array([8, 15, 30]))
    soft = places([2.2, 10.4, 20.6], [8.1, 15.3, 30.0])
    drawn = correct_edges(spans, soft, tokens(["a", "b", "c"]), Calibration(), 40, PauseRule(4.0))
    # The first gap is short: the next sound's start is the edge of both. The second is a pause.
    assert drawn.start.tolist() == [2.2, 10.4, 20.6]
    assert drawn.end.tolist() == [10.4, 15.3, 30.0]


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
def test_how_short_a_pause_may_be_depends_on_the_sounds(labels: list[str], gap: float, edges: str) -> None:
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
    drawn = correct_edges(spikes, None, tokens(["AH", "T", "x"]), Calibration(), 60, PauseRule(20.0, spikes=True))
    assert drawn.start.tolist() == [2, 8, 40]
    assert drawn.end.tolist() == [8, 14, 42]


@pytest.mark.parametrize(("blank_cost", "frames"), [(0.0, 1), (2.5, 3), (3.5, 5)])
def test_spikes_grow_where_blanks_cost(blank_cost: float, frames: int) -> None:
    """A token loses a nat a frame beside its spike, where the blank has none to lose but its cost."""
    log_probs = torch.full((21, 3), -30.0)
    log_probs[:, 0] = 0.0
    log_probs[10, 0] = -9.0
    log_probs[:, 1] = -1.0 - (torch.arange(21) - 10).abs()
    row = tokens(["AH"])
    emissions = Emissions(log_probs, ("<blank>", "AH", "T"), 0.01)
    spikes = batching.run([best_ctc_path(log_probs, row.ids, 0)])[0].spans
    known = Calibration(blank_cost=blank_cost)
    for how in ("auto", "calibrated") if blank_cost else ("calibrated",):
        (drawn,) = batching.run([place_edges(emissions, row, spikes, EdgeSettings(how, known, 1.0, 0.04, "auto"))])
        assert drawn.end[0] - drawn.start[0] == frames
        assert drawn.start[0] + drawn.end[0] == 21
    (plain,) = batching.run([place_edges(emissions, row, spikes, EdgeSettings("spikes", known, 1.0, 0.04, "auto"))])
    assert (plain.start[0], plain.end[0]) == (10, 11)


def test_without_a_gap_on_the_path_there_is_no_pause() -> None:
    drawn = correct_edges(Spans(np.array([0, 5]), np.array([5, 9])), places([0, 9.0], [1.0, 9.5]), tokens(["AH", "AH"]),
                 Calibration(), 20, PauseRule(4.0))  # fmt: skip
    assert drawn.end[0] == drawn.start[1] == 9.0


def test_offsets_by_kind_are_added_to_shared_edges_once() -> None:
    spans = Spans(np.array([0, 10, 30]), np.array([10, 20, 40]))
    soft = places([0, 10, 30], [10, 20, 40])
    known = Calibration(offsets_ms={("vowel", "stop"): 20.0, ("stop", "silence"): -10.0, ("silence", "sound"): 5.0})
    drawn = correct_edges(spans, soft, tokens(["AH0", "T", "x"]), known, 60, PauseRule(4.0))
    assert drawn.end.tolist() == pytest.approx([12, 19, 40])
    assert drawn.start.tolist() == pytest.approx([0, 12, 30.5])
    half = correct_edges(spans, soft, tokens(["AH0", "T", "x"]), known.at(0.02), 60, PauseRule(4.0))
    assert half.start[1] == pytest.approx(11)


def test_separators_stay_empty_beside_their_word() -> None:
    spans = Spans(np.array([0, 5, 9]), np.array([4, 6, 12]))
    drawn = correct_edges(spans, None, tokens(["a", "|", "b"], [0, -1, 1]), Calibration(), 12, PauseRule(0.0))
    assert (drawn.start[1], drawn.end[1]) == (4, 4)
    assert drawn.start_sd is None


numbers = st.floats(-30, 120, allow_nan=False)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_comes_edges_ascend_inside_the_audio(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    frames = data.draw(st.floats(count * 1.0, 90.0))
    cuts = np.sort(np.array(data.draw(st.lists(st.integers(0, 90), min_size=2 * count, max_size=2 * count))))
    spans = Spans(cuts[::2], np.maximum(cuts[1::2], cuts[::2] + 1))
    soft = places(*(data.draw(st.lists(numbers, min_size=count, max_size=count)) for _ in range(2)))
    labels = data.draw(st.lists(st.sampled_from(PHONES), min_size=count, max_size=count))
    pairs = st.tuples(st.sampled_from(calibration.KINDS), st.sampled_from(calibration.KINDS))
    offsets = data.draw(st.dictionaries(pairs, st.floats(-500, 500), max_size=20))
    drawn = correct_edges(spans, soft, tokens(labels), Calibration(offsets_ms=offsets), frames, PauseRule(4.0))
    assert drawn.start[0] >= 0
    assert drawn.end[-1] <= frames + 1e-9
    assert (drawn.end - drawn.start >= SHORTEST_FRAMES - 1e-9).all()
    assert (drawn.start[1:] >= drawn.end[:-1] - 1e-9).all()


def test_offsets_are_medians_drawn_towards_zero() -> None:
    pair = ("stop", "vowel")
    assert fit_offsets([(pair, error) for error in (10.0, 12.0, 14.0, 500.0, 12.0)]) == {pair: -9.0}
    # Few are drawn towards what is usual in their place; a pause is another place.
    many = [(("vowel", "nasal"), 20.0)] * 95
    assert fit_offsets([*many, (pair, 20.0), (("silence", "stop"), 20.0)]) == {
        ("silence", "stop"): -6.11, pair: -19.17, ("vowel", "nasal"): -19.95,
    }  # fmt: skip
    assert fit_offsets([]) == {}


def test_logistic_weights_say_how_often_it_is_right() -> None:
    rng = np.random.default_rng(0)
    rows = np.stack((np.ones(4000), rng.normal(size=4000)), 1)
    right = rng.random(4000) < 1 / (1 + np.exp(-(1.0 + 2.0 * rows[:, 1])))
    weights = fit_logistic(rows, right)
    assert weights == pytest.approx((1.0, 2.0), abs=0.2)
    sure = probability(rows, weights) > 0.9
    assert right[sure].mean() == pytest.approx(probability(rows[sure], weights).mean(), abs=0.02)
    # Nothing ever goes wrong: still finite.
    assert np.isfinite(fit_logistic(rows, np.ones(4000, np.bool_))).all()


def test_a_file_reads_back(tmp_path: Path) -> None:
    weights = (1.0, -2.0, 0.0, 0.5, 0.1)
    whole = ("m", 'a "few" files', 0.3, 1.25, 0.5, 0.1, weights, (1.0,) * 5, (2.0,) * 5, {("stop", "vowel"): -5.5})
    for known in (Calibration(*whole), Calibration(blank_cost=3.0, spike_gap_s=0.2)):
        (tmp_path / "calibration.toml").write_text(as_toml(known), encoding="utf-8")
        assert read_calibration(tmp_path / "calibration.toml") == known


def test_all_faults_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "calibration.toml"
    path.write_text('scale = -1\nspred = 2\n[offsets_ms]\n"stop wovel" = 3\n"stop vowel" = 900\n', encoding="utf-8")
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
