"""The picture of boundary errors shows the figures."""

from __future__ import annotations

import numpy as np
import pytest

from ctc_align.evaluate import WITHIN_MS, error_figure, evaluate_intervals
from ctc_align.types import Interval

pytest.importorskip("matplotlib")


def evaluation(errors_ms: np.ndarray):
    reference = [Interval(float(i), i + 0.5, f"w{i}") for i in range(len(errors_ms))]
    ours = [Interval(i.start_s + ms / 1000, i.end_s + ms / 2000, i.label) for i, ms in zip(reference, errors_ms)]
    return evaluate_intervals([("a", ours, reference)])


def test_curves_and_bars_are_the_figures():
    found = evaluation(np.random.default_rng(0).normal(5, 60, 400))
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


def test_an_error_of_a_bins_edge_is_in_the_upper_bin():
    figure = error_figure({"words": evaluation(np.array([-100.0, 0.0, 5.0, 100.0]))})
    counts, edges, _ = figure.axes[0].patches[0].get_data()
    assert edges[np.flatnonzero(counts)].tolist() == [-100.0, 0.0, 5.0]
    assert "25.0 % beyond" in figure.axes[0].get_legend().get_texts()[0].get_text()


def test_nothing_paired_can_be_drawn():
    figure = error_figure({"words": evaluate_intervals([("a", [], [])])})
    assert figure.axes[0].get_title(loc="left") == "words: mean absolute error – ms"
