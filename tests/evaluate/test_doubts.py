"""What looks wrong is told, and what looks well is not."""

from __future__ import annotations

import json
import random

from made_alignments import WORDS, alignment, put, textgrid
from rows import over_rows

from ctc_align.evaluate import evaluate, evaluate_intervals
from ctc_align.files import OutputFiles
from ctc_align.types import Interval

REFERENCE = [Interval(start, end, label) for label, start, end in WORDS]
SAME_UNIT = "seconds are expected"


def moved(scale: float = 1.0, shift_s: float = 0.0, noise_s: float = 0.0, row=REFERENCE) -> list[Interval]:
    draw = random.Random(1)
    times = [(scale * (i.start_s + draw.uniform(0, noise_s)) + shift_s, scale * i.end_s + shift_s) for i in row]
    return [Interval(start, end, interval.label) for (start, end), interval in zip(times, row)]


def told(hypothesis, reference=REFERENCE) -> tuple[str, ...]:
    return evaluate_intervals([("u1", hypothesis, reference)]).doubts


def test_nothing_is_told_of_good_ones():
    assert told(REFERENCE) == told(moved(noise_s=0.05)) == told(moved(shift_s=0.1)) == ()


@over_rows(
    ("scale", "unit"),
    [
        (1000.0, "milliseconds"),
        (100.0, "frames of 10 ms"),
        (50.0, "frames of 20 ms"),
        (16000.0, "samples at 16 kHz"),
        (44100.0, "samples at 44.1 kHz"),
        (1e7, "HTK's units of 100 ns"),
    ],
)
def test_other_units(scale, unit):
    assert told(moved(scale, noise_s=0.02)) == (f"the times of the hypothesis look like {unit}; {SAME_UNIT}",)
    assert told(REFERENCE, moved(scale)) == (f"the times of the reference look like {unit}; {SAME_UNIT}",)


def test_a_scale_without_a_name():
    assert "the times of the hypothesis are 7 times the other's" in told(moved(7.0))[0]


@over_rows("shift_s", [5.1, 120.0, -0.6])
def test_a_shift_of_the_whole(shift_s):
    row = moved(shift_s=max(0.0, -shift_s))
    (doubt,) = told(moved(shift_s=shift_s, row=row), row)
    assert f"off by about the same, {shift_s:+.2f} s, in 1 utterance: u1" in doubt
    assert len(told(moved(shift_s=shift_s, noise_s=0.05, row=row), row)) == 1


def test_another_length(tmp_path):
    OutputFiles(tmp_path, "a", ("json",)).write(alignment())
    for end_s, expected in ((2.0, 0), (2.4, 0), (9.0, 1), (1.4, 1)):
        grid = textgrid(tmp_path / "b.TextGrid", ("words", WORDS), end_s=end_s)
        doubts = evaluate(tmp_path / "a.json", grid).doubts
        assert len(doubts) == expected
        assert all(f"b (2.00 s against {end_s:.2f} s)" in doubt for doubt in doubts)


def test_arguments_the_wrong_way_round(tmp_path):
    OutputFiles(tmp_path / "ours", "a", ("json", "ctm")).write(alignment())
    grid = textgrid(tmp_path / "b.TextGrid", ("words", WORDS))
    plain = put(tmp_path / "c.ctm", "c 1 0.1 0.2 one\n")
    for reference in ("a.json", "a.ctm"):
        for hypothesis in (grid, plain):
            (doubt, *_) = evaluate(hypothesis, tmp_path / "ours" / reference).doubts
            assert "is the hypothesis given first?" in doubt
        assert evaluate(tmp_path / "ours" / reference, grid).doubts == ()
    assert evaluate(tmp_path / "ours" / "a.json", tmp_path / "ours" / "a.ctm").doubts == ()
    data = json.loads((tmp_path / "ours" / "a.json").read_text("utf-8"))
    data["words"][0]["by"] = "hand"
    corrected = put(tmp_path / "a.json", json.dumps(data))
    assert evaluate(corrected, tmp_path / "ours" / "a.json").doubts == ()


def test_another_transcript():
    other = [Interval(i.start_s, i.end_s, "x" + i.label) for i in REFERENCE]
    triples = [("u1", REFERENCE, REFERENCE), ("u2", REFERENCE, REFERENCE), ("u3", other, REFERENCE)]
    (doubt,) = evaluate_intervals(triples).doubts
    assert doubt.startswith("more than half of the reference has another label or none in 1 utterance: u3")
    assert told(other) == ("the labels of 3 of 3 pairs differ: are these the same transcripts?",)
    assert "another label or none in 1 utterance: u1" in told(REFERENCE[:1])[0]


def test_a_reference_that_nobody_has_labelled_yet():
    (doubt,) = evaluate_intervals([("u1", REFERENCE, REFERENCE), ("u2", REFERENCE, [])]).doubts
    assert doubt == "the reference has no labels in 1 utterance: u2: is all of it labelled?"


def test_another_recording_of_the_same_sounds():
    """Phones of any two texts pair, and labels tell nothing: the distance does."""
    draw = random.Random(3)

    def phones() -> list[Interval]:
        starts = sorted(draw.uniform(0, 9) for _ in range(60))
        return [Interval(start, start + 0.05, draw.choice("aest")) for start in starts]

    (doubt,) = evaluate_intervals([("u1", phones(), phones())], "phones").doubts
    assert told([Interval(5.0, 5.4, "yes")], [Interval(5.5, 5.9, "yes")]) == (), "one word, misplaced"
    assert "more than 0.25 s off, which no aligner does, in 1 utterance: u1" in doubt
