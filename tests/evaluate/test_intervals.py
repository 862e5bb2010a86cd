"""Intervals and paired differences: by hand, and by resamples written out, each evaluated as it is."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from ctc_align.errors import InputError
from ctc_align.evaluate import WITHIN_MS, Options, compare, error_statistics, evaluate_intervals
from ctc_align.evaluate.error_statistics import EDGES, KINDS, RATES
from ctc_align.types import Interval

RESAMPLES, SEED = 40, 11


def triples(seed: int, utterances: int = 6, first: int = 0) -> list[tuple[str, list[Interval], list[Interval]]]:
    """Utterances of 1 to 5 words on a grid of 10 ms, early, late, some missing; references depend on names only."""
    random, made = np.random.default_rng(seed), []
    for u in range(first, first + utterances):
        words = 1 + (7 * u) % 5
        reference = [
            Interval(round(0.4 * i, 3), round(0.4 * i + 0.2 + 0.2 * (i % 2), 3), f"w{i}") for i in range(words)
        ]
        ours = [
            Interval(i.start_s + 0.01 * random.integers(-6, 4), i.end_s + 0.01 * random.integers(-3, 7), i.label)
            for i in reference
            if random.random() < 0.9
        ]
        made.append((f"u{u}", ours, reference))
    return made


def written_out(rows, drawn: np.ndarray) -> list:
    """The evaluation of each resample."""
    return [
        evaluate_intervals([row for row, n in zip(rows, weights) for _ in range(n)], options=Options(resamples=0))
        for weights in drawn
    ]


def figures(evaluation) -> dict[str, float]:
    """All figures that have an interval, NaN where there is none."""
    found = {}
    for edge in EDGES:
        errors = dataclasses.asdict(getattr(evaluation, edge))
        for name in ("mae_ms", "median_abs_ms", "median_signed_ms", "mean_signed_ms"):
            found[edge, name] = errors[name]
        for limit in WITHIN_MS:
            found[edge, f"within_{limit}_ms"] = errors["within_ms"][limit]
    for kind in KINDS:
        for rate in RATES:
            found[f"boundaries {kind}", rate] = getattr(evaluation.boundaries[kind], rate)
    return {key: float("nan") if value is None else value for key, value in found.items()}


@pytest.mark.parametrize("seed", range(4))
def test_intervals_are_those_of_resamples_written_out(seed: int) -> None:
    rows = triples(seed)
    evaluation = evaluate_intervals(rows, options=Options(resamples=RESAMPLES, seed=SEED))
    drawn = np.concatenate(list(error_statistics.bootstrap_weights(6, RESAMPLES, SEED)))
    samples = [figures(one) for one in written_out(rows, drawn)]
    for group, name in figures(evaluation):
        values = np.array([sample[group, name] for sample in samples])
        expected = np.percentile(values[~np.isnan(values)], [2.5, 97.5])
        owner = evaluation.boundaries[group.split()[1]] if " " in group else getattr(evaluation, group)
        assert owner.ci95[name] == pytest.approx(expected, abs=1e-6), (group, name)
        assert expected[0] < expected[1] or name in ("within_50_ms", "within_100_ms"), "this tests nothing"


def test_differences_are_those_of_resamples_written_out() -> None:
    """Utterances in another order, and some that only one has."""
    ours, theirs = triples(1, 7), triples(2, 7, first=1)[::-1]
    found = compare(
        *(evaluate_intervals(rows, options=Options(resamples=RESAMPLES, seed=SEED)) for rows in (ours, theirs))
    )
    assert (found.utterances, found.only_one) == (6, ("u0", "u7"))
    ours, theirs = [row for row in ours if row[0] != "u0"], [row for row in theirs[::-1] if row[0] != "u7"]
    both = [_both_paired(left, right) for left, right in zip(ours, theirs)]
    drawn = np.concatenate(list(error_statistics.bootstrap_weights(6, RESAMPLES, SEED)))
    for chosen, groups in (([*zip(*both)], ("both", "onset", "offset")), ((ours, theirs), None)):
        left, right = (list(map(figures, written_out(rows, drawn))) for rows in chosen)
        for key in left[0]:
            if (key[0] in EDGES) != (groups is not None):
                continue
            values = np.array([one[key] - other[key] for one, other in zip(left, right)])
            expected = np.percentile(values[~np.isnan(values)], [2.5, 97.5])
            one = found.edges[key[0]][key[1]] if groups else found.boundaries[key[0].split()[1]][key[1]]
            assert one.ci95 == pytest.approx(expected, abs=1e-6), key
            point = [figures(evaluate_intervals(rows, options=Options(resamples=0)))[key] for rows in chosen]
            assert (one.hypothesis, one.against) == pytest.approx(point)


def _both_paired(left, right):
    """The utterance twice, with only the words that both hypotheses have (their labels are unique)."""
    common = {i.label for i in left[1]} & {i.label for i in right[1]}
    kept = [[i for i in row if i.label in common] for row in (left[1], right[1], left[2])]
    return (left[0], kept[0], kept[2]), (left[0], kept[1], kept[2])


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
