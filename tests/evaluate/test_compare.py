"""Paired differences, by hand and by their properties."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ctc_align.errors import InputError
from ctc_align.evaluate import Options, compare, evaluate_intervals
from ctc_align.types import Interval


def row(starts: list[float], label: str = "w") -> list[Interval]:
    return [Interval(start, start + 0.3, f"{label}{i}") for i, start in enumerate(starts)]


DATA_REFERENCE = row([0.0, 0.5, 1.0])


def evaluation(*rows, **options):
    return evaluate_intervals(
        [(f"u{i}", ours, DATA_REFERENCE) for i, ours in enumerate(rows)], options=Options(**options)
    )


def test_by_hand():
    ours = evaluation(row([0.01, 0.51, 1.01]), row([0.03, 0.53, 1.03]))
    theirs = evaluation(row([0.02, 0.52, 1.02]), row([0.03, 0.53, 1.09]))
    found = compare(ours, theirs)
    mae = found.edges["both"]["mae_ms"]
    assert (mae.hypothesis, mae.against) == pytest.approx((20.0, 35.0))
    assert mae.difference == pytest.approx(-15.0)
    # each resample holds u0 twice (-10), u1 twice (-20), or both (-15)
    assert mae.ci95 == pytest.approx((-20.0, -10.0))
    assert mae.is_clear
    within = found.edges["onset"]["within_20_ms"]
    assert (within.hypothesis, within.against, within.difference) == pytest.approx((50.0, 50.0, 0.0))
    assert not within.is_clear
    assert found.boundaries["both"]["f1"].difference == pytest.approx(0.0)
    assert (found.utterances, found.paired, found.left_out, found.only_one) == (2, 6, 0, ())
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_what_is_hard_for_both_cancels_out():
    """Each alone varies by tens of ms over utterances; their difference is 2 ms in each."""
    hard = [0.001 * i**2 for i in range(12)]
    ours = evaluation(*(row([0.002 + h, 0.502 + h, 1.002 + h]) for h in hard))
    theirs = evaluation(*(row([h, 0.5 + h, 1.0 + h]) for h in hard))
    mae = compare(ours, theirs).edges["both"]["mae_ms"]
    assert mae.ci95 == pytest.approx((2.0, 2.0))
    low, high = ours.both.ci95["mae_ms"]
    assert high - low > 20.0


def test_the_other_way_round_turns_signs_and_itself_is_no_difference():
    random = np.random.default_rng(0)
    ours, theirs = (
        evaluation(*(row((np.array([0.0, 0.5, 1.0]) + random.normal(0.02, 0.02, 3)).tolist()) for _ in range(9)))
        for _ in range(2)
    )
    there, back = compare(ours, theirs), compare(theirs, ours)
    for figure, one in there.edges["both"].items():
        other = back.edges["both"][figure]
        assert one.difference == pytest.approx(-other.difference)
        assert one.ci95 == pytest.approx((-other.ci95[1], -other.ci95[0]))
    same = compare(ours, ours)
    for one in (*same.edges["onset"].values(), *same.boundaries["both"].values()):
        assert (one.difference, one.ci95) == (0.0, (0.0, 0.0))


def test_only_what_both_paired_counts():
    """Leaving out the hard word makes no hypothesis better than one that has it."""
    ours = evaluate_intervals([("u0", row([0.01, 0.51]), DATA_REFERENCE), ("u1", DATA_REFERENCE, DATA_REFERENCE)])
    theirs = evaluate_intervals(
        [("u0", row([0.01, 0.51, 1.2]), DATA_REFERENCE), ("u2", DATA_REFERENCE, DATA_REFERENCE)]
    )
    found = compare(ours, theirs)
    assert found.edges["both"]["mae_ms"].difference == pytest.approx(0.0)
    assert (found.utterances, found.paired, found.left_out, found.only_one) == (1, 2, 1, ("u1", "u2"))
    assert found.edges["both"]["mae_ms"].ci95 is None
    # boundaries are not of pairs: the word that is missing costs recall
    assert found.boundaries["both"]["recall"].difference == pytest.approx(0.0)
    assert found.boundaries["both"]["precision"].difference == pytest.approx(1.0 - 4 / 6)


def test_what_cannot_be_compared():
    ours = evaluation(DATA_REFERENCE)
    for theirs, says in (
        (evaluate_intervals([("other", DATA_REFERENCE, DATA_REFERENCE)]), "no word of the reference in common"),
        (evaluate_intervals([("u0", DATA_REFERENCE, DATA_REFERENCE)], "phones"), "two evaluations of one tier"),
        (evaluation(DATA_REFERENCE, tolerance_ms=10.0), "the same tolerance"),
    ):
        with pytest.raises(InputError, match=says):
            compare(ours, theirs)
