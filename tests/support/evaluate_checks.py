"""Oracles of the evaluation: slow, independent of its code; each returns the faults it sees."""

from __future__ import annotations

import statistics
from types import ModuleType

import numpy as np
import pytest

from ctc_align.types import Interval

HAND = (
    # reference, hypothesis, hits; precision, recall, F1, over-segmentation, R-value by hand from the paper's formulas
    (10, 10, 8, 0.8, 0.8, 0.8, 0.0, 0.829289),
    (10, 15, 9, 0.6, 0.9, 0.72, 0.5, 0.532917),
    (10, 5, 5, 1.0, 0.5, 2 / 3, -0.5, 0.646447),
    (4, 4, 4, 1.0, 1.0, 1.0, 0.0, 1.0),
    (4, 4, 0, 0.0, 0.0, 0.0, 0.0, 0.146447),
)
"""The last: recall 0, so r1 = 1, r2 = -1/√2, R = 1 - (1 + 0.707107) / 2."""


def most_pairs(hypothesis_ms: list[int], reference_ms: list[int], tolerance_ms: int) -> int:
    """The largest one-to-one matching in any order at all, by augmenting paths (Kuhn), in whole milliseconds."""
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
    """Matching against Kuhn's on tied times, rates against figures by hand, boundaries of a row by hand."""
    faults = []
    random = np.random.default_rng(1)
    for _ in range(300):
        ours, theirs = (sorted((5 * random.integers(0, 40, random.integers(0, 9))).tolist()) for _ in range(2))
        found = module.hits([t / 1000 for t in ours], [t / 1000 for t in theirs], 20.0)
        if found != most_pairs(ours, theirs, 20):
            faults.append(f"hits {found} of {ours}, {theirs}")
    for reference, hypothesis, hits, *expected in HAND:
        one = module.detection(reference, hypothesis, hits)
        names = ("precision", "recall", "f1", "over_segmentation", "r_value")
        many = module.rates(np.array([[reference, hypothesis, hits]]))
        for name, value in zip(names, expected):
            if getattr(one, name) != pytest.approx(value, abs=2e-6):
                faults.append(f"{name} of {reference, hypothesis, hits}: {getattr(one, name)}")
            if name in many and many[name][0] != pytest.approx(value, abs=2e-6):
                faults.append(f"{name} of {reference, hypothesis, hits} resampled: {many[name][0]}")
    # a touches b, b and c leave 1 ms to rounding, a pause before d
    row = [Interval(0.1, 0.2, "a"), Interval(0.2, 0.3, "b"), Interval(0.301, 0.4, "c"), Interval(0.5, 0.6, "d")]
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
    """Means and medians against those of the values written out, weights against what drawing must give."""
    faults = []
    random = np.random.default_rng(2)
    for utterances, size in ((1, 5), (3, 2), (6, 40), (9, 41), (30, 200)):
        values = np.round(random.normal(0, 3, size), 0)
        utterance = random.integers(0, max(1, utterances - 1), size)
        # the last utterance has no values: a resample of nothing but it has no figure
        drawn = np.concatenate([*module.bootstrap_weights(utterances, 50, 3), np.eye(utterances, dtype=int)[-1:]])
        pairs = ((module.bootstrap_means, statistics.fmean), (module.bootstrap_medians, statistics.median))
        for statistic, oracle in pairs:
            found = statistic(values, utterance, drawn)
            for weights, one in zip(drawn, found):
                written_out = [v for v, u in zip(values.tolist(), utterance.tolist()) for _ in range(weights[u])]
                expected = oracle(written_out) if written_out else float("nan")
                if one != pytest.approx(expected, nan_ok=True, abs=1e-9):
                    faults.append(f"{statistic.__name__} of {utterances}, {size}: {one}, expected {expected}")
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
