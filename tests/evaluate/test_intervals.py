"""Intervals and paired differences: by hand, and by resamples written out, each evaluated as it
is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from planted import interpreted
from rows import over_rows

from ctc_align.errors import InputError, KernelError, UsageError
from ctc_align.evaluate import (
    WITHIN_MS,
    Options,
    compare,
    error_figure,
    error_statistics,
    evaluate_intervals,
    occupancy_figure,
)
from ctc_align.evaluate.error_statistics import EDGES, KINDS, RATES, shares
from ctc_align.functional import forced_align, occupancy
from ctc_align.types import Interval

RESAMPLES, SEED = 40, 11


def triples(
    seed: int, utterances: int = 6, first: int = 0
) -> list[tuple[str, list[Interval], list[Interval]]]:
    """Utterances of 1 to 5 words on a grid of 10 ms, early, late, some missing; references depend
    on names only."""
    random, made = np.random.default_rng(seed), []
    for u in range(first, first + utterances):
        words = 1 + (7 * u) % 5
        reference = [
            Interval(round(0.4 * i, 3), round(0.4 * i + 0.2 + 0.2 * (i % 2), 3), f"w{i}")
            for i in range(words)
        ]
        ours = [
            Interval(
                i.start_s + 0.01 * random.integers(-6, 4),
                i.end_s + 0.01 * random.integers(-3, 7),
                i.label,
            )
            for i in reference
            if random.random() < 0.9
        ]
        made.append((f"u{u}", ours, reference))
    return made


def written_out(rows, drawn: np.ndarray) -> list:
    """The evaluation of each resample."""
    return [
        evaluate_intervals(
            [row for row, n in zip(rows, weights) for _ in range(n)], options=Options(resamples=0)
        )
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
        owner = (
            evaluation.boundaries[group.split()[1]] if " " in group else getattr(evaluation, group)
        )
        assert owner.ci95[name] == pytest.approx(expected, abs=1e-6), (group, name)
        assert expected[0] < expected[1] or name in (
            "within_50_ms",
            "within_100_ms",
        ), "this tests nothing"


def test_differences_are_those_of_resamples_written_out() -> None:
    """Utterances in another order, and some that only one has."""
    ours, theirs = triples(1, 7), triples(2, 7, first=1)[::-1]
    found = compare(
        *(
            evaluate_intervals(rows, options=Options(resamples=RESAMPLES, seed=SEED))
            for rows in (ours, theirs)
        )
    )
    assert (found.utterances, found.only_one) == (6, ("u0", "u7"))
    ours, theirs = (
        [row for row in ours if row[0] != "u0"],
        [row for row in theirs[::-1] if row[0] != "u7"],
    )
    both = [_both_paired(left, right) for left, right in zip(ours, theirs)]
    drawn = np.concatenate(list(error_statistics.bootstrap_weights(6, RESAMPLES, SEED)))
    for chosen, groups in (([*zip(*both)], ("both", "onset", "offset")), ((ours, theirs), None)):
        left, right = (list(map(figures, written_out(rows, drawn))) for rows in chosen)
        for key in left[0]:
            if (key[0] in EDGES) != (groups is not None):
                continue
            values = np.array([one[key] - other[key] for one, other in zip(left, right)])
            expected = np.percentile(values[~np.isnan(values)], [2.5, 97.5])
            one = (
                found.edges[key[0]][key[1]]
                if groups
                else found.boundaries[key[0].split()[1]][key[1]]
            )
            assert one.ci95 == pytest.approx(expected, abs=1e-6), key
            point = [
                figures(evaluate_intervals(rows, options=Options(resamples=0)))[key]
                for rows in chosen
            ]
            assert (one.hypothesis, one.against) == pytest.approx(point)


def _both_paired(left, right):
    """The utterance twice, with only the words that both hypotheses have (their labels are
    unique)."""
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
    assert (within.hypothesis, within.against, within.difference) == pytest.approx(
        (50.0, 50.0, 0.0)
    )
    assert not within.is_clear
    assert found.boundaries["both"]["f1"].difference == pytest.approx(0.0)
    assert (found.utterances, found.paired, found.left_out, found.only_one) == (2, 6, 0, ())
    assert json.dumps(found.to_dict(), allow_nan=False)


def test_only_what_both_paired_and_can_be_compared_counts():
    """Leaving out the hard word makes no hypothesis better than one that has it."""
    ours = evaluate_intervals(
        [("u0", row([0.01, 0.51]), DATA_REFERENCE), ("u1", DATA_REFERENCE, DATA_REFERENCE)]
    )
    theirs = evaluate_intervals(
        [("u0", row([0.01, 0.51, 1.2]), DATA_REFERENCE), ("u2", DATA_REFERENCE, DATA_REFERENCE)]
    )
    found = compare(ours, theirs)
    assert found.edges["both"]["mae_ms"].difference == pytest.approx(0.0)
    assert (found.utterances, found.paired, found.left_out, found.only_one) == (
        1,
        2,
        1,
        ("u1", "u2"),
    )
    assert found.edges["both"]["mae_ms"].ci95 is None
    # boundaries are not of pairs: the word that is missing costs recall
    assert found.boundaries["both"]["recall"].difference == pytest.approx(0.0)
    assert found.boundaries["both"]["precision"].difference == pytest.approx(1.0 - 4 / 6)
    ours = evaluation(DATA_REFERENCE)
    for theirs, says in (
        (
            evaluate_intervals([("other", DATA_REFERENCE, DATA_REFERENCE)]),
            "no word of the reference in common",
        ),
        (
            evaluate_intervals([("u0", DATA_REFERENCE, DATA_REFERENCE)], "phones"),
            "two evaluations of one tier",
        ),
        (evaluation(DATA_REFERENCE, tolerance_ms=10.0), "the same tolerance"),
    ):
        with pytest.raises(InputError, match=says):
            compare(ours, theirs)


# Matching, rates and resampling against oracles; and the oracles seen to fail on planted faults.


def test_detection() -> None:
    assert detection_faults(error_statistics) == []


@over_rows(
    ("old", "new"),
    [
        ("matched, i, j = matched + 1, i + 1, j + 1", "matched, i, j = matched + 1, i, j + 1"),
        ("matched, i, j = matched + 1, i + 1, j + 1", "matched, i, j = matched + 1, i + 1, j"),
        ("abs(gap_ms) <= limit_ms", "abs(gap_ms) < limit_ms - 1e-3"),
        ("elif gap_ms < 0:", "elif gap_ms > 0:"),
        ("limit_ms = tolerance_ms + ROUNDING_MS", "limit_ms = tolerance_ms / 2"),
        ("sorted(starts[1:])", "sorted(starts)"),
        ("<= SAME_EDGE_S", "<= 0.0005"),
        ("<= SAME_EDGE_S", "<= 0.2"),
        (
            '"f1": 2 * matched / (hypothesis + reference)',
            '"f1": matched / (hypothesis + reference)',
        ),
        ('"f1": 2 * matched / (hypothesis + reference)', '"f1": matched / hypothesis'),
        (
            '"r_value": 1 - (np.hypot(1 - recall, over) + off) / 2',
            '"r_value": 1 - np.hypot(1 - recall, over)',
        ),
        ("np.abs(recall - 1 - over)", "np.abs(recall - 1 + over)"),
        (
            "over = hypothesis / reference - 1\n        off",
            "over = 0 * matched\n        off",
        ),
        ("        over = hypothesis / reference - 1\n", "        over = hypothesis / reference\n"),
        ('"precision": matched / hypothesis', '"precision": matched / reference'),
    ],
)
def test_the_checker_of_detection_fails_when_it_should(old: str, new: str) -> None:
    assert detection_faults(interpreted(error_statistics, old, new)) != []


@pytest.mark.parametrize("window", [1, 4096])
def test_bootstrap(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(error_statistics, "_FIRST_WINDOW", window)
    assert bootstrap_faults(error_statistics) == []


@over_rows(
    ("old", "new"),
    [
        ("upper = (upto <= (number", "upper = (upto < (number"),
        ("((number[rows] - 1) // 2)", "(number[rows] // 2)"),
        ("(values[lower] + values[upper]) / 2", "values[lower]"),
        ("random.integers(0, utterances, (rows, utterances))", "np.tile(np.arange(utterances), (rows, 1))"),
        ("random.integers(0, utterances, (rows", "random.integers(0, utterances // 2 + 1, (rows"),
        ("default_rng(seed)", "default_rng()"),
        ("default_rng(seed)", "default_rng(0)"),
        ("(drawn @ total) / (drawn @ count)", "total.sum() / (drawn @ count)"),
        ("(100 + LEVEL) / 2", "LEVEL"),
        ("samples = samples[~np.isnan(samples)]", "samples = np.nan_to_num(samples)"),
        ("drawn[rows][:, utterance]", "drawn[rows][:, ::-1][:, utterance]"),
    ],
)  # fmt: skip
def test_the_checker_of_the_bootstrap_fails_when_it_should(old: str, new: str) -> None:
    for window in (1, 4096):
        module = interpreted(error_statistics, old, new)
        module.__dict__["_FIRST_WINDOW"] = window
        with contextlib.suppress(IndexError, RuntimeWarning):  # which is telling, too
            assert bootstrap_faults(module) != [], window


def test_a_window_that_does_not_grow_is_told() -> None:
    module = interpreted(error_statistics, "(number // 2 < last).all()", "True")
    module.__dict__["_FIRST_WINDOW"] = 1
    with pytest.raises(IndexError):
        bootstrap_faults(module)


def test_draws_do_not_depend_on_the_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(error_statistics.bootstrap_weights(7, 100, 1)))
    monkeypatch.setattr(error_statistics, "_CELLS", 21)
    portions = list(error_statistics.bootstrap_weights(7, 100, 1))
    assert len(portions) == 34
    assert (np.concatenate(portions) == whole).all()
    values, utterance = np.random.default_rng(0).normal(size=50), np.arange(50) % 7
    once = error_statistics.bootstrap_medians(values, utterance, whole)
    monkeypatch.setattr(error_statistics, "_CELLS", 10**6)
    assert (error_statistics.bootstrap_medians(values, utterance, whole) == once).all()


def test_rates_tolerances_and_shares() -> None:
    nothing = error_statistics.detection(0, 0, 0)
    assert (nothing.precision, nothing.recall, nothing.f1, nothing.r_value) == (
        None,
        None,
        None,
        None,
    )
    assert (
        error_statistics.detection(0, 3, 0).precision
        == error_statistics.detection(0, 3, 0).f1
        == 0.0
    )
    no_guess = error_statistics.detection(3, 0, 0)
    assert (no_guess.precision, no_guess.recall, no_guess.f1, no_guess.over_segmentation) == (
        None,
        0.0,
        0.0,
        -1.0,
    )
    for base in (0.1, 0.3, 1.1, 7.7, 123.456):
        assert error_statistics.hits([base + 0.02], [base], 20.0) == 1
        assert error_statistics.hits([base + 0.0201], [base], 20.0) == 0
    assert shares(np.array([-10.0, -9.9, 0.0, 9.9, 10.0, 99.0]), [-10, 0, 10]) == pytest.approx(
        [0.0, 200 / 6, 200 / 6, 200 / 6]
    )
    assert shares(np.array([]), [0]) == [0.0, 0.0]


def test_boundaries_count_by_utterance_whatever_the_labels() -> None:
    reference = [Interval(0.0, 0.5, "a"), Interval(0.5, 1.0, "b")]
    hypothesis = [Interval(0.0, 0.5, "x"), Interval(0.51, 1.03, "y")]
    found = evaluate_intervals([("a", hypothesis, reference)]).boundaries
    # by hand: {0, 0.5, 1.0} against {0, 0.5, 0.51, 1.03}; 1.03 is too far off, 0.51 has no partner
    # left
    assert (found["both"].reference, found["both"].hypothesis, found["both"].hits) == (3, 4, 2)
    assert (found["onset"].hits, found["offset"].hits, found["inner_onset"].hits) == (2, 1, 1)
    assert found["both"].f1 == pytest.approx(4 / 7)
    # A boundary is not found by another utterance's.
    one = [Interval(0.0, 0.5, "a")]
    other = [Interval(0.2, 0.7, "a")]
    found = evaluate_intervals([("x", one, other), ("y", other, one)]).boundaries["both"]
    assert (found.reference, found.hypothesis, found.hits) == (4, 4, 0)


def rows(spans: list[list[tuple[int, int]]], shift_ms: int = 0) -> list[list[Interval]]:
    """Words of so many times 5 ms, each after a pause or not."""
    made = []
    for one in spans:
        at, row = 10, []
        for i, (length, pause) in enumerate(one):
            at += 20 * pause
            row.append(
                Interval((at * 5 + shift_ms) / 1000, ((at + length) * 5 + shift_ms) / 1000, f"w{i}")
            )
            at += length
        made.append(row)
    return made


def test_one_utterance_has_no_intervals() -> None:
    row = [Interval(0.0, 1.0, "a")]
    found = evaluate_intervals([("a", row, row)])
    assert found.both.ci95 == found.boundaries["both"].ci95 == {}
    two = evaluate_intervals([("a", row, row), ("b", row, row)])
    assert two.both.ci95["within_20_ms"] == (100.0, 100.0)
    assert two.boundaries["both"].ci95["r_value"] == (1.0, 1.0)
    assert (
        evaluate_intervals(
            [("a", row, row), ("b", row, row)], options=Options(resamples=0)
        ).both.ci95
        == {}
    )


BY_HAND = (
    # reference, hypothesis, hits; precision, recall, F1, over-segmentation, R-value by hand from
    # the paper's formulas
    (10, 10, 8, 0.8, 0.8, 0.8, 0.0, 0.829289),
    (10, 15, 9, 0.6, 0.9, 0.72, 0.5, 0.532917),
    (10, 5, 5, 1.0, 0.5, 2 / 3, -0.5, 0.646447),
    (4, 4, 4, 1.0, 1.0, 1.0, 0.0, 1.0),
    (4, 4, 0, 0.0, 0.0, 0.0, 0.0, 0.146447),
)
"""The last: recall 0, so r1 = 1, r2 = -1/√2, R = 1 - (1 + 0.707107) / 2."""


def most_pairs(hypothesis_ms: list[int], reference_ms: list[int], tolerance_ms: int) -> int:
    """The largest one-to-one matching in any order at all, by augmenting paths (Kuhn), in whole
    milliseconds."""
    partner: dict[int, int] = {}

    def place(i: int, tried: set[int]) -> bool:
        for j, time_ms in enumerate(reference_ms):
            if j not in tried and abs(hypothesis_ms[i] - time_ms) <= tolerance_ms:
                tried.add(j)
                if j not in partner or place(partner[j], tried):
                    partner[j] = i
                    return True
        return False

    return sum(place(i, set()) for i in range(len(hypothesis_ms)))


def detection_faults(module: ModuleType) -> list[str]:
    """Matching against Kuhn's on tied times, rates against figures by hand, boundaries of a row by
    hand."""
    faults = []
    random = np.random.default_rng(1)
    for _ in range(300):
        ours, theirs = (
            sorted((5 * random.integers(0, 40, random.integers(0, 9))).tolist()) for _ in range(2)
        )
        found = module.hits([t / 1000 for t in ours], [t / 1000 for t in theirs], 20.0)
        if found != most_pairs(ours, theirs, 20):
            faults.append(f"hits {found} of {ours}, {theirs}")
    for reference, hypothesis, hits, *expected in BY_HAND:
        one = module.detection(reference, hypothesis, hits)
        names = ("precision", "recall", "f1", "over_segmentation", "r_value")
        many = module.rates(np.array([[reference, hypothesis, hits]]))
        for name, value in zip(names, expected):
            if getattr(one, name) != pytest.approx(value, abs=2e-6):
                faults.append(f"{name} of {reference, hypothesis, hits}: {getattr(one, name)}")
            if name in many and many[name][0] != pytest.approx(value, abs=2e-6):
                faults.append(f"{name} of {reference, hypothesis, hits} resampled: {many[name][0]}")
    # a touches b, b and c leave 1 ms to rounding, a pause before d
    row = [
        Interval(0.1, 0.2, "a"),
        Interval(0.2, 0.3, "b"),
        Interval(0.301, 0.4, "c"),
        Interval(0.5, 0.6, "d"),
    ]
    by_hand = {
        "both": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6],
        "onset": [0.1, 0.2, 0.301, 0.5],
        "offset": [0.2, 0.3, 0.4, 0.6],
        "inner_onset": [0.2, 0.301, 0.5],
    }
    for kind, times in by_hand.items():
        if module.boundaries_s(row, kind) != times or module.boundaries_s([], kind) != []:
            faults.append(f"boundaries {kind}: {module.boundaries_s(row, kind)}")
    return faults


def bootstrap_faults(module: ModuleType) -> list[str]:
    """Means and medians against those of the values written out, weights against what drawing must
    give."""
    faults = []
    random = np.random.default_rng(2)
    for utterances, size in ((1, 5), (3, 2), (6, 40), (9, 41), (30, 200)):
        values = np.round(random.normal(0, 3, size), 0)
        utterance = random.integers(0, max(1, utterances - 1), size)
        # the last utterance has no values: a resample of nothing but it has no figure
        drawn = np.concatenate(
            [*module.bootstrap_weights(utterances, 50, 3), np.eye(utterances, dtype=int)[-1:]]
        )
        pairs = (
            (module.bootstrap_means, statistics.fmean),
            (module.bootstrap_medians, statistics.median),
        )
        for statistic, oracle in pairs:
            found = statistic(values, utterance, drawn)
            for weights, one in zip(drawn, found):
                written_out = [
                    v
                    for v, u in zip(values.tolist(), utterance.tolist())
                    for _ in range(weights[u])
                ]
                expected = oracle(written_out) if written_out else float("nan")
                if one != pytest.approx(expected, nan_ok=True, abs=1e-9):
                    faults.append(
                        f"{statistic.__name__} of {utterances}, {size}: {one}, expected {expected}"
                    )
    drawn = np.concatenate(list(module.bootstrap_weights(20, 2000, 5)))
    if drawn.shape != (2000, 20) or (drawn.sum(axis=1) != 20).any():
        faults.append("resamples of another size")
    # the number of times that one of 20 is drawn in 20 has the mean 1 and the variance 0.95
    if abs(drawn.mean(axis=0) - 1).max() > 0.12 or abs(drawn.var(axis=0) - 0.95).max() > 0.2:
        faults.append("utterances are not drawn alike, or not put back")
    if (drawn != np.concatenate(list(module.bootstrap_weights(20, 2000, 5)))).any():
        faults.append("other draws with the same seed")
    if (drawn == np.concatenate(list(module.bootstrap_weights(20, 2000, 6)))).all():
        faults.append("the same draws with another seed")
    if module.bootstrap_interval(np.array([np.nan, *range(101)])) != pytest.approx((2.5, 97.5)):
        faults.append("not the middle 95 %")
    if module.bootstrap_interval(np.array([np.nan])) is not None:
        faults.append("an interval of nothing")
    return faults


# Pictures of boundary errors and of a soft alignment: what they draw, and that matplotlib is asked
# for only then.

TARGET = torch.tensor([3, 1, 1])


@pytest.fixture
def log_probs() -> torch.Tensor:
    return torch.randn(30, 5, generator=torch.Generator().manual_seed(0)).log_softmax(1)


def test_panels_of_a_soft_alignment(log_probs: torch.Tensor, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = occupancy_figure(
        log_probs.requires_grad_(), TARGET, blank=2, labels="abcde", frame_shift_s=0.02
    )
    soft, best, _ = figure.axes
    rows = [2, 3, 1]
    np.testing.assert_allclose(
        soft.images[0].get_array(),
        occupancy(log_probs, TARGET, [30], [3], 2)[:, rows].T,
        rtol=0,
        atol=1e-7,
    )
    drawn = best.images[0].get_array()
    assert [rows[row] for row in drawn.argmax(0)] == forced_align(
        log_probs[None], TARGET[None], blank=2
    )[0][0].tolist()
    assert drawn.sum() == 30
    assert [label.get_text() for label in soft.get_yticklabels()] == ["c", "d", "b"]
    assert soft.images[0].get_extent() == [0, pytest.approx(0.6), 2.5, -0.5]
    assert best.get_xlabel() == "seconds"
    assert "loss" in soft.get_title(loc="left")
    figure.savefig(tmp_path / "soft.png")
    assert (tmp_path / "soft.png").read_bytes().startswith(b"\x89PNG")
    pytest.importorskip("matplotlib")
    figure = occupancy_figure(log_probs, TARGET)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "3", "1"]
    assert figure.axes[1].get_xlabel() == "frames"
    long = torch.zeros(400, 200), torch.arange(1, 180)
    assert len(occupancy_figure(*long).axes[0].get_yticklabels()) == 60


@over_rows("kind", [list, tuple, np.array])
def test_targets_of_any_kind(kind: type, log_probs: torch.Tensor) -> None:
    pytest.importorskip("matplotlib")
    met, right = (occupancy_figure(log_probs, target) for target in (kind(TARGET.tolist()), TARGET))
    for one, other in zip(met.axes[:2], right.axes[:2]):
        np.testing.assert_array_equal(one.images[0].get_array(), other.images[0].get_array())


def test_matplotlib_is_imported_late_and_its_absence_is_said(log_probs, monkeypatch) -> None:
    code = (
        "import sys; from ctc_align.evaluate import error_figure; print({'matplotlib', 'torch'} &"
        " {*sys.modules})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"pip install 'ctc-align\[plot\]'"):
        occupancy_figure(log_probs, TARGET)


@over_rows(
    ("change", "said"),
    [
        (
            {"log_probs": torch.zeros(4, 1, 3)},
            "log_probs: expected the log-probs of one utterance (T, C), got (4, 1",
        ),
        (
            {"log_probs": [[0.0]]},
            "log_probs: expected the log-probs of one utterance (T, C), got list",
        ),
        (
            {"target": torch.tensor([[1]])},
            "target: expected the token ids of one utterance (L,), got (1, 1)",
        ),
        (
            {"target": [[1], [2]]},
            "target: expected the token ids of one utterance (L,), got (2, 1)",
        ),
        ({"target": "ab"}, "targets: expected token ids, a tensor, an array or a list, got str"),
        ({"target": torch.tensor([1, 1, 1])}, "targets length is too long for CTC"),
        ({"labels": "ab"}, "labels: expected 3, one for each class, got 2"),
    ],
)
def test_wrong_arguments(change: dict, said: str) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(KernelError) as error:
        occupancy_figure(
            **({"log_probs": torch.zeros(4, 3), "target": torch.tensor([1, 2])} | change)
        )
    assert said in str(error.value)


def evaluated(errors_ms: np.ndarray):
    reference = [Interval(float(i), i + 0.5, f"w{i}") for i in range(len(errors_ms))]
    ours = [
        Interval(i.start_s + ms / 1000, i.end_s + ms / 2000, i.label)
        for i, ms in zip(reference, errors_ms)
    ]
    return evaluate_intervals([("a", ours, reference)])


def test_curves_and_bars_are_the_figures():
    pytest.importorskip("matplotlib")
    found = evaluated(np.random.default_rng(0).normal(5, 60, 400))
    figure = error_figure({"words": found, "again": found})
    assert len(figure.axes) == 4
    left, right = figure.axes[:2]
    assert left.get_title(loc="left") == f"words: mean absolute error {found.both.mae_ms:.1f} ms"
    for curve, stairs, legend, errors in zip(
        right.get_lines(), left.patches, left.get_legend().get_texts(), (found.onset, found.offset)
    ):
        ms, percent = curve.get_data()
        for limit in WITHIN_MS:
            reached = percent[np.searchsorted(ms, limit, side="right") - 1]
            assert reached == pytest.approx(errors.within_ms[limit])
        beyond = float(legend.get_text().split("(")[1].split(" %")[0])
        assert stairs.get_data().values.sum() + beyond == pytest.approx(100, abs=0.06)


def test_errors_of_a_bins_edge_and_none_at_all():
    pytest.importorskip("matplotlib")
    figure = error_figure({"words": evaluated(np.array([-100.0, 0.0, 5.0, 100.0]))})
    counts, edges, _ = figure.axes[0].patches[0].get_data()
    assert edges[np.flatnonzero(counts)].tolist() == [-100.0, 0.0, 5.0]
    assert "25.0 % beyond" in figure.axes[0].get_legend().get_texts()[0].get_text()
    pytest.importorskip("matplotlib")
    figure = error_figure({"words": evaluate_intervals([("a", [], [])])})
    assert figure.axes[0].get_title(loc="left") == "words: mean absolute error – ms"
